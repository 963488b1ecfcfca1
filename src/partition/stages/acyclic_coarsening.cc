#include "partition/stages/acyclic_coarsening.h"

#include <algorithm>
#include <numeric>

#include "core/check.h"
#include "partition/graph/downsets.h"

namespace plimsoll::partition {
namespace {

constexpr double kLeastShrinking = 0.98;  // a round that shrinks less is the last

// Nets that two groups share, each divided among the others of its groups.
double affinity(const GroupGraph& groups, const std::vector<int>& nets, int other) {
  double sum = 0;
  for (const int n : nets) {
    const auto& pins = groups.nets[n].groups;
    if (std::binary_search(pins.begin(), pins.end(), other)) {
      sum += groups.nets[n].amount / static_cast<double>(pins.size() - 1);
    }
  }
  return sum;
}

bool is_in_order(const GroupGraph& groups) {
  for (int g = 0; g < groups.num_groups(); ++g) {
    const auto& next = groups.successors[g];
    if (std::any_of(next.begin(), next.end(), [g](int s) { return s <= g; })) return false;
  }
  return true;
}

// Merges by roots, numbered by Kahn's algorithm. Precondition: a quotient without circles.
GroupGraph merge_by_roots(const GroupGraph& groups, const std::vector<int>& root_of) {
  std::vector<int> missing(groups.nodes.size());
  std::vector<std::vector<int>> members(groups.nodes.size());
  for (int g = 0; g < groups.num_groups(); ++g) {
    members[root_of[g]].push_back(g);
    for (const int next : groups.successors[g]) {
      if (root_of[next] != root_of[g]) ++missing[root_of[next]];
    }
  }
  std::vector<int> ready;
  std::ptrdiff_t num_roots = 0;
  for (int g = 0; g < groups.num_groups(); ++g) {
    if (root_of[g] != g) continue;
    ++num_roots;
    if (missing[g] == 0) ready.push_back(g);
  }
  std::vector<int> number(groups.nodes.size());
  for (std::size_t i = 0; i < ready.size(); ++i) {
    for (const int g : members[ready[i]]) {
      number[g] = static_cast<int>(i);
      for (const int next : groups.successors[g]) {
        const int root = root_of[next];
        if (root != ready[i] && --missing[root] == 0) ready.push_back(root);
      }
    }
  }
  PLIMSOLL_CHECK(static_cast<std::ptrdiff_t>(ready.size()) == num_roots,
                 "the quotient has no circle");
  return merge_groups(groups, number, static_cast<int>(ready.size()));
}

GroupGraph join_neighbours(const GroupGraph& groups, int max_clusters, double max_work) {
  const auto nets_of = nets_of_groups(groups);
  std::vector<double> work = work_of_groups(groups);
  std::vector<int> root_of(groups.nodes.size());
  std::iota(root_of.begin(), root_of.end(), 0);
  const auto find = [&](int g) {
    while (root_of[g] != g) g = root_of[g] = root_of[root_of[g]];
    return g;
  };
  int num_left = groups.num_groups();
  for (int g = 0; g < groups.num_groups() && num_left > max_clusters; ++g) {
    int best = -1;
    double best_affinity = -1;
    for (const auto* neighbours : {&groups.predecessors[g], &groups.successors[g]}) {
      if (neighbours->size() != 1) continue;
      const int other = neighbours->front();
      if (find(other) == find(g) || work[find(other)] + work[find(g)] > max_work) continue;
      const double value = affinity(groups, nets_of[g], other);
      if (value > best_affinity) {
        best = other;
        best_affinity = value;
      }
    }
    if (best < 0) continue;
    const int a = std::min(find(g), find(best));
    const int b = std::max(find(g), find(best));
    root_of[b] = a;
    work[a] += work[b];
    --num_left;
  }
  for (int g = 0; g < groups.num_groups(); ++g) root_of[g] = find(g);
  return merge_by_roots(groups, root_of);
}

}  // namespace

GroupGraph cut_into_runs(const GroupGraph& groups, int max_clusters) {
  const std::vector<std::uint64_t> keys(groups.nodes.size());
  const std::vector<double> work = work_of_groups(groups);
  const double total = std::accumulate(work.begin(), work.end(), 0.0);
  // Half of the share of each group is its work, half its number: runs stay small in both.
  std::vector<int> cluster_of(groups.nodes.size());
  double done = 0;
  int run = -1;
  int last_share = -1;
  for (const int g : topological_order(groups, keys)) {
    const int share = static_cast<int>(done * max_clusters);
    if (share > last_share) ++run;
    last_share = std::max(last_share, share);
    cluster_of[g] = run;
    done +=
        0.5 / static_cast<double>(groups.nodes.size()) + (total > 0 ? 0.5 * work[g] / total : 0);
    done = std::min(done, 1 - 1e-9);
  }
  return merge_groups(groups, cluster_of, run + 1);
}

GroupGraph coarsen_acyclically(const GroupGraph& groups, int max_clusters,
                               const RunContext& context) {
  PLIMSOLL_CHECK(max_clusters >= 1, "there is a cluster");
  PLIMSOLL_DCHECK(is_in_order(groups), "the groups are numbered in a topological order");
  GroupGraph current = groups;
  const std::vector<double> work = work_of_groups(groups);
  const double max_work = std::accumulate(work.begin(), work.end(), 0.0) / max_clusters;
  while (current.num_groups() > max_clusters && !context.is_past_deadline()) {
    const int before = current.num_groups();
    current = join_neighbours(current, max_clusters, max_work);
    if (current.num_groups() > kLeastShrinking * before) break;
  }
  return current.num_groups() > max_clusters ? cut_into_runs(current, max_clusters) : current;
}

}  // namespace plimsoll::partition
