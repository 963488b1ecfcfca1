// libFuzzer entry of all readers: whatever the bytes, a Result.
#include <cstddef>
#include <cstdint>
#include <string_view>

#include "plimsoll/io/aot_partition_json.h"
#include "plimsoll/io/checkpoint_policy_json.h"
#include "plimsoll/io/cost_graph_json.h"
#include "plimsoll/io/dnn_partitioning_json.h"
#include "plimsoll/io/foreign_plan.h"
#include "plimsoll/io/fx_graph_json.h"
#include "plimsoll/io/fx_placement.h"
#include "plimsoll/io/model_json.h"
#include "plimsoll/io/module_stats_json.h"
#include "plimsoll/io/pipedream_graph.h"
#include "plimsoll/io/pipeline_plan_json.h"
#include "plimsoll/io/piper_json.h"
#include "plimsoll/io/placement_json.h"
#include "plimsoll/io/plan_json.h"
#include "plimsoll/io/topology_json.h"

namespace {

plimsoll::embedding::Model make_model() {
  plimsoll::embedding::Model model;
  auto& module = model.modules.emplace_back();
  module.path = "ebc";
  auto& table = module.tables.emplace_back();
  table.name = "t";
  table.num_embeddings = 1000;
  table.embedding_dim = 256;
  return model;
}

plimsoll::topology::Topology make_topology() {
  plimsoll::topology::Topology topology;
  topology.world_size = 4;
  topology.local_world_size = 2;
  topology.devices.resize(4);
  return topology;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  static const plimsoll::embedding::Model model = make_model();
  static const plimsoll::topology::Topology topology = make_topology();
  const plimsoll::io::ForeignPlanContext context{model, topology,
                                                 plimsoll::embedding::default_cost_model()};
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  (void)plimsoll::io::read_model(text, "fuzz");
  (void)plimsoll::io::read_constraints(text, "fuzz");
  (void)plimsoll::io::read_topology(text, "fuzz");
  if (const auto input = plimsoll::io::read_dnn_partitioning(text, "fuzz")) {
    (void)plimsoll::io::read_dnn_partitioning_split(text, "fuzz", *input);
  }
  (void)plimsoll::io::read_placement(text, "fuzz");
  (void)plimsoll::io::read_fx_graph(text, "fuzz");
  (void)plimsoll::io::read_cost_graph(text, "fuzz");
  (void)plimsoll::io::read_fx_partition(text, "fuzz");
  (void)plimsoll::io::read_any_plan(text, "fuzz", context);
  (void)plimsoll::io::read_module_stats(text, "fuzz");
  (void)plimsoll::io::read_sac_stats(text, "fuzz");
  (void)plimsoll::io::read_checkpoint_answer(text, "fuzz");
  (void)plimsoll::io::read_piper(text, "fuzz");
  (void)plimsoll::io::read_pipedream_graph(text, "fuzz");
  (void)plimsoll::io::read_pipeline_answer(text, "fuzz");
  (void)plimsoll::io::read_aot_partition(text, "fuzz");
  return 0;
}
