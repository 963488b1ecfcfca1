// A strict JSON reader on nlohmann's event parser, and a printer.
//
// Problem. The parser's own tree takes the last of two equal keys, rounds integers beyond 64 bits
// and has no bound on nesting; a planner must not guess what its input meant. Method. The event
// interface builds our tree and refuses such texts where they occur. The entries of open containers
// lie on two stacks, from which a container that closes takes its own at once; the stacks also give
// the JSON pointer of an error. O(text) time and memory. Promises. No exception but
// std::bad_alloc and no recursion deeper than kMaxDepth, whatever the bytes are.
#include "io/json/json_document.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <iterator>
#include <nlohmann/json.hpp>
#include <unordered_set>
#include <utility>

namespace plimsoll::io {
namespace {

using Json = nlohmann::json;

constexpr std::size_t kLineWidth = 100;

// Objects of at most this many members are searched for a key, larger ones keep a set of theirs.
constexpr std::size_t kFewMembers = 16;

// A container that is still open. What it holds so far lies on the builder's stack of its kind.
struct Frame {
  bool is_object = false;
  std::size_t begin = 0;                 // of its entries on that stack
  std::unordered_set<std::string> keys;  // empty as long as the members are few
};

// Is this UTF-8 (RFC 3629), except for a sequence that the end cuts?
bool is_utf8_so_far(std::string_view text) {
  const auto byte = [&text](std::size_t i) { return static_cast<unsigned char>(text[i]); };
  for (std::size_t i = 0; i < text.size();) {
    const unsigned char lead = byte(i++);
    if (lead < 0x80) continue;
    if (lead < 0xc2 || lead > 0xf4) return false;
    const int num_following = lead < 0xe0 ? 1 : lead < 0xf0 ? 2 : 3;
    for (int k = 0; k < num_following && i < text.size(); ++k, ++i) {
      if ((byte(i) & 0xc0) != 0x80) return false;
      if (k > 0) continue;  // overlong forms, surrogates and what is beyond U+10FFFF
      if ((lead == 0xe0 && byte(i) < 0xa0) || (lead == 0xed && byte(i) > 0x9f) ||
          (lead == 0xf0 && byte(i) < 0x90) || (lead == 0xf4 && byte(i) > 0x8f)) {
        return false;
      }
    }
  }
  return true;
}

class TreeBuilder final : public Json::json_sax_t {
 public:
  TreeBuilder(std::string_view text, std::string_view file) : text_(text), file_(file) {}

  bool null() override { return add({JsonValue::Null{}}); }
  bool boolean(bool value) override { return add({value}); }
  bool number_integer(std::int64_t value) override { return add({value}); }
  bool number_unsigned(std::uint64_t value) override {
    if (value <= static_cast<std::uint64_t>(INT64_MAX)) {
      return add({static_cast<std::int64_t>(value)});
    }
    return add({JsonValue::BigInteger{std::to_string(value)}});
  }
  bool number_float(double value, const std::string& digits) override {
    const bool is_integer = digits.find_first_not_of("-0123456789") == std::string::npos;
    return is_integer ? add({JsonValue::BigInteger{digits}}) : add({value});
  }
  bool string(std::string& value) override { return add({std::move(value)}); }
  bool binary(Json::binary_t& /*value*/) override { return false; }

  bool start_object(std::size_t /*size*/) override { return open({true, members_.size(), {}}); }
  bool key(std::string& key) override {
    const bool is_new = add_key(key);
    members_.push_back({std::move(key), {}});
    if (is_new) return true;
    return refuse(ErrorCode::kSyntax, fmt::format("the key '{}' occurs twice", members_.back().key),
                  "keep one of the two");
  }
  bool end_object() override { return add({take_from<JsonValue::Object>(members_)}); }
  bool start_array(std::size_t /*size*/) override { return open({false, values_.size(), {}}); }
  bool end_array() override { return add({take_from<JsonValue::Array>(values_)}); }

  bool parse_error(std::size_t position, const std::string& /*token*/,
                   const nlohmann::detail::exception& error) override {
    constexpr int kOutOfRange = 406;
    if (error.id == kOutOfRange) {
      return refuse(ErrorCode::kOverflow, "the number does not fit in a double", "");
    }
    // "[json.exception.parse_error.101] parse error at line 1, column 2: ..."
    std::string_view what = error.what();
    if (const auto end = what.find("] "); end != std::string_view::npos)
      what.remove_prefix(end + 2);
    return refuse(ErrorCode::kSyntax, std::string(what), remedy_at(position));
  }

  Result<JsonValue> take() && {
    if (error_) return tl::unexpected<Error>(*std::move(error_));
    return std::move(root_);
  }

  bool refuse(ErrorCode code, std::string message, std::string remedy) {
    error_ =
        Error{code, document_place(file_, pointer()), std::move(message), std::move(remedy), {}};
    return false;
  }

 private:
  bool add(JsonValue value) {
    if (++num_values_ > kMaxValues) {
      return refuse(ErrorCode::kSyntax, fmt::format("more than {} values", kMaxValues),
                    "split the document");
    }
    if (stack_.empty()) {
      root_ = std::move(value);
    } else if (stack_.back().is_object) {
      members_.back().value = std::move(value);
    } else {
      values_.push_back(std::move(value));
    }
    return true;
  }

  // Whether no member of the innermost object has this key so far.
  bool add_key(const std::string& key) {
    Frame& frame = stack_.back();
    const auto first = members_.begin() + static_cast<std::ptrdiff_t>(frame.begin);
    if (members_.size() - frame.begin < kFewMembers) {
      return std::none_of(first, members_.end(),
                          [&](const JsonMember& member) { return member.key == key; });
    }
    if (frame.keys.empty()) {
      for (auto it = first; it != members_.end(); ++it) frame.keys.insert(it->key);
    }
    return frame.keys.insert(key).second;
  }

  bool open(Frame frame) {
    if (stack_.size() >= static_cast<std::size_t>(kMaxDepth)) {
      return refuse(ErrorCode::kSyntax, fmt::format("nested deeper than {} levels", kMaxDepth), "");
    }
    stack_.push_back(std::move(frame));
    return true;
  }

  // The innermost container, in memory of its size; its entries leave their stack.
  template <class Container>
  Container take_from(std::vector<typename Container::value_type>& entries) {
    const auto first = entries.begin() + static_cast<std::ptrdiff_t>(stack_.back().begin);
    Container container(std::make_move_iterator(first), std::make_move_iterator(entries.end()));
    entries.erase(first, entries.end());
    stack_.pop_back();
    return container;
  }

  std::string pointer() const {
    std::vector<std::string> steps;  // innermost first
    std::size_t num_members = members_.size();
    std::size_t num_values = values_.size();
    for (auto frame = stack_.rbegin(); frame != stack_.rend(); ++frame) {
      std::size_t& end = frame->is_object ? num_members : num_values;
      if (!frame->is_object) {
        steps.push_back(fmt::format("/{}", end - frame->begin));
      } else if (end > frame->begin) {
        steps.push_back(fmt::format("/{}", escape_pointer(members_[end - 1].key)));
      }
      end = frame->begin;
    }
    return fmt::format("{}", fmt::join(steps.rbegin(), steps.rend(), ""));
  }

  // By its name, or where it begins as "name: value" does.
  bool is_yaml() const {
    if (file_.ends_with(".yaml") || file_.ends_with(".yml")) return true;
    const std::string_view line = text_.substr(0, text_.find('\n'));
    const std::string_view name = line.substr(0, line.find(':'));
    return line.starts_with("---") || (name.size() < line.size() && !name.empty() &&
                                       std::all_of(name.begin(), name.end(), [](char c) {
                                         return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') ||
                                                c == '_';
                                       }));
  }

  // `position`: characters that were read, the end of the text counting as one.
  std::string remedy_at(std::size_t position) const {
    if (text_.empty()) return "the file is empty";
    if (text_.starts_with("\x1f\x8b")) return "the file is compressed; unpack it by gunzip";
    if (text_.starts_with("PK\x03\x04")) return "this is a zip archive, such as torch.save writes";
    if (is_yaml()) {
      return "YAML is not read; write it as JSON: python3 -c 'import json, sys, yaml; "
             "json.dump(yaml.safe_load(sys.stdin), sys.stdout)' < model.yaml > model.json";
    }
    if (!is_utf8_so_far(text_.substr(0, std::min(position, text_.size())))) {
      return "save the file as UTF-8";
    }
    if (position > text_.size()) return "the text ends too early; is the file complete?";
    constexpr std::size_t kLongestWord = sizeof("-Infinity");
    const std::size_t from = position - std::min(position, kLongestWord);
    const std::string_view around = text_.substr(from, 2 * kLongestWord);
    if (around.find("NaN") != std::string_view::npos ||
        around.find("Infinity") != std::string_view::npos) {
      return "JSON has no NaN and no Infinity; leave the key out";
    }
    return {};
  }

  std::string_view text_;
  std::string_view file_;
  std::vector<Frame> stack_;         // the open containers
  std::vector<JsonMember> members_;  // of all open objects; the last of each may wait for its value
  std::vector<JsonValue> values_;    // of all open arrays
  JsonValue root_;
  std::size_t num_values_ = 0;
  std::optional<Error> error_;
};

bool is_plain(char c) { return c >= ' ' && c <= '~' && c != '"' && c != '\\'; }

void append_quoted(const std::string& text, std::string& out) {
  if (std::all_of(text.begin(), text.end(), is_plain)) {
    out += '"';
    out += text;
    out += '"';
  } else {
    out += Json(text).dump(-1, ' ', false, Json::error_handler_t::replace);
  }
}

struct ScalarPrinter {
  std::string& out;

  void operator()(JsonValue::Null /*null*/) const { out += "null"; }
  void operator()(bool value) const { out += value ? "true" : "false"; }
  void operator()(std::int64_t value) const {
    const fmt::format_int digits(value);
    out.append(digits.data(), digits.size());
  }
  void operator()(const JsonValue::BigInteger& value) const { out += value.digits; }
  void operator()(double value) const {
    if (!std::isfinite(value)) {
      out += "null";
      return;
    }
    // What dump() calls, without a serializer for every number.
    std::array<char, 64> digits{};
    char* const end =
        nlohmann::detail::to_chars(digits.data(), digits.data() + digits.size(), value);
    out.append(digits.data(), end);
  }
  void operator()(const std::string& value) const { append_quoted(value, out); }
  void operator()(const JsonValue::Array& /*array*/) const {}
  void operator()(const JsonValue::Object& /*object*/) const {}
};

bool is_container(const JsonValue& value) {
  return value.as<JsonValue::Array>() != nullptr || value.as<JsonValue::Object>() != nullptr;
}

// Characters that the one-line form has at least.
std::size_t least_width(const JsonValue& value) {
  const auto* object = value.as<JsonValue::Object>();
  if (object == nullptr) return 1;
  std::size_t width = 0;
  for (const JsonMember& member : *object) width += member.key.size() + sizeof(R"("": 1, )") - 1;
  return width;
}

// Appends the one-line form; gives up, leaving a part, once `out` is longer than `limit`.
bool append_compact(const JsonValue& value, std::size_t limit, std::string& out) {
  if (const auto* array = value.as<JsonValue::Array>()) {
    out += '[';
    for (std::size_t i = 0; i < array->size(); ++i) {
      if (i > 0) out += ", ";
      if (!append_compact((*array)[i], limit, out)) return false;
    }
    out += ']';
  } else if (const auto* object = value.as<JsonValue::Object>()) {
    out += '{';
    for (std::size_t i = 0; i < object->size(); ++i) {
      if (i > 0) out += ", ";
      append_quoted((*object)[i].key, out);
      out += ": ";
      if (!append_compact((*object)[i].value, limit, out)) return false;
    }
    out += '}';
  } else {
    std::visit(ScalarPrinter{out}, value.data);
  }
  return out.size() <= limit;
}

class PrettyPrinter {
 public:
  // `column` is where the value starts on its line.
  void print(const JsonValue& value, std::size_t indent, std::size_t column) {
    if (!is_container(value)) {
      std::visit(ScalarPrinter{out_}, value.data);
      return;
    }
    // One column stays free for the comma.
    const std::size_t room = kLineWidth - 1 - std::min(column, kLineWidth - 1);
    if (indent > 0 && least_width(value) <= room) {
      const std::size_t start = out_.size();
      if (append_compact(value, start + room, out_)) return;
      out_.resize(start);
    }
    if (const auto* array = value.as<JsonValue::Array>()) {
      print_array(*array, indent);
    } else {
      print_object(*value.as<JsonValue::Object>(), indent);
    }
  }

  std::string take() && { return std::move(out_); }

 private:
  void print_array(const JsonValue::Array& array, std::size_t indent) {
    const bool is_flat = std::none_of(array.begin(), array.end(), is_container);
    std::size_t line_start = 0;
    out_ += '[';
    for (std::size_t i = 0; i < array.size(); ++i) {
      if (i > 0) out_ += ',';
      const std::size_t before = out_.size();
      if (is_flat && i > 0) {  // Scalars share lines.
        out_ += ' ';
        append_compact(array[i], std::string::npos, out_);
        if (out_.size() - line_start < kLineWidth) continue;
        out_.resize(before);
      }
      out_ += '\n';
      line_start = out_.size();
      out_.append(indent + 1, ' ');
      print(array[i], indent + 1, indent + 1);
    }
    out_ += '\n';
    out_.append(indent, ' ');
    out_ += ']';
  }

  void print_object(const JsonValue::Object& object, std::size_t indent) {
    out_ += '{';
    for (std::size_t i = 0; i < object.size(); ++i) {
      out_ += i > 0 ? ",\n" : "\n";
      out_.append(indent + 1, ' ');
      const std::size_t before = out_.size();
      append_quoted(object[i].key, out_);
      out_ += ": ";
      print(object[i].value, indent + 1, indent + 1 + out_.size() - before);
    }
    out_ += '\n';
    out_.append(indent, ' ');
    out_ += '}';
  }

  std::string out_;
};

}  // namespace

const JsonValue* JsonValue::find(std::string_view key) const {
  const auto* object = as<Object>();
  if (object == nullptr) return nullptr;
  const auto it = std::find_if(object->begin(), object->end(),
                               [&](const JsonMember& member) { return member.key == key; });
  return it == object->end() ? nullptr : &it->value;
}

std::string_view JsonValue::kind() const {
  constexpr std::string_view kKinds[] = {"null",     "a boolean", "an integer", "an integer",
                                         "a number", "a string",  "an array",   "an object"};
  return kKinds[data.index()];
}

Result<JsonValue> parse_json(std::string_view text, std::string_view file) {
  if (text.size() > kMaxFileBytes) {
    return fail(ErrorCode::kIo, std::string(file),
                fmt::format("{} bytes of text; the limit is {}", text.size(), kMaxFileBytes));
  }
  TreeBuilder builder(text, file);
  Json::sax_parse(text.begin(), text.end(), &builder);  // throws only if memory runs out
  return std::move(builder).take();
}

std::string print_json(const JsonValue& value) {
  PrettyPrinter printer;
  printer.print(value, 0, 0);
  return std::move(printer).take() + "\n";
}

std::string print_compact(const JsonValue& value) {
  std::string result;
  append_compact(value, std::string::npos, result);
  return result;
}

std::string document_place(std::string_view file, std::string_view pointer) {
  return fmt::format("{}#{}", file, pointer);
}

std::string escape_pointer(std::string_view key) {
  std::string result;
  for (const char c : key) {
    if (c == '~') {
      result += "~0";
    } else if (c == '/') {
      result += "~1";
    } else {
      result += c;
    }
  }
  return result;
}

}  // namespace plimsoll::io
