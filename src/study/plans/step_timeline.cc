#include "plimsoll/study/step_timeline.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <map>
#include <optional>
#include <string_view>
#include <tuple>

#include "plimsoll/check/latency_check.h"
#include "plimsoll/checkpoint/module_tree.h"
#include "study/partition/pipeline_answer.h"

namespace plimsoll::study {
namespace {

constexpr std::size_t kMostEvents = std::size_t{1} << 20;

tl::unexpected<Error> no_plan_to_time() {
  return fail(ErrorCode::kValue, "plan", "the answer holds no plan",
              "plan again, with more time, memory or ranks");
}

tl::unexpected<Error> no_times() {
  return fail(ErrorCode::kValue, "plan", "the plan states no times",
              "give the answer of a planner, or what the plan is of with --model and --on");
}

Result<void> check_count(std::size_t num_events) {
  if (num_events <= kMostEvents) return {};
  return fail(
      ErrorCode::kValue, "plan",
      fmt::format("the step has {} events, and a trace at most {}", num_events, kMostEvents),
      "draw a plan for fewer ranks or microbatches");
}

// ---------------------------------------------------------------- sharding plans

enum Stream { kCompute, kCommunication, kPrefetch, kInputDistribution };

struct Phase {
  const char* cause;  // in the bill
  const char* name;
  Stream stream;
};

// In the order of a step. What a step counts: docs/glossary.md#step.
constexpr Phase kPhases[] = {
    {"prefetch_compute", "prefetch", kPrefetch},
    {"fwd_compute", "look-up (forward)", kCompute},
    {"fwd_comms", "output distribution (forward)", kCommunication},
    {"bwd_comms", "gradient distribution (backward)", kCommunication},
    {"bwd_compute", "update (backward)", kCompute},
};
constexpr Phase kInput = {"input_dist_comms", "input distribution", kInputDistribution};
constexpr Phase kWhole = {"total", "all shards", kCompute};  // where phases are not known apart

template <class T>
T at(const std::map<std::string, std::vector<T>>& lists, const std::string& name,
     std::size_t place) {
  const auto found = lists.find(name);
  return found == lists.end() || place >= found->second.size() ? T{} : found->second[place];
}

// The phase on every rank, all from `start` on; returns when the slowest is done.
double add_phase(const Bill& bill, const Phase& phase, double start, StepTimeline& timeline) {
  double end = start;
  for (std::size_t rank = 0; rank < timeline.processes.size(); ++rank) {
    const double ms = at(bill.ms, phase.cause, rank);
    if (!(ms > 0)) continue;
    timeline.events.push_back({static_cast<int>(rank), phase.stream, phase.name, start, ms});
    end = std::max(end, start + ms);
  }
  return end;
}

// What a tier of a rank holds, with or without inputs and outputs.
void add_memory(const Bill& bill, std::size_t rank, const std::string& tier, double at_ms,
                bool holds_io, StepTimeline& timeline) {
  TimelineMemory memory{static_cast<int>(rank), tier == "hbm" ? "HBM" : "DDR", at_ms, {}};
  Bytes parts = 0;
  for (const char* cause : {"weights", "optimizer_state", "cache_state", "input_output"}) {
    const Bytes bytes = at(bill.bytes, fmt::format("{}_{}", tier, cause), rank);
    parts |= bytes;
    const bool is_io = std::string_view(cause) == "input_output";
    memory.bytes.emplace_back(cause, is_io && !holds_io ? 0 : bytes);
  }
  if (parts == 0) memory.bytes = {{"shards", at(bill.bytes, tier, rank)}};
  if (tier == "hbm") {
    for (const char* cause : {"dense", "kjt"}) {
      if (bill.bytes.contains(cause)) memory.bytes.emplace_back(cause, at(bill.bytes, cause, rank));
    }
  }
  timeline.memory.push_back(std::move(memory));
}

bool is_used(const Bill& bill, const std::string& tier) {
  const auto found = bill.bytes.find(tier);
  return found != bill.bytes.end() && std::any_of(found->second.begin(), found->second.end(),
                                                  [](Bytes bytes) { return bytes > 0; });
}

// ---------------------------------------------------------------- pipelines

// One stage of a line of stages.
struct LineStage {
  std::vector<int> processes;  // that work on it together
  double compute_ms = 0, transfer_ms = 0, sync_ms = 0;
  double total_ms() const { return compute_ms + transfer_ms + sync_ms; }
};

// Every item through all stages, each stage as soon as it is free.
void run_line(const std::vector<LineStage>& stages, std::int64_t num_items, const char* item,
              StepTimeline& timeline) {
  std::vector<double> free_from(stages.size(), 0);
  for (std::int64_t i = 0; i < num_items; ++i) {
    double ready = 0;
    for (std::size_t s = 0; s < stages.size(); ++s) {
      const LineStage& stage = stages[s];
      double from = std::max(ready, free_from[s]);
      const std::pair<int, double> parts[] = {
          {0, stage.compute_ms}, {1, stage.transfer_ms}, {2, stage.sync_ms}};
      for (const auto& [thread, ms] : parts) {
        if (!(ms > 0)) continue;
        for (const int process : stage.processes) {
          timeline.events.push_back({process, thread, fmt::format("{} {}", item, i), from, ms});
        }
        from += ms;
      }
      free_from[s] = ready = from;
    }
    timeline.end_ms = std::max(timeline.end_ms, ready);
  }
}

// Of a plan's own record; nothing where it names none.
std::optional<std::int64_t> recorded_microbatches(const std::optional<Provenance>& provenance) {
  if (!provenance) return std::nullopt;
  const auto found = provenance->options.find("microbatches");
  if (found == provenance->options.end()) return std::nullopt;
  std::int64_t count = 0;
  const char* const end = found->second.data() + found->second.size();
  const auto [stop, error] = std::from_chars(found->second.data(), end, count);
  if (error != std::errc() || stop != end || count < 1) return std::nullopt;
  return count;
}

Result<StepTimeline> draw_latency(const PlacementAnswer& answer, const partition::CostGraph& graph,
                                  const std::vector<std::string>& names) {
  PLIMSOLL_ASSIGN(const partition::DeviceAssignment assignment,
                  take_assignment(answer, names, "plan"));
  PLIMSOLL_ASSIGN(const check::LatencyReport report, check::check_latency(graph, assignment));
  if (report.tasks.empty()) return no_times();
  StepTimeline timeline;
  timeline.what = "one sample";
  for (std::size_t device = 0; device < report.memory.size(); ++device) {
    timeline.processes.push_back({fmt::format("device {}", device), {"compute", "transfer"}});
    timeline.memory.push_back(
        {static_cast<int>(device), "memory", 0, {{"held", report.memory[device]}}});
  }
  for (const check::LatencyTask& task : report.tasks) {
    const std::string name =
        task.nodes.size() == 1
            ? names[static_cast<std::size_t>(task.nodes.front())]
            : fmt::format("{} and {} more", names[static_cast<std::size_t>(task.nodes.front())],
                          task.nodes.size() - 1);
    double from = task.start_ms;
    const std::tuple<int, double, std::string> parts[] = {
        {1, task.bring_in_ms, "inputs of " + name},
        {0, task.compute_ms, name},
        {1, task.take_out_ms, "outputs of " + name}};
    for (const auto& [thread, ms, what] : parts) {
      if (ms > 0) timeline.events.push_back({task.device, thread, what, from, ms});
      from += ms;
    }
  }
  timeline.end_ms = report.latency_ms;
  return timeline;
}

// ---------------------------------------------------------------- checkpointing

// What each module's unit runs again just before its backward pass; a run of modules does so before
// that of its last.
void put_recomputation(const std::vector<checkpoint::CheckpointUnit>& units,
                       std::map<std::string_view, double>& again) {
  for (const checkpoint::CheckpointUnit& unit : units) {
    if (!unit.fqns.empty()) again[unit.fqns.back()] += unit.recompute_ms;
    put_recomputation(unit.nested, again);
  }
}

// One forward and one backward pass of a module tree, with what is run again before its module's
// backward.
class CheckpointedStep {
 public:
  CheckpointedStep(const CheckpointAnswer& answer, const checkpoint::ModuleStats& stats,
                   const checkpoint::ModuleTree& tree)
      : answer_(answer),
        stats_(stats),
        tree_(tree),
        again_(tree.parent.size(), 0),
        forward_(again_),
        backward_(again_),
        forward_start_(again_),
        backward_start_(again_) {
    for (std::size_t m = 0; m < tree.parent.size(); ++m) {
      module_of_.emplace(stats.mod_stats[m].fqn, m);
    }
  }

  Result<StepTimeline> draw() {
    PLIMSOLL_RETURN_IF_ERROR(find_recomputation());
    find_durations();
    StepTimeline timeline;
    timeline.what = "step";
    timeline.processes.push_back({"device", {"compute"}});
    const double loss = find_loss();
    timeline.end_ms = place_roots(loss);
    for (auto m = tree_.post_order.rbegin(); m != tree_.post_order.rend(); ++m) {  // parents first
      const auto module = static_cast<std::size_t>(*m);
      place(tree_.children[module], forward_start_[module],
            backward_start_[module] + again_[module]);
      add_events(module, timeline);
    }
    add_memory_needed(loss, timeline);
    return timeline;
  }

 private:
  Result<void> find_recomputation() {
    std::map<std::string_view, double> again_of;
    put_recomputation(answer_.plan->units, again_of);
    for (const auto& [fqn, ms] : again_of) {
      const auto found = module_of_.find(fqn);
      if (found == module_of_.end()) {
        return fail(ErrorCode::kValue, "plan",
                    fmt::format("the statistics have no module '{}'", fqn),
                    "give the statistics that the plan was made from");
      }
      again_[found->second] = ms;
    }
    return {};
  }

  // A module takes what it was measured with, or as long as its children where that is more.
  void find_durations() {
    std::vector<double> all_again = again_;
    for (const int m : tree_.post_order) {
      const auto module = static_cast<std::size_t>(m);
      double forward_children = 0, backward_children = 0;
      for (const int child : tree_.children[module]) {
        forward_children += forward_[static_cast<std::size_t>(child)];
        backward_children += backward_[static_cast<std::size_t>(child)];
        all_again[module] += all_again[static_cast<std::size_t>(child)];
      }
      const checkpoint::ModuleInfo& info = stats_.mod_stats[module];
      forward_[module] = std::max(info.fw_runtime_per_module, forward_children);
      backward_[module] = std::max(info.bw_runtime_per_module + all_again[module],
                                   backward_children + again_[module]);
    }
  }

  double find_loss() const {
    double loss = 0;
    for (auto m = tree_.post_order.rbegin(); m != tree_.post_order.rend(); ++m) {
      const auto module = static_cast<std::size_t>(*m);
      if (tree_.parent[module] < 0) loss += forward_[module];
    }
    return loss;
  }

  // The end of the backward pass.
  double place_roots(double loss) {
    std::vector<int> roots;
    for (const int m : tree_.post_order) {
      if (tree_.parent[static_cast<std::size_t>(m)] < 0) roots.push_back(m);
    }
    return place(roots, 0, loss);
  }

  double place(const std::vector<int>& siblings, double forward_from, double backward_from) {
    for (const int child : siblings) {
      forward_start_[static_cast<std::size_t>(child)] = forward_from;
      forward_from += forward_[static_cast<std::size_t>(child)];
    }
    for (auto child = siblings.rbegin(); child != siblings.rend(); ++child) {
      backward_start_[static_cast<std::size_t>(*child)] = backward_from;
      backward_from += backward_[static_cast<std::size_t>(*child)];
    }
    return backward_from;
  }

  void add_events(std::size_t module, StepTimeline& timeline) const {
    const std::string& fqn = stats_.mod_stats[module].fqn;
    const auto add = [&](const char* what, double start, double ms) {
      if (ms > 0) timeline.events.push_back({0, 0, fqn + what, start, ms});
    };
    add(" (forward)", forward_start_[module], forward_[module]);
    add(" (backward)", backward_start_[module], backward_[module]);
    add(" (run again)", backward_start_[module], again_[module]);
  }

  // Where several backward passes begin at once, the largest need counts.
  void add_memory_needed(double loss, StepTimeline& timeline) const {
    std::map<double, Bytes> needed;
    if (answer_.predicted && answer_.predicted->binding.empty()) {
      needed[loss] = answer_.predicted->peak_bytes;
    }
    for (const ProfileEntry& entry : answer_.profile) {
      const auto found = module_of_.find(entry.fqn);
      if (found == module_of_.end()) continue;
      Bytes& bytes = needed[backward_start_[found->second]];
      bytes = std::max(bytes, entry.bytes);
    }
    for (const auto& [at_ms, bytes] : needed) {
      timeline.memory.push_back({0, "memory", at_ms, {{"needed", bytes}}});
    }
  }

  const CheckpointAnswer& answer_;
  const checkpoint::ModuleStats& stats_;
  const checkpoint::ModuleTree& tree_;
  std::map<std::string_view, std::size_t> module_of_;  // by fqn
  std::vector<double> again_;                          // [num_modules] ms that the module itself
                                                       // is run again for
  std::vector<double> forward_, backward_;             // [num_modules] ms
  std::vector<double> forward_start_, backward_start_;
};

// The devices of a placement as processes, and its stages on them. Error kUsage: no times.
Result<std::vector<LineStage>> draw_stages(const PlacementAnswer& answer, StepTimeline& timeline) {
  std::map<int, int> process_of;
  for (const PlacedStage& stage : *answer.plan) {
    for (const int device : stage.devices) process_of.emplace(device, 0);
  }
  for (auto& [device, process] : process_of) {
    process = static_cast<int>(timeline.processes.size());
    timeline.processes.push_back(
        {fmt::format("device {}", device), {"compute", "transfer", "synchronization"}});
  }
  std::vector<LineStage> stages;
  for (const PlacedStage& placed : *answer.plan) {
    if (!placed.load_ms) return no_times();
    LineStage stage;
    stage.transfer_ms = placed.transfer_ms.value_or(0);
    stage.sync_ms = placed.sync_ms.value_or(0);
    stage.compute_ms =
        placed.compute_ms.value_or(std::max(0.0, *placed.load_ms - stage.transfer_ms));
    for (const int device : placed.devices) {
      stage.processes.push_back(process_of.at(device));
      timeline.memory.push_back({process_of.at(device), "memory", 0, {{"held", placed.memory}}});
    }
    stages.push_back(std::move(stage));
  }
  return stages;
}

Result<void> check_items(const std::vector<LineStage>& stages, std::int64_t num_items) {
  std::size_t num_workers = 0, num_events = 0;
  for (const LineStage& stage : stages) num_workers += stage.processes.size();
  if (__builtin_mul_overflow(3 * num_workers, static_cast<std::size_t>(num_items), &num_events)) {
    num_events = kMostEvents + 1;
  }
  return check_count(num_events);
}

}  // namespace

Result<StepTimeline> predict_step(const ShardingAnswer& answer) {
  if (!answer.plan) return no_plan_to_time();
  const Bill& bill = answer.bill;
  StepTimeline timeline;
  timeline.what = "step";
  const auto num_ranks = static_cast<std::size_t>(answer.plan->world_size);
  PLIMSOLL_RETURN_IF_ERROR(check_count(num_ranks * (std::size(kPhases) + 1)));
  for (std::size_t rank = 0; rank < num_ranks; ++rank) {
    timeline.processes.push_back(
        {fmt::format("rank {}", rank),
         {"compute", "communication", "prefetch", "input of the next batch"}});
  }
  double end = 0;
  double forward = 0;
  const bool has_phases = bill.ms.contains("fwd_compute");
  if (has_phases) {
    for (const Phase& phase : kPhases) {
      if (phase.stream == kCompute && forward == 0) forward = end;
      end = add_phase(bill, phase, end, timeline);
    }
    add_phase(bill, kInput, 0, timeline);
  } else {
    end = add_phase(bill, kWhole, 0, timeline);
  }
  if (timeline.events.empty() && !bill.ms.contains("total")) return no_times();
  timeline.end_ms = end;
  for (const char* tier : {"hbm", "ddr"}) {
    if (!is_used(bill, tier)) continue;
    for (std::size_t rank = 0; rank < num_ranks; ++rank) {
      if (forward > 0) add_memory(bill, rank, tier, 0, false, timeline);
      add_memory(bill, rank, tier, forward, true, timeline);
      add_memory(bill, rank, tier, end, false, timeline);
    }
  }
  return timeline;
}

Result<StepTimeline> predict_step(const CheckpointAnswer& answer,
                                  const checkpoint::ModuleStats& stats) {
  if (!answer.plan) return no_plan_to_time();
  PLIMSOLL_RETURN_IF_ERROR(checkpoint::validate(stats));
  PLIMSOLL_ASSIGN(const checkpoint::ModuleTree tree, checkpoint::make_module_tree(stats));
  PLIMSOLL_RETURN_IF_ERROR(check_count(3 * static_cast<std::size_t>(tree.num_modules())));
  return CheckpointedStep(answer, stats, tree).draw();
}

Result<StepTimeline> predict_step(const PlacementAnswer& answer, const partition::CostGraph* graph,
                                  const std::vector<std::string>& names) {
  if (!answer.plan) return no_plan_to_time();
  if (answer.objective == partition::Objective::kFx) {
    return fail(ErrorCode::kUsage, "plan",
                "torch.fx's partitioner predicts a critical path and no schedule",
                "place the graph with plimsoll partition --objective pipeline or latency");
  }
  if (answer.objective == partition::Objective::kLatency) {
    if (graph != nullptr) return draw_latency(answer, *graph, names);
    return fail(ErrorCode::kUsage, "--model",
                "the schedule of a placement for latency follows from its graph",
                "give --model GRAPH");
  }
  StepTimeline timeline;
  PLIMSOLL_ASSIGN(const std::vector<LineStage> stages, draw_stages(answer, timeline));
  const auto num_stages = static_cast<std::int64_t>(stages.size());
  const bool is_pipeline = answer.objective == partition::Objective::kPipeline;
  const std::int64_t num_items =
      is_pipeline ? recorded_microbatches(answer.provenance).value_or(1) : 2 * num_stages;
  PLIMSOLL_RETURN_IF_ERROR(check_items(stages, num_items));
  if (is_pipeline) {
    timeline.what = num_items == 1 ? "batch" : fmt::format("batch of {} microbatches", num_items);
    run_line(stages, num_items, "microbatch", timeline);
  } else if (answer.is_contiguous.value_or(false)) {
    timeline.what = fmt::format("{} samples", num_items);
    run_line(stages, num_items, "sample", timeline);
  } else {
    // Each device works on a sample of its own: a step of the steady state.
    timeline.what = "sample of the steady state";
    for (const LineStage& stage : stages) run_line({stage}, 1, "sample", timeline);
  }
  return timeline;
}

Result<StepTimeline> predict_step(const PipelineAnswer& answer) {
  if (!answer.plan) return no_plan_to_time();
  StepTimeline timeline;
  std::vector<LineStage> stages;
  for (std::size_t s = 0; s < answer.plan->size(); ++s) {
    const PipelineStageEntry& entry = (*answer.plan)[s];
    if (!entry.time_ms) return no_times();
    const std::int64_t num_devices = std::int64_t{entry.data_parallel} * entry.tensor_parallel;
    timeline.processes.push_back(
        {fmt::format("stage {} ({} device{})", s, num_devices, num_devices == 1 ? "" : "s"),
         {"compute"}});
    stages.push_back({{static_cast<int>(s)}, *entry.time_ms, 0, 0});
    if (entry.memory) {
      timeline.memory.push_back({static_cast<int>(s), "memory", 0, {{"held", *entry.memory}}});
    }
  }
  const auto num_stages = static_cast<std::int64_t>(stages.size());
  const std::int64_t num_items = recorded_microbatches(answer.provenance).value_or(2 * num_stages);
  if (num_stages > 0 && num_items > static_cast<std::int64_t>(kMostEvents) / num_stages) {
    PLIMSOLL_RETURN_IF_ERROR(check_count(kMostEvents + 1));
  }
  timeline.what = fmt::format("{} microbatches", num_items);
  run_line(stages, num_items, "microbatch", timeline);
  return timeline;
}

}  // namespace plimsoll::study
