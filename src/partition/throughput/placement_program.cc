#include "partition/throughput/placement_program.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "math/milp.h"

namespace plimsoll::partition {
namespace {

constexpr double kScaledCutoff = 100;
constexpr double kSafety = 1e-6;  // relative; how far a bound of the solver may be off

using Terms = std::vector<math::MilpTerm>;

// Variables and rows that say what one device is loaded with.
class Program {
 public:
  Program(const GroupGraph& groups, double cutoff)
      : groups_(groups), scale_(cutoff < kUnlimited && cutoff > 0 ? kScaledCutoff / cutoff : 1) {}

  double scale() const { return scale_; }
  math::MilpProblem& problem() { return problem_; }

  // [num_groups] the columns of a device; -1 where it may not run the group.
  std::vector<int> add_device(int kind) {
    std::vector<int> x;
    for (const double time : groups_.time_ms[kind]) {
      x.push_back(time < kUnlimited ? problem_.add_binary() : -1);
    }
    return x;
  }

  Terms load_of(int kind, const std::vector<int>& x) {
    Terms load;
    for (std::size_t g = 0; g < x.size(); ++g) {
      const double time = groups_.time_ms[kind][g];
      if (x[g] >= 0 && time > 0) load.push_back({x[g], time * scale_});
    }
    for (const GroupNet& net : groups_.nets) {
      const double weight = net.amount / groups_.kinds[kind].link_rate * scale_;
      if (weight > 0) add_cut(net, x, weight, load);
    }
    return load;
  }

  void add_memory_row(int kind, const std::vector<int>& x) {
    const auto& cap = groups_.kinds[kind].memory_cap;
    if (!cap) return;
    const double unit = std::max(1.0, static_cast<double>(*cap));
    Terms held;
    for (std::size_t g = 0; g < x.size(); ++g) {
      if (x[g] >= 0 && groups_.memory[g] > 0) {
        held.push_back({x[g], static_cast<double>(groups_.memory[g]) / unit});
      }
    }
    for (const GroupWeight& weight : groups_.weights) {
      const int copy = problem_.add_column(0, 1);
      for (const int g : weight.groups) {
        if (x[g] >= 0) problem_.add_row(0, {{copy, 1}, {x[g], -1}}, kInfinity);
      }
      held.push_back({copy, static_cast<double>(weight.bytes) / unit});
    }
    const double limit = static_cast<double>(*cap) / unit;
    problem_.add_row(-kInfinity, std::move(held), limit * (1 + 1e-9));
  }

  ProgramAnswer solve(double time_limit_s, double cutoff) {
    ProgramAnswer answer;
    math::MilpOptions options;
    options.time_limit_s = time_limit_s;
    const auto outcome = math::solve_milp(problem_, options);
    if (!outcome) return answer;
    values_ = outcome->values;
    answer.is_infeasible = outcome->status == SolveStatus::kInfeasible;
    if (answer.is_infeasible) {
      answer.lower_bound = cutoff;
    } else if (outcome->lower_bound) {
      answer.lower_bound = *outcome->lower_bound / scale_ * (1 - kSafety);
    }
    return answer;
  }
  const std::vector<double>& values() const { return values_; }

 private:
  void add_cut(const GroupNet& net, const std::vector<int>& x, double weight, Terms& load) {
    bool is_barred = false;  // a group that is never here: the least is 0
    std::vector<int> pins;
    for (const int g : net.groups) {
      if (x[g] >= 0) {
        pins.push_back(x[g]);
      } else {
        is_barred = true;
      }
    }
    if (pins.empty()) return;
    if (pins.size() == 2 && !is_barred) {
      const int cut = problem_.add_column(0, 1);
      problem_.add_row(0, {{cut, 1}, {pins[0], -1}, {pins[1], 1}}, kInfinity);
      problem_.add_row(0, {{cut, 1}, {pins[0], 1}, {pins[1], -1}}, kInfinity);
      load.push_back({cut, weight});
      return;
    }
    const int most = problem_.add_column(0, 1);
    for (const int pin : pins) problem_.add_row(0, {{most, 1}, {pin, -1}}, kInfinity);
    load.push_back({most, weight});
    if (is_barred) return;
    const int least = problem_.add_column(0, 1);
    for (const int pin : pins) problem_.add_row(0, {{pin, 1}, {least, -1}}, kInfinity);
    load.push_back({least, -weight});
  }

  const GroupGraph& groups_;
  const double scale_;
  math::MilpProblem problem_;
  std::vector<double> values_;
};

Terms minus(Terms a, const Terms& b) {
  for (const auto& term : b) a.push_back({term.column, -term.coefficient});
  return a;
}

}  // namespace

ProgramAnswer solve_block_program(const GroupGraph& groups, int kind, double least, double cutoff,
                                  double time_limit_s) {
  Program program(groups, cutoff);
  const std::vector<int> x = program.add_device(kind);
  const Terms load = program.load_of(kind, x);
  Terms time;
  for (std::size_t g = 0; g < x.size(); ++g) {
    if (x[g] >= 0 && groups.time_ms[kind][g] > 0) {
      time.push_back({x[g], groups.time_ms[kind][g] * program.scale()});
    }
  }
  program.problem().add_row(least * program.scale() * (1 - kSafety), time, kInfinity);
  program.add_memory_row(kind, x);
  for (const auto& term : load) program.problem().columns[term.column].cost = term.coefficient;
  if (cutoff < kUnlimited) {
    program.problem().add_row(-kInfinity, load, cutoff * program.scale());
  }
  return program.solve(time_limit_s, cutoff);
}

ProgramAnswer solve_placement_program(const GroupGraph& groups, double cutoff,
                                      double time_limit_s) {
  Program program(groups, cutoff);
  const int largest = program.problem().add_column(
      0, cutoff < kUnlimited ? cutoff * program.scale() : kInfinity, 1);
  std::vector<std::pair<int, std::vector<int>>> x_of;  // device, its columns
  for (int k = 0; k < groups.num_kinds(); ++k) {
    Terms last;
    for (std::size_t i = 0; i < groups.kinds[k].devices.size(); ++i) {
      std::vector<int> x = program.add_device(k);
      Terms load = program.load_of(k, x);
      program.problem().add_row(-kInfinity, minus(load, {{largest, 1}}), 0);
      if (i > 0) program.problem().add_row(0, minus(last, load), kInfinity);
      program.add_memory_row(k, x);
      last = std::move(load);
      x_of.emplace_back(groups.kinds[k].devices[i], std::move(x));
    }
  }
  for (int g = 0; g < groups.num_groups(); ++g) {
    Terms once;
    for (const auto& [device, x] : x_of) {
      if (x[g] >= 0) once.push_back({x[g], 1});
    }
    program.problem().add_row(1, std::move(once), 1);
  }
  ProgramAnswer answer = program.solve(time_limit_s, cutoff);
  if (program.values().empty()) return answer;
  answer.device.assign(groups.nodes.size(), -1);
  for (const auto& [device, x] : x_of) {
    for (int g = 0; g < groups.num_groups(); ++g) {
      if (x[g] >= 0 && program.values()[x[g]] > 0.5) answer.device[g] = device;
    }
  }
  return answer;
}

}  // namespace plimsoll::partition
