// What a tree of windows of the slowest load proves: a part of the judge of bounds
// (verify_bound.h).
//
// Every leaf's proof is computed again: two knapsack tables a kind of hosts, or the sum of a dual
// feasible function, and the uniform load that is left.
#pragma once

#include <map>
#include <string>
#include <tuple>
#include <vector>

#include "plimsoll/solve/placement_bound.h"
#include "solve/verified_choices.h"

namespace plimsoll::solve {

class VerifiedWindows {
 public:
  // `choices` are filtered by the witness's target. The first fault found is told.
  VerifiedWindows(const VerifiedChoices& choices, const WindowWitness& witness, std::string& fault)
      : choices_(choices), witness_(witness), fault_(fault) {}

  // ms without charges and floor; -infinity where nothing is proved.
  double value();

 private:
  struct Box {
    double low = 0, high = 0;
    std::vector<double> lo, hi;  // [classes]
  };

  const PlacementProblem& problem() const { return choices_.problem(); }
  void tell(const char* fault) {
    if (fault_.empty()) fault_ = fault;
  }
  double descend(const Box& all);
  double uniform_load(int number, const Box& box);
  double uniform_sum(const std::vector<double>& worth, const std::vector<double>& price,
                     const Box& box) const;
  double by_function(const RoomProof& proof, const Box& box);
  double by_patterns(const RoomProof& proof, const Box& box);
  std::vector<double> table(const RoomProof& proof, const std::vector<double>& worth, bool is_host,
                            int at) const;

  const VerifiedChoices& choices_;
  const WindowWitness& witness_;
  std::string& fault_;
  int num_classes_ = 1;
  std::map<std::tuple<int, std::vector<double>, std::vector<double>>, double> proved_;
};

}  // namespace plimsoll::solve
