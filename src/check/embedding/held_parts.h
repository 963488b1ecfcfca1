// Parts of tables that ranks hold, and what they weigh, as the judges count them.
#pragma once

#include <vector>

#include "plimsoll/core/checked.h"
#include "plimsoll/core/result.h"
#include "plimsoll/embedding/estimator.h"
#include "plimsoll/embedding/transfer.h"

namespace plimsoll::check {

Int128 area(const embedding::TablePart& part);
embedding::TablePart common(const embedding::TablePart& a, const embedding::TablePart& b);
// Values of the part that lie in some of the others.
Int128 covered(const embedding::TablePart& part, const std::vector<embedding::TablePart>& others);

// Weights and optimizer state of a table. Errors: those of estimating.
Result<Bytes> table_weight(const embedding::Estimator& estimator,
                           const embedding::TableProfile& profile);
// What so many of its values weigh, rounded up.
Bytes share_of_weight(Bytes weight, const embedding::TableShape& shape, Int128 values);

}  // namespace plimsoll::check
