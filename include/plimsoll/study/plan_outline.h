// Any plan in one form: what it decides of every part, and what every place has to do and to hold.
//
// A part is a table, a checkpointing unit or an operator; a place a rank, a device, a stage, or a
// module whose backward pass runs. Comparing, drawing and reporting read outlines, so that they
// serve all planners alike.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "plimsoll/core/outcome.h"
#include "plimsoll/study/checkpoint_answer.h"
#include "plimsoll/study/placement_answer.h"
#include "plimsoll/study/sharding_answer.h"

#pragma GCC visibility push(default)
namespace plimsoll::study {

struct PipelineAnswer;  // of a profile (study/partition/pipeline_answer.h)

enum class PlanKind { kSharding, kCheckpointing, kPlacement, kPipeline };
std::string_view to_string(PlanKind kind);  // "sharding", "checkpointing", "placement", "pipeline"

struct PlanPart {
  std::string name;  // unique in the plan
  // By name of the choice: "sharding_type", "compute_kernel", "ranks", "shards", "settings";
  // "kind", "discard_ratio", "recomputed"; "devices"; "stage", "choice".
  std::map<std::string, std::string> choices;
  std::vector<embedding::RankRun> places;  // indices into `places`; empty: none in particular
  bool operator==(const PlanPart&) const = default;
};

// What device `from` sends device `to` for one sample or microbatch, as the graph counts it.
struct PlanLink {
  int from = 0, to = 0;
  double amount = 0;
  bool operator==(const PlanLink&) const = default;
};

struct PlanOutline {
  PlanKind kind = PlanKind::kSharding;
  std::vector<PlanPart> parts;            // in the plan's order
  std::vector<std::string> places;        // "rank 0", "device 2", "stage 1", or a module
  Bill bill;                              // [places] each; empty where the plan states no figures
  std::map<std::string, double> figures;  // "rating", "lower_bound_of_rating", "peak_bytes", ...
  std::vector<PlanLink> links;            // of placements, ascending
  int ranks_per_host = 0;                 // of sharding plans; 0: not known
};

// What the answer says, and nothing else. Error kValue, at "plan": the answer holds no plan.
Result<PlanOutline> outline_plan(const ShardingAnswer& answer);
Result<PlanOutline> outline_plan(const CheckpointAnswer& answer);
Result<PlanOutline> outline_plan(const PlacementAnswer& answer);
Result<PlanOutline> outline_plan(const PipelineAnswer& answer);

// What a place's causes add up to: "total" of milliseconds; of bytes the first of "hbm", "ddr",
// "ssd", "memory" and "needed" that is in use. Empty where the bill has none.
std::string_view total_ms_name(const PlanOutline& outline);
std::string_view total_bytes_name(const PlanOutline& outline);

// "0-3,7" of runs in their order; "all" where they are the ranks 0 to `world_size` - 1.
std::string ranks_text(const std::vector<embedding::RankRun>& ranks, std::int64_t world_size);

}  // namespace plimsoll::study
#pragma GCC visibility pop
