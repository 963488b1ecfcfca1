// Where units may stand.

#include <algorithm>
#include <set>

#include "check/checkpoint/checkpoint_rules.h"

namespace plimsoll::check {
namespace {

using checkpoint::CheckpointUnit;
using Code = FindingCode;

class Placer {
 public:
  Placer(const JudgedCheckpoint& given, Findings& findings) : given_(given), findings_(findings) {}

  std::vector<PlacedUnit> place(const std::vector<CheckpointUnit>& units, const PlacedUnit* outer) {
    std::vector<PlacedUnit> placed;
    std::set<int> seen;
    for (const CheckpointUnit& unit : units) {
      PlacedUnit next;
      next.unit = &unit;
      next.fqn = unit.fqns.empty() ? "" : unit.fqns[0];
      if (!find_nodes(next, seen)) continue;
      check_permission(next);
      if (next.nodes.size() > 1 && !check_run(next)) continue;
      if (outer != nullptr && !is_inside(next, *outer)) {
        findings_.add(Code::kNestedOutside, next.fqn, "a module inside " + outer->fqn, next.fqn,
                      "a nested unit is outside the unit that lists it");
        continue;
      }
      if (!check_apart(placed, next)) continue;
      next.nested = place(unit.nested, &next);
      placed.push_back(std::move(next));
    }
    return placed;
  }

 private:
  const JudgedCheckpoint& given_;
  Findings& findings_;

  bool find_nodes(PlacedUnit& placed, std::set<int>& seen) {
    if (placed.unit->fqns.empty()) {
      findings_.add(Code::kEmptyUnit, "", "at least one module", "none", "a unit names no module");
      return false;
    }
    const std::size_t before = findings_.all.size();
    for (const std::string& fqn : placed.unit->fqns) {
      const auto node = given_.node_of.find(fqn);
      if (node == given_.node_of.end()) {
        findings_.add(Code::kUnknownModule, fqn, "a module of the statistics", fqn,
                      "the statistics have no such module");
      } else if (!seen.insert(node->second).second) {
        findings_.add(Code::kUnitTwice, fqn, "one unit", "several",
                      "the plan lists the module more than once");
      } else {
        placed.nodes.push_back(node->second);
      }
    }
    if (findings_.all.size() != before) return false;
    const checkpoint::ModuleTree& tree = *given_.tree;
    placed.first = tree.position[placed.nodes[0]];
    for (int below : tree.descendants[placed.nodes[0]]) {
      placed.first = std::min(placed.first, tree.position[below]);
    }
    placed.last = tree.position[placed.nodes.back()];
    return true;
  }

  void check_permission(const PlacedUnit& placed) {
    const CheckpointCheckOptions& options = *given_.options;
    const bool is_run = placed.nodes.size() > 1;
    for (int node : placed.nodes) {
      const checkpoint::ModuleInfo& module = given_.info(node);
      // In a run a leaf is recomputed with its siblings.
      if (module.is_leaf && given_.table_of(node) == nullptr && !is_run) {
        findings_.add(Code::kLeafUnit, module.fqn, "a module with children", "a leaf",
                      "a leaf has no trade-off record and frees nothing");
      }
      if (lists(given_.stats->repeated, module.fqn)) {
        findings_.add(Code::kRepeatedUnit, module.fqn, "a module that is called once",
                      "called more than once", "the plan cannot tell the module's calls apart");
      }
      if (!module.requires_grad) {
        findings_.add(Code::kNoGradient, module.fqn, "a module with a backward", "no gradient",
                      "nothing of the module is kept for the backward pass");
      }
      if (!options.ac_units.empty() && !lists(options.ac_units, module.fqn)) {
        findings_.add(Code::kUnitNotAllowed, module.fqn, "a module of ac_units", module.fqn,
                      "the module is not among those that may be units");
      }
      for (const std::string& fqn : options.fsdp_units) {
        const auto fsdp = given_.node_of.find(fqn);
        if (fsdp == given_.node_of.end()) continue;
        if (given_.is_below(fsdp->second, node) || (is_run && fsdp->second == node)) {
          findings_.add(Code::kContainsFsdpUnit, module.fqn, "no FSDP unit strictly inside", fqn,
                        "recomputation would gather the parameters of " + fqn + " again");
        }
      }
    }
  }

  bool check_run(const PlacedUnit& placed) {
    const checkpoint::ModuleTree& tree = *given_.tree;
    const int parent = tree.parent[placed.nodes[0]];
    if (parent >= 0) {
      const std::vector<int>& children = tree.children[parent];
      const auto found =
          std::search(children.begin(), children.end(), placed.nodes.begin(), placed.nodes.end());
      if (found != children.end()) return true;
    }
    findings_.add(Code::kNotSiblings, placed.fqn, "consecutive children of one module",
                  placed.fqn + " ... " + placed.unit->fqns.back(),
                  "a run must be an unbroken run of siblings in forward order");
    return false;
  }

  bool is_inside(const PlacedUnit& placed, const PlacedUnit& outer) const {
    return std::all_of(placed.nodes.begin(), placed.nodes.end(), [&](int node) {
      return std::any_of(outer.nodes.begin(), outer.nodes.end(), [&](int above) {
        return given_.is_below(node, above) || (node == above && outer.nodes.size() > 1 &&
                                                placed.nodes.size() < outer.nodes.size());
      });
    });
  }

  bool holds(const PlacedUnit& outer, const PlacedUnit& inner) const {
    return std::any_of(inner.nodes.begin(), inner.nodes.end(), [&](int node) {
      return std::any_of(outer.nodes.begin(), outer.nodes.end(),
                         [&](int above) { return given_.is_below(node, above); });
    });
  }

  // Against the units before it at its own level. A module may return amid those of another, so
  // only names say what stands inside what.
  bool check_apart(const std::vector<PlacedUnit>& before, const PlacedUnit& placed) {
    for (const PlacedUnit& other : before) {
      const bool is_inner = holds(other, placed);
      if (is_inner || holds(placed, other)) {
        const std::string& inner = is_inner ? placed.fqn : other.fqn;
        const std::string& outer = is_inner ? other.fqn : placed.fqn;
        findings_.add(Code::kUnitInsideUnit, inner, "units that are apart",
                      inner + " inside " + outer,
                      "a unit is inside another and is not among its nested units");
        return false;
      }
      if (placed.last < other.last) {
        findings_.add(Code::kOrder, placed.fqn, "forward order", placed.fqn + " after " + other.fqn,
                      "units are not in forward order");
        return true;
      }
    }
    return true;
  }
};

}  // namespace

const checkpoint::SACStats* JudgedCheckpoint::table_of(int node) const {
  const auto index = stats->sac_stats_of.find(info(node).fqn);
  return index == stats->sac_stats_of.end() ? nullptr : &stats->sac_stats[index->second];
}

bool JudgedCheckpoint::is_below(int node, int above) const {
  for (node = tree->parent[node]; node >= 0; node = tree->parent[node]) {
    if (node == above) return true;
  }
  return false;
}

std::vector<PlacedUnit> place_units(const JudgedCheckpoint& given,
                                    const checkpoint::CheckpointPolicy& policy,
                                    Findings& findings) {
  return Placer(given, findings).place(policy.units, nullptr);
}

}  // namespace plimsoll::check
