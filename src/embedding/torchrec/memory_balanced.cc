// Memory-balanced placement: bisection on a common HBM cap around the greedy partitioner.
//
// Problem. Lower the fullest rank's HBM at a small loss of performance.
// Method. Place greedily by perf; then bisect the cap between the mean (or the largest shard) and
// the fullest rank, keeping the last placement whose rating is within the tolerance. At most
// max_search_count placements more than the greedy one. Departures. None from the reference: a
// later accepted plan replaces an earlier one even if slower, and the cap may exceed a rank's own
// (both quirks of it). Source: docs/mathematics/torchrec-planner.md#partitioners.

#include <algorithm>
#include <utility>

#include "plimsoll/core/checked.h"
#include "plimsoll/embedding/partitioner.h"
#include "plimsoll/embedding/perf_model.h"

namespace plimsoll::embedding {
namespace {

constexpr Bytes kSearchGranularity = 10 * kMiB;

class MemoryBalanced : public Partitioner {
 public:
  MemoryBalanced(const CostModel& cost_model, const MemoryBalancedOptions& options)
      : cost_model_(cost_model), config_(options) {}

  std::string_view name() const override { return "memory_balanced"; }

  std::optional<PartitionFailure> partition(const OptionSet& options, const Proposal& proposal,
                                            const topology::Topology& storage_constraint,
                                            PlacedProposal& plan) override {
    if (auto failure = place(options, proposal, storage_constraint, 0, plan)) return failure;
    const double rating = rate(PerfModelKind::kPerf, options, plan);

    Bytes highest = 0;
    for (const Storage& used : rank_storage(options, plan)) highest = std::max(highest, used.hbm);
    Bytes total = 0;
    Bytes largest = 0;
    for (const std::int32_t option : proposal) {
      const ShardRuns shards = options.shards(option);
      total = saturated_add(total, shards.total_storage().hbm);
      largest = std::max(largest, shards.max_storage().hbm);
    }
    const Bytes mean = saturated_cast(static_cast<double>(total) /
                                      static_cast<double>(storage_constraint.world_size));
    Bytes lowest = std::max(mean, largest);
    PlacedProposal candidate;
    for (int search = 0; search < config_.max_search_count && highest - lowest > kSearchGranularity;
         ++search) {
      const Bytes cap = lowest + (highest - lowest) / 2;
      const bool is_placed = !place(options, proposal, storage_constraint, cap, candidate);
      if (is_placed &&
          rate(PerfModelKind::kPerf, options, candidate) <= rating * (1 + config_.tolerance)) {
        std::swap(plan, candidate);
        highest = cap;
      } else {
        lowest = cap;
      }
    }
    return std::nullopt;
  }

 private:
  std::optional<PartitionFailure> place(const OptionSet& options, const Proposal& proposal,
                                        const topology::Topology& storage_constraint, Bytes cap,
                                        PlacedProposal& plan) const {
    return make_greedy_perf_partitioner(cost_model_, {SortBy::kPerf, config_.balance_modules, cap})
        ->partition(options, proposal, storage_constraint, plan);
  }

  CostModel cost_model_;
  MemoryBalancedOptions config_;
};

}  // namespace

std::unique_ptr<Partitioner> make_memory_balanced_partitioner(
    const CostModel& cost_model, const MemoryBalancedOptions& options) {
  return std::make_unique<MemoryBalanced>(cost_model, options);
}

}  // namespace plimsoll::embedding
