// Times of a machine model: hand-computed shards and messages, and plans by them held against every
// plan of small models and against the judge.

#include "embedding/cost/calibrated_times.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <map>
#include <memory>
#include <tuple>

#include "embedding/balanced/balanced_record.h"
#include "embedding/every_plan.h"
#include "embedding/problem/calibrated_input.h"
#include "plimsoll/check/balance_check.h"
#include "plimsoll/embedding/balanced_search.h"
#include "plimsoll/study/search_aid.h"

namespace plimsoll::embedding {
namespace {

using topology::Collective;

constexpr double kMiB = 1024 * 1024;

// An all-to-all that takes .1 ms at 1 KiB, .4 at 4 KiB and .8 at 16 KiB.
CollectiveTable all_to_all(CollectiveGroup group, int ranks) {
  return {Collective::kAllToAll, group, ranks, {1024, 4096, 16384}, {.1, .4, .8}};
}

topology::Topology make_room(int world_size, int local_world_size) {
  topology::TopologySpec spec;
  spec.world_size = world_size;
  spec.local_world_size = local_world_size;
  spec.hbm_cap = 80 * kGiB;
  spec.inter_host_bw = 1000;  // bytes per ms
  return *topology::make_topology(spec, true, true);
}

TEST(InterpolatedMs, IsLinearInLogarithms) {
  const CollectiveTable table = all_to_all(CollectiveGroup::kHost, 2);
  EXPECT_DOUBLE_EQ(interpolated_ms(table, 1024), .1);
  EXPECT_NEAR(interpolated_ms(table, 2048), .2, 1e-12);
  EXPECT_NEAR(interpolated_ms(table, 8192), .4 * std::sqrt(2), 1e-12);
  EXPECT_NEAR(interpolated_ms(table, 65536), 1.6, 1e-12);  // the last slope, 1/2
  EXPECT_NEAR(interpolated_ms(table, 512), .05, 1e-12);    // the first, 1
  const CollectiveTable falling{
      topology::Collective::kAllToAll, CollectiveGroup::kHost, 2, {1024, 2048, 4096}, {.4, .2, .1}};
  EXPECT_NEAR(interpolated_ms(falling, 3000), .2 * 2048 / 3000, 1e-12);
  EXPECT_NEAR(interpolated_ms(falling, 1 << 20), .1, 1e-12);  // level
  EXPECT_NEAR(interpolated_ms(falling, 16), .4, 1e-12);
  CollectiveTable one = table;
  one.bytes = {1024};
  one.ms = {.1};
  EXPECT_DOUBLE_EQ(interpolated_ms(one, 512), .1);
  EXPECT_DOUBLE_EQ(interpolated_ms(one, 2048), .2);
}

TEST(CollectiveTimes, ReadTheTableAtTheBytesThatLeaveARank) {
  MachineModel machine;
  machine.ranks = machine.ranks_per_host = 8;
  machine.collectives = {all_to_all(CollectiveGroup::kHost, 8)};
  const topology::Topology room = make_room(16, 8);
  const CollectiveTimes times(machine, room);
  std::vector<Extrapolation> notes;
  EXPECT_EQ(times.ms(Collective::kAllToAll, {1, 1}, 4096, &notes), 0);
  EXPECT_EQ(times.ms(Collective::kAllToAll, {8, 8}, 0, &notes), 0);
  EXPECT_DOUBLE_EQ(times.ms(Collective::kAllToAll, {8, 8}, 4096, &notes), .4);
  EXPECT_TRUE(notes.empty());
  // Of two ranks half of the buffer leaves, of eight 7/8.
  EXPECT_NEAR(times.ms(Collective::kAllToAll, {2, 2}, 4096 * 7 / 4, &notes), .4, 1e-12);
  ASSERT_EQ(notes.size(), 1u);
  EXPECT_EQ(notes[0], (Extrapolation{"ranks", "all_to_all", 2, 8, 8}));
  // Two hosts of eight: 7/16 stay inside, and 8/16 cross at 1,000 bytes per ms.
  notes.clear();
  EXPECT_NEAR(times.ms(Collective::kAllToAll, {16, 8}, 8192, &notes), 4.096, 1e-12);
  ASSERT_EQ(notes.size(), 1u);
  EXPECT_EQ(notes[0], (Extrapolation{"hosts", "all_to_all", 2, 1, 1}));
  // 32 bytes: .016 ms cross, and what stays inside takes longer? It reads the table at 16 bytes.
  notes.clear();
  const double near = interpolated_ms(machine.collectives[0], 32.0 * 7 / 16 / (7.0 / 8));
  EXPECT_DOUBLE_EQ(times.ms(Collective::kAllToAll, {16, 8}, 32, &notes), std::max(near, .016));
  EXPECT_EQ(notes.size(), 2u);  // bytes, too
}

TEST(CollectiveTimes, TakeTheSlowerOfInsideAndOutside) {
  MachineModel machine;
  machine.ranks = 4;
  machine.ranks_per_host = 2;
  machine.collectives = {all_to_all(CollectiveGroup::kHost, 2),
                         all_to_all(CollectiveGroup::kWorld, 4)};
  machine.collectives[1].ms = {1, 4, 8};
  const topology::Topology room = make_room(8, 2);
  const CollectiveTimes times(machine, room);
  std::vector<Extrapolation> notes;
  EXPECT_DOUBLE_EQ(times.ms(Collective::kAllToAll, {4, 2}, 4096, &notes), 4);  // measured
  EXPECT_TRUE(notes.empty());
  // Of 8 ranks on four hosts 6/8 leave the host, of the measured 2/4: read at 4096 * 3 / 2.
  EXPECT_NEAR(times.ms(Collective::kAllToAll, {8, 2}, 4096, &notes), 4 * std::sqrt(1.5), 1e-12);
  ASSERT_EQ(notes.size(), 1u);
  EXPECT_EQ(notes[0].variable, "ranks");
}

TEST(CollectiveTimes, OfAnotherOperationStandForTheMissingOne) {
  MachineModel machine;
  machine.ranks = machine.ranks_per_host = 2;
  const topology::Topology room = make_room(2, 2);
  std::vector<Extrapolation> notes;
  EXPECT_DOUBLE_EQ(CollectiveTimes(machine, room).ms(Collective::kAllToAll, {2, 2}, 4096, &notes),
                   2048 / room.comms.intra_host_bw);  // half of it leaves the rank
  ASSERT_EQ(notes.size(), 1u);
  EXPECT_EQ(notes[0], (Extrapolation{"operation", "all_to_all", 0, 0, 0}));
  EXPECT_DOUBLE_EQ(CollectiveTimes(machine, room).ms(Collective::kAllReduce, {2, 2}, 4096),
                   4096 / room.comms.intra_host_bw);  // there and back
  // Of 16 ranks in domains of 8 half leaves the domain, at 1,000 bytes per ms.
  EXPECT_DOUBLE_EQ(CollectiveTimes(machine, room).ms(Collective::kAllGather, {16, 8}, 4096), 2.048);
  machine.collectives = {all_to_all(CollectiveGroup::kHost, 2)};
  const CollectiveTimes times(machine, room);
  EXPECT_DOUBLE_EQ(times.ms(Collective::kReduceScatter, {2, 2}, 4096), .4);
  EXPECT_DOUBLE_EQ(times.ms(Collective::kAllReduce, {2, 2}, 4096), .8);  // there and back
}

MachineModel make_machine() {
  MachineModel machine;
  machine.name = "hand-made";
  machine.hash = "0";
  machine.ranks = machine.ranks_per_host = 2;
  const auto add = [&machine](ComputeKernel kernel, std::optional<Optimizer> optimizer,
                              PassDirection direction, const KernelTerms& terms) {
    KernelForm form;
    form.kernel = kernel;
    form.optimizer = optimizer;
    form.direction = direction;
    form.terms = terms;
    form.ranges = {{"lookups", {100, 10000}}, {"distinct_rows", {0, 1e9}}};
    machine.kernels.push_back(form);
  };
  add(ComputeKernel::kFused, {}, PassDirection::kForward, {5e5, 1e4, 3, .5, .25, 0, .125, 0});
  add(ComputeKernel::kFused, Optimizer::kSgd, PassDirection::kBackward,
      {1e6, 2e4, 7, .25, .5, 11, .0625, 0});
  add(ComputeKernel::kFused, Optimizer::kRowWiseAdagrad, PassDirection::kBackward,
      {1e6, 2e4, 7, .25, .5, 390, .0625, 0});
  add(ComputeKernel::kDense, {}, PassDirection::kForward, {6e5, 0, 2, 0, 0, 0, 0, 0});
  add(ComputeKernel::kDense, {}, PassDirection::kBackward, {7e5, 0, 4, 0, 0, 0, 0, 1});
  for (const Collective operation : {Collective::kAllToAll, Collective::kReduceScatter,
                                     Collective::kAllGather, Collective::kAllReduce}) {
    CollectiveTable table = all_to_all(CollectiveGroup::kHost, 2);
    table.operation = operation;
    machine.collectives.push_back(table);
  }
  machine.step = {1.5, 1.25, .25, 1e-7, .0625, 2, false};
  return machine;
}

// Tables of 1,000 x 32 and of 400,000 x 64 under row-wise Adagrad, 10 and 3 ids a sample.
PlanningProblem make_problem(int world_size, std::int64_t batch_size) {
  PlanningProblem problem;
  Module module;
  module.path = "m";
  for (const auto& [name, rows, columns, pooling_factor] :
       {std::tuple("a", 1000, 32, 10.0), std::tuple("b", 400000, 64, 3.0)}) {
    Table table;
    table.name = name;
    table.num_embeddings = rows;
    table.embedding_dim = columns;
    table.optimizer = Optimizer::kRowWiseAdagrad;
    module.tables.push_back(table);
    ParameterConstraints constraints;
    constraints.pooling_factors = {pooling_factor};
    problem.model.constraints[name] = constraints;
  }
  problem.model.modules.push_back(module);
  problem.topology = make_room(world_size, world_size);
  problem.batch_size = batch_size;
  problem.machine = std::make_shared<const MachineModel>(make_machine());
  return problem;
}

// The options of a problem, and what reads them.
struct Space {
  explicit Space(const PlanningProblem& given)
      : problem(given), estimator(problem.cost_model, problem.topology, problem.mode) {
    EnumerationOptions enumeration = problem.enumeration;
    enumeration.batch_size = problem.batch_size;
    options = *enumerate(estimator, problem.model, enumeration);
  }
  BridgeInput input() const {
    return {&options.options, &problem.topology, &problem.model,
            &estimator,       options.profiles,  problem.machine.get()};
  }
  CalibratedTimes times() const {
    return *CalibratedTimes::make(*problem.machine, estimator, options.options, options.profiles);
  }
  Option option(const char* table, ShardingType type, ComputeKernel kernel) const {
    for (const Option& one : options.options.options) {
      const TableOptions& of = options.options.tables[static_cast<std::size_t>(one.table)];
      if (of.name == table && one.sharding_type == type && one.compute_kernel == kernel) return one;
    }
    ADD_FAILURE() << table << " has no such option";
    return {};
  }
  const PlanningProblem& problem;
  Estimator estimator;
  Enumeration options;
};

TEST(CalibratedTimes, CountWhatAShardLooksUp) {
  const PlanningProblem problem = make_problem(2, 64);
  const Space space(problem);
  const CalibratedTimes times = space.times();
  const Option whole = space.option("b", ShardingType::kTableWise, ComputeKernel::kFused);
  const KernelVariables v = times.variables(whole, 400000, 64);
  EXPECT_EQ(v.tables, 1);
  EXPECT_EQ(v.lookups, 3 * 64 * 2);
  EXPECT_EQ(v.read_bytes, 384 * 64 * 4);
  EXPECT_EQ(v.output_bytes, 64 * 2 * 64 * 4);
  EXPECT_EQ(v.weight_bytes, 400000.0 * 64 * 4);
  const double u = 400000 * (1 - std::exp(-384.0 / 400000));
  EXPECT_NEAR(v.distinct_rows, u, 1e-6);
  EXPECT_NEAR(v.distinct_byte_misses, u * 256 * std::log2(400000 * 256.0 / kMiB), 1e-3);
  // Half of the rows, half of the ids, all of the outputs; a table below 1 MiB misses nothing.
  const Option rows = space.option("a", ShardingType::kRowWise, ComputeKernel::kFused);
  const KernelVariables half = times.variables(rows, 500, 32);
  EXPECT_EQ(half.lookups, 640);
  EXPECT_EQ(half.output_bytes, 128 * 32 * 4);
  EXPECT_EQ(half.distinct_byte_misses, 0);
  EXPECT_NEAR(half.distinct_rows, 500 * (1 - std::exp(-640.0 / 500)), 1e-9);
  // A replica sees its own samples alone.
  const Option copy = space.option("a", ShardingType::kDataParallel, ComputeKernel::kDense);
  EXPECT_EQ(times.variables(copy, 1000, 32).lookups, 640);
  EXPECT_EQ(times.variables(copy, 1000, 32).output_bytes, 64 * 32 * 4);
  EXPECT_EQ(times.variables(rows, 0, 32).tables, 0);
}

TEST(CalibratedTimes, SumTheTermsOfTheForms) {
  const PlanningProblem problem = make_problem(2, 64);
  const Space space(problem);
  const CalibratedTimes times = space.times();
  const Option whole = space.option("a", ShardingType::kTableWise, ComputeKernel::kFused);
  const double n = 1280, nd = n * 128, out = 128 * 128;
  const double u = 1000 * (1 - std::exp(-1.28));
  const double forward = 1e4 + 3 * n + .5 * nd + .25 * out;
  const double backward = 2e4 + 7 * n + .25 * nd + .5 * out + 390 * u;
  EXPECT_NEAR(times.shard_times(whole, 1000, 32).kernels, (forward + backward) / 1e6, 1e-9);
  const Option copy = space.option("a", ShardingType::kDataParallel, ComputeKernel::kDense);
  EXPECT_NEAR(times.shard_times(copy, 1000, 32).kernels, (6 * 640 + 128000) / 1e6, 1e-12);
  // Calls: of the fused kernel, of the dense one.
  EXPECT_NEAR(times.type_times("m", ShardingType::kTableWise).kernels, 1.5, 1e-12);
  EXPECT_NEAR(times.type_times("m", ShardingType::kDataParallel).kernels, 1.3, 1e-12);
  StepModel step = problem.machine->step;
  const CalibratedTimes::ShardTimes of_type = times.type_times("m", ShardingType::kTableWise);
  EXPECT_NEAR(times.type_charge(step, "m", ShardingType::kTableWise),
              .25 + 1.5 * 1.5 + 1.25 * of_type.collectives, 1e-12);
}

// By hand: 4 bytes pass the memory for each that a shard sends out, at 2 GB/s.
TEST(CalibratedTimes, PermuteTheOutputsOfCutColumns) {
  PlanningProblem problem = make_problem(4, 64);
  problem.topology = make_room(4, 2);
  const auto kernels = [&problem](ShardingType type, bool has_bandwidth) {
    problem.model.constraints["b"].sharding_types = {type};
    MachineModel machine = make_machine();
    if (has_bandwidth) machine.operators = DenseOperators{5, 2, {}};
    problem.machine = std::make_shared<const MachineModel>(std::move(machine));
    const Space space(problem);
    const Option option = space.option("b", type, ComputeKernel::kFused);
    return space.times().shard_times(option, 400000, 32).kernels;
  };
  const auto permuted = [&kernels](ShardingType type) {
    return kernels(type, true) - kernels(type, false);
  };
  const double sent = 64 * 4 * 32 * 4;
  EXPECT_NEAR(permuted(ShardingType::kColumnWise), 4 * sent / 2e6, 1e-12);
  EXPECT_NEAR(permuted(ShardingType::kTableColumnWise), 4 * sent / 2e6, 1e-12);
  EXPECT_NEAR(permuted(ShardingType::kGridShard), 4 * sent / 2 / 2e6, 1e-12);
  EXPECT_EQ(permuted(ShardingType::kTableWise), 0);
  EXPECT_EQ(permuted(ShardingType::kTableRowWise), 0);
  problem.mode.inference = true;
  EXPECT_NEAR(permuted(ShardingType::kColumnWise), 2 * sent / 2e6, 1e-12);
  problem.mode.inference = false;
  problem.model.modules[0].kind = ModuleKind::kEmbeddingCollection;
  EXPECT_EQ(permuted(ShardingType::kColumnWise), 0);
}

TEST(CalibratedTimes, ScaleKernelsThatWereNotMeasuredAsTheReleaseDoes) {
  PlanningProblem problem = make_problem(2, 64);
  for (Table& table : problem.model.modules[0].tables) {
    problem.model.constraints[table.name].compute_kernels = {ComputeKernel::kFused,
                                                             ComputeKernel::kFusedUvm};
  }
  const Space space(problem);
  const CalibratedTimes times = space.times();
  const Option fused = space.option("a", ShardingType::kTableWise, ComputeKernel::kFused);
  const Option slow = space.option("a", ShardingType::kTableWise, ComputeKernel::kFusedUvm);
  const auto perf = [&](const Option& o) { return space.options.options.shards(o).runs[0].perf; };
  const double ratio = perf(slow).fwd_compute / perf(fused).fwd_compute;
  EXPECT_GT(ratio, 10);
  EXPECT_NEAR(times.shard_times(slow, 1000, 32).kernels,
              ratio * times.shard_times(fused, 1000, 32).kernels, 1e-9);
  CalibratedBillMaker maker(times);
  maker.add(slow, 1000, 32, 0);
  const CalibratedBill bill = maker.finish();
  ASSERT_EQ(bill.extrapolated.size(), 1u);
  EXPECT_EQ(bill.extrapolated[0].variable, "compute_kernel");
  EXPECT_EQ(bill.extrapolated[0].of, "fused_uvm");
}

TEST(CalibratedTimes, DrawTheLineThroughTheBalancedMessage) {
  const PlanningProblem problem = make_problem(2, 64);
  const Space space(problem);
  const CalibratedTimes times = space.times();
  // Outputs of both tables and all samples, shared by two ranks; ids alike.
  const double outputs = (128.0 * 128 + 128 * 256) / 2, ids = 8 * (1280.0 + 384) / 2;
  const CollectiveTable table = all_to_all(CollectiveGroup::kHost, 2);
  const auto slope = [&](double bytes) {
    return (interpolated_ms(table, 2 * bytes) - interpolated_ms(table, bytes / 2)) / (1.5 * bytes);
  };
  const auto at = [&](double bytes) { return interpolated_ms(table, bytes); };
  const Option a = space.option("a", ShardingType::kTableWise, ComputeKernel::kFused);
  EXPECT_NEAR(times.shard_times(a, 1000, 32).collectives,
              slope(ids) * 8 * 1280 + 2 * slope(outputs) * 128 * 128, 1e-12);
  EXPECT_NEAR(times.type_times("m", ShardingType::kTableWise).collectives,
              at(ids) - slope(ids) * ids + 2 * (at(outputs) - slope(outputs) * outputs), 1e-12);
  // Gradients of whole tables.
  const Option copy = space.option("a", ShardingType::kDataParallel, ComputeKernel::kDense);
  const std::vector<ShardMessage> sent = times.messages(copy, 1000, 32);
  ASSERT_EQ(sent.size(), 1u);
  EXPECT_EQ(sent[0].operation, Collective::kAllReduce);
  EXPECT_EQ(sent[0].bytes, 128000);
}

// Small tables: weights of no more bytes than the outputs of a rank's samples, 64 of 128 bytes.
TEST(CalibratedTimes, DrawTheLineOfReplicasThroughSmallTablesAndAll) {
  PlanningProblem problem = make_problem(2, 64);
  Module& module = problem.model.modules[0];
  module.tables[0].num_embeddings = 64;
  const Space space(problem);
  const CalibratedTimes times = space.times();
  const CollectiveTable& table = problem.machine->collectives[3];
  ASSERT_EQ(table.operation, Collective::kAllReduce);
  const double small = 64 * 128, large = 400000.0 * 256;
  const double at_small = interpolated_ms(table, small);
  const double at_all = interpolated_ms(table, small + large);
  const Option a = space.option("a", ShardingType::kDataParallel, ComputeKernel::kDense);
  const Option b = space.option("b", ShardingType::kDataParallel, ComputeKernel::kDense);
  const double intercept = times.type_times("m", ShardingType::kDataParallel).collectives;
  const double of_a = times.shard_times(a, 64, 32).collectives;
  const double of_b = times.shard_times(b, 400000, 64).collectives;
  EXPECT_NEAR(intercept + of_a, at_small, 1e-9);
  EXPECT_NEAR(intercept + of_a + of_b, at_all, 1e-9 * at_all);
  EXPECT_LT(intercept, at_small);
}

// Four hosts of two ranks in one fast domain: nothing leaves it.
TEST(CalibratedTimes, KeepMessagesInTheFastDomain) {
  PlanningProblem problem = make_problem(8, 64);
  topology::TopologySpec spec;
  spec.world_size = 8;
  spec.local_world_size = 2;
  spec.pod_size = 4;
  spec.hbm_cap = 80 * kGiB;
  problem.topology = *topology::make_topology(spec, true, true);
  const Space space(problem);
  const CalibratedTimes times = space.times();
  const Option whole = space.option("a", ShardingType::kTableWise, ComputeKernel::kFused);
  for (const ShardMessage& message : times.messages(whole, 1000, 32)) {
    EXPECT_EQ(message.group, (CommunicatingRanks{8, 8}));
  }
}

TEST(CalibratedTimes, NameWhatWasNotMeasured) {
  const PlanningProblem problem = make_problem(2, 2048);
  const Space space(problem);
  const CalibratedTimes times = space.times();
  CalibratedBillMaker maker(times);
  const Option a = space.option("a", ShardingType::kTableWise, ComputeKernel::kFused);
  maker.add(a, 1000, 32, 1);
  const CalibratedBill bill = maker.finish();
  EXPECT_EQ(bill.kernels[0], 0);
  EXPECT_NEAR(bill.kernels[1], times.shard_times(a, 1000, 32).kernels + 1.5, 1e-12);
  // 40,960 ids where 10,000 were the most, in both directions; 524,288 bytes of outputs and 327,680
  // of ids where 16,384 were.
  ASSERT_EQ(bill.extrapolated.size(), 3u);
  EXPECT_EQ(bill.extrapolated[0], (Extrapolation{"bytes", "all_to_all", 524288, 1024, 16384}));
  EXPECT_EQ(bill.extrapolated[1],
            (Extrapolation{"lookups", "fused backward rowwise_adagrad", 40960, 100, 10000}));
  EXPECT_EQ(bill.extrapolated[2], (Extrapolation{"lookups", "fused forward", 40960, 100, 10000}));
  EXPECT_NEAR(bill.interpolated_collectives[1],
              interpolated_ms(problem.machine->collectives[0], 327680) +
                  2 * interpolated_ms(problem.machine->collectives[0], 524288),
              1e-9);
}

TEST(CalibratedTimes, RefuseMachinesWithoutKernelsAndOptionsWithoutProfiles) {
  PlanningProblem problem = make_problem(2, 64);
  const Space space(problem);
  BridgeInput input = space.input();
  BridgeOptions settings;
  settings.objective = BalanceObjective::kTime;
  EXPECT_TRUE(make_placement_bridge(input, settings));
  input.profiles = {};
  EXPECT_EQ(make_placement_bridge(input, settings).error().place, "machine");
  input = space.input();
  const MachineModel empty;
  input.machine = &empty;
  EXPECT_EQ(make_placement_bridge(input, settings).error().place, "machine");
}

BalancedOptions time_options(const PlanningProblem& problem) {
  auto options = BalancedOptions::minimizing(BalanceObjective::kRating);
  options.bridge.objective = BalanceObjective::kTime;
  options.bridge.step_model = problem.machine->step;
  return options;
}

BalancedResult plan(const PlanningProblem& problem, const BalancedOptions& options) {
  SearchOptions search;
  search.effort = 20000;
  auto result = plan_balanced(problem, options, search, {});
  EXPECT_TRUE(result) << (result ? "" : format_error(result.error()));
  return *std::move(result);
}

TEST(CalibratedPlans, AreTheBestOfAllPlans) {
  for (const std::int64_t batch_size : {1, 16, 64, 512, 4096}) {
    SCOPED_TRACE(batch_size);
    const PlanningProblem problem = make_problem(2, batch_size);
    const Space space(problem);
    const BalancedOptions options = time_options(problem);
    const BalancedResult found = plan(problem, options);
    double best = std::numeric_limits<double>::infinity();
    for_each_plan(space.options.options, HostColumns::kAnywhere, [&](const PlacedProposal& other) {
      best = std::min(best, plan_times(space.input(), options.bridge.step_model, other).time);
    });
    EXPECT_NEAR(found.times.time, best, 1e-9 * best);
    ASSERT_TRUE(found.planning.outcome.certificate.lower_bound);
    EXPECT_LE(*found.planning.outcome.certificate.lower_bound, best * (1 + 1e-9));
  }
}

TEST(CalibratedPlans, KeepTheReferencesPlanAndRatings) {
  PlanningProblem problem = make_problem(2, 512);
  const BalancedOptions options = time_options(problem);
  const BalancedResult measured = plan(problem, options);
  ReferenceOptions reference;
  const auto with = plan_like_torchrec(problem, reference, {}, {});
  problem.machine.reset();
  const BalancedResult assumed = plan(problem, options);
  const auto without = plan_like_torchrec(problem, reference, {}, {});
  ASSERT_TRUE(with && without && measured.reference && assumed.reference);
  EXPECT_EQ(with->outcome.plan, without->outcome.plan);
  EXPECT_EQ(with->rating, without->rating);  // to the bit
  EXPECT_EQ(measured.reference->rating, assumed.reference->rating);
  EXPECT_EQ(measured.reference->step, assumed.reference->step);
  EXPECT_NE(measured.reference->time, assumed.reference->time);
}

check::BalanceReport judge(const PlanningProblem& problem, const BalancedOptions& options,
                           const BalancedResult& found) {
  check::StatedBalance stated;
  std::map<std::string, std::string> recorded;
  record_balanced(options, found, recorded);
  const BalancedOptions made_with = *read_balanced_record(recorded);
  stated.options = made_with;
  stated.status = found.planning.outcome.status;
  stated.times = found.times;
  stated.reference = found.reference;
  stated.certificate = found.planning.outcome.certificate;
  stated.bound = found.bound;
  check::CheckOptions rules;
  rules.batch_size = problem.batch_size;
  const auto sharding =
      check::check_sharding(problem.model, *found.planning.outcome.plan, problem.topology,
                            problem.cost_model, problem.mode, rules);
  EXPECT_TRUE(sharding && sharding->is_right());
  return *check::check_balance(problem, &*found.planning.outcome.plan, &*sharding, stated,
                               study::make_search_aid(problem, made_with));
}

TEST(CalibratedPlans, AreRightToTheJudgeWithTheirMachineAlone) {
  PlanningProblem problem = make_problem(4, 64);
  const BalancedOptions options = time_options(problem);
  const BalancedResult found = plan(problem, options);
  const check::BalanceReport right = judge(problem, options, found);
  EXPECT_TRUE(right.violations().empty()) << right.violations().front().message;
  EXPECT_FALSE(right.proof.empty());
  MachineModel other = *problem.machine;
  other.kernels[0].terms.read_byte_ns *= 2;
  problem.machine = std::make_shared<const MachineModel>(other);
  EXPECT_FALSE(judge(problem, options, found).violations().empty());
  problem.machine.reset();
  EXPECT_FALSE(judge(problem, options, found).violations().empty());
}

TEST(CalibratedPlans, RunSlowerOnSlowRanks) {
  PlanningProblem problem = make_problem(2, 64);
  problem.topology.device_speeds = {1, .5};
  const BalancedOptions options = time_options(problem);
  const BalancedResult found = plan(problem, options);
  EXPECT_TRUE(judge(problem, options, found).violations().empty());
}

}  // namespace
}  // namespace plimsoll::embedding
