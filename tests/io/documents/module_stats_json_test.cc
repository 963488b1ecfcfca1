#include "plimsoll/io/module_stats_json.h"

#include <gtest/gtest.h>

#include "io/expect_error.h"
#include "io/random_checkpoint_documents.h"
#include "plimsoll/io/files.h"

namespace plimsoll::io {
namespace {

using checkpoint::ModuleStats;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Not;
using ::testing::Pair;

std::string load(const std::string& name) {
  return read_text_file(PLIMSOLL_TEST_DATA "/checkpointing/" + name).value_or("");
}

// Two modules, R above R.a; `edit` replaces the first occurrence of a text.
std::string document(const std::string& from = "", const std::string& to = "") {
  std::string text = R"({
 "mod_order": {"fw_pre_order": ["R", "R.a"], "fw_post_order": ["R.a", "R"]},
 "mod_stats": [
  {"fqn": "R", "is_leaf": false, "param_per_module": 7, "grad_total": 0, "act_fw_per_module": 5,
   "act_grad_per_module": -3, "act_total": 9, "fw_runtime_per_module": 1,
   "bw_runtime_per_module": 2.5, "sac_runtime": 0.5, "sac_memory": 6, "n_segments": 1,
   "slopes": [0.5], "intercepts": [-0.25], "breakpoints": [0, 1],
   "tradeoff_curve": {"0.01": 0.0, "1.01": 1}},
  {"fqn": "R.a", "is_leaf": true, "param_per_module": 1, "grad_total": 0, "act_fw_per_module": 1,
   "act_grad_per_module": 1, "act_total": 1, "fw_runtime_per_module": 1,
   "bw_runtime_per_module": 1, "sac_runtime": 0, "sac_memory": 0}],
 "sac_stats": [{"func_names": ["mm", "relu_"], "runtimes": [1, 0.5], "memory": [8, 8],
   "view_like_ops": [], "rand_ops": [], "saved_autograd_ops": [0], "inplace_ops": [[1, 0]],
   "force_store_random": false}],
 "sac_stats_of": {"R": 0}
})";
  if (from.empty()) return text;
  const std::size_t at = text.find(from);
  EXPECT_NE(at, std::string::npos) << from;
  return text.replace(std::min(at, text.size()), from.size(), to);
}

TEST(ModuleStatsJson, ReadsBackWhatItWrites) {
  for (std::uint64_t seed = 0; seed < 300; ++seed) {
    SCOPED_TRACE(seed);
    Random random(seed);
    const ModuleStats stats = random_module_stats(random);
    const std::string text = write_module_stats(stats);
    const auto read = read_module_stats(text, "m.json");
    ASSERT_TRUE(read.has_value()) << format_error(read.error()) << "\n" << text;
    EXPECT_EQ(*read, stats) << text;
    EXPECT_EQ(write_module_stats(*read), text);
  }
}

TEST(ModuleStatsJson, ReadsBackOperatorTables) {
  for (std::uint64_t seed = 0; seed < 300; ++seed) {
    SCOPED_TRACE(seed);
    Random random(seed);
    const checkpoint::SACStats stats = random_sac_stats(random);
    const std::string text = write_sac_stats(stats);
    const auto read = read_sac_stats(text, "s.json");
    ASSERT_TRUE(read.has_value()) << format_error(read.error()) << "\n" << text;
    EXPECT_EQ(*read, stats) << text;
    EXPECT_EQ(write_sac_stats(*read), text);
  }
}

TEST(ModuleStatsJson, ReadsWhatTheTrackersRecord) {
  const auto stats = read_module_stats(load("gpt-native-12l.json"), "gpt.json");
  ASSERT_TRUE(stats.has_value()) << format_error(stats.error());
  EXPECT_EQ(stats->name, "gpt-native-12l");
  EXPECT_EQ(stats->torch, "2.13.0");
  EXPECT_EQ(stats->mod_stats.size(), 150u);
  EXPECT_EQ(stats->mod_stats[0].fqn, "GPT");
  EXPECT_EQ(stats->sac_stats.size(), 3u);
  EXPECT_EQ(stats->sac_stats_of.size(), 36u);
  EXPECT_EQ(stats->baseline_peak_bytes, 7998244864);
  EXPECT_EQ(stats->tracker_peak.at("Total"), 12420143708);
  ASSERT_TRUE(stats->roofline.has_value());
  EXPECT_EQ(stats->roofline->dram_gb_per_s, 2039);
  EXPECT_EQ(stats->roofline->tflops.at("float32"), 19.5);
  for (const checkpoint::ModuleInfo& module : stats->mod_stats) {
    EXPECT_EQ(module.grad_per_module, module.param_per_module);
    EXPECT_TRUE(module.requires_grad);
  }
  const auto again = read_module_stats(write_module_stats(*stats), "again.json");
  ASSERT_TRUE(again.has_value()) << format_error(again.error());
  EXPECT_EQ(*again, *stats);
}

TEST(ModuleStatsJson, ReadsATreeWithWhatTorchDerivesOfIt) {
  const auto stats = read_module_stats(load("pyramid.json"), "p.json");
  ASSERT_TRUE(stats.has_value()) << format_error(stats.error());
  EXPECT_EQ(stats->mod_stats.size(), 39u);
  EXPECT_EQ(stats->baseline_peak_bytes, 181455912);
  EXPECT_EQ(stats->baseline_compute_ms, 1.904231236077213);
}

TEST(ModuleStatsJson, ReadsWhatPythonMakesOfTorchsRecords) {
  const auto stats = read_module_stats(document(), "m.json");
  ASSERT_TRUE(stats.has_value()) << format_error(stats.error());
  EXPECT_THAT(stats->mod_stats[0].tradeoff_curve, ElementsAre(Pair(0.01, 0), Pair(1.01, 1)));
  EXPECT_EQ(stats->mod_stats[0].act_grad_per_module, -3);
  EXPECT_THAT(stats->sac_stats[0].inplace_ops, ElementsAre(Pair(1, 0)));
  const auto listed = read_module_stats(
      document(R"({"0.01": 0.0, "1.01": 1})", "[[0.01, 0], [1.01, 1.0]]"), "m.json");
  ASSERT_TRUE(listed.has_value()) << format_error(listed.error());
  EXPECT_EQ(*listed, *stats);
  EXPECT_EQ(write_module_stats(*listed), write_module_stats(*stats));
}

// torch's parse_module_info writes `index` and `pos_fw_post_order` into the records and sorts them
// by the order of their forwards.
std::string indexed(int of_root, int of_child, int returns = 0) {
  std::string text =
      document(R"("fqn": "R",)", R"("fqn": "R", "index": )" + std::to_string(of_root) +
                                     R"(, "pos_fw_post_order": 1,)");
  const std::string from = R"("fqn": "R.a",)";
  return text.replace(text.find(from), from.size(),
                      from + R"( "index": )" + std::to_string(of_child) +
                          R"(, "pos_fw_post_order": )" + std::to_string(returns) + ",");
}

TEST(ModuleStatsJson, ReadsWhatTorchsParserLeavesBehind) {
  const auto plain = read_module_stats(document(), "m.json");
  const auto parsed = read_module_stats(indexed(0, 1), "m.json");
  ASSERT_TRUE(plain.has_value() && parsed.has_value());
  EXPECT_EQ(*parsed, *plain);
  // The numbers tell the order of registration, wherever the records stand.
  const auto sorted = read_module_stats(indexed(1, 0), "m.json");
  ASSERT_TRUE(sorted.has_value()) << format_error(sorted.error());
  EXPECT_EQ(sorted->mod_stats[0].fqn, "R.a");
  EXPECT_EQ(sorted->mod_stats[1], plain->mod_stats[0]);
}

TEST(ModuleStatsJson, RefusesNumbersThatContradict) {
  const auto refused = [](const std::string& text, const char* place) {
    expect_error(read_module_stats(text, "m.json"), ErrorCode::kConflict, place, "");
  };
  refused(indexed(0, 0), "m.json#/mod_stats/1/index");
  refused(indexed(0, 2), "m.json#/mod_stats/1/index");
  refused(indexed(0, 1, 1), "m.json#/mod_stats/1/pos_fw_post_order");
  refused(document(R"("fqn": "R",)", R"("fqn": "R", "index": 0,)"), "m.json#/mod_stats");
  // A mistake is placed where it stands in the document, not where the numbers put the record.
  std::string text = indexed(1, 0);
  const std::string from = R"("act_total": 9)";
  text.replace(text.find(from), from.size(), R"("act_total": 2)");
  refused(text, "m.json#/mod_stats/0");
}

TEST(ModuleStatsJson, TakesModulesWithoutBackwardFromTheNotesOrTheRecord) {
  const auto noted =
      read_module_stats(document("{\n", R"({"notes": {"no_backward": ["R.a"]},)"), "m.json");
  ASSERT_TRUE(noted.has_value()) << format_error(noted.error());
  EXPECT_TRUE(noted->mod_stats[0].requires_grad);
  EXPECT_FALSE(noted->mod_stats[1].requires_grad);
  const auto marked = read_module_stats(
      document(R"("is_leaf": true)", R"("is_leaf": true, "requires_grad": false)"), "m.json");
  ASSERT_TRUE(marked.has_value()) << format_error(marked.error());
  EXPECT_EQ(*marked, *noted);
  EXPECT_THAT(write_module_stats(*marked), HasSubstr(R"("no_backward": ["R.a"])"));
}

TEST(ModuleStatsJson, LeavesOutWhatIsDerived) {
  const auto stats = read_module_stats(document(), "m.json");
  ASSERT_TRUE(stats.has_value());
  const std::string text = write_module_stats(*stats);
  for (const char* key : {"n_modules", "pos_fw_post_order", "grad_per_module", "notes"}) {
    EXPECT_THAT(text, Not(HasSubstr(std::string("\"") + key + "\"")));
  }
}

void expect_refused(const std::string& from, const std::string& to, ErrorCode code,
                    const std::string& pointer, const std::string& text = "") {
  SCOPED_TRACE(to);
  expect_error(read_module_stats(document(from, to), "m.json"), code, "m.json#" + pointer, text);
}

TEST(ModuleStatsJson, PlacesMistakesOfTheShape) {
  using enum ErrorCode;
  expect_refused(R"("fqn": "R.a", )", "", kSchema, "/mod_stats/1", "'fqn' is missing");
  expect_refused(R"("sac_memory": 6)", R"("sac_memmory": 6)", kSchema, "/mod_stats/0/sac_memmory",
                 "did you mean 'sac_memory'");
  expect_refused(R"("sac_memory": 6)", R"("sac_memory": 6, "sac_memory": 6)", kSyntax,
                 "/mod_stats/0/sac_memory");
  expect_refused(R"("sac_memory": 6)", R"("sac_memory": 6.5)", kSchema, "/mod_stats/0/sac_memory");
  expect_refused(R"("sac_runtime": 0.5)", R"("sac_runtime": NaN)", kSyntax,
                 "/mod_stats/0/sac_runtime");
  expect_refused("[[1, 0]]", "[[1, 0, 0]]", kSchema, "/sac_stats/0/inplace_ops/0", "array of two");
  expect_refused("[[1, 0]]", R"([[1, "x"]])", kSchema, "/sac_stats/0/inplace_ops/0/1");
  expect_refused(R"("0.01")", R"("low")", kSchema, "/mod_stats/0/tradeoff_curve/low",
                 "is not a number");
  expect_refused(R"("0.01")", R"("0.01x")", kSchema, "/mod_stats/0/tradeoff_curve/0.01x");
  expect_refused(R"("0.01")", R"("inf")", kSchema, "/mod_stats/0/tradeoff_curve/inf");
  expect_refused(R"("0.01": 0.0)", R"("0.01": -1)", kValue, "/mod_stats/0/tradeoff_curve/0.01");
  expect_refused(R"("fw_post_order")", R"("fw_pst_order")", kSchema, "/mod_order/fw_pst_order",
                 "did you mean 'fw_post_order'");
  expect_refused("{\n", R"({"schema": "plimsoll.model/1",)", kSchema, "/schema");
}

TEST(ModuleStatsJson, RefusesFiguresThatMakeNoSense) {
  using enum ErrorCode;
  expect_refused(R"("sac_memory": 6)", R"("sac_memory": -6)", kValue, "/mod_stats/0/sac_memory");
  expect_refused(R"("act_total": 9)", R"("act_total": 2000000000000000)", kValue,
                 "/mod_stats/0/act_total");
  expect_refused(R"("act_grad_per_module": -3)", R"("act_grad_per_module": -2000000000000000)",
                 kValue, "/mod_stats/0/act_grad_per_module");
  expect_refused(R"("sac_runtime": 0.5)", R"("sac_runtime": 1e13)", kValue,
                 "/mod_stats/0/sac_runtime");
  expect_refused(R"("runtimes": [1, 0.5])", R"("runtimes": [1, -0.5])", kValue,
                 "/sac_stats/0/runtimes/1");
  expect_refused(R"("slopes": [0.5])", R"("slopes": [1e300])", kValue, "/mod_stats/0", "slopes");
  expect_refused(R"("intercepts": [-0.25])", R"("intercepts": [-1e13])", kValue, "/mod_stats/0",
                 "intercepts");
  std::string many;
  for (int i = 0; i < 5000; ++i) many += (i == 0 ? "" : ", ") + std::to_string(1LL << 50);
  std::string names, runtimes;
  for (int i = 0; i < 5000; ++i) {
    names += i == 0 ? "\"o\"" : ", \"o\"";
    runtimes += i == 0 ? "0" : ", 0";
  }
  std::string text = document(R"(["mm", "relu_"])", "[" + names + "]");
  text.replace(text.find("[1, 0.5]"), 8, "[" + runtimes + "]");
  text.replace(text.find("[8, 8]"), 6, "[" + many + "]");
  expect_error(read_module_stats(text, "m.json"), kOverflow, "m.json#", "2^62");
}

TEST(ModuleStatsJson, PlacesWhatContradicts) {
  using enum ErrorCode;
  expect_refused(R"(["R", "R.a"])", R"(["R", "R.b"])", kSchema, "/mod_order/fw_pre_order/1",
                 "mod_stats lacks");
  expect_refused(R"(["R.a", "R"])", R"(["R.a"])", kSchema, "/mod_stats/0", "fw_post_order lacks");
  expect_refused(R"("fqn": "R.a")", R"("fqn": "R")", kConflict, "/mod_stats/0", "twice");
  expect_refused(R"("n_segments": 1)", R"("n_segments": 2)", kSchema, "/mod_stats/0");
  expect_refused("[[1, 0]]", "[[0, 1]]", kValue, "/sac_stats/0", "runs after it");
  expect_refused("[[1, 0]]", "[[2, 0]]", kSchema, "/sac_stats/0", "names operator 2");
  expect_refused(R"({"R": 0})", R"({"R": 1})", kSchema, "/mod_stats/0",
                 "sac_stats_of names table 1");
  expect_refused(R"({"R": 0})", R"({"R.b/c": 0})", kSchema, "/sac_stats_of/R.b~1c");
  expect_refused(R"("act_total": 9)", R"("act_total": 4)", kConflict, "/mod_stats/0",
                 "act_fw_per_module is 5, more than act_total, which is 4");
  expect_refused("{\n", R"({"total_step_peak": 6,)", kConflict, "/mod_stats/0",
                 "param_per_module is 7");
  expect_refused("{\n", R"({"n_modules": 3,)", kConflict, "/n_modules");
  expect_refused("{\n", R"({"pos_fw_post_order": [0, 1],)", kConflict, "/pos_fw_post_order");
  expect_refused("{\n", R"({"pos_fw_post_order": [1],)", kConflict, "/pos_fw_post_order");
  expect_refused("{\n", R"({"notes": {"no_backward": ["R.b"]},)", kSchema, "/notes/no_backward/0");
  expect_refused("{\n", R"({"notes": {"repeated": ["R.b"]},)", kSchema, "/notes/repeated/0");
  expect_error(read_module_stats(R"({"mod_order": {"fw_pre_order": [], "fw_post_order": []},
                                     "mod_stats": []})",
                                 "m.json"),
               kSchema, "m.json#/mod_stats");
  EXPECT_TRUE(read_module_stats(document("{\n", R"({"n_modules": 2, "pos_fw_post_order": [1, 0],)"),
                                "m.json")
                  .has_value());
}

TEST(SACStatsJson, PlacesErrors) {
  const auto read = [](const std::string& tail) {
    return read_sac_stats(R"({"func_names": ["mm"], "view_like_ops": [], "rand_ops": [],
                              "inplace_ops": [], "force_store_random": true, )" +
                              tail + "}",
                          "s.json");
  };
  EXPECT_TRUE(read(R"("runtimes": [1], "memory": [1])").has_value());
  expect_error(read(R"("runtimes": [1], "memory": [])"), ErrorCode::kSchema, "s.json#/func_names");
  expect_error(read(R"("runtimes": [1])"), ErrorCode::kSchema, "s.json#", "'memory' is missing");
  expect_error(read(R"("runtimes": [1], "memory": [1], "saved_autograd_ops": [1])"),
               ErrorCode::kSchema, "s.json#/saved_autograd_ops");
}

}  // namespace
}  // namespace plimsoll::io
