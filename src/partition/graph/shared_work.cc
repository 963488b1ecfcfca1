#include "partition/graph/shared_work.h"

#include <algorithm>
#include <numeric>

#include "partition/graph/downsets.h"

namespace plimsoll::partition {

std::vector<double> slowness_of_kinds(const GroupGraph& groups) {
  const std::vector<double> work = work_of_groups(groups);
  std::vector<double> slowness;
  for (const auto& times : groups.time_ms) {
    double least = kUnlimited;  // a kind that can do no work at all
    for (std::size_t g = 0; g < work.size(); ++g) {
      if (work[g] > 0) least = std::min(least, times[g] / work[g]);
    }
    slowness.push_back(least);
  }
  return slowness;
}

double shared_work(const GroupGraph& groups) {
  const std::vector<double> work = work_of_groups(groups);
  const std::vector<double> slowness = slowness_of_kinds(groups);
  double speed = 0;
  for (int k = 0; k < groups.num_kinds(); ++k) {
    speed += static_cast<double>(groups.kinds[k].devices.size()) / slowness[k];
  }
  const double total = std::accumulate(work.begin(), work.end(), 0.0);
  return total > 0 ? total / speed : 0;
}

}  // namespace plimsoll::partition
