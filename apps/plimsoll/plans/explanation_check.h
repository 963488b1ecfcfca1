// `check` of what an answer without a plan explains: it is explained again, in the same words.
#pragma once

#include <string>

#include "plimsoll/check/certificate_status.h"
#include "plimsoll/checkpoint/checkpoint_flags.h"
#include "plimsoll/partition/partition_flags.h"
#include "plimsoll/shard/planning_flags.h"
#include "plimsoll/study/checkpoint_answer.h"
#include "plimsoll/study/placement_answer.h"
#include "plimsoll/study/sharding_answer.h"

namespace plimsoll::app {

struct PartitionCase;

// Absent where the answer explains nothing. Of a sharding plan the constraints are those of
// `planning`; what the plan records of its search wins over flags.
check::CertificateJudgement judge_explanation(const PlanningFlags& planning,
                                              const study::ShardingAnswer& answer);
// `recorded`: flags as the plan records them.
check::CertificateJudgement judge_explanation(const checkpoint::ModuleStats& stats,
                                              const CheckpointFlags& recorded,
                                              const study::CheckpointAnswer& answer);
check::CertificateJudgement judge_explanation(const PartitionCase& made,
                                              const PartitionFlags& flags,
                                              const study::PlacementAnswer& answer);

}  // namespace plimsoll::app
