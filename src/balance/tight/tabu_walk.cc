#include "balance/tight/tabu_walk.h"

#include <algorithm>
#include <cstddef>
#include <utility>

#include "balance/tight/block_dealing.h"
#include "plimsoll/core/numbers.h"

namespace plimsoll::balance {
namespace {

constexpr double kTie = 1e-12;  // of energies

}  // namespace

using Choice = PlacementItems::Choice;

TabuWalk::TabuWalk(OverdraftState& state, SplitMix64& random)
    : items_(state.items()), state_(state), random_(random) {
  open_.resize(static_cast<std::size_t>(items_.num_units));
  of_one_rank_ = of_one_host_ = open_;
  rests_until_.assign(open_.size(), 0);
}

void TabuWalk::begin(double target) {
  state_.aim(target);
  uniform_.clear();
  for (int unit = 0; unit < items_.num_units; ++unit) {
    open_[unit].clear();
    bool has_uniform = false;
    for (int c = items_.first_choice[unit]; c < items_.first_choice[unit + 1]; ++c) {
      const Choice& choice = items_.choices[c];
      bool is_small = choice.peak < target;
      for (int i = 0; is_small && i < choice.num_records; ++i) is_small = state_.size(c, i) <= 1;
      if (!is_small) continue;
      open_[unit].push_back(c);
      has_uniform |= choice.spread == Spread::kUniform;
    }
    if (open_[unit].empty()) open_[unit].push_back(items_.first_choice[unit]);
    of_one_rank_[unit].clear();
    of_one_host_[unit].clear();
    for (const int c : open_[unit]) {
      const Choice& choice = items_.choices[c];
      if (choice.num_pieces != 1 || choice.spread == Spread::kUniform) continue;
      (choice.spread == Spread::kHost ? of_one_host_ : of_one_rank_)[unit].push_back(c);
    }
    if (has_uniform && open_[unit].size() > 1) uniform_.push_back(unit);
  }
  std::fill(rests_until_.begin(), rests_until_.end(), num_steps_);
  least_ = state_.energy();
}

void TabuWalk::place(const std::vector<int>& choices) {
  std::vector<std::pair<double, int>> order;
  for (int unit = 0; unit < items_.num_units; ++unit) {
    if (state_.choice(unit) >= 0) continue;
    const Spread spread = items_.choices[choices[unit]].spread;
    constexpr double kFirst = 1e6, kNext = 1e3;
    const double rank = spread == Spread::kUniform ? kFirst : spread == Spread::kHost ? kNext : 0;
    order.emplace_back(-rank - state_.size(choices[unit], 0), unit);
  }
  std::sort(order.begin(), order.end());
  for (const auto& [key, unit] : order) insert(unit, choices[unit], -1);
  least_ = state_.energy();
}

void TabuWalk::step() {
  ++num_steps_;
  best_ = {kInfinity, -1, -1, -1, -1, -1};
  const int rank = draw_rank();
  find_units(rank);
  for (const int unit : units_) try_choices(unit);
  try_swaps(rank);
  try_exchanges(rank);
  if (best_.energy < kInfinity) make(best_);
  least_ = std::min(least_, state_.energy());
}

void TabuWalk::kick(int num_units) {
  for (int i = 0; i < num_units; ++i) {
    const int unit = random_.below(items_.num_units);
    const std::vector<int>& open = open_[unit];
    lift(unit, places_);
    insert(unit, open[random_.below(static_cast<int>(open.size()))], -1);
    rest(unit);
  }
}

void TabuWalk::deal_hosts() {
  if (items_.num_hosts < 2) return;
  const int a = draw_rank() / items_.width;
  if (a >= items_.num_hosts) return;
  const int next = random_.below(items_.num_hosts - 1), b = next < a ? next : next + 1;
  const OverdraftState::Standing before = state_.standing();
  const double energy = state_.energy();
  std::vector<std::pair<double, int>> order = find_pieces(a), others = find_pieces(b);
  order.insert(order.end(), others.begin(), others.end());
  std::sort(order.begin(), order.end());
  std::vector<double> mean(state_.num_resources(), 0);  // of both hosts' ranks
  for (const auto& [key, unit] : order) {
    const double* need = state_.need(state_.choice(unit), 0);
    for (std::size_t d = 0; d < mean.size(); ++d) mean[d] += need[d] / (2 * items_.width);
    state_.remove(unit);
  }
  deal_blocks(state_, a, b, mean, random_);
  for (const auto& [key, unit] : order) insert(unit, before.choice[unit], -1);
  if (state_.energy() >= energy - kTie) state_.assign(before);
}

// Units of one piece on the host's ranks, with their sizes, negative.
std::vector<std::pair<double, int>> TabuWalk::find_pieces(int host) const {
  std::vector<std::pair<double, int>> pieces;
  for (int rank = host * items_.width; rank < (host + 1) * items_.width; ++rank) {
    for (const int slot : state_.slots_on_rank(rank)) {
      const int unit = items_.unit_of_slot[slot], choice = state_.choice(unit);
      if (items_.choices[choice].num_pieces == 1)
        pieces.emplace_back(-state_.size(choice, 0), unit);
    }
  }
  return pieces;
}

int TabuWalk::draw_rank() {
  double left = random_.unit() * state_.overdraft();
  int drawn = 0;
  for (int rank = 0; rank < items_.num_ranks; ++rank) {
    if (!(state_.term(rank) > 0)) continue;
    drawn = rank;
    left -= state_.term(rank);
    if (left <= 0) break;
  }
  return drawn;
}

void TabuWalk::find_units(int rank) {
  constexpr int kUniformShare = 4;  // one in so many is tried, and no more than kMostUniform
  constexpr std::size_t kMostUniform = 12;
  units_.clear();
  for (const int slot : state_.slots_on_rank(rank)) units_.push_back(items_.unit_of_slot[slot]);
  if (rank / items_.width < items_.num_hosts) {
    for (const int slot : state_.slots_on_host(rank / items_.width)) {
      units_.push_back(items_.unit_of_slot[slot]);
    }
  }
  const std::size_t most = units_.size() + kMostUniform;
  for (const int unit : uniform_) {
    if (units_.size() >= most) break;
    const Choice& choice = items_.choices[state_.choice(unit)];
    if (choice.spread == Spread::kUniform && random_.below(kUniformShare) == 0) {
      units_.push_back(unit);
    }
  }
  std::sort(units_.begin(), units_.end());
  units_.erase(std::unique(units_.begin(), units_.end()), units_.end());
}

void TabuWalk::offer(const Change& change) {
  if (change.energy < best_.energy) best_ = change;
}

void TabuWalk::try_choices(int unit) {
  const int before = state_.choice(unit);
  lift(unit, places_);
  const double rest = is_resting(unit) ? least_ - kTie : kInfinity;
  for (const int c : open_[unit]) {
    if (c == before && items_.choices[c].spread == Spread::kUniform) continue;
    const double energy = energy_with(unit, c, c == before ? places_ : std::vector<int>());
    if (energy < rest) offer({energy, unit, c, -1, -1, -1});
  }
  restore(unit, before, places_);
}

// Of a unit that is not placed. `before`: places where it stood with the choice, not taken again.
double TabuWalk::energy_with(int unit, int c, const std::vector<int>& before) {
  const Choice& choice = items_.choices[c];
  const double with_cost = state_.energy() + state_.cost(c);
  if (choice.spread == Spread::kUniform) return with_cost + state_.growth_everywhere(c);
  if (choice.num_pieces == 1) {
    const std::vector<double>& growth = state_.growth(c, 0);
    const int end = choice.spread == Spread::kHost ? items_.num_hosts : items_.num_ranks;
    double least = kInfinity;
    for (int place = 0; place < end; ++place) {
      if (growth[place] < least && (before.empty() || place != before[0])) least = growth[place];
    }
    return with_cost + least;
  }
  insert(unit, c, -1);
  const double energy = state_.energy();
  std::vector<int> after;
  lift(unit, after);
  if (before.empty()) return energy;
  std::vector<int> places = before;
  std::sort(places.begin(), places.end());
  std::sort(after.begin(), after.end());
  return after == places ? kInfinity : energy;
}

void TabuWalk::lift(int unit, std::vector<int>& places) {
  places.clear();
  for (int i = 0; i < items_.choices[state_.choice(unit)].num_pieces; ++i) {
    places.push_back(state_.place(items_.first_slot[unit] + i));
  }
  state_.remove(unit);
}

void TabuWalk::restore(int unit, int choice, const std::vector<int>& places) {
  state_.take(unit, choice);
  for (std::size_t i = 0; i < places.size(); ++i) {
    state_.put(unit, static_cast<int>(i), places[i]);
  }
}

// Where the energy grows least, of equals where most is used; not at `but`.
int TabuWalk::find_place(int c, int piece, int but) {
  const std::vector<double>& growth = state_.growth(c, piece);
  const bool is_block = items_.choices[c].spread == Spread::kHost;
  const int end = is_block ? items_.num_hosts : items_.num_ranks;
  int best = -1;
  for (int place = 0; place < end; ++place) {
    if (place != but && (best < 0 || growth[place] < growth[best])) best = place;
  }
  if (is_block || best < 0) return std::max(best, 0);
  const double most = growth[best] + kTie;
  double fullest = -kInfinity;
  for (int place = 0; place < end; ++place) {
    if (place == but || growth[place] > most) continue;
    constexpr double kNear = 1e-3;  // are as good as equal, and drawn from
    const double full = state_.fullest(c, piece, place) + kNear * random_.unit();
    if (full > fullest) fullest = full, best = place;
  }
  return best;
}

void TabuWalk::insert(int unit, int c, int but) {
  state_.take(unit, c);
  for (int i = 0; i < items_.choices[c].num_pieces; ++i) {
    state_.put(unit, i, find_place(c, i, but));
  }
}

void TabuWalk::try_swaps(int rank) {
  constexpr int kMostRanks = 32;  // drawn beyond
  const bool are_all = items_.num_ranks <= kMostRanks;
  for (int i = 0; i < std::min(items_.num_ranks, kMostRanks); ++i) {
    const int other = are_all ? i : random_.below(items_.num_ranks);
    if (other != rank) try_swaps(state_.slots_on_rank(rank), state_.slots_on_rank(other));
  }
  const int host = rank / items_.width;
  if (host >= items_.num_hosts) return;
  for (int other = 0; other < items_.num_hosts; ++other) {
    if (other != host) try_swaps(state_.slots_on_host(host), state_.slots_on_host(other));
  }
}

void TabuWalk::try_swaps(const std::vector<int>& here, const std::vector<int>& there) {
  for (const int a : here) {
    if (is_resting(items_.unit_of_slot[a])) continue;
    for (const int b : there) {
      const int unit = items_.unit_of_slot[b];
      if (is_resting(unit) || unit == items_.unit_of_slot[a]) continue;
      offer({state_.energy() + state_.growth_of_swap(a, b), -1, -1, a, b, -1});
    }
  }
}

void TabuWalk::try_exchanges(int rank) {
  constexpr int kMostRanks = 8;  // drawn beyond, and hosts
  const auto try_places = [&](int place, int num_places, const auto& slots_at) {
    try_exchanges(slots_at(place), slots_at(place), true);
    for (int i = 0; i < std::min(num_places, kMostRanks); ++i) {
      const int other = num_places <= kMostRanks ? i : random_.below(num_places);
      if (other != place) try_exchanges(slots_at(place), slots_at(other), false);
    }
  };
  try_places(rank, items_.num_ranks,
             [&](int r) -> const std::vector<int>& { return state_.slots_on_rank(r); });
  const int host = rank / items_.width;
  if (host >= items_.num_hosts) return;
  try_places(host, items_.num_hosts,
             [&](int h) -> const std::vector<int>& { return state_.slots_on_host(h); });
}

// Two units that take other choices, on one rank or host, or changing places.
void TabuWalk::try_exchanges(const std::vector<int>& here, const std::vector<int>& there,
                             bool are_one) {
  for (std::size_t i = 0; i < here.size(); ++i) {
    const int a = here[i], unit_a = items_.unit_of_slot[a], before_a = state_.choice(unit_a);
    if (items_.choices[before_a].num_pieces != 1 || is_resting(unit_a)) continue;
    const bool is_host = items_.choices[before_a].spread == Spread::kHost;
    const auto& open = is_host ? of_one_host_ : of_one_rank_;
    for (std::size_t k = are_one ? i + 1 : 0; k < there.size(); ++k) {
      const int b = there[k], unit_b = items_.unit_of_slot[b], before_b = state_.choice(unit_b);
      if (items_.choices[before_b].num_pieces != 1 || is_resting(unit_b) || unit_b == unit_a) {
        continue;
      }
      for (const int ca : open[unit_a]) {
        if (are_one && ca == before_a) continue;
        for (const int cb : open[unit_b]) {
          if (cb == before_b && (are_one || ca == before_a)) continue;
          const double cost =
              state_.cost(ca) - state_.cost(before_a) + (state_.cost(cb) - state_.cost(before_b));
          const double energy = state_.energy() + cost;
          const double growth = state_.growth_of_exchange(a, ca, b, cb, best_.energy - energy);
          offer({energy + growth, unit_a, ca, a, b, cb});
        }
      }
    }
  }
}

void TabuWalk::rest(int unit) {
  rests_until_[unit] = num_steps_ + shortest_rest_ + random_.below(shortest_rest_);
}

void TabuWalk::make(const Change& change) {
  if (change.choice_b >= 0) {
    state_.exchange(change.slot_a, change.choice, change.slot_b, change.choice_b);
    rest(change.unit);
    rest(items_.unit_of_slot[change.slot_b]);
    return;
  }
  if (change.slot_a >= 0) {
    state_.swap(change.slot_a, change.slot_b);
    rest(items_.unit_of_slot[change.slot_a]);
    rest(items_.unit_of_slot[change.slot_b]);
    return;
  }
  const int before = state_.choice(change.unit);
  lift(change.unit, places_);
  const bool is_move = change.choice == before && places_.size() == 1;
  insert(change.unit, change.choice, is_move ? places_[0] : -1);
  rest(change.unit);
}

}  // namespace plimsoll::balance
