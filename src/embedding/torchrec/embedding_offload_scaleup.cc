// Scale-up of UVM caches with the HBM that a first plan leaves over.
//
// Problem. Tables that are cached in HBM run the faster the larger their caches; a plan with the
// smallest caches leaves HBM unused. How much of it should the caches take, and which?
// Method. One option per table, cached where possible. The first proposal has the caches as given;
// then a Luus-Jaakola search over the total budget, 16 iterations, learns from the ratings. A
// budget is dealt out in proportion to cacheability times expected lookups; what a full cache
// cannot use goes round again, and a table that would need more HBM cached than whole is put into
// HBM whole. Cost. 18 proposals at most, each with one estimate per cached table. Promises. The
// reference's proposals to the last bit of each load factor; the search is deterministic. Nothing
// is promised about the budget being well spent. Departures. Sums over tables run in order; torch
// sums in lanes, so a load factor could differ by one unit in the last place where a double lies at
// the edge between two floats. Where the reference would search for ever (all budgets known) or
// fails inside an estimate (NaN), we stop or return an error. Its log lines (ignored options,
// caches that are not LRU) are left out. Source:
// docs/mathematics/torchrec-planner.md#scale-up-of-caches.
#include "embedding/torchrec/embedding_offload_scaleup.h"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <optional>

#include "embedding/torchrec/luus_jaakola.h"
#include "plimsoll/core/checked.h"
#include "plimsoll/embedding/proposer.h"

namespace plimsoll::embedding {
namespace {

constexpr int kIterations = 16;
constexpr double kLowLoadFactor = 0.1;  // where the size model is sampled
constexpr double kHighLoadFactor = 0.9;
constexpr double kFullLoadFactor = 0.9999;  // from here on a table is put into HBM whole
constexpr double kHopeless = 1e99;          // stands for a missing rating

double priority(const CacheStats& stats) { return stats.cacheability * stats.expected_lookups; }

class EmbeddingOffloadScaleupProposer final : public Proposer {
 public:
  explicit EmbeddingOffloadScaleupProposer(Score score) : score_(score) {}

  std::string_view name() const override { return "embedding_offload_scaleup"; }
  bool needs_rating() const override { return true; }

  Result<void> load(const SearchSpace& space) override {
    // A quirk of the reference: the search of an earlier run goes on where it was.
    space_ = space;
    starting_.clear();
    for (const std::vector<std::int32_t>& options : options_by_score(*space.options, score_)) {
      if (options.empty()) continue;
      const auto cached = std::find_if(options.begin(), options.end(),
                                       [&](std::int32_t option) { return is_cached(option); });
      starting_.push_back(cached == options.end() ? options.front() : *cached);
    }
    if (space_.estimator != nullptr) PLIMSOLL_RETURN_IF_ERROR(promote());
    proposal_ = starting_;
    return {};
  }

  const Proposal* propose() override { return proposal_ ? &*proposal_ : nullptr; }

  Result<void> feedback(const Feedback& feedback) override {
    proposal_.reset();
    if (space_.estimator == nullptr || feedback.plan == nullptr) return {};
    const Bytes used = total_hbm(feedback.plan->options);
    if (!search_) {
      if (!feedback.partitionable || feedback.storage_constraint == nullptr) return {};
      const Bytes available =
          saturated_subtract(feedback.storage_constraint->total_storage().hbm, used);
      PLIMSOLL_ASSIGN(const Bytes ceiling, hbm_ceiling(feedback.plan->options));
      const auto budget = static_cast<double>(std::min(available, ceiling - used));
      search_.emplace(0.0, budget, kIterations, 42, feedback.perf_rating);
    }
    if (!feedback.partitionable) {
      search_->shrink_right(static_cast<double>(used - total_hbm(starting_)));
    }
    // A rating of zero counts as missing: a quirk of the reference.
    const double rating = feedback.perf_rating.value_or(0);
    const std::optional<double> budget = search_->next(rating == 0 ? kHopeless : rating);
    if (!budget) return {};
    PLIMSOLL_ASSIGN(proposal_, scale_up(std::trunc(*budget)));
    return {};
  }

 private:
  const Option& option(std::int32_t index) const {
    return space_.options->options[static_cast<std::size_t>(index)];
  }

  const TableProfile& profile(std::int32_t index) const {
    return space_.profiles[static_cast<std::size_t>(option(index).table)];
  }

  bool is_cached(std::int32_t index) const {
    return option(index).compute_kernel == ComputeKernel::kFusedUvmCaching;
  }

  bool is_scalable(std::int32_t index) const {
    if (!is_cached(index)) return false;
    const std::optional<CacheParams>& cache = profile(index).cache_params;
    return cache && cache->stats &&
           priority(*cache->stats) * option(index).cache_load_factor.value_or(0) > 0;
  }

  Bytes hbm(std::int32_t index) const { return space_.options->shards(index).total_storage().hbm; }

  Bytes total_hbm(const Proposal& proposal) const {
    Bytes total = 0;
    for (const std::int32_t index : proposal) total = saturated_add(total, hbm(index));
    return total;
  }

  // HBM that the option would take with another kernel and load factor.
  Result<Bytes> hbm_if(std::int32_t index, ComputeKernel kernel,
                       std::optional<double> load_factor) const {
    if (!profile(index).cache_params) {
      return fail(ErrorCode::kRuntime, table_name(index),
                  "a cached table has no cache parameters to scale");
    }
    Option changed = option(index);
    changed.compute_kernel = kernel;
    changed.cache_load_factor = load_factor;
    const ShardRuns shards = space_.options->shards(index);
    std::vector<ShardRun> runs(shards.runs.begin(), shards.runs.end());
    PLIMSOLL_RETURN_IF_ERROR(space_.estimator->estimate(
        table(index), profile_of(profile(index), changed), changed, runs));
    Bytes total = 0;
    for (const ShardRun& run : runs) {
      total = saturated_add(total, run.storage.times(run.count).times(shards.column_blocks).hbm);
    }
    return total;
  }

  const TableOptions& table(std::int32_t index) const {
    return space_.options->tables[static_cast<std::size_t>(option(index).table)];
  }

  const std::string& table_name(std::int32_t index) const { return table(index).name; }

  Result<std::int32_t> changed_option(std::int32_t index, ComputeKernel kernel,
                                      std::optional<double> load_factor) {
    return intern_option(*space_.estimator, profile(index), index, kernel, load_factor,
                         *space_.options);
  }

  // Cached tables that need less HBM whole are put there from the start: with much input the
  // cache's prefetch buffers may outweigh the table.
  Result<void> promote() {
    for (std::int32_t& index : starting_) {
      if (!is_cached(index)) continue;
      PLIMSOLL_ASSIGN(const Bytes whole, hbm_if(index, ComputeKernel::kFused, std::nullopt));
      if (whole >= hbm(index)) continue;
      PLIMSOLL_ASSIGN(index, changed_option(index, ComputeKernel::kFused, std::nullopt));
    }
    return {};
  }

  // HBM of the plan if every scalable table were whole in HBM.
  Result<Bytes> hbm_ceiling(const Proposal& plan) const {
    Bytes total = 0;
    for (const std::int32_t index : plan) {
      if (is_scalable(index)) {
        PLIMSOLL_ASSIGN(const Bytes whole, hbm_if(index, ComputeKernel::kFused, std::nullopt));
        total = saturated_add(total, whole);
      } else {
        total = saturated_add(total, hbm(index));
      }
    }
    return total;
  }

  Result<ScalableCache> make_scalable_cache(std::int32_t index) const {
    PLIMSOLL_ASSIGN(const Bytes low,
                    hbm_if(index, ComputeKernel::kFusedUvmCaching, kLowLoadFactor));
    PLIMSOLL_ASSIGN(const Bytes high,
                    hbm_if(index, ComputeKernel::kFusedUvmCaching, kHighLoadFactor));
    PLIMSOLL_ASSIGN(const Bytes whole, hbm_if(index, ComputeKernel::kFused, std::nullopt));
    const float slope =
        static_cast<float>(high - low) / static_cast<float>(kHighLoadFactor - kLowLoadFactor);
    const float offset = static_cast<float>(low) - slope * static_cast<float>(kLowLoadFactor);
    return ScalableCache{
        .size = {slope, offset},
        .fused_bytes = static_cast<double>(whole),
        .load_factor = static_cast<float>(*option(index).cache_load_factor),
        .priority = static_cast<float>(priority(*profile(index).cache_params->stats))};
  }

  // The starting proposal with `budget` more bytes in its caches; nothing where no cache can grow.
  Result<std::optional<Proposal>> scale_up(double budget) {
    std::vector<std::size_t> positions;  // in the starting proposal
    std::vector<ScalableCache> caches;
    for (std::size_t i = 0; i < starting_.size(); ++i) {
      if (!is_scalable(starting_[i])) continue;
      PLIMSOLL_ASSIGN(const ScalableCache cache, make_scalable_cache(starting_[i]));
      positions.push_back(i);
      caches.push_back(cache);
    }
    if (positions.empty()) return std::nullopt;

    const std::vector<float> load_factors = allocate_budget(caches, budget);
    Proposal proposal = starting_;
    for (std::size_t i = 0; i < positions.size(); ++i) {
      std::int32_t& index = proposal[positions[i]];
      const double load_factor = load_factors[i];
      if (std::isnan(load_factor)) {
        return fail(ErrorCode::kValue, table_name(index), "cannot convert float NaN to integer");
      }
      const bool is_full = load_factor > kFullLoadFactor;
      PLIMSOLL_ASSIGN(
          index,
          changed_option(index, is_full ? ComputeKernel::kFused : ComputeKernel::kFusedUvmCaching,
                         is_full ? std::nullopt : std::optional(load_factor)));
    }
    return proposal;
  }

  Score score_;
  SearchSpace space_;
  Proposal starting_;
  std::optional<Proposal> proposal_;
  std::optional<LuusJaakola> search_;
};

}  // namespace

std::vector<float> allocate_budget(std::span<const ScalableCache> caches, double budget_bytes) {
  constexpr int kMaxPasses = 128;
  const std::size_t n = caches.size();
  // Sizes are sampled in single precision, then everything is counted in double.
  std::vector<double> empty(n), full(n), cache(n), full_cache(n);
  for (std::size_t i = 0; i < n; ++i) {
    empty[i] = static_cast<double>(caches[i].size.bytes(0));
    full[i] = static_cast<double>(caches[i].size.bytes(1));
    cache[i] = static_cast<double>(caches[i].size.bytes(caches[i].load_factor)) - empty[i];
    full_cache[i] = full[i] - empty[i];
  }

  double budget = budget_bytes;
  std::vector<bool> grows(n);
  for (int pass = 0; budget > 1 && pass < kMaxPasses; ++pass) {
    double total_priority = 0;
    for (std::size_t i = 0; i < n; ++i) {
      grows[i] = empty[i] + cache[i] < full[i];
      if (grows[i]) total_priority += static_cast<double>(caches[i].priority);
    }
    if (std::find(grows.begin(), grows.end(), true) == grows.end()) break;

    double spent = 0, reclaimed = 0;
    for (std::size_t i = 0; i < n; ++i) {
      const double share =
          grows[i] ? static_cast<double>(caches[i].priority) / total_priority : 0.0;
      const double grown = std::min(cache[i] + budget * share, full_cache[i]);
      spent += grown - cache[i];
      cache[i] = grown;
      if (grows[i] && empty[i] + cache[i] > caches[i].fused_bytes) {
        reclaimed += (empty[i] + cache[i]) - caches[i].fused_bytes;
        cache[i] = full_cache[i];
      }
    }
    budget -= spent;
    budget += reclaimed;
  }

  std::vector<float> load_factors(n);
  for (std::size_t i = 0; i < n; ++i) {
    load_factors[i] = static_cast<float>(cache[i] / full_cache[i]);
  }
  return load_factors;
}

std::unique_ptr<Proposer> make_embedding_offload_scaleup_proposer(Score score) {
  return std::make_unique<EmbeddingOffloadScaleupProposer>(score);
}

}  // namespace plimsoll::embedding
