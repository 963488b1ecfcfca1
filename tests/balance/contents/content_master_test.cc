#include "balance/contents/content_master.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <functional>
#include <optional>
#include <utility>
#include <vector>

#include "balance/prices/target_filter.h"
#include "balance/random_placements.h"
#include "math/milp.h"

namespace plimsoll::balance {
namespace {

using testing::InstanceKind;
using testing::Random;
using testing::random_problem;

constexpr double kGrain = 0.5;  // ms; loads and rooms are multiples of it, and so are cells
constexpr int kCellsAGrain = 3;

int cells_of_room(double room) {
  return static_cast<int>(std::lround(room / kGrain)) * kCellsAGrain;
}

// Loads of pieces and blocks on the grid; uniform choices are dear, and some units have none.
PlacementProblem grid_problem(std::uint64_t seed) {
  InstanceKind kind;
  kind.tight_memory = seed % 2 == 0;
  kind.repeated = seed % 3 > 0;
  PlacementProblem problem = random_problem(seed, kind);
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
  Instance(const PlacementProblem& given, double byte_price)
      : problem(given),
        groups(make_placement_groups(problem)),
        all(filter_by_target(groups, kInfinity)),
        model(make_content_model(problem, groups, all,
                                 std::vector<double>(groups.ranks.accounts.size(), byte_price))) {}
  const PlacementProblem problem;
  const PlacementGroups groups;
  const Survivors all;
  const std::optional<ContentModel> model;
};

// Milliseconds that bytes of one rank cost.
double cost_of(const ContentModel& model, const Amounts& bytes) {
  double cost = 0;
  for (int resource = 0; resource < model.problem->num_resources(); ++resource) {
    cost += model.byte_price[resource] * static_cast<double>(bytes[resource]);
  }
  return cost;
}

using Counts = std::vector<math::KnapsackCount>;

// Every content of blocks, or of pieces, that are open, with a load of at most `room`.
void for_contents(const Contents& contents, bool is_block, double room,
                  const std::function<void(const Counts&, double)>& visit) {
  const std::vector<ContentItem>& items = contents.model().items;
  Counts counts;
  const std::function<void(int, double)> choose = [&](int number, double load) {
    if (number == static_cast<int>(items.size())) {
      visit(counts, load);
      return;
    }
    choose(number + 1, load);
    if (items[number].is_block != is_block) return;
    counts.push_back({number, 0});
    while (counts.back().count < contents.open_parts(number)) {
      load += items[number].load;
      if (load > room * (1 + 1e-12)) break;
      ++counts.back().count;
      choose(number + 1, load);
    }
    counts.pop_back();
  };
  choose(0, 0);
}

// The linear program over all contents. Parts of a content are given to what is owed or to units
// left in every way.
class FullProgram {
 public:
  FullProgram(const Contents& contents, double penalty)
      : contents_(contents), model_(contents.model()), penalty_(penalty) {}

  double of_ranks(const std::vector<std::pair<double, int>>& rooms) {
    begin();
    for (const auto& [room, count] : rooms) {
      std::vector<math::MilpTerm> bins;
      for_contents(contents_, false, room,
                   [&](const Counts& counts, double) { add_splits(counts, bins); });
      problem_.add_row(-kInfinity, bins, count);
    }
    return end();
  }

  // Hosts whose ranks all hold the same.
  double of_hosts(double room, int count) {
    begin();
    std::vector<math::MilpTerm> bins;
    for_contents(contents_, true, room, [&](const Counts& blocks, double load) {
      for_contents(contents_, false, room - load, [&](const Counts& pieces, double) {
        Counts counts = blocks;
        for (const math::KnapsackCount& piece : pieces) {
          counts.push_back({piece.item, piece.count * model_.width});
        }
        add_splits(counts, bins);
      });
    });
    problem_.add_row(-kInfinity, bins, count);
    return end();
  }

 private:
  void begin() {
    problem_ = {};
    left_.assign(model_.classes.size(), {});
    owed_.assign(model_.items.size(), {});
    for (std::size_t c = 0; c < model_.classes.size(); ++c) {
      const ContentClass& of = model_.classes[c];
      const int end = std::min(contents_.left(static_cast<int>(c)), of.num_uniform_at_most);
      for (int i = 0; i < end; ++i) {
        Amounts bytes = of.uniform_bytes[i + 1];
        bytes.add(of.uniform_bytes[i], -1);
        const double cost =
            of.uniform_load[i + 1] - of.uniform_load[i] + model_.num_ranks * cost_of(model_, bytes);
        left_[c].push_back({problem_.add_column(0, 1, cost), 1});
      }
      left_[c].push_back({problem_.add_column(0, kInfinity, penalty_), 1});
    }
    for (std::size_t i = 0; i < model_.items.size(); ++i) {
      owed_[i].push_back(
          {problem_.add_column(0, kInfinity, penalty_ / model_.items[i].num_parts), 1});
    }
  }

  void add_splits(const Counts& counts, std::vector<math::MilpTerm>& bins) {
    double cost = 0;
    for (const math::KnapsackCount& count : counts) {
      const ContentItem& item = model_.items[count.item];
      cost += static_cast<double>(count.count) * cost_of(model_, item.bytes) *
              (item.is_block ? model_.width : 1);
    }
    std::vector<double> left(model_.classes.size(), 0);
    const std::function<void(std::size_t, Counts&)> split = [&](std::size_t at, Counts& owed) {
      if (at < counts.size()) {
        const ContentItem& item = model_.items[counts[at].item];
        const std::int64_t most =
            std::min<std::int64_t>(counts[at].count, contents_.owed(counts[at].item));
        for (std::int64_t given = 0; given <= most; ++given) {
          const double units = static_cast<double>(counts[at].count - given) / item.num_parts;
          left[item.class_index] += units;
          owed.push_back({counts[at].item, given});
          split(at + 1, owed);
          owed.pop_back();
          left[item.class_index] -= units;
        }
        return;
      }
      const int column = problem_.add_column(0, kInfinity, cost);
      bins.push_back({column, 1});
      for (std::size_t c = 0; c < left.size(); ++c) {
        if (left[c] > 1e-9) left_[c].push_back({column, left[c]});
      }
      for (const math::KnapsackCount& given : owed) {
        if (given.count > 0) {
          owed_[given.item].push_back({column, static_cast<double>(given.count)});
        }
      }
    };
    Counts owed;
    split(0, owed);
  }

  double end() {
    for (std::size_t c = 0; c < left_.size(); ++c) {
      problem_.add_row(contents_.left(static_cast<int>(c)), left_[c], kInfinity);
    }
    for (std::size_t i = 0; i < owed_.size(); ++i) {
      problem_.add_row(contents_.owed(static_cast<int>(i)), owed_[i], kInfinity);
    }
    const auto outcome = math::solve_milp(problem_);
    if (!outcome || outcome->status != SolveStatus::kOptimal) return std::nan("");
    double value = outcome->objective;
    for (int resource = 0; resource < model_.problem->num_resources(); ++resource) {
      value -= model_.byte_price[resource] * static_cast<double>(contents_.free_bytes(resource));
    }
    return value;
  }

  const Contents& contents_;
  const ContentModel& model_;
  const double penalty_;
  math::MilpProblem problem_;
  std::vector<std::vector<math::MilpTerm>> left_, owed_;  // [classes], [items]
};

// Up to `count` parts wherever their bytes fit; of choices of several parts some are left owed.
void put_some(Contents& contents, Random& random, int count) {
  const ContentModel& model = contents.model();
  for (; count > 0; --count) {
    const int item = random.below(static_cast<int>(model.items.size()));
    const int place = random.below(model.items[item].is_block ? model.num_hosts : model.num_ranks);
    if (contents.open_parts(item) > 0 && contents.fits(item, place)) contents.put(item, place);
  }
}

bool owes_parts(const Contents& contents) {
  for (int i = 0; i < static_cast<int>(contents.model().items.size()); ++i) {
    if (contents.owed(i) > 0) return true;
  }
  return false;
}

double penalty_of(double room) { return 50 * room; }

// Every filling in use has room, and the rooms are enough for all of them.
void expect_room(const ContentMaster& master, const ContentModel& model,
                 const std::vector<std::pair<double, int>>& rooms) {
  std::vector<double> needed(rooms.size(), 0);
  for (const ContentMaster::Use& use : master.uses()) {
    EXPECT_GT(use.amount, 0);
    double load = 0;
    for (const math::KnapsackCount& count : use.filling.counts) {
      load += static_cast<double>(count.count) * model.items[count.item].load;
    }
    EXPECT_LE(load, rooms.back().first + 1e-9);
    for (std::size_t r = 0; r < rooms.size(); ++r) {
      if (r == 0 || load > rooms[r - 1].first + 1e-9) needed[r] += use.amount;
    }
  }
  double count = 0;
  for (std::size_t r = rooms.size(); r-- > 0;) {
    count += rooms[r].second;
    // All that need more than the rooms below.
    EXPECT_LE(needed[r], count + 1e-6);
  }
}

TEST(ContentMaster, FindsTheOptimumOverAllContentsOfRanks) {
  int num_owed = 0;
  int num_missed = 0;
  int num_met = 0;
  for (std::uint64_t seed = 0; seed < 400; ++seed) {
    SCOPED_TRACE(seed);
    Random random(seed + 17);
    const Instance instance(grid_problem(seed), seed % 4 == 1 ? 0.002 : 0);
    if (!instance.model || instance.model->items.empty()) continue;
    Contents contents(*instance.model);
    put_some(contents, random, random.below(4));
    const double room = kGrain * (3 + random.below(5));
    const int count = 1 + random.below(instance.problem.num_ranks);
    std::vector<std::pair<double, int>> rooms = {{room, count}};
    if (room > 2 * kGrain && random.chance(60)) {
      rooms.insert(rooms.begin(), {kGrain * (1 + random.below(2)), 1 + random.below(2)});
    }
    std::vector<Bins> bins;
    for (const auto& [of, number] : rooms) bins.push_back({cells_of_room(of), number});
    FillingPool pool;
    EffortClock clock{RunContext{}};
    ContentMaster master(*instance.model, room, cells_of_room(room), pool, clock);
    master.solve(contents, bins, false);
    const double optimum = FullProgram(contents, penalty_of(room)).of_ranks(rooms);
    const double tolerance = 1e-5 * room * instance.problem.num_ranks;
    EXPECT_NEAR(master.value(), optimum, tolerance);
    expect_room(master, *instance.model, rooms);
    EXPECT_GT(clock.effort(), 0);
    num_owed += owes_parts(contents);
    (master.missed() > 1e-6 ? num_missed : num_met) += 1;
    // Out of the pool, in another room and then for less that is left.
    const double other = room + kGrain;
    ContentMaster(*instance.model, other, cells_of_room(other), pool, clock)
        .solve(contents, {{cells_of_room(other), count}}, false);
    put_some(contents, random, 2);
    ContentMaster again(*instance.model, room, cells_of_room(room), pool, clock);
    again.solve(contents, bins, false);
    EXPECT_NEAR(again.value(), FullProgram(contents, penalty_of(room)).of_ranks(rooms), tolerance);
  }
  EXPECT_GT(num_owed, 20);
  EXPECT_GT(num_missed, 20);
  EXPECT_GT(num_met, 20);
}

TEST(ContentMaster, FindsTheOptimumOverAllContentsOfHosts) {
  int num_checked = 0;
  for (std::uint64_t seed = 0; seed < 150; ++seed) {
    SCOPED_TRACE(seed);
    Random random(seed + 17);
    const Instance instance(grid_problem(seed), seed % 4 == 1 ? 0.002 : 0);
    if (!instance.model || instance.model->items.empty()) continue;
    Contents contents(*instance.model);
    put_some(contents, random, random.below(3));
    const double room = kGrain * (3 + random.below(5));
    const int count = 1 + random.below(instance.model->num_hosts);
    FillingPool pool;
    EffortClock clock{RunContext{}};
    ContentMaster master(*instance.model, room, cells_of_room(room), pool, clock);
    master.solve(contents, {{cells_of_room(room), count}}, true);
    const double optimum = FullProgram(contents, penalty_of(room)).of_hosts(room, count);
    const double tolerance = 1e-5 * room;
    for (const ContentMaster::Use& use : master.uses()) EXPECT_LE(use.amount, count + 1e-6);
    EXPECT_GE(master.value(), optimum - tolerance);
    if (owes_parts(contents)) continue;  // every rank is priced as if it alone were given them
    ++num_checked;
    EXPECT_NEAR(master.value(), optimum, tolerance);
  }
  EXPECT_GT(num_checked, 60);
}

UnitChoice device_choice(std::int64_t pieces, double load) {
  return {Spread::kDevice, {{pieces, {load}, {10, 0, 0}}}, 1, {}};
}

// A unit of 4, whole or in halves of 3, and one of 5, whole or 2 on each of the ranks.
PlacementProblem two_units() {
  PlacementProblem problem;
  problem.num_ranks = 2;
  problem.ranks_per_host = 2;
  problem.resources = testing::three_memories();
  problem.caps.assign(2, {100, 0, 0});
  problem.units.push_back({"halves", {device_choice(1, 4), device_choice(2, 3)}, {}});
  problem.units.push_back(
      {"rows", {device_choice(1, 5), {Spread::kUniform, {{2, {2}, {5, 0, 0}}}, 1, {}}}, {}});
  return problem;
}

double value_of_two_units(double room, int num_ranks) {
  const Instance instance(two_units(), 0);
  FillingPool pool;
  EffortClock clock{RunContext{}};
  ContentMaster master(*instance.model, room, 60, pool, clock);
  master.solve(Contents(*instance.model), {{60, num_ranks}}, false);
  return master.value();
}

TEST(ContentMaster, FillsTwoRanksByHand) {
  EXPECT_NEAR(value_of_two_units(5, 2), 0, 1e-9);                // 4 and 5
  EXPECT_NEAR(value_of_two_units(4, 2), 2, 1e-9);                // 4, the other one uniform
  EXPECT_NEAR(value_of_two_units(3, 2), 2, 1e-9);                // both halves
  EXPECT_NEAR(value_of_two_units(3, 1), 2 + 50 * 3 / 2., 1e-9);  // one of them is missed
  EXPECT_NEAR(value_of_two_units(2, 2), 2 + 50 * 2, 1e-9);       // both are
}

// One half stands: what is left needs three ranks, whichever half goes where.
TEST(ContentMaster, TellsPartsOwedFromPartsOfUnitsLeft) {
  PlacementProblem problem;
  problem.num_ranks = 4;
  problem.resources = testing::three_memories();
  problem.caps.assign(4, {100, 0, 0});
  problem.units.assign(2, {"halves", {device_choice(2, 1)}, {}});
  const Instance instance(problem, 0);
  Contents contents(*instance.model);
  contents.put(0, 3);
  ASSERT_EQ(contents.owed(0), 1);
  ASSERT_EQ(contents.left(0), 1);
  FillingPool pool;
  EffortClock clock{RunContext{}};
  ContentMaster master(*instance.model, 1, 10, pool, clock);
  master.solve(contents, {{10, 3}}, false);
  EXPECT_NEAR(master.value(), 0, 1e-9);
  EXPECT_NEAR(master.missed(), 0, 1e-9);
  master.solve(contents, {{10, 2}}, false);
  EXPECT_NEAR(master.value(), 50 / 2., 1e-9);
}

// Two units of 2 share the one rank, which leaves a unit of 4 uniform, at 3. With one of them gone
// the filling of both is no filling any more: half of it would make half a rank do.
TEST(ContentMaster, UsesNoFillingOfMoreThanIsLeft) {
  PlacementProblem problem;
  problem.num_ranks = 2;
  problem.resources = testing::three_memories();
  problem.caps.assign(2, {100, 0, 0});
  const auto unit = [](double load, double uniform) {
    return Unit{
        "", {device_choice(1, load), {Spread::kUniform, {{2, {uniform}, {5, 0, 0}}}, 1, {}}}, {}};
  };
  problem.units = {unit(2, 5), unit(2, 5), unit(4, 3)};
  const Instance instance(problem, 0);
  Contents contents(*instance.model);
  FillingPool pool;
  EffortClock clock{RunContext{}};
  ContentMaster master(*instance.model, 4, 40, pool, clock);
  master.solve(contents, {{40, 1}}, false);
  EXPECT_NEAR(master.value(), 3, 1e-9);
  ASSERT_EQ(instance.model->items[0].load, 2);
  contents.put(0, 1);
  master.solve(contents, {{40, 1}}, false);
  EXPECT_NEAR(master.value(), 3, 1e-9);
}

TEST(ContentMaster, RoundsLoadsToTheNearestCell) {
  const Instance instance(two_units(), 0);
  FillingPool pool;
  EffortClock clock{RunContext{}};
  const ContentMaster master(*instance.model, 10, 100, pool, clock);
  EXPECT_EQ(master.cells_of(0.0), 0);
  EXPECT_EQ(master.cells_of(0.01), 1);  // nothing but nothing takes no cell
  EXPECT_EQ(master.cells_of(0.24), 2);
  EXPECT_EQ(master.cells_of(0.26), 3);
  EXPECT_EQ(master.cells_of(10.0), 100);
  EXPECT_EQ(master.cells_of(10.01), 101);
  EXPECT_EQ(master.room_cells(0), 100);
  EXPECT_EQ(master.room_cells(2.5), 75);
  EXPECT_EQ(master.room_cells(11), 0);
  EXPECT_EQ(master.room_cells(-1e-9), 100);
}

TEST(ContentMaster, MakesTablesOfWhatIsLeftAtItsPrices) {
  PlacementProblem problem = two_units();
  problem.units.push_back(problem.units[0]);
  const Instance instance(problem, 0);
  const ContentModel& model = *instance.model;
  Contents contents(model);
  FillingPool pool;
  EffortClock clock{RunContext{}};
  ContentMaster master(model, 4, 40, pool, clock);
  master.solve(contents, {{40, 1}}, false);
  EXPECT_NEAR(master.value(), 2 + 50 * 4, 1e-9);  // one of the units of 4 is missed
  math::KnapsackTable& table = master.make_table(contents, false, {});
  const std::vector<math::KnapsackCount> best = master.to_items(table.filling(40), false);
  ASSERT_EQ(best.size(), 1);
  EXPECT_EQ(best[0].count, 1);
  EXPECT_EQ(model.items[best[0].item].load, 4);
  EXPECT_NEAR(table.value(40), 50 * 4, 1e-6);
  EXPECT_NEAR(table.value(39), 50 * 4 / 2, 1e-6);  // half a unit
  EXPECT_EQ(table.value(29), 0);
  // By its factors another content is better, by others none is worth anything.
  std::vector<double> factors;
  for (const ContentItem& item : model.items) factors.push_back(item.num_parts == 2 ? 2.5 : 1);
  const std::vector<math::KnapsackCount> halves =
      master.to_items(master.make_table(contents, false, factors).filling(40), false);
  ASSERT_EQ(halves.size(), 1);
  EXPECT_EQ(model.items[halves[0].item].num_parts, 2);
  factors.assign(factors.size(), 0);
  EXPECT_EQ(master.make_table(contents, false, factors).value(40), 0);
  // What stands is left no more.
  contents.put(best[0].item, 0);
  EXPECT_NEAR(master.make_table(contents, false, {}).value(40), 50 * 4, 1e-6);
  contents.put(best[0].item, 1);
  EXPECT_EQ(master.make_table(contents, false, {}).value(40), 0);
}

// What the effort leaves undone is missed, not forgotten.
TEST(ContentMaster, StopsWithItsClock) {
  const Instance instance(two_units(), 0);
  FillingPool pool;
  EffortClock clock{RunContext{}, 1};
  ASSERT_TRUE(clock.spend(1));
  ContentMaster master(*instance.model, 5, 50, pool, clock);
  master.solve(Contents(*instance.model), {{50, 2}}, false);
  EXPECT_NEAR(master.value(), 50 * 5 + 2, 1e-9);
  EXPECT_EQ(master.missed(), 1);
  EXPECT_TRUE(master.uses().empty());
  EXPECT_EQ(clock.effort(), 1);
}

}  // namespace
}  // namespace plimsoll::balance
