// What one shard loads its rank with, as a piece of a placement problem: milliseconds by class of
// ranks and barrier of the objective, bytes of HBM, DDR and SSD, and, where the rating is
// capped, its share of the cap for each class of ranks.
//
// Ranks of equal speed are one class. The barriers are those of BalanceObjective: the total; the
// five components; kernels, collectives and what the step model charges the slowest rank for, the
// first two by the machine model where there is one.
// Sources: docs/mathematics/balanced-sharding.md#several-barriers-and-charges,
// docs/formats.md#step-model.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "embedding/problem/calibrated_input.h"
#include "plimsoll/embedding/placement_bridge.h"

namespace plimsoll::embedding {

// Error kValue: a weight or charge that is negative or not finite.
Result<void> check_step_model(const StepModel& model);

// The resources of a problem of tables, in order; behind them the rating's caps.
inline constexpr std::size_t kHbm = 0, kDdr = 1, kSsd = 2, kRating = 3;

class PieceLoads {
 public:
  // A machine model that cannot be used is left out: the bridge refuses it.
  PieceLoads(const BridgeInput& input, const BridgeOptions& settings);

  // Barriers, classes of ranks, caps.
  void describe_ranks(balance::PlacementProblem& problem) const;

  // The rating's cap as a resource: a piece needs its total, in units that all pieces of a plan
  // together keep within 60 bits, and every rank has the cap's. A class of ranks, on which pieces
  // take their own times, has a resource of its own, which binds no rank of another class.
  // Precondition: settings.rating_cap > 0.
  void cap_rating(const std::vector<bool>& is_left_out, balance::PlacementProblem& problem);

  // The shards of one column block, run by run.
  std::vector<balance::PieceRun> runs_of(const Option& option) const;

  // What kTime charges once for a sharding type in a module.
  double type_charge(const std::string& module_path, ShardingType type) const;

 private:
  std::vector<double> load_of(const Option& option, const ShardRun& run) const;
  void add_load(const Perf& perf, std::vector<double>& load) const;
  void add_time(double kernels, double collectives, double outputs,
                std::vector<double>& load) const;
  balance::Amounts amounts_of(const ShardRun& run) const;
  int num_barriers() const;
  bool has_outputs() const { return settings_.step_model.ms_per_output_byte > 0; }

  const OptionSet& options_;
  const BridgeInput& input_;
  const BridgeOptions& settings_;
  std::optional<CalibratedTimes> calibrated_;  // of kTime, where a machine model is given
  std::vector<double> speeds_;                 // [classes of ranks]
  std::vector<int> class_of_;                  // [world_size], empty where all ranks are equal
  std::int64_t rating_units_ = 0;              // that the rating's cap is; 0: it has none
};

}  // namespace plimsoll::embedding
