#include "partition/throughput/placement_bounds.h"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <utility>
#include <vector>

#include "core/effort_clock.h"
#include "core/rounding.h"
#include "partition/graph/assignment_figures.h"
#include "partition/graph/downsets.h"
#include "partition/graph/group_absorption.h"
#include "partition/graph/group_cut.h"
#include "partition/graph/shared_work.h"
#include "partition/throughput/packing_bound.h"
#include "partition/throughput/placement_program.h"
#include "partition/throughput/share_bound.h"

namespace plimsoll::partition {
namespace {

using Clock = std::chrono::steady_clock;

constexpr double kLargestGoal = 1.5;        // of shares, over the bound so far
constexpr int kMaxProgramColumns = 20'000;  // groups and nets times devices

Bytes cap_of(const DeviceKind& kind) {
  return kind.memory_cap.value_or(std::numeric_limits<Bytes>::max());
}

Explanation explain(std::string binding, Bytes missing, std::string line) {
  Explanation explanation;
  explanation.binding = std::move(binding);
  explanation.missing = missing;
  explanation.lines.push_back(std::move(line));
  return explanation;
}

class Bounder {
 public:
  Bounder(const CostGraph& graph, const PlacementBoundOptions& options, const RunContext& context)
      : graph_(graph), options_(options), context_(context), groups_(make_colour_groups(graph)) {}

  ThroughputBound run() {
    if (find_no_device() || find_no_room()) return std::move(bound_);
    const bool is_late = is_stopped(context_);
    std::vector<int> merged_of;
    if (!is_late && graph_.pair_rates.empty())
      groups_ = absorb_unordered_groups(groups_, merged_of);
    if (options_.rules.uses_work) {
      raise(shared_work(groups_), ProofKind::kSharedWork);
    }
    if (is_late) return std::move(bound_);
    if (options_.rules.uses_packing && !is_met()) {
      const double shared = shared_work(groups_);
      const double packed = packing_bound(groups_, shared, options_.goal);
      if (packed > shared) raise(packed, ProofKind::kPackedWork);
    }
    if (options_.rules.uses_groups && !is_met()) bound_by_groups();
    if (options_.rules.uses_shares && !is_met()) bound_by_shares();
    if (options_.program_time_limit_s && !is_met()) bound_by_programs();
    return std::move(bound_);
  }

 private:
  bool is_met() const { return bound_.lower_bound >= options_.goal / (1 + options_.tolerance); }
  void raise(double value, ProofKind proof) {
    if (value <= bound_.lower_bound && bound_.proof != ProofKind::kNone) return;
    bound_.lower_bound = std::max(value, bound_.lower_bound);
    bound_.proof = proof;
  }

  bool find_no_device() {
    for (int g = 0; g < groups_.num_groups(); ++g) {
      const int node = groups_.nodes[g].front();
      bool is_allowed = false;
      for (const auto& times : groups_.time_ms) is_allowed |= times[g] < kUnlimited;
      if (is_allowed) continue;
      bound_.is_infeasible = true;
      bound_.proof = ProofKind::kNoDeviceForGroup;
      bound_.explanation =
          explain("permissions", 0,
                  "no device may run " + place_of(graph_, node) + " and all nodes of its colour");
      return true;
    }
    return false;
  }

  // A group with all its weights on the roomiest of its devices; all bytes on all devices.
  bool find_no_room() {
    const auto weights_of = weights_of_groups(groups_);
    Bytes total = 0;
    for (int g = 0; g < groups_.num_groups(); ++g) {
      total += groups_.memory[g];
      Bytes needed = groups_.memory[g];
      for (const int w : weights_of[g]) needed += groups_.weights[w].bytes;
      Bytes room = 0;
      for (int k = 0; k < groups_.num_kinds(); ++k) {
        if (groups_.time_ms[k][g] < kUnlimited) room = std::max(room, cap_of(groups_.kinds[k]));
      }
      if (needed <= room) continue;
      bound_.is_infeasible = true;
      bound_.proof = ProofKind::kGroupTooLarge;
      bound_.explanation =
          explain("memory", needed - room,
                  place_of(graph_, groups_.nodes[g].front()) + " and its colour hold " +
                      std::to_string(needed) + " bytes with their weights, " +
                      std::to_string(needed - room) + " more than any device that may run them");
      return true;
    }
    for (const GroupWeight& weight : groups_.weights) total += weight.bytes;
    Int128 room = 0;
    for (const DeviceKind& kind : groups_.kinds) {
      room +=
          Int128{static_cast<std::int64_t>(kind.devices.size())} * std::min(cap_of(kind), total);
    }
    if (room >= total) return false;
    const Bytes missing = static_cast<Bytes>(total - room);
    bound_.is_infeasible = true;
    bound_.proof = ProofKind::kAllBytes;
    bound_.explanation =
        explain("memory", missing,
                "all nodes and weights hold " + std::to_string(total) + " bytes, " +
                    std::to_string(missing) + " more than all devices together");
    return true;
  }

  void bound_by_groups() {
    raise(heaviest_group_bound(groups_, options_.max_cuts, options_.goal, context_),
          ProofKind::kHeaviestGroup);
  }

  void bound_by_shares() {
    const double proved = bound_.lower_bound;
    if (!(proved > 0) || proved == kUnlimited) return;
    raise(
        partition::bound_by_shares(groups_, proved, std::min(options_.goal, kLargestGoal * proved),
                                   options_.max_share_steps, context_),
        ProofKind::kSharedTransfers);
  }

  double seconds_left() const {
    double left = *options_.program_time_limit_s -
                  std::chrono::duration<double>(Clock::now() - start_).count();
    if (context_.deadline) {
      left =
          std::min(left, std::chrono::duration<double>(*context_.deadline - Clock::now()).count());
    }
    return context_.is_cancelled() ? 0 : left;
  }

  void bound_by_programs() {
    start_ = Clock::now();
    const auto size = static_cast<double>(groups_.nodes.size() + groups_.nets.size());
    const double cutoff = options_.goal / (1 + options_.tolerance / 2);
    if (options_.rules.uses_block && size <= kMaxProgramColumns) {
      const double least = shared_work(groups_);
      double bound = kUnlimited;
      for (int k = 0; k < groups_.num_kinds() && seconds_left() > 0; ++k) {
        const double seconds = seconds_left() / 2;
        bound =
            std::min(bound, solve_block_program(groups_, k, least, cutoff, seconds).lower_bound);
      }
      if (bound < kUnlimited) {
        raise(bound * (1 - kRounding), ProofKind::kLoadWithShare);
      }
    }
    if (is_met() || !options_.rules.uses_program || seconds_left() <= 0 ||
        size * graph_.num_devices() > kMaxProgramColumns) {
      return;
    }
    const ProgramAnswer answer = solve_placement_program(groups_, cutoff, seconds_left());
    if (answer.lower_bound < kUnlimited) {
      raise(answer.lower_bound, ProofKind::kPlacementProgram);
    }
    if (!answer.device.empty()) keep(answer.device);
  }

  void keep(const std::vector<int>& device) {
    DeviceAssignment plan;
    plan.device.resize(graph_.nodes.size());
    for (int g = 0; g < groups_.num_groups(); ++g) {
      for (const int node : groups_.nodes[g]) plan.device[node] = device[g];
    }
    if (!fits_caps(graph_, plan)) return;
    if (largest_load(graph_, plan) < options_.goal) bound_.plan = std::move(plan);
  }

  const CostGraph& graph_;
  const PlacementBoundOptions& options_;
  const RunContext& context_;
  GroupGraph groups_;
  ThroughputBound bound_;
  Clock::time_point start_;
};

}  // namespace

Result<ThroughputBound> bound_placement(const CostGraph& graph,
                                        const PlacementBoundOptions& options,
                                        const RunContext& context) {
  PLIMSOLL_RETURN_IF_ERROR(validate(graph));
  if (!(options.goal > 0) || !(options.tolerance >= 0) || options.max_cuts < 1 ||
      options.max_share_steps < 0 ||
      (options.program_time_limit_s && !(*options.program_time_limit_s > 0))) {
    return fail(ErrorCode::kUsage, "placement bound options",
                "a goal, tolerance, limit or number of cuts outside its range",
                "give a goal and a limit above 0, a tolerance of at least 0 and at least 1 cut");
  }
  return Bounder(graph, options, context).run();
}

}  // namespace plimsoll::partition
