// From the user's words to what the formulas read: one profile a table, the same for all its
// options.

#include <fmt/format.h>

#include "embedding/model/sharder.h"
#include "plimsoll/embedding/estimator.h"

namespace plimsoll::embedding {
namespace {

double codec_bytes(CommsPrecision precision) {
  switch (precision) {
    case CommsPrecision::kFp32:
      return 4;
    case CommsPrecision::kFp16:
    case CommsPrecision::kBf16:
      return 2;
    case CommsPrecision::kFp8:
    case CommsPrecision::kInt8:
    case CommsPrecision::kMx4:
      return 1;
  }
  return 4;
}

// Reduce-scatter has no FP8 or MX4 codec; the registry falls back to 16-bit ones.
double reduce_scatter_bytes(CommsPrecision precision) {
  const bool has_no_codec = precision == CommsPrecision::kFp8 || precision == CommsPrecision::kMx4;
  return has_no_codec ? 2 : codec_bytes(precision);
}

}  // namespace

CommsElementSizes comms_element_sizes(const SharderParams& sharder, bool is_pooled,
                                      int element_size, ComputeDevice) {
  const double plain = element_size;
  if (sharder.codec_bytes) {
    const CodecBytes& bytes = *sharder.codec_bytes;
    return {bytes.forward_all_to_all.value_or(plain), bytes.backward_all_to_all.value_or(plain),
            is_pooled ? bytes.forward_reduce_scatter.value_or(plain) : plain,
            is_pooled ? bytes.backward_reduce_scatter.value_or(plain) : plain};
  }
  const CommsPrecision forward = sharder.forward_comms.value_or(CommsPrecision::kFp32);
  const CommsPrecision backward = sharder.backward_comms.value_or(CommsPrecision::kFp32);
  // FP32 both ways builds no registry at all: then the table's own element size counts. On cpu BF16
  // becomes FP16, of the same size.
  if (forward == CommsPrecision::kFp32 && backward == CommsPrecision::kFp32) {
    return {plain, plain, plain, plain};
  }
  return {codec_bytes(forward), codec_bytes(backward),
          is_pooled ? reduce_scatter_bytes(forward) : plain,
          is_pooled ? reduce_scatter_bytes(backward) : plain};
}

Result<TableProfile> make_table_profile(const CostModel& cost_model, const Topology& topology,
                                        const Model& model, const Module& module,
                                        const Table& table, std::int64_t batch_size) {
  const auto found = model.constraints.find(table.name);
  return make_table_profile(
      cost_model, topology, model.optimizer, module, table,
      found == model.constraints.end() ? ParameterConstraints{} : found->second, batch_size);
}

Result<TableProfile> make_table_profile(const CostModel& cost_model, const Topology& topology,
                                        std::optional<Optimizer> default_optimizer,
                                        const Module& module, const Table& table,
                                        const ParameterConstraints& constraints,
                                        std::int64_t batch_size) {
  TableProfile profile;
  PLIMSOLL_ASSIGN(profile.shape, table_shape(module, table));
  profile.module_kind = module.kind;
  profile.is_pooled = is_pooled(module, module.path);
  profile.is_weighted = is_weighted(module, table, constraints);
  if (shows_optimizers(module.kind)) {
    profile.optimizer = table.optimizer.value_or(default_optimizer.value_or(Optimizer::kNone));
  }

  // The planner counts pooling factors, never the configuration's features: no constraint means one
  // feature of one id.
  profile.pooling_factors =
      constraints.pooling_factors.empty() ? std::vector{1.0} : constraints.pooling_factors;
  const std::size_t num_features = profile.pooling_factors.size();
  profile.num_poolings =
      constraints.num_poolings.empty() ? std::vector(num_features, 1.0) : constraints.num_poolings;
  if (cost_model.poolings_on_option && table.num_poolings.size() == num_features) {
    profile.num_poolings = table.num_poolings;
  }
  profile.batch_sizes = constraints.batch_sizes.empty()
                            ? std::vector(num_features, batch_size > 0 ? batch_size : 512)
                            : constraints.batch_sizes;
  if (profile.num_poolings.size() != num_features || profile.batch_sizes.size() != num_features) {
    return fail(ErrorCode::kValue, "constraints/" + table.name,
                fmt::format("{} pooling factors, {} numbers of poolings and {} batch sizes",
                            num_features, profile.num_poolings.size(), profile.batch_sizes.size()),
                "give one entry a feature in each list");
  }

  if (constraints.output_dtype) {
    const std::optional<int> bits = bit_width(*constraints.output_dtype);
    if (!bits) {
      return fail(ErrorCode::kValue, "constraints/" + table.name + "/output_dtype",
                  fmt::format("{} has no bit width", to_string(*constraints.output_dtype)));
    }
    profile.output_element_size = *bits / 8.0;
  }
  profile.cache_params = constraints.cache_params;
  profile.sharder = visible_sharder_params(module);
  profile.comms = comms_element_sizes(profile.sharder, profile.is_pooled,
                                      profile.shape.element_size, topology.compute_device);
  profile.key_value_params = constraints.key_value_params;
  profile.use_virtual_table = constraints.use_virtual_table;
  profile.dynamic_embedding = table.dynamic_embedding;
  return profile;
}

}  // namespace plimsoll::embedding
