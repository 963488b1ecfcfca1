#include "plimsoll/checkpoint_check.h"

#include <fmt/format.h>

#include <map>

#include "io/documents/report_json.h"
#include "plimsoll/certificate_text.h"
#include "plimsoll/check/checkpoint_check.h"
#include "plimsoll/core/digest.h"
#include "plimsoll/io/checkpoint_policy_json.h"
#include "plimsoll/io/module_stats_json.h"

namespace plimsoll::app {
namespace {

using check::CheckpointReport;
using io::CheckpointAnswer;

using Options = std::map<std::string, std::string>;

std::string text_of(const CheckpointReport& report, const GlobalFlags& global) {
  std::string text;
  const auto add = [&text](const std::string& kind, const auto& finding) {
    text += fmt::format("{} {}{}{}: {}\n", kind, to_string(finding.code),
                        finding.fqn.empty() ? "" : ", ", finding.fqn, finding.message);
  };
  for (const auto& violation : report.violations) {
    add(paint("violation", Tone::kBad, global), violation);
  }
  for (const auto& hazard : report.hazards) add(paint("hazard", Tone::kNote, global), hazard);
  text += fmt::format(
      "{}: {} violation(s), {} hazard(s), peak {} ({} bytes) {}, recompute {:.6g} ms\n",
      report.is_right() ? paint("right", Tone::kGood, global) : paint("wrong", Tone::kBad, global),
      report.violations.size(), report.hazards.size(), format_bytes(report.peak), report.peak,
      report.binding.empty() ? "at the loss" : "in the backward of " + report.binding,
      report.recompute_ms);
  return text + certificate_line(report.certificate, global);
}

// The options as the planner would record them.
Options canonical_options(const checkpoint::CheckpointProblem& problem,
                          const CheckpointFlags& flags, const Options& recorded) {
  Options options = provenance_options(problem.model);
  if (flags.in_flight != 1) options["in_flight"] = fmt::format("{}", flags.in_flight);
  for (const char* name : {"search", "variant", "effort"}) {
    if (const auto found = recorded.find(name); found != recorded.end()) {
      options.insert(*found);
    }
  }
  return options;
}

// What the plan says of its making and is not so.
std::vector<std::string> contradictions(const CheckpointAnswer& answer,
                                        const checkpoint::ModuleStats& stats,
                                        const Options& recorded, const Options& canonical) {
  std::vector<std::string> found;
  const std::string hash = sha256_hex(io::write_module_stats(stats));
  if (!answer.input_hash.empty() && answer.input_hash != hash) {
    found.emplace_back("input_hash: the plan was made from other statistics");
  }
  if (!answer.torch.empty() && answer.torch != stats.torch) {
    found.push_back(fmt::format("torch: the statistics are of release '{}'", stats.torch));
  }
  if (!answer.provenance) return found;
  for (const auto& [name, value] : answer.provenance->inputs) {
    if (name == "module_stats" && value == hash) continue;
    found.push_back(fmt::format("provenance/inputs/{}: made from something else", name));
  }
  if (recorded != canonical) {
    for (const auto& [name, value] : recorded) {
      const auto same = canonical.find(name);
      if (same != canonical.end() && same->second == value) continue;
      found.push_back(fmt::format("provenance/options/{}: no planner records '{}'", name, value));
    }
    for (const auto& [name, value] : canonical) {
      if (recorded.contains(name)) continue;
      found.push_back(fmt::format("provenance/options/{}: left out, it is '{}'", name, value));
    }
  }
  const auto search = recorded.find("search");
  const bool is_known = search == recorded.end() || search->second == "exact" ||
                        search->second == "milp" || search->second == "torch";
  if (!is_known) {
    found.push_back(fmt::format("provenance/options/search: no search '{}'", search->second));
  }
  return found;
}

// What the document leaves out of what a planner says.
std::string missing_in(const CheckpointAnswer& answer) {
  if (!answer.provenance) return "provenance";
  if (!answer.status) return "status";
  if (!answer.certificate) return "certificate";
  if (answer.input_hash.empty() || answer.provenance->inputs.empty()) return "input hashes";
  if (!answer.provenance->options.contains("search")) return "search";
  if (answer.policy && !answer.predicted) return "predicted figures";
  if (answer.policy && answer.profile.empty()) return "profile";
  return "";
}

check::StatedCheckpointing stated_by(const CheckpointAnswer& answer, bool is_of_upstream) {
  check::StatedCheckpointing stated;
  stated.claims = {answer.policy.has_value(), true, answer.status, answer.certificate,
                   missing_in(answer)};
  stated.budget = answer.budget_bytes;
  stated.is_of_upstream = stated.is_upstream_baseline = is_of_upstream;
  // Upstream's program holds its rows, which are in GiB, to 1e-6.
  if (is_of_upstream) stated.peak_slack = kGiB / 1'000'000;
  if (answer.predicted) {
    stated.baseline_peak = answer.predicted->baseline_peak_bytes;
    stated.binding = answer.predicted->binding;
  }
  for (const io::ProfileEntry& entry : answer.profile) {
    stated.profile.emplace_back(entry.fqn, entry.bytes);
  }
  stated.frontier = answer.frontier;
  stated.frontier_bound = answer.frontier_bound;
  if (answer.explanation && answer.explanation->missing > 0) {
    stated.missing = answer.explanation->missing;
  }
  return stated;
}

bool is_judged_without_plan(const CheckpointAnswer& answer) {
  return answer.status == SolveStatus::kInfeasible || !answer.frontier.empty();
}

Result<CheckpointReport> judge(const CheckpointCheckRun& run, std::string_view text) {
  PLIMSOLL_ASSIGN(const CheckpointAnswer answer, io::read_checkpoint_answer(text, run.plan));
  if (!answer.policy && !is_judged_without_plan(answer)) {
    return fail(ErrorCode::kValue, run.plan, "the answer holds no plan", "plan again");
  }
  PLIMSOLL_ASSIGN(const checkpoint::ModuleStats stats, load_module_stats(run.stats));
  Options recorded;
  if (answer.provenance) recorded = answer.provenance->options;
  CheckpointFlags filled = run.checkpoint;
  PLIMSOLL_RETURN_IF_ERROR(fill_from_provenance(recorded, filled));
  const bool is_of_upstream = recorded.contains("search") && recorded.at("search") == "torch";
  const checkpoint::ModuleStats priced = priced_stats(stats, filled, is_of_upstream ? "torch" : "");
  PLIMSOLL_ASSIGN(const checkpoint::CheckpointProblem problem, make_problem(filled, priced));
  CheckpointFlags own;
  PLIMSOLL_RETURN_IF_ERROR(fill_from_provenance(recorded, own));
  PLIMSOLL_ASSIGN(const checkpoint::CheckpointProblem made_by, make_problem(own, priced));

  check::CheckpointCheckOptions options =
      make_check_options(problem, is_of_upstream ? "torch" : "", filled.in_flight);
  options.strict = run.strict;
  options.stated = stated_by(answer, is_of_upstream);
  const Options canonical = canonical_options(made_by, own, recorded);
  options.stated.is_for_other_rules =
      answer.provenance && canonical_options(problem, filled, recorded) != canonical;
  options.stated.contradictions =
      contradictions(answer, stats, answer.provenance ? recorded : canonical, canonical);
  if (answer.provenance && answer.world_size != made_by.model.world_size) {
    options.stated.contradictions.push_back(
        fmt::format("world_size: recorded options say {}", made_by.model.world_size));
  }
  options.budget = answer.budget_bytes;
  if (options.budget) *options.budget += options.stated.peak_slack;
  if (!run.budget.empty()) {
    PLIMSOLL_ASSIGN(options.budget, parse_budget(run.budget, replay(problem, {}).peak, "--budget"));
  }
  if (answer.predicted) {
    options.predicted_peak = answer.predicted->peak_bytes;
    options.recompute_ms = answer.predicted->recompute_ms;
  }
  return answer.policy ? check::check_checkpointing(priced, *answer.policy, options)
                       : check::check_checkpoint_claims(priced, options);
}

}  // namespace

int run_checkpoint_check(const CheckpointCheckRun& run, std::string_view text) {
  const auto judged = judge(run, text);
  if (!judged) return report(judged.error(), run.global);
  print(run.global.json ? io::write_checkpoint_report(*judged) : text_of(*judged, run.global));
  return judged->is_right() ? kExitOk : kExitViolations;
}

}  // namespace plimsoll::app
