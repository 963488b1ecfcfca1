// Planning over options that are already there: a planner's own objects as flat arrays, or what our
// enumerator makes of a model.
//
// Problem, method and promises are those of embedding::plan_balanced over given options
// (embedding/balanced_search.h), and of the reference's greedy placement for one option a table.
#pragma once

#include <memory>
#include <optional>
#include <vector>

#include "plimsoll/check/sharding_check.h"
#include "plimsoll/core/result.h"
#include "plimsoll/core/run_context.h"
#include "plimsoll/embedding/balanced_search.h"
#include "plimsoll/embedding/enumerator.h"
#include "plimsoll/embedding/proposer.h"
#include "plimsoll/topology/topology.h"

namespace plimsoll::python {

// Options and all that is known of them.
struct OptionSpace {
  embedding::OptionSet options;
  embedding::Model model;  // may lack tables: then their shapes alone tell hazards
  std::optional<embedding::Estimator> estimator;
  std::vector<embedding::TableProfile> profiles;
  topology::Topology topology;
  std::shared_ptr<const embedding::MachineModel> machine;  // null: times are the release's
};

// `room`: what is left of every rank. Errors: those of plan_balanced.
Result<embedding::BalancedResult> search_options(const OptionSpace& space,
                                                 const std::vector<topology::Storage>& room,
                                                 const embedding::BalancedOptions& options,
                                                 const SearchOptions& search,
                                                 const RunContext& context);

// Ranks for one option a table: the reference's greedy placement, mended by moves of
// `search.effort`; nothing where neither finds room. `options` are distinct tables' options.
Result<std::optional<embedding::PlacedProposal>> place_options(
    const OptionSpace& space, const std::vector<topology::Storage>& room,
    const embedding::Proposal& options, const SearchOptions& search);

// All that TorchEasyRec's dynamic program proposes, in its order: the options of least memory, then
// one option a table for every amount of memory. `room`: what is left of every rank; `options` are
// all of the space's. Errors: those of the proposer.
Result<std::vector<embedding::Proposal>> propose_easyrec(
    const OptionSpace& space, const std::vector<topology::Storage>& room,
    const embedding::EasyRecDynamicProgrammingOptions& options, const RunContext& context);

// What is true of a plan that anybody made of these options.
struct PlanJudgement {
  embedding::PlanTimes times;
  std::vector<check::Finding> hazards;  // of tables that the space's model has
};

// `plan`: distinct tables' options, in any order; those on every rank have no ranks.
PlanJudgement judge_plan(const OptionSpace& space, const embedding::StepModel& step_model,
                         const embedding::PlacedProposal& plan);

}  // namespace plimsoll::python
