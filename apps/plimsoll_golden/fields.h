// Reads the fields of a JSON object by name and type, and remembers two things: the first value
// that could not be read, and the fields that nobody asked for. So a reader names what it wants,
// field by field, and looks once at the end whether all was well.
#pragma once

#include <fmt/format.h>

#include <cmath>
#include <concepts>
#include <cstdint>
#include <limits>
#include <nlohmann/json.hpp>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

#include "plimsoll/core/result.h"
#include "plimsoll/embedding/reservation.h"
#include "plimsoll/embedding/types.h"
#include "plimsoll/topology/topology.h"

namespace plimsoll::golden {

// Keeps the order of keys: modules are registered in the order in which a record lists them.
using Json = nlohmann::ordered_json;

struct Reading {
  std::optional<Error> error;
  std::set<std::string> unread;    // "table.colour"
  const Json* document = nullptr;  // the whole file, for records that name others
};

// 512 and 512.0 are both whole numbers.
inline bool convert(const Json& json, std::int64_t& out) {
  if (json.is_number_unsigned()) {
    const auto value = json.get<std::uint64_t>();
    out = static_cast<std::int64_t>(value);
    return value <= static_cast<std::uint64_t>(std::numeric_limits<std::int64_t>::max());
  }
  if (json.is_number_integer()) {
    out = json.get<std::int64_t>();
    return true;
  }
  if (!json.is_number_float()) return false;
  const auto value = json.get<double>();
  if (std::trunc(value) != value || std::abs(value) >= 0x1p63) return false;
  out = static_cast<std::int64_t>(value);
  return true;
}
inline bool convert(const Json& json, int& out) {
  std::int64_t wide = 0;
  if (!convert(json, wide) || !std::in_range<int>(wide)) return false;
  out = static_cast<int>(wide);
  return true;
}
inline bool convert(const Json& json, double& out) {
  if (json.is_number()) out = json.get<double>();
  return json.is_number();
}
inline bool convert(const Json& json, bool& out) {
  if (json.is_boolean()) out = json.get<bool>();
  return json.is_boolean();
}
inline bool convert(const Json& json, std::string& out) {
  if (json.is_string()) out = json.get<std::string>();
  return json.is_string();
}
template <class Enum>
requires std::is_enum_v<Enum>
bool convert(const Json& json, Enum& out) {
  if (!json.is_string()) return false;
  std::optional<Enum> found;
  if constexpr (std::same_as<Enum, topology::ComputeDevice>) {
    found = topology::find_compute_device(json.get<std::string>());
  } else {
    found = embedding::find_enum<Enum>(json.get<std::string>());
  }
  if (found) out = *found;
  return found.has_value();
}
template <class T>
bool convert(const Json& json, std::pair<T, T>& out) {
  return json.is_array() && json.size() == 2 && convert(json[0], out.first) &&
         convert(json[1], out.second);
}
template <class T>
bool convert(const Json& json, std::vector<T>& out) {
  if (!json.is_array()) return false;
  out.assign(json.size(), T{});
  for (std::size_t i = 0; i < json.size(); ++i) {
    if (!convert(json[i], out[i])) return false;
  }
  return true;
}

class Fields {
 public:
  // `name` is where the object stands within the record, "" for the record itself; `place` the same
  // for error messages.
  Fields(const Json& object, std::string name, std::string place, Reading& reading)
      : object_(object), name_(std::move(name)), place_(std::move(place)), reading_(reading) {
    if (!object_.is_object()) reject("", object_);
  }
  Fields(const Fields&) = delete;
  Fields& operator=(const Fields&) = delete;
  // Every field that was not asked for goes to the reading.
  ~Fields() {
    if (!object_.is_object()) return;
    for (const auto& [key, value] : object_.items()) {
      if (!read_.contains(key)) reading_.unread.insert(name_.empty() ? key : name_ + "." + key);
    }
  }

  // The field, or null where it is absent or null.
  const Json* child(std::string_view key) {
    read_.emplace(key);
    if (!object_.is_object()) return nullptr;
    const auto it = object_.find(std::string(key));
    return it == object_.end() || it->is_null() ? nullptr : &*it;
  }

  template <class T>
  std::optional<T> find(std::string_view key) {
    const Json* json = child(key);
    if (json == nullptr) return std::nullopt;
    T value{};
    if (convert(*json, value)) return value;
    reject(key, *json);
    return std::nullopt;
  }
  template <class T>
  T value(std::string_view key, T fallback) {
    return find<T>(key).value_or(std::move(fallback));
  }
  template <class T>
  T need(std::string_view key) {
    if (child(key) == nullptr && !reading_.error) {
      reading_.error =
          Error{ErrorCode::kSchema, place_, "misses the field '" + std::string(key) + "'", "", ""};
    }
    return value<T>(key, T{});
  }

  const std::string& place() const { return place_; }
  std::string place(std::string_view key) const {
    return key.empty() ? place_ : fmt::format("{}.{}", place_, key);
  }
  Reading& reading() const { return reading_; }

  void reject(std::string_view key, const Json& json) {
    if (reading_.error) return;
    reading_.error =
        Error{ErrorCode::kSchema, place(key), "cannot be read: " + json.dump(), "", ""};
  }

 private:
  const Json& object_;
  std::string name_;
  std::string place_;
  Reading& reading_;
  std::set<std::string, std::less<>> read_;
};

}  // namespace plimsoll::golden
