// A checkpointing answer for people.
#pragma once

#include <string>

#include "plimsoll/core/units.h"
#include "plimsoll/study/checkpoint_answer.h"

namespace plimsoll::app {

// What was planned for.
struct CheckpointSubject {
  std::string name;
  int num_modules = 0;
  Bytes baseline = 0;     // bytes at the peak without checkpointing, by the memory model
  double compute_ms = 0;  // forward and backward
};

struct CheckpointPrint {
  bool is_verbose = false;   // every unit, how the search went, the profile's largest entries
  bool has_profile = false;  // all of the profile
  std::string output;        // the file of -o, if any
};

// What was reached at what cost and how good it is; then the units, those in a row that do the same
// as one. `answer` has a status and a certificate.
struct CheckpointText {
  std::string head, body;
};
CheckpointText describe_checkpoint(const study::CheckpointAnswer& answer,
                                   const CheckpointSubject& subject, const CheckpointPrint& print);

}  // namespace plimsoll::app
