#include "balance/bounds/explain_infeasible.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <utility>
#include <vector>

#include "balance/bounds/bound_placement.h"
#include "balance/bounds/first_cases.h"
#include "balance/prices/average_bound.h"
#include "core/check.h"
#include "core/effort_clock.h"
#include "plimsoll/core/units.h"

namespace plimsoll::balance {
namespace {

constexpr int kMaxExplainedUnits = 200000;  // times proofs, about two seconds
constexpr int kMinExplainingProofs = 40;
constexpr Int128 kMaxBytes = std::int64_t{1} << 62;  // of all ranks and a resource

// What every rank would need of each resource alone so that the weighted bytes no longer exceed the
// weighted caps.
Amounts hint_of(const RankKinds& ranks, const MemoryProof& proof) {
  Amounts hint{};
  if (proof.weight.empty()) return hint;
  PerResource<double> worth{};  // of a byte on every rank
  for (const RankKind& kind : ranks.kinds) {
    for (int resource = 0; resource < ranks.num_resources; ++resource) {
      worth[resource] += static_cast<double>(kind.ranks.size()) *
                         static_cast<double>(proof.weight[kind.account[resource]]);
    }
  }
  const auto heaviest = *std::max_element(proof.weight.begin(), proof.weight.end());
  for (int resource = 0; resource < ranks.num_resources; ++resource) {
    if (!(worth[resource] > 0)) continue;
    const double bytes =
        static_cast<double>(proof.missing) * static_cast<double>(heaviest) / worth[resource];
    hint[resource] = static_cast<Bytes>(std::min(std::ceil(bytes), 0x1p61));
  }
  return hint;
}

// The most that any plan may put of a resource on a rank, within what sums can hold.
Amounts most_bytes(const PlacementProblem& problem) {
  PerResource<Int128> most{};
  for (const Unit& unit : problem.units) {
    PerResource<Int128> largest{};
    for (const UnitChoice& choice : unit.choices) {
      for (int resource = 0; resource < problem.num_resources(); ++resource) {
        Int128 sum = 0;
        for (const PieceRun& run : choice.runs) sum += Int128{run.bytes[resource]} * run.count;
        largest[resource] = std::max(largest[resource], sum * choice.num_blocks);
      }
    }
    for (int resource = 0; resource < problem.num_resources(); ++resource)
      most[resource] += largest[resource];
  }
  Amounts result{};
  for (int resource = 0; resource < problem.num_resources(); ++resource) {
    Int128 caps = 0;
    for (const Amounts& cap : problem.caps) caps += cap[resource];
    const Int128 room = (kMaxBytes - std::min(caps, kMaxBytes)) / problem.num_ranks;
    result[resource] = static_cast<Bytes>(std::min(most[resource], room));
  }
  return result;
}

std::string describe_resource(const MissingBytes& missing, int resource,
                              const ExplainedRanks& ranks, const PlacementWords& words) {
  const Bytes bytes = missing.per_rank[resource];
  const std::string& name = words.resources[resource];
  if (missing.unit[resource] >= 0) {
    return fmt::format(
        "no rank has room for {} {}: with what every rank must hold, it needs {} ({} bytes) more "
        "of "
        "{} than a rank has",
        words.unit, ranks.name_of_unit(missing.unit[resource]), format_bytes(bytes), bytes, name);
  }
  const Bytes sum = bytes * ranks.num_ranks;
  if (ranks.num_ranks == 1) {
    return fmt::format("all {} together need {} ({} bytes) more of {} than the rank has",
                       words.units, format_bytes(sum), sum, name);
  }
  return fmt::format(
      "all {} together need {} ({} bytes) more of {} than the {} ranks have: {} ({} bytes) on each",
      words.units, format_bytes(sum), sum, name, ranks.num_ranks, format_bytes(bytes), bytes);
}

// The least number of pieces that want a rank each, of a choice that has more than the unit may
// use; nothing where no choice has.
std::optional<std::int64_t> find_crowded(const Unit& unit, std::int64_t num_allowed) {
  std::optional<std::int64_t> least;
  for (const UnitChoice& choice : unit.choices) {
    std::int64_t count = 0;
    for (const PieceRun& run : choice.runs) count += run.count;
    if (choice.distinct_ranks && count > num_allowed)
      least = std::min(least.value_or(count), count);
  }
  return least;
}

// No bytes help, or none were found to.
void describe_rest(const MissingBytes& missing, const ExplainedRanks& ranks,
                   const PlacementWords& words, Explanation& explanation) {
  if (!missing.beyond_bytes || missing.beyond_bytes->unit < 0) {
    explanation.lines.emplace_back("what is missing was not found in time");
    return;
  }
  explanation.binding = words.unit + " " + ranks.name_of_unit(missing.beyond_bytes->unit);
  explanation.lines.push_back(
      explanation.binding +
      " may not be on any rank, whatever its choice and the memory of the ranks");
}

}  // namespace

std::optional<Shortage> prove_shortage(const PlacementProblem& problem, const Amounts& added,
                                       const RunContext& context) {
  PLIMSOLL_DCHECK(validate(problem).has_value(), "the problem is valid");
  PlacementProblem larger = problem;
  for (Amounts& cap : larger.caps) cap.add(added, 1);
  const BoundOptions bound;
  const PlacementGroups all = make_placement_groups(larger, bound.groups);
  AverageOptions options;
  options.context = &context;
  std::optional<Shortage> result;
  for (const BoundCase& c : make_first_cases(larger, bound.max_cases)) {
    const PlacementGroups groups = without_causes(all, c.forbidden);
    const Survivors survivors = filter_by_target(groups, kInfinity, bound.filter);
    const std::optional<MemoryProof> proof = prove_no_room(groups, survivors, options);
    if (!proof) return std::nullopt;
    if (result) continue;
    const int unit = proof->weight.empty() ? groups.groups[proof->group].units.front() : -1;
    result = Shortage{hint_of(groups.ranks, *proof), unit};
  }
  return result;
}

MissingBytes find_missing_bytes(const PlacementProblem& problem, const RunContext& context) {
  PLIMSOLL_DCHECK(prove_shortage(problem, Amounts{}, RunContext{}),
                  "without more bytes the cheap bound proves that nothing fits");
  MissingBytesOptions options;
  options.num_resources = problem.num_resources();
  options.most = most_bytes(problem);
  options.max_proofs = std::clamp(kMaxExplainedUnits / std::max(problem.num_units(), 1),
                                  kMinExplainingProofs, kMaxExplainingProofs);
  options.has_time = [&context] { return !is_stopped(context); };
  return find_missing_bytes(
      [&](const Amounts& added) { return prove_shortage(problem, added, context); }, options);
}

Explanation describe(const MissingBytes& missing, const ExplainedRanks& ranks,
                     const PlacementWords& words) {
  Explanation explanation;
  Int128 sum = 0;
  for (int resource = 0; resource < std::ssize(words.resources); ++resource) {
    const Bytes bytes = missing.per_rank[resource];
    if (bytes == 0) continue;
    explanation.binding += (explanation.binding.empty() ? "" : " and ") + words.resources[resource];
    sum += Int128{bytes} * (missing.unit[resource] < 0 ? ranks.num_ranks : 1);
    explanation.lines.push_back(describe_resource(missing, resource, ranks, words));
  }
  explanation.missing =
      static_cast<Bytes>(std::min<Int128>(sum, std::numeric_limits<Bytes>::max()));
  if (!missing.is_found()) {
    describe_rest(missing, ranks, words, explanation);
  } else if (!missing.is_least) {
    explanation.lines.emplace_back(
        "the search for the smallest reason was cut: fewer bytes may do");
  } else if (explanation.lines.size() > 1) {
    explanation.lines.emplace_back(
        "all of these bytes are missing: with one byte per rank less of any of them nothing fits "
        "(proved), with all of them the proof fails");
  } else {
    explanation.lines.emplace_back(
        "these are the fewest bytes: with one byte per rank less nothing fits "
        "(proved), with all of them the proof fails");
  }
  return explanation;
}

Explanation explain_infeasible(const PlacementProblem& problem, PlacementWords words,
                               const RunContext& context) {
  if (words.resources.empty()) {
    for (const Resource& resource : problem.resources) words.resources.push_back(resource.name);
  }
  const auto name_of_unit = [&problem](int unit) {
    const std::string& name = problem.units[unit].name;
    return name.empty() ? std::to_string(unit) : name;
  };
  const MissingBytes missing = find_missing_bytes(problem, context);
  Explanation explanation = describe(missing, {problem.num_ranks, name_of_unit}, words);
  if (missing.is_found() || !missing.beyond_bytes || missing.beyond_bytes->unit < 0) {
    return explanation;
  }
  const Unit& unit = problem.units[missing.beyond_bytes->unit];
  const auto num_allowed =
      unit.allowed_ranks.empty() ? problem.num_ranks : std::ssize(unit.allowed_ranks);
  if (const auto crowded = find_crowded(unit, num_allowed)) {
    explanation.lines.push_back(fmt::format("{} pieces need a rank each, and it may use {}{}",
                                            *crowded, num_allowed, words.distinct_ranks));
  }
  return explanation;
}

}  // namespace plimsoll::balance
