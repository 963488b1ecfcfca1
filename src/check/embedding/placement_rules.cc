#include "check/embedding/placement_rules.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <set>
#include <string>
#include <utility>

#include "core/check.h"

namespace plimsoll::check {
namespace {

using Ranks = std::set<int>;

bool is_of_hosts(embedding::ShardingType type) {
  return type == embedding::ShardingType::kTableRowWise ||
         type == embedding::ShardingType::kTableColumnWise ||
         type == embedding::ShardingType::kGridShard;
}

bool is_everywhere(embedding::ShardingType type) {
  return type == embedding::ShardingType::kRowWise ||
         type == embedding::ShardingType::kDataParallel;
}

enum class PlaceKind { kRank, kHost, kEverywhere };
using Place = std::pair<PlaceKind, int>;  // the rank or host

class RuleCheck {
 public:
  RuleCheck(const embedding::ShardingPlan& plan, int ranks_per_host)
      : ranks_per_host_(ranks_per_host) {
    for (const embedding::TableSharding& sharding : plan.tables) {
      if (is_of_hosts(sharding.sharding_type)) of_hosts_.insert(sharding.fqn());
      if (is_everywhere(sharding.sharding_type)) everywhere_.insert(sharding.fqn());
      Ranks& ranks = ranks_of_[sharding.fqn()];
      for (const embedding::RankRun& run : sharding.ranks) {
        for (std::int64_t i = 0; i < run.count; ++i) ranks.insert(static_cast<int>(run.first + i));
        num_shards_[sharding.fqn()] += run.count;
      }
    }
  }

  void check_allowed(const std::string& fqn, const std::vector<int>& allowed) {
    for (const int rank : ranks_of(fqn)) {
      if (std::binary_search(allowed.begin(), allowed.end(), rank)) continue;
      return add(fqn, rank, "the table is on a rank that its rule does not allow");
    }
  }

  void check_forbidden(const std::string& fqn, const std::vector<int>& forbidden) {
    for (const int rank : ranks_of(fqn)) {
      if (!std::binary_search(forbidden.begin(), forbidden.end(), rank)) continue;
      return add(fqn, rank, "the table is on a rank that its rule forbids");
    }
  }

  void check_together(const std::vector<std::string>& fqns) {
    const std::string* first = nullptr;
    for (const std::string& fqn : fqns) {
      if (!ranks_of_.contains(fqn)) continue;
      if (first == nullptr) first = &fqn;
      const std::optional<Place> place = place_of(fqn);
      if (fqn == *first || (place && place == place_of(*first))) continue;
      add(fqn, std::nullopt,
          fmt::format("a rule holds the table together with {}, but they are not on one rank, on "
                      "one host or on all ranks",
                      *first));
    }
  }

  void check_apart(const std::vector<std::string>& fqns) {
    std::map<int, std::string> holder;  // by rank
    for (const std::string& fqn : fqns) {
      for (const int rank : ranks_of(fqn)) {
        const auto [entry, is_new] = holder.try_emplace(rank, fqn);
        if (is_new || entry->second == fqn) continue;
        add(fqn, rank,
            fmt::format("the table shares a rank with {}, from which a rule keeps it apart",
                        entry->second));
        break;
      }
    }
  }

  std::vector<Finding> take() { return std::move(violations_); }

 private:
  const Ranks& ranks_of(const std::string& fqn) const {
    static const Ranks kNone;
    const auto found = ranks_of_.find(fqn);
    return found == ranks_of_.end() ? kNone : found->second;
  }

  // Where a table stands that others may be held to; nothing of one in several places.
  std::optional<Place> place_of(const std::string& fqn) const {
    const Ranks& ranks = ranks_of(fqn);
    if (everywhere_.contains(fqn)) return Place{PlaceKind::kEverywhere, 0};
    if (ranks.empty()) return std::nullopt;
    if (of_hosts_.contains(fqn)) {
      const int host = *ranks.begin() / ranks_per_host_;
      if (*ranks.rbegin() / ranks_per_host_ != host) return std::nullopt;
      return Place{PlaceKind::kHost, host};
    }
    if (num_shards_.at(fqn) != 1) return std::nullopt;
    return Place{PlaceKind::kRank, *ranks.begin()};
  }

  void add(const std::string& fqn, std::optional<int> rank, std::string message) {
    violations_.push_back({FindingCode::kRuleBroken, fqn, find_unit(FindingUnit::kRank, rank), "",
                           "", std::move(message)});
  }

  int ranks_per_host_;
  std::set<std::string> of_hosts_, everywhere_;     // fqns
  std::map<std::string, std::int64_t> num_shards_;  // by fqn
  std::map<std::string, Ranks> ranks_of_;           // by fqn
  std::vector<Finding> violations_;
};

bool is_ascending(const std::map<std::string, std::vector<int>>& rules) {
  return std::all_of(rules.begin(), rules.end(), [](const auto& rule) {
    return std::is_sorted(rule.second.begin(), rule.second.end());
  });
}

}  // namespace

std::vector<Finding> find_broken_rules(const embedding::ShardingPlan& plan,
                                       const embedding::BridgeOptions& rules, int ranks_per_host) {
  PLIMSOLL_DCHECK(is_ascending(rules.allowed_ranks) && is_ascending(rules.forbidden_ranks),
                  "ranks ascend in every rule");
  RuleCheck check(plan, ranks_per_host);
  for (const auto& [fqn, ranks] : rules.allowed_ranks) check.check_allowed(fqn, ranks);
  for (const auto& [fqn, ranks] : rules.forbidden_ranks) check.check_forbidden(fqn, ranks);
  for (const auto& fqns : rules.together) check.check_together(fqns);
  for (const auto& fqns : rules.apart) check.check_apart(fqns);
  return check.take();
}

}  // namespace plimsoll::check
