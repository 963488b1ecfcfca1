#include "partition/batch_search.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <vector>

namespace plimsoll::partition {
namespace {

constexpr double kInfinite = std::numeric_limits<double>::infinity();
constexpr double kExact = 1e-9;  // relative

// Slowest stages above `low` and below `high`; no sum in there is less than `sum`.
struct Interval {
  double low, high, sum;
};

}  // namespace

Guess search_batch(const BatchSearch& search) {
  const auto bound_of = [&](const Interval& i) { return i.sum + search.weight * i.low; };
  std::vector<Interval> open{
      {search.slowest_at_least * (1 - kExact), kInfinite, search.sum_at_least}};
  bool is_proved = true;
  while (!open.empty()) {
    const auto next = std::min_element(
        open.begin(), open.end(),
        [&](const Interval& a, const Interval& b) { return bound_of(a) < bound_of(b); });
    const Interval interval = *next;
    open.erase(next);
    if (is_proved) search.prove(std::min(*search.best, bound_of(interval)));
    if (bound_of(interval) * (1 + kExact) >= *search.best) break;
    const double limit =
        std::isfinite(interval.high) ? std::nextafter(interval.high, 0.0) : kInfinite;
    const GuessAnswer answer = search.ask(limit, *search.best - search.weight * interval.low);
    if (answer.guess == Guess::kStopped) return Guess::kStopped;
    if (answer.guess == Guess::kUnknown) is_proved = false;
    if (answer.guess != Guess::kFound) continue;
    const double high = std::min(answer.slowest, interval.high);
    if (!(high > interval.low * (1 + kExact))) continue;
    const double sum = std::max(interval.sum, answer.sum * (1 - kExact));
    const double middle = interval.low + (high - interval.low) / 2;
    open.push_back({interval.low, middle, sum});
    open.push_back({middle, high, sum});
  }
  if (!is_proved) return Guess::kUnknown;
  if (*search.best == kInfinite) return Guess::kNone;
  search.prove(*search.best * (1 - kExact));
  return Guess::kFound;
}

}  // namespace plimsoll::partition
