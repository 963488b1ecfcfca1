// Many machines as flags name them: kinds in a list, numbers of ranks, prices.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "io/documents/study_json.h"
#include "plimsoll/core/result.h"
#include "plimsoll/embedding/placement_bridge.h"
#include "plimsoll/study/machine_size.h"

namespace CLI {
class App;
}

namespace plimsoll::app {

// "a,b" as words; empty ones are errors at `flag`.
Result<std::vector<std::string>> parse_list(std::string_view text, const std::string& flag);

// Kinds of hardware without a number of them: "dgx-h100,gb200-nvl72". Error kUsage at the flag.
Result<std::vector<std::string>> parse_kinds(std::string_view text, const std::string& flag);

// "8:128" as powers of two of the first (8, 16, ... 128), "8:128:8" in steps, "8,12" as such; each
// may be written as "4k". At most kMaxNumbers. Errors at `flag`.
inline constexpr std::size_t kMaxNumbers = 100'000;
Result<std::vector<std::int64_t>> parse_numbers(std::string_view text, const std::string& flag);

// "rating", "step" or "time". Precondition: one of them.
embedding::BalanceObjective objective_of(std::string_view name);

// The prices of a file; none without one. Error kNotFound where a kind has none.
Result<std::optional<io::Prices>> load_prices(const std::string& file,
                                              const std::vector<std::string>& kinds);

// So many ranks of the kind, with their price.
Result<study::Machine> make_machine(const std::string& kind, int ranks,
                                    const std::optional<io::Prices>& prices);

// Why a row's time may be below that of the plan of a plain `plimsoll shard`; empty where it is
// not.
std::string time_note(std::string_view objective);

}  // namespace plimsoll::app
