#include "balance/moves/placement_dive.h"

#include <algorithm>
#include <limits>
#include <map>
#include <optional>
#include <tuple>
#include <utility>
#include <vector>

#include "balance/moves/dive_steps.h"
#include "balance/problem/placement_judge.h"
#include "plimsoll/core/numbers.h"

namespace plimsoll::balance {
namespace {

using Loads = DiveSteps::Loads;
using Piece = DiveSteps::Piece;
using Step = DiveSteps::Step;
constexpr std::int64_t kScale = DiveSteps::kScale;

// 128 bits of what is told apart. Those of things in no order are added up.
struct Digest {
  std::uint64_t low = 0, high = 0;

  void mix(std::uint64_t value) {
    low = (low ^ value) * 0xff51afd7ed558ccdU;
    low ^= low >> 32;
    high = (high + value) * 0xc4ceb9fe1a85ec53U;
    high ^= high >> 29;
  }
  Digest mixed() const {
    Digest result{0x9e3779b97f4a7c15U, 0xc2b2ae3d27d4eb4fU};
    result.mix(low);
    result.mix(high);
    return result;
  }
  Digest& operator+=(const Digest& other) {
    low += other.low;
    high += other.high;
    return *this;
  }
  Digest& operator-=(const Digest& other) {
    low -= other.low;
    high -= other.high;
    return *this;
  }
  auto operator<=>(const Digest&) const = default;
};

// A set, by open addressing: a node of a search is little more than a look into it.
class Digests {
 public:
  // Was it new? What looks like an empty slot always is.
  bool insert(const Digest& digest) {
    if (digest == Digest{}) return true;
    if (3 * (size_ + 1) > 2 * slots_.size()) grow();
    Digest& slot = find(digest);
    if (slot == digest) return false;
    slot = digest;
    ++size_;
    return true;
  }

 private:
  // Where it is, or the empty slot where it belongs.
  Digest& find(const Digest& digest) {
    std::size_t i = digest.low & (slots_.size() - 1);
    while (slots_[i] != Digest{} && slots_[i] != digest) i = (i + 1) & (slots_.size() - 1);
    return slots_[i];
  }

  void grow() {
    std::vector<Digest> before(std::max<std::size_t>(2 * slots_.size(), 1024));
    before.swap(slots_);
    for (const Digest& digest : before) {
      if (digest != Digest{}) find(digest) = digest;
    }
  }

  std::vector<Digest> slots_;  // a power of two
  std::size_t size_ = 0;
};

struct Rank {
  int kind = 0;
  int host = -1;
  Loads load{};
  Amounts bytes{};
  std::uint64_t apart = 0;  // sets of units kept apart that have a unit here
  int holder = -1;          // depth of the last unit with a piece here that wants distinct ranks or
                            // is kept apart
  Digest digest;
};

// A rank or host to try. Another one of equal key would lead to the same.
struct Place {
  std::int64_t rise = 0;  // of what the barriers' slowest ranks carry together
  std::int64_t load = 0;  // there, of all barriers
  Digest rank, host;
  int index = 0;

  auto key() const { return std::tie(rise, load, rank, host); }
};

class Dive {
 public:
  Dive(const PlacementProblem& problem, const DiveOptions& options, EffortClock& clock)
      : problem_(problem),
        options_(options),
        clock_(clock),
        steps_(problem, options),
        num_barriers_(static_cast<std::size_t>(problem.num_barriers)),
        width_(problem.ranks_per_host),
        nodes_a_look_(std::clamp(65536 / problem.num_ranks, 16, 4096)),
        num_host_ranks_(problem.num_hosts() * problem.ranks_per_host),
        has_pools_(!options.relaxes &&
                   std::any_of(problem.resources.begin(), problem.resources.end(),
                               [](const Resource& resource) { return resource.is_pooled; })),
        causes_(options.paid),
        host_digest_(static_cast<std::size_t>(problem.num_hosts())),
        host_bytes_(host_digest_.size()),
        host_caps_(host_digest_.size()),
        sets_(steps_.size(), 0),
        chosen_(steps_.size(), 0),
        places_(steps_.size()) {
    for (const Digest& host : host_digest_) of_hosts_ += host.mixed();
    make_ranks();
    if (!options.relaxes) find_sets();
  }

  DiveResult run() {
    DiveResult result;
    const bool is_complete = place_unit(0);
    result.num_nodes = num_nodes_;
    if (is_found_) {
      result.end = DiveEnd::kFound;
      result.placements = std::move(found_);
      result.is_allowed = is_found_allowed_;
    } else {
      result.end = is_complete ? DiveEnd::kRefuted : DiveEnd::kLimit;
    }
    return result;
  }

 private:
  // Ranks of one kind may change places: of hosts or not, class, room, the units that allow them,
  // and where cuts are uneven the pieces that they would get.
  void make_ranks() {
    std::map<std::vector<std::int64_t>, int> kinds;
    ranks_.resize(static_cast<std::size_t>(problem_.num_ranks));
    for (int r = 0; r < problem_.num_ranks; ++r) {
      Rank& rank = ranks_[r];
      if (r < num_host_ranks_) rank.host = r / width_;
      rank.kind = kinds.emplace(traits_of(r), static_cast<int>(kinds.size())).first->second;
      if (rank.host >= 0) host_caps_[rank.host].add(problem_.caps[r], 1);
      enter(rank);
    }
  }

  std::vector<std::int64_t> traits_of(int r) const {
    const bool is_in_host = r < num_host_ranks_;
    std::vector<std::int64_t> traits{static_cast<std::int64_t>(is_in_host), problem_.class_of(r)};
    if (options_.relaxes) return traits;
    for (std::size_t t = 0; t < problem_.resources.size(); ++t) {
      traits.push_back(problem_.caps[r][t]);
    }
    for (const Unit& unit : problem_.units) {
      if (!unit.allowed_ranks.empty()) {
        traits.push_back(static_cast<std::int64_t>(is_allowed(unit, r)));
      }
    }
    for (std::size_t d = 0; d < steps_.size(); ++d) {
      for (const Step& step : steps_.steps(d)) {
        if (step.piece_of.empty() || step.spread == Spread::kDevice) continue;
        if (step.spread == Spread::kHost && !is_in_host) continue;
        traits.push_back(step.piece_of[piece_on(step, r, 0)]);
      }
    }
    return traits;
  }

  bool is_allowed(const Unit& unit, int r) const {
    return options_.relaxes || unit.allowed_ranks.empty() ||
           std::binary_search(unit.allowed_ranks.begin(), unit.allowed_ranks.end(), r);
  }

  void find_sets() {
    for (std::size_t d = 0; d < steps_.size(); ++d) {
      for (std::size_t s = 0; s < problem_.apart.size(); ++s) {
        const std::vector<int>& set = problem_.apart[s];
        const bool is_in = std::find(set.begin(), set.end(), steps_.unit(d)) != set.end();
        if (is_in && set.size() > 1) sets_[d] |= std::uint64_t{1} << s;
      }
    }
  }

  // Digests of all ranks, alone and host by host, are kept up to date.
  void leave(const Rank& rank) {
    of_ranks_ -= rank.digest;
    if (rank.host < 0) {
      of_hosts_ -= rank.digest;
      return;
    }
    Digest& host = host_digest_[rank.host];
    of_hosts_ -= host.mixed();
    host -= rank.digest;
    of_hosts_ += host.mixed();
  }

  void enter(Rank& rank) {
    Digest digest;
    digest.mix(static_cast<std::uint64_t>(rank.kind));
    for (std::size_t g = 0; g < num_barriers_; ++g) {
      digest.mix(static_cast<std::uint64_t>(rank.load[g]));
    }
    for (int r = 0; r < problem_.num_resources(); ++r) {
      digest.mix(static_cast<std::uint64_t>(rank.bytes[r]));
    }
    digest.mix(rank.apart);
    rank.digest = digest.mixed();
    of_ranks_ += rank.digest;
    if (rank.host < 0) {
      of_hosts_ += rank.digest;
      return;
    }
    Digest& host = host_digest_[rank.host];
    of_hosts_ -= host.mixed();
    host += rank.digest;
    of_hosts_ += host.mixed();
  }

  // Was the state looked at? With `num_left` places of unit d's step to come, or before its steps.
  bool is_seen(std::size_t d, int step, int num_left, bool has_hosts) {
    if (!options_.uses_states) return false;
    Digest digest = has_hosts ? of_hosts_ : of_ranks_;
    digest.mix(d);
    digest.mix(static_cast<std::uint64_t>(step));
    digest.mix(static_cast<std::uint64_t>(num_left));
    digest.mix(causes_);
    digest.mix(static_cast<std::uint64_t>(priced_bytes_));
    const bool is_ordered = step < 0 && options_.uses_unit_symmetry && steps_.is_like_previous(d);
    if (is_ordered) digest.mix(static_cast<std::uint64_t>(chosen_[d - 1]));
    return !seen_.insert(digest);
  }

  // Does it still matter which ranks are of one host, once the units before `d` have their places?
  bool has_hosts_from(std::size_t d) const { return has_pools_ || steps_.has_host_from(d); }

  // What the charges leave of the target.
  std::int64_t room() const { return kScale - steps_.charge(causes_); }

  static std::int64_t sum_of(const Loads& loads) {
    std::int64_t sum = 0;
    for (const std::int64_t load : loads) sum += load;
    return sum;
  }

  std::int64_t lightest_rank() const {
    std::int64_t least = DiveSteps::kNever;
    for (const Rank& rank : ranks_) least = std::min(least, sum_of(rank.load));
    return least;
  }

  // Once work and priced bytes are added to all ranks together, at least?
  bool is_above_mean(std::int64_t work, std::int64_t priced) const {
    if (!options_.uses_mean_rule) return false;
    const std::int64_t left = problem_.num_ranks * room() - sum_of(sum_);
    return work > left ||
           (steps_.has_prices() && priced_bytes_ + priced > left + steps_.priced_caps());
  }

  // Can units d.. not be placed, going by sums?
  bool is_hopeless(std::size_t d) const {
    if (sum_of(slowest_) > room()) return true;
    if (options_.uses_barrier_rule && num_barriers_ > 1) {
      std::int64_t least = 0;
      for (std::size_t g = 0; g < num_barriers_; ++g) {
        const std::int64_t sum = sum_[g] + steps_.least_work_of(d, static_cast<int>(g));
        least += std::max(slowest_[g], sum / problem_.num_ranks);
      }
      if (least > room()) return true;
    }
    return is_above_mean(steps_.least_work(d, room() - lightest_rank()), steps_.least_priced(d));
  }

  // Here and below: was the subtree searched to its end? False also once a placement is found.
  bool place_unit(std::size_t d) {
    if (!spend_node()) return false;
    if (is_hopeless(d)) return true;
    if (d == steps_.size()) return !keeps();
    if (is_seen(d, -1, 0, has_hosts_from(d))) return true;
    const std::vector<Step>& steps = steps_.steps(d);
    const bool is_ordered = options_.uses_unit_symmetry && steps_.is_like_previous(d);
    const std::int64_t lightest = lightest_rank();
    for (int s = is_ordered ? chosen_[d - 1] : 0; s < static_cast<int>(steps.size()); ++s) {
      chosen_[d] = s;
      if (!place_step(d, steps[s], lightest)) return false;
    }
    return true;
  }

  // False: no node is left.
  bool spend_node() {
    if (num_nodes_ >= options_.max_nodes) return false;
    ++num_nodes_;
    if (num_nodes_ % nodes_a_look_ != 0 || !clock_.spend(nodes_a_look_)) return true;
    num_nodes_ = std::max(num_nodes_, options_.max_nodes);
    return false;
  }

  bool place_step(std::size_t d, const Step& step, std::int64_t lightest) {
    const std::uint64_t causes = std::exchange(causes_, causes_ | step.causes);
    const std::int64_t priced_bytes = step.priced - step.work;
    bool is_complete = true;
    if (!is_above_mean(step.work + steps_.least_work(d + 1, room() - lightest),
                       step.priced + steps_.least_priced(d + 1))) {
      priced_bytes_ += priced_bytes;
      places_[d].clear();
      is_complete = step.spread == Spread::kUniform ? place_on_all(d, step) : place_next(d, step);
      priced_bytes_ -= priced_bytes;
    }
    causes_ = causes;
    return is_complete;
  }

  bool place_on_all(std::size_t d, const Step& step) {
    if (!look(d, step, 0, problem_.num_ranks)) return true;
    return put(d, step, 0, problem_.num_ranks, [&] { return place_unit(d + 1); });
  }

  // The next piece or block.
  bool place_next(std::size_t d, const Step& step) {
    const auto num_done = static_cast<int>(places_[d].size());
    if (num_done == step.num_places) return place_unit(d + 1);
    const bool is_block = step.spread == Spread::kHost;
    // Ranks that hold a piece of the unit are told from others by no digest.
    const bool has_holders = step.distinct_ranks || sets_[d] != 0;
    const bool has_hosts = is_block || has_hosts_from(d + 1);
    if (num_done > 0) {  // the first one is the unit's
      if (!spend_node()) return false;
      if (!has_holders && is_seen(d, step.choice, step.num_places - num_done, has_hosts)) {
        return true;
      }
    }
    const int width = is_block ? width_ : 1;
    std::vector<Place> places;
    for (int first = 0; first < (is_block ? num_host_ranks_ : problem_.num_ranks); first += width) {
      std::optional<Place> place = look(d, step, first, width);
      if (!place) continue;
      place->index = first / width;
      const Rank& rank = ranks_[first];
      if (!options_.uses_rank_symmetry) {
        place->rank = {0, static_cast<std::uint64_t>(first)};
      } else {
        if (!is_block) place->rank = rank.digest;
        if (has_hosts && rank.host >= 0) {
          place->host = has_holders ? Digest{0, static_cast<std::uint64_t>(rank.host)}
                                    : host_digest_[rank.host];
        }
      }
      places.push_back(*place);
    }
    std::stable_sort(places.begin(), places.end(),
                     [](const Place& a, const Place& b) { return a.key() < b.key(); });
    for (std::size_t i = 0; i < places.size(); ++i) {
      if (i > 0 && places[i].key() == places[i - 1].key()) continue;
      places_[d].push_back(places[i].index);
      const bool is_complete =
          put(d, step, places[i].index * width, width, [&] { return place_next(d, step); });
      places_[d].pop_back();
      if (!is_complete) return false;
    }
    return true;
  }

  // Which of a step's pieces the rank would get; of a device choice the one that comes next.
  int piece_on(const Step& step, int r, std::size_t num_done) const {
    if (step.spread == Spread::kUniform) return r;
    return step.spread == Spread::kHost ? r % width_ : static_cast<int>(num_done);
  }

  // May and can these ranks take their pieces?
  std::optional<Place> look(std::size_t d, const Step& step, int first, int count) const {
    Place place;
    Loads slowest = slowest_;
    Amounts of_host{};
    for (int r = first; r < first + count; ++r) {
      const Rank& rank = ranks_[r];
      const Piece& piece = step.piece(piece_on(step, r, places_[d].size()));
      if (!is_open(d, step, r)) return std::nullopt;
      if (r == first || rank.host != ranks_[r - 1].host) of_host = {};
      of_host.add(piece.bytes, 1);
      for (std::size_t t = 0; t < problem_.resources.size(); ++t) {
        const bool is_full = problem_.resources[t].is_pooled && rank.host >= 0
                                 ? host_bytes_[rank.host][t] + of_host[t] > host_caps_[rank.host][t]
                                 : rank.bytes[t] + piece.bytes[t] > problem_.caps[r][t];
        if (is_full && !options_.relaxes) return std::nullopt;
      }
      const Loads& load = piece.load[problem_.class_of(r)];
      for (std::size_t g = 0; g < num_barriers_; ++g) {
        slowest[g] = std::max(slowest[g], rank.load[g] + load[g]);
      }
      place.load = std::max(place.load, sum_of(rank.load));
    }
    place.rise = sum_of(slowest) - sum_of(slowest_);
    if (sum_of(slowest) > room()) return std::nullopt;
    return place;
  }

  bool is_open(std::size_t d, const Step& step, int r) const {
    const Rank& rank = ranks_[r];
    const bool is_held = rank.holder == static_cast<int>(d);
    return is_allowed(problem_.units[steps_.unit(d)], r) && !(is_held && step.distinct_ranks) &&
           (is_held || (rank.apart & sets_[d]) == 0);
  }

  // With the pieces on these ranks; they are taken away again.
  template <class Then>
  bool put(std::size_t d, const Step& step, int first, int count, const Then& then) {
    const Loads slowest = slowest_;
    const bool holds = step.distinct_ranks || sets_[d] != 0;
    const std::size_t num_done =
        step.spread == Spread::kDevice ? places_[d].size() - 1 : 0;  // before this one
    std::vector<std::pair<int, std::uint64_t>> held;
    for (int r = first; r < first + count; ++r) {
      Rank& rank = ranks_[r];
      if (holds) held.emplace_back(rank.holder, rank.apart);
      leave(rank);
      if (holds) rank.holder = static_cast<int>(d);
      rank.apart |= sets_[d];
      add(rank, step.piece(piece_on(step, r, num_done)), r, 1);
      enter(rank);
    }
    const bool is_complete = then();
    for (int r = first; r < first + count; ++r) {
      Rank& rank = ranks_[r];
      leave(rank);
      if (holds) std::tie(rank.holder, rank.apart) = held[static_cast<std::size_t>(r - first)];
      add(rank, step.piece(piece_on(step, r, num_done)), r, -1);
      enter(rank);
    }
    slowest_ = slowest;
    return is_complete;
  }

  // `times` is 1 or -1.
  void add(Rank& rank, const Piece& piece, int r, int times) {
    const Loads& load = piece.load[problem_.class_of(r)];
    for (std::size_t g = 0; g < num_barriers_; ++g) {
      rank.load[g] += times * load[g];
      sum_[g] += times * load[g];
      slowest_[g] = std::max(slowest_[g], rank.load[g]);
    }
    rank.bytes.add(piece.bytes, times);
    if (rank.host >= 0) host_bytes_[rank.host].add(piece.bytes, times);
  }

  // Is the placement at hand one of at most the target? Where rules were left aside it is kept
  // whatever it is.
  bool keeps() {
    UnitPlacements placements;
    placements.units.resize(steps_.size());
    for (std::size_t d = 0; d < steps_.size(); ++d) {
      const Step& step = steps_.steps(d)[chosen_[d]];
      placements.units[steps_.unit(d)] = {step.choice, {}};
      if (step.spread != Spread::kUniform) placements.units[steps_.unit(d)].slots = places_[d];
    }
    const PlacementValue value = evaluate(problem_, placements);
    is_found_allowed_ = value.is_allowed() && value.objective <= options_.target;
    is_found_ = is_found_allowed_ || options_.relaxes;
    if (is_found_) found_ = std::move(placements);
    return is_found_;
  }

  const PlacementProblem& problem_;
  const DiveOptions& options_;
  EffortClock& clock_;
  const DiveSteps steps_;
  const std::size_t num_barriers_;
  const int width_;
  const int nodes_a_look_;  // at the clock
  const int num_host_ranks_;
  const bool has_pools_;
  // The state.
  std::vector<Rank> ranks_;
  std::uint64_t causes_;  // paid and named
  Loads sum_{}, slowest_{};
  std::int64_t priced_bytes_ = 0;
  Digest of_ranks_, of_hosts_;
  std::vector<Digest> host_digest_;       // [hosts]
  std::vector<Amounts> host_bytes_;       // as above
  std::vector<Amounts> host_caps_;        // as above
  std::vector<std::uint64_t> sets_;       // [depth] of units kept apart that the unit is in
  std::vector<int> chosen_;               // [depth]
  std::vector<std::vector<int>> places_;  // [depth]
  Digests seen_;
  std::int64_t num_nodes_ = 0;
  bool is_found_ = false;
  bool is_found_allowed_ = false;
  UnitPlacements found_;
};

}  // namespace

bool is_divable(const PlacementProblem& problem) {
  return problem.num_barriers <= DiveSteps::kMaxBarriers && problem.charges.size() <= 64 &&
         problem.apart.size() <= 64;
}

DiveResult dive(const PlacementProblem& problem, const DiveOptions& options, EffortClock& clock) {
  if (!is_divable(problem)) return {};
  return Dive(problem, options, clock).run();
}

}  // namespace plimsoll::balance
