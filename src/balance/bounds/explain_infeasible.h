// What a proof that nothing fits says to people: the smallest reason there is.
//
// The fewest bytes of some resources that every rank would need beside its caps so that
// bound_placement no longer proves that nothing fits (missing_bytes.h): each reason is tried by
// giving its bytes. Of each resource it is said whether a unit that fits on no rank lacks them, on
// a rank, or all units together, on all ranks. Where no bytes help, ranks are what binds: those
// that a unit may use, or must share with none. O(proofs of the bound), at most
// kMaxExplainingProofs.
#pragma once

#include <functional>
#include <optional>
#include <string>

#include "balance/bounds/missing_bytes.h"
#include "plimsoll/balance/placement_problem.h"
#include "plimsoll/core/outcome.h"
#include "plimsoll/core/run_context.h"

namespace plimsoll::balance {

inline constexpr int kMaxExplainingProofs = 400;

// How units and resources are called.
struct PlacementWords {
  std::vector<std::string> resources{};  // empty: as the problem names them
  std::string unit = "unit";
  std::string units = "units";
  std::string distinct_ranks{};  // a clause behind "pieces need a rank each": whose rule that is
};

// What is placed, and on how many ranks.
struct ExplainedRanks {
  int num_ranks = 1;
  std::function<std::string(int)> name_of_unit;
};

// The cheap bound's proof with so many bytes more on every rank. Precondition: a valid problem.
std::optional<Shortage> prove_shortage(const PlacementProblem& problem, const Amounts& added,
                                       const RunContext& context);

// Precondition: nothing fits, as the cheap bound proves. Where the clock ends the search for the
// reason, what was found until then.
MissingBytes find_missing_bytes(const PlacementProblem& problem, const RunContext& context);

// `binding` is the resource, or the resources ("hbm and ddr"), that lack bytes, or the unit that no
// bytes help. `missing`: of a resource that all units together lack, the bytes of all ranks; of one
// that a unit lacks, those of a rank; of several resources the sum.
Explanation describe(const MissingBytes& missing, const ExplainedRanks& ranks,
                     const PlacementWords& words);

// Precondition: nothing fits, as the cheap bound proves.
Explanation explain_infeasible(const PlacementProblem& problem, PlacementWords words,
                               const RunContext& context);

}  // namespace plimsoll::balance
