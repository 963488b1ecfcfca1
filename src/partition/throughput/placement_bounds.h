// Lower bounds on the largest load of any placement, contiguous or not.
//
// Problem. The largest load over devices of time plus moved nets, as in general_placement.h: from
// below.
// Method. The greatest of these, cheap ones first:
//   work       all work, each group at its fastest, shared out over what all devices do in a ms
//   packing    the same where groups are not cut into pieces: bin packing with a largest load as
//   the
//              bins' size, by functions that keep what fits (dual feasible functions)
//   group      a device that runs group g runs some set S with g in it and is loaded with at least
//              time(S) + cut(S). Both are submodular, so the least such load over all S is a
//              minimum cut, with every net as two vertices; the greatest over g counts
//   shares     where all loads stay within T, each group bears at least a share of what its device
//              moves; work and shares beside what all devices do at T (share_bound.h)
//   block      some device spends at least the work bound in computing: the least load of a set of
//              groups that does, as a mixed-integer program with one block (guess the bottleneck)
//   program    the whole placement as a mixed-integer program: x[group, device], one variable for
//              each net and device that is 1 where the device holds a part of the net, ordered
//              loads of equal devices. Its bound counts where a limit ends it
// And proofs that nothing fits: a group that no device may run or hold, or all bytes in less room.
// Cost. Minimum cuts of the groups whose load alone, with all its nets, exceeds the bound so far;
// the programs are worth their time up to some hundred groups, and are left out without a limit.
// Promises. Never above the optimum (to rounding of 1e-9, of the programs 1e-6 relative); the proof
// names the bound that gave it.
// [1] A. Archer, M. Fahrbach, K. Liu, P. Prabhu, "Practical performance guarantees for pipelined
//     DNN inference", ICML 2024, https://arxiv.org/abs/2311.03703.
// [2] E. L. Lawler, "Cutsets and partitions of hypergraphs", Networks 3, 1973,
// https://doi.org/10.1002/net.3230030306.
#pragma once

#include <cstdint>
#include <limits>
#include <optional>
#include <string>

#include "plimsoll/core/outcome.h"
#include "plimsoll/core/proof.h"
#include "plimsoll/core/result.h"
#include "plimsoll/core/run_context.h"
#include "plimsoll/partition/cost_graph.h"
#include "plimsoll/partition/device_assignment.h"

namespace plimsoll::partition {

// Each only adds a bound.
inline constexpr std::int64_t kShareSteps = 400'000'000;

struct PlacementBoundRules {
  bool uses_work = true;
  bool uses_packing = true;
  bool uses_groups = true;
  bool uses_shares = true;
  bool uses_block = true;    // where programs are allowed at all
  bool uses_program = true;  // the same
};

struct PlacementBoundOptions {
  double goal = std::numeric_limits<double>::infinity();  // > 0; a bound that reaches it ends it
  double tolerance = 1e-6;                                // >= 0, relative, of reaching the goal
  // > 0, of all programs together; absent: no programs. Deadlines of the context count too.
  std::optional<double> program_time_limit_s;
  std::int64_t max_cuts = 256;  // >= 0; minimum cuts for the group bound
  // >= 0; arcs looked at in the minimum cuts of the bound by shares.
  std::int64_t max_share_steps = kShareSteps;
  PlacementBoundRules rules;
};

struct ThroughputBound {
  double lower_bound = 0;
  ProofKind proof = ProofKind::kNone;  // which of the bounds above
  bool is_infeasible = false;          // proved; then nothing above counts but the explanation
  Explanation explanation;
  std::optional<DeviceAssignment> plan;  // better than the goal, where the program met one
};

// Errors: as validate() says; kUsage for options outside their ranges.
Result<ThroughputBound> bound_placement(const CostGraph& graph,
                                        const PlacementBoundOptions& options = {},
                                        const RunContext& context = {});

}  // namespace plimsoll::partition
