// Claims of pipelines whose stages have replicas: of cost graphs, and of profiles.
//
// Method. For every number of stages every operator gets its stage, one after another, no earlier
// than what it reads; then every stage its devices, the last first, as what a device holds depends
// on the stages behind it. What is placed bounds what comes of it: a stage takes no less than its
// work on the most replicas that there may be, and no stage takes less than all work on all
// devices.

#include <algorithm>
#include <cmath>
#include <functional>
#include <map>

#include "check/partition/placement_claims.h"
#include "check/partition/placement_order.h"
#include "core/check.h"
#include "plimsoll/check/pipeline_check.h"
#include "plimsoll/check/replicated_stages_check.h"
#include "plimsoll/core/numbers.h"

namespace plimsoll::check {
namespace {

using partition::CostGraph;
using partition::PipelineModel;
using partition::PipelinePlan;
using partition::PipelineTerms;
using partition::ReplicatedStages;

// Sum of stages + (n - 1) * the slowest; of objective throughput the slowest alone.
struct Value {
  double of_sum = 1, of_slowest = 0;
  double operator()(double sum, double slowest) const {
    return of_sum * sum + of_slowest * slowest;
  }
};

// All ways to number the stages of items, of which (a, b) says that a stands no later than b.
class StageSearch {
 public:
  StageSearch(int num_items, std::vector<std::pair<int, int>> order)
      : stage_of(num_items, -1), order_(std::move(order)) {}

  std::vector<int> stage_of;                            // [items] -1: none yet
  std::function<bool(int num_stages)> is_hopeless;      // of what has a stage
  std::function<void(int num_stages)> try_all_devices;  // of a whole numbering
  SearchedBelow result;

  void run(int max_stages) {
    result.is_complete = true;
    for (int count = 1; count <= max_stages && !is_over(); ++count) number(0, count);
  }
  bool is_over() const { return result.found || !result.is_complete; }
  std::int64_t steps_of_state = 1;  // of is_hopeless(), and of a whole plan's judge
  void count_state() {
    ++result.num_states;
    num_steps_ += steps_of_state;
    if (num_steps_ > kMaxSteps) result.is_complete = false;
  }

 private:
  void number(std::size_t next, int num_stages) {
    count_state();
    if (is_over() || is_hopeless(num_stages)) return;
    if (next == stage_of.size()) {
      for (int s = 0; s < num_stages; ++s) {
        if (std::count(stage_of.begin(), stage_of.end(), s) == 0) return;
      }
      try_all_devices(num_stages);
      return;
    }
    const int item = static_cast<int>(next);
    for (int s = 0; s < num_stages && !is_over(); ++s) {
      const bool is_ordered = std::all_of(order_.begin(), order_.end(), [&](const auto& pair) {
        const auto [a, b] = pair;
        if (a == item && stage_of[b] >= 0) return s <= stage_of[b];
        if (b == item && stage_of[a] >= 0) return stage_of[a] <= s;
        return true;
      });
      if (!is_ordered) continue;
      stage_of[next] = s;
      number(next + 1, num_stages);
      stage_of[next] = -1;
    }
  }

  const std::vector<std::pair<int, int>> order_;
  std::int64_t num_steps_ = 0;
};

// Whole numbers of replicas that a batch can be shared by.
std::vector<int> replica_counts(int num_microbatches, int most) {
  std::vector<int> counts;
  for (int d = 1; d <= most; ++d) {
    if (num_microbatches == 0 || num_microbatches % d == 0) counts.push_back(d);
  }
  return counts;
}

// ---------------------------------------------------------------- cost graphs

class BatchSearch {
 public:
  BatchSearch(const CostGraph& graph, const PipelineTerms& terms)
      : graph_(graph),
        terms_(terms),
        value_{1, terms.num_microbatches - 1.0},
        item_of_(graph.nodes.size()) {
    std::map<std::int64_t, int> of_colour;
    for (int node = 0; node < graph.num_nodes(); ++node) {
      const auto& colour = graph.nodes[node].colour;
      int item = static_cast<int>(items_.size());
      if (colour) item = of_colour.emplace(*colour, item).first->second;
      if (item == static_cast<int>(items_.size())) items_.emplace_back();
      items_[item].push_back(node);
      item_of_[node] = item;
      has_rules_ |= graph.nodes[node].pinned_device || !graph.nodes[node].forbidden_devices.empty();
    }
    most_replicas_ = std::min(replica_limit(graph, terms), graph.num_devices());
    for (const auto& item : items_) {
      double least = kInfinity;
      for (std::size_t c = 0; c < graph.classes.size(); ++c)
        least = std::min(least, work_of(item, c));
      work_ += least;
    }
  }

  double simple_bound() const { return bound_of(work_, 0); }
  bool has_rules() const { return has_rules_; }

  SearchedBelow run(double limit) {
    limit_ = limit;
    std::vector<std::pair<int, int>> order;
    for (const auto& [a, b] : placement_order(graph_)) {
      if (item_of_[a] != item_of_[b]) order.emplace_back(item_of_[a], item_of_[b]);
    }
    StageSearch search(static_cast<int>(items_.size()), std::move(order));
    search_ = &search;
    search.steps_of_state =
        static_cast<std::int64_t>(graph_.nodes.size() + graph_.nets.size()) * graph_.num_devices();
    search.is_hopeless = [&](int num_stages) { return is_hopeless(num_stages); };
    search.try_all_devices = [&](int num_stages) {
      std::vector<int> left;
      for (const auto& devices : graph_.classes) left.push_back(devices.count);
      ReplicatedStages placement;
      placement.stages.resize(num_stages);
      place(num_stages - 1, left, 0, 0, placement);
    };
    search.run(std::min<int>(static_cast<int>(items_.size()), graph_.num_devices()));
    return search.result;
  }

 private:
  double work_of(const std::vector<int>& nodes, std::size_t c) const {
    double ms = 0;
    for (const int node : nodes) ms += graph_.nodes[node].time_ms[c];
    return ms;
  }

  // Of work in all, and the most that one stage is known to have.
  double bound_of(double work, double most) const {
    const double slowest = std::max(work / graph_.num_devices(), most / most_replicas_);
    return value_(work / most_replicas_, slowest);
  }

  // Work and what is moved for certain of a stage, on one replica of a class.
  double stage_ms(int stage, std::size_t c) const {
    double ms = 0;
    for (std::size_t item = 0; item < items_.size(); ++item) {
      if (search_->stage_of[item] == stage) ms += work_of(items_[item], c);
    }
    for (const partition::Net& net : graph_.nets) {
      bool has_inside = false, has_outside = false;
      const auto look = [&](int node) {
        const int s = search_->stage_of[item_of_[node]];
        has_inside |= s == stage;
        has_outside |= s >= 0 && s != stage;
      };
      look(net.producer);
      for (const int reader : net.consumers) look(reader);
      if (has_inside && has_outside) ms += net.amount / graph_.classes[c].link_rate;
    }
    return ms;
  }

  bool is_hopeless(int num_stages) const {
    double sum = 0, most = 0;
    for (int s = 0; s < num_stages; ++s) {
      double least = kInfinity;
      for (std::size_t c = 0; c < graph_.classes.size(); ++c) {
        if (graph_.classes[c].count > 0) least = std::min(least, stage_ms(s, c));
      }
      sum += least;
      most = std::max(most, least);
    }
    return bound_of(std::max(sum, work_), most) >= limit_;
  }

  void place(int stage, std::vector<int>& left, double sum, double slowest,
             ReplicatedStages& placement) {
    search_->count_state();
    if (search_->is_over()) return;
    if (stage < 0) {
      const auto judged = check_replicated_stages(graph_, terms_, placement);
      if (!judged || !judged->is_right()) return;
      if (*judged->batch_ms < limit_) {
        search_->result.found = judged->batch_ms;
      } else if (!graph_.pair_rates.empty()) {
        search_->result.is_complete = false;  // other devices of the class may talk faster
      }
      return;
    }
    std::vector<int>& nodes = placement.stages[stage].nodes;
    nodes.clear();
    for (int node = 0; node < graph_.num_nodes(); ++node) {
      if (search_->stage_of[item_of_[node]] == stage) nodes.push_back(node);
    }
    int first = 0;
    for (std::size_t c = 0; c < graph_.classes.size(); ++c) {
      const int end = first + graph_.classes[c].count;
      const double ms = stage_ms(stage, c);
      for (const int d :
           replica_counts(terms_.num_microbatches, std::min(left[c], most_replicas_))) {
        const double own = ms / d;
        if (value_(sum + own, std::max(slowest, own)) >= limit_) continue;
        placement.stages[stage].devices.clear();
        for (int k = 0; k < d; ++k) placement.stages[stage].devices.push_back(end - left[c] + k);
        left[c] -= d;
        place(stage - 1, left, sum + own, std::max(slowest, own), placement);
        left[c] += d;
        if (search_->is_over()) return;
      }
      first = end;
    }
  }

  const CostGraph& graph_;
  const PipelineTerms& terms_;
  const Value value_;
  std::vector<int> item_of_;             // [nodes]
  std::vector<std::vector<int>> items_;  // nodes that share a stage
  bool has_rules_ = false;
  int most_replicas_ = 1;
  double work_ = 0, limit_ = 0;
  StageSearch* search_ = nullptr;
};

// ---------------------------------------------------------------- profiles

class ProfileSearch {
 public:
  ProfileSearch(const PipelineModel& model, bool is_batch, bool is_straight)
      : model_(model), most_replicas_(is_straight ? 1 : model.num_devices) {
    if (is_batch) {
      value_ = {1, model.num_microbatches.value_or(1) - 1.0};
    } else {
      value_ = {0, 1};
    }
    for (const partition::PipelineOperator& op : model.operators) {
      double work = kInfinity, ms = kInfinity;
      for (const auto& degree : op.degrees) {
        for (const auto& choice : degree.choices) {
          work = std::min(work, degree.degree * choice.time_ms);
          ms = std::min(ms, choice.time_ms);
        }
      }
      work_ += work;
      least_ms_.push_back(ms);
    }
  }

  double simple_bound() const {
    double sum = 0;
    for (const double ms : least_ms_) sum += ms;
    return value_(sum / most_replicas_, work_ / model_.num_devices);
  }

  SearchedBelow run(double limit) {
    limit_ = limit;
    std::vector<std::pair<int, int>> order;
    for (const auto& edge : model_.edges) order.emplace_back(edge.source, edge.dest);
    StageSearch search(model_.num_operators(), std::move(order));
    search_ = &search;
    search.steps_of_state = static_cast<std::int64_t>(
        (model_.operators.size() + model_.edges.size()) *
        std::min<std::size_t>(model_.operators.size(), model_.num_devices));
    search.is_hopeless = [&](int num_stages) { return is_hopeless(num_stages); };
    search.try_all_devices = [&](int num_stages) {
      PipelinePlan plan;
      plan.stages.resize(num_stages);
      place(num_stages - 1, model_.num_devices, plan);
    };
    search.run(std::min(model_.num_operators(), model_.num_devices));
    return search.result;
  }

 private:
  bool is_hopeless(int num_stages) const {
    double sum = 0, most = 0;
    for (int s = 0; s < num_stages; ++s) {
      double ms = 0;
      for (std::size_t op = 0; op < least_ms_.size(); ++op) {
        if (search_->stage_of[op] == s) ms += least_ms_[op];
      }
      for (const auto& edge : model_.edges) {
        const int a = search_->stage_of[edge.source], b = search_->stage_of[edge.dest];
        if (a >= 0 && b >= 0 && a != b && (a == s || b == s))
          ms += 2 * edge.bytes / model_.bandwidth;
      }
      sum += ms;
      most = std::max(most, ms);
    }
    const double slowest = std::max(most / most_replicas_, work_ / model_.num_devices);
    return value_(sum / most_replicas_, slowest) >= limit_;
  }

  // Replicas and degree of the stage, and of those before it.
  void place(int stage, int left, PipelinePlan& plan) {
    search_->count_state();
    if (search_->is_over()) return;
    if (stage < 0) {
      choose(0, 0, plan);
      return;
    }
    partition::PipelineStage& own = plan.stages[stage];
    own.operators.clear();
    for (int op = 0; op < model_.num_operators(); ++op) {
      if (search_->stage_of[op] == stage) own.operators.push_back(op);
    }
    own.choices.assign(own.operators.size(), 0);
    for (int t = 1; t <= left - stage; ++t) {
      const bool is_known = std::all_of(own.operators.begin(), own.operators.end(), [&](int op) {
        return find_choices(model_.operators[op], t) != nullptr;
      });
      if (!is_known) continue;
      const int most = std::min((left - stage) / t, most_replicas_);
      for (const int d : replica_counts(model_.num_microbatches.value_or(0), most)) {
        own.data_parallel = d;
        own.tensor_parallel = t;
        place(stage - 1, left - d * t, plan);
        if (search_->is_over()) return;
      }
    }
  }

  // Of every operator each of its choices.
  void choose(std::size_t stage, std::size_t place, PipelinePlan& plan) {
    if (stage == plan.stages.size()) {
      search_->count_state();
      const auto judged = check_pipeline(model_, plan);
      if (!judged || !judged->is_right()) return;
      const double value = value_(judged->sum_ms, judged->slowest_ms);
      if (value < limit_) search_->result.found = value;
      return;
    }
    partition::PipelineStage& own = plan.stages[stage];
    if (place == own.operators.size()) {
      choose(stage + 1, 0, plan);
      return;
    }
    const auto& choices =
        *find_choices(model_.operators[own.operators[place]], own.tensor_parallel);
    for (std::size_t c = 0; c < choices.size() && !search_->is_over(); ++c) {
      own.choices[place] = static_cast<int>(c);
      choose(stage, place + 1, plan);
    }
  }

  const PipelineModel& model_;
  const int most_replicas_;
  Value value_;
  double work_ = 0, limit_ = 0;
  std::vector<double> least_ms_;  // [operators]
  StageSearch* search_ = nullptr;
};

}  // namespace

CertificateJudgement judge_batch_claims(const CostGraph& graph, const PipelineTerms& terms,
                                        const CertificateClaims& claims,
                                        std::optional<double> value) {
  PLIMSOLL_CHECK(validate(graph).has_value() && validate(graph, terms).has_value(),
                 "graph and terms are valid");
  KnownOptimum known;
  known.value = value;
  BatchSearch search(graph, terms);
  if (std::isfinite(search.simple_bound())) {
    known.bound = search.simple_bound();
    known.proof = "all work shared evenly by all devices takes as long";
  }
  if (const auto limit = searched_limit(claims, known)) {
    if (search.has_rules()) {
      known.obstacle = "pipelines with pinned or forbidden devices are not searched by the checker";
    } else {
      note_search(search.run(*limit), claims, known);
    }
  }
  return judge_certificate(claims, known);
}

CertificateJudgement judge_profile_claims(const PipelineModel& model, bool is_batch,
                                          bool is_straight, const CertificateClaims& claims,
                                          std::optional<double> value) {
  PLIMSOLL_CHECK(validate(model).has_value(), "the model is valid");
  KnownOptimum known;
  known.value = value;
  ProfileSearch search(model, is_batch, is_straight);
  known.bound = search.simple_bound();
  known.proof = "all work shared evenly by all devices takes as long";
  if (const auto limit = searched_limit(claims, known))
    note_search(search.run(*limit), claims, known);
  return judge_certificate(claims, known);
}

}  // namespace plimsoll::check
