// From typed values to a JSON tree, by the descriptions that the reader uses (json_reader.h).
#pragma once

#include "io/json/json_reader.h"

namespace plimsoll::io {

JsonValue to_json(bool value, const Rule& rule);
JsonValue to_json(std::int32_t value, const Rule& rule);
JsonValue to_json(std::int64_t value, const Rule& rule);
JsonValue to_json(std::uint64_t value, const Rule& rule);
JsonValue to_json(double value, const Rule& rule);
JsonValue to_json(const std::string& value, const Rule& rule);
JsonValue to_json(const JsonValue& value, const Rule& rule);

template <class Enum>
requires std::is_enum_v<Enum> JsonValue to_json(Enum value, const Rule& /*rule*/) {
  return {std::string(to_string(value))};
}

// An empty one is null; optional() leaves it out before.
template <class T>
JsonValue to_json(const std::optional<T>& value, const Rule& rule) {
  return value ? to_json(*value, rule) : JsonValue{};
}

template <class T>
JsonValue to_json(const std::vector<T>& values, const Rule& rule) {
  JsonValue::Array array;
  array.reserve(values.size());
  for (const T& value : values) array.push_back(to_json(value, rule));
  return {std::move(array)};
}

template <class A, class B>
JsonValue to_json(const std::pair<A, B>& value, const Rule& rule) {
  return {JsonValue::Array{to_json(value.first, rule), to_json(value.second, rule)}};
}

template <class T, class Less>
JsonValue to_json(const std::map<std::string, T, Less>& values, const Rule& rule) {
  JsonValue::Object object;
  for (const auto& [key, value] : values) object.push_back({key, to_json(value, rule)});
  return {std::move(object)};
}

class ObjectWriter {
 public:
  template <class T>
  void required(std::string_view key, const T& value, const Rule& rule = {}) {
    object_.push_back({std::string(key), to_json(value, rule)});
  }
  template <class T>
  void stated(std::string_view key, const T& value, const Rule& rule = {}) {
    required(key, value, rule);
  }
  template <class T>
  void optional(std::string_view key, const T& value, const Rule& rule = {}) {
    if (!is_default(value)) required(key, value, rule);
  }
  JsonValue take() && { return {std::move(object_)}; }

 private:
  template <class T>
  static bool is_default(const T& value) {
    if constexpr (std::is_same_v<T, JsonValue>) {
      return value.template as<JsonValue::Null>() != nullptr;
    } else if constexpr (requires { value.empty(); }) {
      return value.empty();
    } else if constexpr (requires { value.has_value(); }) {
      return !value.has_value();
    } else {
      return value == T{};
    }
  }
  JsonValue::Object object_;
};

template <Described T>
JsonValue to_json(const T& value, const Rule& /*rule*/) {
  ObjectWriter writer;
  describe(writer, value);
  return std::move(writer).take();
}

template <Described T>
std::string write_document(const T& document) {
  return print_json(to_json(document, kAnyValue));
}

}  // namespace plimsoll::io
