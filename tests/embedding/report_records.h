// Records of planning runs with the report and the plan that the reference printed.
#pragma once

#include <gtest/gtest.h>

#include <fstream>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "embedding/vectors.h"
#include "plimsoll/embedding/planner.h"
#include "plimsoll/embedding/types.h"

namespace plimsoll::embedding {

using Json = nlohmann::ordered_json;  // modules are in registration order

inline Json read_json(const std::string& file) {
  std::ifstream stream(std::string(PLIMSOLL_TEST_DATA) + "/" + file);
  EXPECT_TRUE(stream.good()) << file;
  return Json::parse(stream, nullptr, false);
}

// Absent and null mean "not given".
template <class T>
std::optional<T> given(const Json& object, const char* key) {
  const auto found = object.find(key);
  if (found == object.end() || found->is_null()) return std::nullopt;
  return found->get<T>();
}

template <class T>
std::vector<T> list_of(const Json& object, const char* key) {
  return given<std::vector<T>>(object, key).value_or(std::vector<T>{});
}

template <class Enum>
std::vector<Enum> enums_of(const Json& object, const char* key) {
  std::vector<Enum> values;
  for (const std::string& name : list_of<std::string>(object, key)) {
    values.push_back(find_enum<Enum>(name).value());
  }
  return values;
}

inline ParameterConstraints constraints_of(const Json& table) {
  ParameterConstraints constraints;
  constraints.sharding_types = enums_of<ShardingType>(table, "sharding_types");
  constraints.compute_kernels = enums_of<ComputeKernel>(table, "compute_kernels");
  constraints.min_partition = given<std::int64_t>(table, "min_partition");
  constraints.pooling_factors = list_of<double>(table, "pooling_factors");
  if (const auto factor = given<double>(table, "pooling_factor")) {
    constraints.pooling_factors = {*factor};
  }
  constraints.num_poolings = list_of<double>(table, "num_poolings");
  constraints.batch_sizes = list_of<std::int64_t>(table, "batch_sizes");
  constraints.is_weighted = given<bool>(table, "is_weighted").value_or(false);
  if (const auto cache = given<Json>(table, "cache")) {
    constraints.cache_params = CacheParams{};
    constraints.cache_params->load_factor = given<double>(*cache, "load_factor");
    constraints.cache_params->prefetch_pipeline = given<bool>(*cache, "prefetch_pipeline");
  }
  if (const auto key_value = given<Json>(table, "key_value")) {
    constraints.key_value_params = KeyValueParams{};
    constraints.key_value_params->max_l1_cache_size =
        given<std::int64_t>(*key_value, "max_l1_cache_size");
  }
  return constraints;
}

inline Model model_of(const Json& input) {
  Model model;
  SharderParams sharder;
  if (const auto fused = given<Json>(input, "fused_params")) {
    sharder.cache_load_factor = given<double>(*fused, "cache_load_factor");
  }
  for (const auto& [path, spec] : input.at("modules").items()) {
    Module module;
    module.path = path;
    module.kind = spec.at("pooled").get<bool>() ? ModuleKind::kEmbeddingBagCollection
                                                : ModuleKind::kEmbeddingCollection;
    module.is_weighted = spec.at("weighted").get<bool>();
    module.sharder = sharder;
    for (const Json& entry : input.at("tables")) {
      if (given<std::string>(entry, "module").value_or("") != path) continue;
      Table table;
      table.name = entry.at("name").get<std::string>();
      table.num_embeddings = entry.at("rows").get<std::int64_t>();
      table.embedding_dim = entry.at("cols").get<std::int64_t>();
      module.tables.push_back(table);
      if (given<bool>(entry, "constrained").value_or(true)) {
        model.constraints[table.name] = constraints_of(entry);
      }
    }
    model.modules.push_back(module);
  }
  model.dense_parameter_bytes = 4 * input.at("dense_parameters").get<std::int64_t>();
  const auto optimizer = given<std::string>(input, "optimizer");
  if (optimizer == "rowwise_adagrad") {
    model.optimizer = Optimizer::kRowWiseAdagrad;
  } else if (optimizer == "other") {
    model.optimizer = Optimizer::kOther;
  } else if (optimizer) {
    model.optimizer = find_enum<Optimizer>(*optimizer).value();
  }
  return model;
}

inline ReservationOptions reservation_of(const Json& input) {
  ReservationOptions reservation;
  reservation.kind = find_enum<ReservationKind>(input.at("kind").get<std::string>()).value();
  reservation.percentage = given<double>(input, "percentage").value_or(0.15);
  reservation.dense_tensor_estimate = given<Bytes>(input, "dense_tensor_estimate");
  reservation.absolute_bytes = given<Bytes>(input, "absolute_bytes").value_or(0);
  reservation.base_bytes = given<Bytes>(input, "base_bytes");
  reservation.margin_bytes = given<Bytes>(input, "margin_bytes").value_or(0);
  reservation.overhead_bytes = given<Bytes>(input, "overhead_bytes").value_or(0);
  return reservation;
}

// The problem of a record: what release "1.8.0" was asked is asked of cost model "torchrec-1.8".
inline PlanningProblem problem_of(const Json& record) {
  const Json& input = record.at("input");
  PlanningProblem problem;
  const std::string release = record.at("release").get<std::string>();
  problem.cost_model = cost_model_named("torchrec-" + release.substr(0, 3));
  problem.model = model_of(input);
  const Json& topology = input.at("topology");
  TopologySpec spec;
  spec.world_size = topology.at("world_size").get<int>();
  spec.local_world_size = given<int>(topology, "local_world_size");
  spec.pod_size = given<int>(topology, "pod_size");
  spec.compute_device =
      topology::find_compute_device(topology.at("compute_device").get<std::string>()).value();
  spec.hbm_cap = given<Bytes>(topology, "hbm_cap");
  spec.ddr_cap = given<Bytes>(topology, "ddr_cap");
  spec.hbm_caps = list_of<Bytes>(topology, "hbm_caps");
  problem.topology = build(spec, problem.cost_model);
  problem.batch_size = input.at("batch_size").get<std::int64_t>();
  problem.reservation = reservation_of(input.at("reservation"));
  if (const auto mode = given<Json>(input, "mode")) {
    problem.mode.inference = given<bool>(*mode, "inference").value_or(false);
    problem.mode.pipeline_type =
        find_enum<PipelineType>(given<std::string>(*mode, "pipeline_type").value_or("none"))
            .value();
  }
  return problem;
}

// Every record of the two files, one after another.
inline std::vector<Json> report_records() {
  std::vector<Json> records;
  for (const char* file : {"golden/embedding-live.json", "embedding_reports.json"}) {
    const Json document = read_json(file);
    for (const Json& record : document.at("reports")) records.push_back(record);
  }
  return records;
}

}  // namespace plimsoll::embedding
