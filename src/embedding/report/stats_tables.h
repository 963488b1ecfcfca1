// The two tables of the statistics report: ranks, and tables with what they cost.
#pragma once

#include <string>
#include <vector>

#include "embedding/report/stats_figures.h"
#include "plimsoll/embedding/stats.h"

namespace plimsoll::embedding {

// Lines with their headers and rules. `percentage`: of HBM that is reserved.
std::vector<std::string> format_rank_table(const PlanningProblem& problem, double percentage,
                                           const StatsFigures& figures);
std::vector<std::string> format_parameter_table(const CostModel& cost_model,
                                                const StatsFigures& figures);

}  // namespace plimsoll::embedding
