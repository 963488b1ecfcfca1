#include "partition/stages/batch_search.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <vector>

#include "plimsoll/core/numbers.h"

namespace plimsoll::partition {
namespace {

constexpr double kExact = 1e-9;   // relative
constexpr double kWide = 0.5;     // of what is open between bound and best
constexpr double kNarrow = 2e-3;  // relative; intervals are not halved further without asking

// Slowest stages above `low` and below `high`; no sum in there is less than `sum`.
struct Interval {
  double low, high, sum;
};

}  // namespace

Guess search_batch(const BatchSearch& search) {
  const auto bound_of = [&](const Interval& i) { return i.sum + search.weight * i.low; };
  std::vector<Interval> open{
      {search.slowest_at_least * (1 - kExact), kInfinity, search.sum_at_least}};
  const auto add = [&](const Interval& i) {
    const bool is_known = search.sum_within && std::isfinite(i.high);
    open.push_back({i.low, i.high, is_known ? std::max(i.sum, search.sum_within(i.high)) : i.sum});
  };
  bool is_proved = true;
  while (!open.empty()) {
    const auto next = std::min_element(
        open.begin(), open.end(),
        [&](const Interval& a, const Interval& b) { return bound_of(a) < bound_of(b); });
    Interval interval = *next;
    open.erase(next);
    if (is_proved) search.prove(std::min(*search.best, bound_of(interval)));
    if (bound_of(interval) * (1 + kExact) >= *search.best) break;
    if (search.sum_within && search.weight > 0 && std::isfinite(*search.best)) {
      // A slower stage is of no use.
      interval.high = std::min(interval.high, (*search.best - interval.sum) / search.weight);
      const double width = interval.high - interval.low;
      const double slack = *search.best - bound_of(interval);
      if (search.weight * width > kWide * slack && width > kNarrow * interval.high) {
        const double middle = interval.low + width / 2;
        add({interval.low, middle, interval.sum});
        add({middle, interval.high, interval.sum});
        continue;
      }
    }
    const double limit =
        std::isfinite(interval.high) ? std::nextafter(interval.high, 0.0) : kInfinity;
    const GuessAnswer answer = search.ask(limit, *search.best - search.weight * interval.low);
    if (answer.guess == Guess::kStopped) return Guess::kStopped;
    if (answer.guess == Guess::kUnknown) is_proved = false;
    if (answer.guess != Guess::kFound) continue;
    const double high = std::min(answer.slowest, interval.high);
    if (!(high > interval.low * (1 + kExact))) continue;
    const double sum = std::max(interval.sum, answer.sum * (1 - kExact));
    const double middle = interval.low + (high - interval.low) / 2;
    add({interval.low, middle, sum});
    add({middle, high, sum});
  }
  if (!is_proved) return Guess::kUnknown;
  if (*search.best == kInfinity) return Guess::kNone;
  search.prove(*search.best * (1 - kExact));
  return Guess::kFound;
}

}  // namespace plimsoll::partition
