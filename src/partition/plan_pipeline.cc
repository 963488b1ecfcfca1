#include "plimsoll/partition/plan_pipeline.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <memory>
#include <numeric>
#include <queue>
#include <utility>

#include "partition/batch_search.h"
#include "partition/downsets.h"
#include "partition/free_operators.h"
#include "partition/line_balancing.h"
#include "partition/model_stage_times.h"
#include "partition/pipeline_chain.h"
#include "partition/pipeline_line.h"

namespace plimsoll::partition {
namespace {

constexpr double kExact = 1e-9;         // relative; what counts as closed
constexpr double kNearlyClosed = 1e-4;  // relative; from there on guesses stand just below the best
constexpr const char* kNothingFits = "no contiguous pipeline fits, whatever its stages take";
constexpr std::int64_t kDefaultPairs = 20'000'000'000;

// splitmix64
std::uint64_t next_random(std::uint64_t& state) {
  state += 0x9E3779B97F4A7C15U;
  std::uint64_t z = state;
  z = (z ^ (z >> 30U)) * 0xBF58476D1CE4E5B9U;
  z = (z ^ (z >> 27U)) * 0x94D049BB133111EBU;
  return z ^ (z >> 31U);
}

class Planner {
 public:
  Planner(const PipelineModel& model, const PipelineOptions& options, const RunContext& context)
      : model_(model),
        options_(options),
        context_(context),
        groups_(make_pipeline_groups(model)),
        pairs_left_(options.search.effort < 0 ? kDefaultPairs : options.search.effort),
        pairs_at_start_(pairs_left_) {}

  PipelineSearch run() {
    if (!explain_lone_operators()) return finish();
    lower_bound_ = slowest_at_least();
    sum_bound_ = sum_at_least();
    if (options_.rules.starts_from_orders) {
      std::uint64_t random = options_.search.seed;
      for (int i = 0; i < options_.num_orders && stop_ == ChainStop::kFinished; ++i) {
        std::vector<std::uint64_t> keys(groups_.nodes.size());
        if (i > 0) {
          for (auto& key : keys) key = next_random(random);
        }
        Downsets prefixes(groups_);
        add_prefixes(topological_order(groups_, keys), prefixes);
        if (prefixes.finish(context_)) search(prefixes, false);
      }
    }
    if (stop_ == ChainStop::kFinished && !is_closed()) search_all();
    return finish();
  }

 private:
  double times_of_slowest() const {
    return options_.objective == PipelineObjective::kBatch ? *model_.num_microbatches - 1.0 : 1.0;
  }
  bool sums_count() const { return options_.objective == PipelineObjective::kBatch; }
  // What no plan undercuts, whatever the objective.
  double proved() const {
    return sums_count() ? std::max(batch_bound_, sum_bound_ + times_of_slowest() * lower_bound_)
                        : lower_bound_;
  }
  bool is_closed() const { return best_ <= proved() * (1 + kExact); }

  // Does every operator fit some stage of its own? Else nothing does.
  bool explain_lone_operators() {
    for (int op = 0; op < model_.num_operators(); ++op) {
      Bytes least = std::numeric_limits<Bytes>::max();
      for (const TensorParallelChoices& degree : model_.operators[op].degrees) {
        if (degree.degree > model_.num_devices) continue;
        for (const OperatorChoice& choice : degree.choices) {
          least = std::min(least, choice.per_microbatch + choice.memory);
        }
      }
      if (least == std::numeric_limits<Bytes>::max()) {
        is_infeasible_ = true;
        explanation_.binding = "devices";
        explanation_.lines.push_back(place_of(model_, op) +
                                     " needs a tensor-parallel degree of more than " +
                                     std::to_string(model_.num_devices) + " devices");
      } else if (model_.memory_cap && least > *model_.memory_cap) {
        is_infeasible_ = true;
        explanation_.binding = "memory";
        explanation_.missing = std::max(explanation_.missing, least - *model_.memory_cap);
        explanation_.lines.push_back(place_of(model_, op) + " alone needs " + format_bytes(least) +
                                     " on a device, with one microbatch in flight");
      }
    }
    proof_ = "an operator fits no device";
    return !is_infeasible_;
  }

  // The device time of everything, spread evenly; and every operator in the stage that suits it
  // best.
  double slowest_at_least() const {
    double work = 0;
    double slowest = 0;
    for (std::size_t g = 0; g < groups_.nodes.size(); ++g) {
      work += groups_.time_ms[0][g];
      slowest = std::max(slowest, least_share(groups_.nodes[g][0]));
    }
    return std::max(slowest, work / model_.num_devices) * (1 - kExact);
  }

  double sum_at_least() const {
    double sum = 0;
    for (int op = 0; op < model_.num_operators(); ++op) sum += least_share(op);
    return sum * (1 - kExact);
  }

  // What an operator adds at least to its stage's time.
  double least_share(int op) const {
    double least = kUnlimited;
    for (const TensorParallelChoices& degree : model_.operators[op].degrees) {
      const int most = std::min(model_.num_devices / degree.degree, options_.max_data_parallel);
      for (int d = 1; d <= most; ++d) {
        if (model_.num_microbatches && *model_.num_microbatches % d != 0) continue;
        const double n = model_.num_microbatches.value_or(d);
        for (const OperatorChoice& choice : degree.choices) {
          const auto parameters = static_cast<double>(choice.parameters);
          least = std::min(
              least, choice.time_ms / d + 4.0 * (d - 1) * parameters / d / n / model_.bandwidth);
        }
      }
    }
    return least;
  }

  static void add_prefixes(const std::vector<int>& order, Downsets& cuts) {
    std::vector<char> holds(order.size(), 0);
    cuts.add(holds);
    for (const int g : order) {
      holds[g] = 1;
      cuts.add(holds);
    }
  }

  // As search_all(), for lines.
  void search_lines() {
    LineBalancer line(groups_);
    stop_ = line.find_downsets(options_.max_downsets, context_);
    result_.num_downsets = line.num_downsets();
    if (stop_ != ChainStop::kFinished) return;
    line_ = &line;
    is_complete_ = true;
    search_slowest();
    line_ = nullptr;
  }

  // As ask(), of lines.
  GuessAnswer ask_line(double limit) {
    pairs_left_ -= line_->num_steps();
    if (pairs_left_ < 0) stop_ = ChainStop::kEffort;
    if (context_.is_cancelled()) stop_ = ChainStop::kCancelled;
    if (context_.is_past_deadline()) stop_ = ChainStop::kDeadline;
    if (stop_ != ChainStop::kFinished) return {Guess::kStopped};
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
        stop_ = ChainStop::kEffort;
      } else if (result_.num_downsets % 256 == 0 && context_.is_cancelled()) {
        stop_ = ChainStop::kCancelled;
      } else if (result_.num_downsets % 256 == 0 && context_.is_past_deadline()) {
        stop_ = ChainStop::kDeadline;
      }
      if (stop_ != ChainStop::kFinished) return;
      cuts.add(holds);
    } while (next_downset(groups_, holds));
    if (!cuts.finish(context_)) {
      stop_ = context_.is_cancelled() ? ChainStop::kCancelled : ChainStop::kDeadline;
      return;
    }
    search(cuts, true);
  }

  // Chains of these cuts; what has no chain of all cuts is proved.
  void search(const Downsets& cuts, bool is_complete) {
    cuts_ = &cuts;
    is_complete_ = is_complete;
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
    const PipelineChainAnswer answer = find_pipeline_chain(*cuts_, *times_, search, context_);
    if (answer.stop != ChainStop::kFinished) {
      stop_ = answer.stop;
      return {Guess::kStopped};
    }
    if (!answer.chain) return {answer.is_proof ? Guess::kNone : Guess::kUnknown};
    PipelinePlan plan;
    for (const StageQuery& query : answer.chain->stages)
      plan.stages.push_back(times_->make_stage(query));
    return take(std::move(plan), answer.chain->sum);
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
    if (value < best_) {
      best_ = value;
      best_plan_ = std::move(plan);
      report();
    }
    return {Guess::kFound, most, std::min(total, sum_at_most)};
  }

  void report() const {
    if (context_.progress) {
      context_.progress({pairs_at_start_ - pairs_left_, best_, proved()});
    }
  }

  void search_slowest() {
    double lower = lower_bound_;  // of these cuts
    const bool has_plan = best_plan_.has_value();
    const auto refuse = [&](double limit, Guess answer) {
      lower = limit;
      if (is_complete_ && answer == Guess::kNone) lower_bound_ = std::max(lower_bound_, limit);
      report();
    };
    if (!has_plan) {
      const Guess answer = ask(kUnlimited, kUnlimited).guess;
      if (answer == Guess::kNone && is_complete_) {
        is_infeasible_ = true;
        proof_ = kNothingFits;
      }
      if (answer != Guess::kFound) return;
    }
    // The best so far may be the best there is: then one question ends it.
    bool is_first = has_plan;
    while (best_ > lower * (1 + kExact)) {
      const bool asks_for_less = is_first || best_ - lower <= kNearlyClosed * best_;
      double guess = lower + (best_ - lower) / 2;
      if (best_ > 2 * lower && lower > 0) guess = std::sqrt(lower * best_);
      if (asks_for_less) guess = best_ * (1 - kExact / 2);
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
    search.best = &best_;
    search.ask = [&](double limit, double sum_limit) { return ask(limit, sum_limit); };
    search.prove = [&](double bound) {
      if (is_complete_) batch_bound_ = std::max(batch_bound_, bound);
      report();
    };
    is_infeasible_ = search_batch(search) == Guess::kNone && is_complete_;
    if (is_infeasible_) proof_ = kNothingFits;
  }

  PipelineSearch finish() {
    Outcome<PipelinePlan>& outcome = result_.outcome;
    outcome.stop = reason_of(stop_);
    Certificate& certificate = outcome.certificate;
    certificate.objective = std::numeric_limits<double>::quiet_NaN();
    if (is_infeasible_) {
      outcome.status = SolveStatus::kInfeasible;
      certificate.proof = proof_;
      if (explanation_.lines.empty()) {
        explanation_.binding = "memory";
        explanation_.lines.emplace_back(
            "no pipeline of these operators keeps its microbatches in flight within a device");
      }
      outcome.explanation = std::move(explanation_);
    } else {
      certificate.lower_bound = std::min(proved(), best_);
      certificate.proof = "least device time spread evenly";
      if (is_complete_) certificate.proof = "no chain of downsets below the bound";
      outcome.status = SolveStatus::kLimit;
      if (best_plan_) {
        certificate.objective = best_;
        const bool is_optimal =
            best_ <= *certificate.lower_bound * (1 + std::max(kExact, options_.search.tolerance));
        outcome.status = is_optimal ? SolveStatus::kOptimal : SolveStatus::kFeasible;
        outcome.plan = std::move(best_plan_);
      }
    }
    result_.num_pairs = pairs_at_start_ - pairs_left_;
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
  LineBalancer* line_ = nullptr;  // where stages are those of a line
  bool is_complete_ = false;
  double lower_bound_ = 0;  // of the slowest stage
  double sum_bound_ = 0;    // of the sum
  double batch_bound_ = 0;  // of the batch
  double best_ = kUnlimited;
  std::optional<PipelinePlan> best_plan_;
  bool is_infeasible_ = false;
  std::string proof_;
  Explanation explanation_;
  ChainStop stop_ = ChainStop::kFinished;
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
    return Planner(model, options, context).run();
  }
  const ReducedPipeline reduced = drop_free_operators(model);
  PipelineSearch search = Planner(reduced.model, options, context).run();
  if (search.outcome.plan) {
    search.outcome.plan = restore_operators(model, reduced, *search.outcome.plan);
  }
  return search;
}

}  // namespace plimsoll::partition
