// Mutations of JSON as a tree, so that most of what they make is still JSON of about the right
// shape: readers are strict, and random bytes seldom get past them. Inputs that are not JSON, and
// half of those that are, get libFuzzer's own mutations.
#include <algorithm>
#include <cstdint>
#include <cstring>
#include <random>

#include "io/json/json_document.h"

extern "C" std::size_t LLVMFuzzerMutate(std::uint8_t* data, std::size_t size, std::size_t max_size);

namespace {

using plimsoll::io::JsonMember;
using plimsoll::io::JsonValue;
using Engine = std::minstd_rand;

std::size_t below(Engine& engine, std::size_t end) { return engine() % end; }

void list_values(JsonValue& value, std::vector<JsonValue*>& values) {
  values.push_back(&value);
  if (auto* array = std::get_if<JsonValue::Array>(&value.data)) {
    for (JsonValue& entry : *array) list_values(entry, values);
  } else if (auto* object = std::get_if<JsonValue::Object>(&value.data)) {
    for (JsonMember& member : *object) list_values(member.value, values);
  }
}

// Numbers at the ends of the types that readers use, and of what they allow.
JsonValue odd_number(Engine& engine) {
  const int bits = static_cast<int>(below(engine, 64));
  const std::int64_t power = bits < 63 ? std::int64_t{1} << bits : INT64_MAX;
  switch (below(engine, 8)) {
    case 0:
      return {power};
    case 1:
      return {power - 1};
    case 2:
      return {-power};
    case 3:
      return {static_cast<std::int64_t>(below(engine, 20))};
    case 4:
      return {JsonValue::BigInteger{"9223372036854775808"}};
    case 5:
      return {static_cast<double>(power) * 1e-9};
    case 6:
      return {1e300};
    default:
      return {1e-300};
  }
}

void change(JsonValue& value, const JsonValue& other, Engine& engine) {
  auto* array = std::get_if<JsonValue::Array>(&value.data);
  auto* object = std::get_if<JsonValue::Object>(&value.data);
  const bool is_filled =
      (array != nullptr && !array->empty()) || (object != nullptr && !object->empty());
  if (is_filled && below(engine, 2) == 0) {
    const std::size_t at = below(engine, array != nullptr ? array->size() : object->size());
    if (array == nullptr) {
      object->erase(object->begin() + static_cast<std::ptrdiff_t>(at));
    } else if (below(engine, 2) == 0) {
      array->erase(array->begin() + static_cast<std::ptrdiff_t>(at));
    } else {
      array->push_back(JsonValue((*array)[at]));
    }
    return;
  }
  const bool is_number = value.as<std::int64_t>() != nullptr || value.as<double>() != nullptr;
  if (is_number || below(engine, 4) == 0) {
    value = odd_number(engine);
  } else if (auto* flag = std::get_if<bool>(&value.data)) {
    *flag = !*flag;
  } else {
    value = JsonValue(other);
  }
}

}  // namespace

extern "C" std::size_t LLVMFuzzerCustomMutator(std::uint8_t* data, std::size_t size,
                                               std::size_t max_size, unsigned int seed) {
  Engine engine(seed);
  const auto plain = [&] { return LLVMFuzzerMutate(data, size, max_size); };
  if (below(engine, 2) == 0) return plain();
  auto root = plimsoll::io::parse_json({reinterpret_cast<const char*>(data), size}, "fuzz");
  if (!root) return plain();
  for (std::size_t i = below(engine, 3) + 1; i > 0; --i) {
    std::vector<JsonValue*> values;
    list_values(*root, values);
    const JsonValue other = *values[below(engine, values.size())];
    change(*values[below(engine, values.size())], other, engine);
  }
  const std::string text = plimsoll::io::print_compact(*root);
  if (text.empty() || text.size() > max_size) return plain();
  std::copy(text.begin(), text.end(), data);
  return text.size();
}
