// Which values are kept and which are computed again, of one operator table or of a compiled graph,
// as JSON: "plimsoll.save_policy/1". Written only.
#pragma once

#include <string>

#include "study/checkpoint/save_policy_answer.h"

namespace plimsoll::io {

using study::SavedValue;
using study::SavePolicyAnswer;
using study::SavePolicyPoint;
using study::SavePolicyPrediction;
using study::SavePolicyStep;

std::string write_save_policy(const SavePolicyAnswer& answer);

}  // namespace plimsoll::io
