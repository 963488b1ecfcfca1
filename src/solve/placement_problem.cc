#include "plimsoll/solve/placement_problem.h"

#include <algorithm>
#include <cmath>

namespace plimsoll::solve {
namespace {

// Bytes of everything together must leave room for sums.
constexpr Bytes kMaxBytes = std::int64_t{1} << 62;

bool is_ascending(const std::vector<int>& list, int end) {
  for (std::size_t i = 0; i < list.size(); ++i) {
    if (list[i] < 0 || list[i] >= end || (i > 0 && list[i] <= list[i - 1])) return false;
  }
  return true;
}

Result<void> check_ranks(const PlacementProblem& problem) {
  if (problem.num_ranks < 1 || problem.ranks_per_host < 1 || problem.num_barriers < 1 ||
      problem.num_rank_classes < 1) {
    return fail(ErrorCode::kValue, "ranks", "a number of ranks, barriers or classes below 1",
                "give at least 1 of each");
  }
  const auto num_ranks = static_cast<std::size_t>(problem.num_ranks);
  if (problem.caps.size() != num_ranks ||
      !(problem.rank_class.empty() || problem.rank_class.size() == num_ranks)) {
    return fail(ErrorCode::kSchema, "caps", "caps or classes for another number of ranks",
                "give one for each of " + std::to_string(num_ranks) + " ranks");
  }
  for (const int c : problem.rank_class) {
    if (c < 0 || c >= problem.num_rank_classes) {
      return fail(ErrorCode::kValue, "rank_class", "a class that does not exist",
                  "give classes below " + std::to_string(problem.num_rank_classes));
    }
  }
  TierBytes total{};
  for (const TierBytes& caps : problem.caps) {
    for (int tier = 0; tier < kNumTiers; ++tier) {
      if (caps[tier] < 0) {
        return fail(ErrorCode::kValue, "caps", "a negative cap", "give at least 0");
      }
      if (__builtin_add_overflow(total[tier], caps[tier], &total[tier])) {
        return fail(ErrorCode::kOverflow, "caps", "the caps of a tier together leave 63 bits",
                    "give smaller caps");
      }
    }
  }
  for (const double charge : problem.charges) {
    if (!(charge >= 0) || !std::isfinite(charge)) {
      return fail(ErrorCode::kValue, "charges", "a charge below 0 or not finite",
                  "give a finite charge of at least 0");
    }
  }
  if (!(problem.floor_ms >= 0) || !std::isfinite(problem.floor_ms)) {
    return fail(ErrorCode::kValue, "floor_ms", "below 0 or not finite", "give at least 0");
  }
  return {};
}

Result<void> check_choice(const PlacementProblem& problem, const UnitChoice& choice,
                          const std::string& place) {
  const auto num_loads = static_cast<std::size_t>(problem.num_rank_classes) *
                         static_cast<std::size_t>(problem.num_barriers);
  std::int64_t num_pieces = 0;
  for (const PieceRun& run : choice.runs) {
    constexpr std::int64_t kMaxPieces = std::int64_t{1} << 31;
    if (run.count < 1 || run.count > kMaxPieces) {
      return fail(ErrorCode::kValue, place, "a run of " + std::to_string(run.count) + " pieces",
                  "give from 1 to " + std::to_string(kMaxPieces));
    }
    num_pieces += run.count;
    if (run.load.size() != num_loads) {
      return fail(ErrorCode::kSchema, place, "loads for other barriers or classes of ranks",
                  "give " + std::to_string(num_loads) + " loads a run");
    }
    for (const double load : run.load) {
      if (!(load >= 0) || !std::isfinite(load)) {
        return fail(ErrorCode::kValue, place, "a load below 0 or not finite",
                    "give a finite load of at least 0");
      }
    }
    for (const Bytes bytes : run.bytes) {
      if (bytes < 0) return fail(ErrorCode::kValue, place, "negative bytes", "give at least 0");
    }
  }
  if (choice.num_blocks < 1) {
    return fail(ErrorCode::kValue, place, "less than one block", "give at least 1");
  }
  const std::int64_t wanted = choice.spread == Spread::kHost ? problem.ranks_per_host
                              : choice.spread == Spread::kUniform
                                  ? problem.num_ranks
                                  : std::max<std::int64_t>(num_pieces, 1);
  if (num_pieces != wanted) {
    return fail(ErrorCode::kSchema, place,
                std::to_string(num_pieces) + " pieces where " + std::to_string(wanted) + " belong",
                "give one piece for each rank");
  }
  if (!is_ascending(choice.causes, static_cast<int>(problem.charges.size()))) {
    return fail(ErrorCode::kConflict, place, "causes that are not ascending or have no charge",
                "name each charge once, in order");
  }
  return {};
}

// Adds up what the largest choice of every unit needs; false where 62 bits do not hold it.
bool fits_all(const PlacementProblem& problem) {
  TierBytes total{};
  for (const Unit& unit : problem.units) {
    TierBytes largest{};
    for (const UnitChoice& choice : unit.choices) {
      const std::int64_t copies = choice.spread == Spread::kHost ? choice.num_blocks : 1;
      for (int tier = 0; tier < kNumTiers; ++tier) {
        Bytes sum = 0;
        for (const PieceRun& run : choice.runs) {
          Bytes of_run = 0;
          if (__builtin_mul_overflow(run.bytes[tier], run.count * copies, &of_run) ||
              __builtin_add_overflow(sum, of_run, &sum)) {
            return false;
          }
        }
        largest[tier] = std::max(largest[tier], sum);
      }
    }
    for (int tier = 0; tier < kNumTiers; ++tier) {
      if (largest[tier] > kMaxBytes - total[tier]) return false;
      total[tier] += largest[tier];
    }
  }
  return true;
}

class Judge {
 public:
  Judge(const PlacementProblem& problem, const UnitPlacements& placements)
      : problem_(problem), placements_(placements) {}

  PlacementValue judge() {
    const auto num_ranks = static_cast<std::size_t>(problem_.num_ranks);
    value_.load.assign(num_ranks * static_cast<std::size_t>(problem_.num_barriers), 0);
    value_.bytes.assign(num_ranks, TierBytes{});
    everywhere_.assign(static_cast<std::size_t>(problem_.num_rank_classes) *
                           static_cast<std::size_t>(problem_.num_barriers),
                       0);
    change_.assign(num_ranks + 1, TierBytes{});
    holders_.resize(problem_.units.size());
    is_apart_.assign(problem_.units.size(), false);
    for (const std::vector<int>& set : problem_.apart) {
      for (const int unit : set) is_apart_[unit] = true;
    }
    is_charged_.assign(problem_.charges.size(), false);
    if (placements_.units.size() != problem_.units.size()) {
      find("placements of another number of units");
      return std::move(value_);
    }
    for (int unit = 0; unit < problem_.num_units(); ++unit) place(unit);
    add_everywhere();
    judge_apart();
    judge_bytes();
    value_.objective = objective();
    return std::move(value_);
  }

 private:
  void find(std::string fault) { value_.faults.push_back(std::move(fault)); }

  void put(int unit, const PieceRun& run, int rank) {
    const auto num_barriers = static_cast<std::size_t>(problem_.num_barriers);
    const std::size_t first = static_cast<std::size_t>(problem_.class_of(rank)) * num_barriers;
    for (std::size_t g = 0; g < num_barriers; ++g) {
      value_.load[static_cast<std::size_t>(rank) * num_barriers + g] += run.load[first + g];
    }
    for (int tier = 0; tier < kNumTiers; ++tier) value_.bytes[rank][tier] += run.bytes[tier];
    const std::vector<int>& allowed = problem_.units[unit].allowed_ranks;
    if (!allowed.empty() && !std::binary_search(allowed.begin(), allowed.end(), rank)) {
      find(place_of(problem_, unit) + " may not be on rank " + std::to_string(rank));
    }
    if (is_apart_[unit]) holders_[unit].push_back(rank);
  }

  // One piece a rank, without visiting ranks: equal loads as one sum, bytes as differences.
  void put_everywhere(int unit, const UnitChoice& choice) {
    const bool is_equal =
        std::all_of(choice.runs.begin(), choice.runs.end(),
                    [&](const PieceRun& run) { return run.load == choice.runs.front().load; });
    if (!is_equal || is_apart_[unit] || !problem_.units[unit].allowed_ranks.empty()) {
      put_row(unit, choice, 0);
      return;
    }
    const std::vector<double>& load = choice.runs.front().load;
    for (std::size_t i = 0; i < load.size(); ++i) everywhere_[i] += load[i];
    std::int64_t rank = 0;
    for (const PieceRun& run : choice.runs) {
      for (int tier = 0; tier < kNumTiers; ++tier) {
        change_[rank][tier] += run.bytes[tier];
        change_[rank + run.count][tier] -= run.bytes[tier];
      }
      rank += run.count;
    }
  }

  void add_everywhere() {
    const auto num_barriers = static_cast<std::size_t>(problem_.num_barriers);
    TierBytes bytes{};
    for (int rank = 0; rank < problem_.num_ranks; ++rank) {
      const double* load = &everywhere_[problem_.class_of(rank) * num_barriers];
      for (std::size_t g = 0; g < num_barriers; ++g) {
        value_.load[static_cast<std::size_t>(rank) * num_barriers + g] += load[g];
      }
      for (int tier = 0; tier < kNumTiers; ++tier) {
        bytes[tier] += change_[rank][tier];
        value_.bytes[rank][tier] += bytes[tier];
      }
    }
  }

  void put_row(int unit, const UnitChoice& choice, int first_rank) {
    int rank = first_rank;
    for (const PieceRun& run : choice.runs) {
      for (std::int64_t i = 0; i < run.count; ++i) put(unit, run, rank++);
    }
  }

  void place(int unit) {
    const Unit& u = problem_.units[unit];
    const UnitPlacement& placement = placements_.units[unit];
    if (placement.choice < 0 || placement.choice >= static_cast<int>(u.choices.size())) {
      find(place_of(problem_, unit) + " takes a choice that it does not have");
      return;
    }
    const UnitChoice& choice = u.choices[placement.choice];
    for (const int cause : choice.causes) is_charged_[cause] = true;
    std::int64_t num_slots = 0;
    if (choice.spread == Spread::kHost) num_slots = choice.num_blocks;
    if (choice.spread == Spread::kDevice) {
      for (const PieceRun& run : choice.runs) num_slots += run.count;
    }
    const int end = choice.spread == Spread::kHost ? problem_.num_hosts() : problem_.num_ranks;
    if (static_cast<std::int64_t>(placement.slots.size()) != num_slots ||
        !std::all_of(placement.slots.begin(), placement.slots.end(),
                     [&](int slot) { return slot >= 0 && slot < end; })) {
      find(place_of(problem_, unit) + " does not stand where its choice can stand");
      return;
    }
    switch (choice.spread) {
      case Spread::kDevice: {
        auto slot = placement.slots.begin();
        for (const PieceRun& run : choice.runs) {
          for (std::int64_t i = 0; i < run.count; ++i) put(unit, run, *slot++);
        }
        break;
      }
      case Spread::kHost:
        for (const int host : placement.slots)
          put_row(unit, choice, host * problem_.ranks_per_host);
        break;
      case Spread::kUniform:
        put_everywhere(unit, choice);
        break;
    }
  }

  void judge_apart() {
    for (std::vector<int>& ranks : holders_) {
      std::sort(ranks.begin(), ranks.end());
      ranks.erase(std::unique(ranks.begin(), ranks.end()), ranks.end());
    }
    for (const std::vector<int>& set : problem_.apart) {
      std::vector<int> owner(static_cast<std::size_t>(problem_.num_ranks), -1);
      for (const int unit : set) {
        for (const int rank : holders_[unit]) {
          if (owner[rank] >= 0) {
            find(place_of(problem_, unit) + " must stay apart from " +
                 place_of(problem_, owner[rank]) + " and shares rank " + std::to_string(rank));
            break;
          }
          owner[rank] = unit;
        }
      }
    }
  }

  void judge_bytes() {
    for (int tier = 0; tier < kNumTiers; ++tier) {
      const int width = problem_.is_pooled[tier] ? problem_.ranks_per_host : 1;
      for (int first = 0; first < problem_.num_ranks;) {
        const bool is_whole = first / width < problem_.num_ranks / width;
        const int end = is_whole ? first + width : first + 1;
        Bytes bytes = 0;
        Bytes cap = 0;
        for (int rank = first; rank < end; ++rank) {
          bytes += value_.bytes[rank][tier];
          cap += problem_.caps[rank][tier];
        }
        if (bytes > cap) {
          find("rank " + std::to_string(first) + " holds " + std::to_string(bytes) +
               " bytes of tier " + std::to_string(tier) + " under a cap of " + std::to_string(cap));
        }
        first = end;
      }
    }
  }

  double objective() const {
    double sum = problem_.floor_ms;
    const auto num_barriers = static_cast<std::size_t>(problem_.num_barriers);
    for (std::size_t g = 0; g < num_barriers; ++g) {
      double slowest = 0;
      for (std::size_t i = g; i < value_.load.size(); i += num_barriers) {
        slowest = std::max(slowest, value_.load[i]);
      }
      sum += slowest;
    }
    for (std::size_t cause = 0; cause < is_charged_.size(); ++cause) {
      if (is_charged_[cause]) sum += problem_.charges[cause];
    }
    return sum;
  }

  const PlacementProblem& problem_;
  const UnitPlacements& placements_;
  PlacementValue value_;
  std::vector<std::vector<int>> holders_;  // [num_units] ranks, of units to stay apart
  std::vector<bool> is_apart_;             // [num_units]
  std::vector<double> everywhere_;         // [classes * barriers]
  std::vector<TierBytes> change_;          // [num_ranks + 1] from the rank before
  std::vector<bool> is_charged_;
};

}  // namespace

std::string place_of(const PlacementProblem& problem, int unit) {
  const std::string& name = problem.units[unit].name;
  return "unit " + std::to_string(unit) + (name.empty() ? "" : " '" + name + "'");
}

Result<void> validate(const PlacementProblem& problem) {
  PLIMSOLL_RETURN_IF_ERROR(check_ranks(problem));
  for (int u = 0; u < problem.num_units(); ++u) {
    const Unit& unit = problem.units[u];
    if (unit.choices.empty()) {
      return fail(ErrorCode::kConflict, place_of(problem, u), "no choice",
                  "give every unit at least one");
    }
    if (!is_ascending(unit.allowed_ranks, problem.num_ranks)) {
      return fail(ErrorCode::kConflict, place_of(problem, u),
                  "allowed ranks that are not ascending or do not exist",
                  "name ranks below " + std::to_string(problem.num_ranks) + " once, in order");
    }
    for (std::size_t c = 0; c < unit.choices.size(); ++c) {
      PLIMSOLL_RETURN_IF_ERROR(check_choice(
          problem, unit.choices[c], place_of(problem, u) + ", choice " + std::to_string(c)));
    }
  }
  for (const std::vector<int>& set : problem.apart) {
    if (!is_ascending(set, problem.num_units())) {
      return fail(ErrorCode::kConflict, "apart", "units that are not ascending or do not exist",
                  "name units below " + std::to_string(problem.num_units()) + " once, in order");
    }
  }
  if (!fits_all(problem)) {
    return fail(ErrorCode::kOverflow, "units", "the bytes of all units together leave 62 bits",
                "give smaller sizes");
  }
  return {};
}

PlacementValue evaluate(const PlacementProblem& problem, const UnitPlacements& placements) {
  return Judge(problem, placements).judge();
}

}  // namespace plimsoll::solve
