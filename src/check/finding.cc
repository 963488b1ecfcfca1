#include "plimsoll/check/finding.h"

#include <algorithm>
#include <iterator>
#include <utility>

namespace plimsoll::check {

std::string_view to_string(FindingCode code) {
  switch (code) {
    case FindingCode::kBoundNotProved:
      return "bound_not_proved";
    case FindingCode::kStatusMismatch:
      return "status_mismatch";
    case FindingCode::kInputsMismatch:
      return "inputs_mismatch";
    case FindingCode::kExplanationMismatch:
      return "explanation_mismatch";
    case FindingCode::kNotRepeated:
      return "not_repeated";
    case FindingCode::kHazard:
      return "hazard";
    case FindingCode::kWrongMachine:
      return "wrong_machine";
    case FindingCode::kUnknownTable:
      return "unknown_table";
    case FindingCode::kMissingTable:
      return "missing_table";
    case FindingCode::kMissingModule:
      return "missing_module";
    case FindingCode::kDuplicateTable:
      return "duplicate_table";
    case FindingCode::kWrongDeviceGroup:
      return "wrong_device_group";
    case FindingCode::kTypeNotAllowed:
      return "type_not_allowed";
    case FindingCode::kKernelNotAllowed:
      return "kernel_not_allowed";
    case FindingCode::kDenseOffDataParallel:
      return "dense_off_data_parallel";
    case FindingCode::kLoadFactor:
      return "load_factor";
    case FindingCode::kNotPassedOn:
      return "not_passed_on";
    case FindingCode::kRankOutOfRange:
      return "rank_out_of_range";
    case FindingCode::kShardOutOfTable:
      return "shard_out_of_table";
    case FindingCode::kNotCovered:
      return "not_covered";
    case FindingCode::kCoveredTwice:
      return "covered_twice";
    case FindingCode::kWrongCut:
      return "wrong_cut";
    case FindingCode::kWrongShardCount:
      return "wrong_shard_count";
    case FindingCode::kWrongGroup:
      return "wrong_group";
    case FindingCode::kColumnsShareRank:
      return "columns_share_rank";
    case FindingCode::kWidthNotDivisible:
      return "width_not_divisible";
    case FindingCode::kCannotEstimate:
      return "cannot_estimate";
    case FindingCode::kOverCapacity:
      return "over_capacity";
    case FindingCode::kColocationBroken:
      return "colocation_broken";
    case FindingCode::kRatingMismatch:
      return "rating_mismatch";
    case FindingCode::kOptionsMismatch:
      return "options_mismatch";
    case FindingCode::kTimesMismatch:
      return "times_mismatch";
    case FindingCode::kRatingAboveCap:
      return "rating_above_cap";
    case FindingCode::kRuleBroken:
      return "rule_broken";
    case FindingCode::kBillMismatch:
      return "bill_mismatch";
    case FindingCode::kReferenceMismatch:
      return "reference_mismatch";
    case FindingCode::kFrontierMismatch:
      return "frontier_mismatch";
    case FindingCode::kTransferMismatch:
      return "transfer_mismatch";
    case FindingCode::kMeanPoolingGrid:
      return "mean_pooling_grid";
    case FindingCode::kMeanPoolingMixedRows:
      return "mean_pooling_mixed_rows";
    case FindingCode::kUnevenRows:
      return "uneven_rows";
    case FindingCode::kEmptyRowShards:
      return "empty_row_shards";
    case FindingCode::kMixedColumnWidths:
      return "mixed_column_widths";
    case FindingCode::kRuntimeCannotHold:
      return "runtime_cannot_hold";
    case FindingCode::kPermutedRanks:
      return "permuted_ranks";
    case FindingCode::kColumnsAcrossHosts:
      return "columns_across_hosts";
    case FindingCode::kOptimizerStatePerBlock:
      return "optimizer_state_per_block";
    case FindingCode::kEmptyUnit:
      return "empty_unit";
    case FindingCode::kUnknownModule:
      return "unknown_module";
    case FindingCode::kUnitTwice:
      return "unit_twice";
    case FindingCode::kUnitInsideUnit:
      return "unit_inside_unit";
    case FindingCode::kNestedOutside:
      return "nested_outside";
    case FindingCode::kOrder:
      return "order";
    case FindingCode::kLeafUnit:
      return "leaf_unit";
    case FindingCode::kRepeatedUnit:
      return "repeated_unit";
    case FindingCode::kNoGradient:
      return "no_gradient";
    case FindingCode::kUnitNotAllowed:
      return "unit_not_allowed";
    case FindingCode::kContainsFsdpUnit:
      return "contains_fsdp_unit";
    case FindingCode::kNotSiblings:
      return "not_siblings";
    case FindingCode::kOperatorsMismatch:
      return "operators_mismatch";
    case FindingCode::kMissingOperators:
      return "missing_operators";
    case FindingCode::kGroupSplit:
      return "group_split";
    case FindingCode::kSavesView:
      return "saves_view";
    case FindingCode::kWrongKind:
      return "wrong_kind";
    case FindingCode::kWrongRng:
      return "wrong_rng";
    case FindingCode::kDiscarded:
      return "discarded";
    case FindingCode::kRatio:
      return "ratio";
    case FindingCode::kRecompute:
      return "recompute";
    case FindingCode::kOverBudget:
      return "over_budget";
    case FindingCode::kPeakTooLow:
      return "peak_too_low";
    case FindingCode::kTotalRecompute:
      return "total_recompute";
    case FindingCode::kPeakTooHigh:
      return "peak_too_high";
    case FindingCode::kBaseline:
      return "baseline";
    case FindingCode::kBinding:
      return "binding";
    case FindingCode::kProfile:
      return "profile";
    case FindingCode::kObjective:
      return "objective";
    case FindingCode::kDiscardsNothing:
      return "discards_nothing";
    case FindingCode::kSavesInPlaceGroup:
      return "saves_in_place_group";
    case FindingCode::kSavesLastOperator:
      return "saves_last_operator";
    case FindingCode::kChangesInputTwice:
      return "changes_input_twice";
    case FindingCode::kUnknownDevice:
      return "unknown_device";
    case FindingCode::kNotSupported:
      return "not_supported";
    case FindingCode::kPinBroken:
      return "pin_broken";
    case FindingCode::kForbiddenDevice:
      return "forbidden_device";
    case FindingCode::kColourSplit:
      return "colour_split";
    case FindingCode::kOverMemory:
      return "over_memory";
    case FindingCode::kNotContiguous:
      return "not_contiguous";
    case FindingCode::kNoLineOfDevices:
      return "no_line_of_devices";
    case FindingCode::kLoadMismatch:
      return "load_mismatch";
    case FindingCode::kTasksWait:
      return "tasks_wait";
    case FindingCode::kLatencyMismatch:
      return "latency_mismatch";
    case FindingCode::kWrongDevices:
      return "wrong_devices";
    case FindingCode::kTimeMismatch:
      return "time_mismatch";
    case FindingCode::kMemoryMismatch:
      return "memory_mismatch";
    case FindingCode::kStatedMismatch:
      return "stated_mismatch";
    case FindingCode::kNotPlaced:
      return "not_placed";
    case FindingCode::kMissingSource:
      return "missing_source";
    case FindingCode::kMappingMismatch:
      return "mapping_mismatch";
    case FindingCode::kPartitionsWait:
      return "partitions_wait";
    case FindingCode::kPathMismatch:
      return "path_mismatch";
    case FindingCode::kEmptyStage:
      return "empty_stage";
    case FindingCode::kDeviceTwice:
      return "device_twice";
    case FindingCode::kMixedClasses:
      return "mixed_classes";
    case FindingCode::kUnevenMicrobatches:
      return "uneven_microbatches";
    case FindingCode::kUnpricedReplicas:
      return "unpriced_replicas";
    case FindingCode::kInFlightMismatch:
      return "in_flight_mismatch";
    case FindingCode::kBatchMismatch:
      return "batch_mismatch";
    case FindingCode::kUnknownOperator:
      return "unknown_operator";
    case FindingCode::kOperatorTwice:
      return "operator_twice";
    case FindingCode::kOperatorMissing:
      return "operator_missing";
    case FindingCode::kBadDegree:
      return "bad_degree";
    case FindingCode::kUnknownChoice:
      return "unknown_choice";
    case FindingCode::kBackwardEdge:
      return "backward_edge";
    case FindingCode::kTooManyDevices:
      return "too_many_devices";
    case FindingCode::kTooManyMicrobatches:
      return "too_many_microbatches";
    case FindingCode::kValueMismatch:
      return "value_mismatch";
    case FindingCode::kStageMismatch:
      return "stage_mismatch";
    case FindingCode::kObjectiveMismatch:
      return "objective_mismatch";
    case FindingCode::kShape:
      return "shape";
    case FindingCode::kMissing:
      return "missing";
    case FindingCode::kMoveMismatch:
      return "move_mismatch";
  }
  return "";
}

std::string_view to_string(Severity severity) {
  switch (severity) {
    case Severity::kViolation:
      return "violation";
    case Severity::kHazard:
      return "hazard";
    case Severity::kWarning:
      return "warning";
  }
  return "";
}

std::string_view to_string(FindingUnit::Kind kind) {
  switch (kind) {
    case FindingUnit::kRank:
      return "rank";
    case FindingUnit::kDevice:
      return "device";
    case FindingUnit::kStage:
      return "stage";
    case FindingUnit::kLayer:
      return "layer";
  }
  return "";
}

std::optional<FindingUnit> find_unit(FindingUnit::Kind kind, std::optional<int> number) {
  if (!number) return std::nullopt;
  return FindingUnit{kind, *number};
}

std::string to_text(const Finding& finding) {
  std::string text{to_string(finding.severity)};
  text += ' ';
  text += to_string(finding.code);
  if (!finding.place.empty()) text += ", " + finding.place;
  if (finding.unit) {
    text += ", ";
    text += to_string(finding.unit->kind);
    text += ' ' + std::to_string(finding.unit->number);
  }
  return text + ": " + finding.message;
}

bool CheckReport::is_right() const {
  return std::none_of(findings.begin(), findings.end(), [](const Finding& finding) {
    return finding.severity == Severity::kViolation;
  });
}

std::vector<Finding> CheckReport::of(Severity severity) const {
  std::vector<Finding> chosen;
  std::copy_if(findings.begin(), findings.end(), std::back_inserter(chosen),
               [severity](const Finding& finding) { return finding.severity == severity; });
  return chosen;
}

void CheckReport::violate(FindingCode code, std::string message) {
  findings.push_back({code, "", std::nullopt, "", "", std::move(message)});
}

void CheckReport::leave_open(std::string claim) {
  findings.push_back(
      {FindingCode::kNotRepeated, "", std::nullopt, "", "", std::move(claim), Severity::kWarning});
}

void CheckReport::add(std::vector<Finding> more) {
  findings.insert(findings.end(), std::make_move_iterator(more.begin()),
                  std::make_move_iterator(more.end()));
}

void put_explanation(CertificateJudgement judged, bool is_strict, CheckReport& report) {
  if (judged.status == CertificateStatus::kRefuted ||
      (is_strict && judged.status == CertificateStatus::kNotRepeated)) {
    report.violate(FindingCode::kExplanationMismatch, judged.reason);
  }
  report.explanation = std::move(judged);
}

}  // namespace plimsoll::check
