#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <memory>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "embedding/dynamic_programming_cases.h"
#include "plimsoll/embedding/proposer.h"

namespace plimsoll::embedding {
namespace {

TEST(DynamicProgrammingProposer, ProposesWhatTheReferenceProposes) {
  int number = 0;
  for (DynamicProgrammingCase& known : dynamic_programming_cases()) {
    SCOPED_TRACE(number++);
    const auto proposer = make_dynamic_programming_proposer(known.hbm_bins);
    std::string error;
    EXPECT_EQ(load_and_drain(*proposer, known.options, known.topology, &error), known.one_axis);
    EXPECT_EQ(error, known.error);
  }
  EXPECT_EQ(number, 60);
}

TEST(DynamicProgrammingProposer, StartsWithTheLeastHbmOfEveryTable) {
  OptionSet options = make_options({{{30, 0, 1}, {10, 0, 9}}, {{5, 0, 2}}});
  const auto proposer = make_dynamic_programming_proposer();
  ASSERT_TRUE(proposer->load(space_of(options)).has_value());
  EXPECT_EQ(*proposer->propose(), (Proposal{2, 1}));  // the second table holds the smallest option
}

TEST(DynamicProgrammingProposer, ProposesTheHighestBinFirst) {
  //  bins  0    1    2    3        one device of 40 bytes, 4 bins
  //        a9   b5        c7       each bin keeps its best option; no bin is skipped for being
  //        worse
  OptionSet options = make_options({{{0, 0, 9}, {10, 0, 5}, {19, 0, 6}, {30, 0, 7}, {40, 0, 1}}});
  const auto proposer = make_dynamic_programming_proposer(4);
  const std::vector<Proposal> proposals =
      load_and_drain(*proposer, options, make_devices({{.hbm = 40}}));
  EXPECT_EQ(proposals, (std::vector<Proposal>{{0}, {3}, {1}, {0}}));
}

TEST(DynamicProgrammingProposer, KeepsTheFirstOfEquallyGoodStates) {
  // Both options of the second table lead to 4 ms in the same bin: the smaller option stays.
  OptionSet options = make_options({{{1, 0, 1}, {2, 0, 1}}, {{3, 0, 3}, {4, 0, 3}, {5, 0, 3}}});
  const auto proposer = make_dynamic_programming_proposer(1);
  const std::vector<Proposal> proposals =
      load_and_drain(*proposer, options, make_devices({{.hbm = 100}}));
  EXPECT_EQ(proposals, (std::vector<Proposal>{{0, 2}, {0, 2}}));
}

TEST(DynamicProgrammingProposer, LeavesOutWhatFillsAllBins) {
  OptionSet options = make_options({{{100, 0, 1}}, {{0, 0, 1}}});
  const auto proposer = make_dynamic_programming_proposer(10);
  EXPECT_EQ(load_and_drain(*proposer, options, make_devices({{.hbm = 100}})).size(), 1U);
}

TEST(DynamicProgrammingProposer, DividesByZeroWithoutHbm) {
  OptionSet options = make_options({{{0, 8, 1}}});
  const auto proposer = make_dynamic_programming_proposer();
  const auto topology = make_devices({{.ddr = 64}, {.ddr = 64}});
  ASSERT_TRUE(proposer->load(space_of(options)).has_value());
  ASSERT_NE(proposer->propose(), nullptr);
  const auto result = proposer->feedback(feedback_of(false, &topology));
  ASSERT_FALSE(result.has_value());
  EXPECT_EQ(result.error().code, ErrorCode::kZeroDivision);
  EXPECT_EQ(result.error().message, "float division by zero");
  EXPECT_EQ(proposer->propose(), nullptr);
}

TEST(DynamicProgrammingProposer, ProposesNothingWhenUsedAgain) {
  OptionSet options = make_options({{{1, 0, 1}}});
  const auto topology = make_devices({{.hbm = 10}});
  const auto proposer = make_dynamic_programming_proposer();
  EXPECT_EQ(load_and_drain(*proposer, options, topology).size(), 2U);
  EXPECT_TRUE(load_and_drain(*proposer, options, topology).empty());
}

TEST(DynamicProgrammingProposer, NeedsAStorageConstraint) {
  OptionSet options = make_options({{{1, 0, 1}}});
  const auto proposer = make_dynamic_programming_proposer();
  ASSERT_TRUE(proposer->load(space_of(options)).has_value());
  EXPECT_FALSE(proposer->feedback(feedback_of(true, nullptr)).has_value());
}

// The recursion of docs/mathematics/torchrec-planner.md#dynamic-programming, cell by cell.
std::vector<Proposal> naive(const OptionSet& options, const Proposal& order,
                            const std::vector<std::vector<std::int32_t>>& lists, Bytes total,
                            int bins) {
  struct State {
    double perf = std::numeric_limits<double>::infinity();
    double memory = 0;
    Proposal choices;
  };
  const double size = static_cast<double>(total) / bins;
  std::vector<State> states(1);
  states[0].perf = 0;
  for (const std::int32_t t : order) {
    std::vector<State> next(static_cast<std::size_t>(bins));
    for (const std::int32_t option : lists[static_cast<std::size_t>(t)]) {
      const ShardRuns shards = options.shards(option);
      for (const State& state : states) {
        if (std::isinf(state.perf)) continue;
        const double memory = state.memory + static_cast<double>(shards.total_storage().hbm) / size;
        if (memory >= bins) continue;
        const double perf = state.perf + shards.total_perf();
        State& cell = next[static_cast<std::size_t>(memory)];
        if (!(cell.perf > perf)) continue;
        Proposal choices = state.choices;
        choices.push_back(option);
        cell = {perf, memory, std::move(choices)};
      }
    }
    states = std::move(next);
  }
  std::vector<Proposal> proposals;
  for (std::size_t i = states.size(); i-- > 0;) {
    if (!std::isinf(states[i].perf)) proposals.push_back(states[i].choices);
  }
  return proposals;
}

TEST(DynamicProgrammingProposer, EqualsTheNaiveProgram) {
  for (std::uint64_t seed = 0; seed < 300; ++seed) {
    SCOPED_TRACE(seed);
    std::mt19937_64 random(seed);
    const auto below = [&](std::uint64_t n) { return static_cast<std::int64_t>(random() % n); };
    HandMadeTables tables(static_cast<std::size_t>(1 + below(6)));
    for (auto& table : tables) {
      table.resize(static_cast<std::size_t>(1 + below(6)));
      for (HandMadeOption& option : table) {
        option = {below(50), 0, static_cast<double>(below(8)) / 3, 1 + below(3)};
      }
    }
    OptionSet options = make_options(tables);
    const Bytes cap = 60 + below(200);
    const int bins = static_cast<int>(1 + below(40));
    const auto proposer = make_dynamic_programming_proposer(bins);
    ASSERT_TRUE(proposer->load(space_of(options)).has_value());
    // The first proposal tells the order of tables; lists are sorted by HBM.
    const Proposal first = *proposer->propose();
    Proposal order;
    for (const std::int32_t option : first) {
      order.push_back(options.options[static_cast<std::size_t>(option)].table);
    }
    std::vector<std::vector<std::int32_t>> lists(tables.size());
    for (std::size_t t = 0; t < tables.size(); ++t) {
      for (std::int32_t i = 0; i < options.tables[t].num_options; ++i) {
        lists[t].push_back(options.tables[t].first_option + i);
      }
      std::stable_sort(lists[t].begin(), lists[t].end(), [&](std::int32_t a, std::int32_t b) {
        return options.shards(a).total_storage().hbm < options.shards(b).total_storage().hbm;
      });
    }
    std::vector<Proposal> expected = naive(options, order, lists, cap, bins);
    expected.insert(expected.begin(), first);
    EXPECT_EQ(drain(*proposer, make_devices({{.hbm = cap}})), expected);
  }
}

TEST(DynamicProgrammingProposer, ProposesTwiceWhereMemoryAbounds) {
  const auto proposer = make_dynamic_programming_proposer();
  EXPECT_EQ(describe_proposals(*proposer, small_shapes(), 100 * kGiB, 512),
            (std::vector<std::string>{"TW fused_uvm, TW fused_uvm, TW fused_uvm",
                                      "RW fused, TW fused, TW fused"}));
}

TEST(DynamicProgrammingProposer, ProposesThreeTimesForATableLargerThanAllHbm) {
  const auto proposer = make_dynamic_programming_proposer();
  std::vector<double> perf;
  EXPECT_EQ(describe_proposals(*proposer, huge_shapes(), std::nullopt, 8196, &perf),
            (std::vector<std::string>{"TW fused_uvm, TW fused_uvm, TW fused_uvm",
                                      "DP dense, TW fused, TW fused_uvm_caching",
                                      "DP dense, TW fused, TW fused_uvm"}));
  ASSERT_EQ(perf.size(), 3U);
  EXPECT_EQ(perf[0], 16.242134012281895);
  EXPECT_EQ(perf[1], 1.043844879245662);
  EXPECT_EQ(perf[2], 6.454795964452601);
}

TEST(DynamicProgrammingProposer, OverlooksThatAShardFitsOnNoDevice) {
  // 120 GB on two devices of 80 GB.
  const auto proposer = make_dynamic_programming_proposer();
  EXPECT_EQ(describe_proposals(*proposer, huge_shapes(), 80000000000, 8196),
            (std::vector<std::string>{
                "TW fused_uvm, TW fused_uvm, TW fused_uvm", "DP dense, TW fused, TW fused",
                "DP dense, TW fused, TW fused_uvm_caching", "DP dense, TW fused, TW fused_uvm"}));
}

}  // namespace
}  // namespace plimsoll::embedding
