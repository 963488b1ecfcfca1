// A model as a pipeline of replicated stages sees it: operators that may run tensor-parallel and
// may recompute, what travels between them, and equal devices.
//
// A stage is a set of operators on d * t devices: t devices share every operator, and d such groups
// are replicas that take turns with the microbatches. A stage of n microbatches a batch takes, for
// one of them,
//   sum time / d                                        its operators' own time
//   + sum over cut edges 2 (bytes + sync) / (d b)       there and back, at both of its ends
//   + sum 4 (d - 1) parameters / (d n b)                replicas agree on their gradients
// and each of its devices holds sum (per_microbatch * y + memory) with y = ceil(s / d) microbatches
// in flight, s being the sum of d over this stage and all later ones. Where n is absent replicas
// agree after every round, n = d; then any d may be chosen, else only divisors of n.
//
// Piper's model is this one. PipeDream's is the one of a single choice with time = forward +
// backward, no n, free edges, per_microbatch = activation + parameters and memory = -per_microbatch
// (it counts the microbatches of later stages alone). Sources:
// docs/mathematics/placements.md#pipedream, docs/mathematics/placements.md#piper.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "plimsoll/core/result.h"
#include "plimsoll/core/units.h"

#pragma GCC visibility push(default)
namespace plimsoll::partition {

// One way to run an operator; figures are of one of the t devices.
struct OperatorVariant {
  std::string name;          // unique among the choices of a degree, such as "vanilla"
  double time_ms = 0;        // >= 0, of a microbatch, forward and backward
  Bytes parameters = 0;      // >= 0, what replicas agree on
  Bytes per_microbatch = 0;  // >= 0, held for each microbatch in flight
  Bytes memory = 0;          // >= -per_microbatch, held besides
  // [num edges that touch the operator] >= 0, in the order of edges: bytes that t devices gather or
  // scatter where that edge is cut. Empty: none.
  std::vector<double> sync;
  bool operator==(const OperatorVariant&) const = default;
};

struct TensorParallelChoices {
  int degree = 1;                        // >= 1
  std::vector<OperatorVariant> choices;  // at least one
  bool operator==(const TensorParallelChoices&) const = default;
};

struct PipelineOperator {
  std::string name;                            // for people: may be empty or occur twice
  std::vector<TensorParallelChoices> degrees;  // ascending; a degree not listed is impossible
  bool operator==(const PipelineOperator&) const = default;
};

struct PipelineEdge {
  int source = 0, dest = 0;
  double bytes = 0;  // >= 0, of a microbatch
  bool operator==(const PipelineEdge&) const = default;
};

struct PipelineModel {
  std::vector<PipelineOperator> operators;
  std::vector<PipelineEdge> edges;
  int num_devices = 1;                  // >= 1
  std::optional<Bytes> memory_cap;      // >= 0, of one device; absent: no limit
  double bandwidth = 1;                 // > 0, bytes a ms
  std::optional<int> num_microbatches;  // >= 1, in a batch: the replicas of all stages together

  int num_operators() const { return static_cast<int>(operators.size()); }
  bool operator==(const PipelineModel&) const = default;
};

inline constexpr int kMaxPipelineDevices = 1 << 16;

// Errors, at "operator 3 'conv'", "edge 7" or a field's name. kValue: a number outside its range or
// no number, no operator, an operator that does not exist; kSchema: sync for another number of
// edges; kOverflow: bytes in flight that may exceed 63 bits; kConflict: a degree, choice or edge
// twice, degrees out of order, edges in a cycle.
Result<void> validate(const PipelineModel& model);

// "operator 3 'conv'", or "operator 3" where it has no name.
std::string place_of(const PipelineModel& model, int op);

// The edges that touch each operator, in the order of edges. [num_operators]
std::vector<std::vector<int>> edges_of_operators(const PipelineModel& model);

// The choices of a degree; null where the operator does not know it.
const std::vector<OperatorVariant>* find_choices(const PipelineOperator& op, int degree);

}  // namespace plimsoll::partition
#pragma GCC visibility pop
