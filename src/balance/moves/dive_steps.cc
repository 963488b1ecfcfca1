#include "balance/moves/dive_steps.h"

#include <algorithm>
#include <cmath>
#include <utility>

namespace plimsoll::balance {
namespace {

using Loads = DiveSteps::Loads;
using Piece = DiveSteps::Piece;
using Step = DiveSteps::Step;

std::int64_t sum_of(const Loads& loads) {
  std::int64_t sum = 0;
  for (const std::int64_t load : loads) sum += load;
  return sum;
}

bool is_forced(const std::vector<Step>& steps) {
  return !steps.empty() && std::all_of(steps.begin(), steps.end(), [](const Step& step) {
    return step.spread == Spread::kUniform;
  });
}

std::int64_t least_piece(const std::vector<Step>& steps) {
  std::int64_t least = DiveSteps::kNever;
  for (const Step& step : steps) least = std::min(least, step.least);
  return least;
}

Piece lighter(const Piece& a, const Piece& b) {
  Piece least = a;
  for (std::size_t k = 0; k < a.load.size(); ++k) {
    for (std::size_t g = 0; g < a.load[k].size(); ++g) {
      least.load[k][g] = std::min(a.load[k][g], b.load[k][g]);
    }
  }
  for (std::size_t r = 0; r < a.bytes.num_set(); ++r) {
    least.bytes[r] = std::min(a.bytes[r], b.bytes[r]);
  }
  return least;
}

bool is_no_heavier(const Piece& a, const Piece& b) { return lighter(a, b) == a; }

// Whatever takes b can take a in its place.
bool beats(const Step& a, const Step& b) {
  if (a.spread != b.spread || a.num_places != b.num_places || a.piece_of != b.piece_of ||
      a.pieces.size() != b.pieces.size() || (a.distinct_ranks && !b.distinct_ranks) ||
      (a.causes & ~b.causes) != 0) {
    return false;
  }
  for (std::size_t i = 0; i < a.pieces.size(); ++i) {
    if (!is_no_heavier(a.pieces[i], b.pieces[i])) return false;
  }
  return true;
}

}  // namespace

DiveSteps::DiveSteps(const PlacementProblem& problem, const DiveOptions& options)
    : problem_(problem),
      options_(options),
      to_whole_(static_cast<double>(kScale) / (options.target - problem.floor_ms)) {
  for (const double charge : problem.charges) charge_.push_back(scaled(charge));
  price_caps();
  for (const Unit& unit : problem.units) steps_.push_back(make_steps(unit));
  cascade();
  make_order();
  find_least_work();
}

std::int64_t DiveSteps::scaled(double ms) const {
  return static_cast<std::int64_t>(std::min(std::floor(ms * to_whole_), 2.0 * double{kScale}));
}

std::int64_t DiveSteps::charge(std::uint64_t causes) const {
  std::int64_t sum = 0;
  for (std::size_t cause = 0; cause < charge_.size(); ++cause) {
    if ((causes >> cause & 1) != 0) sum += charge_[cause];
  }
  return sum;
}

// Rounded down, and by a little more than the product may lose.
std::int64_t DiveSteps::priced(const Amounts& bytes, std::int64_t times) const {
  if (!has_prices_) return 0;
  double sum = 0;
  for (std::size_t t = 0; t < problem_.resources.size(); ++t) {
    sum += options_.byte_price[t] * static_cast<double>(bytes[t]);
  }
  return times * static_cast<std::int64_t>(std::floor(sum * to_whole_ * (1 - 1e-12)));
}

void DiveSteps::price_caps() {
  double sum = 0;
  for (const Amounts& caps : problem_.caps) {
    for (std::size_t t = 0; t < problem_.resources.size(); ++t) {
      sum += options_.byte_price[t] * static_cast<double>(caps[t]);
    }
  }
  const double whole = std::ceil(sum * to_whole_ * (1 + 1e-9));
  has_prices_ = !options_.relaxes && sum > 0 && whole < 0x1p59;
  if (has_prices_) priced_caps_ = static_cast<std::int64_t>(whole);
}

Step DiveSteps::make_step(const UnitChoice& choice) const {
  const auto num_barriers = static_cast<std::size_t>(problem_.num_barriers);
  Step step;
  step.spread = choice.spread;
  step.distinct_ranks = choice.distinct_ranks;
  for (const int cause : choice.causes) step.causes |= std::uint64_t{1} << cause;
  const std::int64_t times = choice.spread == Spread::kHost ? choice.num_blocks : 1;
  std::vector<std::int64_t> counts;
  for (const PieceRun& run : choice.runs) {
    Piece piece;
    piece.bytes = run.bytes;
    for (std::size_t first = 0; first < run.load.size(); first += num_barriers) {
      Loads& load = piece.load.emplace_back();
      for (std::size_t g = 0; g < num_barriers; ++g) load[g] = scaled(run.load[first + g]);
    }
    if (options_.relaxes) piece.bytes = {};
    counts.push_back(run.count);
    step.pieces.push_back(std::move(piece));
  }
  if (options_.relaxes) {
    for (std::size_t i = 1; i < counts.size(); ++i) {
      step.pieces[0] = lighter(step.pieces[0], step.pieces[i]);
      counts[0] += counts[i];
    }
    step.pieces.resize(1);
    counts.resize(1);
  }
  std::int64_t num_pieces = 0;
  for (std::size_t i = 0; i < counts.size(); ++i) {
    const Piece& piece = step.pieces[i];
    std::int64_t least = kNever;
    for (const Loads& load : piece.load) least = std::min(least, sum_of(load));
    step.peak = std::max(step.peak, least);
    step.least = std::min(step.least, least);
    step.work += times * counts[i] * least;
    step.priced += priced(piece.bytes, times * counts[i]);
    for (std::size_t g = 0; g < num_barriers; ++g) {
      std::int64_t least_of = kNever;
      for (const Loads& load : piece.load) least_of = std::min(least_of, load[g]);
      step.work_of[g] += times * counts[i] * least_of;
    }
    num_pieces += counts[i];
    if (counts.size() > 1) {
      step.piece_of.insert(step.piece_of.end(), static_cast<std::size_t>(counts[i]),
                           static_cast<int>(i));
    }
  }
  step.priced += step.work;
  step.num_places = static_cast<int>(choice.spread == Spread::kDevice ? num_pieces
                                     : choice.spread == Spread::kHost ? choice.num_blocks
                                                                      : 0);
  return step;
}

std::vector<Step> DiveSteps::make_steps(const Unit& unit) const {
  std::vector<Step> steps;
  for (std::size_t c = 0; c < unit.choices.size(); ++c) {
    Step step = make_step(unit.choices[c]);
    step.choice = static_cast<int>(c);
    const bool is_there = (step.causes & options_.forbidden) == 0 && step.peak <= kScale;
    if (is_there) steps.push_back(std::move(step));
  }
  std::stable_sort(steps.begin(), steps.end(),
                   [](const Step& a, const Step& b) { return a.work < b.work; });
  std::vector<Step> kept;
  for (Step& step : steps) {
    const bool is_beaten = std::any_of(kept.begin(), kept.end(),
                                       [&step](const Step& other) { return beats(other, step); });
    if (!is_beaten) kept.push_back(std::move(step));
  }
  return kept;
}

// Units with uniform choices alone are in every placement; a piece must fit beside them.
void DiveSteps::cascade() {
  for (bool is_changed = true; is_changed;) {
    is_changed = false;
    std::int64_t forced = 0;
    for (const std::vector<Step>& steps : steps_) {
      if (is_forced(steps)) forced += least_piece(steps);
    }
    for (std::vector<Step>& steps : steps_) {
      if (is_forced(steps)) continue;
      const auto is_too_large = [forced](const Step& step) {
        return step.spread != Spread::kUniform && step.peak > kScale - forced;
      };
      is_changed |= std::erase_if(steps, is_too_large) > 0;
    }
  }
}

void DiveSteps::make_order() {
  for (int unit = 0; unit < problem_.num_units(); ++unit) order_.push_back(unit);
  const auto key = [this](int unit) {
    const std::vector<Step>& steps = steps_[unit];
    return std::pair(is_forced(steps) ? 0 : 1, steps.empty() ? 0 : -steps.front().work);
  };
  std::stable_sort(order_.begin(), order_.end(), [&key](int a, int b) { return key(a) < key(b); });
  has_host_from_.assign(size() + 1, false);
  for (std::size_t d = size(); d-- > 0;) {
    has_host_from_[d] = has_host_from_[d + 1] ||
                        std::any_of(steps(d).begin(), steps(d).end(),
                                    [](const Step& step) { return step.spread == Spread::kHost; });
  }
  is_like_previous_.assign(size(), false);
  for (std::size_t d = 1; d < size(); ++d) {
    is_like_previous_[d] = are_equal(order_[d - 1], order_[d]);
  }
}

bool DiveSteps::are_equal(int a, int b) const {
  const Unit& one = problem_.units[a];
  const Unit& other = problem_.units[b];
  if (!options_.relaxes) {
    if (one.allowed_ranks != other.allowed_ranks) return false;
    for (const std::vector<int>& set : problem_.apart) {
      const bool has_one = std::find(set.begin(), set.end(), a) != set.end();
      if (has_one || std::find(set.begin(), set.end(), b) != set.end()) return false;
    }
  }
  return std::equal(steps_[a].begin(), steps_[a].end(), steps_[b].begin(), steps_[b].end(),
                    [](const Step& x, const Step& y) {
                      return x.spread == y.spread && x.num_places == y.num_places &&
                             x.causes == y.causes && x.distinct_ranks == y.distinct_ranks &&
                             x.piece_of == y.piece_of && x.pieces == y.pieces;
                    });
}

// By the sizes where it changes.
void DiveSteps::find_least_work() {
  for (const std::vector<Step>& steps : steps_) {
    for (const Step& step : steps) sizes_.push_back(step.peak);
  }
  std::sort(sizes_.begin(), sizes_.end());
  sizes_.erase(std::unique(sizes_.begin(), sizes_.end()), sizes_.end());
  rest_.assign(size() + 1, std::vector<std::int64_t>(sizes_.size(), 0));
  rest_of_.assign(size() + 1, Loads{});
  rest_priced_.assign(size() + 1, 0);
  for (std::size_t d = size(); d-- > 0;) {
    for (std::size_t k = 0; k < sizes_.size(); ++k) {
      std::int64_t least = kNever;
      for (const Step& step : steps(d)) {
        if (step.peak <= sizes_[k]) least = std::min(least, step.work);
      }
      rest_[d][k] = std::min(rest_[d + 1][k] + least, kNever);
    }
    std::int64_t least = kNever;
    Loads least_of;
    least_of.fill(kNever);
    for (const Step& step : steps(d)) {
      least = std::min(least, step.priced);
      for (std::size_t g = 0; g < least_of.size(); ++g) {
        least_of[g] = std::min(least_of[g], step.work_of[g]);
      }
    }
    rest_priced_[d] = std::min(rest_priced_[d + 1] + least, kNever);
    for (std::size_t g = 0; g < least_of.size(); ++g) {
      rest_of_[d][g] = std::min(rest_of_[d + 1][g] + least_of[g], kNever);
    }
  }
}

std::int64_t DiveSteps::least_work(std::size_t depth, std::int64_t room) const {
  if (depth == size()) return 0;
  const auto end = std::upper_bound(sizes_.begin(), sizes_.end(), room);
  return end == sizes_.begin() ? kNever : rest_[depth][end - sizes_.begin() - 1];
}

}  // namespace plimsoll::balance
