#include "partition/assignment/placement_tree.h"

#include <gtest/gtest.h>

#include <bit>
#include <functional>

#include "partition/cost_graphs.h"
#include "partition/judged.h"
#include "plimsoll/partition/latency_search.h"
#include "plimsoll/partition/throughput.h"

namespace plimsoll::partition {
namespace {

// The least largest load over all placements without pair rates, by dynamic programming over sets
// of nodes: the load of a device depends on its own set alone. O(3^nodes * devices).
class SetProgram {
 public:
  explicit SetProgram(const CostGraph& graph) : graph_(graph) {}

  double best() const {
    const std::size_t num_sets = std::size_t{1} << graph_.nodes.size();
    std::vector<double> least(num_sets, kUnlimited);  // of the devices so far, for these nodes
    least[0] = 0;
    for (int d = 0; d < graph_.num_devices(); ++d) {
      std::vector<double> load;
      for (std::uint32_t set = 0; set < num_sets; ++set) load.push_back(load_of(d, set));
      std::vector<double> next = least;
      for (std::uint32_t set = 0; set < num_sets; ++set) {
        for (std::uint32_t own = set; own != 0; own = (own - 1) & set) {
          next[set] = std::min(next[set], std::max(load[own], least[set & ~own]));
        }
      }
      least = std::move(next);
    }
    return least.back();
  }

 private:
  // kUnlimited where the device may not run just this set.
  double load_of(int device, std::uint32_t set) const {
    const auto holds = [&](int node) { return (set >> node & 1U) != 0; };
    const int device_class = graph_.class_of(device);
    double load = 0;
    Bytes bytes = 0;
    std::map<std::int64_t, bool> side_of_colour;
    for (int node = 0; node < graph_.num_nodes(); ++node) {
      const CostNode& n = graph_.nodes[node];
      if (n.colour && side_of_colour.emplace(*n.colour, holds(node)).first->second != holds(node)) {
        return kUnlimited;
      }
      if (!holds(node)) continue;
      const auto& barred = n.forbidden_devices;
      if (n.pinned_device.value_or(device) != device ||
          std::find(barred.begin(), barred.end(), device) != barred.end()) {
        return kUnlimited;
      }
      load += n.time_ms[device_class];
      bytes += n.memory;
    }
    for (const Weight& weight : graph_.weights) {
      if (std::any_of(weight.readers.begin(), weight.readers.end(), holds)) bytes += weight.bytes;
    }
    for (const Net& net : graph_.nets) {
      std::size_t inside = holds(net.producer) ? 1 : 0;
      for (const int consumer : net.consumers) inside += holds(consumer) ? 1 : 0;
      if (inside > 0 && inside <= net.consumers.size()) {
        load += net.amount / graph_.classes[device_class].link_rate;
      }
    }
    return bytes > graph_.classes[device_class].memory_cap.value_or(bytes) ? kUnlimited : load;
  }

  const CostGraph& graph_;
};

// Twelve nodes on four devices, alike or of four classes, with little room to spare.
CostGraph twelve_on_four(std::mt19937_64& random) {
  CostGraph graph;
  const bool are_alike = draw(random, 0, 1) == 0;
  const int num_classes = are_alike ? 1 : 4;
  for (int c = 0; c < num_classes; ++c) {
    graph.classes.push_back(
        {"c" + std::to_string(c), 4 / num_classes, {}, are_alike ? 1 : 0.5 * draw(random, 1, 4)});
  }
  Bytes total = 0;
  for (int i = 0; i < 12; ++i) {
    CostNode node;
    for (int c = 0; c < num_classes; ++c) node.time_ms.push_back(0.1 * draw(random, 5, 30));
    node.memory = draw(random, 10, 40);
    total += node.memory;
    graph.nodes.push_back(std::move(node));
    const int last = draw(random, i, 11);
    if (last == i) continue;
    graph.nets.push_back({i, {last}, 0.1 * draw(random, 1, 9)});
    if (last > i + 1) graph.nets.back().consumers.push_back(i + 1);
  }
  for (DeviceClass& devices : graph.classes) devices.memory_cap = total / 4 + draw(random, 0, 20);
  return graph;
}

struct Answer {
  double value = kUnlimited;
  std::vector<int> device;  // [num_groups]
  std::int64_t num_steps = 0;
  bool is_complete = false;
};

Answer search(const CostGraph& graph, bool requires_line = false,
              const PlacementTreeRules& rules = {}, std::int64_t max_steps = kTreeSteps) {
  const GroupGraph groups = requires_line ? make_groups(graph) : make_colour_groups(graph);
  PlacementTree tree;
  tree.requires_line = requires_line;
  tree.rules = rules;
  tree.max_steps = max_steps;
  Answer answer;
  search_placement_tree(groups, graph.pair_rates, tree, answer.device, answer.value, {});
  answer.num_steps = tree.num_steps;
  answer.is_complete = tree.is_complete;
  return answer;
}

//   a 3     b 3     c 2     d 2     e 2        nothing travels, two devices
//
// Six each: {a b | c d e}. Whoever takes the longest first, as lists do, ends at 7.
TEST(PlacementTree, SharesOutWhatListsDoNot) {
  CostGraph graph;
  graph.classes = accelerators_and_cpus(2, 0);
  for (const double ms : {3, 3, 2, 2, 2}) graph.nodes.push_back(cost_node("", {ms, 0}));
  const Answer answer = search(graph);
  EXPECT_TRUE(answer.is_complete);
  EXPECT_EQ(answer.value, 6);
  EXPECT_EQ(answer.device[0], answer.device[1]);
}

//   a 4 ─┬─→ b 4      the net of a (1) reaches b and c; two devices that talk at a rate of 0.5
//        └─→ c 4
//
// Alone, a and its neighbour pay 1 / 0.5 each: {a b | c} 4 + 4 + 2 = 10.
TEST(PlacementTree, ChargesPairRates) {
  CostGraph graph;
  graph.classes = accelerators_and_cpus(2, 0);
  for (const char* name : {"a", "b", "c"}) graph.nodes.push_back(cost_node(name, {4, 0}));
  graph.nets = {{0, {1, 2}, 1}};
  EXPECT_EQ(search(graph).value, 9);
  graph.pair_rates = {{1, 0.5}, {0.5, 1}};
  EXPECT_EQ(search(graph).value, 10);
}

TEST(PlacementTree, FindsNothingWhereNothingFits) {
  CostGraph graph;
  graph.classes = accelerators_and_cpus(2, 0, 10);
  for (int i = 0; i < 3; ++i) graph.nodes.push_back(cost_node("", {1, 0}, 6));
  const Answer answer = search(graph);
  EXPECT_TRUE(answer.is_complete);
  EXPECT_TRUE(answer.device.empty());
  graph.classes[0].memory_cap = 12;
  EXPECT_EQ(search(graph).value, 2);
}

TEST(PlacementTree, EqualsBruteForceInEveryKindOfGraph) {
  for (std::uint64_t seed = 0; seed < 1500; ++seed) {
    SCOPED_TRACE(seed);
    std::mt19937_64 random(seed);
    const CostGraph graph = random_cost_graph(
        random, {.max_nodes = 6, .has_weights = seed % 3 != 0, .has_pair_rates = seed % 2 == 0});
    for (const bool requires_line : {false, true}) {
      const Answer answer = search(graph, requires_line);
      EXPECT_TRUE(answer.is_complete);
      expect_near(answer.value, BruteForce(graph, requires_line).best());
    }
  }
}

// By default: proved, the checker agrees, and so does a method of another kind.
TEST(PlacementTree, ProvesTwelveOperatorsOnFourDevices) {
  int num_plans = 0;
  std::int64_t most_moves = 0;
  for (std::uint64_t seed = 0; seed < 60; ++seed) {
    SCOPED_TRACE(seed);
    std::mt19937_64 random(seed);
    const CostGraph graph = seed % 2 == 0
                                ? twelve_on_four(random)
                                : random_cost_graph(random, {.max_nodes = 12, .has_weights = true});
    ThroughputOptions options;
    options.is_contiguous = false;
    const auto result = place_for_throughput(graph, options);
    ASSERT_TRUE(result.has_value());
    expect_right(graph, result->outcome, false);
    expect_near(proved_optimum(result->outcome), SetProgram(graph).best());
    num_plans += result->outcome.plan ? 1 : 0;
    most_moves = std::max(most_moves, result->num_moves);
  }
  EXPECT_GT(num_plans, 40);
  EXPECT_LT(most_moves, 1'000'000);  // some tenths of a second
}

// Chains of downsets only bound what a split takes where pairs of devices differ.
TEST(PlacementTree, ProvesContiguousSplitsWithPairRates) {
  int num_tried = 0;
  for (std::uint64_t seed = 0; seed < 300; ++seed) {
    SCOPED_TRACE(seed);
    std::mt19937_64 random(seed);
    const CostGraph graph =
        random_cost_graph(random, {.max_nodes = 7, .has_weights = true, .has_pair_rates = true});
    const auto result = place_for_throughput(graph);
    ASSERT_TRUE(result.has_value());
    expect_right(graph, result->outcome, true);
    expect_near(proved_optimum(result->outcome), BruteForce(graph).best(), 2e-6);
    num_tried += result->outcome.certificate.proof == ProofKind::kTriedEveryPlacement ? 1 : 0;
  }
  EXPECT_GT(num_tried, 10);
}

TEST(PlacementTree, ProvesTheLatencyOfTwelveOperatorsOnFourDevices) {
  for (std::uint64_t seed = 0; seed < 30; ++seed) {
    SCOPED_TRACE(seed);
    std::mt19937_64 random(seed);
    const auto result = place_for_latency(twelve_on_four(random));
    ASSERT_TRUE(result.has_value());
    EXPECT_TRUE(result->outcome.status == SolveStatus::kOptimal ||
                result->outcome.status == SolveStatus::kInfeasible);
  }
}

TEST(PlacementTree, EveryRuleSavesStepsAndChangesNothing) {
  const PlacementTreeRules ablations[] = {{}, {.uses_work = false}, {.uses_twins = false}};
  std::vector<std::int64_t> steps(std::size(ablations));
  for (std::uint64_t seed = 0; seed < 20; ++seed) {
    SCOPED_TRACE(seed);
    std::mt19937_64 random(seed);
    CostGraph graph = twelve_on_four(random);
    for (DeviceClass& devices : graph.classes) devices.memory_cap.reset();
    const bool requires_line = seed % 2 == 0;
    const double all = search(graph, requires_line).value;
    for (std::size_t i = 0; i < steps.size(); ++i) {
      const Answer answer = search(graph, requires_line, ablations[i]);
      EXPECT_TRUE(answer.is_complete);
      expect_near(answer.value, all);
      steps[i] += answer.num_steps;
    }
  }
  for (std::size_t i = 1; i < steps.size(); ++i) EXPECT_GT(steps[i], steps[0]) << i;
}

TEST(PlacementTree, IsDeterministicAndKnowsNoNames) {
  for (std::uint64_t seed = 0; seed < 60; ++seed) {
    SCOPED_TRACE(seed);
    std::mt19937_64 random(seed);
    const CostGraph graph = random_cost_graph(random, {.max_nodes = 8, .has_weights = true});
    const Answer once = search(graph);
    const Answer twice = search(graph);
    EXPECT_EQ(once.device, twice.device);
    EXPECT_EQ(once.num_steps, twice.num_steps);
    const CostGraph other = relabel(graph, random_permutation(random, graph.num_nodes()));
    expect_near(search(other).value, once.value);
  }
}

TEST(PlacementTree, StopsAtItsStepsWithoutAProof) {
  CostGraph graph;
  graph.classes = accelerators_and_cpus(4, 0);
  for (int i = 0; i < 12; ++i) graph.nodes.push_back(cost_node("", {1 + 0.37 * (i % 5), 0}));
  const std::int64_t all = search(graph).num_steps;
  const Answer cut = search(graph, false, {}, all - 1);
  EXPECT_EQ(cut.num_steps, all - 1);
  EXPECT_FALSE(cut.is_complete);
  EXPECT_TRUE(search(graph, false, {}, all).num_steps == all);
}

TEST(PlacementTree, LeavesLargeGraphsAlone) {
  CostGraph graph;
  graph.classes = accelerators_and_cpus(4, 0);
  graph.nodes.assign(12, cost_node("", {1, 0}));
  EXPECT_EQ(default_tree_steps(make_groups(graph)), kTreeSteps);
  graph.nodes.assign(13, cost_node("", {1, 0}));
  EXPECT_EQ(default_tree_steps(make_groups(graph)), kTreeSteps / 8);
  graph.nodes.assign(33, cost_node("", {1, 0}));
  EXPECT_EQ(default_tree_steps(make_groups(graph)), 0);
  graph.nodes.assign(3, cost_node("", {1, 0}));
  graph.classes[0].count = 17;
  EXPECT_EQ(default_tree_steps(make_groups(graph)), 0);
}

}  // namespace
}  // namespace plimsoll::partition
