#include "plimsoll/study/replan.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <utility>

#include "balance/moves/placement_relocation.h"
#include "balance/prices/relocation_bound.h"
#include "balance/problem/placement_judge.h"
#include "balance/reopened_placement.h"
#include "core/effort_clock.h"
#include "plimsoll/core/checked.h"
#include "plimsoll/embedding/perf_model.h"
#include "study/embedding/sharding_run.h"
#include "study/replan/held_tables.h"
#include "study/replan/transfer_schedule.h"

namespace plimsoll::study {
namespace {

using balance::MoveCosts;
using balance::UnitPlacements;
using embedding::PlacementBridge;

constexpr double kGib = 1024.0 * 1024 * 1024;
constexpr double kDefaultShare = .1;  // of all bytes may move
constexpr double kMostSteps = 400;    // of the bound's ascent
constexpr double kStepsCost = 1e9;    // pieces, ranks and barriers of all steps together

Result<void> validate_options(const ReplanOptions& options) {
  const auto refuse = [](const char* place, const char* message, const char* remedy) {
    return fail(ErrorCode::kValue, place, message, remedy);
  };
  if (options.max_moved.value_or(0) < 0 || !(options.max_moved_share.value_or(0) >= 0)) {
    return refuse("max_moved", "the bytes that may move are negative", "give 0 or more");
  }
  const double price = options.price_of_move.value_or(0);
  if (!(price >= 0) || std::isinf(price)) {
    return refuse("price_of_move",
                  "the price of a moved GiB is not a finite number of ms of at least 0",
                  "give milliseconds, such as 0.01");
  }
  if (options.max_moved && options.max_moved_share) {
    return refuse("max_moved", "it is given twice", "give bytes, or a share of them");
  }
  return {};
}

class Replanner {
 public:
  Replanner(const embedding::PlanningProblem& problem, const embedding::ShardingPlan& before,
            const ReplanOptions& options, const SearchOptions& search, const RunContext& context)
      : problem_(problem),
        options_(options),
        search_(search),
        context_(context),
        held_(before),
        estimator_(problem.cost_model, problem.topology, problem.mode) {
    replan_.before = before;
    replan_.objective = options.balanced.bridge.objective;
    replan_.price_of_move = options.price_of_move;
  }

  Result<Replan> run() {
    PLIMSOLL_RETURN_IF_ERROR(validate_options(options_));
    question_.problem = problem_;
    question_.balanced = options_.balanced;
    question_.balanced.keeps_reference_rating = false;
    question_.limits = search_;
    PLIMSOLL_ASSIGN(run_, plan_tables(question_, context_));
    embedding::PlanningResult& planning = run_.balanced.planning;
    replan_.stop = planning.outcome.stop;
    if (!planning.reservation || planning.enumeration.options.tables.empty() ||
        planning.outcome.status == SolveStatus::kInfeasible) {
      replan_.status = planning.outcome.status;
      replan_.answer = make_answer(question_, run_);
      return std::move(replan_);
    }
    PLIMSOLL_ASSIGN(weights_, weigh_tables(estimator_, planning.enumeration));
    for (const TableWeight& weight : weights_) {
      replan_.total_bytes = saturated_add(replan_.total_bytes, weight.bytes);
    }
    find_limit();
    PLIMSOLL_RETURN_IF_ERROR(relocate());
    PLIMSOLL_RETURN_IF_ERROR(bound());
    finish();
    PLIMSOLL_RETURN_IF_ERROR(schedule());
    return std::move(replan_);
  }

 private:
  embedding::BridgeInput input() const {
    const embedding::PlanningResult& planning = run_.balanced.planning;
    return {&planning.enumeration.options,
            &planning.reservation->topology,
            &problem_.model,
            &estimator_,
            planning.enumeration.profiles,
            problem_.machine.get()};
  }
  const embedding::OptionSet& options_of_tables() const {
    return run_.balanced.planning.enumeration.options;
  }

  void find_limit() {
    replan_.max_moved = options_.max_moved;
    std::optional<double> share = options_.max_moved_share;
    if (!options_.max_moved && !share && !options_.price_of_move) share = kDefaultShare;
    if (share) {
      replan_.max_moved = saturated_cast(*share * static_cast<double>(replan_.total_bytes));
    }
  }

  double price() const { return options_.price_of_move.value_or(0) / kGib; }  // ms a byte

  embedding::BridgeOptions rules() const {
    embedding::BridgeOptions rules = options_.balanced.bridge;
    rules.keeps_hazards = rules.keeps_hazards || run_.balanced.keeps_hazards;
    return rules;
  }

  Result<void> relocate() {
    const embedding::PlanningResult& planning = run_.balanced.planning;
    Result<PlacementBridge> made = make_placement_bridge(input(), rules());
    if (!made && made.error().code != ErrorCode::kConflict) {
      return tl::unexpected<Error>(made.error());
    }
    if (!made) return {};
    bridge_ = *std::move(made);
    costs_ = make_move_costs(bridge_, options_of_tables(), held_, weights_);
    balance::RelocationOptions options;
    options.max_moved = replan_.max_moved.value_or(kSaturated);
    options.price = price();
    options.max_moves = search_.effort >= 0 ? std::min(search_.effort, options_.relocation_moves)
                                            : options_.relocation_moves;
    options.tolerance = search_.tolerance;
    options.seed = search_.seed;
    if (planning.outcome.certificate.lower_bound) {
      options.lower_bound = *planning.outcome.certificate.lower_bound;
    }
    if (planning.outcome.plan) {
      const auto fresh = find_placements(bridge_, options_of_tables(), planning.best);
      if (fresh) {
        options.starts.push_back(*fresh);
        replan_.fresh_moved_bytes = moved_bytes(costs_, *fresh);
      }
      replan_.fresh_ms = value_of(run_.balanced.times, replan_.objective);
    }
    UnitPlacements home{costs_.home};
    const bool stays_whole =
        std::all_of(home.units.begin(), home.units.end(),
                    [](const balance::UnitPlacement& unit) { return unit.choice >= 0; });
    if (stays_whole) {
      const balance::PlacementValue value = evaluate(bridge_.problem, home);
      if (value.is_allowed()) replan_.before_ms = value.objective;
    }
    search_moves(options);
    return {};
  }

  // With other seeds, as long as the best is far from a fresh plan: what moves reach depends on the
  // first ones.
  void search_moves(balance::RelocationOptions options) {
    constexpr int kMaxSeeds = 3;
    constexpr double kNear = 1.01;  // beside a fresh plan
    EffortClock clock(context_);
    SearchOptions search = search_;
    std::optional<balance::Relocation> best;
    for (int i = 0; i < kMaxSeeds && !clock.is_stopped(); ++i, ++options.seed, ++search.seed) {
      if (best && best->start.objective <= kNear * replan_.fresh_ms.value_or(kInfinity)) break;
      const auto found = balance::relocate(bridge_.problem, costs_, options, clock);
      if (!found) continue;
      // With a price alone, about as many bytes are placed again as are worth moving.
      const Bytes limit = replan_.max_moved.value_or(std::max(
          found->moved, saturated_cast(kDefaultShare * static_cast<double>(replan_.total_bytes))));
      balance::Relocation one =
          balance::reopen(bridge_.problem, costs_, *found, limit, price(), search, clock);
      if (!best || is_better(one, *best, price())) best = std::move(one);
    }
    if (best) {
      best_ = std::move(best->start.placements);
      replan_.moved_bytes = best->moved;
      run_.balanced.effort += clock.effort();
    }
    if (clock.is_stopped()) replan_.stop = clock.reason();
  }

  // The bound of all plans holds; one with prices of moved bytes may be above it.
  Result<void> bound() {
    const Certificate& all = run_.balanced.planning.outcome.certificate;
    replan_.lower_bound = all.lower_bound;
    replan_.is_bound_of_all = all.lower_bound.has_value();
    Result<PlacementBridge> made = make_bounded_bridge(input(), rules());
    if (!made) return {};  // rules that no bound sees: that of all plans stands
    const PlacementBridge bridge = *std::move(made);
    if (bridge.is_tighter) return {};  // it lacks plans
    const MoveCosts costs = make_move_costs(bridge, options_of_tables(), held_, weights_);
    replan_.least_moved = least_moved_bytes(costs);
    if (price() > 0 && all.lower_bound) {
      replan_.lower_bound = *all.lower_bound + price() * static_cast<double>(*replan_.least_moved);
    }
    if (replan_.max_moved && *replan_.least_moved > *replan_.max_moved) return {};
    balance::RelocationBoundOptions options;
    options.max_moved = replan_.max_moved;
    options.price = price();
    options.target =
        best_ ? cost_of(evaluate(bridge_.problem, *best_).objective) : replan_.fresh_ms.value_or(0);
    options.max_steps = num_steps(bridge.problem);
    const balance::RelocationBound priced =
        bound_relocation(bridge.problem, costs, options, context_);
    if (priced.value > replan_.lower_bound.value_or(0)) {
      replan_.lower_bound = priced.value;
      replan_.is_bound_of_all = false;
      replan_.prices = priced.prices;
    }
    return {};
  }

  double cost_of(double ms) const {
    return ms + price() * static_cast<double>(replan_.moved_bytes);
  }

  static int num_steps(const balance::PlacementProblem& problem) {
    double pieces = 1;
    for (const balance::Unit& unit : problem.units) {
      for (const balance::UnitChoice& choice : unit.choices) {
        pieces += static_cast<double>(choice.runs.size());
      }
    }
    const double step = pieces * problem.num_ranks * problem.num_barriers;
    return static_cast<int>(std::clamp(kStepsCost / step, 1.0, kMostSteps));
  }

  // The new plan in the place of the fresh one.
  void finish() {
    embedding::PlanningResult& planning = run_.balanced.planning;
    Outcome<embedding::ShardingPlan>& outcome = planning.outcome;
    if (!best_) {
      outcome.plan.reset();
      planning.rating = std::numeric_limits<double>::quiet_NaN();
      outcome.certificate.objective = planning.rating;
      outcome.status = SolveStatus::kLimit;
      run_.bill = {};
      const bool is_proved =
          replan_.max_moved && replan_.least_moved && *replan_.least_moved > *replan_.max_moved;
      replan_.status = is_proved ? SolveStatus::kInfeasible : SolveStatus::kLimit;
      replan_.lower_bound.reset();
      replan_.prices.reset();
      replan_.answer = make_answer(question_, run_);
      return;
    }
    planning.best = to_proposal(bridge_, options_of_tables(), *best_);
    run_.balanced.times = plan_times(input(), options_.balanced.bridge.step_model, planning.best);
    planning.rating = run_.balanced.times.rating;
    outcome.plan = make_sharding_plan(options_of_tables(), planning.best, problem_.model,
                                      problem_.topology, problem_.enumeration);
    const double ms = value_of(run_.balanced.times, replan_.objective);
    replan_.ms = ms;
    outcome.certificate.objective = ms;
    const std::optional<double> gap_of_all = outcome.certificate.gap();
    outcome.status = gap_of_all && *gap_of_all <= search_.tolerance ? SolveStatus::kOptimal
                                                                    : SolveStatus::kFeasible;
    const std::optional<double> gap = replan_.gap();
    replan_.status =
        gap && *gap <= search_.tolerance ? SolveStatus::kOptimal : SolveStatus::kFeasible;
  }

  Result<void> schedule() {
    embedding::PlanningResult& planning = run_.balanced.planning;
    if (!planning.outcome.plan) return {};
    PLIMSOLL_ASSIGN(run_.bill, embedding::make_bill(problem_, planning));
    PLIMSOLL_RETURN_IF_ERROR(add_machine_times(problem_, run_));
    replan_.answer = make_answer(question_, run_);
    PLIMSOLL_ASSIGN(replan_.schedule, schedule_transfers(estimator_, planning.enumeration,
                                                         planning.reservation->topology,
                                                         options_.balanced.bridge.pools_ddr,
                                                         replan_.before, *planning.outcome.plan));
    return {};
  }

  const embedding::PlanningProblem& problem_;
  const ReplanOptions& options_;
  const SearchOptions& search_;
  const RunContext& context_;
  HeldTables held_;
  embedding::Estimator estimator_;
  ShardingQuestion question_;
  ShardingRun run_;
  std::vector<TableWeight> weights_;
  PlacementBridge bridge_;
  MoveCosts costs_;
  std::optional<UnitPlacements> best_;
  Replan replan_;
};

}  // namespace

std::optional<double> Replan::gap() const {
  if (!ms || !lower_bound) return std::nullopt;
  const double cost = *ms + price_of_move.value_or(0) / kGib * static_cast<double>(moved_bytes);
  return Certificate{cost, lower_bound, {}}.gap();
}

Result<Replan> replan_tables(const embedding::PlanningProblem& problem,
                             const embedding::ShardingPlan& before, const ReplanOptions& options,
                             const SearchOptions& search, const RunContext& context) {
  return Replanner(problem, before, options, search, context).run();
}

Result<embedding::TransferSchedule> schedule_transfers(const embedding::PlanningProblem& problem,
                                                       const embedding::ShardingPlan& before,
                                                       const embedding::ShardingPlan& after) {
  PLIMSOLL_ASSIGN(const embedding::PlanningResult prepared,
                  embedding::prepare_like_torchrec(problem, {}, {}));
  if (!prepared.reservation) {
    return fail(ErrorCode::kPlanner, "reservation", "it leaves nothing for tables",
                "reserve less, or plan for a smaller batch");
  }
  const embedding::Estimator estimator(problem.cost_model, problem.topology, problem.mode);
  return schedule_transfers(estimator, prepared.enumeration, prepared.reservation->topology, false,
                            before, after);
}

}  // namespace plimsoll::study
