#include "plimsoll/partition/partition_searches.h"

#include <fmt/format.h>

#include <algorithm>
#include <vector>

#include "core/suggest.h"
#include "io/export/placement_exports.h"
#include "io/import/dnn_partitioning_json.h"
#include "io/import/fx_placement.h"

namespace plimsoll::app {
namespace {

using study::PlacementAnswer;

Result<std::string> export_plimsoll(const PartitionCase& /*made*/, const PlacementAnswer& answer) {
  return io::write_placement(answer);
}

Result<std::string> export_dnn_partitioning(const PartitionCase& made,
                                            const PlacementAnswer& answer) {
  if (!made.dnn_ids) {
    return fail(ErrorCode::kUsage, "dnn_partitioning",
                "only a graph of that form has the numbers that it names nodes by",
                "choose another form");
  }
  PLIMSOLL_ASSIGN(const partition::DeviceAssignment assignment,
                  io::take_assignment(answer, made.names, made.name));
  return io::write_dnn_partitioning_split({*made.costs, *made.dnn_ids}, assignment);
}

Result<std::vector<int>> devices_of_operators(const PartitionCase& made,
                                              const PlacementAnswer& answer) {
  if (!made.operators) {
    return fail(ErrorCode::kUsage, "--export", "only a traced model can be written in this form",
                "give a .pt2 archive, an .onnx model or a plimsoll-fx-graph");
  }
  PLIMSOLL_ASSIGN(const partition::DeviceAssignment assignment,
                  io::take_assignment(answer, made.names, made.name));
  return operator_devices(made.operators->graph, made.operators->costs, assignment);
}

Result<std::string> export_device_map(const PartitionCase& made, const PlacementAnswer& answer) {
  PLIMSOLL_ASSIGN(const std::vector<int> device, devices_of_operators(made, answer));
  PLIMSOLL_ASSIGN(const io::DeviceMap map, io::make_device_map(made.operators->graph, device));
  return io::write_device_map(map);
}

Result<std::string> export_split_spec(const PartitionCase& made, const PlacementAnswer& answer) {
  PLIMSOLL_ASSIGN(const std::vector<int> device, devices_of_operators(made, answer));
  PLIMSOLL_ASSIGN(const std::vector<int> stage, io::number_stages(made.operators->graph, device));
  return io::write_split_spec(made.operators->graph, stage);
}

Result<std::string> export_callback(const PartitionCase& made, const PlacementAnswer& answer) {
  if (made.fx) {
    PLIMSOLL_ASSIGN(const partition::Placement placement,
                    io::take_fx_placement(answer, made.fx->graph, made.name));
    return io::write_fx_callback_table(made.fx->graph, placement);
  }
  PLIMSOLL_ASSIGN(const std::vector<int> device, devices_of_operators(made, answer));
  PLIMSOLL_ASSIGN(const std::vector<int> stage, io::number_stages(made.operators->graph, device));
  PLIMSOLL_ASSIGN(const std::vector<int> number,
                  io::number_partitions(made.operators->graph, stage));
  return io::write_callback_table(made.operators->graph, number);
}

Result<std::string> export_dot(const PartitionCase& made, const PlacementAnswer& answer) {
  PLIMSOLL_ASSIGN(const std::vector<int> device, devices_of_operators(made, answer));
  return io::write_dot(made.operators->graph, device);
}

constexpr PlacementExport kExports[] = {
    {"plimsoll", "Plimsoll's own document", export_plimsoll},
    {"dnn_partitioning", "the split JSON of the placement benchmark", export_dnn_partitioning},
    {"device_map", "accelerate's, of a traced model", export_device_map},
    {"split_spec", "of torch.distributed.pipelining, of a traced model", export_split_spec},
    {"callback",
     "each operator's partition, for torch.fx's split_module, of a traced model or torch.fx's "
     "graph",
     export_callback},
    {"dot", "Graphviz, of a traced model", export_dot},
};

}  // namespace

Result<study::PlacementSearch> find_partition_search(const PartitionCase& made,
                                                     const std::string& objective,
                                                     const std::string& name) {
  std::vector<std::string> names;
  const study::PlacementSearch* unsuited = nullptr;
  const bool is_timed = made.fx && !made.fx->config.node_to_latency_mapping.empty();
  for (const study::PlacementSearch& search : study::placement_searches()) {
    names.emplace_back(search.name);
    if (!objective.empty() && to_string(search.objective) != objective) continue;
    if (!name.empty() && search.name != name) continue;
    // A graph of torch.fx names a mode. Who asks for the objective instead, gets our search.
    if (!objective.empty() && name.empty() && search.name == "torch" && is_timed) continue;
    if (search.suits(made)) return search;
    unsuited = &search;
  }
  if (unsuited != nullptr) {
    return fail(ErrorCode::kUsage, name.empty() ? "--objective" : "--search",
                made.fx ? "the graph has no costs by class of device for this"
                        : "this asks for a graph of torch.fx",
                "see plimsoll partition --help");
  }
  if (std::find(names.begin(), names.end(), name) == names.end()) {
    return fail(ErrorCode::kNotFound, "--search", fmt::format("no search is named '{}'", name),
                suggest(name, names));
  }
  return fail(ErrorCode::kUsage, "--search",
              fmt::format("'{}' does not minimize {}", name, objective),
              "leave one of --objective and --search out");
}

std::span<const PlacementExport> placement_exports() { return kExports; }

std::vector<std::string> placement_export_names() {
  std::vector<std::string> names;
  for (const PlacementExport& form : kExports) names.emplace_back(form.name);
  return names;
}

Result<std::string> write_placement_export(std::string_view name, const PartitionCase& made,
                                           const PlacementAnswer& answer) {
  for (const PlacementExport& form : kExports) {
    if (form.name == name) return form.write(made, answer);
  }
  return fail(ErrorCode::kInternal, std::string(name), "an export without a row");
}

}  // namespace plimsoll::app
