#include "plimsoll/embedding/option_set.h"

#include <algorithm>

namespace plimsoll::embedding {

Storage ShardRuns::max_storage() const {
  Storage largest;
  for (const ShardRun& run : runs) {
    largest.hbm = std::max(largest.hbm, run.storage.hbm);
    largest.ddr = std::max(largest.ddr, run.storage.ddr);
    largest.ssd = std::max(largest.ssd, run.storage.ssd);
  }
  return largest;
}

double ShardRuns::total_perf() const {
  double sum = 0;
  for (std::int64_t block = 0; block < column_blocks; ++block) {
    for (const ShardRun& run : runs) {
      const double total = run.perf.total();
      for (std::int64_t i = 0; i < run.count; ++i) sum += total;
    }
  }
  return sum;
}

double ShardRuns::max_perf() const {
  double largest = runs.empty() ? 0 : runs.front().perf.total();
  for (const ShardRun& run : runs) largest = std::max(largest, run.perf.total());
  return largest;
}

}  // namespace plimsoll::embedding
