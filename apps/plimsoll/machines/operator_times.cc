#include "plimsoll/machines/operator_times.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <map>
#include <optional>
#include <utility>
#include <vector>

#include "core/suggest.h"
#include "plimsoll/common.h"
#include "plimsoll/io/files.h"
#include "plimsoll/io/machine_json.h"
#include "plimsoll/io/shipped.h"

namespace plimsoll::app {
namespace {

// "fp32" of "float32", "torch.float32" and "FLOAT"; graphs name types as torch or ONNX do.
std::string short_type(std::string_view name) {
  std::string lower(name.substr(name.rfind('.') + 1));
  std::transform(lower.begin(), lower.end(), lower.begin(),
                 [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
  if (lower == "bfloat16" || lower == "bf16") return "bf16";
  if (lower == "float16" || lower == "half" || lower == "fp16") return "fp16";
  if (lower == "float64" || lower == "double") return "fp64";
  return "fp32";
}

double peak_of(const std::map<std::string, double>& peaks, const std::string& type) {
  if (const auto found = peaks.find(type); found != peaks.end()) return found->second;
  double most = 0;
  for (const auto& [name, peak] : peaks) most = std::max(most, peak);
  return most;
}

bool multiplies_matrices(std::string_view name) {
  constexpr std::array<std::string_view, 6> kWords{"mm",   "matmul",    "linear",
                                                   "conv", "attention", "einsum"};
  return std::any_of(kWords.begin(), kWords.end(),
                     [name](std::string_view word) { return name.find(word) != name.npos; });
}

std::string sources_of(const embedding::MachineModel& machine) {
  const auto kind_of = [&machine](const char* part) -> std::string_view {
    const auto found = machine.sources.find(part);
    return found == machine.sources.end() ? "" : to_string(found->second.kind);
  };
  const std::string_view operators = kind_of("operators");
  const std::string_view launches = kind_of("operators/launch_us");
  std::string text = operators.empty() ? "operators of an unstated source"
                                       : fmt::format("operators {}", operators);
  if (!launches.empty() && launches != operators) text += fmt::format(", launches {}", launches);
  return text;
}

}  // namespace

Result<embedding::MachineModel> read_machine_model(const std::string& name) {
  if (is_file_name(name)) {
    PLIMSOLL_ASSIGN(const std::string text, io::read_text_file(name));
    return io::read_machine(text, name);
  }
  auto shipped = io::load_shipped_machine(name);
  if (!shipped) shipped.error().place = "--machine";
  return shipped;
}

double OperatorTimes::operator_ms(double flops, double bytes, std::string_view data_type) const {
  const double arithmetic = flops / (peak_of(operators.peak_tflops, short_type(data_type)) * 1e9);
  return operators.launch_us / 1000 +
         std::max(arithmetic, bytes / (operators.memory_gb_per_s * 1e6));
}

Result<OperatorTimes> load_operator_times(const std::string& machine) {
  PLIMSOLL_ASSIGN(const embedding::MachineModel model, read_machine_model(machine));
  if (!model.operators || !(model.operators->memory_gb_per_s > 0) ||
      model.operators->peak_tflops.empty()) {
    return fail(ErrorCode::kValue, machine,
                "the machine model lacks the bandwidth or the peaks of dense operators",
                "measure them: plimsoll calibrate");
  }
  return OperatorTimes{model.name, *model.operators, sources_of(model), model.hash};
}

Result<void> add_times(const OperatorTimes& times, const std::string& measured,
                       partition::OperatorGraph& graph) {
  if (graph.find_time_column(kMachineColumn)) {
    return fail(ErrorCode::kConflict, "--machine", "the graph has times called 'machine' already",
                "leave --machine out, or --times machine");
  }
  std::optional<int> column;
  if (!measured.empty() && measured != "roofline") {
    column = graph.find_time_column(measured);
    if (!column) {
      return fail(
          ErrorCode::kNotFound, "--times", fmt::format("the graph has no times of '{}'", measured),
          graph.time_columns.empty() ? "leave it out" : suggest(measured, graph.time_columns));
    }
  }
  graph.time_columns.emplace_back(kMachineColumn);
  for (int i = 0; i < graph.num_nodes(); ++i) {
    partition::OperatorNode& node = graph.nodes[i];
    std::optional<double> ms = column ? node.time_ms[*column] : std::nullopt;
    const bool is_work = !node.is_view && (node.bytes_moved > 0 || node.flops > 0);
    if (ms && is_work) ms = std::max(*ms, times.operators.launch_us / 1000);
    if (!ms && graph.is_operator(i)) {
      ms = is_work
               ? times.operator_ms(node.flops, static_cast<double>(node.bytes_moved), node.dtype)
               : 0;
    }
    node.time_ms.push_back(ms);
  }
  return {};
}

bool scale_times(const OperatorTimes& times, checkpoint::ModuleStats& stats) {
  if (!stats.roofline) return false;
  const embedding::DenseOperators& machine = times.operators;
  const auto& [type, tflops] =
      *std::max_element(stats.roofline->tflops.begin(), stats.roofline->tflops.end(),
                        [](const auto& a, const auto& b) { return a.second < b.second; });
  const double by_peak = tflops / peak_of(machine.peak_tflops, short_type(type));
  const double by_bandwidth = stats.roofline->dram_gb_per_s / machine.memory_gb_per_s;
  std::vector<double> factors;  // of each table
  for (checkpoint::SACStats& table : stats.sac_stats) {
    double before = 0, after = 0;
    for (std::size_t i = 0; i < table.runtimes.size(); ++i) {
      double& ms = table.runtimes[i];
      before += ms;
      if (ms > 0) {
        ms *= multiplies_matrices(table.func_names[i]) ? by_peak : by_bandwidth;
        ms += machine.launch_us / 1000;
      }
      after += ms;
    }
    factors.push_back(before > 0 ? after / before : 1);
  }
  // A module without a table is a part of one that has one; without any, memory bounds it.
  const auto factor_of = [&](std::string fqn) {
    while (true) {
      if (const auto found = stats.sac_stats_of.find(fqn); found != stats.sac_stats_of.end()) {
        return factors[static_cast<std::size_t>(found->second)];
      }
      const std::size_t dot = fqn.rfind('.');
      if (dot == std::string::npos) return by_bandwidth;
      fqn.resize(dot);
    }
  };
  double before = 0, after = 0;
  for (checkpoint::ModuleInfo& module : stats.mod_stats) {
    const double factor = factor_of(module.fqn);
    if (&module == &stats.mod_stats.front()) {
      before = module.fw_runtime_per_module + module.bw_runtime_per_module;
      after = before * factor;
    }
    module.fw_runtime_per_module *= factor;
    module.bw_runtime_per_module *= factor;
    module.sac_runtime *= factor;
  }
  if (stats.baseline_compute_ms && before > 0) *stats.baseline_compute_ms *= after / before;
  stats.roofline->dram_gb_per_s = machine.memory_gb_per_s;
  stats.roofline->tflops = machine.peak_tflops;
  return true;
}

}  // namespace plimsoll::app
