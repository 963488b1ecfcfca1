#include "plimsoll/partition/replicated_search.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <span>
#include <utility>

#include "core/clock_share.h"
#include "partition/graph/downsets.h"
#include "partition/graph/shared_work.h"
#include "partition/pipeline/batch_bound.h"
#include "partition/pipeline/composition_bound.h"
#include "partition/pipeline/pipeline_outcome.h"
#include "partition/pipeline/pipeline_shares.h"
#include "partition/pipeline/replica_chain.h"
#include "partition/pipeline/replicated_groups.h"
#include "partition/stages/acyclic_coarsening.h"
#include "partition/stages/batch_search.h"
#include "partition/stages/path_bound.h"
#include "partition/stages/stage_orders.h"
#include "partition/throughput/placement_bounds.h"

namespace plimsoll::partition {
namespace {

constexpr std::int64_t kReplicatedPairs = 200'000'000;
constexpr double kMaxReplicatedStates = 1 << 12;  // ways to have used up devices
constexpr int kMaxPrefixes = 256;                 // of one order; longer orders are thinned
constexpr int kIdleRounds = 4;                    // of orders around the best plan
// Numbers of clusters whose downsets are looked at before all downsets of the groups, and where
// these are too many.
constexpr int kFewClusters[] = {256, 128, 64, 32};
constexpr std::int64_t kFewDownsets = 4096;
constexpr int kManyClusters[] = {1024, 512};
constexpr std::int64_t kManyDownsets = 8192;
constexpr std::int64_t kMaxEnumeration = 400'000'000;  // downsets times groups and pins
constexpr std::int64_t kPathSteps = 60'000'000;        // of the bound by paths
constexpr double kBoundShare = 0.3;                    // of the clock, before there is a plan
constexpr double kLargestGoal = 2;                     // of that bound, over the bound so far

class ReplicatedPlanner {
 public:
  ReplicatedPlanner(const CostGraph& graph, const PipelineTerms& terms,
                    const ReplicatedSearchOptions& options, const RunContext& context)
      : graph_(graph),
        terms_(terms),
        options_(options),
        context_(context),
        groups_of_(graph, terms),
        max_replicas_(groups_of_.max_replicas()),
        pairs_left_(options.search.effort < 0 ? kReplicatedPairs : options.search.effort),
        pairs_at_start_(pairs_left_) {}

  Result<ReplicatedSearch> run() {
    PlacementBoundOptions
        bounds;  // of largest loads: with replicas nothing but what cannot fit counts
    bounds.rules.uses_shares = max_replicas_ == 1;
    PLIMSOLL_ASSIGN(const ThroughputBound bound,
                    bound_placement(groups_of_.with_microbatches(1), bounds,
                                    share_clock(context_, kBoundShare)));
    if (bound.is_infeasible) {
      known_.is_infeasible = true;
      known_.proof = bound.proof;
      known_.explanation = bound.explanation;
      return finish();
    }
    const GroupGraph groups = groups_of_.make(options_.rules.absorbs_groups);
    result_.num_groups = groups.num_groups();
    if (find_no_device(groups)) return finish();
    if (num_device_states(groups) > kMaxReplicatedStates) {
      known_.stop = ChainStop::kEffort;
      return finish();
    }
    bound_by_work(groups, bound.lower_bound);
    const GroupGraph reversed = reverse(groups);
    StageOrders orders(reversed, options_.search.seed, kMaxPrefixes);
    if (options_.rules.starts_from_orders) search_orders(orders, reversed, 1);
    if (options_.rules.starts_from_orders && !is_stopped()) {
      search_orders(orders, reversed, options_.num_orders);
    }
    if (options_.rules.starts_coarsely) search_clusters(groups, kFewClusters, kFewDownsets);
    bound_by_whole_stages(groups);
    const bool is_large = groups.num_groups() > options_.max_groups;
    if (!is_stopped() && !is_closed() &&
        (is_large || !search_all(groups, options_.max_downsets, true))) {
      bound_by_moves(groups);
      search_clusters(groups, kManyClusters, kManyDownsets);
      improve(orders, reversed);
      if (!is_stopped() && !is_closed()) known_.stop = ChainStop::kEffort;
    }
    return finish();
  }

 private:
  bool is_stopped() const { return known_.stop != ChainStop::kFinished; }
  double weight() const { return terms_.num_microbatches - 1.0; }
  double proved() const { return std::max(batch_bound_, sum_bound_ + weight() * slowest_bound_); }
  bool is_closed() const {
    return known_.is_infeasible || known_.best <= proved() * (1 + kExactPipeline);
  }

  // The line unites more nodes than their colours do.
  bool find_no_device(const GroupGraph& groups) {
    const std::vector<double> work = work_of_groups(groups);
    if (std::find(work.begin(), work.end(), kUnlimited) == work.end()) return false;
    known_.is_infeasible = true;
    known_.proof = ProofKind::kNoDeviceForGroup;
    known_.explanation = {
        "permissions",
        0,
        {"no line of devices may run all groups of nodes that must share a device"}};
    return true;
  }

  // All device time spread evenly; a group by itself; every stage at most on the devices that the
  // others leave, where there must be several.
  void bound_by_work(const GroupGraph& groups, double largest_load) {
    const std::vector<double> work = work_of_groups(groups);
    double total = 0;
    double heaviest = 0;
    for (const double ms : work) {
      total += ms;
      heaviest = std::max(heaviest, ms);
    }
    const int most =
        std::min(max_replicas_, graph_.num_devices() - groups_of_.least_stages(groups) + 1);
    slowest_bound_ = std::max(shared_work(groups), heaviest / max_replicas_) * (1 - kExactPipeline);
    // Of straight pipelines a stage is a device.
    if (max_replicas_ == 1) slowest_bound_ = std::max(slowest_bound_, largest_load);
    sum_bound_ = total / std::max(1, most) * (1 - kExactPipeline);
    if (!options_.rules.prices_devices) return;
    const BatchBound shares(share_items(groups, groups_of_.terms_of(groups)));
    const double batch = shares.batch(weight(), slowest_bound_);
    if (batch < kUnlimited) batch_bound_ = batch;
  }

  // Once there is a plan to be compared with.
  void bound_by_whole_stages(const GroupGraph& groups) {
    if (!options_.rules.prices_devices || !(weight() > 0) || priced_ == kUnlimited) return;
    CompositionSearch search;
    search.weight = weight();
    search.slowest = slowest_bound_;
    search.goal = priced_;
    const BatchItems items = share_items(groups, groups_of_.terms_of(groups));
    batch_bound_ = std::max(batch_bound_, bound_by_compositions(items, search));
  }

  // What the stages of a straight pipeline must move along a path.
  void bound_by_moves(const GroupGraph& groups) {
    if (!options_.rules.bounds_by_paths || max_replicas_ > 1) return;
    const double goal = std::min(slowest_, kLargestGoal * slowest_bound_);
    if (!(slowest_bound_ > 0) || !(goal > slowest_bound_)) return;
    slowest_bound_ = bound_by_paths(graph_, groups, slowest_bound_, goal, kPathSteps, context_) *
                     (1 - kExactPipeline);
    is_interrupted();
  }

  // Chains over the prefixes of the next orders, around the best plan once there is one.
  void search_orders(StageOrders& orders, const GroupGraph& reversed, int num_orders) {
    Downsets prefixes(reversed);
    orders.add_next(num_orders, stages_of(reversed), prefixes);
    if (finish_cuts(prefixes)) search(reversed, prefixes, false);
  }

  // [groups] of the best plan, the last stage is 0; all 0 without a plan.
  std::vector<int> stages_of(const GroupGraph& reversed) const {
    std::vector<int> stage_of(reversed.nodes.size());
    if (!known_.plan) return stage_of;
    std::vector<int> of_node(graph_.nodes.size());
    const int last = static_cast<int>(known_.plan->stages.size()) - 1;
    for (int s = 0; s <= last; ++s) {
      for (const int node : known_.plan->stages[s].nodes) of_node[node] = last - s;
    }
    for (std::size_t g = 0; g < stage_of.size(); ++g) stage_of[g] = of_node[reversed.nodes[g][0]];
    return stage_of;
  }

  void improve(StageOrders& orders, const GroupGraph& reversed) {
    for (int idle = 0; idle < kIdleRounds && known_.plan && !is_stopped() && !is_closed(); ++idle) {
      const double before = known_.best;
      search_orders(orders, reversed, options_.num_orders);
      if (known_.best < before) idle = -1;
    }
  }

  // Over the first of these numbers of clusters whose downsets can all be looked at.
  void search_clusters(const GroupGraph& groups, std::span<const int> numbers,
                       std::int64_t max_downsets) {
    for (const int clusters : numbers) {
      if (is_stopped() || is_closed()) return;
      if (groups.num_groups() <= clusters) continue;
      const GroupGraph few = coarsen_acyclically(groups, clusters, context_);
      if (search_all(few, std::min(max_downsets, options_.max_downsets), false)) return;
    }
  }

  // False: there are too many downsets.
  bool search_all(const GroupGraph& groups, std::int64_t max_downsets, bool is_exact) {
    const GroupGraph reversed = reverse(groups);
    Downsets cuts(reversed);
    std::vector<char> holds(reversed.nodes.size(), 1);
    std::size_t size = reversed.nodes.size() + 1;
    for (const GroupNet& net : reversed.nets) size += net.groups.size();
    max_downsets = std::min(max_downsets, kMaxEnumeration / static_cast<std::int64_t>(size));
    std::int64_t num_downsets = 0;
    do {
      if (++num_downsets > max_downsets) return false;
      if (num_downsets % 256 == 0 && is_interrupted()) return true;
      cuts.add(holds);
    } while (next_downset(reversed, holds));
    result_.num_downsets = num_downsets;
    if (finish_cuts(cuts)) search(reversed, cuts, is_exact);
    return true;
  }

  bool is_interrupted() {
    if (context_.is_past_deadline()) known_.stop = ChainStop::kDeadline;
    if (context_.is_cancelled()) known_.stop = ChainStop::kCancelled;
    return is_stopped();
  }

  bool finish_cuts(Downsets& cuts) {
    if (cuts.finish(context_)) return true;
    known_.stop = context_.is_cancelled() ? ChainStop::kCancelled : ChainStop::kDeadline;
    return false;
  }

  // Chains of these cuts; what has no chain of all cuts is proved.
  void search(const GroupGraph& reversed, const Downsets& cuts, bool is_complete) {
    const ReplicaTerms replicas = groups_of_.terms_of(reversed);
    std::optional<BatchBound> shares;
    if (options_.rules.prices_devices) shares.emplace(share_items(reversed, replicas));
    BatchSearch batch;
    if (shares) batch.sum_within = [&](double limit) { return shares->sum_within(limit); };
    batch.weight = weight();
    batch.slowest_at_least = slowest_bound_;
    batch.sum_at_least = sum_bound_;
    batch.best = &priced_;
    batch.ask = [&](double limit, double sum_limit) {
      ReplicaChainSearch limits;
      limits.limit = limit;
      limits.sum_limit = sum_limit;
      if (shares) bound_rest(reversed, cuts, *shares, limits);
      return ask(reversed, cuts, replicas, limits);
    };
    batch.prove = [&](double bound) {
      if (is_complete) batch_bound_ = std::max(batch_bound_, bound);
      report();
    };
    const Guess guess = search_batch(batch);
    if (guess == Guess::kNone && is_complete) {
      known_.is_infeasible = true;
    }
    known_.is_complete = known_.is_complete || (is_complete && guess == Guess::kFound);
  }

  // What the groups outside a cut add at least, at the prices that rule out most.
  static void bound_rest(const GroupGraph& reversed, const Downsets& cuts, const BatchBound& shares,
                         ReplicaChainSearch& limits) {
    if (!std::isfinite(limits.limit) || !std::isfinite(limits.sum_limit)) return;
    const BatchPrices prices = shares.prices_within(limits.limit);
    limits.rest = least_after_cuts(shares, prices, cuts);
    limits.credits = speeds_of_kinds(reversed);
    for (int k = 0; k < reversed.num_kinds(); ++k) {
      const auto& cap = reversed.kinds[k].memory_cap;
      limits.credits[k] *= prices.device_ms * limits.limit;
      if (cap) limits.credits[k] += prices.byte * static_cast<double>(*cap);
    }
  }

  GuessAnswer ask(const GroupGraph& reversed, const Downsets& cuts, const ReplicaTerms& replicas,
                  ReplicaChainSearch limits) {
    limits.uses_windows = options_.rules.uses_windows;
    limits.pairs_left = &pairs_left_;
    const ReplicaChainAnswer answer =
        find_replica_chain(reversed, cuts, replicas, limits, context_);
    if (answer.stop != ChainStop::kFinished) {
      known_.stop = answer.stop;
      return {Guess::kStopped};
    }
    if (!answer.chain) return {Guess::kNone};
    priced_ = std::min(priced_, answer.chain->sum + weight() * answer.chain->slowest);
    ReplicatedStages placement = make_placement(reversed, cuts, *answer.chain);
    const auto figures = figures_of_stages(graph_, terms_, placement);
    double slowest = 0;
    for (const ReplicatedStageFigures& stage : figures) {
      slowest = std::max(slowest, stage.time_ms());
    }
    slowest_ = std::min(slowest_, slowest);
    const double value = batch_ms(figures, terms_.num_microbatches);
    if (value < known_.best) {
      known_.best = value;
      known_.plan = std::move(placement);
      report();
    }
    return {Guess::kFound, answer.chain->slowest, answer.chain->sum};
  }

  // Devices of a kind are handed out in the direction of data, the first one first.
  ReplicatedStages make_placement(const GroupGraph& reversed, const Downsets& cuts,
                                  const ReplicaChain& chain) const {
    ReplicatedStages placement;
    std::vector<std::size_t> num_used(reversed.kinds.size());
    std::vector<int> members;
    for (const ReplicaStage& stage : chain.stages) {
      ReplicatedStage& made = placement.stages.emplace_back();
      cuts.members_between(stage.begin, stage.end, members);
      for (const int g : members) {
        const auto& nodes = reversed.nodes[g];
        made.nodes.insert(made.nodes.end(), nodes.begin(), nodes.end());
      }
      std::sort(made.nodes.begin(), made.nodes.end());
      for (const auto& [kind, count] : stage.devices.of_kinds) {
        for (int i = 0; i < count; ++i) {
          made.devices.push_back(reversed.kinds[kind].devices[num_used[kind]++]);
        }
      }
      std::sort(made.devices.begin(), made.devices.end());
    }
    return placement;
  }

  void report() const {
    if (context_.progress) {
      context_.progress(
          {pairs_at_start_ - pairs_left_, known_.best, std::min(proved(), known_.best)});
    }
  }

  ReplicatedSearch finish() {
    known_.lower_bound = proved();
    if (!known_.is_infeasible) known_.proof = ProofKind::kSpreadOverStages;
    result_.num_pairs = pairs_at_start_ - pairs_left_;
    result_.outcome = make_pipeline_outcome(
        std::move(known_), options_.search.tolerance,
        "no line of stages keeps every device within its memory cap, with the microbatches that "
        "are in flight there");
    return std::move(result_);
  }

  const CostGraph& graph_;
  const PipelineTerms& terms_;
  const ReplicatedSearchOptions& options_;
  const RunContext& context_;
  const PipelineGroups groups_of_;
  const int max_replicas_;
  std::int64_t pairs_left_;
  const std::int64_t pairs_at_start_;
  double slowest_bound_ = 0, sum_bound_ = 0, batch_bound_ = 0;
  double slowest_ = kUnlimited;                // stage, of the plans found the fastest one
  double priced_ = kUnlimited;                 // at the fastest rates; the same without pair rates
  PipelineKnowledge<ReplicatedStages> known_;  // true values
  ReplicatedSearch result_;
};

}  // namespace

Result<ReplicatedSearch> search_replicated_stages(const CostGraph& graph,
                                                  const PipelineTerms& terms,
                                                  const ReplicatedSearchOptions& options,
                                                  const RunContext& context) {
  PLIMSOLL_RETURN_IF_ERROR(validate(graph));
  PLIMSOLL_RETURN_IF_ERROR(validate(graph, terms));
  if (options.max_downsets < 1 || options.num_orders < 1 || options.max_groups < 1) {
    return fail(ErrorCode::kUsage, "pipeline search options",
                "max_downsets, max_groups or num_orders below 1", "give at least 1");
  }
  if (!(options.search.tolerance >= 0)) {
    return fail(ErrorCode::kUsage, "pipeline search options", "a tolerance below 0 or not a number",
                "give at least 0");
  }
  return ReplicatedPlanner(graph, terms, options, context).run();
}

}  // namespace plimsoll::partition
