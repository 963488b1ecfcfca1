#include "plimsoll/partition/fx_search.h"

#include <algorithm>
#include <limits>
#include <map>
#include <set>
#include <string>
#include <utility>

#include "core/rounding.h"
#include "partition/fx/longest_path.h"
#include "partition/fx/split.h"
#include "partition/fx/working_parts.h"
#include "partition/fx_search/fx_annealing.h"
#include "partition/fx_search/fx_bound.h"
#include "partition/fx_search/fx_merging.h"
#include "partition/fx_search/fx_problem.h"
#include "partition/fx_search/fx_starts.h"
#include "partition/fx_search/fx_tree.h"
#include "plimsoll/core/numbers.h"

namespace plimsoll::partition {
namespace {

constexpr std::int64_t kDefaultEffort = 400'000;
constexpr std::int64_t kDefaultWork = 200'000'000;  // effort times operators and edges
constexpr int kMaxTreeOperators = 24;
constexpr std::int64_t kTreeShare = 2;  // the tree's part of the effort: one in so many
constexpr int kMaxModeOperators = 100;  // for kl_based and cost_aware as starts
constexpr int kNumRounds = 4;           // of annealing, each cooler than the one before
constexpr double kFirstTemperature = 0.05;

Result<void> check_input(const Graph& graph, const PartitionerConfig& config,
                         const FxSearchOptions& options) {
  PLIMSOLL_RETURN_IF_ERROR(validate(config, graph));
  if (!(options.search.tolerance >= 0)) {
    return fail(ErrorCode::kUsage, "fx search options", "a tolerance below 0 or not a number",
                "give at least 0");
  }
  if (config.devices.empty()) {
    return fail(ErrorCode::kValue, "devices", "no devices", "give at least one device");
  }
  std::set<int> ids;
  for (const Device& device : config.devices) {
    if (!ids.insert(device.logical_id).second) {
      return fail(ErrorCode::kConflict, "devices",
                  "the logical id " + std::to_string(device.logical_id) + " occurs twice",
                  "give every device its own");
    }
  }
  PLIMSOLL_ASSIGN(const bool has_edge, check_operators(graph, config.node_to_latency_mapping));
  const auto is_operator = [](const Node& node) { return partition::is_operator(node.op); };
  if (std::none_of(graph.nodes.begin(), graph.nodes.end(), is_operator)) {
    return fail(ErrorCode::kValue, "graph", "no operator", "give a graph that computes something");
  }
  if (has_edge && config.transfer_rate_bytes_per_sec == 0) {
    return fail(ErrorCode::kValue, "transfer_rate_bytes_per_sec", "a rate of 0",
                "give the rate of a link");
  }
  return {};
}

class FxSearch {
 public:
  FxSearch(const Graph& graph, const PartitionerConfig& config, const FxSearchOptions& options,
           const RunContext& context)
      : graph_(graph),
        config_(config),
        options_(options),
        context_(context),
        problem_(graph, config),
        random_(options.search.seed) {
    std::int64_t size = problem_.num_operators();
    for (const auto& edges : problem_.inputs) size += static_cast<std::int64_t>(edges.size());
    planned_ = std::min(kDefaultEffort, kDefaultWork / size + 1);
    max_effort_ = options.search.effort < 0 ? planned_ : options.search.effort;
    effort_left_ = max_effort_;
  }

  void run() {
    bound_ = bound_critical_path(problem_, options_.rules.cuts_paths, context_);
    if (bound_.value == kInfinity) {
      is_infeasible_ = true;
      return;
    }
    for (const auto start : {find_cheapest_runs, place_earliest, fill_in_order}) {
      const bool is_first = value_ == kInfinity && effort_left_ > 0;  // whatever the clock says
      if (is_first || may_go_on()) offer(start(problem_));
    }
    if (options_.rules.starts_from_modes) start_from_modes();
    if (options_.rules.searches_tree && problem_.num_operators() <= kMaxTreeOperators &&
        may_go_on()) {
      FxTree tree{std::min(planned_left() / kTreeShare, effort_left_), 0, false};
      search_fx_tree(problem_, tree, plan_, value_, context_);
      effort_left_ = std::max<std::int64_t>(0, effort_left_ - tree.num_evaluations);
      if (tree.is_complete) {
        is_infeasible_ = value_ == kInfinity;
        bound_ = {value_, ProofKind::kTriedBetterPlacements};
      }
    }
    if (options_.rules.anneals && value_ < kInfinity) anneal();
  }

  std::int64_t num_evaluations() const { return max_effort_ - effort_left_; }
  bool is_infeasible() const { return is_infeasible_; }
  bool has_plan() const { return value_ < kInfinity; }
  const FxProblem& problem() const { return problem_; }
  const std::vector<int>& plan() const { return plan_; }
  const FxBound& bound() const { return bound_; }
  double value() const { return value_; }

  StopReason stop() const {
    if (is_infeasible_ || is_proved()) return StopReason::kFinished;
    if (context_.is_cancelled()) return StopReason::kCancelled;
    return context_.is_past_deadline() ? StopReason::kDeadline : StopReason::kEffort;
  }

 private:
  bool is_stopped() const { return context_.is_cancelled() || context_.is_past_deadline(); }
  bool is_proved() const { return value_ <= bound_.value * (1 + options_.search.tolerance); }

  bool may_go_on() const { return effort_left_ > 0 && !is_proved() && !is_stopped(); }
  // Of the default effort, which rounds are cut for; another one only says where they stop.
  std::int64_t planned_left() const {
    return std::max<std::int64_t>(0, planned_ - num_evaluations());
  }

  // Rounds from hot to cool; all over again where there is effort left.
  void anneal() {
    for (std::int64_t moves = planned_left(); may_go_on(); moves = planned_) {
      for (int round = 0; round < kNumRounds && may_go_on(); ++round) {
        FxAnnealing options;
        options.num_moves = moves / (kNumRounds - round);
        options.max_moves = effort_left_;
        options.temperature = kFirstTemperature / (1 << round);
        options.lower_bound = bound_.value * (1 + options_.search.tolerance);
        std::int64_t num_done = 0;
        value_ = anneal_critical_path(problem_, plan_, options, random_, context_, num_done);
        effort_left_ -= num_done;
        moves -= options.num_moves;
      }
    }
  }

  // What the reference finds, where it keeps our devices' bytes.
  void start_from_modes() {
    std::map<int, int> device_of;
    for (std::size_t d = 0; d < config_.devices.size(); ++d) {
      device_of.emplace(config_.devices[d].logical_id, static_cast<int>(d));
    }
    std::vector<int> op_of(graph_.nodes.size(), -1);
    for (int op = 0; op < problem_.num_operators(); ++op) op_of[problem_.node[op]] = op;
    PartitionerConfig config = config_;
    config.saturate_host = false;
    for (const PartitionMode mode :
         {PartitionMode::kSizeBased, PartitionMode::kKlBased, PartitionMode::kCostAware}) {
      if (mode != PartitionMode::kSizeBased && problem_.num_operators() > kMaxModeOperators) return;
      if (!may_go_on()) return;
      config.mode = mode;
      const auto found = partition_like_torch(graph_, config);
      if (is_stopped()) return;
      if (!found || !found->outcome.plan) continue;
      FxState state(problem_);
      for (const Partition& partition : found->outcome.plan->partitions) {
        if (partition.logical_device_ids.empty()) continue;
        const int device = device_of.at(partition.logical_device_ids.front());
        for (const int node : partition.nodes) {
          if (op_of[node] >= 0) state.move(op_of[node], device);
        }
      }
      bool fits = std::count(state.device().begin(), state.device().end(), -1) == 0;
      for (int d = 0; d < problem_.num_devices(); ++d) fits = fits && state.fits(d);
      if (fits) offer(state.device());
    }
  }

  void offer(std::vector<int> plan) {
    if (plan.empty()) return;
    --effort_left_;
    std::vector<double> finish(plan.size());
    const double value = problem_.critical_path(plan, problem_.num_operators(), finish);
    if (value >= value_) return;
    value_ = value;
    plan_ = std::move(plan);
  }

  const Graph& graph_;
  const PartitionerConfig& config_;
  const FxSearchOptions& options_;
  const RunContext& context_;
  FxProblem problem_;
  SplitMix64 random_;
  std::int64_t planned_ = 0, max_effort_ = 0, effort_left_ = 0;
  FxBound bound_;
  std::vector<int> plan_;  // [num_operators] devices
  double value_ = kInfinity;
  bool is_infeasible_ = false;
};

}  // namespace

Result<FxPlacement> partition_for_critical_path(const Graph& graph, const PartitionerConfig& config,
                                                const FxSearchOptions& options,
                                                const Dialect& dialect, const RunContext& context) {
  PLIMSOLL_RETURN_IF_ERROR(check_input(graph, config, options));
  FxSearch search(graph, config, options, context);
  search.run();
  FxPlacement result;
  result.num_evaluations = search.num_evaluations();
  Outcome<Placement>& outcome = result.outcome;
  Certificate& certificate = outcome.certificate;
  certificate.objective = std::numeric_limits<double>::quiet_NaN();
  outcome.stop = search.stop();
  if (!search.has_plan()) {
    outcome.status = search.is_infeasible() ? SolveStatus::kInfeasible : SolveStatus::kLimit;
    if (search.is_infeasible()) certificate.proof = ProofKind::kNoPlacementFits;
    outcome.explanation = {"memory", 0, {"the devices do not hold the graph"}};
    result.failure =
        Error{ErrorCode::kPlanner, "devices",
              search.is_infeasible() ? "no placement fits the devices" : "no placement was found",
              "give devices with more bytes", ""};
    return result;
  }
  Placement placement = make_placement(graph, config, search.problem(), search.plan(),
                                       search.value(), options.rules.merges);
  PLIMSOLL_ASSIGN(result.split, split_graph(graph, placement, dialect));
  certificate.objective = search.value();
  certificate.proof = search.bound().proof;
  // Bound and value add the same numbers up in another order.
  double bound = search.bound().value;
  if (bound <= search.value() * (1 + kRounding)) bound = std::min(bound, search.value());
  certificate.lower_bound = bound;
  outcome.status = *certificate.gap() <= options.search.tolerance ? SolveStatus::kOptimal
                                                                  : SolveStatus::kFeasible;
  outcome.plan = std::move(placement);
  return result;
}

}  // namespace plimsoll::partition
