#include "plimsoll/partition/partition_advice.h"

#include <fmt/format.h>

#include <utility>
#include <vector>

namespace plimsoll::app {
namespace {

using study::MemoryAdvice;
using study::MemoryNeed;

bool is_exact(const MemoryNeed& need) { return need.enough - need.too_little == 1; }

std::string added_line(const MemoryNeed& need) {
  return fmt::format(
      "{} bytes ({}) more on each device with a cap would be enough, whatever its class; more for "
      "one class alone would not{}",
      need.enough, format_bytes(need.enough),
      is_exact(need) ? "; one byte less would not (proved)" : "");
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

// "accelerator=" where there are several classes.
std::string class_prefix(const PartitionCase& made, int device_class) {
  const auto& classes = made.costs->classes;
  return classes.size() > 1 ? classes[static_cast<std::size_t>(device_class)].name + "=" : "";
}

std::string cap_name(const PartitionCase& made, const PartitionFlags& flags, int device_class) {
  const partition::DeviceClass& of = made.costs->classes[static_cast<std::size_t>(device_class)];
  for (const std::string& text : flags.memory) {
    const std::size_t equals = text.find('=');
    const bool is_of = equals == text.npos ? device_class == 0 : text.substr(0, equals) == of.name;
    if (is_of) return "--memory " + text;
  }
  return fmt::format("memory of each {} ({})", of.name, format_bytes(of.memory_cap.value_or(0)));
}

std::string rule_name(const PartitionCase& made, const PartitionFlags& flags, int node) {
  const std::string& key = made.names[static_cast<std::size_t>(node)];
  const std::string& name = made.costs->nodes[static_cast<std::size_t>(node)].name;
  std::string text;
  const auto add = [&](const std::vector<std::string>& rules, const char* flag) {
    for (const std::string& rule : rules) {
      const std::string of = rule.substr(0, rule.rfind('='));
      if (of == key || of == name)
        text += fmt::format("{}{} {}", text.empty() ? "" : " ", flag, rule);
    }
  };
  add(flags.pins, "--pin");
  add(flags.forbidden, "--forbid");
  return text.empty() ? "the graph's own devices of " + key : text;
}

study::Fix fix_of(const PartitionCase& made, const PartitionFlags& flags,
                  const study::GraphRemedy& remedy) {
  using Kind = study::GraphRemedy::Kind;
  std::string rules;
  for (const int node : remedy.nodes) {
    rules += (rules.empty() ? "without " : ", ") + rule_name(made, flags, node);
  }
  const auto fix = [&](std::string kind, std::string change) {
    if (!change.empty() && !rules.empty()) change += " ";
    return study::Fix{std::move(kind), change + rules, remedy.ms};
  };
  switch (remedy.kind) {
    case Kind::kMemory:
      return fix("memory", fmt::format("--memory {}{}B", class_prefix(made, remedy.device_class),
                                       remedy.bytes));
    case Kind::kMoreMemory: {
      std::string text;
      for (std::size_t c = 0; c < made.costs->classes.size(); ++c) {
        const partition::DeviceClass& of = made.costs->classes[c];
        if (!of.memory_cap) continue;
        text += fmt::format("{}--memory {}{}B", text.empty() ? "" : " ",
                            class_prefix(made, static_cast<int>(c)), *of.memory_cap + remedy.bytes);
      }
      return fix("memory", text);
    }
    case Kind::kDevices:
      return fix("devices", fmt::format("--devices {}{}", class_prefix(made, remedy.device_class),
                                        remedy.count));
    case Kind::kRules:
      return fix("rule", "");
  }
  return {};
}

void put_conflict(const PartitionCase& made, const PartitionFlags& flags,
                  const MemoryAdvice& advice, study::NoPlan& none) {
  if (advice.binding_class >= 0) {
    none.cap = made.costs->classes[static_cast<std::size_t>(advice.binding_class)].name;
  }
  none.is_irreducible = advice.is_irreducible;
  for (const study::GraphConstraint& constraint : advice.conflict) {
    none.conflict.push_back(
        constraint.node >= 0
            ? study::ConflictMember{"rule", rule_name(made, flags, constraint.node)}
            : study::ConflictMember{"cap", cap_name(made, flags, constraint.device_class)});
  }
  for (const study::GraphRemedy& remedy : advice.fixes) {
    none.fixes.push_back(fix_of(made, flags, remedy));
  }
}

}  // namespace

std::string memory_need_line(const MemoryNeed& need, Bytes cap, const std::string& device_class) {
  std::string text =
      fmt::format("{} bytes ({}) on each {} would be enough, {} more than now", need.enough,
                  format_bytes(need.enough), device_class, need.enough - cap);
  if (is_exact(need)) return text + "; one byte less would not (proved)";
  if (need.too_little > cap) text += fmt::format("; {} would not (proved)", need.too_little);
  return text;
}

void put_memory_advice(const PartitionCase& made, const PartitionFlags& flags,
                       const MemoryAdvice& advice, study::PlacementAnswer& answer) {
  const bool has_conflict = !advice.conflict.empty() || !advice.fixes.empty();
  if (!answer.explanation && (advice.need || !advice.rules.empty() || has_conflict)) {
    answer.explanation.emplace();
  }
  if (has_conflict) put_conflict(made, flags, advice, *answer.explanation);
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
