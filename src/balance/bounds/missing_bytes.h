// The smallest reason why nothing fits: the fewest bytes that would take the proof away.
//
// Problem. A proof says that nothing fits. Which resources, with how many bytes more on every rank,
// are the least in sum with which it can no longer be made? Method. The proof is asked again with
// bytes added: of each resource alone, and, in every order, of several resources, each in turn as
// few as will do with the others as large as is worth it. The fewest bytes of a resource are found
// by bisection, and faster where the proof says how many bytes it lacks itself. Several resources
// are named only where that takes fewer bytes in all than any resource alone. Cost. Some 5 to 50
// proofs a resource; `max_proofs` in all. Promises. With the bytes of the result there is no proof,
// and, where `is_least`, with one byte a rank less of any resource named there is one. Exactly the
// least sum where one resource is named and bytes never make a proof possible. Not promised. That
// something fits then: only that this proof does not say otherwise.
#pragma once

#include <functional>
#include <optional>

#include "plimsoll/balance/placement_problem.h"

namespace plimsoll::balance {

struct Shortage {
  // By what the proof lacks itself, of each resource alone, on every rank; 0: it does not say. A
  // hint.
  Amounts hint{};
  int unit = -1;  // that can stand nowhere; -1: all units together
};

// Nothing where it cannot be proved that nothing fits with so many bytes more on every rank.
using ShortageProof = std::function<std::optional<Shortage>(const Amounts& added)>;

struct MissingBytesOptions {
  int num_resources = 0;
  Amounts most{};        // >= 0, of each resource on every rank; 0: the resource is left alone
  int max_proofs = 400;  // >= 1
  std::function<bool()> has_time;  // asked after each proof, which is thrown away where it is false
};

struct MissingBytes {
  // Beside what every rank has; all 0: no bytes help, or the time did not suffice.
  Amounts per_rank{};
  PerResource<int> unit{};               // that lacks them and can stand nowhere; -1: all together
  bool is_least = false;                 // one byte less of any resource: the proof stands
  std::optional<Shortage> beyond_bytes;  // what is proved with the most bytes of all resources
  int num_proofs = 0;

  bool is_found() const { return per_rank != Amounts{}; }
};

// Precondition: without more bytes there is a proof.
MissingBytes find_missing_bytes(const ShortageProof& prove, const MissingBytesOptions& options);

}  // namespace plimsoll::balance
