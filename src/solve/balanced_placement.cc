#include "plimsoll/solve/balanced_placement.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "plimsoll/solve/filtered_bound.h"
#include "plimsoll/solve/pattern_bound.h"
#include "plimsoll/solve/placement_annealing.h"
#include "plimsoll/solve/placement_construction.h"
#include "plimsoll/solve/placement_dive.h"

namespace plimsoll::solve {
namespace {

constexpr int kMaxEnumeratedCauses = 8;
constexpr int kMaxAnnealedParts = 3;
constexpr std::size_t kPoolSize = 8;
constexpr double kRoundingSlack = 1e-10;  // of whole-number loads in dives

// The placements that use no causes but some.
struct Part {
  PlacementItems items;
  double constant = 0;     // ms, the floor and the charges of all its causes
  double lower_bound = 0;  // of the objective
  FilteredBound bound;
  std::uint64_t forbidden = 0;  // causes, a bit each
  std::string proof;
  std::vector<Start> starts;
};

class Balancer {
 public:
  Balancer(const PlacementProblem& problem, const BalanceOptions& options,
           const SearchOptions& search, const RunContext& context)
      : problem_(problem),
        options_(options),
        search_(search),
        clock_(context, options.stop_at < 0 ? EffortClock::kNever : options.stop_at),
        effort_(search.effort < 0 ? kDefaultBalanceEffort : search.effort) {
    best_.objective = kInfinity;
  }

  BalanceOutcome run() {
    groups_ = make_placement_groups(problem_);
    for (const UnitPlacements& start : options_.starts) offer(start);
    make_parts();
    if (options_.uses_constructions) construct();
    if (options_.uses_dives) find_by_dives();
    if (options_.uses_patterns) sharpen();
    if (options_.uses_annealing) anneal_parts();
    if (options_.uses_dives) refute();
    return finish();
  }

 private:
  double lower_bound() const {
    double least = best_.objective;
    for (const Part& part : parts_) least = std::min(least, part.lower_bound);
    return least;
  }

  bool is_closed(const Part& part) const {
    return part.lower_bound * (1 + search_.tolerance) >= best_.objective;
  }

  void report() const {
    if (!clock_.context().progress) return;
    Progress progress{clock_.effort(), std::nullopt, std::nullopt};
    if (has_plan()) progress.incumbent = best_.objective;
    if (!parts_.empty()) progress.lower_bound = lower_bound();
    clock_.context().progress(progress);
  }

  bool has_plan() const { return best_.objective < kInfinity; }

  void offer(const UnitPlacements& placements) {
    const PlacementValue value = evaluate(problem_, placements);
    if (!value.is_allowed() || value.objective >= best_.objective) return;
    best_ = {placements, value.objective};
    report();
  }

  void offer(const Start& start) {
    if (start.objective >= best_.objective) return;
    best_ = start;
    report();
  }

  void make_parts() {
    const int num_causes = static_cast<int>(problem_.charges.size());
    if (num_causes == 0 || num_causes > kMaxEnumeratedCauses) {
      add_part(std::vector<bool>(problem_.charges.size(), true), num_causes > 0);
    } else {
      for (unsigned set = 0; set < (1U << num_causes); ++set) {
        std::vector<bool> allowed(problem_.charges.size());
        for (int cause = 0; cause < num_causes; ++cause) allowed[cause] = (set >> cause & 1) != 0;
        add_part(allowed, false);
      }
    }
    std::stable_sort(parts_.begin(), parts_.end(),
                     [](const Part& a, const Part& b) { return a.lower_bound < b.lower_bound; });
    report();
  }

  // A part that no placement is in is not kept; the last proof says why.
  void add_part(const std::vector<bool>& is_cause_allowed, bool is_charged_apart) {
    Part part;
    part.constant = problem_.floor_ms;
    for (std::size_t cause = 0; cause < is_cause_allowed.size(); ++cause) {
      if (is_cause_allowed[cause]) {
        if (!is_charged_apart) part.constant += problem_.charges[cause];
      } else {
        part.forbidden |= std::uint64_t{1} << cause;
      }
    }
    part.bound = filtered_bound(groups_of(part.forbidden));
    if (part.bound.infeasible) {
      infeasible_ = part.bound.infeasible;
      return;
    }
    part.lower_bound = part.bound.value + part.constant;
    part.proof = "the average over ranks of what a target leaves";
    if (has_plan() && is_closed(part)) {
      parts_.push_back(std::move(part));
      return;
    }
    ItemFilter filter;
    if (!is_cause_allowed.empty()) filter.is_cause_allowed = is_cause_allowed;
    part.items = make_placement_items(problem_, filter);
    parts_.push_back(std::move(part));
  }

  PlacementGroups groups_of(std::uint64_t forbidden) const {
    return forbidden == 0 ? groups_ : without_causes(groups_, forbidden);
  }

  bool is_searchable(const Part& part) const {
    return part.items.problem != nullptr && part.items.empty_units.empty() &&
           !clock_.is_stopped() && !is_closed(part);
  }

  void construct() {
    for (Part& part : parts_) {
      if (!is_searchable(part)) continue;
      StartOptions options;
      options.lower_bound = std::max(part.bound.value, 1e-9);
      options.forced_uniform = part.bound.survivors.floor_load.empty()
                                   ? 0
                                   : *std::min_element(part.bound.survivors.floor_load.begin(),
                                                       part.bound.survivors.floor_load.end());
      for (std::size_t a = 0; a < groups_.ranks.accounts.size(); ++a) {
        if (a >= part.bound.prices.price.size()) break;
        double& price = options.byte_price[groups_.ranks.accounts[a].tier];
        price = std::max(price, part.bound.prices.price[a]);
      }
      // A quarter of the effort, shared by the parts, and no more than about a second's work.
      const double steps = static_cast<double>(part.items.num_units) * part.items.num_ranks;
      const auto num_parts = static_cast<std::int64_t>(parts_.size());
      options.max_plans = std::clamp<std::int64_t>(
          std::min(effort_ / 4 / num_parts / std::max(part.items.num_units, 1),
                   static_cast<std::int64_t>(4e8 / steps)),
          16, 2000);
      part.starts = construct_starts(part.items, options, clock_);
      if (!part.starts.empty()) offer(part.starts.front());
    }
  }

  bool is_small() const { return problem_.num_units() <= kMaxDiveUnits; }

  // By bisection between bound and incumbent: a plan found or a refutation halves the rest.
  void find_by_dives() {
    if (!is_small()) return;
    constexpr int kMaxDives = 12;
    const std::int64_t nodes = std::max<std::int64_t>(effort_ / 10 / kMaxDives, 1);
    for (Part& part : parts_) {
      if (!is_searchable(part) || !is_divable(part.items)) continue;
      double low = part.lower_bound - part.constant;
      for (int i = 0; i < kMaxDives && is_searchable(part); ++i) {
        const double high = best_.objective - part.constant;
        const double target = high < kInfinity ? low + (high - low) / 2 : 2 * low;
        if (!(target < high * (1 - search_.tolerance))) break;
        DiveOptions options;
        options.target = target;
        options.max_nodes = nodes;
        const DiveResult result = dive(part.items, options, clock_);
        if (result.end == DiveEnd::kFound) {
          offer(result.placements);
          keep_start(part);
        } else {
          low = target;
          if (result.end == DiveEnd::kRefuted && part.items.has_exact_loads &&
              part.items.has_exact_bytes) {
            raise(part, target, result.num_nodes);
          }
        }
      }
    }
  }

  void raise(Part& part, double refuted, std::int64_t nodes) const {
    const double bound = refuted * (1 - kRoundingSlack) + part.constant;
    if (bound <= part.lower_bound) return;
    part.lower_bound = bound;
    part.proof = fmt::format("search to the end for a plan of {} ms, {} nodes", refuted, nodes);
    report();
  }

  // Contents of hosts and ranks bound what averages cannot. The clock does not reach into a bound,
  // so that a search stopped again meets the same bounds.
  void sharpen() {
    int num_parts = 0;
    for (Part& part : parts_) {
      if (!has_plan() || !is_searchable(part) || num_parts == kMaxAnnealedParts) continue;
      ++num_parts;
      const double target = best_.objective - part.constant;
      const PlacementGroups groups = groups_of(part.forbidden);
      const Survivors survivors = filter_by_target(groups, target);
      if (survivors.is_dead()) continue;
      PatternOptions options;
      options.branch = is_small();
      if (is_small()) options.tolerance = 1e-4;
      options.max_pricings = std::clamp<std::int64_t>(effort_ / 5000, 20, 2000);
      options.max_nodes = std::clamp<std::int64_t>(effort_ / 10000, 10, 1000);
      const PatternBound bound =
          pattern_bound(groups, survivors, part.bound.prices.price, target, options, {});
      clock_.spend(bound.num_pricings);
      if (bound.value + part.constant <= part.lower_bound) continue;
      part.lower_bound = bound.value + part.constant;
      part.proof = fmt::format("contents of hosts and ranks in {} windows of the slowest load",
                               std::int64_t{bound.num_nodes});
      report();
    }
  }

  void keep_start(Part& part) const {
    if (is_within(part, best_.placements)) part.starts.insert(part.starts.begin(), best_);
  }

  static bool is_within(const Part& part, const UnitPlacements& placements) {
    for (int unit = 0; unit < part.items.num_units; ++unit) {
      if (part.items.find_choice(unit, placements.units[unit].choice) < 0) return false;
    }
    return true;
  }

  void anneal_parts() {
    int num_parts = 0;
    for (const Part& part : parts_) num_parts += is_searchable(part) ? 1 : 0;
    num_parts = std::min(num_parts, kMaxAnnealedParts);
    int done = 0;
    for (Part& part : parts_) {
      if (done == num_parts) break;
      if (!is_searchable(part)) continue;
      ++done;
      anneal_part(part, effort_ / 2 / num_parts);
    }
  }

  // The pool by successive halving.
  void anneal_part(Part& part, std::int64_t effort) {
    if (has_plan()) keep_start(part);
    std::vector<Start>& pool = part.starts;
    if (pool.size() > kPoolSize) pool.resize(kPoolSize);
    const std::size_t sizes[] = {kPoolSize, 4, 2};
    std::uint64_t seed = search_.seed;
    for (const std::size_t size : sizes) {
      if (pool.size() > size) pool.resize(size);
      for (Start& start : pool) {
        if (!is_searchable(part)) return;
        AnnealingOptions options;
        options.lower_bound = part.lower_bound;
        options.max_moves = effort / 3 / static_cast<std::int64_t>(pool.size());
        options.moves_a_round = std::clamp<std::int64_t>(options.max_moves / 8, 1000, 1000000);
        options.tolerance = search_.tolerance;
        options.seed = ++seed;
        start = anneal(part.items, start, options, clock_).best;
        offer(start);
      }
      std::stable_sort(pool.begin(), pool.end(),
                       [](const Start& a, const Start& b) { return a.objective < b.objective; });
    }
  }

  // Is there a plan at all below the incumbent? Without memory the search is smaller.
  void refute() {
    if (!is_small()) return;
    for (Part& part : parts_) {
      while (is_searchable(part) && is_divable(part.items) && part.items.has_exact_loads &&
             has_plan()) {
        DiveOptions options;
        options.target = (best_.objective - part.constant) * (1 - search_.tolerance / 2);
        options.max_nodes = std::max<std::int64_t>(effort_, 1);
        options.relaxes_memory = true;
        const DiveResult result = dive(part.items, options, clock_);
        if (result.end == DiveEnd::kRefuted) raise(part, options.target, result.num_nodes);
        if (result.end != DiveEnd::kFound || !result.is_allowed) break;
        offer(result.placements);
      }
    }
  }

  BalanceOutcome finish() {
    BalanceOutcome result;
    result.effort = clock_.effort();
    Outcome<UnitPlacements>& outcome = result.outcome;
    outcome.stop = clock_.reason();
    outcome.certificate.objective = std::numeric_limits<double>::quiet_NaN();
    if (parts_.empty() && infeasible_ && !has_plan()) {
      outcome.status = SolveStatus::kInfeasible;
      explain(*infeasible_, outcome);
      return result;
    }
    const auto least = std::min_element(
        parts_.begin(), parts_.end(),
        [](const Part& a, const Part& b) { return a.lower_bound < b.lower_bound; });
    if (least != parts_.end()) {
      outcome.certificate.lower_bound = std::min(least->lower_bound, best_.objective);
      outcome.certificate.proof = least->proof;
    }
    if (!has_plan()) return result;
    outcome.certificate.objective = best_.objective;
    const std::optional<double> gap = outcome.certificate.gap();
    outcome.status =
        gap && *gap <= search_.tolerance ? SolveStatus::kOptimal : SolveStatus::kFeasible;
    outcome.plan = std::move(best_.placements);
    return result;
  }

  void explain(const MemoryProof& proof, Outcome<UnitPlacements>& outcome) const {
    Explanation& explanation = outcome.explanation;
    if (proof.weight.empty()) {
      const int unit = groups_.groups[proof.group].units.front();
      explanation.binding = place_of(problem_, unit);
      explanation.lines.push_back(explanation.binding +
                                  " fits on no rank, whichever choice it takes");
      outcome.certificate.proof = "a unit that fits nowhere";
      return;
    }
    explanation.binding = fmt::format("tier {}", proof.tier);
    explanation.missing = proof.missing;
    explanation.lines.push_back(
        fmt::format("the least that all units need exceeds the caps of all ranks by {} of tier {}",
                    format_bytes(proof.missing), proof.tier));
    outcome.certificate.proof = "weighted bytes that all units need exceed the weighted caps";
  }

  const PlacementProblem& problem_;
  const BalanceOptions& options_;
  const SearchOptions& search_;
  EffortClock clock_;
  std::int64_t effort_;
  PlacementGroups groups_;
  std::vector<Part> parts_;
  std::optional<MemoryProof> infeasible_;
  Start best_;
};

}  // namespace

BalanceOutcome balance(const PlacementProblem& problem, const BalanceOptions& options,
                       const SearchOptions& search, const RunContext& context) {
  return Balancer(problem, options, search, context).run();
}

}  // namespace plimsoll::solve
