#include "plimsoll/io/shipped.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <set>

#include "io/documents/document_keys.h"
#include "io/expect_error.h"
#include "io/import/dnn_partitioning_json.h"
#include "io/json/json_document.h"
#include "plimsoll/io/model_json.h"

namespace plimsoll::io {
namespace {

double number_of(const JsonValue& value) {
  if (const auto* integer = value.as<std::int64_t>()) return static_cast<double>(*integer);
  return *value.as<double>();
}

TEST(ShippedModels, AreThirtyTwoAndSorted) {
  EXPECT_EQ(shipped_models().size(), 32u);
  EXPECT_TRUE(std::is_sorted(
      shipped_models().begin(), shipped_models().end(),
      [](const ShippedDocument& a, const ShippedDocument& b) { return a.id < b.id; }));
}

TEST(ShippedModels, LoadWithTheTotalsThatTheirFactsState) {
  for (const ShippedDocument& shipped : shipped_models()) {
    SCOPED_TRACE(shipped.id);
    EXPECT_FALSE(shipped.description.empty());
    const auto model = load_shipped_model(shipped.id);
    ASSERT_TRUE(model.has_value()) << format_error(model.error());
    EXPECT_EQ(model->name, shipped.id);
    EXPECT_TRUE(embedding::find_model_warnings(*model).empty());

    const auto document = parse_json(shipped.text, "shipped");
    ASSERT_TRUE(document.has_value());
    for (const char* key : {"source", "provenance", "description", "schema"}) {
      EXPECT_NE(document->find(key), nullptr) << key;
    }
    const JsonValue* facts = document->find("facts");
    ASSERT_NE(facts, nullptr);
    const JsonValue* derived = facts->find("derived");
    ASSERT_NE(derived, nullptr);
    double tables = 0, rows = 0, params = 0, lookups = 0;
    std::set<std::string> names;
    for (const auto& module : model->modules) {
      for (const auto& table : module.tables) {
        tables += 1;
        rows += static_cast<double>(table.num_embeddings);
        params +=
            static_cast<double>(table.num_embeddings) * static_cast<double>(table.embedding_dim);
        EXPECT_TRUE(names.insert(table.name).second) << table.name;
        const auto& factors = model->constraints.at(table.name).pooling_factors;
        EXPECT_EQ(factors.size(), table.feature_names.size());
        for (const double factor : factors) lookups += factor;
      }
    }
    EXPECT_EQ(tables, number_of(*derived->find("tables")));
    EXPECT_EQ(rows, number_of(*derived->find("rows")));
    EXPECT_EQ(params, number_of(*derived->find("params")));
    EXPECT_EQ(lookups, number_of(*derived->find("lookups_per_sample")));
  }
}

TEST(ShippedModels, HoldTheBenchmarkOfDlrm) {
  const auto model = load_shipped_model("mlperf-dlrm-dcnv2");
  ASSERT_TRUE(model.has_value()) << format_error(model.error());
  ASSERT_EQ(model->modules.size(), 1u);
  EXPECT_EQ(model->modules[0].path, "ebc");
  EXPECT_EQ(model->modules[0].tables.size(), 26u);
  EXPECT_EQ(model->modules[0].tables[20].name, "cat_20");
  EXPECT_EQ(model->constraints.at("cat_20").pooling_factors, std::vector<double>{100});
  EXPECT_EQ(model->optimizer, embedding::Optimizer::kOther);
  EXPECT_FALSE(model->batch_size.has_value());
}

TEST(ShippedModels, KeepSequenceTablesApart) {
  const auto model = load_shipped_model("taobao-multitower-din");
  ASSERT_TRUE(model.has_value()) << format_error(model.error());
  ASSERT_EQ(model->modules.size(), 2u);
  EXPECT_EQ(model->modules[0].path, "ebc");
  EXPECT_EQ(model->modules[1].path, "ec");
  EXPECT_EQ(model->modules[1].kind, embedding::ModuleKind::kEmbeddingCollection);
}

TEST(ShippedModuleStats, LoadAndAreSorted) {
  const auto all = shipped_module_stats();
  EXPECT_EQ(all.size(), 3u);
  EXPECT_TRUE(std::is_sorted(all.begin(), all.end(),
                             [](const auto& a, const auto& b) { return a.id < b.id; }));
  for (const ShippedDocument& shipped : all) {
    SCOPED_TRACE(shipped.id);
    const auto stats = load_shipped_module_stats(shipped.id);
    ASSERT_TRUE(stats.has_value()) << format_error(stats.error());
    EXPECT_EQ(stats->name, shipped.id);
    EXPECT_TRUE(stats->total_step_peak.has_value());
    EXPECT_FALSE(stats->sac_stats.empty());
  }
  EXPECT_FALSE(load_shipped_module_stats("llama-3-9b").has_value());
}

TEST(ShippedGraphs, LoadAndAreSorted) {
  const auto all = shipped_graphs();
  EXPECT_EQ(all.size(), 3u);
  EXPECT_TRUE(std::is_sorted(all.begin(), all.end(),
                             [](const auto& a, const auto& b) { return a.id < b.id; }));
  for (const ShippedDocument& shipped : all) {
    SCOPED_TRACE(shipped.id);
    EXPECT_EQ(find_shipped_graph(shipped.id).value(), shipped.text);
    const auto input = read_dnn_partitioning(shipped.text, "shipped");
    ASSERT_TRUE(input.has_value()) << format_error(input.error());
    EXPECT_GE(input->graph.num_nodes(), 32);
  }
  expect_error(find_shipped_graph("bert24-inferense"), ErrorCode::kNotFound, "bert24-inferense",
               "did you mean 'bert24-inference'");
}

TEST(ShippedModels, AreSuggestedWhereAnUnknownOneIsAsked) {
  expect_error(load_shipped_model("mlperf-dlrm-dcnv3"), ErrorCode::kNotFound, "mlperf-dlrm-dcnv3",
               "did you mean 'mlperf-dlrm-dcnv2'");
}

TEST(Schemas, AreFoundByName) {
  for (const char* name :
       {"checkpoint_policy", "constraints",   "cost_graph",      "expert_plan",     "experts",
        "explanation",       "fx_graph",      "machine",         "machine_size",    "model",
        "module_stats",      "pipeline_plan", "placement",       "placement_rules", "plan",
        "plan_difference",   "plan_report",   "pooling_factors", "prices",          "replan",
        "robust_plan",       "sac_stats",     "save_policy",     "step_model",      "topology",
        "torchrec_options",  "trace",         "tradeoff_curves", "what_if"}) {
    EXPECT_TRUE(find_schema(name).has_value()) << name;
  }
  EXPECT_EQ(schemas().size(), 29u);
  expect_error(find_schema("modell"), ErrorCode::kNotFound, "modell", "did you mean 'model'");
}

std::set<std::string> strings_of(const JsonValue* value) {
  std::set<std::string> result;
  if (value == nullptr) return result;
  for (const JsonValue& entry : *value->as<JsonValue::Array>()) {
    result.insert(*entry.as<std::string>());
  }
  return result;
}

// Names of an enumeration stand under "enum"; where the reader also takes others, under "examples".
std::set<std::string> names_of_property(const JsonValue& property) {
  const JsonValue* items = property.find("items");
  const JsonValue& scalar = items != nullptr ? *items : property;
  std::set<std::string> names = strings_of(scalar.find("enum"));
  names.merge(strings_of(scalar.find("examples")));
  return names;
}

TEST(Schemas, HaveTheKeysThatTheReadersKnow) {
  std::set<std::string> described;
  for (const TypeKeys& type : document_keys()) {
    SCOPED_TRACE(type.schema + "/" + type.definition);
    const auto text = find_schema(type.schema);
    ASSERT_TRUE(text.has_value());
    const auto schema = parse_json(*text, type.schema);
    ASSERT_TRUE(schema.has_value()) << format_error(schema.error());
    const JsonValue* definition = &*schema;
    if (!type.definition.empty()) definition = schema->find("$defs")->find(type.definition);
    ASSERT_NE(definition, nullptr);
    described.insert(type.schema + "/" + type.definition);

    const JsonValue* properties = definition->find("properties");
    ASSERT_NE(properties, nullptr);
    std::vector<std::string> in_schema, in_reader;
    for (const JsonMember& member : *properties->as<JsonValue::Object>()) {
      in_schema.push_back(member.key);
    }
    std::set<std::string> required;
    for (const KeyInfo& key : type.keys) {
      in_reader.push_back(key.key);
      if (key.is_required) required.insert(key.key);
      if (const JsonValue* property = properties->find(key.key)) {
        EXPECT_EQ(names_of_property(*property),
                  std::set<std::string>(key.names.begin(), key.names.end()))
            << key.key;
      }
    }
    EXPECT_EQ(in_schema, in_reader);
    EXPECT_EQ(strings_of(definition->find("required")), required);
    const JsonValue* additional = definition->find("additionalProperties");
    ASSERT_NE(additional, nullptr);
    EXPECT_FALSE(*additional->as<bool>());
  }
  // And no definition of an object that the readers do not have, but in documents that are only
  // written: tests/app holds these against their schemas.
  const std::set<std::string> only_written = {"plan_difference", "plan_report", "trace"};
  for (const Schema& schema : schemas()) {
    if (only_written.contains(std::string(schema.name))) continue;
    const auto root = parse_json(schema.text, schema.name);
    ASSERT_TRUE(root.has_value());
    for (const JsonMember& member : *root->find("$defs")->as<JsonValue::Object>()) {
      if (member.value.find("properties") == nullptr) continue;
      EXPECT_TRUE(described.contains(std::string(schema.name) + "/" + member.key)) << member.key;
    }
  }
}

}  // namespace
}  // namespace plimsoll::io
