#include "partition/throughput/packing_bound.h"

#include <algorithm>
#include <cmath>
#include <vector>

#include "core/rounding.h"
#include "partition/graph/downsets.h"
#include "partition/graph/shared_work.h"

namespace plimsoll::partition {
namespace {

constexpr int kMaxParts = 12;           // k
constexpr std::size_t kMaxHeavy = 400;  // groups; more are too much to try

// Rounds down to k-ths, where a multiple of 1 / (k + 1) stays what it is; k = 0: the part itself.
double round_down(double part, int k) {
  if (k == 0) return part;
  const double scaled = part * (k + 1);
  const double whole = std::floor(scaled);
  return scaled == whole ? part : whole / k;
}

// Never below what a device may take.
double room(double part, double least, int k) {
  if (part > 1 - least - kRounding) part = 1;
  if (k == 0) return part;
  return std::min(1.0, std::max(part, std::floor(part * (k + 1) + kRounding) / k));
}

class Packing {
 public:
  explicit Packing(const GroupGraph& groups) : work_(work_of_groups(groups)) {
    std::sort(work_.rbegin(), work_.rend());
    const std::vector<double> slowness = slowness_of_kinds(groups);
    for (int k = 0; k < groups.num_kinds(); ++k) {
      count_.push_back(static_cast<double>(groups.kinds[k].devices.size()));
      part_.push_back(1 / slowness[k]);
    }
  }

  std::vector<double> heavy(double bound) const {
    std::vector<double> list;
    for (const double work : work_) {
      if (work * (kMaxParts + 1) > bound) list.push_back(work);
    }
    return list;
  }

  bool refutes(double time, const std::vector<double>& heavy) const {
    for (const double size : heavy) {
      const double least = size / time;
      if (least <= 0.5 && refutes(time, least, heavy)) return true;
    }
    return refutes(time, 0, heavy);
  }

 private:
  bool refutes(double time, double least, const std::vector<double>& heavy) const {
    for (int k = 0; k <= kMaxParts; ++k) {
      double needed = 0;
      for (const double work : heavy) {
        const double part = work / time;
        if (part < least) break;
        needed += round_down(part > 1 - least ? 1 : part, k);
      }
      double there = 0;
      for (std::size_t i = 0; i < part_.size(); ++i) there += count_[i] * room(part_[i], least, k);
      if (needed > there * (1 + kRounding) + kRounding) return true;
    }
    return false;
  }

  std::vector<double> work_;          // descending
  std::vector<double> count_, part_;  // [num_kinds] devices; work done of what the fastest do
};

}  // namespace

double packing_bound(const GroupGraph& groups, double bound, double goal) {
  if (!(bound > 0)) return bound;
  const Packing packing(groups);
  const std::vector<double> heavy = packing.heavy(bound);
  if (heavy.size() > kMaxHeavy) return bound;
  std::vector<double> candidates;
  for (const double work : heavy) {
    for (int k = 1; k <= kMaxParts; ++k) {
      for (int j = 1; j <= k; ++j) {
        const double time = work * (k + 1) / j;
        if (time > bound && time <= std::min(goal, 2 * bound) * (1 + kRounding)) {
          candidates.push_back(time);
        }
      }
    }
  }
  std::sort(candidates.rbegin(), candidates.rend());
  candidates.erase(std::unique(candidates.begin(), candidates.end()), candidates.end());
  for (const double time : candidates) {
    if (packing.refutes(time * (1 - 2 * kRounding), heavy)) {
      return std::max(bound, time * (1 - 4 * kRounding));
    }
  }
  return bound;
}

}  // namespace plimsoll::partition
