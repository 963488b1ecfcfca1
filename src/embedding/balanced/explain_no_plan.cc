#include "embedding/balanced/explain_no_plan.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <functional>
#include <utility>

#include "balance/bounds/explain_infeasible.h"
#include "core/effort_clock.h"
#include "math/least_cause.h"

namespace plimsoll::embedding {
namespace {

constexpr std::size_t kMaxAsked = 64;         // rules or constraints, one by one
constexpr std::size_t kMaxAskedWork = 20000;  // times tables
constexpr std::size_t kMaxWideTables = 64;    // whose every width is tried
constexpr int kMaxWideBlocks = 64;
constexpr std::int64_t kTrialEffort = 100000;  // of the search that says whether a plan fits
constexpr std::size_t kMaxNamedTables = 4;

const balance::PlacementWords& words() {
  static const balance::PlacementWords words{
      {"hbm", "ddr", "ssd"},
      "table",
      "tables",
      " (columns_share_rank: two column shards of kernel key_value may not be on one rank)"};
  return words;
}

std::string list_of(const std::vector<std::string>& names) {
  const std::size_t shown = names.size() > kMaxNamedTables ? kMaxNamedTables : names.size();
  std::string text = fmt::format("{}", fmt::join(names.begin(), names.begin() + shown, "; "));
  if (shown < names.size()) text += fmt::format("; and {} more", names.size() - shown);
  return text;
}

struct Rule {
  std::string name;
  std::function<void(BridgeOptions&)> drop;
};

// Each rule alone, or, where they are many, all of them.
std::vector<Rule> rules_of(const BridgeOptions& settings, std::size_t most) {
  std::vector<Rule> rules;
  for (const auto& [fqn, ranks] : settings.allowed_ranks) {
    rules.push_back({fmt::format("allowed_ranks of {}", fqn),
                     [fqn = fqn](BridgeOptions& from) { from.allowed_ranks.erase(fqn); }});
  }
  for (const auto& [fqn, ranks] : settings.forbidden_ranks) {
    rules.push_back({fmt::format("forbidden_ranks of {}", fqn),
                     [fqn = fqn](BridgeOptions& from) { from.forbidden_ranks.erase(fqn); }});
  }
  for (const std::vector<std::string>& fqns : settings.together) {
    rules.push_back({fmt::format("together {}", fmt::join(fqns, ", ")),
                     [fqns](BridgeOptions& from) { std::erase(from.together, fqns); }});
  }
  for (const std::vector<std::string>& fqns : settings.apart) {
    rules.push_back({fmt::format("apart {}", fmt::join(fqns, ", ")),
                     [fqns](BridgeOptions& from) { std::erase(from.apart, fqns); }});
  }
  if (rules.size() <= most) return rules;
  const auto drop_all = [](BridgeOptions& from) {
    from.allowed_ranks.clear();
    from.forbidden_ranks.clear();
    from.together.clear();
    from.apart.clear();
  };
  return {{fmt::format("all {}", rules.size()), drop_all}};
}

struct Constraint {
  std::string name;
  std::function<void(PlanningProblem&)> drop;
};

using Edit = void (*)(ParameterConstraints&);
struct Field {
  const char* name;
  bool (*is_set)(const ParameterConstraints&);
  Edit clear;
};
constexpr Field kFields[] = {
    {"sharding_types", [](const ParameterConstraints& c) { return !c.sharding_types.empty(); },
     [](ParameterConstraints& c) { c.sharding_types.clear(); }},
    {"compute_kernels", [](const ParameterConstraints& c) { return !c.compute_kernels.empty(); },
     [](ParameterConstraints& c) { c.compute_kernels.clear(); }},
    {"min_partition", [](const ParameterConstraints& c) { return c.min_partition.has_value(); },
     [](ParameterConstraints& c) { c.min_partition.reset(); }}};

// Each constraint alone, or, where they are many, all of a kind.
std::vector<Constraint> constraints_of(const PlanningProblem& problem, std::size_t most) {
  const std::array<const ConstraintMap*, 2> maps{&problem.model.constraints,
                                                 &problem.enumeration.fqn_constraints};
  const auto map_of = [](PlanningProblem& of, std::size_t i) -> ConstraintMap& {
    return i == 0 ? of.model.constraints : of.enumeration.fqn_constraints;
  };
  std::vector<Constraint> single;
  std::vector<Constraint> by_field;
  for (const Field& field : kFields) {
    std::size_t count = 0;
    for (std::size_t i = 0; i < maps.size(); ++i) {
      for (const auto& [key, constraints] : *maps[i]) {
        if (!field.is_set(constraints)) continue;
        ++count;
        single.push_back({fmt::format("{} of {}", field.name, key),
                          [map_of, i, key = key, clear = field.clear](PlanningProblem& of) {
                            clear(map_of(of, i).find(key)->second);
                          }});
      }
    }
    if (count == 0) continue;
    by_field.push_back({fmt::format("{} of {} tables", field.name, count),
                        [map_of, clear = field.clear](PlanningProblem& of) {
                          for (std::size_t i = 0; i < 2; ++i) {
                            for (auto& entry : map_of(of, i)) clear(entry.second);
                          }
                        }});
  }
  return single.size() > most ? by_field : single;
}

class Explainer {
 public:
  Explainer(const NoPlanQuestion& question, const RunContext& context, Explanation& explanation)
      : question_(question),
        context_(context),
        explanation_(explanation),
        settings_(question.options->bridge) {
    settings_.keeps_hazards = question.keeps_hazards;
    settings_.rating_cap.reset();  // it is dropped before no plan is said to fit
  }

  std::vector<NoPlanCause> run() {
    std::vector<std::string> rest = std::move(explanation_.lines);
    explanation_ = {};
    find_rules();
    if (!question_.is_given) find_constraints();
    find_hazards();
    find_numerics();
    if (!question_.is_given) find_widths();
    std::vector<std::string> lines;
    for (const NoPlanCause& cause : causes_) lines.push_back(cause.text);
    find_bytes();
    explanation_.lines.insert(explanation_.lines.begin(), lines.begin(), lines.end());
    explanation_.lines.insert(explanation_.lines.end(), rest.begin(), rest.end());
    return std::move(causes_);
  }

 private:
  bool is_stopped() const { return plimsoll::is_stopped(context_); }

  std::size_t max_asked() const {
    const std::size_t tables = std::max<std::size_t>(question_.input.options->tables.size(), 1);
    return std::clamp<std::size_t>(kMaxAskedWork / tables, 1, kMaxAsked);
  }

  // Does the proof fail?
  bool is_open(const BridgeInput& input, const BridgeOptions& settings) const {
    if (is_stopped()) return false;
    const Result<bool> is_empty = is_proved_empty(input, settings, context_);
    return is_empty && !*is_empty && !is_stopped();
  }

  bool finds_plan(const BridgeInput& input, const BridgeOptions& settings) const {
    BalancedOptions options = BalancedOptions::minimizing(settings.objective);
    options.bridge = settings;
    options.certifies = options.may_keep_hazards = false;
    SearchOptions search;
    search.effort = kTrialEffort;
    const auto found = balance_options(input, options, {}, search, context_.inner());
    return found && found->outcome.plan.has_value();
  }

  void add(NoPlanCauseKind kind, const std::string& what, const std::string& without,
           bool has_plan) {
    causes_.push_back({kind,
                       fmt::format("{}: {} {}", what, without,
                                   has_plan ? "a plan fits"
                                            : "this proof fails, and whether a plan fits is not "
                                              "known"),
                       has_plan});
  }

  void find_rules() {
    const std::vector<Rule> rules = rules_of(settings_, max_asked());
    const auto without = [&](const std::vector<bool>& goes) {
      BridgeOptions settings = settings_;
      for (std::size_t i = 0; i < rules.size(); ++i) {
        if (goes[i]) rules[i].drop(settings);
      }
      return settings;
    };
    const std::vector<std::size_t> cause = math::find_least_cause(
        rules.size(),
        [&](const std::vector<bool>& goes) { return is_open(question_.input, without(goes)); });
    if (cause.empty()) return;
    std::vector<bool> goes(rules.size(), false);
    std::vector<std::string> names;
    for (const std::size_t i : cause) {
      goes[i] = true;
      names.push_back(rules[i].name);
    }
    add(NoPlanCauseKind::kRules, "placement rules are the cause (" + list_of(names) + ")",
        "without them", finds_plan(question_.input, without(goes)));
  }

  // The options of the problem as it would be; `use` sees them.
  template <class Use>
  bool with_options(const PlanningProblem& problem, int max_column_blocks, const Use& use) const {
    if (is_stopped()) return false;
    const Estimator estimator(problem.cost_model, problem.topology, problem.mode);
    EnumerationOptions options = problem.enumeration;
    options.batch_size = problem.batch_size;
    options.max_column_blocks = max_column_blocks;
    const auto made = enumerate(estimator, problem.model, options, context_);
    if (!made || made->is_cut) return false;
    BridgeInput input = question_.input;
    input.options = &made->options;
    input.profiles = made->profiles;
    input.model = &problem.model;
    input.estimator = &estimator;
    return use(input);
  }

  void find_constraints() {
    const std::vector<Constraint> constraints = constraints_of(*question_.problem, max_asked());
    const auto holds = [&](const std::vector<bool>& goes, const auto& use) {
      PlanningProblem problem = *question_.problem;
      for (std::size_t i = 0; i < constraints.size(); ++i) {
        if (goes[i]) constraints[i].drop(problem);
      }
      return with_options(problem, question_.options->max_column_blocks, use);
    };
    const auto open = [this](const BridgeInput& input) { return is_open(input, settings_); };
    const auto plan = [this](const BridgeInput& input) { return finds_plan(input, settings_); };
    const std::vector<std::size_t> cause = math::find_least_cause(
        constraints.size(), [&](const std::vector<bool>& goes) { return holds(goes, open); });
    if (cause.empty()) return;
    std::vector<bool> goes(constraints.size(), false);
    std::vector<std::string> names;
    for (const std::size_t i : cause) {
      goes[i] = true;
      names.push_back(constraints[i].name);
    }
    add(NoPlanCauseKind::kConstraints, "constraints are the cause (" + list_of(names) + ")",
        "without them", holds(goes, plan));
  }

  void find_hazards() {
    if (settings_.keeps_hazards) return;
    BridgeOptions settings = settings_;
    settings.keeps_hazards = true;
    if (!is_open(question_.input, settings) || !finds_plan(question_.input, settings)) return;
    add(NoPlanCauseKind::kHazards, "no plan without hazards fits", "with hazards", true);
  }

  void find_numerics() {
    if (!settings_.strict_numerics) return;
    BridgeOptions settings = settings_;
    settings.strict_numerics = false;
    if (!is_open(question_.input, settings) || !finds_plan(question_.input, settings)) return;
    add(NoPlanCauseKind::kNumerics,
        "options that keep an optimizer state per block are ruled out (optimizer_state_per_block)",
        "with them", true);
  }

  void find_widths() {
    if (question_.options->max_column_blocks > 0 ||
        question_.input.options->tables.size() > kMaxWideTables) {
      return;
    }
    const bool helps =
        with_options(*question_.problem, kMaxWideBlocks, [this](const BridgeInput& input) {
          return is_open(input, settings_) && finds_plan(input, settings_);
        });
    if (helps) {
      add(NoPlanCauseKind::kWidths, "only TorchRec's widths of column shards were tried",
          "with all widths", true);
    }
  }

  void find_bytes() {
    const auto bridge = make_bounded_bridge(question_.input, settings_);
    if (!bridge) return;
    Explanation bytes = balance::explain_infeasible(bridge->problem, words(), context_);
    explanation_ = std::move(bytes);
  }

  const NoPlanQuestion& question_;
  const RunContext& context_;
  Explanation& explanation_;
  BridgeOptions settings_;
  std::vector<NoPlanCause> causes_;
};

}  // namespace

std::vector<NoPlanCause> explain_no_plan(const NoPlanQuestion& question, const RunContext& context,
                                         Explanation& explanation) {
  return Explainer(question, context, explanation).run();
}

Result<bool> is_proved_empty(const BridgeInput& input, const BridgeOptions& settings,
                             const RunContext& context) {
  PLIMSOLL_ASSIGN(const PlacementBridge bridge, make_bounded_bridge(input, settings));
  if (bridge.is_tighter) return false;
  return balance::prove_shortage(bridge.problem, {}, context).has_value() &&
         !plimsoll::is_stopped(context);
}

}  // namespace plimsoll::embedding
