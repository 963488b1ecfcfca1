// Minimising sum + weight * max when the least sum under a limit on the maximum is what can be
// asked.
//
// Problem. Let sum(L) be the least sum of stage times of pipelines whose stages all stay within L;
// it falls as L rises. Find the pipeline with the least sum + weight * slowest stage. Method.
// Best-first over intervals of the slowest stage: in (low, high) nothing beats sum(high) + weight *
// low. Asking at the upper end gives a plan, whose slowest stage m settles all of [m, high); the
// rest is halved. An interval is halved without asking while what is known of sums within its upper
// end rules out more of it than its width leaves open. Promises. The least value to 1e-9 relative,
// or what the last bound was when a question was cut. Source: docs/mathematics/placements.md#alpa.
// Departure: Alpa tries every stage time as a limit, in ascending order, and skips those closer
// than 1e-6.
#pragma once

#include <functional>

namespace plimsoll::partition {

enum class Guess { kFound, kNone, kUnknown, kStopped };

// Of the plan found: its slowest stage, and the least sum under the limit asked for.
struct GuessAnswer {
  Guess guess = Guess::kNone;
  double slowest = 0;
  double sum = 0;
};

struct BatchSearch {
  double weight = 0;             // >= 0, of the slowest stage
  double slowest_at_least = 0;   // no plan's slowest stage is faster
  double sum_at_least = 0;       // no plan's sum is less
  const double* best = nullptr;  // value of the best plan so far, kept by `ask`; infinite: none
  // No sum is less where all stages stay within a limit; empty: nothing is known.
  std::function<double(double)> sum_within;
  // Plans with every stage within the first argument; sums above the second are of no use.
  std::function<GuessAnswer(double, double)> ask;
  std::function<void(double)> prove;  // told bounds that hold for all plans, ever higher ones
};

// kFound: the best is proved. kNone: there is no plan, proved. kUnknown: an answer was uncertain.
// kStopped: a question was cut.
Guess search_batch(const BatchSearch& search);

}  // namespace plimsoll::partition
