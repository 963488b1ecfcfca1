#include "balance/moves/over_placement.h"

#include <algorithm>

namespace plimsoll::balance {

using Choice = PlacementItems::Choice;

OverPlacement::OverPlacement(const PlacementItems& items, const PerResource<double>& byte_price)
    : items_(&items), width_(1 + items.resources.size()) {
  const std::size_t num_records = items.bytes.size();
  need_.resize(num_records * width_);
  for (std::size_t r = 0; r < num_records; ++r) {
    need_[r * width_] = items.load[r * static_cast<std::size_t>(items.stride)];
    for (std::size_t t = 0; t < items.resources.size(); ++t) {
      need_[r * width_ + 1 + t] = static_cast<double>(items.bytes[r][items.resources[t]]);
    }
  }
  for (const Choice& choice : items.choices) {
    double cost = choice.work;
    for (const int resource : items.resources) {
      cost += byte_price[resource] * static_cast<double>(choice.bytes[resource]);
    }
    cost_.push_back(cost);
  }
  const auto num_ranks = static_cast<std::size_t>(items.num_ranks);
  cap_.assign(num_ranks * width_, 1);
  for (std::size_t rank = 0; rank < num_ranks; ++rank) {
    for (std::size_t t = 0; t < items.resources.size(); ++t) {
      cap_[rank * width_ + 1 + t] =
          static_cast<double>(items.problem->caps[rank][items.resources[t]]);
    }
  }
  for (const double cap : cap_) inverse_.push_back(1 / std::max(cap, 1.0));
  use_.assign(cap_.size(), 0);
  uniform_.assign(width_, 0);
  term_.assign(num_ranks, 0);
  is_overdrawn_.assign(num_ranks, 0);
  choice_.assign(static_cast<std::size_t>(items.num_units), -1);
  place_.assign(items.unit_of_slot.size(), -1);
  position_ = place_;
  on_rank_.resize(num_ranks);
  on_host_.resize(static_cast<std::size_t>(items.num_hosts));
}

void OverPlacement::aim(double target) {
  for (int rank = 0; rank < items_->num_ranks; ++rank) {
    cap_[at(rank)] = target;
    inverse_[at(rank)] = 1 / target;
  }
  kappa_ = kKappa / target;
  refresh();
}

void OverPlacement::refresh() {
  std::fill(use_.begin(), use_.end(), 0);
  std::fill(uniform_.begin(), uniform_.end(), 0);
  priced_ = 0;
  for (int unit = 0; unit < items_->num_units; ++unit) {
    if (choice_[unit] < 0) continue;
    const Choice& choice = items_->choices[choice_[unit]];
    priced_ += cost_[choice_[unit]];
    if (choice.spread == Spread::kUniform) use_everywhere(choice, 1);
    for (int piece = 0; piece < choice.num_pieces; ++piece) {
      use(choice, piece, place_[items_->first_slot[unit] + piece], 1);
    }
  }
  over_ = 0;
  std::fill(term_.begin(), term_.end(), 0);
  for (int rank = 0; rank < items_->num_ranks; ++rank) update(rank);
}

void OverPlacement::update(int rank) {
  const double* use = use_.data() + at(rank);
  const double* cap = cap_.data() + at(rank);
  const double* inverse = inverse_.data() + at(rank);
  double term = 0;
  bool is_overdrawn = false;
  for (std::size_t d = 0; d < width_; ++d) {
    const double all = use[d] + uniform_[d];
    if (all <= cap[d]) continue;
    term += square_of((all - cap[d]) * inverse[d]);
    is_overdrawn |= d > 0;
  }
  num_overdrawn_ += (is_overdrawn ? 1 : 0) - is_overdrawn_[rank];
  is_overdrawn_[rank] = is_overdrawn ? 1 : 0;
  ++num_updates_;
  over_ += term - term_[rank];
  term_[rank] = term;
}

OverPlacement::Ranks OverPlacement::ranks_of(const Choice& choice, int place) const {
  if (choice.spread != Spread::kHost) return {place, place + 1};
  return {place * items_->width, (place + 1) * items_->width};
}

void OverPlacement::use(const Choice& choice, int piece, int place, double sign) {
  const double* need = record(choice, piece);
  const Ranks ranks = ranks_of(choice, place);
  for (int rank = ranks.first; rank < ranks.end; ++rank) {
    double* use = use_.data() + at(rank);
    for (std::size_t d = 0; d < width_; ++d) use[d] += sign * need[d];
  }
}

void OverPlacement::use_everywhere(const Choice& choice, double sign) {
  const double* need = record(choice, 0);
  for (std::size_t d = 0; d < width_; ++d) uniform_[d] += sign * need[d];
}

void OverPlacement::add(const Choice& choice, int piece, int place, double sign) {
  use(choice, piece, place, sign);
  const Ranks ranks = ranks_of(choice, place);
  for (int rank = ranks.first; rank < ranks.end; ++rank) update(rank);
}

void OverPlacement::add_everywhere(const Choice& choice, double sign) {
  use_everywhere(choice, sign);
  for (int rank = 0; rank < items_->num_ranks; ++rank) update(rank);
}

void OverPlacement::take(int unit, int choice) {
  choice_[unit] = choice;
  priced_ += cost_[choice];
  const Choice& taken = items_->choices[choice];
  if (taken.spread == Spread::kUniform) add_everywhere(taken, 1);
}

void OverPlacement::put(int unit, int piece, int place) {
  add(items_->choices[choice_[unit]], piece, place, 1);
  link(items_->first_slot[unit] + piece, place);
}

void OverPlacement::remove(int unit) {
  const Choice& choice = items_->choices[choice_[unit]];
  priced_ -= cost_[choice_[unit]];
  if (choice.spread == Spread::kUniform) add_everywhere(choice, -1);
  for (int piece = 0; piece < choice.num_pieces; ++piece) {
    const int slot = items_->first_slot[unit] + piece;
    add(choice, piece, place_[slot], -1);
    unlink(slot);
  }
  choice_[unit] = -1;
}

void OverPlacement::move(int slot, int place) {
  const int unit = items_->unit_of_slot[slot];
  const Choice& choice = items_->choices[choice_[unit]];
  const int piece = slot - items_->first_slot[unit];
  add(choice, piece, place_[slot], -1);
  unlink(slot);
  add(choice, piece, place, 1);
  link(slot, place);
}

double OverPlacement::growth(int c, int piece, int place) const {
  constexpr double kTie = 1e-7;
  const Choice& choice = items_->choices[c];
  const double* need = record(choice, piece);
  const Ranks ranks = ranks_of(choice, place);
  double growth = 0;
  double fullest = -1;
  for (int rank = ranks.first; rank < ranks.end; ++rank) {
    const double* use = use_.data() + at(rank);
    const double* cap = cap_.data() + at(rank);
    const double* inverse = inverse_.data() + at(rank);
    for (std::size_t d = 0; d < width_; ++d) {
      const double over = (use[d] + uniform_[d] + need[d] - cap[d]) * inverse[d];
      if (over > 0) growth += square_of(over);
      fullest = std::max(fullest, over);
    }
    growth -= term_[rank];
  }
  return growth + kTie * fullest;
}

const double* OverPlacement::need_of(int slot) const {
  const int unit = items_->unit_of_slot[slot];
  return record(items_->choices[choice_[unit]], slot - items_->first_slot[unit]);
}

double OverPlacement::term_with(int rank, const double* more, const double* less) const {
  const double* use = use_.data() + at(rank);
  const double* cap = cap_.data() + at(rank);
  const double* inverse = inverse_.data() + at(rank);
  double term = 0;
  for (std::size_t d = 0; d < width_; ++d) {
    double over = use[d] + uniform_[d] - cap[d];
    if (more != nullptr) over += more[d];
    if (less != nullptr) over -= less[d];
    if (over > 0) term += square_of(over * inverse[d]);
  }
  return term;
}

double OverPlacement::growth_of_move(int slot, int place) const {
  const double* need = need_of(slot);
  const int width = is_block(items_->unit_of_slot[slot]) ? items_->width : 1;
  double growth = 0;
  for (int i = 0; i < width; ++i) {
    const int from = place_[slot] * width + i;
    const int to = place * width + i;
    growth += term_with(to, need, nullptr) - term_[to] + term_with(from, nullptr, need);
    growth -= term_[from];
  }
  return growth;
}

double OverPlacement::growth_of_swap(int slot_a, int slot_b) const {
  const double* need_a = need_of(slot_a);
  const double* need_b = need_of(slot_b);
  const int width = is_block(items_->unit_of_slot[slot_a]) ? items_->width : 1;
  double growth = 0;
  for (int i = 0; i < width; ++i) {
    const int a = place_[slot_a] * width + i;
    const int b = place_[slot_b] * width + i;
    growth += term_with(a, need_b, need_a) - term_[a] + term_with(b, need_a, need_b) - term_[b];
  }
  return growth;
}

void OverPlacement::link(int slot, int place) {
  std::vector<int>& list = is_block(items_->unit_of_slot[slot]) ? on_host_[place] : on_rank_[place];
  place_[slot] = place;
  position_[slot] = static_cast<int>(list.size());
  list.push_back(slot);
}

void OverPlacement::unlink(int slot) {
  std::vector<int>& list =
      is_block(items_->unit_of_slot[slot]) ? on_host_[place_[slot]] : on_rank_[place_[slot]];
  list[position_[slot]] = list.back();
  position_[list.back()] = position_[slot];
  list.pop_back();
  position_[slot] = -1;
}

double OverPlacement::slowest() const {
  double slowest = 0;
  for (int rank = 0; rank < items_->num_ranks; ++rank) slowest = std::max(slowest, use_[at(rank)]);
  return slowest + uniform_[0];
}

UnitPlacements OverPlacement::placements() const { return items_->placements(choice_, place_); }

}  // namespace plimsoll::balance
