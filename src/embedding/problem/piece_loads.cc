#include "embedding/problem/piece_loads.h"

#include <algorithm>
#include <bit>
#include <cmath>

#include "core/check.h"

namespace plimsoll::embedding {
namespace {

balance::TierBytes to_tiers(const Storage& storage) {
  return {storage.hbm, storage.ddr, storage.ssd};
}

}  // namespace

Result<void> check_step_model(const StepModel& model) {
  for (const double value :
       {model.kernel_weight, model.collective_weight, model.ms_per_sharding_type,
        model.ms_per_output_byte, model.ms_per_table, model.floor_ms}) {
    if (!(value >= 0) || !std::isfinite(value)) {
      return fail(ErrorCode::kValue, "step_model", "a weight or charge below 0 or not finite",
                  "give finite values of at least 0");
    }
  }
  return {};
}

PieceLoads::PieceLoads(const BridgeInput& input, const BridgeOptions& settings)
    : options_(*input.options), input_(input), settings_(settings) {
  for (const double speed : options_.rank_speeds) {
    const auto known = std::find(speeds_.begin(), speeds_.end(), speed);
    class_of_.push_back(static_cast<int>(known - speeds_.begin()));
    if (known == speeds_.end()) speeds_.push_back(speed);
  }
  if (speeds_.empty()) speeds_.push_back(1);
  if (settings.objective != BalanceObjective::kTime) return;
  if (auto times = make_calibrated_times(input)) calibrated_ = *std::move(times);
}

double PieceLoads::type_charge(const std::string& module_path, ShardingType type) const {
  const StepModel& model = settings_.step_model;
  return calibrated_ ? calibrated_->type_charge(model, module_path, type)
                     : model.ms_per_sharding_type;
}

void PieceLoads::describe_ranks(balance::PlacementProblem& problem) const {
  problem.num_ranks = options_.world_size;
  problem.ranks_per_host = std::max(options_.group_size, 1);
  problem.num_barriers = num_barriers();
  problem.num_rank_classes = static_cast<int>(speeds_.size());
  problem.rank_class = class_of_;
  for (const Storage& device : input_.room->devices) {
    const Bytes hbm = std::max<Bytes>(device.hbm, 0);
    problem.caps.push_back({std::min(hbm, settings_.max_hbm.value_or(hbm)),
                            std::max<Bytes>(device.ddr, 0), std::max<Bytes>(device.ssd, 0)});
  }
}

std::optional<std::string> PieceLoads::use_rating_tier(const std::vector<bool>& is_left_out,
                                                       balance::PlacementProblem& problem) {
  PLIMSOLL_CHECK(settings_.rating_cap && *settings_.rating_cap > 0, "the rating is capped above 0");
  if (speeds_.size() > 1) return "a shard takes longer on some ranks than on others";
  balance::TierBytes largest{};
  std::int64_t num_pieces = options_.world_size;
  for (const TableOptions& table : options_.tables) {
    std::int64_t most = 0;
    for (std::int32_t o = table.first_option; o < table.first_option + table.num_options; ++o) {
      if (is_left_out[static_cast<std::size_t>(o)]) continue;
      const ShardRuns shards = options_.shards(o);
      most = std::max(most, shards.num_shards());
      for (const ShardRun& run : shards.runs) {
        const balance::TierBytes bytes = to_tiers(run.storage);
        for (std::size_t t = 0; t < bytes.size(); ++t) largest[t] = std::max(largest[t], bytes[t]);
      }
    }
    num_pieces += most;
  }
  const auto free = std::find(largest.rbegin(), largest.rend(), 0);
  if (free == largest.rend()) {
    return "the options need every tier, so none can stand for the rating";
  }
  rating_tier_ = static_cast<int>(largest.rend() - free) - 1;
  const auto width = static_cast<int>(std::bit_width(static_cast<std::uint64_t>(num_pieces)));
  const int bits = std::clamp(60 - width, 20, 48);
  rating_units_ = std::int64_t{1} << bits;
  const Bytes slack = std::max<Bytes>(rating_units_ >> 44, 1);  // for the order of sums
  for (balance::TierBytes& cap : problem.caps) {
    cap[static_cast<std::size_t>(rating_tier_)] = rating_units_ + slack;
  }
  problem.is_pooled[static_cast<std::size_t>(rating_tier_)] = false;  // every rank keeps it
  return std::nullopt;
}

std::vector<balance::PieceRun> PieceLoads::runs_of(const Option& option) const {
  std::vector<balance::PieceRun> runs;
  for (const ShardRun& run : options_.shards(option).runs) {
    runs.push_back({run.count, load_of(option, run), bytes_of(run)});
  }
  return runs;
}

std::vector<double> PieceLoads::load_of(const Option& option, const ShardRun& run) const {
  std::vector<double> load;
  if (settings_.objective != BalanceObjective::kTime) {
    for (const double speed : speeds_) add_load(at_speed(run.perf, speed), load);
    return load;
  }
  const double outputs = has_outputs() ? output_bytes(input_, option, run) : 0;
  if (calibrated_) {
    const CalibratedTimes::ShardTimes times =
        calibrated_->shard_times(option, run.rows, run.columns);
    for (const double speed : speeds_) {
      add_time(times.kernels / speed, times.collectives, outputs, load);
    }
    return load;
  }
  for (const double speed : speeds_) {
    const Perf perf = at_speed(run.perf, speed);
    add_time(perf.fwd_compute + perf.bwd_compute + perf.prefetch_compute,
             perf.fwd_comms + perf.bwd_comms, outputs, load);
  }
  return load;
}

// Of the rating and of the step.
void PieceLoads::add_load(const Perf& perf, std::vector<double>& load) const {
  if (settings_.objective == BalanceObjective::kRating) {
    load.push_back(perf.total());
    return;
  }
  load.insert(load.end(), {perf.fwd_compute, perf.fwd_comms, perf.bwd_compute, perf.bwd_comms,
                           perf.prefetch_compute});
}

void PieceLoads::add_time(double kernels, double collectives, double outputs,
                          std::vector<double>& load) const {
  const StepModel& model = settings_.step_model;
  load.push_back(model.kernel_weight * kernels);
  load.push_back(model.collective_weight * collectives);
  if (has_outputs()) load.push_back(model.ms_per_output_byte * outputs);
  if (model.ms_per_table > 0) load.push_back(model.ms_per_table);
}

balance::TierBytes PieceLoads::bytes_of(const ShardRun& run) const {
  balance::TierBytes bytes = to_tiers(run.storage);
  if (rating_tier_ < 0) return bytes;
  const double share = at_speed(run.perf, speeds_.front()).total() / *settings_.rating_cap;
  bytes[static_cast<std::size_t>(rating_tier_)] =
      share < 1.5 ? static_cast<Bytes>(share * static_cast<double>(rating_units_))
                  : 3 * (rating_units_ / 2);  // on no rank
  return bytes;
}

int PieceLoads::num_barriers() const {
  switch (settings_.objective) {
    case BalanceObjective::kRating:
      return 1;
    case BalanceObjective::kStep:
      return 5;
    case BalanceObjective::kTime:
      return 2 + (has_outputs() ? 1 : 0) + (settings_.step_model.ms_per_table > 0 ? 1 : 0);
  }
  return 1;
}

}  // namespace plimsoll::embedding
