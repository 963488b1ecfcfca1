#include "plimsoll/partition_check.h"

#include <fmt/format.h>

#include <cmath>
#include <utility>
#include <vector>

#include "plimsoll/check/critical_path_check.h"
#include "plimsoll/check/latency_check.h"
#include "plimsoll/check/pipeline_placement_check.h"
#include "plimsoll/check/placement_check.h"
#include "plimsoll/io/fx_placement.h"
#include "plimsoll/io/report_json.h"
#include "plimsoll/partition_case.h"
#include "plimsoll/text_table.h"

namespace plimsoll::app {
namespace {

using io::PlacementAnswer;
using partition::Objective;

std::string text_of(const check::PlacementReport& report, const PartitionCase& made,
                    const GlobalFlags& global) {
  std::string text;
  for (const check::PlacementViolation& violation : report.violations) {
    text += fmt::format(
        "{} {}{}{}: {}\n", paint("violation", Tone::kBad, global), to_string(violation.code),
        violation.node ? ", node " + made.names[*violation.node] : "",
        violation.device ? fmt::format(", device {}", *violation.device) : "", violation.message);
  }
  text += fmt::format(
      "{}: {} violation(s), {}largest load {:.6g} ms, {}\n",
      report.is_right() ? paint("right", Tone::kGood, global) : paint("wrong", Tone::kBad, global),
      report.violations.size(),
      report.batch_ms ? fmt::format("batch {:.6g} ms, ", *report.batch_ms) : "", report.max_load,
      report.is_line ? "contiguous" : "not contiguous");
  if (global.verbosity == 0) return text;
  TextTable devices({"device", "compute ms", "transfer ms", "load ms", "memory"},
                    {true, true, true, true, true});
  for (std::size_t d = 0; d < report.load_ms.size(); ++d) {
    devices.add({fmt::format("{}", d), fmt::format("{:.4f}", report.compute_ms[d]),
                 fmt::format("{:.4f}", report.transfer_ms[d]),
                 fmt::format("{:.4f}", report.load_ms[d]), format_bytes(report.memory[d])});
  }
  return text + devices.text();
}

check::StatedDevice stated_by(const io::PlacedStage& stage) {
  return {stage.compute_ms, stage.transfer_ms, stage.load_ms, stage.memory};
}

// What a placement says of its devices; a stage on a device that does not exist says nothing.
std::vector<check::StatedDevice> stated_devices(const io::PlacementAnswer& answer,
                                                int num_devices) {
  std::vector<check::StatedDevice> stated(static_cast<std::size_t>(num_devices));
  for (const io::PlacedStage& stage : *answer.stages) {
    const int device = stage.devices.front();
    if (device < 0 || device >= num_devices) continue;
    stated[device] = stated_by(stage);
  }
  return stated;
}

// The stated objective, where there is one and it is a number.
std::optional<double> stated_objective(const PlacementAnswer& answer) {
  if (!answer.certificate || std::isnan(answer.certificate->objective)) return {};
  return answer.certificate->objective;
}

Result<check::PlacementReport> judge_pipeline(const PartitionCase& made,
                                              const PlacementAnswer& answer,
                                              const std::string& file) {
  PLIMSOLL_ASSIGN(const partition::PipelinePlacement placement,
                  io::take_pipeline(answer, made.names, file));
  check::PipelinePlacementCheckOptions options;
  options.stated_batch_ms = stated_objective(answer);
  options.stated_classes = answer.classes;
  for (const io::PlacedStage& stage : *answer.stages) {
    options.stated.push_back({stated_by(stage), stage.sync_ms, stage.in_flight});
  }
  return check::check_pipeline_placement(*made.costs, *made.terms, placement, options);
}

Result<check::PlacementReport> judge_assignment(const PartitionCase& made,
                                                const ReadPlacement& placement,
                                                bool requires_contiguity) {
  const PlacementAnswer& answer = placement.answer;
  check::PlacementCheckOptions options;
  options.requires_contiguity = requires_contiguity || answer.is_contiguous.value_or(false);
  if (answer.stages) {
    options.stated = stated_devices(answer, made.costs->num_devices());
    options.stated_classes = answer.classes;
    if (answer.objective == Objective::kThroughput) {
      options.stated_max_load = stated_objective(answer);
    }
  }
  PLIMSOLL_ASSIGN(check::PlacementReport judged,
                  check::check_placement(*made.costs, placement.assignment, options));
  if (answer.objective != Objective::kLatency) return judged;
  PLIMSOLL_ASSIGN(
      const check::LatencyReport latency,
      check::check_latency(*made.costs, placement.assignment, stated_objective(answer)));
  using Code = check::PlacementViolationCode;  // the others were found already
  for (const check::PlacementViolation& violation : latency.violations) {
    if (violation.code == Code::kTasksWait || violation.code == Code::kLatencyMismatch) {
      judged.violations.push_back(violation);
    }
  }
  return judged;
}

// ---------------------------------------------------------------- torch.fx

constexpr double kMsPerSecond = 1000;

bool has_latencies(const io::FxInput& input) {
  const auto& latencies = input.config.node_to_latency_mapping;
  if (latencies.empty() || input.config.transfer_rate_bytes_per_sec == 0) return false;
  for (int node = 0; node < input.graph.num_nodes(); ++node) {
    if (input.graph.is_operator(node) && !latencies[node]) return false;
  }
  return true;
}

std::string text_of(const check::CriticalPathReport& report, const io::FxInput& input,
                    const GlobalFlags& global) {
  std::string text;
  for (const check::PartitionViolation& violation : report.violations) {
    text += fmt::format("{} {}{}{}: {}\n", paint("violation", Tone::kBad, global),
                        to_string(violation.code), violation.place.empty() ? "" : ", ",
                        violation.place, violation.message);
  }
  text += fmt::format(
      "{}: {} violation(s){}\n",
      report.is_right() ? paint("right", Tone::kGood, global) : paint("wrong", Tone::kBad, global),
      report.violations.size(),
      has_latencies(input)
          ? fmt::format(", critical path {:.6g} ms", report.critical_path_sec * kMsPerSecond)
          : "");
  if (global.verbosity == 0) return text;
  TextTable devices({"device", "memory", "of"}, {false, true, true});
  for (std::size_t d = 0; d < report.memory.size(); ++d) {
    const partition::Device& device = input.config.devices[d];
    devices.add(
        {device.name, format_bytes(report.memory[d]), format_bytes(device.available_mem_bytes)});
  }
  return text + devices.text();
}

Result<check::CriticalPathReport> judge_fx(const io::FxInput& input, const PlacementAnswer& answer,
                                           const std::string& file) {
  PLIMSOLL_ASSIGN(const partition::Placement placement,
                  io::take_fx_placement(answer, input.graph, file));
  if (!has_latencies(input)) {
    return check::check_partitions(input.graph, input.config, placement);
  }
  std::optional<double> stated = stated_objective(answer);
  if (stated) *stated /= kMsPerSecond;
  return check::check_critical_path(input.graph, input.config, placement, stated);
}

}  // namespace

int run_placement_check(PlacementCheckRun run, std::string_view text) {
  const GlobalFlags& global = run.global;
  const auto answer = read_placement_answer(text, run.plan);
  if (!answer) return report(answer.error(), global);
  fill_from_answer(*answer, run.partition);
  const auto made = load_partition_case(run.partition);
  if (!made) return report(made.error(), global);
  bool is_right = false;
  if (made->fx) {
    const auto judged = judge_fx(*made->fx, *answer, run.plan);
    if (!judged) return report(judged.error(), global);
    is_right = judged->is_right();
    print(global.json
              ? io::write_partition_report(*judged, made->fx->config, has_latencies(*made->fx))
              : text_of(*judged, *made->fx, global));
  } else {
    const auto judge = [&]() -> Result<check::PlacementReport> {
      if (made->terms) return judge_pipeline(*made, *answer, run.plan);
      PLIMSOLL_ASSIGN(const ReadPlacement placement, read_any_placement(text, run.plan, *made));
      return judge_assignment(*made, placement, run.contiguous);
    };
    const auto judged = judge();
    if (!judged) return report(judged.error(), global);
    is_right = judged->is_right();
    print(global.json ? io::write_placement_report(*judged, made->names)
                      : text_of(*judged, *made, global));
  }
  if (answer->provenance && !global.quiet) {
    const auto hash = answer->provenance->inputs.find("graph");
    if (hash != answer->provenance->inputs.end() && hash->second != made->input_hash) {
      print_error_text(
          fmt::format("warning: {}: the placement was made from another graph\n", run.plan));
    }
  }
  return is_right ? kExitOk : kExitViolations;
}

}  // namespace plimsoll::app
