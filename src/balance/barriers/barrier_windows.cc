#include "balance/barriers/barrier_windows.h"

#include <algorithm>
#include <numeric>
#include <queue>
#include <utility>

namespace plimsoll::balance {
namespace {

struct Box {
  double value = 0;
  int node = 0;
  std::vector<double> low, high;  // [dimensions]
  std::vector<double> left;       // [limits] what uniform units of the last program leave of a cap
};

struct IsWorse {
  bool operator()(const Box& a, const Box& b) const {
    return a.value != b.value ? a.value > b.value : a.node > b.node;
  }
};

class BoxSearch {
 public:
  BoxSearch(const BarrierModel& model, int num_units, const BarrierWindowOptions& options,
            EffortClock& clock)
      : model_(model),
        options_(options),
        clock_(clock),
        goal_(options.goal),
        program_(model, program_options()) {
    result_.witness.top = options.goal;
    result_.witness.limits = options.limits;
    result_.witness.class_of_unit.assign(static_cast<std::size_t>(num_units), 0);
    for (std::size_t c = 0; c < model.classes.size(); ++c) {
      for (const int unit : model.classes[c].units) {
        result_.witness.class_of_unit[unit] = static_cast<int>(c);
      }
    }
  }

  BarrierWindowResult run() {
    const std::int64_t begin = clock_.effort();
    Box root{-kInfinity,
             0,
             std::vector<double>(model_.num_barriers, 0),
             std::vector<double>(model_.num_barriers, goal_),
             {}};
    for (const int resource : options_.limits) {
      root.low.push_back(0);
      root.high.push_back(static_cast<double>(model_.cap[resource]));
    }
    result_.witness.nodes.emplace_back();
    ask(root);
    heap_.push(std::move(root));
    while (true) {
      const Box& least = heap_.top();
      result_.value = std::min(least.value, options_.goal);
      if (least.value >= goal_ || result_.num_boxes >= options_.max_boxes ||
          program_.num_pricings() >= options_.max_pricings ||
          clock_.effort() - begin >= options_.max_effort || clock_.is_stopped()) {
        break;
      }
      Box box = least;
      if (!split(box)) break;
    }
    result_.num_pricings = program_.num_pricings();
    return std::move(result_);
  }

 private:
  BarrierProgramOptions program_options() const {
    BarrierProgramOptions options;
    options.penalty = 20 * goal_;
    options.tolerance = options_.tolerance / 4 * goal_;
    options.limits = options_.limits;
    return options;
  }

  double cap_of(std::size_t limit) const {
    return static_cast<double>(model_.cap[options_.limits[limit]]);
  }

  BarrierDemand demand_of(const Box& box) const {
    BarrierDemand demand;
    for (const BarrierClass& c : model_.classes) demand.count.push_back(c.count());
    const int width = model_.has_blocks ? model_.width : 1;
    const int num_bins = model_.num_ranks / width;
    BinKind bin{static_cast<double>(num_bins), width, box.high};
    for (std::size_t l = 0; l < options_.limits.size(); ++l) {
      demand.most_uniform.push_back(1 - box.low[model_.num_barriers + l] / cap_of(l));
    }
    demand.bins.push_back(std::move(bin));
    return demand;
  }

  BoxProof proof_of(const Box& box, const BarrierAnswer& answer) const {
    BoxProof proof{box.high, answer.uniform_load, answer.prices.pi, {}, {}};
    for (std::size_t i = 0; i < model_.rows.size(); ++i) {
      const int resource = model_.rows[i];
      proof.price.resize(static_cast<std::size_t>(resource) + 1, 0.0);
      proof.price.back() =
          answer.prices.price[i] / (static_cast<double>(model_.cap[resource]) * model_.num_ranks);
    }
    for (std::size_t l = 0; l < options_.limits.size(); ++l) {
      proof.uniform_price.push_back(answer.prices.uniform[l] / cap_of(l));
      proof.uniform_load -= proof.uniform_price[l] * box.low[model_.num_barriers + l];
    }
    return proof;
  }

  // A proof of its own for the box, unless that of what contains it says more.
  void ask(Box& box) {
    ++result_.num_boxes;
    const double low = std::accumulate(box.low.begin(), box.low.begin() + model_.num_barriers, 0.0);
    const BarrierAnswer answer = program_.solve(
        demand_of(box), goal_ - low, options_.max_pricings - program_.num_pricings(), clock_);
    box.left = left_of(answer);
    if (low + answer.uniform_load > box.value) {
      box.value = low + answer.uniform_load;
      result_.witness.nodes[box.node].proof = static_cast<int>(result_.witness.proofs.size());
      result_.witness.proofs.push_back(proof_of(box, answer));
    }
    if (options_.visit && box.value < goal_) {
      const std::vector<double> room(box.high.begin(), box.high.begin() + model_.num_barriers);
      goal_ = std::min(goal_, options_.visit(room, answer));
    }
  }

  std::vector<double> left_of(const BarrierAnswer& answer) const {
    std::vector<double> left;
    for (std::size_t l = 0; l < options_.limits.size(); ++l) {
      left.push_back(cap_of(l));
      for (std::size_t s = 0; s < model_.steps.size(); ++s) {
        left.back() -= answer.num_uniform[s] *
                       static_cast<double>(model_.steps[s].least_bytes[options_.limits[l]]);
      }
    }
    return left;
  }

  // By how much what the program used of the dimension may differ from what the box's value counts,
  // as a share.
  double slack_of(const Box& box, std::size_t dimension) const {
    const auto num_barriers = static_cast<std::size_t>(model_.num_barriers);
    if (dimension < num_barriers) return (box.high[dimension] - box.low[dimension]) / goal_;
    const std::size_t limit = dimension - num_barriers;
    return (box.high[dimension] - std::max(box.left[limit], box.low[dimension])) / cap_of(limit);
  }

  // What the box's proof gains where the dimension's lower end rises.
  double rate_of(const Box& box, std::size_t dimension) const {
    const auto num_barriers = static_cast<std::size_t>(model_.num_barriers);
    if (dimension < num_barriers) return 1;
    const int proof = result_.witness.nodes[box.node].proof;
    return result_.witness.proofs[proof].uniform_price[dimension - num_barriers];
  }

  // A barrier's window where the upper part reaches the goal, if it can, else in the middle; a
  // limit's where the last program's uniform choices leave off, but not at its ends.
  double split_at(const Box& box, std::size_t dimension) const {
    constexpr double kMargin = .1;
    const double low = box.low[dimension], width = box.high[dimension] - low;
    const auto num_barriers = static_cast<std::size_t>(model_.num_barriers);
    if (dimension >= num_barriers) {
      return std::clamp(box.left[dimension - num_barriers], low + kMargin * width,
                        low + (1 - kMargin) * width);
    }
    const double left = goal_ - box.value;  // a part that is so much higher reaches the goal
    return low + (left < .9 * width ? left : width / 2);
  }

  bool split(Box& box) {
    std::size_t widest = 0;
    for (std::size_t d = 1; d < box.low.size(); ++d) {
      if (slack_of(box, d) > slack_of(box, widest)) widest = d;
    }
    if (slack_of(box, widest) <= options_.tolerance) return false;
    heap_.pop();
    const double at = split_at(box, widest);
    Box lower = box, upper = box;
    auto& nodes = result_.witness.nodes;
    const auto first = static_cast<int>(nodes.size());
    nodes[box.node].first_child = first;
    nodes[box.node].barrier = static_cast<int>(widest);
    nodes[box.node].split = at;
    nodes.insert(nodes.end(), 2, BoxNode{});
    nodes[first].proof = nodes[first + 1].proof = nodes[box.node].proof;
    lower.node = first;
    lower.high[widest] = at;
    upper.node = first + 1;
    upper.low[widest] = at;
    upper.value += rate_of(box, widest) * (at - box.low[widest]);
    if (widest >= static_cast<std::size_t>(model_.num_barriers)) ask(upper);
    heap_.push(std::move(upper));
    ask(lower);
    heap_.push(std::move(lower));
    return true;
  }

  const BarrierModel& model_;
  const BarrierWindowOptions& options_;
  EffortClock& clock_;
  double goal_;
  BarrierProgram program_;
  std::priority_queue<Box, std::vector<Box>, IsWorse> heap_;
  BarrierWindowResult result_;
};

}  // namespace

BarrierWindowResult search_barrier_windows(const BarrierModel& model, int num_units,
                                           const BarrierWindowOptions& options,
                                           EffortClock& clock) {
  return BoxSearch(model, num_units, options, clock).run();
}

}  // namespace plimsoll::balance
