#include "plimsoll/embedding/stats.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <limits>
#include <random>

#include "core/python_text.h"
#include "embedding/report_records.h"

namespace plimsoll::embedding {
namespace {

using testing::Contains;
using testing::HasSubstr;
using testing::Not;

// A line without its closing '#' and the blanks before it.
std::string stripped(std::string line) {
  if (!line.empty() && line.back() == '#') line.pop_back();
  return line.substr(0, line.find_last_not_of(' ') + 1);
}

// Code points.
std::int64_t length(const std::string& text) {
  return std::count_if(text.begin(), text.end(), [](char c) { return (c & '\xC0') != '\x80'; });
}

// The lines of a record. Those with a `width` were stored stripped; one title is a blank too wide.
std::vector<std::string> expected_lines(const Json& record) {
  std::vector<std::string> lines = list_of<std::string>(record, "lines");
  const auto width = given<std::int64_t>(record, "width");
  if (!width) return lines;
  for (std::string& line : lines) {
    const bool is_too_wide = line == "# Estimated Sharding Distribution";
    const std::int64_t inside = *width - 1 + (is_too_wide ? 1 : 0);
    const std::int64_t missing = std::max<std::int64_t>(0, inside - length(line));
    line += std::string(static_cast<std::size_t>(missing), ' ') + "#";
  }
  return lines;
}

// Several of these tests read the report of this plan: two tables of 1,000 x 8 on two of
// `num_ranks` ranks of 1 GiB, cuda, by torchrec-1.9 unless a test says otherwise.
struct Example {
  PlanningProblem problem;
  PlanningResult result;

  explicit Example(int num_ranks = 2) {
    TopologySpec spec = cluster(num_ranks, num_ranks);
    spec.hbm_cap = kGiB;
    problem.topology = build(spec, problem.cost_model);
    problem.model.modules.resize(1);
    problem.model.modules[0].path = "m";
    OptionSet& space = result.enumeration.options;
    space.world_size = num_ranks;
    space.local_world_size = num_ranks;
    result.reservation = Reservation{};
    result.reservation->percentage = 0.25;
    result.num_proposals = 2;
    result.num_plans = 1;
    result.best.first_rank = {0};
    for (int t = 0; t < 2; ++t) {
      add_table("t" + std::to_string(t), ShardingType::kTableWise, 1, {t});
    }
  }

  // One shard of 1,000 x 8 on each of `ranks`, of 1 MiB HBM and 1 ms of forward compute.
  void add_table(const std::string& name, ShardingType type, std::int32_t column_blocks,
                 const std::vector<std::int32_t>& ranks) {
    Enumeration& enumeration = result.enumeration;
    OptionSet& space = enumeration.options;
    TableOptions table;
    table.name = name;
    table.module_path = "m";
    table.fqn = "m." + name;
    table.module = 0;
    table.table = static_cast<std::int32_t>(problem.model.modules[0].tables.size());
    problem.model.modules[0].tables.push_back({});
    problem.model.modules[0].tables.back().name = name;
    Option option;
    option.table = static_cast<std::int32_t>(space.tables.size());
    option.sharding_type = type;
    option.partition_by = partition_by(type);
    option.first_run = static_cast<std::int64_t>(space.runs.size());
    option.num_runs = 1;
    option.column_blocks = column_blocks;
    ShardRun run;
    run.count = static_cast<std::int64_t>(ranks.size()) / column_blocks;
    run.rows = 1000;
    run.columns = 8;
    run.storage.hbm = kMiB;
    run.perf.fwd_compute = 1;
    space.runs.push_back(run);
    enumeration.profiles.push_back(table_of(1000, 8 * column_blocks));
    table.shape = enumeration.profiles.back().shape;
    result.best.options.push_back(static_cast<std::int32_t>(space.options.size()));
    if (option.partition_by != PartitionBy::kUniform) {
      result.best.ranks.insert(result.best.ranks.end(), ranks.begin(), ranks.end());
    }
    result.best.first_rank.push_back(static_cast<std::int64_t>(result.best.ranks.size()));
    space.tables.push_back(table);
    space.options.push_back(option);
  }

  ShardRun& run(std::size_t table) { return result.enumeration.options.runs[table]; }

  // The report's lines, stripped.
  std::vector<std::string> lines(const StatsOptions& options = {}) const {
    std::vector<std::string> all;
    for (const std::string& line : make_stats_report(problem, result, options).lines) {
      all.push_back(stripped(line));
    }
    return all;
  }
};

// Line for line what torchrec 1.4.0, 1.8.0 and 1.9.2 log for the same input.
TEST(StatsReport, EqualsThePackages) {
  int num_compared = 0;
  for (const Json& record : report_records()) {
    SCOPED_TRACE(record.at("release").get<std::string>() + " " + record.at("input").dump());
    const PlanningProblem problem = problem_of(record);
    const auto result = plan_like_torchrec(problem, {}, {}, {});
    ASSERT_TRUE(result.has_value()) << format_error(result.error());
    ASSERT_EQ(result->num_proposals, record.at("num_proposals").get<std::int64_t>());
    ASSERT_EQ(result->num_plans, record.at("num_plans").get<std::int64_t>());
    ++num_compared;

    StatsOptions options;
    options.debug = given<bool>(record.at("input"), "debug").value_or(true);
    const StatsReport report = make_stats_report(problem, *result, options);
    const std::vector<std::string> expected = expected_lines(record);
    ASSERT_EQ(report.lines.size(), expected.size());
    for (std::size_t i = 0; i < expected.size(); ++i) {
      EXPECT_EQ(report.lines[i], expected[i]) << "line " << i;
    }
    EXPECT_EQ(report.width, length(expected.front()));
  }
  EXPECT_GE(num_compared, 37);
}

TEST(StatsReport, PrintsThePlanningTimeInHundredths) {
  StatsOptions options;
  options.seconds = 12.345;  // slightly more than that in binary
  EXPECT_THAT(Example().lines(options),
              Contains(HasSubstr("found 1 possible plan(s), ran for 12.35s ---")));
}

TEST(StatsReport, NeverGetsNarrowerThanTheCallerSays) {
  const Example example;
  const StatsReport report = make_stats_report(example.problem, example.result);
  StatsOptions options;
  options.min_width = report.width + 7;
  const StatsReport again = make_stats_report(example.problem, example.result, options);
  EXPECT_EQ(again.width, report.width + 7);
  EXPECT_EQ(again.lines.front(), std::string(static_cast<std::size_t>(again.width), '#'));
  options.min_width = 1;
  EXPECT_EQ(make_stats_report(example.problem, example.result, options).width, report.width);
}

TEST(EmbeddingStats, PrintTheReportAndRememberItsWidth) {
  const Example example;
  std::vector<std::string> printed;
  const auto stats =
      make_embedding_stats([&](std::string_view line) { printed.emplace_back(line); });
  stats->log(example.problem, example.result, 12.345);
  StatsOptions options;
  options.seconds = 12.345;
  const StatsReport first = make_stats_report(example.problem, example.result, options);
  EXPECT_EQ(printed, first.lines);

  Example wide;
  wide.result.enumeration.options.tables[0].fqn = std::string(300, 'x');
  printed.clear();
  stats->log(wide.problem, wide.result, 0);
  const StatsReport second = make_stats_report(wide.problem, wide.result, {});
  ASSERT_GT(second.width, first.width);
  EXPECT_EQ(printed, second.lines);
  printed.clear();
  stats->log(example.problem, example.result, 0);
  EXPECT_EQ(printed.front(), second.lines.front());  // no narrower than the one before
  printed.clear();
  make_embedding_stats([&](std::string_view line) { printed.emplace_back(line); }, false)
      ->log(example.problem, example.result, 12.345);
  options.debug = false;
  EXPECT_EQ(printed, make_stats_report(example.problem, example.result, options).lines);
}

TEST(StatsReport, SaysLessWithoutDebug) {
  StatsOptions options;
  options.debug = false;
  const std::vector<std::string> lines = Example().lines(options);
  EXPECT_THAT(lines, Contains(HasSubstr("Compute Kernels Count:")));
  EXPECT_THAT(lines, Not(Contains(HasSubstr("Parameter Info:"))));
  EXPECT_THAT(lines, Not(Contains(HasSubstr("Reserved Memory:"))));
  EXPECT_THAT(lines, Not(Contains(HasSubstr("Imbalance"))));
}

TEST(StatsReport, IsEmptyWhereNothingWasSearched) {
  Example example;
  example.result.reservation.reset();
  EXPECT_TRUE(example.lines().empty());
  example = Example();
  example.result.enumeration.options.tables.clear();
  EXPECT_TRUE(example.lines().empty());
  example = Example();
  example.result.best = {};
  EXPECT_TRUE(example.lines().empty());
}

// A plan that a check took back has been rated; a search that found none has not.
TEST(StatsReport, ShowsAPlanThatACheckRefusedLater) {
  Example example;
  ASSERT_FALSE(example.result.outcome.plan);
  EXPECT_THAT(example.lines(), Contains(HasSubstr("Perf: Total perf")));
  example.result.rating = std::numeric_limits<double>::quiet_NaN();
  example.result.best.ranks = {-1, -1};
  const std::vector<std::string> lines = example.lines();
  EXPECT_THAT(lines, Not(Contains(HasSubstr("Perf: Total perf"))));
  EXPECT_THAT(lines, Contains("# World Size: 2"));
}

// Its table of ranks is not printed, and still rules the width.
TEST(StatsReport, CountsAFailedSearchOnTheLastRank) {
  const auto width = [](std::size_t full_rank, double pooling_factor) {
    Example example(4);
    example.result.rating = std::numeric_limits<double>::quiet_NaN();
    example.result.best.ranks = {-1, -1};
    example.problem.topology.devices[full_rank].hbm = 1;  // used at more than 100,000,000 %
    example.result.enumeration.profiles[0].pooling_factors = {pooling_factor};
    StatsOptions options;
    options.debug = false;
    return make_stats_report(example.problem, example.result, options).width;
  };
  EXPECT_GT(width(3, 1), width(0, 1));
  // Inputs are those of a plan only.
  EXPECT_EQ(width(0, 1e14), width(0, 1));
}

TEST(StatsReport, RatesNoHbmOnACpu) {
  Example example;
  example.problem.topology.compute_device = ComputeDevice::kCpu;
  example.run(0).storage.hbm = kGiB / 2;
  EXPECT_THAT(example.lines(), Contains(HasSubstr("   0.5 (0%)   ")));
  example.problem.topology.compute_device = ComputeDevice::kMtia;
  EXPECT_THAT(example.lines(), Contains(HasSubstr("   0.5 (67%)   ")));
}

TEST(StatsReport, PrintsRunsOfBatchSizes) {
  Example example;
  ParameterConstraints& constraints = example.problem.model.constraints["t0"];
  const auto cell = [&](std::vector<std::int64_t> sizes) {
    constraints.batch_sizes = std::move(sizes);
    for (const std::string& line : example.lines()) {
      if (line.find(" m.t0 ") != std::string::npos) {
        return line.substr(line.find_last_of(' ', line.find_last_of(',')) + 1);
      }
    }
    return std::string();
  };
  EXPECT_EQ(cell({512, 256}), "512, 256");
  EXPECT_EQ(cell({7, 512, 256, 256}), "512, 256*2");
  constraints.batch_sizes = {512, 512, 512, 256};
  EXPECT_THAT(example.lines(), Contains(HasSubstr("   512 * 3, 256")));
  EXPECT_THAT(example.lines(), Contains(testing::EndsWith("   n/a")));
}

TEST(StatsReport, PrintsWrittenAndComputedZeroesDifferently) {
  // Nothing is on rank 0, so that its sums are integers.
  Example example;
  example.result.best.ranks = {1, 1};
  EXPECT_THAT(example.lines(), Contains("# Maximum of Forward Comms: 0 ms on ranks 0-1"));
  example.result.best.ranks = {0, 1};
  EXPECT_THAT(example.lines(), Contains("# Maximum of Forward Comms: 0.0 ms on ranks 0-1"));
  EXPECT_THAT(example.lines(), Contains("# Maximum of Backward Compute: 0.0 ms on ranks 0-1"));
  // Before 1.7 inference writes no backward pass for a table-wise shard; afterwards it computes 0.
  example.problem.mode.inference = true;
  EXPECT_THAT(example.lines(), Contains("# Maximum of Backward Compute: 0.0 ms on ranks 0-1"));
  example.problem.cost_model = cost_model_named("torchrec-1.4");
  EXPECT_THAT(example.lines(), Contains("# Maximum of Backward Compute: 0 ms on ranks 0-1"));
  EXPECT_THAT(example.lines(), Contains("# Maximum of Forward Comms: 0.0 ms on ranks 0-1"));
  for (int i = 0; i < kNumShardingTypes; ++i) {
    const auto type = static_cast<ShardingType>(i);
    for (Option& option : example.result.enumeration.options.options) option.sharding_type = type;
    const bool is_computed = type == ShardingType::kTableRowWise ||
                             type == ShardingType::kGridShard ||
                             type == ShardingType::kDataParallel;
    EXPECT_THAT(example.lines(),
                Contains(is_computed ? "# Maximum of Backward Compute: 0.0 ms on ranks 0-1"
                                     : "# Maximum of Backward Compute: 0 ms on ranks 0-1"))
        << to_string(type);
  }
  // Replicas communicate nothing in their forward pass.
  for (Option& option : example.result.enumeration.options.options) {
    option.sharding_type = ShardingType::kDataParallel;
  }
  EXPECT_THAT(example.lines(), Contains("# Maximum of Forward Comms: 0 ms on ranks 0-1"));
  EXPECT_THAT(example.lines(), Contains("# Maximum of Backward Compute: 0.0 ms on ranks 0-1"));
}

// rank 0 1 2 3       positions after each tier is taken away:
// MiB  1 5 9 9       {9 9} at 2-3; then {5} at 1 of 0 1; then {1} at 0 of 0
TEST(StatsReport, NamesPositionsOfAShrinkingListInTiers) {
  Example example(4);
  for (int t = 2; t < 4; ++t) {
    example.add_table("t" + std::to_string(t), ShardingType::kTableWise, 1, {t});
  }
  const Bytes sizes[] = {1, 5, 9, 9};
  for (std::size_t t = 0; t < 4; ++t) example.run(t).storage.hbm = sizes[t] * 2 * kMiB;
  const std::vector<std::string> lines = example.lines();
  EXPECT_THAT(lines, Contains("# Top Tier #1 Estimated Peak HBM Pressure: 0.018 GB on ranks 2-3"));
  EXPECT_THAT(lines, Contains("# Top Tier #2 Estimated Peak HBM Pressure: 0.01 GB on rank 1"));
  EXPECT_THAT(lines, Contains("# Top Tier #3 Estimated Peak HBM Pressure: 0.002 GB on rank 0"));
  EXPECT_THAT(lines, Contains("# Low Median HBM: 0.01 GB on rank [1]"));
  EXPECT_THAT(lines, Contains("# High Median HBM: 0.018 GB on ranks [2, 3]"));
  EXPECT_THAT(lines, Contains("# Mean HBM: 0.012 GB on rank []"));
  EXPECT_THAT(lines, Contains("# Max HBM is 50% greater than the mean"));
}

TEST(StatsReport, CountsAMebibyteAsClose) {
  Example example;
  example.run(0).storage.hbm = 10 * kMiB;
  example.run(1).storage.hbm = 11 * kMiB;
  EXPECT_THAT(example.lines(), Contains("# Max HBM: 0.011 GB on ranks [0, 1]"));
  example.run(1).storage.hbm += 1;
  EXPECT_THAT(example.lines(), Contains("# Max HBM: 0.011 GB on rank [1]"));
}

TEST(StatsReport, CollapsesRanksOnlyWhereTheyAreOneRun) {
  const auto ranks_cell = [](std::vector<std::int32_t> ranks) {
    Example example(8);
    example.add_table("columns", ShardingType::kColumnWise, static_cast<std::int32_t>(ranks.size()),
                      ranks);
    for (const std::string& line : example.lines()) {
      if (line.find(" m.columns ") != std::string::npos) {
        return line.substr(line.find_last_of(' ') + 1);
      }
    }
    return std::string();
  };
  EXPECT_EQ(ranks_cell({3}), "3");
  EXPECT_EQ(ranks_cell({5, 3, 4}), "3-5");
  EXPECT_EQ(ranks_cell({3, 5}), "3,5");
  EXPECT_EQ(ranks_cell({3, 3, 4}), "3,3,4");
  EXPECT_EQ(ranks_cell({6, 1, 2}), "1,2,6");
}

TEST(StatsReport, BlamesTablesOnEveryFullestRank) {
  Example example(4);
  example.add_table("wide", ShardingType::kColumnWise, 2, {0, 1});
  example.add_table("rows", ShardingType::kRowWise, 1, {0, 1, 2, 3});
  // Ranks 0 and 1 are fullest: only `wide` is on both; rows lie everywhere and are never blamed.
  std::vector<std::string> lines = example.lines();
  EXPECT_THAT(lines, Contains("#    wide: 0.001 GB on ranks [0, 1]"));
  EXPECT_THAT(lines, Not(Contains(HasSubstr("t0: "))));
  EXPECT_THAT(lines, Not(Contains(HasSubstr("rows: "))));
  // Rank 1 alone: t1 and wide, larger first shards first.
  example.run(1).storage.hbm += 8 * kMiB;
  lines = example.lines();
  const auto first = std::find(lines.begin(), lines.end(), "#    t1: 0.009 GB on rank [1]");
  ASSERT_NE(first, lines.end());
  EXPECT_EQ(*(first + 1), "#    wide: 0.001 GB on ranks [0, 1]");
  EXPECT_EQ(stripped(*(first + 2)).find_first_not_of('#'), std::string::npos);
}

TEST(StatsReport, BlamesFiveTablesInPlanOrderAmongEquals) {
  Example example;
  std::vector<std::string> expected{"# Top 5 Tables Causing Max Perf:", "#    t1"};
  for (int t = 2; t < 30; ++t) {
    const std::string name = "t" + std::to_string(t);
    example.add_table(name, ShardingType::kTableWise, 1, {1});
    if (t < 6) expected.push_back("#    " + name);
  }
  expected.push_back("# Top 5 Tables Causing Max HBM:");
  const std::vector<std::string> lines = example.lines();
  const auto first = std::find(lines.begin(), lines.end(), expected.front());
  ASSERT_GE(lines.end() - first, 7);
  EXPECT_EQ(std::vector<std::string>(first, first + 7), expected);
}

TEST(StatsReport, BlamesNobodyOnASingleRank) {
  Example example;
  example.result.best.ranks = {1, 1};
  const std::vector<std::string> lines = example.lines();
  ASSERT_GE(lines.size(), 3);
  EXPECT_EQ(lines[lines.size() - 3], "# Top 5 Tables Causing Max Perf:");
  EXPECT_EQ(lines[lines.size() - 2], "# Top 5 Tables Causing Max HBM:");
}

// Two collectives, of 3 and 2 ms at their slowest; look-ups of 1 ms forward and 4 backward.
TEST(StatsReport, AddsSlowestRanksAlongTheCriticalPath) {
  Example example;
  example.add_table("t2", ShardingType::kColumnWise, 1, {0});
  example.run(0).perf = {1, 3, 0, 0, 7, 0};
  example.run(1).perf = {0.5, 1, 4, 0, 0, 0};
  example.run(2).perf = {0, 2, 0, 0, 0, 0};
  const std::vector<std::string> lines = example.lines();
  EXPECT_THAT(lines, Contains("# Critical Path (comms): 5.0"));
  EXPECT_THAT(lines, Contains("# Critical Path (compute): 5.0"));
  EXPECT_THAT(lines, Contains("# Critical Path (comms + compute): 10.0"));
  EXPECT_THAT(lines, Contains("# Maximum of Prefetch Compute: 7.0 ms on rank 0"));
  EXPECT_THAT(lines, Contains("# Sum of Maxima: 17.0 ms"));
}

TEST(StatsReport, LetsTheCostModelChooseWhatIsPrinted) {
  Example example;
  example.problem.model.constraints["t0"].compute_kernels = {ComputeKernel::kFused};
  CostModel& cost_model = example.problem.cost_model;
  std::vector<std::string> lines = example.lines();
  EXPECT_THAT(lines, Contains(HasSubstr("Storage (HBM, DDR, SSD)")));
  EXPECT_THAT(lines, Contains("#    Hardcoded: 1, Auto-selected: 1"));
  EXPECT_THAT(lines, Contains("#    Hardcoded fused: 1"));
  EXPECT_THAT(lines, Contains("# Compute Kernels Optimizer State:"));
  EXPECT_THAT(lines, Contains("#    fused: HBM: 0.002 GB, DDR: 0.0 GB, SSD: 0.0 GB"));

  cost_model.report_kernel_breakdown = false;
  lines = example.lines();
  EXPECT_THAT(lines, Not(Contains("# Compute Kernels Optimizer State:")));
  const auto title = std::find(lines.begin(), lines.end(), "# Compute Kernels Storage:");
  ASSERT_NE(title, lines.end());
  EXPECT_EQ(*(title + 1), "#    fused: HBM: 0.002 GB, DDR: 0.0 GB, SSD: 0.0 GB");

  cost_model.report_ssd = false;
  lines = example.lines();
  EXPECT_THAT(lines, Contains(HasSubstr("Storage (HBM, DDR)  ")));
  EXPECT_THAT(lines, Contains("#    fused: HBM: 0.002 GB, DDR: 0.0 GB"));

  cost_model.report_kernel_constraints = false;
  EXPECT_THAT(example.lines(), Not(Contains(HasSubstr("Hardcoded"))));

  for (TableProfile& profile : example.result.enumeration.profiles) {
    profile.module_kind = ModuleKind::kQuantEmbeddingBagCollection;
  }
  // The class of the sharder, or the class of the module with "Sharder" after it.
  EXPECT_THAT(example.lines(), Contains(HasSubstr(" EmbeddingBagCollectionSharder ")));
  cost_model.report_sharder_by_module = false;
  EXPECT_THAT(example.lines(), Contains(HasSubstr(" QuantEmbeddingBagCollectionSharder ")));

  example.result.reservation->options.kind = ReservationKind::kFixedPercentage;
  EXPECT_THAT(example.lines(), Contains("# KJT Storage (per rank):"));
  cost_model.inference_and_fixed_report_ids = false;
  EXPECT_THAT(example.lines(), Not(Contains("# KJT Storage (per rank):")));
  example.result.reservation->options.kind = ReservationKind::kHeuristical;
  EXPECT_THAT(example.lines(), Contains("# KJT Storage (per rank):"));
}

TEST(StatsReport, CountsDenseTensorsAndIdsAsUsed) {
  Example example;
  example.result.reservation->dense = Storage{kMiB * 100, 0, 0};
  example.result.reservation->kjt = Storage{kMiB * 10, kMiB * 20, 0};
  const std::vector<std::string> lines = example.lines();
  EXPECT_THAT(lines, Contains("# Sparse only Max HBM: 0.001 GB on ranks [0, 1]"));
  EXPECT_THAT(lines, Contains("# Max HBM: 0.108 GB on ranks [0, 1]"));
  EXPECT_THAT(lines, Contains(HasSubstr("0.108 (14%)    0.02 (0%)")));
  EXPECT_THAT(lines, Contains("# DDR Imbalance Statistics"));
  EXPECT_THAT(lines, Contains("#    HBM: 0.25 GB"));
  EXPECT_THAT(lines, Contains("#    HBM: 0.098 GB, DDR: 0.0 GB"));
}

TEST(Imbalance, IsOneWhereOneRankHasEverything) {
  const Imbalance metrics = imbalance({0, 7});
  EXPECT_DOUBLE_EQ(metrics.total_variation, 0.5);
  EXPECT_DOUBLE_EQ(metrics.total_distance, 1);
  EXPECT_DOUBLE_EQ(metrics.chi_divergence, 1);
  EXPECT_DOUBLE_EQ(metrics.kl_divergence, 1);
}

// Figures of executing the reference.
TEST(Imbalance, EqualsTheReferenceOnARamp) {
  const Imbalance metrics = imbalance({1, 2, 3, 4});
  EXPECT_NEAR(metrics.total_variation, 0.15, 1e-15);
  EXPECT_NEAR(metrics.total_distance, 0.4, 1e-15);
  EXPECT_NEAR(metrics.chi_divergence, 0.2 / 3, 1e-15);
  EXPECT_NEAR(metrics.kl_divergence, 0.07678032766449228, 1e-15);
}

TEST(Imbalance, IsZeroOnEqualRanksAndOnOne) {
  for (const std::vector<double>& loads : {std::vector<double>{3, 3, 3, 3}, {5}}) {
    const Imbalance metrics = imbalance(loads);
    EXPECT_EQ(metrics.total_variation, 0);
    EXPECT_EQ(metrics.total_distance, 0);
    EXPECT_EQ(metrics.chi_divergence, 0);
    EXPECT_EQ(metrics.kl_divergence, 0);
  }
}

// Expected values from Python's statistics.mean.
TEST(ExactMean, RoundsOnce) {
  EXPECT_EQ(exact_mean({0.1}), 0.1);
  EXPECT_EQ(exact_mean(std::vector<double>(10, 0.1)), 0.1);  // a running sum gives less
  EXPECT_EQ(exact_mean({1e16, 1.0, -1e16}), 1.0 / 3);
  EXPECT_EQ(exact_mean({0.1, 0.2, 0.3}), 0.2);
  EXPECT_EQ(exact_mean({0, 0, 0}), 0);
  EXPECT_EQ(exact_mean({-1, 0.5}), -0.25);
  // 1 and the next double: the middle is a tie and goes to the even 1; the next pair goes up.
  EXPECT_EQ(exact_mean({1, 1 + 0x1p-52}), 1);
  EXPECT_EQ(exact_mean({1 + 0x1p-52, 1 + 0x1p-51}), 1 + 0x1p-51);
  // The same tie of three values, whose rounded sum leads to the odd neighbour first.
  EXPECT_EQ(exact_mean({1, 1.5, 0.5 + 3 * 0x1p-53}), 1);
}

// Against whole numbers, whose exact mean is a quotient of two integers.
TEST(ExactMean, EqualsTheQuotientOfIntegers) {
  for (std::uint64_t seed = 0; seed < 300; ++seed) {
    SCOPED_TRACE(seed);
    std::mt19937_64 random(seed);
    const std::size_t count = 1 + random() % 9;
    std::vector<double> values;
    Uint128 sum = 0;
    for (std::size_t i = 0; i < count; ++i) {
      const std::uint64_t value = (random() >> 11) >> (random() % 40);  // exact in a double
      values.push_back(static_cast<double>(value));
      sum += value;
    }
    EXPECT_EQ(exact_mean(values), divide_exactly(sum, count));
  }
}

}  // namespace
}  // namespace plimsoll::embedding
