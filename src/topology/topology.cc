// Making and describing topologies. Source: docs/mathematics/torchrec-planner.md#topology.
#include "plimsoll/topology/topology.h"

#include <fmt/format.h>

#include <cmath>
#include <utility>

#include "core/python_text.h"
#include "plimsoll/core/digest.h"

namespace plimsoll::topology {
namespace {

struct NamedDouble {
  std::string_view name;
  std::optional<double> value;
};

Result<void> check_bandwidth(std::string_view place, double value) {
  if (std::isfinite(value) && value > 0) return {};
  return fail(ErrorCode::kValue, std::string(place),
              fmt::format("bandwidth {} is not positive and finite", value),
              "give bytes per millisecond, or leave it out for the default");
}

Result<void> check_rule(std::size_t index, const CommsRule& rule) {
  const std::string place = fmt::format("comms_rules/{}", index);
  PLIMSOLL_RETURN_IF_ERROR(check_bandwidth(place, rule.bandwidth));
  const auto is_empty = [](std::optional<int> low, std::optional<int> high) {
    return low && high && *low > *high;
  };
  if (is_empty(rule.min_world_size, rule.max_world_size) ||
      is_empty(rule.min_local_world_size, rule.max_local_world_size)) {
    return fail(ErrorCode::kValue, place, "the rule never applies: a least size above the largest",
                "exchange the two, or drop the rule");
  }
  return {};
}

Result<void> check_numbers(const TopologySpec& spec) {
  for (const auto& [name, value] :
       {NamedDouble{"hbm_mem_bw", spec.hbm_mem_bw}, NamedDouble{"ddr_mem_bw", spec.ddr_mem_bw},
        NamedDouble{"ssd_mem_bw", spec.ssd_mem_bw},
        NamedDouble{"hbm_to_ddr_mem_bw", spec.hbm_to_ddr_mem_bw},
        NamedDouble{"intra_host_bw", spec.intra_host_bw},
        NamedDouble{"inter_host_bw", spec.inter_host_bw}}) {
    if (value) PLIMSOLL_RETURN_IF_ERROR(check_bandwidth(name, *value));
  }
  for (std::size_t i = 0; i < spec.comms_rules.size(); ++i) {
    PLIMSOLL_RETURN_IF_ERROR(check_rule(i, spec.comms_rules[i]));
  }
  for (const auto& [name, value] :
       {NamedDouble{"bwd_compute_multiplier", spec.bwd_compute_multiplier},
        NamedDouble{"weighted_feature_bwd_compute_multiplier",
                    spec.weighted_feature_bwd_compute_multiplier},
        NamedDouble{"uneven_sharding_perf_multiplier", spec.uneven_sharding_perf_multiplier}}) {
    if (value && !(std::isfinite(*value) && *value >= 0)) {
      return fail(ErrorCode::kValue, std::string(name),
                  fmt::format("multiplier {} is negative or not finite", *value),
                  "give a number from 0 on, or leave it out for the default");
    }
  }
  return {};
}

Result<void> check_sizes(const TopologySpec& spec) {
  if (spec.world_size < 1 || spec.world_size > kMaxWorldSize) {
    return fail(ErrorCode::kValue, "world_size",
                fmt::format("{} ranks are not between 1 and {}", spec.world_size, kMaxWorldSize),
                "give the number of ranks");
  }
  if (spec.local_world_size &&
      (*spec.local_world_size < 0 || *spec.local_world_size > kMaxWorldSize)) {
    return fail(ErrorCode::kValue, "local_world_size",
                fmt::format("{} ranks per host is not between 0 and {}", *spec.local_world_size,
                            kMaxWorldSize),
                "give the ranks per host, or leave it out for one host");
  }
  if (spec.pod_size && (*spec.pod_size < 0 || *spec.pod_size > spec.world_size)) {
    return fail(ErrorCode::kValue, "pod_size",
                fmt::format("{} hosts per pod is not between 0 and the {} ranks", *spec.pod_size,
                            spec.world_size),
                "give the hosts that share one fast domain, or leave it out for no pods");
  }
  return {};
}

// The caps of one tier: the list if there is one, else the scalar, else the default, for each rank.
Result<std::vector<Bytes>> make_caps(std::string_view tier, const TopologySpec& spec,
                                     std::optional<Bytes> scalar, const std::vector<Bytes>& list,
                                     Bytes otherwise, bool zero_is_default) {
  const auto world_size = static_cast<std::size_t>(spec.world_size);
  const auto refuse_negative = [](std::string place, Bytes cap) {
    return fail(ErrorCode::kValue, std::move(place), fmt::format("{} bytes is negative", cap),
                "give the bytes of one rank");
  };
  if (scalar && *scalar < 0) return refuse_negative(fmt::format("{}_cap", tier), *scalar);
  if (!list.empty() && list.size() != world_size) {
    return fail(ErrorCode::kValue, fmt::format("{}_caps", tier),
                fmt::format("{} caps for {} ranks", list.size(), world_size),
                "give one cap for each rank");
  }
  for (std::size_t rank = 0; rank < list.size(); ++rank) {
    if (list[rank] < 0) return refuse_negative(fmt::format("{}_caps/{}", tier, rank), list[rank]);
  }

  const Bytes everywhere = scalar && !(zero_is_default && *scalar == 0) ? *scalar : otherwise;
  std::vector<Bytes> caps = list.empty() ? std::vector<Bytes>(world_size, everywhere) : list;
  Bytes total = 0;
  for (const Bytes cap : caps) {
    if (__builtin_add_overflow(total, cap, &total)) {
      return fail(ErrorCode::kOverflow, fmt::format("{}_cap{}", tier, list.empty() ? "" : "s"),
                  "the caps of all ranks sum to more than 2^63 - 1 bytes",
                  "give the bytes of one rank, not of the cluster");
    }
  }
  return caps;
}

// All equal to 1 is what no speeds are.
Result<std::vector<double>> make_speeds(const TopologySpec& spec) {
  const std::vector<double>& speeds = spec.device_speeds;
  if (!speeds.empty() && speeds.size() != static_cast<std::size_t>(spec.world_size)) {
    return fail(ErrorCode::kValue, "device_speeds",
                fmt::format("{} speeds for {} ranks", speeds.size(), spec.world_size),
                "give one speed for each rank");
  }
  bool is_plain = true;
  for (std::size_t rank = 0; rank < speeds.size(); ++rank) {
    if (!(std::isfinite(speeds[rank]) && speeds[rank] > 0)) {
      return fail(ErrorCode::kValue, fmt::format("device_speeds/{}", rank),
                  fmt::format("speed {} is not positive and finite", speeds[rank]),
                  "give 1 for a rank that is as fast as the bandwidths say, 0.5 for half of that");
    }
    is_plain = is_plain && speeds[rank] == 1;
  }
  return is_plain ? std::vector<double>() : speeds;
}

std::string python_whole_or_float(double value) {
  if (value == std::trunc(value) && std::fabs(value) < 1e15) return fmt::format("{:.0f}", value);
  return python_repr(value);
}

}  // namespace

std::string_view to_string(ComputeDevice device) {
  switch (device) {
    case ComputeDevice::kCpu:
      return "cpu";
    case ComputeDevice::kCuda:
      return "cuda";
    case ComputeDevice::kMtia:
      return "mtia";
    case ComputeDevice::kTpu:
      return "tpu";
  }
  return "cuda";
}

std::optional<ComputeDevice> find_compute_device(std::string_view name) {
  for (const ComputeDevice device :
       {ComputeDevice::kCpu, ComputeDevice::kCuda, ComputeDevice::kMtia, ComputeDevice::kTpu}) {
    if (to_string(device) == name) return device;
  }
  return std::nullopt;
}

std::string_view to_string(Collective collective) {
  switch (collective) {
    case Collective::kAllToAll:
      return "all_to_all";
    case Collective::kReduceScatter:
      return "reduce_scatter";
    case Collective::kAllGather:
      return "all_gather";
    case Collective::kAllReduce:
      return "all_reduce";
  }
  return "all_to_all";
}

std::optional<Collective> find_collective(std::string_view name) {
  for (const Collective collective : {Collective::kAllToAll, Collective::kReduceScatter,
                                      Collective::kAllGather, Collective::kAllReduce}) {
    if (to_string(collective) == name) return collective;
  }
  return std::nullopt;
}

double Comms::bandwidth(int local_world_size, int world_size, Collective collective) const {
  if (custom) return custom(local_world_size, world_size, collective);
  const auto lies_between = [](int value, std::optional<int> low, std::optional<int> high) {
    return (!low || *low <= value) && (!high || value <= *high);
  };
  for (const CommsRule& rule : rules) {
    if ((!rule.collective || *rule.collective == collective) &&
        lies_between(world_size, rule.min_world_size, rule.max_world_size) &&
        lies_between(local_world_size, rule.min_local_world_size, rule.max_local_world_size)) {
      return rule.bandwidth;
    }
  }
  // The reference charges an all-reduce to one network card per rank even within one host.
  if (collective == Collective::kAllReduce) return inter_host_bw * local_world_size;
  return world_size <= local_world_size ? intra_host_bw : inter_host_bw;
}

Storage Topology::total_storage() const {
  Storage total;
  for (const Storage& device : devices) total += device;
  return total;
}

Result<Topology> make_topology(const TopologySpec& spec, bool zero_cap_is_default,
                               bool has_ssd_tier, bool mtia_has_hbm) {
  PLIMSOLL_RETURN_IF_ERROR(check_sizes(spec));
  PLIMSOLL_RETURN_IF_ERROR(check_numbers(spec));
  PLIMSOLL_ASSIGN(std::vector<Bytes> hbm, make_caps("hbm", spec, spec.hbm_cap, spec.hbm_caps,
                                                    kDefaultHbmCap, zero_cap_is_default));
  PLIMSOLL_ASSIGN(const std::vector<Bytes> ddr, make_caps("ddr", spec, spec.ddr_cap, spec.ddr_caps,
                                                          kDefaultDdrCap, zero_cap_is_default));
  PLIMSOLL_ASSIGN(std::vector<Bytes> ssd, make_caps("ssd", spec, spec.ssd_cap, spec.ssd_caps,
                                                    kDefaultSsdCap, zero_cap_is_default));
  PLIMSOLL_ASSIGN(std::vector<double> speeds, make_speeds(spec));
  const auto world_size = static_cast<std::size_t>(spec.world_size);
  const bool has_hbm = spec.compute_device != ComputeDevice::kCpu &&
                       (spec.compute_device != ComputeDevice::kMtia || mtia_has_hbm);
  if (!has_hbm && spec.hbm_caps.empty()) {
    hbm.assign(world_size, 0);
  }
  if (!has_ssd_tier) ssd.assign(world_size, 0);

  Topology topology;
  topology.name = spec.name;
  topology.world_size = spec.world_size;
  topology.local_world_size = spec.local_world_size.value_or(0);
  if (topology.local_world_size == 0) topology.local_world_size = spec.world_size;
  topology.pod_size = spec.pod_size.value_or(0);
  const auto group_size = std::int64_t{topology.pod_size} * topology.local_world_size;
  if (group_size > kMaxGroupSize) {
    return fail(ErrorCode::kOverflow, "pod_size",
                fmt::format("{} hosts of {} ranks are too many for one pod, which has at most {}",
                            topology.pod_size, topology.local_world_size, kMaxGroupSize),
                "give the hosts that share one fast domain, and the ranks of one host");
  }
  topology.compute_device = spec.compute_device;
  topology.devices.reserve(world_size);
  for (std::size_t rank = 0; rank < world_size; ++rank) {
    topology.devices.push_back({hbm[rank], ddr[rank], ssd[rank]});
  }
  topology.has_custom_hbm = !spec.hbm_caps.empty();
  topology.has_custom_ddr = !spec.ddr_caps.empty();
  topology.hbm_mem_bw = spec.hbm_mem_bw.value_or(topology.hbm_mem_bw);
  topology.ddr_mem_bw = spec.ddr_mem_bw.value_or(topology.ddr_mem_bw);
  topology.ssd_mem_bw = spec.ssd_mem_bw.value_or(topology.ssd_mem_bw);
  topology.hbm_to_ddr_mem_bw = spec.hbm_to_ddr_mem_bw.value_or(topology.hbm_to_ddr_mem_bw);
  topology.comms.intra_host_bw = spec.intra_host_bw.value_or(topology.comms.intra_host_bw);
  topology.comms.inter_host_bw = spec.inter_host_bw.value_or(topology.comms.inter_host_bw);
  topology.comms.rules = spec.comms_rules;
  topology.device_speeds = std::move(speeds);
  topology.bwd_compute_multiplier =
      spec.bwd_compute_multiplier.value_or(topology.bwd_compute_multiplier);
  topology.weighted_feature_bwd_compute_multiplier =
      spec.weighted_feature_bwd_compute_multiplier.value_or(
          topology.weighted_feature_bwd_compute_multiplier);
  topology.uneven_sharding_perf_multiplier =
      spec.uneven_sharding_perf_multiplier.value_or(topology.uneven_sharding_perf_multiplier);
  return topology;
}

std::vector<Warning> find_topology_warnings(const Topology& topology) {
  std::vector<Warning> warnings;
  const int world = topology.world_size;
  const int local = topology.local_world_size;
  const int group = topology.group_size();
  if (local > world) {
    warnings.push_back(
        {"host_exceeds_world", "",
         fmt::format("a host of {} ranks is larger than the {} ranks there are: no host is "
                     "complete, so nothing can be placed by host",
                     local, world)});
  } else if (world % local != 0) {
    warnings.push_back({"uneven_hosts", "",
                        fmt::format("hosts of {} ranks do not divide {} ranks: the last {} belong "
                                    "to no host",
                                    local, world, world % local)});
  }
  if (group != local && group > world) {
    warnings.push_back({"group_exceeds_world", "",
                        fmt::format("a pod of {} ranks is larger than the {} ranks there are: no "
                                    "pod is complete, so nothing can be placed by pod",
                                    group, world)});
  } else if (group != local && world % group != 0) {
    warnings.push_back(
        {"uneven_groups", "",
         fmt::format("pods of {} ranks do not divide {} ranks: the last {} belong to no pod", group,
                     world, world % group)});
  }

  const auto warn_of_zero = [&](std::string_view tier, Bytes Storage::*cap) {
    std::size_t num_zero = 0;
    std::size_t first = 0;
    for (std::size_t rank = topology.devices.size(); rank-- > 0;) {
      if (topology.devices[rank].*cap != 0) continue;
      ++num_zero;
      first = rank;
    }
    if (num_zero == 0) return;
    warnings.push_back(
        {fmt::format("zero_{}", tier), fmt::format("rank {}", first),
         fmt::format("{} of {} ranks have no {} at all", num_zero, topology.devices.size(), tier)});
  };
  if (topology.compute_device != ComputeDevice::kCpu) warn_of_zero("hbm", &Storage::hbm);
  warn_of_zero("ddr", &Storage::ddr);

  if (topology.comms.intra_host_bw < topology.comms.inter_host_bw) {
    warnings.push_back({"slow_intra_host", "",
                        fmt::format("ranks of one host exchange {} bytes/ms, slower than the {} "
                                    "bytes/ms between hosts",
                                    python_repr(topology.comms.intra_host_bw),
                                    python_repr(topology.comms.inter_host_bw))});
  }
  return warnings;
}

std::string topology_hash(const Topology& topology, bool has_ssd_tier) {
  std::vector<std::int64_t> hbm, ddr, ssd;
  for (const Storage& device : topology.devices) {
    hbm.push_back(device.hbm);
    ddr.push_back(device.ddr);
    ssd.push_back(device.ssd);
  }
  std::string text =
      fmt::format("[{}, '{}', {}, {}", topology.world_size, to_string(topology.compute_device),
                  python_list(hbm), python_list(ddr));
  if (has_ssd_tier) text += ", " + python_list(ssd);
  text += fmt::format(", {}", topology.local_world_size);
  if (has_ssd_tier) text += fmt::format(", {}", topology.group_size());
  text +=
      fmt::format(", {}, {}", python_repr(topology.hbm_mem_bw), python_repr(topology.ddr_mem_bw));
  if (has_ssd_tier) text += ", " + python_repr(topology.ssd_mem_bw);
  text += fmt::format(", {}, {}, {}, {}, {}, {}", python_repr(topology.hbm_to_ddr_mem_bw),
                      python_repr(topology.comms.intra_host_bw),
                      python_repr(topology.comms.inter_host_bw),
                      python_whole_or_float(topology.bwd_compute_multiplier),
                      python_whole_or_float(topology.weighted_feature_bwd_compute_multiplier),
                      python_repr(topology.uneven_sharding_perf_multiplier));
  for (std::size_t rank = 0; rank < topology.device_speeds.size(); ++rank) {
    text += (rank == 0 ? ", [" : ", ") + python_repr(topology.device_speeds[rank]);
  }
  text += topology.device_speeds.empty() ? "]" : "]]";
  return sha256_hex(text);
}

}  // namespace plimsoll::topology
