#include "partition/assignment/load_state.h"

#include <algorithm>
#include <limits>

#include "core/check.h"

namespace plimsoll::partition {

LoadModel::LoadModel(const GroupGraph& groups, const std::vector<std::vector<double>>& pair_rates)
    : groups_(groups),
      pair_rates_(pair_rates),
      nets_of_(nets_of_groups(groups)),
      weights_of_(weights_of_groups(groups)) {
  std::size_t num_devices = 0;
  for (const DeviceKind& kind : groups.kinds) num_devices += kind.devices.size();
  kind_of_.resize(num_devices);
  delay_.resize(num_devices);
  cap_.resize(num_devices);
  for (int k = 0; k < groups.num_kinds(); ++k) {
    const DeviceKind& kind = groups.kinds[k];
    for (const int device : kind.devices) {
      kind_of_[device] = k;
      delay_[device] = 1 / kind.link_rate;
      cap_[device] = kind.memory_cap.value_or(std::numeric_limits<Bytes>::max());
    }
  }
}

template <class Hyperedge>
PinCounts::PinCounts(const std::vector<Hyperedge>& edges, int num_devices)
    : num_used_(edges.size()) {
  std::size_t size = 0;
  for (const Hyperedge& edge : edges) {
    first_.push_back(size);
    size += std::min(edge.groups.size(), static_cast<std::size_t>(num_devices));
  }
  slots_.resize(size);
}

void PinCounts::clear() { std::fill(num_used_.begin(), num_used_.end(), 0); }

int PinCounts::add(int edge, int device) {
  Slot* const slots = slots_.data() + first_[edge];
  int& num_used = num_used_[edge];
  for (int i = 0; i < num_used; ++i) {
    if (slots[i].device == device) return ++slots[i].count;
  }
  slots[num_used++] = {device, 1};
  return 1;
}

int PinCounts::remove(int edge, int device) {
  PLIMSOLL_DCHECK(
      std::any_of(begin(edge), end(edge), [device](const Slot& s) { return s.device == device; }),
      "the edge has a pin on the device");
  Slot* slot = slots_.data() + first_[edge];
  while (slot->device != device) ++slot;
  if (--slot->count > 0) return slot->count;
  *slot = slots_[first_[edge] + static_cast<std::size_t>(--num_used_[edge])];
  return 0;
}

LoadState::LoadState(const LoadModel& model, std::vector<int> device)
    : model_(model),
      device_(std::move(device)),
      load_(static_cast<std::size_t>(model.num_devices())),
      memory_(load_.size()),
      net_counts_(model.groups().nets, model.num_devices()),
      weight_counts_(model.groups().weights, model.num_devices()) {
  refresh();
}

void LoadState::refresh() {
  const GroupGraph& groups = model_.groups();
  std::fill(load_.begin(), load_.end(), 0);
  std::fill(memory_.begin(), memory_.end(), 0);
  net_counts_.clear();
  weight_counts_.clear();
  for (int g = 0; g < groups.num_groups(); ++g) {
    const int d = device_[g];
    load_[d] += groups.time_ms[model_.kind_of_[d]][g];
    memory_[d] += groups.memory[g];
    for (const int n : model_.nets_of_[g]) net_counts_.add(n, d);
    for (const int w : model_.weights_of_[g]) {
      if (weight_counts_.add(w, d) == 1) memory_[d] += groups.weights[w].bytes;
    }
  }
  for (std::size_t n = 0; n < groups.nets.size(); ++n) charge_net(static_cast<int>(n), 1);
}

void LoadState::charge_net(int net, double sign) {
  const PinCounts::Slot* const first = net_counts_.begin(net);
  const PinCounts::Slot* const last = net_counts_.end(net);
  if (last - first < 2) return;
  const GroupNet& n = model_.groups_.nets[net];
  const auto& rates = model_.pair_rates_;
  const int source = rates.empty() ? -1 : device_[n.producer];
  for (const auto* slot = first; slot != last; ++slot) {
    const int d = slot->device;
    double delay = model_.delay_[d];
    if (d == source) {
      for (const auto* other = first; other != last; ++other) {
        if (other->device != d) delay = std::max(delay, 1 / rates[d][other->device]);
      }
    } else if (source >= 0) {
      delay = std::max(delay, 1 / rates[d][source]);
    }
    load_[d] += sign * n.amount * delay;
  }
}

Int128 LoadState::excess() const {
  Int128 total = 0;
  for (std::size_t d = 0; d < memory_.size(); ++d) {
    if (memory_[d] > model_.cap_[d]) total += memory_[d] - model_.cap_[d];
  }
  return total;
}

double LoadState::largest_load() const { return *std::max_element(load_.begin(), load_.end()); }

void LoadState::move(int group, int to) {
  const GroupGraph& groups = model_.groups_;
  const int from = device_[group];
  if (from == to) return;
  for (const int w : model_.weights_of_[group]) {
    if (weight_counts_.remove(w, from) == 0) memory_[from] -= groups.weights[w].bytes;
    if (weight_counts_.add(w, to) == 1) memory_[to] += groups.weights[w].bytes;
  }
  memory_[from] -= groups.memory[group];
  memory_[to] += groups.memory[group];
  double off = -groups.time_ms[model_.kind_of_[from]][group];
  double on = groups.time_ms[model_.kind_of_[to]][group];
  if (model_.pair_rates_.empty()) {
    for (const int n : model_.nets_of_[group]) {
      const double amount = groups.nets[n].amount;
      const int size = static_cast<int>(groups.nets[n].groups.size());
      const int left = net_counts_.remove(n, from);
      const int there = net_counts_.add(n, to);
      if (left == 0) off -= amount * model_.delay_[from];
      if (left + 1 == size) off += amount * model_.delay_[from];
      if (there == 1) on += amount * model_.delay_[to];
      if (there == size) on -= amount * model_.delay_[to];
    }
    device_[group] = to;
  } else {
    for (const int n : model_.nets_of_[group]) charge_net(n, -1);
    for (const int n : model_.nets_of_[group]) {
      net_counts_.remove(n, from);
      net_counts_.add(n, to);
    }
    device_[group] = to;
    for (const int n : model_.nets_of_[group]) charge_net(n, 1);
  }
  load_[from] += off;
  load_[to] += on;
}

std::pair<double, double> LoadState::load_changes(int group, int to) const {
  const GroupGraph& groups = model_.groups_;
  const int from = device_[group];
  double off = 0;
  double on = 0;
  for (const int n : model_.nets_of_[group]) {
    const int size = static_cast<int>(groups.nets[n].groups.size());
    int here = 0;
    int there = 0;
    const PinCounts::Slot* const last = net_counts_.end(n);
    for (const PinCounts::Slot* slot = net_counts_.begin(n); slot != last; ++slot) {
      if (slot->device == from) here = slot->count;
      if (slot->device == to) there = slot->count;
    }
    const double amount = groups.nets[n].amount;
    if (here == 1) off -= amount;
    if (here == size) off += amount;
    if (there == 0) on += amount;
    if (there + 1 == size) on -= amount;
  }
  return {off * model_.delay_[from] - groups.time_ms[model_.kind_of_[from]][group],
          on * model_.delay_[to] + groups.time_ms[model_.kind_of_[to]][group]};
}

Bytes LoadState::memory_change(int group, int to) const {
  Bytes change = model_.groups_.memory[group];
  for (const int w : model_.weights_of_[group]) {
    if (weight_counts_.count(w, to) == 0) change += model_.groups_.weights[w].bytes;
  }
  return change;
}

}  // namespace plimsoll::partition
