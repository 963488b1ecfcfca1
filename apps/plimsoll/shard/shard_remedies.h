// Why `plimsoll shard` has no plan, in the words of its flags, and what to type instead.
#pragma once

#include <optional>
#include <string>

#include "plimsoll/core/run_context.h"
#include "plimsoll/shard/shard_flags.h"
#include "plimsoll/study/no_plan.h"
#include "study/embedding/explanation.h"
#include "study/embedding/remedies.h"
#include "study/embedding/sharding_run.h"

namespace plimsoll::app {

// Nothing where there is a plan, or where the search was stopped. Where nothing is proved, fixes
// alone, of our own search.
std::optional<study::NoPlan> explain_no_plan(const ShardFlags& flags, const ShardRequest& request,
                                             const study::ShardingRun& run,
                                             const RunContext& context);

// "8x28GiB" as 8 and a way to name another number.
struct HardwareCount {
  int now = 0;
  std::string before, after;
  std::string with(int count) const;
};
// Nothing of files, and of names without a number where that means no count.
std::optional<HardwareCount> find_hardware_count(const std::string& on);

// The same hardware in another number, where `--on` names one.
std::optional<study::ScaledProblem> find_scaled(const ShardFlags& flags);

// Constraints as the user wrote them, and remedies as flags to type. Both outlive the words.
study::ExplanationWords words_of(const ShardFlags& flags, const ShardRequest& request);

}  // namespace plimsoll::app
