// The flags of `plimsoll shard`, and what they mean to the two searches.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "io/documents/torchrec_options_json.h"
#include "plimsoll/common.h"
#include "plimsoll/shard/planning_flags.h"
#include "study/embedding/sharding_run.h"

namespace CLI {
class App;
}

namespace plimsoll::app {

struct ShardFlags {
  GlobalFlags global;
  PlanningFlags planning;
  std::string search;  // balanced or torchrec; empty: balanced, except for a stored plan
  std::string objective;
  std::string step_model;
  std::string rules;
  std::string widths;
  bool pools_ddr = false;
  bool strict_numerics = false;
  bool is_frontier = false;
  std::string replay;
  std::string proposer;
  std::string partitioner;
  std::string perf_model;
  bool balance_modules = false;
  bool prints_stats = false;
  bool prints_plan = false;
  std::string stats_file;
  std::string output;
  std::string stored_plan;
  std::string time_limit;
  std::int64_t effort = -1;
  double tolerance = 1e-6;
  std::string decided_twice;  // a flag that stands beside --replay, whose plan decides it; or empty

  bool is_balanced() const { return search == "balanced"; }
};

void add_shard_flags(CLI::App& command, ShardFlags& flags);
std::string find_decided_twice(const CLI::App& command);

// What is asked of the searches, in full.
struct ShardRequest : study::ShardingQuestion {
  std::optional<io::TorchrecOptions> dump;  // where MODEL is one
  std::string rules;                        // of `balanced`, as text
};

// A plan that says what it was made with: options by name, and where it was stopped.
struct RecordedRun {
  std::map<std::string, std::string> options;
  std::map<std::string, std::string> inputs;
  std::string stopped_at;
  std::uint64_t seed = 0;
};

// Fills `flags.search`. With --replay every flag of the search is the plan's, so that none may be
// given, and the inputs must be those that it was made from. Errors name flags.
Result<ShardRequest> make_shard_request(ShardFlags& flags);

// The request of a plan that says how it was made. Errors as with --replay of it.
Result<ShardRequest> make_recorded_request(const RecordedRun& run, ShardFlags& flags);

// The balanced search's options that a plan records, rules included.
Result<embedding::BalancedOptions> read_recorded_balance(
    const std::map<std::string, std::string>& recorded);

}  // namespace plimsoll::app
