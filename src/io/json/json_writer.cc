#include "io/json/json_writer.h"

namespace plimsoll::io {

JsonValue to_json(bool value, const Rule& /*rule*/) { return {value}; }

JsonValue to_json(std::int32_t value, const Rule& /*rule*/) { return {std::int64_t{value}}; }

JsonValue to_json(std::int64_t value, const Rule& /*rule*/) { return {value}; }

JsonValue to_json(std::uint64_t value, const Rule& /*rule*/) {
  if (value <= static_cast<std::uint64_t>(INT64_MAX)) return {static_cast<std::int64_t>(value)};
  return {JsonValue::BigInteger{std::to_string(value)}};
}

JsonValue to_json(double value, const Rule& /*rule*/) { return {value}; }

JsonValue to_json(const std::string& value, const Rule& rule) {
  if (rule.form == Rule::Form::kJsonText) {
    if (Result<JsonValue> parsed = parse_json(value, ""); parsed) return *std::move(parsed);
  }
  return {value};
}

JsonValue to_json(const JsonValue& value, const Rule& /*rule*/) { return value; }

}  // namespace plimsoll::io
