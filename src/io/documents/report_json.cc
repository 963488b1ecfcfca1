#include "io/documents/report_json.h"

#include <cmath>
#include <nlohmann/json.hpp>
#include <optional>

#include "plimsoll/core/units.h"
#include "plimsoll/core/version.h"

namespace plimsoll::io {
namespace {

using Json = nlohmann::ordered_json;

std::string dump(const Json& document) {
  return document.dump(1, ' ', false, Json::error_handler_t::replace) + "\n";
}

Json number(double value) { return std::isfinite(value) ? Json(value) : Json(nullptr); }

template <class T>
void put(Json& object, std::string_view key, const std::optional<T>& value) {
  if (value) object[std::string(key)] = *value;
}
void put(Json& object, std::string_view key, std::string_view value) {
  if (!value.empty()) object[std::string(key)] = std::string(value);
}

Json to_json(const topology::Storage& storage) {
  return {{"hbm", storage.hbm}, {"ddr", storage.ddr}, {"ssd", storage.ssd}};
}

Json to_json(const embedding::Perf& perf) {
  return {{"fwd_compute", number(perf.fwd_compute)},
          {"fwd_comms", number(perf.fwd_comms)},
          {"bwd_compute", number(perf.bwd_compute)},
          {"bwd_comms", number(perf.bwd_comms)},
          {"prefetch_compute", number(perf.prefetch_compute)},
          {"input_dist_comms", number(perf.input_dist_comms)},
          {"total", number(perf.total())}};
}

Json to_json(const topology::Accelerator& a) {
  Json object{{"id", std::string(a.id)},
              {"compute_device", std::string(topology::to_string(a.compute_device))},
              {"hbm_nominal_gb", a.hbm_nominal_gb}};
  put(object, "hbm_usable_gb", a.hbm_usable_gb);
  put(object, "hbm_nominal_gib", a.hbm_nominal_gib);
  put(object, "hbm_gb_per_s", a.hbm_gb_per_s);
  put(object, "scaleup_link", a.scaleup_link);
  put(object, "scaleup_bidirectional_gb_per_s", a.scaleup_bidirectional_gb_per_s);
  put(object, "scaleup_per_direction_gb_per_s", a.scaleup_per_direction_gb_per_s);
  put(object, "host_link", a.host_link);
  put(object, "host_per_direction_gb_per_s", a.host_per_direction_gb_per_s);
  put(object, "ddr_gb_per_s", a.ddr_gb_per_s);
  object["bf16_dense_tflops"] = a.bf16_dense_tflops;
  put(object, "sparsecores", a.sparsecores);
  object["provenance"] = std::string(topology::to_string(a.provenance));
  object["source"] = std::string(a.source);
  put(object, "note", a.note);
  return object;
}

Json to_json(const topology::HardwareNode& n) {
  Json object{{"id", std::string(n.id)},
              {"accelerator", std::string(n.accelerator)},
              {"num_accelerators", n.num_accelerators},
              {"num_hosts", n.num_hosts},
              {"ddr_nominal_gb", n.ddr_nominal_gb}};
  put(object, "ddr_gib", n.ddr_gib);
  put(object, "ddr_gb_per_s", n.ddr_gb_per_s);
  object["num_nics"] = n.num_nics;
  object["nic_gbit_per_s"] = n.nic_gbit_per_s;
  object["scaleout_per_direction_gb_per_s_per_accelerator"] =
      n.scaleout_per_direction_gb_per_s_per_accelerator;
  object["provenance"] = std::string(topology::to_string(n.provenance));
  object["source"] = std::string(n.source);
  put(object, "note", n.note);
  return object;
}

Json to_json(const topology::PlannerPreset& p) {
  Json object{{"id", std::string(p.id)}, {"ranks_per_host", p.ranks_per_host}};
  put(object, "hbm_cap_gb", p.hbm_cap_gb);
  put(object, "hbm_cap_gib", p.hbm_cap_gib);
  put(object, "ddr_cap_gib", p.ddr_cap_gib);
  put(object, "hbm_mem_gib_per_s", p.hbm_mem_gib_per_s);
  put(object, "ddr_mem_gib_per_s", p.ddr_mem_gib_per_s);
  put(object, "hbm_to_ddr_gib_per_s", p.hbm_to_ddr_gib_per_s);
  put(object, "intra_host_gb_per_s", p.intra_host_gb_per_s);
  put(object, "intra_host_gib_per_s", p.intra_host_gib_per_s);
  put(object, "inter_host_gb_per_s", p.inter_host_gb_per_s);
  put(object, "inter_host_gib_per_s", p.inter_host_gib_per_s);
  object["source"] = std::string(p.source);
  return object;
}

Json to_json(const std::vector<check::Finding>& findings) {
  Json list = Json::array();
  for (const check::Finding& finding : findings) {
    Json entry{{"code", std::string(to_string(finding.code))}};
    put(entry, "place", finding.place);
    if (finding.unit) entry[std::string(to_string(finding.unit->kind))] = finding.unit->number;
    put(entry, "expected", finding.expected);
    put(entry, "found", finding.found);
    entry["message"] = finding.message;
    list.push_back(std::move(entry));
  }
  return list;
}

// What every report begins with; without an explanation to judge nothing is said of one.
Json begin_report(std::string_view schema, const check::CheckReport& report) {
  Json document{{"schema", std::string(schema)},
                {"is_right", report.is_right()},
                {"certificate_status", std::string(to_string(report.certificate.status))},
                {"certificate_reason", report.certificate.reason}};
  if (report.explanation.status != check::CertificateStatus::kAbsent) {
    document["explanation_status"] = std::string(to_string(report.explanation.status));
    document["explanation_reason"] = report.explanation.reason;
  }
  document["violations"] = to_json(report.violations());
  document["hazards"] = to_json(report.hazards());
  const std::vector<check::Finding> warnings = report.warnings();
  if (!warnings.empty()) document["warnings"] = to_json(warnings);
  return document;
}

}  // namespace

std::string write_sharding_report(const check::ShardingReport& report,
                                  const check::BalanceReport* balance) {
  Json document = begin_report("plimsoll.check_report/1", report);
  document["rating"] = number(report.rating);
  document["ranks"] = Json::array();
  for (std::size_t rank = 0; rank < report.used.size(); ++rank) {
    document["ranks"].push_back({{"rank", rank},
                                 {"used", to_json(report.used[rank])},
                                 {"capacity", to_json(report.capacity[rank])},
                                 {"perf", to_json(report.perf[rank])},
                                 {"ms", number(report.rank_ms[rank])}});
  }
  if (balance != nullptr && balance->times) {
    document["times"] = {{"rating", number(balance->times->rating)},
                         {"step", number(balance->times->step)},
                         {"time", number(balance->times->time)}};
  }
  if (balance != nullptr && balance->proved_bound) {
    document["proved_bound"] = number(*balance->proved_bound);
    document["is_bound_searched"] = balance->is_bound_searched;
    if (balance->is_bound_searched) {
      document["is_search_repeated"] = balance->is_search_repeated;
      document["num_repeated_nodes"] = balance->num_repeated_nodes;
    }
  }
  return dump(document);
}

std::string write_checkpoint_report(const check::CheckpointReport& report) {
  Json document = begin_report("plimsoll.checkpoint_check_report/1", report);
  document["peak_bytes"] = report.peak;
  put(document, "binding", report.binding);
  document["discarded_bytes"] = report.discarded;
  document["recompute_ms"] = number(report.recompute_ms);
  document["profile"] = report.profile;
  return dump(document);
}

std::string write_placement_report(const check::PlacementReport& report) {
  Json document = begin_report("plimsoll.placement_check_report/1", report);
  document["max_load_ms"] = number(report.max_load);
  document["is_line"] = report.is_line;
  if (report.batch_ms) document["batch_ms"] = number(*report.batch_ms);
  document["devices"] = Json::array();
  for (std::size_t d = 0; d < report.load_ms.size(); ++d) {
    Json device{{"device", d},
                {"compute_ms", number(report.compute_ms[d])},
                {"transfer_ms", number(report.transfer_ms[d])},
                {"load_ms", number(report.load_ms[d])},
                {"memory_bytes", report.memory[d]},
                {"is_contiguous", static_cast<bool>(report.is_contiguous[d])}};
    if (!report.sync_ms.empty()) device["sync_ms"] = number(report.sync_ms[d]);
    if (!report.in_flight.empty()) device["in_flight"] = report.in_flight[d];
    document["devices"].push_back(std::move(device));
  }
  return dump(document);
}

std::string write_partition_report(const check::CriticalPathReport& report,
                                   const partition::PartitionerConfig& config, bool has_path) {
  Json document = begin_report("plimsoll.partition_check_report/1", report);
  document["critical_path_ms"] =
      has_path ? number(report.critical_path_sec * kMsPerSecond) : Json(nullptr);
  document["devices"] = Json::array();
  for (std::size_t d = 0; d < report.memory.size(); ++d) {
    document["devices"].push_back(
        {{"device", config.devices[d].name}, {"memory_bytes", report.memory[d]}});
  }
  return dump(document);
}

std::string write_pipeline_report(const check::PipelineReport& report) {
  Json document = begin_report("plimsoll.pipeline_check_report/1", report);
  document["slowest_ms"] = number(report.slowest_ms);
  document["sum_ms"] = number(report.sum_ms);
  document["num_devices"] = report.num_devices;
  document["stages"] = Json::array();
  for (std::size_t s = 0; s < report.memory.size(); ++s) {
    document["stages"].push_back({{"stage", s},
                                  {"compute_ms", number(report.compute_ms[s])},
                                  {"transfer_ms", number(report.transfer_ms[s])},
                                  {"sync_ms", number(report.sync_ms[s])},
                                  {"in_flight", report.in_flight[s]},
                                  {"memory_bytes", report.memory[s]}});
  }
  return dump(document);
}

std::string write_expert_report(const check::ExpertReport& report) {
  Json document = begin_report("plimsoll.expert_check_report/1", report);
  document["objective"] = number(report.objective);
  return dump(document);
}

std::string write_error(const Error& error) {
  Json entry{{"code", std::string(to_string(error.code))}};
  put(entry, "kind", error.kind);
  put(entry, "place", error.place);
  entry["message"] = error.message;
  put(entry, "remedy", error.remedy);
  return dump({{"schema", "plimsoll.error/1"}, {"error", std::move(entry)}});
}

std::string write_version() {
  return dump({{"schema", "plimsoll.version/1"}, {"version", kVersion}});
}

std::string write_model_list(std::span<const ShippedDocument> models,
                             std::span<const ShippedDocument> module_stats,
                             std::span<const ShippedDocument> graphs) {
  const auto list = [](std::span<const ShippedDocument> documents) {
    Json entries = Json::array();
    for (const ShippedDocument& document : documents) {
      entries.push_back(
          {{"id", std::string(document.id)}, {"description", std::string(document.description)}});
    }
    return entries;
  };
  return dump({{"schema", "plimsoll.model_list/1"},
               {"models", list(models)},
               {"module_stats", list(module_stats)},
               {"graphs", list(graphs)}});
}

std::string write_hardware(std::string_view filter) {
  const auto collect = [filter](const auto& entries) {
    Json list = Json::array();
    for (const auto& entry : entries) {
      if (entry.id.find(filter) != std::string_view::npos) list.push_back(to_json(entry));
    }
    return list;
  };
  Json machines = Json::array();
  for (const ShippedDocument& machine : shipped_machines()) {
    if (machine.id.find(filter) != std::string_view::npos) machines.push_back(machine.id);
  }
  return dump({{"schema", "plimsoll.hardware/1"},
               {"accelerators", collect(topology::accelerators())},
               {"nodes", collect(topology::nodes())},
               {"planner_presets", collect(topology::planner_presets())},
               {"machines", std::move(machines)}});
}

std::string write_schema_list(std::span<const Schema> schemas) {
  Json list = Json::array();
  for (const Schema& schema : schemas) list.push_back(std::string(schema.name));
  return dump({{"schema", "plimsoll.schema_list/1"}, {"schemas", std::move(list)}});
}

}  // namespace plimsoll::io
