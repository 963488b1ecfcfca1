#include "check/checkpoint/step_simulator.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <set>
#include <utility>

namespace plimsoll::check {
namespace {

using checkpoint::CheckpointUnit;
using checkpoint::OperatorKind;
using checkpoint::OperatorRoofline;
using checkpoint::StepGradient;
using checkpoint::StepLayout;
using checkpoint::StepOperator;
using checkpoint::StepProgram;

constexpr int kNoOperator = -1;

using Storage = int;                   // place in Memory
using Frame = std::map<int, Storage>;  // value -> the storage that holds it; owns them

// Storages with owners; what nobody owns is gone.
class Memory {
 public:
  explicit Memory(Bytes constant) : resident_(constant) {}

  Storage make(Bytes bytes) {
    storages_.push_back({bytes, 1});
    resident_ += bytes;
    return static_cast<Storage>(storages_.size()) - 1;
  }
  Storage share(Storage storage) {
    ++storages_[storage].owners;
    return storage;
  }
  void drop(Storage storage) {
    if (--storages_[storage].owners == 0) resident_ -= storages_[storage].bytes;
  }
  void drop(Frame& frame) {
    for (const auto& [value, storage] : frame) drop(storage);
    frame.clear();
  }
  void drop(std::vector<Storage>& storages) {
    for (Storage storage : storages) drop(storage);
    storages.clear();
  }
  bool is_shared(Storage storage) const { return storages_[storage].owners > 1; }
  Bytes resident() const { return resident_; }

 private:
  struct Held {
    Bytes bytes = 0;
    int owners = 0;
  };
  std::vector<Held> storages_;
  Bytes resident_;
};

// One unit, laid out over the program's operators.
struct Unit {
  int parent = kNoOperator;
  int first = 0, last = 0;    // operators
  std::set<int> cached;       // operators whose outputs are kept
  std::set<int> inputs;       // values from before the unit that its operators read
  std::vector<int> children;  // nested units, in forward order
  // What autograd wants from the recomputation, in program order.
  int first_wanted =
      kNoOperator;         // operator whose backward lets go of the unit, kNone: nothing wanted
  int stop = kNoOperator;  // the recomputation ends at this operator
  bool runs_stop = false;  // whether that operator still runs
};

// ------------------------------------------------------------------------------- laying out units

class UnitReader {
 public:
  UnitReader(const StepProgram& program, const StepLayout& layout)
      : program_(program), layout_(layout) {}

  Result<std::vector<Unit>> read(const std::vector<CheckpointUnit>& given) {
    PLIMSOLL_RETURN_IF_ERROR(read_siblings(given, kNoOperator, 0, num_operators() - 1));
    return std::move(units_);
  }

 private:
  const StepProgram& program_;
  const StepLayout& layout_;
  std::vector<Unit> units_;

  int num_operators() const { return static_cast<int>(program_.operators.size()); }

  Result<int> find_module(const std::string& fqn) const {
    for (std::size_t m = 0; m < program_.modules.size(); ++m) {
      if (program_.modules[m].fqn == fqn) return static_cast<int>(m);
    }
    return fail(ErrorCode::kNotFound, fqn, "the program has no such module",
                "name a module of the program");
  }

  Result<void> read_siblings(const std::vector<CheckpointUnit>& given, int parent, int from,
                             int to) {
    for (const CheckpointUnit& unit : given) {
      const std::string place = unit.fqns.empty() ? "a unit" : unit.fqns[0];
      const int index = static_cast<int>(units_.size());
      units_.emplace_back();
      PLIMSOLL_RETURN_IF_ERROR(read_unit(unit, place, index));
      Unit& read = units_[index];
      read.parent = parent;
      if (read.first < from || read.last > to) {
        return fail(ErrorCode::kConflict, place, "the unit overlaps another or leaves its own",
                    "list units that are apart, in forward order");
      }
      if (parent != kNoOperator) {
        if (!read.cached.empty()) {
          return fail(ErrorCode::kValue, place, "a nested unit keeps an operator's output",
                      "let nested units keep nothing");
        }
        units_[parent].children.push_back(index);
      }
      from = read.last + 1;
      const int last = read.last;
      PLIMSOLL_RETURN_IF_ERROR(read_siblings(unit.nested, index, read.first, last));
      find_wanted(index);
    }
    return {};
  }

  Result<void> read_unit(const CheckpointUnit& given, const std::string& place, int index) {
    Unit& unit = units_[index];
    std::vector<int> listed;
    int previous = kNoOperator;
    for (const std::string& fqn : given.fqns) {
      PLIMSOLL_ASSIGN(const int m, find_module(fqn));
      if (previous == kNoOperator) unit.first = layout_.first_operator[m];
      if (layout_.first_operator[m] <= previous) {
        return fail(ErrorCode::kConflict, fqn, "the run is not in forward order",
                    "list siblings in the order in which they run");
      }
      previous = unit.last = layout_.last_operator[m];
      for (int t = layout_.first_operator[m]; t <= unit.last; ++t) {
        if (is_in_operator_table(program_.operators[t])) listed.push_back(t);
      }
    }
    if (given.fqns.empty()) {
      return fail(ErrorCode::kSchema, place, "it names no module", "name at least one");
    }
    if (!given.ops.empty() && given.ops.size() != listed.size()) {
      return fail(ErrorCode::kSchema, place,
                  fmt::format("{} choices for {} operators", given.ops.size(), listed.size()),
                  "give every operator of the module's table one choice, or none any");
    }
    for (std::size_t i = 0; i < given.ops.size(); ++i) {
      const StepOperator& op = program_.operators[listed[i]];
      if (given.ops[i].op != op.name) {
        return fail(
            ErrorCode::kSchema, place,
            fmt::format("choice {} is for {}, the operator is {}", i, given.ops[i].op, op.name),
            "list the operators of the module's table");
      }
      if (given.ops[i].save) unit.cached.insert(listed[i]);
    }
    for (int t = unit.first; t <= unit.last; ++t) {
      for (int value : program_.operators[t].inputs) {
        if (layout_.producer[value] < unit.first) unit.inputs.insert(value);
      }
    }
    return {};
  }

  // Autograd wants an operator's saved inputs before it runs, the others after; of a nested unit it
  // wants the inputs, before its first operator.
  void find_wanted(int index) {
    Unit& unit = units_[index];
    auto child = unit.children.begin();
    const auto want = [&](int op, int let_go, bool runs) {
      if (unit.first_wanted == kNoOperator) unit.first_wanted = let_go;
      unit.stop = op;
      unit.runs_stop = runs;
    };
    for (int t = unit.first; t <= unit.last; ++t) {
      if (child != unit.children.end() && units_[*child].first == t) {
        const Unit& nested = units_[*child++];
        if (nested.first_wanted != kNoOperator) want(t, nested.first_wanted, false);
        t = nested.last;
        continue;
      }
      const StepOperator& op = program_.operators[t];
      if (op.saved.empty()) continue;
      const bool is_made_here = std::any_of(op.saved.begin(), op.saved.end(), [&](int value) {
        return std::find(op.outputs.begin(), op.outputs.end(), value) != op.outputs.end();
      });
      want(t, t, is_made_here);
    }
  }
};

// --------------------------------------------------------------------------------------- the step

class Step {
 public:
  Step(const StepProgram& program, const StepLayout& layout, const OperatorRoofline& roofline,
       std::vector<Unit> units, bool with_timeline)
      : program_(program),
        layout_(layout),
        roofline_(roofline),
        units_(std::move(units)),
        with_timeline_(with_timeline),
        memory_(constant_bytes(program)),
        innermost_(program.operators.size(), kNoOperator),
        saved_(program.operators.size()),
        cache_(program.operators.size()),
        pending_(program.values.size(), kNoOperator),
        has_gradient_(program.parameters.size()),
        inputs_(units_.size()),
        is_recomputed_(units_.size()) {
    // A nested unit comes after the unit that holds it.
    for (std::size_t u = 0; u < units_.size(); ++u) {
      for (int t = units_[u].first; t <= units_[u].last; ++t) innermost_[t] = static_cast<int>(u);
    }
  }

  StepSimulation run() {
    forward();
    answer_.kept_after_forward = memory_.resident();
    pending_[layout_.result] = memory_.make(program_.values[layout_.result]);
    for (int t = num_operators() - 1; t >= 0; --t) backward(t);
    answer_.left_at_end = memory_.resident();
    return std::move(answer_);
  }

 private:
  const StepProgram& program_;
  const StepLayout& layout_;
  const OperatorRoofline& roofline_;
  const std::vector<Unit> units_;
  const bool with_timeline_;
  StepSimulation answer_;
  Memory memory_;
  std::vector<int> innermost_;               // [operators] unit, kNone outside
  std::vector<std::vector<Storage>> saved_;  // [operators] held for the backward
  std::vector<Frame> cache_;                 // [operators] kept for the recomputation
  std::vector<Storage> pending_;             // [values] gradient so far
  std::vector<bool> has_gradient_;           // [parameters]
  std::vector<Frame> inputs_;                // [units] what a unit runs again from
  std::vector<bool> is_recomputed_;          // [units]

  int num_operators() const { return static_cast<int>(program_.operators.size()); }

  static Bytes constant_bytes(const StepProgram& program) {
    Bytes bytes = 0;
    for (const checkpoint::StepParameter& parameter : program.parameters) bytes += parameter.bytes;
    return bytes;
  }

  void record(StepPhase phase, int op) {
    const StepEvent event{phase, op, memory_.resident()};
    if (event.resident > answer_.peak.resident) answer_.peak = event;
    if (with_timeline_) answer_.timeline.push_back(event);
  }

  void save(int t, const Frame& frame) {
    for (int value : program_.operators[t].saved) {
      saved_[t].push_back(memory_.share(frame.at(value)));
    }
  }

  void hold_inputs(int unit, const Frame& frame) {
    if (units_[unit].first_wanted == kNoOperator) return;  // it will never run again
    for (int value : units_[unit].inputs) inputs_[unit][value] = memory_.share(frame.at(value));
  }

  // Gives the frame the outputs of operator `t`, from the cache or new.
  void make_outputs(int t, Frame& frame) {
    const StepOperator& op = program_.operators[t];
    for (const auto& [value, storage] : cache_[t]) {
      if (const auto old = frame.find(value); old != frame.end()) memory_.drop(old->second);
      frame[value] = memory_.share(storage);
    }
    memory_.drop(cache_[t]);
    for (int value : op.outputs) {
      if (!frame.contains(value)) frame[value] = memory_.make(program_.values[value]);
    }
  }

  void let_go(int t, Frame& frame) {
    for (auto held = frame.begin(); held != frame.end();) {
      if (layout_.release[held->first] <= t) {
        memory_.drop(held->second);
        held = frame.erase(held);
      } else {
        ++held;
      }
    }
  }

  void forward() {
    Frame frame;
    for (std::size_t v = 0; v < program_.values.size(); ++v) {
      const int value = static_cast<int>(v);
      if (layout_.producer[v] < 0) frame[value] = memory_.make(program_.values[v]);
    }
    std::size_t next_unit = 0;
    for (int t = 0; t < num_operators(); ++t) {
      while (next_unit < units_.size() && units_[next_unit].first <= t) {
        const int unit = static_cast<int>(next_unit++);
        if (units_[unit].parent == kNoOperator) hold_inputs(unit, frame);
      }
      make_outputs(t, frame);
      record(StepPhase::kForward, t);
      if (innermost_[t] == kNoOperator) save(t, frame);
      cache(t, frame);
      let_go(t, frame);
    }
    // What is left, the batch and the result, its owner holds to the end.
  }

  void cache(int t, const Frame& frame) {
    for (int unit = innermost_[t]; unit != kNoOperator; unit = units_[unit].parent) {
      if (!units_[unit].cached.contains(t) || units_[unit].first_wanted == kNoOperator) continue;
      for (int value : program_.operators[t].outputs) {
        cache_[t][value] = memory_.share(frame.at(value));
      }
    }
  }

  void recompute(int u) {
    if (u == kNoOperator || is_recomputed_[u]) return;
    const Unit& unit = units_[u];
    recompute(unit.parent);
    is_recomputed_[u] = true;
    Frame frame;
    for (const auto& [value, storage] : inputs_[u]) frame[value] = memory_.share(storage);
    auto child = unit.children.begin();
    for (int t = unit.first; t <= unit.stop; ++t) {
      if (child != unit.children.end() && units_[*child].first == t) hold_inputs(*child++, frame);
      const bool is_own = innermost_[t] == u;
      if (t == unit.stop && !unit.runs_stop) {
        if (is_own) save(t, frame);
        break;
      }
      const bool is_served = !cache_[t].empty();
      make_outputs(t, frame);
      record(StepPhase::kRecompute, t);
      if (!is_served && program_.operators[t].kind != OperatorKind::kView) {
        answer_.recompute_ms += roofline_.forward_ms(program_.operators[t]);
        ++answer_.num_recomputed;
      }
      if (is_own) save(t, frame);
      let_go(t, frame);
    }
    memory_.drop(frame);
  }

  // The unit's inputs, and what its cache holds beyond the end of the recomputation, go with the
  // last backward that wanted something.
  void leave_units(int t) {
    for (int u = innermost_[t]; u != kNoOperator && units_[u].first_wanted == t;
         u = units_[u].parent) {
      memory_.drop(inputs_[u]);
      for (int op = units_[u].first; op <= units_[u].last; ++op) {
        if (units_[u].cached.contains(op)) memory_.drop(cache_[op]);
      }
    }
  }

  void backward(int t) {
    const StepOperator& op = program_.operators[t];
    if (op.kind == OperatorKind::kView) return;
    std::vector<Storage> received;
    for (int value : op.outputs) {
      if (pending_[value] != kNoOperator) received.push_back(pending_[value]);
    }
    if (received.empty()) return;
    if (!op.saved.empty()) recompute(innermost_[t]);

    const Storage of_first_output = pending_[op.outputs[0]];
    for (int value : op.outputs) pending_[value] = kNoOperator;
    std::vector<std::pair<int, Storage>> sent;
    for (const StepGradient& gradient : op.gradients) {
      if (!gradient.passes) {
        sent.emplace_back(gradient.value, memory_.make(program_.values[gradient.value]));
      } else if (of_first_output != kNoOperator) {
        sent.emplace_back(gradient.value, memory_.share(of_first_output));
      }
    }
    std::vector<Storage> scratch = {memory_.make(op.backward_temporary)};
    for (int p : std::set<int>(op.parameters.begin(), op.parameters.end())) {
      if (!program_.parameters[p].requires_grad) continue;
      const Storage gradient = memory_.make(program_.parameters[p].bytes);
      if (has_gradient_[p]) scratch.push_back(gradient);
      has_gradient_[p] = true;
    }
    record(StepPhase::kBackward, t);
    memory_.drop(scratch);
    memory_.drop(saved_[t]);
    leave_units(t);
    memory_.drop(received);
    for (const auto& [value, gradient] : sent) accumulate(t, value, gradient);
  }

  void accumulate(int t, int value, Storage gradient) {
    const Storage old = std::exchange(pending_[value], gradient);
    if (old == kNoOperator) return;
    if (!memory_.is_shared(old)) {
      pending_[value] = old;
    } else {
      pending_[value] = memory_.make(program_.values[value]);
      record(StepPhase::kAccumulate, t);
      memory_.drop(old);
    }
    memory_.drop(gradient);
  }
};

}  // namespace

std::string_view to_string(StepPhase phase) {
  switch (phase) {
    case StepPhase::kForward:
      return "forward";
    case StepPhase::kRecompute:
      return "recompute";
    case StepPhase::kBackward:
      return "backward";
    case StepPhase::kAccumulate:
      return "accumulate";
  }
  return "";
}

Result<StepSimulation> simulate_step(const StepProgram& program, const OperatorRoofline& roofline,
                                     const checkpoint::CheckpointPolicy& policy,
                                     bool with_timeline) {
  PLIMSOLL_ASSIGN(const StepLayout layout, make_layout(program));
  PLIMSOLL_ASSIGN(std::vector<Unit> units, UnitReader(program, layout).read(policy.units));
  return Step(program, layout, roofline, std::move(units), with_timeline).run();
}

}  // namespace plimsoll::check
