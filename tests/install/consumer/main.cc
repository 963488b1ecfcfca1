// What a user of the installed package writes first. Exit code 0 iff every answer is the expected
// one.
#include <iostream>
#include <string_view>

#include "plimsoll/checkpoint.h"
#include "plimsoll/core.h"
#include "plimsoll/topology.h"

namespace {

bool expect(bool holds, std::string_view what) {
  if (!holds) std::cerr << "not so: " << what << '\n';
  return holds;
}

}  // namespace

int main() {
  bool right = expect(plimsoll::kVersion == std::string_view(PLIMSOLL_EXPECTED_VERSION),
                      "the header's version is the package's");

  const plimsoll::Result<plimsoll::Bytes> cap = plimsoll::parse_bytes("80 GiB");
  right &= expect(cap && *cap == 80 * plimsoll::kGiB, "80 GiB are 80 * 2^30 bytes");
  const plimsoll::Result<plimsoll::Bytes> nonsense = plimsoll::parse_bytes("many");
  right &= expect(!nonsense && nonsense.error().code == plimsoll::ErrorCode::kValue,
                  "nonsense is an error of code kValue");
  // The library brings what it is linked with, such as libsodium and Cbc.
  right &= expect(plimsoll::sha256_hex("").substr(0, 8) == "e3b0c442", "SHA-256 of nothing");
  right &= expect(!plimsoll::checkpoint::plan_like_sac_milp({}, {}),
                  "statistics without modules are refused");

  plimsoll::topology::TopologySpec spec;
  spec.world_size = 16;
  spec.local_world_size = 8;
  spec.hbm_cap = 80 * plimsoll::kGiB;
  const auto topology = plimsoll::topology::make_topology(spec, false, true);
  right &= expect(topology && topology->num_hosts() == 2, "16 ranks by 8 are two hosts");
  return right ? 0 : 1;
}
