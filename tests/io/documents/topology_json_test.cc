#include "plimsoll/io/topology_json.h"

#include <gtest/gtest.h>

#include "io/expect_error.h"
#include "io/random_documents.h"

namespace plimsoll::io {
namespace {

using topology::TopologySpec;

bool are_equal(const TopologySpec& a, const TopologySpec& b) {
  const auto fields = [](const TopologySpec& s) {
    return std::tie(s.world_size, s.local_world_size, s.pod_size, s.compute_device, s.hbm_cap,
                    s.ddr_cap, s.ssd_cap, s.hbm_caps, s.ddr_caps, s.ssd_caps, s.hbm_mem_bw,
                    s.ddr_mem_bw, s.ssd_mem_bw, s.hbm_to_ddr_mem_bw, s.intra_host_bw,
                    s.inter_host_bw, s.comms_rules, s.device_speeds, s.bwd_compute_multiplier,
                    s.weighted_feature_bwd_compute_multiplier, s.uneven_sharding_perf_multiplier,
                    s.name);
  };
  return fields(a) == fields(b);
}

TEST(TopologyJson, ReadsBackWhatItWrote) {
  for (std::uint64_t seed = 0; seed < 300; ++seed) {
    SCOPED_TRACE(seed);
    Random random(seed);
    const TopologySpec spec = random_topology(random);
    const std::string text = write_topology(spec);
    const auto read = read_topology(text, "t.json");
    ASSERT_TRUE(read.has_value()) << format_error(read.error()) << "\n" << text;
    EXPECT_TRUE(are_equal(*read, spec)) << text;
  }
}

TEST(TopologyJson, ReadsUnits) {
  const auto spec = read_topology(
      R"({"world_size": 2, "hbm_cap": "80 GiB", "ddr_caps": ["1 GB", 7],
          "intra_host_bw": "600 GiB/s", "inter_host_bw": 13421772.8,
          "comms_rules": [{"collective": "all_reduce", "bandwidth": "400 Gbps"}]})",
      "t.json");
  ASSERT_TRUE(spec.has_value()) << format_error(spec.error());
  EXPECT_EQ(spec->hbm_cap, 80 * kGiB);
  EXPECT_EQ(spec->ddr_caps, (std::vector<Bytes>{1000000000, 7}));
  EXPECT_EQ(spec->intra_host_bw, topology::kDefaultIntraHostBw);
  EXPECT_EQ(spec->inter_host_bw, topology::kDefaultInterHostBw);
  ASSERT_EQ(spec->comms_rules.size(), 1u);
  EXPECT_EQ(spec->comms_rules[0].bandwidth, 5e7);
  EXPECT_EQ(spec->compute_device, topology::ComputeDevice::kCuda);
}

TEST(TopologyJson, PlacesErrors) {
  const auto expect = [](const std::string& fields, ErrorCode code, const std::string& pointer,
                         const std::string& text = "") {
    SCOPED_TRACE(fields);
    expect_error(read_topology(R"({"world_size": 4)" + fields + "}", "t.json"), code,
                 "t.json#" + pointer, text);
  };
  expect(R"(, "hbm_cap": 9223372036854775808)", ErrorCode::kOverflow, "/hbm_cap", "does not fit");
  expect(R"(, "hbm_cap": 18446744073709551616)", ErrorCode::kOverflow, "/hbm_cap", "does not fit");
  expect(R"(, "hbm_cap": "8388608 TiB")", ErrorCode::kOverflow, "/hbm_cap");
  expect(R"(, "hbm_cap": -1)", ErrorCode::kValue, "/hbm_cap", "at least 0");
  expect(R"(, "hbm_cap": "-1 GiB")", ErrorCode::kValue, "/hbm_cap", "negative");
  expect(R"(, "hbm_cap": 80.5)", ErrorCode::kSchema, "/hbm_cap", "80 GiB");
  expect(R"(, "hbm_caps": [1, 2, 3])", ErrorCode::kValue, "/hbm_caps", "3 entries for 4");
  expect(R"(, "ddr_caps": [1, 2, 3, -4])", ErrorCode::kValue, "/ddr_caps/3");
  expect(R"(, "device_speeds": [1, 2])", ErrorCode::kValue, "/device_speeds", "2 entries for 4");
  expect(R"(, "device_speeds": [1, -2, 1, 1])", ErrorCode::kValue, "/device_speeds/1");
  expect(R"(, "intra_host_bw": 0)", ErrorCode::kValue, "/intra_host_bw", "more than 0");
  expect(R"(, "intra_host_bw": "0 GB/s")", ErrorCode::kValue, "/intra_host_bw", "more than 0");
  expect(R"(, "intra_host_bw": "600 GiB")", ErrorCode::kValue, "/intra_host_bw");
  expect(R"(, "intra_host_bw": Infinity)", ErrorCode::kSyntax, "/intra_host_bw", "Infinity");
  expect(R"(, "intra_hots_bw": 1)", ErrorCode::kSchema, "/intra_hots_bw",
         "did you mean 'intra_host_bw'");
  expect(R"(, "compute_device": "cudda")", ErrorCode::kValue, "/compute_device",
         "did you mean 'cuda'");
  expect(R"(, "comms_rules": [{"collective": "all_reduce"}])", ErrorCode::kSchema, "/comms_rules/0",
         "'bandwidth' is missing");
  expect(R"(, "schema": "plimsoll.model/1")", ErrorCode::kSchema, "/schema");
  expect_error(read_topology("{}", "t.json"), ErrorCode::kSchema, "t.json#", "world_size");
  expect_error(read_topology(R"({"world_size": 0})", "t.json"), ErrorCode::kValue,
               "t.json#/world_size");
  expect_error(read_topology(R"({"world_size": 2000000000})", "t.json"), ErrorCode::kValue,
               "t.json#/world_size");
  expect_error(read_topology(R"({"world_size": 5000000000000})", "t.json"), ErrorCode::kValue,
               "t.json#/world_size");
}

}  // namespace
}  // namespace plimsoll::io
