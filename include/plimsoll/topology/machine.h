// Machines of one kind in every size: what `--on` calls them, and which sizes there are.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "plimsoll/core/result.h"

#pragma GCC visibility push(default)
namespace plimsoll::topology {

// One that find_preset() reads (presets.h): so many ranks of a node ("dgx-h100:2", or "dgx-h100@4"
// where they are not whole nodes), of a planner's preset ("torchrec-defaults:16"), an accelerator
// ("4xh100-sxm") or a memory ("16x40GiB"). Errors: those of find_preset.
Result<std::string> name_machine(std::string_view kind, int ranks);

// The sizes up to `most` ranks, ascending: within a host every number of ranks, then whole hosts,
// and, of nodes of several hosts, beyond one of them whole nodes. Hosts of a memory have 8 ranks;
// all ranks of an accelerator without a node stand in one host. Errors: those of find_preset.
Result<std::vector<int>> machine_sizes(std::string_view kind, int most);

// The first node preset with this accelerator ("dgx-h100" of "h100-sxm"), else the accelerator's
// own name. Errors: those of find_preset.
Result<std::string> kind_of_accelerator(std::string_view accelerator);

}  // namespace plimsoll::topology
#pragma GCC visibility pop
