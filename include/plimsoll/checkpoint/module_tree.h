// The modules of a model as a rooted, ordered tree: what checkpoint planners walk.
//
// A node's index is its place in ModuleStats::mod_stats, which upstream calls the module's index:
// the order of registration, not of execution. A container that never ran is absent, and its
// children hang at the nearest executed ancestor. Source:
// docs/mathematics/torch-checkpointing.md#module-statistics.
#pragma once

#include <string>
#include <vector>

#include "plimsoll/checkpoint/module_stats.h"
#include "plimsoll/core/result.h"

#pragma GCC visibility push(default)
namespace plimsoll::checkpoint {

enum class Ancestry {
  kPath,       // "A.B" is above "A.B.x" and nothing else
  kSubstring,  // upstream: above whatever holds "A.B." anywhere in its name, as far as the modules
               // after it in the list form one unbroken run of such names
};

struct ModuleTree {
  std::vector<int> parent;                 // [n], -1 for a root
  std::vector<std::vector<int>> children;  // [n], in forward order
  std::vector<int> post_order;             // [n] node by position in forward post-order
  std::vector<int> position;               // [n] position of a node in forward post-order
  // [n] nodes below a node, itself left out, ascending. Under kPath this is the tree's own; under
  // kSubstring it is upstream's `ad_matrix`.
  std::vector<std::vector<int>> descendants;
  bool is_nested = false;  // every subtree is an unbroken run of post-order that ends at its root

  int num_modules() const { return static_cast<int>(parent.size()); }
};

// `stats` is valid. Error kConflict where a rule of upstream's own breaks: kSubstring asks for as
// many modules as entries of fw_pre_order.
Result<ModuleTree> make_module_tree(const ModuleStats& stats, Ancestry ancestry = Ancestry::kPath);

}  // namespace plimsoll::checkpoint
#pragma GCC visibility pop
