// Small knapsacks with figures of many kinds, and their optimum by trying every set.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <random>
#include <vector>

#include "checkpoint/torch/knapsack.h"

namespace plimsoll::checkpoint {

// Sums of up to 16 of its figures are exact in doubles: memory in [0, 1) with 46 bits, runtimes
// whole numbers below 2^46; or few distinct ones, or whole steps of 1e-4 by another scale.
inline KnapsackProblem random_knapsack(std::uint64_t seed) {
  std::mt19937_64 random(seed);
  const auto below = [&](std::uint64_t bound) { return static_cast<double>(random() % bound); };
  KnapsackProblem problem;
  const std::size_t n = random() % 13;
  const std::uint64_t kind = random() % 4;
  double total = 0;
  for (std::size_t i = 0; i < n; ++i) {
    const double memory = kind == 0   ? below(1ULL << 46) * 0x1p-46
                          : kind == 1 ? below(4)
                          : kind == 2 ? std::ldexp(below(64), -static_cast<int>(below(40)))
                                      : below(40);
    const double runtime = kind == 0   ? below(1ULL << 46)
                           : kind == 1 ? below(3)
                           : kind == 2 ? std::ldexp(1, static_cast<int>(below(40)))
                                       : memory * 3 + below(2);
    problem.memory.push_back(memory);
    problem.runtimes.push_back(runtime);
    total += memory;
  }
  problem.max_memory = kind == 1 ? below(16) : total * below(1 << 10) * 0x1p-10;
  return problem;
}

struct KnapsackOptimum {
  double runtime = 0;
  double memory = 0;  // the least of the best sets
};

inline KnapsackOptimum try_every_set(const KnapsackProblem& problem) {
  KnapsackOptimum best;
  const std::size_t n = problem.memory.size();
  for (std::uint32_t set = 0; set < (1U << n); ++set) {
    KnapsackOptimum sum;
    for (std::size_t i = 0; i < n; ++i) {
      if (((set >> i) & 1U) == 0) continue;
      sum.runtime += problem.runtimes[i];
      sum.memory += problem.memory[i];
    }
    if (sum.memory <= problem.max_memory && sum.runtime > best.runtime) best = sum;
  }
  return best;
}

inline double memory_of(const KnapsackProblem& problem, const KnapsackChoice& choice) {
  double sum = 0;
  for (int i : choice.saved) sum += problem.memory[i];
  return sum;
}

inline bool parts_all(const KnapsackProblem& problem, const KnapsackChoice& choice) {
  std::vector<int> named = choice.saved;
  named.insert(named.end(), choice.recomputed.begin(), choice.recomputed.end());
  std::sort(named.begin(), named.end());
  if (named.size() != problem.memory.size()) return false;
  for (std::size_t i = 0; i < named.size(); ++i) {
    if (named[i] != static_cast<int>(i)) return false;
  }
  return true;
}

}  // namespace plimsoll::checkpoint
