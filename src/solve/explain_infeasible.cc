#include "plimsoll/solve/explain_infeasible.h"

#include <fmt/format.h>

#include <algorithm>
#include <limits>
#include <vector>

#include "plimsoll/core/units.h"

namespace plimsoll::solve {
namespace {

constexpr Bytes kAll = std::numeric_limits<Bytes>::max();

struct Lack {
  int tier = -1;
  Bytes bytes = kAll;
};

class StuckUnit {
 public:
  StuckUnit(const PlacementProblem& problem, int unit) : problem_(problem), unit_(unit) {
    make_room();
  }

  // What is missing where a choice comes nearest; nothing where bytes are not what keeps it off.
  Lack nearest() const {
    Lack least;
    for (const UnitChoice& choice : problem_.units[unit_].choices) {
      const Lack lack = choice.spread == Spread::kDevice ? of_pieces(choice) : of_rows(choice);
      if (lack.bytes < least.bytes) least = lack;
    }
    return least;
  }

 private:
  // Room beside what other units with uniform choices alone put on every rank.
  void make_room() {
    room_ = problem_.caps;
    for (int rank = 0; rank < problem_.num_hosts() * problem_.ranks_per_host; ++rank) {
      for (int tier = 0; tier < kNumTiers; ++tier) {
        if (!problem_.is_pooled[tier]) continue;
        const int first = rank / problem_.ranks_per_host * problem_.ranks_per_host;
        room_[rank][tier] = 0;
        for (int r = first; r < first + problem_.ranks_per_host; ++r) {
          room_[rank][tier] += problem_.caps[r][tier];
        }
      }
    }
    for (int unit = 0; unit < problem_.num_units(); ++unit) {
      const std::vector<UnitChoice>& choices = problem_.units[unit].choices;
      const bool is_forced =
          std::all_of(choices.begin(), choices.end(),
                      [](const UnitChoice& choice) { return choice.spread == Spread::kUniform; });
      if (unit == unit_ || !is_forced) continue;
      TierBytes least;
      least.fill(kAll);
      for (const UnitChoice& choice : choices) {
        for (const PieceRun& run : choice.runs) {
          for (int tier = 0; tier < kNumTiers; ++tier) {
            least[tier] = std::min(least[tier], run.bytes[tier]);
          }
        }
      }
      for (TierBytes& room : room_) add_bytes(room, least, -1);
    }
  }

  bool is_allowed(int rank) const {
    const std::vector<int>& allowed = problem_.units[unit_].allowed_ranks;
    return allowed.empty() || std::binary_search(allowed.begin(), allowed.end(), rank);
  }

  // The tier of a rank that lacks most.
  Lack of_piece(const PieceRun& run, int rank) const {
    Lack most{-1, 0};
    for (int tier = 0; tier < kNumTiers; ++tier) {
      const Bytes missing = run.bytes[tier] - room_[rank][tier];
      if (missing > most.bytes) most = {tier, missing};
    }
    return most;
  }

  Lack of_pieces(const UnitChoice& choice) const {
    Lack most{-1, 0};
    for (const PieceRun& run : choice.runs) {
      Lack least;
      for (int rank = 0; rank < problem_.num_ranks; ++rank) {
        if (!is_allowed(rank)) continue;
        const Lack lack = of_piece(run, rank);
        if (lack.bytes < least.bytes) least = lack;
      }
      if (least.bytes > most.bytes) most = least;
    }
    return most.tier < 0 ? Lack{} : most;
  }

  // A piece on each rank of a host, or of all.
  Lack of_rows(const UnitChoice& choice) const {
    const bool is_host = choice.spread == Spread::kHost;
    const int width = is_host ? problem_.ranks_per_host : problem_.num_ranks;
    Lack least;
    for (int first = 0; first + width <= problem_.num_ranks; first += width) {
      Lack most{-1, 0};
      bool may = true;
      int rank = first;
      for (const PieceRun& run : choice.runs) {
        for (std::int64_t i = 0; i < run.count; ++i, ++rank) {
          may = may && is_allowed(rank);
          const Lack lack = of_piece(run, rank);
          if (lack.bytes > most.bytes) most = lack;
        }
      }
      if (may && most.tier >= 0 && most.bytes < least.bytes) least = most;
    }
    return least;
  }

  const PlacementProblem& problem_;
  int unit_;
  std::vector<TierBytes> room_;  // [ranks]
};

}  // namespace

Explanation explain_infeasible(const PlacementProblem& problem, const PlacementBound& bound) {
  Explanation explanation;
  if (bound.stuck_unit < 0) {
    explanation.binding = fmt::format("tier {}", bound.binding_tier);
    explanation.missing = bound.missing;
    explanation.lines.push_back(
        fmt::format("the least that all units need exceeds the caps of all ranks by {} of tier {}",
                    format_bytes(bound.missing), bound.binding_tier));
    return explanation;
  }
  const std::string unit = place_of(problem, bound.stuck_unit);
  const Lack lack = StuckUnit(problem, bound.stuck_unit).nearest();
  if (lack.tier < 0) {
    explanation.binding = unit;
    explanation.lines.push_back(unit + " fits on no rank, whichever choice it takes");
    return explanation;
  }
  explanation.binding = fmt::format("tier {}", lack.tier);
  explanation.missing = lack.bytes;
  explanation.lines.push_back(
      fmt::format("{} fits on no rank: the choice that comes nearest lacks {} of tier {} on a rank",
                  unit, format_bytes(lack.bytes), lack.tier));
  return explanation;
}

}  // namespace plimsoll::solve
