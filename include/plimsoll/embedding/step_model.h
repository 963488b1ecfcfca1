// What a step takes beside the shards of its slowest ranks, as data.
// Source: docs/mathematics/balanced-sharding.md#several-barriers-and-charges.
#pragma once

#pragma GCC visibility push(default)
namespace plimsoll::embedding {

// Weights of the slowest rank's kernels, collectives, output bytes and tables, a charge for each
// sharding type present in a module, a floor.
struct StepModel {
  double kernel_weight = 1;          // >= 0
  double collective_weight = 1;      // >= 0
  double ms_per_sharding_type = .5;  // >= 0; of each module
  double ms_per_output_byte = 0;     // >= 0
  double ms_per_table = 0;           // >= 0
  double floor_ms = 0;               // >= 0
  bool is_assumed = true;            // nothing measured stands behind the numbers
  bool operator==(const StepModel&) const = default;
};

}  // namespace plimsoll::embedding
#pragma GCC visibility pop
