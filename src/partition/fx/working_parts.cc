#include "partition/fx/working_parts.h"

#include <algorithm>
#include <numeric>
#include <utility>

namespace plimsoll::partition {
namespace {

// For each node the partitions that hold it, ascending; flat, with the first of each.
struct Owners {
  std::vector<int> first;  // [num_nodes + 1]
  std::vector<int> list;

  Owners(int num_nodes, const std::vector<Partition>& partitions)
      : first(static_cast<std::size_t>(num_nodes) + 1) {
    for (const Partition& partition : partitions) {
      for (const int node : partition.nodes) ++first[node + 1];
    }
    std::partial_sum(first.begin(), first.end(), first.begin());
    list.resize(static_cast<std::size_t>(first.back()));
    std::vector<int> next(first.begin(), first.end() - 1);
    for (std::size_t p = 0; p < partitions.size(); ++p) {
      for (const int node : partitions[p].nodes) list[next[node]++] = static_cast<int>(p);
    }
  }
  std::span<const int> of(int node) const {
    return {list.data() + first[node], list.data() + first[node + 1]};
  }
};

void sort_and_deduplicate(std::vector<int>& list) {
  std::sort(list.begin(), list.end());
  list.erase(std::unique(list.begin(), list.end()), list.end());
}

}  // namespace

bool insert_sorted(std::vector<int>& list, int value) {
  const auto place = std::lower_bound(list.begin(), list.end(), value);
  if (place != list.end() && *place == value) return false;
  list.insert(place, value);
  return true;
}

bool erase_sorted(std::vector<int>& list, int value) {
  const auto place = std::lower_bound(list.begin(), list.end(), value);
  if (place == list.end() || *place != value) return false;
  list.erase(place);
  return true;
}

void add_node(const Graph& graph, std::vector<int>& nodes, int node) {
  for (const int input : graph.nodes[node].inputs) {
    if (graph.is_source(input)) insert_sorted(nodes, input);
  }
  insert_sorted(nodes, node);
}

void remove_node(const Graph& graph, std::vector<int>& nodes, int node) {
  if (!erase_sorted(nodes, node)) return;
  for (const int input : graph.nodes[node].inputs) {
    if (!graph.is_source(input)) continue;
    const auto& users = graph.users[input];
    const bool is_read = std::any_of(users.begin(), users.end(), [&nodes](int user) {
      return std::binary_search(nodes.begin(), nodes.end(), user);
    });
    if (!is_read) erase_sorted(nodes, input);
  }
}

void link_partitions(const Graph& graph, std::vector<Partition>& partitions) {
  const Owners owners(graph.num_nodes(), partitions);
  for (std::size_t p = 0; p < partitions.size(); ++p) {
    partitions[p].id = static_cast<int>(p);
    partitions[p].parents.clear();
    partitions[p].children.clear();
  }
  for (int node = 0; node < graph.num_nodes(); ++node) {
    const auto from = owners.of(node);
    if (from.empty()) continue;
    for (const int user : graph.users[node]) {
      for (const int q : owners.of(user)) {
        if (std::binary_search(from.begin(), from.end(), q)) continue;
        for (const int p : from) partitions[p].children.push_back(q);
      }
    }
  }
  for (std::size_t p = 0; p < partitions.size(); ++p) {
    sort_and_deduplicate(partitions[p].children);
    for (const int q : partitions[p].children) {
      partitions[q].parents.push_back(static_cast<int>(p));
    }
  }
}

void set_levels(std::vector<Partition>& partitions) {
  std::vector<int> ready;
  std::vector<int> open(partitions.size());  // parents not yet levelled
  for (std::size_t p = 0; p < partitions.size(); ++p) {
    open[p] = static_cast<int>(partitions[p].parents.size());
    partitions[p].bfs_level = 0;
    if (open[p] == 0) ready.push_back(static_cast<int>(p));
  }
  while (!ready.empty()) {
    const Partition& partition = partitions[ready.back()];
    ready.pop_back();
    for (const int child : partition.children) {
      int& level = partitions[child].bfs_level;
      level = std::max(level, partition.bfs_level + 1);
      if (--open[child] == 0) ready.push_back(child);
    }
  }
}

bool is_on_cycle(const std::vector<Partition>& partitions, int index) {
  std::vector<bool> is_seen(partitions.size());
  std::vector<int> open{index};
  while (!open.empty()) {
    const int p = open.back();
    open.pop_back();
    for (const int child : partitions[p].children) {
      if (child == index) return true;
      if (is_seen[child]) continue;
      is_seen[child] = true;
      open.push_back(child);
    }
  }
  return false;
}

std::vector<std::optional<int>> map_nodes(const Graph& graph,
                                          const std::vector<Partition>& partitions) {
  std::vector<std::optional<int>> id_of(graph.nodes.size());
  for (const Partition& partition : partitions) {
    for (const int node : partition.nodes) id_of[node] = partition.id;
  }
  return id_of;
}

tl::unexpected<Error> raise_input_error(const char* python_class, std::string text,
                                        std::string place, std::string remedy) {
  return fail(ErrorCode::kRuntime, std::move(place), std::move(text), std::move(remedy),
              python_class);
}

tl::unexpected<Error> raise_no_plan(const char* python_class, std::string text, std::string place,
                                    std::string remedy) {
  return fail(ErrorCode::kPlanner, std::move(place), std::move(text), std::move(remedy),
              python_class);
}

tl::unexpected<Error> raise_unsized(const Node& node) {
  return raise_input_error("RuntimeError", "node has no size_bytes attr", node.name,
                           "let no operator stand after the output");
}

}  // namespace plimsoll::partition
