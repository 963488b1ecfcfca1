// Machine models: what is read of them, and what is refused.
#include "plimsoll/io/machine_json.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "io/expect_error.h"
#include "plimsoll/io/shipped.h"

namespace plimsoll::io {
namespace {

using embedding::ComputeKernel;
using embedding::MachineModel;
using embedding::Optimizer;

constexpr const char* kMeasured = R"({
  "schema": "plimsoll.machine/1", "device": "cpu", "ranks": 4, "ranks_per_host": 2,
  "versions": {"torch": "2.13"}, "noise": {"foreign_share": 0.1},
  "kernels": [
    {"kernel": "fused", "data_type": "fp32", "direction": "forward",
     "terms": {"call_ns": 75000, "lookup_ns": 3.1}, "ranges": {"lookups": [100, 1e6]},
     "points": [{"lookups": 100, "ms": 1}], "held_out": {"mean": 0.2}},
    {"kernel": "fused", "optimizer": "RowWiseAdagrad", "data_type": "fp32",
     "direction": "backward", "terms": {"distinct_row_ns": 390}}],
  "collectives": [{"operation": "all_to_all", "group": "fast_domain", "ranks": 2,
                   "bytes": [1024, 2048], "ms": [0.1, 0.15], "samples": [5, 5]}],
  "step": {"kernel_weight": 1.7, "ms_per_sharding_type": 1.4, "points": []},
  "operators": {"launch_us": 5, "peak_tflops": {"fp32": 0.1}},
  "sources": {"kernels": {"kind": "measured", "source": "here"}}})";

TEST(MachineJson, ReadsWhatPlansAreTimedBy) {
  const auto machine = read_machine(kMeasured, "m.json");
  ASSERT_TRUE(machine) << format_error(machine.error());
  EXPECT_EQ(machine->name, "m.json");  // it has none of its own
  EXPECT_EQ(machine->ranks, 4);
  EXPECT_EQ(machine->ranks_per_host, 2);
  ASSERT_EQ(machine->kernels.size(), 2u);
  EXPECT_EQ(machine->kernels[0].terms.lookup_ns, 3.1);
  EXPECT_EQ(machine->kernels[0].optimizer, std::nullopt);
  EXPECT_EQ(machine->kernels[0].ranges.at("lookups"), std::pair(100.0, 1e6));
  EXPECT_EQ(machine->kernels[1].optimizer, Optimizer::kRowWiseAdagrad);
  ASSERT_EQ(machine->collectives.size(), 1u);
  EXPECT_EQ(machine->collectives[0].ms, (std::vector<double>{.1, .15}));
  EXPECT_EQ(machine->step, (embedding::StepModel{1.7, 1, 1.4, 0, 0, 0, false}));
  ASSERT_TRUE(machine->operators);
  EXPECT_EQ(machine->operators->launch_us, 5);
  EXPECT_EQ(machine->sources.at("kernels").kind, embedding::FigureKind::kMeasured);
  EXPECT_EQ(machine->hash.size(), 64u);
  // Of the measurement nothing is kept, and spaces are no difference.
  auto again = read_machine(write_machine(*machine), "other.json");
  ASSERT_TRUE(again) << format_error(again.error());
  again->hash = machine->hash;
  EXPECT_EQ(*again, *machine);
  EXPECT_EQ(read_machine(std::string(" ") + kMeasured, "m.json")->hash, machine->hash);
  EXPECT_EQ(read_machine(R"({"ranks": 8})", "m.json")->ranks_per_host, 8);
}

TEST(MachineJson, RefusesOtherVersionsAndUnknownKeys) {
  expect_error(read_machine(R"({"schema": "plimsoll.machine/2"})", "m.json"), ErrorCode::kSchema,
               "m.json#/schema", "plimsoll calibrate");
  expect_error(read_machine(R"({"schema": "plimsoll.plan/1"})", "m.json"), ErrorCode::kSchema,
               "m.json#/schema", "");
  expect_error(read_machine(R"({"kernel": []})", "m.json"), ErrorCode::kSchema, "m.json#/kernel",
               "did you mean 'kernels'");
  expect_error(read_machine(R"({"step": {"floor": 1}})", "m.json"), ErrorCode::kSchema,
               "m.json#/step/floor", "");
}

TEST(MachineJson, RefusesTablesAndFormsThatAreNone) {
  const auto with_table = [](const char* bytes, const char* ms) {
    return read_machine(
        std::string(R"({"collectives": [{"operation": "all_gather", "group": "host", "ranks": 2,
                        "bytes": )") +
            bytes + R"(, "ms": )" + ms + "}]}",
        "m.json");
  };
  EXPECT_TRUE(with_table("[1, 2]", "[1, 2]"));
  expect_error(with_table("[1, 2]", "[1]"), ErrorCode::kValue, "m.json#/collectives/0/ms",
               "one time of each size");
  expect_error(with_table("[]", "[]"), ErrorCode::kValue, "m.json#/collectives/0/ms", "");
  expect_error(with_table("[2, 2]", "[1, 2]"), ErrorCode::kValue, "m.json#/collectives/0/bytes/1",
               "ascending");
  expect_error(with_table("[1, 2]", "[1, 0]"), ErrorCode::kValue, "m.json#/collectives/0/ms/1", "");
  const std::string table = R"({"operation": "all_gather", "group": "host", "ranks": 2,
                                "bytes": [1], "ms": [1]})";
  expect_error(read_machine(R"({"collectives": [)" + table + "," + table + "]}", "m.json"),
               ErrorCode::kValue, "m.json#/collectives/1", "leave one of them out");
  const auto with_kernels = [](const std::string& kernels) {
    return read_machine(R"({"kernels": [)" + kernels + "]}", "m.json");
  };
  const std::string form = R"({"kernel": "fused", "data_type": "fp32", "direction": "forward",
                               "terms": {}, "ranges": {"lookups": [RANGE]}})";
  const auto of_range = [&form](const std::string& range) {
    std::string text = form;
    return text.replace(text.find("RANGE"), 5, range);
  };
  EXPECT_TRUE(with_kernels(of_range("1, 1")));
  expect_error(with_kernels(of_range("2, 1")), ErrorCode::kValue,
               "m.json#/kernels/0/ranges/lookups", "[least, most]");
  expect_error(with_kernels(of_range("1, 2") + "," + of_range("1, 3")), ErrorCode::kValue,
               "m.json#/kernels/1", "leave one of them out");
}

TEST(ShippedMachines, SayWhereTheirNumbersComeFrom) {
  EXPECT_GE(shipped_machines().size(), 10u);
  for (const ShippedDocument& document : shipped_machines()) {
    SCOPED_TRACE(document.id);
    const auto machine = load_shipped_machine(document.id);
    ASSERT_TRUE(machine) << format_error(machine.error());
    EXPECT_EQ(machine->name, document.id);
    EXPECT_FALSE(document.description.empty());
    for (const char* part : {"kernels", "step", "operators"}) {
      EXPECT_TRUE(machine->sources.contains(part)) << part;
    }
    EXPECT_EQ(machine->sources.contains("collectives"), !machine->collectives.empty());
    EXPECT_EQ(machine->step.is_assumed,
              machine->sources.at("step").kind == embedding::FigureKind::kAssumed);
    for (const auto direction :
         {embedding::PassDirection::kForward, embedding::PassDirection::kBackward}) {
      EXPECT_TRUE(std::any_of(
          machine->kernels.begin(), machine->kernels.end(),
          [direction](const embedding::KernelForm& form) { return form.direction == direction; }));
    }
  }
  expect_error(load_shipped_machine("h100-sxm5-80"), ErrorCode::kNotFound, "h100-sxm5-80",
               "h100-sxm5-80gb");
}

}  // namespace
}  // namespace plimsoll::io
