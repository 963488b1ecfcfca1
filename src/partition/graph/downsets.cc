#include "partition/graph/downsets.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <numeric>
#include <queue>
#include <tuple>
#include <utility>

#include "core/check.h"

namespace plimsoll::partition {
namespace {

bool is_interrupted(const RunContext& context, int set) {
  return set % 256 == 0 && (context.is_cancelled() || context.is_past_deadline());
}

template <class T>
void permute(std::vector<T>& list, const std::vector<int>& order) {
  std::vector<T> sorted;
  sorted.reserve(order.size());
  for (const int i : order) sorted.push_back(list[i]);
  list = std::move(sorted);
}

// The sum of some terms. It is taken over a tree, absent terms being 0: so it depends on which
// terms are in, not on how they came, and never falls where another one comes.
class TermSum {
 public:
  explicit TermSum(std::vector<double> terms)
      : terms_(std::move(terms)),
        num_leaves_(std::bit_ceil(std::max<std::size_t>(1, terms_.size()))),
        sums_(2 * num_leaves_) {}

  void set(std::size_t term, bool is_in) {
    std::size_t i = num_leaves_ + term;
    sums_[i] = is_in ? terms_[term] : 0;
    for (i /= 2; i > 0; i /= 2) sums_[i] = sums_[2 * i] + sums_[2 * i + 1];
  }
  double total() const { return sums_[1]; }

 private:
  std::vector<double> terms_;
  std::size_t num_leaves_;
  std::vector<double> sums_;  // [2 * leaves] the root is 1, the leaves stand at the end
};

// How many groups of each hyperedge are in.
class PartCounts {
 public:
  template <class Hyperedge>
  PartCounts(const std::vector<Hyperedge>& edges, std::vector<std::vector<int>> edges_of_groups)
      : of_(std::move(edges_of_groups)), count_(edges.size()), is_cut_((edges.size() + 63) / 64) {
    for (const Hyperedge& edge : edges) size_.push_back(static_cast<int>(edge.groups.size()));
  }

  // `on_change(edge, before, after)` for each of the group's edges.
  template <class OnChange>
  void set(std::size_t group, bool is_in, OnChange on_change) {
    for (const int e : of_[group]) {
      const int before = count_[e];
      count_[e] += is_in ? 1 : -1;
      const std::uint64_t bit = std::uint64_t{1} << (e % 64);
      std::uint64_t& word = is_cut_[static_cast<std::size_t>(e) / 64];
      word = count_[e] == 0 || count_[e] == size_[e] ? word & ~bit : word | bit;
      on_change(e, before, count_[e]);
    }
  }
  int size(int edge) const { return size_[edge]; }
  // `visit(edge, count)` for each that is in, but not wholly; ascending.
  template <class Visit>
  void for_each_cut(Visit visit) const {
    for (std::size_t w = 0; w < is_cut_.size(); ++w) {
      for (std::uint64_t left = is_cut_[w]; left != 0; left &= left - 1) {
        const int e = static_cast<int>(64 * w) + std::countr_zero(left);
        visit(e, count_[e]);
      }
    }
  }

 private:
  std::vector<std::vector<int>> of_;  // [num_groups]
  std::vector<int> count_, size_;     // [edges]
  std::vector<std::uint64_t> is_cut_;
};

// What a set of groups adds up to, kept up to date while groups come and go.
struct RunningSums {
  explicit RunningSums(const GroupGraph& of)
      : groups(of),
        work(work_of_groups(of)),
        barred(of.time_ms.size()),
        nets(of.nets, nets_of_groups(of)),
        weights(of.weights, weights_of_groups(of)) {
    for (const auto& list : of.time_ms) {
      std::vector<double> finite = list;
      std::replace(finite.begin(), finite.end(), kUnlimited, 0.0);
      times.emplace_back(std::move(finite));
    }
  }

  void set(std::size_t g, bool is_in) {
    const int sign = is_in ? 1 : -1;
    count += sign;
    work.set(g, is_in);
    for (std::size_t k = 0; k < times.size(); ++k) {
      times[k].set(g, is_in);
      if (!std::isfinite(groups.time_ms[k][g])) barred[k] += sign;
    }
    touched += sign * groups.memory[g];
    done += sign * groups.memory[g];
    nets.set(g, is_in, [](int, int, int) {});
    weights.set(g, is_in, [&](int w, int before, int after) {
      const Bytes bytes = groups.weights[w].bytes;
      if (before == 0) touched += bytes;
      if (after == 0) touched -= bytes;
      if (before == weights.size(w)) done -= bytes;
      if (after == weights.size(w)) done += bytes;
    });
  }

  const GroupGraph& groups;
  int count = 0;  // groups
  TermSum work;
  std::vector<TermSum> times;  // [classes of devices] without groups that the class cannot run
  std::vector<int> barred;     // [classes of devices] such groups
  Bytes touched = 0;           // of groups, and of weights that any of them uses
  Bytes done = 0;              // of groups, and of weights that no other group uses
  PartCounts nets, weights;
};

bool is_downset(const GroupGraph& groups, const std::vector<char>& holds) {
  if (holds.size() != groups.nodes.size()) return false;
  for (std::size_t g = 0; g < holds.size(); ++g) {
    const auto& before = groups.predecessors[g];
    if (holds[g] != 0 &&
        !std::all_of(before.begin(), before.end(), [&](int p) { return holds[p] != 0; })) {
      return false;
    }
  }
  return true;
}

}  // namespace

std::vector<double> work_of_groups(const GroupGraph& groups) {
  std::vector<double> work(groups.nodes.size(), kUnlimited);
  for (const auto& times : groups.time_ms) {
    for (std::size_t g = 0; g < work.size(); ++g) work[g] = std::min(work[g], times[g]);
  }
  return work;
}

bool next_downset(const GroupGraph& groups, std::vector<char>& holds) {
  const auto last = std::find(holds.rbegin(), holds.rend(), 1);
  if (last == holds.rend()) return false;
  *last = 0;
  for (auto g = static_cast<std::size_t>(last.base() - holds.begin()); g < holds.size(); ++g) {
    const auto& before = groups.predecessors[g];
    holds[g] = static_cast<char>(
        std::all_of(before.begin(), before.end(), [&](int p) { return holds[p] != 0; }));
  }
  return true;
}

std::vector<int> topological_order(const GroupGraph& groups, std::span<const std::uint64_t> keys) {
  using Entry = std::tuple<std::uint64_t, int, int>;  // key, minus the time it became ready, group
  std::priority_queue<Entry, std::vector<Entry>, std::greater<>> ready;
  std::vector<int> missing(groups.nodes.size());
  int time = 0;
  for (int g = 0; g < groups.num_groups(); ++g) {
    missing[g] = static_cast<int>(groups.predecessors[g].size());
    if (missing[g] == 0) ready.emplace(keys[g], --time, g);
  }
  std::vector<int> order;
  while (!ready.empty()) {
    order.push_back(std::get<2>(ready.top()));
    ready.pop();
    for (const int next : groups.successors[order.back()]) {
      if (--missing[next] == 0) ready.emplace(keys[next], --time, next);
    }
  }
  return order;
}

Downsets::Downsets(const GroupGraph& groups)
    : groups_(groups),
      words_((groups.nodes.size() + 63) / 64),
      time_(groups.kinds.size()),
      barred_(groups.kinds.size()) {}

void Downsets::add(const std::vector<char>& holds) {
  PLIMSOLL_DCHECK(is_downset(groups_, holds), "what comes before a group of the set is in it");
  const std::size_t first = bits_.size();
  bits_.resize(first + words_);
  for (std::size_t g = 0; g < holds.size(); ++g) {
    bits_[first + g / 64] |= static_cast<std::uint64_t>(holds[g]) << (g % 64);
  }
  work_.push_back(0);  // the sums wait for finish()
}

// One walk over the sets as they came: each differs little from the one before, where they are
// prefixes of an order or come from next_downset().
bool Downsets::sum_up(const RunContext& context, std::vector<int>& counts) {
  RunningSums sums(groups_);
  std::vector<std::uint64_t> current(words_);
  for (auto* cuts : {&net_cuts_, &weight_cuts_}) cuts->first.assign(1, 0);
  for (int set = 0; set < size(); ++set) {
    if (is_interrupted(context, set)) return false;
    for (std::size_t w = 0; w < words_; ++w) {
      const std::uint64_t now = bits(set)[w];
      for (std::uint64_t left = now ^ current[w]; left != 0; left &= left - 1) {
        const int bit = std::countr_zero(left);
        sums.set(64 * w + static_cast<std::size_t>(bit), (now >> bit & 1) != 0);
      }
      current[w] = now;
    }
    counts[set] = sums.count;
    work_[set] = sums.work.total();
    for (std::size_t k = 0; k < sums.times.size(); ++k) {
      time_[k].push_back(sums.times[k].total());
      barred_[k].push_back(sums.barred[k]);
    }
    touched_.push_back(sums.touched);
    done_.push_back(sums.done);
    double amount = 0;
    sums.nets.for_each_cut([&](int e, int inside) {
      net_cuts_.list.push_back({e, inside});
      amount += groups_.nets[e].amount;
    });
    sums.weights.for_each_cut([&](int e, int inside) { weight_cuts_.list.push_back({e, inside}); });
    net_cuts_.first.push_back(static_cast<std::int64_t>(net_cuts_.list.size()));
    weight_cuts_.first.push_back(static_cast<std::int64_t>(weight_cuts_.list.size()));
    cut_amount_.push_back(amount);
  }
  return true;
}

bool Downsets::finish(const RunContext& context) {
  std::vector<int> counts(work_.size());
  if (!sum_up(context, counts)) return false;
  std::vector<int> order(work_.size());
  std::iota(order.begin(), order.end(), 0);
  std::sort(order.begin(), order.end(), [&](int a, int b) {
    if (work_[a] != work_[b]) return work_[a] < work_[b];
    if (counts[a] != counts[b]) return counts[a] < counts[b];
    return std::lexicographical_compare(bits(a), bits(a) + words_, bits(b), bits(b) + words_);
  });
  order.erase(
      std::unique(order.begin(), order.end(),
                  [&](int a, int b) { return std::equal(bits(a), bits(a) + words_, bits(b)); }),
      order.end());
  std::vector<std::uint64_t> sorted;
  sorted.reserve(order.size() * words_);
  for (const int set : order) sorted.insert(sorted.end(), bits(set), bits(set) + words_);
  bits_ = std::move(sorted);
  permute(work_, order);
  for (auto& times : time_) permute(times, order);
  for (auto& barred : barred_) permute(barred, order);
  permute(touched_, order);
  permute(done_, order);
  permute(cut_amount_, order);
  net_cuts_.permute(order);
  weight_cuts_.permute(order);
  is_finished_ = true;
  return true;
}

void Downsets::Cuts::permute(const std::vector<int>& order) {
  Cuts sorted;
  sorted.first.assign(1, 0);
  for (const int set : order) {
    const auto cuts = of(set);
    sorted.list.insert(sorted.list.end(), cuts.begin(), cuts.end());
    sorted.first.push_back(static_cast<std::int64_t>(sorted.list.size()));
  }
  *this = std::move(sorted);
}

double Downsets::cut_between(int a, int b) const {
  PLIMSOLL_DCHECK(is_subset(a, b), "set a is a subset of set b");
  const auto at_a = net_cuts_.of(a);
  const auto at_b = net_cuts_.of(b);
  auto x = at_a.begin();
  auto y = at_b.begin();
  double amount = 0;
  while (x != at_a.end() && y != at_b.end()) {
    if (x->edge < y->edge) {
      amount += groups_.nets[x++->edge].amount;
    } else if (y->edge < x->edge) {
      amount += groups_.nets[y++->edge].amount;
    } else {
      // Cut by both: the stage holds a part of it iff b holds more of it than a.
      if (x->num_inside != y->num_inside) amount += groups_.nets[x->edge].amount;
      ++x;
      ++y;
    }
  }
  for (; x != at_a.end(); ++x) amount += groups_.nets[x->edge].amount;
  for (; y != at_b.end(); ++y) amount += groups_.nets[y->edge].amount;
  return amount;
}

// All weights that b reads, without those that are complete in a, or of which b reads no more.
Bytes Downsets::memory_between(int a, int b) const {
  PLIMSOLL_DCHECK(is_subset(a, b), "set a is a subset of set b");
  Bytes memory = touched_[b] - done_[a];
  const auto at_b = weight_cuts_.of(b);
  auto y = at_b.begin();
  for (const Cut& x : weight_cuts_.of(a)) {
    while (y != at_b.end() && y->edge < x.edge) ++y;
    if (y == at_b.end()) break;
    if (y->edge == x.edge && y->num_inside == x.num_inside) memory -= groups_.weights[x.edge].bytes;
  }
  return memory;
}

void Downsets::members_between(int a, int b, std::vector<int>& members) const {
  PLIMSOLL_DCHECK(is_subset(a, b), "set a is a subset of set b");
  members.clear();
  for (std::size_t w = 0; w < words_; ++w) {
    for (std::uint64_t left = bits(b)[w] & ~bits(a)[w]; left != 0; left &= left - 1) {
      members.push_back(static_cast<int>(64 * w) + std::countr_zero(left));
    }
  }
}

double Downsets::cut_at_least(int a, int b) const {
  PLIMSOLL_DCHECK(is_subset(a, b), "set a is a subset of set b");
  return std::abs(cut_amount_[a] - cut_amount_[b]) * (1 - 1e-9);
}

}  // namespace plimsoll::partition
