#include "balance/tight/block_dealing.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <utility>

#include "plimsoll/core/numbers.h"

namespace plimsoll::balance {
namespace {

constexpr std::int64_t kMostWays = 4096;
constexpr double kEqual = 1e-9;  // of energies

// Blocks that need the same.
struct Kind {
  std::vector<int> units;
  std::vector<int> choices;  // [units]
};

// A host's ranks in the mean, as a share of caps.
struct Host {
  std::vector<double> over;     // [resources] use / cap - 1
  std::vector<double> inverse;  // [resources] 1 / cap

  double energy() const {
    double sum = 0;
    for (const double share : over) sum += OverdraftState::term_of(std::max(share, 0.0));
    return sum;
  }
  void add(const double* need, double times) {
    for (std::size_t d = 0; d < over.size(); ++d) over[d] += times * need[d] * inverse[d];
  }
};

class BlockDealing {
 public:
  BlockDealing(OverdraftState& state, int a, int b, SplitMix64& random)
      : state_(state), random_(random), a_(a), b_(b) {
    find_kinds(a);
    find_kinds(b);
    leave_out();
    for (const Kind& kind : kinds_) {
      for (const int unit : kind.units) state_.remove(unit);
    }
  }

  void deal(const std::vector<double>& pieces) {
    const std::vector<std::size_t> on_a = find_best(pieces);
    for (std::size_t k = 0; k < kinds_.size(); ++k) {
      const Kind& kind = kinds_[k];
      for (std::size_t i = 0; i < kind.units.size(); ++i) {
        state_.take(kind.units[i], kind.choices[i]);
        state_.put(kind.units[i], 0, i < on_a[k] ? a_ : b_);
      }
    }
  }

 private:
  const double* need(const Kind& kind) const { return state_.need(kind.choices[0], 0); }

  void find_kinds(int host) {
    for (const int slot : state_.slots_on_host(host)) {
      const int unit = state_.items().unit_of_slot[slot], choice = state_.choice(unit);
      if (state_.items().choices[choice].num_pieces != 1) continue;
      const double* needed = state_.need(choice, 0);
      auto kind = std::find_if(kinds_.begin(), kinds_.end(), [&](const Kind& k) {
        return std::equal(needed, needed + state_.num_resources(), need(k));
      });
      if (kind == kinds_.end()) kind = kinds_.insert(kinds_.end(), Kind{});
      kind->units.push_back(unit);
      kind->choices.push_back(choice);
    }
  }

  // Kinds that make too many ways.
  void leave_out() {
    for (std::size_t i = kinds_.size(); i > 1; --i) {
      std::swap(kinds_[i - 1], kinds_[random_.below(static_cast<int>(i))]);
    }
    std::int64_t ways = 1;
    std::size_t num_kept = 0;
    for (; num_kept < kinds_.size(); ++num_kept) {
      ways *= std::ssize(kinds_[num_kept].units) + 1;
      if (ways > kMostWays) break;
    }
    kinds_.resize(num_kept);
  }

  Host mean_of(int host, const std::vector<double>& pieces) const {
    const int width = state_.items().width;
    Host mean{std::vector<double>(pieces.size()), std::vector<double>(pieces.size())};
    for (int rank = host * width; rank < (host + 1) * width; ++rank) {
      for (std::size_t d = 0; d < pieces.size(); ++d) {
        mean.over[d] += (state_.over(rank, d) + pieces[d]) * state_.inverse_cap(rank, d) / width;
        mean.inverse[d] += state_.inverse_cap(rank, d) / width;
      }
    }
    return mean;
  }

  // [kinds] how many the first host takes.
  std::vector<std::size_t> find_best(const std::vector<double>& pieces) {
    Host a = mean_of(a_, pieces), b = mean_of(b_, pieces);
    for (const Kind& kind : kinds_) b.add(need(kind), static_cast<double>(kind.units.size()));
    std::vector<std::size_t> on_a(kinds_.size(), 0), best;
    double least = kInfinity;
    int num_equal = 0;
    std::int64_t num_ways = 0;
    do {
      ++num_ways;
      const double energy = a.energy() + b.energy();
      if (energy < least - kEqual) num_equal = 0;
      if (energy < least + kEqual && random_.below(++num_equal) == 0) best = on_a;
      least = std::min(least, energy);
    } while (next(on_a, a, b));
    state_.count_looks(2 * num_ways);
    return best;
  }

  // Of numbers with one digit a kind; is there one more?
  bool next(std::vector<std::size_t>& on_a, Host& a, Host& b) const {
    for (std::size_t k = 0; k < kinds_.size(); ++k) {
      const bool is_full = on_a[k] == kinds_[k].units.size();
      const double more = is_full ? -static_cast<double>(on_a[k]) : 1;
      a.add(need(kinds_[k]), more);
      b.add(need(kinds_[k]), -more);
      on_a[k] = is_full ? 0 : on_a[k] + 1;
      if (!is_full) return true;
    }
    return false;
  }

  OverdraftState& state_;
  SplitMix64& random_;
  int a_, b_;
  std::vector<Kind> kinds_;
};

}  // namespace

void deal_blocks(OverdraftState& state, int a, int b, const std::vector<double>& pieces,
                 SplitMix64& random) {
  BlockDealing(state, a, b, random).deal(pieces);
}

}  // namespace plimsoll::balance
