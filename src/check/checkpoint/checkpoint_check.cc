// The checker of checkpointing plans.
//
// Problem. Say whether a plan, whoever made it, can be applied to a model, frees and costs what it
// says, and fits its budget.
// Method. Units are placed in the module tree (checkpoint_placement.cc), each is priced by its
// operators (checkpoint_unit.cc), and then every position of the backward is taken by itself: the
// units that end before it are looked up one by one and their discards taken off. A position inside
// a unit sees the discards before that unit, and of the units nested in it those that end before.
// Promises. No search and no sum of the planner is used; findings come in plan order, those of the
// peak last. Nothing in the plan is trusted.
// Sources: docs/mathematics/checkpointing.md#the-problem,
// docs/mathematics/checkpointing.md#what-a-step-holds.

#include "plimsoll/check/checkpoint_check.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "check/checkpoint/checkpoint_claims.h"
#include "check/checkpoint/checkpoint_rules.h"

namespace plimsoll::check {
namespace {

using checkpoint::ModuleInfo;
using Code = FindingCode;

Result<void> check_options(const checkpoint::ModuleStats& stats,
                           const CheckpointCheckOptions& options) {
  if (options.world_size < 1) {
    return fail(ErrorCode::kValue, "world_size", "there is no rank", "give at least 1");
  }
  if (options.constant_bytes < 0) {
    return fail(ErrorCode::kValue, "constant_bytes", "a size is negative", "give at least 0");
  }
  if (options.in_flight < 1) {
    return fail(ErrorCode::kValue, "in_flight", "fewer than one microbatch in flight",
                "give at least 1");
  }
  if (!std::isfinite(options.unit_overhead_ms) || options.unit_overhead_ms < 0) {
    return fail(ErrorCode::kValue, "unit_overhead_ms", "a time is negative", "give at least 0");
  }
  const auto absent = [](const std::string& place, std::string_view field) {
    return fail(ErrorCode::kSchema, place, std::string(field) + " is absent",
                "record the totals of each phase, or judge by upstream's peak");
  };
  if (options.peak == PeakRule::kStep && !stats.total_step_peak) {
    return absent(stats.name, "total_step_peak");
  }
  for (const ModuleInfo& module : stats.mod_stats) {
    const bool is_root = &module == stats.mod_stats.data();
    if (options.peak == PeakRule::kStep && module.requires_grad && !is_root &&
        !module.total_peak_bw) {
      return absent(module.fqn, "total_peak_bw");
    }
    const bool has_working_set = options.unit_room || options.recompute_working_set;
    if ((options.forward_peak || has_working_set) && !module.total_peak_fw) {
      return absent(module.fqn, "total_peak_fw");
    }
    if ((has_working_set || options.unit_own_backward) && module.requires_grad &&
        !(module.total_pre_bw && (module.total_post_fw || !has_working_set))) {
      return absent(module.fqn, "total_pre_bw or total_post_fw");
    }
  }
  return {};
}

Bytes share_of(Bytes bytes, int world_size) {
  return bytes / world_size + (bytes % world_size == 0 ? 0 : 1);
}

// What is resident at the loss. Where the step's peak lies inside a module, that peak is not a
// figure of the loss, and the total just before the root's backward is.
Bytes loss_of(const JudgedCheckpoint& given) {
  const Bytes step_peak = given.stats->total_step_peak.value_or(0);
  if (!given.stats->total_before_root_bw) return step_peak;
  for (const ModuleInfo& module : given.stats->mod_stats) {
    const bool is_root = &module == given.stats->mod_stats.data();
    const Bytes backward = is_root || !module.requires_grad ? 0 : module.total_peak_bw.value_or(0);
    if (std::max(backward, module.total_peak_fw.value_or(0)) >= step_peak) {
      return *given.stats->total_before_root_bw;
    }
  }
  return step_peak;
}

// What is gone when the backward reaches the position.
Bytes discarded_before(const std::vector<PlacedUnit>& units, int position) {
  Bytes bytes = 0;
  for (const PlacedUnit& unit : units) {
    if (unit.covers(position)) {
      bytes += discarded_before(unit.nested, position);
    } else if (unit.last < position) {
      bytes += unit.unit->discarded;
    }
  }
  return bytes;
}

// What units that hold the position keep beyond what autograd would.
Bytes copies_at(const JudgedCheckpoint& given, const std::vector<PlacedUnit>& units, int position) {
  Bytes bytes = 0;
  for (const PlacedUnit& unit : units) {
    if (!unit.covers(position)) continue;
    bytes += kept_bytes(given, unit).copies + copies_at(given, unit.nested, position);
  }
  return bytes;
}

// What is gone when the backward enters the unit, at its last position.
Bytes discarded_before_entry(const std::vector<PlacedUnit>& units, const PlacedUnit& entered) {
  Bytes bytes = 0;
  for (const PlacedUnit& unit : units) {
    if (&unit == &entered) continue;
    if (unit.covers(entered.last) && unit.last != entered.last) {
      bytes += discarded_before_entry(unit.nested, entered);
    } else if (unit.last < entered.last) {
      bytes += unit.unit->discarded;
    }
  }
  return bytes;
}

void add_rooms(const JudgedCheckpoint& given, const std::vector<PlacedUnit>& all,
               const std::vector<PlacedUnit>& units, std::vector<Bytes>& profile) {
  for (const PlacedUnit& unit : units) {
    if (const auto room = room_of(given, unit.nodes)) {
      const Bytes need =
          *room + room_for_kept(given, kept_bytes(given, unit)) - discarded_before_entry(all, unit);
      profile[unit.last] = std::max(profile[unit.last], need);
    }
    add_rooms(given, all, unit.nested, profile);
  }
}

// The most that a unit's positions need, with its copies, at its last one.
void add_copies_at_ends(const JudgedCheckpoint& given, const std::vector<PlacedUnit>& all,
                        const std::vector<PlacedUnit>& units, std::vector<Bytes>& profile) {
  for (const PlacedUnit& unit : units) {
    Bytes most = need_of(given, given.tree->post_order[unit.first]);
    for (int position = unit.first; position <= unit.last; ++position) {
      most = std::max(most, need_of(given, given.tree->post_order[position]));
    }
    const Bytes copies = kept_bytes(given, unit).copies;
    if (unit.nested.empty() && unit.nodes.size() == 1) {  // a run keeps nothing
      profile[unit.last] =
          std::max(profile[unit.last], most + copies - discarded_before_entry(all, unit));
    }
    add_copies_at_ends(given, all, unit.nested, profile);
  }
}

double check_units(const JudgedCheckpoint& given, const std::vector<PlacedUnit>& units,
                   Findings& findings) {
  double ms = 0;
  for (const PlacedUnit& unit : units) {
    ms += check_unit(given, unit, findings);
    ms += check_units(given, unit.nested, findings);
  }
  return ms;
}

void measure_peak(const JudgedCheckpoint& given, const std::vector<PlacedUnit>& units,
                  CheckpointReport& report) {
  for (const PlacedUnit& unit : units) report.discarded += unit.unit->discarded;
  const int num_modules = given.tree->num_modules();
  for (int position = 0; position < num_modules; ++position) {
    Bytes need = need_of(given, given.tree->post_order[position]);
    if (given.has_copies()) need += copies_at(given, units, position);
    report.profile.push_back(need - discarded_before(units, position));
  }
  report.profile_at_ends.clear();
  for (int position = 0; position < num_modules; ++position) {
    report.profile_at_ends.push_back(need_of(given, given.tree->post_order[position]) -
                                     discarded_before(units, position));
  }
  if (given.has_copies()) add_copies_at_ends(given, units, units, report.profile_at_ends);
  add_rooms(given, units, units, report.profile);
  add_rooms(given, units, units, report.profile_at_ends);
  const Bytes others = held_by_others(given, report.discarded);
  for (Bytes& bytes : report.profile) bytes += others;
  for (Bytes& bytes : report.profile_at_ends) bytes += others;
  const auto largest = std::max_element(report.profile.begin(), report.profile.end());
  report.peak = *largest;
  report.binding = given.info(given.tree->post_order[largest - report.profile.begin()]).fqn;
  if (const auto end = end_need_of(given); end && *end + others - report.discarded > report.peak) {
    report.peak = *end + others - report.discarded;
    report.binding.clear();
  }
}

void check_promises(const CheckpointCheckOptions& options, const CheckpointReport& report,
                    Findings& findings) {
  const auto bytes = [](Bytes count) { return fmt::format("{} bytes", count); };
  if (options.budget && report.peak > *options.budget) {
    findings.add(Code::kOverBudget, report.binding, "at most " + bytes(*options.budget),
                 bytes(report.peak), "the step does not fit the budget");
  }
  if (options.predicted_peak && *options.predicted_peak < report.peak) {
    findings.add(Code::kPeakTooLow, report.binding, "at least " + bytes(report.peak),
                 bytes(*options.predicted_peak), "the step needs more than the plan says");
  }
  if (options.recompute_ms) {
    const double difference = std::abs(*options.recompute_ms - report.recompute_ms);
    if (!(difference <= kTimeTolerance * std::max(1.0, report.recompute_ms))) {
      findings.add(Code::kTotalRecompute, "", fmt::format("{} ms", report.recompute_ms),
                   fmt::format("{} ms", *options.recompute_ms),
                   "the stated recompute time is not the sum over the units");
    }
  }
}

void add_refutation(bool is_strict, const CertificateJudgement& certificate, Findings& findings) {
  const bool is_wrong = certificate.status == CertificateStatus::kRefuted ||
                        (is_strict && certificate.status == CertificateStatus::kNotRepeated);
  if (!is_wrong || findings.has_violations()) return;  // which refute it as well
  findings.add(Code::kBoundNotProved, "", "claims that hold",
               std::string(to_string(certificate.status)), certificate.reason);
}

// The tree is the caller's, for the case points at it.
Result<JudgedCheckpoint> make_case(const checkpoint::ModuleStats& stats,
                                   const CheckpointCheckOptions& options,
                                   checkpoint::ModuleTree& tree) {
  PLIMSOLL_RETURN_IF_ERROR(checkpoint::validate(stats));
  PLIMSOLL_RETURN_IF_ERROR(check_options(stats, options));
  PLIMSOLL_ASSIGN(tree, checkpoint::make_module_tree(stats));
  JudgedCheckpoint given{&stats, &tree, &options, {}};
  for (int node = 0; node < tree.num_modules(); ++node) given.node_of[given.info(node).fqn] = node;
  return given;
}

}  // namespace

Bytes need_of(const JudgedCheckpoint& given, int node) {
  const CheckpointCheckOptions& options = *given.options;
  const ModuleInfo& module = given.info(node);
  const Bytes parameters = given.info(0).param_per_module;
  const Bytes state = parameters + module.grad_total;
  const Bytes held = share_of(state, options.world_size) + options.constant_bytes;
  Bytes need = 0;  // of a module without a backward of its own nothing is known
  if (options.peak == PeakRule::kTorch) {
    need = module.act_total + module.act_grad_per_module + held;
  } else if (node != 0 && module.requires_grad) {
    need = module.total_peak_bw.value_or(0) - state + held;
  }
  if (!options.forward_peak) return need;
  return std::max(need, module.total_peak_fw.value_or(0) - parameters +
                            share_of(parameters, options.world_size) + options.constant_bytes);
}

std::optional<Bytes> end_need_of(const JudgedCheckpoint& given) {
  if (given.options->peak == PeakRule::kTorch) return std::nullopt;
  const Bytes state = given.info(0).param_per_module + given.info(0).grad_total;
  return loss_of(given) - state + share_of(state, given.options->world_size) +
         given.options->constant_bytes;
}

// What was there before its backward, and what its forward added at its height.
std::optional<Bytes> room_of(const JudgedCheckpoint& given, const std::vector<int>& nodes) {
  const CheckpointCheckOptions& options = *given.options;
  if (!given.has_working_set() && !options.unit_own_backward) return std::nullopt;
  const ModuleInfo& tail = given.info(nodes.back());
  const Bytes state = given.info(0).param_per_module + tail.grad_total;
  const Bytes before = tail.total_pre_bw.value_or(0) - state + share_of(state, options.world_size) +
                       options.constant_bytes;
  if (!given.has_working_set()) return before;
  Bytes forward_peak = 0;
  for (const int node : nodes) {
    forward_peak = std::max(forward_peak, given.info(node).total_peak_fw.value_or(0));
  }
  const Bytes again =
      before + forward_peak - tail.total_post_fw.value_or(0) + tail.output_per_module;
  return options.unit_own_backward ? std::max(before, again) : again;
}

Bytes held_by_others(const JudgedCheckpoint& given, Bytes discarded) {
  constexpr Int128 kMost = Int128{1} << 60;
  const Int128 kept = Int128{given.info(0).act_total} - discarded;
  return static_cast<Bytes>(
      std::clamp<Int128>((given.options->in_flight - 1) * kept, -kMost, kMost));
}

Bytes peak_without_units(const JudgedCheckpoint& given) {
  CheckpointCheckOptions alone = *given.options;
  alone.in_flight = 1;
  JudgedCheckpoint other = given;
  other.options = &alone;
  CheckpointReport report;
  measure_peak(other, {}, report);
  return report.peak;
}

Bytes room_for_kept(const JudgedCheckpoint& given, const KeptBytes& kept) {
  if (!given.counts_saved()) return 0;
  if (given.has_working_set()) return kept.kept;
  return given.has_copies() ? kept.copies : 0;
}

Result<CheckpointReport> check_checkpointing(const checkpoint::ModuleStats& stats,
                                             const checkpoint::CheckpointPolicy& policy,
                                             const CheckpointCheckOptions& options) {
  checkpoint::ModuleTree tree;
  PLIMSOLL_ASSIGN(const JudgedCheckpoint given, make_case(stats, options, tree));

  Findings findings;
  CheckpointReport report;
  const std::vector<PlacedUnit> units = place_units(given, policy, findings);
  report.recompute_ms = check_units(given, units, findings);
  measure_peak(given, units, report);
  check_promises(options, report, findings);
  check_stated(given, report, findings);
  report.certificate = judge_plan_claims(given, report, !findings.has_violations());
  add_refutation(options.strict, report.certificate, findings);
  if (options.strict) findings.count_hazards([](FindingCode) { return true; });
  report.findings = std::move(findings.all);
  return report;
}

Result<CheckpointReport> check_checkpoint_claims(const checkpoint::ModuleStats& stats,
                                                 const CheckpointCheckOptions& options) {
  checkpoint::ModuleTree tree;
  PLIMSOLL_ASSIGN(const JudgedCheckpoint given, make_case(stats, options, tree));
  Findings findings;
  CheckpointReport report;
  measure_peak(given, {}, report);
  check_making(options.stated, findings);
  const auto& status = options.stated.claims.status;
  report.certificate = status == SolveStatus::kOptimal || status == SolveStatus::kFeasible
                           ? judge_frontier(given)
                           : judge_no_plan(given);
  add_refutation(options.strict, report.certificate, findings);
  report.findings = std::move(findings.all);
  return report;
}

}  // namespace plimsoll::check
