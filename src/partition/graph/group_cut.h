// Minimum cuts of a set of groups: the least that a device is loaded with that runs a given group.
//
// Problem. Least time(S) + cut(S) over all sets S of groups that contain g: time(S) sums the
// groups' times, cut(S) the nets of which S holds a part. Method. Dinic's maximum flow from g: a
// group drains into the sink by its time, a net is an edge between two vertices of its own, entered
// from all its groups and left to all of them. Cost. O(V^2 E) at worst, in practice near linear;
// the network is built once for a kind of device. Promises. The value of a flow that is feasible up
// to rounding: never above the least load by more than rounding, also where the clock ends it
// early. [1] E. A. Dinic, "Algorithm for solution of a problem of maximum flow in networks with
// power estimation", Soviet Math. Doklady 11, 1970; told by its author in
// https://doi.org/10.1007/11685654_10.
#pragma once

#include <cstdint>
#include <vector>

#include "partition/graph/group_graph.h"
#include "plimsoll/core/run_context.h"

namespace plimsoll::partition {

class GroupCut {
 public:
  GroupCut(const GroupGraph& groups, int kind);
  // The same with these times, [num_groups] finite, and this rate.
  GroupCut(const GroupGraph& groups, const std::vector<double>& time_ms, double rate);
  // A flow above `enough` may stop there.
  double least_load_with(int group, double enough, const RunContext& context);

  // Least share * time(S) + cut(S); share >= 0. Less where the clock ends it.
  double least_with(int group, double share, const RunContext& context);
  // The set S of the last of these, ascending.
  std::vector<int> chosen() const;
  // Arcs looked at so far.
  std::int64_t num_steps() const { return num_steps_; }

 private:
  struct Arc {
    int to;
    double capacity;
  };
  void add_arc(int from, int to, double capacity, double back);
  bool find_levels(int source);
  double push_path(int source);
  double push_all(int source, double enough, const RunContext& context);

  int sink_ = 0;
  std::int64_t num_steps_ = 0;
  std::vector<Arc> arcs_;  // 2i and 2i + 1 are each other's reverse
  std::vector<double> capacity_;
  std::vector<std::vector<int>> out_;
  std::vector<int> level_;
  std::vector<std::size_t> next_;
  std::vector<int> path_, queue_;
};

// The greatest of these over all groups, each on the kind where it is least: a bound on the largest
// load. The groups whose load alone, with all their nets, is the largest come first, `max_cuts` of
// them; it ends at `goal`.
double heaviest_group_bound(const GroupGraph& groups, std::int64_t max_cuts, double goal,
                            const RunContext& context);

}  // namespace plimsoll::partition
