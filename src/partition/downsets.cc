#include "partition/downsets.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <numeric>
#include <queue>
#include <tuple>

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
  const std::size_t first = bits_.size();
  bits_.resize(first + words_);
  for (std::size_t g = 0; g < holds.size(); ++g) {
    bits_[first + g / 64] |= static_cast<std::uint64_t>(holds[g]) << (g % 64);
  }
  work_.push_back(0);  // the sums wait for finish()
}

bool Downsets::finish(const RunContext& context) {
  const std::size_t num_groups = groups_.nodes.size();
  const std::vector<double> work = work_of_groups(groups_);
  std::vector<int> counts(work_.size());
  for (int set = 0; set < size(); ++set) {
    if (is_interrupted(context, set)) return false;
    for (std::size_t g = 0; g < num_groups; ++g) {
      if (!contains(set, static_cast<int>(g))) continue;
      work_[set] += work[g];
      ++counts[set];
    }
  }
  std::vector<int> order(work_.size());
  std::iota(order.begin(), order.end(), 0);
  const auto compare = [&](int a, int b) {
    if (work_[a] != work_[b]) return work_[a] < work_[b];
    if (counts[a] != counts[b]) return counts[a] < counts[b];
    return std::lexicographical_compare(bits(a), bits(a) + words_, bits(b), bits(b) + words_);
  };
  std::sort(order.begin(), order.end(), compare);
  const auto is_equal = [&](int a, int b) {
    return std::equal(bits(a), bits(a) + words_, bits(b));
  };
  order.erase(std::unique(order.begin(), order.end(), is_equal), order.end());

  std::vector<std::uint64_t> sorted;
  sorted.reserve(order.size() * words_);
  for (const int set : order) sorted.insert(sorted.end(), bits(set), bits(set) + words_);
  bits_ = std::move(sorted);
  permute(work_, order);

  done_.assign(work_.size(), 0);
  for (auto& times : time_) times.assign(work_.size(), 0);
  for (auto& barred : barred_) barred.assign(work_.size(), 0);
  for (int set = 0; set < size(); ++set) {
    if (is_interrupted(context, set)) return false;
    for (std::size_t g = 0; g < num_groups; ++g) {
      if (!contains(set, static_cast<int>(g))) continue;
      done_[set] += groups_.memory[g];
      for (std::size_t k = 0; k < time_.size(); ++k) {
        const double time = groups_.time_ms[k][g];
        if (std::isfinite(time)) {
          time_[k][set] += time;
        } else {
          ++barred_[k][set];
        }
      }
    }
  }
  touched_ = done_;
  if (!charge_weights(context)) return false;
  if (!find_cuts(groups_.nets, context, net_cuts_)) return false;
  if (!find_cuts(groups_.weights, context, weight_cuts_)) return false;
  cut_amount_.assign(work_.size(), 0);
  for (int set = 0; set < size(); ++set) {
    for (const Cut& cut : net_cuts_.of(set)) cut_amount_[set] += groups_.nets[cut.edge].amount;
  }
  return true;
}

template <class Hyperedge>
bool Downsets::find_cuts(const std::vector<Hyperedge>& edges, const RunContext& context,
                         Cuts& cuts) const {
  cuts.first.assign(1, 0);
  for (int set = 0; set < size(); ++set) {
    if (is_interrupted(context, set)) return false;
    for (std::size_t e = 0; e < edges.size(); ++e) {
      const auto& pins = edges[e].groups;
      const auto inside =
          std::count_if(pins.begin(), pins.end(), [&](int g) { return contains(set, g); });
      if (inside == 0 || inside == static_cast<std::ptrdiff_t>(pins.size())) continue;
      cuts.list.push_back({static_cast<int>(e), static_cast<int>(inside)});
    }
    cuts.first.push_back(static_cast<std::int64_t>(cuts.list.size()));
  }
  return true;
}

// Weights whose readers are all inside have no cut to be found by: they are counted here.
bool Downsets::charge_weights(const RunContext& context) {
  for (int set = 0; set < size(); ++set) {
    if (is_interrupted(context, set)) return false;
    for (const GroupWeight& weight : groups_.weights) {
      const auto is_inside = [&](int g) { return contains(set, g); };
      const auto& readers = weight.groups;
      if (std::any_of(readers.begin(), readers.end(), is_inside)) touched_[set] += weight.bytes;
      if (std::all_of(readers.begin(), readers.end(), is_inside)) done_[set] += weight.bytes;
    }
  }
  return true;
}

double Downsets::cut_between(int a, int b) const {
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
  members.clear();
  for (std::size_t w = 0; w < words_; ++w) {
    for (std::uint64_t left = bits(b)[w] & ~bits(a)[w]; left != 0; left &= left - 1) {
      members.push_back(static_cast<int>(64 * w) + std::countr_zero(left));
    }
  }
}

double Downsets::cut_at_least(int a, int b) const {
  return std::abs(cut_amount_[a] - cut_amount_[b]) * (1 - 1e-9);
}

}  // namespace plimsoll::partition
