// Where every byte and millisecond of a rank goes.

#include <array>
#include <string_view>

#include "plimsoll/core/checked.h"
#include "plimsoll/embedding/planner.h"
#include "plimsoll/embedding/resident_memory.h"

namespace plimsoll::embedding {
namespace {

constexpr std::array<std::pair<std::string_view, Bytes Storage::*>, 3> kTiers{
    {{"hbm", &Storage::hbm}, {"ddr", &Storage::ddr}, {"ssd", &Storage::ssd}}};
constexpr std::array<std::pair<std::string_view, Storage StorageParts::*>, 4> kCauses{
    {{"weights", &StorageParts::weights},
     {"optimizer_state", &StorageParts::optimizer_state},
     {"cache_state", &StorageParts::cache_state},
     {"input_output", &StorageParts::input_output}}};

struct RankBytes {
  std::vector<StorageParts> counted;  // [world_size] by TorchRec
  std::vector<ResidentParts> resident;
};

Result<RankBytes> rank_bytes(const PlanningProblem& problem, const Enumeration& enumeration,
                             const PlacedProposal& plan) {
  const Estimator estimator(problem.cost_model, problem.topology, problem.mode);
  const OptionSet& options = enumeration.options;
  std::vector<StorageParts> ranks(static_cast<std::size_t>(options.world_size));
  ResidentMemory resident(estimator);
  for (std::size_t position = 0; position < plan.options.size(); ++position) {
    const Option& option = options.options[static_cast<std::size_t>(plan.options[position])];
    const TableProfile table =
        profile_of(enumeration.profiles[static_cast<std::size_t>(option.table)], option);
    const ShardRuns shards = options.shards(option);
    std::vector<StorageParts> parts;  // [runs of a column block]
    std::vector<ResidentParts> kept;
    for (const ShardRun& run : shards.runs) {
      PLIMSOLL_ASSIGN(parts.emplace_back(),
                      estimator.shard_storage_parts(table, option.sharding_type,
                                                    option.compute_kernel, run.rows, run.columns));
      PLIMSOLL_ASSIGN(kept.emplace_back(),
                      resident.shard_parts(table, option.sharding_type, option.compute_kernel,
                                           run.rows, run.columns, parts.back()));
    }
    std::vector<std::int32_t> first_ranks;  // of each column block
    std::int64_t last_column = -1;
    for_each_shard(options, plan, position, [&](const ShardView& shard) {
      const auto run = static_cast<std::size_t>(shard.run - shards.runs.data());
      ranks[static_cast<std::size_t>(shard.rank)] += parts[run];
      resident.add(kept[run], shard.rank);
      if (shard.column != last_column) first_ranks.push_back(shard.rank);
      last_column = shard.column;
    });
    const TableOptions& place = options.tables[static_cast<std::size_t>(option.table)];
    PLIMSOLL_RETURN_IF_ERROR(resident.add_table(table, place.module_path, place.table,
                                                option.sharding_type, first_ranks));
  }
  return RankBytes{std::move(ranks), resident.finish()};
}

void add_shards(const std::vector<StorageParts>& ranks, Bill& bill) {
  for (const auto& [tier, bytes_of] : kTiers) {
    std::vector<Bytes>& total = bill.bytes[std::string(tier)];
    total.assign(ranks.size(), 0);
    for (const auto& [cause, part_of] : kCauses) {
      std::vector<Bytes> bytes;
      bool is_any = false;
      for (std::size_t rank = 0; rank < ranks.size(); ++rank) {
        bytes.push_back(ranks[rank].*part_of.*bytes_of);
        total[rank] = saturated_add(total[rank], bytes.back());
        is_any |= bytes.back() != 0;
      }
      if (is_any) bill.bytes[std::string(tier) + "_" + std::string(cause)] = std::move(bytes);
    }
  }
}

// Nobody knows the causes of a caller's own estimates.
void add_totals(const std::vector<Storage>& ranks, Bill& bill) {
  for (const auto& [tier, bytes_of] : kTiers) {
    for (const Storage& used : ranks) {
      bill.bytes[std::string(tier)].push_back(used.*bytes_of);
    }
  }
}

void add_reservation(const Topology& topology, const Reservation& reservation, Bill& bill) {
  const auto sum = [](const std::optional<Storage>& s) {
    return s ? saturated_add(s->hbm, s->ddr) : Bytes{0};
  };
  const bool is_kjt_taken = reservation.options.kind != ReservationKind::kFixedPercentage &&
                            reservation.options.kind != ReservationKind::kFixedAbsolute;
  const Bytes dense = sum(reservation.dense);
  const Bytes kjt = is_kjt_taken ? sum(reservation.kjt) : 0;
  const auto world_size = static_cast<std::size_t>(topology.world_size);
  bill.bytes["dense"].assign(world_size, dense);
  bill.bytes["kjt"].assign(world_size, kjt);
  for (std::size_t rank = 0; rank < world_size; ++rank) {
    const Storage taken = topology.devices[rank] - reservation.topology.devices[rank];
    const Bytes bytes = saturated_add(taken.hbm, taken.ddr);
    bill.bytes["reserve"].push_back(saturated_subtract(saturated_subtract(bytes, dense), kjt));
  }
}

}  // namespace

Result<Bill> make_bill(const PlanningProblem& problem, const PlanningResult& result) {
  Bill bill;
  const OptionSet& options = result.enumeration.options;
  if (options.tables.empty() || !result.reservation || !result.outcome.plan) return bill;
  if (problem.enumeration.estimator) {
    add_totals(rank_storage(options, result.best), bill);
  } else {
    PLIMSOLL_ASSIGN(const RankBytes ranks, rank_bytes(problem, result.enumeration, result.best));
    add_shards(ranks.counted, bill);
    if (!problem.mode.inference) add_to_bill(ranks.resident, bill);
  }
  add_reservation(problem.topology, *result.reservation, bill);
  for (const auto& [tier, bytes_of] : kTiers) {
    std::vector<Bytes>& capacity = bill.bytes["capacity_" + std::string(tier)];
    for (const Storage& device : problem.topology.devices) capacity.push_back(device.*bytes_of);
  }
  for (const Perf& perf : rank_perf_components(options, result.best)) {
    bill.ms["fwd_compute"].push_back(perf.fwd_compute);
    bill.ms["fwd_comms"].push_back(perf.fwd_comms);
    bill.ms["bwd_compute"].push_back(perf.bwd_compute);
    bill.ms["bwd_comms"].push_back(perf.bwd_comms);
    bill.ms["prefetch_compute"].push_back(perf.prefetch_compute);
    if (problem.cost_model.input_dist) bill.ms["input_dist_comms"].push_back(perf.input_dist_comms);
  }
  bill.ms["total"] = rank_perf(options, result.best);
  return bill;
}

}  // namespace plimsoll::embedding
