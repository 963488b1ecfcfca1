#include "plimsoll/solve/balanced_placement.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "plimsoll/solve/bound_placement.h"
#include "plimsoll/solve/content_search.h"
#include "plimsoll/solve/filtered_bound.h"
#include "plimsoll/solve/placement_annealing.h"
#include "plimsoll/solve/placement_completion.h"
#include "plimsoll/solve/placement_dive.h"

namespace plimsoll::solve {
namespace {

constexpr int kMaxEnumeratedCauses = 8;
constexpr int kMaxAnnealedParts = 3;
constexpr std::size_t kPoolSize = 8;
constexpr double kRoundingSlack = 1e-10;  // of whole-number loads in dives
constexpr int kMaxContentClasses = 120;
constexpr double kSmallGap = 5e-3;  // constructions are of no use below

enum class Sharpness { kCheap, kCoarse, kFine };

std::string describe(BoundMethod method, const PlacementBound& bound) {
  switch (method) {
    case BoundMethod::kNone:
      return "";
    case BoundMethod::kAverage:
      return "the average over ranks";
    case BoundMethod::kFiltered:
      return "the average over ranks of what a target leaves";
    case BoundMethod::kWindows:
      return fmt::format("dual feasible functions in {} windows of the slowest load",
                         std::int64_t{bound.num_windows});
    case BoundMethod::kPatterns:
      return fmt::format("contents of hosts and ranks in {} windows of the slowest load",
                         std::int64_t{bound.num_windows});
    case BoundMethod::kBranched:
      return fmt::format(
          "contents of hosts and ranks in {} windows of the slowest load and of the "
          "numbers of uniform units",
          std::int64_t{bound.num_windows});
    case BoundMethod::kMemory:
      return "weighted bytes that all units need exceed the weighted caps";
  }
  return "";
}

// Without device and host choices of more parts.
void limit_parts(const PlacementGroups& groups, std::int64_t most, Survivors& survivors) {
  for (std::size_t c = 0; c < groups.choices.size(); ++c) {
    const GroupChoice& choice = groups.choices[c];
    if (!choice.is_everywhere && choice.num_parts > most) survivors.choice[c] = 0;
  }
}

std::int64_t most_parts(const PlacementGroups& groups, const Survivors& survivors) {
  std::int64_t most = 1;
  for (std::size_t c = 0; c < groups.choices.size(); ++c) {
    const GroupChoice& choice = groups.choices[c];
    if (survivors.choice[c] && !choice.is_everywhere) most = std::max(most, choice.num_parts);
  }
  return most;
}

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
    sharpen(Sharpness::kCheap);
    if (options_.uses_constructions) construct();
    if (options_.uses_patterns) sharpen(Sharpness::kCoarse);
    if (options_.uses_dives) {
      find_by_dives();
      refute(effort_ / 100);
    }
    if (options_.uses_patterns) search_contents_of_parts(effort_ / 8);
    if (options_.uses_annealing) anneal_parts(effort_ / 8);
    if (options_.uses_patterns) {
      sharpen(Sharpness::kFine);
      search_contents_of_parts(effort_ / 8 * 3);
    }
    if (options_.uses_annealing) anneal_parts(effort_ / 8);
    if (options_.uses_dives) refute(effort_);
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

  StartOptions start_options(const Part& part) const {
    StartOptions options;
    options.lower_bound = std::max(part.bound.value, 1e-9);
    const std::vector<double>& floor = part.bound.survivors.floor_load;
    options.forced_uniform = floor.empty() ? 0 : *std::min_element(floor.begin(), floor.end());
    for (std::size_t a = 0; a < part.bound.prices.price.size(); ++a) {
      double& price = options.byte_price[groups_.ranks.accounts[a].tier];
      price = std::max(price, part.bound.prices.price[a]);
    }
    // A tenth of the effort, shared by the parts, and no more than about a second's work.
    const auto num_units = std::max<std::int64_t>(part.items.num_units, 1);
    const auto num_parts = static_cast<std::int64_t>(parts_.size());
    options.max_plans = std::clamp<std::int64_t>(
        std::min(effort_ / 10 / num_parts, std::int64_t{160000}) / num_units, 16, 1200);
    return options;
  }

  double gap_of(const Part& part) const { return best_.objective / part.lower_bound - 1; }

  void construct() {
    for (Part& part : parts_) {
      if (!is_searchable(part)) continue;
      const StartOptions options = start_options(part);
      if (problem_.num_barriers == 1 && problem_.num_rank_classes == 1) {
        if (std::optional<Start> start = complete_best(part.items, options, clock_)) {
          offer(*start);
          part.starts.push_back(*std::move(start));
        }
      }
      if (!is_searchable(part) || gap_of(part) < kSmallGap) continue;
      std::vector<Start> starts = construct_starts(part.items, options, clock_);
      part.starts.insert(part.starts.end(), std::make_move_iterator(starts.begin()),
                         std::make_move_iterator(starts.end()));
      std::stable_sort(part.starts.begin(), part.starts.end(),
                       [](const Start& a, const Start& b) { return a.objective < b.objective; });
      if (!part.starts.empty()) offer(part.starts.front());
    }
  }

  bool is_small() const { return problem_.num_units() <= kMaxDiveUnits; }

  // By bisection between bound and incumbent: a plan found or a refutation halves the rest.
  void find_by_dives() {
    if (!is_small()) return;
    constexpr int kMaxDives = 12;
    // What such a dive finds it finds early.
    const std::int64_t nodes = std::clamp<std::int64_t>(effort_ / 10 / kMaxDives, 1, 10000);
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

  // The clock reaches into a bound, which is then lower; the effort spent before it began tells a
  // replay to stop there, with the same plan.
  void sharpen(Sharpness sharpness) {
    const bool is_cheap = sharpness == Sharpness::kCheap;
    if (parts_.empty() ||
        (!is_cheap && std::none_of(parts_.begin(), parts_.end(),
                                   [this](const Part& part) { return is_searchable(part); }))) {
      return;
    }
    BoundOptions options;
    if (has_plan()) options.incumbent = best_.objective;
    options.tolerance = search_.tolerance;
    options.use_windows = sharpness == Sharpness::kCoarse;
    options.use_patterns = !is_cheap;
    options.use_fine = sharpness == Sharpness::kFine;
    // A quarter of the effort where the units' choices are as many classes, up to a few.
    constexpr std::int64_t kManyChoices = 150;
    const std::int64_t cells = options.use_fine ? options.cells : options.coarse_cells;
    options.max_pricings = std::clamp<std::int64_t>(
        effort_ / 4 * 100 / cells / std::clamp<std::int64_t>(count_open_choices(), 1, kManyChoices),
        20, 1500);
    options.max_nodes = std::clamp<std::int64_t>(effort_ / 20000, 10, 400);
    options.max_branched_units = is_small() ? options.max_branched_units : 0;
    clock_.spend(1);
    PlacementBound bound = bound_placement(problem_, groups_, options, clock_.context());
    clock_.spend(bound.num_pricings + bound.num_windows);
    for (Part& part : parts_) take_bound(bound, part);
    if (bound_.cases.empty() || bound.value > bound_.value) bound_ = std::move(bound);
    report();
  }

  // Choices with something to place that a better plan may use.
  std::int64_t count_open_choices() const {
    const Survivors survivors = filter_by_target(groups_, best_.objective);
    std::int64_t count = 0;
    for (std::size_t c = 0; c < groups_.choices.size(); ++c) {
      count += survivors.choice[c] != 0 && !groups_.choices[c].is_everywhere;
    }
    return count;
  }

  // Of the cases that share placements with the part.
  static void take_bound(const PlacementBound& bound, Part& part) {
    const BoundCase* least = nullptr;
    for (const BoundCase& c : bound.cases) {
      if ((c.paid & part.forbidden) != 0) continue;
      if (least == nullptr || c.value < least->value) least = &c;
    }
    if (least == nullptr || least->value <= part.lower_bound) return;
    part.lower_bound = least->value;
    part.proof = describe(least->method, bound);
  }

  // The parts to search, each with its share of the effort.
  template <typename Search>
  void share_effort(std::int64_t effort, const Search& search) {
    int num_parts = 0;
    for (const Part& part : parts_) num_parts += is_searchable(part) ? 1 : 0;
    num_parts = std::min(num_parts, kMaxAnnealedParts);
    int done = 0;
    for (Part& part : parts_) {
      if (done == num_parts) break;
      if (!is_searchable(part)) continue;
      ++done;
      search(part, effort / num_parts);
    }
  }

  void search_contents_of_parts(std::int64_t effort) {
    share_effort(effort,
                 [this](Part& part, std::int64_t share) { search_part_by_contents(part, share); });
    ++num_searches_;
  }

  // Choices of few parts first: with all at once there are too many contents to round well.
  void search_part_by_contents(Part& part, std::int64_t effort) {
    const PlacementGroups groups = groups_of(part.forbidden);
    const double top = has_plan() ? best_.objective - part.constant : kInfinity;
    const std::int64_t most = most_parts(groups, filter_by_target(groups, top));
    std::vector<std::int64_t> rungs;
    for (const std::int64_t rung : {2, 4}) {
      if (rung < most && !is_small()) rungs.push_back(rung);
    }
    rungs.push_back(most);
    const auto num_rungs = static_cast<std::int64_t>(rungs.size());
    for (const std::int64_t rung : rungs) {
      if (!is_searchable(part)) return;
      const double target = has_plan() ? best_.objective - part.constant : kInfinity;
      Survivors survivors = filter_by_target(groups, target);
      if (survivors.is_dead()) return;
      const AverageBound average = average_bound(groups, survivors);
      if (average.infeasible) return;
      limit_parts(groups, rung, survivors);
      const std::optional<ContentModel> model =
          make_content_model(problem_, groups, survivors, average.prices.price);
      if (!model || model->classes.size() > kMaxContentClasses || model->items.empty()) return;
      ContentSearchOptions options;
      options.room =
          bound_.room > 0 ? bound_.room : std::max(part.bound.value - model->forced_load, 1e-9);
      options.lower_bound = part.lower_bound - part.constant;
      options.incumbent = target;
      options.tolerance = search_.tolerance;
      options.max_effort = effort / num_rungs;
      options.seed = search_.seed + num_searches_;
      search_contents(*model, has_plan() ? &best_.placements : nullptr, options, clock_,
                      [this](const UnitPlacements& placements) { offer(placements); });
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

  void anneal_parts(std::int64_t effort) {
    share_effort(effort, [this](Part& part, std::int64_t share) { anneal_part(part, share); });
  }

  // The pool by successive halving.
  void anneal_part(Part& part, std::int64_t effort) {
    if (has_plan()) keep_start(part);
    std::vector<Start>& pool = part.starts;
    // Many units need many moves: then few starts have them all.
    constexpr int kManyUnits = 1000;
    const std::int64_t moves_a_start =
        part.items.num_units > kManyUnits ? std::int64_t{100} * part.items.num_units : 1;
    const auto most = static_cast<std::size_t>(
        std::clamp<std::int64_t>(effort / 3 / moves_a_start, 1, kPoolSize));
    if (pool.size() > most) pool.resize(most);
    const std::size_t sizes[] = {kPoolSize, 4, 2};
    std::uint64_t seed = search_.seed + (num_annealings_++ << 8);
    for (const std::size_t size : sizes) {
      if (pool.size() > size) pool.resize(size);
      for (Start& start : pool) {
        if (!is_searchable(part)) return;
        AnnealingOptions options;
        options.lower_bound = part.lower_bound;
        options.max_moves = effort / 3 / static_cast<std::int64_t>(pool.size());
        options.moves_a_round =
            std::clamp<std::int64_t>(options.max_moves / 8, 1000 + moves_a_start / 3, 1000000);
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
  void refute(std::int64_t max_nodes) {
    if (!is_small()) return;
    for (Part& part : parts_) {
      while (is_searchable(part) && is_divable(part.items) && part.items.has_exact_loads &&
             has_plan()) {
        DiveOptions options;
        options.target = (best_.objective - part.constant) * (1 - search_.tolerance / 2);
        options.max_nodes = std::max<std::int64_t>(max_nodes, 1);
        options.relaxes_memory = true;
        DiveResult result = dive(part.items, options, clock_);
        if (result.end == DiveEnd::kFound && !result.is_allowed && part.items.has_exact_bytes) {
          options.relaxes_memory = false;  // bytes decide
          result = dive(part.items, options, clock_);
        }
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
    if (bound_.cases.empty()) {
      BoundOptions cheap;
      cheap.use_windows = cheap.use_patterns = false;
      bound_ = bound_placement(problem_, groups_, cheap, {});
    }
    result.bound = std::move(bound_);
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
  PlacementBound bound_;
  std::uint64_t num_searches_ = 0;  // by contents
  std::uint64_t num_annealings_ = 0;
  Start best_;
};

}  // namespace

BalanceOutcome balance(const PlacementProblem& problem, const BalanceOptions& options,
                       const SearchOptions& search, const RunContext& context) {
  return Balancer(problem, options, search, context).run();
}

}  // namespace plimsoll::solve
