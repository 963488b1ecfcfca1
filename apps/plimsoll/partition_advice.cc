#include "plimsoll/partition_advice.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <string>
#include <vector>

#include "core/effort_clock.h"
#include "math/least_cause.h"

namespace plimsoll::app {
namespace {

using partition::CostGraph;
using partition::DeviceClass;

constexpr std::int64_t kEffort = 200'000;
constexpr std::int64_t kFxEffort = 1'000;
constexpr int kLargeGraph = 2000;  // nodes; of a larger one a thousandth is exact enough
constexpr Bytes kLargeSteps = 1024;

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
Bytes all_bytes(const PartitionCase& made) {
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

}  // namespace

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

std::string memory_need_line(const MemoryNeed& need, Bytes cap, const std::string& device_class) {
  std::string text = fmt::format("{} bytes ({}) on each {} would do, {} more than now", need.enough,
                                 format_bytes(need.enough), device_class, need.enough - cap);
  if (need.enough - need.too_little == 1) return text + "; one byte less would not, proved";
  if (need.too_little > cap) text += fmt::format("; {} would not, proved", need.too_little);
  return text;
}

namespace {

// Since more memory helps, memory is what binds: so much more on each device was tried, whatever a
// bound says is missing.
void explain(const MemoryNeed& need, Bytes cap, const std::string& device_class,
             const std::string& of_class, io::PlacementAnswer& answer) {
  if (!answer.explanation) answer.explanation.emplace();
  answer.explanation->binding = "memory";
  answer.explanation->missing = need.enough - cap;
  answer.explanation->lines.push_back(fmt::format(
      "{}; try --memory {}{}", memory_need_line(need, cap, device_class), of_class, need.enough));
}

void explain_all(const MemoryNeed& need, io::PlacementAnswer& answer) {
  explain(need, 0, "", "", answer);
  answer.explanation->lines.back() = fmt::format(
      "{} bytes ({}) more on each device with a cap would do, of whatever class; more for one "
      "class "
      "alone would not{}",
      need.enough, format_bytes(need.enough),
      need.enough - need.too_little == 1 ? "; one byte less would not, proved" : "");
}

// torch.fx's devices have no classes: the smaller ones are raised to one size.
void add_fx_memory_advice(const PartitionCase& made, const PartitionSearch& search,
                          const PartitionSearchOptions& options, const RunContext& context,
                          io::PlacementAnswer& answer) {
  const auto& devices = made.fx->config.devices;
  if (devices.empty()) return;
  Bytes least = devices.front().available_mem_bytes;
  for (const partition::Device& device : devices) {
    least = std::min(least, device.available_mem_bytes);
  }
  PartitionSearchOptions small = options;
  small.search.effort = kFxEffort;
  const RunContext silent{context.deadline, context.cancel, {}};
  const auto ask = [&](Bytes size) {
    if (plimsoll::is_stopped(silent)) return SolveStatus::kLimit;
    PartitionCase asked = made;
    for (partition::Device& device : asked.fx->config.devices) {
      device.available_mem_bytes = std::max(device.available_mem_bytes, size);
    }
    const auto found = search.run(asked, small, silent);
    return found && found->status ? *found->status : SolveStatus::kLimit;
  };
  const auto need = find_memory_need(least, made.fx->graph.total_size, 1, ask);
  if (need) explain(*need, least, "device", "", answer);
}

// Nodes that are pinned or forbidden devices, where nothing fits as long as they all are.
void add_rule_advice(const PartitionCase& made,
                     const std::function<SolveStatus(PartitionCase&)>& ask,
                     io::PlacementAnswer& answer) {
  constexpr std::size_t kMaxRules = 64;
  std::vector<int> nodes;
  for (int node = 0; node < made.costs->num_nodes(); ++node) {
    const partition::CostNode& of = made.costs->nodes[node];
    if (of.pinned_device || !of.forbidden_devices.empty()) nodes.push_back(node);
  }
  if (nodes.size() > kMaxRules) return;
  const auto cause = math::find_least_cause(nodes.size(), [&](const std::vector<bool>& goes) {
    PartitionCase asked = made;
    for (std::size_t i = 0; i < nodes.size(); ++i) {
      if (!goes[i]) continue;
      asked.costs->nodes[nodes[i]].pinned_device.reset();
      asked.costs->nodes[nodes[i]].forbidden_devices.clear();
    }
    return has_plan(ask(asked));
  });
  if (cause.empty()) return;
  std::string names;
  for (const std::size_t i : cause) names += (names.empty() ? "" : ", ") + made.names[nodes[i]];
  if (!answer.explanation) answer.explanation.emplace();
  answer.explanation->lines.push_back("pinned or forbidden devices are the cause (of " + names +
                                      "): without them a plan fits");
}

}  // namespace

void add_memory_advice(const PartitionCase& made, const PartitionSearch& search,
                       const PartitionSearchOptions& options, const RunContext& context,
                       io::PlacementAnswer& answer) {
  const bool is_open = answer.status == SolveStatus::kLimit && !answer.failure &&
                       answer.stop != StopReason::kDeadline &&
                       answer.stop != StopReason::kCancelled;
  if (answer.status != SolveStatus::kInfeasible && !is_open) return;
  if (made.fx) return add_fx_memory_advice(made, search, options, context, answer);
  PartitionCase asked = made;
  asked.costs = without_times(*made.costs);
  PartitionSearchOptions small = options;
  small.search.effort = kEffort;
  RunContext silent = context;
  silent.progress = {};
  const Bytes most = all_bytes(made);
  const bool is_large = made.costs->num_nodes() > kLargeGraph;
  const auto ask_case = [&](PartitionCase& of) {
    if (plimsoll::is_stopped(silent)) return SolveStatus::kLimit;
    const auto found = search.run(of, small, silent);
    return found && found->status ? *found->status : SolveStatus::kLimit;
  };
  if (answer.status == SolveStatus::kInfeasible) add_rule_advice(asked, ask_case, answer);
  const Bytes precision = is_large ? std::max<Bytes>(1, most / kLargeSteps) : 1;
  // More bytes for one class alone, or, where none of them is enough, for all that have a cap.
  std::optional<MemoryNeed> best;
  std::size_t best_class = 0;
  for (std::size_t c = 0; c < made.costs->classes.size(); ++c) {
    const DeviceClass& devices = made.costs->classes[c];
    if (!devices.memory_cap || devices.count == 0) continue;
    const auto ask = [&](Bytes cap) {
      asked.costs->classes[c].memory_cap = cap;
      return ask_case(asked);
    };
    const auto need = find_memory_need(*devices.memory_cap, most, precision, ask);
    asked.costs->classes[c].memory_cap = devices.memory_cap;
    const auto added = [&](const MemoryNeed& of, std::size_t number) {
      return Int128{of.enough - *made.costs->classes[number].memory_cap} *
             made.costs->classes[number].count;
    };
    if (!need || (best && added(*best, best_class) <= added(*need, c))) continue;
    best = need;
    best_class = c;
  }
  if (best) {
    const DeviceClass& devices = made.costs->classes[best_class];
    const bool is_only = made.costs->classes.size() == 1;
    return explain(*best, *devices.memory_cap, devices.name, is_only ? "" : devices.name + "=",
                   answer);
  }
  const auto ask_all = [&](Bytes more) {
    for (std::size_t c = 0; c < made.costs->classes.size(); ++c) {
      const auto& cap = made.costs->classes[c].memory_cap;
      if (cap) asked.costs->classes[c].memory_cap = *cap + more;
    }
    return ask_case(asked);
  };
  if (const auto need = find_memory_need(0, most, precision, ask_all)) {
    explain_all(*need, answer);
  }
}

}  // namespace plimsoll::app
