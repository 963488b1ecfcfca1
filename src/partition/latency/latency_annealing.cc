#include "partition/latency/latency_annealing.h"

#include <algorithm>
#include <cmath>
#include <utility>

namespace plimsoll::partition {
namespace {

constexpr double kSumShare = 0.001;  // of all tasks' times, beside the latency
constexpr int kClockMoves = 256;     // between two checks of the clock

}  // namespace

LatencyAnnealing::LatencyAnnealing(const CostGraph& graph, const LatencyGroups& groups)
    : graph_(graph),
      groups_(groups),
      latency_(graph),
      state_(graph, groups),
      place_(groups.nodes.size(), -1),
      readers_(graph.nodes.size()),
      sources_(graph.nodes.size()),
      task_(graph.nodes.size()),
      seen_(graph.nodes.size()) {
  for (const int node : latency_.order()) {
    const int group = groups.group_of[node];
    if (place_[group] >= 0) continue;
    place_[group] = static_cast<int>(order_.size());
    order_.push_back(group);
  }
  for (const Net& net : graph.nets) {
    for (const int consumer : net.consumers) {
      readers_[net.producer].push_back(consumer);
      sources_[consumer].push_back(net.producer);
    }
  }
}

double LatencyAnnealing::score(double latency) const {
  if (latency == kUnlimited) return kUnlimited;
  double sum = 0;
  for (int task = 0; task < latency_.num_tasks(); ++task) sum += latency_.duration(task);
  return latency + kSumShare * sum;
}

void LatencyAnnealing::put(int group, int to) {
  const int from = state_.device_of_group(group);
  if (from == to || !state_.is_allowed(group, to)) return;
  changes_.push_back({group, from});
  state_.move(group, to);
}

void LatencyAnnealing::undo() {
  for (auto change = changes_.rbegin(); change != changes_.rend(); ++change) {
    state_.move(change->group, change->from);
  }
}

int LatencyAnnealing::random_device(SplitMix64& random) {
  return random.below(graph_.num_devices());
}

void LatencyAnnealing::move_to_neighbour(SplitMix64& random) {
  const int group = random.below(groups_.num_groups());
  const std::vector<int>& nodes = groups_.nodes[group];
  const int node = nodes[random.below(static_cast<int>(nodes.size()))];
  const int num_sources = static_cast<int>(sources_[node].size());
  const int num_all = num_sources + static_cast<int>(readers_[node].size());
  int to = random_device(random);
  if (num_all > 0 && random.below(4) != 0) {
    const int pick = random.below(num_all);
    to = state_.device()[pick < num_sources ? sources_[node][pick]
                                            : readers_[node][pick - num_sources]];
  }
  put(group, to);
}

void LatencyAnnealing::move_run(SplitMix64& random) {
  const int num_groups = groups_.num_groups();
  const int begin = random.below(num_groups);
  const int longest = std::max(1, num_groups >> random.below(8));
  const int end = std::min(num_groups, begin + 1 + random.below(longest));
  int to = random_device(random);
  const int choice = random.below(3);
  if (choice == 0 && begin > 0) to = state_.device_of_group(order_[begin - 1]);
  if (choice == 1 && end < num_groups) to = state_.device_of_group(order_[end]);
  for (int i = begin; i < end; ++i) put(order_[i], to);
}

// A net is cut between two nodes: the reader follows the producer with all of its task that stands
// before it, or the producer follows the reader with all that stands behind it.
void LatencyAnnealing::move_over_border(SplitMix64& random) {
  for (int attempt = 0; attempt < 8; ++attempt) {
    if (graph_.nets.empty()) return;
    const Net& net = graph_.nets[random.below(static_cast<int>(graph_.nets.size()))];
    if (net.consumers.empty()) continue;
    const int reader = net.consumers[random.below(static_cast<int>(net.consumers.size()))];
    if (task_[net.producer] == task_[reader]) continue;
    const bool goes_back = random.below(2) == 0;
    const int first = goes_back ? reader : net.producer;
    const int to = state_.device()[goes_back ? net.producer : reader];
    const std::vector<std::vector<int>>& next = goes_back ? sources_ : readers_;
    ++stamp_;
    open_.assign(1, first);
    seen_[first] = stamp_;
    while (!open_.empty()) {
      const int node = open_.back();
      open_.pop_back();
      for (const int mate : groups_.nodes[groups_.group_of[node]]) {
        for (const int other : next[mate]) {
          if (seen_[other] == stamp_ || task_[other] != task_[first]) continue;
          seen_[other] = stamp_;
          open_.push_back(other);
        }
      }
      put(groups_.group_of[node], to);
    }
    return;
  }
}

// A whole task, or all of its device.
void LatencyAnnealing::move_task(SplitMix64& random) {
  const int node = random.below(graph_.num_nodes());
  const int device = state_.device()[node];
  const int to = random_device(random);
  const bool takes_all = random.below(3) == 0;
  for (int other = 0; other < graph_.num_nodes(); ++other) {
    if (task_[other] == task_[node] || (takes_all && state_.device()[other] == device)) {
      put(groups_.group_of[other], to);
    }
  }
}

void LatencyAnnealing::swap_groups(SplitMix64& random) {
  const int a = random.below(groups_.num_groups());
  const int b = random.below(groups_.num_groups());
  const int device_of_a = state_.device_of_group(a);
  put(a, state_.device_of_group(b));
  put(b, device_of_a);
}

void LatencyAnnealing::propose(SplitMix64& random) {
  changes_.clear();
  const int choice = random.below(100);
  if (choice < 30) {
    move_to_neighbour(random);
  } else if (choice < 60) {
    move_run(random);
  } else if (choice < 90) {
    move_over_border(random);
  } else if (choice < 96) {
    move_task(random);
  } else {
    swap_groups(random);
  }
}

double LatencyAnnealing::run(std::vector<int>& plan, const LatencyAnnealingOptions& options,
                             double lower_bound, SplitMix64& random, const RunContext& context,
                             std::int64_t& num_done) {
  state_.assign(plan);
  double best = latency_.evaluate(plan);
  double current = score(best);
  if (graph_.nodes.empty()) return best;
  const auto remember_tasks = [&] {
    for (int node = 0; node < graph_.num_nodes(); ++node) task_[node] = latency_.task_of(node);
  };
  remember_tasks();
  const double base = best == kUnlimited ? 1 : best;
  const double steps = static_cast<double>(std::max<std::int64_t>(options.num_moves - 1, 1));
  const double cooling = std::pow(options.last_temperature / options.first_temperature, 1 / steps);
  double temperature = options.first_temperature * base;
  const std::int64_t num_moves = std::min(options.num_moves, options.max_moves);
  for (std::int64_t i = 0; i < num_moves; ++i, temperature *= cooling) {
    if (best <= lower_bound) break;
    if (i % kClockMoves == 0 && (context.is_cancelled() || context.is_past_deadline())) break;
    ++num_done;
    propose(random);
    if (changes_.empty()) continue;
    bool fits = true;
    for (const Change& change : changes_) {
      fits = fits && state_.fits(state_.device_of_group(change.group));
    }
    const double limit = current - temperature * std::log(1 - random.unit());
    const double latency = fits ? latency_.evaluate(state_.device()) : kUnlimited;
    const double next = score(latency);
    if (!(next <= limit) || next == kUnlimited) {
      undo();
      continue;
    }
    current = next;
    remember_tasks();
    if (latency < best) {
      best = latency;
      plan = state_.device();
      if (context.progress) context.progress({num_done, best, lower_bound});
    }
  }
  return best;
}

}  // namespace plimsoll::partition
