#include "study/checkpoint/checkpoint_judging.h"

#include <fmt/format.h>

#include <map>
#include <utility>
#include <vector>

#include "core/search_record.h"
#include "study/checkpoint/checkpoint_planning.h"
#include "study/checkpoint/checkpoint_record.h"

namespace plimsoll::study {
namespace {

using checkpoint::CheckpointProblem;
using checkpoint::DiscardModel;
using checkpoint::MemoryModel;
using checkpoint::PeakModel;

// The options as the planner would record them.
OptionTexts canonical_options(const CheckpointProblem& problem, int in_flight,
                              const CheckpointRecord& recorded) {
  CheckpointRecord record = make_record(problem.model, in_flight);
  record.search = recorded.search;
  record.variant = recorded.variant;
  record.effort = recorded.effort;
  record.machine = recorded.machine;
  record.operator_times = recorded.operator_times;
  return write_record(record);
}

// What the plan says of its making and is not so.
std::vector<std::string> contradictions(const CheckpointAnswer& answer,
                                        const JudgedCheckpointing& judged,
                                        const OptionTexts& recorded, const OptionTexts& canonical) {
  std::vector<std::string> found;
  const std::string& hash = judged.input_hash;
  if (!answer.input_hash.empty() && answer.input_hash != hash) {
    found.emplace_back("input_hash: the plan was made from other statistics");
  }
  if (!answer.torch.empty() && answer.torch != judged.stats.torch) {
    found.push_back(fmt::format("torch: the statistics are of release '{}'", judged.stats.torch));
  }
  if (!answer.provenance) return found;
  for (const auto& [name, value] : answer.provenance->inputs) {
    if (name == "module_stats" && value == hash) continue;
    if (name == "machine" && value == judged.machine_hash) continue;
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
  if (!search_record_of(answer.provenance).search) return "search";
  if (answer.plan && !answer.predicted) return "predicted figures";
  if (answer.plan && answer.profile.empty()) return "profile";
  return "";
}

check::StatedCheckpointing stated_by(const CheckpointAnswer& answer, bool is_of_upstream) {
  check::StatedCheckpointing stated;
  stated.claims = {answer.plan.has_value(), true, answer.status, answer.certificate,
                   missing_in(answer)};
  stated.budget = answer.budget_bytes;
  stated.is_of_upstream = stated.is_upstream_baseline = is_of_upstream;
  // Upstream's program holds its rows, which are in GiB, to 1e-6.
  if (is_of_upstream) stated.peak_slack = kGiB / 1'000'000;
  if (answer.predicted) {
    stated.baseline_peak = answer.predicted->baseline_peak_bytes;
    stated.binding = answer.predicted->binding;
  }
  for (const ProfileEntry& entry : answer.profile) {
    stated.profile.emplace_back(entry.fqn, entry.bytes);
  }
  stated.frontier = answer.frontier;
  stated.frontier_bound = answer.frontier_bound;
  if (answer.explanation && answer.explanation->missing > 0) {
    stated.missing = answer.explanation->missing;
  }
  return stated;
}

}  // namespace

check::CheckpointCheckOptions make_check_options(const CheckpointProblem& problem,
                                                 bool is_of_upstream, int in_flight) {
  const MemoryModel& model = problem.model;
  check::CheckpointCheckOptions options;
  options.peak = model.peak == PeakModel::kStep && !is_of_upstream ? check::PeakRule::kStep
                                                                   : check::PeakRule::kTorch;
  options.price = model.costs == DiscardModel::kFit || is_of_upstream ? check::PriceRule::kFit
                  : model.early_stop                                  ? check::PriceRule::kEarlyStop
                                     : check::PriceRule::kOperators;
  options.forward_peak = model.forward_peak;
  options.unit_own_backward = model.unit_own_backward;
  options.saved_copies = model.saved_copies;
  options.recompute_working_set = model.recompute_working_set;
  options.keep_stored_operators = model.keep_stored_operators;
  options.has_runs_or_nested = model.max_segment_length > 1 || model.nested_units;
  options.in_flight = in_flight;
  options.world_size = model.world_size;
  options.unit_overhead_ms = model.unit_overhead_ms;
  options.ac_units = model.ac_units;
  options.fsdp_units = model.fsdp_units;
  options.constant_bytes = problem.constant;
  return options;
}

Result<check::CheckpointReport> judge_checkpointing(const JudgedCheckpointing& judged,
                                                    const CheckpointAnswer& answer) {
  const bool is_judged_without_plan =
      answer.status == SolveStatus::kInfeasible || !answer.frontier.empty();
  if (!answer.plan && !is_judged_without_plan) {
    return fail(ErrorCode::kValue, "plan", "the answer holds no plan", "plan again");
  }
  OptionTexts texts;
  if (answer.provenance) texts = answer.provenance->options;
  PLIMSOLL_ASSIGN(const CheckpointRecord recorded, read_checkpoint_record(texts));
  const bool is_of_upstream = recorded.search == to_string(CheckpointSearch::kTorch);
  check::CheckpointCheckOptions options =
      make_check_options(judged.problem, is_of_upstream, judged.in_flight);
  options.strict = judged.is_strict;
  options.stated = stated_by(answer, is_of_upstream);
  const OptionTexts canonical =
      canonical_options(judged.recorded, judged.recorded_in_flight, recorded);
  options.stated.is_for_other_rules =
      answer.provenance &&
      canonical_options(judged.problem, judged.in_flight, recorded) != canonical;
  options.stated.contradictions =
      contradictions(answer, judged, answer.provenance ? texts : canonical, canonical);
  if (answer.provenance && answer.world_size != judged.recorded.model.world_size) {
    options.stated.contradictions.push_back(
        fmt::format("world_size: recorded options say {}", judged.recorded.model.world_size));
  }
  options.budget = answer.budget_bytes;
  if (options.budget) *options.budget += options.stated.peak_slack;
  if (judged.budget) options.budget = judged.budget;
  if (answer.predicted) {
    options.predicted_peak = answer.predicted->peak_bytes;
    options.recompute_ms = answer.predicted->recompute_ms;
  }
  return answer.plan ? check::check_checkpointing(judged.stats, *answer.plan, options)
                     : check::check_checkpoint_claims(judged.stats, options);
}

}  // namespace plimsoll::study
