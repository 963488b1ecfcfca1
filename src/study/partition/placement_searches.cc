#include "study/partition/placement_searches.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "partition/fx/latency.h"
#include "plimsoll/core/units.h"
#include "plimsoll/partition/dialect.h"
#include "plimsoll/partition/fx_search.h"
#include "plimsoll/partition/latency_search.h"
#include "plimsoll/partition/partitioner.h"
#include "plimsoll/partition/replicated_search.h"
#include "plimsoll/partition/throughput.h"

namespace plimsoll::study {
namespace {

using partition::Objective;
using partition::PartitionMode;

bool has_costs(const GraphCase& made) { return made.costs.has_value(); }
bool has_terms(const GraphCase& made) { return has_costs(made) && made.terms.has_value(); }
bool is_fx(const GraphCase& made) { return made.fx.has_value(); }
bool is_timed_fx(const GraphCase& made) {
  return is_fx(made) && !made.fx->config.node_to_latency_mapping.empty();
}

template <class Plan>
PlacementAnswer start_answer(Objective objective, const Outcome<Plan>& outcome) {
  PlacementAnswer answer;
  answer.objective = objective;
  take_end(outcome, answer);
  return answer;
}

// Where a clock or a cancel stopped a search; its effort option stops it there again.
void note_stop(std::int64_t effort, PlacementAnswer& answer) {
  if (answer.stop != StopReason::kDeadline && answer.stop != StopReason::kCancelled) return;
  answer.provenance.emplace().stopped_at = fmt::format("{}", effort);
}

template <bool is_contiguous>
Result<PlacementAnswer> run_throughput(const GraphCase& made, const PlacementSearchOptions& options,
                                       const RunContext& context) {
  partition::ThroughputOptions throughput;
  throughput.is_contiguous = is_contiguous;
  throughput.search = options.search;
  PLIMSOLL_ASSIGN(const partition::ThroughputPlacement placement,
                  partition::place_for_throughput(*made.costs, throughput, context));
  PlacementAnswer answer = start_answer(Objective::kThroughput, placement.outcome);
  note_stop(is_contiguous ? placement.num_pairs : placement.num_moves, answer);
  if (placement.outcome.plan) {
    put_assignment(*made.costs, made.names, *placement.outcome.plan, answer);
  }
  return answer;
}

Result<PlacementAnswer> run_latency(const GraphCase& made, const PlacementSearchOptions& options,
                                    const RunContext& context) {
  partition::LatencySearchOptions latency;
  latency.search = options.search;
  PLIMSOLL_ASSIGN(const partition::LatencyPlacement placement,
                  partition::place_for_latency(*made.costs, latency, context));
  PlacementAnswer answer = start_answer(Objective::kLatency, placement.outcome);
  note_stop(placement.num_evaluations, answer);
  if (placement.outcome.plan) {
    put_assignment(*made.costs, made.names, *placement.outcome.plan, answer);
  }
  return answer;
}

Result<PlacementAnswer> run_replicated(const GraphCase& made, const PlacementSearchOptions& options,
                                       const RunContext& context) {
  partition::ReplicatedSearchOptions pipeline;
  pipeline.search = options.search;
  PLIMSOLL_ASSIGN(const partition::ReplicatedSearch placement,
                  partition::search_replicated_stages(*made.costs, *made.terms, pipeline, context));
  PlacementAnswer answer = start_answer(Objective::kPipeline, placement.outcome);
  note_stop(placement.num_pairs, answer);
  if (placement.outcome.plan) {
    put_pipeline(*made.costs, *made.terms, made.names, *placement.outcome.plan, answer);
  }
  return answer;
}

// ---------------------------------------------------------------- torch.fx

PlacedStage stage_of(const FxInput& input, const partition::Partition& partition) {
  PlacedStage stage;
  stage.id = partition.id;
  put_logical_devices(partition.logical_device_ids, stage);
  for (const int id : stage.devices) {
    // Of several devices with this id torch means the last.
    std::optional<Bytes> memory;
    for (const partition::Device& device : input.config.devices) {
      if (device.logical_id == id) memory = device.available_mem_bytes;
    }
    if (memory) stage.memory_cap = std::min(*memory, stage.memory_cap.value_or(*memory));
  }
  const auto latency = partition::latency_of_partition(
      input.graph, input.config.node_to_latency_mapping, partition.nodes);
  if (latency) stage.compute_ms = latency->overall_latency_sec * kMsPerSecond;
  stage.memory = partition.used_mem_bytes;
  for (const int node : partition.nodes) stage.nodes.push_back(input.graph.nodes[node].name);
  return stage;
}

PlacementAnswer make_fx_answer(const FxInput& input, const partition::ReferencePartition& result) {
  PlacementAnswer answer = start_answer(Objective::kFx, result.outcome);
  answer.certificate->objective *= kMsPerSecond;
  if (auto& bound = answer.certificate->lower_bound) *bound *= kMsPerSecond;
  if (result.failure) {
    const Error& failure = *result.failure;
    answer.failure = {failure.kind, failure.place, failure.message};
  }
  if (!result.outcome.plan) return answer;
  answer.plan.emplace();
  for (const partition::Partition& partition : result.outcome.plan->partitions) {
    answer.plan->push_back(stage_of(input, partition));
  }
  const auto& ids = result.outcome.plan->node_to_partition;
  for (std::size_t i = 0; i < ids.size(); ++i) {
    if (ids[i]) answer.node_to_partition[input.graph.nodes[i].name] = *ids[i];
  }
  answer.calls = result.split.dag;
  return answer;
}

Result<PlacementAnswer> run_torch(const FxInput& input, PartitionMode mode,
                                  const PlacementSearchOptions& options) {
  PLIMSOLL_ASSIGN(const partition::Dialect dialect, partition::find_dialect(options.variant));
  partition::PartitionerConfig config = input.config;
  config.mode = mode;
  PLIMSOLL_ASSIGN(const partition::ReferencePartition result,
                  partition::partition_like_torch(input.graph, config, dialect));
  return make_fx_answer(input, result);
}

// The search counts seconds, as torch does; who watches it reads ms, as in the answer.
RunContext in_ms(const RunContext& context) {
  RunContext telling = context;
  if (!context.progress) return telling;
  telling.progress = [&context](Progress progress) {
    if (progress.incumbent) *progress.incumbent *= kMsPerSecond;
    if (progress.lower_bound) *progress.lower_bound *= kMsPerSecond;
    context.progress(progress);
  };
  return telling;
}

Result<PlacementAnswer> run_critical_path(const GraphCase& made,
                                          const PlacementSearchOptions& options,
                                          const RunContext& context) {
  PLIMSOLL_ASSIGN(const partition::Dialect dialect, partition::find_dialect(options.variant));
  partition::FxSearchOptions fx;
  fx.search = options.search;
  PLIMSOLL_ASSIGN(const partition::FxPlacement result,
                  partition::partition_for_critical_path(made.fx->graph, made.fx->config, fx,
                                                         dialect, in_ms(context)));
  PlacementAnswer answer = make_fx_answer(*made.fx, result);
  note_stop(result.num_evaluations, answer);
  return answer;
}

Result<PlacementAnswer> run_torch_as_asked(const GraphCase& made,
                                           const PlacementSearchOptions& options,
                                           const RunContext& /*context*/) {
  return run_torch(*made.fx, made.fx->config.mode, options);
}

template <PartitionMode mode>
Result<PlacementAnswer> run_torch_mode(const GraphCase& made, const PlacementSearchOptions& options,
                                       const RunContext& /*context*/) {
  return run_torch(*made.fx, mode, options);
}

constexpr PlacementSearch kSearches[] = {
    {"contiguous", Objective::kThroughput, "the best pipeline of contiguous stages, exact",
     has_costs, run_throughput<true>},
    {"general", Objective::kThroughput, "any placement, by multilevel refinement, with a bound",
     has_costs, run_throughput<false>},
    {"latency", Objective::kLatency, "chains of pieces, refined by annealing, with a bound",
     has_costs, run_latency},
    {"replicated", Objective::kPipeline,
     "stages of replicas for a batch of microbatches, exact or with a bound", has_terms,
     run_replicated},
    {"torch", Objective::kFx, "torch.fx's partitioner in the mode that the graph names", is_fx,
     run_torch_as_asked},
    {"critical_path", Objective::kFx,
     "the least critical path, exact or with a bound; of graphs with latencies", is_timed_fx,
     run_critical_path},
    {"torch_size_based", Objective::kFx, "torch.fx's size_based", is_fx,
     run_torch_mode<PartitionMode::kSizeBased>},
    {"torch_sparse_nn", Objective::kFx, "torch.fx's sparse_nn", is_fx,
     run_torch_mode<PartitionMode::kSparseNn>},
    {"torch_cost_aware", Objective::kFx, "torch.fx's cost_aware", is_fx,
     run_torch_mode<PartitionMode::kCostAware>},
    {"torch_kl_based", Objective::kFx, "torch.fx's kl_based", is_fx,
     run_torch_mode<PartitionMode::kKlBased>},
    {"torch_aot_based", Objective::kFx, "torch.fx's aot_based", is_fx,
     run_torch_mode<PartitionMode::kAotBased>},
};

}  // namespace

std::span<const PlacementSearch> placement_searches() { return kSearches; }

}  // namespace plimsoll::study
