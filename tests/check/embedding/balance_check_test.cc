// The judge of balanced plans: sound plans pass, and whatever is changed in their claims is found.

#include "plimsoll/check/balance_check.h"

#include <gtest/gtest.h>

#include <atomic>
#include <functional>

#include "embedding/balanced/balanced_record.h"
#include "plimsoll/embedding/balanced_frontier.h"
#include "plimsoll/study/search_aid.h"

namespace plimsoll::check {
namespace {

using embedding::BalanceObjective;

embedding::PlanningProblem make_problem(Bytes hbm = 4 * kGiB) {
  embedding::PlanningProblem problem;
  problem.batch_size = 256;
  embedding::Module module;
  module.path = "ebc";
  const std::int64_t rows[] = {4000000, 1000000, 200000, 4096, 4096, 1000};
  for (std::size_t t = 0; t < std::size(rows); ++t) {
    embedding::Table table;
    table.name = "t" + std::to_string(t);
    table.num_embeddings = rows[t];
    table.embedding_dim = t % 2 == 0 ? 128 : 64;
    problem.model.constraints[table.name].pooling_factors = {static_cast<double>(3 + 7 * t)};
    module.tables.push_back(table);
  }
  problem.model.modules.push_back(module);
  topology::TopologySpec spec;
  spec.world_size = 4;
  spec.local_world_size = 2;
  spec.hbm_cap = hbm;
  problem.topology = *topology::make_topology(spec, true, false);
  return problem;
}

struct Made {
  embedding::PlanningProblem problem;
  embedding::BalancedResult result;
  StatedBalance stated;
  embedding::BalancedOptions options;  // as the answer records them
};

Made make_plan(embedding::PlanningProblem problem, BalanceObjective objective, bool keeps_rating) {
  Made made{std::move(problem), {}, {}, {}};
  auto options = embedding::BalancedOptions::minimizing(embedding::BalanceObjective::kRating);
  options.bridge.objective = objective;
  options.bridge.step_model.ms_per_table = .01;
  options.bridge.step_model.ms_per_output_byte = 1e-7;
  options.keeps_reference_rating = keeps_rating;
  SearchOptions search;
  search.effort = 20000;
  auto result = embedding::plan_balanced(made.problem, options, search, {});
  EXPECT_TRUE(result) << (result ? "" : format_error(result.error()));
  made.result = *std::move(result);
  std::map<std::string, std::string> recorded;
  record_balanced(options, made.result, recorded);
  made.options = *embedding::read_balanced_record(recorded);
  made.stated.options = made.options;
  made.stated.status = made.result.planning.outcome.status;
  made.stated.times = made.result.times;
  made.stated.certificate = made.result.planning.outcome.certificate;
  made.stated.bound = made.result.bound;
  return made;
}

BalanceReport judge(const Made& made) {
  ShardingReport sharding;
  const auto& plan = made.result.planning.outcome.plan;
  if (plan) {
    CheckOptions options;
    options.batch_size = made.problem.batch_size;
    auto report = check_sharding(made.problem.model, *plan, made.problem.topology,
                                 made.problem.cost_model, made.problem.mode, options);
    EXPECT_TRUE(report);
    sharding = *std::move(report);
    EXPECT_TRUE(sharding.violations().empty());
  }
  auto report = check_balance(made.problem, plan ? &*plan : nullptr, &sharding, made.stated,
                              study::make_search_aid(made.problem, made.options));
  EXPECT_TRUE(report) << (report ? "" : format_error(report.error()));
  return *std::move(report);
}

TEST(BalanceCheck, AcceptsWhatTheSearchMakes) {
  for (const auto objective :
       {BalanceObjective::kRating, BalanceObjective::kStep, BalanceObjective::kTime}) {
    for (const bool keeps_rating : {false, true}) {
      const Made made = make_plan(make_problem(), objective, keeps_rating);
      ASSERT_TRUE(made.result.planning.outcome.plan);
      const BalanceReport report = judge(made);
      for (const Finding& violation : report.violations()) ADD_FAILURE() << violation.message;
      ASSERT_TRUE(report.proved_bound);
      EXPECT_GT(*report.proved_bound, 0);
      EXPECT_LE(*report.proved_bound, made.stated.certificate->objective * (1 + 1e-9));
    }
  }
}

TEST(BalanceCheck, AcceptsAProofThatNothingFits) {
  const Made made = make_plan(make_problem(300 * kMiB), BalanceObjective::kTime, true);
  Made small = made;
  if (small.result.planning.outcome.status != SolveStatus::kInfeasible) {
    for (topology::Storage& device : small.problem.topology.devices) device = {200 * kMiB, 0, 0};
    small = make_plan(small.problem, BalanceObjective::kTime, true);
  }
  ASSERT_EQ(small.result.planning.outcome.status, SolveStatus::kInfeasible);
  EXPECT_FALSE(small.result.planning.outcome.explanation.lines.empty());
  EXPECT_TRUE(judge(small).violations().empty());
  // On a larger machine the same prices prove nothing.
  small.problem = make_problem();
  const BalanceReport report = judge(small);
  ASSERT_EQ(report.violations().size(), 1U);
  EXPECT_EQ(report.violations()[0].code, FindingCode::kBoundNotProved);
}

TEST(BalanceCheck, FindsWhateverIsChanged) {
  const Made made = make_plan(make_problem(), BalanceObjective::kTime, true);
  ASSERT_TRUE(made.stated.bound);
  ASSERT_TRUE(made.stated.options.bridge.rating_cap);
  const auto code_after = [&](const std::function<void(StatedBalance&)>& change) {
    Made changed = made;
    change(changed.stated);
    const BalanceReport report = judge(changed);
    return report.violations().empty() ? FindingCode::kHazard : report.violations()[0].code;
  };
  using Code = FindingCode;
  EXPECT_EQ(code_after([](StatedBalance& s) { s.times->rating *= 1 + 1e-6; }),
            Code::kTimesMismatch);
  EXPECT_EQ(code_after([](StatedBalance& s) { s.times->step *= 1 - 1e-6; }), Code::kTimesMismatch);
  EXPECT_EQ(code_after([](StatedBalance& s) { s.times->time += 1e-4; }), Code::kTimesMismatch);
  EXPECT_EQ(code_after([](StatedBalance& s) { s.certificate->objective *= .999; }),
            Code::kTimesMismatch);
  EXPECT_EQ(code_after([](StatedBalance& s) { *s.options.bridge.rating_cap *= .9; }),
            Code::kRatingAboveCap);
  EXPECT_EQ(code_after([](StatedBalance& s) {
              s.certificate->lower_bound = *s.certificate->lower_bound * 1.001;
            }),
            Code::kBoundNotProved);
  EXPECT_EQ(code_after([](StatedBalance& s) {
              s.bound.reset();
              s.certificate->proof.kind = ProofKind::kPrices;
            }),
            Code::kBoundNotProved);
  EXPECT_EQ(code_after([](StatedBalance& s) {
              s.bound->value *= 1.001;
              for (auto& part : s.bound->cases) part.value *= 1.001;
            }),
            Code::kBoundNotProved);
  EXPECT_EQ(code_after([](StatedBalance& s) { s.bound->cases.pop_back(); }), Code::kBoundNotProved);
  EXPECT_EQ(code_after([](StatedBalance& s) { s.options.bridge.step_model.kernel_weight = .5; }),
            Code::kTimesMismatch);
}

TEST(BalanceCheck, FindsChangedPrices) {
  Made made = make_plan(make_problem(), BalanceObjective::kRating, false);
  ASSERT_TRUE(made.stated.bound);
  int num_changed = 0, num_found = 0;
  const auto count_with = [&](double& number, double changed) {
    const double was = number;
    number = changed;
    ++num_changed;
    num_found += judge(made).violations().empty() ? 0 : 1;
    number = was;
  };
  for (auto& part : made.stated.bound->cases) {
    for (double& weight : part.prices.theta) count_with(weight, -1);
    for (double& price : part.prices.price) count_with(price, -1);
    for (auto& proof : part.windows.proofs) {
      count_with(proof.room, proof.room / 2);
      for (double& value : proof.value) count_with(value, -1);
    }
  }
  EXPECT_GT(num_changed, 0);
  EXPECT_GT(num_found, 0);
  EXPECT_TRUE(judge(made).violations().empty());
}

TEST(BalanceCheck, SaysWhenABoundWasSearchedFor) {
  Made made = make_plan(make_problem(), BalanceObjective::kRating, false);
  made.stated.certificate->lower_bound = made.stated.certificate->objective;
  made.stated.certificate->proof = ProofKind::kSearchToTheEnd;
  made.stated.status = SolveStatus::kOptimal;
  const BalanceReport report = judge(made);
  const bool is_searched = *report.proved_bound * (1 + 1e-7) < made.stated.certificate->objective;
  EXPECT_EQ(report.is_bound_searched, is_searched);
  // It is proved, refuted by a better plan, or named.
  EXPECT_TRUE(!report.proof.empty() || !report.violations().empty() || !report.warnings().empty());
}

TEST(BalanceCheck, SearchesAgainWhereABoundWasSearchedFor) {
  Made made = make_plan(make_problem(), BalanceObjective::kRating, false);
  made.stated.bound.reset();
  made.stated.certificate->proof = ProofKind::kSearchToTheEnd;
  Certificate& certificate = *made.stated.certificate;
  certificate.lower_bound = certificate.objective * .9;  // far below what is possible
  made.stated.status = SolveStatus::kFeasible;
  BalanceReport report = judge(made);
  EXPECT_TRUE(report.violations().empty());
  EXPECT_TRUE(report.is_bound_searched);
  EXPECT_TRUE(report.warnings().empty());
  EXPECT_FALSE(report.proof.empty());
  certificate.lower_bound = certificate.objective * 1.01;  // the plan itself is below
  report = judge(made);
  ASSERT_EQ(report.violations().size(), 1U);
  EXPECT_EQ(report.violations()[0].code, FindingCode::kBoundNotProved);
}

TEST(BalanceCheck, WantsAProofOfWhatIsSaidToBeOptimal) {
  Made made = make_plan(make_problem(), BalanceObjective::kRating, false);
  made.stated.status = SolveStatus::kOptimal;
  made.stated.certificate->lower_bound = made.stated.certificate->objective * .9;
  const BalanceReport report = judge(made);
  ASSERT_EQ(report.violations().size(), 1U);
  EXPECT_EQ(report.violations()[0].code, FindingCode::kBoundNotProved);
  made.stated.tolerance = .2;  // what the plan says of itself is no licence
  ASSERT_EQ(judge(made).violations().size(), 1U);
  made.stated.accepted_tolerance = .2;
  EXPECT_TRUE(judge(made).violations().empty());
}

TEST(BalanceCheck, HoldsTablesOfHostsTogetherByTheirHost) {
  embedding::PlanningProblem problem = make_problem();
  problem.model.modules[0].tables.resize(2);
  problem.model.modules[0].tables[1].embedding_dim = 128;
  problem.model.constraints["t0"].sharding_types = {embedding::ShardingType::kTableColumnWise};
  problem.model.constraints["t1"].sharding_types = {embedding::ShardingType::kTableRowWise};
  auto options = embedding::BalancedOptions::minimizing(embedding::BalanceObjective::kRating);
  options.bridge.together = {{"ebc.t0", "ebc.t1"}};
  SearchOptions search;
  search.effort = 1000;
  auto result = embedding::plan_balanced(problem, options, search, {});
  ASSERT_TRUE(result);
  ASSERT_TRUE(result->planning.outcome.plan);
  StatedBalance stated;
  stated.options = options;
  const auto num_violations = [&] {
    auto report = check_balance(problem, &*result->planning.outcome.plan, nullptr, stated,
                                study::make_search_aid(problem, options));
    EXPECT_TRUE(report);
    return report->violations().size();
  };
  EXPECT_EQ(num_violations(), 0U);
  for (auto& table : result->planning.outcome.plan->tables) {
    if (table.table == "t0") table.ranks.front().first = (table.ranks.front().first + 2) % 4;
  }
  EXPECT_EQ(num_violations(), 1U);
}

TEST(BalanceCheck, FindsBrokenRules) {
  Made made = make_plan(make_problem(), BalanceObjective::kRating, false);
  const auto& tables = made.result.planning.outcome.plan->tables;
  const auto whole = std::find_if(tables.begin(), tables.end(),
                                  [](const auto& table) { return table.num_shards() == 1; });
  ASSERT_NE(whole, tables.end());
  const int rank = whole->ranks.front().first;
  embedding::BridgeOptions& rules = made.stated.options.bridge;
  const auto num_broken = [&] {
    int count = 0;
    for (const Finding& violation : judge(made).violations()) {
      count += violation.code == FindingCode::kRuleBroken ? 1 : 0;
    }
    return count;
  };
  rules.allowed_ranks[whole->fqn()] = {rank};
  EXPECT_EQ(num_broken(), 0);
  rules.allowed_ranks[whole->fqn()] = {(rank + 1) % 4};
  EXPECT_EQ(num_broken(), 1);
  rules.allowed_ranks.clear();
  rules.forbidden_ranks[whole->fqn()] = {(rank + 1) % 4};
  EXPECT_EQ(num_broken(), 0);
  rules.forbidden_ranks[whole->fqn()] = {rank};
  EXPECT_EQ(num_broken(), 1);
  rules.forbidden_ranks.clear();
  std::vector<std::string> all;
  for (const auto& table : tables) all.push_back(table.fqn());
  rules.together = {all};
  EXPECT_GT(num_broken(), 0);
  rules.together.clear();
  rules.apart = {all};  // six tables, four ranks
  EXPECT_GT(num_broken(), 0);
}

TEST(BalancedRecord, ComesBack) {
  auto options = embedding::BalancedOptions::minimizing(embedding::BalanceObjective::kRating);
  options.bridge.objective = BalanceObjective::kStep;
  options.bridge.step_model = {1.7, 1.1, .1 + .2, 7.3e-7, .01, 3, false};
  options.bridge.pools_ddr = true;
  options.keeps_reference_rating = true;
  options.max_column_blocks = 8;
  options.uses_reference = false;
  embedding::BalancedResult result;
  result.rating_cap = 1.0 / 3;
  std::map<std::string, std::string> recorded;
  record_balanced(options, result, recorded);
  const auto back = embedding::read_balanced_record(recorded);
  ASSERT_TRUE(back);
  EXPECT_EQ(back->bridge.objective, options.bridge.objective);
  EXPECT_EQ(back->bridge.step_model, options.bridge.step_model);
  EXPECT_EQ(back->bridge.rating_cap, result.rating_cap);
  EXPECT_EQ(back->bridge.pools_ddr, true);
  EXPECT_EQ(back->keeps_reference_rating, true);
  EXPECT_EQ(back->max_column_blocks, 8);
  EXPECT_EQ(back->uses_reference, false);
  for (const char* key : {"objective", "step_model", "rating_cap", "max_column_blocks"}) {
    auto broken = recorded;
    broken[key] = "1,x";
    const auto refused = embedding::read_balanced_record(broken);
    ASSERT_FALSE(refused) << key;
    EXPECT_EQ(refused.error().place, std::string("provenance/options/") + key);
  }
}

TEST(BalancedRecord, NamesWhereSearchesStopped) {
  for (const std::vector<std::int64_t>& stops :
       {std::vector<std::int64_t>{-1, 5}, {12, 1, -1, 7}, {3, -1}}) {
    EXPECT_EQ(*embedding::read_stops(embedding::write_stops(stops)), stops);
  }
  EXPECT_EQ(embedding::write_stops({-1, -1}), "");
  EXPECT_TRUE(embedding::read_stops("")->empty());
  EXPECT_EQ(*embedding::read_stops("proposal 17"), std::vector<std::int64_t>{17});
  EXPECT_FALSE(embedding::read_stops("proposal x"));
}

TEST(BalancedFrontier, HoldsTheLeastTimeBetweenItsCurves) {
  const embedding::PlanningProblem problem = make_problem();
  auto options = embedding::BalancedOptions::minimizing(embedding::BalanceObjective::kRating);
  options.bridge.objective = BalanceObjective::kTime;
  SearchOptions search;
  search.effort = 20000;
  const auto found = embedding::plan_balanced_frontier(problem, options, 4, search, {});
  ASSERT_TRUE(found) << format_error(found.error());
  const math::Frontier& frontier = found->frontier;
  ASSERT_FALSE(frontier.is_empty());
  EXPECT_GT(frontier.num_breakpoints(), 1U);
  EXPECT_EQ(frontier.min_ms(), found->unlimited.planning.outcome.certificate.objective);
  EXPECT_LE(frontier.lower().front().x, frontier.min_bytes());
  for (const math::FrontierPoint& point : frontier.breakpoints()) {
    EXPECT_LE(math::value_at(frontier.lower(), point.bytes), point.ms * (1 + 1e-12));
    // A search of its own at that size is neither better than proved nor, much, than found.
    options.bridge.max_hbm = point.bytes;
    const auto own = embedding::plan_balanced(problem, options, search, {});
    ASSERT_TRUE(own);
    ASSERT_TRUE(own->planning.outcome.plan);
    const double objective = own->planning.outcome.certificate.objective;
    EXPECT_GE(objective * (1 + 1e-9), math::value_at(frontier.lower(), point.bytes));
    for (const topology::Storage& used :
         rank_storage(own->planning.enumeration.options, own->planning.best)) {
      EXPECT_LE(used.hbm, point.bytes);
    }
  }
  for (std::size_t i = 1; i < frontier.lower().size(); ++i) {
    EXPECT_LT(frontier.lower()[i].y, frontier.lower()[i - 1].y);
  }
}

// A table of 2.4 GiB, whole on one rank or there in host memory: below what the latter needs of HBM
// nothing fits, and not already a little above that.
TEST(BalancedFrontier, BeginsWhereThePlansBegin) {
  embedding::PlanningProblem problem = make_problem();
  problem.model.modules[0].tables.resize(1);
  problem.model.modules[0].tables[0].num_embeddings = 5000000;
  auto& constraints = problem.model.constraints["t0"];
  constraints.sharding_types = {embedding::ShardingType::kTableWise};
  constraints.compute_kernels = {embedding::ComputeKernel::kFused,
                                 embedding::ComputeKernel::kFusedUvm};
  SearchOptions search;
  search.effort = 1000;
  const auto found = embedding::plan_balanced_frontier(problem, {}, 4, search, {});
  ASSERT_TRUE(found) << format_error(found.error());
  EXPECT_EQ(found->frontier.num_breakpoints(), 2U);
  const Bytes least = found->frontier.lower().front().x;
  EXPECT_LE(least, found->frontier.min_bytes());
  EXPECT_GT(least, found->frontier.min_bytes() - 3000);  // a millionth of the largest plan's
}

// Cancelled somewhere, in the plan without a limit or at a limit, the plans of the curve are made
// again from where it says that it stopped.
TEST(BalancedFrontier, MakesTheSamePlansAgainFromWhereItStopped) {
  const embedding::PlanningProblem problem = make_problem();
  SearchOptions search;
  search.effort = 20000;
  int num_cut = 0, num_left_out = 0;
  for (int num_calls = 0; num_calls < 60; num_calls += 3) {
    SCOPED_TRACE(num_calls);
    auto options = embedding::BalancedOptions::minimizing(embedding::BalanceObjective::kRating);
    std::atomic<bool> cancel = false;
    RunContext context;
    context.cancel = &cancel;
    int num_left = num_calls;
    context.progress = [&](const Progress&) { cancel = cancel || num_left-- == 0; };
    const auto cut = embedding::plan_balanced_frontier(problem, options, 4, search, context);
    ASSERT_TRUE(cut) << format_error(cut.error());
    const embedding::PlanningResult& planning = cut->unlimited.planning;
    num_cut += planning.outcome.stop == StopReason::kCancelled ? 1 : 0;
    options.stops = *embedding::read_stops(planning.provenance.stopped_at);
    num_left_out += options.stops.empty() || cut->frontier.is_empty() ? 0 : 1;
    const auto again = embedding::plan_balanced_frontier(problem, options, 4, search, {});
    ASSERT_TRUE(again) << format_error(again.error());
    EXPECT_EQ(again->frontier.upper(), cut->frontier.upper());
    ASSERT_EQ(again->plans.size(), cut->plans.size());
    for (std::size_t i = 0; i < cut->plans.size(); ++i) {
      EXPECT_EQ(again->plans[i].options, cut->plans[i].options);
      EXPECT_EQ(again->plans[i].ranks, cut->plans[i].ranks);
    }
    EXPECT_EQ(again->unlimited.planning.provenance.stopped_at, planning.provenance.stopped_at);
  }
  EXPECT_GT(num_cut, 5);
  EXPECT_GT(num_left_out, 5);
}

// A mean-pooled table that fits only cut by rows, beside one that cannot be: every plan of the
// curve has that hazard, and the curves know it.
TEST(BalancedFrontier, IsOfOneKindOfPlans) {
  embedding::PlanningProblem problem = make_problem();
  std::vector<embedding::Table>& tables = problem.model.modules[0].tables;
  tables.resize(2);
  tables[0].num_embeddings = 20000000;
  tables[0].pooling = embedding::Pooling::kMean;
  for (const char* name : {"t0", "t1"}) {
    problem.model.constraints[name].compute_kernels = {embedding::ComputeKernel::kFused};
  }
  problem.model.constraints["t1"].sharding_types = {embedding::ShardingType::kTableWise};
  SearchOptions search;
  search.effort = 1000;
  const auto found = embedding::plan_balanced_frontier(problem, {}, 4, search, {});
  ASSERT_TRUE(found) << format_error(found.error());
  EXPECT_TRUE(found->unlimited.keeps_hazards);
  ASSERT_FALSE(found->frontier.is_empty());
  EXPECT_LE(found->frontier.lower().front().x, found->frontier.min_bytes());
}

}  // namespace
}  // namespace plimsoll::check
