#include "checkpoint/trace/step_trace.h"

#include <algorithm>
#include <array>
#include <numeric>
#include <set>
#include <tuple>
#include <utility>

#include "checkpoint/trace/piecewise_fit.h"
#include "checkpoint/trace/sac_greedy_order.h"

namespace plimsoll::checkpoint {
namespace {

enum Category { kAct, kGrad, kTemp, kOther, kNumCategories };

// Resident bytes by category and instant.
class Ledger {
 public:
  explicit Ledger(Bytes constant) : constant_(constant) {}

  // `bytes` are there from instant `from` to `to`, both included.
  void live(Category category, Bytes bytes, int from, int to) {
    if (from > to) return;
    std::vector<Bytes>& change = changes_[category];
    if (change.size() < static_cast<std::size_t>(to) + 2) change.resize(to + 2);
    change[from] += bytes;
    change[to + 1] -= bytes;
  }
  void close(int num_instants) {
    for (std::vector<Bytes>& change : changes_) {
      change.resize(num_instants + 1);
      std::partial_sum(change.begin(), change.end(), change.begin());
    }
  }

  // After `close`.
  Bytes at(Category category, int instant) const { return changes_[category][instant]; }
  Bytes total(int instant) const {
    Bytes sum = constant_;
    for (const std::vector<Bytes>& level : changes_) sum += level[instant];
    return sum;
  }
  // The first instant of the largest total in [from, to].
  int peak(int from, int to) const {
    int best = from;
    for (int i = from + 1; i <= to; ++i) {
      if (total(i) > total(best)) best = i;
    }
    return best;
  }

 private:
  Bytes constant_;
  std::array<std::vector<Bytes>, kNumCategories> changes_;
};

// The instants: before, during and after each operator of the forward; before and during each of
// the backward, and one for each gradient that is added into a new buffer.
int before_forward(int op) { return 3 * op; }
int during_forward(int op) { return 3 * op + 1; }
int after_forward(int op) { return 3 * op + 2; }

// The backward alone: which operators it takes when, and the buffers of gradients.
class BackwardSchedule {
 public:
  BackwardSchedule(const StepProgram& program, const StepLayout& layout, Ledger& ledger)
      : program_(program),
        ledger_(ledger),
        instant_(after_forward(static_cast<int>(program.operators.size()) - 1) + 1),
        pending_(program.values.size(), -1),
        born_(program.parameters.size(), -1),
        before(program.operators.size(), -1),
        during(program.operators.size(), -1),
        end(program.operators.size(), -1) {
    const Bytes seed = program.values[layout.result];
    pending_[layout.result] = make(seed);
    for (int t = static_cast<int>(program.operators.size()) - 1; t >= 0; --t) take(t);
    last_instant = instant_;
    for (std::size_t p = 0; p < program.parameters.size(); ++p) {
      if (born_[p] < 0) continue;
      ledger.live(kGrad, program.parameters[p].bytes, born_[p], last_instant);
    }
  }

 private:
  struct Buffer {
    Bytes bytes = 0;
    int born = 0;
    int owners = 1;
  };

  const StepProgram& program_;
  Ledger& ledger_;
  int instant_;
  std::vector<Buffer> buffers_;
  std::vector<int> pending_;  // [values] the buffer that holds a value's gradient so far
  std::vector<int> born_;     // [parameters] the instant from which the gradient is accumulated

  int make(Bytes bytes) {
    buffers_.push_back({bytes, instant_});
    return static_cast<int>(buffers_.size()) - 1;
  }
  void drop(int buffer) {
    Buffer& held = buffers_[buffer];
    if (--held.owners == 0) ledger_.live(kTemp, held.bytes, held.born, instant_);
  }

  void take(int t) {
    const StepOperator& op = program_.operators[t];
    if (op.kind == OperatorKind::kView) return;
    std::vector<int> received;
    int of_first_output = -1;
    for (int value : op.outputs) {
      if (pending_[value] < 0) continue;
      if (value == op.outputs[0]) of_first_output = pending_[value];
      received.push_back(std::exchange(pending_[value], -1));
    }
    if (received.empty()) return;

    before[t] = instant_++;
    during[t] = instant_;
    ledger_.live(kTemp, op.backward_temporary, instant_, instant_);
    std::vector<std::pair<int, int>> sent;  // value, buffer
    for (const StepGradient& gradient : op.gradients) {
      if (!gradient.passes) {
        sent.emplace_back(gradient.value, make(program_.values[gradient.value]));
      } else if (of_first_output >= 0) {
        ++buffers_[of_first_output].owners;
        sent.emplace_back(gradient.value, of_first_output);
      }
    }
    for (int p : std::set<int>(op.parameters.begin(), op.parameters.end())) {
      if (!program_.parameters[p].requires_grad) continue;
      ledger_.live(kTemp, program_.parameters[p].bytes, instant_, instant_);
      if (born_[p] < 0) born_[p] = instant_ + 1;
    }
    for (int buffer : received) drop(buffer);
    for (const auto& [value, buffer] : sent) add(value, buffer);
    end[t] = instant_++;
  }

  void add(int value, int buffer) {
    const int old = pending_[value];
    if (old < 0) {
      pending_[value] = buffer;
    } else if (buffers_[old].owners == 1) {
      drop(buffer);
    } else {
      ++instant_;
      pending_[value] = make(program_.values[value]);
      drop(old);
      drop(buffer);
    }
  }

 public:
  // [operators] instants, -1 where no gradient reaches the operator.
  std::vector<int> before, during, end;
  int last_instant = 0;
};

void enter_activations(const StepProgram& program, const StepLayout& layout,
                       const BackwardSchedule& backward, Ledger& ledger) {
  const int num_operators = static_cast<int>(program.operators.size());
  std::vector<int> to(program.values.size(), -1);
  std::vector<bool> is_outside(program.values.size(), true);  // seen by the loss alone
  for (int t = 0; t < num_operators; ++t) {
    const StepOperator& op = program.operators[t];
    for (int value : op.inputs) {
      if (op.module >= 0) is_outside[value] = false;
    }
    for (int value : op.saved) {
      const int until = backward.during[t] < 0 ? backward.last_instant : backward.during[t];
      to[value] = std::max(to[value], until);
    }
  }
  for (std::size_t v = 0; v < program.values.size(); ++v) {
    const bool is_batch = layout.producer[v] < 0;
    const int from = is_batch ? 0 : during_forward(layout.producer[v]);
    if (layout.release[v] == num_operators) {
      to[v] = backward.last_instant;
    } else if (layout.release[v] > layout.last_reader[v]) {
      to[v] = std::max(to[v], after_forward(layout.release[v]));
    } else {
      to[v] = std::max(to[v], during_forward(layout.release[v]));
    }
    ledger.live(is_batch && is_outside[v] ? kOther : kAct, program.values[v], from, to[v]);
  }
}

// What module `m` reads from outside and what it makes for outside.
std::pair<Bytes, Bytes> boundary_bytes(const StepProgram& program, const StepLayout& layout,
                                       int m) {
  const int first = layout.first_operator[m];
  const int last = layout.last_operator[m];
  std::set<int> inputs, outputs;
  for (int t = first; t <= last; ++t) {
    const StepOperator& op = program.operators[t];
    for (int value : op.inputs) {
      if (layout.producer[value] < first) inputs.insert(value);
    }
    for (int value : op.outputs) {
      if (layout.producer[value] >= first && layout.last_reader[value] > last) {
        outputs.insert(value);
      }
    }
  }
  const auto sum = [&](const std::set<int>& values) {
    Bytes bytes = 0;
    for (int value : values) bytes += program.values[value];
    return bytes;
  };
  return {sum(inputs), sum(outputs)};
}

Bytes parameter_bytes(const StepProgram& program, int first, int last) {
  std::set<int> seen;
  for (int t = first; t <= last; ++t) {
    const std::vector<int>& used = program.operators[t].parameters;
    seen.insert(used.begin(), used.end());
  }
  Bytes bytes = 0;
  for (int p : seen) bytes += program.parameters[p].bytes;
  return bytes;
}

ModuleInfo record_of(const StepProgram& program, const StepLayout& layout,
                     const OperatorRoofline& roofline, const BackwardSchedule& backward,
                     const Ledger& ledger, int m) {
  const int first = layout.first_operator[m];
  const int last = layout.last_operator[m];
  ModuleInfo info;
  info.fqn = program.modules[m].fqn;
  info.param_per_module = info.grad_per_module = parameter_bytes(program, first, last);
  std::tie(info.input_per_module, info.output_per_module) = boundary_bytes(program, layout, m);
  info.act_total = ledger.at(kAct, after_forward(last));
  info.act_fw_per_module = std::max<Bytes>(
      0, info.act_total - ledger.at(kAct, before_forward(first)) - info.output_per_module);
  info.total_peak_fw = ledger.total(ledger.peak(before_forward(first), after_forward(last)));
  info.total_post_fw = ledger.total(after_forward(last));
  info.requires_grad = false;
  int begin = 0, end = 0;
  for (int t = last; t >= first; --t) {
    info.fw_runtime_per_module += roofline.forward_ms(program.operators[t]);
    if (backward.before[t] < 0) continue;
    info.bw_runtime_per_module += roofline.backward_ms(program.operators[t]);
    if (!info.requires_grad) begin = backward.before[t];
    end = backward.end[t];
    info.requires_grad = true;
  }
  if (info.requires_grad) {
    const int peak = ledger.peak(begin, end);
    info.grad_total = ledger.at(kGrad, begin);
    info.act_bw_per_module = ledger.at(kAct, peak);
    info.act_grad_per_module = ledger.at(kTemp, peak) - ledger.at(kTemp, begin);
    info.total_pre_bw = ledger.total(begin);
    info.total_peak_bw = ledger.total(peak);
  }
  return info;
}

ModuleOrder orders_of(const StepProgram& program, const StepLayout& layout,
                      const std::vector<ModuleInfo>& records) {
  std::vector<int> pre(program.modules.size());
  std::iota(pre.begin(), pre.end(), 0);
  std::vector<int> post = pre;
  // A parent stands before its children, so equal first operators keep the parent first.
  std::stable_sort(pre.begin(), pre.end(), [&](int a, int b) {
    return layout.first_operator[a] < layout.first_operator[b];
  });
  std::sort(post.begin(), post.end(), [&](int a, int b) {
    return std::pair(layout.last_operator[a], -a) < std::pair(layout.last_operator[b], -b);
  });
  ModuleOrder order;
  for (int m : pre) order.fw_pre_order.push_back(program.modules[m].fqn);
  for (int m : post) order.fw_post_order.push_back(program.modules[m].fqn);
  for (auto m = post.rbegin(); m != post.rend(); ++m) {
    if (records[*m].requires_grad) order.bw_pre_order.push_back(program.modules[*m].fqn);
  }
  for (auto m = pre.rbegin(); m != pre.rend(); ++m) {
    if (records[*m].requires_grad) order.bw_post_order.push_back(program.modules[*m].fqn);
  }
  return order;
}

// Upstream's curve and fit of a module's table; a module without a usable fit is listed.
void add_fit(const SACStats& table, ModuleInfo& info, ModuleStats& stats) {
  const auto curve = make_tradeoff_curve(table, make_greedy_order(table));
  const auto fit = curve ? fit_tradeoff_curve(curve->points) : fit_tradeoff_curve({});
  if (!fit) {
    stats.fit_failed.push_back(info.fqn);
    return;
  }
  info.n_segments = static_cast<int>(fit->slopes.size());
  info.slopes = fit->slopes;
  info.intercepts = fit->intercepts;
  info.breakpoints = fit->breaks;
}

// Operator tables, their sums and fits; equal tables are kept once.
void add_operator_tables(const StepProgram& program, const StepLayout& layout,
                         const OperatorRoofline& roofline, ModuleStats& stats) {
  std::vector<bool> has_children(program.modules.size());
  for (const StepModule& module : program.modules) {
    if (module.parent >= 0) has_children[module.parent] = true;
  }
  for (std::size_t m = 0; m < program.modules.size(); ++m) {
    ModuleInfo& info = stats.mod_stats[m];
    info.is_leaf = !has_children[m];
    if (info.is_leaf) continue;
    SACStats table = operator_table(program, layout, roofline, static_cast<int>(m));
    for (std::size_t i = 0; i < table.func_names.size(); ++i) {
      info.sac_runtime += table.runtimes[i];
      info.sac_memory += table.memory[i];
    }
    add_fit(table, info, stats);
    const auto equal = std::find(stats.sac_stats.begin(), stats.sac_stats.end(), table);
    stats.sac_stats_of[info.fqn] = static_cast<int>(equal - stats.sac_stats.begin());
    if (equal == stats.sac_stats.end()) stats.sac_stats.push_back(std::move(table));
  }
}

}  // namespace

Result<ModuleStats> trace_step(const StepProgram& program, const OperatorRoofline& roofline) {
  PLIMSOLL_ASSIGN(const StepLayout layout, make_layout(program));
  Bytes parameters = 0;
  for (const StepParameter& parameter : program.parameters) parameters += parameter.bytes;
  Ledger ledger(parameters);
  const BackwardSchedule backward(program, layout, ledger);
  enter_activations(program, layout, backward, ledger);
  ledger.close(backward.last_instant + 1);

  ModuleStats stats;
  stats.name = program.name;
  for (std::size_t m = 0; m < program.modules.size(); ++m) {
    stats.mod_stats.push_back(
        record_of(program, layout, roofline, backward, ledger, static_cast<int>(m)));
  }
  stats.mod_order = orders_of(program, layout, stats.mod_stats);
  add_operator_tables(program, layout, roofline, stats);
  stats.total_step_peak = ledger.total(ledger.peak(0, backward.last_instant));
  stats.total_before_root_bw = stats.mod_stats[0].total_pre_bw;
  return stats;
}

}  // namespace plimsoll::checkpoint
