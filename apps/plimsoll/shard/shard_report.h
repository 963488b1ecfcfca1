// What `plimsoll shard` says: text for people, and the answer's document.
#pragma once

#include <optional>
#include <string>

#include "plimsoll/shard/shard_flags.h"
#include "plimsoll/study/sharding_answer.h"
#include "study/embedding/sharding_run.h"

namespace plimsoll::app {

struct ReportedRun : study::ShardingRun {
  std::optional<study::NoPlan> no_plan;  // shard_remedies.h
  double seconds = 0;
};

// "mlperf-dlrm-dcnv2 on 2 x dgx-h100 (16 GPUs), 4,096 samples per GPU, TorchRec 1.9 cost model".
std::string title_of(const ShardFlags& flags, const ShardRequest& request);

// For people: what was planned on what, what was gained and how good it is; then the tables, every
// one and every rank with -v.
struct ShardText {
  std::string head, body;
};
ShardText describe(const ShardFlags& flags, const ShardRequest& request, const ReportedRun& run);

study::ShardingAnswer make_answer(const ShardFlags& flags, const ShardRequest& request,
                                  const ReportedRun& run);

}  // namespace plimsoll::app
