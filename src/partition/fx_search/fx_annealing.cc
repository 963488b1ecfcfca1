#include "partition/fx_search/fx_annealing.h"

#include <algorithm>
#include <cmath>
#include <utility>

namespace plimsoll::partition {
namespace {

constexpr double kTransferShare = 0.01;  // of all transfers, beside the critical path
constexpr double kLastTemperature = 0.01;
constexpr int kClockMoves = 256;  // between two checks of the clock

class Annealing {
 public:
  Annealing(const FxProblem& problem, SplitMix64& random)
      : problem_(problem),
        random_(random),
        state_(problem),
        finish_(problem.node.size()),
        seen_(problem.node.size()) {}

  double run(std::vector<int>& plan, const FxAnnealing& options, const RunContext& context,
             std::int64_t& num_done) {
    state_.assign(plan);
    double best = problem_.critical_path(plan, problem_.num_operators(), finish_);
    double current = score(best);
    const double steps = static_cast<double>(std::max<std::int64_t>(options.num_moves - 1, 1));
    const double cooling = std::pow(kLastTemperature, 1 / steps);
    double temperature = options.temperature * best;
    const std::int64_t num_moves = std::min(options.num_moves, options.max_moves);
    for (std::int64_t i = 0; i < num_moves && best > options.lower_bound;
         ++i, temperature *= cooling) {
      if (i % kClockMoves == 0 && (context.is_cancelled() || context.is_past_deadline())) break;
      ++num_done;
      changes_.clear();
      propose();
      if (changes_.empty()) continue;
      const double limit = current - temperature * std::log(1 - random_.unit());
      const double path =
          fits() ? problem_.critical_path(state_.device(), problem_.num_operators(), finish_) : -1;
      const double next = path < 0 ? -1 : score(path);
      if (path < 0 || next > limit) {
        for (auto change = changes_.rbegin(); change != changes_.rend(); ++change) {
          state_.move(change->first, change->second);
        }
        continue;
      }
      current = next;
      if (path >= best) continue;
      best = path;
      plan = state_.device();
      if (context.progress) context.progress({num_done, best, options.lower_bound});
    }
    return best;
  }

 private:
  double score(double path) const {
    double transfers = 0;
    for (int op = 0; op < problem_.num_operators(); ++op) {
      for (const FxProblem::Edge& edge : problem_.inputs[op]) {
        if (state_.device()[edge.from] != state_.device()[op]) transfers += edge.seconds;
      }
    }
    return path + kTransferShare * transfers;
  }

  bool fits() const {
    return std::all_of(changes_.begin(), changes_.end(), [&](const auto& change) {
      return state_.fits(state_.device()[change.first]);
    });
  }

  void put(int op, int to) {
    const int from = state_.device()[op];
    if (from == to) return;
    changes_.emplace_back(op, from);
    state_.move(op, to);
  }

  int device_near(int op) {
    const int num_inputs = static_cast<int>(problem_.inputs[op].size());
    const int num_all = num_inputs + static_cast<int>(problem_.readers[op].size());
    if (num_all == 0 || random_.below(4) == 0) return random_.below(problem_.num_devices());
    const int pick = random_.below(num_all);
    const int other = pick < num_inputs ? problem_.inputs[op][pick].from
                                        : problem_.readers[op][pick - num_inputs];
    return state_.device()[other];
  }

  void propose() {
    const int num_operators = problem_.num_operators();
    const int op = random_.below(num_operators);
    const int choice = random_.below(100);
    if (choice < 35) {
      put(op, device_near(op));
    } else if (choice < 60) {
      const int longest = std::max(1, num_operators >> random_.below(8));
      const int end = std::min(num_operators, op + 1 + random_.below(longest));
      const int to = device_near(random_.below(2) == 0 ? op : end - 1);
      for (int i = op; i < end; ++i) put(i, to);
    } else if (choice < 85) {
      move_over_cut(op);
    } else {
      const int other = random_.below(num_operators);
      const int device = state_.device()[op];
      put(op, state_.device()[other]);
      put(other, device);
    }
  }

  // The operator and all that stands before it on its device go to that of one of its inputs; or
  // all that stands behind to that of one of its readers.
  void move_over_cut(int op) {
    const bool goes_back = random_.below(2) == 0;
    const int count =
        static_cast<int>(goes_back ? problem_.inputs[op].size() : problem_.readers[op].size());
    if (count == 0) return;
    const int pick = random_.below(count);
    const int to =
        state_.device()[goes_back ? problem_.inputs[op][pick].from : problem_.readers[op][pick]];
    const int device = state_.device()[op];
    if (to == device) return;
    ++stamp_;
    open_.assign(1, op);
    seen_[op] = stamp_;
    const auto visit = [&](int other) {
      if (seen_[other] == stamp_ || state_.device()[other] != device) return;
      seen_[other] = stamp_;
      open_.push_back(other);
    };
    while (!open_.empty()) {
      const int next = open_.back();
      open_.pop_back();
      if (goes_back) {
        for (const FxProblem::Edge& edge : problem_.inputs[next]) visit(edge.from);
      } else {
        for (const int reader : problem_.readers[next]) visit(reader);
      }
      put(next, to);
    }
  }

  const FxProblem& problem_;
  SplitMix64& random_;
  FxState state_;
  std::vector<double> finish_;
  std::vector<std::pair<int, int>> changes_;  // (operator, device before)
  std::vector<int> open_;
  std::vector<std::int64_t> seen_;
  std::int64_t stamp_ = 0;
};

}  // namespace

double anneal_critical_path(const FxProblem& problem, std::vector<int>& plan,
                            const FxAnnealing& options, SplitMix64& random,
                            const RunContext& context, std::int64_t& num_done) {
  return Annealing(problem, random).run(plan, options, context, num_done);
}

}  // namespace plimsoll::partition
