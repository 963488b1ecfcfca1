// What one shard loads its rank with, as a piece of a placement problem: milliseconds by class of
// ranks and barrier of the objective, bytes by tier, and its rating in a tier that nothing else
// needs.
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

class PieceLoads {
 public:
  // A machine model that cannot be used is left out: the bridge refuses it.
  PieceLoads(const BridgeInput& input, const BridgeOptions& settings);

  // Barriers, classes of ranks, caps.
  void describe_ranks(balance::PlacementProblem& problem) const;

  // Lets a tier that no option needs stand for the rating: a piece needs its total, in units that
  // all pieces of a plan together keep within 60 bits, and every rank has the cap's. Where none
  // can, why. Precondition: settings.rating_cap > 0.
  std::optional<std::string> use_rating_tier(const std::vector<bool>& is_left_out,
                                             balance::PlacementProblem& problem);
  int rating_tier() const { return rating_tier_; }  // -1: none stands for the rating

  // The shards of one column block, run by run.
  std::vector<balance::PieceRun> runs_of(const Option& option) const;

  // What kTime charges once for a sharding type in a module.
  double type_charge(const std::string& module_path, ShardingType type) const;

 private:
  std::vector<double> load_of(const Option& option, const ShardRun& run) const;
  void add_load(const Perf& perf, std::vector<double>& load) const;
  void add_time(double kernels, double collectives, double outputs,
                std::vector<double>& load) const;
  balance::TierBytes bytes_of(const ShardRun& run) const;
  int num_barriers() const;
  bool has_outputs() const { return settings_.step_model.ms_per_output_byte > 0; }

  const OptionSet& options_;
  const BridgeInput& input_;
  const BridgeOptions& settings_;
  std::optional<CalibratedTimes> calibrated_;  // of kTime, where a machine model is given
  std::vector<double> speeds_;                 // [classes of ranks]
  std::vector<int> class_of_;                  // [world_size], empty where all ranks are equal
  int rating_tier_ = -1;
  std::int64_t rating_units_ = 0;  // that the rating cap is
};

}  // namespace plimsoll::embedding
