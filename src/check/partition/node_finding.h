// A finding at a node of a cost graph, on a device.
#pragma once

#include <optional>
#include <string>
#include <utility>

#include "plimsoll/check/finding.h"
#include "plimsoll/partition/cost_graph.h"

namespace plimsoll::check {

inline Finding find_at(const partition::CostGraph& graph, FindingCode code, std::optional<int> node,
                       std::optional<int> device, std::string message) {
  return {code,
          node ? partition::place_of(graph, *node) : std::string(),
          find_unit(FindingUnit::kDevice, device),
          "",
          "",
          std::move(message)};
}

}  // namespace plimsoll::check
