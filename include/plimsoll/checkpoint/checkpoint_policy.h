// A checkpointing plan: decisions alone, which can be applied and checked without the search that
// made them.
//
// As JSON: docs/formats.md#checkpointing-plan.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "plimsoll/core/units.h"

#pragma GCC visibility push(default)
namespace plimsoll::checkpoint {

enum class UnitKind {
  kFull,       // nothing inside is kept: plain activation checkpointing
  kSelective,  // some operators' outputs are kept
};
std::string_view to_string(UnitKind kind);

// What becomes of a unit's random operators.
enum class RngHandling {
  kRecompute,  // at least one runs again, from the stored state of the generator
  kSave,       // there are some, and all their outputs are kept
};
std::string_view to_string(RngHandling handling);

// What to do with one occurrence of an operator in a unit's forward.
struct OperatorChoice {
  int index = 0;   // place in the module's SACStats
  std::string op;  // func_names[index]
  int nth = 0;     // how many operators of that name came before it
  bool save = false;
  bool operator==(const OperatorChoice&) const = default;
};

// One activation-checkpointing unit: a module, or a run of consecutive children of one parent that
// are checkpointed as one function.
struct CheckpointUnit {
  std::vector<std::string> fqns;  // at least one, in forward order
  UnitKind kind = UnitKind::kSelective;
  double discard_ratio = 0;  // upstream's r: discarded share of sac_memory, in [0, 1]
  Bytes discarded = 0;       // bytes of activations that are not kept, against no checkpointing
  double recompute_ms = 0;   // what running the discarded operators again takes
  std::vector<OperatorChoice> ops;     // empty where the statistics have no operator table
  std::vector<CheckpointUnit> nested;  // units inside the recomputed forward, in forward order
  RngHandling rng = RngHandling::kRecompute;
  bool operator==(const CheckpointUnit&) const = default;
};

struct CheckpointPolicy {
  std::vector<CheckpointUnit> units;  // in forward order; no unit inside another but as `nested`
  bool operator==(const CheckpointPolicy&) const = default;
};

}  // namespace plimsoll::checkpoint
#pragma GCC visibility pop
