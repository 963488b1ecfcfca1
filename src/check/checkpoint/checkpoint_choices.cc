// What a module may keep as a unit: every choice of operators that no other beats, by the checker.

#include "check/checkpoint/checkpoint_choices.h"

#include <algorithm>
#include <numeric>

namespace plimsoll::check {
namespace {

using checkpoint::SACStats;

constexpr std::size_t kMaxChoices = 1 << 12;

// Operators that are kept or run again together, by the first of them: relaxed until nothing
// changes.
std::vector<int> find_heads(const SACStats& table, bool ties_random) {
  std::vector<int> head(table.func_names.size());
  std::iota(head.begin(), head.end(), 0);
  for (bool has_changed = true; has_changed;) {
    has_changed = false;
    const auto tie = [&](int a, int b) {
      if (head[a] == head[b]) return;
      head[a] = head[b] = std::min(head[a], head[b]);
      has_changed = true;
    };
    for (const auto& [op, parent] : table.inplace_ops) tie(op, parent);
    for (const int op : table.rand_ops) {
      if (ties_random) tie(op, table.rand_ops.front());
    }
  }
  return head;
}

// Nothing beats a choice in bytes kept, in copies and in time together.
bool is_beaten(const KeptChoice& choice, const std::vector<KeptChoice>& by) {
  return std::any_of(by.begin(), by.end(), [&](const KeptChoice& other) {
    return other.kept <= choice.kept && other.copies <= choice.copies && other.ms <= choice.ms;
  });
}

}  // namespace

std::vector<OperatorGroup> find_operator_groups(const SACStats& table, int maker, int end) {
  const int n = static_cast<int>(table.func_names.size());
  const auto is_in = [](const std::vector<int>& list, int op) {
    return std::find(list.begin(), list.end(), op) != list.end();
  };
  std::vector<bool> is_changed(n), is_own_parent(n);
  for (const auto& [op, parent] : table.inplace_ops) {
    if (op == parent) {
      is_own_parent[op] = true;
    } else {
      is_changed[op] = is_changed[parent] = true;
    }
  }
  const auto cannot_be_kept = [&](int op) {
    return is_changed[op] || is_in(table.view_like_ops, op);
  };
  bool stores_random = table.force_store_random;
  for (const int op : table.rand_ops) stores_random &= op == maker || !cannot_be_kept(op);
  const std::vector<int> head = find_heads(table, !stores_random);
  std::vector<OperatorGroup> groups;
  for (int first = 0; first < n; ++first) {
    if (head[first] != first) continue;
    OperatorGroup& group = groups.emplace_back();
    for (int op = first; op < n; ++op) {
      if (head[op] != first) continue;
      group.memory += table.memory[op];
      if (!is_in(table.saved_autograd_ops, op)) group.copies += table.memory[op];
      if (op != maker && op < end) group.ms += table.runtimes[op];
      group.may_keep &= op != maker && !cannot_be_kept(op);
      group.must_keep |= is_own_parent[op] || (stores_random && is_in(table.rand_ops, op));
    }
    group.must_keep &= group.may_keep;
  }
  return groups;
}

std::vector<OperatorGroup> groups_of(const JudgedCheckpoint& given, const SACStats& table) {
  return find_operator_groups(table, output_maker(table), end_of_recompute(given, table));
}

bool may_be_unit(const JudgedCheckpoint& given, int node) {
  const CheckpointCheckOptions& options = *given.options;
  const checkpoint::ModuleInfo& module = given.info(node);
  if (!module.requires_grad || module.act_fw_per_module <= 0 ||
      lists(given.stats->repeated, module.fqn)) {
    return false;
  }
  if (!options.ac_units.empty() && !lists(options.ac_units, module.fqn)) return false;
  return std::none_of(options.fsdp_units.begin(), options.fsdp_units.end(),
                      [&](const std::string& fqn) {
                        const auto fsdp = given.node_of.find(fqn);
                        return fsdp != given.node_of.end() && given.is_below(fsdp->second, node);
                      });
}

Bytes fitted_capacity(const JudgedCheckpoint& given, int node) {
  const checkpoint::ModuleInfo& module = given.info(node);
  if (module.is_leaf || module.slopes.empty() || lists(given.stats->fit_failed, module.fqn)) {
    return 0;
  }
  Bytes capacity = module.act_fw_per_module;
  const SACStats* table = given.table_of(node);
  if (!given.options->keep_stored_operators || table == nullptr) return capacity;
  for (const OperatorGroup& group : groups_of(given, *table)) {
    if (group.must_keep) capacity -= group.memory;
  }
  return std::max<Bytes>(0, capacity);
}

std::optional<std::vector<KeptChoice>> find_kept_choices(const std::vector<OperatorGroup>& groups,
                                                         double price, double most) {
  const auto kept_ms = [price](Bytes kept) { return price * static_cast<double>(kept); };
  // What the groups from each on take at least.
  std::vector<double> to_come(groups.size() + 1, 0);
  for (std::size_t g = groups.size(); g-- > 0;) {
    const OperatorGroup& group = groups[g];
    double least = group.must_keep ? kInfinity : group.ms;
    if (group.may_keep) least = std::min(least, kept_ms(group.memory));
    to_come[g] = least + to_come[g + 1];
  }
  std::vector<KeptChoice> choices{{}};
  for (std::size_t g = 0; g < groups.size(); ++g) {
    const OperatorGroup& group = groups[g];
    std::vector<KeptChoice> extended;
    const auto add = [&](const KeptChoice& choice) {
      if (choice.ms + kept_ms(choice.kept) + to_come[g + 1] <= most) extended.push_back(choice);
    };
    for (const KeptChoice& choice : choices) {
      if (!group.must_keep) add({choice.kept, choice.copies, choice.ms + group.ms});
      if (group.may_keep) {
        add({choice.kept + group.memory, choice.copies + group.copies, choice.ms});
      }
    }
    std::sort(extended.begin(), extended.end(), [](const KeptChoice& a, const KeptChoice& b) {
      return std::tie(a.kept, a.copies, a.ms) < std::tie(b.kept, b.copies, b.ms);
    });
    choices.clear();
    for (const KeptChoice& choice : extended) {
      if (!is_beaten(choice, choices)) choices.push_back(choice);
    }
    if (choices.size() > kMaxChoices) return std::nullopt;
  }
  return choices;
}

}  // namespace plimsoll::check
