#include "plimsoll/io/model_json.h"

#include <gtest/gtest.h>

#include "io/expect_error.h"
#include "io/random_documents.h"

namespace plimsoll::io {
namespace {

using embedding::ConstraintMap;
using embedding::Model;

bool are_equal(const Model& a, const Model& b) {
  return a.name == b.name && a.modules == b.modules &&
         a.dense_parameter_bytes == b.dense_parameter_bytes &&
         a.dense_buffer_bytes == b.dense_buffer_bytes && a.optimizer == b.optimizer &&
         a.batch_size == b.batch_size && a.constraints == b.constraints;
}

// A model of one module with one table, which holds `fields` besides what is required.
std::string with_table(const std::string& fields) {
  return R"({"modules": [{"path": "m", "tables": [{"name": "t", "num_embeddings": 10, )"
         R"("embedding_dim": 4)" +
         fields + "}]}]}";
}
const std::string kTable = "m.json#/modules/0/tables/0";

void expect_table_error(const std::string& fields, ErrorCode code, const std::string& pointer,
                        const std::string& text = "") {
  SCOPED_TRACE(fields);
  expect_error(read_model(with_table(fields), "m.json"), code, kTable + pointer, text);
}

TEST(ModelJson, ReadsBackWhatItWrote) {
  for (std::uint64_t seed = 0; seed < 300; ++seed) {
    SCOPED_TRACE(seed);
    Random random(seed);
    const Model model = random_model(random);
    const std::string text = write_model(model);
    const Result<Model> read = read_model(text, "m.json");
    ASSERT_TRUE(read.has_value()) << format_error(read.error()) << "\n" << text;
    EXPECT_TRUE(are_equal(*read, model)) << text;
    EXPECT_EQ(write_model(*read), text);
  }
}

TEST(ConstraintsJson, ReadsBackWhatItWrote) {
  for (std::uint64_t seed = 0; seed < 300; ++seed) {
    SCOPED_TRACE(seed);
    Random random(seed);
    const ConstraintMap constraints = random_constraint_map(random);
    const std::string text = write_constraints(constraints);
    const Result<ConstraintMap> read = read_constraints(text, "c.json");
    ASSERT_TRUE(read.has_value()) << format_error(read.error()) << "\n" << text;
    EXPECT_EQ(*read, constraints) << text;
  }
}

TEST(ModelJson, TakesTablesAtTheTopAsOneCollectionAtTheRoot) {
  const auto model = read_model(
      R"({"schema": "plimsoll.model/1",
          "tables": [{"name": "t", "num_embeddings": 10, "embedding_dim": 4}]})",
      "m.json");
  ASSERT_TRUE(model.has_value()) << format_error(model.error());
  ASSERT_EQ(model->modules.size(), 1u);
  EXPECT_EQ(model->modules[0].path, "");
  EXPECT_EQ(model->modules[0].kind, embedding::ModuleKind::kEmbeddingBagCollection);
  ASSERT_EQ(model->modules[0].tables.size(), 1u);
  EXPECT_EQ(model->modules[0].tables[0].name, "t");
}

TEST(ModelJson, ExpandsCounts) {
  const auto model = read_model(with_table(R"(, "count": 3, "feature_names": ["f", "g"],
                                             "constraints": {"pooling_factors": [1, 2.5]})"),
                                "m.json");
  ASSERT_TRUE(model.has_value()) << format_error(model.error());
  const auto& tables = model->modules[0].tables;
  ASSERT_EQ(tables.size(), 3u);
  EXPECT_EQ(tables[0].name, "t_0");
  EXPECT_EQ(tables[2].name, "t_2");
  EXPECT_EQ(tables[2].feature_names, (std::vector<std::string>{"f_2", "g_2"}));
  EXPECT_EQ(tables[2].num_embeddings, 10);
  ASSERT_EQ(model->constraints.size(), 3u);
  EXPECT_EQ(model->constraints.at("t_1").pooling_factors, (std::vector<double>{1, 2.5}));
}

TEST(ModelJson, GivesACountOfOneASuffixToo) {
  const auto model = read_model(with_table(R"(, "count": 1)"), "m.json");
  ASSERT_TRUE(model.has_value());
  EXPECT_EQ(model->modules[0].tables[0].name, "t_0");
}

TEST(ModelJson, RefusesCountsThatAskForTooMuch) {
  expect_table_error(R"(, "count": 0)", ErrorCode::kValue, "/count");
  expect_table_error(R"(, "count": 1000000000000)", ErrorCode::kValue, "/count");
  const std::string half =
      R"({"name": "NAME", "count": 1000000, "num_embeddings": 1, "embedding_dim": 4})";
  expect_error(read_model(R"({"tables": [)" + half + ", " + half + "]}", "m.json"),
               ErrorCode::kValue, "m.json#/tables/1/count");
}

TEST(ModelJson, MergesConstraintsOfATableByName) {
  const auto model = read_model(
      R"({"modules": [
            {"path": "a", "tables": [{"name": "t", "num_embeddings": 10, "embedding_dim": 4,
                                      "constraints": {"min_partition": 4}}]},
            {"path": "b", "tables": [{"name": "t", "num_embeddings": 10, "embedding_dim": 4,
                                      "constraints": {"min_partition": 4}}]}],
          "constraints": {"t": {"min_partition": 4}, "other": {"is_weighted": true}}})",
      "m.json");
  ASSERT_TRUE(model.has_value()) << format_error(model.error());
  EXPECT_EQ(model->constraints.size(), 2u);
  EXPECT_EQ(model->constraints.at("t").min_partition, 4);
}

TEST(ModelJson, RefusesConstraintsThatContradictEachOther) {
  expect_error(read_model(R"({"modules": [
            {"path": "a", "tables": [{"name": "t", "num_embeddings": 10, "embedding_dim": 4,
                                      "constraints": {"min_partition": 4}}]},
            {"path": "b", "tables": [{"name": "t", "num_embeddings": 10, "embedding_dim": 4,
                                      "constraints": {"min_partition": 8}}]}]})",
                          "m.json"),
               ErrorCode::kConflict, "m.json#/modules/1/tables/0/constraints",
               "/modules/0/tables/0/constraints");
  expect_error(read_model(R"({"tables": [{"name": "t", "num_embeddings": 10, "embedding_dim": 4,
                                          "constraints": {"min_partition": 4}}],
                              "constraints": {"t": {"min_partition": 8}}})",
                          "m.json"),
               ErrorCode::kConflict, "m.json#/tables/0/constraints", "/constraints/t");
}

TEST(ModelJson, RefusesUnknownKeysAndSaysWhatWasMeant) {
  expect_table_error(R"(, "num_embedings": 3)", ErrorCode::kSchema, "/num_embedings",
                     "did you mean 'num_embeddings'");
  expect_table_error(R"(, "constraints": {"pooling_factor": [3]})", ErrorCode::kSchema,
                     "/constraints/pooling_factor", "did you mean 'pooling_factors'");
  expect_error(read_model(R"({"tabels": []})", "m.json"), ErrorCode::kSchema, "m.json#/tabels",
               "did you mean 'tables'");
  // A mistyped required key is named, not called missing.
  expect_error(read_model(R"({"tables": [{"nme": "t"}]})", "m.json"), ErrorCode::kSchema,
               "m.json#/tables/0/nme", "did you mean 'name'");
}

TEST(ModelJson, RefusesMissingKeys) {
  expect_error(read_model(R"({"tables": [{"name": "t", "embedding_dim": 4}]})", "m.json"),
               ErrorCode::kSchema, "m.json#/tables/0", "'num_embeddings' is missing");
  expect_error(read_model("{}", "m.json"), ErrorCode::kSchema, "m.json#", "modules");
}

TEST(ModelJson, RefusesDuplicateKeys) {
  expect_table_error(R"(, "name": "u")", ErrorCode::kSyntax, "/name", "twice");
}

TEST(ModelJson, RefusesWrongTypes) {
  expect_error(read_model("[]", "m.json"), ErrorCode::kSchema, "m.json#", "an object");
  expect_error(read_model("{\"modules\": {}}", "m.json"), ErrorCode::kSchema, "m.json#/modules",
               "expected an array, found an object");
  expect_table_error(R"(, "count": 2.0)", ErrorCode::kSchema, "/count", "expected an integer");
  expect_table_error(R"(, "use_virtual_table": 1)", ErrorCode::kSchema, "/use_virtual_table",
                     "expected a boolean");
  expect_table_error(R"(, "feature_names": ["f", 7])", ErrorCode::kSchema, "/feature_names/1",
                     "expected a string");
  expect_table_error(R"(, "num_poolings": ["1"])", ErrorCode::kSchema, "/num_poolings/0",
                     "expected a number");
  expect_table_error(R"(, "optimizer": null)", ErrorCode::kSchema, "/optimizer",
                     "leave the key out");
  expect_table_error(R"(, "data_type": 32)", ErrorCode::kSchema, "/data_type", "expected a name");
}

TEST(ModelJson, RefusesUnknownNamesAndSaysWhatWasMeant) {
  expect_table_error(R"(, "data_type": "fp31")", ErrorCode::kValue, "/data_type",
                     "did you mean 'fp32'");
  expect_table_error(R"(, "constraints": {"sharding_types": ["row_wise", "colum_wise"]})",
                     ErrorCode::kValue, "/constraints/sharding_types/1",
                     "did you mean 'column_wise'");
  expect_error(read_model(R"({"modules": [{"kind": "embeding_bag", "tables": []}]})", "m.json"),
               ErrorCode::kValue, "m.json#/modules/0/kind", "did you mean 'embedding_bag'");
}

TEST(ModelJson, RefusesNumbersThatDoNotFit) {
  expect_error(read_model(R"({"tables": [{"name": "t", "num_embeddings": 9223372036854775808,
                                          "embedding_dim": 4}]})",
                          "m.json"),
               ErrorCode::kOverflow, "m.json#/tables/0/num_embeddings", "does not fit");
  expect_error(read_model(R"({"tables": [{"name": "t", "num_embeddings": 18446744073709551616,
                                          "embedding_dim": 4}]})",
                          "m.json"),
               ErrorCode::kOverflow, "m.json#/tables/0/num_embeddings", "does not fit");
  expect_error(read_model(R"({"dense_parameter_bytes": "16 EiB", "modules": []})", "m.json"),
               ErrorCode::kOverflow, "m.json#/dense_parameter_bytes");
  expect_table_error(R"(, "element_size": 4294967300)", ErrorCode::kOverflow, "/element_size",
                     "does not fit");
}

TEST(ModelJson, RefusesNumbersOutOfRange) {
  expect_error(read_model(R"({"tables": [{"name": "t", "num_embeddings": -1,
                                          "embedding_dim": 4}]})",
                          "m.json"),
               ErrorCode::kValue, "m.json#/tables/0/num_embeddings", "at least 0");
  expect_error(read_model(R"({"dense_buffer_bytes": -8, "modules": []})", "m.json"),
               ErrorCode::kValue, "m.json#/dense_buffer_bytes");
  expect_error(read_model(R"({"dense_buffer_bytes": "8 apples", "modules": []})", "m.json"),
               ErrorCode::kValue, "m.json#/dense_buffer_bytes");
  expect_table_error(R"(, "constraints": {"pooling_factors": [1, -2]})", ErrorCode::kValue,
                     "/constraints/pooling_factors/1");
  expect_table_error(R"(, "constraints": {"cache_params": {"load_factor": 1.5}})",
                     ErrorCode::kValue, "/constraints/cache_params/load_factor", "at most 1");
}

TEST(ModelJson, RefusesNaN) {
  expect_table_error(R"(, "num_poolings": [NaN])", ErrorCode::kSyntax, "/num_poolings/0", "NaN");
}

TEST(ModelJson, ReadsSizesWithUnits) {
  const auto model = read_model(R"({"dense_parameter_bytes": "1.5 GiB", "dense_buffer_bytes": "2MB",
                     "modules": []})",
                                "m.json");
  ASSERT_TRUE(model.has_value()) << format_error(model.error());
  EXPECT_EQ(model->dense_parameter_bytes, 3 * kGiB / 2);
  EXPECT_EQ(model->dense_buffer_bytes, 2000000);
}

TEST(ModelJson, PlacesWhatTheModelRefusesInTheDocument) {
  // Equal names, though only the second entry of the document makes the third table.
  expect_error(read_model(R"({"tables": [
            {"name": "t", "count": 2, "num_embeddings": 10, "embedding_dim": 4},
            {"name": "t_1", "num_embeddings": 10, "embedding_dim": 4}]})",
                          "m.json"),
               ErrorCode::kConflict, "m.json#/tables/1/name", "t_1");
  expect_error(read_model(R"({"modules": [{"path": "a", "tables": []},
                                          {"path": "a", "tables": []}]})",
                          "m.json"),
               ErrorCode::kConflict, "m.json#/modules/1/path");
  expect_table_error(R"(, "constraints": {"pooling_factors": [1, 2], "num_poolings": [1]})",
                     ErrorCode::kValue, "/constraints/num_poolings");
  expect_error(read_model(R"({"modules": [],
                              "constraints": {"a": {}, "a/b": {"pooling_factors": [1, 2],
                                                               "batch_sizes": [1]}}})",
                          "m.json"),
               ErrorCode::kValue, "m.json#/constraints/a~1b/batch_sizes");
}

TEST(ModelJson, RefusesTablesBesideModules) {
  expect_error(read_model(R"({"tables": [], "modules": []})", "m.json"), ErrorCode::kConflict,
               "m.json#/tables");
}

TEST(ModelJson, RefusesAnotherKindOfDocument) {
  expect_error(read_model(R"({"schema": "plimsoll.topology/1", "world_size": 2})", "m.json"),
               ErrorCode::kSchema, "m.json#/schema", "plimsoll.model/1");
  expect_error(read_model(R"({"schema": "plimsoll.model/2", "modules": []})", "m.json"),
               ErrorCode::kSchema, "m.json#/schema");
  expect_error(read_model(R"({"schema": 1, "modules": []})", "m.json"), ErrorCode::kSchema,
               "m.json#/schema");
}

TEST(ModelJson, RefusesTruncatedDocuments) {
  Random random(7);
  const std::string text = write_model(random_model(random));
  for (std::size_t length = 0; length + 1 < text.size(); length += 1 + length / 16) {
    SCOPED_TRACE(length);
    const auto model = read_model(text.substr(0, length), "m.json");
    ASSERT_FALSE(model.has_value());
    EXPECT_EQ(model.error().code, ErrorCode::kSyntax);
    EXPECT_TRUE(model.error().place.starts_with("m.json#"));
  }
}

TEST(ConstraintsJson, PlacesErrors) {
  expect_error(read_constraints(R"({"constraints": {"t": {"min_partitions": 1}}})", "c.json"),
               ErrorCode::kSchema, "c.json#/constraints/t/min_partitions",
               "did you mean 'min_partition'");
  expect_error(read_constraints(R"({"t": {}})", "c.json"), ErrorCode::kSchema, "c.json#/t");
  expect_error(read_constraints(
                   R"({"constraints": {"a/b": {"pooling_factors": [1, 2], "num_poolings": [1]}}})",
                   "c.json"),
               ErrorCode::kValue, "c.json#/constraints/a~1b/num_poolings");
}

}  // namespace
}  // namespace plimsoll::io
