#include "embedding/problem/piece_loads.h"

#include <algorithm>
#include <bit>
#include <cmath>

#include "core/check.h"

namespace plimsoll::embedding {
namespace {

constexpr int kRatingBits = 60;  // of what all pieces need of the rating's cap

balance::Amounts to_amounts(const Storage& storage) {
  return {storage.hbm, storage.ddr, storage.ssd};
}

int bits_of(std::int64_t count) {
  return static_cast<int>(std::bit_width(static_cast<std::uint64_t>(count)));
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
  problem.resources = {{.name = "hbm"}, {.name = "ddr"}, {.name = "ssd"}};
  for (const Storage& device : input_.room->devices) {
    const Bytes hbm = std::max<Bytes>(device.hbm, 0);
    problem.caps.push_back({std::min(hbm, settings_.max_hbm.value_or(hbm)),
                            std::max<Bytes>(device.ddr, 0), std::max<Bytes>(device.ssd, 0)});
  }
}

void PieceLoads::cap_rating(const std::vector<bool>& is_left_out,
                            balance::PlacementProblem& problem) {
  PLIMSOLL_CHECK(settings_.rating_cap && *settings_.rating_cap > 0, "the rating is capped above 0");
  std::int64_t num_pieces = options_.world_size;
  for (const TableOptions& table : options_.tables) {
    std::int64_t most = 0;
    for (std::int32_t o = table.first_option; o < table.first_option + table.num_options; ++o) {
      if (is_left_out[static_cast<std::size_t>(o)]) continue;
      most = std::max(most, options_.shards(o).num_shards());
    }
    num_pieces += most;
  }
  const bool has_classes = speeds_.size() > 1;
  const int bits =
      kRatingBits - bits_of(num_pieces) - (has_classes ? bits_of(options_.world_size) : 0);
  rating_units_ = std::int64_t{1} << std::clamp(bits, 20, 48);
  const Bytes slack = std::max<Bytes>(rating_units_ >> 44, 1);  // for the order of sums
  const Bytes unlimited = 2 * rating_units_ * num_pieces;       // more than all pieces need
  for (std::size_t c = 0; c < speeds_.size(); ++c) {
    problem.resources.push_back({.name = "rating", .is_pooled = false, .is_time = true});
    for (std::size_t rank = 0; rank < problem.caps.size(); ++rank) {
      const bool is_bound = !has_classes || class_of_[rank] == static_cast<int>(c);
      problem.caps[rank][kRating + c] = is_bound ? rating_units_ + slack : unlimited;
    }
  }
}

std::vector<balance::PieceRun> PieceLoads::runs_of(const Option& option) const {
  std::vector<balance::PieceRun> runs;
  for (const ShardRun& run : options_.shards(option).runs) {
    runs.push_back({run.count, load_of(option, run), amounts_of(run)});
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

balance::Amounts PieceLoads::amounts_of(const ShardRun& run) const {
  balance::Amounts amounts = to_amounts(run.storage);
  if (rating_units_ == 0) return amounts;
  for (std::size_t c = 0; c < speeds_.size(); ++c) {
    const double share = at_speed(run.perf, speeds_[c]).total() / *settings_.rating_cap;
    amounts[kRating + c] = share < 1.5
                               ? static_cast<Bytes>(share * static_cast<double>(rating_units_))
                               : 3 * (rating_units_ / 2);  // on no rank of the class
  }
  return amounts;
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
