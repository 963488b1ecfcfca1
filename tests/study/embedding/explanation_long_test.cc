#include <gtest/gtest.h>

#include "study/embedding/no_plan_cases.h"

namespace plimsoll::study {
namespace {

TEST(NoPlanLong, SaysWhatIsTrueOfTwoHundredProblems) {
  const NoPlanCounts counts = check_no_plans(1000, 200);
  EXPECT_EQ(counts.with_fix, 200);
}

}  // namespace
}  // namespace plimsoll::study
