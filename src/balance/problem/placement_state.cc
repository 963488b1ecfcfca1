#include "balance/problem/placement_state.h"

#include <algorithm>

namespace plimsoll::balance {

using Choice = PlacementItems::Choice;

PlacementState::PlacementState(const PlacementItems& items, bool has_soft_times,
                               const MoveCosts* moves)
    : items_(&items), moves_(moves), num_barriers_(items.problem->num_barriers) {
  const PlacementProblem& problem = *items.problem;
  class_of_.resize(static_cast<std::size_t>(items.num_ranks));
  for (int rank = 0; rank < items.num_ranks; ++rank) class_of_[rank] = problem.class_of(rank);
  for (const int resource : items.resources) {
    Pools pools;
    const int width = problem.resources[resource].is_pooled ? items.width : 1;
    for (int rank = 0; rank < items.num_ranks; ++rank) {
      const bool is_whole = rank / width < items.num_ranks / width;
      const bool is_new = rank == 0 || !is_whole || rank % width == 0;
      if (is_new) {
        pools.cap.push_back(0);
        pools.num_ranks.push_back(0);
      }
      pools.cap.back() += problem.caps[rank][resource];
      ++pools.num_ranks.back();
      pools.of_rank.push_back(static_cast<int>(pools.cap.size()) - 1);
    }
    pools.least_cap = *std::min_element(pools.cap.begin(), pools.cap.end());
    pools.most_ranks = *std::max_element(pools.num_ranks.begin(), pools.num_ranks.end());
    pools.is_soft = has_soft_times && problem.resources[resource].is_time;
    has_soft_times_ |= pools.is_soft;
    pools_.push_back(std::move(pools));
  }
  sets_of_.resize(static_cast<std::size_t>(items.num_units));
  for (std::size_t s = 0; s < problem.apart.size(); ++s) {
    for (const int unit : problem.apart[s]) sets_of_[unit].push_back(static_cast<int>(s));
  }
  clear();
}

void PlacementState::clear() {
  const auto num_ranks = static_cast<std::size_t>(items_->num_ranks);
  load_.assign(num_ranks * static_cast<std::size_t>(num_barriers_), 0);
  uniform_.assign(static_cast<std::size_t>(items_->stride), 0);
  uniform_work_ = 0;
  work_ = 0;
  moved_ = 0;
  uniform_bytes_ = {};
  for (Pools& pools : pools_) {
    pools.used.assign(pools.cap.size(), 0);
    pools.most_used = 0;
  }
  choice_.assign(static_cast<std::size_t>(items_->num_units), -1);
  place_.assign(items_->unit_of_slot.size(), -1);
  position_.assign(items_->unit_of_slot.size(), -1);
  on_rank_.assign(num_ranks, {});
  on_host_.assign(static_cast<std::size_t>(items_->num_hosts), {});
}

void PlacementState::assign(const UnitPlacements& placements) {
  clear();
  for (int unit = 0; unit < items_->num_units; ++unit) {
    const UnitPlacement& placement = placements.units[unit];
    take(unit, items_->find_choice(unit, placement.choice));
    for (std::size_t i = 0; i < placement.slots.size(); ++i) {
      put(unit, static_cast<int>(i), placement.slots[i]);
    }
  }
}

UnitPlacements PlacementState::placements() const { return items_->placements(choice_, place_); }

void PlacementState::take(int unit, int choice) {
  choice_[unit] = choice;
  const Choice& taken = items_->choices[choice];
  if (taken.spread != Spread::kUniform) return;
  add(taken, 0, 0, 1);
  if (moves_ != nullptr) count_moved(unit, taken, -1, 0, 1);
}

void PlacementState::put(int unit, int piece, int place) {
  add(items_->choices[choice_[unit]], piece, place, 1);
  if (moves_ != nullptr) count_moved(unit, items_->choices[choice_[unit]], piece, place, 1);
  link(items_->first_slot[unit] + piece, place);
}

void PlacementState::remove(int unit) {
  const Choice& choice = items_->choices[choice_[unit]];
  if (choice.spread == Spread::kUniform) {
    add(choice, 0, 0, -1);
    if (moves_ != nullptr) count_moved(unit, choice, -1, 0, -1);
  }
  const int first = items_->first_slot[unit];
  for (int i = 0; i < choice.num_pieces; ++i) {
    if (position_[first + i] < 0) continue;
    add(choice, i, place_[first + i], -1);
    if (moves_ != nullptr) count_moved(unit, choice, i, place_[first + i], -1);
    unlink(first + i);
  }
  choice_[unit] = -1;
}

void PlacementState::move(int slot, int place) {
  const int unit = items_->unit_of_slot[slot];
  const Choice& choice = items_->choices[choice_[unit]];
  const int piece = slot - items_->first_slot[unit];
  if (moves_ != nullptr) {
    count_moved(unit, choice, piece, place_[slot], -1);
    count_moved(unit, choice, piece, place, 1);
  }
  add(choice, piece, place_[slot], -1);
  unlink(slot);
  add(choice, piece, place, 1);
  link(slot, place);
}

// Of piece -1 what a uniform choice moves.
void PlacementState::count_moved(int unit, const Choice& choice, int piece, int place, int sign) {
  const ChoiceMoves& moves = moves_->units[unit][static_cast<std::size_t>(choice.index)];
  moved_ += sign *
            (piece < 0 ? moves.everywhere : moves.slots[static_cast<std::size_t>(piece)].on(place));
}

void PlacementState::add(const Choice& choice, int piece, int place, int sign) {
  const auto record = static_cast<std::size_t>(PlacementItems::record_of(choice, piece));
  const double* piece_load =
      items_->load.data() + record * static_cast<std::size_t>(items_->stride);
  const Amounts& piece_bytes = items_->bytes[record];
  if (choice.spread == Spread::kUniform) {
    for (int i = 0; i < items_->stride; ++i) uniform_[i] += sign * piece_load[i];
    for (int t = 0; t < items_->problem->num_resources(); ++t)
      uniform_bytes_[t] += sign * piece_bytes[t];
    uniform_work_ += sign * choice.work;
    work_ += sign * choice.work;
    return;
  }
  const bool is_block = choice.spread == Spread::kHost;
  const int first = is_block ? place * items_->width : place;
  const int end = is_block ? first + items_->width : first + 1;
  for (int rank = first; rank < end; ++rank) {
    const double* of_class = piece_load + class_of_[rank] * num_barriers_;
    double* load = load_.data() + rank * num_barriers_;
    for (int g = 0; g < num_barriers_; ++g) {
      load[g] += sign * of_class[g];
      work_ += sign * of_class[g] / items_->num_ranks;
    }
  }
  for (std::size_t t = 0; t < pools_.size(); ++t) {
    const Bytes bytes = sign * piece_bytes[items_->resources[t]];
    if (bytes == 0) continue;
    for (int rank = first; rank < end; ++rank) {
      Bytes& used = pools_[t].used[pools_[t].of_rank[rank]];
      used += bytes;
      pools_[t].most_used = std::max(pools_[t].most_used, used);
    }
  }
}

bool PlacementState::can_take(int choice) const {
  const Amounts& bytes = items_->bytes[items_->choices[choice].first_record];
  for (std::size_t t = 0; t < pools_.size(); ++t) {
    const Bytes more = bytes[items_->resources[t]];
    if (more == 0 || pools_[t].is_soft) continue;
    const Pools& pools = pools_[t];
    const Bytes most = pools.most_ranks * (uniform_bytes_[items_->resources[t]] + more);
    if (pools.most_used + most <= pools.least_cap) continue;
    for (std::size_t p = 0; p < pools.cap.size(); ++p) {
      if (pools.used[p] + pools.num_ranks[p] * (uniform_bytes_[items_->resources[t]] + more) >
          pools.cap[p]) {
        return false;
      }
    }
  }
  return true;
}

bool PlacementState::can_put(int unit, int choice_index, int piece, int place) const {
  const Choice& choice = items_->choices[choice_index];
  const Amounts& bytes = items_->bytes[PlacementItems::record_of(choice, piece)];
  const bool is_block = choice.spread == Spread::kHost;
  const int first = is_block ? place * items_->width : place;
  const int num_ranks = is_block ? items_->width : 1;
  for (std::size_t t = 0; t < pools_.size(); ++t) {
    const Bytes more = bytes[items_->resources[t]];
    if (more == 0 || pools_[t].is_soft) continue;
    const Pools& pools = pools_[t];
    for (int rank = first; rank < first + num_ranks; ++rank) {
      const int pool = pools.of_rank[rank];
      const bool is_shared = is_block && pools.num_ranks[pool] > 1;
      if (pools.used[pool] + pools.num_ranks[pool] * uniform_bytes_[items_->resources[t]] +
              (is_shared ? num_ranks : 1) * more >
          pools.cap[pool]) {
        return false;
      }
    }
  }
  const std::vector<int>& allowed = items_->problem->units[unit].allowed_ranks;
  if (!allowed.empty()) {
    for (int rank = first; rank < first + num_ranks; ++rank) {
      if (!std::binary_search(allowed.begin(), allowed.end(), rank)) return false;
    }
  }
  if (choice.distinct_ranks && holds_other(unit, piece, place)) return false;
  return sets_of_[unit].empty() || is_apart_from_all(unit, first, num_ranks);
}

bool PlacementState::holds_other(int unit, int piece, int rank) const {
  return std::any_of(on_rank_[rank].begin(), on_rank_[rank].end(), [&](int slot) {
    return items_->unit_of_slot[slot] == unit && slot != items_->first_slot[unit] + piece;
  });
}

bool PlacementState::is_within_caps(int rank) const {
  for (std::size_t t = 0; t < pools_.size(); ++t) {
    if (pools_[t].is_soft) continue;
    const Pools& pools = pools_[t];
    const int pool = pools.of_rank[rank];
    if (pools.used[pool] + pools.num_ranks[pool] * uniform_bytes_[items_->resources[t]] >
        pools.cap[pool]) {
      return false;
    }
  }
  return true;
}

double PlacementState::overdraft(int rank) const {
  double sum = 0;
  for (std::size_t t = 0; t < pools_.size(); ++t) {
    const Pools& pools = pools_[t];
    if (!pools.is_soft) continue;
    const int pool = pools.of_rank[rank];
    const Bytes over = pools.used[pool] +
                       pools.num_ranks[pool] * uniform_bytes_[items_->resources[t]] -
                       pools.cap[pool];
    if (over <= 0) continue;
    sum += static_cast<double>(over) / static_cast<double>(std::max<Bytes>(pools.cap[pool], 1));
  }
  return sum;
}

bool PlacementState::is_apart_from_all(int unit, int first_rank, int num_ranks) const {
  for (const int set : sets_of_[unit]) {
    for (const int other : items_->problem->apart[set]) {
      if (other == unit || choice_[other] < 0) continue;
      const Choice& choice = items_->choices[choice_[other]];
      const int width = choice.spread == Spread::kHost ? items_->width : 1;
      const int slot = items_->first_slot[other];
      for (int i = 0; i < choice.num_pieces; ++i) {
        if (position_[slot + i] < 0) continue;
        const int first = place_[slot + i] * width;
        if (first < first_rank + num_ranks && first_rank < first + width) return false;
      }
    }
  }
  return true;
}

void PlacementState::link(int slot, int place) {
  const Choice& choice = items_->choices[choice_[items_->unit_of_slot[slot]]];
  std::vector<int>& list = choice.spread == Spread::kHost ? on_host_[place] : on_rank_[place];
  place_[slot] = place;
  position_[slot] = static_cast<int>(list.size());
  list.push_back(slot);
}

void PlacementState::unlink(int slot) {
  const Choice& choice = items_->choices[choice_[items_->unit_of_slot[slot]]];
  std::vector<int>& list =
      choice.spread == Spread::kHost ? on_host_[place_[slot]] : on_rank_[place_[slot]];
  list[position_[slot]] = list.back();
  position_[list.back()] = position_[slot];
  list.pop_back();
  position_[slot] = -1;
}

double PlacementState::slowest(int barrier) const {
  double slowest = 0;
  for (int rank = 0; rank < items_->num_ranks; ++rank) {
    slowest = std::max(slowest, load(rank, barrier));
  }
  return slowest;
}

double PlacementState::slowest() const {
  double sum = 0;
  for (int g = 0; g < num_barriers_; ++g) sum += slowest(g);
  return sum;
}

}  // namespace plimsoll::balance
