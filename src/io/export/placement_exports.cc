#include "io/export/placement_exports.h"

#include <algorithm>
#include <map>
#include <numeric>
#include <set>
#include <string_view>
#include <unordered_map>

#include "io/export/export_text.h"
#include "partition/graph/cycle.h"
#include "partition/graph/placement_bill.h"
#include "plimsoll/core/units.h"

namespace plimsoll::io {

using partition::OperatorGraph;
using partition::OperatorNode;

Result<std::vector<int>> number_stages(const OperatorGraph& graph, const std::vector<int>& device) {
  std::vector<int> devices;  // in order of first operators
  std::unordered_map<int, int> index_of;
  for (int node = 0; node < graph.num_nodes(); ++node) {
    if (device[node] >= 0 && graph.is_operator(node) &&
        index_of.emplace(device[node], static_cast<int>(devices.size())).second) {
      devices.push_back(device[node]);
    }
  }
  std::map<std::pair<int, int>, std::pair<int, int>> reads;  // the first between two devices
  for (int node = 0; node < graph.num_nodes(); ++node) {
    const OperatorNode& n = graph.nodes[node];
    if (device[node] < 0 || !graph.is_operator(node) || n.is_backward) continue;
    for (const int input : n.inputs) {
      if (!graph.is_operator(input) || device[input] == device[node]) continue;
      reads.try_emplace({index_of[device[input]], index_of[device[node]]}, input, node);
    }
  }
  std::vector<std::pair<int, int>> edges;
  for (const auto& [edge, nodes] : reads) edges.push_back(edge);
  std::vector<int> first(devices.size());
  std::iota(first.begin(), first.end(), 0);
  const std::vector<int> line = partition::line_up(first, edges);
  std::vector<int> stage_of(devices.size(), -1);
  for (std::size_t s = 0; s < line.size(); ++s) stage_of[line[s]] = static_cast<int>(s);
  if (line.size() < devices.size()) {
    const auto back = std::find_if(reads.begin(), reads.end(), [&](const auto& read) {
      return stage_of[read.first.first] < 0 && stage_of[read.first.second] < 0;
    });
    return fail(ErrorCode::kConflict, partition::place_of(graph, back->second.second),
                "reads " + partition::place_of(graph, back->second.first) +
                    " of a device that waits for its own: the stages are not contiguous",
                "ask for a contiguous placement");
  }
  std::vector<int> stage(graph.nodes.size(), -1);
  for (int node = 0; node < graph.num_nodes(); ++node) {
    const auto found = index_of.find(device[node]);
    if (found != index_of.end()) stage[node] = stage_of[found->second];
  }
  return stage;
}

Result<std::vector<int>> number_partitions(const OperatorGraph& graph,
                                           const std::vector<int>& stage) {
  const int last = stage.empty() ? -1 : *std::max_element(stage.begin(), stage.end());
  std::vector<int> number = stage;
  for (int node = 0; node < graph.num_nodes(); ++node) {
    if (graph.nodes[node].is_backward && stage[node] >= 0)
      number[node] = 2 * last + 1 - stage[node];
  }
  std::map<std::pair<int, int>, std::pair<int, int>> reads;  // the first between two partitions
  for (int node = 0; node < graph.num_nodes(); ++node) {
    if (number[node] < 0 || !graph.is_operator(node)) continue;
    for (const int input : graph.nodes[node].inputs) {
      if (!graph.is_operator(input) || number[input] == number[node]) continue;
      reads.try_emplace({number[input], number[node]}, input, node);
    }
  }
  std::vector<std::pair<int, int>> edges;
  for (const auto& [edge, nodes] : reads) edges.push_back(edge);
  const std::vector<int> cycle = partition::find_cycle(2 * last + 2, edges);
  if (cycle.empty()) return number;
  const auto& [input, reader] = reads.at({cycle.back(), cycle.front()});
  return fail(ErrorCode::kConflict, partition::place_of(graph, reader),
              "reads " + partition::place_of(graph, input) +
                  " of a partition that waits for its own: " +
                  partition::cycle_text(cycle, [](int p) { return std::to_string(p); }),
              "ask for a contiguous placement");
}

std::string write_callback_table(const OperatorGraph& graph, const std::vector<int>& number) {
  std::vector<std::pair<std::string, std::string>> members;
  for (int node = 0; node < graph.num_nodes(); ++node) {
    if (graph.is_operator(node)) {
      members.emplace_back(graph.nodes[node].name, std::to_string(number[node]));
    }
  }
  return write_object(members);
}

std::string write_fx_callback_table(const partition::Graph& graph,
                                    const partition::Placement& placement) {
  std::vector<std::pair<std::string, std::string>> members;
  for (int node = 0; node < graph.num_nodes(); ++node) {
    const auto& id = placement.node_to_partition[node];
    if (graph.is_operator(node) && id) {
      members.emplace_back(graph.nodes[node].name, std::to_string(*id));
    }
  }
  return write_object(members);
}

Result<std::string> write_split_spec(const OperatorGraph& graph, const std::vector<int>& stage) {
  std::vector<std::pair<std::string, std::string>> members;
  std::unordered_map<std::string_view, int> first_of;  // the first operator of each module
  int current = -1;
  int last = -1;  // the last operator of the current stage
  for (int node = 0; node < graph.num_nodes(); ++node) {
    const OperatorNode& n = graph.nodes[node];
    if (!graph.is_operator(node) || n.is_backward) continue;
    const std::vector<std::string_view> modules = prefixes_of(n.module);
    for (const std::string_view module : modules) first_of.try_emplace(module, node);
    if (stage[node] < current) {
      return fail(ErrorCode::kConflict, partition::place_of(graph, node),
                  "of module '" + n.module + "' is of stage " + std::to_string(stage[node]) +
                      " and stands behind " + partition::place_of(graph, last) + " of stage " +
                      std::to_string(current),
                  "use the callback table");
    }
    if (stage[node] > current && current >= 0) {
      const auto begins =
          std::find_if(modules.begin(), modules.end(),
                       [&](std::string_view module) { return first_of[module] == node; });
      if (begins == modules.end()) {
        return fail(ErrorCode::kConflict, partition::place_of(graph, node),
                    "begins stage " + std::to_string(stage[node]) + " inside module '" + n.module +
                        "', not where a module is entered",
                    "use the callback table");
      }
      members.emplace_back(std::string(*begins), "\"BEGINNING\"");
    }
    current = stage[node];
    last = node;
  }
  return write_object(members);
}

std::string write_dot(const OperatorGraph& graph, const std::vector<int>& device) {
  std::map<int, std::vector<int>> nodes_of;
  for (int node = 0; node < graph.num_nodes(); ++node) {
    if (graph.is_operator(node)) nodes_of[device[node]].push_back(node);
  }
  std::string text = "digraph placement {\n  rankdir=TB;\n  node [shape=box, fontsize=10];\n";
  for (const auto& [d, nodes] : nodes_of) {
    const std::string number = std::to_string(d);
    text += "  subgraph cluster_" + (d < 0 ? "none" : number) + " {\n    label=\"device " + number +
            "\";\n";
    for (const int node : nodes) {
      const OperatorNode& n = graph.nodes[node];
      text += "    n" + std::to_string(node) + " [label=" + quoted(n.name + "\n" + n.target) +
              (n.is_view       ? ", style=dashed"
               : n.is_backward ? ", style=rounded"
                               : "") +
              "];\n";
    }
    text += "  }\n";
  }
  for (int node = 0; node < graph.num_nodes(); ++node) {
    if (!graph.is_operator(node)) continue;
    for (const int input : graph.nodes[node].inputs) {
      if (!graph.is_operator(input)) continue;
      text += "  n" + std::to_string(input) + " -> n" + std::to_string(node);
      if (device[input] != device[node]) {
        text +=
            " [style=bold, label=" + quoted(format_bytes(graph.nodes[input].output_bytes)) + "]";
      }
      text += ";\n";
    }
  }
  return text + "}\n";
}

}  // namespace plimsoll::io
