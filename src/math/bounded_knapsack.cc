#include "math/bounded_knapsack.h"

#include <algorithm>
#include <cstddef>

namespace plimsoll::math {
namespace {

// best[i] = max(best[i], from[i] + value), and whether that is more; the two do not overlap.
[[gnu::always_inline]] inline void take_more_of(const double* from, double value,
                                                double* __restrict best,
                                                unsigned char* __restrict is_more, std::size_t n) {
  for (std::size_t i = 0; i < n; ++i) {
    const double more = from[i] + value;
    is_more[i] = more > best[i] ? 1 : 0;
    best[i] = more > best[i] ? more : best[i];
  }
}

#if defined(__x86_64__)
// The same sums and comparisons, four at a time.
[[gnu::target("avx2")]] void take_more_in_fours(const double* from, double value,
                                                double* __restrict best,
                                                unsigned char* __restrict is_more, std::size_t n) {
  take_more_of(from, value, best, is_more, n);
}
#endif

void take_more(const double* from, double value, double* __restrict best,
               unsigned char* __restrict is_more, std::size_t n) {
#if defined(__x86_64__)
  if (__builtin_cpu_supports("avx2")) return take_more_in_fours(from, value, best, is_more, n);
#endif
  take_more_of(from, value, best, is_more, n);
}

}  // namespace

void KnapsackTable::fill(std::span<const KnapsackItem> items, int room, double pour) {
  best_.assign(static_cast<std::size_t>(room) + 1, 0.0);
  poured_from_.clear();
  passes_.clear();
  free_.clear();
  const auto lasts = [&](const KnapsackItem& item) { return item.copies >= room / item.size; };
  for (std::size_t i = 0; i < items.size(); ++i) {
    const KnapsackItem& item = items[i];
    if (item.value <= 0 || item.copies == 0 || item.size > room) continue;
    if (item.size == 0) {
      free_.push_back({static_cast<int>(i), item.copies});
      for (double& value : best_) value += item.value * static_cast<double>(item.copies);
      continue;
    }
    bool is_beaten = false;
    for (std::size_t j = 0; j < items.size() && !is_beaten; ++j) {
      const KnapsackItem& by = items[j];
      if (j == i || by.size == 0 || by.size > item.size || by.value < item.value || !lasts(by)) {
        continue;
      }
      is_beaten = by.size < item.size || by.value > item.value || j < i || !lasts(item);
    }
    if (is_beaten) continue;
    add_passes(static_cast<int>(i), item, lasts(item));
  }
  if (pour <= 0) return;
  poured_from_.assign(best_.size(), 0);
  for (std::size_t x = 1; x < best_.size(); ++x) {
    poured_from_[x] = static_cast<int>(x);
    if (best_[x - 1] + pour > best_[x]) {
      best_[x] = best_[x - 1] + pour;
      poured_from_[x] = poured_from_[x - 1];
    }
  }
}

void KnapsackTable::add_passes(int number, const KnapsackItem& item, bool lasts) {
  if (lasts) {
    add_pass({number, item.size, 1, true, item.value});
    return;
  }
  std::int64_t left = std::min<std::int64_t>(item.copies, static_cast<int>(best_.size()));
  for (std::int64_t times = 1; left > 0; times *= 2) {
    times = std::min(times, left);
    left -= times;
    if (times * item.size >= static_cast<std::int64_t>(best_.size())) break;
    add_pass({number, item.size, static_cast<int>(times), false,
              item.value * static_cast<double>(times)});
  }
}

// In place, by stretches that do not overlap what they read: where any number may be taken a
// stretch reads the one before it, already done; else one that is done later.
void KnapsackTable::add_pass(const Pass& pass) {
  constexpr std::size_t kShort = 32;
  const std::size_t end = best_.size();
  const std::size_t first = passes_.size() * end;
  passes_.push_back(pass);
  if (is_taken_.size() < first + end) is_taken_.resize(first + end);
  unsigned char* is_taken = is_taken_.data() + first;
  const auto step = static_cast<std::size_t>(pass.size) * static_cast<std::size_t>(pass.times);
  std::fill_n(is_taken, std::min(step, end), static_cast<unsigned char>(0));
  if (pass.lasts) {
    for (std::size_t x = step; x < end; x += step) {
      take_more(&best_[x - step], pass.value, &best_[x], is_taken + x, std::min(step, end - x));
    }
  } else if (step < kShort) {
    for (std::size_t x = end; x-- > step;) {
      const double more = best_[x - step] + pass.value;
      is_taken[x] = more > best_[x] ? 1 : 0;
      best_[x] = std::max(best_[x], more);
    }
  } else {
    for (std::size_t x = end; x > step;) {
      const std::size_t n = std::min(step, x - step);
      x -= n;
      take_more(&best_[x - step], pass.value, &best_[x], is_taken + x, n);
    }
  }
}

std::vector<KnapsackCount> KnapsackTable::filling(int room) const {
  auto x = static_cast<std::size_t>(poured_from_.empty() ? room : poured_from_[room]);
  std::vector<KnapsackCount> result = free_;
  for (std::size_t i = passes_.size(); i-- > 0;) {
    const Pass& pass = passes_[i];
    const unsigned char* is_taken = is_taken_.data() + i * best_.size();
    std::int64_t taken = 0;
    while (is_taken[x] != 0) {
      taken += pass.times;
      x -= static_cast<std::size_t>(pass.times) * static_cast<std::size_t>(pass.size);
      if (!pass.lasts) break;
    }
    if (taken == 0) continue;
    if (!result.empty() && result.back().item == pass.item) {
      result.back().count += taken;
    } else {
      result.push_back({pass.item, taken});
    }
  }
  std::sort(result.begin(), result.end(),
            [](const KnapsackCount& a, const KnapsackCount& b) { return a.item < b.item; });
  return result;
}

}  // namespace plimsoll::math
