#include "study/checkpoint/memory_record.h"

#include <fmt/format.h>

#include <array>
#include <vector>

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

std::string join(const std::vector<std::string>& names) {
  std::string text;
  for (const std::string& name : names) text += (text.empty() ? "" : ",") + name;
  return text;
}

}  // namespace

std::span<const MemoryRepair> memory_repairs() { return kRepairs; }

std::map<std::string, std::string> record_of(const MemoryModel& model, int in_flight) {
  const MemoryModel defaults;
  std::map<std::string, std::string> options{
      {"peak", model.peak == PeakModel::kStep ? "step" : "torch"},
      {"costs", model.costs == DiscardModel::kOperators ? "operators" : "fit"}};
  const auto put = [&options](const char* name, const auto& value, const auto& unless) {
    if (!(value == unless)) options[name] = fmt::format("{}", value);
  };
  put("world_size", model.world_size, defaults.world_size);
  put("ac_units", join(model.ac_units), std::string());
  put("fsdp_units", join(model.fsdp_units), std::string());
  std::vector<std::string> repairs;
  for (const MemoryRepair& repair : kRepairs) {
    if (model.*repair.is_on) repairs.emplace_back(repair.name);
  }
  put("repairs", join(repairs), std::string());
  put("unit_overhead_ms", model.unit_overhead_ms, defaults.unit_overhead_ms);
  put("optimizer_bytes", model.optimizer_bytes, defaults.optimizer_bytes);
  put("fsdp_buffers", model.fsdp_buffers, defaults.fsdp_buffers);
  put("param_dtype_ratio", model.param_dtype_ratio, defaults.param_dtype_ratio);
  put("reduce_dtype_ratio", model.reduce_dtype_ratio, defaults.reduce_dtype_ratio);
  put("max_segment_length", model.max_segment_length, defaults.max_segment_length);
  put("nested_units", model.nested_units, defaults.nested_units);
  put("in_flight", in_flight, 1);
  return options;
}

}  // namespace plimsoll::study
