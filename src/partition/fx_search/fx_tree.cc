#include "partition/fx_search/fx_tree.h"

#include <algorithm>

namespace plimsoll::partition {
namespace {

constexpr int kClockSteps = 1024;  // between two checks of the clock

bool has_twin(const FxProblem& problem, const std::vector<int>& num_on, int device) {
  if (num_on[device] != 0) return false;
  for (int other = 0; other < device; ++other) {
    if (num_on[other] == 0 && problem.room[other] == problem.room[device]) return true;
  }
  return false;
}

}  // namespace

void search_fx_tree(const FxProblem& problem, FxTree& tree, std::vector<int>& plan, double& value,
                    const RunContext& context) {
  FxState state(problem);
  std::vector<double> finish(problem.node.size());
  std::vector<int> num_on(problem.room.size());
  std::vector<int> choice(problem.node.size() + 1, -1);
  int op = 0;
  std::int64_t next_look = kClockSteps;  // at the clock, when a number is met for the first time
  while (op >= 0) {
    if (tree.num_evaluations >= tree.max_evaluations) return;
    if (tree.num_evaluations >= next_look) {
      next_look = tree.num_evaluations + kClockSteps;
      if (context.is_cancelled() || context.is_past_deadline()) return;
    }
    if (op == problem.num_operators()) {
      value = *std::max_element(finish.begin(), finish.end());
      plan = state.device();
      if (context.progress) context.progress({tree.num_evaluations, value, std::nullopt});
      --op;
      continue;
    }
    if (choice[op] >= 0) {
      --num_on[choice[op]];
      state.move(op, -1);
    }
    bool goes_on = false;
    while (!goes_on && ++choice[op] < problem.num_devices()) {
      const int device = choice[op];
      if (has_twin(problem, num_on, device)) continue;
      state.move(op, device);
      if (state.fits(device)) {
        ++tree.num_evaluations;
        double start = 0;
        for (const FxProblem::Edge& edge : problem.inputs[op]) {
          const bool is_near = state.device()[edge.from] == device;
          start = std::max(start, finish[edge.from] + (is_near ? 0 : edge.seconds));
        }
        finish[op] = start + problem.seconds[op];
        goes_on = finish[op] + problem.tail[op] < value;
      }
      if (!goes_on) state.move(op, -1);
    }
    if (!goes_on) {
      choice[op--] = -1;
      continue;
    }
    ++num_on[choice[op]];
    ++op;
  }
  tree.is_complete = true;
}

}  // namespace plimsoll::partition
