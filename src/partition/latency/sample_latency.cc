#include "partition/latency/sample_latency.h"

#include <algorithm>
#include <cmath>
#include <functional>
#include <numeric>
#include <queue>
#include <utility>

#include "core/check.h"

namespace plimsoll::partition {
namespace {

constexpr int kNoDevice = -1;
constexpr int kLane = 8;  // rows of pieces are multiples of it, so that compilers vectorise

// Turns counts into the first place of each; `next` walks them.
std::vector<int> starts_of(std::vector<int> counts) {
  counts.insert(counts.begin(), 0);
  std::partial_sum(counts.begin(), counts.end(), counts.begin());
  return counts;
}

}  // namespace

bool is_host(const DeviceClass& devices) { return std::isinf(devices.link_rate); }

std::vector<int> topological_order(const CostGraph& graph) {
  PLIMSOLL_DCHECK(validate(graph).has_value(), "the graph is valid");
  std::vector<std::vector<int>> readers(graph.nodes.size());
  std::vector<int> missing(graph.nodes.size());
  for (const Net& net : graph.nets) {
    for (const int consumer : net.consumers) {
      readers[net.producer].push_back(consumer);
      ++missing[consumer];
    }
  }
  std::priority_queue<int, std::vector<int>, std::greater<>> ready;
  for (int node = 0; node < graph.num_nodes(); ++node) {
    if (missing[node] == 0) ready.push(node);
  }
  std::vector<int> order;
  order.reserve(graph.nodes.size());
  while (!ready.empty()) {
    order.push_back(ready.top());
    ready.pop();
    for (const int reader : readers[order.back()]) {
      if (--missing[reader] == 0) ready.push(reader);
    }
  }
  return order;
}

SampleLatency::SampleLatency(const CostGraph& graph)
    : graph_(graph),
      order_(topological_order(graph)),
      place_of_(graph.nodes.size()),
      task_of_(graph.nodes.size()) {
  for (std::size_t i = 0; i < order_.size(); ++i) place_of_[order_[i]] = static_cast<int>(i);
  int num_accelerators = 0;
  for (std::size_t c = 0; c < graph.classes.size(); ++c) {
    for (int i = 0; i < graph.classes[c].count; ++i) {
      class_of_.push_back(static_cast<int>(c));
      accelerator_of_.push_back(is_host(graph.classes[c]) ? kNoDevice : num_accelerators++);
    }
  }
  width_ = (num_accelerators + kLane - 1) / kLane * kLane;
  piece_.resize(graph.nodes.size() * static_cast<std::size_t>(width_));
  num_pieces_.resize(static_cast<std::size_t>(num_accelerators));
  std::vector<int> num_in(graph.nodes.size());
  std::vector<int> num_out(graph.nodes.size());
  for (const Net& net : graph.nets) {
    ++num_out[net.producer];
    for (const int consumer : net.consumers) ++num_in[consumer];
  }
  first_in_ = starts_of(num_in);
  first_out_ = starts_of(num_out);
  in_net_.resize(static_cast<std::size_t>(first_in_.back()));
  out_net_.resize(static_cast<std::size_t>(first_out_.back()));
  std::vector<int> next_in = first_in_;
  std::vector<int> next_out = first_out_;
  for (std::size_t n = 0; n < graph.nets.size(); ++n) {
    out_net_[next_out[graph.nets[n].producer]++] = static_cast<int>(n);
    for (const int consumer : graph.nets[n].consumers) {
      in_net_[next_in[consumer]++] = static_cast<int>(n);
    }
  }
}

double SampleLatency::evaluate(const std::vector<int>& device, int count) {
  find_tasks(device, count);
  link_tasks(device, count);
  return run_tasks();
}

void SampleLatency::find_tasks(const std::vector<int>& device, int count) {
  std::fill(num_pieces_.begin(), num_pieces_.end(), 0);
  for (int i = 0; i < count; ++i) {
    const int node = order_[i];
    int* row = piece_.data() + static_cast<std::ptrdiff_t>(node) * width_;
    std::fill(row, row + width_, 0);
    const int own = accelerator_of_[device[node]];
    int piece = 1;
    for (int k = first_in_[node]; k < first_in_[node + 1]; ++k) {
      const int producer = graph_.nets[in_net_[k]].producer;
      const int* other = piece_.data() + static_cast<std::ptrdiff_t>(producer) * width_;
      for (int first = 0; first < width_; first += kLane) {
        for (int lane = 0; lane < kLane; ++lane) {
          row[first + lane] = std::max(row[first + lane], other[first + lane]);
        }
      }
      if (own == kNoDevice) continue;
      piece = std::max(piece, other[own] + static_cast<int>(device[producer] != device[node]));
    }
    if (own == kNoDevice) continue;
    row[own] = piece;
    num_pieces_[own] = std::max(num_pieces_[own], piece);
  }
  int num_tasks = 0;
  for (int& pieces : num_pieces_) num_tasks += std::exchange(pieces, num_tasks);
  duration_.assign(static_cast<std::size_t>(num_tasks), 0);
  for (int i = 0; i < count; ++i) {
    const int node = order_[i];
    const int own = accelerator_of_[device[node]];
    const double time = graph_.nodes[node].time_ms[class_of_[device[node]]];
    if (own == kNoDevice) {
      task_of_[node] = static_cast<int>(duration_.size());
      duration_.push_back(time);
    } else {
      const int piece = piece_[static_cast<std::size_t>(node) * width_ + own];
      task_of_[node] = num_pieces_[own] + piece - 1;
      duration_[task_of_[node]] += time;
    }
  }
}

// What `own` takes to move so much to or from `other`.
double SampleLatency::transfer_ms(double amount, int own, int other) const {
  double rate = graph_.classes[class_of_[own]].link_rate;
  if (!graph_.pair_rates.empty() && own != other) {
    rate = std::min(rate, graph_.pair_rates[own][other]);
  }
  return amount / rate;
}

void SampleLatency::link_tasks(const std::vector<int>& device, int count) {
  seen_.assign(duration_.size(), kNoDevice);
  first_edge_.assign(duration_.size(), kNoDevice);
  num_open_.assign(duration_.size(), 0);
  edges_.clear();
  for (int i = 0; i < count; ++i) {
    const int node = order_[i];
    const int from = task_of_[node];
    for (int k = first_out_[node]; k < first_out_[node + 1]; ++k) {
      const int index = out_net_[k];
      const Net& net = graph_.nets[index];
      double slowest = 0;  // taking the net out
      for (const int consumer : net.consumers) {
        const int to = task_of_[consumer];
        if (place_of_[consumer] >= count || to == from) continue;
        if (accelerator_of_[device[node]] != kNoDevice) {
          slowest = std::max(slowest, transfer_ms(net.amount, device[node], device[consumer]));
        }
        if (std::exchange(seen_[to], index) == index) continue;
        if (accelerator_of_[device[consumer]] != kNoDevice) {
          duration_[to] += transfer_ms(net.amount, device[consumer], device[node]);
        }
        edges_.emplace_back(to, std::exchange(first_edge_[from], static_cast<int>(edges_.size())));
        ++num_open_[to];
      }
      duration_[from] += slowest;
    }
  }
}

double SampleLatency::run_tasks() {
  const int num_tasks = static_cast<int>(duration_.size());
  start_.assign(duration_.size(), 0);
  finish_.assign(duration_.size(), 0);
  ready_.clear();
  for (int task = 0; task < num_tasks; ++task) {
    if (num_open_[task] == 0) ready_.push_back(task);
  }
  double latest = 0;
  for (std::size_t i = 0; i < ready_.size(); ++i) {
    const int task = ready_[i];
    finish_[task] = start_[task] + duration_[task];
    latest = std::max(latest, finish_[task]);
    for (int edge = first_edge_[task]; edge != kNoDevice; edge = edges_[edge].second) {
      const int to = edges_[edge].first;
      start_[to] = std::max(start_[to], finish_[task]);
      if (--num_open_[to] == 0) ready_.push_back(to);
    }
  }
  return static_cast<int>(ready_.size()) == num_tasks ? latest : kUnlimited;
}

}  // namespace plimsoll::partition
