// Dynamic embedding tables: what their options are, what they cost, and the way of the choice from
// the search space into the plan and past the checker.

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "embedding/model/sharder.h"
#include "plimsoll/check/sharding_check.h"
#include "plimsoll/embedding/easyrec.h"
#include "plimsoll/embedding/enumerator.h"
#include "plimsoll/embedding/planner.h"
#include "plimsoll/topology/presets.h"

namespace plimsoll::embedding::dynamic_embedding {
namespace {

using enum DynamicEmbeddingMode;

struct Case {
  int world_size, local_world_size;
  std::int64_t rows, columns;
  Optimizer optimizer;
  std::int64_t bucket_capacity, batch_size;
  std::vector<double> pooling_factors;
};

PlanningProblem make_problem(const Case& given) {
  PlanningProblem problem;
  problem.cost_model = *find_cost_model("torchrec-1.8");
  problem.batch_size = given.batch_size;
  Table table;
  table.name = "t";
  table.num_embeddings = given.rows;
  table.embedding_dim = given.columns;
  table.dynamic_embedding.emplace();
  table.dynamic_embedding->bucket_capacity = given.bucket_capacity;
  Module module;
  module.path = "ebc";
  module.tables.push_back(table);
  problem.model.modules.push_back(module);
  problem.model.optimizer = given.optimizer;
  problem.model.constraints["t"].pooling_factors = given.pooling_factors;
  topology::TopologySpec spec;
  spec.world_size = given.world_size;
  spec.local_world_size = given.local_world_size;
  problem.topology = *topology::make_topology(spec, problem.cost_model.zero_cap_is_default,
                                              problem.cost_model.ssd_tier);
  return problem;
}

const std::vector<Case>& cases() {
  static const std::vector<Case> all{
      {2, 2, 4096, 32, Optimizer::kNone, 128, 128, {1.0}},
      {8, 4, 1000003, 48, Optimizer::kAdam, 128, 512, {3.5, 10.0}},
      {6, 3, 70, 20, Optimizer::kRowWiseAdagrad, 100, 64, {0.7}},
      {4, 4, 5, 64, Optimizer::kOther, 1, 512, {2.0}},
  };
  return all;
}

Table& table_of(PlanningProblem& problem) { return problem.model.modules[0].tables[0]; }
ParameterConstraints& constraints_of(PlanningProblem& problem) {
  return problem.model.constraints["t"];
}

Result<Enumeration> enumerate(const PlanningProblem& problem) {
  const Estimator estimator(problem.cost_model, problem.topology, problem.mode);
  EnumerationOptions options = problem.enumeration;
  options.batch_size = problem.batch_size;
  return enumerate(estimator, problem.model, options);
}

struct Figures {
  int problem;
  DynamicEmbeddingMode mode;
  double load_factor;
  std::array<double, 4> ms;  // fwd_compute, fwd_comms, bwd_compute, bwd_comms
  Storage first, last;       // shards
};

// Times from executing torchrec 1.8.0's estimator at the bandwidth of
// docs/embedding.md#torcheasyrec, input and output bytes likewise; values and hash table by the
// formulas there, evaluated in Python.
const std::vector<Figures>& figures() {
  static const std::vector<Figures> all{
      {0,
       kHybrid,
       0.1,
       {0x1.de75a56e3cb17p-9, 0x1.aaaaaaaaaaaabp-15, 0x1.de75a56e3cb17p-8, 0x1.82e1d3adb3f66p-8},
       {94887, 235930, 0},
       {94887, 235930, 0}},
      {0,
       kHybrid,
       0.3,
       {0x1.d81470fad2138p-9, 0x1.aaaaaaaaaaaabp-15, 0x1.d81470fad2138p-8, 0x1.7dc498b472590p-8},
       {147316, 183501, 0},
       {147316, 183501, 0}},
      {0,
       kHybrid,
       0.7,
       {0x1.cbd14c8e9014dp-9, 0x1.aaaaaaaaaaaabp-15, 0x1.cbd14c8e9014dp-8, 0x1.73f028554df42p-8},
       {252173, 78644, 0},
       {252173, 78644, 0}},
      {0,
       kHybrid,
       1.0,
       {0x1.1121f64bea4f5p-11, 0x1.aaaaaaaaaaaabp-15, 0x1.1121f64bea4f5p-10, 0x1.d0921f64bea50p-11},
       {330816, 0, 0},
       {330816, 0, 0}},
      {0,
       kCaching,
       0.1,
       {0x1.bd596a7c1b7e2p-10, 0x1.aaaaaaaaaaaabp-15, 0x1.bd596a7c1b7e2p-9, 0x1.6bac565640cf7p-9},
       {94887, 262144, 0},
       {94887, 262144, 0}},
      {0,
       kCaching,
       0.3,
       {0x1.ba90d81fc752dp-10, 0x1.aaaaaaaaaaaabp-15, 0x1.ba90d81fc752dp-9, 0x1.69711dd28f9f9p-9},
       {147316, 262144, 0},
       {147316, 262144, 0}},
      {0,
       kCaching,
       0.7,
       {0x1.b51a17c2497ccp-10, 0x1.aaaaaaaaaaaabp-15, 0x1.b51a17c2497ccp-9, 0x1.650fd4e8ca68cp-9},
       {252173, 262144, 0},
       {252173, 262144, 0}},
      {0,
       kCaching,
       1.0,
       {0x1.1121f64bea4f5p-11, 0x1.aaaaaaaaaaaabp-15, 0x1.1121f64bea4f5p-10, 0x1.d0921f64bea50p-11},
       {330816, 262144, 0},
       {330816, 262144, 0}},
      {1,
       kHybrid,
       0.1,
       {0x1.b8512a5d72f4fp-3, 0x1.e000000000000p-4, 0x1.b8512a5d72f4fp-2, 0x1.97a95ec246f8dp-2},
       {10957664, 64804148, 0},
       {10957664, 64804148, 0}},
      {1,
       kHybrid,
       0.3,
       {0x1.b27228a04b739p-3, 0x1.e000000000000p-4, 0x1.b27228a04b739p-2, 0x1.93d3728755c2dp-2},
       {25358585, 50403226, 0},
       {25358585, 50403226, 0}},
      {1,
       kHybrid,
       0.7,
       {0x1.a7294454d4986p-3, 0x1.e000000000000p-4, 0x1.a7294454d4986p-2, 0x1.8c741e3ffa771p-2},
       {54160429, 21601383, 0},
       {54160429, 21601383, 0}},
      {1,
       kHybrid,
       1.0,
       {0x1.f6b7a6f4de9bdp-6, 0x1.e000000000000p-4, 0x1.f6b7a6f4de9bdp-5, 0x1.421b65e2e3befp-3},
       {75761811, 0, 0},
       {75761811, 0, 0}},
      {1,
       kCaching,
       0.1,
       {0x1.99d8a7b5ce32ep-4, 0x1.e000000000000p-4, 0x1.99d8a7b5ce32ep-3, 0x1.fbc140c0b09b9p-3},
       {10957664, 72004608, 0},
       {10957664, 72004608, 0}},
      {1,
       kCaching,
       0.3,
       {0x1.9748e3a129e1fp-4, 0x1.e000000000000p-4, 0x1.9748e3a129e1fp-3, 0x1.fa14d65debb7ap-3},
       {25358585, 72004608, 0},
       {25358585, 72004608, 0}},
      {1,
       kCaching,
       0.7,
       {0x1.9241a5363a28dp-4, 0x1.e000000000000p-4, 0x1.9241a5363a28dp-3, 0x1.f6cbdfae97ce9p-3},
       {54160429, 72004608, 0},
       {54160429, 72004608, 0}},
      {1,
       kCaching,
       1.0,
       {0x1.f6b7a6f4de9bdp-6, 0x1.e000000000000p-4, 0x1.f6b7a6f4de9bdp-5, 0x1.421b65e2e3befp-3},
       {75761811, 72004608, 0},
       {75761811, 72004608, 0}},
      {2,
       kHybrid,
       0.1,
       {0x1.e54e5ed950854p-10, 0x1.a3ffffffffffep-10, 0x1.e54e5ed950854p-9, 0x1.64b432e9fe19ap-8},
       {22290, 1383, 0},
       {22290, 1383, 0}},
      {2,
       kHybrid,
       0.3,
       {0x1.ded5cb8905a20p-10, 0x1.a3ffffffffffep-10, 0x1.ded5cb8905a20p-9, 0x1.615904366b0a6p-8},
       {22597, 1076, 0},
       {22597, 1076, 0}},
      {2,
       kHybrid,
       0.7,
       {0x1.d265bb99f3248p-10, 0x1.a3ffffffffffep-10, 0x1.d265bb99f3248p-9, 0x1.5ae59a77fb282p-8},
       {23211, 461, 0},
       {23211, 461, 0}},
      {2,
       kHybrid,
       1.0,
       {0x1.150a84fe92b17p-12, 0x1.a3ffffffffffep-10, 0x1.150a84fe92b17p-11, 0x1.19d7f92687470p-9},
       {23672, 0, 0},
       {23672, 0, 0}},
      {2,
       kCaching,
       0.1,
       {0x1.c3b8d9390bed3p-11, 0x1.a3ffffffffffep-10, 0x1.c3b8d9390bed3p-10, 0x1.bc4918a89a880p-9},
       {22290, 1536, 0},
       {22290, 1536, 0}},
      {2,
       kCaching,
       0.3,
       {0x1.c0e61485ddb22p-11, 0x1.a3ffffffffffep-10, 0x1.c0e61485ddb22p-10, 0x1.bad23b922e409p-9},
       {22597, 1536, 0},
       {22597, 1536, 0}},
      {2,
       kCaching,
       0.7,
       {0x1.bb5b5028feed2p-11, 0x1.a3ffffffffffep-10, 0x1.bb5b5028feed2p-10, 0x1.b7f263b8c4d4ap-9},
       {23211, 1536, 0},
       {23211, 1536, 0}},
      {2,
       kCaching,
       1.0,
       {0x1.150a84fe92b17p-12, 0x1.a3ffffffffffep-10, 0x1.150a84fe92b17p-11, 0x1.19d7f92687470p-9},
       {23672, 1536, 0},
       {23672, 1536, 0}},
      {3,
       kHybrid,
       0.1,
       {0x1.d993caed1cba1p-5, 0x1.aaaaaaaaaaaabp-11, 0x1.d993caed1cba1p-4, 0x1.82e1d3adb3f66p-4},
       {533636, 7373, 0},
       {1156, 7373, 0}},
      {3,
       kHybrid,
       0.3,
       {0x1.d34340ce771dcp-5, 0x1.aaaaaaaaaaaabp-11, 0x1.d34340ce771dcp-4, 0x1.7dc498b472590p-4},
       {535274, 5735, 0},
       {2794, 5735, 0}},
      {3,
       kHybrid,
       0.7,
       {0x1.c72024978e9c7p-5, 0x1.aaaaaaaaaaaabp-11, 0x1.c72024978e9c7p-4, 0x1.73f028554df42p-4},
       {538551, 2458, 0},
       {6071, 2458, 0}},
      {3,
       kHybrid,
       1.0,
       {0x1.0e587901ff6dep-7, 0x1.aaaaaaaaaaaabp-11, 0x1.0e587901ff6dep-6, 0x1.d0921f64bea50p-7},
       {541008, 0, 0},
       {8528, 0, 0}},
      {3,
       kCaching,
       0.1,
       {0x1.b8ce0df83a8f2p-6, 0x1.aaaaaaaaaaaabp-11, 0x1.b8ce0df83a8f2p-5, 0x1.6bac565640cf7p-5},
       {533636, 8192, 0},
       {1156, 8192, 0}},
      {3,
       kCaching,
       0.3,
       {0x1.b60cc10554f68p-6, 0x1.aaaaaaaaaaaabp-11, 0x1.b60cc10554f68p-5, 0x1.69711dd28f9f9p-5},
       {535274, 8192, 0},
       {2794, 8192, 0}},
      {3,
       kCaching,
       0.7,
       {0x1.b0a4468972888p-6, 0x1.aaaaaaaaaaaabp-11, 0x1.b0a4468972888p-5, 0x1.650fd4e8ca68cp-5},
       {538551, 8192, 0},
       {6071, 8192, 0}},
      {3,
       kCaching,
       1.0,
       {0x1.0e587901ff6dep-7, 0x1.aaaaaaaaaaaabp-11, 0x1.0e587901ff6dep-6, 0x1.d0921f64bea50p-7},
       {541008, 8192, 0},
       {8528, 8192, 0}},
  };
  return all;
}

TEST(DynamicEmbedding, CostsWhatTheReferenceSays) {
  for (const Figures& expected : figures()) {
    SCOPED_TRACE(testing::Message() << expected.problem << " " << to_string(expected.mode) << " "
                                    << expected.load_factor);
    const auto space = enumerate(make_problem(cases()[static_cast<std::size_t>(expected.problem)]));
    ASSERT_TRUE(space) << format_error(space.error());
    const auto option = std::ranges::find_if(space->options.options, [&](const Option& o) {
      return o.dynamic_embedding_mode == expected.mode &&
             o.cache_load_factor == expected.load_factor;
    });
    ASSERT_NE(option, space->options.options.end());
    const ShardRuns shards = space->options.shards(*option);
    const Perf& perf = shards.runs.front().perf;
    EXPECT_EQ(perf.fwd_compute, expected.ms[0]);
    EXPECT_EQ(perf.fwd_comms, expected.ms[1]);
    EXPECT_EQ(perf.bwd_compute, expected.ms[2]);
    EXPECT_EQ(perf.bwd_comms, expected.ms[3]);
    EXPECT_EQ(perf.prefetch_compute, 0);
    EXPECT_EQ(shards.runs.front().storage, expected.first);
    EXPECT_EQ(shards.runs.back().storage, expected.last);
  }
}

// Pairs of mode and load factor in search-space order; no load factor is -1.
std::vector<std::pair<DynamicEmbeddingMode, double>> choices(const PlanningProblem& problem) {
  const auto space = enumerate(problem);
  EXPECT_TRUE(space) << (space ? "" : format_error(space.error()));
  std::vector<std::pair<DynamicEmbeddingMode, double>> found;
  for (const Option& option : space->options.options) {
    EXPECT_EQ(option.sharding_type, ShardingType::kRowWise);
    EXPECT_EQ(option.compute_kernel, ComputeKernel::kCustomizedKernel);
    found.push_back({option.dynamic_embedding_mode.value(), option.cache_load_factor.value_or(-1)});
  }
  return found;
}

TEST(DynamicEmbedding, TriesHybridThenCachingByAscendingLoadFactor) {
  std::vector<std::pair<DynamicEmbeddingMode, double>> expected;
  for (const auto mode : {kHybrid, kCaching}) {
    for (const double x : {.1, .2, .3, .4, .5, .6, .7, .8, .9, 1.0}) expected.push_back({mode, x});
  }
  EXPECT_EQ(choices(make_problem(cases()[0])), expected);
}

TEST(DynamicEmbedding, TriesOnlyWhatTheTableLeavesOpen) {
  using Choices = std::vector<std::pair<DynamicEmbeddingMode, double>>;
  PlanningProblem problem = make_problem(cases()[0]);
  table_of(problem).dynamic_embedding->load_factor = 0.35;
  EXPECT_EQ(choices(problem), (Choices{{kHybrid, 0.35}, {kCaching, 0.35}}));
  constraints_of(problem).cache_params.emplace().load_factor = 0.6;
  EXPECT_EQ(choices(problem), (Choices{{kHybrid, 0.35}, {kCaching, 0.35}}));
  table_of(problem).dynamic_embedding->load_factor.reset();
  EXPECT_EQ(choices(problem), (Choices{{kHybrid, 0.6}, {kCaching, 0.6}}));
  constraints_of(problem).cache_params->load_factor.reset();  // parameters without a load factor
  EXPECT_EQ(choices(problem), (Choices{{kHybrid, -1}, {kCaching, -1}}));
  constraints_of(problem).cache_params.reset();
  table_of(problem).dynamic_embedding->mode = kCaching;
  EXPECT_EQ(choices(problem).size(), 10u);
  EXPECT_EQ(choices(problem).front().first, kCaching);
}

TEST(DynamicEmbedding, CountsNoLoadFactorAsAllOfHbmInStorageAloneAndAsNoneInTime) {
  PlanningProblem problem = make_problem(cases()[0]);
  const auto options_at = [&](std::optional<double> factor) {
    constraints_of(problem).cache_params.emplace().load_factor = factor;
    return *enumerate(problem);
  };
  const Enumeration full = options_at(1.0);
  const Enumeration low = options_at(0.1);
  for (const std::optional<double> factor : {std::optional<double>(), std::optional<double>(0)}) {
    const Enumeration unset = options_at(factor);
    EXPECT_EQ(unset.options.runs[0].storage, full.options.runs[0].storage);
    EXPECT_GT(unset.options.runs[0].perf.fwd_compute, low.options.runs[0].perf.fwd_compute);
  }
  // The sharder's own load factor stands in for a missing one, not for 0.
  problem.model.modules[0].sharder.cache_load_factor = 0.1;
  EXPECT_EQ(options_at(std::nullopt).options.runs[0].storage, low.options.runs[0].storage);
  EXPECT_EQ(options_at(0).options.runs[0].storage, full.options.runs[0].storage);
}

TEST(DynamicEmbedding, BelievesTheHitRateOfGivenStatistics) {
  PlanningProblem problem = make_problem(cases()[0]);
  const double hbm = problem.topology.hbm_mem_bw;
  const double link = problem.topology.hbm_to_ddr_mem_bw;
  CacheParams& cache = constraints_of(problem).cache_params.emplace();
  const auto fwd_compute = [&](double x, double miss_rate) {
    cache.load_factor = x;
    cache.stats.emplace().constant_miss_rate = miss_rate;
    return enumerate(problem)->options.runs[0].perf.fwd_compute;
  };
  // Everything hits: the bandwidth of HBM over ten, whatever x; nothing hits: that of the link.
  EXPECT_EQ(fwd_compute(0.2, 0), fwd_compute(1, 0));
  EXPECT_EQ(fwd_compute(0.2, 1), fwd_compute(1, 1));
  EXPECT_NEAR(fwd_compute(1, 1) / fwd_compute(1, 0), hbm / link, 1e-9);
  EXPECT_NEAR(fwd_compute(0.2, 1) / fwd_compute(0.2, 0.25), (0.75 * hbm + 0.25 * link) / link,
              1e-9);
  // Only times change.
  const Storage with = enumerate(problem)->options.runs[0].storage;
  cache.stats.reset();
  EXPECT_EQ(enumerate(problem)->options.runs[0].storage, with);
}

TEST(DynamicEmbedding, HoldsNoOptimizerStateInInference) {
  PlanningProblem problem = make_problem(cases()[1]);
  problem.mode.inference = true;
  const Storage inferring = enumerate(problem)->options.runs[0].storage;
  problem.model.optimizer = Optimizer::kNone;
  EXPECT_EQ(enumerate(problem)->options.runs[0].storage, inferring);
}

TEST(DynamicEmbedding, HasNoOptionWhereItsSharderHasNone) {
  PlanningProblem problem = make_problem(cases()[0]);
  constraints_of(problem).sharding_types = {ShardingType::kTableWise};
  ASSERT_FALSE(enumerate(problem));
  EXPECT_EQ(enumerate(problem).error().code, ErrorCode::kRuntime);
  constraints_of(problem).sharding_types = {ShardingType::kTableWise, ShardingType::kRowWise};
  EXPECT_TRUE(enumerate(problem));
  constraints_of(problem).compute_kernels = {ComputeKernel::kFused};
  EXPECT_FALSE(enumerate(problem));
  constraints_of(problem).compute_kernels = {ComputeKernel::kCustomizedKernel};
  EXPECT_TRUE(enumerate(problem));
  for (const ComputeDevice device :
       {ComputeDevice::kCpu, ComputeDevice::kMtia, ComputeDevice::kTpu}) {
    problem.topology.compute_device = device;
    EXPECT_FALSE(enumerate(problem)) << to_string(device);
  }
}

TEST(DynamicEmbedding, IsRefusedInModulesAndFiguresThatCannotBe) {
  const auto place = [](const auto& change) {
    PlanningProblem problem = make_problem(cases()[0]);
    change(problem.model.modules[0]);
    const auto valid = validate(problem.model);
    return valid ? std::string("valid") : valid.error().place;
  };
  const std::string dynamic = "modules/0/tables/0/dynamic_embedding";
  EXPECT_EQ(place([](Module&) {}), "valid");
  EXPECT_EQ(place([](Module& m) { m.kind = ModuleKind::kEmbeddingCollection; }), "valid");
  EXPECT_EQ(place([](Module& m) { m.kind = ModuleKind::kQuantEmbeddingBagCollection; }), dynamic);
  EXPECT_EQ(place([](Module& m) { m.tables[0].dynamic_embedding->load_factor = 1.5; }),
            dynamic + "/load_factor");
  EXPECT_EQ(place([](Module& m) { m.tables[0].dynamic_embedding->load_factor = NAN; }),
            dynamic + "/load_factor");
  EXPECT_EQ(place([](Module& m) { m.tables[0].dynamic_embedding->bucket_capacity = 0; }),
            dynamic + "/bucket_capacity");
}

TEST(DynamicEmbedding, HoldsOneNumberARowForRowWiseAdagrad) {
  // 31 columns and one number make 128 bytes, 32 and one 132: rows of 128 and 144 bytes.
  const auto ddr = [](std::int64_t columns) {
    PlanningProblem problem =
        make_problem({1, 1, 1600, columns, Optimizer::kRowWiseAdagrad, 128, 1, {1}});
    table_of(problem).dynamic_embedding->mode = kCaching;
    return enumerate(problem)->options.runs[0].storage.ddr;
  };
  EXPECT_EQ(ddr(31), 1600 * 128);
  EXPECT_EQ(ddr(32), 1600 * 144);
}

TEST(DynamicEmbedding, OverflowsAsAnError) {
  // The plain table would fit; 16 bytes of values and 21 of keys a row do not.
  PlanningProblem problem =
      make_problem({1, 1, std::int64_t{1} << 58, 4, Optimizer::kNone, 1, 1, {1}});
  const auto space = enumerate(problem);
  ASSERT_FALSE(space);
  EXPECT_EQ(space.error().code, ErrorCode::kOverflow);
}

// ------------------------------------------------------------------ search, plan and checker

check::ShardingReport check_plan(const PlanningProblem& problem, const ShardingPlan& plan) {
  check::CheckOptions options;
  options.batch_size = problem.batch_size;
  options.reservation = problem.reservation;
  options.fqn_constraints = problem.enumeration.fqn_constraints;
  options.global_constraints = problem.enumeration.global_constraints;
  const auto report = check::check_sharding(problem.model, plan, problem.topology,
                                            problem.cost_model, problem.mode, options);
  EXPECT_TRUE(report) << (report ? "" : format_error(report.error()));
  return *report;
}

// A dynamic table of 32 GiB and its optimizer beside a plain one, on two ranks with `hbm` each.
PlanningProblem two_tables(Bytes hbm) {
  PlanningProblem problem = make_problem({2, 2, 67'108'864, 128, Optimizer::kNone, 128, 512, {1}});
  Table plain;
  plain.name = "plain";
  plain.num_embeddings = 10'000;
  plain.embedding_dim = 128;
  problem.model.modules[0].tables.push_back(plain);
  for (Storage& device : problem.topology.devices) device.hbm = hbm;
  return problem;
}

TEST(DynamicEmbedding, GoesWhereTheHbmAllowsUnderAnySearch) {
  for (const char* proposers : {"default", "easyrec", "dynamic_programming"}) {
    SCOPED_TRACE(proposers);
    ReferenceOptions options;
    options.proposers = proposers;
    for (const bool is_roomy : {true, false}) {
      const PlanningProblem problem = two_tables((is_roomy ? 40 : 8) * kGiB);
      const auto result = plan_like_torchrec(problem, options, {}, {});
      ASSERT_TRUE(result) << format_error(result.error());
      ASSERT_TRUE(result->outcome.plan);
      const auto& tables = result->outcome.plan->tables;
      const auto table = std::ranges::find(tables, "t", &TableSharding::table);
      ASSERT_NE(table, tables.end());
      ASSERT_TRUE(table->dynamic_embedding);
      EXPECT_EQ(table->compute_kernel, ComputeKernel::kCustomizedKernel);
      EXPECT_EQ(table->dynamic_embedding->bucket_capacity, 128);
      // All of it in HBM is fastest; a cache is next.
      if (is_roomy) {
        EXPECT_EQ(table->dynamic_embedding->load_factor, 1.0);
      } else {
        EXPECT_EQ(table->dynamic_embedding->mode, kCaching);
        EXPECT_LT(table->dynamic_embedding->load_factor, 1.0);
      }
      EXPECT_FALSE(std::ranges::find(tables, "plain", &TableSharding::table)->dynamic_embedding);
      const check::ShardingReport report = check_plan(problem, *result->outcome.plan);
      EXPECT_TRUE(report.violations().empty());
      EXPECT_TRUE(report.hazards().empty());
      EXPECT_DOUBLE_EQ(report.rating, result->rating);
    }
  }
}

TEST(DynamicEmbedding, ComesBackFromAStoredPlan) {
  const PlanningProblem problem = two_tables(8 * kGiB);
  const auto planned = plan_like_torchrec(problem, {}, {}, {});
  ASSERT_TRUE(planned && planned->outcome.plan);
  ShardingPlan stored = *planned->outcome.plan;
  for (const auto mode : {kHybrid, kCaching}) {
    for (TableSharding& table : stored.tables) {
      if (table.dynamic_embedding) table.dynamic_embedding->mode = mode;
    }
    ReferenceOptions options;
    const auto stored_options = make_loaded_options(problem, stored);
    ASSERT_TRUE(stored_options) << format_error(stored_options.error());
    options.loader = make_plan_loader({"stored", std::nullopt, *stored_options});
    const auto loaded = plan_like_torchrec(problem, options, {}, {});
    ASSERT_TRUE(loaded && loaded->outcome.plan);
    // Loaded tables stand in search-space order.
    ASSERT_EQ(loaded->outcome.plan->tables.size(), stored.tables.size());
    for (const TableSharding& table : loaded->outcome.plan->tables) {
      EXPECT_NE(std::ranges::find(stored.tables, table), stored.tables.end()) << table.table;
    }
  }
  for (TableSharding& table : stored.tables) table.dynamic_embedding.reset();
  EXPECT_FALSE(make_loaded_options(problem, stored));
}

TEST(DynamicEmbedding, IsJudgedByTheTablesOwnWords) {
  using check::FindingCode;
  PlanningProblem problem = two_tables(8 * kGiB);
  table_of(problem).dynamic_embedding->load_factor = 0.1;
  table_of(problem).dynamic_embedding->mode = kHybrid;
  const auto planned = plan_like_torchrec(problem, {}, {}, {});
  ASSERT_TRUE(planned && planned->outcome.plan);
  const auto codes = [&](const auto& change) {
    ShardingPlan plan = *planned->outcome.plan;
    for (TableSharding& table : plan.tables) change(table);
    std::vector<FindingCode> found;
    for (const auto& violation : check_plan(problem, plan).violations()) {
      found.push_back(violation.code);
    }
    return found;
  };
  const auto on_dynamic = [&](const auto& change) {
    return codes([&](TableSharding& table) {
      if (table.table == "t") change(table);
    });
  };
  using Codes = std::vector<FindingCode>;
  EXPECT_EQ(codes([](TableSharding&) {}), Codes{});
  EXPECT_EQ(on_dynamic([](TableSharding& t) { t.dynamic_embedding->mode = kCaching; }),
            Codes{FindingCode::kKernelNotAllowed});
  EXPECT_EQ(on_dynamic([](TableSharding& t) { t.dynamic_embedding->mode.reset(); }),
            Codes{FindingCode::kKernelNotAllowed});
  EXPECT_EQ(on_dynamic([](TableSharding& t) { t.dynamic_embedding->bucket_capacity = 64; }),
            Codes{FindingCode::kKernelNotAllowed});
  EXPECT_EQ(on_dynamic([](TableSharding& t) { t.dynamic_embedding->load_factor = 0.11; }),
            Codes{FindingCode::kLoadFactor});
  EXPECT_EQ(on_dynamic([](TableSharding& t) { t.dynamic_embedding->load_factor = NAN; }),
            Codes{FindingCode::kLoadFactor});
  EXPECT_EQ(on_dynamic([](TableSharding& t) { t.dynamic_embedding.reset(); }),
            (Codes{FindingCode::kKernelNotAllowed, FindingCode::kCannotEstimate}));
  EXPECT_EQ(on_dynamic([](TableSharding& t) { t.compute_kernel = ComputeKernel::kFused; })[0],
            FindingCode::kKernelNotAllowed);
  EXPECT_EQ(codes([](TableSharding& t) {
              t.dynamic_embedding.emplace().mode = kHybrid;
              if (t.table == "t") t.dynamic_embedding->load_factor = 0.1;
            }),
            Codes{FindingCode::kKernelNotAllowed});
  // What the table leaves open the plan may decide, what its constraint says it may not.
  table_of(problem).dynamic_embedding = DynamicEmbedding{};
  EXPECT_EQ(on_dynamic([](TableSharding& t) { t.dynamic_embedding->load_factor = 0.05; }), Codes{});
  constraints_of(problem).cache_params.emplace().load_factor = 0.1;
  EXPECT_EQ(on_dynamic([](TableSharding& t) { t.dynamic_embedding->load_factor = 0.05; }),
            Codes{FindingCode::kLoadFactor});
}

TEST(DynamicEmbedding, ChangesTheContextOfAPlan) {
  PlanningProblem problem = make_problem(cases()[0]);
  const std::string hash = context_hash(problem, {});
  table_of(problem).dynamic_embedding->mode = kHybrid;
  EXPECT_NE(context_hash(problem, {}), hash);
  table_of(problem).dynamic_embedding->mode.reset();
  EXPECT_EQ(context_hash(problem, {}), hash);
  table_of(problem).dynamic_embedding->bucket_capacity = 64;
  EXPECT_NE(context_hash(problem, {}), hash);
}

}  // namespace
}  // namespace plimsoll::embedding::dynamic_embedding
