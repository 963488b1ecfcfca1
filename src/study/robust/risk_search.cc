#include "study/robust/risk_search.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>
#include <utility>

#include "balance/moves/placement_construction.h"
#include "balance/problem/placement_judge.h"
#include "balance/problem/placement_state.h"
#include "core/random.h"
#include "study/robust/scenario_bound.h"

namespace plimsoll::study {
namespace {

using balance::PlacementItems;
using balance::Spread;
using balance::UnitPlacements;

constexpr double kMeanWeight = 1e-2;  // of the mean, beside the measure
constexpr int kNearShare = 20;        // on either side of a quantile one scenario in so many
constexpr int kRounds = 4;
constexpr double kFirstHeat = 2e-2;  // temperature, relative to the value of the round's start
constexpr double kLastHeat = 2e-5;
constexpr double kHeatOfRound = .3;  // of the round's before
constexpr std::int64_t kMovesOfClock = 64;

// Objectives of all scenarios, kept up to date piece by piece.
class ScenarioLoads {
 public:
  explicit ScenarioLoads(const RiskProblem& problem)
      : problem_(problem),
        width_(static_cast<std::size_t>(problem.num_scenarios) *
               static_cast<std::size_t>(problem.placement.num_barriers)),
        load_(static_cast<std::size_t>(problem.placement.num_ranks) * width_),
        slowest_(width_),
        num_of_cause_(problem.placement.charges.size()),
        values_(static_cast<std::size_t>(problem.num_scenarios)) {}

  void clear() {
    std::fill(load_.begin(), load_.end(), 0);
    std::fill(num_of_cause_.begin(), num_of_cause_.end(), 0);
  }

  void count_causes(int unit, int choice, int sign) {
    for (const int cause : problem_.placement.units[unit].choices[choice].causes) {
      num_of_cause_[static_cast<std::size_t>(cause)] += sign;
    }
  }

  // Pieces of a run on a rank.
  void add(int unit, int choice, std::size_t run, int rank, double sign) {
    const std::vector<double>& loads = problem_.load[unit][choice][run];
    const double* piece = loads.data() + problem_.placement.class_of(rank) * width_;
    double* sum = load_.data() + static_cast<std::size_t>(rank) * width_;
    for (std::size_t i = 0; i < width_; ++i) sum[i] += sign * piece[i];
  }

  // Of a block on a host, or a choice on all ranks: the pieces in order from a rank on.
  void add_row(int unit, int choice, int first_rank, double sign) {
    int rank = first_rank;
    const balance::UnitChoice& taken = problem_.placement.units[unit].choices[choice];
    for (std::size_t run = 0; run < taken.runs.size(); ++run) {
      for (std::int64_t i = 0; i < taken.runs[run].count; ++i) add(unit, choice, run, rank++, sign);
    }
  }

  void put(int unit, int choice, int piece, int place, double sign) {
    const balance::UnitChoice& taken = problem_.placement.units[unit].choices[choice];
    if (taken.spread == Spread::kHost) {
      add_row(unit, choice, place * problem_.placement.ranks_per_host, sign);
      return;
    }
    std::size_t run = 0;
    for (std::int64_t left = piece; left >= taken.runs[run].count; ++run) {
      left -= taken.runs[run].count;
    }
    add(unit, choice, run, place, sign);
  }

  void put_all(int unit, const balance::UnitPlacement& placement, double sign) {
    count_causes(unit, placement.choice, sign > 0 ? 1 : -1);
    if (problem_.placement.units[unit].choices[placement.choice].spread == Spread::kUniform) {
      add_row(unit, placement.choice, 0, sign);
    }
    for (std::size_t i = 0; i < placement.slots.size(); ++i) {
      put(unit, placement.choice, static_cast<int>(i), placement.slots[i], sign);
    }
  }

  // Floor and charges.
  double constant() const {
    double sum = problem_.placement.floor_ms;
    for (std::size_t k = 0; k < num_of_cause_.size(); ++k) {
      if (num_of_cause_[k] > 0) sum += problem_.placement.charges[k];
    }
    return sum;
  }

  const std::vector<double>& values() {
    std::copy_n(load_.begin(), width_, slowest_.begin());
    for (int rank = 1; rank < problem_.placement.num_ranks; ++rank) {
      const double* load = load_.data() + static_cast<std::size_t>(rank) * width_;
      for (std::size_t i = 0; i < width_; ++i) slowest_[i] = std::max(slowest_[i], load[i]);
    }
    const double all = constant();
    const auto barriers = static_cast<std::size_t>(problem_.placement.num_barriers);
    for (std::size_t s = 0; s < values_.size(); ++s) {
      const double* slowest = slowest_.data() + s * barriers;
      values_[s] = std::accumulate(slowest, slowest + barriers, all);
    }
    return values_;
  }

  double load(int rank, std::size_t at) const {
    return load_[static_cast<std::size_t>(rank) * width_ + at];
  }
  std::size_t width() const { return width_; }

 private:
  const RiskProblem& problem_;
  std::size_t width_;
  std::vector<double> load_;     // [ranks * scenarios * barriers]
  std::vector<double> slowest_;  // [scenarios * barriers]
  std::vector<int> num_of_cause_;
  std::vector<double> values_;  // [scenarios]
};

// Where independent normal loads keep x together with the probability of the level.
double joint_quantile(const std::vector<double>& mean, const std::vector<double>& deviation,
                      double level) {
  constexpr int kHalvings = 14;
  constexpr double kFar = 6;  // deviations beyond which nothing is left
  double low = 0, high = 0;
  for (std::size_t r = 0; r < mean.size(); ++r) {
    low = std::max(low, mean[r]);
    high = std::max(high, mean[r] + kFar * deviation[r]);
  }
  for (int i = 0; i < kHalvings; ++i) {
    const double x = low + (high - low) / 2;
    double probability = 1;
    for (std::size_t r = 0; r < mean.size() && probability >= level; ++r) {
      const double above = x - mean[r];
      if (above >= kFar * deviation[r]) continue;
      probability *= std::erfc(-above / (deviation[r] * std::sqrt(2.0))) / 2;
    }
    (probability >= level ? high : low) = x;
  }
  return low + (high - low) / 2;
}

class RiskSearch {
 public:
  RiskSearch(const RiskProblem& problem, const PlacementItems& items,
             const RiskSearchOptions& options, EffortClock& clock)
      : problem_(problem),
        items_(items),
        options_(options),
        clock_(clock),
        state_(items),
        loads_(problem),
        random_(options.seed) {
    for (int unit = 0; unit < items.num_units; ++unit) {
      if (items.num_choices(unit) > 1) changeable_.push_back(unit);
    }
  }

  RiskPlacement run(const UnitPlacements& start) {
    begin(start);
    best_ = start;
    best_value_ = value_;
    const std::int64_t moves = options_.max_moves / kRounds;
    for (int round = 0; round < kRounds && !clock_.is_stopped(); ++round) {
      if (round > 0) begin(best_);
      const double first = kFirstHeat * std::pow(kHeatOfRound, round) * best_value_;
      const double cooling = std::log(kLastHeat * best_value_ / first);
      for (std::int64_t i = 0; i < moves; ++i) {
        if (i % kMovesOfClock == 0) {
          if (clock_.spend(kMovesOfClock)) break;
          heat_ = first * std::exp(cooling * static_cast<double>(i) / static_cast<double>(moves));
        }
        propose();
      }
    }
    begin(best_);
    if (options_.is_of_moments) return {best_, value_};
    return {best_, measure(scenario_objectives(problem_, best_))};
  }

 private:
  double measure(const std::vector<double>& values) const {
    return measure_risk(options_.measure, options_.level, values);
  }
  double energy() {
    if (options_.is_of_moments) return energy_of_moments();
    const std::vector<double>& values = loads_.values();
    const double sum = std::accumulate(values.begin(), values.end(), 0.0);
    return measure(values) + kMeanWeight * sum / static_cast<double>(values.size());
  }

  double energy_of_moments() {
    const auto barriers = static_cast<std::size_t>(problem_.placement.num_barriers);
    const bool is_tail = options_.measure == RiskMeasure::kCvar;
    const double level = is_tail ? (1 + options_.level) / 2 : options_.level;
    double sum = loads_.constant();
    mean_.resize(static_cast<std::size_t>(items_.num_ranks));
    deviation_.resize(mean_.size());
    for (std::size_t g = 0; g < barriers; ++g) {
      for (int rank = 0; rank < items_.num_ranks; ++rank) {
        const auto r = static_cast<std::size_t>(rank);
        mean_[r] = loads_.load(rank, g);
        deviation_[r] = std::sqrt(std::max(loads_.load(rank, barriers + g), 0.0));
      }
      sum += joint_quantile(mean_, deviation_, level);
    }
    return sum;
  }

  void begin(const UnitPlacements& placements) {
    state_.assign(placements);
    loads_.clear();
    const UnitPlacements own = state_.placements();  // choices that stand for others
    for (int unit = 0; unit < items_.num_units; ++unit) loads_.put_all(unit, own.units[unit], 1);
    if (!options_.is_of_moments) take_values();
    value_ = energy();
  }

  // The scenarios that the measure looks at, and as many beside them.
  void take_values() {
    const std::vector<double>& values = loads_.values();
    const int all = problem_.num_scenarios;
    const int count = num_proving(options_.measure, options_.level, all);
    const bool is_tail = options_.measure == RiskMeasure::kCvar;
    const int half = std::max(is_tail ? count : all / kNearShare, 1);
    const int first = is_tail ? 0 : std::max(count - half, 0);
    const int last = std::min(count + half, all);
    near_.resize(values.size());
    std::iota(near_.begin(), near_.end(), 0);
    std::partial_sort(near_.begin(), near_.begin() + last, near_.end(),
                      [&](int a, int b) { return values[a] > values[b]; });
    near_.resize(static_cast<std::size_t>(last));
    near_.erase(near_.begin(), near_.begin() + first);
  }

  // A scenario's barrier, as a place in the list of loads.
  std::size_t draw_place() {
    if (options_.is_of_moments) {
      return static_cast<std::size_t>(random_.below(problem_.placement.num_barriers));
    }
    const auto scenario = static_cast<std::size_t>(
        near_[static_cast<std::size_t>(random_.below(static_cast<int>(near_.size())))]);
    const int barriers = problem_.placement.num_barriers;
    return scenario * static_cast<std::size_t>(barriers) +
           static_cast<std::size_t>(random_.below(barriers));
  }
  // Of moments what is seldom more; of ranks the slowest, or one of three drawn, by that.
  double load(int rank, std::size_t at) const {
    if (!options_.is_of_moments) return loads_.load(rank, at);
    const auto barriers = static_cast<std::size_t>(problem_.placement.num_barriers);
    return loads_.load(rank, at) + 2 * std::sqrt(std::max(loads_.load(rank, barriers + at), 0.0));
  }
  int slowest_rank(std::size_t at) {
    int slowest = random_.below(items_.num_ranks);
    const bool is_drawn = random_.below(2) == 0;
    for (int i = 0; i < (is_drawn ? 2 : items_.num_ranks); ++i) {
      const int rank = is_drawn ? random_.below(items_.num_ranks) : i;
      if (load(rank, at) > load(slowest, at)) slowest = rank;
    }
    return slowest;
  }

  void propose() {
    const int kind = random_.below(100);
    if (kind < 45) {
      relocate();
    } else if (kind < 85) {
      swap();
    } else {
      change();
    }
  }

  bool is_accepted() {
    const double value = energy();
    const double more = value - value_;
    if (more > 0 && !(random_.unit() < std::exp(-more / heat_))) return false;
    value_ = value;
    if (value_ < best_value_ * (1 - 1e-12)) {
      best_value_ = value_;
      best_ = state_.placements();
    }
    if (!options_.is_of_moments && ++num_accepted_ % 16 == 0) take_values();
    return true;
  }

  int choice_of(int slot) const {
    return items_.choices[state_.choice(items_.unit_of_slot[slot])].index;
  }
  int piece_of(int slot) const { return slot - items_.first_slot[items_.unit_of_slot[slot]]; }
  bool can_move(int slot, int place) const {
    const int unit = items_.unit_of_slot[slot];
    return state_.can_put(unit, state_.choice(unit), piece_of(slot), place);
  }
  void move(int slot, int to) {
    const int unit = items_.unit_of_slot[slot];
    loads_.put(unit, choice_of(slot), piece_of(slot), state_.place(slot), -1);
    loads_.put(unit, choice_of(slot), piece_of(slot), to, 1);
    state_.move(slot, to);
  }
  int draw_slot(const std::vector<int>& slots) {
    return slots[static_cast<std::size_t>(random_.below(static_cast<int>(slots.size())))];
  }
  // A rank of two that has less there.
  int draw_light_rank(std::size_t at) {
    const int a = random_.below(items_.num_ranks);
    const int b = random_.below(items_.num_ranks);
    return load(b, at) < load(a, at) ? b : a;
  }

  void relocate() {
    const std::size_t at = draw_place();
    const int from = slowest_rank(at);
    if (state_.slots_on_rank(from).empty()) {
      move_block(from / items_.width);
      return;
    }
    const int slot = draw_slot(state_.slots_on_rank(from));
    const int to = draw_light_rank(at);
    if (to == from || !can_move(slot, to)) return;
    move(slot, to);
    if (!is_accepted()) move(slot, from);
  }

  void move_block(int host) {
    if (items_.num_hosts < 2 || host >= items_.num_hosts) return;
    if (state_.slots_on_host(host).empty()) return;
    const int slot = draw_slot(state_.slots_on_host(host));
    const int to = random_.below(items_.num_hosts);
    if (to == host || !can_move(slot, to)) return;
    move(slot, to);
    if (!is_accepted()) move(slot, host);
  }

  void swap() {
    const std::size_t at = draw_place();
    const int a = slowest_rank(at);
    const int b = draw_light_rank(at);
    if (a == b || state_.slots_on_rank(a).empty() || state_.slots_on_rank(b).empty()) return;
    const int slot_a = draw_slot(state_.slots_on_rank(a));
    const int slot_b = draw_slot(state_.slots_on_rank(b));
    if (items_.unit_of_slot[slot_a] == items_.unit_of_slot[slot_b]) return;
    // The second piece must have left before the first one may be too big to stand beside it.
    state_.move(slot_b, a);
    const bool fits_a = can_move(slot_a, b);
    if (fits_a) state_.move(slot_a, b);
    state_.move(slot_b, b);
    if (!fits_a) return;
    const bool fits_b = can_move(slot_b, a);
    state_.move(slot_a, a);
    if (!fits_b) return;
    move(slot_b, a);
    move(slot_a, b);
    if (is_accepted()) return;
    move(slot_a, a);
    move(slot_b, b);
  }

  balance::UnitPlacement lift(int unit) {
    balance::UnitPlacement placed{choice_of_unit(unit), {}};
    const PlacementItems::Choice& choice = items_.choices[state_.choice(unit)];
    for (int i = 0; i < choice.num_pieces; ++i) {
      placed.slots.push_back(state_.place(items_.first_slot[unit] + i));
    }
    loads_.put_all(unit, placed, -1);
    state_.remove(unit);
    return placed;
  }
  int choice_of_unit(int unit) const { return items_.choices[state_.choice(unit)].index; }

  void restore(int unit, int item, const balance::UnitPlacement& placed) {
    state_.take(unit, item);
    for (std::size_t i = 0; i < placed.slots.size(); ++i) {
      state_.put(unit, static_cast<int>(i), placed.slots[i]);
    }
    loads_.put_all(unit, placed, 1);
  }

  // Pieces go, one by one, to the rank or host that is least loaded at a place of a bad scenario.
  bool insert(int unit, int item) {
    const PlacementItems::Choice& choice = items_.choices[item];
    if (choice.spread == Spread::kUniform) {
      if (!state_.can_take(item)) return false;
      state_.take(unit, item);
      loads_.put_all(unit, {choice.index, {}}, 1);
      return true;
    }
    state_.take(unit, item);
    loads_.count_causes(unit, choice.index, 1);
    const std::size_t at = draw_place();
    for (int piece = 0; piece < choice.num_pieces; ++piece) {
      const int place = lightest_place(unit, item, piece, at);
      if (place < 0) {
        for (int i = 0; i < piece; ++i) {
          const int put = state_.place(items_.first_slot[unit] + i);
          loads_.put(unit, choice.index, i, put, -1);
        }
        loads_.count_causes(unit, choice.index, -1);
        state_.remove(unit);
        return false;
      }
      state_.put(unit, piece, place);
      loads_.put(unit, choice.index, piece, place, 1);
    }
    return true;
  }

  int lightest_place(int unit, int item, int piece, std::size_t at) const {
    const bool is_host = items_.choices[item].spread == Spread::kHost;
    const int end = is_host ? items_.num_hosts : items_.num_ranks;
    int best = -1;
    double least = 0;
    for (int place = 0; place < end; ++place) {
      double most = 0;
      if (is_host) {
        for (int i = 0; i < items_.width; ++i) {
          most = std::max(most, load(place * items_.width + i, at));
        }
      } else {
        most = load(place, at);
      }
      if (best >= 0 && !(most < least)) continue;
      if (!state_.can_put(unit, item, piece, place)) continue;
      best = place;
      least = most;
    }
    return best;
  }

  // One unit's place before a change.
  struct Lifted {
    int unit = -1, item = -1;
    balance::UnitPlacement placed;
  };

  // One unit or two take other choices.
  void change() {
    if (changeable_.empty()) return;
    const int count = random_.below(2) + 1;
    std::vector<Lifted> lifted;
    for (int i = 0; i < count; ++i) {
      const int unit = changeable_[static_cast<std::size_t>(
          random_.below(static_cast<int>(changeable_.size())))];
      if (i > 0 && lifted.front().unit == unit) break;
      const int item = state_.choice(unit);
      lifted.push_back({unit, item, lift(unit)});
    }
    std::size_t num_inserted = 0;
    for (const Lifted& each : lifted) {
      const int item =
          items_.first_choice[each.unit] + random_.below(items_.num_choices(each.unit));
      if (!insert(each.unit, item)) break;
      ++num_inserted;
    }
    if (num_inserted == lifted.size() && is_accepted()) return;
    for (std::size_t i = 0; i < num_inserted; ++i) lift(lifted[i].unit);
    for (const Lifted& each : lifted) restore(each.unit, each.item, each.placed);
  }

  const RiskProblem& problem_;
  const PlacementItems& items_;
  const RiskSearchOptions& options_;
  EffortClock& clock_;
  balance::PlacementState state_;
  ScenarioLoads loads_;
  SplitMix64 random_;
  std::vector<int> changeable_;
  std::vector<int> near_;                 // scenarios to draw from
  std::vector<double> mean_, deviation_;  // [ranks] of moments
  double heat_ = 0;
  double value_ = 0;  // energy
  std::int64_t num_accepted_ = 0;
  UnitPlacements best_;
  double best_value_ = 0;
};

}  // namespace

std::vector<double> scenario_objectives(const RiskProblem& problem,
                                        const UnitPlacements& placements) {
  ScenarioLoads loads(problem);
  loads.clear();
  for (int unit = 0; unit < problem.placement.num_units(); ++unit) {
    loads.put_all(unit, placements.units[unit], 1);
  }
  return loads.values();
}

RiskProblem moments_of(const RiskProblem& problem) {
  RiskProblem moments;
  moments.placement = problem.placement;
  moments.num_scenarios = 2;
  moments.load = problem.load;
  const auto barriers = static_cast<std::size_t>(problem.placement.num_barriers);
  const auto classes = static_cast<std::size_t>(problem.placement.num_rank_classes);
  const auto scenarios = static_cast<std::size_t>(problem.num_scenarios);
  for (auto& unit : moments.load) {
    for (auto& choice : unit) {
      for (std::vector<double>& run : choice) {
        std::vector<double> both(classes * 2 * barriers);
        for (std::size_t i = 0; i < classes * barriers; ++i) {
          const std::size_t k = i / barriers, g = i % barriers;
          double sum = 0, squares = 0;
          for (std::size_t s = 0; s < scenarios; ++s) {
            const double load = run[(k * scenarios + s) * barriers + g];
            sum += load;
            squares += load * load;
          }
          const double mean = sum / static_cast<double>(scenarios);
          both[k * 2 * barriers + g] = mean;
          both[(k * 2 + 1) * barriers + g] =
              std::max(squares / static_cast<double>(scenarios) - mean * mean, 0.0);
        }
        run = std::move(both);
      }
    }
  }
  return moments;
}

std::optional<RiskPlacement> search_risk(const RiskProblem& problem,
                                         const std::vector<UnitPlacements>& starts,
                                         const RiskSearchOptions& options, EffortClock& clock) {
  // Of moments the search itself says which is less.
  const auto risk_of = [&](const UnitPlacements& placements) {
    if (options.is_of_moments) return std::numeric_limits<double>::infinity();
    return measure_risk(options.measure, options.level, scenario_objectives(problem, placements));
  };
  balance::ItemFilter filter;
  filter.keeps_dominated = true;  // by the loads of the means
  const PlacementItems items = make_placement_items(problem.placement, filter);
  std::optional<RiskPlacement> best;
  for (const UnitPlacements& start : starts) {
    if (!is_start_of(items, {start, 0})) continue;
    const double risk = risk_of(start);
    if (!best || risk < best->risk) best = {start, risk};
  }
  if (!best) return best;
  const RiskPlacement found = RiskSearch(problem, items, options, clock).run(best->placements);
  return found.risk < best->risk ? found : best;
}

}  // namespace plimsoll::study
