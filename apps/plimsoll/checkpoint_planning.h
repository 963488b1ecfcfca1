// The plans that `plimsoll checkpoint` makes of a model's statistics.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "plimsoll/checkpoint/checkpoint_problem.h"
#include "plimsoll/checkpoint/sac_milp.h"
#include "plimsoll/checkpoint_flags.h"
#include "plimsoll/core/run_context.h"
#include "plimsoll/io/checkpoint_policy_json.h"
#include "plimsoll/math/milp.h"

namespace plimsoll::app {

// What is asked, as the flags of these names say it; at most one of budget, overhead and knee, and
// the whole frontier without any.
struct CheckpointQuestion {
  CheckpointFlags model;
  std::string budget;    // "1.6GiB" or "60%"
  std::string overhead;  // "12.5" ms or "5%"
  bool is_knee = false;
  std::string search = "exact";
  std::string variant = std::string(checkpoint::default_variant().name);
  std::uint64_t seed = 0;
  std::int64_t effort = -1;  // nodes of each program of --search milp; < 0: kMilpNodes
};

// Where a program of --search milp ends unless told otherwise (docs/checkpoint.md).
inline constexpr std::int64_t kMilpNodes = 2000;

// What is known before anything is searched.
struct CheckpointCase {
  checkpoint::ModuleStats stats;  // with fits where they are asked for (priced_stats)
  std::string input_hash;         // of the statistics as given, hexadecimal
  checkpoint::CheckpointProblem problem;
  Bytes baseline = 0;     // bytes at the peak without checkpointing, by the memory model
  double compute_ms = 0;  // forward and backward
};

Result<CheckpointCase> make_checkpoint_case(checkpoint::ModuleStats stats,
                                            const CheckpointFlags& flags, std::string_view search);

Result<io::CheckpointAnswer> plan_checkpointing(const CheckpointCase& made,
                                                const CheckpointQuestion& question,
                                                const math::MilpOptions& limits,
                                                const RunContext& context);

}  // namespace plimsoll::app
