#include "study/partition/memory_advice.h"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <utility>

#include "core/effort_clock.h"
#include "math/least_cause.h"
#include "math/least_conflict.h"
#include "plimsoll/core/checked.h"

namespace plimsoll::study {
namespace {

using partition::CostGraph;
using partition::DeviceClass;

constexpr std::int64_t kPlacementEffort = 200'000;
constexpr std::int64_t kFxEffort = 1'000;
constexpr std::int64_t kPipelineEffort = 2'000'000;
constexpr int kLargeGraph = 2000;  // nodes; of a larger one a thousandth is exact enough
constexpr Bytes kLargeSteps = 1024;
constexpr std::size_t kMaxRules = 64;
constexpr int kMaxMemoryQuestions = 100;
constexpr int kMaxTimesDevices = 4;

// The order and the bytes of a graph, and who may run what.
CostGraph without_times(const CostGraph& graph) {
  CostGraph bare = graph;
  for (partition::CostNode& node : bare.nodes) {
    for (double& ms : node.time_ms) {
      if (std::isfinite(ms)) ms = 0;
    }
  }
  for (partition::Net& net : bare.nets) net.amount = 0;
  bare.pair_rates.clear();
  return bare;
}

// What one device would hold at most.
Bytes all_bytes(const GraphCase& made) {
  Bytes total = 0;
  for (const partition::CostNode& node : made.costs->nodes) total += node.memory;
  for (const partition::Weight& weight : made.costs->weights) {
    if (!weight.readers.empty()) total += weight.bytes;
  }
  if (!made.terms) return total;
  const int most = std::min(made.terms->num_microbatches, made.costs->num_devices());
  for (const Bytes bytes : made.terms->per_microbatch) total += most * bytes;
  return total;
}

bool has_plan(SolveStatus status) {
  return status == SolveStatus::kOptimal || status == SolveStatus::kFeasible;
}

// Asks one search again and again.
class MemoryAdviser {
 public:
  MemoryAdviser(const GraphCase& made, const PlacementSearch& search,
                const PlacementSearchOptions& options, const RunContext& context)
      : made_(made), search_(search), options_(options), silent_(context.inner()) {}

  // torch.fx's devices have no classes: the smaller ones are raised to one size.
  MemoryAdvice advise_fx() {
    MemoryAdvice advice;
    const auto& devices = made_.fx->config.devices;
    if (devices.empty()) return advice;
    advice.cap = devices.front().available_mem_bytes;
    for (const partition::Device& device : devices) {
      advice.cap = std::min(advice.cap, device.available_mem_bytes);
    }
    options_.search.effort = kFxEffort;
    advice.need = find_memory_need(advice.cap, made_.fx->graph.total_size, 1, [&](Bytes size) {
      if (is_stopped(silent_)) return SolveStatus::kLimit;  // before the graph is copied
      GraphCase asked = made_;
      for (partition::Device& device : asked.fx->config.devices) {
        device.available_mem_bytes = std::max(device.available_mem_bytes, size);
      }
      return ask(asked);
    });
    return advice;
  }

  MemoryAdvice advise_costs(bool is_infeasible) {
    asked_ = made_;
    asked_.costs = without_times(*made_.costs);
    options_.search.effort = kPlacementEffort;
    most_ = all_bytes(made_);
    if (made_.costs->num_nodes() > kLargeGraph) {
      precision_ = std::max<Bytes>(1, most_ / kLargeSteps);
    }
    MemoryAdvice advice;
    std::vector<int> rules;
    if (is_infeasible) rules = find_rules(asked_);
    advice = advise_class();
    if (!advice.need) advice = advise_all_classes();
    advice.rules = std::move(rules);
    if (is_infeasible) {
      find_conflict(advice);
      find_fixes(advice);
      if (advice.fixes.empty()) find_two_changes(advice);
    }
    return advice;
  }

 private:
  SolveStatus ask(const GraphCase& of) const {
    if (is_stopped(silent_)) return SolveStatus::kLimit;
    const auto found = search_.run(of, options_, silent_);
    return found && found->status ? *found->status : SolveStatus::kLimit;
  }

  std::vector<int> ruled_nodes() const {
    std::vector<int> nodes;
    for (int node = 0; node < made_.costs->num_nodes(); ++node) {
      const partition::CostNode& of = made_.costs->nodes[node];
      if (of.pinned_device || !of.forbidden_devices.empty()) nodes.push_back(node);
    }
    return nodes;
  }

  // Rules first, so that caps stay.
  void find_conflict(MemoryAdvice& advice) const {
    std::vector<GraphConstraint> constraints;
    for (const int node : ruled_nodes()) constraints.push_back({-1, node});
    const auto& classes = made_.costs->classes;
    for (std::size_t c = 0; c < classes.size(); ++c) {
      if (classes[c].memory_cap && classes[c].count > 0) {
        constraints.push_back({static_cast<int>(c), -1});
      }
    }
    const auto asked_without = [&](const std::vector<bool>& holds) {
      GraphCase asked = asked_;
      for (std::size_t i = 0; i < constraints.size(); ++i) {
        if (!holds[i]) drop(constraints[i], *asked.costs);
      }
      switch (ask(asked)) {
        case SolveStatus::kOptimal:
        case SolveStatus::kFeasible:
          return math::Possibility::kPossible;
        case SolveStatus::kInfeasible:
          return math::Possibility::kImpossible;
        case SolveStatus::kLimit:
          return math::Possibility::kUnknown;
      }
      return math::Possibility::kUnknown;
    };
    std::vector<bool> holds(constraints.size(), true);
    if (asked_without(holds) != math::Possibility::kImpossible) return;
    for (std::size_t i = 0; i < constraints.size() && advice.binding_class < 0; ++i) {
      if (constraints[i].device_class < 0) continue;
      holds[i] = false;
      if (asked_without(holds) == math::Possibility::kPossible) {
        advice.binding_class = constraints[i].device_class;
      }
      holds[i] = true;
    }
    const math::LeastConflict least =
        math::find_least_conflict(constraints.size(), kMaxMemoryQuestions, asked_without);
    for (const std::size_t i : least.members) advice.conflict.push_back(constraints[i]);
    advice.is_irreducible = least.is_irreducible && !least.members.empty();
  }

  static void drop(const GraphConstraint& constraint, CostGraph& graph) {
    if (constraint.device_class >= 0) {
      graph.classes[static_cast<std::size_t>(constraint.device_class)].memory_cap.reset();
      return;
    }
    partition::CostNode& node = graph.nodes[static_cast<std::size_t>(constraint.node)];
    node.pinned_device.reset();
    node.forbidden_devices.clear();
  }

  bool add_if_placed(GraphRemedy remedy, MemoryAdvice& advice) const {
    if (is_stopped(silent_)) return false;
    GraphCase asked = made_;
    apply_remedy(remedy, *asked.costs);
    const auto found = search_.run(asked, options_, silent_);
    if (!found || !found->plan || !found->certificate) return false;
    remedy.ms = found->certificate->objective;
    advice.fixes.push_back(std::move(remedy));
    return true;
  }

  void find_fixes(MemoryAdvice& advice) const {
    using Kind = GraphRemedy::Kind;
    const auto of = [](Kind kind) {
      GraphRemedy remedy;
      remedy.kind = kind;
      return remedy;
    };
    if (advice.need) {
      GraphRemedy memory = of(advice.is_added ? Kind::kMoreMemory : Kind::kMemory);
      memory.device_class = advice.is_added ? -1 : advice.device_class;
      memory.bytes = advice.need->enough;
      add_if_placed(std::move(memory), advice);
    }
    bool is_one_enough = false;
    std::vector<int> nodes;
    for (const GraphConstraint& constraint : advice.conflict) {
      if (constraint.node < 0) continue;
      nodes.push_back(constraint.node);
      GraphRemedy rule = of(Kind::kRules);
      rule.nodes = {constraint.node};
      is_one_enough = add_if_placed(std::move(rule), advice) || is_one_enough;
    }
    if (nodes.size() > 1 && !is_one_enough) {
      GraphRemedy rules = of(Kind::kRules);
      rules.nodes = nodes;
      add_if_placed(std::move(rules), advice);
    }
    // Where there are several conflicts, the rules of one are not enough.
    if (!is_one_enough && !advice.rules.empty() && advice.rules != nodes) {
      GraphRemedy rules = of(Kind::kRules);
      rules.nodes = advice.rules;
      add_if_placed(std::move(rules), advice);
    }
    const auto& classes = made_.costs->classes;
    for (std::size_t c = 0; c < classes.size(); ++c) {
      if (!classes[c].memory_cap || classes[c].count == 0 || !can_grow(static_cast<int>(c)))
        continue;
      for (int more = 1; more <= kMaxTimesDevices * classes[c].count; more *= 2) {
        GraphRemedy devices = of(Kind::kDevices);
        devices.device_class = static_cast<int>(c);
        devices.count = classes[c].count + more;
        if (add_if_placed(std::move(devices), advice)) break;
      }
    }
    std::stable_sort(advice.fixes.begin(), advice.fixes.end(),
                     [](const GraphRemedy& a, const GraphRemedy& b) { return a.ms < b.ms; });
  }

  // No single change helps: the fewest rules without which unlimited memory is enough, and then as
  // much memory as is needed.
  void find_two_changes(MemoryAdvice& advice) {
    GraphCase uncapped = asked_;
    for (DeviceClass& devices : uncapped.costs->classes) devices.memory_cap.reset();
    GraphRemedy both;
    both.nodes = find_rules(uncapped);
    if (both.nodes.empty()) return;
    const GraphCase ruled = asked_;
    for (const int node : both.nodes) drop({-1, node}, *asked_.costs);
    MemoryAdvice more = advise_class();
    if (!more.need) more = advise_all_classes();
    asked_ = ruled;
    if (!more.need) return;
    both.kind = more.is_added ? GraphRemedy::Kind::kMoreMemory : GraphRemedy::Kind::kMemory;
    both.device_class = more.is_added ? -1 : more.device_class;
    both.bytes = more.need->enough;
    add_if_placed(std::move(both), advice);
  }

  // Rules name devices by number: they must stay what they are.
  bool can_grow(int device_class) const {
    const bool is_last = device_class + 1 == static_cast<int>(made_.costs->classes.size());
    return made_.costs->pair_rates.empty() && (ruled_nodes().empty() || is_last);
  }

  // Nodes that are pinned or forbidden devices, where nothing fits as long as they all are.
  std::vector<int> find_rules(const GraphCase& of) const {
    const std::vector<int> nodes = ruled_nodes();
    if (nodes.size() > kMaxRules) return {};
    const auto cause = math::find_least_cause(nodes.size(), [&](const std::vector<bool>& goes) {
      GraphCase asked = of;
      for (std::size_t i = 0; i < nodes.size(); ++i) {
        if (!goes[i]) continue;
        asked.costs->nodes[nodes[i]].pinned_device.reset();
        asked.costs->nodes[nodes[i]].forbidden_devices.clear();
      }
      return has_plan(ask(asked));
    });
    std::vector<int> rules;
    for (const std::size_t i : cause) rules.push_back(nodes[i]);
    return rules;
  }

  // More bytes for one class alone: the one that needs the fewest in all.
  MemoryAdvice advise_class() {
    const auto& classes = made_.costs->classes;
    const auto added = [&](const MemoryNeed& of, std::size_t number) {
      return Int128{of.enough - *classes[number].memory_cap} * classes[number].count;
    };
    MemoryAdvice best;
    for (std::size_t c = 0; c < classes.size(); ++c) {
      const DeviceClass& devices = classes[c];
      if (!devices.memory_cap || devices.count == 0) continue;
      const auto need = find_memory_need(*devices.memory_cap, most_, precision_, [&](Bytes cap) {
        asked_.costs->classes[c].memory_cap = cap;
        return ask(asked_);
      });
      asked_.costs->classes[c].memory_cap = devices.memory_cap;
      if (!need || (best.need && added(*best.need, static_cast<std::size_t>(best.device_class)) <=
                                     added(*need, c))) {
        continue;
      }
      best = {};
      best.need = need;
      best.cap = *devices.memory_cap;
      best.device_class = static_cast<int>(c);
    }
    return best;
  }

  MemoryAdvice advise_all_classes() {
    const auto& classes = made_.costs->classes;
    MemoryAdvice advice;
    advice.is_added = true;
    advice.need = find_memory_need(0, most_, precision_, [&](Bytes more) {
      for (std::size_t c = 0; c < classes.size(); ++c) {
        if (classes[c].memory_cap)
          asked_.costs->classes[c].memory_cap = *classes[c].memory_cap + more;
      }
      return ask(asked_);
    });
    return advice;
  }

  const GraphCase& made_;
  const PlacementSearch& search_;
  PlacementSearchOptions options_;
  RunContext silent_;
  GraphCase asked_;  // of cost graphs: without times
  Bytes most_ = 0;
  Bytes precision_ = 1;
};

}  // namespace

void apply_remedy(const GraphRemedy& remedy, CostGraph& graph) {
  for (const int node : remedy.nodes) {
    graph.nodes[static_cast<std::size_t>(node)].pinned_device.reset();
    graph.nodes[static_cast<std::size_t>(node)].forbidden_devices.clear();
  }
  switch (remedy.kind) {
    case GraphRemedy::Kind::kMemory:
      graph.classes[static_cast<std::size_t>(remedy.device_class)].memory_cap = remedy.bytes;
      return;
    case GraphRemedy::Kind::kMoreMemory:
      for (DeviceClass& devices : graph.classes) {
        if (devices.memory_cap) *devices.memory_cap += remedy.bytes;
      }
      return;
    case GraphRemedy::Kind::kDevices:
      graph.classes[static_cast<std::size_t>(remedy.device_class)].count = remedy.count;
      return;
    case GraphRemedy::Kind::kRules:
      return;
  }
}

std::optional<MemoryNeed> find_memory_need(Bytes cap, Bytes most, Bytes precision,
                                           const std::function<SolveStatus(Bytes)>& ask) {
  if (most <= cap || !has_plan(ask(most))) return std::nullopt;
  const SolveStatus now = ask(cap);
  if (has_plan(now)) return std::nullopt;  // it was not memory that was missing
  MemoryNeed need{most, now == SolveStatus::kInfeasible ? cap : 0};
  for (Bytes open = cap; need.enough - open > precision;) {
    const Bytes middle = open + (need.enough - open) / 2;
    const SolveStatus status = ask(middle);
    if (has_plan(status)) {
      need.enough = middle;
    } else {
      open = middle;
      if (status == SolveStatus::kInfeasible) need.too_little = middle;
    }
  }
  // What is refuted may be less than what no plan was found for.
  const bool is_proved = now == SolveStatus::kInfeasible;
  for (Bytes open = need.enough; is_proved && open - need.too_little > precision;) {
    const Bytes middle = need.too_little + (open - need.too_little) / 2;
    (ask(middle) == SolveStatus::kInfeasible ? need.too_little : open) = middle;
  }
  return need;
}

MemoryAdvice find_memory_advice(const GraphCase& made, const PlacementSearch& search,
                                const PlacementSearchOptions& options, const RunContext& context,
                                const PlacementAnswer& answer) {
  const bool is_infeasible = answer.status == SolveStatus::kInfeasible;
  const bool is_open = answer.status == SolveStatus::kLimit && !answer.failure &&
                       answer.stop != StopReason::kDeadline &&
                       answer.stop != StopReason::kCancelled;
  if (!is_infeasible && !is_open) return {};
  MemoryAdviser adviser(made, search, options, context);
  return made.fx ? adviser.advise_fx() : adviser.advise_costs(is_infeasible);
}

std::optional<MemoryNeed> find_memory_need(const partition::PipelineModel& model,
                                           const partition::PipelineOptions& options,
                                           const RunContext& context) {
  if (!model.memory_cap) return std::nullopt;
  partition::PipelineModel asked = model;
  Int128 most = 0;
  for (partition::PipelineOperator& op : asked.operators) {
    Bytes largest = 0;
    for (partition::TensorParallelChoices& degree : op.degrees) {
      for (partition::OperatorVariant& choice : degree.choices) {
        choice.time_ms = 0;
        choice.parameters = 0;
        choice.sync.clear();
        largest = std::max(
            largest, model.num_devices * choice.per_microbatch + std::max<Bytes>(0, choice.memory));
      }
    }
    most += largest;
  }
  for (partition::PipelineEdge& edge : asked.edges) edge.bytes = 0;
  partition::PipelineOptions small = options;
  small.search.effort = kPipelineEffort;
  const RunContext silent = context.inner();
  const auto limit = static_cast<Bytes>(std::min<Int128>(most, INT64_MAX / 4));
  return find_memory_need(*model.memory_cap, limit, 1, [&](Bytes cap) {
    if (is_stopped(silent)) return SolveStatus::kLimit;
    asked.memory_cap = cap;
    const auto found = partition::plan_pipeline(asked, small, silent);
    return found ? found->outcome.status : SolveStatus::kLimit;
  });
}

}  // namespace plimsoll::study
