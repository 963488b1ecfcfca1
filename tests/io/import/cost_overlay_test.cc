#include "io/import/cost_overlay.h"

#include <gtest/gtest.h>

#include "io/expect_error.h"
#include "plimsoll/partition/operator_costs.h"

namespace plimsoll::io {
namespace {

using partition::CostGraph;
using partition::OperatorGraph;

const std::string kHeader = "node,device_class,time_ms,mem_bytes\n";

OperatorGraph chain() {
  OperatorGraph graph;
  graph.time_columns = {"a100"};
  for (const char* name : {"first", "se\"cond, really", "third"}) {
    graph.nodes.emplace_back().name = name;
    graph.nodes.back().time_ms = {1.0};
  }
  return graph;
}

TEST(CostOverlay, ReadsRows) {
  const auto overlay = read_cost_overlay(
      "\xEF\xBB\xBF" + kHeader + "first,a100,1.5,\r\n\n\"se\"\"cond, really\",h100,2e-3,4096\n" +
          "third,a100,,7",
      "c.csv");
  ASSERT_TRUE(overlay.has_value()) << format_error(overlay.error());
  ASSERT_EQ(overlay->rows.size(), 3u);
  EXPECT_EQ(overlay->rows[0].time_ms, 1.5);
  EXPECT_FALSE(overlay->rows[0].memory.has_value());
  EXPECT_EQ(overlay->rows[1].node, "se\"cond, really");
  EXPECT_EQ(overlay->rows[1].memory, 4096);
  EXPECT_EQ(overlay->rows[1].place, "c.csv:4");
  EXPECT_FALSE(overlay->rows[2].time_ms.has_value());
  EXPECT_TRUE(read_cost_overlay(kHeader, "c.csv")->rows.empty());
}

TEST(CostOverlay, RefusesWhatIsWrongAndSaysWhere) {
  const auto expect = [](const std::string& text, ErrorCode code, const std::string& place,
                         const std::string& part) {
    expect_error(read_cost_overlay(text, "c.csv"), code, place, part);
  };
  expect("", ErrorCode::kSchema, "c.csv:1", "header");
  expect("node,time\n", ErrorCode::kSchema, "c.csv:1", "header");
  expect(kHeader + "a,b,1\n", ErrorCode::kSchema, "c.csv:2", "four fields");
  expect(kHeader + "a,b,1,2,3\n", ErrorCode::kSchema, "c.csv:2", "four fields");
  expect(kHeader + ",b,1,2\n", ErrorCode::kSchema, "c.csv:2", "not empty");
  expect(kHeader + "a,b,1,2\n\"a,b,1,2\n", ErrorCode::kSyntax, "c.csv:3", "quote");
  for (const char* time : {"-1", "nan", "inf", "1x", " 1", "one"}) {
    expect(kHeader + "a,b," + time + ",\n", ErrorCode::kValue, "c.csv:2", "the time");
  }
  expect(kHeader + "a,b,1e999,\n", ErrorCode::kOverflow, "c.csv:2", "the time");
  expect(kHeader + "a,b,,-1\n", ErrorCode::kValue, "c.csv:2", "bytes");
  expect(kHeader + "a,b,,1.5\n", ErrorCode::kValue, "c.csv:2", "bytes");
  expect(kHeader + "a,b,,9223372036854775808\n", ErrorCode::kOverflow, "c.csv:2", "bytes");
}

CostOverlay overlay_of(const std::string& rows) {
  return read_cost_overlay(kHeader + rows, "c.csv").value();
}

TEST(CostOverlay, LiesOverOperators) {
  OperatorGraph graph = chain();
  const auto applied =
      apply_overlay(overlay_of("third,a100,5,\nfirst,h100,0.25,64\nfirst,a100,,64\n"), graph);
  ASSERT_TRUE(applied.has_value()) << format_error(applied.error());
  EXPECT_EQ(graph.time_columns, (std::vector<std::string>{"a100", "h100"}));
  EXPECT_EQ(graph.nodes[0].time_ms, (std::vector<std::optional<double>>{1.0, 0.25}));
  EXPECT_EQ(graph.nodes[1].time_ms, (std::vector<std::optional<double>>{1.0, std::nullopt}));
  EXPECT_EQ(graph.nodes[2].time_ms, (std::vector<std::optional<double>>{5.0, std::nullopt}));
  EXPECT_EQ(graph.nodes[0].memory, 64);
  EXPECT_FALSE(graph.nodes[1].memory.has_value());
  EXPECT_TRUE(partition::validate(graph).has_value());
}

TEST(CostOverlay, LeavesTheGraphAloneWhereItDoesNotFit) {
  const std::string good = "first,h100,1,\n";
  const std::pair<std::string, std::pair<ErrorCode, std::string>> cases[] = {
      {"thirt,a100,1,\n", {ErrorCode::kNotFound, "did you mean 'third'"}},
      {"first,h100,2,\n", {ErrorCode::kConflict, "a second time"}},
      {"first,a100,,1\nfirst,h100,,2\n", {ErrorCode::kConflict, "another number of bytes"}},
  };
  for (const auto& [rows, expected] : cases) {
    OperatorGraph graph = chain();
    const auto applied = apply_overlay(overlay_of(good + rows), graph);
    expect_error(applied, expected.first, rows.size() > 20 ? "c.csv:4" : "c.csv:3",
                 expected.second);
    EXPECT_EQ(graph, chain());
  }
}

TEST(CostOverlay, LiesOverCosts) {
  CostGraph graph;
  graph.classes = {{"a100", 1, {}, 1}, {"cpu", 1, {}, 1}};
  for (const char* name : {"x", "y", "x"}) {
    graph.nodes.emplace_back().name = name;
    graph.nodes.back().time_ms = {1, 2};
  }
  const std::vector<std::string> keys = {"7", "3", "y"};  // a key wins over a name
  const auto apply = [&](const std::string& rows) {
    return apply_overlay(overlay_of(rows), keys, graph);
  };
  ASSERT_TRUE(apply("3,cpu,9,100\ny,a100,0.5,\n").has_value());
  EXPECT_EQ(graph.nodes[1].time_ms, (std::vector<double>{1, 9}));
  EXPECT_EQ(graph.nodes[1].memory, 100);
  EXPECT_EQ(graph.nodes[2].time_ms, (std::vector<double>{0.5, 2}));
  graph.nodes[0].name = "first";
  ASSERT_TRUE(apply("first,cpu,4,\n").has_value());
  EXPECT_EQ(graph.nodes[0].time_ms, (std::vector<double>{1, 4}));
  graph.nodes[0].name = "x";
  const CostGraph before = graph;
  expect_error(apply("3,cpu,1,\nx,cpu,9,\n"), ErrorCode::kConflict, "c.csv:3", "several nodes");
  expect_error(apply("3,cpu,1,\nz,cpu,9,\n"), ErrorCode::kNotFound, "c.csv:3", "no node 'z'");
  expect_error(apply("3,a10,9,\n"), ErrorCode::kNotFound, "c.csv:2", "did you mean 'a100'");
  EXPECT_EQ(graph, before);
}

}  // namespace
}  // namespace plimsoll::io
