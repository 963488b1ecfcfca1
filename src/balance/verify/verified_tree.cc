#include "balance/verify/verified_tree.h"

#include <algorithm>
#include <utility>

namespace plimsoll::balance {
namespace {

// Shares of all anchors together, and of those of one unit: [0] loads, [1 + resource] bytes.
using Weights = std::vector<double>;

double of_bytes(const std::vector<double>& price, const Amounts& bytes) {
  double sum = 0;
  for (std::size_t resource = 0; resource < price.size(); ++resource) {
    sum += price[resource] * static_cast<double>(bytes[resource]);
  }
  return sum;
}

}  // namespace

double VerifiedTree::refuse(const char* fault) {
  if (fault_.empty()) fault_ = fault;
  return -kInfinity;
}

double VerifiedTree::value() {
  if (witness_.nodes.empty()) return refuse("a tree without a root");
  Allowed all;
  for (const Unit& unit : problem().units) all.emplace_back(unit.choices.size(), 1);
  std::vector<std::pair<int, Allowed>> open;
  open.emplace_back(0, std::move(all));
  std::size_t num_visited = 0;
  double least = kInfinity;
  while (!open.empty()) {
    auto [number, allowed] = std::move(open.back());
    open.pop_back();
    const ChoiceNode& node = witness_.nodes[number];
    if (++num_visited > witness_.nodes.size() || num_steps_ > max_steps_) {
      return refuse("nodes that do not form a tree, or take longer to check than a search takes");
    }
    if (node.first_child < 0) {
      if (node.proof < 0 || node.proof >= std::ssize(witness_.proofs)) {
        return refuse("a leaf without its proof");
      }
      least = lesser(least, value_of(witness_.proofs[node.proof], allowed));
      if (!fault_.empty()) return -kInfinity;
      continue;
    }
    if (node.first_child <= number || node.first_child >= std::ssize(witness_.nodes) - 1 ||
        node.unit < 0 || node.unit >= problem().num_units()) {
      return refuse("nodes that do not form a tree");
    }
    Allowed others = allowed;
    for (std::size_t c = 0; c < allowed[node.unit].size(); ++c) {
      const bool is_first = std::find(node.choices.begin(), node.choices.end(),
                                      choices_.index_of(node.unit, c)) != node.choices.end();
      (is_first ? others : allowed)[node.unit][c] = 0;
    }
    open.emplace_back(node.first_child, std::move(allowed));
    open.emplace_back(node.first_child + 1, std::move(others));
  }
  return least;
}

bool VerifiedTree::is_sound(const ChoiceProof& proof) {
  const auto is_anchor = [&](const Anchor& anchor) {
    return anchor.unit >= 0 && anchor.unit < problem().num_units() && anchor.resource >= -1 &&
           anchor.resource < problem().num_resources() && is_number(anchor.weight);
  };
  return is_number(proof.mean) &&
         proof.price.size() == static_cast<std::size_t>(problem().num_resources()) &&
         std::all_of(proof.price.begin(), proof.price.end(), is_number) &&
         std::all_of(proof.anchors.begin(), proof.anchors.end(), is_anchor);
}

// A placement of at most the target, which the filter holds for, takes at least the weighted sum.
double VerifiedTree::value_of(const ChoiceProof& proof, const Allowed& allowed) {
  for (const auto& of_unit : allowed) num_steps_ += std::ssize(of_unit);
  if (!(proof.target >= 0)) return refuse("a target that is not a number");
  const double target = proof.target * (1 - 1e-9);
  if (!choices_.filter(target, forbidden_, allowed)) return target;
  if (proof.mean == 0 && proof.price.empty() && proof.anchors.empty()) {
    return refuse("a target that leaves every unit a choice");
  }
  if (!is_sound(proof)) return refuse("weights or prices that are missing, negative or too large");
  return lesser(target, weighted(proof));
}

// Of all ranks: the mean of their loads and all their bytes. Of the rank that holds the largest
// piece of a unit: that piece, and of all other units what they put on every rank.
double VerifiedTree::weighted(const ChoiceProof& proof) {
  const auto num_resources = static_cast<std::size_t>(problem().num_resources());
  Weights all(1 + num_resources);
  std::vector<Weights> own(problem().units.size(), all);
  double paid = 0;
  for (int rank = 0; rank < problem().num_ranks; ++rank) {
    paid += of_bytes(proof.price, problem().caps[rank]);
  }
  for (const Anchor& anchor : proof.anchors) {
    const int resource = 1 + anchor.resource;
    all[resource] += anchor.weight;
    own[anchor.unit][resource] += anchor.weight;
    if (anchor.resource < 0) continue;
    Bytes room = 0;
    for (const VerifiedChoices::Profile& profile : choices_.ranks()) {
      room = std::max(room, choices_.room_of(profile.rank, anchor.resource));
    }
    paid += anchor.weight * static_cast<double>(room);
  }
  const double mean = proof.mean / static_cast<double>(problem().num_ranks);
  double sum = 0;
  for (int unit = 0; unit < problem().num_units(); ++unit) {
    double least = kInfinity;
    for (std::size_t c = 0; c < problem().units[unit].choices.size(); ++c) {
      if (!choices_.is_alive(unit, c)) continue;
      const UnitChoice& choice = choices_.choice_at(unit, c);
      double cost = choices_.least_cost<double>(unit, choice, [&](const PieceRun& run, int rank) {
        return mean * choices_.load_on(run, rank) + of_bytes(proof.price, run.bytes);
      });
      // The largest piece, and the smallest where the choice is everywhere.
      Weights largest(all.size());
      Weights everywhere(all.size(), choice.spread == Spread::kUniform ? kInfinity : 0);
      for (const PieceRun& run : choice.runs) {
        double load = kInfinity;
        for (const VerifiedChoices::Profile& profile : choices_.ranks()) {
          load = std::min(load, choices_.load_on(run, profile.rank));
        }
        largest[0] = std::max(largest[0], load);
        everywhere[0] = std::min(everywhere[0], load);
        for (std::size_t resource = 0; resource < num_resources; ++resource) {
          const auto bytes = static_cast<double>(run.bytes[resource]);
          largest[1 + resource] = std::max(largest[1 + resource], bytes);
          everywhere[1 + resource] = std::min(everywhere[1 + resource], bytes);
        }
      }
      for (std::size_t i = 0; i < all.size(); ++i) {
        cost += own[unit][i] * largest[i] + (all[i] - own[unit][i]) * everywhere[i];
      }
      least = std::min(least, cost);
    }
    sum += least;
  }
  const double total = proof.mean + all[0];
  if (!(total >= 1 / kLargestNumber)) return refuse("weights of loads that add up to nothing");
  const double num_terms = problem().num_units() + problem().num_resources() * problem().num_ranks +
                           4 * static_cast<double>(proof.anchors.size());
  return (sum - paid - rounding_of(sum + paid, num_terms)) / total;
}

}  // namespace plimsoll::balance
