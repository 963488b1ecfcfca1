// From a model to its options: which sharding types and kernels every table may take, how each cuts
// the table, what each shard costs. Source:
// docs/mathematics/torchrec-planner.md#options-of-a-table.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "plimsoll/core/outcome.h"
#include "plimsoll/core/result.h"
#include "plimsoll/core/run_context.h"
#include "plimsoll/embedding/estimator.h"
#include "plimsoll/embedding/option_set.h"

#pragma GCC visibility push(default)
namespace plimsoll::embedding {

// One option's cut: the row runs of a column block (storage and perf empty) and the number of
// column blocks.
struct Cut {
  std::vector<ShardRun> runs;
  std::int32_t column_blocks = 1;
};

// How a table is cut (docs/mathematics/torchrec-planner.md#cutting-shards). `num_buckets` rules
// row_wise where present. Errors: kZeroDivision for a table without rows cut by rows; kValue for
// rows that buckets do not divide, and (release 1.8) for fewer buckets than ranks.
Result<Cut> cut_table(const CostModel& cost_model, const Topology& topology, ShardingType type,
                      const TableShape& shape, std::optional<std::int64_t> min_partition,
                      std::optional<std::int64_t> num_buckets);

// The buckets that rule a table's row-wise cut: those of plain collections' virtual tables; nothing
// for all others and for releases without buckets. Error kValue: from 1.8, buckets of a
// managed-collision module (one where total_num_buckets is absent) that do not divide over the
// ranks.
Result<std::optional<std::int64_t>> find_num_buckets(const CostModel& cost_model,
                                                     const Topology& topology, const Module& module,
                                                     const Table& table);

// The one candidate width of a column cut: the smallest i in [m, D) with D mod i = 0 and i mod 4 =
// 0, else D; m is min_partition or 128.
std::int64_t column_width(std::int64_t columns, std::optional<std::int64_t> min_partition);

struct EnumerationOptions {
  std::int64_t batch_size = 512;  // per rank; 0 means 512
  // Modules in the order of named_children (the reference's use_exact_enumerate_order, and its
  // heterogeneous planner's order); else the last child first.
  bool breadth_first = false;
  // >= 0; above 0 the wide space of our own search: beside the reference's width of a column cut
  // every multiple of 4 that cuts the table into at most so many blocks, and grid_shard wherever
  // the sharder offers it.
  int max_column_blocks = 0;
  // Constraints keyed by fqn and constraints of all tables, TorchEasyRec's way: find_constraints.
  ConstraintMap fqn_constraints;
  std::optional<ParameterConstraints> global_constraints;
  // Heterogeneous planner: only tables whose constraint names this device group; a table without
  // constraints is an error then.
  std::optional<std::string> device_group;
  // In place of the cost model's estimates; null: those. Its times and bytes must be finite and not
  // negative (error kValue).
  std::shared_ptr<const ShardEstimator> estimator;
};

struct Enumeration {
  OptionSet options;
  std::vector<TableProfile> profiles;  // [options.tables.size()]
  std::vector<Warning> warnings;       // filters that left nothing
  bool is_cut = false;                 // by a clock or a cancel: tables are missing
};

// `estimator` says by which release and for which topology tables are cut, and what shards cost
// unless the options have an estimator of their own. Error kRuntime: a table without any option,
// with the reference's text. Errors of cutting and estimating are passed on with the table's name.
// The context is asked between tables.
Result<Enumeration> enumerate(const Estimator& estimator, const Model& model,
                              const EnumerationOptions& options, const RunContext& context = {});

// The table as one of its options makes it: with the option's own cache ratio and placement mode.
TableProfile profile_of(const TableProfile& table, const Option& option);

// Estimates again the options of one table under other cache parameters and appends the result;
// returns the new option's index. An equal option that is already there is returned instead. Used
// by searches that scale caches.
Result<std::int32_t> intern_option(const ShardEstimator& estimator, const TableProfile& profile,
                                   std::int32_t like, ComputeKernel kernel,
                                   std::optional<double> cache_load_factor, OptionSet& options);

}  // namespace plimsoll::embedding
#pragma GCC visibility pop
