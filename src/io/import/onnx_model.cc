#include "io/import/onnx_model.h"

#include <fcntl.h>
#include <google/protobuf/io/zero_copy_stream_impl.h>
#include <google/protobuf/io/zero_copy_stream_impl_lite.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <deque>
#include <functional>
#include <queue>
#include <system_error>
#include <unordered_map>
#include <unordered_set>

#include "io/import/onnx_messages.h"
#include "io/import/onnx_operators.h"
#include "partition/graph/cycle.h"

namespace plimsoll::io {
namespace {

using partition::OperatorNode;
using partition::OpKind;

// TensorProto.DataType, by torch's names where there is one.
const DtypeInfo* find_dtype(std::int64_t code) {
  static constexpr std::array kDtypes = {
      DtypeInfo{},
      DtypeInfo{"float32", 32, true},
      DtypeInfo{"uint8", 8},
      DtypeInfo{"int8", 8},
      DtypeInfo{"uint16", 16},
      DtypeInfo{"int16", 16},
      DtypeInfo{"int32", 32},
      DtypeInfo{"int64", 64},
      DtypeInfo{"string", 8},
      DtypeInfo{"bool", 8},
      DtypeInfo{"float16", 16, true},
      DtypeInfo{"float64", 64, true},
      DtypeInfo{"uint32", 32},
      DtypeInfo{"uint64", 64},
      DtypeInfo{"complex64", 64, true},
      DtypeInfo{"complex128", 128, true},
      DtypeInfo{"bfloat16", 16, true},
      DtypeInfo{"float8_e4m3fn", 8, true},
      DtypeInfo{"float8_e4m3fnuz", 8, true},
      DtypeInfo{"float8_e5m2", 8, true},
      DtypeInfo{"float8_e5m2fnuz", 8, true},
      DtypeInfo{"uint4", 4},
      DtypeInfo{"int4", 4},
      DtypeInfo{"float4_e2m1fn", 4, true},
      DtypeInfo{"float8_e8m0fnu", 8, true},
      DtypeInfo{"uint2", 2},
      DtypeInfo{"int2", 2},
  };
  const auto index = static_cast<std::size_t>(code);
  return code <= 0 || index >= kDtypes.size() ? nullptr : &kDtypes[index];
}

// "c1" of "['', 'c1', 'conv2d_1']": the last entry but one.
std::string module_of_scopes(std::string_view scopes) {
  std::vector<std::string_view> entries;
  while (true) {
    const std::size_t first = scopes.find_first_of("'\"");
    if (first == std::string_view::npos) break;
    const std::size_t last = scopes.find(scopes[first], first + 1);
    if (last == std::string_view::npos) break;
    entries.push_back(scopes.substr(first + 1, last - first - 1));
    scopes.remove_prefix(last + 1);
  }
  return entries.size() < 2 ? std::string() : std::string(entries[entries.size() - 2]);
}

// "layer1.0" of "/layer1/0/Conv"; empty for other names.
std::string module_of_name(std::string_view name) {
  const std::size_t last = name.rfind('/');
  if (name.empty() || name[0] != '/' || last == 0) return {};
  std::string module(name.substr(1, last - 1));
  std::replace(module.begin(), module.end(), '/', '.');
  return module;
}

class GraphBuilder {
 public:
  GraphBuilder(const OnnxGraph& source, std::string_view file) : source_(source), file_(file) {}

  Result<ImportedGraph> build() {
    result_.graph.name = source_.name;
    for (const auto* list : {&source_.inputs, &source_.values, &source_.outputs}) {
      for (const OnnxValueInfo& info : *list) PLIMSOLL_RETURN_IF_ERROR(add_shape(info));
    }
    for (const OnnxTensor& tensor : source_.initializers) {
      PLIMSOLL_RETURN_IF_ERROR(add_weight(tensor.name, tensor));
    }
    for (const OnnxValueInfo& info : source_.inputs) {
      if (values_.count(info.name) == 0) add_placeholder(info.name);
    }
    mark_statistics();
    PLIMSOLL_ASSIGN(const std::vector<int> order, find_order());
    for (const int index : order) {
      PLIMSOLL_RETURN_IF_ERROR(add_node(source_.nodes[static_cast<std::size_t>(index)], index));
    }
    PLIMSOLL_RETURN_IF_ERROR(add_output());
    if (auto valid = partition::validate(result_.graph); !valid) {
      Error error = valid.error();
      error.message = error.place + ": " + error.message;
      error.place = file_;
      return tl::unexpected<Error>(std::move(error));
    }
    return std::move(result_);
  }

 private:
  std::string name_of(int index) const {
    const OnnxNode& node = source_.nodes[static_cast<std::size_t>(index)];
    return "node " + std::to_string(index) + " '" + (node.name.empty() ? node.op_type : node.name) +
           "'";
  }
  std::string place_of(int index) const { return std::string(file_) + ":" + name_of(index); }
  std::string value_place(const std::string& name) const {
    return std::string(file_) + ":value '" + name + "'";
  }

  void warn(std::string code, std::string place, std::string message) {
    result_.warnings.push_back({std::move(code), std::move(place), std::move(message)});
  }

  Result<void> add_tensor(const std::string& name, std::vector<std::int64_t> sizes,
                          std::int64_t elem_type) {
    if (std::any_of(sizes.begin(), sizes.end(), [](std::int64_t size) { return size < 0; })) {
      return fail(ErrorCode::kValue, value_place(name), "has a negative size", "give at least 0");
    }
    const DtypeInfo* dtype = find_dtype(elem_type);
    if (dtype == nullptr && unknown_types_.insert(elem_type).second) {
      warn("unknown_dtype", value_place(name),
           "the element type " + std::to_string(elem_type) +
               " is not supported; counted as one byte");
    }
    constexpr int kUnknownBits = 8;
    const auto bytes = find_bytes(sizes, dtype == nullptr ? kUnknownBits : dtype->bits);
    if (!bytes) {
      return fail(ErrorCode::kOverflow, value_place(name), "its bytes do not fit in 63 bits",
                  "give smaller sizes");
    }
    TensorValue& tensor = tensors_.emplace_back();
    tensor.sizes = std::move(sizes);
    tensor.bytes = *bytes;
    if (dtype != nullptr) tensor.dtype = dtype->name;
    tensor_of_[name] = &tensor;
    return {};
  }

  Result<void> add_shape(const OnnxValueInfo& info) {
    if (info.elem_type == 0 || !info.has_shape) return {};
    std::vector<std::int64_t> sizes;
    for (const OnnxDimension& dimension : info.dimensions) {
      sizes.push_back(dimension.value.value_or(1));
      const std::string symbol = dimension.symbol.empty() ? "?" : dimension.symbol;
      if (!dimension.value && symbols_.insert(symbol).second) {
        warn("symbolic_size", value_place(info.name), "sizes of '" + symbol + "' count as 1");
      }
    }
    return add_tensor(info.name, std::move(sizes), info.elem_type);
  }

  std::string unique_name(const std::string& wanted) {
    const std::string name = wanted.empty() ? "node" : wanted;
    std::string candidate = name;
    for (int i = 1; !names_.insert(candidate).second; ++i) {
      candidate = name + "_" + std::to_string(i);
    }
    return candidate;
  }

  Result<void> define(const std::string& value, int node) {
    if (!values_.emplace(value, node).second) {
      return fail(ErrorCode::kConflict, value_place(value), "is given twice",
                  "give every value its own name");
    }
    return {};
  }

  void set_value(OperatorNode& node, const std::string& value) const {
    const auto tensor = tensor_of_.find(value);
    if (tensor == tensor_of_.end()) return;
    node.output_bytes = tensor->second->bytes;
    node.dtype = tensor->second->dtype;
  }

  Result<void> add_weight(const std::string& name, const OnnxTensor& tensor) {
    PLIMSOLL_RETURN_IF_ERROR(add_tensor(name, tensor.sizes, tensor.data_type));
    if (tensor.is_external && !std::exchange(has_external_, true)) {
      warn("external_data", value_place(name), "weights are in other files, which are not read");
    }
    PLIMSOLL_RETURN_IF_ERROR(define(name, result_.graph.num_nodes()));
    OperatorNode node;
    node.name = unique_name(name);
    node.op = OpKind::kGetAttr;
    node.target = name;
    set_value(node, name);
    if (tensor.index_sizes) {
      constexpr int kIndexBits = 64;
      const auto indices = find_bytes(*tensor.index_sizes, kIndexBits);
      if (!indices || __builtin_add_overflow(node.output_bytes, *indices, &node.output_bytes)) {
        return fail(ErrorCode::kOverflow, value_place(name), "its bytes do not fit in 63 bits",
                    "give smaller sizes");
      }
    }
    const DtypeInfo* dtype = find_dtype(tensor.data_type);
    node.is_parameter =
        dtype != nullptr && dtype->is_floating && tensors_.back().num_elements() > 1;
    node.is_buffer = !node.is_parameter;
    result_.graph.nodes.push_back(std::move(node));
    return {};
  }

  void add_placeholder(const std::string& name) {
    values_.emplace(name, result_.graph.num_nodes());
    OperatorNode node;
    node.name = unique_name(name);
    node.op = OpKind::kPlaceholder;
    node.target = name;
    set_value(node, name);
    result_.graph.nodes.push_back(std::move(node));
  }

  // Running means and variances are not parameters.
  void mark_statistics() {
    for (const OnnxNode& node : source_.nodes) {
      if (node.op_type != "BatchNormalization") continue;
      for (std::size_t i = 3; i < node.inputs.size(); ++i) {
        const auto found = values_.find(node.inputs[i]);
        if (found == values_.end()) continue;
        OperatorNode& weight = result_.graph.nodes[found->second];
        if (std::exchange(weight.is_parameter, false)) weight.is_buffer = true;
      }
    }
  }

  // Nodes after those whose values they read, the first in the file first.
  Result<std::vector<int>> find_order() {
    const auto num_nodes = source_.nodes.size();
    std::unordered_map<std::string_view, int> giver;
    for (std::size_t i = 0; i < num_nodes; ++i) {
      for (const std::string& output : source_.nodes[i].outputs) {
        if (!output.empty()) giver.emplace(output, static_cast<int>(i));
      }
    }
    std::vector<std::vector<int>> readers(num_nodes);
    std::vector<int> num_open(num_nodes);
    for (std::size_t i = 0; i < num_nodes; ++i) {
      const OnnxNode& node = source_.nodes[i];
      for (const auto* list : {&node.inputs, &node.captured}) {
        for (const std::string& input : *list) {
          const auto found = giver.find(input);
          if (found == giver.end()) continue;
          readers[static_cast<std::size_t>(found->second)].push_back(static_cast<int>(i));
          ++num_open[i];
        }
      }
    }
    std::priority_queue<int, std::vector<int>, std::greater<>> ready;
    for (std::size_t i = 0; i < num_nodes; ++i) {
      if (num_open[i] == 0) ready.push(static_cast<int>(i));
    }
    std::vector<int> order;
    while (!ready.empty()) {
      order.push_back(ready.top());
      ready.pop();
      for (const int reader : readers[static_cast<std::size_t>(order.back())]) {
        if (--num_open[static_cast<std::size_t>(reader)] == 0) ready.push(reader);
      }
    }
    if (order.size() == num_nodes) return order;
    std::vector<std::pair<int, int>> edges;
    for (std::size_t i = 0; i < num_nodes; ++i) {
      for (const int reader : readers[i]) edges.emplace_back(static_cast<int>(i), reader);
    }
    const std::vector<int> cycle = partition::find_cycle(static_cast<int>(num_nodes), edges);
    return fail(ErrorCode::kConflict, place_of(cycle.front()),
                "waits for its own value in a cycle: " +
                    partition::cycle_text(cycle, [&](int index) { return name_of(index); }),
                "give a graph without cycles");
  }

  Result<void> add_reads(const OnnxNode& source, int index, OperatorNode& node) {
    for (const std::string& input : source.inputs) {
      if (input.empty()) continue;
      const auto found = values_.find(input);
      if (found == values_.end()) {
        return fail(ErrorCode::kValue, place_of(index), "nobody gives its input '" + input + "'",
                    "give the value as an input, an initializer or an output");
      }
      add_read(node, found->second);
    }
    for (const std::string& captured : source.captured) {
      if (captured.empty()) continue;
      const auto found = values_.find(captured);
      if (found == values_.end()) {
        return fail(ErrorCode::kValue, place_of(index),
                    "nobody gives '" + captured + "', which a subgraph of it reads",
                    "give the value in the subgraph, or outside as an input, an initializer or an "
                    "output");
      }
      add_read(node, found->second);
    }
    return {};
  }

  Result<void> add_node(const OnnxNode& source, int index) {
    if (source.op_type == "Constant" && source.outputs.size() == 1) {
      return add_weight(source.outputs[0],
                        source.tensor.value_or(OnnxTensor{"", 1, {}, false, {}}));
    }
    OperatorNode node;
    OnnxCall call{source, {}, {}};
    PLIMSOLL_RETURN_IF_ERROR(add_reads(source, index, node));
    for (const std::string& input : source.inputs) call.inputs.push_back(find_tensor(input));
    std::vector<std::string> given;
    for (const std::string& output : source.outputs) {
      call.outputs.push_back(find_tensor(output));
      if (output.empty()) continue;
      given.push_back(output);
      if (const TensorValue* tensor = call.outputs.back()) {
        if (node.dtype.empty()) node.dtype = tensor->dtype;
        if (__builtin_add_overflow(node.output_bytes, tensor->bytes, &node.output_bytes)) {
          return fail(ErrorCode::kOverflow, place_of(index), "its outputs do not fit in 63 bits",
                      "give smaller sizes");
        }
      } else if (!std::exchange(has_unknown_, true)) {
        warn("unknown_size", value_place(output),
             "has no shape, and may not be the only one; counts as 0 bytes (run shape inference)");
      }
    }
    node.name = unique_name(source.name.empty() && !given.empty() ? given[0] : source.name);
    const bool is_standard = source.domain.empty() || source.domain == "ai.onnx";
    node.target = is_standard ? source.op_type : source.domain + "." + source.op_type;
    node.module = source.name_scopes.empty() ? module_of_name(source.name)
                                             : module_of_scopes(source.name_scopes);
    node.is_view = is_onnx_view(source);
    if (!node.is_view) {
      node.flops = flops_of(call);
      node.bytes_moved = bytes_moved_by(call);
    }
    const int own = result_.graph.num_nodes();
    const std::string module = node.module;
    result_.graph.nodes.push_back(std::move(node));
    if (given.size() == 1) return define(given[0], own);
    for (const std::string& output : given) {
      PLIMSOLL_RETURN_IF_ERROR(define(output, result_.graph.num_nodes()));
      OperatorNode part;
      part.name = unique_name(output);
      part.target = "getitem";
      part.module = module;
      part.inputs = {own};
      part.is_view = true;
      set_value(part, output);
      result_.graph.nodes.push_back(std::move(part));
    }
    return {};
  }

  Result<void> add_output() {
    OperatorNode node;
    node.name = unique_name("output");
    node.op = OpKind::kOutput;
    node.target = "output";
    for (const OnnxValueInfo& info : source_.outputs) {
      const auto found = values_.find(info.name);
      if (found == values_.end()) {
        return fail(ErrorCode::kValue, value_place(info.name), "is an output that no node produces",
                    "name a value of the graph");
      }
      add_read(node, found->second);
    }
    result_.graph.nodes.push_back(std::move(node));
    return {};
  }

  static void add_read(OperatorNode& node, int input) {
    if (std::find(node.inputs.begin(), node.inputs.end(), input) == node.inputs.end()) {
      node.inputs.push_back(input);
    }
  }

  const TensorValue* find_tensor(const std::string& name) const {
    const auto found = tensor_of_.find(name);
    return found == tensor_of_.end() ? nullptr : found->second;
  }

  const OnnxGraph& source_;
  std::string_view file_;
  ImportedGraph result_;
  std::deque<TensorValue> tensors_;
  std::unordered_map<std::string, const TensorValue*> tensor_of_;
  std::unordered_map<std::string, int> values_;  // the node that gives each value
  std::unordered_set<std::string> names_, symbols_;
  std::unordered_set<std::int64_t> unknown_types_;
  bool has_external_ = false;
  bool has_unknown_ = false;
};

Result<ImportedGraph> read_stream(google::protobuf::io::ZeroCopyInputStream& stream,
                                  std::int64_t size, std::string_view file) {
  if (size >= INT32_MAX) {
    return fail(ErrorCode::kIo, std::string(file), "is longer than protobuf allows (2 GiB)",
                "save the model with its weights as external data");
  }
  WireReader reader(&stream, static_cast<int>(size), file);
  PLIMSOLL_ASSIGN(const OnnxGraph graph, read_onnx_graph(reader, file));
  return GraphBuilder(graph, file).build();
}

}  // namespace

Result<ImportedGraph> read_onnx_file(const std::string& path) {
  const int fd = ::open(path.c_str(), O_RDONLY | O_CLOEXEC);
  struct stat status {};
  if (fd < 0 || ::fstat(fd, &status) != 0 || !S_ISREG(status.st_mode)) {
    const int code = fd < 0 ? errno : EISDIR;
    if (fd >= 0) ::close(fd);
    return fail(code == ENOENT ? ErrorCode::kNotFound : ErrorCode::kIo, path,
                "cannot open: " + std::generic_category().message(code));
  }
  google::protobuf::io::FileInputStream stream(fd);
  stream.SetCloseOnDelete(true);
  return read_stream(stream, status.st_size, path);
}

Result<ImportedGraph> read_onnx(std::string_view bytes, std::string_view file) {
  if (bytes.size() >= INT32_MAX) {
    google::protobuf::io::ArrayInputStream none(nullptr, 0);
    return read_stream(none, INT32_MAX, file);
  }
  google::protobuf::io::ArrayInputStream stream(bytes.data(), static_cast<int>(bytes.size()));
  return read_stream(stream, static_cast<std::int64_t>(bytes.size()), file);
}

}  // namespace plimsoll::io
