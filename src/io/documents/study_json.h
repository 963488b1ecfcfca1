// Documents of the study verbs as JSON: "plimsoll.explanation/1", "plimsoll.machine_size/1",
// "plimsoll.what_if/1" and "plimsoll.prices/1". Strictness as in model_json.h.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <string_view>

#include "io/json/json_document.h"
#include "plimsoll/core/result.h"
#include "plimsoll/study/machine_size.h"
#include "plimsoll/study/plan_explanation.h"
#include "plimsoll/study/what_if.h"

namespace plimsoll::io {

std::string write_explanation(const study::PlanExplanation& told);
std::string write_machine_size(const study::MachineSize& size);

// A sweep, and the hash of what its rows are of beside their points.
struct ReadWhatIf {
  study::WhatIf answer;
  std::string inputs;
};
std::string write_what_if(const study::WhatIf& answer, const std::string& inputs);
Result<ReadWhatIf> read_what_if(std::string_view text, std::string_view file);
bool is_what_if_tree(const JsonValue& root);  // by its schema
Result<ReadWhatIf> read_what_if_tree(const JsonValue& root, std::string_view file);

// What machines cost an hour.
class Prices {
 public:
  struct Price {
    double per_host = 0, per_rank = 0;
  };
  explicit Prices(std::map<std::string, Price> prices = {}) : prices_(std::move(prices)) {}
  // Of so many ranks of the kind, in so many hosts; nothing where it has no price.
  std::optional<double> price_of(const std::string& kind, int ranks, int hosts) const;

 private:
  std::map<std::string, Price> prices_;
};
// Error kValue for a kind with neither price.
Result<Prices> read_prices(std::string_view text, std::string_view file);

}  // namespace plimsoll::io
