#include "partition/graph/cycle.h"

#include <algorithm>
#include <cstddef>
#include <numeric>

namespace plimsoll::partition {

// Kahn's order leaves nodes over that lie on cycles or behind them. Each of them has a predecessor
// that is left over, too; who walks back from one to the next comes to a node twice.
std::vector<int> find_cycle(int num_nodes, std::span<const std::pair<int, int>> edges) {
  const auto n = static_cast<std::size_t>(num_nodes);
  std::vector<std::size_t> end_of(n + 1);  // of a node's part of `next`
  std::vector<int> missing(n);
  for (const auto& [from, to] : edges) {
    ++end_of[static_cast<std::size_t>(from)];
    ++missing[to];
  }
  std::exclusive_scan(end_of.begin(), end_of.end(), end_of.begin(), std::size_t{0});
  std::vector<int> next(edges.size());
  for (const auto& [from, to] : edges) next[end_of[static_cast<std::size_t>(from)]++] = to;
  std::vector<int> ready;
  ready.reserve(n);
  for (int node = 0; node < num_nodes; ++node) {
    if (missing[node] == 0) ready.push_back(node);
  }
  for (std::size_t i = 0; i < ready.size(); ++i) {
    const auto node = static_cast<std::size_t>(ready[i]);
    for (std::size_t k = node == 0 ? 0 : end_of[node - 1]; k < end_of[node]; ++k) {
      if (--missing[next[k]] == 0) ready.push_back(next[k]);
    }
  }
  if (ready.size() == n) return {};

  std::vector<int> previous(n, -1);  // of nodes left over: their first predecessor of that kind
  for (const auto& [from, to] : edges) {
    if (missing[from] > 0 && previous[to] < 0) previous[to] = from;
  }
  const auto left = std::find_if(missing.begin(), missing.end(), [](int m) { return m > 0; });
  std::vector<int> walk;
  std::vector<int> position(n, -1);  // in the walk
  int node = static_cast<int>(left - missing.begin());
  while (position[node] < 0) {
    position[node] = static_cast<int>(walk.size());
    walk.push_back(node);
    node = previous[node];
  }
  std::vector<int> cycle(walk.rbegin(), walk.rend() - position[node]);
  std::rotate(cycle.begin(), std::min_element(cycle.begin(), cycle.end()), cycle.end());
  return cycle;
}

std::string cycle_text(std::span<const int> cycle, const std::function<std::string(int)>& name_of) {
  constexpr std::size_t kMaxNames = 8;
  std::string text;
  for (std::size_t i = 0; i < cycle.size() && i < kMaxNames; ++i) {
    text += name_of(cycle[i]) + " -> ";
  }
  if (cycle.size() > kMaxNames) {
    text += "... (" + std::to_string(cycle.size() - kMaxNames) + " more) -> ";
  }
  return text + name_of(cycle.front());
}

}  // namespace plimsoll::partition
