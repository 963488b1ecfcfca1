// What the statistics report says, before it is printed.
//
// Problem. Summarise a plan as TorchRec's EmbeddingStats does: loads of every rank, totals of every
// kernel, imbalance, critical path, and the tables behind the fullest and the slowest rank.
// Method. One walk over the shards in plan order for everything that is summed per rank, a second
// one for the critical path, a third to find the tables. O(shards log ranks) time, O(shards)
// memory. Promises. Every sum adds in the reference's order, so that its last digit is the
// reference's; bytes are exact in 128 bits; means are rounded once. Source:
// docs/mathematics/torchrec-planner.md#statistics-report. Exact means: J. R. Shewchuk, "Adaptive
// precision floating-point arithmetic and fast robust geometric predicates", Discrete &
// Computational Geometry 18, 1997, https://doi.org/10.1007/PL00009321 (non-overlapping partial
// sums).

#include "plimsoll/embedding/stats.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>
#include <utility>

#include "core/check.h"
#include "embedding/report/stats_figures.h"
#include "plimsoll/core/units.h"
#include "plimsoll/embedding/estimator.h"

namespace plimsoll::embedding {
namespace {

// A sum of doubles without any rounding, held as partial sums of increasing size that share no
// bits.
class ExactSum {
 public:
  void add(double value) {
    std::vector<double> partials;
    for (const double partial : partials_) {
      const double sum = value + partial;
      const double larger = std::abs(value) < std::abs(partial) ? partial : value;
      const double smaller = std::abs(value) < std::abs(partial) ? value : partial;
      const double lost = smaller - (sum - larger);
      if (lost != 0) partials.push_back(lost);
      value = sum;
    }
    if (value != 0) partials.push_back(value);
    partials_ = std::move(partials);
  }
  void add_product(double a, double b) {
    const double product = a * b;
    add(product);
    add(std::fma(a, b, -product));
  }
  double approximation() const {
    double sum = 0;
    for (const double partial : partials_) sum += partial;
    return sum;
  }
  int sign() const {
    if (partials_.empty()) return 0;
    return partials_.back() > 0 ? 1 : -1;
  }

 private:
  std::vector<double> partials_;
};

bool is_even(double value) { return (std::bit_cast<std::uint64_t>(value) & 1) == 0; }

// The reference writes a plain integer 0 where a cost has no formula: communication of a replica's
// forward pass, and, before every type had an inference rule, the backward pass of the types that
// had one.
bool is_written_zero(const CostModel& cost_model, const RunMode& mode, ShardingType type,
                     double Perf::*component) {
  if (component == &Perf::fwd_comms) return type == ShardingType::kDataParallel;
  if (component != &Perf::bwd_compute && component != &Perf::bwd_comms) return false;
  return mode.inference && !cost_model.inference_everywhere &&
         (type == ShardingType::kTableWise || type == ShardingType::kColumnWise ||
          type == ShardingType::kTableColumnWise || type == ShardingType::kRowWise);
}

WideBytes optimizer_state(const TableProfile& profile, WideBytes weights) {
  switch (profile.optimizer) {
    case Optimizer::kNone:
    case Optimizer::kSgd:
      return 0;
    case Optimizer::kAdam:
      return 2 * weights;
    case Optimizer::kRowWiseAdagrad: {
      const double columns = static_cast<double>(profile.shape.columns);
      return static_cast<WideBytes>(std::ceil(static_cast<double>(weights) * (1 / columns)));
    }
    case Optimizer::kOther:
      return weights;
  }
  return 0;
}

// The tables of the placed proposal. Uniform options list no ranks: their shard i lies on rank i. A
// failed search put nothing anywhere; the reference says rank -1, and -1 indexes the last rank.
std::vector<PlacedOption> placed_options(const PlanningProblem& problem,
                                         const PlanningResult& result, bool has_plan) {
  const Enumeration& space = result.enumeration;
  std::vector<PlacedOption> placed;
  for (std::size_t i = 0; i < result.best.options.size(); ++i) {
    PlacedOption entry;
    entry.option = &space.options.options[static_cast<std::size_t>(result.best.options[i])];
    const auto table = static_cast<std::size_t>(entry.option->table);
    entry.table = &space.options.tables[table];
    entry.profile = &space.profiles[table];
    entry.module = &problem.model.modules[static_cast<std::size_t>(entry.table->module)];
    const auto constraints = problem.model.constraints.find(entry.table->name);
    if (constraints != problem.model.constraints.end()) entry.constraints = &constraints->second;
    entry.shards = space.options.shards(*entry.option);

    const auto num_shards = static_cast<std::size_t>(entry.shards.num_shards());
    if (!has_plan) {
      entry.ranks.assign(num_shards, problem.topology.world_size - 1);
    } else if (result.best.first_rank[i] == result.best.first_rank[i + 1]) {
      for (std::size_t s = 0; s < num_shards; ++s) {
        entry.ranks.push_back(static_cast<std::int32_t>(s));
      }
    } else {
      entry.ranks.assign(result.best.ranks.begin() + result.best.first_rank[i],
                         result.best.ranks.begin() + result.best.first_rank[i + 1]);
    }
    placed.push_back(std::move(entry));
  }
  return placed;
}

void add_kernel_figures(const PlacedOption& placed,
                        std::map<std::string_view, KernelFigures>& kernels) {
  KernelFigures& kernel = kernels[to_string(placed.option->compute_kernel)];
  ++kernel.num_tables;
  if (placed.constraints != nullptr && !placed.constraints->compute_kernels.empty()) {
    ++kernel.num_hardcoded;
  }
  const TableShape& shape = placed.profile->shape;
  const WideBytes weights = WideBytes{shape.rows} * shape.columns * shape.element_size;
  kernel.weights += weights;
  kernel.optimizer_state += optimizer_state(*placed.profile, weights);
  const Storage total = placed.shards.total_storage();
  kernel.hbm += total.hbm;
  kernel.ddr += total.ddr;
  kernel.ssd += total.ssd;
}

void add_rank_figures(const PlanningProblem& problem, const Estimator& estimator,
                      const PlacedOption& placed, std::vector<RankFigures>& ranks) {
  const ShardingType type = placed.option->sharding_type;
  std::array<bool, kNumPerfComponents> is_float{};
  for (std::size_t c = 0; c < kNumPerfComponents; ++c) {
    is_float[c] = !is_written_zero(problem.cost_model, problem.mode, type, kPerfComponents[c]);
  }
  const ShardRun* known = nullptr;  // the run that `io` is of
  Estimator::Io io;
  for_each_placed_shard(placed, [&](const ShardRun& run, std::int32_t r) {
    if (&run != known) {
      known = &run;
      io = estimator
               .shard_io(*placed.profile, type, run.rows, run.columns,
                         placed.profile->shape.element_size)
               .value_or(Estimator::Io{});
    }
    RankFigures& rank = ranks[static_cast<std::size_t>(r)];
    const std::vector<double>& speeds = problem.topology.device_speeds;
    const Perf perf =
        speeds.empty() ? run.perf : at_speed(run.perf, speeds[static_cast<std::size_t>(r)]);
    rank.perf += perf;
    for (std::size_t c = 0; c < kNumPerfComponents; ++c) {
      rank.is_float[c] = rank.is_float[c] || is_float[c];
    }
    rank.total_perf += perf.total();
    rank.sparse_hbm += run.storage.hbm;
    rank.ddr += run.storage.ddr;
    rank.input_mib += static_cast<double>(io.input) / static_cast<double>(kMiB);
    rank.output_mib += static_cast<double>(io.output) / static_cast<double>(kMiB);
    ++rank.num_shards[static_cast<std::size_t>(type)];
    rank.has_shards = true;
  });
}

// Ranks wait for one another after the collective of every module and sharding type, and after all
// look-ups. Prefetching is left out.
CriticalPath critical_path(const StatsFigures& figures) {
  std::vector<std::vector<const PlacedOption*>> collectives;  // in order of first appearance
  std::map<std::pair<std::string_view, ShardingType>, std::size_t> index;
  for (const PlacedOption& placed : figures.tables) {
    const auto [found, is_new] = index.try_emplace(
        {placed.table->module_path, placed.option->sharding_type}, collectives.size());
    if (is_new) collectives.emplace_back();
    collectives[found->second].push_back(&placed);
  }

  CriticalPath path;
  std::vector<double> forward, backward;  // of one collective, [world_size]
  for (const std::vector<const PlacedOption*>& tables : collectives) {
    forward.assign(figures.ranks.size(), 0);
    backward.assign(figures.ranks.size(), 0);
    for (const PlacedOption* placed : tables) {
      for_each_placed_shard(*placed, [&](const ShardRun& run, std::int32_t rank) {
        forward[static_cast<std::size_t>(rank)] += run.perf.fwd_comms;
        backward[static_cast<std::size_t>(rank)] += run.perf.bwd_comms;
      });
    }
    path.comms += *std::max_element(forward.begin(), forward.end());
    path.comms += *std::max_element(backward.begin(), backward.end());
  }
  double slowest_forward = 0;
  double slowest_backward = 0;
  for (const RankFigures& rank : figures.ranks) {
    slowest_forward = std::max(slowest_forward, rank.perf.fwd_compute);
    slowest_backward = std::max(slowest_backward, rank.perf.bwd_compute);
  }
  path.compute = slowest_forward + slowest_backward;
  return path;
}

// The tables that make the fullest ranks so full: those with a shard on every rank where `load` is
// greatest, by decreasing `cost` of their first shard. Tables that lie everywhere anyway are not a
// cause, and a single used rank has no imbalance.
template <class Load, class Cost>
std::vector<const PlacedOption*> find_imbalance_tables(const StatsFigures& figures, Load load,
                                                       Cost cost) {
  std::vector<std::size_t> used;
  for (std::size_t r = 0; r < figures.ranks.size(); ++r) {
    if (figures.ranks[r].has_shards) used.push_back(r);
  }
  if (used.size() <= 1) return {};

  auto greatest = load(figures.ranks[used.front()]);
  for (const std::size_t r : used) greatest = std::max(greatest, load(figures.ranks[r]));
  std::vector<char> is_fullest(figures.ranks.size(), 0);
  std::size_t num_fullest = 0;
  for (const std::size_t r : used) {
    if (load(figures.ranks[r]) != greatest) continue;
    is_fullest[r] = 1;
    ++num_fullest;
  }

  std::vector<const PlacedOption*> tables;
  for (const PlacedOption& placed : figures.tables) {
    if (placed.option->sharding_type == ShardingType::kDataParallel ||
        placed.option->sharding_type == ShardingType::kRowWise) {
      continue;
    }
    std::vector<std::int32_t> ranks = placed.ranks;
    std::sort(ranks.begin(), ranks.end());
    ranks.erase(std::unique(ranks.begin(), ranks.end()), ranks.end());
    const auto covered = std::count_if(ranks.begin(), ranks.end(), [&](std::int32_t r) {
      return is_fullest[static_cast<std::size_t>(r)] != 0;
    });
    if (static_cast<std::size_t>(covered) == num_fullest) tables.push_back(&placed);
  }
  std::stable_sort(tables.begin(), tables.end(), [&](const PlacedOption* a, const PlacedOption* b) {
    return cost(a->shards.runs.front()) > cost(b->shards.runs.front());
  });
  return tables;
}

}  // namespace

StatsFigures compute_stats_figures(const PlanningProblem& problem, const PlanningResult& result) {
  StatsFigures figures;
  // A check after planning may have taken the plan back; the reference has printed it by then.
  figures.has_plan = !std::isnan(result.rating);
  figures.tables = placed_options(problem, result, figures.has_plan);
  figures.dense = result.reservation->dense.value_or(Storage{});
  figures.kjt = result.reservation->kjt.value_or(Storage{});

  const Estimator estimator(problem.cost_model, problem.topology, problem.mode);
  figures.ranks.resize(static_cast<std::size_t>(problem.topology.world_size));
  for (const PlacedOption& placed : figures.tables) {
    add_kernel_figures(placed, figures.kernels);
    add_rank_figures(problem, estimator, placed, figures.ranks);
  }
  for (RankFigures& rank : figures.ranks) {
    rank.hbm = rank.sparse_hbm + figures.dense.hbm + figures.kjt.hbm;
    rank.ddr += WideBytes{figures.dense.ddr} + figures.kjt.ddr;
  }
  if (!figures.has_plan) return figures;

  figures.critical_path = critical_path(figures);
  figures.max_perf_tables = find_imbalance_tables(
      figures, [](const RankFigures& rank) { return rank.total_perf; },
      [](const ShardRun& run) { return run.perf.total(); });
  figures.max_hbm_tables = find_imbalance_tables(
      figures, [](const RankFigures& rank) { return rank.sparse_hbm; },
      [](const ShardRun& run) { return run.storage.hbm; });
  return figures;
}

double exact_mean(const std::vector<double>& values) {
  PLIMSOLL_CHECK(!values.empty(), "there is a value");
  const double count = static_cast<double>(values.size());
  ExactSum sum;
  for (const double value : values) sum.add(value);
  double mean = sum.approximation() / count;
  // `mean` is a few units in the last place off at most. Step towards the exact quotient until it
  // lies nearer to `mean` than to the next double.
  for (;;) {
    ExactSum rest = sum;  // sum - count * mean
    rest.add_product(-count, mean);
    const int direction = rest.sign();
    if (direction == 0) return mean;
    const double next = std::nextafter(mean, direction * std::numeric_limits<double>::infinity());
    // Twice the distance of the quotient from the middle of `mean` and `next`, times count.
    for (const double value : values) rest.add(value);
    rest.add_product(-count, next);
    const int beyond_middle = rest.sign() * direction;
    if (beyond_middle < 0 || (beyond_middle == 0 && is_even(mean))) return mean;
    mean = next;
  }
}

Imbalance imbalance_of_shares(const std::vector<double>& shares) {
  const double count = static_cast<double>(shares.size());
  const double even = 1.0 / count;
  Imbalance metrics;
  for (const double share : shares) {
    const double distance = std::abs(share - even);
    metrics.total_variation = std::max(metrics.total_variation, distance);
    metrics.total_distance += distance;
    metrics.chi_divergence += distance * distance * count;
    if (share > 0) metrics.kl_divergence += share * std::log(count * share);
  }
  // Divided by the worst case, one rank with everything; a single rank is always balanced.
  const double largest = (count - 1) / count;
  const double worst_chi = largest * largest * count + (count - 1) * even;
  const double worst_kl = std::log(count);
  metrics.chi_divergence = worst_chi > 0 ? metrics.chi_divergence / worst_chi : 0.0;
  metrics.kl_divergence = worst_kl > 0 ? metrics.kl_divergence / worst_kl : 0.0;
  return metrics;
}

Imbalance imbalance(const std::vector<double>& loads) {
  double total = 0;
  for (const double load : loads) total += load;
  std::vector<double> shares;
  for (const double load : loads) shares.push_back(load / total);
  return imbalance_of_shares(shares);
}

}  // namespace plimsoll::embedding
