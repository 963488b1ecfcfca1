#include "balance/verify/verify_relocation.h"

#include <algorithm>
#include <cmath>

#include "plimsoll/core/numbers.h"

namespace plimsoll::balance {
namespace {

constexpr double kSlack = 1e-9;    // relative, of weights and shares that are rounded
constexpr double kRounded = 1e-9;  // relative, of all that is added up

class RelocationVerifier {
 public:
  RelocationVerifier(const PlacementProblem& problem, const MoveCosts& costs,
                     const RelocationPrices& prices)
      : problem_(problem), costs_(costs), prices_(prices) {}

  RelocationVerdict verify(std::optional<Bytes> max_moved) {
    if (std::string fault = find_fault(); !fault.empty()) return {-kInfinity, std::move(fault)};
    add(problem_.floor_ms);
    for (std::size_t u = 0; u < problem_.units.size(); ++u) {
      double least = kInfinity;
      for (std::size_t c = 0; c < problem_.units[u].choices.size(); ++c) {
        least = std::min(least, cost_of(u, c));
      }
      add(least);
    }
    for (int t = 0; t < problem_.num_resources(); ++t) {
      for (int r = 0; r < problem_.num_ranks; ++r) {
        add(-prices_.memory[t][r] * static_cast<double>(problem_.caps[r][t]));
      }
    }
    if (max_moved) add(-prices_.moved * static_cast<double>(*max_moved));
    if (std::isnan(sum_) || std::isnan(size_)) return {-kInfinity, "the prices overflow"};
    if (std::isinf(sum_)) return {sum_, ""};
    return {sum_ - kRounded * size_, ""};
  }

 private:
  void add(double value) {
    sum_ += value;
    size_ += std::abs(value);
  }

  static bool is_price(double x) { return x >= 0 && std::isfinite(x); }

  // Rows of so many prices each.
  static bool is_matrix(const std::vector<std::vector<double>>& rows, std::size_t num_rows,
                        std::size_t num_columns) {
    return rows.size() == num_rows &&
           std::all_of(rows.begin(), rows.end(), [&](const std::vector<double>& row) {
             return row.size() == num_columns && std::all_of(row.begin(), row.end(), is_price);
           });
  }

  std::string find_fault() const {
    const auto num_ranks = static_cast<std::size_t>(problem_.num_ranks);
    if (!is_price(prices_.moved) ||
        !is_matrix(prices_.weight, static_cast<std::size_t>(problem_.num_barriers), num_ranks) ||
        !is_matrix(prices_.memory, problem_.num_resources(), num_ranks) ||
        !is_matrix(prices_.share, problem_.charges.size(), problem_.units.size())) {
      return "prices are negative, no numbers, or of another number of ranks, tables or barriers";
    }
    const auto sum_of = [](const std::vector<double>& row) {
      double sum = 0;
      for (const double x : row) sum += x;
      return sum;
    };
    for (const std::vector<double>& row : prices_.weight) {
      if (sum_of(row) > 1 + kSlack) return "the weights of a barrier are more than 1 in all";
    }
    for (std::size_t k = 0; k < prices_.share.size(); ++k) {
      if (sum_of(prices_.share[k]) > problem_.charges[k] * (1 + kSlack)) {
        return "the shares of a charge are more than the charge";
      }
    }
    for (int t = 0; t < problem_.num_resources(); ++t) {
      const bool is_free = std::all_of(prices_.memory[t].begin(), prices_.memory[t].end(),
                                       [](double price) { return price == 0; });
      if (problem_.resources[t].is_pooled && !is_free)
        return "a resource that hosts pool has prices of ranks";
    }
    return "";
  }

  double cost_on(std::size_t unit, const PieceRun& run, int rank) const {
    const std::vector<int>& allowed = problem_.units[unit].allowed_ranks;
    const bool may_stand =
        allowed.empty() || std::find(allowed.begin(), allowed.end(), rank) != allowed.end();
    if (!may_stand) return kInfinity;
    double cost = 0;
    const int first = problem_.class_of(rank) * problem_.num_barriers;
    for (int g = 0; g < problem_.num_barriers; ++g) {
      cost += prices_.weight[g][rank] * run.load[first + g];
    }
    for (int t = 0; t < problem_.num_resources(); ++t) {
      cost += prices_.memory[t][rank] * static_cast<double>(run.bytes[t]);
    }
    return cost;
  }

  double moved_cost(Bytes bytes) const { return prices_.moved * static_cast<double>(bytes); }

  // Of the pieces in order, one on each rank from `first` on.
  double row_cost(std::size_t unit, const UnitChoice& choice, int first) const {
    double cost = 0;
    int rank = first;
    for (const PieceRun& run : choice.runs) {
      for (std::int64_t i = 0; i < run.count; ++i) cost += cost_on(unit, run, rank++);
    }
    return cost;
  }

  double cost_of(std::size_t unit, std::size_t c) const {
    const UnitChoice& choice = problem_.units[unit].choices[c];
    const ChoiceMoves& moves = costs_.units[unit][c];
    double cost = moved_cost(moves.everywhere);
    for (const int cause : choice.causes) cost += prices_.share[cause][unit];
    switch (choice.spread) {
      case Spread::kUniform:
        return cost + row_cost(unit, choice, 0);
      case Spread::kHost:
        for (const SlotMoves& slot : moves.slots) {
          double least = kInfinity;
          for (int host = 0; host < problem_.num_hosts(); ++host) {
            least = std::min(least, row_cost(unit, choice, host * problem_.ranks_per_host) +
                                        moved_cost(slot.on(host)));
          }
          cost += least;
        }
        return cost;
      case Spread::kDevice:
        return cost + device_cost(unit, choice, moves);
    }
    return cost;
  }

  double device_cost(std::size_t unit, const UnitChoice& choice, const ChoiceMoves& moves) const {
    std::vector<std::vector<double>> costs;  // [pieces][ranks]
    bool are_alike = choice.distinct_ranks;
    for (const PieceRun& run : choice.runs) {
      for (std::int64_t i = 0; i < run.count; ++i) {
        std::vector<double>& row = costs.emplace_back();
        const SlotMoves& slot = moves.slots[costs.size() - 1];
        for (int rank = 0; rank < problem_.num_ranks; ++rank) {
          row.push_back(cost_on(unit, run, rank) + moved_cost(slot.on(rank)));
        }
        are_alike = are_alike && row == costs.front();
      }
    }
    double sum = 0;
    if (!are_alike || costs.empty()) {
      for (const std::vector<double>& row : costs) sum += *std::min_element(row.begin(), row.end());
      return sum;
    }
    // Equal pieces on ranks of their own: the cheapest ones.
    if (costs.size() > costs.front().size()) return kInfinity;
    std::vector<double> row = costs.front();
    std::sort(row.begin(), row.end());
    for (std::size_t i = 0; i < costs.size(); ++i) sum += row[i];
    return sum;
  }

  const PlacementProblem& problem_;
  const MoveCosts& costs_;
  const RelocationPrices& prices_;
  double sum_ = 0, size_ = 0;
};

}  // namespace

RelocationVerdict verify_relocation(const PlacementProblem& problem, const MoveCosts& costs,
                                    const RelocationPrices& prices,
                                    std::optional<Bytes> max_moved) {
  return RelocationVerifier(problem, costs, prices).verify(max_moved);
}

}  // namespace plimsoll::balance
