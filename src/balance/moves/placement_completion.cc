#include "balance/moves/placement_completion.h"

#include <algorithm>

#include "balance/problem/lightest_place.h"
#include "balance/problem/placement_judge.h"
#include "core/check.h"
#include "plimsoll/core/numbers.h"

namespace plimsoll::balance {
namespace {

using Choice = PlacementItems::Choice;

struct OpenPiece {
  double load = 0;
  int unit = 0;
  int number = 0;
};

class Completion {
 public:
  Completion(const PlacementItems& items, const CompletionOptions& options,
             const RunContext& context)
      : items_(items), options_(options), context_(context), state_(items), lightest_(state_) {}

  std::optional<UnitPlacements> run() {
    choose();
    std::vector<int> blocks;
    for (int unit = 0; unit < items_.num_units; ++unit) {
      const Choice& choice = items_.choices[chosen_[unit]];
      if (choice.spread == Spread::kHost) blocks.push_back(unit);
      if (choice.spread == Spread::kUniform && !lightest_.place(unit, chosen_[unit])) {
        return std::nullopt;
      }
    }
    std::stable_sort(blocks.begin(), blocks.end(),
                     [this](int a, int b) { return peak(a) > peak(b); });
    for (const int unit : blocks) {
      if (!lightest_.place(unit, chosen_[unit])) return std::nullopt;
    }
    find_pieces();
    if (!fill()) return std::nullopt;
    for (const OpenPiece& piece : pieces_) {
      if (piece.unit >= 0 && !put_lightest(piece)) return std::nullopt;
    }
    return state_.placements();
  }

 private:
  double peak(int unit) const { return items_.choices[chosen_[unit]].peak; }

  double price(const Choice& choice) const {
    double price = choice.work;
    for (const int resource : items_.resources) {
      price += options_.byte_price[resource] * static_cast<double>(choice.bytes[resource]);
    }
    return choice.spread == Spread::kHost ? price * options_.host_preference : price;
  }

  // What is uniform narrows the room, and what no longer fits the room becomes uniform.
  void choose() {
    constexpr int kMaxRounds = 8;
    chosen_.assign(static_cast<std::size_t>(items_.num_units), -1);
    double uniform = options_.forced_uniform;
    for (int round = 0; round < kMaxRounds; ++round) {
      room_ = options_.target - uniform;
      double next = 0;
      for (int unit = 0; unit < items_.num_units; ++unit) {
        int best = -1;
        double least = kInfinity;
        for (int c = items_.first_choice[unit]; c < items_.first_choice[unit + 1]; ++c) {
          const Choice& choice = items_.choices[c];
          if (choice.spread != Spread::kUniform && choice.peak > room_) continue;
          const double p = price(choice);
          if (p < least) least = p, best = c;
        }
        chosen_[unit] = best >= 0 ? best : items_.first_choice[unit];
        const Choice& choice = items_.choices[chosen_[unit]];
        if (choice.spread == Spread::kUniform) next += choice.peak;
      }
      if (next <= uniform * (1 + 1e-12)) break;
      uniform = next;
    }
    room_ = options_.target - uniform;
  }

  void find_pieces() {
    for (int unit = 0; unit < items_.num_units; ++unit) {
      const Choice& choice = items_.choices[chosen_[unit]];
      if (choice.spread != Spread::kDevice) continue;
      state_.take(unit, chosen_[unit]);
      for (int i = 0; i < choice.num_pieces; ++i) {
        pieces_.push_back({items_.load[PlacementItems::record_of(choice, i)], unit, i});
        sum_ += pieces_.back().load;
      }
    }
    std::stable_sort(pieces_.begin(), pieces_.end(),
                     [](const OpenPiece& a, const OpenPiece& b) { return a.load > b.load; });
  }

  // False: the context ended it.
  bool fill() {
    std::vector<int> ranks;
    double room = 0;
    for (int rank = 0; rank < items_.num_ranks; ++rank) {
      ranks.push_back(rank);
      room += room_ - lightest_.height(rank);
    }
    std::stable_sort(ranks.begin(), ranks.end(),
                     [this](int a, int b) { return lightest_.height(a) > lightest_.height(b); });
    const double enough = std::max(0.0, 0.3 * (room - sum_) / items_.num_ranks);
    const bool tries_triples =
        static_cast<double>(pieces_.size()) * items_.num_ranks < kMaxTripleWork;
    for (const int rank : ranks) {
      if (is_stopped(context_)) return false;
      alive_.clear();
      for (int i = 0; i < static_cast<int>(pieces_.size()); ++i) {
        if (pieces_[i].unit >= 0) alive_.push_back(i);
      }
      if (alive_.empty()) break;
      fill_rank(rank, enough, tries_triples);
    }
    return true;
  }

  double load(std::size_t at) const { return pieces_[alive_[at]].load; }

  // The first of alive_ that is no larger than the room.
  std::size_t first_within(double room) const {
    return static_cast<std::size_t>(
        std::partition_point(alive_.begin(), alive_.end(),
                             [&](int piece) { return pieces_[piece].load > room; }) -
        alive_.begin());
  }

  void fill_rank(int rank, double enough, bool tries_triples) {
    double room = room_ - lightest_.height(rank);
    bool is_first = true;
    int num_refused = 0;
    while (!alive_.empty() && room > enough && num_refused < kMaxRefused) {
      std::vector<std::size_t> best;
      double most = 0;
      const std::size_t single = first_within(room);
      if (single == alive_.size()) return;
      best = {single};
      most = load(single);
      if (!is_first) {
        find_pair(room, 0, {}, most, best);
        if (tries_triples && room - most > enough) {
          constexpr std::size_t kFirsts = 24;
          const std::size_t step = std::max<std::size_t>(1, (alive_.size() - single) / kFirsts);
          for (std::size_t i = single; i < alive_.size() && room - most > enough; i += step) {
            find_pair(room - load(i), load(i), {i}, most, best);
          }
        }
        // Nothing completes the rank: one more large piece, and again.
        if (room - most > enough && best.size() > 1) best = {single};
      }
      is_first = false;
      std::sort(best.begin(), best.end(), std::greater<>());
      for (const std::size_t at : best) {
        OpenPiece& piece = pieces_[alive_[at]];
        ++num_refused;
        if (state_.can_put(piece.unit, chosen_[piece.unit], piece.number, rank)) {
          lightest_.put(piece.unit, piece.number, rank);
          room -= piece.load;
          piece.unit = -1;
          --num_refused;
        }
        alive_.erase(alive_.begin() + static_cast<std::ptrdiff_t>(at));
      }
    }
  }

  // Two different pieces, none of `with`, that fill the room best.
  void find_pair(double room, double base, const std::vector<std::size_t>& with, double& most,
                 std::vector<std::size_t>& best) const {
    std::size_t i = first_within(room);
    std::size_t j = alive_.size();
    // As the first falls, the second may rise.
    while (i < j) {
      while (j > i + 1 && load(j - 1) + load(i) <= room) --j;
      if (j < alive_.size() && load(i) + load(j) <= room && base + load(i) + load(j) > most &&
          (with.empty() || (with[0] != i && with[0] != j))) {
        most = base + load(i) + load(j);
        best = with;
        best.push_back(i);
        best.push_back(j);
      }
      ++i;
    }
  }

  bool put_lightest(const OpenPiece& piece) {
    int best = -1;
    for (int rank = 0; rank < items_.num_ranks; ++rank) {
      if (best >= 0 && lightest_.height(rank) >= lightest_.height(best)) continue;
      if (state_.can_put(piece.unit, chosen_[piece.unit], piece.number, rank)) best = rank;
    }
    if (best < 0) return false;
    lightest_.put(piece.unit, piece.number, best);
    return true;
  }

  static constexpr double kMaxTripleWork = 3e5;
  static constexpr int kMaxRefused = 50;  // pieces that lack memory before a rank counts as full

  const PlacementItems& items_;
  const CompletionOptions& options_;
  const RunContext& context_;
  PlacementState state_;
  LightestPlace lightest_;
  std::vector<int> chosen_;  // [units]
  double room_ = 0;
  std::vector<OpenPiece> pieces_;  // by falling load; unit -1: placed
  std::vector<int> alive_;         // pieces that the rank at hand may take
  double sum_ = 0;                 // of all pieces
};

}  // namespace

std::optional<UnitPlacements> complete_bins(const PlacementItems& items,
                                            const CompletionOptions& options,
                                            const RunContext& context) {
  PLIMSOLL_CHECK(items.empty_units.empty(), "every unit has a choice");
  PLIMSOLL_CHECK(items.stride == 1, "there is one barrier and one class of ranks");
  return Completion(items, options, context).run();
}

std::optional<Start> complete_best(const PlacementItems& items, const StartOptions& options,
                                   EffortClock& clock) {
  constexpr double kFactors[] = {1.0005, 1.001, 1.002, 1.004, 1.008, 1.015, 1.03, 1.06};
  std::optional<Start> best;
  int num_worse = 0;
  for (const double factor : kFactors) {
    if (clock.is_stopped() || num_worse == 3) break;
    CompletionOptions one;
    one.target = options.lower_bound * factor;
    one.forced_uniform = options.forced_uniform;
    one.byte_price = options.byte_price;
    if (clock.spend(items.num_units)) break;
    std::optional<UnitPlacements> placements = complete_bins(items, one, clock.context());
    if (clock.spend(0)) break;  // a replay stops before the completion
    if (!placements) continue;
    const PlacementValue value = evaluate(*items.problem, *placements);
    if (!value.is_allowed()) continue;
    num_worse = best && value.objective >= best->objective ? num_worse + 1 : 0;
    if (!best || value.objective < best->objective) {
      best = Start{*std::move(placements), value.objective};
    }
    if (best->objective > kFarOff * options.lower_bound) break;  // pieces that do not fill ranks
  }
  return best;
}

}  // namespace plimsoll::balance
