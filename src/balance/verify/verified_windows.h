// What a tree of windows of the slowest load proves: a part of the checker of bounds
// (verify_bound.h).
//
// Every leaf's proof is computed again: two knapsack tables a kind of hosts, or the sum of a dual
// feasible function, and the uniform load that is left.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "balance/verify/verified_choices.h"
#include "plimsoll/balance/placement_bound.h"

namespace plimsoll::balance {

class VerifiedWindows {
 public:
  // `choices` are filtered by the witness's target. The first fault found is told.
  VerifiedWindows(const VerifiedChoices& choices, const WindowWitness& witness, std::string& fault,
                  std::int64_t max_steps)
      : choices_(choices), witness_(witness), fault_(fault), max_steps_(max_steps) {}

  // ms without charges and floor; -infinity where nothing is proved.
  double value();

 private:
  struct Box {
    double low = 0, high = 0;
    std::vector<double> lo, hi;                     // [classes]
    std::vector<double> least_blocks, most_blocks;  // [hosts by falling block load]; empty: any
    auto operator<=>(const Box&) const = default;
  };

  const PlacementProblem& problem() const { return choices_.problem(); }
  void tell(const char* fault) {
    if (fault_.empty()) fault_ = fault;
  }
  double descend(const Box& all);
  double uniform_load(int number, const Box& box);
  double uniform_sum(const std::vector<double>& worth, const std::vector<double>& price,
                     const Box& box);
  double by_function(const RoomProof& proof, const Box& box);
  bool split_host(int host, double split, Box& first, Box& second);
  double by_patterns(const RoomProof& proof, const Box& box);
  std::vector<double> table(const RoomProof& proof, const std::vector<double>& worth, bool is_host,
                            int at);

  const VerifiedChoices& choices_;
  const WindowWitness& witness_;
  std::string& fault_;
  int num_classes_ = 1;
  std::int64_t max_steps_, num_steps_ = 0;        // cells filled, units visited
  std::map<std::pair<int, Box>, double> proved_;  // by proof; of a box whose window is left out
};

}  // namespace plimsoll::balance
