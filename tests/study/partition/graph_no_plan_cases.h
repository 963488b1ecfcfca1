// Seeded graphs that fit no devices, and what must be true of what is said of them.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <random>
#include <string>

#include "partition/cost_graphs.h"
#include "study/partition/memory_advice.h"

namespace plimsoll::study {

// A chain of a few nodes with pins, on a few devices of one class or two; many do not fit.
inline GraphCase random_case(std::mt19937& random) {
  const auto below = [&random](unsigned n) { return static_cast<int>(random() % n); };
  GraphCase made;
  made.costs.emplace();
  made.costs->classes = {{"accelerator", 1 + below(3), Bytes{6 + below(10)}, 1}};
  if (below(2) == 0)
    made.costs->classes.push_back({"other", 1 + below(2), Bytes{4 + below(10)}, 1});
  const std::size_t num_classes = made.costs->classes.size();
  const int num_nodes = 2 + below(5);
  for (int i = 0; i < num_nodes; ++i) {
    std::vector<double> ms(num_classes, 1.0 + below(4));
    made.costs->nodes.push_back(partition::cost_node("n" + std::to_string(i), ms, 1 + below(10)));
    made.names.push_back("n" + std::to_string(i));
    partition::CostNode& node = made.costs->nodes.back();
    if (below(4) == 0) node.pinned_device = below(static_cast<unsigned>(made.costs->num_devices()));
    if (below(6) == 0 && !node.pinned_device) node.forbidden_devices = {0};
    if (i == 0) continue;
    partition::Net& net = made.costs->nets.emplace_back();
    net.producer = i - 1;
    net.consumers = {i};
    net.amount = below(3);
  }
  return made;
}

inline const PlacementSearch& general_search() {
  const auto searches = placement_searches();
  return *std::find_if(searches.begin(), searches.end(),
                       [](const PlacementSearch& search) { return search.name == "general"; });
}

inline SolveStatus status_of(const GraphCase& made) {
  const auto answer = general_search().run(made, {}, {});
  EXPECT_TRUE(answer) << (answer ? "" : format_error(answer.error()));
  return answer ? answer->status.value_or(SolveStatus::kLimit) : SolveStatus::kLimit;
}

inline bool is_placed(const GraphCase& made) {
  const SolveStatus status = status_of(made);
  return status == SolveStatus::kOptimal || status == SolveStatus::kFeasible;
}

inline void drop(const GraphConstraint& constraint, partition::CostGraph& graph) {
  if (constraint.device_class >= 0) {
    graph.classes[static_cast<std::size_t>(constraint.device_class)].memory_cap.reset();
    return;
  }
  graph.nodes[static_cast<std::size_t>(constraint.node)].pinned_device.reset();
  graph.nodes[static_cast<std::size_t>(constraint.node)].forbidden_devices.clear();
}

// Every constraint of the graph that is not in the list left out.
inline GraphCase with_only(const GraphCase& made, const std::vector<GraphConstraint>& members) {
  GraphCase asked = made;
  const auto drop_unless = [&](const GraphConstraint& constraint) {
    if (std::find(members.begin(), members.end(), constraint) == members.end()) {
      drop(constraint, *asked.costs);
    }
  };
  for (int node = 0; node < made.costs->num_nodes(); ++node) drop_unless({-1, node});
  for (std::size_t c = 0; c < made.costs->classes.size(); ++c) {
    drop_unless({static_cast<int>(c), -1});
  }
  return asked;
}

struct GraphNoPlanCounts {
  int infeasible = 0, with_fix = 0, with_rules = 0;
};

inline GraphNoPlanCounts check_graphs_without_plans(unsigned first_seed, int wanted) {
  GraphNoPlanCounts counts;
  for (unsigned seed = first_seed; counts.infeasible < wanted; ++seed) {
    SCOPED_TRACE(seed);
    std::mt19937 random(seed);
    const GraphCase made = random_case(random);
    const auto answer = general_search().run(made, {}, {});
    if (!answer) {
      ADD_FAILURE() << format_error(answer.error());
      return counts;
    }
    if (answer->status != SolveStatus::kInfeasible) continue;
    ++counts.infeasible;
    const MemoryAdvice advice = find_memory_advice(made, general_search(), {}, {}, *answer);
    EXPECT_TRUE(advice.is_irreducible);
    EXPECT_EQ(status_of(with_only(made, advice.conflict)), SolveStatus::kInfeasible);
    for (std::size_t i = 0; i < advice.conflict.size(); ++i) {
      std::vector<GraphConstraint> rest = advice.conflict;
      counts.with_rules += rest[i].node >= 0 ? 1 : 0;
      rest.erase(rest.begin() + static_cast<std::ptrdiff_t>(i));
      EXPECT_TRUE(is_placed(with_only(made, rest)));
    }
    bool has_such = false;
    for (std::size_t c = 0; c < made.costs->classes.size(); ++c) {
      GraphCase uncapped = made;
      drop({static_cast<int>(c), -1}, *uncapped.costs);
      const bool is_such = is_placed(uncapped);
      has_such = has_such || is_such;
      if (advice.binding_class == static_cast<int>(c)) {
        EXPECT_TRUE(is_such);
      }
    }
    EXPECT_EQ(advice.binding_class >= 0, has_such);
    EXPECT_FALSE(advice.fixes.empty());
    counts.with_fix += advice.fixes.empty() ? 0 : 1;
    double before = 0;
    for (const GraphRemedy& remedy : advice.fixes) {
      GraphCase mended = made;
      apply_remedy(remedy, *mended.costs);
      EXPECT_TRUE(is_placed(mended));
      EXPECT_GE(remedy.ms, before);
      before = remedy.ms;
    }
  }
  return counts;
}

}  // namespace plimsoll::study
