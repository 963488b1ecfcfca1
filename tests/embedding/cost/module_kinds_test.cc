// Every kind of module, as the released packages see it: options, their costs, what is left after
// the reservation, and the plan. The records come from executing torchrec 1.4.0, 1.8.0 and 1.9.2 on
// real modules (data/embedding_kinds.json).

#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "embedding/report_records.h"
#include "plimsoll/embedding/planner.h"
#include "plimsoll/io/model_json.h"
#include "plimsoll/io/topology_json.h"

namespace plimsoll::embedding {
namespace {

const std::vector<Json>& records(const std::string& key) {
  static const Json document = read_json("embedding_kinds.json");
  static const std::vector<Json> plain = document.at("records").get<std::vector<Json>>();
  static const std::vector<Json> grouped =
      given<std::vector<Json>>(document, "heterogeneous").value_or(std::vector<Json>{});
  return key == "records" ? plain : grouped;
}

// What release "1.8.0" said is asked of cost model "torchrec-1.8".
CostModel cost_model_of(const std::string& release) {
  return cost_model_named("torchrec-" + release.substr(0, 3));
}

Model read_model_of(const Json& record) {
  const auto model = io::read_model(record.at("model").dump(), "model");
  EXPECT_TRUE(model.has_value()) << (model ? "" : format_error(model.error()));
  return model.value_or(Model{});
}

Topology read_topology_of(const Json& topology, const CostModel& cost_model) {
  const auto spec = io::read_topology(topology.dump(), "topology");
  EXPECT_TRUE(spec.has_value()) << (spec ? "" : format_error(spec.error()));
  return build(spec.value_or(TopologySpec{}), cost_model);
}

// The Python class that the reference raises.
std::string class_of(const Error& error) {
  switch (error.code) {
    case ErrorCode::kPlanner:
      return "PlannerError";
    case ErrorCode::kRuntime:
      return "RuntimeError";
    case ErrorCode::kZeroDivision:
      return "ZeroDivisionError";
    case ErrorCode::kValue:
      return "ValueError";
    default:
      return format_error(error);
  }
}

Json json_of(const Error& error) {
  Json json;
  json["class"] = class_of(error);
  if (!error.kind.empty()) json["kind"] = error.kind;
  json["text"] = error.message;
  return json;
}

Json json_of(const Storage& storage, const CostModel& cost_model) {
  Json json = {storage.hbm, storage.ddr};
  if (cost_model.ssd_tier) json.push_back(storage.ssd);
  return json;
}

Json json_of(const Perf& perf, const CostModel& cost_model) {
  Json json = {perf.fwd_compute, perf.fwd_comms, perf.bwd_compute, perf.bwd_comms,
               perf.prefetch_compute};
  if (cost_model.input_dist) json.push_back(perf.input_dist_comms);
  return json;
}

// [type, kernel, column blocks, perf, [[shards, rows, columns, first row, bytes by tier...], ...]].
Json json_of(const Option& option, const ShardRuns& shards, const CostModel& cost_model) {
  Json runs = Json::array();
  for (const ShardRun& run : shards.runs) {
    const Json storage = json_of(run.storage, cost_model);
    const Json* const last = runs.empty() ? nullptr : &runs.back();
    const bool is_like_last = last != nullptr && (*last)[1] == run.rows &&
                              Json(last->begin() + 4, last->end()) == storage;
    if (is_like_last) {
      runs.back()[0] = runs.back()[0].get<std::int64_t>() + run.count;
      continue;
    }
    Json entry = {run.count, run.rows, run.columns, run.first_row};
    entry.insert(entry.end(), storage.begin(), storage.end());
    runs.push_back(std::move(entry));
  }
  return {to_string(option.sharding_type), to_string(option.compute_kernel), option.column_blocks,
          json_of(shards.runs.front().perf, cost_model), std::move(runs)};
}

Json json_of(const OptionSet& set, const CostModel& cost_model) {
  Json tables = Json::array();
  for (const TableOptions& entry : set.tables) {
    Json table;
    table["fqn"] = entry.fqn;
    if (!entry.dependency.empty()) table["dependency"] = entry.dependency;
    table["pooled"] = entry.is_pooled;
    table["weighted"] = entry.is_weighted;
    table["options"] = Json::array();
    for (std::int32_t o = 0; o < entry.num_options; ++o) {
      const Option& option = set.options[static_cast<std::size_t>(entry.first_option + o)];
      table["options"].push_back(json_of(option, set.shards(option), cost_model));
    }
    tables.push_back(std::move(table));
  }
  return tables;
}

Json json_of(const ShardingPlan& plan) {
  Json tables = Json::array();
  for (const TableSharding& sharding : plan.tables) {
    Json ranks = Json::array();
    for (const PlacedShard& shard : expand_shards(sharding)) ranks.push_back(shard.rank);
    tables.push_back({sharding.fqn(), to_string(sharding.sharding_type),
                      to_string(sharding.compute_kernel), std::move(ranks)});
  }
  return tables;
}

// Bytes that are left on every rank; one entry where all ranks are alike.
Json json_of(const Topology& left, const CostModel& cost_model) {
  Json devices = Json::array();
  for (const Storage& device : left.devices) devices.push_back(json_of(device, cost_model));
  const bool is_uniform = std::all_of(devices.begin(), devices.end(),
                                      [&](const Json& device) { return device == devices[0]; });
  return is_uniform ? Json::array({devices[0]}) : devices;
}

void expect_equal(const Json& found, const Json& record, const char* key) {
  const Json& expected = record.at(key);
  if (!expected.is_array() || !found.is_array() || expected.size() != found.size()) {
    EXPECT_EQ(found.dump(), expected.dump()) << key;
    return;
  }
  for (std::size_t i = 0; i < expected.size(); ++i) {
    EXPECT_EQ(found[i].dump(), expected[i].dump()) << key << " " << i;
  }
}

// Our own words for what the reference asserts are not compared.
void expect_error(const Error& error, const Json& record, const char* key) {
  Json expected = record.at(key);
  Json found = json_of(error);
  if (expected.at("class") == "AssertionError") {
    expected["class"] = "ValueError";
    expected.erase("text");
    found.erase("text");
  }
  EXPECT_EQ(found.dump(), expected.dump()) << key;
}

void expect_planned(const Result<PlanningResult>& result, const Json& record) {
  if (!result) {
    ASSERT_TRUE(record.contains("plan_error")) << format_error(result.error());
    return expect_error(result.error(), record, "plan_error");
  }
  if (result->failure) {
    ASSERT_TRUE(record.contains("plan_error")) << format_error(*result->failure);
    expect_error(*result->failure, record, "plan_error");
  } else {
    ASSERT_TRUE(record.contains("plan")) << record.at("plan_error").dump();
    expect_equal(json_of(*result->outcome.plan), record, "plan");
    EXPECT_EQ(Json(result->rating).dump(), record.at("rating").dump());
  }
  EXPECT_EQ(result->num_proposals, given<std::int64_t>(record, "num_proposals").value_or(0));
  EXPECT_EQ(result->num_plans, given<std::int64_t>(record, "num_plans").value_or(0));
}

void replay(const Json& record, const std::string& release) {
  PlanningProblem problem;
  problem.cost_model = cost_model_of(release);
  problem.model = read_model_of(record);
  problem.topology = read_topology_of(record.at("topology"), problem.cost_model);
  problem.batch_size = record.at("batch_size").get<std::int64_t>();
  problem.enumeration.batch_size = problem.batch_size;
  problem.enumeration.breadth_first = given<bool>(record, "breadth_first").value_or(false);
  if (given<bool>(record, "inference").value_or(false)) {
    problem.mode.inference = true;
    problem.reservation.kind = ReservationKind::kInference;
  }

  const Estimator estimator(problem.cost_model, problem.topology, problem.mode);
  const auto enumerated = enumerate(estimator, problem.model, problem.enumeration);
  if (!enumerated) {
    ASSERT_TRUE(record.contains("enumeration_error")) << format_error(enumerated.error());
    expect_error(enumerated.error(), record, "enumeration_error");
  } else {
    ASSERT_TRUE(record.contains("tables")) << record.at("enumeration_error").dump();
    expect_equal(json_of(enumerated->options, problem.cost_model), record, "tables");
  }

  const auto reserved = reserve(problem.cost_model, problem.reservation, problem.topology,
                                problem.model, problem.batch_size);
  if (!reserved) {
    ASSERT_TRUE(record.contains("reservation_error")) << format_error(reserved.error());
    expect_error(reserved.error(), record, "reservation_error");
  } else {
    ASSERT_TRUE(record.contains("reserved")) << record.at("reservation_error").dump();
    expect_equal(json_of(reserved->topology, problem.cost_model), record, "reserved");
  }

  if (record.contains("plan") || record.contains("plan_error")) {
    expect_planned(plan_like_torchrec(problem, {}, {}, {}), record);
  }
}

TEST(ModuleKinds, AreEnumeratedReservedAndPlannedAsThePackagesDo) {
  std::size_t i = 0;
  for (const Json& record : records("records")) {
    for (const std::string& release : list_of<std::string>(record, "releases")) {
      SCOPED_TRACE(testing::Message() << "record " << i << ", torchrec " << release);
      replay(record, release);
    }
    ++i;
  }
}

// One plan over a cuda and a cpu group: tables go where their constraints say, group after group.
TEST(ModuleKinds, ArePlannedOverDeviceGroupsAsThePackageDoes) {
  std::size_t i = 0;
  for (const Json& record : records("heterogeneous")) {
    SCOPED_TRACE(testing::Message() << "heterogeneous record " << i++);
    HeterogeneousProblem problem;
    problem.cost_model = cost_model_of(list_of<std::string>(record, "releases").at(0));
    problem.model = read_model_of(record);
    problem.batch_size = record.at("batch_size").get<std::int64_t>();
    for (const Json& group : record.at("topologies")) {
      problem.topologies.emplace_back(group.at(0).get<std::string>(),
                                      read_topology_of(group.at(1), problem.cost_model));
    }
    ReferenceOptions options;
    options.partitioner = "memory_balanced";  // the reference's default for groups
    const auto result = plan_heterogeneous(problem, options, {}, {});
    if (!result || result->failure) {
      const Error& error = result ? *result->failure : result.error();
      ASSERT_TRUE(record.contains("plan_error")) << format_error(error);
      expect_error(error, record, "plan_error");
      continue;
    }
    ASSERT_FALSE(record.contains("plan_error")) << record.at("plan_error").dump();
    Json groups = Json::array();
    for (const auto& [name, planned] : result->groups) {
      if (planned.best.options.empty())
        continue;  // the reference passes over a group without tables
      groups.push_back({{"group", name},
                        {"plan", json_of(*planned.outcome.plan)},
                        {"rating", planned.rating},
                        {"num_proposals", planned.num_proposals},
                        {"num_plans", planned.num_plans}});
    }
    expect_equal(groups, record, "groups");
  }
}

Module module_with(ModuleKind kind, const std::vector<std::pair<DataType, Pooling>>& tables) {
  Module module;
  module.kind = kind;
  for (const auto& [data_type, pooling] : tables) {
    Table& table = module.tables.emplace_back();
    table.name = "t" + std::to_string(module.tables.size());
    table.num_embeddings = 100;
    table.embedding_dim = 16;
    table.data_type = data_type;
    table.pooling = pooling;
  }
  return module;
}

// Tables:    0        1        2        3        4
//            fp16     int8     fp16     int8     fp16
//            sum      sum      mean     sum      sum
TEST(ModuleKinds, RegisterTablesOfOneKernelTogether) {
  using enum ModuleKind;
  const auto order_of = [](ModuleKind kind) {
    return table_order(module_with(kind, {{DataType::kFp16, Pooling::kSum},
                                          {DataType::kInt8, Pooling::kSum},
                                          {DataType::kFp16, Pooling::kMean},
                                          {DataType::kInt8, Pooling::kSum},
                                          {DataType::kFp16, Pooling::kSum}}));
  };
  using Order = std::vector<int>;
  EXPECT_EQ(order_of(kEmbeddingBagCollection), (Order{0, 1, 2, 3, 4}));
  EXPECT_EQ(order_of(kFusedEmbeddingBagCollection), (Order{0, 4, 1, 3, 2}));
  EXPECT_EQ(order_of(kFusedEmbeddingCollection), (Order{0, 2, 4, 1, 3}));
  EXPECT_EQ(order_of(kQuantEmbeddingBagCollection), (Order{0, 1, 3, 4, 2}));
  EXPECT_EQ(order_of(kQuantEmbeddingCollection), (Order{0, 2, 4, 1, 3}));
}

TEST(ModuleKinds, RefuseTablesThatTheirKernelsCannotHold) {
  using enum ModuleKind;
  const auto is_valid = [](ModuleKind kind, DataType data_type, std::int64_t columns) {
    Model model;
    model.modules.push_back(module_with(kind, {{data_type, Pooling::kSum}}));
    model.modules[0].tables[0].embedding_dim = columns;
    return validate(model).has_value();
  };
  EXPECT_TRUE(is_valid(kEmbeddingBagCollection, DataType::kFp32, 10));
  EXPECT_FALSE(is_valid(kFusedEmbeddingBagCollection, DataType::kFp32, 10));
  EXPECT_TRUE(is_valid(kFusedEmbeddingBagCollection, DataType::kFp32, 12));
  EXPECT_TRUE(is_valid(kQuantEmbeddingBagCollection, DataType::kInt8, 7));
  EXPECT_FALSE(is_valid(kQuantEmbeddingBagCollection, DataType::kInt4, 7));
  EXPECT_TRUE(is_valid(kQuantEmbeddingBagCollection, DataType::kInt4, 6));
  EXPECT_FALSE(is_valid(kQuantEmbeddingBagCollection, DataType::kInt2, 6));
  EXPECT_TRUE(is_valid(kQuantEmbeddingBagCollection, DataType::kFp32, 7));
  EXPECT_FALSE(is_valid(kQuantEmbeddingBagCollection, DataType::kBf16, 8));
}

// Every kind is seen by every release that has it.
TEST(ModuleKinds, AreAllInTheRecords) {
  std::map<std::string, std::set<std::string>> kinds;  // by release
  for (const Json& record : records("records")) {
    for (const Json& module : record.at("model").at("modules")) {
      for (const std::string& release : list_of<std::string>(record, "releases")) {
        kinds[release].insert(module.at("kind").get<std::string>());
      }
    }
  }
  for (const auto& [release, names] : kinds) {
    std::set<std::string> expected(enum_names<ModuleKind>().begin(),
                                   enum_names<ModuleKind>().end());
    if (!cost_model_of(release).pec) expected.erase("pec_embedding_collection");
    if (release == "1.4.0") expected.erase("quant_managed_collision_embedding_bag_collection");
    EXPECT_EQ(names, expected) << release;
  }
  EXPECT_EQ(kinds.size(), 3U);
}

}  // namespace
}  // namespace plimsoll::embedding
