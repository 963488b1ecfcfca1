// plimsoll whatif: plans for many machines and batches at once.

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <map>
#include <memory>
#include <thread>
#include <utility>

#include "plimsoll/core/digest.h"
#include "plimsoll/help.h"
#include "plimsoll/io/files.h"
#include "plimsoll/machines/machines_flags.h"
#include "plimsoll/planning_run.h"
#include "plimsoll/shard/planning_flags.h"
#include "plimsoll/study/what_if.h"
#include "plimsoll/text/text_table.h"
#include "plimsoll/topology/machine.h"
#include "study/embedding/machine_plans.h"

namespace plimsoll::app {
namespace {

using study::WhatIf;
using study::WhatIfPoint;
using study::WhatIfRow;

struct WhatIfFlags {
  GlobalFlags global;
  PlanningFlags planning;
  std::string ranks;
  std::string batch_sizes;
  std::string price;
  std::string objective = "time";
  std::string resume;
  std::string part;  // "2/8"
  std::string output;
  std::string time_limit;
  std::int64_t effort = -1;
  int threads = 0;
  bool prints_csv = false;
};

// ---------------------------------------------------------------- points

struct Points {
  std::vector<WhatIfPoint> points;
  std::vector<std::string> kinds;  // [points] of its machine
  std::vector<std::string> all_kinds;
  std::vector<Warning> warnings;
};

// Batch sizes of a point that names none are the model's own.
Result<Points> find_points(const WhatIfFlags& flags) {
  Points found;
  if (flags.planning.on.empty()) {
    return fail(ErrorCode::kUsage, "--on", "no hardware is given",
                "name kinds of it, such as dgx-h100,gb200-nvl72, and --ranks 8:128");
  }
  PLIMSOLL_ASSIGN(found.all_kinds, flags.ranks.empty() ? parse_list(flags.planning.on, "--on")
                                                       : parse_kinds(flags.planning.on, "--on"));
  std::vector<std::int64_t> batches{0};
  if (!flags.batch_sizes.empty()) {
    PLIMSOLL_ASSIGN(batches, parse_numbers(flags.batch_sizes, "--batch-size"));
  }
  std::vector<std::int64_t> ranks{0};
  if (!flags.ranks.empty()) {
    PLIMSOLL_ASSIGN(ranks, parse_numbers(flags.ranks, "--ranks"));
  }
  for (const std::string& kind : found.all_kinds) {
    for (const std::int64_t count : ranks) {
      WhatIfPoint point{kind, static_cast<int>(std::min<std::int64_t>(count, 1 << 20)), 0};
      if (count > 0) {
        const auto name = topology::name_machine(kind, point.ranks);
        if (!name && name.error().code == ErrorCode::kNotFound) {
          Error error = name.error();
          error.place = "--on";
          return tl::unexpected<Error>(std::move(error));
        }
        if (!name) {
          found.warnings.push_back({"machine_skipped", kind, name.error().message});
          continue;
        }
        point.on = *name;
      }
      for (const std::int64_t batch : batches) {
        point.batch_size = batch;
        found.points.push_back(point);
        found.kinds.push_back(kind);
      }
      if (found.points.size() > kMaxNumbers) {
        return fail(ErrorCode::kUsage, "--ranks", fmt::format("more than {} points", kMaxNumbers),
                    "give smaller ranges");
      }
    }
  }
  if (found.points.empty()) {
    return fail(ErrorCode::kUsage, "--ranks", "no machine of --on has such a number of ranks",
                "give the ranks of whole hosts");
  }
  return found;
}

// "2/8": every eighth run of points from the second on.
Result<std::vector<WhatIfPoint>> part_of(const std::vector<WhatIfPoint>& points,
                                         const std::string& part) {
  if (part.empty()) return points;
  const std::size_t slash = part.find('/');
  const auto refuse = [&part] {
    return fail(ErrorCode::kUsage, "--part", fmt::format("'{}' is not a part", part),
                "write 1/8 to 8/8");
  };
  if (slash == std::string::npos) return refuse();
  const auto number = parse_number<int>(part.substr(0, slash), "--part");
  const auto count = parse_number<int>(part.substr(slash + 1), "--part");
  if (!number || !count || *number < 1 || *number > *count) return refuse();
  std::vector<WhatIfPoint> own;
  const std::vector<std::span<const WhatIfPoint>> runs = study::runs_of(points);
  for (auto i = static_cast<std::size_t>(*number - 1); i < runs.size();
       i += static_cast<std::size_t>(*count)) {
    own.insert(own.end(), runs[i].begin(), runs[i].end());
  }
  return own;
}

// ---------------------------------------------------------------- plans

// What every row is of, beside its point.
std::string hash_of_inputs(const embedding::PlanningProblem& base, const WhatIfFlags& flags) {
  embedding::PlanningProblem same = base;
  same.topology = topology::Topology();
  same.batch_size = 1;
  const PlanningFlags& planning = flags.planning;
  return input_hash(fmt::format(
      "{}|{}|{}|{}|{}|{}|{}|{}|{}|{}|{}", embedding::context_hash(same, {}), flags.objective,
      flags.effort, flags.global.seed, planning.hbm_cap, planning.ddr_cap, planning.host_memory,
      planning.intra_host_bw, planning.inter_host_bw, planning.local_world_size.value_or(0),
      planning.pod_size.value_or(-1)));
}

Result<std::vector<WhatIfRow>> load_known(const std::string& file, const std::string& inputs) {
  if (file.empty()) return std::vector<WhatIfRow>();
  PLIMSOLL_ASSIGN(const std::string text, io::read_text_file(file));
  PLIMSOLL_ASSIGN(io::ReadWhatIf known, io::read_what_if(text, file));
  if (known.inputs != inputs) {
    return fail(ErrorCode::kConflict, file, "the sweep is of another model or of other flags",
                "leave --resume out, or give the flags that it was made with");
  }
  return std::move(known.answer.rows);
}

// The hardware of a point, whose number of ranks may not be known before.
Result<embedding::PlanningProblem> problem_at(const embedding::PlanningProblem& base,
                                              const PlanningFlags& flags,
                                              const WhatIfPoint& point) {
  embedding::PlanningProblem problem = base;
  PlanningFlags here = flags;
  here.on = point.on;
  PLIMSOLL_ASSIGN(problem.topology, make_topology(here, base.cost_model));
  problem.batch_size = point.batch_size;
  return problem;
}

Result<WhatIfRow> plan_at(const embedding::PlanningProblem& base, const WhatIfFlags& flags,
                          const WhatIfPoint& point, const SearchOptions& limits,
                          const RunContext& context,
                          std::optional<embedding::PlanningResult>& last) {
  PLIMSOLL_ASSIGN(const embedding::PlanningProblem problem,
                  problem_at(base, flags.planning, point));
  PLIMSOLL_ASSIGN(
      const study::TablePlanOnMachine found,
      study::plan_on_machine(problem, objective_of(flags.objective), limits, context, &last));
  WhatIfRow row;
  row.status = found.plan.status;
  row.ms = found.plan.ms;
  row.lower_bound = found.plan.lower_bound;
  row.gap = found.gap;
  row.memory = found.memory;
  row.room = found.room;
  return row;
}

// ---------------------------------------------------------------- text

std::string describe(const WhatIf& answer, std::size_t num_points, const WhatIfFlags& flags) {
  constexpr std::size_t kShown = 40;
  const bool is_verbose = flags.global.verbosity > 0;
  const bool has_prices = study::has_prices(answer.rows);
  std::vector<std::string> head{"machine", "ranks", "batch", "ms", "gap", "memory", "samples/s"};
  std::vector<bool> right{false, true, true, true, true, true, true};
  if (has_prices) {
    head.insert(head.end(), {"price/h", "per 1M samples"});
    right.insert(right.end(), {true, true});
  }
  head.emplace_back("");
  TextTable table(head, right);
  std::vector<const WhatIfRow*> rows;
  const bool is_all = is_verbose || answer.rows.size() <= kShown;
  for (const WhatIfRow& row : answer.rows) {
    if (is_all || row.is_pareto) rows.push_back(&row);
  }
  for (const WhatIfRow* row : rows) {
    const bool has_plan = row->ms.has_value();
    std::vector<std::string> cells{
        row->point.on,
        grouped(row->point.ranks),
        grouped(row->point.batch_size),
        short_figure(row->ms),
        row->gap ? gap_text(*row) : "-",
        has_plan ? size_text(row->memory) : "-",
        row->samples_per_s ? grouped(static_cast<std::int64_t>(*row->samples_per_s)) : "-"};
    if (has_prices) {
      cells.push_back(short_figure(row->price));
      cells.push_back(short_figure(row->price_per_million));
    }
    cells.emplace_back(study::remark_of(*row));
    table.add(std::move(cells));
  }
  std::string text =
      fmt::format("{} of {} points\n\n", grouped(static_cast<std::int64_t>(answer.rows.size())),
                  grouped(static_cast<std::int64_t>(num_points)));
  text += table.text(2);
  if (!is_all) text += "  only the front is shown (-v, --csv and --json have all points)\n";
  text += has_prices
              ? "front: no other point has more samples per second for the same price or less\n"
              : "front: no other point has more samples per second on as many ranks or "
                "fewer\n";
  text += time_note(flags.objective);
  return text;
}

std::string csv_cell(const std::optional<double>& value) {
  return value ? fmt::format("{}", *value) : "";
}

std::string write_csv(const WhatIf& answer) {
  std::string text =
      "on,ranks,batch_size,status,ms,lower_bound,gap,memory_bytes,room_bytes,samples_per_s,price,"
      "price_per_million,is_pareto\n";
  for (const WhatIfRow& row : answer.rows) {
    text += fmt::format("{},{},{},{},{},{},{},{},{},{},{},{},{}\n", row.point.on, row.point.ranks,
                        row.point.batch_size, to_string(row.status), csv_cell(row.ms),
                        csv_cell(row.lower_bound), csv_cell(row.gap), row.memory, row.room,
                        csv_cell(row.samples_per_s), csv_cell(row.price),
                        csv_cell(row.price_per_million), row.is_pareto ? "true" : "false");
  }
  return text;
}

// ---------------------------------------------------------------- the run

Result<Answered> sweep(const WhatIfFlags& flags) {
  if (flags.planning.easyrec_environment) {
    return fail(ErrorCode::kUsage, "--easyrec-environment",
                "it describes one machine, and a sweep has several",
                "use `plimsoll shard` for each machine");
  }
  if (flags.prints_csv && prints_document(flags.global, flags.output)) {
    return fail(ErrorCode::kUsage, "--csv", "it would print a second document",
                "leave out --json, or write the answer to a file with -o");
  }
  PLIMSOLL_ASSIGN(const SearchOptions limits,
                  make_search_options(flags.global, flags.effort, SearchOptions{}.tolerance));
  PLIMSOLL_ASSIGN(Points found, find_points(flags));
  const auto prices_of = load_prices(flags.price, found.all_kinds);
  if (!prices_of) return tl::unexpected<Error>(prices_of.error());
  const std::optional<io::Prices>& prices = *prices_of;
  PlanningFlags first = flags.planning;
  first.on = found.points.front().on;
  PLIMSOLL_ASSIGN(const embedding::PlanningProblem base, make_problem(first));
  // What the points left open: the model's batch, and ranks that the machine's name tells.
  for (WhatIfPoint& point : found.points) {
    if (point.batch_size == 0) point.batch_size = base.batch_size;
    if (point.ranks > 0) continue;
    PLIMSOLL_ASSIGN(const embedding::PlanningProblem here, problem_at(base, flags.planning, point));
    point.ranks = here.topology.world_size;
  }
  std::map<std::string, std::optional<double>> price_of;
  for (std::size_t i = 0; i < found.points.size(); ++i) {
    const WhatIfPoint& point = found.points[i];
    if (!prices || price_of.contains(point.on)) continue;
    PLIMSOLL_ASSIGN(const embedding::PlanningProblem here, problem_at(base, flags.planning, point));
    const int host = here.topology.local_world_size;
    price_of[point.on] =
        prices->price_of(found.kinds[i], point.ranks, (point.ranks + host - 1) / host);
  }
  const std::string inputs = hash_of_inputs(base, flags);
  PLIMSOLL_ASSIGN(const std::vector<WhatIfRow> known, load_known(flags.resume, inputs));
  PLIMSOLL_ASSIGN(const std::vector<WhatIfPoint> points, part_of(found.points, flags.part));
  PLIMSOLL_ASSIGN(const RunContext context, watch_search(flags.time_limit, flags.global));
  const int cores = static_cast<int>(std::max(1U, std::thread::hardware_concurrency()));
  PLIMSOLL_ASSIGN(const WhatIf answer,
                  study::sweep(
                      points,
                      [&](const WhatIfPoint& point) {
                        const auto price = price_of.find(point.on);
                        return price == price_of.end() ? std::optional<double>() : price->second;
                      },
                      [&]() -> study::PlanPoint {
                        return [&, last = std::optional<embedding::PlanningResult>()](
                                   const WhatIfPoint& point) mutable {
                          return plan_at(base, flags, point, limits, context, last);
                        };
                      },
                      known, flags.threads > 0 ? flags.threads : cores, context));
  return Answered{
      io::write_what_if(answer, inputs),
      flags.prints_csv ? write_csv(answer) : shown(describe(answer, points.size(), flags)),
      "",
      SolveStatus::kFeasible,
      answer.stop,
      std::move(found.warnings),
      {}};
}

}  // namespace

void add_whatif_command(CLI::App& app, Run& run) {
  auto flags = std::make_shared<WhatIfFlags>();
  CLI::App* command = app.add_subcommand(
      "whatif", "Plan for many machines and batch sizes, and show the Pareto front");
  add_planning_flags(*command, flags->planning);
  command->get_option("--on")->required(false)->description(
      "Kinds of hardware in a list, without a number where --ranks is given: "
      "dgx-a100-320gb,dgx-h100,gb200-nvl72");
  command->remove_option(command->get_option("--batch-size"));
  command->option_defaults()->group(kCommonGroup);
  command
      ->add_option("--ranks", flags->ranks,
                   "Ranks: 8:128 (powers of two of 8), 8:128:8 (steps of 8) or 8,12,16")
      ->type_name("NUMBERS");
  command
      ->add_option(
          "--batch-size", flags->batch_sizes,
          "Samples per rank, in the same form: 4096:65536 (default: the model's own, else 512)")
      ->type_name("NUMBERS");
  command->add_option("--price", flags->price, "Prices per hour (plimsoll.prices/1)")
      ->type_name("FILE");
  command
      ->add_option("--objective", flags->objective,
                   "What is minimized: rating (the slowest rank), step or time")
      ->check(CLI::IsMember({"rating", "step", "time"}))
      ->capture_default_str();
  command->add_flag("--csv", flags->prints_csv, "Print comma-separated values instead of text");
  command
      ->add_option("-o,--output", flags->output,
                   "Write the answer as JSON to this file ('-': to standard output)")
      ->type_name("FILE");
  command
      ->add_option("--resume", flags->resume,
                   "Keep the rows of this earlier answer and plan the others")
      ->type_name("FILE");
  command
      ->add_option("--time-limit", flags->time_limit,
                   "Stop after this time, such as 5s or 2m, with the points that are planned")
      ->type_name("TIME");
  command->option_defaults()->group("Search");
  command->add_option("--threads", flags->threads, "Machines planned at once (default: all cores)")
      ->check(CLI::Range(1, 1024))
      ->type_name("N");
  command
      ->add_option("--part", flags->part,
                   "Only every N-th machine and its batch sizes, from the I-th on, for sweeps "
                   "over several machines")
      ->type_name("I/N");
  command
      ->add_option(
          "--effort", flags->effort,
          fmt::format("Units of search effort for each point (default: {})", study::kMachineEffort))
      ->type_name("N")
      ->check(CLI::Range(std::int64_t{0}, std::int64_t{1} << 60));
  add_planning_globals(*command, flags->global);
  set_help(*command,
           {{kCommonGroup,
             "plimsoll whatif mlperf-dlrm-dcnv2 --on dgx-a100-320gb,dgx-h100 --ranks 8:128 "
             "--batch-size 4096:65536"},
            {"Search", "plimsoll whatif model.json --on dgx-h100 --ranks 8:1024 --threads 8"}},
           {"whatif model.json --on dgx-h100 --ranks 8:64", "", ""});
  command->callback([flags, &run] {
    run = [flags] {
      return run_planning(flags->global, flags->output, [&] { return sweep(*flags); });
    };
  });
}

}  // namespace plimsoll::app
