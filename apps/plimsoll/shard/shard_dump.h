// MODEL as a dump of TorchRec's options: what `plimsoll shard` and `plimsoll check` make of it.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "io/documents/torchrec_options_json.h"
#include "plimsoll/check/options_check.h"
#include "plimsoll/embedding/balanced_search.h"
#include "plimsoll/io/plan_json.h"
#include "plimsoll/shard/planning_flags.h"

namespace plimsoll::app {

// Nothing where MODEL is not a dump. Errors: those of reading; kUsage where a flag is given that
// the dump has decided.
Result<std::optional<io::TorchrecOptions>> load_dump(const PlanningFlags& flags);

// Model, machine and batch size as far as the dump tells them, for reports.
embedding::PlanningProblem make_problem(const io::TorchrecOptions& dump);

// The options as a search wants them. Provenance: the inputs "options" (its hash) and "context"
// (the dump's own).
embedding::GivenOptions make_given(const io::TorchrecOptions& dump);

// The option, by its place in the option set, that a plan says a table takes; -1: there is none.
check::StatedOption stated_option(const io::TorchrecOptions& dump, const study::TakenOption& taken);

// The options of a plan, in table order; empty without one.
std::vector<study::TakenOption> taken_options(const io::TorchrecOptions& dump,
                                              const embedding::OptionSet& options,
                                              const embedding::PlacedProposal& plan);

}  // namespace plimsoll::app
