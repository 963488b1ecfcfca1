#include "plimsoll/partition/partition_pipeline.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <utility>

#include "io/documents/pipeline_plan_json.h"
#include "io/documents/report_json.h"
#include "io/import/pipedream_graph.h"
#include "plimsoll/core/digest.h"
#include "plimsoll/core/version.h"
#include "plimsoll/partition/partition_advice.h"
#include "plimsoll/partition/partition_case.h"
#include "plimsoll/partition/partition_devices.h"
#include "plimsoll/partition/partition_flags.h"
#include "plimsoll/partition/plan_pipeline.h"
#include "plimsoll/text/text_table.h"

namespace plimsoll::app {
namespace {

using partition::PipelineModel;
using partition::PipelinePlan;

constexpr const char* kReplicated = "replicated";
constexpr const char* kPipedream = "pipedream";

Result<std::string> single(const std::vector<std::string>& given, const std::string& flag) {
  if (given.size() > 1 || given.front().find('=') != std::string::npos) {
    return refuse(flag, "profiles have no classes of devices", "give one value alone");
  }
  return given.front();
}

// Number, memory and links of the devices, where the flags name them.
Result<void> set_devices(const PartitionFlags& flags, PipelineModel& model) {
  if (!flags.pins.empty() || !flags.forbidden.empty()) {
    return refuse(flags.pins.empty() ? "--forbid" : "--pin", "stages have no devices of their own",
                  "leave it out");
  }
  if (!flags.on.empty()) {
    PLIMSOLL_ASSIGN(const Hardware hardware, load_hardware(flags.on));
    model.num_devices = hardware.count;
    model.memory_cap = hardware.memory;
    model.bandwidth = hardware.count <= hardware.local_world_size ? hardware.intra_host_bw
                                                                  : hardware.inter_host_bw;
  }
  if (!flags.devices.empty()) {
    PLIMSOLL_ASSIGN(const std::string text, single(flags.devices, "--devices"));
    PLIMSOLL_ASSIGN(model.num_devices, parse_device_count(text));
    if (model.num_devices < 1 || model.num_devices > partition::kMaxPipelineDevices) {
      return refuse("--devices", fmt::format("{} devices", model.num_devices),
                    fmt::format("give from 1 to {}", int{partition::kMaxPipelineDevices}));
    }
  }
  if (!flags.memory.empty()) {
    PLIMSOLL_ASSIGN(const std::string text, single(flags.memory, "--memory"));
    PLIMSOLL_ASSIGN(model.memory_cap, parse_device_memory(text));
  }
  if (!flags.bandwidth.empty()) {
    PLIMSOLL_ASSIGN(model.bandwidth, parse_rate(flags.bandwidth, "--bandwidth"));
    if (!(model.bandwidth > 0)) {
      return refuse("--bandwidth", fmt::format("'{}' is not above 0", flags.bandwidth),
                    "give a bandwidth such as 25GB/s");
    }
  }
  if (flags.microbatches > 0) model.num_microbatches = flags.microbatches;
  return {};
}

Result<study::PipelineAnswer> search(const PipelineCase& made, const PartitionFlags& flags,
                                     const PipelineRun& run, const RunContext& context) {
  if (run.name == kPipedream) return plan_profile_like_pipedream(made, flags.straight);
  partition::PipelineOptions options;
  options.search = run.search;
  if (run.objective == "pipeline") options.objective = partition::PipelineObjective::kBatch;
  if (flags.straight) options.max_data_parallel = 1;
  PLIMSOLL_ASSIGN(study::ProfilePlan plan, plan_profile(made, options, context));
  if (!plan.need) return std::move(plan.answer);
  const Bytes cap = *made.model.memory_cap;
  if (!plan.answer.explanation) plan.answer.explanation.emplace();
  Explanation& explanation = *plan.answer.explanation;
  explanation.binding = "memory";
  explanation.missing = plan.need->enough - cap;
  explanation.lines.push_back(fmt::format("{}; try --memory {}B",
                                          memory_need_line(*plan.need, cap, "device"),
                                          Bytes{plan.need->enough}));
  return std::move(plan.answer);
}

// ---------------------------------------------------------------- text

std::string stages_text(const study::PipelineAnswer& answer, const PipelineModel& model) {
  TextTable table(
      {"stage", "operators", "data", "tensor", "devices", "ms", "in flight", "memory", "of"},
      std::vector<bool>(9, true));
  for (std::size_t s = 0; s < answer.plan->size(); ++s) {
    const study::PipelineStageEntry& stage = (*answer.plan)[s];
    table.add({fmt::format("{}", s), fmt::format("{}", stage.operators.size()),
               fmt::format("{}", stage.data_parallel), fmt::format("{}", stage.tensor_parallel),
               fmt::format("{}", stage.data_parallel * stage.tensor_parallel),
               fmt::format("{:.6g}", stage.time_ms.value_or(0)),
               fmt::format("{}", stage.in_flight.value_or(0)), size_text(stage.memory.value_or(0)),
               model.memory_cap ? size_text(*model.memory_cap) : "-"});
  }
  table.drop_equal({"of", "tensor"}, 2);  // the title names the memory
  return table.text(2);
}

struct PipelineText {
  std::string head, body;
};

PipelineText describe(const PipelineCase& made, const study::PipelineAnswer& answer, double seconds,
                      const PipelineRun& run) {
  const Certificate& certificate = *answer.certificate;
  PipelineText text;
  text.head = fmt::format(
      "{}: {} on {}{}", made.name, counted(made.model.num_operators(), "operator", "operators"),
      counted(made.model.num_devices, "device", "devices"),
      made.model.memory_cap ? fmt::format(" ({} each)", size_text(*made.model.memory_cap)) : "");
  text.head =
      paint(wrapped(shown(text.head), text_columns(), 2), Tone::kHeading, run.global) + "\n";
  if (!answer.plan) {
    text.head += answer.status == SolveStatus::kInfeasible
                     ? "Does not fit (proved infeasible).\n"
                     : "No plan was found, and it is not proved that there is none.\n";
    return text;
  }
  const auto row = [&text](std::string_view name, const std::string& what) {
    text.head += screen_row(name, what);
  };
  text.head += "\n";
  if (run.objective == "pipeline") {
    row("one batch", fmt::format("{:<13}of {}", ms_text(certificate.objective),
                                 counted(made.model.num_microbatches.value_or(1), "microbatch",
                                         "microbatches")));
  } else {
    row("slowest stage", fmt::format("{:<13}a microbatch", ms_text(certificate.objective)));
  }
  row("best possible",
      certificate.lower_bound
          ? fmt::format("{:<13}{}", ms_text(*certificate.lower_bound), bound_words(certificate))
          : bound_words(certificate));
  row("found in", seconds_text(seconds));
  if (run.global.verbosity > 0) {
    text.body = in_lines(
        fmt::format("\n{}: {}\n", to_string(*answer.status), to_string(certificate.proof)), 2);
  }
  text.body += "\n" + stages_text(answer, made.model);
  return text;
}

Result<void> check_names(const PipelineCase& made, const PipelineRun& run) {
  if (!run.objective.empty() && run.objective != "throughput" && run.objective != "pipeline") {
    return refuse("--objective", fmt::format("profiles cannot be planned for {}", run.objective),
                  "choose throughput (the slowest stage) or pipeline (a batch of microbatches)");
  }
  if (run.objective == "pipeline" && !made.model.num_microbatches) {
    return refuse("--microbatches", "it is needed for --objective pipeline",
                  "give the number of microbatches, such as --microbatches 16");
  }
  if (run.name.empty() || run.name == kReplicated) return {};
  if (run.name != kPipedream) {
    return refuse("--search", fmt::format("'{}' does not plan profiles", run.name),
                  "choose replicated or pipedream");
  }
  if (!made.pipedream || run.objective == "pipeline") {
    return refuse("--search",
                  "PipeDream's optimizer minimizes the slowest stage of its own profiles only",
                  "leave it out");
  }
  return {};
}

}  // namespace

Result<PipelineCase> read_pipeline_case(const io::GraphFile& file, const PartitionFlags& flags) {
  PipelineCase made;
  made.name = flags.graph;
  constexpr double kDefaultBandwidth = 1e6;  // bytes a ms: the published optimizer's own default
  if (file.format == io::GraphFormat::kPiper) {
    PLIMSOLL_ASSIGN(made.piper, io::read_piper(file.text, flags.graph));
    made.model = made.piper->model;
    PLIMSOLL_ASSIGN(const std::string canonical, io::write_piper(*made.piper));
    made.input_hash = input_hash(canonical);
  } else {
    PLIMSOLL_ASSIGN(made.pipedream, io::read_pipedream_graph(file.text, flags.graph));
    made.input_hash = input_hash(io::write_pipedream_graph(*made.pipedream));
    if (flags.on.empty() && flags.devices.empty()) {
      return refuse("--devices", "the profile names no devices",
                    "give their number, such as --devices 4, or --on");
    }
    if (kept_nodes(*made.pipedream).empty()) {
      return fail(ErrorCode::kValue, flags.graph, "holds nothing but inputs and unread outputs",
                  "give a profile with operators");
    }
    made.model = make_pipeline_model(*made.pipedream, 1, kDefaultBandwidth);
  }
  PLIMSOLL_RETURN_IF_ERROR(set_devices(flags, made.model));
  return made;
}

Result<std::string> write_pipeline_export(const PipelineCase& made,
                                          const study::PipelineAnswer& answer,
                                          const std::string& form, const std::string& flag) {
  if (form == "plimsoll") return io::write_pipeline_answer(answer);
  PLIMSOLL_ASSIGN(const PipelinePlan plan, study::make_pipeline_plan(made.model, answer));
  if (form == "piper" && made.piper) return io::write_piper_plan(*made.piper, plan);
  if (form == "pipedream" && made.pipedream) {
    partition::PipeDreamProfile profile = *made.pipedream;
    const std::vector<int> kept = kept_nodes(profile);
    for (partition::PipeDreamNode& node : profile.nodes) node.stage = 0;  // inputs and leftovers
    for (std::size_t s = 0; s < plan.stages.size(); ++s) {
      for (const int op : plan.stages[s].operators) {
        profile.nodes[kept[op]].stage = static_cast<int>(s);
      }
    }
    return io::write_pipedream_graph(profile);
  }
  return refuse(flag, fmt::format("'{}' cannot say which stages are replicated", form),
                made.piper ? "choose plimsoll or piper" : "choose plimsoll or pipedream");
}

Result<Answered> plan_pipeline_case(const PipelineCase& made, const PartitionFlags& flags,
                                    const PipelineRun& run) {
  PLIMSOLL_RETURN_IF_ERROR(check_names(made, run));
  PLIMSOLL_ASSIGN(const RunContext context, watch_search(run.time_limit, run.global));
  const auto begin = std::chrono::steady_clock::now();
  PLIMSOLL_ASSIGN(study::PipelineAnswer answer, search(made, flags, run, context));
  const double seconds =
      std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
  if (!answer.provenance) answer.provenance.emplace();
  Provenance& provenance = *answer.provenance;
  provenance.version = kVersion;
  provenance.options = provenance_options(flags);
  provenance.options["search"] = run.name.empty() ? kReplicated : run.name;
  put_limits(run.search.effort, run.search.tolerance, provenance);
  provenance.inputs["graph"] = made.input_hash;
  provenance.seed = run.search.seed;
  Answered answered{
      io::write_pipeline_answer(answer),
      "",
      "",
      *answer.status,
      *answer.stop,
      answer.warnings,
      explanation_remarks(answer.explanation.value_or(Explanation{}), *answer.status)};
  if (!run.form.empty() && answer.plan) {
    answered.text = write_pipeline_export(made, answer, run.form, "--export");
  } else if (run.wants_text) {
    PipelineText text = describe(made, answer, seconds, run);
    answered.text = std::move(text.head);
    answered.details = std::move(text.body);
  }
  return answered;
}

}  // namespace plimsoll::app
