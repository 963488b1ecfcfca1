// Options that a plan could hold and the reference's runtime would train wrongly or refuse: what
// the checker calls hazards, seen from the search's side. Source: specification of the Python
// drop-in, section 10; the judge of them is check/sharding_check.h.
#pragma once

#include <vector>

#include "plimsoll/embedding/model.h"
#include "plimsoll/embedding/option_set.h"
#include "plimsoll/topology/topology.h"

namespace plimsoll::embedding {

// [options]: true where no plan may take the option. A hazard that two tables make together
// (mean-pooled rows beside tables not cut by rows) is laid to the row-wise options of the
// mean-pooled table, or, where it has no others, to the options of the other tables of its
// collection that are not cut by rows. Where `model` lacks the table (options of a dump), only what
// shapes show is seen. O(options + runs).
std::vector<bool> find_hazardous_options(const OptionSet& options,
                                         const topology::Topology& topology, const Model& model);

}  // namespace plimsoll::embedding
