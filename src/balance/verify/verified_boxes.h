// What boxes of windows at several barriers prove: a part of the checker of bounds
// (verify_bound.h).
//
// Every leaf's proof is computed again: the most that the pieces and blocks on a rank can be worth
// within its rooms, by a search of its own, and what is left to uniform choices.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "balance/verify/verified_choices.h"
#include "plimsoll/balance/placement_bound.h"

namespace plimsoll::balance {

class VerifiedBoxes {
 public:
  // `choices` are those that the case leaves.
  VerifiedBoxes(const VerifiedChoices& choices, const BoxWitness& witness, std::string& fault,
                std::int64_t max_steps)
      : choices_(choices), witness_(witness), fault_(fault), max_steps_(max_steps) {}

  // ms without charges and floor; -infinity where nothing is proved.
  double value();

 private:
  struct Box {
    int node = 0;
    std::vector<double> low, high;  // [barriers and limits]
  };

  void tell(const char* fault) {
    if (fault_.empty()) fault_ = fault;
  }
  const PlacementProblem& problem() const { return choices_.problem(); }
  bool fits_the_problem();
  bool is_proof(const BoxProof& proof);
  std::vector<double> least_load(const UnitChoice& choice) const;
  Amounts least_bytes(const UnitChoice& choice) const;
  double largest_cap(int resource) const;
  double bytes_cost(const PieceRun& run, const BoxProof& proof) const;
  double uniform_load(int number);
  double worth_of(int unit, const BoxProof& proof) const;
  double least_of(int unit, const BoxProof& proof) const;
  double most_on_rank(const BoxProof& proof);

  const VerifiedChoices& choices_;
  const BoxWitness& witness_;
  std::string& fault_;
  std::int64_t max_steps_, num_steps_ = 0;
  std::vector<double> proved_;  // [proofs], NaN: not yet
};

}  // namespace plimsoll::balance
