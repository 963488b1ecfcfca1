#include "study/embedding/user_constraints.h"

#include <algorithm>

namespace plimsoll::study {
namespace {

using embedding::BridgeOptions;
using embedding::ConstraintMap;
using embedding::ParameterConstraints;
using topology::Storage;

void find_table_constraints(const ConstraintMap& constraints, bool is_by_fqn,
                            std::vector<UserConstraint>& found) {
  for (const auto& [key, of_table] : constraints) {
    const auto add = [&, key = key](ConstraintKind kind) {
      found.push_back({kind, {key}, is_by_fqn});
    };
    if (!of_table.sharding_types.empty()) add(ConstraintKind::kShardingTypes);
    if (!of_table.compute_kernels.empty()) add(ConstraintKind::kComputeKernels);
    if (of_table.min_partition.value_or(0) > 0) add(ConstraintKind::kMinPartition);
  }
}

void find_rules(const BridgeOptions& rules, std::vector<UserConstraint>& found) {
  for (const auto& [fqn, ranks] : rules.allowed_ranks) {
    found.push_back({ConstraintKind::kAllowedRanks, {fqn}, true});
  }
  for (const auto& [fqn, ranks] : rules.forbidden_ranks) {
    found.push_back({ConstraintKind::kForbiddenRanks, {fqn}, true});
  }
  for (const auto& fqns : rules.together) found.push_back({ConstraintKind::kTogether, fqns, true});
  for (const auto& fqns : rules.apart) found.push_back({ConstraintKind::kApart, fqns, true});
}

std::vector<Storage>& devices_of(ShardingQuestion& question) {
  return question.given ? question.given->prepared.reservation->topology.devices
                        : question.problem.topology.devices;
}

// So many on every rank add up in 63 bits.
Bytes uncapped(std::size_t num_ranks) {
  constexpr Bytes kEnough = Bytes{1} << 50;
  return std::min(kEnough,
                  (Bytes{1} << 61) / static_cast<Bytes>(std::max<std::size_t>(num_ranks, 1)));
}

void drop_of_table(const UserConstraint& constraint, ShardingQuestion& question) {
  ConstraintMap& map = constraint.is_by_fqn ? question.problem.enumeration.fqn_constraints
                                            : question.problem.model.constraints;
  const auto found = map.find(constraint.tables.front());
  if (found == map.end()) return;
  if (constraint.kind == ConstraintKind::kShardingTypes) found->second.sharding_types.clear();
  if (constraint.kind == ConstraintKind::kComputeKernels) found->second.compute_kernels.clear();
  if (constraint.kind == ConstraintKind::kMinPartition) found->second.min_partition.reset();
}

}  // namespace

std::vector<UserConstraint> find_constraints(const ShardingQuestion& question) {
  std::vector<UserConstraint> found;
  if (!question.given) {
    find_table_constraints(question.problem.model.constraints, false, found);
    find_table_constraints(question.problem.enumeration.fqn_constraints, true, found);
  }
  if (question.is_balanced) {
    find_rules(question.balanced.bridge, found);
    if (question.balanced.bridge.strict_numerics)
      found.push_back({ConstraintKind::kNumerics, {}, false});
  }
  if (!question.given) found.push_back({ConstraintKind::kReservation, {}, false});
  found.push_back({ConstraintKind::kDdrCap, {}, false});
  found.push_back({ConstraintKind::kHbmCap, {}, false});
  return found;
}

void drop_constraint(const UserConstraint& constraint, ShardingQuestion& question) {
  BridgeOptions& bridge = question.balanced.bridge;
  switch (constraint.kind) {
    case ConstraintKind::kShardingTypes:
    case ConstraintKind::kComputeKernels:
    case ConstraintKind::kMinPartition:
      return drop_of_table(constraint, question);
    case ConstraintKind::kAllowedRanks:
      bridge.allowed_ranks.erase(constraint.tables.front());
      return;
    case ConstraintKind::kForbiddenRanks:
      bridge.forbidden_ranks.erase(constraint.tables.front());
      return;
    case ConstraintKind::kTogether:
      std::erase(bridge.together, constraint.tables);
      return;
    case ConstraintKind::kApart:
      std::erase(bridge.apart, constraint.tables);
      return;
    case ConstraintKind::kNumerics:
      bridge.strict_numerics = false;
      return;
    case ConstraintKind::kReservation:
      question.problem.reservation = {};
      question.problem.reservation.kind = embedding::ReservationKind::kFixedPercentage;
      question.problem.reservation.percentage = 0;
      return;
    case ConstraintKind::kDdrCap:
    case ConstraintKind::kHbmCap:
      std::vector<Storage>& devices = devices_of(question);
      for (Storage& device : devices) {
        (constraint.kind == ConstraintKind::kHbmCap ? device.hbm : device.ddr) =
            uncapped(devices.size());
      }
      return;
  }
}

ParameterConstraints& constraints_of_table(embedding::PlanningProblem& problem,
                                           const embedding::Module& module,
                                           const embedding::Table& table) {
  const auto by_fqn =
      problem.enumeration.fqn_constraints.find(embedding::table_fqn(module.path, table.name));
  if (by_fqn != problem.enumeration.fqn_constraints.end()) return by_fqn->second;
  return problem.model.constraints[table.name];
}

}  // namespace plimsoll::study
