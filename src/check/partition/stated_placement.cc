#include "check/partition/stated_placement.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <set>

#include "check/partition/node_finding.h"

namespace plimsoll::check {
namespace {

using partition::CostGraph;
using partition::Net;
using Code = FindingCode;

class StatedJudge {
 public:
  StatedJudge(const CostGraph& graph, const std::vector<int>& stage_of,
              const PlacementReport& judged, const StatedPlacement& stated)
      : graph_(graph), stage_of_(stage_of), judged_(judged), stated_(stated) {}

  std::vector<Finding> judge() {
    for (const std::string& contradiction : stated_.contradictions) {
      find(Code::kInputsMismatch, {}, {}, contradiction);
    }
    judge_places();
    judge_line();
    if (stated_.has_cuts) judge_cuts();
    return std::move(found_);
  }

 private:
  void find(Code code, std::optional<int> node, std::optional<int> device, std::string message) {
    found_.push_back(find_at(graph_, code, node, device, std::move(message)));
  }
  bool is_known(int device) const { return device >= 0 && device < graph_.num_devices(); }

  void judge_places() {
    for (const StatedPlace& place : stated_.places) {
      if (place.devices.empty() || !is_known(place.devices.front())) continue;
      const int device = place.devices.front();
      const partition::DeviceClass& devices = graph_.classes[graph_.class_of(device)];
      if (!place.device_class.empty() && place.device_class != devices.name) {
        find(Code::kStatedMismatch, {}, device,
             "class: stated '" + place.device_class + "', the device's is '" + devices.name + "'");
      }
      if (place.memory_cap && place.memory_cap != devices.memory_cap) {
        find(Code::kStatedMismatch, {}, device,
             "memory_cap: stated " + std::to_string(*place.memory_cap) +
                 ", which is not the device's");
      }
      if (place.has_pipeline_figures && !stated_.is_pipeline) {
        find(Code::kStatedMismatch, {}, device, "only a pipeline has microbatches in flight");
      }
    }
  }

  void judge_line() {
    if (!stated_.is_contiguous) return;
    const bool is_line = judged_.is_line && std::count(judged_.is_contiguous.begin(),
                                                       judged_.is_contiguous.end(), false) == 0;
    if (*stated_.is_contiguous == is_line) return;
    find(Code::kStatedMismatch, {}, {},
         is_line ? "is_contiguous: stated as false, but the stages are contiguous"
                 : "is_contiguous: stated as true, but the stages are not contiguous");
  }

  // The stages, and of those the first devices, that hold a part of the net.
  std::set<int> holders_of(const Net& net) const {
    std::set<int> holders{stage_of_[net.producer]};
    for (const int reader : net.consumers) holders.insert(stage_of_[reader]);
    return holders;
  }
  int device_of(int stage) const { return stated_.places[stage].devices.front(); }

  void judge_cuts() {
    // Values of one producer may be several.
    std::multimap<int, const StatedCut*> left;
    for (const StatedCut& cut : stated_.cuts) left.emplace(cut.producer, &cut);
    for (const Net& net : graph_.nets) {
      const std::set<int> holders = holders_of(net);
      if (holders.size() < 2) continue;
      const int source = stage_of_[net.producer];
      std::vector<int> to;
      for (const int stage : holders) {
        if (stage != source) to.push_back(device_of(stage));
      }
      std::sort(to.begin(), to.end());
      const auto [begin, end] = left.equal_range(net.producer);
      const auto found = std::find_if(begin, end, [&](const auto& entry) {
        const StatedCut& cut = *entry.second;
        return cut.from == device_of(source) && cut.to == to && cut.amount == net.amount &&
               is_time_of(cut.ms, net, source, holders);
      });
      if (found == end) {
        find(Code::kStatedMismatch, net.producer, {}, "cuts: what it sends is not what is stated");
      } else {
        left.erase(found);
      }
    }
    if (!left.empty()) {
      find(Code::kStatedMismatch, {}, {}, "cuts: a value is said to travel that does not");
    }
  }

  // The slowest that any of its holders takes for it.
  bool is_time_of(double stated, const Net& net, int source, const std::set<int>& holders) const {
    if (stated_.is_pipeline && !graph_.pair_rates.empty()) return true;
    double slowest = 0;
    for (const int stage : holders) {
      const int device = device_of(stage);
      double rate = graph_.classes[graph_.class_of(device)].link_rate;
      const auto talk_to = [&](int other) {
        if (graph_.pair_rates.empty() || other == stage) return;
        rate = std::min(rate, graph_.pair_rates[device][device_of(other)]);
      };
      if (stage != source) {
        talk_to(source);
      } else {
        for (const int other : holders) talk_to(other);
      }
      slowest = std::max(slowest, net.amount / rate);
    }
    return std::abs(stated - slowest) <= 1e-9 * slowest;
  }

  const CostGraph& graph_;
  const std::vector<int>& stage_of_;
  const PlacementReport& judged_;
  const StatedPlacement& stated_;
  std::vector<Finding> found_;
};

}  // namespace

std::vector<Finding> check_stated_placement(const CostGraph& graph,
                                            const std::vector<int>& stage_of,
                                            const PlacementReport& judged,
                                            const StatedPlacement& stated) {
  return StatedJudge(graph, stage_of, judged, stated).judge();
}

}  // namespace plimsoll::check
