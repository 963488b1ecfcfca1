// From the options of tables to a placement problem of the slowest rank, and back.
//
// Every table is a unit, and each of its options a choice:
//   table_wise, column_wise       device    a piece a column shard; of kernel key_value, where the
//                                           release asks it, all on distinct ranks
//   table_row_wise, grid_shard    host      a block a column block, one piece on each rank of a
//                                           fast domain (`group_size` ranks)
//   row_wise, data_parallel       uniform
//   table_column_wise             device where there is one host; else one block whose shards stand
//                                 in turn on the ranks of a host, from any of them on. Left out
//                                 beside the same columns anywhere (column_wise) that cost no
//                                 more, where no charge for the type may be saved by it
// Ranks of equal speed are a class of ranks, on which a piece costs alike.
// Left out, too: options in no plan of the fewest hazards (option_hazards.h), host choices where
// one host is all there is and row_wise costs no more. Of several hosts tables of one dependency
// are one unit whose options agree in spread, so that all stand on one rank, one host or
// everywhere. Of a collection with several ways to the fewest hazards (a mean-pooled one cut by
// rows as a whole or not, a width of the column shards of sequences) one is taken (`ways`). So the
// search sees fewer plans than there are (`is_tighter`). The problem `is_for_bound` has all plans
// of the fewest hazards: columns of a host stand on any ranks, tables of one dependency alone, and
// causes that exclude each other tell the ways of a collection. Under `strict_numerics` options
// that have optimizer_state_per_block are none at all. Of the two names of a whole table,
// table_wise and column_wise of one block, one is left out: column_wise beside a table_wise that
// costs no more, where no table of the module needs column_wise, whose charge it would share; where
// one does, table_wise, if the charges of both types and all that the tables cost are equal
// (`plain_name`).
// Sources: docs/mathematics/balanced-sharding.md#the-problem,
// docs/mathematics/balanced-sharding.md#several-barriers-and-charges.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "plimsoll/balance/placement_problem.h"
#include "plimsoll/core/outcome.h"
#include "plimsoll/core/result.h"
#include "plimsoll/embedding/enumerator.h"
#include "plimsoll/embedding/machine_model.h"
#include "plimsoll/embedding/option_set.h"
#include "plimsoll/embedding/proposer.h"
#include "plimsoll/embedding/step_model.h"
#include "plimsoll/topology/topology.h"

#pragma GCC visibility push(default)
namespace plimsoll::embedding {

enum class BalanceObjective {
  kRating,  // slowest rank's total: the reference's rating
  kStep,    // sum over the five components of the slowest rank's
  kTime,    // StepModel
};
std::string_view to_string(BalanceObjective objective);  // "rating", "step", "time"

struct BridgeOptions {
  BalanceObjective objective = BalanceObjective::kRating;
  StepModel step_model = {};
  bool keeps_hazards = false;    // else none but the fewest
  bool strict_numerics = false;  // no option that has optimizer_state_per_block
  std::map<std::string, std::vector<int>> allowed_ranks = {};    // by fqn, ascending; absent: all
  std::map<std::string, std::vector<int>> forbidden_ranks = {};  // by fqn, ascending
  std::vector<std::vector<std::string>> together = {};           // fqns of one rank, host or spread
  std::vector<std::vector<std::string>> apart = {};              // fqns that share no rank
  // ms > 0: no rank's total is larger, except for a relative 1e-9. A resource of the problem.
  std::optional<double> rating_cap = {};
  bool is_for_bound = false;          // every plan is a placement; not every placement is a plan
  std::vector<int> ways = {};         // by number of `PlacementBridge::num_ways`; absent: the first
  std::optional<Bytes> max_hbm = {};  // >= 0; of every rank, below its cap
  bool pools_ddr = false;             // the ranks of a host share its DDR
  std::vector<bool> left_out = {};    // [options] that no plan takes, besides hazards; or empty
};

// What the bridge reads; pointers may be null where options come from a dump.
struct BridgeInput {
  const OptionSet* options = nullptr;        // never null
  const topology::Topology* room = nullptr;  // never null; after reservation
  const Model* model = nullptr;
  const Estimator* estimator = nullptr;    // for output bytes
  std::span<const TableProfile> profiles;  // as above
  // Where it is there, the times of shards are its (StepModel's kernels and collectives), which
  // needs an estimator and profiles; ratings stay the options'.
  const MachineModel* machine = nullptr;
};

// What a shard sends out, in bytes; 0 where there is no estimator.
double output_bytes(const BridgeInput& input, const Option& option, const ShardRun& run);

struct PlacementBridge {
  balance::PlacementProblem problem;
  std::vector<std::vector<std::int32_t>> tables;  // [num_units] the unit's tables
  // [num_units][choices][tables of the unit] options.
  std::vector<std::vector<std::vector<std::int32_t>>> options;
  // [num_units][choices] rank of the host on which the columns of a block begin.
  std::vector<std::vector<int>> first_rank;
  // By option of a whole table as column_wise: the option table_wise that it stands for.
  std::map<std::int32_t, std::int32_t> plain_name;
  // Plans without hazards were left out: no bound of this problem holds for all plans.
  bool is_tighter = false;
  bool leaves_hazards_out = false;  // options, or pairs of them
  std::vector<int> num_ways;        // of collections that have several to the fewest hazards
  std::vector<Warning> warnings;
};

// Errors: kPlanner for a table that strict_numerics leaves no option; kConflict for pools of DDR
// where a fast domain is wider than a host, and for tables that cannot stand together; kNotFound
// for a table that a rule names and the options lack; kValue for a rank that a rule names and that
// is not there, and for a step model that is negative or not finite; those of `validate`.
Result<PlacementBridge> make_placement_bridge(const BridgeInput& input,
                                              const BridgeOptions& options);

// The same where that has all plans; else the problem `is_for_bound`, which may be tighter still
// where a rule holds tables together in too many ways. Its kConflict says that there is no plan at
// all; that of make_placement_bridge, that there is none among those that the search sees.
Result<PlacementBridge> make_bounded_bridge(const BridgeInput& input, BridgeOptions options);

// The placed options in table order. A whole table of `plain_name` is called column_wise only in a
// module in which column_wise cuts one, or is all that one may have. Precondition: `placements` is
// allowed.
PlacedProposal to_proposal(const PlacementBridge& bridge, const OptionSet& options,
                           const balance::UnitPlacements& placements);

// A plan of the same options as placements; nothing where it takes what the bridge leaves out and
// no choice stands for that at the same places.
std::optional<balance::UnitPlacements> find_placements(const PlacementBridge& bridge,
                                                       const OptionSet& options,
                                                       const PlacedProposal& plan);

}  // namespace plimsoll::embedding
#pragma GCC visibility pop
