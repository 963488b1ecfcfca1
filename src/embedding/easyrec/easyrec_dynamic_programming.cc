// TorchEasyRec's dynamic programming proposer, in its three forms.
//
// Problem. As TorchRec's: proposals of small summed perf, one option per table, for every amount of
// memory. The forms differ in what memory is and which options take part.
//   v1  one axis: HBM where CUDA is available, else DDR.
//   v2  as v1, without options whose largest shard exceeds the largest device.
//   v3  two axes, HBM and DDR, in single precision; without options whose largest shard exceeds the
//       largest device's HBM or the largest host's DDR. One proposal per bin of HBM, the best over
//       all bins of DDR. An axis on which nothing is offered counts as one bin and costs nothing.
// Method. v1 and v2: the one-axis program of binned_program.h. v3: kept states of a table lie in
// rows, one per bin of HBM, each ascending in its bin of DDR. The next table's states are made row
// by row: HBM only grows by a constant per option, so few rows of the table before lead to one row,
// and a row of cells is all the working memory that is needed.
// Cost. v3: O(tables * options * reached states) time, 8 bytes per reached state and table. At most
// HBM bins * DDR bins states are reached, usually far fewer.
// Promises. The reference's proposals in the reference's order. Ties: v1 and v2 take the first by
// (option, state before), v3 by (state before, option), and over DDR the lowest bin. Where a table
// of v2 or v3 has no option left nothing follows the first proposal.
// Departures. The reference's v3 keeps candidates in one array and sorts them.
// Source: docs/mathematics/torchrec-planner.md#torcheasyrecs-dynamic-programming.
#include <algorithm>
#include <limits>
#include <utility>

#include "embedding/torchrec/binned_program.h"
#include "plimsoll/core/checked.h"

namespace plimsoll::embedding {
namespace {

// Forms 1 and 2.
Result<Trails> solve_one_axis(const OptionSet& options, const OptionsByTable& tables,
                              const topology::Topology& topology, const RunContext& context,
                              Bytes Storage::*axis, std::int64_t bins_per_device,
                              bool drops_large_shards) {
  if (tables.empty()) {
    return fail(ErrorCode::kValue, "", "max() arg is an empty sequence");
  }
  PLIMSOLL_ASSIGN(const std::int64_t num_bins, count_bins(bins_per_device, topology));
  PLIMSOLL_ASSIGN(const double size, bin_size(topology.total_storage().*axis, num_bins));
  Bytes largest_device = 0;
  for (const Storage& device : topology.devices) {
    largest_device = std::max(largest_device, device.*axis);
  }
  std::vector<std::vector<BinnedOption>> binned(tables.size());
  for (std::size_t t = 0; t < tables.size(); ++t) {
    for (const std::int32_t option : tables[t]) {
      const ShardRuns shards = options.shards(option);
      BinnedOption& entry = binned[t].emplace_back();
      if (drops_large_shards && shards.max_storage().*axis > largest_device) continue;
      entry = {static_cast<double>(shards.total_storage().*axis) / size, shards.total_perf()};
    }
  }
  return solve_binned(binned, num_bins, context);
}

// Single precision counts bins exactly up to here.
constexpr std::int64_t kMaxFloatInteger = std::int64_t{1} << 24;

// An option as form 3 sees it: memory in bins.
struct Option2d {
  float hbm = 0;
  float ddr = 0;
  float perf = 0;
  std::int32_t choice = 0;  // index among the table's options
};

struct State2d {
  float hbm = 0;
  float ddr = 0;
  float perf = 0;
};

// The states that share a bin of HBM.
struct Row {
  std::int32_t begin = 0, end = 0;  // into the states
  float least_hbm = 0, most_hbm = 0;
};

struct Layer {
  std::vector<State2d> states;  // by bin of HBM, then by bin of DDR
  std::vector<Row> rows;        // bins of HBM that were reached, ascending
};

struct Cell2d {
  float perf = std::numeric_limits<float>::infinity();
  State2d state;
  std::int32_t previous = 0;
  std::int32_t option = 0;
};

// Takes the candidate if it is cheaper, or as cheap and earlier by (state before, option).
void offer(Cell2d& cell, const State2d& state, std::int32_t previous, std::int32_t option) {
  if (state.perf > cell.perf) return;
  if (state.perf == cell.perf &&
      std::pair(previous, option) >= std::pair(cell.previous, cell.option)) {
    return;
  }
  cell = {state.perf, state, previous, option};
}

// Extends every state by every option. Error kOverflow: more states than 32 bits count.
Result<void> extend(const Layer& before, std::span<const Option2d> options, std::int64_t hbm_bins,
                    std::span<Cell2d> cells, Layer& after, std::vector<TrailStep>& steps) {
  constexpr float kInfinity = std::numeric_limits<float>::infinity();
  const auto hbm_limit = static_cast<float>(hbm_bins);
  const auto ddr_limit = static_cast<float>(cells.size());
  after.states.clear();
  after.rows.clear();
  // First row of `before` that may still lead to the current bin, by option. Rounding is monotone:
  // what the ends of a row miss, its middle misses too.
  std::vector<std::size_t> first_row(options.size(), 0);
  for (std::int64_t bin = 0; bin < hbm_bins; ++bin) {
    const auto low = static_cast<float>(bin);
    const auto high = std::min(static_cast<float>(bin + 1), hbm_limit);
    std::size_t first_cell = cells.size(), last_cell = 0;  // that were offered something
    for (std::size_t j = 0; j < options.size(); ++j) {
      const Option2d& option = options[j];
      std::size_t& first = first_row[j];
      while (first < before.rows.size() && before.rows[first].most_hbm + option.hbm < low) ++first;
      for (std::size_t r = first; r < before.rows.size(); ++r) {
        const Row& row = before.rows[r];
        if (!(row.least_hbm + option.hbm < high)) break;
        for (std::int32_t s = row.begin; s < row.end; ++s) {
          const State2d& state = before.states[static_cast<std::size_t>(s)];
          const State2d next{state.hbm + option.hbm, state.ddr + option.ddr,
                             state.perf + option.perf};
          if (next.hbm < low || !(next.hbm < high) || !(next.ddr < ddr_limit)) continue;
          const auto cell = static_cast<std::size_t>(next.ddr);
          offer(cells[cell], next, s, static_cast<std::int32_t>(j));
          first_cell = std::min(first_cell, cell);
          last_cell = std::max(last_cell, cell);
        }
      }
    }
    if (first_cell > last_cell) continue;
    Row row{.begin = static_cast<std::int32_t>(after.states.size()), .least_hbm = kInfinity};
    for (Cell2d& cell : cells.subspan(first_cell, last_cell - first_cell + 1)) {
      if (cell.perf == kInfinity) continue;
      row.least_hbm = std::min(row.least_hbm, cell.state.hbm);
      row.most_hbm = std::max(row.most_hbm, cell.state.hbm);
      after.states.push_back(cell.state);
      steps.push_back({options[static_cast<std::size_t>(cell.option)].choice, cell.previous});
      cell.perf = kInfinity;
    }
    if (after.states.size() > std::numeric_limits<std::int32_t>::max()) {
      return fail(ErrorCode::kOverflow, "", "too many states of HBM and DDR");
    }
    row.end = static_cast<std::int32_t>(after.states.size());
    if (row.end > row.begin) after.rows.push_back(row);
  }
  return {};
}

// The cheapest state of every row, the row of most HBM first.
std::vector<std::int32_t> best_of_rows(const Layer& layer) {
  std::vector<std::int32_t> best;
  for (auto row = layer.rows.rbegin(); row != layer.rows.rend(); ++row) {
    std::int32_t cheapest = row->begin;
    for (std::int32_t s = row->begin + 1; s < row->end; ++s) {
      if (layer.states[static_cast<std::size_t>(s)].perf <
          layer.states[static_cast<std::size_t>(cheapest)].perf) {
        cheapest = s;
      }
    }
    best.push_back(cheapest);
  }
  return best;
}

// The most DDR that one host offers; its ranks share it.
Bytes largest_host_ddr(const topology::Topology& topology) {
  const auto per_host = static_cast<std::size_t>(std::max(topology.local_world_size, 1));
  Bytes largest = 0;
  for (std::size_t first = 0; first < topology.devices.size(); first += per_host) {
    Bytes host = 0;
    for (std::size_t i = first; i < std::min(first + per_host, topology.devices.size()); ++i) {
      host = saturated_add(host, topology.devices[i].ddr);
    }
    largest = std::max(largest, host);
  }
  return largest;
}

// One axis of form 3.
struct Axis {
  std::int64_t num_bins = 1;
  double bin_size = 0;  // bytes; 0: nothing is offered, so nothing is counted

  float bins(Bytes bytes) const {
    return bin_size > 0 ? static_cast<float>(static_cast<double>(bytes) / bin_size) : 0.0F;
  }
};

Result<Axis> make_axis(Bytes total, std::int64_t bins_per_device,
                       const topology::Topology& topology) {
  if (total <= 0) return Axis{};
  PLIMSOLL_ASSIGN(const std::int64_t num_bins, count_bins(bins_per_device, topology));
  if (num_bins > kMaxFloatInteger) return fail(ErrorCode::kOverflow, "", "too many memory bins");
  PLIMSOLL_ASSIGN(const double size, bin_size(total, num_bins));
  return Axis{num_bins, size};
}

Result<Trails> solve_two_axes(const OptionSet& options, const OptionsByTable& tables,
                              const topology::Topology& topology, const RunContext& context,
                              std::int64_t hbm_bins_per_device, std::int64_t ddr_bins_per_device) {
  const Storage total = topology.total_storage();
  PLIMSOLL_ASSIGN(const Axis hbm, make_axis(total.hbm, hbm_bins_per_device, topology));
  PLIMSOLL_ASSIGN(const Axis ddr, make_axis(total.ddr, ddr_bins_per_device, topology));
  Bytes largest_device = 0;
  for (const Storage& device : topology.devices) {
    largest_device = std::max(largest_device, device.hbm);
  }
  const Bytes largest_host = largest_host_ddr(topology);

  Trails trails;
  std::vector<Cell2d> cells(static_cast<std::size_t>(ddr.num_bins));
  Layer before, after;
  before.states.push_back({});
  before.rows.push_back({0, 1, 0, 0});
  for (const std::vector<std::int32_t>& table : tables) {
    if (context.is_cancelled() || context.is_past_deadline()) return cut_trails();
    std::vector<Option2d> kept;
    for (std::size_t j = 0; j < table.size(); ++j) {
      const ShardRuns shards = options.shards(table[j]);
      const Storage largest_shard = shards.max_storage();
      if (hbm.bin_size > 0 && largest_shard.hbm > largest_device) continue;
      if (ddr.bin_size > 0 && largest_shard.ddr > largest_host) continue;
      const Storage bytes = shards.total_storage();
      kept.push_back({hbm.bins(bytes.hbm), ddr.bins(bytes.ddr),
                      static_cast<float>(shards.total_perf()), static_cast<std::int32_t>(j)});
    }
    std::vector<TrailStep>& steps = trails.layers.emplace_back();
    PLIMSOLL_RETURN_IF_ERROR(extend(before, kept, hbm.num_bins, cells, after, steps));
    steps.shrink_to_fit();
    std::swap(before, after);
  }
  if (!trails.layers.empty()) trails.ends = best_of_rows(before);
  return trails;
}

}  // namespace

std::unique_ptr<Proposer> make_easyrec_dynamic_programming_proposer(
    const EasyRecDynamicProgrammingOptions& options) {
  DynamicProgram program;
  if (options.form == EasyRecForm::kV3) {
    program.name = "easyrec_dynamic_programming_v3";
    program.sort_key = [](const Storage& total) { return saturated_add(total.hbm, total.ddr); };
    program.solve = [options](const OptionSet& set, const OptionsByTable& tables,
                              const topology::Topology& topology, const RunContext& context) {
      return solve_two_axes(set, tables, topology, context, options.hbm_bins_per_device,
                            options.ddr_bins_per_device);
    };
    return make_program_proposer(std::move(program));
  }
  const bool drops_large_shards = options.form == EasyRecForm::kV2;
  Bytes Storage::*const axis = options.has_cuda ? &Storage::hbm : &Storage::ddr;
  program.name =
      drops_large_shards ? "easyrec_dynamic_programming_v2" : "easyrec_dynamic_programming_v1";
  program.sort_key = [axis](const Storage& total) { return total.*axis; };
  program.solve = [options, axis, drops_large_shards](
                      const OptionSet& set, const OptionsByTable& tables,
                      const topology::Topology& topology, const RunContext& context) {
    return solve_one_axis(set, tables, topology, context, axis, options.hbm_bins_per_device,
                          drops_large_shards);
  };
  return make_program_proposer(std::move(program));
}

}  // namespace plimsoll::embedding
