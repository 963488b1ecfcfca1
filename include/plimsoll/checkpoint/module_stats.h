// What is known of a model's modules before anything is decided: the records that torch's memory
// tracker, runtime estimator and selective-checkpointing estimator leave, under upstream's names.
//
// Bytes are exact, times are milliseconds. Sources:
// docs/mathematics/torch-checkpointing.md#module-statistics (ModuleInfo),
// docs/mathematics/torch-checkpointing.md#operator-tables (SACStats).
#pragma once

#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "plimsoll/core/result.h"
#include "plimsoll/core/units.h"

#pragma GCC visibility push(default)
namespace plimsoll::checkpoint {

// The operators of one module's forward, in order of execution. Parallel lists; the index lists
// name positions in them.
struct SACStats {
  std::vector<std::string> func_names;           // [n]
  std::vector<double> runtimes;                  // [n] ms, >= 0
  std::vector<Bytes> memory;                     // [n] bytes of the distinct outputs, >= 0
  std::vector<int> view_like_ops;                // ascending
  std::vector<int> rand_ops;                     // ascending
  std::vector<int> saved_autograd_ops;           // informational
  std::vector<std::pair<int, int>> inplace_ops;  // (operator, the operator whose output it changes)
  bool force_store_random = false;               // no positional input of the module was a tensor
  bool operator==(const SACStats&) const = default;
};

// One executed module. Field names are upstream's ModuleInfo; what follows `requires_grad` is ours.
struct ModuleInfo {
  std::string fqn;  // unique; the root's is its class name, a child's is its parent's + ".attr"
  bool is_leaf = false;
  Bytes param_per_module = 0;     // of the whole subtree
  Bytes grad_per_module = 0;      // of the whole subtree
  Bytes grad_total = 0;           // gradients accumulated just before this module's backward
  Bytes act_fw_per_module = 0;    // IA: kept inside the module, without input and output
  Bytes act_bw_per_module = 0;    // activations at the module's backward peak
  Bytes act_grad_per_module = 0;  // AG: temporaries gained until the backward peak; may be negative
  Bytes act_total = 0;            // TA: kept right after the module's forward, all modules so far
  Bytes input_per_module = 0;
  Bytes output_per_module = 0;
  double fw_runtime_per_module = 0;  // ms, children included
  double bw_runtime_per_module = 0;  // ms, children included
  double sac_runtime = 0;            // ms over all operators of the module; 0 for a leaf
  Bytes sac_memory = 0;              // ACM: bytes over all operators of the module; 0 for a leaf
  // The piecewise-linear fit: discarded fraction of sac_memory -> fraction of sac_runtime.
  int n_segments = 0;
  std::vector<double> slopes;                             // [n_segments]
  std::vector<double> intercepts;                         // [n_segments]
  std::vector<double> breakpoints;                        // [n_segments + 1], or empty
  std::vector<std::pair<double, double>> tradeoff_curve;  // may be empty

  bool requires_grad = true;  // false: the module had no backward
  // Bytes resident in total, optimizer state left out, at four instants of the module's step.
  std::optional<Bytes> total_peak_fw, total_post_fw, total_pre_bw, total_peak_bw;
  bool operator==(const ModuleInfo&) const = default;
};

// The four orders of execution, by fqn. The backward orders may be empty.
struct ModuleOrder {
  std::vector<std::string> fw_pre_order, fw_post_order, bw_pre_order, bw_post_order;
  bool operator==(const ModuleOrder&) const = default;
};

// The machine that the times assume, where they were computed and not measured.
struct RecordedRoofline {
  double dram_gb_per_s = 0;              // > 0
  std::map<std::string, double> tflops;  // by data type, "bfloat16"; > 0
  bool operator==(const RecordedRoofline&) const = default;
};

// One model.
struct ModuleStats {
  std::string name;
  // For people, as recorded; no planner reads them.
  std::string description;
  std::string torch;  // release that made the records, "2.13.0"
  std::optional<RecordedRoofline> roofline;
  std::optional<Bytes> baseline_peak_bytes;   // upstream's formula without checkpointing, one rank
  std::optional<double> baseline_compute_ms;  // forward and backward
  std::map<std::string, Bytes> tracker_peak;  // by category at the step's peak, optimizer included

  ModuleOrder mod_order;
  std::vector<ModuleInfo> mod_stats;        // in order of registration; [0] is the root
  std::vector<SACStats> sac_stats;          // distinct operator tables
  std::map<std::string, int> sac_stats_of;  // fqn -> index into sac_stats
  std::vector<std::string> repeated;        // called more than once: never a unit
  std::vector<std::string> fit_failed;      // no usable fit: a unit by operators only
  // Bytes resident in total, optimizer state left out: at the step's peak, and just before the
  // root's backward.
  std::optional<Bytes> total_step_peak, total_before_root_bw;
  bool operator==(const ModuleStats&) const = default;
};

// What no planner can work with. Errors, each at a module's fqn or a list's name: kSchema (lists of
// different lengths, an order that lacks a module or names an unknown one, an index outside its
// table), kConflict (an fqn twice; a part that is more than its whole), kValue (a negative or
// non-finite figure where none may be, a fit beyond 1e12), kOverflow (operators whose sizes sum to
// 2^63 bytes or more).
Result<void> validate(const ModuleStats& stats);
Result<void> validate(const SACStats& stats);

}  // namespace plimsoll::checkpoint
#pragma GCC visibility pop
