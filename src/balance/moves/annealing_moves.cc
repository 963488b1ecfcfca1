#include "balance/moves/annealing_moves.h"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <utility>

namespace plimsoll::balance {

using Choice = PlacementItems::Choice;

AnnealingMoves::AnnealingMoves(const PlacementItems& items, std::uint64_t seed, bool has_soft_times,
                               const MoveCosts* moves, Bytes max_moved)
    : items_(items),
      state_(items, has_soft_times, moves),
      energy_(state_),
      random_(seed),
      max_moved_(max_moved) {
  for (int unit = 0; unit < items.num_units; ++unit) {
    if (items.num_choices(unit) > 1) changeable_.push_back(unit);
  }
  for (int rank = 0; rank < items.num_ranks; ++rank) all_ranks_.push_back(rank);
  mark_.assign(all_ranks_.size(), 0);
  const PlacementProblem& problem = *items.problem;
  may_trade_ = problem.num_barriers > 1 && problem.apart.empty() &&
               std::all_of(problem.units.begin(), problem.units.end(),
                           [](const Unit& unit) { return unit.allowed_ranks.empty(); });
}

bool AnnealingMoves::is_accepted(double before, double temperature) {
  if (state_.moved() > max_moved_) return false;
  const double more = energy_.value() - before;
  return more <= 0 || random_.unit() < std::exp(-more / temperature);
}

bool AnnealingMoves::propose(double temperature) {
  constexpr int kHomeShare = 12;  // one in so many moves
  if (state_.moves() != nullptr && random_.below(kHomeShare) == 0) return go_home(temperature);
  const int kind = random_.below(100);
  if (may_trade_ && kind < 25) return trade(temperature);
  if (kind < 45) return relocate(temperature);
  if (kind < 80) return swap(temperature);
  if (kind < 88) return move_block(temperature);
  // On many ranks a uniform choice that changes costs as much as a thousand other moves.
  constexpr int kManyRanks = 256;
  if (items_.num_ranks > kManyRanks && random_.below(4) != 0) return relocate(temperature);
  return change(temperature);
}

// Of three, the most overloaded, or the least; of equals the fullest, or the emptiest.
int AnnealingMoves::draw_rank(bool wants_loaded) {
  const int end = items_.num_ranks;
  const auto key = [this](int rank) {
    return std::pair(energy_.term(rank), state_.total_load(rank));
  };
  int best = random_.below(end);
  auto best_key = key(best);
  for (int i = 0; i < 2; ++i) {
    const int rank = random_.below(end);
    const auto rank_key = key(rank);
    if (wants_loaded ? best_key < rank_key : rank_key < best_key) best = rank, best_key = rank_key;
  }
  return best;
}

int AnnealingMoves::draw_slot(const std::vector<int>& slots) {
  return slots[random_.below(static_cast<int>(slots.size()))];
}

bool AnnealingMoves::can_move(int slot, int place) const {
  const int unit = items_.unit_of_slot[slot];
  return state_.can_put(unit, state_.choice(unit), slot - items_.first_slot[unit], place);
}

bool AnnealingMoves::wants_rank(int slot) const {
  return items_.choices[state_.choice(items_.unit_of_slot[slot])].distinct_ranks;
}

// Does the piece want the rank for itself where another one of its unit stands?
bool AnnealingMoves::shares_rank(int slot, int rank) const {
  const int unit = items_.unit_of_slot[slot];
  return wants_rank(slot) && state_.holds_other(unit, slot - items_.first_slot[unit], rank);
}

bool AnnealingMoves::relocate(double temperature) {
  const int from = draw_rank(true);
  if (state_.slots_on_rank(from).empty()) return false;
  const int slot = draw_slot(state_.slots_on_rank(from));
  const int to = draw_rank(false);
  if (to == from || !can_move(slot, to)) return false;
  const double before = energy_.value();
  touched_.assign({from, to});
  state_.move(slot, to);
  energy_.update(touched_);
  if (is_accepted(before, temperature)) return true;
  state_.move(slot, from);
  energy_.update(touched_);
  return false;
}

bool AnnealingMoves::swap(double temperature) {
  const int a = draw_rank(true);
  const int b = random_.below(items_.num_ranks);
  if (a == b || state_.slots_on_rank(a).empty() || state_.slots_on_rank(b).empty()) return false;
  const int slot_a = draw_slot(state_.slots_on_rank(a));
  const int slot_b = draw_slot(state_.slots_on_rank(b));
  if (items_.unit_of_slot[slot_a] == items_.unit_of_slot[slot_b]) return false;
  const double before = energy_.value();
  touched_.assign({a, b});
  // The second piece must have left before the first one may be too big to stand beside it.
  if (!can_swap(slot_a, a, slot_b, b)) return false;
  energy_.update(touched_);
  if (is_accepted(before, temperature)) return true;
  state_.move(slot_a, a);
  state_.move(slot_b, b);
  energy_.update(touched_);
  return false;
}

// Swaps them if both fit where the other was.
bool AnnealingMoves::can_swap(int slot_a, int a, int slot_b, int b) {
  const int unit = items_.unit_of_slot[slot_b];
  if (items_.resources.empty() && items_.problem->apart.empty() &&
      items_.problem->units[unit].allowed_ranks.empty() &&
      items_.problem->units[items_.unit_of_slot[slot_a]].allowed_ranks.empty() &&
      !wants_rank(slot_a) && !wants_rank(slot_b)) {
    state_.move(slot_a, b);
    state_.move(slot_b, a);
    return true;
  }
  // A crossing in steps: b's piece to a (unchecked), a's piece to b if it fits, then b's again.
  state_.move(slot_b, a);
  const bool fits_a = can_move(slot_a, b);
  if (fits_a) state_.move(slot_a, b);
  state_.move(slot_b, b);  // out and in again: the check must not count it twice
  if (!fits_a) return false;
  // Now both are on b; does b's piece fit on a?
  const bool fits_b = can_move(slot_b, a);
  if (fits_b) {
    state_.move(slot_b, a);
    return true;
  }
  state_.move(slot_a, a);
  return false;
}

double AnnealingMoves::load_of(int slot, int rank) const {
  const int unit = items_.unit_of_slot[slot];
  const int record = PlacementItems::record_of(items_.choices[state_.choice(unit)],
                                               slot - items_.first_slot[unit]);
  const int num_barriers = state_.num_barriers();
  const double* load = items_.load.data() + static_cast<std::ptrdiff_t>(record) * items_.stride +
                       static_cast<std::ptrdiff_t>(items_.problem->class_of(rank)) * num_barriers;
  return std::accumulate(load, load + num_barriers, 0.0);
}

// A piece for some that take as long together: what is heavy at one barrier for what is light
// there.
bool AnnealingMoves::trade(double temperature) {
  constexpr std::size_t kMostPieces = 8;
  constexpr double kEnough = .9, kMost = 1.1;  // of the one piece's load
  const int from = draw_rank(true);
  const int to = random_.below(items_.num_ranks);
  if (to == from || state_.slots_on_rank(from).empty() || state_.slots_on_rank(to).empty()) {
    return false;
  }
  const int one = draw_slot(state_.slots_on_rank(from));
  const double load = load_of(one, from);
  const std::vector<int>& others = state_.slots_on_rank(to);
  traded_.clear();
  double sum = 0;
  const auto first = static_cast<std::size_t>(random_.below(static_cast<int>(others.size())));
  for (std::size_t i = 0; i < others.size() && sum < kEnough * load; ++i) {
    const int slot = others[(first + i) % others.size()];
    const double more = load_of(slot, to);
    if (sum + more > kMost * load) continue;
    sum += more;
    traded_.push_back(slot);
    if (traded_.size() == kMostPieces) break;
  }
  if (traded_.empty() || sum < kEnough * load) return false;
  const double before = energy_.value();
  touched_.assign({from, to});
  for (const int slot : traded_) state_.move(slot, from);
  state_.move(one, to);
  const auto is_second = [&](int slot) { return shares_rank(slot, from); };
  if (state_.is_within_caps(from) && state_.is_within_caps(to) && !shares_rank(one, to) &&
      std::none_of(traded_.begin(), traded_.end(), is_second)) {
    energy_.update(touched_);
    if (is_accepted(before, temperature)) return true;
  }
  state_.move(one, from);
  for (const int slot : traded_) state_.move(slot, to);
  energy_.update(touched_);
  return false;
}

bool AnnealingMoves::move_block(double temperature) {
  if (items_.num_hosts < 2) return change(temperature);
  const int end = items_.num_hosts;
  const int from = random_.below(end);
  const int to = random_.below(end);
  if (from == to || state_.slots_on_host(from).empty()) return false;
  const int slot = draw_slot(state_.slots_on_host(from));
  const bool is_swap = random_.below(2) == 0 && !state_.slots_on_host(to).empty();
  const int other = is_swap ? draw_slot(state_.slots_on_host(to)) : -1;
  if (is_swap && items_.unit_of_slot[other] == items_.unit_of_slot[slot]) return false;
  const double before = energy_.value();
  touched_.clear();
  for (int i = 0; i < items_.width; ++i) {
    touched_.push_back(from * items_.width + i);
    touched_.push_back(to * items_.width + i);
  }
  if (is_swap) {
    if (!can_swap(slot, from, other, to)) return false;
  } else {
    if (!can_move(slot, to)) return false;
    state_.move(slot, to);
  }
  energy_.update(touched_);
  if (is_accepted(before, temperature)) return true;
  state_.move(slot, from);
  if (is_swap) state_.move(other, to);
  energy_.update(touched_);
  return false;
}

// Notes the ranks whose loads differ where the unit stands or does not.
void AnnealingMoves::touch(int unit) {
  const Choice& choice = items_.choices[state_.choice(unit)];
  touches_all_ |= choice.spread == Spread::kUniform;
  const int width = choice.spread == Spread::kHost ? items_.width : 1;
  const int first = items_.first_slot[unit];
  for (int i = 0; i < choice.num_pieces; ++i) {
    for (int r = 0; r < width; ++r) {
      const int rank = state_.place(first + i) * width + r;
      if (mark_[rank] == mark_now_) continue;
      mark_[rank] = mark_now_;
      touched_.push_back(rank);
    }
  }
}

AnnealingMoves::Before AnnealingMoves::lift(int unit) {
  Before before{unit, state_.choice(unit), {}};
  const int first = items_.first_slot[unit];
  for (int i = 0; i < items_.choices[before.choice].num_pieces; ++i) {
    before.places.push_back(state_.place(first + i));
  }
  touch(unit);
  state_.remove(unit);
  return before;
}

void AnnealingMoves::restore(const Before& before) {
  if (state_.choice(before.unit) >= 0) state_.remove(before.unit);
  state_.take(before.unit, before.choice);
  for (std::size_t i = 0; i < before.places.size(); ++i) {
    state_.put(before.unit, static_cast<int>(i), before.places[i]);
  }
}

// Greedily on the least loaded places that fit; false leaves the unit out.
bool AnnealingMoves::insert(int unit, int c) {
  const Choice& choice = items_.choices[c];
  if (choice.spread == Spread::kUniform) {
    if (!state_.can_take(c)) return false;
    state_.take(unit, c);
    return true;
  }
  state_.take(unit, c);
  for (int piece = 0; piece < choice.num_pieces; ++piece) {
    const int place =
        choice.spread == Spread::kHost ? light_host(unit, c, piece) : light_rank(unit, c, piece);
    if (place < 0) {
      state_.remove(unit);
      return false;
    }
    state_.put(unit, piece, place);
  }
  return true;
}

int AnnealingMoves::light_rank(int unit, int c, int piece) {
  constexpr int kSample = 48;
  const bool is_sampled = items_.num_ranks > (state_.num_barriers() > 1 ? 64 : 256);
  int best = -1;
  double least = 0;
  for (int i = 0; i < (is_sampled ? kSample : items_.num_ranks); ++i) {
    const int rank = is_sampled ? random_.below(items_.num_ranks) : i;
    const double load = state_.total_load(rank);
    if ((best < 0 || load < least) && state_.can_put(unit, c, piece, rank)) {
      best = rank, least = load;
    }
  }
  return best;
}

int AnnealingMoves::light_host(int unit, int c, int piece) {
  constexpr int kSample = 16;
  const bool is_sampled = items_.num_hosts > 64;
  int best = -1;
  double least = 0;
  for (int i = 0; i < (is_sampled ? kSample : items_.num_hosts); ++i) {
    const int host = is_sampled ? random_.below(items_.num_hosts) : i;
    double load = 0;
    for (int r = 0; r < items_.width; ++r) {
      load = std::max(load, state_.total_load(host * items_.width + r));
    }
    if ((best < 0 || load < least) && state_.can_put(unit, c, piece, host)) {
      best = host, least = load;
    }
  }
  return best;
}

bool AnnealingMoves::change(double temperature) {
  if (changeable_.empty()) return false;
  const double before = energy_.value();
  const int num_changes = random_.below(3) == 0 ? 2 : 1;
  std::vector<Before>& lifted = lifted_;
  lifted.clear();
  touched_.clear();
  touches_all_ = false;
  ++mark_now_;
  for (int i = 0; i < num_changes; ++i) {
    const int unit = changeable_[random_.below(static_cast<int>(changeable_.size()))];
    if (i == 1 && unit == lifted.front().unit) break;
    lifted.push_back(lift(unit));
  }
  bool is_placed = true;
  for (const Before& old : lifted) {
    const int num_choices = items_.num_choices(old.unit);
    const int c = items_.first_choice[old.unit] + random_.below(num_choices);
    is_placed = is_placed && insert(old.unit, c);
  }
  if (is_placed) {
    for (const Before& old : lifted) touch(old.unit);
    energy_.update(touches_all_ ? all_ranks_ : touched_);
    if (is_accepted(before, temperature)) return true;
  }
  for (auto old = lifted.rbegin(); old != lifted.rend(); ++old) restore(*old);
  if (is_placed) energy_.update(touches_all_ ? all_ranks_ : touched_);
  return false;
}

bool AnnealingMoves::is_home(int unit) const {
  const UnitPlacement& home = state_.moves()->home[unit];
  const Choice& choice = items_.choices[state_.choice(unit)];
  if (choice.index != home.choice) return false;
  for (int i = 0; i < choice.num_pieces; ++i) {
    if (state_.place(items_.first_slot[unit] + i) != home.slots[static_cast<std::size_t>(i)]) {
      return false;
    }
  }
  return true;
}

// A unit back to where it stands now.
bool AnnealingMoves::go_home(double temperature) {
  const int unit = random_.below(items_.num_units);
  const UnitPlacement& home = state_.moves()->home[unit];
  const int c = home.choice < 0 ? -1 : items_.find_choice(unit, home.choice);
  if (c < 0 || is_home(unit)) return false;
  const double before = energy_.value();
  touched_.clear();
  touches_all_ = false;
  ++mark_now_;
  const Before old = lift(unit);
  bool is_placed = items_.choices[c].spread != Spread::kUniform || state_.can_take(c);
  if (is_placed) state_.take(unit, c);
  for (std::size_t i = 0; is_placed && i < home.slots.size(); ++i) {
    is_placed = state_.can_put(unit, c, static_cast<int>(i), home.slots[i]);
    if (is_placed) state_.put(unit, static_cast<int>(i), home.slots[i]);
  }
  if (is_placed) {
    touch(unit);
    energy_.update(touches_all_ ? all_ranks_ : touched_);
    if (is_accepted(before, temperature)) return true;
  }
  restore(old);
  if (is_placed) energy_.update(touches_all_ ? all_ranks_ : touched_);
  return false;
}

}  // namespace plimsoll::balance
