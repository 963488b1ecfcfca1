#include "balance/bounds/window_bound.h"

#include <algorithm>
#include <cmath>
#include <utility>
#include <vector>

#include "balance/bounds/window_search.h"
#include "balance/patterns/pattern_model.h"

namespace plimsoll::balance {
namespace {

constexpr double kShrink = 1 - 1e-9;
constexpr int kMaxStep = 24;

// Pieces of equal load of one choice: how many ranks they take, at the least load of any place.
struct Pieces {
  int choice = 0;  // numbered from 0, classes in order
  double count = 0;
  double load = 0;
};

class Oracle {
 public:
  Oracle(const PlacementGroups& groups, const PatternModel& model, double target,
         const WindowBoundOptions& options)
      : model_(model),
        options_(options),
        num_ranks_(static_cast<double>(groups.ranks.kind_of_rank.size())),
        target_(target) {
    int last = -1;
    for (const PatternItem& item : model.items) {
      if (item.choice != last) {
        last = item.choice;
        class_of_choice_.push_back(item.class_index);
      }
      double load = kInfinity;
      for (std::size_t place = 0; place < item.load.size(); ++place) {
        if (item.place[place] >= 0) load = std::min(load, item.load[place]);
      }
      const double pieces =
          static_cast<double>(groups.parts[item.part].count) *
          (item.is_block ? static_cast<double>(groups.ranks.host_kinds[0].kinds.size()) : 1.0);
      pieces_.push_back({static_cast<int>(class_of_choice_.size()) - 1, pieces, load});
    }
    for (const PatternClass& c : model.forced) {
      constant_ += uniform_value(c, c.count, kInfinity, {}, 0, kInfinity);
    }
  }

  RoomAnswer answer(double room, double goal) {
    RoomAnswer best;
    best.proof.room = room;
    best.proof.uniform_load = -kInfinity;
    for (const DualFunction& function : functions(room)) {
      RoomProof proof = prove(room, function, goal);
      if (proof.uniform_load <= best.proof.uniform_load) continue;
      best.proof = std::move(proof);
      if (best.proof.uniform_load > goal) break;
    }
    return best;
  }

 private:
  std::vector<DualFunction> functions(double room) const {
    std::vector<DualFunction> result = {{DualFunctionKind::kIdentity, 0}};
    if (options_.identity_only) return result;
    for (int k = 1; k <= kMaxStep; ++k) {
      result.push_back({DualFunctionKind::kStep, static_cast<double>(k)});
    }
    std::vector<double> thresholds;
    for (const Pieces& pieces : pieces_) {
      const double x = pieces.load / room;
      if (x > 1) continue;
      for (const double e : {x, 1 - x, x / 2, x / 3}) {
        if (e > 1e-3 && e <= 0.5) thresholds.push_back(e * kShrink);
      }
    }
    std::sort(thresholds.begin(), thresholds.end());
    thresholds.erase(std::unique(thresholds.begin(), thresholds.end()), thresholds.end());
    const auto most = static_cast<std::size_t>(options_.max_thresholds);
    const std::size_t stride =
        most == 0 ? thresholds.size() + 1 : (thresholds.size() + most) / most;
    for (std::size_t i = 0; i < thresholds.size(); i += std::max<std::size_t>(1, stride)) {
      result.push_back({DualFunctionKind::kThreshold, thresholds[i]});
      result.push_back({DualFunctionKind::kRounding, thresholds[i]});
    }
    return result;
  }

  // The best multiplier of one function.
  RoomProof prove(double room, const DualFunction& function, double goal) {
    sum_.assign(class_of_choice_.size(), 0);
    for (const Pieces& pieces : pieces_) {
      const double x = pieces.load / room * kShrink;
      sum_[pieces.choice] += x > 1 ? kInfinity : pieces.count * dual_value(function, x);
    }
    weight_.assign(model_.classes.size(), kInfinity);
    for (std::size_t choice = 0; choice < sum_.size(); ++choice) {
      double& weight = weight_[class_of_choice_[choice]];
      weight = std::min(weight, sum_[choice]);
    }
    // What a unit of multiplier gains falls from step to step: units stay in ranks up to the
    // ratio of their uniform cost and weight.
    ratios_.clear();
    double slope = -num_ranks_;
    for (std::size_t c = 0; c < model_.classes.size(); ++c) {
      const double weight = weight_[c];
      if (weight <= 0 || weight == kInfinity) continue;
      slope += weight * model_.classes[c].count;
      int last = -1;
      for (const PatternStep& step : model_.classes[c].steps) {
        if (step.group == last) continue;  // its dearer choices
        last = step.group;
        ratios_.emplace_back(step.load / weight, weight * step.count);
      }
    }
    std::sort(ratios_.begin(), ratios_.end());
    double multiplier = 0;
    for (const auto& [ratio, weight] : ratios_) {
      if (slope <= 0) break;
      multiplier = ratio;
      slope -= weight;
    }
    // More than all ranks hold of units that cannot be uniform: any value can be proved.
    if (slope > 1e-9 * num_ranks_) {
      const double wanted = std::min(goal, 2 * target_) + target_;
      multiplier = std::max(multiplier, wanted / slope + multiplier);
    }
    RoomProof proof{room, constant_ - multiplier * num_ranks_, {}, {}, function, multiplier};
    for (std::size_t c = 0; c < model_.classes.size(); ++c) {
      const PatternClass& of = model_.classes[c];
      const double weight = weight_[c];
      const double pi = weight == kInfinity ? kInfinity : multiplier * weight;
      const double value = uniform_value(of, of.count, pi, {}, 0, kInfinity);
      // No choice fits the room and not all can be uniform: nothing is in this window.
      proof.uniform_load += std::min(value, 4 * target_);
    }
    return proof;
  }

  const PatternModel& model_;
  const WindowBoundOptions& options_;
  const double num_ranks_;
  const double target_;
  double constant_ = 0;  // forced uniform units
  std::vector<Pieces> pieces_;
  std::vector<int> class_of_choice_;
  std::vector<double> sum_, weight_;  // scratch: by choice, by class
  std::vector<std::pair<double, double>> ratios_;
};

}  // namespace

WindowBound window_bound(const PlacementGroups& groups, const Survivors& survivors, double target,
                         const WindowBoundOptions& options, const RunContext& context) {
  const PatternModel model = make_pattern_model(groups, survivors);
  WindowBound result;
  if (static_cast<int>(model.classes.size()) > options.max_classes) return result;
  Oracle oracle(groups, model, target, options);
  WindowOptions windows;
  windows.top = target;
  windows.goal = target;
  windows.tolerance = options.tolerance;
  windows.max_nodes = options.max_windows;
  windows.is_spent = [&] { return context.is_cancelled() || context.is_past_deadline(); };
  WindowResult search = search_windows(
      [&](double room, const RoomLimits&, double goal) { return oracle.answer(room, goal); },
      static_cast<int>(model.classes.size()), windows);
  result.value = std::min(search.value, target);
  result.room = search.room;
  result.witness = std::move(search.witness);
  result.witness.target = target;
  result.witness.class_of_unit = classes_of_units(groups, model);
  result.num_windows = search.num_nodes;
  return result;
}

}  // namespace plimsoll::balance
