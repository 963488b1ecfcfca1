// JSON text to and from a tree that keeps the order of keys and the exactness of integers.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "plimsoll/core/result.h"
#include "plimsoll/io/files.h"

namespace plimsoll::io {

inline constexpr int kMaxDepth = 128;
inline constexpr std::size_t kMaxValues = std::size_t{1} << 25;

struct JsonMember;

struct JsonValue {
  struct Null {};
  struct BigInteger {
    std::string digits;  // as written; does not fit in 64 bits signed
  };
  using Array = std::vector<JsonValue>;
  using Object = std::vector<JsonMember>;  // document order, keys unique

  std::variant<Null, bool, std::int64_t, BigInteger, double, std::string, Array, Object> data;

  template <class T>
  const T* as() const {
    return std::get_if<T>(&data);
  }
  const JsonValue* find(std::string_view key) const;  // null: no such member, or no object
  // "an integer", "null", ...: for error messages.
  std::string_view kind() const;
};

struct JsonMember {
  std::string key;
  JsonValue value;
};

// Errors are placed at the JSON pointer that the parser had reached. kSyntax: not JSON or not
// UTF-8, text after the document, a key twice, deeper than kMaxDepth, more than kMaxValues values;
// kOverflow: a number beyond double; kIo: longer than kMaxFileBytes.
Result<JsonValue> parse_json(std::string_view text, std::string_view file);

// Lines of at most 100 columns where values allow it, with a final newline. Doubles are the
// shortest that read back, non-finite ones null; bytes that are not UTF-8 become U+FFFD.
std::string print_json(const JsonValue& value);
std::string print_compact(const JsonValue& value);

// "file#/a/0": `pointer` is empty or starts with '/'.
std::string document_place(std::string_view file, std::string_view pointer);
// '~' and '/' as "~0" and "~1".
std::string escape_pointer(std::string_view key);

}  // namespace plimsoll::io
