// Module statistics as JSON: "plimsoll.module_stats/1", "plimsoll.sac_stats/1".
//
// Keys are the field names of checkpoint::ModuleStats and its parts, which are upstream's, so that
// what Python's json.dump makes of torch's ModuleInfo or SACStats reads as it is. Besides: `notes`
// holds `repeated`, `fit_failed` and `no_backward` (modules whose `requires_grad` is false);
// `grad_per_module` may be left out where it equals `param_per_module`; `tradeoff_curve` is a list
// of pairs or an object whose keys are numbers; `n_modules` and `pos_fw_post_order` are derived and
// read only to be compared. Strictness as in model_json.h. Figures beyond 1 PiB a module, 2^62
// bytes in all or 10^12 ms are refused.
#pragma once

#include <string>
#include <string_view>

#include "plimsoll/checkpoint/module_stats.h"
#include "plimsoll/core/result.h"

#pragma GCC visibility push(default)
namespace plimsoll::io {

// Errors: kSyntax, kSchema, kValue, kOverflow, kConflict (derived figures that contradict), and
// those of checkpoint::validate, placed in the document.
Result<checkpoint::ModuleStats> read_module_stats(std::string_view text, std::string_view file);
std::string write_module_stats(const checkpoint::ModuleStats& stats);

// A single operator table.
Result<checkpoint::SACStats> read_sac_stats(std::string_view text, std::string_view file);
std::string write_sac_stats(const checkpoint::SACStats& stats);

}  // namespace plimsoll::io
#pragma GCC visibility pop
