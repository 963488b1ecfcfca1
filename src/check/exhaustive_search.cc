#include "plimsoll/check/exhaustive_search.h"

#include <algorithm>
#include <cmath>
#include <compare>
#include <unordered_set>
#include <utility>
#include <vector>

namespace plimsoll::check {
namespace {

using solve::PieceRun;
using solve::PlacementProblem;
using solve::Spread;
using solve::TierBytes;

constexpr std::int64_t kTarget = std::int64_t{1} << 40;  // the target in whole units
constexpr std::int64_t kNever = std::int64_t{1} << 61;
constexpr int kMaxUnits = 64;
constexpr int kMaxRanks = 512;  // and pieces, and blocks, of a choice

struct Rank {
  int kind = 0;  // of caps
  std::int64_t load = 0;
  TierBytes bytes{};
  auto operator<=>(const Rank&) const = default;
};
using State = std::vector<Rank>;  // host by host, then the ranks of no host

// `count` equal pieces (device), blocks (host), or one piece everywhere.
struct Choice {
  Spread spread = Spread::kDevice;
  std::int64_t count = 1;
  std::int64_t load = 0;
  TierBytes bytes{};
  std::int64_t work = 0;  // on all ranks together
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
  ExhaustiveSearch(const PlacementProblem& problem, double target, bool counts_bytes,
                   std::int64_t max_nodes)
      : problem_(problem),
        scale_(static_cast<double>(kTarget) / (target - problem.floor_ms)),
        counts_bytes_(counts_bytes),
        max_nodes_(max_nodes) {
    for (const solve::Unit& unit : problem.units) units_.push_back(choices_of(unit));
    cascade();
    std::stable_sort(units_.begin(), units_.end(), [](const auto& a, const auto& b) {
      return std::pair(is_forced(a), least_work(a)) > std::pair(is_forced(b), least_work(b));
    });
    measure_rest();
  }

  ExhaustiveResult run() {
    State state(static_cast<std::size_t>(problem_.num_ranks));
    if (counts_bytes_) {
      for (std::size_t r = 0; r < state.size(); ++r) {
        const auto same = std::find(problem_.caps.begin(), problem_.caps.end(), problem_.caps[r]);
        state[r].kind = static_cast<int>(same - problem_.caps.begin());
      }
    }
    const bool is_refuted = refutes(0, std::move(state));
    if (num_nodes_ > max_nodes_) return {ExhaustiveEnd::kLimit, num_nodes_};
    return {is_refuted ? ExhaustiveEnd::kRefuted : ExhaustiveEnd::kFound, num_nodes_};
  }

 private:
  static std::int64_t least_work(const std::vector<Choice>& choices) {
    std::int64_t least = kNever;
    for (const Choice& choice : choices) least = std::min(least, choice.work);
    return least;
  }

  std::vector<Choice> choices_of(const solve::Unit& unit) const {
    std::vector<Choice> choices;
    for (const solve::UnitChoice& given : unit.choices) {
      Choice choice{given.spread, 0, kNever, {}, 0};
      choice.bytes.fill(kNever);
      std::int64_t num_pieces = 0;
      for (const PieceRun& run : given.runs) {
        choice.load = std::min(
            choice.load, static_cast<std::int64_t>(std::min(std::floor(run.load.front() * scale_),
                                                            2.0 * double{kTarget})));
        for (std::size_t t = 0; t < choice.bytes.size(); ++t) {
          choice.bytes[t] = std::min(choice.bytes[t], run.bytes[t]);
        }
        num_pieces += run.count;
      }
      if (choice.load > kTarget) continue;
      choice.count = given.spread == Spread::kDevice ? num_pieces : given.num_blocks;
      choice.work = choice.load * num_pieces * (given.spread == Spread::kHost ? choice.count : 1);
      choices.push_back(choice);
    }
    return choices;
  }

  static bool is_forced(const std::vector<Choice>& choices) {
    return std::all_of(choices.begin(), choices.end(),
                       [](const Choice& choice) { return choice.spread == Spread::kUniform; });
  }

  // What can only be everywhere is everywhere, and a piece must fit beside it.
  void cascade() {
    for (bool is_changed = true; is_changed;) {
      is_changed = false;
      std::int64_t forced = 0;
      for (const auto& choices : units_) {
        if (is_forced(choices)) forced = std::min(forced + least_load(choices), kTarget + 1);
      }
      for (auto& choices : units_) {
        if (is_forced(choices)) continue;
        is_changed |= std::erase_if(choices, [forced](const Choice& choice) {
                        return choice.load > kTarget - forced;
                      }) > 0;
      }
    }
  }

  static std::int64_t least_load(const std::vector<Choice>& choices) {
    std::int64_t least = kTarget + 1;
    for (const Choice& choice : choices) least = std::min(least, choice.load);
    return least;
  }

  // The least work of units d.. whose pieces are no larger than a size, for every size.
  void measure_rest() {
    for (const auto& choices : units_) {
      for (const Choice& choice : choices) sizes_.push_back(choice.load);
    }
    std::sort(sizes_.begin(), sizes_.end());
    sizes_.erase(std::unique(sizes_.begin(), sizes_.end()), sizes_.end());
    rest_.assign(units_.size() + 1, std::vector<std::int64_t>(sizes_.size(), 0));
    has_blocks_from_.assign(units_.size() + 1, false);
    for (std::size_t d = units_.size(); d-- > 0;) {
      has_blocks_from_[d] = has_blocks_from_[d + 1];
      for (std::size_t k = 0; k < sizes_.size(); ++k) {
        std::int64_t least = kNever;
        for (const Choice& choice : units_[d]) {
          if (choice.load <= sizes_[k]) least = std::min(least, choice.work);
          if (choice.spread == Spread::kHost) has_blocks_from_[d] = true;
        }
        rest_[d][k] = std::min(rest_[d + 1][k] + least, kNever);
      }
    }
  }

  bool is_hopeless(std::size_t d, const State& state) const {
    std::int64_t sum = 0, lightest = kTarget;
    for (const Rank& rank : state) {
      sum += rank.load;
      lightest = std::min(lightest, rank.load);
    }
    const auto end = std::upper_bound(sizes_.begin(), sizes_.end(), kTarget - lightest);
    const auto num_sizes = static_cast<std::size_t>(end - sizes_.begin());
    const std::int64_t rest = d == units_.size() ? 0
                              : num_sizes == 0   ? kNever
                                                 : rest_[d][num_sizes - 1];
    return sum + rest > kTarget * static_cast<std::int64_t>(state.size());
  }

  // Is there no placement of units d.. beside the state? Of a unit that is begun, `left` pieces of
  // `choice` are still to place.
  bool refutes(std::size_t d, State state, const Choice* choice = nullptr, std::int64_t left = 0) {
    sort(state, d);
    if (!seen_.insert(digest(d, state, choice, left)).second) return true;
    if (++num_nodes_ > max_nodes_) return false;
    if (choice != nullptr) return refutes_piece(d, state, *choice, left);
    if (is_hopeless(d, state)) return true;
    if (d == units_.size()) return false;
    return std::all_of(units_[d].begin(), units_[d].end(), [&](const Choice& next) {
      if (next.spread != Spread::kUniform) return refutes_piece(d, state, next, next.count);
      State more = state;
      return !add(next, 0, more.size(), more) || refutes(d + 1, std::move(more));
    });
  }

  bool refutes_piece(std::size_t d, const State& state, const Choice& choice, std::int64_t left) {
    const bool is_block = choice.spread == Spread::kHost;
    const auto width = is_block ? static_cast<std::size_t>(problem_.ranks_per_host) : 1;
    const std::size_t end = is_block ? num_host_ranks() : state.size();
    for (std::size_t first = 0; first + width <= end; first += width) {
      const bool is_repeated =
          first >= width &&
          std::equal(state.begin() + static_cast<std::ptrdiff_t>(first - width),
                     state.begin() + static_cast<std::ptrdiff_t>(first),
                     state.begin() + static_cast<std::ptrdiff_t>(first)) &&
          (is_block || first % static_cast<std::size_t>(problem_.ranks_per_host) != 0 ||
           !has_blocks_from_[d]);
      if (is_repeated) continue;
      State more = state;
      if (!add(choice, first, width, more)) continue;
      const bool is_dead = left == 1 ? refutes(d + 1, std::move(more))
                                     : refutes(d, std::move(more), &choice, left - 1);
      if (!is_dead) return false;
    }
    return true;
  }

  // A piece on each of some ranks; false where it does not fit.
  bool add(const Choice& choice, std::size_t first, std::size_t count, State& state) const {
    for (std::size_t r = first; r < first + count; ++r) {
      Rank& rank = state[r];
      rank.load += choice.load;
      if (rank.load > kTarget) return false;
      if (!counts_bytes_) continue;
      const TierBytes& caps = problem_.caps[static_cast<std::size_t>(rank.kind)];
      for (std::size_t t = 0; t < caps.size(); ++t) {
        rank.bytes[t] += choice.bytes[t];
        if (!problem_.is_pooled[t] && rank.bytes[t] > caps[t]) return false;
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
    const auto at = [&state](std::size_t i) {
      return state.begin() + static_cast<std::ptrdiff_t>(i);
    };
    const std::size_t end = num_host_ranks();
    if (!has_blocks_from_[d]) return std::sort(state.begin(), state.end());
    std::sort(at(end), state.end());
    const auto width = static_cast<std::size_t>(problem_.ranks_per_host);
    std::vector<State> hosts;
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
    const auto mix = [&digest](std::int64_t number) {
      const auto value = static_cast<std::uint64_t>(number);
      digest.low = (digest.low ^ value) * 0xff51afd7ed558ccdU;
      digest.low ^= digest.low >> 32;
      digest.high = (digest.high + value) * 0xc4ceb9fe1a85ec53U;
      digest.high ^= digest.high >> 29;
    };
    mix(static_cast<std::int64_t>(d));
    mix(choice == nullptr ? -1 : choice - units_[d].data());
    mix(left);
    for (const Rank& rank : state) {
      mix(rank.load);
      if (!counts_bytes_) continue;
      mix(rank.kind);
      for (const Bytes bytes : rank.bytes) mix(bytes);
    }
    return digest;
  }

  const PlacementProblem& problem_;
  const double scale_;
  const bool counts_bytes_;
  const std::int64_t max_nodes_;
  std::vector<std::vector<Choice>> units_;       // in the order of the search
  std::vector<std::int64_t> sizes_;              // ascending
  std::vector<std::vector<std::int64_t>> rest_;  // [depth][sizes]
  std::vector<bool> has_blocks_from_;            // [depth]
  std::unordered_set<Digest, HashOfDigest> seen_;
  std::int64_t num_nodes_ = 0;
};

bool is_in_scope(const PlacementProblem& problem) {
  if (problem.num_barriers != 1 || problem.num_rank_classes != 1 || !problem.charges.empty() ||
      problem.num_units() > kMaxUnits || problem.num_ranks > kMaxRanks) {
    return false;
  }
  const auto is_small = [](const solve::UnitChoice& choice) {
    std::int64_t num_pieces = 0;
    for (const PieceRun& run : choice.runs) num_pieces += run.count;
    return num_pieces <= kMaxRanks && choice.num_blocks <= kMaxRanks;
  };
  return std::all_of(problem.units.begin(), problem.units.end(), [&](const solve::Unit& unit) {
    return std::all_of(unit.choices.begin(), unit.choices.end(), is_small);
  });
}

}  // namespace

ExhaustiveResult search_to_the_end(const PlacementProblem& problem, double target,
                                   std::int64_t max_nodes) {
  if (!is_in_scope(problem) || !(target > problem.floor_ms)) return {};
  ExhaustiveResult result = ExhaustiveSearch(problem, target, false, max_nodes).run();
  if (result.end == ExhaustiveEnd::kRefuted) return result;
  const std::int64_t num_nodes = result.num_nodes;
  result = ExhaustiveSearch(problem, target, true, max_nodes).run();
  result.num_nodes += num_nodes;
  return result;
}

}  // namespace plimsoll::check
