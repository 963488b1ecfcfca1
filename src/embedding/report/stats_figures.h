// The figures of the statistics report, before anything is printed.
#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "plimsoll/core/units.h"
#include "plimsoll/embedding/planner.h"
#include "plimsoll/embedding/stats.h"

namespace plimsoll::embedding {

// Sums of bytes over tables and ranks may pass 63 bits (virtual tables have 10^15 rows).
using WideBytes = Int128;

// Perf components in printed order.
inline constexpr int kNumPerfComponents = 5;
inline constexpr std::array<double Perf::*, kNumPerfComponents> kPerfComponents{
    &Perf::fwd_compute, &Perf::fwd_comms, &Perf::bwd_compute, &Perf::bwd_comms,
    &Perf::prefetch_compute};

struct RankFigures {
  Perf perf;  // component sums in plan order
  // False while only integers 0 were added: the reference prints such a sum as "0", a computed zero
  // as "0.0".
  std::array<bool, kNumPerfComponents> is_float{false, false, false, false, true};
  double total_perf = 0;     // sum of shard totals; its last digit may differ from perf.total()
  WideBytes sparse_hbm = 0;  // shards alone
  WideBytes hbm = 0;         // with dense tensors and features
  WideBytes ddr = 0;
  double input_mib = 0;
  double output_mib = 0;
  std::array<std::int64_t, kNumShardingTypes> num_shards{};  // by sharding type
  bool has_shards = false;
};

struct KernelFigures {
  std::int64_t num_tables = 0;
  std::int64_t num_hardcoded = 0;  // constrained to some kernels
  WideBytes weights = 0;
  WideBytes optimizer_state = 0;
  WideBytes hbm = 0;
  WideBytes ddr = 0;
  WideBytes ssd = 0;
};

struct CriticalPath {
  double comms = 0;
  double compute = 0;
};

// One table of the plan (or of the last proposal) with where it lies.
struct PlacedOption {
  const Option* option = nullptr;
  const TableOptions* table = nullptr;
  const TableProfile* profile = nullptr;
  const Module* module = nullptr;
  const ParameterConstraints* constraints = nullptr;  // null: none
  ShardRuns shards;
  std::vector<std::int32_t> ranks;  // [num_shards]
};

// visit(run, rank) for every shard in shard order.
template <class Visit>
void for_each_placed_shard(const PlacedOption& placed, const Visit& visit) {
  std::size_t shard = 0;
  for (std::int64_t block = 0; block < placed.shards.column_blocks; ++block) {
    for (const ShardRun& run : placed.shards.runs) {
      for (std::int64_t i = 0; i < run.count; ++i) visit(run, placed.ranks[shard++]);
    }
  }
}

struct StatsFigures {
  bool has_plan = false;
  std::vector<PlacedOption> tables;  // plan order
  Storage dense;                     // per rank
  Storage kjt;                       // per rank
  std::vector<RankFigures> ranks;    // [world_size]
  std::map<std::string_view, KernelFigures> kernels;
  CriticalPath critical_path;                        // of a plan
  std::vector<const PlacedOption*> max_perf_tables;  // of a plan; largest first
  std::vector<const PlacedOption*> max_hbm_tables;   // of a plan; largest first
};

// `result` holds an enumeration with profiles, a reservation and the placed options.
StatsFigures compute_stats_figures(const PlanningProblem& problem, const PlanningResult& result);

// The metrics of imbalance() for shares whose sum is 1.
Imbalance imbalance_of_shares(const std::vector<double>& shares);

}  // namespace plimsoll::embedding
