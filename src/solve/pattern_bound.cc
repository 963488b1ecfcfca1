#include "plimsoll/solve/pattern_bound.h"

#include <algorithm>
#include <cmath>

namespace plimsoll::solve {
namespace {

// The class whose number of uniform units is farthest from a whole number.
void find_branch(const PatternModel& model, const RoomBound& bound, RoomAnswer& answer) {
  double best = 1e-4;
  for (std::size_t c = 0; c < model.classes.size(); ++c) {
    const double count = bound.num_uniform[c];
    const double off = std::abs(count - std::round(count));
    if (off <= best) continue;
    best = off;
    answer.branch_class = static_cast<int>(c);
    answer.branch_count = count;
  }
}

}  // namespace

PatternBound pattern_bound(const PlacementGroups& groups, const Survivors& survivors,
                           const std::vector<double>& price, double target,
                           const PatternOptions& options, const RunContext& context) {
  PatternBound result;
  const PatternModel model = make_pattern_model(groups, survivors);
  const auto num_classes = static_cast<int>(model.classes.size());
  if (num_classes > options.max_classes) return result;
  MasterOptions master_options;
  master_options.cells = options.cells;
  master_options.tolerance = 1e-6;
  master_options.scale = target;
  master_options.penalty = 20 * target;
  master_options.smooth = options.smooth;
  master_options.context = &context;
  PatternMaster master(groups, model, price, master_options);
  const RoomOracle oracle = [&](double room, const UniformCounts& counts, double goal) {
    const RoomBound bound =
        master.solve(room, counts, goal, options.max_pricings - master.num_pricings());
    RoomAnswer answer;
    answer.proof = {room, bound.uniform_load, bound.prices.pi, bound.prices.price, {}, 0};
    if (options.branch && bound.is_complete) find_branch(model, bound, answer);
    return answer;
  };
  WindowOptions windows;
  windows.top = target;
  windows.goal = target;
  windows.tolerance = options.tolerance;
  windows.branch_width = options.branch ? options.branch_width : 0;
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

}  // namespace plimsoll::solve
