#include "balance/prices/relocation_bound.h"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <utility>

#include "core/effort_clock.h"
#include "core/rounding.h"
#include "plimsoll/core/numbers.h"

namespace plimsoll::balance {
namespace {

// What a solution of the priced problem adds up to.
struct Sums {
  double value = 0;                        // priced, without floor, caps and the moved bytes' limit
  double size = 0;                         // of all that was added, for rounding
  std::vector<std::vector<double>> load;   // [barriers][ranks]
  std::vector<std::vector<double>> bytes;  // [resources][ranks]
  double moved = 0;
  std::vector<std::vector<int>> named;  // [units] causes of its choice
};

class PricedProblem {
 public:
  PricedProblem(const PlacementProblem& problem, const MoveCosts& costs)
      : problem_(problem), costs_(costs) {}

  Sums solve(const RelocationPrices& prices) const {
    Sums sums;
    const auto num_ranks = static_cast<std::size_t>(problem_.num_ranks);
    sums.load.assign(static_cast<std::size_t>(problem_.num_barriers),
                     std::vector<double>(num_ranks, 0));
    sums.bytes.assign(static_cast<std::size_t>(problem_.num_resources()),
                      std::vector<double>(num_ranks, 0));
    sums.named.resize(problem_.units.size());
    UnitPlacement best, tried;
    for (std::size_t u = 0; u < problem_.units.size(); ++u) {
      double least = kInfinity;
      for (std::size_t c = 0; c < problem_.units[u].choices.size(); ++c) {
        tried.choice = static_cast<int>(c);
        const double cost = price(u, c, prices, tried.slots);
        if (cost < least) {
          least = cost;
          std::swap(best, tried);
        }
      }
      if (least == kInfinity) continue;  // the unit can stand nowhere: another proof says so
      sums.value += least;
      sums.size += std::abs(least);
      add(u, best, sums);
    }
    return sums;
  }

 private:
  // What piece `run` costs on the rank, except for what it moves.
  double on_rank(const PieceRun& run, int rank, const RelocationPrices& prices) const {
    double sum = 0;
    const auto r = static_cast<std::size_t>(rank);
    const double* load = run.load.data() + std::ptrdiff_t{problem_.class_of(rank)} *
                                               std::ptrdiff_t{problem_.num_barriers};
    for (std::size_t g = 0; g < prices.weight.size(); ++g) sum += prices.weight[g][r] * load[g];
    for (std::size_t t = 0; t < prices.memory.size(); ++t) {
      sum += prices.memory[t][r] * static_cast<double>(run.bytes[t]);
    }
    return sum;
  }

  bool may_stand(std::size_t unit, int rank) const {
    const std::vector<int>& allowed = problem_.units[unit].allowed_ranks;
    return allowed.empty() || std::binary_search(allowed.begin(), allowed.end(), rank);
  }

  // The least cost of the choice; `slots` says where. kInfinity where it can stand nowhere.
  double price(std::size_t unit, std::size_t c, const RelocationPrices& prices,
               std::vector<int>& slots) const {
    const UnitChoice& choice = problem_.units[unit].choices[c];
    const ChoiceMoves& moves = costs_.units[unit][c];
    slots.clear();
    double sum = 0;
    for (const int cause : choice.causes) sum += prices.share[cause][unit];
    switch (choice.spread) {
      case Spread::kUniform: {
        int rank = 0;
        for (const PieceRun& run : choice.runs) {
          for (std::int64_t i = 0; i < run.count; ++i) sum += on_rank(run, rank++, prices);
        }
        return sum + prices.moved * static_cast<double>(moves.everywhere);
      }
      case Spread::kHost: {
        std::vector<double> cost(static_cast<std::size_t>(problem_.num_hosts()), 0);
        for (int host = 0; host < problem_.num_hosts(); ++host) {
          int rank = host * problem_.ranks_per_host;
          for (const PieceRun& run : choice.runs) {
            for (std::int64_t i = 0; i < run.count; ++i, ++rank) {
              cost[host] += may_stand(unit, rank) ? on_rank(run, rank, prices) : kInfinity;
            }
          }
        }
        for (const SlotMoves& slot : moves.slots) sum += put(slot, cost, prices, slots);
        return sum;
      }
      case Spread::kDevice: {
        std::size_t s = 0;
        std::vector<double> cost(static_cast<std::size_t>(problem_.num_ranks));
        for (const PieceRun& run : choice.runs) {
          for (int rank = 0; rank < problem_.num_ranks; ++rank) {
            cost[rank] = may_stand(unit, rank) ? on_rank(run, rank, prices) : kInfinity;
          }
          if (choice.distinct_ranks && choice.runs.size() == 1 && are_alike(moves.slots)) {
            sum += put_apart(moves.slots, cost, prices, slots);
            continue;
          }
          for (std::int64_t i = 0; i < run.count; ++i) {
            sum += put(moves.slots[s++], cost, prices, slots);
          }
        }
        return sum;
      }
    }
    return sum;
  }

  static bool are_alike(const std::vector<SlotMoves>& slots) {
    return std::all_of(slots.begin(), slots.end(),
                       [&](const SlotMoves& slot) { return slot == slots.front(); });
  }

  // A piece or block where it is cheapest.
  static double put(const SlotMoves& slot, const std::vector<double>& cost,
                    const RelocationPrices& prices, std::vector<int>& slots) {
    double least = kInfinity;
    int best = 0;
    auto held = slot.at.begin();
    for (int place = 0; place < static_cast<int>(cost.size()); ++place) {
      Bytes bytes = slot.elsewhere;
      if (held != slot.at.end() && held->first == place) bytes = (held++)->second;
      const double value = cost[place] + prices.moved * static_cast<double>(bytes);
      if (value < least) least = value, best = place;
    }
    slots.push_back(best);
    return least;
  }

  // Equal pieces on the cheapest ranks, one each.
  static double put_apart(const std::vector<SlotMoves>& pieces, std::vector<double> cost,
                          const RelocationPrices& prices, std::vector<int>& slots) {
    if (pieces.empty()) return 0;
    if (pieces.size() > cost.size()) return kInfinity;
    const SlotMoves& one = pieces.front();
    for (int place = 0; place < static_cast<int>(cost.size()); ++place) {
      cost[place] += prices.moved * static_cast<double>(one.on(place));
    }
    std::vector<int> order(cost.size());
    std::iota(order.begin(), order.end(), 0);
    std::stable_sort(order.begin(), order.end(), [&](int a, int b) { return cost[a] < cost[b]; });
    double sum = 0;
    for (std::size_t i = 0; i < pieces.size(); ++i) {
      sum += cost[order[i]];
      slots.push_back(order[i]);
    }
    return sum;
  }

  void add_to(const PieceRun& run, int rank, Sums& sums) const {
    const auto r = static_cast<std::size_t>(rank);
    const double* load = run.load.data() + std::ptrdiff_t{problem_.class_of(rank)} *
                                               std::ptrdiff_t{problem_.num_barriers};
    for (std::size_t g = 0; g < sums.load.size(); ++g) sums.load[g][r] += load[g];
    for (std::size_t t = 0; t < sums.bytes.size(); ++t) {
      sums.bytes[t][r] += static_cast<double>(run.bytes[t]);
    }
  }

  void add(std::size_t unit, const UnitPlacement& placement, Sums& sums) const {
    const auto c = static_cast<std::size_t>(placement.choice);
    const UnitChoice& choice = problem_.units[unit].choices[c];
    const ChoiceMoves& moves = costs_.units[unit][c];
    sums.named[unit] = choice.causes;
    sums.moved += static_cast<double>(moves.everywhere);
    const auto add_row = [&](int rank) {
      for (const PieceRun& run : choice.runs) {
        for (std::int64_t i = 0; i < run.count; ++i) add_to(run, rank++, sums);
      }
    };
    if (choice.spread == Spread::kUniform) return add_row(0);
    for (std::size_t s = 0; s < placement.slots.size(); ++s) {
      sums.moved += static_cast<double>(moves.slots[s].on(placement.slots[s]));
    }
    if (choice.spread == Spread::kHost) {
      for (const int host : placement.slots) add_row(host * problem_.ranks_per_host);
      return;
    }
    std::size_t s = 0;
    for (const PieceRun& run : choice.runs) {
      for (std::int64_t i = 0; i < run.count; ++i) add_to(run, placement.slots[s++], sums);
    }
  }

  const PlacementProblem& problem_;
  const MoveCosts& costs_;
};

double finish(const PlacementProblem& problem, const RelocationPrices& prices, const Sums& sums,
              std::optional<Bytes> max_moved) {
  double value = sums.value + problem.floor_ms;
  double size = sums.size + problem.floor_ms;
  for (std::size_t t = 0; t < prices.memory.size(); ++t) {
    for (std::size_t r = 0; r < prices.memory[t].size(); ++r) {
      const double paid = prices.memory[t][r] * static_cast<double>(problem.caps[r][t]);
      value -= paid;
      size += paid;
    }
  }
  if (max_moved) {
    value -= prices.moved * static_cast<double>(*max_moved);
    size += prices.moved * static_cast<double>(*max_moved);
  }
  return value - kRounding * size;
}

// The nearest point of the simplex { w >= 0, sum = total } (Held, Wolfe, Crowder 1974).
void project(std::vector<double>& w, double total) {
  std::vector<double> sorted = w;
  std::sort(sorted.begin(), sorted.end(), std::greater<>());
  double sum = 0, shift = 0;
  for (std::size_t i = 0; i < sorted.size(); ++i) {
    sum += sorted[i];
    const double candidate = (sum - total) / static_cast<double>(i + 1);
    if (sorted[i] - candidate <= 0) break;
    shift = candidate;
  }
  for (double& x : w) x = std::max(x - shift, 0.0);
}

// Weights of a barrier add up to one, whatever projecting rounds away.
void normalise(std::vector<double>& w) {
  const double sum = std::accumulate(w.begin(), w.end(), 0.0);
  if (!(sum > 0)) {
    std::fill(w.begin(), w.end(), 1.0 / static_cast<double>(w.size()));
    return;
  }
  for (double& x : w) x /= sum;
}

class Ascent {
 public:
  Ascent(const PlacementProblem& problem, const MoveCosts& costs,
         const RelocationBoundOptions& options)
      : problem_(problem), options_(options), priced_(problem, costs) {
    const auto num_ranks = static_cast<std::size_t>(problem.num_ranks);
    now_.moved = options.price;
    now_.weight.assign(static_cast<std::size_t>(problem.num_barriers),
                       std::vector<double>(num_ranks, 1.0 / problem.num_ranks));
    now_.memory.assign(static_cast<std::size_t>(problem_.num_resources()),
                       std::vector<double>(num_ranks, 0));
    // All units that may name a cause share its charge.
    now_.share.assign(problem.charges.size(), std::vector<double>(problem.units.size(), 0));
    may_name_.assign(problem.charges.size(), std::vector<bool>(problem.units.size(), false));
    for (std::size_t u = 0; u < problem.units.size(); ++u) {
      for (const UnitChoice& choice : problem.units[u].choices) {
        for (const int cause : choice.causes) may_name_[cause][u] = true;
      }
    }
    for (std::size_t k = 0; k < problem.charges.size(); ++k) {
      const auto count = std::count(may_name_[k].begin(), may_name_[k].end(), true);
      for (std::size_t u = 0; u < problem.units.size(); ++u) {
        if (may_name_[k][u]) now_.share[k][u] = problem.charges[k] / static_cast<double>(count);
      }
    }
    for (const std::vector<ChoiceMoves>& choices : costs.units) {
      Bytes most = 0;
      for (const ChoiceMoves& moves : choices) {
        Bytes all = moves.everywhere;
        for (const SlotMoves& slot : moves.slots) all += slot.elsewhere;
        most = std::max(most, all);
      }
      all_bytes_ += static_cast<double>(most);
    }
    all_bytes_ = std::max(all_bytes_, 1.0);
  }

  RelocationBound run(const RunContext& context) {
    if (options_.max_moved) fit_price(context);
    RelocationBound best{-kInfinity, now_};
    double length = 1;
    int failures = 0;
    for (int step = 0; step < options_.max_steps; ++step) {
      const Sums sums = priced_.solve(now_);
      const double value = finish(problem_, now_, sums, options_.max_moved);
      if (value > best.value) {
        const bool is_clear = value > best.value + 1e-5 * std::abs(best.value);
        best = {value, now_};
        if (is_clear) failures = 0;
      } else if (++failures >= kPatience) {
        failures = 0;
        length /= 2;
        now_ = best.prices;
        if (length < kShortest) break;
        continue;
      }
      if (value >= options_.target * (1 - 1e-9) || is_stopped(context)) break;
      go(sums, length * (options_.target - value));
    }
    best.value = std::max(best.value, 0.0);
    return best;
  }

 private:
  static constexpr int kPatience = 12;
  static constexpr double kShortest = 1e-3;

  // The price of a moved byte that proves most beside the other prices as they are: of a concave
  // function, first within a factor of two, then by thirds. Steps along the subgradient, whose
  // length all prices share, would come near it too late.
  void fit_price(const RunContext& context) {
    constexpr int kLeast = -8, kMost = 8;  // powers of two of the target for all bytes
    constexpr int kThirds = 8;
    const auto value_at = [&](double price) {
      now_.moved = price;
      return is_stopped(context) ? -kInfinity
                                 : finish(problem_, now_, priced_.solve(now_), options_.max_moved);
    };
    const double unit = options_.target / all_bytes_;
    double best_price = 0;
    double best = value_at(0);
    for (int power = kLeast; power <= kMost; ++power) {
      const double price = std::ldexp(unit, power);
      const double value = value_at(price);
      if (value < best) break;
      best = value;
      best_price = price;
    }
    double low = best_price / 2, high = std::max(2 * best_price, std::ldexp(unit, kLeast));
    for (int i = 0; i < kThirds; ++i) {
      const double a = low + (high - low) / 3, b = high - (high - low) / 3;
      const double at_a = value_at(a), at_b = value_at(b);
      for (const auto& [value, price] : {std::pair(at_a, a), std::pair(at_b, b)}) {
        if (value > best) best = value, best_price = price;
      }
      (at_a < at_b ? low : high) = at_a < at_b ? a : b;
    }
    now_.moved = best_price;
  }

  // The subgradient at the prices of now, every variable in a unit of its own: weights as they are,
  // bytes as shares of what there is, charges as shares of them.
  struct Subgradient {
    std::vector<double> mean;               // [groups] load of a rank
    std::vector<std::vector<double>> over;  // [resources][ranks]
    std::vector<double> named;              // [charges] how often
    double moved = 0;
    double norm = 0;  // squared
  };

  double ms() const { return std::max(options_.target, 1e-300); }
  double moved_unit() const { return ms() / all_bytes_; }

  void add_loads(const Sums& sums, Subgradient& slope) const {
    for (const std::vector<double>& loads : sums.load) {
      const double mean = std::accumulate(loads.begin(), loads.end(), 0.0) / problem_.num_ranks;
      for (const double load : loads) slope.norm += square(load - mean);
      slope.mean.push_back(mean);
    }
  }

  void add_moved(const Sums& sums, Subgradient& slope) const {
    if (!options_.max_moved) return;
    slope.moved = (sums.moved - static_cast<double>(*options_.max_moved)) * moved_unit();
    if (slope.moved < 0 && now_.moved <= 0) slope.moved = 0;
    slope.norm += square(slope.moved);
  }

  void add_memory(const Sums& sums, Subgradient& slope) const {
    slope.over.resize(static_cast<std::size_t>(problem_.num_resources()));
    for (std::size_t t = 0; t < slope.over.size(); ++t) {
      std::vector<double>& over = slope.over[t];
      over.assign(now_.memory[t].size(), 0);
      if (problem_.resources[t].is_pooled) continue;
      for (std::size_t r = 0; r < over.size(); ++r) {
        const auto cap = static_cast<double>(problem_.caps[r][t]);
        if (cap <= 0) continue;
        over[r] = (sums.bytes[t][r] - cap) / cap * ms();
        if (over[r] < 0 && now_.memory[t][r] <= 0) over[r] = 0;
        slope.norm += square(over[r]);
      }
    }
  }

  void add_charges(const Sums& sums, Subgradient& slope) const {
    slope.named.assign(problem_.charges.size(), 0);
    for (const std::vector<int>& causes : sums.named) {
      for (const int cause : causes) slope.named[cause] += 1;
    }
    for (std::size_t k = 0; k < slope.named.size(); ++k) {
      slope.norm += slope.named[k] * square(problem_.charges[k]);
    }
  }

  // A step along the subgradient.
  void go(const Sums& sums, double missing) {
    Subgradient slope;
    add_loads(sums, slope);
    add_moved(sums, slope);
    add_memory(sums, slope);
    add_charges(sums, slope);
    if (!(slope.norm > 0)) return;
    const double step = missing / slope.norm;
    for (std::size_t g = 0; g < now_.weight.size(); ++g) {
      for (std::size_t r = 0; r < now_.weight[g].size(); ++r) {
        now_.weight[g][r] += step * (sums.load[g][r] - slope.mean[g]);
      }
      project(now_.weight[g], 1);
      normalise(now_.weight[g]);
    }
    if (options_.max_moved) {
      now_.moved = std::max(0.0, now_.moved + step * slope.moved * moved_unit());
    }
    for (std::size_t t = 0; t < slope.over.size(); ++t) {
      for (std::size_t r = 0; r < slope.over[t].size(); ++r) {
        if (slope.over[t][r] == 0) continue;
        const auto cap = static_cast<double>(problem_.caps[r][t]);
        now_.memory[t][r] = std::max(0.0, now_.memory[t][r] + step * slope.over[t][r] * ms() / cap);
      }
    }
    for (std::size_t u = 0; u < sums.named.size(); ++u) {
      for (const int cause : sums.named[u]) {
        now_.share[cause][u] += step * square(problem_.charges[cause]);
      }
    }
    for (std::size_t k = 0; k < slope.named.size(); ++k) {
      if (slope.named[k] > 0) project(now_.share[k], problem_.charges[k]);
    }
  }

  static double square(double x) { return x * x; }

  const PlacementProblem& problem_;
  const RelocationBoundOptions& options_;
  PricedProblem priced_;
  RelocationPrices now_;
  std::vector<std::vector<bool>> may_name_;  // [causes][units]
  double all_bytes_ = 0;
};

}  // namespace

double relocation_value(const PlacementProblem& problem, const MoveCosts& costs,
                        const RelocationPrices& prices, std::optional<Bytes> max_moved) {
  return finish(problem, prices, PricedProblem(problem, costs).solve(prices), max_moved);
}

RelocationBound bound_relocation(const PlacementProblem& problem, const MoveCosts& costs,
                                 const RelocationBoundOptions& options, const RunContext& context) {
  return Ascent(problem, costs, options).run(context);
}

}  // namespace plimsoll::balance
