// What a checkpointing plan states besides its units, held against what the checker computes.
#pragma once

#include "check/checkpoint/checkpoint_rules.h"

namespace plimsoll::check {

// What it says of its making and is not so.
void check_making(const StatedCheckpointing& stated, Findings& findings);

// Peak, baseline, binding, profile and objective, and the above.
void check_stated(const JudgedCheckpoint& given, const CheckpointReport& report,
                  Findings& findings);

// The certificate of a plan, which `is_right` except for it.
CertificateJudgement judge_plan_claims(const JudgedCheckpoint& given,
                                       const CheckpointReport& report, bool is_right);

// That nothing fits the budget.
CertificateJudgement judge_no_plan(const JudgedCheckpoint& given);

// Every budget's least time.
CertificateJudgement judge_frontier(const JudgedCheckpoint& given);

}  // namespace plimsoll::check
