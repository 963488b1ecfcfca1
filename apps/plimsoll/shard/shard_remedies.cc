#include "plimsoll/shard/shard_remedies.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>
#include <vector>

#include "io/documents/placement_rules_json.h"
#include "io/json/json_document.h"
#include "plimsoll/io/model_json.h"

namespace plimsoll::app {
namespace {

using embedding::ConstraintMap;
using study::ConflictMember;
using study::ConstraintKind;
using study::Remedy;
using study::RemedyKind;
using study::ShardingQuestion;
using study::UserConstraint;

std::string size_flag(Bytes bytes) {
  if (bytes % kMiB != 0) return fmt::format("{}B", bytes);
  if (bytes < kGiB) return fmt::format("{}MiB", bytes / kMiB);
  return fmt::format("{}GiB", static_cast<double>(bytes) / static_cast<double>(kGiB));
}

// ---------------------------------------------------------------- constraints by name

template <class T>
std::string joined(const std::vector<T>& values) {
  std::string text;
  for (const T& value : values) text += (text.empty() ? "" : ", ") + std::string(to_string(value));
  return text;
}

const embedding::ParameterConstraints* constraints_of(const UserConstraint& constraint,
                                                      const ShardingQuestion& question) {
  const ConstraintMap& map = constraint.is_by_fqn ? question.problem.enumeration.fqn_constraints
                                                  : question.problem.model.constraints;
  const auto found = map.find(constraint.tables.front());
  return found == map.end() ? nullptr : &found->second;
}

std::string name_of_tier(const std::string& cap, const std::string& flag, const std::string& tier,
                         const ShardFlags& flags) {
  if (!cap.empty()) return flag + " " + cap;
  return flags.planning.on.empty() ? tier + " of the dump's hardware"
                                   : fmt::format("{} of --on {}", tier, flags.planning.on);
}

std::string name_of_reservation(const ShardFlags& flags,
                                const embedding::ReservationOptions& reservation) {
  if (!flags.planning.reservation.empty()) return "--reservation " + flags.planning.reservation;
  return fmt::format("reservation {}:{} (the default)", to_string(reservation.kind),
                     reservation.percentage);
}

ConflictMember member_of(const ShardFlags& flags, const ShardRequest& request,
                         const UserConstraint& constraint) {
  const embedding::BridgeOptions& rules = request.balanced.bridge;
  const std::string tables = fmt::format("{}", fmt::join(constraint.tables, ", "));
  const auto* of_table = constraint.is_of_table() ? constraints_of(constraint, request) : nullptr;
  switch (constraint.kind) {
    case ConstraintKind::kShardingTypes:
      return {"constraint", fmt::format("{}: sharding_types {}", tables,
                                        of_table ? joined(of_table->sharding_types) : "")};
    case ConstraintKind::kComputeKernels:
      return {"constraint", fmt::format("{}: compute_kernels {}", tables,
                                        of_table ? joined(of_table->compute_kernels) : "")};
    case ConstraintKind::kMinPartition:
      return {"constraint", fmt::format("{}: min_partition {}", tables,
                                        of_table ? of_table->min_partition.value_or(0) : 0)};
    case ConstraintKind::kAllowedRanks:
      return {"rule", fmt::format("allowed_ranks {}: {}", tables,
                                  fmt::join(rules.allowed_ranks.at(tables), ", "))};
    case ConstraintKind::kForbiddenRanks:
      return {"rule", fmt::format("forbidden_ranks {}: {}", tables,
                                  fmt::join(rules.forbidden_ranks.at(tables), ", "))};
    case ConstraintKind::kTogether:
      return {"rule", "together " + tables};
    case ConstraintKind::kApart:
      return {"rule", "apart " + tables};
    case ConstraintKind::kNumerics:
      return {"option", "--strict-numerics"};
    case ConstraintKind::kReservation:
      return {"reservation", name_of_reservation(flags, request.problem.reservation)};
    case ConstraintKind::kDdrCap:
      if (!flags.planning.host_memory.empty()) {
        return {"cap", "--host-memory " + flags.planning.host_memory};
      }
      return {"cap", name_of_tier(flags.planning.ddr_cap, "--ddr-cap", "DDR", flags)};
    case ConstraintKind::kHbmCap:
      return {"cap", name_of_tier(flags.planning.hbm_cap, "--hbm-cap", "HBM", flags)};
  }
  return {};
}

// ---------------------------------------------------------------- what to type instead

// A document's map of the tables, on one line: {"t": {"sharding_types": ["row_wise"]}}.
std::string constraints_line(const ConstraintMap& constraints) {
  const auto root = io::parse_json(io::write_constraints(constraints), "");
  const io::JsonValue* map = root ? root->find("constraints") : nullptr;
  return map == nullptr ? "" : io::print_compact(*map);
}

std::string change_of_constraints(const ShardRequest& request,
                                  const std::vector<UserConstraint>& dropped) {
  ShardingQuestion changed = static_cast<const ShardingQuestion&>(request);
  ConstraintMap lines;
  std::string text;
  for (const UserConstraint& constraint : dropped) study::drop_constraint(constraint, changed);
  for (const UserConstraint& constraint : dropped) {
    if (constraint.is_of_table()) {
      const auto* of_table = constraints_of(constraint, changed);
      if (of_table != nullptr) lines[constraint.tables.front()] = *of_table;
    }
  }
  const auto add = [&text](const std::string& what) { text += (text.empty() ? "" : "; ") + what; };
  if (!lines.empty()) add("constraints " + constraints_line(lines));
  if (std::any_of(dropped.begin(), dropped.end(),
                  [](const UserConstraint& constraint) { return constraint.is_rule(); })) {
    const std::string rules = io::write_placement_rules(changed.balanced.bridge);
    const auto root = io::parse_json(rules.empty() ? "{}" : rules, "");
    add(rules.empty() || !root ? "without --rules" : "rules " + io::print_compact(*root));
  }
  if (std::any_of(dropped.begin(), dropped.end(), [](const UserConstraint& constraint) {
        return constraint.kind == ConstraintKind::kNumerics;
      })) {
    add("without --strict-numerics");
  }
  return text;
}

std::string key_value_line(const ShardRequest& request, const std::vector<std::string>& fqns) {
  embedding::PlanningProblem problem = request.problem;
  ConstraintMap lines;
  for (const embedding::Module& module : request.problem.model.modules) {
    for (const embedding::Table& table : module.tables) {
      const std::string fqn = embedding::table_fqn(module.path, table.name);
      if (std::find(fqns.begin(), fqns.end(), fqn) == fqns.end()) continue;
      embedding::ParameterConstraints& of_table =
          study::constraints_of_table(problem, module, table);
      of_table.compute_kernels = {embedding::ComputeKernel::kKeyValue};
      lines[problem.enumeration.fqn_constraints.contains(fqn) ? fqn : table.name] = of_table;
    }
  }
  return "constraints " + constraints_line(lines);
}

study::Fix fix_of(const ShardFlags& flags, const ShardRequest& request, const Remedy& remedy) {
  std::string tables;
  for (const std::string& fqn : remedy.tables) {  // ".user" of a model without modules: "user"
    tables += (tables.empty() ? "" : ",") + fqn.substr(fqn.starts_with('.') ? 1 : 0);
  }
  const std::string first = remedy.dropped.empty() || remedy.kind == RemedyKind::kDroppedConstraint
                                ? ""
                                : change_of_constraints(request, remedy.dropped) + "; ";
  const auto fix = [&](std::string kind, const std::string& change) {
    return study::Fix{std::move(kind), first + change, remedy.ms};
  };
  switch (remedy.kind) {
    case RemedyKind::kMoreHbm:
      return fix("memory", "--hbm-cap " + size_flag(remedy.bytes));
    case RemedyKind::kMoreDdr:
      return fix("memory", "--ddr-cap " + size_flag(remedy.bytes));
    case RemedyKind::kMoreRanks:
      return fix("ranks", "--on " + find_hardware_count(flags.planning.on)->with(remedy.count));
    case RemedyKind::kSmallerShare:
      return fix("reservation",
                 fmt::format("--reservation {}:{}", to_string(request.problem.reservation.kind),
                             double{remedy.share}));
    case RemedyKind::kUncountedDense:
      return fix("reservation",
                 fmt::format("--reservation fixed_percentage:{}", double{remedy.share}));
    case RemedyKind::kSmallerDense:
      return fix("reservation", "--dense-tensor-estimate " + size_flag(remedy.bytes));
    case RemedyKind::kSmallerBatch:
      return fix("batch_size", fmt::format("--batch-size {}", remedy.batch_size));
    case RemedyKind::kAllWidths:
      return fix("widths", "--widths all");
    case RemedyKind::kHalfPrecision:
      return fix("data_type", "--data-type fp16:" + tables);
    case RemedyKind::kRowWiseOptimizer:
      return fix("optimizer", "--optimizer rowwise_adagrad:" + tables);
    case RemedyKind::kKeyValueKernel:
      return fix("kernel", key_value_line(request, remedy.tables));
    case RemedyKind::kDroppedConstraint:
      return fix("constraint", change_of_constraints(request, remedy.dropped));
  }
  return {};
}

}  // namespace

std::string HardwareCount::with(int count) const {
  return fmt::format("{}{}{}", before, count, after);
}

std::optional<HardwareCount> find_hardware_count(const std::string& on) {
  const auto number = [](const std::string& text) -> std::optional<int> {
    const bool is_number =
        !text.empty() && text.size() < 7 && text.find_first_not_of("0123456789") == text.npos;
    return is_number ? std::optional(std::stoi(text)) : std::nullopt;
  };
  if (const std::size_t x = on.find('x'); x != on.npos) {
    if (const auto count = number(on.substr(0, x))) {
      return HardwareCount{*count, "", on.substr(x)};
    }
  }
  const std::size_t colon = on.rfind(':');
  if (colon == on.npos) {
    const bool is_file = on.find('/') != on.npos || on.find(".json") != on.npos || on == "-";
    return is_file ? std::nullopt : std::optional(HardwareCount{1, on + ":", ""});
  }
  if (const auto count = number(on.substr(colon + 1))) {
    return HardwareCount{*count, on.substr(0, colon + 1), ""};
  }
  return std::nullopt;
}

std::optional<study::ScaledProblem> find_scaled(const ShardFlags& flags) {
  const auto count = find_hardware_count(flags.planning.on);
  if (!count || !flags.replay.empty() || flags.planning.model == "-") return std::nullopt;
  return study::ScaledProblem{count->now,
                              [planning = flags.planning, count = *count](
                                  int number) mutable -> std::optional<embedding::PlanningProblem> {
                                planning.on = count.with(number);
                                auto problem = make_problem(planning);
                                return problem ? std::optional(*std::move(problem)) : std::nullopt;
                              }};
}

study::ExplanationWords words_of(const ShardFlags& flags, const ShardRequest& request) {
  return {[&](const UserConstraint& constraint) { return member_of(flags, request, constraint); },
          [&](const Remedy& remedy) { return fix_of(flags, request, remedy); }};
}

std::optional<study::NoPlan> explain_no_plan(const ShardFlags& flags, const ShardRequest& request,
                                             const study::ShardingRun& run,
                                             const RunContext& context) {
  return study::explain_no_plan(request, run, find_scaled(flags), words_of(flags, request),
                                context);
}

}  // namespace plimsoll::app
