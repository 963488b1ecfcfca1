#include "embedding/problem/plan_faults.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <set>

#include "core/check.h"
#include "embedding/problem/option_hazards.h"
#include "plimsoll/embedding/perf_model.h"

namespace plimsoll::embedding {
namespace {

using Ranks = std::set<int>;
using Fault = std::optional<std::string>;

bool is_of_hosts(ShardingType type) {
  return type == ShardingType::kTableRowWise || type == ShardingType::kTableColumnWise ||
         type == ShardingType::kGridShard;
}

class FaultFinder {
 public:
  FaultFinder(const BridgeInput& input, const BridgeOptions& rules, const PlacedProposal& plan)
      : options_(*input.options), input_(input), rules_(rules), plan_(plan) {
    const std::set<std::string> ruled = tables_of_rules();
    for (std::size_t p = 0; p < plan.options.size(); ++p) {
      const Option& option = options_.options[static_cast<std::size_t>(plan.options[p])];
      const TableOptions& table = options_.tables[static_cast<std::size_t>(option.table)];
      if (table.dependency.empty() && option.sharding_type != ShardingType::kTableColumnWise &&
          !ruled.contains(table.fqn)) {
        continue;  // its ranks do not matter
      }
      type_of_[table.fqn] = option.sharding_type;
      Ranks& ranks = ranks_of_[table.fqn];
      for_each_shard(options_, plan, p, [&](const ShardView& shard) {
        ranks.insert(shard.rank);
        ++num_shards_[table.fqn];
      });
    }
  }

  Fault find() const {
    if (Fault fault = find_overload()) return fault;
    if (Fault fault = find_numeric()) return fault;
    if (Fault fault = find_shared_rank()) return fault;
    if (Fault fault = find_lost_group()) return fault;
    for (const auto& [fqn, allowed] : rules_.allowed_ranks) {
      const Ranks& ranks = ranks_of(fqn);
      if (std::includes(allowed.begin(), allowed.end(), ranks.begin(), ranks.end())) continue;
      return fmt::format("puts {} on a rank that a rule does not allow", fqn);
    }
    for (const auto& [fqn, forbidden] : rules_.forbidden_ranks) {
      if (!share_rank(ranks_of(fqn), {forbidden.begin(), forbidden.end()})) continue;
      return fmt::format("puts {} on a rank that a rule forbids", fqn);
    }
    if (Fault fault = find_parted()) return fault;
    return find_joined();
  }

 private:
  std::set<std::string> tables_of_rules() const {
    std::set<std::string> fqns;
    for (const auto& [fqn, ranks] : rules_.allowed_ranks) fqns.insert(fqn);
    for (const auto& [fqn, ranks] : rules_.forbidden_ranks) fqns.insert(fqn);
    for (const auto& group : rules_.together) fqns.insert(group.begin(), group.end());
    for (const auto& group : rules_.apart) fqns.insert(group.begin(), group.end());
    return fqns;
  }

  const Ranks& ranks_of(const std::string& fqn) const {
    static const Ranks kNone;
    const auto found = ranks_of_.find(fqn);
    return found == ranks_of_.end() ? kNone : found->second;
  }

  static bool share_rank(const Ranks& a, const Ranks& b) {
    return std::any_of(a.begin(), a.end(), [&b](int rank) { return b.contains(rank); });
  }

  Fault find_overload() const {
    const auto pool = static_cast<std::size_t>(rules_.pools_ddr ? options_.local_world_size : 1);
    const std::vector<Storage> used = rank_storage(options_, plan_);
    Bytes ddr_left = 0;
    for (std::size_t r = 0; r < used.size(); ++r) {
      const Storage& cap = input_.room->devices[r];
      const Bytes hbm = std::max<Bytes>(cap.hbm, 0);
      if (used[r].hbm > std::min(hbm, rules_.max_hbm.value_or(hbm)) ||
          used[r].ssd > std::max<Bytes>(cap.ssd, 0)) {
        return fmt::format("needs more memory than rank {} has", r);
      }
      ddr_left += std::max<Bytes>(cap.ddr, 0) - used[r].ddr;
      if ((r + 1) % pool != 0 && r + 1 != used.size()) continue;
      if (ddr_left < 0) return fmt::format("needs more DDR than rank {} has", r);
      ddr_left = 0;
    }
    return std::nullopt;
  }

  // Columns with an optimizer state each.
  Fault find_numeric() const {
    if (!rules_.strict_numerics || input_.model == nullptr) return std::nullopt;
    const std::vector<bool> is_numeric = find_numeric_options(options_, *input_.model);
    for (const std::int32_t index : plan_.options) {
      if (!is_numeric[static_cast<std::size_t>(index)]) continue;
      const Option& option = options_.options[static_cast<std::size_t>(index)];
      return fmt::format("has optimizer_state_per_block of {}",
                         options_.tables[static_cast<std::size_t>(option.table)].fqn);
    }
    return std::nullopt;
  }

  // Columns that want a rank each, on one.
  Fault find_shared_rank() const {
    for (const std::int32_t index : plan_.options) {
      const Option& option = options_.options[static_cast<std::size_t>(index)];
      const std::string& fqn = options_.tables[static_cast<std::size_t>(option.table)].fqn;
      if (options_.wants_distinct_ranks(option) &&
          std::ssize(ranks_of(fqn)) < option.column_blocks) {
        return fmt::format("puts two columns of {} on one rank, which its kernel forbids", fqn);
      }
    }
    return std::nullopt;
  }

  // Columns of one host, and tables of one tower, beyond a fast domain.
  Fault find_lost_group() const {
    std::map<std::string, int> home_of;  // the domain, by dependency
    for (const TableOptions& table : options_.tables) {
      const Ranks& ranks = ranks_of(table.fqn);
      const bool is_tower = !table.dependency.empty() && table.module >= 0;
      if (ranks.empty() ||
          (!is_tower && type_of_.at(table.fqn) != ShardingType::kTableColumnWise)) {
        continue;
      }
      int home = *ranks.begin() / options_.group_size;
      if (is_tower) home = home_of.try_emplace(table.dependency, home).first->second;
      const int first = home * options_.group_size;
      if (*ranks.begin() < first || *ranks.rbegin() >= first + options_.group_size ||
          first + options_.group_size > options_.world_size) {
        return fmt::format("spreads {} over several hosts",
                           is_tower ? table.dependency : table.fqn);
      }
    }
    return std::nullopt;
  }

  // Where a table stands that others may be held to: on one rank, on one domain or everywhere;
  // nothing of one in several places.
  std::optional<std::pair<PartitionBy, int>> place_of(const std::string& fqn) const {
    const Ranks& ranks = ranks_of(fqn);
    const ShardingType type = type_of_.at(fqn);
    if (type == ShardingType::kRowWise || type == ShardingType::kDataParallel) {
      return std::pair(PartitionBy::kUniform, 0);
    }
    if (is_of_hosts(type)) {
      const int domain = *ranks.begin() / options_.group_size;
      if (*ranks.rbegin() / options_.group_size != domain) return std::nullopt;
      return std::pair(PartitionBy::kHost, domain);
    }
    if (num_shards_.at(fqn) != 1) return std::nullopt;
    return std::pair(PartitionBy::kDevice, *ranks.begin());
  }

  Fault find_parted() const {
    for (const std::vector<std::string>& fqns : rules_.together) {
      const std::string& first = fqns.front();
      for (const std::string& fqn : fqns) {
        if (fqn == first || ranks_of(fqn).empty() || ranks_of(first).empty()) continue;
        const auto place = place_of(fqn);
        if (place && place == place_of(first)) continue;
        return fmt::format("parts {} and {}, which a rule holds together", first, fqn);
      }
    }
    return std::nullopt;
  }

  Fault find_joined() const {
    for (const std::vector<std::string>& fqns : rules_.apart) {
      for (std::size_t i = 0; i < fqns.size(); ++i) {
        for (std::size_t j = 0; j < i; ++j) {
          if (fqns[i] == fqns[j] || !share_rank(ranks_of(fqns[i]), ranks_of(fqns[j]))) continue;
          return fmt::format("puts {} and {}, which a rule keeps apart, on one rank", fqns[j],
                             fqns[i]);
        }
      }
    }
    return std::nullopt;
  }

  const OptionSet& options_;
  const BridgeInput& input_;
  const BridgeOptions& rules_;
  const PlacedProposal& plan_;
  std::map<std::string, Ranks> ranks_of_;           // by fqn, of those that matter
  std::map<std::string, ShardingType> type_of_;     // by fqn
  std::map<std::string, std::int64_t> num_shards_;  // by fqn
};

}  // namespace

bool is_placed_plan(const OptionSet& options, const PlacedProposal& plan) {
  if (plan.options.size() != options.tables.size() ||
      plan.first_rank.size() != plan.options.size() + 1) {
    return false;
  }
  std::vector<bool> is_placed(options.tables.size());
  for (const std::int32_t number : plan.options) {
    if (number < 0 || static_cast<std::size_t>(number) >= options.options.size()) return false;
    const auto table = static_cast<std::size_t>(options.options[number].table);
    if (is_placed[table]) return false;
    is_placed[table] = true;
  }
  return plan.first_rank.back() == static_cast<std::int64_t>(plan.ranks.size()) &&
         std::all_of(plan.ranks.begin(), plan.ranks.end(), [&options](std::int32_t rank) {
           return rank >= 0 && rank < options.world_size;
         });
}

std::optional<std::string> find_plan_fault(const BridgeInput& input, const BridgeOptions& rules,
                                           const PlacedProposal& plan) {
  PLIMSOLL_DCHECK(is_placed_plan(*input.options, plan), "the plan places an option of every table");
  return FaultFinder(input, rules, plan).find();
}

std::string why_not_taken(const BridgeInput& input, const BridgeOptions& rules,
                          const PlacedProposal& better, const PlacedProposal& taken) {
  if (Fault fault = find_plan_fault(input, rules, better)) return *std::move(fault);
  static const Model kNone;
  const Model& model = input.model != nullptr ? *input.model : kNone;
  const auto hazards_of = [&](const PlacedProposal& plan) {
    return find_plan_hazards(*input.options, *input.room, model, plan.options);
  };
  const std::vector<TableHazard> hazards = hazards_of(better);
  std::string text =
      fmt::format("holds {} hazard(s) and this one {}", hazards.size(), hazards_of(taken).size());
  constexpr std::size_t kMaxNamed = 3;
  for (std::size_t i = 0; i < std::min(hazards.size(), kMaxNamed); ++i) {
    text += fmt::format("{}{} of {}", i == 0 ? ": " : ", ", hazards[i].name,
                        input.options->tables[static_cast<std::size_t>(hazards[i].table)].fqn);
  }
  return text + (hazards.size() > kMaxNamed ? ", ..." : "");
}

}  // namespace plimsoll::embedding
