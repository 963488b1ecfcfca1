// What `plimsoll shard` says: text for people, and the answer's document.
#pragma once

#include <string>
#include <vector>

#include "plimsoll/shard_flags.h"
#include "plimsoll/study/sharding_answer.h"
#include "study/embedding/sharding_run.h"

namespace plimsoll::app {

struct ShardRun : study::ShardingRun {
  std::vector<std::string> remedies;  // where there is no plan (shard_remedies.h)
  double seconds = 0;
};

// For people: what was planned on what, what was gained and how good it is; then the tables, every
// one and every rank with -v.
struct ShardText {
  std::string head, body;
};
ShardText describe(const ShardFlags& flags, const ShardRequest& request, const ShardRun& run);

study::ShardingAnswer make_answer(const ShardFlags& flags, const ShardRequest& request,
                                  const ShardRun& run);

}  // namespace plimsoll::app
