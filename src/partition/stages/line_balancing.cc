#include "partition/stages/line_balancing.h"

#include <algorithm>
#include <limits>
#include <unordered_map>

#include "core/rounding.h"
#include "partition/graph/node_set.h"

namespace plimsoll::partition {
namespace {

// How a downset is best done.
struct Way {
  int stations = std::numeric_limits<int>::max();
  double last_ms = 0;  // of the last station
  int from = -1;       // the downset before
  int group = -1;      // what came last
};

}  // namespace

// Breadth first, so that downsets come by their number of groups.
ChainStop LineBalancer::find_downsets(std::int64_t max_downsets, const RunContext& context) {
  const auto num_groups = static_cast<std::size_t>(groups_.num_groups());
  std::vector<NodeSet> before(num_groups, NodeSet(num_groups));
  for (std::size_t g = 0; g < num_groups; ++g) {
    for (const int p : groups_.predecessors[g]) before[g].insert(static_cast<std::size_t>(p));
  }
  std::vector<NodeSet> level{NodeSet(num_groups)};  // downsets of one size
  std::vector<std::vector<int>> ready(1);           // [level] groups that may come next, ascending
  for (int g = 0; g < groups_.num_groups(); ++g) {
    if (groups_.predecessors[g].empty()) ready[0].push_back(g);
  }
  num_downsets_ = 1;
  first_step_.assign(1, 0);
  std::unordered_map<NodeSet, int, NodeSetHash> number;  // of the next level
  while (!level.empty()) {
    std::vector<NodeSet> next_level;
    std::vector<std::vector<int>> next_ready;
    number.clear();
    const std::int64_t first = num_downsets_;
    for (std::size_t i = 0; i < level.size(); ++i) {
      if (i % 256 == 0 && context.is_cancelled()) return ChainStop::kCancelled;
      if (i % 256 == 0 && context.is_past_deadline()) return ChainStop::kDeadline;
      for (const int g : ready[i]) {
        NodeSet larger = level[i];
        larger.insert(static_cast<std::size_t>(g));
        const auto [place, is_new] =
            number.try_emplace(std::move(larger), static_cast<int>(next_level.size()));
        steps_.push_back({static_cast<int>(first) + place->second, g});
        if (!is_new) continue;
        if (++num_downsets_ > max_downsets) return ChainStop::kEffort;
        next_level.push_back(place->first);
        auto& list = next_ready.emplace_back();
        for (const int other : ready[i]) {
          if (other != g) list.push_back(other);
        }
        for (const int other : groups_.successors[g]) {
          if (before[other].is_within(place->first)) list.push_back(other);
        }
        std::sort(list.begin(), list.end());
        list.erase(std::unique(list.begin(), list.end()), list.end());
      }
      first_step_.push_back(static_cast<std::int64_t>(steps_.size()));
    }
    level = std::move(next_level);
    ready = std::move(next_ready);
  }
  return ChainStop::kFinished;
}

std::optional<std::vector<int>> LineBalancer::find(double limit, int max_stations) const {
  const double most = limit * (1 + kFineRounding);
  const std::vector<double>& time_ms = groups_.time_ms[0];
  std::vector<Way> ways(static_cast<std::size_t>(num_downsets_));
  ways[0].stations = 0;
  for (std::size_t set = 0; set < ways.size(); ++set) {
    const Way way = ways[set];
    if (way.stations > max_stations) continue;
    for (auto s = first_step_[set]; s < first_step_[set + 1]; ++s) {
      const Step& step = steps_[static_cast<std::size_t>(s)];
      const double time = time_ms[step.group];
      int stations = way.stations;
      double last_ms = way.last_ms + time;
      if (stations == 0 || last_ms > most) {
        ++stations;
        last_ms = time;
      }
      Way& known = ways[static_cast<std::size_t>(step.to)];
      if (time > most || stations > known.stations ||
          (stations == known.stations && last_ms >= known.last_ms)) {
        continue;
      }
      known = {stations, last_ms, static_cast<int>(set), step.group};
    }
  }
  if (ways.back().stations > max_stations) return std::nullopt;
  std::vector<int> station_of(groups_.nodes.size());
  for (auto set = static_cast<int>(num_downsets_) - 1; set > 0;
       set = ways[static_cast<std::size_t>(set)].from) {
    const Way& way = ways[static_cast<std::size_t>(set)];
    station_of[way.group] = way.stations - 1;
  }
  return station_of;
}

}  // namespace plimsoll::partition
