// The estimator `calibrated`: milliseconds of shards by what was measured on a machine, in place of
// a release's own. Bytes and ratings stay the release's.
//
// Problem. A plan's time by a MachineModel, as a sum over the shards of a rank, so that a search
// can place them, and once more without what that leaves out.
// Method. Kernels: the terms of a form times what a shard looks up, reads, writes and updates are
// sums over shards; only the term of a call belongs to the sharding type of a module. Collectives:
// a rank sends the shards of one type in one message; its time is replaced by a line, whose
// intercept belongs to the type and whose slope to the shard. The line passes through the message
// of the module's balanced share, with the slope of the chord from half of it to twice; of
// data_parallel through the messages of the small tables and of all. O(features) time a shard.
// Promises. Equal inputs give equal bits. At the balanced message line and table agree. Kernels,
// optimizers and data types that were not measured stand for others, and are named
// (Extrapolation): a kernel takes the time of the measured `fused` (else of the first form) as
// many times as the release says it takes of that one's.
// Source: docs/mathematics/calibrated-times.md.
#pragma once

#include <array>
#include <map>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "embedding/cost/collective_times.h"
#include "plimsoll/core/outcome.h"
#include "plimsoll/core/result.h"
#include "plimsoll/embedding/estimator.h"
#include "plimsoll/embedding/machine_model.h"
#include "plimsoll/embedding/option_set.h"

namespace plimsoll::embedding {

// What a call of a kernel works on; sums over the shards of a call.
struct KernelVariables {
  double tables = 0;
  double lookups = 0;
  double read_bytes = 0;
  double output_bytes = 0;
  double distinct_rows = 0;
  double distinct_byte_misses = 0;
  double weight_bytes = 0;
  KernelVariables& operator+=(const KernelVariables& other);
};

// "tables", "lookups", ..., as ranges name them, with their values in `variables`.
std::vector<std::pair<std::string, double>> named(const KernelVariables& variables);

// R (1 - exp(-n / R)): distinct rows that n look-ups of R rows touch, drawn evenly.
double distinct_rows(double lookups, double rows);

// max(0, log2(bytes / 1 MiB)).
double miss_levels(double bytes);

// What a shard puts into a collective of its type.
struct ShardMessage {
  topology::Collective operation = topology::Collective::kAllToAll;
  CommunicatingRanks group;
  double bytes = 0;
};

// What a plan takes, by rank, and what of it was not measured.
struct CalibratedBill {
  std::vector<double> kernels;                   // ms, with the calls
  std::vector<double> collectives;               // ms, as the search counts them, with intercepts
  std::vector<double> interpolated_collectives;  // ms, each message by its table
  std::vector<Extrapolation> extrapolated;       // each variable once, the farthest
};

// As "machine_kernels", "machine_collectives" and "machine_collectives_interpolated".
void add_to_bill(CalibratedBill times, Bill& bill);

class CalibratedTimes {
 public:
  // Of these tables: `profiles` is [tables]. The references must outlive it. Error kValue for a
  // machine model without kernels.
  static Result<CalibratedTimes> make(const MachineModel& machine, const Estimator& estimator,
                                      const OptionSet& options,
                                      std::span<const TableProfile> profiles);

  // Milliseconds that a shard adds to its rank's; kernels on a rank of speed 1.
  struct ShardTimes {
    double kernels = 0;
    double collectives = 0;
  };
  ShardTimes shard_times(const Option& option, std::int64_t rows, std::int64_t columns) const;

  // Milliseconds that a sharding type takes in a module beside its shards: calls and intercepts.
  ShardTimes type_times(const std::string& module_path, ShardingType type) const;
  // By the weights of a step model, with its own charge for a sharding type.
  double type_charge(const StepModel& step, const std::string& module_path,
                     ShardingType type) const;

  // Of a shard of the option's type.
  KernelVariables variables(const Option& option, std::int64_t rows, std::int64_t columns) const;
  std::vector<ShardMessage> messages(const Option& option, std::int64_t rows,
                                     std::int64_t columns) const;

 private:
  friend class CalibratedBillMaker;

  // a + b * bytes.
  struct Line {
    double intercept_ms = 0;
    double ms_per_byte = 0;
  };
  struct Form {
    const KernelForm* form = nullptr;  // null: none of that direction
    bool has_kernel = true, has_optimizer = true, has_data_type = true;
  };

  CalibratedTimes(const MachineModel& machine, const Estimator& estimator, const OptionSet& options,
                  std::span<const TableProfile> profiles);

  Form find_form(const TableProfile& profile, ComputeKernel kernel, PassDirection direction) const;
  double permute_ms(const Option& option, const KernelVariables& variables) const;
  double kernel_ms(const Form& form, const Option& option, const KernelVariables& variables,
                   std::int64_t rows, std::int64_t columns) const;
  // The release's compute of the shard under this kernel; 0 where it has none.
  Perf release_perf(const Option& option, ComputeKernel kernel, std::int64_t rows,
                    std::int64_t columns) const;
  void draw_lines();
  void draw_replica_lines();
  // Through the time at `bytes`, with the slope of the chord between two sizes; through 0 where the
  // intercept would be below.
  Line line_through(topology::Collective operation, const CommunicatingRanks& group, double bytes,
                    double from, double to) const;
  const std::string& module_of(std::int32_t table) const;

  const MachineModel* machine_;
  const Estimator* estimator_;
  const OptionSet* options_;
  std::span<const TableProfile> profiles_;
  CollectiveTimes collective_times_;
  std::vector<double> ids_, outputs_;  // [tables] of a rank's samples
  std::map<std::pair<std::string, ShardingType>, std::vector<Line>> lines_;  // [messages]
};

// Adds up a plan shard by shard.
class CalibratedBillMaker {
 public:
  explicit CalibratedBillMaker(const CalibratedTimes& times);
  // `option` tells the type that is charged by its column blocks.
  void add(const Option& option, std::int64_t rows, std::int64_t columns, std::int32_t rank);
  CalibratedBill finish();

 private:
  using Type = std::pair<std::string, ShardingType>;  // of a module
  struct Group {
    std::vector<double> kernels, collectives;     // [world_size] ms of shards
    std::vector<std::vector<ShardMessage>> sent;  // [world_size][messages]
    std::vector<bool> is_there;                   // [world_size]
  };
  struct Shard {
    CalibratedTimes::ShardTimes times;
    KernelVariables variables;
    std::vector<ShardMessage> messages;
    std::array<CalibratedTimes::Form, 2> forms;  // forward, backward
  };
  Shard make_shard(const Option& option, std::int64_t rows, std::int64_t columns) const;
  void note(Extrapolation extrapolation);
  void note_ranges();

  const CalibratedTimes& times_;
  std::size_t num_ranks_;
  std::map<Type, Group> groups_;
  // Of every call, by rank.
  std::map<std::pair<Type, const KernelForm*>, std::vector<KernelVariables>> calls_;
  Option last_option_;
  std::pair<std::int64_t, std::int64_t> last_size_{-1, -1};
  Shard last_;
  std::map<std::pair<std::string, std::string>, Extrapolation> notes_;
};

}  // namespace plimsoll::embedding
