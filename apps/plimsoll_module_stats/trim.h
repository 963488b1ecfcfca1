// Makes statistics smaller without loss to a planner.
#pragma once

#include "plimsoll/checkpoint/module_stats.h"

namespace plimsoll::module_stats {

// Leaves out the leaves of modules whose children are all leaves: no unit can end between such a
// leaf and its parent, and the parent's peaks are at least the leaf's.
void drop_inner_leaves(checkpoint::ModuleStats& stats);

// Leaves out operator tables of more than `max_operators`: of whole models, which are not units.
void drop_long_tables(checkpoint::ModuleStats& stats, std::size_t max_operators);

}  // namespace plimsoll::module_stats
