#include "partition/profile/pipedream.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "partition/profile/pipedream_states.h"

namespace plimsoll::partition {
namespace {

constexpr double kNone = std::numeric_limits<double>::infinity();  // Python's None

// The best way to run a range of states on so many machines.
struct Cell {
  double time_s = kNone;
  int split = -1;           // the state that the last stage begins after; -1: one stage
  int machines_before = 0;  // of the stages up to it
  int replicas = 0;         // of the last stage
};

class Optimizer {
 public:
  Optimizer(const PipeDreamOptions& options, const std::vector<PipeDreamState>& states)
      : options_(options), states_(states), size_(static_cast<int>(states.size())) {
    before_.resize(states.size());
    for (int j = 0; j < size_; ++j) {
      for (int k = 0; k < j; ++k) {
        if (states[k].holds.is_within(states[j].holds)) before_[j].push_back(k);
      }
    }
  }

  // Do the tables stay within a few GiB?
  static bool has_room(const PipeDreamOptions& options, std::size_t num_states) {
    constexpr double kMaxCells = 1 << 27;
    double cells = 0;
    for (std::size_t level = 0; level < options.levels.size(); ++level) {
      const bool is_last = level + 1 == options.levels.size();
      const auto size = static_cast<double>(num_states);
      cells += (is_last ? 1 : size) * size * options.levels[level].num_machines;
    }
    return cells <= kMaxCells;
  }

  // Ranges of states and their replicas, at the innermost level; empty without a plan.
  struct Range {
    int begin, end, replicas;
  };
  double run(std::vector<Range>& ranges) {
    for (std::size_t level = 0; level < options_.levels.size(); ++level) fill(level);
    const auto& last = tables_.back();
    const double time_s = last.cell(0, size_ - 1, options_.levels.back().num_machines).time_s;
    if (time_s == kNone) return time_s;
    ranges = {{0, size_, 1}};
    for (std::size_t level = options_.levels.size(); level-- > 0;) {
      std::vector<Range> finer;
      for (const Range& range : ranges) split(level, range, finer);
      ranges = std::move(finer);
    }
    return time_s;
  }

 private:
  struct Table {
    int num_states, num_machines;
    std::vector<Cell> cells;  // [first states][num_states][num_machines]
    Cell& cell(int i, int j, int m) {
      return cells[(static_cast<std::size_t>(i) * num_states + j) * num_machines + m - 1];
    }
    const Cell& cell(int i, int j, int m) const {
      return cells[(static_cast<std::size_t>(i) * num_states + j) * num_machines + m - 1];
    }
  };

  // Of states after i - 1 up to j. At the innermost level a difference of sums, also where neither
  // downset contains the other; above it what the level below makes of the range.
  double compute_s(std::size_t level, int i, int j) const {
    if (j < i) return kNone;
    if (level > 0)
      return tables_[level - 1].cell(i, j, options_.levels[level - 1].num_machines).time_s;
    return i == 0 ? states_[j].compute_s : states_[j].compute_s - states_[i - 1].compute_s;
  }
  double activation(int i, int j) const {
    return i == 0 ? states_[j].activation : states_[j].activation - states_[i - 1].activation;
  }
  double parameters(int i, int j) const {
    return i == 0 ? states_[j].parameters : states_[j].parameters - states_[i - 1].parameters;
  }

  bool fits(double bytes, int machines_behind, int replicas) const {
    if (!options_.memory) return true;
    const double in_flight = std::ceil(static_cast<double>(machines_behind) / replicas);
    return in_flight * bytes <= *options_.memory;
  }

  void fill(std::size_t level) {
    const int n = options_.levels[level].num_machines;
    const bool is_last = level + 1 == options_.levels.size();
    const int num_first = is_last ? 1 : size_;
    tables_.push_back(
        {size_, n, std::vector<Cell>(static_cast<std::size_t>(num_first) * size_ * n)});
    for (int i = 0; i < num_first; ++i) {
      for (int j = i; j < size_; ++j) {
        fill_single(level, i, j);
        if (j > i) fill_splits(level, i, j);
      }
    }
  }

  void fill_single(std::size_t level, int i, int j) {
    const double bandwidth = options_.levels[level].bandwidth;
    const int n = options_.levels[level].num_machines;
    const int within = level == 0 ? 1 : options_.levels[level - 1].num_machines;
    const double own = compute_s(level, i, j);
    const double weights = parameters(i, j);
    if (own == kNone) return;
    for (int m = 1; m <= (options_.straight_pipeline ? 1 : n); ++m) {
      if (!fits(activation(i, j) + weights, n - m, m)) continue;
      const double sync = (4.0 * (m - 1) * weights) / (bandwidth * m) / within;
      tables_[level].cell(i, j, m) = {(own + sync) / m, -1, 0, m};
    }
  }

  void fill_splits(std::size_t level, int i, int j) {
    const double bandwidth = options_.levels[level].bandwidth;
    const int n = options_.levels[level].num_machines;
    Table& table = tables_[level];
    const int most_replicas = options_.straight_pipeline ? 1 : n - 1;
    for (const int k : before_[j]) {
      if (i > 0 && std::binary_search(before_[i - 1].begin(), before_[i - 1].end(), k)) continue;
      if (k < i) continue;
      const double own = compute_s(level, k + 1, j);
      if (own == kNone) continue;
      const double weights = parameters(k + 1, j);
      const double bytes = activation(k + 1, j) + weights;
      for (int replicas = 1; replicas <= most_replicas; ++replicas) {
        // Not divided by the machines within: a quirk.
        const double stage =
            (own + (4.0 * (replicas - 1) * weights) / (bandwidth * replicas)) / replicas;
        const double moved = transfer_s(k, j, replicas, bandwidth);
        for (int m = replicas + 1; m <= n; ++m) {
          const double before = table.cell(i, k, m - replicas).time_s;
          if (before == kNone || !fits(bytes, n - m, replicas)) continue;
          const double time = std::max({before, stage, moved});
          Cell& cell = table.cell(i, j, m);
          if (time < cell.time_s) cell = {time, k, m - replicas, replicas};
        }
      }
    }
    if (!options_.use_fewer_machines) return;
    for (int m = 2; m <= n; ++m) {
      if (table.cell(i, j, m - 1).time_s < table.cell(i, j, m).time_s) {
        table.cell(i, j, m) = table.cell(i, j, m - 1);
      }
    }
  }

  double transfer_s(int k, int j, int replicas, double bandwidth) const {
    if (!options_.activation_compression_ratio) return 0;
    const double ratio = *options_.activation_compression_ratio;
    const double in = 2.0 * states_[k].output_activation / (bandwidth * replicas) / ratio;
    if (j == size_ - 1) return in;
    return std::max(in, 2.0 * states_[j].output_activation / (bandwidth * replicas) / ratio);
  }

  void split(std::size_t level, const Range& range, std::vector<Range>& finer) const {
    std::vector<Range> backwards;
    int end = range.end;
    int machines = options_.levels[level].num_machines;
    while (true) {
      const Cell& cell = tables_[level].cell(range.begin, end - 1, machines);
      const int begin = cell.split < 0 ? range.begin : cell.split + 1;
      backwards.push_back({begin, end, range.replicas * cell.replicas});
      if (cell.split < 0) break;
      end = begin;
      machines = cell.machines_before;
    }
    finer.insert(finer.end(), backwards.rbegin(), backwards.rend());
  }

  const PipeDreamOptions& options_;
  const std::vector<PipeDreamState>& states_;
  const int size_;
  std::vector<std::vector<int>> before_;  // [states] states within, ascending
  std::vector<Table> tables_;             // [levels]
};

Result<void> check_options(const PipeDreamOptions& options) {
  const auto refuse = [](std::string place, std::string message, std::string remedy) {
    return fail(ErrorCode::kUsage, std::move(place), std::move(message), std::move(remedy));
  };
  if (options.levels.empty()) return refuse("levels", "there is no level", "give at least one");
  for (std::size_t i = 0; i < options.levels.size(); ++i) {
    const PipeDreamLevel& level = options.levels[i];
    const std::string place = "level " + std::to_string(i);
    if (level.num_machines < 1 || level.num_machines > kMaxPipelineDevices) {
      return refuse(place, std::to_string(level.num_machines) + " machines",
                    "give 1 to " + std::to_string(kMaxPipelineDevices));
    }
    if (!std::isfinite(level.bandwidth) || level.bandwidth <= 0) {
      return refuse(place, "a bandwidth that is not positive", "give bytes a second");
    }
  }
  if (options.memory && !(*options.memory >= 0)) {
    return refuse("memory", "a negative number of bytes", "give at least 0");
  }
  if (options.activation_compression_ratio && !(*options.activation_compression_ratio > 0)) {
    return refuse("activation_compression_ratio", "not a positive number", "give more than 0");
  }
  if (options.max_states < 1) return refuse("max_states", "less than 1", "give at least 1");
  return {};
}

// Nodes go to the first range whose last state holds them; inputs to the first stage.
PipeDreamPlan make_plan(const PipeDreamProfile& profile, const PipeDreamGraph& graph,
                        const std::vector<PipeDreamState>& states,
                        const std::vector<Optimizer::Range>& ranges) {
  PipeDreamPlan plan;
  std::vector<bool> is_taken(profile.nodes.size(), false);
  for (const Optimizer::Range& range : ranges) {
    PipeDreamStage& stage = plan.stages.emplace_back();
    stage.replicas = range.replicas;
    states[range.end - 1].holds.for_each([&](std::size_t i) {
      if (is_taken[graph.node[i]]) return;
      is_taken[graph.node[i]] = true;
      stage.nodes.push_back(graph.node[i]);
    });
  }
  std::vector<bool> is_read(profile.nodes.size(), false);
  for (const auto& edge : profile.edges) is_read[edge.second] = true;
  for (std::size_t i = 0; i < profile.nodes.size(); ++i) {
    if (!is_read[i] && !is_taken[i] && profile.nodes[i].description.rfind("Input", 0) == 0) {
      plan.stages.front().nodes.push_back(static_cast<int>(i));
    }
  }
  std::sort(plan.stages.front().nodes.begin(), plan.stages.front().nodes.end());
  return plan;
}

}  // namespace

Result<PipeDreamAnswer> plan_like_pipedream(const PipeDreamProfile& profile,
                                            const PipeDreamOptions& options) {
  PLIMSOLL_RETURN_IF_ERROR(validate(profile));
  PLIMSOLL_RETURN_IF_ERROR(check_options(options));
  const PipeDreamGraph graph = prepare_pipedream_graph(profile);
  if (graph.node.empty()) {
    return fail(ErrorCode::kValue, "nodes", "nothing is left besides inputs",
                "give a node that computes");
  }
  PipeDreamAnswer answer;
  Outcome<PipeDreamPlan>& outcome = answer.outcome;
  outcome.certificate.objective = std::numeric_limits<double>::quiet_NaN();
  const std::vector<PipeDreamState> states =
      find_pipedream_states(graph, options.max_states, answer.num_states);
  if (states.empty() || !Optimizer::has_room(options, states.size())) {
    outcome.stop = StopReason::kEffort;
    return answer;
  }
  std::vector<Optimizer::Range> ranges;
  const double time_s = Optimizer(options, states).run(ranges);
  if (ranges.empty()) return answer;
  outcome.status = SolveStatus::kFeasible;
  outcome.certificate.objective = time_s * 1000;
  outcome.plan = make_plan(profile, graph, states, ranges);
  return answer;
}

}  // namespace plimsoll::partition
