#include "plimsoll/io/checkpoint_policy_json.h"

#include <gtest/gtest.h>

#include "io/expect_error.h"
#include "io/random_checkpoint_documents.h"

namespace plimsoll::io {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

std::string with_units(const std::string& units, const std::string& tail = "") {
  return R"({"units": [)" + units + "]" + tail + "}";
}

std::string unit(const std::string& head, const std::string& tail = "") {
  return "{" + head + R"(, "kind": "selective", "discard_ratio": 0.75, "discarded_bytes": 10,
                         "recompute_ms": 1.5)" +
         tail + "}";
}

TEST(CheckpointPolicyJson, ReadsBackWhatItWrites) {
  for (std::uint64_t seed = 0; seed < 300; ++seed) {
    SCOPED_TRACE(seed);
    Random random(seed);
    const CheckpointAnswer answer = random_checkpoint_answer(random);
    const std::string text = write_checkpoint_answer(answer);
    const auto read = read_checkpoint_answer(text, "p.json");
    ASSERT_TRUE(read.has_value()) << format_error(read.error()) << "\n" << text;
    EXPECT_EQ(*read, answer) << text;
    EXPECT_EQ(write_checkpoint_answer(*read), text);
  }
}

TEST(CheckpointPolicyJson, NamesAUnitByOneModuleOrByARun) {
  const auto plan = read_checkpoint_answer(
      with_units(unit(R"("fqn": "R.a")") + "," + unit(R"("fqns": ["R.b", "R.c"])")), "p.json");
  ASSERT_TRUE(plan.has_value()) << format_error(plan.error());
  EXPECT_THAT(plan->plan->units[0].fqns, ElementsAre("R.a"));
  EXPECT_THAT(plan->plan->units[1].fqns, ElementsAre("R.b", "R.c"));
  EXPECT_EQ(plan->world_size, 1);
  const std::string text = write_checkpoint_answer(*plan);
  EXPECT_THAT(text, HasSubstr(R"("fqn": "R.a")"));
  EXPECT_THAT(text, HasSubstr(R"("fqns": ["R.b", "R.c"])"));
  EXPECT_THAT(text, HasSubstr(R"("memory_budget": 0.25)"));
}

void expect_refused(const std::string& text, ErrorCode code, const std::string& pointer,
                    const std::string& message = "") {
  SCOPED_TRACE(text);
  expect_error(read_checkpoint_answer(text, "p.json"), code, "p.json#" + pointer, message);
}

TEST(CheckpointPolicyJson, PlacesErrors) {
  using enum ErrorCode;
  const std::string a = R"("fqn": "R.a")";
  expect_refused("{}", kSchema, "", "'units' is missing");
  expect_refused(with_units(unit(R"("fqn": "R.a", "fqns": ["R.b"])")), kConflict, "/units/0");
  expect_refused(with_units(unit(R"("rng": "save")")), kSchema, "/units/0", "'fqn' is missing");
  expect_refused(with_units(unit(R"("fqns": [])")), kValue, "/units/0/fqns");
  expect_refused(with_units(unit(a) + "," + unit(a)), kConflict, "/units/1", "'R.a'");
  expect_refused(with_units(unit(R"("fqns": ["R.a", "R.a"])")), kConflict, "/units/0");
  expect_refused(with_units(unit(a, R"(, "nested": [)" + unit(a) + "]")), kConflict,
                 "/units/0/nested/0");
  expect_refused(with_units(unit(a, R"(, "memory_budget": 0.5)")), kConflict,
                 "/units/0/memory_budget");
  EXPECT_TRUE(read_checkpoint_answer(with_units(unit(a, R"(, "memory_budget": 0.25)")), "p.json")
                  .has_value());
  expect_refused(with_units(unit(a, R"(, "rng": "recompte")")), kValue, "/units/0/rng",
                 "did you mean 'recompute'");
  expect_refused(with_units(R"({"fqn": "R", "kind": "full", "discard_ratio": 1.5,
                                "discarded_bytes": 1, "recompute_ms": 1})"),
                 kValue, "/units/0/discard_ratio");
  std::string many;
  for (int i = 0; i < 1025; ++i) {
    many += std::string(i == 0 ? "" : ",") + R"({"fqn": "R.a)" + std::to_string(i) +
            R"(", "kind": "full", "discard_ratio": 1, "discarded_bytes": )" +
            std::to_string(Bytes{1} << 50) + R"(, "recompute_ms": 1})";
  }
  expect_refused(with_units(many), kOverflow, "/units", "2^60");
  const std::string op = R"({"i": 3, "op": "mm", "nth": 0, "save": true})";
  expect_refused(with_units(unit(a, R"(, "ops": [)" + op + "," + op + "]")), kValue,
                 "/units/0/ops/1/i");
  expect_refused(with_units(R"({"fqn": "R", "kind": "full", "discard_ratio": 1,
                                "discarded_bytes": 1, "recompute_ms": 1, "ops": [)" +
                            op + "]}"),
                 kConflict, "/units/0/ops/0/save");
  const auto frontier = [](const std::string& second) {
    return with_units("", R"(, "frontier": [{"bytes": 1, "ms": 2}, )" + second + "]");
  };
  EXPECT_TRUE(read_checkpoint_answer(frontier(R"({"bytes": 2, "ms": 2})"), "p.json").has_value());
  expect_refused(frontier(R"({"bytes": 1, "ms": 1})"), kValue, "/frontier/1");
  expect_refused(frontier(R"({"bytes": 2, "ms": 2.5})"), kValue, "/frontier/1");
  expect_refused(frontier(R"({"bytes": 2, "ms": 1, "ms_per_byte": 1})"), kValue,
                 "/frontier/1/ms_per_byte");
  expect_refused(frontier("[2, 1]"), kSchema, "/frontier/1");
  expect_refused(with_units("", R"(, "frontier_bound": [{"bytes": 1, "ms": 2},
                                                        {"bytes": 2, "ms": 3}])"),
                 kValue, "/frontier_bound/1");
  EXPECT_TRUE(read_checkpoint_answer(R"({"status": "limit"})", "p.json").has_value());
  expect_refused(R"({"status": "limit", "certificate": {"objective": 2, "lower_bound": 1,
                     "gap": 2}})",
                 kConflict, "/certificate/gap");
  expect_refused(with_units("", R"(, "world_size": 0)"), kValue, "/world_size");
  expect_refused(with_units("", R"(, "predicted": {"peak_bytes": 1})"), kSchema, "/predicted",
                 "recompute_ms");
  expect_refused(with_units("", R"(, "bugdet_bytes": 1)"), kSchema, "/bugdet_bytes",
                 "did you mean 'budget_bytes'");
}

}  // namespace
}  // namespace plimsoll::io
