// What `checkpoint` and `check` ask of module statistics.
#pragma once

#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "plimsoll/checkpoint/checkpoint_problem.h"
#include "plimsoll/checkpoint/module_stats.h"
#include "plimsoll/core/result.h"
#include "study/checkpoint/policy_advice.h"

namespace CLI {
class App;
}

namespace plimsoll::app {

struct CheckpointFlags {
  std::string peak;   // torch, step; empty: step where the statistics have its totals
  std::string costs;  // fit, operators; empty: operators where the statistics have tables
  int world_size = 1;
  std::vector<std::string> ac_units;
  std::vector<std::string> fsdp_units;
  std::vector<std::string> repairs;
  double unit_overhead_ms = 0;
  std::string optimizer_bytes;
  bool fsdp_buffers = false;
  double param_dtype_ratio = 1;
  double reduce_dtype_ratio = 1;
  int max_segment_length = 1;
  bool nested_units = false;
  int in_flight = 1;
  std::string machine;  // a machine document or the name of one
};

void add_checkpoint_flags(CLI::App& command, CheckpointFlags& flags);

// A file ("-": standard input) or the name of shipped statistics.
Result<checkpoint::ModuleStats> load_module_stats(const std::string& name);

// The statistics with the times of the flags' machine, and what those rest on: "operators published
// (h100-sxm5-80gb)"; without a machine as they are. Errors: those of load_operator_times.
struct TimedStats {
  checkpoint::ModuleStats stats;
  std::string times;
  std::string machine_hash;  // of the machine document
};
Result<TimedStats> timed_stats(checkpoint::ModuleStats stats, const CheckpointFlags& flags);

// The statistics as the search of that name prices them: where it reads fits, modules recorded
// without one have that of their operator table or curve (missing_fits.h).
checkpoint::ModuleStats priced_stats(checkpoint::ModuleStats stats, const CheckpointFlags& flags,
                                     std::string_view search);

// Defaults that depend on the statistics are filled in. Errors carry the flag as their place.
Result<checkpoint::MemoryModel> make_memory_model(const CheckpointFlags& flags,
                                                  const checkpoint::ModuleStats& stats);

// The same, made into a problem. Errors as above.
Result<checkpoint::CheckpointProblem> make_problem(const CheckpointFlags& flags,
                                                   const checkpoint::ModuleStats& stats);

// Options that a plan records (study::record_of), where `flags` does not say otherwise.
Result<void> fill_from_provenance(const std::map<std::string, std::string>& options,
                                  CheckpointFlags& flags);

// The library names an option's field; people gave a flag.
Error with_flag(Error error);
// "--world-size 8" of ("world_size", "8"); of a repair, which is named as such, "--repair NAME".
std::string flag_text(const std::string& field, const std::string& value);
study::PolicyWords policy_words();  // by flag_text

// "1.6GiB", or "60%" of `whole`. Error kUsage at `flag`.
Result<Bytes> parse_budget(const std::string& text, Bytes whole, const std::string& flag);

}  // namespace plimsoll::app
