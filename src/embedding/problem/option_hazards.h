// Options that a plan could hold and the reference's runtime would train wrongly or refuse: what
// the checker calls hazards, seen from the search's side. Source: docs/check.md#hazards; the
// checker of them is plimsoll/check/sharding_check.h.
//
// Fewest hazards. Hazards are those that the checker counts. Except for mean_pooling_mixed_rows and
// mixed_column_widths they are of one option each, so that their least number adds up table by
// table. Two kinds of collection have several ways. One with mean-pooled tables: not all its tables
// are cut by rows, and every mean-pooled table that is, is one hazard more; or all are, and nothing
// is added. One of sequences: a width of column_wise shards, and every column_wise table of another
// width is one hazard more. In each way the least number adds up table by table. The ways of the
// fewest hazards are kept, and a plan takes one of them (WayChoice). So the plans that avoid what
// `is_left_out` and `way_choices` exclude are exactly those of the fewest hazards, memory aside.
//
// optimizer_state_per_block is not counted: the reference trains so, too. Where
// `strict_numerics` is asked for, options that have it are not options (`find_numeric_options`).
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

#include "plimsoll/core/result.h"
#include "plimsoll/embedding/model.h"
#include "plimsoll/embedding/option_set.h"
#include "plimsoll/topology/topology.h"

namespace plimsoll::embedding {

// A collection with several ways to the fewest hazards. A plan takes one of them.
struct WayChoice {
  // [ways] ascending; options that the way excludes and another takes.
  std::vector<std::vector<std::int32_t>> left_out;
  std::int32_t group = 0;

  // The way of a plan that takes these options: of the ways that exclude the fewest of them, the
  // first.
  std::size_t way_of(std::span<const std::int32_t> taken) const;
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
  std::vector<WayChoice> way_choices;  // of collections that have several ways
  std::vector<UnavoidableHazard> unavoidable;
  // Tables whose hazards depend on each other are of one group: those of a collection that may have
  // several ways; every other table is one by itself.
  std::vector<std::int32_t> group_of_table;  // [tables]
  std::vector<std::int64_t> least_of_group;  // [groups] hazards

  std::int64_t least() const;  // hazards of every plan that avoids what is excluded
};

// Where `model` lacks a table (options of a dump), only what shapes show is seen. Options that
// `is_barred` names are none. O(options * widths + runs).
OptionHazards find_option_hazards(const OptionSet& options, const topology::Topology& topology,
                                  const Model& model, const std::vector<bool>& is_barred = {});

// The hazards of a plan that takes these options, table by table, as many as the checker counts.
std::vector<TableHazard> find_plan_hazards(const OptionSet& options,
                                           const topology::Topology& topology, const Model& model,
                                           std::span<const std::int32_t> taken);

// [options] Would the runtime keep an optimizer state for each block of columns, where the
// unsharded table has one (optimizer_state_per_block)?
std::vector<bool> find_numeric_options(const OptionSet& options, const Model& model);

// Error kPlanner that names the first table all of whose options are of that kind, if there is one.
std::optional<Error> find_numeric_refusal(const OptionSet& options, const Model& model);

}  // namespace plimsoll::embedding
