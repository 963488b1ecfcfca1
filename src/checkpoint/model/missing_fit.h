// What every planner by fitted costs says of a module without a fit.
#pragma once

#include <fmt/format.h>

#include "plimsoll/checkpoint/module_stats.h"
#include "plimsoll/core/result.h"

namespace plimsoll::checkpoint {

// Without a fit the module's recomputation would be taken for free.
inline tl::unexpected<Error> refuse_without_fit(const ModuleInfo& module) {
  return fail(ErrorCode::kValue, module.fqn,
              fmt::format("it keeps {} bytes, and nothing says what recomputing them takes: no "
                          "slopes, operator table or trade-off curve",
                          module.act_fw_per_module),
              "record one of them, or mark the module as a leaf");
}

}  // namespace plimsoll::checkpoint
