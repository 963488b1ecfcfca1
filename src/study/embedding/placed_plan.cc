#include "study/embedding/placed_plan.h"

#include <fmt/format.h>

#include <map>
#include <string>
#include <utility>
#include <vector>

#include "embedding/torchrec/plan_loading.h"

namespace plimsoll::study {
namespace {

using embedding::OptionSet;
using embedding::PlacedProposal;
using embedding::TableSharding;

tl::unexpected<Error> refuse(std::string fqn, std::string message) {
  return fail(ErrorCode::kPlanner, std::move(fqn), std::move(message),
              "plan it again, or run `plimsoll check` on it");
}

Result<PlacedProposal> place(const OptionSet& options, const embedding::ShardingPlan& plan) {
  std::map<std::string, const TableSharding*> sharding_of;
  for (const TableSharding& sharding : plan.tables) sharding_of[sharding.fqn()] = &sharding;
  PlacedProposal placed;
  placed.first_rank.push_back(0);
  for (const embedding::TableOptions& table : options.tables) {
    const auto found = sharding_of.find(table.fqn);
    if (found == sharding_of.end()) return refuse(table.fqn, "the plan lacks this table");
    const int option = find_option(options, table, *found->second);
    if (option < 0) return refuse(table.fqn, "the plan cuts this table as no option does");
    placed.options.push_back(option);
    const bool is_uniform = options.options[static_cast<std::size_t>(option)].partition_by ==
                            embedding::PartitionBy::kUniform;
    int next = 0;
    for (const embedding::RankRun& run : found->second->ranks) {
      for (int i = 0; i < run.count; ++i, ++next) {
        const int rank = run.first + i;
        if (rank < 0 || rank >= options.world_size || (is_uniform && rank != next)) {
          return refuse(table.fqn, fmt::format("no shard of it can stand on rank {}", rank));
        }
        if (!is_uniform) placed.ranks.push_back(rank);
      }
    }
    placed.first_rank.push_back(static_cast<std::int64_t>(placed.ranks.size()));
  }
  return placed;
}

Result<PlacedPlan> place_once(const embedding::PlanningProblem& problem,
                              const embedding::ShardingPlan& plan) {
  PlacedPlan made;
  PLIMSOLL_ASSIGN(made.prepared, embedding::prepare_like_torchrec(problem, {}, {}));
  if (!made.prepared.reservation) {
    return fail(ErrorCode::kPlanner, "reservation", "it leaves nothing for tables",
                "reserve less, or plan for a smaller batch");
  }
  PLIMSOLL_ASSIGN(made.placed, place(made.prepared.enumeration.options, plan));
  return made;
}

}  // namespace

Result<PlacedPlan> place_plan(const embedding::PlanningProblem& problem,
                              const embedding::ShardingPlan& plan) {
  Result<PlacedPlan> made = place_once(problem, plan);
  if (made || problem.enumeration.max_column_blocks > 0) return made;
  embedding::PlanningProblem wide = problem;
  wide.enumeration.max_column_blocks = kEveryWidth;
  Result<PlacedPlan> again = place_once(wide, plan);
  return again ? std::move(again) : std::move(made);
}

}  // namespace plimsoll::study
