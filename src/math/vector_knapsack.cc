#include "math/vector_knapsack.h"

#include <algorithm>
#include <array>
#include <numeric>
#include <optional>
#include <utility>

#include "core/check.h"
#include "plimsoll/core/numbers.h"

namespace plimsoll::math {
namespace {

constexpr double kSlack = 1e-9;  // relative: what rounding may take from rooms and values
constexpr int kWeightRounds = 12;
constexpr std::size_t kMaxLimits = 8;
constexpr std::int64_t kShortSearch = 4000;  // nodes: to make tables takes about as long

// The best values of the last items of an order under one limit, at prices of the others: what is
// left to be gained is at most the price of what is left of the others, and that.
class SuffixTables {
 public:
  SuffixTables(const std::vector<VectorItem>& items, const std::vector<std::size_t>& order,
               const std::vector<std::int64_t>& copies, const std::vector<double>& room,
               std::vector<double> price, std::size_t limit)
      : limit_(limit), cell_(room[limit] / kCells), price_(std::move(price)) {
    price_[limit] = 0;
    best_.assign(order.size() + 1, std::vector<double>(kCells + 1, 0));
    for (std::size_t at = order.size(); at-- > 0;) {
      best_[at] = best_[at + 1];
      const VectorItem& item = items[order[at]];
      const double value =
          item.value - std::inner_product(price_.begin(), price_.end(), item.size.begin(), 0.0);
      if (value > 0) add(best_[at], cells_of(item.size[limit]), value, copies[at]);
    }
  }

  double bound(std::size_t at, const std::vector<double>& left) const {
    const int cells = std::clamp(static_cast<int>(left[limit_] / cell_ * (1 + kSlack)), 0, kCells);
    return best_[at][static_cast<std::size_t>(cells)] +
           std::inner_product(price_.begin(), price_.end(), left.begin(), 0.0);
  }

 private:
  static constexpr int kCells = 1000;

  int cells_of(double size) const {
    return static_cast<int>(std::min(size / cell_ * (1 - kSlack), kCells + 1.0));
  }

  // So many copies as one, two, four, ... at once.
  static void add(std::vector<double>& best, int size, double value, std::int64_t copies) {
    if (size == 0) {
      for (double& of : best) of += static_cast<double>(copies) * value;
      return;
    }
    copies = std::min<std::int64_t>(copies, kCells / size);
    for (std::int64_t some = 1; copies > 0; some *= 2) {
      some = std::min(some, copies);
      copies -= some;
      const int cells = static_cast<int>(some) * size;
      const double gain = static_cast<double>(some) * value;
      for (int to = kCells; to >= cells; --to) {
        best[to] = std::max(best[to], best[to - cells] + gain);
      }
    }
  }

  std::size_t limit_;
  double cell_;
  std::vector<double> price_;              // [limits] of a unit of room
  std::vector<std::vector<double>> best_;  // [items + 1][cells + 1]
};

class VectorSearch {
 public:
  VectorSearch(const std::vector<VectorItem>& items, const std::vector<double>& room,
               std::int64_t max_nodes)
      : items_(items), left_(room), max_nodes_(max_nodes) {
    for (double& r : left_) r *= 1 + kSlack;
    result_.count.assign(items.size(), 0);
    for (std::size_t i = 0; i < items.size(); ++i) {
      if (items[i].value > 0 && most_copies(i) > 0) order_.push_back(i);
    }
    count_.assign(items.size(), 0);
    choose_weights(room);
    if (max_nodes > kShortSearch) choose_table(room);
    find_better();
  }

  VectorFilling run() {
    descend(0, 0, capacity_);
    result_.bound = std::max(result_.value, abandoned_) * (1 + kSlack);
    return std::move(result_);
  }

 private:
  std::int64_t most_copies(std::size_t item) const {
    std::int64_t most = items_[item].copies;
    for (std::size_t d = 0; d < left_.size(); ++d) {
      const double size = items_[item].size[d];
      if (size <= 0) continue;
      most = std::min(most, static_cast<std::int64_t>(std::min(left_[d] / size, 1e15)));
    }
    return most;
  }

  // The fractional filling of one limit with these sizes; `used`: what it fills of every limit,
  // `rate`: what a little more room of it would be worth.
  double fractional(const std::vector<double>& weight, std::vector<double>& used, double& rate) {
    for (const std::size_t i : order_) {
      weighted_[i] = std::inner_product(weight.begin(), weight.end(), items_[i].size.begin(), 0.0);
    }
    std::stable_sort(order_.begin(), order_.end(), [this](std::size_t a, std::size_t b) {
      return items_[a].value * weighted_[b] > items_[b].value * weighted_[a];
    });
    double capacity = std::inner_product(weight.begin(), weight.end(), left_.begin(), 0.0);
    double value = 0;
    rate = 0;
    std::fill(used.begin(), used.end(), 0.0);
    for (const std::size_t i : order_) {
      const auto copies = static_cast<double>(most_copies(i));
      const double part = weighted_[i] > 0 ? std::min(copies, capacity / weighted_[i]) : copies;
      value += part * items_[i].value;
      capacity -= part * weighted_[i];
      for (std::size_t d = 0; d < used.size(); ++d) used[d] += part * items_[i].size[d];
      if (part >= copies) continue;
      rate = items_[i].value / weighted_[i];
      break;
    }
    return value;
  }

  // Limits that the fractional filling exceeds weigh more in the next round.
  void choose_weights(const std::vector<double>& room) {
    weighted_.assign(items_.size(), 0);
    std::vector<double> weight(room.size()), used(room.size());
    for (std::size_t d = 0; d < room.size(); ++d) weight[d] = room[d] > 0 ? 1 / room[d] : 0;
    double least = -1, rate = 0, step = 1;
    for (int round = 0; round < kWeightRounds; ++round, step *= .75) {
      const double value = fractional(weight, used, rate);
      if (least < 0 || value < least) least = value, price_ = weight;
      for (std::size_t d = 0; d < room.size(); ++d) {
        if (room[d] > 0) weight[d] *= std::max(1 + step * (used[d] / room[d] - 1), .05);
      }
    }
    fractional(price_, used, rate);  // leaves the order and the weighted sizes
    capacity_ = std::inner_product(price_.begin(), price_.end(), left_.begin(), 0.0);
    for (double& price : price_) price *= rate;
  }

  // The limit whose tables bound best at the root.
  void choose_table(const std::vector<double>& room) {
    std::vector<std::int64_t> copies;
    for (const std::size_t i : order_) copies.push_back(most_copies(i));
    double least = kInfinity;
    for (std::size_t d = 0; d < room.size(); ++d) {
      if (!(room[d] > 0)) continue;
      SuffixTables tables(items_, order_, copies, left_, price_, d);
      const double bound = tables.bound(0, left_);
      if (bound < least) least = bound, tables_.emplace(std::move(tables));
    }
  }

  // Items before another one that are worth no less and take no more: it is of use only once all
  // their copies are taken, for else one of them could stand in its place.
  void find_better() {
    better_.resize(order_.size());
    for (std::size_t at = 0; at < order_.size(); ++at) {
      const VectorItem& item = items_[order_[at]];
      for (std::size_t before = 0; before < at; ++before) {
        const VectorItem& by = items_[order_[before]];
        bool is_better = by.value >= item.value;
        for (std::size_t d = 0; d < left_.size(); ++d) is_better &= by.size[d] <= item.size[d];
        if (is_better) better_[at].push_back(order_[before]);
      }
    }
  }

  bool is_of_use(std::size_t at) const {
    return std::all_of(better_[at].begin(), better_[at].end(),
                       [this](std::size_t i) { return count_[i] == items_[i].copies; });
  }

  double bound_of_rest(std::size_t at, double capacity) const {
    double value = 0;
    for (std::size_t k = at; k < order_.size(); ++k) {
      const std::size_t i = order_[k];
      const auto copies = static_cast<double>(most_copies(i));
      if (weighted_[i] * copies > capacity) {
        value += std::max(capacity, 0.0) / weighted_[i] * items_[i].value;
        break;
      }
      value += copies * items_[i].value;
      capacity -= copies * weighted_[i];
    }
    return tables_ ? std::min(value, tables_->bound(at, left_)) : value;
  }

  void descend(std::size_t at, double value, double capacity) {
    ++result_.num_nodes;
    if (value > result_.value) {
      result_.value = value;
      result_.count = count_;
    }
    if (at == order_.size()) return;
    const double most = value + bound_of_rest(at, capacity);
    if (most <= result_.value * (1 + kSlack)) return;
    if (result_.num_nodes >= max_nodes_) {
      abandoned_ = std::max(abandoned_, most);
      return;
    }
    const std::size_t i = order_[at];
    const VectorItem& item = items_[i];
    std::array<double, kMaxLimits> left{};
    std::copy(left_.begin(), left_.end(), left.begin());
    for (std::int64_t n = is_of_use(at) ? most_copies(i) : 0; n >= 0; --n) {
      count_[i] = n;
      const auto copies = static_cast<double>(n);
      for (std::size_t d = 0; d < left_.size(); ++d) left_[d] = left[d] - copies * item.size[d];
      descend(at + 1, value + copies * item.value, capacity - copies * weighted_[i]);
    }
  }

  const std::vector<VectorItem>& items_;
  std::vector<double> left_;  // [limits]
  std::int64_t max_nodes_;
  std::vector<std::size_t> order_;  // of items, best first
  std::vector<double> weighted_;    // [items] sizes
  std::vector<double> price_;       // [limits] of a unit of room
  std::vector<std::int64_t> count_;
  std::vector<std::vector<std::size_t>> better_;  // [order_]
  std::optional<SuffixTables> tables_;
  double capacity_ = 0;   // of the weighted limit
  double abandoned_ = 0;  // the largest bound of a node that was not searched
  VectorFilling result_;
};

}  // namespace

VectorFilling fill_vector_knapsack(const std::vector<VectorItem>& items,
                                   const std::vector<double>& room, std::int64_t max_nodes) {
  PLIMSOLL_CHECK(room.size() <= kMaxLimits, "at most eight limits");
  for (const VectorItem& item : items) {
    PLIMSOLL_DCHECK(item.size.size() == room.size(), "an item has a size at every limit");
  }
  return VectorSearch(items, room, max_nodes).run();
}

}  // namespace plimsoll::math
