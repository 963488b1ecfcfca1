#include "partition/stages/path_bound.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <utility>
#include <vector>

#include "core/check.h"
#include "core/rounding.h"
#include "partition/graph/downsets.h"
#include "partition/graph/net_cut.h"
#include "partition/graph/shared_work.h"
#include "partition/stages/device_states.h"

namespace plimsoll::partition {
namespace {

constexpr int kNoRun = -1;
constexpr int kEmptyRun = -2;
constexpr int kMaxPathStates = 256;  // ways to have used up devices
constexpr std::size_t kMaxRuns = 400'000;
constexpr int kNumGuesses = 24;
constexpr double kResolution = 2e-7;   // relative; guesses come no closer
constexpr std::int64_t kWaySteps = 5;  // runs looked at, for each step of a cut
constexpr double kNegative = -std::numeric_limits<double>::infinity();

// The groups [begin, end) of a path in one stage.
struct Run {
  int begin = 0, end = 0;
  double hull_work = 0;
  double allowed_work = 0;  // of all that the stage may hold
  double amount = 0;        // that it moves at least
  bool is_exact = false;    // nothing more to charge
};

class PathBound {
 public:
  PathBound(const CostGraph& graph, const GroupGraph& groups, const RunContext& context)
      : graph_(graph),
        groups_(groups),
        context_(context),
        states_(groups),
        slowness_(slowness_of_kinds(groups)),
        work_(work_of_groups(groups)),
        nets_of_(nets_of_groups(groups)),
        cut_(graph, root_),
        time_(graph.nodes.size()) {
    root_.resize(graph.nodes.size());
    group_of_.resize(graph.nodes.size());
    for (int g = 0; g < groups.num_groups(); ++g) {
      total_ += work_[g];
      for (const int node : groups.nodes[g]) {
        root_[node] = groups.nodes[g].front();
        group_of_[node] = g;
      }
    }
    for (const Net& net : graph.nets) num_pins_ += net.consumers.size() + 1;
    for (int k = 0; k < groups.num_kinds(); ++k) {
      speed_ += static_cast<double>(groups.kinds[k].devices.size()) / slowness_[k];
    }
  }

  int num_states() const { return states_.size(); }

  // The path on which weights of groups add up to most.
  std::vector<int> heaviest_path(const std::vector<double>& weight) const {
    std::vector<double> sum(work_.size());
    std::vector<int> before(work_.size(), kNoRun);
    int last = kNoRun;
    for (int g = 0; g < groups_.num_groups(); ++g) {
      for (const int p : groups_.predecessors[g]) {
        if (before[g] != kNoRun && sum[p] <= sum[before[g]]) continue;
        before[g] = p;
      }
      sum[g] = weight[g] + (before[g] == kNoRun ? 0 : sum[before[g]]);
      if (last == kNoRun || sum[g] > sum[last]) last = g;
    }
    std::vector<int> path;
    for (int g = last; g != kNoRun; g = before[g]) path.push_back(g);
    std::reverse(path.begin(), path.end());
    return path;
  }

  double raise(const std::vector<int>& path, double proved, double goal, std::int64_t max_steps) {
    locate(path);
    if (!make_runs(goal)) return proved;
    charge_steps_left_ = max_steps;
    way_steps_left_ = kWaySteps * max_steps;
    double low = proved;
    double high = goal;
    for (int i = 0; i < kNumGuesses && high > low * (1 + kResolution) && !is_spent(); ++i) {
      const double guess = i == 0 ? goal * (1 - kResolution) : low + (high - low) / 2;
      (refutes(guess) ? low : high) = guess;
    }
    return low;
  }

 private:
  bool is_spent() const {
    return way_steps_left_ < 0 || context_.is_cancelled() || context_.is_past_deadline();
  }
  int length() const { return static_cast<int>(path_.size()); }

  // The last group of the path that leads to each group, and the first that it leads to.
  void locate(const std::vector<int>& path) {
    path_ = path;
    above_.assign(work_.size(), kNoRun);
    below_.assign(work_.size(), length());
    for (int i = 0; i < length(); ++i) above_[path[i]] = below_[path[i]] = i;
    for (int g = 0; g < groups_.num_groups(); ++g) {
      for (const int p : groups_.predecessors[g]) above_[g] = std::max(above_[g], above_[p]);
    }
    for (int g = groups_.num_groups(); g-- > 0;) {
      for (const int s : groups_.successors[g]) below_[g] = std::min(below_[g], below_[s]);
    }
    ending_.assign(path.size(), {});
    std::vector<double> by_below(path.size() + 1);
    std::vector<double> by_above(path.size() + 1);
    for (int g = 0; g < groups_.num_groups(); ++g) {
      by_below[below_[g]] += work_[g];
      by_above[above_[g] + 1] += work_[g];
      if (above_[g] != kNoRun && below_[g] != length()) ending_[below_[g]].push_back(g);
    }
    before_.assign(path.size() + 1, 0);  // work of all that leads to the path's first i groups
    after_.assign(path.size() + 1, 0);   // work of all that those from the i-th on lead to
    for (int i = 0; i < length(); ++i) before_[i + 1] = before_[i] + by_below[i];
    for (int i = length(); i-- > 0;) after_[i] = after_[i + 1] + by_above[i + 1];
    starts_.assign(groups_.nets.size(), length());
    reach_.assign(groups_.nets.size(), kNoRun);
    for (std::size_t n = 0; n < groups_.nets.size(); ++n) {
      for (const int g : groups_.nets[n].groups) {
        starts_[n] = std::min(starts_[n], below_[g]);
        reach_[n] = std::max(reach_[n], above_[g]);
      }
    }
    seen_.assign(groups_.nets.size(), kNoRun);
  }

  // What a stage without a group of the path may hold, between its groups i - 1 and i.
  double side_work(int i) const { return std::max(0.0, total_ - before_[i] - after_[i]); }

  // Work that a device of the kind does at a largest load when it moves so much.
  double done(int kind, double load, double amount) const {
    return (load - amount / groups_.kinds[kind].link_rate) / slowness_[kind];
  }

  // Those that may take part at a largest load of `goal` or less. False: too many.
  bool make_runs(double goal) {
    runs_.clear();
    const double slack = goal * speed_ - total_;
    double least = kUnlimited;  // that any device must do
    double most = 0;            // that any can
    double rate = 0;
    for (std::size_t k = 0; k < slowness_.size(); ++k) {
      least = std::min(least, goal / slowness_[k] - slack);
      most = std::max(most, goal / slowness_[k]);
      rate = std::max(rate, groups_.kinds[k].link_rate);
    }
    std::vector<double> expires(path_.size() + 1);
    for (int i = 0; i < length(); ++i) {
      if (context_.is_cancelled() || context_.is_past_deadline()) return false;
      std::fill(expires.begin() + i, expires.end(), 0);
      double work = 0;
      double in = 0;
      double out = 0;
      for (int j = i; j < length(); ++j) {
        for (const int g : ending_[j]) {
          if (above_[g] < i) continue;
          work += work_[g];
          for (const int n : nets_of_[g]) {
            if (std::exchange(seen_[n], i) == i) continue;
            const double amount = groups_.nets[n].amount;
            if (starts_[n] < i) {
              in += amount;
            } else if (reach_[n] > j) {
              out += amount;
              expires[reach_[n]] += amount;
            }
          }
        }
        out -= expires[j];
        if (work > most * (1 + kRounding)) break;
        const double moved = (in + std::max(out, 0.0)) * (1 - kRounding);
        const double allowed = total_ - before_[i] - after_[j + 1] + kRounding * total_;
        if (moved / rate > goal || allowed < least) continue;
        if (runs_.size() == kMaxRuns) return false;
        runs_.push_back({i, j + 1, work, allowed, moved, false});
      }
    }
    return true;
  }

  // Is there no way to do all work with every load at most `load`?
  bool refutes(double load) {
    while (find_way(load) >= total_ * (1 - kRounding)) {
      bool has_changed = false;
      for (const int r : way_) {
        if (runs_[r].is_exact) continue;
        if (charge_steps_left_ < 0 || is_spent()) return false;
        charge(runs_[r]);
        has_changed = true;
      }
      if (!has_changed) return false;
    }
    return true;
  }

  // The most work of any way to share out the path; leaves its runs in way_.
  double find_way(double load) {
    const std::size_t width = path_.size() + 1;
    std::vector<double> most(width * static_cast<std::size_t>(states_.size()), kNegative);
    std::vector<std::pair<int, int>> last(most.size(), {kNoRun, kNoRun});  // run and kind
    most[0] = 0;
    for (int state = 1; state < states_.size(); ++state) {
      double* const row = most.data() + width * static_cast<std::size_t>(state);
      auto* const last_row = last.data() + width * static_cast<std::size_t>(state);
      for (int k = 0; k < states_.num_kinds(); ++k) {
        if (states_.used(state, k) == 0) continue;
        const auto without = static_cast<std::size_t>(states_.without(state, k));
        const double* const before = most.data() + width * without;
        for (std::size_t i = 0; i < width; ++i) {
          const double side = std::min(done(k, load, 0), side_work(static_cast<int>(i)));
          if (before[i] + side <= row[i]) continue;
          row[i] = before[i] + side;
          last_row[i] = {kEmptyRun, k};
        }
        way_steps_left_ -= static_cast<std::int64_t>(runs_.size());
        for (std::size_t r = 0; r < runs_.size(); ++r) {
          const Run& run = runs_[r];
          if (before[run.begin] == kNegative) continue;
          const double room = done(k, load, run.amount);
          if (room < run.hull_work * (1 - kRounding)) continue;
          const double value = before[run.begin] + std::min(room, run.allowed_work);
          if (value <= row[run.end]) continue;
          row[run.end] = value;
          last_row[run.end] = {static_cast<int>(r), k};
        }
      }
    }
    way_.clear();
    if (most.back() == kNegative) return kNegative;
    std::size_t place = path_.size();
    for (int state = states_.size() - 1; state > 0;) {
      const auto [run, kind] = last[width * static_cast<std::size_t>(state) + place];
      if (run >= 0) {
        way_.push_back(run);
        place = static_cast<std::size_t>(runs_[run].begin);
      }
      state = states_.without(state, kind);
    }
    return most.back();
  }

  void charge(Run& run) {
    side_.assign(graph_.nodes.size(), Side::kFree);
    for (std::size_t node = 0; node < side_.size(); ++node) {
      const int g = group_of_[node];
      if (above_[g] >= run.begin && below_[g] < run.end) {
        side_[node] = Side::kIn;
      } else if (below_[g] < run.begin || above_[g] >= run.end) {
        side_[node] = Side::kOut;
      }
    }
    const std::int64_t before = cut_.num_steps();
    run.amount = std::max(run.amount, cut_.solve(side_, time_, 1) * (1 - kRounding));
    run.is_exact = true;
    charge_steps_left_ -= static_cast<std::int64_t>(side_.size() + num_pins_);
    charge_steps_left_ -= cut_.num_steps() - before;
  }

  const CostGraph& graph_;
  const GroupGraph& groups_;
  const RunContext& context_;
  const DeviceStates states_;
  const std::vector<double> slowness_, work_;
  const std::vector<std::vector<int>> nets_of_;
  std::vector<int> root_, group_of_;  // [num_nodes]
  NetCut cut_;
  const std::vector<double> time_;  // [num_nodes] 0: moves alone count
  double total_ = 0, speed_ = 0;
  std::size_t num_pins_ = 0;

  std::vector<int> path_;
  std::vector<int> above_, below_;        // [num_groups]
  std::vector<std::vector<int>> ending_;  // [path] groups between groups of the path, by `below`
  std::vector<double> before_, after_;    // [path + 1]
  std::vector<int> starts_, reach_;       // [num_nets] first and last place of the path it touches
  std::vector<int> seen_;                 // [num_nets]
  std::vector<Run> runs_;                 // by begin, then by end
  std::vector<int> way_;
  std::vector<Side> side_;
  std::int64_t charge_steps_left_ = 0, way_steps_left_ = 0;
};

}  // namespace

double bound_by_paths(const CostGraph& graph, const GroupGraph& groups, double proved, double goal,
                      std::int64_t max_steps, const RunContext& context) {
  PLIMSOLL_CHECK(proved > 0 && std::isfinite(goal), "proved is above 0 and the goal finite");
  PathBound bound(graph, groups, context);
  if (bound.num_states() > kMaxPathStates) return proved;
  const std::vector<double> work = work_of_groups(groups);
  std::vector<double> moved(work);
  for (const GroupNet& net : groups.nets) {
    for (const int g : net.groups) moved[g] += net.amount / groups.kinds[0].link_rate;
  }
  std::vector<std::vector<int>> tried;
  for (const auto& weight : {std::vector<double>(work.size(), 1.0), work, moved}) {
    std::vector<int> path = bound.heaviest_path(weight);
    if (std::find(tried.begin(), tried.end(), path) != tried.end()) continue;
    proved = std::max(proved, bound.raise(path, proved, goal, max_steps / 3) * (1 - kRounding));
    tried.push_back(std::move(path));
  }
  return proved;
}

}  // namespace plimsoll::partition
