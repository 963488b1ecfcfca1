#include "io/document_keys.h"

#include "io/descriptions.h"

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
      {"plan", "certificate", keys_of<CertificateEntry>()},
      {"plan", "provenance", keys_of<Provenance>()},
      {"plan", "warning", keys_of<Warning>()},
      {"plan", "explanation", keys_of<Explanation>()},
      {"plan", "failure", keys_of<PlanFailure>()},
  };
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
