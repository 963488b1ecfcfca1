// Milliseconds of one shard.
//
// Problem. Reproduce a TorchRec release's perf estimator to the last bit.
// Method. Bytes moved by the look-up and by each collective, over the bandwidth that serves them;
// every expression is evaluated left to right in double, as the reference does, because results
// pass through ceil, strict comparisons and ties. O(features) time. Promises. Equal inputs give
// equal bits. Shard rows enter data_parallel only, so all row shards of an option cost the same (a
// quirk of the reference). Source: docs/mathematics/torchrec-planner.md#milliseconds-of-a-shard.
// Symbols are theirs: I ids, P or X outputs, D columns, e element size, W ranks, w ranks a host, G
// ranks a fast group.

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "embedding/cost/dynamic_embedding.h"
#include "embedding/cost/loads.h"
#include "embedding/model/sharder.h"
#include "plimsoll/embedding/estimator.h"

namespace plimsoll::embedding {
namespace {

using topology::Collective;

constexpr double kFullBlockDim = 128;
constexpr double kHalfBlockPenalty = 1.15;
constexpr double kQuarterBlockPenalty = 1.75;
constexpr double kMinLookupDim = 32;
constexpr double kWeightedKernelMultiplier = 1.1;
constexpr double kBatchedCopyPerfFactor = 2.455;
constexpr double kDpElementwiseKernelsPerfFactor = 9.22;

double block_penalty(double columns) {
  if (columns >= kFullBlockDim) return 1;
  return columns >= kFullBlockDim / 2 ? kHalfBlockPenalty : kQuarterBlockPenalty;
}

// What all formulas share.
struct Shared {
  const CostModel& cost_model;
  const Topology& topology;
  const TableProfile& table;  // without its shape
  bool inference = false;
  Loads loads;
  double columns = 0;
  double element_size = 0;
  double index_bytes = 8;  // ids are int64, whatever they are
  double device_bw = 0;
  double expected_fetches = 0;

  double bandwidth(int local, int world, Collective collective) const {
    return topology.comms.bandwidth(local, world, collective);
  }
  double weighted(double bytes) const { return table.is_weighted ? bytes * 2 : bytes; }
  double prefetch(double fetches) const {
    return fetches * columns * element_size / topology.hbm_to_ddr_mem_bw;
  }
  double bwd_compute(double fwd_compute) const {
    const double gradient = table.is_weighted ? fwd_compute * kWeightedKernelMultiplier : 0;
    double compute = fwd_compute * topology.bwd_compute_multiplier;
    if (table.is_weighted) compute = compute * topology.weighted_feature_bwd_compute_multiplier;
    return compute + gradient;
  }
};

// Backward and prefetch of the TW family and RW vanish in inference in every release; 1.7 keeps the
// prefetch.
Perf forward_only(const Shared& s, Perf perf, double fetches) {
  perf.bwd_compute = 0;
  perf.bwd_comms = 0;
  perf.prefetch_compute = s.cost_model.inference_prefetch ? s.prefetch(fetches) : 0;
  return perf;
}

Perf table_wise_perf(const Shared& s) {
  const int w = s.topology.local_world_size;
  const int world = s.topology.world_size;
  const double e = s.element_size;
  const double outputs = s.table.is_pooled ? s.loads.outputs : s.loads.ids;
  const double input = s.weighted(std::ceil(s.loads.ids * world * s.index_bytes));
  const double lookup = s.loads.ids * world * std::max(s.columns, kMinLookupDim) * e;
  const double forward = outputs * world * s.columns * s.table.comms.forward_all_to_all;
  const double backward = outputs * world * s.columns * s.table.comms.backward_all_to_all;
  const double bw = s.bandwidth(w, world, Collective::kAllToAll);

  Perf perf;
  perf.fwd_comms = forward / bw;
  perf.fwd_compute = (input + lookup + forward) * block_penalty(s.columns) / s.device_bw;
  if (s.inference) return forward_only(s, perf, s.expected_fetches);
  perf.bwd_comms = backward / bw;
  perf.bwd_compute = s.bwd_compute(perf.fwd_compute);
  perf.prefetch_compute = s.prefetch(s.expected_fetches);
  return perf;
}

Perf row_wise_perf(const Shared& s) {
  const int w = s.topology.local_world_size;
  const int world = s.topology.world_size;
  const CommsElementSizes& comms = s.table.comms;
  const double ids = s.loads.ids / world;
  const double outputs = s.table.is_pooled ? s.loads.outputs : ids;
  // Divided and multiplied again: where W is not a power of two the product may lie an ulp above
  // the integer and ceil adds a byte.
  const double input = s.weighted(std::ceil(ids * world * s.index_bytes));
  const double lookup = ids * world * s.columns * s.element_size;
  const double forward =
      outputs * world * s.columns *
      (s.table.is_pooled ? comms.forward_reduce_scatter : comms.forward_all_to_all);
  const double backward =
      outputs * world * s.columns *
      (s.table.is_pooled ? comms.backward_reduce_scatter : comms.backward_all_to_all);
  const double fetches = s.expected_fetches / world;

  Perf perf;
  perf.fwd_comms = forward / s.bandwidth(w, world, Collective::kReduceScatter);
  perf.fwd_compute = (input + lookup + forward) / s.device_bw;
  if (s.inference) return forward_only(s, perf, fetches);
  perf.bwd_comms = backward / s.bandwidth(w, world, Collective::kAllGather) +
                   backward * kBatchedCopyPerfFactor / s.device_bw;
  perf.bwd_compute = s.bwd_compute(perf.fwd_compute);
  perf.prefetch_compute = s.prefetch(fetches);
  return perf;
}

// table_row_wise and, with its narrower columns, grid_shard.
Perf table_row_wise_perf(const Shared& s) {
  const int w = s.topology.local_world_size;
  const int world = s.topology.world_size;
  const int group = s.topology.group_size();
  const CommsElementSizes& comms = s.table.comms;
  const double ids = s.loads.ids / group;
  const double outputs = s.table.is_pooled ? s.loads.outputs : ids;
  const double input = s.weighted(std::ceil(ids * world * s.index_bytes));
  const double lookup = ids * world * s.columns * s.element_size;
  const double forward = outputs * world * s.columns * comms.forward_reduce_scatter;
  const double backward = outputs * world * s.columns * comms.backward_reduce_scatter;

  // The all-to-all between groups: how many groups, and what a sequence table sends through it,
  // changed in 1.7.
  const double num_groups = s.cost_model.twrw_floor_groups ? std::max(1, world / group)
                                                           : static_cast<double>(world) / group;
  const bool is_crossing = s.cost_model.twrw_floor_groups ? num_groups > 1 : world > group;
  const double crossing_outputs =
      s.table.is_pooled || !s.cost_model.twrw_sequence_inter_uses_whole_batch ? outputs
                                                                              : s.loads.ids;
  const auto cross = [&](double element_size) {
    const double bw = s.cost_model.twrw_crosses_at_inter_host_bw
                          ? s.topology.comms.inter_host_bw
                          : s.bandwidth(1, static_cast<int>(num_groups), Collective::kAllToAll);
    return crossing_outputs * num_groups * s.columns * element_size / bw;
  };

  const int local = std::min(group, w);
  Perf perf;
  perf.fwd_comms = forward / s.bandwidth(local, group, Collective::kReduceScatter);
  perf.bwd_comms = backward / s.bandwidth(local, group, Collective::kAllGather);
  if (is_crossing) {
    perf.fwd_comms += cross(comms.forward_all_to_all);
    perf.bwd_comms += cross(comms.backward_all_to_all);
  }
  perf.bwd_comms += backward * kBatchedCopyPerfFactor / s.device_bw;
  perf.fwd_compute = (input + lookup + forward) / s.device_bw;
  perf.bwd_compute = s.bwd_compute(perf.fwd_compute);
  perf.prefetch_compute = s.prefetch(s.expected_fetches / group);
  if (s.inference && s.cost_model.inference_everywhere) {
    return forward_only(s, perf, s.expected_fetches / group);
  }
  return perf;
}

Perf data_parallel_perf(const Shared& s, std::int64_t rows) {
  const int w = s.topology.local_world_size;
  const int world = s.topology.world_size;
  const double e = s.element_size;
  const double outputs = s.table.is_pooled ? s.loads.outputs : s.loads.ids;
  const double table_bytes = static_cast<double>(rows) * s.columns * e;
  const double input = s.weighted(std::ceil(s.loads.ids * s.index_bytes));
  const double lookup = s.loads.ids * s.columns * e;
  const double output = outputs * s.columns * e;

  Perf perf;
  perf.fwd_compute = (input + lookup + output) / s.device_bw;
  if (s.inference && s.cost_model.inference_everywhere) return perf;
  const double hosts = std::min(static_cast<double>(world) / w, 2.0);
  double all_reduce =
      table_bytes * (2 * hosts - 1) / hosts / s.bandwidth(w, world, Collective::kAllReduce);
  if (world > 2 * w) all_reduce *= 2;
  perf.bwd_comms = all_reduce + table_bytes * kDpElementwiseKernelsPerfFactor / s.device_bw;
  perf.bwd_compute = s.bwd_compute(perf.fwd_compute);
  return perf;
}

bool has_negative(const Perf& perf) {
  return perf.fwd_compute < 0 || perf.fwd_comms < 0 || perf.bwd_compute < 0 || perf.bwd_comms < 0 ||
         perf.prefetch_compute < 0 || perf.input_dist_comms < 0;
}

// Up to 1.5 the types that have a rule for inference leave it out there.
bool has_input_dist(const Shared& s, ShardingType type) {
  if (!s.cost_model.input_dist || type == ShardingType::kDataParallel) return false;
  const bool has_rule = type != ShardingType::kTableRowWise && type != ShardingType::kGridShard;
  return !s.inference || s.cost_model.inference_everywhere || !has_rule;
}

// One shard with `rows`. Error kValue for a negative cost where the release asserts that.
Result<Perf> perf_of(const Shared& s, ShardingType type, std::int64_t rows) {
  Perf perf;
  switch (type) {
    case ShardingType::kTableWise:
    case ShardingType::kColumnWise:
    case ShardingType::kTableColumnWise:
      perf = table_wise_perf(s);
      break;
    case ShardingType::kRowWise:
      perf = row_wise_perf(s);
      break;
    case ShardingType::kTableRowWise:
    case ShardingType::kGridShard:
      perf = table_row_wise_perf(s);
      break;
    case ShardingType::kDataParallel:
      perf = data_parallel_perf(s, rows);
      break;
  }
  if (has_input_dist(s, type)) {
    const int world = s.topology.world_size;
    perf.input_dist_comms = std::ceil(s.loads.ids * world * s.index_bytes) /
                            s.bandwidth(s.topology.local_world_size, world, Collective::kAllToAll);
  }
  if (s.cost_model.negative_cost_is_error && has_negative(perf)) {
    return fail(ErrorCode::kValue, "",
                fmt::format("a {} shard would cost less than nothing", to_string(type)),
                "give a local world size of at most the world size");
  }
  return perf;
}

Result<void> check_parameters(const EmbWallTimeParameters& p) {
  const std::size_t num_features = p.input_lengths.size();
  if (p.num_poolings.size() != num_features || p.batch_sizes.size() != num_features) {
    return fail(ErrorCode::kValue, "input_lengths",
                fmt::format("{} input lengths, {} numbers of poolings and {} batch sizes",
                            num_features, p.num_poolings.size(), p.batch_sizes.size()),
                "give one of each for every feature");
  }
  if (p.world_size < 1 || p.local_world_size < 1) {
    return fail(ErrorCode::kValue, p.world_size < 1 ? "world_size" : "local_world_size", "below 1",
                "give the number of ranks");
  }
  const std::pair<const char*, double> bandwidths[] = {
      {"hbm_mem_bw", p.hbm_mem_bw},
      {"ddr_mem_bw", p.ddr_mem_bw},
      {"hbm_to_ddr_mem_bw", p.hbm_to_ddr_mem_bw},
      {"comms_bandwidths.intra_host_bw", p.comms_bandwidths.intra_host_bw},
      {"comms_bandwidths.inter_host_bw", p.comms_bandwidths.inter_host_bw}};
  for (const auto& [name, bandwidth] : bandwidths) {
    if (bandwidth > 0) continue;
    return fail(ErrorCode::kValue, name, "not above 0", "give bytes per millisecond");
  }
  return {};
}

}  // namespace

Estimator::Estimator(const CostModel& cost_model, const Topology& topology, const RunMode& mode)
    : cost_model_(cost_model), topology_(topology), mode_(mode) {}

Result<double> Estimator::device_bandwidth(ComputeKernel kernel,
                                           std::optional<double> cache_load_factor,
                                           bool prefetch_pipeline) const {
  using enum ComputeKernel;
  const double hbm = topology_.hbm_mem_bw;
  const double to_ddr = topology_.hbm_to_ddr_mem_bw;
  const ComputeDevice device = topology_.compute_device;
  const bool in_ddr = memory_device(cost_model_, device) == ComputeDevice::kCpu;
  const double near = in_ddr ? topology_.ddr_mem_bw : hbm;  // where the weights lie
  if (kernel == kDense) return 0.5 * near;
  if (kernel == kFused || kernel == kQuant) return near;
  if (device == ComputeDevice::kCuda) {
    if (kernel == kFusedUvm || kernel == kQuantUvm) return to_ddr / 10;
    if (kernel == kFusedUvmCaching && prefetch_pipeline) return hbm;
    if (is_uvm_caching(kernel)) {
      const double ratio = cache_load_factor.value_or(kDefaultCachingRatio);
      return (ratio * hbm + (1 - ratio) * to_ddr) / 10;
    }
    if (kernel == kKeyValue) {
      return cost_model_.key_value_on_ssd ? topology_.ssd_mem_bw : to_ddr;
    }
    if (kernel == kSsdVirtualTable || kernel == kDramVirtualTable) return to_ddr;
    if (kernel == kDramSsdVirtualTable && cost_model_.dram_ssd_virtual_table) return to_ddr;
    if (kernel == kFusedTriton && cost_model_.ssd_tier) return hbm;
  }
  if (device == ComputeDevice::kTpu && kernel == kUnfusedTpu && cost_model_.tpu) return hbm;
  if (cost_model_.unknown_kernel_is_value_error) {
    return fail(ErrorCode::kValue, "",
                fmt::format("Unrecognized or unsupported compute kernel: {} for hardware aware "
                            "perf estimators.",
                            to_string(kernel)));
  }
  return fail(ErrorCode::kPlanner, "",
              fmt::format("No kernel bandwidth exists for this combo of compute device: {}, "
                          "compute kernel: {}",
                          topology::to_string(device), to_string(kernel)),
              "", "other");
}

Result<Perf> Estimator::shard_perf(const TableProfile& table, ShardingType type,
                                   ComputeKernel kernel, std::int64_t rows,
                                   std::int64_t columns) const {
  const auto& cache = table.cache_params;
  const std::optional<double> load_factor =
      cache && cache->load_factor ? cache->load_factor : table.sharder.cache_load_factor;
  const bool prefetch_pipeline =
      (cache && cache->prefetch_pipeline.value_or(false)) || table.sharder.prefetch_pipeline;
  double device_bw = 0;
  if (is_dynamic_shard(table, kernel) && topology_.compute_device == ComputeDevice::kCuda) {
    device_bw = dynamic_embedding_bandwidth(topology_, table);
  } else {
    PLIMSOLL_ASSIGN(device_bw, device_bandwidth(kernel, load_factor, prefetch_pipeline));
  }
  double fetches = 0;

  if (load_factor && cache && cache->stats && kernel == ComputeKernel::kFusedUvmCaching) {
    fetches = cache->stats->expected_miss_rate(*load_factor) * cache->stats->expected_lookups;
  }
  const Shared shared{.cost_model = cost_model_,
                      .topology = topology_,
                      .table = table,
                      .inference = mode_.inference,
                      .loads = make_loads(cost_model_, table),
                      .columns = static_cast<double>(columns),
                      .element_size = static_cast<double>(table.shape.element_size),
                      .device_bw = device_bw,
                      .expected_fetches = fetches};
  return perf_of(shared, type, rows);
}

Result<void> Estimator::estimate(const TableOptions&, const TableProfile& profile,
                                 const Option& option, std::span<ShardRun> runs) const {
  if (runs.empty()) return {};
  // Shards of an option differ in rows alone, and rows enter the time of data_parallel only, whose
  // shards are all equal.
  PLIMSOLL_ASSIGN(const Perf perf, shard_perf(profile, option.sharding_type, option.compute_kernel,
                                              runs.front().rows, runs.front().columns));
  for (ShardRun& run : runs) {
    run.perf = perf;
    PLIMSOLL_ASSIGN(run.storage, shard_storage(profile, option.sharding_type, option.compute_kernel,
                                               run.rows, run.columns));
  }
  return {};
}

Result<std::vector<Perf>> perf_func_emb_wall_time(const CostModel& cost_model,
                                                  const EmbWallTimeParameters& parameters) {
  const EmbWallTimeParameters& p = parameters;
  PLIMSOLL_RETURN_IF_ERROR(check_parameters(p));
  Topology topology;
  topology.world_size = p.world_size;
  topology.local_world_size = p.local_world_size;
  topology.compute_device = p.compute_device;
  topology.hbm_mem_bw = p.hbm_mem_bw;
  topology.ddr_mem_bw = p.ddr_mem_bw;
  topology.hbm_to_ddr_mem_bw = p.hbm_to_ddr_mem_bw;
  topology.comms = p.comms_bandwidths;
  topology.bwd_compute_multiplier = p.bwd_compute_multiplier;
  topology.weighted_feature_bwd_compute_multiplier = p.weighted_feature_bwd_compute_multiplier;
  TableProfile table;
  table.is_pooled = p.is_pooled;
  table.is_weighted = p.is_weighted;
  table.pooling_factors = p.input_lengths;
  table.num_poolings = p.num_poolings;
  table.batch_sizes = p.batch_sizes;
  table.comms = {p.fwd_a2a_comm_data_type_size, p.bwd_a2a_comm_data_type_size,
                 p.fwd_sr_comm_data_type_size, p.bwd_sr_comm_data_type_size};
  const Estimator estimator(cost_model, topology, {.inference = p.is_inference});
  PLIMSOLL_ASSIGN(
      const double device_bw,
      estimator.device_bandwidth(p.compute_kernel, p.caching_ratio, p.prefetch_pipeline));
  const Loads loads = make_loads(cost_model, table);
  std::vector<Perf> perfs;
  for (const auto& [rows, columns] : p.shard_sizes) {
    const Shared shared{.cost_model = cost_model,
                        .topology = topology,
                        .table = table,
                        .inference = p.is_inference,
                        .loads = loads,
                        .columns = static_cast<double>(columns),
                        .element_size = p.table_data_type_size,
                        .index_bytes = p.input_data_type_size,
                        .device_bw = device_bw,
                        .expected_fetches = p.expected_cache_fetches};
    PLIMSOLL_ASSIGN(perfs.emplace_back(), perf_of(shared, p.sharding_type, rows));
  }
  return perfs;
}

}  // namespace plimsoll::embedding
