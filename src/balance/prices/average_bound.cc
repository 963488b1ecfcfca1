#include "balance/prices/average_bound.h"

#include <algorithm>
#include <cmath>

#include "core/effort_clock.h"
#include "math/small_simplex.h"

namespace plimsoll::balance {
namespace {

double place_cost(const PlacementGroups& groups, const ChoicePlace& place,
                  const RankPrices& prices) {
  double cost = 0;
  for (const ChoiceShare& share : groups.shares_of(place)) {
    cost += prices.theta[share.kind] * share.load;
    const RankKind& kind = groups.ranks.kinds[share.kind];
    for (int resource = 0; resource < groups.ranks.num_resources; ++resource) {
      const double price = prices.price[kind.account[resource]];
      if (price != 0) cost += price * static_cast<double>(share.bytes[resource]);
    }
  }
  return cost;
}

// The cheapest surviving place; null where there is none.
const ChoicePlace* best_place(const PlacementGroups& groups, const Survivors& survivors,
                              const ChoicePart& part, const RankPrices& prices, double& cost) {
  const ChoicePlace* best = nullptr;
  cost = kInfinity;
  for (int p = part.first_place; p < part.first_place + part.num_places; ++p) {
    if (!survivors.place[p]) continue;
    const double price = place_cost(groups, groups.places[p], prices);
    if (best == nullptr || price < cost) {
      best = &groups.places[p];
      cost = price;
    }
  }
  return best;
}

// What the cheapest choices at some prices put on kinds and accounts, and their cost.
struct Solution {
  std::vector<double> load;   // [kinds]
  std::vector<double> bytes;  // [accounts]
  double cost = 0;
};

class Generation {
 public:
  Generation(const PlacementGroups& groups, const Survivors& survivors,
             const AverageOptions& options)
      : groups_(groups), survivors_(survivors), options_(options) {
    for (std::size_t a = 0; a < groups.ranks.accounts.size(); ++a) {
      // Where the cap is 0, what survives has no bytes.
      if (groups.ranks.accounts[a].cap > 0) rows_.push_back(static_cast<int>(a));
    }
  }

  AverageBound run() {
    if (survivors_.is_dead()) {
      result_.value = kInfinity;
      result_.infeasible = MemoryProof{{}, survivors_.dead_group, -1, 0};
      return std::move(result_);
    }
    result_.value = -kInfinity;
    if (options_.start != nullptr) {
      try_prices(*options_.start);
      if (result_.value > options_.goal) return std::move(result_);
    }
    const Solution& first = try_prices(equal_prices(groups_));
    if (is_settled(first) || result_.value > options_.goal) return std::move(result_);
    if (!fits(first) && !find_fit()) return std::move(result_);
    improve();
    return std::move(result_);
  }

  std::optional<MemoryProof> prove_no_room() {
    if (survivors_.is_dead()) return MemoryProof{{}, survivors_.dead_group, -1, 0};
    result_.value = -kInfinity;
    if (!fits(try_prices(equal_prices(groups_)))) find_fit();
    return std::move(result_.infeasible);
  }

 private:
  Bytes cap(int account) const { return groups_.ranks.accounts[account].cap; }

  bool fits(const Solution& solution) const {
    return std::all_of(rows_.begin(), rows_.end(),
                       [&](int a) { return solution.bytes[a] <= static_cast<double>(cap(a)); });
  }

  bool is_settled(const Solution& solution) const {
    return groups_.ranks.num_kinds() == 1 && fits(solution);
  }

  Solution solve_at(const RankPrices& prices) {
    ++result_.num_evaluations;
    Solution solution;
    solution.load.assign(groups_.ranks.kinds.size(), 0);
    solution.bytes.assign(groups_.ranks.accounts.size(), 0);
    for (const PlacementGroup& group : groups_.groups) {
      int best = -1;
      double least = kInfinity;
      for (int c = group.first_choice; c < group.first_choice + group.num_choices; ++c) {
        if (!survivors_.choice[c]) continue;
        const double cost = priced_cost(groups_, survivors_, groups_.choices[c], prices);
        if (best < 0 || cost < least) {
          best = c;
          least = cost;
        }
      }
      solution.cost += group.count() * least;
      for (const ChoicePart& part : groups_.parts_of(groups_.choices[best])) {
        double unused = 0;
        const ChoicePlace* place = best_place(groups_, survivors_, part, prices, unused);
        const double times = group.count() * static_cast<double>(part.count);
        for (const ChoiceShare& share : groups_.shares_of(*place)) {
          solution.load[share.kind] += times * share.load;
          for (int resource = 0; resource < groups_.ranks.num_resources; ++resource) {
            solution.bytes[groups_.ranks.kinds[share.kind].account[resource]] +=
                times * static_cast<double>(share.bytes[resource]);
          }
        }
      }
    }
    return solution;
  }

  const Solution& try_prices(const RankPrices& prices) {
    Solution solution = solve_at(prices);
    double value = solution.cost;
    for (const int a : rows_) value -= prices.price[a] * static_cast<double>(cap(a));
    if (value > result_.value) {
      result_.value = value;
      result_.prices = prices;
    }
    solutions_.push_back(std::move(solution));
    return solutions_.back();
  }

  bool is_spent() const {
    return result_.num_evaluations >= options_.max_evaluations ||
           (options_.context != nullptr && is_stopped(*options_.context));
  }

  // Smallest e so that a mean of solutions fills no account beyond e times its cap. False where
  // more than 1 is proved.
  bool find_fit() {
    std::vector<math::SimplexRow> rows(rows_.size(), {0, false, 0});
    rows.push_back({1, true, 1e6});
    math::SmallSimplex master(rows);
    std::vector<math::SimplexEntry> fill;
    for (std::size_t i = 0; i < rows_.size(); ++i) fill.push_back({static_cast<int>(i), -1});
    master.add_column(1, fill);
    std::size_t num_added = 0;
    while (!is_spent()) {
      for (; num_added < solutions_.size(); ++num_added) {
        std::vector<math::SimplexEntry> entries = {{static_cast<int>(rows_.size()), 1}};
        for (std::size_t i = 0; i < rows_.size(); ++i) {
          const double share =
              solutions_[num_added].bytes[rows_[i]] / static_cast<double>(cap(rows_[i]));
          if (share > 0) entries.push_back({static_cast<int>(i), share});
        }
        master.add_column(0, entries);
      }
      master.solve();
      if (master.value() <= 1) return true;
      RankPrices prices;
      prices.theta.assign(groups_.ranks.kinds.size(), 0);
      prices.price.assign(groups_.ranks.accounts.size(), 0);
      for (std::size_t i = 0; i < rows_.size(); ++i) {
        prices.price[rows_[i]] =
            std::max(0.0, -master.prices()[i]) / static_cast<double>(cap(rows_[i]));
      }
      Solution solution = solve_at(prices);
      if (solution.cost > 1 && prove(prices)) return false;
      if (solution.cost >= master.value() * (1 - 1e-12)) return true;  // no progress: no proof
      solutions_.push_back(std::move(solution));
    }
    return true;
  }

  // In integers: do the weighted bytes exceed the weighted caps?
  bool prove(const RankPrices& prices) {
    const double largest = *std::max_element(prices.price.begin(), prices.price.end());
    MemoryProof proof;
    for (const double price : prices.price) {
      proof.weight.push_back(std::llround(price / largest * 0x1p20));
    }
    const MemoryProof checked = weigh(groups_, survivors_, std::move(proof));
    if (checked.missing <= 0) return false;
    result_.value = kInfinity;
    result_.prices = prices;
    result_.infeasible = checked;
    return true;
  }

  static MemoryProof weigh(const PlacementGroups& groups, const Survivors& survivors,
                           MemoryProof proof) {
    Int128 excess = 0;
    for (std::size_t a = 0; a < proof.weight.size(); ++a) {
      excess -= Int128{proof.weight[a]} * groups.ranks.accounts[a].cap;
    }
    for (const PlacementGroup& group : groups.groups) {
      Int128 least = -1;
      for (int c = group.first_choice; c < group.first_choice + group.num_choices; ++c) {
        if (!survivors.choice[c]) continue;
        Int128 sum = 0;
        for (const ChoicePart& part : groups.parts_of(groups.choices[c])) {
          Int128 of_part = -1;
          for (int p = part.first_place; p < part.first_place + part.num_places; ++p) {
            if (!survivors.place[p]) continue;
            Int128 weight = 0;
            for (const ChoiceShare& share : groups.shares_of(groups.places[p])) {
              for (int resource = 0; resource < groups.ranks.num_resources; ++resource) {
                weight += Int128{proof.weight[groups.ranks.kinds[share.kind].account[resource]]} *
                          share.bytes[resource];
              }
            }
            if (of_part < 0 || weight < of_part) of_part = weight;
          }
          sum += of_part * part.count;
        }
        if (least < 0 || sum < least) least = sum;
      }
      excess += least * static_cast<std::int64_t>(group.units.size());
    }
    const auto heaviest = std::max_element(proof.weight.begin(), proof.weight.end());
    proof.resource =
        groups.ranks.accounts[static_cast<std::size_t>(heaviest - proof.weight.begin())].resource;
    if (excess > 0) proof.missing = static_cast<Bytes>((excess + *heaviest - 1) / *heaviest);
    return proof;
  }

  void improve() {
    const auto num_kinds = static_cast<int>(groups_.ranks.kinds.size());
    std::vector<math::SimplexRow> rows(static_cast<std::size_t>(num_kinds), {0, false, 0});
    rows.insert(rows.end(), rows_.size(), {1, false, 0});
    double scale = 0;
    for (const Solution& solution : solutions_) {
      for (int k = 0; k < num_kinds; ++k) scale = std::max(scale, solution.load[k]);
    }
    const int convexity = static_cast<int>(rows.size());
    rows.push_back({1, true, 1000 * scale + 1});
    math::SmallSimplex master(rows);
    std::vector<math::SimplexEntry> time;
    for (int k = 0; k < num_kinds; ++k) {
      time.push_back({k, -static_cast<double>(groups_.ranks.kinds[k].ranks.size())});
    }
    master.add_column(1, time);
    std::size_t num_added = 0;
    while (!is_spent()) {
      for (; num_added < solutions_.size(); ++num_added) {
        const Solution& solution = solutions_[num_added];
        std::vector<math::SimplexEntry> entries = {{convexity, 1}};
        for (int k = 0; k < num_kinds; ++k) {
          if (solution.load[k] > 0) entries.push_back({k, solution.load[k]});
        }
        for (std::size_t i = 0; i < rows_.size(); ++i) {
          const double share = solution.bytes[rows_[i]] / static_cast<double>(cap(rows_[i]));
          if (share > 0) entries.push_back({num_kinds + static_cast<int>(i), share});
        }
        master.add_column(0, entries);
      }
      master.solve();
      RankPrices prices;
      double sum = 0;
      for (int k = 0; k < num_kinds; ++k) {
        prices.theta.push_back(std::max(0.0, -master.prices()[k]));
        sum += prices.theta.back() * static_cast<double>(groups_.ranks.kinds[k].ranks.size());
      }
      if (sum <= 0) return;
      for (double& theta : prices.theta) theta /= sum;
      prices.price.assign(groups_.ranks.accounts.size(), 0);
      for (std::size_t i = 0; i < rows_.size(); ++i) {
        prices.price[rows_[i]] = std::max(0.0, -master.prices()[num_kinds + i]) /
                                 static_cast<double>(cap(rows_[i])) / sum;
      }
      try_prices(prices);
      if (result_.value > options_.goal || result_.value >= master.value() * (1 - 1e-10)) return;
    }
  }

  const PlacementGroups& groups_;
  const Survivors& survivors_;
  const AverageOptions& options_;
  std::vector<int> rows_;  // accounts with a cap above 0
  std::vector<Solution> solutions_;
  AverageBound result_;
};

}  // namespace

RankPrices equal_prices(const PlacementGroups& groups) {
  const auto num_ranks = static_cast<double>(groups.ranks.kind_of_rank.size());
  return {std::vector<double>(groups.ranks.kinds.size(), 1 / num_ranks),
          std::vector<double>(groups.ranks.accounts.size(), 0)};
}

double priced_cost(const PlacementGroups& groups, const Survivors& survivors,
                   const GroupChoice& choice, const RankPrices& prices) {
  double sum = 0;
  for (const ChoicePart& part : groups.parts_of(choice)) {
    double cost = 0;
    best_place(groups, survivors, part, prices, cost);
    sum += static_cast<double>(part.count) * cost;
  }
  return sum;
}

double priced_value(const PlacementGroups& groups, const Survivors& survivors,
                    const RankPrices& prices) {
  double sum = 0;
  for (const PlacementGroup& group : groups.groups) {
    double least = kInfinity;
    for (int c = group.first_choice; c < group.first_choice + group.num_choices; ++c) {
      if (!survivors.choice[c]) continue;
      least = std::min(least, priced_cost(groups, survivors, groups.choices[c], prices));
    }
    sum += group.count() * least;
  }
  for (std::size_t a = 0; a < prices.price.size(); ++a) {
    if (prices.price[a] != 0) {
      sum -= prices.price[a] * static_cast<double>(groups.ranks.accounts[a].cap);
    }
  }
  return sum;
}

AverageBound average_bound(const PlacementGroups& groups, const Survivors& survivors,
                           const AverageOptions& options) {
  return Generation(groups, survivors, options).run();
}

std::optional<MemoryProof> prove_no_room(const PlacementGroups& groups, const Survivors& survivors,
                                         const AverageOptions& options) {
  return Generation(groups, survivors, options).prove_no_room();
}

}  // namespace plimsoll::balance
