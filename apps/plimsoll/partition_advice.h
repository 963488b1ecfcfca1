// What would mend a proved infeasibility for want of memory.
#pragma once

#include <functional>
#include <optional>

#include "plimsoll/core/outcome.h"
#include "plimsoll/core/units.h"
#include "plimsoll/io/placement_json.h"
#include "plimsoll/partition_searches.h"

namespace plimsoll::app {

// How much a device needs, as far as it is known.
struct MemoryNeed {
  Bytes enough = 0;      // with so much there is a plan
  Bytes too_little = 0;  // with so much there is none, proved; 0: nothing is
};

// Bisects between the present cap and one that is larger than anything asks for, down to
// `precision` bytes. Nothing where not even the larger one is found to be enough, or the present
// one is.
std::optional<MemoryNeed> find_memory_need(Bytes cap, Bytes most, Bytes precision,
                                           const std::function<SolveStatus(Bytes)>& ask);

// "12 GiB (12884901888 bytes) on each accelerator would do, 1 byte more than now; ...".
std::string memory_need_line(const MemoryNeed& need, Bytes cap, const std::string& device_class);

// Adds to an answer that nothing fits, or that nothing was found where more memory helps, how much
// on the devices of which class would do. The graph is asked without its times and transfers, by
// the same search, with a small effort each time.
void add_memory_advice(const PartitionCase& made, const PartitionSearch& search,
                       const PartitionSearchOptions& options, const RunContext& context,
                       io::PlacementAnswer& answer);

}  // namespace plimsoll::app
