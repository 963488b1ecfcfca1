#include "balance/moves/rank_dealing.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <numeric>
#include <tuple>

namespace plimsoll::balance {
namespace {

constexpr std::size_t kMaxDealt = 12;     // pieces of two ranks together, to try all subsets
constexpr std::size_t kMaxTriples = 40;   // as above, to change three
constexpr std::int64_t kWorkAUnit = 200;  // of effort
constexpr double kLeast = 1e-12;          // of tau: less is not a gain

}  // namespace

double RankDealing::total_over() const {
  double sum = 0;
  for (int rank = 0; rank < items_.num_ranks; ++rank) sum += over(rank);
  return sum;
}

RankDealing::Deal RankDealing::value(double a, double b) const {
  return {over(a) + over(b), std::abs(a - b)};
}

bool RankDealing::is_better(const Deal& deal, const Deal& than) const {
  if (std::abs(deal.over - than.over) > kLeast * tau_) return deal.over < than.over;
  return deal.difference > than.difference + kLeast * tau_;
}

bool RankDealing::deal(int a, int b) {
  find_pieces(a, b);
  if (slots_.empty()) return false;
  work_ += work_of_deal();
  if (work_ >= kWorkAUnit) {
    clock_.spend(work_ / kWorkAUnit);
    work_ %= kWorkAUnit;
  }
  best_ = value(load(a), load(b));
  wanted_.clear();
  if (slots_.size() <= kMaxDealt) {
    try_subsets(a, b);
  } else {
    try_changes(a, b);
  }
  for (const auto& [slot, rank] : wanted_) {
    if (state_.place(slot) != rank) state_.move(slot, rank);
  }
  return !wanted_.empty();
}

// In subsets.
std::int64_t RankDealing::work_of_deal() {
  constexpr std::int64_t kPreparation = 20, kChange = 4;
  if (slots_.size() <= kMaxDealt) return kPreparation + (std::int64_t{1} << slots_.size());
  find_different();
  const auto n = static_cast<std::int64_t>(different_.size());
  const std::int64_t changes = different_.size() <= kMaxTriples ? n * n * n / 6 : n * n / 2;
  return kChange * (kPreparation + changes);
}

void RankDealing::find_pieces(int a, int b) {
  slots_.clear();
  loads_.clear();
  for (const int rank : {a, b}) {
    for (const int slot : state_.slots_on_rank(rank)) {
      slots_.push_back(slot);
      loads_.push_back(load_of(slot));
    }
  }
  num_on_a_ = state_.slots_on_rank(a).size();
  is_on_a_.assign(slots_.size(), 0);
  std::fill_n(is_on_a_.begin(), num_on_a_, 1);
  find_twins();
}

void RankDealing::find_twins() {
  twins_.clear();
  for (std::size_t i = 0; i < num_on_a_; ++i) {
    const int unit = items_.unit_of_slot[slots_[i]];
    if (!items_.choices[state_.choice(unit)].distinct_ranks) continue;
    for (std::size_t j = num_on_a_; j < slots_.size(); ++j) {
      if (items_.unit_of_slot[slots_[j]] == unit) twins_.emplace_back(i, j);
    }
  }
}

bool RankDealing::parts_twins() const {
  return std::all_of(twins_.begin(), twins_.end(), [this](const auto& twins) {
    return is_on_a_[twins.first] != is_on_a_[twins.second];
  });
}

std::size_t RankDealing::record_of(int slot) const {
  const int unit = items_.unit_of_slot[slot];
  return static_cast<std::size_t>(PlacementItems::record_of(items_.choices[state_.choice(unit)],
                                                            slot - items_.first_slot[unit]));
}

void RankDealing::try_subsets(int a, int b) {
  double on_a = load(a);
  double on_b = load(b);
  for (std::uint32_t i = 1; i < (std::uint32_t{1} << slots_.size()); ++i) {
    const auto at = static_cast<std::size_t>(std::countr_zero(i));
    const double more = is_on_a_[at] != 0 ? -loads_[at] : loads_[at];
    is_on_a_[at] ^= 1;
    on_a += more;
    on_b -= more;
    const Deal now = value(on_a, on_b);
    if (is_better(now, best_) && has_room(a, b)) keep(now, a, b);
  }
}

void RankDealing::try_changes(int a, int b) {
  const std::size_t n = different_.size();
  const auto change = [&](std::size_t i) {
    return different_[i] < num_on_a_ ? -loads_[different_[i]] : loads_[different_[i]];
  };
  for (std::size_t i = 0; i < n; ++i) {
    try_change(a, b, change(i), {different_[i]});
    for (std::size_t j = i + 1; j < n; ++j) {
      try_change(a, b, change(i) + change(j), {different_[i], different_[j]});
      if (n > kMaxTriples) continue;
      for (std::size_t k = j + 1; k < n; ++k) {
        try_change(a, b, change(i) + change(j) + change(k),
                   {different_[i], different_[j], different_[k]});
      }
    }
  }
}

// Of equal pieces of one rank the first few: what any of them does the others do, too.
void RankDealing::find_different() {
  constexpr std::size_t kOfAKind = 2;
  different_.resize(slots_.size());
  std::iota(different_.begin(), different_.end(), std::size_t{0});
  const auto key = [this](std::size_t i) {
    return std::tuple(i >= num_on_a_, loads_[i], items_.bytes[record_of(slots_[i])]);
  };
  std::stable_sort(different_.begin(), different_.end(),
                   [&](std::size_t i, std::size_t j) { return key(i) < key(j); });
  std::size_t size = 0;
  for (const std::size_t i : different_) {
    if (size >= kOfAKind && key(different_[size - kOfAKind]) == key(i)) continue;
    different_[size++] = i;
  }
  different_.resize(size);
}

// `changed` change sides, which gives rank a so much more.
void RankDealing::try_change(int a, int b, double more,
                             std::initializer_list<std::size_t> changed) {
  const Deal now = value(load(a) + more, load(b) - more);
  if (!is_better(now, best_)) return;
  for (const std::size_t i : changed) is_on_a_[i] ^= 1;
  if (has_room(a, b)) keep(now, a, b);
  for (const std::size_t i : changed) is_on_a_[i] ^= 1;
}

void RankDealing::keep(const Deal& deal, int a, int b) {
  best_ = deal;
  wanted_.clear();
  for (std::size_t i = 0; i < slots_.size(); ++i) {
    wanted_.emplace_back(slots_[i], is_on_a_[i] != 0 ? a : b);
  }
}

// Would what is_on_a_ says fit?
bool RankDealing::has_room(int a, int b) const {
  if (!parts_twins()) return false;
  for (std::size_t t = 0; t < items_.resources.size(); ++t) {
    const int resource = items_.resources[t];
    Bytes to_a = 0;  // more than now
    for (std::size_t i = 0; i < slots_.size(); ++i) {
      const bool was_on_a = i < num_on_a_;
      if (was_on_a == (is_on_a_[i] != 0)) continue;
      const Bytes bytes = items_.bytes[record_of(slots_[i])][resource];
      to_a += was_on_a ? -bytes : bytes;
    }
    if (to_a == 0 || state_.is_one_pool(t, a, b)) continue;
    if (to_a > 0 ? to_a > state_.free_bytes(t, a) : -to_a > state_.free_bytes(t, b)) return false;
  }
  return true;
}

}  // namespace plimsoll::balance
