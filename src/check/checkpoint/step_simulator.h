// What a training step really does with memory under a checkpointing plan: forward, backward and
// recomputation replayed operator by operator, every storage counted while somebody holds it.
//
// Method. Reference counts, as in torch: frames hold locals and arguments, autograd holds what it
// saved, a gradient is held by whoever waits for it. Inside a unit autograd saves nothing; the unit
// holds its inputs and the outputs of the operators that the plan saves. The first backward inside
// that wants a saved value runs the unit's forward again: saved operators answer from the cache and
// hand it over, all others run and take time, and the run stops as soon as the last value that
// autograd wants is there, before an operator that only wants its inputs kept. A nested unit's
// forward is replayed within, keeping its inputs alone, and again by itself when its turn comes. A
// run of siblings is one unit from the first one's first operator to the last one's last; what the
// parent does in between belongs to it. O(operators x (nesting + 1) + values x units).
// Promises. Shares with the estimates the step program and its layout only: no statistics and no
// formula of theirs.
// Departures from torch: nested units keep nothing (torch would hold what they keep since the first
// forward, which no plan wants); the random state that a unit stashes is left out.
// Source: https://github.com/pytorch/pytorch/blob/v2.13.0/torch/utils/checkpoint.py and
// docs/mathematics/checkpointing.md#what-a-step-holds.
#pragma once

#include <string_view>
#include <vector>

#include "checkpoint/trace/step_program.h"
#include "plimsoll/checkpoint/checkpoint_policy.h"
#include "plimsoll/core/result.h"

namespace plimsoll::check {

enum class StepPhase {
  kForward,
  kRecompute,
  kBackward,
  kAccumulate,  // a gradient is added into a new buffer
};
std::string_view to_string(StepPhase phase);

// The height of one operator's run: all that is resident then, parameters included.
struct StepEvent {
  StepPhase phase = StepPhase::kForward;
  int op = 0;  // of the program
  Bytes resident = 0;
  bool operator==(const StepEvent&) const = default;
};

struct StepSimulation {
  StepEvent peak;                // the first of the highest
  Bytes kept_after_forward = 0;  // resident between forward and backward
  Bytes left_at_end = 0;         // resident after the backward
  double recompute_ms = 0;
  int num_recomputed = 0;           // operators run again, views left out
  std::vector<StepEvent> timeline;  // empty unless asked for
};

// Errors: those of make_layout; kNotFound (a unit's module that the program lacks), kConflict
// (units that overlap, a run that is not in forward order), kSchema (operators of a unit that are
// not the module's), kValue (a nested unit that keeps something).
Result<StepSimulation> simulate_step(const checkpoint::StepProgram& program,
                                     const checkpoint::OperatorRoofline& roofline,
                                     const checkpoint::CheckpointPolicy& policy,
                                     bool with_timeline = false);

}  // namespace plimsoll::check
