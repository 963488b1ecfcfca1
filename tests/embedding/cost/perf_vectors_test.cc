// Costs of shards, bit for bit as the reference computes them: the numbers that its own unit tests
// assert, and numbers printed by executing it (pytorch/torchrec a48cef79 and the released packages
// torchrec 1.4.0, 1.8.0 and 1.9.2).

#include <gtest/gtest.h>

#include <cmath>
#include <fstream>
#include <functional>
#include <nlohmann/json.hpp>
#include <string>

#include "embedding/vectors.h"

namespace plimsoll::embedding {
namespace {

// Two ranks on one host, a table of 100 x 10: what most of the reference's own tests use.
struct Simple {
  CostModel cost_model = cost_model_named("torchrec-ref");
  TopologySpec spec = cluster(2, 2);
  TableProfile table = table_of(100, 10);
  RunMode mode;

  Perf perf(ShardingType type, ComputeKernel kernel) const {
    const Estimator estimator(cost_model, build(spec, cost_model), mode);
    const auto runs = costed_runs(estimator, table, type, kernel);
    return runs.empty() ? Perf{} : runs.front().perf;
  }
};

constexpr ShardingType kTableWiseFamily[] = {ShardingType::kTableWise, ShardingType::kColumnWise,
                                             ShardingType::kTableColumnWise};
constexpr ShardingType kRowWiseFamily[] = {ShardingType::kRowWise, ShardingType::kTableRowWise,
                                           ShardingType::kGridShard};

std::string label(ShardingType type, ComputeKernel kernel) {
  return std::string(to_string(type)) + " " + std::string(to_string(kernel));
}

void expect_perf(const Perf& perf, double fwd_compute, double fwd_comms, double bwd_compute,
                 double bwd_comms) {
  EXPECT_EQ(perf.fwd_compute, fwd_compute);
  EXPECT_EQ(perf.fwd_comms, fwd_comms);
  EXPECT_EQ(perf.bwd_compute, bwd_compute);
  EXPECT_EQ(perf.bwd_comms, bwd_comms);
  EXPECT_EQ(perf.prefetch_compute, 0.0);
}

TEST(PerfVectors, CostASmallTableOnTwoRanks) {
  for (const std::string_view release : kReleases) {
    SCOPED_TRACE(release);
    Simple simple;
    simple.cost_model = cost_model_named(release);
    expect_perf(simple.perf(ShardingType::kDataParallel, ComputeKernel::kDense),
                9.356002212235228e-05, 0, 0.00018712004424470456, 0.000225593945387348);
    for (const ShardingType type : kTableWiseFamily) {
      SCOPED_TRACE(to_string(type));
      const double comms = 6.357828776041667e-05;
      expect_perf(simple.perf(type, ComputeKernel::kFused), 0.000327460077428233, comms,
                  0.000654920154856466, comms);
      expect_perf(simple.perf(type, ComputeKernel::kFusedUvm), 0.09179115295410156, comms,
                  0.18358230590820312, comms);
      expect_perf(simple.perf(type, ComputeKernel::kFusedUvmCaching), 0.01432837509527439, comms,
                  0.02865675019054878, comms);
    }
    for (const ShardingType type : kRowWiseFamily) {
      SCOPED_TRACE(to_string(type));
      const double comms = 6.357828776041667e-05;
      expect_perf(simple.perf(type, ComputeKernel::kFused), 6.804365245261984e-05, comms,
                  0.0001360873049052397, 0.00016798276699240525);
      expect_perf(simple.perf(type, ComputeKernel::kFusedUvm), 0.019073486328125, comms,
                  0.03814697265625, 0.029329458872477215);
      expect_perf(simple.perf(type, ComputeKernel::kFusedUvmCaching), 0.0029773246951219513, comms,
                  0.0059546493902439025, 0.004631910866838161);
    }
  }
}

// Slower links, as plain bandwidths, as rules and as a function of the caller.
TEST(PerfVectors, FollowTheBandwidthsOfTheLinks) {
  const double inter = 40.0 * kGiB / 1000, intra = 300.0 * kGiB / 1000;
  Simple simple;
  for (const int way : {0, 1, 2}) {
    SCOPED_TRACE(way);
    Topology topology = build(simple.spec, simple.cost_model);
    if (way == 0) {
      topology.comms.intra_host_bw = intra;
      topology.comms.inter_host_bw = inter;
    } else if (way == 1) {
      topology::CommsRule all_reduce, other;
      all_reduce.collective = topology::Collective::kAllReduce;
      all_reduce.bandwidth = inter * 2;
      other.bandwidth = intra;
      topology.comms.rules = {all_reduce, other};
    } else {
      topology.comms.custom = [&](int local, int world, topology::Collective collective) {
        if (collective == topology::Collective::kAllReduce) return inter * local;
        return world <= local ? intra : inter;
      };
    }
    const Estimator estimator(simple.cost_model, topology, {});
    const auto bwd_comms = [&](ShardingType type, ComputeKernel kernel) {
      const Perf perf = costed_runs(estimator, simple.table, type, kernel).front().perf;
      EXPECT_EQ(perf.fwd_comms, type == ShardingType::kDataParallel ? 0.0 : 0.00012715657552083334);
      EXPECT_EQ(perf.fwd_compute, simple.perf(type, kernel).fwd_compute);
      EXPECT_EQ(perf.bwd_compute, simple.perf(type, kernel).bwd_compute);
      return perf.bwd_comms;
    };
    EXPECT_EQ(bwd_comms(ShardingType::kDataParallel, ComputeKernel::kDense),
              0.00012314846217964537);
    EXPECT_EQ(bwd_comms(ShardingType::kTableWise, ComputeKernel::kFused), 0.00012715657552083334);
    EXPECT_EQ(bwd_comms(ShardingType::kRowWise, ComputeKernel::kFused),
              0.00016798276699240525 + 6.357828776041667e-05);
    EXPECT_EQ(bwd_comms(ShardingType::kRowWise, ComputeKernel::kFusedUvm), 0.02939303716023763);
    EXPECT_EQ(bwd_comms(ShardingType::kRowWise, ComputeKernel::kFusedUvmCaching),
              0.004695489154598577);
  }
}

// Asserted by the reference's tests (docs/mathematics/torchrec-planner.md#sources) as totals, whose
// last digit depends on nothing but the formula.
TEST(PerfVectors, CarryQuantisedComms) {
  Simple simple;
  SharderParams sharder;
  sharder.forward_comms = CommsPrecision::kFp8;
  sharder.backward_comms = CommsPrecision::kFp8;
  simple.table.comms = comms_element_sizes(sharder, true, 4, ComputeDevice::kCuda);
  EXPECT_EQ(simple.table.comms, (CommsElementSizes{1, 1, 2, 2}));
  EXPECT_EQ(simple.perf(ShardingType::kDataParallel, ComputeKernel::kDense).total(),
            0.0005062740117544049);
  for (const ShardingType type : kTableWiseFamily) {
    SCOPED_TRACE(to_string(type));
    EXPECT_EQ(simple.perf(type, ComputeKernel::kFused).total(), 0.000846718200207288);
    EXPECT_EQ(simple.perf(type, ComputeKernel::kFusedUvm).total(), 0.22846659024556476);
    EXPECT_EQ(simple.perf(type, ComputeKernel::kFusedUvmCaching).total(), 0.03568990443780169);
  }
  for (const ShardingType type : kRowWiseFamily) {
    SCOPED_TRACE(to_string(type));
    EXPECT_EQ(simple.perf(type, ComputeKernel::kFused).total(), 0.0002561205605599394);
    EXPECT_EQ(simple.perf(type, ComputeKernel::kFusedUvm).total(), 0.05403558413187663);
    EXPECT_EQ(simple.perf(type, ComputeKernel::kFusedUvmCaching).total(), 0.008488476760988312);
  }
}

TEST(PerfVectors, CostSequences) {
  Simple simple;
  const TableProfile small = table_of(128, 32, 4, false), large = table_of(256, 32, 4, false);
  simple.table = small;
  EXPECT_EQ(simple.perf(ShardingType::kDataParallel, ComputeKernel::kDense).total(),
            0.001766072999407748);
  simple.table = large;
  EXPECT_EQ(simple.perf(ShardingType::kDataParallel, ComputeKernel::kDense).total(),
            0.0026901057997143255);
  for (const TableProfile& table : {small, large}) {
    simple.table = table;
    for (const ShardingType type : {ShardingType::kTableWise, ShardingType::kColumnWise}) {
      EXPECT_EQ(simple.perf(type, ComputeKernel::kFused).total(), 0.001880471390093715);
      EXPECT_EQ(simple.perf(type, ComputeKernel::kFusedUvm).total(), 0.41346708933512366);
      EXPECT_EQ(simple.perf(type, ComputeKernel::kFusedUvmCaching).total(), 0.06488458897040142);
    }
    const ShardingType type = ShardingType::kRowWise;
    EXPECT_EQ(simple.perf(type, ComputeKernel::kFused).total(), 0.0007915177871551004);
    EXPECT_EQ(simple.perf(type, ComputeKernel::kFusedUvm).total(), 0.16504605611165366);
    EXPECT_EQ(simple.perf(type, ComputeKernel::kFusedUvmCaching).total(), 0.025934979198424798);
  }
}

TEST(PerfVectors, CostQuantisedTablesInInference) {
  Simple simple;
  simple.table = table_of(100, 16, 1);
  simple.table.module_kind = ModuleKind::kQuantEmbeddingBagCollection;
  simple.mode.inference = true;
  for (const ShardingType type : {ShardingType::kTableWise, ShardingType::kColumnWise}) {
    EXPECT_EQ(simple.perf(type, ComputeKernel::kQuant).total(), 0.0001296231579222408);
    EXPECT_EQ(simple.perf(type, ComputeKernel::kQuantUvm).total(), 0.029231707255045574);
    EXPECT_EQ(simple.perf(type, ComputeKernel::kQuantUvmCaching).total(), 0.004584459754509654);
  }
  const ShardingType type = ShardingType::kRowWise;
  EXPECT_EQ(simple.perf(type, ComputeKernel::kQuant).total(), 5.5200413052187844e-05);
  EXPECT_EQ(simple.perf(type, ComputeKernel::kQuantUvm).total(), 0.008370081583658854);
  EXPECT_EQ(simple.perf(type, ComputeKernel::kQuantUvmCaching).total(), 0.0013280108692200203);
}

TEST(PerfVectors, PrefetchExpectedFetches) {
  Simple simple;
  simple.table.sharder.cache_load_factor = 0.2;  // the option's own factor wins
  simple.table.cache_params.emplace();
  simple.table.cache_params->load_factor = 0.1;
  simple.table.cache_params->stats.emplace();
  simple.table.cache_params->stats->expected_lookups = 200000;
  simple.table.cache_params->stats->constant_miss_rate = 0.1;
  for (const ShardingType type : kTableWiseFamily) {
    EXPECT_EQ(simple.perf(type, ComputeKernel::kFusedUvmCaching).prefetch_compute,
              0.023283064365386963);
    EXPECT_EQ(simple.perf(type, ComputeKernel::kFused).prefetch_compute, 0.0);
  }
  for (const ShardingType type : kRowWiseFamily) {
    EXPECT_EQ(simple.perf(type, ComputeKernel::kFusedUvmCaching).prefetch_compute,
              0.011641532182693481);
    EXPECT_EQ(simple.perf(type, ComputeKernel::kFused).prefetch_compute, 0.0);
  }
}

TEST(PerfVectors, WeightedBackwardIsAffineInItsMultiplier) {
  const auto backward = [](bool is_weighted, double multiplier, ShardingType type,
                           ComputeKernel kernel) {
    Simple simple;
    simple.table.is_weighted = is_weighted;
    simple.spec.weighted_feature_bwd_compute_multiplier = multiplier;
    return simple.perf(type, kernel).bwd_compute;
  };
  for (const ShardingType type : {ShardingType::kDataParallel, ShardingType::kTableWise,
                                  ShardingType::kRowWise, ShardingType::kTableRowWise}) {
    const ComputeKernel kernel =
        type == ShardingType::kDataParallel ? ComputeKernel::kDense : ComputeKernel::kFused;
    SCOPED_TRACE(label(type, kernel));
    const double at_0 = backward(true, 0, type, kernel), at_1 = backward(true, 1, type, kernel);
    EXPECT_GT(at_0, 0);
    EXPECT_GT(at_1, at_0);
    EXPECT_DOUBLE_EQ(backward(true, 4, type, kernel), at_0 + 4 * (at_1 - at_0));
    EXPECT_EQ(backward(false, 4, type, kernel), backward(false, 1, type, kernel));
  }
}

TEST(PerfVectors, DeviceBandwidths) {
  for (const std::string_view release : kReleases) {
    SCOPED_TRACE(release);
    const CostModel cost_model = cost_model_named(release);
    const auto bandwidth = [&](ComputeDevice device, ComputeKernel kernel,
                               std::optional<double> load_factor = {}, bool prefetch = false) {
      const Estimator estimator(cost_model, build(cluster(2, 2, device), cost_model), {});
      const auto result = estimator.device_bandwidth(kernel, load_factor, prefetch);
      return result ? *result : -1;
    };
    const auto cuda = ComputeDevice::kCuda;
    const double caching[][2] = {{0, 3435973.8368},
                                 {0.25, 26655640.7808},
                                 {0.5, 49875307.724800006},
                                 {0.75, 73094974.6688},
                                 {1, 96314641.6128}};
    for (const auto& [load_factor, expected] : caching) {
      EXPECT_EQ(bandwidth(cuda, ComputeKernel::kFusedUvmCaching, load_factor), expected);
      EXPECT_EQ(bandwidth(cuda, ComputeKernel::kQuantUvmCaching, load_factor), expected);
      EXPECT_EQ(bandwidth(cuda, ComputeKernel::kFusedUvmCaching, load_factor, true), 963146416.128);
    }
    EXPECT_EQ(bandwidth(cuda, ComputeKernel::kFusedUvmCaching),
              bandwidth(cuda, ComputeKernel::kFusedUvmCaching, 0.2));
    EXPECT_EQ(bandwidth(cuda, ComputeKernel::kDense), 0.5 * 963146416.128);
    EXPECT_EQ(bandwidth(cuda, ComputeKernel::kFused), 963146416.128);
    EXPECT_EQ(bandwidth(cuda, ComputeKernel::kQuant), 963146416.128);
    EXPECT_EQ(bandwidth(cuda, ComputeKernel::kFusedUvm), 3435973.8368);
    EXPECT_EQ(bandwidth(cuda, ComputeKernel::kQuantUvm), 3435973.8368);
    EXPECT_EQ(bandwidth(cuda, ComputeKernel::kKeyValue),
              cost_model.key_value_on_ssd ? 104857.6 : 34359738.368);
    EXPECT_EQ(bandwidth(cuda, ComputeKernel::kSsdVirtualTable), 34359738.368);
    EXPECT_EQ(bandwidth(cuda, ComputeKernel::kDramVirtualTable), 34359738.368);
    EXPECT_EQ(bandwidth(ComputeDevice::kCpu, ComputeKernel::kDense), 0.5 * 54760833.024);
    EXPECT_EQ(bandwidth(ComputeDevice::kCpu, ComputeKernel::kFused), 54760833.024);
    EXPECT_EQ(bandwidth(ComputeDevice::kMtia, ComputeKernel::kQuant), 963146416.128);
    EXPECT_EQ(bandwidth(ComputeDevice::kCpu, ComputeKernel::kFusedUvm), -1);
    EXPECT_EQ(bandwidth(ComputeDevice::kMtia, ComputeKernel::kFusedUvmCaching), -1);
  }
}

TEST(PerfVectors, KernelsWithoutBandwidthAreErrors) {
  for (const std::string_view release : kReleases) {
    SCOPED_TRACE(release);
    const CostModel cost_model = cost_model_named(release);
    const Estimator estimator(cost_model, build(cluster(2, 2), cost_model), {});
    const auto result =
        estimator.device_bandwidth(ComputeKernel::kCustomizedKernel, std::nullopt, false);
    ASSERT_FALSE(result.has_value());
    if (cost_model.unknown_kernel_is_value_error) {
      EXPECT_EQ(result.error().code, ErrorCode::kValue);
      EXPECT_EQ(result.error().message,
                "Unrecognized or unsupported compute kernel: customized_kernel for hardware aware "
                "perf estimators.");
    } else {
      EXPECT_EQ(result.error().code, ErrorCode::kPlanner);
      EXPECT_EQ(result.error().kind, "other");
      EXPECT_EQ(result.error().message,
                "No kernel bandwidth exists for this combo of compute device: cuda, compute "
                "kernel: customized_kernel");
    }
  }
}

TEST(PerfVectors, MissRatesOfHistograms) {
  CacheStats two_peaks;
  two_peaks.histogram = {0, 6, 0, 8};
  two_peaks.height = 4;
  const double expected[] = {1, 1, 4.0 / 7, 4.0 / 7, 0};
  for (int size = 0; size <= 4; ++size) {
    EXPECT_FLOAT_EQ(static_cast<float>(two_peaks.expected_miss_rate(size / 4.0)),
                    static_cast<float>(expected[size]));
  }

  CacheStats uniform;
  uniform.histogram.assign(10, 1);
  uniform.height = 100;
  const double curve[][2] = {{0, 1}, {9, .9}, {10, .9}, {11, .8}, {89, .1}, {99, 0}, {100, 0}};
  for (const auto& [size, rate] : curve) {
    EXPECT_NEAR(uniform.expected_miss_rate(size / 100), rate, 1e-7) << size;
  }

  CacheStats falling;
  falling.histogram = {99, 98, 97};
  falling.height = 92;
  const double falling_curve[][2] = {{0, 1.0},
                                     {0.01, 1.0},
                                     {0.1, .6632653474807739},
                                     {0.34, .6632653474807739},
                                     {0.5, .32993197441101074},
                                     {0.67, .32993197441101074},
                                     {0.7, 0.0},
                                     {1, 0.0}};
  for (const auto& [load_factor, rate] : falling_curve) {
    EXPECT_EQ(falling.expected_miss_rate(load_factor), rate) << load_factor;
  }

  CacheStats nothing;
  nothing.histogram = {0, 0, 0};
  nothing.height = 10;
  EXPECT_EQ(nothing.expected_miss_rate(0.5), 0.0);
}

// ---------------------------------------------------------------------------------------------

struct SetRow {
  char set;
  ShardingType type;
  ComputeKernel kernel;
  std::int64_t num_shards, rows, columns;  // of the first shard
  double fwd_compute, fwd_comms, bwd_compute, bwd_comms, prefetch;
  Bytes hbm, ddr;
};

constexpr SetRow kSetRows[] = {
    {'A', ShardingType::kDataParallel, ComputeKernel::kDense, 16, 1000000, 128,
     0.007701690911980908, 0, 0.015403381823961816, 8.47754802725121, 0.0, 256366592, 0},
    {'A', ShardingType::kTableWise, ComputeKernel::kFused, 1, 1000000, 128, 0.061613527295847265,
     0.3125, 0.12322705459169453, 0.3125, 0.0, 261865472, 0},
    {'A', ShardingType::kColumnWise, ComputeKernel::kFused, 4, 1000000, 32, 0.0292332541849568,
     0.078125, 0.0584665083699136, 0.078125, 0.0, 66719744, 0},
    {'A', ShardingType::kTableColumnWise, ComputeKernel::kFused, 4, 1000000, 32, 0.0292332541849568,
     0.078125, 0.0584665083699136, 0.078125, 0.0, 66719744, 0},
    {'A', ShardingType::kRowWise, ComputeKernel::kFused, 16, 62500, 128, 0.007933464603147644,
     0.3125, 0.015866929206295288, 0.32319101867335565, 0.0, 20298752, 0},
    {'A', ShardingType::kTableRowWise, ComputeKernel::kFused, 8, 125000, 128, 0.01151213544932762,
     0.045572916666666664, 0.02302427089865524, 0.056263935340022296, 0.0, 36403200, 0},
    {'A', ShardingType::kGridShard, ComputeKernel::kFused, 32, 125000, 32, 0.003040700718976449,
     0.011393229166666666, 0.006081401437952898, 0.014065983835005574, 0.0, 9257472, 0},
    {'B', ShardingType::kDataParallel, ComputeKernel::kDense, 16, 1000000, 128,
     0.007918580054173634, 0, 0.038405113262742124, 8.47754802725121, 0.0, 256366592, 0},
    {'B', ShardingType::kTableWise, ComputeKernel::kFused, 1, 1000000, 128, 0.06334864043338907,
     0.3125, 0.307240906101937, 0.3125, 0.0, 261865472, 0},
    {'B', ShardingType::kColumnWise, ComputeKernel::kFused, 4, 1000000, 32, 0.03226970217565496,
     0.078125, 0.15650805555192654, 0.078125, 0.0, 66719744, 0},
    {'B', ShardingType::kTableColumnWise, ComputeKernel::kFused, 4, 1000000, 32,
     0.03226970217565496, 0.078125, 0.15650805555192654, 0.078125, 0.0, 66719744, 0},
    {'B', ShardingType::kRowWise, ComputeKernel::kFused, 16, 62500, 128, 0.008041909174244008,
     0.3125, 0.03900325949508344, 0.32319101867335565, 0.0, 20298752, 0},
    {'B', ShardingType::kTableRowWise, ComputeKernel::kFused, 8, 125000, 128, 0.011729024591520346,
     0.045572916666666664, 0.05688576926887368, 0.056263935340022296, 0.0, 36403200, 0},
    {'B', ShardingType::kGridShard, ComputeKernel::kFused, 32, 125000, 32, 0.003257589861169175,
     0.011393229166666666, 0.0157993108266705, 0.014065983835005574, 0.0, 9257472, 0},
    {'C', ShardingType::kDataParallel, ComputeKernel::kDense, 16, 1000003, 64, 0.006910683452219203,
     0, 0.013821366904438406, 8.477573459895293, 0.0, 257690368, 0},
    {'C', ShardingType::kTableWise, ComputeKernel::kFused, 1, 1000003, 64, 0.06357828776041666,
     1.953125, 0.12715657552083331, 1.953125, 0.0, 283034368, 0},
    {'C', ShardingType::kRowWise, ComputeKernel::kFused, 16, 62501, 64, 0.0034553417261096015,
     0.1220703125, 0.006910683452219203, 0.12624649166927954, 0.0, 17689856, 0},
    {'D', ShardingType::kTableWise, ComputeKernel::kFusedUvmCaching, 1, 10000000, 64,
     1.7433231936106346, 0.3125, 3.486646387221269, 0.3125, 0.1862645149230957, 861505024,
     2560000000},
    {'D', ShardingType::kRowWise, ComputeKernel::kFusedUvmCaching, 16, 625000, 64,
     0.22037564992495712, 0.3125, 0.44075129984991424, 0.6414826329331047, 0.011641532182693481,
     57776224, 160000000},
    {'D', ShardingType::kTableRowWise, ComputeKernel::kFusedUvmCaching, 8, 1250000, 64,
     0.30674615405231564, 0.045572916666666664, 0.6134923081046313, 0.37455554959977133,
     0.023283064365386963, 111358144, 320000000},
    {'E', ShardingType::kTableWise, ComputeKernel::kFusedUvmCaching, 1, 10000000, 64,
     0.05665314503205127, 0.3125, 0.11330629006410255, 0.3125, 0.1862645149230957, 861505024,
     2560000000},
    {'E', ShardingType::kRowWise, ComputeKernel::kFusedUvmCaching, 16, 625000, 64,
     0.007161594420638238, 0.3125, 0.014323188841276476, 0.32319101867335565, 0.011641532182693481,
     57776224, 160000000},
    {'E', ShardingType::kTableRowWise, ComputeKernel::kFusedUvmCaching, 8, 1250000, 64,
     0.009968395084308806, 0.045572916666666664, 0.019936790168617612, 0.056263935340022296,
     0.023283064365386963, 111358144, 320000000},
    {'F', ShardingType::kTableWise, ComputeKernel::kFusedUvm, 1, 10000000, 64, 15.880584716796873,
     0.3125, 31.761169433593746, 0.3125, 0.0, 5505024, 2560000000},
    {'F', ShardingType::kRowWise, ComputeKernel::kKeyValue, 16, 625000, 64, 0.20074844360351562,
     0.3125, 0.40149688720703125, 0.6121826171875, 0.0, 4276224, 0},
    {'G', ShardingType::kTableWise, ComputeKernel::kFused, 1, 10000000, 64, 0.054149138621794865,
     0.15625, 0.10829827724358973, 0.15625, 0.0, 2565505024, 0},
    {'G', ShardingType::kRowWise, ComputeKernel::kFused, 16, 625000, 64, 0.004984197542154403,
     0.15625, 0.009968395084308806, 0.16159550933667782, 0.0, 164276224, 0},
    {'G', ShardingType::kTableRowWise, ComputeKernel::kFused, 8, 1250000, 64, 0.007790998205824972,
     0.022786458333333332, 0.015581996411649944, 0.028131967670011148, 0.0, 324358144, 0},
    {'H', ShardingType::kDataParallel, ComputeKernel::kDense, 4, 5000, 256, 0.015047251009473614, 0,
     0.030094502018947228, 1.8194609997319242, 0.0, 0, 5224800},
    {'H', ShardingType::kTableWise, ComputeKernel::kFused, 1, 5000, 256, 0.030094502018947228,
     0.0006357828776041667, 0.060189004037894456, 0.0006357828776041667, 0.0, 0, 5539200},
    {'H', ShardingType::kColumnWise, ComputeKernel::kFused, 2, 5000, 128, 0.015134904898849189,
     0.00031789143880208337, 0.030269809797698378, 0.00031789143880208337, 0.0, 0, 2774400},
    {'I', ShardingType::kDataParallel, ComputeKernel::kDense, 32, 20000, 64, 0.00041676737127229656,
     0, 0.0008335347425445931, 0.24107653427549297, 0.0, 5189632, 0},
    {'I', ShardingType::kTableRowWise, ComputeKernel::kFused, 8, 2501, 64, 0.0027387570112179485,
     0.022786458333333332, 0.005477514022435897, 0.028131967670011148, 0.0, 2753792, 0},
    {'J', ShardingType::kDataParallel, ComputeKernel::kDense, 6, 1001, 96, 0.00010916799701505457,
     0, 0.00021833599403010915, 0.010397205053444526, 0.0, 444752, 0},
    {'J', ShardingType::kTableWise, ComputeKernel::kFused, 1, 1001, 96, 0.0003766295897019383,
     0.013217926025390625, 0.0007532591794038766, 0.013217926025390625, 0.0, 746592, 0},
    {'J', ShardingType::kRowWise, ComputeKernel::kFused, 6, 167, 96, 0.00018963719069109994,
     0.013217926025390625, 0.0003792743813821999, 0.01361579272956343, 0.0, 420176, 0},
    {'J', ShardingType::kTableRowWise, ComputeKernel::kFused, 3, 334, 96, 0.0002172105507619127,
     0.005507469177246094, 0.0004344211015238254, 0.005905335881418899, 0.0, 485536, 0},
    {'J', ShardingType::kGridShard, ComputeKernel::kFused, 6, 334, 48, 0.00010916799701505457,
     0.002753734588623047, 0.00021833599403010915, 0.0029526679407094495, 0.0, 244000, 0},
};

struct Set {
  TopologySpec spec = cluster(16, 8);
  TableProfile table;
  std::optional<std::int64_t> min_partition;
};

Set set_named(const SetRow& row) {
  Set set;
  switch (row.set) {
    case 'A':
    case 'B':
      set.table = table_of(1000000, 128, 2);
      set.table.pooling_factors = {20, 5.5};
      set.table.num_poolings = {1, 2};
      set.table.batch_sizes = {512, 256};
      set.min_partition = 32;
      if (row.set == 'B') {
        set.table.is_weighted = true;
        set.spec.bwd_compute_multiplier = 2.5;
        set.spec.weighted_feature_bwd_compute_multiplier = 1.5;
      }
      break;
    case 'C':
      set.table = table_of(1000003, 64, 4, false);
      set_features(set.table, {50}, 128);
      break;
    case 'D':
    case 'E':
    case 'F':
    case 'G':
      set.table = table_of(10000000, 64);
      set_features(set.table, {10}, 1024);
      if (row.set == 'D' || row.set == 'E') {
        set.table.cache_params.emplace();
        set.table.cache_params->load_factor = 0.3;
        set.table.cache_params->stats.emplace();
        set.table.cache_params->stats->expected_lookups = 100000;
        set.table.cache_params->stats->constant_miss_rate = 0.25;
        if (row.set == 'E') set.table.cache_params->prefetch_pipeline = true;
      }
      if (row.set == 'G') {
        SharderParams sharder;
        sharder.forward_comms = CommsPrecision::kFp16;
        sharder.backward_comms = CommsPrecision::kBf16;
        set.table.comms = comms_element_sizes(sharder, true, 4, ComputeDevice::kCuda);
      }
      break;
    case 'H':
      set.spec = cluster(4, 4, ComputeDevice::kCpu);
      set.table = table_of(5000, 256);
      set_features(set.table, {3}, 100);
      break;
    case 'I':
      set.spec = cluster(32, 8);
      set.table = table_of(row.type == ShardingType::kDataParallel ? 20000 : 20003, 64);
      set_features(set.table, {2}, 256);
      break;
    default:
      set.spec = cluster(6, 3);
      set.spec.hbm_mem_bw = 2039.0 * kGiB / 1000;
      set.spec.intra_host_bw = 300.0 * kGiB / 1000;
      set.spec.inter_host_bw = 25.0 * kGiB / 1000;
      set.spec.hbm_to_ddr_mem_bw = 25.0 * kGiB / 1000;
      set.table = table_of(1001, 96);
      set_features(set.table, {1.7, 0.3}, 77);
      set.min_partition = 48;
  }
  return set;
}

TEST(PerfVectors, CostTheSetsOfTheReference) {
  for (const std::string_view release : kReleases) {
    const CostModel cost_model = cost_model_named(release);
    for (const SetRow& row : kSetRows) {
      SCOPED_TRACE(std::string(release) + " set " + row.set + " " + label(row.type, row.kernel));
      // From 1.7 outputs are capped by ids (J has a feature of 0.3) and key_value reads from ssd.
      if (cost_model.pooled_output_cap && row.set == 'J') continue;
      if (cost_model.key_value_on_ssd && row.kernel == ComputeKernel::kKeyValue) continue;
      const Set set = set_named(row);
      const Estimator estimator(cost_model, build(set.spec, cost_model), {});
      std::int64_t num_shards = 0;
      const auto runs =
          costed_runs(estimator, set.table, row.type, row.kernel, set.min_partition, &num_shards);
      ASSERT_FALSE(runs.empty());
      const ShardRun& first = runs.front();
      EXPECT_EQ(num_shards, row.num_shards);
      EXPECT_EQ(first.rows, row.rows);
      EXPECT_EQ(first.columns, row.columns);
      EXPECT_EQ(first.perf.fwd_compute, row.fwd_compute);
      EXPECT_EQ(first.perf.fwd_comms, row.fwd_comms);
      EXPECT_EQ(first.perf.bwd_compute, row.bwd_compute);
      EXPECT_EQ(first.perf.bwd_comms, row.bwd_comms);
      EXPECT_EQ(first.perf.prefetch_compute, row.prefetch);
      EXPECT_EQ(first.storage.hbm, row.hbm);
      EXPECT_EQ(first.storage.ddr, row.ddr);
    }
  }
}

// ---------------------------------------------------------------------------------------------

enum class Releases { kAll, kOld, kNew };

// One drift between the releases each; the first shard.
struct DriftRow {
  char name;
  Releases releases;
  std::int64_t num_shards;
  double perf[6];  // forward compute and comms, backward compute and comms, prefetch, input dist
  double total;
  Storage storage;
};

constexpr DriftRow kDriftRows[] = {
    {'a',
     Releases::kAll,
     1,
     {0.022046143394648828, 0.3125, 0.044092286789297656, 0.3125, 0.0, 0.01953125},
     0.6911384301839465,
     {55656448, 0, 0}},
    {'b',
     Releases::kAll,
     1,
     {0.022318318004459308, 0.3125, 0.06918678581382386, 0.3125, 0.0, 0.01953125},
     0.7165051038182831,
     {55656448, 0, 0}},
    {'c',
     Releases::kOld,
     1,
     {0.005460503109322742, 0.3125, 0.010921006218645484, 0.3125, 0.0, 0},
     0.6413815093279682,
     {55410688, 0, 0}},
    {'c',
     Releases::kNew,
     1,
     {0.00219440779159699, 0.078125, 0.00438881558319398, 0.078125, 0.0, 0.001220703125},
     0.16283322337479098,
     {52264960, 0, 0}},
    {'d',
     Releases::kOld,
     16,
     {0.014031876954213698, 0.9375, 0.028063753908427396, 0.9695730560200669, 0.0, 0},
     1.949168686882708,
     {15797248, 0, 0}},
    {'d',
     Releases::kNew,
     16,
     {0.007499686318762193, 0.46875, 0.014999372637524386, 0.48478652801003347, 0.0, 0.01708984375},
     0.97603558696632,
     {9505792, 0, 0}},
    {'e',
     Releases::kOld,
     8,
     {0.00438881558319398, 0.022786458333333332, 0.00877763116638796, 0.028131967670011148, 0.0, 0},
     0.06408487275292642,
     {8529920, 0, 0}},
    {'e',
     Releases::kNew,
     8,
     {0.00438881558319398, 0.15950520833333334, 0.00877763116638796, 0.16485071767001117, 0.0,
      0.01953125},
     0.33752237275292646,
     {8529920, 0, 0}},
    {'f',
     Releases::kOld,
     8,
     {0.006566212461677815, 0.045572916666666664, 0.01313242492335563, 0.056263935340022296, 0.0,
      0},
     0.1215354893917224,
     {6400000, 0, 0}},
    {'f',
     Releases::kNew,
     8,
     {0.006566212461677815, 0.045572916666666664, 0.0, 0.0, 0.0, 0.01953125},
     0.05213912912834448,
     {6400000, 0, 0}},
    {'g',
     Releases::kOld,
     16,
     {0.0027557679243311035, 0, 0.005511535848662207, 0.01695509605450242, 0.0, 0},
     0.02522239982749573,
     {512000, 0, 0}},
    {'g',
     Releases::kNew,
     16,
     {0.0027557679243311035, 0, 0.0, 0.0, 0.0, 0.0},
     0.0027557679243311035,
     {512000, 0, 0}},
    {'h',
     Releases::kOld,
     16,
     {0.16802988984777015, 0.3125, 0, 0, 0.0, 0},
     0.4805298898477701,
     {960000, 3200000, 0}},
    {'h',
     Releases::kNew,
     16,
     {0.16802988984777015, 0.3125, 0.0, 0.0, 0.023283064365386963, 0.01953125},
     0.5038129542131571,
     {960000, 3200000, 0}},
    {'i',
     Releases::kOld,
     16,
     {0.15306472778320312, 0.3125, 0.30612945556640625, 0.6121826171875, 0.0, 0},
     1.3838768005371094,
     {4210688, 0, 0}},
    {'i',
     Releases::kNew,
     16,
     {50.15625, 0.3125, 100.3125, 98.5125, 0.0, 0.01953125},
     249.29375,
     {4210688, 0, 9645000}},
    {'j',
     Releases::kOld,
     8,
     {0.004924659346258361, 0.0054931640625, 0.009849318692516722, 0.013511428067516722, 0.0, 0},
     0.03377857016879181,
     {9570304, 0, 0}},
    {'j',
     Releases::kNew,
     8,
     {0.004924659346258361, 0.0048828125, 0.009849318692516722, 0.012901076505016722, 0.0,
      0.0146484375},
     0.03255786704379181,
     {9570304, 0, 0}},
    {'k',
     Releases::kAll,
     8,
     {0.01313242492335563, 0.09114583333333333, 0.02626484984671126, 0.11252787068004459, 0.0,
      0.0390625},
     0.2430709787834448,
     {14854144, 0, 0}},
    {'l',
     Releases::kNew,
     16,
     {0.010921006218645484, 0.6640625, 0.021842012437290968, 0.6854445373467113, 0.0, 0.0390625},
     1.3822700560026477,
     {11621376, 0, 0}},
    {'m',
     Releases::kNew,
     32,
     {0.009815296866290412, 0.625, 0.019630593732580824, 0.6463820373467113, 0.0, 0.0390625},
     1.3008279279455826,
     {10004992, 0, 0}},
};

struct Drift {
  TopologySpec spec = cluster(16, 8);
  TableProfile table = table_of(100000, 128);
  ShardingType type = ShardingType::kTableWise;
  ComputeKernel kernel = ComputeKernel::kFused;
  RunMode mode;
};

Drift drift_named(char name) {
  Drift drift;
  set_features(drift.table, {4}, 512);
  switch (name) {
    case 'a':
      break;
    case 'b':
      drift.table.is_weighted = true;
      break;
    case 'c':
      set_features(drift.table, {0.25}, 512);
      break;
    case 'd':
      drift.type = ShardingType::kRowWise;
      set_features(drift.table, {0.25, 3}, 512);
      drift.table.num_poolings = {2, 1};
      break;
    case 'e':
      drift.type = ShardingType::kTableRowWise;
      drift.table = table_of(100000, 128, 4, false);
      set_features(drift.table, {4}, 512);
      break;
    case 'f':
      drift.type = ShardingType::kTableRowWise;
      drift.mode.inference = true;
      break;
    case 'g':
      drift.type = ShardingType::kDataParallel;
      drift.kernel = ComputeKernel::kDense;
      drift.table = table_of(1000, 128);
      set_features(drift.table, {4}, 512);
      drift.mode.inference = true;
      break;
    case 'h':
      drift.type = ShardingType::kRowWise;
      drift.kernel = ComputeKernel::kFusedUvmCaching;
      drift.table.cache_params.emplace();
      drift.table.cache_params->load_factor = 0.3;
      drift.table.cache_params->stats.emplace();
      drift.table.cache_params->stats->expected_lookups = 100000;
      drift.table.cache_params->stats->constant_miss_rate = 0.25;
      drift.mode.inference = true;
      break;
    case 'i':
      drift.type = ShardingType::kRowWise;
      drift.kernel = ComputeKernel::kKeyValue;
      drift.table.optimizer = Optimizer::kAdam;
      break;
    case 'j':
      drift.type = ShardingType::kTableRowWise;
      drift.spec = cluster(12, 8);
      break;
    default:
      drift.type = ShardingType::kTableRowWise;
      drift.spec = cluster(32, 8);
      if (name == 'l') drift.spec.pod_size = 2;
      if (name == 'm') drift.spec.pod_size = 4;
  }
  return drift;
}

TEST(PerfVectors, DriftFromReleaseToRelease) {
  for (const std::string_view release : kReleases) {
    const CostModel cost_model = cost_model_named(release);
    const bool is_new = cost_model.ssd_tier;
    for (const DriftRow& row : kDriftRows) {
      if (row.releases == (is_new ? Releases::kOld : Releases::kNew)) continue;
      SCOPED_TRACE(std::string(release) + " case " + row.name);
      const Drift drift = drift_named(row.name);
      const Estimator estimator(cost_model, build(drift.spec, cost_model), drift.mode);
      std::int64_t num_shards = 0;
      const auto runs =
          costed_runs(estimator, drift.table, drift.type, drift.kernel, {}, &num_shards);
      ASSERT_FALSE(runs.empty());
      const ShardRun& first = runs.front();
      EXPECT_EQ(num_shards, row.num_shards);
      EXPECT_EQ(first.perf.fwd_compute, row.perf[0]);
      EXPECT_EQ(first.perf.fwd_comms, row.perf[1]);
      EXPECT_EQ(first.perf.bwd_compute, row.perf[2]);
      EXPECT_EQ(first.perf.bwd_comms, row.perf[3]);
      EXPECT_EQ(first.perf.prefetch_compute, row.perf[4]);
      // Rows of old releases are of those that do not record it.
      if (row.releases != Releases::kOld || !cost_model.input_dist) {
        EXPECT_EQ(first.perf.input_dist_comms, cost_model.input_dist ? row.perf[5] : 0.0);
      }
      EXPECT_EQ(first.perf.total(), row.total);
      EXPECT_EQ(first.storage, row.storage);
    }
  }
}

// A table of 100,000 x 128, batch 512, four ids a sample; first shards, printed by torchrec 1.2.0.
struct OldRow {
  ComputeDevice device;
  int world_size;
  ShardingType type;
  ComputeKernel kernel;
  double perf[4];
  Storage storage;
};

constexpr OldRow kOldRows[] = {
    {ComputeDevice::kMtia,
     16,
     ShardingType::kTableWise,
     ComputeKernel::kFused,
     {0.3877527573529412, 0.3125, 0.7755055147058824, 0.3125},
     {0, 55656448, 0}},
    {ComputeDevice::kMtia,
     16,
     ShardingType::kRowWise,
     ComputeKernel::kFused,
     {0.09604061351102942, 0.3125, 0.19208122702205885, 0.5005361519607843},
     {0, 7410688, 0}},
    {ComputeDevice::kMtia,
     16,
     ShardingType::kTableRowWise,
     ComputeKernel::kFused,
     {0.11548808976715687, 0.045572916666666664, 0.23097617953431374, 0.23360906862745098},
     {0, 10627072, 0}},
    // Hosts of 8: the twelve ranks have one host and a half, which cross at the slow links.
    {ComputeDevice::kCuda,
     12,
     ShardingType::kTableRowWise,
     ComputeKernel::kFused,
     {0.004924659346258361, 0.0341796875, 0.009849318692516722, 0.04219795150501672},
     {9570304, 0, 0}},
    // No cache of rows: the bookkeeping of one, and what goes in and out.
    {ComputeDevice::kCuda,
     16,
     ShardingType::kRowWise,
     ComputeKernel::kKeyValue,
     {0.15306472778320312, 0.3125, 0.30612945556640625, 0.6121826171875},
     {4255688, 0, 0}},
};

TEST(PerfVectors, ReleaseOneTwoTakesMtiaForAHost) {
  const CostModel cost_model = cost_model_named("torchrec-1.2");
  EXPECT_EQ(build(cluster(2, 2, ComputeDevice::kMtia), cost_model).total_storage().hbm, 0);
  for (const OldRow& row : kOldRows) {
    SCOPED_TRACE(label(row.type, row.kernel));
    const Topology topology = build(cluster(row.world_size, 8, row.device), cost_model);
    TableProfile table = table_of(100000, 128);
    set_features(table, {4.0}, 512);
    table.optimizer = row.kernel == ComputeKernel::kKeyValue ? Optimizer::kAdam : Optimizer::kNone;
    const auto runs = costed_runs(Estimator(cost_model, topology, {}), table, row.type, row.kernel);
    ASSERT_FALSE(runs.empty());
    const Perf& perf = runs.front().perf;
    expect_perf(perf, row.perf[0], row.perf[1], row.perf[2], row.perf[3]);
    EXPECT_EQ(runs.front().storage, row.storage);
  }
}

// A registry that holds some collectives alone: the others carry the table's own elements.
TEST(PerfVectors, CodecsOfTheCallersOwnSayTheirBytes) {
  SharderParams sharder;
  sharder.forward_comms = sharder.backward_comms = CommsPrecision::kFp8;
  sharder.codec_bytes.emplace().forward_all_to_all = 2;
  sharder.codec_bytes->backward_reduce_scatter = 1;
  const auto sizes = [&](bool is_pooled) {
    return comms_element_sizes(sharder, is_pooled, 4, ComputeDevice::kCuda);
  };
  EXPECT_EQ(sizes(true), (CommsElementSizes{2, 4, 4, 1}));
  EXPECT_EQ(sizes(false), (CommsElementSizes{2, 4, 4, 4}));  // sequences are not reduced
}

EmbWallTimeParameters read_parameters(const nlohmann::json& p) {
  EmbWallTimeParameters parameters;
  parameters.shard_sizes = p.at("shard_sizes");
  parameters.compute_kernel = *find_enum<ComputeKernel>(p.at("compute_kernel").get<std::string>());
  parameters.compute_device =
      p.at("compute_device") == "cpu" ? ComputeDevice::kCpu : ComputeDevice::kCuda;
  parameters.sharding_type = *find_enum<ShardingType>(p.at("sharding_type").get<std::string>());
  parameters.batch_sizes = p.at("batch_sizes").get<std::vector<std::int64_t>>();
  parameters.world_size = p.at("world_size");
  parameters.local_world_size = p.at("local_world_size");
  parameters.input_lengths = p.at("input_lengths").get<std::vector<double>>();
  parameters.input_data_type_size = p.at("input_data_type_size");
  parameters.table_data_type_size = p.at("table_data_type_size");
  parameters.output_data_type_size = p.at("output_data_type_size");
  parameters.fwd_a2a_comm_data_type_size = p.at("fwd_a2a_comm_data_type_size");
  parameters.bwd_a2a_comm_data_type_size = p.at("bwd_a2a_comm_data_type_size");
  parameters.fwd_sr_comm_data_type_size = p.at("fwd_sr_comm_data_type_size");
  parameters.bwd_sr_comm_data_type_size = p.at("bwd_sr_comm_data_type_size");
  parameters.num_poolings = p.at("num_poolings").get<std::vector<double>>();
  parameters.hbm_mem_bw = p.at("hbm_mem_bw");
  parameters.ddr_mem_bw = p.at("ddr_mem_bw");
  parameters.hbm_to_ddr_mem_bw = p.at("hbm_to_ddr_mem_bw");
  parameters.comms_bandwidths.intra_host_bw = p.at("intra_host_bw");
  parameters.comms_bandwidths.inter_host_bw = p.at("inter_host_bw");
  parameters.bwd_compute_multiplier = p.at("bwd_compute_multiplier");
  parameters.weighted_feature_bwd_compute_multiplier =
      p.at("weighted_feature_bwd_compute_multiplier");
  parameters.is_pooled = p.at("is_pooled");
  parameters.is_weighted = p.at("is_weighted");
  if (!p.at("caching_ratio").is_null()) {
    parameters.caching_ratio = p.at("caching_ratio").get<double>();
  }
  parameters.is_inference = p.at("is_inference");
  parameters.prefetch_pipeline = p.at("prefetch_pipeline");
  parameters.expected_cache_fetches = p.at("expected_cache_fetches");
  parameters.uneven_sharding_perf_multiplier = p.at("uneven_sharding_perf_multiplier");
  return parameters;
}

TEST(PerfFuncEmbWallTime, EqualsThePackages) {
  std::ifstream file(PLIMSOLL_TEST_DATA "/perf_func_emb_wall_time.json");
  const nlohmann::json cases = nlohmann::json::parse(file).at("cases");
  ASSERT_EQ(cases.size(), 105U);
  for (const nlohmann::json& record : cases) {
    SCOPED_TRACE(record.dump());
    const CostModel cost_model = cost_model_named(record.at("cost_model").get<std::string>());
    const auto perfs =
        perf_func_emb_wall_time(cost_model, read_parameters(record.at("parameters")));
    ASSERT_TRUE(perfs) << format_error(perfs.error());
    const auto& expected = record.at("perfs");
    ASSERT_EQ(perfs->size(), expected.size());
    for (std::size_t i = 0; i < perfs->size(); ++i) {
      const Perf& perf = (*perfs)[i];
      std::vector<double> parts{perf.fwd_compute, perf.fwd_comms, perf.bwd_compute, perf.bwd_comms,
                                perf.prefetch_compute};
      if (expected[i].size() == 6) parts.push_back(perf.input_dist_comms);
      EXPECT_EQ(parts, expected[i].get<std::vector<double>>());
    }
  }
}

// The numbers that the estimator hands to the same formulas.
TEST(PerfFuncEmbWallTime, EqualsTheEstimatorInEveryRelease) {
  for (const std::string_view release : kReleases) {
    for (const ShardingType type :
         {ShardingType::kTableWise, ShardingType::kRowWise, ShardingType::kTableRowWise,
          ShardingType::kGridShard, ShardingType::kDataParallel}) {
      SCOPED_TRACE(std::string(release) + " " + std::string(to_string(type)));
      const CostModel cost_model = cost_model_named(release);
      TableProfile table = table_of(100'000, 96, 2);
      set_features(table, {.5, 20}, 333);
      EmbWallTimeParameters parameters;
      parameters.shard_sizes = {{100'000, 96}};
      parameters.sharding_type = type;
      parameters.batch_sizes = table.batch_sizes;
      parameters.world_size = 6;
      parameters.local_world_size = 2;
      parameters.input_lengths = table.pooling_factors;
      parameters.table_data_type_size = 2;
      parameters.fwd_a2a_comm_data_type_size = parameters.bwd_a2a_comm_data_type_size = 2;
      parameters.fwd_sr_comm_data_type_size = parameters.bwd_sr_comm_data_type_size = 2;
      parameters.num_poolings = table.num_poolings;
      const Estimator estimator(cost_model, build(cluster(6, 2), cost_model), {});
      const auto perfs = perf_func_emb_wall_time(cost_model, parameters);
      ASSERT_TRUE(perfs);
      EXPECT_EQ(perfs->front(),
                *estimator.shard_perf(table, type, ComputeKernel::kFused, 100'000, 96));
    }
  }
}

TEST(PerfFuncEmbWallTime, RefusesWhatNoFormulaTakes) {
  EmbWallTimeParameters right;
  right.shard_sizes = {{100, 10}};
  right.batch_sizes = {512};
  right.input_lengths = {1};
  right.num_poolings = {1};
  const auto place_of = [&](const std::function<void(EmbWallTimeParameters&)>& change) {
    EmbWallTimeParameters parameters = right;
    change(parameters);
    const auto perfs = perf_func_emb_wall_time(default_cost_model(), parameters);
    return perfs ? "" : perfs.error().place;
  };
  using Parameters = EmbWallTimeParameters;
  EXPECT_EQ(place_of([](Parameters&) {}), "");
  EXPECT_EQ(place_of([](Parameters& p) { p.num_poolings = {}; }), "input_lengths");
  EXPECT_EQ(place_of([](Parameters& p) { p.batch_sizes = {1, 2}; }), "input_lengths");
  EXPECT_EQ(place_of([](Parameters& p) { p.world_size = 0; }), "world_size");
  EXPECT_EQ(place_of([](Parameters& p) { p.local_world_size = 0; }), "local_world_size");
  EXPECT_EQ(place_of([](Parameters& p) { p.hbm_mem_bw = 0; }), "hbm_mem_bw");
  EXPECT_EQ(place_of([](Parameters& p) { p.ddr_mem_bw = NAN; }), "ddr_mem_bw");
  EXPECT_EQ(place_of([](Parameters& p) { p.comms_bandwidths.inter_host_bw = -1; }),
            "comms_bandwidths.inter_host_bw");
  right.compute_kernel = ComputeKernel::kFusedUvm;
  right.compute_device = ComputeDevice::kCpu;
  const auto perfs = perf_func_emb_wall_time(default_cost_model(), right);
  ASSERT_FALSE(perfs);
  EXPECT_NE(perfs.error().message.find("fused_uvm"), std::string::npos);
}

}  // namespace
}  // namespace plimsoll::embedding
