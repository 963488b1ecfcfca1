// The steps that the reference's searches are made of: charging, adding, linking, levelling.
//
// Source: docs/mathematics/torch-fx-partitioner.md#partitions-and-levels.
#pragma once

#include <span>
#include <vector>

#include "core/marks.h"
#include "plimsoll/core/result.h"
#include "plimsoll/partition/graph.h"
#include "plimsoll/partition/placement.h"

namespace plimsoll::partition {

// memory.h with a scratch set of the caller's, [num_nodes].
Bytes extra_bytes(const Graph& graph, int node, const Marks& present);
Bytes used_bytes(const Graph& graph, std::span<const int> nodes, Marks& marks);

// Sets of nodes as ascending lists.
bool insert_sorted(std::vector<int>& list, int value);  // false if it was there
bool erase_sorted(std::vector<int>& list, int value);   // false if it was not

// Insert the node and the sources that it reads; take out the node and the sources that nobody else
// there reads. Neither touches `used_mem_bytes`.
void add_node(const Graph& graph, std::vector<int>& nodes, int node);
void remove_node(const Graph& graph, std::vector<int>& nodes, int node);

// Every partition's id becomes its index; then the parents and children of all. There is an edge
// from P to Q where a node of P that is not in Q is read in Q. O(edges * owners of a node).
void link_partitions(const Graph& graph, std::vector<Partition>& partitions);

// The longest way from a partition without parents. Ways are not followed into a cycle: what is on
// one, or behind it, keeps the level of the ways that were.
void set_levels(std::vector<Partition>& partitions);

bool is_on_cycle(const std::vector<Partition>& partitions, int index);

// For each node the id of the last partition that holds it.
std::vector<std::optional<int>> map_nodes(const Graph& graph,
                                          const std::vector<Partition>& partitions);

// Errors as the reference raises them: kRuntime for senseless input, kPlanner where the search
// found nothing; `kind` holds Python's class.
tl::unexpected<Error> raise_input_error(const char* python_class, std::string text,
                                        std::string place = {}, std::string remedy = {});
tl::unexpected<Error> raise_no_plan(const char* python_class, std::string text,
                                    std::string place = {}, std::string remedy = {});
// The reference gives sizes only to what stands before the output.
tl::unexpected<Error> raise_unsized(const Node& node);

}  // namespace plimsoll::partition
