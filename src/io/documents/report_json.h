// Documents that are written only: judgements, lists and errors of the command line.
#pragma once

#include <span>
#include <string>

#include "plimsoll/check/balance_check.h"
#include "plimsoll/check/checkpoint_check.h"
#include "plimsoll/check/critical_path_check.h"
#include "plimsoll/check/expert_check.h"
#include "plimsoll/check/pipeline_check.h"
#include "plimsoll/check/placement_check.h"
#include "plimsoll/check/sharding_check.h"
#include "plimsoll/core/result.h"
#include "plimsoll/io/shipped.h"
#include "plimsoll/topology/presets.h"

namespace plimsoll::io {

// Reports of `check`. All begin alike: schema, is_right, what became of certificate and
// explanation, violations and hazards, and warnings where there are any; a finding is {code, place,
// rank (or device, stage, layer), expected, found, message}, without what is empty.

// plimsoll.check_report/1. `balance` may be null; an infinite bound (no plan exists) is null.
std::string write_sharding_report(const check::ShardingReport& report,
                                  const check::BalanceReport* balance = nullptr);
// plimsoll.checkpoint_check_report/1
std::string write_checkpoint_report(const check::CheckpointReport& report);
// plimsoll.placement_check_report/1
std::string write_placement_report(const check::PlacementReport& report);
// plimsoll.partition_check_report/1; without `has_path` the critical path is null.
std::string write_partition_report(const check::CriticalPathReport& report,
                                   const partition::PartitionerConfig& config, bool has_path);
// plimsoll.pipeline_check_report/1
std::string write_pipeline_report(const check::PipelineReport& report);
// plimsoll.expert_check_report/1
std::string write_expert_report(const check::ExpertReport& report);

std::string write_error(const Error& error);  // plimsoll.error/1
std::string write_version();                  // plimsoll.version/1
// plimsoll.model_list/1
std::string write_model_list(std::span<const ShippedDocument> models,
                             std::span<const ShippedDocument> module_stats,
                             std::span<const ShippedDocument> graphs);
// Accelerators, nodes and planner presets whose id contains `filter` (empty: all).
// plimsoll.hardware/1
std::string write_hardware(std::string_view filter);
std::string write_schema_list(std::span<const Schema> schemas);  // plimsoll.schema_list/1

}  // namespace plimsoll::io
