// Balancing one set of options: bridge, search, the rating's cap, the certificate.

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <limits>
#include <set>
#include <utility>

#include "balance/balanced_placement.h"
#include "balance/bounds/bound_placement.h"
#include "balance/verify/verify_bound.h"
#include "core/clock_share.h"
#include "core/effort_clock.h"
#include "core/rounding.h"
#include "embedding/problem/option_hazards.h"
#include "embedding/problem/plan_faults.h"
#include "plimsoll/core/numbers.h"
#include "plimsoll/embedding/balanced_search.h"

namespace plimsoll::embedding {
namespace {

constexpr double kRatingSlack = 1e-9;  // relative; a cap counts in whole units
// For a plan of least rating or step, from which the search for another objective starts.
constexpr std::int64_t kLateEffort = 200000;
constexpr std::chrono::milliseconds kLateness(100);
// To make so many options a problem takes that long once more, which only such a limit leaves.
constexpr std::size_t kManyOptions = 50000;
constexpr double kLimitOfMany = 1;          // s
constexpr int kStartShare = 10;             // one in so many of the effort
constexpr double kStartClockShare = .25;    // of the clock
constexpr std::size_t kMaxReductions = 32;  // searches for plans of fewer hazards
constexpr int kMaxWays = 8;                 // of a collection that are searched

// The weights under which all tables need more than all ranks have, of the first kind of ranks.
std::string weights_text(const balance::PlacementProblem& problem,
                         const balance::PlacementBound& bound) {
  std::string text;
  const auto num_resources = static_cast<std::ptrdiff_t>(problem.resources.size());
  for (const balance::BoundCase& part : bound.cases) {
    const std::vector<std::int64_t>& weight = part.prices.weight;
    if (std::ssize(weight) < num_resources) continue;
    const double largest =
        static_cast<double>(*std::max_element(weight.begin(), weight.begin() + num_resources));
    if (!(largest > 0)) continue;
    for (std::size_t r = 0; r < problem.resources.size(); ++r) {
      if (weight[r] == 0) continue;
      text += fmt::format("{}{} {:.6g}", text.empty() ? "" : ", ", problem.resources[r].name,
                          static_cast<double>(weight[r]) / largest);
    }
    break;
  }
  return text;
}

class OptionSearch {
 public:
  OptionSearch(const BridgeInput& input, const BalancedOptions& options,
               const std::vector<PlacedProposal>& starts, const SearchOptions& search,
               const RunContext& context)
      : input_(input),
        options_(options),
        settings_(options.bridge),
        search_(search),
        context_(context),
        starts_(starts) {}

  Result<OptionSearchResult> run() {
    PLIMSOLL_RETURN_IF_ERROR(search_all());
    if (!has_plan()) prefer_starts();
    if (!has_plan() && options_.may_keep_hazards && bridge_.leaves_hazards_out &&
        stop_ == StopReason::kFinished) {
      PLIMSOLL_RETURN_IF_ERROR(search_all_options());
    }
    if (result_.outcome.status == SolveStatus::kLimit && stop_ != StopReason::kFinished) {
      PLIMSOLL_RETURN_IF_ERROR(construct_late());
    }
    result_.keeps_hazards = settings_.keeps_hazards;
    prefer_starts();
    PLIMSOLL_RETURN_IF_ERROR(certify());
    finish();
    warn_of_rating();
    return std::move(result_);
  }

 private:
  const Model& model() const {
    static const Model kNone;
    return input_.model != nullptr ? *input_.model : kNone;
  }

  const OptionHazards& hazards() const {
    if (!hazards_) {
      const OptionSet& set = *input_.options;
      hazards_ =
          find_option_hazards(set, *input_.room, model(),
                              options_.bridge.strict_numerics ? find_numeric_options(set, model())
                                                              : std::vector<bool>());
    }
    return *hazards_;
  }

  Result<void> search_all() {
    if (options_.near == nullptr || !is_allowed_start(0)) PLIMSOLL_RETURN_IF_ERROR(make_starts());
    PLIMSOLL_RETURN_IF_ERROR(search_once(settings_));
    if (settings_.rating_cap) PLIMSOLL_RETURN_IF_ERROR(keep_rating());
    return {};
  }

  Result<void> make_starts() {
    if (settings_.objective != BalanceObjective::kRating) {
      PLIMSOLL_RETURN_IF_ERROR(start_from_least(BalanceObjective::kRating));
    }
    // The step knows no charges, and of few tables sets of sharding types are many.
    if (settings_.objective == BalanceObjective::kTime &&
        input_.options->tables.size() <= balance::kMaxDiveUnits) {
      PLIMSOLL_RETURN_IF_ERROR(start_from_least(BalanceObjective::kStep));
    }
    return {};
  }

  Result<void> search_once(const BridgeOptions& settings) {
    return search_once(settings, search_, context_);
  }

  // Collections take the first of their ways to few hazards, and then, in turn, each of the others,
  // which share as much effort as the first had.
  Result<void> search_once(BridgeOptions settings, const SearchOptions& search,
                           const RunContext& clock) {
    if (is_out_of_time()) {
      take_start(settings);
      return {};
    }
    result_.outcome = empty_outcome();
    PLIMSOLL_RETURN_IF_ERROR(search_bridge(settings, search, clock));
    const std::vector<int> num_ways = bridge_.num_ways;
    settings.ways.assign(num_ways.size(), 0);
    for (std::size_t i = 0; i < num_ways.size(); ++i) {
      const int last = std::min(num_ways[i], kMaxWays) - 1;
      SearchOptions share = search;
      if (last > 1) {
        const std::int64_t all = search.effort < 0 ? balance::kDefaultBalanceEffort : search.effort;
        share.effort = all / last;
      }
      for (int way = 1; way <= last; ++way) {
        if (is_out_of_time()) {
          note_unbegun();
          return {};
        }
        BridgeOptions other = settings;
        other.ways[i] = way;
        PLIMSOLL_ASSIGN(const bool is_better, search_way(other, share, clock));
        if (is_better) settings = std::move(other);
      }
    }
    return {};
  }

  // Keeps what it finds where that is better.
  Result<bool> search_way(const BridgeOptions& settings, const SearchOptions& search,
                          const RunContext& clock) {
    const Outcome<PlacedProposal> best = result_.outcome;
    PLIMSOLL_RETURN_IF_ERROR(search_bridge(settings, search, clock));
    const Outcome<PlacedProposal>& found = result_.outcome;
    if (!best.plan || (found.plan && found.certificate.objective < best.certificate.objective)) {
      return true;
    }
    std::vector<Warning> warnings = std::move(result_.outcome.warnings);
    result_.outcome = best;
    result_.outcome.warnings = std::move(warnings);
    return false;
  }

  // What is left when a search begins again.
  Outcome<PlacedProposal> empty_outcome() {
    Outcome<PlacedProposal> outcome;
    outcome.warnings = std::move(result_.outcome.warnings);
    return outcome;
  }

  // Can the bridge's problem have no plan below the best one's objective?
  bool is_hopeless() const {
    if (!has_plan()) return false;
    // No clock: a replay does the same.
    const double value =
        balance::bound_placement(bridge_.problem, balance::cheap_bounds(), RunContext{}).value;
    return value * (1 - kRounding) >= result_.outcome.certificate.objective;
  }

  // The outcome is left as it is where the problem is hopeless.
  Result<void> search_bridge(const BridgeOptions& settings, const SearchOptions& search,
                             const RunContext& clock) {
    is_bridged_ = true;
    Result<PlacementBridge> bridge = make_placement_bridge(input_, settings);
    if (!bridge && may_have_plans(settings, bridge.error())) {
      see_no_plan();
      return {};
    }
    PLIMSOLL_ASSIGN(bridge_, std::move(bridge));
    for (const Warning& warning : bridge_.warnings) warn(warning);
    if (is_hopeless()) return {};
    balance::BalanceOptions balance;
    for (const PlacedProposal& plan : starts_) {
      auto placements = find_placements(bridge_, *input_.options, plan);
      has_lost_start_ |= !placements;
      if (placements) balance.starts.push_back(*std::move(placements));
    }
    balance.stop_at = next_stop();
    balance.explains = false;
    RunContext context = clock;
    if (context.progress) {  // effort goes on counting where the last search ended
      context.progress = [&](const Progress& progress) {
        Progress all = progress;
        all.effort += result_.effort;
        if (settings.objective != settings_.objective) {
          all.incumbent = all.lower_bound = std::nullopt;
        }
        context_.progress(all);
      };
    }
    balance::BalanceOutcome found = balance::balance(bridge_.problem, balance, search, context);
    result_.effort += found.effort;
    bound_ = std::move(found.bound);
    Outcome<PlacedProposal>& outcome = result_.outcome;
    outcome = empty_outcome();
    outcome.status = found.outcome.status;
    outcome.certificate = found.outcome.certificate;
    // By the clock, a cancel, or where they came in an earlier run.
    const bool is_cut = found.outcome.stop != StopReason::kFinished;
    if (stop_ == StopReason::kFinished) stop_ = found.outcome.stop;
    result_.stops.push_back(is_cut ? found.effort : -1);
    if (found.outcome.plan) {
      outcome.plan = to_proposal(bridge_, *input_.options, *found.outcome.plan);
    }
    return {};
  }

  // Rules leave no plan among those that the search sees. Are there others, with hazards, or where
  // tables of one unit stand otherwise?
  bool may_have_plans(BridgeOptions settings, const Error& error) const {
    if (error.code != ErrorCode::kConflict) return false;
    if (!settings.keeps_hazards || !settings.left_out.empty()) {
      settings.keeps_hazards = true;
      settings.left_out.clear();
    }
    return make_bounded_bridge(input_, settings).has_value();
  }

  void see_no_plan() {
    bridge_ = {};
    bridge_.is_tighter = true;
    bridge_.leaves_hazards_out = !settings_.keeps_hazards;
    bound_ = {};
    result_.outcome = empty_outcome();
    result_.outcome.status = SolveStatus::kLimit;
  }

  // No time is left to begin with: the best start, and nothing proved.
  void take_start(const BridgeOptions& settings) {
    note_unbegun();
    is_bridged_ = false;
    bound_ = {};
    Outcome<PlacedProposal>& outcome = result_.outcome;
    outcome = empty_outcome();
    const auto value = [&](const PlacedProposal& plan) {
      return value_of(times_of(plan), settings.objective);
    };
    for (const PlacedProposal& plan : allowed_starts()) {
      if (settings.rating_cap && !keeps_cap(plan)) continue;
      if (!has_plan() || value(plan) < value(*outcome.plan)) outcome.plan = plan;
    }
    outcome.status = has_plan() ? SolveStatus::kFeasible : SolveStatus::kLimit;
  }

  // A plan a little late is better than none: what constructions for the rating, the simplest
  // objective, find at once.
  Result<void> construct_late() {
    const bool is_too_late = input_.options->options.size() > kManyOptions &&
                             context_.time_limit_s.value_or(kLimitOfMany) < kLimitOfMany;
    if (is_too_late || next_stop() == 0) {  // also where a replayed search did not begin this
      result_.stops.push_back(0);
      return {};
    }
    const BridgeOptions settings = least(BalanceObjective::kRating);
    Result<PlacementBridge> made = make_placement_bridge(input_, settings);
    if (!made && may_have_plans(settings, made.error())) return {};
    PLIMSOLL_ASSIGN(const PlacementBridge bridge, std::move(made));
    balance::BalanceOptions balance;
    balance.uses_patterns = balance.uses_dives = false;
    balance.uses_annealing = balance.uses_exchanges = false;
    SearchOptions search = search_;
    search.effort = kLateEffort;
    balance.stop_at = next_stop();
    RunContext context;
    context.cancel = context_.cancel;
    if (!is_replayed()) context.deadline = std::chrono::steady_clock::now() + kLateness;
    const balance::BalanceOutcome found =
        balance::balance(bridge.problem, balance, search, context);
    result_.effort += found.effort;
    result_.stops.push_back(found.outcome.stop != StopReason::kFinished ? found.effort : -1);
    if (!found.outcome.plan) return {};
    result_.outcome.plan = to_proposal(bridge, *input_.options, *found.outcome.plan);
    result_.outcome.status = SolveStatus::kFeasible;
    return {};
  }

  bool is_out_of_time() const { return next_stop() == 0 || plimsoll::is_stopped(context_); }

  void note_unbegun() {
    result_.stops.push_back(0);
    if (stop_ != StopReason::kFinished) return;
    stop_ = context_.is_cancelled()       ? StopReason::kCancelled
            : context_.is_past_deadline() ? StopReason::kDeadline
                                          : StopReason::kEffort;
  }

  // Is it known where the next search stops, whatever the clock says?
  bool is_replayed() const { return result_.stops.size() < options_.stops.size(); }

  // Effort at which the next search stops.
  std::int64_t next_stop() const {
    return is_replayed() ? options_.stops[result_.stops.size()] : -1;
  }

  void warn(const Warning& warning) {
    std::vector<Warning>& warnings = result_.outcome.warnings;
    if (std::find(warnings.begin(), warnings.end(), warning) == warnings.end()) {
      warnings.push_back(warning);
    }
  }

  bool has_plan() const { return result_.outcome.plan.has_value(); }

  PlanTimes times_of(const PlacedProposal& plan) const {
    return plan_times(input_, settings_.step_model, plan);
  }

  bool keeps_cap(const PlacedProposal& plan) const {
    return times_of(plan).rating <= *settings_.rating_cap * (1 + kRatingSlack);
  }

  // The cap that the caller wants, though it may be dropped by now.
  bool keeps_wanted_cap(const PlanTimes& times) const {
    const std::optional<double>& cap = options_.bridge.rating_cap;
    return !cap || times.rating <= *cap * (1 + kRatingSlack);
  }

  void warn_of_rating() {
    if (!has_plan() || !options_.bridge.rating_cap) return;
    if (keeps_wanted_cap(times_of(*result_.outcome.plan))) return;
    warn({"rating_cap_dropped", "",
          fmt::format("the slowest rank takes longer than in TorchRec's plan ({:.6g} ms): no plan "
                      "was found that is as fast, has as few hazards as this one and keeps all "
                      "rules",
                      *options_.bridge.rating_cap)});
  }

  // One barrier is easier than several, and a plan of small rating is seldom bad in time; under a
  // cap near the least rating there is, it may be the only plan that leaves room to move.
  // With a tenth of the effort; for the rating with half of it where the reference has no plan:
  // then memory is scarce, and what searches there (replicas) knows one barrier alone.
  Result<void> start_from_least(BalanceObjective objective) {
    constexpr std::int64_t kMost = balance::kDefaultBalanceEffort;
    constexpr int kLargeShare = 2;
    const bool is_scarce = objective == BalanceObjective::kRating && allowed_starts().empty();
    SearchOptions search = search_;
    search.effort = (search.effort < 0 ? kMost : std::min(search.effort, kMost)) /
                    (is_scarce ? kLargeShare : kStartShare);
    PLIMSOLL_RETURN_IF_ERROR(
        search_once(least(objective), search, share_clock(context_, kStartClockShare)));
    if (has_plan()) starts_.push_back(*result_.outcome.plan);
    return {};
  }

  Result<void> keep_rating() {
    if (!is_bridged_) return {};
    result_.rating_cap = settings_.rating_cap;
    if (!has_plan()) prefer_starts();
    if (has_plan()) return {};
    if (result_.outcome.status != SolveStatus::kInfeasible) {
      PLIMSOLL_RETURN_IF_ERROR(search_once(least(BalanceObjective::kRating)));
      if (has_plan() && keeps_cap(*result_.outcome.plan)) {
        starts_.push_back(*result_.outcome.plan);
        return search_once(settings_);
      }
    }
    settings_.rating_cap.reset();
    result_.rating_cap.reset();
    return search_once(settings_);
  }

  BridgeOptions least(BalanceObjective objective) const {
    BridgeOptions settings = settings_;
    settings.objective = objective;
    settings.rating_cap.reset();
    return settings;
  }

  std::vector<TableHazard> hazards_of(const PlacedProposal& plan) const {
    return find_plan_hazards(*input_.options, *input_.room, model(), plan.options);
  }

  // What plans are compared by first.
  std::int64_t num_hazards(const PlacedProposal& plan) const {
    return options_.bridge.keeps_hazards ? 0 : std::ssize(hazards_of(plan));
  }

  // What plans are compared by.
  struct Judged {
    std::int64_t num_hazards = 0;
    PlanTimes times;
    bool is_legal = true;  // fits and keeps the rules
  };

  Judged judge(const PlacedProposal& plan) const { return {num_hazards(plan), times_of(plan)}; }

  const Judged& judge_start(std::size_t s) {
    while (judged_starts_.size() <= s) {
      const PlacedProposal& plan = starts_[judged_starts_.size()];
      judged_starts_.push_back(judge(plan));
      judged_starts_.back().is_legal = !find_plan_fault(input_, settings_, plan);
    }
    return judged_starts_[s];
  }

  // Of the fewest hazards, unless all options are searched.
  bool is_allowed_start(std::size_t s) {
    const Judged& start = judge_start(s);
    return start.is_legal && (settings_.keeps_hazards || start.num_hazards <= hazards().least());
  }

  std::vector<PlacedProposal> allowed_starts() {
    std::vector<PlacedProposal> plans;
    for (std::size_t s = 0; s < starts_.size(); ++s) {
      if (is_allowed_start(s)) plans.push_back(starts_[s]);
    }
    return plans;
  }

  // Fewer hazards; then a rating that is to be kept, then the lesser objective.
  bool is_better(const Judged& a, const Judged& b) const {
    if (a.num_hazards != b.num_hazards) return a.num_hazards < b.num_hazards;
    const bool keeps_a = keeps_wanted_cap(a.times), keeps_b = keeps_wanted_cap(b.times);
    if (keeps_a != keeps_b) return keeps_a;
    return value_of(a.times, settings_.objective) < value_of(b.times, settings_.objective);
  }

  // No plan of the fewest hazards is found. Of all options first any plan, then, as long as plans
  // are found, the fewest tables that hold more hazards than they must.
  Result<void> search_all_options() {
    PLIMSOLL_ASSIGN(const bool is_unfit, is_proved_unfit());
    settings_ = options_.bridge;
    settings_.keeps_hazards = true;
    settings_.rating_cap.reset();
    PLIMSOLL_RETURN_IF_ERROR(search_all());
    prefer_starts();
    std::erase_if(result_.outcome.warnings,
                  [](const Warning& w) { return w.code == "hazard_unavoidable"; });
    if (!has_plan()) return {};
    PLIMSOLL_RETURN_IF_ERROR(reduce_hazards());
    if (num_hazards(*result_.outcome.plan) == hazards().least()) {  // such plans fit after all
      starts_.push_back(*result_.outcome.plan);
      settings_ = options_.bridge;
      PLIMSOLL_RETURN_IF_ERROR(search_all());
      return prefer_starts(), Result<void>();
    }
    PLIMSOLL_RETURN_IF_ERROR(refine_reduced());
    are_fewest_proved_ = is_unfit && num_hazards(*result_.outcome.plan) == hazards().least() + 1;
    warn_of_hazards(is_unfit);
    return {};
  }

  // Is it proved that no plan of the fewest hazards fits?
  Result<bool> is_proved_unfit() {
    if (result_.outcome.status == SolveStatus::kInfeasible && !bridge_.is_tighter) return true;
    BridgeOptions settings = settings_;
    settings.rating_cap.reset();
    const Result<PlacementBridge> bridge = make_bounded_bridge(input_, settings);
    if (!bridge && bridge.error().code == ErrorCode::kConflict) return true;  // rules leave none
    if (!bridge) return tl::unexpected<Error>(bridge.error());
    if (bridge->is_tighter) return false;
    return balance::bound_placement(bridge->problem, balance::cheap_bounds(), RunContext{})
        .is_infeasible();
  }

  std::vector<std::int64_t> hazards_by_group(const PlacedProposal& plan) const {
    std::vector<std::int64_t> counts(hazards().least_of_group.size());
    for (const TableHazard& hazard : hazards_of(plan)) {
      ++counts[static_cast<std::size_t>(
          hazards().group_of_table[static_cast<std::size_t>(hazard.table)])];
    }
    return counts;
  }

  // Holds to their fewest hazards the groups where the plan has no more, and one other, unless that
  // is -1; the rest to no option of more hazards than the plan has there. A collection of several
  // ways goes the plan's.
  std::vector<bool> leave_out(const PlacedProposal& plan, std::int32_t other) const {
    const std::vector<std::int64_t> counts = hazards_by_group(plan);
    const auto is_held = [&](std::int32_t group) {
      const auto g = static_cast<std::size_t>(group);
      return group == other || counts[g] <= hazards().least_of_group[g];
    };
    std::vector<bool> left_out(input_.options->options.size());
    for (const Option& option : input_.options->options) {
      const auto o = static_cast<std::size_t>(&option - input_.options->options.data());
      const std::int32_t group = hazards().group_of_table[static_cast<std::size_t>(option.table)];
      left_out[o] = is_held(group)
                        ? hazards().is_left_out[o]
                        : hazards().num_hazards[o] > counts[static_cast<std::size_t>(group)];
    }
    for (const WayChoice& choice : hazards().way_choices) {
      if (!is_held(choice.group)) continue;
      for (const std::int32_t o : choice.left_out[choice.way_of(plan.options)]) {
        left_out[static_cast<std::size_t>(o)] = true;
      }
    }
    return left_out;
  }

  // Group by group, those of most avoidable hazards first.
  Result<void> reduce_hazards() {
    PlacedProposal best = *result_.outcome.plan;
    Judged judged = judge(best);
    SearchOptions search = search_;
    constexpr std::int64_t kMost = balance::kDefaultBalanceEffort;
    search.effort = (search.effort < 0 ? kMost : std::min(search.effort, kMost)) / kStartShare;
    std::set<std::int32_t> tried;
    while (tried.size() < kMaxReductions && !is_out_of_time()) {
      const std::vector<std::int64_t> counts = hazards_by_group(best);
      std::int32_t group = -1;
      std::int64_t most = 0;
      for (std::size_t g = 0; g < counts.size(); ++g) {
        const std::int64_t excess = counts[g] - hazards().least_of_group[g];
        if (excess <= most || tried.contains(static_cast<std::int32_t>(g))) continue;
        most = excess;
        group = static_cast<std::int32_t>(g);
      }
      if (group < 0) break;
      tried.insert(group);
      BridgeOptions settings = settings_;
      settings.left_out = leave_out(best, group);
      PLIMSOLL_RETURN_IF_ERROR(search_once(settings, search, context_));
      if (!has_plan()) continue;
      const Judged found = judge(*result_.outcome.plan);
      if (!is_better(found, judged)) continue;
      best = *result_.outcome.plan;
      judged = found;
    }
    result_.outcome.plan = std::move(best);
    result_.outcome.status = SolveStatus::kFeasible;
    return {};
  }

  // The best plan whose hazards are where the reduced plan has them; under the rating's cap, if one
  // is found.
  Result<void> refine_reduced() {
    const PlacedProposal reduced = *result_.outcome.plan;
    starts_.push_back(reduced);
    BridgeOptions settings = settings_;
    settings.left_out = leave_out(reduced, -1);
    for (const bool is_capped : {true, false}) {
      if (is_capped && !options_.bridge.rating_cap) continue;
      settings.rating_cap = is_capped ? options_.bridge.rating_cap : std::nullopt;
      PLIMSOLL_RETURN_IF_ERROR(search_once(settings));
      if (is_capped) result_.rating_cap = settings_.rating_cap = settings.rating_cap;
      prefer_starts();
      if (has_plan() && num_hazards(*result_.outcome.plan) <= num_hazards(reduced)) break;
      result_.rating_cap.reset();
      settings_.rating_cap.reset();
    }
    if (!has_plan() || is_better(judge(reduced), judge(*result_.outcome.plan))) {
      result_.outcome.plan = reduced;
    }
    result_.outcome.status = SolveStatus::kFeasible;
    return {};
  }

  void warn_of_hazards(bool is_unfit) {
    for (const TableHazard& hazard : hazards_of(*result_.outcome.plan)) {
      warn({"hazard_unavoidable",
            input_.options->tables[static_cast<std::size_t>(hazard.table)].fqn,
            fmt::format("{}: no plan with fewer hazards {}", hazard.name,
                        are_fewest_proved_ ? "fits"
                        : is_unfit         ? "was found, and none without avoidable ones fits"
                                           : "was found")});
    }
  }

  // The search need not see all plans: a start may be better.
  void prefer_starts() {
    Outcome<PlacedProposal>& outcome = result_.outcome;
    if (has_plan() && !bridge_.is_tighter && !has_lost_start_) return;
    std::optional<Judged> best;
    if (has_plan()) best = judge(*outcome.plan);
    for (std::size_t s = 0; s < starts_.size(); ++s) {
      if (!is_allowed_start(s)) continue;
      const Judged& start = judged_starts_[s];
      if (result_.rating_cap && !keeps_wanted_cap(start.times)) continue;
      if (best && !is_better(start, *best)) continue;
      best = start;
      outcome.plan = starts_[s];
      outcome.status = SolveStatus::kFeasible;
      outcome.explanation = {};
    }
  }

  // The search did not see all plans: the bound is of a problem that has them.
  Result<void> bound_all() {
    Outcome<PlacedProposal>& outcome = result_.outcome;
    outcome.certificate.lower_bound.reset();
    outcome.certificate.proof = {};
    outcome.explanation = {};
    if (outcome.status == SolveStatus::kInfeasible) outcome.status = SolveStatus::kLimit;
    if (!options_.certifies) return {};
    BridgeOptions settings = settings_;
    settings.rating_cap = result_.rating_cap;  // what the answer records
    Result<PlacementBridge> bridge = make_bounded_bridge(input_, settings);
    if (!bridge && bridge.error().code == ErrorCode::kConflict) {
      return {};  // of fewest hazards none
    }
    PLIMSOLL_ASSIGN(bridge_, std::move(bridge));
    if (bridge_.is_tighter) return {};
    balance::BoundOptions options =
        stop_ == StopReason::kFinished ? balance::BoundOptions{} : balance::cheap_bounds();
    options.tolerance = search_.tolerance;
    if (has_plan()) options.incumbent = value_of(times_of(*outcome.plan), settings_.objective);
    bound_ = balance::bound_placement(bridge_.problem, options, RunContext{});
    if (bound_.is_infeasible() && !has_plan()) {
      outcome.status = SolveStatus::kInfeasible;
    }
    return {};
  }

  // What stands in the certificate is what the checker of bounds accepts. A bound that can be
  // checked wins over a larger one that cannot, except for an exhausted search's.
  Result<void> certify() {
    if (bridge_.is_tighter && is_bridged_) PLIMSOLL_RETURN_IF_ERROR(bound_all());
    if (!options_.certifies || bridge_.is_tighter || !is_bridged_) return {};
    Outcome<PlacedProposal>& outcome = result_.outcome;
    if (outcome.status == SolveStatus::kInfeasible) {
      const std::string weights = weights_text(bridge_.problem, bound_);
      if (!weights.empty()) {
        outcome.explanation.lines.push_back("shown by these weights of a byte: " + weights);
      }
      result_.bound = std::move(bound_);
      return {};
    }
    balance::BoundVerdict verdict = balance::verify_bound(bridge_.problem, bound_);
    if (!verdict.holds) {
      // The checker's search of contents may end before ours: then what needs none may prove more.
      balance::PlacementBound plain =
          balance::bound_placement(bridge_.problem, balance::cheap_bounds(), RunContext{});
      balance::BoundVerdict of_plain = balance::verify_bound(bridge_.problem, plain);
      if (of_plain.value > verdict.value) {
        bound_ = std::move(plain);
        verdict = std::move(of_plain);
      }
    }
    const bool is_searched = outcome.certificate.proof.kind == ProofKind::kSearchToTheEnd;
    const bool is_free =  // of times that nothing weighs
        has_plan() && value_of(times_of(*outcome.plan), settings_.objective) == 0;
    if (!(verdict.value > 0) && !(is_free && verdict.value == 0)) {  // nothing is proved
      if (is_searched) return {};
      outcome.certificate.lower_bound.reset();
      outcome.certificate.proof = {};
      return {};
    }
    bound_.value = std::min(bound_.value, verdict.value);
    for (std::size_t i = 0; i < bound_.cases.size(); ++i) {
      bound_.cases[i].value = std::min(bound_.cases[i].value, verdict.case_values[i]);
    }
    const double value = bound_.value * (1 - kRounding);
    result_.bound = std::move(bound_);
    const double searched = outcome.certificate.lower_bound.value_or(0) * (1 - 2 * kRounding);
    if (is_searched && value <= searched) return {};
    outcome.certificate.lower_bound = value;
    Proof& proof = outcome.certificate.proof = ProofKind::kPrices;
    proof.count = static_cast<std::int64_t>(result_.bound->cases.size());
    proof.words = to_string(result_.bound->method);
    return {};
  }

  void finish() {
    Outcome<PlacedProposal>& outcome = result_.outcome;
    outcome.stop = stop_;
    if (!has_plan() || outcome.status == SolveStatus::kInfeasible) {
      outcome.plan.reset();
      outcome.certificate.objective = kNaN;
      return;
    }
    Certificate& certificate = outcome.certificate;
    certificate.objective = value_of(times_of(*outcome.plan), settings_.objective);
    const double bound = certificate.lower_bound.value_or(0);
    if (bound > certificate.objective * (1 + kRounding)) {
      // A start outside the listed options: what is proved of them does not hold for it.
      certificate.lower_bound.reset();
      certificate.proof = {};
      result_.bound.reset();
    } else if (certificate.lower_bound) {  // sums in plan order may differ in the last digit
      certificate.lower_bound = std::min(bound, certificate.objective);
    }
    const std::optional<double> gap = certificate.gap();
    const bool is_first_met =  // of the fewest hazards, or of any number where all are kept
        !settings_.keeps_hazards || options_.bridge.keeps_hazards || are_fewest_proved_;
    outcome.status = is_first_met && gap && *gap <= search_.tolerance ? SolveStatus::kOptimal
                                                                      : SolveStatus::kFeasible;
  }

  const BridgeInput& input_;
  const BalancedOptions& options_;
  BridgeOptions settings_;
  const SearchOptions& search_;
  const RunContext& context_;
  std::vector<PlacedProposal> starts_;
  std::vector<Judged> judged_starts_;             // of the first starts
  bool has_lost_start_ = false;                   // some bridge could not express one
  mutable std::optional<OptionHazards> hazards_;  // once they are asked for
  bool are_fewest_proved_ = false;                // of a plan with more hazards than the least
  bool is_bridged_ = false;                       // had the last search time to begin?
  PlacementBridge bridge_;                        // of the last search
  balance::PlacementBound bound_;
  StopReason stop_ = StopReason::kFinished;
  OptionSearchResult result_;
};

}  // namespace

Result<OptionSearchResult> balance_options(const BridgeInput& input, const BalancedOptions& options,
                                           const std::vector<PlacedProposal>& starts,
                                           const SearchOptions& search, const RunContext& context) {
  return OptionSearch(input, options, starts, search, context).run();
}

}  // namespace plimsoll::embedding
