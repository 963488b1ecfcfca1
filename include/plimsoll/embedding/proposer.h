// Proposers: heuristics that name one option per table, over and over, and learn from what the
// partitioner answers. Source: docs/mathematics/torchrec-planner.md#proposers.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "plimsoll/core/result.h"
#include "plimsoll/core/run_context.h"
#include "plimsoll/embedding/enumerator.h"
#include "plimsoll/embedding/option_set.h"
#include "plimsoll/topology/topology.h"

#pragma GCC visibility push(default)
namespace plimsoll::embedding {

// Indices into OptionSet::options, one per table, in the proposer's own order of tables.
using Proposal = std::vector<std::int32_t>;

// A proposal with a rank for every shard. Uniform options (row_wise, data_parallel) take no
// entries: shard i lies on rank i.
struct PlacedProposal {
  Proposal options;
  std::vector<std::int64_t> first_rank;  // [options.size() + 1], ranges in `ranks`
  std::vector<std::int32_t> ranks;       // in shard order (column block by column block)
};

// The search space as proposers see it. Searches that scale caches append options to it
// (intern_option).
struct SearchSpace {
  OptionSet* options = nullptr;               // not owned
  const ShardEstimator* estimator = nullptr;  // not owned; null where options came from a dump
  std::span<const TableProfile>
      profiles;  // [options->tables.size()]; empty where there is no estimator
  const RunContext* context = nullptr;  // not owned; ends what takes long; null: nothing does
};

struct Feedback {
  bool partitionable = false;
  const PlacedProposal* plan =
      nullptr;  // the placed plan, or the proposal that could not be placed; may be null
  std::optional<double> perf_rating;  // present iff partitionable and the proposer asked for it
  const topology::Topology* storage_constraint = nullptr;
};

// Derive from it to search your own way (ReferenceOptions::own_proposers), or drive one of those
// below by hand: load, then propose and feedback in turn.
class Proposer {
 public:
  virtual ~Proposer() = default;
  virtual std::string_view name() const = 0;
  // `space` outlives the proposals. May be called again, with another space.
  virtual Result<void> load(const SearchSpace& space) = 0;
  // The next proposal, valid until the next call; null or empty: exhausted.
  virtual const Proposal* propose() = 0;
  virtual Result<void> feedback(const Feedback& feedback) = 0;
  // Does `feedback` read perf_rating? If not, the planner may skip computing ratings that cannot be
  // the best.
  virtual bool needs_rating() const { return false; }
  // Does `feedback` read the placed plan of a proposal that was proposed before?
  virtual bool needs_plan() const { return false; }
  // Did the context end its work, so that it proposes less than it would?
  virtual bool is_cut() const { return false; }
};

// The score that greedy, uniform and grid search sort by: the largest shard total, or the sum over
// all shards.
enum class Score { kDepth, kSum };
double score(const OptionSet& options, std::int32_t option, Score by);

// Options of every table, each list stably sorted by score ascending; tables in search-space order.
std::vector<std::vector<std::int32_t>> options_by_score(const OptionSet& options, Score by);

struct GreedyOptions {
  Score score = Score::kDepth;
  std::optional<std::int64_t> threshold;  // stop after this many ratings without a better one
};
std::unique_ptr<Proposer> make_greedy_proposer(const GreedyOptions& options = {});
std::unique_ptr<Proposer> make_uniform_proposer(Score score = Score::kDepth);
std::unique_ptr<Proposer> make_grid_search_proposer(std::int64_t max_proposals = 10000,
                                                    Score score = Score::kDepth);

// TorchRec's dynamic program over binned HBM
// (docs/mathematics/torchrec-planner.md#dynamic-programming).
std::unique_ptr<Proposer> make_dynamic_programming_proposer(std::int64_t hbm_bins_per_device = 100);

// TorchEasyRec's three forms
// (docs/mathematics/torchrec-planner.md#torcheasyrecs-dynamic-programming).
enum class EasyRecForm { kV1, kV2, kV3 };
struct EasyRecDynamicProgrammingOptions {
  EasyRecForm form = EasyRecForm::kV3;
  std::int64_t hbm_bins_per_device = 100;  // below 1 counts as 1
  std::int64_t ddr_bins_per_device = 25;   // as above; v3 only
  bool has_cuda = true;                    // v1 and v2 bin ddr where CUDA is not available
  bool operator==(const EasyRecDynamicProgrammingOptions&) const = default;
};
std::unique_ptr<Proposer> make_easyrec_dynamic_programming_proposer(
    const EasyRecDynamicProgrammingOptions& options = {});

// Enlarges UVM caches with left-over HBM by a Luus-Jaakola search.
std::unique_ptr<Proposer> make_embedding_offload_scaleup_proposer(Score score = Score::kDepth);

// By name: "grid_search", "greedy_depth", "greedy_sum", "uniform", "dynamic_programming",
// "easyrec_dynamic_programming_v1" (_v2, _v3), "embedding_offload_scaleup"; several joined by '+',
// "default" for the planner's own list (grid_search+greedy_depth+greedy_sum+uniform), and "easyrec"
// for TorchEasyRec's (easyrec_dynamic_programming_v3+uniform; "easyrec_v1" and "easyrec_v2" for
// those of its earlier revisions). "name:N" sets greedy's threshold, grid search's number of
// proposals, or a dynamic program's HBM bins a device. `easyrec` holds for TorchEasyRec's programs,
// except for the form, which the name says. Errors: kNotFound with a suggestion, kValue.
Result<std::vector<std::unique_ptr<Proposer>>> make_proposers(
    std::string_view names, const EasyRecDynamicProgrammingOptions& easyrec = {});
std::span<const std::string> proposer_names();

// Loads all proposers, then drains each in order with feedback (partitionable, no rating) before
// the duplicate test; keeps first occurrences. Valid only for proposers whose feedback is static
// (docs/mathematics/torchrec-planner.md#proposers).
Result<std::vector<Proposal>> proposers_to_proposals_list(
    std::span<const std::unique_ptr<Proposer>> proposers, const SearchSpace& space);

}  // namespace plimsoll::embedding
#pragma GCC visibility pop
