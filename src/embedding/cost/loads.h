// Ids and outputs of a table, shared by both estimators.
#pragma once

#include <algorithm>

#include "plimsoll/embedding/estimator.h"

namespace plimsoll::embedding {

inline constexpr double kIdBytes = 8;  // ids are int64, whatever they are

// Of a table's rows, where neither the table nor its sharder gives a cache load factor (TorchRec's
// own default).
inline constexpr double kDefaultCachingRatio = 0.2;

// Sums over features run left to right from zero, each product as (L N) B.
struct Loads {
  double ids = 0;      // I = sum of (L N) B
  double outputs = 0;  // P = sum of N B; from 1.7 on capped by the ids, min(1, L) N B
};

inline Loads make_loads(const CostModel& cost_model, const TableProfile& table) {
  Loads loads;
  for (std::size_t f = 0; f < table.pooling_factors.size(); ++f) {
    const double factor = table.pooling_factors[f];
    const double poolings = table.num_poolings[f];
    const double batch = static_cast<double>(table.batch_sizes[f]);
    loads.ids += factor * poolings * batch;
    loads.outputs +=
        cost_model.pooled_output_cap ? std::min(1.0, factor) * poolings * batch : poolings * batch;
  }
  return loads;
}

}  // namespace plimsoll::embedding
