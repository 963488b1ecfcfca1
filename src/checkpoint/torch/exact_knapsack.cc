#include "checkpoint/torch/exact_knapsack.h"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>

#include "plimsoll/core/units.h"

namespace plimsoll::checkpoint {
namespace {

constexpr std::int64_t kDefaultEffort = std::int64_t{1} << 23;
constexpr int kBits = 100;                // of the largest figure
constexpr long double kEqual = 0x1p-56L;  // relative difference of values that count as equal

enum class Rounding { kDown, kUp };

// Doubles as multiples of the quantum that gives `largest` kBits bits.
class Scale {
 public:
  explicit Scale(double largest) : exponent_(largest > 0 ? std::ilogb(largest) + 1 - kBits : 0) {}

  // `value` is at most `largest`.
  Int128 count(double value, Rounding rounding) const {
    constexpr int kMantissaBits = 53;
    int exponent = 0;
    const double fraction = std::frexp(value, &exponent);
    const auto mantissa = static_cast<std::int64_t>(std::ldexp(fraction, kMantissaBits));
    const int shift = exponent - kMantissaBits - exponent_;
    if (shift >= 0) return Int128{mantissa} << shift;
    const std::int64_t whole = shift > -64 ? mantissa >> -shift : 0;
    const bool is_whole = shift > -64 ? (whole << -shift) == mantissa : mantissa == 0;
    return Int128{whole + (rounding == Rounding::kUp && !is_whole ? 1 : 0)};
  }
  double to_double(long double count) const {
    return static_cast<double>(std::ldexp(count, exponent_));
  }

 private:
  int exponent_;
};

struct Item {
  Int128 memory, runtime;
  int index;
  long double ratio;
};

// What is worth deciding: the items that fit and take both memory and time, by ratio.
struct Instance {
  std::vector<Item> items;
  std::vector<Int128> memory_before, runtime_before;  // [items + 1] prefix sums
  Int128 capacity = 0;
};

Instance make_instance(const KnapsackProblem& problem, const Scale& memory, const Scale& runtime) {
  Instance instance;
  instance.capacity = memory.count(problem.max_memory, Rounding::kDown);
  for (std::size_t i = 0; i < problem.memory.size(); ++i) {
    const bool is_open =
        problem.memory[i] > 0 && problem.memory[i] <= problem.max_memory && problem.runtimes[i] > 0;
    if (!is_open) continue;
    Item item{memory.count(problem.memory[i], Rounding::kUp),
              runtime.count(problem.runtimes[i], Rounding::kDown), static_cast<int>(i), 0};
    item.ratio = static_cast<long double>(item.runtime) / static_cast<long double>(item.memory);
    instance.items.push_back(item);
  }
  std::stable_sort(instance.items.begin(), instance.items.end(),
                   [](const Item& a, const Item& b) { return a.ratio > b.ratio; });
  instance.memory_before.push_back(0);
  instance.runtime_before.push_back(0);
  for (const Item& item : instance.items) {
    instance.memory_before.push_back(instance.memory_before.back() + item.memory);
    instance.runtime_before.push_back(instance.runtime_before.back() + item.runtime);
  }
  return instance;
}

// A set of items, the last of which is trail[last]; -1: the empty set.
struct State {
  Int128 memory, runtime;
  int last;
};
struct Step {
  int item;      // position in Instance::items
  int previous;  // in the trail
};

class Search {
 public:
  Search(const Instance& instance, std::int64_t effort, const KnapsackPruning& pruning)
      : instance_(instance), effort_(effort), pruning_(pruning) {}

  StopReason run(const RunContext& context) {
    take_greedily();
    states_ = {{0, 0, -1}};
    const int n = static_cast<int>(instance_.items.size());
    for (next_ = 0; next_ < n && !states_.empty(); ++next_) {
      if (context.is_cancelled()) return StopReason::kCancelled;
      if (context.is_past_deadline()) return StopReason::kDeadline;
      if (static_cast<std::int64_t>(trail_.size() + states_.size()) > effort_) {
        return StopReason::kEffort;
      }
      take_up(next_);
    }
    states_.clear();
    return StopReason::kFinished;
  }

  // At least what any set saves beyond the best; 0 once the search has finished.
  long double possible_gain() const {
    const auto best = static_cast<long double>(best_.runtime);
    long double bound = best;
    for (const State& state : states_) bound = std::max(bound, relax(state, next_).bound);
    return bound - best;
  }

  std::vector<int> best_items() const {
    std::vector<int> items;
    for (int at = best_.last; at >= 0; at = trail_[at].previous) {
      items.push_back(instance_.items[trail_[at].item].index);
    }
    for (int i = best_.first; i < best_.full; ++i) items.push_back(instance_.items[i].index);
    return items;
  }

 private:
  // A state and the items of [first, full).
  struct Best {
    Int128 runtime = 0;
    int last = -1, first = 0, full = 0;
  };
  // The linear relaxation of a state: it and the items of [first, full), and the next one in part.
  struct Relaxation {
    Int128 runtime;  // without the part
    int full;
    long double bound;
  };

  void take_greedily() {
    State state{0, 0, -1};
    const int n = static_cast<int>(instance_.items.size());
    for (int i = 0; i < n; ++i) {
      if (state.memory + instance_.items[i].memory <= instance_.capacity) state = add(state, i);
    }
    best_ = {state.runtime, state.last, 0, 0};
  }

  State add(const State& state, int item) {
    trail_.push_back({item, state.last});
    return {state.memory + instance_.items[item].memory,
            state.runtime + instance_.items[item].runtime, static_cast<int>(trail_.size()) - 1};
  }

  Relaxation relax(const State& state, int first) const {
    const auto& memory = instance_.memory_before;
    const Int128 limit = memory[first] + instance_.capacity - state.memory;
    const auto past = std::upper_bound(memory.begin() + first, memory.end(), limit);
    const auto full = static_cast<std::size_t>(past - memory.begin()) - 1;
    const Int128 runtime =
        state.runtime + instance_.runtime_before[full] - instance_.runtime_before[first];
    auto bound = static_cast<long double>(runtime);
    if (full < instance_.items.size()) {
      bound += static_cast<long double>(limit - memory[full]) * instance_.items[full].ratio;
    }
    return {runtime, static_cast<int>(full), bound};
  }

  bool is_dominated(const std::vector<State>& kept, Int128 runtime) const {
    return pruning_.by_dominance && !kept.empty() && kept.back().runtime >= runtime;
  }

  // Keeps a set that nothing lighter equals and whose relaxation beats the best.
  void keep(std::vector<State>& kept, const State& state) {
    if (is_dominated(kept, state.runtime)) return;
    const Relaxation relaxed = relax(state, next_ + 1);
    if (relaxed.runtime > best_.runtime) {
      best_ = {relaxed.runtime, state.last, next_ + 1, relaxed.full};
    }
    const bool may_win = relaxed.bound > static_cast<long double>(best_.runtime) * (1 + kEqual);
    if (may_win || !pruning_.by_relaxation) kept.push_back(state);
  }

  // Merges the sets without the item and those with it, both by memory, the better first of equals.
  void take_up(int item) {
    std::vector<State> kept;
    kept.reserve(states_.size() * 2);
    std::size_t with = 0;
    const auto memory_with = [&] { return states_[with].memory + instance_.items[item].memory; };
    const auto keep_with = [&] {
      const State& state = states_[with++];
      const Int128 runtime = state.runtime + instance_.items[item].runtime;
      if (is_dominated(kept, runtime)) return;
      const State larger = add(state, item);
      keep(kept, larger);
      // What is not kept is not the best either: the set it came from was completed with this item.
      if (kept.empty() || kept.back().last != larger.last) trail_.pop_back();
    };
    for (const State& without : states_) {
      while (memory_with() < without.memory) keep_with();
      if (memory_with() == without.memory &&
          states_[with].runtime + instance_.items[item].runtime > without.runtime) {
        keep_with();
      }
      keep(kept, without);
    }
    while (with < states_.size() && memory_with() <= instance_.capacity) keep_with();
    states_ = std::move(kept);
  }

  const Instance& instance_;
  std::int64_t effort_;
  KnapsackPruning pruning_;
  int next_ = 0;  // the first item that the states have not taken up
  Best best_;
  std::vector<State> states_;  // memory and runtime ascend
  std::vector<Step> trail_;
};

}  // namespace

Result<Outcome<KnapsackChoice>> exact_knapsack(const KnapsackProblem& problem,
                                               const SearchOptions& options,
                                               const RunContext& context,
                                               const KnapsackPruning& pruning) {
  PLIMSOLL_RETURN_IF_ERROR(validate(problem));
  const std::size_t n = problem.memory.size();
  const double longest =
      n == 0 ? 0 : *std::max_element(problem.runtimes.begin(), problem.runtimes.end());
  const Scale runtime_scale(longest);
  const Instance instance = make_instance(problem, Scale(problem.max_memory), runtime_scale);
  Search search(instance, options.effort < 0 ? kDefaultEffort : options.effort, pruning);

  Outcome<KnapsackChoice> outcome;
  outcome.stop = search.run(context);
  std::vector<char> is_saved(n, 0);
  for (std::size_t i = 0; i < n; ++i) {
    is_saved[i] = problem.memory[i] == 0 && problem.runtimes[i] > 0 ? 1 : 0;
  }
  for (int i : search.best_items()) is_saved[i] = 1;
  KnapsackChoice& choice = outcome.plan.emplace();
  double recomputed_runtime = 0;
  for (std::size_t i = 0; i < n; ++i) {
    (is_saved[i] ? choice.saved : choice.recomputed).push_back(static_cast<int>(i));
    (is_saved[i] ? choice.saved_runtime : recomputed_runtime) += problem.runtimes[i];
  }
  outcome.certificate.objective = recomputed_runtime;
  outcome.certificate.lower_bound =
      std::max(0.0, recomputed_runtime - runtime_scale.to_double(search.possible_gain()));
  outcome.certificate.proof = ProofKind::kUndominatedSets;
  const bool is_optimal = *outcome.certificate.lower_bound >=
                          recomputed_runtime - options.tolerance * recomputed_runtime;
  outcome.status = is_optimal ? SolveStatus::kOptimal : SolveStatus::kFeasible;
  return outcome;
}

}  // namespace plimsoll::checkpoint
