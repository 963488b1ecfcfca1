// What the balanced search reads beside a model: step models, rules, dumps of options.

#include <gtest/gtest.h>

#include "io/documents/placement_rules_json.h"
#include "io/documents/step_model_json.h"
#include "io/documents/torchrec_options_json.h"
#include "io/expect_error.h"

namespace plimsoll::io {
namespace {

using embedding::ShardingType;

TEST(StepModelJson, ReadsBackWhatItWrote) {
  const embedding::StepModel model{1.7, 1.1, 1.4, 7.3e-7, .25, 3, false};
  EXPECT_EQ(*read_step_model(write_step_model(model), "s.json"), model);
  const auto read = read_step_model(R"({"floor_ms": 2, "source": "measured"})", "s.json");
  ASSERT_TRUE(read);
  EXPECT_EQ(read->floor_ms, 2);
  EXPECT_EQ(read->ms_per_sharding_type, .5);
  EXPECT_FALSE(read->is_assumed);
}

TEST(StepModelJson, RefusesWhatIsNone) {
  expect_error(read_step_model(R"({"floor_ms": -1})", "s.json"), ErrorCode::kValue,
               "s.json#/floor_ms", "");
  expect_error(read_step_model(R"({"floor": 1})", "s.json"), ErrorCode::kSchema, "s.json#/floor",
               "");
}

TEST(PlacementRulesJson, ReadBackAsWritten) {
  embedding::BridgeOptions rules;
  rules.allowed_ranks = {{"m.a", {0, 3}}};
  rules.forbidden_ranks = {{"m.b", {1}}};
  rules.together = {{"m.a", "m.b"}};
  rules.apart = {{"m.c", "m.d"}};
  embedding::BridgeOptions read;
  ASSERT_TRUE(read_placement_rules(write_placement_rules(rules), "r.json", read));
  EXPECT_EQ(read.allowed_ranks, rules.allowed_ranks);
  EXPECT_EQ(read.forbidden_ranks, rules.forbidden_ranks);
  EXPECT_EQ(read.together, rules.together);
  EXPECT_EQ(read.apart, rules.apart);
  EXPECT_EQ(write_placement_rules({}), "");
  ASSERT_TRUE(read_placement_rules(R"({"allowed_ranks": {"t": [3, 1, 3]}})", "r.json", read));
  EXPECT_EQ(read.allowed_ranks.at("t"), (std::vector<int>{1, 3}));
  expect_error(read_placement_rules(R"({"allowed_ranks": {"t": []}})", "r.json", read),
               ErrorCode::kValue, "r.json#/allowed_ranks/t", "");
  expect_error(read_placement_rules(R"({"apart": ["t"]})", "r.json", read), ErrorCode::kSchema,
               "r.json#/apart/0", "");
}

// Two hosts of two ranks; table a whole, by columns, by rows and in blocks of a host; b by rows.
std::string dump(const std::string& what = "", const std::string& with = "") {
  std::string text = R"({"schema": "plimsoll.torchrec_options/1", "torchrec": "1.8.0",
  "world_size": 4, "local_world_size": 2, "context_hash": "c", "batch_size": 64,
  "room": [[900, 50, 0], [900, 50, 0], [900, 50, 0], [900, 50, 0]],
  "shard_classes": [[400, 0, 0, 2.5, 1, 0.5, 0.5, 0.25, 0.25], [100, 8, 0, 1, 1, 0, 0, 0, 0],
                    [97, 8, 0, 1, 1, 0, 0, 0, 0]],
  "options": [
   {"fqn": "m.a", "sharding_type": "table_wise", "compute_kernel": "fused", "shards": [0],
    "sizes": [[10, 64]], "rows": 10, "columns": 64, "storage_hash": 18446744073709551615},
   {"fqn": "m.b", "group": "m.b", "sharding_type": "row_wise", "compute_kernel": "fused_uvm",
    "shards": [1, 1, 1, 2], "sizes": [[3, 8], [3, 8], [3, 8], [1, 8]], "rows": 10, "columns": 8,
    "pooling": "mean", "num_poolings": null},
   {"fqn": "m.a", "sharding_type": "grid_shard", "compute_kernel": "fused",
    "shards": [1, 2, 1, 2], "sizes": [[6, 32], [4, 32], [6, 32], [4, 32]], "rows": 10,
    "columns": 64}]})";
  if (!what.empty()) {
    const std::size_t at = text.find(what);
    EXPECT_NE(at, std::string::npos) << what;
    text.replace(at, what.size(), with);
  }
  return text;
}

TEST(TorchrecOptionsJson, MakesAnOptionSet) {
  EXPECT_TRUE(is_torchrec_options(dump()));
  EXPECT_FALSE(is_torchrec_options(R"({"tables": []})"));
  const auto read = read_torchrec_options(dump(), "d.json");
  ASSERT_TRUE(read) << format_error(read.error());
  const embedding::OptionSet& set = read->options;
  EXPECT_EQ(set.group_size, 2);
  ASSERT_EQ(set.tables.size(), 2U);
  EXPECT_EQ(set.tables[0].fqn, "m.a");
  EXPECT_EQ(set.tables[0].module_path, "m");
  EXPECT_EQ(set.tables[0].num_options, 2);
  EXPECT_EQ(set.tables[1].dependency, "");
  EXPECT_EQ(read->position, (std::vector<std::int64_t>{0, 2, 1}));
  EXPECT_EQ(read->storage_hash[0], 18446744073709551615U);
  EXPECT_FALSE(read->storage_hash[1]);
  EXPECT_TRUE(read->has_components);
  EXPECT_EQ(read->context_hash, "c");
  EXPECT_EQ(read->model.modules[0].tables[1].pooling, embedding::Pooling::kMean);
  const embedding::Option& grid = set.options[1];
  EXPECT_EQ(grid.sharding_type, ShardingType::kGridShard);
  EXPECT_EQ(grid.column_blocks, 2);
  ASSERT_EQ(set.shards(grid).runs.size(), 2U);
  EXPECT_EQ(set.shards(grid).runs[1].first_row, 6);
  EXPECT_EQ(set.shards(grid).total_storage().hbm, 394);
  const embedding::ShardRuns rows = set.shards(set.options[2]);
  ASSERT_EQ(rows.runs.size(), 2U);
  EXPECT_EQ(rows.runs[0].count, 3);
  EXPECT_EQ(rows.runs[0].row_stride, 3);
  EXPECT_EQ(rows.runs[1].storage, (embedding::Storage{97, 8, 0}));
  EXPECT_EQ(set.shards(set.options[0]).runs[0].perf.total(), 2.5);
  EXPECT_FALSE(read_torchrec_options(
                   dump("[400, 0, 0, 2.5, 1, 0.5, 0.5, 0.25, 0.25]", "[400, 0, 0, 2.5]"), "d.json")
                   ->has_components);
}

TEST(TorchrecOptionsJson, HasTheCostModelOfItsRelease) {
  const std::pair<const char*, const char*> cases[] = {
      {"0.8.0", "torchrec-1.2"},  {"1.2.0", "torchrec-1.2"}, {"1.3.0", "torchrec-1.4"},
      {"1.4.0", "torchrec-1.4"},  {"1.5.0", "torchrec-1.5"}, {"1.6.1", "torchrec-1.7"},
      {"1.7.0", "torchrec-1.7"},  {"1.8", "torchrec-1.8"},   {"1.9.0+cpu", "torchrec-1.9"},
      {"1.12.1", "torchrec-1.9"}, {"2.0.0", "torchrec-1.9"}, {"", "torchrec-1.9"},
      {"1", "torchrec-1.9"},      {"1.x", "torchrec-1.9"},   {"nightly", "torchrec-1.9"}};
  for (const auto& [release, name] : cases) {
    SCOPED_TRACE(release);
    const auto read =
        read_torchrec_options(dump("\"1.8.0\"", "\"" + std::string(release) + "\""), "d.json");
    ASSERT_TRUE(read) << format_error(read.error());
    EXPECT_EQ(read->cost_model.name, name);
    EXPECT_EQ(read->options.key_value_columns_on_distinct_ranks,
              read->cost_model.key_value_columns_on_distinct_ranks);
  }
}

TEST(TorchrecOptionsJson, NamesThePlaceOfAnError) {
  const auto refuse = [](const std::string& what, const std::string& with, ErrorCode code,
                         const std::string& place) {
    SCOPED_TRACE(with);
    expect_error(read_torchrec_options(dump(what, with), "d.json"), code, "d.json#" + place, "");
  };
  refuse("[900, 50, 0], [900", "[900", ErrorCode::kValue, "/room");
  refuse("[900, 50, 0]", "[900, 50]", ErrorCode::kSchema, "/room/0");
  refuse("[400, 0, 0, 2.5,", "[400, 0, 0, 2.6,", ErrorCode::kConflict, "/shard_classes/0");
  refuse("[100, 8, 0, 1, 1, 0, 0, 0, 0]", "[100, 8, 0]", ErrorCode::kSchema, "/shard_classes/1");
  refuse("[100, 8,", "[100.5, 8,", ErrorCode::kValue, "/shard_classes/1/0");
  refuse("\"shards\": [0]", "\"shards\": [3]", ErrorCode::kValue, "/options/0/shards/0");
  refuse("\"shards\": [0]", "\"shards\": [0, 0]", ErrorCode::kValue, "/options/0/shards");
  refuse("[[10, 64]]", "[[10, 64], [1, 1]]", ErrorCode::kValue, "/options/0/sizes");
  refuse("[[10, 64]]", "[[10]]", ErrorCode::kSchema, "/options/0/sizes/0");
  refuse("[1, 2, 1, 2]", "[1, 2, 2, 1]", ErrorCode::kValue, "/options/2/shards/2");
  refuse("\"world_size\": 4", "\"world_size\": 0", ErrorCode::kValue, "/world_size");
  refuse("\"context_hash\"", "\"group_size\": 3, \"context_hash\"", ErrorCode::kValue,
         "/group_size");
  refuse("\"rows\": 10,\n    \"columns\": 64}", "\"rows\": 11,\n    \"columns\": 64}",
         ErrorCode::kConflict, "/options/2");
}

}  // namespace
}  // namespace plimsoll::io
