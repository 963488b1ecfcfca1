#include "partition/stages/stage_chain.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <utility>

#include "core/rounding.h"
#include "partition/graph/shared_work.h"
#include "partition/stages/device_states.h"

namespace plimsoll::partition {
namespace {

constexpr std::int64_t kMaxEntries = std::int64_t{1} << 26;  // 1 GiB of them

struct Entry {
  double load = kUnlimited;
  int begin = -1;  // where its last stage begins; -1: unreached, or the device stays idle
  int kind = -1;   // of its last device
};

// What is known in one state, for the downsets [first, first + entries).
struct Row {
  int first = 0;
  std::vector<Entry> entries;
  std::vector<int> alive;  // downsets reached, ascending

  int end() const { return first + static_cast<int>(entries.size()); }
  double load(int set) const {
    return set < first || set >= end() ? kUnlimited : entries[set - first].load;
  }
};

class StageChainSearch {
 public:
  StageChainSearch(const GroupGraph& groups, const Downsets& downsets, const ChainSearch& search,
                   const RunContext& context)
      : groups_(groups),
        downsets_(downsets),
        search_(search),
        context_(context),
        states_(groups),
        slowness_(slowness_of_kinds(groups)),
        limit_(search.limit * (1 + kRounding)),
        rows_(static_cast<std::size_t>(states_.size())) {}

  ChainAnswer run() {
    rows_[0].entries.push_back({0, -1, -1});
    rows_[0].alive.push_back(0);
    for (int state = 1; state < states_.size(); ++state) {
      fill(state);
      if (stop_ != ChainStop::kFinished) return {std::nullopt, stop_};
    }
    return {read_off(), ChainStop::kFinished};
  }

 private:
  // A safe range of downsets by work; the bytes are looked at one by one.
  void open_window(int state) {
    Row& row = rows_[state];
    int end = downsets_.size();
    if (search_.uses_windows && std::isfinite(limit_)) {
      const double total = downsets_.work(downsets_.size() - 1);
      double capacity = 0;
      double rest = 0;
      for (int k = 0; k < states_.num_kinds(); ++k) {
        capacity += states_.used(state, k) * (limit_ / slowness_[k]);
        rest += states_.left(state, k) * (limit_ / slowness_[k]);
      }
      row.first = first_with_work(total * (1 - kRounding) - rest);
      end = first_with_work(std::nextafter(capacity, kUnlimited));
    }
    num_entries_ += std::max(0, end - row.first);
    if (num_entries_ > kMaxEntries) {
      stop_ = ChainStop::kEffort;
      return;
    }
    row.entries.resize(static_cast<std::size_t>(std::max(0, end - row.first)));
  }

  int first_with_work(double work) const {
    int low = 0;
    for (int high = downsets_.size(); low < high;) {
      const int middle = low + (high - low) / 2;
      if (downsets_.work(middle) < work) {
        low = middle + 1;
      } else {
        high = middle;
      }
    }
    return low;
  }

  // Do the bytes fit the devices used, and the other bytes the other devices?
  bool has_room(int state, int set) const {
    Int128 used = 0;
    Int128 left = 0;
    for (int k = 0; k < states_.num_kinds(); ++k) {
      const auto& cap = groups_.kinds[k].memory_cap;
      const Bytes total = downsets_.memory_done(downsets_.size() - 1);
      used += Int128{states_.used(state, k)} * cap.value_or(total);
      left += Int128{states_.left(state, k)} * cap.value_or(total);
    }
    return downsets_.memory_at_least(set) <= used &&
           downsets_.memory_done(downsets_.size() - 1) - downsets_.memory_done(set) <= left;
  }

  void fill(int state) {
    open_window(state);
    if (stop_ != ChainStop::kFinished) return;
    Row& row = rows_[state];
    for (int set = row.first; set < row.end(); ++set) {
      if (search_.uses_windows && !has_room(state, set)) continue;
      Entry best{std::nextafter(limit_, kUnlimited), -1, -1};
      for (int k = 0; k < states_.num_kinds(); ++k) {
        if (states_.used(state, k) == 0) continue;
        const double load = rows_[states_.without(state, k)].load(set);
        if (load < best.load) best = {load, -1, k};
      }
      for (int k = 0; k < states_.num_kinds(); ++k) {
        if (states_.used(state, k) > 0) try_stages(rows_[states_.without(state, k)], k, set, best);
      }
      if (best.kind >= 0) {
        row.entries[set - row.first] = best;
        row.alive.push_back(set);
      }
      if (must_stop()) return;
    }
  }

  // Last stages on a device of kind k that end at `end`.
  void try_stages(const Row& before, int k, int end, Entry& best) {
    const DeviceKind& kind = groups_.kinds[k];
    auto next = std::lower_bound(before.alive.begin(), before.alive.end(), end);
    while (next != before.alive.begin() && best.load > search_.floor) {
      const int begin = *--next;
      ++pairs_;
      if ((downsets_.work(end) - downsets_.work(begin)) * slowness_[k] >=
          best.load * (1 + kRounding)) {
        return;
      }
      const double reached = before.load(begin);
      if (reached >= best.load || !downsets_.is_subset(begin, end)) continue;
      if (downsets_.num_barred(k, begin) != downsets_.num_barred(k, end)) continue;
      if (kind.memory_cap && downsets_.memory_between(begin, end) > *kind.memory_cap) continue;
      const double time = downsets_.time_ms(k, end) - downsets_.time_ms(k, begin);
      if (time + downsets_.cut_at_least(begin, end) / kind.link_rate >= best.load) continue;
      const double load = time + downsets_.cut_between(begin, end) / kind.link_rate;
      if (load < best.load) best = {std::max(load, reached), begin, k};
    }
  }

  bool must_stop() {
    stop_ = count_pairs(std::exchange(pairs_, 0), search_.pairs_left, context_);
    return stop_ != ChainStop::kFinished;
  }

  std::optional<StageChain> read_off() const {
    int set = downsets_.size() - 1;
    int state = states_.size() - 1;
    StageChain chain;
    chain.largest_load = rows_[state].load(set);
    if (!(chain.largest_load < kUnlimited)) return std::nullopt;
    while (state > 0) {
      const Entry& entry = rows_[state].entries[set - rows_[state].first];
      if (entry.begin >= 0) {
        chain.stages.push_back({entry.kind, entry.begin, set});
        set = entry.begin;
      }
      state = states_.without(state, entry.kind);
    }
    std::reverse(chain.stages.begin(), chain.stages.end());
    return chain;
  }

  const GroupGraph& groups_;
  const Downsets& downsets_;
  const ChainSearch& search_;
  const RunContext& context_;
  const DeviceStates states_;
  const std::vector<double> slowness_;
  const double limit_;
  std::vector<Row> rows_;  // [num_states]
  std::int64_t pairs_ = 0;
  std::int64_t num_entries_ = 0;
  ChainStop stop_ = ChainStop::kFinished;
};

}  // namespace

StopReason reason_of(ChainStop stop) {
  switch (stop) {
    case ChainStop::kFinished:
      return StopReason::kFinished;
    case ChainStop::kEffort:
      return StopReason::kEffort;
    case ChainStop::kDeadline:
      return StopReason::kDeadline;
    case ChainStop::kCancelled:
      return StopReason::kCancelled;
  }
  return StopReason::kFinished;
}

ChainStop count_pairs(std::int64_t num_pairs, std::int64_t* pairs_left, const RunContext& context) {
  if (pairs_left != nullptr) *pairs_left -= num_pairs;
  if (context.is_past_deadline()) return ChainStop::kDeadline;
  if (context.is_cancelled()) return ChainStop::kCancelled;
  const bool is_used_up = pairs_left != nullptr && *pairs_left < 0;
  return is_used_up ? ChainStop::kEffort : ChainStop::kFinished;
}

ChainAnswer find_best_chain(const GroupGraph& groups, const Downsets& downsets,
                            const ChainSearch& search, const RunContext& context) {
  return StageChainSearch(groups, downsets, search, context).run();
}

}  // namespace plimsoll::partition
