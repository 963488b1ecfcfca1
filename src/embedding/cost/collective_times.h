// How long a collective takes by a machine's tables.
//
// Between the sizes of a table times are interpolated linearly in logarithms; beyond its ends the
// slope of the last two sizes goes on. A group that was measured answers by its own table. Another
// one is compared by the bytes that leave a rank, (g - 1) / g of its buffer: the table that comes
// nearest in ranks is read at the size at which as many bytes left a rank of it. Of a group of g
// ranks in fast domains of h, (h - 1) / g stay in the domain and (g - h) / g leave it; the slower
// of the two counts, each by its own table. Without a table of several domains the share that
// leaves them crosses at the topology's bandwidth between hosts. An operation without a table takes
// that of another one: reduce_scatter and all_gather of each other, then all_to_all; all_reduce of
// reduce_scatter and all_gather, one after another; all_to_all of all_gather, then reduce_scatter.
// Without any table both shares take the topology's bandwidths, and all_reduce twice of that.
// Source: docs/mathematics/calibrated-times.md#collectives.
#pragma once

#include <vector>

#include "plimsoll/embedding/machine_model.h"

namespace plimsoll::embedding {

// `ranks` ranks that communicate, `per_host` of them in each fast domain, which is a host where
// hosts are not joined (topology::Topology::group_size).
struct CommunicatingRanks {
  int ranks = 1;
  int per_host = 1;
  bool operator==(const CommunicatingRanks&) const = default;
};

// Milliseconds for a size within or beyond the table. Precondition: bytes > 0.
double interpolated_ms(const CollectiveTable& table, double bytes);

class CollectiveTimes {
 public:
  // `topology` gives bandwidths where tables do not. Both must outlive it.
  CollectiveTimes(const MachineModel& machine, const topology::Topology& topology)
      : machine_(&machine), topology_(&topology) {}

  // Milliseconds for a rank's larger buffer; 0 for no bytes, and for a rank alone. What was not
  // measured is appended to `notes` unless that is null.
  double ms(topology::Collective operation, const CommunicatingRanks& group, double bytes,
            std::vector<Extrapolation>* notes = nullptr) const;

 private:
  double table_ms(topology::Collective operation, const CommunicatingRanks& group, double bytes,
                  std::vector<Extrapolation>* notes) const;
  double bandwidth_ms(topology::Collective operation, const CommunicatingRanks& group,
                      double bytes) const;
  const CollectiveTable* nearest(topology::Collective operation, const CommunicatingRanks& group,
                                 bool of_hosts) const;
  CommunicatingRanks measured_ranks(const CollectiveTable& table) const;

  const MachineModel* machine_;
  const topology::Topology* topology_;
};

}  // namespace plimsoll::embedding
