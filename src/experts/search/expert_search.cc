#include "plimsoll/experts/expert_search.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>

#include "core/effort_clock.h"
#include "core/random.h"
#include "core/rounding.h"
#include "plimsoll/experts/eplb.h"

namespace plimsoll::experts {
namespace {

constexpr int kShaken = 3;  // random moves between two descents

// A layer whose slots are filled, with what its ranks carry and copy.
class Layer {
 public:
  Layer(const ExpertModel& model, int layer, const std::vector<int>* before, int before_width,
        std::int64_t max_moved)
      : loads_(model.loads[static_cast<std::size_t>(layer)]),
        width_(model.slots_a_rank()),
        ranks_a_host_(model.keeps_groups() ? model.num_ranks / model.num_hosts : model.num_ranks),
        max_moved_(max_moved),
        held_(static_cast<std::size_t>(model.num_ranks)) {
    if (before == nullptr) return;
    for (std::size_t s = 0; s < before->size(); ++s) {
      const std::size_t rank = s / static_cast<std::size_t>(before_width);
      if (rank < held_.size()) held_[rank].push_back((*before)[s]);
    }
  }

  void fill(std::vector<int> slots) {
    slots_ = std::move(slots);
    count_.assign(loads_.size(), 0);
    for (const int expert : slots_) ++count_[expert];
    sums_.assign(held_.size(), 0);
    for (std::size_t s = 0; s < slots_.size(); ++s) sums_[rank_of(s)] += share(slots_[s]);
    moved_.assign(held_.size(), 0);
    for (std::size_t r = 0; r < held_.size(); ++r) moved_[r] = count_moved_to(r);
  }

  const std::vector<int>& slots() const { return slots_; }
  double slowest() const { return *std::max_element(sums_.begin(), sums_.end()); }
  std::int64_t moved() const {
    return std::accumulate(moved_.begin(), moved_.end(), std::int64_t{0});
  }
  bool is_allowed() const { return moved() <= max_moved_; }

  // Exchanges and replicas that make the slowest rank lighter, until none does.
  void descend(EffortClock& clock) {
    while (!clock.is_stopped() && (exchange(clock) || replicate(clock))) {
    }
  }

  // Random exchanges on one host, and replicas of one expert in the place of another's, as far as
  // they are allowed.
  void shake(SplitMix64& random) {
    const int slots_a_host = static_cast<int>(ranks_a_host_ * width_);
    for (int i = 0; i < kShaken; ++i) {
      const auto a = static_cast<std::size_t>(random.below(static_cast<int>(slots_.size())));
      const std::size_t host = rank_of(a) / ranks_a_host_;
      const std::size_t b = host * static_cast<std::size_t>(slots_a_host) +
                            static_cast<std::size_t>(random.below(slots_a_host));
      const int old = slots_[a];
      if (random.below(2) == 0 && count_[old] > 1 && slots_[b] != old) {
        put(a, slots_[b]);
        if (!is_allowed()) put(a, old);
        continue;
      }
      swap(a, b);
      if (!is_allowed()) swap(a, b);
    }
  }

 private:
  std::size_t rank_of(std::size_t slot) const { return slot / width_; }
  double share(int expert) const { return loads_[expert] / count_[expert]; }

  std::int64_t count_moved_to(std::size_t rank) const {
    const std::vector<int>& held = held_[rank];
    std::int64_t moved = 0;
    for (std::size_t s = rank * width_; s < (rank + 1) * width_; ++s) {
      const auto first = slots_.begin() + static_cast<std::ptrdiff_t>(rank * width_);
      const auto here = slots_.begin() + static_cast<std::ptrdiff_t>(s);
      moved += std::find(held.begin(), held.end(), slots_[s]) == held.end() &&
               std::find(first, here, slots_[s]) == here;
    }
    return moved;
  }

  void add_up(std::size_t rank) {
    sums_[rank] = 0;
    for (std::size_t s = rank * width_; s < (rank + 1) * width_; ++s) {
      sums_[rank] += share(slots_[s]);
    }
    moved_[rank] = count_moved_to(rank);
  }

  void swap(std::size_t a, std::size_t b) {
    std::swap(slots_[a], slots_[b]);
    add_up(rank_of(a));
    add_up(rank_of(b));
  }

  void put(std::size_t slot, int expert) {
    const int old = slots_[slot];
    --count_[old];
    ++count_[expert];
    slots_[slot] = expert;
    std::size_t last = held_.size();
    for (std::size_t s = 0; s < slots_.size(); ++s) {
      if ((slots_[s] == old || slots_[s] == expert || s == slot) && rank_of(s) != last) {
        last = rank_of(s);
        add_up(last);
      }
    }
  }

  std::size_t slowest_rank() const {
    return static_cast<std::size_t>(std::max_element(sums_.begin(), sums_.end()) - sums_.begin());
  }

  // The exchange with the slowest rank that leaves the lighter pair of ranks.
  bool exchange(EffortClock& clock) {
    const std::size_t slow = slowest_rank();
    const std::size_t host = slow / ranks_a_host_;
    const double most = sums_[slow];
    double best = most * (1 - kFineRounding);
    std::pair<std::size_t, std::size_t> found;
    bool is_found = false;
    if (clock.spend(static_cast<std::int64_t>(width_ * width_ * ranks_a_host_))) return false;
    for (std::size_t rank = host * ranks_a_host_; rank < (host + 1) * ranks_a_host_; ++rank) {
      if (rank == slow) continue;
      for (std::size_t a = slow * width_; a < (slow + 1) * width_; ++a) {
        for (std::size_t b = rank * width_; b < (rank + 1) * width_; ++b) {
          const double change = share(slots_[a]) - share(slots_[b]);
          if (change <= 0) continue;
          const double pair = std::max(most - change, sums_[rank] + change);
          if (pair >= best) continue;
          if (!may_swap(a, b)) continue;
          best = pair;
          found = {a, b};
          is_found = true;
        }
      }
    }
    if (is_found) swap(found.first, found.second);
    return is_found;
  }

  bool may_swap(std::size_t a, std::size_t b) {
    if (max_moved_ >= std::ssize(slots_)) return true;
    swap(a, b);
    const bool is_allowed_so = is_allowed();
    swap(a, b);
    return is_allowed_so;
  }

  // A slot of an expert with several replicas takes one of the slowest rank's experts.
  bool replicate(EffortClock& clock) {
    const std::size_t slow = slowest_rank();
    const std::size_t host = slow / ranks_a_host_;
    const double most = sums_[slow];
    for (std::size_t a = slow * width_; a < (slow + 1) * width_; ++a) {
      const int expert = slots_[a];
      const std::size_t first = host * ranks_a_host_ * width_;
      for (std::size_t b = first; b < first + ranks_a_host_ * width_; ++b) {
        if (clock.spend(1)) return false;
        const int old = slots_[b];
        if (old == expert || count_[old] < 2) continue;
        // Where the slot stands, and where the other replicas of what it held do.
        const double now = loads_[expert] / (count_[expert] + 1);
        if (rank_of(b) != slow && sums_[rank_of(b)] - share(old) + now >= most) continue;
        clock.spend(std::ssize(slots_));
        put(b, expert);
        if (is_allowed() && slowest() < most * (1 - kFineRounding)) return true;
        put(b, old);
      }
    }
    return false;
  }

  const std::vector<double>& loads_;
  std::size_t width_, ranks_a_host_;
  std::int64_t max_moved_;
  std::vector<std::vector<int>> held_;  // [ranks] experts before
  std::vector<int> slots_, count_;
  std::vector<double> sums_;
  std::vector<std::int64_t> moved_;
};

// The best of the starts and of what descents and shaking make of them.
std::vector<int> improve(Layer& layer, const std::vector<std::vector<int>>& starts, double bound,
                         const SearchOptions& search, std::uint64_t seed, EffortClock& clock) {
  std::vector<int> best;
  double least = std::numeric_limits<double>::infinity();
  const std::int64_t end = clock.effort() + (search.effort >= 0 ? search.effort : kExpertEffort);
  const auto take = [&] {
    if (!layer.is_allowed() || layer.slowest() >= least) return false;
    best = layer.slots();
    least = layer.slowest();
    return true;
  };
  for (const std::vector<int>& start : starts) {
    layer.fill(start);
    if (!layer.is_allowed()) continue;
    take();
    layer.descend(clock);
    take();
  }
  if (best.empty()) return best;
  // Among placements as light as the best one the walk goes on.
  SplitMix64 random(seed);
  std::vector<int> now = best;
  while (least > bound * (1 + search.tolerance) && clock.effort() < end && !clock.is_stopped()) {
    layer.fill(now);
    layer.shake(random);
    layer.descend(clock);
    take();
    if (layer.is_allowed() && layer.slowest() <= least * (1 + kFineRounding)) now = layer.slots();
    if (clock.spend(std::ssize(best))) break;
  }
  return best;
}

// EPLB's placement where groups are swapped between hosts as long as the heavier of two gets
// lighter: the model's experts in another order, and back.
std::vector<int> place_with_even_hosts(const ExpertModel& model, int layer,
                                       const std::vector<int>& eplb) {
  const int a_host = model.num_groups / model.num_hosts;
  if (!model.keeps_groups() || model.num_hosts == 1 || a_host == 1) return eplb;
  const std::vector<double>& loads = model.loads[static_cast<std::size_t>(layer)];
  const int size = model.num_experts() / model.num_groups;
  const auto load_of = [&](int group) {
    const auto first = loads.begin() + std::ptrdiff_t{group} * size;
    return std::accumulate(first, first + size, 0.0);
  };
  std::vector<std::vector<int>> groups(static_cast<std::size_t>(model.num_hosts));
  std::vector<bool> is_known(static_cast<std::size_t>(model.num_groups), false);
  for (std::size_t s = 0; s < eplb.size(); ++s) {
    const int group = eplb[s] / size;
    if (is_known[group]) continue;
    is_known[group] = true;
    groups[s / static_cast<std::size_t>(model.num_slots / model.num_hosts)].push_back(group);
  }
  std::vector<double> sums;
  for (const std::vector<int>& host : groups) {
    double sum = 0;
    for (const int group : host) sum += load_of(group);
    sums.push_back(sum);
  }
  for (bool is_better = true; is_better;) {
    is_better = false;
    const auto slow =
        static_cast<std::size_t>(std::max_element(sums.begin(), sums.end()) - sums.begin());
    double best = sums[slow] * (1 - kFineRounding);
    int *from = nullptr, *to = nullptr;
    std::size_t other = 0;
    for (std::size_t host = 0; host < groups.size(); ++host) {
      if (host == slow) continue;
      for (int& a : groups[slow]) {
        for (int& b : groups[host]) {
          const double change = load_of(a) - load_of(b);
          const double pair = std::max(sums[slow] - change, sums[host] + change);
          if (change > 0 && pair < best) best = pair, from = &a, to = &b, other = host;
        }
      }
    }
    if (from == nullptr) break;
    const double change = load_of(*from) - load_of(*to);
    std::swap(*from, *to);
    sums[slow] -= change;
    sums[other] += change;
    is_better = true;
  }
  // Every host as a model of its own, of one group.
  std::vector<int> slots;
  for (const std::vector<int>& host : groups) {
    ExpertModel own;
    own.num_slots = model.num_slots / model.num_hosts;
    own.num_ranks = model.num_ranks / model.num_hosts;
    std::vector<int> experts;
    std::vector<double>& of_host = own.loads.emplace_back();
    for (const int group : host) {
      for (int i = 0; i < size; ++i) {
        experts.push_back(group * size + i);
        of_host.push_back(loads[static_cast<std::size_t>(experts.back())]);
      }
    }
    const ExpertSlots placed = rebalance_experts(own);
    for (const int expert : placed.front()) slots.push_back(experts[expert]);
  }
  return slots;
}

// The placement with its ranks renamed, hosts as a whole, those first that keep most.
std::vector<int> rename_ranks(const ExpertModel& model, const std::vector<int>& slots,
                              const std::vector<int>& before, int before_width) {
  const int width = model.slots_a_rank();
  const int a_host = model.keeps_groups() ? model.num_ranks / model.num_hosts : model.num_ranks;
  const int num_hosts = model.num_ranks / a_host;
  const auto kept = [&](int rank, int as) {
    std::vector<int> own(slots.begin() + std::ptrdiff_t{rank} * width,
                         slots.begin() + std::ptrdiff_t{rank + 1} * width);
    const auto first =
        std::min<std::ptrdiff_t>(std::ptrdiff_t{as} * before_width, std::ssize(before));
    const auto last = std::min<std::ptrdiff_t>(first + before_width, std::ssize(before));
    const std::vector<int> held(before.begin() + first, before.begin() + last);
    return width - count_moved(held, before_width, own, width);
  };
  struct Pair {
    std::int64_t kept = 0;
    int rank = 0, as = 0;
  };
  const auto match = [](std::vector<Pair> pairs, int count) {
    std::stable_sort(pairs.begin(), pairs.end(),
                     [](const Pair& a, const Pair& b) { return a.kept > b.kept; });
    std::vector<int> to(static_cast<std::size_t>(count), -1);
    std::vector<bool> is_taken(static_cast<std::size_t>(count), false);
    for (const Pair& pair : pairs) {
      if (to[pair.rank] >= 0 || is_taken[pair.as]) continue;
      to[pair.rank] = pair.as;
      is_taken[pair.as] = true;
    }
    return to;
  };
  std::vector<Pair> hosts;
  std::vector<std::vector<int>> ranks;  // [hosts * hosts] names of a host's ranks on another one
  for (int host = 0; host < num_hosts; ++host) {
    for (int as = 0; as < num_hosts; ++as) {
      std::vector<Pair> pairs;
      for (int i = 0; i < a_host; ++i) {
        for (int j = 0; j < a_host; ++j) {
          pairs.push_back({kept(host * a_host + i, as * a_host + j), i, j});
        }
      }
      ranks.push_back(match(pairs, a_host));
      std::int64_t sum = 0;
      for (int i = 0; i < a_host; ++i) {
        sum += pairs[static_cast<std::size_t>(i) * static_cast<std::size_t>(a_host) +
                     static_cast<std::size_t>(ranks.back()[i])]
                   .kept;
      }
      hosts.push_back({sum, host, as});
    }
  }
  const std::vector<int> host_to = match(hosts, num_hosts);
  std::vector<int> renamed(slots.size());
  for (int host = 0; host < num_hosts; ++host) {
    const std::vector<int>& names =
        ranks[static_cast<std::size_t>(host) * static_cast<std::size_t>(num_hosts) +
              static_cast<std::size_t>(host_to[host])];
    for (int i = 0; i < a_host; ++i) {
      const auto from = slots.begin() + std::ptrdiff_t{host * a_host + i} * width;
      std::copy(from, from + width,
                renamed.begin() + std::ptrdiff_t{host_to[host] * a_host + names[i]} * width);
    }
  }
  return renamed;
}

// The placement on ranks of now: what they hold stays as far as there are slots, experts that
// stand nowhere come where slots are free or replicas can be spared, the rest are replicas of those
// that carry most. Nothing where groups stay on hosts: they would have to move.
std::vector<int> keep_on_ranks(const ExpertModel& model, int layer, const std::vector<int>& before,
                               int before_width) {
  const std::vector<double>& loads = model.loads[static_cast<std::size_t>(layer)];
  const auto width = static_cast<std::size_t>(model.slots_a_rank());
  std::vector<int> slots(static_cast<std::size_t>(model.num_slots), -1);
  std::vector<int> count(loads.size(), 0);
  for (std::size_t s = 0; s < before.size(); ++s) {
    const std::size_t rank = s / static_cast<std::size_t>(before_width);
    const std::size_t at = s % static_cast<std::size_t>(before_width);
    if (rank >= static_cast<std::size_t>(model.num_ranks) || at >= width) continue;
    slots[rank * width + at] = before[s];
    ++count[before[s]];
  }
  for (std::size_t expert = 0; expert < loads.size(); ++expert) {
    if (count[expert] > 0) continue;
    auto slot = std::find(slots.begin(), slots.end(), -1);
    if (slot == slots.end()) {
      slot = std::max_element(slots.begin(), slots.end(),
                              [&](int a, int b) { return count[a] < count[b]; });
      --count[*slot];
    }
    *slot = static_cast<int>(expert);
    ++count[expert];
  }
  for (int& slot : slots) {
    if (slot >= 0) continue;
    std::size_t most = 0;
    for (std::size_t e = 1; e < loads.size(); ++e) {
      if (loads[e] / count[e] > loads[most] / count[most]) most = e;
    }
    slot = static_cast<int>(most);
    ++count[most];
  }
  return slots;
}

void conclude(const ExpertModel& model, const SearchOptions& search, const EffortClock& clock,
              Outcome<ExpertPlan>& outcome) {
  outcome.certificate.objective = total_load(model, outcome.plan->slots);
  outcome.certificate.lower_bound = total_bound(model);
  const std::optional<double> gap = outcome.certificate.gap();
  outcome.status = gap && *gap <= search.tolerance ? SolveStatus::kOptimal : SolveStatus::kFeasible;
  outcome.stop = clock.reason();
}

ExpertPlan place(const ExpertModel& model, const SearchOptions& search, EffortClock& clock) {
  const ExpertSlots eplb = rebalance_experts(model);
  ExpertPlan plan{{}, model.num_ranks};
  for (int l = 0; l < model.num_layers(); ++l) {
    const std::vector<int>& start = eplb[static_cast<std::size_t>(l)];
    Layer layer(model, l, nullptr, 1, std::numeric_limits<std::int64_t>::max());
    plan.slots.push_back(improve(layer, {start, place_with_even_hosts(model, l, start)},
                                 least_load(model, l), search,
                                 search.seed + static_cast<std::uint64_t>(l), clock));
  }
  return plan;
}

}  // namespace

Result<Outcome<ExpertPlan>> place_experts(const ExpertModel& model, const SearchOptions& search,
                                          const RunContext& context) {
  PLIMSOLL_RETURN_IF_ERROR(validate(model));
  EffortClock clock(context);
  Outcome<ExpertPlan> outcome;
  outcome.plan = place(model, search, clock);
  conclude(model, search, clock, outcome);
  return outcome;
}

Result<ExpertReplan> replan_experts(const ExpertModel& model, const ExpertPlan& before,
                                    std::int64_t max_moved, const SearchOptions& search,
                                    const RunContext& context) {
  PLIMSOLL_RETURN_IF_ERROR(validate(model));
  ExpertModel old = model;
  old.num_ranks = before.num_ranks;
  old.num_hosts = 1;
  old.num_groups = 1;
  old.num_slots = before.slots.empty() ? 0 : static_cast<int>(before.slots.front().size());
  const auto is_valid = validate(old);
  if (std::string fault = is_valid ? find_fault(old, before) : is_valid.error().message;
      !fault.empty()) {
    return fail(ErrorCode::kValue, "before", "the plan is not one of these experts: " + fault,
                "give the plan that is in use");
  }
  EffortClock clock(context);
  ExpertReplan replan;
  const ExpertPlan fresh = place(model, search, clock);
  const bool may_stay = find_fault(model, before).empty();
  if (may_stay) replan.before_load = total_load(model, before.slots);
  replan.fresh_load = total_load(model, fresh.slots);
  // Layers that gain most come first; each gets an equal part of what is left.
  std::vector<int> order(static_cast<std::size_t>(model.num_layers()));
  std::iota(order.begin(), order.end(), 0);
  ExpertPlan renamed{{}, model.num_ranks};
  ExpertSlots kept;
  std::vector<double> gain;
  for (int l = 0; l < model.num_layers(); ++l) {
    const auto i = static_cast<std::size_t>(l);
    renamed.slots.push_back(
        rename_ranks(model, fresh.slots[i], before.slots[i], before.slots_a_rank()));
    kept.push_back(may_stay ? before.slots[i]
                            : keep_on_ranks(model, l, before.slots[i], before.slots_a_rank()));
    gain.push_back(slowest_load(model, l, kept.back()) - slowest_load(model, l, fresh.slots[i]));
  }
  replan.fresh_moved = count_moved(before, renamed);
  std::stable_sort(order.begin(), order.end(), [&](int a, int b) { return gain[a] > gain[b]; });
  ExpertPlan plan{ExpertSlots(static_cast<std::size_t>(model.num_layers())), model.num_ranks};
  const bool keeps = may_stay || !model.keeps_groups();
  // What must move anywhere is set aside before anything else is given away.
  std::vector<std::int64_t> least;
  std::int64_t left = max_moved;
  for (int l = 0; l < model.num_layers(); ++l) {
    const auto i = static_cast<std::size_t>(l);
    const auto moved_by = [&](const std::vector<int>& slots) {
      return count_moved(before.slots[i], before.slots_a_rank(), slots, model.slots_a_rank());
    };
    std::int64_t most = moved_by(renamed.slots[i]);
    if (keeps) most = std::min(most, moved_by(kept[i]));
    least.push_back(most);
    left -= most;
  }
  replan.outcome.stop = clock.reason();
  if (left < 0) return replan;
  for (std::size_t k = 0; k < order.size(); ++k) {
    const int l = order[k];
    const auto i = static_cast<std::size_t>(l);
    const std::int64_t part = left / static_cast<std::int64_t>(order.size() - k);
    Layer layer(model, l, &before.slots[i], before.slots_a_rank(), least[i] + part);
    std::vector<std::vector<int>> starts;
    if (keeps) starts.push_back(kept[i]);
    starts.push_back(renamed.slots[i]);
    plan.slots[i] = improve(layer, starts, least_load(model, l), search,
                            search.seed + static_cast<std::uint64_t>(l), clock);
    left -=
        count_moved(before.slots[i], before.slots_a_rank(), plan.slots[i], model.slots_a_rank()) -
        least[i];
  }
  replan.moved = count_moved(before, plan);
  replan.outcome.plan = std::move(plan);
  conclude(model, search, clock, replan.outcome);
  return replan;
}

}  // namespace plimsoll::experts
