#include "io/import/piper_json.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <map>
#include <optional>
#include <set>
#include <unordered_map>

#include "core/check.h"
#include "io/documents/descriptions.h"
#include "io/json/json_writer.h"
#include "partition/graph/cycle.h"
#include "plimsoll/core/units.h"

namespace plimsoll::io {

using partition::OperatorVariant;
using partition::PipelineEdge;
using partition::PipelineModel;
using partition::PipelineOperator;
using partition::PipelinePlan;
using partition::PipelineStage;

namespace {

constexpr Rule kRate{.min = 0, .excludes_min = true};
constexpr Rule kDegree{.min = 1, .max = partition::kMaxPipelineDevices};

}  // namespace

// Bytes that may have a fraction, rounded up.
struct RoundedBytes {
  Bytes value = 0;
  bool operator==(const RoundedBytes&) const = default;
};

bool read(const Cursor& cursor, RoundedBytes& out, const Rule& rule) {
  const auto* number = cursor.value.as<double>();
  if (number == nullptr) return read(cursor, out.value, rule);
  constexpr double kTooBig = 9223372036854775808.0;
  if (*number > kTooBig / 2) {
    return cursor.fail(ErrorCode::kOverflow, fmt::format("{} does not fit", *number),
                       fmt::format("give at most {}", INT64_MAX / 2));
  }
  if (!(*number >= rule.min)) {
    return cursor.fail(ErrorCode::kValue, fmt::format("{} is out of range", *number),
                       "give at least 0");
  }
  out.value = static_cast<Bytes>(std::ceil(*number));
  return true;
}

JsonValue to_json(RoundedBytes bytes, const Rule& rule) { return to_json(bytes.value, rule); }

struct PiperChoice {
  std::string id;
  double time_per_sample = 0;
  RoundedBytes parameter_size, memory_usage_a, memory_usage_b;
  std::map<std::string, double> sync_time_fw, sync_time_bw;
};

struct PiperNode {
  std::int64_t id = 0;
  std::string name;
  std::map<std::string, std::vector<PiperChoice>> choices;
};

struct PiperEdge {
  std::int64_t source_id = 0;
  std::int64_t dest_id = 0;
  double communication_cost = 0;
};

struct PiperDocument {
  int max_devices = 0;
  RoundedBytes max_memory_per_device;
  double bandwidth = 0;
  int mbs_in_batch = 0;
  std::vector<PiperNode> nodes;
  std::vector<PiperEdge> edges;
};

struct PiperStage {
  std::vector<std::int64_t> nodes;
  int data_parallel_degree = 1;
  int tensor_parallel_degree = 1;
  std::map<std::string, std::string> choices;
};

struct PiperPlanDocument {
  std::vector<PiperStage> stages;
};

template <class Fields, SameAs<PiperChoice> T>
void describe(Fields& fields, T& choice) {
  fields.required("id", choice.id);
  fields.required("timePerSample", choice.time_per_sample, kNonNegative);
  fields.required("parameterSize", choice.parameter_size, kNonNegative);
  fields.required("memoryUsageA", choice.memory_usage_a, kNonNegative);
  fields.required("memoryUsageB", choice.memory_usage_b, kNonNegative);
  fields.required("syncTimeFw", choice.sync_time_fw, kNonNegative);
  fields.required("syncTimeBw", choice.sync_time_bw, kNonNegative);
}

template <class Fields, SameAs<PiperNode> T>
void describe(Fields& fields, T& node) {
  fields.required("id", node.id);
  fields.optional("name", node.name);
  fields.required("TMPCs", node.choices);
}

template <class Fields, SameAs<PiperEdge> T>
void describe(Fields& fields, T& edge) {
  fields.required("sourceId", edge.source_id);
  fields.required("destId", edge.dest_id);
  fields.required("communicationCost", edge.communication_cost, kNonNegative);
}

template <class Fields, SameAs<PiperDocument> T>
void describe(Fields& fields, T& document) {
  fields.required("maxDevices", document.max_devices, kDegree);
  fields.required("maxMemoryPerDevice", document.max_memory_per_device, kNonNegative);
  fields.required("bandwidth", document.bandwidth, kRate);
  fields.required("mbsInBatch", document.mbs_in_batch, kPositive);
  fields.required("nodes", document.nodes);
  fields.required("edges", document.edges);
}

template <class Fields, SameAs<PiperStage> T>
void describe(Fields& fields, T& stage) {
  fields.required("nodes", stage.nodes);
  fields.required("dataParallelDegree", stage.data_parallel_degree, kDegree);
  fields.required("tensorParallelDegree", stage.tensor_parallel_degree, kDegree);
  fields.required("TMPCids", stage.choices);
}

template <class Fields, SameAs<PiperPlanDocument> T>
void describe(Fields& fields, T& document) {
  fields.required("stages", document.stages);
}

namespace {

std::optional<std::int64_t> parse_integer(const std::string& text) {
  std::int64_t value = 0;
  const auto [end, code] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (code != std::errc{} || end != text.data() + text.size()) return std::nullopt;
  return value;
}

class PiperReader {
 public:
  PiperReader(const PiperDocument& document, std::string_view file)
      : document_(document), file_(file) {}

  Result<PiperInput> read() {
    PipelineModel& model = input_.model;
    model.num_devices = document_.max_devices;
    model.memory_cap = document_.max_memory_per_device.value;
    model.bandwidth = document_.bandwidth / kMsPerSecond;
    model.num_microbatches = document_.mbs_in_batch;
    for (std::size_t i = 0; i < document_.nodes.size(); ++i) {
      const std::int64_t id = document_.nodes[i].id;
      if (!index_.emplace(id, static_cast<int>(i)).second) {
        return fail_at(fmt::format("/nodes/{}/id", i), ErrorCode::kConflict,
                       fmt::format("the id {} occurs twice", id), "give every node its own id");
      }
      input_.ids.push_back(id);
      model.operators.push_back({document_.nodes[i].name, {}});
    }
    for (std::size_t i = 0; i < document_.edges.size(); ++i) {
      PLIMSOLL_RETURN_IF_ERROR(add_edge(i));
    }
    PLIMSOLL_RETURN_IF_ERROR(check_order());
    touching_ = edges_of_operators(model);
    for (std::size_t i = 0; i < document_.nodes.size(); ++i) {
      PLIMSOLL_RETURN_IF_ERROR(add_choices(i));
    }
    if (auto valid = partition::validate(model); !valid) {
      Error error = valid.error();
      error.message = error.place + ": " + error.message;
      error.place = document_place(file_, "");
      return tl::unexpected<Error>(std::move(error));
    }
    return std::move(input_);
  }

 private:
  tl::unexpected<Error> fail_at(const std::string& pointer, ErrorCode code, std::string message,
                                std::string remedy) const {
    return fail(code, document_place(file_, pointer), std::move(message), std::move(remedy));
  }

  Result<void> add_edge(std::size_t i) {
    const PiperEdge& edge = document_.edges[i];
    const auto source = index_.find(edge.source_id);
    const auto dest = index_.find(edge.dest_id);
    if (source == index_.end() || dest == index_.end()) {
      const bool is_source = source == index_.end();
      return fail_at(fmt::format("/edges/{}/{}", i, is_source ? "sourceId" : "destId"),
                     ErrorCode::kValue,
                     fmt::format("there is no node {}", is_source ? edge.source_id : edge.dest_id),
                     "give the id of a node");
    }
    if (!pairs_.emplace(edge.source_id, edge.dest_id).second) {
      return fail_at(fmt::format("/edges/{}", i), ErrorCode::kConflict,
                     fmt::format("a second edge from {} to {}", edge.source_id, edge.dest_id),
                     "give each edge once");
    }
    input_.model.edges.push_back({source->second, dest->second, edge.communication_cost});
    return {};
  }

  // Before the choices: a node on a cycle has edges that its choices know nothing of.
  Result<void> check_order() const {
    std::vector<std::pair<int, int>> edges;
    for (const PipelineEdge& edge : input_.model.edges) edges.emplace_back(edge.source, edge.dest);
    const std::vector<int> cycle = partition::find_cycle(input_.model.num_operators(), edges);
    if (cycle.empty()) return {};
    const auto id_of = [&](int op) { return std::to_string(input_.ids[op]); };
    return fail_at("/edges", ErrorCode::kConflict,
                   "nodes wait for each other in a cycle: " + partition::cycle_text(cycle, id_of),
                   "leave out an edge of the cycle");
  }

  Result<void> add_choices(std::size_t i) {
    PipelineOperator& op = input_.model.operators[i];
    for (const auto& [key, choices] : document_.nodes[i].choices) {
      const std::string pointer = fmt::format("/nodes/{}/TMPCs/{}", i, escape_pointer(key));
      const auto degree = parse_integer(key);
      if (!degree || *degree < 1 || *degree > partition::kMaxPipelineDevices) {
        return fail_at(pointer, ErrorCode::kValue,
                       fmt::format("'{}' is not a number of devices", key),
                       fmt::format("give 1 to {}", int{partition::kMaxPipelineDevices}));
      }
      if (choices.empty()) continue;
      auto& entry = op.degrees.emplace_back();
      entry.degree = static_cast<int>(*degree);
      for (std::size_t c = 0; c < choices.size(); ++c) {
        PLIMSOLL_ASSIGN(OperatorVariant choice, make_choice(static_cast<int>(i), choices[c],
                                                            fmt::format("{}/{}", pointer, c)));
        entry.choices.push_back(std::move(choice));
      }
    }
    std::sort(op.degrees.begin(), op.degrees.end(),
              [](const auto& a, const auto& b) { return a.degree < b.degree; });
    return {};
  }

  Result<OperatorVariant> make_choice(int op, const PiperChoice& entry,
                                      const std::string& pointer) const {
    OperatorVariant choice{entry.id,
                           entry.time_per_sample * kMsPerSecond,
                           entry.parameter_size.value,
                           entry.memory_usage_a.value,
                           entry.memory_usage_b.value,
                           {}};
    std::size_t num_fw = 0;
    for (const int e : touching_[op]) {
      const PipelineEdge& edge = input_.model.edges[e];
      const bool is_in = edge.dest == op;
      const auto& times = is_in ? entry.sync_time_fw : entry.sync_time_bw;
      const std::int64_t other = input_.ids[is_in ? edge.source : edge.dest];
      const auto found = times.find(std::to_string(other));
      if (found == times.end()) {
        return fail_at(pointer + (is_in ? "/syncTimeFw" : "/syncTimeBw"), ErrorCode::kSchema,
                       fmt::format("the edge {} node {} is missing", is_in ? "from" : "to", other),
                       "give every edge of the node");
      }
      num_fw += is_in ? 1 : 0;
      choice.sync.push_back(found->second);
    }
    if (entry.sync_time_fw.size() != num_fw ||
        entry.sync_time_bw.size() != touching_[op].size() - num_fw) {
      const bool is_fw = entry.sync_time_fw.size() != num_fw;
      return fail_at(pointer + (is_fw ? "/syncTimeFw" : "/syncTimeBw"), ErrorCode::kConflict,
                     "an edge that does not exist", "give the node's edges alone");
    }
    if (std::all_of(choice.sync.begin(), choice.sync.end(), [](double s) { return s == 0; })) {
      choice.sync.clear();
    }
    return choice;
  }

  const PiperDocument& document_;
  std::string_view file_;
  PiperInput input_;
  std::unordered_map<std::int64_t, int> index_;
  std::set<std::pair<std::int64_t, std::int64_t>> pairs_;
  std::vector<std::vector<int>> touching_;
};

PiperChoice choice_entry(const PiperInput& input, const std::vector<int>& touching, int op,
                         const OperatorVariant& choice) {
  PiperChoice entry{choice.name,
                    choice.time_ms / kMsPerSecond,
                    {choice.parameters},
                    {choice.per_microbatch},
                    {choice.memory},
                    {},
                    {}};
  for (std::size_t e = 0; e < touching.size(); ++e) {
    const PipelineEdge& edge = input.model.edges[touching[e]];
    const double bytes = choice.sync.empty() ? 0 : choice.sync[e];
    if (edge.dest == op) {
      entry.sync_time_fw[std::to_string(input.ids[edge.source])] = bytes;
    } else {
      entry.sync_time_bw[std::to_string(input.ids[edge.dest])] = bytes;
    }
  }
  return entry;
}

}  // namespace

Result<PiperInput> read_piper(std::string_view text, std::string_view file) {
  PLIMSOLL_ASSIGN(const JsonValue root, parse_json(text, file));
  PLIMSOLL_ASSIGN(const PiperDocument document, read_tree<PiperDocument>(root, file));
  return PiperReader(document, file).read();
}

Result<std::string> write_piper(const PiperInput& input) {
  const PipelineModel& model = input.model;
  PLIMSOLL_RETURN_IF_ERROR(partition::validate(model));
  const auto refuse = [](std::string place, std::string message) {
    return fail(ErrorCode::kUsage, std::move(place), std::move(message),
                "write what the format can say");
  };
  if (input.ids.size() != model.operators.size()) return refuse("ids", "not one id an operator");
  const std::set<std::int64_t> distinct(input.ids.begin(), input.ids.end());
  if (distinct.size() != input.ids.size()) return refuse("ids", "an id occurs twice");
  if (!model.memory_cap) return refuse("memory_cap", "there is none");
  if (!model.num_microbatches) return refuse("num_microbatches", "there are none");
  PiperDocument document;
  document.max_devices = model.num_devices;
  document.max_memory_per_device.value = *model.memory_cap;
  document.bandwidth = model.bandwidth * kMsPerSecond;
  document.mbs_in_batch = *model.num_microbatches;
  const auto touching = edges_of_operators(model);
  for (int op = 0; op < model.num_operators(); ++op) {
    PiperNode& node = document.nodes.emplace_back();
    node.id = input.ids[op];
    node.name = model.operators[op].name;
    for (const auto& degree : model.operators[op].degrees) {
      for (const OperatorVariant& choice : degree.choices) {
        if (choice.memory < 0) return refuse(place_of(model, op), "a choice with negative memory");
        node.choices[std::to_string(degree.degree)].push_back(
            choice_entry(input, touching[op], op, choice));
      }
    }
  }
  for (const PipelineEdge& edge : model.edges) {
    document.edges.push_back({input.ids[edge.source], input.ids[edge.dest], edge.bytes});
  }
  return write_document(document);
}

bool is_piper_plan(const JsonValue& root) {
  const JsonValue* stages = root.find("stages");
  const auto* list = stages != nullptr ? stages->as<JsonValue::Array>() : nullptr;
  return list != nullptr && !list->empty() && list->front().find("TMPCids") != nullptr;
}

Result<PipelinePlan> read_piper_plan(std::string_view text, std::string_view file,
                                     const PiperInput& input) {
  PLIMSOLL_ASSIGN(const JsonValue root, parse_json(text, file));
  return read_piper_plan(root, file, input);
}

Result<PipelinePlan> read_piper_plan(const JsonValue& root, std::string_view file,
                                     const PiperInput& input) {
  PLIMSOLL_ASSIGN(const PiperPlanDocument document, read_tree<PiperPlanDocument>(root, file));
  std::unordered_map<std::int64_t, int> index;
  for (std::size_t i = 0; i < input.ids.size(); ++i)
    index.emplace(input.ids[i], static_cast<int>(i));
  PipelinePlan plan;
  for (std::size_t s = 0; s < document.stages.size(); ++s) {
    const PiperStage& entry = document.stages[s];
    const std::string pointer = fmt::format("/stages/{}", s);
    std::map<int, int> choices;
    for (std::size_t i = 0; i < entry.nodes.size(); ++i) {
      const auto found = index.find(entry.nodes[i]);
      const std::string place = document_place(file, fmt::format("{}/nodes/{}", pointer, i));
      if (found == index.end()) {
        return fail(ErrorCode::kValue, place,
                    fmt::format("there is no node {}", std::int64_t{entry.nodes[i]}),
                    "give the id of a node");
      }
      const std::string id = std::to_string(entry.nodes[i]);
      const auto* known =
          find_choices(input.model.operators[found->second], entry.tensor_parallel_degree);
      const auto name = entry.choices.find(id);
      if (known == nullptr || name == entry.choices.end()) {
        return fail(ErrorCode::kValue, place,
                    known == nullptr ? "the node does not know the tensor-parallel degree"
                                     : "the node has no choice",
                    "give a degree and a choice of the node");
      }
      const auto choice = std::find_if(known->begin(), known->end(), [&](const OperatorVariant& c) {
        return c.name == name->second;
      });
      if (choice == known->end()) {
        return fail(ErrorCode::kValue,
                    document_place(file, fmt::format("{}/TMPCids/{}", pointer, id)),
                    "the node has no choice '" + name->second + "'", "give a choice of the node");
      }
      if (!choices.emplace(found->second, static_cast<int>(choice - known->begin())).second) {
        return fail(ErrorCode::kConflict, place, "the node occurs twice in the stage",
                    "give it once");
      }
    }
    if (entry.choices.size() != choices.size()) {
      return fail(ErrorCode::kConflict, document_place(file, pointer + "/TMPCids"),
                  "a choice for a node of another stage", "give the stage's nodes alone");
    }
    PipelineStage& stage = plan.stages.emplace_back();
    stage.data_parallel = entry.data_parallel_degree;
    stage.tensor_parallel = entry.tensor_parallel_degree;
    for (const auto& [op, choice] : choices) {
      stage.operators.push_back(op);
      stage.choices.push_back(choice);
    }
  }
  return plan;
}

std::string write_piper_plan(const PiperInput& input, const PipelinePlan& plan) {
  PLIMSOLL_CHECK(is_plan_of(input.model, plan), "operators, degrees and choices of the plan exist");
  PiperPlanDocument document;
  for (const PipelineStage& stage : plan.stages) {
    PiperStage& entry = document.stages.emplace_back();
    entry.data_parallel_degree = stage.data_parallel;
    entry.tensor_parallel_degree = stage.tensor_parallel;
    for (std::size_t i = 0; i < stage.operators.size(); ++i) {
      const int op = stage.operators[i];
      entry.nodes.push_back(input.ids[op]);
      entry.choices[std::to_string(input.ids[op])] =
          (*find_choices(input.model.operators[op], stage.tensor_parallel))[stage.choices[i]].name;
    }
  }
  return write_document(document);
}

}  // namespace plimsoll::io
