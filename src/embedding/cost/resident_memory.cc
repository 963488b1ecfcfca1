// Bytes that a training step keeps on every rank between two steps.
//
// Problem. Say what is resident where TorchRec's estimate says something else, or nothing. Method.
// Each shard's state and gradients, and copies of ids by what the pipelines of TorchRec hold. Cost
// and promises as the header says. Source:
// docs/mathematics/torchrec-planner.md#bytes-between-two-steps.

#include "plimsoll/embedding/resident_memory.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <string_view>
#include <utility>

#include "embedding/cost/loads.h"
#include "plimsoll/core/checked.h"

namespace plimsoll::embedding {
namespace {

constexpr double kLengthBytes = 8;
constexpr double kIdWeightBytes = 4;
constexpr double kPlaceBytes = 8;        // of an id among those of its batch
constexpr Bytes kStateElementBytes = 4;  // fbgemm's float32
constexpr Bytes kStepBytes = 4;          // torch.optim counts the steps of every parameter

Result<Bytes> whole(double bytes) {
  if (!(bytes < 9.2e18)) {
    return fail(ErrorCode::kOverflow, "", "the ids of a batch do not fit in 2^63 - 1 bytes",
                "give smaller batches or pooling factors");
  }
  return static_cast<Bytes>(std::ceil(bytes));
}

bool is_cut_by_rows(ShardingType type) {
  return type == ShardingType::kRowWise || type == ShardingType::kTableRowWise ||
         type == ShardingType::kGridShard;
}

// Ranks among which a cut by rows divides the ids.
double row_parts(ShardingType type, const Topology& topology) {
  if (type == ShardingType::kRowWise) return topology.world_size;
  return is_cut_by_rows(type) ? topology.group_size() : 1;
}

// Ids, their weights and lengths of a rank's own samples; lengths once for each of `copies`.
double batch_of(const CostModel& cost_model, const TableProfile& table, double copies) {
  double samples = 0;
  for (std::size_t f = 0; f < table.batch_sizes.size(); ++f) {
    samples += table.num_poolings[f] * static_cast<double>(table.batch_sizes[f]);
  }
  const double id = kIdBytes + (table.is_weighted ? kIdWeightBytes : 0);
  return make_loads(cost_model, table).ids * id + samples * kLengthBytes * copies;
}

// Numbers that an optimizer keeps of a shard.
Bytes num_states(Optimizer optimizer, std::int64_t rows, std::int64_t columns) {
  switch (optimizer) {
    case Optimizer::kNone:
    case Optimizer::kSgd:
      return 0;
    case Optimizer::kAdam:
      return saturated_multiply(2, saturated_multiply(rows, columns));
    case Optimizer::kRowWiseAdagrad:
      return rows;
    case Optimizer::kOther:
      return saturated_multiply(rows, columns);
  }
  return 0;
}

// How often a rank keeps what it received, and its own batches; and whether it keeps what it sent.
struct PipelineCopies {
  Bytes received = 0;
  Bytes batches = 0;
  bool keeps_sent = false;
};

PipelineCopies copies_of(const RunMode& mode) {
  if (mode.inference) return {};
  switch (mode.pipeline_type) {
    case PipelineType::kNone:
      return {1, 0, false};
    case PipelineType::kTrainBase:
      return {1, 1, false};
    case PipelineType::kTrainSparseDist:
      return {2, 2, true};
    case PipelineType::kTrainPrefetchSparseDist:
      return {3, 3, true};
  }
  return {};
}

// What lies on the accelerator, or on a machine without one in the host's memory.
Storage on_device(ComputeDevice device, Bytes bytes) {
  return device == ComputeDevice::kCpu ? Storage{0, bytes, 0} : Storage{bytes, 0, 0};
}

}  // namespace

ResidentMemory::ResidentMemory(const Estimator& estimator)
    : estimator_(estimator), ranks_(static_cast<std::size_t>(estimator.topology().world_size)) {}

Result<ResidentParts> ResidentMemory::shard_parts(const TableProfile& table, ShardingType type,
                                                  ComputeKernel kernel, std::int64_t rows,
                                                  std::int64_t columns,
                                                  const StorageParts& counted) const {
  ResidentParts parts{counted.weights, counted.optimizer_state, {}, counted.cache_state, Storage{}};
  if (estimator_.mode().inference) return parts;
  const ComputeDevice device = estimator_.topology().compute_device;
  const Bytes states = num_states(table.optimizer, rows, columns);
  if (kernel == ComputeKernel::kFused) {
    parts.optimizer_state = on_device(device, saturated_multiply(states, kStateElementBytes));
  } else if (kernel == ComputeKernel::kDense) {
    const Bytes state = saturated_multiply(states, table.shape.element_size);
    parts.optimizer_state = on_device(device, states > 0 ? saturated_add(state, kStepBytes) : 0);
    parts.gradients = counted.weights;
  }
  if (type == ShardingType::kDataParallel || rows == 0 || columns == 0) return parts;
  const Topology& topology = estimator_.topology();
  const double cut = row_parts(type, topology);
  PLIMSOLL_ASSIGN(const Bytes received,
                  whole(batch_of(estimator_.cost_model(), table, cut) / cut * topology.world_size));
  parts.input_output =
      on_device(device, saturated_multiply(received, copies_of(estimator_.mode()).received));
  return parts;
}

void ResidentMemory::add(const ResidentParts& shard, int rank) {
  ranks_[static_cast<std::size_t>(rank)] += shard;
}

Result<void> ResidentMemory::add_table(const TableProfile& table, const std::string& module_path,
                                       std::int32_t position, ShardingType type,
                                       std::span<const std::int32_t> first_ranks) {
  Waiting waiting{type, 0, 0, 0, {first_ranks.begin(), first_ranks.end()}};
  const CostModel& cost_model = estimator_.cost_model();
  PLIMSOLL_ASSIGN(waiting.batch, whole(batch_of(cost_model, table, 1)));
  PLIMSOLL_ASSIGN(waiting.sent,
                  whole(batch_of(cost_model, table, row_parts(type, estimator_.topology()))));
  if (!table.is_pooled && is_cut_by_rows(type)) {
    PLIMSOLL_ASSIGN(waiting.order, whole(make_loads(cost_model, table).ids * kPlaceBytes));
  }
  waiting_[module_path][position] = std::move(waiting);
  return {};
}

// The features of a module are put in the order of sharding types and ranks, which copies the batch
// unless they are in that order; tables that are not cut by rows, and replicas, keep pieces of that
// copy. A cut by rows makes a copy of its own, and of sequences keeps the order of the ids.
Bytes ResidentMemory::batches_of(const std::map<std::int32_t, Waiting>& module) const {
  const PipelineCopies copies = copies_of(estimator_.mode());
  std::vector<ShardingType> types;  // in the order of their first tables
  Bytes batch = 0, sent = 0, ordered = 0, orders = 0;
  bool keeps_pieces = false;
  for (const auto& [position, table] : module) {
    if (std::find(types.begin(), types.end(), table.type) == types.end()) {
      types.push_back(table.type);
    }
    const Bytes blocks = std::max<Bytes>(1, std::ssize(table.first_ranks));
    batch = saturated_add(batch, table.batch);
    orders = saturated_add(orders, table.order);
    ordered = saturated_add(ordered, saturated_multiply(table.batch, blocks));
    if (is_cut_by_rows(table.type)) {
      sent = saturated_add(sent, saturated_multiply(table.sent, blocks));
    } else {
      keeps_pieces = true;
    }
  }
  std::vector<std::int32_t> order;
  for (const ShardingType type : types) {
    std::vector<std::pair<std::int32_t, std::int32_t>> places;  // rank, position
    for (const auto& [position, table] : module) {
      if (table.type != type) continue;
      if (table.first_ranks.empty()) places.emplace_back(0, position);
      for (const std::int32_t rank : table.first_ranks) {
        places.emplace_back(type == ShardingType::kRowWise ? 0 : rank, position);
      }
    }
    std::stable_sort(places.begin(), places.end(),
                     [](const auto& a, const auto& b) { return a.first < b.first; });
    for (const auto& [rank, position] : places) order.push_back(position);
  }
  const bool is_in_order =
      order.size() == module.size() && std::is_sorted(order.begin(), order.end());
  if (copies.received == 0) return 0;
  Bytes bytes = saturated_add(saturated_multiply(batch, copies.batches), orders);
  if (!copies.keeps_sent) return bytes;
  bytes = saturated_add(bytes, sent);
  return keeps_pieces && !is_in_order ? saturated_add(bytes, ordered) : bytes;
}

std::vector<ResidentParts> ResidentMemory::finish() {
  Bytes bytes = 0;
  for (const auto& [path, module] : waiting_) bytes = saturated_add(bytes, batches_of(module));
  const Storage batches = on_device(estimator_.topology().compute_device, bytes);
  for (ResidentParts& rank : ranks_) rank.input_output += batches;
  return std::move(ranks_);
}

void add_to_bill(const std::vector<ResidentParts>& ranks, Bill& bill) {
  constexpr std::array<std::pair<std::string_view, Bytes Storage::*>, 3> kTiers{
      {{"hbm", &Storage::hbm}, {"ddr", &Storage::ddr}, {"ssd", &Storage::ssd}}};
  constexpr std::array<std::pair<std::string_view, Storage ResidentParts::*>, 5> kCauses{
      {{"weights", &ResidentParts::weights},
       {"optimizer_state", &ResidentParts::optimizer_state},
       {"gradients", &ResidentParts::gradients},
       {"cache_state", &ResidentParts::cache_state},
       {"input_output", &ResidentParts::input_output}}};
  for (const auto& [tier, bytes_of] : kTiers) {
    const std::string name = "resident_" + std::string(tier);
    std::vector<Bytes> total(ranks.size(), 0);
    for (const auto& [cause, part_of] : kCauses) {
      std::vector<Bytes> bytes;
      for (std::size_t rank = 0; rank < ranks.size(); ++rank) {
        bytes.push_back(ranks[rank].*part_of.*bytes_of);
        total[rank] = saturated_add(total[rank], bytes.back());
      }
      const bool is_any = std::any_of(bytes.begin(), bytes.end(), [](Bytes b) { return b != 0; });
      if (is_any) bill.bytes[name + "_" + std::string(cause)] = std::move(bytes);
    }
    const bool is_any = std::any_of(total.begin(), total.end(), [](Bytes b) { return b != 0; });
    if (is_any) bill.bytes[name] = std::move(total);
  }
}

}  // namespace plimsoll::embedding
