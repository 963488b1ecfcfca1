// What every document looks like: the keys of each of its types, in the order they are written.
// The words `required`, `optional` and `stated` and the rules are those of json_reader.h. A type
// named ...Entry or ...Document is the written form of a type of another room.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "io/documents/bound_descriptions.h"
#include "io/documents/frontier_description.h"
#include "io/documents/names.h"
#include "io/json/json_reader.h"
#include "plimsoll/embedding/sharding_plan.h"
#include "plimsoll/io/plan_json.h"

namespace plimsoll::io {

inline constexpr std::string_view kModelSchema = "plimsoll.model/1";
inline constexpr std::string_view kConstraintsSchema = "plimsoll.constraints/1";
inline constexpr std::string_view kTopologySchema = "plimsoll.topology/1";
inline constexpr std::string_view kPlanSchema = "plimsoll.plan/1";

// Bounds what a short text can ask for.
inline constexpr std::int64_t kMaxTables = 1 << 20;
inline constexpr std::int64_t kMaxRanks = 1 << 20;
inline constexpr std::int64_t kMaxShardsPerTable = 1 << 24;

inline constexpr Rule kCount{.min = 1, .max = kMaxTables};
inline constexpr Rule kWorldSize{.min = 1, .max = kMaxRanks};
inline constexpr Rule kHostSize{.min = 0, .max = kMaxRanks};
inline constexpr Rule kRank{.min = 0, .max = kMaxRanks - 1};
inline constexpr Rule kShardCount{.min = 1, .max = kMaxShardsPerTable};
inline constexpr Rule kMegabytes{.min = 0, .max = 4398046511104};  // 2^42: in bytes, half of 2^63

// ---------------------------------------------------------------- models

struct TableEntry {
  embedding::Table table;
  std::optional<std::int64_t> count;
  std::optional<embedding::ParameterConstraints> constraints;
};

struct ModuleEntry {
  embedding::Module module;  // its tables stay empty
  std::vector<TableEntry> tables;
};

struct ModelDocument {
  std::string schema{kModelSchema};
  embedding::Model model;  // without modules
  std::string description, source, provenance, notes;
  JsonValue facts;  // an object of any shape, for people
  std::optional<std::vector<TableEntry>> tables;
  std::optional<std::vector<ModuleEntry>> modules;
};

struct ConstraintsDocument {
  std::string schema{kConstraintsSchema};
  embedding::ConstraintMap constraints;
};

template <class Fields, SameAs<embedding::CacheStats> T>
void describe(Fields& fields, T& stats) {
  fields.stated("expected_lookups", stats.expected_lookups, kNonNegative);
  fields.stated("cacheability", stats.cacheability, kFraction);
  fields.optional("constant_miss_rate", stats.constant_miss_rate, kFraction);
  fields.optional("histogram", stats.histogram, kNonNegative);
  fields.optional("height", stats.height, kNonNegative);
}

template <class Fields, SameAs<embedding::CacheParams> T>
void describe(Fields& fields, T& cache) {
  fields.optional("algorithm", cache.algorithm);
  fields.optional("load_factor", cache.load_factor, kFraction);
  fields.optional("reserved_memory", cache.reserved_memory);
  fields.optional("precision", cache.precision);
  fields.optional("prefetch_pipeline", cache.prefetch_pipeline);
  fields.optional("stats", cache.stats);
  fields.optional("multipass_num_passes", cache.multipass_num_passes, kNonNegative);
}

template <class Fields, SameAs<embedding::KeyValueParams> T>
void describe(Fields& fields, T& params) {
  fields.optional("max_l1_cache_size", params.max_l1_cache_size, kMegabytes);
  fields.optional("l2_cache_size", params.l2_cache_size, kNonNegative);
  fields.optional("pass_through", params.pass_through, kJsonText);
}

template <class Fields, SameAs<embedding::ParameterConstraints> T>
void describe(Fields& fields, T& constraints) {
  fields.optional("sharding_types", constraints.sharding_types);
  fields.optional("compute_kernels", constraints.compute_kernels);
  fields.optional("min_partition", constraints.min_partition, kNonNegative);
  fields.optional("pooling_factors", constraints.pooling_factors, kNonNegative);
  fields.optional("num_poolings", constraints.num_poolings, kNonNegative);
  fields.optional("batch_sizes", constraints.batch_sizes, kNonNegative);
  fields.optional("is_weighted", constraints.is_weighted);
  fields.optional("cache_params", constraints.cache_params);
  fields.optional("enforce_hbm", constraints.enforce_hbm);
  fields.optional("stochastic_rounding", constraints.stochastic_rounding);
  fields.optional("bounds_check_mode", constraints.bounds_check_mode);
  fields.optional("feature_names", constraints.feature_names);
  fields.optional("output_dtype", constraints.output_dtype);
  fields.optional("device_group", constraints.device_group);
  fields.optional("key_value_params", constraints.key_value_params);
  fields.optional("use_virtual_table", constraints.use_virtual_table);
}

template <class Fields, SameAs<embedding::DynamicEmbedding> T>
void describe(Fields& fields, T& dynamic) {
  fields.optional("mode", dynamic.mode);
  fields.optional("load_factor", dynamic.load_factor, kFraction);
  fields.stated("bucket_capacity", dynamic.bucket_capacity, kPositive);
}

template <class Fields, SameAs<TableEntry> T>
void describe(Fields& fields, T& entry) {
  auto& table = entry.table;
  fields.required("name", table.name);
  fields.optional("count", entry.count, kCount);
  fields.required("num_embeddings", table.num_embeddings, kNonNegative);
  fields.required("embedding_dim", table.embedding_dim, kPositive);
  fields.optional("data_type", table.data_type);
  fields.optional("pooling", table.pooling);
  fields.optional("feature_names", table.feature_names);
  fields.optional("element_size", table.element_size, kPositive);
  fields.optional("optimizer", table.optimizer);
  fields.optional("use_virtual_table", table.use_virtual_table);
  fields.optional("total_num_buckets", table.total_num_buckets, kPositive);
  fields.optional("num_poolings", table.num_poolings, kNonNegative);
  fields.optional("tower", table.tower, kNonNegative);
  fields.optional("dynamic_embedding", table.dynamic_embedding);
  fields.optional("constraints", entry.constraints);
}

template <class Fields, SameAs<embedding::CodecBytes> T>
void describe(Fields& fields, T& bytes) {
  fields.optional("forward_all_to_all", bytes.forward_all_to_all, kPositive);
  fields.optional("backward_all_to_all", bytes.backward_all_to_all, kPositive);
  fields.optional("forward_reduce_scatter", bytes.forward_reduce_scatter, kPositive);
  fields.optional("backward_reduce_scatter", bytes.backward_reduce_scatter, kPositive);
}

template <class Fields, SameAs<embedding::SharderParams> T>
void describe(Fields& fields, T& sharder) {
  fields.optional("cache_load_factor", sharder.cache_load_factor, kFraction);
  fields.optional("prefetch_pipeline", sharder.prefetch_pipeline);
  fields.optional("multipass_num_passes", sharder.multipass_num_passes, kNonNegative);
  fields.optional("forward_comms", sharder.forward_comms);
  fields.optional("backward_comms", sharder.backward_comms);
  fields.optional("codec_bytes", sharder.codec_bytes);
  fields.optional("optimizer", sharder.optimizer);
}

template <class Fields, SameAs<ModuleEntry> T>
void describe(Fields& fields, T& entry) {
  auto& module = entry.module;
  fields.stated("path", module.path);
  fields.stated("kind", module.kind);
  fields.optional("is_weighted", module.is_weighted);
  fields.optional("holds_embedding_collection", module.holds_embedding_collection);
  fields.optional("legacy_feature_processor_tables", module.legacy_feature_processor_tables);
  fields.optional("sharder", module.sharder);
  fields.optional("dense_parameter_bytes", module.dense_parameter_bytes, kBytes);
  fields.optional("dense_buffer_bytes", module.dense_buffer_bytes, kBytes);
  fields.required("tables", entry.tables);
}

template <class Fields, SameAs<ModelDocument> T>
void describe(Fields& fields, T& document) {
  auto& model = document.model;
  fields.stated("schema", document.schema);
  fields.optional("name", model.name);
  fields.optional("description", document.description);
  fields.optional("source", document.source);
  fields.optional("provenance", document.provenance);
  fields.optional("notes", document.notes);
  fields.optional("facts", document.facts);
  fields.optional("optimizer", model.optimizer);
  fields.optional("batch_size", model.batch_size, kNonNegative);
  fields.optional("dense_parameter_bytes", model.dense_parameter_bytes, kBytes);
  fields.optional("dense_buffer_bytes", model.dense_buffer_bytes, kBytes);
  fields.optional("tables", document.tables);
  fields.optional("modules", document.modules);
  fields.optional("constraints", model.constraints);
}

template <class Fields, SameAs<ConstraintsDocument> T>
void describe(Fields& fields, T& document) {
  fields.stated("schema", document.schema);
  fields.required("constraints", document.constraints);
}

// ---------------------------------------------------------------- topologies

struct TopologyDocument {
  std::string schema{kTopologySchema};
  topology::TopologySpec spec;
};

template <class Fields, SameAs<topology::CommsRule> T>
void describe(Fields& fields, T& rule) {
  fields.optional("collective", rule.collective);
  fields.optional("min_world_size", rule.min_world_size, kNonNegative);
  fields.optional("max_world_size", rule.max_world_size, kNonNegative);
  fields.optional("min_local_world_size", rule.min_local_world_size, kNonNegative);
  fields.optional("max_local_world_size", rule.max_local_world_size, kNonNegative);
  fields.required("bandwidth", rule.bandwidth, kBandwidth);
}

template <class Fields, SameAs<TopologyDocument> T>
void describe(Fields& fields, T& document) {
  auto& spec = document.spec;
  fields.stated("schema", document.schema);
  fields.optional("name", spec.name);
  fields.required("world_size", spec.world_size, kWorldSize);
  fields.optional("local_world_size", spec.local_world_size, kHostSize);
  fields.optional("pod_size", spec.pod_size, kNonNegative);
  fields.stated("compute_device", spec.compute_device);
  fields.optional("hbm_cap", spec.hbm_cap, kBytes);
  fields.optional("ddr_cap", spec.ddr_cap, kBytes);
  fields.optional("ssd_cap", spec.ssd_cap, kBytes);
  fields.optional("hbm_caps", spec.hbm_caps, kBytes);
  fields.optional("ddr_caps", spec.ddr_caps, kBytes);
  fields.optional("ssd_caps", spec.ssd_caps, kBytes);
  fields.optional("hbm_mem_bw", spec.hbm_mem_bw, kBandwidth);
  fields.optional("ddr_mem_bw", spec.ddr_mem_bw, kBandwidth);
  fields.optional("ssd_mem_bw", spec.ssd_mem_bw, kBandwidth);
  fields.optional("hbm_to_ddr_mem_bw", spec.hbm_to_ddr_mem_bw, kBandwidth);
  fields.optional("intra_host_bw", spec.intra_host_bw, kBandwidth);
  fields.optional("inter_host_bw", spec.inter_host_bw, kBandwidth);
  fields.optional("comms_rules", spec.comms_rules);
  fields.optional("device_speeds", spec.device_speeds, kNonNegative);
  fields.optional("bwd_compute_multiplier", spec.bwd_compute_multiplier, kNonNegative);
  fields.optional("weighted_feature_bwd_compute_multiplier",
                  spec.weighted_feature_bwd_compute_multiplier, kNonNegative);
  fields.optional("uneven_sharding_perf_multiplier", spec.uneven_sharding_perf_multiplier,
                  kNonNegative);
}

// ---------------------------------------------------------------- plans

struct PlanDocument {
  std::string schema{kPlanSchema};
  embedding::ShardingPlan plan;
};

struct CertificateEntry {
  Certificate certificate;    // without its proof
  std::optional<double> gap;  // derived; read only to be compared
  std::string proof;          // as a sentence
};

CertificateEntry make_certificate_entry(const Certificate& certificate);
// Error kConflict where a stated gap is not that of objective and bound.
Result<Certificate> take_certificate(const CertificateEntry& entry, std::string_view file);

struct BoundedCertificateEntry {
  CertificateEntry entry;
  std::optional<balance::PlacementBound> bound;
};

struct AnswerDocument {
  std::string schema{kPlanSchema};
  ShardingAnswer answer;  // without certificate
  std::optional<BoundedCertificateEntry> certificate;
};

template <class Fields, SameAs<embedding::RankRun> T>
void describe(Fields& fields, T& run) {
  fields.required("first", run.first, kRank);
  fields.stated("count", run.count, kShardCount);
}

template <class Fields, SameAs<embedding::ShardSizeRun> T>
void describe(Fields& fields, T& run) {
  fields.stated("count", run.count, kShardCount);
  fields.required("rows", run.rows, kNonNegative);
  fields.required("columns", run.columns, kNonNegative);
  fields.optional("row", run.row, kNonNegative);
  fields.optional("column", run.column, kNonNegative);
  fields.optional("row_stride", run.row_stride, kNonNegative);
}

template <class Fields, SameAs<embedding::TableSharding> T>
void describe(Fields& fields, T& sharding) {
  fields.stated("module_path", sharding.module_path);
  fields.required("table", sharding.table);
  fields.required("sharding_type", sharding.sharding_type);
  fields.required("compute_kernel", sharding.compute_kernel);
  fields.required("ranks", sharding.ranks);
  fields.required("shards", sharding.shards);
  fields.optional("cache_params", sharding.cache_params);
  fields.optional("enforce_hbm", sharding.enforce_hbm);
  fields.optional("stochastic_rounding", sharding.stochastic_rounding);
  fields.optional("bounds_check_mode", sharding.bounds_check_mode);
  fields.optional("output_dtype", sharding.output_dtype);
  fields.optional("key_value_params", sharding.key_value_params);
  fields.optional("dynamic_embedding", sharding.dynamic_embedding);
}

template <class Fields, SameAs<embedding::ShardingPlan> T>
void describe(Fields& fields, T& plan) {
  fields.required("world_size", plan.world_size, kWorldSize);
  fields.required("local_world_size", plan.local_world_size, kWorldSize);
  fields.stated("compute_device", plan.compute_device);
  fields.required("tables", plan.tables);
}

template <class Fields, SameAs<PlanDocument> T>
void describe(Fields& fields, T& document) {
  fields.stated("schema", document.schema);
  describe(fields, document.plan);
}

template <class Fields, SameAs<Bill> T>
void describe(Fields& fields, T& bill) {
  fields.stated("bytes", bill.bytes);
  fields.stated("ms", bill.ms);
}

template <class Fields, SameAs<CertificateEntry> T>
void describe(Fields& fields, T& entry) {
  fields.required("objective", entry.certificate.objective, kNullable);
  fields.stated("lower_bound", entry.certificate.lower_bound, kNullable);
  fields.stated("gap", entry.gap, kNullable);
  fields.stated("proof", entry.proof);
}

template <class Fields, SameAs<BoundedCertificateEntry> T>
void describe(Fields& fields, T& certificate) {
  describe(fields, certificate.entry);
  fields.optional("bound", certificate.bound);
}

template <class Fields, SameAs<embedding::PlanTimes> T>
void describe(Fields& fields, T& times) {
  fields.required("rating", times.rating, kNullable);
  fields.required("step", times.step, kNullable);
  fields.required("time", times.time, kNullable);
}

template <class Fields, SameAs<ShardCosts> T>
void describe(Fields& fields, T& costs) {
  describe(fields, costs.size);
  fields.stated("hbm", costs.hbm, kNonNegative);
  fields.stated("ddr", costs.ddr, kNonNegative);
  fields.stated("ssd", costs.ssd, kNonNegative);
  fields.stated("perf", costs.perf, kNonNegative);
}

template <class Fields, SameAs<TakenOption> T>
void describe(Fields& fields, T& taken) {
  fields.required("fqn", taken.fqn);
  fields.required("option", taken.option, kNonNegative);
  fields.optional("storage_hash", taken.storage_hash);
  fields.required("ranks", taken.ranks, kRank);
  fields.optional("shards", taken.shards);
}

template <class Fields, SameAs<FrontierPlan> T>
void describe(Fields& fields, T& point) {
  fields.optional("tables", point.tables);
  fields.optional("options", point.options);
}

template <class Fields, SameAs<FrontierProof> T>
void describe(Fields& fields, T& point) {
  fields.optional("bound", point.bound);
}

template <class Fields, SameAs<Provenance> T>
void describe(Fields& fields, T& provenance) {
  fields.stated("version", provenance.version);
  fields.stated("options", provenance.options);
  fields.stated("inputs", provenance.inputs);
  fields.stated("seed", provenance.seed);
  fields.optional("stopped_at", provenance.stopped_at);
}

template <class Fields, SameAs<Warning> T>
void describe(Fields& fields, T& warning) {
  fields.required("code", warning.code);
  fields.optional("place", warning.place);
  fields.required("message", warning.message);
}

template <class Fields, SameAs<study::ConflictMember> T>
void describe(Fields& fields, T& member) {
  fields.required("kind", member.kind);
  fields.required("name", member.name);
}

template <class Fields, SameAs<study::Fix> T>
void describe(Fields& fields, T& fix) {
  fields.required("kind", fix.kind);
  fields.required("change", fix.change);
  fields.optional("ms", fix.ms, kNonNegative);
}

template <class Fields, SameAs<study::NoPlan> T>
void describe(Fields& fields, T& explanation) {
  fields.stated("binding", explanation.binding);
  fields.stated("missing", explanation.missing, kNonNegative);
  fields.stated("lines", explanation.lines);
  fields.optional("cap", explanation.cap);
  fields.optional("conflict", explanation.conflict, kSet);
  fields.optional("is_irreducible", explanation.is_irreducible);
  fields.optional("fixes", explanation.fixes);
}

template <class Fields, SameAs<PlanFailure> T>
void describe(Fields& fields, T& failure) {
  fields.required("kind", failure.kind);
  fields.stated("place", failure.place);
  fields.required("message", failure.message);
}

template <class Fields, SameAs<embedding::Extrapolation> T>
void describe(Fields& fields, T& extrapolation) {
  fields.required("variable", extrapolation.variable);
  fields.stated("of", extrapolation.of);
  fields.optional("value", extrapolation.value, kNonNegative);
  fields.optional("least", extrapolation.least, kNonNegative);
  fields.optional("most", extrapolation.most, kNonNegative);
}

// What the answers of all planners end with.
template <class Fields, class Document>
void describe_claims(Fields& fields, Document& document) {
  auto& answer = document.answer;
  fields.optional("certificate", document.certificate);
  fields.optional("provenance", answer.provenance);
  fields.optional("warnings", answer.warnings);
  fields.optional("explanation", answer.explanation);
}

template <class Fields, SameAs<AnswerDocument> T>
void describe(Fields& fields, T& document) {
  auto& answer = document.answer;
  fields.stated("schema", document.schema);
  fields.required("status", answer.status);
  fields.optional("stop", answer.stop);
  fields.stated("rating", answer.rating, kNullable);
  fields.optional("objective", answer.objective);
  fields.optional("times", answer.times);
  fields.optional("reference", answer.reference);
  fields.optional("plan", answer.plan);
  fields.optional("options", answer.options);
  fields.optional("bill", answer.bill);
  fields.optional("extrapolated", answer.extrapolated);
  fields.optional("certificate", document.certificate);
  fields.optional("frontier", answer.frontier);
  fields.optional("frontier_bound", answer.frontier_bound);
  fields.optional("frontier_plans", answer.frontier_plans);
  fields.optional("frontier_proofs", answer.frontier_proofs);
  fields.optional("provenance", answer.provenance);
  fields.optional("warnings", answer.warnings);
  fields.optional("explanation", answer.explanation);
  fields.optional("failure", answer.failure);
}

}  // namespace plimsoll::io
