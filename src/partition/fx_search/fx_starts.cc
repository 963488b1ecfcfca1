#include "partition/fx_search/fx_starts.h"

#include <algorithm>
#include <limits>
#include <numeric>
#include <utility>

#include "plimsoll/core/numbers.h"

namespace plimsoll::partition {
namespace {

constexpr int kMaxOperators = 4096;

std::vector<int> largest_first(const FxProblem& problem) {
  std::vector<int> devices(problem.room.size());
  std::iota(devices.begin(), devices.end(), 0);
  std::stable_sort(devices.begin(), devices.end(),
                   [&](int a, int b) { return problem.room[a] > problem.room[b]; });
  return devices;
}

}  // namespace

std::vector<int> find_cheapest_runs(const FxProblem& problem) {
  const int num_operators = problem.num_operators();
  if (num_operators > kMaxOperators) return {};
  const std::vector<int> sequence = largest_first(problem);
  const int width = problem.num_devices() + 1;
  // least[place][devices used]; from[...]: where the last run begins, -1: the device stays empty.
  std::vector<double> least(static_cast<std::size_t>(num_operators + 1) * width, kInfinity);
  std::vector<int> from(least.size(), -1);
  std::vector<int> seen(static_cast<std::size_t>(problem.num_tensors), -1);
  least[0] = 0;
  for (int i = 0; i < num_operators; ++i) {
    double* const here = least.data() + static_cast<std::ptrdiff_t>(i) * width;
    for (int d = 1; d < width; ++d) {
      if (here[d - 1] >= here[d]) continue;
      here[d] = here[d - 1];
      from[static_cast<std::size_t>(i) * width + d] = -1;
    }
    Bytes bytes = 0;
    double seconds = 0;
    for (int j = i; j < num_operators; ++j) {
      bytes += problem.total[j];
      for (const FxProblem::Tensor& tensor : problem.tensors[j]) {
        const bool is_inside = tensor.index >= i && tensor.index < j;
        if (!is_inside && std::exchange(seen[tensor.index], i) != i) bytes += tensor.bytes;
      }
      for (const FxProblem::Edge& edge : problem.inputs[j]) {
        if (edge.from < i) seconds += edge.seconds;
      }
      if (bytes > problem.room[sequence.front()]) break;
      double* const there = least.data() + static_cast<std::ptrdiff_t>(j + 1) * width;
      for (int d = 1; d < width && bytes <= problem.room[sequence[d - 1]]; ++d) {
        if (here[d - 1] + seconds >= there[d]) continue;
        there[d] = here[d - 1] + seconds;
        from[static_cast<std::size_t>(j + 1) * width + d] = i;
      }
    }
  }
  const double* const end = least.data() + static_cast<std::ptrdiff_t>(num_operators) * width;
  int d = static_cast<int>(std::min_element(end, end + width) - end);
  if (end[d] == kInfinity) return {};
  std::vector<int> plan(problem.node.size());
  for (int place = num_operators; place > 0;) {
    const std::size_t at = static_cast<std::size_t>(place) * width + d;
    --d;
    if (from[at] < 0) continue;
    std::fill(plan.begin() + from[at], plan.begin() + place, sequence[d]);
    place = from[at];
  }
  return plan;
}

std::vector<int> place_earliest(const FxProblem& problem) {
  FxState state(problem);
  std::vector<double> finish(problem.node.size());
  for (int op = 0; op < problem.num_operators(); ++op) {
    int best = -1;
    double least = kInfinity;
    for (int device = 0; device < problem.num_devices(); ++device) {
      double start = 0;
      for (const FxProblem::Edge& edge : problem.inputs[op]) {
        const bool is_near = state.device()[edge.from] == device;
        start = std::max(start, finish[edge.from] + (is_near ? 0 : edge.seconds));
      }
      if (start >= least) continue;
      state.move(op, device);
      if (state.fits(device)) {
        best = device;
        least = start;
      }
      state.move(op, -1);
    }
    if (best < 0) return {};
    state.move(op, best);
    finish[op] = least + problem.seconds[op];
  }
  return state.device();
}

std::vector<int> fill_in_order(const FxProblem& problem) {
  const std::vector<int> sequence = largest_first(problem);
  FxState state(problem);
  std::size_t next = 0;
  for (int op = 0; op < problem.num_operators(); ++op) {
    std::size_t k = next;
    for (; k < sequence.size(); ++k) {
      state.move(op, sequence[k]);
      if (state.fits(sequence[k])) break;
      state.move(op, -1);
    }
    if (k == sequence.size()) {
      for (k = 0; k < next; ++k) {  // a later one has no room: an earlier one may
        state.move(op, sequence[k]);
        if (state.fits(sequence[k])) break;
        state.move(op, -1);
      }
      if (k == next) return {};
      continue;
    }
    next = k;
  }
  return state.device();
}

}  // namespace plimsoll::partition
