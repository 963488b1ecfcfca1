#include "plimsoll/check/pipeline_check.h"

#include <algorithm>
#include <cmath>

namespace plimsoll::check {
namespace {

using partition::OperatorVariant;
using partition::PipelineEdge;
using partition::PipelineModel;
using partition::PipelinePlan;
using partition::PipelineStage;
using Code = FindingCode;

class PipelineJudge {
 public:
  PipelineJudge(const PipelineModel& model, const PipelinePlan& plan,
                const PipelineCheckOptions& options)
      : model_(model), plan_(plan), options_(options) {}

  PipelineReport judge() {
    stage_of_.assign(model_.operators.size(), -1);
    choice_of_.assign(model_.operators.size(), nullptr);
    for (std::size_t s = 0; s < plan_.stages.size(); ++s) judge_members(static_cast<int>(s));
    for (int op = 0; op < model_.num_operators(); ++op) {
      if (stage_of_[op] < 0) find(Code::kOperatorMissing, {}, op, "the operator is in no stage");
    }
    judge_order();
    judge_counts();
    for (std::size_t s = 0; s < plan_.stages.size(); ++s) judge_stage(static_cast<int>(s));
    judge_value();
    judge_stated();
    return std::move(report_);
  }

 private:
  void find(Code code, std::optional<int> stage, std::optional<int> op, std::string message) {
    report_.findings.push_back({code, op ? place_of(model_, *op) : std::string(),
                                find_unit(FindingUnit::kStage, stage), "", "", std::move(message)});
  }

  void judge_members(int s) {
    const PipelineStage& stage = plan_.stages[s];
    if (stage.operators.empty()) find(Code::kEmptyStage, s, {}, "the stage has no operator");
    if (stage.data_parallel < 1 || stage.tensor_parallel < 1) {
      find(Code::kBadDegree, s, {}, "a degree is below 1");
    }
    for (std::size_t i = 0; i < stage.operators.size(); ++i) {
      const int op = stage.operators[i];
      if (op < 0 || op >= model_.num_operators()) {
        find(Code::kUnknownOperator, s, {}, "there is no operator " + std::to_string(op));
        continue;
      }
      if (stage_of_[op] >= 0) {
        find(Code::kOperatorTwice, s, op,
             "the operator is in stage " + std::to_string(stage_of_[op]) + " already");
        continue;
      }
      stage_of_[op] = s;
      const int choice = i < stage.choices.size() ? stage.choices[i] : -1;
      for (const auto& degree : model_.operators[op].degrees) {
        if (degree.degree != stage.tensor_parallel) continue;
        if (choice >= 0 && choice < static_cast<int>(degree.choices.size())) {
          choice_of_[op] = &degree.choices[choice];
        }
      }
      if (choice_of_[op] == nullptr) {
        find(Code::kUnknownChoice, s, op,
             "the operator has no choice " + std::to_string(choice) + " on " +
                 std::to_string(stage.tensor_parallel) + " devices");
      }
    }
  }

  void judge_order() {
    for (const PipelineEdge& edge : model_.edges) {
      const int from = stage_of_[edge.source];
      const int to = stage_of_[edge.dest];
      if (from < 0 || to < 0 || from <= to) continue;
      find(Code::kBackwardEdge, from, edge.source,
           "operator " + std::to_string(edge.dest) + " reads it in stage " + std::to_string(to));
    }
  }

  void judge_counts() {
    std::int64_t devices = 0;
    std::int64_t replicas = 0;
    for (std::size_t s = 0; s < plan_.stages.size(); ++s) {
      const PipelineStage& stage = plan_.stages[s];
      devices += std::int64_t{stage.data_parallel} * stage.tensor_parallel;
      replicas += stage.data_parallel;
      if (model_.num_microbatches && stage.data_parallel >= 1 &&
          *model_.num_microbatches % stage.data_parallel != 0) {
        find(Code::kUnevenMicrobatches, static_cast<int>(s), {},
             std::to_string(stage.data_parallel) + " replicas do not divide " +
                 std::to_string(*model_.num_microbatches) + " microbatches");
      }
    }
    report_.num_devices = static_cast<int>(std::min<std::int64_t>(devices, INT32_MAX));
    if (devices > model_.num_devices) {
      find(Code::kTooManyDevices, {}, {},
           std::to_string(devices) + " devices of " + std::to_string(model_.num_devices));
    }
    if (model_.num_microbatches && replicas > *model_.num_microbatches) {
      find(Code::kTooManyMicrobatches, {}, {},
           std::to_string(replicas) + " replicas for " + std::to_string(*model_.num_microbatches) +
               " microbatches");
    }
  }

  void judge_stage(int s) {
    const PipelineStage& stage = plan_.stages[s];
    const double d = std::max(stage.data_parallel, 1);
    std::int64_t behind = 0;  // replicas of this stage and all later ones
    for (std::size_t later = s; later < plan_.stages.size(); ++later) {
      behind += std::max(plan_.stages[later].data_parallel, 1);
    }
    const auto own = static_cast<std::int64_t>(d);
    const std::int64_t in_flight = behind / own + (behind % own != 0 ? 1 : 0);
    double compute = 0;
    double parameters = 0;
    Int128 memory = 0;
    for (std::size_t op = 0; op < stage_of_.size(); ++op) {
      const OperatorVariant* choice = choice_of_[op];
      if (stage_of_[op] != s || choice == nullptr) continue;
      compute += choice->time_ms;
      parameters += static_cast<double>(choice->parameters);
      memory += Int128{choice->per_microbatch} * in_flight + choice->memory;
    }
    // Both ends of a cut edge pay for it, there and back, each with what its devices gather.
    double bytes = 0;
    std::vector<std::size_t> num_seen(model_.operators.size(), 0);
    for (const PipelineEdge& edge : model_.edges) {
      for (const int end : {edge.source, edge.dest}) {
        const std::size_t nth = num_seen[end]++;
        if (stage_of_[end] != s || stage_of_[edge.source] == stage_of_[edge.dest]) continue;
        const OperatorVariant* choice = choice_of_[end];
        const bool has_sync = choice != nullptr && !choice->sync.empty();
        bytes += edge.bytes + (has_sync ? choice->sync[nth] : 0);
      }
    }
    const double rounds = model_.num_microbatches ? *model_.num_microbatches / d : 1;
    report_.compute_ms.push_back(compute / d);
    report_.transfer_ms.push_back(2 * bytes / model_.bandwidth / d);
    report_.sync_ms.push_back(4 * parameters * (d - 1) / (d * d) / rounds / model_.bandwidth);
    report_.in_flight.push_back(static_cast<int>(std::min<std::int64_t>(in_flight, INT32_MAX)));
    report_.memory.push_back(static_cast<Bytes>(std::min<Int128>(memory, INT64_MAX)));
    const double time =
        report_.compute_ms.back() + report_.transfer_ms.back() + report_.sync_ms.back();
    report_.slowest_ms = std::max(report_.slowest_ms, time);
    report_.sum_ms += time;
    if (model_.memory_cap && memory > *model_.memory_cap) {
      find(Code::kOverMemory, s, {},
           std::to_string(report_.memory.back()) + " bytes on devices of " +
               std::to_string(*model_.memory_cap) + ", with " + std::to_string(in_flight) +
               " microbatches in flight");
    }
  }

  void judge_value() {
    if (!options_.stated_slowest_ms) return;
    const double stated = *options_.stated_slowest_ms;
    if (std::abs(stated - report_.slowest_ms) <= 1e-9 * std::abs(report_.slowest_ms)) return;
    find(Code::kValueMismatch, {}, {},
         "stated " + std::to_string(stated) + " ms, found " + std::to_string(report_.slowest_ms));
  }

  static bool is_same(double stated, double found) {
    return std::abs(stated - found) <= 1e-9 * std::abs(found);
  }

  void judge_stated() {
    for (const std::string& contradiction : options_.contradictions) {
      find(Code::kInputsMismatch, {}, {}, contradiction);
    }
    for (std::size_t s = 0; s < options_.stated.size() && s < plan_.stages.size(); ++s) {
      const StatedPipelineStage& stated = options_.stated[s];
      const double time = report_.compute_ms[s] + report_.transfer_ms[s] + report_.sync_ms[s];
      const int stage = static_cast<int>(s);
      if (stated.time_ms && !is_same(*stated.time_ms, time)) {
        find(Code::kStageMismatch, stage, {},
             "stated " + std::to_string(*stated.time_ms) + " ms, found " + std::to_string(time));
      }
      if (stated.in_flight && *stated.in_flight != report_.in_flight[s]) {
        find(Code::kStageMismatch, stage, {},
             "stated " + std::to_string(*stated.in_flight) + " microbatches in flight, found " +
                 std::to_string(report_.in_flight[s]));
      }
      if (stated.memory && *stated.memory != report_.memory[s]) {
        find(Code::kStageMismatch, stage, {},
             "stated " + std::to_string(*stated.memory) + " bytes, found " +
                 std::to_string(report_.memory[s]));
      }
    }
    const auto& certificate = options_.claims.certificate;
    if (!certificate || std::isnan(certificate->objective) || options_.is_of_reference) return;
    const double found = value();
    if (is_same(certificate->objective, found)) return;
    find(
        Code::kObjectiveMismatch, {}, {},
        "stated " + std::to_string(certificate->objective) + " ms, found " + std::to_string(found));
  }

  double value() const { return pipeline_value(model_, report_, options_.is_batch); }

  const PipelineModel& model_;
  const PipelinePlan& plan_;
  const PipelineCheckOptions& options_;
  std::vector<int> stage_of_;                      // [num_operators] -1: none
  std::vector<const OperatorVariant*> choice_of_;  // [num_operators] null: none
  PipelineReport report_;
};

}  // namespace

double pipeline_value(const PipelineModel& model, const PipelineReport& report, bool is_batch) {
  if (!is_batch) return report.slowest_ms;
  return report.sum_ms + (model.num_microbatches.value_or(1) - 1.0) * report.slowest_ms;
}

Result<PipelineReport> check_pipeline(const PipelineModel& model, const PipelinePlan& plan,
                                      const PipelineCheckOptions& options) {
  PLIMSOLL_RETURN_IF_ERROR(partition::validate(model));
  return PipelineJudge(model, plan, options).judge();
}

}  // namespace plimsoll::check
