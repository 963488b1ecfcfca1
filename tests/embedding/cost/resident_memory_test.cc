// What ranks keep between two steps. The batches' figures are those that TorchRec 1.8's pipelines
// kept on gloo ranks: tests/python/torchrec/test_resident_memory.py measures them.

#include "plimsoll/embedding/resident_memory.h"

#include <gtest/gtest.h>

#include <vector>

namespace plimsoll::embedding {
namespace {

constexpr Bytes kIds = 4 * 1024 * 8;  // of a table and a rank: 4 ids a sample, 1,024 samples
constexpr Bytes kLengths = 1024 * 8;
constexpr Bytes kBatch = kIds + kLengths;

Estimator estimator_of(int ranks, int hosts, PipelineType pipeline, bool inference = false) {
  topology::TopologySpec spec;
  spec.world_size = ranks;
  spec.local_world_size = ranks / hosts;
  spec.compute_device = topology::ComputeDevice::kCpu;
  const CostModel cost_model = *find_cost_model("torchrec-1.8");
  return Estimator(
      cost_model,
      *topology::make_topology(spec, cost_model.zero_cap_is_default, cost_model.ssd_tier),
      {.inference = inference, .pipeline_type = pipeline});
}

TableProfile table_of(std::int64_t rows, std::int64_t columns, Optimizer optimizer,
                      int element_size = 4) {
  TableProfile table;
  table.shape = {rows, columns, element_size, rows * columns * element_size};
  table.optimizer = optimizer;
  table.pooling_factors = {4};
  table.batch_sizes = {1024};
  return table;
}

ResidentParts parts_of(const Estimator& estimator, const TableProfile& table, ShardingType type,
                       ComputeKernel kernel, std::int64_t rows, std::int64_t columns) {
  const StorageParts counted = *estimator.shard_storage_parts(table, type, kernel, rows, columns);
  return *ResidentMemory(estimator).shard_parts(table, type, kernel, rows, columns, counted);
}

TEST(ResidentMemory, KeepsOneFloatOfEveryRowOfAColumnShardForRowWiseAdagrad) {
  const Estimator estimator = estimator_of(2, 1, PipelineType::kNone);
  for (const int element_size : {2, 4}) {
    const TableProfile table = table_of(1000, 64, Optimizer::kRowWiseAdagrad, element_size);
    const ResidentParts parts =
        parts_of(estimator, table, ShardingType::kColumnWise, ComputeKernel::kFused, 1000, 16);
    EXPECT_EQ(parts.weights, (Storage{0, 1000 * 16 * element_size, 0}));
    EXPECT_EQ(parts.optimizer_state, (Storage{0, 4000, 0}));
    EXPECT_EQ(parts.gradients, Storage{});
  }
}

TEST(ResidentMemory, KeepsFloatStateOfHalfPrecisionWeights) {
  const Estimator estimator = estimator_of(2, 1, PipelineType::kNone);
  const auto state_of = [&](Optimizer optimizer) {
    return parts_of(estimator, table_of(1000, 64, optimizer, 2), ShardingType::kRowWise,
                    ComputeKernel::kFused, 500, 64)
        .optimizer_state.ddr;
  };
  EXPECT_EQ(state_of(Optimizer::kNone), 0);
  EXPECT_EQ(state_of(Optimizer::kSgd), 0);
  EXPECT_EQ(state_of(Optimizer::kOther), 500 * 64 * 4);
  EXPECT_EQ(state_of(Optimizer::kAdam), 2 * 500 * 64 * 4);
}

TEST(ResidentMemory, KeepsGradientsAndTorchsStateOfReplicas) {
  const Estimator estimator = estimator_of(2, 1, PipelineType::kNone);
  const auto parts = [&](Optimizer optimizer, int element_size) {
    return parts_of(estimator, table_of(1000, 64, optimizer, element_size),
                    ShardingType::kDataParallel, ComputeKernel::kDense, 1000, 64);
  };
  EXPECT_EQ(parts(Optimizer::kSgd, 4).gradients.ddr, 256000);
  EXPECT_EQ(parts(Optimizer::kSgd, 4).optimizer_state, Storage{});
  EXPECT_EQ(parts(Optimizer::kOther, 4).optimizer_state.ddr, 256000 + 4);  // and the step's number
  EXPECT_EQ(parts(Optimizer::kAdam, 2).optimizer_state.ddr, 256000 + 4);
  EXPECT_EQ(parts(Optimizer::kAdam, 2).gradients.ddr, 128000);
  EXPECT_EQ(parts(Optimizer::kRowWiseAdagrad, 4).optimizer_state.ddr, 4000 + 4);
  EXPECT_EQ(parts(Optimizer::kSgd, 4).input_output, Storage{});
}

TEST(ResidentMemory, KeepsNothingButWeightsInInference) {
  const Estimator estimator = estimator_of(2, 1, PipelineType::kTrainSparseDist, true);
  const ResidentParts parts = parts_of(estimator, table_of(1000, 64, Optimizer::kAdam),
                                       ShardingType::kTableWise, ComputeKernel::kFused, 1000, 64);
  EXPECT_EQ(parts.input_output, Storage{});
  EXPECT_EQ(parts.optimizer_state, Storage{});
}

struct Placed {
  ShardingType type;
  std::vector<std::vector<std::int32_t>> ranks;  // of every column block
};

// Input bytes of each rank, four tables.
std::vector<Bytes> inputs(int ranks, int hosts, PipelineType pipeline,
                          const std::vector<Placed>& tables, bool is_pooled = true) {
  const Estimator estimator = estimator_of(ranks, hosts, pipeline);
  ResidentMemory resident(estimator);
  TableProfile table = table_of(1000, 64, Optimizer::kSgd);
  table.is_pooled = is_pooled;
  for (std::size_t t = 0; t < tables.size(); ++t) {
    const Placed& placed = tables[t];
    const ComputeKernel kernel =
        placed.type == ShardingType::kDataParallel ? ComputeKernel::kDense : ComputeKernel::kFused;
    std::vector<std::int32_t> first_ranks;
    for (const std::vector<std::int32_t>& block : placed.ranks) {
      first_ranks.push_back(block.front());
      const ResidentParts parts = parts_of(estimator, table, placed.type, kernel, 500, 32);
      for (const std::int32_t rank : block) resident.add(parts, rank);
    }
    EXPECT_TRUE(
        resident.add_table(table, "ebc", static_cast<std::int32_t>(t), placed.type, first_ranks));
  }
  std::vector<Bytes> bytes;
  for (const ResidentParts& rank : resident.finish()) bytes.push_back(rank.input_output.ddr);
  return bytes;
}

using enum ShardingType;

TEST(ResidentMemory, KeepsWhatPipelinesOfWholeTablesHold) {
  const std::vector<Placed> tables{
      {kTableWise, {{1}}}, {kTableWise, {{0}}}, {kTableWise, {{0}}}, {kTableWise, {{1}}}};
  const auto bytes = [&](PipelineType pipeline) { return inputs(2, 1, pipeline, tables); };
  using Ranks = std::vector<Bytes>;
  // Two tables' ids of two ranks are as many as the four of a batch.
  EXPECT_EQ(bytes(PipelineType::kNone), (Ranks{4 * kBatch, 4 * kBatch}));
  EXPECT_EQ(bytes(PipelineType::kTrainBase), (Ranks{8 * kBatch, 8 * kBatch}));
  // Received twice, two batches, and the copy in the order of the ranks.
  EXPECT_EQ(bytes(PipelineType::kTrainSparseDist), (Ranks{20 * kBatch, 20 * kBatch}));
}

TEST(ResidentMemory, DoesNotCopyABatchThatIsInTheOrderOfTheRanks) {
  const std::vector<Placed> tables{
      {kTableWise, {{0}}}, {kTableWise, {{0}}}, {kTableWise, {{1}}}, {kTableWise, {{1}}}};
  EXPECT_EQ(inputs(2, 1, PipelineType::kTrainSparseDist, tables)[0], 16 * kBatch);
}

TEST(ResidentMemory, CutsIdsByRowsAndSendsLengthsToEveryRank) {
  const std::vector<Placed> tables(4, {kRowWise, {{0, 1}}});
  const Bytes received = 4 * (kIds + 2 * kLengths);
  EXPECT_EQ(inputs(2, 1, PipelineType::kNone, tables)[1], received);
  EXPECT_EQ(inputs(2, 1, PipelineType::kTrainSparseDist, tables)[1],
            2 * received + 2 * 4 * kBatch + received);
  // On two hosts of two ranks a table's ids are cut between the ranks of its host.
  const std::vector<Placed> hosts{{kTableRowWise, {{2, 3}}},
                                  {kTableRowWise, {{0, 1}}},
                                  {kTableRowWise, {{0, 1}}},
                                  {kTableRowWise, {{2, 3}}}};
  EXPECT_EQ(inputs(4, 2, PipelineType::kTrainSparseDist, hosts)[0],
            2 * 2 * (2 * kIds + 4 * kLengths) + 2 * 4 * kBatch + 4 * (kIds + 2 * kLengths));
}

TEST(ResidentMemory, KeepsThePlacesOfIdsWhoseSequencesAreCutByRows) {
  const std::vector<Placed> tables{{kRowWise, {{0, 1}}}, {kTableWise, {{1}}}, {kRowWise, {{0, 1}}}};
  for (const PipelineType pipeline :
       {PipelineType::kNone, PipelineType::kTrainBase, PipelineType::kTrainSparseDist}) {
    const Bytes pooled = inputs(2, 1, pipeline, tables)[0];
    EXPECT_EQ(inputs(2, 1, pipeline, tables, false)[0], pooled + 2 * kIds);
  }
}

TEST(ResidentMemory, KeepsOneCopyOfABatchForReplicasBesideWholeTables) {
  const std::vector<Placed> tables{
      {kDataParallel, {{0, 1}}}, {kTableWise, {{1}}}, {kTableWise, {{0}}}};
  const std::vector<Bytes> bytes = inputs(2, 1, PipelineType::kTrainSparseDist, tables);
  EXPECT_EQ(bytes[0], 2 * 2 * kBatch + 2 * 3 * kBatch + 3 * kBatch);
  const std::vector<Placed> replicas(3, {kDataParallel, {{0, 1}}});
  EXPECT_EQ(inputs(2, 1, PipelineType::kTrainSparseDist, replicas)[0], 2 * 3 * kBatch);
}

TEST(ResidentMemory, NamesOnlyCausesThatARankHas) {
  Bill bill;
  ResidentParts rank;
  rank.weights.ddr = 5;
  rank.gradients.ddr = 7;
  add_to_bill({ResidentParts{}, rank}, bill);
  const std::map<std::string, std::vector<Bytes>> right{{"resident_ddr", {0, 12}},
                                                        {"resident_ddr_gradients", {0, 7}},
                                                        {"resident_ddr_weights", {0, 5}}};
  EXPECT_EQ(bill.bytes, right);
}

}  // namespace
}  // namespace plimsoll::embedding
