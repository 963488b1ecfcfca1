// May this module hold this table in this way? The sharder's own lists, narrowed by the table's
// constraint, and the checks that releases make after planning
// (docs/mathematics/torchrec-planner.md#rating-and-main-loop).

#include <fmt/format.h>

#include <algorithm>

#include "check/embedding/rules.h"
#include "embedding/model/sharder.h"

namespace plimsoll::check {
namespace {

using embedding::ComputeKernel;
using embedding::ShardingType;

template <class Enum>
bool contains(const std::vector<Enum>& list, Enum value) {
  return std::find(list.begin(), list.end(), value) != list.end();
}

template <class Enum>
std::string one_of(const std::vector<Enum>& list) {
  if (list.empty()) return "none";
  std::string text;
  for (const Enum value : list) {
    if (!text.empty()) text += ", ";
    text += to_string(value);
  }
  return text;
}

void check_type(const TableCase& table, Findings& findings) {
  const ShardingType type = table.sharding->sharding_type;
  const std::string found(to_string(type));
  const auto offered = embedding::allowed_sharding_types(
      *table.cost_model, *table.module, *table.table, table.topology->compute_device);
  if (!contains(offered, type)) {
    findings.add(
        FindingCode::kTypeNotAllowed, table.fqn, std::nullopt, one_of(offered), found,
        fmt::format("{} has no {} on {}", embedding::sharder_class_name(table.module->kind), found,
                    to_string(table.topology->compute_device)));
    return;
  }
  const auto& wanted = table.constraints.sharding_types;
  if (!wanted.empty() && !contains(wanted, type)) {
    findings.add(FindingCode::kTypeNotAllowed, table.fqn, std::nullopt, one_of(wanted), found,
                 fmt::format("the table's constraint forbids {}", found));
  }
}

void check_kernel(const TableCase& table, Findings& findings) {
  const ShardingType type = table.sharding->sharding_type;
  const ComputeKernel kernel = table.sharding->compute_kernel;
  const std::string found(to_string(kernel));
  if (kernel == ComputeKernel::kDense && type != ShardingType::kDataParallel) {
    findings.add(
        FindingCode::kDenseOffDataParallel, table.fqn, std::nullopt, "data_parallel",
        std::string(to_string(type)),
        fmt::format("kernel dense is only for data_parallel, not for {}", to_string(type)));
    return;
  }
  const auto offered = embedding::allowed_compute_kernels(
      *table.cost_model, *table.module, *table.table, type, table.topology->compute_device);
  const auto& wanted = table.constraints.compute_kernels;
  if (!contains(offered, kernel)) {
    findings.add(FindingCode::kKernelNotAllowed, table.fqn, std::nullopt, one_of(offered), found,
                 fmt::format("{} has no kernel {} for {} on {}",
                             embedding::sharder_class_name(table.module->kind), found,
                             to_string(type), to_string(table.topology->compute_device)));
  } else if (!wanted.empty() && !contains(wanted, kernel)) {
    findings.add(FindingCode::kKernelNotAllowed, table.fqn, std::nullopt, one_of(wanted), found,
                 fmt::format("the table's constraint forbids kernel {}", found));
  } else if (kernel == ComputeKernel::kKeyValue && table.cost_model->key_value_needs_ssd &&
             std::none_of(table.topology->devices.begin(), table.topology->devices.end(),
                          [](const topology::Storage& cap) { return cap.ssd > 0; })) {
    findings.add(FindingCode::kKernelNotAllowed, table.fqn, std::nullopt, "a rank with ssd", found,
                 "kernel key_value needs ssd, and no rank has any");
  }
}

void check_load_factor(const TableCase& table, Findings& findings) {
  const auto& cache = table.sharding->cache_params;
  if (!cache || !cache->load_factor) return;
  const double factor = *cache->load_factor;
  const bool is_strict = table.cost_model->checks_modules_and_kernels &&
                         embedding::is_uvm_caching(table.sharding->compute_kernel);
  if (is_strict ? factor > 0 && factor < 1 : factor >= 0 && factor <= 1) return;
  findings.add(FindingCode::kLoadFactor, table.fqn, std::nullopt,
               is_strict ? "strictly between 0 and 1" : "from 0 to 1", fmt::format("{}", factor),
               fmt::format("cache load factor {} with kernel {}", factor,
                           to_string(table.sharding->compute_kernel)));
}

// A dynamic table's own words bind the plan, which must decide what they leave open.
void check_dynamic_embedding(const TableCase& table, Findings& findings) {
  const auto& own = table.table->dynamic_embedding;
  const auto& planned = table.sharding->dynamic_embedding;
  const auto refuse = [&](std::string expected, std::string found, std::string message) {
    findings.add(FindingCode::kKernelNotAllowed, table.fqn, std::nullopt, std::move(expected),
                 std::move(found), std::move(message));
  };
  if (!own) {
    if (planned) refuse("no dynamic embedding", "one", "the table is not a dynamic table");
    return;
  }
  if (!planned || !planned->mode) {
    refuse(own->mode ? std::string(to_string(*own->mode)) : "hybrid, caching", "none",
           "the plan does not say where the values of the dynamic table lie");
    return;
  }
  if (own->mode && *own->mode != *planned->mode) {
    refuse(std::string(to_string(*own->mode)), std::string(to_string(*planned->mode)),
           "the dynamic table prescribes another mode");
  }
  if (own->bucket_capacity != planned->bucket_capacity) {
    refuse(fmt::format("buckets of {} rows", own->bucket_capacity),
           fmt::format("buckets of {} rows", planned->bucket_capacity),
           "the dynamic table has other buckets");
  }
  std::optional<double> wanted = own->load_factor;
  if (!wanted && table.constraints.cache_params) {
    wanted = table.constraints.cache_params->load_factor;
  }
  const auto& factor = planned->load_factor;
  const bool is_share = !factor || (*factor >= 0 && *factor <= 1);
  if (is_share && (!wanted || wanted == factor)) return;
  findings.add(FindingCode::kLoadFactor, table.fqn, std::nullopt,
               wanted ? fmt::format("{}", *wanted) : "from 0 to 1",
               factor ? fmt::format("{}", *factor) : "none",
               "the load factor is not one that the dynamic table can take");
}

// Except for what a cache holds, which is the planner's choice, and its statistics, which describe
// the table.
bool is_same_cache(const std::optional<embedding::CacheParams>& a,
                   const std::optional<embedding::CacheParams>& b) {
  if (!a || !b) return a.has_value() == b.has_value();
  return a->algorithm == b->algorithm && a->reserved_memory == b->reserved_memory &&
         a->precision == b->precision && a->prefetch_pipeline == b->prefetch_pipeline &&
         a->multipass_num_passes == b->multipass_num_passes;
}

// What the runtime is told beside the cut, as the constraint prescribes it.
void check_passed_on(const TableCase& table, Findings& findings) {
  const embedding::ParameterConstraints& wanted = table.constraints;
  const embedding::TableSharding& stated = *table.sharding;
  const auto hold = [&](std::string_view what, bool is_same, bool is_stated) {
    if (is_same || (!is_stated && !table.is_whole)) return;
    findings.add(FindingCode::kNotPassedOn, table.fqn, std::nullopt, "as in the constraint",
                 is_stated ? "another" : "none",
                 fmt::format("the plan's {} is not the constraint's", what));
  };
  const auto compare = [&hold](std::string_view what, const auto& a, const auto& b) {
    hold(what, a == b, b.has_value());
  };
  compare("enforce_hbm", wanted.enforce_hbm, stated.enforce_hbm);
  compare("stochastic_rounding", wanted.stochastic_rounding, stated.stochastic_rounding);
  compare("bounds_check_mode", wanted.bounds_check_mode, stated.bounds_check_mode);
  compare("output_dtype", wanted.output_dtype, stated.output_dtype);
  if (!table.is_whole) return;  // other planners choose caches of their own
  hold("cache_params", is_same_cache(wanted.cache_params, stated.cache_params),
       stated.cache_params.has_value());
  compare("key_value_params", wanted.key_value_params, stated.key_value_params);
}

}  // namespace

void check_permission(const TableCase& table, Findings& findings) {
  const std::string device(to_string(table.topology->compute_device));
  if (const auto& group = table.constraints.device_group; group && *group != device) {
    findings.add(FindingCode::kWrongDeviceGroup, table.fqn, std::nullopt, *group, device,
                 fmt::format("the table's constraint sends it to {}, the plan holds it on {}",
                             *group, device));
  }
  check_type(table, findings);
  check_kernel(table, findings);
  check_load_factor(table, findings);
  check_dynamic_embedding(table, findings);
  check_passed_on(table, findings);
}

}  // namespace plimsoll::check
