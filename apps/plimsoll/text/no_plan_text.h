// What every command says where nothing fits, below the reason that the search proves.
#pragma once

#include <string>

#include "plimsoll/study/no_plan.h"

namespace plimsoll::app {

// Which cap binds, which constraints conflict, and what to type instead, a line each. Empty parts
// say nothing.
std::string no_plan_text(const study::NoPlan& none);

}  // namespace plimsoll::app
