#include "embedding/balanced/balanced_record.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>

#include "core/option_record.h"

namespace plimsoll::embedding {
namespace {

std::string write_step_model(const StepModel& m) {
  return fmt::format("{},{},{},{},{},{},{}", m.kernel_weight, m.collective_weight,
                     m.ms_per_sharding_type, m.ms_per_output_byte, m.ms_per_table, m.floor_ms,
                     m.is_assumed ? "assumed" : "given");
}

template <class Number>
bool read_number(std::string_view text, Number& out) {
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), out);
  return error == std::errc() && end == text.data() + text.size();
}

tl::unexpected<Error> unreadable() { return fail(ErrorCode::kSchema, "", "", ""); }

Result<StepModel> read_step_model(std::string_view text) {
  StepModel m;
  double* const numbers[] = {&m.kernel_weight,      &m.collective_weight, &m.ms_per_sharding_type,
                             &m.ms_per_output_byte, &m.ms_per_table,      &m.floor_ms};
  const std::vector<std::string> words = split_record(text);
  if (words.size() != std::size(numbers) + 1) return unreadable();
  for (std::size_t i = 0; i < std::size(numbers); ++i) {
    if (!read_number(words[i], *numbers[i])) return unreadable();
  }
  m.is_assumed = words.back() == "assumed";
  if (!m.is_assumed && words.back() != "given") return unreadable();
  return m;
}

template <class Fields, class Options>
void describe_record(Fields& fields, Options& options) {
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
  BoundedOptions made = options;
  made.bridge.rating_cap = result.rating_cap;
  made.bridge.keeps_hazards = result.keeps_hazards;
  RecordWriter writer(recorded);
  describe_record(writer, made);
}

Result<BalancedOptions> read_balanced_record(const OptionTexts& recorded) {
  BalancedOptions options = BalancedOptions::minimizing(BalanceObjective::kRating);
  RecordReader reader(recorded);
  describe_record(reader, options);
  PLIMSOLL_RETURN_IF_ERROR(reader.finish());
  return options;
}

Result<ReferenceOptions> read_reference_record(const OptionTexts& recorded) {
  ReferenceOptions options;
  RecordReader reader(recorded);
  reader.stated("proposers", options.proposers);
  reader.stated("partitioner", options.partitioner);
  reader.named("perf_model", options.perf_model,
               {{"perf", PerfModelKind::kPerf}, {"storage", PerfModelKind::kStorage}});
  reader.stated("balance_modules", options.balance_modules);
  EasyRecDynamicProgrammingOptions& easyrec = options.easyrec_dynamic_programming;
  const auto read_bins =
      [&easyrec](std::string_view text) -> Result<EasyRecDynamicProgrammingOptions> {
    EasyRecDynamicProgrammingOptions read = easyrec;
    const std::vector<std::string> words = split_record(text);
    if (words.size() != 2 || !read_number(words[0], read.hbm_bins_per_device) ||
        !read_number(words[1], read.ddr_bins_per_device)) {
      return unreadable();
    }
    return read;
  };
  reader.as("easyrec_bins_per_device", easyrec, nullptr, read_bins);
  if (recorded.contains("easyrec_bins_per_device"))
    reader.stated("easyrec_has_cuda", easyrec.has_cuda);
  PLIMSOLL_RETURN_IF_ERROR(reader.finish());
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
    if (!read_number(word, stop)) {
      return fail(ErrorCode::kSchema, "provenance/stopped_at",
                  fmt::format("'{}' is not a place where this search stops", stopped_at));
    }
  }
  return stops;
}

}  // namespace plimsoll::embedding
