// Options that a plan could hold and the reference's runtime would train wrongly or refuse: what
// the checker calls hazards, seen from the search's side. Source: specification of the Python
// drop-in, section 10; the judge of them is check/sharding_check.h.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "plimsoll/embedding/model.h"
#include "plimsoll/embedding/option_set.h"
#include "plimsoll/topology/topology.h"

namespace plimsoll::embedding {

// A collection with mean-pooled tables: cut by rows as a whole, or its mean-pooled tables not at
// all. A plan takes none of `rows`, or none of `others`.
struct RowChoice {
  std::vector<std::int32_t> rows;    // options: row-wise cuts of mean-pooled tables
  std::vector<std::int32_t> others;  // options of any of its tables, not cut by rows
};

struct OptionHazards {
  std::vector<bool> is_hazardous;      // [options] no plan may take it
  std::vector<RowChoice> row_choices;  // of collections that may be either
};

// Where a mean-pooled table can only be cut by rows, or another table of its collection cannot be,
// the choice is made and stands in `is_hazardous`. Where `model` lacks the table (options of a
// dump), only what shapes show is seen. O(options + runs).
OptionHazards find_option_hazards(const OptionSet& options, const topology::Topology& topology,
                                  const Model& model);

// Does a plan that takes these options hold a hazard?
bool holds_hazard(const OptionHazards& hazards, std::span<const std::int32_t> taken);

}  // namespace plimsoll::embedding
