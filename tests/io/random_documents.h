// Seeded random values of every document type, with all fields in play.
#pragma once

#include <cmath>
#include <cstdint>
#include <random>
#include <string>
#include <vector>

#include "io/documents/fx_graph_json.h"
#include "io/import/dnn_partitioning_json.h"
#include "plimsoll/embedding/model.h"
#include "plimsoll/embedding/sharding_plan.h"
#include "plimsoll/io/placement_json.h"
#include "plimsoll/io/plan_json.h"
#include "plimsoll/topology/topology.h"

namespace plimsoll::io {

class Random {
 public:
  explicit Random(std::uint64_t seed) : engine_(seed) {}

  std::int64_t below(std::int64_t bound) {
    return static_cast<std::int64_t>(engine_() % static_cast<std::uint64_t>(bound));
  }
  bool coin() { return below(2) == 0; }
  // Every magnitude up to 2^62.
  std::int64_t size() { return static_cast<std::int64_t>(engine_() >> (2 + below(62))); }
  double number() {
    return std::ldexp(static_cast<double>(engine_() >> 11), -static_cast<int>(below(70)));
  }
  double fraction() { return static_cast<double>(engine_() >> 11) / 9007199254740992.0; }
  std::uint64_t bits() { return engine_(); }
  template <class Enum>
  Enum value_of(int count) {
    return static_cast<Enum>(below(count));
  }
  template <class Enum>
  Enum named() {
    return value_of<Enum>(static_cast<int>(embedding::enum_names<Enum>().size()));
  }
  // Names that need escaping in JSON or in a pointer are among them.
  std::string name() {
    static const char* const kParts[] = {"a", "table", "/", "~", "\"", "\\", "\n", "é", "0", "."};
    std::string text = "x";
    for (std::int64_t i = below(5); i > 0; --i) text += kParts[below(10)];
    return text;
  }
  template <class Make>
  auto list(std::int64_t max_length, const Make& make) {
    std::vector<decltype(make())> values;
    for (std::int64_t i = below(max_length + 1); i > 0; --i) values.push_back(make());
    return values;
  }
  template <class Make>
  auto maybe(const Make& make) -> std::optional<decltype(make())> {
    if (coin()) return make();
    return {};
  }

 private:
  std::mt19937_64 engine_;
};

inline study::NoPlan random_no_plan(Random& random) {
  study::NoPlan none;
  none.binding = random.name();
  none.missing = random.size();
  none.lines = random.list(3, [&] { return random.name(); });
  if (random.coin()) none.cap = random.name();
  none.conflict = random.list(2, [&] {
    return study::ConflictMember{random.name(), random.name()};
  });
  none.is_irreducible = random.coin();
  none.fixes = random.list(2, [&] {
    return study::Fix{random.name(), random.name(), random.maybe([&] { return random.number(); })};
  });
  return none;
}

inline embedding::CacheParams random_cache_params(Random& random) {
  embedding::CacheParams cache;
  cache.algorithm = random.maybe([&] { return random.named<embedding::CacheAlgorithm>(); });
  cache.load_factor = random.maybe([&] { return random.fraction(); });
  cache.reserved_memory = random.maybe([&] { return random.number(); });
  cache.precision = random.maybe([&] { return random.named<embedding::DataType>(); });
  cache.prefetch_pipeline = random.maybe([&] { return random.coin(); });
  cache.multipass_num_passes = random.maybe([&] { return static_cast<int>(random.below(100)); });
  if (random.coin()) {
    embedding::CacheStats stats;
    stats.expected_lookups = random.number();
    stats.cacheability = random.fraction();
    stats.constant_miss_rate = random.maybe([&] { return random.fraction(); });
    stats.histogram = random.list(4, [&] { return random.number(); });
    if (!stats.histogram.empty()) stats.height = 1 + random.number();
    cache.stats = stats;
  }
  return cache;
}

inline embedding::KeyValueParams random_key_value_params(Random& random) {
  embedding::KeyValueParams params;
  params.max_l1_cache_size = random.maybe([&] { return random.below(1 << 20); });
  params.l2_cache_size = random.maybe([&] { return random.below(1 << 20); });
  static const char* const kTexts[] = {"1", "true", "null", "\"text\"", "[1, 2.5]", "{\"a\": 1}"};
  for (std::int64_t i = random.below(4); i > 0; --i) {
    params.pass_through[random.name()] = kTexts[random.below(6)];
  }
  return params;
}

inline embedding::DynamicEmbedding random_dynamic_embedding(Random& random) {
  embedding::DynamicEmbedding dynamic;
  dynamic.mode = random.maybe([&] { return random.named<embedding::DynamicEmbeddingMode>(); });
  dynamic.load_factor = random.maybe([&] { return random.fraction(); });
  dynamic.bucket_capacity = 1 + random.below(1 << 20);
  return dynamic;
}

inline embedding::ParameterConstraints random_constraints(Random& random) {
  embedding::ParameterConstraints constraints;
  const std::int64_t features = random.below(4);
  for (std::int64_t i = 0; i < features; ++i) {
    constraints.pooling_factors.push_back(static_cast<double>(random.below(1000)) / 7);
  }
  if (random.coin()) constraints.num_poolings.assign(static_cast<std::size_t>(features), 2.5);
  if (random.coin()) constraints.batch_sizes.assign(static_cast<std::size_t>(features), 512);
  constraints.sharding_types =
      random.list(3, [&] { return random.named<embedding::ShardingType>(); });
  constraints.compute_kernels =
      random.list(3, [&] { return random.named<embedding::ComputeKernel>(); });
  constraints.min_partition = random.maybe([&] { return random.below(1 << 10); });
  constraints.is_weighted = random.coin();
  constraints.cache_params = random.maybe([&] { return random_cache_params(random); });
  constraints.enforce_hbm = random.maybe([&] { return random.coin(); });
  constraints.stochastic_rounding = random.maybe([&] { return random.coin(); });
  constraints.bounds_check_mode =
      random.maybe([&] { return random.named<embedding::BoundsCheckMode>(); });
  constraints.feature_names = random.list(3, [&] { return random.name(); });
  constraints.output_dtype =
      random.maybe([&] { return random.value_of<embedding::DataType>(8); });  // have a bit width
  constraints.device_group = random.maybe([&] { return random.name(); });
  constraints.key_value_params = random.maybe([&] { return random_key_value_params(random); });
  constraints.use_virtual_table = random.coin();
  return constraints;
}

inline embedding::ConstraintMap random_constraint_map(Random& random) {
  embedding::ConstraintMap constraints;
  for (std::int64_t i = random.below(4); i > 0; --i) {
    constraints[random.name()] = random_constraints(random);
  }
  return constraints;
}

// Passes embedding::validate.
inline embedding::Model random_model(Random& random) {
  embedding::Model model;
  model.name = random.name();
  model.dense_parameter_bytes = random.size();
  model.dense_buffer_bytes = random.below(2);
  model.optimizer = random.maybe([&] { return random.named<embedding::Optimizer>(); });
  model.batch_size = random.maybe([&] { return random.below(1 << 16); });
  model.constraints = random_constraint_map(random);
  for (std::int64_t m = random.below(4); m > 0; --m) {
    embedding::Module& module = model.modules.emplace_back();
    module.path = "m" + std::to_string(m);
    module.kind = random.named<embedding::ModuleKind>();
    module.is_weighted = random.coin();
    module.holds_embedding_collection = random.coin();
    module.legacy_feature_processor_tables = random.list(2, [&] { return random.name(); });
    module.dense_parameter_bytes = random.size();
    module.dense_buffer_bytes = random.size();
    module.sharder.cache_load_factor = random.maybe([&] { return random.fraction(); });
    module.sharder.prefetch_pipeline = random.coin();
    module.sharder.multipass_num_passes =
        random.maybe([&] { return static_cast<int>(random.below(9)); });
    if (random.coin()) {
      module.sharder.forward_comms = random.named<embedding::CommsPrecision>();
      module.sharder.backward_comms = random.named<embedding::CommsPrecision>();
    }
    if (random.coin()) {
      const auto bytes = [&] {
        return random.maybe([&] { return 1.0 + static_cast<double>(random.below(8)); });
      };
      module.sharder.codec_bytes.emplace() = {bytes(), bytes(), bytes(), bytes()};
    }
    const std::int64_t width = 4 * (1 + random.below(200));
    for (std::int64_t t = random.below(4); t > 0; --t) {
      embedding::Table& table = module.tables.emplace_back();
      table.name = "t" + std::to_string(t) + random.name();
      table.num_embeddings = 1 + random.below(std::int64_t{1} << 40);
      table.embedding_dim = width;
      static const embedding::DataType kPacked[] = {
          embedding::DataType::kInt8, embedding::DataType::kFp16, embedding::DataType::kInt4,
          embedding::DataType::kInt2};
      table.data_type = kPacked[random.below(4)];
      table.pooling = random.named<embedding::Pooling>();
      table.feature_names = random.list(3, [&] { return random.name(); });
      table.element_size = random.maybe([&] { return 1 + static_cast<int>(random.below(8)); });
      table.optimizer = random.maybe([&] { return random.named<embedding::Optimizer>(); });
      table.total_num_buckets = random.maybe([&] { return 1 + random.below(100); });
      table.use_virtual_table = table.total_num_buckets.has_value() && random.coin();
      table.num_poolings = random.list(2, [&] { return random.number(); });
      if (module.kind == embedding::ModuleKind::kEmbeddingTowerCollection) {
        table.tower = static_cast<int>(random.below(3));
      }
      if (module.kind == embedding::ModuleKind::kEmbeddingBagCollection ||
          module.kind == embedding::ModuleKind::kEmbeddingCollection) {
        table.dynamic_embedding = random.maybe([&] { return random_dynamic_embedding(random); });
      }
    }
  }
  return model;
}

inline topology::TopologySpec random_topology(Random& random) {
  topology::TopologySpec spec;
  spec.name = random.name();
  spec.world_size = 1 + static_cast<int>(random.below(16));
  const auto whole = [&] { return static_cast<int>(random.below(9)); };
  const auto size = [&] { return random.size(); };
  const auto bandwidth = [&] { return 1 + random.number(); };
  const auto caps = [&] {
    std::vector<Bytes> result;
    if (random.coin()) result.assign(static_cast<std::size_t>(spec.world_size), random.size());
    return result;
  };
  spec.local_world_size = random.maybe(whole);
  spec.pod_size = random.maybe(whole);
  spec.compute_device = random.value_of<topology::ComputeDevice>(4);
  spec.hbm_cap = random.maybe(size);
  spec.ddr_cap = random.maybe(size);
  spec.ssd_cap = random.maybe(size);
  spec.hbm_caps = caps();
  spec.ddr_caps = caps();
  spec.ssd_caps = caps();
  spec.hbm_mem_bw = random.maybe(bandwidth);
  spec.ddr_mem_bw = random.maybe(bandwidth);
  spec.ssd_mem_bw = random.maybe(bandwidth);
  spec.hbm_to_ddr_mem_bw = random.maybe(bandwidth);
  spec.intra_host_bw = random.maybe(bandwidth);
  spec.inter_host_bw = random.maybe(bandwidth);
  spec.comms_rules = random.list(3, [&] {
    topology::CommsRule rule;
    rule.collective = random.maybe([&] { return random.value_of<topology::Collective>(4); });
    rule.min_world_size = random.maybe(whole);
    rule.max_world_size = random.maybe(whole);
    rule.min_local_world_size = random.maybe(whole);
    rule.max_local_world_size = random.maybe(whole);
    rule.bandwidth = bandwidth();
    return rule;
  });
  if (random.coin()) {
    for (int r = 0; r < spec.world_size; ++r) spec.device_speeds.push_back(bandwidth());
  }
  spec.bwd_compute_multiplier = random.maybe([&] { return random.number(); });
  spec.weighted_feature_bwd_compute_multiplier = random.maybe([&] { return random.number(); });
  spec.uneven_sharding_perf_multiplier = random.maybe([&] { return random.number(); });
  return spec;
}

// Runs are arbitrary but for what the reader checks.
inline embedding::ShardingPlan random_plan(Random& random) {
  embedding::ShardingPlan plan;
  plan.world_size = 1 + static_cast<int>(random.below(64));
  plan.local_world_size = 1 + static_cast<int>(random.below(8));
  plan.compute_device = random.value_of<topology::ComputeDevice>(4);
  plan.tables = random.list(4, [&] {
    embedding::TableSharding sharding;
    sharding.module_path = random.name();
    sharding.table = random.name();
    sharding.sharding_type = random.named<embedding::ShardingType>();
    sharding.compute_kernel = random.named<embedding::ComputeKernel>();
    sharding.cache_params = random.maybe([&] { return random_cache_params(random); });
    sharding.enforce_hbm = random.maybe([&] { return random.coin(); });
    sharding.stochastic_rounding = random.maybe([&] { return random.coin(); });
    sharding.bounds_check_mode =
        random.maybe([&] { return random.named<embedding::BoundsCheckMode>(); });
    sharding.output_dtype = random.maybe([&] { return random.named<embedding::DataType>(); });
    sharding.key_value_params = random.maybe([&] { return random_key_value_params(random); });
    sharding.dynamic_embedding = random.maybe([&] { return random_dynamic_embedding(random); });
    sharding.shards = random.list(4, [&] {
      const std::int64_t rows = random.below(1 << 30);
      return embedding::ShardSizeRun{1 + random.below(9),   rows,
                                     1 + random.below(512), random.below(1 << 30),
                                     random.below(512),     random.coin() ? rows : 0};
    });
    for (const embedding::ShardSizeRun& run : sharding.shards) {
      sharding.ranks.push_back(
          {static_cast<std::int32_t>(random.below(64)), static_cast<std::int32_t>(run.count)});
    }
    return sharding;
  });
  return plan;
}

inline balance::PlacementBound random_bound(Random& random) {
  const auto numbers = [&] { return random.list(3, [&] { return random.number(); }); };
  balance::PlacementBound bound;
  bound.value = random.coin() ? random.number() : kInfinity;
  bound.method = random.value_of<balance::BoundMethod>(8);
  bound.kind_of_rank = random.list(4, [&] { return static_cast<int>(random.below(3)); });
  bound.binding_resource = static_cast<int>(random.below(4)) - 1;
  bound.missing = random.size();
  bound.stuck_unit = static_cast<int>(random.below(4)) - 1;
  bound.cases = random.list(3, [&] {
    balance::BoundCase part;
    part.paid = random.bits();
    part.forbidden = random.bits();
    part.value = random.coin() ? random.number() : kInfinity;
    part.method = random.value_of<balance::BoundMethod>(8);
    part.prices = {random.number(), numbers(), numbers(),
                   random.list(3, [&] { return random.size(); })};
    part.windows.target = random.number();
    part.windows.top = random.number();
    part.windows.class_of_unit = random.list(3, [&] { return static_cast<int>(random.below(5)); });
    part.windows.cells = static_cast<int>(random.below(20000));
    part.windows.proofs = random.list(2, [&] {
      balance::RoomProof proof{random.number(), random.number(), numbers(), numbers(), {}, 0};
      proof.function = {random.value_of<balance::DualFunctionKind>(4), random.number()};
      proof.multiplier = random.number();
      return proof;
    });
    part.windows.nodes = random.list(3, [&] {
      return balance::WindowNode{static_cast<int>(random.below(9)) - 1, random.number(),
                                 static_cast<int>(random.below(9)) - 1,
                                 static_cast<int>(random.below(9)) - 1};
    });
    const auto index = [&] { return static_cast<int>(random.below(9)); };
    part.choices.proofs = random.list(2, [&] {
      balance::ChoiceProof proof{random.number(), random.number(), numbers(), {}};
      proof.anchors = random.list(2, [&] {
        return balance::Anchor{index(), index() - 1, random.number()};
      });
      return proof;
    });
    part.choices.nodes = random.list(3, [&] {
      return balance::ChoiceNode{index() - 1, index() - 1, random.list(3, index), index() - 1};
    });
    return part;
  });
  return bound;
}

inline embedding::PlanTimes random_times(Random& random) {
  return {random.number(), random.number(), random.number()};
}

inline TakenOption random_taken_option(Random& random) {
  TakenOption taken;
  taken.fqn = random.name();
  taken.option = random.below(1 << 20);
  taken.storage_hash = random.maybe([&] { return random.bits(); });
  taken.ranks = random.list(4, [&] { return static_cast<std::int32_t>(random.below(1 << 20)); });
  taken.shards = random.list(2, [&] {
    return ShardCosts{{1 + random.below(9), random.below(99), random.below(99), random.below(9),
                       random.below(9), random.below(9)},
                      random.size(),
                      random.size(),
                      random.size(),
                      random.number()};
  });
  return taken;
}

// By bytes, as a frontier lists them.
inline std::vector<math::FrontierPoint> random_frontier(Random& random) {
  std::vector<math::FrontierPoint> points;
  for (std::int64_t i = random.below(4); i > 0; --i) {
    points.push_back({static_cast<Bytes>(points.size()) * 100, 1000.0 / static_cast<double>(i),
                      -random.fraction(), random.coin()});
  }
  return points;
}

inline ShardingAnswer random_answer(Random& random) {
  ShardingAnswer answer;
  answer.status = random.value_of<SolveStatus>(4);
  answer.stop = random.maybe([&] { return random.value_of<StopReason>(4); });
  answer.rating = random.maybe([&] { return random.number(); });
  answer.objective = random.maybe([&] { return random.value_of<embedding::BalanceObjective>(3); });
  answer.times = random.maybe([&] { return random_times(random); });
  answer.reference = random.maybe([&] { return random_times(random); });
  answer.plan = random.maybe([&] { return random_plan(random); });
  answer.options = random.list(2, [&] { return random_taken_option(random); });
  answer.frontier = random_frontier(random);
  answer.frontier_bound = random_frontier(random);
  answer.frontier_plans = random.list(2, [&] {
    return FrontierPlan{random_plan(random).tables,
                        random.list(2, [&] { return random_taken_option(random); })};
  });
  answer.frontier_proofs = random.list(
      2, [&] { return FrontierProof{random.maybe([&] { return random_bound(random); })}; });
  for (const char* cause : {"hbm", "ddr"}) {
    answer.bill.bytes[cause] = random.list(4, [&] { return random.size(); });
  }
  answer.bill.ms["fwd_compute"] = random.list(4, [&] { return random.number(); });
  answer.certificate = random.maybe([&] {
    Certificate certificate;
    certificate.lower_bound = random.maybe([&] { return random.number(); });
    certificate.objective = certificate.lower_bound.value_or(0) + random.number();
    certificate.proof = parse_proof(random.name());
    return certificate;
  });
  if (answer.certificate) answer.bound = random.maybe([&] { return random_bound(random); });
  answer.provenance = random.maybe([&] {
    Provenance provenance;
    provenance.version = random.name();
    provenance.options[random.name()] = random.name();
    provenance.inputs["model"] = random.name();
    provenance.seed = random.bits();
    if (random.coin()) provenance.stopped_at = random.name();
    return provenance;
  });
  answer.warnings = random.list(2, [&] {
    return Warning{random.name(), random.coin() ? random.name() : "", random.name()};
  });
  answer.explanation = random.maybe([&] { return random_no_plan(random); });
  return answer;
}

// Edges go from earlier to later nodes.
inline DnnPartitioningInput random_dnn_partitioning(Random& random) {
  DnnPartitioningInput input;
  partition::CostGraph& graph = input.graph;
  graph.classes = {{"accelerator", static_cast<int>(random.below(9)), random.size(), 1},
                   {"cpu", 1 + static_cast<int>(random.below(9)), {}, partition::kUnlimited}};
  const int num_nodes = static_cast<int>(random.below(6));
  for (int i = 0; i < num_nodes; ++i) {
    input.ids.push_back(6 * random.below(1 << 20) + i);
    partition::CostNode& node = graph.nodes.emplace_back();
    node.name = random.name();
    node.time_ms = {random.coin() ? partition::kUnlimited : random.number(), random.number()};
    node.memory = random.size() >> 3;
    node.colour = random.maybe([&] { return random.below(9); });
    node.is_backward = 2 * i > num_nodes;
    partition::Net net{i, {}, random.number()};
    for (int k = i + 1; k < num_nodes; ++k) {
      if (random.coin()) net.consumers.push_back(k);
    }
    if (!net.consumers.empty()) graph.nets.push_back(net);
  }
  return input;
}

inline PlacementAnswer random_placement(Random& random) {
  const auto names = [&] { return random.list(3, [&] { return random.name(); }); };
  const auto device = [&] { return static_cast<int>(random.below(9)); };
  PlacementAnswer answer;
  answer.objective = random.value_of<partition::Objective>(4);
  answer.status = random.maybe([&] { return random.value_of<SolveStatus>(4); });
  answer.stop = random.maybe([&] { return random.value_of<StopReason>(4); });
  answer.is_contiguous = random.maybe([&] { return random.coin(); });
  answer.classes = random.list(3, [&] {
    return partition::DeviceClass{random.name(), device(),
                                  random.maybe([&] { return random.size(); }),
                                  random.coin() ? partition::kUnlimited : 1 + random.number()};
  });
  if (!answer.status || random.coin()) {
    answer.plan.emplace();
    for (std::int64_t s = random.below(4); s > 0; --s) {
      PlacedStage& stage = answer.plan->emplace_back();
      stage.id = random.maybe(device);
      for (int d = device(); d < 9; d += 1 + device()) stage.devices.push_back(d);
      if (!stage.devices.empty() && random.coin()) {  // torch.fx may name a device twice
        stage.logical_device_ids = stage.devices;
        stage.logical_device_ids.push_back(stage.devices.front());
      }
      stage.device_class = random.coin() ? random.name() : "";
      stage.compute_ms = random.maybe([&] { return random.number(); });
      stage.transfer_ms = random.maybe([&] { return random.number(); });
      stage.load_ms = random.maybe([&] { return random.number(); });
      stage.sync_ms = random.maybe([&] { return random.number(); });
      stage.in_flight = random.maybe([&] { return 1 + device(); });
      stage.memory = random.size();
      stage.memory_cap = random.maybe([&] { return random.size(); });
      for (std::int64_t n = random.below(4); n > 0; --n) {
        stage.nodes.push_back(random.name() + std::to_string(10 * s + n));
      }
    }
  }
  answer.cuts = random.list(3, [&] {
    return PlacedCut{random.name(), device(), random.list(3, device), random.number(),
                     random.number()};
  });
  for (const std::string& name : names()) answer.node_to_partition[name] = device();
  answer.calls = random.list(2, [&] {
    return partition::DagNode{random.name(), names(), names(), random.list(2, device),
                              random.size()};
  });
  answer.certificate = random.maybe([&] {
    return Certificate{1 + random.fraction(), random.maybe([&] { return random.fraction(); }),
                       parse_proof(random.name())};
  });
  if (random.coin()) {
    answer.provenance =
        Provenance{"1", {{random.name(), "x"}}, {{random.name(), random.name()}}, 7, "12"};
  }
  answer.warnings = random.list(2, [&] { return Warning{"code", random.name(), "text"}; });
  if (random.coin()) answer.explanation = random_no_plan(random);
  if (random.coin()) answer.failure = PlanFailure{"RuntimeError", "", random.name()};
  return answer;
}

inline partition::CostGraph random_cost_graph(Random& random) {
  partition::CostGraph graph;
  for (int c = 0; c < 3; ++c) {
    graph.classes.push_back({random.name() + std::to_string(c), static_cast<int>(random.below(3)),
                             random.maybe([&] { return random.size(); }),
                             random.coin() ? partition::kUnlimited : 1 + random.number()});
  }
  ++graph.classes.back().count;
  const auto num_devices = static_cast<std::size_t>(graph.num_devices());
  if (random.coin()) {
    graph.pair_rates.assign(num_devices, std::vector<double>(num_devices));
    for (std::size_t a = 0; a < num_devices; ++a) {
      for (std::size_t b = 0; b < a; ++b) {
        graph.pair_rates[a][b] = graph.pair_rates[b][a] = 1 + random.number();
      }
    }
  }
  const auto devices = [&] {
    std::vector<int> some;
    for (int d = 0; d < graph.num_devices(); ++d) {
      if (random.below(4) == 0) some.push_back(d);
    }
    return some;
  };
  const auto size = [&] { return random.below(Bytes{1} << 50); };
  const int num_nodes = static_cast<int>(random.below(6));
  for (int i = 0; i < num_nodes; ++i) {
    partition::CostNode& node = graph.nodes.emplace_back();
    node.name = random.name() + std::to_string(i);
    for (std::size_t c = 0; c < graph.classes.size(); ++c) {
      node.time_ms.push_back(random.coin() ? partition::kUnlimited : random.number());
    }
    node.memory = random.coin() ? size() : 0;
    node.colour = random.maybe([&] { return random.below(3) - 1; });
    if (random.below(4) == 0) {
      node.pinned_device = static_cast<int>(random.below(graph.num_devices()));
    }
    node.forbidden_devices = devices();
  }
  const auto behind = [&](int producer) {
    std::vector<int> nodes;
    for (int i = producer + 1; i < num_nodes; ++i) {
      if (random.coin()) nodes.push_back(i);
    }
    return nodes;
  };
  for (int i = 0; i < num_nodes; ++i) {
    graph.nodes[i].is_backward = i + 1 == num_nodes && random.coin();  // nobody reads the last
    if (random.coin()) graph.nets.push_back({i, behind(i), random.number()});
    if (random.coin())
      graph.weights.push_back({random.coin() ? random.name() : "", size(), behind(-1)});
  }
  return graph;
}

inline FxInput random_fx_graph(Random& random) {
  using partition::OpKind;
  std::vector<partition::Node> nodes;
  const auto size = [&] { return random.below(Bytes{1} << 50); };
  for (int i = static_cast<int>(random.below(7)); i > 0; --i) {
    partition::Node node;
    node.name = random.name() + std::to_string(i);
    node.op = random.value_of<OpKind>(5);
    node.target = random.coin() ? random.name() : "";
    for (int k = 0; k < static_cast<int>(nodes.size()); ++k) {
      if (random.coin()) node.inputs.push_back(k);
    }
    node.size = {size(), size()};
    node.is_embedding = random.coin();
    nodes.push_back(std::move(node));
  }
  FxInput input{partition::make_graph(std::move(nodes)).value(), {}};
  partition::PartitionerConfig& config = input.config;
  config.mode = random.value_of<partition::PartitionMode>(5);
  config.devices = random.list(3, [&] {
    return partition::Device{random.name(), random.size(), static_cast<int>(random.below(9))};
  });
  config.transfer_rate_bytes_per_sec = random.coin() ? random.number() : 0;
  config.saturate_host = random.coin();
  for (int node = 0; node < input.graph.num_nodes(); ++node) {
    if (random.coin()) {
      config.node_to_latency_mapping.resize(input.graph.nodes.size());
      config.node_to_latency_mapping[static_cast<std::size_t>(node)] =
          partition::NodeLatency{random.number(), random.number()};
    }
    if (random.coin()) {
      config.node_to_partition_mapping.emplace_back(node, static_cast<int>(random.below(9)));
    }
  }
  for (int id = -1; id < 3; ++id) {
    if (random.coin()) {
      config.partition_to_logical_device_mapping[id] =
          random.list(3, [&] { return static_cast<int>(random.below(9)); });
    }
  }
  return input;
}

}  // namespace plimsoll::io
