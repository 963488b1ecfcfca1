// How searches for pipelines end: the same words and tolerances for every graph.
#pragma once

#include <algorithm>
#include <limits>
#include <optional>
#include <string>
#include <utility>

#include "partition/pipeline/pipeline_chain.h"
#include "partition/stages/stage_chain.h"
#include "plimsoll/core/outcome.h"
#include "plimsoll/core/proof.h"

namespace plimsoll::partition {

constexpr double kExactPipeline = 1e-9;  // relative; what counts as closed

template <class Plan>
struct PipelineKnowledge {
  std::optional<Plan> plan;  // the best
  double best = kUnlimited;  // its value
  double lower_bound = 0;
  Proof proof;                 // of the bound, where it is not that of a complete search
  bool is_complete = false;    // chains of all downsets were searched
  bool is_infeasible = false;  // proved
  Explanation explanation;     // of that
  ChainStop stop = ChainStop::kFinished;
};

// `nothing_fits`: what explains infeasibility where nothing more is known.
template <class Plan>
Outcome<Plan> make_pipeline_outcome(PipelineKnowledge<Plan> known, double tolerance,
                                    const char* nothing_fits) {
  Outcome<Plan> outcome;
  outcome.stop = reason_of(known.stop);
  Certificate& certificate = outcome.certificate;
  certificate.objective = std::numeric_limits<double>::quiet_NaN();
  outcome.explanation = std::move(known.explanation);
  certificate.proof = known.proof;
  if (known.is_infeasible) {
    outcome.status = SolveStatus::kInfeasible;
    if (!certificate.proof.is_given()) {
      certificate.proof = ProofKind::kNoPipelineFits;
    }
    if (outcome.explanation.lines.empty()) {
      outcome.explanation.binding = "memory";
      outcome.explanation.lines.emplace_back(nothing_fits);
    }
    return outcome;
  }
  certificate.lower_bound = std::min(known.lower_bound, known.best);
  if (known.is_complete) certificate.proof = ProofKind::kNoChainBelow;
  if (!known.plan) return outcome;
  certificate.objective = known.best;
  const bool is_optimal =
      known.best <= *certificate.lower_bound * (1 + std::max(kExactPipeline, tolerance));
  outcome.status = is_optimal ? SolveStatus::kOptimal : SolveStatus::kFeasible;
  outcome.plan = std::move(known.plan);
  return outcome;
}

}  // namespace plimsoll::partition
