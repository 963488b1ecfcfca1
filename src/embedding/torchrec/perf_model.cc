#include "plimsoll/embedding/perf_model.h"

#include <algorithm>

namespace plimsoll::embedding {
namespace {

// A plan of a failed search has ranks -1, which count as the last rank.
std::size_t rank_index(std::int32_t rank, std::size_t world_size) {
  return rank < 0 ? world_size - 1 : static_cast<std::size_t>(rank);
}

}  // namespace

std::vector<double> rank_perf(const OptionSet& options, const PlacedProposal& plan) {
  std::vector<double> sums(static_cast<std::size_t>(options.world_size), 0.0);
  for (std::size_t position = 0; position < plan.options.size(); ++position) {
    const Option& option = options.options[static_cast<std::size_t>(plan.options[position])];
    if (!options.rank_speeds.empty()) {
      for_each_shard(options, plan, position, [&](const ShardView& shard) {
        const std::size_t rank = rank_index(shard.rank, sums.size());
        sums[rank] += options.perf_on(*shard.run, rank).total();
      });
      continue;
    }
    if (option.partition_by == PartitionBy::kUniform) {
      std::size_t rank = 0;
      for (const ShardRun& run : options.shards(option).runs) {
        const double total = run.perf.total();
        for (std::int64_t i = 0; i < run.count; ++i) sums[rank++] += total;
      }
      continue;
    }
    for_each_shard(options, plan, position, [&](const ShardView& shard) {
      sums[rank_index(shard.rank, sums.size())] += shard.run->perf.total();
    });
  }
  return sums;
}

std::vector<topology::Storage> rank_storage(const OptionSet& options, const PlacedProposal& plan) {
  std::vector<topology::Storage> sums(static_cast<std::size_t>(options.world_size));
  for (std::size_t position = 0; position < plan.options.size(); ++position) {
    for_each_shard(options, plan, position, [&](const ShardView& shard) {
      sums[rank_index(shard.rank, sums.size())] += shard.run->storage;
    });
  }
  return sums;
}

std::vector<Perf> rank_perf_components(const OptionSet& options, const PlacedProposal& plan) {
  std::vector<Perf> sums(static_cast<std::size_t>(options.world_size));
  for (std::size_t position = 0; position < plan.options.size(); ++position) {
    for_each_shard(options, plan, position, [&](const ShardView& shard) {
      const std::size_t rank = rank_index(shard.rank, sums.size());
      sums[rank] += options.perf_on(*shard.run, rank);
    });
  }
  return sums;
}

double rate(PerfModelKind kind, const OptionSet& options, const PlacedProposal& plan) {
  if (kind == PerfModelKind::kStorage) {
    Bytes largest = 0;
    for (const topology::Storage& used : rank_storage(options, plan)) {
      largest = std::max(largest, used.hbm);
    }
    return static_cast<double>(largest);
  }
  const std::vector<double> sums = rank_perf(options, plan);
  return *std::max_element(sums.begin(), sums.end());
}

double rate_roughly(PerfModelKind kind, const OptionSet& options, const PlacedProposal& plan) {
  if (kind == PerfModelKind::kStorage || !options.rank_speeds.empty()) {
    return rate(kind, options, plan);
  }
  std::vector<double> sums(static_cast<std::size_t>(options.world_size), 0.0);
  double everywhere = 0;
  for (std::size_t position = 0; position < plan.options.size(); ++position) {
    const Option& option = options.options[static_cast<std::size_t>(plan.options[position])];
    const ShardRuns shards = options.shards(option);
    if (option.partition_by != PartitionBy::kUniform) {
      const auto* rank = plan.ranks.data() + plan.first_rank[position];
      for (std::int64_t block = 0; block < shards.column_blocks; ++block) {
        for (const ShardRun& run : shards.runs) {
          const double total = run.perf.total();
          for (std::int64_t i = 0; i < run.count; ++i)
            sums[static_cast<std::size_t>(*rank++)] += total;
        }
      }
      continue;
    }
    double least = shards.runs.front().perf.total();
    for (const ShardRun& run : shards.runs) least = std::min(least, run.perf.total());
    everywhere += least;
  }
  return (everywhere + *std::max_element(sums.begin(), sums.end())) * (1 - 1e-9);
}

}  // namespace plimsoll::embedding
