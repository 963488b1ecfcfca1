// The energy that annealing lowers (placement_annealing.h), kept up to date rank by rank.
#pragma once

#include <algorithm>
#include <vector>

#include "plimsoll/solve/placement_state.h"

namespace plimsoll::solve {

class AnnealingEnergy {
 public:
  explicit AnnealingEnergy(const PlacementState& state)
      : state_(state),
        num_ranks_(state.items().num_ranks),
        num_barriers_(state.num_barriers()),
        term_(static_cast<std::size_t>(num_ranks_)),
        slowest_(static_cast<std::size_t>(num_barriers_)),
        rank_of_slowest_(slowest_.size()) {}

  void aim(double tau, double kappa) {
    tau_ = tau;
    kappa_ = kappa;
    scale_.assign(slowest_.size(), tau);
    for (int g = 0; g < num_barriers_; ++g) {
      find_slowest(g);
      scale_[g] = std::max(slowest_[g], 1e-300);
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
    if (num_barriers_ > 1) {
      for (int g = 0; g < num_barriers_; ++g) find_slowest(g);
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
    if (num_barriers_ == 1) return;
    for (int g = 0; g < num_barriers_; ++g) {
      bool is_touched = false;
      for (const int rank : ranks) is_touched |= rank == rank_of_slowest_[g];
      if (is_touched) {
        find_slowest(g);
        continue;
      }
      for (const int rank : ranks) {
        const double load = state_.load(rank, g);
        if (load > slowest_[g]) slowest_[g] = load, rank_of_slowest_[g] = rank;
      }
    }
  }

  double value() const {
    double value = sum_ + kappa_ * state_.mean_load() / tau_;
    if (num_barriers_ > 1) {
      for (const double slowest : slowest_) value += slowest / tau_;
    }
    return value;
  }

  // Is the target reached?
  bool is_hit() const {
    if (num_barriers_ == 1) return num_overloaded_ == 0;
    double sum = 0;
    for (const double slowest : slowest_) sum += slowest;
    return sum <= tau_;
  }

 private:
  static double square(double x) { return x * x; }
  static double power_16(double x) { return square(square(square(square(x)))); }

  double term_of(int rank) const {
    if (num_barriers_ == 1) return square(std::max(0.0, state_.load(rank, 0) / tau_ - 1));
    double term = 0;
    for (int g = 0; g < num_barriers_; ++g) {
      term += scale_[g] * power_16(state_.load(rank, g) / scale_[g]);
    }
    return .02 * term / (tau_ * num_ranks_);
  }

  void find_slowest(int g) {
    slowest_[g] = -1;
    for (int rank = 0; rank < num_ranks_; ++rank) {
      const double load = state_.load(rank, g);
      if (load > slowest_[g]) slowest_[g] = load, rank_of_slowest_[g] = rank;
    }
  }

  const PlacementState& state_;
  int num_ranks_, num_barriers_;
  int num_overloaded_ = 0;
  double tau_ = 1, kappa_ = 0, sum_ = 0;
  std::vector<double> term_;     // [num_ranks]
  std::vector<double> slowest_;  // [num_barriers]
  std::vector<int> rank_of_slowest_;
  std::vector<double> scale_;  // [num_barriers] of the 16th powers
};

}  // namespace plimsoll::solve
