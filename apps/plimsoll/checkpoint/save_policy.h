// `checkpoint` of inputs smaller than a model: one operator table, or the knapsack of a compiled
// graph as torch's partitioner logs it. Decided is which values are kept.
#pragma once

#include <string>
#include <string_view>

#include "plimsoll/common.h"
#include "plimsoll/core/result.h"
#include "plimsoll/core/run_context.h"
#include "study/checkpoint/save_policy_answer.h"

namespace plimsoll::app {

struct SavePolicyFlags {
  std::string input;   // the argument
  std::string budget;  // "0.5" or "50%"; empty: not given
  bool is_knee = false;
  std::string search = "exact";
  bool prints_profile = false;
  std::uint64_t seed = 0;
};

// An operator table, by torch's policy problem (--search torch) or by our own rules (exact);
// without a budget every choice worth having. Errors kUsage at a flag, and those of the reader.
Result<study::SavePolicyAnswer> plan_operator_table(const std::string& text,
                                                    const SavePolicyFlags& flags);

// A partitioner's log, by a knapsack. Errors as above.
Result<study::SavePolicyAnswer> plan_aot_partition(const std::string& text,
                                                   const SavePolicyFlags& flags,
                                                   const RunContext& context);

// The answer for people, without the line that says how the search ended.
struct SavePolicyText {
  std::string head;
  std::string body;
};
SavePolicyText describe_save_policy(const study::SavePolicyAnswer& answer,
                                    const SavePolicyFlags& flags);

}  // namespace plimsoll::app
