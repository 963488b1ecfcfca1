#include "study/checkpoint/checkpoint_record.h"

#include <array>

namespace plimsoll::study {
namespace {

using checkpoint::DiscardModel;
using checkpoint::MemoryModel;
using checkpoint::PeakModel;

constexpr std::array<MemoryRepair, 6> kRepairs{{
    {"unit_own_backward", &MemoryModel::unit_own_backward,
     "a unit's own backward finds all of it made again"},
    {"saved_copies", &MemoryModel::saved_copies, "saved outputs that autograd would not keep"},
    {"recompute_working_set", &MemoryModel::recompute_working_set,
     "temporaries of the forward that runs again"},
    {"forward_peak", &MemoryModel::forward_peak, "the forward's own peaks bind too"},
    {"keep_stored_operators", &MemoryModel::keep_stored_operators,
     "what must be stored cannot be discarded"},
    {"early_stop", &MemoryModel::early_stop,
     "recomputation ends with the last operator that autograd keeps"},
}};

template <class Fields, class Record>
void describe_checkpoint_record(Fields& fields, Record& record) {
  fields.named("peak", record.peak, {{"step", PeakModel::kStep}, {"torch", PeakModel::kTorch}});
  fields.named("costs", record.costs,
               {{"operators", DiscardModel::kOperators}, {"fit", DiscardModel::kFit}});
  fields.unusual("world_size", record.world_size, 1);
  fields.unusual("ac_units", record.ac_units);
  fields.unusual("fsdp_units", record.fsdp_units);
  fields.unusual("repairs", record.repairs);
  fields.unusual("unit_overhead_ms", record.unit_overhead_ms);
  fields.unusual("optimizer_bytes", record.optimizer_bytes);
  fields.unusual("fsdp_buffers", record.fsdp_buffers);
  fields.unusual("param_dtype_ratio", record.param_dtype_ratio, 1.0);
  fields.unusual("reduce_dtype_ratio", record.reduce_dtype_ratio, 1.0);
  fields.unusual("max_segment_length", record.max_segment_length, 1);
  fields.unusual("nested_units", record.nested_units);
  fields.unusual("in_flight", record.in_flight, 1);
  fields.unusual("search", record.search);
  fields.unusual("variant", record.variant);
  fields.stated("effort", record.effort);
  fields.unusual("machine", record.machine);
  fields.unusual("operator_times", record.operator_times);
}

}  // namespace

std::span<const MemoryRepair> memory_repairs() { return kRepairs; }

CheckpointRecord make_record(const MemoryModel& model, int in_flight) {
  CheckpointRecord record;
  record.peak = model.peak;
  record.costs = model.costs;
  record.world_size = model.world_size;
  record.ac_units = model.ac_units;
  record.fsdp_units = model.fsdp_units;
  for (const MemoryRepair& repair : kRepairs) {
    if (model.*repair.is_on) record.repairs.emplace_back(repair.name);
  }
  record.unit_overhead_ms = model.unit_overhead_ms;
  record.optimizer_bytes = model.optimizer_bytes;
  record.fsdp_buffers = model.fsdp_buffers;
  record.param_dtype_ratio = model.param_dtype_ratio;
  record.reduce_dtype_ratio = model.reduce_dtype_ratio;
  record.max_segment_length = model.max_segment_length;
  record.nested_units = model.nested_units;
  record.in_flight = in_flight;
  return record;
}

OptionTexts write_record(const CheckpointRecord& record) {
  OptionTexts texts;
  RecordWriter writer(texts);
  describe_checkpoint_record(writer, record);
  return texts;
}

Result<CheckpointRecord> read_checkpoint_record(const OptionTexts& texts) {
  CheckpointRecord record;
  RecordReader reader(texts);
  describe_checkpoint_record(reader, record);
  PLIMSOLL_RETURN_IF_ERROR(reader.finish());
  return record;
}

}  // namespace plimsoll::study
