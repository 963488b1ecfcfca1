// `checkpoint --tradeoff`: in which order torch's greedy rule gives up the operators of a module,
// the trade-off curve that follows, and its fit; of one operator table, or of every module whose
// table the statistics hold.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "io/documents/tradeoff_json.h"
#include "plimsoll/checkpoint/module_stats.h"
#include "plimsoll/core/result.h"

namespace plimsoll::app {

struct TradeoffFlags {
  std::string input;                 // the argument
  int num_segments = 2;              // of the fit, >= 1
  std::vector<std::string> modules;  // fqns; empty: all
  std::uint64_t seed = 0;
};

io::TradeoffAnswer describe_table_tradeoff(const checkpoint::SACStats& table,
                                           const TradeoffFlags& flags);

// Errors: kUsage where the statistics hold no operator table, kNotFound where they lack one of
// `modules`.
Result<io::TradeoffAnswer> describe_model_tradeoffs(const checkpoint::ModuleStats& stats,
                                                    const TradeoffFlags& flags);

// For people. `tables` are those of the answer's modules.
std::string tradeoff_text(const io::TradeoffAnswer& answer,
                          const std::vector<const checkpoint::SACStats*>& tables,
                          const TradeoffFlags& flags);

// The tables of the answer's modules.
std::vector<const checkpoint::SACStats*> tables_of(const io::TradeoffAnswer& answer,
                                                   const checkpoint::ModuleStats& stats);

}  // namespace plimsoll::app
