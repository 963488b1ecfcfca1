// Contiguous splits of one instance, as chains of downsets.
//
// Chains over the prefixes of some topological orders give a plan fast; chains over all downsets
// decide. Either way the answer is guessed from below: a limit that no chain meets is a new lower
// bound of what was looked at, and while the limit is low few downsets can stand between two
// stages. Where there are too many downsets, more orders around the best plan improve it.
#pragma once

#include <cstdint>
#include <vector>

#include "core/random.h"
#include "partition/graph/downsets.h"
#include "partition/graph/group_graph.h"
#include "partition/stages/split_state.h"
#include "partition/stages/stage_chain.h"
#include "plimsoll/partition/contiguous_split.h"

namespace plimsoll::partition {

class ChainSplitter {
 public:
  // `is_coarse`: the groups have been merged with loss, and nothing they refute is proved. All
  // arguments must outlive this.
  ChainSplitter(const CostGraph& graph, const GroupGraph& groups, bool is_coarse,
                const ContiguousSplitOptions& options, const RunContext& context,
                SplitKnowledge& known, SplitBudget& budget)
      : graph_(graph),
        groups_(groups),
        is_coarse_(is_coarse),
        options_(options),
        context_(context),
        known_(known),
        budget_(budget) {}

  // Chains over the prefixes of topological orders: first of one, which is cheap, then of some.
  void start_from_orders();
  // Chains over the prefixes of new orders around the plan's; until some rounds in a row bring
  // nothing.
  void improve();
  // Chains over all downsets. False: not to the end, for there are too many downsets or pairs, or
  // the clock or a cancel came first.
  bool search_all(std::int64_t& num_downsets);

 private:
  bool is_interrupted();
  void search_prefixes(int num_orders);
  Downsets prefixes_of_orders(int num_orders);
  std::uint64_t key_of(int group);
  void search(const Downsets& downsets, bool is_complete, std::int64_t max_pairs);
  double take(const Downsets& downsets, const StageChain& chain);
  std::vector<int> stages(const Downsets& downsets, const StageChain& chain) const;

  const CostGraph& graph_;
  const GroupGraph& groups_;
  const bool is_coarse_;
  const ContiguousSplitOptions& options_;
  const RunContext& context_;
  SplitKnowledge& known_;
  SplitBudget& budget_;
  SplitMix64 random_{options_.search.seed};
  int num_orders_made_ = 0;
};

}  // namespace plimsoll::partition
