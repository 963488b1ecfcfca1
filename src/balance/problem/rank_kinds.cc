#include "balance/problem/rank_kinds.h"

#include <algorithm>
#include <map>
#include <tuple>
#include <utility>

#include "core/check.h"

namespace plimsoll::balance {
namespace {

// Numbers from 0 in order of first appearance.
template <class Key>
class Numbers {
 public:
  int of(Key key) {
    return known_.emplace(std::move(key), static_cast<int>(known_.size())).first->second;
  }
  int size() const { return static_cast<int>(known_.size()); }

 private:
  std::map<Key, int> known_;
};

enum class Detail { kAll, kNoLists, kNothing };

// What tells ranks apart, without hosts.
std::vector<int> number_ranks(const PlacementProblem& problem, Detail detail) {
  const auto num_ranks = static_cast<std::size_t>(problem.num_ranks);
  std::vector<int> number(num_ranks, 0);
  if (detail == Detail::kNothing) return number;
  std::vector<std::vector<int>> lists(num_ranks);
  if (detail == Detail::kAll) {
    Numbers<std::vector<int>> known;
    for (const Unit& unit : problem.units) {
      if (unit.allowed_ranks.empty()) continue;
      const int before = known.size();
      const int list = known.of(unit.allowed_ranks);
      if (list < before) continue;
      for (const int rank : unit.allowed_ranks) lists[rank].push_back(list);
    }
  }
  Numbers<std::tuple<int, Amounts, std::vector<int>>> known;
  for (int rank = 0; rank < problem.num_ranks; ++rank) {
    number[rank] = known.of({problem.class_of(rank), problem.caps[rank], std::move(lists[rank])});
  }
  return number;
}

RankKinds make_kinds(const PlacementProblem& problem, Detail detail) {
  const std::vector<int> number = number_ranks(problem, detail);
  const int width = problem.ranks_per_host;
  RankKinds result;
  result.num_resources = problem.num_resources();
  Numbers<std::vector<int>> known_hosts;
  std::vector<int> kind_of_host;
  for (int host = 0; host < problem.num_hosts(); ++host) {
    const auto first = number.begin() + static_cast<std::ptrdiff_t>(host) * width;
    const int kind = known_hosts.of({first, first + width});
    kind_of_host.push_back(kind);
    if (kind == static_cast<int>(result.host_kinds.size())) result.host_kinds.emplace_back();
    result.host_kinds[kind].hosts.push_back(host);
  }
  Numbers<std::pair<int, int>> known;
  for (int rank = 0; rank < problem.num_ranks; ++rank) {
    const int host = rank / width;
    const bool has_host = host < problem.num_hosts();
    const int host_kind = has_host ? kind_of_host[host] : -1;
    const int kind = known.of({number[rank], host_kind});
    result.kind_of_rank.push_back(kind);
    if (kind == result.num_kinds()) result.kinds.emplace_back().host_kind = host_kind;
    RankKind& k = result.kinds[kind];
    k.ranks.push_back(rank);
    k.classes.push_back(problem.class_of(rank));
    if (has_host && result.host_kinds[host_kind].hosts.front() == host) {
      result.host_kinds[host_kind].kinds.push_back(kind);
    }
    const int end = (host + 1) * width;
    for (int resource = 0; resource < problem.num_resources(); ++resource) {
      Bytes cap = problem.caps[rank][resource];
      if (problem.resources[resource].is_pooled && has_host) {
        if (k.ranks.size() > 1 && k.ranks[k.ranks.size() - 2] / width == host) continue;
        cap = 0;
        for (int r = host * width; r < end; ++r) cap += problem.caps[r][resource];
      }
      k.cap[resource] = std::max(k.cap[resource], cap);
    }
  }
  for (RankKind& kind : result.kinds) {
    std::sort(kind.classes.begin(), kind.classes.end());
    kind.classes.erase(std::unique(kind.classes.begin(), kind.classes.end()), kind.classes.end());
  }
  // Accounts: a resource's price is one for all ranks of a pool.
  for (int resource = 0; resource < problem.num_resources(); ++resource) {
    std::vector<int> of_host_kind(result.host_kinds.size(), -1);
    for (RankKind& kind : result.kinds) {
      const bool is_pooled = problem.resources[resource].is_pooled && kind.host_kind >= 0;
      int& shared = is_pooled ? of_host_kind[kind.host_kind] : kind.account[resource];
      if (!is_pooled || shared < 0) {
        shared = static_cast<int>(result.accounts.size());
        result.accounts.push_back({resource, 0});
      }
      kind.account[resource] = shared;
      for (const int rank : kind.ranks) result.accounts[shared].cap += problem.caps[rank][resource];
    }
  }
  return result;
}

}  // namespace

std::int64_t RankKinds::count(int kind, std::int64_t begin, std::int64_t end) const {
  if (num_kinds() == 1) return end - begin;
  const std::vector<int>& ranks = kinds[kind].ranks;
  return std::lower_bound(ranks.begin(), ranks.end(), end) -
         std::lower_bound(ranks.begin(), ranks.end(), begin);
}

RankKinds make_rank_kinds(const PlacementProblem& problem) {
  PLIMSOLL_DCHECK(validate(problem).has_value(), "the problem is valid");
  for (const Detail detail : {Detail::kAll, Detail::kNoLists}) {
    RankKinds result = make_kinds(problem, detail);
    if (result.num_kinds() <= kMaxRankKinds &&
        static_cast<int>(result.host_kinds.size()) <= kMaxRankKinds) {
      return result;
    }
  }
  return make_kinds(problem, Detail::kNothing);
}

}  // namespace plimsoll::balance
