#include "plimsoll/shard/shard_report.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <utility>

#include "plimsoll/shard/shard_dump.h"
#include "plimsoll/text/no_plan_text.h"
#include "plimsoll/text/text_table.h"

namespace plimsoll::app {
namespace {

using embedding::BalancedResult;
using embedding::PlanningResult;
using embedding::PlanTimes;
using study::ShardingRun;

std::string ranks_text(const embedding::TableSharding& table) {
  std::string text;
  for (const embedding::RankRun& run : table.ranks) {
    if (!text.empty()) text += ',';
    text += run.count == 1 ? fmt::format("{}", run.first)
                           : fmt::format("{}-{}", run.first, run.first + run.count - 1);
  }
  return text;
}

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

std::string step_model_text(const embedding::StepModel& m) {
  return fmt::format(
      "step model: {} x kernels + {} x collectives + {} ms a sharding type and module{}{}{}{}",
      m.kernel_weight, m.collective_weight, m.ms_per_sharding_type,
      m.ms_per_output_byte > 0 ? fmt::format(" + {} ms an output byte", m.ms_per_output_byte) : "",
      m.ms_per_table > 0 ? fmt::format(" + {} ms a table", m.ms_per_table) : "",
      m.floor_ms > 0 ? fmt::format(" + {} ms", m.floor_ms) : "", m.is_assumed ? ", assumed" : "");
}

// "kernels measured, collectives published, step assumed".
std::string machine_row(const embedding::PlanningProblem& problem) {
  if (!problem.machine) return "";
  const embedding::MachineModel& machine = *problem.machine;
  std::vector<std::string> parts;
  for (const char* part : {"kernels", "collectives", "step"}) {
    const auto source = machine.sources.find(part);
    if (std::string_view(part) == "collectives" && machine.collectives.empty()) {
      parts.emplace_back("collectives by the bandwidths of the hardware");
    } else {
      parts.push_back(fmt::format("{} {}", part,
                                  source == machine.sources.end()
                                      ? "of an unstated source"
                                      : to_string(source->second.kind)));
    }
  }
  return fmt::format("{} ({})", fmt::join(parts, ", "), machine.name);
}

// "lookups of fused forward (40960, measured 100 to 10000), ...".
std::string extrapolated_row(const std::vector<embedding::Extrapolation>& extrapolated) {
  constexpr std::size_t kShown = 3;
  std::string text;
  for (std::size_t i = 0; i < std::min(kShown, extrapolated.size()); ++i) {
    const embedding::Extrapolation& e = extrapolated[i];
    text += fmt::format("{}{} of {}", text.empty() ? "" : ", ", e.variable, e.of);
    if (e.most > 0) {
      text += fmt::format(" ({:.4g}, measured {:.4g} to {:.4g})", e.value, e.least, e.most);
    }
  }
  if (extrapolated.size() > kShown) {
    text += fmt::format(" and {} more (all with --json)", extrapolated.size() - kShown);
  }
  return text;
}

// The slowest rank's, as the search counts them and by the machine's tables.
std::string collectives_text(const Bill& bill) {
  const auto counted = bill.ms.find("machine_collectives");
  const auto interpolated = bill.ms.find("machine_collectives_interpolated");
  if (counted == bill.ms.end() || interpolated == bill.ms.end()) return "";
  const auto most = [](const std::vector<double>& ms) {
    return *std::max_element(ms.begin(), ms.end());
  };
  return fmt::format("collectives of the slowest rank: {:.6g} ms; each by its table {:.6g} ms\n",
                     most(counted->second), most(interpolated->second));
}

// What no plan is below, of the objective.
std::string bound_row(const ShardingRun& run) {
  const Certificate& certificate = run.planning().outcome.certificate;
  if (!certificate.lower_bound) return "";
  return fmt::format("{:<13}{}", ms_text(*certificate.lower_bound), bound_words(certificate));
}

// "2.283 ms     TorchRec's planner: 2.614 ms (14.5 % slower)".
std::string beside_reference(double own, const std::optional<double>& reference,
                             const BalancedResult& result) {
  std::string text = fmt::format("{:<13}", ms_text(own));
  if (!reference) return text;
  const double share = *reference / own - 1;
  text += fmt::format("TorchRec's planner: {}", ms_text(*reference));
  if (std::abs(share) < 1e-9) {
    text += " (the same)";
  } else if (std::isfinite(share)) {
    text +=
        fmt::format(" ({} {})", format_percent(std::abs(share)), share > 0 ? "slower" : "faster");
  }
  return text + (result.is_reference_whole ? "" : ", its search cut");
}

// The fullest rank, by HBM; of machines without any by DDR.
std::string memory_row(const ShardingRun& run) {
  const PlanningResult& result = run.planning();
  const bool has_hbm = std::any_of(run.bill.bytes.at("hbm").begin(), run.bill.bytes.at("hbm").end(),
                                   [](Bytes bytes) { return bytes > 0; });
  const std::vector<Bytes>& used = run.bill.bytes.at(has_hbm ? "hbm" : "ddr");
  const auto fullest = std::max_element(used.begin(), used.end()) - used.begin();
  const topology::Storage& room =
      result.reservation->topology.devices[static_cast<std::size_t>(fullest)];
  return fmt::format("{:<13}of {} usable {}on rank {}, the fullest",
                     size_text(*std::max_element(used.begin(), used.end())),
                     size_text(has_hbm ? room.hbm : room.ddr), has_hbm ? "" : "DDR ", fullest);
}

// What ranks keep between two steps, where that is much more than TorchRec counts or than they
// have.
std::string resident_row(const ShardingRun& run) {
  std::string text;
  for (const std::string tier : {"hbm", "ddr"}) {
    const auto resident = run.bill.bytes.find("resident_" + tier);
    if (resident == run.bill.bytes.end()) continue;
    const auto most = std::max_element(resident->second.begin(), resident->second.end());
    const auto rank = static_cast<std::size_t>(most - resident->second.begin());
    const Bytes counted = run.bill.bytes.at(tier)[rank];
    const Bytes capacity = run.bill.bytes.at("capacity_" + tier)[rank];
    const bool is_much_more = static_cast<double>(*most) > 1.05 * static_cast<double>(counted);
    if (!is_much_more && *most <= capacity) continue;
    text =
        fmt::format("{:<13}on rank {} between steps (TorchRec counts {}): {}{}", size_text(*most),
                    rank, size_text(counted), causes_text(run.bill, "resident_" + tier, rank),
                    *most > capacity ? fmt::format("; more than its {}", size_text(capacity)) : "");
    break;
  }
  return text;
}

std::string found_row(const ShardingRun& run, double seconds) {
  const StopReason stop = run.planning().outcome.stop;
  return seconds_text(seconds) +
         (stop == StopReason::kDeadline    ? ", when the time limit ended the search"
          : stop == StopReason::kCancelled ? ", when the search was interrupted"
                                           : "");
}

// What was gained, and how good it is.
std::string gain_text(const ShardRequest& request, const ReportedRun& run) {
  const PlanningResult& result = run.planning();
  const bool has_tables = !result.enumeration.options.tables.empty();
  std::string text = "\n";
  const auto row = [&text](std::string_view name, const std::string& what) {
    if (!what.empty()) text += screen_row(name, what);
  };
  const auto& reference = run.balanced.reference;
  const bool shows_reference = request.is_balanced && reference;
  if (has_tables) {
    const PlanTimes& times = run.balanced.times;
    row("slowest rank",
        beside_reference(times.rating,
                         shows_reference ? std::optional(reference->rating) : std::nullopt,
                         run.balanced));
    const bool is_of_step = request.is_balanced && request.balanced.bridge.objective !=
                                                       embedding::BalanceObjective::kRating;
    if (is_of_step) {
      const auto objective = request.balanced.bridge.objective;
      row("predicted step", beside_reference(embedding::value_of(times, objective),
                                             shows_reference ? std::optional(embedding::value_of(
                                                                   *reference, objective))
                                                             : std::nullopt,
                                             run.balanced));
    }
    row(is_of_step ? "best step" : "best possible", bound_row(run));
    if (run.balanced.rating_cap) {
      row("among",
          fmt::format("plans whose slowest rank takes at most {} (--objective {}: all plans)",
                      ms_text(*run.balanced.rating_cap),
                      to_string(request.balanced.bridge.objective)));
    }
  }
  if (!run.bill.bytes.empty()) {
    row("memory", memory_row(run));
    row("resident", resident_row(run));
  }
  row("times", machine_row(request.problem));
  row("extrapolated", extrapolated_row(run.extrapolated));
  row("found in", found_row(run, run.seconds));
  return text;
}

// All figures of the search, for -v.
std::string search_text(const ShardRequest& request, const ReportedRun& run) {
  const PlanningResult& result = run.planning();
  const Outcome<embedding::ShardingPlan>& outcome = result.outcome;
  std::string text = fmt::format(
      "\n{}: {}{} proposals, {} plans\n", to_string(outcome.status),
      request.is_balanced ? fmt::format("{} moves and nodes, ", run.balanced.effort) : "",
      result.num_proposals, result.num_plans);
  if (result.enumeration.options.tables.empty()) return text;
  TextTable table({"ms", "rating", "step", "time"}, {false, true, true, true});
  const auto add = [&table](const std::string& name, const PlanTimes& times) {
    table.add({name, fmt::format("{:.6g}", times.rating), fmt::format("{:.6g}", times.step),
               fmt::format("{:.6g}", times.time)});
  };
  if (outcome.plan) add("plan", run.balanced.times);
  if (request.is_balanced && run.balanced.reference) {
    add(run.balanced.is_reference_whole ? "TorchRec's plan" : "TorchRec's plan, search cut",
        *run.balanced.reference);
  }
  if (outcome.plan || run.balanced.reference) text += table.text();
  if (outcome.plan && outcome.certificate.lower_bound) {
    text += wrapped(fmt::format(
                        "lower bound {:.6g} ms{}: {}", *outcome.certificate.lower_bound,
                        run.balanced.rating_cap
                            ? fmt::format(" for plans whose slowest rank takes at most {:.6g} ms",
                                          *run.balanced.rating_cap)
                            : "",
                        to_string(outcome.certificate.proof)),
                    text_columns(), 2) +
            "\n";
  }
  return text + wrapped(step_model_text(request.balanced.bridge.step_model), text_columns(), 2) +
         "\n" + collectives_text(run.bill);
}

// What every plan of the curve needs and costs, and what is proved at its size.
std::string frontier_text(const math::Frontier& frontier) {
  TextTable points({"HBM a rank", "bytes", "ms", "no plan below"}, {true, true, true, true});
  for (const math::FrontierPoint& point : frontier.breakpoints()) {
    points.add({format_bytes(point.bytes), fmt::format("{}", point.bytes),
                fmt::format("{:.6g}", point.ms),
                fmt::format("{:.6g}", math::value_at(frontier.lower(), point.bytes))});
  }
  return points.text() +
         fmt::format("below {} bytes a rank nothing fits, proved\n", frontier.lower().front().x);
}

// Why there is no plan, and what to type instead.
std::string failure_text(const ReportedRun& run) {
  const Outcome<embedding::ShardingPlan>& outcome = run.planning().outcome;
  std::string text = "No plan was found, and it is not proved that there is none.";
  if (outcome.status == SolveStatus::kInfeasible) {
    text = "Does not fit (proved infeasible)";
    if (!outcome.explanation.lines.empty()) text += ": " + outcome.explanation.lines.front();
  }
  text = wrapped(shown(text), text_columns(), 2) + "\n";
  return run.no_plan ? text + no_plan_text(*run.no_plan) : text;
}

// Tables that are sharded alike.
struct TableGroup {
  std::string ranks, type, kernel;
  std::vector<std::string> tables;
  std::vector<int> on;
};

// Of each kind of sharding one row; whole tables on one rank each stand together.
std::string folded_tables(const embedding::ShardingPlan& plan) {
  std::vector<std::string> names;
  for (const embedding::TableSharding& table : plan.tables) names.push_back(table.fqn());
  const std::size_t prefix = common_prefix(names).size();
  std::vector<TableGroup> groups;
  std::map<std::pair<std::string, std::string>, std::size_t> place;
  for (std::size_t i = 0; i < plan.tables.size(); ++i) {
    const embedding::TableSharding& table = plan.tables[i];
    std::string type(to_string(table.sharding_type));
    std::string kernel(to_string(table.compute_kernel));
    const auto [found, is_new] = place.try_emplace({type, kernel}, groups.size());
    if (is_new) groups.push_back({"", type, kernel, {}, {}});
    TableGroup& group = groups[found->second];
    group.tables.push_back(names[i].substr(prefix));
    for (const embedding::RankRun& run : table.ranks) {
      for (int r = 0; r < run.count; ++r) group.on.push_back(run.first + r);
    }
  }
  std::stable_sort(groups.begin(), groups.end(), [](const TableGroup& a, const TableGroup& b) {
    return a.tables.size() > b.tables.size();
  });
  TextTable text({"tables", "ranks", "type", "kernel", "which"}, {true});
  for (TableGroup& group : groups) {
    std::sort(group.on.begin(), group.on.end());
    group.on.erase(std::unique(group.on.begin(), group.on.end()), group.on.end());
    const bool is_everywhere = static_cast<int>(group.on.size()) == plan.world_size;
    text.add({grouped(static_cast<std::int64_t>(group.tables.size())),
              is_everywhere ? "all" : fold_numbers(group.on), group.type, group.kernel,
              fmt::format("{}", fmt::join(folded(group.tables), ", "))});
  }
  return text.text(2);
}

std::string plan_text(const PlanningResult& result, const topology::Topology& topology,
                      const Bill& bill) {
  TextTable tables({"table", "sharding type", "compute kernel", "ranks"});
  for (const embedding::TableSharding& table : result.outcome.plan->tables) {
    tables.add({table.fqn(), std::string(to_string(table.sharding_type)),
                std::string(to_string(table.compute_kernel)), ranks_text(table)});
  }
  std::string text = tables.text() + "\n";
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
    text +=
        wrapped(fmt::format("fullest HBM: rank {}, {}", fullest, causes_text(bill, "hbm", fullest)),
                text_columns(), 2) +
        "\n";
  }
  return text;
}

// What to do next: save the plan, or look at the saved one.
std::string next_step(const ShardFlags& flags) {
  return flags.output.empty() || flags.output == "-"
             ? std::string("Use -v for every table and rank, -o plan.json to save the plan.")
             : fmt::format(
                   "Use -v for every table and rank, `plimsoll report {} -o plan.html` for "
                   "a page to look at.",
                   shown(flags.output));
}

}  // namespace

std::string title_of(const ShardFlags& flags, const ShardRequest& request) {
  const embedding::PlanningProblem& problem = request.problem;
  const topology::Topology& topology = problem.topology;
  std::string machine = topology.name.empty() ? flags.planning.on : topology.name;
  if (const std::size_t colon = machine.rfind(':'); colon != std::string::npos) {
    machine = fmt::format("{} x {}", machine.substr(colon + 1), machine.substr(0, colon));
  }
  if (request.dump) machine = "the hardware of the dump";
  const bool is_gpu = topology.compute_device == topology::ComputeDevice::kCuda;
  const std::string_view one = is_gpu ? "GPU" : "rank";
  const std::string_view many = is_gpu ? "GPUs" : "ranks";
  std::string model = request.dump ? "TorchRec " + request.dump->torchrec : problem.cost_model.name;
  constexpr std::string_view kRelease = "torchrec-";
  if (model.starts_with(kRelease)) model = "TorchRec " + model.substr(kRelease.size());
  std::string samples = counted(problem.batch_size, "sample", "samples");
  samples += fmt::format(" per {}{}", one, batch_size_note(flags.planning, problem));
  return fmt::format("{} on {} ({}), {}, {} cost model{}",
                     problem.model.name.empty() ? flags.planning.model : problem.model.name,
                     machine, counted(topology.world_size, one, many), samples, model,
                     problem.machine ? ", times of " + problem.machine->name : "");
}

ShardText describe(const ShardFlags& flags, const ShardRequest& request, const ReportedRun& run) {
  const PlanningResult& result = run.planning();
  const bool is_verbose = flags.global.verbosity > 0;
  ShardText text;
  text.head = paint(wrapped(shown(title_of(flags, request)), text_columns(), 2), Tone::kHeading,
                    flags.global) +
              "\n";
  if (!result.outcome.plan) {
    text.head += failure_text(run);
    if (is_verbose) text.body = search_text(request, run);
    if (!run.frontier.is_empty()) text.body += "\n" + frontier_text(run.frontier);
    return text;
  }
  text.head += gain_text(request, run);
  for (const Warning& warning : result.outcome.warnings) {
    if (warning.code != "worse_than_reference") continue;
    text.head += paint(warning.message, Tone::kBad, flags.global) + "\n";
  }
  if (is_verbose) text.body += search_text(request, run);
  if (!run.frontier.is_empty()) text.body += "\n" + frontier_text(run.frontier);
  if (result.outcome.plan->tables.empty()) return text;
  text.body += "\n";
  text.body += is_verbose ? plan_text(result, request.problem.topology, run.bill)
                          : folded_tables(*result.outcome.plan) + hint(next_step(flags));
  return text;
}

study::ShardingAnswer make_answer(const ShardFlags& flags, const ShardRequest& request,
                                  const ReportedRun& run) {
  study::TakenOptions taken;
  if (request.dump) {
    taken = [&](const embedding::PlacedProposal& plan) {
      return taken_options(*request.dump, run.planning().enumeration.options, plan);
    };
  }
  study::ShardingAnswer answer = study::make_answer(request, run, taken);
  auto& recorded = answer.provenance->options;
  const auto record = [&recorded](const char* key, const std::vector<std::string>& flags_of) {
    if (!flags_of.empty()) recorded[key] = recorded_of_tables(flags_of);
  };
  record("optimizer", flags.planning.optimizers);
  record("data_type", flags.planning.data_types);
  if (!request.dump) recorded["on"] = flags.planning.on;
  const bool has_tables = !run.planning().enumeration.options.tables.empty();
  if (request.is_balanced && has_tables && !request.rules.empty()) {
    recorded["rules"] = request.rules;
  }
  if (run.no_plan) answer.explanation = run.no_plan;
  return answer;
}

}  // namespace plimsoll::app
