#include "balance/problem/placement_judge.h"

#include <algorithm>

#include "core/check.h"

namespace plimsoll::balance {
namespace {

class Judge {
 public:
  Judge(const PlacementProblem& problem, const UnitPlacements& placements)
      : problem_(problem), placements_(placements) {}

  PlacementValue judge() {
    const auto num_ranks = static_cast<std::size_t>(problem_.num_ranks);
    value_.load.assign(num_ranks * static_cast<std::size_t>(problem_.num_barriers), 0);
    value_.bytes.assign(num_ranks, Amounts{});
    everywhere_.assign(static_cast<std::size_t>(problem_.num_rank_classes) *
                           static_cast<std::size_t>(problem_.num_barriers),
                       0);
    change_.assign(num_ranks + 1, Amounts{});
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
    judge_exclusive();
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
    for (int resource = 0; resource < problem_.num_resources(); ++resource)
      value_.bytes[rank][resource] += run.bytes[resource];
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
      for (int resource = 0; resource < problem_.num_resources(); ++resource) {
        change_[rank][resource] += run.bytes[resource];
        change_[rank + run.count][resource] -= run.bytes[resource];
      }
      rank += run.count;
    }
  }

  void add_everywhere() {
    const auto num_barriers = static_cast<std::size_t>(problem_.num_barriers);
    Amounts bytes{};
    for (int rank = 0; rank < problem_.num_ranks; ++rank) {
      const double* load = &everywhere_[problem_.class_of(rank) * num_barriers];
      for (std::size_t g = 0; g < num_barriers; ++g) {
        value_.load[static_cast<std::size_t>(rank) * num_barriers + g] += load[g];
      }
      for (int resource = 0; resource < problem_.num_resources(); ++resource) {
        bytes[resource] += change_[rank][resource];
        value_.bytes[rank][resource] += bytes[resource];
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
      find(place_of(problem_, unit) + " is not where its choice may be");
      return;
    }
    switch (choice.spread) {
      case Spread::kDevice: {
        auto slot = placement.slots.begin();
        for (const PieceRun& run : choice.runs) {
          for (std::int64_t i = 0; i < run.count; ++i) put(unit, run, *slot++);
        }
        if (choice.distinct_ranks) judge_distinct(unit, placement.slots);
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

  void judge_distinct(int unit, std::vector<int> ranks) {
    std::sort(ranks.begin(), ranks.end());
    const auto twin = std::adjacent_find(ranks.begin(), ranks.end());
    if (twin == ranks.end()) return;
    find(place_of(problem_, unit) + " wants a rank for each piece and puts several on rank " +
         std::to_string(*twin));
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

  void judge_exclusive() {
    for (const auto& [first, second] : problem_.exclusive) {
      if (!is_charged_[first] || !is_charged_[second]) continue;
      find("causes " + std::to_string(first) + " and " + std::to_string(second) +
           " exclude each other");
    }
  }

  void judge_bytes() {
    for (int resource = 0; resource < problem_.num_resources(); ++resource) {
      const int width = problem_.resources[resource].is_pooled ? problem_.ranks_per_host : 1;
      for (int first = 0; first < problem_.num_ranks;) {
        const bool is_whole = first / width < problem_.num_ranks / width;
        const int end = is_whole ? first + width : first + 1;
        Bytes bytes = 0;
        Bytes cap = 0;
        for (int rank = first; rank < end; ++rank) {
          bytes += value_.bytes[rank][resource];
          cap += problem_.caps[rank][resource];
        }
        if (bytes > cap) {
          find("rank " + std::to_string(first) + " holds " + std::to_string(bytes) + " of " +
               problem_.resources[resource].name + " under a cap of " + std::to_string(cap));
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
  std::vector<Amounts> change_;            // [num_ranks + 1] from the rank before
  std::vector<bool> is_charged_;
};

}  // namespace

PlacementValue evaluate(const PlacementProblem& problem, const UnitPlacements& placements) {
  PLIMSOLL_DCHECK(validate(problem).has_value(), "the problem is valid");
  return Judge(problem, placements).judge();
}

}  // namespace plimsoll::balance
