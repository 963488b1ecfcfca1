#include "io/documents/operator_graph_json.h"

#include <fmt/format.h>

#include <algorithm>
#include <unordered_map>

#include "core/check.h"
#include "core/suggest.h"
#include "io/documents/descriptions.h"
#include "io/json/json_writer.h"

namespace plimsoll::io {

using partition::OperatorGraph;
using partition::OperatorNode;

// Rows stay in the tree, which outlives the document.
struct RawRows {
  const JsonValue::Array* rows = nullptr;
};

bool read(const Cursor& cursor, RawRows& out, const Rule& /*rule*/) {
  out.rows = cursor.value.as<JsonValue::Array>();
  return out.rows != nullptr || cursor.fail_kind("an array");
}

namespace {

constexpr std::string_view kFormat = "plimsoll-fx-graph";
constexpr std::string_view kTimePrefix = "ms_";

struct Flag {
  std::string_view name;
  int bit;
};
constexpr Flag kParameter{"parameter", 1};
constexpr Flag kBuffer{"buffer_or_constant", 2};
constexpr Flag kView{"view", 4};
constexpr Flag kBackward{"backward", 8};
constexpr Flag kTied{"tied", 16};
constexpr Flag kMutating{"mutating", 32};
constexpr std::array kFlagBits = {kParameter, kBuffer, kView, kBackward, kTied, kMutating};
constexpr int kAllFlags = 63;

}  // namespace

struct GraphDocument {
  std::string format;
  int version = 0;
  std::string name;
  JsonValue source, units;  // for people
  std::string names;        // for people
  std::vector<std::string> fields;
  std::map<std::string, int> flag_bits;
  std::vector<std::pair<int, int>> ties;
  std::vector<std::string> targets, modules, dtypes;
  RawRows rows;
};

template <class Fields, SameAs<GraphDocument> T>
void describe(Fields& fields, T& document) {
  fields.required("format", document.format);
  fields.required("version", document.version);
  fields.stated("name", document.name);
  fields.optional("source", document.source);
  fields.required("fields", document.fields);
  fields.optional("flag_bits", document.flag_bits);
  fields.optional("ties", document.ties);
  fields.required("targets", document.targets);
  fields.optional("modules", document.modules);
  fields.optional("dtypes", document.dtypes);
  fields.optional("units", document.units);
  fields.optional("names", document.names);
  fields.required("rows", document.rows);
}

namespace {

class GraphReader {
 public:
  GraphReader(const GraphDocument& document, std::string_view file)
      : document_(document), file_(file), context_{file, {}} {}

  Result<OperatorGraph> read_all() {
    PLIMSOLL_RETURN_IF_ERROR(check_head());
    PLIMSOLL_RETURN_IF_ERROR(read_columns());
    graph_.name = document_.name;
    graph_.ties = document_.ties;
    const JsonValue::Array& rows = *document_.rows.rows;
    graph_.nodes.reserve(rows.size());
    is_tied_.reserve(rows.size());
    const Place root;
    const Place list{&root, "rows", {}};
    for (std::size_t i = 0; i < rows.size(); ++i) {
      const Place place{&list, {}, i};
      if (!read_row(Cursor{rows[i], place, context_})) {
        return tl::unexpected<Error>(*std::move(context_.error));
      }
    }
    if (auto valid = partition::validate(graph_); !valid) {
      Error error = valid.error();
      error.message = error.place + ": " + error.message;
      error.place = document_place(file_, "");
      return tl::unexpected<Error>(std::move(error));
    }
    PLIMSOLL_RETURN_IF_ERROR(check_tied());
    return std::move(graph_);
  }

 private:
  enum class Column {
    kName,
    kOp,
    kTarget,
    kInputs,
    kOutputSize,
    kModule,
    kDtype,
    kFlops,
    kBytesMoved,
    kMemory,
    kFlags,
    kTime,
  };

  Result<void> check_head() const {
    if (document_.format != kFormat) {
      return fail(ErrorCode::kSchema, document_place(file_, "/format"),
                  "'" + document_.format + "' is not a format that Plimsoll reads",
                  fmt::format("give \"{}\"", kFormat));
    }
    if (document_.version != 1) {
      return fail(ErrorCode::kSchema, document_place(file_, "/version"),
                  "version " + std::to_string(document_.version) + " is not supported",
                  "write version 1");
    }
    for (const auto& [name, bit] : document_.flag_bits) {
      const auto found = std::find_if(kFlagBits.begin(), kFlagBits.end(),
                                      [&key = name](const Flag& flag) { return flag.name == key; });
      if (found == kFlagBits.end() || found->bit != bit) {
        return fail(ErrorCode::kValue, document_place(file_, "/flag_bits/" + escape_pointer(name)),
                    std::to_string(bit) + " is not what this flag means here",
                    "write the flags of version 1");
      }
    }
    return {};
  }

  Result<void> read_columns() {
    static const std::vector<std::string> kNames = {
        "name",  "op",    "target", "inputs",      "output_size", "module",
        "dtype", "flops", "flags",  "bytes_moved", "memory"};
    static constexpr std::array kColumns = {
        Column::kName,       Column::kOp,         Column::kTarget, Column::kInputs,
        Column::kOutputSize, Column::kModule,     Column::kDtype,  Column::kFlops,
        Column::kFlags,      Column::kBytesMoved, Column::kMemory};
    constexpr std::size_t kNumRequired = 5;
    for (std::size_t i = 0; i < document_.fields.size(); ++i) {
      const std::string& field = document_.fields[i];
      const std::string place = document_place(file_, "/fields/" + std::to_string(i));
      if (std::find(document_.fields.begin(), document_.fields.end(), field) !=
          document_.fields.begin() + static_cast<std::ptrdiff_t>(i)) {
        return fail(ErrorCode::kConflict, place, "'" + field + "' occurs twice",
                    "name each column once");
      }
      if (field.size() > kTimePrefix.size() && field.starts_with(kTimePrefix)) {
        columns_.push_back(Column::kTime);
        graph_.time_columns.push_back(field.substr(kTimePrefix.size()));
        continue;
      }
      const auto found = std::find(kNames.begin(), kNames.end(), field);
      if (found == kNames.end()) {
        return fail(ErrorCode::kSchema, place, "unknown column '" + field + "'",
                    suggest(field, kNames));
      }
      columns_.push_back(kColumns[static_cast<std::size_t>(found - kNames.begin())]);
    }
    for (std::size_t i = 0; i < kNumRequired; ++i) {
      if (std::find(document_.fields.begin(), document_.fields.end(), kNames[i]) ==
          document_.fields.end()) {
        return fail(ErrorCode::kSchema, document_place(file_, "/fields"),
                    "the column '" + kNames[i] + "' is missing", "give it");
      }
    }
    return {};
  }

  bool read_row(const Cursor& cursor) {
    const auto* row = cursor.value.as<JsonValue::Array>();
    if (row == nullptr || row->size() != columns_.size()) {
      return cursor.fail_kind(
          fmt::format("an array of {} entries, one for each field", columns_.size()));
    }
    OperatorNode& node = graph_.nodes.emplace_back();
    node.time_ms.reserve(graph_.time_columns.size());
    is_tied_.push_back(false);
    for (std::size_t i = 0; i < columns_.size(); ++i) {
      const Place place{&cursor.place, {}, i};
      if (!read_entry(Cursor{(*row)[i], place, context_}, columns_[i], node)) return false;
    }
    node.is_mutating = node.is_mutating || (partition::is_operator(node.op) &&
                                            partition::is_mutating_target(node.target));
    return true;
  }

  bool read_entry(const Cursor& cursor, Column column, OperatorNode& node) {
    constexpr Rule kNullableAmount{.min = 0, .allows_null = true};
    switch (column) {
      case Column::kName: {
        const auto* number = cursor.value.as<std::int64_t>();
        if (number == nullptr) return read(cursor, node.name, kAnyValue);
        if (*number != 0) return cursor.fail_kind("a text, or 0 for \"n<row>\"");
        node.name = "n" + std::to_string(graph_.nodes.size() - 1);
        return true;
      }
      case Column::kOp: {
        std::string_view name;
        if (!read_name(cursor, name)) return false;
        const auto op = partition::find_op_kind(name);
        if (!op) {
          return cursor.fail(ErrorCode::kValue, fmt::format("'{}' is not a kind of node", name),
                             "give placeholder, get_attr, call_function, call_method, call_module "
                             "or output");
        }
        node.op = *op;
        return true;
      }
      case Column::kTarget:
        return read_text(cursor, document_.targets, "targets", node.target);
      case Column::kInputs:
        return read(cursor, node.inputs, kNonNegative);
      case Column::kOutputSize:
        return read(cursor, node.output_bytes, kNonNegative);
      case Column::kModule:
        return read_text(cursor, document_.modules, "modules", node.module);
      case Column::kDtype:
        return read_text(cursor, document_.dtypes, "dtypes", node.dtype);
      case Column::kFlops:
        return read(cursor, node.flops, kNonNegative);
      case Column::kBytesMoved:
        return read(cursor, node.bytes_moved, kNonNegative);
      case Column::kMemory:
        return read(cursor, node.memory, kNullableAmount);
      case Column::kFlags:
        return read_flags(cursor, node);
      case Column::kTime:
        return read(cursor, node.time_ms.emplace_back(), kNullableAmount);
    }
    return false;
  }

  static bool read_text(const Cursor& cursor, const std::vector<std::string>& table,
                        std::string_view name, std::string& out) {
    int index = 0;
    if (!read(cursor, index, kNonNegative)) return false;
    if (static_cast<std::size_t>(index) >= table.size()) {
      return cursor.fail(
          ErrorCode::kValue,
          fmt::format("{} is not an index into the {} {}", index, table.size(), name),
          "give an index below the table's length");
    }
    out = table[static_cast<std::size_t>(index)];
    return true;
  }

  bool read_flags(const Cursor& cursor, OperatorNode& node) {
    int flags = 0;
    if (!read(cursor, flags, kNonNegative)) return false;
    if ((flags & ~kAllFlags) != 0) {
      return cursor.fail(ErrorCode::kValue, fmt::format("{} has flags that are not known", flags),
                         fmt::format("give a sum of {{1, 2, 4, 8, 16, 32}}"));
    }
    const auto has = [flags](const Flag& flag) { return (flags & flag.bit) != 0; };
    node.is_parameter = has(kParameter);
    node.is_buffer = has(kBuffer);
    node.is_view = has(kView);
    node.is_backward = has(kBackward);
    node.is_mutating = has(kMutating);
    is_tied_.back() = has(kTied);
    return true;
  }

  Result<void> check_tied() const {
    std::vector<bool> is_second(graph_.nodes.size());
    for (const auto& tie : graph_.ties) is_second[static_cast<std::size_t>(tie.second)] = true;
    for (std::size_t i = 0; i < is_second.size(); ++i) {
      if (is_second[i] != is_tied_[i]) {
        return fail(ErrorCode::kConflict, document_place(file_, "/rows/" + std::to_string(i)),
                    is_second[i] ? "is tied without the flag for it" : "has no tie for its flag",
                    "let `ties` and the flag 16 agree");
      }
    }
    return {};
  }

  const GraphDocument& document_;
  std::string_view file_;
  ReadContext context_;
  OperatorGraph graph_;
  std::vector<Column> columns_;
  std::vector<bool> is_tied_;  // [num_nodes] as flagged
};

// Texts in order of first use.
class TextTable {
 public:
  std::int64_t index_of(const std::string& text) {
    const auto [entry, is_new] = index_.emplace(text, static_cast<std::int64_t>(texts_.size()));
    if (is_new) texts_.push_back({text});
    return entry->second;
  }
  JsonValue take() { return {std::move(texts_)}; }

 private:
  std::unordered_map<std::string, std::int64_t> index_;
  JsonValue::Array texts_;
};

template <class T>
JsonValue nullable(const std::optional<T>& value) {
  return value ? JsonValue{*value} : JsonValue{};
}

std::int64_t flags_of(const OperatorNode& node, bool is_tied) {
  return (node.is_parameter ? kParameter.bit : 0) | (node.is_buffer ? kBuffer.bit : 0) |
         (node.is_view ? kView.bit : 0) | (node.is_backward ? kBackward.bit : 0) |
         (is_tied ? kTied.bit : 0) | (node.is_mutating ? kMutating.bit : 0);
}

}  // namespace

Result<OperatorGraph> read_operator_graph(std::string_view text, std::string_view file) {
  PLIMSOLL_ASSIGN(const JsonValue root, parse_json(text, file));
  PLIMSOLL_ASSIGN(const GraphDocument document, read_tree<GraphDocument>(root, file));
  return GraphReader(document, file).read_all();
}

std::string write_operator_graph(const OperatorGraph& graph) {
  PLIMSOLL_DCHECK(validate(graph).has_value(), "the graph is valid");
  const bool has_memory = std::any_of(graph.nodes.begin(), graph.nodes.end(),
                                      [](const OperatorNode& node) { return node.memory; });
  JsonValue::Array fields;
  for (const char* field :
       {"name", "op", "target", "module", "inputs", "output_size", "flops", "bytes_moved"}) {
    fields.push_back({std::string(field)});
  }
  for (const std::string& column : graph.time_columns) {
    fields.push_back({std::string(kTimePrefix) + column});
  }
  if (has_memory) fields.push_back({std::string("memory")});
  fields.push_back({std::string("dtype")});
  fields.push_back({std::string("flags")});

  JsonValue::Array ties;
  std::vector<bool> is_tied(graph.nodes.size());
  for (const auto& [first, second] : graph.ties) {
    is_tied[static_cast<std::size_t>(second)] = true;
    ties.push_back({JsonValue::Array{{std::int64_t{first}}, {std::int64_t{second}}}});
  }
  TextTable targets;
  TextTable modules;
  TextTable dtypes;
  JsonValue::Array rows;
  for (std::size_t i = 0; i < graph.nodes.size(); ++i) {
    const OperatorNode& node = graph.nodes[i];
    JsonValue::Array inputs;
    for (const int input : node.inputs) inputs.push_back({std::int64_t{input}});
    JsonValue::Array row = {{node.name},
                            {std::string(partition::to_string(node.op))},
                            {targets.index_of(node.target)},
                            {modules.index_of(node.module)},
                            {std::move(inputs)},
                            {node.output_bytes},
                            {node.flops},
                            {node.bytes_moved}};
    for (const auto& time : node.time_ms) row.push_back(nullable(time));
    if (has_memory) row.push_back(nullable(node.memory));
    row.push_back({dtypes.index_of(node.dtype)});
    row.push_back({flags_of(node, is_tied[i])});
    rows.push_back({std::move(row)});
  }
  JsonValue::Object flag_bits;
  for (const Flag& flag : kFlagBits) {
    flag_bits.push_back({std::string(flag.name), {std::int64_t{flag.bit}}});
  }
  return print_json({JsonValue::Object{{"format", {std::string(kFormat)}},
                                       {"version", {std::int64_t{1}}},
                                       {"name", {graph.name}},
                                       {"fields", {std::move(fields)}},
                                       {"flag_bits", {std::move(flag_bits)}},
                                       {"ties", {std::move(ties)}},
                                       {"targets", targets.take()},
                                       {"modules", modules.take()},
                                       {"dtypes", dtypes.take()},
                                       {"rows", {std::move(rows)}}}});
}

}  // namespace plimsoll::io
