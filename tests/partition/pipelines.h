// Small random pipeline models, and all their plans.
#pragma once

#include <algorithm>
#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "plimsoll/partition/pipeline_model.h"
#include "plimsoll/partition/pipeline_plan.h"

namespace plimsoll::partition {

class PipelineRandom {
 public:
  explicit PipelineRandom(std::uint64_t seed) : state_(seed * 2654435761U + 12345) {}
  int below(int n) {  // 0 .. n - 1
    state_ = state_ * 6364136223846793005U + 1442695040888963407U;
    return static_cast<int>((state_ >> 33U) % static_cast<std::uint64_t>(n));
  }

 private:
  std::uint64_t state_;
};

struct RandomPipeline {
  int max_operators = 4;
  int max_devices = 4;
  bool has_degrees = true;
  bool has_memory = true;
};

inline PipelineModel random_pipeline(std::uint64_t seed, const RandomPipeline& shape = {}) {
  PipelineRandom random(seed);
  PipelineModel model;
  model.num_devices = 1 + random.below(shape.max_devices);
  model.bandwidth = 1 + random.below(4);
  if (random.below(3) > 0) model.num_microbatches = 1 + random.below(6);
  const int size = 1 + random.below(shape.max_operators);
  const bool are_edges_free = random.below(2) == 0;
  for (int b = 0; b < size; ++b) {
    for (int a = 0; a < b; ++a) {
      if (random.below(3) == 0) {
        model.edges.push_back({a, b, are_edges_free ? 0.0 : random.below(5)});
      }
    }
  }
  model.operators.resize(size);
  const auto touching = edges_of_operators(model);
  for (int op = 0; op < size; ++op) {
    const bool is_free = random.below(4) == 0;
    for (const int degree : {1, 2}) {
      if (degree == 2 && (!shape.has_degrees || random.below(3) == 0)) continue;
      TensorParallelChoices entry{degree, {}};
      const int num_choices = 1 + random.below(2);
      for (int c = 0; c < num_choices; ++c) {
        OperatorVariant choice;
        choice.name = c == 0 ? "vanilla" : "recompute";
        if (!is_free) {
          choice.time_ms = random.below(10);
          choice.parameters = random.below(4);
          choice.per_microbatch = random.below(5);
          choice.memory = random.below(8) - choice.per_microbatch;
        }
        if (random.below(3) == 0) {
          for (std::size_t e = 0; e < touching[op].size(); ++e) {
            choice.sync.push_back(are_edges_free ? 0 : random.below(3));
          }
        }
        entry.choices.push_back(choice);
      }
      model.operators[op].degrees.push_back(entry);
    }
  }
  if (shape.has_memory && random.below(2) == 0) model.memory_cap = 4 + random.below(25);
  return model;
}

class PlanEnumerator {
 public:
  PlanEnumerator(const PipelineModel& model, std::function<void(const PipelinePlan&)> visit)
      : model_(model), visit_(std::move(visit)), is_done_(model.operators.size(), false) {}
  void run() { extend(0, 0); }

 private:
  void extend(int num_done, int num_devices) {
    if (num_done == model_.num_operators()) {
      visit_(plan_);
      return;
    }
    for (int set = 1; set < 1 << model_.num_operators(); ++set) {
      if (!can_be_next(set)) continue;
      PipelineStage stage;
      for (int op = 0; op < model_.num_operators(); ++op) {
        if ((set >> op & 1) != 0) stage.operators.push_back(op);
      }
      for (stage.tensor_parallel = 1; stage.tensor_parallel <= 2; ++stage.tensor_parallel) {
        for (stage.data_parallel = 1; num_devices + stage.num_devices() <= model_.num_devices;
             ++stage.data_parallel) {
          stage.choices.assign(stage.operators.size(), 0);
          choose(stage, 0, num_done, num_devices);
        }
      }
    }
  }

  bool can_be_next(int set) const {
    for (int op = 0; op < model_.num_operators(); ++op) {
      if ((set >> op & 1) != 0 && is_done_[op]) return false;
    }
    for (const PipelineEdge& edge : model_.edges) {
      if ((set >> edge.dest & 1) != 0 && (set >> edge.source & 1) == 0 && !is_done_[edge.source]) {
        return false;
      }
    }
    return true;
  }

  void choose(PipelineStage& stage, std::size_t i, int num_done, int num_devices) {
    if (i == stage.operators.size()) {
      plan_.stages.push_back(stage);
      for (const int op : stage.operators) is_done_[op] = true;
      extend(num_done + static_cast<int>(i), num_devices + stage.num_devices());
      for (const int op : stage.operators) is_done_[op] = false;
      plan_.stages.pop_back();
      return;
    }
    const auto* choices = find_choices(model_.operators[stage.operators[i]], stage.tensor_parallel);
    if (choices == nullptr) return;
    for (std::size_t c = 0; c < choices->size(); ++c) {
      stage.choices[i] = static_cast<int>(c);
      choose(stage, i + 1, num_done, num_devices);
    }
  }

  const PipelineModel& model_;
  std::function<void(const PipelinePlan&)> visit_;
  std::vector<bool> is_done_;
  PipelinePlan plan_;
};

// Calls `visit` with every plan whose stages are in order and use at most the model's devices.
inline void for_each_plan(const PipelineModel& model,
                          std::function<void(const PipelinePlan&)> visit) {
  PlanEnumerator(model, std::move(visit)).run();
}

}  // namespace plimsoll::partition
