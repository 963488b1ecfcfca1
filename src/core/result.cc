#include "plimsoll/core/result.h"

namespace plimsoll {

std::string_view to_string(ErrorCode code) {
  switch (code) {
    case ErrorCode::kUsage:
      return "usage";
    case ErrorCode::kNotFound:
      return "not_found";
    case ErrorCode::kIo:
      return "io";
    case ErrorCode::kSyntax:
      return "syntax";
    case ErrorCode::kSchema:
      return "schema";
    case ErrorCode::kValue:
      return "value";
    case ErrorCode::kConflict:
      return "conflict";
    case ErrorCode::kOverflow:
      return "overflow";
    case ErrorCode::kRuntime:
      return "runtime";
    case ErrorCode::kZeroDivision:
      return "zero_division";
    case ErrorCode::kPlanner:
      return "planner";
    case ErrorCode::kInternal:
      return "internal";
    case ErrorCode::kOutOfMemory:
      return "out_of_memory";
  }
  return "internal";
}

std::string format_error(const Error& error) {
  std::string text = error.place;
  const auto append = [&text](std::string_view separator, const std::string& part) {
    if (part.empty()) return;
    if (!text.empty()) text += separator;
    text += part;
  };
  append(": ", error.message);
  append("; ", error.remedy);
  return text;
}

}  // namespace plimsoll
