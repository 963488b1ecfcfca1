#include "partition/pipeline/composition_bound.h"

#include <algorithm>
#include <cmath>
#include <functional>
#include <limits>

#include "core/rounding.h"
#include "plimsoll/core/numbers.h"

namespace plimsoll::partition {
namespace {

constexpr int kLeavesPerVisit = 16;
constexpr int kMaxSteps = 600;
constexpr int kPatience = 12;  // steps without a better value, before the level is lowered
constexpr double kLevelResolution = 2e-5;  // relative, of the level

// All ways to use up the devices of every class, the counts of kinds.
class Compositions {
 public:
  Compositions(const std::vector<StageKind>& kinds, const std::vector<int>& devices,
               int max_compositions)
      : kinds_(kinds), left_(devices), most_(max_compositions), count_(kinds.size()) {}

  // False: too many.
  bool for_each(const std::function<void(const std::vector<int>&)>& visit) {
    visit_ = &visit;
    return choose(0);
  }

 private:
  bool choose(std::size_t kind) {
    if (kind == kinds_.size()) {
      if (++num_leaves_ > kLeavesPerVisit * most_) return false;
      for (const StageKind& other : kinds_) {  // one more stage would have room
        if (other.devices <= left_[other.device_class]) return true;
      }
      if (++num_visited_ > most_) return false;
      (*visit_)(count_);
      return true;
    }
    int& left = left_[kinds_[kind].device_class];
    const int before = left;
    bool is_complete = true;
    while (is_complete) {
      is_complete = choose(kind + 1);
      left -= kinds_[kind].devices;
      ++count_[kind];
      if (left < 0) break;
    }
    left = before;
    count_[kind] = 0;
    return is_complete;
  }

  const std::vector<StageKind>& kinds_;
  std::vector<int> left_;  // [classes]
  const int most_;
  int num_visited_ = 0;
  int num_leaves_ = 0;
  std::vector<int> count_;
  const std::function<void(const std::vector<int>&)>* visit_ = nullptr;
};

// Prices for one composition; those of time in ms, times `unit_`, so that all are of one size.
class Climb {
 public:
  Climb(const BatchItems& items, const CompositionSearch& search, const std::vector<int>& count)
      : items_(items),
        search_(search),
        count_(count),
        unit_(search.goal / (1 + search.weight)),
        time_(count.size()),
        bytes_(count.size()) {
    double stages = 0;
    for (const int m : count) stages += m;
    for (double& price : time_) price = search.weight * unit_ / stages;
  }

  // Raises the bound until it reaches the goal, or no more.
  double run() {
    double best = 0;
    double reach = 0.5;  // of what is open up to the goal
    int idle = 0;
    for (int step = 0; step < kMaxSteps; ++step) {
      const double value = look();
      if (value > best * (1 + kLevelResolution)) idle = 0;
      best = std::max(best, value);
      if (best >= search_.goal) return search_.goal;
      if (++idle > kPatience) {
        idle = 0;
        reach /= 2;
      }
      const double level = best + reach * (search_.goal - best);
      if (level - best <= kLevelResolution * search_.goal || !move(level - value)) break;
    }
    return best * (1 - kRounding);
  }

 private:
  double room(std::size_t kind) const { return count_[kind] * items_.kinds[kind].bytes; }
  bool counts_bytes(std::size_t kind) const {
    return count_[kind] > 0 && std::isfinite(items_.kinds[kind].bytes) &&
           items_.kinds[kind].bytes > 0;
  }

  // The bound at these prices, and its slopes.
  double look() {
    time_slope_.assign(count_.size(), 0);
    bytes_slope_.assign(count_.size(), 0);
    double value = 0;
    for (std::size_t i = 0; i < items_.num_items(); ++i) {
      double least = kInfinity;
      const BatchOption* chosen = nullptr;
      for (std::size_t o = items_.first[i]; o < items_.first[i + 1]; ++o) {
        const BatchOption& option = items_.options[o];
        const auto kind = static_cast<std::size_t>(option.kind);
        if (count_[kind] == 0) continue;
        double cost = option.time_ms * (1 + time_[kind] / unit_);
        if (bytes_[kind] > 0) cost += bytes_[kind] * option.bytes / items_.kinds[kind].bytes;
        if (cost < least) {
          least = cost;
          chosen = &option;
        }
      }
      if (chosen == nullptr) return search_.goal;  // none of its kinds: no such pipeline
      value += least;
      const auto kind = static_cast<std::size_t>(chosen->kind);
      time_slope_[kind] += chosen->time_ms / unit_;
      if (counts_bytes(kind)) bytes_slope_[kind] += chosen->bytes / items_.kinds[kind].bytes;
    }
    double left = search_.weight * unit_;
    for (std::size_t k = 0; k < count_.size(); ++k) {
      left -= count_[k] * time_[k];
      value -= count_[k] * bytes_[k];
      time_slope_[k] -= count_[k] * search_.slowest / unit_;
      bytes_slope_[k] -= counts_bytes(k) ? count_[k] : 0;
    }
    return value + std::max(0.0, left) / unit_ * search_.slowest;
  }

  // False: the slopes say that this is the top.
  bool move(double climb) {
    // Along sum m_k p_k = weight where slopes would leave it.
    double along = 0;
    double square = 0;
    double spent = 0;
    for (std::size_t k = 0; k < count_.size(); ++k) {
      if (count_[k] == 0) time_slope_[k] = 0;
      spent += count_[k] * time_[k];
      along += count_[k] * time_slope_[k];
      square += static_cast<double>(count_[k]) * count_[k];
    }
    const double most = search_.weight * unit_;
    if (along > 0 && spent >= most * (1 - kRounding)) {
      for (std::size_t k = 0; k < count_.size(); ++k) {
        time_slope_[k] -= along / square * count_[k];
      }
    }
    double norm = 0;
    for (std::size_t k = 0; k < count_.size(); ++k) {
      if (bytes_[k] <= 0 && bytes_slope_[k] < 0) bytes_slope_[k] = 0;
      norm += time_slope_[k] * time_slope_[k] + bytes_slope_[k] * bytes_slope_[k];
    }
    if (!(norm > kRounding)) return false;
    spent = 0;
    for (std::size_t k = 0; k < count_.size(); ++k) {
      time_[k] = std::max(0.0, time_[k] + climb / norm * time_slope_[k]);
      bytes_[k] = std::max(0.0, bytes_[k] + climb / norm * bytes_slope_[k]);
      spent += count_[k] * time_[k];
    }
    if (spent > most) {
      for (double& price : time_) price *= most / spent;
    }
    return true;
  }

  const BatchItems& items_;
  const CompositionSearch& search_;
  const std::vector<int>& count_;
  const double unit_;                 // ms, about what a stage takes
  std::vector<double> time_, bytes_;  // [kinds] prices: p_k unit, and q_k k B, ms
  std::vector<double> time_slope_, bytes_slope_;
};

}  // namespace

double bound_by_compositions(const BatchItems& items, const CompositionSearch& search) {
  std::vector<int> devices = items.class_devices;
  double bound = search.goal;
  Compositions all(items.kinds, devices, search.max_compositions);
  const bool is_complete = all.for_each([&](const std::vector<int>& count) {
    bound = std::min(bound, Climb(items, search, count).run());
  });
  return is_complete ? bound : 0;
}

}  // namespace plimsoll::partition
