#include "plimsoll/checkpoint/checkpoint_flags.h"

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cmath>
#include <string_view>

#include "checkpoint/trace/missing_fits.h"
#include "core/suggest.h"
#include "plimsoll/common.h"
#include "plimsoll/core/units.h"
#include "plimsoll/io/files.h"
#include "plimsoll/io/module_stats_json.h"
#include "plimsoll/io/shipped.h"
#include "plimsoll/machines/operator_times.h"
#include "study/checkpoint/checkpoint_record.h"

namespace plimsoll::app {
namespace {

using checkpoint::DiscardModel;
using checkpoint::MemoryModel;
using checkpoint::PeakModel;

constexpr int kMaxInFlight = 1 << 20;

std::vector<std::string> repair_names() {
  std::vector<std::string> names;
  for (const study::MemoryRepair& repair : study::memory_repairs()) {
    names.emplace_back(repair.name);
  }
  return names;
}

DiscardModel costs_of(const CheckpointFlags& flags, const checkpoint::ModuleStats& stats) {
  const bool is_by_operators =
      flags.costs == "operators" || (flags.costs.empty() && !stats.sac_stats_of.empty());
  return is_by_operators ? DiscardModel::kOperators : DiscardModel::kFit;
}

bool has_totals(const checkpoint::ModuleStats& stats) {
  if (!stats.total_step_peak) return false;
  for (const checkpoint::ModuleInfo& module : stats.mod_stats) {
    if (module.requires_grad && !module.total_peak_bw) return false;
  }
  return true;
}

const std::map<std::string, std::string>& field_flags() {
  static const std::map<std::string, std::string> flags{
      {"budget", "--budget"},
      {"world_size", "--world-size"},
      {"ac_units", "--ac-unit"},
      {"fsdp_units", "--fsdp-unit"},
      {"unit_overhead_ms", "--unit-overhead-ms"},
      {"optimizer_bytes", "--optimizer-bytes"},
      {"param_dtype_ratio", "--param-dtype-ratio"},
      {"reduce_dtype_ratio", "--reduce-dtype-ratio"},
      {"max_segment_length", "--segments"},
      {"nested_units", "--nested"},
      {"repairs", "--repair"},
      {"in_flight", "--in-flight"}};
  return flags;
}

}  // namespace

Error with_flag(Error error) {
  const auto found = field_flags().find(error.place);
  if (found != field_flags().end()) error.place = found->second;
  return error;
}

std::string flag_text(const std::string& field, const std::string& value) {
  const auto found = field_flags().find(field);
  if (found == field_flags().end()) return "--repair " + field;
  const bool is_bytes = field == "budget" || field == "optimizer_bytes";
  return found->second + (value.empty() ? "" : " " + value + (is_bytes ? "B" : ""));
}

study::PolicyWords policy_words() {
  return {[](const std::string& field) { return "without " + flag_text(field, ""); }, flag_text};
}

void add_checkpoint_flags(CLI::App& command, CheckpointFlags& flags) {
  const auto group = [&command](const char* name) { command.option_defaults()->group(name); };
  group("Memory and time of a module");
  command
      .add_option("--peak", flags.peak,
                  "What the budget limits: step (the peak of the whole step) or torch (the sum "
                  "that torch's planner limits) (default: step if the statistics have it)")
      ->check(CLI::IsMember({"step", "torch"}));
  command
      .add_option("--costs", flags.costs,
                  "What recomputation costs: operators (their own times) or fit (torch's "
                  "piecewise-linear curve) (default: operators if the statistics have them)")
      ->check(CLI::IsMember({"operators", "fit"}));
  std::string repairs = "A correction of torch's memory model (repeatable):";
  for (const study::MemoryRepair& repair : study::memory_repairs())
    repairs += fmt::format(" {}: {};", repair.name, repair.help);
  repairs.back() = '.';
  command.add_option("--repair", flags.repairs, repairs)->check(CLI::IsMember(repair_names()));
  command
      .add_option("--optimizer-bytes", flags.optimizer_bytes,
                  "Optimizer state, such as 12GiB, held all the time and sharded as parameters are")
      ->type_name("SIZE");
  command
      .add_option("--unit-overhead-ms", flags.unit_overhead_ms,
                  "Time that each checkpointed unit costs, whatever it discards")
      ->type_name("MS")
      ->check(CLI::Range(0.0, 1e9));
  if (command.get_option_no_throw("--machine") == nullptr) {
    command
        .add_option("--machine", flags.machine,
                    "Times of operators on this machine, measured by `plimsoll calibrate`: a file, "
                    "or a name that `plimsoll hardware` lists; statistics that were measured keep "
                    "their times")
        ->type_name("MACHINE");
  }
  group("Which modules are checkpointed");
  command.add_option("--ac-unit", flags.ac_units, "Only these modules (repeatable)")
      ->type_name("MODULE");
  command
      .add_option("--segments", flags.max_segment_length,
                  "Runs of up to this many consecutive children may be one unit")
      ->type_name("N")
      ->check(CLI::Range(1, 1 << 20))
      ->capture_default_str();
  command.add_flag("--nested", flags.nested_units,
                   "Allow units inside a unit that discards everything");
  command
      .add_option("--in-flight", flags.in_flight,
                  "Microbatches whose activations a pipeline stage holds")
      ->type_name("N")
      ->check(CLI::Range(1, kMaxInFlight))
      ->capture_default_str();
  group("FSDP");
  command
      .add_option("--world-size", flags.world_size,
                  "Ranks over which parameters and gradients are sharded")
      ->type_name("N")
      ->check(CLI::Range(1, 1 << 20))
      ->capture_default_str();
  command
      .add_option("--fsdp-unit", flags.fsdp_units,
                  "A module that FSDP wraps: no unit contains it (repeatable)")
      ->type_name("MODULE");
  command.add_flag("--fsdp-buffers", flags.fsdp_buffers,
                   "Count the buffers in which FSDP gathers and reduces");
  command
      .add_option("--param-dtype-ratio", flags.param_dtype_ratio,
                  "Bytes of a gathered parameter divided by those of a stored one")
      ->type_name("RATIO")
      ->check(CLI::Range(0.0, 64.0));
  command
      .add_option("--reduce-dtype-ratio", flags.reduce_dtype_ratio,
                  "Bytes of a reduced gradient divided by those of a stored one")
      ->type_name("RATIO")
      ->check(CLI::Range(0.0, 64.0));
}

Result<checkpoint::ModuleStats> load_module_stats(const std::string& name) {
  PLIMSOLL_RETURN_IF_ERROR(check_kind(name, InputKind::kModuleStats));
  if (!is_file_name(name)) return io::load_shipped_module_stats(name);
  PLIMSOLL_ASSIGN(const std::string text, io::read_text_file(name));
  return io::read_module_stats(text, name);
}

checkpoint::ModuleStats priced_stats(checkpoint::ModuleStats stats, const CheckpointFlags& flags,
                                     std::string_view search) {
  if (search == "torch" || costs_of(flags, stats) == DiscardModel::kFit) {
    checkpoint::fit_missing_curves(stats);
  }
  return stats;
}

Result<TimedStats> timed_stats(checkpoint::ModuleStats stats, const CheckpointFlags& flags) {
  TimedStats timed{std::move(stats), "", ""};
  if (flags.machine.empty()) return timed;
  PLIMSOLL_ASSIGN(const OperatorTimes times, load_operator_times(flags.machine));
  timed.times = scale_times(times, timed.stats)
                    ? fmt::format("{} ({})", times.sources, times.machine)
                    : "as the statistics measured them";
  timed.machine_hash = times.hash;
  return timed;
}

Result<MemoryModel> make_memory_model(const CheckpointFlags& flags,
                                      const checkpoint::ModuleStats& stats) {
  MemoryModel model;
  if (flags.peak == "step" && !has_totals(stats)) {
    return fail(ErrorCode::kUsage, "--peak",
                "the statistics lack total_step_peak, or a module's total_peak_bw",
                "record them, or plan with --peak torch");
  }
  model.peak = flags.peak == "step" || (flags.peak.empty() && has_totals(stats))
                   ? PeakModel::kStep
                   : PeakModel::kTorch;
  model.costs = costs_of(flags, stats);
  model.world_size = flags.world_size;
  model.ac_units = flags.ac_units;
  model.fsdp_units = flags.fsdp_units;
  for (const std::string& name : flags.repairs) {
    const auto repairs = study::memory_repairs();
    const auto found =
        std::find_if(repairs.begin(), repairs.end(),
                     [&name](const study::MemoryRepair& repair) { return repair.name == name; });
    if (found == repairs.end()) {
      return fail(ErrorCode::kUsage, "--repair", fmt::format("no repair '{}'", name),
                  suggest(name, repair_names()));
    }
    model.*found->is_on = true;
  }
  model.unit_overhead_ms = flags.unit_overhead_ms;
  if (!flags.optimizer_bytes.empty()) {
    auto bytes = parse_size(flags.optimizer_bytes);
    if (!bytes) {
      bytes.error().place = "--optimizer-bytes";
      return tl::unexpected<Error>(std::move(bytes).error());
    }
    model.optimizer_bytes = *bytes;
  }
  model.fsdp_buffers = flags.fsdp_buffers;
  model.param_dtype_ratio = flags.param_dtype_ratio;
  model.reduce_dtype_ratio = flags.reduce_dtype_ratio;
  model.max_segment_length = flags.max_segment_length;
  model.nested_units = flags.nested_units;
  return model;
}

Result<checkpoint::CheckpointProblem> make_problem(const CheckpointFlags& flags,
                                                   const checkpoint::ModuleStats& stats) {
  PLIMSOLL_ASSIGN(const MemoryModel model, make_memory_model(flags, stats));
  PLIMSOLL_ASSIGN(const checkpoint::ModuleTree tree, checkpoint::make_module_tree(stats));
  auto problem = make_checkpoint_problem(stats, tree, model);
  if (!problem) return tl::unexpected<Error>(with_flag(std::move(problem).error()));
  return problem;
}

Result<void> fill_from_provenance(const OptionTexts& options, CheckpointFlags& flags) {
  PLIMSOLL_ASSIGN(const study::CheckpointRecord recorded, study::read_checkpoint_record(options));
  const CheckpointFlags usual;
  const auto fill = [](auto& flag, const auto& unless, const auto& value) {
    if (flag == unless) flag = value;
  };
  if (recorded.peak) {
    fill(flags.peak, usual.peak, recorded.peak == PeakModel::kStep ? "step" : "torch");
  }
  if (recorded.costs) {
    fill(flags.costs, usual.costs,
         recorded.costs == DiscardModel::kOperators ? "operators" : "fit");
  }
  fill(flags.machine, usual.machine, recorded.machine);
  if (recorded.optimizer_bytes != 0) {
    fill(flags.optimizer_bytes, usual.optimizer_bytes,
         fmt::format("{}B", recorded.optimizer_bytes));
  }
  fill(flags.ac_units, usual.ac_units, recorded.ac_units);
  fill(flags.fsdp_units, usual.fsdp_units, recorded.fsdp_units);
  fill(flags.repairs, usual.repairs, recorded.repairs);
  fill(flags.fsdp_buffers, usual.fsdp_buffers, recorded.fsdp_buffers);
  fill(flags.nested_units, usual.nested_units, recorded.nested_units);
  fill(flags.world_size, usual.world_size, recorded.world_size);
  fill(flags.unit_overhead_ms, usual.unit_overhead_ms, recorded.unit_overhead_ms);
  fill(flags.param_dtype_ratio, usual.param_dtype_ratio, recorded.param_dtype_ratio);
  fill(flags.reduce_dtype_ratio, usual.reduce_dtype_ratio, recorded.reduce_dtype_ratio);
  fill(flags.max_segment_length, usual.max_segment_length, recorded.max_segment_length);
  fill(flags.in_flight, usual.in_flight, recorded.in_flight);
  if (flags.in_flight >= 1 && flags.in_flight <= kMaxInFlight) return {};
  return fail(ErrorCode::kValue, "provenance/options/in_flight",
              fmt::format("{} microbatches in flight", flags.in_flight), "give at least 1");
}

Result<Bytes> parse_budget(const std::string& text, Bytes whole, const std::string& flag) {
  constexpr Bytes kMaxBudget = Bytes{1} << 50;  // as documents have it
  const auto too_large = [&] {
    return fail(ErrorCode::kUsage, flag, fmt::format("'{}' is more than 2^50 bytes", text),
                "give the memory of one rank");
  };
  if (text.ends_with('%')) {
    auto percent = parse_number<double>(text.substr(0, text.size() - 1), flag);
    if (!percent || !std::isfinite(*percent) || *percent < 0 || *percent > 1e6) {
      return fail(ErrorCode::kUsage, flag, fmt::format("'{}' is not a share of the memory", text),
                  "give a percentage of at least 0, such as 60%");
    }
    const double bytes = std::floor(static_cast<double>(whole) * *percent / 100);
    if (bytes > static_cast<double>(kMaxBudget)) return too_large();
    return static_cast<Bytes>(bytes);
  }
  auto bytes = parse_size(text);
  if (!bytes) {
    bytes.error().place = flag;
    // "0.6" is meant as a share.
    const auto share = parse_number<double>(text, flag);
    if (share && *share > 0 && *share < 1) {
      bytes.error().remedy = fmt::format("for a share write {:.6g}%", *share * 100);
    }
    return tl::unexpected<Error>(std::move(bytes).error());
  }
  if (*bytes > kMaxBudget) return too_large();
  return bytes;
}

}  // namespace plimsoll::app
