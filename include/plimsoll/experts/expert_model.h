// Experts of a mixture-of-experts model and their loads; where replicas of them stand, and what a
// placement makes of the loads.
//
// Every layer has logical experts with loads (tokens). A rank has so many slots in every layer; a
// slot holds a replica of one expert, every expert has one at least, and its load is shared
// equally by its replicas. The slowest rank of a layer is what the layer waits for. Where the
// number of hosts divides that of groups of experts (group-limited routing), all replicas of a
// group's experts stand on one host, and every host takes equally many groups.
// Source: https://github.com/deepseek-ai/EPLB; docs/experts.md.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "plimsoll/core/result.h"

#pragma GCC visibility push(default)
namespace plimsoll::experts {

struct ExpertModel {
  std::string name;                        // for people
  std::vector<std::vector<double>> loads;  // [layers][experts] >= 0, finite
  int num_slots = 0;   // of a layer, over all ranks: a multiple of num_ranks, >= experts
  int num_groups = 1;  // of experts, in order; divides the experts
  int num_hosts = 1;   // >= 1; divides num_ranks
  int num_ranks = 1;   // >= 1
  bool operator==(const ExpertModel&) const = default;

  int num_layers() const { return static_cast<int>(loads.size()); }
  int num_experts() const { return loads.empty() ? 0 : static_cast<int>(loads.front().size()); }
  int slots_a_rank() const { return num_slots / num_ranks; }
  // Do groups stay on hosts? EPLB calls its policy hierarchical then, else global.
  bool keeps_groups() const { return num_hosts > 1 && num_groups % num_hosts == 0; }
};

inline constexpr int kMaxSlots = 1 << 16;  // of a layer

// Errors: kValue at "loads", "num_slots", "num_groups", "num_hosts", "num_ranks".
Result<void> validate(const ExpertModel& model);

// [layers][slots] the expert of every slot, rank by rank.
using ExpertSlots = std::vector<std::vector<int>>;

// Load of every rank in a layer. Precondition: slots of the model's shape.
std::vector<double> rank_loads(const ExpertModel& model, int layer, const std::vector<int>& slots);

// The largest of them.
double slowest_load(const ExpertModel& model, int layer, const std::vector<int>& slots);

// Replicas that a rank lacks where it held those of `before`. Ranks keep their numbers; `before`
// may have more or fewer of them, and as many slots a rank as divide its number.
std::int64_t count_moved(const std::vector<int>& before, int slots_a_rank_before,
                         const std::vector<int>& after, int slots_a_rank);

// A load that no placement of the layer has a slowest rank below: the most of the mean over ranks,
// of what the largest replica carries at least, and, where groups stay on hosts, of the mean over
// the ranks of the heaviest host (docs/experts.md#the-bound).
double least_load(const ExpertModel& model, int layer);

struct ExpertPlan {
  ExpertSlots slots;
  int num_ranks = 1;  // of its own machine
  bool operator==(const ExpertPlan&) const = default;
  int slots_a_rank() const {
    return slots.empty() ? 0 : static_cast<int>(slots.front().size()) / num_ranks;
  }
};

// The sum over layers of the slowest load. Precondition: slots of the model's shape.
double total_load(const ExpertModel& model, const ExpertSlots& slots);
// The sum over layers of least_load.
double total_bound(const ExpertModel& model);
// Over layers; of layers that both have.
std::int64_t count_moved(const ExpertPlan& before, const ExpertPlan& after);

// What is wrong with a plan for the model: a number of layers, slots or ranks, an expert that is
// missing or not there, a group on several hosts. Empty: nothing.
std::string find_fault(const ExpertModel& model, const ExpertPlan& plan);

}  // namespace plimsoll::experts
#pragma GCC visibility pop
