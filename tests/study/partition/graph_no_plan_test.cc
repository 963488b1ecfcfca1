#include <gtest/gtest.h>

#include "study/partition/graph_no_plan_cases.h"

namespace plimsoll::study {
namespace {

TEST(GraphNoPlan, SaysWhatIsTrueOfSeededGraphs) {
  const GraphNoPlanCounts counts = check_graphs_without_plans(0, 40);
  EXPECT_EQ(counts.with_fix, 40);  // some only by two changes
  EXPECT_GT(counts.with_rules, 5);
}

TEST(GraphNoPlan, NamesThePinsThatConflict) {
  GraphCase made;
  made.costs.emplace();
  made.costs->classes = {{"accelerator", 2, Bytes{8}, 1}};
  made.costs->nodes = {partition::cost_node("a", {1}, 6), partition::cost_node("b", {1}, 5),
                       partition::cost_node("c", {1}, 1)};
  made.names = {"a", "b", "c"};
  for (const std::size_t node : {0, 1, 2}) made.costs->nodes[node].pinned_device = 0;
  const auto answer = general_search().run(made, {}, {});
  ASSERT_TRUE(answer);
  ASSERT_EQ(answer->status, SolveStatus::kInfeasible);
  const MemoryAdvice advice = find_memory_advice(made, general_search(), {}, {}, *answer);
  // a and b do not fit together; c fits beside either.
  EXPECT_EQ(advice.conflict, (std::vector<GraphConstraint>{{-1, 0}, {-1, 1}, {0, -1}}));
  EXPECT_EQ(advice.binding_class, 0);
  EXPECT_TRUE(std::any_of(advice.fixes.begin(), advice.fixes.end(), [](const GraphRemedy& remedy) {
    return remedy.kind == GraphRemedy::Kind::kRules && remedy.nodes == std::vector<int>{0};
  }));
}

}  // namespace
}  // namespace plimsoll::study
