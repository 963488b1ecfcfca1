#include "partition/assignment/placement_tree.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>
#include <numeric>

#include "core/check.h"
#include "partition/assignment/load_state.h"
#include "partition/graph/downsets.h"
#include "partition/graph/shared_work.h"

namespace plimsoll::partition {
namespace {

constexpr double kBetter = 1 - 1e-12;
constexpr int kMaxGroups = 32;
constexpr std::size_t kMaxDevices = 16;
constexpr double kFewPlacements = 1 << 24;      // four devices to the power of twelve groups
constexpr std::int64_t kTreeClockSteps = 4096;  // between two checks of the clock

using Set = std::uint32_t;  // of groups, or of devices

constexpr Set set_of(int element) { return Set{1} << element; }
constexpr bool is_in(int element, Set set) { return (set >> element & 1U) != 0; }

// Calls `visit` with each element, ascending.
template <class Visit>
void for_each(Set set, Visit visit) {
  for (; set != 0; set &= set - 1) visit(std::countr_zero(set));
}

// What the devices do and hold when some groups are placed.
struct TreeLevel {
  std::vector<double> load;   // [num_devices]
  std::vector<Bytes> memory;  // [num_devices]
  std::vector<Set> ahead;     // [num_devices] devices that must stand behind each
  double spent = 0;           // sum of loads, each over its device's slowness
};

class Tree {
 public:
  Tree(const GroupGraph& groups, const std::vector<std::vector<double>>& pair_rates,
       PlacementTree& tree, std::vector<int>& plan, double& value, const RunContext& context)
      : groups_(groups),
        model_(groups, pair_rates),
        pair_rates_(pair_rates),
        tree_(tree),
        plan_(plan),
        value_(value),
        context_(context),
        num_devices_(model_.num_devices()),
        work_(work_of_groups(groups)),
        device_(groups.nodes.size(), -1),
        on_(static_cast<std::size_t>(num_devices_)),
        levels_(groups.nodes.size() + 1) {
    for (TreeLevel& level : levels_) {
      level.load.resize(on_.size());
      level.memory.resize(on_.size());
      level.ahead.resize(on_.size());
    }
    for (const GroupNet& net : groups.nets) nets_.push_back(members_of(net.groups));
    for (const GroupWeight& weight : groups.weights) weights_.push_back(members_of(weight.groups));
    measure_devices();
    choose_order();
  }

  void run() {
    const int num_groups = groups_.num_groups();
    std::vector<int> choice(groups_.nodes.size(), -1);  // [depth]
    int depth = 0;
    while (depth >= 0) {
      if (depth == num_groups) {
        take();
        --depth;
      } else if (!advance(depth, choice[depth])) {
        choice[depth] = -1;
        --depth;
      } else {
        ++depth;
      }
      if (depth >= 0 && is_over()) return;
    }
    tree_.is_complete = true;
  }

 private:
  static Set members_of(const std::vector<int>& groups) {
    Set set = 0;
    for (const int g : groups) set |= set_of(g);
    return set;
  }

  void measure_devices() {
    const std::vector<double> slowness = slowness_of_kinds(groups_);
    for (int d = 0; d < num_devices_; ++d) {
      const DeviceKind& kind = groups_.kinds[model_.kind_of(d)];
      delay_.push_back(1 / kind.link_rate);
      cap_.push_back(kind.memory_cap.value_or(std::numeric_limits<Bytes>::max()));
      // Where there is no work at all a ms is a ms everywhere.
      const double slow = slowness[model_.kind_of(d)];
      share_.push_back(std::isfinite(slow) ? 1 / slow : has_work() ? 0 : 1);
      speed_ += share_.back();
    }
  }
  bool has_work() const {
    return std::any_of(work_.begin(), work_.end(), [](double work) { return work > 0; });
  }

  // The heaviest first, by its time and half of what it could have to move; then always the one
  // that does or shares most with those before it.
  void choose_order() {
    const int num_groups = groups_.num_groups();
    std::vector<double> key = work_;
    std::vector<char> is_taken(groups_.nodes.size());
    const auto weigh = [&](int group) {
      for (const int n : model_.nets_of(group)) {
        for (const int other : groups_.nets[n].groups) {
          key[other] += groups_.nets[n].amount / 2;
        }
      }
    };
    for (int g = 0; g < num_groups; ++g) {
      for (const int n : model_.nets_of(g)) key[g] += groups_.nets[n].amount / 2;
    }
    for (int i = 0; i < num_groups; ++i) {
      int best = -1;
      for (int g = 0; g < num_groups; ++g) {
        if (is_taken[g] == 0 && (best < 0 || key[g] > key[best])) best = g;
      }
      is_taken[best] = 1;
      order_.push_back(best);
      weigh(best);
    }
    rest_.assign(groups_.nodes.size() + 1, 0);
    for (int i = num_groups - 1; i >= 0; --i) rest_[i] = rest_[i + 1] + work_[order_[i]];
  }

  bool is_over() {
    if (value_ <= tree_.goal || tree_.num_steps >= tree_.max_steps) return true;
    if (tree_.num_steps < next_look_) return false;
    next_look_ = tree_.num_steps + kTreeClockSteps;
    return context_.is_cancelled() || context_.is_past_deadline();
  }
  double cutoff() const { return value_ * kBetter; }

  // The next device for the group of this depth that may lead to something better.
  bool advance(int depth, int& choice) {
    const int group = order_[depth];
    if (choice >= 0) {
      on_[choice] ^= set_of(group);
      device_[group] = -1;
      placed_ ^= set_of(group);
    }
    while (++choice < num_devices_) {
      if (!model_.is_allowed(group, choice) || has_twin(choice)) continue;
      if (!place(depth, group, choice)) continue;
      ++tree_.num_steps;
      on_[choice] |= set_of(group);
      device_[group] = choice;
      placed_ |= set_of(group);
      if (may_be_better(depth + 1)) return true;
      on_[choice] ^= set_of(group);
      device_[group] = -1;
      placed_ ^= set_of(group);
    }
    return false;
  }

  // An empty device of the same kind stands before it.
  bool has_twin(int device) const {
    if (!tree_.rules.uses_twins || !pair_rates_.empty() || on_[device] != 0) return false;
    for (int other = 0; other < device; ++other) {
      if (model_.kind_of(other) == model_.kind_of(device) && on_[other] == 0) return true;
    }
    return false;
  }

  Set holders(Set members) const {
    Set devices = 0;
    for (int d = 0; d < num_devices_; ++d) {
      if ((members & on_[d]) != 0) devices |= set_of(d);
    }
    return devices;
  }

  // What a device among several holders pays for an amount of 1; a lower bound while the producer
  // is not placed (source < 0).
  double delay_of(int device, Set holders, int source) const {
    double delay = delay_[device];
    if (pair_rates_.empty() || source < 0) return delay;
    if (device != source) return std::max(delay, 1 / pair_rates_[device][source]);
    for_each(holders & ~set_of(device),
             [&](int other) { delay = std::max(delay, 1 / pair_rates_[device][other]); });
    return delay;
  }
  int source_of(int net) const {
    return pair_rates_.empty() ? -1 : device_[groups_.nets[net].producer];
  }
  template <class Add>
  void charge(int net, Set holders, int source, double sign, Add add) const {
    if ((holders & (holders - 1)) == 0) return;
    const double amount = sign * groups_.nets[net].amount;
    for_each(holders, [&](int d) { add(d, amount * delay_of(d, holders, source)); });
  }
  // What changes on each device when the group goes to `device`.
  template <class Add>
  void charge_group(int group, int device, Add add) const {
    for (const int n : model_.nets_of(group)) {
      const Set before = holders(nets_[n]);
      const Set after = before | set_of(device);
      const bool is_producer = !pair_rates_.empty() && groups_.nets[n].producer == group;
      if (before == after && !is_producer) continue;
      const int source = source_of(n);
      charge(n, before, source, -1, add);
      charge(n, after, is_producer ? device : source, 1, add);
    }
  }
  Bytes memory_change(int group, int device) const {
    Bytes change = groups_.memory[group];
    for (const int w : model_.weights_of(group)) {
      if ((weights_[w] & on_[device]) == 0) change += groups_.weights[w].bytes;
    }
    return change;
  }

  // Makes the next level; false where the device is ruled out.
  bool place(int depth, int group, int device) {
    const TreeLevel& from = levels_[depth];
    if (memory_change(group, device) > cap_[device] - from.memory[device]) return false;
    TreeLevel& to = levels_[depth + 1];
    to.load = from.load;
    to.load[device] += groups_.time_ms[model_.kind_of(device)][group];
    charge_group(group, device, [&](int d, double ms) { to.load[d] += ms; });
    const double limit = cutoff();
    to.spent = 0;
    for (int d = 0; d < num_devices_; ++d) {
      if (!(to.load[d] < limit)) return false;
      to.spent += to.load[d] * share_[d];
    }
    to.memory = from.memory;
    to.memory[device] += memory_change(group, device);
    return !tree_.requires_line || stands_in_line(from, group, device, to.ahead);
  }

  bool stands_in_line(const TreeLevel& from, int group, int device, std::vector<Set>& ahead) const {
    ahead = from.ahead;
    for (const int before : groups_.predecessors[group]) {
      if (device_[before] >= 0 && device_[before] != device) {
        ahead[device_[before]] |= set_of(device);
      }
    }
    for (const int after : groups_.successors[group]) {
      if (device_[after] >= 0 && device_[after] != device) ahead[device] |= set_of(device_[after]);
    }
    for (int middle = 0; middle < num_devices_; ++middle) {
      for (Set& set : ahead) {
        if (is_in(middle, set)) set |= ahead[middle];
      }
    }
    for (int d = 0; d < num_devices_; ++d) {
      if (is_in(d, ahead[d])) return false;
    }
    return true;
  }

  bool may_be_better(int depth) const {
    return !tree_.rules.uses_work || levels_[depth].spent + rest_[depth] < cutoff() * speed_;
  }

  void take() {
    const TreeLevel& level = levels_[groups_.nodes.size()];
    value_ = level.load.empty() ? 0 : *std::max_element(level.load.begin(), level.load.end());
    plan_ = device_;
    if (context_.progress) context_.progress({tree_.num_steps, value_, std::nullopt});
  }

  const GroupGraph& groups_;
  const LoadModel model_;
  const std::vector<std::vector<double>>& pair_rates_;
  PlacementTree& tree_;
  std::vector<int>& plan_;
  double& value_;
  const RunContext& context_;
  const int num_devices_;
  const std::vector<double> work_;            // [num_groups]
  std::vector<double> delay_, share_;         // [num_devices] ms for an amount of 1; 1 / slowness
  std::vector<Bytes> cap_;                    // [num_devices]
  double speed_ = 0;                          // sum of shares
  std::vector<Set> nets_, weights_;           // their groups
  std::vector<int> order_;                    // [num_groups]
  std::vector<double> rest_;                  // [num_groups + 1] least work from each depth on
  std::vector<int> device_;                   // [num_groups] -1: not placed
  std::vector<Set> on_;                       // [num_devices] groups
  Set placed_ = 0;                            // groups
  std::vector<TreeLevel> levels_;             // [num_groups + 1]
  std::int64_t next_look_ = kTreeClockSteps;  // at the clock
};

}  // namespace

std::int64_t default_tree_steps(const GroupGraph& groups) {
  std::size_t num_devices = 0;
  for (const DeviceKind& kind : groups.kinds) num_devices += kind.devices.size();
  if (groups.num_groups() > kMaxGroups || num_devices > kMaxDevices) return 0;
  const double num_placements = std::pow(static_cast<double>(num_devices), groups.num_groups());
  return num_placements <= kFewPlacements ? kTreeSteps : kTreeSteps / 8;
}

void search_placement_tree(const GroupGraph& groups,
                           const std::vector<std::vector<double>>& pair_rates, PlacementTree& tree,
                           std::vector<int>& device, double& value, const RunContext& context) {
  PLIMSOLL_CHECK(default_tree_steps(groups) > 0,
                 "there are no more groups and devices than the tree takes");
  Tree(groups, pair_rates, tree, device, value, context).run();
}

}  // namespace plimsoll::partition
