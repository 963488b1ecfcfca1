// Experts of a mixture over ranks.
#pragma once

#include "plimsoll/experts/eplb.h"
#include "plimsoll/experts/expert_model.h"
#include "plimsoll/experts/expert_search.h"
