// PipeDream's profiles as text, `graph.txt`.
//
// One node a line: `ID -- DESCRIPTION -- forward_compute_time=F, backward_compute_time=B,
// activation_size=A, parameter_size=P`, then ` -- stage_id=S` where it has a stage. Times in ms,
// sizes in whole bytes written as floating point; A may be a list `[a; b]`. Then edges, each after
// a tab: `\tID
// -- ID`. The last line may lack its end. Nodes and edges keep their order. Errors are placed at
// "file:line". Source: docs/mathematics/placements.md#pipedream.
#pragma once

#include <string>
#include <string_view>

#include "partition/profile/pipedream.h"
#include "plimsoll/core/result.h"

namespace plimsoll::io {

// Errors: kSyntax for a line of another shape, kValue, kOverflow, kConflict as validate() says.
Result<partition::PipeDreamProfile> read_pipedream_graph(std::string_view text,
                                                         std::string_view file);
// Times have three decimals, more where they need them. Precondition: a valid profile whose ids and
// descriptions have no line ends and no " -- ".
std::string write_pipedream_graph(const partition::PipeDreamProfile& profile);

}  // namespace plimsoll::io
