// What plans record of the problem and of the reference's search, as Provenance::options: named and
// typed here alone.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "core/option_record.h"
#include "plimsoll/embedding/planner.h"

namespace plimsoll::embedding {

// Absent: not recorded.
struct PlanningRecord {
  std::optional<std::string> cost_model;
  std::optional<std::int64_t> batch_size;  // per rank
  std::optional<bool> inference;
  std::optional<PipelineType> pipeline_type;
  std::optional<bool> run_embedding_at_peak_memory;
  std::optional<ReservationOptions> reservation;
  std::optional<std::string> search;
  std::optional<std::string> proposers, partitioner;
  std::optional<EasyRecDynamicProgrammingOptions> easyrec;  // its bins, and whether it has CUDA
  std::optional<bool> balance_modules;
  std::optional<PerfModelKind> perf_model;
  std::optional<bool> breadth_first;
  int max_column_blocks = 0;
  std::optional<std::string> estimator, machine;  // names
  std::optional<std::int64_t> effort;
  std::optional<double> tolerance;
};

// `search` is null where it is not recorded.
PlanningRecord make_planning_record(const PlanningProblem& problem, const ReferenceOptions& options,
                                    const SearchOptions* search);
OptionTexts write_record(const PlanningRecord& record);
// Error kSchema at "provenance/options/NAME".
Result<PlanningRecord> read_planning_record(const OptionTexts& texts);

}  // namespace plimsoll::embedding
