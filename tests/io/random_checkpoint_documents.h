// Seeded random values of the checkpointing planner's documents, with all fields in play.
#pragma once

#include <set>
#include <string>
#include <utility>
#include <vector>

#include "io/random_documents.h"
#include "plimsoll/checkpoint/module_stats.h"
#include "plimsoll/io/checkpoint_policy_json.h"

namespace plimsoll::io {

inline Bytes random_bytes(Random& random) { return random.size() % (Bytes{1} << 40); }
inline double random_ms(Random& random) { return random.fraction() * 100; }

// Passes checkpoint::validate.
inline checkpoint::SACStats random_sac_stats(Random& random) {
  checkpoint::SACStats stats;
  const auto n = static_cast<int>(random.below(8));
  for (int i = 0; i < n; ++i) {
    stats.func_names.push_back(random.name());
    stats.runtimes.push_back(random_ms(random));
    stats.memory.push_back(random_bytes(random));
    if (random.coin()) stats.view_like_ops.push_back(i);
    if (random.coin()) stats.rand_ops.push_back(i);
    if (random.coin()) stats.saved_autograd_ops.push_back(i);
    if (random.coin()) stats.inplace_ops.emplace_back(i, static_cast<int>(random.below(i + 1)));
  }
  stats.force_store_random = random.coin();
  return stats;
}

inline checkpoint::ModuleInfo random_module(Random& random, std::string fqn) {
  const auto bytes = [&] { return random_bytes(random); };
  checkpoint::ModuleInfo module;
  module.fqn = std::move(fqn);
  module.is_leaf = random.coin();
  module.param_per_module = bytes();
  module.grad_per_module = random.coin() ? module.param_per_module : bytes();
  module.grad_total = bytes();
  module.act_fw_per_module = bytes();
  module.act_bw_per_module = random.coin() ? bytes() : 0;
  module.act_grad_per_module = random.coin() ? bytes() : -bytes();
  module.act_total = std::max(bytes(), module.act_fw_per_module);
  module.input_per_module = bytes();
  module.output_per_module = bytes();
  module.fw_runtime_per_module = random_ms(random);
  module.bw_runtime_per_module = random_ms(random);
  module.sac_runtime = random_ms(random);
  module.sac_memory = bytes();
  module.n_segments = static_cast<int>(random.below(3));
  for (int i = 0; i < module.n_segments; ++i) {
    module.slopes.push_back(random.fraction() - 0.5);
    module.intercepts.push_back(random.fraction() - 0.5);
  }
  if (module.n_segments > 0 && random.coin()) {
    for (int i = 0; i <= module.n_segments; ++i) module.breakpoints.push_back(random.fraction());
  }
  module.tradeoff_curve = random.list(
      3, [&] { return std::pair<double, double>(random.fraction(), random.fraction()); });
  module.requires_grad = random.coin();
  module.total_peak_fw = random.maybe(bytes);
  module.total_post_fw = random.maybe(bytes);
  module.total_pre_bw = random.maybe(bytes);
  module.total_peak_bw = random.maybe(bytes);
  return module;
}

// Passes checkpoint::validate.
inline checkpoint::ModuleStats random_module_stats(Random& random) {
  checkpoint::ModuleStats stats;
  stats.name = random.name();
  stats.description = random.name();
  stats.torch = random.coin() ? "2.13.0" : "";
  stats.roofline = random.maybe([&] {
    return checkpoint::RecordedRoofline{1 + random.fraction(),
                                        {{random.name(), 1 + random.fraction()}}};
  });
  stats.baseline_peak_bytes = random.maybe([&] { return random_bytes(random); });
  stats.baseline_compute_ms = random.maybe([&] { return random_ms(random); });
  if (random.coin()) stats.tracker_peak[random.name()] = random_bytes(random);
  stats.total_step_peak = random.maybe([&] { return random_bytes(random); });
  stats.total_before_root_bw = random.maybe([&] { return random_bytes(random); });
  stats.sac_stats = random.list(3, [&] { return random_sac_stats(random); });

  std::vector<std::string> fqns = {"R" + random.name()};
  for (std::int64_t i = random.below(6); i > 0; --i) {
    fqns.push_back(
        fqns[static_cast<std::size_t>(random.below(static_cast<std::int64_t>(fqns.size())))] + "." +
        std::to_string(i) + random.name());
  }
  for (const std::string& fqn : fqns) {
    stats.mod_stats.push_back(random_module(random, fqn));
    if (random.below(4) == 0) stats.repeated.push_back(fqn);
    if (random.below(4) == 0) stats.fit_failed.push_back(fqn);
    if (!stats.sac_stats.empty() && random.coin()) {
      stats.sac_stats_of[fqn] =
          static_cast<int>(random.below(static_cast<std::int64_t>(stats.sac_stats.size())));
    }
  }
  if (stats.total_step_peak) *stats.total_step_peak += stats.mod_stats[0].param_per_module;
  stats.mod_order.fw_pre_order = fqns;
  stats.mod_order.fw_post_order = {fqns.rbegin(), fqns.rend()};
  if (random.coin()) stats.mod_order.bw_pre_order = fqns;
  if (random.coin()) stats.mod_order.bw_post_order = {fqns.back()};
  return stats;
}

inline std::vector<checkpoint::CheckpointUnit> random_units(Random& random, int depth,
                                                            const std::string& prefix) {
  std::vector<checkpoint::CheckpointUnit> units;
  for (std::int64_t u = random.below(3); u >= 0; --u) {
    checkpoint::CheckpointUnit& unit = units.emplace_back();
    for (std::int64_t i = random.below(3); i >= 0; --i) {
      unit.fqns.push_back(prefix + std::to_string(u) + "." + std::to_string(i) + random.name());
    }
    unit.kind = random.value_of<checkpoint::UnitKind>(2);
    unit.discard_ratio = random.fraction();
    unit.discarded = random_bytes(random);
    unit.recompute_ms = random_ms(random);
    unit.rng = random.value_of<checkpoint::RngHandling>(2);
    int index = -1;
    unit.ops = random.list(4, [&] {
      index += 1 + static_cast<int>(random.below(3));
      return checkpoint::OperatorChoice{
          index, random.name(), static_cast<int>(random.below(3)),
          unit.kind == checkpoint::UnitKind::kSelective && random.coin()};
    });
    if (depth > 0) unit.nested = random_units(random, depth - 1, unit.fqns.front() + ".");
  }
  return units;
}

inline CheckpointAnswer random_checkpoint_answer(Random& random) {
  CheckpointAnswer answer;
  if (random.coin()) answer.status = random.value_of<SolveStatus>(4);
  if (random.coin() || !answer.status) answer.plan.emplace();
  if (answer.plan && random.coin()) answer.plan->units = random_units(random, 2, "R.");
  answer.input_hash = random.coin() ? "9f86d081884c7d65" : "";
  answer.torch = random.coin() ? "2.13.0" : "";
  answer.budget_bytes = random.maybe([&] { return random_bytes(random); });
  const auto signed_bytes = [&] {
    return random.coin() ? -random_bytes(random) : random_bytes(random);
  };
  answer.predicted = random.maybe([&] {
    return CheckpointPrediction{signed_bytes(), random_ms(random), signed_bytes(),
                                random.coin() ? random.name() : "",
                                random.maybe([&] { return random_ms(random); })};
  });
  answer.world_size = 1 + static_cast<int>(random.below(8));
  answer.profile = random.list(3, [&] {
    return ProfileEntry{random.name(), random_bytes(random)};
  });
  for (auto* points : {&answer.frontier, &answer.frontier_bound}) {
    Bytes bytes = 0;
    double ms = 1000;
    *points = random.list(4, [&] {
      bytes += 1 + random_bytes(random);
      ms -= random.fraction();
      return math::FrontierPoint{bytes, ms, -random.fraction(), random.coin()};
    });
  }
  answer.certificate = random.maybe([&] {
    return Certificate{1 + random.fraction(), random.maybe([&] { return random.fraction(); }),
                       parse_proof(random.name())};
  });
  answer.warnings = random.list(2, [&] { return Warning{random.name(), "", random.name()}; });
  answer.explanation = random.maybe([&] { return random_no_plan(random); });
  return answer;
}

}  // namespace plimsoll::io
