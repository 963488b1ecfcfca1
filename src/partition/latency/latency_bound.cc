#include "partition/latency/latency_bound.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "core/effort_clock.h"
#include "partition/graph/net_cut.h"
#include "partition/latency/latency_groups.h"
#include "partition/latency/sample_latency.h"

namespace plimsoll::partition {
namespace {

constexpr int kNone = -1;
// For one spine: nodes looked at while runs are made, and runs kept; beyond these it is given up.
// Runs, nodes and pins looked at while runs are charged in full; beyond these the bound stays as it
// is.
constexpr std::int64_t kMaxSteps = 200'000'000;
constexpr std::size_t kMaxRuns = 4'000'000;
constexpr std::int64_t kMaxChargeSteps = 500'000'000;
constexpr int kNumPrices = 16;  // of bytes, for a run that holds too many
// How much a ms of transfer counts beside one of work where spines are chosen.
constexpr double kTransferShares[] = {0, 0.25, 1, 4};

// The units [begin, end) of a spine in one task.
struct Run {
  int begin = 0, end = 0;
  int device_class = 0;
  bool is_host = false;
  bool is_exact = false;  // nothing more to charge
  double hull_time = 0;
  double cost = 0;
};

class Spine {
 public:
  Spine(const CostGraph& graph, const LatencyGroups& groups, const std::vector<int>& order,
        const RunContext& context)
      : graph_(graph),
        groups_(groups),
        order_(order),
        context_(context),
        cut_(graph, root_),
        readers_(graph.nodes.size()),
        inputs_(graph.nodes.size()),
        group_weights_(groups.nodes.size()),
        group_seen_(groups.nodes.size()),
        weight_seen_(graph.weights.size()),
        net_seen_(graph.nets.size()) {
    for (int n = 0; n < static_cast<int>(graph.nets.size()); ++n) {
      readers_[graph.nets[n].producer].push_back(n);
      num_pins_ += graph.nets[n].consumers.size() + 1;
      for (const int consumer : graph.nets[n].consumers) inputs_[consumer].push_back(n);
    }
    for (int w = 0; w < static_cast<int>(graph.weights.size()); ++w) {
      for (const int reader : graph.weights[w].readers) {
        std::vector<int>& list = group_weights_[groups.group_of[reader]];
        if (list.empty() || list.back() != w) list.push_back(w);
      }
    }
    tie_nodes();
    time_ms_.assign(graph.classes.size(), std::vector<double>(graph.nodes.size(), kUnlimited));
    for (int node = 0; node < graph.num_nodes(); ++node) {
      for (const int device : groups.allowed[groups.group_of[node]]) {
        const int kind = graph.class_of(device);
        time_ms_[kind][node] = graph.nodes[node].time_ms[kind];
      }
    }
  }

  // The path on which least time and `share` of what is moved add up to most.
  std::vector<int> heaviest_path(double share) const {
    std::vector<double> sum(graph_.nodes.size());
    std::vector<int> before(graph_.nodes.size(), kNone);
    int last = kNone;
    for (const int node : order_) {
      for (const int n : inputs_[node]) {
        const Net& net = graph_.nets[n];
        const double through = sum[net.producer] + share * net.amount;
        if (before[node] != kNone && through <= sum[node]) continue;
        sum[node] = through;
        before[node] = net.producer;
      }
      sum[node] += groups_.least_time(graph_, node);
      if (last == kNone || sum[node] > sum[last]) last = node;
    }
    std::vector<int> path;
    for (int node = last; node != kNone; node = before[node]) path.push_back(node);
    std::reverse(path.begin(), path.end());
    return path;
  }

  // 0 where it is given up.
  double bound(const std::vector<int>& path, bool uses_cuts) {
    make_units(path);
    locate();
    if (!make_runs()) return 0;
    double value = find_way();
    steps_left_ = kMaxChargeSteps;
    for (bool has_changed = uses_cuts; has_changed && value < kUnlimited;) {
      has_changed = false;
      for (const std::size_t r : way_) {
        if (runs_[r].is_exact) continue;
        if (steps_left_ < 0 || is_interrupted()) return value;
        charge(runs_[r]);
        has_changed = true;
      }
      value = find_way();
      steps_left_ -= static_cast<std::int64_t>(runs_.size());
    }
    return value;
  }

  // Of the last bound() with cuts.
  std::vector<SpineRun> runs() {
    std::vector<SpineRun> list;
    for (const std::size_t r : way_) {
      if (runs_[r].is_host) continue;
      charge(runs_[r]);
      SpineRun& run = list.emplace_back();
      run.device_class = runs_[r].device_class;
      run.nodes = chosen_;
      for (int node = 0; node < graph_.num_nodes(); ++node) {
        if (side_[node] == Side::kIn) run.nodes.push_back(node);
      }
      std::sort(run.nodes.begin(), run.nodes.end());
    }
    return list;
  }

 private:
  bool is_interrupted() const { return context_.is_cancelled() || context_.is_past_deadline(); }
  int num_units() const { return static_cast<int>(units_.size()); }

  // A node whose producers are all in one task, and that shares their device, is in that task.
  void tie_nodes() {
    root_.resize(graph_.nodes.size());
    for (const int node : order_) {
      root_[node] = node;
      const auto& inputs = inputs_[node];
      if (inputs.empty()) continue;
      const int root = root_[graph_.nets[inputs.front()].producer];
      const bool is_tied = groups_.group_of[root] == groups_.group_of[node] &&
                           std::all_of(inputs.begin(), inputs.end(), [&](int n) {
                             return root_[graph_.nets[n].producer] == root;
                           });
      if (is_tied) root_[node] = root;
    }
  }

  // The path's places; nodes that no task parts are one.
  void make_units(const std::vector<int>& path) {
    units_.clear();
    for (std::size_t i = 0; i < path.size(); ++i) {
      if (i == 0 || root_[path[i]] != root_[path[i - 1]]) units_.emplace_back();
      units_.back().push_back(path[i]);
    }
  }

  // The last unit that leads to each node, and the first that it leads to.
  void locate() {
    above_.assign(graph_.nodes.size(), kNone);
    below_.assign(graph_.nodes.size(), num_units());
    for (int i = 0; i < num_units(); ++i) {
      for (const int node : units_[i]) above_[node] = below_[node] = i;
    }
    for (const int node : order_) {
      for (const int n : inputs_[node]) {
        above_[node] = std::max(above_[node], above_[graph_.nets[n].producer]);
      }
    }
    for (auto node = order_.rbegin(); node != order_.rend(); ++node) {
      for (const int n : readers_[*node]) {
        for (const int consumer : graph_.nets[n].consumers) {
          below_[*node] = std::min(below_[*node], below_[consumer]);
        }
      }
    }
    ending_.assign(units_.size(), {});
    for (const int node : order_) {
      if (above_[node] != kNone && below_[node] != num_units()) {
        ending_[below_[node]].push_back(node);
      }
    }
    reach_.assign(graph_.nets.size(), kNone);
    for (std::size_t n = 0; n < graph_.nets.size(); ++n) {
      for (const int consumer : graph_.nets[n].consumers) {
        reach_[n] = std::max(reach_[n], above_[consumer]);
      }
    }
  }

  bool make_runs() {
    runs_.clear();
    steps_left_ = kMaxSteps;
    expires_.assign(units_.size() + 1, 0);
    for (int i = 0; i < num_units(); ++i) {
      if (is_interrupted()) return false;
      for (int kind = 0; kind < static_cast<int>(graph_.classes.size()); ++kind) {
        if (is_host(graph_.classes[kind])) {
          double time = 0;
          for (const int node : units_[i]) time += time_ms_[kind][node];
          runs_.push_back({i, i + 1, kind, true, true, time, time});
        } else if (!make_runs_from(i, kind)) {
          return false;
        }
      }
    }
    return true;
  }

  // Runs that begin with unit i, on accelerators of a class. False: too many steps or runs.
  bool make_runs_from(int i, int kind) {
    const DeviceClass& devices = graph_.classes[kind];
    ++stamp_;
    double time = 0;
    double in = 0;
    double out = 0;
    Bytes bytes = 0;
    std::fill(expires_.begin() + i, expires_.end(), 0);
    steps_left_ -= num_units() - i;
    for (int j = i; j < num_units(); ++j) {
      for (const int node : ending_[j]) {
        if (above_[node] < i) continue;
        if (--steps_left_ < 0) return false;
        time += time_ms_[kind][node];
        const int group = groups_.group_of[node];
        if (std::exchange(group_seen_[group], stamp_) != stamp_) {
          bytes += groups_.memory[group];
          for (const int w : group_weights_[group]) {
            if (std::exchange(weight_seen_[w], stamp_) != stamp_) bytes += graph_.weights[w].bytes;
          }
        }
        for (const int n : inputs_[node]) {
          if (below_[graph_.nets[n].producer] >= i) continue;
          if (std::exchange(net_seen_[n], stamp_) != stamp_) in += graph_.nets[n].amount;
        }
        for (const int n : readers_[node]) {
          if (reach_[n] <= j) continue;
          out += graph_.nets[n].amount;
          expires_[reach_[n]] += graph_.nets[n].amount;
        }
      }
      out -= expires_[j];
      if (time == kUnlimited || (devices.memory_cap && bytes > *devices.memory_cap)) return true;
      if (runs_.size() == kMaxRuns) return false;
      const double moved = (in + std::max(out, 0.0)) / devices.link_rate;
      runs_.push_back({i, j + 1, kind, false, false, time, time + moved});
    }
    return true;
  }

  // Charges what the cheapest task around the run's hull takes. Where it holds more than the cap,
  // a price for bytes is raised until it does not, or the bound falls (Lagrange): what is best at a
  // price, less the price of all bytes that there is room for, is a bound at every price.
  void charge(Run& run) {
    side_.assign(graph_.nodes.size(), Side::kFree);
    Bytes room = graph_.classes[run.device_class].memory_cap.value_or(-1);
    const bool has_cap = room >= 0;
    ++stamp_;
    for (int node = 0; node < graph_.num_nodes(); ++node) {
      if (above_[node] >= run.begin && below_[node] < run.end) {
        side_[node] = Side::kIn;
        const int group = groups_.group_of[node];
        if (std::exchange(group_seen_[group], stamp_) != stamp_) room -= groups_.memory[group];
      } else if (below_[node] < run.begin || above_[node] >= run.end) {
        side_[node] = Side::kOut;
      }
    }
    const std::vector<double>& time = time_ms_[run.device_class];
    const double rate = graph_.classes[run.device_class].link_rate;
    // Bytes of nodes that are free and come without a mate.
    const auto bytes_of = [&](int node) {
      return group_seen_[groups_.group_of[node]] == stamp_ ? 0 : graph_.nodes[node].memory;
    };
    double low = 0;  // prices, ms for a byte
    double high = kUnlimited;
    double price = 0;
    double first_price = 0;
    std::vector<double> priced = time;
    for (int step = 0; step < kNumPrices; ++step) {
      if (price > 0) {
        for (std::size_t node = 0; node < priced.size(); ++node) {
          priced[node] = time[node] + price * static_cast<double>(bytes_of(static_cast<int>(node)));
        }
      }
      const double moved =
          cut_.solve(side_, priced, rate) - price * static_cast<double>(std::max<Bytes>(room, 0));
      if (run.hull_time + moved > run.cost) run.cost = run.hull_time + moved;
      steps_left_ -= static_cast<std::int64_t>(graph_.nodes.size() + num_pins_);
      Bytes taken = 0;
      if (step == 0) chosen_ = cut_.chosen();
      for (const int node : cut_.chosen()) taken += bytes_of(node);
      if (taken <= room) chosen_ = cut_.chosen();
      if (!has_cap || (step == 0 && taken <= room)) break;
      (taken > room ? low : high) = price;
      if (step == 0) first_price = moved / static_cast<double>(std::max<Bytes>(taken - room, 1));
      price = high == kUnlimited ? std::max(2 * low, first_price) : (low + high) / 2;
    }
    run.is_exact = true;
  }

  // The cheapest way through all units; leaves its runs in way_.
  double find_way() {
    std::vector<double> least(units_.size() + 1, kUnlimited);
    std::vector<std::size_t> last(units_.size() + 1);
    least[0] = 0;
    for (std::size_t r = 0; r < runs_.size(); ++r) {  // by their first units
      const double value = least[runs_[r].begin] + runs_[r].cost;
      if (!(value < least[runs_[r].end])) continue;
      least[runs_[r].end] = value;
      last[runs_[r].end] = r;
    }
    way_.clear();
    if (least.back() == kUnlimited) return kUnlimited;
    for (int place = num_units(); place > 0; place = runs_[last[place]].begin) {
      way_.push_back(last[place]);
    }
    std::reverse(way_.begin(), way_.end());
    return least.back();
  }

  const CostGraph& graph_;
  const LatencyGroups& groups_;
  const std::vector<int>& order_;
  const RunContext& context_;
  std::vector<int> root_;  // [num_nodes] the first of the nodes that no placement parts
  NetCut cut_;
  std::vector<std::vector<int>> readers_, inputs_;  // [num_nodes] nets
  std::vector<std::vector<int>> group_weights_;     // [num_groups]
  std::vector<std::vector<double>> time_ms_;        // [num_classes][num_nodes] colours respected

  std::vector<std::vector<int>> units_;   // of the spine, in order
  std::vector<int> above_, below_;        // [num_nodes]
  std::vector<int> reach_;                // [num_nets] the farthest unit that leads to a reader
  std::vector<std::vector<int>> ending_;  // [unit] nodes between units, by `below`
  std::vector<Run> runs_;
  std::vector<std::size_t> way_;
  std::vector<Side> side_;
  std::vector<int> chosen_;      // free nodes of the last charge
  std::vector<double> expires_;  // [unit] amounts that nobody after it reads
  std::vector<std::int64_t> group_seen_, weight_seen_, net_seen_;
  std::size_t num_pins_ = 0;
  std::int64_t stamp_ = 0, steps_left_ = 0;
};

}  // namespace

std::vector<double> least_tails(const CostGraph& graph, const std::vector<int>& order) {
  const LatencyGroups groups(graph);
  std::vector<double> tail(graph.nodes.size());
  std::vector<double> after(graph.nodes.size());
  std::vector<std::vector<int>> producers(graph.nodes.size());
  for (const Net& net : graph.nets) {
    for (const int consumer : net.consumers) producers[consumer].push_back(net.producer);
  }
  for (auto node = order.rbegin(); node != order.rend(); ++node) {
    tail[*node] = after[*node] + groups.least_time(graph, *node);
    for (const int producer : producers[*node]) {
      after[producer] = std::max(after[producer], tail[*node]);
    }
  }
  return tail;
}

LatencyBound bound_latency(const CostGraph& graph, const LatencyBoundRules& rules,
                           const RunContext& context) {
  LatencyBound bound;
  const std::vector<int> order = topological_order(graph);
  for (const double tail : least_tails(graph, order)) bound.value = std::max(bound.value, tail);
  bound.proof = ProofKind::kLongestPath;
  if (bound.value == kUnlimited) bound.proof = ProofKind::kNoDeviceForNode;
  if (!rules.uses_spines || graph.nodes.empty() || bound.value == kUnlimited) return bound;
  if (is_stopped(context)) return bound;
  const LatencyGroups groups(graph);
  Spine spine(graph, groups, order, context);
  std::vector<std::vector<int>> tried;
  for (const double share : kTransferShares) {
    std::vector<int> path = spine.heaviest_path(share);
    if (std::find(tried.begin(), tried.end(), path) != tried.end()) continue;
    const double value = spine.bound(path, rules.uses_cuts);
    tried.push_back(std::move(path));
    if (value <= bound.value) continue;
    bound.value = value;
    bound.proof = ProofKind::kPathInRuns;
    if (value == kUnlimited) return bound;
    bound.runs = spine.runs();
  }
  return bound;
}

}  // namespace plimsoll::partition
