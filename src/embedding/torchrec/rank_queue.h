// The least loaded rank at once: a tournament tree over ranks.
//
// Ranks are leaves in tie order (rank modulo a host's size, then rank), so of two equal loads the
// left leaf wins and the winner is the smallest by (load, rank mod w, rank), the reference's device
// order. Building is O(W), an update O(log W), the winner O(1).
#pragma once

#include <algorithm>
#include <cstdint>
#include <limits>
#include <numeric>
#include <vector>

namespace plimsoll::embedding {

class RankQueue {
 public:
  // Ranks 0..num_ranks-1, ties by (rank mod modulus, rank). The loads come with build().
  void reset(int num_ranks, int modulus) {
    if (num_ranks == num_ranks_ && modulus == modulus_) return;
    num_ranks_ = num_ranks;
    modulus_ = modulus;
    order_.resize(static_cast<std::size_t>(num_ranks));
    std::iota(order_.begin(), order_.end(), 0);
    std::stable_sort(order_.begin(), order_.end(),
                     [modulus](int a, int b) { return a % modulus < b % modulus; });
    leaf_of_.resize(order_.size());
    for (std::size_t leaf = 0; leaf < order_.size(); ++leaf) {
      leaf_of_[static_cast<std::size_t>(order_[leaf])] = static_cast<int>(leaf);
    }
    size_ = 1;
    while (size_ < order_.size()) size_ *= 2;
    load_.assign(size_, std::numeric_limits<double>::infinity());
    winner_.resize(2 * size_);
  }

  template <class LoadOf>
  void build(const LoadOf& load_of) {
    for (std::size_t leaf = 0; leaf < order_.size(); ++leaf) load_[leaf] = load_of(order_[leaf]);
    for (std::size_t leaf = 0; leaf < size_; ++leaf) {
      winner_[size_ + leaf] = static_cast<std::int32_t>(leaf);
    }
    for (std::size_t node = size_ - 1; node > 0; --node) play(node);
  }

  void update(int rank, double load) {
    const auto leaf = static_cast<std::size_t>(leaf_of_[static_cast<std::size_t>(rank)]);
    load_[leaf] = load;
    for (std::size_t node = (size_ + leaf) / 2; node > 0; node /= 2) play(node);
  }

  // The least loaded rank for which accepts(rank) holds, or -1. O(1) if the winner is accepted,
  // else O(W).
  template <class Accepts>
  int find(const Accepts& accepts) const {
    const int winner = order_[static_cast<std::size_t>(winner_[1])];
    if (accepts(winner)) return winner;
    int best = -1;
    double best_load = std::numeric_limits<double>::infinity();
    for (std::size_t leaf = 0; leaf < order_.size(); ++leaf) {
      if (load_[leaf] < best_load && accepts(order_[leaf])) {
        best = order_[leaf];
        best_load = load_[leaf];
      }
    }
    return best;
  }

 private:
  void play(std::size_t node) {
    const std::int32_t left = winner_[2 * node];
    const std::int32_t right = winner_[2 * node + 1];
    winner_[node] = load_[static_cast<std::size_t>(right)] < load_[static_cast<std::size_t>(left)]
                        ? right
                        : left;
  }

  int num_ranks_ = 0;
  int modulus_ = 0;
  std::size_t size_ = 0;              // leaves, a power of two
  std::vector<int> order_;            // [num_ranks] rank of a leaf
  std::vector<int> leaf_of_;          // [num_ranks] leaf of a rank
  std::vector<double> load_;          // [size_]
  std::vector<std::int32_t> winner_;  // [2 size_] leaf that wins the subtree
};

}  // namespace plimsoll::embedding
