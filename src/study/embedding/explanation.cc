#include "study/embedding/explanation.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <iterator>
#include <utility>

#include "plimsoll/embedding/perf_model.h"
#include "study/embedding/placed_plan.h"
#include "study/embedding/trial.h"

namespace plimsoll::study {
namespace {

using embedding::Option;
using embedding::OptionSet;
using embedding::PlanningProblem;
using topology::Storage;
using topology::Topology;

constexpr double kGbPerS = 1e6;   // bytes per ms
constexpr double kSlow = .05;     // of a rank's time, that a table takes
constexpr double kFaster = 1e-6;  // relative, that a change must save

// Every shard of the placed table that stands on the rank, as `use(run)`.
template <class Use>
void for_each_shard_on(const OptionSet& options, const embedding::PlacedProposal& plan,
                       std::size_t position, int rank, const Use& use) {
  const Option& option = options.options[static_cast<std::size_t>(plan.options[position])];
  const embedding::ShardRuns shards = options.shards(option);
  std::int64_t shard = 0;
  for (std::int64_t block = 0; block < shards.column_blocks; ++block) {
    for (const embedding::ShardRun& run : shards.runs) {
      for (std::int64_t i = 0; i < run.count; ++i, ++shard) {
        const std::int64_t on =
            option.partition_by == embedding::PartitionBy::kUniform
                ? shard
                : plan.ranks[static_cast<std::size_t>(plan.first_rank[position] + shard)];
        if (on == rank) use(run);
      }
    }
  }
}

std::vector<TableShare> shares_on(const PlacedPlan& made, int rank) {
  const OptionSet& options = made.prepared.enumeration.options;
  std::vector<TableShare> shares;
  for (std::size_t position = 0; position < made.placed.options.size(); ++position) {
    const Option& option = options.options[static_cast<std::size_t>(made.placed.options[position])];
    TableShare share;
    share.fqn = options.tables[static_cast<std::size_t>(option.table)].fqn;
    share.sharding_type = to_string(option.sharding_type);
    share.compute_kernel = to_string(option.compute_kernel);
    bool is_there = false;
    for_each_shard_on(options, made.placed, position, rank, [&](const embedding::ShardRun& run) {
      share.ms += options.perf_on(run, static_cast<std::size_t>(rank)).total();
      share.hbm += run.storage.hbm;
      is_there = true;
    });
    if (is_there) shares.push_back(std::move(share));
  }
  std::stable_sort(shares.begin(), shares.end(),
                   [](const TableShare& a, const TableShare& b) { return a.ms > b.ms; });
  return shares;
}

struct Rate {
  const char* name;
  double* (*of)(Topology&);
};
constexpr Rate kRates[] = {
    {"hbm_mem_bw", [](Topology& topology) { return &topology.hbm_mem_bw; }},
    {"ddr_mem_bw", [](Topology& topology) { return &topology.ddr_mem_bw; }},
    {"hbm_to_ddr_mem_bw", [](Topology& topology) { return &topology.hbm_to_ddr_mem_bw; }},
    {"intra_host_bw", [](Topology& topology) { return &topology.comms.intra_host_bw; }},
    {"inter_host_bw", [](Topology& topology) { return &topology.comms.inter_host_bw; }},
};

class PlanExplainer {
 public:
  PlanExplainer(const ShardingQuestion& question, const embedding::ShardingPlan& plan,
                const std::optional<ScaledProblem>& scaled, const ExplanationWords& words,
                const RunContext& context)
      : question_(question), plan_(plan), scaled_(scaled), words_(words), context_(context) {}

  Result<PlanExplanation> explain() {
    told_.objective = question_.balanced.bridge.objective;
    PLIMSOLL_ASSIGN(const PlacedPlan made, place_plan(question_.problem, plan_));
    PLIMSOLL_ASSIGN(const double ms, value_on(question_.problem, &told_.times));
    describe_ranks(made);
    describe_bounds(made);
    PLIMSOLL_RETURN_IF_ERROR(describe_rates(ms));
    plan_again(ms);
    return std::move(told_);
  }

 private:
  // The plan's ms on another machine.
  Result<double> value_on(const PlanningProblem& problem, embedding::PlanTimes* times = nullptr) {
    PLIMSOLL_ASSIGN(const PlacedPlan made, place_plan(problem, plan_));
    const embedding::Estimator estimator(problem.cost_model, problem.topology, problem.mode);
    const embedding::PlanTimes found =
        embedding::plan_times(input_of(problem, made.prepared, estimator),
                              question_.balanced.bridge.step_model, made.placed);
    if (times != nullptr) *times = found;
    return value_of(found, told_.objective);
  }

  void describe_ranks(const PlacedPlan& made) {
    const OptionSet& options = made.prepared.enumeration.options;
    const std::vector<double> ms = embedding::rank_perf(options, made.placed);
    const auto slowest = std::max_element(ms.begin(), ms.end()) - ms.begin();
    told_.slowest_rank = static_cast<int>(slowest);
    told_.slowest =
        embedding::rank_perf_components(options, made.placed)[static_cast<std::size_t>(slowest)];
    for (const double one : ms) told_.mean_ms += one / static_cast<double>(ms.size());
    told_.tables = shares_on(made, told_.slowest_rank);
    const std::vector<Storage> used = embedding::rank_storage(options, made.placed);
    const auto& room = made.prepared.reservation->topology.devices;
    const bool has_hbm = std::any_of(room.begin(), room.end(),
                                     [](const Storage& storage) { return storage.hbm > 0; });
    told_.tier = has_hbm ? "hbm" : "ddr";
    const auto bytes = [has_hbm](const Storage& storage) {
      return has_hbm ? storage.hbm : storage.ddr;
    };
    const auto fullest = static_cast<std::size_t>(
        std::max_element(used.begin(), used.end(),
                         [&](const Storage& a, const Storage& b) { return bytes(a) < bytes(b); }) -
        used.begin());
    told_.fullest_rank = static_cast<int>(fullest);
    told_.fullest = bytes(used[fullest]);
    told_.room = bytes(room[fullest]);
  }

  void describe_bounds(const PlacedPlan& made) {
    const OptionSet& options = made.prepared.enumeration.options;
    double sum = 0;
    for (const embedding::TableOptions& table : options.tables) {
      double least = INFINITY;
      double largest = INFINITY;
      for (std::int32_t o = table.first_option; o < table.first_option + table.num_options; ++o) {
        least = std::min(least, options.shards(o).total_perf());
        largest = std::min(largest, options.shards(o).max_perf());
      }
      sum += least;
      told_.shard_ms = std::max(told_.shard_ms, largest);
    }
    told_.even_ms = sum / options.world_size;
  }

  Result<void> describe_rates(double ms) {
    for (const Rate& rate : kRates) {
      PlanningProblem faster = question_.problem;
      double& value = *rate.of(faster.topology);
      const double now = value;
      value += kGbPerS;
      PLIMSOLL_ASSIGN(const double then, value_on(faster));
      told_.rates.push_back({rate.name, now / kGbPerS, std::max(0., ms - then)});
    }
    std::stable_sort(
        told_.rates.begin(), told_.rates.end(),
        [](const RateWorth& a, const RateWorth& b) { return a.ms_per_gb_s > b.ms_per_gb_s; });
    return {};
  }

  std::optional<double> try_change(const ShardingQuestion& asked) const {
    const Trial trial = try_question(asked, context_);
    return trial.has_plan() ? std::optional(trial.ms) : std::nullopt;
  }

  void try_faster(Remedy remedy, double than) {
    ShardingQuestion asked = question_;
    apply_remedy(remedy, scaled_, asked);
    const auto ms = try_change(asked);
    if (!ms || !(*ms < than * (1 - kFaster))) return;
    remedy.ms = *ms;
    told_.faster.push_back(words_.fix(remedy));
  }

  void plan_again(double ms) {
    told_.planned_again_ms = try_change(question_);
    ShardingQuestion larger = question_;
    for (Storage& device : larger.problem.topology.devices) device.hbm += kGiB;
    told_.with_one_gib_ms = try_change(larger);
    const double than = std::min(ms, told_.planned_again_ms.value_or(ms));
    try_more_ranks(than);
    try_half_precision(than);
    try_without_constraints(than);
    if (question_.is_balanced && question_.balanced.max_column_blocks == 0) {
      Remedy widths;
      widths.kind = RemedyKind::kAllWidths;
      try_faster(widths, than);
    }
    std::stable_sort(told_.faster.begin(), told_.faster.end(),
                     [](const Fix& a, const Fix& b) { return *a.ms < *b.ms; });
  }

  void try_more_ranks(double than) {
    if (!scaled_) return;
    Remedy remedy;
    remedy.kind = RemedyKind::kMoreRanks;
    remedy.count = 2 * scaled_->now;
    if (scaled_->with(remedy.count)) try_faster(std::move(remedy), than);
  }

  // Of the fp32 tables that take most of the slowest rank's time.
  void try_half_precision(double than) {
    Remedy remedy;
    remedy.kind = RemedyKind::kHalfPrecision;
    for (const embedding::Module& module : question_.problem.model.modules) {
      for (const embedding::Table& table : module.tables) {
        const std::string fqn = embedding::table_fqn(module.path, table.name);
        const bool is_slow =
            std::any_of(told_.tables.begin(), told_.tables.end(), [&](const TableShare& share) {
              return share.fqn == fqn && share.ms >= kSlow * told_.slowest.total();
            });
        if (is_slow && !table.element_size && table.data_type == embedding::DataType::kFp32) {
          remedy.tables.push_back(fqn);
        }
      }
    }
    if (!remedy.tables.empty()) try_faster(std::move(remedy), than);
  }

  // Each rule and each constraint of a table on the slowest rank alone, and all of a kind.
  void try_without_constraints(double than) {
    const std::vector<UserConstraint> all = find_constraints(question_);
    const auto try_without = [&](std::vector<UserConstraint> constraints) {
      Remedy remedy;
      remedy.kind = RemedyKind::kDroppedConstraint;
      remedy.dropped = std::move(constraints);
      try_faster(std::move(remedy), than);
    };
    for (const UserConstraint& constraint : all) {
      if (constraint.is_cap() || constraint.kind == ConstraintKind::kReservation) continue;
      if (constraint.kind == ConstraintKind::kNumerics || is_on_slowest(constraint)) {
        try_without({constraint});
      }
    }
    for (const ConstraintKind kind :
         {ConstraintKind::kShardingTypes, ConstraintKind::kComputeKernels,
          ConstraintKind::kMinPartition}) {
      std::vector<UserConstraint> of_kind;
      std::copy_if(all.begin(), all.end(), std::back_inserter(of_kind),
                   [kind](const UserConstraint& constraint) { return constraint.kind == kind; });
      if (of_kind.size() > 1) try_without(std::move(of_kind));
    }
  }

  bool is_on_slowest(const UserConstraint& constraint) const {
    return std::any_of(told_.tables.begin(), told_.tables.end(), [&](const TableShare& share) {
      const std::string name = share.fqn.substr(share.fqn.rfind('.') + 1);
      return std::any_of(constraint.tables.begin(), constraint.tables.end(),
                         [&](const std::string& of) { return of == name || of == share.fqn; });
    });
  }

  const ShardingQuestion& question_;
  const embedding::ShardingPlan& plan_;
  const std::optional<ScaledProblem>& scaled_;
  const ExplanationWords& words_;
  const RunContext& context_;
  PlanExplanation told_;
};

std::string name_of_field(ConstraintKind kind) {
  switch (kind) {
    case ConstraintKind::kShardingTypes:
      return "sharding_types";
    case ConstraintKind::kComputeKernels:
      return "compute_kernels";
    case ConstraintKind::kMinPartition:
      return "min_partition";
    case ConstraintKind::kAllowedRanks:
      return "allowed_ranks";
    case ConstraintKind::kForbiddenRanks:
      return "forbidden_ranks";
    case ConstraintKind::kTogether:
      return "together";
    case ConstraintKind::kApart:
      return "apart";
    case ConstraintKind::kNumerics:
      return "strict_numerics";
    case ConstraintKind::kReservation:
      return "reservation";
    case ConstraintKind::kDdrCap:
      return "ddr_cap";
    case ConstraintKind::kHbmCap:
      return "hbm_cap";
  }
  return "";
}

ConflictMember member_of(const UserConstraint& constraint) {
  const std::string field = name_of_field(constraint.kind);
  const std::string kind = constraint.is_cap()                               ? "cap"
                           : constraint.is_rule()                            ? "rule"
                           : constraint.is_of_table()                        ? "constraint"
                           : constraint.kind == ConstraintKind::kReservation ? "reservation"
                                                                             : "option";
  if (constraint.tables.empty()) return {kind, field};
  return {kind, fmt::format("{} of {}", field, fmt::join(constraint.tables, ", "))};
}

Fix fix_of(const Remedy& remedy) {
  const std::string tables = fmt::format("{}", fmt::join(remedy.tables, ", "));
  std::string without;
  for (const UserConstraint& constraint : remedy.dropped) {
    without += (without.empty() ? "without " : "; ") + member_of(constraint).name;
  }
  const auto fix = [&](std::string kind, const std::string& change) {
    return Fix{std::move(kind), without.empty() ? change : without + "; " + change, remedy.ms};
  };
  switch (remedy.kind) {
    case RemedyKind::kMoreHbm:
      return fix("memory", fmt::format("hbm_cap = {}", remedy.bytes));
    case RemedyKind::kMoreDdr:
      return fix("memory", fmt::format("ddr_cap = {}", remedy.bytes));
    case RemedyKind::kMoreRanks:
      return fix("ranks", fmt::format("{} instead of the hardware's count", remedy.count));
    case RemedyKind::kSmallerShare:
      return fix("reservation", fmt::format("reservation.percentage = {}", double{remedy.share}));
    case RemedyKind::kUncountedDense:
      return fix("reservation", fmt::format("reservation = fixed_percentage, percentage = {}",
                                            double{remedy.share}));
    case RemedyKind::kSmallerDense:
      return fix("reservation",
                 fmt::format("reservation.dense_tensor_estimate = {}", remedy.bytes));
    case RemedyKind::kSmallerBatch:
      return fix("batch_size", fmt::format("batch_size = {}", remedy.batch_size));
    case RemedyKind::kAllWidths:
      return fix("widths", fmt::format("max_column_blocks = {}", 1 << 20));
    case RemedyKind::kHalfPrecision:
      return fix("data_type", "data_type = fp16 of " + tables);
    case RemedyKind::kRowWiseOptimizer:
      return fix("optimizer", "optimizer = rowwise_adagrad of " + tables);
    case RemedyKind::kKeyValueKernel:
      return fix("kernel", "compute_kernels = key_value of " + tables);
    case RemedyKind::kDroppedConstraint:
      return Fix{"constraint", without, remedy.ms};
  }
  return {};
}

}  // namespace

ExplanationWords library_words() { return {member_of, fix_of}; }

Result<PlanExplanation> explain_plan(const ShardingQuestion& question,
                                     const embedding::ShardingPlan& plan,
                                     const std::optional<ScaledProblem>& scaled,
                                     const ExplanationWords& words, const RunContext& context) {
  return PlanExplainer(question, plan, scaled, words, context).explain();
}

std::optional<NoPlan> explain_no_plan(const ShardingQuestion& question, const ShardingRun& run,
                                      const std::optional<ScaledProblem>& scaled,
                                      const ExplanationWords& words, const RunContext& context) {
  const Outcome<embedding::ShardingPlan>& outcome = run.planning().outcome;
  const bool is_proved = outcome.status == SolveStatus::kInfeasible;
  const bool is_searched = question.is_balanced && outcome.status == SolveStatus::kLimit &&
                           outcome.stop == StopReason::kFinished;
  if (!is_proved && !is_searched) return std::nullopt;
  NoPlan none = outcome.explanation;
  const TableConflict conflict =
      is_proved ? find_table_conflict(question, context) : TableConflict{};
  if (conflict.cap) none.cap = *conflict.cap == ConstraintKind::kHbmCap ? "hbm" : "ddr";
  none.is_irreducible = conflict.is_irreducible;
  for (const UserConstraint& constraint : conflict.members) {
    none.conflict.push_back(words.member(constraint));
  }
  for (const Remedy& remedy : find_remedies(question, run, conflict, scaled, context)) {
    none.fixes.push_back(words.fix(remedy));
  }
  return none;
}

Result<PlanExplanation> explain_plan(const PlanningProblem& problem,
                                     const embedding::ShardingPlan& plan,
                                     const embedding::BalancedOptions& options,
                                     const RunContext& context) {
  ShardingQuestion question;
  question.problem = problem;
  question.balanced = options;
  question.reference = options.reference;
  return explain_plan(question, plan, {}, library_words(), context);
}

Result<NoPlan> explain_no_plan(const PlanningProblem& problem,
                               const embedding::BalancedOptions& options,
                               const SearchOptions& search, const RunContext& context) {
  ShardingQuestion question;
  question.problem = problem;
  question.balanced = options;
  question.reference = options.reference;
  question.limits = search;
  PLIMSOLL_ASSIGN(const ShardingRun run, plan_tables(question, context));
  const auto none = explain_no_plan(question, run, {}, library_words(), context);
  return none ? *none : NoPlan(run.planning().outcome.explanation);
}

}  // namespace plimsoll::study
