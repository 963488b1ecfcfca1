#include "plimsoll/partition/dialect.h"

#include <array>
#include <vector>

#include "core/suggest.h"

namespace plimsoll::partition {

std::span<const Dialect> dialects() {
  static const std::array<Dialect, 2> kDialects = {{
      {"torch-1.13", "Devices have no enough memory for the module",
       "is too large to fit any device", "is too large to fit into a device", false},
      {"torch-2.13", "Devices do not have enough memory for the module",
       " is too large to fit any device", " is too large to fit into a device", true},
  }};
  return kDialects;
}

const Dialect& default_dialect() { return dialects().back(); }

Result<Dialect> find_dialect(std::string_view name) {
  std::vector<std::string> known;
  for (const Dialect& dialect : dialects()) {
    if (dialect.name == name) return dialect;
    known.push_back(dialect.name);
  }
  return fail(ErrorCode::kNotFound, "", "no torch release is called '" + std::string(name) + "'",
              suggest(name, known));
}

}  // namespace plimsoll::partition
