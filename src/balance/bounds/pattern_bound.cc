#include "balance/bounds/pattern_bound.h"

#include <algorithm>
#include <cmath>
#include <utility>
#include <vector>

namespace plimsoll::balance {
namespace {

constexpr double kApartTolerance = 1e-3;  // programs of hosts told apart: more of them tell more

// The class whose number of uniform units is farthest from a whole number.
void find_branch(const PatternModel& model, const RoomBound& bound, RoomAnswer& answer) {
  double best = 1e-4;
  for (std::size_t c = 0; c < model.classes.size(); ++c) {
    const double count = bound.num_uniform[c];
    const double off = std::abs(count - std::round(count));
    if (off <= best) continue;
    best = off;
    answer.branch = {static_cast<int>(c), -1, count};
  }
}

// Hosts of one kind as bins of their own, so that each may have limits of its own.
bool tell_hosts_apart(PatternModel& model, int max_hosts) {
  if (model.bins.size() != 1 || model.bins[0].host_kind < 0) return false;
  PatternBin& bin = model.bins[0];
  if (bin.count < 2 || bin.count > max_hosts) return false;
  const auto num_hosts = static_cast<std::size_t>(bin.count);
  bin.count = 1;
  model.bins.assign(num_hosts, PatternBin(bin));
  return true;
}

// The host whose blocks' load differs most between the contents that are mixed for it.
void find_host_branch(const PatternModel& model, const RoomBound& bound, double room,
                      const RoomLimits& limits, RoomAnswer& answer) {
  constexpr double kLeastSpread = 1e-3;  // of the room
  double best = kLeastSpread * room;
  for (std::size_t host = 0; host < model.bins.size(); ++host) {
    const double least = limits.least_blocks.empty() ? 0 : limits.least_blocks[host];
    const double most =
        limits.most_blocks.empty() ? room : std::min(room, limits.most_blocks[host]);
    std::vector<std::pair<double, double>> loads;  // and amounts
    double sum = 0;
    double amounts = 0;
    for (std::size_t p = 0; p < bound.patterns.size(); ++p) {
      const Pattern& pattern = bound.patterns[p];
      if (pattern.bin != static_cast<int>(host)) continue;
      double load = 0;
      for (const PatternCount& count : pattern.blocks) {
        const PatternItem& item = model.items[count.item];
        load += count.count * item.load[model.bins[host].host_kind];
      }
      load = std::clamp(load, least, std::max(least, most));
      loads.emplace_back(load, bound.amounts[p]);
      sum += load * bound.amounts[p];
      amounts += bound.amounts[p];
    }
    if (amounts <= 0) continue;
    const double mean = sum / amounts;
    double spread = 0;
    for (const auto& [load, amount] : loads) spread += amount * std::abs(load - mean);
    if (spread <= best) continue;
    best = spread;
    answer.branch = {-1, static_cast<int>(host), mean};
  }
}

}  // namespace

PatternBound pattern_bound(const PlacementGroups& groups, const Survivors& survivors,
                           const std::vector<double>& price, double target,
                           const PatternOptions& options, const RunContext& context) {
  PatternBound result;
  PatternModel model = make_pattern_model(groups, survivors);
  const bool are_hosts_apart = options.branch && tell_hosts_apart(model, options.max_hosts);
  const auto num_classes = static_cast<int>(model.classes.size());
  if (num_classes > options.max_classes) return result;
  MasterOptions master_options;
  master_options.cells = options.cells;
  master_options.tolerance = are_hosts_apart ? kApartTolerance : 1e-6;
  master_options.scale = target;
  master_options.penalty = 20 * target;
  master_options.smooth = options.smooth;
  master_options.context = &context;
  PatternMaster master(groups, model, price, master_options);
  const RoomOracle oracle = [&](double room, const RoomLimits& limits, double goal) {
    const RoomBound bound =
        master.solve(room, limits, goal, options.max_pricings - master.num_pricings());
    RoomAnswer answer;
    answer.proof = {room, bound.uniform_load, bound.prices.pi, bound.prices.price, {}, 0};
    if (!options.branch || !bound.is_complete) return answer;
    if (are_hosts_apart) find_host_branch(model, bound, room, limits, answer);
    if (answer.branch.host < 0) find_branch(model, bound, answer);
    return answer;
  };
  WindowOptions windows;
  windows.top = target;
  windows.goal = target;
  windows.tolerance = options.tolerance;
  windows.branch_width = options.branch ? options.branch_width : 0;
  windows.host_width = are_hosts_apart ? options.host_width : 0;
  windows.num_hosts = are_hosts_apart ? static_cast<int>(model.bins.size()) : 0;
  windows.max_nodes = options.max_nodes;
  windows.is_spent = [&] {
    return master.num_pricings() >= options.max_pricings || context.is_cancelled() ||
           context.is_past_deadline();
  };
  WindowResult search = search_windows(oracle, num_classes, windows);
  result.value = std::min(search.value, target);
  result.room = search.room;
  result.has_branched = search.has_branched;
  result.witness = std::move(search.witness);
  result.witness.target = target;
  result.witness.cells = options.cells;
  result.witness.class_of_unit = classes_of_units(groups, model);
  result.num_pricings = master.num_pricings();
  result.num_nodes = search.num_nodes;
  return result;
}

}  // namespace plimsoll::balance
