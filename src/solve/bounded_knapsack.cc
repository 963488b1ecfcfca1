#include "plimsoll/solve/bounded_knapsack.h"

#include <algorithm>
#include <cstddef>

namespace plimsoll::solve {
namespace {

constexpr std::size_t kPassesToSnapshot = 16;

// with[i] = max(without[i], from[i] + value); `with` overlaps neither of the others.
void take_more(const double* from, const double* without, double value, double* __restrict with,
               std::size_t n) {
  for (std::size_t i = 0; i < n; ++i) {
    const double more = from[i] + value;
    with[i] = more > without[i] ? more : without[i];
  }
}

}  // namespace

KnapsackTable::KnapsackTable(std::span<const KnapsackItem> items, int room, double pour)
    : best_(static_cast<std::size_t>(room) + 1, 0.0) {
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

void KnapsackTable::add_pass(const Pass& pass) {
  if (passes_.size() % kPassesToSnapshot == 0) snapshots_.push_back(best_);
  passes_.push_back(pass);
  spare_.resize(best_.size());
  run(pass, best_, spare_, best_.size());
  best_.swap(spare_);
}

void KnapsackTable::run(const Pass& pass, const std::vector<double>& before,
                        std::vector<double>& after, std::size_t end) {
  const auto step = static_cast<std::size_t>(pass.size) * static_cast<std::size_t>(pass.times);
  std::copy_n(before.begin(), std::min(step, end), after.begin());
  // Where any number may be taken, a stretch of `step` cells reads the stretch before it.
  const std::size_t stretch = pass.lasts ? step : end;
  for (std::size_t x = step; x < end; x += stretch) {
    take_more(pass.lasts ? &after[x - step] : &before[x - step], &before[x], pass.value, &after[x],
              std::min(stretch, end - x));
  }
}

std::vector<KnapsackCount> KnapsackTable::filling(int room) const {
  auto x = static_cast<std::size_t>(poured_from_.empty() ? room : poured_from_[room]);
  std::vector<KnapsackCount> result = free_;
  // From snapshot to snapshot, last first, with all passes between two of them done again.
  std::vector<std::vector<double>> steps(kPassesToSnapshot + 1);
  for (std::size_t s = snapshots_.size(); s-- > 0;) {
    const std::size_t first = s * kPassesToSnapshot;
    const std::size_t count = std::min(kPassesToSnapshot, passes_.size() - first);
    steps[0].assign(snapshots_[s].begin(),
                    snapshots_[s].begin() + static_cast<std::ptrdiff_t>(x) + 1);
    for (std::size_t i = 0; i < count; ++i) {
      steps[i + 1].resize(x + 1);
      run(passes_[first + i], steps[i], steps[i + 1], x + 1);
    }
    for (std::size_t i = count; i-- > 0;) {
      const Pass& pass = passes_[first + i];
      std::int64_t taken = 0;
      while (steps[i + 1][x] > steps[i][x]) {
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
  }
  std::sort(result.begin(), result.end(),
            [](const KnapsackCount& a, const KnapsackCount& b) { return a.item < b.item; });
  return result;
}

}  // namespace plimsoll::solve
