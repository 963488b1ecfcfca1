#include "checkpoint/trace/step_trace.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>

#include "check/toy_step.h"
#include "plimsoll/checkpoint/module_tree.h"
#include "plimsoll_module_stats/models.h"

namespace plimsoll::checkpoint {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

constexpr OperatorRoofline kPinned{1935.36, 19.5};  // 19.5 TFLOP/s float32, A100 PCIe 80GB

const ModuleInfo& info(const ModuleStats& stats, const std::string& fqn) {
  for (const ModuleInfo& module : stats.mod_stats) {
    if (module.fqn == fqn) return module;
  }
  ADD_FAILURE() << fqn;
  return stats.mod_stats[0];
}

ModuleStats trace(const StepProgram& program, const OperatorRoofline& roofline = {1, 1}) {
  auto stats = trace_step(program, roofline);
  EXPECT_TRUE(stats) << format_error(stats.error());
  return stats ? *std::move(stats) : ModuleStats();
}

// toy_step.h, one block. Resident without activations: 130 of parameters.
//   forward   embedding 202, mm 330, gelu 458, mm 522, nll 526
//   backward  nll 526 + 4 + 64 = 594, then 526 with the gradient of the output;
//             mm 526 + 128 + 20 = 674, then 482; gelu 610, then 354; mm 428, then 236;
//             embedding 336, then 272
TEST(StepTrace, RecordsTheToyAsByHand) {
  const ModuleStats stats = trace(check::toy_step());
  ASSERT_TRUE(validate(stats)) << format_error(validate(stats).error());
  EXPECT_EQ(stats.total_step_peak, 674);
  EXPECT_EQ(stats.total_before_root_bw, 526);
  const ModuleInfo& block = info(stats, "Net.a");
  EXPECT_FALSE(block.is_leaf);
  EXPECT_TRUE(block.requires_grad);
  EXPECT_EQ(block.param_per_module, 30);
  EXPECT_EQ(block.grad_per_module, 30);
  EXPECT_EQ(block.grad_total, 0);
  EXPECT_EQ(block.act_fw_per_module, 256);
  EXPECT_EQ(block.act_total, 8 + 64 + 128 + 128 + 64);
  EXPECT_EQ(block.act_bw_per_module, 332);  // the batch, x, h, g and the loss
  EXPECT_EQ(block.act_grad_per_module, 148);
  EXPECT_EQ(block.input_per_module, 64);
  EXPECT_EQ(block.output_per_module, 64);
  EXPECT_EQ(block.total_peak_fw, 522);
  EXPECT_EQ(block.total_post_fw, 522);
  EXPECT_EQ(block.total_pre_bw, 526);
  EXPECT_EQ(block.total_peak_bw, 674);
  EXPECT_EQ(block.sac_memory, 256);
  const ModuleInfo& up = info(stats, "Net.a.up");
  EXPECT_TRUE(up.is_leaf);
  EXPECT_EQ(up.act_fw_per_module, 0);
  EXPECT_EQ(up.grad_total, 20);
  EXPECT_EQ(up.act_grad_per_module, 64 + 10);
  EXPECT_EQ(up.total_pre_bw, 354);
  EXPECT_EQ(up.total_peak_bw, 428);
  const ModuleInfo& embed = info(stats, "Net.embed");
  EXPECT_EQ(embed.grad_total, 30);
  EXPECT_EQ(embed.total_peak_bw, 336);
  EXPECT_EQ(info(stats, "Net").total_peak_bw, 674);
  EXPECT_EQ(info(stats, "Net").param_per_module, 130);
}

TEST(StepTrace, ListsModulesInTheOrdersOfTheStep) {
  const ModuleOrder order = trace(check::toy_step()).mod_order;
  EXPECT_THAT(order.fw_pre_order,
              ElementsAre("Net", "Net.embed", "Net.a", "Net.a.up", "Net.a.down"));
  EXPECT_THAT(order.fw_post_order,
              ElementsAre("Net.embed", "Net.a.up", "Net.a.down", "Net.a", "Net"));
  EXPECT_THAT(order.bw_pre_order,
              ElementsAre("Net", "Net.a", "Net.a.down", "Net.a.up", "Net.embed"));
  EXPECT_THAT(order.bw_post_order,
              ElementsAre("Net.a.down", "Net.a.up", "Net.a", "Net.embed", "Net"));
}

// Published figures of one block: 40 operators, U = 25,165,824 bytes.
TEST(StepTrace, ReproducesThePublishedTransformerBlock) {
  const ModuleStats stats = trace(module_stats::gpt({}, 8, 1024), kPinned);
  const ModuleInfo& block = info(stats, "Transformer.layers.0");
  EXPECT_EQ(block.sac_memory, 491258880);
  EXPECT_EQ(block.act_fw_per_module, 390595584);
  EXPECT_NEAR(block.sac_runtime, 5.138250, 5e-6);
  const SACStats& table = stats.sac_stats[stats.sac_stats_of.at("Transformer.layers.0")];
  ASSERT_EQ(table.func_names.size(), 40U);
  EXPECT_EQ(table.memory[0], 25165824 + 65536);
  EXPECT_EQ(table.memory[39], 0) << "the operator that makes the output";
  EXPECT_EQ(table.rand_ops.size(), 3U);
  EXPECT_NEAR(table.runtimes[3], 0.330382, 1e-6);
  EXPECT_NEAR(table.runtimes[0], 0.026043, 5e-6);
  EXPECT_EQ(stats.sac_stats_of.at("Transformer.layers.3"),
            stats.sac_stats_of.at("Transformer.layers.0"));
  EXPECT_EQ(
      info(stats, "Transformer.layers.3").act_total - info(stats, "Transformer.layers.2").act_total,
      390595584 + 25165824);
}

// x (700 bytes) + x with a bias of 30 gives 1,000. Two releases count what moves by tensors, as
// often as they occur; by storages, each once and in blocks of 512.
TEST(StepBuilder, CountsMovedBytesAsTheVariantDoes) {
  const auto bytes_moved = [](const char* name) {
    StepBuilder step("add", *find_variant(name));
    const int x = step.input(700);
    step.open("Add");
    StepOperator op;
    op.name = "add";
    op.inputs = {x, x};
    op.parameters = {step.parameter(30)};
    step.add(op, {1000});
    step.close();
    const StepOperator& added = step.program().operators[0];
    return std::pair(added.bytes_moved, added.backward_bytes_moved);
  };
  EXPECT_EQ(bytes_moved("torch-2.13"), std::pair(Bytes{2 * 700 + 1000 + 30}, Bytes{30 + 1000}));
  EXPECT_EQ(bytes_moved("reference"), std::pair(Bytes{1024 + 1024 + 512}, Bytes{512 + 1024}));
}

//   view ─ addmm ─ relu_ ─ cos_ ─ sin_      the in-place operators change what addmm made
TEST(StepTrace, ChargesInPlaceOperatorsTheirStorageAgain) {
  StepBuilder step("foo");
  step.open("Foo");
  StepOperator start;
  start.name = "rand";
  start.kind = OperatorKind::kCreation;
  const int x = step.add(start, {40})[0];
  step.open("linear");
  step.view("t", x);
  StepOperator mm;
  mm.name = "addmm";
  mm.inputs = mm.saved = {x};
  mm.parameters = {step.parameter(4)};
  const int y = step.add(mm, {400})[0];
  step.close();
  for (const char* name : {"relu_", "cos_", "sin_"}) {
    StepOperator op;
    op.name = name;
    op.kind = OperatorKind::kInPlace;
    op.inputs = op.saved = {y};
    op.gradients = {{y}};
    step.add(op, {});
  }
  step.close();
  const ModuleStats stats = trace(step.program());
  const SACStats& table = stats.sac_stats[0];
  EXPECT_THAT(table.view_like_ops, ElementsAre(1));
  EXPECT_THAT(table.inplace_ops, ElementsAre(std::pair(3, 2), std::pair(4, 2), std::pair(5, 2)));
  EXPECT_THAT(table.memory, ElementsAre(40, 0, 0, 400, 400, 400));
  EXPECT_EQ(table.runtimes[0], 0) << "a creation";
}

TEST(StepTrace, LeavesOutModulesWithoutABackward) {
  StepBuilder step("frozen");
  const int batch = step.input(8);
  step.open("Net");
  step.open("angles");
  StepOperator cos;
  cos.name = "cos";
  cos.inputs = {batch};
  const int angles = step.add(cos, {16})[0];
  step.close();
  step.open("mix");
  StepOperator mul;
  mul.name = "mul";
  mul.inputs = mul.saved = {angles};
  mul.parameters = {step.parameter(3, false), step.parameter(5)};
  step.add(mul, {32});
  step.close();
  step.close();
  const ModuleStats stats = trace(step.program());
  EXPECT_FALSE(info(stats, "Net.angles").requires_grad);
  EXPECT_EQ(info(stats, "Net.angles").total_peak_bw, std::nullopt);
  EXPECT_THAT(stats.mod_order.bw_pre_order, ElementsAre("Net", "Net.mix"));
  // 8 + 16 + 32 + 8 parameters, the gradient 32 that comes and 5 of the trained parameter.
  EXPECT_EQ(stats.total_step_peak, 64 + 32 + 5);
}

// Measured with torch 2.13 on transformers' Llama: one layer keeps 906,526,720 bytes, of which
// 33,554,432 are the mask that its kernel for CPUs wants.
TEST(StepTrace, AgreesWithMeasuredLlama) {
  const ModuleStats stats =
      trace(module_stats::llama(module_stats::llama_3_8b(), 1, 4096), {2039, 312});
  const std::string layer = "LlamaForCausalLM.model.layers.0";
  EXPECT_EQ(info(stats, layer).act_fw_per_module, 906526720 - 33554432);
  EXPECT_EQ(info(stats, layer).sac_memory, 1414103044 - 33554432 - 4);
  EXPECT_EQ(info(stats, layer).output_per_module, 33554432);
  EXPECT_EQ(info(stats, layer + ".mlp").sac_memory, 469762048);
  EXPECT_NEAR(info(stats, layer + ".mlp").sac_runtime, 3.37155183, 1e-6);
  EXPECT_NEAR(info(stats, layer).sac_runtime, 5.67850672, 0.02 * 5.67850672);
  EXPECT_EQ(info(stats, "LlamaForCausalLM").act_total, 30195892224 - 32 * Bytes{33554432});
  EXPECT_EQ(info(stats, "LlamaForCausalLM").param_per_module, 16060522496);
  EXPECT_EQ(info(stats, layer).grad_total, 14573625344);
  EXPECT_EQ(stats.sac_stats.size(), 5U) << "root, model, layer, attention, mlp";
  const auto tree = make_module_tree(stats);
  ASSERT_TRUE(tree);
  EXPECT_TRUE(tree->is_nested);
}

TEST(OperatorRoofline, TakesTheSlowerOfArithmeticAndTraffic) {
  const OperatorRoofline roofline{2000, 100};
  StepOperator op;
  op.flops = 150e9;  // half of it at 75 TFLOP/s
  op.bytes_moved = 1000000;
  EXPECT_DOUBLE_EQ(roofline.forward_ms(op), 1);
  op.bytes_moved = 4000000000;
  EXPECT_DOUBLE_EQ(roofline.forward_ms(op), 2);
  op.kind = OperatorKind::kView;
  EXPECT_EQ(roofline.forward_ms(op), 0);
  op.kind = OperatorKind::kCreation;
  EXPECT_EQ(roofline.forward_ms(op), 0);
}

TEST(OperatorRoofline, IsFoundByTheNameOfAnAcceleratorOrNode) {
  const auto chip = find_roofline("h100-sxm");
  ASSERT_TRUE(chip) << format_error(chip.error());
  EXPECT_EQ(*chip, (OperatorRoofline{3350, 990}));
  EXPECT_EQ(*find_roofline("dgx-h100"), *chip);
  const auto unknown = find_roofline("h1000");
  ASSERT_FALSE(unknown);
  EXPECT_EQ(unknown.error().code, ErrorCode::kNotFound);
}

// One change each, and the first word of what is said about it.
TEST(StepProgram, RefusesWhatNoModelRuns) {
  struct Fault {
    std::function<void(StepProgram&)> make;
    ErrorCode code;
    const char* says;
  };
  const std::vector<Fault> faults = {
      {[](StepProgram& p) { p.modules.clear(); }, ErrorCode::kSchema, "no module"},
      {[](StepProgram& p) { p.operators.clear(); }, ErrorCode::kSchema, "no operator"},
      {[](StepProgram& p) { p.modules[2].fqn = "Net.embed"; }, ErrorCode::kConflict, "twice"},
      {[](StepProgram& p) { p.modules[1].parent = 3; }, ErrorCode::kSchema, "parent"},
      {[](StepProgram& p) { p.modules[0].parent = 0; }, ErrorCode::kSchema, "parent"},
      {[](StepProgram& p) { p.values[1] = -1; }, ErrorCode::kValue, "negative"},
      {[](StepProgram& p) { p.parameters[0].bytes = -1; }, ErrorCode::kValue, "negative"},
      {[](StepProgram& p) { p.operators[1].inputs[0] = 99; }, ErrorCode::kSchema, "inputs"},
      {[](StepProgram& p) { p.operators[1].parameters[0] = 9; }, ErrorCode::kSchema, "parameters"},
      {[](StepProgram& p) { p.operators[1].module = 9; }, ErrorCode::kSchema, "module 9"},
      {[](StepProgram& p) { p.operators[1].flops = -1; }, ErrorCode::kValue, "flops"},
      {[](StepProgram& p) { p.operators[1].backward_temporary = -1; }, ErrorCode::kValue, "bytes"},
      {[](StepProgram& p) { p.operators[1].outputs.clear(); }, ErrorCode::kSchema, "no output"},
      {[](StepProgram& p) { p.operators[3].saved = {1}; }, ErrorCode::kSchema, "saves value 1"},
      {[](StepProgram& p) { p.operators[2].gradients = {{1}}; }, ErrorCode::kSchema, "gradient"},
      {[](StepProgram& p) {
         p.operators[3].gradients = {{3, true}};
       },
       ErrorCode::kValue, "passes"},
      {[](StepProgram& p) { p.operators[0].gradients = {{0}}; }, ErrorCode::kValue, "no backward"},
      {[](StepProgram& p) { p.operators[2].kind = OperatorKind::kView; }, ErrorCode::kSchema,
       "view"},
      {[](StepProgram& p) { p.operators[2].kind = OperatorKind::kInPlace; }, ErrorCode::kSchema,
       "gives back"},
      {[](StepProgram& p) { p.operators[2].outputs = {2}; }, ErrorCode::kSchema, "second time"},
      {[](StepProgram& p) { p.operators[2].module = 1; }, ErrorCode::kConflict, "not consecutive"},
      {[](StepProgram& p) { p.operators[0].module = 0; }, ErrorCode::kConflict, "no operator"},
  };
  ASSERT_TRUE(make_layout(check::toy_step()));
  for (std::size_t i = 0; i < faults.size(); ++i) {
    SCOPED_TRACE(i);
    StepProgram program = check::toy_step();
    faults[i].make(program);
    const auto layout = make_layout(program);
    ASSERT_FALSE(layout);
    EXPECT_EQ(layout.error().code, faults[i].code) << format_error(layout.error());
    EXPECT_THAT(layout.error().message, HasSubstr(faults[i].says));
    EXPECT_FALSE(trace_step(program, {1, 1}));
  }
}

// A module's frame holds what it was given until it returns.
TEST(StepProgram, HoldsAModulesInputsUntilItReturns) {
  StepProgram program = check::toy_step(2);
  const auto layout = make_layout(program);
  ASSERT_TRUE(layout);
  EXPECT_EQ(layout->last_reader[1], 1);
  EXPECT_EQ(layout->release[1], 3) << "x goes when Net.a returns";
  EXPECT_EQ(layout->release[0], static_cast<int>(program.operators.size())) << "the batch stays";
  EXPECT_EQ(layout->release[layout->result], static_cast<int>(program.operators.size()));
}

}  // namespace
}  // namespace plimsoll::checkpoint
