// Reads module statistics for the tests, from golden records and from statistics files alike.
#pragma once

#include <gtest/gtest.h>

#include <fstream>
#include <nlohmann/json.hpp>
#include <string>

#include "plimsoll/checkpoint/checkpoint_problem.h"

namespace plimsoll::checkpoint {

inline nlohmann::json read_json(const std::string& path) {
  std::ifstream file(path);
  EXPECT_TRUE(file.good()) << path;
  return nlohmann::json::parse(file);
}

inline const nlohmann::json& golden() {
  static const nlohmann::json kDocument =
      read_json(std::string(PLIMSOLL_TEST_DATA) + "/golden/checkpointing.json");
  return kDocument;
}

inline ModuleInfo module_from(const nlohmann::json& node) {
  ModuleInfo module;
  module.fqn = node.at("fqn");
  module.is_leaf = node.at("is_leaf");
  module.param_per_module = node.at("param_per_module");
  module.grad_per_module = module.param_per_module;
  module.grad_total = node.at("grad_total");
  module.act_fw_per_module = node.at("act_fw_per_module");
  module.act_grad_per_module = node.at("act_grad_per_module");
  module.act_total = node.at("act_total");
  module.output_per_module = node.value("output_per_module", Bytes{0});
  module.fw_runtime_per_module = node.value("fw_runtime_per_module", 0.0);
  module.sac_runtime = node.at("sac_runtime");
  module.sac_memory = node.at("sac_memory");
  module.n_segments = node.at("n_segments");
  module.slopes = node.at("slopes").get<std::vector<double>>();
  module.intercepts = node.at("intercepts").get<std::vector<double>>();
  module.requires_grad = node.value("requires_grad", true);
  return module;
}

inline SACStats table_from(const nlohmann::json& table) {
  SACStats stats;
  stats.func_names = table.at("func_names").get<std::vector<std::string>>();
  stats.runtimes = table.at("runtimes").get<std::vector<double>>();
  stats.memory = table.at("memory").get<std::vector<Bytes>>();
  stats.view_like_ops = table.at("view_like_ops").get<std::vector<int>>();
  stats.rand_ops = table.at("rand_ops").get<std::vector<int>>();
  stats.saved_autograd_ops = table.at("saved_autograd_ops").get<std::vector<int>>();
  stats.inplace_ops = table.at("inplace_ops").get<std::vector<std::pair<int, int>>>();
  stats.force_store_random = table.at("force_store_random");
  return stats;
}

// A golden instance: nodes in forward pre-order.
inline ModuleStats stats_from_instance(const nlohmann::json& instance) {
  ModuleStats stats;
  stats.name = instance.at("name");
  for (const auto& node : instance.at("nodes")) {
    stats.mod_stats.push_back(module_from(node));
    stats.mod_order.fw_pre_order.push_back(stats.mod_stats.back().fqn);
  }
  stats.mod_order.fw_post_order = instance.at("fw_post_order").get<std::vector<std::string>>();
  return stats;
}

// A statistics file of a real model.
inline ModuleStats stats_from_document(const nlohmann::json& document) {
  ModuleStats stats;
  stats.name = document.at("name");
  const auto& order = document.at("mod_order");
  stats.mod_order.fw_pre_order = order.at("fw_pre_order").get<std::vector<std::string>>();
  stats.mod_order.fw_post_order = order.at("fw_post_order").get<std::vector<std::string>>();
  for (const auto& node : document.at("mod_stats")) stats.mod_stats.push_back(module_from(node));
  for (const auto& table : document.at("sac_stats")) stats.sac_stats.push_back(table_from(table));
  stats.sac_stats_of = document.at("sac_stats_of").get<std::map<std::string, int>>();
  const auto& notes = document.at("notes");
  stats.repeated = notes.at("repeated").get<std::vector<std::string>>();
  stats.fit_failed = notes.at("fit_failed").get<std::vector<std::string>>();
  return stats;
}

inline CheckpointProblem problem_from(const ModuleStats& stats, const MemoryModel& model = {}) {
  const auto valid = validate(stats);
  EXPECT_TRUE(valid) << format_error(valid.error());
  const auto tree = make_module_tree(stats);
  EXPECT_TRUE(tree) << format_error(tree.error());
  auto problem = make_checkpoint_problem(stats, *tree, model);
  EXPECT_TRUE(problem) << format_error(problem.error());
  return *std::move(problem);
}

}  // namespace plimsoll::checkpoint
