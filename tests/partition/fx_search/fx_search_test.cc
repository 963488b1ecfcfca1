#include "plimsoll/partition/fx_search.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <cmath>
#include <limits>

#include "partition/fx_search/fx_bound.h"
#include "partition/fx_search/fx_problem.h"
#include "partition/graphs.h"
#include "partition/judged.h"
#include "plimsoll/check/critical_path_check.h"

namespace plimsoll::partition {
namespace {

using ::testing::ElementsAre;

constexpr double kNever = std::numeric_limits<double>::infinity();

struct Problem {
  Graph graph;
  PartitionerConfig config;
};

// `fill`: the devices' bytes together, as a share of the graph's.
Problem random_problem(std::uint64_t seed, int max_operators, int max_devices) {
  std::mt19937_64 random(seed);
  Problem problem;
  problem.graph = random_graph(random, draw(random, 2, max_operators));
  const int count = draw(random, 2, max_devices);
  const Bytes share = problem.graph.total_size * draw(random, 9, 26) / (10 * count) + 1;
  std::vector<Bytes> memories;
  for (int d = 0; d < count; ++d) memories.push_back(share * draw(random, 8, 12) / 10);
  problem.config.devices = devices(memories);
  problem.config.transfer_rate_bytes_per_sec = draw(random, 1, 40);
  problem.config.node_to_latency_mapping = random_latencies(random, problem.graph, 30);
  return problem;
}

ReferencePartition search(const Problem& problem, const FxSearchOptions& options = {}) {
  return partition_for_critical_path(problem.graph, problem.config, options).value();
}

FxSearchOptions with_effort(std::int64_t effort) {
  FxSearchOptions options;
  options.search.effort = effort;
  return options;
}

void expect_right(const Problem& problem, const ReferencePartition& result) {
  const Certificate& certificate = result.outcome.certificate;
  ASSERT_EQ(result.outcome.plan.has_value(), !result.failure.has_value());
  if (!result.outcome.plan) return;
  const auto report = check::check_critical_path(problem.graph, problem.config,
                                                 *result.outcome.plan, certificate.objective);
  ASSERT_TRUE(report) << format_error(report.error());
  EXPECT_TRUE(report->is_right()) << report->violations().front().message;
  EXPECT_LE(*certificate.lower_bound, certificate.objective);
  EXPECT_EQ(result.split.dag.size(), result.outcome.plan->partitions.size());
}

// Every operator a partition of its own, on the given devices.
Placement singles(const Problem& problem, const std::vector<int>& device) {
  const FxProblem fx(problem.graph, problem.config);
  Placement placement;
  placement.node_to_partition.resize(problem.graph.nodes.size());
  for (int op = 0; op < fx.num_operators(); ++op) {
    Partition& partition = placement.partitions.emplace_back();
    partition.id = op;
    partition.nodes = {fx.node[op]};
    for (const int input : problem.graph.nodes[fx.node[op]].inputs) {
      if (problem.graph.is_source(input)) partition.nodes.push_back(input);
    }
    std::sort(partition.nodes.begin(), partition.nodes.end());
    partition.logical_device_ids = {device[op]};
    placement.node_to_partition[fx.node[op]] = op;
  }
  return placement;
}

// Calls `visit` with all ways to give every operator a device.
template <class Visit>
void for_each_placement(const Problem& problem, Visit visit) {
  int num_operators = 0;
  for (const Node& node : problem.graph.nodes) num_operators += is_operator(node.op) ? 1 : 0;
  const int num_devices = static_cast<int>(problem.config.devices.size());
  std::vector<int> device(static_cast<std::size_t>(num_operators));
  for (bool is_done = false; !is_done;) {
    visit(device);
    is_done = true;
    for (int& d : device) {
      if (++d < num_devices) {
        is_done = false;
        break;
      }
      d = 0;
    }
  }
}

double least_critical_path(const Problem& problem) {
  double best = kNever;
  for_each_placement(problem, [&](const std::vector<int>& device) {
    const auto report =
        check::check_critical_path(problem.graph, problem.config, singles(problem, device));
    if (report->is_right()) best = std::min(best, report->critical_path_sec);
  });
  return best;
}

//   x ─→ a ─→ b ─→ c      10 bytes a value; a owns 20 more, b and c nothing; 1 s each
Problem chain(const std::vector<Bytes>& memories, double rate) {
  Problem problem;
  problem.graph = GraphBuilder()
                      .input("x", 10)
                      .module("a", {"x"}, 10, 30)
                      .call("b", {"a"}, 10)
                      .call("c", {"b"}, 10)
                      .output({"c"})
                      .build();
  problem.config.devices = devices(memories);
  problem.config.transfer_rate_bytes_per_sec = rate;
  problem.config.node_to_latency_mapping = equal_latencies(problem.graph, 1, 0.5);
  return problem;
}

TEST(FxSearch, KeepsWhatFitsOnOneDevice) {
  const ReferencePartition result = search(chain({20, 60}, 1));
  EXPECT_EQ(result.outcome.status, SolveStatus::kOptimal);
  EXPECT_EQ(result.outcome.certificate.objective, 3);
  ASSERT_EQ(result.outcome.plan->partitions.size(), 1u);
  EXPECT_THAT(result.outcome.plan->partitions[0].logical_device_ids, ElementsAre(1));
  EXPECT_EQ(result.outcome.plan->partitions[0].used_mem_bytes, 60);
}

//     ┌─→ a ─→ b ─┐
//   x             c ─→ d    c merged with b alone makes the other branch wait for b: merges one by
//     └─→ e ─→ f ─┘         one end with several partitions
TEST(FxSearch, MakesOnePartitionOfBranchesThatJoinOnOneDevice) {
  Problem problem;
  problem.graph = GraphBuilder()
                      .input("x", 10)
                      .call("a", {"x"}, 10)
                      .call("b", {"a"}, 10)
                      .call("e", {"x"}, 10)
                      .call("f", {"e"}, 10)
                      .call("c", {"b", "f"}, 10)
                      .call("d", {"c"}, 10)
                      .output({"d"})
                      .build();
  problem.config.devices = devices({1000, 1000});
  problem.config.transfer_rate_bytes_per_sec = 1;
  problem.config.node_to_latency_mapping = equal_latencies(problem.graph, 1, 1);
  const ReferencePartition result = search(problem);
  EXPECT_EQ(result.outcome.certificate.objective, 4);
  ASSERT_EQ(result.outcome.plan->partitions.size(), 1u);
  EXPECT_EQ(result.outcome.plan->partitions[0].nodes.size(), 7u);
  expect_right(problem, result);
}

// One byte less on the device: x and a fill 40, so b or c goes elsewhere, which costs 10 s; b alone
// would cost 20.
TEST(FxSearch, CutsAChainOnceWhereItMust) {
  const ReferencePartition result = search(chain({59, 30}, 1));
  EXPECT_EQ(result.outcome.status, SolveStatus::kOptimal);
  EXPECT_EQ(result.outcome.certificate.objective, 13);
  EXPECT_EQ(result.outcome.plan->partitions.size(), 2u);
}

// 40 bytes hold x and a exactly, 30 hold b, c and a's value exactly; a mapping that asks for more
// than enough finds nothing.
TEST(FxSearch, FillsDevicesToTheLastByte) {
  const ReferencePartition exact = search(chain({40, 30}, 1));
  EXPECT_EQ(exact.outcome.status, SolveStatus::kOptimal);
  EXPECT_EQ(exact.outcome.certificate.objective, 13);
  const ReferencePartition less = search(chain({40, 19}, 1));
  EXPECT_EQ(less.outcome.status, SolveStatus::kInfeasible);
  ASSERT_TRUE(less.failure);
  EXPECT_EQ(less.failure->code, ErrorCode::kPlanner);
}

// Both branches read y, which is charged once to the device that runs them.
TEST(FxSearch, ChargesASharedValueOnce) {
  Problem problem;
  problem.graph = GraphBuilder()
                      .input("x", 10)
                      .call("y", {"x"}, 100)
                      .call("a", {"y"}, 10)
                      .call("b", {"y"}, 10)
                      .output({"a", "b"})
                      .build();
  problem.config.devices = devices({110, 120});
  problem.config.transfer_rate_bytes_per_sec = 1;
  problem.config.node_to_latency_mapping = equal_latencies(problem.graph, 1, 1);
  const ReferencePartition result = search(problem);
  EXPECT_EQ(result.outcome.status, SolveStatus::kOptimal);
  EXPECT_EQ(result.outcome.certificate.objective, 102);
  expect_right(problem, result);
}

TEST(FxSearch, RefusesBadInput) {
  const auto code = [](const Problem& problem, const FxSearchOptions& options = {}) {
    return partition_for_critical_path(problem.graph, problem.config, options).error().code;
  };
  EXPECT_EQ(code(chain({}, 1)), ErrorCode::kValue);
  EXPECT_EQ(code(chain({40, 40}, 0)), ErrorCode::kValue);
  EXPECT_EQ(code(chain({40, 40}, -1)), ErrorCode::kValue);
  Problem problem = chain({40, 40}, 1);
  problem.config.devices[1].logical_id = 0;
  EXPECT_EQ(code(problem), ErrorCode::kConflict);
  problem = chain({40, 40}, 1);
  problem.config.node_to_latency_mapping[2].reset();
  EXPECT_EQ(code(problem), ErrorCode::kRuntime);
  problem.config.node_to_latency_mapping.clear();
  EXPECT_EQ(code(problem), ErrorCode::kRuntime);
  problem.graph = GraphBuilder().input("x", 10).output({"x"}).build();
  EXPECT_EQ(code(problem), ErrorCode::kValue);
  FxSearchOptions options;
  options.search.tolerance = -1;
  EXPECT_EQ(code(chain({40, 40}, 1), options), ErrorCode::kUsage);
}

TEST(FxSearch, AgreesWithTryingEverything) {
  int num_infeasible = 0;
  for (std::uint64_t seed = 0; seed < 120; ++seed) {
    SCOPED_TRACE(seed);
    const Problem problem = random_problem(seed, 5, 3);
    const double best = least_critical_path(problem);
    const ReferencePartition result = search(problem);
    expect_right(problem, result);
    expect_near(proved_optimum(result.outcome), best, 1e-6);
    if (best == kNever) {
      ++num_infeasible;
      continue;
    }
    const FxProblem fx(problem.graph, problem.config);
    const double simple = bound_critical_path(fx, false, {}).value;
    const double bound = bound_critical_path(fx, true, {}).value;
    EXPECT_LE(simple, bound);
    EXPECT_LE(bound, best * (1 + 1e-9));
  }
  EXPECT_GT(num_infeasible, 5);
}

// The claim that lets the search look at devices alone: partitions of several operators are never
// faster than their operators by themselves.
TEST(FxProblem, NoPartitionIsFasterThanItsOperatorsAlone) {
  int num_compared = 0;
  for (std::uint64_t seed = 0; seed < 400; ++seed) {
    SCOPED_TRACE(seed);
    const Problem problem = random_problem(seed, 8, 3);
    std::mt19937_64 random(seed);
    const FxProblem fx(problem.graph, problem.config);
    std::vector<int> device;
    for (int op = 0; op < fx.num_operators(); ++op) device.push_back(draw(random, 0, 1));
    const Placement alone = singles(problem, device);
    Placement merged;
    merged.node_to_partition.resize(problem.graph.nodes.size());
    merged.partitions.resize(4);  // two a device
    for (std::size_t p = 0; p < 4; ++p) {
      merged.partitions[p].id = static_cast<int>(p);
      merged.partitions[p].logical_device_ids = {static_cast<int>(p) / 2};
    }
    for (const Partition& partition : alone.partitions) {
      const int p = 2 * partition.logical_device_ids[0] + draw(random, 0, 1);
      auto& nodes = merged.partitions[p].nodes;
      nodes.insert(nodes.end(), partition.nodes.begin(), partition.nodes.end());
    }
    const auto coarse = check::check_critical_path(problem.graph, problem.config, merged);
    const auto fine = check::check_critical_path(problem.graph, problem.config, alone);
    ASSERT_TRUE(coarse && fine);
    std::vector<double> finish(device.size());
    EXPECT_NEAR(fx.critical_path(device, fx.num_operators(), finish), fine->critical_path_sec,
                1e-9 * fine->critical_path_sec);
    EXPECT_EQ(coarse->memory, fine->memory);
    if (coarse->critical_path_sec == kNever) continue;
    ++num_compared;
    EXPECT_LE(fine->critical_path_sec, coarse->critical_path_sec * (1 + 1e-12));
  }
  EXPECT_GT(num_compared, 50);
}

// Sums that are kept while operators move are those of the judge.
TEST(FxState, KeepsTheBytesOfEveryDevice) {
  for (std::uint64_t seed = 0; seed < 100; ++seed) {
    SCOPED_TRACE(seed);
    const Problem problem = random_problem(seed, 10, 3);
    std::mt19937_64 random(seed);
    const FxProblem fx(problem.graph, problem.config);
    FxState state(fx);
    std::vector<int> device(fx.node.size());
    state.assign(device);
    for (int move = 0; move < 20; ++move) {
      const int op = draw(random, 0, fx.num_operators() - 1);
      device[op] = draw(random, 0, fx.num_devices() - 1);
      state.move(op, device[op]);
    }
    const auto report =
        check::check_critical_path(problem.graph, problem.config, singles(problem, device));
    for (int d = 0; d < fx.num_devices(); ++d) EXPECT_EQ(state.bytes(d), report->memory[d]);
  }
}

// On random graphs of every size, whenever a mode's answer keeps the devices' bytes.
TEST(FxSearch, IsNeverWorseThanTheReferenceModes) {
  int num_better = 0;
  int num_compared = 0;
  for (std::uint64_t seed = 0; seed < 120; ++seed) {
    SCOPED_TRACE(seed);
    const Problem problem = random_problem(seed, 40, 5);
    const ReferencePartition ours = search(problem, with_effort(500));
    expect_right(problem, ours);
    double best = kNever;
    for (const PartitionMode mode :
         {PartitionMode::kSizeBased, PartitionMode::kCostAware, PartitionMode::kKlBased}) {
      PartitionerConfig config = problem.config;
      config.mode = mode;
      const auto theirs = partition_like_torch(problem.graph, config);
      if (!theirs || !theirs->outcome.plan) continue;
      const auto report = check::check_critical_path(problem.graph, config, *theirs->outcome.plan);
      const bool fits = std::all_of(report->findings.begin(), report->findings.end(),
                                    [](const check::Finding& violation) {
                                      return violation.code == check::FindingCode::kMappingMismatch;
                                    });
      if (fits) best = std::min(best, theirs->outcome.certificate.objective);
    }
    if (best == kNever) continue;
    ASSERT_TRUE(ours.outcome.plan);
    ++num_compared;
    EXPECT_LE(ours.outcome.certificate.objective, best * (1 + 1e-12));
    num_better += ours.outcome.certificate.objective < best * (1 - 1e-9) ? 1 : 0;
  }
  EXPECT_GT(num_compared, 60);
  EXPECT_GT(num_better, num_compared / 4);
}

TEST(FxSearch, EachRuleDoesItsPart) {
  int num_proved[3] = {};
  double value[2] = {};
  double starts[2] = {};
  std::size_t num_parts[2] = {};
  for (std::uint64_t seed = 0; seed < 60; ++seed) {
    SCOPED_TRACE(seed);
    const Problem problem = random_problem(seed, 40, 4);
    FxSearchOptions options = with_effort(5000);
    const ReferencePartition all = search(problem, options);
    options.rules.cuts_paths = false;
    const ReferencePartition without_cuts = search(problem, options);
    options = with_effort(5000);
    options.rules.anneals = false;
    const ReferencePartition without_annealing = search(problem, options);
    options = with_effort(5000);
    options.rules.searches_tree = false;
    const ReferencePartition without_tree = search(problem, options);
    options = with_effort(5000);
    options.rules.merges = false;
    const ReferencePartition without_merges = search(problem, options);
    options = with_effort(500);
    options.rules.anneals = false;
    const ReferencePartition only_starts = search(problem, options);
    options.rules.starts_from_modes = false;
    const ReferencePartition own_starts = search(problem, options);
    if (only_starts.outcome.plan && own_starts.outcome.plan) {
      starts[0] += only_starts.outcome.certificate.objective;
      starts[1] += own_starts.outcome.certificate.objective;
    }
    for (const auto* result :
         {&all, &without_cuts, &without_annealing, &without_tree, &without_merges}) {
      expect_right(problem, *result);
    }
    num_proved[0] += all.outcome.status == SolveStatus::kOptimal ? 1 : 0;
    num_proved[1] += without_cuts.outcome.status == SolveStatus::kOptimal ? 1 : 0;
    num_proved[2] += without_tree.outcome.status == SolveStatus::kOptimal ? 1 : 0;
    if (!all.outcome.plan || !without_annealing.outcome.plan) continue;
    value[0] += all.outcome.certificate.objective;
    value[1] += without_annealing.outcome.certificate.objective;
    num_parts[0] += all.outcome.plan->partitions.size();
    num_parts[1] += without_merges.outcome.plan->partitions.size();
    EXPECT_EQ(all.outcome.certificate.objective, without_merges.outcome.certificate.objective);
  }
  EXPECT_LT(num_proved[1], num_proved[0]);
  EXPECT_LT(num_proved[2], num_proved[0]);
  EXPECT_LT(value[0], 0.99 * value[1]);
  EXPECT_LT(starts[0], starts[1]);
  EXPECT_LT(5 * num_parts[0], 4 * num_parts[1]);
}

TEST(FxSearch, RepeatsItselfAndStopsWhenItIsTold) {
  const Problem problem = random_problem(7, 40, 4);
  const ReferencePartition first = search(problem, with_effort(3000));
  const ReferencePartition second = search(problem, with_effort(3000));
  EXPECT_EQ(first.outcome.plan, second.outcome.plan);
  EXPECT_EQ(first.split, second.split);
  EXPECT_EQ(first.outcome.certificate, second.outcome.certificate);
  const std::atomic<bool> cancel{true};
  RunContext context;
  context.cancel = &cancel;
  const auto cancelled =
      partition_for_critical_path(problem.graph, problem.config, {}, default_dialect(), context);
  ASSERT_TRUE(cancelled);
  expect_right(problem, *cancelled);
}

// Where a cancel stops a search, the same effort stops it again, with the same placement.
TEST(FxSearch, StopsAgainWhereItWasStopped) {
  int num_midway = 0;
  for (std::uint64_t seed = 0; seed < 12; ++seed) {
    SCOPED_TRACE(seed);
    const Problem problem = random_problem(seed, seed % 2 == 0 ? 120 : 22, 5);
    for (int calls = 1; calls < 40; calls = 2 * calls + 1) {
      std::atomic<bool> cancel{false};
      RunContext context;
      context.cancel = &cancel;
      int num_calls = 0;
      context.progress = [&](const Progress&) { cancel = ++num_calls >= calls; };
      const auto stopped = partition_for_critical_path(
          problem.graph, problem.config, with_effort(20'000), default_dialect(), context);
      ASSERT_TRUE(stopped);
      const auto again = partition_for_critical_path(problem.graph, problem.config,
                                                     with_effort(stopped->num_evaluations));
      ASSERT_TRUE(again);
      EXPECT_EQ(again->outcome.plan, stopped->outcome.plan);
      EXPECT_EQ(again->num_evaluations, stopped->num_evaluations);
      num_midway += stopped->outcome.stop == StopReason::kCancelled &&
                            stopped->num_evaluations > 100 && stopped->num_evaluations < 20'000
                        ? 1
                        : 0;
    }
  }
  EXPECT_GT(num_midway, 5);
}

}  // namespace
}  // namespace plimsoll::partition
