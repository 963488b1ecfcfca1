// Field numbers are those of onnx.proto.
#include "io/import/onnx_messages.h"

#include <unordered_set>

namespace plimsoll::io {
namespace {

constexpr int kMaxNesting = 32;  // of subgraphs

// key and value of a StringStringEntryProto
bool read_entry(WireReader& reader, int type, std::string& key, std::string& value) {
  return reader.read_message(type, [&](int field, int t) {
    if (field == 1) return reader.read_string(t, key);
    if (field == 2) return reader.read_string(t, value);
    return reader.skip(t);
  });
}

bool read_tensor(WireReader& reader, int type, OnnxTensor& tensor) {
  return reader.read_message(type, [&](int field, int t) {
    std::int64_t location = 0;
    switch (field) {
      case 1:
        return reader.read_ints(t, [&](std::int64_t size) { tensor.sizes.push_back(size); });
      case 2:
        return reader.read_int(t, tensor.data_type);
      case 8:
        return reader.read_string(t, tensor.name);
      case 14:
        if (!reader.read_int(t, location)) return false;
        tensor.is_external = location == 1;
        return true;
      default:
        return reader.skip(t);
    }
  });
}

// Values, with the tensor's name, and where they stand.
bool read_sparse_tensor(WireReader& reader, int type, OnnxTensor& tensor) {
  return reader.read_message(type, [&](int field, int t) {
    OnnxTensor indices;
    switch (field) {
      case 1:
        return read_tensor(reader, t, tensor);
      case 2:
        if (!read_tensor(reader, t, indices)) return false;
        tensor.index_sizes = std::move(indices.sizes);
        return true;
      default:
        return reader.skip(t);
    }
  });
}

bool read_dimension(WireReader& reader, int type, OnnxDimension& dimension) {
  return reader.read_message(type, [&](int field, int t) {
    if (field == 1) return reader.read_int(t, dimension.value.emplace());
    if (field == 2) return reader.read_string(t, dimension.symbol);
    return reader.skip(t);
  });
}

bool read_tensor_type(WireReader& reader, int type, OnnxValueInfo& info) {
  return reader.read_message(type, [&](int field, int t) {
    if (field == 1) return reader.read_int(t, info.elem_type);
    if (field != 2) return reader.skip(t);
    info.has_shape = true;
    return reader.read_message(t, [&](int inner, int inner_type) {
      if (inner != 1) return reader.skip(inner_type);
      return read_dimension(reader, inner_type, info.dimensions.emplace_back());
    });
  });
}

bool read_value_info(WireReader& reader, int type, OnnxValueInfo& info) {
  return reader.read_message(type, [&](int field, int t) {
    if (field == 1) return reader.read_string(t, info.name);
    if (field != 2) return reader.skip(t);
    return reader.read_message(t, [&](int kind, int kind_type) {
      return kind == 1 ? read_tensor_type(reader, kind_type, info) : reader.skip(kind_type);
    });
  });
}

// What subgraphs read, and what they give themselves.
struct SubgraphNames {
  std::vector<std::string> read;
  std::unordered_set<std::string> given;
};

bool collect_names(WireReader& reader, int type, int depth, SubgraphNames& names);

bool collect_from_attribute(WireReader& reader, int type, int depth, SubgraphNames& names) {
  return reader.read_message(type, [&](int field, int t) {
    return field == 6 || field == 11 ? collect_names(reader, t, depth + 1, names) : reader.skip(t);
  });
}

bool collect_from_node(WireReader& reader, int type, int depth, SubgraphNames& names) {
  return reader.read_message(type, [&](int field, int t) {
    std::string output;
    switch (field) {
      case 1:
        return reader.read_string(t, names.read.emplace_back());
      case 2:
        if (!reader.read_string(t, output)) return false;
        names.given.insert(std::move(output));
        return true;
      case 5:
        return collect_from_attribute(reader, t, depth, names);
      default:
        return reader.skip(t);
    }
  });
}

bool collect_names(WireReader& reader, int type, int depth, SubgraphNames& names) {
  if (depth > kMaxNesting) return reader.fail_nesting();
  return reader.read_message(type, [&](int field, int t) {
    OnnxValueInfo info;
    OnnxTensor tensor;
    switch (field) {
      case 1:
        return collect_from_node(reader, t, depth, names);
      case 5:
        if (!read_tensor(reader, t, tensor)) return false;
        names.given.insert(std::move(tensor.name));
        return true;
      case 15:
        if (!read_sparse_tensor(reader, t, tensor)) return false;
        names.given.insert(std::move(tensor.name));
        return true;
      case 11:
        if (!read_value_info(reader, t, info)) return false;
        names.given.insert(std::move(info.name));
        return true;
      case 12:  // what a subgraph returns may be a value from outside, too
        if (!read_value_info(reader, t, info)) return false;
        names.read.push_back(std::move(info.name));
        return true;
      default:
        return reader.skip(t);
    }
  });
}

bool read_subgraph(WireReader& reader, int type, OnnxNode& node) {
  SubgraphNames names;
  if (!collect_names(reader, type, 1, names)) return false;
  for (std::string& name : names.read) {
    if (names.given.count(name) == 0) node.captured.push_back(std::move(name));
  }
  return true;
}

bool read_attribute(WireReader& reader, int type, OnnxNode& node) {
  std::string name;
  std::optional<std::int64_t> value;
  const bool is_read = reader.read_message(type, [&](int field, int t) {
    switch (field) {
      case 1:
        return reader.read_string(t, name);
      case 3:
        return reader.read_int(t, value.emplace());
      case 5:
        return read_tensor(reader, t, node.tensor.emplace());
      case 6:
      case 11:
        return read_subgraph(reader, t, node);
      default:
        return reader.skip(t);
    }
  });
  if (is_read && value) node.ints[name] = *value;
  return is_read;
}

bool read_node(WireReader& reader, int type, OnnxNode& node) {
  return reader.read_message(type, [&](int field, int t) {
    std::string key;
    std::string value;
    switch (field) {
      case 1:
        return reader.read_string(t, node.inputs.emplace_back());
      case 2:
        return reader.read_string(t, node.outputs.emplace_back());
      case 3:
        return reader.read_string(t, node.name);
      case 4:
        return reader.read_string(t, node.op_type);
      case 5:
        return read_attribute(reader, t, node);
      case 7:
        return reader.read_string(t, node.domain);
      case 9:
        if (!read_entry(reader, t, key, value)) return false;
        if (key == "pkg.torch.onnx.name_scopes") node.name_scopes = value;
        return true;
      default:
        return reader.skip(t);
    }
  });
}

bool read_graph(WireReader& reader, int type, OnnxGraph& graph) {
  return reader.read_message(type, [&](int field, int t) {
    switch (field) {
      case 1:
        return read_node(reader, t, graph.nodes.emplace_back());
      case 2:
        return reader.read_string(t, graph.name);
      case 5:
        return read_tensor(reader, t, graph.initializers.emplace_back());
      case 11:
        return read_value_info(reader, t, graph.inputs.emplace_back());
      case 12:
        return read_value_info(reader, t, graph.outputs.emplace_back());
      case 13:
        return read_value_info(reader, t, graph.values.emplace_back());
      case 15:
        return read_sparse_tensor(reader, t, graph.initializers.emplace_back());
      default:
        return reader.skip(t);
    }
  });
}

}  // namespace

Result<OnnxGraph> read_onnx_graph(WireReader& reader, std::string_view file) {
  OnnxGraph graph;
  int num_graphs = 0;
  const bool is_read = reader.for_each_field([&](int field, int type) {
    constexpr int kGraph = 7;
    if (field != kGraph) return reader.skip(type);
    ++num_graphs;
    return read_graph(reader, type, graph);
  });
  if (!is_read) return tl::unexpected<Error>(reader.error());
  if (num_graphs != 1) {
    return fail(ErrorCode::kSchema, std::string(file),
                num_graphs == 0 ? "holds no graph: it is not an ONNX model" : "holds two graphs",
                "give a model as ONNX exporters write it");
  }
  return graph;
}

}  // namespace plimsoll::io
