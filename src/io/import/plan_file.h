// A plan of whatever kind, parsed once and told by its tree.
#pragma once

#include <string>
#include <string_view>

#include "io/json/json_document.h"
#include "plimsoll/core/result.h"

namespace plimsoll::io {

enum class PlanFormat {
  kCheckpointPolicy,  // ours, of activations
  kPipelinePlan,      // ours, of a profile
  kPiperPlan,
  kStagedProfile,   // PipeDream's graph.txt, whose nodes have stages
  kPlacement,       // ours, of operators
  kPlacementSplit,  // of the placement benchmark
  kFxPartition,     // torch.fx's
  kShardingPlan,    // ours, TorchRec's or TorchEasyRec's; any document that is none of the others
};

struct PlanFile {
  PlanFormat format = PlanFormat::kShardingPlan;
  std::string name;
  std::string text;
  JsonValue root;  // of the formats that are JSON
};

// Error kSyntax.
Result<PlanFile> open_plan(std::string text, std::string name);

// Is it no plan, but what plans are of: a model, module statistics, an operator graph?
bool is_input(const PlanFile& plan);

// Is it a plan of a profile, or of an operator graph?
bool is_of_profile(PlanFormat format);
bool is_of_graph(PlanFormat format);

}  // namespace plimsoll::io
