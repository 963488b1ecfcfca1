#include "balance/patterns/pattern_master.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <functional>
#include <utility>
#include <vector>

#include "balance/random_placements.h"
#include "math/milp.h"

namespace plimsoll::balance {
namespace {

using testing::InstanceKind;
using testing::Random;
using testing::random_problem;

constexpr double kGrain = 0.5;  // ms; loads and rooms are multiples of it

// Cells so fine that what does not fit the room does not fit the cells: an item is rounded down by
// one cell at most, and a rank holds fewer items than a grain has cells.
int fine_cells(double room) { return static_cast<int>(std::lround(room / kGrain)) * 64; }

InstanceKind grid_kind(std::uint64_t seed) {
  InstanceKind kind;
  kind.tight_memory = seed % 2 == 0;
  kind.repeated = seed % 3 == 0;
  kind.unequal_caps = seed % 5 == 0;
  kind.classes = seed % 7 == 0;
  kind.pools = seed % 4 == 0;
  kind.uneven_hosts = seed % 6 == 0;
  kind.uneven_pieces = seed % 2 == 1;
  kind.allowed = seed % 11 == 0;
  return kind;
}

// Loads of pieces and blocks on the grid; uniform choices are dear, and some units have none.
PlacementProblem grid_problem(std::uint64_t seed) {
  PlacementProblem problem = random_problem(seed, grid_kind(seed));
  Random random(seed + 31);
  for (Unit& unit : problem.units) {
    const bool is_uniform_open = random.chance(80);
    std::erase_if(unit.choices, [&](const UnitChoice& choice) {
      return choice.spread == Spread::kUniform && !is_uniform_open;
    });
    for (UnitChoice& choice : unit.choices) {
      const bool is_uniform = choice.spread == Spread::kUniform;
      for (PieceRun& run : choice.runs) {
        for (double& load : run.load) {
          load = is_uniform ? problem.num_ranks * load : std::ceil(load / kGrain) * kGrain;
        }
      }
    }
  }
  return problem;
}

struct Instance {
  explicit Instance(const PlacementProblem& problem)
      : groups(make_placement_groups(problem)),
        all(filter_by_target(groups, kInfinity)),
        model(make_pattern_model(groups, all)) {}
  const PlacementGroups groups;
  const Survivors all;
  PatternModel model;
};

using Counts = std::vector<std::pair<int, std::int64_t>>;  // items and how many

// Every content of items that stand at `place` with a load of at most `room`.
void for_contents(const PatternModel& model, bool is_block, int place, double room,
                  const std::function<void(const Counts&, double)>& visit) {
  Counts counts;
  const std::function<void(std::size_t, double)> choose = [&](std::size_t number, double load) {
    if (number == model.items.size()) {
      visit(counts, load);
      return;
    }
    choose(number + 1, load);
    const PatternItem& item = model.items[number];
    if (item.is_block != is_block || item.place[place] < 0) return;
    counts.emplace_back(static_cast<int>(number), 0);
    for (std::int64_t count = 1; count <= item.copies; ++count) {
      load += item.load[place];
      if (load > room * (1 + 1e-12)) break;
      counts.back().second = count;
      choose(number + 1, load);
    }
    counts.pop_back();
  };
  choose(0, 0);
}

// The linear program over all contents: a column for every content of blocks of a host, and beside
// each of those one for every content of a rank. Bytes of what is uniform count as all others.
class FullProgram {
 public:
  FullProgram(const Instance& instance, const std::vector<double>& price, double penalty)
      : groups_(instance.groups), model_(instance.model), price_(price), penalty_(penalty) {}

  // kInfinity where nothing keeps the limits.
  double solve(double room, const RoomLimits& limits) {
    problem_ = {};
    of_class_.assign(model_.classes.size(), {});
    of_account_.assign(price_.size(), {});
    for (std::size_t c = 0; c < model_.classes.size(); ++c) {
      add_uniform(model_.classes[c], limits.lo.empty() ? 0 : limits.lo[c],
                  limits.hi.empty() ? kInfinity : limits.hi[c], of_class_[c]);
      of_class_[c].push_back({problem_.add_column(0, kInfinity, penalty_), 1});
    }
    for (const PatternClass& c : model_.forced) {
      std::vector<math::MilpTerm> terms;
      add_uniform(c, c.count, c.count, terms);
    }
    for (std::size_t b = 0; b < model_.bins.size(); ++b) {
      const double least = limits.least_blocks.empty() ? 0 : limits.least_blocks[b];
      const double most = limits.most_blocks.empty() ? room : limits.most_blocks[b];
      add_bin(model_.bins[b], room, least, std::min(room, most));
    }
    for (std::size_t c = 0; c < model_.classes.size(); ++c) {
      problem_.add_row(model_.classes[c].count, of_class_[c], kInfinity);
    }
    for (std::size_t a = 0; a < price_.size(); ++a) {
      if (price_[a] > 0) problem_.add_row(-kInfinity, of_account_[a], 1);
    }
    const auto outcome = math::solve_milp(problem_);
    EXPECT_TRUE(outcome);
    if (!outcome || outcome->status == SolveStatus::kInfeasible) return kInfinity;
    EXPECT_EQ(outcome->status, SolveStatus::kOptimal);
    return outcome->objective;
  }

 private:
  double share_of_cap(std::size_t account, double bytes) const {
    return bytes / static_cast<double>(groups_.ranks.accounts[account].cap);
  }

  // At least lo and at most hi uniform units, no more of a group than it has.
  void add_uniform(const PatternClass& c, double lo, double hi,
                   std::vector<math::MilpTerm>& of_class) {
    std::vector<math::MilpTerm> all;
    for (const int group : c.groups) {
      std::vector<math::MilpTerm> of_group;
      for (const PatternStep& step : c.steps) {
        if (step.group != group) continue;
        const int column = problem_.add_column(0, kInfinity, step.load);
        of_group.push_back({column, 1});
        all.push_back({column, 1});
        for (std::size_t a = 0; a < price_.size(); ++a) {
          of_account_[a].push_back({column, share_of_cap(a, step.bytes[a])});
        }
      }
      problem_.add_row(0, of_group, groups_.groups[group].count());
    }
    problem_.add_row(lo, all, hi);
    of_class.insert(of_class.end(), all.begin(), all.end());
  }

  int add_content(const Counts& counts, bool is_block, int place) {
    const int column = problem_.add_column(0, kInfinity);
    std::vector<double> shares(model_.classes.size(), 0);
    std::vector<double> bytes(price_.size(), 0);
    for (const auto& [number, count] : counts) {
      const PatternItem& item = model_.items[number];
      EXPECT_EQ(item.is_block, is_block);
      const auto times = static_cast<double>(count);
      shares[item.class_index] += times * item.share;
      for (const ChoiceShare& share : groups_.shares_of(groups_.places[item.place[place]])) {
        for (int resource = 0; resource < groups_.ranks.num_resources; ++resource) {
          bytes[groups_.ranks.kinds[share.kind].account[resource]] +=
              times * static_cast<double>(share.bytes[resource]);
        }
      }
    }
    for (std::size_t c = 0; c < shares.size(); ++c) {
      if (shares[c] > 0) of_class_[c].push_back({column, shares[c]});
    }
    for (std::size_t a = 0; a < bytes.size(); ++a) {
      if (bytes[a] > 0) of_account_[a].push_back({column, share_of_cap(a, bytes[a])});
    }
    return column;
  }

  void add_bin(const PatternBin& bin, double room, double least, double most) {
    std::vector<math::MilpTerm> hosts;
    const auto add_host = [&](const Counts& blocks, double load) {
      const int host = add_content(blocks, true, bin.host_kind);
      hosts.push_back({host, 1});
      for (std::size_t t = 0; t < bin.tables.size(); ++t) {
        const int kind = model_.table_kinds[bin.tables[t]];
        std::vector<math::MilpTerm> ranks = {{host, -bin.ranks[t]}};
        for_contents(model_, false, kind, room - std::max(load, least),
                     [&](const Counts& pieces, double) {
                       ranks.push_back({add_content(pieces, false, kind), 1});
                     });
        problem_.add_row(-kInfinity, ranks, 0);
      }
    };
    if (bin.host_kind < 0) {
      add_host({}, 0);
    } else {
      for_contents(model_, true, bin.host_kind, most, add_host);
    }
    problem_.add_row(-kInfinity, hosts, bin.count);
  }

  const PlacementGroups& groups_;
  const PatternModel& model_;
  const std::vector<double> price_;  // [accounts]; above 0: a row
  const double penalty_;
  math::MilpProblem problem_;
  std::vector<std::vector<math::MilpTerm>> of_class_, of_account_;
};

MasterOptions options_of(int cells) {
  MasterOptions options;
  options.cells = cells;
  options.penalty = 40;
  return options;
}

constexpr std::int64_t kManyPricings = 10000;

// A group of two uniform choices may use both in the master, never in the proof.
bool has_one_step_a_group(const PatternModel& model) {
  std::vector<int> groups;
  for (const PatternClass& c : model.classes) {
    for (const PatternStep& step : c.steps) groups.push_back(step.group);
  }
  std::sort(groups.begin(), groups.end());
  return std::adjacent_find(groups.begin(), groups.end()) == groups.end();
}

// What the last linear program chose fits the room, and covers the units that it does not miss.
void expect_cover(const Instance& instance, const RoomBound& bound, double room) {
  const PatternModel& model = instance.model;
  std::vector<double> units = bound.num_uniform;
  std::vector<double> bins(model.bins.size(), 0);
  for (std::size_t p = 0; p < bound.patterns.size(); ++p) {
    const Pattern& pattern = bound.patterns[p];
    const PatternBin& bin = model.bins[pattern.bin];
    bins[pattern.bin] += bound.amounts[p];
    const auto add = [&](const std::vector<PatternCount>& counts, int place, double times) {
      double load = 0;
      for (const PatternCount& count : counts) {
        const PatternItem& item = model.items[count.item];
        load += count.count * item.load[place];
        units[item.class_index] += bound.amounts[p] * times * count.count * item.share;
      }
      return load;
    };
    const double blocks = bin.host_kind < 0 ? 0 : add(pattern.blocks, bin.host_kind, 1);
    ASSERT_EQ(pattern.ranks.size(), bin.tables.size());
    for (std::size_t t = 0; t < bin.tables.size(); ++t) {
      const int kind = model.table_kinds[bin.tables[t]];
      EXPECT_LE(blocks + add(pattern.ranks[t], kind, bin.ranks[t]), room + 1e-9);
    }
  }
  for (std::size_t b = 0; b < bins.size(); ++b) EXPECT_LE(bins[b], model.bins[b].count + 1e-7);
  double missed = 0;
  for (std::size_t c = 0; c < units.size(); ++c) {
    missed += std::max(0.0, model.classes[c].count - units[c]);
  }
  EXPECT_NEAR(missed, bound.missed, 1e-7);
}

TEST(PatternMaster, ProvesTheOptimumOverAllContents) {
  int num_partial = 0;  // rooms in which some but not all units are uniform
  int num_missed = 0;
  for (std::uint64_t seed = 0; seed < 200; ++seed) {
    SCOPED_TRACE(seed);
    const Instance instance(grid_problem(seed));
    if (instance.all.is_dead()) continue;
    const std::vector<double> no_price(instance.groups.ranks.accounts.size(), 0.0);
    FullProgram program(instance, no_price, 40);
    for (const double room : {0.5, 1.5, 3.0}) {
      SCOPED_TRACE(room);
      const double optimum = program.solve(room, {});
      MasterOptions options = options_of(fine_cells(room));
      options.smooth = seed % 4 != 1;
      PatternMaster master(instance.groups, instance.model, no_price, options);
      const RoomBound bound = master.solve(room, {}, kInfinity, kManyPricings);
      EXPECT_TRUE(bound.is_complete);
      expect_cover(instance, bound, room);
      EXPECT_NEAR(bound.uniform_load, optimum, 1e-5);
      EXPECT_NEAR(bound.master_value, optimum, 1e-5);
      num_missed += bound.missed > 1e-6;
      double uniform = 0;
      double units = 0;
      for (const double count : bound.num_uniform) uniform += count;
      for (const PatternClass& c : instance.model.classes) units += c.count;
      num_partial += uniform > 1e-6 && uniform < units - 1e-6;
    }
  }
  EXPECT_GT(num_partial, 50);
  EXPECT_GT(num_missed, 20);
}

TEST(PatternMaster, CountsBytesOfAccountsWithAPrice) {
  int num_bound_by_bytes = 0;
  for (std::uint64_t seed = 0; seed < 150; ++seed) {
    SCOPED_TRACE(seed);
    const Instance instance(grid_problem(seed));
    if (instance.all.is_dead()) continue;
    const std::size_t num_accounts = instance.groups.ranks.accounts.size();
    std::vector<double> price;
    for (std::size_t a = 0; a < num_accounts; ++a) {
      price.push_back(instance.groups.ranks.accounts[a].cap > 0 ? 0.01 : 0);
    }
    const double room = 3;
    const double optimum = FullProgram(instance, price, 40).solve(room, {});
    PatternMaster master(instance.groups, instance.model, price, options_of(fine_cells(room)));
    const RoomBound bound = master.solve(room, {}, kInfinity, kManyPricings);
    EXPECT_TRUE(bound.is_complete);
    EXPECT_LE(bound.uniform_load, optimum + 1e-6);
    // Bytes of forced units are known to the proof alone.
    if (!instance.model.forced.empty() || !has_one_step_a_group(instance.model)) continue;
    EXPECT_NEAR(bound.uniform_load, optimum, 1e-5);
    const std::vector<double> no_price(num_accounts, 0.0);
    num_bound_by_bytes += optimum > FullProgram(instance, no_price, 40).solve(room, {}) + 1e-3;
  }
  EXPECT_GT(num_bound_by_bytes, 10);
}

TEST(PatternMaster, KeepsLimitsOfUniformUnits) {
  int num_limited = 0;
  for (std::uint64_t seed = 0; seed < 150; ++seed) {
    SCOPED_TRACE(seed);
    Random random(seed);
    const Instance instance(grid_problem(seed));
    if (instance.all.is_dead()) continue;
    const std::vector<double> no_price(instance.groups.ranks.accounts.size(), 0.0);
    RoomLimits limits;
    for (const PatternClass& c : instance.model.classes) {
      double num_uniform = 0;
      for (const int group : c.groups) {
        const auto is_of = [&](const PatternStep& step) { return step.group == group; };
        if (std::any_of(c.steps.begin(), c.steps.end(), is_of)) {
          num_uniform += instance.groups.groups[group].count();
        }
      }
      limits.lo.push_back(random.below(static_cast<int>(num_uniform) + 1));
      limits.hi.push_back(limits.lo.back() +
                          random.below(static_cast<int>(c.count - limits.lo.back()) + 1));
    }
    const double room = 1.5;
    FullProgram program(instance, no_price, 40);
    const double optimum = program.solve(room, limits);
    PatternMaster master(instance.groups, instance.model, no_price, options_of(fine_cells(room)));
    const RoomBound bound = master.solve(room, limits, kInfinity, kManyPricings);
    EXPECT_NEAR(bound.uniform_load, optimum, 1e-5);
    for (std::size_t c = 0; c < limits.lo.size(); ++c) {
      EXPECT_GE(bound.num_uniform[c], limits.lo[c] - 1e-9);
      EXPECT_LE(bound.num_uniform[c], limits.hi[c] + 1e-9);
    }
    num_limited += optimum > program.solve(room, {}) + 1e-3;
  }
  EXPECT_GT(num_limited, 30);
}

// Every host a bin of its own.
TEST(PatternMaster, KeepsLimitsOfBlocks) {
  int num_limited = 0;
  for (std::uint64_t seed = 0; seed < 600; ++seed) {
    SCOPED_TRACE(seed);
    Random random(seed);
    Instance instance(grid_problem(seed));
    PatternModel& model = instance.model;
    if (instance.all.is_dead() || model.bins.size() != 1 || model.bins[0].host_kind < 0 ||
        model.bins[0].count != 2) {
      continue;
    }
    model.bins[0].count = 1;
    model.bins.push_back(model.bins[0]);
    const std::vector<double> no_price(instance.groups.ranks.accounts.size(), 0.0);
    const double room = 1.5;
    RoomLimits limits;
    for (int host = 0; host < 2; ++host) {
      limits.least_blocks.push_back(kGrain * random.below(3));
      limits.most_blocks.push_back(limits.least_blocks.back() + kGrain * random.below(3));
    }
    FullProgram program(instance, no_price, 40);
    const double optimum = program.solve(room, limits);
    PatternMaster master(instance.groups, model, no_price, options_of(fine_cells(room)));
    const RoomBound bound = master.solve(room, limits, kInfinity, kManyPricings);
    EXPECT_TRUE(bound.is_complete);
    EXPECT_NEAR(bound.uniform_load, optimum, 1e-5);
    num_limited += optimum > program.solve(room, {}) + 1e-3;
  }
  EXPECT_GT(num_limited, 10);
}

// However coarse the cells are and wherever it stops; and near the optimum where they are fine.
TEST(PatternMaster, NeverProvesTooMuch) {
  constexpr int kCells = 3000;
  constexpr int kMostItems = 30;  // of one rank: each is rounded down by one cell at most
  for (std::uint64_t seed = 0; seed < 50; ++seed) {
    SCOPED_TRACE(seed);
    InstanceKind kind = grid_kind(seed);
    kind.tight_memory = false;
    const Instance instance(random_problem(seed, kind));
    if (instance.all.is_dead()) continue;
    const std::vector<double> no_price(instance.groups.ranks.accounts.size(), 0.0);
    const double room = 1.3 + 0.01 * static_cast<double>(seed);
    FullProgram program(instance, no_price, 40);
    const double optimum = program.solve(room, {});
    for (const int cells : {1, 3, 7, 40, kCells}) {
      for (const int max_pricings : {1, 2, 4, 1000}) {
        PatternMaster master(instance.groups, instance.model, no_price, options_of(cells));
        const RoomBound bound = master.solve(room, {}, kInfinity, max_pricings);
        EXPECT_LE(master.num_pricings(), max_pricings);
        EXPECT_LE(bound.uniform_load, optimum + 1e-6);
        if (cells != kCells || max_pricings != 1000) continue;
        const double wider = room * (1 + static_cast<double>(kMostItems) / cells);
        EXPECT_GE(bound.uniform_load, program.solve(wider, {}) - 1e-5);
      }
    }
  }
}

// Patterns kept from other rooms change how fast it ends, not where.
TEST(PatternMaster, AnswersOneRoomAfterAnother) {
  for (std::uint64_t seed = 0; seed < 40; ++seed) {
    SCOPED_TRACE(seed);
    const Instance instance(grid_problem(seed));
    if (instance.all.is_dead()) continue;
    const std::vector<double> no_price(instance.groups.ranks.accounts.size(), 0.0);
    const int cells = 64 * 9 * 4;
    PatternMaster master(instance.groups, instance.model, no_price, options_of(cells));
    std::int64_t num_pricings = 0;
    for (const double room : {3.0, 1.5, 4.5, 3.0}) {
      PatternMaster fresh(instance.groups, instance.model, no_price, options_of(cells));
      const RoomBound expected = fresh.solve(room, {}, kInfinity, kManyPricings);
      const RoomBound bound = master.solve(room, {}, kInfinity, kManyPricings);
      EXPECT_NEAR(bound.uniform_load, expected.uniform_load, 1e-5);
      num_pricings += fresh.num_pricings();
    }
    EXPECT_LE(master.num_pricings(), num_pricings);
  }
}

// Two ranks of room 4: units of 3 and 2, whose uniform costs are 5 and 1, three of each. A rank
// holds a 3 or two 2s, so one unit of 3 has to be uniform and all of 2: A = 5 + 3; half a rank less
// is no help.
PlacementProblem threes_and_twos() {
  PlacementProblem problem;
  problem.num_ranks = 2;
  problem.resources = testing::three_memories();
  problem.caps.assign(2, {1000, 0, 0});
  for (int i = 0; i < 6; ++i) {
    const double load = i < 3 ? 3 : 2;
    const double uniform = i < 3 ? 5 : 1;
    problem.units.push_back({"",
                             {{Spread::kDevice, {{1, {load}, {1, 0, 0}}}, 1, {}},
                              {Spread::kUniform, {{2, {uniform}, {1, 0, 0}}}, 1, {}}},
                             {}});
  }
  return problem;
}

TEST(PatternMaster, FillsTwoRanksByHand) {
  const Instance instance(threes_and_twos());
  const std::vector<double> no_price(instance.groups.ranks.accounts.size(), 0.0);
  PatternMaster master(instance.groups, instance.model, no_price, options_of(800));
  const RoomBound four = master.solve(4, {}, kInfinity, 100);
  EXPECT_NEAR(four.uniform_load, 5 + 3, 1e-6);
  EXPECT_EQ(four.missed, 0);
  const RoomBound five = master.solve(5, {}, kInfinity, 100);  // 3 + 2 twice
  EXPECT_NEAR(five.uniform_load, 5 + 1, 1e-6);
  const RoomBound two = master.solve(2, {}, kInfinity, 100);  // only 2s, and few
  EXPECT_NEAR(two.uniform_load, 15 + 1, 1e-6);
}

// Two units too large for the room, at 1 or 2 the one, at 10 the other: 1 + 10, not 1 + 2. The
// choice of 2 has fewer bytes, so that it is there at all.
TEST(PatternMaster, CountsAUnitOfTwoUniformChoicesOnce) {
  PlacementProblem problem;
  problem.num_ranks = 2;
  problem.resources = testing::three_memories();
  problem.caps.assign(2, {1000, 0, 0});
  const auto uniform = [](double load, Bytes bytes) {
    return UnitChoice{Spread::kUniform, {{2, {load}, {bytes, 0, 0}}}, 1, {}};
  };
  const UnitChoice device = {Spread::kDevice, {{1, {3}, {1, 0, 0}}}, 1, {}};
  problem.units = {{"", {device, uniform(1, 20), uniform(2, 10)}, {}},
                   {"", {device, uniform(10, 10)}, {}}};
  const Instance instance(problem);
  ASSERT_EQ(instance.model.classes.size(), 1);
  const std::vector<double> no_price(instance.groups.ranks.accounts.size(), 0.0);
  PatternMaster master(instance.groups, instance.model, no_price, options_of(100));
  const RoomBound bound = master.solve(1, {}, kInfinity, 100);
  EXPECT_NEAR(bound.uniform_load, 11, 1e-6);
  EXPECT_NEAR(bound.master_value, 11, 1e-6);
}

TEST(PatternMaster, StopsOnceTheGoalIsPassed) {
  const Instance instance(threes_and_twos());
  const std::vector<double> no_price(instance.groups.ranks.accounts.size(), 0.0);
  PatternMaster whole(instance.groups, instance.model, no_price, options_of(800));
  whole.solve(4, {}, kInfinity, 100);
  PatternMaster master(instance.groups, instance.model, no_price, options_of(800));
  const RoomBound bound = master.solve(4, {}, -1e6, 100);
  EXPECT_EQ(master.num_pricings(), 1);
  EXPECT_GT(whole.num_pricings(), 1);
  EXPECT_GT(bound.uniform_load, -1e6);
  EXPECT_LE(bound.uniform_load, 8);
}

// Pieces of less than a 512th of the room: 1,024 of 2,000 fit on one rank, and so on two.
TEST(PatternMaster, PoursSmallPieces) {
  PlacementProblem problem;
  problem.num_ranks = 2;
  problem.resources = testing::three_memories();
  problem.caps.assign(2, {100000, 0, 0});
  for (int i = 0; i < 4000; ++i) {
    problem.units.push_back({"",
                             {{Spread::kDevice, {{1, {1.0 / 1024}, {1, 0, 0}}}, 1, {}},
                              {Spread::kUniform, {{2, {1}, {1, 0, 0}}}, 1, {}}},
                             {}});
  }
  const Instance instance(problem);
  const std::vector<double> no_price(instance.groups.ranks.accounts.size(), 0.0);
  MasterOptions options = options_of(1000);
  options.scale = 1000;
  PatternMaster master(instance.groups, instance.model, no_price, options);
  const RoomBound bound = master.solve(1, {}, kInfinity, 100);
  EXPECT_LE(bound.uniform_load, 4000 - 2048);
  EXPECT_NEAR(bound.uniform_load, 4000 - 2048, 0.01);
}

// 2 units of a group at 1 and 3 of another at 2.
TEST(UniformValue, PaysForTheCheapestUnitsFirst) {
  PatternClass c;
  c.groups = {0, 1};
  c.count = 5;
  c.steps = {{0, 0, 1, 2, {10, 0}}, {1, 1, 2, 3, {0, 10}}, {1, 2, 4, 3, {0, 1}}};
  const std::vector<double> no_price(2, 0.0);
  EXPECT_EQ(uniform_value(c, 5, 100, no_price, 0, kInfinity), 2 * 1 + 3 * 2);
  EXPECT_EQ(uniform_value(c, 5, 1.5, no_price, 0, kInfinity), 2 * 1 + 3 * 1.5);
  // Forced ones cost what they cost; those beyond `hi` are worth their price.
  EXPECT_EQ(uniform_value(c, 5, 0.5, no_price, 3, kInfinity), 2 * 1 + 2 + 2 * 0.5);
  EXPECT_EQ(uniform_value(c, 5, 100, no_price, 0, 3), 2 * 1 + 2 + 2 * 100);
  EXPECT_EQ(uniform_value(c, 5, 0, no_price, 0, kInfinity), 0);
  EXPECT_EQ(uniform_value(c, 6, 100, no_price, 0, kInfinity), 2 * 1 + 3 * 2 + 100);
  EXPECT_EQ(uniform_value(c, 6, 100, no_price, 6, kInfinity), kInfinity);
  // Bytes have a price: 1 + 10 of the first group; 4 + 1 instead of 2 + 10 of the second one.
  EXPECT_EQ(uniform_value(c, 5, 100, {1, 1}, 0, kInfinity), 2 * 11 + 3 * 5);
  EXPECT_EQ(uniform_value(c, 5, 100, {1, 1}, 4, 4), 3 * 5 + 11 + 100);
}

}  // namespace
}  // namespace plimsoll::balance
