#include "partition/fx_search/fx_bound.h"

#include <algorithm>
#include <functional>
#include <limits>
#include <utility>

#include "plimsoll/core/numbers.h"

namespace plimsoll::partition {
namespace {

constexpr int kNone = -1;
constexpr std::int64_t kMaxSteps = 50'000'000;

class StepCutter {
 public:
  explicit StepCutter(const FxProblem& problem)
      : problem_(problem),
        seen_(static_cast<std::size_t>(problem.num_tensors)),
        rooms_(problem.room) {
    std::sort(rooms_.begin(), rooms_.end(), std::greater<>());
  }

  std::int64_t num_steps() const { return num_steps_; }

  // The path's time with the cheapest transfers that its bytes force.
  double cut(const std::vector<int>& path) {
    const int length = static_cast<int>(path.size());
    double time = 0;
    for (const int op : path) time += problem_.seconds[op];
    const int num_cuts = num_cuts_needed(path);
    // least[j][c]: stretches that end before place j, with c cuts, or more for the last c.
    const int width = num_cuts + 1;
    std::vector<double> least(static_cast<std::size_t>(length + 1) * width, kInfinity);
    least[0] = 0;
    for (int i = 0; i < length; ++i) {
      const double* from = least.data() + static_cast<std::ptrdiff_t>(i) * width;
      if (*std::min_element(from, from + width) == kInfinity) continue;
      const double seconds = i == 0 ? 0 : seconds_between(path[i - 1], path[i]);
      ++stamp_;
      Bytes bytes = 0;
      for (int j = i; j < length; ++j) {
        bytes += added_bytes(path, i, j);
        if (bytes > rooms_.front()) break;
        ++num_steps_;
        double* to = least.data() + static_cast<std::ptrdiff_t>(j + 1) * width;
        for (int c = 0; c < width; ++c) {
          const int next = i == 0 ? c : std::min(c + 1, num_cuts);
          to[next] = std::min(to[next], from[c] + seconds);
        }
      }
    }
    return time + least.back();
  }

 private:
  double seconds_between(int from, int to) const {
    for (const FxProblem::Edge& edge : problem_.inputs[to]) {
      if (edge.from == from) return edge.seconds;
    }
    return 0;
  }

  // What place j adds to a stretch from place i on. A value from before it on the path is there
  // already; any other costs its bytes, or those of its operator if that runs there too.
  Bytes added_bytes(const std::vector<int>& path, int i, int j) {
    const int op = path[j];
    Bytes bytes = problem_.total[op];
    for (const FxProblem::Tensor& tensor : problem_.tensors[op]) {
      if (std::exchange(seen_[tensor.index], stamp_) == stamp_) continue;
      const bool is_operator = tensor.index < problem_.num_operators();
      const auto begin = path.begin() + i;
      const auto end = path.begin() + j;
      if (is_operator && std::binary_search(begin, end, tensor.index)) continue;
      bytes += is_operator ? std::min(tensor.bytes, problem_.total[tensor.index]) : tensor.bytes;
    }
    return bytes;
  }

  // One less than the devices that hold the operators and sources of the path at the very least.
  int num_cuts_needed(const std::vector<int>& path) {
    Int128 need = 0;
    ++stamp_;
    for (const int op : path) {
      need += problem_.total[op];
      for (const FxProblem::Tensor& tensor : problem_.tensors[op]) {
        if (tensor.index < problem_.num_operators()) continue;
        if (std::exchange(seen_[tensor.index], stamp_) != stamp_) need += tensor.bytes;
      }
    }
    int num_devices = 0;
    for (; num_devices < problem_.num_devices() && need > 0; ++num_devices) {
      need -= rooms_[num_devices];
    }
    return need > 0 ? problem_.num_devices() : std::max(num_devices - 1, 0);
  }

  const FxProblem& problem_;
  std::vector<std::int64_t> seen_;  // [num_tensors]
  std::vector<Bytes> rooms_;        // descending
  std::int64_t stamp_ = 0, num_steps_ = 0;
};

}  // namespace

FxBound bound_critical_path(const FxProblem& problem, bool cuts_paths, const RunContext& context) {
  FxBound bound;
  bound.proof = ProofKind::kPathWithoutTransfers;
  const int num_operators = problem.num_operators();
  std::vector<double> head(problem.node.size());  // the longest path that ends with it
  std::vector<int> before(problem.node.size(), kNone);
  std::vector<int> after(problem.node.size(), kNone);
  for (int op = 0; op < num_operators; ++op) {
    for (const FxProblem::Edge& edge : problem.inputs[op]) {
      if (before[op] != kNone && head[edge.from] <= head[op]) continue;
      head[op] = head[edge.from];
      before[op] = edge.from;
    }
    head[op] += problem.seconds[op];
    bound.value = std::max(bound.value, head[op]);
    for (const int reader : problem.readers[op]) {
      const double tail = problem.tail[reader] + problem.seconds[reader];
      if (after[op] == kNone && tail == problem.tail[op]) after[op] = reader;
    }
  }
  if (!cuts_paths) return bound;
  std::vector<int> by_length(problem.node.size());
  for (int op = 0; op < num_operators; ++op) by_length[op] = op;
  std::stable_sort(by_length.begin(), by_length.end(), [&](int a, int b) {
    return head[a] + problem.tail[a] > head[b] + problem.tail[b];
  });
  StepCutter cutter(problem);
  std::vector<char> is_covered(problem.node.size());
  for (const int op : by_length) {
    if (is_covered[op] != 0) continue;
    if (cutter.num_steps() > kMaxSteps || context.is_cancelled() || context.is_past_deadline()) {
      break;
    }
    std::vector<int> path;
    for (int other = op; other != kNone; other = before[other]) path.push_back(other);
    std::reverse(path.begin(), path.end());
    for (int other = after[op]; other != kNone; other = after[other]) path.push_back(other);
    for (const int other : path) is_covered[other] = 1;
    const double value = cutter.cut(path);
    if (value <= bound.value) continue;
    bound.value = value;
    bound.proof = ProofKind::kPathInStretches;
  }
  return bound;
}

}  // namespace plimsoll::partition
