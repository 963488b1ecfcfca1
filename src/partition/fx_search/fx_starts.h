// First answers to which device runs which operator; empty where none is found.
//
// Source: docs/mathematics/torch-fx-partitioner.md#a-shorter-critical-path.
#pragma once

#include <vector>

#include "partition/fx_search/fx_problem.h"

namespace plimsoll::partition {

// Runs of graph order on devices from the largest to the smallest, such that the transfers between
// runs add up to least: dynamic programming over their ends, O(operators * (longest run) * (edges
// of an operator + devices)). Not tried beyond 4,096 operators.
std::vector<int> find_cheapest_runs(const FxProblem& problem);

// Every operator in graph order on the device where it ends first, of those that have room
// (Baechi's m-ETF without waiting for the device). O(operators * devices * edges of an operator).
std::vector<int> place_earliest(const FxProblem& problem);

// Fills devices from the largest to the smallest in graph order. O(operators * devices).
std::vector<int> fill_in_order(const FxProblem& problem);

}  // namespace plimsoll::partition
