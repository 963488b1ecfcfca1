// Seeded random values of the pipeline planner's documents.
#pragma once

#include <string>

#include "io/documents/pipeline_plan_json.h"
#include "io/import/piper_json.h"
#include "io/random_documents.h"
#include "partition/profile/pipedream.h"

namespace plimsoll::io {

inline PiperInput random_piper_input(Random& random) {
  PiperInput input;
  auto& model = input.model;
  model.num_devices = 1 + static_cast<int>(random.below(100));
  model.memory_cap = random.below(std::int64_t{1} << 40);
  model.bandwidth = static_cast<double>(1 + random.below(100));
  model.num_microbatches = 1 + static_cast<int>(random.below(100));
  const int size = 1 + static_cast<int>(random.below(5));
  model.operators.resize(size);
  for (int b = 0; b < size; ++b) {
    input.ids.push_back(10 * b - 7);
    for (int a = 0; a < b; ++a) {
      if (random.coin()) model.edges.push_back({a, b, random.fraction() * 1e6});
    }
  }
  const auto touching = edges_of_operators(model);
  for (int op = 0; op < size; ++op) {
    model.operators[op].name = random.coin() ? "op" + std::to_string(op) : "";
    for (const int degree : {1, 2, 10}) {
      if (random.coin()) continue;
      partition::TensorParallelChoices entry{degree, {}};
      for (const char* name : {"vanilla", "activation recomp"}) {
        partition::OperatorVariant choice{name,
                                          static_cast<double>(random.below(1000)) * 1000,
                                          random.below(1 << 30),
                                          random.below(1 << 30),
                                          random.below(1 << 30),
                                          {}};
        if (random.coin()) {
          for (std::size_t e = 0; e < touching[op].size(); ++e) {
            choice.sync.push_back(1 + static_cast<double>(random.below(100)));
          }
        }
        entry.choices.push_back(choice);
      }
      model.operators[op].degrees.push_back(entry);
    }
  }
  return input;
}

inline partition::PipeDreamProfile random_pipedream_profile(Random& random) {
  partition::PipeDreamProfile profile;
  const int size = 1 + static_cast<int>(random.below(6));
  for (int i = 0; i < size; ++i) {
    partition::PipeDreamNode node;
    node.id = "node" + std::to_string(size - i);
    node.description = random.coin() ? "Conv2d(3, 64)" : "";
    node.forward_ms = random.coin() ? static_cast<double>(random.below(10)) : random.fraction();
    node.backward_ms = random.number();
    node.activations.clear();
    for (std::int64_t n = random.below(3); n >= 0; --n) {
      node.activations.push_back(random.below(std::int64_t{1} << 50));
    }
    node.parameters = random.below(std::int64_t{1} << 50);
    node.stage = random.maybe([&] { return static_cast<int>(random.below(9)); });
    profile.nodes.push_back(node);
    for (int a = 0; a < i; ++a) {
      if (random.coin()) profile.edges.emplace_back(a, i);
    }
  }
  return profile;
}

inline PipelineAnswer random_pipeline_answer(Random& random) {
  PipelineAnswer answer;
  if (random.coin()) answer.status = random.value_of<SolveStatus>(4);
  if (random.coin()) answer.stop = random.value_of<StopReason>(4);
  if (random.coin() || !answer.status) {
    answer.plan = random.list(3, [&] {
      PipelineStageEntry stage;
      for (std::int64_t n = random.below(3); n >= 0; --n) {
        stage.operators.push_back(static_cast<int>(random.below(1000)));
        stage.choices.push_back(random.name());
      }
      stage.data_parallel = 1 + static_cast<int>(random.below(100));
      stage.tensor_parallel = 1 + static_cast<int>(random.below(100));
      stage.time_ms = random.maybe([&] { return random.number(); });
      stage.in_flight = random.maybe([&] { return 1 + static_cast<int>(random.below(100)); });
      stage.memory = random.maybe([&] { return random.below(std::int64_t{1} << 62); });
      return stage;
    });
  }
  answer.input_hash = random.coin() ? "9f86d081884c7d65" : "";
  answer.objective = random.coin() ? "slowest_stage" : "";
  answer.slowest_ms = random.maybe([&] { return random.number(); });
  answer.num_devices = random.maybe([&] { return 1 + static_cast<int>(random.below(100)); });
  answer.certificate = random.maybe([&] {
    return Certificate{1 + random.fraction(), random.maybe([&] { return random.fraction(); }),
                       parse_proof(random.name())};
  });
  if (random.coin()) {
    answer.provenance =
        Provenance{"1", {{random.name(), "x"}}, {{random.name(), random.name()}}, 7, "12"};
  }
  answer.warnings = random.list(2, [&] {
    return Warning{random.name(), random.name(), random.name()};
  });
  answer.explanation = random.maybe([&] { return random_no_plan(random); });
  return answer;
}

}  // namespace plimsoll::io
