#include "balance/moves/placement_construction.h"

#include <algorithm>

#include "balance/problem/lightest_place.h"
#include "balance/problem/placement_judge.h"
#include "core/check.h"
#include "plimsoll/core/numbers.h"

namespace plimsoll::balance {
namespace {

using Choice = PlacementItems::Choice;

class Construction {
 public:
  Construction(const PlacementItems& items, const ConstructionOptions& options)
      : items_(items), options_(options), state_(items), lightest_(state_) {}

  std::optional<UnitPlacements> run() {
    choose();
    // What has most to place goes first: blocks, then pieces by size.
    std::vector<int> order(static_cast<std::size_t>(items_.num_units));
    for (int unit = 0; unit < items_.num_units; ++unit) order[unit] = unit;
    const auto key = [this](int unit) {
      const Choice& choice = items_.choices[chosen_[unit]];
      const int group = choice.spread == Spread::kUniform ? 0
                        : choice.spread == Spread::kHost  ? 1
                                                          : 2;
      return std::pair(group, -size_of(choice));
    };
    std::vector<std::pair<int, double>> keys;
    for (int unit = 0; unit < items_.num_units; ++unit) keys.push_back(key(unit));
    std::stable_sort(order.begin(), order.end(),
                     [&keys](int a, int b) { return keys[a] < keys[b]; });
    for (const int unit : order) {
      if (!place(unit)) return std::nullopt;
    }
    return state_.placements();
  }

 private:
  double price(const Choice& choice) const {
    double price = choice.work;
    for (const int resource : items_.resources) {
      price += options_.byte_price[resource] * static_cast<double>(choice.bytes[resource]);
    }
    return choice.spread == Spread::kHost ? price * options_.host_preference : price;
  }

  // The larger of the piece's shares of the target and of a cap.
  double size_of(const Choice& choice) const {
    double size = choice.peak / options_.target;
    for (const int resource : items_.resources) {
      const Bytes cap = items_.problem->caps.front()[resource];
      const Bytes bytes = items_.bytes[choice.first_record][resource];
      if (cap > 0) size = std::max(size, static_cast<double>(bytes) / static_cast<double>(cap));
    }
    return size;
  }

  void choose() {
    chosen_.assign(static_cast<std::size_t>(items_.num_units), -1);
    struct Flip {
      double ratio;
      int unit, choice;
    };
    std::vector<Flip> flips;
    double uniform_load = 0;
    for (int unit = 0; unit < items_.num_units; ++unit) {
      int best = -1, best_uniform = -1;
      double least = kInfinity, least_uniform = kInfinity;
      for (int c = items_.first_choice[unit]; c < items_.first_choice[unit + 1]; ++c) {
        const Choice& choice = items_.choices[c];
        const double p = price(choice);
        if (choice.spread == Spread::kUniform) {
          if (p < least_uniform) least_uniform = p, best_uniform = c;
        } else if (choice.peak <= options_.piece_limit && p < least) {
          least = p, best = c;
        }
      }
      if (best < 0 && best_uniform >= 0) {
        chosen_[unit] = best_uniform;
        uniform_load += items_.choices[best_uniform].work;
        continue;
      }
      chosen_[unit] = best >= 0 ? best : items_.first_choice[unit];
      if (best >= 0 && best_uniform >= 0) {
        flips.push_back({least / least_uniform, unit, best_uniform});
      }
    }
    std::stable_sort(flips.begin(), flips.end(),
                     [](const Flip& a, const Flip& b) { return a.ratio > b.ratio; });
    for (const Flip& flip : flips) {
      const double more = items_.choices[flip.choice].work;
      if (!(flip.ratio >= .5)) break;
      if (uniform_load + more > options_.uniform_target) continue;
      uniform_load += more;
      chosen_[flip.unit] = flip.choice;
    }
  }

  bool place(int unit) {
    if (lightest_.place(unit, chosen_[unit])) return true;
    std::vector<int> others;
    for (int c = items_.first_choice[unit]; c < items_.first_choice[unit + 1]; ++c) {
      if (c != chosen_[unit]) others.push_back(c);
    }
    std::stable_sort(others.begin(), others.end(), [this](int a, int b) {
      return price(items_.choices[a]) < price(items_.choices[b]);
    });
    return std::any_of(others.begin(), others.end(),
                       [&](int choice) { return lightest_.place(unit, choice); });
  }

  const PlacementItems& items_;
  const ConstructionOptions& options_;
  PlacementState state_;
  LightestPlace lightest_;
  std::vector<int> chosen_;
};

}  // namespace

bool is_start_of(const PlacementItems& items, const Start& start) {
  if (!evaluate(*items.problem, start.placements).is_allowed()) return false;
  for (int unit = 0; unit < items.num_units; ++unit) {
    if (items.find_choice(unit, start.placements.units[unit].choice) < 0) return false;
  }
  return true;
}

std::optional<UnitPlacements> construct(const PlacementItems& items,
                                        const ConstructionOptions& options) {
  PLIMSOLL_CHECK(items.empty_units.empty(), "every unit has a choice");
  return Construction(items, options).run();
}

std::vector<Start> construct_starts(const PlacementItems& items, const StartOptions& options,
                                    EffortClock& clock) {
  constexpr double kTargets[] = {1, 1.015, 1.04, 1.08};
  constexpr double kHostPreferences[] = {1, 1.05, .95, 1.2, .8, 1.6};
  constexpr double kPieceLimits[] = {1, .55, .35};
  constexpr int kBands = 16;
  std::vector<std::optional<Start>> best(kBands);
  std::int64_t count = 0;
  const auto is_stopped = [&] { return count >= options.max_plans || clock.is_stopped(); };
  for (const double preference : kHostPreferences) {
    if (items.num_hosts < 2 && preference != 1) continue;
    for (const double limit : kPieceLimits) {
      for (const double factor : kTargets) {
        for (int band = 0; band < kBands && !is_stopped(); ++band) {
          ConstructionOptions one;
          one.target = options.lower_bound * factor;
          const double end = std::max(.8 * one.target, options.forced_uniform);
          one.uniform_target =
              options.forced_uniform + (end - options.forced_uniform) * band / (kBands - 1);
          one.piece_limit = limit * (one.target - one.uniform_target);
          one.host_preference = preference;
          one.byte_price = options.byte_price;
          ++count;
          clock.spend(items.num_units);
          auto placements = construct(items, one);
          if (!placements) continue;
          const double objective = evaluate(*items.problem, *placements).objective;
          if (!best[band] || objective < best[band]->objective) {
            best[band] = Start{*std::move(placements), objective};
          }
        }
      }
    }
  }
  std::vector<Start> starts;
  for (std::optional<Start>& start : best) {
    if (start) starts.push_back(*std::move(start));
  }
  std::stable_sort(starts.begin(), starts.end(),
                   [](const Start& a, const Start& b) { return a.objective < b.objective; });
  return starts;
}

}  // namespace plimsoll::balance
