// A torch release as data: what its partitioner says and accepts. Every rule reads these fields,
// never a version. Source: docs/mathematics/torch-fx-partitioner.md#releases.
#pragma once

#include <span>
#include <string>
#include <string_view>

#include "plimsoll/core/result.h"

#pragma GCC visibility push(default)
namespace plimsoll::partition {

struct Dialect {
  std::string name;                // "torch-2.13"
  std::string not_enough_memory;   // when the devices together are smaller than the graph
  std::string too_large_for_any;   // after the name of a node that no free device can take
  std::string too_large_for_one;   // after the target of a node larger than a device (sparse_nn)
  bool splits_dead_parts = false;  // a partition whose values nobody reads becomes a submodule
                                   // without outputs; else the split fails
  bool operator==(const Dialect&) const = default;
};

// "torch-1.13" and "torch-2.13". The newest is the default.
std::span<const Dialect> dialects();
const Dialect& default_dialect();

// Error kNotFound with a suggestion.
Result<Dialect> find_dialect(std::string_view name);

}  // namespace plimsoll::partition
#pragma GCC visibility pop
