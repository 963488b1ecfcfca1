// Luus-Jaakola search and binary search over a predicate.
//
// Problem. Minimise a costly function of one number over an interval, few evaluations at hand.
// Method. Draw a point around the incumbent, within a radius that shrinks by 5 % with every
// success; points outside the interval are clamped to its border, and a border whose cost is known
// is drawn again.
// Cost. One random number per draw; redrawing takes a constant number of draws on average.
// Promises. Same seed, same points: the generator is MT19937 and a number uses the low 24 bits of
// one output, as torch.rand does. It finds no certified optimum.
// Departure. Where only borders of known cost can be drawn the reference never returns; we say that
// nothing is left.
// Source: docs/mathematics/torchrec-planner.md#scale-up-of-caches. [1] R. Luus, T. H. I. Jaakola,
// "Optimization by direct search and systematic reduction of the size of search region", AIChE
// Journal 19(4), 1973, https://doi.org/10.1002/aic.690190413.
#include "embedding/torchrec/luus_jaakola.h"

#include <limits>

#include "core/check.h"

namespace plimsoll::embedding {

LuusJaakola::LuusJaakola(double left, double right, int max_iterations, std::uint32_t seed,
                         std::optional<double> left_cost)
    : left_(left),
      right_(right),
      max_iterations_(max_iterations),
      left_cost_(left_cost),
      generator_(seed),
      radius_(right - left) {
  PLIMSOLL_CHECK(max_iterations >= 1, "there is an iteration");
  point_ = uniform(left_, right_);
}

std::optional<double> LuusJaakola::next(double cost) {
  ++iteration_;
  if (iteration_ == 0) return point_;
  // A quirk of the reference: the cost of the first point is kept, but that point is not a trial,
  // so its cost is not remembered where it happens to be a border.
  if (iteration_ == 1) {
    cost_ = cost;
  } else if (iteration_ == max_iterations_) {
    return std::nullopt;
  } else if (cost <= cost_ && trial_) {
    point_ = *trial_;
    cost_ = cost;
    radius_ = 0.95 * radius_;
  }
  if (trial_ == left_) {
    left_cost_ = cost;
  } else if (trial_ == right_) {
    right_cost_ = cost;
  }

  if (!can_draw()) return std::nullopt;
  do {
    trial_ = clamp(point_ + uniform(-radius_, radius_));
  } while (is_known(*trial_));
  return trial_;
}

void LuusJaakola::shrink_right(double right) {
  right_ = right;
  right_cost_ = std::numeric_limits<double>::infinity();
  radius_ = right_ - left_;
  point_ = clamp(point_);
}

double LuusJaakola::uniform(double low, double high) {
  const double unit = static_cast<double>(generator_() & 0xFFFFFFU) * 0x1p-24;
  return low + (high - low) * unit;
}

double LuusJaakola::clamp(double point) const {
  if (point < left_) return left_;
  if (point > right_) return right_;
  return point;
}

bool LuusJaakola::is_known(double point) const {
  return (point == left_ && left_cost_) || (point == right_ && right_cost_);
}

bool LuusJaakola::can_draw() const {
  if (left_ < right_ && radius_ > 0) return true;
  // An empty interval: every draw ends on a border.
  if (left_ < right_ || left_ == right_) return !is_known(point_);
  return !left_cost_ || !right_cost_;
}

std::optional<std::int64_t> BinarySearchPredicate::next(bool holds) {
  if (right_ - left_ < tolerance_) return std::nullopt;
  if (probe_) {
    if (holds) {
      left_ = *probe_ + 1;
    } else {
      right_ = *probe_ - 1;
    }
    if (right_ - left_ < tolerance_) return std::nullopt;
  }
  probe_ = left_ + (right_ - left_) / 2;
  return probe_;
}

}  // namespace plimsoll::embedding
