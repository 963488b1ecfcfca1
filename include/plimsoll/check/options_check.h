// Is a placement of given options right? The judge of plans that were made from a dump of another
// planner's options, where there is no model to compute them from.
//
// Sizes and times of shards are the dump's; that every table takes one of its own options, ranks
// suit the type, bytes fit and the rating is the stated one, is computed here, shard by shard.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "plimsoll/check/sharding_check.h"
#include "plimsoll/embedding/option_set.h"
#include "plimsoll/topology/topology.h"

namespace plimsoll::check {

// The option that a table is said to take, and the rank of every shard in shard order.
struct StatedOption {
  std::string fqn;
  std::int64_t option = -1;  // into OptionSet::options; anything may stand here
  std::vector<std::int32_t> ranks;
};

// `room` after reservation. O(shards).
CheckReport check_options(const embedding::OptionSet& options, const topology::Topology& room,
                          const std::vector<StatedOption>& plan, bool pools_ddr,
                          std::optional<double> stated_rating);

}  // namespace plimsoll::check
