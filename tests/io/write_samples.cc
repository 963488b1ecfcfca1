// write_samples DIRECTORY: documents of every kind as the library writes them, one file each, named
// <schema>.<what>.json, for validate_schemas.py.
#include <string>

#include "io/documents/pipeline_plan_json.h"
#include "io/documents/placement_rules_json.h"
#include "io/documents/step_model_json.h"
#include "io/random_checkpoint_documents.h"
#include "io/random_documents.h"
#include "io/random_pipeline_documents.h"
#include "plimsoll/io/checkpoint_policy_json.h"
#include "plimsoll/io/cost_graph_json.h"
#include "plimsoll/io/files.h"
#include "plimsoll/io/machine_json.h"
#include "plimsoll/io/model_json.h"
#include "plimsoll/io/module_stats_json.h"
#include "plimsoll/io/plan_json.h"
#include "plimsoll/io/shipped.h"
#include "plimsoll/io/topology_json.h"

int main(int argc, char** argv) {
  using namespace plimsoll;
  using namespace plimsoll::io;
  if (argc != 2) return 1;
  const std::string directory = argv[1];
  bool is_ok = true;
  const auto write = [&](const std::string& name, std::string_view text) {
    is_ok &= write_text_file(directory + "/" + name + ".json", text).has_value();
  };
  for (const Schema& schema : schemas()) write(std::string(schema.name) + ".schema", schema.text);
  for (const ShippedDocument& model : shipped_models()) {
    write("model." + std::string(model.id), model.text);
  }
  for (const ShippedDocument& machine : shipped_machines()) {
    write("machine." + std::string(machine.id), machine.text);
  }
  for (std::uint64_t seed = 0; seed < 30; ++seed) {
    Random random(seed);
    const std::string number = std::to_string(seed);
    write("model." + number, write_model(random_model(random)));
    write("constraints." + number, write_constraints(random_constraint_map(random)));
    write("topology." + number, write_topology(random_topology(random)));
    write("plan.bare" + number, write_plan(random_plan(random)));
    write("plan.answer" + number, write_answer(random_answer(random)));
    embedding::MachineModel machine;
    machine.name = random.name();
    machine.kernels.resize(1);
    machine.kernels[0].terms.lookup_ns = random.number();
    machine.kernels[0].ranges["lookups"] = {1, 2 + random.number()};
    machine.collectives.push_back({topology::Collective::kAllGather,
                                   embedding::CollectiveGroup::kWorld,
                                   2,
                                   {1024, 4096},
                                   {.5, 1}});
    machine.operators = embedding::DenseOperators{5, random.number(), {{"bf16", 100}}};
    machine.sources["kernels"] = {embedding::FigureKind::kFitted, random.name()};
    write("machine." + number, write_machine(machine));
    embedding::StepModel step_model;
    step_model.floor_ms = random.number();
    write("step_model." + number, write_step_model(step_model));
    embedding::BridgeOptions rules;
    rules.forbidden_ranks[random.name()] = {0, 3};
    rules.together = {{random.name(), random.name()}};
    write("placement_rules." + number, write_placement_rules(rules));
    write("module_stats." + number, write_module_stats(random_module_stats(random)));
    write("sac_stats." + number, write_sac_stats(random_sac_stats(random)));
    write("pipeline_plan." + number, write_pipeline_answer(random_pipeline_answer(random)));
    write("placement." + number, write_placement(random_placement(random)));
    write("cost_graph." + number, write_cost_graph(random_cost_graph(random)).value());
    write("fx_graph." + number, write_fx_graph(random_fx_graph(random)));
    write("checkpoint_policy." + number, write_checkpoint_answer(random_checkpoint_answer(random)));
  }
  return is_ok ? 0 : 1;
}
