#include "plimsoll/partition/partition_case.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "io/documents/fx_graph_json.h"
#include "io/documents/operator_graph_json.h"
#include "io/documents/plan_tree.h"
#include "io/import/cost_overlay.h"
#include "io/import/dnn_partitioning_json.h"
#include "io/import/fx_placement.h"
#include "plimsoll/common.h"
#include "plimsoll/core/digest.h"
#include "plimsoll/io/cost_graph_json.h"
#include "plimsoll/io/files.h"
#include "plimsoll/io/graph_formats.h"
#include "plimsoll/io/shipped.h"
#include "plimsoll/machines/operator_times.h"
#include "plimsoll/partition/partition_devices.h"
#include "plimsoll/partition/partition_rules.h"

namespace plimsoll::app {
namespace {

// ---------------------------------------------------------------- formats

Result<io::CostOverlay> load_overlay(const std::string& file) {
  PLIMSOLL_ASSIGN(const std::string text, io::read_text_file(file));
  return io::read_cost_overlay(text, file);
}

Result<void> lay_overlay(const PartitionFlags& flags, const std::vector<std::string>& names,
                         partition::CostGraph& graph) {
  if (flags.cost_overlay.empty()) return {};
  PLIMSOLL_ASSIGN(const io::CostOverlay overlay, load_overlay(flags.cost_overlay));
  PLIMSOLL_RETURN_IF_ERROR(io::apply_overlay(overlay, names, graph));
  return partition::validate(graph);
}

Result<PartitionCase> read_dnn(std::string_view text, const std::string& file,
                               const PartitionFlags& flags) {
  PLIMSOLL_ASSIGN(io::DnnPartitioningInput input, io::read_dnn_partitioning(text, file));
  PartitionCase made;
  for (const std::int64_t id : input.ids) made.names.push_back(fmt::format("{}", id));
  PLIMSOLL_RETURN_IF_ERROR(lay_overlay(flags, made.names, input.graph));
  PLIMSOLL_ASSIGN(const std::string canonical, io::write_dnn_partitioning(input));
  made.input_hash = input_hash(canonical);
  made.dnn_ids = std::move(input.ids);
  made.costs = std::move(input.graph);
  return made;
}

Result<PartitionCase> read_costs(std::string_view text, const std::string& file,
                                 const PartitionFlags& flags) {
  PartitionCase made;
  PLIMSOLL_ASSIGN(made.costs, io::read_cost_graph(text, file));
  for (const partition::CostNode& node : made.costs->nodes) made.names.push_back(node.name);
  PLIMSOLL_RETURN_IF_ERROR(lay_overlay(flags, made.names, *made.costs));
  PLIMSOLL_ASSIGN(const std::string canonical, io::write_cost_graph(*made.costs));
  made.input_hash = input_hash(canonical);
  return made;
}

Result<PartitionCase> read_fx(std::string_view text, const std::string& file) {
  PartitionCase made;
  PLIMSOLL_ASSIGN(made.fx, io::read_fx_graph(text, file));
  made.input_hash = input_hash(io::write_fx_graph(*made.fx));
  return made;
}

// Operators that take time and have none in the graph's column of that name; 0 without the column.
int count_unmeasured(const partition::OperatorGraph& graph, const std::string& column) {
  const auto found = graph.find_time_column(column);
  if (!found) return 0;
  return static_cast<int>(
      std::count_if(graph.nodes.begin(), graph.nodes.end(), [&](const partition::OperatorNode& n) {
        return partition::is_operator(n.op) && !n.is_view && n.bytes_moved > 0 &&
               !n.time_ms[*found];
      }));
}

// Operators have costs only on devices, which the flags name.
Result<PartitionCase> read_operators(const io::GraphFile& file, const PartitionFlags& flags) {
  PLIMSOLL_ASSIGN(io::ImportedGraph imported, io::read_operators(file));
  if (!flags.cost_overlay.empty()) {
    PLIMSOLL_ASSIGN(const io::CostOverlay overlay, load_overlay(flags.cost_overlay));
    PLIMSOLL_RETURN_IF_ERROR(io::apply_overlay(overlay, imported.graph));
  }
  PartitionCase made;
  made.input_hash = input_hash(io::write_operator_graph(imported.graph));
  PartitionFlags timed = flags;
  if (!flags.machine.empty()) {
    PLIMSOLL_ASSIGN(const OperatorTimes times, load_operator_times(flags.machine));
    PLIMSOLL_RETURN_IF_ERROR(add_times(times, flags.times, imported.graph));
    timed.times = kMachineColumn;
    made.times = times.sources + " (" + times.machine + ")";
    made.machine_hash = times.hash;
  }
  PLIMSOLL_ASSIGN(partition::OperatorCosts costs, make_operator_costs(timed, imported.graph));
  for (const partition::CostNode& node : costs.graph.nodes) made.names.push_back(node.name);
  made.costs = std::move(costs.graph);
  made.warnings = std::move(imported.warnings);
  if (const int count = count_unmeasured(imported.graph, made.costs->classes.front().name);
      count > 0 && !flags.cost_overlay.empty()) {
    made.warnings.push_back(
        {"unmeasured", flags.cost_overlay,
         fmt::format("{} operators have no time there and get that of the roofline", count)});
  }
  if (flags.is_pipeline) {
    made.terms.emplace();
    made.terms->per_microbatch = costs.stashed;
  }
  made.operators = OperatorCase{std::move(imported.graph), std::move(costs)};
  return made;
}

Result<PartitionCase> read_graph(const PartitionFlags& flags) {
  PLIMSOLL_RETURN_IF_ERROR(check_kind(flags.graph, InputKind::kGraph));
  io::GraphFile file;
  if (is_file_name(flags.graph)) {
    PLIMSOLL_ASSIGN(file, io::open_graph_file(flags.graph));
  } else {
    PLIMSOLL_ASSIGN(const std::string_view text, io::find_shipped_graph(flags.graph));
    PLIMSOLL_ASSIGN(file, io::recognize_graph(std::string(text), flags.graph));
  }
  switch (file.format) {
    case io::GraphFormat::kOperatorGraph:
    case io::GraphFormat::kExportedProgram:
    case io::GraphFormat::kOnnx:
      return read_operators(file, flags);
    case io::GraphFormat::kDnnPartitioning:
      return read_dnn(file.text, flags.graph, flags);
    case io::GraphFormat::kCostGraph:
      return read_costs(file.text, flags.graph, flags);
    case io::GraphFormat::kFxPartitioner:
      return read_fx(file.text, flags.graph);
    case io::GraphFormat::kPipedream:
    case io::GraphFormat::kPiper:
      break;
  }
  PartitionCase made;
  PLIMSOLL_ASSIGN(made.pipeline, read_pipeline_case(file, flags));
  return made;
}

Result<void> refuse_overlay(const PartitionFlags& flags) {
  if (flags.cost_overlay.empty()) return {};
  return refuse("--cost-overlay", "the graph has no costs by class of device", "leave it out");
}

Result<void> refuse_traced_flags(const PartitionFlags& flags) {
  for (const auto& [flag, value] :
       {std::pair("--machine", &flags.machine), std::pair("--times", &flags.times),
        std::pair("--launch-floor", &flags.launch_floor)}) {
    if (!value->empty()) return refuse(flag, "the graph has its own costs", "leave it out");
  }
  return {};
}

Result<void> refuse_pipeline_flags(const PartitionFlags& flags, const PartitionCase& made) {
  if (!flags.bandwidth.empty()) {
    return refuse("--bandwidth", "only profiles of PipeDream and Piper take a bandwidth",
                  "leave it out, or give PipeDream's graph.txt or Piper's JSON");
  }
  if ((flags.microbatches == 0 && !flags.straight) || (flags.is_pipeline && made.costs)) return {};
  return refuse(flags.straight ? "--straight" : "--microbatches", "it is only used for pipelines",
                made.costs ? "leave it out, or ask for --objective pipeline"
                           : "leave it out, or give a graph with costs by class of device");
}

// What a batch is, and what the graph leaves open about it.
Result<void> set_terms(const PartitionFlags& flags, PartitionCase& made) {
  if (flags.microbatches == 0) {
    return refuse("--microbatches", "it is needed for --objective pipeline",
                  "give the number of microbatches, such as --microbatches 16");
  }
  if (!made.terms) made.terms.emplace();
  made.terms->num_microbatches = flags.microbatches;
  if (flags.straight) made.terms->max_replicas = 1;
  if (!is_training(*made.costs)) return {};
  if (!made.operators) {
    made.warnings.push_back({"microbatches_in_flight", "",
                             "the graph does not say which bytes are kept for each microbatch: the "
                             "bytes of one are counted, however many are in flight"});
  }
  if (made.costs->weights.empty() && !flags.straight) {
    made.warnings.push_back({"no_replicas", "",
                             "the graph does not say which weights replicas have to agree on, so "
                             "no stage is replicated"});
  }
  return {};
}

}  // namespace

Result<PartitionCase> load_partition_case(const PartitionFlags& flags) {
  PLIMSOLL_RETURN_IF_ERROR(check_standard_input({flags.graph, flags.on}));
  PLIMSOLL_RETURN_IF_ERROR(check_repetition(flags.devices, "--devices"));
  PLIMSOLL_RETURN_IF_ERROR(check_repetition(flags.memory, "--memory"));
  PLIMSOLL_ASSIGN(PartitionCase made, read_graph(flags));
  made.name = flags.graph;
  if (made.pipeline) {
    PLIMSOLL_RETURN_IF_ERROR(refuse_traced_flags(flags));
    PLIMSOLL_RETURN_IF_ERROR(refuse_overlay(flags));
    return made;
  }
  PLIMSOLL_RETURN_IF_ERROR(refuse_pipeline_flags(flags, made));
  if (made.fx) {
    PLIMSOLL_RETURN_IF_ERROR(refuse_traced_flags(flags));
    PLIMSOLL_RETURN_IF_ERROR(refuse_overlay(flags));
    PLIMSOLL_RETURN_IF_ERROR(set_fx_devices(flags, made.fx->config));
    return made;
  }
  if (!made.operators) {
    PLIMSOLL_RETURN_IF_ERROR(refuse_traced_flags(flags));
    PLIMSOLL_RETURN_IF_ERROR(set_devices(flags, made));
  }
  PLIMSOLL_RETURN_IF_ERROR(set_rules(flags, made));
  if (flags.is_pipeline) PLIMSOLL_RETURN_IF_ERROR(set_terms(flags, made));
  return made;
}

Result<study::PlacementAnswer> read_placement_answer(const io::PlanFile& plan) {
  if (plan.format == io::PlanFormat::kPlacement) {
    return io::read_placement_tree(plan.root, plan.name);
  }
  if (plan.format == io::PlanFormat::kFxPartition) {
    return io::read_fx_partition_tree(plan.root, plan.name);
  }
  return study::PlacementAnswer{};
}

void fill_from_answer(const study::PlacementAnswer& answer, PartitionFlags& flags) {
  flags.is_pipeline = answer.objective == partition::Objective::kPipeline;
  if (answer.provenance) fill_from_provenance(answer.provenance->options, flags);
}

Result<ReadPlacement> read_any_placement(const io::PlanFile& plan, const PartitionCase& made) {
  if (!made.costs) {
    return refuse(made.name,
                  "this is a placement by class of device, and the graph has another form",
                  "give the graph that it places");
  }
  ReadPlacement placement;
  if (plan.format == io::PlanFormat::kPlacementSplit) {
    if (!made.dnn_ids) {
      return refuse(plan.name,
                    "this is a split of the placement benchmark, and the graph has another form",
                    "give the graph that it splits");
    }
    PLIMSOLL_ASSIGN(placement.assignment, io::read_dnn_partitioning_split(
                                              plan.root, plan.name, {*made.costs, *made.dnn_ids}));
    return placement;
  }
  PLIMSOLL_ASSIGN(placement.answer, read_placement_answer(plan));
  if (placement.answer.objective == partition::Objective::kFx) {
    return refuse(plan.name, "these are partitions of torch.fx, and the graph has another form",
                  "give the graph that they partition");
  }
  PLIMSOLL_ASSIGN(placement.assignment,
                  study::take_assignment(placement.answer, made.names, plan.name));
  return placement;
}

}  // namespace plimsoll::app
