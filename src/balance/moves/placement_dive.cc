#include "balance/moves/placement_dive.h"

#include <algorithm>

#include "balance/moves/dive_steps.h"
#include "balance/problem/placement_judge.h"

namespace plimsoll::balance {
namespace {

using Step = DiveSteps::Step;
constexpr std::int64_t kScale = DiveSteps::kScale;

class Dive {
 public:
  Dive(const PlacementItems& items, const DiveOptions& options, EffortClock& clock)
      : items_(items), options_(options), clock_(clock), steps_(items, options) {
    const PlacementProblem& problem = *items.problem;
    for (int rank = 0; rank < items.num_ranks; ++rank) {
      int kind = rank;
      for (int other = 0; other < rank && kind == rank; ++other) {
        const bool is_equal = options.relaxes_memory || problem.caps[other] == problem.caps[rank];
        if (is_equal && is_in_host(other) == is_in_host(rank)) kind = other;
      }
      kind_.push_back(kind);
    }
    load_.assign(kind_.size(), 0);
    bytes_.assign(kind_.size(), {});
    holder_.assign(kind_.size(), steps_.size());
    num_host_ranks_ = items.num_hosts * items.width;
    chosen_.assign(steps_.size(), 0);
    places_.resize(steps_.size());
  }

  DiveResult run() {
    DiveResult result;
    const bool is_complete = place_unit(0);
    result.num_nodes = num_nodes_;
    if (is_found_) {
      result.end = DiveEnd::kFound;
      result.placements = std::move(found_);
      result.is_allowed = evaluate(*items_.problem, result.placements).is_allowed();
    } else {
      result.end = is_complete ? DiveEnd::kRefuted : DiveEnd::kLimit;
    }
    return result;
  }

 private:
  bool is_in_host(int rank) const { return rank < items_.num_hosts * items_.width; }

  // Can units d.. still be placed, going by sums?
  bool is_hopeless(std::size_t d) const {
    if (uniform_ + largest_ > kScale) return true;
    if (!options_.uses_mean_rule) return false;
    const std::int64_t least = *std::min_element(load_.begin(), load_.end());
    const std::int64_t room = kScale - uniform_ - least;
    return items_.num_ranks * uniform_ + sum_ + steps_.least_work(d, room) >
           items_.num_ranks * kScale;
  }

  // Both return whether the subtree was searched to its end; false also once a placement is found.
  bool place_unit(std::size_t d) {
    if (!spend_node()) return false;
    if (is_hopeless(d)) return true;
    if (d == steps_.size()) {
      keep();
      return false;
    }
    const std::vector<Step>& steps = steps_.steps(d);
    const bool is_ordered = options_.uses_unit_symmetry && steps_.is_like_previous(d);
    for (int s = is_ordered ? chosen_[d - 1] : 0; s < static_cast<int>(steps.size()); ++s) {
      chosen_[d] = s;
      if (!place_step(d, steps[s])) return false;
    }
    return true;
  }

  // False: no node is left.
  bool spend_node() {
    if (num_nodes_ >= options_.max_nodes) return false;
    ++num_nodes_;
    if (num_nodes_ % 4096 != 0 || !clock_.spend(4096)) return true;
    num_nodes_ = std::max(num_nodes_, options_.max_nodes);
    return false;
  }

  bool place_step(std::size_t d, const Step& step) {
    if (step.spread != Spread::kUniform) {
      if (uniform_ + step.peak > kScale) return true;
      places_[d].clear();
      return place_piece(d, step, 0);
    }
    const TierBytes& bytes = steps_.piece_bytes(step, 0);
    if (!options_.relaxes_memory) {
      for (int rank = 0; rank < items_.num_ranks; ++rank) {
        if (!fits(rank, bytes)) return true;
      }
    }
    uniform_ += step.peak;
    add_bytes(uniform_bytes_, bytes, 1);
    const bool is_done = place_unit(d + 1);
    add_bytes(uniform_bytes_, bytes, -1);
    uniform_ -= step.peak;
    return is_done;
  }

  bool place_piece(std::size_t d, const Step& step, int piece) {
    if (piece == step.num_pieces) return place_unit(d + 1);
    if (piece > 0 && !spend_node()) return false;  // the first one is the unit's
    const bool is_block = step.spread == Spread::kHost;
    const int end = is_block ? items_.num_hosts : items_.num_ranks;
    const std::int64_t load = steps_.piece_load(step, piece);
    const TierBytes& bytes = steps_.piece_bytes(step, piece);
    const bool is_distinct = items_.choices[step.choice].distinct_ranks;
    // Least loaded first: what is tried first balances.
    std::vector<std::pair<std::int64_t, int>> tried;
    for (int place = 0; place < end; ++place) {
      const std::int64_t height = is_block ? host_height(place) : load_[place];
      if (uniform_ + height + load > kScale) continue;
      if (is_block ? !host_fits(place, bytes) : !fits(place, bytes)) continue;
      if (is_distinct && holder_[place] == d) continue;
      if (options_.uses_rank_symmetry && is_repeated(d, place, is_block)) continue;
      tried.emplace_back(height, place);
    }
    std::stable_sort(tried.begin(), tried.end());
    for (const auto& [height, place] : tried) {
      const int first = is_block ? place * items_.width : place;
      const int num_ranks = is_block ? items_.width : 1;
      const std::int64_t largest = largest_;
      change(first, num_ranks, load, bytes, 1);
      places_[d].push_back(place);
      const std::size_t holder = holder_[first];
      if (is_distinct) holder_[first] = d;
      const bool is_done = place_piece(d, step, piece + 1);
      holder_[first] = holder;
      places_[d].pop_back();
      change(first, num_ranks, load, bytes, -1);
      largest_ = largest;
      if (!is_done) return false;
    }
    return true;
  }

  void change(int first, int num_ranks, std::int64_t load, const TierBytes& bytes, int sign) {
    for (int rank = first; rank < first + num_ranks; ++rank) {
      load_[rank] += sign * load;
      largest_ = std::max(largest_, load_[rank]);
      add_bytes(bytes_[rank], bytes, sign);
    }
    sum_ += sign * num_ranks * load;
  }

  bool fits(int rank, const TierBytes& bytes) const {
    if (options_.relaxes_memory) return true;
    for (const int t : items_.tiers) {
      if (bytes_[rank][t] + uniform_bytes_[t] + bytes[t] > items_.problem->caps[rank][t]) {
        return false;
      }
    }
    return true;
  }

  bool host_fits(int host, const TierBytes& bytes) const {
    for (int rank = host * items_.width; rank < (host + 1) * items_.width; ++rank) {
      if (!fits(rank, bytes)) return false;
    }
    return true;
  }

  std::int64_t host_height(int host) const {
    const auto first = load_.begin() + host * items_.width;
    return *std::max_element(first, first + items_.width);
  }

  // For unit d, whose pieces may want ranks without one of them.
  bool are_alike(std::size_t d, int a, int b) const {
    return load_[a] == load_[b] && kind_[a] == kind_[b] &&
           (options_.relaxes_memory || bytes_[a] == bytes_[b]) &&
           (holder_[a] == d) == (holder_[b] == d);
  }

  // Hosts hold the same ranks in some order.
  bool are_hosts_alike(std::size_t d, int a, int b) const {
    const int first_a = a * items_.width;
    const int first_b = b * items_.width;
    std::uint64_t used = 0;
    if (items_.width > 64) return false;
    for (int i = 0; i < items_.width; ++i) {
      bool is_matched = false;
      for (int j = 0; j < items_.width && !is_matched; ++j) {
        if ((used >> j & 1) != 0 || !are_alike(d, first_a + i, first_b + j)) continue;
        used |= std::uint64_t{1} << j;
        is_matched = true;
      }
      if (!is_matched) return false;
    }
    return true;
  }

  // Has an earlier place been tried that a permutation turns this one into?
  bool is_repeated(std::size_t d, int place, bool is_block) const {
    const auto is_host_repeated = [this, d](int host) {
      for (int other = 0; other < host; ++other) {
        if (are_hosts_alike(d, other, host)) return true;
      }
      return false;
    };
    if (is_block) return is_host_repeated(place);
    // Blocks still to come, of this unit's later choices too, tell hosts apart.
    const bool are_hosts_apart = steps_.has_host_from(d + 1);
    const int host = place < num_host_ranks_ ? place / items_.width : -1;
    const int first = are_hosts_apart && host >= 0 ? host * items_.width : 0;
    for (int other = first; other < place; ++other) {
      if (are_alike(d, other, place)) return true;
    }
    return are_hosts_apart && host > 0 && is_host_repeated(host);
  }

  void keep() {
    is_found_ = true;
    found_.units.resize(steps_.size());
    for (std::size_t d = 0; d < steps_.size(); ++d) {
      const Step& step = steps_.steps(d)[chosen_[d]];
      UnitPlacement& placement = found_.units[steps_.unit(d)];
      placement.choice = items_.choices[step.choice].index;
      if (step.spread != Spread::kUniform) placement.slots = places_[d];
    }
  }

  const PlacementItems& items_;
  const DiveOptions& options_;
  EffortClock& clock_;
  const DiveSteps steps_;
  int num_host_ranks_ = 0;
  std::vector<int> kind_;                 // [num_ranks] first rank with equal caps
  std::vector<int> chosen_;               // [depth]
  std::vector<std::vector<int>> places_;  // [depth]
  std::vector<std::int64_t> load_;        // [num_ranks] without uniform loads
  std::vector<TierBytes> bytes_;          // likewise
  std::vector<std::size_t> holder_;       // [num_ranks] depth of the last unit that wants the rank
  TierBytes uniform_bytes_{};
  std::int64_t uniform_ = 0, sum_ = 0, largest_ = 0;
  std::int64_t num_nodes_ = 0;
  bool is_found_ = false;
  UnitPlacements found_;
};

}  // namespace

bool is_divable(const PlacementItems& items) {
  const PlacementProblem& problem = *items.problem;
  if (items.stride != 1 || !items.empty_units.empty()) return false;
  for (const int tier : items.tiers) {
    if (problem.is_pooled[tier]) return false;
  }
  return std::none_of(problem.apart.begin(), problem.apart.end(),
                      [](const std::vector<int>& set) { return set.size() > 1; }) &&
         std::all_of(problem.units.begin(), problem.units.end(),
                     [](const Unit& unit) { return unit.allowed_ranks.empty(); });
}

DiveResult dive(const PlacementItems& items, const DiveOptions& options, EffortClock& clock) {
  if (!is_divable(items)) return {};
  return Dive(items, options, clock).run();
}

}  // namespace plimsoll::balance
