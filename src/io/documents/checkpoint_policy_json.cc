#include "plimsoll/io/checkpoint_policy_json.h"

#include <fmt/format.h>

#include <cmath>
#include <set>

#include "io/documents/checkpoint_descriptions.h"
#include "io/documents/plan_tree.h"
#include "io/json/json_writer.h"

namespace plimsoll::io {
namespace {

using checkpoint::CheckpointUnit;
using checkpoint::UnitKind;

// Turns the units of a document into those of a policy.
class UnitBuilder {
 public:
  explicit UnitBuilder(std::string_view file) : file_(file) {}

  Result<std::vector<CheckpointUnit>> build(std::vector<UnitEntry> entries,
                                            const std::string& pointer) {
    std::vector<CheckpointUnit> units;
    for (std::size_t i = 0; i < entries.size(); ++i) {
      PLIMSOLL_ASSIGN(CheckpointUnit unit,
                      build(std::move(entries[i]), fmt::format("{}/{}", pointer, i)));
      units.push_back(std::move(unit));
    }
    return units;
  }

 private:
  Result<CheckpointUnit> build(UnitEntry entry, const std::string& pointer) {
    CheckpointUnit unit = std::move(entry.unit);
    if (entry.fqn.has_value() == entry.fqns.has_value()) {
      return fail(entry.fqn ? ErrorCode::kConflict : ErrorCode::kSchema, place(pointer),
                  entry.fqn ? "both 'fqn' and 'fqns' are given" : "the key 'fqn' is missing",
                  "give \"fqn\" for one module, \"fqns\" for a run of modules");
    }
    unit.fqns = entry.fqn ? std::vector{*std::move(entry.fqn)} : *std::move(entry.fqns);
    if (unit.fqns.empty()) {
      return fail(ErrorCode::kValue, place(pointer + "/fqns"), "the unit has no module",
                  "name the modules that are checkpointed together");
    }
    for (const std::string& fqn : unit.fqns) {
      if (seen_.insert(fqn).second) continue;
      return fail(ErrorCode::kConflict, place(pointer),
                  fmt::format("module '{}' is in a unit already", fqn),
                  "give each module one unit");
    }
    constexpr double kTolerance = 1e-9;
    if (entry.memory_budget &&
        std::abs(*entry.memory_budget - (1 - unit.discard_ratio)) > kTolerance) {
      return fail(ErrorCode::kConflict, place(pointer + "/memory_budget"),
                  "discard_ratio gives another budget", "leave the key out");
    }
    PLIMSOLL_RETURN_IF_ERROR(check_operators(unit, pointer));
    PLIMSOLL_ASSIGN(unit.nested, build(std::move(entry.nested), pointer + "/nested"));
    return unit;
  }

  Result<void> check_operators(const CheckpointUnit& unit, const std::string& pointer) const {
    for (std::size_t i = 0; i < unit.ops.size(); ++i) {
      const std::string op_pointer = fmt::format("{}/ops/{}", pointer, i);
      if (i > 0 && unit.ops[i].index <= unit.ops[i - 1].index) {
        return fail(ErrorCode::kValue, place(op_pointer + "/i"),
                    "an operator is listed after one that runs later, or twice",
                    "list the operators in their order of execution");
      }
      if (unit.ops[i].save && unit.kind == UnitKind::kFull) {
        return fail(ErrorCode::kConflict, place(op_pointer + "/save"),
                    "a unit of kind full keeps no operator's output",
                    "give the kind \"selective\"");
      }
    }
    return {};
  }

  std::string place(const std::string& pointer) const { return document_place(file_, pointer); }

  std::string_view file_;
  std::set<std::string> seen_;
};

UnitEntry entry_of(const CheckpointUnit& unit) {
  UnitEntry entry;
  entry.unit = unit;
  if (unit.fqns.size() == 1) {
    entry.fqn = unit.fqns.front();
  } else {
    entry.fqns = unit.fqns;
  }
  entry.memory_budget = 1 - unit.discard_ratio;
  for (const CheckpointUnit& nested : unit.nested) entry.nested.push_back(entry_of(nested));
  return entry;
}

// A judge adds up what units discard.
Int128 discarded_in(const std::vector<CheckpointUnit>& units) {
  Int128 total = 0;
  for (const CheckpointUnit& unit : units) total += unit.discarded + discarded_in(unit.nested);
  return total;
}

Result<void> check_frontier(const std::vector<math::FrontierPoint>& points, std::string_view file,
                            std::string_view key) {
  for (std::size_t i = 1; i < points.size(); ++i) {
    const math::FrontierPoint& point = points[i];
    const math::FrontierPoint& before = points[i - 1];
    if (point.bytes > before.bytes && point.ms <= before.ms) continue;
    return fail(ErrorCode::kValue, document_place(file, fmt::format("/{}/{}", key, i)),
                "a point takes no more bytes than the one before it, or more time",
                "list the points by bytes, none with more time than the one before it");
  }
  return {};
}

}  // namespace

bool is_checkpoint_policy_tree(const JsonValue& root) {
  if (root.find("schema") != nullptr) {
    return check_schema(root, "", kCheckpointPolicySchema).has_value();
  }
  return root.find("units") != nullptr;
}

bool is_checkpoint_policy(std::string_view text) {
  const auto root = parse_json(text, "");
  return root && is_checkpoint_policy_tree(*root);
}

Result<CheckpointAnswer> read_checkpoint_answer(std::string_view text, std::string_view file) {
  PLIMSOLL_ASSIGN(const JsonValue root, parse_json(text, file));
  return read_checkpoint_tree(root, file);
}

Result<CheckpointAnswer> read_checkpoint_tree(const JsonValue& root, std::string_view file) {
  PLIMSOLL_ASSIGN(PolicyDocument document,
                  read_tree<PolicyDocument>(root, file, kCheckpointPolicySchema));
  CheckpointAnswer answer = std::move(document.answer);
  if (!document.units && !answer.status) {
    return fail(ErrorCode::kSchema, document_place(file, ""), "the key 'units' is missing",
                "list the units of the plan; without any, []");
  }
  if (document.units) {
    PLIMSOLL_ASSIGN(answer.plan.emplace().units,
                    UnitBuilder(file).build(*std::move(document.units), "/units"));
    if (discarded_in(answer.plan->units) > Int128{1} << 60) {
      return fail(ErrorCode::kOverflow, document_place(file, "/units"),
                  "the units discard more than 2^60 bytes", "give the figures of one rank");
    }
  }
  if (document.certificate) {
    PLIMSOLL_ASSIGN(answer.certificate, take_certificate(*document.certificate, file));
  }
  PLIMSOLL_RETURN_IF_ERROR(check_frontier(answer.frontier, file, "frontier"));
  PLIMSOLL_RETURN_IF_ERROR(check_frontier(answer.frontier_bound, file, "frontier_bound"));
  return answer;
}

std::string write_checkpoint_answer(const CheckpointAnswer& answer) {
  PolicyDocument document;
  document.answer = answer;
  if (answer.plan) {
    document.units.emplace();
    for (const CheckpointUnit& unit : answer.plan->units) {
      document.units->push_back(entry_of(unit));
    }
  }
  if (answer.certificate) {
    document.certificate = make_certificate_entry(*answer.certificate);
  }
  return write_document(document);
}

}  // namespace plimsoll::io
