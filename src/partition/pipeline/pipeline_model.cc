#include "plimsoll/partition/pipeline_model.h"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <set>
#include <utility>

#include "partition/graph/cycle.h"

namespace plimsoll::partition {
namespace {

// Whatever a search adds up stays in 63 bits below this.
constexpr Bytes kMaxMemory = INT64_MAX / 4;

bool is_amount(double value) { return std::isfinite(value) && value >= 0; }

class Validator {
 public:
  explicit Validator(const PipelineModel& model) : model_(model) {}

  Result<void> run() {
    if (model_.num_devices < 1 || model_.num_devices > kMaxPipelineDevices) {
      return value_error("num_devices", std::to_string(model_.num_devices) + " devices",
                         "give 1 to " + std::to_string(kMaxPipelineDevices));
    }
    if (model_.memory_cap && *model_.memory_cap < 0) {
      return value_error("memory_cap", "a negative number of bytes", "give at least 0");
    }
    if (!std::isfinite(model_.bandwidth) || model_.bandwidth <= 0) {
      return value_error("bandwidth", "not a positive number", "give bytes a ms");
    }
    if (model_.num_microbatches && *model_.num_microbatches < 1) {
      return value_error("num_microbatches", "fewer than one microbatch", "give at least 1");
    }
    if (model_.operators.empty()) {
      return value_error("operators", "there is no operator", "give at least one");
    }
    PLIMSOLL_RETURN_IF_ERROR(check_edges());
    touching_ = edges_of_operators(model_);
    for (int op = 0; op < model_.num_operators(); ++op) {
      PLIMSOLL_RETURN_IF_ERROR(check_operator(op));
    }
    return check_order();
  }

 private:
  static tl::unexpected<Error> value_error(std::string place, std::string message,
                                           std::string remedy) {
    return fail(ErrorCode::kValue, std::move(place), std::move(message), std::move(remedy));
  }

  Result<void> check_edges() const {
    std::set<std::pair<int, int>> seen;
    for (std::size_t i = 0; i < model_.edges.size(); ++i) {
      const PipelineEdge& edge = model_.edges[i];
      const std::string place = "edge " + std::to_string(i);
      for (const int end : {edge.source, edge.dest}) {
        if (end < 0 || end >= model_.num_operators()) {
          return value_error(place, "there is no operator " + std::to_string(end),
                             "give an operator's place");
        }
      }
      if (!is_amount(edge.bytes)) {
        return value_error(place, "its bytes are negative or not a number", "give at least 0");
      }
      if (!seen.emplace(edge.source, edge.dest).second) {
        return fail(ErrorCode::kConflict, place, "a second edge between the same operators",
                    "give each edge once");
      }
    }
    return {};
  }

  Result<void> check_operator(int op) {
    const PipelineOperator& entry = model_.operators[op];
    Bytes most = 0;
    int last_degree = 0;
    for (const TensorParallelChoices& degree : entry.degrees) {
      if (degree.degree < 1 || degree.degree > kMaxPipelineDevices) {
        return value_error(place_of(model_, op), "a tensor-parallel degree outside its range",
                           "give 1 to " + std::to_string(kMaxPipelineDevices));
      }
      if (degree.degree <= last_degree) {
        return fail(ErrorCode::kConflict, place_of(model_, op),
                    "a tensor-parallel degree twice or out of order",
                    "give each degree once, ascending");
      }
      last_degree = degree.degree;
      if (degree.choices.empty()) {
        return value_error(place_of(model_, op), "a degree without choices",
                           "leave the degree out, or give a choice");
      }
      std::set<std::string> names;
      for (const OperatorVariant& choice : degree.choices) {
        if (!names.insert(choice.name).second) {
          return fail(ErrorCode::kConflict, place_of(model_, op),
                      "two choices '" + choice.name + "' of one degree", "give each its own name");
        }
        PLIMSOLL_RETURN_IF_ERROR(check_choice(op, choice));
        const Int128 held =
            Int128{choice.per_microbatch} * model_.num_devices + std::max<Bytes>(choice.memory, 0);
        if (held > kMaxMemory) return overflow_error(op);
        most = std::max({most, static_cast<Bytes>(held), choice.parameters});
      }
    }
    if (most > kMaxMemory - total_) return overflow_error(op);
    total_ += most;
    return {};
  }

  tl::unexpected<Error> overflow_error(int op) const {
    return fail(ErrorCode::kOverflow, place_of(model_, op),
                "with all microbatches in flight, the bytes exceed 2^63 - 1", "give smaller sizes");
  }

  Result<void> check_choice(int op, const OperatorVariant& choice) const {
    const std::string place = place_of(model_, op);
    if (!is_amount(choice.time_ms)) {
      return value_error(place, "a time that is negative or not a number", "give at least 0");
    }
    if (choice.parameters < 0 || choice.per_microbatch < 0 ||
        choice.memory < -choice.per_microbatch) {
      return value_error(place, "a negative number of bytes", "give at least 0");
    }
    if (!choice.sync.empty() && choice.sync.size() != touching_[op].size()) {
      return fail(ErrorCode::kSchema, place, "sync for another number of edges",
                  "give one number for each edge that touches the operator");
    }
    if (!std::all_of(choice.sync.begin(), choice.sync.end(), is_amount)) {
      return value_error(place, "sync bytes that are negative or not a number", "give at least 0");
    }
    return {};
  }

  Result<void> check_order() const {
    std::vector<std::pair<int, int>> edges;
    for (const PipelineEdge& edge : model_.edges) edges.emplace_back(edge.source, edge.dest);
    const std::vector<int> cycle = find_cycle(model_.num_operators(), edges);
    if (cycle.empty()) return {};
    const auto name_of = [&](int op) { return place_of(model_, op); };
    return fail(ErrorCode::kConflict, name_of(cycle.front()),
                "operators wait for each other in a cycle: " + cycle_text(cycle, name_of),
                "leave out an edge of the cycle");
  }

  const PipelineModel& model_;
  std::vector<std::vector<int>> touching_;
  Bytes total_ = 0;
};

}  // namespace

Result<void> validate(const PipelineModel& model) { return Validator(model).run(); }

std::string place_of(const PipelineModel& model, int op) {
  const std::string place = "operator " + std::to_string(op);
  const std::string& name = model.operators[op].name;
  return name.empty() ? place : place + " '" + name + "'";
}

std::vector<std::vector<int>> edges_of_operators(const PipelineModel& model) {
  std::vector<std::vector<int>> touching(model.operators.size());
  for (std::size_t i = 0; i < model.edges.size(); ++i) {
    touching[model.edges[i].source].push_back(static_cast<int>(i));
    if (model.edges[i].dest != model.edges[i].source) {
      touching[model.edges[i].dest].push_back(static_cast<int>(i));
    }
  }
  return touching;
}

const std::vector<OperatorVariant>* find_choices(const PipelineOperator& op, int degree) {
  for (const TensorParallelChoices& entry : op.degrees) {
    if (entry.degree == degree) return &entry.choices;
  }
  return nullptr;
}

}  // namespace plimsoll::partition
