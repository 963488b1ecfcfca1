#include "embedding_golden.h"

#include <fmt/format.h>

#include <algorithm>
#include <span>
#include <string_view>
#include <utility>

#include "plimsoll/embedding/cost_model.h"
#include "plimsoll/embedding/enumerator.h"
#include "plimsoll/embedding/estimator.h"
#include "plimsoll/embedding/perf_model.h"
#include "plimsoll/embedding/planner.h"
#include "plimsoll/embedding/sharding_plan.h"
#include "plimsoll/embedding/stats.h"

namespace plimsoll::golden {
namespace {

using embedding::CostModel;
using embedding::Estimator;
using embedding::TableProfile;
using topology::Topology;

// ---------------------------------------------------------------------------- inputs

// "1.8.0" -> "torchrec-1.8".
CostModel read_cost_model(Fields& record) {
  const auto release = record.find<std::string>("release");
  std::string name = "torchrec-ref";
  if (release) {
    const std::size_t minor = release->find('.');
    const std::size_t patch = minor == std::string::npos ? minor : release->find('.', minor + 1);
    name = "torchrec-" + release->substr(0, patch);
  }
  auto model = embedding::find_cost_model(name);
  if (model) return *std::move(model);
  if (!record.reading().error) {
    record.reading().error = model.error();
    record.reading().error->place = record.place("release");
  }
  return embedding::default_cost_model();
}

std::optional<Topology> read_topology(const CostModel& cost_model, Fields& record) {
  const Json* json = record.child("topology");
  if (json == nullptr) {
    record.need<std::string>("topology");
    return std::nullopt;
  }
  Fields fields(*json, "topology", record.place("topology"), record.reading());
  topology::TopologySpec spec;
  spec.world_size = fields.need<int>("world_size");
  spec.local_world_size = fields.find<int>("local_world_size");
  spec.pod_size = fields.find<int>("pod_size");
  spec.compute_device = fields.value("compute_device", topology::ComputeDevice::kCuda);
  spec.hbm_cap = fields.find<Bytes>("hbm_cap");
  spec.ddr_cap = fields.find<Bytes>("ddr_cap");
  spec.ssd_cap = fields.find<Bytes>("ssd_cap");
  spec.hbm_caps = fields.value("hbm_caps", std::vector<Bytes>{});
  spec.ddr_caps = fields.value("ddr_caps", std::vector<Bytes>{});
  spec.ssd_caps = fields.value("ssd_caps", std::vector<Bytes>{});
  spec.hbm_mem_bw = fields.find<double>("hbm_mem_bw");
  spec.ddr_mem_bw = fields.find<double>("ddr_mem_bw");
  spec.ssd_mem_bw = fields.find<double>("ssd_mem_bw");
  spec.hbm_to_ddr_mem_bw = fields.find<double>("hbm_to_ddr_mem_bw");
  spec.intra_host_bw = fields.find<double>("intra_host_bw");
  spec.inter_host_bw = fields.find<double>("inter_host_bw");
  spec.bwd_compute_multiplier = fields.find<double>("bwd_compute_multiplier");
  spec.weighted_feature_bwd_compute_multiplier =
      fields.find<double>("weighted_feature_bwd_compute_multiplier");
  spec.uneven_sharding_perf_multiplier = fields.find<double>("uneven_sharding_perf_multiplier");
  if (record.reading().error) return std::nullopt;
  auto topology = topology::make_topology(spec, cost_model.zero_cap_is_default, cost_model.ssd_tier,
                                          !cost_model.mtia_is_host);
  if (topology) return *std::move(topology);
  record.reading().error = topology.error();
  record.reading().error->place = fields.place();
  return std::nullopt;
}

std::optional<embedding::CacheParams> read_cache(Fields& record) {
  const Json* json = record.child("cache");
  if (json == nullptr) return std::nullopt;
  Fields fields(*json, "cache", record.place("cache"), record.reading());
  embedding::CacheParams cache;
  cache.algorithm = fields.find<embedding::CacheAlgorithm>("algorithm");
  cache.load_factor = fields.find<double>("load_factor");
  cache.reserved_memory = fields.find<double>("reserved_memory");
  cache.precision = fields.find<embedding::DataType>("precision");
  cache.prefetch_pipeline = fields.find<bool>("prefetch_pipeline");
  cache.multipass_num_passes = fields.find<int>("multipass_num_passes");
  const auto lookups = fields.find<double>("expected_lookups");
  const auto miss_rate = fields.find<double>("miss_rate");
  const auto cacheability = fields.find<double>("cacheability");
  if (lookups || miss_rate || cacheability) {
    cache.stats.emplace();
    cache.stats->expected_lookups = lookups.value_or(0);
    cache.stats->constant_miss_rate = miss_rate;
    cache.stats->cacheability = cacheability.value_or(0);
  }
  return cache;
}

embedding::SharderParams read_sharder(Fields& record) {
  embedding::SharderParams sharder;
  const Json* json = record.child("fused_params");
  if (json == nullptr) return sharder;
  Fields fields(*json, "fused_params", record.place("fused_params"), record.reading());
  sharder.cache_load_factor = fields.find<double>("cache_load_factor");
  sharder.prefetch_pipeline = fields.value("prefetch_pipeline", false);
  sharder.multipass_num_passes = fields.find<int>("multipass_num_passes");
  return sharder;
}

std::optional<embedding::KeyValueParams> read_key_value(Fields& record) {
  const Json* json = record.child("key_value");
  if (json == nullptr) return std::nullopt;
  Fields fields(*json, "key_value", record.place("key_value"), record.reading());
  embedding::KeyValueParams params;
  params.max_l1_cache_size = fields.find<std::int64_t>("max_l1_cache_size");
  params.l2_cache_size = fields.find<std::int64_t>("l2_cache_size");
  return params;
}

// What a list that is absent or null stands for: one value for every feature.
template <class T>
std::vector<T> read_list(Fields& fields, std::string_view key, std::size_t count, T value) {
  return fields.value(key, std::vector<T>(count, value));
}

// A record of `options` gives what the formulas see; nothing is derived from a model.
TableProfile read_profile(Fields& record) {
  static const Json kEmpty = Json::object();
  auto& reading = record.reading();
  const Json* table_json = record.child("table");
  if (table_json == nullptr) record.need<std::string>("table");
  TableProfile profile;

  Fields table(table_json ? *table_json : kEmpty, "table", record.place("table"), reading);
  profile.shape.rows = table.need<std::int64_t>("rows");
  profile.shape.columns = table.need<std::int64_t>("cols");
  profile.shape.element_size = table.value("element_size", 4);
  profile.is_pooled = table.value("pooled", true);
  profile.is_weighted = table.value("weighted", false);
  profile.optimizer = table.value("optimizer", embedding::Optimizer::kNone);

  // A quantised table is described as the planner sees it, in packed columns of one byte; sub-byte
  // types count elements there and pack several into a byte.
  std::int64_t elements_per_byte = 1;
  if (const Json* json = record.child("quantised")) {
    Fields quantised(*json, "quantised", record.place("quantised"), reading);
    quantised.find<std::int64_t>("embedding_dim");
    const auto type = quantised.value("data_type", embedding::DataType::kInt8);
    if (type == embedding::DataType::kInt4) elements_per_byte = 2;
    if (type == embedding::DataType::kInt2) elements_per_byte = 4;
    profile.module_kind = profile.is_pooled ? embedding::ModuleKind::kQuantEmbeddingBagCollection
                                            : embedding::ModuleKind::kQuantEmbeddingCollection;
  } else {
    profile.module_kind = profile.is_pooled ? embedding::ModuleKind::kEmbeddingBagCollection
                                            : embedding::ModuleKind::kEmbeddingCollection;
  }
  const Int128 bytes = Int128{profile.shape.rows} * profile.shape.columns *
                       profile.shape.element_size / elements_per_byte;
  profile.shape.bytes = static_cast<Bytes>(bytes);
  if (table_json != nullptr && bytes != profile.shape.bytes) record.reject("table", *table_json);

  const Json* features_json = record.child("features");
  Fields features(features_json ? *features_json : kEmpty, "features", record.place("features"),
                  reading);
  profile.pooling_factors = features.value("pooling_factors", std::vector<double>{1.0});
  const std::size_t count = profile.pooling_factors.size();
  profile.num_poolings = read_list(features, "num_poolings", count, 1.0);
  profile.batch_sizes =
      read_list(features, "batch_sizes", count, record.value("batch_size", std::int64_t{512}));

  profile.output_element_size = record.find<double>("output_element_size");
  profile.cache_params = read_cache(record);
  profile.sharder = read_sharder(record);
  profile.key_value_params = read_key_value(record);
  profile.use_virtual_table = record.value("use_virtual_table", false);

  const Json* comms_json = record.child("comm_element_sizes");
  Fields comms(comms_json ? *comms_json : kEmpty, "comm_element_sizes",
               record.place("comm_element_sizes"), reading);
  const double element_size = profile.shape.element_size;
  profile.comms.forward_all_to_all = comms.value("fwd_a2a", element_size);
  profile.comms.backward_all_to_all = comms.value("bwd_a2a", element_size);
  profile.comms.forward_reduce_scatter = comms.value("fwd_sr", element_size);
  profile.comms.backward_reduce_scatter = comms.value("bwd_sr", element_size);
  return profile;
}

embedding::Table read_table(Fields& fields, embedding::ParameterConstraints& constraints,
                            std::string& module) {
  embedding::Table table;
  table.name = fields.need<std::string>("name");
  table.num_embeddings = fields.need<std::int64_t>("rows");
  table.embedding_dim = fields.need<std::int64_t>("cols");
  table.element_size = fields.value("element_size", 4);
  module = fields.value("module", std::string());

  if (const auto factor = fields.find<double>("pooling_factor")) {
    constraints.pooling_factors = {*factor};
  }
  if (auto factors = fields.find<std::vector<double>>("pooling_factors")) {
    constraints.pooling_factors = *std::move(factors);
  }
  constraints.num_poolings = fields.value("num_poolings", std::vector<double>{});
  constraints.batch_sizes = fields.value("batch_sizes", std::vector<std::int64_t>{});
  constraints.sharding_types =
      fields.value("sharding_types", std::vector<embedding::ShardingType>{});
  constraints.compute_kernels =
      fields.value("compute_kernels", std::vector<embedding::ComputeKernel>{});
  constraints.min_partition = fields.find<std::int64_t>("min_partition");
  constraints.is_weighted = fields.value("is_weighted", false);
  constraints.output_dtype = fields.find<embedding::DataType>("output_dtype");
  constraints.use_virtual_table = fields.value("use_virtual_table", false);
  constraints.cache_params = read_cache(fields);
  constraints.key_value_params = read_key_value(fields);
  return table;
}

embedding::Model read_model(Fields& record) {
  auto& reading = record.reading();
  embedding::Model model;
  model.name = "golden";
  model.optimizer = record.value("optimizer", embedding::Optimizer::kNone);
  model.dense_parameter_bytes = 4 * record.value("dense_parameters", std::int64_t{0});
  const embedding::SharderParams sharder = read_sharder(record);

  record.child("module");  // older records say in words that the only module is the root
  static const Json kRoot = {{"", Json::object()}};
  const Json* modules_json = record.child("modules");
  if (modules_json == nullptr || !modules_json->is_object()) modules_json = &kRoot;
  for (const auto& [path, module_json] : modules_json->items()) {
    Fields fields(module_json, "modules", record.place("modules") + "." + path, reading);
    embedding::Module module;
    module.path = path;
    module.kind = fields.value("pooled", true) ? embedding::ModuleKind::kEmbeddingBagCollection
                                               : embedding::ModuleKind::kEmbeddingCollection;
    module.is_weighted = fields.value("weighted", false);
    module.sharder = sharder;
    model.modules.push_back(std::move(module));
  }

  const Json* tables = record.child("tables");
  if (tables == nullptr || !tables->is_array()) {
    record.reject("tables", tables ? *tables : Json());
    return model;
  }
  for (std::size_t i = 0; i < tables->size(); ++i) {
    Fields fields((*tables)[i], "tables", fmt::format("{}[{}]", record.place("tables"), i),
                  reading);
    embedding::ParameterConstraints constraints;
    std::string path;
    embedding::Table table = read_table(fields, constraints, path);
    const auto module =
        std::find_if(model.modules.begin(), model.modules.end(),
                     [&](const embedding::Module& candidate) { return candidate.path == path; });
    if (module == model.modules.end()) {
      fields.reject("module", path);
      continue;
    }
    model.constraints.emplace(table.name, std::move(constraints));
    module->tables.push_back(std::move(table));
  }
  return model;
}

embedding::ReservationOptions read_reservation(Fields& record) {
  embedding::ReservationOptions options;
  const Json* json = record.child("reservation");
  if (json == nullptr) return options;
  Fields fields(*json, "reservation", record.place("reservation"), record.reading());
  options.kind = fields.value("kind", options.kind);
  options.percentage = fields.value("percentage", options.percentage);
  options.parameter_multiplier = fields.value("parameter_multiplier", options.parameter_multiplier);
  options.dense_tensor_estimate = fields.find<Bytes>("dense_tensor_estimate");
  options.absolute_bytes = fields.value("absolute_bytes", options.absolute_bytes);
  options.margin_bytes = fields.value("margin_bytes", options.margin_bytes);
  options.overhead_bytes = fields.value("overhead_bytes", options.overhead_bytes);
  options.base_bytes = fields.find<Bytes>("base_bytes");
  return options;
}

// The records' names of proposers and partitioners, in the planner's own words.
std::string proposer_names(std::string_view recorded) {
  std::string names;
  while (true) {
    const std::size_t plus = recorded.find('+');
    const std::string_view name = recorded.substr(0, plus);
    names += name == "scaleup" ? "embedding_offload_scaleup" : name;
    if (plus == std::string_view::npos) return names;
    names += '+';
    recorded.remove_prefix(plus + 1);
  }
}

embedding::ReferenceOptions read_reference_options(Fields& record) {
  embedding::ReferenceOptions options;
  options.proposers = proposer_names(record.value("proposer", std::string("default")));
  std::string partitioner = record.value("partitioner", std::string("greedy_storage"));
  constexpr std::string_view kBalanced = "_balance_modules";
  if (partitioner.ends_with(kBalanced)) {
    options.balance_modules = true;
    partitioner.resize(partitioner.size() - kBalanced.size());
  }
  if (partitioner == "greedy_perf") partitioner = "greedy_perf_by_perf";
  if (partitioner == "greedy_storage") partitioner = "greedy_perf";
  options.partitioner = std::move(partitioner);
  return options;
}

// ---------------------------------------------------------------------------- answers

// The name of the Python class for what the reference raises.
std::string_view exception_name(ErrorCode code) {
  switch (code) {
    case ErrorCode::kRuntime:
      return "RuntimeError";
    case ErrorCode::kZeroDivision:
      return "ZeroDivisionError";
    case ErrorCode::kValue:
      return "ValueError";
    case ErrorCode::kOverflow:
      return "OverflowError";
    case ErrorCode::kPlanner:
    case ErrorCode::kUsage:
    case ErrorCode::kNotFound:
    case ErrorCode::kIo:
    case ErrorCode::kSyntax:
    case ErrorCode::kSchema:
    case ErrorCode::kConflict:
    case ErrorCode::kInternal:
    case ErrorCode::kOutOfMemory:
      break;
  }
  return to_string(code);
}

// Python prints " at 0x7f..." for objects without a text of their own; records leave that out.
std::string without_addresses(std::string text) {
  constexpr std::string_view kMark = " at 0x";
  for (std::size_t from = text.find(kMark); from != std::string::npos;
       from = text.find(kMark, from)) {
    const std::size_t to = text.find_first_not_of("0123456789abcdefABCDEF", from + kMark.size());
    text.erase(from, to == std::string::npos ? to : to - from);
  }
  return text;
}

void write_error(const Error& error, Json& answer) {
  if (error.code == ErrorCode::kPlanner) {
    answer["error"] = error.kind;
  } else {
    answer["exception"] = exception_name(error.code);
  }
  answer["error_text"] = without_addresses(error.message);
}

Json perf_numbers(const CostModel& cost_model, const embedding::Perf& perf) {
  Json numbers = {perf.fwd_compute, perf.fwd_comms, perf.bwd_compute, perf.bwd_comms,
                  perf.prefetch_compute};
  if (cost_model.input_dist) numbers.push_back(perf.input_dist_comms);
  return numbers;
}

// Appends equal consecutive shards; joins them with the last run where nothing but the place
// differs.
void append_run(Json run, std::int64_t count, std::int64_t row, std::int64_t column, Json& runs) {
  if (!runs.empty()) {
    Json last = runs.back();
    last.erase("count");
    last.erase("offset");
    if (last == run) {
      runs.back()["count"] = runs.back()["count"].get<std::int64_t>() + count;
      return;
    }
  }
  run["count"] = count;
  run["offset"] = {row, column};
  runs.push_back(std::move(run));
}

Result<Json> shard_runs(const Estimator& estimator, const TableProfile& profile,
                        const embedding::Cut& cut, embedding::ShardingType type,
                        embedding::ComputeKernel kernel) {
  Json runs = Json::array();
  for (std::int64_t block = 0; block < cut.column_blocks; ++block) {
    for (const embedding::ShardRun& shards : cut.runs) {
      PLIMSOLL_ASSIGN(const embedding::Perf perf,
                      estimator.shard_perf(profile, type, kernel, shards.rows, shards.columns));
      PLIMSOLL_ASSIGN(const embedding::Storage storage,
                      estimator.shard_storage(profile, type, kernel, shards.rows, shards.columns));
      Json run;
      run["size"] = {shards.rows, shards.columns};
      run["perf"] = perf_numbers(estimator.cost_model(), perf);
      run["total"] = perf.total();
      run["hbm"] = storage.hbm;
      run["ddr"] = storage.ddr;
      run["ssd"] = storage.ssd;
      append_run(std::move(run), shards.count, shards.first_row, block * shards.columns, runs);
    }
  }
  return runs;
}

Json answer_option(Fields& record) {
  const CostModel cost_model = read_cost_model(record);
  const std::optional<Topology> topology = read_topology(cost_model, record);
  const TableProfile profile = read_profile(record);
  const auto type = record.need<embedding::ShardingType>("sharding_type");
  const auto kernel = record.need<embedding::ComputeKernel>("compute_kernel");
  const auto min_partition = record.find<std::int64_t>("min_partition");
  const auto num_buckets = record.find<std::int64_t>("num_buckets");
  const embedding::RunMode mode = {
      .inference = record.value("inference", false),
      .pipeline_type = record.value("pipeline_type", embedding::PipelineType::kNone),
      .run_embedding_at_peak_memory = record.value("run_embedding_at_peak_memory", false)};
  if (record.reading().error || !topology) return Json();

  const auto cut = embedding::cut_table(cost_model, *topology, type, profile.shape, min_partition,
                                        cost_model.buckets ? num_buckets : std::nullopt);
  auto runs = cut.and_then([&](const embedding::Cut& shards) {
    return shard_runs(Estimator(cost_model, *topology, mode), profile, shards, type, kernel);
  });
  Json answer;
  if (runs) {
    answer["shard_runs"] = *std::move(runs);
  } else {
    write_error(runs.error(), answer);
  }
  return answer;
}

struct PlanInput {
  embedding::PlanningProblem problem;
  embedding::ReferenceOptions options;
};

PlanInput read_plan_input(const CostModel& cost_model, Fields& record) {
  PlanInput input;
  input.problem.cost_model = cost_model;
  if (auto topology = read_topology(cost_model, record)) {
    input.problem.topology = *std::move(topology);
  }
  input.problem.model = read_model(record);
  input.problem.batch_size = record.value("batch_size", std::int64_t{512});
  input.problem.reservation = read_reservation(record);
  input.options = read_reference_options(record);
  return input;
}

Json plan_entry(const embedding::TableSharding& sharding) {
  Json entry;
  entry["fqn"] = sharding.fqn();
  entry["sharding_type"] = embedding::to_string(sharding.sharding_type);
  entry["compute_kernel"] = embedding::to_string(sharding.compute_kernel);
  entry["ranks"] = Json::array();
  for (const embedding::RankRun& run : sharding.ranks) {
    for (std::int32_t i = 0; i < run.count; ++i) entry["ranks"].push_back(run.first + i);
  }
  if (is_column_cut(sharding.sharding_type) && !sharding.shards.empty()) {
    entry["shard_cols"] = sharding.shards.front().columns;
  }
  entry["cache_load_factor"] = Json();
  if (sharding.cache_params && sharding.cache_params->load_factor) {
    entry["cache_load_factor"] = *sharding.cache_params->load_factor;
  }
  return entry;
}

Json answer_result(const embedding::PlanningResult& result) {
  Json answer;
  answer["num_proposals"] = result.num_proposals;
  answer["num_plans"] = result.num_plans;
  if (result.failure) {
    write_error(*result.failure, answer);
    return answer;
  }
  answer["rating"] = result.rating;
  const auto storage = embedding::rank_storage(result.enumeration.options, result.best);
  Json hbm = Json::array(), ddr = Json::array(), ssd = Json::array();
  Bytes max_hbm = 0;
  for (const topology::Storage& used : storage) {
    hbm.push_back(used.hbm);
    ddr.push_back(used.ddr);
    ssd.push_back(used.ssd);
    max_hbm = std::max(max_hbm, used.hbm);
  }
  answer["max_rank_hbm"] = max_hbm;
  answer["rank_hbm"] = std::move(hbm);
  answer["rank_ddr"] = std::move(ddr);
  answer["rank_ssd"] = std::move(ssd);
  answer["plan"] = Json::array();
  if (result.outcome.plan) {
    for (const auto& sharding : result.outcome.plan->tables) {
      answer["plan"].push_back(plan_entry(sharding));
    }
  }
  return answer;
}

Json answer_plan(Fields& record) {
  const PlanInput input = read_plan_input(read_cost_model(record), record);
  if (record.reading().error) return Json();
  const auto result = embedding::plan_like_torchrec(input.problem, input.options, {}, {});
  if (result) return answer_result(*result);
  Json answer;
  write_error(result.error(), answer);
  return answer;
}

Json answer_report(Fields& record) {
  const CostModel cost_model = read_cost_model(record);
  const Json* json = record.child("input");
  if (json == nullptr) {
    record.need<std::string>("input");
    return Json();
  }
  Fields fields(*json, "input", record.place("input"), record.reading());
  const PlanInput input = read_plan_input(cost_model, fields);
  if (record.reading().error) return Json();
  const auto result = embedding::plan_like_torchrec(input.problem, input.options, {}, {});
  if (!result) {
    Json answer;
    write_error(result.error(), answer);
    return answer;
  }
  Json answer = answer_result(*result);
  answer["lines"] = embedding::make_stats_report(input.problem, *result).lines;
  return answer;
}

}  // namespace

std::span<const Kind> embedding_kinds() {
  static const std::vector<Kind> kKinds = {
      {"options", answer_option, {"shard_runs", "error", "exception", "error_text"}},
      {"plans",
       answer_plan,
       {"num_proposals", "num_plans", "error", "exception", "error_text", "rating", "max_rank_hbm",
        "rank_hbm", "rank_ddr", "rank_ssd", "plan"}},
      {"reports",
       answer_report,
       {"num_proposals", "num_plans", "error", "exception", "error_text", "rating", "max_rank_hbm",
        "rank_hbm", "rank_ddr", "rank_ssd", "plan", "lines"}},
  };
  return kKinds;
}

}  // namespace plimsoll::golden
