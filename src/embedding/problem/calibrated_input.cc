#include "embedding/problem/calibrated_input.h"

#include "core/check.h"
#include "plimsoll/embedding/perf_model.h"

namespace plimsoll::embedding {

Result<std::optional<CalibratedTimes>> make_calibrated_times(const BridgeInput& input) {
  if (input.machine == nullptr) return std::nullopt;
  if (input.estimator == nullptr || input.profiles.size() != input.options->tables.size()) {
    return fail(
        ErrorCode::kValue, "machine",
        "the options do not say what their tables look up, which the times of a machine depend on",
        "plan from the model, or without the machine");
  }
  PLIMSOLL_ASSIGN(CalibratedTimes times, CalibratedTimes::make(*input.machine, *input.estimator,
                                                               *input.options, input.profiles));
  return std::optional<CalibratedTimes>(std::move(times));
}

Result<CalibratedBill> make_calibrated_bill(const BridgeInput& input, const PlacedProposal& plan) {
  PLIMSOLL_CHECK(input.machine != nullptr, "a machine model is given");
  PLIMSOLL_ASSIGN(const std::optional<CalibratedTimes> times, make_calibrated_times(input));
  CalibratedBillMaker maker(*times);
  for (std::size_t p = 0; p < plan.options.size(); ++p) {
    const Option& option = input.options->options[static_cast<std::size_t>(plan.options[p])];
    for_each_shard(*input.options, plan, p, [&](const ShardView& shard) {
      maker.add(option, shard.run->rows, shard.run->columns, shard.rank);
    });
  }
  return maker.finish();
}

}  // namespace plimsoll::embedding
