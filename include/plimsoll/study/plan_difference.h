// What differs between two plans of one kind: decisions part by part, milliseconds and bytes place
// by place, what has to be moved from the one to the other, and what makes the largest differences.
//
// Parts are the same where their names are, places where their names are. How bytes to move are
// counted: docs/diff.md#bytes-over-each-link.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "plimsoll/core/result.h"
#include "plimsoll/core/units.h"
#include "plimsoll/embedding/model.h"
#include "plimsoll/study/plan_outline.h"

#pragma GCC visibility push(default)
namespace plimsoll::study {

enum class ChangeKind { kAdded, kRemoved, kMoved, kSplit, kOther };
std::string_view to_string(ChangeKind kind);  // "added", "removed", "moved", "split", "changed"

struct PartChange {
  std::string name;
  // kMoved: other places alone. kSplit: cut otherwise, another sharding type among it.
  ChangeKind kind = ChangeKind::kOther;
  std::map<std::string, std::string> before,
      after;  // the choices that differ; all of an added part
  // Of a table: values that a rank needs and does not hold before, all its ranks together.
  std::int64_t moved_values = 0;
  std::optional<Bytes> moved_bytes;  // of weights; absent without the model
  bool operator==(const PartChange&) const = default;
};

struct FigureChange {
  std::string name;
  std::optional<double> before, after;
  bool operator==(const FigureChange&) const = default;
};

// What a rank sends and receives over its link within the host, or that between hosts, so that the
// second plan's shards stand where it wants them. Values; bytes where the model tells them.
struct RankTraffic {
  int rank = 0;
  bool is_between_hosts = false;
  std::int64_t sent_values = 0, received_values = 0;
  std::optional<Bytes> sent_bytes, received_bytes;
  bool operator==(const RankTraffic&) const = default;
};

// What device `from` sends device `to` for one sample or microbatch.
struct LinkChange {
  int from = 0, to = 0;
  double before = 0, after = 0;
  bool operator==(const LinkChange&) const = default;
};

// Why a place's total differs: its causes, the largest difference first, and the changed parts that
// stand there before or after, most values moved first.
struct DifferenceReason {
  std::string place;
  bool is_bytes = false;  // else milliseconds
  double before = 0, after = 0;
  std::vector<FigureChange> causes;
  std::vector<std::string> parts;
  bool operator==(const DifferenceReason&) const = default;
};

struct PlanDifference {
  PlanKind kind = PlanKind::kSharding;
  bool is_different = false;  // are decisions or places different?
  std::size_t num_parts = 0;  // of both plans together, each name once
  std::vector<FigureChange> figures;
  std::vector<PartChange> changes;   // in the order of the second plan, removed parts last
  std::vector<std::string> places;   // of both plans: those of the first, then new ones
  Bill before, after;                // [places] each; 0 where a plan has no such place
  std::vector<RankTraffic> traffic;  // of sharding plans, by rank; what moves nothing is left out
  std::vector<LinkChange> links;     // of placements; both directions, equal ones left out
  std::vector<DifferenceReason> reasons;  // the largest differences, milliseconds first
};

// Error kUsage, at "plans": plans of two kinds.
Result<PlanDifference> compare_plans(const PlanOutline& before, const PlanOutline& after);

// The same, with what has to be moved. `model` may be null. Errors as above, and kValue at "plan":
// an answer without a plan. Shards of a table that overlap are counted as they stand.
// O(shards log shards + overlapping pairs of old and new shards).
Result<PlanDifference> compare_plans(const ShardingAnswer& before, const ShardingAnswer& after,
                                     const embedding::Model* model);

}  // namespace plimsoll::study
#pragma GCC visibility pop
