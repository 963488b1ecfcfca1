#include "plimsoll/checkpoint/operator_choices.h"

#include <algorithm>
#include <map>
#include <numeric>

#include "core/check.h"

namespace plimsoll::checkpoint {
namespace {

enum class Fate {
  kFree,     // kept or recomputed
  kSave,     // always kept
  kDiscard,  // always recomputed
};

struct Group {
  std::vector<int> operators;
  Fate fate = Fate::kFree;
  Bytes memory = 0;
  Bytes extra = 0;
  double runtime = 0;
};

// Classes of operators that share a fate, by union-find over in-place parents and random operators.
class Classes {
 public:
  explicit Classes(int n) : parent_(n) { std::iota(parent_.begin(), parent_.end(), 0); }
  int find(int i) {
    while (parent_[i] != i) i = parent_[i] = parent_[parent_[i]];
    return i;
  }
  void unite(int a, int b) {
    const int x = find(a), y = find(b);
    parent_[std::max(x, y)] = std::min(x, y);
  }

 private:
  std::vector<int> parent_;
};

std::vector<Group> make_groups(const SACStats& stats, const OperatorRules& rules) {
  const int n = static_cast<int>(stats.func_names.size());
  std::vector<char> is_view(n, 0), is_saved_anyway(n, 0), is_changed(n, 0), must_save(n, 0);
  for (int op : stats.view_like_ops) is_view[op] = 1;
  for (int op : stats.saved_autograd_ops) is_saved_anyway[op] = 1;
  Classes classes(n);
  for (const auto& [op, parent] : stats.inplace_ops) {
    if (op == parent) {
      must_save[op] = 1;
    } else {
      classes.unite(op, parent);
      is_changed[op] = is_changed[parent] = 1;
    }
  }
  const int output = output_operator(stats);
  // Where one of them must run again, storing the others would not give it its numbers back. The
  // operator that makes the output never runs again.
  const bool stores_random =
      stats.force_store_random &&
      std::none_of(stats.rand_ops.begin(), stats.rand_ops.end(), [&](int op) {
        return op != output && (is_view[op] != 0 || is_changed[op] != 0);
      });
  for (int op : stats.rand_ops) {
    if (stores_random) {
      must_save[op] = 1;
    } else {
      classes.unite(op, stats.rand_ops.front());
    }
  }
  const auto& saved = stats.saved_autograd_ops;
  const int last_needed =
      rules.early_stop && !saved.empty() ? *std::max_element(saved.begin(), saved.end()) : n;

  std::vector<Group> groups;
  std::vector<int> group_of(n, -1);
  for (int op = 0; op < n; ++op) {
    const int root = classes.find(op);
    if (group_of[root] < 0) {
      group_of[root] = static_cast<int>(groups.size());
      groups.emplace_back();
    }
    Group& group = groups[group_of[root]];
    group.operators.push_back(op);
    group.memory += stats.memory[op];
    if (is_saved_anyway[op] == 0) group.extra += stats.memory[op];
    if (op != output && op <= last_needed) group.runtime += stats.runtimes[op];
    if (is_view[op] != 0 || op == output || is_changed[op] != 0) {
      group.fate = Fate::kDiscard;
    } else if (must_save[op] != 0 && group.fate == Fate::kFree) {
      group.fate = Fate::kSave;
    }
  }
  return groups;
}

// An undominated choice over the groups seen so far; the one before it is `previous`, and `group`
// was saved last.
struct Choice {
  Bytes kept = 0;
  Bytes copies = 0;  // of these what autograd would not have kept, where that counts
  double saved_ms = 0;
  int previous = -1;
  int group = -1;
};

// Choices by kept bytes, each with something that none before it has.
class Front {
 public:
  explicit Front(bool counts_copies) : counts_copies_(counts_copies) {}

  // Precondition: keeps no less than what is there.
  void offer(const std::vector<Choice>& arena, int choice) {
    const Choice& offered = arena[choice];
    PLIMSOLL_DCHECK(choices_.empty() || arena[choices_.back()].kept <= offered.kept,
                    "the choice keeps no less than those before it");
    const auto is_as_good = [&](int at) {
      return arena[at].saved_ms >= offered.saved_ms && arena[at].copies <= offered.copies;
    };
    // Without copies saved time ascends.
    const bool is_beaten = counts_copies_
                               ? std::any_of(choices_.begin(), choices_.end(), is_as_good)
                               : !choices_.empty() && is_as_good(choices_.back());
    if (!is_beaten) choices_.push_back(choice);
  }
  std::vector<int> take() { return std::move(choices_); }

 private:
  bool counts_copies_;
  std::vector<int> choices_;
};

// Adds "save this group as well" to every choice of the front; keeps what is undominated.
void add_group(const Group& group, int index, bool counts_copies, std::vector<Choice>& arena,
               std::vector<int>& front) {
  std::vector<int> all = front;
  for (int choice : front) {
    const Choice& without = arena[choice];
    const Bytes copies = without.copies + (counts_copies ? group.extra : 0);
    arena.push_back(
        {without.kept + group.memory, copies, without.saved_ms + group.runtime, choice, index});
    all.push_back(static_cast<int>(arena.size()) - 1);
  }
  std::inplace_merge(all.begin(), all.begin() + static_cast<std::ptrdiff_t>(front.size()),
                     all.end(), [&arena](int a, int b) {
                       if (arena[a].kept != arena[b].kept) return arena[a].kept < arena[b].kept;
                       return arena[a].saved_ms > arena[b].saved_ms;
                     });
  Front merged(counts_copies);
  for (int choice : all) merged.offer(arena, choice);
  front = merged.take();
}

// By place in the front: is it a vertex of the upper hull of saved time over kept bytes?
std::vector<char> find_vertices(const std::vector<Choice>& arena, const std::vector<int>& front) {
  std::vector<std::size_t> hull;
  const auto gain = [&](std::size_t from, std::size_t to) {
    return arena[front[to]].saved_ms - arena[front[from]].saved_ms;
  };
  const auto bytes = [&](std::size_t from, std::size_t to) {
    return static_cast<double>(arena[front[to]].kept - arena[front[from]].kept);
  };
  for (std::size_t at = 0; at < front.size(); ++at) {
    if (!hull.empty() && gain(hull.back(), at) <= 0) continue;
    while (hull.size() >= 2) {
      const std::size_t a = hull[hull.size() - 2], b = hull.back();
      if (gain(a, b) * bytes(b, at) > gain(b, at) * bytes(a, b)) break;
      hull.pop_back();
    }
    hull.push_back(at);
  }
  std::vector<char> is_vertex(front.size(), 0);
  for (std::size_t at : hull) is_vertex[at] = 1;
  return is_vertex;
}

// Leaves out choices that save less than a `count`-th part of all savings, or several such parts,
// more than one before them, which keeps fewer bytes; vertices of the hull stay. Returns how much
// less.
double thin(const std::vector<Choice>& arena, std::vector<int>& front, std::size_t count) {
  double most = 0;
  for (int choice : front) most = std::max(most, arena[choice].saved_ms);
  const std::vector<char> is_vertex = find_vertices(arena, front);
  const auto num_vertices =
      static_cast<std::size_t>(std::count(is_vertex.begin(), is_vertex.end(), char{1}));
  double step = most / static_cast<double>(count - 1);
  std::vector<int> thinned;
  for (;; step *= 2) {  // once, unless copies count
    thinned.clear();
    for (std::size_t at = 0; at < front.size(); ++at) {
      const Choice& choice = arena[front[at]];
      const auto is_near = [&](int other) {
        return choice.saved_ms < arena[other].saved_ms + step &&
               arena[other].copies <= choice.copies;
      };
      if (is_vertex[at] != 0 || std::none_of(thinned.begin(), thinned.end(), is_near)) {
        thinned.push_back(front[at]);
      }
    }
    if (thinned.size() <= count + num_vertices) break;
  }
  front = std::move(thinned);
  return step;
}

// What becomes of the groups of a table.
struct Fates {
  std::vector<Group> groups;
  std::vector<int> open;  // groups that may be kept and whose time counts
  Bytes always_kept = 0;
  double total_ms = 0;  // of all that may run again
};

Fates find_fates(const SACStats& stats, const OperatorRules& rules) {
  Fates fates;
  fates.groups = make_groups(stats, rules);
  for (std::size_t g = 0; g < fates.groups.size(); ++g) {
    const Group& group = fates.groups[g];
    if (group.fate == Fate::kSave) {
      fates.always_kept += group.memory;
      continue;
    }
    fates.total_ms += group.runtime;
    if (group.fate == Fate::kFree && group.runtime > 0) fates.open.push_back(static_cast<int>(g));
  }
  return fates;
}

std::vector<OperatorOption> make_options(const Fates& fates, const std::vector<Choice>& arena,
                                         const std::vector<int>& front, std::size_t num_operators) {
  std::vector<OperatorOption> options;
  options.reserve(front.size());
  for (int choice : front) {
    OperatorOption& option = options.emplace_back();
    option.kept = fates.always_kept + arena[choice].kept;
    option.recompute_ms = std::max(0.0, fates.total_ms - arena[choice].saved_ms);
    option.save.assign(num_operators, 0);
    const auto save = [&](const Group& group) {
      for (int op : group.operators) option.save[op] = 1;
      option.kept_extra += group.extra;
    };
    for (const Group& group : fates.groups) {
      if (group.fate == Fate::kSave) save(group);
    }
    for (int at = choice; arena[at].group >= 0; at = arena[at].previous) {
      save(fates.groups[arena[at].group]);
    }
  }
  return options;
}

}  // namespace

int output_operator(const SACStats& stats) {
  std::vector<char> is_skipped(stats.func_names.size(), 0);
  for (int op : stats.view_like_ops) is_skipped[op] = 1;
  for (const auto& [op, parent] : stats.inplace_ops) is_skipped[op] = 1;
  for (int op = static_cast<int>(is_skipped.size()) - 1; op >= 0; --op) {
    if (is_skipped[op] == 0) return op;
  }
  return -1;
}

OperatorOptions operator_options(const SACStats& stats, const OperatorRules& rules) {
  OperatorOptions out;
  const Fates fates = find_fates(stats, rules);
  std::vector<Choice> arena{{}};
  std::vector<int> front{0};
  for (int g : fates.open) {
    add_group(fates.groups[g], g, rules.counts_copies, arena, front);
    if (front.size() > rules.max_options) {
      out.loss_ms += thin(arena, front, rules.max_options);
      out.is_complete = false;
    }
  }
  out.options = make_options(fates, arena, front, stats.func_names.size());
  return out;
}

std::optional<OperatorOptions> operator_options_within(const SACStats& stats, double price,
                                                       double most, const OperatorRules& rules) {
  const Fates fates = find_fates(stats, rules);
  // The least that groups still to come add to time and the price of kept bytes; all of them run
  // again until they are added.
  const auto gain = [&](const Group& group) {
    return std::min(0.0, price * static_cast<double>(group.memory) - group.runtime);
  };
  double to_come = 0;
  for (int g : fates.open) to_come += gain(fates.groups[g]);
  const double fixed = fates.total_ms + price * static_cast<double>(fates.always_kept);
  std::vector<Choice> arena{{}};
  std::vector<int> front{0};
  const auto drop_far = [&] {
    front.erase(std::remove_if(front.begin(), front.end(),
                               [&](int at) {
                                 const Choice& choice = arena[at];
                                 return fixed - choice.saved_ms +
                                            price * static_cast<double>(choice.kept) + to_come >
                                        most;
                               }),
                front.end());
  };
  for (int g : fates.open) {
    add_group(fates.groups[g], g, rules.counts_copies, arena, front);
    to_come -= gain(fates.groups[g]);
    drop_far();
    if (front.size() > rules.max_options) return std::nullopt;
  }
  drop_far();
  OperatorOptions out;
  out.options = make_options(fates, arena, front, stats.func_names.size());
  return out;
}

std::vector<OperatorChoice> make_operator_choices(const SACStats& stats,
                                                  const std::vector<int>& save) {
  std::vector<OperatorChoice> choices;
  std::map<std::string, int> seen;
  for (std::size_t op = 0; op < save.size(); ++op) {
    const std::string& name = stats.func_names[op];
    choices.push_back({static_cast<int>(op), name, seen[name]++, save[op] != 0});
  }
  return choices;
}

void keep_operators(const SACStats& stats, const std::vector<int>& save, CheckpointUnit& unit) {
  unit.ops = make_operator_choices(stats, save);
  if (std::find(save.begin(), save.end(), 1) != save.end()) unit.kind = UnitKind::kSelective;
  const bool keeps_random =
      !stats.rand_ops.empty() && std::all_of(stats.rand_ops.begin(), stats.rand_ops.end(),
                                             [&save](int op) { return save[op] != 0; });
  unit.rng = keeps_random ? RngHandling::kSave : RngHandling::kRecompute;
}

}  // namespace plimsoll::checkpoint
