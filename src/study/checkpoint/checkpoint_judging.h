// What an answer claims of its checkpointing, held against the checker of the room check.
#pragma once

#include <optional>
#include <string>

#include "plimsoll/check/checkpoint_check.h"
#include "plimsoll/checkpoint/checkpoint_problem.h"
#include "plimsoll/core/result.h"
#include "plimsoll/study/checkpoint_answer.h"

namespace plimsoll::study {

// The checker's rules for plans of a problem; `is_of_upstream`: of torch's search, by its rules.
check::CheckpointCheckOptions make_check_options(const checkpoint::CheckpointProblem& problem,
                                                 bool is_of_upstream, int in_flight);

// The problem that an answer is judged on, and the one that it records.
struct JudgedCheckpointing {
  const checkpoint::ModuleStats& stats;
  std::string input_hash;    // of the statistics
  std::string machine_hash;  // of the machine document; empty: none
  const checkpoint::CheckpointProblem& problem;
  int in_flight = 1;
  const checkpoint::CheckpointProblem& recorded;
  int recorded_in_flight = 1;
  std::optional<Bytes> budget;  // instead of the answer's own
  bool is_strict = false;
};

// Error kValue at "plan": the answer has no plan, no frontier and no claim that there is none.
Result<check::CheckpointReport> judge_checkpointing(const JudgedCheckpointing& judged,
                                                    const CheckpointAnswer& answer);

}  // namespace plimsoll::study
