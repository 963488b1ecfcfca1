// How long kernels, collectives and steps take on a machine, as `plimsoll calibrate` measured it or
// as it was published. The estimator `calibrated` (docs/machines.md#times-of-a-machine) reads it.
// Source: docs/mathematics/calibrated-times.md.
#pragma once

#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "plimsoll/embedding/step_model.h"
#include "plimsoll/embedding/types.h"
#include "plimsoll/topology/topology.h"

#pragma GCC visibility push(default)
namespace plimsoll::embedding {

enum class PassDirection { kForward, kBackward };
std::string_view to_string(PassDirection direction);  // "forward", "backward"

// Who takes part in a collective.
enum class CollectiveGroup { kHost, kFastDomain, kWorld };
std::string_view to_string(CollectiveGroup group);  // "host", "fast_domain", "world"

// Whether a number was measured, and how.
enum class FigureKind { kMeasured, kFitted, kPublished, kAssumed };
std::string_view to_string(FigureKind kind);  // "measured", "fitted", "published", "assumed"

// Nanoseconds of what one call works on: all shards of a rank with one sharding type. All >= 0.
struct KernelTerms {
  double call_ns = 0;                // of the call
  double table_ns = 0;               // of a shard
  double lookup_ns = 0;              // of an id
  double read_byte_ns = 0;           // of a byte that ids look up: columns x bytes of an element
  double output_byte_ns = 0;         // of a byte of output, four for each element
  double distinct_row_ns = 0;        // of a distinct row
  double distinct_byte_miss_ns = 0;  // of a byte of a distinct row, times log2 of the shard's MiB
  double weight_byte_ns = 0;         // of a byte of the weights
  bool operator==(const KernelTerms&) const = default;
};

struct KernelForm {
  ComputeKernel kernel = ComputeKernel::kFused;
  std::optional<Optimizer> optimizer;  // absent: any
  DataType data_type = DataType::kFp32;
  PassDirection direction = PassDirection::kForward;
  KernelTerms terms;
  // Least and most that was measured, by variable: kernel_variable_names().
  std::map<std::string, std::pair<double, double>> ranges;
  bool operator==(const KernelForm&) const = default;
};

// Milliseconds by size of a rank's larger buffer (as nccl-tests counts), at least one size.
struct CollectiveTable {
  topology::Collective operation = topology::Collective::kAllToAll;
  CollectiveGroup group = CollectiveGroup::kHost;
  int ranks = 1;              // of the group
  std::vector<double> bytes;  // > 0, ascending
  std::vector<double> ms;     // > 0, of equal length
  bool operator==(const CollectiveTable&) const = default;
};

struct FigureSource {
  FigureKind kind = FigureKind::kAssumed;
  std::string source;  // address, file or command
  bool operator==(const FigureSource&) const = default;
};

// Dense operators: launch + max(operations / peak, bytes / bandwidth).
struct DenseOperators {
  double launch_us = 0;                       // >= 0
  double memory_gb_per_s = 0;                 // 0: unknown
  std::map<std::string, double> peak_tflops;  // > 0, by data type
  bool operator==(const DenseOperators&) const = default;
};

struct MachineModel {
  std::string name;
  std::string device;  // "cpu", "cuda"
  int ranks = 1;
  int ranks_per_host = 1;
  std::vector<KernelForm> kernels;
  std::vector<CollectiveTable> collectives;
  StepModel step;  // weights 1 and charges 0 where nothing was measured
  std::optional<DenseOperators> operators;
  std::map<std::string, FigureSource> sources;  // by part: "kernels", "collectives", "step", ...
  std::string hash;                             // of the document
  bool operator==(const MachineModel&) const = default;
};

// Something that a plan needs and that was not measured: a variable beyond its range, or a kernel,
// optimizer, data type, operation or number of ranks that stands for another.
struct Extrapolation {
  std::string variable;  // "lookups", "bytes", "ranks", "compute_kernel", ...
  std::string of;        // "fused forward", "all_to_all", ...
  double value = 0;      // that the plan has; of names 0, as the limits
  double least = 0;      // measured
  double most = 0;
  bool operator==(const Extrapolation&) const = default;
};

}  // namespace plimsoll::embedding
#pragma GCC visibility pop
