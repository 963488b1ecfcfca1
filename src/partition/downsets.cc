#include "partition/downsets.h"

#include <algorithm>
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

  memory_.assign(work_.size(), 0);
  for (auto& times : time_) times.assign(work_.size(), 0);
  for (auto& barred : barred_) barred.assign(work_.size(), 0);
  for (int set = 0; set < size(); ++set) {
    if (is_interrupted(context, set)) return false;
    for (std::size_t g = 0; g < num_groups; ++g) {
      if (!contains(set, static_cast<int>(g))) continue;
      memory_[set] += groups_.memory[g];
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
  return find_cuts(context);
}

bool Downsets::find_cuts(const RunContext& context) {
  first_cut_.assign(1, 0);
  cut_amount_.assign(work_.size(), 0);
  for (int set = 0; set < size(); ++set) {
    if (is_interrupted(context, set)) return false;
    for (std::size_t n = 0; n < groups_.nets.size(); ++n) {
      const auto& pins = groups_.nets[n].groups;
      const auto inside =
          std::count_if(pins.begin(), pins.end(), [&](int g) { return contains(set, g); });
      if (inside == 0 || inside == static_cast<std::ptrdiff_t>(pins.size())) continue;
      cuts_.push_back({static_cast<int>(n), static_cast<int>(inside)});
      cut_amount_[set] += groups_.nets[n].amount;
    }
    first_cut_.push_back(static_cast<std::int64_t>(cuts_.size()));
  }
  return true;
}

double Downsets::cut_between(int a, int b) const {
  const CutNet* x = cuts_.data() + first_cut_[a];
  const CutNet* const x_end = cuts_.data() + first_cut_[a + 1];
  const CutNet* y = cuts_.data() + first_cut_[b];
  const CutNet* const y_end = cuts_.data() + first_cut_[b + 1];
  double amount = 0;
  while (x != x_end && y != y_end) {
    if (x->net < y->net) {
      amount += groups_.nets[x++->net].amount;
    } else if (y->net < x->net) {
      amount += groups_.nets[y++->net].amount;
    } else {
      // Cut by both: the stage holds a part of it iff b holds more of it than a.
      if (x->num_inside != y->num_inside) amount += groups_.nets[x->net].amount;
      ++x;
      ++y;
    }
  }
  for (; x != x_end; ++x) amount += groups_.nets[x->net].amount;
  for (; y != y_end; ++y) amount += groups_.nets[y->net].amount;
  return amount;
}

double Downsets::cut_at_least(int a, int b) const {
  return std::abs(cut_amount_[a] - cut_amount_[b]) * (1 - 1e-9);
}

}  // namespace plimsoll::partition
