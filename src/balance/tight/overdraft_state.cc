#include "balance/tight/overdraft_state.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "plimsoll/core/numbers.h"

namespace plimsoll::balance {

using Choice = PlacementItems::Choice;

namespace {

// Two resources at once: compilers make no vectors of a sum with a maximum in it by themselves.
using Pair = double __attribute__((vector_size(2 * sizeof(double))));

Pair pair_at(const double* values) {
  Pair pair;
  std::memcpy(&pair, values, sizeof pair);
  return pair;
}

}  // namespace

OverdraftState::OverdraftState(const PlacementItems& items)
    : items_(&items),
      width_(1 + items.resources.size()),
      stride_((width_ + kLanes - 1) / kLanes * kLanes),
      num_ranks_(static_cast<std::size_t>(items.num_ranks)) {
  need_.assign(items.bytes.size() * stride_, 0);
  for (std::size_t r = 0; r < items.bytes.size(); ++r) {
    need_[r * stride_] = items.load[r * static_cast<std::size_t>(items.stride)];
    for (std::size_t t = 0; t < items.resources.size(); ++t) {
      need_[r * stride_ + 1 + t] = static_cast<double>(items.bytes[r][items.resources[t]]);
    }
  }
  cap_.assign(num_ranks_ * stride_, 1);
  inverse_.assign(num_ranks_ * stride_, 0);
  largest_.assign(width_, 1);
  for (int rank = 0; rank < items.num_ranks; ++rank) {
    inverse_[at(rank)] = 1;
    for (std::size_t d = 1; d < width_; ++d) {
      const auto cap = static_cast<double>(items.problem->caps[rank][items.resources[d - 1]]);
      cap_[at(rank) + d] = cap;
      inverse_[at(rank) + d] = 1 / std::max(cap, 1.0);
      largest_[d] = std::max(largest_[d], cap);
    }
  }
  change_.resize(stride_);
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
  for (int rank = 0; rank < items_->num_ranks; ++rank) {
    cap_[at(rank)] = target;
    inverse_[at(rank)] = 1 / target;
  }
  refresh();
}

void OverdraftState::set_costs(std::vector<double> costs) {
  costs_ = std::move(costs);
  refresh();
}

void OverdraftState::refresh() {
  over_.resize(cap_.size());
  for (std::size_t i = 0; i < cap_.size(); ++i) over_[i] = -cap_[i];
  overdraft_ = cost_ = 0;
  for (int unit = 0; unit < items_->num_units; ++unit) {
    const int c = choice_[unit];
    if (c < 0) continue;
    cost_ += cost(c);
    const Choice& choice = items_->choices[c];
    if (choice.spread == Spread::kUniform) add(c, 0, {0, items_->num_ranks}, 1);
    for (int i = 0; i < choice.num_pieces; ++i) {
      add(c, i, ranks_of(c, place_[items_->first_slot[unit] + i]), 1);
    }
  }
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
  for (int rank = ranks.first; rank < ranks.end; ++rank) {
    for (std::size_t d = 0; d < width_; ++d) over_[at(rank) + d] += sign * needed[d];
  }
}

void OverdraftState::update(Ranks ranks) {
  for (int rank = ranks.first; rank < ranks.end; ++rank) {
    double term = 0;
    bool is_over_bytes = false;
    for (std::size_t d = 0; d < width_; ++d) {
      const double over = over_[at(rank) + d];
      if (over <= 0) continue;
      term += term_of(over * inverse_[at(rank) + d]);
      is_over_bytes |= d > 0;
    }
    num_over_ += (term > 0 ? 1 : 0) - is_over_[rank];
    num_over_bytes_ += (is_over_bytes ? 1 : 0) - is_over_bytes_[rank];
    is_over_[rank] = term > 0 ? 1 : 0;
    is_over_bytes_[rank] = is_over_bytes ? 1 : 0;
    overdraft_ += term - term_[rank];
    term_[rank] = term;
  }
  num_looks_ += ranks.end - ranks.first;
}

void OverdraftState::take(int unit, int choice) {
  choice_[unit] = choice;
  cost_ += cost(choice);
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
  cost_ -= cost(c);
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

void OverdraftState::exchange(int slot_a, int choice_a, int slot_b, int choice_b) {
  const int unit_a = items_->unit_of_slot[slot_a], unit_b = items_->unit_of_slot[slot_b];
  const int a = place_[slot_a], b = place_[slot_b];
  remove(unit_a);
  remove(unit_b);
  take(unit_a, choice_a);
  take(unit_b, choice_b);
  put(unit_a, 0, b);
  put(unit_b, 0, a);
}

double OverdraftState::slowest() const {
  double slowest = -kInfinity;
  for (int rank = 0; rank < items_->num_ranks; ++rank) slowest = std::max(slowest, over_[at(rank)]);
  return slowest + cap_[0];
}

template <class ChangeAt>
double OverdraftState::term_after(int rank, const ChangeAt& change_at) const {
  const double* over = over_.data() + at(rank);
  const double* inverse = inverse_.data() + at(rank);
  Pair sum{};
  for (std::size_t d = 0; d < stride_; d += kLanes) {
    const Pair share = (pair_at(over + d) + change_at(d)) * pair_at(inverse + d);
    sum += term_of(share > 0 ? share : Pair{});
  }
  return sum[0] + sum[1];
}

double OverdraftState::term_with(int rank, const double* more) const {
  return term_after(rank, [&](std::size_t d) { return pair_at(more + d); });
}

double OverdraftState::term_with(int rank, const double* more, const double* less) const {
  return term_after(rank, [&](std::size_t d) { return pair_at(more + d) - pair_at(less + d); });
}

const std::vector<double>& OverdraftState::growth(int choice, int piece) {
  const double* needed = need(choice, piece);
  for (int rank = 0; rank < items_->num_ranks; ++rank) {
    growth_[rank] = term_with(rank, needed) - term_[rank];
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
  for (int rank = 0; rank < items_->num_ranks; ++rank) sum += term_with(rank, needed);
  num_looks_ += items_->num_ranks;
  return sum - overdraft_;
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

double OverdraftState::growth_of_exchange(int slot_a, int choice_a, int slot_b, int choice_b,
                                          double most) {
  const double* need_a = need_of(slot_a);
  const double* need_b = need_of(slot_b);
  const double* then_a = need(choice_a, 0);
  const double* then_b = need(choice_b, 0);
  const bool is_host = is_block(slot_a);
  const int width = is_host ? items_->width : 1;
  double growth = 0;
  if (place_[slot_a] == place_[slot_b]) {
    for (std::size_t d = 0; d < stride_; ++d) {
      change_[d] = then_a[d] - need_a[d] + (then_b[d] - need_b[d]);
    }
    for (int i = 0; i < width; ++i) {
      const int rank = place_[slot_a] * width + i;
      growth += term_with(rank, change_.data()) - term_[rank];
    }
    num_looks_ += width;
    return growth;
  }
  for (int i = 0; i < width; ++i) {
    const int a = place_[slot_a] * width + i;
    const int b = place_[slot_b] * width + i;
    growth += term_with(a, then_b, need_a) - term_[a] - term_[b];
    if (!is_host && growth >= most) break;
    growth += term_with(b, then_a, need_b);
  }
  num_looks_ += width;
  return growth;
}

double OverdraftState::fullest(int choice, int piece, int rank) const {
  const double* needed = need(choice, piece);
  double most = -kInfinity;
  for (std::size_t d = 0; d < width_; ++d) {
    most = std::max(most, (over_[at(rank) + d] + needed[d]) * inverse_[at(rank) + d]);
  }
  return most;
}

double OverdraftState::size(int choice, int piece) const {
  const double* needed = need(choice, piece);
  double most = 0;
  for (std::size_t d = 0; d < width_; ++d) most = std::max(most, needed[d] / largest_[d]);
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
