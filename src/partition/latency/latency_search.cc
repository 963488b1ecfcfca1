#include "plimsoll/partition/latency_search.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <utility>

#include "core/check.h"
#include "core/rounding.h"
#include "partition/graph/assignment_figures.h"
#include "partition/graph/downsets.h"
#include "partition/graph/group_graph.h"
#include "partition/latency/latency_annealing.h"
#include "partition/latency/latency_bound.h"
#include "partition/latency/latency_exact.h"
#include "partition/latency/latency_groups.h"
#include "partition/latency/latency_rounding.h"
#include "partition/latency/latency_starts.h"
#include "partition/latency/sample_latency.h"

namespace plimsoll::partition {
namespace {

constexpr std::int64_t kDefaultEffort = 400'000;
constexpr std::int64_t kDefaultWork = 400'000'000;  // effort times nodes and pins
// Annealing: half of the effort goes into short runs from the start, half into rounds from the
// best. Measured on an Inception of 326 layers: one long run ends at 1,220 or at 1,272, by chance.
constexpr int kNumShortRuns = 8;
constexpr int kNumRounds = 3;
constexpr double kTemperature = 0.02;   // of the latency
constexpr int kMaxTreeNodes = 64;       // larger graphs are not searched to the end
constexpr std::int64_t kTreeShare = 4;  // the tree's part of the effort: one in so many
// Of graphs with so few placements everything is tried, beside the effort for all else: four
// devices to the power of twelve groups, and the branches of such a tree. Of 240 random graphs of
// that size one took 1.4 million.
constexpr double kFewPlacements = 1 << 24;
constexpr std::int64_t kWholeTree = 22'369'620;
constexpr std::int64_t kMaxStartSteps = 500'000'000;

Result<void> check_options(const LatencySearchOptions& options) {
  if (options.num_orders < 1) {
    return fail(ErrorCode::kUsage, "latency search options", "num_orders below 1",
                "give at least 1");
  }
  if (!(options.search.tolerance >= 0)) {
    return fail(ErrorCode::kUsage, "latency search options", "a tolerance below 0 or not a number",
                "give at least 0");
  }
  return {};
}

// Bytes that all devices together lack; 0 where one has no cap.
Bytes missing_bytes(const CostGraph& graph) {
  Int128 missing = 0;
  for (const CostNode& node : graph.nodes) missing += node.memory;
  for (const Weight& weight : graph.weights) {
    if (!weight.readers.empty()) missing += weight.bytes;
  }
  for (const DeviceClass& devices : graph.classes) {
    if (devices.count > 0 && !devices.memory_cap) return 0;
    missing -= Int128{devices.count} * devices.memory_cap.value_or(0);
  }
  return static_cast<Bytes>(std::max<Int128>(missing, 0));
}

class LatencySearch {
 public:
  LatencySearch(const CostGraph& graph, const LatencySearchOptions& options,
                const RunContext& context)
      : graph_(graph),
        options_(options),
        context_(context),
        groups_(graph),
        latency_(graph),
        random_(options.search.seed) {
    auto size = static_cast<std::int64_t>(graph.nodes.size()) + 1;
    for (const Net& net : graph.nets) size += static_cast<std::int64_t>(net.consumers.size()) + 1;
    planned_ = std::min(kDefaultEffort, kDefaultWork / size + 1);
    const double num_placements =
        std::pow(static_cast<double>(graph.num_devices()), groups_.num_groups());
    if (num_placements <= kFewPlacements) whole_tree_ = kWholeTree;
    max_effort_ = options.search.effort < 0 ? planned_ + whole_tree_ : options.search.effort;
    effort_left_ = max_effort_;
  }

  LatencyPlacement run() {
    bound_ =
        bound_latency(graph_, {options_.rules.uses_spines, options_.rules.uses_cuts}, context_);
    const Bytes missing = missing_bytes(graph_);
    if (missing > 0) {
      prove_infeasible("memory", ProofKind::kFewerBytesThanGraph, missing);
      return answer();
    }
    if (bound_.value == kUnlimited) {
      prove_infeasible("permissions", ProofKind::kNoDeviceForPath, 0);
      return answer();
    }
    start();
    if (is_stopped()) return answer();
    if (options_.rules.searches_tree && graph_.num_nodes() <= kMaxTreeNodes && !is_proved()) {
      search_tree();
    }
    if (options_.rules.anneals && !is_proved() && value_ < kUnlimited) anneal();
    return answer();
  }

 private:
  bool is_proved() const {
    return is_infeasible_ || value_ <= bound_.value * (1 + options_.search.tolerance);
  }

  bool is_stopped() {
    if (context_.is_cancelled()) stop_ = StopReason::kCancelled;
    if (context_.is_past_deadline()) stop_ = StopReason::kDeadline;
    return stop_ != StopReason::kFinished;
  }

  bool may_go_on() { return effort_left_ > 0 && !is_proved() && !is_stopped(); }
  // Of the default effort, which runs are cut for; another one only says where they stop.
  std::int64_t planned_left() const {
    return std::max<std::int64_t>(0, planned_ - (max_effort_ - effort_left_));
  }

  void offer(const DeviceAssignment& plan) {
    if (effort_left_ == 0 || !fits_caps(graph_, plan)) return;
    --effort_left_;
    const double value = latency_.evaluate(plan.device);
    if (!(value < value_)) return;
    value_ = value;
    plan_ = plan.device;
    if (context_.progress) context_.progress({max_effort_ - effort_left_, value_, bound_.value});
  }

  void start() {
    if (const auto plan = fill_greedily(graph_)) offer(*plan);
    if (is_stopped()) return;  // then the bound may be less than it is without a clock
    if (!bound_.runs.empty() && !is_proved()) {
      std::vector<int> plan = round_runs(graph_, groups_, bound_.runs, effort_left_);
      if (!plan.empty()) offer({std::move(plan)});
    }
    if (!options_.rules.uses_chains) return;
    LatencyStarts starts(graph_);
    for (int i = 0; i < options_.num_orders && may_go_on(); ++i) {
      const double before = value_;
      const auto plan = starts.next(random_, context_);
      if (!plan) continue;
      offer(*plan);
      if (value_ < before) starts.follow(*plan);
      if (starts.num_steps() > kMaxStartSteps) break;
    }
  }

  void search_tree() {
    const std::int64_t planned = std::max(planned_left() / kTreeShare, whole_tree_);
    LatencyTree tree{std::min(planned, effort_left_), 0, false};
    search_latency_tree(graph_, groups_, tree, plan_, value_, context_);
    effort_left_ = std::max<std::int64_t>(0, effort_left_ - tree.num_evaluations);
    if (!tree.is_complete) return;
    if (value_ == kUnlimited) {
      prove_infeasible("memory", ProofKind::kNoPlacementWithinCaps, 0);
      return;
    }
    bound_.value = value_;
    bound_.proof = ProofKind::kTriedBetterPlacements;
  }

  // Several short runs from the start, then longer and cooler ones from the best of them; all over
  // again where there is effort left.
  void anneal() {
    LatencyAnnealing annealing(graph_, groups_);
    for (std::int64_t moves = planned_left(); may_go_on(); moves = planned_) {
      const std::vector<int> start = plan_;
      const std::int64_t short_run = moves / (2 * kNumShortRuns);
      for (int run = 0; run < kNumShortRuns; ++run) {
        std::vector<int> plan = start;
        moves -= anneal(annealing, plan, short_run, kTemperature);
      }
      double temperature = kTemperature;
      for (int round = 0; round < kNumRounds; ++round) {
        std::vector<int> plan = plan_;
        temperature /= 2;
        moves -= anneal(annealing, plan, moves / (kNumRounds - round), temperature);
      }
    }
  }

  // Returns the moves of the run, made or not.
  std::int64_t anneal(LatencyAnnealing& annealing, std::vector<int>& plan, std::int64_t num_moves,
                      double temperature) {
    if (!may_go_on()) return num_moves;
    std::int64_t num_done = 0;
    const double value =
        annealing.run(plan, {num_moves, effort_left_, temperature},
                      bound_.value * (1 + options_.search.tolerance), random_, context_, num_done);
    effort_left_ -= num_done;
    if (value < value_) take(std::move(plan), value);
    return num_moves;
  }

  void take(std::vector<int> plan, double value) {
    value_ = value;
    plan_ = std::move(plan);
  }

  void prove_infeasible(const char* binding, ProofKind proof, Bytes missing) {
    is_infeasible_ = true;
    bound_.proof = proof;
    explanation_ = {binding, missing, {to_string(Proof(proof))}};
  }

  LatencyPlacement answer() {
    LatencyPlacement result;
    result.num_evaluations = max_effort_ - effort_left_;
    Outcome<DeviceAssignment>& outcome = result.outcome;
    Certificate& certificate = outcome.certificate;
    certificate.objective = std::numeric_limits<double>::quiet_NaN();
    certificate.proof = bound_.proof;
    outcome.explanation = explanation_;
    if (is_infeasible_) {
      outcome.status = SolveStatus::kInfeasible;
      return result;
    }
    // Bound and value add the same numbers up in another order.
    if (bound_.value > value_ && bound_.value <= value_ * (1 + kRounding)) bound_.value = value_;
    certificate.lower_bound = bound_.value;
    is_stopped();
    outcome.stop = is_proved() ? StopReason::kFinished : stop_;
    if (outcome.stop == StopReason::kFinished && !is_proved()) outcome.stop = StopReason::kEffort;
    if (value_ == kUnlimited) return result;
    certificate.objective = value_;
    outcome.status = is_proved() ? SolveStatus::kOptimal : SolveStatus::kFeasible;
    outcome.plan = DeviceAssignment{std::move(plan_)};
    return result;
  }

  const CostGraph& graph_;
  const LatencySearchOptions& options_;
  const RunContext& context_;
  LatencyGroups groups_;
  SampleLatency latency_;
  SplitMix64 random_;
  std::int64_t planned_ = 0, max_effort_ = 0, effort_left_ = 0;
  std::int64_t whole_tree_ = 0;  // 0: there are too many placements to try all
  LatencyBound bound_;
  std::vector<int> plan_;
  double value_ = kUnlimited;
  StopReason stop_ = StopReason::kFinished;
  bool is_infeasible_ = false;
  Explanation explanation_;
};

// One accelerator after the other takes blocks in depth-first order until one does not fit.
class GreedyFill {
 public:
  explicit GreedyFill(const CostGraph& graph)
      : graph_(graph),
        blocks_(make_groups(graph)),
        weights_of_(graph.nodes.size()),
        holder_(graph.weights.size(), -1) {
    for (int d = 0; d < graph.num_devices(); ++d) {
      (is_host(graph.classes[graph.class_of(d)]) ? hosts_ : accelerators_).push_back(d);
    }
    for (std::size_t w = 0; w < graph.weights.size(); ++w) {
      for (const int reader : graph.weights[w].readers) {
        weights_of_[reader].push_back(static_cast<int>(w));
      }
    }
  }

  std::optional<DeviceAssignment> run() {
    const std::vector<std::uint64_t> depth_first(blocks_.nodes.size());
    DeviceAssignment plan;
    plan.device.assign(graph_.nodes.size(), -1);
    if (!accelerators_.empty()) open_accelerator();
    for (const int block : topological_order(blocks_, depth_first)) {
      int device = take_on_accelerator(block);
      for (const int host : hosts_) {
        if (device < 0 && may_run(block, host)) device = host;
      }
      if (device < 0) return std::nullopt;
      for (const int node : blocks_.nodes[block]) plan.device[node] = device;
    }
    return plan;
  }

 private:
  void open_accelerator() {
    const auto& cap = graph_.classes[graph_.class_of(accelerators_[next_])].memory_cap;
    left_ = cap.value_or(std::numeric_limits<Bytes>::max());
    is_empty_ = true;
  }

  // Weights that the accelerator holds are not counted again.
  Bytes need_of(int block) const {
    Bytes need = 0;
    std::vector<int> weights;
    for (const int node : blocks_.nodes[block]) {
      need += graph_.nodes[node].memory;
      for (const int w : weights_of_[node]) {
        if (holder_[w] != accelerators_[next_]) weights.push_back(w);
      }
    }
    std::sort(weights.begin(), weights.end());
    weights.erase(std::unique(weights.begin(), weights.end()), weights.end());
    for (const int w : weights) need += graph_.weights[w].bytes;
    return need;
  }

  bool may_run(int block, int device) const {
    return std::all_of(blocks_.nodes[block].begin(), blocks_.nodes[block].end(),
                       [&](int node) { return graph_.is_allowed(node, device); });
  }

  // The accelerator that takes the block, -1: none. One that is full is left for good.
  int take_on_accelerator(int block) {
    while (next_ < accelerators_.size()) {
      const int device = accelerators_[next_];
      const Bytes need = need_of(block);
      if (need <= left_ && may_run(block, device)) {
        left_ -= need;
        is_empty_ = false;
        for (const int node : blocks_.nodes[block]) {
          for (const int w : weights_of_[node]) holder_[w] = device;
        }
        return device;
      }
      if (is_empty_) return -1;  // it fits none
      if (++next_ < accelerators_.size()) open_accelerator();
    }
    return -1;
  }

  const CostGraph& graph_;
  const GroupGraph blocks_;
  std::vector<int> accelerators_, hosts_;
  std::vector<std::vector<int>> weights_of_;  // [num_nodes]
  std::vector<int> holder_;                   // [num_weights] device, -1: none
  std::size_t next_ = 0;                      // accelerator
  Bytes left_ = 0;
  bool is_empty_ = true;
};

}  // namespace

Result<LatencyPlacement> place_for_latency(const CostGraph& graph,
                                           const LatencySearchOptions& options,
                                           const RunContext& context) {
  PLIMSOLL_RETURN_IF_ERROR(validate(graph));
  PLIMSOLL_RETURN_IF_ERROR(check_options(options));
  return LatencySearch(graph, options, context).run();
}

std::optional<DeviceAssignment> fill_greedily(const CostGraph& graph) {
  PLIMSOLL_DCHECK(validate(graph).has_value(), "the graph is valid");
  return GreedyFill(graph).run();
}

}  // namespace plimsoll::partition
