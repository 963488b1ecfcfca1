// The bridge and the search over it, against every plan of tiny option sets: what is found is
// allowed and, mostly, the best; what is proved is true, and the bound's prices hold.

#include "plimsoll/embedding/placement_bridge.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <limits>
#include <set>

#include "balance/verify/verify_bound.h"
#include "embedding/every_plan.h"
#include "plimsoll/embedding/balanced_search.h"
#include "plimsoll/embedding/perf_model.h"

namespace plimsoll::embedding {
namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();

struct Shape {
  int num_tables = 3;
  int world_size = 4;
  int local_world_size = 2;
  int group_size = 2;
  int num_modules = 1;
  bool has_unequal_caps = false;
  bool has_unequal_speeds = false;
  bool has_host_columns = false;  // of most tables in the place of columns anywhere
  int ddr_range = 20;             // of unequal caps
};

struct Instance {
  OptionSet options;
  topology::Topology room;
  BridgeInput input() const { return {&options, &room, nullptr, nullptr, {}}; }
};

std::int64_t shards_per_block(ShardingType type, const Shape& shape) {
  switch (type) {
    case ShardingType::kRowWise:
    case ShardingType::kDataParallel:
      return shape.world_size;
    case ShardingType::kTableRowWise:
    case ShardingType::kGridShard:
      return shape.group_size;
    default:
      return 1;
  }
}

Instance random_instance(std::uint64_t seed, const Shape& shape) {
  Random random(seed);
  Instance instance;
  OptionSet& set = instance.options;
  set.world_size = shape.world_size;
  set.local_world_size = shape.local_world_size;
  set.group_size = shape.group_size;
  const ShardingType types[] = {ShardingType::kTableWise,    ShardingType::kColumnWise,
                                ShardingType::kRowWise,      ShardingType::kTableRowWise,
                                ShardingType::kDataParallel, ShardingType::kGridShard};
  for (int t = 0; t < shape.num_tables; ++t) {
    TableOptions table;
    table.name = "t" + std::to_string(t);
    table.module_path = "m" + std::to_string(t % shape.num_modules);
    table.fqn = table.module_path + "." + table.name;
    table.first_option = static_cast<std::int32_t>(set.options.size());
    table.shape = {64, 64, 4, 16384};
    for (ShardingType type : types) {
      if (type != ShardingType::kTableWise && random.below(5) < 2) continue;
      if (shape.has_host_columns) {
        if (type == ShardingType::kTableWise) type = ShardingType::kTableColumnWise;
        if (type == ShardingType::kColumnWise && t > 0) continue;
      }
      Option option;
      option.table = t;
      option.sharding_type = type;
      option.partition_by = partition_by(type);
      option.first_run = static_cast<std::int64_t>(set.runs.size());
      option.num_runs = 1;
      option.column_blocks = type == ShardingType::kTableColumnWise ? 1 + t
                             : type == ShardingType::kColumnWise || type == ShardingType::kGridShard
                                 ? 2
                                 : 1;
      const std::int64_t height = shards_per_block(type, shape);
      ShardRun run;
      run.count = height;
      run.rows = type == ShardingType::kDataParallel ? 64 : 64 / height;
      run.columns = 64 / option.column_blocks;
      run.row_stride = type == ShardingType::kDataParallel ? 0 : run.rows;
      run.perf.fwd_compute =
          static_cast<double>(1 + random.below(40)) / static_cast<double>(height);
      run.perf.fwd_comms = static_cast<double>(random.below(20));
      run.storage = {1 + random.below(40) / height, random.below(12), 0};
      set.runs.push_back(run);
      set.options.push_back(option);
      ++table.num_options;
    }
    set.tables.push_back(std::move(table));
  }
  instance.room.world_size = shape.world_size;
  instance.room.local_world_size = shape.local_world_size;
  for (int r = 0; r < shape.world_size; ++r) {
    const Bytes hbm = shape.has_unequal_caps ? 10 + random.below(50) : 45;
    const Bytes ddr = shape.has_unequal_caps ? 5 + random.below(shape.ddr_range) : 16;
    instance.room.devices.push_back({hbm, ddr, 0});
    const double speeds[] = {.5, 1, 1, 2.5};
    if (shape.has_unequal_speeds) set.rank_speeds.push_back(speeds[random.below(4)]);
  }
  return instance;
}

// Ranks that a table stands on.
std::set<int> ranks_of(const OptionSet& set, const PlacedProposal& plan, std::size_t t) {
  std::set<int> ranks;
  for_each_shard(set, plan, t, [&](const ShardView& shard) { ranks.insert(shard.rank); });
  return ranks;
}

std::size_t table_of(const OptionSet& set, const std::string& fqn) {
  std::size_t t = 0;
  while (set.tables[t].fqn != fqn) ++t;
  return t;
}

bool is_allowed(const Instance& instance, const BridgeOptions& settings,
                const PlacedProposal& plan) {
  const OptionSet& set = instance.options;
  const std::vector<Storage> used = rank_storage(set, plan);
  Bytes pool_used = 0, pool_cap = 0;
  for (std::size_t r = 0; r < used.size(); ++r) {
    const Storage& cap = instance.room.devices[r];
    if (used[r].hbm > std::min(cap.hbm, settings.max_hbm.value_or(cap.hbm))) return false;
    if (!settings.pools_ddr && used[r].ddr > cap.ddr) return false;
    pool_used += used[r].ddr;
    pool_cap += cap.ddr;
    if ((r + 1) % static_cast<std::size_t>(set.local_world_size) != 0) continue;
    if (settings.pools_ddr && pool_used > pool_cap) return false;
    pool_used = pool_cap = 0;
  }
  for (const auto& [fqn, allowed] : settings.allowed_ranks) {
    for (const int rank : ranks_of(set, plan, table_of(set, fqn))) {
      if (std::find(allowed.begin(), allowed.end(), rank) == allowed.end()) return false;
    }
  }
  for (const auto& [fqn, forbidden] : settings.forbidden_ranks) {
    for (const int rank : ranks_of(set, plan, table_of(set, fqn))) {
      if (std::find(forbidden.begin(), forbidden.end(), rank) != forbidden.end()) return false;
    }
  }
  for (const auto& fqns : settings.together) {
    const std::set<int> first = ranks_of(set, plan, table_of(set, fqns.front()));
    const auto width = static_cast<std::size_t>(set.group_size);
    for (const std::string& fqn : fqns) {
      const std::size_t t = table_of(set, fqn);
      const Option& option = set.options[static_cast<std::size_t>(plan.options[t])];
      const bool is_host = option.sharding_type == ShardingType::kTableRowWise ||
                           option.sharding_type == ShardingType::kGridShard;
      if (ranks_of(set, plan, t) != first || (option.column_blocks > 1 && !is_host)) return false;
      const bool is_one_host = first.size() == width && width < used.size();
      if (is_one_host ? !is_host : is_host && width < used.size()) return false;
    }
  }
  for (const auto& fqns : settings.apart) {
    std::set<int> seen;
    for (const std::string& fqn : fqns) {
      for (const int rank : ranks_of(set, plan, table_of(set, fqn))) {
        if (!seen.insert(rank).second) return false;
      }
    }
  }
  return !settings.rating_cap ||
         rate(PerfModelKind::kPerf, set, plan) <= *settings.rating_cap * (1 + 1e-12);
}

// The first table, alone, under one sharding type.
Instance with_type(ShardingType type, bool is_pooled, const std::string& dependency) {
  Instance instance = random_instance(1, {.num_tables = 1});
  TableOptions& table = instance.options.tables[0];
  table.is_pooled = is_pooled;
  table.dependency = dependency;
  table.num_options = 1;
  Option& option = instance.options.options[0];
  option.sharding_type = type;
  option.partition_by = partition_by(type);
  return instance;
}

TEST(PlacementBridge, LeavesOutSequencesCutOverAHost) {
  const Model model;
  const auto warns = [&](ShardingType type, bool is_pooled, const std::string& dependency) {
    Instance instance = with_type(type, is_pooled, dependency);
    BridgeInput input = instance.input();
    input.model = &model;
    const auto bridge = make_placement_bridge(input, {});
    EXPECT_TRUE(bridge) << (bridge ? "" : format_error(bridge.error()));
    return bridge && !bridge->warnings.empty() && bridge->warnings[0].code == "hazard_unavoidable";
  };
  EXPECT_TRUE(warns(ShardingType::kTableColumnWise, false, ""));
  EXPECT_FALSE(warns(ShardingType::kTableWise, false, ""));
  EXPECT_FALSE(warns(ShardingType::kTableColumnWise, true, ""));
  EXPECT_FALSE(warns(ShardingType::kTableColumnWise, false, "a tower"));
}

struct Tally {
  int num_plans = 0;  // problems with a plan
  int num_best = 0;   // of them those whose best was found
};

// Searches every seed under the settings that `set_up` makes of an instance, for all objectives.
Tally compare(const Shape& shape,
              const std::function<void(const Instance&, BridgeOptions&)>& set_up) {
  Tally tally;
  for (std::uint64_t seed = 0; seed < 12; ++seed) {
    const Instance instance = random_instance(seed, shape);
    auto options = BalancedOptions::minimizing(BalanceObjective::kRating);
    BridgeOptions& settings = options.bridge;
    settings.step_model.ms_per_sharding_type = 3;
    settings.step_model.ms_per_table = seed % 2 == 0 ? 0 : 2;
    settings.keeps_hazards = true;
    set_up(instance, settings);
    double least[3] = {kInfinity, kInfinity, kInfinity};
    for_each_plan(instance.options, HostColumns::kOnOneHost, [&](const PlacedProposal& plan) {
      if (!is_allowed(instance, settings, plan)) return;
      const PlanTimes times = plan_times(instance.input(), settings.step_model, plan);
      const double values[] = {times.rating, times.step, times.time};
      for (int i = 0; i < 3; ++i) least[i] = std::min(least[i], values[i]);
    });
    const BalanceObjective objectives[] = {BalanceObjective::kRating, BalanceObjective::kStep,
                                           BalanceObjective::kTime};
    for (int i = 0; i < 3; ++i) {
      SCOPED_TRACE(std::to_string(seed) + " " + std::string(to_string(objectives[i])));
      settings.objective = objectives[i];
      SearchOptions search;
      search.effort = 20000;
      const auto found = balance_options(instance.input(), options, {}, search, {});
      EXPECT_TRUE(found) << (found ? "" : format_error(found.error()));
      if (!found) return tally;
      const auto& outcome = found->outcome;
      const auto bridge = make_bounded_bridge(instance.input(), settings);
      EXPECT_TRUE(bridge);
      EXPECT_TRUE(found->bound);
      EXPECT_TRUE(balance::verify_bound(bridge->problem, *found->bound).holds);
      EXPECT_LE(found->bound->value * (1 - 1e-9), least[i]);
      if (least[i] == kInfinity) {
        EXPECT_FALSE(outcome.plan);
        continue;
      }
      ++tally.num_plans;
      EXPECT_NE(outcome.status, SolveStatus::kInfeasible);
      EXPECT_LE(outcome.certificate.lower_bound.value_or(0), least[i] * (1 + 1e-12));
      if (!outcome.plan) continue;
      EXPECT_TRUE(is_allowed(instance, settings, *outcome.plan));
      const double objective = outcome.certificate.objective;
      EXPECT_GE(objective, least[i] * (1 - 1e-9));
      const bool is_best = objective <= least[i] * (1 + 1e-6);
      tally.num_best += is_best ? 1 : 0;
      if (outcome.status == SolveStatus::kOptimal) {
        EXPECT_TRUE(is_best);
      }
    }
  }
  EXPECT_GE(4 * tally.num_best, 3 * tally.num_plans) << tally.num_best << " of " << tally.num_plans;
  return tally;
}

TEST(PlacementBridge, FindsTheBestOfAllPlans) {
  EXPECT_GT(compare({}, [](const Instance&, BridgeOptions&) {}).num_plans, 20);
}

TEST(PlacementBridge, TakesRanksWithUnequalRoom) {
  Shape shape;
  shape.has_unequal_caps = true;
  EXPECT_GT(compare(shape, [](const Instance&, BridgeOptions&) {}).num_plans, 10);
}

TEST(PlacementBridge, TakesRanksOfUnequalSpeed) {
  Shape shape;
  shape.has_unequal_speeds = true;
  EXPECT_GT(compare(shape, [](const Instance&, BridgeOptions&) {}).num_plans, 20);
  shape.has_unequal_caps = true;
  EXPECT_GT(compare(shape, [](const Instance&, BridgeOptions&) {}).num_plans, 10);
}

TEST(PlacementBridge, PutsColumnsOnAnyRanksOfAHost) {
  Shape shape;
  shape.has_host_columns = true;
  EXPECT_GT(compare(shape, [](const Instance&, BridgeOptions&) {}).num_plans, 20);
  shape.local_world_size = shape.group_size = 4;  // one host
  EXPECT_GT(compare(shape, [](const Instance&, BridgeOptions&) {}).num_plans, 20);
}

TEST(PlacementBridge, RefusesRanksThatAreNotThere) {
  const Instance instance = random_instance(1, {});
  BridgeOptions settings;
  settings.forbidden_ranks["m0.t0"] = {1, 4};
  const auto bridge = make_placement_bridge(instance.input(), settings);
  ASSERT_FALSE(bridge);
  EXPECT_EQ(bridge.error().code, ErrorCode::kValue);
  EXPECT_THAT(bridge.error().message, testing::HasSubstr("rank 4"));
}

TEST(PlacementBridge, LoadsAShardByTheSpeedOfItsRank) {
  Instance instance = random_instance(1, {});
  instance.options.rank_speeds = {2, 1, 2, 1};
  const auto bridge = make_placement_bridge(instance.input(), {});
  ASSERT_TRUE(bridge);
  EXPECT_EQ(bridge->problem.num_rank_classes, 2);
  EXPECT_THAT(bridge->problem.rank_class, testing::ElementsAre(0, 1, 0, 1));
  const auto& choices = bridge->problem.units[0].choices;
  const Option& option =
      instance.options.options[static_cast<std::size_t>(bridge->options[0][0][0])];
  const Perf& perf = instance.options.shards(option).runs.front().perf;
  EXPECT_THAT(choices[0].runs.front().load,
              testing::ElementsAre(perf.fwd_compute / 2 + perf.fwd_comms, perf.total()));
  BridgeOptions capped;
  capped.rating_cap = 100;
  const auto with_cap = make_placement_bridge(instance.input(), capped);
  ASSERT_TRUE(with_cap);
  // A cap for each class, which binds its own ranks alone.
  EXPECT_EQ(with_cap->problem.num_resources(), 5);
  const auto& capped_run = with_cap->problem.units[0].choices[0].runs.front();
  const auto cap = [&](int rank, std::size_t resource) {
    return static_cast<double>(with_cap->problem.caps[static_cast<std::size_t>(rank)][resource]);
  };
  const std::array totals{perf.fwd_compute / 2 + perf.fwd_comms, perf.total()};
  for (std::size_t c = 0; c < totals.size(); ++c) {
    const double share =
        static_cast<double>(capped_run.bytes[3 + c]) / cap(static_cast<int>(c), 3 + c);
    EXPECT_NEAR(share, totals[c] / 100, 1e-9);
    EXPECT_GT(cap(1 - static_cast<int>(c), 3 + c), 1.5 * cap(static_cast<int>(c), 3 + c));
  }
}

TEST(PlacementBridge, PoolsTheDdrOfAHost) {
  Shape shape;
  shape.has_unequal_caps = true;
  shape.ddr_range = 3;  // too little for some plans, unless a neighbour lends
  const Tally apart = compare(shape, [](const Instance&, BridgeOptions&) {});
  const Tally pooled =
      compare(shape, [](const Instance&, BridgeOptions& s) { s.pools_ddr = true; });
  EXPECT_GT(pooled.num_plans, apart.num_plans);
}

TEST(PlacementBridge, TakesFastDomainsWiderThanAHost) {
  Shape shape;
  shape.world_size = 8;
  shape.group_size = 4;
  shape.num_tables = 2;
  EXPECT_GT(compare(shape, [](const Instance&, BridgeOptions&) {}).num_plans, 10);
  const Instance instance = random_instance(1, shape);
  BridgeOptions settings;
  settings.pools_ddr = true;
  EXPECT_EQ(make_placement_bridge(instance.input(), settings).error().code, ErrorCode::kConflict);
}

TEST(PlacementBridge, ChargesMoreThanEightCauses) {
  Shape shape;
  shape.num_modules = 3;
  shape.local_world_size = shape.group_size = 2;
  int most = 0;
  compare(shape, [&](const Instance& instance, BridgeOptions& settings) {
    settings.objective = BalanceObjective::kTime;
    const auto bridge = make_placement_bridge(instance.input(), settings);
    most = std::max(most, static_cast<int>(bridge->problem.charges.size()));
  });
  EXPECT_GT(most, 8);
}

TEST(PlacementBridge, KeepsTheRatingBelowItsCap) {
  int num_capped = 0;
  compare({}, [&](const Instance& instance, BridgeOptions& settings) {
    double least = kInfinity, best = kInfinity, rating = kInfinity;
    for_each_plan(instance.options, HostColumns::kOnOneHost, [&](const PlacedProposal& plan) {
      if (!is_allowed(instance, {}, plan)) return;
      const PlanTimes times = plan_times(instance.input(), settings.step_model, plan);
      least = std::min(least, times.rating);
      if (times.time < best) best = times.time, rating = times.rating;
    });
    if (least == kInfinity) return;
    settings.rating_cap = least;  // met exactly
    num_capped += rating > least ? 1 : 0;
  });
  EXPECT_GE(num_capped, 3);
}

TEST(PlacementBridge, KeepsTheRatingOfEveryRankWhereDdrIsPooled) {
  Instance instance = random_instance(1, {});
  for (ShardRun& run : instance.options.runs) run.storage = {0, 0, 1};
  for (Storage& device : instance.room.devices) device.ssd = 100;
  BridgeOptions settings;
  settings.pools_ddr = true;
  settings.rating_cap = 1e-3;
  const auto bridge = make_placement_bridge(instance.input(), settings);
  ASSERT_TRUE(bridge);
  const std::vector<balance::Resource>& resources = bridge->problem.resources;
  EXPECT_TRUE(resources[1].is_pooled);
  EXPECT_TRUE(resources.back().is_time);
  EXPECT_FALSE(resources.back().is_pooled);
}

TEST(PlacementBridge, CapsTheRatingWhereEveryTierIsNeeded) {
  Instance instance = random_instance(1, {});
  for (ShardRun& run : instance.options.runs) run.storage.ssd = 1;
  for (Storage& device : instance.room.devices) device.ssd = 100;
  BridgeOptions settings;
  settings.rating_cap = 1e-3;
  const auto bridge = make_placement_bridge(instance.input(), settings);
  ASSERT_TRUE(bridge);
  EXPECT_EQ(bridge->problem.resources.back().name, "rating");
  for (const balance::Amounts& caps : bridge->problem.caps) EXPECT_GT(caps[3], 0);
  EXPECT_TRUE(bridge->warnings.empty());
}

TEST(PlacementBridge, AllowsRanks) {
  const Tally tally = compare({}, [](const Instance&, BridgeOptions& settings) {
    settings.allowed_ranks = {{"m0.t0", {1}}, {"m0.t1", {2, 3}}};
  });
  EXPECT_GT(tally.num_plans, 10);
}

TEST(PlacementBridge, ForbidsRanks) {
  const Tally tally = compare({}, [](const Instance&, BridgeOptions& settings) {
    settings.forbidden_ranks = {{"m0.t0", {0, 1, 2}}, {"m0.t1", {3}}};
  });
  EXPECT_GT(tally.num_plans, 10);
}

TEST(PlacementBridge, HoldsTablesTogether) {
  const Tally tally = compare({}, [](const Instance&, BridgeOptions& settings) {
    settings.together = {{"m0.t0", "m0.t2"}};
  });
  EXPECT_GT(tally.num_plans, 10);
}

TEST(PlacementBridge, KeepsTablesApart) {
  const Tally tally = compare({}, [](const Instance&, BridgeOptions& settings) {
    settings.apart = {{"m0.t0", "m0.t1", "m0.t2"}};
  });
  EXPECT_GT(tally.num_plans, 10);
}

TEST(PlacementBridge, LimitsTheBytesOfEveryRank) {
  const Tally tally =
      compare({}, [](const Instance&, BridgeOptions& settings) { settings.max_hbm = 30; });
  EXPECT_GT(tally.num_plans, 10);
}

TEST(PlacementBridge, RefusesRulesThatContradict) {
  const Instance instance = random_instance(1, {});
  const auto code_of = [&](const BridgeOptions& settings) {
    const auto bridge = make_placement_bridge(instance.input(), settings);
    return bridge ? ErrorCode::kInternal : bridge.error().code;
  };
  BridgeOptions settings;
  settings.allowed_ranks = {{"m0.t0", {1}}};
  settings.forbidden_ranks = {{"m0.t0", {0, 1}}};
  EXPECT_EQ(code_of(settings), ErrorCode::kConflict);
  settings = {};
  settings.together = {{"m0.t0", "m0.t1"}};
  settings.apart = {{"m0.t1", "m0.t0"}};
  EXPECT_EQ(code_of(settings), ErrorCode::kConflict);
  settings = {};
  settings.together = {{"m0.t0", "m0.t9"}};
  EXPECT_EQ(code_of(settings), ErrorCode::kNotFound);
  settings = {};
  settings.step_model.floor_ms = -1;
  EXPECT_EQ(code_of(settings), ErrorCode::kValue);
}

}  // namespace
}  // namespace plimsoll::embedding
