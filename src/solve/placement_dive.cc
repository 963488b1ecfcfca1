#include "plimsoll/solve/placement_dive.h"

#include <algorithm>
#include <cmath>

namespace plimsoll::solve {
namespace {

constexpr std::int64_t kScale = std::int64_t{1} << 40;

// A choice in whole numbers.
struct Step {
  int choice = 0;  // into PlacementItems::choices
  Spread spread = Spread::kDevice;
  int num_pieces = 0;
  std::int64_t peak = 0;  // largest piece
  std::int64_t work = 0;  // added to all ranks together
};

class Dive {
 public:
  Dive(const PlacementItems& items, const DiveOptions& options, EffortClock& clock)
      : items_(items), options_(options), clock_(clock) {
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
    num_host_ranks_ = items.num_hosts * items.width;
    to_whole_ = static_cast<double>(kScale) / options.target;
    make_steps();
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

  std::int64_t piece_load(const Step& step, int piece) const {
    const PlacementItems::Choice& choice = items_.choices[step.choice];
    return to_whole(items_.load[PlacementItems::record_of(choice, piece)]);
  }
  const TierBytes& piece_bytes(const Step& step, int piece) const {
    return items_.bytes[PlacementItems::record_of(items_.choices[step.choice], piece)];
  }
  std::int64_t to_whole(double load) const {
    return static_cast<std::int64_t>(std::floor(std::min(load * to_whole_, 2.0 * kScale)));
  }

  void make_steps() {
    for (int unit = 0; unit < items_.num_units; ++unit) {
      std::vector<Step> steps;
      for (int c = items_.first_choice[unit]; c < items_.first_choice[unit + 1]; ++c) {
        const PlacementItems::Choice& choice = items_.choices[c];
        Step step{c, choice.spread, choice.num_pieces, 0, 0};
        const int num_pieces = std::max(choice.num_pieces, 1);
        const int copies = choice.spread == Spread::kHost      ? items_.width
                           : choice.spread == Spread::kUniform ? items_.num_ranks
                                                               : 1;
        for (int piece = 0; piece < num_pieces; ++piece) {
          const std::int64_t load = piece_load(step, piece);
          step.peak = std::max(step.peak, load);
          step.work += copies * load;
        }
        if (step.peak <= kScale) steps.push_back(step);
      }
      std::stable_sort(steps.begin(), steps.end(),
                       [](const Step& a, const Step& b) { return a.work < b.work; });
      steps_.push_back(std::move(steps));
    }
    cascade();
    order();
  }

  // Units with uniform choices alone are in every placement; a piece must fit beside them.
  void cascade() {
    for (bool is_changed = true; is_changed;) {
      is_changed = false;
      forced_ = 0;
      for (const std::vector<Step>& steps : steps_) {
        if (is_forced(steps)) forced_ += steps.front().peak;
      }
      for (std::vector<Step>& steps : steps_) {
        if (is_forced(steps)) continue;
        const std::size_t size = steps.size();
        std::erase_if(steps, [this](const Step& step) { return step.peak > kScale - forced_; });
        is_changed |= steps.size() != size;
      }
    }
  }

  static bool is_forced(const std::vector<Step>& steps) {
    return !steps.empty() && std::all_of(steps.begin(), steps.end(), [](const Step& step) {
      return step.spread == Spread::kUniform;
    });
  }

  void order() {
    for (int unit = 0; unit < items_.num_units; ++unit) order_.push_back(unit);
    const auto key = [this](int unit) {
      const std::vector<Step>& steps = steps_[unit];
      return std::pair(is_forced(steps) ? 0 : 1, steps.empty() ? 0 : -steps.front().work);
    };
    std::stable_sort(order_.begin(), order_.end(),
                     [&key](int a, int b) { return key(a) < key(b); });
    const auto size = order_.size();
    chosen_.assign(size, 0);
    places_.resize(size);
    has_host_after_.assign(size + 1, false);
    for (std::size_t d = size; d-- > 0;) {
      has_host_after_[d] = has_host_after_[d + 1];
      for (const Step& step : steps_[order_[d]]) {
        has_host_after_[d] = has_host_after_[d] || step.spread == Spread::kHost;
      }
    }
    is_like_previous_.assign(size, false);
    for (std::size_t d = 1; d < size; ++d) {
      is_like_previous_[d] = are_equal(order_[d - 1], order_[d]);
    }
    // Least work of units d.. whose pieces fit a room, by the sizes where it changes.
    for (const std::vector<Step>& steps : steps_) {
      for (const Step& step : steps) sizes_.push_back(step.peak);
    }
    std::sort(sizes_.begin(), sizes_.end());
    sizes_.erase(std::unique(sizes_.begin(), sizes_.end()), sizes_.end());
    rest_.assign(size + 1, std::vector<std::int64_t>(sizes_.size(), 0));
    for (std::size_t d = size; d-- > 0;) {
      for (std::size_t k = 0; k < sizes_.size(); ++k) {
        std::int64_t least = kNever;
        for (const Step& step : steps_[order_[d]]) {
          if (step.peak <= sizes_[k]) least = std::min(least, step.work);
        }
        rest_[d][k] = std::min(rest_[d + 1][k] + least, kNever);
      }
    }
  }

  bool are_equal(int a, int b) const {
    const std::vector<Step>& x = steps_[a];
    const std::vector<Step>& y = steps_[b];
    if (x.size() != y.size()) return false;
    for (std::size_t i = 0; i < x.size(); ++i) {
      if (x[i].spread != y[i].spread || x[i].num_pieces != y[i].num_pieces ||
          x[i].work != y[i].work || x[i].peak != y[i].peak) {
        return false;
      }
      for (int piece = 0; piece < std::max(x[i].num_pieces, 1); ++piece) {
        if (piece_load(x[i], piece) != piece_load(y[i], piece)) return false;
        if (!options_.relaxes_memory && piece_bytes(x[i], piece) != piece_bytes(y[i], piece)) {
          return false;
        }
      }
    }
    return true;
  }

  // Can units d.. still be placed, going by sums?
  bool is_hopeless(std::size_t d) const {
    if (uniform_ + largest_ > kScale) return true;
    if (!options_.uses_mean_rule) return false;
    const std::int64_t least = *std::min_element(load_.begin(), load_.end());
    const std::int64_t room = kScale - uniform_ - least;
    const auto end = std::upper_bound(sizes_.begin(), sizes_.end(), room);
    const std::int64_t rest = d == order_.size()      ? 0
                              : end == sizes_.begin() ? kNever
                                                      : rest_[d][end - sizes_.begin() - 1];
    return items_.num_ranks * uniform_ + sum_ + rest > items_.num_ranks * kScale;
  }

  // Both return whether the subtree was searched to its end; false also once a placement is found.
  bool place_unit(std::size_t d) {
    if (num_nodes_ >= options_.max_nodes) return false;
    ++num_nodes_;
    if (num_nodes_ % 4096 == 0 && clock_.spend(4096)) {
      num_nodes_ = std::max(num_nodes_, options_.max_nodes);
      return false;
    }
    if (is_hopeless(d)) return true;
    if (d == order_.size()) {
      keep();
      return false;
    }
    const std::vector<Step>& steps = steps_[order_[d]];
    const bool is_ordered = options_.uses_unit_symmetry && is_like_previous_[d];
    for (int s = is_ordered ? chosen_[d - 1] : 0; s < static_cast<int>(steps.size()); ++s) {
      chosen_[d] = s;
      if (!place_step(d, steps[s])) return false;
    }
    return true;
  }

  bool place_step(std::size_t d, const Step& step) {
    if (step.spread != Spread::kUniform) {
      if (uniform_ + step.peak > kScale) return true;
      places_[d].clear();
      return place_piece(d, step, 0);
    }
    const TierBytes& bytes = piece_bytes(step, 0);
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
    const bool is_block = step.spread == Spread::kHost;
    const int end = is_block ? items_.num_hosts : items_.num_ranks;
    const std::int64_t load = piece_load(step, piece);
    const TierBytes& bytes = piece_bytes(step, piece);
    // Least loaded first: what is tried first balances.
    std::vector<std::pair<std::int64_t, int>> tried;
    for (int place = 0; place < end; ++place) {
      const std::int64_t height = is_block ? host_height(place) : load_[place];
      if (uniform_ + height + load > kScale) continue;
      if (is_block ? !host_fits(place, bytes) : !fits(place, bytes)) continue;
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
      const bool is_done = place_piece(d, step, piece + 1);
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

  static void add_bytes(TierBytes& sum, const TierBytes& bytes, int sign) {
    for (int t = 0; t < kNumTiers; ++t) sum[t] += sign * bytes[t];
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

  bool are_alike(int a, int b) const {
    return load_[a] == load_[b] && kind_[a] == kind_[b] &&
           (options_.relaxes_memory || bytes_[a] == bytes_[b]);
  }

  // Hosts hold the same ranks in some order.
  bool are_hosts_alike(int a, int b) const {
    const int first_a = a * items_.width;
    const int first_b = b * items_.width;
    std::uint64_t used = 0;
    if (items_.width > 64) return false;
    for (int i = 0; i < items_.width; ++i) {
      bool is_matched = false;
      for (int j = 0; j < items_.width && !is_matched; ++j) {
        if ((used >> j & 1) != 0 || !are_alike(first_a + i, first_b + j)) continue;
        used |= std::uint64_t{1} << j;
        is_matched = true;
      }
      if (!is_matched) return false;
    }
    return true;
  }

  // Has an earlier place been tried that a permutation turns this one into?
  bool is_repeated(std::size_t d, int place, bool is_block) const {
    const auto is_host_repeated = [this](int host) {
      for (int other = 0; other < host; ++other) {
        if (are_hosts_alike(other, host)) return true;
      }
      return false;
    };
    if (is_block) return is_host_repeated(place);
    // Blocks still to come, of this unit's later choices too, tell hosts apart.
    const bool are_hosts_apart = has_host_after_[d + 1];
    const int host = place < num_host_ranks_ ? place / items_.width : -1;
    const int first = are_hosts_apart && host >= 0 ? host * items_.width : 0;
    for (int other = first; other < place; ++other) {
      if (are_alike(other, place)) return true;
    }
    return are_hosts_apart && host > 0 && is_host_repeated(host);
  }

  void keep() {
    is_found_ = true;
    found_.units.resize(order_.size());
    for (std::size_t d = 0; d < order_.size(); ++d) {
      const int unit = order_[d];
      const Step& step = steps_[unit][chosen_[d]];
      UnitPlacement& placement = found_.units[unit];
      placement.choice = items_.choices[step.choice].index;
      if (step.spread != Spread::kUniform) placement.slots = places_[d];
    }
  }

  static constexpr std::int64_t kNever = std::int64_t{1} << 61;

  const PlacementItems& items_;
  const DiveOptions& options_;
  EffortClock& clock_;
  double to_whole_ = 0;
  int num_host_ranks_ = 0;
  std::vector<int> kind_;                        // [num_ranks] first rank with equal caps
  std::vector<std::vector<Step>> steps_;         // [num_units]
  std::vector<int> order_;                       // units
  std::vector<bool> has_host_after_;             // [depth] from this unit on
  std::vector<bool> is_like_previous_;           // [depth]
  std::vector<std::int64_t> sizes_;              // ascending
  std::vector<std::vector<std::int64_t>> rest_;  // [depth][sizes]
  std::int64_t forced_ = 0;
  std::vector<int> chosen_;               // [depth]
  std::vector<std::vector<int>> places_;  // [depth]
  std::vector<std::int64_t> load_;        // [num_ranks] without uniform loads
  std::vector<TierBytes> bytes_;          // likewise
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

}  // namespace plimsoll::solve
