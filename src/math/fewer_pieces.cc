#include "math/fewer_pieces.h"

#include <algorithm>

#include "math/convex_function.h"

namespace plimsoll::math {
namespace {

// Runs of pieces that lie together: within one of `count` parts of the width, and of the height.
class Blocks {
 public:
  Blocks(const PiecewiseLinear& f, std::size_t count)
      : width_((f.back().x - f.front().x) / static_cast<Bytes>(count) + 1),
        height_((f.front().y - f.back().y) / static_cast<double>(count)) {}
  bool is_beyond(const PiecewiseLinear& f, std::size_t first, std::size_t k) const {
    return f[k].x - f[first].x >= width_ || f[first].y - f[k].y > height_;
  }

 private:
  Bytes width_;
  double height_;
};

}  // namespace

PiecewiseLinear upper_envelope(PiecewiseLinear a, PiecewiseLinear b) {
  const auto negate = [](PiecewiseLinear& f) {
    for (Segment& piece : f) {
      piece.y = -piece.y;
      piece.slope = -piece.slope;
    }
  };
  negate(a);
  negate(b);
  PiecewiseLinear out;
  lower_envelope(a, b, out);
  negate(out);
  return out;
}

void raise_to_fewer(PiecewiseLinear& f, std::size_t count) {
  if (f.size() <= count) return;
  const PiecewiseLinear hull = lower_convex_hull(f);
  const Blocks blocks(f, std::max<std::size_t>(1, count / 4));
  // The starts of blocks, what of each lies least above the hull, and the hull's vertices.
  std::vector<char> is_kept(f.size(), 0);
  std::size_t vertex = 0, best = 0, first = 0;
  double least = 0;
  for (std::size_t k = 0; k < f.size(); ++k) {
    while (vertex + 1 < hull.size() && hull[vertex + 1].x <= f[k].x) ++vertex;
    const double above = f[k].y - line_at(hull[vertex], f[k].x);
    if (k == 0 || blocks.is_beyond(f, first, k)) {
      is_kept[best] = is_kept[k] = 1;
      first = k;
      least = kInfinity;
    }
    if (hull[vertex].x == f[k].x) is_kept[k] = 1;
    if (above < least) {
      least = above;
      best = k;
    }
  }
  is_kept[best] = 1;
  PiecewiseLinear fewer;
  for (std::size_t k = 0; k < f.size();) {
    Segment raised = f[k];
    // A line from the first value that is above all pieces of the run, also where they end.
    const auto raise_above = [&raised](Bytes x, double y) {
      if (x <= raised.x) return;
      raised.slope = std::max(raised.slope, (y - raised.y) / static_cast<double>(x - raised.x));
    };
    const std::size_t start = k++;
    for (; k < f.size() && is_kept[k] == 0; ++k) {
      raise_above(f[k].x - 1, line_at(f[k - 1], f[k].x - 1));
      raise_above(f[k].x, f[k].y);
    }
    if (k < f.size() && k > start + 1) raise_above(f[k].x - 1, line_at(f[k - 1], f[k].x - 1));
    if (k == f.size() && k > start + 1) raised.slope = 0;
    raised.slope = std::min(raised.slope, 0.0);
    fewer.push_back(raised);
  }
  f = std::move(fewer);
}

void lower_to_fewer(PiecewiseLinear& f, std::size_t count) {
  if (f.size() <= count) return;
  const Blocks blocks(f, std::max<std::size_t>(1, count / 2));
  PiecewiseLinear fewer;
  for (std::size_t first = 0; first < f.size();) {
    // Where the block ends; a piece that is a block by itself keeps its slope.
    std::size_t end = first + 1;
    while (end + 1 < f.size() && !blocks.is_beyond(f, first, end + 1)) ++end;
    const bool is_line = end == first + 1 || end == f.size();
    if (is_line) {
      fewer.push_back(f[first++]);
      continue;
    }
    fewer.push_back({f[first].x, line_at(f[end - 1], f[end].x - 1), 0});
    first = end;
  }
  f = std::move(fewer);
}

}  // namespace plimsoll::math
