// Dives by contents: filling empty ranks and hosts by the prices of a linear program, rounding as
// it goes.
//
// Hosts: for one host after the other, the program for all hosts still empty; the blocks of one of
// its patterns, or of the best split between blocks and pieces at its prices, times 1 +- 3 %; then
// rank by rank the best content of what is left. Ranks (blocks stay): patterns used at least once
// are taken as often as they are used in full, then the program again; where none is, one drawn by
// the square of its use. What is left in the end becomes uniform, or stands where it makes the
// slowest rank least slow. Cost. 1 to 20 programs a dive. Promises. A function of its arguments and
// the generator. Source: docs/mathematics/balanced-sharding.md#dives-by-contents.
#pragma once

#include <vector>

#include "balance/contents/content_master.h"
#include "core/random.h"

namespace plimsoll::balance {

class ContentDive {
 public:
  // No rank is to carry more than `room` > 0 of pieces and blocks. A dive whose program costs more
  // than `limit` with the room and what is forced ends early.
  ContentDive(const ContentModel& model, double room, int cells, double limit, FillingPool& pool,
              SplitMix64& random, EffortClock& clock);

  // Both free the uniform units first. False where they ended early. Precondition: these hosts, or
  // ranks, hold nothing (of pieces).
  bool fill_hosts(Contents& contents, const std::vector<int>& hosts);
  bool fill_ranks(Contents& contents, const std::vector<int>& ranks);

  // Of fill_ranks and fill_hosts: what is left. False where it fits nowhere.
  static bool finish(Contents& contents);

 private:
  bool is_hopeless() const;
  void fill_host(Contents& contents, int host);
  const Filling& draw_use();
  std::vector<math::KnapsackCount> choose_blocks(Contents& contents,
                                                 const std::vector<double>& factors);
  bool put_filling(Contents& contents, const Filling& filling, std::vector<int>& ranks);

  const ContentModel& model_;
  double limit_;
  SplitMix64& random_;
  EffortClock& clock_;
  ContentMaster master_;
};

}  // namespace plimsoll::balance
