// The options of tables as choices of a placement problem's unit.
//
// Which option becomes which spread, and which are left out, says placement_bridge.h. Tables of one
// unit are combined: options of all of them that agree in spread and stand whole on one rank, one
// host or everywhere, piece on piece.
#pragma once

#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "embedding/problem/piece_loads.h"

namespace plimsoll::embedding {

struct Candidate {
  balance::UnitChoice choice;
  std::vector<std::int32_t> options;  // [tables of the unit]
  int first_rank = 0;                 // of a host, on which columns begin
};

class OptionChoices {
 public:
  // Charges of causes (a sharding type in a module) are added to the problem, whose ranks are
  // described, as they come up; `causes` of options are there already.
  OptionChoices(const OptionSet& options, const BridgeOptions& settings,
                const std::vector<bool>& is_left_out, const std::vector<std::vector<int>>& causes,
                const PieceLoads& loads, balance::PlacementProblem& problem);

  // `is_alone`: the table is a unit.
  std::vector<Candidate> choices_of(const TableOptions& table, bool is_alone);
  // Some columns were placed in fewer ways than there are.
  bool is_tighter() const { return is_tighter_; }
  // By option of a whole table as column_wise: the same as table_wise, which is left out for it.
  std::map<std::int32_t, std::int32_t> take_plain_names() { return std::move(plain_name_); }

 private:
  balance::UnitChoice choice_of(const TableOptions& table, const Option& option);
  void add_columns(const Option& option, const Candidate& whole, bool is_alone,
                   std::vector<Candidate>& candidates);
  bool has_columns_like(const TableOptions& table, const Option& host_columns) const;
  bool has_whole_like(const TableOptions& table, const Option& columns) const;
  void find_plain_names();
  std::int32_t find_equal_columns(const TableOptions& table, std::int32_t table_wise) const;
  bool is_one_host() const;
  int cause_of(const TableOptions& table, ShardingType type);

  const OptionSet& options_;
  const BridgeOptions& settings_;
  const std::vector<bool>& is_left_out_;                   // [options]
  const std::vector<std::vector<int>>& causes_of_option_;  // [options] ascending
  const PieceLoads& loads_;
  balance::PlacementProblem& problem_;
  std::map<std::pair<std::string, ShardingType>, int> cause_of_type_;
  // Of kTime: modules some table of which has table_column_wise, or column_wise, that no other type
  // replaces.
  std::set<std::string> needs_host_columns_, needs_columns_;
  std::map<std::int32_t, std::int32_t> plain_name_;  // take_plain_names
  std::set<std::int32_t> has_other_name_;            // its values
  bool is_tighter_ = false;
};

// Column shards, one or several, that stand on any ranks of one host?
bool has_host_columns(const OptionSet& options, const std::vector<bool>& is_left_out,
                      const TableOptions& table);

// Sorted by their loads' sum. Precondition: candidates of other tables.
std::vector<Candidate> combine(const std::vector<Candidate>& first,
                               const std::vector<Candidate>& second);

}  // namespace plimsoll::embedding
