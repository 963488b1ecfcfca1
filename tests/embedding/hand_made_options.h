// Search spaces written by hand, and what dynamic-programming proposers make of them.
#pragma once

#include <gtest/gtest.h>

#include <cstdint>
#include <string>
#include <vector>

#include "plimsoll/embedding/option_set.h"
#include "plimsoll/embedding/proposer.h"
#include "plimsoll/topology/topology.h"

namespace plimsoll::embedding {

// Numbers of one shard.
struct HandMadeOption {
  Bytes hbm = 0;
  Bytes ddr = 0;
  double perf = 0;
  std::int64_t num_shards = 1;
};
using HandMadeTables = std::vector<std::vector<HandMadeOption>>;

inline OptionSet make_options(const HandMadeTables& tables) {
  OptionSet set;
  for (std::size_t t = 0; t < tables.size(); ++t) {
    TableOptions table;
    table.name = "t" + std::to_string(t);
    table.fqn = "." + table.name;
    table.first_option = static_cast<std::int32_t>(set.options.size());
    table.num_options = static_cast<std::int32_t>(tables[t].size());
    set.tables.push_back(table);
    for (const HandMadeOption& made : tables[t]) {
      Option option;
      option.table = static_cast<std::int32_t>(t);
      option.first_run = static_cast<std::int64_t>(set.runs.size());
      option.num_runs = 1;
      set.options.push_back(option);
      ShardRun run;
      run.count = made.num_shards;
      run.columns = 1;
      run.storage = {.hbm = made.hbm, .ddr = made.ddr};
      run.perf.fwd_compute = made.perf;
      set.runs.push_back(run);
    }
  }
  return set;
}

inline topology::Topology make_devices(const std::vector<Storage>& devices,
                                       int local_world_size = 1) {
  topology::Topology topology;
  topology.world_size = static_cast<int>(devices.size());
  topology.local_world_size = local_world_size;
  topology.devices = devices;
  return topology;
}

inline SearchSpace space_of(OptionSet& options) {
  SearchSpace space;
  space.options = &options;
  return space;
}

inline Feedback feedback_of(bool partitionable, const topology::Topology* storage_constraint) {
  Feedback feedback;
  feedback.partitionable = partitionable;
  feedback.storage_constraint = storage_constraint;
  return feedback;
}

// Every proposal until the proposer is exhausted, told that each could be placed. `error` receives
// the last error of feedback, if any.
inline std::vector<Proposal> drain(Proposer& proposer, const topology::Topology& topology,
                                   std::string* error = nullptr) {
  std::vector<Proposal> proposals;
  for (const Proposal* proposal = proposer.propose(); proposal != nullptr && !proposal->empty();
       proposal = proposer.propose()) {
    proposals.push_back(*proposal);
    const auto result = proposer.feedback(feedback_of(true, &topology));
    if (result) continue;
    if (error != nullptr) {
      *error = result.error().message;
    } else {
      ADD_FAILURE() << format_error(result.error());
    }
  }
  return proposals;
}

inline std::vector<Proposal> load_and_drain(Proposer& proposer, OptionSet& options,
                                            const topology::Topology& topology,
                                            std::string* error = nullptr) {
  const auto loaded = proposer.load(space_of(options));
  EXPECT_TRUE(loaded.has_value());
  return drain(proposer, topology, error);
}

}  // namespace plimsoll::embedding
