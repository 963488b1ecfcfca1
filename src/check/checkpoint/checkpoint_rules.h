// The rules of the checkpointing judge: what they look at and where their findings go.
#pragma once

#include <algorithm>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "check/findings.h"
#include "plimsoll/check/checkpoint_check.h"
#include "plimsoll/checkpoint/module_tree.h"

namespace plimsoll::check {

// Relative, of times: a fitted price ends its pieces at whole bytes, which moves it by as much as a
// byte or two cost.
inline constexpr double kTimeTolerance = 1e-7;

inline bool lists(const std::vector<std::string>& fqns, const std::string& fqn) {
  return std::find(fqns.begin(), fqns.end(), fqn) != fqns.end();
}

// What every rule sees.
struct JudgedCheckpoint {
  const checkpoint::ModuleStats* stats = nullptr;
  const checkpoint::ModuleTree* tree = nullptr;
  const CheckpointCheckOptions* options = nullptr;
  std::map<std::string, int> node_of;

  // Of fitted prices nothing counts as saved, unless the room of all is asked for.
  bool counts_saved() const { return options->unit_room || options->price != PriceRule::kFit; }
  bool has_copies() const {
    return options->unit_room || (options->saved_copies && counts_saved());
  }
  bool has_working_set() const { return options->unit_room || options->recompute_working_set; }
  const checkpoint::ModuleInfo& info(int node) const { return stats->mod_stats[node]; }
  const checkpoint::SACStats* table_of(int node) const;
  bool is_below(int node, int above) const;  // strictly
};

// A unit of the plan beside its modules.
struct PlacedUnit {
  const checkpoint::CheckpointUnit* unit = nullptr;
  std::string fqn;           // of its first module
  std::vector<int> nodes;    // empty where a module is unknown
  int first = 0, last = -1;  // positions that it covers
  std::vector<PlacedUnit> nested;
  bool covers(int position) const { return first <= position && position <= last; }
};

// placement of units: names, order, nesting, runs, permission.
std::vector<PlacedUnit> place_units(const JudgedCheckpoint& given,
                                    const checkpoint::CheckpointPolicy& policy, Findings& findings);

// One unit's operators, bytes and time; the time that its rule asks for.
double check_unit(const JudgedCheckpoint& given, const PlacedUnit& unit, Findings& findings);

// What a position needs before anything is discarded.
Bytes need_of(const JudgedCheckpoint& given, int node);
// What the other microbatches hold where one discards so much.
Bytes held_by_others(const JudgedCheckpoint& given, Bytes discarded);
// What a step without units needs, of one microbatch alone.
Bytes peak_without_units(const JudgedCheckpoint& given);
// The same of the end of the step; absent where the rule has none.
std::optional<Bytes> end_need_of(const JudgedCheckpoint& given);
// What running a unit's forward again needs besides what it keeps; absent where no rule asks.
std::optional<Bytes> room_of(const JudgedCheckpoint& given, const std::vector<int>& nodes);
// What autograd keeps inside all of the unit, and what a ratio is a share of.
std::pair<Bytes, Bytes> unit_sizes(const JudgedCheckpoint& given, const std::vector<int>& nodes);
// Of the fit, at a share of what the ratio is of.
double fitted_ms(const JudgedCheckpoint& given, int node, double ratio);
// The operator that makes the output of a table's module, -1 without one.
int output_maker(const checkpoint::SACStats& table);
// Nothing from here on runs again.
int end_of_recompute(const JudgedCheckpoint& given, const checkpoint::SACStats& table);

// What a unit's saved operators keep, and how much of that autograd would not have kept. Both are 0
// where the unit lists other operators than its modules have.
struct KeptBytes {
  Bytes kept = 0;
  Bytes copies = 0;
};
KeptBytes kept_bytes(const JudgedCheckpoint& given, const PlacedUnit& unit);
// What of it lies beside the room that a unit needs.
Bytes room_for_kept(const JudgedCheckpoint& given, const KeptBytes& kept);

}  // namespace plimsoll::check
