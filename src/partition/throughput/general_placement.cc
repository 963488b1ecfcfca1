#include "plimsoll/partition/general_placement.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <utility>

#include "core/check.h"
#include "core/clock_share.h"
#include "core/random.h"
#include "partition/assignment/multilevel.h"
#include "partition/assignment/placement_tree.h"
#include "partition/graph/assignment_figures.h"
#include "partition/graph/downsets.h"
#include "partition/graph/group_absorption.h"
#include "partition/graph/shared_work.h"
#include "partition/throughput/placement_bounds.h"
#include "partition/throughput/share_bound.h"
#include "plimsoll/partition/contiguous_split.h"

namespace plimsoll::partition {
namespace {

constexpr double kBoundShare = 0.3;  // of the clock
constexpr std::int64_t kDefaultMoves = 30'000'000;
constexpr std::int64_t kStartPairs = 200'000'000;  // of the contiguous split
constexpr std::int64_t kStartDownsets = 1 << 16;
constexpr int kMovesPerGroup = 200;
// Where everything may be tried: the refinement before takes at most one in so many of the moves
// that are left, and as many stay for after it. By default that leaves kTreeSteps.
constexpr std::int64_t kRefinementShare = 8;

class Placer {
 public:
  Placer(const CostGraph& graph, const GeneralPlacementOptions& options, const RunContext& context,
         double lower_bound)
      : graph_(graph),
        options_(options),
        context_(context),
        lower_bound_(lower_bound),
        moves_left_(options.search.effort < 0 ? kDefaultMoves : options.search.effort),
        random_(options.search.seed) {
    groups_ = make_colour_groups(graph);
    std::vector<int> merged_of;
    if (options.rules.absorbs_groups && graph.pair_rates.empty()) {
      groups_ = absorb_unordered_groups(groups_, merged_of);
    }
  }

  GeneralPlacement run() {
    const std::int64_t all_moves = moves_left_;
    std::vector<std::vector<int>> starts;
    if (options_.start) {
      take(*options_.start);
      starts.push_back(devices_of(*options_.start));
    }
    if (options_.rules.starts_contiguously) start_contiguously(starts);
    starts.push_back(slices());
    for (const auto& start : starts) take(plan_of(start));  // whatever the clock says
    MultilevelOptions refinement;
    refinement.moves_per_group = kMovesPerGroup;
    refinement.uses_clusters = options_.rules.uses_clusters;
    refinement.uses_swaps = options_.rules.uses_swaps;
    refinement.on_better = [&](const std::vector<int>& device) {
      take(plan_of(device));
      return is_done();
    };
    if (!must_stop() && options_.rules.searches_tree) try_everything(refinement);
    for (std::size_t round = 0; !must_stop(); ++round) {
      const std::size_t turn = round % (starts.size() + 1);
      std::vector<int> device = turn < starts.size() ? starts[turn] : at_random();
      take(plan_of(device));
      if (groups_.num_groups() == 0) break;
      if (!must_stop()) {
        refine(groups_, graph_.pair_rates, refinement, random_, context_, moves_left_, device);
      }
      take(plan_of(device));
    }
    GeneralPlacement result;
    result.num_groups = groups_.num_groups();
    result.num_moves = all_moves - moves_left_;
    report(result.outcome);
    return result;
  }

 private:
  bool is_done() const {
    return is_infeasible_ || (plan_ && value_ <= lower_bound_ * (1 + options_.search.tolerance));
  }
  bool must_stop() {
    if (is_done()) {
      stop_ = StopReason::kFinished;
    } else if (context_.is_cancelled()) {
      stop_ = StopReason::kCancelled;
    } else if (context_.is_past_deadline()) {
      stop_ = StopReason::kDeadline;
    } else if (moves_left_ <= 0) {
      stop_ = StopReason::kEffort;
    } else {
      return false;
    }
    return true;
  }

  void start_contiguously(std::vector<std::vector<int>>& starts) {
    ContiguousSplitOptions options;
    options.search.effort = kStartPairs;
    options.search.seed = options_.search.seed;
    options.max_downsets = kStartDownsets;
    RunContext quiet = share_clock(context_, 0.5);
    quiet.progress = {};
    const auto split = split_contiguously(graph_, options, quiet);
    if (!split || !split->outcome.plan) return;
    take(*split->outcome.plan);
    starts.push_back(devices_of(*split->outcome.plan));
  }

  std::vector<int> devices_of(const DeviceAssignment& plan) const {
    std::vector<int> device;
    for (const auto& nodes : groups_.nodes) device.push_back(plan.device[nodes.front()]);
    return device;
  }
  DeviceAssignment plan_of(const std::vector<int>& device) const {
    DeviceAssignment plan;
    plan.device.resize(graph_.nodes.size());
    for (int g = 0; g < groups_.num_groups(); ++g) {
      for (const int node : groups_.nodes[g]) plan.device[node] = device[g];
    }
    return plan;
  }

  int kind_of(int device) const {
    int k = 0;
    while (std::find(groups_.kinds[k].devices.begin(), groups_.kinds[k].devices.end(), device) ==
           groups_.kinds[k].devices.end()) {
      ++k;
    }
    return k;
  }
  // The device itself, or the next one that may run the group. Precondition: there is one.
  int allowed_near(int group, int device) const {
    PLIMSOLL_DCHECK(std::any_of(kind_of_.begin(), kind_of_.end(),
                                [&](int k) { return groups_.time_ms[k][group] < kUnlimited; }),
                    "a device may run the group");
    while (!(groups_.time_ms[kind_of_[device]][group] < kUnlimited)) {
      device = (device + 1) % static_cast<int>(kind_of_.size());
    }
    return device;
  }
  void find_kinds_of_devices() {
    kind_of_.clear();
    for (int d = 0; d < graph_.num_devices(); ++d) kind_of_.push_back(kind_of(d));
  }

  // Groups in topological order, cut where devices have had their share of the work.
  std::vector<int> slices() {
    find_kinds_of_devices();
    const std::vector<double> work = work_of_groups(groups_);
    const std::vector<double> slowness = slowness_of_kinds(groups_);
    double speed = 0;
    for (const int kind : kind_of_) speed += 1 / slowness[kind];
    double total = 0;
    for (const double w : work) total += w;
    std::vector<int> device;
    double done = 0;
    double end = total / speed / slowness[kind_of_[0]];
    int current = 0;
    for (int g = 0; g < groups_.num_groups(); ++g) {
      while (done + work[g] / 2 > end && current + 1 < static_cast<int>(kind_of_.size())) {
        end += total / speed / slowness[kind_of_[++current]];
      }
      done += work[g];
      device.push_back(allowed_near(g, current));
    }
    return device;
  }

  std::vector<int> at_random() {
    std::vector<int> device;
    for (int g = 0; g < groups_.num_groups(); ++g) {
      device.push_back(allowed_near(g, random_.below(graph_.num_devices())));
    }
    return device;
  }

  void take(const DeviceAssignment& plan) {
    const double value = largest_load(graph_, plan);
    if ((plan_ && value >= value_) || !fits_caps(graph_, plan)) return;
    plan_ = plan;
    value_ = value;
    if (context_.progress) context_.progress({0, value_, lower_bound_});
  }

  // A little refinement, then all placements that could be better.
  void try_everything(const MultilevelOptions& refinement) {
    const std::int64_t max_steps = default_tree_steps(groups_);
    if (max_steps == 0) return;
    std::vector<int> device = plan_ ? devices_of(*plan_) : slices();
    std::int64_t first_moves = moves_left_ / kRefinementShare;
    moves_left_ -= first_moves;
    refine(groups_, graph_.pair_rates, refinement, random_, context_, first_moves, device);
    moves_left_ += first_moves;
    take(plan_of(device));
    if (must_stop()) return;
    PlacementTree tree;
    tree.goal = lower_bound_ * (1 + options_.search.tolerance);
    tree.max_steps = std::min(max_steps, moves_left_ - moves_left_ / kRefinementShare);
    std::vector<int> best;
    double value = value_;
    search_placement_tree(groups_, graph_.pair_rates, tree, best, value, context_.inner());
    moves_left_ -= tree.num_steps;
    if (!best.empty()) take(plan_of(best));
    if (!tree.is_complete) return;
    is_complete_ = true;
    is_infeasible_ = !plan_;
    if (plan_) lower_bound_ = value_;
  }

  void report(Outcome<DeviceAssignment>& outcome) {
    outcome.stop = stop_;
    if (is_complete_) outcome.certificate.proof = ProofKind::kTriedEveryPlacement;
    if (is_infeasible_) {
      outcome.status = SolveStatus::kInfeasible;
      outcome.certificate.objective = std::numeric_limits<double>::quiet_NaN();
      outcome.explanation.binding = "memory";
      outcome.explanation.lines.emplace_back(
          "no placement keeps every device within its memory cap");
      return;
    }
    outcome.certificate.objective = plan_ ? value_ : std::numeric_limits<double>::quiet_NaN();
    outcome.certificate.lower_bound = plan_ ? std::min(lower_bound_, value_) : lower_bound_;
    if (plan_) outcome.status = is_done() ? SolveStatus::kOptimal : SolveStatus::kFeasible;
    outcome.plan = std::move(plan_);
  }

  const CostGraph& graph_;
  const GeneralPlacementOptions& options_;
  const RunContext& context_;
  double lower_bound_;
  std::int64_t moves_left_;
  SplitMix64 random_;
  GroupGraph groups_;
  std::vector<int> kind_of_;  // [num_devices]
  std::optional<DeviceAssignment> plan_;
  double value_ = kUnlimited;
  StopReason stop_ = StopReason::kFinished;
  bool is_complete_ = false;  // everything was tried
  bool is_infeasible_ = false;
};

Result<void> check_options(const CostGraph& graph, const GeneralPlacementOptions& options) {
  if (!(options.search.tolerance >= 0) || !(options.known_bound >= 0)) {
    return fail(ErrorCode::kUsage, "general placement options",
                "a tolerance or known bound below 0 or not a number", "give at least 0");
  }
  if (!options.start) return {};
  const std::vector<int>& device = options.start->device;
  if (device.size() != graph.nodes.size()) {
    return fail(ErrorCode::kValue, "start",
                std::to_string(device.size()) + " devices for " +
                    std::to_string(graph.nodes.size()) + " nodes",
                "give one device for each node");
  }
  std::map<std::int64_t, int> device_of_colour;
  for (int node = 0; node < graph.num_nodes(); ++node) {
    const auto& colour = graph.nodes[node].colour;
    if (device[node] < 0 || device[node] >= graph.num_devices() ||
        !graph.is_allowed(node, device[node]) ||
        (colour &&
         device_of_colour.try_emplace(*colour, device[node]).first->second != device[node])) {
      return fail(ErrorCode::kValue, "start",
                  place_of(graph, node) + " may not be on device " + std::to_string(device[node]),
                  "start from a valid placement, or leave the start out");
    }
  }
  return {};
}

}  // namespace

Result<GeneralPlacement> place_generally(const CostGraph& graph,
                                         const GeneralPlacementOptions& options,
                                         const RunContext& context) {
  PLIMSOLL_RETURN_IF_ERROR(validate(graph));
  PLIMSOLL_RETURN_IF_ERROR(check_options(graph, options));
  PlacementBoundOptions bound_options;
  bound_options.rules.uses_shares = !(options.known_bound > 0);  // else the caller has asked
  bound_options.max_share_steps = share_steps(options.search);
  PLIMSOLL_ASSIGN(const ThroughputBound bound,
                  bound_placement(graph, bound_options, share_clock(context, kBoundShare)));
  if (bound.is_infeasible) {
    GeneralPlacement result;
    result.outcome.status = SolveStatus::kInfeasible;
    result.outcome.certificate = {std::numeric_limits<double>::quiet_NaN(), {}, bound.proof};
    result.outcome.explanation = bound.explanation;
    return result;
  }
  const bool is_known_better = options.known_bound > bound.lower_bound;
  GeneralPlacement result =
      Placer(graph, options, context, std::max(bound.lower_bound, options.known_bound)).run();
  Proof& proof = result.outcome.certificate.proof;
  if (!proof.is_given()) proof = is_known_better ? ProofKind::kCallersBound : bound.proof;
  return result;
}

}  // namespace plimsoll::partition
