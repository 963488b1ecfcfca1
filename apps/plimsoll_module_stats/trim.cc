#include "trim.h"

#include <set>
#include <string>
#include <utility>
#include <vector>

namespace plimsoll::module_stats {
namespace {

using checkpoint::ModuleInfo;
using checkpoint::ModuleStats;

// The longest name of another module that `fqn` extends; empty for the root.
std::string parent_of(std::string fqn, const std::set<std::string>& names) {
  do {
    const std::size_t dot = fqn.rfind('.');
    if (dot == std::string::npos) return "";
    fqn.resize(dot);
  } while (!names.contains(fqn));
  return fqn;
}

}  // namespace

void drop_inner_leaves(ModuleStats& stats) {
  std::set<std::string> names, has_inner_child;
  for (const ModuleInfo& module : stats.mod_stats) names.insert(module.fqn);
  for (const ModuleInfo& module : stats.mod_stats) {
    if (!module.is_leaf) has_inner_child.insert(parent_of(module.fqn, names));
  }
  std::set<std::string> dropped;
  for (const ModuleInfo& module : stats.mod_stats) {
    if (module.is_leaf && !has_inner_child.contains(parent_of(module.fqn, names))) {
      dropped.insert(module.fqn);
    }
  }
  std::erase_if(stats.mod_stats,
                [&](const ModuleInfo& module) { return dropped.contains(module.fqn); });
  checkpoint::ModuleOrder& order = stats.mod_order;
  for (std::vector<std::string>* list :
       {&order.fw_pre_order, &order.fw_post_order, &order.bw_pre_order, &order.bw_post_order}) {
    std::erase_if(*list, [&](const std::string& fqn) { return dropped.contains(fqn); });
  }
}

void drop_long_tables(ModuleStats& stats, std::size_t max_operators) {
  std::vector<int> renumbered(stats.sac_stats.size(), -1);
  std::vector<checkpoint::SACStats> kept;
  for (std::size_t i = 0; i < stats.sac_stats.size(); ++i) {
    if (stats.sac_stats[i].func_names.size() > max_operators) continue;
    renumbered[i] = static_cast<int>(kept.size());
    kept.push_back(std::move(stats.sac_stats[i]));
  }
  stats.sac_stats = std::move(kept);
  for (auto entry = stats.sac_stats_of.begin(); entry != stats.sac_stats_of.end();) {
    entry->second = renumbered[static_cast<std::size_t>(entry->second)];
    entry = entry->second < 0 ? stats.sac_stats_of.erase(entry) : std::next(entry);
  }
}

}  // namespace plimsoll::module_stats
