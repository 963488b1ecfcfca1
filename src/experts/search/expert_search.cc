#include "plimsoll/experts/expert_search.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>

#include "core/effort_clock.h"
#include "core/random.h"
#include "core/rounding.h"
#include "experts/search/even_hosts.h"
#include "experts/search/kept_ranks.h"
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

// Plans a model again, layer by layer, within a number of replicas that move.
class ExpertReplanner {
 public:
  // `before` is a plan of the model's experts, on its ranks or others.
  ExpertReplanner(const ExpertModel& model, const ExpertPlan& before, const SearchOptions& search,
                  const RunContext& context)
      : model_(model), before_(before), search_(search), clock_(context) {}

  ExpertReplan run(std::int64_t max_moved) {
    make_starts();
    const std::int64_t left = max_moved - set_least_aside();
    replan_.outcome.stop = clock_.reason();
    if (left < 0) return std::move(replan_);
    replan_.outcome.plan = plan_layers(left);
    replan_.moved = count_moved(before_, *replan_.outcome.plan);
    conclude(model_, search_, clock_, replan_.outcome);
    return std::move(replan_);
  }

 private:
  // A fresh placement under the names that keep most, and what stays where it is.
  void make_starts() {
    const ExpertPlan fresh = place(model_, search_, clock_);
    const bool may_stay = find_fault(model_, before_).empty();
    keeps_ = may_stay || !model_.keeps_groups();
    if (may_stay) replan_.before_load = total_load(model_, before_.slots);
    replan_.fresh_load = total_load(model_, fresh.slots);
    for (int l = 0; l < model_.num_layers(); ++l) {
      const std::vector<int>& slots = fresh.slots[static_cast<std::size_t>(l)];
      const std::vector<int>& before = before_.slots[static_cast<std::size_t>(l)];
      fresh_.push_back(rename_ranks(model_, slots, before, before_.slots_a_rank()));
      kept_.push_back(may_stay ? before : keep_on_ranks(model_, l, before, before_.slots_a_rank()));
      gain_.push_back(slowest_load(model_, l, kept_.back()) - slowest_load(model_, l, slots));
    }
    replan_.fresh_moved = count_moved(before_, {fresh_, model_.num_ranks});
  }

  // What must move in every layer, whatever else does; the sum.
  std::int64_t set_least_aside() {
    std::int64_t sum = 0;
    for (std::size_t l = 0; l < fresh_.size(); ++l) {
      std::int64_t least = moved(l, fresh_[l]);
      if (keeps_) least = std::min(least, moved(l, kept_[l]));
      least_moved_.push_back(least);
      sum += least;
    }
    return sum;
  }

  // Layers that gain most come first; each gets an equal part of what is left.
  ExpertPlan plan_layers(std::int64_t left) {
    std::vector<int> order(fresh_.size());
    std::iota(order.begin(), order.end(), 0);
    std::stable_sort(order.begin(), order.end(), [&](int a, int b) { return gain_[a] > gain_[b]; });
    ExpertPlan plan{ExpertSlots(fresh_.size()), model_.num_ranks};
    for (std::size_t k = 0; k < order.size(); ++k) {
      const auto l = static_cast<std::size_t>(order[k]);
      const std::int64_t part = left / static_cast<std::int64_t>(order.size() - k);
      Layer layer(model_, order[k], &before_.slots[l], before_.slots_a_rank(),
                  least_moved_[l] + part);
      std::vector<std::vector<int>> starts;
      if (keeps_) starts.push_back(kept_[l]);
      starts.push_back(fresh_[l]);
      plan.slots[l] =
          improve(layer, starts, least_load(model_, order[k]), search_, search_.seed + l, clock_);
      left -= moved(l, plan.slots[l]) - least_moved_[l];
    }
    return plan;
  }

  std::int64_t moved(std::size_t layer, const std::vector<int>& slots) const {
    return count_moved(before_.slots[layer], before_.slots_a_rank(), slots, model_.slots_a_rank());
  }

  const ExpertModel& model_;
  const ExpertPlan& before_;
  const SearchOptions& search_;
  EffortClock clock_;
  ExpertReplan replan_;
  bool keeps_ = false;  // are kept_ placements of the model?
  ExpertSlots fresh_, kept_;
  std::vector<double> gain_;               // [layers] of the fresh placement
  std::vector<std::int64_t> least_moved_;  // [layers]
};

// Precondition of a plan to start from.
Result<void> check_before(const ExpertModel& model, const ExpertPlan& before) {
  ExpertModel old = model;
  old.num_ranks = before.num_ranks;
  old.num_hosts = 1;
  old.num_groups = 1;
  old.num_slots = before.slots.empty() ? 0 : static_cast<int>(before.slots.front().size());
  const auto is_valid = validate(old);
  const std::string fault = is_valid ? find_fault(old, before) : is_valid.error().message;
  if (fault.empty()) return {};
  return fail(ErrorCode::kValue, "before", "the plan is not one of these experts: " + fault,
              "give the plan that is in use");
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
  PLIMSOLL_RETURN_IF_ERROR(check_before(model, before));
  return ExpertReplanner(model, before, search, context).run(max_moved);
}

}  // namespace plimsoll::experts
