#include "balance/moves/rank_relief.h"

#include <algorithm>
#include <cstddef>

#include "plimsoll/core/numbers.h"

namespace plimsoll::balance {
namespace {

using Choice = PlacementItems::Choice;

constexpr int kMaxRefused = 8;  // in a row; then the rest is left as it is

}  // namespace

double RankRelief::added_work(int unit, int choice) const {
  return (items_.choices[choice].work - choice_of(unit).work) * items_.num_ranks;
}

void RankRelief::relieve(const std::vector<int>& ranks) {
  constexpr std::size_t kMaxWays = 4;  // tried for a rank
  int num_refused = 0;
  for (auto rank = ranks.rbegin(); rank != ranks.rend() && !is_done(); ++rank) {
    if (dealing_.over(*rank) <= 0) continue;
    find_ways(*rank);
    if (ways_.size() > kMaxWays) ways_.resize(kMaxWays);
    const bool is_relieved = std::any_of(ways_.begin(), ways_.end(), [&](const Way& way) {
      return take(way.unit, way.choice, *rank);
    });
    num_refused = is_relieved ? 0 : num_refused + 1;
    if (num_refused > kMaxRefused) break;
  }
}

// A piece goes whole only where the rank is within tau without it; what adds more work than the
// piece itself is left out.
void RankRelief::find_ways(int rank) {
  ways_.clear();
  for (const int slot : state_.slots_on_rank(rank)) {
    const int unit = items_.unit_of_slot[slot];
    const int now = state_.choice(unit);
    if (items_.choices[now].num_pieces > 1) continue;
    const double load = dealing_.load_of(slot);
    if (load >= dealing_.over(rank)) ways_.push_back({0, unit, now});
    for (int c = items_.first_choice[unit]; c < items_.first_choice[unit + 1]; ++c) {
      const Choice& other = items_.choices[c];
      const bool is_finer = other.spread == Spread::kDevice ? other.num_pieces > 1
                            : other.spread == Spread::kHost ? other.num_pieces == 1
                                                            : true;
      const double work = added_work(unit, c);
      if (is_finer && other.peak <= load && work <= load) {
        ways_.push_back({work, unit, c});
      }
    }
  }
  std::stable_sort(ways_.begin(), ways_.end(),
                   [](const Way& a, const Way& b) { return a.work < b.work; });
}

// `rank`: of the unit's only piece; -1 where the unit is uniform.
bool RankRelief::take(int unit, int choice, int rank) {
  switch (items_.choices[choice].spread) {
    case Spread::kUniform:
      places_.clear();
      return put_all(unit, choice, rank);
    case Spread::kHost:
      return take_block(unit, choice, rank);
    case Spread::kDevice:
      break;
  }
  return take_pieces(unit, choice, rank);
}

bool RankRelief::take_block(int unit, int choice, int rank) {
  int best = -1;
  double most = items_.choices[choice].peak;
  for (int host = 0; host < items_.num_hosts; ++host) {
    double least = kInfinity;
    for (int r = host * items_.width; r < (host + 1) * items_.width; ++r) {
      least = std::min(least, dealing_.room(r) + (r == rank ? choice_of(unit).peak : 0));
    }
    if (least >= most) best = host, most = least;
  }
  places_.assign(1, best);
  return best >= 0 && put_all(unit, choice, rank);
}

bool RankRelief::take_pieces(int unit, int choice, int rank) {
  const Choice& to = items_.choices[choice];
  const double freed = rank < 0 ? choice_of(unit).peak : 0;  // on every rank
  // The unit's own rank may keep one of finer pieces.
  double own_room = 0;
  taken_.clear();
  if (rank >= 0) {
    taken_.push_back(rank);
    if (choice != state_.choice(unit)) own_room = dealing_.room(rank) + choice_of(unit).peak;
  }
  places_.clear();
  for (int i = 0; i < to.num_pieces; ++i) {
    const double need =
        items_.load[static_cast<std::size_t>(PlacementItems::record_of(to, i))] - freed;
    if (own_room >= need && own_room > 0) {
      places_.push_back(rank);
      own_room = 0;
      continue;
    }
    const int place = gather(need);
    if (place < 0) return false;
    places_.push_back(place);
    taken_.push_back(place);
  }
  return put_all(unit, choice, rank);
}

// At places_. The unit is left as it was where memory forbids the choice.
bool RankRelief::put_all(int unit, int choice, int rank) {
  const int before = state_.choice(unit);
  state_.remove(unit);
  const bool is_uniform = items_.choices[choice].spread == Spread::kUniform;
  bool fits = !is_uniform || state_.can_take(choice);
  if (fits) state_.take(unit, choice);
  for (int i = 0; i < std::ssize(places_) && fits; ++i) {
    fits = state_.can_put(unit, choice, i, places_[i]);
    if (fits) state_.put(unit, i, places_[i]);
  }
  if (fits) return true;
  if (state_.choice(unit) >= 0) state_.remove(unit);
  state_.take(unit, before);
  if (rank >= 0) state_.put(unit, 0, rank);
  return false;
}

bool RankRelief::is_taken(int rank) const {
  return std::find(taken_.begin(), taken_.end(), rank) != taken_.end();
}

// A rank that is not taken and has so much room now; -1: none was found.
int RankRelief::gather(double need) {
  constexpr double kGain = 1e-3;  // of what is needed
  int best = -1;
  for (int rank = 0; rank < items_.num_ranks; ++rank) {
    if (!is_taken(rank) && (best < 0 || dealing_.load(rank) < dealing_.load(best))) best = rank;
  }
  if (best < 0) return -1;
  int num_in_vain = 0;
  while (dealing_.room(best) < need) {
    if (is_done() || ++num_in_vain > 2 * items_.num_ranks) return -1;
    const int other = random_.below(items_.num_ranks);
    if (other == best || is_taken(other)) continue;
    const double before = dealing_.room(best);
    dealing_.deal(best, other);
    if (dealing_.load(other) < dealing_.load(best)) best = other;
    if (dealing_.room(best) > before + kGain * need) num_in_vain = 0;
  }
  return best;
}

// Of the rank's whole pieces, the one that finer pieces on the same rank cost least.
RankRelief::Way RankRelief::find_finer(int rank, double most_work) const {
  Way best{most_work, -1, -1};
  for (const int slot : state_.slots_on_rank(rank)) {
    const int unit = items_.unit_of_slot[slot];
    if (choice_of(unit).num_pieces > 1) continue;
    for (int c = items_.first_choice[unit]; c < items_.first_choice[unit + 1]; ++c) {
      const Choice& other = items_.choices[c];
      const bool is_finer =
          other.spread == Spread::kDevice && other.num_pieces > 1 && !other.distinct_ranks;
      const double work = added_work(unit, c);
      if (is_finer && work < best.work) best = {work, unit, c};
    }
  }
  return best;
}

void RankRelief::refine() {
  constexpr double kMuch = 3;       // mean rooms
  constexpr double kMostWork = .2;  // of the room left over
  double mean = 0;
  for (int rank = 0; rank < items_.num_ranks; ++rank) {
    mean += std::max(0.0, dealing_.room(rank)) / items_.num_ranks;
  }
  for (int rank = 0; rank < items_.num_ranks; ++rank) {
    const double room = dealing_.room(rank);
    if (room < kMuch * mean) continue;
    const Way way = find_finer(rank, kMostWork * room);
    if (way.unit < 0) continue;
    places_.assign(static_cast<std::size_t>(items_.choices[way.choice].num_pieces), rank);
    put_all(way.unit, way.choice, rank);
  }
}

void RankRelief::cheapen() {
  ways_.clear();
  for (int unit = 0; unit < items_.num_units; ++unit) {
    if (choice_of(unit).spread != Spread::kUniform) continue;
    // Choices are by rising work.
    for (int c = items_.first_choice[unit]; c < state_.choice(unit); ++c) {
      const double work = added_work(unit, c);
      if (items_.choices[c].spread != Spread::kDevice || work >= 0) continue;
      ways_.push_back({work, unit, c});
      break;
    }
  }
  std::stable_sort(ways_.begin(), ways_.end(), [this](const Way& a, const Way& b) {
    return items_.choices[a.choice].peak < items_.choices[b.choice].peak;
  });
  int num_refused = 0;
  for (const Way& way : ways_) {
    if (is_done() || num_refused > kMaxRefused) break;
    num_refused = take(way.unit, way.choice, -1) ? 0 : num_refused + 1;
  }
}

}  // namespace plimsoll::balance
