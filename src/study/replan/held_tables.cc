#include "study/replan/held_tables.h"

#include <algorithm>
#include <utility>

#include "plimsoll/core/checked.h"

namespace plimsoll::study {
namespace {

using balance::ChoiceMoves;
using balance::MoveCosts;
using balance::SlotMoves;
using balance::Spread;
using embedding::Option;
using embedding::OptionSet;
using embedding::PlacedShard;
using embedding::PlacementBridge;
using embedding::ShardingType;
using embedding::TableSharding;

// The option's shards in shard order, their ranks aside.
std::vector<PlacedShard> shards_of(const OptionSet& options, const Option& option) {
  const embedding::ShardRuns runs = options.shards(option);
  std::vector<PlacedShard> shards;
  for (std::int64_t block = 0; block < runs.column_blocks; ++block) {
    for (const embedding::ShardRun& run : runs.runs) {
      for (std::int64_t i = 0; i < run.count; ++i) {
        shards.push_back(
            {run.rows, run.columns, run.first_row + i * run.row_stride, block * run.columns, -1});
      }
    }
  }
  return shards;
}

bool is_option_of(const Option& option, const TableSharding& sharding) {
  const auto factor_of = [](const std::optional<double>& factor) { return factor.value_or(-1); };
  double factor = sharding.cache_params ? factor_of(sharding.cache_params->load_factor) : -1;
  if (sharding.dynamic_embedding) factor = factor_of(sharding.dynamic_embedding->load_factor);
  return option.sharding_type == sharding.sharding_type &&
         option.compute_kernel == sharding.compute_kernel &&
         factor_of(option.cache_load_factor) == factor;
}

class MoveCounter {
 public:
  MoveCounter(const PlacementBridge& bridge, const OptionSet& options, const HeldTables& held,
              const std::vector<TableWeight>& weights)
      : bridge_(bridge), options_(options), held_(held), weights_(weights) {}

  MoveCosts run() const {
    MoveCosts costs;
    const balance::PlacementProblem& problem = bridge_.problem;
    for (std::size_t u = 0; u < problem.units.size(); ++u) {
      std::vector<ChoiceMoves>& choices = costs.units.emplace_back();
      for (std::size_t c = 0; c < problem.units[u].choices.size(); ++c) {
        choices.push_back(count(u, c));
      }
      costs.home.push_back(find_home(u, choices));
    }
    return costs;
  }

 private:
  int width() const { return bridge_.problem.ranks_per_host; }

  // Of tables that stand together, the sum.
  ChoiceMoves count(std::size_t unit, std::size_t c) const {
    const balance::UnitChoice& choice = bridge_.problem.units[unit].choices[c];
    ChoiceMoves moves;
    std::size_t num_slots = 0;
    if (choice.spread == Spread::kHost) num_slots = static_cast<std::size_t>(choice.num_blocks);
    if (choice.spread == Spread::kDevice) {
      for (const balance::PieceRun& run : choice.runs) {
        num_slots += static_cast<std::size_t>(run.count);
      }
    }
    moves.slots.resize(num_slots);
    std::vector<std::map<int, Bytes>> kept(num_slots);  // by place
    for (std::size_t i = 0; i < bridge_.tables[unit].size(); ++i) {
      const auto table = static_cast<std::size_t>(bridge_.tables[unit][i]);
      const HeldTable* held = held_.find(options_.tables[table].fqn);
      if (held == nullptr) continue;
      const Option& option =
          options_.options[static_cast<std::size_t>(bridge_.options[unit][c][i])];
      const std::vector<PlacedShard> shards = shards_of(options_, option);
      for (std::size_t s = 0; s < shards.size(); ++s) {
        const std::int64_t all = held->held_values(shards[s]);
        const Bytes most = weights_[table].bytes_of(all);
        if (choice.spread == Spread::kUniform) {
          const std::int64_t here = held->values_on(static_cast<int>(s), shards[s]);
          moves.everywhere = saturated_add(
              moves.everywhere, weights_[table].bytes_of(std::max<std::int64_t>(all - here, 0)));
          continue;
        }
        const std::size_t slot = slot_of(option, s, num_slots);
        moves.slots[slot].elsewhere = saturated_add(moves.slots[slot].elsewhere, most);
        for (const auto& [rank, indices] : held->of_rank) {
          if (rank >= bridge_.problem.num_ranks) continue;
          const int place = choice.spread == Spread::kHost ? rank / width() : rank;
          if (choice.spread == Spread::kHost) {
            if (place >= bridge_.problem.num_hosts()) continue;
            if (rank % width() != rank_in_host(option, s, unit, c)) continue;
          }
          const std::int64_t here = held->values_on(rank, shards[s]);
          if (here == 0) continue;
          const Bytes less = most - weights_[table].bytes_of(std::max<std::int64_t>(all - here, 0));
          kept[slot][place] = saturated_add(kept[slot][place], less);
        }
      }
    }
    for (std::size_t s = 0; s < num_slots; ++s) {
      for (const auto& [place, bytes] : kept[s]) {
        moves.slots[s].at.emplace_back(place, moves.slots[s].elsewhere - bytes);
      }
    }
    return moves;
  }

  // As embedding::to_proposal puts shards on ranks.
  std::size_t slot_of(const Option& option, std::size_t shard, std::size_t num_slots) const {
    switch (option.sharding_type) {
      case ShardingType::kTableRowWise:
      case ShardingType::kGridShard:
        return std::min(shard / static_cast<std::size_t>(width()), num_slots - 1);
      case ShardingType::kTableWise:
      case ShardingType::kColumnWise:
      case ShardingType::kTableColumnWise:
        return std::min(shard, num_slots - 1);
      case ShardingType::kRowWise:
      case ShardingType::kDataParallel:
        break;
    }
    return 0;
  }
  int rank_in_host(const Option& option, std::size_t shard, std::size_t unit, std::size_t c) const {
    const int index = static_cast<int>(shard);
    if (option.sharding_type != ShardingType::kTableColumnWise) return index % width();
    return (bridge_.first_rank[unit][c] + index) % width();
  }

  // The choice that cuts the unit's tables as they are cut, at the places that move nothing.
  balance::UnitPlacement find_home(std::size_t unit,
                                   const std::vector<ChoiceMoves>& choices) const {
    for (std::size_t c = 0; c < choices.size(); ++c) {
      if (!is_now(unit, c) || choices[c].everywhere > 0) continue;
      balance::UnitPlacement home{static_cast<int>(c), {}};
      bool moves_nothing = true;
      for (const SlotMoves& slot : choices[c].slots) {
        const auto here =
            std::find_if(slot.at.begin(), slot.at.end(),
                         [](const std::pair<int, Bytes>& place) { return place.second == 0; });
        moves_nothing = moves_nothing && here != slot.at.end();
        if (!moves_nothing) break;
        home.slots.push_back(here->first);
      }
      if (moves_nothing) return home;
    }
    return {};
  }

  bool is_now(std::size_t unit, std::size_t c) const {
    for (std::size_t i = 0; i < bridge_.tables[unit].size(); ++i) {
      const auto table = static_cast<std::size_t>(bridge_.tables[unit][i]);
      const HeldTable* held = held_.find(options_.tables[table].fqn);
      if (held == nullptr) return false;
      const Option& option =
          options_.options[static_cast<std::size_t>(bridge_.options[unit][c][i])];
      const std::int64_t num_shards = options_.shards(option).num_shards();
      const bool is_same = is_option_of(option, held->sharding) &&
                           num_shards == static_cast<std::int64_t>(held->shards.size());
      // A whole table stands for one block of columns.
      const bool is_whole = num_shards == 1 && held->shards.size() == 1 &&
                            option.compute_kernel == held->sharding.compute_kernel;
      if (!is_same && !is_whole) return false;
    }
    return true;
  }

  const PlacementBridge& bridge_;
  const OptionSet& options_;
  const HeldTables& held_;
  const std::vector<TableWeight>& weights_;
};

}  // namespace

std::int64_t HeldTable::held_values(const PlacedShard& shard) const {
  std::int64_t sum = 0;
  for (const PlacedShard& old : shards) {
    const std::int64_t values = shared_values(shard, old);
    sum = is_replicated ? std::max(sum, values) : saturated_add(sum, values);
  }
  return std::min(sum, saturated_multiply(shard.rows, shard.columns));
}

std::int64_t HeldTable::values_on(int rank, const PlacedShard& shard) const {
  const auto found = of_rank.find(rank);
  if (found == of_rank.end()) return 0;
  std::int64_t sum = 0;
  for (const std::size_t index : found->second) {
    const std::int64_t values = shared_values(shard, shards[index]);
    sum = is_replicated ? std::max(sum, values) : saturated_add(sum, values);
  }
  return std::min(sum, saturated_multiply(shard.rows, shard.columns));
}

HeldTables::HeldTables(const embedding::ShardingPlan& plan) {
  for (const TableSharding& sharding : plan.tables) {
    HeldTable held;
    held.sharding = sharding;
    held.shards = expand_shards(sharding);
    held.is_replicated = sharding.sharding_type == ShardingType::kDataParallel;
    for (std::size_t i = 0; i < held.shards.size(); ++i) {
      held.of_rank[held.shards[i].rank].push_back(i);
    }
    tables_.emplace(sharding.fqn(), std::move(held));
  }
}

const HeldTable* HeldTables::find(const std::string& fqn) const {
  const auto found = tables_.find(fqn);
  return found == tables_.end() ? nullptr : &found->second;
}

Bytes TableWeight::bytes_of(std::int64_t count) const {
  if (values <= 0) return 0;
  const Int128 scaled = (Int128{count} * bytes + values - 1) / values;
  return scaled > kSaturated ? kSaturated : static_cast<Bytes>(scaled);
}

Result<std::vector<TableWeight>> weigh_tables(const embedding::Estimator& estimator,
                                              const embedding::Enumeration& enumeration) {
  std::vector<TableWeight> weights;
  for (std::size_t t = 0; t < enumeration.options.tables.size(); ++t) {
    const embedding::TableShape& shape = enumeration.options.tables[t].shape;
    TableWeight weight{shape.bytes, Int128{shape.rows} * shape.columns};
    PLIMSOLL_ASSIGN(
        const embedding::StorageParts parts,
        estimator.shard_storage_parts(enumeration.profiles[t], ShardingType::kTableWise,
                                      embedding::ComputeKernel::kFused, shape.rows, shape.columns));
    const topology::Storage& state = parts.optimizer_state;
    weight.bytes =
        saturated_add(weight.bytes, saturated_add(saturated_add(state.hbm, state.ddr), state.ssd));
    weights.push_back(weight);
  }
  return weights;
}

MoveCosts make_move_costs(const PlacementBridge& bridge, const OptionSet& options,
                          const HeldTables& held, const std::vector<TableWeight>& weights) {
  return MoveCounter(bridge, options, held, weights).run();
}

}  // namespace plimsoll::study
