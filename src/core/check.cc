#include "core/check.h"

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <string_view>

namespace plimsoll::internal {
namespace {

// Without the folder of the sources, which differs from machine to machine.
std::string_view relative(std::string_view path) {
  std::size_t begin = 0;
  for (const std::string_view folder : {"/src/", "/include/", "/tests/"}) {
    const std::size_t at = path.rfind(folder);
    if (at != std::string_view::npos) begin = std::max(begin, at + folder.size());
  }
  if (begin == 0) begin = path.rfind('/') + 1;  // npos + 1 is 0
  return path.substr(begin);
}

}  // namespace

void fail_check(const char* file, int line, const char* function, const char* condition,
                const char* message) {
  const std::string_view name = relative(file);
  std::fprintf(stderr, "%.*s:%d: %s: check failed: %s (%s)\n", static_cast<int>(name.size()),
               name.data(), line, function, condition, message);
  std::fflush(stderr);
  std::abort();
}

}  // namespace plimsoll::internal
