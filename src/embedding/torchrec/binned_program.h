// What the dynamic programs of TorchRec and TorchEasyRec share: the trails that lead to their
// solutions, the program over one axis of memory, and the order in which a proposer hands all of it
// out.
#pragma once

#include <cstdint>
#include <functional>
#include <limits>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "plimsoll/core/result.h"
#include "plimsoll/embedding/option_set.h"
#include "plimsoll/embedding/proposer.h"
#include "plimsoll/topology/topology.h"

namespace plimsoll::embedding {

// How a state was reached: the option taken last and the state before that.
struct TrailStep {
  std::int32_t choice = 0;
  std::int32_t previous = 0;  // index into the layer before; unused in the first layer
};

// The kept states of every table and the ends of those trails that solve the problem.
struct Trails {
  std::vector<std::vector<TrailStep>> layers;  // [tables][states]
  std::vector<std::int32_t> ends;              // states of the last layer, in proposing order
  bool is_cut = false;                         // by the context; then there are no ends
};

// What is left of a program that the context ended.
Trails cut_trails();

// One option as the one-axis program sees it. Infinite memory: not to be chosen.
struct BinnedOption {
  double memory = std::numeric_limits<double>::infinity();  // in bins
  double perf = std::numeric_limits<double>::infinity();    // ms
};

// The best sum of perf for every bin of total memory, one option per table; the ends come with the
// highest bin first. Precondition: num_bins >= 1, and fits in 32 bits; memory is not negative.
Trails solve_binned(std::span<const std::vector<BinnedOption>> tables, std::int64_t num_bins,
                    const RunContext& context);

// Options by table, in the proposer's order.
using OptionsByTable = std::vector<std::vector<std::int32_t>>;

struct DynamicProgram {
  std::string name;
  // Tables and their options are ordered by this, ascending.
  std::function<Bytes(const Storage& total)> sort_key;
  std::function<Result<Trails>(const OptionSet&, const OptionsByTable&, const topology::Topology&,
                               const RunContext&)>
      solve;
};

// Proposes the first option of every table, solves at the first feedback, then proposes trail after
// trail.
std::unique_ptr<Proposer> make_program_proposer(DynamicProgram program);

// As Python divides; error kZeroDivision.
Result<double> bin_size(Bytes total, std::int64_t num_bins);

// Bins of one axis over all devices. Error kOverflow where they do not fit in 32 bits.
Result<std::int64_t> count_bins(std::int64_t bins_per_device, const topology::Topology& topology);

}  // namespace plimsoll::embedding
