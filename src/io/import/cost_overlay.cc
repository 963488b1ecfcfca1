#include "io/import/cost_overlay.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <set>
#include <unordered_map>

#include "core/suggest.h"

namespace plimsoll::io {
namespace {

constexpr std::string_view kHeader = "node,device_class,time_ms,mem_bytes";
constexpr std::size_t kNumFields = 4;

// The next record, over several lines where quotes say so. `line` counts lines read.
Result<std::vector<std::string>> take_record(std::string_view& text, int& line,
                                             const std::string& place) {
  std::vector<std::string> fields(1);
  bool is_quoted = false;
  ++line;
  while (!text.empty()) {
    const char c = text.front();
    text.remove_prefix(1);
    if (is_quoted) {
      if (c == '"' && text.starts_with('"')) {
        fields.back() += '"';
        text.remove_prefix(1);
      } else if (c == '"') {
        is_quoted = false;
      } else {
        if (c == '\n') ++line;
        fields.back() += c;
      }
    } else if (c == '"' && fields.back().empty()) {
      is_quoted = true;
    } else if (c == ',') {
      fields.emplace_back();
    } else if (c == '\n') {
      return fields;
    } else if (c != '\r' || !text.starts_with('\n')) {
      fields.back() += c;
    }
  }
  if (is_quoted) {
    return fail(ErrorCode::kSyntax, place, "a quote that does not end", "close it");
  }
  return fields;
}

template <class T>
Result<std::optional<T>> parse_amount(const std::string& field, const std::string& place,
                                      std::string_view name) {
  if (field.empty()) return std::optional<T>();
  T value{};
  const auto [end, error] = std::from_chars(field.data(), field.data() + field.size(), value);
  if (error == std::errc::result_out_of_range) {
    return fail(ErrorCode::kOverflow, place, std::string(name) + " '" + field + "' does not fit",
                "give a smaller number");
  }
  const bool is_whole = error == std::errc() && end == field.data() + field.size();
  if (!is_whole || !(value >= 0) || !std::isfinite(static_cast<double>(value))) {
    return fail(ErrorCode::kValue, place,
                std::string(name) + " '" + field + "' is not a number of at least 0",
                "give one, or leave the field empty");
  }
  return std::optional<T>(value);
}

Result<void> check_rows(const CostOverlay& overlay) {
  std::set<std::pair<std::string_view, std::string_view>> timed;
  std::unordered_map<std::string_view, Bytes> memory_of;
  for (const OverlayRow& row : overlay.rows) {
    if (row.time_ms && !timed.emplace(row.node, row.device_class).second) {
      return fail(ErrorCode::kConflict, row.place,
                  "a second time of '" + row.node + "' on '" + row.device_class + "'",
                  "give each once");
    }
    if (row.memory && memory_of.emplace(row.node, *row.memory).first->second != *row.memory) {
      return fail(ErrorCode::kConflict, row.place,
                  "'" + row.node + "' holds another number of bytes in an earlier row",
                  "give one number for all classes");
    }
  }
  return {};
}

template <class Nodes>
tl::unexpected<Error> fail_unknown(const OverlayRow& row, const Nodes& nodes,
                                   std::span<const std::string> keys = {}) {
  std::vector<std::string> names(keys.begin(), keys.end());
  for (const auto& node : nodes) {
    if (!node.name.empty()) names.push_back(node.name);
  }
  return fail(ErrorCode::kNotFound, row.place, "there is no node '" + row.node + "'",
              suggest(row.node, names));
}

}  // namespace

Result<CostOverlay> read_cost_overlay(std::string_view text, std::string_view file) {
  CostOverlay overlay;
  constexpr std::string_view kByteOrderMark = "\xEF\xBB\xBF";
  if (text.starts_with(kByteOrderMark)) text.remove_prefix(kByteOrderMark.size());
  int line = 0;
  bool has_header = false;
  while (!text.empty() || !has_header) {
    const std::string place = std::string(file) + ":" + std::to_string(line + 1);
    PLIMSOLL_ASSIGN(const std::vector<std::string> fields, take_record(text, line, place));
    if (!std::exchange(has_header, true)) {
      std::string header;
      for (const std::string& field : fields) header += (header.empty() ? "" : ",") + field;
      if (header == kHeader) continue;
      return fail(ErrorCode::kSchema, place, "not the header of a cost overlay",
                  "begin with the line " + std::string(kHeader));
    }
    if (fields.size() == 1 && fields[0].empty()) continue;
    if (fields.size() != kNumFields || fields[0].empty() || fields[1].empty()) {
      return fail(ErrorCode::kSchema, place, "not a node, a class, a time and a number of bytes",
                  "give four fields, the first two not empty");
    }
    OverlayRow row{fields[0], fields[1], {}, {}, place};
    PLIMSOLL_ASSIGN(row.time_ms, parse_amount<double>(fields[2], place, "the time"));
    PLIMSOLL_ASSIGN(row.memory, parse_amount<Bytes>(fields[3], place, "the number of bytes"));
    overlay.rows.push_back(std::move(row));
  }
  return overlay;
}

Result<void> apply_overlay(const CostOverlay& overlay, partition::OperatorGraph& graph) {
  PLIMSOLL_RETURN_IF_ERROR(check_rows(overlay));
  std::unordered_map<std::string_view, int> node_of;
  for (int node = 0; node < graph.num_nodes(); ++node) node_of[graph.nodes[node].name] = node;
  for (const OverlayRow& row : overlay.rows) {
    if (node_of.count(row.node) == 0) return fail_unknown(row, graph.nodes);
  }
  for (const OverlayRow& row : overlay.rows) {
    partition::OperatorNode& node = graph.nodes[node_of[row.node]];
    if (row.memory) node.memory = row.memory;
    if (!row.time_ms) continue;
    std::optional<int> column = graph.find_time_column(row.device_class);
    if (!column) {
      column = static_cast<int>(graph.time_columns.size());
      graph.time_columns.push_back(row.device_class);
      for (partition::OperatorNode& other : graph.nodes) other.time_ms.emplace_back();
    }
    node.time_ms[static_cast<std::size_t>(*column)] = row.time_ms;
  }
  return {};
}

Result<void> apply_overlay(const CostOverlay& overlay, std::span<const std::string> keys,
                           partition::CostGraph& graph) {
  PLIMSOLL_RETURN_IF_ERROR(check_rows(overlay));
  constexpr int kAmbiguous = -1;
  std::unordered_map<std::string_view, int> node_of;
  for (int node = 0; node < graph.num_nodes(); ++node) {
    const auto [entry, is_new] = node_of.emplace(graph.nodes[node].name, node);
    if (!is_new) entry->second = kAmbiguous;
  }
  for (int node = 0; node < graph.num_nodes(); ++node) node_of[keys[node]] = node;
  std::vector<std::string> classes;
  for (const partition::DeviceClass& devices : graph.classes) classes.push_back(devices.name);
  for (const OverlayRow& row : overlay.rows) {
    const auto found = node_of.find(row.node);
    if (found == node_of.end()) return fail_unknown(row, graph.nodes, keys);
    if (found->second == kAmbiguous) {
      return fail(ErrorCode::kConflict, row.place, "several nodes are named '" + row.node + "'",
                  "name it by its number");
    }
    if (std::find(classes.begin(), classes.end(), row.device_class) == classes.end()) {
      return fail(ErrorCode::kNotFound, row.place,
                  "there is no class of devices '" + row.device_class + "'",
                  suggest(row.device_class, classes));
    }
  }
  for (const OverlayRow& row : overlay.rows) {
    partition::CostNode& node = graph.nodes[node_of[row.node]];
    const auto column = std::find(classes.begin(), classes.end(), row.device_class);
    if (row.memory) node.memory = *row.memory;
    if (row.time_ms)
      node.time_ms[static_cast<std::size_t>(column - classes.begin())] = *row.time_ms;
  }
  return {};
}

}  // namespace plimsoll::io
