// The smallest machine on which a plan exists, or keeps a time.
//
// Problem. Of machines in order of size (or price), find the first that has a plan, or one of at
// most so many ms. Method. Every machine is planned for in turn until one will do: what fits on n
// ranks need not fit on n + 1 (hosts that are not full, tables cut by the number of ranks), so that
// bisection would be wrong. Most machines that are too small are refused by a proof at once.
// Promises. `is_smallest` says that of every machine before the chosen one it is proved that
// nothing fits, or that no plan keeps the time.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "plimsoll/core/outcome.h"
#include "plimsoll/core/result.h"
#include "plimsoll/core/run_context.h"

#pragma GCC visibility push(default)
namespace plimsoll::study {

struct Machine {
  std::string on;  // as `--on` names it
  int ranks = 0;
  std::optional<double> price;  // of all of it
  bool operator==(const Machine&) const = default;
};

// What planning for a machine found.
struct MachinePlan {
  SolveStatus status = SolveStatus::kLimit;
  std::optional<double> ms;           // of the plan
  std::optional<double> lower_bound;  // of every plan's ms
  bool operator==(const MachinePlan&) const = default;
};

enum class MachineVerdict {
  kEnough,
  kInfeasible,  // proved
  kTooSlow,     // proved: the bound is above the time
  kNotKnown,    // a plan that is too slow, or none, without a proof
};
std::string_view to_string(MachineVerdict verdict);  // "enough", "infeasible", ...

// What a plan says of its machine, where a time is to be kept.
MachineVerdict judge(const MachinePlan& plan, std::optional<double> within_ms);

struct JudgedMachine {
  Machine machine;
  MachineVerdict verdict = MachineVerdict::kNotKnown;
  MachinePlan plan;
  bool operator==(const JudgedMachine&) const = default;
};

struct MachineSize {
  std::optional<double> within_ms;    // that was asked for
  std::vector<JudgedMachine> judged;  // in turn; the last is enough where one was found
  bool is_found = false;
  bool is_smallest = false;  // proved
  StopReason stop = StopReason::kFinished;
  bool operator==(const MachineSize&) const = default;
};

// `plan` plans for a machine; its errors end the search. Progress counts machines.
Result<MachineSize> find_smallest_machine(
    const std::vector<Machine>& machines, std::optional<double> within_ms,
    const std::function<Result<MachinePlan>(const Machine&)>& plan, const RunContext& context);

}  // namespace plimsoll::study
#pragma GCC visibility pop
