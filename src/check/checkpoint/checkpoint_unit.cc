// What one unit keeps, frees and costs.

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <set>

#include "check/checkpoint/checkpoint_rules.h"

namespace plimsoll::check {
namespace {

using checkpoint::CheckpointUnit;
using checkpoint::OperatorChoice;
using checkpoint::SACStats;
using Code = FindingCode;

constexpr double kRatioTolerance = 5e-5;  // ratios are written with four decimals

bool is_close_time(double a, double b) {
  return std::abs(a - b) <= kTimeTolerance * std::max({1.0, std::abs(a), std::abs(b)});
}

bool holds(const std::vector<int>& list, int index) {
  return std::find(list.begin(), list.end(), index) != list.end();
}

// The choices of one module, by place in its table.
std::vector<bool> no_choice(const SACStats& table) {
  return std::vector<bool>(table.func_names.size(), false);
}

class UnitCheck {
 public:
  UnitCheck(const JudgedCheckpoint& given, const PlacedUnit& placed, Findings& findings)
      : given_(given), placed_(placed), unit_(*placed.unit), findings_(findings) {}

  double run() {
    if (!read_choices()) return unit_.recompute_ms;
    check_kind();
    check_groups();
    check_rng();
    check_bytes();
    return check_time();
  }

 private:
  const JudgedCheckpoint& given_;
  const PlacedUnit& placed_;
  const CheckpointUnit& unit_;
  Findings& findings_;
  std::vector<const SACStats*> tables_;  // [nodes] null without
  std::vector<std::vector<bool>> save_;  // [nodes][operators]

  void add(Code code, std::string expected, std::string found, std::string message) {
    findings_.add(code, placed_.fqn, std::move(expected), std::move(found), std::move(message));
  }

  bool is_fit() const { return given_.options->price == PriceRule::kFit; }

  // A unit without a list keeps nothing; a run lists the operators of its modules one after the
  // other.
  bool read_choices() {
    std::size_t num_operators = 0;
    for (int node : placed_.nodes) {
      tables_.push_back(given_.table_of(node));
      save_.push_back(tables_.back() ? no_choice(*tables_.back()) : std::vector<bool>());
      num_operators += save_.back().size();
    }
    if (unit_.ops.empty()) {
      if (unit_.kind == checkpoint::UnitKind::kSelective && !is_fit() && num_operators > 0) {
        add(Code::kMissingOperators, fmt::format("{} operators", num_operators), "none",
            "a selective unit does not say which operators it keeps");
        return false;
      }
      return true;
    }
    if (unit_.ops.size() != num_operators) {
      add(Code::kOperatorsMismatch, fmt::format("{} operators", num_operators),
          fmt::format("{}", unit_.ops.size()), "the unit lists another number of operators");
      return false;
    }
    auto choice = unit_.ops.begin();
    for (std::size_t n = 0; n < tables_.size(); ++n) {
      if (tables_[n] == nullptr) continue;
      std::map<std::string, int> count;
      for (std::size_t i = 0; i < save_[n].size(); ++i, ++choice) {
        const std::string& name = tables_[n]->func_names[i];
        const OperatorChoice right{static_cast<int>(i), name, count[name]++, choice->save};
        if (*choice != right) {
          add(Code::kOperatorsMismatch, describe(right), describe(*choice),
              "the unit lists another operator than the module's table");
          return false;
        }
        save_[n][i] = choice->save;
      }
    }
    return true;
  }

  static std::string describe(const OperatorChoice& choice) {
    return fmt::format("operator {}: {} number {}", choice.index, choice.op, choice.nth);
  }

  bool saves_anything() const {
    return std::any_of(unit_.ops.begin(), unit_.ops.end(),
                       [](const OperatorChoice& choice) { return choice.save; });
  }

  void check_kind() {
    if (unit_.kind == checkpoint::UnitKind::kFull && saves_anything()) {
      add(Code::kWrongKind, "selective", "full", "a full unit keeps an operator's output");
    }
  }

  void check_groups() {
    for (std::size_t n = 0; n < tables_.size(); ++n) {
      if (tables_[n] == nullptr) continue;
      const SACStats& table = *tables_[n];
      const std::vector<bool>& save = save_[n];
      for (const auto& [op, parent] : table.inplace_ops) {
        if (save[op] != save[parent]) {
          add(Code::kGroupSplit, fmt::format("operators {} and {} alike", op, parent),
              "one of them saved", "an in-place operator and what it changes are treated apart");
        } else if (save[op] && op != parent) {
          findings_.warn(FindingCode::kSavesInPlaceGroup, placed_.fqn,
                         fmt::format("operator {} is saved and changed by operator {} afterwards",
                                     parent, op));
        }
        // Upstream makes the parent of a group its own where it changes what it did not make.
        if (op == parent && !save[op]) {
          findings_.warn(FindingCode::kChangesInputTwice, placed_.fqn,
                         fmt::format("operator {} changes a tensor from outside the unit and runs "
                                     "again",
                                     op));
        }
      }
      for (int op : table.view_like_ops) {
        if (!save[op]) continue;
        add(Code::kSavesView, "no view-like operator saved", fmt::format("operator {}", op),
            "a saved view holds the storage that it looks at");
        break;
      }
      const int maker = output_maker(table);
      // Random operators that must be stored are, except for the one that never runs again.
      const bool is_last = n + 1 == tables_.size();
      check_random(table, save, table.force_store_random && is_last ? maker : -1);
      if (maker >= 0 && save[maker]) {
        findings_.warn(FindingCode::kSavesLastOperator, placed_.fqn,
                       fmt::format("operator {} makes the output and is never asked for", maker));
      }
    }
  }

  // All alike except for `excepted`.
  void check_random(const SACStats& table, const std::vector<bool>& save, int excepted) {
    int first = -1;
    for (int op : table.rand_ops) {
      if (op == excepted) continue;
      if (first < 0) first = op;
      if (save[op] == save[first]) continue;
      add(Code::kGroupSplit, "all random operators alike",
          fmt::format("operator {} unlike operator {}", op, first),
          "random operators are saved in part");
      return;
    }
  }

  // `save` only where there are random operators and none of them runs again.
  void check_rng() {
    using checkpoint::RngHandling;
    bool saves_some = false, runs_some = false;
    for (std::size_t n = 0; n < tables_.size(); ++n) {
      if (tables_[n] == nullptr) continue;
      for (int op : tables_[n]->rand_ops) (save_[n][op] ? saves_some : runs_some) = true;
    }
    const RngHandling right =
        saves_some && !runs_some ? RngHandling::kSave : RngHandling::kRecompute;
    if (unit_.rng == right) return;
    add(Code::kWrongRng, std::string(to_string(right)), std::string(to_string(unit_.rng)),
        right == RngHandling::kSave ? "every random operator is saved, and none runs again"
                                    : "a random operator runs again, or there is none");
  }

  std::pair<Bytes, Bytes> sizes() const { return unit_sizes(given_, placed_.nodes); }

  void check_bytes() {
    const auto [inside, memory] = sizes();
    const Bytes kept = kept_bytes(given_, placed_).kept;
    const double ratio_bytes = kRatioTolerance * static_cast<double>(memory) + 1;
    const double by_ratio =
        static_cast<double>(memory) * unit_.discard_ratio - static_cast<double>(memory - inside);
    if (!(unit_.discard_ratio >= 0 && unit_.discard_ratio <= 1)) {
      add(Code::kRatio, "a share in [0, 1]", fmt::format("{}", unit_.discard_ratio),
          "the discard ratio is not between 0 and 1");
    } else if (std::abs(by_ratio - static_cast<double>(unit_.discarded)) > ratio_bytes) {
      add(Code::kRatio, fmt::format("{} bytes", unit_.discarded),
          fmt::format("{:.0f} bytes", by_ratio),
          "the discard ratio is not that of the discarded bytes");
    }
    if (is_fit() && placed_.nodes.size() == 1) {
      if (unit_.discarded > inside) {
        add(Code::kDiscarded, fmt::format("at most {}", inside), fmt::format("{}", unit_.discarded),
            "the unit frees more than is kept inside it");
      }
    } else if (unit_.discarded != inside - kept) {
      add(Code::kDiscarded, fmt::format("{}", inside - kept), fmt::format("{}", unit_.discarded),
          "the discarded bytes are not those of the operators");
    }
    if (unit_.discarded <= 0) {
      findings_.warn(FindingCode::kDiscardsNothing, placed_.fqn,
                     fmt::format("the unit frees {} bytes", unit_.discarded));
    }
  }

  // Of the n-th module's operators, by the rule.
  double recomputed(std::size_t n) const {
    const checkpoint::ModuleInfo& module = given_.info(placed_.nodes[n]);
    if (tables_[n] == nullptr) {
      return module.is_leaf ? module.fw_runtime_per_module : module.sac_runtime;
    }
    const SACStats& table = *tables_[n];
    const PriceRule rule = given_.options->price;
    const bool is_last = n + 1 == tables_.size();
    const int end =
        is_last ? end_of_recompute(given_, table) : static_cast<int>(table.func_names.size());
    const int maker = is_last && rule != PriceRule::kAllOperators ? output_maker(table) : -1;
    double ms = 0;
    for (int i = 0; i < end; ++i) {
      if (!save_[n][i] && i != maker) ms += table.runtimes[i];
    }
    return ms;
  }

  double check_time() {
    double ms = given_.options->unit_overhead_ms;
    const bool is_run = placed_.nodes.size() > 1;
    if (is_fit() && !is_run) {
      ms += fitted_ms(given_, placed_.nodes[0], ratio_of_bytes());
    } else if (is_run && unit_.ops.empty()) {
      // A run that keeps nothing runs whole modules again.
      for (int node : placed_.nodes) {
        const checkpoint::ModuleInfo& module = given_.info(node);
        const bool has_record = !module.is_leaf || module.sac_runtime > 0;
        ms += has_record ? module.sac_runtime : module.fw_runtime_per_module;
      }
    } else {
      for (std::size_t n = 0; n < tables_.size(); ++n) ms += recomputed(n);
    }
    // A fitted price ends its pieces at whole bytes, up to a byte early.
    if (is_fit() && !is_run && unit_.recompute_ms > ms &&
        unit_.recompute_ms <= ms + ms_of_a_byte()) {
      return unit_.recompute_ms;
    }
    if (!is_close_time(ms, unit_.recompute_ms)) {
      add(Code::kRecompute, fmt::format("{} ms", ms), fmt::format("{} ms", unit_.recompute_ms),
          "the recompute time is not that of what runs again");
    }
    return ms;
  }

  // Where the fit is steepest.
  double ms_of_a_byte() const {
    const checkpoint::ModuleInfo& module = given_.info(placed_.nodes[0]);
    double steepest = 0;
    for (const double slope : module.slopes) steepest = std::max(steepest, slope);
    const Bytes memory = sizes().second;
    return memory == 0 ? 0 : module.sac_runtime * steepest / static_cast<double>(memory);
  }

  double ratio_of_bytes() const {
    const auto [inside, memory] = sizes();
    if (memory == 0) return 0;
    return static_cast<double>(unit_.discarded + memory - inside) / static_cast<double>(memory);
  }
};

}  // namespace

int output_maker(const SACStats& table) {
  for (int i = static_cast<int>(table.func_names.size()) - 1; i >= 0; --i) {
    const bool is_inplace =
        std::any_of(table.inplace_ops.begin(), table.inplace_ops.end(),
                    [&](const std::pair<int, int>& op) { return op.first == i; });
    if (!is_inplace && !holds(table.view_like_ops, i)) return i;
  }
  return -1;
}

int end_of_recompute(const JudgedCheckpoint& given, const SACStats& table) {
  const auto& saved = table.saved_autograd_ops;
  if (given.options->price != PriceRule::kEarlyStop || saved.empty()) {
    return static_cast<int>(table.func_names.size());
  }
  return *std::max_element(saved.begin(), saved.end()) + 1;
}

std::pair<Bytes, Bytes> unit_sizes(const JudgedCheckpoint& given, const std::vector<int>& nodes) {
  const checkpoint::ModuleInfo& head = given.info(nodes.front());
  const checkpoint::ModuleInfo& tail = given.info(nodes.back());
  if (nodes.size() == 1) {
    return {head.act_fw_per_module, std::max(head.sac_memory, head.act_fw_per_module)};
  }
  const Bytes before = head.act_total - head.act_fw_per_module - head.output_per_module;
  const Bytes inside = tail.act_total - tail.output_per_module - before;
  return {inside, inside};
}

double fitted_ms(const JudgedCheckpoint& given, int node, double ratio) {
  const checkpoint::ModuleInfo& module = given.info(node);
  double share = 0;
  for (std::size_t s = 0; s < module.slopes.size(); ++s) {
    share = std::max(share, module.slopes[s] * ratio + module.intercepts[s]);
  }
  return module.sac_runtime * share;
}

KeptBytes kept_bytes(const JudgedCheckpoint& given, const PlacedUnit& unit) {
  if (given.options->price == PriceRule::kFit) return {};  // it keeps no operator whole
  KeptBytes bytes;
  auto choice = unit.unit->ops.begin();
  const auto end = unit.unit->ops.end();
  for (std::size_t n = 0; n < unit.nodes.size(); ++n) {
    const SACStats* table = given.table_of(unit.nodes[n]);
    if (table == nullptr) continue;
    const int maker = output_maker(*table);
    for (int i = 0; i < static_cast<int>(table->memory.size()); ++i, ++choice) {
      if (choice == end) return {};
      if (!choice->save) continue;
      Bytes memory = table->memory[i];
      // The tables charge nothing for the outputs between the modules of a run.
      if (i == maker && n + 1 < unit.nodes.size()) {
        memory += given.info(unit.nodes[n]).output_per_module;
      }
      bytes.kept += memory;
      if (!holds(table->saved_autograd_ops, i)) bytes.copies += memory;
    }
  }
  return choice == end ? bytes : KeptBytes();
}

double check_unit(const JudgedCheckpoint& given, const PlacedUnit& unit, Findings& findings) {
  return UnitCheck(given, unit, findings).run();
}

}  // namespace plimsoll::check
