// A torch release as data, as far as its checkpointing tools compute differently: every formula
// reads these fields, never a version.
//
// Sources: docs/mathematics/torch-checkpointing.md#module-statistics,
// docs/mathematics/torch-checkpointing.md#sac_milp.
#pragma once

#include <span>
#include <string>
#include <string_view>

#include "plimsoll/core/result.h"

#pragma GCC visibility push(default)
namespace plimsoll::checkpoint {

struct Variant {
  std::string name;  // "torch-2.13"

  // sac_milp's big-M, in ms: max(big_m_floor_ms, big_m_per_sac_runtime * the largest sac_runtime).
  double big_m_floor_ms = 100;
  double big_m_per_sac_runtime = 0;

  // Bytes that an operator moves, for its estimated time. True: its distinct storages, each rounded
  // up to the allocator's 512 bytes. False: numbers of elements times element size over tensor
  // arguments and outputs, unrounded, each as often as it occurs, a broadcast dimension counting
  // once.
  bool transfer_by_storage = true;

  bool operator==(const Variant&) const = default;
};

// "reference" (the revision that the planner was specified from) and "torch-2.13". The newest is
// the default.
std::span<const Variant> variants();
const Variant& default_variant();

// Error kNotFound with a suggestion.
Result<Variant> find_variant(std::string_view name);

}  // namespace plimsoll::checkpoint
#pragma GCC visibility pop
