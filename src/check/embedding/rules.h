// The rules of the checker, one file each: what every rule looks at and where its findings go.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "check/findings.h"
#include "plimsoll/check/sharding_check.h"

namespace plimsoll::check {

// One table of the plan beside its entry in the model.
struct TableCase {
  const embedding::CostModel* cost_model = nullptr;
  const topology::Topology* topology = nullptr;
  const embedding::Model* model = nullptr;
  const embedding::Module* module = nullptr;
  const embedding::Table* table = nullptr;
  const embedding::TableSharding* sharding = nullptr;
  embedding::ParameterConstraints constraints;
  embedding::TableShape shape;
  std::string fqn;
  bool is_whole = false;  // CheckOptions

  std::int64_t rows() const { return shape.rows; }
  std::int64_t columns() const { return shape.columns; }  // packed ones of quantised modules
};

// Equal shards in shard order: the i-th on rank first_rank + i, from row row + i * row_stride.
struct ShardBlock {
  std::int64_t count = 0;  // >= 1
  std::int32_t first_rank = 0;
  std::int64_t rows = 0;
  std::int64_t columns = 0;
  std::int64_t row = 0;
  std::int64_t column = 0;
  std::int64_t row_stride = 0;
};

// The shards of a table on the ranks that hold them. All blocks lie inside the table and on ranks
// that exist; what does not is reported and left out.
struct PlacedTable {
  std::vector<ShardBlock> blocks;
  bool ranks_are_sound = true;   // one existing rank a shard
  bool shapes_are_sound = true;  // all inside the table
  bool is_sound() const { return ranks_are_sound && shapes_are_sound; }
};

// permission.cc: may this module hold this type, kernel and cache on this device?
void check_permission(const TableCase& table, Findings& findings);

// placed_table.cc: lays ranks and shards side by side.
PlacedTable place_shards(const TableCase& table, Findings& findings);

// coverage.cc: every cell of the table in exactly one shard (data_parallel: in every shard). True
// if so.
bool check_coverage(const TableCase& table, const PlacedTable& placed, Findings& findings);

// placement.cc: cuts, numbers of shards and ranks that suit the sharding type.
void check_placement(const TableCase& table, const PlacedTable& placed, Findings& findings);
// placement.cc: tables of one tower on one host. [cases], placed alike.
void check_colocation(const std::vector<TableCase>& cases, const std::vector<PlacedTable>& placed,
                      Findings& findings);

// hazards.cc: what the runtime carries out otherwise, or refuses late. `is_covered`: the answer of
// check_coverage.
void find_hazards(const TableCase& table, const PlacedTable& placed, bool is_covered,
                  Findings& findings);
// hazards.cc: tables that spoil their collection: mean-pooled ones cut by rows, columns of another
// width.
void find_collection_hazards(const std::vector<TableCase>& cases, Findings& findings);
// hazards.cc: those that `strict` or `strict_numerics` makes violations, too.
void count_hazards_as_violations(bool strict, bool strict_numerics, Findings& findings);

}  // namespace plimsoll::check
