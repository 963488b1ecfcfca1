// What a training step keeps on every rank between two steps, beside what TorchRec's planner counts
// (Estimator::shard_storage_parts).
//
// Weights and cache bookkeeping are as TorchRec counts them. Of the rest:
//   optimizer state   fbgemm keeps float32, whatever the weights are, and for row-wise Adagrad one
//                     number a row of every column shard; that of a dense kernel is torch.optim's
//   gradients         of dense kernels, as large as their weights; with data_parallel they are
//                     buckets of DistributedDataParallel
//   input_output      ids that the pipeline holds for the next steps; outputs live within a step
// Not measured: caches and host memory (fused_uvm_caching, key_value), which stay as counted.
// Source: docs/mathematics/torchrec-planner.md#bytes-between-two-steps.
#pragma once

#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <vector>

#include "plimsoll/core/outcome.h"
#include "plimsoll/core/result.h"
#include "plimsoll/core/units.h"
#include "plimsoll/embedding/estimator.h"

#pragma GCC visibility push(default)
namespace plimsoll::embedding {

struct ResidentParts {
  Storage weights;
  Storage optimizer_state;
  Storage gradients;
  Storage cache_state;
  Storage input_output;
  ResidentParts& operator+=(const ResidentParts& other) {
    weights += other.weights;
    optimizer_state += other.optimizer_state;
    gradients += other.gradients;
    cache_state += other.cache_state;
    input_output += other.input_output;
    return *this;
  }
  bool operator==(const ResidentParts&) const = default;
};

// Adds a plan up, table by table in any order. A shard costs O(1), a size of shards O(features).
class ResidentMemory {
 public:
  explicit ResidentMemory(const Estimator& estimator);

  // One shard; `counted` are the estimator's bytes of it. Error kOverflow where a size does not fit
  // in 63 bits.
  Result<ResidentParts> shard_parts(const TableProfile& table, ShardingType type,
                                    ComputeKernel kernel, std::int64_t rows, std::int64_t columns,
                                    const StorageParts& counted) const;
  void add(const ResidentParts& shard, int rank);  // rank within the topology

  // The table at place `position` of its module: its batch waits in the pipeline, too.
  // `first_ranks` are the ranks of the first shard of each column block. Error kOverflow as above.
  Result<void> add_table(const TableProfile& table, const std::string& module_path,
                         std::int32_t position, ShardingType type,
                         std::span<const std::int32_t> first_ranks);

  std::vector<ResidentParts> finish();  // [world_size]

 private:
  struct Waiting {
    ShardingType type = ShardingType::kDataParallel;
    Bytes batch = 0;  // ids and lengths of a rank's own samples
    Bytes sent = 0;   // the same, cut by rows
    Bytes order = 0;  // in which the rows of sequences came from where they are cut by rows
    std::vector<std::int32_t> first_ranks;
  };
  Bytes batches_of(const std::map<std::int32_t, Waiting>& module) const;

  Estimator estimator_;
  std::vector<ResidentParts> ranks_;
  std::map<std::string, std::map<std::int32_t, Waiting>> waiting_;  // by module and position
};

// Bytes by tier and cause as the bill has them: "resident_hbm", "resident_hbm_gradients", ...; a
// cause that no rank has is left out.
void add_to_bill(const std::vector<ResidentParts>& ranks, Bill& bill);

}  // namespace plimsoll::embedding
#pragma GCC visibility pop
