#include "plimsoll/partition_advice.h"

#include <fmt/format.h>

namespace plimsoll::app {
namespace {

using study::MemoryAdvice;
using study::MemoryNeed;

bool is_exact(const MemoryNeed& need) { return need.enough - need.too_little == 1; }

std::string added_line(const MemoryNeed& need) {
  return fmt::format(
      "{} bytes ({}) more on each device with a cap would do, of whatever class; more for one "
      "class alone would not{}",
      need.enough, format_bytes(need.enough),
      is_exact(need) ? "; one byte less would not, proved" : "");
}

std::string advice_line(const PartitionCase& made, const MemoryAdvice& advice) {
  if (advice.is_added) return added_line(*advice.need);
  std::string device = "device";
  std::string of_class;
  if (advice.device_class >= 0) {
    device = made.costs->classes[static_cast<std::size_t>(advice.device_class)].name;
    if (made.costs->classes.size() > 1) of_class = device + "=";
  }
  return fmt::format("{}; try --memory {}{}B", memory_need_line(*advice.need, advice.cap, device),
                     of_class, advice.need->enough);
}

}  // namespace

std::string memory_need_line(const MemoryNeed& need, Bytes cap, const std::string& device_class) {
  std::string text = fmt::format("{} bytes ({}) on each {} would do, {} more than now", need.enough,
                                 format_bytes(need.enough), device_class, need.enough - cap);
  if (is_exact(need)) return text + "; one byte less would not, proved";
  if (need.too_little > cap) text += fmt::format("; {} would not, proved", need.too_little);
  return text;
}

void put_memory_advice(const PartitionCase& made, const MemoryAdvice& advice,
                       study::PlacementAnswer& answer) {
  if (!answer.explanation && (advice.need || !advice.rules.empty())) answer.explanation.emplace();
  if (!advice.rules.empty()) {
    std::string names;
    for (const int node : advice.rules) {
      names += (names.empty() ? "" : ", ") + made.names[static_cast<std::size_t>(node)];
    }
    answer.explanation->lines.push_back("pinned or forbidden devices are the cause (of " + names +
                                        "): without them a plan fits");
  }
  if (!advice.need) return;
  // Since more memory helps, memory is what binds: so much more on each device was tried, whatever
  // a bound says is missing.
  answer.explanation->binding = "memory";
  answer.explanation->missing = advice.need->enough - (advice.is_added ? 0 : advice.cap);
  answer.explanation->lines.push_back(advice_line(made, advice));
}

}  // namespace plimsoll::app
