#include "check/embedding/exhaustive_search.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <map>
#include <numeric>
#include <unordered_set>
#include <utility>
#include <vector>

#include "balance/problem/placement_judge.h"
#include "core/check.h"

namespace plimsoll::check {
namespace {

using balance::Amounts;
using balance::PieceRun;
using balance::PlacementProblem;
using balance::Spread;

constexpr std::int64_t kTarget = std::int64_t{1} << 40;  // the target in whole units
constexpr std::int64_t kNever = std::int64_t{1} << 61;
constexpr std::size_t kMaxBarriers = 8;
constexpr int kMaxUnits = 64;   // and charges, and sets of units kept apart
constexpr int kMaxRanks = 512;  // and pieces, and blocks, of a choice

using Loads = std::array<std::int64_t, kMaxBarriers>;

std::int64_t sum_of(const Loads& loads) {
  return std::accumulate(loads.begin(), loads.end(), std::int64_t{0});
}

struct Rank {
  int id = 0;    // as the problem numbers it; ranks that differ in nothing else are alike
  int kind = 0;  // what the problem tells of the rank
  std::uint64_t apart = 0;  // sets of units kept apart that have a unit here
  std::uint64_t fresh = 0;  // those of the unit that is being placed
  bool is_taken = false;    // by a piece of that unit, which wants distinct ranks
  Loads load{};
  Amounts bytes{};

  auto key() const { return std::tie(kind, apart, fresh, is_taken, load, bytes); }
  friend bool operator<(const Rank& a, const Rank& b) { return a.key() < b.key(); }
  friend bool operator==(const Rank& a, const Rank& b) { return a.key() == b.key(); }
};

struct State {
  std::vector<Rank> ranks;   // host by host, then the ranks of no host
  std::uint64_t causes = 0;  // named by now
};

struct Piece {
  std::vector<Loads> load;  // [classes]
  Amounts bytes{};
  std::int64_t least = 0;  // ms of all barriers together, of the class that has least
};

// Pieces of a device choice, of a block or of all ranks, in order.
struct Choice {
  int index = 0;  // in the unit
  Spread spread = Spread::kDevice;
  std::vector<Piece> pieces;
  std::int64_t num_blocks = 1;
  bool distinct_ranks = false;
  std::uint64_t causes = 0;
  std::int64_t least = 0;           // of a piece
  std::int64_t work = 0;            // on all ranks together, at least
  std::int64_t worth = 0;           // of its bytes
  Loads work_of{};                  // of a barrier
  std::int64_t num_steps() const {  // in which it is placed, one state each
    if (spread == Spread::kUniform) return 1;
    return spread == Spread::kHost ? num_blocks : static_cast<std::int64_t>(pieces.size());
  }
};

struct SearchUnit {
  int index = 0;  // in the problem
  std::vector<Choice> choices;
  std::uint64_t apart = 0;  // sets that have the unit
};

struct Digest {
  std::uint64_t low = 0, high = 0;
  bool operator==(const Digest&) const = default;
};
struct HashOfDigest {
  std::size_t operator()(const Digest& digest) const { return digest.low; }
};

class ExhaustiveSearch {
 public:
  ExhaustiveSearch(const PlacementProblem& problem, double target, const ExhaustiveLimits& limits,
                   const ExhaustiveScope& scope)
      : problem_(problem),
        target_(target),
        scale_(static_cast<double>(kTarget) / (target - problem.floor_ms)),
        limits_(limits),
        scope_(scope) {
    price_caps();
    for (int u = 0; u < problem.num_units(); ++u) units_.push_back(make_unit(u));
    for (const double charge : problem.charges) charges_.push_back(scaled(charge));
    cascade();
    std::stable_sort(units_.begin(), units_.end(), [](const auto& a, const auto& b) {
      return std::pair(is_forced(a), least_work(a)) > std::pair(is_forced(b), least_work(b));
    });
    measure_rest();
    placements_.units.resize(units_.size());
  }

  ExhaustiveResult run() {
    const bool is_refuted = refutes(0, first_state());
    if (is_over()) return {ExhaustiveEnd::kLimit, num_nodes_, {}};
    if (is_refuted) return {ExhaustiveEnd::kRefuted, num_nodes_, {}};
    const balance::PlacementValue value = balance::evaluate(problem_, placements_);
    const bool is_found = value.is_allowed() && value.objective <= target_;
    return {is_found ? ExhaustiveEnd::kFound : ExhaustiveEnd::kUndecided, num_nodes_, placements_};
  }

 private:
  bool is_over() const {
    return num_nodes_ > limits_.max_nodes || num_ranks_seen_ > limits_.max_ranks_seen;
  }

  // What a state costs that is made, whether it is looked at or given up at once.
  void count(const State& state) { num_ranks_seen_ += std::ssize(state.ranks); }

  std::int64_t scaled(double ms) const {
    return static_cast<std::int64_t>(std::min(std::floor(ms * scale_), 2.0 * double{kTarget}));
  }

  // What bytes are worth, rounded down, and by more than the sum may lose.
  std::int64_t worth_of(const Amounts& bytes) const {
    if (!has_prices_) return 0;
    double sum = 0;
    for (std::size_t resource = 0; resource < problem_.resources.size(); ++resource) {
      sum += scope_.byte_price[resource] * static_cast<double>(bytes[resource]);
    }
    return static_cast<std::int64_t>(std::floor(sum * scale_ * (1 - 1e-12)));
  }

  // Of all ranks, rounded up. Prices that make numbers too large are left aside.
  void price_caps() {
    double sum = 0;
    for (const Amounts& caps : problem_.caps) {
      for (std::size_t resource = 0; resource < problem_.resources.size(); ++resource) {
        sum += scope_.byte_price[resource] * static_cast<double>(caps[resource]);
      }
    }
    const double worth = std::ceil(sum * scale_ * (1 + 1e-9));
    has_prices_ = sum > 0 && worth < 0x1p58;
    if (has_prices_) worth_of_caps_ = static_cast<std::int64_t>(worth);
  }

  Piece make_piece(const PieceRun& run) const {
    Piece piece{{}, run.bytes, kNever};
    const auto num_barriers = static_cast<std::size_t>(problem_.num_barriers);
    for (std::size_t first = 0; first < run.load.size(); first += num_barriers) {
      Loads& load = piece.load.emplace_back();
      for (std::size_t g = 0; g < num_barriers; ++g) load[g] = scaled(run.load[first + g]);
      piece.least = std::min(piece.least, sum_of(load));
    }
    return piece;
  }

  SearchUnit make_unit(int u) const {
    const balance::Unit& given = problem_.units[static_cast<std::size_t>(u)];
    SearchUnit unit{u, {}, 0};
    for (std::size_t set = 0; set < problem_.apart.size(); ++set) {
      const std::vector<int>& members = problem_.apart[set];
      if (std::find(members.begin(), members.end(), u) != members.end()) {
        unit.apart |= std::uint64_t{1} << set;
      }
    }
    for (std::size_t c = 0; c < given.choices.size(); ++c) {
      Choice choice = make_choice(given.choices[c]);
      choice.index = static_cast<int>(c);
      const bool is_in_scope = (choice.causes & scope_.forbidden) == 0;
      if (is_in_scope && choice.least <= kTarget) unit.choices.push_back(std::move(choice));
    }
    return unit;
  }

  Choice make_choice(const balance::UnitChoice& given) const {
    Choice choice;
    choice.spread = given.spread;
    choice.num_blocks = given.num_blocks;
    choice.distinct_ranks = given.distinct_ranks;
    choice.least = kNever;
    for (const int cause : given.causes) choice.causes |= std::uint64_t{1} << cause;
    const std::int64_t times = given.spread == Spread::kHost ? given.num_blocks : 1;
    for (const PieceRun& run : given.runs) {
      const Piece piece = make_piece(run);
      choice.pieces.insert(choice.pieces.end(), static_cast<std::size_t>(run.count), piece);
      choice.least = std::min(choice.least, piece.least);
      choice.work += times * run.count * piece.least;
      choice.worth += times * run.count * worth_of(run.bytes);
      for (std::size_t g = 0; g < kMaxBarriers; ++g) {
        std::int64_t least = kNever;
        for (const Loads& load : piece.load) least = std::min(least, load[g]);
        choice.work_of[g] += times * run.count * least;
      }
    }
    return choice;
  }

  static std::int64_t least_work(const SearchUnit& unit) {
    std::int64_t least = kNever;
    for (const Choice& choice : unit.choices) least = std::min(least, choice.work);
    return least;
  }

  static bool is_forced(const SearchUnit& unit) {
    return std::all_of(unit.choices.begin(), unit.choices.end(),
                       [](const Choice& choice) { return choice.spread == Spread::kUniform; });
  }

  // What can only be everywhere is everywhere, and a piece must fit beside it.
  void cascade() {
    for (bool is_changed = true; is_changed;) {
      is_changed = false;
      std::int64_t forced = 0;
      for (const SearchUnit& unit : units_) {
        if (is_forced(unit)) forced = std::min(forced + least_piece(unit), kTarget + 1);
      }
      for (SearchUnit& unit : units_) {
        if (is_forced(unit)) continue;
        is_changed |= std::erase_if(unit.choices, [forced](const Choice& choice) {
                        return choice.least > kTarget - forced;
                      }) > 0;
      }
    }
  }

  static std::int64_t least_piece(const SearchUnit& unit) {
    std::int64_t least = kTarget + 1;
    for (const Choice& choice : unit.choices) least = std::min(least, choice.least);
    return least;
  }

  // The least work of units d.. in every barrier; and in all, of pieces no larger than a size, for
  // every size.
  void measure_rest() {
    for (const SearchUnit& unit : units_) {
      for (const Choice& choice : unit.choices) sizes_.push_back(choice.least);
    }
    std::sort(sizes_.begin(), sizes_.end());
    sizes_.erase(std::unique(sizes_.begin(), sizes_.end()), sizes_.end());
    rest_.assign(units_.size() + 1, std::vector<std::int64_t>(sizes_.size(), 0));
    rest_of_.assign(units_.size() + 1, Loads{});
    rest_priced_.assign(units_.size() + 1, 0);
    const bool has_pools = std::any_of(problem_.resources.begin(), problem_.resources.end(),
                                       [](const balance::Resource& r) { return r.is_pooled; });
    keeps_hosts_.assign(units_.size() + 1, has_pools);
    for (std::size_t d = units_.size(); d-- > 0;) {
      keeps_hosts_[d] = keeps_hosts_[d + 1];
      Loads least_of;
      least_of.fill(kNever);
      for (const Choice& choice : units_[d].choices) {
        if (choice.spread == Spread::kHost) keeps_hosts_[d] = true;
        for (std::size_t g = 0; g < kMaxBarriers; ++g) {
          least_of[g] = std::min(least_of[g], choice.work_of[g]);
        }
      }
      for (std::size_t g = 0; g < kMaxBarriers; ++g) {
        rest_of_[d][g] = std::min(rest_of_[d + 1][g] + least_of[g], kNever);
      }
      std::int64_t least_priced = kNever;
      for (const Choice& choice : units_[d].choices) {
        least_priced = std::min(least_priced, choice.work + choice.worth);
      }
      rest_priced_[d] = std::min(rest_priced_[d + 1] + least_priced, kNever);
      for (std::size_t k = 0; k < sizes_.size(); ++k) {
        std::int64_t least = kNever;
        for (const Choice& choice : units_[d].choices) {
          if (choice.least <= sizes_[k]) least = std::min(least, choice.work);
        }
        rest_[d][k] = std::min(rest_[d + 1][k] + least, kNever);
      }
    }
  }

  // Ranks of one kind may change places: class, room, the units that allow them, and where cuts are
  // uneven the pieces that they would get.
  State first_state() const {
    State state;
    state.causes = scope_.paid;
    std::map<std::vector<std::int64_t>, int> kinds;
    for (int rank = 0; rank < problem_.num_ranks; ++rank) {
      const auto [entry, is_new] = kinds.emplace(traits_of(rank), static_cast<int>(kinds.size()));
      state.ranks.push_back({rank, entry->second, 0, 0, false, {}, {}});
    }
    return state;
  }

  std::vector<std::int64_t> traits_of(int rank) const {
    const int host = rank / problem_.ranks_per_host;
    const bool is_of_host = host < problem_.num_hosts();
    std::vector<std::int64_t> traits{is_of_host, problem_.class_of(rank)};
    for (std::size_t resource = 0; resource < problem_.resources.size(); ++resource) {
      traits.push_back(room_of(rank, resource));
    }
    for (const balance::Unit& unit : problem_.units) {
      if (!unit.allowed_ranks.empty()) {
        traits.push_back(
            std::binary_search(unit.allowed_ranks.begin(), unit.allowed_ranks.end(), rank));
      }
      for (const balance::UnitChoice& choice : unit.choices) {
        if (choice.runs.size() < 2 || choice.spread == Spread::kDevice) continue;
        if (choice.spread == Spread::kHost && !is_of_host) continue;
        traits.push_back(
            run_of(choice, choice.spread == Spread::kHost ? rank % problem_.ranks_per_host : rank));
      }
    }
    return traits;
  }

  static std::int64_t run_of(const balance::UnitChoice& choice, std::int64_t piece) {
    std::int64_t run = 0;
    for (; piece >= choice.runs[static_cast<std::size_t>(run)].count; ++run) {
      piece -= choice.runs[static_cast<std::size_t>(run)].count;
    }
    return run;
  }

  // Of the rank or, where the resource is pooled, of its host.
  Bytes room_of(int rank, std::size_t resource) const {
    const int host = rank / problem_.ranks_per_host;
    if (!problem_.resources[resource].is_pooled || host >= problem_.num_hosts())
      return cap_of(rank, resource);
    Bytes sum = 0;
    for (int r = 0; r < problem_.ranks_per_host; ++r) {
      sum += cap_of(host * problem_.ranks_per_host + r, resource);
    }
    return sum;
  }

  Bytes cap_of(int rank, std::size_t resource) const {
    return problem_.caps[static_cast<std::size_t>(rank)][resource];
  }

  struct Sums {
    std::int64_t charges = 0;  // of the causes named
    Loads sum{}, slowest{};    // over ranks
    std::int64_t lightest = kTarget, worth = 0;
  };

  std::int64_t charge_of(std::uint64_t causes) const {
    std::int64_t sum = 0;
    for (std::size_t cause = 0; cause < charges_.size(); ++cause) {
      if ((causes >> cause & 1) != 0) sum += charges_[cause];
    }
    return sum;
  }

  Sums sums_of(const State& state) const {
    Sums sums;
    sums.charges = charge_of(state.causes);
    for (const Rank& rank : state.ranks) {
      sums.worth += worth_of(rank.bytes);
      sums.lightest = std::min(sums.lightest, sum_of(rank.load));
      for (std::size_t g = 0; g < kMaxBarriers; ++g) {
        sums.sum[g] += rank.load[g];
        sums.slowest[g] = std::max(sums.slowest[g], rank.load[g]);
      }
    }
    return sums;
  }

  bool is_hopeless(std::size_t d, const State& state) const {
    const Sums sums = sums_of(state);
    const auto num_ranks = static_cast<std::int64_t>(state.ranks.size());
    std::int64_t least = sums.charges;
    for (std::size_t g = 0; g < kMaxBarriers; ++g) {
      least +=
          std::max(sums.slowest[g], std::min(sums.sum[g] + rest_of_[d][g], kNever) / num_ranks);
      if (least > kTarget) return true;
    }
    return exceeds(sums, rest_of_size(d, kTarget - sums.charges - sums.lightest), rest_priced_[d]);
  }

  bool is_above_target(const State& state) const {
    Loads slowest{};
    for (const Rank& rank : state.ranks) {
      for (std::size_t g = 0; g < kMaxBarriers; ++g) {
        slowest[g] = std::max(slowest[g], rank.load[g]);
      }
    }
    return charge_of(state.causes) + sum_of(slowest) > kTarget;
  }

  // Work, and work with the worth of bytes, that are still to come, at least.
  bool exceeds(const Sums& sums, std::int64_t work, std::int64_t priced) const {
    const std::int64_t room = (kTarget - sums.charges) * problem_.num_ranks;
    return sum_of(sums.sum) + work > room ||
           sum_of(sums.sum) + sums.worth + priced > room + worth_of_caps_;
  }

  std::int64_t rest_of_size(std::size_t d, std::int64_t size) const {
    if (d == units_.size()) return 0;
    const auto end = std::upper_bound(sizes_.begin(), sizes_.end(), size);
    return end == sizes_.begin() ? kNever
                                 : rest_[d][static_cast<std::size_t>(end - sizes_.begin()) - 1];
  }

  // Is there no placement of units d.. beside the state? Of a unit that is begun, `left` pieces of
  // `choice` are still to place.
  bool refutes(std::size_t d, State state, const Choice* choice = nullptr, std::int64_t left = 0) {
    if (choice == nullptr) {
      for (Rank& rank : state.ranks) {
        rank.apart |= std::exchange(rank.fresh, 0);
        rank.is_taken = false;
      }
    }
    sort(state, d);
    if (!seen_.insert(digest(d, state, choice, left)).second) return true;
    ++num_nodes_;
    if (is_over()) return false;
    if (choice != nullptr) return refutes_piece(d, state, *choice, left);
    if (is_hopeless(d, state)) return true;
    if (d == units_.size()) return false;
    const SearchUnit& unit = units_[d];
    Sums sums = sums_of(state);
    return std::all_of(unit.choices.begin(), unit.choices.end(), [&](const Choice& next) {
      sums.charges = charge_of(state.causes | next.causes);
      const std::int64_t rest = rest_of_size(d + 1, kTarget - sums.charges - sums.lightest);
      if (exceeds(sums, next.work + rest, next.work + next.worth + rest_priced_[d + 1]))
        return true;
      balance::UnitPlacement& placement = placements_.units[static_cast<std::size_t>(unit.index)];
      placement = {next.index, {}};
      State more = state;
      count(more);
      more.causes |= next.causes;
      if (excludes_itself(more.causes)) return true;
      if (next.spread != Spread::kUniform) return refutes_piece(d, more, next, next.num_steps());
      return !add(unit, next, 0, more.ranks.size(), 0, more) || refutes(d + 1, std::move(more));
    });
  }

  bool excludes_itself(std::uint64_t causes) const {
    return std::any_of(problem_.exclusive.begin(), problem_.exclusive.end(), [&](const auto& pair) {
      return (causes >> pair[0] & causes >> pair[1] & 1) != 0;
    });
  }

  bool refutes_piece(std::size_t d, const State& state, const Choice& choice, std::int64_t left) {
    const SearchUnit& unit = units_[d];
    std::vector<int>& slots = placements_.units[static_cast<std::size_t>(unit.index)].slots;
    const bool is_block = choice.spread == Spread::kHost;
    const auto width = is_block ? static_cast<std::size_t>(problem_.ranks_per_host) : 1;
    const std::size_t end = is_block ? num_host_ranks() : state.ranks.size();
    const auto done = static_cast<std::size_t>(choice.num_steps() - left);
    for (std::size_t first = 0; first + width <= end; first += width) {
      if (state.ranks[first].is_taken || is_like_the_last(d, state, first, width)) continue;
      State more = state;
      count(more);
      if (is_over()) return false;
      if (!add(unit, choice, first, width, is_block ? 0 : done, more)) continue;
      if (is_above_target(more)) continue;
      more.ranks[first].is_taken = choice.distinct_ranks;
      const int id = state.ranks[first].id;
      slots.resize(done);
      slots.push_back(is_block ? id / problem_.ranks_per_host : id);
      const bool is_dead = left == 1 ? refutes(d + 1, std::move(more))
                                     : refutes(d, std::move(more), &choice, left - 1);
      if (!is_dead) return false;
    }
    return true;
  }

  // A place beside which the one before differs in nothing, and was tried.
  bool is_like_the_last(std::size_t d, const State& state, std::size_t first,
                        std::size_t width) const {
    if (first < width) return false;
    const bool is_of_its_host = width > 1 || !keeps_hosts_[d] ||
                                (first < num_host_ranks() &&
                                 first % static_cast<std::size_t>(problem_.ranks_per_host) != 0);
    const auto at = [&](std::size_t i) {
      return state.ranks.begin() + static_cast<std::ptrdiff_t>(i);
    };
    return is_of_its_host && std::equal(at(first - width), at(first), at(first));
  }

  // The piece of every rank of a row of them: of a device choice the next one, else by the rank's
  // own place. False where one does not fit.
  bool add(const SearchUnit& unit, const Choice& choice, std::size_t first, std::size_t count,
           std::size_t piece, State& state) const {
    const std::vector<int>& allowed =
        problem_.units[static_cast<std::size_t>(unit.index)].allowed_ranks;
    for (std::size_t r = first; r < first + count; ++r) {
      Rank& rank = state.ranks[r];
      if (choice.spread == Spread::kUniform) piece = static_cast<std::size_t>(rank.id);
      if (choice.spread == Spread::kHost) {
        piece = static_cast<std::size_t>(rank.id % problem_.ranks_per_host);
      }
      if (!allowed.empty() && !std::binary_search(allowed.begin(), allowed.end(), rank.id)) {
        return false;
      }
      if ((rank.apart & unit.apart) != 0) return false;
      rank.fresh |= unit.apart;
      const Piece& part = choice.pieces[piece];
      const Loads& load = part.load[static_cast<std::size_t>(problem_.class_of(rank.id))];
      for (std::size_t g = 0; g < kMaxBarriers; ++g) rank.load[g] += load[g];
      for (std::size_t resource = 0; resource < problem_.resources.size(); ++resource)
        rank.bytes[resource] += part.bytes[resource];
      if (sum_of(rank.load) > kTarget) return false;
    }
    return fits(state, first, count);
  }

  // Do the bytes of these ranks and of their hosts?
  bool fits(const State& state, std::size_t first, std::size_t count) const {
    const auto width = static_cast<std::size_t>(problem_.ranks_per_host);
    for (std::size_t resource = 0; resource < problem_.resources.size(); ++resource) {
      for (std::size_t r = first; r < first + count; ++r) {
        const bool is_pooled = problem_.resources[resource].is_pooled && r < num_host_ranks();
        const std::size_t begin = is_pooled ? r / width * width : r;
        const std::size_t end = is_pooled ? begin + width : r + 1;
        Bytes used = 0;
        for (std::size_t i = begin; i < end; ++i) used += state.ranks[i].bytes[resource];
        if (used > room_of(state.ranks[r].id, resource)) return false;
        r = end - 1;
      }
    }
    return true;
  }

  std::size_t num_host_ranks() const {
    return static_cast<std::size_t>(problem_.num_hosts()) *
           static_cast<std::size_t>(problem_.ranks_per_host);
  }

  // States that a renaming of ranks and hosts turns into each other become equal.
  void sort(State& state, std::size_t d) const {
    std::vector<Rank>& ranks = state.ranks;
    const auto at = [&ranks](std::size_t i) {
      return ranks.begin() + static_cast<std::ptrdiff_t>(i);
    };
    const std::size_t end = num_host_ranks();
    if (!keeps_hosts_[d]) return std::sort(ranks.begin(), ranks.end());
    std::sort(at(end), ranks.end());
    const auto width = static_cast<std::size_t>(problem_.ranks_per_host);
    std::vector<std::vector<Rank>> hosts;
    for (std::size_t first = 0; first < end; first += width) {
      hosts.emplace_back(at(first), at(first + width));
      std::sort(hosts.back().begin(), hosts.back().end());
    }
    std::sort(hosts.begin(), hosts.end());
    for (std::size_t h = 0; h < hosts.size(); ++h) {
      std::copy(hosts[h].begin(), hosts[h].end(), at(h * width));
    }
  }

  Digest digest(std::size_t d, const State& state, const Choice* choice, std::int64_t left) const {
    Digest digest{0x9e3779b97f4a7c15U, 0xc2b2ae3d27d4eb4fU};
    const auto mix = [&digest](auto number) {
      const auto value = static_cast<std::uint64_t>(number);
      digest.low = (digest.low ^ value) * 0xff51afd7ed558ccdU;
      digest.low ^= digest.low >> 32;
      digest.high = (digest.high + value) * 0xc4ceb9fe1a85ec53U;
      digest.high ^= digest.high >> 29;
    };
    mix(d);
    mix(choice == nullptr ? -1 : choice->index);
    mix(left);
    mix(state.causes);
    for (const Rank& rank : state.ranks) {
      mix(rank.kind);
      mix(rank.apart);
      mix(rank.fresh);
      mix(rank.is_taken ? 1 : 0);
      for (int g = 0; g < problem_.num_barriers; ++g) mix(rank.load[static_cast<std::size_t>(g)]);
      for (std::size_t r = 0; r < problem_.resources.size(); ++r) mix(rank.bytes[r]);
    }
    return digest;
  }

  const PlacementProblem& problem_;
  const double target_;
  const double scale_;
  const ExhaustiveLimits limits_;
  const ExhaustiveScope scope_;
  bool has_prices_ = false;
  std::int64_t worth_of_caps_ = 0;
  std::vector<SearchUnit> units_;  // in the order of the search
  std::vector<std::int64_t> charges_;
  std::vector<std::int64_t> sizes_;              // ascending
  std::vector<std::vector<std::int64_t>> rest_;  // [depth][sizes]
  std::vector<Loads> rest_of_;                   // [depth]
  std::vector<std::int64_t> rest_priced_;        // [depth] of work and bytes
  std::vector<bool> keeps_hosts_;                // [depth] does it matter which ranks share a host?
  std::unordered_set<Digest, HashOfDigest> seen_;
  std::int64_t num_nodes_ = 0;
  std::int64_t num_ranks_seen_ = 0;
  balance::UnitPlacements placements_;  // on the way to the state at hand
};

bool is_in_scope(const PlacementProblem& problem) {
  if (static_cast<std::size_t>(problem.num_barriers) > kMaxBarriers ||
      problem.num_units() > kMaxUnits || problem.charges.size() > kMaxUnits ||
      problem.apart.size() > kMaxUnits || problem.num_ranks > kMaxRanks) {
    return false;
  }
  const auto is_small = [](const balance::UnitChoice& choice) {
    std::int64_t num_pieces = 0;
    for (const PieceRun& run : choice.runs) num_pieces += run.count;
    return num_pieces <= kMaxRanks && choice.num_blocks <= kMaxRanks;
  };
  return std::all_of(problem.units.begin(), problem.units.end(), [&](const balance::Unit& unit) {
    return std::all_of(unit.choices.begin(), unit.choices.end(), is_small);
  });
}

// Every placement is one of this problem too, and costs no more there.
PlacementProblem without_rules(PlacementProblem problem) {
  problem.apart.clear();
  problem.resources.clear();
  for (Amounts& caps : problem.caps) caps = {};
  for (balance::Unit& unit : problem.units) {
    unit.allowed_ranks.clear();
    for (balance::UnitChoice& choice : unit.choices) {
      PieceRun all = choice.runs.front();
      all.count = 0;
      all.bytes = {};
      for (const PieceRun& run : choice.runs) {
        all.count += run.count;
        for (std::size_t i = 0; i < run.load.size(); ++i) {
          all.load[i] = std::min(all.load[i], run.load[i]);
        }
      }
      choice.runs = {std::move(all)};
    }
  }
  return problem;
}

}  // namespace

ExhaustiveResult search_to_the_end(const PlacementProblem& problem, double target,
                                   const ExhaustiveLimits& limits, const ExhaustiveScope& scope) {
  PLIMSOLL_CHECK(validate(problem).has_value(), "the problem is valid");
  if (!is_in_scope(problem) || !(target > problem.floor_ms) || !std::isfinite(target)) return {};
  std::int64_t num_nodes = 0;
  if (scope.byte_price == balance::PerResource<double>{}) {
    const PlacementProblem relaxed = without_rules(problem);
    ExhaustiveResult result = ExhaustiveSearch(relaxed, target, limits, scope).run();
    if (result.end == ExhaustiveEnd::kRefuted) return result;
    num_nodes = result.num_nodes;
  }
  ExhaustiveResult result = ExhaustiveSearch(problem, target, limits, scope).run();
  result.num_nodes += num_nodes;
  return result;
}

}  // namespace plimsoll::check
