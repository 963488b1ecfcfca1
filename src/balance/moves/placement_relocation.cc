#include "balance/moves/placement_relocation.h"

#include <algorithm>
#include <cmath>
#include <iterator>
#include <numeric>
#include <set>
#include <tuple>
#include <utility>

#include "balance/moves/placement_annealing.h"
#include "balance/problem/placement_judge.h"
#include "balance/problem/placement_state.h"
#include "plimsoll/core/checked.h"

namespace plimsoll::balance {
namespace {

constexpr std::size_t kMostSets = 6;  // of causes
constexpr std::int64_t kMovesARound = 200'000;
// What moves little for what it gains comes first, and takes the bytes that may move. Of t200 with
// a rank more, 1e-5 alone ends 1.7 % above a fresh plan, all in turn half as much.
constexpr double kTolls[] = {1e-2, 3e-3, 1e-3, 1e-4};

std::vector<bool> causes_of(const PlacementProblem& problem,
                            const std::vector<UnitPlacement>& units) {
  std::vector<bool> used(problem.charges.size(), false);
  for (std::size_t u = 0; u < units.size(); ++u) {
    if (units[u].choice < 0) continue;
    const auto choice = static_cast<std::size_t>(units[u].choice);
    for (const int cause : problem.units[u].choices[choice].causes) used[cause] = true;
  }
  return used;
}

std::vector<bool> unite(std::vector<bool> a, const std::vector<bool>& b) {
  for (std::size_t i = 0; i < a.size(); ++i) a[i] = a[i] || b[i];
  return a;
}

class Relocator {
 public:
  Relocator(const PlacementProblem& problem, const MoveCosts& costs,
            const RelocationOptions& options, EffortClock& clock)
      : problem_(problem), costs_(costs), options_(options), clock_(clock) {}

  std::optional<Relocation> run() {
    std::vector<UnitPlacements> starts;
    for (const UnitPlacements& start : options_.starts) {
      starts.push_back(start);
      starts.push_back(rename_ranks(problem_, costs_, start));
    }
    for (const UnitPlacements& start : starts) offer(start, options_.max_moved);
    const std::vector<Bytes> limits = find_limits();
    const std::vector<std::vector<bool>> sets = sets_of_causes();
    const auto parts = static_cast<std::int64_t>(sets.size() * limits.size());
    for (const std::vector<bool>& causes : sets) {
      ItemFilter filter;
      filter.keeps_dominated = true;
      filter.is_cause_allowed = causes;
      const PlacementItems items = make_placement_items(problem_, filter);
      if (!items.empty_units.empty()) continue;
      std::vector<Start> pool;
      const auto add = [&](const UnitPlacements& placements) {
        const PlacementValue value = evaluate(problem_, placements);
        Start start{placements, value.objective};
        if (value.is_allowed() && is_start_of(items, start)) pool.push_back(std::move(start));
      };
      if (const auto home = stay(items)) add(*home);
      for (const UnitPlacements& start : starts) add(start);
      for (const Bytes limit : limits) improve(items, pool, limit, options_.max_moves / parts);
    }
    if (best_) send_home(problem_, costs_, options_.price, *best_, clock_);
    return std::move(best_);
  }

 private:
  // With a price, a few limits between nothing and everything.
  std::vector<Bytes> find_limits() const {
    if (!(options_.price > 0)) return {options_.max_moved};
    Bytes most = 0;
    for (const UnitPlacements& start : options_.starts) {
      most = std::max(most, moved_bytes(costs_, start));
    }
    const Bytes least = least_moved_bytes(costs_);
    std::vector<Bytes> limits;
    for (const int part : {64, 16, 8, 4, 2, 1}) {
      limits.push_back(
          std::min(options_.max_moved, saturated_add(least, std::max<Bytes>(most, 0) / part)));
    }
    limits.erase(std::unique(limits.begin(), limits.end()), limits.end());
    return limits;
  }

  std::vector<std::vector<bool>> sets_of_causes() const {
    std::vector<std::vector<bool>> sets;
    const auto add = [&sets](std::vector<bool> causes) {
      const bool is_known = std::find(sets.begin(), sets.end(), causes) != sets.end();
      if (!is_known && sets.size() < kMostSets) sets.push_back(std::move(causes));
    };
    const std::vector<bool> now = causes_of(problem_, costs_.home);
    add(now);
    for (const UnitPlacements& start : options_.starts) {
      const std::vector<bool> theirs = causes_of(problem_, start.units);
      add(unite(now, theirs));
      add(theirs);
    }
    add(std::vector<bool>(problem_.charges.size(), true));
    return sets;
  }

  // Every unit that may stays; the largest first, so that where not all fit, little moves.
  std::optional<UnitPlacements> stay(const PlacementItems& items) {
    PlacementState state(items, false, &costs_);
    std::vector<int> order(static_cast<std::size_t>(items.num_units));
    std::iota(order.begin(), order.end(), 0);
    std::vector<Bytes> size;
    for (int unit = 0; unit < items.num_units; ++unit) {
      Amounts most{};
      for (int c = items.first_choice[unit]; c < items.first_choice[unit + 1]; ++c) {
        most.raise_to(items.choices[c].bytes);
      }
      size.push_back(0);
      for (int r = 0; r < problem_.num_resources(); ++r) size.back() += most[r];
    }
    std::stable_sort(order.begin(), order.end(), [&](int a, int b) { return size[a] > size[b]; });
    std::vector<int> homeless;
    for (const int unit : order) {
      if (!put_home(items, unit, state)) homeless.push_back(unit);
    }
    for (const int unit : homeless) {
      if (!put_near(items, unit, state)) return std::nullopt;
    }
    return state.placements();
  }

  bool put_home(const PlacementItems& items, int unit, PlacementState& state) const {
    const UnitPlacement& home = costs_.home[unit];
    const int c = home.choice < 0 ? -1 : items.find_choice(unit, home.choice);
    if (c < 0) return false;
    if (items.choices[c].spread == Spread::kUniform) {
      if (!state.can_take(c)) return false;
      state.take(unit, c);
      return true;
    }
    state.take(unit, c);
    for (std::size_t i = 0; i < home.slots.size(); ++i) {
      if (!state.can_put(unit, c, static_cast<int>(i), home.slots[i])) {
        state.remove(unit);
        return false;
      }
      state.put(unit, static_cast<int>(i), home.slots[i]);
    }
    return true;
  }

  // The choice and places that move least; of equal ones the least loaded.
  static bool put_near(const PlacementItems& items, int unit, PlacementState& state) {
    int best = -1;
    std::vector<int> best_places;
    std::pair<Bytes, double> least;
    for (int c = items.first_choice[unit]; c < items.first_choice[unit + 1]; ++c) {
      const PlacementItems::Choice& choice = items.choices[c];
      const Bytes before = state.moved();
      std::vector<int> places;
      bool is_placed = choice.spread != Spread::kUniform || state.can_take(c);
      if (!is_placed) continue;
      state.take(unit, c);
      for (int piece = 0; is_placed && piece < choice.num_pieces; ++piece) {
        const int place = nearest_place(items, unit, c, piece, state);
        is_placed = place >= 0;
        if (!is_placed) break;
        state.put(unit, piece, place);
        places.push_back(place);
      }
      const std::pair<Bytes, double> value(state.moved() - before, state.slowest());
      state.remove(unit);
      if (is_placed && (best < 0 || value < least)) {
        best = c, best_places = std::move(places), least = value;
      }
    }
    if (best < 0) return false;
    state.take(unit, best);
    for (std::size_t i = 0; i < best_places.size(); ++i) {
      state.put(unit, static_cast<int>(i), best_places[i]);
    }
    return true;
  }

  static int nearest_place(const PlacementItems& items, int unit, int c, int piece,
                           const PlacementState& state) {
    const PlacementItems::Choice& choice = items.choices[c];
    const bool is_block = choice.spread == Spread::kHost;
    const SlotMoves& moves = state.moves()
                                 ->units[unit][static_cast<std::size_t>(choice.index)]
                                 .slots[static_cast<std::size_t>(piece)];
    int best = -1;
    std::pair<Bytes, double> least;
    for (int place = 0; place < (is_block ? items.num_hosts : items.num_ranks); ++place) {
      if (!state.can_put(unit, c, piece, place)) continue;
      double load = 0;
      const int width = is_block ? items.width : 1;
      for (int rank = place * width; rank < (place + 1) * width; ++rank) {
        load = std::max(load, state.total_load(rank));
      }
      const std::pair<Bytes, double> value(moves.on(place), load);
      if (best < 0 || value < least) best = place, least = value;
    }
    return best;
  }

  // Is it the best so far?
  bool offer(const UnitPlacements& placements, Bytes limit) {
    const Bytes moved = moved_bytes(costs_, placements);
    if (moved > limit) return false;
    const PlacementValue value = evaluate(problem_, placements);
    if (!value.is_allowed()) return false;
    Relocation found{{placements, value.objective}, moved};
    if (best_ && !is_better(found, *best_, options_.price)) return false;
    best_ = std::move(found);
    return true;
  }

  // Anneals the best start of the pool that the limit allows, which stays in the pool.
  void improve(const PlacementItems& items, std::vector<Start>& pool, Bytes limit,
               std::int64_t max_moves) {
    const Start* from = nullptr;
    for (const Start& start : pool) {
      if (moved_bytes(costs_, start.placements) > limit) continue;
      if (from == nullptr || start.objective < from->objective) from = &start;
    }
    if (from == nullptr || clock_.is_stopped()) return;
    offer(from->placements, limit);
    AnnealingOptions annealing;
    annealing.lower_bound = options_.lower_bound;
    annealing.max_moves = max_moves / std::ssize(kTolls);
    annealing.moves_a_round = std::clamp<std::int64_t>(annealing.max_moves / 6, 1000, kMovesARound);
    annealing.tolerance = options_.tolerance;
    annealing.seed = options_.seed;
    annealing.moves = &costs_;
    annealing.max_moved = limit;
    Start now = *from;
    for (const double toll : kTolls) {
      if (clock_.is_stopped()) break;
      annealing.toll = toll;
      now = anneal(items, now, annealing, clock_).best;
      ++annealing.seed;
    }
    offer(now.placements, limit);
    pool.push_back(std::move(now));
  }

  const PlacementProblem& problem_;
  const MoveCosts& costs_;
  const RelocationOptions& options_;
  EffortClock& clock_;
  std::optional<Relocation> best_;
};

// Pairs of equal numbers, the largest value first: assignment[a] = b.
std::vector<int> match(const std::vector<std::vector<Bytes>>& kept) {
  struct Pair {
    Bytes bytes = 0;
    int a = 0, b = 0;
  };
  const int count = static_cast<int>(kept.size());
  std::vector<Pair> pairs;
  for (int a = 0; a < count; ++a) {
    for (int b = 0; b < count; ++b) {
      if (kept[a][b] > 0) pairs.push_back({kept[a][b], a, b});
    }
  }
  std::stable_sort(pairs.begin(), pairs.end(),
                   [](const Pair& x, const Pair& y) { return x.bytes > y.bytes; });
  std::vector<int> to(kept.size(), -1);
  std::vector<bool> is_taken(kept.size(), false);
  for (const Pair& pair : pairs) {
    if (to[pair.a] >= 0 || is_taken[pair.b]) continue;
    to[pair.a] = pair.b;
    is_taken[pair.b] = true;
  }
  int next = 0;
  for (int& b : to) {
    if (b >= 0) continue;
    while (is_taken[next]) ++next;
    b = next;
    is_taken[next] = true;
  }
  return to;
}

bool are_ranks_alike(const PlacementProblem& problem) {
  return problem.num_rank_classes == 1 && problem.num_hosts() > 0 &&
         std::all_of(problem.caps.begin(), problem.caps.end(),
                     [&](const Amounts& caps) { return caps == problem.caps.front(); }) &&
         std::all_of(problem.units.begin(), problem.units.end(),
                     [](const Unit& unit) { return unit.allowed_ranks.empty(); });
}

// What a rank would keep of another one's pieces, and a host of another one's blocks.
struct Kept {
  std::vector<std::vector<Bytes>> of_rank;  // [ranks of hosts][ranks of hosts]
  std::vector<std::vector<Bytes>> of_host;  // [hosts][hosts]
};

Kept count_kept(const PlacementProblem& problem, const MoveCosts& costs,
                const UnitPlacements& placements) {
  const auto num_hosts = static_cast<std::size_t>(problem.num_hosts());
  const int num_in_hosts = problem.num_hosts() * problem.ranks_per_host;
  const auto count = static_cast<std::size_t>(num_in_hosts);
  Kept kept{{count, std::vector<Bytes>(count, 0)}, {num_hosts, std::vector<Bytes>(num_hosts, 0)}};
  for (std::size_t u = 0; u < placements.units.size(); ++u) {
    const UnitPlacement& placement = placements.units[u];
    const auto c = static_cast<std::size_t>(placement.choice);
    const bool is_block = problem.units[u].choices[c].spread == Spread::kHost;
    for (std::size_t s = 0; s < placement.slots.size(); ++s) {
      const SlotMoves& slot = costs.units[u][c].slots[s];
      const int from = placement.slots[s];
      if (!is_block && from >= num_in_hosts) continue;
      for (const auto& [place, bytes] : slot.at) {
        if (is_block) {
          kept.of_host[from][place] += slot.elsewhere - bytes;
        } else if (place < num_in_hosts) {
          kept.of_rank[from][place] += slot.elsewhere - bytes;
        }
      }
    }
  }
  return kept;
}

// Hosts are matched by what they keep of blocks, and of pieces if each rank found its best partner.
std::vector<int> match_hosts(const Kept& kept, int width) {
  std::vector<std::vector<Bytes>> of_host = kept.of_host;
  for (std::size_t a = 0; a < of_host.size(); ++a) {
    for (std::size_t b = 0; b < of_host.size(); ++b) {
      for (int i = 0; i < width; ++i) {
        const auto row = a * static_cast<std::size_t>(width) + static_cast<std::size_t>(i);
        const auto first =
            kept.of_rank[row].begin() + static_cast<std::ptrdiff_t>(b) * std::ptrdiff_t{width};
        of_host[a][b] += *std::max_element(first, first + width);
      }
    }
  }
  return match(of_host);
}

// The ranks of a host among those of the host that it becomes; ranks without host stay.
std::vector<int> match_ranks(const Kept& kept, const std::vector<int>& host_to, int num_ranks,
                             int width) {
  std::vector<int> rank_to(static_cast<std::size_t>(num_ranks));
  std::iota(rank_to.begin(), rank_to.end(), 0);
  for (std::size_t a = 0; a < host_to.size(); ++a) {
    std::vector<std::vector<Bytes>> within;
    for (int i = 0; i < width; ++i) {
      const std::vector<Bytes>& row = kept.of_rank[a * static_cast<std::size_t>(width) + i];
      const auto first = row.begin() + std::ptrdiff_t{host_to[a]} * width;
      within.emplace_back(first, first + width);
    }
    const std::vector<int> to = match(within);
    for (int i = 0; i < width; ++i) {
      rank_to[a * static_cast<std::size_t>(width) + i] = host_to[a] * width + to[i];
    }
  }
  return rank_to;
}

}  // namespace

UnitPlacements rename_ranks(const PlacementProblem& problem, const MoveCosts& costs,
                            const UnitPlacements& placements) {
  if (!are_ranks_alike(problem)) return placements;
  const Kept kept = count_kept(problem, costs, placements);
  const std::vector<int> host_to = match_hosts(kept, problem.ranks_per_host);
  const std::vector<int> rank_to =
      match_ranks(kept, host_to, problem.num_ranks, problem.ranks_per_host);
  UnitPlacements renamed = placements;
  for (std::size_t u = 0; u < renamed.units.size(); ++u) {
    UnitPlacement& placement = renamed.units[u];
    const auto c = static_cast<std::size_t>(placement.choice);
    const bool is_block = problem.units[u].choices[c].spread == Spread::kHost;
    for (int& slot : placement.slots) slot = is_block ? host_to[slot] : rank_to[slot];
  }
  const bool is_better = moved_bytes(costs, renamed) < moved_bytes(costs, placements) &&
                         evaluate(problem, renamed).is_allowed();
  return is_better ? renamed : placements;
}

bool is_better(const Relocation& a, const Relocation& b, double price) {
  const auto key = [price](const Relocation& one) {
    return std::pair(one.start.objective + price * static_cast<double>(one.moved), one.moved);
  };
  return key(a) < key(b);
}

void send_home(const PlacementProblem& problem, const MoveCosts& costs, double price,
               Relocation& best, EffortClock& clock) {
  struct Away {
    std::size_t unit = 0;
    Bytes bytes = 0;
  };
  std::vector<Away> away;
  const std::vector<UnitPlacement>& now = best.start.placements.units;
  for (std::size_t u = 0; u < now.size(); ++u) {
    if (costs.home[u].choice < 0 || costs.home[u] == now[u]) continue;
    const ChoiceMoves& moves = costs.units[u][static_cast<std::size_t>(now[u].choice)];
    Away one{u, moves.everywhere};
    for (std::size_t s = 0; s < now[u].slots.size(); ++s) {
      one.bytes = saturated_add(one.bytes, moves.slots[s].on(now[u].slots[s]));
    }
    away.push_back(one);
  }
  std::stable_sort(away.begin(), away.end(),
                   [](const Away& a, const Away& b) { return a.bytes > b.bytes; });
  for (const Away& one : away) {
    if (clock.spend(problem.num_units())) return;
    Relocation back = best;
    back.start.placements.units[one.unit] = costs.home[one.unit];
    const PlacementValue value = evaluate(problem, back.start.placements);
    if (!value.is_allowed()) continue;
    back.start.objective = value.objective;
    back.moved = moved_bytes(costs, back.start.placements);
    if (back.moved <= best.moved && is_better(back, best, price)) best = std::move(back);
  }
}

std::optional<Relocation> relocate(const PlacementProblem& problem, const MoveCosts& costs,
                                   const RelocationOptions& options, EffortClock& clock) {
  return Relocator(problem, costs, options, clock).run();
}

}  // namespace plimsoll::balance
