#include "balance/balance_parts.h"

#include <algorithm>
#include <utility>

#include "core/check.h"

namespace plimsoll::balance {
namespace {

constexpr int kMaxEnumeratedCauses = 8;

class PartsMaker {
 public:
  PartsMaker(const PlacementProblem& problem, const PlacementGroups& groups, double incumbent,
             double tolerance, EffortClock& clock)
      : problem_(problem),
        groups_(groups),
        incumbent_(incumbent),
        tolerance_(tolerance),
        clock_(clock) {}

  BalanceParts make() {
    const auto num_causes = static_cast<int>(problem_.charges.size());
    BalancePart all;
    all.constant = problem_.floor_ms;
    const bool exists = bound(all);
    if (!exists || num_causes == 0 || num_causes > kMaxEnumeratedCauses) {
      if (exists) result_.parts.push_back(std::move(all));
      return std::move(result_);
    }
    const std::uint64_t every = (std::uint64_t{1} << num_causes) - 1;
    for (std::uint64_t set = 0; set <= every; ++set) {
      BalancePart part = set == every ? all : BalancePart{};
      part.forbidden = every & ~set;
      part.paid = set;
      part.constant = problem_.floor_ms;
      for (int cause = 0; cause < num_causes; ++cause) {
        if ((set >> cause & 1) != 0) part.constant += problem_.charges[cause];
      }
      // Fewer choices cost no less.
      part.lower_bound = all.bound.value + part.constant;
      part.proof = all.proof;
      const bool is_closed = part.lower_bound * (1 + tolerance_) >= incumbent_;
      if (is_closed || set == every || bound(part)) result_.parts.push_back(std::move(part));
      if (clock_.spend(1)) {
        result_.parts.clear();
        result_.parts.push_back(std::move(all));
        break;
      }
    }
    std::stable_sort(
        result_.parts.begin(), result_.parts.end(),
        [](const BalancePart& a, const BalancePart& b) { return a.lower_bound < b.lower_bound; });
    return std::move(result_);
  }

 private:
  // False where no placement is in it.
  bool bound(BalancePart& part) {
    FilteredOptions options;
    options.context = &clock_.context();
    part.bound = part.forbidden == 0
                     ? filtered_bound(groups_, options)
                     : filtered_bound(without_causes(groups_, part.forbidden), options);
    if (part.bound.infeasible) {
      result_.infeasible = part.bound.infeasible;
      return false;
    }
    part.lower_bound = part.bound.value + part.constant;
    part.proof = ProofKind::kFilteredAverage;
    return true;
  }

  const PlacementProblem& problem_;
  const PlacementGroups& groups_;
  double incumbent_, tolerance_;
  EffortClock& clock_;
  BalanceParts result_;
};

}  // namespace

ItemFilter BalancePart::filter(const PlacementProblem& problem) const {
  ItemFilter filter;
  for (std::size_t cause = 0; cause < problem.charges.size(); ++cause) {
    filter.is_cause_allowed.push_back(cause >= 64 || (forbidden >> cause & 1) == 0);
  }
  return filter;
}

void BalancePart::find_items(const PlacementProblem& problem) {
  if (items.problem == nullptr) items = make_placement_items(problem, filter(problem));
}

bool BalancePart::contains(const UnitPlacements& placements) const {
  PLIMSOLL_CHECK(items.problem != nullptr, "the items were found");
  for (int unit = 0; unit < items.num_units; ++unit) {
    if (items.find_choice(unit, placements.units[unit].choice) < 0) return false;
  }
  return true;
}

void BalancePart::take(const PlacementBound& of_all) {
  const BoundCase* least = nullptr;
  for (const BoundCase& c : of_all.cases) {
    if ((c.paid & forbidden) != 0) continue;
    if (least == nullptr || c.value < least->value) least = &c;
  }
  if (least == nullptr || least->value <= lower_bound) return;
  lower_bound = least->value;
  proof = proof_of(least->method, of_all);
}

BalanceParts make_balance_parts(const PlacementProblem& problem, const PlacementGroups& groups,
                                double incumbent, double tolerance, EffortClock& clock) {
  return PartsMaker(problem, groups, incumbent, tolerance, clock).make();
}

}  // namespace plimsoll::balance
