#include "plimsoll/io/module_stats_json.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <unordered_map>
#include <unordered_set>

#include "io/documents/checkpoint_descriptions.h"
#include "io/json/json_writer.h"
#include "plimsoll/core/units.h"

namespace plimsoll::io {

using checkpoint::ModuleInfo;
using checkpoint::ModuleStats;
using checkpoint::SACStats;

bool read(const Cursor& cursor, TradeoffDescription& out, const Rule& rule) {
  const auto* object = cursor.value.as<JsonValue::Object>();
  if (object == nullptr) return read(cursor, out.points, rule);
  for (const JsonMember& member : *object) {
    const Place place{&cursor.place, member.key, {}};
    const Cursor at{member.value, place, cursor.context};
    std::pair<double, double> point;
    const char* const end = member.key.data() + member.key.size();
    const auto [stopped, code] = std::from_chars(member.key.data(), end, point.first);
    if (code != std::errc{} || stopped != end || !std::isfinite(point.first) || point.first < 0) {
      return at.fail(ErrorCode::kSchema, fmt::format("the key '{}' is not a number", member.key),
                     "give the discarded fraction as the key, or a list of pairs");
    }
    if (!read(at, point.second, rule)) return false;
    out.points.push_back(point);
  }
  return true;
}

JsonValue to_json(const TradeoffDescription& curve, const Rule& rule) {
  return to_json(curve.points, rule);
}

namespace {

// Where in the document the place of a checkpoint::validate error stands: a module's fqn, a list's
// name, or "sac_stats 3: ...". `fqns` are those of the document's mod_stats, in its order.
std::string pointer_of_place(const std::string& place, const std::vector<std::string>& fqns,
                             const ModuleStats& stats) {
  constexpr std::string_view kTable = "sac_stats ";
  if (place.starts_with(kTable)) {
    return fmt::format("/sac_stats/{}",
                       place.substr(kTable.size(), place.find(':') - kTable.size()));
  }
  for (std::size_t i = 0; i < fqns.size(); ++i) {
    if (fqns[i] == place) return fmt::format("/mod_stats/{}", i);
  }
  const checkpoint::ModuleOrder& order = stats.mod_order;
  const std::pair<std::string_view, const std::vector<std::string>*> lists[] = {
      {"/mod_order/fw_pre_order", &order.fw_pre_order},
      {"/mod_order/fw_post_order", &order.fw_post_order},
      {"/mod_order/bw_pre_order", &order.bw_pre_order},
      {"/mod_order/bw_post_order", &order.bw_post_order},
      {"/notes/repeated", &stats.repeated},
      {"/notes/fit_failed", &stats.fit_failed}};
  for (const auto& [pointer, names] : lists) {
    const auto at = std::find(names->begin(), names->end(), place);
    if (at != names->end()) return fmt::format("{}/{}", pointer, at - names->begin());
  }
  if (stats.sac_stats_of.contains(place)) return "/sac_stats_of/" + escape_pointer(place);
  return place == "mod_stats" ? "/mod_stats" : "";
}

Result<void> place_error(Result<void> valid, std::string_view file, const std::string& pointer) {
  if (valid) return {};
  Error error = std::move(valid).error();
  error.place = document_place(file, pointer);
  return tl::unexpected<Error>(std::move(error));
}

// Modules without backward are named in the notes, or marked, or both.
Result<void> apply_notes(const StatsNotes& notes, ModuleStats& stats, std::string_view file) {
  std::unordered_map<std::string_view, ModuleInfo*> modules;
  for (ModuleInfo& module : stats.mod_stats) modules.emplace(module.fqn, &module);
  for (std::size_t i = 0; i < notes.no_backward.size(); ++i) {
    const auto found = modules.find(notes.no_backward[i]);
    if (found == modules.end()) {
      return fail(ErrorCode::kSchema, document_place(file, fmt::format("/notes/no_backward/{}", i)),
                  fmt::format("mod_stats lacks the module '{}'", notes.no_backward[i]),
                  "give every module that ran a record in mod_stats");
    }
    found->second->requires_grad = false;
  }
  stats.repeated = notes.repeated;
  stats.fit_failed = notes.fit_failed;
  return {};
}

// Of each name's first occurrence, as Python's list.index finds it.
using Positions = std::unordered_map<std::string_view, std::int64_t>;
Positions positions_in(const std::vector<std::string>& order) {
  Positions positions;
  for (std::size_t i = 0; i < order.size(); ++i) {
    positions.emplace(order[i], static_cast<std::int64_t>(i));
  }
  return positions;
}

Result<void> check_derived(const ModuleStatsDocument& document, const ModuleStats& stats,
                           std::string_view file) {
  const std::size_t n = stats.mod_stats.size();
  if (document.n_modules && static_cast<std::size_t>(*document.n_modules) != n) {
    return fail(ErrorCode::kConflict, document_place(file, "/n_modules"),
                fmt::format("{} beside {} modules in mod_stats", *document.n_modules, n),
                "leave the key out");
  }
  if (document.pos_fw_post_order.empty()) return {};
  const Positions position = positions_in(stats.mod_order.fw_post_order);
  bool agrees = document.pos_fw_post_order.size() == n;
  for (std::size_t i = 0; agrees && i < n; ++i) {
    const auto found = position.find(stats.mod_stats[i].fqn);
    agrees = found != position.end() && found->second == document.pos_fw_post_order[i];
  }
  if (agrees) return {};
  return fail(ErrorCode::kConflict, document_place(file, "/pos_fw_post_order"),
              "fw_post_order gives other positions", "leave the key out");
}

// torch's parse_module_info numbers the records by registration, writes where each module returns,
// and sorts them by the order of their forwards. The numbers restore the order of registration.
Result<void> apply_indices(ModuleStatsDocument& document, std::string_view file) {
  std::vector<ModuleRecord>& records = document.mod_stats;
  const Positions position = positions_in(document.stats.mod_order.fw_post_order);
  std::vector<char> is_taken(records.size(), 0);
  std::size_t num_indices = 0;
  for (std::size_t i = 0; i < records.size(); ++i) {
    const ModuleRecord& record = records[i];
    const auto place = [&](const char* key) {
      return document_place(file, fmt::format("/mod_stats/{}/{}", i, std::string_view(key)));
    };
    if (record.pos_fw_post_order) {
      const auto found = position.find(record.module.fqn);
      if (found == position.end() || found->second != *record.pos_fw_post_order) {
        return fail(ErrorCode::kConflict, place("pos_fw_post_order"),
                    "fw_post_order gives another position", "leave the key out");
      }
    }
    if (!record.index) continue;
    const auto index = static_cast<std::size_t>(*record.index);
    if (index >= records.size() || is_taken[index] != 0) {
      return fail(ErrorCode::kConflict, place("index"),
                  index >= records.size() ? fmt::format("{} of {} modules", index, records.size())
                                          : fmt::format("two modules have the index {}", index),
                  "leave the key out of all modules, or number them from 0");
    }
    is_taken[index] = 1;
    ++num_indices;
  }
  if (num_indices == 0) return {};
  if (num_indices != records.size()) {
    return fail(ErrorCode::kConflict, document_place(file, "/mod_stats"),
                fmt::format("{} of {} modules have an index", num_indices, records.size()),
                "give each module its index, or none");
  }
  std::sort(records.begin(), records.end(),
            [](const ModuleRecord& a, const ModuleRecord& b) { return *a.index < *b.index; });
  return {};
}

// Whoever adds up figures of a document stays within 63 bits.
Result<void> check_sums(const ModuleStats& stats, std::string_view file) {
  Int128 total = 0;
  for (const ModuleInfo& module : stats.mod_stats) {
    for (Bytes bytes :
         {module.param_per_module, module.grad_per_module, module.grad_total,
          module.act_fw_per_module, module.act_bw_per_module, std::abs(module.act_grad_per_module),
          module.act_total, module.input_per_module, module.output_per_module, module.sac_memory,
          module.total_peak_fw.value_or(0), module.total_post_fw.value_or(0),
          module.total_pre_bw.value_or(0), module.total_peak_bw.value_or(0)}) {
      total += bytes;
    }
  }
  for (const SACStats& table : stats.sac_stats) {
    for (Bytes bytes : table.memory) total += bytes;
  }
  if (total < Int128{1} << 62) return {};
  return fail(ErrorCode::kOverflow, document_place(file, ""),
              "the figures of all modules add up to more than 2^62 bytes",
              "give the figures of one rank");
}

}  // namespace

Result<ModuleStats> read_module_stats(std::string_view text, std::string_view file) {
  PLIMSOLL_ASSIGN(ModuleStatsDocument document,
                  read_document<ModuleStatsDocument>(text, file, kModuleStatsSchema));
  std::vector<std::string> fqns;
  for (const ModuleRecord& record : document.mod_stats) fqns.push_back(record.module.fqn);
  PLIMSOLL_RETURN_IF_ERROR(apply_indices(document, file));
  ModuleStats stats = std::move(document.stats);
  for (ModuleRecord& record : document.mod_stats) {
    ModuleInfo& module = stats.mod_stats.emplace_back(std::move(record.module));
    module.grad_per_module = record.grad_per_module.value_or(module.param_per_module);
    module.requires_grad = record.requires_grad.value_or(true);
    module.tradeoff_curve = std::move(record.tradeoff_curve.points);
  }
  if (document.notes) PLIMSOLL_RETURN_IF_ERROR(apply_notes(*document.notes, stats, file));
  if (Result<void> valid = checkpoint::validate(stats); !valid) {
    const std::string pointer = pointer_of_place(valid.error().place, fqns, stats);
    PLIMSOLL_RETURN_IF_ERROR(place_error(std::move(valid), file, pointer));
  }
  PLIMSOLL_RETURN_IF_ERROR(check_derived(document, stats, file));
  PLIMSOLL_RETURN_IF_ERROR(check_sums(stats, file));
  return stats;
}

std::string write_module_stats(const ModuleStats& stats) {
  ModuleStatsDocument document;
  document.stats = stats;
  StatsNotes notes{{}, std::move(document.stats.repeated), std::move(document.stats.fit_failed)};
  for (ModuleInfo& module : document.stats.mod_stats) {
    ModuleRecord& record = document.mod_stats.emplace_back();
    if (module.grad_per_module != module.param_per_module) {
      record.grad_per_module = module.grad_per_module;
    }
    if (!module.requires_grad) {
      record.requires_grad = false;
      notes.no_backward.push_back(module.fqn);
    }
    record.tradeoff_curve.points = std::move(module.tradeoff_curve);
    record.module = std::move(module);
  }
  if (!notes.no_backward.empty() || !notes.repeated.empty() || !notes.fit_failed.empty()) {
    document.notes = std::move(notes);
  }
  return write_document(document);
}

Result<SACStats> read_sac_stats(std::string_view text, std::string_view file) {
  PLIMSOLL_ASSIGN(SACStatsDocument document,
                  read_document<SACStatsDocument>(text, file, kSACStatsSchema));
  Result<void> valid = checkpoint::validate(document.stats);
  if (!valid) {
    // The place is a list's name, or "operator 3".
    const std::string& place = valid.error().place;
    const std::string pointer = place.starts_with("operator") ? "" : "/" + place;
    PLIMSOLL_RETURN_IF_ERROR(place_error(std::move(valid), file, pointer));
  }
  return std::move(document.stats);
}

std::string write_sac_stats(const SACStats& stats) {
  return write_document(SACStatsDocument{std::string(kSACStatsSchema), stats});
}

}  // namespace plimsoll::io
