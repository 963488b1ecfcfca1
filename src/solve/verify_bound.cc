#include "plimsoll/solve/verify_bound.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <numeric>
#include <utility>

namespace plimsoll::solve {
namespace {

constexpr double kSafety = 1e-10;     // of sizes in cells
constexpr double kShrink = 1 - 1e-9;  // of sizes under dual feasible functions
constexpr double kPourShare = 1.0 / 512;

// Ranks that differ in nothing the theorems look at; checking one of them checks all.
struct Profile {
  int rank = 0;  // the first
  double count = 0;
};

// Where all ranks are one host, blocks are uniform: n of them, n times as large.
PlacementProblem without_blocks_of_all(PlacementProblem problem) {
  if (problem.num_hosts() != 1 || problem.ranks_per_host != problem.num_ranks) return problem;
  for (Unit& unit : problem.units) {
    for (UnitChoice& choice : unit.choices) {
      if (choice.spread != Spread::kHost) continue;
      choice.spread = Spread::kUniform;
      for (PieceRun& run : choice.runs) {
        for (double& load : run.load) load *= static_cast<double>(choice.num_blocks);
        for (Bytes& bytes : run.bytes) bytes *= choice.num_blocks;
      }
      choice.num_blocks = 1;
    }
  }
  return problem;
}

bool is_no_heavier(const PieceRun& a, const PieceRun& b) {
  return std::equal(a.load.begin(), a.load.end(), b.load.begin(), b.load.end(),
                    [](double x, double y) { return x <= y; }) &&
         std::equal(a.bytes.begin(), a.bytes.end(), b.bytes.begin(),
                    [](Bytes x, Bytes y) { return x <= y; });
}

// Could `by` stand wherever the choice stands, piece by piece no heavier, for no further cause?
bool can_replace(const UnitChoice& by, const UnitChoice& choice) {
  if (by.spread != choice.spread || by.num_blocks != choice.num_blocks ||
      !std::includes(choice.causes.begin(), choice.causes.end(), by.causes.begin(),
                     by.causes.end())) {
    return false;
  }
  std::size_t i = 0;
  std::size_t j = 0;
  std::int64_t done_i = 0;  // pieces of the run at hand
  std::int64_t done_j = 0;
  while (i < by.runs.size() && j < choice.runs.size()) {
    if (!is_no_heavier(by.runs[i], choice.runs[j])) return false;
    const std::int64_t step = std::min(by.runs[i].count - done_i, choice.runs[j].count - done_j);
    done_i += step;
    done_j += step;
    if (done_i == by.runs[i].count) ++i, done_i = 0;
    if (done_j == choice.runs[j].count) ++j, done_j = 0;
  }
  return i == by.runs.size() && j == choice.runs.size();
}

// A choice that another can replace is in no better placement, and bounds by contents are lower
// with it: a unit could fill a rank twice.
PlacementProblem without_replaceable(PlacementProblem problem) {
  for (Unit& unit : problem.units) {
    std::vector<UnitChoice> kept;
    for (UnitChoice& choice : unit.choices) {
      const auto beats = [&](const UnitChoice& other) { return can_replace(other, choice); };
      if (std::any_of(kept.begin(), kept.end(), beats)) continue;
      std::erase_if(kept, [&](const UnitChoice& other) { return can_replace(choice, other); });
      kept.push_back(std::move(choice));
    }
    unit.choices = std::move(kept);
  }
  return problem;
}

struct Floor {
  double load = 0;
  TierBytes bytes{};
  bool operator==(const Floor&) const = default;
};

class Verifier {
 public:
  Verifier(const PlacementProblem& problem, const PlacementBound& bound)
      : problem_(without_replaceable(without_blocks_of_all(problem))), bound_(bound) {}

  BoundVerdict verify() {
    verdict_.value = kInfinity;
    if (!is_well_formed()) return refuse("the kinds of ranks do not fit the problem");
    find_profiles();
    if (!covers(0, 0)) return refuse("the cases leave placements out");
    for (const BoundCase& c : bound_.cases) {
      const double value = base(c) + value_of(c);
      verdict_.value = std::min(verdict_.value, value);
    }
    if (!verdict_.fault.empty()) return refuse(verdict_.fault);
    if (std::isnan(verdict_.value)) return refuse("the witness holds numbers that are none");
    verdict_.holds = verdict_.value >= bound_.value * (1 - 1e-7);
    if (!verdict_.holds) verdict_.fault = "the witness proves less";
    return verdict_;
  }

 private:
  BoundVerdict refuse(std::string fault) { return {false, -kInfinity, std::move(fault)}; }
  void find(std::string fault) {
    if (verdict_.fault.empty()) verdict_.fault = std::move(fault);
  }

  bool is_well_formed() {
    if (bound_.kind_of_rank.size() != static_cast<std::size_t>(problem_.num_ranks)) return false;
    for (const int kind : bound_.kind_of_rank) {
      if (kind < 0 || kind >= problem_.num_ranks) return false;
      num_kinds_ = std::max(num_kinds_, kind + 1);
    }
    return true;
  }

  int host_of(int rank) const {
    const int host = rank / problem_.ranks_per_host;
    return host < problem_.num_hosts() ? host : -1;
  }

  // What a rank may hold of a tier: its own cap or its pool's.
  Bytes room_of(int rank, int tier) const {
    const int host = host_of(rank);
    if (!problem_.is_pooled[tier] || host < 0) return problem_.caps[rank][tier];
    Bytes sum = 0;
    for (int r = host * problem_.ranks_per_host; r < (host + 1) * problem_.ranks_per_host; ++r) {
      sum += problem_.caps[r][tier];
    }
    return sum;
  }

  void find_profiles() {
    std::map<std::vector<std::int64_t>, int> known;
    for (int rank = 0; rank < problem_.num_ranks; ++rank) {
      std::vector<std::int64_t> key = {bound_.kind_of_rank[rank], problem_.class_of(rank),
                                       host_of(rank) < 0 ? 0 : 1};
      for (int tier = 0; tier < kNumTiers; ++tier) key.push_back(room_of(rank, tier));
      const auto [at, is_new] = known.emplace(std::move(key), static_cast<int>(profiles_.size()));
      if (is_new) profiles_.push_back({rank, 0});
      profiles_[at->second].count += 1;
      profile_of_.push_back(at->second);
    }
    std::map<std::vector<int>, std::size_t> known_hosts;
    for (int host = 0; host < problem_.num_hosts(); ++host) {
      const auto first =
          profile_of_.begin() + static_cast<std::ptrdiff_t>(host) * problem_.ranks_per_host;
      const auto [at, is_new] = known_hosts.emplace(
          std::vector<int>(first, first + problem_.ranks_per_host), hosts_.size());
      if (is_new) hosts_.push_back({host, 0});
      hosts_[at->second].count += 1;
      profile_of_host_.push_back(static_cast<int>(at->second));
    }
  }

  // Do the cases leave no set of causes out? Decide causes one by one while cases differ.
  bool covers(std::uint64_t paid, std::uint64_t forbidden) const {
    // A case covers every set within which it forbids nothing that may be present; what it pays
    // for must be present.
    int cause = -1;
    for (const BoundCase& c : bound_.cases) {
      if ((c.forbidden & paid) != 0 || (c.paid & forbidden) != 0) continue;
      const std::uint64_t open = (c.forbidden & ~forbidden) | (c.paid & ~paid);
      if (open == 0) return true;
      for (int i = 0; i < 64 && cause < 0; ++i) {
        if ((open >> i & 1) != 0) cause = i;
      }
    }
    if (cause < 0) return false;
    const std::uint64_t bit = std::uint64_t{1} << cause;
    return covers(paid | bit, forbidden) && covers(paid, forbidden | bit);
  }

  double base(const BoundCase& c) const {
    double sum = problem_.floor_ms;
    for (std::size_t i = 0; i < problem_.charges.size() && i < 64; ++i) {
      if ((c.paid >> i & 1) != 0) sum += problem_.charges[i];
    }
    return sum;
  }

  double value_of(const BoundCase& c) {
    forbidden_ = c.forbidden;
    switch (c.method) {
      case BoundMethod::kNone:
        return 0;
      case BoundMethod::kAverage:
      case BoundMethod::kFiltered: {
        if (c.method == BoundMethod::kAverage) {
          return filter(kInfinity) ? average_at(c.prices) : kInfinity;
        }
        // A placement of less than the target would have to cost more.
        const double target = c.prices.target * (1 - 1e-9);
        const bool is_refuted = !filter(target) || average_at(c.prices) > target ||
                                (!c.prices.weight.empty() && exceeds(c.prices.weight));
        return is_refuted ? target : 0;
      }
      case BoundMethod::kWindows:
      case BoundMethod::kPatterns:
      case BoundMethod::kBranched:
        if (!filter(c.windows.target)) return c.windows.target;
        return std::min(c.windows.target, windows_at(c.windows));
      case BoundMethod::kMemory:
        if (!filter(kInfinity)) return kInfinity;
        return exceeds(c.prices.weight) ? kInfinity : 0;
    }
    return 0;
  }

  const UnitChoice& choice_at(int unit, std::size_t choice) const {
    return problem_.units[unit].choices[choice];
  }

  double load_on(const PieceRun& run, int rank) const {
    const auto g = static_cast<std::size_t>(problem_.num_barriers);
    const auto first =
        run.load.begin() +
        static_cast<std::ptrdiff_t>(g * static_cast<std::size_t>(problem_.class_of(rank)));
    return std::accumulate(first, first + static_cast<std::ptrdiff_t>(g), 0.0);
  }

  bool is_allowed(int unit, int rank) const {
    const std::vector<int>& allowed = problem_.units[unit].allowed_ranks;
    return allowed.empty() || std::binary_search(allowed.begin(), allowed.end(), rank);
  }

  // Visits ranks that stand for all where a piece of the unit may be.
  template <class Visit>
  void for_ranks(int unit, const Visit& visit) const {
    if (problem_.units[unit].allowed_ranks.empty()) {
      for (const Profile& profile : profiles_) visit(profile.rank);
    } else {
      for (const int rank : problem_.units[unit].allowed_ranks) visit(rank);
    }
  }

  template <class Visit>
  void for_hosts(int unit, const Visit& visit) const {
    if (problem_.units[unit].allowed_ranks.empty()) {
      for (const Profile& host : hosts_) visit(host.rank);
      return;
    }
    for (int host = 0; host < problem_.num_hosts(); ++host) {
      bool is_open = true;
      for (int i = 0; i < problem_.ranks_per_host; ++i) {
        is_open &= is_allowed(unit, host * problem_.ranks_per_host + i);
      }
      if (is_open) visit(host);
    }
  }

  // Visits (run, rank) of pieces in a row from a rank on.
  template <class Visit>
  static void for_row(const UnitChoice& choice, int rank, const Visit& visit) {
    for (const PieceRun& run : choice.runs) {
      for (std::int64_t i = 0; i < run.count; ++i) visit(run, rank++);
    }
  }

  // Does a piece fit the rank, over what other units put there anyway?
  bool fits(int unit, const PieceRun& run, int rank) const {
    const int profile = profile_of_[rank];
    Floor floor = floor_[profile];
    if (!own_[unit].empty()) {
      floor.load -= own_[unit][profile].load;
      for (int tier = 0; tier < kNumTiers; ++tier) {
        floor.bytes[tier] -= own_[unit][profile].bytes[tier];
      }
    }
    if (load_on(run, rank) + floor.load > target_ * (1 + 1e-12)) return false;
    for (int tier = 0; tier < kNumTiers; ++tier) {
      if (run.bytes[tier] + floor.bytes[tier] > room_of_[profile][tier]) return false;
    }
    return true;
  }

  bool fits_row(int unit, const UnitChoice& choice, int first) const {
    bool is_open = true;
    TierBytes sum{};
    for_row(choice, first, [&](const PieceRun& run, int rank) {
      is_open = is_open && fits(unit, run, rank);
      for (int tier = 0; tier < kNumTiers; ++tier) sum[tier] += run.bytes[tier];
    });
    if (choice.spread == Spread::kUniform) return is_open;
    for (int tier = 0; tier < kNumTiers; ++tier) {
      if (problem_.is_pooled[tier] && sum[tier] > room_of_[profile_of_[first]][tier]) return false;
    }
    return is_open;
  }

  bool stands(int unit, const UnitChoice& choice) const {
    for (const int cause : choice.causes) {
      if (cause < 64 && (forbidden_ >> cause & 1) != 0) return false;
    }
    bool is_open = true;
    switch (choice.spread) {
      case Spread::kUniform:
        for (const std::vector<int>& set : problem_.apart) {
          if (set.size() > 1 && std::binary_search(set.begin(), set.end(), unit)) return false;
        }
        if (!problem_.units[unit].allowed_ranks.empty() &&
            static_cast<int>(problem_.units[unit].allowed_ranks.size()) < problem_.num_ranks) {
          return false;
        }
        return fits_row(unit, choice, 0);
      case Spread::kHost: {
        bool has_host = false;
        for_hosts(unit, [&](int host) {
          has_host = has_host || fits_row(unit, choice, host * problem_.ranks_per_host);
        });
        return has_host;
      }
      case Spread::kDevice:
        for (const PieceRun& run : choice.runs) {
          bool has_rank = false;
          for_ranks(unit, [&](int rank) { has_rank = has_rank || fits(unit, run, rank); });
          is_open &= has_rank;
        }
        return is_open;
    }
    return false;
  }

  // What a placement of at most `target` may use; false: there is none.
  bool filter(double target) {
    target_ = target;
    alive_.clear();
    for (const Unit& unit : problem_.units) alive_.emplace_back(unit.choices.size(), 1);
    own_.assign(problem_.units.size(), {});
    floor_.assign(profiles_.size(), {});
    room_of_.clear();
    for (const Profile& profile : profiles_) {
      TierBytes room{};
      for (int tier = 0; tier < kNumTiers; ++tier) room[tier] = room_of(profile.rank, tier);
      room_of_.push_back(room);
    }
    for (bool has_changed = true; has_changed;) {
      has_changed = false;
      for (int unit = 0; unit < problem_.num_units(); ++unit) {
        bool has_choice = false;
        for (std::size_t c = 0; c < alive_[unit].size(); ++c) {
          if (alive_[unit][c] && !stands(unit, choice_at(unit, c))) {
            alive_[unit][c] = 0;
            has_changed = true;
          }
          has_choice |= alive_[unit][c] != 0;
        }
        if (!has_choice) return false;
      }
      const std::vector<Floor> before = floor_;
      raise_floors();
      has_changed |= before != floor_;
    }
    return true;
  }

  // What units with uniform choices alone put on every rank of a profile at least.
  void raise_floors() {
    floor_.assign(profiles_.size(), {});
    for (int unit = 0; unit < problem_.num_units(); ++unit) {
      bool is_forced = true;
      for (std::size_t c = 0; c < alive_[unit].size(); ++c) {
        is_forced &= !alive_[unit][c] || choice_at(unit, c).spread == Spread::kUniform;
      }
      if (!is_forced) continue;
      own_[unit].assign(profiles_.size(), {kInfinity, {INT64_MAX, INT64_MAX, INT64_MAX}});
      for (std::size_t c = 0; c < alive_[unit].size(); ++c) {
        if (!alive_[unit][c]) continue;
        for_row(choice_at(unit, c), 0, [&](const PieceRun& run, int rank) {
          Floor& own = own_[unit][profile_of_[rank]];
          own.load = std::min(own.load, load_on(run, rank));
          for (int tier = 0; tier < kNumTiers; ++tier) {
            own.bytes[tier] = std::min(own.bytes[tier], run.bytes[tier]);
          }
        });
      }
      for (std::size_t profile = 0; profile < profiles_.size(); ++profile) {
        floor_[profile].load += own_[unit][profile].load;
        for (int tier = 0; tier < kNumTiers; ++tier) {
          floor_[profile].bytes[tier] += own_[unit][profile].bytes[tier];
        }
      }
    }
  }

  double price_of(const std::vector<double>& price, int rank, int tier) const {
    return price.empty() ? 0
                         : price[static_cast<std::size_t>(bound_.kind_of_rank[rank]) * kNumTiers +
                                 static_cast<std::size_t>(tier)];
  }

  // Not negative, as many as kinds and tiers, one a pool.
  template <class Number>
  bool are_prices(const std::vector<Number>& price) {
    const std::size_t wanted = static_cast<std::size_t>(num_kinds_) * kNumTiers;
    if (price.size() != wanted ||
        !std::all_of(price.begin(), price.end(), [](Number p) { return p >= 0; })) {
      find("prices of bytes are missing or negative");
      return false;
    }
    for (int tier = 0; tier < kNumTiers; ++tier) {
      if (!problem_.is_pooled[tier]) continue;
      for (int rank = 0; rank < problem_.num_ranks; ++rank) {
        const int host = host_of(rank);
        if (host < 0) continue;
        const auto at = [&](int r) {
          return price[static_cast<std::size_t>(bound_.kind_of_rank[r]) * kNumTiers +
                       static_cast<std::size_t>(tier)];
        };
        if (at(rank) != at(host * problem_.ranks_per_host)) {
          find("the price of a pool differs between its ranks");
          return false;
        }
      }
    }
    return true;
  }

  // Least cost of a choice where a piece costs cost(run, rank).
  template <class Sum, class Cost>
  Sum least_cost(int unit, const UnitChoice& choice, const Cost& cost) const {
    Sum sum = 0;
    const auto lower = [](Sum& least, bool& is_first, Sum value) {
      least = is_first || value < least ? value : least;
      is_first = false;
    };
    switch (choice.spread) {
      case Spread::kUniform:
        for_row(choice, 0, [&](const PieceRun& run, int rank) { sum += cost(run, rank); });
        break;
      case Spread::kHost: {
        Sum least = 0;
        bool is_first = true;
        for_hosts(unit, [&](int host) {
          if (!fits_row(unit, choice, host * problem_.ranks_per_host)) return;
          Sum block = 0;
          for_row(choice, host * problem_.ranks_per_host,
                  [&](const PieceRun& run, int rank) { block += cost(run, rank); });
          lower(least, is_first, block);
        });
        sum = least * static_cast<Sum>(choice.num_blocks);
        break;
      }
      case Spread::kDevice:
        for (const PieceRun& run : choice.runs) {
          Sum least = 0;
          bool is_first = true;
          for_ranks(unit, [&](int rank) {
            if (fits(unit, run, rank)) lower(least, is_first, cost(run, rank));
          });
          sum += least * static_cast<Sum>(run.count);
        }
        break;
    }
    return sum;
  }

  template <class Sum, class Cost>
  Sum least_of_all(const Cost& cost) const {
    Sum sum = 0;
    for (int unit = 0; unit < problem_.num_units(); ++unit) {
      Sum least = 0;
      bool is_first = true;
      for (std::size_t c = 0; c < alive_[unit].size(); ++c) {
        if (!alive_[unit][c]) continue;
        const Sum value = least_cost<Sum>(unit, choice_at(unit, c), cost);
        least = is_first || value < least ? value : least;
        is_first = false;
      }
      sum += least;
    }
    return sum;
  }

  double average_at(const PriceWitness& witness) {
    if (witness.theta.size() != static_cast<std::size_t>(num_kinds_) ||
        !are_prices(witness.price)) {
      find("weights of ranks are missing");
      return -kInfinity;
    }
    double total = 0;
    double paid = 0;
    for (int rank = 0; rank < problem_.num_ranks; ++rank) {
      const double theta = witness.theta[bound_.kind_of_rank[rank]];
      if (!(theta >= 0)) find("a negative weight of a rank");
      total += theta;
      for (int tier = 0; tier < kNumTiers; ++tier) {
        paid +=
            price_of(witness.price, rank, tier) * static_cast<double>(problem_.caps[rank][tier]);
      }
    }
    const double sum = least_of_all<double>([&](const PieceRun& run, int rank) {
      double cost = witness.theta[bound_.kind_of_rank[rank]] * load_on(run, rank);
      for (int tier = 0; tier < kNumTiers; ++tier) {
        cost += price_of(witness.price, rank, tier) * static_cast<double>(run.bytes[tier]);
      }
      return cost;
    });
    return (sum - paid) / total;
  }

  bool exceeds(const std::vector<std::int64_t>& weight) {
    if (!are_prices(weight)) return false;
    const auto weigh = [&](int rank, const TierBytes& bytes) {
      Int128 sum = 0;
      for (int tier = 0; tier < kNumTiers; ++tier) {
        sum += Int128{weight[static_cast<std::size_t>(bound_.kind_of_rank[rank]) * kNumTiers +
                             static_cast<std::size_t>(tier)]} *
               bytes[tier];
      }
      return sum;
    };
    Int128 caps = 0;
    for (int rank = 0; rank < problem_.num_ranks; ++rank) caps += weigh(rank, problem_.caps[rank]);
    return least_of_all<Int128>(
               [&](const PieceRun& run, int rank) { return weigh(rank, run.bytes); }) > caps;
  }

  double windows_at(const WindowWitness& witness) {
    if (witness.class_of_unit.size() != problem_.units.size() || witness.nodes.empty() ||
        !(witness.top >= witness.target)) {
      find("the windows do not fit the problem");
      return -kInfinity;
    }
    num_classes_ = 1;
    for (const int c : witness.class_of_unit) {
      if (c < 0) find("a class that is none");
      num_classes_ = std::max(num_classes_, c + 1);
    }
    proved_.clear();
    Box box{0, witness.top, std::vector<double>(num_classes_, 0),
            std::vector<double>(num_classes_, kInfinity)};
    return std::min(witness.top, descend(witness, 0, box));
  }

  struct Box {
    double low = 0, high = 0;
    std::vector<double> lo, hi;  // [classes]
  };

  double descend(const WindowWitness& witness, int root, const Box& all) {
    double least = kInfinity;
    std::vector<std::pair<int, Box>> open = {{root, all}};
    while (!open.empty()) {
      auto [number, box] = std::move(open.back());
      open.pop_back();
      const WindowNode& node = witness.nodes[number];
      if (node.first_child < 0) {
        if (node.proof < 0 || node.proof >= static_cast<int>(witness.proofs.size()) ||
            !(witness.proofs[node.proof].room >= box.high)) {
          find("a window without its proof");
          return -kInfinity;
        }
        least = std::min(least, box.low + uniform_load(witness, node.proof, box));
        continue;
      }
      if (node.first_child <= number ||
          node.first_child + 1 >= static_cast<int>(witness.nodes.size()) ||
          node.class_index >= num_classes_) {
        find("windows that form no tree");
        return -kInfinity;
      }
      Box first = box;
      Box second = std::move(box);
      if (node.class_index < 0) {
        first.high = std::min(first.high, node.split);
        second.low = std::max(second.low, node.split);
      } else {
        first.hi[node.class_index] = std::min(first.hi[node.class_index], std::floor(node.split));
        second.lo[node.class_index] =
            std::max(second.lo[node.class_index], std::floor(node.split) + 1);
      }
      open.emplace_back(node.first_child, std::move(first));
      open.emplace_back(node.first_child + 1, std::move(second));
    }
    return least;
  }

  // What the proof shows of the uniform load in the box.
  double uniform_load(const WindowWitness& witness, int number, const Box& box) {
    const auto known = proved_.find({number, box.lo, box.hi});
    if (known != proved_.end()) return known->second;
    const RoomProof& proof = witness.proofs[number];
    const bool has_values = !proof.value.empty();
    if ((has_values && witness.cells < 1) || !(proof.room > 0) ||
        (!proof.price.empty() && !are_prices(proof.price))) {
      find("a proof that proves nothing");
      return -kInfinity;
    }
    const double value =
        has_values ? by_patterns(witness, proof, box) : by_function(witness, proof, box);
    proved_[{number, box.lo, box.hi}] = value;
    return value;
  }

  // Sum over units of min(worth, cheapest uniform cost), where at least lo and at most hi units of
  // a class are uniform.
  double uniform_sum(const WindowWitness& witness, const std::vector<double>& worth,
                     const std::vector<double>& price, const Box& box) const {
    std::vector<std::vector<std::pair<double, double>>> by_class(num_classes_);
    double sum = 0;
    for (int unit = 0; unit < problem_.num_units(); ++unit) {
      double cheapest = kInfinity;
      bool can_place = false;
      for (std::size_t c = 0; c < alive_[unit].size(); ++c) {
        if (!alive_[unit][c]) continue;
        const UnitChoice& choice = choice_at(unit, c);
        if (choice.spread != Spread::kUniform) {
          can_place = true;
          continue;
        }
        double load = kInfinity;
        double bytes = 0;
        for_row(choice, 0, [&](const PieceRun& run, int rank) {
          load = std::min(load, load_on(run, rank));
          for (int tier = 0; tier < kNumTiers; ++tier) {
            bytes += price_of(price, rank, tier) * static_cast<double>(run.bytes[tier]);
          }
        });
        cheapest = std::min(cheapest, load + bytes);
      }
      if (!can_place) {
        sum += cheapest;
      } else {
        by_class[witness.class_of_unit[unit]].emplace_back(cheapest, worth[unit]);
      }
    }
    for (int c = 0; c < num_classes_; ++c) {
      auto& units = by_class[c];
      std::sort(units.begin(), units.end());
      for (std::size_t i = 0; i < units.size(); ++i) {
        const auto place = static_cast<double>(i);
        const auto [cost, value] = units[i];
        sum += place < box.lo[c] ? cost : place < box.hi[c] ? std::min(cost, value) : value;
      }
      if (box.lo[c] > static_cast<double>(units.size()) && !units.empty()) return kInfinity;
    }
    return sum;
  }

  double by_function(const WindowWitness& witness, const RoomProof& proof, const Box& box) {
    const double e = proof.function.parameter;
    const bool is_function =
        proof.function.kind == DualFunctionKind::kIdentity ||
        (proof.function.kind == DualFunctionKind::kStep && e >= 1 && e == std::floor(e)) ||
        (proof.function.kind == DualFunctionKind::kThreshold && e >= 0 && e <= 0.5) ||
        (proof.function.kind == DualFunctionKind::kRounding && e > 0 && e <= 0.5);
    if (!is_function || !(proof.multiplier >= 0)) {
      find("a function that is not dual feasible");
      return -kInfinity;
    }
    std::vector<double> worth;
    for (int unit = 0; unit < problem_.num_units(); ++unit) {
      double least = kInfinity;
      for (std::size_t c = 0; c < alive_[unit].size(); ++c) {
        if (!alive_[unit][c] || choice_at(unit, c).spread == Spread::kUniform) continue;
        const double pieces =
            least_cost<double>(unit, choice_at(unit, c), [&](const PieceRun& run, int rank) {
              const double x = load_on(run, rank) / proof.room * kShrink;
              return x > 1 ? kInfinity : dual_value(proof.function, x);
            });
        least = std::min(least, pieces);
      }
      worth.push_back(least == kInfinity ? 4 * witness.target : proof.multiplier * least);
    }
    return uniform_sum(witness, worth, {}, box) -
           proof.multiplier * static_cast<double>(problem_.num_ranks);
  }

  using Items = std::map<std::pair<double, double>, std::int64_t>;  // load, value -> copies

  // Most value in 0..cells of what is in the map, each at most so often.
  static std::vector<double> knapsack(const Items& items, double room, int cells, double per_cell) {
    std::vector<double> best(static_cast<std::size_t>(cells) + 1, 0);
    for (const auto& [item, copies] : items) {
      const auto [load, value] = item;
      const int size = static_cast<int>(load / room * cells * (1 - kSafety));
      if (size == 0) {
        for (double& b : best) b += value * static_cast<double>(copies);
        continue;
      }
      auto left = std::min(copies, static_cast<std::int64_t>(room / load * (1 + kSafety)));
      for (std::int64_t times = 1; left > 0; times *= 2) {
        times = std::min(times, left);
        left -= times;
        for (int x = cells; x >= times * size; --x) {
          best[x] = std::max(best[x], best[static_cast<std::size_t>(x - times * size)] +
                                          static_cast<double>(times) * value);
        }
      }
    }
    for (int x = 1; x <= cells; ++x) best[x] = std::max(best[x], best[x - 1] + per_cell);
    return best;
  }

  // May the unit be on any rank or host that looks like this one?
  bool may_stand(int unit, bool is_host, int at) const {
    bool may = false;
    if (is_host) {
      for_hosts(unit, [&](int host) { may |= profile_of_host_[host] == profile_of_host_[at]; });
    } else {
      for_ranks(unit, [&](int rank) { may |= profile_of_[rank] == profile_of_[at]; });
    }
    return may;
  }

  double by_patterns(const WindowWitness& witness, const RoomProof& proof, const Box& box) {
    const int cells = witness.cells;
    std::vector<double> worth;
    for (const int c : witness.class_of_unit) {
      worth.push_back(c < static_cast<int>(proof.value.size()) ? proof.value[c] : 0);
      if (!(worth.back() >= 0)) find("a negative value of a unit");
    }
    // One table for every profile of ranks and of hosts.
    const auto table = [&](bool is_host, int at) {
      Items items;
      double per_cell = 0;
      for (int unit = 0; unit < problem_.num_units(); ++unit) {
        for (std::size_t c = 0; c < alive_[unit].size(); ++c) {
          const UnitChoice& choice = choice_at(unit, c);
          if (!alive_[unit][c] || (choice.spread == Spread::kHost) != is_host ||
              choice.spread == Spread::kUniform) {
            continue;
          }
          if (!may_stand(unit, is_host, at)) continue;
          std::int64_t pieces = is_host ? choice.num_blocks : 0;
          if (!is_host) {
            for (const PieceRun& run : choice.runs) pieces += run.count;
          }
          const auto add = [&](double load, double bytes, std::int64_t copies) {
            const double value = worth[unit] / static_cast<double>(pieces) - bytes;
            if (value <= 0 || load > proof.room * (1 + kSafety)) return;
            const int size = static_cast<int>(load / proof.room * cells * (1 - kSafety));
            if (load > 0 && size < kPourShare * cells) {
              per_cell = std::max(per_cell, value * (proof.room / cells / load * (1 + kSafety)));
            } else {
              items[{load, value}] += copies;
            }
          };
          const auto price = [&](const PieceRun& run, int rank) {
            double sum = 0;
            for (int tier = 0; tier < kNumTiers; ++tier) {
              sum += price_of(proof.price, rank, tier) * static_cast<double>(run.bytes[tier]);
            }
            return sum;
          };
          if (is_host) {
            if (!fits_row(unit, choice, at * problem_.ranks_per_host)) continue;
            double load = kInfinity;
            double bytes = 0;
            for_row(choice, at * problem_.ranks_per_host, [&](const PieceRun& run, int rank) {
              load = std::min(load, load_on(run, rank));
              bytes += price(run, rank);
            });
            add(load, bytes, choice.num_blocks);
          } else {
            for (const PieceRun& run : choice.runs) {
              if (fits(unit, run, at)) add(load_on(run, at), price(run, at), run.count);
            }
          }
        }
      }
      return knapsack(items, proof.room, cells, per_cell);
    };
    std::vector<std::vector<double>> ranks;
    for (const Profile& profile : profiles_) ranks.push_back(table(false, profile.rank));
    double sum = uniform_sum(witness, worth, proof.price, box);
    for (const Profile& host : hosts_) {
      const std::vector<double> blocks = table(true, host.rank);
      double most = 0;
      for (int x = 0; x <= cells; ++x) {
        if (x > 0 && blocks[x] <= blocks[x - 1]) continue;
        double value = blocks[x];
        for (int i = 0; i < problem_.ranks_per_host; ++i) {
          value += ranks[profile_of_[host.rank * problem_.ranks_per_host + i]][cells - x];
        }
        most = std::max(most, value);
      }
      sum -= host.count * most;
    }
    for (int rank = problem_.num_hosts() * problem_.ranks_per_host; rank < problem_.num_ranks;
         ++rank) {
      sum -= ranks[profile_of_[rank]][cells];
    }
    for (int rank = 0; rank < problem_.num_ranks; ++rank) {
      for (int tier = 0; tier < kNumTiers; ++tier) {
        sum -= price_of(proof.price, rank, tier) * static_cast<double>(problem_.caps[rank][tier]);
      }
    }
    return sum;
  }

  const PlacementProblem problem_;
  const PlacementBound& bound_;
  BoundVerdict verdict_;
  int num_kinds_ = 0;
  int num_classes_ = 1;
  std::vector<Profile> profiles_;     // of ranks
  std::vector<Profile> hosts_;        // `rank` is the host
  std::vector<int> profile_of_;       // [ranks]
  std::vector<int> profile_of_host_;  // [hosts]
  std::vector<TierBytes> room_of_;    // [profiles]
  std::uint64_t forbidden_ = 0;
  double target_ = kInfinity;
  std::vector<std::vector<char>> alive_;  // [units][choices]
  std::vector<std::vector<Floor>> own_;   // [units][profiles] of units that can only be uniform
  std::vector<Floor> floor_;              // [profiles] of all of them
  std::map<std::tuple<int, std::vector<double>, std::vector<double>>, double> proved_;
};

}  // namespace

BoundVerdict verify_bound(const PlacementProblem& problem, const PlacementBound& bound) {
  return Verifier(problem, bound).verify();
}

}  // namespace plimsoll::solve
