// The keys of a machine model, by the rules of descriptions.h. Beside what plans are timed by
// (embedding::MachineModel) a document tells how it was measured: that is read, so that mistakes
// are found, and written again, and decides nothing.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "io/documents/descriptions.h"
#include "plimsoll/embedding/machine_model.h"

namespace plimsoll::io {

inline constexpr std::string_view kMachineSchema = "plimsoll.machine/1";

inline constexpr Rule kAboveZero{.min = 0, .excludes_min = true};

using Intervals = std::map<std::string, std::pair<double, double>>;

struct MeasuredHost {
  std::optional<std::string> cpu, gpu;
  std::optional<std::int64_t> cores, memory_bytes, cache_bytes, gpu_memory_bytes;
};

struct HeldOutErrors {
  std::optional<double> mean, p90, worst, within_15, within_25;
  std::optional<std::int64_t> count;
};

struct KernelEntry {
  embedding::KernelForm form;
  Intervals intervals;
  std::optional<HeldOutErrors> held_out;
  std::vector<std::string> dropped;
  std::vector<JsonValue> points;
  std::optional<bool> contended;
};

struct CollectiveEntry {
  embedding::CollectiveTable table;
  std::vector<double> low_ms;
  std::vector<std::int64_t> samples;
  std::optional<HeldOutErrors> held_out;
  std::optional<bool> contended;
};

struct FittedStep {
  std::optional<double> kernel_weight, collective_weight, ms_per_sharding_type, ms_per_output_byte,
      ms_per_table, floor_ms;
  Intervals intervals;
  std::vector<std::string> dropped;
  std::optional<HeldOutErrors> held_out_plans, held_out_models;
  std::optional<double> rank_correlation;
};

struct StepEntry {
  FittedStep fit;
  std::vector<JsonValue> forms;
  std::optional<FittedStep> torchrec;
  std::vector<JsonValue> points;
  std::optional<bool> contended;
};

struct OperatorsEntry {
  std::optional<double> launch_us, memory_gb_per_s;
  std::map<std::string, double> peak_tflops;
  std::optional<HeldOutErrors> held_out;
  std::vector<JsonValue> points;
  std::optional<bool> contended;
};

struct MeasuredNoise {
  std::optional<double> foreign_share, worst_foreign_share, median_over_low, halves_agreement;
  std::optional<std::int64_t> measurements, contended;
};

struct MachineDocument {
  std::string schema{kMachineSchema};
  std::string name, notes, created;
  std::optional<std::uint64_t> seed;
  std::string device;
  std::optional<std::int32_t> ranks, ranks_per_host, threads;
  std::string backend, budget;
  std::vector<std::string> optimizers, data_types;
  std::optional<bool> complete;
  std::optional<MeasuredHost> host;
  std::map<std::string, std::string> versions, units;
  std::vector<KernelEntry> kernels;
  std::vector<CollectiveEntry> collectives;
  std::optional<StepEntry> step;
  std::optional<OperatorsEntry> operators;
  std::optional<MeasuredNoise> noise;
  std::map<std::string, embedding::FigureSource> sources;
};

template <class Fields, SameAs<MeasuredHost> T>
void describe(Fields& fields, T& host) {
  fields.optional("cpu", host.cpu);
  fields.optional("gpu", host.gpu);
  fields.optional("cores", host.cores, kPositive);
  fields.optional("memory_bytes", host.memory_bytes, kNonNegative);
  fields.optional("cache_bytes", host.cache_bytes, kNonNegative);
  fields.optional("gpu_memory_bytes", host.gpu_memory_bytes, kNonNegative);
}

template <class Fields, SameAs<HeldOutErrors> T>
void describe(Fields& fields, T& errors) {
  fields.optional("mean", errors.mean, kNonNegative);
  fields.optional("p90", errors.p90, kNonNegative);
  fields.optional("worst", errors.worst, kNonNegative);
  fields.optional("count", errors.count, kNonNegative);
  fields.optional("within_15", errors.within_15, kNonNegative);
  fields.optional("within_25", errors.within_25, kNonNegative);
}

template <class Fields, SameAs<embedding::KernelTerms> T>
void describe(Fields& fields, T& terms) {
  fields.optional("call_ns", terms.call_ns, kNonNegative);
  fields.optional("table_ns", terms.table_ns, kNonNegative);
  fields.optional("lookup_ns", terms.lookup_ns, kNonNegative);
  fields.optional("read_byte_ns", terms.read_byte_ns, kNonNegative);
  fields.optional("output_byte_ns", terms.output_byte_ns, kNonNegative);
  fields.optional("distinct_row_ns", terms.distinct_row_ns, kNonNegative);
  fields.optional("distinct_byte_miss_ns", terms.distinct_byte_miss_ns, kNonNegative);
  fields.optional("weight_byte_ns", terms.weight_byte_ns, kNonNegative);
}

template <class Fields, SameAs<KernelEntry> T>
void describe(Fields& fields, T& entry) {
  auto& form = entry.form;
  fields.required("kernel", form.kernel);
  fields.optional("optimizer", form.optimizer);
  fields.required("data_type", form.data_type);
  fields.required("direction", form.direction);
  fields.required("terms", form.terms);
  fields.optional("intervals", entry.intervals);
  fields.optional("ranges", form.ranges);
  fields.optional("held_out", entry.held_out);
  fields.optional("dropped", entry.dropped);
  fields.optional("points", entry.points);
  fields.optional("contended", entry.contended);
}

template <class Fields, SameAs<CollectiveEntry> T>
void describe(Fields& fields, T& entry) {
  auto& table = entry.table;
  fields.required("operation", table.operation);
  fields.required("group", table.group);
  fields.required("ranks", table.ranks, kWorldSize);
  fields.required("bytes", table.bytes, kAboveZero);
  fields.required("ms", table.ms, kAboveZero);
  fields.optional("low_ms", entry.low_ms, kAboveZero);
  fields.optional("samples", entry.samples, kNonNegative);
  fields.optional("held_out", entry.held_out);
  fields.optional("contended", entry.contended);
}

template <class Fields, class T>
void describe_fit(Fields& fields, T& fit) {
  fields.optional("kernel_weight", fit.kernel_weight, kNonNegative);
  fields.optional("collective_weight", fit.collective_weight, kNonNegative);
  fields.optional("ms_per_sharding_type", fit.ms_per_sharding_type, kNonNegative);
  fields.optional("ms_per_output_byte", fit.ms_per_output_byte, kNonNegative);
  fields.optional("ms_per_table", fit.ms_per_table, kNonNegative);
  fields.optional("floor_ms", fit.floor_ms, kNonNegative);
  fields.optional("intervals", fit.intervals);
  fields.optional("dropped", fit.dropped);
  fields.optional("held_out_plans", fit.held_out_plans);
  fields.optional("held_out_models", fit.held_out_models);
  fields.optional("rank_correlation", fit.rank_correlation);
}

template <class Fields, SameAs<FittedStep> T>
void describe(Fields& fields, T& fit) {
  describe_fit(fields, fit);
}

template <class Fields, SameAs<StepEntry> T>
void describe(Fields& fields, T& entry) {
  describe_fit(fields, entry.fit);
  fields.optional("forms", entry.forms);
  fields.optional("torchrec", entry.torchrec);
  fields.optional("points", entry.points);
  fields.optional("contended", entry.contended);
}

template <class Fields, SameAs<OperatorsEntry> T>
void describe(Fields& fields, T& entry) {
  fields.optional("launch_us", entry.launch_us, kNonNegative);
  fields.optional("memory_gb_per_s", entry.memory_gb_per_s, kAboveZero);
  fields.optional("peak_tflops", entry.peak_tflops, kAboveZero);
  fields.optional("held_out", entry.held_out);
  fields.optional("points", entry.points);
  fields.optional("contended", entry.contended);
}

template <class Fields, SameAs<MeasuredNoise> T>
void describe(Fields& fields, T& noise) {
  fields.optional("foreign_share", noise.foreign_share, kNonNegative);
  fields.optional("worst_foreign_share", noise.worst_foreign_share, kNonNegative);
  fields.optional("median_over_low", noise.median_over_low, kNonNegative);
  fields.optional("measurements", noise.measurements, kNonNegative);
  fields.optional("contended", noise.contended, kNonNegative);
  fields.optional("halves_agreement", noise.halves_agreement);
}

template <class Fields, SameAs<embedding::FigureSource> T>
void describe(Fields& fields, T& source) {
  fields.required("kind", source.kind);
  fields.required("source", source.source);
}

template <class Fields, SameAs<MachineDocument> T>
void describe(Fields& fields, T& document) {
  fields.stated("schema", document.schema);
  fields.optional("name", document.name);
  fields.optional("notes", document.notes);
  fields.optional("created", document.created);
  fields.optional("seed", document.seed);
  fields.optional("device", document.device);
  fields.optional("ranks", document.ranks, kWorldSize);
  fields.optional("ranks_per_host", document.ranks_per_host, kWorldSize);
  fields.optional("threads", document.threads, kWorldSize);
  fields.optional("backend", document.backend);
  fields.optional("budget", document.budget);
  fields.optional("optimizers", document.optimizers);
  fields.optional("data_types", document.data_types);
  fields.optional("complete", document.complete);
  fields.optional("host", document.host);
  fields.optional("versions", document.versions);
  fields.optional("units", document.units);
  fields.optional("kernels", document.kernels);
  fields.optional("collectives", document.collectives);
  fields.optional("step", document.step);
  fields.optional("operators", document.operators);
  fields.optional("noise", document.noise);
  fields.optional("sources", document.sources);
}

}  // namespace plimsoll::io
