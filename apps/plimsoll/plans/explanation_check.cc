#include "plimsoll/plans/explanation_check.h"

#include <optional>
#include <utility>

#include "core/search_record.h"
#include "plimsoll/core/digest.h"
#include "plimsoll/io/module_stats_json.h"
#include "plimsoll/partition/partition_advice.h"
#include "plimsoll/partition/partition_case.h"
#include "plimsoll/partition/partition_searches.h"
#include "plimsoll/shard/shard_flags.h"
#include "plimsoll/shard/shard_remedies.h"
#include "study/checkpoint/policy_advice.h"
#include "study/partition/memory_advice.h"
#include "study/plans/explanation_judging.h"

namespace plimsoll::app {
namespace {

using check::CertificateJudgement;
using study::NoPlan;

template <class Answer>
bool has_explanation(const Answer& answer) {
  return answer.status == SolveStatus::kInfeasible && answer.explanation &&
         *answer.explanation != NoPlan{};
}

std::optional<NoPlan> explain_again(const PlanningFlags& planning,
                                    const study::ShardingAnswer& answer) {
  ShardFlags flags;
  flags.planning = planning;
  const auto request =
      make_recorded_request({answer.provenance->options, answer.provenance->inputs,
                             answer.provenance->stopped_at, answer.provenance->seed},
                            flags);
  if (!request) return std::nullopt;
  const auto run = study::plan_tables(*request, {});
  return run ? explain_no_plan(flags, *request, *run, {}) : std::nullopt;
}

std::optional<NoPlan> explain_again(const checkpoint::ModuleStats& stats,
                                    const CheckpointFlags& recorded,
                                    const study::CheckpointAnswer& answer) {
  const SearchRecord record = search_record_of(answer.provenance);
  const std::string name = record.search.value_or("exact");
  const checkpoint::ModuleStats priced = priced_stats(stats, recorded, name);
  const auto model = make_memory_model(recorded, priced);
  if (!model) return std::nullopt;
  const auto made =
      study::make_checkpoint_case(priced, input_hash(io::write_module_stats(stats)), *model);
  if (!made) return std::nullopt;
  study::CheckpointQuestion question;
  question.budget = answer.budget_bytes;
  question.in_flight = recorded.in_flight;
  for (const auto known : {study::CheckpointSearch::kMilp, study::CheckpointSearch::kTorch}) {
    if (name == to_string(known)) question.search = known;
  }
  question.variant = record.variant.value_or(question.variant);
  question.effort = record.effort.value_or(-1);
  math::MilpOptions limits;
  limits.max_nodes = question.effort >= 0 ? question.effort : study::kMilpNodes;
  const auto again = study::plan_checkpointing(*made, question, limits, {});
  if (!again) return std::nullopt;
  return study::explain_no_policy(*made, question, *again, policy_words(), limits, {});
}

std::optional<NoPlan> explain_again(const PartitionCase& made, const PartitionFlags& flags,
                                    const study::PlacementAnswer& answer) {
  const SearchRecord record = search_record_of(answer.provenance);
  if (!record.search) return std::nullopt;
  const auto search =
      find_partition_search(made, std::string(to_string(answer.objective)), *record.search);
  if (!search) return std::nullopt;
  study::PlacementSearchOptions asked;
  asked.search.seed = answer.provenance->seed;
  asked.search.effort = record.effort.value_or(asked.search.effort);
  asked.search.tolerance = record.tolerance.value_or(asked.search.tolerance);
  asked.variant = record.variant.value_or(asked.variant);
  auto again = search->run(made, asked, {});
  if (!again) return std::nullopt;
  put_memory_advice(made, flags, find_memory_advice(made, *search, asked, {}, *again), *again);
  return again->explanation;
}

}  // namespace

CertificateJudgement judge_explanation(const PlanningFlags& planning,
                                       const study::ShardingAnswer& answer) {
  if (!has_explanation(answer)) return {};
  return study::judge_explanation(
      *answer.explanation, answer.provenance ? explain_again(planning, answer) : std::nullopt);
}

CertificateJudgement judge_explanation(const checkpoint::ModuleStats& stats,
                                       const CheckpointFlags& recorded,
                                       const study::CheckpointAnswer& answer) {
  if (!has_explanation(answer)) return {};
  const bool is_known = answer.provenance && answer.budget_bytes;
  return study::judge_explanation(*answer.explanation,
                                  is_known ? explain_again(stats, recorded, answer) : std::nullopt);
}

CertificateJudgement judge_explanation(const PartitionCase& made, const PartitionFlags& flags,
                                       const study::PlacementAnswer& answer) {
  if (!has_explanation(answer)) return {};
  return study::judge_explanation(
      *answer.explanation, answer.provenance ? explain_again(made, flags, answer) : std::nullopt);
}

}  // namespace plimsoll::app
