#include "checkpoint/torch/graph_info.h"

#include <fmt/format.h>

#include <cmath>
#include <string_view>
#include <unordered_set>

namespace plimsoll::checkpoint {
namespace {

Result<void> check_figures(const std::vector<double>& figures, const std::string& list,
                           std::size_t num_candidates) {
  if (figures.size() != num_candidates) {
    return fail(ErrorCode::kSchema, list,
                fmt::format("{} figures for {} candidates", figures.size(), num_candidates),
                "give one figure a candidate");
  }
  for (std::size_t i = 0; i < figures.size(); ++i) {
    if (std::isfinite(figures[i]) && figures[i] >= 0) continue;
    return fail(ErrorCode::kValue, list, fmt::format("{}[{}] is {}", list, i, figures[i]),
                "give finite numbers of at least 0");
  }
  return {};
}

}  // namespace

Result<void> validate(const GraphInfo& info) {
  const int num_nodes = static_cast<int>(info.nodes.size());
  std::unordered_set<std::string_view> names;
  for (const std::string& name : info.nodes) {
    if (names.insert(name).second) continue;
    return fail(ErrorCode::kConflict, "nodes", fmt::format("node '{}' occurs twice", name),
                "give each node a name of its own");
  }
  for (std::size_t i = 0; i < info.edges.size(); ++i) {
    const int from = info.edges[i].first;
    const int to = info.edges[i].second;
    if (from < 0 || to < 0 || from >= num_nodes || to >= num_nodes) {
      return fail(
          ErrorCode::kSchema, "edges",
          fmt::format("edge {} joins nodes {} and {}, and there are {}", i, from, to, num_nodes),
          "number the nodes from 0 in graph order");
    }
    if (from >= to) {
      return fail(ErrorCode::kValue, "edges",
                  fmt::format("edge {} leads from node {} back to node {}", i, from, to),
                  "list every node after those that it uses");
    }
  }
  std::unordered_set<int> candidates;
  for (int node : info.candidates) {
    if (node < 0 || node >= num_nodes) {
      return fail(ErrorCode::kSchema, "candidates",
                  fmt::format("node {} is a candidate, and there are {}", node, num_nodes),
                  "number the nodes from 0 in graph order");
    }
    if (!candidates.insert(node).second) {
      return fail(ErrorCode::kConflict, "candidates",
                  fmt::format("node '{}' is a candidate twice", info.nodes[node]),
                  "name each candidate once");
    }
  }
  PLIMSOLL_RETURN_IF_ERROR(check_figures(info.memory, "memory", info.candidates.size()));
  return check_figures(info.runtimes, "runtimes", info.candidates.size());
}

}  // namespace plimsoll::checkpoint
