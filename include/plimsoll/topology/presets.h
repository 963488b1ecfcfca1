// Hardware that people plan for, by name: accelerators, nodes, and the constants of planners.
//
// Every field carries its unit. GB and GB/s are decimal (1e9 bytes), GiB binary (2^30), Gbit/s 1e9
// bits per second. Memory: `nominal` is what the vendor's sheet says, `usable` what a driver
// reports, a GiB field stands where the source counts in GiB. Links: `per_direction` is what one
// transfer sees, `bidirectional` what sheets advertise, twice as much. What a source does not say
// is absent, and the reference's default takes its place.
//
// From a node to a TopologySpec (per rank; one accelerator is one rank):
//   hbm_cap           usable GB if known, else the stated GiB, else the nominal GB
//   ddr_cap           the node's DDR / its accelerators
//   hbm_mem_bw        hbm_gb_per_s * 1e9 / 1000, as every rate: bytes per millisecond
//   ddr_mem_bw        the node's DDR rate / its accelerators
//   hbm_to_ddr_mem_bw the host link, per direction
//   intra_host_bw     the scale-up link, per direction; without one, transfers cross the host link
//   inter_host_bw     the scale-out network, per direction and accelerator
//   local_world_size  accelerators per host
//   pod_size          absent for a node of one host; a node of several hosts is one pod of them
// An accelerator named without a node gets the reference's defaults for DDR and scale-out, and a
// CPU server shares its DDR rate among its ranks, for transfers between them, too.
#pragma once

#include <functional>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "plimsoll/core/result.h"
#include "plimsoll/topology/topology.h"

#pragma GCC visibility push(default)
namespace plimsoll::topology {

// How far a preset's figures can be trusted.
enum class PresetProvenance {
  kDocs,      // read in a vendor's or a project's page, named in `source`; a part may be recalled
  kRecalled,  // from memory of a data sheet or a paper
};
std::string_view to_string(PresetProvenance provenance);

struct Accelerator {
  std::string_view id = {};
  ComputeDevice compute_device = ComputeDevice::kCuda;
  double hbm_nominal_gb = 0;  // 0: none
  std::optional<double> hbm_usable_gb = {};
  std::optional<double> hbm_nominal_gib = {};  // where the source counts in GiB; hbm_nominal_gb is
                                               // then the same, rounded
  std::optional<double> hbm_gb_per_s = {};
  std::string_view scaleup_link = {};  // empty: none
  std::optional<double> scaleup_bidirectional_gb_per_s = {};
  std::optional<double> scaleup_per_direction_gb_per_s = {};
  std::string_view host_link = {};  // empty: none
  std::optional<double> host_per_direction_gb_per_s = {};
  std::optional<double> ddr_gb_per_s = {};  // of a CPU server
  double bf16_dense_tflops = 0;
  std::optional<int> sparsecores = {};
  PresetProvenance provenance = PresetProvenance::kRecalled;
  std::string_view source = {};
  std::string_view note = {};
};

struct HardwareNode {
  std::string_view id = {};
  std::string_view accelerator = {};  // id of an Accelerator
  int num_accelerators = 0;           // of all hosts together
  int num_hosts = 1;                  // divides num_accelerators; all of them share one fast domain
  double ddr_nominal_gb = 0;          // of all hosts together
  std::optional<double> ddr_gib = {};       // where the source counts in GiB
  std::optional<double> ddr_gb_per_s = {};  // of all hosts together
  int num_nics = 0;
  double nic_gbit_per_s = 0;                                   // of each, per direction
  double scaleout_per_direction_gb_per_s_per_accelerator = 0;  // num_nics * nic / 8 / accelerators
  PresetProvenance provenance = PresetProvenance::kRecalled;
  std::string_view source = {};
  std::string_view note = {};
};

// The constants of a planner's set-up. Caps are per rank.
struct PlannerPreset {
  std::string_view id = {};
  int ranks_per_host = 0;  // at most; 0: all ranks in one host
  std::optional<double> hbm_cap_gb = {}, hbm_cap_gib = {}, ddr_cap_gib = {};
  std::optional<double> hbm_mem_gib_per_s = {}, ddr_mem_gib_per_s = {}, hbm_to_ddr_gib_per_s = {};
  std::optional<double> intra_host_gb_per_s = {}, intra_host_gib_per_s = {};  // per direction
  std::optional<double> inter_host_gb_per_s = {}, inter_host_gib_per_s = {};  // per direction
  std::string_view source = {};
};

std::span<const Accelerator> accelerators();
std::span<const HardwareNode> nodes();
std::span<const PlannerPreset> planner_presets();

// What wins over a preset. Absent: the preset's own.
struct PresetOverrides {
  std::optional<int> local_world_size = {};  // >= 1; of a node of several hosts it redraws the
                                             // hosts, so it must divide the node's accelerators
  std::optional<int> pod_size = {};          // >= 0; 0: no pods
};

// The hardware that `on` names, in one of four forms (letter case of names is ignored):
//   dgx-h100:2             a node preset, how many of them (1 if left out)
//   4xh100-sxm             ranks x accelerator, by its id or a prefix that no other id shares; all
//                          in one host with the accelerator's scale-up link
//   16x40GiB               ranks x memory of each (parse_bytes, with a unit): `torchrec-defaults`
//                          with that memory, in hosts of min(8, ranks)
//   torchrec-defaults:16   a planner preset, how many ranks
// `name` of the spec is `on` with the names in full. Error kNotFound with a suggestion for an
// unknown or ambiguous name; kUsage, naming the form, for a bad count, memory or override.
Result<TopologySpec> find_preset(std::string_view on, const PresetOverrides& overrides = {});

// The ranks of a host share its DDR equally, as TorchEasyRec counts it: sets ddr_cap, in place of
// ddr_caps, to `bytes` / local_world_size in double precision, rounded down.
void share_host_memory(Bytes bytes, TopologySpec& spec);

// TorchEasyRec's environment variables INTRA_NODE_BANDWIDTH and CROSS_NODE_BANDWIDTH: plain
// numbers, bytes per millisecond, in place of intra_host_bw and inter_host_bw. `environment` looks
// a variable up. Error kValue, the variable as its place, where one is not a positive finite
// number; the spec is then unchanged. Source: docs/embedding.md#torcheasyrec.
Result<void> apply_easyrec_overrides(
    const std::function<std::optional<std::string>(std::string_view)>& environment,
    TopologySpec& spec);

}  // namespace plimsoll::topology
#pragma GCC visibility pop
