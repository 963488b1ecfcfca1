// Dynamic embedding tables: the options of one, and what a shard takes.
//
// Problem. A hash table keeps its keys in HBM and its values, with their optimizer state, in HBM
// and host memory; how much of them lies where is part of the option. Method. Every option stands
// for two modes times ten load factors x. With v the bytes of one row of values, rounded up to 16,
// and b the rows of a bucket, a shard of R rows (rounded up to 16, at least 16) takes
//     HBM   ceil(R (v x + 17 + 4 / b))     key, score and digest a row, a header a bucket
//     DDR   ceil(R v (1 - x)) hybrid, ceil(R v) caching
// and reads at (y HBM + (1 - y) host link) / 10, where y is what an x was measured to be worth, or
// the hit rate where the cache's statistics are given.
// Departures. An x that is absent or 0 counts as 1 in the storage; TorchEasyRec's estimator puts
// the default ratio of UVM caches, 0.2, in its place before. Neither occurs unless cache_params or
// the table say so.
// Sources: docs/embedding.md#torcheasyrec,
// docs/mathematics/torchrec-planner.md#torcheasyrecs-setting.

#include "embedding/cost/dynamic_embedding.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

namespace plimsoll::embedding {
namespace {

constexpr int kNumLoadFactors = 10;
constexpr std::uint64_t kAlignment = 16;    // of rows, and of the bytes of their values
constexpr double kBytesPerKey = 8 + 8 + 1;  // key, score, digest
constexpr double kBytesPerBucket = 4;
constexpr double kUnsetLoadFactor = 1;
// TorchEasyRec's measurements: below x = 1 time hardly depends on x, and the slope only keeps the
// order of x.
constexpr double kHybridRatio = 0.11;
constexpr double kCachingRatio = 0.28;
constexpr double kRatioSlope = 0.01;

double optimizer_multiplier(Optimizer optimizer, std::int64_t table_columns) {
  switch (optimizer) {
    case Optimizer::kNone:
    case Optimizer::kSgd:
      return 0;
    case Optimizer::kAdam:
      return 2;
    case Optimizer::kRowWiseAdagrad:
      return 1 / static_cast<double>(table_columns);
    case Optimizer::kOther:
      return 1;
  }
  return 0;
}

double effective_cache_ratio(const DynamicEmbedding& table,
                             const std::optional<CacheParams>& cache_params) {
  const double x = std::clamp(table.load_factor.value_or(0), 0.0, 1.0);
  if (cache_params && cache_params->stats) {
    return std::clamp(1 - cache_params->stats->expected_miss_rate(x), 0.0, 1.0);
  }
  if (x >= 1) return 1;
  const double base = table.mode == DynamicEmbeddingMode::kCaching ? kCachingRatio : kHybridRatio;
  return base + kRatioSlope * x;
}

// To the next multiple of kAlignment.
double round_up(std::int64_t value) {
  const std::uint64_t multiples = (static_cast<std::uint64_t>(value) + kAlignment - 1) / kAlignment;
  return static_cast<double>(multiples * kAlignment);
}

Result<Bytes> ceil_bytes(double value) {
  const double rounded = std::ceil(value);
  if (rounded < 9.2e18) return static_cast<Bytes>(rounded);
  return fail(ErrorCode::kOverflow, "", "a shard of a dynamic table does not fit in 2^63 - 1 bytes",
              "give fewer rows or columns");
}

}  // namespace

bool is_dynamic_shard(const TableProfile& table, ComputeKernel kernel) {
  return table.dynamic_embedding && kernel == ComputeKernel::kCustomizedKernel;
}

std::vector<DynamicEmbedding> dynamic_embedding_choices(
    const DynamicEmbedding& table, const std::optional<CacheParams>& cache_params) {
  std::vector<std::optional<double>> factors;
  if (table.load_factor) {
    factors.push_back(table.load_factor);
  } else if (cache_params) {
    factors.push_back(cache_params->load_factor);
  } else {
    for (int i = 1; i <= kNumLoadFactors; ++i) {
      factors.emplace_back(static_cast<double>(i) / kNumLoadFactors);
    }
  }
  std::vector<DynamicEmbedding> choices;
  for (const auto mode : {DynamicEmbeddingMode::kHybrid, DynamicEmbeddingMode::kCaching}) {
    if (table.mode && *table.mode != mode) continue;
    for (const auto& factor : factors) {
      choices.push_back(DynamicEmbedding{mode, factor, table.bucket_capacity});
    }
  }
  return choices;
}

double dynamic_embedding_bandwidth(const Topology& topology, const TableProfile& table) {
  const double ratio = effective_cache_ratio(*table.dynamic_embedding, table.cache_params);
  return (ratio * topology.hbm_mem_bw + (1 - ratio) * topology.hbm_to_ddr_mem_bw) / 10;
}

Result<Storage> dynamic_embedding_storage(const TableProfile& table, std::int64_t rows,
                                          std::int64_t columns, bool inference) {
  const DynamicEmbedding& dynamic = *table.dynamic_embedding;
  std::optional<double> factor = dynamic.load_factor;
  if (!factor) factor = table.sharder.cache_load_factor;
  const double x = factor && *factor != 0 ? *factor : kUnsetLoadFactor;

  const double aligned_rows = round_up(std::max<std::int64_t>(rows, 1));
  const double multiplier =
      inference ? 0 : optimizer_multiplier(table.optimizer, table.shape.columns);
  const double aligned_bytes = round_up(static_cast<std::int64_t>(
      std::ceil(static_cast<double>(columns) * (1 + multiplier) * table.shape.element_size)));

  const double ddr_share = dynamic.mode == DynamicEmbeddingMode::kCaching ? 1 : 1 - x;
  const double per_row =
      kBytesPerKey + kBytesPerBucket / static_cast<double>(dynamic.bucket_capacity);
  Storage storage;
  PLIMSOLL_ASSIGN(storage.hbm, ceil_bytes(aligned_rows * (aligned_bytes * x + per_row)));
  PLIMSOLL_ASSIGN(storage.ddr, ceil_bytes(aligned_rows * (aligned_bytes * ddr_share)));
  return storage;
}

}  // namespace plimsoll::embedding
