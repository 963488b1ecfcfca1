#include "io/documents/document_keys.h"

#include "io/documents/balance_descriptions.h"
#include "io/documents/checkpoint_descriptions.h"
#include "io/documents/descriptions.h"
#include "io/documents/experts_descriptions.h"
#include "io/documents/machine_descriptions.h"
#include "io/documents/pipeline_descriptions.h"
#include "io/documents/placement_descriptions.h"
#include "io/documents/replan_descriptions.h"
#include "io/documents/robust_descriptions.h"
#include "io/documents/study_descriptions.h"
#include "io/documents/torchrec_options_description.h"

namespace plimsoll::io {

std::vector<TypeKeys> document_keys() {
  std::vector<TypeKeys> types = {
      {"model", "", keys_of<ModelDocument>()},
      {"model", "module", keys_of<ModuleEntry>()},
      {"model", "sharder", keys_of<embedding::SharderParams>()},
      {"model", "table", keys_of<TableEntry>()},
      {"model", "dynamic_embedding", keys_of<embedding::DynamicEmbedding>()},
      {"constraints", "", keys_of<ConstraintsDocument>()},
      {"topology", "", keys_of<TopologyDocument>()},
      {"topology", "comms_rule", keys_of<topology::CommsRule>()},
      {"plan", "plan_document", keys_of<PlanDocument>()},
      {"plan", "answer_document", keys_of<AnswerDocument>()},
      {"plan", "plan", keys_of<embedding::ShardingPlan>()},
      {"plan", "table", keys_of<embedding::TableSharding>()},
      {"plan", "dynamic_embedding", keys_of<embedding::DynamicEmbedding>()},
      {"plan", "ranks", keys_of<embedding::RankRun>()},
      {"plan", "shards", keys_of<embedding::ShardSizeRun>()},
      {"plan", "bill", keys_of<Bill>()},
      {"plan", "certificate", keys_of<BoundedCertificateEntry>()},
      {"plan", "bound", keys_of<balance::PlacementBound>()},
      {"plan", "case", keys_of<balance::BoundCase>()},
      {"plan", "prices", keys_of<balance::PriceWitness>()},
      {"plan", "windows", keys_of<balance::WindowWitness>()},
      {"plan", "proof", keys_of<balance::RoomProof>()},
      {"plan", "function", keys_of<balance::DualFunction>()},
      {"plan", "node", keys_of<balance::WindowNode>()},
      {"plan", "choices", keys_of<balance::ChoiceWitness>()},
      {"plan", "choice_node", keys_of<balance::ChoiceNode>()},
      {"plan", "barrier", keys_of<balance::BarrierProof>()},
      {"plan", "choice_proof", keys_of<balance::ChoiceProof>()},
      {"plan", "boxes", keys_of<balance::BoxWitness>()},
      {"plan", "box_proof", keys_of<balance::BoxProof>()},
      {"plan", "box_node", keys_of<balance::BoxNode>()},
      {"plan", "anchor", keys_of<balance::Anchor>()},
      {"plan", "times", keys_of<embedding::PlanTimes>()},
      {"plan", "option", keys_of<TakenOption>()},
      {"plan", "frontier", keys_of<math::FrontierPoint>()},
      {"plan", "frontier_plan", keys_of<FrontierPlan>()},
      {"plan", "frontier_proof", keys_of<FrontierProof>()},
      {"plan", "shard_costs", keys_of<ShardCosts>()},
      {"plan", "extrapolation", keys_of<embedding::Extrapolation>()},
      {"step_model", "", keys_of<StepModelDocument>()},
      {"machine", "", keys_of<MachineDocument>()},
      {"machine", "host", keys_of<MeasuredHost>()},
      {"machine", "kernel", keys_of<KernelEntry>()},
      {"machine", "terms", keys_of<embedding::KernelTerms>()},
      {"machine", "errors", keys_of<HeldOutErrors>()},
      {"machine", "collective", keys_of<CollectiveEntry>()},
      {"machine", "step", keys_of<StepEntry>()},
      {"machine", "torchrec_step", keys_of<FittedStep>()},
      {"machine", "operators", keys_of<OperatorsEntry>()},
      {"machine", "noise", keys_of<MeasuredNoise>()},
      {"machine", "source", keys_of<embedding::FigureSource>()},
      {"torchrec_options", "", keys_of<TorchrecOptionsDocument>()},
      {"torchrec_options", "option", keys_of<DumpedOption>()},
      {"placement_rules", "", keys_of<PlacementRulesDocument>()},
      {"plan", "provenance", keys_of<Provenance>()},
      {"plan", "warning", keys_of<Warning>()},
      {"plan", "failure", keys_of<PlanFailure>()},
      {"module_stats", "", keys_of<ModuleStatsDocument>()},
      {"module_stats", "roofline", keys_of<checkpoint::RecordedRoofline>()},
      {"module_stats", "notes", keys_of<StatsNotes>()},
      {"module_stats", "mod_order", keys_of<checkpoint::ModuleOrder>()},
      {"module_stats", "module", keys_of<ModuleRecord>()},
      {"module_stats", "sac_stats", keys_of<checkpoint::SACStats>()},
      {"replan", "", keys_of<WrittenReplan>()},
      {"replan", "prices", keys_of<balance::RelocationPrices>()},
      {"replan", "step", keys_of<embedding::TransferStep>()},
      {"replan", "schedule", keys_of<embedding::TransferSchedule>()},
      {"replan", "source", keys_of<embedding::TransferSource>()},
      {"pooling_factors", "", keys_of<PoolingFactorsDocument>()},
      {"pooling_factors", "distribution", keys_of<DistributionEntry>()},
      {"robust_plan", "", keys_of<RobustDocument>()},
      {"robust_plan", "figures", keys_of<study::RiskFigures>()},
      {"robust_plan", "drift", keys_of<study::PlanDrift>()},
      {"robust_plan", "scenario_bound", keys_of<study::ScenarioBound>()},
      {"experts", "", keys_of<ExpertsDocument>()},
      {"expert_plan", "", keys_of<ExpertPlanDocument>()},
      {"expert_plan", "before", keys_of<experts::ExpertPlan>()},
      {"expert_plan", "provenance", keys_of<Provenance>()},
      {"sac_stats", "", keys_of<SACStatsDocument>()},
      {"checkpoint_policy", "", keys_of<PolicyDocument>()},
      {"checkpoint_policy", "predicted", keys_of<CheckpointPrediction>()},
      {"checkpoint_policy", "unit", keys_of<UnitEntry>()},
      {"checkpoint_policy", "certificate", keys_of<CertificateEntry>()},
      {"checkpoint_policy", "provenance", keys_of<Provenance>()},
      {"checkpoint_policy", "warning", keys_of<Warning>()},
      {"checkpoint_policy", "profile", keys_of<ProfileEntry>()},
      {"checkpoint_policy", "frontier", keys_of<math::FrontierPoint>()},
      {"checkpoint_policy", "op", keys_of<checkpoint::OperatorChoice>()},
      {"save_policy", "", keys_of<SavePolicyDocument>()},
      {"save_policy", "predicted", keys_of<SavePolicyPrediction>()},
      {"save_policy", "value", keys_of<SavedValue>()},
      {"save_policy", "point", keys_of<SavePolicyPoint>()},
      {"save_policy", "step", keys_of<SavePolicyStep>()},
      {"save_policy", "certificate", keys_of<CertificateEntry>()},
      {"save_policy", "provenance", keys_of<Provenance>()},
      {"save_policy", "warning", keys_of<Warning>()},
      {"tradeoff_curves", "", keys_of<TradeoffDocument>()},
      {"tradeoff_curves", "module", keys_of<ModuleTradeoff>()},
      {"tradeoff_curves", "group", keys_of<TradeoffGroup>()},
      {"tradeoff_curves", "step", keys_of<TradeoffStep>()},
      {"tradeoff_curves", "fit", keys_of<TradeoffFit>()},
      {"tradeoff_curves", "failure", keys_of<PlanFailure>()},
      {"tradeoff_curves", "provenance", keys_of<Provenance>()},
      {"pipeline_plan", "", keys_of<PipelinePlanDocument>()},
      {"pipeline_plan", "stage", keys_of<PipelineStageEntry>()},
      {"pipeline_plan", "certificate", keys_of<CertificateEntry>()},
      {"pipeline_plan", "provenance", keys_of<Provenance>()},
      {"pipeline_plan", "warning", keys_of<Warning>()},
      {"placement", "", keys_of<PlacementDocument>()},
      {"placement", "class", keys_of<ClassEntry>()},
      {"placement", "stage", keys_of<PlacedStage>()},
      {"placement", "cut", keys_of<PlacedCut>()},
      {"placement", "call", keys_of<partition::DagNode>()},
      {"placement", "certificate", keys_of<CertificateEntry>()},
      {"placement", "provenance", keys_of<Provenance>()},
      {"placement", "warning", keys_of<Warning>()},
      {"placement", "failure", keys_of<PlanFailure>()},
      {"cost_graph", "", keys_of<CostGraphDocument>()},
      {"cost_graph", "class", keys_of<ClassEntry>()},
      {"cost_graph", "node", keys_of<CostNodeEntry>()},
      {"cost_graph", "net", keys_of<NetEntry>()},
      {"cost_graph", "weight", keys_of<WeightEntry>()},
      {"explanation", "", keys_of<ExplanationDocument>()},
      {"explanation", "times", keys_of<embedding::PlanTimes>()},
      {"explanation", "table", keys_of<study::TableShare>()},
      {"explanation", "rate", keys_of<study::RateWorth>()},
      {"explanation", "certificate", keys_of<CertificateEntry>()},
      {"explanation", "fix", keys_of<study::Fix>()},
      {"machine_size", "", keys_of<MachineSizeDocument>()},
      {"machine_size", "machine", keys_of<study::JudgedMachine>()},
      {"what_if", "", keys_of<WhatIfDocument>()},
      {"what_if", "row", keys_of<study::WhatIfRow>()},
      {"prices", "", keys_of<PricesDocument>()},
      {"prices", "price", keys_of<PriceEntry>()},
      {"fx_graph", "", keys_of<FxGraphDocument>()},
      {"fx_graph", "node", keys_of<FxNode>()},
      {"fx_graph", "device", keys_of<partition::Device>()},
  };
  for (const char* schema :
       {"plan", "checkpoint_policy", "save_policy", "pipeline_plan", "placement"}) {
    types.push_back({schema, "explanation", keys_of<study::NoPlan>()});
    types.push_back({schema, "conflict_member", keys_of<study::ConflictMember>()});
    types.push_back({schema, "fix", keys_of<study::Fix>()});
  }
  for (const char* schema : {"model", "constraints"}) {
    types.push_back({schema, "constraints", keys_of<embedding::ParameterConstraints>()});
  }
  for (const char* schema : {"model", "constraints", "plan"}) {
    types.push_back({schema, "cache_params", keys_of<embedding::CacheParams>()});
    types.push_back({schema, "cache_stats", keys_of<embedding::CacheStats>()});
    types.push_back({schema, "key_value_params", keys_of<embedding::KeyValueParams>()});
  }
  return types;
}

}  // namespace plimsoll::io
