// Models that several tests plan.
#pragma once

#include <gtest/gtest.h>

#include <fstream>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "plimsoll/checkpoint/module_stats.h"

namespace plimsoll::checkpoint {

struct Tiny {
  const char* fqn;
  bool is_leaf;
  int kept, total, temporaries, gradients, parameters;  // MiB: IA, TA, AG, TG, parameters
  int sac_memory;                                       // MiB
  double sac_runtime;
  std::vector<double> slopes, intercepts;
};

inline ModuleInfo make_module(const Tiny& tiny) {
  const auto mib = [](int n) { return Bytes{n} << 20; };
  ModuleInfo module;
  module.fqn = tiny.fqn;
  module.is_leaf = tiny.is_leaf;
  module.act_fw_per_module = mib(tiny.kept);
  module.act_total = mib(tiny.total);
  module.act_grad_per_module = mib(tiny.temporaries);
  module.grad_total = mib(tiny.gradients);
  module.param_per_module = module.grad_per_module = mib(tiny.parameters);
  module.sac_memory = mib(tiny.sac_memory);
  module.sac_runtime = tiny.sac_runtime;
  module.slopes = tiny.slopes;
  module.intercepts = tiny.intercepts;
  module.n_segments = static_cast<int>(tiny.slopes.size());
  return module;
}

//                                          needs, in MiB, on one rank
//   R ─┬─ R.a ─── R.a.x                    R 2704   R.a 1724   R.a.x 1670
//      ├─ R.b ─── R.b.x                             R.b 2456   R.b.x 2402
//      └─ R.c                                       R.c 2576
inline ModuleStats tiny6() {
  ModuleStats stats;
  stats.name = "tiny6";
  for (const Tiny& tiny :
       std::vector<Tiny>{{"R", false, 1700, 2048, 256, 0, 400, 2000, 11, {0.5, 2}, {0, -0.9}},
                         {"R.a", false, 768, 832, 192, 300, 100, 1024, 4, {0.4, 1.6}, {0, -0.6}},
                         {"R.a.x", true, 700, 800, 150, 320, 80, 0, 0, {}, {}},
                         {"R.b", false, 768, 1664, 192, 200, 100, 1024, 6, {0.4, 1.6}, {0, -0.6}},
                         {"R.b.x", true, 700, 1632, 150, 220, 80, 0, 0, {}, {}},
                         {"R.c", true, 100, 2048, 128, 0, 200, 0, 0, {}, {}}}) {
    stats.mod_stats.push_back(make_module(tiny));
    stats.mod_order.fw_pre_order.emplace_back(tiny.fqn);
  }
  stats.mod_order.fw_post_order = {"R.a.x", "R.a", "R.b.x", "R.b", "R.c", "R"};
  return stats;
}

// The model of upstream's unit test (docs/mathematics/torch-checkpointing.md#sources) on an A100,
// rebuilt from first principles: 62 modules, four blocks, to be planned for four ranks.
inline ModuleStats four_blocks() {
  std::ifstream stream(PLIMSOLL_TEST_DATA "/golden/checkpointing.json");
  const auto document = nlohmann::json::parse(stream);
  ModuleStats stats;
  for (const auto& instance : document["sac_instances"]) {
    if (instance["nodes"].size() != 62) continue;
    instance["name"].get_to(stats.name);
    instance["fw_post_order"].get_to(stats.mod_order.fw_post_order);
    for (const auto& node : instance["nodes"]) {
      ModuleInfo& module = stats.mod_stats.emplace_back();
      node["fqn"].get_to(module.fqn);
      node["is_leaf"].get_to(module.is_leaf);
      node["param_per_module"].get_to(module.param_per_module);
      node["grad_total"].get_to(module.grad_total);
      node["act_fw_per_module"].get_to(module.act_fw_per_module);
      node["act_grad_per_module"].get_to(module.act_grad_per_module);
      node["act_total"].get_to(module.act_total);
      node["sac_runtime"].get_to(module.sac_runtime);
      node["sac_memory"].get_to(module.sac_memory);
      node["n_segments"].get_to(module.n_segments);
      node["slopes"].get_to(module.slopes);
      node["intercepts"].get_to(module.intercepts);
      stats.mod_order.fw_pre_order.push_back(module.fqn);
    }
  }
  EXPECT_EQ(stats.mod_stats.size(), 62u);
  return stats;
}

}  // namespace plimsoll::checkpoint
