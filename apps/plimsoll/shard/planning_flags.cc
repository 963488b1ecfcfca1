#include "plimsoll/shard/planning_flags.h"

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <set>
#include <string_view>
#include <vector>

#include "core/suggest.h"
#include "embedding/torchrec/planning_record.h"
#include "io/import/foreign_plan.h"
#include "plimsoll/common.h"
#include "plimsoll/core/units.h"
#include "plimsoll/embedding/easyrec.h"
#include "plimsoll/help.h"
#include "plimsoll/io/files.h"
#include "plimsoll/io/model_json.h"
#include "plimsoll/io/shipped.h"
#include "plimsoll/io/topology_json.h"
#include "plimsoll/machines/operator_times.h"
#include "plimsoll/shard/problem_flags.h"
#include "plimsoll/topology/presets.h"

namespace plimsoll::app {
namespace {

using embedding::PlanningProblem;
using embedding::ReservationKind;
using embedding::ReservationOptions;

constexpr std::int64_t kDefaultBatchSize = 512;
constexpr std::int64_t kMaxBatchSize = std::int64_t{1} << 40;
constexpr const char* kModelHelp =
    "A model: a file, '-' for standard input, or a name that `plimsoll models` lists";

Result<std::int64_t> parse_batch_size(std::string_view text) {
  PLIMSOLL_ASSIGN(const std::int64_t size, parse_count(text));
  if (size >= 1 && size <= kMaxBatchSize) return size;
  return fail(ErrorCode::kUsage, "", fmt::format("'{}' is not between 1 and 2^40", text),
              "give the samples that one rank sees in a step");
}

Result<double> parse_multiplier(std::string_view text) {
  PLIMSOLL_ASSIGN(const double multiplier, parse_number<double>(text, ""));
  if (multiplier >= 0 && !std::isinf(multiplier)) return multiplier;
  return fail(ErrorCode::kUsage, "", fmt::format("{} is not a factor", text),
              "give a number of at least 0, such as 6");
}

template <class Enum>
Result<Enum> parse_enum(std::string_view text, std::string_view place) {
  if (const auto found = embedding::find_enum<Enum>(text)) return *found;
  return fail(ErrorCode::kUsage, std::string(place), fmt::format("unknown name '{}'", text),
              suggest(text, embedding::enum_names<Enum>()));
}

// A field of the topology as the user wrote it: by a flag, in the preset's name or in the file.
std::string topology_place(const PlanningFlags& flags, std::string field) {
  if (field.empty()) return "--on";
  if (field == "ddr_cap" && !flags.host_memory.empty()) return "--host-memory";
  const bool is_flag = (field == "local_world_size" && flags.local_world_size) ||
                       (field == "pod_size" && flags.pod_size) ||
                       (field == "hbm_cap" && !flags.hbm_cap.empty()) ||
                       (field == "ddr_cap" && !flags.ddr_cap.empty()) ||
                       (field == "intra_host_bw" && !flags.intra_host_bw.empty()) ||
                       (field == "inter_host_bw" && !flags.inter_host_bw.empty());
  if (is_flag) {
    std::replace(field.begin(), field.end(), '_', '-');
    return "--" + field;
  }
  return is_file_name(flags.on) ? fmt::format("{}#/{}", flags.on, field) : "--on";
}

template <class T>
Result<T> place_in_topology(const PlanningFlags& flags, Result<T> result) {
  if (!result) result.error().place = topology_place(flags, std::move(result.error().place));
  return result;
}

Result<Bytes> parse_bytes_of(std::string_view text, std::string_view flag) {
  auto bytes = parse_size(text);
  if (!bytes) bytes.error().place = flag;
  return bytes;
}

Result<topology::TopologySpec> load_topology(const PlanningFlags& flags) {
  if (flags.on.empty()) {
    return fail(ErrorCode::kUsage, "--on", "no hardware is given",
                "name a preset such as dgx-h100:2, 16x40GiB, or a topology file");
  }
  PLIMSOLL_RETURN_IF_ERROR(check_kind(flags.on, InputKind::kHardware));
  topology::TopologySpec spec;
  if (is_file_name(flags.on)) {
    PLIMSOLL_ASSIGN(const std::string text, io::read_text_file(flags.on));
    PLIMSOLL_ASSIGN(spec, io::read_topology(text, flags.on));
    if (flags.local_world_size) spec.local_world_size = flags.local_world_size;
    if (flags.pod_size) spec.pod_size = flags.pod_size;
  } else {
    PLIMSOLL_ASSIGN(
        spec, place_in_topology(flags, topology::find_preset(
                                           flags.on, {flags.local_world_size, flags.pod_size})));
  }
  const auto set_cap = [](const std::string& text, std::string_view flag, std::optional<Bytes>& cap,
                          std::vector<Bytes>& caps) -> Result<void> {
    if (text.empty()) return {};
    PLIMSOLL_ASSIGN(cap, parse_bytes_of(text, flag));
    caps.clear();  // a flag wins over the file's list, too
    return {};
  };
  PLIMSOLL_RETURN_IF_ERROR(set_cap(flags.hbm_cap, "--hbm-cap", spec.hbm_cap, spec.hbm_caps));
  PLIMSOLL_RETURN_IF_ERROR(set_cap(flags.ddr_cap, "--ddr-cap", spec.ddr_cap, spec.ddr_caps));
  if (!flags.host_memory.empty()) {
    PLIMSOLL_ASSIGN(const Bytes host, parse_bytes_of(flags.host_memory, "--host-memory"));
    topology::share_host_memory(host, spec);
  }
  const auto set_bandwidth = [](const std::string& text, std::string_view place,
                                std::optional<double>& field) -> Result<void> {
    if (text.empty()) return {};
    PLIMSOLL_ASSIGN(field, parse_rate(text, std::string(place)));
    return {};
  };
  PLIMSOLL_RETURN_IF_ERROR(
      set_bandwidth(flags.intra_host_bw, "--intra-host-bw", spec.intra_host_bw));
  PLIMSOLL_RETURN_IF_ERROR(
      set_bandwidth(flags.inter_host_bw, "--inter-host-bw", spec.inter_host_bw));
  return spec;
}

// What the release supports of it.
Result<topology::TopologySpec> load_known_topology(const PlanningFlags& flags,
                                                   const embedding::CostModel& cost_model) {
  PLIMSOLL_ASSIGN(topology::TopologySpec spec, load_topology(flags));
  if (spec.pod_size.value_or(0) > 0 && !cost_model.pods) {
    return fail(ErrorCode::kUsage, "--on",
                fmt::format("{} does not support fast domains of several hosts", cost_model.name),
                "choose torchrec-1.7 or newer, or --pod-size 0");
  }
  if (spec.compute_device == topology::ComputeDevice::kTpu && !cost_model.tpu) {
    return fail(ErrorCode::kUsage, "--on", fmt::format("{} does not support TPUs", cost_model.name),
                "choose torchrec-1.9");
  }
  return spec;
}

Result<topology::Topology> make_topology_of(const PlanningFlags& flags,
                                            const topology::TopologySpec& spec,
                                            const embedding::CostModel& cost_model) {
  return place_in_topology(
      flags, topology::make_topology(spec, cost_model.zero_cap_is_default, cost_model.ssd_tier,
                                     !cost_model.mtia_is_host));
}

// "heuristical", "heuristical:0.05", "fixed_absolute:4GiB", "sku_aware:6GiB".
Result<ReservationOptions> parse_reservation(std::string_view text) {
  ReservationOptions options;
  const std::size_t colon = text.find(':');
  PLIMSOLL_ASSIGN(options.kind,
                  parse_enum<ReservationKind>(text.substr(0, colon), "--reservation"));
  if (colon != std::string_view::npos) {
    const std::string_view value = text.substr(colon + 1);
    if (options.kind == ReservationKind::kFixedAbsolute) {
      PLIMSOLL_ASSIGN(options.absolute_bytes, parse_bytes_of(value, "--reservation"));
    } else if (options.kind == ReservationKind::kSkuAware) {
      PLIMSOLL_ASSIGN(options.margin_bytes, parse_bytes_of(value, "--reservation"));
    } else {
      PLIMSOLL_ASSIGN(options.percentage, parse_number<double>(value, "--reservation"));
    }
  }
  if (!(options.percentage >= 0 && options.percentage <= 1)) {
    return fail(ErrorCode::kUsage, "--reservation",
                fmt::format("{} is not a share of the memory", options.percentage),
                "give a number from 0 to 1, such as 0.15");
  }
  return options;
}

Result<void> set_parameter_multiplier(double multiplier, ReservationOptions& options) {
  if (options.kind != ReservationKind::kHeuristical && options.kind != ReservationKind::kSkuAware) {
    return fail(ErrorCode::kUsage, "--parameter-multiplier",
                fmt::format("the {} reservation does not use it", to_string(options.kind)),
                "leave the flag out, or give --reservation heuristical");
  }
  options.parameter_multiplier = multiplier;
  return {};
}

std::optional<std::string> find(const std::map<std::string, std::string>& recorded,
                                const std::string& key) {
  const auto found = recorded.find(key);
  if (found == recorded.end()) return std::nullopt;
  return found->second;
}

// A key that is not a table's name but a table's fqn is meant as such; all others are names.
void add_constraints(const embedding::ConstraintMap& constraints, PlanningProblem& problem) {
  std::set<std::string> names;
  std::set<std::string> fqns;
  for (const embedding::Module& module : problem.model.modules) {
    for (const embedding::Table& table : module.tables) {
      names.insert(table.name);
      fqns.insert(embedding::table_fqn(module.path, table.name));
    }
  }
  for (const auto& [key, value] : constraints) {
    const bool is_fqn = !names.contains(key) && fqns.contains(key);
    auto& map = is_fqn ? problem.enumeration.fqn_constraints : problem.model.constraints;
    map[key] = value;
  }
}

// "NAME" or "NAME:TABLE,TABLE": the tables that it is of; nothing where it is of all.
struct TableFlag {
  std::string name;
  std::vector<std::string> tables;
};

TableFlag parse_table_flag(std::string_view text) {
  const std::size_t colon = text.find(':');
  TableFlag flag{std::string(text.substr(0, colon)), {}};
  if (colon == std::string_view::npos) return flag;
  for (std::size_t begin = colon + 1; begin <= text.size();) {
    const std::size_t end = std::min(text.find(',', begin), text.size());
    flag.tables.emplace_back(text.substr(begin, end - begin));
    begin = end + 1;
  }
  return flag;
}

// What a flag says of some tables, by name or fqn.
template <class Change>
Result<void> change_tables(const std::vector<std::string>& names, const std::string& flag,
                           embedding::Model& model, const Change& change) {
  for (const std::string& name : names) {
    bool is_known = false;
    std::vector<std::string> known;
    for (embedding::Module& module : model.modules) {
      for (embedding::Table& table : module.tables) {
        known.push_back(table.name);
        if (table.name != name && embedding::table_fqn(module.path, table.name) != name) continue;
        change(table);
        is_known = true;
      }
    }
    if (!is_known) {
      return fail(ErrorCode::kNotFound, flag, fmt::format("the model has no table '{}'", name),
                  suggest(name, known));
    }
  }
  return {};
}

// The flags, else what the plan records of them.
std::vector<std::string> table_flags(const std::vector<std::string>& flags,
                                     const std::map<std::string, std::string>& recorded,
                                     const std::string& key) {
  if (!flags.empty()) return flags;
  std::vector<std::string> texts;
  const std::string text = find(recorded, key).value_or("");
  for (std::size_t begin = 0; begin < text.size();) {
    const std::size_t end = std::min(text.find(';', begin), text.size());
    texts.push_back(text.substr(begin, end - begin));
    begin = end + 1;
  }
  return texts;
}

Result<void> apply_table_flags(const PlanningFlags& flags,
                               const std::map<std::string, std::string>& recorded,
                               embedding::Model& model) {
  for (const std::string& text : table_flags(flags.optimizers, recorded, "optimizer")) {
    const TableFlag flag = parse_table_flag(text);
    PLIMSOLL_ASSIGN(const auto optimizer,
                    parse_enum<embedding::Optimizer>(flag.name, "--optimizer"));
    if (flag.tables.empty()) model.optimizer = optimizer;
    PLIMSOLL_RETURN_IF_ERROR(
        change_tables(flag.tables, "--optimizer", model,
                      [&](embedding::Table& table) { table.optimizer = optimizer; }));
  }
  for (const std::string& text : table_flags(flags.data_types, recorded, "data_type")) {
    TableFlag flag = parse_table_flag(text);
    PLIMSOLL_ASSIGN(const auto data_type,
                    parse_enum<embedding::DataType>(flag.name, "--data-type"));
    if (flag.tables.empty()) {
      for (const embedding::Module& module : model.modules) {
        for (const embedding::Table& table : module.tables) {
          flag.tables.push_back(embedding::table_fqn(module.path, table.name));
        }
      }
    }
    PLIMSOLL_RETURN_IF_ERROR(
        change_tables(flag.tables, "--data-type", model,
                      [&](embedding::Table& table) { table.data_type = data_type; }));
  }
  return embedding::validate(model);
}

// TorchRec takes more pooling factors than a table has features for more features; who writes a
// document has mistaken one for another. Fewer are legal.
Result<void> check_pooling_factors(const PlanningFlags& flags, const embedding::Model& model) {
  for (const embedding::Module& module : model.modules) {
    for (const embedding::Table& table : module.tables) {
      const auto found = model.constraints.find(table.name);
      if (found == model.constraints.end() || table.feature_names.empty()) continue;
      const std::size_t num_factors = found->second.pooling_factors.size();
      if (num_factors <= table.feature_names.size()) continue;
      return fail(ErrorCode::kConflict, flags.constraints.empty() ? flags.model : flags.constraints,
                  fmt::format("{} pooling factors for the {} feature(s) of table '{}'", num_factors,
                              table.feature_names.size(), table.name),
                  "give one for each feature, or name the features");
    }
  }
  return {};
}

// A file, or one that comes with the program; null where none is named.
Result<std::shared_ptr<const embedding::MachineModel>> load_machine(const std::string& name) {
  if (name.empty()) return nullptr;
  PLIMSOLL_ASSIGN(embedding::MachineModel machine, read_machine_model(name));
  if (machine.kernels.empty()) {
    return fail(ErrorCode::kValue, name, "the machine model has no kernels",
                "measure them: plimsoll calibrate");
  }
  return std::make_shared<const embedding::MachineModel>(std::move(machine));
}

// The problem as TorchEasyRec's planner sees it.
Result<PlanningProblem> make_easyrec_problem(const PlanningFlags& flags, PlanningProblem problem,
                                             topology::TopologySpec spec) {
  embedding::EasyRecSetup setup;
  if (!flags.checkpoint_plan.empty()) {
    PLIMSOLL_ASSIGN(const std::string text, io::read_text_file(flags.checkpoint_plan));
    PLIMSOLL_ASSIGN(setup.checkpoint_types, io::read_sharding_types(text, flags.checkpoint_plan));
  }
  setup.forces_checkpoint_plan = flags.force_checkpoint_plan;
  setup.model = std::move(problem.model);
  setup.topology = std::move(spec);
  setup.cost_model = std::move(problem.cost_model);
  setup.fqn_constraints = std::move(problem.enumeration.fqn_constraints);
  PLIMSOLL_ASSIGN(embedding::EasyRecPlanner planner,
                  embedding::make_easyrec_planner(setup, environment));
  return std::move(planner.problem);
}

// That a shipped name is of what the plan is of; files say so themselves when they are read.
Result<void> check_subject(const io::PlanFile& plan, const std::string& name) {
  if (is_file_name(name)) return {};
  const bool is_of_modules = plan.format == io::PlanFormat::kCheckpointPolicy;
  const bool is_of_graph = io::is_of_graph(plan.format) || io::is_of_profile(plan.format);
  const InputKind wanted = is_of_modules ? InputKind::kModuleStats
                           : is_of_graph ? InputKind::kGraph
                                         : InputKind::kModel;
  const auto known = check_kind(name, wanted);
  if (known) return {};
  return fail(ErrorCode::kUsage, name,
              fmt::format("{}, and {} is a plan of {}", known.error().message, plan.name,
                          is_of_modules ? "module statistics"
                          : is_of_graph ? "an operator graph"
                                        : "an embedding model"),
              "give what the plan was made from");
}

}  // namespace

std::string recorded_of_tables(const std::vector<std::string>& flags) {
  return fmt::format("{}", fmt::join(flags, ";"));
}

std::optional<std::string> environment(std::string_view name) {
  const char* value = std::getenv(std::string(name).c_str());
  if (value == nullptr) return std::nullopt;
  return std::string(value);
}

void add_planning_flags(CLI::App& command, PlanningFlags& flags) {
  command.option_defaults()->group(kCommonGroup);
  command.add_option("MODEL", flags.model, kModelHelp)->required();
  add_problem_flags(command, flags);
  command.get_option("--on")->required();
}

void add_problem_flags(CLI::App& command, PlanningFlags& flags) {
  const auto group = [&command](const char* name) { command.option_defaults()->group(name); };
  group(kCommonGroup);
  command
      .add_option("--on", flags.on,
                  "Hardware: nodes (dgx-h100:2), ranks of equal memory (16x40GiB), ranks of one "
                  "accelerator (4xh100-sxm), or a topology file")
      ->type_name("HARDWARE");
  command
      .add_option("--machine", flags.machine,
                  "Times of this machine, measured by `plimsoll calibrate`: a file, or a name that "
                  "`plimsoll hardware` lists; by default TorchRec's own estimates")
      ->type_name("MACHINE");
  add_parsed(command, "--batch-size", &parse_batch_size, flags.batch_size,
             "Samples per rank, such as 4096 or 4Ki (default: the model's own, else 512)")
      ->type_name("N");
  group("Model");
  command
      .add_option("--optimizer", flags.optimizers,
                  "Optimizer of every table: none, sgd, adam, adagrad, rowwise_adagrad, ... "
                  "(default: the model's own); rowwise_adagrad:cat_0,cat_9 of these tables")
      ->type_name("NAME[:TABLES]");
  command
      .add_option("--data-type", flags.data_types,
                  "Data type of every table, such as fp16; fp16:cat_0,cat_9 of these tables")
      ->type_name("NAME[:TABLES]");
  command
      .add_option("--constraints", flags.constraints,
                  "Constraints by table, which replace those of the model for these tables")
      ->type_name("FILE");
  group("Cost model");
  command
      .add_option("--cost-model", flags.cost_model,
                  "TorchRec release whose estimates are used: torchrec-1.2, torchrec-1.4, "
                  "torchrec-ref, torchrec-1.5, torchrec-1.7, torchrec-1.8 or torchrec-1.9 "
                  "(default: torchrec-1.9)")
      ->type_name("NAME");
  command
      .add_option("--pipeline-type", flags.pipeline_type,
                  "Training pipeline: none, train_base, train_sparse_dist or "
                  "train_prefetch_sparse_dist (default: none)")
      ->type_name("NAME");
  command.add_flag(
      "--use-exact-enumerate-order", flags.use_exact_enumerate_order,
      "Enumerate modules breadth first in the model's order, as TorchRec's option does; by "
      "default the last child comes first");
  command.add_flag("--inference", flags.inference, "Estimate inference instead of training");
  command.add_flag("--run-embedding-at-peak-memory", flags.run_embedding_at_peak_memory,
                   "Count the output where the pipeline holds it at its peak");
  group("Memory");
  command
      .add_option("--reservation", flags.reservation,
                  "Memory that is kept free: heuristical[:SHARE], fixed_percentage[:SHARE], "
                  "inference[:SHARE], fixed_absolute:SIZE or sku_aware:SIZE")
      ->type_name("KIND");
  command
      .add_option("--dense-tensor-estimate", flags.dense_tensor_estimate,
                  "Memory of the model's dense part per rank (default: the model's own)")
      ->type_name("SIZE");
  add_parsed(command, "--parameter-multiplier", &parse_multiplier, flags.parameter_multiplier,
             "Bytes that a heuristical or sku_aware reservation counts for each byte of dense "
             "parameters (default: 6)")
      ->type_name("FACTOR");
  command.add_option("--hbm-cap", flags.hbm_cap, "HBM per rank, such as 80GiB")->type_name("SIZE");
  CLI::Option* const ddr_cap =
      command.add_option("--ddr-cap", flags.ddr_cap, "DDR per rank")->type_name("SIZE");
  command
      .add_option("--host-memory", flags.host_memory,
                  "DDR per host, such as 2TiB, shared equally by its ranks")
      ->type_name("SIZE")
      ->excludes(ddr_cap);
  group("Hardware");
  command.add_option("--local-world-size", flags.local_world_size, "Ranks per host")
      ->type_name("N");
  command
      .add_option("--pod-size", flags.pod_size, "Hosts per fast domain (default: 0, no domains)")
      ->type_name("N");
  command
      .add_option("--intra-host-bw", flags.intra_host_bw,
                  "Bandwidth within a host, such as 600GiB/s")
      ->type_name("RATE");
  command.add_option("--inter-host-bw", flags.inter_host_bw, "Bandwidth between hosts")
      ->type_name("RATE");
  group("TorchEasyRec");
  CLI::Option* const easyrec = command.add_flag(
      "--easyrec-environment", flags.easyrec_environment,
      "Set up as TorchEasyRec does, with its proposers; reads INTRA_NODE_BANDWIDTH, "
      "CROSS_NODE_BANDWIDTH, STORAGE_RESERVE_PERCENT, TZREC_DP_HBM_BINS_PER_DEVICE, "
      "TZREC_DP_DDR_BINS_PER_DEVICE and FORCE_LOAD_SHARDING_PLAN");
  command
      .add_option("--checkpoint-plan", flags.checkpoint_plan,
                  "Plan of a checkpoint: tables that are data_parallel there stay so")
      ->type_name("FILE")
      ->needs(easyrec);
  command
      .add_flag("--force-checkpoint-plan", flags.force_checkpoint_plan,
                "Every table keeps the sharding type of the checkpoint's plan")
      ->needs(easyrec);
}

std::string batch_size_note(const PlanningFlags& flags, const PlanningProblem& problem) {
  if (flags.batch_size) return "";
  if (problem.model.batch_size && *problem.model.batch_size == problem.batch_size) {
    return " (the model's own)";
  }
  return problem.batch_size == kDefaultBatchSize ? " (the default)" : "";
}

namespace {

// Each takes what the flags say, else what the plan records, else what stands in the problem.
Result<void> take_cost_model(const PlanningFlags& flags, const embedding::PlanningRecord& record,
                             PlanningProblem& problem) {
  std::string cost_model = flags.cost_model;
  if (cost_model.empty()) cost_model = record.cost_model.value_or("");
  if (cost_model.empty()) return {};
  auto found = embedding::find_cost_model(cost_model);
  if (!found) {
    found.error().place = "--cost-model";
    return tl::unexpected<Error>(std::move(found).error());
  }
  problem.cost_model = *found;
  return {};
}

void take_batch_size(const PlanningFlags& flags, const embedding::PlanningRecord& record,
                     PlanningProblem& problem) {
  if (flags.batch_size) {
    problem.batch_size = *flags.batch_size;
  } else if (record.batch_size) {
    problem.batch_size = *record.batch_size;
  } else if (problem.model.batch_size.value_or(0) > 0) {
    problem.batch_size = *problem.model.batch_size;
  }
}

Result<void> take_reservation(const PlanningFlags& flags, const embedding::PlanningRecord& record,
                              PlanningProblem& problem) {
  if (!flags.reservation.empty()) {
    PLIMSOLL_ASSIGN(problem.reservation, parse_reservation(flags.reservation));
  } else if (record.reservation) {
    problem.reservation = *record.reservation;
  }
  if (!flags.dense_tensor_estimate.empty()) {
    PLIMSOLL_ASSIGN(problem.reservation.dense_tensor_estimate,
                    parse_bytes_of(flags.dense_tensor_estimate, "--dense-tensor-estimate"));
  }
  if (!flags.parameter_multiplier) return {};
  return set_parameter_multiplier(*flags.parameter_multiplier, problem.reservation);
}

Result<void> take_mode(const PlanningFlags& flags, const embedding::PlanningRecord& record,
                       PlanningProblem& problem) {
  problem.enumeration.breadth_first =
      flags.use_exact_enumerate_order || record.breadth_first.value_or(false);
  problem.mode.pipeline_type = record.pipeline_type.value_or(embedding::PipelineType::kNone);
  if (!flags.pipeline_type.empty()) {
    PLIMSOLL_ASSIGN(problem.mode.pipeline_type,
                    parse_enum<embedding::PipelineType>(flags.pipeline_type, "--pipeline-type"));
  }
  problem.mode.inference = flags.inference || record.inference.value_or(false);
  problem.mode.run_embedding_at_peak_memory =
      flags.run_embedding_at_peak_memory || record.run_embedding_at_peak_memory.value_or(false);
  return {};
}

}  // namespace

Result<PlanningProblem> make_problem(const PlanningFlags& flags,
                                     const std::map<std::string, std::string>& recorded) {
  PLIMSOLL_ASSIGN(const embedding::PlanningRecord record,
                  embedding::read_planning_record(recorded));
  PlanningProblem problem;
  PLIMSOLL_RETURN_IF_ERROR(check_standard_input(
      {flags.model, flags.on, flags.constraints, flags.checkpoint_plan, flags.machine}));
  PLIMSOLL_ASSIGN(problem.model, load_model(flags.model));
  if (!flags.constraints.empty()) {
    PLIMSOLL_ASSIGN(const std::string text, io::read_text_file(flags.constraints));
    PLIMSOLL_ASSIGN(const auto constraints, io::read_constraints(text, flags.constraints));
    add_constraints(constraints, problem);
  }
  PLIMSOLL_RETURN_IF_ERROR(check_pooling_factors(flags, problem.model));
  PLIMSOLL_RETURN_IF_ERROR(apply_table_flags(flags, recorded, problem.model));
  PLIMSOLL_RETURN_IF_ERROR(take_cost_model(flags, record, problem));
  PLIMSOLL_ASSIGN(const topology::TopologySpec spec,
                  load_known_topology(flags, problem.cost_model));
  PLIMSOLL_ASSIGN(problem.topology, make_topology_of(flags, spec, problem.cost_model));
  if (flags.easyrec_environment) {
    PLIMSOLL_ASSIGN(problem, make_easyrec_problem(flags, std::move(problem), spec));
  }
  take_batch_size(flags, record, problem);
  PLIMSOLL_RETURN_IF_ERROR(take_reservation(flags, record, problem));
  PLIMSOLL_ASSIGN(problem.machine, load_machine(flags.machine));
  PLIMSOLL_RETURN_IF_ERROR(take_mode(flags, record, problem));
  return problem;
}

Result<void> check_machine(const PlanningFlags& flags,
                           const std::map<std::string, std::string>& recorded) {
  const auto machine = find(recorded, "machine");
  if (!machine || !flags.machine.empty()) return {};
  return fail(ErrorCode::kUsage, "--machine",
              fmt::format("the plan's times are those of the machine model {}", *machine),
              "give --machine with its file or name");
}

Result<topology::Topology> make_topology(const PlanningFlags& flags,
                                         const embedding::CostModel& cost_model) {
  PLIMSOLL_ASSIGN(const topology::TopologySpec spec, load_known_topology(flags, cost_model));
  return make_topology_of(flags, spec, cost_model);
}

namespace {

// Where both arguments are models, they are not swapped.
bool is_no_plan(const std::string& name) {
  if (!is_file_name(name)) return true;
  if (name == "-") return false;
  auto text = io::read_text_file(name);
  if (!text) return false;
  const auto opened = io::open_plan(*std::move(text), name);
  return opened && io::is_input(*opened);
}

}  // namespace

Result<io::PlanFile> load_plan(const PlanningFlags& flags, const std::string& plan) {
  PLIMSOLL_RETURN_IF_ERROR(check_standard_input(
      {flags.model, flags.on, flags.constraints, flags.checkpoint_plan, flags.machine, plan}));
  const auto swapped = [&] {
    if (is_no_plan(flags.model)) {
      return fail(ErrorCode::kUsage, plan, "this is not a plan",
                  "name the file of a plan, such as `plimsoll shard -o plan.json` writes");
    }
    return fail(ErrorCode::kUsage, plan, "the arguments are swapped: this is not a plan",
                fmt::format("give the plan last: {} {}", plan, flags.model));
  };
  const bool is_shipped = !is_file_name(plan) && (!check_kind(plan, InputKind::kHardware) ||
                                                  !check_kind(plan, InputKind::kModel));
  if (is_shipped) return swapped();
  PLIMSOLL_ASSIGN(std::string text, io::read_text_file(plan));
  PLIMSOLL_ASSIGN(io::PlanFile opened, io::open_plan(std::move(text), plan));
  if (io::is_input(opened)) return swapped();
  PLIMSOLL_RETURN_IF_ERROR(check_subject(opened, flags.model));
  return opened;
}

Error with_flag_as_place(Error error) {
  if (error.place == "proposer" || error.place == "partitioner") {
    error.place = "--" + error.place;
  } else if (error.place.starts_with("reservation")) {
    error.place = "--reservation";
  } else if (error.place == "batch_size") {
    error.place = "--batch-size";
  } else if (error.place == "pools_ddr") {
    error.place = "--pool-ddr";
  }
  return error;
}

}  // namespace plimsoll::app
