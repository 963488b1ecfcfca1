// Options that a plan could hold and the reference's runtime would train wrongly or refuse: what
// the checker calls hazards, seen from the search's side. Source: specification of the Python
// drop-in, section 10; the judge of them is check/sharding_check.h.
//
// Fewest hazards. Hazards are those that the checker counts. But for mean_pooling_mixed_rows they
// are of one option each, so that their least number adds up table by table. A collection with
// mean-pooled tables has two ways: all its tables cut by rows, where nothing is added, or not all,
// where every mean-pooled table cut by rows is one hazard more. The way of fewer hazards is taken;
// of equal ones both are, and a plan takes one of them (RowChoice). So the plans that avoid what
// `is_left_out` and `row_choices` exclude are exactly those of the fewest hazards, memory aside.
#pragma once

#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

#include "plimsoll/embedding/model.h"
#include "plimsoll/embedding/option_set.h"
#include "plimsoll/topology/topology.h"

namespace plimsoll::embedding {

// A collection with mean-pooled tables: cut by rows as a whole, or not. A plan takes none of
// `rows`, or none of `others`.
struct RowChoice {
  std::vector<std::int32_t> rows;    // ascending; options that only the cut as a whole takes
  std::vector<std::int32_t> others;  // ascending; options that only the other way takes
  std::int32_t group = 0;
};

struct TableHazard {
  std::int32_t table = 0;
  std::string_view name;  // the checker's
  bool operator==(const TableHazard&) const = default;
};

// Of a table in plans of the fewest hazards.
struct UnavoidableHazard {
  TableHazard hazard;
  bool is_certain = false;  // in all of them
};

struct OptionHazards {
  std::vector<int> num_hazards;        // [options] of each by itself
  std::vector<bool> is_left_out;       // [options] in no plan of the fewest hazards
  std::vector<RowChoice> row_choices;  // of collections that may be either
  std::vector<UnavoidableHazard> unavoidable;
  // Tables whose hazards depend on each other are of one group: those of a collection with
  // mean-pooled tables; every other table is one by itself.
  std::vector<std::int32_t> group_of_table;  // [tables]
  std::vector<std::int64_t> least_of_group;  // [groups] hazards

  std::int64_t least() const;  // hazards of every plan that avoids what is excluded
};

// Where `model` lacks a table (options of a dump), only what shapes show is seen. O(options +
// runs).
OptionHazards find_option_hazards(const OptionSet& options, const topology::Topology& topology,
                                  const Model& model);

// The hazards of a plan that takes these options, table by table, as many as the checker counts.
std::vector<TableHazard> find_plan_hazards(const OptionSet& options,
                                           const topology::Topology& topology, const Model& model,
                                           std::span<const std::int32_t> taken);

}  // namespace plimsoll::embedding
