#include "plimsoll/balance/placement_problem.h"

#include <algorithm>
#include <cmath>

namespace plimsoll::balance {
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
  Amounts total{};
  for (const Amounts& caps : problem.caps) {
    if (caps.num_set() > problem.resources.size()) {
      return fail(ErrorCode::kSchema, "caps", "a cap on a resource that does not exist",
                  "name " + std::to_string(caps.num_set()) + " resources");
    }
    for (int resource = 0; resource < problem.num_resources(); ++resource) {
      if (caps[resource] < 0) {
        return fail(ErrorCode::kValue, "caps", "a negative cap", "give at least 0");
      }
      if (__builtin_add_overflow(total[resource], caps[resource], &total[resource])) {
        return fail(ErrorCode::kOverflow, "caps", "the caps of a resource together exceed 2^63 - 1",
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
    if (run.bytes.num_set() > problem.resources.size()) {
      return fail(ErrorCode::kSchema, place, "an amount of a resource that does not exist",
                  "name " + std::to_string(run.bytes.num_set()) + " resources");
    }
    for (int resource = 0; resource < problem.num_resources(); ++resource) {
      if (run.bytes[resource] >= 0) continue;
      return fail(ErrorCode::kValue, place, "a negative amount", "give at least 0");
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
  if (choice.distinct_ranks && choice.spread != Spread::kDevice) {
    return fail(ErrorCode::kConflict, place,
                "distinct ranks of a choice that is not a device choice",
                "ask for distinct ranks of device choices only");
  }
  if (!is_ascending(choice.causes, static_cast<int>(problem.charges.size()))) {
    return fail(ErrorCode::kConflict, place, "causes that are not ascending or have no charge",
                "name each charge once, in order");
  }
  return {};
}

// Adds up what the largest choice of every unit needs; false where 62 bits do not hold it.
bool fits_all(const PlacementProblem& problem) {
  Amounts total{};
  for (const Unit& unit : problem.units) {
    Amounts largest{};
    for (const UnitChoice& choice : unit.choices) {
      const std::int64_t copies = choice.spread == Spread::kHost ? choice.num_blocks : 1;
      for (int resource = 0; resource < problem.num_resources(); ++resource) {
        Bytes sum = 0;
        for (const PieceRun& run : choice.runs) {
          Bytes of_run = 0;
          if (__builtin_mul_overflow(run.bytes[resource], run.count * copies, &of_run) ||
              __builtin_add_overflow(sum, of_run, &sum)) {
            return false;
          }
        }
        largest[resource] = std::max(largest[resource], sum);
      }
    }
    for (int resource = 0; resource < problem.num_resources(); ++resource) {
      if (largest[resource] > kMaxBytes - total[resource]) return false;
      total[resource] += largest[resource];
    }
  }
  return true;
}

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
  for (const std::array<int, 2>& pair : problem.exclusive) {
    if (!is_ascending({pair.begin(), pair.end()}, static_cast<int>(problem.charges.size()))) {
      return fail(ErrorCode::kConflict, "exclusive",
                  "causes that are not ascending or do not exist", "name two charges, in order");
    }
  }
  if (!fits_all(problem)) {
    return fail(ErrorCode::kOverflow, "units", "the bytes of all units together exceed 2^62",
                "give smaller sizes");
  }
  return {};
}

}  // namespace plimsoll::balance
