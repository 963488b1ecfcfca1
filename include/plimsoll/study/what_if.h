// A sweep: what a plan would take on every machine and for every batch of a list.
//
// Method. Every point is planned by itself, on any number of threads; a point's row is a function
// of the point alone, so that threads and interruptions change nothing. Rows that are known already
// are kept. O(points) plans; the front in O(n log n).
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string>
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

struct WhatIf {
  std::vector<WhatIfRow> rows;  // in the order of the points; of a sweep that was cut those it has
  StopReason stop = StopReason::kFinished;
  bool operator==(const WhatIf&) const = default;
};

// `plan` is called on several threads and fills status, ms, lower_bound, gap, memory and room.
// `known` are rows of an earlier run. Errors: the first point's that has one.
Result<WhatIf> sweep(std::span<const WhatIfPoint> points,
                     const std::function<std::optional<double>(const WhatIfPoint&)>& price,
                     const std::function<Result<WhatIfRow>(const WhatIfPoint&)>& plan,
                     std::span<const WhatIfRow> known, int num_threads, const RunContext& context);

// Marks the front of the rows.
void mark_pareto(std::vector<WhatIfRow>& rows);

}  // namespace plimsoll::study
#pragma GCC visibility pop
