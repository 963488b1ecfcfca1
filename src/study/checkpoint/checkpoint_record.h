// Memory models by name: their repairs, and what plans record of them.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "core/option_record.h"
#include "plimsoll/checkpoint/checkpoint_problem.h"
#include "plimsoll/core/result.h"

namespace plimsoll::study {

// A repair of upstream's memory model.
struct MemoryRepair {
  std::string_view name;
  bool checkpoint::MemoryModel::*is_on;
  std::string_view help;
};
std::span<const MemoryRepair> memory_repairs();

// What a plan records of its memory model and of its search, as Provenance::options.
struct CheckpointRecord {
  std::optional<checkpoint::PeakModel> peak;      // always recorded, as are
  std::optional<checkpoint::DiscardModel> costs;  // these; anything else where it is not usual
  int world_size = 1;
  std::vector<std::string> ac_units, fsdp_units;
  std::vector<std::string> repairs;  // names
  double unit_overhead_ms = 0;
  Bytes optimizer_bytes = 0;
  bool fsdp_buffers = false;
  double param_dtype_ratio = 1, reduce_dtype_ratio = 1;
  int max_segment_length = 1;
  bool nested_units = false;
  int in_flight = 1;
  std::string search, variant;  // names
  std::optional<std::int64_t> effort;
  std::string machine, operator_times;
};
CheckpointRecord make_record(const checkpoint::MemoryModel& model, int in_flight);
OptionTexts write_record(const CheckpointRecord& record);
// Error kSchema at "provenance/options/NAME".
Result<CheckpointRecord> read_checkpoint_record(const OptionTexts& texts);

}  // namespace plimsoll::study
