#include "plimsoll/shard/expert_commands.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <utility>

#include "io/documents/report_json.h"
#include "plimsoll/core/digest.h"
#include "plimsoll/core/version.h"
#include "plimsoll/experts/eplb.h"
#include "plimsoll/experts/expert_search.h"
#include "plimsoll/io/experts_json.h"
#include "plimsoll/io/files.h"
#include "plimsoll/planning_run.h"
#include "plimsoll/text/certificate_text.h"
#include "plimsoll/text/text_layout.h"
#include "plimsoll/text/text_table.h"

namespace plimsoll::app {
namespace {

using experts::ExpertModel;
using experts::ExpertPlan;

constexpr double kTolerance = 1e-9;  // relative, of EPLB's load

Result<ExpertModel> read_model(const ExpertFlags& flags) {
  if (!flags.planning.on.empty()) {
    return fail(ErrorCode::kUsage, "--on", "experts have their ranks and hosts in the model",
                "leave the flag out, and set num_ranks and num_hosts there");
  }
  PLIMSOLL_ASSIGN(const std::string text, io::read_text_file(flags.planning.model));
  return io::read_experts(text, flags.planning.model);
}

std::string hash_of(const ExpertModel& model) { return input_hash(io::write_experts(model)); }

io::ExpertAnswer make_answer(const ExpertFlags& flags, const ExpertModel& model,
                             const std::string& search) {
  io::ExpertAnswer answer;
  Provenance provenance;
  provenance.version = kVersion;
  provenance.seed = flags.global.seed;
  provenance.options["search"] = search;
  put_limits(flags.effort, flags.tolerance, provenance);
  provenance.inputs["experts"] = hash_of(model);
  answer.provenance = std::move(provenance);
  answer.eplb_load = total_load(model, experts::rebalance_experts(model));
  answer.stated.plan.num_ranks = model.num_ranks;
  return answer;
}

std::optional<double> gap_of(const check::StatedExperts& stated) {
  return Certificate{*stated.objective, stated.lower_bound, {}}.gap();
}

void put_plan(const ExpertModel& model, ExpertPlan plan, io::ExpertAnswer& answer) {
  check::StatedExperts& stated = answer.stated;
  for (int layer = 0; layer < model.num_layers(); ++layer) {
    stated.slowest_loads.push_back(
        slowest_load(model, layer, plan.slots[static_cast<std::size_t>(layer)]));
    stated.lower_bounds.push_back(least_load(model, layer));
  }
  stated.objective = total_load(model, plan.slots);
  stated.lower_bound = total_bound(model);
  stated.gap = gap_of(stated);
  stated.plan = std::move(plan);
}

// ---------------------------------------------------------------- text

std::string load_text(double load) { return fmt::format("{:.6g}", load); }

std::string title_of(const ExpertFlags& flags, const ExpertModel& model) {
  const std::string name = model.name.empty() ? flags.planning.model : model.name;
  return fmt::format("{}: {} of {} experts on {} ({}), {} a rank", name,
                     counted(model.num_layers(), "layer", "layers"), model.num_experts(),
                     counted(model.num_ranks, "rank", "ranks"),
                     counted(model.num_hosts, "host", "hosts"),
                     counted(model.slots_a_rank(), "slot", "slots"));
}

std::string bound_row(const io::ExpertAnswer& answer) {
  const std::optional<double>& gap = answer.stated.gap;
  return screen_row(
      "lower bound",
      fmt::format("{:<12} no placement is below it{}", load_text(*answer.stated.lower_bound),
                  gap ? fmt::format("; this one is at most {} above the best", format_percent(*gap))
                      : std::string()));
}

std::string describe(const ExpertFlags& flags, const ExpertModel& model,
                     const io::ExpertAnswer& answer, double seconds) {
  std::string text = paint(wrapped(shown(title_of(flags, model)), text_columns(), 2),
                           Tone::kHeading, flags.global);
  text += "\n\n";
  double mean = 0;
  for (const std::vector<double>& loads : model.loads) {
    for (const double load : loads) mean += load / model.num_ranks;
  }
  const double eplb = *answer.eplb_load, ours = *answer.stated.objective;
  text += screen_row("slowest ranks",
                     fmt::format("{:<12} EPLB: {} ({} more)", load_text(ours), load_text(eplb),
                                 format_percent(ours > 0 ? eplb / ours - 1 : 0)));
  text += bound_row(answer);
  text += screen_row("mean", fmt::format("{:<12} of all ranks", load_text(mean)));
  text += screen_row("found in", fmt::format("{:.2f} s", seconds));
  if (flags.global.verbosity == 0) return text;
  TextTable table({"layer", "slowest rank", "lower bound"}, {true, true, true});
  for (std::size_t layer = 0; layer < answer.stated.slowest_loads.size(); ++layer) {
    table.add({fmt::format("{}", layer), load_text(answer.stated.slowest_loads[layer]),
               load_text(answer.stated.lower_bounds[layer])});
  }
  return text + "\n" + table.text(2);
}

std::string describe(const ExpertFlags& flags, const ExpertModel& model,
                     const io::ExpertAnswer& answer, const experts::ExpertReplan& replan) {
  std::string text = paint(wrapped(shown(title_of(flags, model)), text_columns(), 2),
                           Tone::kHeading, flags.global);
  text += "\n\n";
  const std::int64_t all = std::int64_t{model.num_slots} * model.num_layers();
  if (!answer.has_plan()) {
    return text +
           screen_row("no plan", "no plan was found that copies so little: raise --max-moved");
  }
  std::string beside;
  if (replan.before_load) {
    beside = fmt::format("old placement {}, ", load_text(*replan.before_load));
  }
  text += screen_row("slowest ranks",
                     fmt::format("{:<12} {}placed afresh {}", load_text(*answer.stated.objective),
                                 beside, load_text(replan.fresh_load)));
  text += bound_row(answer);
  return text + screen_row("moved", fmt::format("{:<12} {} of {}; placed from scratch {}",
                                                counted(replan.moved, "replica", "replicas"),
                                                format_percent(static_cast<double>(replan.moved) /
                                                               static_cast<double>(all)),
                                                all, replan.fresh_moved));
}

// ---------------------------------------------------------------- commands

// Replicas, or a share of all slots; a tenth where it is not given.
Result<std::int64_t> read_limit(const std::string& text, std::int64_t all) {
  if (text.empty()) return all / 10;
  if (text.back() == '%') {
    PLIMSOLL_ASSIGN(
        const double percent,
        parse_number<double>(std::string_view(text).substr(0, text.size() - 1), "--max-moved"));
    if (!(percent >= 0 && percent <= 100)) {
      return fail(ErrorCode::kUsage, "--max-moved", "a share is from 0% to 100%",
                  "give a share such as 10%, or a number of replicas");
    }
    return static_cast<std::int64_t>(std::floor(percent / 100 * static_cast<double>(all)));
  }
  auto number = parse_number<std::int64_t>(text, "--max-moved");
  if (!number || *number < 0) {
    return fail(ErrorCode::kUsage, "--max-moved",
                fmt::format("'{}' is not a number of replicas", text),
                "give a number from 0 on, or a share of all slots, such as 10%");
  }
  return *number;
}

Result<Answered> shard(const ExpertFlags& flags) {
  PLIMSOLL_ASSIGN(const SearchOptions limits,
                  make_search_options(flags.global, flags.effort, flags.tolerance));
  PLIMSOLL_ASSIGN(const ExpertModel model, read_model(flags));
  const std::string search = flags.search.empty() ? "balanced" : flags.search;
  io::ExpertAnswer answer = make_answer(flags, model, search);
  const auto begin = std::chrono::steady_clock::now();
  if (search == "eplb") {
    put_plan(model, {experts::rebalance_experts(model), model.num_ranks}, answer);
    const std::optional<double>& gap = answer.stated.gap;
    answer.stated.status =
        gap && *gap <= limits.tolerance ? SolveStatus::kOptimal : SolveStatus::kFeasible;
  } else if (search == "balanced") {
    PLIMSOLL_ASSIGN(const RunContext context, watch_search(flags.time_limit, flags.global));
    PLIMSOLL_ASSIGN(Outcome<ExpertPlan> outcome, place_experts(model, limits, context));
    put_plan(model, *std::move(outcome.plan), answer);
    answer.stated.status = outcome.status;
    answer.stop = outcome.stop;
  } else {
    return fail(ErrorCode::kNotFound, "--search", "experts are placed by balanced or eplb",
                "give --search eplb for EPLB's own placement");
  }
  const double seconds =
      std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
  return Answered{io::write_expert_plan(answer),
                  describe(flags, model, answer, seconds),
                  "",
                  answer.stated.status,
                  answer.stop,
                  {},
                  {}};
}

Result<Answered> replan(const ExpertFlags& flags) {
  PLIMSOLL_ASSIGN(const SearchOptions limits,
                  make_search_options(flags.global, flags.effort, flags.tolerance));
  if (flags.has_price) {
    return fail(ErrorCode::kUsage, "--price-of-move", "replicas of experts are counted, not bytes",
                "give --max-moved");
  }
  PLIMSOLL_ASSIGN(const ExpertModel model, read_model(flags));
  PLIMSOLL_ASSIGN(const std::string text, io::read_text_file(flags.plan));
  PLIMSOLL_ASSIGN(io::ExpertAnswer old, io::read_expert_plan(text, flags.plan));
  PLIMSOLL_ASSIGN(const std::int64_t most,
                  read_limit(flags.max_moved, std::int64_t{model.num_slots} * model.num_layers()));
  PLIMSOLL_ASSIGN(const RunContext context, watch_search(flags.time_limit, flags.global));
  auto found = replan_experts(model, old.stated.plan, most, limits, context);
  if (!found) {
    if (found.error().place == "before") found.error().place = flags.plan;
    return tl::unexpected<Error>(std::move(found).error());
  }
  io::ExpertAnswer answer = make_answer(flags, model, "balanced");
  answer.stated.status = found->outcome.status;
  answer.stop = found->outcome.stop;
  answer.stated.before_load = found->before_load;
  answer.fresh_load = found->fresh_load;
  answer.fresh_moved = found->fresh_moved;
  answer.stated.max_moved = most;
  answer.stated.before = old.stated.plan;
  if (found->outcome.plan) {
    put_plan(model, *found->outcome.plan, answer);
    answer.stated.moved = found->moved;
  }
  return Answered{io::write_expert_plan(answer),
                  describe(flags, model, answer, *found),
                  "",
                  answer.stated.status,
                  answer.stop,
                  {},
                  {}};
}

Result<check::ExpertReport> judge(const ExpertFlags& flags) {
  PLIMSOLL_ASSIGN(const ExpertModel model, read_model(flags));
  PLIMSOLL_ASSIGN(const std::string text, io::read_text_file(flags.plan));
  PLIMSOLL_ASSIGN(const io::ExpertAnswer answer, io::read_expert_plan(text, flags.plan));
  if (!answer.has_plan()) {
    return fail(ErrorCode::kValue, flags.plan, "the answer holds no plan",
                "plan again, with more copies");
  }
  check::ExpertReport report = check_experts(model, answer.stated, flags.tolerance);
  if (answer.eplb_load) {
    const double eplb = total_load(model, experts::rebalance_experts(model));
    if (!(std::abs(*answer.eplb_load - eplb) <= kTolerance * eplb)) {
      report.violate(check::FindingCode::kLoadMismatch,
                     fmt::format("EPLB's placement is stated to carry {}, but carries {}",
                                 *answer.eplb_load, eplb));
    }
  }
  if (answer.provenance) {
    const auto hash = answer.provenance->inputs.find("experts");
    if (hash != answer.provenance->inputs.end() && hash->second != hash_of(model)) {
      report.violate(check::FindingCode::kInputsMismatch,
                     "the plan was made from other experts than are given here");
    }
  }
  refute(report);
  return report;
}

}  // namespace

bool is_of_experts(const PlanningFlags& flags) {
  if (flags.model == "-" || !is_file_name(flags.model)) return false;
  const auto text = io::read_text_file(flags.model);
  return text && io::is_experts(*text);
}

int run_expert_shard(const ExpertFlags& flags) {
  return run_planning(flags.global, flags.output, [&] { return shard(flags); });
}

int run_expert_replan(const ExpertFlags& flags) {
  return run_planning(flags.global, flags.output, [&] { return replan(flags); });
}

int run_expert_check(const ExpertFlags& flags) {
  const auto judged = judge(flags);
  if (!judged) return report(judged.error(), flags.global);
  if (flags.global.json) {
    print(io::write_expert_report(*judged));
  } else {
    std::string text = verdict(*judged, false, flags.global) +
                       fmt::format(", slowest ranks carry {:.6g}\n", judged->objective);
    if (judged->certificate.status == check::CertificateStatus::kProved) {
      text += fmt::format("bound proved: {}\n", judged->certificate.reason);
    }
    print(text + findings_text(*judged, flags.global));
  }
  return judged->is_right() ? kExitOk : kExitViolations;
}

}  // namespace plimsoll::app
