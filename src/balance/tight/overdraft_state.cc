#include "balance/tight/overdraft_state.h"

#include <algorithm>

#include "plimsoll/core/numbers.h"

namespace plimsoll::balance {

using Choice = PlacementItems::Choice;

OverdraftState::OverdraftState(const PlacementItems& items)
    : items_(&items),
      width_(1 + static_cast<int>(items.resources.size())),
      num_ranks_(static_cast<std::size_t>(items.num_ranks)) {
  const auto width = static_cast<std::size_t>(width_);
  need_.resize(items.bytes.size() * width);
  for (std::size_t r = 0; r < items.bytes.size(); ++r) {
    need_[r * width] = items.load[r * static_cast<std::size_t>(items.stride)];
    for (std::size_t t = 0; t < items.resources.size(); ++t) {
      need_[r * width + 1 + t] = static_cast<double>(items.bytes[r][items.resources[t]]);
    }
  }
  cap_.assign(width * num_ranks_, 1);
  for (int d = 1; d < width_; ++d) {
    for (int rank = 0; rank < items.num_ranks; ++rank) {
      const auto resource =
          static_cast<std::size_t>(items.resources[static_cast<std::size_t>(d) - 1]);
      cap_[at(d, rank)] = static_cast<double>(items.problem->caps[rank][resource]);
    }
  }
  for (int d = 0; d < width_; ++d) {
    double largest = 1;
    for (int rank = 0; rank < items.num_ranks; ++rank) {
      largest = std::max(largest, cap_[at(d, rank)]);
    }
    largest_.push_back(largest);
  }
  for (const double cap : cap_) inverse_.push_back(1 / std::max(cap, 1.0));
  growth_.resize(num_ranks_);
  growth_of_host_.resize(static_cast<std::size_t>(items.num_hosts));
  clear();
}

void OverdraftState::clear() {
  choice_.assign(static_cast<std::size_t>(items_->num_units), -1);
  place_.assign(items_->unit_of_slot.size(), -1);
  position_ = place_;
  on_rank_.assign(num_ranks_, {});
  on_host_.assign(static_cast<std::size_t>(items_->num_hosts), {});
  refresh();
}

void OverdraftState::assign(const Standing& standing) {
  clear();
  choice_ = standing.choice;
  for (int unit = 0; unit < items_->num_units; ++unit) {
    if (choice_[unit] < 0) continue;
    for (int i = 0; i < items_->choices[choice_[unit]].num_pieces; ++i) {
      const int slot = items_->first_slot[unit] + i;
      link(slot, standing.place[slot]);
    }
  }
  refresh();
}

void OverdraftState::aim(double target) {
  largest_[0] = target;
  for (std::size_t rank = 0; rank < num_ranks_; ++rank) {
    cap_[rank] = target;
    inverse_[rank] = 1 / target;
  }
  refresh();
}

void OverdraftState::refresh() {
  over_.resize(cap_.size());
  for (std::size_t i = 0; i < cap_.size(); ++i) over_[i] = -cap_[i];
  for (int unit = 0; unit < items_->num_units; ++unit) {
    const int c = choice_[unit];
    if (c < 0) continue;
    const Choice& choice = items_->choices[c];
    if (choice.spread == Spread::kUniform) add(c, 0, {0, items_->num_ranks}, 1);
    for (int i = 0; i < choice.num_pieces; ++i) {
      add(c, i, ranks_of(c, place_[items_->first_slot[unit] + i]), 1);
    }
  }
  energy_ = 0;
  num_over_ = num_over_bytes_ = 0;
  term_.assign(num_ranks_, 0);
  is_over_.assign(num_ranks_, 0);
  is_over_bytes_.assign(num_ranks_, 0);
  update({0, items_->num_ranks});
}

OverdraftState::Ranks OverdraftState::ranks_of(int choice, int place) const {
  if (items_->choices[choice].spread != Spread::kHost) return {place, place + 1};
  return {place * items_->width, (place + 1) * items_->width};
}

bool OverdraftState::is_block(int slot) const {
  return items_->choices[choice_[items_->unit_of_slot[slot]]].spread == Spread::kHost;
}

const double* OverdraftState::need_of(int slot) const {
  const int unit = items_->unit_of_slot[slot];
  return need(choice_[unit], slot - items_->first_slot[unit]);
}

void OverdraftState::add(int choice, int piece, Ranks ranks, double sign) {
  const double* needed = need(choice, piece);
  for (int d = 0; d < width_; ++d) {
    const double more = sign * needed[d];
    for (int rank = ranks.first; rank < ranks.end; ++rank) over_[at(d, rank)] += more;
  }
}

void OverdraftState::update(Ranks ranks) {
  for (int rank = ranks.first; rank < ranks.end; ++rank) {
    double term = 0;
    bool is_over_bytes = false;
    for (int d = 0; d < width_; ++d) {
      const double over = over_[at(d, rank)];
      if (over <= 0) continue;
      term += square_of(over * inverse_[at(d, rank)]);
      is_over_bytes |= d > 0;
    }
    num_over_ += (term > 0 ? 1 : 0) - is_over_[rank];
    num_over_bytes_ += (is_over_bytes ? 1 : 0) - is_over_bytes_[rank];
    is_over_[rank] = term > 0 ? 1 : 0;
    is_over_bytes_[rank] = is_over_bytes ? 1 : 0;
    energy_ += term - term_[rank];
    term_[rank] = term;
  }
  num_looks_ += ranks.end - ranks.first;
}

void OverdraftState::take(int unit, int choice) {
  choice_[unit] = choice;
  if (items_->choices[choice].spread != Spread::kUniform) return;
  add(choice, 0, {0, items_->num_ranks}, 1);
  update({0, items_->num_ranks});
}

void OverdraftState::put(int unit, int piece, int place) {
  const Ranks ranks = ranks_of(choice_[unit], place);
  add(choice_[unit], piece, ranks, 1);
  update(ranks);
  link(items_->first_slot[unit] + piece, place);
}

void OverdraftState::remove(int unit) {
  const int c = choice_[unit];
  const Choice& choice = items_->choices[c];
  if (choice.spread == Spread::kUniform) {
    add(c, 0, {0, items_->num_ranks}, -1);
    update({0, items_->num_ranks});
  }
  for (int piece = 0; piece < choice.num_pieces; ++piece) {
    const int slot = items_->first_slot[unit] + piece;
    const Ranks ranks = ranks_of(c, place_[slot]);
    add(c, piece, ranks, -1);
    update(ranks);
    unlink(slot);
  }
  choice_[unit] = -1;
}

void OverdraftState::swap(int slot_a, int slot_b) {
  const int a = place_[slot_a], b = place_[slot_b];
  const auto change = [this](int slot, int place, double sign) {
    const int unit = items_->unit_of_slot[slot];
    const Ranks ranks = ranks_of(choice_[unit], place);
    add(choice_[unit], slot - items_->first_slot[unit], ranks, sign);
    update(ranks);
  };
  change(slot_a, a, -1);
  change(slot_b, b, -1);
  unlink(slot_a);
  unlink(slot_b);
  change(slot_a, b, 1);
  change(slot_b, a, 1);
  link(slot_a, b);
  link(slot_b, a);
}

double OverdraftState::slowest() const {
  double slowest = -kInfinity;
  for (std::size_t rank = 0; rank < num_ranks_; ++rank) slowest = std::max(slowest, over_[rank]);
  return slowest + cap_[0];
}

const std::vector<double>& OverdraftState::growth(int choice, int piece) {
  const double* needed = need(choice, piece);
  for (int d = 0; d < width_; ++d) {
    const double* over = over_.data() + at(d, 0);
    const double* inverse = inverse_.data() + at(d, 0);
    const double* so_far = d == 0 ? term_.data() : growth_.data();
    const double sign = d == 0 ? -1 : 1;
    for (std::size_t rank = 0; rank < num_ranks_; ++rank) {
      const double beyond = std::max((over[rank] + needed[d]) * inverse[rank], 0.0);
      growth_[rank] = sign * so_far[rank] + beyond * (1 + kSteepness * beyond);
    }
  }
  num_looks_ += items_->num_ranks;
  if (items_->choices[choice].spread != Spread::kHost) return growth_;
  for (int host = 0; host < items_->num_hosts; ++host) {
    double sum = 0;
    for (int i = 0; i < items_->width; ++i) sum += growth_[host * items_->width + i];
    growth_of_host_[host] = sum;
  }
  return growth_of_host_;
}

double OverdraftState::growth_everywhere(int choice) {
  const double* needed = need(choice, 0);
  double sum = 0;
  for (int d = 0; d < width_; ++d) {
    const double* over = over_.data() + at(d, 0);
    const double* inverse = inverse_.data() + at(d, 0);
    for (std::size_t rank = 0; rank < num_ranks_; ++rank) {
      const double beyond = std::max((over[rank] + needed[d]) * inverse[rank], 0.0);
      sum += beyond * (1 + kSteepness * beyond);
    }
  }
  num_looks_ += items_->num_ranks;
  return sum - energy_;
}

double OverdraftState::term_with(int rank, const double* more, const double* less) const {
  double term = 0;
  for (int d = 0; d < width_; ++d) {
    const double over = over_[at(d, rank)] + more[d] - less[d];
    if (over > 0) term += square_of(over * inverse_[at(d, rank)]);
  }
  return term;
}

double OverdraftState::growth_of_swap(int slot_a, int slot_b) {
  const double* need_a = need_of(slot_a);
  const double* need_b = need_of(slot_b);
  const int width = is_block(slot_a) ? items_->width : 1;
  double growth = 0;
  for (int i = 0; i < width; ++i) {
    const int a = place_[slot_a] * width + i;
    const int b = place_[slot_b] * width + i;
    growth += term_with(a, need_b, need_a) + term_with(b, need_a, need_b) - term_[a] - term_[b];
  }
  num_looks_ += width;
  return growth;
}

double OverdraftState::fullest(int choice, int piece, int rank) const {
  const double* needed = need(choice, piece);
  double most = -kInfinity;
  for (int d = 0; d < width_; ++d) {
    most = std::max(most, (over_[at(d, rank)] + needed[d]) * inverse_[at(d, rank)]);
  }
  return most;
}

double OverdraftState::size(int choice, int piece) const {
  const double* needed = need(choice, piece);
  double most = 0;
  for (int d = 0; d < width_; ++d) most = std::max(most, needed[d] / largest_[d]);
  return most;
}

void OverdraftState::link(int slot, int place) {
  std::vector<int>& list = is_block(slot) ? on_host_[place] : on_rank_[place];
  place_[slot] = place;
  position_[slot] = static_cast<int>(list.size());
  list.push_back(slot);
}

void OverdraftState::unlink(int slot) {
  std::vector<int>& list = is_block(slot) ? on_host_[place_[slot]] : on_rank_[place_[slot]];
  list[position_[slot]] = list.back();
  position_[list.back()] = position_[slot];
  list.pop_back();
  place_[slot] = position_[slot] = -1;
}

UnitPlacements OverdraftState::placements() const { return items_->placements(choice_, place_); }

}  // namespace plimsoll::balance
