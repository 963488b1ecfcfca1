#include "plimsoll/topology/machine.h"

#include <fmt/format.h>

#include <algorithm>

#include "plimsoll/topology/presets.h"
#include "topology/names.h"

namespace plimsoll::topology {
namespace {

constexpr int kRanksPerHost = 8;

template <class Preset>
const Preset* find(std::span<const Preset> presets, std::string_view id) {
  const auto found = std::find_if(presets.begin(), presets.end(),
                                  [id](const Preset& preset) { return preset.id == id; });
  return found == presets.end() ? nullptr : &*found;
}

}  // namespace

Result<std::string> name_machine(std::string_view kind, int ranks) {
  const std::string id = to_lower(kind);
  std::string name = fmt::format("{}x{}", ranks, kind);
  if (const HardwareNode* node = find(nodes(), id)) {
    name = ranks % node->num_accelerators == 0
               ? fmt::format("{}:{}", id, ranks / node->num_accelerators)
               : fmt::format("{}@{}", id, ranks);
  } else if (find(planner_presets(), id) != nullptr) {
    name = fmt::format("{}:{}", id, ranks);
  }
  PLIMSOLL_RETURN_IF_ERROR(find_preset(name));
  return name;
}

Result<std::vector<int>> machine_sizes(std::string_view kind, int most) {
  PLIMSOLL_RETURN_IF_ERROR(name_machine(kind, 1));
  const std::string id = to_lower(kind);
  const HardwareNode* node = find(nodes(), id);
  const PlannerPreset* preset = find(planner_presets(), id);
  const bool is_memory = !kind.empty() && kind.front() >= '0' && kind.front() <= '9';
  int host = most;
  int unit = 0;
  if (node != nullptr) {
    host = node->num_accelerators / node->num_hosts;
    unit = node->num_accelerators;
  } else if (preset != nullptr && preset->ranks_per_host > 0) {
    host = preset->ranks_per_host;
  } else if (is_memory) {
    host = kRanksPerHost;
  }
  unit = std::max(unit, host);
  std::vector<int> sizes;
  for (int ranks = 1; ranks <= std::min(host, most); ++ranks) sizes.push_back(ranks);
  for (int ranks = 2 * host; ranks <= std::min(unit, most); ranks += host) sizes.push_back(ranks);
  for (int ranks = 2 * unit; ranks <= most; ranks += unit) sizes.push_back(ranks);
  return sizes;
}

Result<std::string> kind_of_accelerator(std::string_view accelerator) {
  PLIMSOLL_ASSIGN(const TopologySpec one, find_preset(fmt::format("1x{}", accelerator)));
  const std::string id = one.name.substr(one.name.find('x') + 1);
  const auto all = nodes();
  const auto found = std::find_if(
      all.begin(), all.end(), [&id](const HardwareNode& node) { return node.accelerator == id; });
  return found == all.end() ? id : std::string(found->id);
}

}  // namespace plimsoll::topology
