#include "plimsoll/partition/replicated_search.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <cmath>
#include <map>
#include <random>
#include <set>

#include "partition/cost_graphs.h"
#include "partition/judged.h"
#include "plimsoll/check/replicated_stages_check.h"

namespace plimsoll::partition {
namespace {

// Judged by the checker too.
ReplicatedSearch place(const CostGraph& graph, const PipelineTerms& terms,
                       const ReplicatedSearchOptions& options = {},
                       const RunContext& context = {}) {
  const auto result = search_replicated_stages(graph, terms, options, context);
  EXPECT_TRUE(result.has_value()) << format_error(result.error());
  const auto& outcome = result->outcome;
  expect_consistent(outcome);
  if (outcome.plan) {
    const auto figures = figures_of_stages(graph, terms, *outcome.plan);
    EXPECT_EQ(batch_ms(figures, terms.num_microbatches), outcome.certificate.objective);
    check::ReplicatedStagesCheckOptions stated;
    stated.stated_batch_ms = outcome.certificate.objective;
    for (const ReplicatedStageFigures& stage : figures) {
      stated.stated.push_back({{stage.compute_ms, stage.transfer_ms, stage.time_ms(), stage.memory},
                               stage.sync_ms,
                               stage.in_flight});
    }
    const auto report = check::check_replicated_stages(graph, terms, *outcome.plan, stated);
    EXPECT_TRUE(report.has_value());
    for (const auto& violation : report->violations()) {
      ADD_FAILURE() << to_string(violation.code) << ": " << violation.message;
    }
  }
  return *result;
}

double optimum(const CostGraph& graph, const PipelineTerms& terms,
               const ReplicatedSearchOptions& options = {}) {
  return proved_optimum(place(graph, terms, options).outcome);
}

// Every way to give the nodes to stages in a line and the stages to devices.
class AllPipelines {
 public:
  AllPipelines(const CostGraph& graph, const PipelineTerms& terms)
      : graph_(graph), terms_(terms), order_(line_order(graph)), stage_(graph.nodes.size()) {
    for (std::size_t c = 0; c < graph.classes.size(); ++c) {
      for (int i = 0; i < graph.classes[c].count; ++i) class_.push_back(static_cast<int>(c));
    }
    for (const CostNode& node : graph.nodes) trains_ |= node.is_backward;
  }

  double best() {
    const int most = std::min(graph_.num_nodes(), static_cast<int>(class_.size()));
    for (num_stages_ = 1; num_stages_ <= most; ++num_stages_) give_node(0);
    return best_;
  }

 private:
  void give_node(int node) {
    if (node == graph_.num_nodes()) {
      if (std::set<int>(stage_.begin(), stage_.end()).size() !=
          static_cast<std::size_t>(num_stages_)) {
        return;
      }
      for (const auto& [a, b] : order_) {
        if (stage_[a] > stage_[b]) return;
      }
      devices_.assign(static_cast<std::size_t>(num_stages_), {});
      give_device(0);
      return;
    }
    for (int s = 0; s < num_stages_; ++s) {
      bool is_mate_elsewhere = false;
      for (int other = 0; other < node; ++other) {
        is_mate_elsewhere |= graph_.nodes[node].colour &&
                             graph_.nodes[other].colour == graph_.nodes[node].colour &&
                             stage_[other] != s;
      }
      if (is_mate_elsewhere) continue;
      stage_[node] = s;
      give_node(node + 1);
    }
  }

  void give_device(int device) {
    if (device == static_cast<int>(class_.size())) {
      const double value = batch();
      best_ = std::min(best_, value);
      return;
    }
    give_device(device + 1);
    for (int s = 0; s < num_stages_; ++s) {
      auto& own = devices_[s];
      if (!own.empty() && class_[own.front()] != class_[device]) continue;
      bool is_allowed = true;
      for (int node = 0; node < graph_.num_nodes(); ++node) {
        const CostNode& n = graph_.nodes[node];
        if (stage_[node] != s) continue;
        is_allowed =
            is_allowed && n.time_ms[class_[device]] < kUnlimited &&
            n.pinned_device.value_or(device) == device &&
            std::count(n.forbidden_devices.begin(), n.forbidden_devices.end(), device) == 0;
      }
      if (!is_allowed) continue;
      own.push_back(device);
      give_device(device + 1);
      own.pop_back();
    }
  }

  double rate(int s, int other) const {
    double rate = graph_.classes[class_[devices_[s].front()]].link_rate;
    for (const int a : devices_[s]) {
      for (const int b : devices_[other]) {
        if (!graph_.pair_rates.empty() && a != b) rate = std::min(rate, graph_.pair_rates[a][b]);
      }
    }
    return rate;
  }

  double batch() const {
    const int n = terms_.num_microbatches;
    double sum = 0;
    double slowest = 0;
    int behind = 0;
    for (int s = num_stages_ - 1; s >= 0; --s) {
      const int d = static_cast<int>(devices_[s].size());
      const bool may_replicate = !trains_ || !graph_.weights.empty();
      if (d == 0 || n % d != 0 || d > (may_replicate ? terms_.max_replicas : 1)) return kUnlimited;
      behind += d;
      const int in_flight = trains_ ? std::min((behind + d - 1) / d, n / d) : 1;
      double time = 0;
      Bytes held = 0;
      Bytes weights = 0;
      for (int node = 0; node < graph_.num_nodes(); ++node) {
        if (stage_[node] != s) continue;
        time += graph_.nodes[node].time_ms[class_[devices_[s].front()]];
        held += graph_.nodes[node].memory;
        if (!terms_.per_microbatch.empty()) held += in_flight * terms_.per_microbatch[node];
      }
      for (const Weight& weight : graph_.weights) {
        bool is_read = false;
        for (const int reader : weight.readers) is_read |= stage_[reader] == s;
        if (is_read) weights += weight.bytes;
      }
      if (held + weights >
          graph_.classes[class_[devices_[s].front()]].memory_cap.value_or(held + weights)) {
        return kUnlimited;
      }
      for (const Net& net : graph_.nets) {
        std::set<int> stages = {stage_[net.producer]};
        for (const int c : net.consumers) stages.insert(stage_[c]);
        if (stages.size() == 1 || stages.count(s) == 0) continue;
        double slow = graph_.classes[class_[devices_[s].front()]].link_rate;
        for (const int other : stages) {
          const bool talks = s == stage_[net.producer] || other == stage_[net.producer];
          if (other == s || !talks) continue;
          if (devices_[other].empty()) return kUnlimited;
          slow = std::min(slow, rate(s, other));
        }
        time += net.amount / slow;
      }
      time /= d;
      if (trains_ && d > 1) {
        time += 4.0 * (d - 1) * static_cast<double>(weights) / d / n / rate(s, s);
      }
      sum += time;
      slowest = std::max(slowest, time);
    }
    return sum + (n - 1) * slowest;
  }

  const CostGraph& graph_;
  const PipelineTerms& terms_;
  std::vector<int> class_;  // [num_devices]
  bool trains_ = false;
  std::vector<std::pair<int, int>> order_;
  int num_stages_ = 1;
  std::vector<int> stage_;                 // [num_nodes]
  std::vector<std::vector<int>> devices_;  // [num_stages]
  double best_ = kUnlimited;
};

PipelineTerms random_terms(std::mt19937_64& random, const CostGraph& graph) {
  PipelineTerms terms;
  terms.num_microbatches = std::array{1, 2, 3, 4, 6}[draw(random, 0, 4)];
  if (draw(random, 0, 2) == 0) terms.max_replicas = draw(random, 1, 2);
  if (draw(random, 0, 2) != 0) {
    for (int i = 0; i < graph.num_nodes(); ++i) {
      terms.per_microbatch.push_back(draw(random, 0, 1) * draw(random, 0, 6));
    }
  }
  return terms;
}

//   a 2 → b 2 → c 2      amounts: a 1, b 1; three devices, no backward pass
//
// 4 microbatches. One stage on one device: 4 * 6 = 24. Two replicas of it: 4 * 3 = 12. {a} {b} {c}:
// 3 + 4 + 3 + 3 * 4 = 22. {a b} on 2, {c} on 1: 5 / 2 + 3 + 3 * 3 = 14.5. Three do not divide 4.
CostGraph line(int num_devices) {
  CostGraph graph;
  graph.classes = accelerators_and_cpus(num_devices, 0);
  graph.nodes = {cost_node("a", {2, 20}), cost_node("b", {2, 20}), cost_node("c", {2, 20})};
  graph.nets = {{0, {1}, 1}, {1, {2}, 1}};
  return graph;
}

TEST(PipelineSearch, ReplicatesTheWholeWhereThatIsFastest) {
  const ReplicatedSearch result = place(line(3), {.num_microbatches = 4, .per_microbatch = {}});
  EXPECT_EQ(result.outcome.status, SolveStatus::kOptimal);
  EXPECT_EQ(result.outcome.certificate.objective, 12);
  ASSERT_EQ(result.outcome.plan->stages.size(), 1U);
  EXPECT_EQ(result.outcome.plan->stages[0].devices, (std::vector<int>{0, 1}));
}

TEST(PipelineSearch, CutsWhereNothingMayBeReplicated) {
  // {a} {b c}: 3 + 5 + 3 * 5 = 23, {a} {b} {c}: 22, all on one device 24.
  const ReplicatedSearch result =
      place(line(3), {.num_microbatches = 4, .max_replicas = 1, .per_microbatch = {}});
  EXPECT_EQ(result.outcome.certificate.objective, 22);
  EXPECT_EQ(result.outcome.plan->stages.size(), 3U);
}

//   f 2 ⇢ g 2 (forward), g' 2 ⇢ f' 2 (backward) of the same colours: stages {f f'} and {g g'}
//
// Each keeps 3 bytes a microbatch beside 1: two in flight in the first stage, 1 + 2 * 3, one in the
// last, 1 + 3. Everything on one device holds one in flight: 2 + 6 = 8.
CostGraph both_passes(Bytes cap) {
  CostGraph graph;
  graph.classes = accelerators_and_cpus(2, 0, cap);
  for (const char* name : {"f", "g", "g'", "f'"}) {
    graph.nodes.push_back(cost_node(name, {2, 20}));
    graph.nodes.back().colour = name[0];
    graph.nodes.back().is_backward = name[1] != 0;
  }
  graph.nodes[0].memory = graph.nodes[1].memory = 1;
  graph.nets = {{0, {1}, 0.5}, {1, {2}, 0.5}, {2, {3}, 0.5}};
  return graph;
}

// x → y → z, x and z of one colour: y stands between them, so that all three share a stage; x runs
// on one class, y on the other.
TEST(PipelineSearch, ProvesThatNoDeviceMayRunWhatTheLineUnites) {
  CostGraph graph;
  graph.classes = accelerators_and_cpus(2, 1);
  graph.nodes = {cost_node("x", {1, kUnlimited}), cost_node("y", {kUnlimited, 1}),
                 cost_node("z", {1, 1})};
  graph.nodes[0].colour = graph.nodes[2].colour = 1;
  graph.nets = {{0, {1}, 1}, {1, {2}, 1}};
  PipelineTerms terms;
  terms.num_microbatches = 2;
  const auto outcome = place(graph, terms).outcome;
  EXPECT_EQ(outcome.status, SolveStatus::kInfeasible);
  EXPECT_EQ(outcome.explanation.binding, "permissions");
  graph.nodes[0].time_ms[1] = 1;
  EXPECT_EQ(optimum(graph, terms), 6);
}

TEST(PipelineSearch, CountsTheMicrobatchesInFlight) {
  const PipelineTerms terms{.num_microbatches = 8, .per_microbatch = {3, 3, 0, 0}};
  const ReplicatedSearch two = place(both_passes(7), terms);
  EXPECT_EQ(two.outcome.certificate.objective, 5 + 5 + 7 * 5);
  const auto figures = figures_of_stages(both_passes(7), terms, *two.outcome.plan);
  EXPECT_EQ(figures[0].in_flight, 2);
  EXPECT_EQ(figures[0].memory, 7);
  EXPECT_EQ(figures[1].in_flight, 1);
  EXPECT_EQ(figures[1].memory, 4);
  const ReplicatedSearch none = place(both_passes(6), terms);
  EXPECT_EQ(none.outcome.status, SolveStatus::kInfeasible);
  EXPECT_EQ(none.outcome.explanation.binding, "memory");
  EXPECT_EQ(place(both_passes(8), {.num_microbatches = 1, .per_microbatch = {3, 3, 0, 0}})
                .outcome.certificate.objective,
            8);  // a batch of one never waits
}

TEST(PipelineSearch, ChargesReplicasForTheWeightsTheyAgreeOn) {
  CostGraph graph = both_passes(100);
  const PipelineTerms terms{.num_microbatches = 2, .per_microbatch = {}};
  // Without weights nobody knows what replicas cost: {f} {g} takes 5 + 5 + 5, one device 16.
  expect_near(optimum(graph, terms), 15);
  graph.weights = {{"w", 8, {0, 1}}};
  // Two replicas of everything: 8 / 2 + 4 * 1 * 8 / (2 * 2) = 12 each, 24 in all.
  expect_near(optimum(graph, terms), 15);
  graph.weights[0].bytes = 1;  // 4 + 1 = 5: 10 in all
  expect_near(optimum(graph, terms), 10);
}

//   a 0 → b 20      a's value 5, a's weight 100 bytes; three devices, two microbatches
//
// {a} {b on 2}: 5 + 12.5 + 12.5. Everything on one device: 40; on two they would have to agree on
// the weight, 10 + 4 * 100 / 4. So a, which costs nothing beside b, must not be tied to it.
TEST(PipelineSearch, KeepsWeightsOutOfReplicatedStages) {
  CostGraph graph;
  graph.classes = accelerators_and_cpus(3, 0);
  graph.nodes = {cost_node("a", {0, 0}), cost_node("b", {20, 200}), cost_node("b'", {0, 0})};
  graph.nodes[1].colour = graph.nodes[2].colour = 1;
  graph.nodes[2].is_backward = true;
  graph.nets = {{0, {1}, 5}};
  graph.weights = {{"w", 100, {0}}};
  expect_near(optimum(graph, {.num_microbatches = 2, .per_microbatch = {}}), 30);
}

TEST(PipelineSearch, IsAsGoodAsTryingAll) {
  std::mt19937_64 random(1);
  int num_infeasible = 0;
  int num_replicated = 0;
  for (int seed = 0; seed < 400; ++seed) {
    SCOPED_TRACE(seed);
    const CostGraph graph =
        random_cost_graph(random, {.max_nodes = 5, .has_weights = seed % 2 == 0});
    const PipelineTerms terms = random_terms(random, graph);
    const double expected = AllPipelines(graph, terms).best();
    const ReplicatedSearch result = place(graph, terms);
    num_infeasible += std::isinf(expected) ? 1 : 0;
    if (std::isinf(expected)) {
      EXPECT_EQ(result.outcome.status, SolveStatus::kInfeasible);
      EXPECT_FALSE(result.outcome.explanation.lines.empty());
      continue;
    }
    EXPECT_EQ(result.outcome.status, SolveStatus::kOptimal);
    expect_near(result.outcome.certificate.objective, expected);
    for (const ReplicatedStage& stage : result.outcome.plan->stages) {
      num_replicated += stage.devices.size() > 1 ? 1 : 0;
    }
  }
  EXPECT_GT(num_infeasible, 20);
  EXPECT_GT(num_replicated, 20);
}

TEST(PipelineSearch, BoundsPipelinesOverUnequalLinks) {
  std::mt19937_64 random(2);
  for (int seed = 0; seed < 150; ++seed) {
    SCOPED_TRACE(seed);
    const CostGraph graph =
        random_cost_graph(random, {.max_nodes = 5, .has_weights = true, .has_pair_rates = true});
    const PipelineTerms terms = random_terms(random, graph);
    const double expected = AllPipelines(graph, terms).best();
    const ReplicatedSearch result = place(graph, terms);
    if (std::isinf(expected)) {
      EXPECT_EQ(result.outcome.status, SolveStatus::kInfeasible);
      continue;
    }
    ASSERT_TRUE(result.outcome.plan.has_value());
    EXPECT_GE(result.outcome.certificate.objective, expected * (1 - 1e-9));
    EXPECT_LE(*result.outcome.certificate.lower_bound, expected * (1 + 1e-9));
  }
}

TEST(PipelineSearch, FindsTheSameWithoutAnyOfItsRules) {
  std::mt19937_64 random(3);
  std::int64_t with = 0;
  std::int64_t without = 0;
  std::int64_t without_prices = 0;
  for (int seed = 0; seed < 60; ++seed) {
    SCOPED_TRACE(seed);
    const CostGraph graph = random_cost_graph(random, {.max_nodes = 9, .has_weights = true});
    const PipelineTerms terms = random_terms(random, graph);
    const double expected = optimum(graph, terms);
    for (int rule = 0; rule < 6; ++rule) {
      ReplicatedSearchOptions options;
      (rule == 0   ? options.rules.absorbs_groups
       : rule == 1 ? options.rules.starts_from_orders
       : rule == 2 ? options.rules.starts_coarsely
       : rule == 3 ? options.rules.uses_windows
       : rule == 4 ? options.rules.prices_devices
                   : options.rules.bounds_by_paths) = false;
      const ReplicatedSearch result = place(graph, terms, options);
      const bool has_plan = result.outcome.plan.has_value();
      expect_near(has_plan ? result.outcome.certificate.objective : kUnlimited, expected);
      if (rule == 3) without += result.num_pairs;
      if (rule == 4) without_prices += result.num_pairs;
    }
    with += place(graph, terms).num_pairs;
  }
  EXPECT_LT(with, without);
  EXPECT_LT(with, without_prices);
}

TEST(PipelineSearch, ForgetsNamesAndNumbers) {
  std::mt19937_64 random(4);
  for (int seed = 0; seed < 40; ++seed) {
    SCOPED_TRACE(seed);
    const CostGraph graph = random_cost_graph(random, {.max_nodes = 8, .has_weights = true});
    PipelineTerms terms = random_terms(random, graph);
    const ReplicatedSearch first = place(graph, terms);
    const ReplicatedSearch again = place(graph, terms);
    EXPECT_EQ(first.outcome.plan, again.outcome.plan);
    EXPECT_EQ(first.num_pairs, again.num_pairs);
    const std::vector<int> order = random_permutation(random, graph.num_nodes());
    PipelineTerms shuffled = terms;
    for (std::size_t i = 0; i < terms.per_microbatch.size(); ++i) {
      shuffled.per_microbatch[order[i]] = terms.per_microbatch[i];
    }
    expect_near(optimum(relabel(graph, order), shuffled), optimum(graph, terms));
  }
}

TEST(PipelineSearch, StopsWithTheBestSoFarAndABound) {
  std::mt19937_64 random(5);
  for (int seed = 0; seed < 30; ++seed) {
    SCOPED_TRACE(seed);
    const CostGraph graph =
        random_cost_graph(random, {.max_nodes = 10, .has_limits = false, .has_weights = true});
    const PipelineTerms terms = random_terms(random, graph);
    const double expected = optimum(graph, terms);
    for (const std::int64_t effort : {0, 5, 40}) {
      ReplicatedSearchOptions options;
      options.search.effort = effort;
      const ReplicatedSearch result = place(graph, terms, options);
      if (result.outcome.plan) {
        EXPECT_GE(result.outcome.certificate.objective, expected * (1 - 1e-9));
      }
      EXPECT_LE(result.outcome.certificate.lower_bound.value(), expected * (1 + 1e-9));
      options.max_downsets = 1;
      EXPECT_LE(place(graph, terms, options).outcome.certificate.lower_bound.value(),
                expected * (1 + 1e-9));
    }
    const std::atomic<bool> cancel = true;
    RunContext cancelled;
    cancelled.cancel = &cancel;
    EXPECT_NE(place(graph, terms, {}, cancelled).outcome.status, SolveStatus::kInfeasible);
  }
}

TEST(PipelineSearch, CoarsensWhatIsLargeWithoutLosingTheBound) {
  std::mt19937_64 random(6);
  double bare = 0;    // bounds
  double priced = 0;  // with prices on devices
  for (int seed = 0; seed < 30; ++seed) {
    SCOPED_TRACE(seed);
    const CostGraph graph =
        random_cost_graph(random, {.max_nodes = 12, .has_limits = false, .has_weights = true});
    const PipelineTerms terms = random_terms(random, graph);
    const double expected = optimum(graph, terms);
    ReplicatedSearchOptions options;
    options.max_groups = 2;
    const ReplicatedSearch result = place(graph, terms, options);
    ASSERT_TRUE(result.outcome.plan.has_value());
    EXPECT_GE(result.outcome.certificate.objective, expected * (1 - 1e-9));
    EXPECT_LE(result.outcome.certificate.lower_bound.value(), expected * (1 + 1e-9));
    for (const bool prices_devices : {true, false}) {
      options.rules.prices_devices = prices_devices;
      (prices_devices ? priced : bare) +=
          place(graph, terms, options).outcome.certificate.lower_bound.value();
    }
  }
  EXPECT_GT(priced, 1.01 * bare);
}

// Forty nodes of 1 ms in a line, 0.5 ms to move what each makes, four devices without replicas: ten
// of them and two nets are 11 in the middle, ten and one at the ends. So 11 is the least: at 10.9
// none of the middle could do ten.
TEST(PipelineSearch, BoundsStraightPipelinesByWhatTheyMove) {
  CostGraph graph;
  graph.classes = accelerators_and_cpus(4, 0);
  for (int i = 0; i < 40; ++i) {
    graph.nodes.push_back(cost_node("", {1, 10}));
    if (i > 0) graph.nets.push_back({i - 1, {i}, 0.5});
  }
  const PipelineTerms terms{.num_microbatches = 100, .max_replicas = 1, .per_microbatch = {}};
  expect_near(optimum(graph, terms), 43 + 99 * 11);
  ReplicatedSearchOptions options;
  options.max_groups = 2;
  const double full = place(graph, terms, options).outcome.certificate.lower_bound.value();
  EXPECT_LE(full, 43 + 99 * 11);
  EXPECT_GT(full, 40 + 99 * 10.7);
  options.rules.bounds_by_paths = false;
  EXPECT_LT(place(graph, terms, options).outcome.certificate.lower_bound.value(), 40 + 99 * 10.6);
}

TEST(PipelineSearch, RefusesTermsThatMakeNoSense) {
  const CostGraph graph = line(2);
  const auto code = [&](const PipelineTerms& terms) {
    const auto result = search_replicated_stages(graph, terms);
    return result ? ErrorCode::kInternal : result.error().code;
  };
  EXPECT_EQ(code({.num_microbatches = 0, .per_microbatch = {}}), ErrorCode::kValue);
  EXPECT_EQ(code({.max_replicas = 0, .per_microbatch = {}}), ErrorCode::kValue);
  EXPECT_EQ(code({.per_microbatch = {1}}), ErrorCode::kSchema);
  EXPECT_EQ(code({.per_microbatch = {0, -1, 0}}), ErrorCode::kValue);
  EXPECT_EQ(code({.num_microbatches = 4, .per_microbatch = {0, INT64_MAX / 2, 1}}),
            ErrorCode::kOverflow);
  ReplicatedSearchOptions options;
  options.max_downsets = 0;
  EXPECT_EQ(search_replicated_stages(graph, {}, options).error().code, ErrorCode::kUsage);
}

}  // namespace
}  // namespace plimsoll::partition
