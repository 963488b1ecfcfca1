#include "study/robust/scenario_costs.h"

#include <span>

namespace plimsoll::study {

using embedding::Option;
using embedding::OptionSet;
using embedding::Perf;
using embedding::PlacedProposal;
using embedding::ShardRun;

ScenarioCosts::ScenarioCosts(const embedding::PlanningProblem& problem,
                             const embedding::PlanningResult& base, const RobustOptions& options)
    : problem_(problem),
      base_(base),
      options_(options),
      estimator_(problem.cost_model, problem.topology, problem.mode) {}

// The runs of one option, their bytes as they are.
Result<void> ScenarioCosts::estimate_option(const std::vector<double>& factors, std::size_t option,
                                            std::vector<ShardRun>& runs) const {
  const Option& taken = base().options[option];
  const auto table = static_cast<std::size_t>(taken.table);
  embedding::TableProfile profile = embedding::profile_of(base_.enumeration.profiles[table], taken);
  profile.pooling_factors = factors;
  const embedding::ShardRuns old = base().shards(taken);
  runs.assign(old.runs.begin(), old.runs.end());
  const embedding::ShardEstimator* own = problem_.enumeration.estimator.get();
  const embedding::ShardEstimator& estimator = own != nullptr ? *own : estimator_;
  PLIMSOLL_RETURN_IF_ERROR(estimator.estimate(base().tables[table], profile, taken, runs));
  for (std::size_t i = 0; i < runs.size(); ++i) runs[i].storage = old.runs[i].storage;
  return {};
}

Result<OptionSet> ScenarioCosts::averaged(const std::vector<Factors>& scenarios) const {
  OptionSet set = base();
  for (ShardRun& run : set.runs) run.perf = {};
  std::vector<ShardRun> runs;
  for (const Factors& factors : scenarios) {
    for (std::size_t o = 0; o < set.options.size(); ++o) {
      const Option& option = set.options[o];
      PLIMSOLL_RETURN_IF_ERROR(
          estimate_option(factors[static_cast<std::size_t>(option.table)], o, runs));
      const auto first = static_cast<std::size_t>(option.first_run);
      for (std::size_t r = 0; r < runs.size(); ++r) set.runs[first + r].perf += runs[r].perf;
    }
  }
  const auto count = static_cast<double>(scenarios.size());
  for (ShardRun& run : set.runs) {
    const Perf& sum = run.perf;
    run.perf = {sum.fwd_compute / count,      sum.fwd_comms / count,
                sum.bwd_compute / count,      sum.bwd_comms / count,
                sum.prefetch_compute / count, sum.input_dist_comms / count};
  }
  return set;
}

Result<OptionSet> ScenarioCosts::with_table(OptionSet options, std::size_t table,
                                            const std::vector<double>& factors) const {
  const embedding::TableOptions& entry = base().tables[table];
  std::vector<ShardRun> runs;
  for (std::int32_t i = entry.first_option; i < entry.first_option + entry.num_options; ++i) {
    const auto o = static_cast<std::size_t>(i);
    PLIMSOLL_RETURN_IF_ERROR(estimate_option(factors, o, runs));
    std::copy(runs.begin(), runs.end(), options.runs.begin() + base().options[o].first_run);
  }
  return options;
}

embedding::BridgeInput ScenarioCosts::input(const OptionSet& options) const {
  embedding::BridgeInput input;
  input.options = &options;
  input.room = &base_.reservation->topology;
  input.model = &problem_.model;
  input.estimator = &estimator_;
  input.profiles = base_.enumeration.profiles;
  return input;
}

// The options that the plan takes, alone.
OptionSet ScenarioCosts::taken_options(const PlacedProposal& plan,
                                       PlacedProposal& renumbered) const {
  OptionSet set = base();
  renumbered = plan;
  set.options.clear();
  set.runs.clear();
  for (std::size_t p = 0; p < plan.options.size(); ++p) {
    Option option = base().options[static_cast<std::size_t>(plan.options[p])];
    const embedding::ShardRuns runs = base().shards(option);
    option.first_run = static_cast<std::int64_t>(set.runs.size());
    set.runs.insert(set.runs.end(), runs.runs.begin(), runs.runs.end());
    embedding::TableOptions& table = set.tables[static_cast<std::size_t>(option.table)];
    table.first_option = static_cast<std::int32_t>(p);
    table.num_options = 1;
    renumbered.options[p] = static_cast<std::int32_t>(p);
    set.options.push_back(option);
  }
  return set;
}

Result<ScenarioCosts::Values> ScenarioCosts::values(const PlacedProposal& plan,
                                                    const std::vector<Factors>& scenarios) const {
  PlacedProposal renumbered;
  OptionSet set = taken_options(plan, renumbered);
  Values values;
  std::vector<ShardRun> runs;
  for (const Factors& factors : scenarios) {
    double work = 0;
    for (std::size_t p = 0; p < plan.options.size(); ++p) {
      const Option& option = set.options[p];
      PLIMSOLL_RETURN_IF_ERROR(estimate_option(factors[static_cast<std::size_t>(option.table)],
                                               static_cast<std::size_t>(plan.options[p]), runs));
      std::copy(runs.begin(), runs.end(), set.runs.begin() + option.first_run);
      work += set.shards(option).total_perf();
    }
    const embedding::PlanTimes times =
        embedding::plan_times(input(set), options_.step_model, renumbered);
    values.objective.push_back(value_of(times, options_.objective));
    values.work.push_back(work);
  }
  return values;
}

}  // namespace plimsoll::study
