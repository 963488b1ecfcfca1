#include "balance/bounds/bound_placement.h"

#include <algorithm>
#include <optional>
#include <queue>
#include <utility>
#include <vector>

#include "balance/barriers/barrier_windows.h"
#include "balance/bounds/first_cases.h"
#include "balance/prices/filtered_bound.h"
#include "balance/problem/one_load.h"
#include "core/check.h"

namespace plimsoll::balance {
namespace {

struct Entry {
  double value = 0;
  int number = 0;  // into cases
  bool is_final = false;
};

struct IsWorse {
  bool operator()(const Entry& a, const Entry& b) const {
    return a.value != b.value ? a.value > b.value : a.number > b.number;
  }
};

class Bounder {
 public:
  Bounder(const PlacementProblem& problem, const PlacementGroups& groups,
          const BoundOptions& options, const RunContext& context)
      : problem_(problem), options_(options), context_(context), groups_(groups) {}

  PlacementBound run() {
    result_.kind_of_rank = groups_.ranks.kind_of_rank;
    open_first_cases();
    while (true) {
      const Entry entry = heap_.top();
      if (entry.is_final || entry.value == kInfinity || entry.value >= goal() || is_stopped()) {
        break;
      }
      heap_.pop();
      const int cause = find_open_cause(result_.cases[entry.number]);
      if (cause >= 0 && may_split()) {
        split(entry.number, cause);
      } else {
        const double before = result_.cases[entry.number].value;
        if (!refute(entry.number)) {
          sharpen(entry.number);
          add_barriers(entry.number);
          add_boxes(entry.number);
        }
        BoundCase& done = result_.cases[entry.number];
        done.value = std::max(done.value, before);
        heap_.push({done.value, entry.number, true});
      }
    }
    const BoundCase& least = result_.cases[heap_.top().number];
    result_.value = least.value;
    result_.method = least.method;
    result_.room = rooms_[heap_.top().number];
    return std::move(result_);
  }

 private:
  // An objective that is as good as the incumbent's.
  double goal() const {
    return options_.incumbent ? *options_.incumbent / (1 + options_.tolerance) : kInfinity;
  }
  bool is_stopped() const { return context_.is_cancelled() || context_.is_past_deadline(); }

  bool may_split() const {
    const auto num_choices = std::max<std::int64_t>(std::ssize(groups_.choices), 1);
    return std::ssize(result_.cases) < options_.max_cases &&
           result_.num_evaluations <= options_.max_priced / num_choices;
  }

  // What is paid whatever the loads are.
  double base(const BoundCase& c) const {
    double sum = problem_.floor_ms;
    for (std::size_t i = 0; i < problem_.charges.size() && i < 64; ++i) {
      if ((c.paid >> i & 1) != 0) sum += problem_.charges[i];
    }
    return sum;
  }

  void open_first_cases() {
    for (BoundCase& c : make_first_cases(problem_, options_.max_cases)) open_case(std::move(c));
  }

  int find_open_cause(const BoundCase& c) const {
    int best = -1;
    std::uint64_t named = 0;
    for (const GroupChoice& choice : groups_.choices) {
      if ((choice.causes & c.forbidden) == 0) named |= choice.causes;
    }
    for (std::size_t i = 0; i < problem_.charges.size() && i < 64; ++i) {
      if (((named & ~c.paid) >> i & 1) == 0 || problem_.charges[i] == 0) continue;
      if (best < 0 || problem_.charges[i] > problem_.charges[best]) best = static_cast<int>(i);
    }
    return best;
  }

  void split(int number, int cause) {
    const std::uint64_t bit = std::uint64_t{1} << cause;
    BoundCase without = result_.cases[number];
    BoundCase with = result_.cases[number];
    without.forbidden |= bit;
    with.paid |= bit;
    const double change = base(with) - base(without);
    with.value += change;
    // The case itself becomes the one that pays: its proof stands.
    result_.cases[number] = with;
    heap_.push({with.value, number, false});
    BoundCase open;
    open.paid = without.paid;
    open.forbidden = without.forbidden;
    open_case(std::move(open));
  }

  // From accounts to kinds and resources.
  template <class Number>
  std::vector<Number> spread(const std::vector<Number>& of_accounts) const {
    std::vector<Number> result;
    for (const RankKind& kind : groups_.ranks.kinds) {
      for (int resource = 0; resource < problem_.num_resources() && !of_accounts.empty();
           ++resource) {
        result.push_back(of_accounts[kind.account[resource]]);
      }
    }
    return result;
  }

  // The cheap bound of a new case.
  void open_case(BoundCase c) {
    const auto number = static_cast<int>(result_.cases.size());
    const PlacementGroups groups = without_causes(groups_, c.forbidden);
    const FilteredBound bound = filtered_bound(groups, {1e-9, options_.filter, &context_});
    result_.num_evaluations += bound.num_evaluations;
    keep(bound, groups, c);
    heap_.push({c.value, number, false});
    result_.cases.push_back(std::move(c));
    rooms_.push_back(0);
  }

  void keep(const FilteredBound& bound, const PlacementGroups& groups, BoundCase& c) {
    c.value = base(c) + bound.value;
    c.method = bound.target > 0 ? BoundMethod::kFiltered : BoundMethod::kAverage;
    c.prices.target = bound.target > 0 ? bound.value : 0;
    if (!bound.infeasible) {
      c.prices.theta = bound.prices.theta;
      c.prices.price = spread(bound.prices.price);
      if (bound.refuted_by) c.prices.weight = spread(bound.refuted_by->weight);
      return;
    }
    c.method = BoundMethod::kMemory;
    c.prices.weight = spread(bound.infeasible->weight);
    if (!result_.cases.empty()) return;  // the explanation is the first case's
    result_.binding_resource = bound.infeasible->resource;
    result_.missing = bound.infeasible->missing;
    if (bound.infeasible->weight.empty()) {
      result_.stuck_unit = groups.groups[bound.infeasible->group].units.front();
    }
  }

  // `bound_at(target)` proves at most the target: try again further off while it proves all of it.
  template <class BoundAt>
  void raise(double& value, double limit, double first_step, const BoundAt& bound_at) {
    for (double step = first_step; value < limit && step < 1e3; step *= 4) {
      const double target = std::min(limit, value * (1 + step));
      const double proved = bound_at(target);
      value = std::max(value, proved);
      if (proved < target * (1 - 1e-12) || is_stopped()) break;
    }
  }

  void take(BoundCase& c, int number, BoundMethod method, double value, double room,
            WindowWitness&& witness) {
    if (base(c) + value <= c.value) return;
    c.value = base(c) + value;
    c.method = method;
    c.windows = std::move(witness);
    c.prices = {};
    c.choices = {};
    for (RoomProof& proof : c.windows.proofs) {
      proof.price = spread(proof.price);
    }
    rooms_[number] = room;
  }

  // Where ranks are all alike, and bytes have a price or the gap is large.
  void branch_on_choices(BoundCase& c, double limit) {
    constexpr double kLargeGap = .03;
    const std::vector<double>& price = c.prices.price;
    const bool is_far = (c.value - base(c)) * (1 + kLargeGap) < limit;
    if (!(is_far || std::any_of(price.begin(), price.end(), [](double p) { return p > 0; })) ||
        num_choice_nodes_ >= options_.max_choice_nodes ||
        num_choice_pivots_ >= options_.max_choice_pivots) {
      return;
    }
    GroupRules rules = options_.groups;
    rules.merge_units = false;
    const PlacementGroups units =
        without_causes(make_placement_groups(problem_, rules), c.forbidden);
    if (!is_for_choice_tree(units)) return;
    ChoiceTreeOptions options;
    options.target = limit;
    options.max_nodes = options_.max_choice_nodes - num_choice_nodes_;
    options.max_pivots = options_.max_choice_pivots - num_choice_pivots_;
    ChoiceTreeBound bound = choice_tree_bound(units, options, context_);
    num_choice_nodes_ += bound.num_nodes;
    num_choice_pivots_ += bound.num_pivots;
    result_.num_windows += bound.num_nodes;
    if (base(c) + bound.value <= c.value) return;
    c.value = base(c) + bound.value;
    c.method = BoundMethod::kChoices;
    c.choices = std::move(bound.witness);
    c.prices = {};
  }

  // A problem of one_load.h, which all cases share.
  struct OneLoad {
    PlacementProblem problem;
    PlacementGroups groups;
  };

  OneLoad make_one_load(PlacementProblem problem) const {
    PlacementGroups groups = make_placement_groups(problem, options_.groups);
    return {std::move(problem), std::move(groups)};
  }

  // Its bound without the case's forbidden causes, as one case; placements beyond `target` are of
  // no interest. Nothing where its kinds of ranks are not ours, of which witnesses speak.
  std::optional<PlacementBound> bound_one_load(const OneLoad& load, std::uint64_t forbidden,
                                               double target, bool use_fine) {
    if (load.groups.ranks.kind_of_rank != groups_.ranks.kind_of_rank) return std::nullopt;
    BoundOptions options = options_;
    options.load_resource = -1;
    options.incumbent = target;
    options.max_cases = 1;
    options.use_choices = options.use_boxes = false;  // a BarrierProof has neither
    options.use_fine = use_fine;
    const PlacementGroups groups = without_causes(load.groups, forbidden);
    PlacementBound bound = Bounder(load.problem, groups, options, context_).run();
    result_.num_evaluations += bound.num_evaluations;
    result_.num_pricings += bound.num_pricings;
    result_.num_windows += bound.num_windows;
    if (bound.cases.size() != 1) return std::nullopt;
    return bound;
  }

  // Ranks that wait at a barrier for one another wait for its slowest, whoever is slow at the
  // others: each barrier's own bound, where only placements below the goal count.
  void add_barriers(int number) {
    constexpr int kMostBarriers = 3;  // of more, the slowest of all together is most of the time
    BoundCase& c = result_.cases[number];
    const double limit = goal() - base(c);
    if (!options_.use_barriers || !options_.use_fine || !options_.incumbent || is_stopped() ||
        problem_.num_barriers == 1 || problem_.num_barriers > kMostBarriers || c.value >= goal()) {
      return;
    }
    for (auto barrier = static_cast<int>(of_barrier_.size()); barrier < problem_.num_barriers;
         ++barrier) {
      of_barrier_.push_back(make_one_load(with_barrier_alone(problem_, barrier)));
    }
    double sum = 0;
    std::vector<BarrierProof> proofs;
    for (const OneLoad& alone : of_barrier_) {
      std::optional<PlacementBound> bound = bound_one_load(alone, c.forbidden, limit - sum, true);
      if (!bound || bound->is_infeasible()) return;
      sum = std::min(sum + bound->value, limit);
      BoundCase& proof = bound->cases.front();
      proofs.push_back({proof.method, std::move(proof.prices), std::move(proof.windows)});
    }
    if (base(c) + sum <= c.value) return;
    c.value = base(c) + sum;
    c.method = BoundMethod::kBarriers;
    c.prices = {};
    c.windows = {};
    c.choices = {};
    c.barriers = std::move(proofs);
  }

  // Contents of ranks within windows at all barriers at once, where units are of few classes.
  void add_boxes(int number) {
    BoundCase& c = result_.cases[number];
    if (!options_.use_boxes || !options_.use_fine || !options_.incumbent || is_stopped() ||
        problem_.num_barriers > kMaxBarriersOfBoxes || c.value >= goal() || goal() == kInfinity) {
      return;
    }
    const auto model = make_barrier_model(problem_, c.forbidden);
    if (!model) return;
    BarrierWindowOptions options;
    options.goal = goal() - base(c);
    options.max_effort = options_.max_box_effort;
    take_boxes(*model, options, c);
    // A cap on times may decide on each rank by itself.
    options.limits = model->times;
    if (!options.limits.empty() && c.value < goal()) take_boxes(*model, options, c);
  }

  void take_boxes(const BarrierModel& model, const BarrierWindowOptions& options, BoundCase& c) {
    EffortClock clock(context_);
    BarrierWindowResult boxes = search_barrier_windows(model, problem_.num_units(), options, clock);
    result_.num_windows += boxes.num_boxes;
    result_.num_pricings += clock.effort();
    if (base(c) + boxes.value <= c.value) return;
    c.value = base(c) + boxes.value;
    c.method = BoundMethod::kBoxes;
    c.prices = {};
    c.windows = {};
    c.choices = {};
    c.barriers = {};
    c.boxes = std::move(boxes.witness);
  }

  // Do the caps of the resource that decides leave the case no placement?
  bool refute(int number) {
    if (!options_.incumbent || !(options_.use_windows || options_.use_patterns) ||
        !is_resource_a_load(problem_, options_.load_resource) || is_stopped()) {
      return false;
    }
    constexpr double kBeyond = 1e-4;  // relative, of the cap: what is proved is a little less
    const auto cap = static_cast<double>(largest_cap(problem_, options_.load_resource));
    if (!of_resource_)
      of_resource_ = make_one_load(with_resource_as_load(problem_, options_.load_resource));
    BoundCase& c = result_.cases[number];
    std::optional<PlacementBound> bound =
        bound_one_load(*of_resource_, c.forbidden, cap * (1 + kBeyond), false);
    if (!bound || bound->value * (1 - 1e-9) <= cap) return false;
    BoundCase& proof = bound->cases.front();
    proof.paid = c.paid;
    proof.forbidden = c.forbidden;
    proof.value = kInfinity;
    proof.load_resource = options_.load_resource;
    c = std::move(proof);
    return true;
  }

  // From the cheapest method on; `value` is what is proved of the slowest load.
  void sharpen(int number) {
    BoundCase& c = result_.cases[number];
    const Sharpened of{number, without_causes(groups_, c.forbidden), goal() - base(c)};
    if (c.value - base(c) <= 0) return;
    if (options_.use_choices && !is_stopped()) branch_on_choices(c, of.limit);
    double value = c.value - base(c);
    if (options_.use_windows && !is_stopped()) sharpen_by_windows(of, value);
    if (options_.use_patterns) sharpen_by_patterns(of, value);
  }

  struct Sharpened {
    int number = 0;  // of the case
    PlacementGroups groups;
    double limit = 0;  // what is proved beyond it is of no interest
  };

  void sharpen_by_windows(const Sharpened& of, double& value) {
    raise(value, of.limit, 0.01, [&](double target) {
      const Survivors survivors = filter_by_target(of.groups, target, options_.filter);
      if (survivors.is_dead()) return value;
      WindowBound bound = window_bound(of.groups, survivors, target, {}, context_);
      result_.num_windows += bound.num_windows;
      take(result_.cases[of.number], of.number, BoundMethod::kWindows, bound.value, bound.room,
           std::move(bound.witness));
      return bound.value;
    });
  }

  // Coarse cells, then fine ones, then branches; or, where hosts are few, these told apart.
  void sharpen_by_patterns(const Sharpened& of, double& value) {
    std::int64_t num_left = std::max<std::int64_t>(options_.max_pricings, 1);  // of one target
    const auto patterns = [&](int cells, double tolerance, bool branch, double first_step,
                              bool shares_pricings = false) {
      PatternOptions at;
      at.cells = cells;
      at.tolerance = tolerance;
      at.branch = branch;
      raise(value, of.limit, first_step, [&](double target) {
        at.max_pricings = num_left;
        const std::optional<PatternBound> bound = patterns_at(of, target, at);
        if (!bound) return value;
        if (shares_pricings) num_left -= bound->num_pricings;
        return bound->value;
      });
    };
    patterns(options_.coarse_cells, 1e-3, false, 0.02);
    if (!options_.use_fine) return;
    const bool branches =
        options_.use_branching && problem_.num_units() <= options_.max_branched_units;
    if (branches && problem_.num_hosts() > 1 && problem_.num_hosts() <= options_.max_apart_hosts) {
      // What mixtures of hosts' contents cost is more than cells do.
      num_left = std::max<std::int64_t>(options_.max_apart_pricings, 1);
      patterns(options_.apart_cells, options_.window_tolerance, true, 0.05, true);
      return;
    }
    patterns(options_.cells, options_.window_tolerance, false, 0.004);
    if (!branches) return;
    num_left = std::max<std::int64_t>(options_.max_pricings / 2, 1);
    patterns(options_.cells, options_.window_tolerance, true, 0.01);
  }

  // Takes what patterns prove of placements of at most the target; nothing where they cannot begin.
  std::optional<PatternBound> patterns_at(const Sharpened& of, double target, PatternOptions at) {
    if (is_stopped() || at.max_pricings <= 0) return std::nullopt;
    const Survivors survivors = filter_by_target(of.groups, target, options_.filter);
    if (survivors.is_dead()) return std::nullopt;
    AverageOptions of_average;
    of_average.context = &context_;
    const AverageBound average = average_bound(of.groups, survivors, of_average);
    result_.num_evaluations += average.num_evaluations;
    if (average.infeasible) return std::nullopt;
    at.max_hosts = options_.max_apart_hosts;
    at.max_classes = options_.max_classes;
    at.max_nodes = options_.max_nodes;
    PatternBound bound =
        pattern_bound(of.groups, survivors, average.prices.price, target, at, context_);
    result_.num_pricings += bound.num_pricings;
    result_.num_windows += bound.num_nodes;
    take(result_.cases[of.number], of.number,
         bound.has_branched ? BoundMethod::kBranched : BoundMethod::kPatterns, bound.value,
         bound.room, std::move(bound.witness));
    return bound;
  }

  const PlacementProblem& problem_;
  const BoundOptions& options_;
  const RunContext& context_;
  const PlacementGroups& groups_;
  std::priority_queue<Entry, std::vector<Entry>, IsWorse> heap_;
  std::vector<double> rooms_;  // [cases]
  std::int64_t num_choice_nodes_ = 0, num_choice_pivots_ = 0;
  std::optional<OneLoad> of_resource_;  // with its bytes as loads
  std::vector<OneLoad> of_barrier_;     // with its loads alone; made when asked for
  PlacementBound result_;
};

}  // namespace

BoundOptions cheap_bounds() {
  BoundOptions options;
  options.use_choices = options.use_windows = options.use_patterns = false;
  return options;
}

PlacementBound bound_placement(const PlacementProblem& problem, const BoundOptions& options,
                               const RunContext& context) {
  PLIMSOLL_DCHECK(validate(problem).has_value(), "the problem is valid");
  return bound_placement(problem, make_placement_groups(problem, options.groups), options, context);
}

PlacementBound bound_placement(const PlacementProblem& problem, const PlacementGroups& groups,
                               const BoundOptions& options, const RunContext& context) {
  return Bounder(problem, groups, options, context).run();
}

}  // namespace plimsoll::balance
