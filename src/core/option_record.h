// Options as provenance records them: texts by name.
//
// What an option is called and of which type it is, one description of a struct says,
//   template <class Fields, class Options> void describe_x_record(Fields& fields, Options& options)
// and a RecordWriter writes it, a RecordReader reads it back. Numbers are written so that they
// read back the same; flags are "true" or "false"; of enumerators the name stands there, and lists
// are joined by ','. `stated` fields are always written, `unusual` ones where they differ from the
// value that counts where the name is missing. Lists `by_class` hold "X", written under the list's
// name, and "CLASS=X", written under "name/CLASS".
#pragma once

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <charconv>
#include <concepts>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

#include "plimsoll/core/result.h"

namespace plimsoll {

using OptionTexts = std::map<std::string, std::string>;

template <class T>
using Names = std::vector<std::pair<std::string_view, T>>;

inline std::vector<std::string> split_record(std::string_view text) {
  std::vector<std::string> words;
  for (std::size_t begin = 0; begin <= text.size();) {
    const std::size_t end = std::min(text.find(',', begin), text.size());
    words.emplace_back(text.substr(begin, end - begin));
    begin = end + 1;
  }
  return words;
}

// What a reader of its own type answers a text that no writer writes.
inline tl::unexpected<Error> unreadable_record() { return fail(ErrorCode::kSchema, "", "", ""); }

// False where it is not a text that a writer writes of such a value.
inline bool read_record(const std::string& text, bool& value) {
  value = text == "true";
  return value || text == "false";
}
inline bool read_record(const std::string& text, std::string& value) {
  value = text;
  return true;
}
inline bool read_record(const std::string& text, std::vector<std::string>& list) {
  list = text.empty() ? std::vector<std::string>() : split_record(text);
  return true;
}
template <class Number>
requires std::is_arithmetic_v<Number>
bool read_record(const std::string& text, Number& value) {
  const char* const last = text.data() + text.size();
  const auto [end, error] = std::from_chars(text.data(), last, value);
  return error == std::errc() && end == last;
}

class RecordWriter {
 public:
  explicit RecordWriter(OptionTexts& texts) : texts_(texts) {}

  template <class T>
  void stated(const char* name, const T& value) {
    texts_[name] = text_of(value);
  }
  template <class T>
  void stated(const char* name, const std::optional<T>& value) {
    if (value) stated(name, *value);
  }
  template <class T>
  void unusual(const char* name, const T& value, const T& usual = T()) {
    if (!(value == usual)) stated(name, value);
  }
  // An enumerator, or what else has a name.
  template <class T>
  void named(const char* name, const T& value, const Names<T>& names) {
    for (const auto& [text, known] : names) {
      if (known == value) texts_[name] = text;
    }
  }
  // Whatever `write` and `read` (a Result) make of the value.
  template <class T, class Write, class Read>
  void as(const char* name, const T& value, const Write& write, const Read&) {
    texts_[name] = write(value);
  }
  template <class T, class Write, class Read>
  void as(const char* name, const std::optional<T>& value, const Write& write, const Read& read) {
    if (value) as(name, *value, write, read);
  }
  void by_class(const std::string& name, const std::vector<std::string>& list) {
    for (const std::string& entry : list) {
      const std::size_t equals = entry.rfind('=');
      const bool has_class = equals != std::string::npos;
      std::string& text = texts_[has_class ? name + "/" + entry.substr(0, equals) : name];
      text += (text.empty() ? "" : ",") + (has_class ? entry.substr(equals + 1) : entry);
    }
  }

 private:
  static std::string text_of(bool value) { return value ? "true" : "false"; }
  static std::string text_of(const std::string& value) { return value; }
  static std::string text_of(const std::vector<std::string>& list) {
    return fmt::format("{}", fmt::join(list, ","));
  }
  template <class Number>
  requires std::is_arithmetic_v<Number>
  static std::string text_of(Number value) { return fmt::format("{}", value); }

  OptionTexts& texts_;
};

class RecordReader {
 public:
  // `keeps_unusual`: what is not as usual already stays as it is.
  explicit RecordReader(const OptionTexts& texts, bool keeps_unusual = false)
      : texts_(texts), keeps_unusual_(keeps_unusual) {}

  // The first text that is not one that a writer writes: kSchema at "provenance/options/NAME".
  Result<void> finish() const {
    if (fault_.empty()) return {};
    return fail(ErrorCode::kSchema, "provenance/options/" + fault_,
                "not a value that this program writes", "leave it out, or plan again");
  }

  template <class T>
  void stated(const char* name, T& value) {
    const std::string* text = find(name);
    if (text != nullptr && !read_record(*text, value)) refuse(name);
  }
  template <class T>
  void stated(const char* name, std::optional<T>& value) {
    if (find(name) != nullptr) stated(name, value.emplace());
  }
  template <class T>
  void unusual(const char* name, T& value, const T& usual = T()) {
    if (!keeps_unusual_ || value == usual) stated(name, value);
  }
  template <class T>
  void named(const char* name, T& value, const Names<T>& names) {
    const std::string* text = find(name);
    if (text == nullptr) return;
    const auto known = std::find_if(names.begin(), names.end(),
                                    [&](const auto& entry) { return entry.first == *text; });
    if (known == names.end()) return refuse(name);
    value = known->second;
  }
  template <class T, class Write, class Read>
  void as(const char* name, T& value, const Write&, const Read& read_text) {
    const std::string* text = find(name);
    if (text == nullptr) return;
    Result<T> made = read_text(*text);
    if (!made) return refuse(name);
    value = *std::move(made);
  }
  template <class T, class Write, class Read>
  void as(const char* name, std::optional<T>& value, const Write& write, const Read& read_text) {
    if (find(name) != nullptr) as(name, value.emplace(), write, read_text);
  }
  void by_class(const std::string& name, std::vector<std::string>& list) {
    if (keeps_unusual_ && !list.empty()) return;
    list.clear();
    for (const auto& [key, text] : texts_) {
      const bool has_class = key.starts_with(name + "/");
      if (key != name && !has_class) continue;
      const std::string prefix = has_class ? key.substr(name.size() + 1) + "=" : "";
      for (const std::string& word : split_record(text)) list.push_back(prefix + word);
    }
  }

 private:
  const std::string* find(const char* name) const {
    const auto found = texts_.find(name);
    return found == texts_.end() ? nullptr : &found->second;
  }
  void refuse(const char* name) {
    if (fault_.empty()) fault_ = name;
  }

  const OptionTexts& texts_;
  bool keeps_unusual_;
  std::string fault_;  // name
};

}  // namespace plimsoll
