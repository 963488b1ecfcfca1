// `check` of what an answer without a plan explains: it is explained again, in the same words.
#pragma once

#include <string>

#include "plimsoll/check/certificate_status.h"
#include "plimsoll/check/checkpoint_check.h"
#include "plimsoll/check/placement_check.h"
#include "plimsoll/check/sharding_check.h"
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

// A violation where it is refuted, and under `is_strict` where it is not repeated.
void put_explanation(check::CertificateJudgement judged, bool is_strict,
                     check::CheckReport& report);
void put_explanation(check::CertificateJudgement judged, bool is_strict,
                     check::CheckpointReport& report);
void put_explanation(check::CertificateJudgement judged, bool is_strict,
                     check::PlacementReport& report);

}  // namespace plimsoll::app
