#include "check/embedding/move_bound_check.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <utility>

#include "balance/verify/verify_relocation.h"
#include "check/embedding/held_parts.h"
#include "check/tolerances.h"

namespace plimsoll::check {
namespace {

using balance::ChoiceMoves;
using balance::MoveCosts;
using embedding::Option;
using embedding::ShardingType;
using embedding::TablePart;

constexpr double kGib = 1024.0 * 1024 * 1024;

// What ranks hold of a table, by the plan that it stands by.
struct Held {
  std::vector<TablePart> parts;  // replicas once
  std::map<int, std::vector<TablePart>> of_rank;
};

struct Shard {
  TablePart part;
  std::size_t slot = 0;  // of its choice
  int offset = 0;        // of its rank, from the first of the place
};

class MoveCounter {
 public:
  MoveCounter(const embedding::BoundedProblem& bounded, const embedding::ShardingPlan& before)
      : bounded_(bounded), bridge_(bounded.bridge) {
    for (const embedding::TableSharding& table : before.tables) {
      Held& held = held_[table.fqn()];
      for (const embedding::PlacedShard& shard : embedding::expand_shards(table)) {
        const TablePart part{shard.rows, shard.columns, shard.row, shard.column};
        held.of_rank[shard.rank].push_back(part);
        if (std::find(held.parts.begin(), held.parts.end(), part) == held.parts.end()) {
          held.parts.push_back(part);
        }
      }
    }
  }

  Result<MoveCosts> count(const embedding::Estimator& estimator) {
    for (const embedding::TableProfile& profile : bounded_.enumeration.profiles) {
      PLIMSOLL_ASSIGN(const Bytes weight, table_weight(estimator, profile));
      weights_.push_back(weight);
    }
    MoveCosts costs;
    for (std::size_t u = 0; u < bridge_.problem.units.size(); ++u) {
      std::vector<ChoiceMoves>& choices = costs.units.emplace_back();
      for (std::size_t c = 0; c < bridge_.problem.units[u].choices.size(); ++c) {
        choices.push_back(count(u, c));
      }
    }
    return costs;
  }

 private:
  const embedding::OptionSet& options() const { return bounded_.enumeration.options; }

  std::vector<Shard> shards_of(std::size_t unit, std::size_t c, const Option& option) const {
    const balance::UnitChoice& choice = bridge_.problem.units[unit].choices[c];
    const int width = bridge_.problem.ranks_per_host;
    const bool turns = option.sharding_type == ShardingType::kTableColumnWise;
    const embedding::ShardRuns runs = options().shards(option);
    std::vector<Shard> shards;
    for (std::int64_t block = 0; block < runs.column_blocks; ++block) {
      for (const embedding::ShardRun& run : runs.runs) {
        for (std::int64_t i = 0; i < run.count; ++i) {
          Shard shard;
          shard.part = {run.rows, run.columns, run.first_row + i * run.row_stride,
                        block * run.columns};
          const auto index = static_cast<int>(shards.size());
          switch (choice.spread) {
            case balance::Spread::kUniform:
              shard.offset = index;
              break;
            case balance::Spread::kHost:
              shard.slot = turns ? 0 : static_cast<std::size_t>(index / width);
              shard.offset = (index + (turns ? bridge_.first_rank[unit][c] : 0)) % width;
              break;
            case balance::Spread::kDevice:
              shard.slot = static_cast<std::size_t>(index);
              break;
          }
          shards.push_back(shard);
        }
      }
    }
    return shards;
  }

  ChoiceMoves count(std::size_t unit, std::size_t c) const {
    const balance::PlacementProblem& problem = bridge_.problem;
    const balance::Spread spread = problem.units[unit].choices[c].spread;
    const bool is_host = spread == balance::Spread::kHost;
    const int num_places = is_host ? problem.num_hosts() : problem.num_ranks;
    const int width = is_host ? problem.ranks_per_host : 1;
    ChoiceMoves moves;
    std::vector<std::vector<Bytes>> bytes;  // [slots][places]
    for (std::size_t i = 0; i < bridge_.tables[unit].size(); ++i) {
      const auto table = static_cast<std::size_t>(bridge_.tables[unit][i]);
      const auto held = held_.find(options().tables[table].fqn);
      const auto option = static_cast<std::size_t>(bridge_.options[unit][c][i]);
      for (const Shard& shard : shards_of(unit, c, options().options[option])) {
        const auto bytes_on = [&](int rank) {
          return held == held_.end() ? 0 : missing_bytes(table, held->second, shard.part, rank);
        };
        if (spread == balance::Spread::kUniform) {
          moves.everywhere += bytes_on(shard.offset);
          continue;
        }
        if (bytes.size() <= shard.slot) {
          bytes.resize(shard.slot + 1, std::vector<Bytes>(static_cast<std::size_t>(num_places), 0));
        }
        for (int place = 0; place < num_places; ++place) {
          bytes[shard.slot][place] += bytes_on(place * width + shard.offset);
        }
      }
    }
    for (const std::vector<Bytes>& places : bytes) {
      balance::SlotMoves& slot = moves.slots.emplace_back();
      slot.elsewhere = *std::max_element(places.begin(), places.end());
      for (int place = 0; place < num_places; ++place) {
        if (places[place] < slot.elsewhere) slot.at.emplace_back(place, places[place]);
      }
    }
    return moves;
  }

  // Of what some rank holds of the part, what this one lacks.
  Bytes missing_bytes(std::size_t table, const Held& held, const TablePart& part, int rank) const {
    const auto own = held.of_rank.find(rank);
    const Int128 here = own == held.of_rank.end() ? 0 : covered(part, own->second);
    return share_of_weight(weights_[table], bounded_.enumeration.profiles[table].shape,
                           covered(part, held.parts) - here);
  }

  const embedding::BoundedProblem& bounded_;
  const embedding::PlacementBridge& bridge_;
  std::map<std::string, Held> held_;
  std::vector<Bytes> weights_;  // [tables]
};

}  // namespace

Result<MoveBoundReport> check_move_bound(const embedding::PlanningProblem& problem,
                                         const embedding::BoundedOptions& options,
                                         const StatedMoveBound& stated) {
  MoveBoundReport report;
  const auto refute = [&report](std::string expected, std::string found, std::string message) {
    report.findings.push_back({FindingCode::kBoundNotProved, "", std::nullopt, std::move(expected),
                               std::move(found), std::move(message)});
  };
  PLIMSOLL_ASSIGN(const embedding::BoundedProblem bounded,
                  embedding::prepare_bounded_problem(problem, options));
  if (bounded.bridge.is_tighter) {
    report.leave_open("no bound holds for all plans where rules hold these tables together");
    return report;
  }
  const embedding::Estimator estimator(problem.cost_model, problem.topology, problem.mode);
  PLIMSOLL_ASSIGN(const MoveCosts costs, MoveCounter(bounded, *stated.before).count(estimator));
  report.least_moved = least_moved_bytes(costs);
  if (stated.least_moved && *stated.least_moved > *report.least_moved) {
    refute(fmt::format("at most {}", *report.least_moved), fmt::format("{}", *stated.least_moved),
           fmt::format("every plan is said to move {} bytes, and {} are proved",
                       *stated.least_moved, *report.least_moved));
  }
  if (!stated.lower_bound) return report;
  const double price = stated.price_of_move / kGib;
  if (stated.is_bound_of_all) {
    const double all = stated.bound_of_all.value_or(bounded.bridge.problem.floor_ms) +
                       price * static_cast<double>(*report.least_moved);
    if (!(*stated.lower_bound <= all * (1 + kBoundTolerance))) {
      refute(fmt::format("at most {} ms", all), fmt::format("{} ms", *stated.lower_bound),
             "the bound of all plans is above that of the answer's certificate");
    }
    return report;
  }
  if (stated.prices == nullptr) {
    refute("prices", fmt::format("{} ms", *stated.lower_bound),
           "a bound of plans that move few bytes is stated without the prices that prove it");
    return report;
  }
  if (!stated.max_moved && stated.prices->moved > price * (1 + kBoundTolerance)) {
    refute(fmt::format("{} ms a byte", price), fmt::format("{}", stated.prices->moved),
           "the bound prices moved bytes above what they are worth");
    return report;
  }
  const balance::RelocationVerdict verdict =
      verify_relocation(bounded.bridge.problem, costs, *stated.prices, stated.max_moved);
  if (!verdict.fault.empty()) {
    refute("prices", fmt::format("{} ms", *stated.lower_bound),
           fmt::format("the bound of plans that move few bytes is not proved: {}", verdict.fault));
    return report;
  }
  report.proved_bound = verdict.value;
  if (!(*stated.lower_bound <= verdict.value * (1 + kBoundTolerance))) {
    refute(fmt::format("at most {} ms", verdict.value), fmt::format("{} ms", *stated.lower_bound),
           fmt::format("the bound of plans that move few bytes is said to be {} ms, and its prices "
                       "prove {} ms",
                       *stated.lower_bound, verdict.value));
  }
  return report;
}

}  // namespace plimsoll::check
