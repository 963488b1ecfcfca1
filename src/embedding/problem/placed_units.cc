// The way back over the bridge: from placements to placed options, and from a plan to placements.

#include <algorithm>
#include <set>
#include <string_view>
#include <utility>
#include <vector>

#include "balance/problem/placement_judge.h"
#include "core/check.h"
#include "plimsoll/embedding/placement_bridge.h"

namespace plimsoll::embedding {
namespace {

using balance::Spread;
using balance::UnitChoice;

// Ranks of one table's shards, in shard order.
void append_ranks(const PlacementBridge& bridge, const Option& option,
                  const balance::UnitPlacement& placement, std::size_t unit,
                  std::vector<std::int32_t>& ranks) {
  const int width = bridge.problem.ranks_per_host;
  switch (option.sharding_type) {
    case ShardingType::kTableWise:
    case ShardingType::kColumnWise:
      ranks.insert(ranks.end(), placement.slots.begin(), placement.slots.end());
      return;
    case ShardingType::kTableRowWise:
    case ShardingType::kGridShard:
      for (int block = 0; block < option.column_blocks; ++block) {
        // Beside other tables all blocks stand on one host.
        const auto slot = std::min<std::size_t>(block, placement.slots.size() - 1);
        for (int i = 0; i < width; ++i) ranks.push_back(placement.slots[slot] * width + i);
      }
      return;
    case ShardingType::kTableColumnWise: {
      const auto choice = static_cast<std::size_t>(placement.choice);
      if (bridge.problem.units[unit].choices[choice].spread == Spread::kDevice) {
        ranks.insert(ranks.end(), placement.slots.begin(), placement.slots.end());
        return;
      }
      for (int i = 0; i < option.column_blocks; ++i) {
        ranks.push_back(placement.slots.front() * width +
                        (bridge.first_rank[unit][choice] + i) % width);
      }
      return;
    }
    case ShardingType::kRowWise:
    case ShardingType::kDataParallel:
      return;
  }
}

// Do the columns of the choice begin where the first shard stands?
bool begins_there(const PlacementBridge& bridge, std::size_t unit, std::size_t choice,
                  std::span<const std::int32_t> ranks) {
  return bridge.problem.units[unit].choices[choice].spread != Spread::kHost || ranks.empty() ||
         ranks.front() % bridge.problem.ranks_per_host == bridge.first_rank[unit][choice];
}

// Do several shards stand on one rank where the choice wants a rank for each?
bool shares_rank(const UnitChoice& choice, std::span<const std::int32_t> ranks) {
  std::vector<std::int32_t> sorted(ranks.begin(), ranks.end());
  std::sort(sorted.begin(), sorted.end());
  return choice.distinct_ranks && std::adjacent_find(sorted.begin(), sorted.end()) != sorted.end();
}

// Slots that put the choice where the ranks say; nothing where it cannot stand there.
std::optional<std::vector<int>> find_slots(const PlacementBridge& bridge, const UnitChoice& choice,
                                           std::span<const std::int32_t> ranks) {
  const int width = bridge.problem.ranks_per_host;
  if (choice.spread == Spread::kUniform) return std::vector<int>{};
  if (choice.spread == Spread::kDevice) return std::vector<int>(ranks.begin(), ranks.end());
  std::vector<int> hosts(static_cast<std::size_t>(choice.num_blocks), -1);
  for (std::size_t i = 0; i < ranks.size(); ++i) {
    // Several blocks that the choice takes as one are on one host.
    int& host = hosts[std::min(i / static_cast<std::size_t>(width), hosts.size() - 1)];
    if (host >= 0 && host != ranks[i] / width) return std::nullopt;
    host = ranks[i] / width;
    if (host >= bridge.problem.num_hosts()) return std::nullopt;
  }
  if (hosts.back() < 0) return std::nullopt;
  return hosts;
}

// Does an option of the bridge stand for one that it leaves out, at the same places?
bool stands_for(const PlacementBridge& bridge, const OptionSet& options, std::int32_t ours,
                std::int32_t theirs) {
  const auto plain = bridge.plain_name.find(ours);
  if (plain != bridge.plain_name.end() && plain->second == theirs) return true;
  const Option& a = options.options[static_cast<std::size_t>(ours)];
  const Option& b = options.options[static_cast<std::size_t>(theirs)];
  const bool is_whole = a.sharding_type == ShardingType::kTableWise && b.column_blocks == 1 &&
                        (b.sharding_type == ShardingType::kColumnWise ||
                         b.sharding_type == ShardingType::kTableColumnWise);
  const bool is_stand_in =
      is_whole ||
      (a.sharding_type == ShardingType::kColumnWise &&
       b.sharding_type == ShardingType::kTableColumnWise) ||
      (a.sharding_type == ShardingType::kRowWise &&
       b.sharding_type == ShardingType::kTableRowWise && bridge.problem.num_hosts() == 1);
  return is_stand_in && a.compute_kernel == b.compute_kernel &&
         a.cache_load_factor == b.cache_load_factor && a.column_blocks == b.column_blocks;
}

// Calls whole tables table_wise again in modules in which column_wise cuts none, so that the plan
// says what it does, with as many types.
void name_plainly(const PlacementBridge& bridge, const OptionSet& options,
                  std::vector<std::int32_t>& taken) {
  const auto module_of = [&options](std::int32_t option) -> const std::string& {
    const std::int32_t table = options.options[static_cast<std::size_t>(option)].table;
    return options.tables[static_cast<std::size_t>(table)].module_path;
  };
  std::set<std::string_view> has_columns;  // modules
  for (const std::int32_t o : taken) {
    const bool is_columns =
        options.options[static_cast<std::size_t>(o)].sharding_type == ShardingType::kColumnWise;
    if (is_columns && !bridge.plain_name.contains(o)) has_columns.insert(module_of(o));
  }
  for (std::int32_t& o : taken) {
    const auto plain = bridge.plain_name.find(o);
    if (plain != bridge.plain_name.end() && !has_columns.contains(module_of(o))) o = plain->second;
  }
}

}  // namespace

PlacedProposal to_proposal(const PlacementBridge& bridge, const OptionSet& options,
                           const balance::UnitPlacements& placements) {
  PLIMSOLL_DCHECK(balance::evaluate(bridge.problem, placements).is_allowed(),
                  "the placements are allowed");
  struct Taken {
    std::size_t unit = 0;
    std::int32_t option = -1;
  };
  std::vector<Taken> of_table(options.tables.size());
  for (std::size_t u = 0; u < bridge.tables.size(); ++u) {
    const auto choice = static_cast<std::size_t>(placements.units[u].choice);
    for (std::size_t i = 0; i < bridge.tables[u].size(); ++i) {
      of_table[static_cast<std::size_t>(bridge.tables[u][i])] = {u, bridge.options[u][choice][i]};
    }
  }
  PlacedProposal plan;
  plan.first_rank.push_back(0);
  for (const Taken& taken : of_table) {
    plan.options.push_back(taken.option);
    append_ranks(bridge, options.options[static_cast<std::size_t>(taken.option)],
                 placements.units[taken.unit], taken.unit, plan.ranks);
    plan.first_rank.push_back(static_cast<std::int64_t>(plan.ranks.size()));
  }
  name_plainly(bridge, options, plan.options);
  return plan;
}

std::optional<balance::UnitPlacements> find_placements(const PlacementBridge& bridge,
                                                       const OptionSet& options,
                                                       const PlacedProposal& plan) {
  std::vector<std::size_t> position(options.tables.size());
  for (std::size_t p = 0; p < plan.options.size(); ++p) {
    position[static_cast<std::size_t>(
        options.options[static_cast<std::size_t>(plan.options[p])].table)] = p;
  }
  balance::UnitPlacements placements;
  for (std::size_t u = 0; u < bridge.tables.size(); ++u) {
    balance::UnitPlacement placement;
    int best = -1;  // the same options before those that stand for them; then where columns begin
    for (std::size_t c = 0; c < bridge.options[u].size() && best < 3; ++c) {
      bool is_same = true, is_match = true;
      for (std::size_t i = 0; i < bridge.tables[u].size(); ++i) {
        const std::int32_t ours = bridge.options[u][c][i];
        const std::int32_t theirs =
            plan.options[position[static_cast<std::size_t>(bridge.tables[u][i])]];
        if (ours == theirs) continue;
        is_same = false;
        is_match &= stands_for(bridge, options, ours, theirs);
      }
      if (!is_match) continue;
      const std::size_t p = position[static_cast<std::size_t>(bridge.tables[u].front())];
      const auto first = static_cast<std::size_t>(plan.first_rank[p]);
      const auto last = static_cast<std::size_t>(plan.first_rank[p + 1]);
      const auto ranks = std::span(plan.ranks).subspan(first, last - first);
      if (shares_rank(bridge.problem.units[u].choices[c], ranks)) continue;
      const int score =
          2 * static_cast<int>(is_same) + static_cast<int>(begins_there(bridge, u, c, ranks));
      if (score <= best) continue;
      const auto slots = find_slots(bridge, bridge.problem.units[u].choices[c], ranks);
      if (!slots) return std::nullopt;
      best = score;
      placement.choice = static_cast<int>(c);
      placement.slots = *slots;
    }
    if (placement.choice < 0) return std::nullopt;
    placements.units.push_back(std::move(placement));
  }
  return placements;
}

}  // namespace plimsoll::embedding
