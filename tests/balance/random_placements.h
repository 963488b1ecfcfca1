// Tiny placement problems from a seed, and their optima by plain enumeration.
#pragma once

#include <algorithm>
#include <cstdint>
#include <limits>
#include <vector>

#include "balance/problem/placement_judge.h"
#include "plimsoll/balance/placement_problem.h"

namespace plimsoll::balance::testing {

class Random {
 public:
  explicit Random(std::uint64_t seed) : state_(seed * 0x9E3779B97F4A7C15u + 1) {}
  std::uint64_t next() {
    state_ ^= state_ << 13;
    state_ ^= state_ >> 7;
    state_ ^= state_ << 17;
    return state_;
  }
  int below(int n) { return static_cast<int>((next() >> 11) % static_cast<std::uint64_t>(n)); }
  bool chance(int percent) { return below(100) < percent; }
  double real() { return static_cast<double>(next() >> 11) * 0x1p-53; }

 private:
  std::uint64_t state_;
};

// What an instance may have beside units on equal ranks.
struct InstanceKind {
  bool tight_memory = false;
  bool unequal_caps = false;
  bool pools = false;
  bool classes = false;
  bool barriers = false;
  bool charges = false;
  bool allowed = false;
  bool apart = false;
  bool repeated = false;
  bool uneven_hosts = false;
  bool uneven_pieces = false;
  bool distinct = false;  // of most choices of several pieces
  bool many_resources = false;
};

inline std::vector<Resource> three_memories() {
  return {{.name = "hbm"}, {.name = "ddr"}, {.name = "ssd"}};
}

// Ranks of one host with two memories of so many bytes each; no unit yet.
inline PlacementProblem two_memories(int num_ranks, Bytes bytes) {
  PlacementProblem problem;
  problem.num_ranks = problem.ranks_per_host = num_ranks;
  problem.resources = three_memories();
  problem.caps.assign(static_cast<std::size_t>(num_ranks), {bytes, bytes, 0});
  return problem;
}

// One piece, in either of two memories.
inline Unit in_either_memory(double fast, double slow, Bytes bytes) {
  Unit unit;
  unit.choices.push_back({Spread::kDevice, {{1, {fast}, {bytes, 0, 0}}}, 1, {}});
  unit.choices.push_back({Spread::kDevice, {{1, {slow}, {0, bytes, 0}}}, 1, {}});
  return unit;
}

inline InstanceKind kind_of_seed(std::uint64_t seed) {
  Random random(seed + 7919);
  for (int i = 0; i < 4; ++i) random.next();
  InstanceKind kind;
  kind.tight_memory = random.chance(40);
  kind.repeated = random.chance(45);
  kind.many_resources = seed % 5 == 4;
  if (random.chance(40)) return kind;  // the plain ones
  kind.unequal_caps = random.chance(30);
  kind.pools = random.chance(30);
  kind.classes = random.chance(25);
  kind.barriers = random.chance(25);
  kind.charges = random.chance(25);
  kind.allowed = random.chance(25);
  kind.apart = random.chance(25);
  kind.uneven_hosts = random.chance(20);
  kind.uneven_pieces = random.chance(30);
  kind.distinct = random.chance(40);
  return kind;
}

// Draws of its own: the instances are those without it.
inline void want_distinct_ranks(std::uint64_t seed, PlacementProblem& problem) {
  Random random(seed + 104729);
  for (Unit& unit : problem.units) {
    for (UnitChoice& choice : unit.choices) {
      const bool is_drawn = random.chance(70);
      choice.distinct_ranks = choice.spread == Spread::kDevice && is_drawn;
    }
  }
}

// Three resources more. Draws of its own, as above.
inline void add_resources(std::uint64_t seed, bool has_pools, PlacementProblem& problem) {
  Random random(seed + 15485863);
  for (const bool is_pooled : {false, true, false}) {
    const std::size_t resource = problem.resources.size();
    problem.resources.push_back({.name = "other", .is_pooled = has_pools && is_pooled});
    Bytes largest = 0;
    for (Unit& unit : problem.units) {
      for (UnitChoice& choice : unit.choices) {
        const int most = 1 + random.below(30);
        for (PieceRun& run : choice.runs) {
          run.bytes[resource] = random.below(most);
          largest = std::max(largest, run.bytes[resource]);
        }
      }
    }
    const Bytes cap = largest + random.below(3 * static_cast<int>(largest) + 1);
    for (Amounts& caps : problem.caps) caps[resource] = cap;
  }
}

// Three or four units on 2 to 5 ranks in one or two hosts.
inline PlacementProblem random_problem(std::uint64_t seed, const InstanceKind& kind) {
  Random random(seed);
  for (int i = 0; i < 4; ++i) random.next();
  PlacementProblem problem;
  const int shape = random.below(3);
  problem.num_ranks = shape == 0 ? 2 : 4;
  problem.ranks_per_host = shape == 1 ? 4 : 2;
  if (kind.uneven_hosts) ++problem.num_ranks;
  problem.num_barriers = kind.barriers ? 2 : 1;
  problem.num_rank_classes = kind.classes ? 2 : 1;
  if (kind.classes) {
    for (int r = 0; r < problem.num_ranks; ++r) problem.rank_class.push_back(random.below(2));
  }
  if (kind.charges) problem.charges = {random.real(), 3 * random.real(), random.real()};
  if (random.chance(30)) problem.floor_ms = random.real();
  const int num_units = 3 + random.below(2);
  const auto loads = [&](double load) {
    std::vector<double> result;
    for (int c = 0; c < problem.num_rank_classes; ++c) {
      const double speed = c == 0 ? 1 : 0.4 + random.real();
      double rest = load * speed;
      for (int g = 0; g < problem.num_barriers; ++g) {
        const double part = g + 1 < problem.num_barriers ? rest * random.real() : rest;
        result.push_back(part);
        rest -= part;
      }
    }
    return result;
  };
  const auto pieces = [&](std::int64_t count, double load, Bytes bytes, Bytes ddr) {
    std::vector<PieceRun> runs;
    if (kind.uneven_pieces && count > 1 && random.chance(50)) {
      runs.push_back({count - 1, loads(load), {bytes, ddr, 0}});
      runs.push_back({1, loads(load * random.real()), {bytes / 2, ddr, 0}});
    } else {
      runs.push_back({count, loads(load), {bytes, ddr, 0}});
    }
    return runs;
  };
  problem.resources = three_memories();
  Bytes total = 0;
  while (problem.num_units() < num_units) {
    if (kind.repeated && problem.num_units() > 0 && random.chance(60)) {
      problem.units.push_back(problem.units.back());
      total += total / problem.num_units();
      continue;
    }
    const double load = 0.2 + 4 * random.real() * random.real();
    const auto bytes = static_cast<Bytes>(20 + random.below(200));
    total += bytes;
    Unit unit;
    const auto add = [&](Spread spread, std::vector<PieceRun> runs, std::int64_t num_blocks) {
      UnitChoice choice{spread, std::move(runs), num_blocks, {}};
      if (kind.charges) {
        for (int c = 0; c < 3; ++c) {
          if (random.chance(30)) choice.causes.push_back(c);
        }
      }
      unit.choices.push_back(std::move(choice));
    };
    const int w = problem.ranks_per_host;
    add(Spread::kDevice, pieces(1, load, bytes, random.below(9)), 1);
    if (random.chance(60)) add(Spread::kDevice, pieces(2, load * 0.6, bytes / 2, 0), 1);
    if (random.chance(25)) add(Spread::kDevice, pieces(1, load * 1.5, bytes / 4, bytes), 1);
    if (random.chance(70)) {
      add(Spread::kHost, pieces(w, load * (0.2 + random.real()) / w, bytes / w, 0), 1);
    }
    if (problem.num_ranks < 5 && random.chance(20)) {
      add(Spread::kHost, pieces(w, load * 0.6 / w, bytes / 2 / w, 0), 2);
    }
    if (random.chance(75)) {
      const int n = problem.num_ranks;
      const int ddr = random.below(5);  // one draw a statement: arguments have no order
      const double share = 0.3 + 1.2 * random.real();
      add(Spread::kUniform, pieces(n, load * share / n, 1 + bytes / n, ddr), 1);
    }
    if (random.chance(20)) {
      add(Spread::kUniform, pieces(problem.num_ranks, load * 0.1, bytes, 0), 1);
    }
    if (kind.allowed && random.chance(40)) {
      for (int r = 0; r < problem.num_ranks; ++r) {
        if (random.chance(60)) unit.allowed_ranks.push_back(r);
      }
    }
    problem.units.push_back(std::move(unit));
  }
  if (kind.distinct) want_distinct_ranks(seed, problem);
  for (int r = 0; r < problem.num_ranks; ++r) {
    Bytes cap = kind.tight_memory ? (total * (80 + random.below(60))) / 100 / problem.num_ranks
                                  : 10 * total;
    if (kind.unequal_caps && random.chance(50)) cap = cap * (50 + random.below(100)) / 100;
    problem.caps.push_back({cap, kind.tight_memory ? 5 + random.below(200) : 2000, 0});
  }
  if (!kind.unequal_caps) {
    for (Amounts& caps : problem.caps) caps = problem.caps[0];
    if (kind.pools) {
      problem.resources[0].is_pooled = random.chance(50);
      problem.resources[1].is_pooled = true;
    }
    if (kind.apart) problem.apart = {{0, 1 + random.below(2)}};
  }
  if (kind.many_resources) add_resources(seed, kind.pools && !kind.unequal_caps, problem);
  return problem;
}

// The least objective over all placements; infinite where none is allowed. Depth first over units,
// pieces of a run in ascending order of ranks.
class Enumerator {
 public:
  explicit Enumerator(const PlacementProblem& problem) : problem_(problem) {
    placements_.units.resize(problem.units.size());
  }

  double find() {
    choose(0);
    return best_;
  }
  const UnitPlacements& best() const { return best_placements_; }

 private:
  void choose(int unit) {
    if (unit == problem_.num_units()) {
      const PlacementValue value = evaluate(problem_, placements_);
      if (value.is_allowed() && value.objective < best_) {
        best_ = value.objective;
        best_placements_ = placements_;
      }
      return;
    }
    UnitPlacement& placement = placements_.units[unit];
    const Unit& u = problem_.units[unit];
    for (int c = 0; c < static_cast<int>(u.choices.size()); ++c) {
      placement = {c, {}};
      place(unit, u.choices[c], 0, 0);
    }
    placement = {};
  }

  void place(int unit, const UnitChoice& choice, std::size_t run, std::int64_t placed) {
    UnitPlacement& placement = placements_.units[unit];
    if (choice.spread == Spread::kUniform ||
        (choice.spread == Spread::kHost && placed == choice.num_blocks) ||
        (choice.spread == Spread::kDevice && run == choice.runs.size())) {
      if (is_open(unit)) choose(unit + 1);
      return;
    }
    const bool is_host = choice.spread == Spread::kHost;
    const std::int64_t count = is_host ? choice.num_blocks : choice.runs[run].count;
    const int end = is_host ? problem_.num_hosts() : problem_.num_ranks;
    for (int slot = placed > 0 ? placement.slots.back() : 0; slot < end; ++slot) {
      placement.slots.push_back(slot);
      if (!is_host && placed + 1 == count) {
        place(unit, choice, run + 1, 0);
      } else {
        place(unit, choice, run, placed + 1);
      }
      placement.slots.pop_back();
    }
  }

  // May the units so far still be part of a better placement?
  bool is_open(int last) const {
    PlacementProblem part = problem_;
    UnitPlacements placed = placements_;
    part.units.resize(static_cast<std::size_t>(last) + 1);
    placed.units.resize(static_cast<std::size_t>(last) + 1);
    std::erase_if(part.apart, [&](const std::vector<int>& set) { return set.back() > last; });
    const PlacementValue value = evaluate(part, placed);
    return value.is_allowed() && value.objective < best_;
  }

  const PlacementProblem& problem_;
  UnitPlacements placements_, best_placements_;
  double best_ = std::numeric_limits<double>::infinity();
};

}  // namespace plimsoll::balance::testing
