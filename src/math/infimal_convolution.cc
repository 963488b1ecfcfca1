#include "plimsoll/math/infimal_convolution.h"

#include <algorithm>
#include <cmath>
#include <utility>

namespace plimsoll::math {
namespace {

// A point of W at which W(u) + m u falls before and does not fall after.
struct Valley {
  Bytes u = 0;
  double height = 0;  // W(u) + m (u - start of W)
};

std::vector<Valley> find_valleys(const PiecewiseLinear& w, double m) {
  std::vector<Valley> valleys;
  for (std::size_t k = 0; k < w.size(); ++k) {
    if (w[k].slope < -m) continue;
    if (k > 0 && w[k - 1].slope >= -m) {
      const Segment& before = w[k - 1];
      const double reached = before.y + before.slope * static_cast<double>(w[k].x - before.x);
      if (reached - w[k].y <= 0.1 * kTie * (1 + std::fabs(reached))) continue;  // no jump
    }
    valleys.push_back({w[k].x, w[k].y + m * static_cast<double>(w[k].x - w[0].x)});
  }
  return valleys;
}

// The minimum of W(u) + m (u - s) over the valleys u in (s, s + length].
PiecewiseLinear follow_valleys(const std::vector<Valley>& valleys, Bytes start, Bytes length,
                               double m) {
  PiecewiseLinear out;
  std::vector<Valley> queue;  // heights ascend; queue[head] is the best
  std::size_t head = 0, entering = 0, leaving = 0;
  while (leaving < valleys.size()) {
    const Bytes enter =
        entering < valleys.size() ? valleys[entering].u - length : valleys[leaving].u;
    const Bytes x = std::min(enter, valleys[leaving].u);
    const bool had = head < queue.size();
    const Bytes old_front = had ? queue[head].u : 0;
    while (entering < valleys.size() && valleys[entering].u - length == x) {
      while (queue.size() > head && queue.back().height >= valleys[entering].height) {
        queue.pop_back();
      }
      queue.push_back(valleys[entering++]);
    }
    while (leaving < valleys.size() && valleys[leaving].u == x) {
      if (head < queue.size() && queue[head].u == x) ++head;
      ++leaving;
    }
    const bool has = head < queue.size();
    if (!has) {
      if (had) out.push_back({x, kInfinity, 0});
    } else if (!had || queue[head].u != old_front) {
      out.push_back({x, queue[head].height - m * static_cast<double>(x - start), -m});
    }
  }
  return out;
}

PiecewiseLinear convolve_piece(const PiecewiseLinear& w, const CostPiece& piece,
                               std::int64_t& made) {
  PiecewiseLinear right = shifted(w, piece.length, piece.slope * static_cast<double>(piece.length));
  if (piece.slope == 0) return right;  // free bytes: buy them all
  PiecewiseLinear ends, out;
  lower_envelope(w, right, ends);
  lower_envelope(
      ends, follow_valleys(find_valleys(w, piece.slope), w.front().x, piece.length, piece.slope),
      out);
  made += static_cast<std::int64_t>(right.size() + ends.size() + out.size());
  return out;
}

}  // namespace

Bytes ConvexCost::capacity() const {
  Bytes total = 0;
  for (const CostPiece& piece : pieces) total += piece.length;
  return total;
}

double ConvexCost::price(Bytes bytes) const {
  double total = fixed;
  for (const CostPiece& piece : pieces) {
    const Bytes bought = std::min(bytes, piece.length);
    total += piece.slope * static_cast<double>(bought);
    bytes -= bought;
  }
  return total;
}

ConvexCost convex_cost(std::vector<Line> lines, Bytes capacity) {
  lines.push_back({});
  ConvexCost cost;
  Line now;
  for (const Line& line : lines) {
    if (line.intercept > now.intercept ||
        (line.intercept == now.intercept && line.slope > now.slope)) {
      now = line;
    }
  }
  cost.fixed = now.intercept;
  for (Bytes from = 0; from < capacity;) {
    // The line that first rises above the one we are on.
    const Line* next = nullptr;
    double next_at = static_cast<double>(capacity);
    for (const Line& line : lines) {
      if (line.slope <= now.slope) continue;
      const double at = (now.intercept - line.intercept) / (line.slope - now.slope);
      if (at < next_at || (next != nullptr && at == next_at && line.slope > next->slope)) {
        next = &line;
        next_at = at;
      }
    }
    const Bytes to =
        next == nullptr ? capacity : std::max(from, static_cast<Bytes>(std::floor(next_at)));
    if (to > from) {
      // Where the lines fall, more bytes cost less: all of them are bought.
      const double slope = std::max(now.slope, 0.0);
      if (now.slope < 0) cost.fixed += now.slope * static_cast<double>(to - from);
      if (!cost.pieces.empty() && cost.pieces.back().slope == slope) {
        cost.pieces.back().length += to - from;
      } else {
        cost.pieces.push_back({to - from, slope});
      }
      from = to;
    }
    if (next != nullptr) now = *next;
  }
  return cost;
}

PiecewiseLinear convolve(const PiecewiseLinear& w, const ConvexCost& cost, std::int64_t* made) {
  PiecewiseLinear out = w;
  if (w.empty()) return out;
  std::int64_t pieces = 0;
  for (const CostPiece& piece : cost.pieces) out = convolve_piece(out, piece, pieces);
  for (Segment& segment : out) segment.y += cost.fixed;
  if (made != nullptr) *made += pieces;
  return out;
}

PiecewiseLinear convolve(const PiecewiseLinear& w, const std::vector<CostPoint>& points) {
  std::vector<PiecewiseLinear> copies;
  if (w.empty()) return {};
  for (const CostPoint& point : points) {
    copies.push_back(shifted(w, point.bytes, point.price));
    clip_below(copies.back(), point.needs);
  }
  return lower_envelope(std::move(copies));
}

PiecewiseLinear convolve_by_copies(const PiecewiseLinear& w, const ConvexCost& cost,
                                   std::int64_t* made) {
  std::vector<PiecewiseLinear> copies;
  Bytes bytes = 0;
  double price = cost.fixed;
  copies.push_back(shifted(w, bytes, price));
  for (const CostPiece& piece : cost.pieces) {
    bytes += piece.length;
    price += piece.slope * static_cast<double>(piece.length);
    copies.push_back(shifted(w, bytes, price));
  }
  for (const Segment& segment : w) {
    PiecewiseLinear mirrored;
    Bytes x = segment.x - bytes;
    double y = segment.y + price;
    for (auto piece = cost.pieces.rbegin(); piece != cost.pieces.rend(); ++piece) {
      mirrored.push_back({x, y, -piece->slope});
      x += piece->length;
      y -= piece->slope * static_cast<double>(piece->length);
    }
    mirrored.push_back({x, y, 0});
    copies.push_back(std::move(mirrored));
  }
  return lower_envelope(std::move(copies), made);
}

}  // namespace plimsoll::math
