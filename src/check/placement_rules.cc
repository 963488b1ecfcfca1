#include "check/placement_rules.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <set>
#include <string>
#include <utility>

namespace plimsoll::check {
namespace {

using Ranks = std::set<int>;

bool is_of_hosts(embedding::ShardingType type) {
  return type == embedding::ShardingType::kTableRowWise ||
         type == embedding::ShardingType::kTableColumnWise ||
         type == embedding::ShardingType::kGridShard;
}

class RuleCheck {
 public:
  RuleCheck(const embedding::ShardingPlan& plan, int ranks_per_host)
      : ranks_per_host_(ranks_per_host) {
    for (const embedding::TableSharding& sharding : plan.tables) {
      if (is_of_hosts(sharding.sharding_type)) of_hosts_.insert(sharding.fqn());
      Ranks& ranks = ranks_of_[sharding.fqn()];
      for (const embedding::RankRun& run : sharding.ranks) {
        for (std::int64_t i = 0; i < run.count; ++i) ranks.insert(static_cast<int>(run.first + i));
      }
    }
  }

  void check_allowed(const std::string& fqn, const std::vector<int>& allowed) {
    for (const int rank : ranks_of(fqn)) {
      if (std::binary_search(allowed.begin(), allowed.end(), rank)) continue;
      return add(fqn, rank, "the table stands on a rank that its rule does not allow");
    }
  }

  void check_forbidden(const std::string& fqn, const std::vector<int>& forbidden) {
    for (const int rank : ranks_of(fqn)) {
      if (!std::binary_search(forbidden.begin(), forbidden.end(), rank)) continue;
      return add(fqn, rank, "the table stands on a rank that its rule forbids");
    }
  }

  void check_together(const std::vector<std::string>& fqns) {
    const std::string* first = nullptr;
    for (const std::string& fqn : fqns) {
      if (!ranks_of_.contains(fqn)) continue;
      if (first == nullptr) first = &fqn;
      const bool are_of_hosts = of_hosts_.contains(fqn) && of_hosts_.contains(*first);
      if (are_of_hosts ? hosts_of(fqn) == hosts_of(*first) : ranks_of(fqn) == ranks_of(*first)) {
        continue;
      }
      add(fqn, std::nullopt,
          fmt::format("the table stands on other {} than {}, with which a rule holds it together",
                      are_of_hosts ? "hosts" : "ranks", *first));
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

  std::vector<Violation> take() { return std::move(violations_); }

 private:
  const Ranks& ranks_of(const std::string& fqn) const {
    static const Ranks kNone;
    const auto found = ranks_of_.find(fqn);
    return found == ranks_of_.end() ? kNone : found->second;
  }

  std::set<int> hosts_of(const std::string& fqn) const {
    std::set<int> hosts;
    for (const int rank : ranks_of(fqn)) hosts.insert(rank / ranks_per_host_);
    return hosts;
  }

  void add(const std::string& fqn, std::optional<int> rank, std::string message) {
    violations_.push_back({ViolationCode::kRuleBroken, fqn, rank, "", "", std::move(message)});
  }

  int ranks_per_host_;
  std::set<std::string> of_hosts_;         // fqns
  std::map<std::string, Ranks> ranks_of_;  // by fqn
  std::vector<Violation> violations_;
};

}  // namespace

std::vector<Violation> find_broken_rules(const embedding::ShardingPlan& plan,
                                         const embedding::BridgeOptions& rules,
                                         int ranks_per_host) {
  RuleCheck check(plan, ranks_per_host);
  for (const auto& [fqn, ranks] : rules.allowed_ranks) check.check_allowed(fqn, ranks);
  for (const auto& [fqn, ranks] : rules.forbidden_ranks) check.check_forbidden(fqn, ranks);
  for (const auto& fqns : rules.together) check.check_together(fqns);
  for (const auto& fqns : rules.apart) check.check_apart(fqns);
  return check.take();
}

}  // namespace plimsoll::check
