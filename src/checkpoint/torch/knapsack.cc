#include "checkpoint/torch/knapsack.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <numeric>
#include <string>
#include <utility>

#include "checkpoint/torch/exact_knapsack.h"
#include "core/python_text.h"

namespace plimsoll::checkpoint {
namespace {

constexpr double kSteps = 10000;  // to 1 of memory
constexpr double kMaxSteps = 0x1p62;
constexpr std::int64_t kMaxTableEntries = std::int64_t{1} << 33;

Result<void> check_figures(const std::vector<double>& figures, const std::string& list) {
  for (std::size_t i = 0; i < figures.size(); ++i) {
    if (std::isfinite(figures[i]) && figures[i] >= 0) continue;
    return fail(ErrorCode::kValue, list, fmt::format("{}[{}] is {}", list, i, figures[i]),
                "give finite numbers of at least 0");
  }
  return {};
}

// The problem in whole steps. `capacity` is no larger than what all candidates need together: any
// more leaves every solver's answer as it is.
struct SteppedProblem {
  std::vector<std::int64_t> memory;  // [n]
  std::vector<float> runtimes;       // [n]
  std::int64_t capacity = 0;
};

Result<std::int64_t> count_steps(double memory, const std::string& place) {
  if (memory * kSteps < kMaxSteps) return python_round(memory * kSteps);
  return fail(ErrorCode::kOverflow, place, fmt::format("{} is too large for steps of 1e-4", memory),
              "scale the memory down, or use the exact solver");
}

// float(x) as torch casts: beyond the range of float32 is infinity.
float to_float32(double value) {
  return value > static_cast<double>(std::numeric_limits<float>::max())
             ? std::numeric_limits<float>::infinity()
             : static_cast<float>(value);
}

Result<SteppedProblem> count_steps(const KnapsackProblem& problem) {
  PLIMSOLL_RETURN_IF_ERROR(validate(problem));
  SteppedProblem stepped;
  PLIMSOLL_ASSIGN(const std::int64_t capacity, count_steps(problem.max_memory, "max_memory"));
  for (double memory : problem.memory) {
    PLIMSOLL_ASSIGN(const std::int64_t steps, count_steps(memory, "memory"));
    stepped.memory.push_back(steps);
    stepped.capacity = std::min(capacity, stepped.capacity + std::min(steps, capacity));
  }
  for (double runtime : problem.runtimes) stepped.runtimes.push_back(to_float32(runtime));
  const auto n = static_cast<std::int64_t>(problem.memory.size());
  if (stepped.capacity >= kMaxTableEntries / std::max<std::int64_t>(n, 1)) {
    return fail(
        ErrorCode::kOverflow, "max_memory",
        fmt::format("{} candidates by {} steps of memory are too many", n, stepped.capacity),
        "scale the memory down, or use the exact solver");
  }
  return stepped;
}

std::vector<int> all_candidates(const KnapsackProblem& problem) {
  std::vector<int> candidates(problem.memory.size());
  std::iota(candidates.begin(), candidates.end(), 0);
  return candidates;
}

// One bit an entry: is row i's value at j another than row i - 1's?
class DecisionTable {
 public:
  DecisionTable(std::size_t rows, std::size_t columns)
      : columns_(columns), bits_((rows * columns + 63) / 64) {}
  void set(std::size_t row, std::size_t column) {
    const std::size_t at = row * columns_ + column;
    bits_[at / 64] |= std::uint64_t{1} << (at % 64);
  }
  bool is_set(std::size_t row, std::size_t column) const {
    const std::size_t at = row * columns_ + column;
    return ((bits_[at / 64] >> (at % 64)) & 1) != 0;
  }

 private:
  std::size_t columns_;
  std::vector<std::uint64_t> bits_;
};

// row[j]: the best runtime of candidates [first, last) within j steps. `row` holds the capacity of
// the segment plus one entries, all 0.
void fill_profile(const SteppedProblem& problem, std::size_t first, std::size_t last,
                  std::vector<float>& row) {
  for (std::size_t i = first; i < last; ++i) {
    const float runtime = problem.runtimes[i];
    if (problem.memory[i] == 0) {
      for (float& value : row) value += runtime;
      continue;
    }
    const auto memory = static_cast<std::size_t>(problem.memory[i]);
    for (std::size_t j = row.size(); j-- > memory;) {
      row[j] = std::max(row[j], row[j - memory] + runtime);
    }
  }
}

struct Segment {
  std::size_t first, last;
  std::int64_t capacity;
};

Result<KnapsackChoice> halve_items(const KnapsackProblem& problem, std::int64_t leak) {
  PLIMSOLL_ASSIGN(const SteppedProblem stepped, count_steps(problem));
  KnapsackChoice choice;
  std::vector<float> left, right;
  std::vector<Segment> stack;
  if (!stepped.memory.empty()) stack.push_back({0, stepped.memory.size(), stepped.capacity});
  while (!stack.empty()) {
    const Segment segment = stack.back();
    stack.pop_back();
    if (segment.last - segment.first == 1) {
      const std::size_t i = segment.first;
      const bool is_saved = stepped.memory[i] <= segment.capacity && problem.runtimes[i] > 0;
      (is_saved ? choice.saved : choice.recomputed).push_back(static_cast<int>(i));
      continue;
    }
    const std::size_t middle = segment.first + (segment.last - segment.first) / 2;
    const auto size = static_cast<std::size_t>(segment.capacity) + 1;
    left.assign(size, 0);
    fill_profile(stepped, middle, segment.last, left);
    right.assign(size, 0);
    fill_profile(stepped, segment.first, middle, right);
    std::size_t split = 0;  // the first of the best
    float best = left[0] + right[size - 1];
    for (std::size_t j = 1; j < size; ++j) {
      if (const float value = left[j] + right[size - 1 - j]; value > best) {
        best = value;
        split = j;
      }
    }
    const auto left_capacity = static_cast<std::int64_t>(split);
    const std::int64_t right_capacity =
        std::min(segment.capacity + leak - left_capacity, stepped.capacity);
    stack.push_back({segment.first, middle, right_capacity});
    stack.push_back({middle, segment.last, left_capacity});
  }
  std::sort(choice.saved.begin(), choice.saved.end());
  std::sort(choice.recomputed.rbegin(), choice.recomputed.rend());
  for (int i : choice.saved) choice.saved_runtime += problem.runtimes[i];
  return choice;
}

}  // namespace

Result<void> validate(const KnapsackProblem& problem) {
  if (problem.memory.size() != problem.runtimes.size()) {
    return fail(ErrorCode::kSchema, "memory",
                fmt::format("{} memory figures beside {} runtimes", problem.memory.size(),
                            problem.runtimes.size()),
                "give each candidate a memory figure and a runtime");
  }
  PLIMSOLL_RETURN_IF_ERROR(check_figures(problem.memory, "memory"));
  PLIMSOLL_RETURN_IF_ERROR(check_figures(problem.runtimes, "runtimes"));
  if (std::isfinite(problem.max_memory) && problem.max_memory >= 0) return {};
  return fail(ErrorCode::kValue, "max_memory", fmt::format("max_memory is {}", problem.max_memory),
              "give a finite number of at least 0");
}

Result<KnapsackChoice> greedy_knapsack(const KnapsackProblem& problem) {
  PLIMSOLL_RETURN_IF_ERROR(validate(problem));
  std::vector<double> ratio;
  for (std::size_t i = 0; i < problem.memory.size(); ++i) {
    if (problem.memory[i] == 0) {
      return fail(ErrorCode::kZeroDivision, "memory",
                  fmt::format("float division by zero: memory[{}] is 0", i),
                  "use another solver: this one divides by each candidate's memory");
    }
    ratio.push_back(problem.runtimes[i] / problem.memory[i]);
  }
  std::vector<int> order = all_candidates(problem);
  std::stable_sort(order.begin(), order.end(), [&](int a, int b) { return ratio[a] > ratio[b]; });
  KnapsackChoice choice;
  double used = 0;
  for (int i : order) {
    const bool fits = used + problem.memory[i] <= problem.max_memory;
    (fits ? choice.saved : choice.recomputed).push_back(i);
    if (!fits) continue;
    used += problem.memory[i];
    choice.saved_runtime += problem.runtimes[i];
  }
  return choice;
}

Result<KnapsackChoice> dp_knapsack(const KnapsackProblem& problem) {
  PLIMSOLL_ASSIGN(const SteppedProblem stepped, count_steps(problem));
  const std::size_t n = stepped.memory.size();
  const auto size = static_cast<std::size_t>(stepped.capacity) + 1;
  DecisionTable is_saved(n, size);
  std::vector<float> row(size, 0);
  for (std::size_t i = 0; i < n; ++i) {
    // Quirk, kept: what rounds to no memory is saved for free; what a float32 sum absorbs is not
    // saved though it fits.
    const auto memory = static_cast<std::size_t>(std::min(stepped.memory[i], stepped.capacity + 1));
    for (std::size_t j = size; j-- > memory;) {
      const float with = row[j - memory] + stepped.runtimes[i];
      if (memory != 0 ? with > row[j] : with != row[j]) {
        is_saved.set(i, j);
        row[j] = with;
      }
    }
  }
  KnapsackChoice choice;
  choice.saved_runtime = static_cast<double>(row.back());
  std::size_t j = size - 1;
  for (std::size_t i = n; i-- > 0;) {
    if (is_saved.is_set(i, j)) {
      choice.saved.push_back(static_cast<int>(i));
      j -= static_cast<std::size_t>(stepped.memory[i]);
    } else {
      choice.recomputed.push_back(static_cast<int>(i));
    }
  }
  std::reverse(choice.saved.begin(), choice.saved.end());
  return choice;
}

Result<KnapsackChoice> hirschberg_knapsack(const KnapsackProblem& problem) {
  // Quirk, kept: the right half gets one step more than the left half leaves.
  return halve_items(problem, 1);
}

Result<KnapsackChoice> fixed_hirschberg_knapsack(const KnapsackProblem& problem) {
  return halve_items(problem, 0);
}

Result<KnapsackChoice> ilp_knapsack(const KnapsackProblem& problem) {
  // Upstream's integer program (maximise runtimes x, memory x <= max_memory, x in {0, 1}) by our
  // own search: its optimum lies within the gap that upstream asks of its solver. Quirk, kept: the
  // solver (HiGHS) takes rows as met that are missed by no more than this, so 0.4 and 0.1 fill 0.5.
  constexpr double kFeasibility = 1e-10;
  KnapsackProblem relaxed = problem;
  if (problem.max_memory >= 0) relaxed.max_memory += kFeasibility;
  return exact_knapsack(relaxed).map([](Outcome<KnapsackChoice> outcome) {
    return std::move(outcome.plan).value_or(KnapsackChoice{});
  });
}

}  // namespace plimsoll::checkpoint
