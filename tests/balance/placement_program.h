// A placement problem as a mixed-integer program: an oracle that shares nothing with our searches.
//
// Columns: a binary a choice; of device choices the pieces of every run on every rank, of host
// choices the blocks on every host; a binary a cause that is paid for; the slowest load of every
// barrier; and, of units to stay apart, whether they hold anything on a rank.
#pragma once

#include <algorithm>
#include <utility>
#include <vector>

#include "math/milp.h"
#include "plimsoll/balance/placement_problem.h"

namespace plimsoll::balance::testing {

class PlacementProgram {
 public:
  explicit PlacementProgram(const PlacementProblem& problem) : problem_(problem) {
    const auto num_ranks = static_cast<std::size_t>(problem.num_ranks);
    loads_.resize(num_ranks * static_cast<std::size_t>(problem.num_barriers));
    bytes_.resize(num_ranks * problem_.resources.size());
    for (int g = 0; g < problem.num_barriers; ++g) {
      slowest_.push_back(program_.add_column(0, kInfinity, 1));
    }
    for (const double charge : problem.charges) causes_.push_back(program_.add_binary(charge));
    holds_.assign(problem.units.size() * num_ranks, -1);
    for (int unit = 0; unit < problem.num_units(); ++unit) add_unit(unit);
    add_loads();
    add_caps();
    add_apart();
  }

  // Its objective lacks the problem's floor.
  const math::MilpProblem& program() const { return program_; }

 private:
  bool is_allowed(int unit, int first, int end) const {
    const std::vector<int>& allowed = problem_.units[unit].allowed_ranks;
    bool is_open = true;
    for (int rank = first; rank < end && !allowed.empty(); ++rank) {
      is_open &= std::find(allowed.begin(), allowed.end(), rank) != allowed.end();
    }
    return is_open;
  }

  bool is_apart(int unit) const {
    return std::any_of(problem_.apart.begin(), problem_.apart.end(), [&](const auto& set) {
      return std::find(set.begin(), set.end(), unit) != set.end();
    });
  }

  // What one of the column puts on a rank.
  void put(int unit, const PieceRun& run, int rank, int column, double most) {
    for (int g = 0; g < problem_.num_barriers; ++g) {
      const double load = run.load[problem_.class_of(rank) * problem_.num_barriers + g];
      add(loads_[rank * problem_.num_barriers + g], column, load);
    }
    for (int resource = 0; resource < problem_.num_resources(); ++resource) {
      add(bytes_[rank * problem_.num_resources() + resource], column,
          static_cast<double>(run.bytes[resource]));
    }
    if (!is_apart(unit)) return;
    int& holds = holds_[unit * problem_.num_ranks + rank];
    if (holds < 0) holds = program_.add_binary();
    program_.add_row(-kInfinity, {{column, 1}, {holds, -most}}, 0);
  }

  static void add(std::vector<math::MilpTerm>& terms, int column, double value) {
    const auto known = std::find_if(terms.begin(), terms.end(), [&](const math::MilpTerm& term) {
      return term.column == column;
    });
    if (known != terms.end()) {
      known->coefficient += value;
    } else if (value != 0) {
      terms.push_back({column, value});
    }
  }

  void put_row(int unit, const UnitChoice& choice, int first, int column, double most) {
    int rank = first;
    for (const PieceRun& run : choice.runs) {
      for (std::int64_t i = 0; i < run.count; ++i) put(unit, run, rank++, column, most);
    }
  }

  void add_unit(int unit) {
    std::vector<math::MilpTerm> one;
    for (const UnitChoice& choice : problem_.units[unit].choices) {
      const int taken = program_.add_binary();
      one.push_back({taken, 1});
      for (const int cause : choice.causes) {
        program_.add_row(-kInfinity, {{taken, 1}, {causes_[cause], -1}}, 0);
      }
      if (choice.spread == Spread::kUniform) {
        put_row(unit, choice, 0, taken, 1);
        if (!is_allowed(unit, 0, problem_.num_ranks)) program_.columns[taken].upper = 0;
      } else if (choice.spread == Spread::kHost) {
        const auto count = static_cast<double>(choice.num_blocks);
        std::vector<math::MilpTerm> all = {{taken, -count}};
        for (int host = 0; host < problem_.num_hosts(); ++host) {
          const int first = host * problem_.ranks_per_host;
          if (!is_allowed(unit, first, first + problem_.ranks_per_host)) continue;
          const int blocks = program_.add_column(0, count, 0, true);
          all.push_back({blocks, 1});
          put_row(unit, choice, first, blocks, count);
        }
        program_.add_row(0, all, 0);
      } else {
        std::vector<std::vector<math::MilpTerm>> on_rank(
            static_cast<std::size_t>(problem_.num_ranks));
        for (const PieceRun& run : choice.runs) {
          const auto count = static_cast<double>(run.count);
          std::vector<math::MilpTerm> all = {{taken, -count}};
          for (int rank = 0; rank < problem_.num_ranks; ++rank) {
            if (!is_allowed(unit, rank, rank + 1)) continue;
            const int pieces = program_.add_column(0, count, 0, true);
            all.push_back({pieces, 1});
            on_rank[static_cast<std::size_t>(rank)].push_back({pieces, 1});
            put(unit, run, rank, pieces, count);
          }
          program_.add_row(0, all, 0);
        }
        for (const auto& pieces : on_rank) {
          if (choice.distinct_ranks && !pieces.empty()) program_.add_row(-kInfinity, pieces, 1);
        }
      }
    }
    program_.add_row(1, one, 1);
  }

  void add_loads() {
    for (std::size_t i = 0; i < loads_.size(); ++i) {
      std::vector<math::MilpTerm> terms = loads_[i];
      terms.push_back({slowest_[i % slowest_.size()], -1});
      program_.add_row(-kInfinity, terms, 0);
    }
  }

  void add_caps() {
    for (int resource = 0; resource < problem_.num_resources(); ++resource) {
      const int width = problem_.resources[resource].is_pooled ? problem_.ranks_per_host : 1;
      for (int first = 0; first < problem_.num_ranks;) {
        const bool is_whole = first / width < problem_.num_ranks / width;
        std::vector<math::MilpTerm> terms;
        double cap = 0;
        const int end = is_whole ? first + width : first + 1;
        for (; first < end; ++first) {
          for (const math::MilpTerm& term : bytes_[first * problem_.num_resources() + resource]) {
            add(terms, term.column, term.coefficient);
          }
          cap += static_cast<double>(problem_.caps[first][resource]);
        }
        if (!terms.empty()) program_.add_row(-kInfinity, terms, cap);
      }
    }
  }

  void add_apart() {
    for (const std::vector<int>& set : problem_.apart) {
      for (int rank = 0; rank < problem_.num_ranks; ++rank) {
        std::vector<math::MilpTerm> terms;
        for (const int unit : set) {
          const int holds = holds_[unit * problem_.num_ranks + rank];
          if (holds >= 0) terms.push_back({holds, 1});
        }
        if (!terms.empty()) program_.add_row(-kInfinity, terms, 1);
      }
    }
  }

  const PlacementProblem& problem_;
  math::MilpProblem program_;
  std::vector<int> slowest_;                        // [barriers]
  std::vector<int> causes_;                         // [charges]
  std::vector<std::vector<math::MilpTerm>> loads_;  // [ranks * barriers]
  std::vector<std::vector<math::MilpTerm>> bytes_;  // [ranks * resources]
  std::vector<int> holds_;  // [units * ranks]; -1: nothing of it can stand there
};

}  // namespace plimsoll::balance::testing
