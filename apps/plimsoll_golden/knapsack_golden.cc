#include "knapsack_golden.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <string>
#include <string_view>
#include <utility>

#include "checkpoint/torch/exact_knapsack.h"
#include "checkpoint/torch/knapsack.h"
#include "checkpoint/torch/knapsack_evaluator.h"

namespace plimsoll::golden {
namespace {

using checkpoint::GraphInfo;
using checkpoint::KnapsackChoice;
using checkpoint::KnapsackProblem;

std::string exception_name(const Error& error) {
  if (error.code == ErrorCode::kZeroDivision) return "ZeroDivisionError";
  if (error.code == ErrorCode::kOverflow) return "OverflowError";
  return "ValueError";
}

Json write(const Result<KnapsackChoice>& choice) {
  if (!choice) return exception_name(choice.error());
  return {choice->saved_runtime, choice->saved, choice->recomputed};
}

KnapsackProblem read_problem(Fields& record) {
  return {record.need<std::vector<double>>("memory"), record.need<std::vector<double>>("runtimes"),
          record.need<double>("max_memory")};
}

// ---------------------------------------------------------------------------- functorch_knapsack

bool is_permutation(const std::vector<int>& a, const std::vector<int>& b) {
  return a.size() == b.size() && std::is_permutation(a.begin(), a.end(), b.begin());
}

// The recorded sets in their recorded order, where ours are the same sets.
void write_sets(const KnapsackChoice& recorded, const KnapsackChoice& ours, Json& answer) {
  answer["saved"] = is_permutation(ours.saved, recorded.saved) ? recorded.saved : ours.saved;
  answer["recomputed"] =
      is_permutation(ours.recomputed, recorded.recomputed) ? recorded.recomputed : ours.recomputed;
}

Json answer_functorch(Fields& record) {
  const KnapsackProblem problem = read_problem(record);
  const KnapsackChoice recorded{record.need<double>("value"),
                                record.need<std::vector<int>>("saved"),
                                record.need<std::vector<int>>("recomputed")};
  if (record.reading().error) return Json();
  Json answer;
  for (auto* solver : {checkpoint::dp_knapsack, checkpoint::hirschberg_knapsack,
                       checkpoint::fixed_hirschberg_knapsack}) {
    const auto ours = solver(problem);
    if (!ours) {
      answer["exception"] = exception_name(ours.error());
      return answer;
    }
    answer["value"] = ours->saved_runtime;
    write_sets(recorded, *ours, answer);
    if (answer["value"] != recorded.saved_runtime || answer["saved"] != recorded.saved) break;
  }
  return answer;
}

// ---------------------------------------------------------------------------- knapsack

// What scipy found, where ours has the same value; its sets may be others of that value.
Json answer_ilp(const Json* recorded, const Result<KnapsackChoice>& ours) {
  constexpr double kGap = 1e-4;
  const bool has_value = recorded != nullptr && recorded->is_array() && !recorded->empty() &&
                         (*recorded)[0].is_number();
  if (!has_value || !ours) return write(ours);
  const double value = (*recorded)[0].get<double>();
  return std::abs(ours->saved_runtime - value) <= kGap * std::abs(value) ? *recorded : write(ours);
}

Json answer_knapsack(Fields& record) {
  const KnapsackProblem problem = read_problem(record);
  record.child("kind");
  if (record.reading().error) return Json();
  Json answer;
  answer["greedy"] = write(checkpoint::greedy_knapsack(problem));
  answer["ilp"] = answer_ilp(record.child("ilp"), checkpoint::ilp_knapsack(problem));
  answer["dp"] = write(checkpoint::dp_knapsack(problem));
  answer["hirschberg"] = write(checkpoint::hirschberg_knapsack(problem));
  const auto exact = checkpoint::exact_knapsack(problem);
  answer["exact_value"] =
      exact ? Json(exact->plan->saved_runtime) : Json(exception_name(exact.error()));
  return answer;
}

// ---------------------------------------------------------------------------- knapsack_evaluation

GraphInfo read_graph(Fields& record) {
  GraphInfo info;
  info.nodes = record.need<std::vector<std::string>>("nodes");
  for (const std::vector<int>& edge : record.need<std::vector<std::vector<int>>>("edges")) {
    if (edge.size() == 2) {
      info.edges.emplace_back(edge[0], edge[1]);
    } else {
      record.reject("edges", edge);
    }
  }
  info.candidates = record.need<std::vector<int>>("candidates");
  info.memory = record.need<std::vector<double>>("memory");
  info.runtimes = record.need<std::vector<double>>("runtimes");
  return info;
}

Json write(const checkpoint::KnapsackEvaluation& evaluation) {
  return {evaluation.peak_memory,
          evaluation.recomputation_runtime,
          evaluation.non_ac_peak_memory,
          evaluation.theoretical_max_runtime,
          evaluation.percentage_of_theoretical_peak_memory,
          evaluation.percentage_of_theoretical_peak_runtime};
}

Json answer_evaluation(Fields& record) {
  const GraphInfo info = read_graph(record);
  const KnapsackChoice choice{0, record.need<std::vector<int>>("saved"),
                              record.need<std::vector<int>>("recomputed")};
  const auto max_memory = record.need<double>("max_memory");
  if (record.reading().error) return Json();
  if (auto valid = checkpoint::validate(info); !valid) {
    record.reading().error = valid.error();
    return Json();
  }
  const checkpoint::BackwardRules rules;
  const auto plain = checkpoint::evaluate(info, choice);
  const auto backward = checkpoint::evaluate(info, choice, &rules);
  Json answer;
  if (!plain || !backward) {
    answer["exception"] = plain ? exception_name(backward.error()) : exception_name(plain.error());
    return answer;
  }
  answer["plain"] = write(*plain);
  answer["backward"] = write(*backward);
  std::vector<char> is_saved(info.candidates.size(), 0);
  for (int i : choice.saved) is_saved[i] = 1;
  answer["trace"] = Json::array();
  for (const auto& step : checkpoint::simulate_backward(info, checkpoint::make_path_graph(info),
                                                        is_saved, plain->peak_memory, rules)) {
    answer["trace"].push_back(step.memory);
  }
  const auto knee = checkpoint::find_knee_budget(info, checkpoint::dp_knapsack,
                                                 {.max_memory_budget = max_memory});
  answer["knee"] = knee ? Json(*knee) : Json(exception_name(knee.error()));
  answer["dynamic"] = write(checkpoint::dynamic_memory_budget_dp(info, max_memory));
  return answer;
}

}  // namespace

std::span<const Kind> knapsack_kinds() {
  static const std::vector<Kind> kKinds = {
      {"functorch_knapsack", answer_functorch, {"value", "saved", "recomputed", "exception"}},
      {"knapsack", answer_knapsack, {"greedy", "ilp", "dp", "hirschberg", "exact_value"}},
      {"knapsack_evaluation",
       answer_evaluation,
       {"plain", "backward", "trace", "knee", "dynamic", "exception"}},
  };
  return kKinds;
}

Json name_knapsack_fields(Json document) {
  constexpr std::array<std::string_view, 6> kNames = {"memory", "runtimes", "max_memory",
                                                      "value",  "saved",    "recomputed"};
  const auto rows = document.is_object() ? document.find("functorch_knapsack") : document.end();
  if (rows == document.end() || !rows->is_array()) return document;
  for (Json& row : *rows) {
    if (!row.is_array() || row.size() != kNames.size()) continue;
    Json record;
    for (std::size_t i = 0; i < kNames.size(); ++i) record[std::string(kNames[i])] = row[i];
    row = std::move(record);
  }
  return document;
}

}  // namespace plimsoll::golden
