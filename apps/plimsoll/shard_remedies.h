// What to type instead where `plimsoll shard` has no plan.
#pragma once

#include <string>
#include <vector>

#include "plimsoll/core/run_context.h"
#include "plimsoll/shard_flags.h"
#include "study/embedding/sharding_run.h"

namespace plimsoll::app {

// Sentences that name flags, the first first. Of memory, ranks and the reserved share each was
// tried by a short search that found a plan with it; of what the search names as causes it says
// which file or flag holds them. Empty where there is a plan, or no proof that there is none.
std::vector<std::string> find_remedies(const ShardFlags& flags, const ShardRequest& request,
                                       const study::ShardingRun& run, const RunContext& context);

}  // namespace plimsoll::app
