#include "study/checkpoint/policy_advice.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>
#include <vector>

#include "math/least_conflict.h"
#include "study/checkpoint/checkpoint_record.h"

namespace plimsoll::study {
namespace {

using checkpoint::MemoryModel;

constexpr int kMaxPolicyQuestions = 60;
constexpr Bytes kNoBudget = Bytes{1} << 61;
constexpr int kMaxTimesPolicyRanks = 64;
constexpr int kMaxSegment = 8;

// One thing that was asked for, and how it is given up.
struct Demand {
  std::string kind, field, value;
  std::function<void(MemoryModel&, CheckpointQuestion&)> drop;
};

std::string joined(const std::vector<std::string>& names) {
  return fmt::format("{}", fmt::join(names, ", "));
}

// The budget last, so that it stays in the conflict.
std::vector<Demand> demands_of(const MemoryModel& model, const CheckpointQuestion& question) {
  std::vector<Demand> demands;
  const auto add = [&](std::string kind, std::string field, std::string value,
                       std::function<void(MemoryModel&, CheckpointQuestion&)> drop) {
    demands.push_back({std::move(kind), std::move(field), std::move(value), std::move(drop)});
  };
  if (!model.ac_units.empty()) {
    add("constraint", "ac_units", joined(model.ac_units),
        [](MemoryModel& of, CheckpointQuestion&) { of.ac_units.clear(); });
  }
  if (!model.fsdp_units.empty()) {
    add("constraint", "fsdp_units", joined(model.fsdp_units),
        [](MemoryModel& of, CheckpointQuestion&) {
          of.fsdp_units.clear();
          of.fsdp_buffers = false;
        });
  }
  for (const MemoryRepair& repair : memory_repairs()) {
    if (!(model.*repair.is_on)) continue;
    add("option", std::string(repair.name), "",
        [is_on = repair.is_on](MemoryModel& of, CheckpointQuestion&) { of.*is_on = false; });
  }
  if (model.optimizer_bytes > 0) {
    add("option", "optimizer_bytes", fmt::format("{}", model.optimizer_bytes),
        [](MemoryModel& of, CheckpointQuestion&) { of.optimizer_bytes = 0; });
  }
  if (question.in_flight > 1) {
    add("option", "in_flight", fmt::format("{}", question.in_flight),
        [](MemoryModel&, CheckpointQuestion& of) { of.in_flight = 1; });
  }
  add("cap", "budget", fmt::format("{}", *question.budget),
      [](MemoryModel&, CheckpointQuestion& of) { of.budget = kNoBudget; });
  return demands;
}

bool has_plan(const CheckpointAnswer& answer) {
  return answer.status == SolveStatus::kOptimal || answer.status == SolveStatus::kFeasible;
}

class PolicyAdviser {
 public:
  PolicyAdviser(const CheckpointCase& made, const CheckpointQuestion& question,
                const CheckpointAnswer& answer, const PolicyWords& words,
                const math::MilpOptions& limits, const RunContext& context)
      : made_(made),
        question_(question),
        answer_(answer),
        words_(words),
        limits_(limits),
        silent_(context.inner()),
        demands_(demands_of(made.problem.model, question)) {}

  NoPlan advise() {
    if (answer_.explanation) none_ = *answer_.explanation;
    find_conflict();
    try_budget();
    for (const Demand& demand : demands_) {
      if (demand.kind != "constraint") continue;  // what memory is counted is not a choice
      try_fix(demand.kind, words_.without(demand.field), demand.drop);
    }
    try_in_flight();
    try_ranks();
    try_segments();
    std::stable_sort(none_.fixes.begin(), none_.fixes.end(),
                     [](const Fix& a, const Fix& b) { return *a.ms < *b.ms; });
    return std::move(none_);
  }

 private:
  using Change = std::function<void(MemoryModel&, CheckpointQuestion&)>;

  std::optional<CheckpointAnswer> plan(const MemoryModel& model,
                                       const CheckpointQuestion& question) const {
    if (silent_.is_cancelled() || silent_.is_past_deadline()) return std::nullopt;
    auto made = make_checkpoint_case(made_.stats, made_.input_hash, model);
    if (!made) return std::nullopt;
    auto answer = plan_checkpointing(*made, question, limits_, silent_);
    return answer ? std::optional(*std::move(answer)) : std::nullopt;
  }

  void find_conflict() {
    const auto ask = [&](const std::vector<bool>& holds) {
      MemoryModel model = made_.problem.model;
      CheckpointQuestion question = question_;
      question.search = CheckpointSearch::kExact;
      for (std::size_t i = 0; i < demands_.size(); ++i) {
        if (!holds[i]) demands_[i].drop(model, question);
      }
      const auto answer = plan(model, question);
      if (!answer) return math::Possibility::kUnknown;
      if (has_plan(*answer)) return math::Possibility::kPossible;
      return answer->status == SolveStatus::kInfeasible ? math::Possibility::kImpossible
                                                        : math::Possibility::kUnknown;
    };
    std::vector<bool> holds(demands_.size(), true);
    if (ask(holds) != math::Possibility::kImpossible) return;  // torch's big-M, not the memory
    holds.back() = false;
    if (ask(holds) == math::Possibility::kPossible) none_.cap = "budget";
    const math::LeastConflict least =
        math::find_least_conflict(demands_.size(), kMaxPolicyQuestions, ask);
    none_.is_irreducible = least.is_irreducible && !least.members.empty();
    for (const std::size_t i : least.members) {
      const Demand& demand = demands_[i];
      none_.conflict.push_back({demand.kind, words_.with(demand.field, demand.value)});
    }
  }

  bool try_fix(const std::string& kind, const std::string& change, const Change& apply) {
    MemoryModel model = made_.problem.model;
    CheckpointQuestion question = question_;
    apply(model, question);
    const auto answer = plan(model, question);
    if (!answer || !has_plan(*answer) || !answer->predicted) return false;
    none_.fixes.push_back({kind, change, answer->predicted->recompute_ms});
    return true;
  }

  void try_budget() {
    if (none_.missing <= 0) return;
    const Bytes budget = *question_.budget + none_.missing;
    try_fix("budget", words_.with("budget", fmt::format("{}", budget)),
            [budget](MemoryModel&, CheckpointQuestion& of) { of.budget = budget; });
  }

  void try_in_flight() {
    for (int count = question_.in_flight - 1; count >= 1; --count) {
      if (try_fix("in_flight", words_.with("in_flight", fmt::format("{}", count)),
                  [count](MemoryModel&, CheckpointQuestion& of) { of.in_flight = count; })) {
        return;
      }
    }
  }

  void try_ranks() {
    const int now = made_.problem.model.world_size;
    for (int times = 2; times <= kMaxTimesPolicyRanks && now <= (1 << 20) / times; times *= 2) {
      const int ranks = now * times;
      if (try_fix("ranks", words_.with("world_size", fmt::format("{}", ranks)),
                  [ranks](MemoryModel& of, CheckpointQuestion&) { of.world_size = ranks; })) {
        return;
      }
    }
  }

  void try_segments() {
    for (int length = 2; length <= kMaxSegment; length *= 2) {
      if (length <= made_.problem.model.max_segment_length) continue;
      if (try_fix(
              "units", words_.with("max_segment_length", fmt::format("{}", length)),
              [length](MemoryModel& of, CheckpointQuestion&) { of.max_segment_length = length; })) {
        return;
      }
    }
    if (made_.problem.model.nested_units) return;
    try_fix("units", words_.with("nested_units", ""),
            [](MemoryModel& of, CheckpointQuestion&) { of.nested_units = true; });
  }

  const CheckpointCase& made_;
  const CheckpointQuestion& question_;
  const CheckpointAnswer& answer_;
  const PolicyWords& words_;
  const math::MilpOptions& limits_;
  RunContext silent_;
  std::vector<Demand> demands_;
  NoPlan none_;
};

}  // namespace

PolicyWords library_policy_words() {
  return {[](const std::string& field) { return "without " + field; },
          [](const std::string& field, const std::string& value) {
            return value.empty() ? field : field + " = " + value;
          }};
}

std::optional<NoPlan> explain_no_policy(const CheckpointCase& made,
                                        const CheckpointQuestion& question,
                                        const CheckpointAnswer& answer, const PolicyWords& words,
                                        const math::MilpOptions& limits,
                                        const RunContext& context) {
  if (answer.status != SolveStatus::kInfeasible || !question.budget) return std::nullopt;
  return PolicyAdviser(made, question, answer, words, limits, context).advise();
}

}  // namespace plimsoll::study
