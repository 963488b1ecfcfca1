// Names for the nodes of a torch.fx graph, each used once.
//
// A name is made from a wish: a lower-case letter before an upper-case one gets an underscore
// between, all becomes lower-case, what no identifier may hold becomes an underscore. If the name
// is taken, or is one that Python or generated code needs, the first free number is put behind it.
// Source: docs/mathematics/torch-fx-partitioner.md#split-and-dag.
#pragma once

#include <string>
#include <string_view>
#include <unordered_map>
#include <unordered_set>

namespace plimsoll::partition {

class NameScope {
 public:
  std::string take(std::string_view wish);

 private:
  std::unordered_set<std::string> used_;
  std::unordered_map<std::string, long> last_number_;  // by the name without its number
};

}  // namespace plimsoll::partition
