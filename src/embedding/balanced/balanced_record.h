// What a balanced plan records of its making, so that it can be made and its bound be judged again:
// text in Provenance::options and Provenance::stopped_at.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "plimsoll/core/outcome.h"
#include "plimsoll/embedding/balanced_search.h"

namespace plimsoll::embedding {

// Keys: objective, keeps_reference_rating, rating_cap (of the bound; absent without one),
// step_model, max_column_blocks, pools_ddr, uses_reference. The ranks and companions that rules
// give to tables are not among them.
void record_balanced(const BalancedOptions& options, const BalancedResult& result,
                     std::map<std::string, std::string>& recorded);

// The options that `recorded` names, defaults for the others. `bridge.rating_cap` is that of the
// bound. Errors: kSchema at "provenance/options/KEY".
Result<BalancedOptions> read_balanced_record(const std::map<std::string, std::string>& recorded);

// The options of the reference's search that make_provenance names: proposers, partitioner,
// balance_modules, perf_model, TorchEasyRec's bins. Error kSchema as above.
Result<ReferenceOptions> read_reference_record(const std::map<std::string, std::string>& recorded);

// BalancedOptions::stops of Provenance::stopped_at; empty where nothing was stopped. Error kSchema.
Result<std::vector<std::int64_t>> read_stops(std::string_view stopped_at);
std::string write_stops(const std::vector<std::int64_t>& stops);  // empty where all are -1

}  // namespace plimsoll::embedding
