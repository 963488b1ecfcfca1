// Which proposals are the same: what a search remembers of those that it has placed.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "plimsoll/embedding/proposer.h"

namespace plimsoll::embedding {

// 128 bits of the multiset of options; collisions are as good as impossible, and the reference
// itself compares 64-bit hashes.
struct ProposalKey {
  std::uint64_t low = 0;
  std::uint64_t high = 0;
  bool operator==(const ProposalKey&) const = default;
};
struct HashOfKey {
  std::size_t operator()(const ProposalKey& key) const { return key.low; }
};

inline std::uint64_t mix(std::uint64_t value) {  // splitmix64's finaliser
  value += 0x9e3779b97f4a7c15U;
  value = (value ^ (value >> 30)) * 0xbf58476d1ce4e5b9U;
  value = (value ^ (value >> 27)) * 0x94d049bb133111ebU;
  return value ^ (value >> 31);
}

// Keys of proposals as sums over their options, each option's part computed once.
class ProposalKeys {
 public:
  ProposalKey key_of(const Proposal& proposal) {
    ProposalKey key;
    for (const std::int32_t option : proposal) {
      const ProposalKey& part = part_of(static_cast<std::size_t>(option));
      key.low += part.low;
      key.high += part.high;
    }
    return key;
  }

 private:
  // Searches may append options, so the parts grow as they are asked for.
  const ProposalKey& part_of(std::size_t option) {
    for (std::size_t next = parts_.size(); next <= option; ++next) {
      const std::uint64_t low = mix(next);
      parts_.push_back({low, mix(low)});
    }
    return parts_[option];
  }

  std::vector<ProposalKey> parts_;
};

}  // namespace plimsoll::embedding
