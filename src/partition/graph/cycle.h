// A cycle of a directed graph, so that errors can name it.
#pragma once

#include <functional>
#include <span>
#include <string>
#include <utility>
#include <vector>

namespace plimsoll::partition {

// The nodes of one cycle in the direction of its edges, its smallest node first; of an edge from a
// node to itself that node alone. Empty: the graph has none. `edges` are pairs (from, to) of nodes
// from 0 to num_nodes - 1, and may occur twice. Deterministic; O(nodes + edges).
std::vector<int> find_cycle(int num_nodes, std::span<const std::pair<int, int>> edges);

// "a -> b -> a"; of long cycles the first nodes alone.
std::string cycle_text(std::span<const int> cycle, const std::function<std::string(int)>& name_of);

}  // namespace plimsoll::partition
