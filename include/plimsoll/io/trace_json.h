// Timelines as Perfetto, chrome://tracing and torch's profiler read them: trace events in JSON
// (https://docs.google.com/document/d/1CvAClvFfyA5R-PhYUmn5OOQtYMH4h6I0nSsKchNAySU), times in
// microseconds; "plimsoll.trace/1" for its schema.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "plimsoll/core/result.h"
#include "plimsoll/study/step_timeline.h"

#pragma GCC visibility push(default)
namespace plimsoll::io {

std::string write_trace(const study::StepTimeline& timeline);

struct TraceBeside {
  std::string trace;
  std::string recorded_name;  // of the step that the timeline was laid on, "ProfilerStep#5"
  double recorded_ms = 0;     // what it took
};

// The same with the events of a trace that torch's profiler recorded, in processes of their own.
// The timeline begins where the recorded step does: number `step` of its ProfilerStep events, or
// the last one; where it has none, its first event. Errors at `file`: kSyntax, kSchema (no trace
// events), kNotFound (no such step).
Result<TraceBeside> write_trace_beside(const study::StepTimeline& timeline,
                                       std::string_view recorded, std::string_view file,
                                       std::optional<int> step);

}  // namespace plimsoll::io
#pragma GCC visibility pop
