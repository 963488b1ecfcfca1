// Devices in hosts in fast domains: what a model is loaded onto.
//
// Ranks 0..W-1; host h owns the ranks [h w, (h+1) w) of local_world_size w. A pod joins pod_size
// hosts into one fast group of G = pod_size w ranks (releases from 1.7; without pods G = w).
// Neither w nor G need divide W: the reference accepts uneven hosts, leftover ranks then belong to
// no host. Source: docs/mathematics/torchrec-planner.md#topology.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "plimsoll/core/outcome.h"
#include "plimsoll/core/result.h"
#include "plimsoll/topology/storage.h"

#pragma GCC visibility push(default)
namespace plimsoll::topology {

enum class ComputeDevice { kCpu, kCuda, kMtia, kTpu };
std::string_view to_string(ComputeDevice device);
std::optional<ComputeDevice> find_compute_device(std::string_view name);

enum class Collective { kAllToAll, kReduceScatter, kAllGather, kAllReduce };
std::string_view to_string(Collective collective);
std::optional<Collective> find_collective(std::string_view name);

// The reference's constants, bytes per millisecond; "GiB/s / 1000" as it writes them.
inline constexpr double kDefaultIntraHostBw = 600.0 * kGiB / 1000;
inline constexpr double kDefaultInterHostBw = 12.5 * kGiB / 1000;
inline constexpr double kDefaultHbmMemBw = 897.0 * kGiB / 1000;
inline constexpr double kDefaultDdrMemBw = 51.0 * kGiB / 1000;
inline constexpr double kDefaultSsdMemBw = 100.0 * kMiB / 1000;
inline constexpr double kDefaultHbmToDdrMemBw = 32.0 * kGiB / 1000;
inline constexpr Bytes kDefaultHbmCap = 32 * kGiB;
inline constexpr Bytes kDefaultDdrCap = 128 * kGiB;
inline constexpr Bytes kDefaultSsdCap = 2 * kTiB;

// Ours: a guard against typing errors and hostile files, far above any cluster.
inline constexpr int kMaxWorldSize = 1 << 20;
inline constexpr int kMaxGroupSize = 1 << 30;  // so that a rank of the next group is an int

// One line of a bandwidth table: applies when every given condition holds.
struct CommsRule {
  std::optional<Collective> collective;
  std::optional<int> min_world_size, max_world_size;              // of the group that communicates
  std::optional<int> min_local_world_size, max_local_world_size;  // ranks a host within that group
  double bandwidth = 0;                                           // > 0, bytes per millisecond
  bool operator==(const CommsRule&) const = default;
};

// Bandwidth of a collective. The basic rule of the reference: all_reduce runs at inter_host *
// local_world_size even within one host; otherwise intra_host if world_size <= local_world_size,
// else inter_host for the whole payload. A table of rules (first match wins) goes before it, a
// function of the caller before both.
struct Comms {
  double intra_host_bw = kDefaultIntraHostBw;  // > 0, bytes per millisecond
  double inter_host_bw = kDefaultInterHostBw;  // > 0
  std::vector<CommsRule> rules;
  std::function<double(int local_world_size, int world_size, Collective)> custom;

  double bandwidth(int local_world_size, int world_size, Collective collective) const;
};

struct Topology {
  std::string name;          // of the preset or file it came from, for reports; may be empty
  int world_size = 1;        // >= 1
  int local_world_size = 1;  // >= 1; ranks per host
  int pod_size = 0;          // hosts per fast group; 0: no pods
  ComputeDevice compute_device = ComputeDevice::kCuda;
  std::vector<Storage> devices;  // [world_size] caps per rank
  // Caps that the caller gave rank by rank: row-wise shards are then cut in proportion to them
  // (docs/mathematics/torchrec-planner.md#cutting-shards).
  bool has_custom_hbm = false;
  bool has_custom_ddr = false;
  double hbm_mem_bw = kDefaultHbmMemBw;              // > 0, bytes per millisecond, as all below
  double ddr_mem_bw = kDefaultDdrMemBw;              // > 0
  double ssd_mem_bw = kDefaultSsdMemBw;              // > 0
  double hbm_to_ddr_mem_bw = kDefaultHbmToDdrMemBw;  // > 0
  Comms comms;
  // How fast each rank's kernels run, as a multiple of what the memory bandwidths say. Ours: the
  // reference places tables as if all ranks were equally fast.
  std::vector<double> device_speeds;  // [world_size] > 0, or empty: all 1
  double bwd_compute_multiplier = 2;
  double weighted_feature_bwd_compute_multiplier = 1;
  double uneven_sharding_perf_multiplier =
      1.0;  // carried along; no formula of the reference reads it

  int group_size() const { return pod_size > 0 ? pod_size * local_world_size : local_world_size; }
  int num_hosts() const { return world_size / local_world_size; }
  int num_groups() const { return world_size / group_size(); }
  Storage total_storage() const;
};

// What a caller may say; absent means default. Caps of 0 mean "default" where `zero_cap_is_default`
// (releases before 1.7), else 0.
struct TopologySpec {
  int world_size = 0;
  std::optional<int> local_world_size;  // absent or 0: world_size
  std::optional<int> pod_size;          // absent or 0: no pods
  ComputeDevice compute_device = ComputeDevice::kCuda;
  std::optional<Bytes> hbm_cap, ddr_cap, ssd_cap;   // per rank
  std::vector<Bytes> hbm_caps, ddr_caps, ssd_caps;  // [world_size] or empty; win over the scalars
  std::optional<double> hbm_mem_bw, ddr_mem_bw, ssd_mem_bw, hbm_to_ddr_mem_bw;
  std::optional<double> intra_host_bw, inter_host_bw;
  std::vector<CommsRule> comms_rules;
  std::vector<double> device_speeds;  // [world_size] or empty
  std::optional<double> bwd_compute_multiplier, weighted_feature_bwd_compute_multiplier,
      uneven_sharding_perf_multiplier;
  std::string name;
};

// Error kValue: world_size < 1 or > kMaxWorldSize, local_world_size > kMaxWorldSize, a negative cap
// or size, a list of caps or speeds of another length, a speed that is not positive and finite,
// pod_size > world_size (the reference's own test; it lets pod_size * local_world_size exceed
// world_size), a bandwidth that is not positive and finite, a multiplier that is negative or not
// finite, a rule that can never apply. kOverflow: the caps of a tier do not sum in 63 bits, or the
// group size is above kMaxGroupSize. HBM of a cpu rank is 0 if it is not given rank by rank; ssd is
// 0 where `has_ssd_tier` is false. An mtia rank has the HBM of an accelerator, or, where
// `mtia_has_hbm` is false (release 1.2), that of a cpu. `place` of an error is the field's name
// ("hbm_caps/3").
Result<Topology> make_topology(const TopologySpec& spec, bool zero_cap_is_default,
                               bool has_ssd_tier, bool mtia_has_hbm = true);

// Warnings about legal oddities. Codes: "host_exceeds_world" (zero hosts), "uneven_hosts",
// "group_exceeds_world" (zero groups), "uneven_groups", "zero_hbm" (of an accelerator), "zero_ddr",
// "slow_intra_host" (intra slower than inter). `place` is the first such rank ("rank 3") where one
// is concerned.
std::vector<Warning> find_topology_warnings(const Topology& topology);

// The reference's hash of a topology (SHA-256 over its fields as Python prints them, and over
// device_speeds where there are any); from 1.7 it covers the ssd tier and the group size.
// Bandwidths print as floats, as the reference's defaults do; the two backward multipliers as
// integers where they are whole, since their defaults are Python integers.
std::string topology_hash(const Topology& topology, bool has_ssd_tier);

}  // namespace plimsoll::topology
#pragma GCC visibility pop
