// Plans that were stored elsewhere: their keys and how they are merged into the search space.
// Source: docs/mathematics/torchrec-planner.md#stored-plans.

#include "embedding/torchrec/plan_loading.h"

#include <fmt/format.h>

#include <map>
#include <set>
#include <utility>

#include "core/python_text.h"
#include "plimsoll/core/digest.h"

namespace plimsoll::embedding {
namespace {

tl::unexpected<Error> loading_failed(std::string message) {
  return fail(ErrorCode::kPlanner, "plan loader", std::move(message), "", "plan_loading_failed");
}

// Caches as much, and in the same way, as the stored plan says. Without a load factor counts as -1,
// which no factor is.
bool has_cache_of(const Option& option, const TableSharding& sharding) {
  const auto factor_of = [](const std::optional<double>& factor) { return factor.value_or(-1); };
  const double factor = factor_of(option.cache_load_factor);
  if (const auto& dynamic = sharding.dynamic_embedding) {
    return option.dynamic_embedding_mode == dynamic->mode &&
           factor == factor_of(dynamic->load_factor);
  }
  if (option.dynamic_embedding_mode) return false;
  return factor == (sharding.cache_params ? factor_of(sharding.cache_params->load_factor) : -1);
}

Result<void> check_context(PlanLoader& loader, const std::string& context_hash) {
  const std::optional<std::string> stored = loader.plan_context_hash();
  if (!stored || *stored == context_hash) return {};
  return fail(ErrorCode::kPlanner, "plan loader",
              fmt::format("Unable to load, because of planner input mismatch - cannot validate "
                          "this plan is the best plan for current context.. \nPlanner input "
                          "context mismatch detected for {} and current planner set up:\nCurrent "
                          "planner hash: {}, Loaded plan hash: {}",
                          loader.plan_id(), context_hash, *stored),
              "plan again, or load the plan with the inputs that it was made for",
              "planner_input_context_mismatch");
}

// Everything of the search space's option but its shards, which are trusted as stored; explicit
// ranks even for uniform types.
Result<void> append_loaded(std::int32_t known, const LoadedOption& loaded, OptionSet& options,
                           PlacedProposal& plan) {
  Option option = options.options[static_cast<std::size_t>(known)];
  option.partition_by = PartitionBy::kDevice;
  option.first_run = static_cast<std::int64_t>(options.runs.size());
  option.num_runs = static_cast<std::int32_t>(loaded.runs.size());
  option.column_blocks = loaded.column_blocks;
  options.runs.insert(options.runs.end(), loaded.runs.begin(), loaded.runs.end());
  plan.options.push_back(static_cast<std::int32_t>(options.options.size()));
  options.options.push_back(option);
  plan.ranks.insert(plan.ranks.end(), loaded.ranks.begin(), loaded.ranks.end());
  plan.first_rank.push_back(static_cast<std::int64_t>(plan.ranks.size()));
  if (loaded.runs.empty() || loaded.column_blocks < 1 ||
      options.shards(option).num_shards() != static_cast<std::int64_t>(loaded.ranks.size())) {
    return loading_failed("a stored option has not one rank for every shard\n");
  }
  for (const std::int32_t rank : loaded.ranks) {
    if (rank >= 0 && rank < options.world_size) continue;
    return loading_failed(
        fmt::format("a stored shard lies on rank {}, which does not exist\n", rank));
  }
  return {};
}

class StoredPlanLoader : public PlanLoader {
 public:
  explicit StoredPlanLoader(StoredPlan stored) : stored_(std::move(stored)) {}

  std::string plan_id() const override { return stored_.plan_id; }
  std::optional<std::string> plan_context_hash() override { return stored_.context_hash; }
  Result<LoadedOptions> load() override { return stored_.options; }

 private:
  StoredPlan stored_;
};

}  // namespace

std::int32_t find_option(const OptionSet& options, const TableOptions& table,
                         const TableSharding& sharding) {
  std::int32_t match = -1;
  for (std::int32_t o = table.first_option; o < table.first_option + table.num_options; ++o) {
    const Option& option = options.options[static_cast<std::size_t>(o)];
    if (option.sharding_type == sharding.sharding_type &&
        option.compute_kernel == sharding.compute_kernel && has_cache_of(option, sharding) &&
        options.shards(option).num_shards() == sharding.num_shards()) {
      match = o;
    }
  }
  return match;
}

std::uint64_t storage_hash(const OptionSet& options, std::int32_t option) {
  const Option& o = options.options[static_cast<std::size_t>(option)];
  // The reference's key, which hybrid and caching options of a dynamic table would share.
  const std::string mode =
      o.dynamic_embedding_mode ? fmt::format("|{}", to_string(*o.dynamic_embedding_mode)) : "";
  return blake2b_56(
      fmt::format("{}|{}|{}|{}|{}{}", options.tables[static_cast<std::size_t>(o.table)].fqn,
                  to_string(o.sharding_type), to_string(o.compute_kernel),
                  o.cache_load_factor ? python_repr(*o.cache_load_factor) : std::string("None"),
                  options.shards(o).num_shards(), mode));
}

Result<PlacedProposal> load_plan(PlanLoader& loader, const std::string& context_hash,
                                 OptionSet& options) {
  PLIMSOLL_RETURN_IF_ERROR(check_context(loader, context_hash));
  PLIMSOLL_ASSIGN(const LoadedOptions stored, loader.load());
  PlacedProposal plan;
  plan.first_rank.push_back(0);
  std::set<std::uint64_t> seen;
  const auto num_options = static_cast<std::int32_t>(options.options.size());
  for (std::int32_t o = 0; o < num_options; ++o) {
    const std::uint64_t hash = storage_hash(options, o);
    if (!seen.insert(hash).second) {
      std::string fqns;
      for (const Option& option : options.options) {
        fqns += fmt::format("{}'{}'", fqns.empty() ? "" : ", ",
                            options.tables[static_cast<std::size_t>(option.table)].fqn);
      }
      return loading_failed(
          fmt::format("Found a duplicate storage hash {} for FQNs [{}]\n", hash, fqns));
    }
    const auto found = stored.find(hash);
    if (found == stored.end()) continue;
    PLIMSOLL_RETURN_IF_ERROR(append_loaded(o, found->second, options, plan));
  }
  if (plan.options.size() != stored.size()) {
    return loading_failed(fmt::format(
        "Loaded sharding options from Storage, but not all search space is covered. Merged search "
        "space len {} != loaded Sharding options len {}\n",
        plan.options.size(), stored.size()));
  }
  return plan;
}

Result<LoadedOptions> make_loaded_options(const PlanningProblem& problem,
                                          const ShardingPlan& plan) {
  const Estimator estimator(problem.cost_model, problem.topology, problem.mode);
  EnumerationOptions enumeration = problem.enumeration;
  enumeration.batch_size = problem.batch_size;
  PLIMSOLL_ASSIGN(const Enumeration enumerated, enumerate(estimator, problem.model, enumeration));
  const OptionSet& options = enumerated.options;
  std::map<std::string, const TableOptions*> tables;
  for (const TableOptions& table : options.tables) tables[table.fqn] = &table;
  LoadedOptions all;
  for (const TableSharding& sharding : plan.tables) {
    const auto found = tables.find(sharding.fqn());
    if (found == tables.end()) {
      return loading_failed(
          fmt::format("The stored plan has table {}, which the model lacks\n", sharding.fqn()));
    }
    const std::int32_t match = find_option(options, *found->second, sharding);
    if (match < 0) {
      return loading_failed(fmt::format(
          "The stored plan cuts table {} in a way that the search space lacks\n", sharding.fqn()));
    }
    LoadedOption loaded;
    const ShardRuns shards = options.shards(match);
    loaded.runs.assign(shards.runs.begin(), shards.runs.end());
    loaded.column_blocks = static_cast<std::int32_t>(shards.column_blocks);
    for (const RankRun& run : sharding.ranks) {
      for (std::int32_t i = 0; i < run.count; ++i) loaded.ranks.push_back(run.first + i);
    }
    all[storage_hash(options, match)] = std::move(loaded);
  }
  return all;
}

std::unique_ptr<PlanLoader> make_plan_loader(StoredPlan stored) {
  return std::make_unique<StoredPlanLoader>(std::move(stored));
}

}  // namespace plimsoll::embedding
