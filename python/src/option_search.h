// Planning over options that are already there: a planner's own objects as flat arrays, or what our
// enumerator makes of a model.
//
// Problem. embedding/balanced_search.h's, for an option set and the memory that a reservation left.
// Method. The reference's proposers and partitioner give a start, as far as about a second's effort
// goes; embedding::balance_options searches on. Under `keeps_reference_rating` and kTime that
// start's rating is a cap.
// Promises. Those of embedding::plan_balanced.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "plimsoll/core/outcome.h"
#include "plimsoll/core/result.h"
#include "plimsoll/core/run_context.h"
#include "plimsoll/embedding/balanced_search.h"
#include "plimsoll/embedding/enumerator.h"
#include "plimsoll/embedding/placement_bridge.h"
#include "plimsoll/topology/topology.h"

namespace plimsoll::python {

// Options and all that is known of them.
struct OptionSpace {
  embedding::OptionSet options;
  embedding::Model model;  // may lack tables: then their shapes alone tell hazards
  std::optional<embedding::Estimator> estimator;
  std::vector<embedding::TableProfile> profiles;
  topology::Topology topology;
};

struct OptionSearchSettings {
  embedding::BalanceObjective objective = embedding::BalanceObjective::kTime;
  embedding::StepModel step_model;
  bool keeps_reference_rating = true;
  bool keeps_hazards = false;
};

struct OptionPlan {
  SolveStatus status = SolveStatus::kLimit;
  StopReason stop = StopReason::kFinished;
  std::optional<embedding::PlacedProposal> plan;  // options in table order
  Certificate certificate;                        // of the objective
  embedding::PlanTimes times;                     // NaN without a plan
  std::optional<embedding::PlanTimes> reference;  // of the reference's plan
  std::int64_t effort = 0;
  std::vector<Warning> warnings;
  Explanation explanation;
};

// `room`: what is left of every rank. Errors: those of make_placement_bridge.
Result<OptionPlan> search_options(OptionSpace& space, const std::vector<topology::Storage>& room,
                                  const OptionSearchSettings& settings, const SearchOptions& search,
                                  const RunContext& context);

// Ranks for one option a table: the reference's greedy placement, mended by moves of
// `search.effort`; nothing where neither finds room. `options` are distinct tables' options.
Result<std::optional<embedding::PlacedProposal>> place_options(
    const OptionSpace& space, const std::vector<topology::Storage>& room,
    const embedding::Proposal& options, const SearchOptions& search);

}  // namespace plimsoll::python
