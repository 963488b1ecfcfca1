// What planning embedding tables over ranks answers.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "plimsoll/balance/placement_bound.h"
#include "plimsoll/embedding/machine_model.h"
#include "plimsoll/embedding/plan_times.h"
#include "plimsoll/embedding/sharding_plan.h"
#include "plimsoll/math/frontier.h"
#include "plimsoll/study/answer.h"

#pragma GCC visibility push(default)
namespace plimsoll::study {

// `count` equal shards in shard order, as in ShardSizeRun, with bytes and ms of one of them.
struct ShardCosts {
  embedding::ShardSizeRun size;
  Bytes hbm = 0, ddr = 0, ssd = 0;
  double perf = 0;  // total
  bool operator==(const ShardCosts&) const = default;
};

// The option of a dump that a table takes, and the rank of each of its shards, in shard order.
struct TakenOption {
  std::string fqn;
  std::int64_t option = 0;  // into the dump's options
  std::optional<std::uint64_t> storage_hash;
  std::vector<std::int32_t> ranks;
  std::vector<ShardCosts> shards;
  bool operator==(const TakenOption&) const = default;
};

// A point's plan: the tables, and of a dump the options, that stand otherwise than in the answer's
// own. Of options without `shards`, which the dump tells.
struct FrontierPlan {
  std::vector<embedding::TableSharding> tables;
  std::vector<TakenOption> options;
  bool operator==(const FrontierPlan&) const = default;
};

// What proves that no plan of fewer bytes than a point's is below the point before, or, of the
// first, that there is none.
struct FrontierProof {
  std::optional<balance::PlacementBound> bound;
  bool operator==(const FrontierProof&) const = default;
};

struct ShardingAnswer : Answer<embedding::ShardingPlan> {
  std::optional<double> rating;
  std::optional<embedding::BalanceObjective> objective;  // of the balanced search
  std::optional<embedding::PlanTimes> times, reference;  // the plan's; the reference plan's
  std::vector<TakenOption> options;                      // where the options came from a dump
  Bill bill;
  // What the times of a machine model rest on that was not measured.
  std::vector<embedding::Extrapolation> extrapolated;
  std::optional<balance::PlacementBound> bound;  // in the certificate: what proves it
  std::vector<math::FrontierPoint> frontier;     // by bytes of HBM a rank
  std::vector<math::FrontierPoint> frontier_bound;
  std::vector<FrontierPlan> frontier_plans;    // [frontier] or empty
  std::vector<FrontierProof> frontier_proofs;  // [frontier_bound] or empty
};

}  // namespace plimsoll::study
#pragma GCC visibility pop
