// Which values are kept and which are computed again, of one operator table or of a compiled graph.
//
// Memory and time are in the units of the input: bytes and milliseconds of an operator table; of a
// partitioner's log shares of what can be saved, and what its estimator counts (FLOPs unless
// configured).
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "plimsoll/study/answer.h"

namespace plimsoll::study {

struct SavedValue {
  std::string name;  // of the operator, or of the graph's node
  double memory = 0;
  double runtime = 0;
  bool save = false;
  std::optional<bool> was_saved;  // by the run that the log is of
  bool operator==(const SavedValue&) const = default;
};

struct SavePolicyPrediction {
  double saved_memory = 0;
  double saved_runtime = 0;
  double recompute_runtime = 0;
  double total_memory = 0;                     // of all values
  double total_runtime = 0;                    // as above
  std::optional<double> backward_peak_memory;  // of the simulated backward pass
  bool operator==(const SavePolicyPrediction&) const = default;
};

struct SavePolicyPoint {
  double memory = 0;  // saved
  double recompute_runtime = 0;
  bool operator==(const SavePolicyPoint&) const = default;
};

// One step of the simulated backward pass.
struct SavePolicyStep {
  std::string event;  // "start", "drop_kept", "recompute", "recompute_for_user", "drop"
  std::string name;   // of the value; empty at the start
  double memory = 0;  // after it
  bool operator==(const SavePolicyStep&) const = default;
};

struct SavePolicyAnswer : Answer<std::vector<SavedValue>> {  // [values] in the input's order
  std::string input_hash;                                    // hexadecimal
  std::optional<double> memory_budget;                       // share, or memory of the log's unit
  std::optional<SavePolicyPrediction> predicted;             // present iff there is a plan
  std::vector<SavePolicyPoint> frontier;                     // by memory
  std::vector<SavePolicyStep> trace;
};

}  // namespace plimsoll::study
