// The arithmetic of the scale-up proposer (make_embedding_offload_scaleup_proposer): how left-over
// HBM is dealt out to caches. Source: docs/mathematics/torchrec-planner.md#scale-up-of-caches.
#pragma once

#include <span>
#include <vector>

namespace plimsoll::embedding {

// HBM of a cached table over its load factor, in single precision as the reference keeps it.
struct CacheSizeModel {
  float bytes_per_load_factor = 0;
  float fixed_bytes = 0;

  float bytes(float load_factor) const { return bytes_per_load_factor * load_factor + fixed_bytes; }
};

// One cached table that may grow.
struct ScalableCache {
  CacheSizeModel size;
  double fused_bytes = 0;  // HBM of the whole table without a cache: no cache should exceed it
  float load_factor = 0;   // now, a floor
  float priority = 0;      // > 0; shares of the budget are proportional to it
};

// New load factors, one per table; 1 for a table that had better lie in HBM whole. NaN where a
// table's size does not depend on the load factor. O(passes * tables), at most 128 passes.
std::vector<float> allocate_budget(std::span<const ScalableCache> caches, double budget_bytes);

}  // namespace plimsoll::embedding
