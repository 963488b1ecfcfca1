#include "plimsoll/machines/machines_flags.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "plimsoll/core/units.h"
#include "plimsoll/io/files.h"
#include "plimsoll/text/text_layout.h"
#include "plimsoll/topology/machine.h"
#include "plimsoll/topology/presets.h"

namespace plimsoll::app {
namespace {

std::vector<std::string_view> split(std::string_view text, char at) {
  std::vector<std::string_view> words;
  for (std::size_t begin = 0; begin <= text.size();) {
    const std::size_t end = std::min(text.find(at, begin), text.size());
    words.push_back(text.substr(begin, end - begin));
    begin = end + 1;
  }
  return words;
}

Result<std::int64_t> parse_number_of(std::string_view text, const std::string& flag) {
  const auto number = parse_count(text);
  if (number && *number > 0) return *number;
  return fail(ErrorCode::kUsage, flag, fmt::format("'{}' is not a number above 0", text),
              "write 8:128 for powers of two, 8:128:8 for steps of 8, or 8,12,16");
}

template <class T>
Result<T> at_flag(Result<T> result, const std::string& flag) {
  if (!result) result.error().place = flag;
  return result;
}

}  // namespace

Result<std::vector<std::string>> parse_list(std::string_view text, const std::string& flag) {
  std::vector<std::string> words;
  for (const std::string_view word : split(text, ',')) {
    if (word.empty()) {
      return fail(ErrorCode::kUsage, flag, fmt::format("'{}' has an empty entry", text),
                  "write a,b");
    }
    words.emplace_back(word);
  }
  return words;
}

Result<std::vector<std::string>> parse_kinds(std::string_view text, const std::string& flag) {
  PLIMSOLL_ASSIGN(std::vector<std::string> kinds, parse_list(text, flag));
  for (const std::string& kind : kinds) {
    if (!topology::find_preset(kind)) continue;
    const std::size_t mark = kind.find_first_of(":@");           // "dgx-h100:2", "dgx-h100@4"
    const std::size_t x = kind.find_first_not_of("0123456789");  // "8xh100-sxm"
    const bool is_counted = x > 0 && x < kind.size() && kind[x] == 'x';
    if (mark == std::string::npos && !is_counted) continue;
    return fail(ErrorCode::kUsage, flag, fmt::format("'{}' has a number", kind),
                fmt::format("give the kind alone: {} {}", flag,
                            is_counted ? kind.substr(x + 1) : kind.substr(0, mark)));
  }
  return kinds;
}

Result<std::vector<std::int64_t>> parse_numbers(std::string_view text, const std::string& flag) {
  std::vector<std::int64_t> numbers;
  for (const std::string_view word : split(text, ',')) {
    const std::vector<std::string_view> parts = split(word, ':');
    PLIMSOLL_ASSIGN(const std::int64_t first, parse_number_of(parts[0], flag));
    std::int64_t last = first;
    std::int64_t step = 0;  // doubled
    if (parts.size() > 1) {
      PLIMSOLL_ASSIGN(last, parse_number_of(parts[1], flag));
    }
    if (parts.size() > 2) {
      PLIMSOLL_ASSIGN(step, parse_number_of(parts[2], flag));
    }
    if (parts.size() > 3 || last < first) {
      return fail(ErrorCode::kUsage, flag, fmt::format("'{}' is not a range", word),
                  "write FIRST:LAST, or FIRST:LAST:STEP");
    }
    for (std::int64_t at = first; at <= last; at += step > 0 ? step : at) {
      numbers.push_back(at);
      if (numbers.size() > kMaxNumbers) {
        return fail(ErrorCode::kUsage, flag, fmt::format("more than {} numbers", kMaxNumbers),
                    "give a smaller range");
      }
      if (at > last - (step > 0 ? step : at)) break;  // before it overflows
    }
  }
  return numbers;
}

embedding::BalanceObjective objective_of(std::string_view name) {
  using embedding::BalanceObjective;
  return name == "rating" ? BalanceObjective::kRating
         : name == "step" ? BalanceObjective::kStep
                          : BalanceObjective::kTime;
}

std::string time_note(std::string_view objective) {
  if (objective != "time") return "";
  return in_lines(
      "ms is the step that `plimsoll shard --objective time` predicts, by a short search. Without "
      "that flag, shard also keeps the slowest rank within that of TorchRec's plan, and its step "
      "can be longer.\n",
      2);
}

Result<std::optional<io::Prices>> load_prices(const std::string& file,
                                              const std::vector<std::string>& kinds) {
  if (file.empty()) return std::nullopt;
  PLIMSOLL_ASSIGN(const std::string text, io::read_text_file(file));
  PLIMSOLL_ASSIGN(io::Prices prices, io::read_prices(text, file));
  for (const std::string& kind : kinds) {
    if (prices.price_of(kind, 1, 1)) continue;
    return fail(ErrorCode::kNotFound, file, fmt::format("it has no price of {}", kind),
                fmt::format("add \"{}\": {{\"per_host\": ...}} or {{\"per_rank\": ...}}", kind));
  }
  return prices;
}

Result<study::Machine> make_machine(const std::string& kind, int ranks,
                                    const std::optional<io::Prices>& prices) {
  study::Machine machine;
  PLIMSOLL_ASSIGN(machine.on, at_flag(topology::name_machine(kind, ranks), "--on"));
  machine.ranks = ranks;
  if (!prices) return machine;
  PLIMSOLL_ASSIGN(const topology::TopologySpec spec, topology::find_preset(machine.on));
  const int host = spec.local_world_size.value_or(ranks);
  machine.price = prices->price_of(kind, ranks, (ranks + host - 1) / host);
  return machine;
}

}  // namespace plimsoll::app
