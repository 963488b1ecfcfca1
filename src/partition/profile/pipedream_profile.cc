#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <numeric>
#include <set>

#include "core/check.h"
#include "partition/graph/cycle.h"
#include "partition/profile/pipedream.h"

namespace plimsoll::partition {
namespace {

bool is_profiled_time(double value) { return std::isfinite(value) && value >= 0; }

Result<Bytes> total_bytes(const PipeDreamNode& node, const std::string& place) {
  Bytes total = node.parameters;
  bool is_negative = total < 0;
  for (const Bytes bytes : node.activations) {
    is_negative = is_negative || bytes < 0;
    if (!is_negative && bytes > std::numeric_limits<Bytes>::max() - total) {
      return fail(ErrorCode::kOverflow, place, "its bytes exceed 2^63 - 1", "give smaller sizes");
    }
    total += bytes;
  }
  if (is_negative) {
    return fail(ErrorCode::kValue, place, "a negative number of bytes", "give at least 0");
  }
  return total;
}

}  // namespace

Result<void> validate(const PipeDreamProfile& profile) {
  if (profile.nodes.empty()) {
    return fail(ErrorCode::kValue, "nodes", "there is no node", "give at least one");
  }
  const auto place_of_node = [&](std::size_t i) {
    return "node " + std::to_string(i) + " '" + profile.nodes[i].id + "'";
  };
  std::set<std::string> ids;
  Bytes total = 0;
  for (std::size_t i = 0; i < profile.nodes.size(); ++i) {
    const PipeDreamNode& node = profile.nodes[i];
    const std::string place = place_of_node(i);
    if (!ids.insert(node.id).second) {
      return fail(ErrorCode::kConflict, place, "the id occurs twice", "give every node its own id");
    }
    if (!is_profiled_time(node.forward_ms) || !is_profiled_time(node.backward_ms)) {
      return fail(ErrorCode::kValue, place, "a time that is negative or not a number",
                  "give at least 0");
    }
    if (node.stage && *node.stage < 0) {
      return fail(ErrorCode::kValue, place, "a negative stage", "give at least 0");
    }
    PLIMSOLL_ASSIGN(const Bytes bytes, total_bytes(node, place));
    if (bytes > std::numeric_limits<Bytes>::max() - total) {
      return fail(ErrorCode::kOverflow, place, "the bytes up to here exceed 2^63 - 1",
                  "give smaller sizes");
    }
    total += bytes;
  }
  const int num_nodes = static_cast<int>(profile.nodes.size());
  std::set<std::pair<int, int>> seen;
  for (std::size_t i = 0; i < profile.edges.size(); ++i) {
    const auto& [from, to] = profile.edges[i];
    const std::string place = "edge " + std::to_string(i);
    if (from < 0 || to < 0 || from >= num_nodes || to >= num_nodes) {
      return fail(ErrorCode::kValue, place, "it ends at no node", "give nodes that exist");
    }
    if (!seen.insert(profile.edges[i]).second) {
      return fail(ErrorCode::kConflict, place, "a second edge between the same nodes",
                  "give each edge once");
    }
  }
  const std::vector<int> cycle = find_cycle(num_nodes, profile.edges);
  if (cycle.empty()) return {};
  return fail(ErrorCode::kConflict, place_of_node(static_cast<std::size_t>(cycle.front())),
              "nodes wait for each other in a cycle: " +
                  cycle_text(cycle, [&](int node) { return profile.nodes[node].id; }),
              "leave out an edge of the cycle");
}

std::vector<int> kept_nodes(const PipeDreamProfile& profile) {
  std::vector<char> is_kept(profile.nodes.size(), 1);
  const auto drop = [&](const std::string& prefix, bool looks_at_readers) {
    std::vector<char> has_other_end(profile.nodes.size(), 0);
    for (const auto& [from, to] : profile.edges) {
      if (is_kept[from] == 0 || is_kept[to] == 0) continue;
      has_other_end[looks_at_readers ? from : to] = 1;
    }
    for (std::size_t i = 0; i < profile.nodes.size(); ++i) {
      if (has_other_end[i] == 0 && profile.nodes[i].description.rfind(prefix, 0) == 0) {
        is_kept[i] = 0;
      }
    }
  };
  drop("Input", false);
  drop("__getitem__", true);
  std::vector<int> kept;
  for (std::size_t i = 0; i < is_kept.size(); ++i) {
    if (is_kept[i] != 0) kept.push_back(static_cast<int>(i));
  }
  return kept;
}

PipelineModel make_pipeline_model(const PipeDreamProfile& profile, int num_devices,
                                  double bytes_per_ms) {
  PLIMSOLL_DCHECK(validate(profile).has_value(), "the profile is valid");
  PLIMSOLL_CHECK(!kept_nodes(profile).empty(), "the profile keeps a node");
  PLIMSOLL_CHECK(bytes_per_ms > 0, "the bandwidth is above 0");
  PipelineModel model;
  model.num_devices = num_devices;
  model.bandwidth = bytes_per_ms;
  std::vector<int> operator_of(profile.nodes.size(), -1);
  for (const int i : kept_nodes(profile)) {
    const PipeDreamNode& node = profile.nodes[i];
    operator_of[i] = model.num_operators();
    const Bytes held =
        std::accumulate(node.activations.begin(), node.activations.end(), node.parameters);
    OperatorVariant choice{"", node.forward_ms + node.backward_ms, node.parameters, held, -held,
                           {}};
    model.operators.push_back({node.id, {{1, {std::move(choice)}}}});
  }
  for (const auto& [from, to] : profile.edges) {
    if (operator_of[from] < 0 || operator_of[to] < 0) continue;
    model.edges.push_back({operator_of[from], operator_of[to], 0});
  }
  return model;
}

}  // namespace plimsoll::partition
