#include "balance/moves/replica_exchange.h"

#include <algorithm>
#include <cmath>
#include <utility>
#include <vector>

#include "balance/moves/over_placement.h"
#include "core/check.h"
#include "core/random.h"

namespace plimsoll::balance {
namespace {

using Choice = PlacementItems::Choice;

// One walk: a placement, and moves that keep it where they are turned down.
class Replica {
 public:
  Replica(const PlacementItems& items, const ReplicaOptions& options, std::uint64_t seed)
      : items_(items), placement_(items, options.byte_price), random_(seed) {
    open_.resize(static_cast<std::size_t>(items.num_units));
  }

  OverPlacement& placement() { return placement_; }
  double energy() const { return placement_.energy(); }

  // From here on no choice is taken a piece of which alone is not below `most`.
  void aim(double target, double most) {
    placement_.aim(target);
    changeable_.clear();
    for (int unit = 0; unit < items_.num_units; ++unit) {
      open_[unit].clear();
      for (int c = items_.first_choice[unit]; c < items_.first_choice[unit + 1]; ++c) {
        if (items_.choices[c].peak < most && !is_needless(unit, c)) open_[unit].push_back(c);
      }
      if (open_[unit].empty()) open_[unit].push_back(items_.first_choice[unit]);
      if (open_[unit].size() > 1) changeable_.push_back(unit);
    }
    std::stable_sort(changeable_.begin(), changeable_.end(), [this](int a, int b) {
      return placement_.priced(open_[a].front()) > placement_.priced(open_[b].front());
    });
  }

  // Every unit's choice of the guide, else of least price, what is large first.
  void construct(const std::vector<int>& guide) {
    std::vector<std::pair<double, int>> order;
    std::vector<int> best(open_.size());
    for (int unit = 0; unit < items_.num_units; ++unit) {
      best[unit] = *std::min_element(open_[unit].begin(), open_[unit].end(), [this](int a, int b) {
        return placement_.priced(a) < placement_.priced(b);
      });
      if (!guide.empty()) {
        const int guided = items_.find_choice(unit, guide[unit]);
        const bool is_open =
            std::find(open_[unit].begin(), open_[unit].end(), guided) != open_[unit].end();
        if (is_open) best[unit] = guided;
      }
      const Choice& choice = items_.choices[best[unit]];
      const bool is_uniform = choice.spread == Spread::kUniform;
      order.emplace_back(is_uniform ? -kInfinity : -placement_.priced(best[unit]), unit);
    }
    std::sort(order.begin(), order.end());
    for (const auto& [key, unit] : order) insert(unit, best[unit]);
  }

  // One move, drawn; was it made?
  bool propose(double temperature) {
    const int kind = random_.below(100);
    if (kind < 25) return relocate(temperature);
    if (kind < 45) return swap_pieces(temperature);
    if (kind < 50 && items_.num_hosts > 1) return move_block(temperature);
    return change(kind < 70 ? 2 : 1, temperature);
  }

 private:
  struct Before {
    int unit = -1, choice = -1;
    std::vector<int> places;
  };

  // On one host blocks are a uniform choice, perhaps one that is there already.
  bool is_needless(int unit, int c) const {
    const Choice& choice = items_.choices[c];
    if (choice.spread != Spread::kHost || items_.num_hosts > 1 || choice.num_records > 1) {
      return false;
    }
    const int first = items_.first_choice[unit];
    const int end = items_.first_choice[unit + 1];
    return std::any_of(&items_.choices[first], items_.choices.data() + end, [&](const Choice& one) {
      if (one.spread != Spread::kUniform) return false;
      const Amounts& bytes = items_.bytes[one.first_record];
      Amounts most{};
      most.add(items_.bytes[choice.first_record], choice.num_pieces);
      return one.peak <= choice.num_pieces * choice.peak && bytes.is_at_most(most);
    });
  }

  bool is_accepted(double more, double temperature) {
    return more <= 0 || random_.unit() < std::exp(-more / temperature);
  }

  int draw(const std::vector<int>& list) {
    return list[random_.below(static_cast<int>(list.size()))];
  }

  // Half of the time one of the third that costs most: what is large decides.
  int draw_unit() {
    const auto count = static_cast<int>(changeable_.size());
    return changeable_[random_.below(random_.below(2) == 0 ? count : (count + 2) / 3)];
  }

  // Of three, the one with the most overdrawn, or the least.
  int draw_rank(bool wants_overdrawn) {
    int best = random_.below(items_.num_ranks);
    for (int i = 0; i < 2; ++i) {
      const int rank = random_.below(items_.num_ranks);
      const bool is_more = placement_.over(rank) > placement_.over(best);
      const bool is_less = placement_.over(rank) < placement_.over(best);
      if (wants_overdrawn ? is_more : is_less) best = rank;
    }
    return best;
  }

  bool relocate(double temperature) {
    const int from = draw_rank(true);
    const int to = draw_rank(false);
    if (from == to || placement_.slots_on_rank(from).empty()) return false;
    return move(draw(placement_.slots_on_rank(from)), to, temperature);
  }

  bool move(int slot, int to, double temperature) {
    if (!is_accepted(placement_.growth_of_move(slot, to), temperature)) return false;
    placement_.move(slot, to);
    return true;
  }

  bool swap_pieces(double temperature) {
    const int a = draw_rank(true);
    const int b = random_.below(items_.num_ranks);
    if (a == b || placement_.slots_on_rank(a).empty() || placement_.slots_on_rank(b).empty()) {
      return false;
    }
    return swap(draw(placement_.slots_on_rank(a)), a, draw(placement_.slots_on_rank(b)), b,
                temperature);
  }

  bool swap(int slot_a, int a, int slot_b, int b, double temperature) {
    if (!is_accepted(placement_.growth_of_swap(slot_a, slot_b), temperature)) return false;
    placement_.move(slot_a, b);
    placement_.move(slot_b, a);
    return true;
  }

  bool move_block(double temperature) {
    const int from = random_.below(items_.num_hosts);
    const int to = random_.below(items_.num_hosts);
    if (from == to || placement_.slots_on_host(from).empty()) return false;
    const int slot = draw(placement_.slots_on_host(from));
    const std::vector<int>& others = placement_.slots_on_host(to);
    if (!others.empty() && random_.below(2) == 0) {
      return swap(slot, from, draw(others), to, temperature);
    }
    return move(slot, to, temperature);
  }

  bool change(int num_changes, double temperature) {
    if (changeable_.empty()) return false;
    const double before = energy();
    int count = 0;
    int choices[2] = {-1, -1};
    for (; count < num_changes; ++count) {
      const int unit = draw_unit();
      if (count == 1 && unit == before_[0].unit) break;
      choices[count] = draw(open_[unit]);
      const bool is_same = choices[count] == placement_.choice(unit);
      if (is_same && items_.choices[choices[count]].spread == Spread::kUniform) break;
      lift(unit, before_[count]);
    }
    if (count == 0) return false;
    for (int i = 0; i < count; ++i) insert(before_[i].unit, choices[i]);
    if (is_accepted(energy() - before, temperature)) return true;
    for (int i = 0; i < count; ++i) placement_.remove(before_[i].unit);
    for (int i = 0; i < count; ++i) restore(before_[i]);
    return false;
  }

  void lift(int unit, Before& before) {
    before.unit = unit;
    before.choice = placement_.choice(unit);
    before.places.clear();
    for (int i = 0; i < items_.choices[before.choice].num_pieces; ++i) {
      before.places.push_back(placement_.place(items_.first_slot[unit] + i));
    }
    placement_.remove(unit);
  }

  void restore(const Before& before) {
    placement_.take(before.unit, before.choice);
    for (std::size_t i = 0; i < before.places.size(); ++i) {
      placement_.put(before.unit, static_cast<int>(i), before.places[i]);
    }
  }

  void insert(int unit, int c) {
    placement_.take(unit, c);
    const Choice& choice = items_.choices[c];
    for (int piece = 0; piece < choice.num_pieces; ++piece) {
      placement_.put(unit, piece, find_place(c, piece));
    }
  }

  // Where the energy grows least, of all places or a sample.
  int find_place(int c, int piece) {
    const bool is_host = items_.choices[c].spread == Spread::kHost;
    const int end = is_host ? items_.num_hosts : items_.num_ranks;
    const int most = is_host ? 7 : 24;
    int best = -1;
    double least = kInfinity;
    for (int i = 0; i < std::min(end, most); ++i) {
      const int place = end > most ? random_.below(end) : i;
      const double growth = placement_.growth(c, piece, place);
      if (best < 0 || growth < least) best = place, least = growth;
    }
    return best;
  }

  const PlacementItems& items_;
  OverPlacement placement_;
  SplitMix64 random_;
  std::vector<std::vector<int>> open_;  // [units] choices that may be taken
  std::vector<int> changeable_;         // units of more than one, by falling price of the first
  Before before_[2];
};

class Ladder {
 public:
  Ladder(const PlacementItems& items, const ReplicaOptions& options, EffortClock& clock,
         const ImproveFound& improve)
      : options_(options), clock_(clock), improve_(improve), random_(options.seed) {
    best_ = options.incumbent;
    for (int k = 0; k < kReplicas; ++k) {
      const double share = static_cast<double>(k) / (kReplicas - 1);
      temperature_.push_back(kCold * std::pow(kHot / kCold, share));
      replicas_.emplace_back(items, options, random_.next());
      order_.push_back(k);
    }
  }

  std::optional<UnitPlacements> run() {
    constexpr int kPatience = 80;  // sweeps without reaching the target
    constexpr int kShort = 10;     // as long as there is no placement
    constexpr double kFirst = 8, kGrowth = 2;
    target_ = kFirst * options_.lower_bound;
    if (best_ < kInfinity) target_ = std::min(target_, target_at(kFarthest));
    aim();
    for (std::size_t k = 0; k < replicas_.size(); ++k) {
      const auto& guides = options_.guides;
      const bool is_guided = !guides.empty() && k % 2 == 1;
      replicas_[k].construct(is_guided ? guides[k / 2 % guides.size()] : std::vector<int>{});
    }
    double share = kFarthest;
    int num_failures = 0;
    while (!is_done()) {
      if (sweep()) {
        num_failures = 0;
        share = std::max(kFarthest, share - .1);
      } else if (++num_failures >= (best_ < kInfinity ? kPatience : kShort)) {
        num_failures = 0;
        improve();
        share = std::min(.98, share + .3 * (1 - share));
        if (best_ == kInfinity) target_ *= kGrowth;
      } else {
        continue;
      }
      if (best_ < kInfinity) target_ = target_at(share);
      aim();
    }
    return std::move(found_);
  }

 private:
  static constexpr int kReplicas = 12;
  static constexpr int kMovesASweep = 500;  // of a replica
  static constexpr double kCold = 1e-3, kHot = 1;
  static constexpr double kFarthest = .6;  // of the gap

  // Moves, but where one changes very many ranks as many as it costs.
  static std::int64_t effort_of(std::int64_t num_updates) {
    constexpr std::int64_t kUpdatesAMove = 48;
    return std::max<std::int64_t>(kMovesASweep, num_updates / kUpdatesAMove);
  }

  bool is_done() const {
    return effort_ >= options_.max_moves || clock_.is_stopped() ||
           best_ <= options_.lower_bound * (1 + options_.tolerance);
  }

  double target_at(double share) const {
    return options_.lower_bound + share * (best_ - options_.lower_bound);
  }

  void improve() {
    if (!is_new_ || !improve_) return;
    is_new_ = false;
    best_ = std::min(best_, improve_(*found_));
  }

  void aim() {
    for (Replica& replica : replicas_) replica.aim(target_, best_);
  }

  // Moves of every replica, then the exchanges; was the target reached?
  bool sweep() {
    bool has_reached = false;
    for (std::size_t k = 0; k < order_.size() && !has_reached; ++k) {
      Replica& replica = replicas_[order_[k]];
      replica.placement().refresh();
      const std::int64_t before = replica.placement().num_updates();
      for (int i = 0; i < kMovesASweep && !has_reached; ++i) {
        has_reached = replica.propose(temperature_[k]) && replica.placement().is_within_caps() &&
                      keep(replica.placement());
      }
      const std::int64_t effort = effort_of(replica.placement().num_updates() - before);
      effort_ += effort;
      if (clock_.spend(effort)) return has_reached;
    }
    for (std::size_t k = 0; k + 1 < order_.size(); ++k) {
      const double warmer = replicas_[order_[k + 1]].energy();
      const double gain = (replicas_[order_[k]].energy() - warmer) *
                          (1 / temperature_[k] - 1 / temperature_[k + 1]);
      if (gain >= 0 || random_.unit() < std::exp(gain)) std::swap(order_[k], order_[k + 1]);
    }
    return has_reached;
  }

  // Keeps what is better than the incumbent; is it within the target?
  bool keep(OverPlacement& placement) {
    constexpr double kWorthKeeping = 1e-6;
    if (placement.slowest() >= best_ * (1 - kWorthKeeping)) return false;
    placement.refresh();
    best_ = placement.slowest();
    found_ = placement.placements();
    is_new_ = true;
    return best_ <= target_;
  }

  const ReplicaOptions& options_;
  EffortClock& clock_;
  const ImproveFound& improve_;
  SplitMix64 random_;
  std::vector<Replica> replicas_;
  std::vector<int> order_;  // of replicas, the coldest first
  std::vector<double> temperature_;
  double best_ = kInfinity, target_ = 0;
  std::optional<UnitPlacements> found_;
  bool is_new_ = false;  // since `improve`
  std::int64_t effort_ = 0;
};

}  // namespace

bool is_overdrawable(const PlacementItems& items) {
  const PlacementProblem& problem = *items.problem;
  return items.stride == 1 && items.empty_units.empty() && problem.apart.empty() &&
         std::none_of(items.resources.begin(), items.resources.end(),
                      [&](int resource) { return problem.resources[resource].is_pooled; }) &&
         std::all_of(problem.units.begin(), problem.units.end(),
                     [](const Unit& unit) { return unit.allowed_ranks.empty(); }) &&
         std::none_of(items.choices.begin(), items.choices.end(),
                      [](const Choice& choice) { return choice.distinct_ranks; });
}

std::optional<UnitPlacements> exchange_replicas(const PlacementItems& items,
                                                const ReplicaOptions& options, EffortClock& clock,
                                                const ImproveFound& improve) {
  PLIMSOLL_CHECK(items.empty_units.empty(), "every unit has a choice");
  PLIMSOLL_DCHECK(is_overdrawable(items), "the items can be overdrawn");
  if (items.num_units == 0) return std::nullopt;
  return Ladder(items, options, clock, improve).run();
}

}  // namespace plimsoll::balance
