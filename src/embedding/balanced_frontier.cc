#include "plimsoll/embedding/balanced_frontier.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "plimsoll/core/checked.h"
#include "plimsoll/core/clock_share.h"
#include "plimsoll/embedding/perf_model.h"
#include "plimsoll/solve/balanced_placement.h"
#include "plimsoll/solve/bound_placement.h"
#include "plimsoll/solve/effort_clock.h"

namespace plimsoll::embedding {
namespace {

constexpr double kBoundSlack = 1e-9;     // relative; what bound_placement promises
constexpr double kUnlimitedShare = .25;  // of the clock, for the plan without a limit

struct Found {
  Bytes limit = 0;
  std::optional<double> lower_bound;
};

class FrontierSearch {
 public:
  FrontierSearch(const PlanningProblem& problem, const GivenOptions* given, BalancedOptions options,
                 int num_limits, SearchOptions search, const RunContext& context)
      : problem_(problem),
        given_(given),
        options_(std::move(options)),
        num_limits_(num_limits),
        search_(search),
        context_(context),
        estimator_(problem.cost_model, problem.topology, problem.mode) {
    options_.keeps_reference_rating = false;
  }

  Result<BalancedFrontier> run() {
    PLIMSOLL_ASSIGN(result_.unlimited, plan_without_limit());
    const PlanningResult& planning = result_.unlimited.planning;
    if (!planning.outcome.plan || planning.enumeration.options.tables.empty()) {
      return std::move(result_);
    }
    keep(planning.best, planning.outcome.certificate.objective);
    const Bytes top = upper_.back().x;
    bounds_.push_back({top, planning.outcome.certificate.lower_bound});
    PLIMSOLL_ASSIGN(least_, least_limit(top));
    PLIMSOLL_RETURN_IF_ERROR(search_limits(least_, top));
    result_.frontier = solve::Frontier(upper_curve(), lower_curve());
    return std::move(result_);
  }

 private:
  Result<BalancedResult> plan_without_limit() const {
    const RunContext context = share_clock(context_, num_limits_ > 0 ? kUnlimitedShare : 1);
    return given_ == nullptr ? plan_balanced(problem_, options_, search_, context)
                             : plan_balanced(problem_, *given_, options_, search_, context);
  }

  BridgeInput input() const {
    const PlanningResult& planning = result_.unlimited.planning;
    return {&planning.enumeration.options, &planning.reservation->topology, &problem_.model,
            given_ == nullptr ? &estimator_ : nullptr, planning.enumeration.profiles};
  }

  void keep(const PlacedProposal& plan, double objective) {
    Bytes most = 0;
    for (const Storage& used : rank_storage(result_.unlimited.planning.enumeration.options, plan)) {
      most = std::max(most, used.hbm);
    }
    upper_.push_back({most, objective, 0});
    starts_.push_back(plan);
  }

  // The least limit for which the totals do not prove that nothing fits.
  Result<Bytes> least_limit(Bytes top) {
    Bytes low = -1;  // nothing fits, or no bytes at all
    Bytes high = top;
    while (high - low > std::max<Bytes>(top >> 20, 1)) {
      const Bytes middle = low + (high - low) / 2;
      BridgeOptions settings = options_.bridge;
      settings.max_hbm = middle;
      settings.keeps_hazards = result_.unlimited.keeps_hazards;
      PLIMSOLL_ASSIGN(const PlacementBridge bridge, make_bounded_bridge(input(), settings));
      if (bridge.is_tighter) return 0;  // what does not fit there may fit otherwise
      if (solve::is_stopped(context_)) return low + 1;
      solve::BoundOptions quick;
      quick.use_windows = quick.use_patterns = quick.use_branching = false;
      quick.max_cases = 1;
      const bool fits = !solve::bound_placement(bridge.problem, quick, context_).is_infeasible();
      (fits ? high : low) = middle;
    }
    return low + 1;
  }

  // From the top down, so that every plan that fits is a start for the next.
  Result<void> search_limits(Bytes least, Bytes top) {
    if (num_limits_ == 0 || least >= top) return {};
    SearchOptions search = search_;
    const std::int64_t effort = search.effort < 0 ? solve::kDefaultBalanceEffort : search.effort;
    search.effort = effort / num_limits_;
    const double low = std::log(static_cast<double>(std::max<Bytes>(least, 1)));
    const double high = std::log(static_cast<double>(top));
    for (int i = num_limits_ - 1; i >= 0; --i) {
      if (solve::is_stopped(context_)) {
        note_stop(context_.is_cancelled() ? StopReason::kCancelled : StopReason::kDeadline);
        break;
      }
      const Bytes limit = saturated_cast(std::exp(low + (high - low) * i / num_limits_));
      BalancedOptions options = options_;
      options.bridge.keeps_hazards =
          result_.unlimited.keeps_hazards;  // one curve, one kind of plan
      options.may_keep_hazards = false;
      options.stops.clear();  // they are of the plan without a limit
      options.bridge.max_hbm = std::clamp(limit, least, top - 1);
      PLIMSOLL_ASSIGN(
          const OptionSearchResult found,
          balance_options(input(), options, starts_, search, share_clock(context_, 1.0 / (i + 1))));
      note_stop(found.outcome.stop);
      if (found.outcome.status == SolveStatus::kInfeasible) {
        least_ = std::max(least_, *options.bridge.max_hbm + 1);
        continue;
      }
      bounds_.push_back({*options.bridge.max_hbm, found.outcome.certificate.lower_bound});
      if (found.outcome.plan) keep(*found.outcome.plan, found.outcome.certificate.objective);
    }
    return {};
  }

  // A cut curve is cut, though the plan without a limit may be whole.
  void note_stop(StopReason reason) {
    StopReason& stop = result_.unlimited.planning.outcome.stop;
    const bool is_cut = reason == StopReason::kDeadline || reason == StopReason::kCancelled;
    if (is_cut && stop == StopReason::kFinished) stop = reason;
  }

  // What every plan gives from its bytes on.
  solve::PiecewiseLinear upper_curve() {
    std::stable_sort(upper_.begin(), upper_.end(), [](const auto& a, const auto& b) {
      return a.x != b.x ? a.x < b.x : a.y < b.y;
    });
    solve::PiecewiseLinear curve;
    for (const solve::Segment& point : upper_) {
      if (curve.empty() || point.y < curve.back().y) curve.push_back(point);
    }
    return curve;
  }

  // What every bound gives up to its limit; the last one, which knows no limit, everywhere.
  solve::PiecewiseLinear lower_curve() {
    std::stable_sort(bounds_.begin(), bounds_.end(),
                     [](const Found& a, const Found& b) { return a.limit > b.limit; });
    std::vector<double> value;  // descending limits: bounds never fall
    for (const Found& found : bounds_) {
      const double own = found.lower_bound.value_or(0) * (1 - kBoundSlack);
      value.push_back(value.empty() ? own : std::max(own, value.back()));
    }
    solve::PiecewiseLinear curve;
    Bytes from = least_;
    for (std::size_t i = bounds_.size(); i-- > 0;) {
      const bool is_last = i == 0;
      if (!is_last && bounds_[i].limit < from) continue;
      if (curve.empty() || value[i] < curve.back().y) curve.push_back({from, value[i], 0});
      from = bounds_[i].limit + 1;
    }
    return curve;
  }

  const PlanningProblem& problem_;
  const GivenOptions* given_;  // null: the model's options
  BalancedOptions options_;
  int num_limits_;
  SearchOptions search_;
  const RunContext& context_;
  Estimator estimator_;
  BalancedFrontier result_;
  std::vector<PlacedProposal> starts_;
  solve::PiecewiseLinear upper_;  // a point a plan, as found
  std::vector<Found> bounds_;
  Bytes least_ = 0;  // below it nothing fits
};

}  // namespace

Result<BalancedFrontier> plan_balanced_frontier(const PlanningProblem& problem,
                                                const BalancedOptions& options, int num_limits,
                                                const SearchOptions& search,
                                                const RunContext& context) {
  return FrontierSearch(problem, nullptr, options, num_limits, search, context).run();
}

Result<BalancedFrontier> plan_balanced_frontier(const PlanningProblem& problem,
                                                const GivenOptions& given,
                                                const BalancedOptions& options, int num_limits,
                                                const SearchOptions& search,
                                                const RunContext& context) {
  return FrontierSearch(problem, &given, options, num_limits, search, context).run();
}

}  // namespace plimsoll::embedding
