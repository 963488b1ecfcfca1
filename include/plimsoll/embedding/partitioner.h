// Partitioners: which rank takes which shard of a proposal. Source:
// docs/mathematics/torchrec-planner.md#partitioners.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "plimsoll/core/result.h"
#include "plimsoll/embedding/cost_model.h"
#include "plimsoll/embedding/option_set.h"
#include "plimsoll/embedding/proposer.h"
#include "plimsoll/topology/topology.h"

#pragma GCC visibility push(default)
namespace plimsoll::embedding {

// Where and why a placement failed; turned into the reference's text only when somebody asks for it
// (thousands of proposals fail in one search).
struct PartitionFailure {
  enum class Reason {
    kNoRankForShard,        // device placement: no rank has room
    kUniformDoesNotFit,     // a row_wise or data_parallel shard on its rank
    kUniformShardCount,     // not one shard per rank
    kNoHostForGroup,        // host placement
    kNoHostsForGrid,        // multi-host placement
    kGridShardCount,        // column blocks do not fill hosts
    kGroupOfGrids,          // several options in a multi-host group
    kTooManyColumnShards,   // key_value column shards, one per rank
    kNoRankForColumnShard,  // key_value column shards
    kCustom,                // `message` says it
  };
  Reason reason = Reason::kCustom;
  std::int32_t option = -1;  // of the first option of the group
  std::int64_t shard = 0;    // in shard order
  std::int32_t rank = -1;
  topology::Storage room;  // largest device storage, or what was left on the rank
  topology::Storage group_storage;
  double group_perf = 0;
  std::int64_t param_count = 0;
  std::int64_t num_options = 1;  // in the group
  std::int64_t num_devices = 0;  // still available
  std::string message;
};

// The reference's error of type "partition", in the text of the given release.
Error describe(const PartitionFailure& failure, const CostModel& cost_model,
               const OptionSet& options);

// Derive from it to place shards your own way (ReferenceOptions::own_partitioner), or call one of
// those below by hand.
class Partitioner {
 public:
  virtual ~Partitioner() = default;
  virtual std::string_view name() const = 0;
  // Fills `plan` (options in the proposal's order). `storage_constraint` is what every rank has
  // left. On failure, which is one proposal's alone, `plan` is unspecified.
  virtual std::optional<PartitionFailure> partition(const OptionSet& options,
                                                    const Proposal& proposal,
                                                    const topology::Topology& storage_constraint,
                                                    PlacedProposal& plan) = 0;
};

enum class SortBy { kStorage, kPerf };

struct GreedyPerfOptions {
  SortBy sort_by = SortBy::kStorage;
  bool balance_modules = false;
  Bytes hbm_per_device = 0;  // > 0: replaces every rank's HBM
};
std::unique_ptr<Partitioner> make_greedy_perf_partitioner(const CostModel& cost_model,
                                                          const GreedyPerfOptions& options = {});

struct MemoryBalancedOptions {
  int max_search_count = 10;  // >= 0
  double tolerance = 0.02;    // >= 0; 1 means up to 100 % worse
  bool balance_modules = false;
};
std::unique_ptr<Partitioner> make_memory_balanced_partitioner(
    const CostModel& cost_model, const MemoryBalancedOptions& options = {});

// By name: "greedy_perf" (sorted by storage), "greedy_perf_by_perf", "memory_balanced". Error
// kNotFound with a suggestion.
Result<std::unique_ptr<Partitioner>> make_partitioner(std::string_view name,
                                                      const CostModel& cost_model,
                                                      bool balance_modules);
std::span<const std::string> partitioner_names();

}  // namespace plimsoll::embedding
#pragma GCC visibility pop
