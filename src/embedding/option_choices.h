// The options of tables as choices of a placement problem's unit.
//
// Which option becomes which spread, and which are left out, says placement_bridge.h. Tables of one
// unit are combined: options of all of them that agree in spread and stand whole on one rank, one
// host or everywhere, piece on piece.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "embedding/piece_loads.h"

namespace plimsoll::embedding {

struct Candidate {
  solve::UnitChoice choice;
  std::vector<std::int32_t> options;  // [tables of the unit]
};

class OptionChoices {
 public:
  // Charges of causes (a sharding type in a module) are added to the problem, whose ranks are
  // described, as they come up.
  OptionChoices(const OptionSet& options, const BridgeOptions& settings,
                const std::vector<bool>& is_left_out, const PieceLoads& loads,
                solve::PlacementProblem& problem)
      : options_(options),
        settings_(settings),
        is_left_out_(is_left_out),
        loads_(loads),
        problem_(problem) {}

  std::vector<Candidate> choices_of(const TableOptions& table);

 private:
  solve::UnitChoice choice_of(const TableOptions& table, const Option& option);
  bool has_columns(const TableOptions& table) const;
  int cause_of(const TableOptions& table, ShardingType type);

  const OptionSet& options_;
  const BridgeOptions& settings_;
  const std::vector<bool>& is_left_out_;  // [options]
  const PieceLoads& loads_;
  solve::PlacementProblem& problem_;
  std::map<std::pair<std::string, ShardingType>, int> causes_;
};

// Sorted by their loads' sum. Precondition: candidates of other tables.
std::vector<Candidate> combine(const std::vector<Candidate>& first,
                               const std::vector<Candidate>& second);

}  // namespace plimsoll::embedding
