// Checkpointing plans as JSON: "plimsoll.checkpoint_policy/1".
//
// A unit is named by `fqn`, or by `fqns` where it spans several modules; its `memory_budget` is
// 1 - `discard_ratio`, as torch.compile and torch's own policy take it, and is read only to be
// compared. Strictness as in model_json.h. Source: docs/formats.md#checkpointing-plan.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "plimsoll/checkpoint/checkpoint_policy.h"
#include "plimsoll/core/outcome.h"
#include "plimsoll/core/result.h"
#include "plimsoll/core/units.h"
#include "plimsoll/math/frontier.h"

namespace plimsoll::io {

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

// A policy, what it was made for, and what is known of it. A file that holds a policy alone is an
// answer whose other fields are empty.
struct CheckpointAnswer {
  std::optional<checkpoint::CheckpointPolicy> policy;  // absent: there is no plan
  std::string input_hash;             // of the statistics, hexadecimal; may be empty
  std::string torch;                  // release that made them; may be empty
  std::optional<Bytes> budget_bytes;  // that was asked for
  std::optional<CheckpointPrediction> predicted;
  int world_size = 1;                               // >= 1, over which parameters are sharded
  std::vector<ProfileEntry> profile;                // by position in forward post-order
  std::vector<math::FrontierPoint> frontier;        // by bytes
  std::vector<math::FrontierPoint> frontier_bound;  // likewise, what is proved; empty: the same
  std::optional<SolveStatus> status;
  std::optional<StopReason> stop;
  std::optional<Certificate> certificate;
  std::optional<Provenance> provenance;
  std::vector<Warning> warnings;
  std::optional<Explanation> explanation;
  bool operator==(const CheckpointAnswer&) const = default;
};

// Is this such a document, by its "schema" or, where it has none, by a list "units"?
bool is_checkpoint_policy(std::string_view text);

// Besides the shape: a policy or a status; every unit has modules and no module is in two;
// operators ascend; a unit of kind full keeps none; on the frontier more bytes cost no more time.
// Whether the plan suits a model is the checker's question. Errors: kSyntax, kSchema, kValue,
// kOverflow, kConflict.
Result<CheckpointAnswer> read_checkpoint_answer(std::string_view text, std::string_view file);
std::string write_checkpoint_answer(const CheckpointAnswer& answer);

}  // namespace plimsoll::io
