#include "plimsoll/plans/partition_check.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>
#include <vector>

#include "core/search_record.h"
#include "io/documents/report_json.h"
#include "io/import/fx_placement.h"
#include "plimsoll/partition/partition_case.h"
#include "plimsoll/partition/partition_searches.h"
#include "plimsoll/plans/explanation_check.h"
#include "plimsoll/text/certificate_text.h"
#include "plimsoll/text/text_table.h"
#include "study/partition/placement_judging.h"

namespace plimsoll::app {
namespace {

using study::PlacementAnswer;

std::string text_of(const check::PlacementReport& report, const GlobalFlags& global) {
  std::string text = verdict(report, false, global);
  if (report.batch_ms) text += fmt::format(", batch {}", ms_text(*report.batch_ms));
  text += fmt::format(", largest load {}, {}\n", ms_text(report.max_load),
                      report.is_line ? "contiguous" : "not contiguous");
  text = in_lines(text, 2) + judgement_lines(report, global) + findings_text(report, global);
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

constexpr double kMsPerSecond = 1000;

std::string text_of(const check::CriticalPathReport& report, const study::FxInput& input,
                    const GlobalFlags& global) {
  std::string text = verdict(report, false, global);
  if (study::has_latencies(input)) {
    text += ", critical path " + ms_text(report.critical_path_sec * kMsPerSecond);
  }
  text += "\n" + judgement_line("certificate", report.certificate, global) +
          findings_text(report, global);
  if (global.verbosity == 0) return text;
  TextTable devices({"device", "memory", "of"}, {false, true, true});
  for (std::size_t d = 0; d < report.memory.size(); ++d) {
    const partition::Device& device = input.config.devices[d];
    devices.add(
        {device.name, format_bytes(report.memory[d]), format_bytes(device.available_mem_bytes)});
  }
  return text + devices.text();
}

// ---------------------------------------------------------------- what it was made from

constexpr const char* kSearchOptions[] = {"operator_times", "search", "variant", "effort",
                                          "tolerance"};

// The options of a plan, as the planner would record them, where they are what is there.
std::vector<std::string> contradictions_of(const PlacementAnswer& answer,
                                           const PartitionCase& made) {
  std::vector<std::string> found;
  if (!answer.provenance) return found;
  for (const auto& [name, hash] : answer.provenance->inputs) {
    const bool is_machine = name == "machine" && !made.machine_hash.empty();
    if (name != "graph" && !is_machine) {
      found.push_back(fmt::format("provenance/inputs/{}: no such input", name));
    } else if (hash != (is_machine ? made.machine_hash : made.input_hash)) {
      found.push_back(fmt::format("the placement was made from another {}", name));
    }
  }
  PartitionFlags own;
  fill_from_answer(answer, own);
  for (std::string& fault : faults_of_options(answer.provenance->options, own, kSearchOptions)) {
    found.push_back(std::move(fault));
  }
  const auto search = search_record_of(answer.provenance).search;
  if (!search) return found;
  const auto searches = study::placement_searches();
  const bool is_known =
      std::any_of(searches.begin(), searches.end(), [&](const study::PlacementSearch& known) {
        return known.name == *search && known.objective == answer.objective;
      });
  if (!is_known) {
    found.push_back(fmt::format("provenance/options/search: '{}' does not minimize {}", *search,
                                to_string(answer.objective)));
  }
  return found;
}

bool has_other_rules(const PlacementAnswer& answer, const PartitionFlags& filled) {
  if (!answer.provenance) return false;
  PartitionFlags own;
  own.graph = filled.graph;
  fill_from_answer(answer, own);
  return provenance_options(own) != provenance_options(filled);
}

}  // namespace

int run_placement_check(PlacementCheckRun run, const io::PlanFile& plan) {
  const GlobalFlags& global = run.global;
  const auto answer = read_placement_answer(plan);
  if (!answer) return report(answer.error(), global);
  fill_from_answer(*answer, run.partition);
  const auto made = load_partition_case(run.partition);
  if (!made) return report(made.error(), global);
  const study::PlanMaking making{contradictions_of(*answer, *made), missing_in(*answer),
                                 has_other_rules(*answer, run.partition), run.is_strict};
  bool is_right = false;
  if (made->fx) {
    const auto judge = [&]() -> Result<check::CriticalPathReport> {
      PLIMSOLL_ASSIGN(const partition::Placement placement,
                      io::take_fx_placement(*answer, made->fx->graph, plan.name));
      return study::judge_fx(*made->fx, *answer, placement, making);
    };
    const auto judged = judge();
    if (!judged) return report(judged.error(), global);
    is_right = judged->is_right();
    print(global.json ? io::write_partition_report(*judged, made->fx->config,
                                                   study::has_latencies(*made->fx))
                      : text_of(*judged, *made->fx, global));
  } else {
    const auto judge = [&]() -> Result<check::PlacementReport> {
      if (!answer->plan && answer->status == SolveStatus::kInfeasible && made->costs) {
        return study::judge_no_placement(*made, *answer, making);
      }
      if (made->terms) return study::judge_pipeline(*made, *answer, making, plan.name);
      PLIMSOLL_ASSIGN(const ReadPlacement placement, read_any_placement(plan, *made));
      return study::judge_assignment(*made, placement.answer, placement.assignment, making,
                                     run.contiguous);
    };
    auto judged = judge();
    if (!judged) return report(judged.error(), global);
    put_explanation(judge_explanation(*made, run.partition, *answer), run.is_strict, *judged);
    is_right = judged->is_right();
    print(global.json ? io::write_placement_report(*judged) : text_of(*judged, global));
  }
  return is_right ? kExitOk : kExitViolations;
}

}  // namespace plimsoll::app
