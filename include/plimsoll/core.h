// Values, errors, units, limits and outcomes that every room uses.
#pragma once

#include "plimsoll/core/checked.h"
#include "plimsoll/core/digest.h"
#include "plimsoll/core/numbers.h"
#include "plimsoll/core/outcome.h"
#include "plimsoll/core/proof.h"
#include "plimsoll/core/result.h"
#include "plimsoll/core/run_context.h"
#include "plimsoll/core/units.h"
#include "plimsoll/core/version.h"
