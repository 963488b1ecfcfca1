// What the greedy, uniform and grid-search proposers propose, as the reference's own unit tests
// assert it (pytorch/torchrec a48cef79).

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <memory>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "embedding/option_set_builder.h"
#include "embedding/vectors.h"
#include "plimsoll/embedding/proposer.h"

namespace plimsoll::embedding {
namespace {

using ::testing::ElementsAre;

const std::vector<ShardingType>& all_types() {
  static const std::vector<ShardingType> kTypes = {
      ShardingType::kDataParallel, ShardingType::kTableWise,    ShardingType::kColumnWise,
      ShardingType::kRowWise,      ShardingType::kTableRowWise, ShardingType::kTableColumnWise,
      ShardingType::kGridShard};
  return kTypes;
}

struct TableSize {
  std::int64_t rows, columns;
};

// The options of tables in one collection on two ranks of one host.
OptionSet options_of(const std::vector<TableSize>& sizes, std::vector<ShardingType> types,
                     std::vector<ComputeKernel> kernels) {
  const CostModel cost_model = cost_model_named("torchrec-ref");
  Model model;
  model.modules.emplace_back().path = "sparse.ebc";
  for (std::size_t i = 0; i < sizes.size(); ++i) {
    Table table;
    table.name = "table_" + std::to_string(i);
    table.num_embeddings = sizes[i].rows;
    table.embedding_dim = sizes[i].columns;
    model.constraints[table.name].sharding_types = types;
    model.constraints[table.name].compute_kernels = kernels;
    model.modules[0].tables.push_back(table);
  }
  const Estimator estimator(cost_model, build(cluster(2, 2), cost_model), {});
  auto enumeration = enumerate(estimator, model, {});
  EXPECT_TRUE(enumeration.has_value()) << (enumeration ? "" : format_error(enumeration.error()));
  return enumeration ? enumeration->options : OptionSet{};
}

// "RW fused" for every table of a proposal, tables in order.
std::vector<std::string> names(const OptionSet& options, const Proposal* proposal) {
  std::vector<std::string> result;
  if (proposal == nullptr) return result;
  for (const std::int32_t index : *proposal) {
    const Option& option = options.options[static_cast<std::size_t>(index)];
    result.push_back(std::string(abbreviation(option.sharding_type)) + " " +
                     std::string(to_string(option.compute_kernel)));
  }
  return result;
}

// Every proposal found its place; its rating is unknown if it is not given.
Feedback placed(std::optional<double> rating = {}) {
  Feedback feedback;
  feedback.partitionable = true;
  feedback.perf_rating = rating;
  return feedback;
}

// Two tables of 100 x 10 under every sharding type, each with one kernel.
OptionSet two_tables() {
  return options_of({{100, 10}, {100, 10}}, all_types(),
                    {ComputeKernel::kDense, ComputeKernel::kFused});
}

TEST(ProposerVectors, GreedyAdvancesTheTableWithTheLargestShard) {
  OptionSet options = two_tables();
  const auto proposer = make_greedy_proposer();
  ASSERT_TRUE(proposer->load({&options, nullptr, {}}).has_value());
  const std::vector<std::vector<std::string>> expected = {{"RW fused", "RW fused"},
                                                          {"TWRW fused", "RW fused"},
                                                          {"GS fused", "RW fused"},
                                                          {"DP dense", "RW fused"},
                                                          {"DP dense", "TWRW fused"}};
  for (const auto& proposal : expected) {
    EXPECT_EQ(names(options, proposer->propose()), proposal);
    ASSERT_TRUE(proposer->feedback(placed()).has_value());
  }
}

TEST(ProposerVectors, GreedyProposesEveryStepOfOnePath) {
  OptionSet options = two_tables();
  const auto proposer = make_greedy_proposer();
  ASSERT_TRUE(proposer->load({&options, nullptr, {}}).has_value());
  int count = 0;
  for (const Proposal* proposal = proposer->propose(); proposal != nullptr && !proposal->empty();
       proposal = proposer->propose()) {
    ++count;
    ASSERT_TRUE(proposer->feedback(placed()).has_value());
  }
  EXPECT_EQ(count, 1 + 6 + 6);
}

// Twelve ratings, none better than the first: more than ten in a row are enough.
TEST(ProposerVectors, GreedyStopsAtItsThreshold) {
  OptionSet options = two_tables();
  const auto proposer = make_greedy_proposer({.threshold = 10});
  ASSERT_TRUE(proposer->load({&options, nullptr, {}}).has_value());
  for (int i = 0; i < 12; ++i) {
    const Proposal* proposal = proposer->propose();
    ASSERT_TRUE(proposal != nullptr && !proposal->empty()) << i;
    ASSERT_TRUE(proposer->feedback(placed(100.0 + i)).has_value());
  }
  const Proposal* last = proposer->propose();
  EXPECT_TRUE(last == nullptr || last->empty());
}

TEST(ProposerVectors, UniformProposesEachTypeThatCoversAllTables) {
  const std::vector<ShardingType> types = {ShardingType::kDataParallel, ShardingType::kTableWise,
                                           ShardingType::kRowWise, ShardingType::kTableRowWise};
  OptionSet options = options_of({{100, 10}, {200, 20}, {300, 30}}, types, {});
  const auto proposer = make_uniform_proposer();
  ASSERT_TRUE(proposer->load({&options, nullptr, {}}).has_value());
  for (const std::string name : {"DP dense", "TW fused", "RW fused", "TWRW fused"}) {
    EXPECT_THAT(names(options, proposer->propose()), ElementsAre(name, name, name));
    ASSERT_TRUE(proposer->feedback(placed()).has_value());
  }
  const Proposal* last = proposer->propose();
  EXPECT_TRUE(last == nullptr || last->empty());
}

TEST(ProposerVectors, UniformLeavesOutTypesThatSomeTableLacks) {
  OptionSetBuilder builder(2, 2);
  builder.table("a")
      .option(ShardingType::kTableWise, 1, {1, 0, 0}, 1)
      .option(ShardingType::kRowWise, 2, {1, 0, 0}, 1);
  builder.table("b").option(ShardingType::kRowWise, 2, {1, 0, 0}, 1);
  OptionSet options = builder.set();
  const auto proposer = make_uniform_proposer();
  ASSERT_TRUE(proposer->load({&options, nullptr, {}}).has_value());
  const Proposal* first = proposer->propose();
  ASSERT_NE(first, nullptr);
  EXPECT_THAT(*first, ElementsAre(1, 2));
  ASSERT_TRUE(proposer->feedback(placed()).has_value());
  const Proposal* last = proposer->propose();
  EXPECT_TRUE(last == nullptr || last->empty());
}

TEST(ProposerVectors, GridSearchProposesTheWholeProduct) {
  OptionSet options = options_of({{100, 10}, {200, 20}, {300, 30}}, all_types(), {});
  for (const TableOptions& table : options.tables) EXPECT_EQ(table.num_options, 19);
  const auto proposer = make_grid_search_proposer();
  ASSERT_TRUE(proposer->load({&options, nullptr, {}}).has_value());
  const auto sorted = options_by_score(options, Score::kDepth);
  std::set<Proposal> seen;
  for (const Proposal* proposal = proposer->propose(); proposal != nullptr && !proposal->empty();
       proposal = proposer->propose()) {
    // The last table varies fastest.
    const std::size_t i = seen.size();
    EXPECT_THAT(*proposal,
                ElementsAre(sorted[0][i / 361], sorted[1][i / 19 % 19], sorted[2][i % 19]));
    seen.insert(*proposal);
    ASSERT_TRUE(proposer->feedback(placed()).has_value());
  }
  EXPECT_EQ(seen.size(), 6859u);
}

TEST(ProposerVectors, GridSearchSkipsLargeProducts) {
  OptionSet options = options_of({{100, 10}, {200, 20}, {300, 30}, {400, 40}}, all_types(), {});
  const auto proposer = make_grid_search_proposer();
  ASSERT_TRUE(proposer->load({&options, nullptr, {}}).has_value());
  const Proposal* first = proposer->propose();
  EXPECT_TRUE(first == nullptr || first->empty());
}

// Proposes what it is given, in order.
class ListProposer : public Proposer {
 public:
  explicit ListProposer(std::vector<Proposal> proposals) : proposals_(std::move(proposals)) {}
  std::string_view name() const override { return "list"; }
  Result<void> load(const SearchSpace&) override { return {}; }
  const Proposal* propose() override {
    return next_ < proposals_.size() ? &proposals_[next_] : nullptr;
  }
  Result<void> feedback(const Feedback& feedback) override {
    EXPECT_TRUE(feedback.partitionable);
    EXPECT_FALSE(feedback.perf_rating.has_value());
    ++next_;
    return {};
  }

 private:
  std::vector<Proposal> proposals_;
  std::size_t next_ = 0;
};

TEST(ProposerVectors, ListsKeepTheFirstOfEqualProposals) {
  OptionSetBuilder builder(2, 2);
  builder.table("a");
  for (int i = 0; i < 6; ++i) builder.option(ShardingType::kTableWise, 1, {1, 0, 0}, i);
  OptionSet options = builder.set();
  const Proposal p1so1 = {0}, p1so2 = {1}, p2so1 = {2}, p2so2 = {3}, p3so1 = {4}, p3so2 = {5};
  std::vector<std::unique_ptr<Proposer>> proposers;
  proposers.push_back(std::make_unique<ListProposer>(std::vector{p1so1, p1so2, p1so1}));
  proposers.push_back(std::make_unique<ListProposer>(std::vector{p2so1, p2so1, p1so2, p2so2}));
  proposers.push_back(std::make_unique<ListProposer>(std::vector{p3so1, p2so1, p3so2}));
  const auto list = proposers_to_proposals_list(proposers, {&options, nullptr, {}});
  ASSERT_TRUE(list.has_value());
  EXPECT_THAT(*list, ElementsAre(p1so1, p1so2, p2so1, p2so2, p3so1, p3so2));
}

TEST(ProposerVectors, ListsOfEveryProposerHoldTheWholeGrid) {
  OptionSet options = two_tables();
  auto proposers = make_proposers("default");
  ASSERT_TRUE(proposers.has_value());
  const auto list = proposers_to_proposals_list(*proposers, {&options, nullptr, {}});
  ASSERT_TRUE(list.has_value());
  EXPECT_EQ(list->size(), 49u);
}

TEST(ProposerVectors, NamesCarrySettings) {
  OptionSet options = two_tables();
  const auto num_proposals = [&options](std::string_view names) {
    auto proposers = make_proposers(names);
    return proposers ? proposers_to_proposals_list(*proposers, {&options, nullptr, {}})->size() : 0;
  };
  EXPECT_EQ(num_proposals("grid_search"), 49u);
  EXPECT_EQ(num_proposals("grid_search:49"), 49u);
  EXPECT_EQ(num_proposals("grid_search:48"), 0u);  // more than allowed: none at all

  auto greedy = make_proposers("uniform+greedy_sum:3");
  ASSERT_TRUE(greedy.has_value());
  EXPECT_FALSE((*greedy)[0]->needs_rating());
  EXPECT_TRUE((*greedy)[1]->needs_rating());
  for (const char* wrong : {"uniform:3", "greedy_sum:", "greedy_sum:0", "greedy_sum:x",
                            "greedy_sum:3x", "grid_search:99999999999999999999"}) {
    const auto refused = make_proposers(wrong);
    ASSERT_FALSE(refused.has_value()) << wrong;
    EXPECT_EQ(refused.error().code, ErrorCode::kValue) << wrong;
  }
}

}  // namespace
}  // namespace plimsoll::embedding
