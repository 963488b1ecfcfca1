#include "balance/problem/lightest_place.h"

#include <algorithm>

namespace plimsoll::balance {

using Choice = PlacementItems::Choice;

LightestPlace::LightestPlace(PlacementState& state)
    : state_(state),
      items_(state.items()),
      is_split_(state.num_barriers() > 1 && items_.num_ranks <= kMaxSplitRanks),
      height_(static_cast<std::size_t>(items_.num_ranks), 0) {
  for (int rank = 0; rank < items_.num_ranks; ++rank) ranks_.emplace(0, rank);
  for (int host = 0; host < items_.num_hosts; ++host) hosts_.emplace(0, host);
}

double LightestPlace::host_height(int host) const {
  const auto first = height_.begin() + static_cast<std::ptrdiff_t>(host) * items_.width;
  return *std::max_element(first, first + items_.width);
}

void LightestPlace::change(int choice, int piece, int place, int sign) {
  const Choice& c = items_.choices[choice];
  const auto record = static_cast<std::size_t>(PlacementItems::record_of(c, piece));
  double load = 0;
  for (int g = 0; g < state_.num_barriers(); ++g) {
    load += items_.load[record * static_cast<std::size_t>(items_.stride) + g];
  }
  const bool is_block = c.spread == Spread::kHost;
  const int first = is_block ? place * items_.width : place;
  const int end = is_block ? first + items_.width : first + 1;
  for (int rank = first; rank < end; ++rank) {
    height_[rank] += sign * load;
    if (!is_split_) ranks_.emplace(height_[rank], rank);
  }
  const int host = first / items_.width;
  if (host < items_.num_hosts) hosts_.emplace(host_height(host), host);
}

void LightestPlace::put(int unit, int piece, int place) {
  state_.put(unit, piece, place);
  change(state_.choice(unit), piece, place, 1);
}

void LightestPlace::remove(int unit) {
  const int choice = state_.choice(unit);
  const Choice& c = items_.choices[choice];
  std::vector<int> places;
  for (int i = 0; i < c.num_pieces; ++i)
    places.push_back(state_.place(items_.first_slot[unit] + i));
  state_.remove(unit);
  for (int i = 0; i < c.num_pieces; ++i) change(choice, i, places[i], -1);
}

// The sum of the squares of all ranks' loads at all barriers rises least where the piece is heavy
// at barriers that the rank has little of.
int LightestPlace::lightest_of_barriers(int unit, int choice, int piece) const {
  const auto record =
      static_cast<std::size_t>(PlacementItems::record_of(items_.choices[choice], piece));
  const double* load = &items_.load[record * static_cast<std::size_t>(items_.stride)];
  int best = -1;
  double least = 0;
  for (int rank = 0; rank < items_.num_ranks; ++rank) {
    double rise = 0;
    for (int g = 0; g < state_.num_barriers(); ++g) rise += load[g] * state_.load(rank, g);
    if ((best < 0 || rise < least) && state_.can_put(unit, choice, piece, rank)) {
      best = rank, least = rise;
    }
  }
  return best;
}

int LightestPlace::lightest(int unit, int choice, int piece) {
  const bool is_block = items_.choices[choice].spread == Spread::kHost;
  if (is_split_ && !is_block) return lightest_of_barriers(unit, choice, piece);
  Heap& heap = is_block ? hosts_ : ranks_;
  passed_.clear();
  int found = -1;
  while (!heap.empty() && found < 0) {
    const auto top = heap.top();
    heap.pop();
    const double height = is_block ? host_height(top.second) : height_[top.second];
    if (top.first != height) continue;  // another entry says what is so now
    passed_.push_back(top);
    if (state_.can_put(unit, choice, piece, top.second)) found = top.second;
  }
  passed_.erase(std::unique(passed_.begin(), passed_.end()), passed_.end());
  for (const auto& entry : passed_) heap.push(entry);
  return found;
}

bool LightestPlace::place(int unit, int choice) {
  const Choice& c = items_.choices[choice];
  if (c.spread == Spread::kUniform) {
    if (!state_.can_take(choice)) return false;
    state_.take(unit, choice);
    return true;
  }
  state_.take(unit, choice);
  for (int piece = 0; piece < c.num_pieces; ++piece) {
    const int at = lightest(unit, choice, piece);
    if (at >= 0) {
      put(unit, piece, at);
      continue;
    }
    std::vector<int> places;
    for (int i = 0; i < piece; ++i) places.push_back(state_.place(items_.first_slot[unit] + i));
    state_.remove(unit);
    for (int i = 0; i < piece; ++i) change(choice, i, places[i], -1);
    return false;
  }
  return true;
}

}  // namespace plimsoll::balance
