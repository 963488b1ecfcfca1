#include "plimsoll/io/machine_json.h"

#include <fmt/format.h>

#include <algorithm>
#include <set>
#include <tuple>

#include "io/documents/machine_descriptions.h"
#include "io/json/json_writer.h"
#include "plimsoll/core/digest.h"

namespace plimsoll::io {
namespace {

using embedding::CollectiveTable;
using embedding::KernelForm;
using embedding::MachineModel;

tl::unexpected<Error> wrong(std::string_view file, const std::string& pointer, std::string message,
                            std::string remedy) {
  return fail(ErrorCode::kValue, document_place(file, pointer), std::move(message),
              std::move(remedy));
}

// Other versions of this schema are named as such.
Result<void> check_version(const JsonValue& root, std::string_view file) {
  const JsonValue* value = root.find("schema");
  const auto* name = value != nullptr ? value->as<std::string>() : nullptr;
  if (name == nullptr || *name == kMachineSchema || !name->starts_with("plimsoll.machine/")) {
    return {};
  }
  return fail(ErrorCode::kSchema, document_place(file, "/schema"),
              fmt::format("this program reads {}, and this is {}", kMachineSchema, *name),
              "measure the machine again: plimsoll calibrate");
}

Result<void> check_table(const CollectiveTable& table, std::string_view file,
                         const std::string& pointer) {
  if (table.bytes.empty() || table.bytes.size() != table.ms.size()) {
    return wrong(file, pointer + "/ms",
                 fmt::format("{} times of {} sizes", table.ms.size(), table.bytes.size()),
                 "give one time of each size");
  }
  for (std::size_t i = 1; i < table.bytes.size(); ++i) {
    if (table.bytes[i] > table.bytes[i - 1]) continue;
    return wrong(file, fmt::format("{}/bytes/{}", pointer, i), "not larger than the size before",
                 "give the sizes in ascending order");
  }
  return {};
}

Result<void> check_collectives(const std::vector<CollectiveEntry>& collectives,
                               std::string_view file) {
  std::set<std::tuple<topology::Collective, embedding::CollectiveGroup, int>> seen;
  for (std::size_t c = 0; c < collectives.size(); ++c) {
    const CollectiveTable& table = collectives[c].table;
    const std::string pointer = fmt::format("/collectives/{}", c);
    PLIMSOLL_RETURN_IF_ERROR(check_table(table, file, pointer));
    if (!seen.emplace(table.operation, table.group, table.ranks).second) {
      return wrong(file, pointer, "a second table of this operation, group and number of ranks",
                   "leave one of them out");
    }
  }
  return {};
}

Result<void> check_kernels(const std::vector<KernelEntry>& kernels, std::string_view file) {
  std::set<std::tuple<embedding::ComputeKernel, int, embedding::DataType, embedding::PassDirection>>
      seen;
  for (std::size_t k = 0; k < kernels.size(); ++k) {
    const KernelForm& form = kernels[k].form;
    const std::string pointer = fmt::format("/kernels/{}", k);
    const int optimizer = form.optimizer ? static_cast<int>(*form.optimizer) : -1;
    if (!seen.emplace(form.kernel, optimizer, form.data_type, form.direction).second) {
      return wrong(file, pointer, "a second form of this kernel", "leave one of them out");
    }
    for (const auto& [variable, range] : form.ranges) {
      if (range.first <= range.second) continue;
      return wrong(file, fmt::format("{}/ranges/{}", pointer, escape_pointer(variable)),
                   "the lower limit is above the upper one", "give [least, most]");
    }
  }
  return {};
}

embedding::StepModel step_of(const std::optional<StepEntry>& entry) {
  embedding::StepModel step{1, 1, 0, 0, 0, 0, false};
  if (!entry) return step;
  const FittedStep& fit = entry->fit;
  step.kernel_weight = fit.kernel_weight.value_or(1);
  step.collective_weight = fit.collective_weight.value_or(1);
  step.ms_per_sharding_type = fit.ms_per_sharding_type.value_or(0);
  step.ms_per_output_byte = fit.ms_per_output_byte.value_or(0);
  step.ms_per_table = fit.ms_per_table.value_or(0);
  step.floor_ms = fit.floor_ms.value_or(0);
  return step;
}

StepEntry entry_of(const embedding::StepModel& step) {
  StepEntry entry;
  entry.fit.kernel_weight = step.kernel_weight;
  entry.fit.collective_weight = step.collective_weight;
  entry.fit.ms_per_sharding_type = step.ms_per_sharding_type;
  entry.fit.ms_per_output_byte = step.ms_per_output_byte;
  entry.fit.ms_per_table = step.ms_per_table;
  entry.fit.floor_ms = step.floor_ms;
  return entry;
}

}  // namespace

Result<MachineModel> read_machine(std::string_view text, std::string_view file) {
  PLIMSOLL_ASSIGN(const JsonValue root, parse_json(text, file));
  PLIMSOLL_RETURN_IF_ERROR(check_version(root, file));
  PLIMSOLL_ASSIGN(MachineDocument document, read_tree<MachineDocument>(root, file, kMachineSchema));
  PLIMSOLL_RETURN_IF_ERROR(check_kernels(document.kernels, file));
  PLIMSOLL_RETURN_IF_ERROR(check_collectives(document.collectives, file));
  MachineModel machine;
  machine.name = document.name.empty() ? std::string(file) : std::move(document.name);
  machine.device = std::move(document.device);
  machine.ranks = document.ranks.value_or(1);
  machine.ranks_per_host = document.ranks_per_host.value_or(machine.ranks);
  for (KernelEntry& entry : document.kernels) machine.kernels.push_back(std::move(entry.form));
  for (CollectiveEntry& entry : document.collectives) {
    machine.collectives.push_back(std::move(entry.table));
  }
  machine.step = step_of(document.step);
  if (document.operators) {
    machine.operators = {document.operators->launch_us.value_or(0),
                         document.operators->memory_gb_per_s.value_or(0),
                         std::move(document.operators->peak_tflops)};
  }
  machine.sources = std::move(document.sources);
  const auto source = machine.sources.find("step");
  machine.step.is_assumed =
      source != machine.sources.end() && source->second.kind == embedding::FigureKind::kAssumed;
  machine.hash = input_hash(print_compact(root));
  return machine;
}

std::string write_machine(const MachineModel& machine) {
  MachineDocument document;
  document.name = machine.name;
  document.device = machine.device;
  document.ranks = machine.ranks;
  document.ranks_per_host = machine.ranks_per_host;
  for (const KernelForm& form : machine.kernels) {
    document.kernels.push_back({form, {}, {}, {}, {}, {}});
  }
  for (const CollectiveTable& table : machine.collectives) {
    document.collectives.push_back({table, {}, {}, {}, {}});
  }
  document.step = entry_of(machine.step);
  if (machine.operators) {
    OperatorsEntry& entry = document.operators.emplace();
    entry.launch_us = machine.operators->launch_us;
    if (machine.operators->memory_gb_per_s > 0) {
      entry.memory_gb_per_s = machine.operators->memory_gb_per_s;
    }
    entry.peak_tflops = machine.operators->peak_tflops;
  }
  document.sources = machine.sources;
  return write_document(document);
}

}  // namespace plimsoll::io
