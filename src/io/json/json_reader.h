// From a JSON tree to typed values, strictly.
//
// What a document looks like is said once, by a template describe(fields, value) for each of its
// types (descriptions.h), and used thrice: ObjectReader reads, ObjectWriter (json_writer.h) writes,
// KeyCollector lists the keys. A description calls, for each key in order,
//   fields.required(key, member[, rule])   must be given
//   fields.optional(key, member[, rule])   may be missing; not written where it equals T{}
//   fields.stated(key, member[, rule])     may be missing; always written
// where a missing key leaves the member as its type initialised it.
#pragma once

#include <algorithm>
#include <concepts>
#include <cstdint>
#include <limits>
#include <map>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <variant>
#include <vector>

#include "io/json/json_document.h"
#include "plimsoll/core/result.h"

namespace plimsoll::io {

// What a value must satisfy beyond its C++ type. Numbers of a list must each satisfy it.
struct Rule {
  enum class Form {
    kPlain,
    kBytes,      // also "80 GiB"
    kBandwidth,  // also "600 GiB/s"
    kJsonText,   // a string member holds any JSON, as text
  };
  Form form = Form::kPlain;
  double min = -std::numeric_limits<double>::infinity();
  double max = std::numeric_limits<double>::infinity();
  bool excludes_min = false;
  bool allows_null = false;  // null is NaN, or an empty optional
  bool is_set = false;       // no two entries of a list are equal; they must have an order
};
inline constexpr Rule kAnyValue{};
inline constexpr Rule kNonNegative{.min = 0};
inline constexpr Rule kPositive{.min = 1};
inline constexpr Rule kFraction{.min = 0, .max = 1};
inline constexpr Rule kBytes{.form = Rule::Form::kBytes, .min = 0};
inline constexpr Rule kBandwidth{.form = Rule::Form::kBandwidth, .min = 0, .excludes_min = true};
inline constexpr Rule kJsonText{.form = Rule::Form::kJsonText};
inline constexpr Rule kNullable{.allows_null = true};
inline constexpr Rule kSet{.is_set = true};

// Where we stand: a chain through the callers' frames, spelled out only for an error.
struct Place {
  const Place* parent = nullptr;  // null at the root
  std::string_view key;
  std::optional<std::size_t> index;  // of an array's entry; then `key` is unused
};
std::string pointer_of(const Place& place);

struct ReadContext {
  std::string_view file;
  std::optional<Error> error;  // the first; nothing is read after it
};

struct Cursor {
  const JsonValue& value;
  const Place& place;
  ReadContext& context;

  // Records the error; false.
  bool fail(ErrorCode code, std::string message, std::string remedy = {}) const;
  bool fail_kind(std::string_view expected) const;
};

// The names of an enumeration that documents hold: all(), in order, and find(name), empty for
// others. Specialized in names.h.
template <class Enum>
struct EnumNames;

struct KeyInfo {
  std::string key;
  bool is_required = false;
  std::vector<std::string> names;  // of an enumeration; else empty
};

namespace detail {
template <class T>
struct Element {
  using type = T;
};
template <class T>
struct Element<std::optional<T>> : Element<T> {};
template <class T>
struct Element<std::vector<T>> : Element<T> {};
}  // namespace detail

class KeyCollector {
 public:
  template <class T>
  void required(std::string_view key, T& /*member*/, const Rule& /*rule*/ = {}) {
    add<T>(key, true);
  }
  template <class T>
  void optional(std::string_view key, T& /*member*/, const Rule& /*rule*/ = {}) {
    add<T>(key, false);
  }
  template <class T>
  void stated(std::string_view key, T& /*member*/, const Rule& /*rule*/ = {}) {
    add<T>(key, false);
  }
  std::vector<KeyInfo> take() && { return std::move(keys_); }

 private:
  template <class T>
  void add(std::string_view key, bool is_required) {
    using E = typename detail::Element<std::remove_const_t<T>>::type;
    KeyInfo info{std::string(key), is_required, {}};
    if constexpr (std::is_enum_v<E>) {
      const std::span<const std::string> names = EnumNames<E>::all();
      info.names.assign(names.begin(), names.end());
    }
    keys_.push_back(std::move(info));
  }
  std::vector<KeyInfo> keys_;
};

template <class T>
concept Described = requires(KeyCollector& keys, T& value) {
  describe(keys, value);
};

// In a description: `template <class Fields, SameAs<Table> T> void describe(Fields& f, T& table)`
// serves both a value to be read and a constant one to be written.
template <class T, class U>
concept SameAs = std::same_as<std::remove_const_t<T>, U>;

template <Described T>
std::vector<KeyInfo> keys_of() {
  KeyCollector collector;
  T value{};
  describe(collector, value);
  return std::move(collector).take();
}

// Each returns false with the error recorded.
bool read(const Cursor& cursor, bool& out, const Rule& rule);
bool read(const Cursor& cursor, std::int32_t& out, const Rule& rule);
bool read(const Cursor& cursor, std::int64_t& out, const Rule& rule);
bool read(const Cursor& cursor, std::uint64_t& out, const Rule& rule);
bool read(const Cursor& cursor, double& out, const Rule& rule);
bool read(const Cursor& cursor, std::string& out, const Rule& rule);
bool read(const Cursor& cursor, JsonValue& out, const Rule& rule);  // any object

bool read_name(const Cursor& cursor, std::string_view& out);
bool fail_name(const Cursor& cursor, std::string_view name, std::span<const std::string> names);

template <class Enum>
requires std::is_enum_v<Enum>
bool read(const Cursor& cursor, Enum& out, const Rule& /*rule*/) {
  std::string_view name;
  if (!read_name(cursor, name)) return false;
  const std::optional<Enum> value = EnumNames<Enum>::find(name);
  if (!value) return fail_name(cursor, name, EnumNames<Enum>::all());
  out = *value;
  return true;
}

template <class T>
bool read(const Cursor& cursor, std::optional<T>& out, const Rule& rule) {
  if (rule.allows_null && cursor.value.as<JsonValue::Null>() != nullptr) return true;
  T value{};
  if (!read(cursor, value, rule)) return false;
  out = std::move(value);
  return true;
}

template <class T>
bool read(const Cursor& cursor, std::vector<T>& out, const Rule& rule) {
  const auto* array = cursor.value.as<JsonValue::Array>();
  if (array == nullptr) return cursor.fail_kind("an array");
  out.clear();
  out.reserve(array->size());
  std::conditional_t<std::totally_ordered<T>, std::set<T>, std::monostate> seen;
  for (std::size_t i = 0; i < array->size(); ++i) {
    const Place place{&cursor.place, {}, i};
    T value{};
    if (!read(Cursor{(*array)[i], place, cursor.context}, value, rule)) return false;
    if constexpr (std::totally_ordered<T>) {
      if (rule.is_set && !seen.insert(value).second) {
        return Cursor{(*array)[i], place, cursor.context}.fail(
            ErrorCode::kValue, "is in the list already", "leave it out");
      }
    }
    out.push_back(std::move(value));
  }
  return true;
}

// A list of two.
template <class A, class B>
bool read(const Cursor& cursor, std::pair<A, B>& out, const Rule& rule) {
  const auto* array = cursor.value.as<JsonValue::Array>();
  if (array == nullptr || array->size() != 2) return cursor.fail_kind("an array of two");
  const Place first{&cursor.place, {}, 0};
  const Place second{&cursor.place, {}, 1};
  return read(Cursor{(*array)[0], first, cursor.context}, out.first, rule) &&
         read(Cursor{(*array)[1], second, cursor.context}, out.second, rule);
}

template <class T, class Less>
bool read(const Cursor& cursor, std::map<std::string, T, Less>& out, const Rule& rule) {
  const auto* object = cursor.value.as<JsonValue::Object>();
  if (object == nullptr) return cursor.fail_kind("an object");
  out.clear();
  for (const JsonMember& member : *object) {
    const Place place{&cursor.place, member.key, {}};
    if (!read(Cursor{member.value, place, cursor.context}, out[member.key], rule)) return false;
  }
  return true;
}

class ObjectReader {
 public:
  // An error if the value is not an object or has a key that is not in `keys`.
  ObjectReader(const Cursor& cursor, std::span<const KeyInfo> keys);

  template <class T>
  void required(std::string_view key, T& out, const Rule& rule = {}) {
    if (is_ok_ && !read_member(key, out, rule)) is_ok_ = fail_missing(key);
  }
  template <class T>
  void optional(std::string_view key, T& out, const Rule& rule = {}) {
    if (is_ok_) read_member(key, out, rule);
  }
  template <class T>
  void stated(std::string_view key, T& out, const Rule& rule = {}) {
    optional(key, out, rule);
  }
  bool is_ok() const { return is_ok_; }

 private:
  // Was the key there?
  template <class T>
  bool read_member(std::string_view key, T& out, const Rule& rule) {
    const JsonValue* value = cursor_.value.find(key);
    if (value == nullptr) return false;
    const Place place{&cursor_.place, key, {}};
    is_ok_ = read(Cursor{*value, place, cursor_.context}, out, rule);
    return true;
  }
  bool fail_missing(std::string_view key) const;

  const Cursor& cursor_;
  bool is_ok_ = true;
};

template <Described T>
bool read(const Cursor& cursor, T& out, const Rule& /*rule*/) {
  static const std::vector<KeyInfo> keys = keys_of<T>();
  ObjectReader reader(cursor, keys);
  describe(reader, out);
  return reader.is_ok();
}

// The root's "schema", where present, is `schema`.
Result<void> check_schema(const JsonValue& root, std::string_view file, std::string_view schema);

// What a document of this name is and which command takes it, for the remedy of an error.
std::string what_takes(std::string_view schema);
// The same of a document that has this key at its root; empty where many may have it.
std::string what_takes_key(std::string_view key);

template <Described T>
Result<T> read_tree(const JsonValue& root, std::string_view file) {
  ReadContext context{file, {}};
  const Place place;
  T document{};
  if (!read(Cursor{root, place, context}, document, kAnyValue)) {
    return tl::unexpected<Error>(*std::move(context.error));
  }
  return document;
}

template <Described T>
Result<T> read_tree(const JsonValue& root, std::string_view file, std::string_view schema) {
  PLIMSOLL_RETURN_IF_ERROR(check_schema(root, file, schema));
  return read_tree<T>(root, file);
}

template <Described T>
Result<T> read_document(std::string_view text, std::string_view file, std::string_view schema) {
  PLIMSOLL_ASSIGN(const JsonValue root, parse_json(text, file));
  return read_tree<T>(root, file, schema);
}

}  // namespace plimsoll::io
