// The fuzz targets: functions that must come back, whatever the bytes are.
#pragma once

#include <cstdlib>
#include <span>
#include <string_view>

namespace plimsoll::fuzz {

struct Target {
  std::string_view name;
  void (*run)(std::string_view input);
  std::string_view seeds = {};  // its folder in corpus/; empty: the name
};

std::span<const Target> reader_targets();   // readers.cc
std::span<const Target> command_targets();  // commands.cc

// What must hold of any input; else libFuzzer reports the input.
inline void require(bool holds) {
  if (!holds) std::abort();
}

}  // namespace plimsoll::fuzz
