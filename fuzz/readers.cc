// Every reader of files and texts. What one of them accepts and we can write, it reads again and
// writes the same.
#include <array>
#include <cmath>
#include <optional>
#include <string>

#include "io/documents/fx_graph_json.h"
#include "io/documents/operator_graph_json.h"
#include "io/documents/pipeline_plan_json.h"
#include "io/documents/placement_rules_json.h"
#include "io/documents/step_model_json.h"
#include "io/documents/torchrec_options_json.h"
#include "io/import/aot_partition_json.h"
#include "io/import/cost_overlay.h"
#include "io/import/dnn_partitioning_json.h"
#include "io/import/exported_program.h"
#include "io/import/foreign_plan.h"
#include "io/import/fx_placement.h"
#include "io/import/onnx_model.h"
#include "io/import/pipedream_graph.h"
#include "io/import/piper_json.h"
#include "plimsoll/core/units.h"
#include "plimsoll/embedding/placement_bridge.h"
#include "plimsoll/io/checkpoint_policy_json.h"
#include "plimsoll/io/cost_graph_json.h"
#include "plimsoll/io/experts_json.h"
#include "plimsoll/io/graph_formats.h"
#include "plimsoll/io/machine_json.h"
#include "plimsoll/io/model_json.h"
#include "plimsoll/io/module_stats_json.h"
#include "plimsoll/io/placement_json.h"
#include "plimsoll/io/plan_difference_json.h"
#include "plimsoll/io/plan_json.h"
#include "plimsoll/io/plan_report_json.h"
#include "plimsoll/io/replan_json.h"
#include "plimsoll/io/robust_json.h"
#include "plimsoll/io/topology_json.h"
#include "plimsoll/io/trace_json.h"
#include "plimsoll/topology/presets.h"
#include "targets.h"

namespace plimsoll::fuzz {
namespace {

using Text = std::string_view;
constexpr Text kFile = "fuzz";

// An error says what is wrong.
template <class T>
bool is_read(const Result<T>& result) {
  if (!result) require(!result.error().message.empty());
  return result.has_value();
}

// `write` returns a text; nothing where the format cannot say it.
template <class T, class Read, class Write>
void expect_same_again(const Result<T>& first, const Read& read, const Write& write) {
  if (!is_read(first)) return;
  const std::optional<std::string> text = write(*first);
  if (!text) return;
  const Result<T> second = read(*text);
  require(second.has_value());
  require(write(*second) == text);
}

template <auto read, auto write>
void read_and_write(Text text) {
  const auto again = [](Text written) { return read(written, kFile); };
  using Value = typename decltype(again(text))::value_type;
  expect_same_again(again(text), again, [](const Value& value) -> std::optional<std::string> {
    auto written = write(value);
    if constexpr (std::is_same_v<decltype(written), std::string>) {
      return written;
    } else {
      return written ? std::optional(*std::move(written)) : std::nullopt;
    }
  });
}

template <auto read>
void read_only(Text text) {
  (void)is_read(read(text, kFile));
}

void read_bytes(Text text) {
  const Result<Bytes> bytes = parse_bytes(text);
  if (!is_read(bytes)) return;
  require(*bytes >= 0 && parse_bytes(std::to_string(*bytes)) == *bytes);
  require(!format_bytes(*bytes).empty());
}

template <auto parse>
void read_quantity(Text text) {
  const Result<double> value = parse(text);
  if (is_read(value)) require(std::isfinite(*value) && *value >= 0);
}

void use_topology(const topology::TopologySpec& spec) {
  for (const bool is_new : {false, true}) {
    const auto made = topology::make_topology(spec, !is_new, is_new);
    if (!is_read(made)) continue;
    (void)topology::find_topology_warnings(*made);
    (void)made->total_storage();
    require(topology::topology_hash(*made, is_new).size() == 64);
  }
}

void read_preset(Text text) {
  const auto spec = topology::find_preset(text);
  if (is_read(spec) && spec->world_size <= 64) use_topology(*spec);
}

void read_topology(Text text) {
  read_and_write<&io::read_topology, &io::write_topology>(text);
  const auto spec = io::read_topology(text, kFile);
  if (spec && spec->world_size <= 64) use_topology(*spec);
}

embedding::Model small_model() {
  embedding::Model model;
  auto& module = model.modules.emplace_back();
  module.path = "ebc";
  auto& table = module.tables.emplace_back();
  table.name = "t";
  table.num_embeddings = 1000;
  table.embedding_dim = 256;
  return model;
}

topology::Topology small_topology() {
  topology::Topology topology;
  topology.world_size = 4;
  topology.local_world_size = 2;
  topology.devices.resize(4);
  return topology;
}

void read_foreign_plan(Text text) {
  static const embedding::Model model = small_model();
  static const topology::Topology topology = small_topology();
  const io::ForeignPlanContext context{model, topology, embedding::default_cost_model()};
  const auto plan = io::read_foreign_plan(text, kFile, context);
  if (is_read(plan)) (void)io::write_easyrec_plan(*plan);
  (void)is_read(io::read_any_plan(text, kFile, context));
}

void read_placement_rules(Text text) {
  embedding::BridgeOptions options;
  if (!is_read(io::read_placement_rules(text, kFile, options))) return;
  const std::string written = io::write_placement_rules(options);
  if (written.empty()) return;
  embedding::BridgeOptions again;
  require(io::read_placement_rules(written, kFile, again).has_value());
  require(io::write_placement_rules(again) == written);
}

// The plan of a file, behind a line "====" of its own.
std::optional<std::pair<Text, Text>> split_pair(Text text) {
  constexpr Text kLine = "\n====\n";
  const std::size_t at = text.find(kLine);
  if (at == Text::npos) return std::nullopt;
  return std::pair(text.substr(0, at), text.substr(at + kLine.size()));
}

void read_dnn_partitioning_split(Text text) {
  const auto pair = split_pair(text);
  if (!pair) return;
  const auto input = io::read_dnn_partitioning(pair->first, kFile);
  if (!is_read(input)) return;
  const auto split = io::read_dnn_partitioning_split(pair->second, kFile, *input);
  if (is_read(split)) (void)io::write_dnn_partitioning_split(*input, *split);
}

void read_piper_plan(Text text) {
  const auto pair = split_pair(text);
  if (!pair) return;
  const auto input = io::read_piper(pair->first, kFile);
  if (!is_read(input)) return;
  const auto plan = io::read_piper_plan(pair->second, kFile, *input);
  if (is_read(plan)) (void)io::write_piper_plan(*input, *plan);
}

void read_cost_overlay(Text text) {
  const auto overlay = io::read_cost_overlay(text, kFile);
  if (!is_read(overlay)) return;
  partition::OperatorGraph graph;
  for (const char* name : {"a", "b"}) graph.nodes.emplace_back().name = name;
  (void)is_read(io::apply_overlay(*overlay, graph));
}

void read_graph(Text text) {
  const auto file = io::recognize_graph(std::string(text), "fuzz.json");
  if (is_read(file) && io::has_operators(file->format)) (void)is_read(io::read_operators(*file));
}

void read_recorded_trace(Text text) {
  study::StepTimeline timeline;
  timeline.processes = {{"rank 0", {"compute"}}};
  timeline.events = {{0, 0, "look-up", 0, 1}};
  (void)is_read(io::write_trace_beside(timeline, text, kFile, {}));
}

// What reads as a plan is compared with itself, drawn and shown; without a plan all of it is
// refused.
template <auto read>
void show_plan(Text text) {
  const auto answer = read(text, kFile);
  if (!is_read(answer)) return;
  const auto outline = study::outline_plan(*answer);
  if (is_read(outline)) {
    const auto difference = study::compare_plans(*outline, *outline);
    require(difference.has_value() && !difference->is_different && difference->reasons.empty());
    (void)io::write_difference(*difference);
  }
  auto report = study::report_plan(*answer);
  if (!is_read(report)) return;
  if constexpr (requires { study::predict_step(*answer); }) {
    if (auto timeline = study::predict_step(*answer); is_read(timeline)) {
      (void)io::write_trace(*timeline);
      report->timeline = *std::move(timeline);
    }
  }
  (void)io::write_report(*report);
  (void)io::write_report_page(*report);
}

constexpr auto kTargets = std::to_array<Target>({
    {"aot_partition", read_only<&io::read_aot_partition>},
    {"bandwidth", read_quantity<&parse_bandwidth>},
    {"bytes", read_bytes},
    {"checkpoint_policy",
     read_and_write<&io::read_checkpoint_answer, &io::write_checkpoint_answer>},
    {"constraints", read_and_write<&io::read_constraints, &io::write_constraints>},
    {"cost_graph", read_and_write<&io::read_cost_graph, &io::write_cost_graph>},
    {"cost_overlay", read_cost_overlay},
    {"dnn_partitioning", read_and_write<&io::read_dnn_partitioning, &io::write_dnn_partitioning>},
    {"dnn_partitioning_split", read_dnn_partitioning_split},
    {"expert_plan", read_and_write<&io::read_expert_plan, &io::write_expert_plan>},
    {"experts", read_and_write<&io::read_experts, &io::write_experts>},
    {"exported_program", read_only<&io::read_exported_program>},
    {"foreign_plan", read_foreign_plan},
    {"fx_graph", read_and_write<&io::read_fx_graph, &io::write_fx_graph>},
    {"fx_partition", read_only<&io::read_fx_partition>},
    {"graph", read_graph, "operator_graph"},
    {"machine", read_and_write<&io::read_machine, &io::write_machine>},
    {"model", read_and_write<&io::read_model, &io::write_model>},
    {"module_stats", read_and_write<&io::read_module_stats, &io::write_module_stats>},
    {"onnx", read_only<&io::read_onnx>},
    {"operator_graph", read_and_write<&io::read_operator_graph, &io::write_operator_graph>},
    {"pipedream", read_only<&io::read_pipedream_graph>},
    {"pipeline_plan", read_and_write<&io::read_pipeline_answer, &io::write_pipeline_answer>},
    {"piper", read_and_write<&io::read_piper, &io::write_piper>},
    {"piper_plan", read_piper_plan},
    {"placement", read_and_write<&io::read_placement, &io::write_placement>},
    {"placement_rules", read_placement_rules},
    {"plan", read_and_write<&io::read_plan, &io::write_answer>},
    {"pooling_factors", read_and_write<&io::read_pooling_factors, &io::write_pooling_factors>},
    {"preset", read_preset},
    {"recorded_trace", read_recorded_trace},
    {"replan", read_and_write<&io::read_replan, &io::write_replan>},
    {"robust", read_and_write<&io::read_robust_plan, &io::write_robust_plan>},
    {"sac_stats", read_and_write<&io::read_sac_stats, &io::write_sac_stats>},
    {"seconds", read_quantity<&parse_seconds>},
    {"sharding_types", read_only<&io::read_sharding_types>},
    {"shown_checkpoint_policy", show_plan<&io::read_checkpoint_answer>, "checkpoint_policy"},
    {"shown_pipeline_plan", show_plan<&io::read_pipeline_answer>, "pipeline_plan"},
    {"shown_placement", show_plan<&io::read_placement>, "placement"},
    {"shown_plan", show_plan<&io::read_plan>, "plan"},
    {"step_model", read_and_write<&io::read_step_model, &io::write_step_model>},
    {"topology", read_topology},
    {"torchrec_options", read_only<&io::read_torchrec_options>},
});

}  // namespace

std::span<const Target> reader_targets() { return kTargets; }

}  // namespace plimsoll::fuzz
