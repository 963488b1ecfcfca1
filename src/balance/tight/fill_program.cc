#include "balance/tight/fill_program.h"

#include <algorithm>
#include <cstddef>
#include <utility>

#include "math/linear_program.h"
#include "plimsoll/core/numbers.h"

namespace plimsoll::balance {
namespace {

using Choice = PlacementItems::Choice;

constexpr double kRowlessShare = .2;  // of a cap: smaller pieces have no row of their own

class FillProgram {
 public:
  FillProgram(const PlacementItems& items, double target) : items_(items) {
    add_cap(target, target);
    for (const int resource : items.resources) {
      double sum = 0, largest = 0;
      for (const auto& caps : items.problem->caps) {
        sum += static_cast<double>(caps[resource]);
        largest = std::max(largest, static_cast<double>(caps[resource]));
      }
      add_cap(sum / items.num_ranks, largest);
    }
    fill_ = program_.add_column(0, kInfinity, 1);
    for (std::size_t d = 0; d < scale_.size(); ++d) {
      everywhere_.push_back(program_.add_column(0, kInfinity));
    }
    first_column_ = static_cast<int>(program_.columns.size());
    for (std::size_t c = 0; c < items.choices.size(); ++c) program_.add_column(0, 1);
    for (int unit = 0; unit < items.num_units; ++unit) add_unit(unit);
    for (std::size_t d = 0; d < scale_.size(); ++d) add_resource(d);
  }

  Fill solve(std::int64_t max_pivots) {
    math::LinearProgram program(program_);
    Fill fill;
    fill.num_pivots = program.solve(max_pivots);
    fill.share = program.x(fill_);
    const bool is_solved = program.is_optimal();
    for (int unit = 0; unit < items_.num_units; ++unit) {
      const auto worth = [&](int c) {
        return is_solved ? program.x(column(c)) : -mean(items_.choices[c]);
      };
      int best = -1;
      for (int c = items_.first_choice[unit]; c < items_.first_choice[unit + 1]; ++c) {
        if (program_.columns[column(c)].upper == 0) continue;
        if (best < 0 || worth(c) > worth(best)) best = c;
      }
      fill.choices.push_back(best);
    }
    if (is_solved) fill.excess = excess(program);
    return fill;
  }

 private:
  std::vector<double> excess(const math::LinearProgram& program) const {
    std::vector<double> excess(items_.choices.size());
    for (int unit = 0; unit < items_.num_units; ++unit) {
      const int first = items_.first_choice[unit], end = items_.first_choice[unit + 1];
      double least = kInfinity;
      for (int c = first; c < end; ++c) {
        for (std::size_t d = 0; d < scale_.size(); ++d) {
          const double price = std::max(-program.price(row_of_all_[d]), 0.0);
          excess[c] += price * mean(items_.choices[c], d);
        }
        if (program_.columns[column(c)].upper > 0) least = std::min(least, excess[c]);
      }
      for (int c = first; c < end; ++c) excess[c] = std::max(excess[c] - least, 0.0);
    }
    return excess;
  }

  void add_cap(double mean, double largest) {
    scale_.push_back(1 / std::max(mean, 1e-9));
    most_.push_back(largest * scale_.back());
  }

  int column(int choice) const { return first_column_ + choice; }

  // Of one piece, as a share of a cap.
  double need(const Choice& choice, int i, std::size_t d) const {
    const auto record = static_cast<std::size_t>(choice.first_record) + static_cast<std::size_t>(i);
    const double need = d == 0 ? items_.load[record * static_cast<std::size_t>(items_.stride)]
                               : static_cast<double>(items_.bytes[record][items_.resources[d - 1]]);
    return need * scale_[d];
  }

  double peak(const Choice& choice, std::size_t d) const {
    double peak = 0;
    for (int i = 0; i < choice.num_records; ++i) peak = std::max(peak, need(choice, i, d));
    return peak;
  }

  // Of all ranks' caps together.
  double mean(const Choice& choice, std::size_t d) const {
    if (d == 0) return choice.work * scale_[0];
    if (choice.spread == Spread::kUniform) return peak(choice, d);
    double sum = 0;
    for (int i = 0; i < choice.num_records; ++i) sum += need(choice, i, d);
    if (choice.num_records == 1) sum *= choice.num_pieces;
    if (choice.spread == Spread::kHost) sum *= items_.width;
    return sum / items_.num_ranks;
  }

  // Of all resources.
  double mean(const Choice& choice) const {
    double sum = 0;
    for (std::size_t d = 0; d < scale_.size(); ++d) sum += mean(choice, d);
    return sum;
  }

  void add_unit(int unit) {
    std::vector<math::MilpTerm> one;
    bool has_small = false;
    const int end = items_.first_choice[unit + 1];
    for (int c = items_.first_choice[unit]; c < end; ++c) {
      one.push_back({column(c), 1});
      bool is_small = true;
      for (std::size_t d = 0; d < scale_.size(); ++d)
        is_small &= peak(items_.choices[c], d) <= most_[d];
      if (!is_small) program_.columns[column(c)].upper = 0;
      has_small |= is_small;
    }
    if (!has_small) program_.columns[column(items_.first_choice[unit])].upper = 1;
    program_.add_row(1, std::move(one), 1);
  }

  void add_resource(std::size_t d) {
    std::vector<math::MilpTerm> all = {{fill_, -1}}, uniform = {{everywhere_[d], 1}};
    for (int c = 0; c < std::ssize(items_.choices); ++c) {
      const Choice& choice = items_.choices[c];
      if (const double used = mean(choice, d); used > 0) all.push_back({column(c), used});
      if (choice.spread != Spread::kUniform) continue;
      if (const double used = peak(choice, d); used > 0) uniform.push_back({column(c), -used});
    }
    row_of_all_.push_back(static_cast<int>(program_.rows.size()));
    program_.add_row(-kInfinity, std::move(all), 0);
    program_.add_row(0, std::move(uniform), kInfinity);
    for (int unit = 0; unit < items_.num_units; ++unit) add_largest(unit, d);
  }

  void add_largest(int unit, std::size_t d) {
    std::vector<math::MilpTerm> terms = {{fill_, -1}, {everywhere_[d], 1}};
    double largest = 0;
    for (int c = items_.first_choice[unit]; c < items_.first_choice[unit + 1]; ++c) {
      const Choice& choice = items_.choices[c];
      if (choice.spread == Spread::kUniform || program_.columns[column(c)].upper == 0) continue;
      const double used = peak(choice, d);
      if (used > 0) terms.push_back({column(c), used});
      largest = std::max(largest, used);
    }
    if (largest > kRowlessShare) program_.add_row(-kInfinity, std::move(terms), 0);
  }

  const PlacementItems& items_;
  std::vector<double> scale_;  // [resources] 1 / mean cap
  std::vector<double> most_;   // [resources] largest cap / mean cap
  math::MilpProblem program_;
  int fill_ = 0, first_column_ = 0;
  std::vector<int> everywhere_;  // [resources]
  std::vector<int> row_of_all_;  // [resources]
};

}  // namespace

Fill find_fill(const PlacementItems& items, double target, std::int64_t max_pivots) {
  return FillProgram(items, target).solve(max_pivots);
}

}  // namespace plimsoll::balance
