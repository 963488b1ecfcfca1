// The keys of a dump of TorchRec's options, by the rules of descriptions.h.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "io/documents/descriptions.h"

namespace plimsoll::io {

inline constexpr std::string_view kTorchrecOptionsSchema = "plimsoll.torchrec_options/1";

inline constexpr Rule kColumns{.min = 1, .max = 2147483647};  // as of a model's tables

struct DumpedOption {
  std::string fqn;
  std::string group;  // co-location; the fqn or empty: alone
  std::string module_path;
  embedding::ShardingType sharding_type = embedding::ShardingType::kTableWise;
  embedding::ComputeKernel compute_kernel = embedding::ComputeKernel::kFused;
  std::string partition_by;
  std::vector<std::int64_t> shards;              // classes
  std::vector<std::vector<std::int64_t>> sizes;  // rows, columns
  std::int64_t rows = 0, columns = 1;
  std::string dtype;
  std::vector<double> input_lengths;
  std::optional<std::vector<double>> num_poolings;
  bool is_pooled = true;
  bool is_weighted = false;
  embedding::Pooling pooling = embedding::Pooling::kSum;
  std::optional<double> cache_load_factor;
  std::optional<std::uint64_t> storage_hash;
};

struct TorchrecOptionsDocument {
  std::string schema{kTorchrecOptionsSchema};
  std::string torchrec;
  int world_size = 1;
  int local_world_size = 1;
  std::optional<int> group_size;
  topology::ComputeDevice compute_device = topology::ComputeDevice::kCuda;
  std::int64_t batch_size = 512;
  std::optional<std::string> context_hash;
  std::vector<std::vector<std::int64_t>> capacity, room;  // hbm, ddr, ssd
  std::vector<std::vector<double>> shard_classes;  // hbm, ddr, ssd, total, then five components
  std::vector<DumpedOption> options;
};

template <class Fields, SameAs<DumpedOption> T>
void describe(Fields& fields, T& option) {
  fields.required("fqn", option.fqn);
  fields.optional("group", option.group);
  fields.optional("module_path", option.module_path);
  fields.required("sharding_type", option.sharding_type);
  fields.required("compute_kernel", option.compute_kernel);
  fields.optional("partition_by", option.partition_by);
  fields.required("shards", option.shards, kNonNegative);
  fields.required("sizes", option.sizes, kNonNegative);
  fields.required("rows", option.rows, kNonNegative);
  fields.required("columns", option.columns, kColumns);
  fields.optional("dtype", option.dtype);
  fields.optional("input_lengths", option.input_lengths, kNonNegative);
  fields.optional("num_poolings", option.num_poolings, kNullable);
  fields.stated("is_pooled", option.is_pooled);
  fields.stated("is_weighted", option.is_weighted);
  fields.stated("pooling", option.pooling);
  fields.optional("cache_load_factor", option.cache_load_factor, kNullable);
  fields.optional("storage_hash", option.storage_hash, kNullable);
}

template <class Fields, SameAs<TorchrecOptionsDocument> T>
void describe(Fields& fields, T& document) {
  fields.stated("schema", document.schema);
  fields.optional("torchrec", document.torchrec);
  fields.required("world_size", document.world_size, kWorldSize);
  fields.required("local_world_size", document.local_world_size, kWorldSize);
  fields.optional("group_size", document.group_size, kWorldSize);
  fields.stated("compute_device", document.compute_device);
  fields.stated("batch_size", document.batch_size, kNonNegative);
  fields.optional("context_hash", document.context_hash, kNullable);
  fields.optional("capacity", document.capacity);
  fields.required("room", document.room);
  fields.required("shard_classes", document.shard_classes, kNonNegative);
  fields.required("options", document.options);
}

}  // namespace plimsoll::io
