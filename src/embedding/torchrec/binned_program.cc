// Dynamic program over binned memory, and the proposer around it.
//
// Problem. One option per table so that the sum of perf is least, for every amount of total memory.
// Method. Table by table, keep for every bin of total memory the cheapest choice so far and its
// exact memory; a later table extends each kept state by each of its options. States of one table
// lie in ascending order of memory, so an option's loop ends at the first state that overflows.
// Cost. O(tables * options * bins) time; 8 bytes per kept state, of which there are at most tables
// * bins. Proposals are walked back only when they are asked for. Promises. The states are those of
// the reference, ties included: options ascending, then bins ascending, and only a strictly better
// perf replaces. It is a heuristic all the same: a bin keeps one state, and the fractions of a bin
// that are lost on the way may exclude a better choice. Source:
// docs/mathematics/torchrec-planner.md#dynamic-programming.
#include "embedding/torchrec/binned_program.h"

#include <algorithm>
#include <limits>
#include <numeric>
#include <utility>

#include "core/check.h"
#include "plimsoll/core/numbers.h"

namespace plimsoll::embedding {
namespace {

// The kept states of one table, in ascending order of memory.
struct States {
  std::vector<double> memory;  // in bins
  std::vector<double> perf;    // ms
};

struct Cell {
  double perf = kInfinity;
  double memory = 0;
  TrailStep step;
};

// Tries every option on every state; cells are empty before.
void extend(const States& states, std::span<const BinnedOption> options, std::span<Cell> cells) {
  const auto limit = static_cast<double>(cells.size());
  const auto num_states = static_cast<std::int32_t>(states.memory.size());
  const double* state_memory = states.memory.data();
  const double* state_perf = states.perf.data();
  for (std::size_t j = 0; j < options.size(); ++j) {
    const BinnedOption option = options[j];
    for (std::int32_t s = 0; s < num_states; ++s) {
      const double memory = state_memory[s] + option.memory;
      if (!(memory < limit)) break;
      const double perf = state_perf[s] + option.perf;
      Cell& cell = cells[static_cast<std::size_t>(memory)];
      if (cell.perf > perf) cell = {perf, memory, {static_cast<std::int32_t>(j), s}};
    }
  }
}

// Moves the reached cells into `states` and returns their steps; all cells are empty afterwards.
std::vector<TrailStep> collect(std::span<Cell> cells, States& states) {
  const auto num_reached = static_cast<std::size_t>(std::count_if(
      cells.begin(), cells.end(), [](const Cell& cell) { return cell.perf < kInfinity; }));
  std::vector<TrailStep> steps;
  steps.reserve(num_reached);
  states.memory.clear();
  states.perf.clear();
  for (Cell& cell : cells) {
    if (!(cell.perf < kInfinity)) continue;
    states.memory.push_back(cell.memory);
    states.perf.push_back(cell.perf);
    steps.push_back(cell.step);
    cell.perf = kInfinity;
  }
  return steps;
}

class ProgramProposer final : public Proposer {
 public:
  explicit ProgramProposer(DynamicProgram program) : program_(std::move(program)) {}

  std::string_view name() const override { return program_.name; }

  Result<void> load(const SearchSpace& space) override {
    // A quirk of the reference: `is_solved_` stays as it was, so a used instance proposes nothing.
    options_ = space.options;
    context_ = space.context != nullptr ? *space.context : RunContext{};
    trails_ = {};
    current_ = -1;
    order_options();
    return {};
  }

  const Proposal* propose() override {
    if (is_solved_ && current_ < 0) return nullptr;
    proposal_.resize(tables_.size());
    if (!is_solved_) {
      for (std::size_t t = 0; t < tables_.size(); ++t) proposal_[t] = tables_[t].front();
      return &proposal_;
    }
    std::int32_t state = trails_.ends[static_cast<std::size_t>(current_)];
    for (std::size_t t = tables_.size(); t-- > 0;) {
      const TrailStep step = trails_.layers[t][static_cast<std::size_t>(state)];
      proposal_[t] = tables_[t][static_cast<std::size_t>(step.choice)];
      state = step.previous;
    }
    return &proposal_;
  }

  Result<void> feedback(const Feedback& feedback) override {
    if (is_solved_) {
      ++current_;
      if (current_ >= static_cast<std::int64_t>(trails_.ends.size())) current_ = -1;
      return {};
    }
    is_solved_ = true;
    if (feedback.storage_constraint == nullptr) {
      return fail(ErrorCode::kUsage, program_.name, "feedback without a storage constraint");
    }
    PLIMSOLL_ASSIGN(trails_,
                    program_.solve(*options_, tables_, *feedback.storage_constraint, context_));
    if (!trails_.ends.empty()) current_ = 0;
    return {};
  }

  bool is_cut() const override { return trails_.is_cut; }

 private:
  // Tables come in the order in which their first option appears among all options, sorted.
  void order_options() {
    const std::vector<TableOptions>& tables = options_->tables;
    std::vector<std::pair<Bytes, std::int32_t>> keyed;  // sort key, option
    for (const TableOptions& table : tables) {
      for (std::int32_t i = 0; i < table.num_options; ++i) {
        const std::int32_t option = table.first_option + i;
        keyed.emplace_back(program_.sort_key(options_->shards(option).total_storage()), option);
      }
    }
    std::stable_sort(keyed.begin(), keyed.end(),
                     [](const auto& a, const auto& b) { return a.first < b.first; });
    tables_.clear();
    std::vector<std::int32_t> position(tables.size(), -1);
    for (const auto& [key, option] : keyed) {
      const auto table =
          static_cast<std::size_t>(options_->options[static_cast<std::size_t>(option)].table);
      if (position[table] < 0) {
        position[table] = static_cast<std::int32_t>(tables_.size());
        tables_.emplace_back();
      }
      tables_[static_cast<std::size_t>(position[table])].push_back(option);
    }
  }

  DynamicProgram program_;
  const OptionSet* options_ = nullptr;
  RunContext context_;
  OptionsByTable tables_;
  bool is_solved_ = false;
  Trails trails_;
  std::int64_t current_ = -1;  // into trails_.ends; -1: exhausted
  Proposal proposal_;
};

}  // namespace

bool has_negative_memory(const std::vector<BinnedOption>& options) {
  return std::any_of(options.begin(), options.end(),
                     [](const BinnedOption& option) { return option.memory < 0; });
}

Trails cut_trails() {
  Trails trails;
  trails.is_cut = true;
  return trails;
}

Trails solve_binned(std::span<const std::vector<BinnedOption>> tables, std::int64_t num_bins,
                    const RunContext& context) {
  PLIMSOLL_CHECK(num_bins >= 1 && num_bins <= std::numeric_limits<std::int32_t>::max(),
                 "the number of bins is at least 1 and fits in 32 bits");
  PLIMSOLL_DCHECK(std::none_of(tables.begin(), tables.end(), has_negative_memory),
                  "no option needs negative memory");
  Trails trails;
  std::vector<Cell> cells(static_cast<std::size_t>(num_bins));
  States states{{0.0}, {0.0}};
  for (const std::vector<BinnedOption>& options : tables) {
    if (context.is_cancelled() || context.is_past_deadline()) return cut_trails();
    extend(states, options, cells);
    trails.layers.push_back(collect(cells, states));
  }
  if (trails.layers.empty()) return trails;
  trails.ends.resize(trails.layers.back().size());
  std::iota(trails.ends.rbegin(), trails.ends.rend(), 0);
  return trails;
}

std::unique_ptr<Proposer> make_program_proposer(DynamicProgram program) {
  return std::make_unique<ProgramProposer>(std::move(program));
}

Result<double> bin_size(Bytes total, std::int64_t num_bins) {
  if (total < 0) {
    return fail(ErrorCode::kValue, "", "the devices' memory is negative in total");
  }
  if (total == 0) return fail(ErrorCode::kZeroDivision, "", "float division by zero");
  return static_cast<double>(total) / static_cast<double>(num_bins);
}

Result<std::int64_t> count_bins(std::int64_t bins_per_device, const topology::Topology& topology) {
  const auto num_devices = static_cast<std::int64_t>(topology.devices.size());
  const std::int64_t per_device = std::max<std::int64_t>(bins_per_device, 1);
  if (num_devices > 0 && per_device > std::numeric_limits<std::int32_t>::max() / num_devices) {
    return fail(ErrorCode::kOverflow, "", "too many memory bins");
  }
  return per_device * num_devices;
}

}  // namespace plimsoll::embedding
