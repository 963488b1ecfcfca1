// plimsoll shard: plans embedding tables over devices.

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <memory>

#include "plimsoll/common.h"
#include "plimsoll/core/run_context.h"
#include "plimsoll/core/suggest.h"
#include "plimsoll/embedding/easyrec.h"
#include "plimsoll/embedding/planner.h"
#include "plimsoll/embedding/stats.h"
#include "plimsoll/io/files.h"
#include "plimsoll/io/foreign_plan.h"
#include "plimsoll/io/plan_json.h"
#include "plimsoll/planning_flags.h"
#include "plimsoll/text_table.h"

namespace plimsoll::app {
namespace {

using embedding::PlanningProblem;
using embedding::PlanningResult;

struct ShardFlags {
  GlobalFlags global;
  PlanningFlags planning;
  std::string search = "torchrec";
  std::string proposer;
  std::string partitioner;
  std::string perf_model = "perf";
  bool balance_modules = false;
  bool prints_stats = false;
  bool prints_plan = false;
  std::string output;
  std::string stored_plan;
  std::string time_limit;
  std::int64_t effort = -1;
  double tolerance = 1e-6;
};

std::string ranks_text(const embedding::TableSharding& table) {
  std::string text;
  for (const embedding::RankRun& run : table.ranks) {
    if (!text.empty()) text += ',';
    text += run.count == 1 ? fmt::format("{}", run.first)
                           : fmt::format("{}-{}", run.first, run.first + run.count - 1);
  }
  return text;
}

// Bounds are lowered by 1e-12 for safety; a gap of that size is none.
std::string percent(double gap) { return gap < 1e-9 ? "0 %" : fmt::format("{:.3g} %", gap * 100); }

// What the shards of one tier are made of, the largest cause first: "weights 4.1 GiB, ...".
std::string causes_text(const Bill& bill, std::string_view tier, std::size_t rank) {
  const std::string prefix = std::string(tier) + "_";
  std::vector<std::pair<Bytes, std::string>> causes;
  for (const auto& [name, bytes] : bill.bytes) {
    if (name.starts_with(prefix) && bytes[rank] > 0) {
      std::string cause = name.substr(prefix.size());
      std::replace(cause.begin(), cause.end(), '_', ' ');
      causes.emplace_back(bytes[rank], std::move(cause));
    }
  }
  std::stable_sort(causes.begin(), causes.end(),
                   [](const auto& a, const auto& b) { return a.first > b.first; });
  std::string text;
  for (const auto& [bytes, cause] : causes) {
    text += fmt::format("{}{} {}", text.empty() ? "" : ", ", cause, format_bytes(bytes));
  }
  return text;
}

std::string summary(const PlanningProblem& problem, const PlanningResult& result, const Bill& bill,
                    double seconds, const ShardFlags& flags) {
  const auto& outcome = result.outcome;
  const topology::Topology& topology = problem.topology;
  std::string text =
      fmt::format("{} on {}: {} ranks in {} host(s), {} HBM a rank, {} samples a rank, {}\n",
                  problem.model.name.empty() ? flags.planning.model : problem.model.name,
                  topology.name.empty() ? flags.planning.on : topology.name, topology.world_size,
                  topology.num_hosts(), format_bytes(topology.devices.front().hbm),
                  problem.batch_size, problem.cost_model.name);
  const bool has_plan = outcome.plan.has_value();
  text += fmt::format(
      "{}  {} proposals, {} plans, {:.3f} s\n",
      paint(to_string(outcome.status), has_plan ? Tone::kGood : Tone::kBad, flags.global),
      result.num_proposals, result.num_plans, seconds);
  if (!has_plan) return text;
  text += fmt::format("rating {:.6g} ms", result.rating);
  if (outcome.certificate.lower_bound) {
    text += fmt::format(", no plan is below {:.6g} ms", *outcome.certificate.lower_bound);
    if (const auto gap = outcome.certificate.gap()) text += fmt::format(" (gap {})", percent(*gap));
  }
  text += "\n\n";
  TextTable tables({"table", "sharding type", "compute kernel", "ranks"});
  for (const embedding::TableSharding& table : outcome.plan->tables) {
    tables.add({table.fqn(), std::string(to_string(table.sharding_type)),
                std::string(to_string(table.compute_kernel)), ranks_text(table)});
  }
  text += tables.text();
  text += "\n";
  if (bill.bytes.empty()) return text;  // no tables, no bill
  TextTable ranks({"rank", "HBM", "of", "DDR", "ms"}, {true, true, true, true, true});
  constexpr std::size_t kMaxRanks = 64;
  for (std::size_t r = 0; r < topology.devices.size() && r < kMaxRanks; ++r) {
    ranks.add({fmt::format("{}", r), format_bytes(bill.bytes.at("hbm")[r]),
               format_bytes(result.reservation->topology.devices[r].hbm),
               format_bytes(bill.bytes.at("ddr")[r]),
               fmt::format("{:.4f}", bill.ms.at("total")[r])});
  }
  text += ranks.text();
  if (topology.devices.size() > kMaxRanks) {
    text += fmt::format("... {} more ranks (all of them with --json)\n",
                        topology.devices.size() - kMaxRanks);
  }
  const std::vector<Bytes>& hbm = bill.bytes.at("hbm");
  const auto fullest =
      static_cast<std::size_t>(std::max_element(hbm.begin(), hbm.end()) - hbm.begin());
  if (hbm[fullest] > 0) {
    text += fmt::format("fullest HBM: rank {}, {}\n", fullest, causes_text(bill, "hbm", fullest));
  }
  return text;
}

io::ShardingAnswer make_answer(const PlanningResult& result, const Bill& bill,
                               const PlanningFlags& flags) {
  io::ShardingAnswer answer;
  answer.status = result.outcome.status;
  answer.stop = result.outcome.stop;
  answer.rating = result.rating;
  answer.plan = result.outcome.plan;
  if (answer.plan) answer.bill = bill;
  answer.certificate = result.outcome.certificate;
  answer.provenance = result.provenance;
  if (!flags.optimizer.empty()) answer.provenance->options["optimizer"] = flags.optimizer;
  answer.provenance->options["on"] = flags.on;
  answer.warnings = result.outcome.warnings;
  if (!(result.outcome.explanation == Explanation{})) {
    answer.explanation = result.outcome.explanation;
  }
  if (result.failure) {
    answer.failure = {result.failure->kind, result.failure->place, result.failure->message};
  }
  return answer;
}

Result<SearchOptions> search_options(const ShardFlags& flags) {
  SearchOptions options;
  options.effort = flags.effort;
  options.tolerance = flags.tolerance;
  if (!(flags.tolerance >= 0 && flags.tolerance <= 1)) {
    return fail(ErrorCode::kUsage, "--tolerance",
                fmt::format("{} does not lie between 0 and 1", flags.tolerance));
  }
  options.seed = flags.global.seed;
  options.threads = flags.global.threads;
  PLIMSOLL_ASSIGN(options.time_limit_s, parse_time_limit(flags.time_limit));
  return options;
}

// A stored answer records the hash of what it was made from; the planner refuses it where that
// differs.
Result<embedding::PlanLoader> load_stored_plan(const ShardFlags& flags,
                                               const PlanningProblem& problem) {
  PLIMSOLL_ASSIGN(const std::string text, io::read_text_file(flags.stored_plan));
  PLIMSOLL_ASSIGN(const io::ShardingAnswer stored,
                  io::read_any_plan(text, flags.stored_plan,
                                    {problem.model, problem.topology, problem.cost_model}));
  if (!stored.plan) {
    return fail(ErrorCode::kValue, flags.stored_plan, "the answer holds no plan", "plan again");
  }
  PLIMSOLL_ASSIGN(embedding::PlanLoader loader,
                  embedding::make_plan_loader(problem, *stored.plan, flags.stored_plan));
  if (stored.provenance) {
    const auto hash = stored.provenance->inputs.find("context");
    if (hash != stored.provenance->inputs.end()) loader.context_hash = hash->second;
  }
  return loader;
}

int run_shard(const ShardFlags& flags) {
  const PlanningFlags& planning = flags.planning;
  if (const auto once = check_standard_input({planning.model, planning.on, planning.constraints,
                                              planning.checkpoint_plan, flags.stored_plan});
      !once) {
    return report(once.error(), flags.global);
  }
  auto problem = make_problem(planning);
  if (!problem) return report(problem.error(), flags.global);
  auto search = embedding::find_search(flags.search);
  if (!search) {
    search.error().place = "--search";
    return report(search.error(), flags.global);
  }
  embedding::ReferenceOptions options;
  if (flags.planning.easyrec_environment) {
    const auto easyrec = embedding::read_easyrec_environment(environment);
    if (!easyrec) return report(easyrec.error(), flags.global);
    options.proposers = "easyrec";
    options.easyrec_dynamic_programming = easyrec->dynamic_programming;
    options.easyrec_dynamic_programming.has_cuda =
        problem->topology.compute_device == topology::ComputeDevice::kCuda;
  }
  if (!flags.proposer.empty()) options.proposers = flags.proposer;
  if (!flags.partitioner.empty()) options.partitioner = flags.partitioner;
  options.balance_modules = flags.balance_modules;
  options.perf_model = flags.perf_model == "storage" ? embedding::PerfModelKind::kStorage
                                                     : embedding::PerfModelKind::kPerf;
  if (!flags.stored_plan.empty()) {
    auto loader = load_stored_plan(flags, *problem);
    if (!loader) return report(loader.error(), flags.global);
    options.loader = *std::move(loader);
  }
  auto limits = search_options(flags);
  if (!limits) return report(limits.error(), flags.global);

  RunContext context = make_run_context(*limits);
  context.cancel = watch_interrupts();
  if (!flags.global.quiet && isatty(STDERR_FILENO) != 0) {
    context.progress = [](const Progress& progress) {
      print_error_text(fmt::format("\rproposal {}: rating {:.6g} ms ", progress.effort,
                                   progress.incumbent.value_or(0)));
    };
  }
  const auto begin = std::chrono::steady_clock::now();
  auto result = (*search)(*problem, options, *limits, context);
  const double seconds =
      std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
  stop_watching_interrupts();
  if (context.progress) print_error_text("\r\x1b[K");
  if (!result) return report(with_flag_as_place(result.error()), flags.global);

  const auto bill = embedding::make_bill(*problem, *result);
  if (!bill) return report(with_flag_as_place(bill.error()), flags.global);
  const std::string answer = io::write_answer(make_answer(*result, *bill, flags.planning));
  if (!flags.output.empty() && flags.output != "-") {
    if (const auto written = io::write_text_file(flags.output, answer); !written) {
      return report(written.error(), flags.global);
    }
  }
  if (flags.global.json || flags.output == "-") {
    print(answer);
  } else {
    print(summary(*problem, *result, *bill, seconds, flags));
    if (flags.prints_plan && result->outcome.plan) {
      print("\n" + embedding::print_plan(*result->outcome.plan) + "\n");
    }
    if (flags.prints_stats && !result->enumeration.options.tables.empty()) {
      print("\n");
      for (const std::string& line :
           embedding::make_stats_report(*problem, *result, {true, seconds, 0}).lines) {
        print(line + "\n");
      }
    }
  }
  if (!flags.global.quiet) {
    for (const Warning& warning : result->outcome.warnings) {
      print_error_text(fmt::format("warning: {}{}{}\n", warning.place,
                                   warning.place.empty() ? "" : ": ", warning.message));
    }
  }
  if (result->failure) {
    print_error_text(fmt::format("plimsoll: no plan: PlannerError ({}){}{}: {}\n",
                                 result->failure->kind, result->failure->place.empty() ? "" : ", ",
                                 result->failure->place, result->failure->message));
    for (const std::string& line : result->outcome.explanation.lines) {
      print_error_text(fmt::format(
          "{}: {}\n",
          result->outcome.status == SolveStatus::kInfeasible ? "proved infeasible" : "note", line));
    }
  }
  return exit_code(result->outcome.status, result->outcome.stop);
}

}  // namespace

void add_shard_command(CLI::App& app, Run& run) {
  auto flags = std::make_shared<ShardFlags>();
  CLI::App* command =
      app.add_subcommand("shard", "Plan which device holds which shard of which embedding table");
  command->footer(
      examples({"plimsoll shard mlperf-dlrm-dcnv2 --on dgx-h100:2 --stats",
                "plimsoll shard model.json --on 16x40GiB --batch-size 4096 --json -o plan.json",
                "plimsoll shard model.json --on topology.json --proposer dynamic_programming",
                "plimsoll shard - --on 8x80GiB --cost-model torchrec-1.8 < model.json"}));
  add_planning_flags(*command, flags->planning);
  command->add_option("--search", flags->search, "torchrec: the reference search")
      ->capture_default_str();
  command->add_option("--proposer", flags->proposer,
                      fmt::format("Proposers of the reference search, joined by '+': {}",
                                  fmt::join(embedding::proposer_names(), ", ")));
  command->add_option("--partitioner", flags->partitioner,
                      fmt::format("Partitioner of the reference search: {}",
                                  fmt::join(embedding::partitioner_names(), ", ")));
  command->add_option("--perf-model", flags->perf_model, "What a plan is rated by: perf or storage")
      ->check(CLI::IsMember({"perf", "storage"}))
      ->capture_default_str();
  command->add_flag("--balance-modules", flags->balance_modules,
                    "Place the tables of small modules first");
  command->add_flag("--stats", flags->prints_stats, "Print TorchRec's statistics report");
  command->add_flag("--plan", flags->prints_plan, "Print the plan as TorchRec prints it");
  command->add_option("-o,--output", flags->output,
                      "Write the answer as JSON to this file (-: to stdout, as --json)");
  command->add_option("--load-plan", flags->stored_plan,
                      "Take this stored plan instead of searching; what it records of its inputs "
                      "must agree");
  command->add_option("--time-limit", flags->time_limit,
                      "Stop the search after this time (5s, 200ms) with the best plan so far");
  command->add_option("--effort", flags->effort, "Stop after this many proposals")
      ->check(CLI::Range(std::int64_t{0}, std::int64_t{1} << 60));
  command->add_option("--tolerance", flags->tolerance, "A gap up to this counts as optimal")
      ->capture_default_str();
  add_global_flags(*command, flags->global);
  command->callback([flags, &run] { run = [flags] { return run_shard(*flags); }; });
}

}  // namespace plimsoll::app
