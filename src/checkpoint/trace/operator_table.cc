#include <algorithm>
#include <map>
#include <set>

#include "checkpoint/trace/step_trace.h"

namespace plimsoll::checkpoint {
namespace {

bool makes_or_changes_all_of(const StepOperator& op, const std::vector<int>& values) {
  return std::all_of(values.begin(), values.end(), [&](int value) {
    return std::find(op.outputs.begin(), op.outputs.end(), value) != op.outputs.end();
  });
}

// The values that autograd keeps for an operator of this program.
std::set<int> kept_by_autograd(const StepProgram& program) {
  std::set<int> kept;
  for (const StepOperator& op : program.operators) kept.insert(op.saved.begin(), op.saved.end());
  return kept;
}

}  // namespace

SACStats operator_table(const StepProgram& program, const StepLayout& layout,
                        const OperatorRoofline& roofline, int module) {
  SACStats stats;
  stats.force_store_random = !program.modules[module].takes_tensors;
  const std::set<int> kept = kept_by_autograd(program);
  std::vector<const StepOperator*> listed;
  std::vector<bool> makes_nothing;
  for (int t = layout.first_operator[module]; t <= layout.last_operator[module]; ++t) {
    const StepOperator& op = program.operators[t];
    if (!is_in_operator_table(op)) continue;
    const int index = static_cast<int>(listed.size());
    listed.push_back(&op);
    makes_nothing.push_back(op.kind == OperatorKind::kView || op.kind == OperatorKind::kInPlace);
    Bytes bytes = 0;
    for (int value : op.outputs) bytes += program.values[value];
    stats.func_names.push_back(op.name);
    stats.runtimes.push_back(roofline.forward_ms(op));
    // Quirk, kept: an in-place operator is charged its whole storage again.
    stats.memory.push_back(op.kind == OperatorKind::kView ? 0 : bytes);
    if (op.kind == OperatorKind::kView) stats.view_like_ops.push_back(index);
    if (op.is_random) stats.rand_ops.push_back(index);
    if (std::all_of(op.outputs.begin(), op.outputs.end(),
                    [&](int value) { return kept.contains(value); })) {
      stats.saved_autograd_ops.push_back(index);
    }
    if (op.kind == OperatorKind::kInPlace) {
      int parent = 0;
      while (!makes_or_changes_all_of(*listed[parent], op.outputs)) ++parent;
      stats.inplace_ops.emplace_back(index, parent);
    }
  }
  for (std::size_t i = listed.size(); i-- > 0;) {
    if (makes_nothing[i]) continue;
    stats.memory[i] = 0;
    break;
  }
  return stats;
}

}  // namespace plimsoll::checkpoint
