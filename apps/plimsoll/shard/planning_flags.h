// Flags that describe an embedding planning problem, shared by `shard`, `check` and `convert`.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "io/import/plan_file.h"
#include "plimsoll/core/result.h"
#include "plimsoll/embedding/planner.h"

namespace CLI {
class App;
}

namespace plimsoll::app {

struct PlanningFlags {
  std::string model;
  std::string on;
  std::string cost_model;
  std::string machine;
  std::vector<std::string> optimizers;  // NAME or NAME:TABLE,...
  std::vector<std::string> data_types;  // as above
  std::string constraints;
  std::string reservation;
  std::string pipeline_type;
  std::optional<std::int64_t> batch_size;
  std::optional<int> local_world_size;
  std::optional<int> pod_size;
  std::string hbm_cap, ddr_cap, host_memory, intra_host_bw, inter_host_bw;
  std::string dense_tensor_estimate;
  std::optional<double> parameter_multiplier;
  bool use_exact_enumerate_order = false;
  bool inference = false;
  bool run_embedding_at_peak_memory = false;
  bool easyrec_environment = false;
  std::string checkpoint_plan;
  bool force_checkpoint_plan = false;
};

// Flags of the model as a plan records them: "adam" or "adam:a,b;sgd:c".
std::string recorded_of_tables(const std::vector<std::string>& flags);

// The program's environment.
std::optional<std::string> environment(std::string_view name);

void add_planning_flags(CLI::App& command, PlanningFlags& flags);

// Where the batch size comes from, unless it is the flag: " (the model's own)", " (the default)".
std::string batch_size_note(const PlanningFlags& flags, const embedding::PlanningProblem& problem);

// Everything that the flags name, loaded and checked. `recorded` are the options that a plan says
// it was made with (provenance); a flag wins over them, and they win over defaults.
Result<embedding::PlanningProblem> make_problem(
    const PlanningFlags& flags, const std::map<std::string, std::string>& recorded = {});

// A plan whose times are those of a machine model is not judged or explained without it.
Result<void> check_machine(const PlanningFlags& flags,
                           const std::map<std::string, std::string>& recorded);

// The hardware alone, for estimates by that release.
Result<topology::Topology> make_topology(const PlanningFlags& flags,
                                         const embedding::CostModel& cost_model);

// The plan that a command reads beside what the flags name; standard input is read once.
Result<io::PlanFile> load_plan(const PlanningFlags& flags, const std::string& plan);

// The library names fields ("reservation/kind", "proposer"); the user gave flags.
Error with_flag_as_place(Error error);

}  // namespace plimsoll::app
