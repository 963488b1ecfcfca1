#include "plimsoll/check/balance_check.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <set>

#include "check/placement_rules.h"
#include "plimsoll/check/exhaustive_search.h"
#include "plimsoll/check/options_check.h"
#include "plimsoll/solve/bound_placement.h"
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

// What plans and bounds are of.
struct Space {
  const embedding::PlanningProblem* problem = nullptr;  // never null
  const embedding::GivenOptions* given = nullptr;       // null: options of the model
  const embedding::OptionSet* options = nullptr;        // never null
  const topology::Topology* room = nullptr;             // never null; after reservation
  const embedding::PlacementBridge* bridge = nullptr;   // never null
};

CheckOptions check_options_of(const embedding::PlanningProblem& problem, bool pools_ddr) {
  CheckOptions options;
  options.batch_size = problem.batch_size;
  options.reservation = problem.reservation;
  options.fqn_constraints = problem.enumeration.fqn_constraints;
  options.global_constraints = problem.enumeration.global_constraints;
  options.pools_ddr = pools_ddr;
  return options;
}

Result<CheckReport> judge_placed(const Space& space, const embedding::OptionSet& options,
                                 const embedding::PlacedProposal& placed,
                                 const embedding::ShardingPlan& plan, bool pools_ddr) {
  if (space.given == nullptr) {
    return check_sharding(space.problem->model, plan, space.problem->topology,
                          space.problem->cost_model, space.problem->mode,
                          check_options_of(*space.problem, pools_ddr));
  }
  std::vector<StatedOption> stated;
  for (std::size_t p = 0; p < placed.options.size(); ++p) {
    const auto index = static_cast<std::size_t>(placed.options[p]);
    const auto table = static_cast<std::size_t>(options.options[index].table);
    StatedOption& entry = stated.emplace_back();
    entry = {options.tables[table].fqn, placed.options[p], {}, std::nullopt};
    for_each_shard(options, placed, p,
                   [&](const embedding::ShardView& shard) { entry.ranks.push_back(shard.rank); });
  }
  return check_options({options, space.problem->model, *space.room, space.problem->cost_model},
                       stated, nullptr, pools_ddr, false, std::nullopt);
}

// Above any placement's objective.
double worst_objective(const solve::PlacementProblem& problem) {
  double sum = problem.floor_ms + 1;
  for (const double charge : problem.charges) sum += charge;
  for (const solve::Unit& unit : problem.units) {
    double worst = 0;
    for (const solve::UnitChoice& choice : unit.choices) {
      double work = 0;
      for (const solve::PieceRun& run : choice.runs) {
        for (const double load : run.load) {
          work += load * static_cast<double>(run.count * choice.num_blocks);
        }
      }
      worst = std::max(worst, work);
    }
    sum += worst;
  }
  return sum;
}

std::string plan_text(double value) {
  return std::isinf(value) ? std::string("that no plan exists")
                           : fmt::format("that no plan is below {:.6g} ms", value);
}

class Judge {
 public:
  Judge(const Space& space, const embedding::ShardingPlan* plan, const CheckReport* sharding,
        const StatedBalance& stated, BalanceReport& report)
      : space_(space), plan_(plan), sharding_(sharding), stated_(stated), report_(report) {}

  Result<void> judge() {
    report_.is_anything_claimed = is_anything_claimed();
    if (plan_ != nullptr) {
      report_.violations =
          find_broken_rules(*plan_, bridge_options(), space_.bridge->problem.ranks_per_host);
    }
    judge_status();
    if (plan_ != nullptr && sharding_ != nullptr && sharding_->violations.empty()) {
      PLIMSOLL_ASSIGN(report_.times, times_of(problem_of_times(), *plan_, *sharding_,
                                              bridge_options().step_model));
      judge_times();
    }
    judge_cap();
    PLIMSOLL_RETURN_IF_ERROR(judge_reference());
    PLIMSOLL_RETURN_IF_ERROR(judge_bound());
    return judge_frontier();
  }

 private:
  const embedding::BridgeOptions& bridge_options() const { return stated_.options.bridge; }
  const solve::PlacementProblem& problem() const { return space_.bridge->problem; }
  const embedding::PlanningProblem* problem_of_times() const {
    return space_.given == nullptr ? space_.problem : nullptr;
  }
  bool is_infeasible() const { return stated_.status == SolveStatus::kInfeasible; }

  bool is_anything_claimed() const {
    return stated_.times || stated_.certificate || stated_.bound || stated_.reference ||
           !stated_.frontier.is_empty() || is_infeasible() ||
           stated_.status == SolveStatus::kOptimal;
  }

  std::optional<double> lower_bound() const {
    return stated_.certificate ? stated_.certificate->lower_bound : std::nullopt;
  }

  // The plan's own, as far as it is known.
  std::optional<double> objective() const {
    if (report_.times) return value_of(*report_.times, bridge_options().objective);
    if (stated_.certificate && plan_ != nullptr) return stated_.certificate->objective;
    return std::nullopt;
  }

  void judge_status() {
    const bool says_plan =
        stated_.status == SolveStatus::kOptimal || stated_.status == SolveStatus::kFeasible;
    if (stated_.status && says_plan != (plan_ != nullptr)) {
      add(ViolationCode::kStatusMismatch, "", "",
          fmt::format("the answer is said to be {} and {}", to_string(*stated_.status),
                      plan_ != nullptr ? "holds a plan" : "holds none"));
    }
    if (stated_.recorded_objective && stated_.recorded_objective != bridge_options().objective) {
      add(ViolationCode::kStatusMismatch, "", "",
          fmt::format("the answer's objective is {}, and it was made for {}",
                      to_string(bridge_options().objective),
                      to_string(*stated_.recorded_objective)));
    }
    if (plan_ == nullptr) return judge_absence();
    const double gap = gap_or_infinity();
    if (stated_.status == SolveStatus::kFeasible && gap >= 0 && gap <= stated_.tolerance) {
      add(ViolationCode::kStatusMismatch, "optimal", "feasible",
          fmt::format("the plan is said to be feasible, and its gap of {} counts as optimal", gap));
    }
    if (stated_.status != SolveStatus::kOptimal || gap <= stated_.accepted_tolerance + kTolerance) {
      return;
    }
    add(ViolationCode::kBoundNotProved,
        fmt::format("a gap of at most {}", stated_.accepted_tolerance), fmt::format("{}", gap),
        gap <= stated_.tolerance
            ? fmt::format("the plan counts a gap of up to {} as optimal, and its own is {}",
                          stated_.tolerance, gap)
            : "the plan is said to be optimal, and its bound does not show it");
  }

  // Without a plan there are no figures of one.
  void judge_absence() {
    const auto is_number = [](const std::optional<double>& figure) {
      return figure && !std::isnan(*figure);
    };
    const bool has_objective = stated_.certificate && !std::isnan(stated_.certificate->objective);
    if (!is_number(stated_.rating) && !has_objective && !is_number(lower_bound()) &&
        !(stated_.times && !std::isnan(stated_.times->rating)) && stated_.frontier.is_empty()) {
      return;
    }
    add(ViolationCode::kStatusMismatch, "", "",
        "the answer holds no plan and states a plan's rating, times, objective, bound or curve");
  }

  // Without a bound infinite.
  double gap_or_infinity() const {
    constexpr double kInfinity = std::numeric_limits<double>::infinity();
    return stated_.certificate ? stated_.certificate->gap().value_or(kInfinity) : kInfinity;
  }

  void judge_times() {
    const PlanTimes& times = *report_.times;
    if (stated_.times) {
      compare("rating", stated_.times->rating, times.rating);
      compare("step", stated_.times->step, times.step);
      compare("time", stated_.times->time, times.time);
    }
    if (stated_.rates_storage) return judge_storage_rating();
    if (!stated_.certificate) return;
    compare("objective", stated_.certificate->objective,
            value_of(times, bridge_options().objective));
  }

  void judge_storage_rating() {
    Bytes largest = 0;
    for (const topology::Storage& used : sharding_->used) largest = std::max(largest, used.hbm);
    const auto compare_bytes = [&](std::string_view what, double stated) {
      if (is_close(stated, static_cast<double>(largest))) return;
      add(ViolationCode::kTimesMismatch, fmt::format("{} bytes", largest),
          fmt::format("{}", stated),
          fmt::format("the plan's {} is not the largest sum of HBM bytes, {}", what, largest));
    };
    if (stated_.rating) compare_bytes("rating", *stated_.rating);
    if (stated_.certificate) compare_bytes("objective", stated_.certificate->objective);
  }

  void judge_cap() {
    const embedding::BalancedOptions& options = stated_.options;
    const bool is_of_time = bridge_options().objective == embedding::BalanceObjective::kTime;
    const std::optional<double>& cap = bridge_options().rating_cap;
    const auto contradict = [this](std::string message) {
      add(ViolationCode::kStatusMismatch, "", "", std::move(message));
    };
    if (cap && !options.keeps_reference_rating) {
      contradict("the plan names a cap of its rating, and is said to be made without one");
    }
    if (stated_.reference && !options.uses_reference) {
      contradict("the plan states the reference's times, and is said to be made without it");
    }
    if (space_.given != nullptr && space_.given->estimator == nullptr &&
        bridge_options().step_model.ms_per_output_byte > 0) {
      contradict("the step model counts output bytes, of which a dump of options tells nothing");
    }
    if (!report_.times) return;
    const double rating = report_.times->rating;
    if (cap && !(rating <= *cap * (1 + kTolerance))) {
      add(ViolationCode::kRatingAboveCap, fmt::format("at most {} ms", *cap),
          fmt::format("{} ms", rating),
          fmt::format("the plan is said to rate at most {} ms and rates {} ms", *cap, rating));
    }
    const bool is_explained =
        std::any_of(stated_.warnings.begin(), stated_.warnings.end(), [](const std::string& code) {
          return code.starts_with("rating_cap") || code == "no_reference_rating" ||
                 code.starts_with("hazard_unavoidable");
        });
    if (!cap && options.keeps_reference_rating && is_of_time && stated_.reference &&
        !is_explained && rating > stated_.reference->rating * (1 + kTolerance)) {
      contradict("the plan is said to rate as well as the reference's, and rates worse");
    }
  }

  // The reference's search runs again: the same options, the same effort, the same plan.
  Result<void> judge_reference() {
    const std::optional<double>& cap = bridge_options().rating_cap;
    if (!stated_.reference && !cap) return {};
    if (!stated_.are_inputs_given) {
      report_.not_repeated.emplace_back("the reference's plan is one of other inputs or options");
      return {};
    }
    const auto repeated =
        space_.given == nullptr
            ? embedding::repeat_reference(*space_.problem, stated_.options)
            : embedding::repeat_reference(*space_.problem, *space_.given, stated_.options);
    if (!repeated) {
      report_.not_repeated.push_back("the reference's search cannot be repeated: " +
                                     repeated.error().message);
      return {};
    }
    if (!repeated->reference) {
      add(ViolationCode::kReferenceMismatch, "no plan", "a plan",
          "the reference's search is said to find a plan and finds none");
      return {};
    }
    const PlanTimes& found = *repeated->reference;
    if (stated_.reference) {
      compare_reference("rating", stated_.reference->rating, found.rating);
      compare_reference("step", stated_.reference->step, found.step);
      compare_reference("time", stated_.reference->time, found.time);
    }
    if (cap) compare_reference("rating, the plan's cap,", *cap, found.rating);
    const embedding::PlanningResult& planning = repeated->planning;
    PLIMSOLL_ASSIGN(known_, value_of_real(planning.enumeration.options, planning.best));
    return {};
  }

  void compare_reference(std::string_view what, double stated, double found) {
    if (is_close(stated, found)) return;
    add(ViolationCode::kReferenceMismatch, fmt::format("{} ms", found),
        fmt::format("{} ms", stated),
        fmt::format("the reference plan's {} is said to be {} ms and is {} ms", what, stated,
                    found));
  }

  Result<void> judge_bound() {
    if (stated_.bound) judge_prices();
    if (!is_infeasible() && !lower_bound()) return {};
    const double lower = is_infeasible() ? std::numeric_limits<double>::infinity() : *lower_bound();
    if (std::isnan(lower)) {
      refute_bound("a number", "the stated bound is no number");
      return {};
    }
    for (const std::optional<double>& plan : {objective(), known_}) {
      if (!plan || !(lower > *plan * (1 + kTolerance))) continue;
      refute_bound(
          fmt::format("at most {} ms", *plan),
          fmt::format("the stated bound, {}, is above a plan of {} ms", bound_text(), *plan));
      return {};
    }
    if (is_bound_refuted_) return {};
    if (stated_.rates_storage) {
      report_.not_repeated.emplace_back("a bound of a rating by storage has no proof");
      return {};
    }
    if (space_.bridge->is_tighter) {
      report_.not_repeated.emplace_back(
          "no bound holds for all plans where rules hold these tables together");
      return {};
    }
    const double proved = report_.proved_bound.value_or(problem().floor_ms);
    if (lower <= proved * (1 + kBoundTolerance)) {
      report_.proof = report_.proved_bound ? "the prices prove " + plan_text(lower)
                                           : "times are never below the floor";
      return {};
    }
    return judge_unpriced(lower);
  }

  // What the certificate says of its own prices; the value that they prove.
  void judge_prices() {
    if (space_.bridge->is_tighter) return;
    const solve::PlacementBound& bound = *stated_.bound;
    const solve::BoundVerdict verdict = solve::verify_bound(problem(), bound);
    report_.proved_bound = std::isinf(verdict.value) && verdict.value < 0 ? 0 : verdict.value;
    if (!verdict.holds) {
      is_bound_refuted_ = true;
      add(ViolationCode::kBoundNotProved, fmt::format("{} ms", verdict.value),
          fmt::format("{} ms", bound.value), "the prices do not hold: " + verdict.fault);
      return;
    }
    bool is_method = false;
    for (std::size_t i = 0; i < bound.cases.size(); ++i) {
      const double value = bound.cases[i].value;
      is_method |= bound.cases[i].method == bound.method && value <= bound.value * (1 + 1e-6);
      if (value <= verdict.case_values[i] * (1 + kBoundTolerance) &&
          value >= bound.value * (1 - kBoundTolerance)) {
        continue;
      }
      refute_bound(
          fmt::format("{} ms", verdict.case_values[i]),
          fmt::format("case {} is said to prove {} ms, and proves {} ms of a bound of {} ms", i,
                      value, verdict.case_values[i], bound.value));
    }
    if (!is_method) {
      refute_bound(
          "", fmt::format("no case of the bound's value is proved by {}", to_string(bound.method)));
    }
    if (is_infeasible() && !bound.is_infeasible()) {
      refute_bound("", "the prices are said to prove a bound, and the answer that no plan exists");
    }
    if (!is_infeasible() && lower_bound() && !is_said_to_be_searched() &&
        *lower_bound() > bound.value * (1 + kBoundTolerance)) {
      refute_bound(fmt::format("{} ms", bound.value),
                   fmt::format("the stated bound, {}, is above that of its prices, {} ms",
                               bound_text(), bound.value));
    }
  }

  bool is_said_to_be_searched() const {
    return stated_.certificate &&
           stated_.certificate->proof.starts_with(embedding::kSearchedToTheEnd);
  }

  // Prices are named and there are none that prove it.
  bool is_said_to_be_priced() const {
    return stated_.certificate && stated_.certificate->proof.starts_with("prices of");
  }

  // A bound above what its prices prove: other prices, a search of our own, a plan below it.
  Result<void> judge_unpriced(double lower) {
    if (stated_.bound ? !is_said_to_be_searched() : is_said_to_be_priced()) {
      refute_bound("a bound that its prices prove",
                   fmt::format("the stated bound, {}, is not proved: {}", bound_text(),
                               stated_.bound ? fmt::format("the prices prove {} ms only",
                                                           *report_.proved_bound)
                                             : "the certificate holds no prices"));
      return {};
    }
    report_.is_bound_searched = is_said_to_be_searched();
    if (lower <= prove_by_prices(problem()) * (1 + kBoundTolerance)) {
      report_.proof = "prices that the judge found prove " + plan_text(lower);
      return {};
    }
    const std::int64_t max_nodes =
        std::min(kMaxRepeatedNodes, kMaxRepeatedRanks / problem().num_ranks + 1);
    const double target = std::isinf(lower) ? worst_objective(problem()) : lower * (1 - kTolerance);
    const ExhaustiveResult again = search_to_the_end(problem(), target, max_nodes);
    report_.num_repeated_nodes = again.num_nodes;
    if (again.end == ExhaustiveEnd::kRefuted) {
      report_.is_search_repeated = true;
      report_.proof =
          fmt::format("a search of {} states finds {}", again.num_nodes, plan_text(lower));
      return {};
    }
    if (again.end == ExhaustiveEnd::kFound) {
      const embedding::PlacedProposal found =
          to_proposal(*space_.bridge, *space_.options, again.placements);
      PLIMSOLL_ASSIGN(const auto value, value_of_real(*space_.options, found));
      if (value && *value < lower) {
        refute_bound(
            fmt::format("at most {} ms", *value),
            fmt::format("the stated bound, {}, is above a plan of {} ms that the judge found",
                        bound_text(), *value));
        return {};
      }
    }
    report_.not_repeated.push_back(
        is_infeasible()
            ? std::string("that nothing fits is stated without a proof that can be repeated here")
            : fmt::format("the stated bound, {}, rests on what is too long to be repeated here{}",
                          bound_text(),
                          report_.proved_bound
                              ? fmt::format("; the prices prove {:.6g} ms", *report_.proved_bound)
                              : std::string()));
    return {};
  }

  // By the cheapest of our own bounds, itself judged.
  static double prove_by_prices(const solve::PlacementProblem& problem) {
    if (problem.units.empty()) return problem.floor_ms;
    solve::BoundOptions quick;
    quick.use_windows = quick.use_patterns = quick.use_branching = false;
    return solve::verify_bound(problem, solve::bound_placement(problem, quick, RunContext{})).value;
  }

  // The objective of a plan that the bound is of: one that fits, keeps rules and cap, and holds no
  // more hazards than the plan that is judged.
  Result<std::optional<double>> value_of_real(const embedding::OptionSet& options,
                                              const embedding::PlacedProposal& placed) const {
    const embedding::ShardingPlan plan =
        make_sharding_plan(options, placed, space_.problem->model, space_.problem->topology,
                           space_.problem->enumeration);
    PLIMSOLL_ASSIGN(const CheckReport report,
                    judge_placed(space_, options, placed, plan, bridge_options().pools_ddr));
    const std::size_t num_hazards = sharding_ != nullptr ? sharding_->hazards.size() : 0;
    const bool is_of_bound = is_infeasible() || report.hazards.size() <= num_hazards;
    if (!report.violations.empty() || !is_of_bound ||
        !find_broken_rules(plan, bridge_options(), problem().ranks_per_host).empty()) {
      return std::nullopt;
    }
    PLIMSOLL_ASSIGN(const PlanTimes times,
                    times_of(problem_of_times(), plan, report, bridge_options().step_model));
    const std::optional<double>& cap = bridge_options().rating_cap;
    if (cap && !(times.rating <= *cap)) return std::nullopt;
    return value_of(times, bridge_options().objective);
  }

  Result<void> judge_frontier() {
    if (stated_.frontier.is_empty() || !report_.times) return {};
    FrontierPlan own{0, *objective(), lower_bound()};
    for (const topology::Storage& used : sharding_->used) own.hbm = std::max(own.hbm, used.hbm);
    for (Violation& violation : check_frontier(stated_.frontier, own)) {
      report_.violations.push_back(std::move(violation));
    }
    for (const solve::FrontierPoint& point : stated_.frontier.upper) {
      PLIMSOLL_RETURN_IF_ERROR(judge_point(point));
    }
    report_.not_repeated.emplace_back(
        "the curve of memory against time shows neither its plans nor what proves its bounds");
    return {};
  }

  // Do prices prove that no plan of so few bytes is that fast?
  Result<void> judge_point(const solve::FrontierPoint& point) {
    embedding::BridgeOptions settings = bridge_options();
    settings.max_hbm = point.bytes;
    const embedding::BridgeInput input{
        space_.options, space_.room, &space_.problem->model, nullptr, {}};
    PLIMSOLL_ASSIGN(const embedding::PlacementBridge bridge, make_bounded_bridge(input, settings));
    if (bridge.is_tighter) return {};
    const double least = prove_by_prices(bridge.problem);
    if (!(least > point.ms * (1 + kBoundTolerance))) return {};
    add(ViolationCode::kFrontierMismatch,
        std::isinf(least) ? "no plan" : fmt::format("{} ms", least), fmt::format("{} ms", point.ms),
        fmt::format("a plan of {} bytes a rank is said to take {} ms, and prices prove {}",
                    point.bytes, point.ms, plan_text(least)));
    return {};
  }

  std::string bound_text() const {
    return is_infeasible() ? "infeasible" : fmt::format("{} ms", lower_bound().value_or(0));
  }

  void refute_bound(std::string expected, std::string message) {
    is_bound_refuted_ = true;
    add(ViolationCode::kBoundNotProved, std::move(expected), bound_text(), std::move(message));
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

  const Space& space_;
  const embedding::ShardingPlan* plan_;
  const CheckReport* sharding_;
  const StatedBalance& stated_;
  BalanceReport& report_;
  bool is_bound_refuted_ = false;
  std::optional<double> known_;  // objective of the reference's plan, where the bound is of it, too
};

// The reservation leaves nothing, or a table has no option: what the plan states cannot be placed.
Result<BalanceReport> judge_without_space(const Error& error, const StatedBalance& stated) {
  BalanceReport report;
  report.is_anything_claimed = true;
  if (stated.status == SolveStatus::kInfeasible && error.code == ErrorCode::kPlanner) {
    report.proof = error.message;
  } else {
    report.not_repeated.push_back("no plan can be made from these inputs: " + error.message);
  }
  return report;
}

}  // namespace

Result<BalanceReport> check_balance(const embedding::PlanningProblem& problem,
                                    const embedding::ShardingPlan* plan,
                                    const CheckReport* sharding, const StatedBalance& stated) {
  const auto bounded = prepare_bounded_problem(problem, stated.options);
  if (!bounded) {
    const bool is_judged =
        bounded.error().code == ErrorCode::kPlanner || bounded.error().code == ErrorCode::kRuntime;
    if (is_judged) return judge_without_space(bounded.error(), stated);
    return tl::unexpected<Error>(bounded.error());
  }
  const Space space{&problem, nullptr, &bounded->enumeration.options,
                    &bounded->reservation.topology, &bounded->bridge};
  BalanceReport report;
  PLIMSOLL_RETURN_IF_ERROR(Judge(space, plan, sharding, stated, report).judge());
  return report;
}

Result<BalanceReport> check_balance(const embedding::PlanningProblem& problem,
                                    const embedding::GivenOptions& given,
                                    const embedding::ShardingPlan* plan,
                                    const CheckReport* sharding, const StatedBalance& stated) {
  const embedding::PlanningResult& prepared = given.prepared;
  const embedding::BridgeInput input{&prepared.enumeration.options,
                                     &prepared.reservation->topology,
                                     &problem.model,
                                     given.estimator,
                                     {}};
  PLIMSOLL_ASSIGN(const embedding::PlacementBridge bridge,
                  make_bounded_bridge(input, stated.options.bridge));
  const Space space{&problem, &given, input.options, input.room, &bridge};
  BalanceReport report;
  PLIMSOLL_RETURN_IF_ERROR(Judge(space, plan, sharding, stated, report).judge());
  return report;
}

void conclude(BalanceReport balance, bool is_strict, CheckReport& report) {
  for (Violation& violation : balance.violations) {
    report.violations.push_back(std::move(violation));
  }
  CertificateJudgement& judgement = report.certificate;
  const auto refuting =
      std::find_if(report.violations.begin(), report.violations.end(),
                   [](const Violation& v) { return v.code != ViolationCode::kHazard; });
  if (!balance.is_anything_claimed) {
    judgement = {CertificateStatus::kAbsent, "neither times nor a bound are stated"};
  } else if (refuting != report.violations.end()) {
    judgement = {CertificateStatus::kRefuted, refuting->message};
  } else if (!balance.not_repeated.empty()) {
    judgement = {CertificateStatus::kNotRepeated, balance.not_repeated.front()};
  } else {
    judgement = {CertificateStatus::kProved,
                 balance.proof.empty() ? "what is stated is right; no bound is" : balance.proof};
  }
  if (!is_strict || judgement.status != CertificateStatus::kNotRepeated) return;
  for (const std::string& claim : balance.not_repeated) {
    report.violations.push_back({ViolationCode::kNotRepeated, "", std::nullopt, "", "", claim});
  }
}

}  // namespace plimsoll::check
