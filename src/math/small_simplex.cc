#include "math/small_simplex.h"

#include <algorithm>
#include <cmath>

namespace plimsoll::math {
namespace {

constexpr double kPivotTolerance = 1e-9;
constexpr double kCostTolerance = 1e-11;  // of the largest cost in the basis
constexpr int kPivotsToRefactor = 64;
constexpr int kPivotsToBland = 200;

}  // namespace

SmallSimplex::SmallSimplex(std::vector<SimplexRow> rows) : rows_(std::move(rows)) {
  const auto m = static_cast<int>(rows_.size());
  inverse_.assign(rows_.size() * rows_.size(), 0);
  direction_.assign(rows_.size(), 0);
  prices_.assign(rows_.size(), 0);
  for (int row = 0; row < m; ++row) {
    columns_.push_back({0, kInfinity, {{row, rows_[row].is_at_least ? -1.0 : 1.0}}, At::kLower});
  }
  for (int row = 0; row < m; ++row) {
    int basic = row;
    if (rows_[row].is_at_least) {
      basic = static_cast<int>(columns_.size());
      columns_.push_back({rows_[row].penalty, kInfinity, {{row, 1.0}}, At::kLower});
    }
    columns_[basic].at = At::kBasis;
    basis_.push_back(basic);
    basic_.push_back(rows_[row].rhs);
    inverse(row, row) = 1;
  }
  first_own_ = static_cast<int>(columns_.size());
}

int SmallSimplex::add_column(double cost, std::vector<SimplexEntry> entries, double upper) {
  columns_.push_back({cost, upper, std::move(entries), At::kLower});
  return static_cast<int>(columns_.size()) - 1 - first_own_;
}

void SmallSimplex::find_prices() {
  std::fill(prices_.begin(), prices_.end(), 0.0);
  for (std::size_t row = 0; row < rows_.size(); ++row) {
    const double cost = columns_[basis_[row]].cost;
    if (cost == 0) continue;
    const double* line = &inverse_[row * rows_.size()];
    for (std::size_t i = 0; i < rows_.size(); ++i) prices_[i] += cost * line[i];
  }
}

double SmallSimplex::reduced_cost(const Column& column) const {
  double cost = column.cost;
  for (const SimplexEntry& entry : column.entries) cost -= prices_[entry.row] * entry.value;
  return cost;
}

// The inverse by Gauss-Jordan elimination, and the values of the basis.
void SmallSimplex::refactor() {
  pivots_since_refactor_ = 0;
  const std::size_t m = rows_.size();
  std::vector<double> matrix(m * m, 0);
  for (std::size_t j = 0; j < m; ++j) {
    for (const SimplexEntry& entry : columns_[basis_[j]].entries) {
      matrix[static_cast<std::size_t>(entry.row) * m + j] = entry.value;
    }
  }
  std::vector<double> result(m * m, 0);
  for (std::size_t i = 0; i < m; ++i) result[i * m + i] = 1;
  for (std::size_t j = 0; j < m; ++j) {
    std::size_t best = j;
    for (std::size_t i = j + 1; i < m; ++i) {
      if (std::abs(matrix[i * m + j]) > std::abs(matrix[best * m + j])) best = i;
    }
    const double pivot_value = matrix[best * m + j];
    if (std::abs(pivot_value) < 1e-14) return;  // keep the old inverse
    if (best != j) {
      std::swap_ranges(&matrix[best * m], &matrix[best * m] + m, &matrix[j * m]);
      std::swap_ranges(&result[best * m], &result[best * m] + m, &result[j * m]);
    }
    for (std::size_t k = 0; k < m; ++k) {
      matrix[j * m + k] /= pivot_value;
      result[j * m + k] /= pivot_value;
    }
    for (std::size_t i = 0; i < m; ++i) {
      const double factor = matrix[i * m + j];
      if (i == j || factor == 0) continue;
      for (std::size_t k = 0; k < m; ++k) {
        matrix[i * m + k] -= factor * matrix[j * m + k];
        result[i * m + k] -= factor * result[j * m + k];
      }
    }
  }
  inverse_ = std::move(result);
  std::vector<double> rhs;
  for (const SimplexRow& row : rows_) rhs.push_back(row.rhs);
  for (const Column& column : columns_) {
    if (column.at != At::kUpper) continue;
    for (const SimplexEntry& entry : column.entries) rhs[entry.row] -= column.upper * entry.value;
  }
  for (std::size_t i = 0; i < m; ++i) {
    double value = 0;
    for (std::size_t k = 0; k < m; ++k) value += inverse_[i * m + k] * rhs[k];
    basic_[i] = std::max(0.0, value);
  }
}

// False where the objective falls without end along the column.
bool SmallSimplex::pivot(int entering, double reduced) {
  Column& in = columns_[entering];
  const double sign = reduced < 0 ? 1 : -1;  // from its lower bound up, from its upper one down
  const std::size_t m = rows_.size();
  std::fill(direction_.begin(), direction_.end(), 0.0);
  for (std::size_t i = 0; i < m; ++i) {
    for (const SimplexEntry& entry : in.entries) {
      direction_[i] += inverse_[i * m + static_cast<std::size_t>(entry.row)] * entry.value;
    }
  }
  double step = in.upper;
  int leaving = -1;
  bool to_upper = false;
  for (std::size_t i = 0; i < m; ++i) {
    const double d = sign * direction_[i];
    double room = kInfinity;
    if (d > kPivotTolerance) {
      room = std::max(0.0, basic_[i]) / d;
    } else if (d < -kPivotTolerance && columns_[basis_[i]].upper < kInfinity) {
      room = std::max(0.0, columns_[basis_[i]].upper - basic_[i]) / -d;
    }
    const bool is_tie =
        leaving >= 0 && room == step && std::abs(direction_[i]) > std::abs(direction_[leaving]);
    if (room < step || is_tie) {
      step = room;
      leaving = static_cast<int>(i);
      to_upper = d < 0;
    }
  }
  if (step == kInfinity) return false;
  has_gained_ = step > 1e-13;
  for (std::size_t i = 0; i < m; ++i) basic_[i] -= sign * step * direction_[i];
  if (leaving < 0) {
    in.at = sign > 0 ? At::kUpper : At::kLower;
    return true;
  }
  columns_[basis_[leaving]].at = to_upper ? At::kUpper : At::kLower;
  basis_[leaving] = entering;
  basic_[leaving] = sign > 0 ? step : in.upper - step;
  in.at = At::kBasis;
  double* line = &inverse_[static_cast<std::size_t>(leaving) * m];
  const double divisor = direction_[leaving];
  for (std::size_t k = 0; k < m; ++k) line[k] /= divisor;
  for (std::size_t i = 0; i < m; ++i) {
    const double factor = direction_[i];
    if (static_cast<int>(i) == leaving || factor == 0) continue;
    for (std::size_t k = 0; k < m; ++k) inverse_[i * m + k] -= factor * line[k];
  }
  return true;
}

std::int64_t SmallSimplex::solve(std::int64_t max_pivots) {
  std::int64_t num_pivots = 0;
  int without_gain = 0;
  find_prices();
  for (; num_pivots < max_pivots; ++num_pivots) {
    double scale = 1e-300;
    for (const int column : basis_) scale = std::max(scale, std::abs(columns_[column].cost));
    int entering = -1;
    double best = kCostTolerance * scale;
    double reduced = 0;
    for (std::size_t j = 0; j < columns_.size(); ++j) {
      const Column& column = columns_[j];
      if (column.at == At::kBasis || column.upper == 0) continue;
      const double cost = reduced_cost(column);
      const double gain = column.at == At::kUpper ? cost : -cost;
      if (gain <= best) continue;
      entering = static_cast<int>(j);
      reduced = cost;
      best = gain;
      if (without_gain > kPivotsToBland) break;
    }
    if (entering < 0 || !pivot(entering, reduced)) break;
    without_gain = has_gained_ ? 0 : without_gain + 1;
    if (++pivots_since_refactor_ == kPivotsToRefactor) refactor();
    find_prices();
  }
  return num_pivots;
}

double SmallSimplex::value() const {
  double sum = 0;
  for (std::size_t row = 0; row < rows_.size(); ++row)
    sum += columns_[basis_[row]].cost * basic_[row];
  for (const Column& column : columns_) {
    if (column.at == At::kUpper) sum += column.cost * column.upper;
  }
  return sum;
}

double SmallSimplex::missed() const {
  double sum = 0;
  for (std::size_t row = 0; row < rows_.size(); ++row) {
    const int column = basis_[row];
    if (column >= num_rows() && column < first_own_) sum += basic_[row];
  }
  return sum;
}

double SmallSimplex::x(int column) const {
  const int number = column + first_own_;
  const Column& c = columns_[number];
  if (c.at == At::kUpper) return c.upper;
  if (c.at == At::kLower) return 0;
  for (std::size_t row = 0; row < rows_.size(); ++row) {
    if (basis_[row] == number) return std::max(0.0, basic_[row]);
  }
  return 0;
}

}  // namespace plimsoll::math
