// What a tree of choices proves: a part of the checker of bounds (verify_bound.h).
//
// Every leaf is filtered again with what its branches allow, and its weighted sum formed again.
// A choice that another can replace is left out of the checker's problem and of every branch.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "balance/verify/verified_choices.h"
#include "plimsoll/balance/placement_bound.h"

namespace plimsoll::balance {

class VerifiedTree {
 public:
  // The first fault found is told. `choices` is left filtered by some leaf.
  VerifiedTree(VerifiedChoices& choices, const ChoiceWitness& witness, std::uint64_t forbidden,
               std::string& fault, std::int64_t max_steps)
      : choices_(choices),
        witness_(witness),
        forbidden_(forbidden),
        fault_(fault),
        max_steps_(max_steps) {}

  // ms without charges and floor; -infinity where nothing is proved.
  double value();

 private:
  using Allowed = std::vector<std::vector<char>>;  // [units][choices]

  const PlacementProblem& problem() const { return choices_.problem(); }
  double refuse(const char* fault);
  bool is_sound(const ChoiceProof& proof);
  double value_of(const ChoiceProof& proof, const Allowed& allowed);
  double weighted(const ChoiceProof& proof);

  VerifiedChoices& choices_;
  const ChoiceWitness& witness_;
  std::uint64_t forbidden_;
  std::string& fault_;
  std::int64_t max_steps_, num_steps_ = 0;  // choices visited
};

}  // namespace plimsoll::balance
