#include "option_search.h"

#include <utility>

#include "balance/balanced_placement.h"
#include "plimsoll/check/options_check.h"
#include "plimsoll/embedding/partitioner.h"
#include "plimsoll/embedding/perf_model.h"
#include "plimsoll/embedding/placement_bridge.h"

namespace plimsoll::python {
namespace {

using embedding::PlacedProposal;

topology::Topology with_room(const topology::Topology& topology,
                             const std::vector<topology::Storage>& room) {
  topology::Topology result = topology;
  result.devices = room;
  return result;
}

// The options of a proposal as a set of their own: one option a table.
embedding::OptionSet narrow(const embedding::OptionSet& all, const embedding::Proposal& proposal) {
  embedding::OptionSet narrowed;
  narrowed.world_size = all.world_size;
  narrowed.local_world_size = all.local_world_size;
  narrowed.group_size = all.group_size;
  narrowed.key_value_columns_on_distinct_ranks = all.key_value_columns_on_distinct_ranks;
  for (const std::int32_t index : proposal) {
    embedding::Option option = all.options[static_cast<std::size_t>(index)];
    embedding::TableOptions table = all.tables[static_cast<std::size_t>(option.table)];
    option.table = static_cast<std::int32_t>(narrowed.tables.size());
    const auto runs = all.shards(option).runs;
    option.first_run = static_cast<std::int64_t>(narrowed.runs.size());
    narrowed.runs.insert(narrowed.runs.end(), runs.begin(), runs.end());
    table.first_option = option.table;
    table.num_options = 1;
    narrowed.tables.push_back(std::move(table));
    narrowed.options.push_back(option);
  }
  return narrowed;
}

}  // namespace

Result<embedding::BalancedResult> search_options(const OptionSpace& space,
                                                 const std::vector<topology::Storage>& room,
                                                 const embedding::BalancedOptions& options,
                                                 const SearchOptions& search,
                                                 const RunContext& context) {
  embedding::PlanningProblem problem;
  problem.model = space.model;
  problem.topology = space.topology;
  problem.machine = space.machine;
  problem.cost_model.key_value_columns_on_distinct_ranks =
      space.options.key_value_columns_on_distinct_ranks;
  embedding::GivenOptions given;
  given.prepared.enumeration.options = space.options;
  given.prepared.enumeration.profiles = space.profiles;
  given.prepared.reservation.emplace().topology = with_room(space.topology, room);
  if (space.estimator) given.estimator = &*space.estimator;
  return embedding::plan_balanced(problem, given, options, search, context);
}

Result<std::optional<PlacedProposal>> place_options(const OptionSpace& space,
                                                    const std::vector<topology::Storage>& room,
                                                    const embedding::Proposal& options,
                                                    const SearchOptions& search) {
  const topology::Topology left = with_room(space.topology, room);
  const embedding::OptionSet narrowed = narrow(space.options, options);
  embedding::Proposal proposal(options.size());
  for (std::size_t p = 0; p < proposal.size(); ++p) proposal[p] = static_cast<std::int32_t>(p);
  embedding::CostModel release = embedding::default_cost_model();
  release.key_value_columns_on_distinct_ranks = narrowed.key_value_columns_on_distinct_ranks;
  PLIMSOLL_ASSIGN(const auto partitioner,
                  embedding::make_partitioner("greedy_perf", release, false));
  std::optional<PlacedProposal> greedy(std::in_place);
  if (partitioner->partition(narrowed, proposal, left, *greedy)) greedy.reset();

  embedding::BridgeOptions settings;
  settings.keeps_hazards = true;
  PLIMSOLL_ASSIGN(const embedding::PlacementBridge bridge,
                  make_placement_bridge({&narrowed, &left, &space.model, nullptr, {}}, settings));
  balance::BalanceOptions balance;
  balance.uses_dives = balance.uses_patterns = false;
  if (greedy) {
    if (auto start = find_placements(bridge, narrowed, *greedy)) {
      balance.starts.push_back(*std::move(start));
    }
  }
  const auto found = balance::balance(bridge.problem, balance, search, {});
  if (!found.outcome.plan) return greedy;
  PlacedProposal mended = to_proposal(bridge, narrowed, *found.outcome.plan);
  const auto rating = [&](const PlacedProposal& plan) {
    return rate(embedding::PerfModelKind::kPerf, narrowed, plan);
  };
  return greedy && rating(*greedy) <= rating(mended) ? greedy : std::optional(std::move(mended));
}

Result<std::vector<embedding::Proposal>> propose_easyrec(
    const OptionSpace& space, const std::vector<topology::Storage>& room,
    const embedding::EasyRecDynamicProgrammingOptions& options, const RunContext& context) {
  const topology::Topology left = with_room(space.topology, room);
  embedding::OptionSet set = space.options;
  const auto proposer = embedding::make_easyrec_dynamic_programming_proposer(options);
  PLIMSOLL_RETURN_IF_ERROR(proposer->load({&set, nullptr, {}, &context}));
  std::vector<embedding::Proposal> proposals;
  for (const auto* next = proposer->propose(); next != nullptr && !next->empty();
       next = proposer->propose()) {
    proposals.push_back(*next);
    PLIMSOLL_RETURN_IF_ERROR(proposer->feedback({true, nullptr, std::nullopt, &left}));
  }
  return proposals;
}

PlanJudgement judge_plan(const OptionSpace& space, const embedding::StepModel& step_model,
                         const PlacedProposal& plan) {
  const embedding::OptionSet& set = space.options;
  const embedding::BridgeInput input{&set,           &space.topology,
                                     &space.model,   space.estimator ? &*space.estimator : nullptr,
                                     space.profiles, space.machine.get()};
  PlanJudgement judgement{plan_times(input, step_model, plan), {}};
  embedding::OptionSet known = set;  // what the model lacks tells no hazards
  std::vector<check::StatedOption> stated;
  for (std::size_t p = 0; p < plan.options.size(); ++p) {
    const auto index = static_cast<std::size_t>(plan.options[p]);
    const auto& table = set.tables[static_cast<std::size_t>(set.options[index].table)];
    if (table.module < 0) continue;
    check::StatedOption& entry = stated.emplace_back();
    entry = {table.fqn, plan.options[p], {}, std::nullopt};
    for_each_shard(set, plan, p,
                   [&](const embedding::ShardView& shard) { entry.ranks.push_back(shard.rank); });
  }
  std::erase_if(known.tables, [](const auto& table) { return table.module < 0; });
  embedding::CostModel release = embedding::default_cost_model();
  judgement.hazards = check::check_options({known, space.model, space.topology, release}, stated,
                                           nullptr, false, false, false, std::nullopt)
                          .hazards();
  return judgement;
}

}  // namespace plimsoll::python
