#include <gtest/gtest.h>

#include "study/partition/graph_no_plan_cases.h"

namespace plimsoll::study {
namespace {

TEST(GraphNoPlanLong, SaysWhatIsTrueOfTwoHundredGraphs) {
  EXPECT_EQ(check_graphs_without_plans(1000, 200).with_fix, 200);
}

}  // namespace
}  // namespace plimsoll::study
