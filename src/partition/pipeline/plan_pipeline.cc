#include "plimsoll/partition/plan_pipeline.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <memory>
#include <numeric>
#include <queue>
#include <utility>

#include "core/random.h"
#include "partition/graph/downsets.h"
#include "partition/pipeline/batch_bound.h"
#include "partition/pipeline/composition_bound.h"
#include "partition/pipeline/free_operators.h"
#include "partition/pipeline/lone_operators.h"
#include "partition/pipeline/model_stage_times.h"
#include "partition/pipeline/operator_groups.h"
#include "partition/pipeline/pipeline_chain.h"
#include "partition/pipeline/pipeline_line.h"
#include "partition/pipeline/pipeline_outcome.h"
#include "partition/pipeline/pipeline_shares.h"
#include "partition/stages/batch_search.h"
#include "partition/stages/line_balancing.h"
#include "partition/stages/stage_orders.h"

namespace plimsoll::partition {
namespace {

constexpr double kNearlyClosed = 1e-4;  // relative; from there on guesses stand just below the best
constexpr std::int64_t kDefaultPairs = 80'000'000;   // some ten seconds
constexpr std::int64_t kFewPipelineDownsets = 4096;  // more are not looked at before more orders
constexpr int kGroupsOfAPair = 32;                   // that are summed up in its time
constexpr int kMaxLinePrefixes = 512;                // of one order
constexpr int kIdleLineRounds = 6;                   // of orders around the best plan

class PipelinePlanner {
 public:
  PipelinePlanner(const PipelineModel& model, const PipelineOptions& options,
                  const RunContext& context)
      : model_(model),
        options_(options),
        context_(context),
        groups_(make_replicated_groups(model)),
        pairs_left_(options.search.effort < 0 ? kDefaultPairs : options.search.effort),
        pairs_at_start_(pairs_left_) {}

  PipelineSearch run() {
    known_.explanation = explain_lone_operators(model_);
    if (!known_.explanation.lines.empty()) {
      known_.is_infeasible = true;
      known_.proof = ProofKind::kOperatorFitsNoDevice;
      return finish();
    }
    lower_bound_ = slowest_at_least();
    sum_bound_ = sum_at_least();
    if (sums_count() && options_.rules.prices_devices) {
      shares_.emplace(share_items(model_, groups_, options_.max_data_parallel));
      const double bound = shares_->batch(times_of_slowest(), lower_bound_);
      if (bound < kUnlimited) batch_bound_ = bound;
    }
    if (options_.rules.starts_from_orders) {
      SplitMix64 random(options_.search.seed);
      for (int i = 0; i < options_.num_orders && known_.stop == ChainStop::kFinished; ++i) {
        std::vector<std::uint64_t> keys(groups_.nodes.size());
        if (i > 0) {
          for (auto& key : keys) key = random.next();
        }
        Downsets prefixes(groups_);
        add_prefixes(topological_order(groups_, keys), 1, prefixes);
        if (finish_cuts(prefixes)) search(prefixes, false);
      }
    }
    bound_by_whole_stages();
    if (options_.rules.starts_from_orders) improve();
    if (known_.stop == ChainStop::kFinished && !is_closed()) search_all();
    if (!is_closed()) bound_by_whole_stages();
    return finish();
  }

 private:
  // Where downsets are many: chains over several orders around the best plan's stages at once.
  void improve() {
    if (is_line(model_, options_) || !has_many_downsets()) return;
    StageOrders orders(groups_, options_.search.seed, kMaxLinePrefixes);
    for (int idle = 0;
         idle < kIdleLineRounds && known_.stop == ChainStop::kFinished && !is_closed(); ++idle) {
      const double before = known_.best;
      Downsets prefixes(groups_);
      orders.add_next(options_.num_orders, stages_of_best(), prefixes);
      if (!finish_cuts(prefixes)) return;
      search(prefixes, false);
      if (known_.best < before) idle = -1;
    }
  }

  bool has_many_downsets() const {
    std::vector<char> holds(groups_.nodes.size(), 1);
    std::int64_t count = 1;
    while (count <= kFewPipelineDownsets && next_downset(groups_, holds)) ++count;
    return count > kFewPipelineDownsets;
  }

  // [num_groups] of the best plan, the last stage is 0; empty without a plan.
  std::vector<int> stages_of_best() const {
    if (!known_.plan) return {};
    std::vector<int> of_operator(model_.operators.size());
    const int last = static_cast<int>(known_.plan->stages.size()) - 1;
    for (int s = 0; s <= last; ++s) {
      for (const int op : known_.plan->stages[s].operators) of_operator[op] = last - s;
    }
    std::vector<int> stage_of;
    for (const auto& nodes : groups_.nodes) stage_of.push_back(of_operator[nodes[0]]);
    return stage_of;
  }

  bool finish_cuts(Downsets& cuts) {
    if (cuts.finish(context_)) return true;
    known_.stop = context_.is_cancelled() ? ChainStop::kCancelled : ChainStop::kDeadline;
    return false;
  }

  void bound_by_whole_stages() {
    if (!shares_ || !(times_of_slowest() > 0) || known_.best == kUnlimited) return;
    CompositionSearch search;
    search.weight = times_of_slowest();
    search.slowest = lower_bound_;
    search.goal = known_.best;
    batch_bound_ = std::max(batch_bound_, bound_by_compositions(shares_->items(), search));
  }

  double times_of_slowest() const {
    return options_.objective == PipelineObjective::kBatch ? *model_.num_microbatches - 1.0 : 1.0;
  }
  bool sums_count() const { return options_.objective == PipelineObjective::kBatch; }
  // What no plan undercuts, whatever the objective.
  double proved() const {
    return sums_count() ? std::max(batch_bound_, sum_bound_ + times_of_slowest() * lower_bound_)
                        : lower_bound_;
  }
  bool is_closed() const { return known_.best <= proved() * (1 + kExactPipeline); }

  // The device time of everything, spread evenly; and every operator in the stage that suits it
  // best.
  double slowest_at_least() const {
    double work = 0;
    double slowest = 0;
    for (std::size_t g = 0; g < groups_.nodes.size(); ++g) {
      work += groups_.time_ms[0][g];
      slowest = std::max(slowest,
                         least_stage_ms(model_, groups_.nodes[g][0], options_.max_data_parallel));
    }
    return std::max(slowest, work / model_.num_devices) * (1 - kExactPipeline);
  }

  double sum_at_least() const {
    double sum = 0;
    for (int op = 0; op < model_.num_operators(); ++op)
      sum += least_stage_ms(model_, op, options_.max_data_parallel);
    return sum * (1 - kExactPipeline);
  }

  // As search_all(), for lines.
  void search_lines() {
    LineBalancer line(groups_);
    known_.stop = line.find_downsets(options_.max_downsets, context_);
    result_.num_downsets = line.num_downsets();
    if (known_.stop != ChainStop::kFinished) return;
    line_ = &line;
    known_.is_complete = true;
    search_slowest();
    line_ = nullptr;
  }

  // As ask(), of lines.
  GuessAnswer ask_line(double limit) {
    known_.stop = count_pairs(line_->num_steps(), &pairs_left_, context_);
    if (known_.stop != ChainStop::kFinished) return {Guess::kStopped};
    const auto station_of = line_->find(limit, max_count());
    if (!station_of) return {Guess::kNone};
    return take(make_line_plan(model_, groups_, *station_of), kUnlimited);
  }

  void search_all() {
    if (options_.rules.balances_lines && is_line(model_, options_)) {
      search_lines();
      return;
    }
    Downsets cuts(groups_);
    std::vector<char> holds(groups_.nodes.size(), 1);
    result_.num_downsets = 0;
    do {
      if (++result_.num_downsets > options_.max_downsets) {
        known_.stop = ChainStop::kEffort;
      } else if (result_.num_downsets % 256 == 0 && context_.is_cancelled()) {
        known_.stop = ChainStop::kCancelled;
      } else if (result_.num_downsets % 256 == 0 && context_.is_past_deadline()) {
        known_.stop = ChainStop::kDeadline;
      }
      if (known_.stop != ChainStop::kFinished) return;
      cuts.add(holds);
    } while (next_downset(groups_, holds));
    if (finish_cuts(cuts)) search(cuts, true);
  }

  // Chains of these cuts; what has no chain of all cuts is proved.
  void search(const Downsets& cuts, bool is_complete) {
    cuts_ = &cuts;
    known_.is_complete = is_complete;
    ModelStageTimes times(
        model_, groups_, cuts,
        {options_.max_data_parallel, options_.max_knapsack_nodes, options_.rules.bounds_stages});
    times_ = &times;
    if (sums_count()) {
      search_batches();
    } else {
      search_slowest();
    }
    result_.num_stages += times.num_stages();
  }

  // Of the replicas of all stages.
  int max_count() const {
    return std::min(model_.num_microbatches.value_or(model_.num_devices), model_.num_devices);
  }

  // Looks for a pipeline whose stages all stay within `limit`; keeps it if it is the best.
  GuessAnswer ask(double limit, double sum_limit) {
    if (line_ != nullptr) return ask_line(limit);
    PipelineChainSearch search;
    search.num_devices = model_.num_devices;
    search.max_count = max_count();
    search.limit = limit;
    search.minimises_sum = sums_count();
    search.sum_limit = sum_limit;
    search.must_use_all = options_.must_use_all_devices;
    search.uses_windows = options_.rules.uses_windows;
    search.drops_dominated = options_.rules.drops_dominated;
    search.pairs_left = &pairs_left_;
    bound_rest(limit, sum_limit, search);
    const PipelineChainAnswer answer = find_pipeline_chain(*cuts_, *times_, search, context_);
    if (answer.stop != ChainStop::kFinished) {
      known_.stop = answer.stop;
      return {Guess::kStopped};
    }
    if (!answer.chain) return {answer.is_proof ? Guess::kNone : Guess::kUnknown};
    PipelinePlan plan;
    for (const StageQuery& query : answer.chain->stages)
      plan.stages.push_back(times_->make_stage(query));
    return take(std::move(plan), answer.chain->sum);
  }

  // What the groups outside a cut add at least, at the prices that rule out most.
  void bound_rest(double limit, double sum_limit, PipelineChainSearch& search) {
    if (!shares_ || !std::isfinite(limit) || !std::isfinite(sum_limit)) return;
    const BatchPrices prices = shares_->prices_within(limit);
    search.rest = least_after_cuts(*shares_, prices, *cuts_);
    pairs_left_ -= std::int64_t{cuts_->size()} * (1 + groups_.num_groups() / kGroupsOfAPair);
    search.credit = prices.device_ms * limit;
    if (model_.memory_cap) search.credit += prices.byte * static_cast<double>(*model_.memory_cap);
  }

  // Keeps the plan if it is the best.
  GuessAnswer take(PipelinePlan plan, double sum_at_most) {
    double most = 0;
    double total = 0;
    for (const StageFigures& figures : figures_of_stages(model_, plan)) {
      most = std::max(most, figures.time_ms);
      total += figures.time_ms;
    }
    const double value = sums_count() ? total + times_of_slowest() * most : most;
    if (value < known_.best) {
      known_.best = value;
      slowest_ = most;
      known_.plan = std::move(plan);
      report();
    }
    return {Guess::kFound, most, std::min(total, sum_at_most)};
  }

  void report() const {
    if (context_.progress) {
      context_.progress({pairs_at_start_ - pairs_left_, known_.best, proved()});
    }
  }

  void search_slowest() {
    double lower = lower_bound_;  // of these cuts
    const bool has_plan = known_.plan.has_value();
    const auto refuse = [&](double limit, Guess answer) {
      lower = limit;
      if (known_.is_complete && answer == Guess::kNone)
        lower_bound_ = std::max(lower_bound_, limit);
      report();
    };
    if (!has_plan) {
      const Guess answer = ask(kUnlimited, kUnlimited).guess;
      if (answer == Guess::kNone && known_.is_complete) {
        known_.is_infeasible = true;
      }
      if (answer != Guess::kFound) return;
    }
    // The best so far may be the best there is: then one question ends it.
    bool is_first = has_plan;
    while (slowest_ > lower * (1 + kExactPipeline)) {
      const bool asks_for_less = is_first || slowest_ - lower <= kNearlyClosed * slowest_;
      double guess = lower + (slowest_ - lower) / 2;
      if (slowest_ > 2 * lower && lower > 0) guess = std::sqrt(lower * slowest_);
      if (asks_for_less) guess = slowest_ * (1 - kExactPipeline / 2);
      is_first = false;
      const Guess answer = ask(guess, kUnlimited).guess;
      if (answer == Guess::kStopped) return;
      if (answer != Guess::kFound) refuse(guess, answer);
    }
  }

  void search_batches() {
    BatchSearch search;
    search.weight = times_of_slowest();
    search.slowest_at_least = lower_bound_;
    search.sum_at_least = sum_bound_;
    search.best = &known_.best;
    if (shares_) search.sum_within = [&](double limit) { return shares_->sum_within(limit); };
    search.ask = [&](double limit, double sum_limit) { return ask(limit, sum_limit); };
    search.prove = [&](double bound) {
      if (known_.is_complete) batch_bound_ = std::max(batch_bound_, bound);
      report();
    };
    known_.is_infeasible = search_batch(search) == Guess::kNone && known_.is_complete;
  }

  PipelineSearch finish() {
    known_.lower_bound = proved();
    if (!known_.is_infeasible) known_.proof = ProofKind::kSpreadEvenly;
    result_.num_pairs = pairs_at_start_ - pairs_left_;
    result_.outcome = make_pipeline_outcome(
        std::move(known_), options_.search.tolerance,
        "no pipeline of these operators keeps its microbatches in flight within a device");
    return std::move(result_);
  }

  const PipelineModel& model_;
  const PipelineOptions& options_;
  const RunContext& context_;
  const GroupGraph groups_;
  std::int64_t pairs_left_;
  const std::int64_t pairs_at_start_;
  const Downsets* cuts_ = nullptr;
  ModelStageTimes* times_ = nullptr;
  LineBalancer* line_ = nullptr;      // where stages are those of a line
  double lower_bound_ = 0;            // of the slowest stage
  double sum_bound_ = 0;              // of the sum
  double batch_bound_ = 0;            // of the batch
  std::optional<BatchBound> shares_;  // where sums count
  double slowest_ = kUnlimited;       // stage of the best plan
  PipelineKnowledge<PipelinePlan> known_;
  PipelineSearch result_;
};

}  // namespace

std::string_view to_string(PipelineObjective objective) {
  switch (objective) {
    case PipelineObjective::kSlowestStage:
      return "slowest_stage";
    case PipelineObjective::kBatch:
      return "batch";
  }
  return "";
}

Result<PipelineSearch> plan_pipeline(const PipelineModel& model, const PipelineOptions& options,
                                     const RunContext& context) {
  PLIMSOLL_RETURN_IF_ERROR(validate(model));
  const auto refuse = [](std::string place, std::string message, std::string remedy) {
    return fail(ErrorCode::kUsage, std::move(place), std::move(message), std::move(remedy));
  };
  if (options.max_data_parallel < 1) {
    return refuse("max_data_parallel", "fewer than one replica", "give at least 1");
  }
  if (options.max_downsets < 1) return refuse("max_downsets", "less than 1", "give at least 1");
  if (options.max_knapsack_nodes < 0) {
    return refuse("max_knapsack_nodes", "less than 0", "give at least 0");
  }
  if (options.num_orders < 1) return refuse("num_orders", "less than 1", "give at least 1");
  if (options.objective == PipelineObjective::kBatch && !model.num_microbatches) {
    return refuse("objective", "a batch of an unknown number of microbatches",
                  "give the model num_microbatches");
  }
  // Where every device must be used, an operator without cost may be what one of them runs.
  if (!options.rules.drops_free_operators || options.must_use_all_devices) {
    return PipelinePlanner(model, options, context).run();
  }
  const ReducedPipeline reduced = drop_free_operators(model);
  PipelineSearch search = PipelinePlanner(reduced.model, options, context).run();
  if (search.outcome.plan) {
    search.outcome.plan = restore_operators(model, reduced, *search.outcome.plan);
  }
  return search;
}

}  // namespace plimsoll::partition
