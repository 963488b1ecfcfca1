#include "plimsoll/embedding/balanced_frontier.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "balance/balanced_placement.h"
#include "balance/bounds/bound_placement.h"
#include "core/clock_share.h"
#include "core/effort_clock.h"
#include "core/rounding.h"
#include "embedding/balanced/balanced_record.h"
#include "plimsoll/core/checked.h"
#include "plimsoll/embedding/perf_model.h"

namespace plimsoll::embedding {
namespace {

constexpr double kUnlimitedShare = .25;  // of the clock, for the plan without a limit

struct FoundPlan {
  Bytes bytes = 0;
  double ms = 0;
  PlacedProposal plan;
};

struct FoundBound {
  Bytes limit = 0;
  std::optional<double> lower_bound;
  std::optional<balance::PlacementBound> prices;
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
    num_replayed_ = result_.unlimited.stops.size();
    keep(planning.best, planning.outcome.certificate.objective);
    const Bytes top = plans_.back().bytes;
    bounds_.push_back({top, planning.outcome.certificate.lower_bound, std::nullopt});
    PLIMSOLL_ASSIGN(least_, least_limit(top));
    PLIMSOLL_RETURN_IF_ERROR(search_limits(least_, top));
    result_.unlimited.planning.provenance.stopped_at = write_stops(result_.unlimited.stops);
    math::PiecewiseLinear upper = upper_curve();
    result_.frontier = math::Frontier(std::move(upper), lower_curve());
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
    return {&planning.enumeration.options,
            &planning.reservation->topology,
            &problem_.model,
            given_ == nullptr ? &estimator_ : given_->estimator,
            planning.enumeration.profiles,
            problem_.machine.get()};
  }

  void keep(const PlacedProposal& plan, double objective) {
    Bytes most = 0;
    for (const Storage& used : rank_storage(result_.unlimited.planning.enumeration.options, plan)) {
      most = std::max(most, used.hbm);
    }
    plans_.push_back({most, objective, plan});
  }

  // Where the run that is replayed stopped next; -1: nowhere.
  std::int64_t replayed_stop() {
    const std::size_t next = num_replayed_++;
    return next < options_.stops.size() ? options_.stops[next] : -1;
  }

  // The stops of the searches that are still to come.
  std::vector<std::int64_t> replayed_stops() const {
    const std::size_t done = std::min(num_replayed_, options_.stops.size());
    return {options_.stops.begin() + static_cast<std::ptrdiff_t>(done), options_.stops.end()};
  }

  std::vector<PlacedProposal> starts() const {
    std::vector<PlacedProposal> starts;
    for (const FoundPlan& found : plans_) starts.push_back(found.plan);
    return starts;
  }

  // The least limit for which the totals do not prove that nothing fits.
  Result<Bytes> least_limit(Bytes top) {
    Bytes low = -1;  // nothing fits, or no bytes at all
    Bytes high = top;
    std::int64_t num_steps = 0, stop = -1;
    const std::int64_t replayed = replayed_stop();
    while (high - low > std::max<Bytes>(top >> 20, 1)) {
      if (num_steps == replayed || plimsoll::is_stopped(context_)) {
        stop = num_steps;
        break;
      }
      const Bytes middle = low + (high - low) / 2;
      BridgeOptions settings = options_.bridge;
      settings.max_hbm = middle;
      settings.keeps_hazards = result_.unlimited.keeps_hazards;
      PLIMSOLL_ASSIGN(const PlacementBridge bridge, make_bounded_bridge(input(), settings));
      if (bridge.is_tighter) {  // what does not fit there may fit otherwise
        low = -1;
        break;
      }
      balance::BoundOptions quick = balance::cheap_bounds();
      quick.max_cases = 1;
      const bool fits = !balance::bound_placement(bridge.problem, quick, context_).is_infeasible();
      if (plimsoll::is_stopped(context_)) continue;  // the bound may have been cut
      ++num_steps;
      (fits ? high : low) = middle;
    }
    result_.unlimited.stops.push_back(stop);
    return low + 1;
  }

  // From the top down, so that every plan that fits is a start for the next.
  Result<void> search_limits(Bytes least, Bytes top) {
    if (num_limits_ == 0 || least >= top) return {};
    SearchOptions search = search_;
    const std::int64_t effort = search.effort < 0 ? balance::kDefaultBalanceEffort : search.effort;
    search.effort = effort / num_limits_;
    const double low = std::log(static_cast<double>(std::max<Bytes>(least, 1)));
    const double high = std::log(static_cast<double>(top));
    const std::int64_t replayed = replayed_stop();
    std::int64_t num_searched = 0;
    std::vector<std::int64_t> stops;
    for (int i = num_limits_ - 1; i >= 0; --i) {
      if (num_searched == replayed || plimsoll::is_stopped(context_)) break;
      ++num_searched;
      const Bytes limit = saturated_cast(std::exp(low + (high - low) * i / num_limits_));
      PLIMSOLL_ASSIGN(const OptionSearchResult found,
                      search_limit(std::clamp(limit, least, top - 1), search,
                                   share_clock(context_, 1.0 / (i + 1))));
      stops.insert(stops.end(), found.stops.begin(), found.stops.end());
    }
    const bool is_cut = num_searched < num_limits_;
    if (is_cut) {
      note_stop(context_.is_cancelled()       ? StopReason::kCancelled
                : context_.is_past_deadline() ? StopReason::kDeadline
                                              : StopReason::kEffort);
    }
    std::vector<std::int64_t>& all = result_.unlimited.stops;
    all.push_back(is_cut ? num_searched : -1);
    all.insert(all.end(), stops.begin(), stops.end());
    return {};
  }

  Result<OptionSearchResult> search_limit(Bytes limit, const SearchOptions& search,
                                          const RunContext& context) {
    BalancedOptions options = options_;
    options.bridge.keeps_hazards = result_.unlimited.keeps_hazards;  // one curve, one kind of plan
    options.may_keep_hazards = false;
    options.stops = replayed_stops();
    options.bridge.max_hbm = limit;
    PLIMSOLL_ASSIGN(OptionSearchResult found,
                    balance_options(input(), options, starts(), search, context));
    num_replayed_ += found.stops.size();
    note_stop(found.outcome.stop);
    if (found.outcome.status == SolveStatus::kInfeasible) {
      if (limit < least_) return found;
      least_ = limit + 1;
      nothing_fits_ = found.bound && found.bound->is_infeasible() ? found.bound : std::nullopt;
      return found;
    }
    bounds_.push_back({limit, found.outcome.certificate.lower_bound, found.bound});
    if (found.outcome.plan) keep(*found.outcome.plan, found.outcome.certificate.objective);
    return found;
  }

  // A cut curve is cut, though the plan without a limit may be whole.
  void note_stop(StopReason reason) {
    StopReason& stop = result_.unlimited.planning.outcome.stop;
    if (stop == StopReason::kFinished) stop = reason;
  }

  // What every plan gives from its bytes on.
  math::PiecewiseLinear upper_curve() {
    std::stable_sort(plans_.begin(), plans_.end(), [](const auto& a, const auto& b) {
      return a.bytes != b.bytes ? a.bytes < b.bytes : a.ms < b.ms;
    });
    math::PiecewiseLinear curve;
    for (FoundPlan& found : plans_) {
      if (!curve.empty() && found.ms >= curve.back().y) continue;
      curve.push_back({found.bytes, found.ms, 0});
      result_.plans.push_back(std::move(found.plan));
    }
    return curve;
  }

  // What every bound gives up to its limit; the last one, which knows no limit, everywhere.
  math::PiecewiseLinear lower_curve() {
    std::stable_sort(bounds_.begin(), bounds_.end(),
                     [](const auto& a, const auto& b) { return a.limit > b.limit; });
    std::vector<double> value;  // descending limits: bounds never fall
    for (const FoundBound& found : bounds_) {
      const double own = found.lower_bound.value_or(0) * (1 - kRounding);
      value.push_back(value.empty() ? own : std::max(own, value.back()));
    }
    math::PiecewiseLinear curve;
    Bytes from = least_;
    std::optional<balance::PlacementBound>* prices = &nothing_fits_;  // of what lies left of `from`
    for (std::size_t i = bounds_.size(); i-- > 0;) {
      const bool is_last = i == 0;
      if (!is_last && bounds_[i].limit < from) continue;
      if (curve.empty() || value[i] < curve.back().y) {
        curve.push_back({from, value[i], 0});
        result_.proofs.push_back(std::move(*prices));
      }
      from = bounds_[i].limit + 1;
      prices = &bounds_[i].prices;
      const bool is_priced = *prices && (*prices)->value * (1 - kRounding) >= value[i];
      if (!is_priced) prices->reset();
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
  std::vector<FoundPlan> plans_;  // as found
  std::vector<FoundBound> bounds_;
  Bytes least_ = 0;                                      // below it nothing fits
  std::optional<balance::PlacementBound> nothing_fits_;  // what proves that
  std::size_t num_replayed_ = 0;                         // of options_.stops, used by now
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
