// EPLB's answers as its own program gave them: tests/experts/record_eplb.py.
#include "plimsoll/experts/eplb.h"

#include <gtest/gtest.h>

#include <fstream>
#include <nlohmann/json.hpp>

namespace plimsoll::experts {
namespace {

TEST(Eplb, AnswersAsTheOriginal) {
  std::ifstream file(PLIMSOLL_TEST_DATA "/experts/eplb.json");
  const auto recorded = nlohmann::json::parse(file);
  int num_hierarchical = 0, num_global = 0;
  for (const auto& c : recorded.at("cases")) {
    ExpertModel model;
    model.loads = c.at("loads").get<std::vector<std::vector<double>>>();
    model.num_slots = c.at("num_slots");
    model.num_groups = c.at("num_groups");
    model.num_hosts = c.at("num_hosts");
    model.num_ranks = c.at("num_ranks");
    ASSERT_TRUE(validate(model).has_value());
    SCOPED_TRACE(c.dump().substr(0, 200));
    EXPECT_EQ(rebalance_experts(model), c.at("slots").get<ExpertSlots>());
    ++(model.keeps_groups() ? num_hierarchical : num_global);
  }
  EXPECT_GT(num_hierarchical, 15);
  EXPECT_GT(num_global, 8);
}

}  // namespace
}  // namespace plimsoll::experts
