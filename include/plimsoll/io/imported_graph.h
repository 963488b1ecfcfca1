// What a foreign model file gives: its operators, and what was not as it should be.
#pragma once

#include <vector>

#include "plimsoll/core/outcome.h"
#include "plimsoll/partition/operator_graph.h"

#pragma GCC visibility push(default)
namespace plimsoll::io {

struct ImportedGraph {
  partition::OperatorGraph graph;
  std::vector<Warning> warnings;  // in order of place, each oddity once
};

}  // namespace plimsoll::io
#pragma GCC visibility pop
