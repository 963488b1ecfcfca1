// libFuzzer's entry points: `plimsoll-fuzz --target=NAME CORPUS... -max_total_time=60` fuzzes one
// target, `plimsoll-fuzz --list` prints the names of all and of their folders of seeds. What begins
// with two dashes libFuzzer passes over.
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>

#include "targets.h"

namespace {

using plimsoll::fuzz::Target;

const Target* chosen = nullptr;

template <class Visit>
void for_each_target(const Visit& visit) {
  for (const Target& target : plimsoll::fuzz::reader_targets()) visit(target);
  for (const Target& target : plimsoll::fuzz::command_targets()) visit(target);
}

}  // namespace

extern "C" int LLVMFuzzerInitialize(int* argc, char*** argv) {
  constexpr std::string_view kFlag = "--target=";
  for (int i = 1; i < *argc; ++i) {
    const std::string_view argument = (*argv)[i];
    if (argument == "--list") {
      for_each_target([](const Target& target) {
        const std::string_view seeds = target.seeds.empty() ? target.name : target.seeds;
        std::printf("%s %s\n", target.name.data(), seeds.data());
      });
      std::exit(0);
    }
    if (!argument.starts_with(kFlag)) continue;
    for_each_target([&](const Target& target) {
      if (argument.substr(kFlag.size()) == target.name) chosen = &target;
    });
  }
  if (chosen == nullptr) {
    std::fputs("plimsoll-fuzz: give --target=NAME with one of the names that --list prints\n",
               stderr);
    std::exit(1);
  }
  return 0;
}

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  chosen->run({reinterpret_cast<const char*>(data), size});
  return 0;
}
