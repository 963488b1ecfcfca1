// Does every cell of a table lie in exactly one shard?
//
// Method. The columns at which any shard begins or ends cut the table into strips; within a strip
// the shards are intervals of rows. Sorted by their first row they must follow one another from row
// 0 to the last, without a gap and without an overlap. Blocks of consecutive shards count as one
// interval, so a row-wise table costs the same on 4 ranks and on 4,096. O(k log k) for k intervals
// over all strips.

#include <fmt/format.h>

#include <algorithm>

#include "check/embedding/rules.h"

namespace plimsoll::check {
namespace {

// A rectangle of rows and columns, both half-open, of one shard or of several stacked ones.
struct Rectangle {
  std::int64_t row_begin, row_end;
  std::int64_t column_begin, column_end;
  std::int64_t shard_rows;
  std::int32_t first_rank;

  std::int32_t rank_of(std::int64_t row) const {
    return first_rank + static_cast<std::int32_t>((row - row_begin) / shard_rows);
  }
};

std::vector<Rectangle> rectangles_of(const PlacedTable& placed) {
  std::vector<Rectangle> rectangles;
  for (const ShardBlock& block : placed.blocks) {
    if (block.rows == 0) continue;
    const bool is_stacked = block.count > 1 && block.row_stride == block.rows;
    const std::int64_t pieces = is_stacked ? 1 : block.count;
    const std::int64_t height = is_stacked ? block.count * block.rows : block.rows;
    for (std::int64_t i = 0; i < pieces; ++i) {
      const std::int64_t row = block.row + i * block.row_stride;
      rectangles.push_back({row, row + height, block.column, block.column + block.columns,
                            block.rows, block.first_rank + static_cast<std::int32_t>(i)});
    }
  }
  return rectangles;
}

std::string describe_cells(std::int64_t row_begin, std::int64_t row_end, std::int64_t column_begin,
                           std::int64_t column_end) {
  return fmt::format("rows [{}, {}) of columns [{}, {})", row_begin, row_end, column_begin,
                     column_end);
}

bool check_replicas(const TableCase& table, const PlacedTable& placed, Findings& findings) {
  for (const ShardBlock& block : placed.blocks) {
    const bool is_whole = block.rows == table.rows() && block.columns == table.columns() &&
                          block.row == 0 && block.column == 0;
    if (is_whole) continue;  // and so are all of its run: no other offset fits the table
    findings.add(
        FindingCode::kNotCovered, table.fqn, block.first_rank,
        fmt::format("{} x {} at (0, 0)", table.rows(), table.columns()),
        fmt::format("{} x {} at ({}, {})", block.rows, block.columns, block.row, block.column),
        fmt::format("the replica on rank {} is not the whole table", block.first_rank));
    return false;
  }
  return true;
}

// Rectangles between two neighbouring borders of columns.
struct Strip {
  std::int64_t column_begin = 0, column_end = 0;
  std::vector<const Rectangle*> rectangles;
};

std::vector<Strip> strips_of(const TableCase& table, const std::vector<Rectangle>& rectangles) {
  std::vector<std::int64_t> borders{0, table.columns()};
  for (const Rectangle& r : rectangles) {
    borders.push_back(r.column_begin);
    borders.push_back(r.column_end);
  }
  std::sort(borders.begin(), borders.end());
  borders.erase(std::unique(borders.begin(), borders.end()), borders.end());

  std::vector<Strip> strips(borders.size() - 1);
  for (std::size_t s = 0; s < strips.size(); ++s) {
    strips[s].column_begin = borders[s];
    strips[s].column_end = borders[s + 1];
  }
  const auto strip_at = [&](std::int64_t column) {
    return std::lower_bound(borders.begin(), borders.end(), column) - borders.begin();
  };
  for (const Rectangle& r : rectangles) {
    for (auto s = strip_at(r.column_begin); s < strip_at(r.column_end); ++s) {
      strips[static_cast<std::size_t>(s)].rectangles.push_back(&r);
    }
  }
  return strips;
}

}  // namespace

bool check_coverage(const TableCase& table, const PlacedTable& placed, Findings& findings) {
  if (table.sharding->sharding_type == embedding::ShardingType::kDataParallel) {
    return check_replicas(table, placed, findings);
  }
  const std::vector<Rectangle> rectangles = rectangles_of(placed);
  std::string first_gap, first_overlap;
  for (Strip& strip : strips_of(table, rectangles)) {
    std::stable_sort(
        strip.rectangles.begin(), strip.rectangles.end(),
        [](const Rectangle* a, const Rectangle* b) { return a->row_begin < b->row_begin; });
    std::int64_t next_row = 0;
    const Rectangle* last = nullptr;  // the one that reaches next_row
    const auto note_gap = [&](std::int64_t until) {
      if (until <= next_row) return;
      if (first_gap.empty()) {
        first_gap = describe_cells(next_row, until, strip.column_begin, strip.column_end);
      }
    };
    for (const Rectangle* r : strip.rectangles) {
      note_gap(r->row_begin);
      if (r->row_begin < next_row && first_overlap.empty()) {
        first_overlap = describe_cells(r->row_begin, std::min(next_row, r->row_end),
                                       strip.column_begin, strip.column_end);
        findings.add(FindingCode::kCoveredTwice, table.fqn, r->first_rank, "one shard a cell",
                     first_overlap,
                     fmt::format("{} are on rank {} and also on rank {}", first_overlap,
                                 last->rank_of(r->row_begin), r->first_rank));
      }
      if (r->row_end > next_row) {
        next_row = r->row_end;
        last = r;
      }
    }
    note_gap(table.rows());
  }
  if (!first_gap.empty()) {
    findings.add(FindingCode::kNotCovered, table.fqn, std::nullopt, "one shard a cell", first_gap,
                 fmt::format("{} are held by no shard", first_gap));
  }
  return first_gap.empty() && first_overlap.empty();
}

}  // namespace plimsoll::check
