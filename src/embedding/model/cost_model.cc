#include "plimsoll/embedding/cost_model.h"

#include <algorithm>
#include <array>
#include <vector>

#include "core/suggest.h"

namespace plimsoll::embedding {
namespace {

CostModel make_1_2() {
  CostModel m;
  m.name = "torchrec-1.2";
  m.twrw_crosses_at_inter_host_bw = true;
  m.mtia_is_host = true;
  m.zero_cap_is_default = true;
  m.heterogeneous_planner = true;
  return m;
}

CostModel make_1_4() {
  CostModel m = make_1_2();
  m.name = "torchrec-1.4";
  m.twrw_crosses_at_inter_host_bw = false;
  m.mtia_is_host = false;
  m.key_value_cache = true;
  m.virtual_tables = true;
  m.managed_collision_key_value = true;
  m.poolings_on_option = true;
  return m;
}

// The reference revision: 1.4 with buckets, without poolings on the option.
CostModel make_ref() {
  CostModel m = make_1_4();
  m.name = "torchrec-ref";
  m.buckets = true;
  m.poolings_on_option = false;
  return m;
}

CostModel make_1_5() {
  CostModel m = make_1_4();
  m.name = "torchrec-1.5";
  m.input_dist = true;
  m.buckets = true;
  m.feature_processed_row_types = true;
  m.key_value_columns_on_distinct_ranks = true;
  return m;
}

CostModel make_1_7() {
  CostModel m = make_1_5();
  m.name = "torchrec-1.7";
  m.zero_cap_is_default = false;
  m.heterogeneous_planner = false;
  m.pooled_output_cap = true;
  m.twrw_floor_groups = true;
  m.twrw_sequence_inter_uses_whole_batch = true;
  m.inference_everywhere = true;
  m.inference_prefetch = true;
  m.key_value_on_ssd = true;
  m.unknown_kernel_is_value_error = true;
  m.ssd_tier = true;
  m.pods = true;
  m.key_value_needs_ssd = true;
  m.checks_modules_and_kernels = true;
  m.fixed_absolute_reservation = true;
  m.inference_and_fixed_report_ids = true;
  m.reservation_dry_run_note = true;
  m.report_ssd = true;
  m.report_sharder_by_module = true;
  m.report_kernel_constraints = true;
  return m;
}

CostModel make_1_8() {
  CostModel m = make_1_7();
  m.name = "torchrec-1.8";
  m.negative_cost_is_error = true;
  m.fewer_buckets_than_ranks_is_error = true;
  m.managed_collision_buckets = true;
  m.dram_ssd_virtual_table = true;
  m.checks_dense_is_data_parallel = true;
  m.report_kernel_breakdown = true;
  return m;
}

CostModel make_1_9() {
  CostModel m = make_1_8();
  m.name = "torchrec-1.9";
  m.tpu = true;
  m.pec = true;
  m.sku_aware_reservation = true;
  return m;
}

}  // namespace

std::span<const CostModel> cost_models() {
  static const std::array models{make_1_2(), make_1_4(), make_ref(), make_1_5(),
                                 make_1_7(), make_1_8(), make_1_9()};
  return models;
}

const CostModel& default_cost_model() { return cost_models().back(); }

Result<CostModel> find_cost_model(std::string_view name) {
  const auto models = cost_models();
  const auto found = std::find_if(models.begin(), models.end(),
                                  [name](const CostModel& m) { return m.name == name; });
  if (found != models.end()) return *found;
  std::vector<std::string> names;
  for (const CostModel& m : models) names.push_back(m.name);
  return fail(ErrorCode::kNotFound, "", "no cost model '" + std::string(name) + "'",
              suggest(name, names));
}

}  // namespace plimsoll::embedding
