#include "partition/pipeline/free_operators.h"

#include <algorithm>
#include <set>

namespace plimsoll::partition {
namespace {

// Joining more pairs than that is not worth it.
constexpr std::size_t kMaxPairs = 64;

bool is_free_choice(const PipelineModel& model, const OperatorVariant& choice) {
  return choice.time_ms == 0 && choice.parameters == 0 &&
         std::all_of(choice.sync.begin(), choice.sync.end(), [](double s) { return s == 0; }) &&
         (!model.memory_cap || (choice.per_microbatch == 0 && choice.memory == 0));
}

// The first free choice of a degree; -1: there is none.
int find_free_choice(const PipelineModel& model, int op, int degree) {
  const auto* choices = find_choices(model.operators[op], degree);
  if (choices == nullptr) return -1;
  for (std::size_t i = 0; i < choices->size(); ++i) {
    if (is_free_choice(model, (*choices)[i])) return static_cast<int>(i);
  }
  return -1;
}

std::vector<char> find_free_operators(const PipelineModel& model) {
  std::set<int> degrees;
  for (const PipelineOperator& op : model.operators) {
    for (const TensorParallelChoices& entry : op.degrees) degrees.insert(entry.degree);
  }
  std::vector<char> is_free(model.operators.size(), 1);
  for (int op = 0; op < model.num_operators(); ++op) {
    for (const int degree : degrees) {
      if (find_free_choice(model, op, degree) < 0) is_free[op] = 0;
    }
  }
  for (const PipelineEdge& edge : model.edges) {
    if (edge.bytes > 0) is_free[edge.source] = is_free[edge.dest] = 0;
  }
  // A reader may gather what a free operator hands it.
  const auto touching = edges_of_operators(model);
  for (int op = 0; op < model.num_operators(); ++op) {
    for (const TensorParallelChoices& entry : model.operators[op].degrees) {
      for (const OperatorVariant& choice : entry.choices) {
        for (std::size_t e = 0; e < choice.sync.size(); ++e) {
          const PipelineEdge& edge = model.edges[touching[op][e]];
          if (choice.sync[e] > 0) is_free[edge.source] = is_free[edge.dest] = 0;
        }
      }
    }
  }
  return is_free;
}

class Reduction {
 public:
  explicit Reduction(const PipelineModel& model)
      : model_(model),
        before_(model.operators.size()),
        after_(model.operators.size()),
        place_(model.operators.size(), -1) {
    for (const PipelineEdge& edge : model.edges) {
      before_[edge.dest].insert(edge.source);
      after_[edge.source].insert(edge.dest);
    }
    reduced_.model = model;
    reduced_.model.operators.clear();
    reduced_.model.edges.clear();
  }

  ReducedPipeline run() {
    drop_operators();
    const std::vector<std::size_t> num_new = join_edges();
    shorten_sync(num_new);
    return std::move(reduced_);
  }

 private:
  // What comes before a free operator leads to what comes after it, where that makes few pairs.
  void drop_operators() {
    std::vector<char> is_free = find_free_operators(model_);
    const auto num_costly = std::count(is_free.begin(), is_free.end(), 0);
    if (num_costly == 0) is_free.front() = 0;
    for (int op = 0; op < model_.num_operators(); ++op) {
      if (is_free[op] != 0 && before_[op].size() * after_[op].size() <= kMaxPairs) {
        bypass(op);
        continue;
      }
      place_[op] = static_cast<int>(reduced_.kept.size());
      reduced_.kept.push_back(op);
      reduced_.model.operators.push_back(model_.operators[op]);
    }
  }

  void bypass(int op) {
    for (const int p : before_[op]) {
      after_[p].erase(op);
      after_[p].insert(after_[op].begin(), after_[op].end());
    }
    for (const int s : after_[op]) {
      before_[s].erase(op);
      before_[s].insert(before_[op].begin(), before_[op].end());
    }
  }

  bool is_kept(const PipelineEdge& edge) const {
    return place_[edge.source] >= 0 && place_[edge.dest] >= 0;
  }

  // Old edges first, in their order: what operators gather goes by it. [kept] how many are new.
  std::vector<std::size_t> join_edges() {
    for (const PipelineEdge& edge : model_.edges) {
      if (!is_kept(edge)) continue;
      reduced_.model.edges.push_back({place_[edge.source], place_[edge.dest], edge.bytes});
      after_[edge.source].erase(edge.dest);
    }
    std::vector<std::size_t> num_new(reduced_.kept.size(), 0);
    for (const int op : reduced_.kept) {
      for (const int other : after_[op]) {
        reduced_.model.edges.push_back({place_[op], place_[other], 0});
        ++num_new[place_[op]];
        ++num_new[place_[other]];
      }
    }
    return num_new;
  }

  // Nothing is gathered along new edges.
  void shorten_sync(const std::vector<std::size_t>& num_new) {
    const auto touching = edges_of_operators(model_);
    for (std::size_t i = 0; i < reduced_.kept.size(); ++i) {
      const auto& edges = touching[reduced_.kept[i]];
      for (TensorParallelChoices& entry : reduced_.model.operators[i].degrees) {
        for (OperatorVariant& choice : entry.choices) {
          if (choice.sync.empty()) continue;
          std::vector<double> sync;
          for (std::size_t e = 0; e < choice.sync.size(); ++e) {
            if (is_kept(model_.edges[edges[e]])) sync.push_back(choice.sync[e]);
          }
          sync.insert(sync.end(), num_new[i], 0);
          choice.sync = std::move(sync);
        }
      }
    }
  }

  const PipelineModel& model_;
  std::vector<std::set<int>> before_, after_;  // [num_operators] beside each, free ones bypassed
  std::vector<int> place_;                     // [num_operators] among the kept ones, -1: dropped
  ReducedPipeline reduced_;
};

}  // namespace

ReducedPipeline drop_free_operators(const PipelineModel& model) { return Reduction(model).run(); }

PipelinePlan restore_operators(const PipelineModel& original, const ReducedPipeline& reduced,
                               const PipelinePlan& plan) {
  const int last = static_cast<int>(plan.stages.size()) - 1;
  std::vector<int> stage_of(original.operators.size(), -1);
  std::vector<int> choice_of(original.operators.size(), 0);
  for (int s = 0; s <= last; ++s) {
    for (std::size_t i = 0; i < plan.stages[s].operators.size(); ++i) {
      const int op = reduced.kept[plan.stages[s].operators[i]];
      stage_of[op] = s;
      choice_of[op] = plan.stages[s].choices[i];
    }
  }
  // Readers before what they read: an operator left out stands with its first reader.
  const auto touching = edges_of_operators(original);
  std::vector<int> missing(original.operators.size());
  for (const PipelineEdge& edge : original.edges) ++missing[edge.source];
  std::vector<int> ready;
  for (int op = 0; op < original.num_operators(); ++op) {
    if (missing[op] == 0) ready.push_back(op);
  }
  while (!ready.empty()) {
    const int op = ready.back();
    ready.pop_back();
    const bool is_left_out = stage_of[op] < 0;
    if (is_left_out) stage_of[op] = last;
    for (const int e : touching[op]) {
      const PipelineEdge& edge = original.edges[e];
      if (edge.source == op && is_left_out) {
        stage_of[op] = std::min(stage_of[op], stage_of[edge.dest]);
      }
      if (edge.dest == op && --missing[edge.source] == 0) ready.push_back(edge.source);
    }
    if (is_left_out) {
      choice_of[op] = find_free_choice(original, op, plan.stages[stage_of[op]].tensor_parallel);
    }
  }
  PipelinePlan whole = plan;
  for (PipelineStage& stage : whole.stages) {
    stage.operators.clear();
    stage.choices.clear();
  }
  for (int op = 0; op < original.num_operators(); ++op) {
    whole.stages[stage_of[op]].operators.push_back(op);
    whole.stages[stage_of[op]].choices.push_back(choice_of[op]);
  }
  return whole;
}

}  // namespace plimsoll::partition
