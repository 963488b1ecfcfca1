// What the options of all tables take in every scenario, and plans in many.
//
// Shards are estimated one by one, as the enumerator does (Estimator::estimate), with the
// scenario's pooling factors. Bytes are those of the base: a plan must fit where all factors are
// largest.
#pragma once

#include <memory>
#include <vector>

#include "plimsoll/embedding/plan_times.h"
#include "plimsoll/embedding/planner.h"
#include "study/robust/pooling_draws.h"

namespace plimsoll::study {

class ScenarioCosts {
 public:
  // `base` has the options and profiles of the problem where all factors are largest. Both outlive
  // the costs.
  ScenarioCosts(const embedding::PlanningProblem& problem, const embedding::PlanningResult& base,
                const RobustOptions& options);

  const embedding::OptionSet& base() const { return base_.enumeration.options; }
  const embedding::Estimator& estimator() const { return estimator_; }

  // The options with the times that they take on average over scenarios; at these factors. Errors:
  // those of estimating.
  Result<embedding::OptionSet> averaged(const std::vector<Factors>& scenarios) const;
  Result<embedding::OptionSet> at(const Factors& factors) const { return averaged({factors}); }
  // The same of one table alone, where the others are as in `options`.
  Result<embedding::OptionSet> with_table(embedding::OptionSet options, std::size_t table,
                                          const std::vector<double>& factors) const;

  // The plan's objective in each scenario, and the time of all its shards together.
  struct Values {
    std::vector<double> objective, work;  // [scenarios]
  };
  Result<Values> values(const embedding::PlacedProposal& plan,
                        const std::vector<Factors>& scenarios) const;

  embedding::BridgeInput input(const embedding::OptionSet& options) const;

 private:
  Result<void> estimate_option(const std::vector<double>& factors, std::size_t option,
                               std::vector<embedding::ShardRun>& runs) const;
  embedding::OptionSet taken_options(const embedding::PlacedProposal& plan,
                                     embedding::PlacedProposal& renumbered) const;

  const embedding::PlanningProblem& problem_;
  const embedding::PlanningResult& base_;
  const RobustOptions& options_;
  embedding::Estimator estimator_;
};

}  // namespace plimsoll::study
