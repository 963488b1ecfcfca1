// Why placements that move few bytes are no better: what proves a bound of replanning.
//
// Source: docs/mathematics/balanced-sharding.md#moved-bytes.
#pragma once

#include <vector>

#pragma GCC visibility push(default)
namespace plimsoll::balance {

struct RelocationPrices {
  double moved = 0;                         // ms a moved byte, >= 0
  std::vector<std::vector<double>> weight;  // [barriers][ranks] >= 0, of a barrier at most 1 in all
  std::vector<std::vector<double>>
      memory;  // [resources][ranks] >= 0, ms a byte; 0 of pooled resources
  std::vector<std::vector<double>>
      share;  // [causes][units] >= 0, ms; of a cause at most its charge
  bool operator==(const RelocationPrices&) const = default;
};

}  // namespace plimsoll::balance
#pragma GCC visibility pop
