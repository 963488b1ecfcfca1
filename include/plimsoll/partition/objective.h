// What a placement of operators minimizes.
#pragma once

#include <string_view>

#pragma GCC visibility push(default)
namespace plimsoll::partition {

enum class Objective {
  kThroughput,  // the largest load of a device: time per sample of a saturated pipeline
  kLatency,     // the time of one sample
  kPipeline,    // the time of a batch of microbatches: their sum through the stages
  kFx,          // torch.fx's critical path
};
std::string_view to_string(Objective objective);  // "throughput"

}  // namespace plimsoll::partition
#pragma GCC visibility pop
