// What tests share that hold plans of small models against each other: a generator, every way to
// place options, the checker's word on a plan.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <functional>
#include <initializer_list>
#include <utility>
#include <vector>

#include "plimsoll/check/sharding_check.h"
#include "plimsoll/embedding/planner.h"

namespace plimsoll::embedding {

// Xorshift; the first draws of seeds that are near each other are alike, and left out.
class Random {
 public:
  explicit Random(std::uint64_t seed) : state_(seed * 0x9E3779B97F4A7C15U + 1) {
    for (int i = 0; i < 5; ++i) below(2);
  }
  template <class T>
  T below(T end) {
    state_ ^= state_ << 13;
    state_ ^= state_ >> 7;
    state_ ^= state_ << 17;
    return static_cast<T>((state_ >> 11) % static_cast<std::uint64_t>(end));
  }
  template <class T>
  T one_of(std::initializer_list<T> values) {
    return values.begin()[below(values.size())];
  }
  // Some, in order; at least one.
  template <class T>
  std::vector<T> some_of(const std::vector<T>& values) {
    std::vector<T> some;
    for (const T value : values) {
      if (below(2) == 0) some.push_back(value);
    }
    if (some.empty()) some.push_back(values[below(values.size())]);
    return some;
  }

 private:
  std::uint64_t state_;
};

enum class HostColumns {
  kOnOneHost,  // of table_column_wise
  kAnywhere,   // which is a hazard
};

// Every way to place one option: shards of device types on any ranks, of host types on any host.
inline std::vector<std::vector<std::int32_t>> placements_of(const OptionSet& set,
                                                            const Option& option,
                                                            HostColumns columns) {
  if (option.partition_by == PartitionBy::kUniform) return {{}};
  const bool is_block = option.sharding_type == ShardingType::kTableRowWise ||
                        option.sharding_type == ShardingType::kGridShard;
  const int width = is_block ? set.group_size : 1;
  std::vector<std::vector<std::int32_t>> all{{}};
  for (int block = 0; block < option.column_blocks; ++block) {
    std::vector<std::vector<std::int32_t>> longer;
    for (const auto& ranks : all) {
      for (int place = 0; place < set.world_size / width; ++place) {
        longer.push_back(ranks);
        for (int i = 0; i < width; ++i) longer.back().push_back(place * width + i);
      }
    }
    all = std::move(longer);
  }
  if (columns == HostColumns::kOnOneHost &&
      option.sharding_type == ShardingType::kTableColumnWise) {
    std::erase_if(all, [&set](const auto& ranks) {
      return std::any_of(ranks.begin(), ranks.end(), [&](std::int32_t rank) {
        return rank / set.group_size != ranks.front() / set.group_size;
      });
    });
  }
  return all;
}

inline void for_each_plan(const OptionSet& set, HostColumns columns,
                          const std::function<void(const PlacedProposal&)>& visit) {
  PlacedProposal plan;
  plan.first_rank.push_back(0);
  const std::function<void(std::size_t)> place = [&](std::size_t t) {
    if (t == set.tables.size()) return visit(plan);
    const TableOptions& table = set.tables[t];
    for (std::int32_t o = table.first_option; o < table.first_option + table.num_options; ++o) {
      for (const auto& ranks :
           placements_of(set, set.options[static_cast<std::size_t>(o)], columns)) {
        plan.options.push_back(o);
        plan.ranks.insert(plan.ranks.end(), ranks.begin(), ranks.end());
        plan.first_rank.push_back(static_cast<std::int64_t>(plan.ranks.size()));
        place(t + 1);
        plan.first_rank.pop_back();
        plan.ranks.resize(static_cast<std::size_t>(plan.first_rank.back()));
        plan.options.pop_back();
      }
    }
  };
  place(0);
}

inline check::ShardingReport judge(const PlanningProblem& problem, const ShardingPlan& plan) {
  check::CheckOptions options;
  options.batch_size = problem.batch_size;
  options.reservation = problem.reservation;
  auto report = check::check_sharding(problem.model, plan, problem.topology, problem.cost_model,
                                      problem.mode, options);
  EXPECT_TRUE(report) << (report ? "" : format_error(report.error()));
  return *std::move(report);
}

}  // namespace plimsoll::embedding
