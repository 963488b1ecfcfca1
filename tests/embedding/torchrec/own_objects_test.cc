// Proposers, partitioners, estimators, loaders and statistics of the caller's own, and ours driven
// by hand.

#include "embedding/torchrec/own_objects.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "embedding/option_set_builder.h"
#include "plimsoll/embedding/balanced_search.h"
#include "plimsoll/embedding/planner.h"

namespace plimsoll::embedding::own_objects {
namespace {

using testing::HasSubstr;

// Tables of 64 columns on so many ranks of one host.
PlanningProblem make_problem(const std::vector<std::int64_t>& rows, int world_size,
                             Bytes hbm = 32 * kGiB) {
  PlanningProblem problem;
  Module module;
  module.path = "sparse.ebc";
  for (const std::int64_t num_embeddings : rows) {
    Table table;
    table.name = "t" + std::to_string(module.tables.size());
    table.num_embeddings = num_embeddings;
    table.embedding_dim = 64;
    module.tables.push_back(table);
  }
  problem.model.modules.push_back(module);
  topology::TopologySpec spec;
  spec.world_size = world_size;
  spec.hbm_cap = hbm;
  problem.topology = *topology::make_topology(spec, problem.cost_model.zero_cap_is_default,
                                              problem.cost_model.ssd_tier);
  return problem;
}

Result<PlanningResult> try_plan(const PlanningProblem& problem, const ReferenceOptions& options) {
  return plan_like_torchrec(problem, options, {}, {});
}

PlanningResult plan(const PlanningProblem& problem, const ReferenceOptions& options = {}) {
  auto result = try_plan(problem, options);
  EXPECT_TRUE(result) << (result ? "" : format_error(result.error()));
  return *std::move(result);
}

void expect_equal(const PlanningResult& a, const PlanningResult& b) {
  EXPECT_EQ(a.outcome.plan, b.outcome.plan);
  EXPECT_EQ(a.rating, b.rating);
  EXPECT_EQ(a.num_proposals, b.num_proposals);
  EXPECT_EQ(a.num_plans, b.num_plans);
  EXPECT_EQ(a.outcome.certificate, b.outcome.certificate);
  EXPECT_EQ(a.context_hash, b.context_hash);
}

// Proposes a list, whatever it hears, and notes what that was.
class Listed : public Proposer {
 public:
  explicit Listed(std::vector<Proposal> proposals) : proposals_(std::move(proposals)) {}
  std::string_view name() const override { return "listed"; }
  Result<void> load(const SearchSpace& space) override {
    ++num_loads;
    has_estimator = space.estimator != nullptr;
    next_ = 0;
    return {};
  }
  const Proposal* propose() override {
    return next_ < proposals_.size() ? &proposals_[next_] : nullptr;
  }
  Result<void> feedback(const Feedback& feedback) override {
    heard.push_back(feedback);
    ++next_;
    return {};
  }
  bool needs_rating() const override { return true; }

  int num_loads = 0;
  bool has_estimator = false;
  std::vector<Feedback> heard;

 private:
  std::vector<Proposal> proposals_;
  std::size_t next_ = 0;
};

// The option of the table with this type and kernel.
std::int32_t find_option(const OptionSet& options, std::size_t table, ShardingType type) {
  const TableOptions& t = options.tables[table];
  for (std::int32_t o = t.first_option; o < t.first_option + t.num_options; ++o) {
    const Option& option = options.options[static_cast<std::size_t>(o)];
    if (option.sharding_type == type && option.compute_kernel == ComputeKernel::kFused) return o;
  }
  ADD_FAILURE() << "no option of type " << to_string(type);
  return -1;
}

// Every shard of the i-th option on rank i, as far as there are ranks.
class InTurn : public Partitioner {
 public:
  std::string_view name() const override { return "in_turn"; }
  std::optional<PartitionFailure> partition(const OptionSet& options, const Proposal& proposal,
                                            const topology::Topology& storage_constraint,
                                            PlacedProposal& plan) override {
    ++num_calls;
    plan = {proposal, {0}, {}};
    for (std::size_t i = 0; i < proposal.size(); ++i) {
      const Option& option = options.options[static_cast<std::size_t>(proposal[i])];
      if (option.partition_by != PartitionBy::kUniform) {
        const auto rank = static_cast<std::int32_t>(i) % storage_constraint.world_size;
        plan.ranks.insert(plan.ranks.end(),
                          static_cast<std::size_t>(options.shards(option).num_shards()), rank);
      }
      plan.first_rank.push_back(static_cast<std::int64_t>(plan.ranks.size()));
    }
    change(plan);
    if (!refusal) return std::nullopt;
    PartitionFailure failure;
    failure.message = *refusal;
    return failure;
  }

  std::function<void(PlacedProposal&)> change = [](PlacedProposal&) {};
  std::optional<std::string> refusal;
  int num_calls = 0;
};

// The release's estimates with times changed by a factor for one table, or for all ("").
class Scaled : public ShardEstimator {
 public:
  Scaled(const PlanningProblem& problem, double factor, std::string fqn = "")
      : base_(problem.cost_model, problem.topology, problem.mode),
        factor_(factor),
        fqn_(std::move(fqn)) {}
  std::string_view name() const override { return "scaled"; }
  Result<void> estimate(const TableOptions& table, const TableProfile& profile,
                        const Option& option, std::span<ShardRun> runs) const override {
    PLIMSOLL_RETURN_IF_ERROR(base_.estimate(table, profile, option, runs));
    if (!fqn_.empty() && table.fqn != fqn_) return {};
    for (ShardRun& run : runs) {
      for (double* part : {&run.perf.fwd_compute, &run.perf.fwd_comms, &run.perf.bwd_compute,
                           &run.perf.bwd_comms, &run.perf.prefetch_compute}) {
        *part *= factor_;
      }
    }
    return {};
  }

 private:
  Estimator base_;
  double factor_;
  std::string fqn_;
};

TEST(OwnProposers, OfOursPlanAsTheirNamesDo) {
  const PlanningProblem problem = make_problem({100'000, 3'000'000, 5'000, 800'000}, 4, 2 * kGiB);
  ReferenceOptions named;
  named.proposers = "greedy_sum+uniform+dynamic_programming";
  named.partitioner = "memory_balanced";
  ReferenceOptions own;
  GreedyOptions by_sum;
  by_sum.score = Score::kSum;
  own.own_proposers.push_back(make_greedy_proposer(by_sum));
  own.own_proposers.push_back(make_uniform_proposer());
  own.own_proposers.push_back(make_dynamic_programming_proposer());
  own.own_partitioner = make_memory_balanced_partitioner(problem.cost_model);
  expect_equal(plan(problem, own), plan(problem, named));
}

TEST(OwnProposers, AreLoadedOnceAndHearOfEveryProposal) {
  const PlanningProblem problem = make_problem({4096, 8192}, 2);
  const OptionSet options = plan(problem).enumeration.options;
  const Proposal rows = {find_option(options, 0, ShardingType::kRowWise),
                         find_option(options, 1, ShardingType::kRowWise)};
  const Proposal tables = {find_option(options, 0, ShardingType::kTableWise),
                           find_option(options, 1, ShardingType::kTableWise)};
  const auto proposer = std::make_shared<Listed>(std::vector<Proposal>{tables, rows, tables});
  ReferenceOptions own;
  own.own_proposers = {proposer};
  const PlanningResult result = plan(problem, own);
  EXPECT_EQ(proposer->num_loads, 1);
  EXPECT_TRUE(proposer->has_estimator);
  ASSERT_EQ(proposer->heard.size(), 3U);
  for (const Feedback& feedback : proposer->heard) EXPECT_TRUE(feedback.partitionable);
  EXPECT_EQ(proposer->heard[0].perf_rating, proposer->heard[2].perf_rating);
  EXPECT_EQ(result.num_proposals, 2);  // a proposal that was seen before is answered from memory
  EXPECT_EQ(result.rating,
            std::min(*proposer->heard[0].perf_rating, *proposer->heard[1].perf_rating));
  EXPECT_EQ(result.provenance.options.at("proposers"), "listed");
  EXPECT_NE(result.context_hash, plan(problem).context_hash);
}

TEST(OwnProposers, MayNotProposeWhatIsNoChoice) {
  const PlanningProblem problem = make_problem({4096, 8192}, 2);
  const OptionSet options = plan(problem).enumeration.options;
  const auto num_options = static_cast<std::int32_t>(options.options.size());
  const std::int32_t second = options.tables[1].first_option;
  const std::pair<Proposal, const char*> wrong[] = {{{0}, "no option of table sparse.ebc.t1"},
                                                    {{second}, "no option of table sparse.ebc.t0"},
                                                    {{0, 1}, "two options of table sparse.ebc.t0"},
                                                    {{0, num_options}, "option"},
                                                    {{-1, second}, "option -1"}};
  for (const auto& [proposal, message] : wrong) {
    SCOPED_TRACE(message);
    ReferenceOptions own;
    own.own_proposers = {std::make_shared<Listed>(std::vector<Proposal>{proposal})};
    const auto result = try_plan(problem, own);
    ASSERT_FALSE(result);
    EXPECT_EQ(result.error().code, ErrorCode::kValue);
    EXPECT_EQ(result.error().place, "listed");
    EXPECT_THAT(result.error().message, HasSubstr(message));
  }
}

// Adds options that cost a quarter of the table's own, and proposes them.
class Cheapening : public Listed {
 public:
  Cheapening() : Listed({}) {}
  Result<void> load(const SearchSpace& space) override {
    proposal_.clear();
    OptionSet& options = *space.options;
    for (std::size_t t = 0; t < options.tables.size(); ++t) {
      const std::int32_t like = find_option(options, t, ShardingType::kTableWise);
      Option option = options.options[static_cast<std::size_t>(like)];
      ShardRun run = options.shards(like).runs.front();
      run.perf.fwd_compute /= 4;
      run.perf.bwd_compute /= 4;
      option.first_run = static_cast<std::int64_t>(options.runs.size());
      options.runs.push_back(run);
      proposal_.push_back(static_cast<std::int32_t>(options.options.size()));
      options.options.push_back(option);
    }
    is_done_ = false;
    return {};
  }
  const Proposal* propose() override { return is_done_ ? nullptr : &proposal_; }
  Result<void> feedback(const Feedback&) override {
    is_done_ = true;
    return {};
  }

 private:
  Proposal proposal_;
  bool is_done_ = false;
};

TEST(OwnProposers, HaveNoBoundForOptionsOfTheirOwn) {
  PlanningProblem problem = make_problem({4096}, 1);
  problem.model.constraints["t0"].sharding_types = {ShardingType::kTableWise};
  const PlanningResult known = plan(problem);
  ASSERT_TRUE(known.outcome.certificate.lower_bound);
  ReferenceOptions own;
  own.own_proposers = {std::make_shared<Cheapening>()};
  const PlanningResult cheaper = plan(problem, own);
  EXPECT_LT(cheaper.rating, *known.outcome.certificate.lower_bound);
  EXPECT_FALSE(cheaper.outcome.certificate.lower_bound);
  EXPECT_EQ(cheaper.outcome.status, SolveStatus::kFeasible);
}

TEST(OwnPartitioner, PlacesEveryProposal) {
  const PlanningProblem problem = make_problem({4096, 8192, 100}, 2);
  ReferenceOptions own;
  own.proposers = "uniform";
  const auto partitioner = std::make_shared<InTurn>();
  own.own_partitioner = partitioner;
  const PlanningResult result = plan(problem, own);
  EXPECT_EQ(partitioner->num_calls, result.num_proposals);
  EXPECT_EQ(result.num_plans, result.num_proposals);
  EXPECT_EQ(result.provenance.options.at("partitioner"), "in_turn");
  ASSERT_TRUE(result.outcome.certificate.lower_bound);
  EXPECT_LE(*result.outcome.certificate.lower_bound, result.rating);
  for (std::size_t i = 0; i < 3; ++i) {
    for (std::int64_t r = result.best.first_rank[i]; r < result.best.first_rank[i + 1]; ++r) {
      EXPECT_EQ(result.best.ranks[static_cast<std::size_t>(r)], static_cast<std::int32_t>(i % 2));
    }
  }
}

TEST(OwnPartitioner, TellsWhyItFindsNoPlace) {
  const PlanningProblem problem = make_problem({4096}, 2);
  ReferenceOptions own;
  const auto partitioner = std::make_shared<InTurn>();
  partitioner->refusal = "not on a Friday";
  own.own_partitioner = partitioner;
  const PlanningResult result = plan(problem, own);
  EXPECT_EQ(result.outcome.status, SolveStatus::kLimit);
  ASSERT_TRUE(result.failure);
  EXPECT_THAT(result.failure->message, HasSubstr("not on a Friday"));
}

TEST(OwnPartitioner, MayNotAnswerWithWhatIsNoPlan) {
  PlanningProblem problem = make_problem({4096, 8192}, 2);
  for (const char* name : {"t0", "t1"}) {
    problem.model.constraints[name].sharding_types = {ShardingType::kTableWise};
  }
  const std::pair<std::function<void(PlacedProposal&)>, const char*> wrong[] = {
      {[](PlacedProposal& plan) { plan.ranks.back() = 2; }, "rank 2 of 2"},
      {[](PlacedProposal& plan) { plan.ranks.front() = -1; }, "rank -1 of 2"},
      {[](PlacedProposal& plan) { plan.ranks.pop_back(); }, "not one rank for every shard"},
      {[](PlacedProposal& plan) {
         plan.first_rank = {0, 0, 2};
       },
       "not one rank for every shard"},
      {[](PlacedProposal& plan) {
         plan.first_rank = {1, 1, 2};
       },
       "not one rank for every shard"},
      {[](PlacedProposal& plan) { plan.first_rank.pop_back(); }, "not one rank for every shard"},
      {[](PlacedProposal& plan) { plan.options.pop_back(); }, "no option of table sparse.ebc.t1"}};
  for (const auto& [change, message] : wrong) {
    SCOPED_TRACE(message);
    ReferenceOptions own;
    const auto partitioner = std::make_shared<InTurn>();
    partitioner->change = change;
    own.own_partitioner = partitioner;
    const auto result = try_plan(problem, own);
    ASSERT_FALSE(result);
    EXPECT_EQ(result.error().place, "in_turn");
    EXPECT_THAT(result.error().message, HasSubstr(message));
  }
}

TEST(CheckPlacement, WantsNoRanksOfUniformOptions) {
  const OptionSet options = OptionSetBuilder(2, 2)
                                .table("a")
                                .option(ShardingType::kRowWise, 2, {}, 1)
                                .table("b")
                                .option(ShardingType::kTableWise, 1, {}, 1)
                                .set();
  EXPECT_TRUE(check_placement(options, {{0, 1}, {0, 0, 1}, {1}}, "x"));
  EXPECT_FALSE(check_placement(options, {{0, 1}, {0, 2, 3}, {0, 1, 1}}, "x"));
}

TEST(OwnEstimator, RulesPlanBoundAndBill) {
  PlanningProblem problem = make_problem({100'000, 3'000'000, 5'000}, 4, 2 * kGiB);
  const PlanningResult before = plan(problem);
  problem.enumeration.estimator = std::make_shared<Scaled>(problem, 2);
  const PlanningResult after = plan(problem);
  EXPECT_EQ(after.rating, 2 * before.rating);
  EXPECT_EQ(after.outcome.plan, before.outcome.plan);
  EXPECT_EQ(*after.outcome.certificate.lower_bound, 2 * *before.outcome.certificate.lower_bound);
  EXPECT_NE(after.context_hash, before.context_hash);
  EXPECT_EQ(after.provenance.options.at("estimator"), "scaled");
  const Bill bill = *make_bill(problem, after);
  EXPECT_EQ(bill.ms.at("total"), rank_perf(after.enumeration.options, after.best));
  EXPECT_FALSE(bill.bytes.contains("hbm_weights"));  // the causes are the estimator's to know
  PlanningProblem plain = problem;
  plain.enumeration.estimator = nullptr;
  const Bill whole = *make_bill(plain, before);
  for (const char* tier : {"hbm", "ddr", "ssd", "dense", "kjt", "reserve", "capacity_hbm"}) {
    EXPECT_EQ(bill.bytes.at(tier), whole.bytes.at(tier)) << tier;
  }
}

TEST(OwnEstimator, KnowsTablesByName) {
  PlanningProblem problem = make_problem({4096, 4096}, 2);
  for (const char* name : {"t0", "t1"}) {
    problem.model.constraints[name].sharding_types = {ShardingType::kTableWise};
  }
  const PlanningResult before = plan(problem);
  problem.enumeration.estimator = std::make_shared<Scaled>(problem, 8, "sparse.ebc.t1");
  const PlanningResult after = plan(problem);
  EXPECT_EQ(after.rating, 8 * before.rating);
  EXPECT_EQ(score(after.enumeration.options, 0, Score::kSum),
            score(before.enumeration.options, 0, Score::kSum));
}

TEST(OwnEstimator, RulesTheBalancedSearch) {
  PlanningProblem problem = make_problem({100'000, 3'000'000, 5'000, 70'000}, 4, 2 * kGiB);
  SearchOptions search;
  search.effort = 5000;
  const auto before =
      plan_balanced(problem, BalancedOptions::minimizing(BalanceObjective::kRating), search);
  ASSERT_TRUE(before);
  problem.enumeration.estimator = std::make_shared<Scaled>(problem, 2);
  const auto after =
      plan_balanced(problem, BalancedOptions::minimizing(BalanceObjective::kRating), search);
  ASSERT_TRUE(after);
  EXPECT_NEAR(after->times.rating, 2 * before->times.rating, 1e-9 * before->times.rating);
  EXPECT_NEAR(*after->planning.outcome.certificate.lower_bound,
              2 * *before->planning.outcome.certificate.lower_bound, 1e-6 * before->times.rating);
}

TEST(OwnEstimator, MayNotGiveWhatCannotBeCompared) {
  constexpr double kWrong[] = {std::numeric_limits<double>::quiet_NaN(),
                               std::numeric_limits<double>::infinity(), -1};
  for (const double factor : kWrong) {
    SCOPED_TRACE(factor);
    PlanningProblem problem = make_problem({4096, 4096}, 2);
    problem.enumeration.estimator = std::make_shared<Scaled>(problem, factor, "sparse.ebc.t1");
    const auto result = try_plan(problem, {});
    ASSERT_FALSE(result);
    EXPECT_EQ(result.error().code, ErrorCode::kValue);
    EXPECT_EQ(result.error().place, "table sparse.ebc.t1");
    EXPECT_THAT(result.error().message, HasSubstr("the estimator scaled gives"));
  }
}

// A stored plan, and how often it was asked for.
class Counting : public PlanLoader {
 public:
  std::string plan_id() const override { return "counted"; }
  std::optional<std::string> plan_context_hash() override { return hash; }
  Result<LoadedOptions> load() override {
    ++num_loads;
    if (error) return tl::unexpected<Error>(*error);
    return options;
  }

  std::optional<std::string> hash;
  LoadedOptions options;
  std::optional<Error> error;
  int num_loads = 0;
};

TEST(OwnLoader, BringsAPlanWithItsBound) {
  PlanningProblem problem = make_problem({100'000, 3'000'000, 5'000}, 4);
  for (const char* name : {"t0", "t1", "t2"}) {
    problem.model.constraints[name].sharding_types = {
        name == std::string_view("t1") ? ShardingType::kRowWise : ShardingType::kTableWise};
  }
  const PlanningResult first = plan(problem);
  const auto loader = std::make_shared<Counting>();
  loader->options = *make_loaded_options(problem, *first.outcome.plan);
  loader->hash = context_hash(problem, {});
  ReferenceOptions own;
  own.loader = loader;
  const PlanningResult second = plan(problem, own);
  EXPECT_EQ(loader->num_loads, 1);
  EXPECT_EQ(second.num_proposals, 0);
  EXPECT_EQ(second.outcome.plan, first.outcome.plan);
  EXPECT_EQ(second.outcome.certificate, first.outcome.certificate);

  // A bound of all tables is none of some, nor of shards of one rank on another.
  const LoadedOptions whole = loader->options;
  loader->options.erase(loader->options.begin());
  const PlanningResult partial = plan(problem, own);
  EXPECT_EQ(partial.outcome.plan->tables.size(), 2U);
  EXPECT_FALSE(partial.outcome.certificate.lower_bound);
  loader->options = whole;
  int num_moved = 0;
  for (auto& [hash, option] : loader->options) {
    if (option.ranks.size() == 1) continue;
    std::swap(option.ranks.front(), option.ranks.back());
    ++num_moved;
  }
  ASSERT_EQ(num_moved, 1);
  EXPECT_FALSE(plan(problem, own).outcome.certificate.lower_bound);
  loader->options = whole;

  // Times that nobody else computes are rated as stored, and nothing is proved of them.
  for (auto& [hash, option] : loader->options) {
    for (ShardRun& run : option.runs) run.perf.fwd_compute /= 1024;
  }
  const PlanningResult third = plan(problem, own);
  EXPECT_LT(third.rating, first.rating);
  EXPECT_FALSE(third.outcome.certificate.lower_bound);
}

TEST(OwnLoader, IsNotAskedForAPlanOfAnotherContext) {
  const PlanningProblem problem = make_problem({4096}, 2);
  const auto loader = std::make_shared<Counting>();
  loader->hash = "another";
  ReferenceOptions own;
  own.loader = loader;
  const PlanningResult result = plan(problem, own);
  EXPECT_EQ(result.failure->kind, "planner_input_context_mismatch");
  EXPECT_THAT(result.failure->message, HasSubstr("counted"));
  EXPECT_EQ(loader->num_loads, 0);
}

TEST(OwnLoader, MayHaveNothingOrFail) {
  const PlanningProblem problem = make_problem({4096, 8192}, 2);
  const auto loader = std::make_shared<Counting>();
  ReferenceOptions own;
  own.loader = loader;
  expect_equal(plan(problem, own), plan(problem));
  EXPECT_EQ(loader->num_loads, 1);
  loader->error = Error{ErrorCode::kIo, "store", "no route to the store", "", ""};
  const auto result = try_plan(problem, own);
  ASSERT_FALSE(result);
  EXPECT_EQ(result.error(), *loader->error);
}

// Notes what it is told.
class Noting : public Stats {
 public:
  void log(const PlanningProblem& problem, const PlanningResult& result,
           double run_time_s) override {
    batch_sizes.push_back(problem.batch_size);
    ratings.push_back(result.rating);
    EXPECT_GE(run_time_s, 0);
  }
  std::vector<std::int64_t> batch_sizes;
  std::vector<double> ratings;
};

TEST(OwnStats, AreToldOfEverySearchAndOfNothingElse) {
  PlanningProblem problem = make_problem({4096, 8192}, 2);
  problem.batch_size = 77;
  const auto stats = std::make_shared<Noting>();
  ReferenceOptions own;
  own.stats = {stats, stats};
  const PlanningResult found = plan(problem, own);
  EXPECT_EQ(stats->batch_sizes, (std::vector<std::int64_t>{77, 77}));
  EXPECT_EQ(stats->ratings, (std::vector<double>{found.rating, found.rating}));

  const auto partitioner = std::make_shared<InTurn>();
  partitioner->refusal = "full";
  own.own_partitioner = partitioner;
  plan(problem, own);  // no plan, which is told, too
  ASSERT_EQ(stats->ratings.size(), 4U);
  EXPECT_TRUE(std::isnan(stats->ratings.back()));

  plan(make_problem({4096}, 2, 1000), own);  // nothing is left to search in
  plan(make_problem({}, 2), own);            // nothing to shard
  const auto loader = std::make_shared<Counting>();
  loader->hash = "another";
  own.loader = loader;
  plan(problem, own);  // a plan that is refused
  EXPECT_EQ(stats->ratings.size(), 4U);
}

// Ours as objects, without a planner.
TEST(OurObjects, WorkAlone) {
  const PlanningProblem problem = make_problem({100'000, 3'000'000, 5'000}, 4, 2 * kGiB);
  const Estimator estimator(problem.cost_model, problem.topology, problem.mode);
  Enumeration enumeration = *enumerate(estimator, problem.model, problem.enumeration);
  const auto proposer = make_uniform_proposer();
  ASSERT_TRUE(proposer->load({&enumeration.options, &estimator, enumeration.profiles, nullptr}));
  const auto partitioner = make_greedy_perf_partitioner(problem.cost_model);
  const Reservation reservation = *reserve(problem.cost_model, problem.reservation,
                                           problem.topology, problem.model, problem.batch_size);
  double best = std::numeric_limits<double>::infinity();
  std::int64_t num_proposals = 0;
  while (const Proposal* proposal = proposer->propose()) {
    ++num_proposals;
    PlacedProposal placed;
    const auto failure =
        partitioner->partition(enumeration.options, *proposal, reservation.topology, placed);
    if (!failure) {
      best = std::min(best, rate(PerfModelKind::kPerf, enumeration.options, placed));
    }
    Feedback feedback;
    feedback.partitionable = !failure;
    feedback.plan = &placed;
    ASSERT_TRUE(proposer->feedback(feedback));
  }
  ReferenceOptions named;
  named.proposers = "uniform";
  const PlanningResult whole = plan(problem, named);
  EXPECT_EQ(best, whole.rating);
  EXPECT_EQ(num_proposals, whole.num_proposals);
}

}  // namespace
}  // namespace plimsoll::embedding::own_objects
