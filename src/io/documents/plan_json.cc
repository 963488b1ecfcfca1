#include "plimsoll/io/plan_json.h"

#include <fmt/format.h>

#include <cmath>

#include "io/documents/descriptions.h"
#include "io/documents/plan_tree.h"
#include "io/documents/robust_tree.h"
#include "io/json/json_writer.h"

namespace plimsoll::io {
namespace {

using embedding::RankRun;
using embedding::ShardingPlan;
using embedding::ShardSizeRun;
using embedding::TableSharding;

// One rank a shard, and everything that expanding the runs computes fits.
Result<void> check_runs(const TableSharding& sharding, const std::string& place) {
  std::int64_t num_shards = 0;
  for (std::size_t i = 0; i < sharding.shards.size(); ++i) {
    const ShardSizeRun& run = sharding.shards[i];
    num_shards += run.count;
    const std::string run_place = fmt::format("{}/shards/{}", place, i);
    if (num_shards > kMaxShardsPerTable) {
      return fail(ErrorCode::kValue, run_place + "/count",
                  fmt::format("more than {} shards of one table", kMaxShardsPerTable));
    }
    const Int128 last_row = Int128{run.row} + Int128{run.count - 1} * run.row_stride + run.rows;
    const Int128 last_column = Int128{run.column} + run.columns;
    if (last_row > INT64_MAX || last_column > INT64_MAX) {
      return fail(ErrorCode::kOverflow, run_place, "the last shard's end does not fit in 63 bits");
    }
  }
  std::int64_t num_ranks = 0;
  for (const RankRun& run : sharding.ranks) num_ranks += run.count;
  if (num_ranks != num_shards) {
    return fail(ErrorCode::kValue, place + "/ranks",
                fmt::format("{} rank(s) for {} shard(s)", num_ranks, num_shards),
                "give every shard its rank");
  }
  return {};
}

Result<void> check_tables(const std::vector<TableSharding>& tables, std::string_view file,
                          std::string_view pointer) {
  for (std::size_t i = 0; i < tables.size(); ++i) {
    PLIMSOLL_RETURN_IF_ERROR(
        check_runs(tables[i], document_place(file, fmt::format("{}/tables/{}", pointer, i))));
  }
  return {};
}

}  // namespace

CertificateEntry make_certificate_entry(const Certificate& certificate) {
  return {certificate, certificate.gap(), to_string(certificate.proof)};
}

Result<Certificate> take_certificate(const CertificateEntry& entry, std::string_view file) {
  const std::optional<double> gap = entry.certificate.gap();
  constexpr double kTolerance = 1e-9;
  if (!entry.gap || (gap && std::abs(*gap - *entry.gap) <= kTolerance * (1 + std::abs(*gap)))) {
    Certificate certificate = entry.certificate;
    certificate.proof = parse_proof(entry.proof);
    return certificate;
  }
  return fail(ErrorCode::kConflict, document_place(file, "/certificate/gap"),
              "objective and lower_bound give another gap", "leave the key out");
}

Result<ShardingAnswer> read_plan_tree(const JsonValue& root, std::string_view file) {
  if (is_replan_tree(root)) {
    PLIMSOLL_ASSIGN(study::Replan replan, read_replan_tree(root, file));
    return std::move(replan.answer);
  }
  ShardingAnswer answer;
  if (is_robust_tree(root)) {
    PLIMSOLL_ASSIGN(study::RobustPlan robust, read_robust_tree(root, file));
    if (robust.plan) PLIMSOLL_RETURN_IF_ERROR(check_tables(robust.plan->tables, file, "/plan"));
    answer.plan = std::move(robust.plan);
    answer.provenance = std::move(robust.provenance);
    return answer;
  }
  PLIMSOLL_RETURN_IF_ERROR(check_schema(root, file, kPlanSchema));
  if (root.find("tables") != nullptr) {
    PLIMSOLL_ASSIGN(PlanDocument document, read_tree<PlanDocument>(root, file));
    PLIMSOLL_RETURN_IF_ERROR(check_tables(document.plan.tables, file, ""));
    answer.plan = std::move(document.plan);
    return answer;
  }
  PLIMSOLL_ASSIGN(AnswerDocument document, read_tree<AnswerDocument>(root, file));
  answer = std::move(document.answer);
  if (answer.plan) PLIMSOLL_RETURN_IF_ERROR(check_tables(answer.plan->tables, file, "/plan"));
  for (std::size_t i = 0; i < answer.frontier_plans.size(); ++i) {
    PLIMSOLL_RETURN_IF_ERROR(
        check_tables(answer.frontier_plans[i].tables, file, fmt::format("/frontier_plans/{}", i)));
  }
  for (FrontierProof& proof : answer.frontier_proofs) {
    if (proof.bound) restore_infinities(*proof.bound);
  }
  if (document.certificate) {
    PLIMSOLL_ASSIGN(answer.certificate, take_certificate(document.certificate->entry, file));
    answer.bound = std::move(document.certificate->bound);
    if (answer.bound) restore_infinities(*answer.bound);
  }
  return answer;
}

Result<ShardingAnswer> read_plan(std::string_view text, std::string_view file) {
  PLIMSOLL_ASSIGN(const JsonValue root, parse_json(text, file));
  return read_plan_tree(root, file);
}

std::string write_plan(const ShardingPlan& plan) {
  return write_document(PlanDocument{std::string(kPlanSchema), plan});
}

std::string write_answer(const ShardingAnswer& answer) {
  if (!answer.status && answer.plan) return write_plan(*answer.plan);
  AnswerDocument document;
  document.answer = answer;
  if (answer.certificate) {
    document.certificate =
        BoundedCertificateEntry{make_certificate_entry(*answer.certificate), answer.bound};
  }
  return write_document(document);
}

}  // namespace plimsoll::io
