// The little language of `--on`, and what its names mean as a topology.
#include "plimsoll/topology/presets.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <vector>

#include "core/suggest.h"
#include "plimsoll/core/checked.h"
#include "plimsoll/core/units.h"
#include "topology/names.h"

namespace plimsoll::topology {
namespace {

constexpr int kRanksPerHostOfPlainMemory = 8;
constexpr std::string_view kForms =
    "write a node (dgx-h100:2; dgx-h100@4 for four of its ranks), ranks and an accelerator "
    "(4xh100-sxm), ranks and memory "
    "(16x40GiB), or a planner's defaults (torchrec-defaults:16)";

double to_bytes_per_ms(double gb_per_s) { return gb_per_s * 1e9 / 1000; }
double gib_to_bytes_per_ms(double gib_per_s) {
  return gib_per_s * static_cast<double>(kGiB) / 1000;  // the reference's order
}
std::optional<double> to_bytes_per_ms(std::optional<double> gb_per_s) {
  if (!gb_per_s) return std::nullopt;
  return to_bytes_per_ms(*gb_per_s);
}
Bytes gb_to_bytes(double gb) { return std::llround(gb * 1e9); }
Bytes gib_to_bytes(double gib) { return std::llround(gib * static_cast<double>(kGiB)); }

Bytes hbm_bytes(const Accelerator& accelerator) {
  if (accelerator.hbm_usable_gb) return gb_to_bytes(*accelerator.hbm_usable_gb);
  if (accelerator.hbm_nominal_gib) return gib_to_bytes(*accelerator.hbm_nominal_gib);
  return gb_to_bytes(accelerator.hbm_nominal_gb);
}

template <class Preset>
const Preset* find_by_id(std::span<const Preset> presets, std::string_view id) {
  const auto found = std::ranges::find(presets, id, &Preset::id);
  return found == presets.end() ? nullptr : &*found;
}

template <class Preset>
void append_ids(std::span<const Preset> presets, std::vector<std::string>& ids) {
  for (const Preset& preset : presets) ids.emplace_back(preset.id);
}

tl::unexpected<Error> refuse(std::string_view on, std::string_view why) {
  return fail(ErrorCode::kUsage, "", fmt::format("'{}': {}", on, why), std::string(kForms));
}

// A count of ranks or nodes, each of them `ranks_each` ranks.
Result<int> parse_count(std::string_view on, std::string_view text, int ranks_each) {
  int count = 0;
  const char* end = text.data() + text.size();
  const auto [stop, error] = std::from_chars(text.data(), end, count);
  if (error != std::errc{} || stop != end || count < 1 || count > kMaxWorldSize / ranks_each) {
    return refuse(
        on, fmt::format("'{}' is not a count from 1 to {}", text, kMaxWorldSize / ranks_each));
  }
  return count;
}

Result<const Accelerator*> find_accelerator(std::string_view name) {
  if (const Accelerator* exact = find_by_id(accelerators(), name)) return exact;
  std::vector<std::string> matches;
  const Accelerator* match = nullptr;
  for (const Accelerator& accelerator : accelerators()) {
    if (!accelerator.id.starts_with(name)) continue;
    matches.emplace_back(accelerator.id);
    match = &accelerator;
  }
  if (matches.size() == 1) return match;
  if (!matches.empty()) {
    return fail(ErrorCode::kNotFound, "",
                fmt::format("accelerator '{}' could be {}", name, fmt::join(matches, " or ")),
                "write more of the name");
  }
  std::vector<std::string> ids;
  append_ids(accelerators(), ids);
  return fail(ErrorCode::kNotFound, "", fmt::format("no accelerator is called '{}'", name),
              suggest(name, ids));
}

// What an accelerator says of one rank, on a server of `ranks_per_server` ranks.
TopologySpec make_rank_spec(const Accelerator& accelerator, int ranks_per_server) {
  TopologySpec spec;
  spec.compute_device = accelerator.compute_device;
  if (accelerator.compute_device != ComputeDevice::kCpu) spec.hbm_cap = hbm_bytes(accelerator);
  spec.hbm_mem_bw = to_bytes_per_ms(accelerator.hbm_gb_per_s);
  spec.hbm_to_ddr_mem_bw = to_bytes_per_ms(accelerator.host_per_direction_gb_per_s);
  spec.intra_host_bw = to_bytes_per_ms(accelerator.scaleup_per_direction_gb_per_s);
  if (!spec.intra_host_bw) spec.intra_host_bw = spec.hbm_to_ddr_mem_bw;
  if (accelerator.ddr_gb_per_s) {
    spec.ddr_mem_bw = to_bytes_per_ms(*accelerator.ddr_gb_per_s / ranks_per_server);
    if (!spec.intra_host_bw) spec.intra_host_bw = spec.ddr_mem_bw;
  }
  return spec;
}

Result<TopologySpec> make_node_spec(std::string_view on, const HardwareNode& node, int count,
                                    const PresetOverrides& overrides) {
  const Accelerator& accelerator = *find_by_id(accelerators(), node.accelerator);
  TopologySpec spec = make_rank_spec(accelerator, node.num_accelerators);
  const Bytes ddr = node.ddr_gib ? gib_to_bytes(*node.ddr_gib) : gb_to_bytes(node.ddr_nominal_gb);
  spec.ddr_cap = ddr / node.num_accelerators;
  if (node.ddr_gb_per_s) {
    spec.ddr_mem_bw = to_bytes_per_ms(*node.ddr_gb_per_s / node.num_accelerators);
  }
  spec.inter_host_bw = to_bytes_per_ms(node.scaleout_per_direction_gb_per_s_per_accelerator);
  spec.world_size = node.num_accelerators * count;
  spec.local_world_size =
      overrides.local_world_size.value_or(node.num_accelerators / node.num_hosts);
  if (node.num_hosts > 1 && !overrides.pod_size) {
    // The fast domain stays what it is, however many ranks run on each of its hosts.
    if (node.num_accelerators % *spec.local_world_size != 0) {
      return refuse(on, fmt::format("hosts of {} ranks do not divide the {} accelerators of {}",
                                    *spec.local_world_size, node.num_accelerators, node.id));
    }
    spec.pod_size = node.num_accelerators / *spec.local_world_size;
  }
  spec.name = fmt::format("{}:{}", node.id, count);
  return spec;
}

TopologySpec make_planner_spec(const PlannerPreset& preset, int ranks) {
  const auto rate = [](std::optional<double> gb, std::optional<double> gib) {
    std::optional<double> bytes_per_ms;
    if (gb) bytes_per_ms = to_bytes_per_ms(*gb);
    if (gib) bytes_per_ms = gib_to_bytes_per_ms(*gib);
    return bytes_per_ms;
  };
  TopologySpec spec;
  spec.world_size = ranks;
  spec.local_world_size =
      preset.ranks_per_host > 0 ? std::min(preset.ranks_per_host, ranks) : ranks;
  if (preset.hbm_cap_gb) spec.hbm_cap = gb_to_bytes(*preset.hbm_cap_gb);
  if (preset.hbm_cap_gib) spec.hbm_cap = gib_to_bytes(*preset.hbm_cap_gib);
  if (preset.ddr_cap_gib) spec.ddr_cap = gib_to_bytes(*preset.ddr_cap_gib);
  spec.hbm_mem_bw = rate(std::nullopt, preset.hbm_mem_gib_per_s);
  spec.ddr_mem_bw = rate(std::nullopt, preset.ddr_mem_gib_per_s);
  spec.hbm_to_ddr_mem_bw = rate(std::nullopt, preset.hbm_to_ddr_gib_per_s);
  spec.intra_host_bw = rate(preset.intra_host_gb_per_s, preset.intra_host_gib_per_s);
  spec.inter_host_bw = rate(preset.inter_host_gb_per_s, preset.inter_host_gib_per_s);
  spec.name = fmt::format("{}:{}", preset.id, ranks);
  return spec;
}

// "4xh100-sxm" and "16x40GiB": `what` is the part behind the "x".
Result<TopologySpec> find_counted(std::string_view on, std::string_view count,
                                  std::string_view what) {
  PLIMSOLL_ASSIGN(const int ranks, parse_count(on, count, 1));
  if (what.empty()) return refuse(on, "nothing follows the 'x'");
  const bool is_memory = (what.front() >= '0' && what.front() <= '9') ||
                         std::string_view("+-.").find(what.front()) != std::string_view::npos;
  if (is_memory) {
    // Without a unit it would be bytes, which nobody means here.
    if (what.find_first_not_of("0123456789.+-eE") == std::string_view::npos) {
      return refuse(on, fmt::format("the memory '{}' needs a unit", what));
    }
    const Result<Bytes> memory = parse_bytes(what);
    if (!memory) return refuse(on, memory.error().message);
    if (*memory == 0) return refuse(on, "a rank needs memory");
    TopologySpec spec =
        make_planner_spec(*find_by_id(planner_presets(), "torchrec-defaults"), ranks);
    spec.hbm_cap = *memory;
    spec.local_world_size = std::min(kRanksPerHostOfPlainMemory, ranks);
    spec.name = fmt::format("{}x{}", ranks, what);
    return spec;
  }
  const std::string name = to_lower(what);
  if (find_by_id(nodes(), name) != nullptr || find_by_id(planner_presets(), name) != nullptr) {
    return refuse(on, fmt::format("write {}:{}", name, ranks));
  }
  PLIMSOLL_ASSIGN(const Accelerator* accelerator, find_accelerator(name));
  TopologySpec spec = make_rank_spec(*accelerator, ranks);
  spec.world_size = ranks;
  spec.local_world_size = ranks;
  spec.name = fmt::format("{}x{}", ranks, accelerator->id);
  return spec;
}

// "dgx-h100", "dgx-h100:2" and "torchrec-defaults:16"; `count` is absent without a colon.
Result<TopologySpec> find_named(std::string_view on, std::string_view name,
                                std::optional<std::string_view> count,
                                const PresetOverrides& overrides) {
  if (const HardwareNode* node = find_by_id(nodes(), name)) {
    PLIMSOLL_ASSIGN(const int num_nodes,
                    parse_count(on, count.value_or("1"), node->num_accelerators));
    return make_node_spec(on, *node, num_nodes, overrides);
  }
  if (const PlannerPreset* preset = find_by_id(planner_presets(), name)) {
    if (!count) return refuse(on, "the number of ranks is missing");
    PLIMSOLL_ASSIGN(const int ranks, parse_count(on, *count, 1));
    return make_planner_spec(*preset, ranks);
  }
  if (const auto accelerator = find_accelerator(name)) {
    return refuse(on,
                  fmt::format("an accelerator needs a count before it: 8x{}", (*accelerator)->id));
  }
  std::vector<std::string> ids;
  append_ids(nodes(), ids);
  append_ids(planner_presets(), ids);
  return fail(ErrorCode::kNotFound, "", fmt::format("no node or preset is called '{}'", name),
              suggest(name, ids));
}

// "dgx-h100@4": so many ranks of nodes, in whole hosts or within one.
Result<TopologySpec> find_part(std::string_view on, std::string_view name, std::string_view count,
                               const PresetOverrides& overrides) {
  const HardwareNode* node = find_by_id(nodes(), name);
  if (node == nullptr) return refuse(on, fmt::format("'{}' is not a node", name));
  PLIMSOLL_ASSIGN(const int ranks, parse_count(on, count, 1));
  const int whole = (ranks + node->num_accelerators - 1) / node->num_accelerators;
  PLIMSOLL_ASSIGN(TopologySpec spec, make_node_spec(on, *node, whole, overrides));
  const int host = std::min(*spec.local_world_size, ranks);
  if (ranks % host != 0) {
    return refuse(on, fmt::format("{} ranks do not fill hosts of {}", ranks, host));
  }
  spec.world_size = ranks;
  spec.local_world_size = host;
  if (spec.pod_size) spec.pod_size = std::min(*spec.pod_size, ranks / host);
  spec.name = fmt::format("{}@{}", node->id, ranks);
  return spec;
}

// "4" of "4xh100" and "-1.5" of "-1.5x40GiB": names never look like that.
bool looks_like_number(std::string_view text) {
  return !text.empty() && text.find_first_not_of("+-.0123456789") == std::string_view::npos;
}

Result<TopologySpec> parse_on(std::string_view on, const PresetOverrides& overrides) {
  if (const std::size_t x = on.find_first_of("xX");
      x != std::string_view::npos && looks_like_number(on.substr(0, x))) {
    return find_counted(on, on.substr(0, x), on.substr(x + 1));
  }
  if (const std::size_t at = on.find('@'); at != std::string_view::npos) {
    return find_part(on, to_lower(on.substr(0, at)), on.substr(at + 1), overrides);
  }
  const std::size_t colon = on.find(':');
  std::optional<std::string_view> count;
  if (colon != std::string_view::npos) count = on.substr(colon + 1);
  return find_named(on, to_lower(on.substr(0, colon)), count, overrides);
}

Result<std::optional<double>> parse_easyrec_bandwidth(std::string_view variable,
                                                      const std::optional<std::string>& text) {
  if (!text) return std::nullopt;
  double value = 0;
  const char* end = text->data() + text->size();
  const auto [stop, error] = std::from_chars(text->data(), end, value);
  if (error != std::errc{} || stop != end || !std::isfinite(value) || value <= 0) {
    return fail(ErrorCode::kValue, std::string(variable),
                fmt::format("'{}' is not a positive number", *text),
                "give plain bytes per millisecond, like 13421772.8, or unset it");
  }
  return value;
}

}  // namespace

std::string_view to_string(PresetProvenance provenance) {
  switch (provenance) {
    case PresetProvenance::kDocs:
      return "docs";
    case PresetProvenance::kRecalled:
      return "recalled";
  }
  return "recalled";
}

Result<TopologySpec> find_preset(std::string_view on, const PresetOverrides& overrides) {
  if (overrides.local_world_size &&
      (*overrides.local_world_size < 1 || *overrides.local_world_size > kMaxWorldSize)) {
    return fail(ErrorCode::kUsage, "local_world_size",
                fmt::format("{} ranks per host is not between 1 and {}",
                            *overrides.local_world_size, kMaxWorldSize),
                "give the ranks of one host");
  }
  if (overrides.pod_size && *overrides.pod_size < 0) {
    return fail(ErrorCode::kUsage, "pod_size",
                fmt::format("{} hosts per pod is negative", *overrides.pod_size),
                "give the hosts of one fast domain, or 0 for no pods");
  }
  PLIMSOLL_ASSIGN(TopologySpec spec, parse_on(on, overrides));
  if (overrides.local_world_size) spec.local_world_size = overrides.local_world_size;
  if (overrides.pod_size) spec.pod_size = overrides.pod_size;
  return spec;
}

void share_host_memory(Bytes bytes, TopologySpec& spec) {
  const int ranks =
      spec.local_world_size.value_or(0) > 0 ? *spec.local_world_size : spec.world_size;
  if (ranks < 1) return;                                              // make_topology refuses it
  spec.ddr_cap = saturated_cast(static_cast<double>(bytes) / ranks);  // as Python divides
  spec.ddr_caps.clear();
}

Result<void> apply_easyrec_overrides(
    const std::function<std::optional<std::string>(std::string_view)>& environment,
    TopologySpec& spec) {
  constexpr std::string_view kIntra = "INTRA_NODE_BANDWIDTH";
  constexpr std::string_view kInter = "CROSS_NODE_BANDWIDTH";
  PLIMSOLL_ASSIGN(const std::optional<double> intra,
                  parse_easyrec_bandwidth(kIntra, environment(kIntra)));
  PLIMSOLL_ASSIGN(const std::optional<double> inter,
                  parse_easyrec_bandwidth(kInter, environment(kInter)));
  if (intra) spec.intra_host_bw = intra;
  if (inter) spec.inter_host_bw = inter;
  return {};
}

}  // namespace plimsoll::topology
