// Placements of experts whose slowest ranks carry little: a search, from nothing or from a
// placement that stands.
//
// Problem. expert_model.h; the sum over layers of the load of the slowest rank is least. NP-hard.
// Method. Layer by layer, from EPLB's placement (eplb.h), and from the same with groups swapped
// between hosts until their loads are even. Two replicas change ranks, or a slot takes another
// expert, wherever the slowest rank gets lighter; random exchanges leave what is left, and the best
// is kept. From a placement that stands, the same from where it stands with no more replicas copied
// than a limit; ranks of the fresh placement are renamed as those that hold most of what they ask
// for. Cost. Effort counts candidates. Promises. Never above EPLB's, layer by layer, without a
// limit of copies. A function of model, options and seed. Bound: least_load. Source:
// docs/experts.md.
#pragma once

#include <cstdint>
#include <optional>

#include "plimsoll/core/outcome.h"
#include "plimsoll/core/result.h"
#include "plimsoll/core/run_context.h"
#include "plimsoll/experts/expert_model.h"

#pragma GCC visibility push(default)
namespace plimsoll::experts {

// Candidates of a layer's search where `effort` is not given.
inline constexpr std::int64_t kExpertEffort = 20'000'000;

// Errors: those of validate.
Result<Outcome<ExpertPlan>> place_experts(const ExpertModel& model,
                                          const SearchOptions& search = {},
                                          const RunContext& context = {});

struct ExpertReplan {
  Outcome<ExpertPlan> outcome;
  std::int64_t moved = 0;             // replicas copied to a rank that does not hold the expert
  std::optional<double> before_load;  // of the old plan, where it may be kept
  double fresh_load = 0;
  std::int64_t fresh_moved = 0;
};

// `max_moved` >= 0, over all layers. Errors: those of validate; kValue at "before": a plan of
// another number of layers or experts.
Result<ExpertReplan> replan_experts(const ExpertModel& model, const ExpertPlan& before,
                                    std::int64_t max_moved, const SearchOptions& search = {},
                                    const RunContext& context = {});

}  // namespace plimsoll::experts
#pragma GCC visibility pop
