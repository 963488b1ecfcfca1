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

// `answer` has a status and a certificate; `ending` is the line that says how the search ended.
std::string describe_checkpoint(const study::CheckpointAnswer& answer,
                                const CheckpointSubject& subject, const std::string& ending,
                                bool prints_profile);

}  // namespace plimsoll::app
