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
  std::vector<double> low, high;
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
    Box root{-kInfinity, 0, std::vector<double>(model_.num_barriers, 0),
             std::vector<double>(model_.num_barriers, goal_)};
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

  BarrierDemand demand_of(const std::vector<double>& room) const {
    BarrierDemand demand;
    for (const BarrierClass& c : model_.classes) demand.count.push_back(c.count());
    const int width = model_.has_blocks ? model_.width : 1;
    const int num_bins = model_.num_ranks / width;
    BinKind bin{static_cast<double>(num_bins), width, room};
    for (const int resource : options_.limits) {
      bin.room.push_back(static_cast<double>(model_.cap[resource] - uniform_[resource]));
    }
    demand.bins.push_back(std::move(bin));
    return demand;
  }

  BoxProof proof_of(const std::vector<double>& room, const BarrierAnswer& answer) const {
    BoxProof proof{room, answer.uniform_load, answer.prices.pi, {}};
    for (std::size_t i = 0; i < model_.rows.size(); ++i) {
      const int resource = model_.rows[i];
      proof.price.resize(static_cast<std::size_t>(resource) + 1, 0.0);
      proof.price.back() =
          answer.prices.price[i] / (static_cast<double>(model_.cap[resource]) * model_.num_ranks);
    }
    return proof;
  }

  // A proof of its own for the box, unless that of what contains it says more.
  void ask(Box& box) {
    ++result_.num_boxes;
    const double low = std::accumulate(box.low.begin(), box.low.end(), 0.0);
    const BarrierAnswer answer = program_.solve(
        demand_of(box.high), goal_ - low, options_.max_pricings - program_.num_pricings(), clock_);
    if (options_.expects_uniform) expect(answer);
    if (low + answer.uniform_load > box.value) {
      box.value = low + answer.uniform_load;
      result_.witness.nodes[box.node].proof = static_cast<int>(result_.witness.proofs.size());
      result_.witness.proofs.push_back(proof_of(box.high, answer));
    }
    if (options_.visit && box.value < goal_) {
      goal_ = std::min(goal_, options_.visit(box.high, answer));
    }
  }

  void expect(const BarrierAnswer& answer) {
    uniform_ = uniform_bytes(model_, answer);
    for (const int resource : options_.limits) {
      uniform_[resource] = std::min(uniform_[resource], model_.cap[resource]);
    }
  }

  bool split(Box& box) {
    int widest = 0;
    for (int b = 1; b < model_.num_barriers; ++b) {
      if (box.high[b] - box.low[b] > box.high[widest] - box.low[widest]) widest = b;
    }
    const double width = box.high[widest] - box.low[widest];
    if (width <= options_.tolerance * goal_) return false;
    heap_.pop();
    const double left = goal_ - box.value;  // a part that is so much higher reaches the goal
    const double at = box.low[widest] + (left < .9 * width ? left : width / 2);
    Box lower = box, upper = box;
    auto& nodes = result_.witness.nodes;
    const auto first = static_cast<int>(nodes.size());
    nodes[box.node].first_child = first;
    nodes[box.node].barrier = widest;
    nodes[box.node].split = at;
    nodes.insert(nodes.end(), 2, BoxNode{});
    nodes[first].proof = nodes[first + 1].proof = nodes[box.node].proof;
    lower.node = first;
    lower.high[widest] = at;
    upper.node = first + 1;
    upper.low[widest] = at;
    upper.value += at - box.low[widest];
    heap_.push(std::move(upper));
    ask(lower);
    heap_.push(std::move(lower));
    return true;
  }

  const BarrierModel& model_;
  const BarrierWindowOptions& options_;
  EffortClock& clock_;
  double goal_;
  Amounts uniform_{};  // of the limits, expected
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
