#include "checkpoint/trace/step_builder.h"

#include <algorithm>

namespace plimsoll::checkpoint {

int StepBuilder::make(Bytes bytes) {
  program_.values.push_back(bytes);
  return static_cast<int>(program_.values.size()) - 1;
}

int StepBuilder::input(Bytes bytes) {
  const int value = make(bytes);
  batch_.insert(value);
  return value;
}

int StepBuilder::parameter(Bytes bytes, bool requires_grad) {
  program_.parameters.push_back({bytes, requires_grad});
  return static_cast<int>(program_.parameters.size()) - 1;
}

void StepBuilder::open(const std::string& name, bool takes_tensors) {
  const int parent = open_.empty() ? -1 : open_.back();
  const std::string fqn = parent < 0 ? name : program_.modules[parent].fqn + "." + name;
  program_.modules.push_back({fqn, parent, takes_tensors});
  open_.push_back(static_cast<int>(program_.modules.size()) - 1);
}

void StepBuilder::close() { open_.pop_back(); }

Bytes StepBuilder::moved(Bytes storage) const {
  constexpr Bytes kBlock = 512;
  return variant_.transfer_by_storage ? (storage + kBlock - 1) / kBlock * kBlock : storage;
}

Bytes StepBuilder::moved(std::vector<int> values) const {
  if (variant_.transfer_by_storage) {
    std::sort(values.begin(), values.end());
    values.erase(std::unique(values.begin(), values.end()), values.end());
  }
  Bytes bytes = 0;
  for (const int value : values) bytes += moved(program_.values[value]);
  return bytes;
}

std::vector<int> StepBuilder::add(StepOperator op, const std::vector<Bytes>& made,
                                  const std::vector<int>& kept) {
  op.module = open_.empty() ? -1 : open_.back();
  for (Bytes bytes : made) op.outputs.push_back(make(bytes));
  if (made.empty()) op.outputs = {op.inputs[0]};
  for (int place : kept) op.saved.push_back(op.outputs[place]);
  std::erase_if(op.gradients,
                [&](const StepGradient& gradient) { return batch_.contains(gradient.value); });
  Bytes parameters = 0;
  for (const int p : op.parameters) parameters += moved(program_.parameters[p].bytes);
  std::vector<int> seen = op.inputs;
  seen.insert(seen.end(), op.outputs.begin(), op.outputs.end());
  if (op.bytes_moved == 0) op.bytes_moved = moved(std::move(seen)) + parameters;
  Bytes gradients = 0;
  for (const StepGradient& gradient : op.gradients) {
    if (!gradient.passes) gradients += moved(program_.values[gradient.value]);
  }
  if (op.backward_bytes_moved == 0 && gradients + parameters > 0) {
    op.backward_bytes_moved = gradients + parameters + moved(op.outputs) + moved(op.saved);
  }
  program_.operators.push_back(std::move(op));
  return program_.operators.back().outputs;
}

void StepBuilder::view(const std::string& name, int value) {
  StepOperator op;
  op.name = name;
  op.kind = OperatorKind::kView;
  op.inputs = {value};
  add(std::move(op), {});
}

}  // namespace plimsoll::checkpoint
