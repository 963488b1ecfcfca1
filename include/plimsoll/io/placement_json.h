// Placements of operators on devices as JSON: "plimsoll.placement/1", whatever they minimize and
// whichever search made them.
//
// Nodes stand by name; where a graph's file knows them by number, by that. Strictness as in
// model_json.h.
#pragma once

#include <string>
#include <string_view>

#include "plimsoll/core/result.h"
#include "plimsoll/study/placement_answer.h"

#pragma GCC visibility push(default)
namespace plimsoll::io {

using study::PlacedCut;
using study::PlacedStage;
using study::PlacementAnswer;
using study::PlanFailure;
using study::put_assignment;
using study::put_logical_devices;
using study::put_pipeline;
using study::take_assignment;
using study::take_pipeline;

// Is this such a document, by its "schema" or, where it has none, by a list "stages"?
bool is_placement(std::string_view text);

// Besides the shape: stages or a status; a stage has distinct devices, and torch.fx's list holds
// the same in the same order; a node is in one stage, except for torch.fx's, whose sources are
// copied. Whether the placement suits a graph is the checker's question. Errors: kSyntax, kSchema,
// kValue, kOverflow, kConflict.
Result<PlacementAnswer> read_placement(std::string_view text, std::string_view file);
std::string write_placement(const PlacementAnswer& answer);

}  // namespace plimsoll::io
#pragma GCC visibility pop
