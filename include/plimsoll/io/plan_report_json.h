// A plan as a page to look at, and what the page shows as JSON: "plimsoll.plan_report/1".
#pragma once

#include <string>

#include "plimsoll/study/plan_report.h"

#pragma GCC visibility push(default)
namespace plimsoll::io {

// Written only.
std::string write_report(const study::PlanReport& report);

// One HTML document that loads nothing.
std::string write_report_page(const study::PlanReport& report);

// The page's body without its script, for a page of somebody else's: tables show their first rows.
std::string write_report_fragment(const study::PlanReport& report);

}  // namespace plimsoll::io
#pragma GCC visibility pop
