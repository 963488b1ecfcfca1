#include "balance/verify/verify_bound.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "balance/problem/one_load.h"
#include "balance/verify/verified_boxes.h"
#include "balance/verify/verified_tree.h"
#include "balance/verify/verified_windows.h"
#include "core/check.h"

namespace plimsoll::balance {
namespace {

class Verifier {
 public:
  Verifier(const PlacementProblem& problem, const PlacementBound& bound, std::int64_t max_steps)
      : bound_(bound), max_steps_(max_steps), choices_(problem, bound.kind_of_rank) {}

  BoundVerdict verify() {
    verdict_.value = kInfinity;
    if (bound_.cases.size() > kMaxCases) return refuse("more cases than a search makes");
    if (!covers(0, 0)) return refuse("the cases leave placements out, or overlap past checking");
    for (const BoundCase& c : bound_.cases) {
      verdict_.case_values.push_back(base(c) + value_of(c));
      verdict_.value = lesser(verdict_.value, verdict_.case_values.back());
      if (!verdict_.fault.empty()) return refuse(verdict_.fault);
    }
    if (std::isnan(verdict_.value)) return refuse("the witness holds values that are not numbers");
    verdict_.holds = verdict_.value >= bound_.value * (1 - 1e-7);
    if (!verdict_.holds) verdict_.fault = "the witness proves less";
    return verdict_;
  }

 private:
  static constexpr std::size_t kMaxCases = 4096;
  static constexpr int kMaxQuestions = 1 << 20;  // of what the cases cover

  static BoundVerdict refuse(std::string fault) {
    return {false, -kInfinity, std::move(fault), {}};
  }
  const PlacementProblem& problem() const { return choices_.problem(); }
  void find(std::string fault) {
    if (verdict_.fault.empty()) verdict_.fault = std::move(fault);
  }

  // Do the cases leave no set of causes out? Decide causes one by one while cases differ. Cases
  // that a search splits are soon told apart; of others the question may take for ever.
  bool covers(std::uint64_t paid, std::uint64_t forbidden) {
    if (++num_questions_ > kMaxQuestions) return false;
    for (const auto& [first, second] : problem().exclusive) {
      if (second < 64 && (paid >> first & paid >> second & 1) != 0) return true;
    }
    // A case covers every set within which it forbids nothing that may be present; what it pays
    // for must be present.
    int cause = -1;
    for (const BoundCase& c : bound_.cases) {
      if ((c.forbidden & paid) != 0 || (c.paid & forbidden) != 0) continue;
      const std::uint64_t open = (c.forbidden & ~forbidden) | (c.paid & ~paid);
      if (open == 0) return true;
      for (int i = 0; i < 64 && cause < 0; ++i) {
        if ((open >> i & 1) != 0) cause = i;
      }
    }
    if (cause < 0) return false;
    const std::uint64_t bit = std::uint64_t{1} << cause;
    return covers(paid | bit, forbidden) && covers(paid, forbidden | bit);
  }

  double base(const BoundCase& c) const {
    double sum = problem().floor_ms;
    for (std::size_t i = 0; i < problem().charges.size() && i < 64; ++i) {
      if ((c.paid >> i & 1) != 0) sum += problem().charges[i];
    }
    return sum;
  }

  double value_of(const BoundCase& c) {
    return c.load_resource ? value_by_caps(c, *c.load_resource) : value_by_method(c);
  }

  // Infinite where some rank would need more bytes of the resource than any has.
  double value_by_caps(const BoundCase& c, int resource) {
    if (!is_resource_a_load(problem(), resource)) {
      find("the caps of that resource are not of single ranks that are alike");
      return 0;
    }
    const PlacementProblem of_resource = with_resource_as_load(problem(), resource);
    Verifier verifier(of_resource, bound_, max_steps_);
    const double least = verifier.value_by_method(c);
    if (!verifier.verdict_.fault.empty()) find(verifier.verdict_.fault);
    return least > static_cast<double>(largest_cap(problem(), resource)) ? kInfinity : 0;
  }

  // The sum of what is shown of each barrier alone.
  double value_by_barriers(const BoundCase& c) {
    if (c.barriers.size() != static_cast<std::size_t>(problem().num_barriers)) {
      find("a barrier without a proof");
      return 0;
    }
    double sum = 0;
    for (int barrier = 0; barrier < problem().num_barriers; ++barrier) {
      const BarrierProof& proof = c.barriers[static_cast<std::size_t>(barrier)];
      BoundCase alone;
      alone.forbidden = c.forbidden;
      alone.method = proof.method;
      alone.prices = proof.prices;
      alone.windows = proof.windows;
      const PlacementProblem problem_of_barrier = with_barrier_alone(problem(), barrier);
      Verifier verifier(problem_of_barrier, bound_, max_steps_);
      sum += verifier.value_by_method(alone);
      if (!verifier.verdict_.fault.empty()) find(verifier.verdict_.fault);
    }
    return sum;
  }

  double value_by_method(const BoundCase& c) {
    switch (c.method) {
      case BoundMethod::kNone:
        return 0;
      case BoundMethod::kAverage:
      case BoundMethod::kFiltered: {
        if (c.method == BoundMethod::kAverage) {
          return choices_.filter(kInfinity, c.forbidden) ? average_at(c.prices) : kInfinity;
        }
        // A placement of less than the target would have to cost more.
        const double target = c.prices.target * (1 - 1e-9);
        const bool is_refuted = !choices_.filter(target, c.forbidden) ||
                                average_at(c.prices) > target ||
                                (!c.prices.weight.empty() && exceeds(c.prices.weight));
        return is_refuted ? target : 0;
      }
      case BoundMethod::kWindows:
      case BoundMethod::kPatterns:
      case BoundMethod::kBranched:
        if (!choices_.filter(c.windows.target, c.forbidden)) return c.windows.target;
        return lesser(c.windows.target,
                      VerifiedWindows(choices_, c.windows, verdict_.fault, max_steps_).value());
      case BoundMethod::kChoices:
        return VerifiedTree(choices_, c.choices, c.forbidden, verdict_.fault, max_steps_).value();
      case BoundMethod::kBarriers:
        return value_by_barriers(c);
      case BoundMethod::kBoxes:
        if (!choices_.filter(kInfinity, c.forbidden)) return kInfinity;
        return VerifiedBoxes(choices_, c.boxes, verdict_.fault, max_steps_).value();
      case BoundMethod::kMemory:
        if (!choices_.filter(kInfinity, c.forbidden)) return kInfinity;
        return exceeds(c.prices.weight) ? kInfinity : 0;
    }
    return 0;
  }

  double average_at(const PriceWitness& witness) {
    if (witness.theta.size() != static_cast<std::size_t>(choices_.num_kinds()) ||
        !choices_.are_prices(witness.price, verdict_.fault)) {
      find("weights of ranks are missing");
      return -kInfinity;
    }
    double total = 0;
    double paid = 0;
    for (int rank = 0; rank < problem().num_ranks; ++rank) {
      const double theta = witness.theta[choices_.kind_of(rank)];
      if (!is_number(theta)) find("a weight of a rank that is negative or too large");
      total += theta;
      for (int resource = 0; resource < problem().num_resources(); ++resource) {
        paid += choices_.price_of(witness.price, rank, resource) *
                static_cast<double>(problem().caps[rank][resource]);
      }
    }
    const double sum = choices_.least_of_all<double>([&](const PieceRun& run, int rank) {
      double cost = witness.theta[choices_.kind_of(rank)] * choices_.load_on(run, rank);
      for (int resource = 0; resource < problem().num_resources(); ++resource) {
        cost += choices_.price_of(witness.price, rank, resource) *
                static_cast<double>(run.bytes[resource]);
      }
      return cost;
    });
    if (!(total >= 1 / kLargestNumber)) find("weights of ranks that add up to nothing");
    const double num_terms =
        problem().num_units() + problem().num_resources() * problem().num_ranks;
    return (sum - paid - rounding_of(sum + paid, num_terms)) / total;
  }

  bool exceeds(const std::vector<std::int64_t>& weight) {
    if (!choices_.are_prices(weight, verdict_.fault)) return false;
    const auto weigh = [&](int rank, const Amounts& bytes) {
      Int128 sum = 0;
      for (int resource = 0; resource < problem().num_resources(); ++resource) {
        sum += Int128{weight[static_cast<std::size_t>(choices_.kind_of(rank)) *
                                 static_cast<std::size_t>(problem().num_resources()) +
                             static_cast<std::size_t>(resource)]} *
               bytes[resource];
      }
      return sum;
    };
    Int128 caps = 0;
    for (int rank = 0; rank < problem().num_ranks; ++rank)
      caps += weigh(rank, problem().caps[rank]);
    return choices_.least_of_all<Int128>(
               [&](const PieceRun& run, int rank) { return weigh(rank, run.bytes); }) > caps;
  }

  const PlacementBound& bound_;
  std::int64_t max_steps_;
  VerifiedChoices choices_;
  BoundVerdict verdict_;
  int num_questions_ = 0;
};

}  // namespace

BoundVerdict verify_bound(const PlacementProblem& problem, const PlacementBound& bound,
                          std::int64_t max_steps) {
  PLIMSOLL_DCHECK(validate(problem).has_value(), "the problem is valid");
  const std::vector<int>& kinds = bound.kind_of_rank;
  const auto is_kind = [&](int kind) { return kind >= 0 && kind < problem.num_ranks; };
  if (kinds.size() != static_cast<std::size_t>(problem.num_ranks) ||
      !std::all_of(kinds.begin(), kinds.end(), is_kind)) {
    return {false, -kInfinity, "the kinds of ranks do not fit the problem", {}};
  }
  return Verifier(problem, bound, max_steps).verify();
}

}  // namespace plimsoll::balance
