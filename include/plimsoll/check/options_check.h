// Is a placement of given options right? The checker of plans that were made from a dump of another
// planner's options, where there is no model to compute them from.
//
// Sizes and times of shards are the dump's; that every table takes one of its own options, shards
// tile the table, ranks suit the type, bytes fit, the rating is the stated one and the plan beside
// the options says the same as they do, is computed here, shard by shard. Hazards and the rules of
// shards are those of plans of a model (sharding_check.h), as far as the dump tells: what a sharder
// allows and which optimizer a table has is not known.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "plimsoll/check/sharding_check.h"
#include "plimsoll/embedding/option_set.h"
#include "plimsoll/topology/topology.h"

#pragma GCC visibility push(default)
namespace plimsoll::check {

// The option that a table is said to take, and the rank of every shard in shard order.
struct StatedOption {
  std::string fqn;
  std::int64_t option = -1;  // into OptionSet::options; anything may stand here
  std::vector<std::int32_t> ranks;
  std::optional<std::string> fault;  // what else it says of the option that the dump does not
};

// What a dump tells.
struct GivenSpace {
  const embedding::OptionSet& options;
  const embedding::Model& model;           // modules and tables that the options name
  const topology::Topology& room;          // after reservation
  const embedding::CostModel& cost_model;  // the release's
};

// `plan` may be null; under `strict` hazards are violations, except for states of the optimizer per
// block, which are under `strict_numerics`. O(shards).
ShardingReport check_options(const GivenSpace& space, const std::vector<StatedOption>& options,
                             const embedding::ShardingPlan* plan, bool pools_ddr, bool strict,
                             bool strict_numerics, std::optional<double> stated_rating);

}  // namespace plimsoll::check
#pragma GCC visibility pop
