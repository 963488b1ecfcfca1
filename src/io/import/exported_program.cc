#include "io/import/exported_program.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <deque>
#include <set>
#include <unordered_map>
#include <unordered_set>

#include "io/import/aten_operators.h"
#include "io/import/tensor_value.h"
#include "io/import/zip_archive.h"
#include "io/json/json_reader.h"

namespace plimsoll::io {
namespace {

using partition::OperatorNode;
using partition::OpKind;

// torch's codes of scalar types, by name and width.
const DtypeInfo* find_dtype(std::int64_t code) {
  struct Entry {
    std::int64_t code = 0;
    DtypeInfo info;
  };
  static constexpr std::array kDtypes = {
      Entry{1, {"uint8", 8}},
      Entry{2, {"int8", 8}},
      Entry{3, {"int16", 16}},
      Entry{4, {"int32", 32}},
      Entry{5, {"int64", 64}},
      Entry{6, {"float16", 16, true}},
      Entry{7, {"float32", 32, true}},
      Entry{8, {"float64", 64, true}},
      Entry{9, {"complex32", 32, true}},
      Entry{10, {"complex64", 64, true}},
      Entry{11, {"complex128", 128, true}},
      Entry{12, {"bool", 8}},
      Entry{13, {"bfloat16", 16, true}},
      Entry{28, {"uint16", 16}},
      Entry{29, {"float8_e4m3fn", 8, true}},
      Entry{30, {"float8_e5m2", 8, true}},
      Entry{31, {"float8_e4m3fnuz", 8, true}},
      Entry{32, {"float8_e5m2fnuz", 8, true}},
      Entry{33, {"float8_e8m0fnu", 8, true}},
      Entry{34, {"uint32", 32}},
      Entry{35, {"uint64", 64}},
  };
  const auto found = std::find_if(kDtypes.begin(), kDtypes.end(),
                                  [code](const Entry& entry) { return entry.code == code; });
  return found == kDtypes.end() ? nullptr : &found->info;
}

// A walk over JSON of which only a part is known. Each function is false with the error recorded.
template <class Visit>
bool with_member(const Cursor& object, std::string_view key, Visit visit) {
  const JsonValue* value = object.value.find(key);
  if (value == nullptr) {
    return object.fail(ErrorCode::kSchema, fmt::format("the key '{}' is missing", key),
                       "give the whole file, as torch.export.save wrote it");
  }
  const Place place{&object.place, key, {}};
  return visit(Cursor{*value, place, object.context});
}

bool is_absent(const Cursor& object, std::string_view key) {
  const JsonValue* value = object.value.find(key);
  return value == nullptr || value->as<JsonValue::Null>() != nullptr;
}

template <class Visit>
bool for_each_entry(const Cursor& array, Visit visit) {
  const auto* entries = array.value.as<JsonValue::Array>();
  if (entries == nullptr) return array.fail_kind("an array");
  for (std::size_t i = 0; i < entries->size(); ++i) {
    const Place place{&array.place, {}, i};
    if (!visit(Cursor{(*entries)[i], place, array.context})) return false;
  }
  return true;
}

template <class Visit>
bool for_each_member(const Cursor& object, Visit visit) {
  const auto* members = object.value.as<JsonValue::Object>();
  if (members == nullptr) return object.fail_kind("an object");
  for (const JsonMember& member : *members) {
    const Place place{&object.place, member.key, {}};
    if (!visit(std::string_view(member.key), Cursor{member.value, place, object.context})) {
      return false;
    }
  }
  return true;
}

bool read_text(const Cursor& object, std::string_view key, std::string& out) {
  return with_member(object, key, [&](const Cursor& c) { return read(c, out, kAnyValue); });
}

// "__main__.Net" of "...": the FQN of the last "key,FQN,class".
std::string innermost_module(std::string_view stack) {
  stack.remove_prefix(std::min(stack.size(), stack.rfind(';') + 1));
  const std::size_t first = stack.find(',');
  if (first == std::string_view::npos) return {};
  stack.remove_prefix(first + 1);
  std::string_view fqn = stack.substr(0, stack.find(','));
  for (const std::string_view prefix : {"L['self'].", "L['fn']."}) {
    if (fqn.starts_with(prefix)) fqn.remove_prefix(prefix.size());
  }
  return std::string(fqn);
}

class ProgramReader {
 public:
  // `file_of`: the archive's file of each weight, by FQN.
  ProgramReader(std::string_view place, std::unordered_map<std::string, std::string> file_of)
      : context_{place, {}}, file_of_(std::move(file_of)) {}

  Result<ImportedGraph> read_all(const JsonValue& root) {
    const Place place;
    const Cursor program{root, place, context_};
    const bool is_read = with_member(program, "graph_module", [&](const Cursor& module) {
      return with_member(module, "graph", [&](const Cursor& graph) {
        return with_member(module, "signature",
                           [&](const Cursor& signature) { return read_graph(graph, signature); });
      });
    });
    if (!is_read) return tl::unexpected<Error>(*std::move(context_.error));
    if (auto valid = partition::validate(result_.graph); !valid) {
      Error error = valid.error();
      error.message = error.place + ": " + error.message;
      error.place = document_place(context_.file, "/graph_module/graph");
      return tl::unexpected<Error>(std::move(error));
    }
    return std::move(result_);
  }

 private:
  // One value of the graph: who gives it, and its shape.
  struct Value {
    int node = -1;
    const TensorValue* tensor = nullptr;
  };

  bool read_graph(const Cursor& graph, const Cursor& signature) {
    return with_member(graph, "tensor_values",
                       [&](const Cursor& values) { return read_tensor_values(values); }) &&
           with_member(signature, "input_specs",
                       [&](const Cursor& specs) {
                         return for_each_entry(
                             specs, [&](const Cursor& spec) { return read_input_spec(spec); });
                       }) &&
           with_member(graph, "inputs",
                       [&](const Cursor& inputs) {
                         return for_each_entry(
                             inputs, [&](const Cursor& input) { return add_input(input); });
                       }) &&
           with_member(graph, "nodes",
                       [&](const Cursor& nodes) {
                         return for_each_entry(
                             nodes, [&](const Cursor& node) { return add_operator(node); });
                       }) &&
           with_member(graph, "outputs",
                       [&](const Cursor& outputs) { return add_output(outputs); });
  }

  void warn(std::string code, const Cursor& cursor, std::string message) {
    if (!warned_.insert(code + message).second) return;
    result_.warnings.push_back({std::move(code),
                                document_place(context_.file, pointer_of(cursor.place)),
                                std::move(message)});
  }

  bool read_tensor_values(const Cursor& values) {
    return for_each_member(values, [&](std::string_view name, const Cursor& meta) {
      tensors_.emplace_back();
      tensor_of_.emplace(name, &tensors_.back());
      return read_tensor(meta, tensors_.back());
    });
  }

  bool read_tensor(const Cursor& meta, TensorValue& tensor) {
    std::int64_t code = 0;
    if (!with_member(meta, "dtype", [&](const Cursor& c) { return read(c, code, kNonNegative); }) ||
        !with_member(meta, "sizes", [&](const Cursor& c) { return read_sizes(c, tensor.sizes); })) {
      return false;
    }
    if (!is_absent(meta, "strides") && !with_member(meta, "strides", [&](const Cursor& c) {
          return read_sizes(c, tensor.strides);
        })) {
      return false;
    }
    const DtypeInfo* dtype = find_dtype(code);
    constexpr int kUnknownBits = 8;
    if (dtype == nullptr) {
      warn("unknown_dtype", meta,
           fmt::format("the scalar type {} is not supported; counted as one byte", code));
    } else {
      tensor.dtype = dtype->name;
    }
    const auto bytes = find_bytes(tensor.sizes, dtype == nullptr ? kUnknownBits : dtype->bits);
    if (!bytes) {
      return meta.fail(ErrorCode::kOverflow, "the tensor's bytes do not fit in 63 bits",
                       "give smaller sizes");
    }
    tensor.bytes = *bytes;
    return true;
  }

  bool read_sizes(const Cursor& list, std::vector<std::int64_t>& sizes) {
    return for_each_entry(
        list, [&](const Cursor& entry) { return read_size(entry, sizes.emplace_back()); });
  }

  bool read_size(const Cursor& entry, std::int64_t& size) {
    if (entry.value.find("as_int") != nullptr) {
      return with_member(entry, "as_int",
                         [&](const Cursor& c) { return read(c, size, kNonNegative); });
    }
    return with_member(entry, "as_expr", [&](const Cursor& expression) {
      std::string text;
      if (!read_text(expression, "expr_str", text)) return false;
      const std::size_t first = text.find('\'');
      const std::size_t last = first == std::string::npos ? first : text.find('\'', first + 1);
      const std::string symbol =
          last == std::string::npos ? text : text.substr(first + 1, last - first - 1);
      if (is_absent(expression, "hint")) {
        size = 1;
        warn("symbolic_size", entry,
             fmt::format("a size of '{}' has no hint: it counts as 1", symbol));
        return true;
      }
      const bool is_read = with_member(expression, "hint", [&](const Cursor& hint) {
        return with_member(hint, "as_int",
                           [&](const Cursor& c) { return read(c, size, kNonNegative); });
      });
      if (is_read && symbols_.insert(symbol).second) {
        const std::string value = std::to_string(size);
        warn("symbolic_size", entry,
             "sizes of '" + symbol + "' count as their hints, here " + value);
      }
      return is_read;
    });
  }

  bool read_input_spec(const Cursor& spec) {
    return for_each_member(spec, [&](std::string_view kind, const Cursor& body) {
      const bool is_parameter = kind == "parameter";
      const bool is_buffer = kind == "buffer" || kind == "tensor_constant";
      if (!is_parameter && !is_buffer) return true;
      std::string value;
      std::string fqn;
      if (!with_member(body, "arg",
                       [&](const Cursor& arg) { return read_text(arg, "name", value); }) ||
          !read_text(body, std::string(kind) + "_name", fqn)) {
        return false;
      }
      weights_[value] = {fqn, is_parameter};
      return true;
    });
  }

  // Gives the node a name that no other has.
  std::string unique_name(std::string name) {
    if (name.empty()) name = "node";
    std::string candidate = name;
    for (int i = 1; !names_.insert(candidate).second; ++i) {
      candidate = name + "_" + std::to_string(i);
    }
    return candidate;
  }

  const TensorValue* find_tensor(const std::string& name) const {
    const auto found = tensor_of_.find(name);
    return found == tensor_of_.end() ? nullptr : found->second;
  }

  bool define(const Cursor& cursor, const std::string& name, int node) {
    if (!values_.emplace(name, Value{node, find_tensor(name)}).second) {
      return cursor.fail(ErrorCode::kConflict, "the value '" + name + "' is given twice",
                         "give every value its own name");
    }
    return true;
  }

  bool add_input(const Cursor& input) {
    std::vector<std::string> names;
    if (!collect_names(input, names)) return false;
    for (const std::string& name : names) {
      OperatorNode node;
      node.name = unique_name(name);
      node.op = OpKind::kPlaceholder;
      node.target = name;
      if (const TensorValue* tensor = find_tensor(name)) {
        node.output_bytes = tensor->bytes;
        node.dtype = tensor->dtype;
      }
      const int index = result_.graph.num_nodes();
      if (const auto weight = weights_.find(name); weight != weights_.end()) {
        node.op = OpKind::kGetAttr;
        node.target = weight->second.fqn;
        node.is_parameter = weight->second.is_parameter;
        node.is_buffer = !weight->second.is_parameter;
        tie(weight->second.fqn, index, node.output_bytes);
      }
      if (!define(input, name, index)) return false;
      result_.graph.nodes.push_back(std::move(node));
    }
    return true;
  }

  // Weights that lie in one file of the archive, and are of one size, are one tensor.
  void tie(const std::string& fqn, int node, Bytes bytes) {
    const auto file = file_of_.find(fqn);
    if (file == file_of_.end()) return;
    const auto [first, is_new] = first_in_file_.emplace(file->second, node);
    if (!is_new && result_.graph.nodes[first->second].output_bytes == bytes) {
      result_.graph.ties.emplace_back(first->second, node);
    }
  }

  // The names of the values in an argument or an output, a union of one key.
  bool collect_names(const Cursor& argument, std::vector<std::string>& names) {
    if (argument.value.as<JsonValue::Null>() != nullptr) return true;
    return for_each_member(argument, [&](std::string_view kind, const Cursor& body) {
      static const std::unordered_set<std::string_view> kScalars = {
          "as_none",        "as_int",           "as_ints",     "as_float",   "as_floats",
          "as_bool",        "as_bools",         "as_string",   "as_strings", "as_device",
          "as_scalar_type", "as_memory_format", "as_layout",   "as_graph",   "as_custom_obj",
          "as_operator",    "as_complex",       "as_int_lists"};
      const auto add_name = [&](const Cursor& c) {
        return read_text(c, "name", names.emplace_back());
      };
      const auto add_symbol = [&](const Cursor& c) {
        return is_absent(c, "as_name") || read_text(c, "as_name", names.emplace_back());
      };
      const auto add_nested = [&](const Cursor& c) { return collect_names(c, names); };
      if (kind == "as_tensor") return add_name(body);
      if (kind == "as_tensors") return for_each_entry(body, add_name);
      if (kind == "as_nested_tensors") {
        return for_each_entry(body,
                              [&](const Cursor& list) { return for_each_entry(list, add_name); });
      }
      if (kind == "as_optional_tensor") return add_nested(body);
      if (kind == "as_optional_tensors") return for_each_entry(body, add_nested);
      if (kind == "as_sym_int" || kind == "as_sym_bool" || kind == "as_sym_float") {
        return add_symbol(body);
      }
      if (kind == "as_sym_ints" || kind == "as_sym_bools" || kind == "as_sym_floats") {
        return for_each_entry(body, add_symbol);
      }
      if (kScalars.count(kind) == 0) {
        warn("unknown_argument", argument,
             fmt::format("arguments of the kind '{}' are not supported; ignored", kind));
      }
      return true;
    });
  }

  bool add_operator(const Cursor& entry) {
    OperatorNode node;
    std::string module_stack;
    if (!read_text(entry, "target", node.target)) return false;
    for (const std::string_view prefix : {"torch.ops.", "_operator.", "torch._ops."}) {
      if (node.target.starts_with(prefix)) node.target.erase(0, prefix.size());
    }
    if (!is_absent(entry, "metadata")) {
      const bool is_read = with_member(entry, "metadata", [&](const Cursor& metadata) {
        return is_absent(metadata, "nn_module_stack") ||
               read_text(metadata, "nn_module_stack", module_stack);
      });
      if (!is_read) return false;
    }
    node.module = innermost_module(module_stack);
    AtenCall call;
    if (!with_member(entry, "inputs",
                     [&](const Cursor& inputs) { return read_inputs(inputs, node, call); })) {
      return false;
    }
    call.target = node.target;
    return with_member(entry, "outputs", [&](const Cursor& outputs) {
      return add_outputs(entry, outputs, std::move(node), call);
    });
  }

  bool read_inputs(const Cursor& inputs, OperatorNode& node, AtenCall& call) {
    return for_each_entry(inputs, [&](const Cursor& input) {
      std::string name;
      if (!is_absent(input, "name") && !read_text(input, "name", name)) return false;
      return with_member(input, "arg", [&](const Cursor& argument) {
        if (const JsonValue* flag = argument.value.find("as_bool")) {
          const bool is_set = flag->as<bool>() != nullptr && *flag->as<bool>();
          if (name == "train" || name == "training") call.is_training = is_set;
          if (name == "transposed") call.is_transposed = is_set;
        }
        std::vector<std::string> names;
        if (!collect_names(argument, names)) return false;
        return std::all_of(names.begin(), names.end(), [&](const std::string& value) {
          return add_read(argument, value, node, call);
        });
      });
    });
  }

  bool add_read(const Cursor& argument, const std::string& name, OperatorNode& node,
                AtenCall& call) {
    const auto found = values_.find(name);
    if (found == values_.end()) {
      return argument.fail(ErrorCode::kValue, "no earlier node gives the value '" + name + "'",
                           "give the nodes in topological order");
    }
    const Value& value = found->second;
    if (value.tensor != nullptr) call.inputs.push_back(value.tensor);
    if (std::find(node.inputs.begin(), node.inputs.end(), value.node) == node.inputs.end()) {
      node.inputs.push_back(value.node);
    }
    return true;
  }

  bool add_outputs(const Cursor& entry, const Cursor& outputs, OperatorNode node, AtenCall& call) {
    std::vector<std::string> names;
    bool is_list = false;
    const bool is_read = for_each_entry(outputs, [&](const Cursor& output) {
      is_list = is_list || output.value.find("as_tensors") != nullptr ||
                output.value.find("as_optional_tensors") != nullptr;
      return collect_names(output, names);
    });
    if (!is_read) return false;
    // A higher-order operator gives a tuple, of one value too, unless the file says otherwise.
    const JsonValue* is_single = entry.value.find("is_hop_single_tensor_return");
    const bool* const is_tensor = is_single != nullptr ? is_single->as<bool>() : nullptr;
    const bool is_tuple = is_tensor != nullptr && !*is_tensor && !names.empty();
    const bool has_parts = is_list || is_tuple || names.size() > 1;
    for (const std::string& name : names) {
      const TensorValue* tensor = find_tensor(name);
      if (tensor == nullptr) continue;
      call.outputs.push_back(tensor);
      if (node.dtype.empty()) node.dtype = tensor->dtype;
      node.output_bytes += tensor->bytes;
      if (node.output_bytes < 0 || node.output_bytes > kMaxBytes) {
        return entry.fail(ErrorCode::kOverflow, "the operator's outputs do not fit in 62 bits",
                          "give smaller sizes");
      }
    }
    if (call.outputs.empty() && !names.empty()) node.output_bytes = kScalarBytes;
    std::string own_name;
    if (!is_absent(entry, "name") && !read_text(entry, "name", own_name)) return false;
    if (own_name.empty())
      own_name = has_parts || names.empty() ? short_name(node.target) : names[0];
    node.name = unique_name(own_name);
    node.is_mutating = !node.inputs.empty() && partition::is_mutating_target(node.target);
    node.is_view = !node.is_mutating && is_view(call);
    if (!node.is_view) {
      node.flops = flops_of(call);
      node.bytes_moved = bytes_moved_by(call);
    }
    const int index = result_.graph.num_nodes();
    const std::string module = node.module;
    result_.graph.nodes.push_back(std::move(node));
    for (const std::string& name : names) {
      if (!has_parts) {
        if (!define(entry, name, index)) return false;
        continue;
      }
      if (!define(entry, name, result_.graph.num_nodes())) return false;
      OperatorNode part;
      part.name = unique_name(name);
      part.target = "getitem";
      part.module = module;
      part.inputs = {index};
      part.is_view = true;
      if (const TensorValue* tensor = find_tensor(name)) {
        part.output_bytes = tensor->bytes;
        part.dtype = tensor->dtype;
      }
      result_.graph.nodes.push_back(std::move(part));
    }
    return true;
  }

  bool add_output(const Cursor& outputs) {
    OperatorNode node;
    AtenCall call;
    node.op = OpKind::kOutput;
    node.name = unique_name("output");
    node.target = "output";
    const bool is_read = for_each_entry(outputs, [&](const Cursor& output) {
      std::vector<std::string> names;
      if (!collect_names(output, names)) return false;
      return std::all_of(names.begin(), names.end(), [&](const std::string& name) {
        return add_read(output, name, node, call);
      });
    });
    if (is_read) result_.graph.nodes.push_back(std::move(node));
    return is_read;
  }

  // "chunk" of "aten.chunk.default", as torch names a node.
  static std::string short_name(std::string_view target) {
    const std::size_t first = target.find('.');
    if (first == std::string_view::npos) return std::string(target);
    target.remove_prefix(first + 1);
    return std::string(target.substr(0, target.find('.')));
  }

  static constexpr Bytes kMaxBytes = Bytes{1} << 62;
  static constexpr Bytes kScalarBytes = 8;  // a symbolic number

  struct Weight {
    std::string fqn;
    bool is_parameter = false;
  };

  ReadContext context_;
  std::unordered_map<std::string, std::string> file_of_;
  std::unordered_map<std::string, int> first_in_file_;
  std::deque<TensorValue> tensors_;
  std::unordered_map<std::string, const TensorValue*> tensor_of_;
  std::unordered_map<std::string, Weight> weights_;  // by the placeholder's name
  std::unordered_map<std::string, Value> values_;
  std::unordered_set<std::string> names_, symbols_;
  std::set<std::string> warned_;
  ImportedGraph result_;
};

// The entry that holds the program.
Result<std::string> find_program(const ZipArchive& archive, const std::string& file) {
  constexpr std::string_view kOld = "serialized_exported_program.json";
  std::vector<std::string> found;
  for (const std::string& name : archive.names()) {
    const std::size_t slash = name.rfind('/');
    const std::string_view folder =
        slash == std::string::npos ? std::string_view() : std::string_view(name).substr(0, slash);
    const bool is_model = (folder == "models" || folder.ends_with("/models")) &&
                          name.ends_with(".json") && folder.find("/models/") == folder.npos;
    if (is_model || std::string_view(name).substr(slash + 1) == kOld) found.push_back(name);
  }
  if (found.empty()) {
    return fail(ErrorCode::kSchema, file, "is a zip archive without an exported program",
                "give what torch.export.save wrote");
  }
  if (found.size() > 1) {
    return fail(ErrorCode::kConflict, file,
                "holds several models: " + found[0] + " and " + found[1],
                "save one exported program in a file");
  }
  return found[0];
}

// Which file of the archive each weight lies in; empty where the archive does not say.
Result<std::unordered_map<std::string, std::string>> read_weight_files(const ZipArchive& archive,
                                                                       const std::string& program) {
  std::unordered_map<std::string, std::string> file_of;
  const std::size_t models = program.rfind("models/");
  const std::size_t dot = program.rfind(".json");
  if (models == std::string::npos || dot == std::string::npos) return file_of;
  constexpr std::size_t kModelsLength = 7;
  const std::string stem = program.substr(models + kModelsLength, dot - models - kModelsLength);
  const std::string config =
      program.substr(0, models) + "data/weights/" + stem + "_weights_config.json";
  const auto& names = archive.names();
  if (std::find(names.begin(), names.end(), config) == names.end()) return file_of;
  PLIMSOLL_ASSIGN(const std::string text, archive.read(config));
  const std::string place = archive.place_of(config);
  PLIMSOLL_ASSIGN(const JsonValue root, parse_json(text, place));
  ReadContext context{place, {}};
  const Place top;
  const bool is_read = with_member(Cursor{root, top, context}, "config", [&](const Cursor& list) {
    return for_each_member(list, [&](std::string_view fqn, const Cursor& weight) {
      return read_text(weight, "path_name", file_of[std::string(fqn)]);
    });
  });
  if (!is_read) return tl::unexpected<Error>(*std::move(context.error));
  return file_of;
}

Result<ImportedGraph> read_archive(const ZipArchive& archive, const std::string& file) {
  PLIMSOLL_ASSIGN(const std::string program, find_program(archive, file));
  PLIMSOLL_ASSIGN(auto file_of, read_weight_files(archive, program));
  PLIMSOLL_ASSIGN(const std::string text, archive.read(program));
  const std::string place = archive.place_of(program);
  PLIMSOLL_ASSIGN(const JsonValue root, parse_json(text, place));
  PLIMSOLL_ASSIGN(ImportedGraph result, ProgramReader(place, std::move(file_of)).read_all(root));
  const std::size_t slash = program.find('/');
  if (slash != std::string::npos) result.graph.name = program.substr(0, slash);
  return result;
}

}  // namespace

Result<ImportedGraph> read_exported_program_file(const std::string& path) {
  PLIMSOLL_ASSIGN(const ZipArchive archive, ZipArchive::open_file(path));
  return read_archive(archive, path);
}

Result<ImportedGraph> read_exported_program(std::string_view bytes, std::string_view file) {
  PLIMSOLL_ASSIGN(const ZipArchive archive, ZipArchive::open(bytes, file));
  return read_archive(archive, std::string(file));
}

}  // namespace plimsoll::io
