#include "partition/pipeline/replica_chain.h"

#include <algorithm>
#include <cmath>

#include "core/check.h"
#include "core/rounding.h"
#include "partition/graph/shared_work.h"
#include "plimsoll/partition/replicated_stages.h"

namespace plimsoll::partition {
namespace {

constexpr std::int64_t kEntriesOfAPair = 32;  // ways to use devices that a pair stands for
constexpr std::int64_t kMaxEntries = std::int64_t{1} << 25;  // 512 MiB of them

struct Option {
  ReplicaDevices devices;
  int stride = 0;        // of the state
  double link_rate = 0;  // of the fastest of its devices
  int kind() const { return devices.of_kinds.front().first; }
};

struct Entry {
  double sum = kUnlimited;
  int begin = -1;  // where its first stage ends
  int option = -1;
};

// A pair of downsets, as far as it was looked at.
struct Pair {
  int begin = 0, end = 0;
  bool has_cut = false, has_bytes = false;
  double cut = 0;
  Bytes memory = 0;  // of nodes and weights
};

class ReplicaChainSolver {
 public:
  ReplicaChainSolver(const GroupGraph& groups, const Downsets& cuts, const ReplicaTerms& terms,
                     const ReplicaChainSearch& search, const RunContext& context)
      : groups_(groups),
        cuts_(cuts),
        terms_(terms),
        search_(search),
        context_(context),
        limit_(search.limit * (1 + kRounding)),
        slowness_(slowness_of_kinds(groups)) {
    for (const DeviceKind& kind : groups.kinds) {
      strides_.push_back(num_states_);
      num_states_ *= static_cast<int>(kind.devices.size()) + 1;
    }
    add_options(0, {});
    node_bytes_ = cuts.add_up(terms.node_bytes);
    per_microbatch_ = cuts.add_up(terms.per_microbatch);
    describe_states();
    const auto num_entries = static_cast<std::int64_t>(is_allowed_.size());
    pair_cost_ = 1 + num_entries / kEntriesOfAPair;
  }

  ReplicaChainAnswer run() {
    if (std::int64_t{num_states_} * cuts_.size() > kMaxEntries) return {{}, ChainStop::kEffort};
    best_.assign(static_cast<std::size_t>(num_states_) * cuts_.size(), {});
    is_reached_.assign(static_cast<std::size_t>(cuts_.size()), 0);
    best_[0].sum = 0;
    is_reached_[0] = 1;
    for (int end = 1; end < cuts_.size(); ++end) {
      for (int begin = first_begin(end); begin < end; ++begin) {
        if (is_reached_[begin] == 0) continue;
        if (is_stopped()) return {{}, stop_};
        if (cuts_.is_subset(begin, end)) try_pair(begin, end);
      }
    }
    return {read_off(), ChainStop::kFinished};
  }

 private:
  // All numbers of devices of the kinds from `kind` on, beside those of one class that are there.
  void add_options(int kind, const Option& option) {
    const int replicas = option.devices.replicas;
    if (kind == groups_.num_kinds()) {
      if (replicas == 0 || terms_.num_microbatches % replicas != 0) return;
      options_.push_back(option);
      most_replicas_ = std::max(most_replicas_, replicas);
      return;
    }
    add_options(kind + 1, option);
    const DeviceKind& own = groups_.kinds[kind];
    if (replicas > 0 && groups_.kinds[option.kind()].device_class != own.device_class) return;
    const int most = std::min(static_cast<int>(own.devices.size()), terms_.max_replicas - replicas);
    for (int d = 1; d <= most; ++d) {
      Option more = option;
      more.devices.of_kinds.emplace_back(kind, d);
      more.devices.replicas += d;
      more.stride += d * strides_[kind];
      more.link_rate = std::max(more.link_rate, own.link_rate);
      add_options(kind + 1, more);
    }
  }

  void describe_states() {
    used_.resize(static_cast<std::size_t>(num_states_));
    left_rate_.resize(used_.size());
    credit_.resize(used_.size());
    is_allowed_.resize(used_.size() * options_.size());
    for (int state = 0; state < num_states_; ++state) {
      const auto used_of = [&](int kind) {
        return state / strides_[kind] % (static_cast<int>(groups_.kinds[kind].devices.size()) + 1);
      };
      for (int k = 0; k < groups_.num_kinds(); ++k) {
        const int left = static_cast<int>(groups_.kinds[k].devices.size()) - used_of(k);
        used_[state] += used_of(k);
        left_rate_[state] += left / slowness_[k];
        if (!search_.rest.empty()) credit_[state] += left * search_.credits[k];
      }
      for (std::size_t o = 0; o < options_.size(); ++o) {
        const auto& wanted = options_[o].devices.of_kinds;
        is_allowed_[state * options_.size() + o] =
            std::all_of(wanted.begin(), wanted.end(), [&](const auto& one) {
              const auto count = static_cast<int>(groups_.kinds[one.first].devices.size());
              return used_of(one.first) + one.second <= count;
            });
      }
    }
  }

  // Called before each pair. The clock is looked at now and then, the effort always: so a search
  // that the clock stopped before some pair stops there again when that is its effort.
  bool is_stopped() {
    constexpr std::int64_t kClockPairs = 256;
    *search_.pairs_left -= pair_cost_;
    if (*search_.pairs_left <= 0) stop_ = ChainStop::kEffort;
    if (++num_pairs_ % kClockPairs == 0) {
      if (context_.is_past_deadline()) stop_ = ChainStop::kDeadline;
      if (context_.is_cancelled()) stop_ = ChainStop::kCancelled;
    }
    return stop_ != ChainStop::kFinished;
  }

  // A stage from an earlier cut would work longer than the limit on its own.
  int first_begin(int end) const {
    if (!search_.uses_windows || !std::isfinite(limit_)) return 0;
    const double least = cuts_.work(end) * (1 - kRounding) - limit_ * most_replicas_;
    int low = 0;
    for (int high = end; low < high;) {
      const int middle = low + (high - low) / 2;
      if (cuts_.work(middle) < least) {
        low = middle + 1;
      } else {
        high = middle;
      }
    }
    return low;
  }

  void try_pair(int begin, int end) {
    Pair pair{begin, end};
    const double rest = cuts_.work(cuts_.size() - 1) - cuts_.work(end);
    const Entry* const from = best_.data() + std::int64_t{num_states_} * begin;
    Entry* const to = best_.data() + std::int64_t{num_states_} * end;
    for (std::size_t o = 0; o < options_.size(); ++o) {
      const Option& option = options_[o];
      if (!may_run(option, pair)) continue;
      const double own = own_ms(pair, option);
      if (own > limit_) continue;
      double time = -1;  // not known yet
      for (int state = 0; state < num_states_ - option.stride; ++state) {
        if (from[state].sum == kUnlimited || is_allowed_[state * options_.size() + o] == 0)
          continue;
        const int used = state + option.stride;
        const double enough = std::min(to[used].sum, search_.sum_limit);
        if (from[state].sum + own >= enough) continue;
        if (search_.uses_windows && rest * (1 - kRounding) > limit_ * left_rate_[used]) continue;
        if (time < 0) time = stage_ms(pair, option, own);
        if (time > limit_) break;
        const double sum = from[state].sum + time;
        if (sum >= enough || leaves_too_much(sum, end, used)) continue;
        if (!fits(pair, option, used_[used])) continue;
        to[used] = {sum, begin, static_cast<int>(o)};
        is_reached_[end] = 1;
      }
    }
  }

  // The rest adds more than is of use, whatever it is.
  bool leaves_too_much(double sum, int end, int used) const {
    if (search_.rest.empty()) return false;
    return sum + search_.rest[end] - credit_[used] > search_.sum_limit * (1 + kRounding);
  }

  bool may_run(const Option& option, const Pair& pair) const {
    const auto& wanted = option.devices.of_kinds;
    return std::all_of(wanted.begin(), wanted.end(), [&](const auto& one) {
      return cuts_.num_barred(one.first, pair.end) == cuts_.num_barred(one.first, pair.begin);
    });
  }

  double own_ms(const Pair& pair, const Option& option) const {
    const double ms =
        cuts_.time_ms(option.kind(), pair.end) - cuts_.time_ms(option.kind(), pair.begin);
    return ms / option.devices.replicas;
  }

  double stage_ms(Pair& pair, const Option& option, double own) {
    if (!pair.has_cut) {
      pair.cut = cuts_.cut_between(pair.begin, pair.end);
      pair.has_cut = true;
    }
    const double rate = option.link_rate;
    const double d = option.devices.replicas;
    double time = own + pair.cut / rate / d;
    if (terms_.is_training && option.devices.replicas > 1) {
      const auto weights = static_cast<double>(memory(pair) - between(node_bytes_, pair));
      time += 4 * (d - 1) * weights / (d * terms_.num_microbatches * rate);
    }
    return time;
  }

  Bytes memory(Pair& pair) {
    if (!pair.has_bytes) {
      pair.memory = cuts_.memory_between(pair.begin, pair.end);
      pair.has_bytes = true;
    }
    return pair.memory;
  }

  static Bytes between(const std::vector<Bytes>& sums, const Pair& pair) {
    return sums[pair.end] - sums[pair.begin];
  }

  bool fits(Pair& pair, const Option& option, int count) {
    const auto& cap = groups_.kinds[option.kind()].memory_cap;
    if (!cap) return true;
    const int in_flight = microbatches_in_flight(terms_.is_training, terms_.num_microbatches,
                                                 option.devices.replicas, count);
    return memory(pair) + in_flight * between(per_microbatch_, pair) <= *cap;
  }

  std::optional<ReplicaChain> read_off() {
    const auto first = best_.end() - num_states_;
    const auto least = std::min_element(
        first, best_.end(), [](const Entry& a, const Entry& b) { return a.sum < b.sum; });
    if (least->sum == kUnlimited) return std::nullopt;
    ReplicaChain chain{least->sum, 0, {}};
    int state = static_cast<int>(least - first);
    for (int end = cuts_.size() - 1; end > 0;) {
      const Entry& entry = best_[std::int64_t{num_states_} * end + state];
      const Option& option = options_[entry.option];
      chain.stages.push_back({option.devices, entry.begin, end});
      Pair pair{entry.begin, end};
      chain.slowest = std::max(chain.slowest, stage_ms(pair, option, own_ms(pair, option)));
      end = entry.begin;
      state -= option.stride;
    }
    return chain;
  }

  const GroupGraph& groups_;
  const Downsets& cuts_;
  const ReplicaTerms& terms_;
  const ReplicaChainSearch& search_;
  const RunContext& context_;
  const double limit_;
  const std::vector<double> slowness_;
  std::vector<Option> options_;
  int most_replicas_ = 1;
  std::vector<int> strides_;  // [num_kinds] of the devices used, in mixed radix
  int num_states_ = 1;
  std::vector<int> used_;          // [num_states] devices
  std::vector<double> left_rate_;  // [num_states] ms of work that the others do in a ms
  std::vector<double> credit_;     // [num_states] of the devices left
  std::vector<char> is_allowed_;   // [num_states][num_options] enough devices are left
  std::vector<Bytes> node_bytes_, per_microbatch_;  // [cuts]
  std::vector<Entry> best_;                         // [cuts][num_states]
  std::vector<char> is_reached_;                    // [cuts]
  std::int64_t pair_cost_ = 1;                      // in pairs, where there are many ways
  std::int64_t num_pairs_ = 0;
  ChainStop stop_ = ChainStop::kFinished;
};

}  // namespace

ReplicaChainAnswer find_replica_chain(const GroupGraph& groups, const Downsets& cuts,
                                      const ReplicaTerms& terms, const ReplicaChainSearch& search,
                                      const RunContext& context) {
  PLIMSOLL_CHECK(cuts.is_finished_for(groups), "the cuts are finished, and of the groups");
  return ReplicaChainSolver(groups, cuts, terms, search, context).run();
}

double num_device_states(const GroupGraph& groups) {
  double states = 1;
  for (const DeviceKind& kind : groups.kinds) {
    states *= 1.0 + static_cast<double>(kind.devices.size());
  }
  return states;
}

}  // namespace plimsoll::partition
