// What the documents of the study verbs look like (json_reader.h): an explained plan, a machine's
// size, a sweep, prices.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "io/documents/balance_descriptions.h"
#include "io/documents/descriptions.h"
#include "plimsoll/study/machine_size.h"
#include "plimsoll/study/plan_explanation.h"
#include "plimsoll/study/what_if.h"

namespace plimsoll::io {

template <>
struct Values<study::MachineVerdict> {
  static constexpr study::MachineVerdict kAll[] = {
      study::MachineVerdict::kEnough, study::MachineVerdict::kInfeasible,
      study::MachineVerdict::kTooSlow, study::MachineVerdict::kNotKnown};
};

inline constexpr std::string_view kExplanationSchema = "plimsoll.explanation/1";
inline constexpr std::string_view kMachineSizeSchema = "plimsoll.machine_size/1";
inline constexpr std::string_view kWhatIfSchema = "plimsoll.what_if/1";
inline constexpr std::string_view kPricesSchema = "plimsoll.prices/1";

// ---------------------------------------------------------------- an explained plan

struct ExplanationDocument {
  std::string schema{kExplanationSchema};
  study::PlanExplanation told;               // without the certificate and the components
  std::map<std::string, double> components;  // of the slowest rank, ms
  std::optional<CertificateEntry> certificate;
};

template <class Fields, SameAs<study::TableShare> T>
void describe(Fields& fields, T& share) {
  fields.required("table", share.fqn);
  fields.required("sharding_type", share.sharding_type);
  fields.required("compute_kernel", share.compute_kernel);
  fields.required("ms", share.ms);
  fields.required("hbm_bytes", share.hbm);
}

template <class Fields, SameAs<study::RateWorth> T>
void describe(Fields& fields, T& worth) {
  fields.required("rate", worth.rate);
  fields.required("gb_per_s", worth.gb_per_s);
  fields.required("ms_per_gb_per_s", worth.ms_per_gb_s);
}

template <class Fields, SameAs<ExplanationDocument> T>
void describe(Fields& fields, T& document) {
  auto& told = document.told;
  fields.stated("schema", document.schema);
  fields.required("objective", told.objective);
  fields.required("times", told.times);
  fields.required("slowest_rank", told.slowest_rank);
  fields.required("components", document.components);
  fields.required("mean_ms", told.mean_ms);
  fields.required("tables", told.tables);
  fields.required("tier", told.tier);
  fields.required("fullest_rank", told.fullest_rank);
  fields.required("fullest_bytes", told.fullest);
  fields.required("room_bytes", told.room);
  fields.optional("certificate", document.certificate);
  fields.required("even_ms", told.even_ms);
  fields.required("shard_ms", told.shard_ms);
  fields.required("rates", told.rates);
  fields.optional("rating_cap", told.rating_cap);
  fields.optional("planned_again_ms", told.planned_again_ms);
  fields.optional("with_one_gib_ms", told.with_one_gib_ms);
  fields.stated("faster", told.faster);
}

// ---------------------------------------------------------------- machines

struct MachineSizeDocument {
  std::string schema{kMachineSizeSchema};
  study::MachineSize size;
};

template <class Fields, SameAs<study::JudgedMachine> T>
void describe(Fields& fields, T& judged) {
  fields.required("on", judged.machine.on);
  fields.required("ranks", judged.machine.ranks);
  fields.optional("price", judged.machine.price);
  fields.required("verdict", judged.verdict);
  fields.required("status", judged.plan.status);
  fields.optional("ms", judged.plan.ms);
  fields.optional("lower_bound", judged.plan.lower_bound);
}

template <class Fields, SameAs<MachineSizeDocument> T>
void describe(Fields& fields, T& document) {
  auto& size = document.size;
  fields.stated("schema", document.schema);
  fields.required("is_found", size.is_found);
  fields.required("is_smallest", size.is_smallest);
  fields.required("stop", size.stop);
  fields.optional("within_ms", size.within_ms);
  fields.required("machines", size.judged);
}

struct WhatIfDocument {
  std::string schema{kWhatIfSchema};
  std::string inputs;  // hash of what the rows are of beside their points, hexadecimal
  study::WhatIf answer;
};

template <class Fields, SameAs<study::WhatIfRow> T>
void describe(Fields& fields, T& row) {
  fields.required("on", row.point.on);
  fields.required("ranks", row.point.ranks, kWorldSize);
  fields.required("batch_size", row.point.batch_size, kPositive);
  fields.optional("price", row.price, kNonNegative);
  fields.required("status", row.status);
  fields.optional("ms", row.ms, kNonNegative);
  fields.optional("lower_bound", row.lower_bound, kNonNegative);
  fields.optional("gap", row.gap);
  fields.stated("memory_bytes", row.memory, kNonNegative);
  fields.stated("room_bytes", row.room);
  fields.optional("samples_per_s", row.samples_per_s, kNonNegative);
  fields.optional("price_per_million", row.price_per_million, kNonNegative);
  fields.stated("is_pareto", row.is_pareto);
}

template <class Fields, SameAs<WhatIfDocument> T>
void describe(Fields& fields, T& document) {
  fields.stated("schema", document.schema);
  fields.required("inputs", document.inputs);
  fields.required("stop", document.answer.stop);
  fields.required("rows", document.answer.rows);
}

// ---------------------------------------------------------------- prices

// What a kind of machine costs an hour, by host or by rank.
struct PriceEntry {
  std::optional<double> per_host, per_rank;
  bool operator==(const PriceEntry&) const = default;
};

struct PricesDocument {
  std::string schema{kPricesSchema};
  std::string currency;
  std::map<std::string, PriceEntry> prices;  // by node, accelerator, preset or memory
};

template <class Fields, SameAs<PriceEntry> T>
void describe(Fields& fields, T& price) {
  fields.optional("per_host", price.per_host, kNonNegative);
  fields.optional("per_rank", price.per_rank, kNonNegative);
}

template <class Fields, SameAs<PricesDocument> T>
void describe(Fields& fields, T& document) {
  fields.stated("schema", document.schema);
  fields.optional("currency", document.currency);
  fields.required("prices", document.prices);
}

}  // namespace plimsoll::io
