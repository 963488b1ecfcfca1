// Balancing one set of options: bridge, search, the rating's cap, the certificate.

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <utility>

#include "embedding/option_hazards.h"
#include "plimsoll/embedding/balanced_search.h"
#include "plimsoll/solve/balanced_placement.h"
#include "plimsoll/solve/verify_bound.h"

namespace plimsoll::embedding {
namespace {

constexpr double kNaN = std::numeric_limits<double>::quiet_NaN();
constexpr double kRatingSlack = 1e-9;  // relative; a cap counts in whole units
constexpr double kBoundSlack = 1e-9;   // relative; what bound_placement promises

constexpr const char* kTiers[] = {"hbm", "ddr", "ssd"};

// Names tiers as people do.
void name_tiers(std::string& text) {
  for (int tier = 0; tier < solve::kNumTiers; ++tier) {
    const std::string number = fmt::format("tier {}", tier);
    const std::size_t at = text.find(number);
    if (at != std::string::npos) text.replace(at, number.size(), kTiers[tier]);
  }
}

// The weights under which all tables need more than all ranks have, of the first kind of ranks.
std::string weights_text(const solve::PlacementBound& bound) {
  std::string text;
  for (const solve::BoundCase& part : bound.cases) {
    const std::vector<std::int64_t>& weight = part.prices.weight;
    if (weight.size() < solve::kNumTiers) continue;
    const double largest =
        static_cast<double>(*std::max_element(weight.begin(), weight.begin() + solve::kNumTiers));
    if (!(largest > 0)) continue;
    for (int tier = 0; tier < solve::kNumTiers; ++tier) {
      if (weight[tier] == 0) continue;
      text += fmt::format("{}{} {:.6g}", text.empty() ? "" : ", ", kTiers[tier],
                          static_cast<double>(weight[tier]) / largest);
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
    PLIMSOLL_RETURN_IF_ERROR(search_once(settings_));
    if (settings_.rating_cap) PLIMSOLL_RETURN_IF_ERROR(keep_rating());
    prefer_starts();
    certify();
    finish();
    return std::move(result_);
  }

 private:
  Result<void> search_once(const BridgeOptions& settings) {
    PLIMSOLL_ASSIGN(bridge_, make_placement_bridge(input_, settings));
    for (const Warning& warning : bridge_.warnings) warn(warning);
    solve::BalanceOptions balance;
    for (const PlacedProposal& plan : starts_) {
      auto placements = find_placements(bridge_, *input_.options, plan);
      if (placements) balance.starts.push_back(*std::move(placements));
    }
    balance.stop_at = next_stop();
    RunContext context = context_;
    if (context.progress) {  // effort goes on counting where the last search ended
      context.progress = [this](const Progress& progress) {
        Progress all = progress;
        all.effort += result_.effort;
        context_.progress(all);
      };
    }
    solve::BalanceOutcome found = solve::balance(bridge_.problem, balance, search_, context);
    result_.effort += found.effort;
    bound_ = std::move(found.bound);
    Outcome<PlacedProposal>& outcome = result_.outcome;
    std::vector<Warning> warnings = std::move(outcome.warnings);
    outcome = {};
    outcome.warnings = std::move(warnings);
    outcome.status = found.outcome.status;
    outcome.certificate = found.outcome.certificate;
    outcome.explanation = found.outcome.explanation;
    name_tiers(outcome.explanation.binding);
    for (std::string& line : outcome.explanation.lines) name_tiers(line);
    const bool is_cut =
        found.outcome.stop == StopReason::kDeadline || found.outcome.stop == StopReason::kCancelled;
    if (stop_ == StopReason::kFinished) stop_ = found.outcome.stop;
    result_.stops.push_back(is_cut ? found.effort : -1);
    if (found.outcome.plan) {
      outcome.plan = to_proposal(bridge_, *input_.options, *found.outcome.plan);
    }
    return {};
  }

  // Effort at which the next search stops.
  std::int64_t next_stop() const {
    const std::size_t number = result_.stops.size();
    return number < options_.stops.size() ? options_.stops[number] : -1;
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

  Result<void> keep_rating() {
    if (bridge_.rating_tier < 0) return keep_rating_by_choice();
    result_.rating_cap = settings_.rating_cap;
    if (has_plan()) return {};
    if (result_.outcome.status != SolveStatus::kInfeasible) {
      PLIMSOLL_RETURN_IF_ERROR(search_once(least_rating()));
      if (has_plan() && keeps_cap(*result_.outcome.plan)) {
        starts_.push_back(*result_.outcome.plan);
        return search_once(settings_);
      }
    }
    warn({"rating_cap_dropped", "",
          fmt::format("no plan without hazards was found that rates at most {:.6g} ms, as the "
                      "reference's does",
                      *settings_.rating_cap)});
    settings_.rating_cap.reset();
    result_.rating_cap.reset();
    return search_once(settings_);
  }

  BridgeOptions least_rating() const {
    BridgeOptions settings = settings_;
    settings.objective = BalanceObjective::kRating;
    settings.rating_cap.reset();
    return settings;
  }

  Result<void> keep_rating_by_choice() {
    if (!has_plan() || keeps_cap(*result_.outcome.plan)) return {};
    Outcome<PlacedProposal> of_time = result_.outcome;
    const PlacementBridge bridge = bridge_;
    const solve::PlacementBound bound = bound_;
    PLIMSOLL_RETURN_IF_ERROR(search_once(least_rating()));
    std::vector<PlacedProposal> plans = allowed_starts();
    if (has_plan()) plans.push_back(*result_.outcome.plan);
    of_time.warnings = std::move(result_.outcome.warnings);
    result_.outcome = std::move(of_time);
    bridge_ = bridge;
    bound_ = bound;
    const PlacedProposal* best = nullptr;
    for (const PlacedProposal& plan : plans) {
      if (!keeps_cap(plan)) continue;
      if (best == nullptr || times_of(plan).time < times_of(*best).time) best = &plan;
    }
    if (best != nullptr) {
      result_.outcome.plan = *best;
      return {};
    }
    warn({"rating_cap_dropped", "", "no plan was found that rates as well as the reference's"});
    return {};
  }

  bool has_rules() const {
    return !settings_.allowed_ranks.empty() || !settings_.forbidden_ranks.empty() ||
           !settings_.together.empty() || !settings_.apart.empty() || settings_.max_hbm ||
           settings_.pools_ddr;
  }

  // Starts that hold no hazard, where there are no rules that they do not know.
  std::vector<PlacedProposal> allowed_starts() const {
    if (has_rules()) return {};
    std::vector<bool> is_hazardous(input_.options->options.size());
    if (!settings_.keeps_hazards) {
      is_hazardous = find_hazardous_options(*input_.options, *input_.room,
                                            input_.model != nullptr ? *input_.model : Model{});
    }
    std::vector<PlacedProposal> plans;
    for (const PlacedProposal& plan : starts_) {
      if (std::none_of(plan.options.begin(), plan.options.end(), [&](std::int32_t option) {
            return is_hazardous[static_cast<std::size_t>(option)];
          })) {
        plans.push_back(plan);
      }
    }
    return plans;
  }

  // Tables of a tower were held together, tighter than the rules do: the bound is not of all plans,
  // and a start may be better.
  void prefer_starts() {
    if (!bridge_.is_tighter) return;
    Outcome<PlacedProposal>& outcome = result_.outcome;
    outcome.certificate.lower_bound.reset();
    outcome.certificate.proof.clear();
    if (outcome.status == SolveStatus::kInfeasible) outcome.status = SolveStatus::kLimit;
    const auto value = [this](const PlacedProposal& plan) {
      return value_of(times_of(plan), settings_.objective);
    };
    for (const PlacedProposal& plan : allowed_starts()) {
      if (!has_plan() || value(plan) < value(*outcome.plan)) {
        outcome.plan = plan;
        outcome.status = SolveStatus::kFeasible;
      }
    }
  }

  // What stands in the certificate is what the judge of bounds accepts. A bound that can be checked
  // wins over a larger one that cannot, but for an exhausted search's.
  void certify() {
    if (!options_.certifies || bridge_.is_tighter) return;
    Outcome<PlacedProposal>& outcome = result_.outcome;
    if (outcome.status == SolveStatus::kInfeasible) {
      const std::string weights = weights_text(bound_);
      if (!weights.empty()) {
        outcome.explanation.lines.push_back("shown by these weights of a byte: " + weights);
      }
      result_.bound = std::move(bound_);
      return;
    }
    const solve::BoundVerdict verdict = solve::verify_bound(bridge_.problem, bound_);
    const bool is_searched = outcome.certificate.proof.starts_with(kSearchedToTheEnd);
    if (!(verdict.value > 0)) {  // prices that prove nothing are none
      if (is_searched) return;
      outcome.certificate.lower_bound.reset();
      outcome.certificate.proof.clear();
      return;
    }
    bound_.value = std::min(bound_.value, verdict.value);
    const double value = bound_.value * (1 - kBoundSlack);
    result_.bound = std::move(bound_);
    if (is_searched && value <= outcome.certificate.lower_bound.value_or(0)) return;
    outcome.certificate.lower_bound = value;
    outcome.certificate.proof = fmt::format("prices of {} case(s), {}", result_.bound->cases.size(),
                                            to_string(result_.bound->method));
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
    if (certificate.lower_bound) {  // sums in plan order may differ in the last digit
      certificate.lower_bound = std::min(*certificate.lower_bound, certificate.objective);
    }
    const std::optional<double> gap = certificate.gap();
    outcome.status =
        gap && *gap <= search_.tolerance ? SolveStatus::kOptimal : SolveStatus::kFeasible;
  }

  const BridgeInput& input_;
  const BalancedOptions& options_;
  BridgeOptions settings_;
  const SearchOptions& search_;
  const RunContext& context_;
  std::vector<PlacedProposal> starts_;
  PlacementBridge bridge_;  // of the last search
  solve::PlacementBound bound_;
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
