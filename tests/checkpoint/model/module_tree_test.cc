#include "plimsoll/checkpoint/module_tree.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <limits>

namespace plimsoll::checkpoint {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

// Modules in order of registration, in order of first call, and in order of return.
ModuleStats stats_of(const std::vector<std::string>& registered, std::vector<std::string> called,
                     std::vector<std::string> returned) {
  ModuleStats stats;
  for (const std::string& fqn : registered) {
    stats.mod_stats.emplace_back();
    stats.mod_stats.back().fqn = fqn;
  }
  stats.mod_order.fw_pre_order = std::move(called);
  stats.mod_order.fw_post_order = std::move(returned);
  return stats;
}

//   R ─┬─ R.b ─── R.b.list.0      R.b.list never ran; R.a is registered after R.b and called first
//      └─ R.a
ModuleStats small() {
  return stats_of({"R", "R.b", "R.b.list.0", "R.a"}, {"R", "R.a", "R.b", "R.b.list.0"},
                  {"R.a", "R.b.list.0", "R.b", "R"});
}

TEST(ModuleTree, HangsModulesAtTheNearestExecutedAncestorInForwardOrder) {
  const auto tree = make_module_tree(small());
  ASSERT_TRUE(tree) << format_error(tree.error());
  EXPECT_THAT(tree->parent, ElementsAre(-1, 0, 1, 0));
  EXPECT_THAT(tree->children, ElementsAre(ElementsAre(3, 1), ElementsAre(2), IsEmpty(), IsEmpty()));
  EXPECT_THAT(tree->post_order, ElementsAre(3, 2, 1, 0));
  EXPECT_THAT(tree->position, ElementsAre(3, 2, 1, 0));
  EXPECT_THAT(tree->descendants[0], ElementsAre(1, 2, 3));
  EXPECT_TRUE(tree->is_nested);
}

// R.b returns between R.a's child and R.a: a child called by a stranger.
TEST(ModuleTree, SaysWhereNamesAndPostOrderDisagree) {
  const auto broken_run = make_module_tree(stats_of(
      {"R", "R.a", "R.a.x", "R.b"}, {"R", "R.a", "R.a.x", "R.b"}, {"R.a.x", "R.b", "R.a", "R"}));
  ASSERT_TRUE(broken_run);
  EXPECT_FALSE(broken_run->is_nested);
  const auto root_early = make_module_tree(stats_of({"R", "R.a"}, {"R", "R.a"}, {"R", "R.a"}));
  ASSERT_TRUE(root_early);
  EXPECT_FALSE(root_early->is_nested);
}

// The substring rule sees "B." in "A.B.x", but stops at the first module that fails.
TEST(ModuleTree, KeepsTheReferencesSubstringAncestry) {
  const ModuleStats stats =
      stats_of({"A", "A.B", "A.B.x", "A.c", "A.c.A.B.y"}, {"A", "A.B", "A.B.x", "A.c", "A.c.A.B.y"},
               {"A.B.x", "A.B", "A.c.A.B.y", "A.c", "A"});
  const auto upstream = make_module_tree(stats, Ancestry::kSubstring);
  ASSERT_TRUE(upstream);
  EXPECT_THAT(upstream->descendants[1], ElementsAre(2));
  const ModuleStats unbroken =
      stats_of({"A", "A.B", "A.c.A.B.y"}, {"A", "A.B", "A.c.A.B.y"}, {"A.B", "A.c.A.B.y", "A"});
  EXPECT_THAT(make_module_tree(unbroken, Ancestry::kSubstring)->descendants[1], ElementsAre(2));
  EXPECT_THAT(make_module_tree(unbroken)->descendants[1], IsEmpty());
}

TEST(ModuleTree, RefusesWhatIsNoTree) {
  const auto strangers = make_module_tree(stats_of({"R", "S"}, {"R", "S"}, {"S", "R"}));
  ASSERT_FALSE(strangers);
  EXPECT_THAT(format_error(strangers.error()), HasSubstr("not below the first, R"));
  const auto root_last = make_module_tree(stats_of({"R.a", "R"}, {"R", "R.a"}, {"R.a", "R"}));
  ASSERT_FALSE(root_last);

  ModuleStats repeated = small();
  repeated.mod_order.fw_pre_order.push_back("R.a");
  EXPECT_TRUE(make_module_tree(repeated));
  const auto reference = make_module_tree(repeated, Ancestry::kSubstring);
  ASSERT_FALSE(reference);
  EXPECT_EQ(reference.error().code, ErrorCode::kConflict);
}

TEST(ModuleStats, RefusesWhatNoPlannerCanUse) {
  EXPECT_TRUE(validate(small()));
  EXPECT_FALSE(validate(ModuleStats{}));

  ModuleStats stats = small();
  stats.mod_stats[1].act_fw_per_module = -1;
  EXPECT_THAT(format_error(validate(stats).error()), HasSubstr("R.b: act_fw_per_module is -1"));
  stats = small();
  stats.mod_stats[1].act_grad_per_module = -1;  // signed
  EXPECT_TRUE(validate(stats));
  stats.mod_stats[1].sac_runtime = std::numeric_limits<double>::quiet_NaN();
  EXPECT_THAT(format_error(validate(stats).error()), HasSubstr("sac_runtime"));
  stats = small();
  stats.mod_stats[1].slopes = {1};
  EXPECT_EQ(validate(stats).error().code, ErrorCode::kSchema);
  stats = small();
  stats.mod_stats[1].fqn = "R.a";
  EXPECT_FALSE(validate(stats));
  stats = small();
  stats.mod_order.fw_post_order.pop_back();
  EXPECT_THAT(format_error(validate(stats).error()), HasSubstr("R: fw_post_order lacks"));
  stats = small();
  stats.mod_order.bw_pre_order = {"R.z"};
  EXPECT_THAT(format_error(validate(stats).error()), HasSubstr("R.z"));
  stats = small();
  stats.sac_stats_of["R.b"] = 0;
  EXPECT_THAT(format_error(validate(stats).error()), HasSubstr("names table 0, and there are 0"));
}

TEST(SACStats, RefusesListsThatDoNotFitAndParentsThatFollow) {
  SACStats stats;
  stats.func_names = {"mm", "relu_"};
  stats.runtimes = {1, 2};
  stats.memory = {4, 4};
  stats.inplace_ops = {{1, 0}};
  EXPECT_TRUE(validate(stats));
  stats.inplace_ops = {{0, 1}};
  EXPECT_THAT(format_error(validate(stats).error()), HasSubstr("runs after it"));
  stats.inplace_ops = {{1, 0}, {1, 1}};
  EXPECT_FALSE(validate(stats));
  stats.inplace_ops = {};
  stats.rand_ops = {2};
  EXPECT_THAT(format_error(validate(stats).error()), HasSubstr("rand_ops names operator 2"));
  stats.rand_ops = {};
  stats.memory.pop_back();
  EXPECT_FALSE(validate(stats));
}

}  // namespace
}  // namespace plimsoll::checkpoint
