// The judge of knapsacks: it passes what torch answered and sees every way to answer otherwise.

#include "knapsack_golden.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>
#include <string>

namespace plimsoll::golden::knapsack_golden {
namespace {

using ::testing::IsEmpty;

Json load() {
  std::ifstream stream(PLIMSOLL_TEST_DATA "/checkpointing/knapsack.json");
  return name_knapsack_fields(Json::parse(stream));
}

Replay replay(const Json& document) {
  const auto result = replay_records(document, knapsack_kinds());
  EXPECT_TRUE(result.has_value()) << format_error(result.error());
  return result.value_or(Replay{});
}

TEST(KnapsackGolden, PassesWhatTorchAnswered) {
  const Json document = load();
  const Replay result = replay(document);
  EXPECT_EQ(result.failed, 0);
  EXPECT_GT(result.passed, 100);
  EXPECT_THAT(result.bad_records, IsEmpty());
  EXPECT_THAT(result.unread, IsEmpty());
  for (const Difference& difference : result.differences) {
    ADD_FAILURE() << difference.kind << "[" << difference.index << "]." << difference.field << ": "
                  << difference.expected << ", ours " << difference.ours;
  }
}

// The document with one field of one record replaced.
Replay replay_changed(const std::string& kind, std::size_t index, const std::string& field,
                      const Json& value) {
  const Json document = load();
  Json record = document[kind][index];
  EXPECT_TRUE(record.contains(field)) << field;
  EXPECT_NE(record[field], value);
  record[field] = value;
  Json changed;
  changed[kind] = Json::array({record});
  return replay(changed);
}

TEST(KnapsackGolden, SeesAnotherValueSetOrOrder) {
  const Json document = load();
  const Json& record = document["knapsack"][1];
  for (const char* solver : {"greedy", "dp", "hirschberg"}) {
    SCOPED_TRACE(solver);
    Json answer = record[solver];
    answer[0] = answer[0].get<double>() + 1e-9;
    EXPECT_EQ(replay_changed("knapsack", 1, solver, answer).failed, 1);
    answer = record[solver];
    std::swap(answer[2][0], answer[2][1]);
    EXPECT_EQ(replay_changed("knapsack", 1, solver, answer).failed, 1);
    EXPECT_EQ(replay_changed("knapsack", 1, solver, "ZeroDivisionError").failed, 1);
  }
  EXPECT_EQ(replay_changed("knapsack", 1, "exact_value", 175).failed, 1);
  EXPECT_EQ(replay_changed("knapsack", 1, "ilp", {175, {0}, {1}}).failed, 1);
  EXPECT_EQ(replay_changed("knapsack", 1, "ilp", {176.00001, {0}, {1}}).failed, 0);
}

TEST(KnapsackGolden, TakesTheVectorsOfTorchsTestsAsSets) {
  EXPECT_EQ(replay_changed("functorch_knapsack", 0, "saved", {4, 3}).failed, 0);
  EXPECT_EQ(replay_changed("functorch_knapsack", 0, "saved", {4, 2}).failed, 1);
  EXPECT_EQ(replay_changed("functorch_knapsack", 0, "recomputed", {0, 1, 2}).failed, 0);
  EXPECT_EQ(replay_changed("functorch_knapsack", 0, "value", 4).failed, 1);
}

TEST(KnapsackGolden, SeesTheLastBitOfAnEvaluation) {
  const Json document = load();
  for (const char* field : {"plain", "backward", "trace"}) {
    SCOPED_TRACE(field);
    Json figures = document["knapsack_evaluation"][0][field];
    figures.back() = std::nextafter(figures.back().get<double>(), 1e300);
    EXPECT_EQ(replay_changed("knapsack_evaluation", 0, field, figures).failed, 1);
  }
  EXPECT_EQ(replay_changed("knapsack_evaluation", 0, "knee", 0.5).failed, 1);
  EXPECT_EQ(replay_changed("knapsack_evaluation", 0, "dynamic", {0, {}, {}}).failed, 1);
}

TEST(KnapsackGolden, NamesWhatItCannotRead) {
  EXPECT_EQ(replay_changed("knapsack", 0, "memory", {1, "two"}).bad_records.size(), 1u);
  EXPECT_EQ(replay_changed("knapsack_evaluation", 0, "edges", {{1, 2, 3}}).bad_records.size(), 1u);
  EXPECT_EQ(replay_changed("knapsack_evaluation", 0, "candidates", {77}).bad_records.size(), 1u);
  for (const char* text : {"[]", "3", R"({"functorch_knapsack": 3})"}) {
    EXPECT_FALSE(
        replay_records(name_knapsack_fields(Json::parse(text)), knapsack_kinds()).has_value());
  }
  const Json row = Json::parse(R"({"functorch_knapsack": [[[1], [1], 1]]})");
  EXPECT_EQ(replay(name_knapsack_fields(row)).bad_records.size(), 1u);
}

}  // namespace
}  // namespace plimsoll::golden::knapsack_golden
