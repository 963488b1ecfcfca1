#include "plimsoll/checkpoint/checkpoint_tradeoff.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <set>
#include <utility>

#include "checkpoint/trace/piecewise_fit.h"
#include "checkpoint/trace/sac_greedy_order.h"
#include "core/suggest.h"
#include "plimsoll/core/digest.h"
#include "plimsoll/core/units.h"
#include "plimsoll/core/version.h"
#include "plimsoll/io/module_stats_json.h"
#include "plimsoll/text/text_table.h"

namespace plimsoll::app {
namespace {

using checkpoint::ModuleInfo;
using checkpoint::ModuleStats;
using checkpoint::SACGreedyOrder;
using checkpoint::SACStats;
using io::ModuleTradeoff;
using io::TradeoffAnswer;

// The head and all that goes with it, ascending.
std::vector<int> group_of(int head, const SACGreedyOrder& order) {
  std::set<int> ops{head};
  for (const checkpoint::InplaceGroup& group : order.inplace_groups) {
    if (group.head == head) ops.insert(group.ops.begin(), group.ops.end());
  }
  if (!order.random_ops.empty() && order.random_ops.front() == head) {
    ops.insert(order.random_ops.begin(), order.random_ops.end());
  }
  return {ops.begin(), ops.end()};
}

io::PlanFailure failure_of(const Error& error) {
  return {std::string(to_string(error.code)), error.place, error.message};
}

ModuleTradeoff make_tradeoff(const SACStats& table, int num_segments) {
  const SACGreedyOrder order = checkpoint::make_greedy_order(table);
  ModuleTradeoff made;
  for (const Bytes memory : table.memory) made.sac_memory += memory;
  for (const double runtime : table.runtimes) made.sac_runtime += runtime;
  made.stored_ops = order.stored_ops;
  made.recomputed_ops = order.recomputed_ops;
  made.rand_ops = order.random_ops;
  for (const checkpoint::InplaceGroup& group : order.inplace_groups) {
    made.inplace_op_groups.push_back({group.head, group.ops});
  }
  for (const checkpoint::RecomputeCandidate& step : order.order) {
    made.order.push_back({step.op, group_of(step.op, order), step.memory, step.runtime, step.msps});
  }
  const auto curve = checkpoint::make_tradeoff_curve(table, order);
  if (!curve) {
    made.failure = failure_of(curve.error());
    return made;
  }
  made.curve = curve->points;
  auto fit = checkpoint::fit_tradeoff_curve(made.curve, num_segments);
  if (fit) {
    made.fit = {std::move(fit->slopes), std::move(fit->intercepts), std::move(fit->breaks)};
  } else {
    made.failure = failure_of(fit.error());
  }
  return made;
}

TradeoffAnswer start_answer(std::string_view input, const std::string& canonical,
                            const TradeoffFlags& flags) {
  TradeoffAnswer answer;
  answer.input_hash = input_hash(canonical);
  answer.provenance.version = kVersion;
  answer.provenance.options["fit_segments"] = fmt::format("{}", flags.num_segments);
  answer.provenance.inputs[std::string(input)] = answer.input_hash;
  answer.provenance.seed = flags.seed;
  return answer;
}

std::string names_of(const std::vector<int>& ops, const SACStats& table) {
  std::string text;
  for (const int op : ops) {
    text += fmt::format("{}{} {}", text.empty() ? "" : ", ", op, table.func_names[op]);
  }
  return text;
}

// What is discarded next, and what all of that is a share of.
class DiscardRows {
 public:
  DiscardRows(const ModuleTradeoff& module, const SACStats& table)
      : module_(module), table_(table) {}

  std::string text() {
    add_all(module_.recomputed_ops, "always recomputed");
    for (const io::TradeoffStep& step : module_.order) {
      add(names_of(step.ops, table_), step.memory, step.runtime,
          step.runtime > 0 ? fmt::format("{:.3g}", step.msps) : "");
    }
    add_all(module_.stored_ops, "always kept");
    return rows_.text();
  }

 private:
  static std::string share(double part, double whole) {
    return whole > 0 ? fmt::format("{:.2f} %", 100 * part / whole) : "";
  }

  void add(std::string name, Bytes memory, double runtime, std::string msps) {
    discarded_ += memory;
    recomputed_ += runtime;
    rows_.add({std::move(name), fmt::format("{}", memory), fmt::format("{:.6g}", runtime),
               std::move(msps),
               share(static_cast<double>(discarded_), static_cast<double>(module_.sac_memory)),
               share(recomputed_, module_.sac_runtime)});
  }

  // Operators and those that go with them, as one row.
  void add_all(const std::vector<int>& heads, std::string_view what) {
    std::set<int> ops(heads.begin(), heads.end());
    for (const int head : heads) {
      for (const io::TradeoffGroup& group : module_.inplace_op_groups) {
        if (group.head == head) ops.insert(group.ops.begin(), group.ops.end());
      }
      if (!module_.rand_ops.empty() && module_.rand_ops.front() == head) {
        ops.insert(module_.rand_ops.begin(), module_.rand_ops.end());
      }
    }
    if (ops.empty()) return;
    Bytes memory = 0;
    double runtime = 0;
    for (const int op : ops) {
      memory += table_.memory[op];
      runtime += table_.runtimes[op];
    }
    add(fmt::format("{} ({})", ops.size(), what), memory, runtime, "");
  }

  const ModuleTradeoff& module_;
  const SACStats& table_;
  TextTable rows_{{"discarded next", "bytes", "ms", "bytes per ms", "discarded", "recomputed"},
                  {false, true, true, true, true, true}};
  Bytes discarded_ = 0;
  double recomputed_ = 0;
};

std::string module_text(const ModuleTradeoff& module, const SACStats& table) {
  std::string text =
      fmt::format("{}{} operators, {} ({} bytes), {:.6g} ms\n",
                  module.fqn.empty() ? "" : module.fqn + ": ", table.func_names.size(),
                  format_bytes(module.sac_memory), module.sac_memory, module.sac_runtime);
  text = in_lines(shown(text), 2);
  text += DiscardRows(module, table).text();
  if (module.fit) {
    text += "fit:";
    for (std::size_t s = 0; s < module.fit->slopes.size(); ++s) {
      text +=
          fmt::format("{} {:.6g} r {:+.6g} up to {:.6g}", s > 0 ? "," : "", module.fit->slopes[s],
                      module.fit->intercepts[s], module.fit->breakpoints[s + 1]);
    }
    text += "\n";
  }
  if (module.failure) {
    text +=
        fmt::format("no {}: {}\n", module.curve.empty() ? "curve" : "fit", module.failure->message);
  }
  return text;
}

}  // namespace

TradeoffAnswer describe_table_tradeoff(const SACStats& table, const TradeoffFlags& flags) {
  TradeoffAnswer answer = start_answer("sac_stats", io::write_sac_stats(table), flags);
  answer.modules.push_back(make_tradeoff(table, flags.num_segments));
  return answer;
}

Result<TradeoffAnswer> describe_model_tradeoffs(const ModuleStats& stats,
                                                const TradeoffFlags& flags) {
  if (stats.sac_stats_of.empty()) {
    return fail(ErrorCode::kUsage, "--tradeoff", "the statistics hold no operator tables",
                "record sac_stats and sac_stats_of, or give one table");
  }
  std::vector<std::string> known;
  for (const auto& [fqn, table] : stats.sac_stats_of) known.push_back(fqn);
  for (const std::string& fqn : flags.modules) {
    if (stats.sac_stats_of.contains(fqn)) continue;
    return fail(ErrorCode::kNotFound, "--ac-unit", "no operator table of '" + fqn + "'",
                suggest(fqn, known));
  }
  TradeoffAnswer answer = start_answer("module_stats", io::write_module_stats(stats), flags);
  std::map<int, ModuleTradeoff> made;  // by table
  for (const ModuleInfo& module : stats.mod_stats) {
    const auto table = stats.sac_stats_of.find(module.fqn);
    if (table == stats.sac_stats_of.end()) continue;
    if (!flags.modules.empty() &&
        std::find(flags.modules.begin(), flags.modules.end(), module.fqn) == flags.modules.end()) {
      continue;
    }
    auto found = made.find(table->second);
    if (found == made.end()) {
      found = made.emplace(table->second,
                           make_tradeoff(stats.sac_stats[table->second], flags.num_segments))
                  .first;
    }
    answer.modules.push_back(found->second);
    answer.modules.back().fqn = module.fqn;
  }
  return answer;
}

std::vector<const SACStats*> tables_of(const TradeoffAnswer& answer, const ModuleStats& stats) {
  std::vector<const SACStats*> tables;
  for (const ModuleTradeoff& module : answer.modules) {
    tables.push_back(&stats.sac_stats[stats.sac_stats_of.at(module.fqn)]);
  }
  return tables;
}

std::string tradeoff_text(const TradeoffAnswer& answer, const std::vector<const SACStats*>& tables,
                          const TradeoffFlags& flags) {
  std::string text = flags.input + "\n";
  for (std::size_t i = 0; i < tables.size(); ++i) {
    text += "\n" + module_text(answer.modules[i], *tables[i]);
  }
  return text;
}

}  // namespace plimsoll::app
