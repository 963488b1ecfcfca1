#include "partition/graph/net_cut.h"

#include <algorithm>
#include <cmath>
#include <utility>

namespace plimsoll::partition {
namespace {

constexpr int kSource = 0;
constexpr int kSink = 1;
constexpr int kNoNode = -1;
constexpr std::int64_t kEndless = std::int64_t{1} << 60;
constexpr double kLargest = 0x1p40;

}  // namespace

int NetCut::add_vertex() {
  first_.push_back(kNoNode);
  return static_cast<int>(first_.size()) - 1;
}

void NetCut::add_arc(int from, int to, std::int64_t capacity) {
  arcs_.push_back({to, std::exchange(first_[from], static_cast<int>(arcs_.size())), capacity});
  arcs_.push_back({from, std::exchange(first_[to], static_cast<int>(arcs_.size())), 0});
}

bool NetCut::place_roots(const std::vector<Side>& side, const std::vector<double>& time_ms) {
  side_.assign(graph_.nodes.size(), Side::kFree);
  time_.assign(graph_.nodes.size(), 0);
  for (std::size_t node = 0; node < side.size(); ++node) {
    Side& all = side_[root_[node]];
    if (side[node] == Side::kFree) {
      time_[root_[node]] += time_ms[node];
    } else if (all == Side::kFree) {
      all = side[node];
    } else if (all != side[node]) {
      return false;
    }
  }
  return true;
}

int NetCut::vertex_of(int pin) {
  const int node = root_[pin];
  if (side_[node] == Side::kIn) return kSource;
  if (side_[node] == Side::kOut) return kSink;
  if (vertex_[node] == kNoNode) {
    vertex_[node] = add_vertex();
    const double time = time_[node];
    add_arc(vertex_[node], kSink,
            std::isfinite(time) ? static_cast<std::int64_t>(time * scale_) : kEndless);
  }
  return vertex_[node];
}

// What the net takes whatever is chosen: all of `ms` where fixed nodes part it.
double NetCut::add_net(const Net& net, double ms) {
  bool touches[3] = {};  // by side
  touches[static_cast<int>(side_[root_[net.producer]])] = true;
  for (const int consumer : net.consumers) {
    touches[static_cast<int>(side_[root_[consumer]])] = true;
  }
  const auto [has_free, has_in, has_out] = touches;
  if (has_in && has_out) return ms;
  if (!has_free || net.amount == 0) return 0;
  const int enter = add_vertex();
  const int leave = add_vertex();
  add_arc(enter, leave, static_cast<std::int64_t>(ms * scale_));
  const auto connect = [&](int node) {
    const int vertex = vertex_of(node);
    if (vertex != kSink) add_arc(vertex, enter, kEndless);
    if (vertex != kSource) add_arc(leave, vertex, kEndless);
  };
  connect(net.producer);
  for (const int consumer : net.consumers) connect(consumer);
  return 0;
}

std::int64_t NetCut::push_flow() {
  std::int64_t flow = 0;
  while (level_vertices()) {
    current_ = first_;
    while (const std::int64_t pushed = push_path()) {
      flow += pushed;
      if (flow >= kEndless) return flow;
    }
  }
  return flow;
}

double NetCut::solve(const std::vector<Side>& side, const std::vector<double>& time_ms,
                     double rate) {
  double largest = 0;
  for (const Net& net : graph_.nets) largest = std::max(largest, net.amount / rate);
  for (const double time : time_ms) {
    if (std::isfinite(time)) largest = std::max(largest, time);
  }
  scale_ = largest > 0 ? kLargest / largest : 1;
  chosen_.clear();
  arcs_.clear();
  first_.assign(2, kNoNode);
  vertex_.assign(graph_.nodes.size(), kNoNode);
  if (!place_roots(side, time_ms)) return kUnlimited;
  double fixed = 0;
  for (std::size_t root = 0; root < side.size(); ++root) {
    if (side_[root] == Side::kIn) fixed += time_[root];
  }
  for (const Net& net : graph_.nets) fixed += add_net(net, net.amount / rate);
  const std::int64_t flow = push_flow();
  if (flow >= kEndless) return kUnlimited;
  for (std::size_t node = 0; node < side.size(); ++node) {
    const int root = root_[node];
    const bool is_in =
        side_[root] == Side::kIn || (vertex_[root] != kNoNode && level_[vertex_[root]] != kNoNode);
    if (side[node] == Side::kFree && is_in) chosen_.push_back(static_cast<int>(node));
  }
  return fixed + static_cast<double>(flow) / scale_;
}

bool NetCut::level_vertices() {
  level_.assign(first_.size(), kNoNode);
  level_[kSource] = 0;
  queue_.assign(1, kSource);
  for (std::size_t i = 0; i < queue_.size(); ++i) {
    for (int a = first_[queue_[i]]; a != kNoNode; a = arcs_[a].next) {
      ++num_steps_;
      if (arcs_[a].room == 0 || level_[arcs_[a].to] != kNoNode) continue;
      level_[arcs_[a].to] = level_[queue_[i]] + 1;
      queue_.push_back(arcs_[a].to);
    }
  }
  return level_[kSink] != kNoNode;
}

// Along one path of rising levels; 0 where there is none left.
std::int64_t NetCut::push_path() {
  path_.clear();
  int vertex = kSource;
  while (vertex != kSink) {
    int& a = current_[vertex];
    while (a != kNoNode && (arcs_[a].room == 0 || level_[arcs_[a].to] != level_[vertex] + 1)) {
      a = arcs_[a].next;
      ++num_steps_;
    }
    ++num_steps_;
    if (a != kNoNode) {
      path_.push_back(a);
      vertex = arcs_[a].to;
      continue;
    }
    if (vertex == kSource) return 0;
    const int dead = path_.back();
    path_.pop_back();
    vertex = arcs_[dead ^ 1].to;
    current_[vertex] = arcs_[dead].next;
  }
  std::int64_t room = kEndless;
  for (const int a : path_) room = std::min(room, arcs_[a].room);
  for (const int a : path_) {
    arcs_[a].room -= room;
    arcs_[a ^ 1].room += room;
  }
  return room;
}

}  // namespace plimsoll::partition
