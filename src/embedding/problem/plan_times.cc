#include "plimsoll/embedding/plan_times.h"

#include <algorithm>
#include <set>
#include <tuple>
#include <utility>

#include "core/check.h"
#include "embedding/problem/calibrated_input.h"
#include "embedding/problem/plan_faults.h"
#include "plimsoll/embedding/perf_model.h"

namespace plimsoll::embedding {

std::string_view to_string(BalanceObjective objective) {
  switch (objective) {
    case BalanceObjective::kRating:
      return "rating";
    case BalanceObjective::kStep:
      return "step";
    case BalanceObjective::kTime:
      return "time";
  }
  return "";
}

double value_of(const PlanTimes& times, BalanceObjective objective) {
  switch (objective) {
    case BalanceObjective::kRating:
      return times.rating;
    case BalanceObjective::kStep:
      return times.step;
    case BalanceObjective::kTime:
      return times.time;
  }
  return times.rating;
}

namespace {

// The slowest rank's kernels, and its collectives, without what belongs to sharding types.
std::pair<double, double> slowest_calibrated(const BridgeInput& input,
                                             const CalibratedTimes& calibrated,
                                             const PlacedProposal& plan) {
  const OptionSet& options = *input.options;
  std::vector<double> kernels(static_cast<std::size_t>(options.world_size));
  std::vector<double> collectives(kernels.size());
  for (std::size_t p = 0; p < plan.options.size(); ++p) {
    const Option& option = options.options[static_cast<std::size_t>(plan.options[p])];
    const ShardRun* run = nullptr;
    CalibratedTimes::ShardTimes times;
    for_each_shard(options, plan, p, [&](const ShardView& shard) {
      if (shard.run != run) {
        run = shard.run;
        times = calibrated.shard_times(option, run->rows, run->columns);
      }
      const auto rank = static_cast<std::size_t>(shard.rank);
      kernels[rank] +=
          times.kernels / (options.rank_speeds.empty() ? 1 : options.rank_speeds[rank]);
      collectives[rank] += times.collectives;
    });
  }
  return {*std::max_element(kernels.begin(), kernels.end()),
          *std::max_element(collectives.begin(), collectives.end())};
}

}  // namespace

PlanTimes plan_times(const BridgeInput& input, const StepModel& step_model,
                     const PlacedProposal& plan) {
  PLIMSOLL_DCHECK(is_placed_plan(*input.options, plan), "the plan places an option of every table");
  PlanTimes times;
  times.rating = rate(PerfModelKind::kPerf, *input.options, plan);
  Perf slowest;
  double kernels = 0, collectives = 0;
  for (const Perf& perf : rank_perf_components(*input.options, plan)) {
    slowest.fwd_compute = std::max(slowest.fwd_compute, perf.fwd_compute);
    slowest.fwd_comms = std::max(slowest.fwd_comms, perf.fwd_comms);
    slowest.bwd_compute = std::max(slowest.bwd_compute, perf.bwd_compute);
    slowest.bwd_comms = std::max(slowest.bwd_comms, perf.bwd_comms);
    slowest.prefetch_compute = std::max(slowest.prefetch_compute, perf.prefetch_compute);
    kernels = std::max(kernels, perf.fwd_compute + perf.bwd_compute + perf.prefetch_compute);
    collectives = std::max(collectives, perf.fwd_comms + perf.bwd_comms);
  }
  times.step = slowest.total();
  const Result<std::optional<CalibratedTimes>> made = make_calibrated_times(input);
  PLIMSOLL_CHECK(made.has_value(), "the options are such as the machine model needs");
  const std::optional<CalibratedTimes>& calibrated = *made;
  if (calibrated) std::tie(kernels, collectives) = slowest_calibrated(input, *calibrated, plan);
  double outputs = 0;
  double tables = 0;
  if (step_model.ms_per_output_byte > 0 || step_model.ms_per_table > 0) {
    std::vector<double> of_outputs(static_cast<std::size_t>(input.options->world_size));
    std::vector<double> of_tables(of_outputs.size());
    for (std::size_t p = 0; p < plan.options.size(); ++p) {
      const Option& option = input.options->options[static_cast<std::size_t>(plan.options[p])];
      for_each_shard(*input.options, plan, p, [&](const ShardView& shard) {
        const auto rank = static_cast<std::size_t>(shard.rank);
        of_outputs[rank] += output_bytes(input, option, *shard.run);
        of_tables[rank] += 1;
      });
    }
    outputs = *std::max_element(of_outputs.begin(), of_outputs.end());
    tables = *std::max_element(of_tables.begin(), of_tables.end());
  }
  std::set<std::pair<std::string, ShardingType>> types;
  for (const std::int32_t index : plan.options) {
    const Option& option = input.options->options[static_cast<std::size_t>(index)];
    types.emplace(input.options->tables[static_cast<std::size_t>(option.table)].module_path,
                  option.sharding_type);
  }
  double charges = 0;
  for (const auto& [module_path, type] : types) {
    charges += calibrated ? calibrated->type_charge(step_model, module_path, type)
                          : step_model.ms_per_sharding_type;
  }
  times.time = step_model.kernel_weight * kernels + step_model.collective_weight * collectives +
               step_model.ms_per_output_byte * outputs + step_model.ms_per_table * tables +
               charges + step_model.floor_ms;
  return times;
}

}  // namespace plimsoll::embedding
