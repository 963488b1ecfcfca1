// How tables get from the ranks of one plan to those of another: steps in order.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "plimsoll/core/units.h"

#pragma GCC visibility push(default)
namespace plimsoll::embedding {

// Rows and columns of a table.
struct TablePart {
  std::int64_t rows = 0, columns = 0, row = 0, column = 0;
  bool operator==(const TablePart&) const = default;
};

enum class TransferKind {
  kCopy,   // a shard of the new plan is allocated and filled
  kStage,  // a shard of the old plan, or what waits for its copies, makes room: it is copied to
           // where there is room, and dropped
  kFree,   // a shard of the old plan, or a staged one, is dropped
};
std::string_view to_string(TransferKind kind);  // "copy", "stage", "free"

struct TransferSource {
  int rank = 0;
  std::int64_t values = 0;  // of the table's weights, read there
  bool operator==(const TransferSource&) const = default;
};

// One step; those before it are done when it begins.
struct TransferStep {
  TransferKind kind = TransferKind::kCopy;
  std::string table;  // fqn
  TablePart part;
  int rank = 0;                      // where it is allocated, or dropped
  bool in_ddr = false;               // of a staged shard: in DDR, else in HBM
  std::vector<TransferSource> from;  // other ranks, ascending
  Bytes bytes = 0;                   // that cross links, with the optimizer state
  bool operator==(const TransferStep&) const = default;
};

enum class ScheduleStatus {
  kComplete,    // within all caps
  kNeedsSpare,  // with `spare_bytes` of HBM more on every rank, as long as it runs
  kNone,  // where even much more would not do: a cap that the new plan breaks, or a cut search
};
std::string_view to_string(ScheduleStatus status);  // "complete", "needs_spare", "none"

struct TransferSchedule {
  ScheduleStatus status = ScheduleStatus::kNone;
  std::vector<TransferStep> steps;
  Bytes spare_bytes = 0;         // of kNeedsSpare
  bool is_spare_proved = false;  // without a spare buffer not even one shard could be moved
  Bytes moved_bytes = 0;         // that cross links, except for
  Bytes staged_bytes = 0;        // what staging sends beside
  bool operator==(const TransferSchedule&) const = default;
};

}  // namespace plimsoll::embedding
#pragma GCC visibility pop
