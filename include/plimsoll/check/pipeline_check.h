// What makes a pipeline plan right, and what it costs, checked independently of the search: only
// the model's data are shared with the searches.
//
// Every operator stands in one stage, no edge leads to an earlier stage, devices and microbatches
// suffice, and every stage's bytes fit a device with all microbatches that are in flight there: of
// stages s, s + 1, ... one for each replica, shared evenly by the replicas of s, rounded up.
// Formulas as in pipeline_model.h. Sources: docs/mathematics/placements.md#pipedream,
// docs/mathematics/placements.md#piper.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "plimsoll/check/certificate_judgement.h"
#include "plimsoll/check/finding.h"
#include "plimsoll/core/result.h"
#include "plimsoll/partition/pipeline_model.h"
#include "plimsoll/partition/pipeline_plan.h"

#pragma GCC visibility push(default)
namespace plimsoll::check {

struct StatedPipelineStage {
  std::optional<double> time_ms;
  std::optional<int> in_flight;
  std::optional<Bytes> memory;
};

struct PipelineCheckOptions {
  std::optional<double> stated_slowest_ms;       // compared at 1e-9 relative, as other times
  std::vector<StatedPipelineStage> stated = {};  // [num_stages], or empty
  std::vector<std::string> contradictions = {};  // what it says of its making and is not so
  CertificateClaims claims = {};
  bool is_batch = false;     // the objective: sum + (microbatches - 1) * slowest, not the slowest
  bool is_straight = false;  // no stage was to be replicated
  bool is_of_reference = false;  // a reference's own figures, which are not compared
  bool strict = false;
};

struct PipelineReport : CheckReport {
  std::vector<double> compute_ms;   // [num_stages] of a microbatch
  std::vector<double> transfer_ms;  // [num_stages] over cut edges
  std::vector<double> sync_ms;      // [num_stages] between replicas
  std::vector<int> in_flight;       // [num_stages] microbatches that a device holds
  std::vector<Bytes> memory;        // [num_stages] of a device
  double slowest_ms = 0;            // the largest sum of the three
  double sum_ms = 0;                // of all stages
  int num_devices = 0;
};

// The objective of a plan that was judged.
double pipeline_value(const partition::PipelineModel& model, const PipelineReport& report,
                      bool is_batch);

// Figures leave out what does not exist. The certificate is judged by judge_profile_claims().
// Errors are those of a model that is not valid.
Result<PipelineReport> check_pipeline(const partition::PipelineModel& model,
                                      const partition::PipelinePlan& plan,
                                      const PipelineCheckOptions& options = {});

}  // namespace plimsoll::check
#pragma GCC visibility pop
