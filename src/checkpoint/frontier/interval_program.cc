#include "checkpoint/frontier/interval_program.h"

#include <algorithm>
#include <limits>
#include <utility>

#include "math/fewer_pieces.h"

namespace plimsoll::checkpoint {
namespace {

using math::ConvexCost;
using math::CostPoint;
using math::PiecewiseLinear;
using math::Segment;
using math::value_at;

constexpr Bytes kAnySlack = std::numeric_limits<Bytes>::min();

// Two plans whose times differ by less are equal.
constexpr double kTimeTie = 1e-9;

// The first ceiling lies this much above the bound: enough for one or two sweeps on seeded trees of
// 226 to 898 unlike modules.
constexpr double kFirstGap = 2e-4;

// Discards everything, and saves nothing that would ask for room of its own.
bool is_full(const CandidateUnit& unit, const CostPoint& point) {
  return point.bytes == unit.kept_inside && point.needs <= unit.threshold;
}

// The cheapest CostPoint that discards everything, -1 on a convex price; false where none does.
bool find_full(const CandidateUnit& unit, int& point) {
  point = -1;
  if (unit.points.empty()) return unit.price.capacity() == unit.kept_inside;
  for (std::size_t k = 0; k < unit.points.size(); ++k) {
    if (!is_full(unit, unit.points[k])) continue;
    if (point < 0 || unit.points[k].price < unit.points[point].price) point = static_cast<int>(k);
  }
  return point >= 0;
}

// Drops the pieces of `f` no point of which, with the least price of getting there, is within the
// ceiling. `entry` is a function of -slack. What is dropped between two kept pieces takes the value
// before it, which is achieved there too.
void prune(PiecewiseLinear& f, const PiecewiseLinear& entry, double ceiling) {
  PiecewiseLinear kept;
  std::size_t k = entry.size();  // entry[k..] lie at slacks up to the piece
  for (std::size_t i = 0; i < f.size() && !entry.empty(); ++i) {
    const Segment& piece = f[i];
    if (piece.x > -entry[0].x) break;  // no plan arrives with so much
    const Bytes last = std::min(i + 1 < f.size() ? f[i + 1].x - 1 : -entry[0].x, -entry[0].x);
    // The sum of a line and a convex function is least at an end or at a vertex between.
    double least = std::min(piece.y + value_at(entry, -piece.x),
                            line_at(piece, last) + value_at(entry, -last));
    while (k > 0 && -entry[k - 1].x <= last) {
      --k;
      if (-entry[k].x >= piece.x) {
        least = std::min(least, line_at(piece, -entry[k].x) + entry[k].y);
      }
    }
    if (least <= ceiling) {
      kept.push_back(piece);
    } else if (!kept.empty() && kept.back().slope != 0) {
      kept.push_back({piece.x, line_at(kept.back(), piece.x - 1), 0});
    }
  }
  f = std::move(kept);
}

}  // namespace

IntervalProgram::IntervalProgram(const CheckpointProblem& problem, const FrontierOptions& options,
                                 const RunContext& context, SearchWork& work)
    : problem_(problem), options_(options), context_(context), work_(work) {
  const int n = problem.num_modules();
  const int num_units = static_cast<int>(problem.units.size());
  starting_at_.resize(n);
  // What the positions from each boundary on need if nothing more is discarded.
  std::vector<Bytes> needed_after(n + 1, problem.end_base.value_or(kAnySlack));
  least_base_ = needed_after[n] == kAnySlack ? std::numeric_limits<Bytes>::max() : needed_after[n];
  for (int position = n - 1; position >= 0; --position) {
    const Bytes base = problem.base_at(position);
    needed_after[position] = std::max(needed_after[position + 1], base);
    least_base_ = std::min(least_base_, base);
  }
  entry_need_.resize(num_units);
  hulls_.resize(num_units);
  inside_.resize(num_units);
  std::vector<int> used;
  for (int u = 0; u < num_units; ++u) {
    const CandidateUnit& unit = problem.units[u];
    entry_need_[u] = unit.threshold;
    if (options.drop_useless_units && !problem.model.nested_units &&
        unit.threshold >= needed_after[unit.last + 1]) {
      continue;
    }
    starting_at_[unit.first].push_back(u);
    used.push_back(u);
    if (unit.points.empty()) {
      hulls_[u] = {0, unit.price};
    } else {
      hulls_[u] = math::lower_convex_hull(unit.points);
    }
  }
  if (problem.model.nested_units) {
    // Inner units end before outer ones, or begin after them.
    std::sort(used.begin(), used.end(), [&](int a, int b) {
      const CandidateUnit& x = problem.units[a];
      const CandidateUnit& y = problem.units[b];
      return x.last != y.last ? x.last < y.last : x.first > y.first;
    });
    for (int u : used) {
      const CandidateUnit& unit = problem.units[u];
      int point = -1;
      if (!find_full(unit, point)) continue;
      const Range range{unit.first, unit.last + 1, u};
      const Bytes slack = std::max(range_slack(range), unit.own_need);
      if (slack >= unit.threshold) continue;
      entry_need_[u] = slack;
      insides_ = sweep_range(range, slack, inside_[u], nullptr, nullptr, 0);
      if (insides_ != SweepEnd::kDone) break;
    }
  }
  // Without all insides it is not known; then no sweep begins either.
  least_slack_ = insides_ == SweepEnd::kDone ? range_slack(whole()) : kAnySlack;
}

bool IntervalProgram::is_inside(int unit, const Range& range) const {
  return unit != range.outer && problem_.units[unit].last < range.end;
}

Bytes IntervalProgram::range_slack(const Range& range) const {
  std::vector<Bytes> need(range.end - range.first + 1, kAnySlack);
  if (range.outer < 0 && problem_.end_base) need.back() = *problem_.end_base;
  for (int position = range.end - 1; position >= range.first; --position) {
    Bytes& here = need[position - range.first];
    here = std::max(need[position - range.first + 1], problem_.base_at(position));
    for (int u : starting_at_[position]) {
      if (!is_inside(u, range)) continue;
      const CandidateUnit& unit = problem_.units[u];
      const Bytes after = need[unit.last + 1 - range.first];
      const auto reduced = [after](Bytes by) { return after == kAnySlack ? after : after - by; };
      for (std::size_t point = 0; point < unit.points.size(); ++point) {
        here = std::min(here, std::max(reduced(unit.points[point].bytes),
                                       entry_of(u, static_cast<int>(point))));
      }
      if (unit.points.empty()) {
        here = std::min(here, std::max(reduced(unit.price.capacity()), entry_of(u, -1)));
      }
    }
  }
  return need.front();
}

Bytes IntervalProgram::entry_of(int unit, int point) const {
  if (point < 0) return entry_need_[unit];
  const CandidateUnit& candidate = problem_.units[unit];
  const CostPoint& chosen = candidate.points[point];
  const bool may_nest = !inside_[unit].empty() && is_full(candidate, chosen);
  return may_nest ? entry_need_[unit] : std::max(candidate.threshold, chosen.needs);
}

PiecewiseLinear IntervalProgram::terminal(const Range& range, Bytes floor) const {
  // Nobody arrives with less than the smallest base of all.
  Bytes from = std::max(floor, least_base_);
  if (range.outer < 0 && problem_.end_base) from = std::max(from, *problem_.end_base);
  return {{from, 0, 0}};
}

PiecewiseLinear IntervalProgram::priced(int unit, const PiecewiseLinear& after) const {
  const CandidateUnit& candidate = problem_.units[unit];
  if (!candidate.points.empty()) {
    work_.convolved += static_cast<std::int64_t>(after.size() * candidate.points.size());
    return math::convolve(after, candidate.points);
  }
  return options_.linear_convolution
             ? math::convolve(after, candidate.price, &work_.convolved)
             : math::convolve_by_copies(after, candidate.price, &work_.convolved);
}

PiecewiseLinear IntervalProgram::priced_nested(int unit, const PiecewiseLinear& after) const {
  const CandidateUnit& candidate = problem_.units[unit];
  int point = -1;
  find_full(candidate, point);
  const double price = price_of(problem_, {unit, candidate.kept_inside, point, {}});
  return math::sum(math::shifted(after, candidate.kept_inside, price), inside_[unit]);
}

SweepEnd IntervalProgram::sweep(Bytes floor, PiecewiseLinear& out, Boundaries* kept,
                                const Boundaries* entry, double ceiling) {
  if (insides_ != SweepEnd::kDone) return insides_;
  ++work_.passes;
  return sweep_range(whole(), floor, out, kept, entry, ceiling);
}

void IntervalProgram::offer(PiecewiseLinear with, Bytes least, PiecewiseLinear& now,
                            PiecewiseLinear& merged) {
  math::clip_below(with, least);
  math::lower_envelope(now, with, merged);
  now.swap(merged);
  work_.segments += static_cast<std::int64_t>(now.size());
}

SweepEnd IntervalProgram::limit_reached(std::size_t size) {
  work_.largest = std::max(work_.largest, size);
  if (size > options_.max_segments) return SweepEnd::kTooLarge;
  if (coarse_pieces_ == 0 && work_.segments + work_.convolved > options_.max_made) {
    return SweepEnd::kTooLong;
  }
  if (context_.is_cancelled() || context_.is_past_deadline()) return SweepEnd::kStopped;
  if (context_.progress) context_.progress({work_.segments, {}, {}});
  return SweepEnd::kDone;
}

SweepEnd IntervalProgram::sweep_range(const Range& range, Bytes floor, PiecewiseLinear& out,
                                      Boundaries* kept, const Boundaries* entry, double ceiling) {
  const int size = range.end - range.first;
  std::vector<int> ending(size + 1, 0);  // units that still wait for a boundary
  for (int position = range.first; position < range.end; ++position) {
    for (int u : starting_at_[position]) {
      if (is_inside(u, range)) ++ending[problem_.units[u].last + 1 - range.first];
    }
  }
  Boundaries at(size + 1);
  PiecewiseLinear now = terminal(range, floor), merged;
  bool is_changed = true;
  for (int position = range.end - 1; position >= range.first; --position) {
    const int after = position + 1 - range.first;
    if (ending[after] > 0 || kept != nullptr) {
      at[after] = is_changed || at[after + 1] == nullptr
                      ? std::make_shared<const PiecewiseLinear>(now)
                      : at[after + 1];
    }
    const Bytes least = std::max(problem_.base_at(position), floor);
    is_changed = now.empty() || least > now.front().x;
    math::clip_below(now, least);
    bool has_units = false;
    for (int u : starting_at_[position]) {
      if (!is_inside(u, range)) continue;
      has_units = true;
      const CandidateUnit& unit = problem_.units[u];
      const int end = unit.last + 1 - range.first;
      offer(priced(u, *at[end]), std::max(unit.threshold, floor), now, merged);
      if (!inside_[u].empty()) offer(priced_nested(u, *at[end]), floor, now, merged);
      if (--ending[end] == 0 && kept == nullptr) at[end] = nullptr;
    }
    if (!has_units) continue;
    is_changed = true;
    if (entry != nullptr && (*entry)[position] != nullptr) {
      prune(now, *(*entry)[position], ceiling);
    }
    if (coarse_pieces_ > 0) math::raise_to_fewer(now, coarse_pieces_);
    if (const SweepEnd end = limit_reached(now.size()); end != SweepEnd::kDone) return end;
  }
  if (kept != nullptr) {
    at[0] = std::make_shared<const PiecewiseLinear>(now);
    *kept = std::move(at);
  }
  out = std::move(now);
  return SweepEnd::kDone;
}

SweepEnd IntervalProgram::solve(Bytes budget, Boundaries& kept, PiecewiseLinear& first) {
  if (insides_ != SweepEnd::kDone) return insides_;
  if (!options_.prune_by_bounds) return sweep(budget, first, &kept);
  const double bound = value_at(convex_sweep(budget), budget);
  const Boundaries entry = forward_sweep(budget);
  double gap = kFirstGap * std::max(bound, 1e-3);
  for (;;) {
    // Within a tie of the ceiling everything stays, so that ties are broken as without pruning.
    const double ceiling = bound + gap;
    const SweepEnd end = sweep(budget, first, &kept, &entry, ceiling * (1 + 10 * kTimeTie));
    if (end != SweepEnd::kDone) return end;
    const double found = value_at(first, budget);
    if (found <= ceiling) return end;
    // A value above the ceiling is some plan's, so no ceiling need be higher.
    gap = std::min(found - bound, 8 * gap);
  }
}

SweepEnd IntervalProgram::solve_within(Bytes budget, double ceiling, Boundaries& kept,
                                       PiecewiseLinear& first) {
  if (insides_ != SweepEnd::kDone) return insides_;
  const Boundaries entry = forward_sweep(budget);
  return sweep(budget, first, &kept, &entry, ceiling * (1 + 10 * kTimeTie));
}

PiecewiseLinear IntervalProgram::convex_sweep(Bytes floor, Boundaries* kept) const {
  const int n = problem_.num_modules();
  std::vector<PiecewiseLinear> at(n + 1);
  std::vector<int> ending(n + 1, 0);
  for (const std::vector<int>& units : starting_at_) {
    for (int u : units) ++ending[problem_.units[u].last + 1];
  }
  PiecewiseLinear now = terminal(whole(), floor);
  if (kept != nullptr) kept->assign(n + 1, nullptr);
  for (int position = n - 1; position >= 0; --position) {
    if (ending[position + 1] > 0) {
      at[position + 1] = now;
      if (kept != nullptr) (*kept)[position + 1] = std::make_shared<const PiecewiseLinear>(now);
    }
    math::clip_below(now, std::max(problem_.base_at(position), floor));
    for (int u : starting_at_[position]) {
      PiecewiseLinear& after = at[problem_.units[u].last + 1];
      PiecewiseLinear with =
          math::convex_convolution(math::shifted(after, hulls_[u].least_bytes, 0), hulls_[u].cost);
      math::clip_below(with, std::max(entry_need_[u], floor));
      now = math::convex_minimum(now, with);
      if (--ending[problem_.units[u].last + 1] == 0) after = {};
    }
  }
  return now;
}

Boundaries IntervalProgram::forward_sweep(Bytes budget) const {
  const int n = problem_.num_modules();
  std::vector<PiecewiseLinear> arriving(n + 1);
  Boundaries entry(n + 1);
  PiecewiseLinear now{{-budget, 0, 0}};
  for (int position = 0; position < n; ++position) {
    if (!arriving[position].empty()) {
      now = math::convex_minimum(now, arriving[position]);
      arriving[position] = {};
    }
    if (!starting_at_[position].empty()) entry[position] = std::make_shared<PiecewiseLinear>(now);
    for (int u : starting_at_[position]) {
      PiecewiseLinear with = now;
      math::flatten_beyond(with, -entry_need_[u]);
      with =
          math::convex_convolution(math::shifted(with, hulls_[u].least_bytes, 0), hulls_[u].cost);
      PiecewiseLinear& there = arriving[problem_.units[u].last + 1];
      there = there.empty() ? std::move(with) : math::convex_minimum(there, with);
    }
    math::flatten_beyond(now, -problem_.base_at(position));
  }
  return entry;
}

// The cheapest way to discard from this slack on; of those within `allowed` the most bytes.
UnitDecision IntervalProgram::decide(int unit, const PiecewiseLinear& after, Bytes slack,
                                     double allowed, double& cost) {
  const CandidateUnit& candidate = problem_.units[unit];
  UnitDecision best{unit, 0, -1, {}};
  cost = kInfinity;
  const auto consider = [&](Bytes bytes, double price, int point) {
    const double total = price + value_at(after, slack + bytes);
    const bool is_better =
        total <= allowed && cost <= allowed ? bytes > best.discarded : total < cost;
    if (is_better) {
      best.discarded = bytes;
      best.point = point;
      cost = total;
    }
  };
  if (slack >= candidate.threshold) {
    for (std::size_t k = 0; k < candidate.points.size(); ++k) {
      const CostPoint& point = candidate.points[k];
      if (slack >= point.needs) consider(point.bytes, point.price, static_cast<int>(k));
    }
    if (candidate.points.empty()) {
      const ConvexCost& price = candidate.price;
      Bytes bytes = 0;
      consider(bytes, price.fixed, -1);
      for (const math::CostPiece& piece : price.pieces) {
        bytes += piece.length;
        consider(bytes, price.price(bytes), -1);
      }
      for (const Segment& segment : after) {
        const Bytes d = segment.x - slack;
        if (d > 0 && d < bytes) consider(d, price.price(d), -1);
      }
    }
  } else if (!inside_[unit].empty() && slack >= inside_[unit].front().x) {
    int point = -1;
    find_full(candidate, point);
    best = {unit, candidate.kept_inside, point, {}};
    cost = price_of(problem_, best) + value_at(inside_[unit], slack) +
           value_at(after, slack + candidate.kept_inside);
  }
  return best;
}

std::vector<UnitDecision> IntervalProgram::recover(const Boundaries& kept, Bytes budget) {
  return recover_range(whole(), kept, budget);
}

std::vector<UnitDecision> IntervalProgram::recover_range(const Range& range, const Boundaries& kept,
                                                         Bytes slack) {
  std::vector<UnitDecision> decisions;
  // One tolerance for the whole plan: a tie taken early is not taken again.
  double left = value_at(*kept[0], slack);
  left += kTimeTie * (left + 1e-3);
  for (int position = range.first; position < range.end;) {
    const Bytes base = problem_.base_at(position);
    const double plain =
        slack >= base ? value_at(*kept[position + 1 - range.first], slack) : kInfinity;
    int next = position + 1;
    if (plain > left) {
      // No unit is not good enough: the first unit that is, else the best of all.
      double best = plain;
      UnitDecision chosen;
      for (int u : starting_at_[position]) {
        if (!is_inside(u, range)) continue;
        double cost = 0;
        const UnitDecision decision =
            decide(u, *kept[problem_.units[u].last + 1 - range.first], slack, left, cost);
        if (cost < best) {
          best = cost;
          chosen = decision;
          next = problem_.units[u].last + 1;
          if (cost <= left) break;
        }
      }
      if (best < plain) {
        const CandidateUnit& unit = problem_.units[chosen.unit];
        next = unit.last + 1;
        left -= price_of(problem_, chosen);
        if (slack < unit.threshold) {
          const Range inside{unit.first, unit.last + 1, chosen.unit};
          left -= value_at(inside_[chosen.unit], slack);
          Boundaries inner;
          PiecewiseLinear ignored;
          sweep_range(inside, slack, ignored, &inner, nullptr, 0);
          chosen.nested = recover_range(inside, inner, slack);
        }
        slack += chosen.discarded;
        decisions.push_back(std::move(chosen));
      }
    }
    position = next;
  }
  return decisions;
}

}  // namespace plimsoll::checkpoint
