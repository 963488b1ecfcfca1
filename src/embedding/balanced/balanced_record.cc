#include "embedding/balanced/balanced_record.h"

#include <fmt/format.h>

#include <algorithm>

#include "core/option_record.h"
#include "embedding/torchrec/planning_record.h"

namespace plimsoll::embedding {
namespace {

std::string write_step_model(const StepModel& m) {
  return fmt::format("{},{},{},{},{},{},{}", m.kernel_weight, m.collective_weight,
                     m.ms_per_sharding_type, m.ms_per_output_byte, m.ms_per_table, m.floor_ms,
                     m.is_assumed ? "assumed" : "given");
}

Result<StepModel> read_step_model(const std::string& text) {
  StepModel m;
  double* const numbers[] = {&m.kernel_weight,      &m.collective_weight, &m.ms_per_sharding_type,
                             &m.ms_per_output_byte, &m.ms_per_table,      &m.floor_ms};
  const std::vector<std::string> words = split_record(text);
  if (words.size() != std::size(numbers) + 1) return unreadable_record();
  for (std::size_t i = 0; i < std::size(numbers); ++i) {
    if (!read_record(words[i], *numbers[i])) return unreadable_record();
  }
  m.is_assumed = words.back() == "assumed";
  if (!m.is_assumed && words.back() != "given") return unreadable_record();
  return m;
}

template <class Fields, class Options>
void describe_balanced_record(Fields& fields, Options& options) {
  auto& bridge = options.bridge;
  fields.named("objective", bridge.objective,
               {{"rating", BalanceObjective::kRating},
                {"step", BalanceObjective::kStep},
                {"time", BalanceObjective::kTime}});
  fields.stated("keeps_reference_rating", options.keeps_reference_rating);
  fields.stated("rating_cap", bridge.rating_cap);
  fields.as("step_model", bridge.step_model, write_step_model, read_step_model);
  fields.stated("max_column_blocks", options.max_column_blocks);
  fields.unusual("keeps_hazards", bridge.keeps_hazards);
  fields.unusual("strict_numerics", bridge.strict_numerics);
  fields.stated("pools_ddr", bridge.pools_ddr);
  fields.stated("uses_reference", options.uses_reference);
}

}  // namespace

void record_balanced(const BalancedOptions& options, const BalancedResult& result,
                     OptionTexts& recorded) {
  BalancedOptions made = options;
  made.bridge.rating_cap = result.rating_cap;
  made.bridge.keeps_hazards = result.keeps_hazards;
  RecordWriter writer(recorded);
  describe_balanced_record(writer, made);
}

Result<BalancedOptions> read_balanced_record(const OptionTexts& recorded) {
  BalancedOptions options = BalancedOptions::minimizing(BalanceObjective::kRating);
  RecordReader reader(recorded);
  describe_balanced_record(reader, options);
  PLIMSOLL_RETURN_IF_ERROR(reader.finish());
  return options;
}

Result<ReferenceOptions> read_reference_record(const OptionTexts& recorded) {
  PLIMSOLL_ASSIGN(const PlanningRecord record, read_planning_record(recorded));
  ReferenceOptions options;
  options.proposers = record.proposers.value_or(options.proposers);
  options.partitioner = record.partitioner.value_or(options.partitioner);
  options.perf_model = record.perf_model.value_or(options.perf_model);
  options.balance_modules = record.balance_modules.value_or(options.balance_modules);
  if (record.easyrec) options.easyrec_dynamic_programming = *record.easyrec;
  return options;
}

std::string write_stops(const std::vector<std::int64_t>& stops) {
  if (std::all_of(stops.begin(), stops.end(), [](std::int64_t stop) { return stop < 0; })) {
    return "";
  }
  return fmt::format("proposal {}, effort {}", stops.front(),
                     fmt::join(stops.begin() + 1, stops.end(), ", "));
}

Result<std::vector<std::int64_t>> read_stops(std::string_view stopped_at) {
  std::vector<std::int64_t> stops;
  for (const std::string& text : split_record(stopped_at)) {
    std::string_view word = text;
    for (const std::string_view prefix : {" ", "proposal ", "effort "}) {
      if (word.starts_with(prefix)) word.remove_prefix(prefix.size());
    }
    if (word.empty()) continue;
    std::int64_t& stop = stops.emplace_back(0);
    if (!read_record(std::string(word), stop)) {
      return fail(ErrorCode::kSchema, "provenance/stopped_at",
                  fmt::format("'{}' is not a place where this search stops", stopped_at));
    }
  }
  return stops;
}

}  // namespace plimsoll::embedding
