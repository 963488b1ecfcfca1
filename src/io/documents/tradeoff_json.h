// In which order torch's greedy rule gives up the operators of modules, and the curves and fits
// that follow, as JSON: "plimsoll.tradeoff_curves/1". Written only.
//
// What the figures mean is said where they are made (src/checkpoint/trace/sac_greedy_order.h,
// piecewise_fit.h).
#pragma once

#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "plimsoll/core/outcome.h"
#include "plimsoll/core/units.h"
#include "plimsoll/io/plan_json.h"

namespace plimsoll::io {

// Operators that are given up together.
struct TradeoffGroup {
  int head = 0;
  std::vector<int> ops;  // ascending, the head among them
  bool operator==(const TradeoffGroup&) const = default;
};

struct TradeoffStep {
  int op = 0;            // the head
  std::vector<int> ops;  // ascending, the head among them
  Bytes memory = 0;
  double runtime = 0;  // ms
  double msps = 0;     // bytes per ms
  bool operator==(const TradeoffStep&) const = default;
};

struct TradeoffFit {
  std::vector<double> slopes, intercepts;  // [n_segments]
  std::vector<double> breakpoints;         // [n_segments + 1]
  bool operator==(const TradeoffFit&) const = default;
};

struct ModuleTradeoff {
  std::string fqn;         // empty of a table alone
  Bytes sac_memory = 0;    // of all operators
  double sac_runtime = 0;  // ms, of all operators
  std::vector<int> stored_ops;
  std::vector<int> recomputed_ops;
  std::vector<TradeoffGroup> inplace_op_groups;
  std::vector<int> rand_ops;
  std::vector<TradeoffStep> order;
  std::vector<std::pair<double, double>> curve;  // discarded + 0.01, recomputed, as shares
  std::optional<TradeoffFit> fit;
  std::optional<PlanFailure> failure;  // why there is no curve, or no fit
  bool operator==(const ModuleTradeoff&) const = default;
};

struct TradeoffAnswer {
  std::string input_hash;  // hexadecimal
  std::vector<ModuleTradeoff> modules;
  Provenance provenance;
};

std::string write_tradeoffs(const TradeoffAnswer& answer);

}  // namespace plimsoll::io
