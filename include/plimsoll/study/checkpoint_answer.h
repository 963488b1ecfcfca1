// What planning activation checkpointing answers: the policy, what it was made for, and what is
// known of it.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "plimsoll/checkpoint/checkpoint_policy.h"
#include "plimsoll/core/units.h"
#include "plimsoll/math/frontier.h"
#include "plimsoll/study/answer.h"

#pragma GCC visibility push(default)
namespace plimsoll::study {

struct CheckpointPrediction {
  Bytes peak_bytes = 0;
  double recompute_ms = 0;
  Bytes baseline_peak_bytes = 0;  // without checkpointing
  std::string binding;            // the module whose backward needs the peak; empty: the loss
  std::optional<double> price_ms_per_gib;  // what one more GiB would save at first
  bool operator==(const CheckpointPrediction&) const = default;
};

// Bytes needed while a module's backward runs.
struct ProfileEntry {
  std::string fqn;
  Bytes bytes = 0;
  bool operator==(const ProfileEntry&) const = default;
};

// A policy, what it was made for, and what is known of it.
struct CheckpointAnswer : Answer<checkpoint::CheckpointPolicy> {
  std::string input_hash;             // of the statistics, hexadecimal; may be empty
  std::string torch;                  // release that made them; may be empty
  std::optional<Bytes> budget_bytes;  // that was asked for
  std::optional<CheckpointPrediction> predicted;
  int world_size = 1;                               // >= 1, over which parameters are sharded
  std::vector<ProfileEntry> profile;                // by position in forward post-order
  std::vector<math::FrontierPoint> frontier;        // by bytes
  std::vector<math::FrontierPoint> frontier_bound;  // as above, what is proved; empty: the same
  bool operator==(const CheckpointAnswer&) const = default;
};

}  // namespace plimsoll::study
#pragma GCC visibility pop
