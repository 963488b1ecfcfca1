// What a module may keep as a unit, by the rules of operator_choices.h told again: nothing that is
// changed in place, no view, not the output; operators that change a tensor from outside are kept;
// random ones are kept or run again together, or kept except for the output where they must be
// stored and can.
#pragma once

#include <optional>
#include <tuple>
#include <vector>

#include "check/checkpoint/checkpoint_rules.h"

namespace plimsoll::check {

// Operators that share a fate.
struct OperatorGroup {
  Bytes memory = 0;
  Bytes copies = 0;  // of these, what autograd would not keep
  double ms = 0;     // of running all of them again
  bool may_keep = true;
  bool must_keep = false;
};

struct KeptChoice {
  Bytes kept = 0;
  Bytes copies = 0;
  double ms = 0;
};

// `maker` makes the output, -1: none; nothing from `end` on runs again.
std::vector<OperatorGroup> find_operator_groups(const checkpoint::SACStats& table, int maker,
                                                int end);

std::vector<OperatorGroup> groups_of(const JudgedCheckpoint& given,
                                     const checkpoint::SACStats& table);

// May the module by itself be a unit, whatever that would free?
bool may_be_unit(const JudgedCheckpoint& given, int node);

// The most bytes that the module's fit may discard; 0 without a fit.
Bytes fitted_capacity(const JudgedCheckpoint& given, int node);

// Those that no other beats, with ms + price * kept of at most `most`; absent where they are too
// many.
std::optional<std::vector<KeptChoice>> find_kept_choices(const std::vector<OperatorGroup>& groups,
                                                         double price = 0, double most = kInfinity);

}  // namespace plimsoll::check
