#include "plimsoll/plans/checkpoint_check.h"

#include <fmt/format.h>

#include <map>

#include "io/documents/plan_tree.h"
#include "io/documents/report_json.h"
#include "plimsoll/core/digest.h"
#include "plimsoll/io/module_stats_json.h"
#include "plimsoll/plans/explanation_check.h"
#include "plimsoll/text/certificate_text.h"
#include "study/checkpoint/checkpoint_judging.h"

namespace plimsoll::app {
namespace {

using check::CheckpointReport;
using study::CheckpointAnswer;

std::string text_of(const CheckpointReport& report, const GlobalFlags& global) {
  std::string text = verdict(report, true, global);
  text += shown(
      fmt::format(", peak {} ({} bytes) {}, recompute {}\n", size_text(report.peak), report.peak,
                  report.binding.empty() ? "at the loss" : "in the backward of " + report.binding,
                  ms_text(report.recompute_ms)));
  return in_lines(text, 2) + judgement_lines(report, global) + findings_text(report, global);
}

Result<CheckpointReport> judge(const CheckpointCheckRun& run, const io::PlanFile& plan) {
  PLIMSOLL_ASSIGN(const CheckpointAnswer answer, io::read_checkpoint_tree(plan.root, plan.name));
  PLIMSOLL_ASSIGN(checkpoint::ModuleStats given, load_module_stats(run.stats));
  const std::string hash = input_hash(io::write_module_stats(given));
  std::map<std::string, std::string> recorded;
  if (answer.provenance) recorded = answer.provenance->options;
  CheckpointFlags filled = run.checkpoint;
  PLIMSOLL_RETURN_IF_ERROR(fill_from_provenance(recorded, filled));
  PLIMSOLL_ASSIGN(const TimedStats timed, timed_stats(std::move(given), filled));
  const checkpoint::ModuleStats& stats = timed.stats;
  const bool is_of_upstream = recorded.contains("search") && recorded.at("search") == "torch";
  const checkpoint::ModuleStats priced = priced_stats(stats, filled, is_of_upstream ? "torch" : "");
  PLIMSOLL_ASSIGN(const checkpoint::CheckpointProblem problem, make_problem(filled, priced));
  CheckpointFlags own;
  PLIMSOLL_RETURN_IF_ERROR(fill_from_provenance(recorded, own));
  PLIMSOLL_ASSIGN(const checkpoint::CheckpointProblem made_by, make_problem(own, priced));
  study::JudgedCheckpointing judged{priced,           hash,    timed.machine_hash, problem,
                                    filled.in_flight, made_by, own.in_flight,      {},
                                    run.strict};
  if (!run.budget.empty()) {
    PLIMSOLL_ASSIGN(judged.budget, parse_budget(run.budget, replay(problem, {}).peak, "--budget"));
  }
  auto report = study::judge_checkpointing(judged, answer);
  if (!report && report.error().place == "plan") report.error().place = plan.name;
  if (report) put_explanation(judge_explanation(stats, own, answer), run.strict, *report);
  return report;
}

}  // namespace

int run_checkpoint_check(const CheckpointCheckRun& run, const io::PlanFile& plan) {
  const auto judged = judge(run, plan);
  if (!judged) return report(judged.error(), run.global);
  print(run.global.json ? io::write_checkpoint_report(*judged) : text_of(*judged, run.global));
  return judged->is_right() ? kExitOk : kExitViolations;
}

}  // namespace plimsoll::app
