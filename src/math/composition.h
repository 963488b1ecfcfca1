// One memory for several planners: their frontiers added up under one cap.
//
// Problem. Part k costs F_k(m_k) with m_k bytes. Split a cap C so that the sum of the costs is
// least: T(C) = min over m_1 + ... + m_n <= C of the sum of F_k(m_k). It is exact where memory
// adds, time adds, and the parts share nothing but bytes.
// Method. T is the infimal convolution of the F_k, taken two at a time. A run of pieces without a
// jump and with slopes that flatten is convex and is convolved at once (infimal_convolution.h); the
// minimum of what all runs give is the curve. The lower twins of the parts give that of the whole.
// A split at one cap walks back through the pairs: for two functions the best m is an end of a
// piece of one of them, found by one pass over both.
// Cost. Of two curves with a and b pieces, r of them runs: O(r b log r + a), so linear where one is
// convex; a split O(a + b) a pair. At one cap two parts need no curve of the whole: split_between
// is O(a + b) in all.
// Promises. At every whole byte the least sum, within the tolerance of the minimum. A split never
// hands out more than the cap; of equal sums it leaves the most memory free, and gives the later
// parts less.
// Source: docs/mathematics/checkpointing.md#adding-frontiers-up.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "plimsoll/math/frontier.h"

namespace plimsoll::math {

struct CompositionOptions {
  bool join_runs = true;  // off: every piece is convolved by itself
};

// Effort, equal on every machine.
struct CompositionWork {
  std::int64_t convolutions = 0;
};

// The frontier of two parts together; empty where one of them is.
Frontier compose(const Frontier& a, const Frontier& b, const CompositionOptions& options = {},
                 CompositionWork* work = nullptr);

struct MemorySplit {
  std::vector<Bytes> bytes;   // [parts] for each its own; together at most the cap
  Bytes free = 0;             // what is left of the cap
  double ms = 0;              // sum of the parts' costs, in their order
  double lower_bound = 0;     // no split of any plans costs less
  std::vector<double> price;  // [parts] ms that the part's next byte would save
  double next_gib_ms = 0;     // what one more GiB saves if split again
  bool operator==(const MemorySplit&) const = default;
};

// The cheapest split of one cap between two parts. Of equal sums `b` gets the fewest bytes, and
// each part no more than its cost needs. Absent where the cap is below what both need at least.
std::optional<MemorySplit> split_between(const Frontier& a, const Frontier& b, Bytes cap);

class Composition {
 public:
  // At least one part. Sizes stay below 2^60 bytes.
  explicit Composition(std::vector<Frontier> parts, const CompositionOptions& options = {});

  const Frontier& whole() const { return prefixes_.back(); }
  // Absent where the cap is below whole().min_bytes().
  std::optional<MemorySplit> split_at(Bytes cap) const;

 private:
  std::vector<Frontier> parts_;
  std::vector<Frontier> prefixes_;  // [k] of parts 0 to k
};

}  // namespace plimsoll::math
