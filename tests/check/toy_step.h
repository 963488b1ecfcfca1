// A step small enough to be replayed by hand.
#pragma once

#include <algorithm>
#include <map>
#include <string>
#include <vector>

#include "checkpoint/trace/step_builder.h"
#include "plimsoll/checkpoint/checkpoint_policy.h"
#include "plimsoll/checkpoint/module_stats.h"

namespace plimsoll::check {

// Bytes on the arrows; what an operator keeps for its backward is what it reads.
//
//   tokens ─8─> embedding ─64─> mm ─128─> gelu ─128─> mm ─64─> nll ─4─>      (one block)
//               Net.embed        Net.a.up  Net.a       Net.a.down  outside
//   parameters  100              10                    20
//
// Further blocks follow the first: Net.b, Net.c, ...
inline checkpoint::StepProgram toy_step(int num_blocks = 1) {
  using checkpoint::StepOperator;
  checkpoint::StepBuilder step("toy");
  const auto keep = [](std::string name, int x, std::vector<int> parameters) {
    StepOperator op;
    op.name = std::move(name);
    op.inputs = op.saved = {x};
    op.gradients = {{x}};
    op.parameters = std::move(parameters);
    return op;
  };
  int x = step.input(8);
  step.open("Net");
  step.open("embed");
  x = step.add(keep("embedding", x, {step.parameter(100)}), {64})[0];
  step.close();
  for (int b = 0; b < num_blocks; ++b) {
    step.open(std::string(1, static_cast<char>('a' + b)));
    step.open("up");
    x = step.add(keep("mm", x, {step.parameter(10)}), {128})[0];
    step.close();
    x = step.add(keep("gelu", x, {}), {128})[0];
    step.open("down");
    x = step.add(keep("mm", x, {step.parameter(20)}), {64})[0];
    step.close();
    step.close();
  }
  step.close();
  step.add(keep("nll_loss_forward", x, {}), {4});
  return step.program();
}

// The unit over one module that keeps the operators `save` names, its figures by those operators.
inline checkpoint::CheckpointUnit unit_of(const checkpoint::ModuleStats& stats,
                                          const std::string& fqn,
                                          const std::vector<bool>& save = {}) {
  const checkpoint::SACStats& table =
      stats.sac_stats[static_cast<std::size_t>(stats.sac_stats_of.at(fqn))];
  checkpoint::CheckpointUnit unit;
  unit.fqns = {fqn};
  unit.kind = checkpoint::UnitKind::kFull;
  int maker = static_cast<int>(table.func_names.size()) - 1;
  const auto makes_nothing = [&](int i) {
    for (int view : table.view_like_ops) {
      if (view == i) return true;
    }
    for (const auto& [op, parent] : table.inplace_ops) {
      if (op == i) return true;
    }
    return false;
  };
  while (maker >= 0 && makes_nothing(maker)) --maker;
  Bytes kept = 0;
  std::map<std::string, int> count;
  for (std::size_t i = 0; i < table.func_names.size(); ++i) {
    const bool is_saved = i < save.size() && save[i];
    const int index = static_cast<int>(i);
    unit.ops.push_back({index, table.func_names[i], count[table.func_names[i]]++, is_saved});
    if (is_saved) {
      unit.kind = checkpoint::UnitKind::kSelective;
      kept += table.memory[i];
    } else if (index != maker) {
      unit.recompute_ms += table.runtimes[i];
    }
  }
  const auto is_saved = [&](int op) { return unit.ops[static_cast<std::size_t>(op)].save; };
  if (!table.rand_ops.empty() &&
      std::all_of(table.rand_ops.begin(), table.rand_ops.end(), is_saved))
    unit.rng = checkpoint::RngHandling::kSave;
  for (const checkpoint::ModuleInfo& module : stats.mod_stats) {
    if (module.fqn != fqn) continue;
    unit.discarded = module.act_fw_per_module - kept;
    const Bytes memory = std::max(module.sac_memory, module.act_fw_per_module);
    unit.discard_ratio = static_cast<double>(memory - module.act_fw_per_module + unit.discarded) /
                         static_cast<double>(memory);
  }
  return unit;
}

}  // namespace plimsoll::check
