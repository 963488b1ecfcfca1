#include <algorithm>
#include <set>
#include <string_view>
#include <unordered_map>

#include "io/export/export_text.h"
#include "io/export/placement_exports.h"

namespace plimsoll::io {

using partition::OperatorGraph;
using partition::OperatorNode;

namespace {

constexpr int kNowhere = -1;
constexpr int kMixed = -2;

int combine(int a, int b) {
  if (a == kNowhere || a == b) return b;
  return b == kNowhere ? a : kMixed;
}

class DeviceMapMaker {
 public:
  DeviceMapMaker(const OperatorGraph& graph, const std::vector<int>& device)
      : graph_(graph), device_(device), original_(partition::tied_weights(graph)) {}

  Result<DeviceMap> make() {
    PLIMSOLL_RETURN_IF_ERROR(place_weights());
    for (int node = 0; node < graph_.num_nodes(); ++node) {
      if (!graph_.is_weight(node)) continue;
      const int own = weight_device_[original_[node]];
      all_ = combine(all_, own);
      for (const std::string_view prefix : prefixes_of(fqn_of(node))) {
        const auto [entry, is_new] = subtree_.emplace(prefix, own);
        if (!is_new) entry->second = combine(entry->second, own);
      }
    }
    for (int node = 0; node < graph_.num_nodes(); ++node) {
      if (graph_.is_weight(node)) add_key(fqn_of(node));
    }
    PLIMSOLL_RETURN_IF_ERROR(check_operators());
    return std::move(map_);
  }

 private:
  const std::string& fqn_of(int weight) const {
    const OperatorNode& node = graph_.nodes[weight];
    return node.target.empty() ? node.name : node.target;
  }

  static std::string owner_of(const std::string& fqn) {
    const std::size_t dot = fqn.rfind('.');
    return dot == std::string::npos ? std::string() : fqn.substr(0, dot);
  }

  // Tied weights as one, where their first reader is.
  Result<void> place_weights() {
    weight_device_.assign(graph_.nodes.size(), kNowhere);
    std::vector<int> readers_device(graph_.nodes.size(), kNowhere);  // of each name of a weight
    for (int node = 0; node < graph_.num_nodes(); ++node) {
      if (!graph_.is_operator(node)) continue;
      for (const int input : graph_.nodes[node].inputs) {
        if (!graph_.is_weight(input)) continue;
        const int own = combine(readers_device[input], device_[node]);
        if (own == kMixed) {
          const std::string& fqn = fqn_of(input);
          return fail(ErrorCode::kConflict, "module '" + owner_of(fqn) + "'",
                      "its weight '" + fqn + "' is read on devices " +
                          std::to_string(readers_device[input]) + " and " +
                          std::to_string(device_[node]),
                      "keep its operators together, or use the callback table");
        }
        readers_device[input] = own;
        int& first = weight_device_[original_[input]];
        if (first == kNowhere) first = own;
        if (first != own) moved_.insert(owner_of(fqn_of(input)));
      }
    }
    std::unordered_map<std::string_view, int> module_device;  // of its first operator
    for (int node = 0; node < graph_.num_nodes(); ++node) {
      if (graph_.is_operator(node)) module_device.emplace(graph_.nodes[node].module, device_[node]);
    }
    for (int node = 0; node < graph_.num_nodes(); ++node) {
      if (!graph_.is_weight(node) || weight_device_[original_[node]] != kNowhere) continue;
      const auto found = module_device.find(owner_of(fqn_of(node)));
      if (found != module_device.end()) weight_device_[original_[node]] = found->second;
    }
    return {};
  }

  void add_key(const std::string& fqn) {
    std::string_view key;
    int own = all_;
    if (all_ == kMixed) {
      for (const std::string_view prefix : prefixes_of(fqn)) {
        key = prefix;
        own = subtree_[prefix];
        if (own != kMixed) break;
      }
    }
    if (!keys_.emplace(key, std::max(own, 0)).second) return;
    map_.devices.emplace_back(std::string(key), std::max(own, 0));
  }

  // Where accelerate would run a module's operators; nowhere: it does not say.
  int find_device(const std::string& module) const {
    if (const auto root = keys_.find(std::string_view()); root != keys_.end()) return root->second;
    for (const std::string_view prefix : prefixes_of(module)) {
      if (const auto found = keys_.find(prefix); found != keys_.end()) return found->second;
    }
    return kNowhere;
  }

  Result<void> check_operators() {
    std::unordered_map<std::string_view, int> own_device;  // of modules whose weights are keys
    for (int node = 0; node < graph_.num_nodes(); ++node) {
      const OperatorNode& n = graph_.nodes[node];
      if (!graph_.is_operator(node) || n.is_view || device_[node] < 0) continue;
      if (n.output_bytes == 0 && n.flops == 0) continue;  // assertions
      int expected = find_device(n.module);
      if (expected == kNowhere && owns_weights(n.module)) {
        expected = own_device.emplace(n.module, device_[node]).first->second;
      }
      if (expected == kNowhere || expected == device_[node]) continue;
      if (moved_.count(n.module) != 0) {
        warn_once(n.module, device_[node], expected);
        continue;
      }
      return fail(ErrorCode::kConflict, "module '" + n.module + "'",
                  partition::place_of(graph_, node) + " is on device " +
                      std::to_string(device_[node]) + ", its module's weights on device " +
                      std::to_string(expected),
                  "keep the module's operators together, or use the callback table");
    }
    return {};
  }

  bool owns_weights(const std::string& module) {
    if (owners_.empty()) {
      for (int node = 0; node < graph_.num_nodes(); ++node) {
        if (graph_.is_weight(node)) owners_.insert(owner_of(fqn_of(node)));
      }
    }
    return owners_.count(module) != 0;
  }

  void warn_once(const std::string& module, int placed, int expected) {
    if (!warned_.insert(module).second) return;
    map_.warnings.push_back({"tied_weight", "module '" + module + "'",
                             "runs on device " + std::to_string(expected) +
                                 ", where its tied weight lies, not on device " +
                                 std::to_string(placed) + " as placed"});
  }

  const OperatorGraph& graph_;
  const std::vector<int>& device_;
  const std::vector<int> original_;
  std::vector<int> weight_device_;  // [num_nodes] of each tensor, at its first name
  std::set<std::string> moved_, owners_, warned_;
  std::unordered_map<std::string_view, int> subtree_;  // of a module's weights
  int all_ = kNowhere;
  std::unordered_map<std::string_view, int> keys_;
  DeviceMap map_;
};

}  // namespace

Result<DeviceMap> make_device_map(const OperatorGraph& graph, const std::vector<int>& device) {
  return DeviceMapMaker(graph, device).make();
}

std::string write_device_map(const DeviceMap& map) {
  std::vector<std::pair<std::string, std::string>> members;
  for (const auto& [key, device] : map.devices) members.emplace_back(key, std::to_string(device));
  return write_object(members);
}

}  // namespace plimsoll::io
