// A sweep: what a plan would take on every machine and for every batch of a list.
//
// Method. Points that follow each other and differ in the batch alone make a run, of at most
// kMostOfRun. A run is planned in turn, so that each plan can start from the one before; runs are
// planned on any number of threads. A row is a function of its run, so that threads and
// interruptions change nothing. Runs whose rows are all known are not planned again. O(points)
// plans; the front in O(n log n).
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "plimsoll/core/outcome.h"
#include "plimsoll/core/result.h"
#include "plimsoll/core/run_context.h"
#include "plimsoll/study/machine_size.h"

#pragma GCC visibility push(default)
namespace plimsoll::study {

struct WhatIfPoint {
  std::string on;  // as `--on` names it
  int ranks = 0;
  std::int64_t batch_size = 0;  // samples a rank
  bool operator==(const WhatIfPoint&) const = default;
};

struct WhatIfRow {
  WhatIfPoint point;
  std::optional<double> price;  // of the machine
  SolveStatus status = SolveStatus::kLimit;
  std::optional<double> ms, lower_bound, gap;
  Bytes memory = 0, room = 0;               // of the fullest rank, and what is usable there
  std::optional<double> samples_per_s;      // of all ranks
  std::optional<double> price_per_million;  // samples, for a price per hour
  bool is_pareto = false;  // no point has as many samples a second at as low a price, and is better
                           // in one of both; of machines without a price the ranks count
  bool operator==(const WhatIfRow&) const = default;
};

bool has_prices(std::span<const WhatIfRow> rows);  // has some machine one?
// "front", "does not fit" or "no plan found", where one of these is so.
std::string_view remark_of(const WhatIfRow& row);
// The gap, "2.2 %", and "0 %" where it is within the tolerance of searches; empty without one.
std::string gap_text(const WhatIfRow& row);

struct WhatIf {
  std::vector<WhatIfRow> rows;  // in the order of the points; of a sweep that was cut those it has
  StopReason stop = StopReason::kFinished;
  bool operator==(const WhatIf&) const = default;
};

inline constexpr std::size_t kMostOfRun = 8;
std::vector<std::span<const WhatIfPoint>> runs_of(std::span<const WhatIfPoint> points);

// Fills a row's status, ms, lower_bound, gap, memory and room.
using PlanPoint = std::function<Result<WhatIfRow>(const WhatIfPoint&)>;

// `begin_run` is called on several threads, once for each run; what it returns is called for the
// points of the run in turn. A row that was being planned when the sweep was stopped is left out.
// `known` are rows of an earlier sweep. Errors: the first point's that has one.
Result<WhatIf> sweep(std::span<const WhatIfPoint> points,
                     const std::function<std::optional<double>(const WhatIfPoint&)>& price,
                     const std::function<PlanPoint()>& begin_run, std::span<const WhatIfRow> known,
                     int num_threads, const RunContext& context);

// Marks the front of the rows.
void mark_pareto(std::vector<WhatIfRow>& rows);

}  // namespace plimsoll::study
#pragma GCC visibility pop
