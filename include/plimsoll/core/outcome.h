// How a search ended: a value, never an exception and never an Error. Bad data is an Error
// (result.h); "no plan" is not.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "plimsoll/core/proof.h"
#include "plimsoll/core/units.h"

#pragma GCC visibility push(default)
namespace plimsoll {

enum class SolveStatus {
  kOptimal,     // a plan with gap <= tolerance
  kFeasible,    // a plan with a larger gap, or without a bound
  kInfeasible,  // proved: no plan exists; the certificate says how
  kLimit,       // no plan and no proof: a limit was hit, or a heuristic found nothing
};
std::string_view to_string(SolveStatus status);

enum class StopReason {
  kFinished,   // the search ran to its own end
  kEffort,     // the budget of moves or nodes was used up
  kDeadline,   // the clock
  kCancelled,  // the caller
};
std::string_view to_string(StopReason reason);

// What is known of the optimum. Invariant where a bound exists: lower_bound <= optimum <=
// objective.
struct Certificate {
  double objective = 0;               // value of the plan; NaN without a plan
  std::optional<double> lower_bound;  // absent: nothing was proved
  Proof proof;  // how the bound (or the infeasibility) was shown; kNone without one

  // objective / lower_bound - 1; absent without a plan or a bound. 0 where both are 0.
  std::optional<double> gap() const;
  bool operator==(const Certificate&) const = default;
};

// A remark about legal input or a legal plan. `code` is a stable snake_case name, `place` a table,
// rank or option name, may be empty.
struct Warning {
  std::string code;
  std::string place;
  std::string message;
  bool operator==(const Warning&) const = default;
};

// Bytes and milliseconds per rank by cause; shapes [world_size] each. What nobody measured is
// absent, not 0.
struct Bill {
  std::map<std::string, std::vector<Bytes>> bytes;  // e.g. "hbm", "ddr", "dense", "kjt"
  std::map<std::string, std::vector<double>> ms;    // e.g. "fwd_compute"
  bool operator==(const Bill&) const = default;
};

// What an answer was made from. `inputs` maps a name ("model", "topology") to the hash of its
// canonical form (digest.h, hexadecimal).
struct Provenance {
  std::string version;
  std::map<std::string, std::string> options;
  std::map<std::string, std::string> inputs;
  std::uint64_t seed = 0;
  std::string stopped_at;  // where a clock or a cancel cut the search, in units of effort; empty if
                           // it did not
  bool operator==(const Provenance&) const = default;
};

// Why nothing fits: which constraint binds, by how much, and the smallest changes that would mend
// it.
struct Explanation {
  std::string binding;             // e.g. "hbm"
  Bytes missing = 0;               // bytes short in total; 0 if unknown
  std::vector<std::string> lines;  // for people, one sentence each
  bool operator==(const Explanation&) const = default;
};

template <class Plan>
struct Outcome {
  SolveStatus status = SolveStatus::kLimit;
  std::optional<Plan> plan;  // present iff status is kOptimal or kFeasible
  Certificate certificate;
  StopReason stop = StopReason::kFinished;
  std::vector<Warning> warnings;
  Explanation explanation;
};

}  // namespace plimsoll
#pragma GCC visibility pop
