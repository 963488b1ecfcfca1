// TorchEasyRec's set-up: environment, constraints by fqn and for all tables, checkpoint plans, and
// what is left unsharded without CUDA.

#include "plimsoll/embedding/easyrec.h"

#include <gtest/gtest.h>

#include <map>

#include "plimsoll/check/sharding_check.h"
#include "plimsoll/embedding/enumerator.h"

namespace plimsoll::embedding {
namespace {

using topology::ComputeDevice;
using Variables = std::map<std::string, std::string, std::less<>>;

EnvironmentLookup environment(Variables variables) {
  return [variables = std::move(variables)](std::string_view name) -> std::optional<std::string> {
    const auto found = variables.find(name);
    if (found == variables.end()) return std::nullopt;
    return found->second;
  };
}

Table make_table(const std::string& name, std::int64_t rows = 100'000) {
  Table table;
  table.name = name;
  table.num_embeddings = rows;
  table.embedding_dim = 64;
  return table;
}

// Two collections; table "a" is in both.
EasyRecSetup make_setup() {
  EasyRecSetup setup;
  Module bags;
  bags.path = "m.ebc";
  bags.tables = {make_table("a"), make_table("b")};
  Module sequences;
  sequences.path = "m.ec";
  sequences.kind = ModuleKind::kEmbeddingCollection;
  sequences.tables = {make_table("a"), make_table("c")};
  setup.model.modules = {bags, sequences};
  setup.topology.world_size = 8;
  setup.topology.local_world_size = 4;
  return setup;
}

EasyRecPlanner make(const EasyRecSetup& setup, Variables variables = {}) {
  auto planner = make_easyrec_planner(setup, environment(std::move(variables)));
  EXPECT_TRUE(planner) << (planner ? "" : format_error(planner.error()));
  return *std::move(planner);
}

// Sharding types that the search space offers, by fqn, in declared order.
std::map<std::string, std::vector<ShardingType>> types_of(const PlanningProblem& problem) {
  const Estimator estimator(problem.cost_model, problem.topology, problem.mode);
  const auto space = enumerate(estimator, problem.model, problem.enumeration);
  EXPECT_TRUE(space) << (space ? "" : format_error(space.error()));
  std::map<std::string, std::vector<ShardingType>> types;
  for (const Option& option : space->options.options) {
    auto& list = types[space->options.tables[static_cast<std::size_t>(option.table)].fqn];
    if (list.empty() || list.back() != option.sharding_type) list.push_back(option.sharding_type);
  }
  return types;
}

using Types = std::vector<ShardingType>;
using enum ShardingType;

TEST(EasyRec, ReservesAndProposesAsItsPlannerDoes) {
  const EasyRecPlanner planner = make(make_setup());
  EXPECT_EQ(planner.problem.reservation, ReservationOptions{});
  EXPECT_EQ(planner.problem.reservation.percentage, 0.15);
  EXPECT_EQ(planner.options.proposers, "easyrec");
  EXPECT_EQ(planner.options.easyrec_dynamic_programming, EasyRecDynamicProgrammingOptions{});
  EXPECT_EQ(planner.problem.topology.world_size, 8);
  EXPECT_EQ(planner.problem.topology.local_world_size, 4);
  const auto result = plan_like_torchrec(planner.problem, planner.options, {}, {});
  ASSERT_TRUE(result) << format_error(result.error());
  EXPECT_TRUE(result->outcome.plan);
}

TEST(EasyRec, ReadsItsEnvironment) {
  const EasyRecPlanner planner = make(make_setup(), {{"INTRA_NODE_BANDWIDTH", "1000"},
                                                     {"CROSS_NODE_BANDWIDTH", "500.5"},
                                                     {"STORAGE_RESERVE_PERCENT", "0.25"},
                                                     {"TZREC_DP_HBM_BINS_PER_DEVICE", "7"},
                                                     {"TZREC_DP_DDR_BINS_PER_DEVICE", "3"}});
  EXPECT_EQ(planner.problem.topology.comms.intra_host_bw, 1000);
  EXPECT_EQ(planner.problem.topology.comms.inter_host_bw, 500.5);
  EXPECT_EQ(planner.problem.reservation.percentage, 0.25);
  EXPECT_EQ(planner.problem.reservation.kind, ReservationKind::kHeuristical);
  EXPECT_EQ(planner.options.easyrec_dynamic_programming.hbm_bins_per_device, 7);
  EXPECT_EQ(planner.options.easyrec_dynamic_programming.ddr_bins_per_device, 3);
}

TEST(EasyRec, NamesABrokenVariable) {
  const std::pair<const char*, const char*> broken[] = {
      {"INTRA_NODE_BANDWIDTH", "fast"},         {"CROSS_NODE_BANDWIDTH", "-1"},
      {"STORAGE_RESERVE_PERCENT", "1.5"},       {"STORAGE_RESERVE_PERCENT", "nan"},
      {"STORAGE_RESERVE_PERCENT", ""},          {"TZREC_DP_HBM_BINS_PER_DEVICE", "1e2"},
      {"TZREC_DP_DDR_BINS_PER_DEVICE", "many"},
  };
  for (const auto& [variable, value] : broken) {
    SCOPED_TRACE(testing::Message() << variable << "=" << value);
    const auto planner = make_easyrec_planner(make_setup(), environment({{variable, value}}));
    ASSERT_FALSE(planner);
    EXPECT_EQ(planner.error().code, ErrorCode::kValue);
    EXPECT_EQ(planner.error().place, variable);
  }
}

TEST(EasyRec, GivesItsBinsToTheDynamicProgram) {
  // A bin more or less is another list of proposals; the last form alone bins DDR.
  const EasyRecSetup setup = make_setup();
  const auto proposals = [&](const char* hbm, const char* ddr, const char* proposers) {
    EasyRecPlanner planner =
        make(setup, {{"TZREC_DP_HBM_BINS_PER_DEVICE", hbm}, {"TZREC_DP_DDR_BINS_PER_DEVICE", ddr}});
    planner.options.proposers = proposers;
    return plan_like_torchrec(planner.problem, planner.options, {}, {})->num_proposals;
  };
  for (const char* form : {"easyrec_dynamic_programming_v1", "easyrec_dynamic_programming_v2",
                           "easyrec_dynamic_programming_v3"}) {
    EXPECT_LT(proposals("1", "1", form), proposals("100000", "1", form)) << form;
    EXPECT_EQ(proposals("0", "1", form), proposals("1", "1", form)) << form;  // at least one
  }
}

TEST(EasyRec, SharesTheHostsMemoryAmongItsRanks) {
  EasyRecSetup setup = make_setup();
  setup.topology.ddr_cap = 5;
  EXPECT_EQ(make(setup).problem.topology.devices[7].ddr, 5);
  setup.topology.ddr_caps.assign(8, 6);
  setup.host_memory = 1'000'003;
  EXPECT_EQ(make(setup).problem.topology.devices[7].ddr, 250'000);  // 250000.75
  setup.topology.local_world_size.reset();
  EXPECT_EQ(make(setup).problem.topology.devices[7].ddr, 125'000);
}

TEST(EasyRec, PrefersConstraintsByFqnToThoseForAllAndThoseToNames) {
  EasyRecSetup setup = make_setup();
  setup.model.constraints["a"].sharding_types = {kTableWise};
  setup.model.constraints["b"].sharding_types = {kColumnWise};
  EXPECT_EQ(types_of(make(setup).problem)["m.ebc.a"], Types{kTableWise});
  EXPECT_EQ(types_of(make(setup).problem)["m.ec.a"], Types{kTableWise});
  setup.fqn_constraints["m.ec.a"].sharding_types = {kRowWise};
  EXPECT_EQ(types_of(make(setup).problem)["m.ebc.a"], Types{kTableWise});
  EXPECT_EQ(types_of(make(setup).problem)["m.ec.a"], Types{kRowWise});
  setup.global_constraints.emplace().sharding_types = {kDataParallel};
  auto types = types_of(make(setup).problem);
  EXPECT_EQ(types["m.ebc.a"], Types{kDataParallel});
  EXPECT_EQ(types["m.ebc.b"], Types{kDataParallel});
  EXPECT_EQ(types["m.ec.a"], Types{kRowWise});
  EXPECT_EQ(types["m.ec.c"], Types{kDataParallel});
}

TEST(EasyRec, EstimatesByNameAlone) {
  Model model;
  ParameterConstraints named;
  named.num_poolings = {2};
  named.batch_sizes = {64};
  named.is_weighted = true;
  named.use_virtual_table = true;
  named.pooling_factors = {3};
  model.constraints["a"] = named;
  ParameterConstraints other;
  other.num_poolings = {5};
  other.batch_sizes = {6};
  other.pooling_factors = {7};
  other.enforce_hbm = true;
  const auto check = [&](const ParameterConstraints& found) {
    EXPECT_EQ(found.num_poolings, named.num_poolings);
    EXPECT_EQ(found.batch_sizes, named.batch_sizes);
    EXPECT_TRUE(found.is_weighted);
    EXPECT_TRUE(found.use_virtual_table);
    EXPECT_EQ(found.pooling_factors, other.pooling_factors);
    EXPECT_EQ(found.enforce_hbm, true);
  };
  check(find_constraints(model, {{"m.a", other}}, std::nullopt, "m", make_table("a")));
  check(find_constraints(model, {}, other, "m", make_table("a")));
  EXPECT_EQ(find_constraints(model, {{"m.a", other}}, std::nullopt, "n", make_table("a")), named);
  EXPECT_EQ(find_constraints(model, {}, std::nullopt, "m", make_table("b")),
            ParameterConstraints{});
}

TEST(EasyRec, PassesConstraintsByFqnOnToPlanAndChecker) {
  EasyRecSetup setup = make_setup();
  setup.fqn_constraints["m.ec.a"].sharding_types = {kRowWise};
  setup.fqn_constraints["m.ec.a"].pooling_factors = {40};
  setup.fqn_constraints["m.ec.a"].enforce_hbm = true;
  const EasyRecPlanner planner = make(setup);
  const PlanningProblem& problem = planner.problem;
  const auto result = plan_like_torchrec(problem, planner.options, {}, {});
  ASSERT_TRUE(result && result->outcome.plan);
  for (const TableSharding& table : result->outcome.plan->tables) {
    EXPECT_EQ(table.enforce_hbm.has_value(), table.fqn() == "m.ec.a");
  }
  check::CheckOptions options;
  options.batch_size = problem.batch_size;
  options.stated_rating = result->rating;
  const auto judge = [&] {
    return check::check_sharding(problem.model, *result->outcome.plan, problem.topology,
                                 problem.cost_model, problem.mode, options)
        ->violations();
  };
  // Without them the checker sees one id a sample in m.ec.a, and nothing that enforces HBM.
  ASSERT_EQ(judge().size(), 2u);
  EXPECT_EQ(judge()[0].code, check::FindingCode::kNotPassedOn);
  EXPECT_EQ(judge()[1].code, check::FindingCode::kRatingMismatch);
  options.fqn_constraints = problem.enumeration.fqn_constraints;
  EXPECT_TRUE(judge().empty());
  options.global_constraints.emplace().sharding_types = {kDataParallel};
  EXPECT_FALSE(judge().empty());
}

TEST(EasyRec, HashesConstraintsByFqnAndForAll) {
  PlanningProblem problem = make(make_setup()).problem;
  const std::string plain = context_hash(problem, {});
  problem.enumeration.global_constraints.emplace();
  const std::string for_all = context_hash(problem, {});
  EXPECT_NE(for_all, plain);
  problem.enumeration.global_constraints.reset();
  problem.enumeration.fqn_constraints[""];
  EXPECT_NE(context_hash(problem, {}), plain);
  EXPECT_NE(context_hash(problem, {}), for_all);
  ReferenceOptions options;
  options.proposers = "easyrec";
  const std::string easyrec = context_hash(problem, options);
  options.easyrec_dynamic_programming.ddr_bins_per_device = 26;
  EXPECT_NE(context_hash(problem, options), easyrec);
}

TEST(EasyRec, KeepsDataParallelTablesOfACheckpoint) {
  EasyRecSetup setup = make_setup();
  const auto all = types_of(make(setup).problem);
  setup.checkpoint_types = {{"m.ebc.a", kDataParallel},
                            {"m.ebc.b", kTableWise},
                            {"m.ec.c", kRowWise},
                            {"gone.table", kDataParallel}};
  auto types = types_of(make(setup).problem);
  EXPECT_EQ(types["m.ebc.a"], Types{kDataParallel});
  for (const char* fqn : {"m.ebc.b", "m.ec.a", "m.ec.c"}) EXPECT_EQ(types[fqn], all.at(fqn)) << fqn;

  // Forced by the caller or by the environment, every table that the checkpoint has.
  EXPECT_EQ(types_of(make(setup, {{"FORCE_LOAD_SHARDING_PLAN", "0"}}).problem), types);
  const auto forced = types_of(make(setup, {{"FORCE_LOAD_SHARDING_PLAN", "1"}}).problem);
  setup.forces_checkpoint_plan = true;
  EXPECT_EQ(types_of(make(setup).problem), forced);
  EXPECT_EQ(forced.at("m.ebc.a"), Types{kDataParallel});
  EXPECT_EQ(forced.at("m.ebc.b"), Types{kTableWise});
  EXPECT_EQ(forced.at("m.ec.c"), Types{kRowWise});
  EXPECT_EQ(forced.at("m.ec.a"), all.at("m.ec.a"));
}

TEST(EasyRec, LetsConstraintsWinOverACheckpoint) {
  EasyRecSetup setup = make_setup();
  setup.forces_checkpoint_plan = true;
  setup.checkpoint_types = {{"m.ebc.a", kDataParallel},
                            {"m.ebc.b", kDataParallel},
                            {"m.ec.a", kDataParallel},
                            {"m.ec.c", kDataParallel}};
  setup.fqn_constraints["m.ebc.a"].compute_kernels = {ComputeKernel::kFused};
  setup.model.constraints["b"].sharding_types = {kRowWise};
  setup.model.constraints["c"].pooling_factors = {12};
  setup.model.modules[1].tables[0].dynamic_embedding.emplace();
  const PlanningProblem problem = make(setup).problem;
  auto types = types_of(problem);
  EXPECT_FALSE(problem.enumeration.fqn_constraints.at("m.ebc.a").sharding_types.size());
  EXPECT_EQ(types["m.ebc.b"], Types{kRowWise});
  EXPECT_EQ(types["m.ec.a"], Types{kRowWise});  // a dynamic table
  EXPECT_EQ(types["m.ec.c"], Types{kDataParallel});
  // What the name says beside the types is kept,
  EXPECT_EQ(problem.enumeration.fqn_constraints.at("m.ec.c").pooling_factors,
            std::vector<double>{12});
  // unless constraints for all tables hide it anyway; the checkpoint's type hides those.
  setup.global_constraints.emplace().sharding_types = {kTableWise};
  const PlanningProblem global = make(setup).problem;
  EXPECT_EQ(types_of(global)["m.ec.a"], Types{kRowWise});
  EXPECT_EQ(types_of(global)["m.ebc.b"], Types{kDataParallel});
  EXPECT_TRUE(global.enumeration.fqn_constraints.at("m.ec.c").pooling_factors.empty());
}

TEST(EasyRec, LeavesSequencesUnshardedWithoutCuda) {
  EasyRecSetup setup = make_setup();
  setup.model.modules[1].dense_parameter_bytes = 11;
  setup.model.modules[1].dense_buffer_bytes = 7;
  setup.model.dense_parameter_bytes = 100;
  const Bytes size = model_size(setup.model, 6);
  EXPECT_EQ(make(setup).problem.model.modules.size(), 2u);
  setup.topology.compute_device = ComputeDevice::kCpu;
  const EasyRecPlanner planner = make(setup);
  ASSERT_EQ(planner.problem.model.modules.size(), 1u);
  EXPECT_EQ(planner.problem.model.modules[0].path, "m.ebc");
  EXPECT_EQ(planner.problem.model.dense_parameter_bytes, 100 + 11 + 2 * 100'000 * 64 * 4);
  EXPECT_EQ(planner.problem.model.dense_buffer_bytes, 7);
  EXPECT_EQ(model_size(planner.problem.model, 6), size);
  EXPECT_FALSE(planner.options.easyrec_dynamic_programming.has_cuda);
}

TEST(EasyRec, KnowsWhichSharderSaysEmbeddingCollection) {
  using enum ModuleKind;
  const std::map<ModuleKind, bool> stays{
      {kEmbeddingBagCollection, true},
      {kFeatureProcessedEmbeddingBagCollection, true},
      {kFusedEmbeddingBagCollection, true},
      {kQuantEmbeddingBagCollection, true},
      {kManagedCollisionEmbeddingBagCollection, true},
      {kEmbeddingCollection, false},
      {kQuantEmbeddingCollection, false},
      {kManagedCollisionEmbeddingCollection, false},
      {kQuantManagedCollisionEmbeddingCollection, false},
  };
  for (const auto& [kind, is_kept] : stays) {
    EasyRecSetup setup = make_setup();
    setup.model.modules.pop_back();
    setup.model.modules[0].kind = kind;
    setup.topology.compute_device = ComputeDevice::kCpu;
    EXPECT_EQ(make(setup).problem.model.modules.size(), is_kept ? 1u : 0u) << to_string(kind);
  }
}

TEST(EasyRec, PassesOnWhatMakesTheProblem) {
  EasyRecSetup setup = make_setup();
  setup.batch_size = 96;
  setup.mode.pipeline_type = PipelineType::kTrainSparseDist;
  setup.cost_model = *find_cost_model("torchrec-1.4");
  const PlanningProblem problem = make(setup).problem;
  EXPECT_EQ(problem.batch_size, 96);
  EXPECT_EQ(problem.mode, setup.mode);
  EXPECT_EQ(problem.cost_model.name, "torchrec-1.4");
  setup.topology.world_size = 0;
  EXPECT_EQ(make_easyrec_planner(setup, environment({})).error().place, "world_size");
}

}  // namespace
}  // namespace plimsoll::embedding
