#include "embedding/torchrec/planning_record.h"

#include <fmt/format.h>

#include <cmath>
#include <utility>

#include "core/python_text.h"

namespace plimsoll::embedding {
namespace {

std::string write_pipeline_type(PipelineType type) { return std::string(to_string(type)); }

Result<PipelineType> read_pipeline_type(const std::string& text) {
  if (const auto found = find_enum<PipelineType>(text)) return *found;
  return unreadable_record();
}

// Kind, percentage, multiplier, dense estimate, absolute, margin, overhead, base.
std::string write_reservation(const ReservationOptions& r) {
  return fmt::format("{},{},{},{},{},{},{},{}", to_string(r.kind), python_repr(r.percentage),
                     python_repr(r.parameter_multiplier), r.dense_tensor_estimate.value_or(0),
                     r.absolute_bytes, r.margin_bytes, r.overhead_bytes, r.base_bytes.value_or(-1));
}

Result<ReservationOptions> read_reservation(const std::string& text) {
  const std::vector<std::string> words = split_record(text);
  if (words.size() != 8) return unreadable_record();
  ReservationOptions r;
  const auto kind = find_enum<ReservationKind>(words[0]);
  Bytes dense = 0;
  Bytes base = -1;
  const bool is_read = kind && read_record(words[1], r.percentage) &&
                       read_record(words[2], r.parameter_multiplier) &&
                       read_record(words[3], dense) && read_record(words[4], r.absolute_bytes) &&
                       read_record(words[5], r.margin_bytes) &&
                       read_record(words[6], r.overhead_bytes) && read_record(words[7], base);
  if (!is_read) return unreadable_record();
  if (!(r.parameter_multiplier >= 0) || std::isinf(r.parameter_multiplier) || dense < 0) {
    return unreadable_record();
  }
  r.kind = *kind;
  if (dense != 0) r.dense_tensor_estimate = dense;
  if (base >= 0) r.base_bytes = base;
  return r;
}

std::string write_bins(const EasyRecDynamicProgrammingOptions& easyrec) {
  return fmt::format("{},{}", easyrec.hbm_bins_per_device, easyrec.ddr_bins_per_device);
}

Result<EasyRecDynamicProgrammingOptions> read_bins(const std::string& text) {
  EasyRecDynamicProgrammingOptions easyrec;
  const std::vector<std::string> words = split_record(text);
  if (words.size() != 2 || !read_record(words[0], easyrec.hbm_bins_per_device) ||
      !read_record(words[1], easyrec.ddr_bins_per_device)) {
    return unreadable_record();
  }
  return easyrec;
}

std::string write_tolerance(double tolerance) { return python_repr(tolerance); }

Result<double> read_tolerance(const std::string& text) {
  double tolerance = 0;
  if (!read_record(text, tolerance)) return unreadable_record();
  return tolerance;
}

template <class Fields, class Record>
void describe_planning_record(Fields& fields, Record& record) {
  fields.stated("cost_model", record.cost_model);
  fields.stated("batch_size", record.batch_size);
  fields.stated("inference", record.inference);
  fields.as("pipeline_type", record.pipeline_type, write_pipeline_type, read_pipeline_type);
  fields.stated("run_embedding_at_peak_memory", record.run_embedding_at_peak_memory);
  fields.as("reservation", record.reservation, write_reservation, read_reservation);
  fields.stated("search", record.search);
  fields.stated("proposers", record.proposers);
  fields.as("easyrec_bins_per_device", record.easyrec, write_bins, read_bins);
  if (record.easyrec) fields.unusual("easyrec_has_cuda", record.easyrec->has_cuda, true);
  fields.stated("partitioner", record.partitioner);
  fields.stated("balance_modules", record.balance_modules);
  fields.named("perf_model", record.perf_model,
               {{"perf", PerfModelKind::kPerf}, {"storage", PerfModelKind::kStorage}});
  fields.stated("breadth_first", record.breadth_first);
  fields.unusual("max_column_blocks", record.max_column_blocks);
  fields.stated("estimator", record.estimator);
  fields.stated("machine", record.machine);
  fields.stated("effort", record.effort);
  fields.as("tolerance", record.tolerance, write_tolerance, read_tolerance);
}

std::string proposers_text(const ReferenceOptions& options) {
  if (options.own_proposers.empty()) return options.proposers;
  std::string text;
  for (const auto& proposer : options.own_proposers) {
    if (!text.empty()) text += '+';
    text += proposer->name();
  }
  return text;
}

}  // namespace

PlanningRecord make_planning_record(const PlanningProblem& problem, const ReferenceOptions& options,
                                    const SearchOptions* search) {
  PlanningRecord record;
  record.cost_model = problem.cost_model.name;
  record.batch_size = problem.batch_size > 0 ? problem.batch_size : 512;
  record.inference = problem.mode.inference;
  record.pipeline_type = problem.mode.pipeline_type;
  record.run_embedding_at_peak_memory = problem.mode.run_embedding_at_peak_memory;
  record.reservation = problem.reservation;
  record.search = "torchrec";
  record.proposers = proposers_text(options);
  if (options.own_proposers.empty() && options.proposers.find("easyrec") != std::string::npos) {
    record.easyrec = options.easyrec_dynamic_programming;
  }
  record.partitioner =
      options.own_partitioner ? std::string(options.own_partitioner->name()) : options.partitioner;
  record.balance_modules = options.balance_modules;
  record.perf_model = options.perf_model;
  record.breadth_first = problem.enumeration.breadth_first;
  record.max_column_blocks = problem.enumeration.max_column_blocks;
  if (problem.enumeration.estimator) {
    record.estimator = std::string(problem.enumeration.estimator->name());
  }
  if (problem.machine) record.machine = problem.machine->name;
  if (search != nullptr) {
    record.effort = search->effort;
    record.tolerance = search->tolerance;
  }
  return record;
}

OptionTexts write_record(const PlanningRecord& record) {
  OptionTexts texts;
  RecordWriter writer(texts);
  describe_planning_record(writer, record);
  return texts;
}

Result<PlanningRecord> read_planning_record(const OptionTexts& texts) {
  PlanningRecord record;
  RecordReader reader(texts);
  describe_planning_record(reader, record);
  PLIMSOLL_RETURN_IF_ERROR(reader.finish());
  return record;
}

}  // namespace plimsoll::embedding
