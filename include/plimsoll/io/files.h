// Whole text files in and out.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

#include "plimsoll/core/result.h"

#pragma GCC visibility push(default)
namespace plimsoll::io {

inline constexpr std::size_t kMaxFileBytes = std::size_t{256} << 20;

// The file's bytes; "-" reads standard input to its end. Error kNotFound, or kIo: unreadable, a
// directory, more than kMaxFileBytes.
Result<std::string> read_text_file(const std::string& path);

// Writes beside the target and renames, so that a reader sees the old text or the new one and never
// a part; signals that would end the process wait until both are done, so that nothing stays
// behind. A target that exists and is not a regular file (a pipe, a terminal) is written directly.
// Error kIo.
Result<void> write_text_file(const std::string& path, std::string_view text);

// Could it be written now? Error kIo.
Result<void> check_writable(const std::string& path);

}  // namespace plimsoll::io
#pragma GCC visibility pop
