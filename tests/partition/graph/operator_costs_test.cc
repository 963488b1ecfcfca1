#include "plimsoll/partition/operator_costs.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <set>

#include "partition/operator_graphs.h"
#include "plimsoll/check/placement_check.h"
#include "plimsoll/partition/contiguous_split.h"

namespace plimsoll::partition {
namespace {

using ::testing::ElementsAre;

OperatorCosts costs_of(const OperatorGraph& graph, const OperatorCostOptions& options) {
  auto costs = make_cost_graph(graph, options);
  EXPECT_TRUE(costs.has_value()) << (costs ? "" : format_error(costs.error()));
  return costs ? *std::move(costs) : OperatorCosts{};
}

//   x ──► embed ──► block ──► view ──► head ──► output
//          ▲          │ ▲               ▲
//         wte         │ bias           lm_head (is wte)
//                     └──► assert (nothing)
TEST(OperatorCosts, KeepsOperatorsAndTurnsTheRestIntoWeightsOrNothing) {
  OperatorGraphBuilder b;
  const int x = b.input("x");
  const int wte = b.weight("wte.weight", 1000);
  const int bias = b.weight("block.bias", 10);
  const int lm_head = b.weight("lm_head.weight", 1000);
  b.graph.ties = {{wte, lm_head}};
  const int embed = b.op("embed", {wte, x}, 64);
  const int block = b.op("block", {embed, bias}, 64);
  b.op("assert", {block}, 0);
  const int view = b.view("view", block, 64);
  const int head = b.op("head", {view, lm_head}, 512);
  b.output({head});
  const OperatorCosts costs = costs_of(b.graph, fast_devices(2));
  EXPECT_THAT(costs.cost_node, ElementsAre(-1, -1, -1, -1, 0, 1, -1, 2, 3, -1));
  EXPECT_THAT(costs.operators, ElementsAre(ElementsAre(embed), ElementsAre(block),
                                           ElementsAre(view), ElementsAre(head)));
  EXPECT_THAT(costs.graph.nets, ElementsAre(Net{0, {1}, 64}, Net{1, {2}, 64}, Net{2, {3}, 64}));
  EXPECT_THAT(costs.graph.weights,
              ElementsAre(Weight{"wte.weight", 1000, {0, 3}}, Weight{"block.bias", 10, {1}}));
  EXPECT_EQ(costs.graph.nodes[1].time_ms, std::vector<double>{1});
  EXPECT_EQ(costs.graph.nodes[2].time_ms, std::vector<double>{0}) << "a view is free";
  for (const CostNode& node : costs.graph.nodes) {
    EXPECT_EQ(node.memory, 0);
    EXPECT_FALSE(node.colour.has_value());
    EXPECT_FALSE(node.is_backward);
  }
  // An assertion goes with what it reads.
  EXPECT_THAT(operator_devices(b.graph, costs, {{0, 1, 1, 0}}),
              ElementsAre(-1, -1, -1, -1, 0, 1, 1, 1, 0, -1));
}

TEST(OperatorCosts, DropsDeadOperatorsThatOnlyDeadOnesRead) {
  OperatorGraphBuilder b;
  const int x = b.input("x");
  const int y = b.op("y", {x});
  const int size = b.op("size", {y}, 0);
  b.op("check", {size}, 0);
  const int used = b.op("used", {y}, 0);  // no bytes, but somebody waits for it
  b.output({b.op("z", {y, used})});
  const OperatorCosts costs = costs_of(b.graph, fast_devices(1));
  EXPECT_THAT(costs.operators,
              ElementsAre(ElementsAre(y), ElementsAre(used), ElementsAre(b.last() - 1)));
  EXPECT_EQ(costs.graph.nets[1], (Net{1, {2}, 0})) << "order without bytes";
}

// split → getitem, getitem_1, each read by another operator
TEST(OperatorCosts, MakesOneNodeOfAnOperatorAndItsParts) {
  OperatorGraphBuilder b;
  const int split = b.op("split", {b.input("x")}, 100);
  const int first = b.getitem("getitem", split, 60);
  const int second = b.getitem("getitem_1", split, 40);
  const int a = b.op("a", {first});
  const int c = b.op("c", {second});
  b.output({a, c});
  const OperatorCosts costs = costs_of(b.graph, fast_devices(2));
  EXPECT_THAT(costs.operators,
              ElementsAre(ElementsAre(split, first, second), ElementsAre(a), ElementsAre(c)));
  EXPECT_THAT(costs.graph.nets, ElementsAre(Net{0, {1}, 60}, Net{0, {2}, 40}));
  EXPECT_EQ(costs.graph.nodes[0].time_ms, std::vector<double>{1});
}

TEST(OperatorCosts, KeepsASubgraphWithItsReader) {
  OperatorGraphBuilder b;
  const int x = b.input("x");
  const int body = (b.add("submod_3", OpKind::kGetAttr, {}, 0), b.last());
  const int call = b.op("wrap", {body, x}, 16);
  b.output({b.getitem("getitem", call, 16)});
  const OperatorCosts costs = costs_of(b.graph, fast_devices(1));
  EXPECT_THAT(costs.operators, ElementsAre(ElementsAre(body, call, call + 1)));
  EXPECT_TRUE(costs.graph.weights.empty());
}

// base ──► early
//   ├────► slice ──► write_ ──► late
//   └────► after
TEST(OperatorCosts, TiesStorageThatIsWrittenToWithItsEarlierReaders) {
  OperatorGraphBuilder b;
  const int x = b.input("x");
  const int base = b.op("base", {x});
  const int early = b.op("early", {base});
  const int slice = b.view("slice", base);
  const int write = b.op("write_", {slice, x});
  b.graph.nodes.back().is_mutating = true;
  const int late = b.op("late", {write});
  const int after = b.op("after", {base});
  b.output({early, late, after});
  const OperatorCosts costs = costs_of(b.graph, fast_devices(1));
  const auto colour = [&](int node) { return costs.graph.nodes[costs.cost_node[node]].colour; };
  ASSERT_TRUE(colour(base).has_value());
  EXPECT_EQ(colour(early), colour(base)) << "it would see the new values elsewhere";
  EXPECT_EQ(colour(slice), colour(base));
  EXPECT_EQ(colour(write), colour(base));
  EXPECT_FALSE(colour(late).has_value());
  EXPECT_FALSE(colour(after).has_value());
}

TEST(OperatorCosts, TiesAllReadersOfAWeightThatIsWrittenTo) {
  OperatorGraphBuilder b;
  const int x = b.input("x");
  b.weight("running_mean", 8);
  b.graph.nodes.back().is_parameter = false;
  b.graph.nodes.back().is_buffer = true;
  const int mean = b.last();
  const int other = b.op("other", {x});
  const int write = b.op("write_", {mean, x});
  b.graph.nodes.back().is_mutating = true;
  const int reader = b.op("reader", {mean, other});
  b.output({write, reader});
  const OperatorCosts costs = costs_of(b.graph, fast_devices(1));
  const auto colour = [&](int node) { return costs.graph.nodes[costs.cost_node[node]].colour; };
  EXPECT_TRUE(colour(write).has_value());
  EXPECT_EQ(colour(reader), colour(write));
  EXPECT_FALSE(colour(other).has_value());
}

// Forward: a.in  a.body  a.out  with module "a" before and after its child "a.body", a loss; the
// backward pass in reverse, with a sum that belongs to no module.
//
//   in ──► body ──► out ──► loss
//   d_in ◄─ d_body ◄─ d_out ◄─ d_loss
struct TwoPasses {
  TwoPasses() {
    x = b.input("x");
    w = b.weight("a.body.weight", 100);
    in = b.op("in", {x}, 8, "a");
    body = b.op("body", {in, w}, 8, "a.body");
    out = b.op("out", {body}, 8, "a");
    loss = b.op("loss", {out}, 4, "");
    d_loss = b.backward("d_loss", {loss}, 8, "");
    d_out = b.backward("d_out", {d_loss, body}, 8, "a");
    d_body = b.backward("d_body", {d_out, w}, 8, "a.body");
    d_weight = b.backward("d_weight", {d_out, in}, 100, "a.body");
    d_in = b.backward("d_in", {d_body, x}, 8, "a");
    b.output({loss, d_weight});
  }
  OperatorGraphBuilder b;
  int x, w, in, body, out, loss, d_loss, d_out, d_body, d_weight, d_in;
};

TEST(OperatorCosts, PairsThePassesPieceByPiece) {
  const TwoPasses t;
  const OperatorCosts costs = costs_of(t.b.graph, fast_devices(3));
  const auto colour = [&](int node) { return costs.graph.nodes[costs.cost_node[node]].colour; };
  EXPECT_EQ(colour(t.d_out), colour(t.out));
  EXPECT_EQ(colour(t.d_body), colour(t.body));
  EXPECT_EQ(colour(t.d_weight), colour(t.body));
  EXPECT_EQ(colour(t.d_in), colour(t.in));
  EXPECT_NE(colour(t.in), colour(t.out)) << "two pieces of one module";
  EXPECT_NE(colour(t.in), colour(t.body));
  EXPECT_FALSE(colour(t.loss).has_value());
  EXPECT_FALSE(colour(t.d_loss).has_value());
  EXPECT_TRUE(costs.graph.nodes[costs.cost_node[t.d_in]].is_backward);
  EXPECT_FALSE(costs.graph.nodes[costs.cost_node[t.loss]].is_backward);
}

// What costs nothing does not end a piece, even if another module asserts in between.
TEST(OperatorCosts, LooksThroughWhatIsDropped) {
  OperatorGraphBuilder b;
  const int first = b.op("first", {b.input("x")}, 8, "m");
  b.op("assert", {first}, 0, "other");
  const int second = b.op("second", {first}, 8, "m");
  const int gradient = b.backward("gradient", {second}, 8, "m");
  b.output({second, gradient});
  const OperatorCosts costs = costs_of(b.graph, fast_devices(1));
  const auto colour = [&](int node) { return costs.graph.nodes[costs.cost_node[node]].colour; };
  ASSERT_TRUE(colour(first).has_value());
  EXPECT_EQ(colour(second), colour(first));
  EXPECT_EQ(colour(gradient), colour(first));
}

TEST(OperatorCosts, KeepsPartsThatOnlyTheBackwardPassTakesApart) {
  OperatorGraphBuilder b;
  const int norm = b.op("norm", {b.input("x")}, 100);
  const int saved = b.getitem("getitem", norm, 10);
  b.graph.nodes[saved].is_backward = true;
  b.graph.nodes[saved].is_view = false;
  b.output({norm});
  const OperatorCosts costs = costs_of(b.graph, fast_devices(1));
  EXPECT_THAT(costs.operators, ElementsAre(ElementsAre(norm), ElementsAre(saved)));
  EXPECT_EQ(costs.graph.nodes[1].time_ms, std::vector<double>{0}) << "taking a part is free";
}

TEST(OperatorCosts, HoldsNothingNewForWhatIsWrittenInPlace) {
  OperatorGraphBuilder b;
  const int y = b.op("y", {b.input("x")}, 64);
  b.op("y_", {y}, 64);
  b.graph.nodes.back().is_mutating = true;
  OperatorCostOptions options = fast_devices(1);
  options.activations = ActivationMemory::kAll;
  const OperatorCosts costs = costs_of(b.graph, options);
  EXPECT_EQ(costs.graph.nodes[0].memory, 64);
  EXPECT_EQ(costs.graph.nodes[1].memory, 0);
}

TEST(OperatorCosts, GivesNoColourWithoutABackwardMate) {
  OperatorGraphBuilder b;
  const int x = b.input("x");
  const int y = b.op("y", {b.op("x_1", {x}, 8, "m")}, 8, "m");
  const int gradient = b.backward("gradient", {y}, 8, "elsewhere");
  b.output({y, gradient});
  const OperatorCosts costs = costs_of(b.graph, fast_devices(1));
  for (const CostNode& node : costs.graph.nodes) EXPECT_FALSE(node.colour.has_value());
}

TEST(OperatorCosts, ChargesWhatStaysOnTheDevice) {
  const TwoPasses t;
  const auto memory = [&](ActivationMemory activations) {
    OperatorCostOptions options = fast_devices(1);
    options.activations = activations;
    std::map<std::string, Bytes> held;
    for (const CostNode& node : costs_of(t.b.graph, options).graph.nodes) {
      if (node.memory != 0) held[node.name] = node.memory;
    }
    return held;
  };
  using Held = std::map<std::string, Bytes>;
  EXPECT_EQ(memory(ActivationMemory::kNone), (Held{{"d_weight", 100}}));
  EXPECT_EQ(memory(ActivationMemory::kStashed),
            (Held{{"d_weight", 100}, {"in", 8}, {"body", 8}, {"loss", 4}}));
  EXPECT_EQ(memory(ActivationMemory::kAll), (Held{{"in", 8},
                                                  {"body", 8},
                                                  {"out", 8},
                                                  {"loss", 4},
                                                  {"d_loss", 8},
                                                  {"d_out", 8},
                                                  {"d_body", 8},
                                                  {"d_weight", 100},
                                                  {"d_in", 8}}));
  const OperatorCosts costs = costs_of(t.b.graph, fast_devices(1));
  EXPECT_THAT(costs.stashed, ElementsAre(8, 8, 0, 4, 0, 0, 0, 0, 0));
}

TEST(OperatorCosts, StashesTheStorageBehindAView) {
  OperatorGraphBuilder b;
  const int big = b.op("big", {b.input("x")}, 1000);
  const int slice = b.view("slice", big, 10);
  const int norm = b.op("norm", {big}, 300);
  const int rstd = b.getitem("rstd", norm, 20);
  b.backward("d", {slice, rstd}, 10);
  b.output({norm});
  const OperatorCosts costs = costs_of(b.graph, fast_devices(1));
  EXPECT_THAT(costs.stashed, ElementsAre(1000, 0, 20, 0))
      << "all of a storage, but only the parts of several outputs that are read";
}

TEST(OperatorCosts, LetsMeasuredMemoryWin) {
  TwoPasses t;
  t.b.graph.nodes[t.d_weight].memory = 77;
  t.b.graph.nodes[t.in].memory = 5;
  const OperatorCosts costs = costs_of(t.b.graph, fast_devices(1));
  EXPECT_EQ(costs.graph.nodes[costs.cost_node[t.d_weight]].memory, 77);
  EXPECT_EQ(costs.graph.nodes[costs.cost_node[t.in]].memory, 5);
  EXPECT_EQ(costs.stashed[costs.cost_node[t.in]], 0);
}

TEST(OperatorCosts, TakesTimesFromRooflineColumnAndFloor) {
  OperatorGraphBuilder b;
  const int x = b.input("x");
  b.op("compute", {x});
  b.graph.nodes.back().flops = 1000;
  b.graph.nodes.back().bytes_moved = 10;
  b.op("move", {x});
  b.graph.nodes.back().bytes_moved = 50;
  b.graph.nodes.back().time_ms = {0.25};
  b.view("view", x);
  OperatorCostOptions options = fast_devices(1);
  options.classes.resize(3, options.classes[0]);
  options.classes[0].devices.name = "roof";
  options.classes[0].time_column = "";
  options.classes[0].roofline = {100, 10};
  options.classes[2].devices.name = "floored";
  options.classes[2].launch_floor_ms = 0.5;
  const OperatorCosts costs = costs_of(b.graph, options);
  EXPECT_EQ(costs.graph.nodes[0].time_ms, (std::vector<double>{10, 1, 1}));
  EXPECT_EQ(costs.graph.nodes[1].time_ms, (std::vector<double>{5, 0.25, 0.5}));
  EXPECT_EQ(costs.graph.nodes[2].time_ms, (std::vector<double>{0, 0, 0}));
}

TEST(OperatorCosts, LetsARooflineStandInForTimesThatNobodyMeasured) {
  OperatorGraphBuilder b;
  const int x = b.input("x");
  for (const std::optional<double> time : {std::optional<double>(7), std::optional<double>()}) {
    b.op(time ? "measured" : "unknown", {x});
    b.graph.nodes.back().bytes_moved = 50;
    b.graph.nodes.back().time_ms = {time};
  }
  OperatorCostOptions options = fast_devices(1);
  options.classes[0].roofline = {100, 10};
  const OperatorCosts costs = costs_of(b.graph, options);
  EXPECT_EQ(costs.graph.nodes[0].time_ms, (std::vector<double>{7}));
  EXPECT_EQ(costs.graph.nodes[1].time_ms, (std::vector<double>{5}));
}

TEST(OperatorCosts, SaysWhichTimesAreMissing) {
  OperatorGraphBuilder b;
  b.op("y", {b.input("x")});
  const auto code_and_text = [&](const OperatorCostOptions& options) {
    const auto costs = make_cost_graph(b.graph, options);
    return costs ? std::string("fine") : format_error(costs.error());
  };
  OperatorCostOptions options = fast_devices(1);
  options.classes[0].time_column = "fats";
  EXPECT_THAT(code_and_text(options), ::testing::HasSubstr("did you mean 'fast'"));
  options.classes[0].time_column = "";
  options.classes[0].roofline = {0, 1};
  EXPECT_THAT(code_and_text(options), ::testing::HasSubstr("roofline"));
  options = fast_devices(1);
  options.classes[0].launch_floor_ms = -1;
  EXPECT_THAT(code_and_text(options), ::testing::HasSubstr("launch floor"));
  EXPECT_THAT(code_and_text(OperatorCostOptions{}), ::testing::HasSubstr("0 devices"));
  EXPECT_EQ(code_and_text(fast_devices(1)), "fine");
  b.graph.nodes[1].time_ms = {std::nullopt};
  EXPECT_THAT(code_and_text(fast_devices(1)), ::testing::HasSubstr("node 1 'y': has no time"));
  b.graph.nodes[1].inputs = {5};
  EXPECT_THAT(code_and_text(fast_devices(1)), ::testing::HasSubstr("node 1 'y': reads node 5"));
}

TEST(OperatorCosts, MakesNothingOfNothing) {
  OperatorCostOptions options = fast_devices(1);
  options.classes[0].time_column = "";
  options.classes[0].roofline = {1, 1};
  const OperatorCosts costs = costs_of(OperatorGraph{}, options);
  EXPECT_EQ(costs.graph.num_nodes(), 0);
}

// A random model: forward operators in modules, views, parts, weights, in-place writes, and for
// each forward operator a backward one in reverse order.
OperatorGraph random_model(std::uint64_t seed) {
  std::uint64_t state = seed * 2 + 1;
  const auto next = [&](int bound) {
    state = state * 6364136223846793005U + 1442695040888963407U;
    return static_cast<int>((state >> 33) % static_cast<std::uint64_t>(bound));
  };
  OperatorGraphBuilder b;
  std::vector<int> values = {b.input("x")};
  std::vector<int> forward;
  const int num_forward = 3 + next(14);
  for (int i = 0; i < num_forward; ++i) {
    const std::string name = "f" + std::to_string(i);
    const std::string module = next(4) == 0 ? "" : "m" + std::to_string(next(4));
    std::vector<int> inputs = {values[static_cast<std::size_t>(
        std::max(0, static_cast<int>(values.size()) - 1 - next(3)))]};
    if (next(2) == 0) inputs.push_back(b.weight("w" + std::to_string(i), 16 * (1 + next(9))));
    const int kind = next(8);
    if (kind == 0) {
      values.push_back(b.view(name, inputs[0], 8, module));
    } else {
      values.push_back(b.op(name, inputs, 8 * (1 + next(9)), module));
      b.graph.nodes.back().is_mutating = kind == 1;
      if (kind == 2) values.back() = b.getitem(name + "_part", values.back());
    }
    forward.push_back(b.last());
  }
  if (next(2) == 0) {
    b.output({values.back()});
    return b.graph;
  }
  int gradient = b.backward("g", {values.back()});
  std::vector<int> gradients;
  for (std::size_t i = forward.size(); i-- > 0;) {
    const int mate = forward[i];
    if (mate == gradient) continue;
    gradient = b.backward("g" + std::to_string(i), {gradient, mate}, 8, b.graph.nodes[mate].module);
    if (next(3) == 0) gradients.push_back(gradient);
  }
  gradients.push_back(values.back());
  b.output(gradients);
  return b.graph;
}

TEST(OperatorCosts, KeepsTheHouseRulesOnRandomModels) {
  for (std::uint64_t seed = 0; seed < 500; ++seed) {
    SCOPED_TRACE(seed);
    const OperatorGraph graph = random_model(seed);
    const auto valid = validate(graph);
    ASSERT_TRUE(valid.has_value()) << format_error(valid.error());
    const OperatorCosts costs = costs_of(graph, fast_devices(2));
    // Every placed operator is in exactly one cost node.
    std::vector<int> seen(graph.nodes.size());
    for (std::size_t i = 0; i < costs.operators.size(); ++i) {
      EXPECT_TRUE(std::is_sorted(costs.operators[i].begin(), costs.operators[i].end()));
      for (const int node : costs.operators[i]) {
        ++seen[node];
        EXPECT_EQ(costs.cost_node[node], static_cast<int>(i));
      }
    }
    for (int node = 0; node < graph.num_nodes(); ++node) {
      EXPECT_EQ(seen[node], costs.cost_node[node] >= 0 ? 1 : 0);
    }
    // Every value read elsewhere is a net with exactly its readers.
    std::map<int, std::set<int>> readers;
    for (int node = 0; node < graph.num_nodes(); ++node) {
      if (costs.cost_node[node] < 0) continue;
      for (const int input : graph.nodes[node].inputs) {
        const int from = costs.cost_node[input];
        if (from >= 0 && from != costs.cost_node[node]) {
          readers[input].insert(costs.cost_node[node]);
        }
      }
    }
    EXPECT_EQ(costs.graph.nets.size(), readers.size());
    std::size_t i = 0;
    for (const auto& [value, nodes] : readers) {
      EXPECT_EQ(costs.graph.nets[i].producer, costs.cost_node[value]);
      EXPECT_EQ(costs.graph.nets[i].consumers, std::vector<int>(nodes.begin(), nodes.end()));
      EXPECT_EQ(costs.graph.nets[i++].amount, static_cast<double>(graph.nodes[value].output_bytes));
    }
    // Whatever is dropped costs nobody time.
    double total = 0;
    double expected = 0;
    for (const CostNode& node : costs.graph.nodes) total += node.time_ms[0];
    for (int node = 0; node < graph.num_nodes(); ++node) {
      if (graph.is_operator(node) && !graph.nodes[node].is_view) expected += 1;
    }
    EXPECT_DOUBLE_EQ(total, expected);
  }
}

// Without storage that is written to, colours make no pieces wait for each other in a cycle: the
// contiguous model keeps at least one group a piece.
TEST(OperatorCosts, LeavesTheContiguousModelSolvable) {
  for (std::uint64_t seed = 0; seed < 300; ++seed) {
    SCOPED_TRACE(seed);
    OperatorGraph graph = random_model(seed);
    for (OperatorNode& node : graph.nodes) node.is_mutating = false;
    const OperatorCosts costs = costs_of(graph, fast_devices(3, 1000));
    ContiguousSplitOptions options;
    options.rules.absorbs_groups = false;
    const auto split = split_contiguously(costs.graph, options);
    ASSERT_TRUE(split.has_value()) << format_error(split.error());
    ASSERT_TRUE(split->outcome.plan.has_value());
    const auto report = check::check_placement(costs.graph, *split->outcome.plan);
    ASSERT_TRUE(report.has_value());
    EXPECT_TRUE(report->is_right());
    std::set<std::pair<std::string, int>> forward_pieces;
    std::string module = "?";
    int number = 0;
    for (int node = 0; node < graph.num_nodes(); ++node) {
      const OperatorNode& n = graph.nodes[node];
      if (costs.cost_node[node] < 0 || n.is_backward || n.target == "getitem") continue;
      if (n.module != module || module.empty()) ++number;
      module = n.module;
      forward_pieces.emplace(module, number);
    }
    EXPECT_GE(split->num_groups, static_cast<int>(forward_pieces.size()));
  }
}

TEST(OperatorCosts, IsTheSameEveryTime) {
  for (std::uint64_t seed = 0; seed < 50; ++seed) {
    SCOPED_TRACE(seed);
    const OperatorCosts a = costs_of(random_model(seed), fast_devices(2));
    const OperatorCosts b = costs_of(random_model(seed), fast_devices(2));
    EXPECT_EQ(a.graph, b.graph);
    EXPECT_EQ(a.cost_node, b.cost_node);
  }
}

}  // namespace
}  // namespace plimsoll::partition
