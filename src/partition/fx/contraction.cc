#include "partition/fx/contraction.h"

#include <algorithm>
#include <bit>
#include <cstdint>
#include <limits>

#include "core/rounding.h"
#include "plimsoll/core/numbers.h"

namespace plimsoll::partition {
namespace {

DeviceQueue make_queue(const DeviceTable& table) {
  std::vector<Bytes> room;
  for (const Device& device : table.devices) room.push_back(device.available_mem_bytes);
  return DeviceQueue(std::move(room));
}

}  // namespace

Contraction::Contraction(const Graph& graph, const PartitionerConfig& config)
    : clusters_(graph, config),
      table_(config.devices),
      empty_devices_(make_queue(table_)),
      head_(clusters_.max_numbers()),
      tail_(clusters_.max_numbers()),
      device_(clusters_.max_numbers(), kNone),
      way_(clusters_.max_numbers()),
      through_(clusters_.max_numbers(), -kInfinity),
      prefix_(empty_devices_),
      queue_(empty_devices_),
      saved_(table_.devices.size()) {
  for (const Device& device : table_.devices) logical_ids_.push_back(device.logical_id);
  list_stops();
}

void Contraction::list_stops() {
  in_list_.clear();
  in_order_.clear();
  entries_.clear();
  const std::vector<int>& list = clusters_.list();
  std::vector<std::size_t> position(clusters_.max_numbers());
  for (std::size_t i = 0; i < list.size(); ++i) position[list[i]] = i;
  const auto add_stop = [this](std::vector<Stop>& stops, int number, const auto& counts) {
    const int first = static_cast<int>(entries_.size());
    for (const Link& link : clusters_[number].parents) {
      if (counts(link.other)) entries_.push_back({link.other, link.carried, link.transfer});
    }
    const int last = static_cast<int>(entries_.size());
    stops.push_back({number, first, last, clusters_[number].used, clusters_[number].latency});
  };
  for (const int number : list) {
    add_stop(in_list_, number, [&](int parent) { return position[parent] < position[number]; });
  }
  for (const int number : clusters_.order()) add_stop(in_order_, number, [](int) { return true; });
  const auto longest = [](const std::vector<Link>& links, const std::vector<double>& ways) {
    double way = 0;
    for (const Link& link : links) way = std::max(way, ways[link.other]);
    return way;
  };
  for (const int number : clusters_.order()) {
    head_[number] = longest(clusters_[number].parents, head_) + clusters_[number].latency;
  }
  for (auto number = clusters_.order().rbegin(); number != clusters_.order().rend(); ++number) {
    tail_[*number] = longest(clusters_[*number].children, tail_) + clusters_[*number].latency;
  }
}

// Of the clusters in either set, parents first.
template <class Visit>
void Contraction::for_each_stop(const ClusterGraph::Set& a, const ClusterGraph::Set& b,
                                Visit visit) const {
  for (std::size_t word = 0; word < a.size(); ++word) {
    for (std::uint64_t left = a[word] | b[word]; left != 0; left &= left - 1) {
      visit(in_order_[64 * word + static_cast<std::size_t>(std::countr_zero(left))]);
    }
  }
}

// The first device with more room than needed, which then has it no more; kNone if there is none.
int Contraction::find_device(Bytes used, DeviceQueue& queue) {
  const auto order = queue.order();
  const auto found = std::find_if(order.begin(), order.end(), [&](int device) {
    return used - saved_[device] < queue.left(device);
  });
  if (found == order.end()) return kNone;
  const int device = *found;
  queue.take(device, used - saved_[device]);
  return device;
}

// What a device holds of the inputs costs nothing there. False where no device has room.
bool Contraction::place(const Stop& stop, DeviceQueue& queue) {
  for (const Entry& entry : entries(stop)) {
    if (device_[entry.parent] != kNone) saved_[device_[entry.parent]] += entry.carried;
  }
  device_[stop.number] = find_device(stop.used, queue);
  for (const Entry& entry : entries(stop)) {
    if (device_[entry.parent] != kNone) saved_[device_[entry.parent]] = 0;
  }
  return device_[stop.number] != kNone;
}

// Their own devices are none.
bool Contraction::place_union(int a, int b, DeviceQueue& queue) {
  for (const int number : {a, b}) {
    for (const Link& link : clusters_[number].parents) {
      if (device_[link.other] != kNone) saved_[device_[link.other]] += link.carried;
    }
  }
  const int both = clusters_.next_number();
  device_[both] = find_device(trial_.used, queue);
  std::fill(saved_.begin(), saved_.end(), 0);
  return device_[both] != kNone;
}

// Between clusters on devices of one logical id nothing is transferred.
bool Contraction::is_together(int r, int s) const {
  return device_[r] != kNone && device_[s] != kNone &&
         logical_ids_[device_[r]] == logical_ids_[device_[s]];
}

// Precondition: the ways of its parents.
void Contraction::visit(const Stop& stop) {
  double prefix = 0;
  for (const Entry& entry : entries(stop)) {
    const double transfer = is_together(entry.parent, stop.number) ? 0.0 : entry.transfer;
    prefix = std::max(prefix, way_[entry.parent] + transfer);
  }
  way_[stop.number] = prefix + stop.latency;
}

double Contraction::present_path() {
  double longest = 0;
  for (const Stop& stop : in_order_) {
    visit(stop);
    longest = std::max(longest, way_[stop.number]);
  }
  return longest;
}

// Of the union's paths under any devices the longest is not shorter, except for rounding.
double Contraction::least_path_through(int a, int b) const {
  double head = 0;
  double tail = 0;
  for (const int number : {a, b}) {
    for (const Link& link : clusters_[number].parents) {
      if (link.other != a && link.other != b) head = std::max(head, head_[link.other]);
    }
    for (const Link& link : clusters_[number].children) {
      if (link.other != a && link.other != b) tail = std::max(tail, tail_[link.other]);
    }
  }
  return head + trial_.latency + tail;
}

// The longest path through the union, under the devices in `device_`; kNoCost where it is longer
// than `limit`.
double Contraction::path_through_union(int a, int b, double limit) {
  const int both = clusters_.next_number();
  const ClusterGraph::Links links = clusters_.links_of_union(trial_, a, b);
  for_each_stop(clusters_.above(a), clusters_.above(b), [&](const Stop& stop) {
    if (stop.number != a && stop.number != b) visit(stop);
  });
  double prefix = 0;
  for (const int number : {a, b}) {
    for (const Link& link : clusters_[number].parents) {
      const int r = link.other;
      if (r == a || r == b) continue;
      const double transfer =
          is_together(r, both) ? 0.0 : clusters_.transfer_time(links.parents[r]);
      prefix = std::max(prefix, way_[r] + transfer);
    }
  }
  const double way = prefix + trial_.latency;
  double longest = way;
  for (const int number : behind_) through_[number] = -kInfinity;
  behind_.clear();
  for_each_stop(clusters_.below(a), clusters_.below(b), [&](const Stop& stop) {
    const int s = stop.number;
    if (s == a || s == b || longest > limit) return;
    double before = -kInfinity;
    if (links.children[s].other != kNone) {
      before = way + (is_together(both, s) ? 0.0 : clusters_.transfer_time(links.children[s]));
    }
    for (const Entry& entry : entries(stop)) {
      const double transfer = is_together(entry.parent, s) ? 0.0 : entry.transfer;
      before = std::max(before, through_[entry.parent] + transfer);
    }
    through_[s] = before + stop.latency;
    behind_.push_back(s);
    longest = std::max(longest, through_[s]);
  });
  return longest > limit ? kInfinity : longest;
}

// The longest path that avoids the union, as above.
double Contraction::path_beside_union(int a, int b, double limit) {
  way_[a] = way_[b] = -kInfinity;
  double longest = 0;
  for (const Stop& stop : in_order_) {
    if (stop.number == a || stop.number == b) continue;
    visit(stop);
    longest = std::max(longest, way_[stop.number]);
    if (longest > limit) return kInfinity;
  }
  return longest;
}

// The critical path after the merge; infinite where it may not be, or is longer than `limit`. What
// stands before place j, cluster i left out, is mapped already.
double Contraction::try_merge(int i, int j, double limit) {
  const int a = clusters_.list()[i];
  const int b = clusters_.list()[j];
  if (!clusters_.may_merge(a, b)) return kInfinity;
  clusters_.unite(a, b, trial_);
  if (least_path_through(a, b) * (1 - kRounding) > limit) return kInfinity;

  queue_ = prefix_;
  device_[a] = device_[b] = kNone;
  const int n = num_clusters();
  for (int place_in_list = j + 1; place_in_list < n; ++place_in_list) {
    if (!place(in_list_[place_in_list], queue_)) return kInfinity;
  }
  if (!place_union(a, b, queue_)) return kInfinity;
  const double through = path_through_union(a, b, limit);
  return through > limit ? kInfinity : std::max(through, path_beside_union(a, b, limit));
}

std::optional<std::pair<int, int>> Contraction::find_best_merge() {
  double cost = present_path();
  std::optional<std::pair<int, int>> best;
  const int n = num_clusters();
  for (int i = 0; i < n; ++i) {
    prefix_ = empty_devices_;
    bool has_room = true;
    for (int j = 0; j < n && has_room; ++j) {
      if (j == i) {
        device_[clusters_.list()[i]] = kNone;
        continue;
      }
      if (j > i) {
        const double trial = try_merge(i, j, cost);
        if (trial <= cost) {
          cost = trial;
          best = {i, j};
        }
      }
      has_room = place(in_list_[j], prefix_);
    }
  }
  return best;
}

void Contraction::settle() {
  clusters_.update_order();
  list_stops();
  std::fill(device_.begin(), device_.end(), kNone);
  queue_ = empty_devices_;
  for (const Stop& stop : in_list_) {
    if (!place(stop, queue_)) break;
  }
}

std::vector<Partition> Contraction::partitions() const {
  std::vector<Partition> partitions = clusters_.partitions();
  for (std::size_t i = 0; i < partitions.size(); ++i) {
    const int device = device_[clusters_.list()[i]];
    if (device != kNone) partitions[i].logical_device_ids = {table_.devices[device].logical_id};
  }
  return partitions;
}

}  // namespace plimsoll::partition
