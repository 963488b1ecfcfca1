// Storage reservations: what is taken from every rank before tables are placed. They turn a
// topology into the "storage constraint" of the search. Source:
// docs/mathematics/torchrec-planner.md#storage-reservations.
#pragma once

#include <optional>
#include <string_view>

#include "plimsoll/core/result.h"
#include "plimsoll/embedding/cost_model.h"
#include "plimsoll/embedding/model.h"
#include "plimsoll/topology/topology.h"

#pragma GCC visibility push(default)
namespace plimsoll::embedding {

enum class ReservationKind {
  kHeuristical,
  kFixedPercentage,
  kInference,
  kFixedAbsolute,
  kSkuAware
};
std::string_view to_string(ReservationKind kind);  // "heuristical", "fixed_percentage", ...
template <>
std::optional<ReservationKind> find_enum<ReservationKind>(std::string_view name);
template <>
std::span<const std::string> enum_names<ReservationKind>();

struct ReservationOptions {
  ReservationKind kind = ReservationKind::kHeuristical;
  double percentage = 0.15;           // in [0, 1]; heuristical, fixed_percentage, inference
  double parameter_multiplier = 6.0;  // heuristical, sku_aware
  std::optional<Bytes> dense_tensor_estimate;  // replaces the computed dense part where non-zero
  Bytes absolute_bytes = 0;                    // fixed_absolute
  Bytes margin_bytes = 0;                      // sku_aware
  Bytes overhead_bytes = 0;                    // sku_aware
  std::optional<Bytes> base_bytes;             // sku_aware
  bool operator==(const ReservationOptions&) const = default;
};

struct Reservation {
  ReservationOptions options;
  topology::Topology topology;             // what is left; a copy, the input is never changed
  double percentage = 0;                   // as the report prints it
  std::optional<topology::Storage> dense;  // per rank
  std::optional<topology::Storage>
      kjt;  // per rank; for fixed_percentage from 1.7 computed but not subtracted
};

// Error kPlanner "insufficient_storage" with the reference's text where nothing is left on rank 0;
// kUsage: a kind the release has not; kOverflow: dense parts and ids of more than 2^63 - 1 bytes a
// rank, which the reference, with integers of any size, would still print.
Result<Reservation> reserve(const CostModel& cost_model, const ReservationOptions& options,
                            const topology::Topology& topology, const Model& model,
                            std::int64_t batch_size);

// Why reserving leaves nothing on rank 0, in bytes. `missing`: with so many more on every rank it
// leaves something, with one less it does not.
struct ReservationShortage {
  Bytes capacity = 0;
  Bytes margin = 0;  // of that capacity
  Bytes dense = 0;
  Bytes ids = 0;  // of the batches that are alive
  Bytes missing = 0;
  bool operator==(const ReservationShortage&) const = default;
};

// A rank from which more is reserved than it has.
struct OverdrawnRank {
  int rank = 0;
  std::string tier;     // "hbm", "ddr", "ssd"
  Bytes missing = 0;    // > 0
  Error error() const;  // kPlanner "insufficient_storage", placed at the rank
};

// The rank of a reserved topology that lacks most, of equal ones the first; of several tiers the
// first that any rank lacks. (The reference looks at the HBM of rank 0 alone.)
std::optional<OverdrawnRank> find_overdrawn_rank(const topology::Topology& reserved);

// Nothing where reserving does not fail because storage is short, or no capacity would be enough.
// Some hundred reservations.
std::optional<ReservationShortage> find_reservation_shortage(const CostModel& cost_model,
                                                             const ReservationOptions& options,
                                                             const topology::Topology& topology,
                                                             const Model& model,
                                                             std::int64_t batch_size);

// round(sum of multiplier * parameter bytes + sum of buffer bytes), the reference's module size, of
// one module or of the whole model; at most 2^63 - 1.
Bytes module_size(const Module& module, double multiplier);
Bytes model_size(const Model& model, double multiplier);

}  // namespace plimsoll::embedding
#pragma GCC visibility pop
