#include "partition/assignment/annealing.h"

#include <algorithm>
#include <cmath>

#include "core/check.h"

namespace plimsoll::partition {
namespace {

constexpr double kShare = 0.1;
constexpr std::int64_t kMovesBetweenClocks = 1024;
constexpr std::int64_t kMovesBetweenRefreshes = std::int64_t{1} << 20;

class Annealer {
 public:
  Annealer(const LoadModel& model, const AssignmentAnnealing& options, SplitMix64& random,
           const RunContext& context, std::vector<int>& best)
      : model_(model),
        options_(options),
        random_(random),
        context_(context),
        best_(best),
        state_(model, best),
        loads_(state_.loads()),
        excess_(state_.excess()),
        best_excess_(excess_),
        best_load_(state_.largest_load()) {}

  std::int64_t run() {
    const int num_groups = model_.groups().num_groups();
    if (num_groups == 0 || model_.num_devices() < 2) return options_.num_moves;
    const double scale = best_load_;
    double temperature = options_.hot * scale;
    const double ratio =
        std::pow(options_.cold / options_.hot, static_cast<double>(kMovesBetweenClocks) /
                                                   static_cast<double>(options_.num_moves));
    energy_ = energy();
    for (std::int64_t move = 0; move < options_.num_moves; ++move) {
      if (move % kMovesBetweenClocks == 0) {
        if (context_.is_cancelled() || context_.is_past_deadline()) return move;
        temperature *= ratio;
      }
      if (move % kMovesBetweenRefreshes == kMovesBetweenRefreshes - 1) {
        state_.refresh();
        energy_ = energy();
      }
      const double allowance = temperature * -std::log(1 - random_.unit());
      const int group = random_.below(num_groups);
      if (options_.swap_share > 0 && random_.unit() < options_.swap_share) {
        try_swap(group, random_.below(num_groups), allowance);
      } else {
        try_move(group, target_of(group), allowance);
      }
    }
    return options_.num_moves;
  }

 private:
  double energy() {
    loads_ = state_.loads();
    return energy_of_loads();
  }
  double energy_of_loads() const {
    double largest = 0;
    double sum = 0;
    for (const double load : loads_) {
      largest = std::max(largest, load);
      const double square = load * load;
      sum += square * square;
    }
    if (!(largest > 0)) return 0;
    return largest +
           kShare * sum / (largest * largest * largest * static_cast<double>(loads_.size()));
  }

  int target_of(int group) {
    const auto& nets = model_.nets_of(group);
    if (!nets.empty() && random_.below(4) != 0) {
      const int net = nets[random_.below(static_cast<int>(nets.size()))];
      const auto& pins = model_.groups().nets[net].groups;
      return state_.device_of(pins[random_.below(static_cast<int>(pins.size()))]);
    }
    return random_.below(model_.num_devices());
  }

  bool may_stand(int group, int device) const {
    if (!model_.is_allowed(group, device)) return false;
    if (options_.position.empty()) return true;
    const auto& position = options_.position;
    const auto place = [&](int g) { return position[state_.device_of(g)]; };
    for (const int g : model_.groups().predecessors[group]) {
      if (place(g) > position[device]) return false;
    }
    for (const int g : model_.groups().successors[group]) {
      if (place(g) < position[device]) return false;
    }
    return true;
  }

  void try_move(int group, int to, double allowance) {
    const int from = state_.device_of(group);
    if (to == from || !may_stand(group, to)) return;
    const bool is_full = state_.memory(to) > state_.cap(to) - state_.memory_change(group, to);
    if (is_full || excess_ > 0 || model_.has_pair_rates()) {
      state_.move(group, to);
      const Int128 excess = state_.excess();
      const double changed = energy();
      if (excess > excess_ || (excess == excess_ && changed > energy_ + allowance)) {
        state_.move(group, from);
        loads_ = state_.loads();
        return;
      }
      excess_ = excess;
      energy_ = changed;
    } else {
      const auto [off, on] = state_.load_changes(group, to);
      const double load_from = loads_[from];
      const double load_to = loads_[to];
      loads_[from] += off;
      loads_[to] += on;
      const double changed = energy_of_loads();
      if (changed > energy_ + allowance) {
        loads_[from] = load_from;
        loads_[to] = load_to;
        return;
      }
      state_.move(group, to);
      loads_ = state_.loads();
      energy_ = changed;
    }
    keep({group});
  }

  void try_swap(int a, int b, double allowance) {
    const int at_a = state_.device_of(a);
    const int at_b = state_.device_of(b);
    if (at_a == at_b || !may_stand(a, at_b)) return;
    state_.move(a, at_b);
    const bool is_right = may_stand(b, at_a);
    if (is_right) state_.move(b, at_a);
    const Int128 excess = state_.excess();
    const double changed = energy();
    if (!is_right || excess > excess_ || (excess == excess_ && changed > energy_ + allowance)) {
      if (is_right) state_.move(b, at_b);
      state_.move(a, at_a);
      loads_ = state_.loads();
      return;
    }
    excess_ = excess;
    energy_ = changed;
    keep({a, b});
  }

  // The best assignment follows by the groups that have moved since.
  void keep(std::initializer_list<int> moved) {
    if (changed_.size() < best_.size()) changed_.insert(changed_.end(), moved);
    const double largest = *std::max_element(loads_.begin(), loads_.end());
    if (excess_ > best_excess_ || (excess_ == best_excess_ && largest >= best_load_)) return;
    best_excess_ = excess_;
    best_load_ = largest;
    if (changed_.size() < best_.size()) {
      for (const int group : changed_) best_[group] = state_.device_of(group);
    } else {
      best_ = state_.devices();
    }
    changed_.clear();
  }

  const LoadModel& model_;
  const AssignmentAnnealing& options_;
  SplitMix64& random_;
  const RunContext& context_;
  std::vector<int>& best_;
  LoadState state_;
  std::vector<double> loads_;  // as the state's, or as a move on trial would make them
  Int128 excess_;
  double energy_ = 0;
  Int128 best_excess_;
  double best_load_;
  std::vector<int> changed_;  // since best_ was kept; at best_.size() it is not up to date
};

bool stands_in_order(const GroupGraph& groups, const std::vector<int>& position,
                     const std::vector<int>& device) {
  if (position.empty()) return true;
  for (int g = 0; g < groups.num_groups(); ++g) {
    for (const int next : groups.successors[g]) {
      if (position[device[g]] > position[device[next]]) return false;
    }
  }
  return true;
}

}  // namespace

std::int64_t anneal(const LoadModel& model, const AssignmentAnnealing& options, SplitMix64& random,
                    const RunContext& context, std::vector<int>& device) {
  PLIMSOLL_DCHECK(stands_in_order(model.groups(), options.position, device),
                  "the start keeps the order of the positions");
  return Annealer(model, options, random, context, device).run();
}

}  // namespace plimsoll::partition
