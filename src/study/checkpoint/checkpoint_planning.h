// Plans of activation checkpointing for whatever is asked: one budget, an overhead, the knee, or
// every budget's least time; by our own search, by mixed-integer programming or by torch's.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "math/milp.h"
#include "plimsoll/checkpoint/checkpoint_problem.h"
#include "plimsoll/checkpoint/variant.h"
#include "plimsoll/core/result.h"
#include "plimsoll/core/run_context.h"
#include "plimsoll/study/checkpoint_answer.h"

namespace plimsoll::study {

enum class CheckpointSearch {
  kExact,  // dynamic programming over slack, or kMilp where the order of return asks for it
  kMilp,
  kTorch,  // torch's sac_milp, and its policy module by module; for a budget alone
};
std::string_view to_string(CheckpointSearch search);  // "exact", "milp", "torch"

// At most one of budget, overhead and knee; the whole frontier without any.
struct CheckpointQuestion {
  std::optional<Bytes> budget;        // of the peak
  std::optional<double> overhead_ms;  // the least memory whose recomputation takes at most this
  bool is_knee = false;               // of the frontier
  int in_flight = 1;  // >= 1, microbatches of a pipeline stage; above 1 for a budget
  CheckpointSearch search = CheckpointSearch::kExact;
  std::string variant = std::string(checkpoint::default_variant().name);  // of kTorch
  std::int64_t effort = -1;  // nodes of each program of kMilp, recorded; < 0: kMilpNodes
  std::uint64_t seed = 0;    // recorded
};

// Where a program of kMilp ends unless told otherwise (docs/checkpoint.md).
inline constexpr std::int64_t kMilpNodes = 2000;

// What is known before anything is searched.
struct CheckpointCase {
  checkpoint::ModuleStats stats;  // with fits where the search reads them
  std::string input_hash;         // of the statistics as given
  checkpoint::CheckpointProblem problem;
  Bytes baseline = 0;     // bytes at the peak without checkpointing, by the memory model
  double compute_ms = 0;  // forward and backward
};

// Errors of make_module_tree() and make_checkpoint_problem().
Result<CheckpointCase> make_checkpoint_case(checkpoint::ModuleStats stats, std::string input_hash,
                                            const checkpoint::MemoryModel& model);

Result<CheckpointAnswer> plan_checkpointing(const CheckpointCase& made,
                                            const CheckpointQuestion& question,
                                            const math::MilpOptions& limits,
                                            const RunContext& context);

}  // namespace plimsoll::study
