#include "partition/assignment/multilevel.h"

#include <algorithm>
#include <iterator>
#include <numeric>

#include "partition/assignment/annealing.h"
#include "partition/graph/downsets.h"

namespace plimsoll::partition {
namespace {

constexpr int kCoarsest = 30;             // groups; fewer are not matched
constexpr double kLeastShrinking = 0.95;  // a level that shrinks less is the last
constexpr std::size_t kMaxRatedNet =
    50;  // groups; larger nets say little about who belongs together
constexpr double kMaxClusterShare = 0.5;  // of the work of an average device
// The benchmark's operator graphs want it hot, its layer graphs cold: every cycle is one of them.
constexpr double kHot[] = {0.01, 0.003, 0.03, 0.001};
constexpr double kCold = 1e-5;
constexpr double kProgress = 1e-9;  // relative; less is rounding
constexpr double kSwapShare = 0.2;

// Pairs groups of one device by the heaviest nets between them. [num_groups] the pair's number, in
// the order of its smaller group.
std::vector<int> match(const GroupGraph& groups, const std::vector<int>& device, double max_work,
                       SplitMix64& random, int& num_clusters) {
  const std::vector<std::vector<int>> nets_of = nets_of_groups(groups);
  const std::vector<double> work = work_of_groups(groups);
  std::vector<int> order(groups.nodes.size());
  std::iota(order.begin(), order.end(), 0);
  for (int i = 1; i < groups.num_groups(); ++i) std::swap(order[i], order[random.below(i + 1)]);
  std::vector<int> mate(groups.nodes.size(), -1);
  std::vector<double> rating(groups.nodes.size());
  std::vector<int> rated;
  for (const int g : order) {
    if (mate[g] >= 0) continue;
    rated.clear();
    for (const int n : nets_of[g]) {
      const auto& pins = groups.nets[n].groups;
      if (pins.size() > kMaxRatedNet) continue;
      for (const int other : pins) {
        if (other == g || mate[other] >= 0 || device[other] != device[g]) continue;
        if (rating[other] == 0) rated.push_back(other);
        rating[other] += groups.nets[n].amount / static_cast<double>(pins.size() - 1);
      }
    }
    int best = -1;
    for (const int other : rated) {
      if (work[g] + work[other] <= max_work && (best < 0 || rating[other] > rating[best])) {
        best = other;
      }
    }
    for (const int other : rated) rating[other] = 0;
    if (best < 0) continue;
    mate[g] = best;
    mate[best] = g;
  }
  num_clusters = 0;
  std::vector<int> cluster_of(groups.nodes.size(), -1);
  for (int g = 0; g < groups.num_groups(); ++g) {
    if (cluster_of[g] >= 0) continue;
    cluster_of[g] = num_clusters++;
    if (mate[g] >= 0) cluster_of[mate[g]] = cluster_of[g];
  }
  return cluster_of;
}

struct Level {
  GroupGraph groups;
  std::vector<int> cluster_of;  // [groups of the next finer level]
};

std::vector<Level> coarsen(const GroupGraph& groups, std::vector<int> device, double max_work,
                           SplitMix64& random, const RunContext& context) {
  std::vector<Level> levels;
  const GroupGraph* finest = &groups;
  while (finest->num_groups() > kCoarsest && !context.is_past_deadline()) {
    int num_clusters = 0;
    std::vector<int> cluster_of = match(*finest, device, max_work, random, num_clusters);
    if (num_clusters > kLeastShrinking * finest->num_groups()) break;
    std::vector<int> coarse(static_cast<std::size_t>(num_clusters));
    for (std::size_t g = 0; g < device.size(); ++g) coarse[cluster_of[g]] = device[g];
    device = std::move(coarse);
    GroupGraph merged = merge_groups(*finest, cluster_of, num_clusters);
    levels.push_back({std::move(merged), std::move(cluster_of)});
    finest = &levels.back().groups;
  }
  return levels;
}

}  // namespace

void refine(const GroupGraph& groups, const std::vector<std::vector<double>>& pair_rates,
            const MultilevelOptions& options, SplitMix64& random, const RunContext& context,
            std::int64_t& moves_left, std::vector<int>& device) {
  const LoadModel finest(groups, pair_rates);
  const std::vector<double> work = work_of_groups(groups);
  const double max_work =
      kMaxClusterShare * std::accumulate(work.begin(), work.end(), 0.0) / finest.num_devices();
  const LoadState start(finest, device);
  Int128 excess = start.excess();
  double load = start.largest_load();
  AssignmentAnnealing annealing;
  annealing.cold = kCold;
  annealing.swap_share = options.uses_swaps ? kSwapShare : 0;
  annealing.position = options.position;
  std::size_t cycle = 0;
  for (int idle = 0; idle < options.num_idle_cycles && moves_left > 0; ++idle) {
    if (context.is_cancelled() || context.is_past_deadline()) return;
    annealing.hot = kHot[cycle++ % std::size(kHot)];
    std::vector<Level> levels;
    if (options.uses_clusters) levels = coarsen(groups, device, max_work, random, context);
    std::vector<int> current = device;
    for (const Level& level : levels) {
      std::vector<int> coarse(level.groups.nodes.size());
      for (std::size_t g = 0; g < current.size(); ++g) coarse[level.cluster_of[g]] = current[g];
      current = std::move(coarse);
    }
    for (std::size_t l = levels.size() + 1; l-- > 0;) {
      const LoadModel model(l == 0 ? groups : levels[l - 1].groups, pair_rates);
      annealing.num_moves = std::min<std::int64_t>(
          std::max<std::int64_t>(0, moves_left),
          std::int64_t{options.moves_per_group} * model.groups().num_groups());
      moves_left -= annealing.num_moves;
      anneal(model, annealing, random, context, current);
      if (l == 0) break;
      std::vector<int> fine(levels[l - 1].cluster_of.size());
      for (std::size_t g = 0; g < fine.size(); ++g) fine[g] = current[levels[l - 1].cluster_of[g]];
      current = std::move(fine);
    }
    const LoadState end(finest, current);
    const Int128 new_excess = end.excess();
    const double new_load = end.largest_load();
    if (new_excess > excess || (new_excess == excess && new_load > load)) continue;
    if (new_excess < excess || new_load < load * (1 - kProgress)) idle = -1;
    device = std::move(current);
    excess = new_excess;
    load = new_load;
    if (idle < 0 && options.on_better && options.on_better(device)) return;
  }
}

}  // namespace plimsoll::partition
