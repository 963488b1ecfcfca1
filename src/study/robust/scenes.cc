#include "study/robust/scenes.h"

#include <fmt/format.h>

#include <utility>

namespace plimsoll::study {
namespace {

using embedding::TableOptions;

constexpr int kMaxScenarios = 10'000, kMaxFreshScenarios = 100'000;
constexpr int kMostTried = 200;

Result<void> validate_options(const embedding::PlanningProblem& problem,
                              const RobustOptions& options) {
  if (problem.machine) {
    return fail(ErrorCode::kUsage, "machine",
                "scenarios are estimated by TorchRec's cost model alone",
                "leave the machine document out");
  }
  if (!(options.level > 0 && options.level < 1)) {
    return fail(ErrorCode::kValue, "level",
                fmt::format("{:.6g} is not between 0 and 1", options.level),
                "give a level such as 0.95");
  }
  const auto is_within = [](int count, int most) { return count >= 1 && count <= most; };
  if (!is_within(options.num_scenarios, kMaxScenarios) ||
      !is_within(options.num_fresh_scenarios, kMaxFreshScenarios)) {
    return fail(ErrorCode::kValue, "scenarios",
                fmt::format("{} scenarios and {} fresh ones", options.num_scenarios,
                            options.num_fresh_scenarios),
                fmt::format("give 1 to {} and 1 to {}", kMaxScenarios, kMaxFreshScenarios));
  }
  return {};
}

std::vector<DrawnTable> drawn_tables(const embedding::OptionSet& options) {
  std::vector<DrawnTable> tables;
  for (const TableOptions& table : options.tables) {
    tables.push_back({table.name, table.pooling_factors});
  }
  return tables;
}

}  // namespace

Result<Scenes> make_scenes(const embedding::PlanningProblem& problem,
                           const PoolingForecast& forecast, const RobustOptions& options,
                           std::uint64_t seed) {
  PLIMSOLL_RETURN_IF_ERROR(validate_options(problem, options));
  SearchOptions search;
  search.seed = seed;
  Scenes scenes;
  PLIMSOLL_ASSIGN(embedding::PlanningResult plain,
                  embedding::prepare_like_torchrec(problem, {}, search));
  scenes.largest = problem;
  scenes.provenance = embedding::make_provenance(problem, {}, search);
  const embedding::OptionSet& options_of_model = plain.enumeration.options;
  if (options_of_model.tables.empty()) {
    scenes.prepared = std::move(plain);
    return scenes;
  }
  scenes.tables = drawn_tables(options_of_model);
  PLIMSOLL_RETURN_IF_ERROR(validate_forecast(forecast, scenes.tables));
  scenes.scenarios = draw_factors(forecast, scenes.tables, options.num_scenarios, seed, 0);
  scenes.fresh = draw_factors(forecast, scenes.tables, options.num_fresh_scenarios, seed, 1);
  scenes.tried = options.num_scenarios <= kMostTried
                     ? scenes.scenarios
                     : draw_factors(forecast, scenes.tables, kMostTried, seed, 2);
  scenes.largest = with_factors(problem, options_of_model, largest_of(scenes.scenarios));
  PLIMSOLL_ASSIGN(scenes.prepared, embedding::prepare_like_torchrec(scenes.largest, {}, search));
  return scenes;
}

}  // namespace plimsoll::study
