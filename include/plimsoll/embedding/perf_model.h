// Plan ratings, lower is better: the largest sum over a rank's shards, added in plan order. Source:
// docs/mathematics/torchrec-planner.md#rating-and-main-loop.
#pragma once

#include <cstdint>
#include <vector>

#include "plimsoll/embedding/option_set.h"
#include "plimsoll/embedding/proposer.h"

#pragma GCC visibility push(default)
namespace plimsoll::embedding {

enum class PerfModelKind {
  kPerf,     // milliseconds (the reference's NoopPerfModel)
  kStorage,  // HBM bytes (its NoopStorageModel)
};

// Sums per rank, [world_size]: shard totals in plan order; HBM bytes.
std::vector<double> rank_perf(const OptionSet& options, const PlacedProposal& plan);
std::vector<topology::Storage> rank_storage(const OptionSet& options, const PlacedProposal& plan);
// Component sums per rank, [world_size].
std::vector<Perf> rank_perf_components(const OptionSet& options, const PlacedProposal& plan);

double rate(PerfModelKind kind, const OptionSet& options, const PlacedProposal& plan);

// Least value that `rate` could return, within 1e-9 relative, at O(shards + W) instead of O(uniform
// options x W): sums are formed in another order.
double rate_roughly(PerfModelKind kind, const OptionSet& options, const PlacedProposal& plan);

// One shard of a placed option.
struct ShardView {
  const ShardRun* run = nullptr;
  std::int64_t shard = 0;  // position in shard order
  std::int64_t row = 0;    // offsets
  std::int64_t column = 0;
  std::int32_t rank = -1;
};

// Visits the shards of plan.options[position] in shard order.
template <class Visit>
void for_each_shard(const OptionSet& options, const PlacedProposal& plan, std::size_t position,
                    const Visit& visit) {
  const Option& option = options.options[static_cast<std::size_t>(plan.options[position])];
  const ShardRuns shards = options.shards(option);
  const bool is_uniform = option.partition_by == PartitionBy::kUniform;
  const auto first_rank = static_cast<std::size_t>(plan.first_rank[position]);
  ShardView view;
  for (std::int64_t block = 0; block < shards.column_blocks; ++block) {
    for (const ShardRun& run : shards.runs) {
      view.run = &run;
      view.column = block * run.columns;
      for (std::int64_t i = 0; i < run.count; ++i, ++view.shard) {
        view.row = run.first_row + i * run.row_stride;
        view.rank = is_uniform ? static_cast<std::int32_t>(view.shard)
                               : plan.ranks[first_rank + static_cast<std::size_t>(view.shard)];
        visit(static_cast<const ShardView&>(view));
      }
    }
  }
}

}  // namespace plimsoll::embedding
#pragma GCC visibility pop
