#include "plimsoll/check/checkpoint_check.h"

namespace plimsoll::check {

std::string_view to_string(CheckpointViolationCode code) {
  switch (code) {
    case CheckpointViolationCode::kEmptyUnit:
      return "empty_unit";
    case CheckpointViolationCode::kUnknownModule:
      return "unknown_module";
    case CheckpointViolationCode::kUnitTwice:
      return "unit_twice";
    case CheckpointViolationCode::kUnitInsideUnit:
      return "unit_inside_unit";
    case CheckpointViolationCode::kNestedOutside:
      return "nested_outside";
    case CheckpointViolationCode::kOrder:
      return "order";
    case CheckpointViolationCode::kLeafUnit:
      return "leaf_unit";
    case CheckpointViolationCode::kRepeatedUnit:
      return "repeated_unit";
    case CheckpointViolationCode::kNoGradient:
      return "no_gradient";
    case CheckpointViolationCode::kUnitNotAllowed:
      return "unit_not_allowed";
    case CheckpointViolationCode::kContainsFsdpUnit:
      return "contains_fsdp_unit";
    case CheckpointViolationCode::kNotSiblings:
      return "not_siblings";
    case CheckpointViolationCode::kOperatorsMismatch:
      return "operators_mismatch";
    case CheckpointViolationCode::kMissingOperators:
      return "missing_operators";
    case CheckpointViolationCode::kGroupSplit:
      return "group_split";
    case CheckpointViolationCode::kSavesView:
      return "saves_view";
    case CheckpointViolationCode::kWrongKind:
      return "wrong_kind";
    case CheckpointViolationCode::kWrongRng:
      return "wrong_rng";
    case CheckpointViolationCode::kDiscarded:
      return "discarded";
    case CheckpointViolationCode::kRatio:
      return "ratio";
    case CheckpointViolationCode::kRecompute:
      return "recompute";
    case CheckpointViolationCode::kOverBudget:
      return "over_budget";
    case CheckpointViolationCode::kPeakTooLow:
      return "peak_too_low";
    case CheckpointViolationCode::kTotalRecompute:
      return "total_recompute";
    case CheckpointViolationCode::kPeakTooHigh:
      return "peak_too_high";
    case CheckpointViolationCode::kBaseline:
      return "baseline";
    case CheckpointViolationCode::kBinding:
      return "binding";
    case CheckpointViolationCode::kProfile:
      return "profile";
    case CheckpointViolationCode::kObjective:
      return "objective";
    case CheckpointViolationCode::kWrongInput:
      return "inputs_mismatch";
    case CheckpointViolationCode::kBoundNotProved:
      return "bound_not_proved";
    case CheckpointViolationCode::kExplanationMismatch:
      return "explanation_mismatch";
    case CheckpointViolationCode::kHazard:
      return "hazard";
  }
  return "";
}

std::string_view to_string(CheckpointHazardCode code) {
  switch (code) {
    case CheckpointHazardCode::kDiscardsNothing:
      return "discards_nothing";
    case CheckpointHazardCode::kSavesInPlaceGroup:
      return "saves_in_place_group";
    case CheckpointHazardCode::kSavesLastOperator:
      return "saves_last_operator";
    case CheckpointHazardCode::kChangesInputTwice:
      return "changes_input_twice";
  }
  return "";
}

}  // namespace plimsoll::check
