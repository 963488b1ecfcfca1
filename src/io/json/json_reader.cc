#include "io/json/json_reader.h"

#include <fmt/format.h>

#include <charconv>
#include <cmath>

#include "core/suggest.h"
#include "plimsoll/core/units.h"

namespace plimsoll::io {
namespace {

constexpr std::string_view kOtherDocument = "give a document of that kind, or leave the key out";

// "at least 0", "more than 0 and at most 1": for error messages.
std::string describe_range(const Rule& rule) {
  std::string text;
  if (std::isfinite(rule.min)) {
    text = fmt::format("{} {}", rule.excludes_min ? "more than" : "at least", rule.min);
  }
  if (std::isfinite(rule.max)) {
    text += fmt::format("{}at most {}", text.empty() ? "" : " and ", rule.max);
  }
  return text;
}

bool check_range(const Cursor& cursor, double value, const Rule& rule) {
  const bool is_in =
      (rule.excludes_min ? value > rule.min : value >= rule.min) && value <= rule.max;
  if (is_in) return true;
  return cursor.fail(ErrorCode::kValue,
                     fmt::format("{} is out of range", print_compact(cursor.value)),
                     fmt::format("give {}", describe_range(rule)));
}

std::string shorten(const std::string& digits) {
  constexpr std::size_t kLongest = 40;
  return digits.size() <= kLongest ? digits : digits.substr(0, kLongest) + "...";
}

// A string with a unit, read by `parse`; its error keeps code and text and takes our place.
template <class T>
bool read_with_unit(const Cursor& cursor, const std::string& text,
                    Result<T> (*parse)(std::string_view), T& out) {
  Result<T> parsed = parse(text);
  if (!parsed) {
    return cursor.fail(parsed.error().code, parsed.error().message, parsed.error().remedy);
  }
  out = *parsed;
  return true;
}

}  // namespace

std::string pointer_of(const Place& place) {
  if (place.parent == nullptr) return {};
  std::string pointer = pointer_of(*place.parent);
  pointer += '/';
  pointer += place.index ? std::to_string(*place.index) : escape_pointer(place.key);
  return pointer;
}

bool Cursor::fail(ErrorCode code, std::string message, std::string remedy) const {
  if (!context.error) {
    context.error = Error{code,
                          document_place(context.file, pointer_of(place)),
                          std::move(message),
                          std::move(remedy),
                          {}};
  }
  return false;
}

bool Cursor::fail_kind(std::string_view expected) const {
  const bool is_null = value.as<JsonValue::Null>() != nullptr;
  return fail(ErrorCode::kSchema, fmt::format("expected {}, found {}", expected, value.kind()),
              is_null ? "leave the key out instead" : "");
}

bool read(const Cursor& cursor, bool& out, const Rule& /*rule*/) {
  const auto* value = cursor.value.as<bool>();
  if (value == nullptr) return cursor.fail_kind("a boolean");
  out = *value;
  return true;
}

bool read(const Cursor& cursor, std::int64_t& out, const Rule& rule) {
  const bool is_bytes = rule.form == Rule::Form::kBytes;
  if (const auto* big = cursor.value.as<JsonValue::BigInteger>()) {
    return cursor.fail(ErrorCode::kOverflow, fmt::format("{} does not fit", shorten(big->digits)),
                       fmt::format("give at most {}", INT64_MAX));
  }
  if (const auto* value = cursor.value.as<std::int64_t>()) {
    out = *value;
  } else if (const auto* text = cursor.value.as<std::string>(); text != nullptr && is_bytes) {
    if (!read_with_unit(cursor, *text, &parse_size, out)) return false;
  } else {
    return cursor.fail_kind(is_bytes ? "an integer or a string like \"80 GiB\"" : "an integer");
  }
  return check_range(cursor, static_cast<double>(out), rule);
}

bool read(const Cursor& cursor, std::int32_t& out, const Rule& rule) {
  std::int64_t value = 0;
  if (!read(cursor, value, rule)) return false;
  if (value < INT32_MIN || value > INT32_MAX) {
    return cursor.fail(ErrorCode::kOverflow, fmt::format("{} does not fit", value),
                       fmt::format("give at most {}", INT32_MAX));
  }
  out = static_cast<std::int32_t>(value);
  return true;
}

bool read(const Cursor& cursor, std::uint64_t& out, const Rule& /*rule*/) {
  std::string_view digits;
  if (const auto* big = cursor.value.as<JsonValue::BigInteger>()) {
    digits = big->digits;
  } else if (const auto* value = cursor.value.as<std::int64_t>()) {
    if (*value < 0) {
      return cursor.fail(ErrorCode::kValue, fmt::format("{} is out of range", *value),
                         "give at least 0");
    }
    out = static_cast<std::uint64_t>(*value);
    return true;
  } else {
    return cursor.fail_kind("an integer");
  }
  const auto [end, code] = std::from_chars(digits.data(), digits.data() + digits.size(), out);
  if (code == std::errc{} && end == digits.data() + digits.size()) return true;
  return cursor.fail(ErrorCode::kOverflow,
                     fmt::format("{} does not fit", shorten(std::string(digits))),
                     fmt::format("give at most {}", UINT64_MAX));
}

bool read(const Cursor& cursor, double& out, const Rule& rule) {
  const bool is_bandwidth = rule.form == Rule::Form::kBandwidth;
  if (const auto* value = cursor.value.as<double>()) {
    out = *value;
  } else if (const auto* integer = cursor.value.as<std::int64_t>()) {
    out = static_cast<double>(*integer);
  } else if (const auto* big = cursor.value.as<JsonValue::BigInteger>()) {
    out = std::stod(big->digits);  // The parser has seen that it fits.
  } else if (const auto* text = cursor.value.as<std::string>(); text != nullptr && is_bandwidth) {
    if (!read_with_unit(cursor, *text, &parse_bandwidth, out)) return false;
  } else if (rule.allows_null && cursor.value.as<JsonValue::Null>() != nullptr) {
    out = std::numeric_limits<double>::quiet_NaN();
    return true;
  } else {
    return cursor.fail_kind(is_bandwidth ? "a number or a string like \"600 GiB/s\"" : "a number");
  }
  return check_range(cursor, out, rule);
}

bool read(const Cursor& cursor, std::string& out, const Rule& rule) {
  if (rule.form == Rule::Form::kJsonText) {
    out = print_compact(cursor.value);
    return true;
  }
  const auto* value = cursor.value.as<std::string>();
  if (value == nullptr) return cursor.fail_kind("a string");
  out = *value;
  return true;
}

bool read(const Cursor& cursor, JsonValue& out, const Rule& /*rule*/) {
  if (cursor.value.as<JsonValue::Object>() == nullptr) return cursor.fail_kind("an object");
  out = cursor.value;
  return true;
}

bool read_name(const Cursor& cursor, std::string_view& out) {
  const auto* value = cursor.value.as<std::string>();
  if (value == nullptr) return cursor.fail_kind("a name");
  out = *value;
  return true;
}

bool fail_name(const Cursor& cursor, std::string_view name, std::span<const std::string> names) {
  return cursor.fail(ErrorCode::kValue, fmt::format("unknown name '{}'", name),
                     suggest(name, names));
}

ObjectReader::ObjectReader(const Cursor& cursor, std::span<const KeyInfo> keys) : cursor_(cursor) {
  const auto* object = cursor.value.as<JsonValue::Object>();
  if (object == nullptr) {
    is_ok_ = cursor.fail_kind("an object");
    return;
  }
  for (const JsonMember& member : *object) {
    const bool is_known = std::any_of(keys.begin(), keys.end(),
                                      [&](const KeyInfo& info) { return info.key == member.key; });
    // Editors find the JSON Schema of a document by this key of its root.
    const bool is_root = cursor.place.parent == nullptr;
    const bool is_of_editors = is_root && member.key == "$schema";
    if (is_known || is_of_editors) continue;
    std::vector<std::string> known;
    for (const KeyInfo& info : keys) known.push_back(info.key);
    const std::string remedy = is_root ? what_takes_key(member.key) : std::string();
    const Place place{&cursor.place, member.key, {}};
    is_ok_ = Cursor{member.value, place, cursor.context}.fail(
        ErrorCode::kSchema, fmt::format("unknown key '{}'", member.key),
        remedy.empty() ? suggest(member.key, known) : remedy);
    return;
  }
}

bool ObjectReader::fail_missing(std::string_view key) const {
  return cursor_.fail(ErrorCode::kSchema, fmt::format("the key '{}' is missing", key),
                      fmt::format("add \"{}\"", key));
}

Result<void> check_schema(const JsonValue& root, std::string_view file, std::string_view schema) {
  const JsonValue* value = root.find("schema");
  if (value == nullptr) return {};
  const auto* name = value->as<std::string>();
  if (name != nullptr && *name == schema) return {};
  return fail(ErrorCode::kSchema, document_place(file, "/schema"),
              fmt::format("expected \"{}\", found {}", schema,
                          name != nullptr ? print_compact(*value) : std::string(value->kind())),
              name != nullptr ? what_takes(*name) : std::string(kOtherDocument));
}

std::string what_takes(std::string_view schema) {
  struct Kind {
    std::string_view schema, remedy;
  };
  constexpr std::string_view kPlan =
      "this is a plan: `plimsoll check`, `report`, `diff` and `convert` take it";
  constexpr Kind kKinds[] = {
      {"plimsoll.plan/1", kPlan},
      {"plimsoll.checkpoint_policy/1", kPlan},
      {"plimsoll.placement/1", kPlan},
      {"plimsoll.pipeline_plan/1", kPlan},
      {"plimsoll.model/1", "this is an embedding model: `plimsoll shard` plans it"},
      {"plimsoll.module_stats/1", "these are module statistics: `plimsoll checkpoint` plans them"},
      {"plimsoll.cost_graph/1", "this is an operator graph: `plimsoll partition` plans it"},
      {"plimsoll.fx_graph/1", "this is an operator graph: `plimsoll partition` plans it"},
      {"plimsoll.experts/1", "these are experts: `plimsoll shard` places them"},
      {"plimsoll.topology/1", "this is hardware: name it with --on"},
      {"plimsoll.machine/1", "these are times of a machine: name them with --machine"},
      {"plimsoll.constraints/1", "these are constraints: name them with --constraints"}};
  for (const Kind& kind : kKinds) {
    if (kind.schema == schema) return std::string(kind.remedy);
  }
  return std::string(kOtherDocument);
}

std::string what_takes_key(std::string_view key) {
  constexpr std::pair<std::string_view, std::string_view> kKeys[] = {
      {"tables", "plimsoll.model/1"},           {"modules", "plimsoll.model/1"},
      {"mod_order", "plimsoll.module_stats/1"}, {"mod_stats", "plimsoll.module_stats/1"},
      {"nodes", "plimsoll.cost_graph/1"},       {"rows", "plimsoll.cost_graph/1"},
      {"maxFPGAs", "plimsoll.cost_graph/1"},    {"maxSizePerFPGA", "plimsoll.cost_graph/1"},
  };
  for (const auto& [own, schema] : kKeys) {
    if (own == key) return what_takes(schema);
  }
  return {};
}

}  // namespace plimsoll::io
