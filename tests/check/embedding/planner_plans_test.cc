// No plan of any proposer and partitioner on random models breaks a rule of the judge, and its
// rating is the judge's.

#include <gtest/gtest.h>

#include <cmath>
#include <random>
#include <string>

#include "plimsoll/check/sharding_check.h"
#include "plimsoll/embedding/planner.h"

namespace plimsoll::check {
namespace {

using namespace plimsoll::embedding;

class RandomProblem {
 public:
  explicit RandomProblem(std::uint64_t seed) : random_(seed) {}

  PlanningProblem make() {
    PlanningProblem problem;
    const auto releases = cost_models();
    problem.cost_model =
        releases[static_cast<std::size_t>(pick(static_cast<int>(releases.size())))];
    topology::TopologySpec spec;
    spec.local_world_size = 1 + pick(4);
    spec.world_size = *spec.local_world_size * (1 + pick(3));
    spec.hbm_cap = Bytes{1} << (24 + pick(12));
    spec.ddr_cap = Bytes{1} << (28 + pick(10));
    const int device = pick(6);
    spec.compute_device = device == 0   ? topology::ComputeDevice::kCpu
                          : device == 1 ? topology::ComputeDevice::kMtia
                                        : topology::ComputeDevice::kCuda;
    if (problem.cost_model.pods && pick(4) == 0) spec.pod_size = 1;
    problem.topology =
        *topology::make_topology(spec, problem.cost_model.zero_cap_is_default,
                                 problem.cost_model.ssd_tier, !problem.cost_model.mtia_is_host);
    problem.batch_size = 1 + pick(2000);
    problem.reservation.percentage = 0.05 * pick(4);
    problem.model = make_model();
    return problem;
  }

  int pick(int below) { return static_cast<int>(random_() % static_cast<unsigned>(below)); }

 private:
  Model make_model() {
    static constexpr ModuleKind kKinds[] = {ModuleKind::kEmbeddingBagCollection,
                                            ModuleKind::kEmbeddingBagCollection,
                                            ModuleKind::kEmbeddingCollection,
                                            ModuleKind::kFusedEmbeddingBagCollection,
                                            ModuleKind::kQuantEmbeddingBagCollection,
                                            ModuleKind::kManagedCollisionEmbeddingCollection,
                                            ModuleKind::kEmbeddingTower,
                                            ModuleKind::kItepEmbeddingBagCollection,
                                            ModuleKind::kFeatureProcessedEmbeddingBagCollection};
    static constexpr Optimizer kOptimizers[] = {Optimizer::kNone, Optimizer::kSgd, Optimizer::kAdam,
                                                Optimizer::kRowWiseAdagrad, Optimizer::kOther};
    Model model;
    model.optimizer = kOptimizers[pick(5)];
    model.dense_parameter_bytes = pick(100'000);
    const int num_modules = 1 + pick(3);
    int next = 0;
    for (int m = 0; m < num_modules; ++m) {
      Module module;
      module.path = "m" + std::to_string(m);
      module.kind = kKinds[pick(9)];
      module.is_weighted = pick(3) == 0;
      const std::int64_t width = 4 * (1 + pick(64));
      const bool has_one_width = module.kind == ModuleKind::kEmbeddingCollection ||
                                 module.kind == ModuleKind::kManagedCollisionEmbeddingCollection;
      const int num_tables = 1 + pick(5);
      for (int t = 0; t < num_tables; ++t) {
        Table table;
        table.name = "t" + std::to_string(next++);
        table.num_embeddings = 1 + static_cast<std::int64_t>(std::pow(10.0, 0.1 * pick(70)));
        table.embedding_dim = has_one_width ? width : 4 * (1 + pick(128));
        table.pooling = pick(4) == 0 ? Pooling::kMean : Pooling::kSum;
        ParameterConstraints& c = model.constraints[table.name];
        const int num_features = 1 + pick(3);
        for (int f = 0; f < num_features; ++f) c.pooling_factors.push_back(0.25 * (1 + pick(200)));
        if (pick(3) == 0) {
          for (int f = 0; f < num_features; ++f) c.batch_sizes.push_back(1 + pick(1000));
        }
        if (pick(3) == 0) c.min_partition = 4 * (1 + pick(32));
        if (pick(4) == 0) {
          c.cache_params.emplace();
          c.cache_params->load_factor = 0.05 * (1 + pick(19));
          if (pick(2) == 0) {
            c.cache_params->stats.emplace();
            c.cache_params->stats->expected_lookups = pick(100'000);
            c.cache_params->stats->constant_miss_rate = 0.1 * pick(10);
            c.cache_params->stats->cacheability = 0.1 * pick(10);
          }
        }
        module.tables.push_back(table);
      }
      model.modules.push_back(module);
    }
    return model;
  }

  std::mt19937_64 random_;
};

TEST(PlannerPlans, BreakNoRuleOfTheJudge) {
  static const std::string kProposers[] = {"default",
                                           "grid_search",
                                           "greedy_depth",
                                           "greedy_sum",
                                           "uniform",
                                           "dynamic_programming",
                                           "easyrec_dynamic_programming_v1",
                                           "easyrec_dynamic_programming_v2",
                                           "easyrec_dynamic_programming_v3",
                                           "easyrec",
                                           "embedding_offload_scaleup"};
  static const std::string kPartitioners[] = {"greedy_perf", "greedy_perf_by_perf",
                                              "memory_balanced"};
  int num_plans = 0;
  int num_without = 0;
  for (std::uint64_t seed = 0; seed < 500; ++seed) {
    SCOPED_TRACE(seed);
    RandomProblem random(seed);
    const PlanningProblem problem = random.make();
    ReferenceOptions options;
    options.proposers = kProposers[random.pick(11)];
    options.partitioner = kPartitioners[random.pick(3)];
    options.balance_modules = random.pick(2) == 0;
    SCOPED_TRACE(options.proposers + " " + options.partitioner + " " + problem.cost_model.name);
    SearchOptions limits;
    limits.effort = 300;
    const auto result = plan_like_torchrec(problem, options, limits, {});
    // No option left for a table, an empty memory tier to bin: bad input for these proposers, not a
    // plan.
    if (!result || !result->outcome.plan) {
      ++num_without;
      continue;
    }
    ++num_plans;
    CheckOptions check;
    check.batch_size = problem.batch_size;
    check.reservation = problem.reservation;
    check.stated_rating = result->rating;
    const auto report = check_sharding(problem.model, *result->outcome.plan, problem.topology,
                                       problem.cost_model, problem.mode, check);
    ASSERT_TRUE(report) << format_error(report.error());
    for (const Finding& violation : report->violations()) {
      ADD_FAILURE() << to_string(violation.code) << ": " << violation.message;
    }
    const auto& gap = result->outcome.certificate.gap();
    if (gap) {
      EXPECT_GE(*gap, 0);
    }
    const std::vector<topology::Storage> used =
        rank_storage(result->enumeration.options, result->best);
    EXPECT_EQ(used, report->used);
  }
  EXPECT_GT(num_plans, 200);
  EXPECT_GT(num_without, 5);
}

}  // namespace
}  // namespace plimsoll::check
