// Annealing where several barriers or charges make starts poor and parts many
// (balanced_placement.h).
//
// Which causes a good placement names cannot be told from bounds or from constructions alone: two
// starts of every part that looks good by either are annealed, then the best of those, ever fewer
// with ever more moves.
#pragma once

#include <cstdint>
#include <functional>
#include <vector>

#include "balance/balance_parts.h"
#include "balance/moves/placement_annealing.h"

namespace plimsoll::balance {

// A start that may be good for another objective, annealed a little among the choices whose causes
// it names. Of `options` all but the bound and the rounds count. Precondition: allowed.
Start anneal_start(const PlacementProblem& problem, const Start& start, AnnealingOptions options,
                   EffortClock& clock);

// `parts` are searchable, by ascending bounds; the starts of those chosen become what is left of
// them, best first. `anneal_one` makes of a start of a part a better one with so many moves.
void anneal_parts_in_turn(
    std::vector<BalancePart*> parts, std::int64_t moves, EffortClock& clock,
    const std::function<Start(const BalancePart&, const Start&, std::int64_t)>& anneal_one);

}  // namespace plimsoll::balance
