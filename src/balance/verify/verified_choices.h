// What of a placement problem a bound's proof may rest on: the checker's own view (verify_bound.h).
//
// Ranks and hosts that look alike are visited once. Blocks on the only host there is count as
// uniform, and a choice that another can replace is left out: it is in no better placement, and
// bounds by contents would be lower with it, for a unit could fill a rank twice. `filter` then says
// which choices a placement of at most a target may take, by the cascade of target_filter.h, with
// no code of the searches.
#pragma once

#include <algorithm>
#include <cstdint>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include "plimsoll/balance/placement_problem.h"
#include "plimsoll/core/numbers.h"

namespace plimsoll::balance {

// A witness may hold anything. Numbers of it that stand in sums are no larger than this, so that no
// sum overflows; searches give far smaller ones.
inline constexpr double kLargestNumber = 1e30;
inline bool is_number(double x) { return x >= 0 && x <= kLargestNumber; }

// The smaller; a number that is none wins, to be found at the end.
inline double lesser(double a, double b) { return b >= a ? a : b; }

// What a sum of so many terms, of this magnitude in all, may be off by.
inline double rounding_of(double magnitude, double num_terms) {
  return 0x1p-52 * num_terms * magnitude;
}

class VerifiedChoices {
 public:
  // The first rank, or host, of those that differ in nothing the theorems look at; checking one of
  // them checks all.
  struct Profile {
    int rank = 0;
    double count = 0;
  };

  // Precondition: as many kinds as ranks, each at least 0.
  VerifiedChoices(const PlacementProblem& problem, const std::vector<int>& kind_of_rank);

  const PlacementProblem& problem() const { return problem_; }
  int num_kinds() const { return num_kinds_; }
  int kind_of(int rank) const { return kind_of_rank_[rank]; }
  const std::vector<Profile>& ranks() const { return profiles_; }
  const std::vector<Profile>& hosts() const { return hosts_; }
  int profile_of(int rank) const { return profile_of_[rank]; }

  // Keeps what a placement of at most `target` may use that names none of the causes `forbidden`
  // (a bit each), of the choices `allowed` ([units][choices]; empty: all); false: there is none.
  bool filter(double target, std::uint64_t forbidden,
              const std::vector<std::vector<char>>& allowed = {});
  bool is_alive(int unit, std::size_t choice) const { return alive_[unit][choice] != 0; }
  const UnitChoice& choice_at(int unit, std::size_t choice) const {
    return problem_.units[unit].choices[choice];
  }

  // Where the choice stands in the problem that was given.
  int index_of(int unit, std::size_t choice) const { return index_[unit][choice]; }
  // What a rank may hold of a resource: its own cap or its pool's.
  Bytes room_of(int rank, int resource) const;

  double load_on(const PieceRun& run, int rank) const;
  // Does a piece fit the rank, over what other units put there anyway?
  bool fits(int unit, const PieceRun& run, int rank) const;
  bool fits_row(int unit, const UnitChoice& choice, int first) const;
  // May the unit be on any rank or host that looks like this one?
  bool may_stand(int unit, bool is_host, int at) const;

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

  // Visits (run, rank, count) of pieces in a row from a rank on: `count` equal pieces on as many
  // ranks that look alike, of which `rank` is the first.
  template <class Visit>
  void for_row(const UnitChoice& choice, int rank, const Visit& visit) const {
    for (const PieceRun& run : choice.runs) {
      for (std::int64_t left = run.count; left > 0;) {
        const std::int64_t count = std::min<std::int64_t>(left, end_of_alike_[rank] - rank);
        visit(run, rank, static_cast<double>(count));
        rank += static_cast<int>(count);
        left -= count;
      }
    }
  }

  double price_of(const std::vector<double>& price, int rank, int resource) const {
    return price.empty() ? 0
                         : price[static_cast<std::size_t>(kind_of(rank)) *
                                     static_cast<std::size_t>(problem_.num_resources()) +
                                 static_cast<std::size_t>(resource)];
  }

  // Not negative nor too large, as many as kinds and resources, one a pool; else the fault is told.
  template <class Number>
  bool are_prices(const std::vector<Number>& price, std::string& fault) const {
    const std::size_t wanted =
        static_cast<std::size_t>(num_kinds_) * static_cast<std::size_t>(problem_.num_resources());
    constexpr double kLargestWeight = 0x1p40;  // of bytes, in sums of 128 bits
    const double largest = std::is_integral_v<Number> ? kLargestWeight : kLargestNumber;
    const auto is_price = [largest](Number p) {
      return p >= 0 && static_cast<double>(p) <= largest;
    };
    if (price.size() != wanted || !std::all_of(price.begin(), price.end(), is_price)) {
      if (fault.empty()) fault = "prices of bytes are missing, negative or too large";
      return false;
    }
    for (int resource = 0; resource < problem_.num_resources(); ++resource) {
      if (!problem_.resources[resource].is_pooled) continue;
      for (int rank = 0; rank < problem_.num_ranks; ++rank) {
        const int host = host_of(rank);
        if (host < 0) continue;
        const auto at = [&](int r) {
          return price[static_cast<std::size_t>(kind_of(r)) *
                           static_cast<std::size_t>(problem_.num_resources()) +
                       static_cast<std::size_t>(resource)];
        };
        if (at(rank) != at(host * problem_.ranks_per_host)) {
          if (fault.empty()) fault = "the price of a pool differs between its ranks";
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
        for_row(choice, 0, [&](const PieceRun& run, int rank, double count) {
          sum += static_cast<Sum>(count) * cost(run, rank);
        });
        break;
      case Spread::kHost: {
        Sum least = 0;
        bool is_first = true;
        for_hosts(unit, [&](int host) {
          if (!fits_row(unit, choice, host * problem_.ranks_per_host)) return;
          Sum block = 0;
          for_row(choice, host * problem_.ranks_per_host,
                  [&](const PieceRun& run, int rank, double count) {
                    block += static_cast<Sum>(count) * cost(run, rank);
                  });
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
      for (std::size_t c = 0; c < problem_.units[unit].choices.size(); ++c) {
        if (!is_alive(unit, c)) continue;
        const Sum value = least_cost<Sum>(unit, choice_at(unit, c), cost);
        least = is_first || value < least ? value : least;
        is_first = false;
      }
      sum += least;
    }
    return sum;
  }

 private:
  struct Floor {
    double load = 0;
    Amounts bytes{};
    bool operator==(const Floor&) const = default;
  };
  int host_of(int rank) const;
  void find_profiles();
  bool is_allowed(int unit, int rank) const;
  // Ranks that one visited by for_ranks stands for.
  double count_of(int unit, int rank) const;
  bool stands(int unit, const UnitChoice& choice) const;
  void raise_floors();

  std::vector<std::vector<int>> index_;  // [units][choices]
  const PlacementProblem problem_;       // reduced
  const std::vector<int>& kind_of_rank_;
  int num_kinds_ = 0;
  std::vector<Profile> profiles_;     // of ranks
  std::vector<Profile> hosts_;        // `rank` is the host
  std::vector<int> profile_of_;       // [ranks]
  std::vector<int> end_of_alike_;     // [ranks] the first rank after it with another profile
  std::vector<int> profile_of_host_;  // [hosts]
  std::vector<Amounts> room_of_;      // [profiles]
  std::uint64_t forbidden_ = 0;
  double target_ = kInfinity;
  std::vector<std::vector<char>> alive_;  // [units][choices]
  std::vector<std::vector<Floor>> own_;   // [units][profiles] of units that can only be uniform
  std::vector<Floor> floor_;              // [profiles] of all of them
};

}  // namespace plimsoll::balance
