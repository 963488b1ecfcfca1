#include "partition/fx/memory.h"

#include "core/check.h"
#include "core/marks.h"
#include "partition/fx/working_parts.h"

namespace plimsoll::partition {

Bytes lonely_bytes(const Graph& graph, int node) {
  PLIMSOLL_DCHECK(node < graph.num_sized, "the node has a size");
  Bytes bytes = graph.nodes[node].size.total;
  for (const int input : graph.nodes[node].inputs) bytes += graph.nodes[input].size.output;
  return bytes;
}

Bytes extra_bytes(const Graph& graph, int node, const Marks& present) {
  Bytes bytes = graph.nodes[node].size.total;
  for (const int input : graph.nodes[node].inputs) {
    if (!present.contains(input)) bytes += graph.nodes[input].size.output;
  }
  return bytes;
}

Bytes used_bytes(const Graph& graph, std::span<const int> nodes, Marks& marks) {
  marks.assign(nodes);
  Bytes bytes = 0;
  for (const int node : nodes) bytes += extra_bytes(graph, node, marks);
  return bytes;
}

Bytes used_bytes(const Graph& graph, std::span<const int> nodes) {
  Marks marks(graph.num_nodes());
  return used_bytes(graph, nodes, marks);
}

}  // namespace plimsoll::partition
