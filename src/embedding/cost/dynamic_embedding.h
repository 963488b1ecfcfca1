// What dynamic embedding tables cost (docs/embedding.md#torcheasyrec), for the two estimators and
// the enumerator.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "plimsoll/embedding/estimator.h"

namespace plimsoll::embedding {

// Does a shard of this kernel hold a part of a dynamic table?
bool is_dynamic_shard(const TableProfile& table, ComputeKernel kernel);

// What one table's options choose from: hybrid before caching unless the mode is given, and within
// a mode the load factors, ascending.
std::vector<DynamicEmbedding> dynamic_embedding_choices(
    const DynamicEmbedding& table, const std::optional<CacheParams>& cache_params);

// Bytes per millisecond.
double dynamic_embedding_bandwidth(const Topology& topology, const TableProfile& table);

// HBM and DDR of the values and the hash table of one shard, without input and output. Error
// kOverflow where a size does not fit in 63 bits.
Result<Storage> dynamic_embedding_storage(const TableProfile& table, std::int64_t rows,
                                          std::int64_t columns, bool inference);

}  // namespace plimsoll::embedding
