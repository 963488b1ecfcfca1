// The balanced placement problem, and what proves a bound of it.
#pragma once

#include "plimsoll/balance/per_resource.h"
#include "plimsoll/balance/placement_bound.h"
#include "plimsoll/balance/placement_problem.h"
#include "plimsoll/balance/relocation_prices.h"
