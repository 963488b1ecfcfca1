// PipeDream's profiles, and its optimizer as published.
//
// Problem. Cut a profiled model into stages and replicate each over some of n equal machines, so
// that the slowest stage is fast; machines may stand in levels (GPUs in a server, servers in a
// cluster), each level with a bandwidth of its own. Method. States are antichains of the graph
// (after inputs and unread `__getitem__` are gone), each the end of a downset; dynamic programming
// over (first state, last state, machines) for each level, innermost first, the time of a whole
// level being the next one's compute time. Cost. O(states^2 * machines^2) for one level, states
// times that below the outermost. Promises. The published program's time per stage, as far as its
// sums are determined (it adds up in the order of a hash). Its quirks, which plan_pipeline() does
// not share:
//  - a stage that is not the first one does not divide its synchronisation by the machines of the
//  level below;
//  - several levels compare downsets that do not contain each other, and subtract their sums;
//  - an antichain is charged the outputs that another branch has already consumed (compression
//  only);
//  - operators that only later inputs reach are not the end of a stage, as states grow from the
//  first source;
//  - a graph of one state is never run on fewer machines, even where that is allowed;
//  - memory counts the microbatches of the machines behind a stage, not its own.
// Source: D. Narayanan et al., "PipeDream: generalized pipeline parallelism for DNN training", SOSP
// 2019, https://doi.org/10.1145/3341301.3359646, and its optimizer:
// docs/mathematics/placements.md#pipedream.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "plimsoll/core/outcome.h"
#include "plimsoll/core/result.h"
#include "plimsoll/core/units.h"
#include "plimsoll/partition/pipeline_model.h"

namespace plimsoll::partition {

struct PipeDreamNode {
  std::string id;                        // unique
  std::string description;               // such as "Conv2d(3, 64)"
  double forward_ms = 0;                 // >= 0
  double backward_ms = 0;                // >= 0
  std::vector<Bytes> activations = {0};  // >= 0 each; several: the parts of a tuple
  Bytes parameters = 0;                  // >= 0
  std::optional<int> stage;              // >= 0
  bool operator==(const PipeDreamNode&) const = default;
};

struct PipeDreamProfile {
  std::vector<PipeDreamNode> nodes;
  std::vector<std::pair<int, int>> edges;  // from, to
  bool operator==(const PipeDreamProfile&) const = default;
};

// Errors, at "node 3 'node7'" or "edge 7". kValue: numbers outside their ranges, no node, an edge
// to nowhere; kConflict: an id or edge twice, a cycle; kOverflow: bytes that exceed 63 bits.
Result<void> validate(const PipeDreamProfile& profile);

// What is left after the optimizer's preparation: without sources whose description starts with
// "Input", then without sinks whose description starts with "__getitem__". [kept] ascending
std::vector<int> kept_nodes(const PipeDreamProfile& profile);

// The profile as a pipeline model: operator i is node kept_nodes()[i]; no cap, edges free.
// Precondition: a valid profile that keeps a node, bandwidth > 0.
PipelineModel make_pipeline_model(const PipeDreamProfile& profile, int num_devices,
                                  double bytes_per_ms);

struct PipeDreamLevel {
  int num_machines = 1;                // >= 1
  double bandwidth = 1'000'000'000.0;  // > 0, bytes a second
};

struct PipeDreamOptions {
  std::vector<PipeDreamLevel> levels = {PipeDreamLevel{}};  // at least one, innermost first
  std::optional<double> memory;                        // >= 0 bytes of a machine; absent: no test
  std::optional<double> activation_compression_ratio;  // > 0; absent: moving activations is free
  bool straight_pipeline = false;                      // no replicas within a level
  bool use_fewer_machines = false;
  std::int64_t max_states = 4096;  // >= 1
};

struct PipeDreamStage {
  std::vector<int> nodes;  // ascending; may be empty where the sums of several levels make it so
  int replicas = 1;
  bool operator==(const PipeDreamStage&) const = default;
};

struct PipeDreamPlan {
  std::vector<PipeDreamStage> stages;  // in the direction of data; inputs stand in the first one
  bool operator==(const PipeDreamPlan&) const = default;
};

struct PipeDreamAnswer {
  Outcome<PipeDreamPlan> outcome;  // objective: time of the slowest stage in ms; never a bound
  std::int64_t num_states = 0;     // found before max_states ended the search
};

// Errors: as validate() says; kUsage for options outside their ranges.
Result<PipeDreamAnswer> plan_like_pipedream(const PipeDreamProfile& profile,
                                            const PipeDreamOptions& options);

}  // namespace plimsoll::partition
