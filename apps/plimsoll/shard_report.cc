#include "plimsoll/shard_report.h"

#include <fmt/format.h>

#include <algorithm>

#include "plimsoll/shard_dump.h"
#include "plimsoll/text_table.h"

namespace plimsoll::app {
namespace {

using embedding::BalancedResult;
using embedding::PlanningResult;
using embedding::PlanTimes;

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

std::string bound_text(const Certificate& certificate, std::string_view whose) {
  if (!certificate.lower_bound) return "";
  std::string text = fmt::format(", no {} is below {:.6g} ms", whose, *certificate.lower_bound);
  if (const auto gap = certificate.gap()) text += fmt::format(" (gap {})", percent(*gap));
  return text;
}

std::string step_model_text(const embedding::StepModel& m) {
  return fmt::format(
      "step model: {} x kernels + {} x collectives + {} ms a sharding type and module{}{}{}{}\n",
      m.kernel_weight, m.collective_weight, m.ms_per_sharding_type,
      m.ms_per_output_byte > 0 ? fmt::format(" + {} ms an output byte", m.ms_per_output_byte) : "",
      m.ms_per_table > 0 ? fmt::format(" + {} ms a table", m.ms_per_table) : "",
      m.floor_ms > 0 ? fmt::format(" + {} ms", m.floor_ms) : "", m.is_assumed ? ", assumed" : "");
}

// The plan and the reference's, each seen in three ways, and what is proved.
std::string balance_text(const ShardRequest& request, const BalancedResult& result) {
  const Certificate& certificate = result.planning.outcome.certificate;
  TextTable table({"ms", "rating", "step", "time"}, {false, true, true, true});
  const auto add = [&table](const std::string& name, const PlanTimes& times) {
    table.add({name, fmt::format("{:.6g}", times.rating), fmt::format("{:.6g}", times.step),
               fmt::format("{:.6g}", times.time)});
  };
  if (result.planning.outcome.plan) add("plan", result.times);
  if (result.reference) {
    add(result.is_reference_whole ? "reference plan" : "reference, search cut", *result.reference);
  }
  std::string text;
  if (result.planning.outcome.plan || result.reference) text = table.text();
  if (!result.planning.outcome.plan) return text;
  const std::string whose =
      result.rating_cap ? fmt::format("plan that rates at most {:.6g} ms", *result.rating_cap)
                        : "plan";
  text += fmt::format("{} {:.6g} ms{}\n", to_string(request.balanced.bridge.objective),
                      certificate.objective, bound_text(certificate, whose));
  if (certificate.proof.is_given())
    text += fmt::format("proof: {}\n", to_string(certificate.proof));
  return text + step_model_text(request.balanced.bridge.step_model);
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
std::string no_plan_text(const ShardRun& run) {
  const Outcome<embedding::ShardingPlan>& outcome = run.planning().outcome;
  if (outcome.status != SolveStatus::kInfeasible) {
    return "no plan was found, and none is proved impossible\n";
  }
  if (outcome.explanation.lines.empty()) return "does not fit\n";
  std::string text = fmt::format("does not fit: {}\n", outcome.explanation.lines.front());
  for (const std::string& remedy : run.remedies) text += fmt::format("try {}\n", remedy);
  return text;
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
    text += fmt::format("fullest HBM: rank {}, {}\n", fullest, causes_text(bill, "hbm", fullest));
  }
  return text;
}

}  // namespace

std::string summary(const ShardFlags& flags, const ShardRequest& request, const ShardRun& run) {
  const embedding::PlanningProblem& problem = request.problem;
  const PlanningResult& result = run.planning();
  const topology::Topology& topology = problem.topology;
  std::string text =
      fmt::format("{} on {}: {} ranks in {} host(s), {} HBM a rank, {} samples a rank, {}\n",
                  problem.model.name.empty() ? flags.planning.model : problem.model.name,
                  request.dump            ? "its own hardware"
                  : topology.name.empty() ? flags.planning.on
                                          : topology.name,
                  topology.world_size, topology.num_hosts(),
                  format_bytes(topology.devices.front().hbm), problem.batch_size,
                  request.dump ? "TorchRec " + request.dump->torchrec : problem.cost_model.name);
  const bool has_plan = result.outcome.plan.has_value();
  if (!has_plan) text += no_plan_text(run);
  text += fmt::format(
      "{}  {}{} proposals, {} plans, {:.3f} s\n",
      paint(to_string(result.outcome.status), has_plan ? Tone::kGood : Tone::kBad, flags.global),
      request.is_balanced ? fmt::format("{} moves and nodes, ", run.balanced.effort) : "",
      result.num_proposals, result.num_plans, run.seconds);
  for (const Warning& warning : result.outcome.warnings) {
    if (warning.code != "worse_than_reference") continue;
    text += paint(warning.message, Tone::kBad, flags.global) + "\n";
  }
  if (request.is_balanced && !result.enumeration.options.tables.empty()) {
    text += balance_text(request, run.balanced);
  } else if (has_plan) {
    text += fmt::format("rating {:.6g} ms{}\n", result.rating,
                        bound_text(result.outcome.certificate, "plan"));
    if (!result.enumeration.options.tables.empty()) {
      const embedding::PlanTimes& times = run.balanced.times;
      text += fmt::format("step {:.6g} ms, time {:.6g} ms\n{}", times.step, times.time,
                          step_model_text(request.balanced.bridge.step_model));
    }
  }
  if (!run.frontier.is_empty()) text += "\n" + frontier_text(run.frontier);
  if (!has_plan) return text;
  return text + "\n" + plan_text(result, topology, run.bill);
}

study::ShardingAnswer make_answer(const ShardFlags& flags, const ShardRequest& request,
                                  const ShardRun& run) {
  study::TakenOptions taken;
  if (request.dump) {
    taken = [&](const embedding::PlacedProposal& plan) {
      return taken_options(*request.dump, run.planning().enumeration.options, plan);
    };
  }
  study::ShardingAnswer answer = study::make_answer(request, run, taken);
  auto& recorded = answer.provenance->options;
  if (!flags.planning.optimizer.empty()) recorded["optimizer"] = flags.planning.optimizer;
  if (!request.dump) recorded["on"] = flags.planning.on;
  const bool has_tables = !run.planning().enumeration.options.tables.empty();
  if (request.is_balanced && has_tables && !request.rules.empty()) {
    recorded["rules"] = request.rules;
  }
  if (answer.explanation) {
    for (const std::string& remedy : run.remedies) {
      answer.explanation->lines.push_back("try " + remedy);
    }
  }
  return answer;
}

}  // namespace plimsoll::app
