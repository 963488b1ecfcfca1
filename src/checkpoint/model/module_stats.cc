#include "plimsoll/checkpoint/module_stats.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <set>
#include <string_view>
#include <unordered_set>

namespace plimsoll::checkpoint {
namespace {

using Names = std::unordered_set<std::string_view>;

Result<void> check_indices(const std::vector<int>& indices, std::string_view list,
                           int num_operators) {
  for (int index : indices) {
    if (index < 0 || index >= num_operators) {
      return fail(ErrorCode::kSchema, std::string(list),
                  fmt::format("{} names operator {}, and there are {}", list, index, num_operators),
                  "number the operators from 0 in their order of execution");
    }
  }
  return {};
}

// An in-place operator changes what an earlier one made, so the parents cannot run in a circle.
Result<void> check_inplace(const SACStats& stats, int num_operators) {
  std::set<int> seen;
  for (const auto& [op, parent] : stats.inplace_ops) {
    PLIMSOLL_RETURN_IF_ERROR(check_indices({op, parent}, "inplace_ops", num_operators));
    if (parent > op) {
      return fail(ErrorCode::kValue, "inplace_ops",
                  fmt::format("operator {} changes the output of operator {}, which runs after it",
                              op, parent),
                  "name the earlier operator as the parent");
    }
    if (!seen.insert(op).second) {
      return fail(ErrorCode::kConflict, "inplace_ops", fmt::format("operator {} occurs twice", op),
                  "give each operator one parent");
    }
  }
  return {};
}

Result<void> check_figure(double value, bool may_be_negative, const std::string& fqn,
                          std::string_view field) {
  if (std::isfinite(value) && (may_be_negative || value >= 0)) return {};
  return fail(ErrorCode::kValue, fqn, fmt::format("{} is {}", field, value),
              may_be_negative ? "give a finite number" : "give a finite number of at least 0");
}

Result<void> check_bytes(Bytes bytes, const std::string& fqn, std::string_view field) {
  if (bytes >= 0) return {};
  return fail(ErrorCode::kValue, fqn, fmt::format("{} is {}", field, bytes),
              "give a number of bytes of at least 0");
}

// Shares of a runtime: no fit is anywhere near this, and prices made of them stay finite.
constexpr double kMaxFitFigure = 1e12;

Result<void> check_fit_figures(const std::vector<double>& figures, const std::string& fqn,
                               std::string_view field) {
  for (const double figure : figures) {
    PLIMSOLL_RETURN_IF_ERROR(check_figure(figure, true, fqn, field));
    if (std::abs(figure) <= kMaxFitFigure) continue;
    return fail(ErrorCode::kValue, fqn, fmt::format("{} holds {}", field, double{figure}),
                "give the fit's own figures, shares of sac_runtime");
  }
  return {};
}

Result<void> check_fit(const ModuleInfo& module) {
  const auto pieces = static_cast<std::size_t>(std::max(module.n_segments, 0));
  const bool breaks_fit =
      module.breakpoints.empty() || module.breakpoints.size() == module.slopes.size() + 1;
  if (module.n_segments < 0 || module.slopes.size() != pieces ||
      module.intercepts.size() != pieces || !breaks_fit) {
    return fail(ErrorCode::kSchema, module.fqn,
                fmt::format("n_segments is {} beside {} slopes, {} intercepts and {} breakpoints",
                            module.n_segments, module.slopes.size(), module.intercepts.size(),
                            module.breakpoints.size()),
                "give one slope and one intercept a segment, and one breakpoint more or none");
  }
  PLIMSOLL_RETURN_IF_ERROR(check_fit_figures(module.slopes, module.fqn, "slopes"));
  PLIMSOLL_RETURN_IF_ERROR(check_fit_figures(module.intercepts, module.fqn, "intercepts"));
  return check_fit_figures(module.breakpoints, module.fqn, "breakpoints");
}

// Figures that no step can have together, wherever they were recorded.
Result<void> check_at_most(const std::optional<Bytes>& part, std::string_view part_name,
                           const std::optional<Bytes>& whole, std::string_view whole_name,
                           const std::string& place) {
  if (!part || !whole || *part <= *whole) return {};
  return fail(ErrorCode::kConflict, place,
              fmt::format("{} is {}, more than {}, which is {}", part_name, Bytes{*part},
                          whole_name, Bytes{*whole}),
              "record both in one step");
}

// Resident all the time, or kept inside and still alive.
Result<void> check_totals(const ModuleStats& stats) {
  for (const ModuleInfo& module : stats.mod_stats) {
    PLIMSOLL_RETURN_IF_ERROR(check_at_most(module.act_fw_per_module, "act_fw_per_module",
                                           module.act_total, "act_total", module.fqn));
  }
  return check_at_most(stats.mod_stats[0].param_per_module, "param_per_module",
                       stats.total_step_peak, "total_step_peak", stats.mod_stats[0].fqn);
}

Result<void> check_module(const ModuleInfo& module) {
  if (module.fqn.empty()) {
    return fail(ErrorCode::kValue, "mod_stats", "a module's fqn is empty",
                "give each module a name");
  }
  const std::pair<Bytes, std::string_view> sizes[] = {
      {module.param_per_module, "param_per_module"},
      {module.grad_per_module, "grad_per_module"},
      {module.grad_total, "grad_total"},
      {module.act_fw_per_module, "act_fw_per_module"},
      {module.act_bw_per_module, "act_bw_per_module"},
      {module.act_total, "act_total"},
      {module.input_per_module, "input_per_module"},
      {module.output_per_module, "output_per_module"},
      {module.sac_memory, "sac_memory"},
      {module.total_peak_fw.value_or(0), "total_peak_fw"},
      {module.total_post_fw.value_or(0), "total_post_fw"},
      {module.total_pre_bw.value_or(0), "total_pre_bw"},
      {module.total_peak_bw.value_or(0), "total_peak_bw"}};
  for (const auto& [bytes, field] : sizes) {
    PLIMSOLL_RETURN_IF_ERROR(check_bytes(bytes, module.fqn, field));
  }
  const std::pair<double, std::string_view> times[] = {
      {module.fw_runtime_per_module, "fw_runtime_per_module"},
      {module.bw_runtime_per_module, "bw_runtime_per_module"},
      {module.sac_runtime, "sac_runtime"}};
  for (const auto& [ms, field] : times) {
    PLIMSOLL_RETURN_IF_ERROR(check_figure(ms, false, module.fqn, field));
  }
  for (const auto& [discarded, recomputed] : module.tradeoff_curve) {
    PLIMSOLL_RETURN_IF_ERROR(check_figure(discarded, false, module.fqn, "tradeoff_curve"));
    PLIMSOLL_RETURN_IF_ERROR(check_figure(recomputed, false, module.fqn, "tradeoff_curve"));
  }
  return check_fit(module);
}

Result<void> check_known(const std::vector<std::string>& fqns, std::string_view list,
                         const Names& names) {
  for (const std::string& fqn : fqns) {
    if (!names.contains(fqn)) {
      return fail(ErrorCode::kSchema, fqn,
                  fmt::format("{} names a module that mod_stats lacks", list),
                  "give every module that ran a record in mod_stats");
    }
  }
  return {};
}

// An order that is given holds every module.
Result<void> check_order(const std::vector<std::string>& order, std::string_view list,
                         const ModuleStats& stats, const Names& names) {
  PLIMSOLL_RETURN_IF_ERROR(check_known(order, list, names));
  const Names listed(order.begin(), order.end());
  for (const ModuleInfo& module : stats.mod_stats) {
    if (!listed.contains(module.fqn)) {
      return fail(ErrorCode::kSchema, module.fqn, fmt::format("{} lacks this module", list),
                  "list every module of mod_stats where it ran");
    }
  }
  return {};
}

}  // namespace

Result<void> validate(const SACStats& stats) {
  const std::size_t n = stats.func_names.size();
  if (stats.runtimes.size() != n || stats.memory.size() != n) {
    return fail(ErrorCode::kSchema, "func_names",
                fmt::format("{} func_names beside {} runtimes and {} memory figures", n,
                            stats.runtimes.size(), stats.memory.size()),
                "give each operator a name, a runtime and a size");
  }
  for (std::size_t i = 0; i < n; ++i) {
    const std::string place = fmt::format("operator {}", i);
    PLIMSOLL_RETURN_IF_ERROR(check_figure(stats.runtimes[i], false, place, "runtimes"));
    PLIMSOLL_RETURN_IF_ERROR(check_bytes(stats.memory[i], place, "memory"));
  }
  Int128 total = 0;
  for (const Bytes memory : stats.memory) total += memory;
  if (total > std::numeric_limits<Bytes>::max()) {
    return fail(ErrorCode::kOverflow, "memory", "the operators' sizes sum to 2^63 bytes or more",
                "give sizes in bytes");
  }
  const int num_operators = static_cast<int>(n);
  PLIMSOLL_RETURN_IF_ERROR(check_indices(stats.view_like_ops, "view_like_ops", num_operators));
  PLIMSOLL_RETURN_IF_ERROR(check_indices(stats.rand_ops, "rand_ops", num_operators));
  PLIMSOLL_RETURN_IF_ERROR(
      check_indices(stats.saved_autograd_ops, "saved_autograd_ops", num_operators));
  return check_inplace(stats, num_operators);
}

Result<void> validate(const ModuleStats& stats) {
  if (stats.mod_stats.empty()) {
    return fail(ErrorCode::kSchema, "mod_stats", "there is no module",
                "record at least the root module");
  }
  Names names;
  for (const ModuleInfo& module : stats.mod_stats) {
    PLIMSOLL_RETURN_IF_ERROR(check_module(module));
    if (!names.insert(module.fqn).second) {
      return fail(ErrorCode::kConflict, module.fqn, "this module occurs twice in mod_stats",
                  "give each module one record");
    }
  }
  const ModuleOrder& order = stats.mod_order;
  PLIMSOLL_RETURN_IF_ERROR(check_order(order.fw_pre_order, "fw_pre_order", stats, names));
  PLIMSOLL_RETURN_IF_ERROR(check_order(order.fw_post_order, "fw_post_order", stats, names));
  PLIMSOLL_RETURN_IF_ERROR(check_known(order.bw_pre_order, "bw_pre_order", names));
  PLIMSOLL_RETURN_IF_ERROR(check_known(order.bw_post_order, "bw_post_order", names));
  PLIMSOLL_RETURN_IF_ERROR(check_known(stats.repeated, "repeated", names));
  PLIMSOLL_RETURN_IF_ERROR(check_known(stats.fit_failed, "fit_failed", names));

  for (std::size_t i = 0; i < stats.sac_stats.size(); ++i) {
    if (auto table = validate(stats.sac_stats[i]); !table) {
      Error error = std::move(table).error();
      error.place = fmt::format("sac_stats {}: {}", i, error.place);
      return tl::unexpected<Error>(std::move(error));
    }
  }
  for (const auto& [fqn, index] : stats.sac_stats_of) {
    PLIMSOLL_RETURN_IF_ERROR(check_known({fqn}, "sac_stats_of", names));
    if (index < 0 || index >= static_cast<int>(stats.sac_stats.size())) {
      return fail(ErrorCode::kSchema, fqn,
                  fmt::format("sac_stats_of names table {}, and there are {}", index,
                              stats.sac_stats.size()),
                  "number the tables of sac_stats from 0");
    }
  }
  PLIMSOLL_RETURN_IF_ERROR(
      check_bytes(stats.total_step_peak.value_or(0), stats.name, "total_step_peak"));
  PLIMSOLL_RETURN_IF_ERROR(
      check_bytes(stats.total_before_root_bw.value_or(0), stats.name, "total_before_root_bw"));
  return check_totals(stats);
}

}  // namespace plimsoll::checkpoint
