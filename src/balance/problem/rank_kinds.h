// Ranks and hosts that a bound may treat alike.
//
// Two ranks are of one kind where they have the same class, the same caps, stand in the same lists
// of allowed ranks and in hosts of one kind; hosts are of one kind where their ranks are, in order.
// By symmetry one price a kind is as good as one a rank. Where that makes more than kMaxRankKinds
// kinds, first the lists and then classes and caps are no longer told apart: a kind then stands for
// its best rank (least loads, largest caps), which only relaxes.
// Source: docs/mathematics/balanced-sharding.md#kinds-of-ranks.
#pragma once

#include <cstdint>
#include <vector>

#include "plimsoll/balance/placement_problem.h"

namespace plimsoll::balance {

inline constexpr int kMaxRankKinds = 16;

// Bytes of one resource that are counted together: those of all ranks of a kind, or, where the
// resource is pooled, of all pools of a kind of hosts.
struct MemoryAccount {
  int resource = 0;
  Bytes cap = 0;  // of all its ranks together
  bool operator==(const MemoryAccount&) const = default;
};

struct RankKind {
  std::vector<int> ranks;    // ascending
  std::vector<int> classes;  // ascending; one unless relaxed
  Amounts cap{};             // the largest of any of its ranks; of pooled resources: of any pool
  int host_kind = -1;        // -1: ranks without host
  PerResource<int> account{};
  bool operator==(const RankKind&) const = default;
};

struct HostKind {
  std::vector<int> hosts;  // ascending
  std::vector<int> kinds;  // [ranks_per_host] of its ranks, in order
  bool operator==(const HostKind&) const = default;
};

struct RankKinds {
  std::vector<int> kind_of_rank;  // [num_ranks]
  std::vector<RankKind> kinds;    // in order of their first ranks
  std::vector<HostKind> host_kinds;
  std::vector<MemoryAccount> accounts;
  int num_resources = 0;

  int num_kinds() const { return static_cast<int>(kinds.size()); }
  // Ranks of a kind in [begin, end).
  std::int64_t count(int kind, std::int64_t begin, std::int64_t end) const;
  bool operator==(const RankKinds&) const = default;
};

// O(ranks log ranks + length of all lists of allowed ranks). Precondition: a valid problem.
RankKinds make_rank_kinds(const PlacementProblem& problem);

}  // namespace plimsoll::balance
