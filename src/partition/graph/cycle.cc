#include "partition/graph/cycle.h"

#include <algorithm>

namespace plimsoll::partition {

// Kahn's order leaves nodes over that lie on cycles or behind them. Each of them has a predecessor
// that is left over, too; who walks back from one to the next comes to a node twice.
std::vector<int> find_cycle(int num_nodes, std::span<const std::pair<int, int>> edges) {
  const auto n = static_cast<std::size_t>(num_nodes);
  std::vector<std::vector<int>> next(n);
  std::vector<std::vector<int>> previous(n);
  std::vector<int> missing(n);
  for (const auto& [from, to] : edges) {
    next[from].push_back(to);
    previous[to].push_back(from);
    ++missing[to];
  }
  std::vector<int> ready;
  for (int node = 0; node < num_nodes; ++node) {
    if (missing[node] == 0) ready.push_back(node);
  }
  for (std::size_t i = 0; i < ready.size(); ++i) {
    for (const int other : next[ready[i]]) {
      if (--missing[other] == 0) ready.push_back(other);
    }
  }
  const auto left = std::find_if(missing.begin(), missing.end(), [](int m) { return m > 0; });
  if (left == missing.end()) return {};

  std::vector<int> walk;
  std::vector<int> position(n, -1);  // in the walk
  int node = static_cast<int>(left - missing.begin());
  while (position[node] < 0) {
    position[node] = static_cast<int>(walk.size());
    walk.push_back(node);
    node = *std::find_if(previous[node].begin(), previous[node].end(),
                         [&](int other) { return missing[other] > 0; });
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
