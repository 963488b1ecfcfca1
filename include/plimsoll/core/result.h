// Bad data is a value: an Error with a code, the place and what was expected there. Nothing in
// Plimsoll throws an exception of its own.
#pragma once

#include <string>
#include <string_view>
#include <tl/expected.hpp>
#include <utility>

#pragma GCC visibility push(default)
namespace plimsoll {

enum class ErrorCode {
  kUsage,         // the command line or a call does not make sense
  kNotFound,      // a file, preset, model or name that does not exist
  kIo,            // a file that cannot be read or written
  kSyntax,        // not JSON, truncated, nested too deeply, a key twice
  kSchema,        // JSON of the wrong shape: unknown key, wrong type, missing key
  kValue,         // the right type with a value out of range
  kConflict,      // two places that contradict each other
  kOverflow,      // a size that does not fit in 63 bits
  kRuntime,       // what the reference raises because of its input; `kind` as below
  kZeroDivision,  // what the reference raises as ZeroDivisionError
  kPlanner,       // the reference finds no plan; `kind` as below
  kInternal,      // our fault
  kOutOfMemory,   // an allocation failed; of the command line, the library lets std::bad_alloc pass
};

std::string_view to_string(ErrorCode code);

// `place` is "file.json#/tables/3/rows" for a document, a flag for the command line, a table or
// rank otherwise; may be empty. `message` says what is wrong, `remedy` what would mend it; each is
// a sentence without its final period, `remedy` may be empty.
struct Error {
  ErrorCode code = ErrorCode::kInternal;
  std::string place;
  std::string message;
  std::string remedy;
  std::string kind;  // kPlanner of TorchRec: its type ("insufficient_storage", "partition", ...);
                     // kPlanner and kRuntime of graph partitioning: Python's class; else empty

  bool operator==(const Error&) const = default;
};

// "place: message; remedy" with the empty parts left out.
std::string format_error(const Error& error);

template <class T>
using Result = tl::expected<T, Error>;

inline tl::unexpected<Error> fail(ErrorCode code, std::string place, std::string message,
                                  std::string remedy = {}, std::string kind = {}) {
  return tl::unexpected<Error>(
      Error{code, std::move(place), std::move(message), std::move(remedy), std::move(kind)});
}

}  // namespace plimsoll
#pragma GCC visibility pop

// Evaluates a Result; on error returns it from the enclosing function, else assigns the value:
// PLIMSOLL_ASSIGN(auto x, make_x());
#define PLIMSOLL_CONCAT_INNER_(a, b) a##b
#define PLIMSOLL_CONCAT_(a, b) PLIMSOLL_CONCAT_INNER_(a, b)
#define PLIMSOLL_ASSIGN_(result, lhs, ...)                                            \
  auto result = (__VA_ARGS__);                                                        \
  if (!result) return ::tl::unexpected<::plimsoll::Error>(std::move(result).error()); \
  lhs = *std::move(result)
#define PLIMSOLL_ASSIGN(lhs, ...) \
  PLIMSOLL_ASSIGN_(PLIMSOLL_CONCAT_(plimsoll_result_, __LINE__), lhs, __VA_ARGS__)
#define PLIMSOLL_RETURN_IF_ERROR(...)                                                 \
  do {                                                                                \
    if (auto plimsoll_result = (__VA_ARGS__); !plimsoll_result)                       \
      return ::tl::unexpected<::plimsoll::Error>(std::move(plimsoll_result).error()); \
  } while (false)
