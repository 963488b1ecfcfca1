#include "plimsoll/topology/topology.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>
#include <limits>

namespace plimsoll::topology {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

constexpr double kNan = std::numeric_limits<double>::quiet_NaN();
constexpr double kInfinity = std::numeric_limits<double>::infinity();
constexpr Bytes kMaxBytes = std::numeric_limits<Bytes>::max();

TopologySpec make_spec(int world_size, ComputeDevice device = ComputeDevice::kCuda) {
  TopologySpec spec;
  spec.world_size = world_size;
  spec.compute_device = device;
  return spec;
}

// As the releases before 1.7 and from 1.7 on read a topology spec.
Result<Topology> make_old(const TopologySpec& spec) { return make_topology(spec, true, false); }
Result<Topology> make_new(const TopologySpec& spec) { return make_topology(spec, false, true); }

std::vector<std::string> warning_codes(const TopologySpec& spec) {
  std::vector<std::string> codes;
  for (const Warning& warning : find_topology_warnings(make_new(spec).value())) {
    EXPECT_FALSE(warning.message.empty());
    codes.push_back(warning.code);
  }
  return codes;
}

TEST(ComputeDevice, TravelsByName) {
  for (const auto device :
       {ComputeDevice::kCpu, ComputeDevice::kCuda, ComputeDevice::kMtia, ComputeDevice::kTpu}) {
    EXPECT_EQ(find_compute_device(to_string(device)), device);
  }
  EXPECT_EQ(to_string(ComputeDevice::kCpu), "cpu");
  EXPECT_EQ(to_string(ComputeDevice::kCuda), "cuda");
  EXPECT_EQ(to_string(ComputeDevice::kMtia), "mtia");
  EXPECT_EQ(to_string(ComputeDevice::kTpu), "tpu");
  EXPECT_EQ(find_compute_device("gpu"), std::nullopt);
}

TEST(Collective, TravelsByName) {
  for (const auto collective : {Collective::kAllToAll, Collective::kReduceScatter,
                                Collective::kAllGather, Collective::kAllReduce}) {
    EXPECT_EQ(find_collective(to_string(collective)), collective);
  }
  EXPECT_EQ(to_string(Collective::kAllToAll), "all_to_all");
  EXPECT_EQ(to_string(Collective::kReduceScatter), "reduce_scatter");
  EXPECT_EQ(to_string(Collective::kAllGather), "all_gather");
  EXPECT_EQ(to_string(Collective::kAllReduce), "all_reduce");
  EXPECT_EQ(find_collective("broadcast"), std::nullopt);
}

TEST(Constants, AreTheReferencesToTheLastBit) {
  EXPECT_EQ(kDefaultIntraHostBw, 644245094.4);
  EXPECT_EQ(kDefaultInterHostBw, 13421772.8);
  EXPECT_EQ(kDefaultHbmMemBw, 963146416.128);
  EXPECT_EQ(kDefaultDdrMemBw, 54760833.024);
  EXPECT_EQ(kDefaultSsdMemBw, 104857.6);
  EXPECT_EQ(kDefaultHbmToDdrMemBw, 34359738.368);
  EXPECT_EQ(kDefaultHbmCap, 34359738368);
  EXPECT_EQ(kDefaultDdrCap, 137438953472);
  EXPECT_EQ(kDefaultSsdCap, 2199023255552);
}

TEST(MakeTopology, FillsInTheReferencesDefaults) {
  const Topology topology = make_new(make_spec(2)).value();
  EXPECT_EQ(topology.world_size, 2);
  EXPECT_EQ(topology.local_world_size, 2);
  EXPECT_EQ(topology.pod_size, 0);
  const Storage device{kDefaultHbmCap, kDefaultDdrCap, kDefaultSsdCap};
  EXPECT_THAT(topology.devices, ElementsAre(device, device));
  EXPECT_FALSE(topology.has_custom_hbm);
  EXPECT_FALSE(topology.has_custom_ddr);
  EXPECT_EQ(topology.hbm_mem_bw, kDefaultHbmMemBw);
  EXPECT_EQ(topology.ddr_mem_bw, kDefaultDdrMemBw);
  EXPECT_EQ(topology.ssd_mem_bw, kDefaultSsdMemBw);
  EXPECT_EQ(topology.hbm_to_ddr_mem_bw, kDefaultHbmToDdrMemBw);
  EXPECT_EQ(topology.comms.intra_host_bw, kDefaultIntraHostBw);
  EXPECT_EQ(topology.comms.inter_host_bw, kDefaultInterHostBw);
  EXPECT_EQ(topology.bwd_compute_multiplier, 2);
  EXPECT_EQ(topology.weighted_feature_bwd_compute_multiplier, 1);
  EXPECT_EQ(topology.uneven_sharding_perf_multiplier, 1);
}

TEST(MakeTopology, TakesWhatTheCallerSays) {
  TopologySpec spec = make_spec(8, ComputeDevice::kMtia);
  spec.local_world_size = 2;
  spec.pod_size = 2;
  spec.hbm_cap = 1;
  spec.ddr_cap = 2;
  spec.ssd_cap = 3;
  spec.hbm_mem_bw = 10;
  spec.ddr_mem_bw = 11;
  spec.ssd_mem_bw = 12;
  spec.hbm_to_ddr_mem_bw = 13;
  spec.intra_host_bw = 14;
  spec.inter_host_bw = 15;
  spec.bwd_compute_multiplier = 16;
  spec.weighted_feature_bwd_compute_multiplier = 17;
  spec.uneven_sharding_perf_multiplier = 18;
  spec.comms_rules = {{.collective = Collective::kAllReduce,
                       .min_world_size = {},
                       .max_world_size = {},
                       .min_local_world_size = {},
                       .max_local_world_size = {},
                       .bandwidth = 19}};
  spec.name = "mine";
  const Topology topology = make_new(spec).value();
  EXPECT_EQ(topology.name, "mine");
  EXPECT_EQ(topology.compute_device, ComputeDevice::kMtia);
  EXPECT_EQ(topology.local_world_size, 2);
  EXPECT_EQ(topology.pod_size, 2);
  EXPECT_EQ(topology.group_size(), 4);
  EXPECT_EQ(topology.num_hosts(), 4);
  EXPECT_EQ(topology.num_groups(), 2);
  EXPECT_EQ(topology.devices, (std::vector<Storage>(8, Storage{1, 2, 3})));
  EXPECT_EQ(topology.total_storage(), (Storage{8, 16, 24}));
  EXPECT_EQ(topology.hbm_mem_bw, 10);
  EXPECT_EQ(topology.ddr_mem_bw, 11);
  EXPECT_EQ(topology.ssd_mem_bw, 12);
  EXPECT_EQ(topology.hbm_to_ddr_mem_bw, 13);
  EXPECT_EQ(topology.comms.intra_host_bw, 14);
  EXPECT_EQ(topology.comms.inter_host_bw, 15);
  EXPECT_EQ(topology.bwd_compute_multiplier, 16);
  EXPECT_EQ(topology.weighted_feature_bwd_compute_multiplier, 17);
  EXPECT_EQ(topology.uneven_sharding_perf_multiplier, 18);
  EXPECT_EQ(topology.comms.rules, spec.comms_rules);
}

TEST(MakeTopology, ReadsALocalWorldSizeOfZeroAsOneHost) {
  TopologySpec spec = make_spec(6);
  spec.local_world_size = 0;
  EXPECT_EQ(make_new(spec).value().local_world_size, 6);
}

TEST(MakeTopology, ReadsAPodSizeOfZeroAsNoPods) {
  TopologySpec spec = make_spec(6);
  spec.local_world_size = 2;
  spec.pod_size = 0;
  EXPECT_EQ(make_new(spec).value().group_size(), 2);
}

TEST(MakeTopology, ReadsAZeroCapAsDefaultOnlyWhereTheReleaseDoes) {
  TopologySpec spec = make_spec(1);
  spec.hbm_cap = 0;
  spec.ddr_cap = 0;
  spec.ssd_cap = 0;
  EXPECT_THAT(make_old(spec).value().devices,
              ElementsAre(Storage{kDefaultHbmCap, kDefaultDdrCap, 0}));
  EXPECT_THAT(make_new(spec).value().devices, ElementsAre(Storage{0, 0, 0}));
}

TEST(MakeTopology, LetsAListOfCapsWinAndKeepsItsZeros) {
  TopologySpec spec = make_spec(2);
  spec.hbm_cap = 7;
  spec.hbm_caps = {5, 0};
  spec.ddr_caps = {0, 9};
  spec.ssd_caps = {1, 2};
  const Topology topology = make_old(spec).value();
  EXPECT_THAT(topology.devices, ElementsAre(Storage{5, 0, 0}, Storage{0, 9, 0}));
  EXPECT_TRUE(topology.has_custom_hbm);
  EXPECT_TRUE(topology.has_custom_ddr);
  EXPECT_THAT(make_new(spec).value().devices, ElementsAre(Storage{5, 0, 1}, Storage{0, 9, 2}));
}

TEST(MakeTopology, KeepsSpeedsThatDiffer) {
  TopologySpec spec = make_spec(2);
  spec.device_speeds = {1, 0.5};
  const Topology topology = make_new(spec).value();
  EXPECT_EQ(topology.device_speeds, spec.device_speeds);
  spec.device_speeds = {1, 1};
  const Topology plain = make_new(spec).value();
  EXPECT_THAT(plain.device_speeds, IsEmpty());
  EXPECT_EQ(topology_hash(plain, true), topology_hash(make_new(make_spec(2)).value(), true));
  EXPECT_NE(topology_hash(plain, true), topology_hash(topology, true));
}

TEST(MakeTopology, GivesACpuRankNoHbmUnlessGivenRankByRank) {
  TopologySpec spec = make_spec(2, ComputeDevice::kCpu);
  spec.hbm_cap = 100;
  EXPECT_EQ(make_new(spec).value().total_storage().hbm, 0);
  spec.hbm_caps = {3, 4};
  EXPECT_EQ(make_new(spec).value().total_storage().hbm, 7);
}

TEST(MakeTopology, GivesEveryAcceleratorHbm) {
  for (const auto device : {ComputeDevice::kCuda, ComputeDevice::kMtia, ComputeDevice::kTpu}) {
    EXPECT_EQ(make_new(make_spec(1, device)).value().total_storage().hbm, kDefaultHbmCap);
  }
}

TEST(MakeTopology, GivesAnMtiaTheHostsMemoryWhereTheReleaseDoes) {
  TopologySpec spec;
  spec.world_size = 2;
  spec.compute_device = ComputeDevice::kMtia;
  spec.hbm_cap = kGiB;
  EXPECT_EQ(make_topology(spec, true, false, true)->devices[0].hbm, kGiB);
  EXPECT_EQ(make_topology(spec, true, false, false)->devices[0].hbm, 0);
  spec.hbm_caps = {1, 2};
  EXPECT_EQ(make_topology(spec, true, false, false)->devices[1].hbm, 2);
  spec.compute_device = ComputeDevice::kCuda;
  spec.hbm_caps.clear();
  EXPECT_EQ(make_topology(spec, true, false, false)->devices[0].hbm, kGiB);
}

TEST(MakeTopology, HasNoSsdWhereTheReleaseHasNoSuchTier) {
  TopologySpec spec = make_spec(1);
  spec.ssd_cap = 100;
  EXPECT_EQ(make_old(spec).value().devices[0].ssd, 0);
  spec.ssd_caps = {100};
  EXPECT_EQ(make_old(spec).value().devices[0].ssd, 0);
}

TEST(MakeTopology, AcceptsUnevenHostsAndPodsAsTheReferenceDoes) {
  TopologySpec spec = make_spec(4);
  spec.local_world_size = 3;
  EXPECT_EQ(make_new(spec).value().num_hosts(), 1);
  spec.local_world_size = 8;
  EXPECT_EQ(make_new(spec).value().num_hosts(), 0);
  spec.local_world_size = 2;
  spec.pod_size = 4;
  EXPECT_EQ(make_new(spec).value().num_groups(), 0);
}

TEST(MakeTopology, RefusesBadValuesAndNamesTheirPlace) {
  struct Case {
    const char* place;
    std::function<void(TopologySpec&)> spoil;
    ErrorCode code = ErrorCode::kValue;
  };
  const std::vector<Case> cases = {
      {"world_size", [](TopologySpec& spec) { spec.world_size = 0; }},
      {"world_size", [](TopologySpec& spec) { spec.world_size = -1; }},
      {"world_size", [](TopologySpec& spec) { spec.world_size = kMaxWorldSize + 1; }},
      {"local_world_size", [](TopologySpec& spec) { spec.local_world_size = -1; }},
      {"local_world_size", [](TopologySpec& spec) { spec.local_world_size = kMaxWorldSize + 1; }},
      {"pod_size", [](TopologySpec& spec) { spec.pod_size = -1; }},
      {"pod_size", [](TopologySpec& spec) { spec.pod_size = 5; }},
      {"pod_size",
       [](TopologySpec& spec) {
         spec.world_size = spec.local_world_size.emplace(kMaxWorldSize);
         spec.pod_size = kMaxGroupSize / kMaxWorldSize + 1;
       },
       ErrorCode::kOverflow},
      {"hbm_cap", [](TopologySpec& spec) { spec.hbm_cap = -1; }},
      {"ddr_cap", [](TopologySpec& spec) { spec.ddr_cap = -1; }},
      {"ssd_cap", [](TopologySpec& spec) { spec.ssd_cap = -1; }},
      {"hbm_cap", [](TopologySpec& spec) { spec.hbm_cap = kMaxBytes; }, ErrorCode::kOverflow},
      {"ddr_caps",
       [](TopologySpec& spec) {
         spec.ddr_caps = {kMaxBytes, 0, 0, 1};
       },
       ErrorCode::kOverflow},
      {"hbm_caps",
       [](TopologySpec& spec) {
         spec.hbm_caps = {1, 2, 3};
       }},
      {"ddr_caps",
       [](TopologySpec& spec) {
         spec.ddr_caps = {1, 2, 3, 4, 5};
       }},
      {"hbm_caps/2",
       [](TopologySpec& spec) {
         spec.hbm_caps = {1, 2, -3, 4};
       }},
      {"ssd_caps/0",
       [](TopologySpec& spec) {
         spec.ssd_caps = {-1, 2, 3, 4};
       }},
      {"device_speeds",
       [](TopologySpec& spec) {
         spec.device_speeds = {1, 2, 3};
       }},
      {"device_speeds/3",
       [](TopologySpec& spec) {
         spec.device_speeds = {1, 2, 3, 0};
       }},
      {"device_speeds/1",
       [](TopologySpec& spec) {
         spec.device_speeds = {1, kInfinity, 1, 1};
       }},
      {"hbm_mem_bw", [](TopologySpec& spec) { spec.hbm_mem_bw = 0; }},
      {"ddr_mem_bw", [](TopologySpec& spec) { spec.ddr_mem_bw = -1; }},
      {"ssd_mem_bw", [](TopologySpec& spec) { spec.ssd_mem_bw = kNan; }},
      {"hbm_to_ddr_mem_bw", [](TopologySpec& spec) { spec.hbm_to_ddr_mem_bw = kInfinity; }},
      {"intra_host_bw", [](TopologySpec& spec) { spec.intra_host_bw = 0; }},
      {"inter_host_bw", [](TopologySpec& spec) { spec.inter_host_bw = 0; }},
      {"bwd_compute_multiplier", [](TopologySpec& spec) { spec.bwd_compute_multiplier = kNan; }},
      {"weighted_feature_bwd_compute_multiplier",
       [](TopologySpec& spec) { spec.weighted_feature_bwd_compute_multiplier = -1; }},
      {"uneven_sharding_perf_multiplier",
       [](TopologySpec& spec) { spec.uneven_sharding_perf_multiplier = kInfinity; }},
      {"comms_rules/1",
       [](TopologySpec& spec) {
         spec.comms_rules.resize(2);
         spec.comms_rules[0].bandwidth = 1;
       }},
      {"comms_rules/0",
       [](TopologySpec& spec) {
         spec.comms_rules.resize(1);
         spec.comms_rules[0].bandwidth = 1;
         spec.comms_rules[0].min_world_size = 3;
         spec.comms_rules[0].max_world_size = 2;
       }},
      {"comms_rules/0",
       [](TopologySpec& spec) {
         spec.comms_rules.resize(1);
         spec.comms_rules[0].bandwidth = 1;
         spec.comms_rules[0].min_local_world_size = 3;
         spec.comms_rules[0].max_local_world_size = 2;
       }},
  };
  for (std::size_t i = 0; i < cases.size(); ++i) {
    SCOPED_TRACE(i);
    TopologySpec spec = make_spec(4);
    cases[i].spoil(spec);
    const auto topology = make_new(spec);
    ASSERT_FALSE(topology.has_value());
    EXPECT_EQ(topology.error().code, cases[i].code);
    EXPECT_EQ(topology.error().place, cases[i].place);
    EXPECT_FALSE(topology.error().message.empty());
    EXPECT_FALSE(topology.error().remedy.empty());
  }
}

TEST(MakeTopology, AcceptsTheBoundariesOfEachRange) {
  TopologySpec spec = make_spec(4);
  spec.pod_size = 4;
  spec.ddr_caps = {std::numeric_limits<Bytes>::max(), 0, 0, 0};
  spec.bwd_compute_multiplier = 0;
  spec.comms_rules.resize(1);
  spec.comms_rules[0].bandwidth = 1;
  spec.comms_rules[0].min_world_size = spec.comms_rules[0].max_world_size = 2;
  EXPECT_TRUE(make_new(spec).has_value());
  EXPECT_TRUE(make_new(make_spec(1)).has_value());
  EXPECT_TRUE(make_new(make_spec(kMaxWorldSize)).has_value());
}

Comms make_comms() {
  Comms comms;
  comms.intra_host_bw = 100;
  comms.inter_host_bw = 10;
  return comms;
}

TEST(Comms, IsFastWithinAHostAndSlowBeyondIt) {
  for (const auto collective :
       {Collective::kAllToAll, Collective::kReduceScatter, Collective::kAllGather}) {
    EXPECT_EQ(make_comms().bandwidth(4, 3, collective), 100);
    EXPECT_EQ(make_comms().bandwidth(4, 4, collective), 100);
    EXPECT_EQ(make_comms().bandwidth(4, 5, collective), 10);
  }
}

TEST(Comms, RunsAllReduceOverOneCardPerRankEvenInsideAHost) {
  EXPECT_EQ(make_comms().bandwidth(4, 4, Collective::kAllReduce), 40);
  EXPECT_EQ(make_comms().bandwidth(4, 16, Collective::kAllReduce), 40);
}

TEST(Comms, TakesTheFirstRuleWhoseConditionsAllHold) {
  Comms comms = make_comms();
  comms.rules.resize(3);
  comms.rules[0].collective = Collective::kAllToAll;
  comms.rules[0].min_world_size = 8;
  comms.rules[0].max_world_size = 16;
  comms.rules[0].min_local_world_size = 2;
  comms.rules[0].max_local_world_size = 4;
  comms.rules[0].bandwidth = 1;
  comms.rules[1].min_world_size = 16;
  comms.rules[1].bandwidth = 2;
  comms.rules[2].max_local_world_size = 1;
  comms.rules[2].bandwidth = 3;
  EXPECT_EQ(comms.bandwidth(2, 8, Collective::kAllToAll), 1);
  EXPECT_EQ(comms.bandwidth(4, 16, Collective::kAllToAll), 1);
  EXPECT_EQ(comms.bandwidth(2, 8, Collective::kAllGather), 10);
  EXPECT_EQ(comms.bandwidth(2, 7, Collective::kAllToAll), 10);
  EXPECT_EQ(comms.bandwidth(2, 17, Collective::kAllToAll), 2);
  EXPECT_EQ(comms.bandwidth(5, 16, Collective::kAllToAll), 2);
  EXPECT_EQ(comms.bandwidth(1, 8, Collective::kAllToAll), 3);
  EXPECT_EQ(comms.bandwidth(4, 16, Collective::kAllReduce), 2);
}

TEST(Comms, AsksTheCallersFunctionBeforeAllElse) {
  Comms comms = make_comms();
  comms.rules.resize(1);
  comms.rules[0].bandwidth = 1;
  comms.custom = [](int local_world_size, int world_size, Collective collective) {
    return local_world_size + 10 * world_size + (collective == Collective::kAllReduce ? 100.0 : 0);
  };
  EXPECT_EQ(comms.bandwidth(2, 3, Collective::kAllReduce), 132);
  EXPECT_EQ(comms.bandwidth(2, 3, Collective::kAllGather), 32);
}

TEST(FindTopologyWarnings, IsSilentAboutAnOrdinaryCluster) {
  TopologySpec spec = make_spec(16);
  spec.local_world_size = 4;
  spec.pod_size = 2;
  EXPECT_THAT(warning_codes(spec), IsEmpty());
  EXPECT_THAT(warning_codes(make_spec(2, ComputeDevice::kCpu)), IsEmpty());
}

TEST(FindTopologyWarnings, NamesUnevenHosts) {
  TopologySpec spec = make_spec(16);
  spec.local_world_size = 6;
  EXPECT_THAT(warning_codes(spec), ElementsAre("uneven_hosts"));
  spec.local_world_size = 17;
  EXPECT_THAT(warning_codes(spec), ElementsAre("host_exceeds_world"));
}

TEST(FindTopologyWarnings, NamesUnevenPods) {
  TopologySpec spec = make_spec(16);
  spec.local_world_size = 4;
  spec.pod_size = 3;
  EXPECT_THAT(warning_codes(spec), ElementsAre("uneven_groups"));
  spec.pod_size = 5;
  EXPECT_THAT(warning_codes(spec), ElementsAre("group_exceeds_world"));
}

TEST(FindTopologyWarnings, NamesTheFirstRankWithoutMemory) {
  TopologySpec spec = make_spec(3);
  spec.hbm_caps = {1, 0, 0};
  spec.ddr_caps = {1, 1, 0};
  const auto warnings = find_topology_warnings(make_new(spec).value());
  ASSERT_EQ(warnings.size(), 2u);
  EXPECT_EQ(warnings[0].code, "zero_hbm");
  EXPECT_EQ(warnings[0].place, "rank 1");
  EXPECT_EQ(warnings[0].message, "2 of 3 ranks have no hbm at all");
  EXPECT_EQ(warnings[1].code, "zero_ddr");
  EXPECT_EQ(warnings[1].place, "rank 2");
}

TEST(FindTopologyWarnings, NamesHostsThatAreSlowInside) {
  TopologySpec spec = make_spec(2);
  spec.intra_host_bw = 9;
  spec.inter_host_bw = 10;
  EXPECT_THAT(warning_codes(spec), ElementsAre("slow_intra_host"));
  spec.intra_host_bw = 10;
  EXPECT_THAT(warning_codes(spec), IsEmpty());
}

// The hashes below: from executing torchrec 1.4.0 (no ssd tier) and 1.9.2.

TEST(TopologyHash, AgreesWithTheReferenceOnDefaults) {
  TopologySpec spec = make_spec(2);
  spec.hbm_cap = 2 * kMiB;
  EXPECT_EQ(topology_hash(make_old(spec).value(), false),
            "d9a9714f221132e6a7103614af4fbc7214b852f0bb681a2c25f159883ee89503");
  EXPECT_EQ(topology_hash(make_new(spec).value(), true),
            "5dca8010d95e7bafac1036216eed407e4ae7a1c92604fafd1178e5dfbb097fdf");
}

TEST(TopologyHash, AgreesWithTheReferenceOnMultipliers) {
  TopologySpec spec = make_spec(3, ComputeDevice::kCpu);
  spec.local_world_size = 2;
  spec.bwd_compute_multiplier = 2.5;
  spec.weighted_feature_bwd_compute_multiplier = 1.5;
  spec.uneven_sharding_perf_multiplier = 1.25;
  EXPECT_EQ(topology_hash(make_old(spec).value(), false),
            "03741b660b903b55cfdac2008dfd5cc658961a1b872673cc15e8a066d776706b");
  EXPECT_EQ(topology_hash(make_new(spec).value(), true),
            "2e01f62e288b4448e9e5dac9db5fd05850b7483aa19815e770a705d8616c17dd");
}

TEST(TopologyHash, AgreesWithTheReferenceOnCustomCapsAndBandwidths) {
  TopologySpec spec = make_spec(2, ComputeDevice::kMtia);
  spec.hbm_caps = {5, 0};
  spec.ddr_caps = {0, 9};
  spec.hbm_mem_bw = 1e16;
  spec.ddr_mem_bw = 0.00001;
  spec.intra_host_bw = 123456.789;
  spec.inter_host_bw = 1;
  EXPECT_EQ(topology_hash(make_old(spec).value(), false),
            "209990e2213ab3a15d6725fbfc023d8d7e91322fb8432e4017cdce0ff93a66ef");
  EXPECT_EQ(topology_hash(make_new(spec).value(), true),
            "1f79089f811b1086aa878ad99ede74c1239bed6d2076f542a07414e6c7094373");
}

TEST(TopologyHash, AgreesWithTheReferenceOnZeroCaps) {
  TopologySpec spec = make_spec(2);
  spec.hbm_cap = 0;
  spec.ddr_cap = 0;
  EXPECT_EQ(topology_hash(make_old(spec).value(), false),
            "1e8abda1c3ecf70ae62476dc87512c776f34a6392e485c8f4d586866f28dcc91");
  EXPECT_EQ(topology_hash(make_new(spec).value(), true),
            "8d1d122405abc8c8a6c02e9dfe8161fe9ad97ebdd069e80b52439b381c75aab8");
}

TEST(TopologyHash, AgreesWithTheReferenceOnHostsLargerThanTheWorld) {
  TopologySpec spec = make_spec(2);
  spec.local_world_size = 4;
  EXPECT_EQ(topology_hash(make_old(spec).value(), false),
            "3d9b2189b6b772ef4ea5cf303dc90d1b976fb64df0d74d5373512e7f60298174");
  EXPECT_EQ(topology_hash(make_new(spec).value(), true),
            "ad2dd197060c8dd08563fa2e45b37f2175f0b596f02316c993e8ffadb9d5b726");
}

TEST(TopologyHash, AgreesWithTheReferenceOnPods) {
  TopologySpec spec = make_spec(4);
  spec.local_world_size = 1;
  spec.pod_size = 2;
  EXPECT_EQ(topology_hash(make_new(spec).value(), true),
            "9d37991c3a9aaa403abb29fe75ea4502f471ab3ee381639506464219a0522c15");
  spec.local_world_size = 2;
  spec.pod_size = 4;  // eight ranks in a pod, four in the world: accepted
  EXPECT_EQ(topology_hash(make_new(spec).value(), true),
            "29d902ea81ec08c1d308810bfb031ccef381ffd4a1fc5216bb2159dc609b07f7");
}

TEST(TopologyHash, AgreesWithTheReferenceOnSsdAndTpu) {
  TopologySpec spec = make_spec(4, ComputeDevice::kTpu);
  spec.ssd_cap = 7;
  spec.ssd_mem_bw = 3.5e6;
  EXPECT_EQ(topology_hash(make_new(spec).value(), true),
            "00b3b304fd67c33e08c73586e454a9111246737a56c5e98a5ac3c4626e7b9466");
}

}  // namespace
}  // namespace plimsoll::topology
