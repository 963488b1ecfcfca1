#include "plimsoll/partition/pipeline_search.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <span>
#include <utility>

#include "partition/acyclic_coarsening.h"
#include "partition/batch_search.h"
#include "partition/downsets.h"
#include "partition/pipeline_chain.h"
#include "partition/replica_chain.h"
#include "plimsoll/core/random.h"
#include "plimsoll/partition/placement_bounds.h"

namespace plimsoll::partition {
namespace {

constexpr double kExact = 1e-9;  // relative; what counts as closed
constexpr std::int64_t kDefaultPairs = 200'000'000;
constexpr double kMaxStates = 1 << 12;  // ways to have used up devices
constexpr int kMaxPrefixes = 256;       // of one order; longer orders are thinned
constexpr int kIdleRounds = 4;          // of orders around the best plan
constexpr std::uint64_t kStageKeys = 8;
constexpr int kNumSpreads = 6;  // 1, 2, ... 32 keys: from within a stage to four of them
// Numbers of clusters whose downsets are looked at before all downsets of the groups, and where
// these are too many.
constexpr int kFewClusters[] = {256, 128, 64, 32};
constexpr std::int64_t kFewDownsets = 4096;
constexpr int kManyClusters[] = {1024, 512};
constexpr std::int64_t kManyDownsets = 8192;
constexpr std::int64_t kMaxEnumeration = 400'000'000;  // downsets times groups and pins
constexpr const char* kNothingFits = "no contiguous pipeline fits, whatever its stages take";

// Bytes of each node for one microbatch, or 0.
Bytes per_microbatch(const PipelineTerms& terms, int node) {
  return terms.per_microbatch.empty() ? 0 : terms.per_microbatch[node];
}

// The graph with `in_flight` microbatches held everywhere.
CostGraph with_microbatches(const CostGraph& graph, const PipelineTerms& terms, int in_flight) {
  CostGraph held = graph;
  for (int node = 0; node < graph.num_nodes(); ++node) {
    held.nodes[node].memory += in_flight * per_microbatch(terms, node);
  }
  return held;
}

// The groups against the direction of data.
GroupGraph reverse(const GroupGraph& groups) {
  GroupGraph reversed = groups;
  const int last = groups.num_groups() - 1;
  const auto turn = [last](std::vector<int>& list) {
    for (int& g : list) g = last - g;
    std::reverse(list.begin(), list.end());
  };
  std::reverse(reversed.nodes.begin(), reversed.nodes.end());
  for (auto& times : reversed.time_ms) std::reverse(times.begin(), times.end());
  std::reverse(reversed.memory.begin(), reversed.memory.end());
  reversed.predecessors.assign(groups.successors.rbegin(), groups.successors.rend());
  reversed.successors.assign(groups.predecessors.rbegin(), groups.predecessors.rend());
  for (auto* lists : {&reversed.predecessors, &reversed.successors}) {
    for (auto& list : *lists) turn(list);
  }
  for (GroupNet& net : reversed.nets) {
    turn(net.groups);
    if (net.producer >= 0) net.producer = last - net.producer;
  }
  for (GroupWeight& weight : reversed.weights) turn(weight.groups);
  return reversed;
}

class Planner {
 public:
  Planner(const CostGraph& graph, const PipelineTerms& terms, const PipelineSearchOptions& options,
          const RunContext& context)
      : graph_(graph),
        terms_(terms),
        options_(options),
        context_(context),
        is_training_(partition::is_training(graph)),
        max_replicas_(replica_limit(graph, terms)),
        most_in_flight_(microbatches_in_flight(is_training_, terms.num_microbatches, 1,
                                               std::max(1, graph.num_devices()))),
        pairs_left_(options.search.effort < 0 ? kDefaultPairs : options.search.effort),
        pairs_at_start_(pairs_left_) {}

  Result<PipelinePlacementSearch> run() {
    PLIMSOLL_ASSIGN(const PlacementBound bound,
                    bound_placement(with_microbatches(graph_, terms_, 1), {}, context_));
    if (bound.is_infeasible) {
      is_infeasible_ = true;
      proof_ = bound.proof;
      result_.outcome.explanation = bound.explanation;
      return finish();
    }
    const GroupGraph groups = make_merged_groups();
    result_.num_groups = groups.num_groups();
    if (num_device_states(groups) > kMaxStates) {
      stop_ = ChainStop::kEffort;
      return finish();
    }
    bound_by_work(groups);
    // Of straight pipelines a stage is a device.
    if (max_replicas_ == 1) slowest_bound_ = std::max(slowest_bound_, bound.lower_bound);
    if (options_.rules.starts_from_orders) search_orders(groups, 1);
    if (options_.rules.starts_from_orders && !is_stopped()) {
      search_orders(groups, options_.num_orders);
    }
    if (options_.rules.starts_coarsely) search_clusters(groups, kFewClusters, kFewDownsets);
    const bool is_large = groups.num_groups() > options_.max_groups;
    if (!is_stopped() && !is_closed() &&
        (is_large || !search_all(groups, options_.max_downsets, true))) {
      search_clusters(groups, kManyClusters, kManyDownsets);
      improve(groups);
      if (!is_stopped() && !is_closed()) stop_ = ChainStop::kEffort;
    }
    return finish();
  }

 private:
  bool is_stopped() const { return stop_ != ChainStop::kFinished; }
  double weight() const { return terms_.num_microbatches - 1.0; }
  double proved() const { return std::max(batch_bound_, sum_bound_ + weight() * slowest_bound_); }
  bool is_closed() const { return is_infeasible_ || best_ <= proved() * (1 + kExact); }

  // Groups hold what most microbatches in flight would take, until they are merged: what costs
  // nothing then never does. Replicas agree on weights, which then are no longer free to move.
  GroupGraph make_merged_groups() const {
    const CostGraph held = with_microbatches(graph_, terms_, most_in_flight_);
    GroupGraph groups = make_groups(held);
    if (options_.rules.absorbs_groups) {
      if (is_training_ && max_replicas_ > 1) {
        for (DeviceKind& kind : groups.kinds) kind.memory_cap = 0;
      }
      groups = absorb_groups(held, groups);
    }
    for (DeviceKind& kind : groups.kinds) {
      kind.memory_cap = graph_.classes[kind.device_class].memory_cap;
    }
    for (int g = 0; g < groups.num_groups(); ++g) {
      groups.memory[g] -= most_in_flight_ * bytes_of(groups.nodes[g], true);
    }
    return groups;
  }

  // All device time spread evenly; a group by itself; every stage at most on the devices that the
  // others leave, where there must be several.
  void bound_by_work(const GroupGraph& groups) {
    const std::vector<double> work = work_of_groups(groups);
    double total = 0;
    double heaviest = 0;
    for (const double ms : work) {
      total += ms;
      heaviest = std::max(heaviest, ms);
    }
    const int most = std::min(max_replicas_, graph_.num_devices() - least_stages(groups) + 1);
    slowest_bound_ = std::max(shared_work(groups), heaviest / max_replicas_) * (1 - kExact);
    sum_bound_ = total / std::max(1, most) * (1 - kExact);
  }

  // By bytes, with one microbatch in flight.
  int least_stages(const GroupGraph& groups) const {
    Int128 total = 0;
    for (int g = 0; g < groups.num_groups(); ++g) {
      total += groups.memory[g] + bytes_of(groups.nodes[g], true);
    }
    for (const GroupWeight& one : groups.weights) total += one.bytes;
    Bytes room = 0;
    for (const DeviceKind& kind : groups.kinds) {
      if (!kind.memory_cap) return 1;
      room = std::max(room, *kind.memory_cap);
    }
    if (room <= 0) return 1;
    const Int128 stages = (total + room - 1) / room;
    return static_cast<int>(std::clamp<Int128>(stages, 1, graph_.num_devices()));
  }

  Bytes bytes_of(const std::vector<int>& nodes, bool is_per_microbatch) const {
    Bytes bytes = 0;
    for (const int node : nodes) {
      bytes += is_per_microbatch ? per_microbatch(terms_, node) : graph_.nodes[node].memory;
    }
    return bytes;
  }

  // Chains over the prefixes of topological orders, which are thinned where they are long: one that
  // goes depth first, one by number, then others, around the best plan once there is one.
  void search_orders(const GroupGraph& groups, int num_orders) {
    const GroupGraph reversed = reverse(groups);
    const int num_groups = groups.num_groups();
    const int step = num_groups / kMaxPrefixes + 1;
    Downsets prefixes(reversed);
    std::vector<std::uint64_t> keys(reversed.nodes.size());
    const std::vector<int> stage_of = stages_of(reversed);
    for (int i = 0; i < num_orders; ++i, ++num_orders_made_) {
      const std::uint64_t spread = std::uint64_t{1} << (num_orders_made_ % kNumSpreads);
      for (std::size_t g = 0; g < keys.size(); ++g) {
        keys[g] =
            kStageKeys * static_cast<std::uint64_t>(stage_of[g]) + (random_.next() >> 32) % spread;
        if (num_orders_made_ == 0) keys[g] = 0;
        if (num_orders_made_ == 1) keys[g] = static_cast<std::uint64_t>(g);
      }
      std::vector<char> holds(reversed.nodes.size());
      prefixes.add(holds);
      int done = 0;
      for (const int g : topological_order(reversed, keys)) {
        holds[g] = 1;
        if (++done % step == 0 || done == num_groups) prefixes.add(holds);
      }
    }
    if (finish_cuts(prefixes)) search(reversed, prefixes, false);
  }

  // [groups] of the best plan, the last stage is 0; all 0 without a plan.
  std::vector<int> stages_of(const GroupGraph& reversed) const {
    std::vector<int> stage_of(reversed.nodes.size());
    if (!best_placement_) return stage_of;
    std::vector<int> of_node(graph_.nodes.size());
    const int last = static_cast<int>(best_placement_->stages.size()) - 1;
    for (int s = 0; s <= last; ++s) {
      for (const int node : best_placement_->stages[s].nodes) of_node[node] = last - s;
    }
    for (std::size_t g = 0; g < stage_of.size(); ++g) stage_of[g] = of_node[reversed.nodes[g][0]];
    return stage_of;
  }

  void improve(const GroupGraph& groups) {
    for (int idle = 0; idle < kIdleRounds && best_placement_ && !is_stopped() && !is_closed();
         ++idle) {
      const double before = best_;
      search_orders(groups, options_.num_orders);
      if (best_ < before) idle = -1;
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
    if (context_.is_past_deadline()) stop_ = ChainStop::kDeadline;
    if (context_.is_cancelled()) stop_ = ChainStop::kCancelled;
    return is_stopped();
  }

  bool finish_cuts(Downsets& cuts) {
    if (cuts.finish(context_)) return true;
    stop_ = context_.is_cancelled() ? ChainStop::kCancelled : ChainStop::kDeadline;
    return false;
  }

  // Chains of these cuts; what has no chain of all cuts is proved.
  void search(const GroupGraph& reversed, const Downsets& cuts, bool is_complete) {
    ReplicaTerms replicas{terms_.num_microbatches, max_replicas_, is_training_, {}, {}};
    for (const auto& nodes : reversed.nodes) {
      replicas.node_bytes.push_back(bytes_of(nodes, false));
      replicas.per_microbatch.push_back(bytes_of(nodes, true));
    }
    BatchSearch batch;
    batch.weight = weight();
    batch.slowest_at_least = slowest_bound_;
    batch.sum_at_least = sum_bound_;
    batch.best = &priced_;
    batch.ask = [&](double limit, double sum_limit) {
      return ask(reversed, cuts, replicas, {limit, sum_limit});
    };
    batch.prove = [&](double bound) {
      if (is_complete) batch_bound_ = std::max(batch_bound_, bound);
      report();
    };
    const Guess guess = search_batch(batch);
    if (guess == Guess::kNone && is_complete) {
      is_infeasible_ = true;
      proof_ = kNothingFits;
    }
    is_complete_ = is_complete_ || (is_complete && guess == Guess::kFound);
  }

  GuessAnswer ask(const GroupGraph& reversed, const Downsets& cuts, const ReplicaTerms& replicas,
                  ReplicaChainSearch limits) {
    limits.uses_windows = options_.rules.uses_windows;
    limits.pairs_left = &pairs_left_;
    const ReplicaChainAnswer answer =
        find_replica_chain(reversed, cuts, replicas, limits, context_);
    if (answer.stop != ChainStop::kFinished) {
      stop_ = answer.stop;
      return {Guess::kStopped};
    }
    if (!answer.chain) return {Guess::kNone};
    priced_ = std::min(priced_, answer.chain->sum + weight() * answer.chain->slowest);
    PipelinePlacement placement = make_placement(reversed, cuts, *answer.chain);
    const double value =
        batch_ms(figures_of_stages(graph_, terms_, placement), terms_.num_microbatches);
    if (value < best_) {
      best_ = value;
      best_placement_ = std::move(placement);
      report();
    }
    return {Guess::kFound, answer.chain->slowest, answer.chain->sum};
  }

  // Devices of a kind are handed out in the direction of data, the first one first.
  PipelinePlacement make_placement(const GroupGraph& reversed, const Downsets& cuts,
                                   const ReplicaChain& chain) const {
    PipelinePlacement placement;
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
      context_.progress({pairs_at_start_ - pairs_left_, best_, std::min(proved(), best_)});
    }
  }

  PipelinePlacementSearch finish() {
    Outcome<PipelinePlacement>& outcome = result_.outcome;
    outcome.stop = reason_of(stop_);
    Certificate& certificate = outcome.certificate;
    certificate.objective = std::numeric_limits<double>::quiet_NaN();
    if (is_infeasible_) {
      outcome.status = SolveStatus::kInfeasible;
      certificate.proof = proof_;
      if (outcome.explanation.lines.empty()) {
        outcome.explanation.binding = "memory";
        outcome.explanation.lines.emplace_back(
            "no line of stages keeps every device within its memory cap, with the microbatches "
            "that are in flight there");
      }
    } else {
      certificate.lower_bound = std::min(proved(), best_);
      certificate.proof = is_complete_ ? "no chain of downsets below the bound"
                                       : "least device time spread over devices and stages";
      if (best_placement_) {
        certificate.objective = best_;
        const double tolerance = std::max(kExact, options_.search.tolerance);
        outcome.status = best_ <= *certificate.lower_bound * (1 + tolerance)
                             ? SolveStatus::kOptimal
                             : SolveStatus::kFeasible;
        outcome.plan = std::move(best_placement_);
      }
    }
    result_.num_pairs = pairs_at_start_ - pairs_left_;
    return std::move(result_);
  }

  const CostGraph& graph_;
  const PipelineTerms& terms_;
  const PipelineSearchOptions& options_;
  const RunContext& context_;
  const bool is_training_;
  const int max_replicas_;
  const int most_in_flight_;
  std::int64_t pairs_left_;
  const std::int64_t pairs_at_start_;
  double slowest_bound_ = 0, sum_bound_ = 0, batch_bound_ = 0;
  double best_ = kUnlimited;    // true
  double priced_ = kUnlimited;  // at the fastest rates; the same without pair rates
  std::optional<PipelinePlacement> best_placement_;
  bool is_complete_ = false;  // all downsets were searched to the end
  bool is_infeasible_ = false;
  std::string proof_;
  SplitMix64 random_{options_.search.seed};
  int num_orders_made_ = 0;
  ChainStop stop_ = ChainStop::kFinished;
  PipelinePlacementSearch result_;
};

}  // namespace

Result<PipelinePlacementSearch> place_for_pipeline(const CostGraph& graph,
                                                   const PipelineTerms& terms,
                                                   const PipelineSearchOptions& options,
                                                   const RunContext& context) {
  PLIMSOLL_RETURN_IF_ERROR(validate(graph));
  PLIMSOLL_RETURN_IF_ERROR(validate(graph, terms));
  if (options.max_downsets < 1 || options.num_orders < 1 || options.max_groups < 1) {
    return fail(ErrorCode::kUsage, "pipeline search options",
                "max_downsets, max_groups or num_orders below 1", "give at least 1");
  }
  if (!(options.search.tolerance >= 0)) {
    return fail(ErrorCode::kUsage, "pipeline search options", "a tolerance below 0 or no number",
                "give at least 0");
  }
  return Planner(graph, terms, options, context).run();
}

}  // namespace plimsoll::partition
