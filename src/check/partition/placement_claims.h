// What placements of operators, pipelines and plans of profiles claim of the best there is.
//
// Problem. A document says `optimal`, and that none is below some time. Say whether that is so
// without the search that says it.
// Method. Simple bounds first: all work on all devices, the slowest operator, the longest path.
// Then a search of the checker's own for anything below the claimed bound: groups of nodes that
// share a device, one after another on every device, given up where what is placed is no better
// already. Equal devices are tried once. Whatever it finds is judged as any plan is, so that it
// refutes. Contiguous splits without pins are chains of stages instead: sets of groups that are
// closed under what comes before, reached by stages below the bound one after another. Cost. At
// most kMaxSteps, a step being a group, node or net that is looked at. Promises. `proved` holds in
// exact arithmetic up to 1e-6; where the search is given up the claim is not repeated.
#pragma once

#include <cstdint>
#include <optional>

#include "plimsoll/check/certificate_judgement.h"
#include "plimsoll/partition/cost_graph.h"
#include "plimsoll/partition/graph.h"
#include "plimsoll/partition/partitioner_config.h"
#include "plimsoll/partition/pipeline_model.h"
#include "plimsoll/partition/replicated_stages.h"

namespace plimsoll::check {

inline constexpr std::int64_t kMaxSteps = 1 << 24;

// `value` is the plan's own, by the checker; absent where it has none or is wrong. Preconditions:
// valid graphs, models and configurations; of fx a latency for every operator.
CertificateJudgement judge_throughput_claims(const partition::CostGraph& graph,
                                             const CertificateClaims& claims,
                                             std::optional<double> value, bool is_contiguous);
CertificateJudgement judge_latency_claims(const partition::CostGraph& graph,
                                          const CertificateClaims& claims,
                                          std::optional<double> value);
CertificateJudgement judge_batch_claims(const partition::CostGraph& graph,
                                        const partition::PipelineTerms& terms,
                                        const CertificateClaims& claims,
                                        std::optional<double> value);
// In ms.
CertificateJudgement judge_path_claims(const partition::Graph& graph,
                                       const partition::PartitionerConfig& config,
                                       const CertificateClaims& claims,
                                       std::optional<double> value);
CertificateJudgement judge_profile_claims(const partition::PipelineModel& model, bool is_batch,
                                          bool is_straight, const CertificateClaims& claims,
                                          std::optional<double> value);

}  // namespace plimsoll::check
