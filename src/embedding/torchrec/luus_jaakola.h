// One-dimensional searches for a good cache budget, driven from outside: `next` takes the cost of
// the last point and names the point to try now. Source:
// docs/mathematics/torchrec-planner.md#scale-up-of-caches.
#pragma once

#include <cstdint>
#include <optional>
#include <random>

namespace plimsoll::embedding {

// Luus-Jaakola random search on [left, right]. A seed gives the same points everywhere.
class LuusJaakola {
 public:
  // `left_cost` is the cost at `left` where it is known already: that point is then never proposed
  // after the first one. Precondition: max_iterations >= 1.
  LuusJaakola(double left, double right, int max_iterations, std::uint32_t seed = 42,
              std::optional<double> left_cost = std::nullopt);

  // `cost` belongs to the point named last and is ignored the first time. Nothing: the iterations
  // are used up, or no point is left whose cost is unknown.
  std::optional<double> next(double cost);

  // Points from `right` on are hopeless; they are never proposed again.
  void shrink_right(double right);

  struct Best {
    double point = 0;
    double cost = 0;
  };
  Best best() const { return {point_, cost_}; }

 private:
  double uniform(double low, double high);
  double clamp(double point) const;
  bool is_known(double point) const;
  bool can_draw() const;

  double left_, right_;
  int max_iterations_;
  std::optional<double> left_cost_, right_cost_;
  std::mt19937 generator_;
  int iteration_ = -1;
  double point_ = 0, cost_ = 0;  // the incumbent
  std::optional<double> trial_;  // the point named last
  double radius_ = 0;
};

// Binary search for the largest integer of [left, right] where a predicate holds, which fails from
// some point on. Stops early once fewer than `tolerance` + 1 integers are left.
class BinarySearchPredicate {
 public:
  BinarySearchPredicate(std::int64_t left, std::int64_t right, std::int64_t tolerance)
      : left_(left), right_(right), tolerance_(tolerance) {}

  // `holds` belongs to the point named last and is ignored the first time.
  std::optional<std::int64_t> next(bool holds);

 private:
  std::int64_t left_, right_, tolerance_;
  std::optional<std::int64_t> probe_;
};

}  // namespace plimsoll::embedding
