// One canonical text of all inputs, for hashes: fields in declared order, maps sorted, numbers in
// full. Two problems have equal texts iff they plan alike.

#include <fmt/format.h>

#include <map>
#include <string>

#include "core/python_text.h"
#include "embedding/torchrec/planning_record.h"
#include "plimsoll/core/digest.h"
#include "plimsoll/core/version.h"
#include "plimsoll/embedding/planner.h"

namespace plimsoll::embedding {
namespace {

// Appends "name=value;" pairs; strings carry their length, so no value can imitate another field.
class Text {
 public:
  void add(std::string_view name, std::string_view value) {
    const fmt::format_int size(value.size());
    text_.append(name).append("=").append(size.data(), size.size()).append(":");
    text_.append(value).append(";");
  }
  void add(std::string_view name, double value) { add(name, python_repr(value)); }
  template <class Integer>
  requires std::is_integral_v<Integer>
  void add(std::string_view name, Integer value) {
    if constexpr (std::is_same_v<Integer, bool>) {
      add(name, std::string_view(value ? "true" : "false"));
    } else {
      const fmt::format_int digits(value);
      add(name, std::string_view(digits.data(), digits.size()));
    }
  }
  template <class Enum>
  requires std::is_enum_v<Enum>
  void add(std::string_view name, Enum value) { add(name, to_string(value)); }
  template <class T>
  void add(std::string_view name, const std::optional<T>& value) {
    if (value) add(name, *value);
  }
  template <class T>
  void add(std::string_view name, const std::vector<T>& values) {
    add(name, values.size());
    for (const T& value : values) add("-", value);
  }
  std::string take() { return std::move(text_); }

 private:
  std::string text_;
};

void add_cache(const CacheParams& cache, Text& text) {
  text.add("cache.algorithm", cache.algorithm);
  text.add("cache.load_factor", cache.load_factor);
  text.add("cache.reserved_memory", cache.reserved_memory);
  text.add("cache.precision", cache.precision);
  text.add("cache.prefetch_pipeline", cache.prefetch_pipeline);
  text.add("cache.multipass_num_passes", cache.multipass_num_passes);
  if (!cache.stats) return;
  text.add("stats.expected_lookups", cache.stats->expected_lookups);
  text.add("stats.cacheability", cache.stats->cacheability);
  text.add("stats.constant_miss_rate", cache.stats->constant_miss_rate);
  text.add("stats.histogram", cache.stats->histogram);
  text.add("stats.height", cache.stats->height);
}

void add_constraints(const ConstraintMap& map, Text& text) {
  for (const auto& [name, c] : map) {
    text.add("constraints", name);
    text.add("sharding_types", c.sharding_types);
    text.add("compute_kernels", c.compute_kernels);
    text.add("min_partition", c.min_partition);
    text.add("pooling_factors", c.pooling_factors);
    text.add("num_poolings", c.num_poolings);
    text.add("batch_sizes", c.batch_sizes);
    text.add("is_weighted", c.is_weighted);
    if (c.cache_params) add_cache(*c.cache_params, text);
    text.add("enforce_hbm", c.enforce_hbm);
    text.add("stochastic_rounding", c.stochastic_rounding);
    text.add("bounds_check_mode", c.bounds_check_mode);
    text.add("feature_names", c.feature_names);
    text.add("output_dtype", c.output_dtype);
    text.add("device_group", c.device_group);
    if (c.key_value_params) {
      text.add("max_l1_cache_size", c.key_value_params->max_l1_cache_size);
      text.add("l2_cache_size", c.key_value_params->l2_cache_size);
      for (const auto& [key, value] : c.key_value_params->pass_through) text.add(key, value);
    }
    text.add("use_virtual_table", c.use_virtual_table);
  }
}

std::string model_text(const Model& model) {
  Text text;
  for (const Module& module : model.modules) {
    text.add("module", module.path);
    text.add("kind", module.kind);
    text.add("is_weighted", module.is_weighted);
    text.add("holds_embedding_collection", module.holds_embedding_collection);
    text.add("legacy_feature_processor_tables", module.legacy_feature_processor_tables);
    text.add("sharder.cache_load_factor", module.sharder.cache_load_factor);
    text.add("sharder.prefetch_pipeline", module.sharder.prefetch_pipeline);
    text.add("sharder.multipass_num_passes", module.sharder.multipass_num_passes);
    text.add("sharder.forward_comms", module.sharder.forward_comms);
    text.add("sharder.backward_comms", module.sharder.backward_comms);
    if (module.sharder.codec_bytes) {
      const CodecBytes& bytes = *module.sharder.codec_bytes;
      text.add("codec.forward_all_to_all", bytes.forward_all_to_all);
      text.add("codec.backward_all_to_all", bytes.backward_all_to_all);
      text.add("codec.forward_reduce_scatter", bytes.forward_reduce_scatter);
      text.add("codec.backward_reduce_scatter", bytes.backward_reduce_scatter);
    }
    text.add("dense_parameter_bytes", module.dense_parameter_bytes);
    text.add("dense_buffer_bytes", module.dense_buffer_bytes);
    for (const Table& table : module.tables) {
      text.add("table", table.name);
      text.add("num_embeddings", table.num_embeddings);
      text.add("embedding_dim", table.embedding_dim);
      text.add("data_type", table.data_type);
      text.add("pooling", table.pooling);
      text.add("feature_names", table.feature_names);
      text.add("element_size", table.element_size);
      text.add("optimizer", table.optimizer);
      text.add("use_virtual_table", table.use_virtual_table);
      text.add("total_num_buckets", table.total_num_buckets);
      text.add("num_poolings", table.num_poolings);
      text.add("tower", table.tower);
      if (table.dynamic_embedding) {
        text.add("dynamic.mode", table.dynamic_embedding->mode);
        text.add("dynamic.load_factor", table.dynamic_embedding->load_factor);
        text.add("dynamic.bucket_capacity", table.dynamic_embedding->bucket_capacity);
      }
    }
  }
  text.add("dense_parameter_bytes", model.dense_parameter_bytes);
  text.add("dense_buffer_bytes", model.dense_buffer_bytes);
  text.add("optimizer", model.optimizer);
  add_constraints(model.constraints, text);
  return text.take();
}

std::string topology_text(const topology::Topology& topology) {
  Text text;
  text.add("world_size", topology.world_size);
  text.add("local_world_size", topology.local_world_size);
  text.add("pod_size", topology.pod_size);
  text.add("compute_device", topology::to_string(topology.compute_device));
  for (const Storage& device : topology.devices) {
    text.add("device", fmt::format("{},{},{}", device.hbm, device.ddr, device.ssd));
  }
  text.add("has_custom_hbm", topology.has_custom_hbm);
  text.add("has_custom_ddr", topology.has_custom_ddr);
  text.add("hbm_mem_bw", topology.hbm_mem_bw);
  text.add("ddr_mem_bw", topology.ddr_mem_bw);
  text.add("ssd_mem_bw", topology.ssd_mem_bw);
  text.add("hbm_to_ddr_mem_bw", topology.hbm_to_ddr_mem_bw);
  text.add("intra_host_bw", topology.comms.intra_host_bw);
  text.add("inter_host_bw", topology.comms.inter_host_bw);
  for (const topology::CommsRule& rule : topology.comms.rules) {
    text.add("rule", rule.bandwidth);
    if (rule.collective) text.add("collective", topology::to_string(*rule.collective));
    text.add("min_world_size", rule.min_world_size);
    text.add("max_world_size", rule.max_world_size);
    text.add("min_local_world_size", rule.min_local_world_size);
    text.add("max_local_world_size", rule.max_local_world_size);
  }
  if (!topology.device_speeds.empty()) text.add("device_speeds", topology.device_speeds);
  text.add("bwd_compute_multiplier", topology.bwd_compute_multiplier);
  text.add("weighted_feature_bwd_compute_multiplier",
           topology.weighted_feature_bwd_compute_multiplier);
  text.add("uneven_sharding_perf_multiplier", topology.uneven_sharding_perf_multiplier);
  return text.take();
}

}  // namespace

std::string context_hash(const PlanningProblem& problem, const ReferenceOptions& options) {
  Text text;
  text.add("model", model_text(problem.model));
  text.add("topology", topology_text(problem.topology));
  add_constraints(problem.enumeration.fqn_constraints, text);
  if (problem.enumeration.global_constraints) {
    text.add("global_constraints", "");
    add_constraints({{"", *problem.enumeration.global_constraints}}, text);
  }
  for (const auto& [name, value] : write_record(make_planning_record(problem, options, nullptr))) {
    text.add(name, value);
  }
  return input_hash(text.take());
}

Provenance make_provenance(const PlanningProblem& problem, const ReferenceOptions& options,
                           const SearchOptions& search) {
  Provenance provenance;
  provenance.version = kVersion;
  provenance.options = write_record(make_planning_record(problem, options, &search));
  provenance.inputs["model"] = input_hash(model_text(problem.model));
  provenance.inputs["topology"] = input_hash(topology_text(problem.topology));
  if (problem.machine) provenance.inputs["machine"] = problem.machine->hash;
  provenance.seed = search.seed;
  return provenance;
}

}  // namespace plimsoll::embedding
