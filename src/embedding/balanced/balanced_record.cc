#include "embedding/balanced/balanced_record.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>

namespace plimsoll::embedding {
namespace {

using Record = std::map<std::string, std::string>;

template <class Number>
bool read_number(std::string_view text, Number& out) {
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), out);
  return error == std::errc() && end == text.data() + text.size();
}

tl::unexpected<Error> unreadable(std::string_view key) {
  return fail(ErrorCode::kSchema, fmt::format("provenance/options/{}", key),
              "not a value that this program writes");
}

template <class Number>
Result<void> read_key(const Record& recorded, const std::string& key, Number& out) {
  const auto found = recorded.find(key);
  if (found != recorded.end() && !read_number(std::string_view(found->second), out)) {
    return unreadable(key);
  }
  return {};
}

void read_flag(const Record& recorded, const std::string& key, bool& out) {
  const auto found = recorded.find(key);
  if (found != recorded.end()) out = found->second == "true";
}

std::string write_step_model(const StepModel& m) {
  return fmt::format("{},{},{},{},{},{},{}", m.kernel_weight, m.collective_weight,
                     m.ms_per_sharding_type, m.ms_per_output_byte, m.ms_per_table, m.floor_ms,
                     m.is_assumed ? "assumed" : "given");
}

std::vector<std::string_view> split(std::string_view text) {
  std::vector<std::string_view> words;
  for (std::size_t begin = 0; begin <= text.size();) {
    const std::size_t end = std::min(text.find(',', begin), text.size());
    words.push_back(text.substr(begin, end - begin));
    begin = end + 1;
  }
  return words;
}

Result<StepModel> read_step_model(std::string_view text) {
  StepModel m;
  double* const numbers[] = {&m.kernel_weight,      &m.collective_weight, &m.ms_per_sharding_type,
                             &m.ms_per_output_byte, &m.ms_per_table,      &m.floor_ms};
  const std::vector<std::string_view> words = split(text);
  if (words.size() != std::size(numbers) + 1) return unreadable("step_model");
  for (std::size_t i = 0; i < std::size(numbers); ++i) {
    if (!read_number(words[i], *numbers[i])) return unreadable("step_model");
  }
  m.is_assumed = words.back() == "assumed";
  if (!m.is_assumed && words.back() != "given") return unreadable("step_model");
  return m;
}

}  // namespace

void record_balanced(const BalancedOptions& options, const BalancedResult& result,
                     Record& recorded) {
  const BridgeOptions& bridge = options.bridge;
  recorded["objective"] = to_string(bridge.objective);
  recorded["keeps_reference_rating"] = options.keeps_reference_rating ? "true" : "false";
  if (result.rating_cap) recorded["rating_cap"] = fmt::format("{}", *result.rating_cap);
  recorded["step_model"] = write_step_model(bridge.step_model);
  recorded["max_column_blocks"] = fmt::format("{}", options.max_column_blocks);
  if (result.keeps_hazards) recorded["keeps_hazards"] = "true";
  if (bridge.strict_numerics) recorded["strict_numerics"] = "true";
  recorded["pools_ddr"] = bridge.pools_ddr ? "true" : "false";
  recorded["uses_reference"] = options.uses_reference ? "true" : "false";
}

Result<BalancedOptions> read_balanced_record(const Record& recorded) {
  BalancedOptions options = BalancedOptions::minimizing(BalanceObjective::kRating);
  BridgeOptions& bridge = options.bridge;
  if (const auto found = recorded.find("objective"); found != recorded.end()) {
    const BalanceObjective all[] = {BalanceObjective::kRating, BalanceObjective::kStep,
                                    BalanceObjective::kTime};
    const auto* named = std::find_if(std::begin(all), std::end(all), [&](BalanceObjective o) {
      return to_string(o) == found->second;
    });
    if (named == std::end(all)) return unreadable("objective");
    bridge.objective = *named;
  }
  if (const auto found = recorded.find("step_model"); found != recorded.end()) {
    PLIMSOLL_ASSIGN(bridge.step_model, read_step_model(found->second));
  }
  if (recorded.contains("rating_cap")) {
    bridge.rating_cap = 0;
    PLIMSOLL_RETURN_IF_ERROR(read_key(recorded, "rating_cap", *bridge.rating_cap));
  }
  PLIMSOLL_RETURN_IF_ERROR(read_key(recorded, "max_column_blocks", options.max_column_blocks));
  read_flag(recorded, "keeps_reference_rating", options.keeps_reference_rating);
  read_flag(recorded, "keeps_hazards", bridge.keeps_hazards);
  read_flag(recorded, "strict_numerics", bridge.strict_numerics);
  read_flag(recorded, "pools_ddr", bridge.pools_ddr);
  read_flag(recorded, "uses_reference", options.uses_reference);
  return options;
}

Result<ReferenceOptions> read_reference_record(const Record& recorded) {
  ReferenceOptions options;
  const auto find = [&recorded](const std::string& key) {
    const auto found = recorded.find(key);
    return found == recorded.end() ? std::optional<std::string>() : found->second;
  };
  if (const auto proposers = find("proposers")) options.proposers = *proposers;
  if (const auto partitioner = find("partitioner")) options.partitioner = *partitioner;
  if (find("perf_model") == "storage") options.perf_model = PerfModelKind::kStorage;
  read_flag(recorded, "balance_modules", options.balance_modules);
  if (const auto bins = find("easyrec_bins_per_device")) {
    const std::vector<std::string_view> words = split(*bins);
    EasyRecDynamicProgrammingOptions& easyrec = options.easyrec_dynamic_programming;
    if (words.size() != 2 || !read_number(words[0], easyrec.hbm_bins_per_device) ||
        !read_number(words[1], easyrec.ddr_bins_per_device)) {
      return unreadable("easyrec_bins_per_device");
    }
    easyrec.has_cuda = find("easyrec_has_cuda") != "false";
  }
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
  for (std::string_view word : split(stopped_at)) {
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
