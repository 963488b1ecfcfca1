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

}  // namespace

ReducedPipeline drop_free_operators(const PipelineModel& model) {
  std::vector<char> is_free = find_free_operators(model);
  std::vector<std::set<int>> before(model.operators.size());
  std::vector<std::set<int>> after(model.operators.size());
  for (const PipelineEdge& edge : model.edges) {
    before[edge.dest].insert(edge.source);
    after[edge.source].insert(edge.dest);
  }
  ReducedPipeline reduced;
  reduced.model = model;
  reduced.model.operators.clear();
  reduced.model.edges.clear();
  std::vector<int> place(model.operators.size(), -1);
  const auto num_costly = std::count(is_free.begin(), is_free.end(), 0);
  if (num_costly == 0) is_free.front() = 0;
  for (int op = 0; op < model.num_operators(); ++op) {
    if (is_free[op] != 0 && before[op].size() * after[op].size() <= kMaxPairs) {
      for (const int p : before[op]) {
        after[p].erase(op);
        after[p].insert(after[op].begin(), after[op].end());
      }
      for (const int s : after[op]) {
        before[s].erase(op);
        before[s].insert(before[op].begin(), before[op].end());
      }
      continue;
    }
    place[op] = static_cast<int>(reduced.kept.size());
    reduced.kept.push_back(op);
    reduced.model.operators.push_back(model.operators[op]);
  }
  // Old edges first, in their order: what operators gather goes by it.
  const auto touching = edges_of_operators(model);
  for (const PipelineEdge& edge : model.edges) {
    if (place[edge.source] < 0 || place[edge.dest] < 0) continue;
    reduced.model.edges.push_back({place[edge.source], place[edge.dest], edge.bytes});
    after[edge.source].erase(edge.dest);
  }
  std::vector<std::size_t> num_new(reduced.kept.size(), 0);
  for (const int op : reduced.kept) {
    for (const int other : after[op]) {
      reduced.model.edges.push_back({place[op], place[other], 0});
      ++num_new[place[op]];
      ++num_new[place[other]];
    }
  }
  for (std::size_t i = 0; i < reduced.kept.size(); ++i) {
    const int op = reduced.kept[i];
    for (TensorParallelChoices& entry : reduced.model.operators[i].degrees) {
      for (OperatorVariant& choice : entry.choices) {
        if (choice.sync.empty()) continue;
        std::vector<double> sync;
        for (std::size_t e = 0; e < choice.sync.size(); ++e) {
          const PipelineEdge& edge = model.edges[touching[op][e]];
          if (place[edge.source] >= 0 && place[edge.dest] >= 0) sync.push_back(choice.sync[e]);
        }
        sync.insert(sync.end(), num_new[i], 0);
        choice.sync = std::move(sync);
      }
    }
  }
  return reduced;
}

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
