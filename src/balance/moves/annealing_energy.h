// The energy that annealing lowers (placement_annealing.h), kept up to date rank by rank.
//
// With one barrier a rank is overloaded by what it carries beyond the target tau. With several, the
// target is split over them, and a rank is overloaded at each: E sums the squares, relative to tau.
// `rebalance` moves the split to where it costs least: at the optimum the overloads of all barriers
// add up to the same sum, and a Newton step leads there. What soft caps are overdrawn by is an
// overload like another.
#pragma once

#include <algorithm>
#include <numeric>
#include <vector>

#include "balance/problem/placement_state.h"

namespace plimsoll::balance {

class AnnealingEnergy {
 public:
  explicit AnnealingEnergy(const PlacementState& state)
      : state_(state),
        num_ranks_(state.items().num_ranks),
        num_barriers_(state.num_barriers()),
        term_(static_cast<std::size_t>(num_ranks_)),
        share_(static_cast<std::size_t>(num_barriers_)),
        overload_(share_.size()),
        num_over_(share_.size()) {}

  // tau in proportion to what the barriers take now.
  void aim(double tau, double kappa) {
    tau_ = tau;
    kappa_ = kappa;
    const double now = std::max(state_.slowest(), 1e-300);
    for (int g = 0; g < num_barriers_; ++g) {
      share_[g] = num_barriers_ == 1 ? tau : tau * state_.slowest(g) / now;
    }
    refresh();
  }

  void refresh() {
    sum_ = 0;
    num_overloaded_ = 0;
    for (int rank = 0; rank < num_ranks_; ++rank) {
      sum_ += term_[rank] = term_of(rank);
      if (term_[rank] > 0) ++num_overloaded_;
    }
  }

  // After the loads of some ranks changed.
  void update(const std::vector<int>& ranks) {
    for (const int rank : ranks) {
      const double term = term_of(rank);
      sum_ += term - term_[rank];
      num_overloaded_ += (term > 0 ? 1 : 0) - (term_[rank] > 0 ? 1 : 0);
      term_[rank] = term;
    }
  }

  // Splits the target again; O(ranks).
  void rebalance() {
    if (num_barriers_ == 1) return;
    double sum = 0, weight = 0;
    for (int g = 0; g < num_barriers_; ++g) {
      overload_[g] = 0;
      int count = 0;
      for (int rank = 0; rank < num_ranks_; ++rank) {
        const double over = state_.load(rank, g) - share_[g];
        if (over > 0) overload_[g] += over, ++count;
      }
      num_over_[g] = std::max(count, 1);
      sum += overload_[g] / num_over_[g];
      weight += 1.0 / num_over_[g];
    }
    const double level = sum / weight;
    for (int g = 0; g < num_barriers_; ++g) {
      share_[g] = std::max(share_[g] + kDamping * (overload_[g] - level) / num_over_[g], 0.0);
    }
    const double total = std::accumulate(share_.begin(), share_.end(), 0.0);
    for (double& share : share_) share *= total > 0 ? tau_ / total : 0;
    refresh();
  }

  double value() const {
    return sum_ + kappa_ * state_.mean_load() / tau_ + toll_ * static_cast<double>(state_.moved());
  }
  // What a moved byte adds, so that of moves that help alike the smaller one is made.
  void set_toll(double toll) { toll_ = toll; }
  double term(int rank) const { return term_[rank]; }

  // Is the target reached?
  bool is_hit() const { return num_overloaded_ == 0; }

 private:
  static constexpr double kDamping = .5;
  static double square(double x) { return x * x; }

  double term_of(int rank) const {
    if (num_barriers_ == 1) return square(std::max(0.0, state_.load(rank, 0) / tau_ - 1));
    double term = 0;
    for (int g = 0; g < num_barriers_; ++g) {
      term += square(std::max(0.0, (state_.load(rank, g) - share_[g]) / tau_));
    }
    return state_.has_soft_times() ? term + square(state_.overdraft(rank)) : term;
  }

  const PlacementState& state_;
  int num_ranks_, num_barriers_;
  int num_overloaded_ = 0;
  double tau_ = 1, kappa_ = 0, sum_ = 0, toll_ = 0;
  std::vector<double> term_;   // [num_ranks]
  std::vector<double> share_;  // [num_barriers] of tau
  std::vector<double> overload_;
  std::vector<int> num_over_;
};

}  // namespace plimsoll::balance
