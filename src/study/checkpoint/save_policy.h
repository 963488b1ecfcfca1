// Which values are kept of inputs smaller than a model: of one operator table, or of a compiled
// graph as torch's partitioner logs it.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "checkpoint/torch/graph_info.h"
#include "plimsoll/checkpoint/module_stats.h"
#include "plimsoll/core/result.h"
#include "plimsoll/core/run_context.h"
#include "study/checkpoint/save_policy_answer.h"

namespace plimsoll::study {

// By our own rules, those of plans of whole models; without a share every choice worth having.
// `share`: of the table's bytes, in [0, 1].
SavePolicyAnswer plan_operators(const checkpoint::SACStats& stats, std::optional<double> share,
                                std::string input_hash, std::uint64_t seed);
// By torch's policy for a module.
Result<SavePolicyAnswer> plan_operators_like_torch(const checkpoint::SACStats& stats, double share,
                                                   std::string input_hash, std::uint64_t seed);

struct PartitionerLog {
  checkpoint::GraphInfo graph;
  std::vector<int> saved, recomputed;  // candidates, as the run that is logged chose; may be empty
};
struct LogQuestion {
  std::string search;  // "exact", or a knapsack by torch's name
  double budget = 0;   // the log's unit; up to which a knee is looked for
  bool is_knee = false;
  bool keeps_trace = false;  // of the simulated backward
  std::string input_hash;
  std::uint64_t seed = 0;
};
// Errors of the knapsack, at its fields "memory", "runtimes" and "max_memory". Precondition: a
// search of that name.
Result<SavePolicyAnswer> plan_partitioner_log(const PartitionerLog& log,
                                              const LogQuestion& question,
                                              const SearchOptions& limits,
                                              const RunContext& context);

}  // namespace plimsoll::study
