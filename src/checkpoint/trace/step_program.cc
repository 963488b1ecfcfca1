#include "checkpoint/trace/step_program.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <set>

namespace plimsoll::checkpoint {
namespace {

bool contains(const std::vector<int>& list, int item) {
  return std::find(list.begin(), list.end(), item) != list.end();
}

tl::unexpected<Error> bad(ErrorCode code, const std::string& place, std::string message) {
  return fail(code, place, std::move(message), "correct the program");
}

Result<void> check_indices(const std::vector<int>& indices, std::size_t size, std::string_view list,
                           const std::string& place) {
  for (int index : indices) {
    if (index < 0 || static_cast<std::size_t>(index) >= size) {
      return bad(ErrorCode::kSchema, place,
                 fmt::format("{} names {}, and there are {}", list, index, size));
    }
  }
  return {};
}

Result<void> check_modules(const StepProgram& program) {
  if (program.modules.empty()) return bad(ErrorCode::kSchema, "modules", "there is no module");
  std::set<std::string_view> names;
  for (std::size_t m = 0; m < program.modules.size(); ++m) {
    const StepModule& module = program.modules[m];
    if (!names.insert(module.fqn).second) {
      return bad(ErrorCode::kConflict, module.fqn, "this module occurs twice");
    }
    if (m == 0 ? module.parent != -1 : module.parent < 0 || module.parent >= static_cast<int>(m)) {
      return bad(ErrorCode::kSchema, module.fqn, "the parent is no earlier module");
    }
  }
  return {};
}

Result<void> check_sizes(const StepProgram& program) {
  for (std::size_t v = 0; v < program.values.size(); ++v) {
    if (program.values[v] < 0) {
      return bad(ErrorCode::kValue, fmt::format("value {}", v), "its size is negative");
    }
  }
  for (std::size_t p = 0; p < program.parameters.size(); ++p) {
    if (program.parameters[p].bytes < 0) {
      return bad(ErrorCode::kValue, fmt::format("parameter {}", p), "its size is negative");
    }
  }
  return {};
}

Result<void> check_figures(const StepOperator& op, const std::string& place) {
  for (double flops : {op.flops, op.backward_flops}) {
    if (!std::isfinite(flops) || flops < 0) {
      return bad(ErrorCode::kValue, place, fmt::format("flops are {}", flops));
    }
  }
  for (Bytes bytes : {op.bytes_moved, op.backward_bytes_moved, op.backward_temporary}) {
    if (bytes < 0) return bad(ErrorCode::kValue, place, fmt::format("bytes are {}", bytes));
  }
  return {};
}

Result<void> check_operator(const StepProgram& program, const StepOperator& op,
                            const std::string& place) {
  const std::size_t num_values = program.values.size();
  PLIMSOLL_RETURN_IF_ERROR(check_indices(op.inputs, num_values, "inputs", place));
  PLIMSOLL_RETURN_IF_ERROR(check_indices(op.outputs, num_values, "outputs", place));
  PLIMSOLL_RETURN_IF_ERROR(
      check_indices(op.parameters, program.parameters.size(), "parameters", place));
  PLIMSOLL_RETURN_IF_ERROR(check_figures(op, place));
  if (op.module < -1 || op.module >= static_cast<int>(program.modules.size())) {
    return bad(ErrorCode::kSchema, place, fmt::format("there is no module {}", op.module));
  }
  const std::set<int> distinct(op.outputs.begin(), op.outputs.end());
  if (distinct.empty() || distinct.size() != op.outputs.size()) {
    return bad(ErrorCode::kSchema, place, "it has no output, or one twice");
  }
  for (int value : op.saved) {
    if (!contains(op.inputs, value) && !contains(op.outputs, value)) {
      return bad(ErrorCode::kSchema, place,
                 fmt::format("it saves value {}, which it neither reads nor makes", value));
    }
  }
  std::set<int> seen;
  for (const StepGradient& gradient : op.gradients) {
    if (!contains(op.inputs, gradient.value) || !seen.insert(gradient.value).second) {
      return bad(
          ErrorCode::kSchema, place,
          fmt::format("value {} of a gradient is not read, or occurs twice", gradient.value));
    }
    if (gradient.passes && program.values[gradient.value] != program.values[op.outputs[0]]) {
      return bad(
          ErrorCode::kValue, place,
          fmt::format("the gradient of value {} passes and has another size", gradient.value));
    }
  }
  if (op.kind == OperatorKind::kView &&
      !(op.saved.empty() && op.gradients.empty() && op.parameters.empty())) {
    return bad(ErrorCode::kSchema, place, "a view saves nothing and has no backward");
  }
  return {};
}

// Fills `producer`, and checks that values are made once and before they are read.
Result<void> find_producers(const StepProgram& program, StepLayout& layout) {
  layout.producer.assign(program.values.size(), -1);
  std::vector<bool> is_made(program.values.size()), is_read(program.values.size());
  std::vector<bool> has_backward(program.values.size());
  for (std::size_t t = 0; t < program.operators.size(); ++t) {
    const StepOperator& op = program.operators[t];
    const std::string place = fmt::format("operator {} ({})", t, op.name);
    for (int value : op.inputs) is_read[value] = true;
    for (const StepGradient& gradient : op.gradients) {
      if (!has_backward[gradient.value]) {
        return bad(ErrorCode::kValue, place,
                   fmt::format("it sends a gradient to value {}, whose maker has no backward",
                               gradient.value));
      }
    }
    for (int value : op.outputs) {
      const bool gives_back = op.kind == OperatorKind::kView || op.kind == OperatorKind::kInPlace;
      if (gives_back) {
        if (!contains(op.inputs, value)) {
          return bad(ErrorCode::kSchema, place,
                     fmt::format("it gives back value {}, which it does not read", value));
        }
      } else if (is_made[value] || is_read[value]) {
        return bad(ErrorCode::kSchema, place,
                   fmt::format("value {} is made a second time or after a reader", value));
      } else {
        is_made[value] = true;
        layout.producer[value] = static_cast<int>(t);
      }
      if (op.kind == OperatorKind::kInPlace && layout.producer[value] < 0) {
        return bad(ErrorCode::kValue, place, "it changes a value of the batch");
      }
      if (op.kind != OperatorKind::kView) {
        has_backward[value] =
            has_backward[value] || !op.gradients.empty() || !op.parameters.empty();
      }
    }
  }
  return {};
}

// Fills the runs of operators of the modules.
Result<void> find_runs(const StepProgram& program, StepLayout& layout) {
  const std::size_t num_modules = program.modules.size();
  layout.first_operator.assign(num_modules, -1);
  layout.last_operator.assign(num_modules, -1);
  for (std::size_t t = 0; t < program.operators.size(); ++t) {
    const int at = static_cast<int>(t);
    for (int m = program.operators[t].module; m >= 0; m = program.modules[m].parent) {
      if (layout.first_operator[m] < 0) {
        layout.first_operator[m] = at;
      } else if (layout.last_operator[m] != at - 1) {
        return bad(ErrorCode::kConflict, program.modules[m].fqn,
                   "its operators are not consecutive");
      }
      layout.last_operator[m] = at;
    }
  }
  for (std::size_t m = 0; m < num_modules; ++m) {
    if (layout.first_operator[m] < 0) {
      return bad(ErrorCode::kConflict, program.modules[m].fqn, "it has no operator");
    }
  }
  return {};
}

void find_releases(const StepProgram& program, StepLayout& layout) {
  const int forever = static_cast<int>(program.operators.size());
  layout.result = program.operators.back().outputs[0];
  layout.last_reader = layout.producer;
  layout.release = layout.producer;
  for (int t = 0; t < forever; ++t) {
    const StepOperator& op = program.operators[t];
    for (int value : op.inputs) {
      layout.last_reader[value] = t;
      layout.release[value] = std::max(layout.release[value], t);
      for (int m = op.module; m >= 0; m = program.modules[m].parent) {
        if (layout.producer[value] >= layout.first_operator[m]) break;
        layout.release[value] = std::max(layout.release[value], layout.last_operator[m]);
      }
    }
  }
  for (std::size_t v = 0; v < program.values.size(); ++v) {
    if (layout.producer[v] < 0) layout.last_reader[v] = layout.release[v] = forever;
  }
  layout.last_reader[layout.result] = layout.release[layout.result] = forever;
}

}  // namespace

Result<StepLayout> make_layout(const StepProgram& program) {
  PLIMSOLL_RETURN_IF_ERROR(check_modules(program));
  PLIMSOLL_RETURN_IF_ERROR(check_sizes(program));
  if (program.operators.empty()) {
    return bad(ErrorCode::kSchema, "operators", "there is no operator");
  }
  for (std::size_t t = 0; t < program.operators.size(); ++t) {
    const StepOperator& op = program.operators[t];
    PLIMSOLL_RETURN_IF_ERROR(
        check_operator(program, op, fmt::format("operator {} ({})", t, op.name)));
  }
  StepLayout layout;
  PLIMSOLL_RETURN_IF_ERROR(find_producers(program, layout));
  PLIMSOLL_RETURN_IF_ERROR(find_runs(program, layout));
  find_releases(program, layout);
  return layout;
}

bool is_in_operator_table(const StepOperator& op) {
  return op.name != "detach" && op.name != "clone" && op.name != "lift_fresh" &&
         op.name != "_record_function_exit";
}

}  // namespace plimsoll::checkpoint
