#include "partition/pipeline/lone_operators.h"

#include <algorithm>
#include <limits>
#include <string>

namespace plimsoll::partition {

Explanation explain_lone_operators(const PipelineModel& model) {
  Explanation explanation;
  for (int op = 0; op < model.num_operators(); ++op) {
    Bytes least = std::numeric_limits<Bytes>::max();
    for (const TensorParallelChoices& degree : model.operators[op].degrees) {
      if (degree.degree > model.num_devices) continue;
      for (const OperatorVariant& choice : degree.choices) {
        least = std::min(least, choice.per_microbatch + choice.memory);
      }
    }
    if (least == std::numeric_limits<Bytes>::max()) {
      explanation.binding = "devices";
      explanation.lines.push_back(place_of(model, op) +
                                  " needs a tensor-parallel degree of more than " +
                                  std::to_string(model.num_devices) + " devices");
    } else if (model.memory_cap && least > *model.memory_cap) {
      explanation.binding = "memory";
      explanation.missing = std::max(explanation.missing, least - *model.memory_cap);
      explanation.lines.push_back(place_of(model, op) + " alone needs " + format_bytes(least) +
                                  " on a device, with one microbatch in flight");
    }
  }
  return explanation;
}

}  // namespace plimsoll::partition
