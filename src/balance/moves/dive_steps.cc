#include "balance/moves/dive_steps.h"

#include <algorithm>
#include <cmath>
#include <utility>

namespace plimsoll::balance {
namespace {

bool is_forced(const std::vector<DiveSteps::Step>& steps) {
  return !steps.empty() && std::all_of(steps.begin(), steps.end(), [](const auto& step) {
    return step.spread == Spread::kUniform;
  });
}

}  // namespace

DiveSteps::DiveSteps(const PlacementItems& items, const DiveOptions& options)
    : items_(items), relaxes_memory_(options.relaxes_memory) {
  const double to_whole = static_cast<double>(kScale) / options.target;
  for (const double load : items.load) {
    load_.push_back(static_cast<std::int64_t>(
        std::floor(std::min(load * to_whole, 2.0 * static_cast<double>(kScale)))));
  }
  make_steps();
  cascade();
  make_order();
  find_least_work();
}

std::int64_t DiveSteps::piece_load(const Step& step, int piece) const {
  return load_[PlacementItems::record_of(items_.choices[step.choice], piece)];
}

const TierBytes& DiveSteps::piece_bytes(const Step& step, int piece) const {
  return items_.bytes[PlacementItems::record_of(items_.choices[step.choice], piece)];
}

void DiveSteps::make_steps() {
  for (int unit = 0; unit < items_.num_units; ++unit) {
    std::vector<Step> steps;
    for (int c = items_.first_choice[unit]; c < items_.first_choice[unit + 1]; ++c) {
      const PlacementItems::Choice& choice = items_.choices[c];
      Step step{c, choice.spread, choice.num_pieces, 0, 0};
      const int num_pieces = std::max(choice.num_pieces, 1);
      const int copies = choice.spread == Spread::kHost      ? items_.width
                         : choice.spread == Spread::kUniform ? items_.num_ranks
                                                             : 1;
      for (int piece = 0; piece < num_pieces; ++piece) {
        const std::int64_t load = piece_load(step, piece);
        step.peak = std::max(step.peak, load);
        step.work += copies * load;
      }
      if (step.peak <= kScale) steps.push_back(step);
    }
    std::stable_sort(steps.begin(), steps.end(),
                     [](const Step& a, const Step& b) { return a.work < b.work; });
    steps_.push_back(std::move(steps));
  }
}

// Units with uniform choices alone are in every placement; a piece must fit beside them.
void DiveSteps::cascade() {
  for (bool is_changed = true; is_changed;) {
    is_changed = false;
    std::int64_t forced = 0;
    for (const std::vector<Step>& steps : steps_) {
      if (is_forced(steps)) forced += steps.front().peak;
    }
    for (std::vector<Step>& steps : steps_) {
      if (is_forced(steps)) continue;
      const std::size_t size = steps.size();
      std::erase_if(steps, [&](const Step& step) { return step.peak > kScale - forced; });
      is_changed |= steps.size() != size;
    }
  }
}

void DiveSteps::make_order() {
  for (int unit = 0; unit < items_.num_units; ++unit) order_.push_back(unit);
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
  const std::vector<Step>& x = steps_[a];
  const std::vector<Step>& y = steps_[b];
  if (x.size() != y.size()) return false;
  for (std::size_t i = 0; i < x.size(); ++i) {
    if (x[i].spread != y[i].spread || x[i].num_pieces != y[i].num_pieces ||
        x[i].work != y[i].work || x[i].peak != y[i].peak ||
        items_.choices[x[i].choice].distinct_ranks != items_.choices[y[i].choice].distinct_ranks) {
      return false;
    }
    for (int piece = 0; piece < std::max(x[i].num_pieces, 1); ++piece) {
      if (piece_load(x[i], piece) != piece_load(y[i], piece)) return false;
      if (!relaxes_memory_ && piece_bytes(x[i], piece) != piece_bytes(y[i], piece)) return false;
    }
  }
  return true;
}

// By the sizes where it changes.
void DiveSteps::find_least_work() {
  for (const std::vector<Step>& steps : steps_) {
    for (const Step& step : steps) sizes_.push_back(step.peak);
  }
  std::sort(sizes_.begin(), sizes_.end());
  sizes_.erase(std::unique(sizes_.begin(), sizes_.end()), sizes_.end());
  rest_.assign(size() + 1, std::vector<std::int64_t>(sizes_.size(), 0));
  for (std::size_t d = size(); d-- > 0;) {
    for (std::size_t k = 0; k < sizes_.size(); ++k) {
      std::int64_t least = kNever;
      for (const Step& step : steps(d)) {
        if (step.peak <= sizes_[k]) least = std::min(least, step.work);
      }
      rest_[d][k] = std::min(rest_[d + 1][k] + least, kNever);
    }
  }
}

std::int64_t DiveSteps::least_work(std::size_t depth, std::int64_t room) const {
  if (depth == size()) return 0;
  const auto end = std::upper_bound(sizes_.begin(), sizes_.end(), room);
  return end == sizes_.begin() ? kNever : rest_[depth][end - sizes_.begin() - 1];
}

}  // namespace plimsoll::balance
