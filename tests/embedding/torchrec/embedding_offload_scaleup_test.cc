#include "embedding/torchrec/embedding_offload_scaleup.h"

#include <gtest/gtest.h>

#include <cmath>
#include <fstream>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

#include "embedding/vectors.h"
#include "plimsoll/embedding/enumerator.h"
#include "plimsoll/embedding/proposer.h"

namespace plimsoll::embedding {
namespace {

std::vector<float> allocate(std::vector<float> load_factors, double budget,
                            std::vector<float> priorities, double ceiling_scale = 1) {
  std::vector<ScalableCache> caches;
  for (std::size_t i = 0; i < load_factors.size(); ++i) {
    caches.push_back({.size = {30e6F, 2e6F},
                      .fused_bytes = 32e6 * ceiling_scale,
                      .load_factor = load_factors[i],
                      .priority = priorities[i]});
  }
  return allocate_budget(caches, budget);
}

void expect_floats(const std::vector<float>& actual, const std::vector<double>& expected) {
  ASSERT_EQ(actual.size(), expected.size());
  for (std::size_t i = 0; i < actual.size(); ++i) {
    EXPECT_EQ(actual[i], static_cast<float>(expected[i])) << i;
  }
}

TEST(AllocateBudget, FillsEveryCacheFromALargeBudget) {
  expect_floats(allocate({.1F, .1F, 1}, 1e8, {2, 2, 2}), {1, 1, 1});
}

TEST(AllocateBudget, SharesEvenlyAmongEqualPriorities) {
  expect_floats(allocate({.1F, .1F, 1}, 1e7, {2, 2, 2}), {.2666666806, .2666666806, 1});
}

TEST(AllocateBudget, SharesInProportionToPriority) {
  expect_floats(allocate({.1F, .1F, 1}, 1e7, {2, 4, 2}), {.21111111343, .32222223282, 1});
}

TEST(AllocateBudget, DealsTheRestInFurtherPasses) {
  expect_floats(allocate({.1F, .3F, .5F}, 5e7, {1, 2, 100}), {.5666666627, 1, 1});
}

TEST(AllocateBudget, PutsATableInHbmWhereItsCacheWouldBeLarger) {
  expect_floats(allocate({.1F, .3F, .5F}, 5e7, {1, 2, 100}, 0.8), {1, 1, 1});
}

TEST(AllocateBudget, SpendsNothingOfANegativeBudget) {
  expect_floats(allocate({.5F}, -1e9, {1}), {.5});
}

TEST(AllocateBudget, IsUndefinedForACacheOfNoSize) {
  const std::vector<ScalableCache> caches = {
      {.size = {0, 100}, .fused_bytes = 100, .load_factor = .1F, .priority = 1}};
  EXPECT_TRUE(std::isnan(allocate_budget(caches, 1000).front()));
}

// A model, its topology and its search space, as tests/data/embedding_offload_scaleup.json has
// them.
struct Instance {
  Topology topology;
  std::unique_ptr<Estimator> estimator;
  Enumeration enumeration;

  SearchSpace space() {
    return {.options = &enumeration.options,
            .estimator = estimator.get(),
            .profiles = enumeration.profiles};
  }
};

Instance make_instance(const nlohmann::json& record) {
  const CostModel cost_model = cost_model_named("torchrec-1.8");
  TopologySpec spec = cluster(record.at("world_size"), record.at("world_size"));
  spec.hbm_cap = record.at("hbm_cap").get<Bytes>();
  spec.ddr_cap = 1000 * kGiB;
  Instance instance;
  instance.topology = build(spec, cost_model);
  Model model;
  Module module;
  for (const nlohmann::json& t : record.at("tables")) {
    Table table;
    table.name = "t" + std::to_string(module.tables.size());
    table.num_embeddings = t.at("rows");
    table.embedding_dim = t.at("columns");
    table.feature_names = {"f" + table.name};
    ParameterConstraints& constraints = model.constraints[table.name];
    module.tables.push_back(table);
    for (const std::string& kernel : t.value("kernels", std::vector<std::string>{})) {
      constraints.compute_kernels.push_back(*find_enum<ComputeKernel>(kernel));
    }
    constraints.pooling_factors = {t.value("pooling", 1.0)};
    if (!t.contains("load_factor") && !t.contains("stats")) continue;
    CacheParams& cache = constraints.cache_params.emplace();
    if (t.contains("load_factor")) cache.load_factor = t.at("load_factor").get<double>();
    if (t.contains("prefetch")) cache.prefetch_pipeline = t.at("prefetch").get<bool>();
    if (t.contains("stats")) {
      const std::vector<double> stats = t.at("stats");
      cache.stats.emplace();
      cache.stats->expected_lookups = stats[0];
      cache.stats->cacheability = stats[1];
      cache.stats->constant_miss_rate = stats[2];
    }
  }
  model.modules.push_back(module);
  instance.estimator = std::make_unique<Estimator>(cost_model, instance.topology, RunMode{});
  EnumerationOptions options;
  options.batch_size = record.at("batch_size");
  auto enumeration = enumerate(*instance.estimator, model, options);
  EXPECT_TRUE(enumeration.has_value()) << (enumeration ? "" : format_error(enumeration.error()));
  if (enumeration) instance.enumeration = *std::move(enumeration);
  return instance;
}

// One proposal as the data file writes it.
nlohmann::json describe(const OptionSet& options, const Proposal& proposal) {
  nlohmann::json tables = nlohmann::json::array();
  Bytes hbm = 0;
  for (const std::int32_t index : proposal) {
    const Option& option = options.options[static_cast<std::size_t>(index)];
    hbm += options.shards(index).total_storage().hbm;
    nlohmann::json load_factor;
    if (option.cache_load_factor) load_factor = *option.cache_load_factor;
    tables.push_back({to_string(option.sharding_type), to_string(option.compute_kernel),
                      load_factor, options.shards(index).total_perf()});
  }
  return {{"hbm", hbm}, {"tables", tables}};
}

// Tells the proposer of its last proposal.
Result<void> answer(Proposer& proposer, const Topology& topology, bool partitionable,
                    std::optional<double> rating) {
  PlacedProposal plan;
  plan.options = *proposer.propose();
  Feedback feedback;
  feedback.partitionable = partitionable;
  feedback.plan = &plan;
  feedback.perf_rating = rating;
  feedback.storage_constraint = &topology;
  return proposer.feedback(feedback);
}

TEST(EmbeddingOffloadScaleupProposer, ProposesWhatTheReferenceProposes) {
  std::ifstream file(PLIMSOLL_TEST_DATA "/embedding_offload_scaleup.json");
  const nlohmann::json document = nlohmann::json::parse(file);
  for (const nlohmann::json& record : document.at("cases")) {
    SCOPED_TRACE(record.at("name").get<std::string>());
    Instance instance = make_instance(record);
    const Score by = record.at("use_depth").get<bool>() ? Score::kDepth : Score::kSum;
    const auto proposer = make_embedding_offload_scaleup_proposer(by);
    ASSERT_TRUE(proposer->load(instance.space()).has_value());
    const nlohmann::json& expected = record.at("proposals");
    std::size_t number = 0;
    for (const Proposal* proposal = proposer->propose(); proposal != nullptr;
         proposal = proposer->propose()) {
      const nlohmann::json described = describe(instance.enumeration.options, *proposal);
      ASSERT_LT(number, expected.size());
      EXPECT_EQ(described, expected[number]) << number;
      ++number;
      const Bytes hbm = described.at("hbm");
      const bool fits = hbm <= record.at("limit").get<Bytes>();
      std::optional<double> rating;
      if (fits) {
        rating = static_cast<double>(std::abs(hbm - record.at("target").get<Bytes>())) / 0x1p30;
      }
      const auto result = answer(*proposer, instance.topology, fits, rating);
      ASSERT_TRUE(result.has_value()) << format_error(result.error());
    }
    EXPECT_EQ(number, expected.size());
  }
}

nlohmann::json small_record() {
  return nlohmann::json::parse(R"({"world_size": 2, "hbm_cap": 107374182400, "batch_size": 512,
      "tables": [{"rows": 1000000, "columns": 64, "kernels": ["fused_uvm_caching"],
                  "load_factor": 0.1, "stats": [1000, 0.5, 0.1]}]})");
}

TEST(EmbeddingOffloadScaleupProposer, StopsWithoutAPlanToLearnFrom) {
  Instance instance = make_instance(small_record());
  const auto proposer = make_embedding_offload_scaleup_proposer();
  ASSERT_TRUE(proposer->load(instance.space()).has_value());
  ASSERT_NE(proposer->propose(), nullptr);
  Feedback feedback;
  feedback.partitionable = true;
  feedback.perf_rating = 1;
  feedback.storage_constraint = &instance.topology;
  EXPECT_TRUE(proposer->feedback(feedback).has_value());
  EXPECT_EQ(proposer->propose(), nullptr);
}

TEST(EmbeddingOffloadScaleupProposer, StopsWhereTheFirstProposalFitsNowhere) {
  Instance instance = make_instance(small_record());
  const auto proposer = make_embedding_offload_scaleup_proposer();
  ASSERT_TRUE(proposer->load(instance.space()).has_value());
  EXPECT_TRUE(answer(*proposer, instance.topology, false, std::nullopt).has_value());
  EXPECT_EQ(proposer->propose(), nullptr);
}

TEST(EmbeddingOffloadScaleupProposer, ProposesOnceForOptionsOfADump) {
  Instance instance = make_instance(small_record());
  SearchSpace dump;
  dump.options = &instance.enumeration.options;
  const auto proposer = make_embedding_offload_scaleup_proposer();
  ASSERT_TRUE(proposer->load(dump).has_value());
  EXPECT_TRUE(answer(*proposer, instance.topology, true, 1).has_value());
  EXPECT_EQ(proposer->propose(), nullptr);
}

TEST(EmbeddingOffloadScaleupProposer, NeedsCacheParametersForCachedTables) {
  nlohmann::json record = small_record();
  record["tables"][0].erase("load_factor");
  record["tables"][0].erase("stats");
  Instance instance = make_instance(record);
  const auto proposer = make_embedding_offload_scaleup_proposer();
  EXPECT_FALSE(proposer->load(instance.space()).has_value());
}

// No byte is left over: the budget is zero from the start.
TEST(EmbeddingOffloadScaleupProposer, EndsWithoutABudget) {
  Instance instance = make_instance(small_record());
  const auto proposer = make_embedding_offload_scaleup_proposer();
  ASSERT_TRUE(proposer->load(instance.space()).has_value());
  Topology full = instance.topology;
  full.devices[0].hbm =
      instance.enumeration.options.shards(proposer->propose()->front()).total_storage().hbm;
  full.devices[1].hbm = 0;
  int proposals = 0;
  while (proposer->propose() != nullptr) {
    ASSERT_LE(++proposals, 2);
    ASSERT_TRUE(answer(*proposer, full, true, 1).has_value());
  }
  EXPECT_EQ(proposals, 2);
}

}  // namespace
}  // namespace plimsoll::embedding
