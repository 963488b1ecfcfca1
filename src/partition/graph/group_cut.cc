#include "partition/graph/group_cut.h"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "core/rounding.h"

namespace plimsoll::partition {

namespace {

// What a kind may not run is never in a set: it costs more than all there is.
std::vector<double> finite_times(const GroupGraph& groups, int kind) {
  double total = 1;
  for (const double time : groups.time_ms[kind]) total += std::isfinite(time) ? time : 0;
  for (const GroupNet& net : groups.nets) total += net.amount / groups.kinds[kind].link_rate;
  std::vector<double> times = groups.time_ms[kind];
  std::replace(times.begin(), times.end(), kUnlimited, 2 * total);
  return times;
}

}  // namespace

GroupCut::GroupCut(const GroupGraph& groups, int kind)
    : GroupCut(groups, finite_times(groups, kind), groups.kinds[kind].link_rate) {}

GroupCut::GroupCut(const GroupGraph& groups, const std::vector<double>& time_ms, double rate) {
  const int num_groups = groups.num_groups();
  sink_ = num_groups;
  out_.resize(static_cast<std::size_t>(num_groups) + 1);
  double endless = 1;
  for (const double time : time_ms) endless += 2 * time;
  for (const GroupNet& net : groups.nets) endless += 2 * net.amount / rate;
  for (int g = 0; g < num_groups; ++g) add_arc(g, sink_, time_ms[g], 0);
  for (const GroupNet& net : groups.nets) {
    const double weight = net.amount / rate;
    if (weight == 0) continue;
    if (net.groups.size() == 2) {
      add_arc(net.groups[0], net.groups[1], weight, weight);
      continue;
    }
    const int in = static_cast<int>(out_.size());
    out_.resize(out_.size() + 2);
    add_arc(in, in + 1, weight, 0);
    for (const int g : net.groups) {
      add_arc(g, in, endless, 0);
      add_arc(in + 1, g, endless, 0);
    }
  }
  for (const Arc& arc : arcs_) capacity_.push_back(arc.capacity);
  level_.resize(out_.size());
  next_.resize(out_.size());
}

void GroupCut::add_arc(int from, int to, double capacity, double back) {
  out_[from].push_back(static_cast<int>(arcs_.size()));
  arcs_.push_back({to, capacity});
  out_[to].push_back(static_cast<int>(arcs_.size()));
  arcs_.push_back({from, back});
}

bool GroupCut::find_levels(int source) {
  std::fill(level_.begin(), level_.end(), -1);
  queue_.assign(1, source);
  level_[source] = 0;
  for (std::size_t i = 0; i < queue_.size() && level_[sink_] < 0; ++i) {
    num_steps_ += static_cast<std::int64_t>(out_[queue_[i]].size());
    for (const int a : out_[queue_[i]]) {
      const Arc& arc = arcs_[a];
      if (arc.capacity <= 0 || level_[arc.to] >= 0) continue;
      level_[arc.to] = level_[queue_[i]] + 1;
      queue_.push_back(arc.to);
    }
  }
  return level_[sink_] >= 0;
}

// Depth first along levels, without recursion; 0 where no path is left.
double GroupCut::push_path(int source) {
  path_.clear();
  int vertex = source;
  while (vertex != sink_) {
    std::size_t& next = next_[vertex];
    ++num_steps_;
    while (next < out_[vertex].size()) {
      const Arc& arc = arcs_[out_[vertex][next]];
      if (arc.capacity > 0 && level_[arc.to] == level_[vertex] + 1) break;
      ++next;
      ++num_steps_;
    }
    if (next < out_[vertex].size()) {
      path_.push_back(out_[vertex][next]);
      vertex = arcs_[path_.back()].to;
      continue;
    }
    if (path_.empty()) return 0;
    vertex = arcs_[path_.back() ^ 1].to;
    path_.pop_back();
    ++next_[vertex];
  }
  double flow = kUnlimited;
  for (const int a : path_) flow = std::min(flow, arcs_[a].capacity);
  for (const int a : path_) {
    arcs_[a].capacity -= flow;
    arcs_[a ^ 1].capacity += flow;
  }
  return flow;
}

double GroupCut::push_all(int source, double enough, const RunContext& context) {
  constexpr int kClockPaths = 64;  // between two checks of the clock
  const auto is_stopped = [&context] {
    return context.is_cancelled() || context.is_past_deadline();
  };
  double total = 0;
  int num_paths = 0;
  while (total <= enough && !is_stopped() && find_levels(source)) {
    std::fill(next_.begin(), next_.end(), 0);
    for (double flow = push_path(source); flow > 0; flow = push_path(source)) {
      total += flow;
      if (++num_paths % kClockPaths == 0 && is_stopped()) return total;
    }
  }
  return total;
}

double GroupCut::least_load_with(int group, double enough, const RunContext& context) {
  for (std::size_t a = 0; a < arcs_.size(); ++a) arcs_[a].capacity = capacity_[a];
  return push_all(group, enough, context);
}

double GroupCut::least_with(int group, double share, const RunContext& context) {
  const std::size_t num_drains = 2 * static_cast<std::size_t>(sink_);
  for (std::size_t a = 0; a < arcs_.size(); ++a) {
    arcs_[a].capacity = a < num_drains ? share * capacity_[a] : capacity_[a];
  }
  return push_all(group, kUnlimited, context);
}

std::vector<int> GroupCut::chosen() const {
  std::vector<int> groups;
  for (int g = 0; g < sink_; ++g) {
    if (level_[g] >= 0) groups.push_back(g);
  }
  return groups;
}

double heaviest_group_bound(const GroupGraph& groups, std::int64_t max_cuts, double goal,
                            const RunContext& context) {
  const auto nets_of = nets_of_groups(groups);
  std::vector<double> alone;
  for (int g = 0; g < groups.num_groups(); ++g) {
    double moved = 0;
    for (const int n : nets_of[g]) moved += groups.nets[n].amount;
    double least = kUnlimited;
    for (int k = 0; k < groups.num_kinds(); ++k) {
      least = std::min(least, groups.time_ms[k][g] + moved / groups.kinds[k].link_rate);
    }
    alone.push_back(least);
  }
  std::vector<int> order(alone.size());
  std::iota(order.begin(), order.end(), 0);
  std::stable_sort(order.begin(), order.end(), [&](int a, int b) { return alone[a] > alone[b]; });
  std::vector<GroupCut> cuts;
  for (int k = 0; k < groups.num_kinds(); ++k) cuts.emplace_back(groups, k);
  double bound = 0;
  for (const int g : order) {
    if (alone[g] <= bound || --max_cuts < 0 || bound >= goal) break;
    if (context.is_cancelled() || context.is_past_deadline()) break;
    double least = kUnlimited;
    for (int k = 0; k < groups.num_kinds(); ++k) {
      if (groups.time_ms[k][g] < kUnlimited) {
        least = std::min(least, cuts[k].least_load_with(g, least, context));
      }
    }
    bound = std::max(bound, least * (1 - kRounding));
  }
  return bound;
}

}  // namespace plimsoll::partition
