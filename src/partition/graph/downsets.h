// Sets of groups that contain all predecessors of what they contain: what a pipeline may have done
// after some of its stages.
//
// Kept as bit sets with the sums that a stage between two of them needs: its time on a kind of
// device and its work are differences of sums; what it moves and what it holds follow from the nets
// and weights that the two sets cut. A sum depends on the set alone, and a subset's never exceeds
// its superset's, in floating point too. Cost. For each set its words, its cut nets and weights,
// and what differs from the set that was added before it.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "partition/graph/group_graph.h"
#include "plimsoll/core/run_context.h"

namespace plimsoll::partition {

class Downsets {
 public:
  explicit Downsets(const GroupGraph& groups);

  // `holds[g] != 0`: group g is in. Precondition: a downset.
  void add(const std::vector<char>& holds);
  // Sorts by work, then by number of groups, drops repetitions, and finds the cut nets. To be
  // called once, after the last add(). The first set is then the empty one and the last is full.
  // False: the clock or a cancel came first, and nothing may be asked.
  bool finish(const RunContext& context = {});

  // Has finish() found the sets of these groups?
  bool is_finished_for(const GroupGraph& groups) const {
    return is_finished_ && num_groups() == groups.num_groups();
  }
  bool is_finished() const { return is_finished_; }
  int num_groups() const { return groups_.num_groups(); }
  int size() const { return static_cast<int>(work_.size()); }
  double work(int set) const { return work_[set]; }
  // Bytes of the set's groups and of all weights that they read; and without the weights that
  // groups outside read too: what its stages hold at least, and what no later stage holds.
  Bytes memory_at_least(int set) const { return touched_[set]; }
  Bytes memory_done(int set) const { return done_[set]; }
  double time_ms(int kind, int set) const { return time_[kind][set]; }
  // Groups that the kind may not run.
  int num_barred(int kind, int set) const { return barred_[kind][set]; }
  bool contains(int set, int group) const {
    return (bits(set)[group / 64] >> (group % 64) & 1U) != 0;
  }
  bool is_subset(int a, int b) const {
    const std::uint64_t* x = bits(a);
    const std::uint64_t* y = bits(b);
    for (std::size_t w = 0; w < words_; ++w) {
      if ((x[w] & ~y[w]) != 0) return false;
    }
    return true;
  }
  // The groups of b \ a, ascending. Precondition: a is a subset of b.
  void members_between(int a, int b, std::vector<int>& members) const;
  // [size] sums over the groups of each set.
  template <class Value>
  std::vector<Value> add_up(const std::vector<Value>& of_groups) const {
    std::vector<Value> sums(static_cast<std::size_t>(size()));
    std::vector<int> members;
    for (int set = 0; set < size(); ++set) {
      members_between(0, set, members);
      for (const int g : members) sums[set] += of_groups[g];
    }
    return sums;
  }
  // Amount of the nets that set b \ a holds a part of, not all. Precondition: a is a subset of b.
  double cut_between(int a, int b) const;
  // Never more than that.
  double cut_at_least(int a, int b) const;
  // What a device holds that runs b \ a: the bytes of groups and weights. Precondition as above.
  Bytes memory_between(int a, int b) const;

 private:
  // A net, or a weight, with groups both in and out of a set.
  struct Cut {
    int edge;
    int num_inside;
  };
  struct Cuts {
    std::vector<std::int64_t> first;  // [size + 1]
    std::vector<Cut> list;            // ascending edges for each set
    std::span<const Cut> of(int set) const {
      return {list.data() + first[set], list.data() + first[set + 1]};
    }
    void permute(const std::vector<int>& order);
  };
  const std::uint64_t* bits(int set) const {
    return bits_.data() + words_ * static_cast<std::size_t>(set);
  }
  bool sum_up(const RunContext& context, std::vector<int>& counts);

  const GroupGraph& groups_;
  std::size_t words_;
  std::vector<std::uint64_t> bits_;        // [size * words]
  std::vector<double> work_;               // [size]
  std::vector<Bytes> touched_, done_;      // [size]
  std::vector<std::vector<double>> time_;  // [num_kinds][size] over the groups it may run
  std::vector<std::vector<int>> barred_;   // [num_kinds][size]
  Cuts net_cuts_, weight_cuts_;
  std::vector<double> cut_amount_;  // [size]
  bool is_finished_ = false;
};

// A group's time on the kind that is fastest for it: what no device can undercut.
std::vector<double> work_of_groups(const GroupGraph& groups);

// The next downset in descending lexicographic order, starting from the full one, ending with the
// empty one; false after that one. O(edges) a step.
bool next_downset(const GroupGraph& groups, std::vector<char>& holds);

// The groups in an order in which predecessors come first: of those that are ready the one with the
// smallest key, the later ready one first among equals (so equal keys go depth first).
std::vector<int> topological_order(const GroupGraph& groups, std::span<const std::uint64_t> keys);

}  // namespace plimsoll::partition
