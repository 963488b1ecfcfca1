#include "check/embedding/held_parts.h"

#include <algorithm>
#include <set>

namespace plimsoll::check {

using embedding::TablePart;

Int128 area(const TablePart& part) { return Int128{part.rows} * part.columns; }

TablePart common(const TablePart& a, const TablePart& b) {
  const std::int64_t row = std::max(a.row, b.row);
  const std::int64_t column = std::max(a.column, b.column);
  const std::int64_t rows = std::min(a.row + a.rows, b.row + b.rows) - row;
  const std::int64_t columns = std::min(a.column + a.columns, b.column + b.columns) - column;
  return rows > 0 && columns > 0 ? TablePart{rows, columns, row, column} : TablePart{};
}

// Values of the part that lie in some of the others: corner by corner of the grid that they span.
Int128 covered(const TablePart& part, const std::vector<TablePart>& others) {
  std::set<std::int64_t> rows, columns;
  std::vector<TablePart> inside;
  for (const TablePart& other : others) {
    const TablePart both = common(part, other);
    if (area(both) == 0) continue;
    inside.push_back(both);
    rows.insert({both.row, both.row + both.rows});
    columns.insert({both.column, both.column + both.columns});
  }
  Int128 sum = 0;
  for (auto r = rows.begin(); r != rows.end() && std::next(r) != rows.end(); ++r) {
    for (auto c = columns.begin(); c != columns.end() && std::next(c) != columns.end(); ++c) {
      const bool is_in = std::any_of(inside.begin(), inside.end(), [&](const TablePart& one) {
        return one.row <= *r && *r < one.row + one.rows && one.column <= *c &&
               *c < one.column + one.columns;
      });
      if (is_in) sum += Int128{*std::next(r) - *r} * (*std::next(c) - *c);
    }
  }
  return sum;
}

Result<Bytes> table_weight(const embedding::Estimator& estimator,
                           const embedding::TableProfile& profile) {
  const embedding::TableShape& shape = profile.shape;
  PLIMSOLL_ASSIGN(
      const embedding::StorageParts parts,
      estimator.shard_storage_parts(profile, embedding::ShardingType::kTableWise,
                                    embedding::ComputeKernel::kFused, shape.rows, shape.columns));
  const topology::Storage& state = parts.optimizer_state;
  return shape.bytes + state.hbm + state.ddr + state.ssd;
}

Bytes share_of_weight(Bytes weight, const embedding::TableShape& shape, Int128 values) {
  const Int128 all = Int128{shape.rows} * shape.columns;
  if (all == 0) return 0;
  return static_cast<Bytes>((values * weight + all - 1) / all);
}

}  // namespace plimsoll::check
