// Which of two hosts takes which blocks: all ways of dealing them are tried at once.
//
// Blocks that need the same are counted, not told apart, so that n kinds of m_1, ..., m_n blocks
// can be dealt in (m_1 + 1) ... (m_n + 1) ways. A way is valued as if the pieces of both hosts
// could be cut: every rank of a host then uses the mean, and its term is that of overdraft_state.h.
// Of equal ways one is drawn. Moves of one block, or swaps of two, seldom lead from one way that
// nearly fits to another. Cost. Up to 4096 ways; kinds beyond that, drawn, stay as they are.
// Promises. A function of the state and the generator.
// Source: docs/mathematics/balanced-sharding.md#mending-what-overdraws.
#pragma once

#include <vector>

#include "balance/tight/overdraft_state.h"
#include "core/random.h"

namespace plimsoll::balance {

// Deals the blocks of units that have one. `pieces`: [resources] what each rank of both hosts will
// use beside what it does now, in the mean. Precondition: a and b are different hosts.
void deal_blocks(OverdraftState& state, int a, int b, const std::vector<double>& pieces,
                 SplitMix64& random);

}  // namespace plimsoll::balance
