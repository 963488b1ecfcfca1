#include "plimsoll/math/piecewise_linear.h"

#include <algorithm>
#include <cmath>

namespace plimsoll::math {
namespace {

constexpr Bytes kEnd = std::numeric_limits<Bytes>::max();
// The last piece is compared this far out: beyond any memory, and exact as a double.
constexpr Bytes kFar = Bytes{1} << 50;

bool is_tie(double difference, double value) {
  return std::fabs(difference) <= kTie * (1 + std::fabs(value));
}

// Appends a line from x on, unless the last one runs on as it.
void append(PiecewiseLinear& out, Bytes x, const Segment& line) {
  const double y = line_at(line, x);
  if (!out.empty()) {
    const Segment& last = out.back();
    if (is_tie(line_at(last, x) - y, y) &&
        std::fabs(last.slope - line.slope) <= 1e-12 * std::fabs(line.slope)) {
      return;
    }
  }
  out.push_back({x, y, line.slope});
}

// The first whole byte in (x, last] at which `steeper`, above `other` by `difference` at x, is no
// longer above.
Bytes crossing(Bytes x, Bytes last, double difference, double slope_gap) {
  const double distance = std::ceil(difference / slope_gap);
  if (!(distance < static_cast<double>(last - x))) return last;
  return x + static_cast<Bytes>(distance);
}

}  // namespace

const Segment* find_segment(const PiecewiseLinear& f, Bytes s) {
  const auto after = std::upper_bound(f.begin(), f.end(), s,
                                      [](Bytes at, const Segment& piece) { return at < piece.x; });
  return after == f.begin() ? nullptr : &*std::prev(after);
}

double value_at(const PiecewiseLinear& f, Bytes s) {
  const Segment* piece = find_segment(f, s);
  return piece == nullptr ? kInfinity : line_at(*piece, s);
}

void clip_below(PiecewiseLinear& f, Bytes from) {
  if (f.empty() || from <= f.front().x) return;
  const auto after = std::upper_bound(f.begin(), f.end(), from,
                                      [](Bytes at, const Segment& piece) { return at < piece.x; });
  const auto first = std::prev(after);
  *first = {from, line_at(*first, from), first->slope};
  f.erase(f.begin(), first);
}

PiecewiseLinear shifted(const PiecewiseLinear& f, Bytes by, double raise) {
  PiecewiseLinear out = f;
  for (Segment& piece : out) {
    piece.x -= by;
    piece.y += raise;
  }
  return out;
}

void lower_envelope(const PiecewiseLinear& a, const PiecewiseLinear& b, PiecewiseLinear& out) {
  out.clear();
  if (a.empty() || b.empty()) {
    out = a.empty() ? b : a;
    return;
  }
  std::size_t i = 0, j = 0;
  const Segment* line_a = nullptr;
  const Segment* line_b = nullptr;
  bool a_was_last = true;
  for (Bytes x = std::min(a[0].x, b[0].x);;) {
    if (i < a.size() && a[i].x == x) line_a = &a[i++];
    if (j < b.size() && b[j].x == x) line_b = &b[j++];
    const Bytes next = std::min(i < a.size() ? a[i].x : kEnd, j < b.size() ? b[j].x : kEnd);
    if (line_a == nullptr || line_b == nullptr) {
      a_was_last = line_b == nullptr;
      append(out, x, a_was_last ? *line_a : *line_b);
    } else {
      const Bytes last = next == kEnd ? x + kFar : next - 1;
      const double left_a = line_at(*line_a, x), right_a = line_at(*line_a, last);
      const double left = left_a - line_at(*line_b, x);
      const double right = right_a - line_at(*line_b, last);
      const bool left_tie = is_tie(left, left_a), right_tie = is_tie(right, right_a);
      const bool a_first = left_tie ? (right_tie ? a_was_last : right < 0) : left < 0;
      const Segment& first = a_first ? *line_a : *line_b;
      append(out, x, first);
      a_was_last = a_first;
      if (!left_tie && !right_tie && (left < 0) != (right < 0)) {
        const Segment& second = a_first ? *line_b : *line_a;
        append(out, crossing(x, last, std::fabs(left), first.slope - second.slope), second);
        a_was_last = !a_first;
      }
    }
    if (next == kEnd) return;
    x = next;
  }
}

PiecewiseLinear lower_envelope(std::vector<PiecewiseLinear> functions, std::int64_t* made) {
  if (functions.empty()) return {};
  for (; functions.size() > 1; functions.resize((functions.size() + 1) / 2)) {
    for (std::size_t k = 0; 2 * k + 1 < functions.size(); ++k) {
      PiecewiseLinear merged;
      lower_envelope(functions[2 * k], functions[2 * k + 1], merged);
      if (made != nullptr) *made += static_cast<std::int64_t>(merged.size());
      functions[k] = std::move(merged);
    }
    if (functions.size() % 2 == 1) functions[functions.size() / 2] = std::move(functions.back());
  }
  return std::move(functions.front());
}

PiecewiseLinear sum(const PiecewiseLinear& a, const PiecewiseLinear& b) {
  PiecewiseLinear out;
  if (a.empty() || b.empty()) return out;
  std::size_t i = 0, j = 0;
  for (Bytes x = std::max(a[0].x, b[0].x); x != kEnd;) {
    while (i + 1 < a.size() && a[i + 1].x <= x) ++i;
    while (j + 1 < b.size() && b[j + 1].x <= x) ++j;
    append(out, x, {x, line_at(a[i], x) + line_at(b[j], x), a[i].slope + b[j].slope});
    x = std::min(i + 1 < a.size() ? a[i + 1].x : kEnd, j + 1 < b.size() ? b[j + 1].x : kEnd);
  }
  return out;
}

}  // namespace plimsoll::math
