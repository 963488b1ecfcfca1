#include "plimsoll/core/proof.h"

#include <fmt/format.h>

#include <charconv>
#include <optional>

namespace plimsoll {
namespace {

constexpr std::string_view kLowered =
    "; bounded with every choice as cheap as one left out could be";

// The sentence of a kind; where it holds figures their places are named by # (count), $ (ms) and
// @ (words).
struct Sentence {
  ProofKind kind;
  std::string_view text;
};
constexpr Sentence kSentences[] = {
    {ProofKind::kPrices, "prices of # case(s), @"},
    {ProofKind::kSearchToTheEnd, "search to the end for a plan of $ ms, # nodes"},
    {ProofKind::kAverage, "the average over ranks"},
    {ProofKind::kFilteredAverage, "the average over ranks of what a target leaves"},
    {ProofKind::kWindows, "dual feasible functions in # windows of the slowest load"},
    {ProofKind::kPatterns, "contents of hosts and ranks in # windows of the slowest load"},
    {ProofKind::kBranchedPatterns,
     "contents of hosts and ranks in # windows of the slowest load and of the numbers of uniform "
     "units or the blocks of hosts"},
    {ProofKind::kBranchedChoices,
     "averages and largest pieces, branched on the choices of units in # nodes"},
    {ProofKind::kEveryBarrier, "the bounds of every barrier alone, added up"},
    {ProofKind::kBarrierPatterns,
     "contents of hosts and ranks in # windows of the slowest loads at all barriers"},
    {ProofKind::kWeightedBytes, "weighted bytes that all units need exceed the weighted caps"},
    {ProofKind::kUnitFitsNowhere, "a unit that fits nowhere"},
    {ProofKind::kReservation, "reservations alone exceed the capacity of a rank"},
    {ProofKind::kReservationOfRankZero, "reservations alone exceed the capacity of rank 0"},
    {ProofKind::kNoOption, "a table has no option"},
    {ProofKind::kTableFitsNowhere, "a table fits on no rank, whichever option it takes"},
    {ProofKind::kTotalBytes, "the least that all tables need exceeds the room of all ranks"},
    {ProofKind::kMeanOfOptions, "mean over ranks of the tables' cheapest options"},
    {ProofKind::kLargestShard, "largest shard of a table's cheapest option"},
    {ProofKind::kNothingToPlace, "nothing to place"},
    {ProofKind::kTriedEveryPlacement,
     "search to the end: every placement that could be better was tried"},
    {ProofKind::kTriedBetterPlacements, "all placements that could be better were tried"},
    {ProofKind::kNoDeviceForGroup, "a group of nodes that no device may run"},
    {ProofKind::kGroupTooLarge, "a group of nodes that holds more than any of its devices"},
    {ProofKind::kAllBytes, "all bytes beside the room of all devices"},
    {ProofKind::kSharedWork, "all work shared out over all devices"},
    {ProofKind::kPackedWork, "all work in whole groups packed into all devices"},
    {ProofKind::kHeaviestGroup,
     "the least load of a device that runs the heaviest group, by minimum cuts"},
    {ProofKind::kSharedTransfers,
     "all work with the share of what is moved that each group must bear"},
    {ProofKind::kLoadWithShare, "the least load of a device with its share of the work"},
    {ProofKind::kPlacementProgram, "the placement as a mixed-integer program"},
    {ProofKind::kExhaustedDownsets, "exhausted all chains of downsets"},
    {ProofKind::kRefutedLimits,
     "limits refuted over all chains of downsets, or total work, or minimum cuts around groups and "
     "runs of a path"},
    {ProofKind::kCallersBound, "the caller's bound"},
    {ProofKind::kNoPipelineFits, "no contiguous pipeline fits, whatever its stages take"},
    {ProofKind::kNoChainBelow, "no chain of downsets below the bound"},
    {ProofKind::kSpreadOverStages, "least device time spread over devices and stages"},
    {ProofKind::kSpreadEvenly, "least device time spread evenly"},
    {ProofKind::kOperatorFitsNoDevice, "an operator fits no device"},
    {ProofKind::kNoChainOfAllDevices, "no chain of stages uses all devices"},
    {ProofKind::kLeastSums, "least sums under limits on the slowest stage"},
    {ProofKind::kNoPlacementFits, "no placement keeps every device's bytes"},
    {ProofKind::kPathWithoutTransfers, "longest path without transfers"},
    {ProofKind::kPathInStretches, "a path cut into stretches that fit a device"},
    {ProofKind::kLongestPath, "longest path with the least time of each node"},
    {ProofKind::kNoDeviceForNode, "a node that no device may run"},
    {ProofKind::kNoDeviceForPath, "a node, or a path, that no device may run"},
    {ProofKind::kPathInRuns, "a path cut into contiguous runs that fit their devices"},
    {ProofKind::kFewerBytesThanGraph, "all devices together hold fewer bytes than the graph"},
    {ProofKind::kNoPlacementWithinCaps, "no placement keeps every device within its memory cap"},
    {ProofKind::kLeastSlack, "the least slack of every position, discarding all that may be"},
    {ProofKind::kSlackProgram, "exact dynamic program over slack"},
    {ProofKind::kSlackProgramOfBudgets, "exact dynamic program over slack, every budget"},
    {ProofKind::kNothingDiscarded, "no checkpointing at all costs no time"},
    {ProofKind::kInfeasibleRanges, "every range of discarded bytes is infeasible"},
    {ProofKind::kBranchedRanges, "branching on the bytes discarded, each range bounded exactly"},
    {ProofKind::kLeastNeed, "the least need of every position and amount discarded"},
    {ProofKind::kKeptWithDiscarded, "an operator that must be kept goes with one that cannot be"},
    {ProofKind::kKeptTooLarge, "what must be kept is larger than the budget"},
    {ProofKind::kUndominatedSets, "linear relaxation of every undominated set"},
    {ProofKind::kUndominatedChoices, "every choice of operators that no other beats"},
    {ProofKind::kBranchAndCut, "branch and cut"},
    {ProofKind::kProgramsOfPieces, "mixed-integer programs, one for each piece of the curve"},
    {ProofKind::kDynamicProgram, "dynamic programming"},
};

std::string sentence_of(const Proof& proof) {
  if (proof.kind == ProofKind::kStated) return proof.words;
  std::string text;
  for (const Sentence& sentence : kSentences) {
    if (sentence.kind != proof.kind) continue;
    for (const char c : sentence.text) {
      if (c == '#') {
        text += fmt::format("{}", std::int64_t{proof.count});
      } else if (c == '$') {
        text += fmt::format("{}", double{proof.ms});
      } else if (c == '@') {
        text += proof.words;
      } else {
        text += c;
      }
    }
    break;
  }
  return text;
}

template <class Number>
bool take_number(std::string_view& text, Number& number) {
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (error != std::errc()) return false;
  text.remove_prefix(static_cast<std::size_t>(end - text.data()));
  return true;
}

std::optional<Proof> match(const Sentence& sentence, std::string_view text) {
  Proof proof = sentence.kind;
  for (const char c : sentence.text) {
    if (c == '#') {
      if (!take_number(text, proof.count)) return std::nullopt;
    } else if (c == '$') {
      if (!take_number(text, proof.ms)) return std::nullopt;
    } else if (c == '@') {
      proof.words = text;
      text = {};
    } else if (text.starts_with(c)) {
      text.remove_prefix(1);
    } else {
      return std::nullopt;
    }
  }
  if (!text.empty()) return std::nullopt;
  return proof;
}

}  // namespace

std::string to_string(const Proof& proof) {
  std::string text = sentence_of(proof);
  if (proof.is_lowered) text += kLowered;
  return text;
}

Proof parse_proof(std::string_view sentence) {
  Proof proof;
  if (sentence.empty()) return proof;
  std::string_view text = sentence;
  const bool is_lowered = text.ends_with(kLowered);
  if (is_lowered) text.remove_suffix(kLowered.size());
  for (const Sentence& known : kSentences) {
    auto found = match(known, text);
    if (!found) continue;
    found->is_lowered = is_lowered;
    if (to_string(*found) == sentence) return *std::move(found);  // "007 nodes" is not ours
  }
  proof.kind = ProofKind::kStated;
  proof.words = sentence;
  return proof;
}

}  // namespace plimsoll
