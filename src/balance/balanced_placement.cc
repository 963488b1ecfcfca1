#include "balance/balanced_placement.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <optional>

#include "balance/balance_parts.h"
#include "balance/barriers/barrier_model.h"
#include "balance/barriers/box_search.h"
#include "balance/bounds/bound_placement.h"
#include "balance/bounds/choice_tree.h"
#include "balance/bounds/explain_infeasible.h"
#include "balance/contents/content_ladder.h"
#include "balance/merged_part.h"
#include "balance/moves/placement_annealing.h"
#include "balance/moves/placement_backtracking.h"
#include "balance/moves/placement_completion.h"
#include "balance/moves/placement_dive.h"
#include "balance/moves/placement_exchange.h"
#include "balance/moves/placement_shake.h"
#include "balance/moves/replica_exchange.h"
#include "balance/part_annealing.h"
#include "balance/problem/one_load.h"
#include "balance/problem/placement_judge.h"
#include "balance/tight/room_walks.h"
#include "balance/tight/tight_search.h"
#include "core/check.h"

namespace plimsoll::balance {
namespace {

constexpr int kMaxAnnealedParts = 3;
constexpr double kToAim = 0.99;            // of the tolerance: checks of bounds lose a little
constexpr double kRoundingSlack = 1e-10;   // of whole-number loads in dives
constexpr double kSmallGap = 5e-3;         // constructions are of no use below
constexpr double kTinyGap = 1e-3;          // nor are shakes
constexpr std::int64_t kPricedAMove = 16;  // choices that a bound prices in the time of a move
constexpr std::int64_t kGuidesATree = 8;   // nodes of a bound's tree for one of a guide's
constexpr std::int64_t kEffortOfWindows = 200000;  // windows cost about as much as so many moves

enum class Sharpness { kCheap, kCoarse, kFine };

using Part = BalancePart;

// Pieces that a choice places: what a move of its unit costs.
std::int64_t count_placed(const UnitChoice& choice) {
  if (choice.spread == Spread::kUniform) return 0;
  if (choice.spread == Spread::kHost) return choice.num_blocks;
  std::int64_t count = 0;
  for (const PieceRun& run : choice.runs) count += run.count;
  return count;
}

// Effort counts moves of units. Where these are of very many pieces, all their work grows with
// them, and so much less effort is as much work.
std::int64_t scale_effort(const PlacementProblem& problem, std::int64_t effort) {
  constexpr double kOrdinaryPieces = 32;  // of a unit; up to these nothing is scaled
  double pieces = 0;
  for (const Unit& unit : problem.units) {
    std::int64_t most = 0;
    for (const UnitChoice& choice : unit.choices) most = std::max(most, count_placed(choice));
    pieces += static_cast<double>(most);
  }
  const double share = kOrdinaryPieces * static_cast<double>(problem.num_units()) / pieces;
  return share < 1 ? static_cast<std::int64_t>(share * static_cast<double>(effort)) : effort;
}

class Balancer {
 public:
  Balancer(const PlacementProblem& problem, const BalanceOptions& options,
           const SearchOptions& search, const RunContext& context)
      : problem_(problem),
        options_(options),
        search_(search),
        clock_(context, options.stop_at < 0 ? EffortClock::kNever : options.stop_at),
        all_effort_(
            scale_effort(problem, search.effort < 0 ? kDefaultBalanceEffort : search.effort)),
        effort_(all_effort_),
        tolerance_(kToAim * search.tolerance) {
    best_.objective = kInfinity;
  }

  BalanceOutcome run() {
    groups_ = make_placement_groups(problem_);
    for (const UnitPlacements& start : options_.starts) offer(start);
    improve_start();
    make_parts();
    sharpen(Sharpness::kCheap);
    if (options_.uses_constructions) {
      start_parts();
      construct();
    }
    search_boxes_of_parts(effort_ / 8);
    if (options_.uses_dives) refute(effort_ / 100);
    overdraw_parts();
    if (!has_plan()) overdraw_again();
    if (!has_plan()) find_by_backtracking();
    exchange_in_parts(effort_ / 8);
    if (options_.uses_patterns) sharpen(Sharpness::kCoarse);
    if (options_.uses_dives) find_by_dives();
    search_contents_of_parts(effort_ / 8);
    anneal_parts();
    shake_parts(effort_ / 8 * 3, 2);
    if (options_.uses_patterns) {
      sharpen(Sharpness::kFine);
      walk_within_rooms_of_parts(effort_ / 6);
      search_contents_of_parts(effort_ / 8 * (is_small() ? 1 : 5));
    }
    anneal_parts();
    exchange_in_parts(effort_ / 8);
    shake_parts(effort_ / 8, 1);
    if (options_.uses_dives) {
      refute(effort_ / 2);
      raise_by_dives(effort_ / 2);
    }
    return finish();
  }

 private:
  double lower_bound() const {
    double least = best_.objective;
    for (const Part& part : parts_) least = std::min(least, part.lower_bound);
    return least;
  }

  bool is_closed(const Part& part) const {
    return part.lower_bound * (1 + tolerance_) >= best_.objective;
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

  // A good plan early, and fewer parts worth a look.
  void improve_start() {
    if (!options_.uses_annealing || problem_.num_barriers == 1 || !has_plan()) return;
    AnnealingOptions options;
    options.max_moves = std::min(effort_ / 40, std::int64_t{100} * problem_.num_units());
    options.tolerance = tolerance_;
    options.seed = search_.seed;
    options.has_soft_times = true;
    offer(anneal_start(problem_, best_, options, clock_));
  }

  void make_parts() {
    BalanceParts parts = make_balance_parts(problem_, groups_, best_.objective, tolerance_, clock_);
    parts_ = std::move(parts.parts);
    infeasible_ = std::move(parts.infeasible);
    report();
  }

  PlacementGroups groups_of(const Part& part) const {
    return part.forbidden == 0 ? groups_ : without_causes(groups_, part.forbidden);
  }

  bool is_searchable(Part& part) const {
    if (clock_.is_stopped() || is_closed(part)) return false;
    part.find_items(problem_);
    return part.items.empty_units.empty();
  }

  PerResource<double> byte_prices(const Part& part) const {
    PerResource<double> prices{};
    for (std::size_t a = 0; a < part.bound.prices.price.size(); ++a) {
      double& price = prices[groups_.ranks.accounts[a].resource];
      price = std::max(price, part.bound.prices.price[a]);
    }
    return prices;
  }

  StartOptions start_options(const Part& part) const {
    StartOptions options;
    options.lower_bound = std::max(part.bound.value, 1e-9);
    const std::vector<double>& floor = part.bound.survivors.floor_load;
    options.forced_uniform = floor.empty() ? 0 : *std::min_element(floor.begin(), floor.end());
    options.byte_price = byte_prices(part);
    // A tenth of the effort, shared by the parts, and no more than about a second's work.
    const auto num_units = std::max<std::int64_t>(part.items.num_units, 1);
    const auto num_parts = static_cast<std::int64_t>(parts_.size());
    options.max_plans = std::clamp<std::int64_t>(
        std::min(effort_ / 10 / num_parts, std::int64_t{160000}) / num_units, 16, 1200);
    return options;
  }

  // Every set of causes that may be worth its charges gets a placement of small total load: with
  // several barriers, and caps near the least total there is, moves from another part's placements
  // reach hardly any.
  void start_parts() {
    if (problem_.num_barriers == 1 || parts_.size() == 1) return;
    constexpr int kMaxParts = 4;
    int num_parts = 0;
    for (Part& part : parts_) {
      if (num_parts == kMaxParts) break;
      if (!is_searchable(part)) continue;
      ++num_parts;
      start_part(part, effort_ / 64);
    }
  }

  void start_part(Part& part, std::int64_t effort) {
    const auto merged = merge_part(problem_, part.forbidden);
    if (!merged) return;
    BalanceOptions options;
    options.uses_patterns = options.explains = false;
    if (options_.stop_at >= 0) options.stop_at = options_.stop_at - clock_.effort();
    SearchOptions search = search_;
    search.effort = effort;
    RunContext context = clock_.context();
    context.progress = {};
    const BalanceOutcome found = balance(merged->problem, options, search, context);
    const bool is_whole = found.outcome.stop == StopReason::kFinished;
    clock_.spend(found.effort + (is_whole ? 1 : 0));  // a replay stops in it where this run did
    if (!found.outcome.plan) return;
    Start start{merged->to_whole(*found.outcome.plan), kInfinity};
    const PlacementValue value = evaluate(problem_, start.placements);
    if (!value.is_allowed()) return;
    start.objective = value.objective;
    offer(start);
    part.starts.push_back(std::move(start));
  }

  double gap_of(const Part& part) const { return best_.objective / part.lower_bound - 1; }

  // Of many parts the first get all, as far as a share of the effort goes.
  void construct() {
    const std::int64_t end = clock_.effort() + effort_ / 64;
    for (Part& part : parts_) {
      if (parts_.size() > 1 && clock_.effort() >= end) break;
      if (!is_searchable(part)) continue;
      const StartOptions options = start_options(part);
      if (problem_.num_barriers == 1 && problem_.num_rank_classes == 1) {
        if (std::optional<Start> start = complete_best(part.items, options, clock_)) {
          offer(*start);
          const bool is_far_off = start->objective > kFarOff * part.lower_bound;
          const std::int64_t effort = effort_ / (is_far_off ? 64 : 16);
          part.starts.push_back(improved(part, *start, effort, exchange));
          offer(part.starts.back());
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

  // Of all parts, for most are soon closed.
  void search_boxes_of_parts(std::int64_t effort) {
    if (!options_.uses_contents || !has_plan() || !are_boxes_of_use()) return;
    constexpr std::int64_t kSharesOfParts = 4, kPolishes = 200;
    const std::int64_t end = clock_.effort() + effort;
    for (Part& part : parts_) {
      if (clock_.effort() >= end || !is_searchable(part)) continue;
      BoxSearchOptions options;
      options.forbidden = part.forbidden;
      options.constant = part.constant;
      options.incumbent = best_.objective;
      options.tolerance = tolerance_;
      options.max_effort = effort / kSharesOfParts;
      Start best{{}, kInfinity};
      part.box_load =
          search_boxes(problem_, options, clock_, [&](const UnitPlacements& found, double& below) {
            Start polished = polish(part, found, effort / kPolishes);
            const bool is_allowed = polished.objective < kInfinity;
            if (polished.objective < best.objective) {
              offer(polished);
              best = std::move(polished);
            }
            below = std::min(below, best_.objective);
            return is_allowed;
          });
      // Of several barriers a dive's placement is the first start, though others may be better now.
      auto place = part.starts.begin();
      while (problem_.num_barriers == 1 && place != part.starts.end() &&
             place->objective <= best.objective) {
        ++place;
      }
      if (best.objective < kInfinity) part.starts.insert(place, std::move(best));
    }
  }

  // A placement of a dive, annealed a little where it is good; infinite where it is not allowed and
  // does not become so.
  Start polish(const Part& part, const UnitPlacements& found, std::int64_t moves) {
    constexpr double kGood = 1.02;  // beside the best
    const PlacementValue value = evaluate(problem_, found);
    Start start{found, value.objective};
    if (value.is_allowed()) offer(start);
    const bool is_good = value.objective < kGood * best_.objective &&
                         (value.is_allowed() || overdraws_times_alone(value));
    if (!is_good) return value.is_allowed() ? start : Start{{}, kInfinity};
    AnnealingOptions options = annealing_options(part, moves);
    options.moves_a_round = moves / 4;
    if (!value.is_allowed()) options.ceiling = kGood * best_.objective;
    Start best = anneal(part.items, start, options, clock_).best;
    return value.is_allowed() || best.objective < options.ceiling ? best : Start{{}, kInfinity};
  }

  bool overdraws_times_alone(const PlacementValue& value) const {
    std::size_t num_overdrawn = 0;
    for (int rank = 0; rank < problem_.num_ranks; ++rank) {
      for (int r = 0; r < problem_.num_resources(); ++r) {
        num_overdrawn +=
            problem_.resources[r].is_time && value.bytes[rank][r] > problem_.caps[rank][r];
      }
    }
    return value.faults.size() == num_overdrawn;
  }

  // Where bytes have a price, changes one by one overdraw some cap. Most of the effort goes to
  // searches that overdraw on the way, and the searches below get the rest.
  void overdraw_parts() {
    if (!options_.uses_replicas) return;
    const std::int64_t before = clock_.effort();
    share_effort(effort_ / 5 * 4, [this](Part& part, std::int64_t share) {
      if (!is_overdrawable(part.items)) return;
      // By experiment; the walks look at all ranks at once, replicas at a few.
      constexpr int kRanksOfReplicas = 8, kFewRanks = 16, kShareOfFull = 4;
      constexpr double kFullGap = .02;
      if (is_tight(part)) {
        const std::int64_t replicas =
            share * kRanksOfReplicas / std::max(problem_.num_ranks, kFewRanks);
        exchange_replicas_of_part(part, replicas);
        search_tight_part(part, share - replicas, search_.seed);
      } else if (gap_of(part) >= kFullGap && is_nearly_full(part)) {
        search_tight_part(part, share / kShareOfFull, search_.seed);
      }
    });
    effort_ = std::max(effort_ - (clock_.effort() - before), effort_ / 5);
  }

  void exchange_replicas_of_part(Part& part, std::int64_t share) {
    ReplicaOptions options;
    options.lower_bound = std::max(part.lower_bound - part.constant, 1e-9);
    options.incumbent = best_.objective - part.constant;
    options.byte_price = byte_prices(part);
    options.guides = guides_of(part);
    if (clock_.spend(1)) return;  // what the clock cut is not used: a replay has all of it
    options.max_moves = share;
    options.tolerance = tolerance_;
    options.seed = search_.seed;
    const auto improve = [&](const UnitPlacements& found) {
      offer(found);
      keep_start(part);
      offer(improved(part, best_, share / 64, exchange));
      return best_.objective - part.constant;
    };
    if (const auto found = exchange_replicas(part.items, options, clock_, improve)) {
      offer(*found);
      keep_start(part);
    }
  }

  // Where nothing fits yet, walks that begin otherwise.
  void overdraw_again() {
    constexpr std::uint64_t kOtherSeed = 0x9e3779b97f4a7c15;
    if (!options_.uses_replicas) return;
    for (Part& part : parts_) {
      if (has_plan() || !is_searchable(part) || !is_overdrawable(part.items)) continue;
      search_tight_part(part, all_effort_ / 2 / std::ssize(parts_), search_.seed ^ kOtherSeed);
    }
  }

  void search_tight_part(Part& part, std::int64_t effort, std::uint64_t seed) {
    if (!is_searchable(part)) return;
    TightOptions options;
    options.lower_bound = std::max(part.lower_bound - part.constant, 1e-9);
    options.incumbent = best_.objective - part.constant;
    if (has_plan() && part.contains(best_.placements)) options.start = &best_.placements;
    options.max_effort = effort;
    options.tolerance = tolerance_;
    options.seed = seed;
    if (const auto found = search_tight(part.items, options, clock_)) {
      offer(*found);
      keep_start(part);
    }
  }

  // Where caps on times leave few placements at several barriers, dives are seldom allowed, and
  // moves one by one seldom lead from one to the next.
  void walk_within_rooms_of_parts(std::int64_t effort) {
    constexpr double kLargeGap = .02;
    const bool has_caps = find_time_resource(problem_) >= 0;
    if (!options_.uses_replicas || !has_caps || problem_.num_barriers == 1 || !has_plan()) return;
    share_effort(effort, [this](Part& part, std::int64_t share) {
      if (part.box_load.empty() || gap_of(part) < kLargeGap) return;
      RoomWalkOptions options;
      options.filter = part.filter(problem_);
      options.load = part.box_load;
      options.constant = part.constant;
      options.lower_bound = part.lower_bound;
      options.incumbent = best_.objective;
      options.tolerance = tolerance_;
      options.max_effort = share;
      options.seed = search_.seed;
      if (const auto found = walk_within_rooms(problem_, options, clock_)) {
        offer(*found);
        keep_start(part);
      }
    });
  }

  std::vector<std::vector<int>> guides_of(const Part& part) const {
    const PlacementGroups units = without_causes(
        make_placement_groups(problem_, {.drop_dominated = true, .merge_units = false}),
        part.forbidden);
    if (max_choice_nodes() == 0 || !is_for_choice_tree(units)) return {};
    ChoiceTreeOptions options;
    options.target = best_.objective - part.constant;
    options.max_nodes = std::max<std::int64_t>(max_choice_nodes() / kGuidesATree, 1);
    options.max_pivots = max_choice_pivots();
    return choice_guides(units, options, clock_.context());
  }

  // Of units one by one, as the trees see them.
  std::int64_t count_choices() const {
    std::int64_t count = 1;
    for (const Unit& unit : problem_.units) count += std::ssize(unit.choices);
    return count;
  }

  // A pivot visits all choices; by experiment four such visits take about a tenth of a move.
  std::int64_t max_choice_pivots() const {
    constexpr std::int64_t kPricedAShare = 4;
    return std::max<std::int64_t>(kPricedAShare * all_effort_ / count_choices(), 1);
  }

  // A node visits all choices a few times; a tree takes a twentieth of all effort at most, and is
  // not worth its begin where that is few nodes, or its first program is not solved.
  std::int64_t max_choice_nodes() const {
    constexpr std::int64_t kShareOfVisit = 60, kLeast = 10, kMost = 300, kPivotsAUnit = 2;
    const std::int64_t num_nodes = all_effort_ / kShareOfVisit / count_choices();
    const bool is_solved = max_choice_pivots() >= kPivotsAUnit * problem_.num_units();
    return num_nodes < kLeast || !is_solved ? 0 : std::min(num_nodes, kMost);
  }

  // Memory decides, and what was found until now is far from the bound.
  bool is_tight(const Part& part) const {
    constexpr double kLargeGap = .05;
    if (has_plan() && gap_of(part) < kLargeGap) return false;
    const std::vector<double>& price = part.bound.prices.price;
    return !has_plan() ||
           std::any_of(price.begin(), price.end(), [](double one) { return one > 0; });
  }

  // In boxes memory is only priced: where it decides, and there is but one barrier, other bounds
  // say as much for less effort.
  bool are_boxes_of_use() const {
    return effort_ >= kEffortOfWindows && problem_.num_barriers <= kMaxBarriersOfBoxes &&
           (problem_.num_barriers > 1 ||
            std::none_of(parts_.begin(), parts_.end(),
                         [this](const Part& part) { return is_tight(part); }));
  }

  // Do the incumbent's bytes fill most of some memory?
  bool is_nearly_full(const Part& part) const {
    constexpr double kMost = .7;
    const PlacementValue value = evaluate(problem_, best_.placements);
    return std::any_of(part.items.resources.begin(), part.items.resources.end(), [&](int r) {
      double used = 0, cap = 0;
      for (int rank = 0; rank < problem_.num_ranks; ++rank) {
        used += static_cast<double>(value.bytes[rank][r]);
        cap += static_cast<double>(problem_.caps[rank][r]);
      }
      return !problem_.resources[r].is_time && used > kMost * cap;
    });
  }

  // Rules and caps that leave few placements.
  void find_by_backtracking() {
    const std::int64_t nodes = std::clamp<std::int64_t>(effort_ / 8, 1, 200000);
    for (Part& part : parts_) {
      if (has_plan() || !is_searchable(part)) continue;
      if (const auto found = balance::find_by_backtracking(part.items, nodes, clock_)) {
        offer(*found);
        keep_start(part);
      }
    }
  }

  bool is_small() const { return problem_.num_units() <= kMaxDiveUnits; }

  // Nodes of a depth-first search in a share of the effort. What a node takes grows with the ranks.
  std::int64_t dive_nodes(std::int64_t effort) const {
    constexpr std::int64_t kEffortANode = 2, kRanksOfANode = 32;
    return std::max<std::int64_t>(effort / kEffortANode / (1 + problem_.num_ranks / kRanksOfANode),
                                  1);
  }

  DiveOptions dive_options(const Part& part, double target, std::int64_t max_nodes) const {
    DiveOptions options;
    options.target = target;
    options.forbidden = part.forbidden;
    options.paid = part.paid;
    options.byte_price = byte_prices(part);
    options.max_nodes = max_nodes;
    options.relaxes = options.byte_price == PerResource<double>{};
    return options;
  }

  // Without memory and rules the search is smaller, unless bytes decide. `relaxed`: the objective
  // of what that found, where it is not allowed.
  DiveResult dive_into(Part& part, double target, std::int64_t max_nodes,
                       std::optional<double>* relaxed = nullptr) {
    DiveOptions options = dive_options(part, target, max_nodes);
    DiveResult result = dive(problem_, options, clock_);
    if (result.end == DiveEnd::kFound && !result.is_allowed) {
      if (relaxed != nullptr) *relaxed = evaluate(problem_, result.placements).objective;
      options.relaxes = false;
      result = dive(problem_, options, clock_);
    }
    if (result.end == DiveEnd::kRefuted) raise(part, target, result.num_nodes);
    return result;
  }

  // By bisection between bound and incumbent: a plan found or a refutation halves the rest.
  void find_by_dives() {
    if (!is_small()) return;
    constexpr int kMaxDives = 12;
    // What such a dive finds it finds early.
    const std::int64_t nodes = std::min<std::int64_t>(dive_nodes(effort_ / 10 / kMaxDives), 10000);
    for (Part& part : parts_) {
      double low = part.lower_bound;
      for (int i = 0; i < kMaxDives && is_searchable(part); ++i) {
        const double high = best_.objective;
        const double target = high < kInfinity ? low + (high - low) / 2 : 2 * low;
        if (!(target < high * (1 - tolerance_)) || !(target > problem_.floor_ms)) break;
        const DiveResult result = dive_into(part, target, nodes);
        if (result.end == DiveEnd::kFound && result.is_allowed) {
          offer(result.placements);
          keep_start(part);
        } else {
          low = target;
        }
      }
    }
  }

  void raise(Part& part, double refuted, std::int64_t nodes) const {
    const double bound = refuted * (1 - kRoundingSlack);
    if (bound <= part.lower_bound) return;
    part.lower_bound = bound;
    part.proof = ProofKind::kSearchToTheEnd;
    part.proof.ms = refuted;
    part.proof.count = nodes;
    report();
  }

  // The clock reaches into a bound, which is then lower; the effort spent before it began tells a
  // replay to stop there, with the same plan.
  void sharpen(Sharpness sharpness) {
    const bool is_cheap = sharpness == Sharpness::kCheap;
    if (parts_.empty() ||
        (!is_cheap && std::none_of(parts_.begin(), parts_.end(),
                                   [this](Part& part) { return is_searchable(part); }))) {
      return;
    }
    BoundOptions options;
    if (has_plan()) options.incumbent = best_.objective;
    options.tolerance = tolerance_;
    options.use_windows = sharpness == Sharpness::kCoarse && effort_ >= kEffortOfWindows;
    options.use_patterns = !is_cheap;
    options.use_fine = sharpness == Sharpness::kFine;
    // Of few units a quarter of the effort, else an eighth, where the units' choices are as many
    // classes, up to a few.
    constexpr std::int64_t kManyChoices = 150;
    const std::int64_t cells = options.use_fine ? options.cells : options.coarse_cells;
    options.max_pricings = std::clamp<std::int64_t>(
        effort_ / (is_small() ? 4 : 8) * 1000 / cells /
            std::clamp<std::int64_t>(count_open_choices(), 1, kManyChoices),
        20, 1500);
    options.max_nodes = std::clamp<std::int64_t>(effort_ / 20000, 10, 400);
    // The packing of many hosts is itself a fraction, which branching does not tell.
    if (!is_small() || problem_.num_hosts() > options.max_apart_hosts) {
      options.max_branched_units = 0;
    } else if (problem_.num_hosts() > 1) {
      options.max_apart_pricings = std::clamp<std::int64_t>(effort_ / 2000, 50, 20000);
      options.max_nodes = std::max(options.max_nodes, options.max_apart_pricings);
    }
    options.max_priced = kPricedAMove * effort_;
    options.use_choices = sharpness != Sharpness::kCoarse;
    options.use_boxes = are_boxes_of_use();
    options.max_box_effort = std::max<std::int64_t>(effort_ / 50, 1);
    options.load_resource = find_time_resource(problem_);
    options.max_choice_nodes = max_choice_nodes();
    options.max_choice_pivots = max_choice_pivots();
    clock_.spend(1);
    PlacementBound bound = bound_placement(problem_, groups_, options, clock_.context());
    clock_.spend(bound.num_pricings + bound.num_windows);
    for (Part& part : parts_) part.take(bound);
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

  // The parts to search, each with its share of the effort.
  template <typename Search>
  void share_effort(std::int64_t effort, const Search& search) {
    int num_parts = 0;
    for (Part& part : parts_) {
      if (num_parts == kMaxAnnealedParts) break;
      num_parts += is_searchable(part) ? 1 : 0;
    }
    int done = 0;
    for (Part& part : parts_) {
      if (done == num_parts) break;
      if (!is_searchable(part)) continue;
      ++done;
      search(part, effort / num_parts);
    }
  }

  void search_contents_of_parts(std::int64_t effort) {
    if (!options_.uses_patterns || !options_.uses_contents) return;
    const std::int64_t before = clock_.effort();
    share_effort(effort,
                 [this](Part& part, std::int64_t share) { search_part_by_contents(part, share); });
    ++num_searches_;
    effort_of_contents_ += clock_.effort() - before;
  }

  void search_part_by_contents(Part& part, std::int64_t effort) {
    ContentLadderOptions options;
    options.search.lower_bound = part.lower_bound - part.constant;
    options.search.tolerance = tolerance_;
    options.search.max_effort = effort;
    options.search.seed = search_.seed + num_searches_;
    options.room = bound_.room;
    options.least_load = part.bound.value;
    options.constant = part.constant;
    options.is_stepwise = !is_small();
    search_content_ladder(problem_, groups_of(part), best_, options, clock_,
                          [&](const UnitPlacements& placements) { offer(placements); });
  }

  void keep_start(Part& part) const {
    if (part.contains(best_.placements)) part.starts.insert(part.starts.begin(), best_);
  }

  // Where contents describe the problem, dives find what moves do not.
  void anneal_parts() {
    if (!options_.uses_annealing) return;
    const bool has_contents = effort_of_contents_ >= effort_ / 16;
    if (parts_.size() > 1) {
      anneal_across_parts(effort_ / 8);
      return;
    }
    share_effort(effort_ / (has_contents ? 32 : 8),
                 [this](Part& part, std::int64_t share) { anneal_part(part, share); });
  }

  AnnealingOptions annealing_options(const Part& part, std::int64_t moves) {
    AnnealingOptions options;
    options.lower_bound = part.lower_bound;
    options.max_moves = moves;
    options.tolerance = tolerance_;
    options.seed = search_.seed + (num_annealings_++ << 8);
    options.has_soft_times = true;
    return options;
  }

  void anneal_part(Part& part, std::int64_t effort) {
    if (has_plan()) keep_start(part);
    anneal_pool(part.items, part.starts, annealing_options(part, effort), clock_,
                [&](const Start& start) {
                  offer(start);
                  return is_searchable(part);
                });
  }

  void anneal_across_parts(std::int64_t effort) {
    std::vector<Part*> open;
    for (Part& part : parts_) {
      if (!is_searchable(part)) continue;
      if (has_plan()) keep_start(part);
      open.push_back(&part);
    }
    const auto anneal_one = [this](const Part& part, const Start& start, std::int64_t moves) {
      if (is_closed(part)) return start;
      AnnealingOptions options = annealing_options(part, moves);
      options.moves_a_round = std::clamp<std::int64_t>(moves / 8, 1000, 1000000);
      Start better = anneal(part.items, start, options, clock_).best;
      offer(better);
      return better;
    };
    anneal_parts_in_turn(std::move(open), effort, clock_, anneal_one);
  }

  using Improvement = Start (*)(const PlacementItems&, const Start&, const ExchangeOptions&,
                                EffortClock&);

  // Exact exchanges, so often from the incumbent: what one run cannot leave another one never
  // enters.
  void improve_parts(std::int64_t effort, int num_runs, const Improvement& improve) {
    if (!has_plan()) return;
    share_effort(effort, [&](Part& part, std::int64_t share) {
      if (!part.contains(best_.placements)) return;
      const Start start = best_;
      for (int run = 0; run < num_runs && is_searchable(part); ++run) {
        offer(improved(part, start, share / num_runs, improve));
      }
      keep_start(part);
    });
  }

  Start improved(const Part& part, const Start& start, std::int64_t effort,
                 const Improvement& improve) {
    if (!options_.uses_exchanges || !is_exchangeable(part.items)) return start;
    ExchangeOptions options;
    options.lower_bound = part.lower_bound;
    options.max_effort = effort;
    options.tolerance = tolerance_;
    options.seed = search_.seed + (num_exchanges_++ << 8);
    return improve(part.items, start, options, clock_);
  }

  void exchange_in_parts(std::int64_t effort) { improve_parts(effort, 1, exchange); }

  // Where little is left, shakes cost more than they bring.
  void shake_parts(std::int64_t effort, int num_runs) {
    if (!is_small() || !has_plan() || best_.objective < (1 + kTinyGap) * lower_bound()) return;
    improve_parts(effort, num_runs, shake);
  }

  // Is there a plan at all below the incumbent?
  void refute(std::int64_t effort) {
    if (!is_small() || !has_plan()) return;
    const std::int64_t num_open = std::count_if(parts_.begin(), parts_.end(),
                                                [this](Part& part) { return is_searchable(part); });
    for (Part& part : parts_) {
      while (is_searchable(part)) {
        const double target = best_.objective * (1 - tolerance_ / 2);
        const std::int64_t nodes = dive_nodes(effort / num_open);
        std::optional<double> relaxed;
        const DiveResult result = dive_into(part, target, nodes, &relaxed);
        if (result.end == DiveEnd::kLimit && relaxed) {
          refute_relaxed(part, std::min(target, *relaxed) * (1 - tolerance_ / 2), nodes);
        }
        if (result.end != DiveEnd::kFound || !result.is_allowed) break;
        offer(result.placements);
      }
    }
  }

  // Where the search for a placement that keeps memory and rules is too long, one without them may
  // be short: what is below the best of those is refuted.
  void refute_relaxed(Part& part, double target, std::int64_t max_nodes) {
    constexpr int kMaxFound = 20;
    DiveOptions options = dive_options(part, target, max_nodes);
    if (!options.relaxes) return;
    for (int i = 0; i < kMaxFound && options.target > part.lower_bound; ++i) {
      const DiveResult result = dive(problem_, options, clock_);
      if (result.end == DiveEnd::kRefuted) raise(part, options.target, result.num_nodes);
      if (result.end != DiveEnd::kFound) return;
      const double found = evaluate(problem_, result.placements).objective;
      options.target = std::min(options.target, found) * (1 - tolerance_ / 2);
    }
  }

  // By bisection between bound and incumbent, where the search just below the incumbent is too
  // long: what is refuted is a bound.
  void raise_by_dives(std::int64_t effort) {
    if (!is_small() || !has_plan()) return;
    constexpr int kMaxDives = 6;
    share_effort(effort, [this](Part& part, std::int64_t share) {
      double high = best_.objective;
      for (int i = 0; i < kMaxDives && high > (1 + kTinyGap) * part.lower_bound; ++i) {
        const double target = part.lower_bound + (high - part.lower_bound) / 2;
        if (clock_.is_stopped() || !(target > problem_.floor_ms)) break;
        const DiveResult result = dive_into(part, target, dive_nodes(share / kMaxDives));
        if (result.end == DiveEnd::kFound && result.is_allowed) offer(result.placements);
        if (result.end != DiveEnd::kRefuted) high = target;
      }
    });
  }

  // Without a search of another part the bound of all would be less.
  Proof proof_of_parts(const Part& least) const {
    Proof searched;
    for (const Part& part : parts_) {
      if (part.proof.kind != ProofKind::kSearchToTheEnd) continue;
      searched.kind = part.proof.kind;
      searched.count += part.proof.count;
    }
    searched.ms = least.lower_bound;
    return searched.is_given() ? searched : least.proof;
  }

  BalanceOutcome finish() {
    BalanceOutcome result;
    result.effort = clock_.effort();
    Outcome<UnitPlacements>& outcome = result.outcome;
    outcome.stop = clock_.reason();
    outcome.certificate.objective = std::numeric_limits<double>::quiet_NaN();
    if (bound_.cases.empty()) {
      // What was proved to have no placement is proved again, whatever the clock says.
      bound_ = bound_placement(problem_, groups_, cheap_bounds(),
                               infeasible_ ? RunContext{} : clock_.context());
    }
    result.bound = std::move(bound_);
    if (parts_.empty() && infeasible_ && !has_plan()) {
      outcome.status = SolveStatus::kInfeasible;
      if (options_.explains) {
        outcome.explanation = explain_infeasible(problem_, {}, clock_.context());
      }
      outcome.certificate.proof =
          infeasible_->weight.empty() ? ProofKind::kUnitFitsNowhere : ProofKind::kWeightedBytes;
      return result;
    }
    const auto least = std::min_element(
        parts_.begin(), parts_.end(),
        [](const Part& a, const Part& b) { return a.lower_bound < b.lower_bound; });
    if (least != parts_.end()) {
      outcome.certificate.lower_bound = std::min(least->lower_bound, best_.objective);
      outcome.certificate.proof = proof_of_parts(*least);
    }
    if (!has_plan()) return result;
    outcome.certificate.objective = best_.objective;
    const std::optional<double> gap = outcome.certificate.gap();
    outcome.status =
        gap && *gap <= search_.tolerance ? SolveStatus::kOptimal : SolveStatus::kFeasible;
    outcome.plan = std::move(best_.placements);
    return result;
  }

  const PlacementProblem& problem_;
  const BalanceOptions& options_;
  const SearchOptions& search_;
  EffortClock clock_;
  const std::int64_t all_effort_;
  std::int64_t effort_;  // less once replicas had theirs
  double tolerance_;
  PlacementGroups groups_;
  std::vector<Part> parts_;
  std::optional<MemoryProof> infeasible_;
  PlacementBound bound_;
  std::uint64_t num_searches_ = 0;  // by contents
  std::int64_t effort_of_contents_ = 0;
  std::uint64_t num_annealings_ = 0;
  std::uint64_t num_exchanges_ = 0;
  Start best_;
};

}  // namespace

BalanceOutcome balance(const PlacementProblem& problem, const BalanceOptions& options,
                       const SearchOptions& search, const RunContext& context) {
  PLIMSOLL_DCHECK(validate(problem).has_value(), "the problem is valid");
  return Balancer(problem, options, search, context).run();
}

}  // namespace plimsoll::balance
