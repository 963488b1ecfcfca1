// Cuts graph order into runs that fill one device each.
//
// Problem. Partitions that fit their devices.
// Method. Operators in graph order join the current partition while its device has room; then the
// first unused device that could hold the operator alone starts the next one. From the first
// operator on that finds no device left, every operator is a partition of its own, and these are
// placed by best fit in the end. O(edges + nodes * devices).
// Promises. Partitions on devices of their own are runs of graph order, so that no cycle arises.
// May fail where a plan exists.
// Source: docs/mathematics/torch-fx-partitioner.md#size-based.
#include <string>
#include <utility>

#include "partition/fx/device_mapping.h"
#include "partition/fx/memory.h"
#include "partition/fx/modes.h"
#include "partition/fx/working_parts.h"

namespace plimsoll::partition {
namespace {

class SizeBased {
 public:
  SizeBased(const Graph& graph, const PartitionerConfig& config, const Dialect& dialect)
      : graph_(graph),
        devices_(config.devices),
        dialect_(dialect),
        table_(config.devices),
        is_occupied_(table_.devices.size()),
        present_(graph.num_nodes()) {}

  Result<std::vector<Partition>> run() {
    partitions_.emplace_back();
    for (int node = 0; node < graph_.num_nodes(); ++node) {
      if (!graph_.is_operator(node)) continue;
      if (node >= graph_.num_sized) return raise_unsized(graph_.nodes[node]);
      if (partitions_.size() > devices_.size()) {
        add_single(node);
        continue;
      }
      PLIMSOLL_RETURN_IF_ERROR(place(node));
    }
    return std::move(partitions_);
  }

 private:
  Result<void> place(int node) {
    Bytes need = extra_bytes(graph_, node, present_);
    // Quirk, kept: after operators of no bytes the partition still looks new and takes a second
    // device; its room is then that of the second alone.
    if (partitions_[current_].used_mem_bytes == 0) {
      PLIMSOLL_RETURN_IF_ERROR(take_device(node));
    } else if (left_ < need) {
      if (partitions_.size() == devices_.size()) {
        // Quirk, kept: from here on every operator stands alone, also one that would still fit.
        add_single(node);
        return {};
      }
      partitions_.emplace_back();
      current_ = partitions_.size() - 1;
      present_.clear();
      need = lonely_bytes(graph_, node);
      PLIMSOLL_RETURN_IF_ERROR(take_device(node));
    }
    add_to_current(node);
    left_ -= need;
    return {};
  }

  // The first device in list order that nobody has taken and that could hold the operator alone.
  Result<void> take_device(int node) {
    const Bytes need = lonely_bytes(graph_, node);
    for (const int device : table_.of_listed) {
      if (is_occupied_[device] || table_.devices[device].available_mem_bytes < need) continue;
      is_occupied_[device] = true;
      left_ = table_.devices[device].available_mem_bytes;
      partitions_[current_].logical_device_ids.push_back(table_.devices[device].logical_id);
      return {};
    }
    const std::string& name = graph_.nodes[node].name;
    return raise_no_plan("RuntimeError", name + dialect_.too_large_for_any, name,
                         "it needs a device of its own with " + std::to_string(need) + " bytes");
  }

  // Operators come in graph order, so that nothing in the partition reads the new one.
  void add_to_current(int node) {
    Partition& partition = partitions_[current_];
    for (const int input : graph_.nodes[node].inputs) {
      if (!graph_.is_source(input) || !present_.insert(input)) continue;
      insert_sorted(partition.nodes, input);
      partition.used_mem_bytes += graph_.nodes[input].size.total;
    }
    partition.used_mem_bytes += extra_bytes(graph_, node, present_);
    present_.insert(node);
    partition.nodes.push_back(node);
  }

  void add_single(int node) {
    Partition partition;
    add_node(graph_, partition.nodes, node);
    partition.used_mem_bytes = used_bytes(graph_, partition.nodes, scratch_);
    partitions_.push_back(std::move(partition));
  }

  const Graph& graph_;
  const std::vector<Device>& devices_;
  const Dialect& dialect_;
  DeviceTable table_;
  std::vector<bool> is_occupied_;
  std::vector<Partition> partitions_;
  std::size_t current_ = 0;
  Marks present_;  // nodes of the current partition
  Marks scratch_{graph_.num_nodes()};
  Bytes left_ = 0;  // on the current partition's device
};

}  // namespace

Result<Parts> partition_by_size(const Graph& graph, const PartitionerConfig& config,
                                const Dialect& dialect) {
  Parts parts;
  PLIMSOLL_ASSIGN(parts.partitions, SizeBased(graph, config, dialect).run());
  link_partitions(graph, parts.partitions);
  parts.node_to_partition = map_nodes(graph, parts.partitions);
  if (!DeviceMapper(graph, config.devices).map(parts.partitions)) {
    return raise_no_plan("RuntimeError", "Cannot Get a Valid Partition to Logical Device Mapping");
  }
  return parts;
}

Parts make_single_partition(const Graph& graph, int logical_device_id) {
  Parts parts;
  Partition& partition = parts.partitions.emplace_back();
  for (int node = 0; node < graph.num_nodes(); ++node) {
    if (graph.nodes[node].op != OpKind::kOutput) partition.nodes.push_back(node);
  }
  partition.used_mem_bytes = graph.total_size;
  partition.logical_device_ids = {logical_device_id};
  parts.node_to_partition = map_nodes(graph, parts.partitions);
  return parts;
}

Result<Parts> partition_ahead_of_time(const Graph& graph, const PartitionerConfig& config) {
  Parts parts;
  std::map<int, std::size_t> index_of;
  for (const auto& [node, id] : config.node_to_partition_mapping) {
    const auto [place, is_new] = index_of.emplace(id, parts.partitions.size());
    if (is_new) {
      const auto devices = config.partition_to_logical_device_mapping.find(id);
      if (devices == config.partition_to_logical_device_mapping.end()) {
        return raise_input_error("KeyError", std::to_string(id), "",
                                 "give every partition a list of devices");
      }
      Partition& partition = parts.partitions.emplace_back();
      partition.id = id;
      partition.logical_device_ids = devices->second;
    }
    if (node >= graph.num_sized) return raise_unsized(graph.nodes[node]);
    add_node(graph, parts.partitions[place->second].nodes, node);
  }
  Marks marks(graph.num_nodes());
  for (Partition& partition : parts.partitions) {
    partition.used_mem_bytes = used_bytes(graph, partition.nodes, marks);
  }
  parts.node_to_partition.resize(graph.nodes.size());
  for (const auto& [node, id] : config.node_to_partition_mapping) {
    parts.node_to_partition[node] = id;
  }
  return parts;
}

}  // namespace plimsoll::partition
