#include "plimsoll/study/machine_size.h"

#include <cstdint>
#include <utility>

namespace plimsoll::study {
MachineVerdict judge(const MachinePlan& plan, std::optional<double> within_ms) {
  if (plan.status == SolveStatus::kInfeasible) return MachineVerdict::kInfeasible;
  if (within_ms && plan.lower_bound && *plan.lower_bound > *within_ms) {
    return MachineVerdict::kTooSlow;
  }
  if (!plan.ms) return MachineVerdict::kNotKnown;
  return !within_ms || *plan.ms <= *within_ms ? MachineVerdict::kEnough : MachineVerdict::kNotKnown;
}

std::string_view to_string(MachineVerdict verdict) {
  switch (verdict) {
    case MachineVerdict::kEnough:
      return "enough";
    case MachineVerdict::kInfeasible:
      return "infeasible";
    case MachineVerdict::kTooSlow:
      return "too_slow";
    case MachineVerdict::kNotKnown:
      return "not_known";
  }
  return "";
}

Result<MachineSize> find_smallest_machine(
    const std::vector<Machine>& machines, std::optional<double> within_ms,
    const std::function<Result<MachinePlan>(const Machine&)>& plan, const RunContext& context) {
  MachineSize size;
  size.within_ms = within_ms;
  bool is_proved = true;
  for (const Machine& machine : machines) {
    if (context.is_cancelled() || context.is_past_deadline()) {
      size.stop = context.is_cancelled() ? StopReason::kCancelled : StopReason::kDeadline;
      return size;
    }
    JudgedMachine& judged = size.judged.emplace_back();
    judged.machine = machine;
    PLIMSOLL_ASSIGN(judged.plan, plan(machine));
    judged.verdict = judge(judged.plan, within_ms);
    if (context.progress) {
      context.progress(
          {static_cast<std::int64_t>(size.judged.size()), judged.plan.ms, judged.plan.lower_bound});
    }
    if (judged.verdict == MachineVerdict::kEnough) {
      size.is_found = true;
      size.is_smallest = is_proved;
      return size;
    }
    is_proved = is_proved && judged.verdict != MachineVerdict::kNotKnown;
  }
  return size;
}

}  // namespace plimsoll::study
