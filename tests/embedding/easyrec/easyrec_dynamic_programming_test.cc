#include <gtest/gtest.h>

#include <algorithm>
#include <limits>
#include <memory>
#include <random>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "embedding/dynamic_programming_cases.h"
#include "plimsoll/embedding/proposer.h"

namespace plimsoll::embedding {
namespace {

std::unique_ptr<Proposer> make(EasyRecForm form, std::int64_t hbm_bins = 100,
                               std::int64_t ddr_bins = 25, bool has_cuda = true) {
  return make_easyrec_dynamic_programming_proposer({.form = form,
                                                    .hbm_bins_per_device = hbm_bins,
                                                    .ddr_bins_per_device = ddr_bins,
                                                    .has_cuda = has_cuda});
}

TEST(EasyRecDynamicProgrammingProposer, FirstFormEqualsTorchRecOnItsAxis) {
  int number = 0;
  for (DynamicProgrammingCase& known : dynamic_programming_cases()) {
    SCOPED_TRACE(number++);
    std::string error;
    EXPECT_EQ(load_and_drain(*make(EasyRecForm::kV1, known.hbm_bins), known.options, known.topology,
                             &error),
              known.one_axis);
    EXPECT_EQ(error, known.error);
    EXPECT_EQ(load_and_drain(*make(EasyRecForm::kV1, known.hbm_bins, 1, false), known.swapped,
                             known.swapped_topology, &error),
              known.one_axis);
  }
}

TEST(EasyRecDynamicProgrammingProposer, SecondFormDropsShardsLargerThanAnyDevice) {
  // Two shards of 60 fit in 200 bytes altogether but not on a device of 50; one of 50 just fits.
  const auto topology = make_devices({{.hbm = 50}, {.hbm = 50}, {.hbm = 50}, {.hbm = 50}});
  OptionSet options = make_options({{{60, 0, 1, 2}, {50, 0, 5, 1}, {10, 0, 9, 1}}});
  EXPECT_EQ(load_and_drain(*make(EasyRecForm::kV1, 10), options, topology),
            (std::vector<Proposal>{{2}, {0}, {1}, {2}}));
  EXPECT_EQ(load_and_drain(*make(EasyRecForm::kV2, 10), options, topology),
            (std::vector<Proposal>{{2}, {1}, {2}}));
}

TEST(EasyRecDynamicProgrammingProposer, AllFormsProposeThreeTimesForATableLargerThanAllHbm) {
  for (const EasyRecForm form : {EasyRecForm::kV1, EasyRecForm::kV2, EasyRecForm::kV3}) {
    const auto proposals = describe_proposals(*make(form), huge_shapes(), std::nullopt, 8196);
    ASSERT_EQ(proposals.size(), 3U);
    EXPECT_EQ(proposals[1], "DP dense, TW fused, TW fused_uvm_caching");
    EXPECT_EQ(proposals[2], "DP dense, TW fused, TW fused_uvm");
  }
}

TEST(EasyRecDynamicProgrammingProposer, LaterFormsCutATableThatFitsOnNoDevice) {
  // 120 GB on two devices of 80 GB: TorchRec's own form proposes it whole.
  for (const EasyRecForm form : {EasyRecForm::kV2, EasyRecForm::kV3}) {
    const auto proposals = describe_proposals(*make(form), huge_shapes(), 80000000000, 8196);
    ASSERT_EQ(proposals.size(), 4U);
    EXPECT_EQ(proposals[1], "DP dense, TW fused, RW fused");
    EXPECT_EQ(proposals[2], "DP dense, TW fused, TW fused_uvm_caching");
    EXPECT_EQ(proposals[3], "DP dense, TW fused, TW fused_uvm");
  }
}

TEST(EasyRecDynamicProgrammingProposer, SecondFormMayBeLeftWithoutOptions) {
  OptionSet options = make_options({{{60, 0, 1}}, {{1, 0, 1}}});
  const auto topology = make_devices({{.hbm = 50}, {.hbm = 50}});
  EXPECT_EQ(load_and_drain(*make(EasyRecForm::kV2), options, topology).size(), 1U);
}

TEST(EasyRecDynamicProgrammingProposer, OneAxisFormsDivideByZero) {
  for (const EasyRecForm form : {EasyRecForm::kV1, EasyRecForm::kV2}) {
    OptionSet options = make_options({{{0, 8, 1}}});
    std::string error;
    EXPECT_EQ(load_and_drain(*make(form), options, make_devices({{.ddr = 64}}), &error).size(), 1U);
    EXPECT_EQ(error, "float division by zero");
    EXPECT_EQ(
        load_and_drain(*make(form, 100, 25, false), options, make_devices({{.ddr = 64}})).size(),
        2U);
  }
}

TEST(EasyRecDynamicProgrammingProposer, ThirdFormProposesWhatTheReferenceProposes) {
  int number = 0;
  for (DynamicProgrammingCase& known : dynamic_programming_cases()) {
    SCOPED_TRACE(number++);
    EXPECT_EQ(load_and_drain(*make(EasyRecForm::kV3, known.hbm_bins, known.ddr_bins), known.options,
                             known.topology),
              known.two_axes);
  }
}

std::vector<Proposal> third_form(const HandMadeTables& tables, const topology::Topology& topology) {
  OptionSet options = make_options(tables);
  std::vector<Proposal> proposals =
      load_and_drain(*make(EasyRecForm::kV3, 20, 20), options, topology);
  proposals.erase(proposals.begin());
  for (Proposal& proposal : proposals) std::sort(proposal.begin(), proposal.end());
  return proposals;
}

TEST(EasyRecDynamicProgrammingProposer, ThirdFormTradesDdrForTime) {
  const auto two = make_devices({{2000, 2000}, {2000, 2000}}, 2);
  // 80 ms needs 900 bytes of DDR, 10 ms needs 1000: of one HBM bin only the best is proposed.
  const std::vector<Proposal> both =
      third_form({{{1000, 0, 50}, {100, 900, 80}, {100, 1000, 10}}}, two);
  EXPECT_EQ(both, (std::vector<Proposal>{{0}, {2}}));
  const std::vector<Proposal> small =
      third_form({{{100, 900, 80}, {100, 1000, 10}}}, make_devices({{2000, 950}}));
  EXPECT_EQ(small, (std::vector<Proposal>{{0}}));
}

TEST(EasyRecDynamicProgrammingProposer, ThirdFormSharesBothMemories) {
  // Two tables of {HBM only 50 ms, mostly DDR 40 ms} on one device: neither memory holds both.
  const std::vector<HandMadeOption> table = {{1500, 0, 50}, {100, 1500, 40}};
  const std::vector<Proposal> proposals = third_form({table, table}, make_devices({{2000, 2000}}));
  ASSERT_EQ(proposals.size(), 1U);
  const bool first_in_hbm = proposals[0] == Proposal{0, 3};
  EXPECT_TRUE(first_in_hbm || proposals[0] == (Proposal{1, 2}));
}

TEST(EasyRecDynamicProgrammingProposer, ThirdFormComparesDdrWithAHost) {
  const Storage device{2000, 500};
  const auto topology = make_devices({device, device, device, device}, 2);
  EXPECT_TRUE(third_form({{{0, 1500, 1}}}, topology).empty());
  EXPECT_EQ(third_form({{{0, 900, 1}}}, topology).size(), 1U);
  EXPECT_EQ(third_form({{{0, 1000, 1}}}, topology).size(), 1U);
}

TEST(EasyRecDynamicProgrammingProposer, ThirdFormComparesHbmWithADevice) {
  const auto topology = make_devices({{1000, 500}, {2000, 500}});
  EXPECT_EQ(third_form({{{2000, 0, 1}}}, topology).size(), 1U);
  EXPECT_TRUE(third_form({{{2001, 0, 1}}}, topology).empty());
}

TEST(EasyRecDynamicProgrammingProposer, ThirdFormIgnoresAnAxisWithoutMemory) {
  EXPECT_EQ(third_form({{{5000, 100, 3}, {1, 200, 2}}}, make_devices({{0, 1000}})),
            (std::vector<Proposal>{{1}}));
  EXPECT_EQ(third_form({{{100, 5000, 3}, {200, 1, 2}}}, make_devices({{1000, 0}})),
            (std::vector<Proposal>{{1}, {0}}));
}

TEST(EasyRecDynamicProgrammingProposer, ThirdFormProposesNothingWithoutTables) {
  OptionSet options;
  const auto proposer = make(EasyRecForm::kV3);
  const auto topology = make_devices({{1, 1}});
  ASSERT_TRUE(proposer->load(space_of(options)).has_value());
  ASSERT_NE(proposer->propose(), nullptr);
  EXPECT_TRUE(proposer->propose()->empty());
  EXPECT_TRUE(proposer->feedback(feedback_of(false, &topology)).has_value());
  EXPECT_EQ(proposer->propose(), nullptr);
}

TEST(EasyRecDynamicProgrammingProposer, ProposesNothingWhenUsedAgain) {
  const auto topology = make_devices({{10, 10}});
  for (const EasyRecForm form : {EasyRecForm::kV1, EasyRecForm::kV2, EasyRecForm::kV3}) {
    OptionSet options = make_options({{{1, 1, 1}}});
    const auto proposer = make(form);
    EXPECT_EQ(load_and_drain(*proposer, options, topology).size(), 2U);
    EXPECT_TRUE(load_and_drain(*proposer, options, topology).empty());
  }
}

// The whole plane of cells, in single precision.
std::vector<Proposal> naive(const OptionSet& options, const std::vector<Proposal>& lists,
                            Storage total, std::size_t hbm_bins, std::size_t ddr_bins) {
  struct State {
    float perf = std::numeric_limits<float>::infinity();
    float hbm = 0, ddr = 0;
    Proposal choices;
  };
  constexpr float kInfinity = std::numeric_limits<float>::infinity();
  const double hbm_size = static_cast<double>(total.hbm) / static_cast<double>(hbm_bins);
  const double ddr_size = static_cast<double>(total.ddr) / static_cast<double>(ddr_bins);
  std::vector<State> plane(1);
  plane[0].perf = 0;
  for (const Proposal& list : lists) {
    std::vector<State> next(hbm_bins * ddr_bins);
    for (const State& state : plane) {
      if (state.perf == kInfinity) continue;
      for (const std::int32_t option : list) {
        const Storage bytes = options.shards(option).total_storage();
        State made;
        made.hbm = state.hbm + static_cast<float>(static_cast<double>(bytes.hbm) / hbm_size);
        made.ddr = state.ddr + static_cast<float>(static_cast<double>(bytes.ddr) / ddr_size);
        made.perf = state.perf + static_cast<float>(options.shards(option).total_perf());
        if (made.hbm >= static_cast<float>(hbm_bins)) continue;
        if (made.ddr >= static_cast<float>(ddr_bins)) continue;
        State& cell = next[static_cast<std::size_t>(made.hbm) * ddr_bins +
                           static_cast<std::size_t>(made.ddr)];
        if (!(made.perf < cell.perf)) continue;
        made.choices = state.choices;
        made.choices.push_back(option);
        cell = made;
      }
    }
    plane = std::move(next);
  }
  std::vector<Proposal> proposals;
  for (std::size_t h = hbm_bins; h-- > 0;) {
    const State* best = nullptr;
    for (std::size_t d = 0; d < ddr_bins; ++d) {
      const State& state = plane[h * ddr_bins + d];
      if (state.perf < (best != nullptr ? best->perf : kInfinity)) best = &state;
    }
    if (best != nullptr) proposals.push_back(best->choices);
  }
  return proposals;
}

TEST(EasyRecDynamicProgrammingProposer, ThirdFormEqualsTheDenseProgram) {
  for (std::uint64_t seed = 0; seed < 300; ++seed) {
    SCOPED_TRACE(seed);
    std::mt19937_64 random(seed);
    const auto below = [&](std::uint64_t n) { return static_cast<std::int64_t>(random() % n); };
    HandMadeTables tables(static_cast<std::size_t>(1 + below(6)));
    for (auto& table : tables) {
      table.resize(static_cast<std::size_t>(1 + below(7)));
      for (HandMadeOption& option : table) {
        option = {below(50), below(50), static_cast<double>(below(8)) / 3, 1 + below(2)};
      }
    }
    OptionSet options = make_options(tables);
    const Storage device{50 + below(250), 50 + below(250)};  // no shard is too large
    const auto hbm_bins = static_cast<std::size_t>(1 + below(30));
    const auto ddr_bins = static_cast<std::size_t>(1 + below(20));
    const auto proposer = make(EasyRecForm::kV3, static_cast<std::int64_t>(hbm_bins),
                               static_cast<std::int64_t>(ddr_bins));
    ASSERT_TRUE(proposer->load(space_of(options)).has_value());
    const Proposal first = *proposer->propose();
    std::vector<Proposal> lists;
    for (const std::int32_t least : first) {
      const TableOptions& table = options.tables[static_cast<std::size_t>(
          options.options[static_cast<std::size_t>(least)].table)];
      Proposal& list = lists.emplace_back();
      for (std::int32_t i = 0; i < table.num_options; ++i) list.push_back(table.first_option + i);
      const auto size = [&](std::int32_t option) {
        const Storage bytes = options.shards(option).total_storage();
        return bytes.hbm + bytes.ddr;
      };
      std::stable_sort(list.begin(), list.end(),
                       [&](std::int32_t a, std::int32_t b) { return size(a) < size(b); });
    }
    std::vector<Proposal> expected = naive(options, lists, device, hbm_bins, ddr_bins);
    expected.insert(expected.begin(), first);
    EXPECT_EQ(drain(*proposer, make_devices({device})), expected);
  }
}

}  // namespace
}  // namespace plimsoll::embedding
