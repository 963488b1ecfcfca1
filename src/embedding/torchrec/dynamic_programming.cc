// TorchRec's dynamic programming proposer.
//
// Problem. Proposals of small summed perf for every amount of HBM that all devices offer together.
// Method. The one-axis program of binned_program.h over HBM: the total of the storage constraint is
// cut into equal bins, 100 per device.
// Cost. 1,000 tables of 16 options on 128 ranks (12,800 bins): 0.8 s with 10,648 proposals, 40 MiB.
// Promises. The reference's proposals in the reference's order, one per reachable bin and the
// highest bin first, after one proposal of every table's least HBM. What it minimises is the sum
// over all shards, not the slowest rank, and neither devices one by one nor DDR limit it.
// Departures. A storage constraint without HBM is an error value where the reference raises
// ZeroDivisionError.
// Source: docs/mathematics/torchrec-planner.md#dynamic-programming.
#include "embedding/torchrec/binned_program.h"

namespace plimsoll::embedding {
namespace {

Result<Trails> solve(const OptionSet& options, const OptionsByTable& tables,
                     const topology::Topology& topology, const RunContext& context,
                     std::int64_t bins_per_device) {
  if (tables.empty()) {
    return fail(ErrorCode::kValue, "", "max() arg is an empty sequence");
  }
  PLIMSOLL_ASSIGN(const std::int64_t num_bins, count_bins(bins_per_device, topology));
  PLIMSOLL_ASSIGN(const double size, bin_size(topology.total_storage().hbm, num_bins));
  std::vector<std::vector<BinnedOption>> binned(tables.size());
  for (std::size_t t = 0; t < tables.size(); ++t) {
    for (const std::int32_t option : tables[t]) {
      const ShardRuns shards = options.shards(option);
      binned[t].push_back(
          {static_cast<double>(shards.total_storage().hbm) / size, shards.total_perf()});
    }
  }
  return solve_binned(binned, num_bins, context);
}

}  // namespace

std::unique_ptr<Proposer> make_dynamic_programming_proposer(std::int64_t hbm_bins_per_device) {
  return make_program_proposer(
      {.name = "dynamic_programming",
       .sort_key = [](const Storage& total) { return total.hbm; },
       .solve =
           [hbm_bins_per_device](const OptionSet& options, const OptionsByTable& tables,
                                 const topology::Topology& topology, const RunContext& context) {
             return solve(options, tables, topology, context, hbm_bins_per_device);
           }});
}

}  // namespace plimsoll::embedding
