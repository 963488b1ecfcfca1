#include "math/composition.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "plimsoll/math/infimal_convolution.h"

namespace plimsoll::math {
namespace {

// Does piece k + 1 go on where piece k ends, less steeply?
bool continues(const PiecewiseLinear& f, std::size_t k) {
  const double end = line_at(f[k], f[k + 1].x);
  return f[k].slope < f[k + 1].slope && std::abs(end - f[k + 1].y) <= kTie * (1 + std::abs(end));
}

// The run of pieces [first, last] as a price of giving bytes back, from its right end on.
struct Run {
  Bytes end = 0;
  ConvexCost price;
};

Run make_run(const PiecewiseLinear& f, std::size_t first, std::size_t last) {
  // The last piece of all is flat for ever: its first byte stands for it. Any other ends before the
  // next begins, where there may be a jump.
  const bool is_open = last + 1 == f.size();
  Run run;
  run.end = is_open ? f[last].x : f[last + 1].x - 1;
  run.price.fixed = line_at(f[last], run.end);
  for (std::size_t k = last + 1; k-- > first;) {
    const Bytes length = (k == last ? run.end : f[k + 1].x) - f[k].x;
    if (length > 0) run.price.pieces.push_back({length, -f[k].slope});
  }
  return run;
}

PiecewiseLinear compose(const PiecewiseLinear& a, const PiecewiseLinear& b,
                        const CompositionOptions& options, CompositionWork& work) {
  if (a.empty() || b.empty()) return {};
  std::vector<PiecewiseLinear> curves;
  for (std::size_t first = 0; first < a.size();) {
    std::size_t last = first;
    while (options.join_runs && last + 1 < a.size() && continues(a, last)) ++last;
    const Run run = make_run(a, first, last);
    curves.push_back(shifted(convolve(b, run.price), -run.end, 0));
    ++work.convolutions;
    first = last + 1;
  }
  return lower_envelope(std::move(curves));
}

// The bytes of `b` in the cheapest split of `cap`, which is no less than both need at least; of
// equal sums the fewest.
Bytes second_share(const PiecewiseLinear& a, const PiecewiseLinear& b, Bytes cap) {
  Bytes best = 0;
  double least = kInfinity;
  std::size_t i = a.size() - 1;
  while (a[i].x > cap - b.front().x) --i;
  // m bytes go to b, ascending; piece i of a holds cap - m.
  Bytes m = b.front().x;
  for (std::size_t j = 0;;) {
    const Bytes last_of_b = j + 1 < b.size() ? b[j + 1].x - 1 : cap - a.front().x;
    const Bytes last_of_a = cap - a[i].x;  // beyond it a is in the piece before
    const Bytes last = std::min(last_of_b, last_of_a);
    for (const Bytes at : {m, last}) {
      const double ms = line_at(a[i], cap - at) + line_at(b[j], at);
      if (ms < least - kTie * (1 + std::abs(ms))) {
        least = ms;
        best = at;
      }
    }
    m = last + 1;
    if (last == last_of_b && ++j == b.size()) break;
    if (last == last_of_a && i-- == 0) break;
  }
  return best;
}

// The least sum at `cap`.
double least_at(const PiecewiseLinear& a, const PiecewiseLinear& b, Bytes cap) {
  const Bytes share = second_share(a, b, cap);
  return value_at(a, cap - share) + value_at(b, share);
}

}  // namespace

std::optional<MemorySplit> split_between(const Frontier& a, const Frontier& b, Bytes cap) {
  if (a.is_empty() || b.is_empty() || cap - b.min_bytes() < a.min_bytes()) return std::nullopt;
  const Bytes share = second_share(a.upper(), b.upper(), cap);
  MemorySplit split;
  split.free = cap;
  for (const auto& [part, bytes] : {std::pair(&a, cap - share), std::pair(&b, share)}) {
    split.bytes.push_back(part->bytes_for(value_at(part->upper(), bytes)).value_or(bytes));
    split.free -= split.bytes.back();
    split.ms += value_at(part->upper(), split.bytes.back());
    split.price.push_back(part->price_at(split.bytes.back()));
  }
  const bool is_exact = a.is_exact() && b.is_exact();
  split.lower_bound = is_exact ? split.ms : std::min(split.ms, least_at(a.lower(), b.lower(), cap));
  split.next_gib_ms = std::max(0.0, split.ms - least_at(a.upper(), b.upper(), cap + kGiB));
  return split;
}

Frontier compose(const Frontier& a, const Frontier& b, const CompositionOptions& options,
                 CompositionWork* work) {
  CompositionWork own;
  CompositionWork& counted = work == nullptr ? own : *work;
  PiecewiseLinear upper = compose(a.upper(), b.upper(), options, counted);
  if (a.is_exact() && b.is_exact()) return Frontier(std::move(upper));
  return {std::move(upper), compose(a.lower(), b.lower(), options, counted)};
}

Composition::Composition(std::vector<Frontier> parts, const CompositionOptions& options)
    : parts_(std::move(parts)) {
  prefixes_.push_back(parts_.front());
  for (std::size_t k = 1; k < parts_.size(); ++k) {
    prefixes_.push_back(compose(prefixes_.back(), parts_[k], options));
  }
}

std::optional<MemorySplit> Composition::split_at(Bytes cap) const {
  const auto ms = whole().ms_at(cap);
  if (!ms) return std::nullopt;
  MemorySplit split;
  split.bytes.resize(parts_.size());
  // Less than the cap where less does as well.
  Bytes left = whole().bytes_for(*ms + kTie * (1 + std::abs(*ms))).value_or(cap);
  for (std::size_t k = parts_.size(); k-- > 0;) {
    const Bytes share =
        k == 0 ? left : second_share(prefixes_[k - 1].upper(), parts_[k].upper(), left);
    const double own = parts_[k].ms_at(share).value_or(kInfinity);
    split.bytes[k] = parts_[k].bytes_for(own).value_or(share);
    left -= share;
  }
  split.free = cap;
  for (std::size_t k = 0; k < parts_.size(); ++k) {
    split.free -= split.bytes[k];
    split.ms += parts_[k].ms_at(split.bytes[k]).value_or(kInfinity);
    split.price.push_back(parts_[k].price_at(split.bytes[k]));
  }
  split.lower_bound = std::min(split.ms, value_at(whole().lower(), cap));
  split.next_gib_ms = split.ms - std::min(split.ms, whole().ms_at(cap + kGiB).value_or(split.ms));
  return split;
}

}  // namespace plimsoll::math
