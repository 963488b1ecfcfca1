// Enumerations by name, for the reader.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <type_traits>
#include <vector>

#include "io/json/json_reader.h"
#include "plimsoll/balance/placement_bound.h"
#include "plimsoll/checkpoint/checkpoint_policy.h"
#include "plimsoll/core/outcome.h"
#include "plimsoll/embedding/placement_bridge.h"
#include "plimsoll/embedding/types.h"
#include "plimsoll/partition/graph.h"
#include "plimsoll/partition/objective.h"
#include "plimsoll/partition/partitioner_config.h"
#include "plimsoll/topology/topology.h"

namespace plimsoll::io {

// Enumerations of other rooms, inverted from to_string over their values.
template <class Enum>
struct Values;
template <>
struct Values<topology::ComputeDevice> {
  static constexpr topology::ComputeDevice kAll[] = {
      topology::ComputeDevice::kCpu, topology::ComputeDevice::kCuda, topology::ComputeDevice::kMtia,
      topology::ComputeDevice::kTpu};
};
template <>
struct Values<topology::Collective> {
  static constexpr topology::Collective kAll[] = {
      topology::Collective::kAllToAll, topology::Collective::kReduceScatter,
      topology::Collective::kAllGather, topology::Collective::kAllReduce};
};
template <>
struct Values<SolveStatus> {
  static constexpr SolveStatus kAll[] = {SolveStatus::kOptimal, SolveStatus::kFeasible,
                                         SolveStatus::kInfeasible, SolveStatus::kLimit};
};
template <>
struct Values<StopReason> {
  static constexpr StopReason kAll[] = {StopReason::kFinished, StopReason::kEffort,
                                        StopReason::kDeadline, StopReason::kCancelled};
};
template <>
struct Values<checkpoint::UnitKind> {
  static constexpr checkpoint::UnitKind kAll[] = {checkpoint::UnitKind::kFull,
                                                  checkpoint::UnitKind::kSelective};
};
template <>
struct Values<checkpoint::RngHandling> {
  static constexpr checkpoint::RngHandling kAll[] = {checkpoint::RngHandling::kRecompute,
                                                     checkpoint::RngHandling::kSave};
};
template <>
struct Values<embedding::BalanceObjective> {
  static constexpr embedding::BalanceObjective kAll[] = {embedding::BalanceObjective::kRating,
                                                         embedding::BalanceObjective::kStep,
                                                         embedding::BalanceObjective::kTime};
};
template <>
struct Values<embedding::PassDirection> {
  static constexpr embedding::PassDirection kAll[] = {embedding::PassDirection::kForward,
                                                      embedding::PassDirection::kBackward};
};
template <>
struct Values<embedding::CollectiveGroup> {
  static constexpr embedding::CollectiveGroup kAll[] = {embedding::CollectiveGroup::kHost,
                                                        embedding::CollectiveGroup::kFastDomain,
                                                        embedding::CollectiveGroup::kWorld};
};
template <>
struct Values<embedding::FigureKind> {
  static constexpr embedding::FigureKind kAll[] = {
      embedding::FigureKind::kMeasured, embedding::FigureKind::kFitted,
      embedding::FigureKind::kPublished, embedding::FigureKind::kAssumed};
};
template <>
struct Values<balance::BoundMethod> {
  static constexpr balance::BoundMethod kAll[] = {
      balance::BoundMethod::kNone,     balance::BoundMethod::kAverage,
      balance::BoundMethod::kFiltered, balance::BoundMethod::kWindows,
      balance::BoundMethod::kPatterns, balance::BoundMethod::kBranched,
      balance::BoundMethod::kChoices,  balance::BoundMethod::kBarriers,
      balance::BoundMethod::kBoxes,    balance::BoundMethod::kMemory};
};
template <>
struct Values<balance::DualFunctionKind> {
  static constexpr balance::DualFunctionKind kAll[] = {
      balance::DualFunctionKind::kIdentity, balance::DualFunctionKind::kThreshold,
      balance::DualFunctionKind::kStep, balance::DualFunctionKind::kRounding};
};
template <>
struct Values<partition::Objective> {
  static constexpr partition::Objective kAll[] = {
      partition::Objective::kThroughput, partition::Objective::kLatency,
      partition::Objective::kPipeline, partition::Objective::kFx};
};
template <>
struct Values<partition::OpKind> {
  static constexpr partition::OpKind kAll[] = {
      partition::OpKind::kPlaceholder,  partition::OpKind::kGetAttr,
      partition::OpKind::kCallFunction, partition::OpKind::kCallMethod,
      partition::OpKind::kCallModule,   partition::OpKind::kOutput};
};
template <>
struct Values<partition::PartitionMode> {
  static constexpr partition::PartitionMode kAll[] = {
      partition::PartitionMode::kSizeBased, partition::PartitionMode::kSparseNn,
      partition::PartitionMode::kCostAware, partition::PartitionMode::kKlBased,
      partition::PartitionMode::kAotBased};
};

template <class Enum>
concept Enumeration = std::is_enum_v<Enum>;
template <class Enum>
concept Listed = Enumeration<Enum> && requires {
  Values<Enum>::kAll;
};

template <Enumeration Enum>
struct EnumNames<Enum> {
  static std::span<const std::string> all() { return embedding::enum_names<Enum>(); }
  static std::optional<Enum> find(std::string_view name) {
    return embedding::find_enum<Enum>(name);
  }
};
template <Listed Enum>
struct EnumNames<Enum> {
  static std::span<const std::string> all() {
    static const std::vector<std::string> names = [] {
      std::vector<std::string> result;
      for (const Enum value : Values<Enum>::kAll) result.emplace_back(to_string(value));
      return result;
    }();
    return names;
  }
  static std::optional<Enum> find(std::string_view name) {
    for (const Enum value : Values<Enum>::kAll) {
      if (to_string(value) == name) return value;
    }
    return std::nullopt;
  }
};

}  // namespace plimsoll::io
