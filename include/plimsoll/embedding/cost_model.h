// A TorchRec release as data: every formula reads these fields, never a version.
// Source: docs/mathematics/torchrec-planner.md#releases.
#pragma once

#include <span>
#include <string>
#include <string_view>

#include "plimsoll/core/result.h"

#pragma GCC visibility push(default)
namespace plimsoll::embedding {

struct CostModel {
  std::string name;  // "torchrec-1.9"

  // Perf estimator (docs/mathematics/torchrec-planner.md#milliseconds-of-a-shard).
  bool input_dist = false;         // a sixth component is recorded; never part of the total
  bool pooled_output_cap = false;  // pooled outputs are min(1, L) N B
  bool twrw_floor_groups =
      false;  // cross-host groups = max(1, W div G) instead of the ratio W / w when W > w
  bool twrw_sequence_inter_uses_whole_batch = false;
  bool twrw_crosses_at_inter_host_bw =
      false;  // even where the hosts are uneven and there is one group
  bool inference_everywhere =
      false;                        // backward 0 for every type, not for the TW family and RW alone
  bool inference_prefetch = false;  // prefetch kept in inference
  bool key_value_on_ssd = false;    // key_value reads at ssd_mem_bw instead of hbm_to_ddr_mem_bw
  bool negative_cost_is_error = false;
  bool unknown_kernel_is_value_error = false;  // else a planner error of type "other"

  // Storage and topology (docs/mathematics/torchrec-planner.md#bytes-of-a-shard and
  // docs/mathematics/torchrec-planner.md#topology).
  bool ssd_tier = false;
  bool mtia_is_host = false;     // an mtia's memory is the host's: no HBM, DDR's bandwidth
  bool key_value_cache = false;  // a key-value kernel's HBM is its cache, else no byte of weights
  bool zero_cap_is_default = false;
  bool pods = false;

  // Enumerator (docs/mathematics/torchrec-planner.md#options-of-a-table).
  bool buckets = false;
  bool fewer_buckets_than_ranks_is_error = false;
  bool managed_collision_buckets =
      false;  // read from the collision module; must be a multiple of W
  bool poolings_on_option =
      false;  // a list of poolings on the table itself wins over the constraint if its length fits
  bool feature_processed_row_types =
      false;  // TWRW, RW, GRID on feature-processed modules, only by constraint
  bool key_value_needs_ssd = false;          // key_value is dropped where no rank has ssd
  bool virtual_tables = false;               // kernels ssd_virtual_table and dram_virtual_table
  bool managed_collision_key_value = false;  // kernel key_value of managed-collision modules
  bool dram_ssd_virtual_table = false;
  bool tpu = false;
  bool pec = false;

  // Partitioner and planner (docs/mathematics/torchrec-planner.md#rating-and-main-loop).
  bool key_value_columns_on_distinct_ranks = false;
  bool checks_modules_and_kernels = false;  // also: cache load factors strictly between 0 and 1
  bool checks_dense_is_data_parallel = false;
  bool fixed_absolute_reservation = false;
  bool sku_aware_reservation = false;
  bool inference_and_fixed_report_ids =
      false;  // fixed percentage computes id storage for the report
  bool heterogeneous_planner = false;
  bool reservation_dry_run_note =
      false;  // in the text of a heuristical reservation that leaves nothing

  // Report (docs/mathematics/torchrec-planner.md#statistics-report).
  bool report_ssd = false;
  bool report_sharder_by_module =
      false;  // module class + "Sharder" instead of the sharder's own class
  bool report_kernel_breakdown =
      false;  // weights, optimizer state and total estimated memory by kernel
  bool report_kernel_constraints = false;

  bool operator==(const CostModel&) const = default;
};

// "torchrec-1.2", "torchrec-1.4", "torchrec-ref", "torchrec-1.5", "torchrec-1.7", "torchrec-1.8",
// "torchrec-1.9". The newest is the default.
std::span<const CostModel> cost_models();
const CostModel& default_cost_model();

// Error kNotFound with a suggestion.
Result<CostModel> find_cost_model(std::string_view name);

}  // namespace plimsoll::embedding
#pragma GCC visibility pop
