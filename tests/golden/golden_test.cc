// The judge itself: it must pass what agrees and name what does not, whatever is missing from a
// file.

#include "golden.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <fstream>
#include <functional>
#include <set>
#include <string>

#include "checkpointing_golden.h"
#include "embedding_golden.h"
#include "graph_partition_golden.h"

namespace plimsoll::golden {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

Json load(const std::string& name) {
  std::ifstream stream(std::string(PLIMSOLL_TEST_DATA "/golden/") + name);
  return Json::parse(stream);
}

Replay replay(const Json& document) {
  const auto result = replay_records(document, embedding_kinds());
  EXPECT_TRUE(result.has_value()) << format_error(result.error());
  return result.value_or(Replay{});
}

// The record numbers `indices` of one list, alone in a document.
Json excerpt(const Json& document, const std::string& kind, std::initializer_list<int> indices) {
  Json records = Json::array();
  for (const int index : indices)
    records.push_back(document[kind][static_cast<std::size_t>(index)]);
  Json result;
  result[kind] = records;
  return result;
}

TEST(Golden, PassesRecordsThatAgree) {
  const Replay result = replay(excerpt(load("embedding.json"), "options", {0, 1, 2, 3}));
  EXPECT_EQ(result.passed, 4);
  EXPECT_EQ(result.failed, 0);
  EXPECT_THAT(result.differences, IsEmpty());
  EXPECT_THAT(result.bad_records, IsEmpty());
  EXPECT_THAT(result.unread, IsEmpty());
}

TEST(Golden, SeesTheLastBitOfAPerf) {
  Json document = excerpt(load("embedding.json"), "options", {0, 1});
  Json& value = document["options"][1]["shard_runs"][0]["perf"][2];
  const std::string ours = value.dump();
  value = std::nextafter(value.get<double>(), 1e300);
  const Replay result = replay(document);
  EXPECT_EQ(result.passed, 1);
  EXPECT_EQ(result.failed, 1);
  EXPECT_THAT(result.differences,
              ElementsAre(Difference{"options", 1, "shard_runs[0].perf[2]", value.dump(), ours}));
}

TEST(Golden, SeesAByteAShardAndARank) {
  Json document = load("embedding-live.json");
  document.erase("reports");
  document["options"] = excerpt(document, "options", {0})["options"];
  document["plans"] = excerpt(document, "plans", {1})["plans"];
  EXPECT_EQ(replay(document).passed, 2);

  Json& run = document["options"][0]["shard_runs"][0];
  run["hbm"] = run["hbm"].get<std::int64_t>() + 1;
  document["options"][0]["shard_runs"].push_back(run);
  Json& rank = document["plans"][0]["plan"][0]["ranks"][0];
  rank = rank.get<int>() + 1;
  const Replay result = replay(document);
  EXPECT_EQ(result.failed, 2);
  ASSERT_EQ(result.differences.size(), 3u);
  EXPECT_EQ(result.differences[0].field, "shard_runs.length");
  EXPECT_EQ(result.differences[1].field, "shard_runs[0].hbm");
  EXPECT_EQ(result.differences[2].field, "plan[0].ranks[0]");
}

TEST(Golden, SeesAnErrorTextAndAnErrorThatIsNoneOfOurs) {
  Json document = excerpt(load("embedding-live.json"), "plans", {20, 24, 33});
  EXPECT_EQ(replay(document).passed, 3);
  document["plans"][0]["error_text"] = "another text";
  document["plans"][1]["exception"] = "KeyError";
  document["plans"][2].erase("exception");
  const Replay result = replay(document);
  EXPECT_EQ(result.failed, 3);
  ASSERT_EQ(result.differences.size(), 3u);
  EXPECT_EQ(result.differences[0].field, "error_text");
  EXPECT_EQ(result.differences[1].field, "exception");
  EXPECT_EQ(result.differences[2].expected, "null");
  EXPECT_EQ(result.differences[2].ours, "\"ZeroDivisionError\"");
}

TEST(Golden, TakesAnyExceptionForAnAssertion) {
  Json document = excerpt(load("embedding-live.json"), "plans", {20, 24});
  for (Json& record : document["plans"]) record["exception"] = "AssertionError";
  document["plans"][1]["error_text"] = "";
  const Replay result = replay(document);
  EXPECT_EQ(result.passed, 1);
  ASSERT_EQ(result.differences.size(), 1u);  // a planner's error is no exception
  EXPECT_EQ(result.differences[0].index, 0u);
  EXPECT_EQ(result.differences[0].field, "exception");
}

TEST(Golden, SeesALineOfAReport) {
  Json document = excerpt(load("embedding-live.json"), "reports", {0});
  document["reports"][0]["lines"][3] = "#";
  const Replay result = replay(document);
  ASSERT_EQ(result.differences.size(), 1u);
  EXPECT_EQ(result.differences[0].field, "lines[3]");
}

TEST(Golden, NamesWhatItCannotReadAndGoesOn) {
  Json document = excerpt(load("embedding.json"), "options", {0, 1, 2, 3});
  document["options"][0]["table"]["rows"] = "many";
  document["options"][1].erase("sharding_type");
  document["options"][2]["release"] = "0.1.0";
  document["options"][3]["table"]["colour"] = "red";
  const Replay result = replay(document);
  EXPECT_EQ(result.passed, 1);
  EXPECT_EQ(result.failed, 3);
  ASSERT_EQ(result.bad_records.size(), 3u);
  EXPECT_EQ(result.bad_records[0].place, "options[0].table.rows");
  EXPECT_THAT(result.bad_records[1].message, HasSubstr("sharding_type"));
  EXPECT_EQ(result.bad_records[2].place, "options[2].release");
  EXPECT_THAT(result.unread, ElementsAre("options: table.colour"));
}

TEST(Golden, RefusesDocumentsWithoutRecords) {
  for (const char* text : {"{}", "[]", "3", R"({"options": 3})"}) {
    SCOPED_TRACE(text);
    EXPECT_FALSE(replay_records(Json::parse(text), embedding_kinds()).has_value());
  }
  const Replay result = replay(Json::parse(R"({"plans": []})"));
  EXPECT_EQ(result.passed + result.failed, 0);
}

TEST(Golden, TakesAListOfNoKnownKindForAFailure) {
  Json document = excerpt(load("embedding.json"), "options", {0});
  document["remark"] = "no record";
  EXPECT_EQ(replay(document).failed, 0);
  document["opinions"] = Json::array();
  const Replay result = replay(document);
  EXPECT_EQ(result.passed, 1);
  EXPECT_EQ(result.failed, 1);
  ASSERT_EQ(result.bad_records.size(), 1u);
  EXPECT_EQ(result.bad_records[0].place, "opinions");
}

TEST(Golden, TakesASingleRecordWithoutAListAroundIt) {
  Json document = excerpt(load("embedding.json"), "options", {0});
  document["options"] = Json(document["options"][0]);
  EXPECT_EQ(replay(document).passed, 1);
}

// What the replay of one record of the checkpointing files says differs, after `change`.
std::vector<std::string> differing(const std::string& file, const std::string& kind,
                                   std::size_t index, const std::function<void(Json&)>& change) {
  const Json all = load(file);
  Json document;
  if (all.contains("trees") && kind == "sac_milp") document["trees"] = all["trees"];
  Json record = all[kind].is_array() ? all[kind][index] : all[kind];
  change(record);
  document[kind] = Json::array({record});
  const auto result = replay_records(document, checkpointing_kinds());
  EXPECT_TRUE(result.has_value()) << format_error(result.error());
  std::vector<std::string> fields;
  for (const Difference& difference : result.value_or(Replay{}).differences) {
    fields.push_back(difference.field);
  }
  for (const Error& error : result.value_or(Replay{}).bad_records) fields.push_back(error.place);
  return fields;
}

TEST(CheckpointingGolden, SeesTheSixthDigitOfAnOptimum) {
  const auto differs = [](const std::function<void(Json&)>& change) {
    return differing("checkpointing.json", "sac_instances", 0, change);
  };
  EXPECT_THAT(differs([](Json&) {}), IsEmpty());
  EXPECT_THAT(differs([](Json& r) { r["expected"][3]["obj"] = 1.700002; }),
              ElementsAre("expected[3].obj"));
  EXPECT_THAT(differs([](Json& r) { r["expected"][3]["obj"] = -1; }),
              ElementsAre("expected[3].obj"));
  EXPECT_THAT(differs([](Json& r) { r["expected"][6]["obj"] = 5; }),
              ElementsAre("expected[6].obj"));
  EXPECT_THAT(differs([](Json& r) { r["expected"][3]["a_solution"]["R.a"] = 0.65; }),
              ElementsAre("expected[3].a_solution"));
  EXPECT_THAT(differs([](Json& r) { r["expected"][3]["a_solution"]["R.c"] = 0.5; }),
              ElementsAre("expected[3].a_solution"));
  EXPECT_THAT(differs([](Json& r) { r["nodes"][1]["sac_runtime"] = -4; }).size(), 1u);
}

TEST(CheckpointingGolden, SeesAnotherOrderCurveOrFit) {
  const auto differs = [](const std::function<void(Json&)>& change) {
    return differing("checkpointing-live.json", "greedy_order", 0, change);
  };
  EXPECT_THAT(differs([](Json&) {}), IsEmpty());
  EXPECT_THAT(differs([](Json& r) { r["meta"]["order"][2][0] = 15; }),
              ElementsAre("meta.order[2][0]"));
  EXPECT_THAT(differs([](Json& r) { r["meta"]["stored_ops"].push_back(1); }),
              ElementsAre("meta.stored_ops.length"));
  EXPECT_THAT(differs([](Json& r) { r["curve"][4][1] = 0.38120699496653010; }),
              ElementsAre("curve[4][1]"));
  EXPECT_THAT(differs([](Json& r) { r["slopes"][1] = 1.27; }), ElementsAre("slopes[1]"));
}

TEST(CheckpointingGolden, JudgesTorchsPlansByTheGap) {
  const auto differs = [](std::size_t index, const std::function<void(Json&)>& change) {
    return differing("checkpointing-live.json", "sac_milp", index, change);
  };
  EXPECT_THAT(differs(0, [](Json&) {}), IsEmpty());
  EXPECT_THAT(differs(0, [](Json& r) { r["exact_ms"] = 0.2505; }), ElementsAre("exact_ms"));
  EXPECT_THAT(differs(0, [](Json& r) { r["recompute_ms"] = 0.24; }),
              ElementsAre("decisions", "recompute_ms"));
  EXPECT_THAT(differs(0, [](Json& r) { r["recompute_ms"] = 0.28; }),
              ElementsAre("decisions", "recompute_ms"));
  EXPECT_THAT(differs(0, [](Json& r) { r["decisions"]["GPT.blocks.1.mlp"] = 0.35; }),
              ElementsAre("decisions"));
  EXPECT_THAT(differs(6, [](Json& r) { r["peak_bytes"] = 5; }), ElementsAre("peak_bytes"));
  EXPECT_THAT(differs(6, [](Json& r) { r["exact_ms"] = 5; }), ElementsAre("exact_ms"));
  EXPECT_THAT(differs(0, [](Json& r) { r["tree"] = "none"; }), ElementsAre("sac_milp[0].tree"));
}

TEST(CheckpointingGolden, SeesAPolicyThatIsNone) {
  const auto differs = [](const std::function<void(Json&)>& change) {
    return differing("checkpointing-live.json", "policy", 1, change);
  };
  EXPECT_THAT(differs([](Json&) {}), IsEmpty());
  EXPECT_THAT(differs([](Json& r) { r["exact_saved_runtime"] = 5.5246; }),
              ElementsAre("exact_saved_runtime"));
  EXPECT_THAT(differs([](Json& r) { r["bits"] = Json::array(); }),
              ElementsAre("bits", "saved_runtime"));
  EXPECT_THAT(differing("checkpointing.json", "per_module_knapsack", 0,
                        [](Json& r) { r["cases"][2][1][7] = 1; }),
              ElementsAre("cases[2][1][7]"));
}

Replay replay_graphs(const Json& document) {
  const auto result = replay_records(prepare_graph_partition(document), graph_partition_kinds());
  EXPECT_TRUE(result.has_value()) << format_error(result.error());
  return result.value_or(Replay{});
}

// The cases of these ids, alone in a document.
Json graph_cases(const Json& document, const std::set<std::string>& ids) {
  Json result;
  result["cases"] = Json::array();
  for (const Json& record : document["cases"]) {
    if (ids.contains(record["id"].get<std::string>())) result["cases"].push_back(record);
  }
  return result;
}

TEST(GraphPartitionGolden, JudgesBothReleases) {
  Json document =
      graph_cases(load("graph-partition.json"), {"edge-26-dead_branch", "upstream-cost_aware"});
  EXPECT_EQ(replay_graphs(document).passed, 2);

  document["cases"][0]["expected"]["partitions"][2]["nodes"][0] = "nobody";
  document["cases"][1]["expected"]["error"] = "IndexError: another text";
  const Replay result = replay_graphs(document);
  EXPECT_EQ(result.failed, 2);
  ASSERT_EQ(result.differences.size(), 3u);  // the first record speaks for both releases
  EXPECT_EQ(result.differences[0].field, "expected.partitions[2].nodes[0]");
  EXPECT_EQ(result.differences[1].field, "expected_torch_2_13.partitions[2].nodes[0]");
  EXPECT_EQ(result.differences[2].field, "expected.error");
}

TEST(GraphPartitionGolden, SeesTheLastBitOfALatency) {
  Json document = graph_cases(load("graph-partition.json"), {"upstream-kl_dead_test"});
  Json& value = document["cases"][0]["expected"]["critical_path_latency"];
  value = std::nextafter(value.get<double>(), 1e300);
  EXPECT_EQ(replay_graphs(document).failed, 1);
}

TEST(GraphPartitionGolden, ReplaysLargeCasesWithTheirInputs) {
  Json document = load("graph-partition-large.json");
  Json first = document["cases"][0];
  document["cases"] = Json::array({first, first, first, Json{{"mode", "size_based"}}});
  document["cases"][1]["critical_path"] = 1;
  document["cases"][2]["graph"] = "ring";
  const Replay result = replay_graphs(document);
  EXPECT_EQ(result.passed, 1);
  EXPECT_EQ(result.failed, 3);  // another path, an input that is missing, a case of no kind
  ASSERT_EQ(result.differences.size(), 1u);
  EXPECT_EQ(result.differences[0].field, "critical_path");
  EXPECT_EQ(result.bad_records.size(), 2u);
}

TEST(GraphPartitionGolden, NamesInputsThatItCannotRead) {
  const Json document = graph_cases(load("graph-partition.json"), {"upstream-aot"});
  const auto is_bad = [&document](const std::function<void(Json&)>& change) {
    Json changed = document;
    change(changed["cases"][0]["input"]);
    const Replay result = replay_graphs(changed);
    return result.bad_records.size() == 1 && result.failed == 1;
  };
  EXPECT_FALSE(is_bad([](Json&) {}));
  EXPECT_TRUE(is_bad([](Json& input) { input["mode"] = "magic"; }));
  EXPECT_TRUE(is_bad([](Json& input) { input["nodes"][0]["op"] = "call"; }));
  EXPECT_TRUE(is_bad([](Json& input) { input["nodes"][2]["args"][0] = "nobody"; }));
  EXPECT_TRUE(is_bad([](Json& input) { input["nodes"][2]["name"] = "a"; }));
  EXPECT_TRUE(is_bad([](Json& input) { input["nodes"][2].erase("name"); }));
  EXPECT_TRUE(is_bad([](Json& input) { input.erase("devices"); }));
  EXPECT_TRUE(is_bad([](Json& input) { input["devices"][0]["mem"] = "much"; }));
  EXPECT_TRUE(is_bad([](Json& input) { input["node_to_partition"]["nobody"] = 1; }));
  EXPECT_TRUE(is_bad([](Json& input) { input["partition_to_devices"]["first"] = {0}; }));
  EXPECT_TRUE(is_bad([](Json& input) { input["latency"]["add"] = {1, 2, 3}; }));
}

}  // namespace
}  // namespace plimsoll::golden
