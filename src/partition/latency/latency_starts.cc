#include "partition/latency/latency_starts.h"

#include <algorithm>
#include <utility>

#include "partition/graph/downsets.h"
#include "partition/latency/sample_latency.h"

namespace plimsoll::partition {
namespace {

constexpr int kLongestHostStage = 64;  // blocks
constexpr int kClockPlaces = 64;       // between two checks of the clock
constexpr std::uint64_t kStageKeys = 8;
constexpr int kNumSpreads = 6;  // 1, 2, ... 32 keys: from within a stage to four of them

void drop_repeated(std::vector<int>& list) {
  std::sort(list.begin(), list.end());
  list.erase(std::unique(list.begin(), list.end()), list.end());
}

}  // namespace

LatencyStarts::LatencyStarts(const CostGraph& graph)
    : graph_(graph),
      blocks_(make_groups(graph)),
      topological_(topological_order(graph)),
      kind_of_(static_cast<std::size_t>(graph.num_devices()), -1),
      nets_of_(blocks_.nodes.size()),
      weights_of_(blocks_.nodes.size()),
      producers_(graph.nodes.size()),
      block_of_(graph.nodes.size()),
      place_(blocks_.nodes.size()),
      low_(graph.nets.size()),
      high_(graph.nets.size()),
      net_seen_(graph.nets.size()),
      weight_seen_(graph.weights.size()),
      finish_(graph.nodes.size()) {
  for (int k = 0; k < blocks_.num_kinds(); ++k) {
    for (const int device : blocks_.kinds[k].devices) {
      kind_of_[device] = k;
      if (!is_host(graph.classes[graph.class_of(device)])) sequence_.push_back(device);
    }
  }
  std::vector<int> place_of_node(graph.nodes.size());
  for (std::size_t i = 0; i < topological_.size(); ++i) {
    place_of_node[topological_[i]] = static_cast<int>(i);
  }
  for (int b = 0; b < blocks_.num_groups(); ++b) {
    for (const int node : blocks_.nodes[b]) block_of_[node] = b;
    std::sort(blocks_.nodes[b].begin(), blocks_.nodes[b].end(),
              [&](int x, int y) { return place_of_node[x] < place_of_node[y]; });
  }
  for (std::size_t n = 0; n < graph.nets.size(); ++n) {
    const Net& net = graph.nets[n];
    nets_of_[block_of_[net.producer]].push_back(static_cast<int>(n));
    for (const int consumer : net.consumers) {
      nets_of_[block_of_[consumer]].push_back(static_cast<int>(n));
      producers_[consumer].push_back(net.producer);
    }
  }
  for (std::size_t w = 0; w < graph.weights.size(); ++w) {
    for (const int reader : graph.weights[w].readers) {
      weights_of_[block_of_[reader]].push_back(static_cast<int>(w));
    }
  }
  for (auto& list : nets_of_) drop_repeated(list);
  for (auto& list : weights_of_) drop_repeated(list);
}

void LatencyStarts::follow(const DeviceAssignment& plan) {
  // Stages are numbered as they are met in topological order of their first blocks.
  std::vector<int> stage_of_device(static_cast<std::size_t>(graph_.num_devices()), -1);
  stage_of_.assign(blocks_.nodes.size(), 0);
  int num_stages = 0;
  for (const int block : order_) {
    int& stage = stage_of_device[plan.device[blocks_.nodes[block].front()]];
    if (stage < 0) stage = num_stages++;
    stage_of_[block] = stage;
  }
}

std::optional<DeviceAssignment> LatencyStarts::next(SplitMix64& random, const RunContext& context) {
  std::vector<std::uint64_t> keys(blocks_.nodes.size());
  for (std::size_t b = 0; b < keys.size(); ++b) {
    if (num_orders_ == 1) keys[b] = b;
    if (num_orders_ < 2) continue;
    keys[b] = static_cast<std::uint64_t>(random.below(1 << (num_orders_ % kNumSpreads)));
    if (!stage_of_.empty()) keys[b] += kStageKeys * static_cast<std::uint64_t>(stage_of_[b]);
  }
  ++num_orders_;
  order_ = topological_order(blocks_, keys);
  place_pins();
  const std::size_t num_states = sequence_.size() + 1;
  least_.assign(num_states * (order_.size() + 1), kUnlimited);
  best_.assign(least_.size(), {});
  expires_.assign(order_.size() + 1, 0);
  least_[0] = 0;
  for (int i = 0; i < static_cast<int>(order_.size()); ++i) {
    if (i % kClockPlaces == 0 && (context.is_cancelled() || context.is_past_deadline())) {
      return std::nullopt;
    }
    for (std::size_t s = 1; s < num_states; ++s) {
      const int state = static_cast<int>(s);
      relax(state, i, least_[at(state - 1, i)], {i, -1});
    }
    host_from(i);
    for (int first = 0; first < static_cast<int>(sequence_.size());) {
      const int kind = kind_of_[sequence_[first]];
      int last = first;
      while (last < static_cast<int>(sequence_.size()) && kind_of_[sequence_[last]] == kind) ++last;
      run_from(i, kind, first, last);
      first = last;
    }
  }
  return trace();
}

void LatencyStarts::place_pins() {
  for (std::size_t i = 0; i < order_.size(); ++i) place_[order_[i]] = static_cast<int>(i);
  for (std::size_t n = 0; n < graph_.nets.size(); ++n) {
    const Net& net = graph_.nets[n];
    low_[n] = high_[n] = place_[block_of_[net.producer]];
    for (const int consumer : net.consumers) {
      low_[n] = std::min(low_[n], place_[block_of_[consumer]]);
      high_[n] = std::max(high_[n], place_[block_of_[consumer]]);
    }
  }
}

void LatencyStarts::relax(int state, int end, double value, Step step) {
  const std::size_t to = at(state, end);
  if (!(value < least_[to])) return;
  least_[to] = value;
  best_[to] = step;
}

// Stages that begin at a place, on a device of one kind: those at [first_state, last_state) of the
// sequence.
void LatencyStarts::run_from(int begin, int kind, int first_state, int last_state) {
  const DeviceKind& devices = blocks_.kinds[kind];
  ++stamp_;
  double time = 0;
  double moved = 0;
  Bytes bytes = 0;
  std::vector<int> touched;
  for (int end = begin; end < static_cast<int>(order_.size()); ++end) {
    const int block = order_[end];
    if (blocks_.time_ms[kind][block] == kUnlimited) break;
    time += blocks_.time_ms[kind][block];
    for (const int node : blocks_.nodes[block]) bytes += graph_.nodes[node].memory;
    for (const int w : weights_of_[block]) {
      if (std::exchange(weight_seen_[w], stamp_) != stamp_) bytes += graph_.weights[w].bytes;
    }
    if (devices.memory_cap && bytes > *devices.memory_cap) break;
    for (const int n : nets_of_[block]) {
      ++num_steps_;
      if (std::exchange(net_seen_[n], stamp_) == stamp_) continue;
      if (low_[n] >= begin && high_[n] <= end) continue;
      moved += graph_.nets[n].amount;
      if (low_[n] < begin) continue;
      expires_[high_[n]] += graph_.nets[n].amount;
      touched.push_back(high_[n]);
    }
    moved -= expires_[end];
    const double value = time + std::max(moved, 0.0) / devices.link_rate;
    for (int s = first_state; s < last_state; ++s) {
      relax(s + 1, end + 1, least_[at(s, begin)] + value, {begin, sequence_[s]});
    }
    num_steps_ += last_state - first_state;
  }
  for (const int place : touched) expires_[place] = 0;
}

void LatencyStarts::host_from(int begin) {
  double longest = 0;
  const int last = std::min(static_cast<int>(order_.size()), begin + kLongestHostStage);
  int host = -1;
  for (int end = begin; end < last; ++end) {
    const int block = order_[end];
    const auto runs = [&](int kind) {
      return is_host(graph_.classes[blocks_.kinds[kind].device_class]) &&
             blocks_.time_ms[kind][block] != kUnlimited && !blocks_.kinds[kind].memory_cap;
    };
    if (host < 0) {
      for (int kind = 0; kind < blocks_.num_kinds() && host < 0; ++kind) {
        if (runs(kind)) host = blocks_.kinds[kind].devices.front();
      }
    }
    if (host < 0 || !runs(kind_of_[host])) return;
    const int device_class = graph_.class_of(host);
    for (const int node : blocks_.nodes[block]) {
      ++num_steps_;
      double start = 0;
      for (const int producer : producers_[node]) {
        const int place = place_[block_of_[producer]];
        if (place >= begin && place <= end) start = std::max(start, finish_[producer]);
      }
      finish_[node] = start + graph_.nodes[node].time_ms[device_class];
      longest = std::max(longest, finish_[node]);
    }
    for (int s = 0; s <= static_cast<int>(sequence_.size()); ++s) {
      relax(s, end + 1, least_[at(s, begin)] + longest, {begin, host});
    }
  }
}

std::optional<DeviceAssignment> LatencyStarts::trace() const {
  int place = static_cast<int>(order_.size());
  int state = 0;
  for (int s = 1; s <= static_cast<int>(sequence_.size()); ++s) {
    if (least_[at(s, place)] < least_[at(state, place)]) state = s;
  }
  if (least_[at(state, place)] == kUnlimited) return std::nullopt;
  DeviceAssignment plan;
  plan.device.assign(graph_.nodes.size(), -1);
  while (place > 0) {
    const Step step = best_[at(state, place)];
    if (step.device < 0) {
      --state;
      continue;
    }
    for (int i = step.from; i < place; ++i) {
      for (const int node : blocks_.nodes[order_[i]]) plan.device[node] = step.device;
    }
    place = step.from;
    if (!is_host(graph_.classes[graph_.class_of(step.device)])) --state;
  }
  return plan;
}

}  // namespace plimsoll::partition
