// Numbers as the statistics report writes them.
#pragma once

#include <fmt/format.h>

#include <algorithm>
#include <cstdint>
#include <string>
#include <vector>

#include "core/python_text.h"
#include "embedding/report/stats_figures.h"

namespace plimsoll::embedding {

inline constexpr double kBytesPerGib = 1024.0 * 1024.0 * 1024.0;

inline std::string rounded(double value, int digits = 3) {
  return python_repr(python_round(value, digits));
}

inline double gib(WideBytes bytes) { return static_cast<double>(bytes) / kBytesPerGib; }

inline std::string gib_text(WideBytes bytes) { return rounded(gib(bytes)) + " GB"; }

inline std::string percent(double share) { return fmt::format("{:.0f}%", share * 100); }

// Left to right.
inline double sum(const std::vector<double>& values) {
  double total = 0;
  for (const double value : values) total += value;
  return total;
}

// One run of more than one rank as "2-5", anything else as "0,2,3".
inline std::string collapse(std::vector<std::int64_t> ranks) {
  std::sort(ranks.begin(), ranks.end());
  bool is_run = ranks.size() > 1;
  for (std::size_t i = 1; i < ranks.size(); ++i) is_run = is_run && ranks[i] == ranks[i - 1] + 1;
  if (is_run) return fmt::format("{}-{}", ranks.front(), ranks.back());
  return fmt::format("{}", fmt::join(ranks, ","));
}

}  // namespace plimsoll::embedding
