#include "plimsoll/topology/presets.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <set>

namespace plimsoll::topology {
namespace {

using ::testing::HasSubstr;
using ::testing::IsEmpty;

const Accelerator& accelerator(std::string_view id) {
  return *std::ranges::find(accelerators(), id, &Accelerator::id);
}

TEST(PresetData, HasTwentyThreeAcceleratorsAndSeventeenNodesByDistinctNames) {
  EXPECT_EQ(accelerators().size(), 23u);
  EXPECT_EQ(nodes().size(), 17u);
  std::set<std::string_view> ids;
  for (const auto& preset : accelerators()) EXPECT_TRUE(ids.insert(preset.id).second) << preset.id;
  for (const auto& preset : nodes()) EXPECT_TRUE(ids.insert(preset.id).second) << preset.id;
  for (const auto& preset : planner_presets()) EXPECT_TRUE(ids.insert(preset.id).second);
  // Names of accelerators begin with a letter: "16x40GiB" can then only mean memory.
  for (const auto id : ids) EXPECT_TRUE(id.front() >= 'a' && id.front() <= 'z') << id;
}

TEST(PresetData, CitesASourceForEverything) {
  for (const auto& preset : accelerators()) EXPECT_FALSE(preset.source.empty()) << preset.id;
  for (const auto& preset : nodes()) EXPECT_FALSE(preset.source.empty()) << preset.id;
  for (const auto& preset : planner_presets()) EXPECT_FALSE(preset.source.empty()) << preset.id;
  EXPECT_EQ(to_string(PresetProvenance::kDocs), "docs");
  EXPECT_EQ(to_string(PresetProvenance::kRecalled), "recalled");
}

TEST(PresetData, CountsALinkBothWaysAsTwiceOneWay) {
  for (const Accelerator& preset : accelerators()) {
    SCOPED_TRACE(preset.id);
    EXPECT_EQ(preset.scaleup_link.empty(), !preset.scaleup_per_direction_gb_per_s.has_value());
    EXPECT_EQ(preset.scaleup_link.empty(), !preset.scaleup_bidirectional_gb_per_s.has_value());
    if (preset.scaleup_link.empty()) continue;
    EXPECT_EQ(*preset.scaleup_bidirectional_gb_per_s, 2 * *preset.scaleup_per_direction_gb_per_s);
  }
}

TEST(PresetData, KeepsUsableMemoryWithinNominalAndGibWithinRoundingOfGb) {
  for (const Accelerator& preset : accelerators()) {
    SCOPED_TRACE(preset.id);
    EXPECT_LE(preset.hbm_usable_gb.value_or(0), preset.hbm_nominal_gb);
    if (preset.hbm_nominal_gib) {
      EXPECT_NEAR(*preset.hbm_nominal_gib * 1.073741824, preset.hbm_nominal_gb, 0.1);
    }
  }
}

TEST(PresetData, SharesTheNetworkCardsAmongTheAccelerators) {
  for (const HardwareNode& node : nodes()) {
    SCOPED_TRACE(node.id);
    EXPECT_NE(std::ranges::find(accelerators(), node.accelerator, &Accelerator::id),
              accelerators().end());
    ASSERT_GT(node.num_hosts, 0);
    EXPECT_EQ(node.num_accelerators % node.num_hosts, 0);
    EXPECT_EQ(node.scaleout_per_direction_gb_per_s_per_accelerator,
              node.num_nics * node.nic_gbit_per_s / 8 / node.num_accelerators);
  }
}

TEST(FindPreset, MakesASoundTopologyOfEveryNode) {
  for (const HardwareNode& node : nodes()) {
    SCOPED_TRACE(node.id);
    for (int count = 1; count <= 2; ++count) {
      const auto spec = find_preset(std::string(node.id) + ":" + std::to_string(count));
      ASSERT_TRUE(spec.has_value());
      const auto topology = make_topology(*spec, false, true);
      ASSERT_TRUE(topology.has_value()) << format_error(topology.error());
      EXPECT_EQ(topology->world_size, node.num_accelerators * count);
      EXPECT_EQ(topology->num_hosts(), node.num_hosts * count);
      EXPECT_EQ(topology->num_groups(), count);
      EXPECT_THAT(find_topology_warnings(*topology), IsEmpty());
    }
  }
}

TEST(FindPreset, MakesASoundTopologyOfEveryAccelerator) {
  for (const Accelerator& preset : accelerators()) {
    SCOPED_TRACE(preset.id);
    const auto spec = find_preset("4x" + std::string(preset.id));
    ASSERT_TRUE(spec.has_value());
    EXPECT_EQ(spec->name, "4x" + std::string(preset.id));
    const auto topology = make_topology(*spec, false, true);
    ASSERT_TRUE(topology.has_value()) << format_error(topology.error());
    EXPECT_EQ(topology->world_size, 4);
    EXPECT_EQ(topology->local_world_size, 4);
    EXPECT_EQ(topology->pod_size, 0);
    EXPECT_THAT(find_topology_warnings(*topology), IsEmpty());
  }
}

// dgx-h100: 8 accelerators of 80 GB at 3350 GB/s, 2048 GB of DDR at 614 GB/s, NVLink 450 GB/s and
// PCIe 64 GB/s per direction, 50 GB/s of network each.
TEST(FindPreset, MapsANodeToARanksShare) {
  const TopologySpec spec = find_preset("dgx-h100:2").value();
  EXPECT_EQ(spec.name, "dgx-h100:2");
  EXPECT_EQ(spec.world_size, 16);
  EXPECT_EQ(spec.local_world_size, 8);
  EXPECT_EQ(spec.pod_size, std::nullopt);
  EXPECT_EQ(spec.compute_device, ComputeDevice::kCuda);
  EXPECT_EQ(spec.hbm_cap, 80'000'000'000);
  EXPECT_EQ(spec.ddr_cap, 256'000'000'000);
  EXPECT_EQ(spec.ssd_cap, std::nullopt);
  EXPECT_EQ(spec.hbm_mem_bw, 3350e6);
  EXPECT_EQ(spec.ddr_mem_bw, 76.75e6);
  EXPECT_EQ(spec.hbm_to_ddr_mem_bw, 64e6);
  EXPECT_EQ(spec.intra_host_bw, 450e6);
  EXPECT_EQ(spec.inter_host_bw, 50e6);
}

TEST(FindPreset, TakesOneNodeWhereNoCountIsGiven) {
  const TopologySpec spec = find_preset("dgx-a100-640gb").value();
  EXPECT_EQ(spec.name, "dgx-a100-640gb:1");
  EXPECT_EQ(spec.world_size, 8);
}

TEST(FindPreset, PutsTheHostsOfARackIntoOnePod) {
  const TopologySpec spec = find_preset("gb200-nvl72:2").value();
  EXPECT_EQ(spec.world_size, 144);
  EXPECT_EQ(spec.local_world_size, 4);
  EXPECT_EQ(spec.pod_size, 18);
  EXPECT_EQ(spec.ddr_cap, 240'000'000'000);
  EXPECT_EQ(spec.ddr_mem_bw, 256e6);
  EXPECT_EQ(spec.hbm_to_ddr_mem_bw, 450e6);
  const Topology topology = make_topology(spec, false, true).value();
  EXPECT_EQ(topology.group_size(), 72);
  EXPECT_EQ(topology.num_groups(), 2);
}

TEST(FindPreset, CountsUsableMemoryThenStatedGibThenNominalGb) {
  EXPECT_EQ(find_preset("dgx-b200")->hbm_cap, 179'000'000'000);
  EXPECT_EQ(accelerator("b200-sxm-180gb").hbm_nominal_gb, 180);
  EXPECT_EQ(find_preset("dgx-b300")->hbm_cap, 270'000'000'000);
  EXPECT_EQ(accelerator("b300-sxm-270gb").hbm_nominal_gb, 288);
  EXPECT_EQ(find_preset("tpu-v5p-host")->hbm_cap, 95 * kGiB);
  EXPECT_EQ(find_preset("4xtpu7x")->hbm_cap, 192 * kGiB);
  EXPECT_EQ(find_preset("tpu-v6e-host")->hbm_cap, 32 * kGiB);
  EXPECT_EQ(find_preset("tpu-v6e-host")->ddr_cap, 192 * kGiB);
  EXPECT_EQ(find_preset("dgx-h200")->hbm_cap, 141'000'000'000);
}

TEST(FindPreset, PlansTpusAsTpu) {
  EXPECT_EQ(find_preset("tpu-v5p-host")->compute_device, ComputeDevice::kTpu);
  EXPECT_EQ(find_preset("4xtpu-v4")->compute_device, ComputeDevice::kTpu);
}

TEST(FindPreset, LeavesToTheReferenceWhatNoSourceSays) {
  EXPECT_EQ(find_preset("tpu-v5p-host")->ddr_mem_bw, std::nullopt);
  const TopologySpec spec = find_preset("4xh100-sxm").value();
  EXPECT_EQ(spec.ddr_cap, std::nullopt);
  EXPECT_EQ(spec.ddr_mem_bw, std::nullopt);
  EXPECT_EQ(spec.inter_host_bw, std::nullopt);
}

TEST(FindPreset, PlansACpuServerByItsDdr) {
  const TopologySpec spec = find_preset("2xcpu").value();
  EXPECT_EQ(spec.compute_device, ComputeDevice::kCpu);
  EXPECT_EQ(spec.hbm_cap, std::nullopt);
  EXPECT_EQ(spec.hbm_mem_bw, std::nullopt);
  EXPECT_EQ(spec.hbm_to_ddr_mem_bw, std::nullopt);
  EXPECT_EQ(spec.ddr_mem_bw, 307e6);
  EXPECT_EQ(spec.intra_host_bw, 307e6);
  EXPECT_EQ(make_topology(spec, false, true)->total_storage().hbm, 0);
}

TEST(FindPreset, CrossesTheHostLinkWhereThereIsNoScaleUpLink) {
  const TopologySpec spec = find_preset("aliyun-gn7i-4xa10").value();
  EXPECT_EQ(spec.intra_host_bw, 32e6);
  EXPECT_EQ(spec.inter_host_bw, 0.78125e6);
}

TEST(FindPreset, FindsAnAcceleratorByAPrefixOfItsOwn) {
  const TopologySpec spec = find_preset("4xh100-sxm").value();
  EXPECT_EQ(spec.name, "4xh100-sxm5-80gb");
  EXPECT_EQ(spec.world_size, 4);
  EXPECT_EQ(spec.local_world_size, 4);
  EXPECT_EQ(spec.hbm_cap, 80'000'000'000);
  EXPECT_EQ(spec.intra_host_bw, 450e6);
  EXPECT_EQ(find_preset("4XH100-SXM")->name, "4xh100-sxm5-80gb");
}

TEST(FindPreset, PrefersAnExactNameToAPrefix) {
  EXPECT_EQ(find_preset("2xl4")->name, "2xl4");  // not l40s
  EXPECT_EQ(find_preset("2xl40")->name, "2xl40s");
}

TEST(FindPreset, NamesTheCandidatesOfAnAmbiguousPrefix) {
  const auto spec = find_preset("4xa100");
  ASSERT_FALSE(spec.has_value());
  EXPECT_EQ(spec.error().code, ErrorCode::kNotFound);
  EXPECT_THAT(spec.error().message, HasSubstr("a100-sxm4-40gb or a100-sxm4-80gb"));
}

TEST(FindPreset, ReadsRanksAndMemoryWithTheReferencesConstants) {
  const TopologySpec spec = find_preset("16x40GiB").value();
  EXPECT_EQ(spec.name, "16x40GiB");
  EXPECT_EQ(spec.local_world_size, 8);
  TopologySpec expected;
  expected.world_size = 16;
  expected.local_world_size = 8;
  expected.hbm_cap = 40 * kGiB;
  EXPECT_EQ(topology_hash(make_topology(spec, true, false).value(), false),
            topology_hash(make_topology(expected, true, false).value(), false));
  EXPECT_EQ(find_preset("4x80GB")->hbm_cap, 80'000'000'000);
  EXPECT_EQ(find_preset("4x80GB")->local_world_size, 4);
  EXPECT_EQ(find_preset("12x.5 TiB")->hbm_cap, kTiB / 2);
  EXPECT_EQ(find_preset("12x1TiB")->local_world_size, 8);
}

TEST(FindPreset, ReadsPlannerDefaults) {
  const TopologySpec spec = find_preset("torchrec-defaults:16").value();
  TopologySpec expected;
  expected.world_size = 16;
  EXPECT_EQ(topology_hash(make_topology(spec, true, false).value(), false),
            topology_hash(make_topology(expected, true, false).value(), false));
  EXPECT_EQ(spec.name, "torchrec-defaults:16");

  const TopologySpec sample = find_preset("recsys-examples-h100:16").value();
  EXPECT_EQ(sample.local_world_size, 8);
  EXPECT_EQ(sample.hbm_cap, 80'000'000'000);
  EXPECT_EQ(sample.ddr_cap, 64 * kGiB);
  EXPECT_EQ(sample.intra_host_bw, 450e6);
  EXPECT_EQ(sample.inter_host_bw, 25e6);
  EXPECT_EQ(sample.hbm_mem_bw, std::nullopt);
}

TEST(FindPreset, LetsOverridesWin) {
  const TopologySpec spec =
      find_preset("dgx-h100:2", {.local_world_size = 4, .pod_size = 2}).value();
  EXPECT_EQ(spec.local_world_size, 4);
  EXPECT_EQ(spec.pod_size, 2);
  EXPECT_EQ(spec.ddr_cap, 256'000'000'000);
  EXPECT_EQ(find_preset("16x40GiB", {.local_world_size = 2})->local_world_size, 2);
  EXPECT_EQ(find_preset("8xh100", {.local_world_size = 4})->local_world_size, 4);
  EXPECT_EQ(find_preset("torchrec-defaults:16", {.local_world_size = 4})->local_world_size, 4);
  EXPECT_EQ(find_preset("dgx-h100:2", {.local_world_size = 4})->pod_size, std::nullopt);
}

TEST(FindPreset, KeepsTheFastDomainOfARackWhenItsHostsAreRedrawn) {
  const TopologySpec spec = find_preset("gb200-nvl72", {.local_world_size = 2}).value();
  EXPECT_EQ(spec.local_world_size, 2);
  EXPECT_EQ(spec.pod_size, 36);
  EXPECT_EQ(find_preset("gb200-nvl72", {.pod_size = 0})->pod_size, 0);
  EXPECT_EQ(find_preset("gb200-nvl72", {.local_world_size = 5, .pod_size = 1})->pod_size, 1);
  EXPECT_EQ(find_preset("gb200-nvl72", {.local_world_size = 5}).error().code, ErrorCode::kUsage);
}

TEST(FindPreset, RefusesOverridesOutOfRange) {
  EXPECT_EQ(find_preset("dgx-h100", {.local_world_size = 0}).error().place, "local_world_size");
  EXPECT_EQ(find_preset("dgx-h100", {.local_world_size = -1}).error().code, ErrorCode::kUsage);
  EXPECT_EQ(find_preset("dgx-h100", {.pod_size = -1}).error().place, "pod_size");
  EXPECT_EQ(find_preset("dgx-h100", {.pod_size = -1}).error().code, ErrorCode::kUsage);
}

TEST(FindPreset, SuggestsTheNearestOfUnknownNames) {
  for (const auto& [on, remedy] : std::map<std::string, std::string>{
           {"dgx-h10:2", "did you mean 'dgx-h100'?"},
           {"dgx-h010", "did you mean 'dgx-h100'?"},
           {"torchrec-default:4", "did you mean 'torchrec-defaults'?"},
           {"4xh10-sxm5-80gb", "did you mean 'h100-sxm5-80gb'?"}}) {
    SCOPED_TRACE(on);
    const auto spec = find_preset(on);
    ASSERT_FALSE(spec.has_value());
    EXPECT_EQ(spec.error().code, ErrorCode::kNotFound);
    EXPECT_EQ(spec.error().remedy, remedy);
  }
  EXPECT_THAT(find_preset("").error().remedy, HasSubstr("known: dgx1-v100"));
  EXPECT_THAT(find_preset("4xwarehouse").error().remedy, HasSubstr("known: v100"));
  EXPECT_EQ(find_preset("x4").error().code, ErrorCode::kNotFound);
}

TEST(FindPreset, RefusesBadCountsNamingTheForms) {
  for (const char* on : {"dgx-h100:0",
                         "dgx-h100:",
                         "dgx-h100:two",
                         "dgx-h100:-1",
                         "dgx-h100:1.5",
                         "dgx-h100:2:3",
                         "dgx-h100: 2",
                         "dgx-h100:131073",
                         "dgx-h100:99999999999999999999",
                         "0xh100",
                         "-4xh100",
                         "1.5xh100",
                         "4x",
                         "1048577xt4",
                         "torchrec-defaults",
                         "torchrec-defaults:0",
                         "0x40GiB",
                         "16x40",
                         "16x0GiB",
                         "16x-40GiB",
                         "16x40Gb",
                         "16x40GiBB",
                         "16x40 bananas",
                         "4xdgx-h100",
                         "4xtorchrec-defaults",
                         "h100-sxm5-80gb",
                         "t4",
                         "t4:2"}) {
    SCOPED_TRACE(on);
    const auto spec = find_preset(on);
    ASSERT_FALSE(spec.has_value());
    EXPECT_EQ(spec.error().code, ErrorCode::kUsage);
    EXPECT_THAT(spec.error().message, HasSubstr(on));
    EXPECT_THAT(spec.error().remedy, HasSubstr("dgx-h100:2"));
    EXPECT_THAT(spec.error().remedy, HasSubstr("16x40GiB"));
  }
  EXPECT_TRUE(find_preset("dgx-h100:131072").has_value());
}

TEST(FindPreset, TellsHowToCountNodesAndAccelerators) {
  EXPECT_THAT(find_preset("4xdgx-h100").error().message, HasSubstr("write dgx-h100:4"));
  EXPECT_THAT(find_preset("h200").error().message, HasSubstr("8xh200-sxm5-141gb"));
}

class EasyrecOverrides : public ::testing::Test {
 protected:
  Result<void> apply() {
    return apply_easyrec_overrides(
        [this](std::string_view name) -> std::optional<std::string> {
          const auto found = environment_.find(std::string(name));
          if (found == environment_.end()) return std::nullopt;
          return found->second;
        },
        spec_);
  }

  std::map<std::string, std::string> environment_;
  TopologySpec spec_;
};

TEST_F(EasyrecOverrides, ReadBytesPerMillisecond) {
  environment_ = {{"INTRA_NODE_BANDWIDTH", "32212254.72"}, {"CROSS_NODE_BANDWIDTH", "3e6"}};
  ASSERT_TRUE(apply().has_value());
  EXPECT_EQ(spec_.intra_host_bw, 32212254.72);
  EXPECT_EQ(spec_.inter_host_bw, 3e6);
}

TEST_F(EasyrecOverrides, LeaveAloneWhatIsNotSet) {
  spec_.intra_host_bw = 7;
  ASSERT_TRUE(apply().has_value());
  EXPECT_EQ(spec_.intra_host_bw, 7);
  EXPECT_EQ(spec_.inter_host_bw, std::nullopt);
  environment_ = {{"CROSS_NODE_BANDWIDTH", "5"}};
  ASSERT_TRUE(apply().has_value());
  EXPECT_EQ(spec_.intra_host_bw, 7);
  EXPECT_EQ(spec_.inter_host_bw, 5);
}

TEST_F(EasyrecOverrides, RefuseWhatIsNoPositiveNumberAndChangeNothing) {
  for (const char* text : {"", "fast", "0", "-1", "nan", "inf", "30 GiB/s", "1e400", "5x"}) {
    SCOPED_TRACE(text);
    environment_ = {{"INTRA_NODE_BANDWIDTH", "5"}, {"CROSS_NODE_BANDWIDTH", text}};
    const auto applied = apply();
    ASSERT_FALSE(applied.has_value());
    EXPECT_EQ(applied.error().code, ErrorCode::kValue);
    EXPECT_EQ(applied.error().place, "CROSS_NODE_BANDWIDTH");
    EXPECT_EQ(spec_.intra_host_bw, std::nullopt);
    EXPECT_EQ(spec_.inter_host_bw, std::nullopt);
  }
}

}  // namespace
}  // namespace plimsoll::topology
