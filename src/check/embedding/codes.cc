#include "plimsoll/check/sharding_check.h"

namespace plimsoll::check {

std::string_view to_string(ViolationCode code) {
  switch (code) {
    case ViolationCode::kWrongMachine:
      return "wrong_machine";
    case ViolationCode::kUnknownTable:
      return "unknown_table";
    case ViolationCode::kMissingTable:
      return "missing_table";
    case ViolationCode::kMissingModule:
      return "missing_module";
    case ViolationCode::kDuplicateTable:
      return "duplicate_table";
    case ViolationCode::kWrongDeviceGroup:
      return "wrong_device_group";
    case ViolationCode::kTypeNotAllowed:
      return "type_not_allowed";
    case ViolationCode::kKernelNotAllowed:
      return "kernel_not_allowed";
    case ViolationCode::kDenseOffDataParallel:
      return "dense_off_data_parallel";
    case ViolationCode::kLoadFactor:
      return "load_factor";
    case ViolationCode::kNotPassedOn:
      return "not_passed_on";
    case ViolationCode::kRankOutOfRange:
      return "rank_out_of_range";
    case ViolationCode::kShardOutOfTable:
      return "shard_out_of_table";
    case ViolationCode::kNotCovered:
      return "not_covered";
    case ViolationCode::kCoveredTwice:
      return "covered_twice";
    case ViolationCode::kWrongCut:
      return "wrong_cut";
    case ViolationCode::kWrongShardCount:
      return "wrong_shard_count";
    case ViolationCode::kWrongGroup:
      return "wrong_group";
    case ViolationCode::kColumnsShareRank:
      return "columns_share_rank";
    case ViolationCode::kWidthNotDivisible:
      return "width_not_divisible";
    case ViolationCode::kCannotEstimate:
      return "cannot_estimate";
    case ViolationCode::kOverCapacity:
      return "over_capacity";
    case ViolationCode::kColocationBroken:
      return "colocation_broken";
    case ViolationCode::kRatingMismatch:
      return "rating_mismatch";
    case ViolationCode::kTimesMismatch:
      return "times_mismatch";
    case ViolationCode::kRatingAboveCap:
      return "rating_above_cap";
    case ViolationCode::kRuleBroken:
      return "rule_broken";
    case ViolationCode::kBoundNotProved:
      return "bound_not_proved";
    case ViolationCode::kStatusMismatch:
      return "status_mismatch";
    case ViolationCode::kBillMismatch:
      return "bill_mismatch";
    case ViolationCode::kReferenceMismatch:
      return "reference_mismatch";
    case ViolationCode::kFrontierMismatch:
      return "frontier_mismatch";
    case ViolationCode::kInputsMismatch:
      return "inputs_mismatch";
    case ViolationCode::kOptionsMismatch:
      return "options_mismatch";
    case ViolationCode::kTransferMismatch:
      return "transfer_mismatch";
    case ViolationCode::kExplanationMismatch:
      return "explanation_mismatch";
    case ViolationCode::kHazard:
      return "hazard";
    case ViolationCode::kNotRepeated:
      return "not_repeated";
  }
  return "";
}

std::string_view to_string(HazardCode code) {
  switch (code) {
    case HazardCode::kMeanPoolingGrid:
      return "mean_pooling_grid";
    case HazardCode::kMeanPoolingMixedRows:
      return "mean_pooling_mixed_rows";
    case HazardCode::kMixedColumnWidths:
      return "mixed_column_widths";
    case HazardCode::kOptimizerStatePerBlock:
      return "optimizer_state_per_block";
    case HazardCode::kUnevenRows:
      return "uneven_rows";
    case HazardCode::kEmptyRowShards:
      return "empty_row_shards";
    case HazardCode::kRuntimeCannotHold:
      return "runtime_cannot_hold";
    case HazardCode::kPermutedRanks:
      return "permuted_ranks";
    case HazardCode::kColumnsAcrossHosts:
      return "columns_across_hosts";
  }
  return "";
}

}  // namespace plimsoll::check
