// The keys of the checkpointing planner's documents, by the rules of descriptions.h.
#pragma once

#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "io/documents/descriptions.h"
#include "io/documents/frontier_description.h"
#include "io/documents/names.h"
#include "io/documents/save_policy_json.h"
#include "io/documents/tradeoff_json.h"
#include "io/json/json_reader.h"
#include "io/json/json_writer.h"
#include "plimsoll/checkpoint/module_stats.h"
#include "plimsoll/io/checkpoint_policy_json.h"

namespace plimsoll::io {

inline constexpr std::string_view kModuleStatsSchema = "plimsoll.module_stats/1";
inline constexpr std::string_view kSACStatsSchema = "plimsoll.sac_stats/1";
inline constexpr std::string_view kCheckpointPolicySchema = "plimsoll.checkpoint_policy/1";
inline constexpr std::string_view kSavePolicySchema = "plimsoll.save_policy/1";
inline constexpr std::string_view kTradeoffSchema = "plimsoll.tradeoff_curves/1";

inline constexpr Rule kSignedBytes{.min = -static_cast<double>(kMaxModuleBytes),
                                   .max = static_cast<double>(kMaxModuleBytes)};
inline constexpr Rule kMoreThanZero{.min = 0, .excludes_min = true};
inline constexpr Rule kRanks{.min = 1, .max = 1 << 20};

// ---------------------------------------------------------------- statistics

// Upstream's `tradeoff_curve`: written as a list of pairs, also read as an object {"0.01": 0.5}.
struct TradeoffDescription {
  std::vector<std::pair<double, double>> points;
  bool empty() const { return points.empty(); }
};
bool read(const Cursor& cursor, TradeoffDescription& out, const Rule& rule);
JsonValue to_json(const TradeoffDescription& curve, const Rule& rule);

struct ModuleRecord {
  checkpoint::ModuleInfo module;         // without what follows
  std::optional<Bytes> grad_per_module;  // default: param_per_module
  std::optional<bool> requires_grad;     // default: true
  TradeoffDescription tradeoff_curve;
  // What torch's parse_module_info writes into each record, derived.
  std::optional<std::int64_t> index;
  std::optional<std::int64_t> pos_fw_post_order;
};

struct StatsNotes {
  std::vector<std::string> no_backward, repeated, fit_failed;
};

struct ModuleStatsDocument {
  std::string schema{kModuleStatsSchema};
  checkpoint::ModuleStats stats;  // without modules and notes
  std::optional<std::int64_t> n_modules;
  std::optional<StatsNotes> notes;
  std::vector<int> pos_fw_post_order;
  std::vector<ModuleRecord> mod_stats;
};

struct SACStatsDocument {
  std::string schema{kSACStatsSchema};
  checkpoint::SACStats stats;
};

template <class Fields, SameAs<checkpoint::RecordedRoofline> T>
void describe(Fields& fields, T& roofline) {
  fields.required("dram_gb_per_s", roofline.dram_gb_per_s, kMoreThanZero);
  fields.required("tflops", roofline.tflops, kMoreThanZero);
}

template <class Fields, SameAs<StatsNotes> T>
void describe(Fields& fields, T& notes) {
  fields.stated("no_backward", notes.no_backward);
  fields.stated("repeated", notes.repeated);
  fields.stated("fit_failed", notes.fit_failed);
}

template <class Fields, SameAs<checkpoint::ModuleOrder> T>
void describe(Fields& fields, T& order) {
  fields.required("fw_pre_order", order.fw_pre_order);
  fields.optional("bw_pre_order", order.bw_pre_order);
  fields.required("fw_post_order", order.fw_post_order);
  fields.optional("bw_post_order", order.bw_post_order);
}

template <class Fields, SameAs<ModuleRecord> T>
void describe(Fields& fields, T& record) {
  auto& module = record.module;
  fields.required("fqn", module.fqn);
  fields.required("is_leaf", module.is_leaf);
  fields.required("param_per_module", module.param_per_module, kModuleBytes);
  fields.optional("grad_per_module", record.grad_per_module, kModuleBytes);
  fields.required("grad_total", module.grad_total, kModuleBytes);
  fields.required("act_fw_per_module", module.act_fw_per_module, kModuleBytes);
  fields.optional("act_bw_per_module", module.act_bw_per_module, kModuleBytes);
  fields.required("act_grad_per_module", module.act_grad_per_module, kSignedBytes);
  fields.required("act_total", module.act_total, kModuleBytes);
  fields.stated("input_per_module", module.input_per_module, kModuleBytes);
  fields.stated("output_per_module", module.output_per_module, kModuleBytes);
  fields.required("fw_runtime_per_module", module.fw_runtime_per_module, kMilliseconds);
  fields.required("bw_runtime_per_module", module.bw_runtime_per_module, kMilliseconds);
  fields.required("sac_runtime", module.sac_runtime, kMilliseconds);
  fields.required("sac_memory", module.sac_memory, kModuleBytes);
  fields.stated("n_segments", module.n_segments, kNonNegative);
  fields.stated("slopes", module.slopes);
  fields.stated("intercepts", module.intercepts);
  fields.stated("breakpoints", module.breakpoints);
  fields.optional("tradeoff_curve", record.tradeoff_curve, kNonNegative);
  fields.optional("requires_grad", record.requires_grad);
  fields.optional("total_peak_fw", module.total_peak_fw, kModuleBytes);
  fields.optional("total_post_fw", module.total_post_fw, kModuleBytes);
  fields.optional("total_pre_bw", module.total_pre_bw, kModuleBytes);
  fields.optional("total_peak_bw", module.total_peak_bw, kModuleBytes);
  fields.optional("index", record.index, kNonNegative);
  fields.optional("pos_fw_post_order", record.pos_fw_post_order, kNonNegative);
}

template <class Fields, SameAs<checkpoint::SACStats> T>
void describe(Fields& fields, T& stats) {
  fields.required("func_names", stats.func_names);
  fields.required("runtimes", stats.runtimes, kMilliseconds);
  fields.required("memory", stats.memory, kModuleBytes);
  fields.required("view_like_ops", stats.view_like_ops, kNonNegative);
  fields.required("rand_ops", stats.rand_ops, kNonNegative);
  fields.stated("saved_autograd_ops", stats.saved_autograd_ops, kNonNegative);
  fields.required("inplace_ops", stats.inplace_ops, kNonNegative);
  fields.required("force_store_random", stats.force_store_random);
}

template <class Fields, SameAs<ModuleStatsDocument> T>
void describe(Fields& fields, T& document) {
  auto& stats = document.stats;
  fields.stated("schema", document.schema);
  fields.optional("name", stats.name);
  fields.optional("description", stats.description);
  fields.optional("torch", stats.torch);
  fields.optional("roofline", stats.roofline);
  fields.optional("n_modules", document.n_modules, kNonNegative);
  fields.optional("baseline_peak_bytes", stats.baseline_peak_bytes, kModuleBytes);
  fields.optional("baseline_compute_ms", stats.baseline_compute_ms, kMilliseconds);
  fields.optional("total_step_peak", stats.total_step_peak, kModuleBytes);
  fields.optional("total_before_root_bw", stats.total_before_root_bw, kModuleBytes);
  fields.optional("tracker_peak", stats.tracker_peak, kModuleBytes);
  fields.optional("notes", document.notes);
  fields.required("mod_order", stats.mod_order);
  fields.optional("pos_fw_post_order", document.pos_fw_post_order, kNonNegative);
  fields.required("mod_stats", document.mod_stats);
  fields.optional("sac_stats", stats.sac_stats);
  fields.optional("sac_stats_of", stats.sac_stats_of, kNonNegative);
}

template <class Fields, SameAs<SACStatsDocument> T>
void describe(Fields& fields, T& document) {
  fields.stated("schema", document.schema);
  describe(fields, document.stats);
}

// ---------------------------------------------------------------- plans

struct UnitEntry {
  checkpoint::CheckpointUnit unit;               // without fqns and nested units
  std::optional<std::string> fqn;                // of a unit of one module
  std::optional<std::vector<std::string>> fqns;  // of a run of modules
  std::optional<double> memory_budget;           // derived
  std::vector<UnitEntry> nested;
};

struct PolicyDocument {
  std::string schema{kCheckpointPolicySchema};
  CheckpointAnswer answer;  // without policy and certificate
  std::optional<std::vector<UnitEntry>> units;
  std::optional<CertificateEntry> certificate;
};

template <class Fields, SameAs<checkpoint::OperatorChoice> T>
void describe(Fields& fields, T& choice) {
  fields.required("i", choice.index, kNonNegative);
  fields.required("op", choice.op);
  fields.required("nth", choice.nth, kNonNegative);
  fields.required("save", choice.save);
}

template <class Fields, SameAs<UnitEntry> T>
void describe(Fields& fields, T& entry) {
  auto& unit = entry.unit;
  fields.optional("fqn", entry.fqn);
  fields.optional("fqns", entry.fqns);
  fields.required("kind", unit.kind);
  fields.required("discard_ratio", unit.discard_ratio, kFraction);
  fields.optional("memory_budget", entry.memory_budget, kFraction);
  fields.required("discarded_bytes", unit.discarded, kModuleBytes);
  fields.required("recompute_ms", unit.recompute_ms, kMilliseconds);
  fields.optional("ops", unit.ops);
  fields.stated("rng", unit.rng);
  fields.optional("nested", entry.nested);
}

template <class Fields, SameAs<CheckpointPrediction> T>
void describe(Fields& fields, T& prediction) {
  // Statistics that contradict each other may give peaks below zero.
  fields.required("peak_bytes", prediction.peak_bytes, kSignedBytes);
  fields.required("recompute_ms", prediction.recompute_ms, kMilliseconds);
  fields.required("baseline_peak_bytes", prediction.baseline_peak_bytes, kSignedBytes);
  fields.optional("binding", prediction.binding);
  fields.optional("price_ms_per_gib", prediction.price_ms_per_gib, kNonNegative);
}

template <class Fields, SameAs<ProfileEntry> T>
void describe(Fields& fields, T& entry) {
  fields.required("fqn", entry.fqn);
  fields.required("bytes", entry.bytes, kSignedBytes);
}

template <class Fields, SameAs<PolicyDocument> T>
void describe(Fields& fields, T& document) {
  auto& answer = document.answer;
  fields.stated("schema", document.schema);
  fields.optional("status", answer.status);
  fields.optional("stop", answer.stop);
  fields.optional("input_hash", answer.input_hash);
  fields.optional("torch", answer.torch);
  fields.optional("budget_bytes", answer.budget_bytes, kModuleBytes);
  fields.optional("predicted", answer.predicted);
  fields.stated("world_size", answer.world_size, kRanks);
  fields.optional("units", document.units);
  fields.optional("profile", answer.profile);
  fields.optional("frontier", answer.frontier);
  fields.optional("frontier_bound", answer.frontier_bound);
  describe_claims(fields, document);
}

// ---------------------------------------------------------------- policies of single values

struct SavePolicyDocument {
  std::string schema{kSavePolicySchema};
  SavePolicyAnswer answer;  // without the certificate
  CertificateEntry certificate;
};

template <class Fields, SameAs<SavedValue> T>
void describe(Fields& fields, T& value) {
  fields.required("name", value.name);
  fields.required("memory", value.memory);
  fields.required("runtime", value.runtime);
  fields.required("save", value.save);
  fields.optional("was_saved", value.was_saved);
}

template <class Fields, SameAs<SavePolicyPrediction> T>
void describe(Fields& fields, T& predicted) {
  fields.required("saved_memory", predicted.saved_memory);
  fields.required("saved_runtime", predicted.saved_runtime);
  fields.required("recompute_runtime", predicted.recompute_runtime);
  fields.required("total_memory", predicted.total_memory);
  fields.required("total_runtime", predicted.total_runtime);
  fields.optional("backward_peak_memory", predicted.backward_peak_memory);
}

template <class Fields, SameAs<SavePolicyPoint> T>
void describe(Fields& fields, T& point) {
  fields.required("memory", point.memory);
  fields.required("recompute_runtime", point.recompute_runtime);
}

template <class Fields, SameAs<SavePolicyStep> T>
void describe(Fields& fields, T& step) {
  fields.required("event", step.event);
  fields.optional("name", step.name);
  fields.required("memory", step.memory);
}

template <class Fields, SameAs<SavePolicyDocument> T>
void describe(Fields& fields, T& document) {
  auto& answer = document.answer;
  fields.stated("schema", document.schema);
  fields.required("status", answer.status);
  fields.required("stop", answer.stop);
  fields.required("input_hash", answer.input_hash);
  fields.optional("memory_budget", answer.memory_budget);
  fields.optional("predicted", answer.predicted);
  fields.optional("values", answer.plan);
  fields.optional("frontier", answer.frontier);
  fields.optional("trace", answer.trace);
  fields.required("certificate", document.certificate);
  fields.required("provenance", answer.provenance);
  fields.optional("warnings", answer.warnings);
  fields.optional("explanation", answer.explanation);
}

// ---------------------------------------------------------------- trade-off curves

struct TradeoffDocument {
  std::string schema{kTradeoffSchema};
  TradeoffAnswer answer;
};

template <class Fields, SameAs<TradeoffGroup> T>
void describe(Fields& fields, T& group) {
  fields.required("head", group.head);
  fields.required("ops", group.ops);
}

template <class Fields, SameAs<TradeoffStep> T>
void describe(Fields& fields, T& step) {
  fields.required("op", step.op);
  fields.required("ops", step.ops);
  fields.required("memory", step.memory);
  fields.required("runtime", step.runtime);
  fields.required("msps", step.msps);
}

template <class Fields, SameAs<TradeoffFit> T>
void describe(Fields& fields, T& fit) {
  fields.required("slopes", fit.slopes);
  fields.required("intercepts", fit.intercepts);
  fields.required("breakpoints", fit.breakpoints);
}

template <class Fields, SameAs<ModuleTradeoff> T>
void describe(Fields& fields, T& module) {
  fields.optional("fqn", module.fqn);
  fields.required("sac_memory", module.sac_memory);
  fields.required("sac_runtime", module.sac_runtime);
  fields.stated("stored_ops", module.stored_ops);
  fields.stated("recomputed_ops", module.recomputed_ops);
  fields.stated("inplace_op_groups", module.inplace_op_groups);
  fields.stated("rand_ops", module.rand_ops);
  fields.stated("order", module.order);
  fields.optional("tradeoff_curve", module.curve);
  fields.optional("fit", module.fit);
  fields.optional("failure", module.failure);
}

template <class Fields, SameAs<TradeoffDocument> T>
void describe(Fields& fields, T& document) {
  auto& answer = document.answer;
  fields.stated("schema", document.schema);
  fields.required("input_hash", answer.input_hash);
  fields.required("modules", answer.modules);
  fields.required("provenance", answer.provenance);
}

}  // namespace plimsoll::io
