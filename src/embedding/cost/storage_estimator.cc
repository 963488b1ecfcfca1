// Bytes of one shard by tier.
//
// Problem. Reproduce a TorchRec release's storage estimator exactly, integers as integers and
// doubles as doubles. Method. The shard's part of the table, its optimizer state, the cache's
// bookkeeping and the pipeline's input and output copies. O(features) time. Promises. Equal inputs
// give equal bytes; a size beyond 63 bits is an error, never a wrap. Source:
// docs/mathematics/torchrec-planner.md#bytes-of-a-shard.

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "core/python_text.h"
#include "embedding/cost/dynamic_embedding.h"
#include "embedding/cost/loads.h"
#include "embedding/model/sharder.h"
#include "plimsoll/core/checked.h"
#include "plimsoll/embedding/estimator.h"

namespace plimsoll::embedding {
namespace {

constexpr double kAuxBytesPerRow = 4;         // cache state of every row
constexpr double kAuxBytesPerCachedRow = 16;  // and of every cached one

tl::unexpected<Error> too_large(std::string_view what) {
  return fail(ErrorCode::kOverflow, "", fmt::format("{} does not fit in 2^63 - 1 bytes", what),
              "give smaller tables, batches or pooling factors");
}

// ceil of a double as bytes.
Result<Bytes> ceil_bytes(double value, std::string_view what) {
  const double rounded = std::ceil(value);
  if (!(rounded < 9.2e18)) return too_large(what);
  return static_cast<Bytes>(rounded);
}

Result<Bytes> add(Bytes a, Bytes b, std::string_view what) {
  Bytes sum = 0;
  if (__builtin_add_overflow(a, b, &sum)) return too_large(what);
  return sum;
}

Result<Bytes> multiply(Bytes a, Bytes b, std::string_view what) {
  Bytes product = 0;
  if (__builtin_mul_overflow(a, b, &product)) return too_large(what);
  return product;
}

// A cache ratio of 0 counts as unset here, unlike in the perf estimator (a quirk of the reference).
double caching_ratio(const TableProfile& table) {
  const auto& cache = table.cache_params;
  std::optional<double> ratio = cache ? cache->load_factor : std::nullopt;
  if (!ratio) ratio = table.sharder.cache_load_factor;
  return ratio && *ratio != 0 ? *ratio : kDefaultCachingRatio;
}

int multipass_passes(const TableProfile& table) {
  const auto& cache = table.cache_params;
  std::optional<int> passes = cache ? cache->multipass_num_passes : std::nullopt;
  if (!passes) passes = table.sharder.multipass_num_passes;
  return passes && *passes != 0 ? *passes : 1;
}

// Optimizer state of a part of a table. Row-wise Adagrad keeps one number a row; the reference
// divides by the whole table's width, for column shards too.
Result<Bytes> optimizer_bytes(Optimizer optimizer, Bytes tensor, std::int64_t table_columns) {
  switch (optimizer) {
    case Optimizer::kNone:
    case Optimizer::kSgd:
      return 0;
    case Optimizer::kAdam:
      return multiply(tensor, 2, "an optimizer state");
    case Optimizer::kRowWiseAdagrad:
      return ceil_bytes(static_cast<double>(tensor) * (1 / static_cast<double>(table_columns)),
                        "an optimizer state");
    case Optimizer::kOther:
      return tensor;
  }
  return 0;
}

// What one tier holds of the shard itself.
struct TierParts {
  Bytes weights = 0;
  Bytes optimizer_state = 0;
  Bytes cache_state = 0;
};

// The shard's part of `table_bytes`, its optimizer state, and `cache_state`.
Result<TierParts> tier_parts(const TableProfile& table, ShardingType type, Bytes table_bytes,
                             std::int64_t rows, std::int64_t columns, Bytes cache_state,
                             bool inference) {
  Bytes tensor = table_bytes;
  if (type != ShardingType::kDataParallel) {
    const Uint128 elements = Uint128(table.shape.rows) * Uint128(table.shape.columns);
    if (elements == 0) {
      return fail(ErrorCode::kZeroDivision, "", "division by zero", "give the table rows");
    }
    const Uint128 shard_elements = Uint128(rows) * Uint128(columns);
    PLIMSOLL_ASSIGN(
        tensor,
        ceil_bytes(divide_exactly(Uint128(table_bytes) * shard_elements, elements), "a shard"));
  }
  if (inference) return TierParts{.weights = tensor};  // neither state nor cache bookkeeping
  PLIMSOLL_ASSIGN(const Bytes state, optimizer_bytes(table.optimizer, tensor, table.shape.columns));
  return TierParts{tensor, state, cache_state};
}

// The whole table's rows and columns, not the shard's, and no DDR at all: quirks of the reference.
// A sharder's ratio of 0 is 0 here.
Result<TierParts> key_value_cache(const TableProfile& table) {
  const double cached = table.sharder.cache_load_factor.value_or(kDefaultCachingRatio);
  const std::int64_t megabytes =
      table.key_value_params ? table.key_value_params->max_l1_cache_size.value_or(0) : 0;
  PLIMSOLL_ASSIGN(const Bytes rows_cached, ceil_bytes(static_cast<double>(table.shape.rows) *
                                                          cached * table.shape.element_size *
                                                          static_cast<double>(table.shape.columns),
                                                      "a key-value cache"));
  return TierParts{.weights = std::min(saturated_multiply(megabytes, kMiB), rows_cached)};
}

struct ShardTiers {
  TierParts hbm, ddr, ssd;
};

// What the tiers hold of the shard itself.
Result<ShardTiers> shard_tiers(const CostModel& cost_model, ComputeDevice device, bool inference,
                               const TableProfile& table, ShardingType type, ComputeKernel kernel,
                               std::int64_t rows, std::int64_t columns) {
  const double ratio = caching_ratio(table);
  Storage raw = table_storage(table.module_kind, table.shape, kernel, device);
  Bytes hbm_table = raw.hbm;
  Bytes aux = 0;
  if (is_cached(kernel)) {
    hbm_table = python_round(static_cast<double>(raw.ddr) * ratio);
    PLIMSOLL_ASSIGN(aux, ceil_bytes(static_cast<double>(rows) *
                                        (kAuxBytesPerRow + ratio * kAuxBytesPerCachedRow),
                                    "a cache's state"));
    if (kernel == ComputeKernel::kKeyValue && !cost_model.key_value_cache) raw.ddr = 0;
  }
  ShardTiers tiers;
  PLIMSOLL_ASSIGN(tiers.hbm, tier_parts(table, type, hbm_table, rows, columns, aux, inference));
  PLIMSOLL_ASSIGN(tiers.ddr, tier_parts(table, type, raw.ddr, rows, columns, 0, inference));
  if (cost_model.ssd_tier && kernel == ComputeKernel::kKeyValue) {
    TierParts& ssd = tiers.ssd;
    PLIMSOLL_ASSIGN(ssd, tier_parts(table, type, raw.hbm, rows, columns, aux, inference));
    PLIMSOLL_ASSIGN(ssd.weights, add(ssd.weights, tiers.ddr.weights, "a shard on ssd"));
    PLIMSOLL_ASSIGN(ssd.optimizer_state,
                    add(ssd.optimizer_state, tiers.ddr.optimizer_state, "a shard on ssd"));
  }
  if (cost_model.key_value_cache && (is_key_value(kernel) || table.use_virtual_table)) {
    PLIMSOLL_ASSIGN(tiers.hbm, key_value_cache(table));
    tiers.ddr = {};
  }
  if (is_dynamic_shard(table, kernel)) {
    PLIMSOLL_ASSIGN(const Storage dynamic,
                    dynamic_embedding_storage(table, rows, columns, inference));
    tiers.hbm = {.weights = dynamic.hbm};
    tiers.ddr = {.weights = dynamic.ddr};
  }
  return tiers;
}

// Copies of input and output that the training pipeline holds in HBM.
Result<Bytes> pipeline_bytes(const RunMode& mode, const TableProfile& table, bool is_prefetched,
                             Bytes input, Bytes output) {
  if (mode.inference) return 0;
  const Bytes peak = mode.run_embedding_at_peak_memory ? output : 0;
  switch (mode.pipeline_type) {
    case PipelineType::kTrainSparseDist: {
      PLIMSOLL_ASSIGN(const Bytes copies, multiply(input, 2, "a pipeline's input"));
      return add(copies, peak, "a pipeline's buffers");
    }
    case PipelineType::kTrainPrefetchSparseDist: {
      PLIMSOLL_ASSIGN(const Bytes copies, multiply(input, 3, "a pipeline's input"));
      const double prefetched = is_prefetched ? static_cast<double>(input) : 0;
      const double extra = (1 + 6.0 / multipass_passes(table)) * prefetched;
      if (!(extra < 9.2e18)) return too_large("a pipeline's prefetch");
      PLIMSOLL_ASSIGN(const Bytes total,
                      add(copies, static_cast<Bytes>(extra), "a pipeline's buffers"));
      return add(total, peak, "a pipeline's buffers");
    }
    case PipelineType::kNone:
    case PipelineType::kTrainBase:
      break;
  }
  return add(input, output, "a shard's input and output");
}

}  // namespace

Result<Estimator::Io> Estimator::shard_io(const TableProfile& table, ShardingType type,
                                          std::int64_t rows, std::int64_t columns,
                                          double output_element_size) const {
  const auto [ids, outputs] = make_loads(cost_model_, table);
  const double world = topology_.world_size;
  const double width = static_cast<double>(columns);
  double divisor = 0;  // ranks among which a row cut divides the ids
  switch (type) {
    case ShardingType::kDataParallel: {
      PLIMSOLL_ASSIGN(const Bytes input, ceil_bytes(ids * kIdBytes, "a shard's input"));
      PLIMSOLL_ASSIGN(const Bytes output,
                      ceil_bytes((table.is_pooled ? outputs : ids) * width * output_element_size,
                                 "a shard's output"));
      return Io{input, output};
    }
    case ShardingType::kTableWise:
    case ShardingType::kColumnWise:
    case ShardingType::kTableColumnWise: {
      PLIMSOLL_ASSIGN(const Bytes input, ceil_bytes(ids * world * kIdBytes, "a shard's input"));
      PLIMSOLL_ASSIGN(const Bytes output, ceil_bytes((table.is_pooled ? outputs : ids) * world *
                                                         width * output_element_size,
                                                     "a shard's output"));
      return Io{input, output};
    }
    case ShardingType::kRowWise:
      divisor = world;
      break;
    case ShardingType::kTableRowWise:
    case ShardingType::kGridShard:
      divisor = topology_.group_size();
      break;
  }
  if (rows == 0 || columns == 0) return Io{};
  const double local_ids = ids / divisor;
  PLIMSOLL_ASSIGN(const Bytes input, ceil_bytes(local_ids * world * kIdBytes, "a shard's input"));
  PLIMSOLL_ASSIGN(const Bytes output, ceil_bytes((table.is_pooled ? outputs : local_ids) * world *
                                                     width * output_element_size,
                                                 "a shard's output"));
  return Io{input, output};
}

Result<StorageParts> Estimator::shard_storage_parts(const TableProfile& table, ShardingType type,
                                                    ComputeKernel kernel, std::int64_t rows,
                                                    std::int64_t columns) const {
  const ComputeDevice device = memory_device(cost_model_, topology_.compute_device);
  PLIMSOLL_ASSIGN(ShardTiers tiers, shard_tiers(cost_model_, device, mode_.inference, table, type,
                                                kernel, rows, columns));
  PLIMSOLL_ASSIGN(const Io io,
                  shard_io(table, type, rows, columns,
                           table.output_element_size.value_or(table.shape.element_size)));
  PLIMSOLL_ASSIGN(Bytes hbm_buffers,
                  pipeline_bytes(mode_, table, is_cached(kernel), io.input, io.output));
  if (device != ComputeDevice::kCuda && device != ComputeDevice::kMtia) {
    tiers.hbm = {};
    hbm_buffers = 0;
  }
  Bytes ddr_buffers = 0;
  if (device == ComputeDevice::kCpu && !mode_.inference) {
    PLIMSOLL_ASSIGN(ddr_buffers, add(io.input, io.output, "a shard"));
  }
  const auto& [hbm, ddr, ssd] = tiers;
  return StorageParts{
      .weights = {hbm.weights, ddr.weights, ssd.weights},
      .optimizer_state = {hbm.optimizer_state, ddr.optimizer_state, ssd.optimizer_state},
      .cache_state = {hbm.cache_state, ddr.cache_state, ssd.cache_state},
      .input_output = {hbm_buffers, ddr_buffers, 0}};
}

Result<Storage> Estimator::shard_storage(const TableProfile& table, ShardingType type,
                                         ComputeKernel kernel, std::int64_t rows,
                                         std::int64_t columns) const {
  PLIMSOLL_ASSIGN(const StorageParts parts,
                  shard_storage_parts(table, type, kernel, rows, columns));
  Storage total = parts.weights;
  for (const Storage& part : {parts.optimizer_state, parts.cache_state, parts.input_output}) {
    PLIMSOLL_ASSIGN(total.hbm, add(total.hbm, part.hbm, "a shard"));
    PLIMSOLL_ASSIGN(total.ddr, add(total.ddr, part.ddr, "a shard"));
    PLIMSOLL_ASSIGN(total.ssd, add(total.ssd, part.ssd, "a shard"));
  }
  return total;
}

}  // namespace plimsoll::embedding
