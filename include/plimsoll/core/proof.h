// How a bound on the best plan, or that there is no plan, was shown.
//
// A kind, and of some kinds a witness: figures that say what was done. Documents and people get one
// sentence, to_string(); documents are read back by parse_proof(). Programs compare kinds.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#pragma GCC visibility push(default)
namespace plimsoll {

enum class ProofKind {
  kNone,
  kStated,  // by a document, in words that are not ours: `words`

  // Of embedding tables over ranks (docs/mathematics/balanced-sharding.md).
  kPrices,           // prices that stand beside: of `count` cases, found by the method `words`
  kSearchToTheEnd,   // `count` nodes, and no plan takes at most `ms`
  kAverage,          // the average over ranks
  kFilteredAverage,  // the same of what a target leaves
  kWindows,          // dual feasible functions in `count` windows
  kPatterns,         // contents in `count` windows
  kBranchedPatterns,
  kBranchedChoices,  // in `count` nodes
  kEveryBarrier,
  kBarrierPatterns,  // contents in `count` windows
  kWeightedBytes,
  kUnitFitsNowhere,
  kReservation,  // of a rank
  kReservationOfRankZero,
  kNoOption,
  kTableFitsNowhere,
  kTotalBytes,
  kMeanOfOptions,
  kLargestShard,
  kNothingToPlace,

  // Of operator graphs over devices (docs/mathematics/placements.md).
  kTriedEveryPlacement,
  kTriedBetterPlacements,
  kNoDeviceForGroup,
  kGroupTooLarge,
  kAllBytes,
  kSharedWork,
  kPackedWork,
  kHeaviestGroup,
  kSharedTransfers,
  kLoadWithShare,
  kPlacementProgram,
  kExhaustedDownsets,
  kRefutedLimits,
  kCallersBound,
  kNoPipelineFits,
  kNoChainBelow,
  kSpreadOverStages,
  kSpreadEvenly,
  kOperatorFitsNoDevice,
  kNoChainOfAllDevices,
  kLeastSums,
  kNoPlacementFits,
  kPathWithoutTransfers,
  kPathInStretches,
  kLongestPath,
  kNoDeviceForNode,
  kNoDeviceForPath,
  kPathInRuns,
  kFewerBytesThanGraph,
  kNoPlacementWithinCaps,

  // Of activation checkpointing (docs/mathematics/checkpointing.md).
  kLeastSlack,
  kSlackProgram,
  kSlackProgramOfBudgets,
  kNothingDiscarded,
  kInfeasibleRanges,
  kBranchedRanges,
  kLeastNeed,
  kKeptWithDiscarded,
  kKeptTooLarge,
  kUndominatedSets,
  kUndominatedChoices,
  kBranchAndCut,
  kProgramsOfPieces,
  kDynamicProgram,
};

struct Proof {
  ProofKind kind = ProofKind::kNone;
  std::int64_t count = 0;   // cases, windows or nodes, as the kind says
  double ms = 0;            // of kSearchToTheEnd
  std::string words;        // of kPrices and kStated
  bool is_lowered = false;  // it was shown with every choice as cheap as one left out could be

  Proof() = default;
  Proof(ProofKind of_kind) : kind(of_kind) {}  // NOLINT(google-explicit-constructor)
  bool is_given() const { return kind != ProofKind::kNone; }
  bool operator==(const Proof&) const = default;
};

// One sentence; empty without a proof.
std::string to_string(const Proof& proof);

// The proof whose sentence this is; kStated for any other.
Proof parse_proof(std::string_view sentence);

}  // namespace plimsoll
#pragma GCC visibility pop
