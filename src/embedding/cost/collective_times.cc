#include "embedding/cost/collective_times.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <span>

#include "core/check.h"

namespace plimsoll::embedding {
namespace {

using topology::Collective;

// Shares of a rank's buffer that go to other ranks of its host, and to other hosts.
double share_inside(const CommunicatingRanks& group) {
  return static_cast<double>(std::min(group.per_host, group.ranks) - 1) / group.ranks;
}
double share_outside(const CommunicatingRanks& group) {
  return static_cast<double>(std::max(group.ranks - group.per_host, 0)) / group.ranks;
}

bool spans_hosts(const CommunicatingRanks& group) { return group.ranks > group.per_host; }

void note(std::vector<Extrapolation>* notes, std::string variable, std::string of, double value,
          double least, double most) {
  if (notes != nullptr) {
    notes->push_back({std::move(variable), std::move(of), value, least, most});
  }
}

// What stands for an operation that was not measured, in this order; all of one list one after
// another.
std::vector<std::vector<Collective>> stand_ins(Collective operation) {
  switch (operation) {
    case Collective::kAllToAll:
      return {{Collective::kAllGather}, {Collective::kReduceScatter}};
    case Collective::kReduceScatter:
      return {{Collective::kAllGather}, {Collective::kAllToAll}};
    case Collective::kAllGather:
      return {{Collective::kReduceScatter}, {Collective::kAllToAll}};
    case Collective::kAllReduce:
      return {{Collective::kReduceScatter, Collective::kAllGather},
              {Collective::kAllToAll, Collective::kAllToAll}};
  }
  return {};
}

}  // namespace

double interpolated_ms(const CollectiveTable& table, double bytes) {
  PLIMSOLL_DCHECK(bytes > 0, "a message has bytes");
  const std::vector<double>& sizes = table.bytes;
  if (sizes.size() == 1) return table.ms.front() * std::max(bytes / sizes.front(), 1.0);
  const auto above = std::upper_bound(sizes.begin() + 1, sizes.end() - 1, bytes);
  const auto right = static_cast<std::size_t>(above - sizes.begin());
  const std::size_t left = right - 1;
  double slope = std::log(table.ms[right] / table.ms[left]) / std::log(sizes[right] / sizes[left]);
  // A fall from one size to the next is noise; beyond the ends it would make large messages free.
  if (bytes > sizes.back())
    return table.ms.back() * std::pow(bytes / sizes.back(), std::max(slope, 0.0));
  if (bytes < sizes.front()) slope = std::max(slope, 0.0);
  return table.ms[left] * std::exp(slope * std::log(bytes / sizes[left]));
}

CommunicatingRanks CollectiveTimes::measured_ranks(const CollectiveTable& table) const {
  if (table.group != CollectiveGroup::kWorld) return {table.ranks, table.ranks};
  return {table.ranks, std::min(table.ranks, std::max(machine_->ranks_per_host, 1))};
}

// The table of the operation, within a host or not, whose ranks are nearest by ratio. Tables of one
// rank move nothing.
const CollectiveTable* CollectiveTimes::nearest(Collective operation,
                                                const CommunicatingRanks& group,
                                                bool of_hosts) const {
  const CollectiveTable* best = nullptr;
  double best_distance = 0;
  for (const CollectiveTable& table : machine_->collectives) {
    const CommunicatingRanks measured = measured_ranks(table);
    if (table.operation != operation || spans_hosts(measured) != of_hosts || measured.ranks < 2) {
      continue;
    }
    const double distance = std::abs(std::log(static_cast<double>(measured.ranks) / group.ranks)) +
                            std::abs(std::log(static_cast<double>(measured.per_host) /
                                              std::min(group.per_host, group.ranks)));
    if (best == nullptr || distance < best_distance) {
      best = &table;
      best_distance = distance;
    }
  }
  return best;
}

double CollectiveTimes::table_ms(Collective operation, const CommunicatingRanks& group,
                                 double bytes, std::vector<Extrapolation>* notes) const {
  const std::string name(to_string(operation));
  const auto read = [&](const CollectiveTable& table, double size) {
    if (size < table.bytes.front() || size > table.bytes.back()) {
      note(notes, "bytes", name, size, table.bytes.front(), table.bytes.back());
    }
    return interpolated_ms(table, size);
  };
  const auto note_ranks = [&](const CollectiveTable& table) {
    note(notes, "ranks", name, group.ranks, table.ranks, table.ranks);
  };
  const CommunicatingRanks wanted{group.ranks, std::min(group.per_host, group.ranks)};
  const CollectiveTable* within = nearest(operation, wanted, false);
  const CollectiveTable* across = nearest(operation, wanted, true);
  if (!spans_hosts(wanted)) {
    const CollectiveTable& table = within != nullptr ? *within : *across;
    const CommunicatingRanks measured = measured_ranks(table);
    if (measured == wanted) return read(table, bytes);
    note_ranks(table);
    return read(table,
                bytes * share_inside(wanted) / (share_inside(measured) + share_outside(measured)));
  }
  if (across != nullptr && measured_ranks(*across) == wanted) return read(*across, bytes);
  double ms = 0;
  if (within != nullptr && wanted.per_host > 1) {
    ms = read(*within, bytes * share_inside(wanted) / share_inside(measured_ranks(*within)));
  }
  const double outside = bytes * share_outside(wanted);
  if (across == nullptr) {
    note(notes, "hosts", name, static_cast<double>(wanted.ranks) / wanted.per_host, 1, 1);
    return std::max(ms, outside / topology_->comms.inter_host_bw);
  }
  note_ranks(*across);
  return std::max(ms, read(*across, outside / share_outside(measured_ranks(*across))));
}

double CollectiveTimes::bandwidth_ms(Collective operation, const CommunicatingRanks& group,
                                     double bytes) const {
  const int near = std::min(group.per_host, group.ranks);
  const double inside =
      bytes * share_inside(group) / topology_->comms.bandwidth(near, near, operation);
  const double outside =
      bytes * share_outside(group) / topology_->comms.bandwidth(near, group.ranks, operation);
  return std::max(inside, outside);
}

double CollectiveTimes::ms(Collective operation, const CommunicatingRanks& group, double bytes,
                           std::vector<Extrapolation>* notes) const {
  if (group.ranks <= 1 || !(bytes > 0)) return 0;
  const auto can_read = [&](Collective candidate) {
    return nearest(candidate, group, false) != nullptr ||
           nearest(candidate, group, true) != nullptr;
  };
  if (can_read(operation)) return table_ms(operation, group, bytes, notes);
  note(notes, "operation", std::string(to_string(operation)), 0, 0, 0);
  for (const std::vector<Collective>& others : stand_ins(operation)) {
    if (!std::all_of(others.begin(), others.end(), can_read)) continue;
    double sum = 0;
    for (const Collective other : others) sum += table_ms(other, group, bytes, notes);
    return sum;
  }
  if (operation == Collective::kAllReduce) {
    return bandwidth_ms(Collective::kReduceScatter, group, bytes) +
           bandwidth_ms(Collective::kAllGather, group, bytes);
  }
  return bandwidth_ms(operation, group, bytes);
}

}  // namespace plimsoll::embedding
