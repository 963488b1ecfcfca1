#include "study/partition/memory_advice.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "partition/cost_graphs.h"

namespace plimsoll::study {
namespace {

using partition::cost_node;
using ::testing::ElementsAre;

// What a device needs is `enough`; below `open` that is proved, between nothing is known.
SolveStatus answer_of(Bytes cap, Bytes open, Bytes enough) {
  return cap >= enough ? SolveStatus::kFeasible
         : cap < open  ? SolveStatus::kInfeasible
                       : SolveStatus::kLimit;
}

TEST(MemoryNeed, FindsTheLeastThatIsEnoughAndTheMostThatIsNot) {
  for (Bytes enough = 2; enough < 40; ++enough) {
    for (Bytes open = 2; open <= enough; ++open) {
      SCOPED_TRACE(testing::Message() << enough << ' ' << open);
      const auto ask = [&](Bytes cap) { return answer_of(cap, open, enough); };
      const auto need = find_memory_need(1, 64, 1, ask);
      ASSERT_TRUE(need);
      EXPECT_EQ(need->enough, enough);
      EXPECT_EQ(need->too_little, open - 1);
    }
  }
}

TEST(MemoryNeed, IsEmptyWhereMemoryDoesNotHelpOrIsNotMissing) {
  const auto never = [](Bytes) { return SolveStatus::kInfeasible; };
  EXPECT_FALSE(find_memory_need(1, 64, 1, never));
  const auto always = [](Bytes) { return SolveStatus::kOptimal; };
  EXPECT_FALSE(find_memory_need(1, 64, 1, always));
  EXPECT_FALSE(find_memory_need(64, 64, 1, never));
}

const PlacementSearch& search_named(std::string_view name) {
  for (const PlacementSearch& search : placement_searches()) {
    if (search.name == name) return search;
  }
  ADD_FAILURE() << name;
  return placement_searches().front();
}

// Two nodes of 6 and 5 bytes on two accelerators of 5: one of them needs 6.
GraphCase two_nodes() {
  GraphCase made;
  made.costs.emplace();
  made.costs->classes = {{"accelerator", 2, Bytes{5}, 1}};
  made.costs->nodes = {cost_node("a", {1}, 6), cost_node("b", {1}, 5)};
  made.names = {"a", "b"};
  return made;
}

MemoryAdvice advise(const GraphCase& made) {
  const PlacementSearch& search = search_named("contiguous");
  const PlacementSearchOptions options;
  const auto answer = search.run(made, options, {});
  EXPECT_TRUE(answer) << format_error(answer.error());
  return find_memory_advice(made, search, options, {}, *answer);
}

TEST(MemoryAdvice, NamesTheClassAndTheLeastBytesThatAPlanNeeds) {
  const MemoryAdvice advice = advise(two_nodes());
  ASSERT_TRUE(advice.need);
  EXPECT_EQ(*advice.need, (MemoryNeed{6, 5}));
  EXPECT_EQ(advice.cap, 5);
  EXPECT_EQ(advice.device_class, 0);
  EXPECT_FALSE(advice.is_added);
  EXPECT_TRUE(advice.rules.empty());
}

TEST(MemoryAdvice, NamesThePinsWithoutWhichAPlanFits) {
  GraphCase made = two_nodes();
  made.costs->classes[0].memory_cap = Bytes{8};
  made.costs->nodes[0].pinned_device = 0;
  made.costs->nodes[1].pinned_device = 0;
  const MemoryAdvice advice = advise(made);
  ASSERT_EQ(advice.rules.size(), 1U);
  ASSERT_TRUE(advice.need);
  EXPECT_EQ(advice.need->enough, 11);
}

TEST(MemoryAdvice, IsEmptyWhereThereIsAPlan) {
  GraphCase made = two_nodes();
  made.costs->classes[0].memory_cap = Bytes{6};
  const MemoryAdvice advice = advise(made);
  EXPECT_FALSE(advice.need);
  EXPECT_TRUE(advice.rules.empty());
}

// Each class has a node that only it runs and that is too large for it.
TEST(MemoryAdvice, AsksMoreOfEveryClassWhereOneAloneDoesNotDo) {
  GraphCase made = two_nodes();
  made.costs->classes = {{"accelerator", 1, Bytes{5}, 1}, {"other", 1, Bytes{1}, 1}};
  made.costs->nodes = {cost_node("a", {1, partition::kUnlimited}, 6),
                       cost_node("b", {partition::kUnlimited, 1}, 4)};
  const MemoryAdvice advice = advise(made);
  ASSERT_TRUE(advice.need);
  EXPECT_TRUE(advice.is_added);
  EXPECT_EQ(advice.need->enough, 3);
}

}  // namespace
}  // namespace plimsoll::study
