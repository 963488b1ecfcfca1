#include "option_search.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <memory>
#include <utility>

#include "plimsoll/embedding/partitioner.h"
#include "plimsoll/embedding/perf_model.h"
#include "plimsoll/embedding/planner.h"
#include "plimsoll/solve/balanced_placement.h"

namespace plimsoll::python {
namespace {

using embedding::BalanceObjective;
using embedding::PlacedProposal;
using embedding::PlanTimes;

constexpr double kNaN = std::numeric_limits<double>::quiet_NaN();
constexpr std::int64_t kReferenceSteps = 4000000;  // tables proposed; about a second

topology::Topology with_room(const topology::Topology& topology,
                             const std::vector<topology::Storage>& room) {
  topology::Topology result = topology;
  result.devices = room;
  return result;
}

class OptionSearch {
 public:
  OptionSearch(OptionSpace& space, topology::Topology room, const OptionSearchSettings& settings,
               const SearchOptions& search, const RunContext& context)
      : space_(space),
        room_(std::move(room)),
        settings_(settings),
        search_(search),
        context_(context) {}

  Result<OptionPlan> run() {
    PLIMSOLL_RETURN_IF_ERROR(find_reference());
    embedding::BalancedOptions options;
    options.bridge.objective = settings_.objective;
    options.bridge.step_model = settings_.step_model;
    options.bridge.keeps_hazards = settings_.keeps_hazards;
    if (keeps_rating()) options.bridge.rating_cap = result_.reference->rating;
    std::vector<PlacedProposal> starts;
    if (reference_) starts.push_back(*reference_);
    PLIMSOLL_ASSIGN(embedding::OptionSearchResult found,
                    balance_options(input(), options, starts, search_, context_));
    result_.status = found.outcome.status;
    result_.stop = found.outcome.stop;
    result_.certificate = std::move(found.outcome.certificate);
    result_.warnings = std::move(found.outcome.warnings);
    result_.explanation = std::move(found.outcome.explanation);
    result_.effort = found.effort;
    result_.times = found.outcome.plan ? times(*found.outcome.plan) : PlanTimes{kNaN, kNaN, kNaN};
    result_.plan = std::move(found.outcome.plan);
    return std::move(result_);
  }

 private:
  embedding::BridgeInput input() const {
    return {&space_.options, &room_, &space_.model, space_.estimator ? &*space_.estimator : nullptr,
            space_.profiles};
  }

  PlanTimes times(const PlacedProposal& plan) const {
    return plan_times(input(), settings_.step_model, plan);
  }

  bool keeps_rating() const {
    return settings_.keeps_reference_rating && result_.reference &&
           settings_.objective == BalanceObjective::kTime;
  }

  bool is_stopped() const { return context_.is_cancelled() || context_.is_past_deadline(); }

  // The reference's loop over its own proposers: distinct proposals, strictly better plans.
  Result<void> find_reference() {
    const auto num_tables = static_cast<std::int64_t>(space_.options.tables.size());
    const std::int64_t effort = std::max<std::int64_t>(kReferenceSteps / num_tables, 1);
    PLIMSOLL_ASSIGN(const auto proposers, embedding::make_proposers("default"));
    PLIMSOLL_ASSIGN(
        const auto partitioner,
        embedding::make_partitioner("greedy_perf", embedding::default_cost_model(), false));
    const embedding::SearchSpace search_space{
        &space_.options, space_.estimator ? &*space_.estimator : nullptr, space_.profiles};
    for (const auto& proposer : proposers) PLIMSOLL_RETURN_IF_ERROR(proposer->load(search_space));
    double best = std::numeric_limits<double>::infinity();
    PlacedProposal plan;
    std::int64_t spent = 0;
    for (const auto& proposer : proposers) {
      for (const embedding::Proposal* proposal = proposer->propose();
           proposal != nullptr && !proposal->empty() && spent < effort && !is_stopped();
           proposal = proposer->propose(), ++spent) {
        const bool fits = !partitioner->partition(space_.options, *proposal, room_, plan);
        embedding::Feedback feedback{fits, &plan, std::nullopt, &room_};
        if (fits) {
          double rating = rate_roughly(embedding::PerfModelKind::kPerf, space_.options, plan);
          if (rating < best || proposer->needs_rating()) {
            rating = rate(embedding::PerfModelKind::kPerf, space_.options, plan);
            feedback.perf_rating = rating;
          }
          if (rating < best) {
            best = rating;
            reference_ = plan;
          }
        }
        PLIMSOLL_RETURN_IF_ERROR(proposer->feedback(feedback));
      }
    }
    if (reference_) {
      in_table_order(*reference_);
      result_.reference = times(*reference_);
    }
    return {};
  }

  // Proposers order tables by their own rules; plans have them as the search space has.
  void in_table_order(PlacedProposal& plan) const {
    std::vector<std::size_t> order(plan.options.size());
    for (std::size_t p = 0; p < order.size(); ++p) order[p] = p;
    const auto table_of = [&](std::size_t p) {
      return space_.options.options[static_cast<std::size_t>(plan.options[p])].table;
    };
    std::sort(order.begin(), order.end(),
              [&](std::size_t a, std::size_t b) { return table_of(a) < table_of(b); });
    PlacedProposal sorted;
    sorted.first_rank.push_back(0);
    for (const std::size_t p : order) {
      sorted.options.push_back(plan.options[p]);
      sorted.ranks.insert(sorted.ranks.end(), plan.ranks.begin() + plan.first_rank[p],
                          plan.ranks.begin() + plan.first_rank[p + 1]);
      sorted.first_rank.push_back(static_cast<std::int64_t>(sorted.ranks.size()));
    }
    plan = std::move(sorted);
  }

  OptionSpace& space_;
  const topology::Topology room_;
  const OptionSearchSettings& settings_;
  const SearchOptions& search_;
  const RunContext& context_;
  OptionPlan result_;
  std::optional<PlacedProposal> reference_;
};

// The options of a proposal as a set of their own: one option a table.
embedding::OptionSet narrow(const embedding::OptionSet& all, const embedding::Proposal& proposal) {
  embedding::OptionSet narrowed;
  narrowed.world_size = all.world_size;
  narrowed.local_world_size = all.local_world_size;
  narrowed.group_size = all.group_size;
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

Result<OptionPlan> search_options(OptionSpace& space, const std::vector<topology::Storage>& room,
                                  const OptionSearchSettings& settings, const SearchOptions& search,
                                  const RunContext& context) {
  return OptionSearch(space, with_room(space.topology, room), settings, search, context).run();
}

Result<std::optional<PlacedProposal>> place_options(const OptionSpace& space,
                                                    const std::vector<topology::Storage>& room,
                                                    const embedding::Proposal& options,
                                                    const SearchOptions& search) {
  const topology::Topology left = with_room(space.topology, room);
  const embedding::OptionSet narrowed = narrow(space.options, options);
  embedding::Proposal proposal(options.size());
  for (std::size_t p = 0; p < proposal.size(); ++p) proposal[p] = static_cast<std::int32_t>(p);
  PLIMSOLL_ASSIGN(
      const auto partitioner,
      embedding::make_partitioner("greedy_perf", embedding::default_cost_model(), false));
  std::optional<PlacedProposal> greedy(std::in_place);
  if (partitioner->partition(narrowed, proposal, left, *greedy)) greedy.reset();

  embedding::BridgeOptions settings;
  settings.keeps_hazards = true;
  PLIMSOLL_ASSIGN(const embedding::PlacementBridge bridge,
                  make_placement_bridge({&narrowed, &left, &space.model, nullptr, {}}, settings));
  solve::BalanceOptions balance;
  balance.uses_dives = balance.uses_patterns = false;
  if (greedy) {
    if (auto start = find_placements(bridge, narrowed, *greedy)) {
      balance.starts.push_back(*std::move(start));
    }
  }
  const auto found = solve::balance(bridge.problem, balance, search, {});
  if (!found.outcome.plan) return greedy;
  PlacedProposal mended = to_proposal(bridge, narrowed, *found.outcome.plan);
  const auto rating = [&](const PlacedProposal& plan) {
    return rate(embedding::PerfModelKind::kPerf, narrowed, plan);
  };
  return greedy && rating(*greedy) <= rating(mended) ? greedy : std::optional(std::move(mended));
}

}  // namespace plimsoll::python
