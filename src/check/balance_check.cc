#include "plimsoll/check/balance_check.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <set>

#include "check/placement_rules.h"
#include "plimsoll/check/exhaustive_search.h"
#include "plimsoll/solve/verify_bound.h"

namespace plimsoll::check {
namespace {

using embedding::Perf;
using embedding::PlanTimes;

constexpr double kTolerance = 1e-9;       // relative, of sums
constexpr double kBoundTolerance = 1e-7;  // relative, of what prices prove (verify_bound.h)

bool is_close(double a, double b) {
  return std::abs(a - b) <= kTolerance * std::max(std::abs(a), std::abs(b));
}

template <class Of>
double largest(const std::vector<Perf>& perf, const Of& of) {
  double result = 0;
  for (const Perf& rank : perf) result = std::max(result, of(rank));
  return result;
}

// Sums over the shards of every rank; the largest.
template <class Of>
Result<double> largest_sum(const embedding::ShardingPlan& plan, const Of& of) {
  std::vector<double> sums(static_cast<std::size_t>(plan.world_size));
  for (const embedding::TableSharding& sharding : plan.tables) {
    for (const embedding::PlacedShard& shard : expand_shards(sharding)) {
      PLIMSOLL_ASSIGN(const double value, of(sharding, shard));
      sums[static_cast<std::size_t>(shard.rank)] += value;
    }
  }
  return *std::max_element(sums.begin(), sums.end());
}

// The most that any rank sends out.
Result<double> output_bytes_of(const embedding::PlanningProblem& problem,
                               const embedding::ShardingPlan& plan) {
  const embedding::Estimator estimator(problem.cost_model, problem.topology, problem.mode);
  embedding::EnumerationOptions options = problem.enumeration;
  options.batch_size = problem.batch_size;
  PLIMSOLL_ASSIGN(const embedding::Enumeration enumeration,
                  enumerate(estimator, problem.model, options));
  std::map<std::string, const embedding::TableProfile*> profile_of;
  for (std::size_t t = 0; t < enumeration.profiles.size(); ++t) {
    profile_of[enumeration.options.tables[t].fqn] = &enumeration.profiles[t];
  }
  return largest_sum(
      plan,
      [&](const embedding::TableSharding& sharding,
          const embedding::PlacedShard& shard) -> Result<double> {
        const embedding::TableProfile& profile = *profile_of.at(sharding.fqn());
        const double element =
            profile.output_element_size.value_or(static_cast<double>(profile.shape.element_size));
        PLIMSOLL_ASSIGN(const auto io, estimator.shard_io(profile, sharding.sharding_type,
                                                          shard.rows, shard.columns, element));
        return static_cast<double>(io.output);
      });
}

// `problem` is null where the options are given.
Result<PlanTimes> times_of(const embedding::PlanningProblem* problem,
                           const embedding::ShardingPlan& plan, const CheckReport& sharding,
                           const embedding::StepModel& model) {
  const std::vector<Perf>& perf = sharding.perf;
  PlanTimes times;
  times.rating = sharding.rating;
  times.step = largest(perf, [](const Perf& p) { return p.fwd_compute; }) +
               largest(perf, [](const Perf& p) { return p.fwd_comms; }) +
               largest(perf, [](const Perf& p) { return p.bwd_compute; }) +
               largest(perf, [](const Perf& p) { return p.bwd_comms; }) +
               largest(perf, [](const Perf& p) { return p.prefetch_compute; });
  std::set<std::pair<std::string, embedding::ShardingType>> types;
  for (const embedding::TableSharding& table : plan.tables) {
    types.emplace(table.module_path, table.sharding_type);
  }
  times.time =
      model.floor_ms + model.ms_per_sharding_type * static_cast<double>(types.size()) +
      model.kernel_weight * largest(perf,
                                    [](const Perf& p) {
                                      return p.fwd_compute + p.bwd_compute + p.prefetch_compute;
                                    }) +
      model.collective_weight *
          largest(perf, [](const Perf& p) { return p.fwd_comms + p.bwd_comms; });
  if (model.ms_per_output_byte > 0 && problem != nullptr) {
    PLIMSOLL_ASSIGN(const double bytes, output_bytes_of(*problem, plan));
    times.time += model.ms_per_output_byte * bytes;
  }
  if (model.ms_per_table > 0) {
    PLIMSOLL_ASSIGN(const double shards, largest_sum(plan, [](const auto&, const auto&) {
                      return Result<double>(1.0);
                    }));
    times.time += model.ms_per_table * shards;
  }
  return times;
}

class Judge {
 public:
  Judge(const StatedBalance& stated, BalanceReport& report) : stated_(stated), report_(report) {}

  void judge_times() {
    const PlanTimes& times = *report_.times;
    if (stated_.times) {
      compare("rating", stated_.times->rating, times.rating);
      compare("step", stated_.times->step, times.step);
      compare("time", stated_.times->time, times.time);
    }
    const embedding::BridgeOptions& bridge = stated_.options.bridge;
    if (stated_.certificate) {
      compare("objective", stated_.certificate->objective, value_of(times, bridge.objective));
    }
    judge_status();
    if (bridge.rating_cap && !(times.rating <= *bridge.rating_cap * (1 + kTolerance))) {
      add(ViolationCode::kRatingAboveCap, fmt::format("at most {} ms", *bridge.rating_cap),
          fmt::format("{} ms", times.rating),
          fmt::format("the plan is said to rate at most {} ms and rates {} ms", *bridge.rating_cap,
                      times.rating));
    }
  }

  void judge_bound(const solve::PlacementProblem& problem) {
    const bool is_infeasible = stated_.status == SolveStatus::kInfeasible;
    if (!stated_.bound) {
      if (is_infeasible || (stated_.certificate && stated_.certificate->lower_bound)) {
        judge_searched(problem, "the certificate holds no prices");
      }
      return;
    }
    const solve::BoundVerdict verdict = solve::verify_bound(problem, *stated_.bound);
    report_.proved_bound = std::isinf(verdict.value) && verdict.value < 0 ? 0 : verdict.value;
    if (!verdict.holds) {
      add(ViolationCode::kBoundNotProved, fmt::format("{} ms", verdict.value),
          fmt::format("{} ms", stated_.bound->value), "the prices do not hold: " + verdict.fault);
      return;
    }
    const double lower =
        is_infeasible ? std::numeric_limits<double>::infinity() : lower_bound().value_or(0);
    if (lower <= *report_.proved_bound * (1 + kBoundTolerance)) return;
    judge_searched(problem, fmt::format("the prices prove {} ms only", *report_.proved_bound));
  }

 private:
  void judge_status() {
    if (stated_.status != SolveStatus::kOptimal) return;
    const std::optional<double> gap =
        stated_.certificate ? stated_.certificate->gap() : std::nullopt;
    if (gap && *gap <= stated_.tolerance + kTolerance) return;
    add(ViolationCode::kBoundNotProved, fmt::format("a gap of at most {}", stated_.tolerance),
        gap ? fmt::format("{}", *gap) : "no bound",
        "the plan is said to be optimal, and its bound does not show it");
  }

  std::optional<double> lower_bound() const {
    return stated_.certificate ? stated_.certificate->lower_bound : std::nullopt;
  }

  // A bound above what the prices prove may rest on a search to its end, and must say so.
  void judge_searched(const solve::PlacementProblem& problem, const std::string& why) {
    if (stated_.certificate &&
        stated_.certificate->proof.starts_with(embedding::kSearchedToTheEnd) &&
        stated_.status != SolveStatus::kInfeasible) {
      report_.is_bound_searched = true;
      const ExhaustiveResult again = search_to_the_end(
          problem, lower_bound().value_or(0) * (1 - kTolerance), kMaxRepeatedNodes);
      report_.is_search_repeated = again.end == ExhaustiveEnd::kRefuted;
      report_.num_repeated_nodes = again.num_nodes;
      return;
    }
    const std::string found = lower_bound() ? fmt::format("{} ms", *lower_bound()) : "infeasible";
    add(ViolationCode::kBoundNotProved, "a bound that its prices prove", found,
        fmt::format("the stated bound, {}, is not proved: {}", found, why));
  }

  void compare(std::string_view what, double stated, double found) {
    if (is_close(stated, found)) return;
    add(ViolationCode::kTimesMismatch, fmt::format("{} ms", found), fmt::format("{} ms", stated),
        fmt::format("the plan's {} is said to be {} ms and is {} ms", what, stated, found));
  }

  void add(ViolationCode code, std::string expected, std::string found, std::string message) {
    report_.violations.push_back(
        {code, "", std::nullopt, std::move(expected), std::move(found), std::move(message)});
  }

  const StatedBalance& stated_;
  BalanceReport& report_;
};

Result<BalanceReport> judge(const embedding::PlanningProblem* problem,
                            const embedding::PlacementBridge& bridge,
                            const embedding::ShardingPlan* plan, const CheckReport* sharding,
                            const StatedBalance& stated) {
  BalanceReport report;
  Judge judge(stated, report);
  if (plan != nullptr)
    report.violations =
        find_broken_rules(*plan, stated.options.bridge, bridge.problem.ranks_per_host);
  if (plan != nullptr && sharding != nullptr && sharding->violations.empty()) {
    PLIMSOLL_ASSIGN(report.times,
                    times_of(problem, *plan, *sharding, stated.options.bridge.step_model));
    judge.judge_times();
  }
  if (!bridge.is_tighter) judge.judge_bound(bridge.problem);
  return report;
}

}  // namespace

Result<BalanceReport> check_balance(const embedding::PlanningProblem& problem,
                                    const embedding::ShardingPlan* plan,
                                    const CheckReport* sharding, const StatedBalance& stated) {
  PLIMSOLL_ASSIGN(const embedding::PlacementBridge bridge,
                  make_bounded_problem(problem, stated.options));
  return judge(&problem, bridge, plan, sharding, stated);
}

Result<BalanceReport> check_balance(const embedding::BridgeInput& input,
                                    const embedding::ShardingPlan* plan,
                                    const CheckReport* sharding, const StatedBalance& stated) {
  PLIMSOLL_ASSIGN(const embedding::PlacementBridge bridge,
                  make_bounded_bridge(input, stated.options.bridge));
  return judge(nullptr, bridge, plan, sharding, stated);
}

}  // namespace plimsoll::check
