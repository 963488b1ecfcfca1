// The judge of bounds beside witnesses that lie: whatever they hold, nothing false is proved, and
// the answer comes soon.

#include "balance/verify/verify_bound.h"

#include <gtest/gtest.h>

#include <climits>
#include <iterator>
#include <limits>

#include "balance/bounds/bound_placement.h"
#include "balance/random_placements.h"

namespace plimsoll::balance {
namespace {

using testing::Enumerator;
using testing::kind_of_seed;
using testing::Random;
using testing::random_problem;

constexpr double kNaN = std::numeric_limits<double>::quiet_NaN();

PlacementBound bound_of(const PlacementProblem& problem, int level) {
  BoundOptions options;
  options.coarse_cells = 100;
  options.cells = 300;
  options.window_tolerance = 1e-3;
  options.use_windows = level == 1 || level == 3;
  options.use_patterns = level >= 2;
  options.use_branching = level == 3;
  if (problem.num_barriers > 1) options.incumbent = kInfinity;  // each barrier alone, too
  return bound_placement(problem, options, {});
}

class Forger {
 public:
  explicit Forger(std::uint64_t seed) : random_(seed) {}

  void forge(PlacementBound& bound) {
    if (random_.chance(20)) {
      change(bound.cases[static_cast<std::size_t>(
          random_.below(static_cast<int>(bound.cases.size())))]);
    }
    find_numbers(bound);
    for (int i = random_.below(4); i >= 0; --i) {
      const auto at =
          static_cast<std::size_t>(random_.below(static_cast<int>(reals_.size() + whole_.size())));
      if (at < reals_.size()) {
        change(*reals_[at]);
      } else {
        change(*whole_[at - reals_.size()]);
      }
    }
  }

 private:
  void find_numbers(PlacementBound& bound) {
    const auto add = [this](std::vector<double>& values) {
      for (double& value : values) reals_.push_back(&value);
    };
    for (int& kind : bound.kind_of_rank) whole_.push_back(&kind);
    const auto add_proof = [this, &add](auto& c) {
      reals_.insert(reals_.end(), {&c.prices.target, &c.windows.target, &c.windows.top});
      add(c.prices.theta);
      add(c.prices.price);
      whole_.push_back(&c.windows.cells);
      for (int& unit : c.windows.class_of_unit) whole_.push_back(&unit);
      for (RoomProof& proof : c.windows.proofs) {
        reals_.insert(reals_.end(), {&proof.room, &proof.uniform_load, &proof.multiplier,
                                     &proof.function.parameter});
        add(proof.value);
        add(proof.price);
      }
      for (WindowNode& node : c.windows.nodes) {
        reals_.push_back(&node.split);
        whole_.insert(whole_.end(), {&node.first_child, &node.class_index, &node.proof});
      }
    };
    for (BoundCase& c : bound.cases) {
      reals_.push_back(&c.value);
      add_proof(c);
      for (BarrierProof& proof : c.barriers) add_proof(proof);
      for (ChoiceProof& proof : c.choices.proofs) {
        reals_.insert(reals_.end(), {&proof.target, &proof.mean});
        add(proof.price);
        for (Anchor& anchor : proof.anchors) {
          reals_.push_back(&anchor.weight);
          whole_.insert(whole_.end(), {&anchor.unit, &anchor.resource});
        }
      }
      reals_.push_back(&c.boxes.top);
      for (int& unit : c.boxes.class_of_unit) whole_.push_back(&unit);
      for (int& limit : c.boxes.limits) whole_.push_back(&limit);
      for (BoxProof& proof : c.boxes.proofs) {
        reals_.push_back(&proof.uniform_load);
        add(proof.room);
        add(proof.value);
        add(proof.price);
        add(proof.uniform_price);
      }
      for (BoxNode& node : c.boxes.nodes) {
        reals_.push_back(&node.split);
        whole_.insert(whole_.end(), {&node.first_child, &node.barrier, &node.proof});
      }
      for (ChoiceNode& node : c.choices.nodes) {
        whole_.insert(whole_.end(), {&node.first_child, &node.unit, &node.proof});
        for (int& choice : node.choices) whole_.push_back(&choice);
      }
    }
  }

  void change(double& value) {
    const double values[] = {kNaN, kInfinity, -kInfinity, -1,        0,         1e308,
                             1e29, 1e-300,    value * 2,  value / 2, value + 1, value * 1.01};
    value = values[random_.below(std::size(values))];
  }

  void change(int& value) {
    const int values[] = {-1, -2, 0, 1, INT_MAX, INT_MIN, value / 2, 2, 3};
    value = values[random_.below(std::size(values))];
  }

  void change(BoundCase& c) {
    switch (random_.below(6)) {
      case 0:
        c.method = static_cast<BoundMethod>(random_.below(10));
        return;
      case 1:
        c.paid ^= std::uint64_t{1} << random_.below(64);
        return;
      case 2:
        c.forbidden ^= std::uint64_t{1} << random_.below(64);
        return;
      case 3:
        for (std::int64_t& weight : c.prices.weight) weight = INT64_MAX;
        return;
      case 4:
        c.load_resource = random_.below(5) - 1;
        return;
      default:
        c.prices.theta.resize(static_cast<std::size_t>(random_.below(6)), 1e308);
    }
  }

  Random random_;
  std::vector<double*> reals_;
  std::vector<int*> whole_;
};

TEST(VerifyBound, ProvesNothingFalseWhateverTheWitnessHolds) {
  int num_refused = 0, num_forged = 0;
  for (std::uint64_t seed = 0; seed < 60; ++seed) {
    SCOPED_TRACE(seed);
    const PlacementProblem problem = random_problem(seed, kind_of_seed(seed));
    const double optimum = Enumerator(problem).find();
    if (optimum == kInfinity) continue;
    const PlacementBound bound = bound_of(problem, static_cast<int>(seed % 4));
    for (std::uint64_t i = 0; i < 200; ++i) {
      PlacementBound forged = bound;
      Forger(1000 * seed + i).forge(forged);
      forged.value = optimum * 1.001;
      const BoundVerdict verdict = verify_bound(problem, forged);
      EXPECT_FALSE(verdict.holds) << i;
      EXPECT_LE(verdict.value, optimum * (1 + 1e-9)) << i;
      ++num_forged;
      num_refused += verdict.value == -kInfinity;
    }
  }
  EXPECT_GT(num_refused, num_forged / 10);
}

// One rank, one unit of 3 ms.
PlacementProblem small_problem() {
  PlacementProblem problem;
  problem.resources = testing::three_memories();
  problem.caps = {{8, 8, 8}};
  problem.units = {{"a", {{Spread::kDevice, {{1, {3}, {1, 0, 0}}}, 1, {}}}, {}}};
  return problem;
}

PlacementBound windows_bound() {
  PlacementBound bound;
  bound.value = 2.9;
  bound.kind_of_rank = {0};
  BoundCase& c = bound.cases.emplace_back();
  c.method = BoundMethod::kPatterns;
  c.windows.target = c.windows.top = 3;
  c.windows.class_of_unit = {0};
  c.windows.cells = 10;
  c.windows.proofs = {{3, 0, {0}, {}, {}, 0}, {2.9, 5, {5}, {}, {}, 0}};  // no room for 3 ms
  c.windows.nodes = {{1, 2.9, -1, -1}, {-1, 0, -1, 1}, {-1, 0, -1, 0}};
  return bound;
}

TEST(VerifyBound, RefusesNumbersThatOverflow) {
  PlacementBound bound;
  bound.value = 1e6;
  bound.kind_of_rank = {0};
  BoundCase& c = bound.cases.emplace_back();
  c.method = BoundMethod::kAverage;
  c.prices.price = {0, 0, 0};
  for (const double theta : {1.7e308, 1e308, kInfinity, kNaN, 0.0, -1.0}) {
    c.prices.theta = {theta};
    const BoundVerdict verdict = verify_bound(small_problem(), bound);
    EXPECT_FALSE(verdict.holds) << theta;
    EXPECT_FALSE(verdict.fault.empty()) << theta;
  }
  c.prices.theta = {1};
  for (const double price : {1e308, kInfinity, kNaN, -1.0}) {
    c.prices.price = {price, 0, 0};
    EXPECT_FALSE(verify_bound(small_problem(), bound).holds) << price;
  }
  c.method = BoundMethod::kMemory;
  c.prices.weight = {INT64_MAX, INT64_MAX, INT64_MAX};
  EXPECT_FALSE(verify_bound(small_problem(), bound).holds);
}

// A chain as deep as a document is long, and children that are their own parents.
TEST(VerifyBound, WalksTreesOfAnyShape) {
  const PlacementProblem problem = small_problem();
  PlacementBound bound = windows_bound();
  std::vector<WindowNode>& nodes = bound.cases[0].windows.nodes;
  constexpr int kDepth = 200000;
  nodes.clear();
  for (int i = 0; i < kDepth; ++i) {
    nodes.push_back({2 * i + 1, 3.0, -1, -1});
    nodes.push_back({-1, 0, -1, 0});
  }
  nodes.push_back({-1, 0, -1, 0});
  for (std::size_t i = 0; i < nodes.size(); ++i) {
    if (nodes[i].first_child >= 0) nodes[i].first_child = static_cast<int>(i) + 1;
  }
  EXPECT_LE(verify_bound(problem, bound).value, 3);
  for (const int child : {0, INT_MAX, INT_MAX - 1, -5}) {
    nodes = {{child, 1, -1, -1}, {-1, 0, -1, 0}, {-1, 0, -1, 0}};
    EXPECT_LE(verify_bound(problem, bound).value, 3) << child;
  }
  for (const int c : {-1, 1, INT_MAX, INT_MIN}) {
    bound = windows_bound();
    bound.cases[0].windows.class_of_unit = {c};
    EXPECT_FALSE(verify_bound(problem, bound).fault.empty()) << c;
  }
}

TEST(VerifyBound, GivesUpWhereAQuestionWouldTakeForEver) {
  const PlacementProblem problem = small_problem();
  PlacementBound bound;
  bound.kind_of_rank = {0};
  for (int i = 0; i < 31; ++i) {  // (1 and 2) or (3 and 4) or ... or 0 or not 0
    bound.cases.push_back(
        {std::uint64_t{6} << (2 * i), 0, 0, BoundMethod::kNone, {}, {}, {}, {}, {}, {}});
  }
  bound.cases.push_back({1, 0, 0, BoundMethod::kNone, {}, {}, {}, {}, {}, {}});
  bound.cases.push_back({0, 1, 0, BoundMethod::kNone, {}, {}, {}, {}, {}, {}});
  EXPECT_FALSE(verify_bound(problem, bound).holds);
  bound.cases.erase(bound.cases.begin(), bound.cases.begin() + 31);
  EXPECT_TRUE(verify_bound(problem, bound).holds);
  bound.cases.assign(100000, bound.cases.front());
  EXPECT_FALSE(verify_bound(problem, bound).holds);

  bound = windows_bound();
  bound.cases[0].windows.cells = 1 << 20;
  bound.cases[0].windows.proofs.assign(100000, {3, 0, {1}, {}, {}, 0});
  std::vector<WindowNode>& nodes = bound.cases[0].windows.nodes;
  nodes.clear();
  for (int i = 0; i < 99999; ++i) {
    nodes.push_back({2 * i + 1, 3, -1, -1});
    nodes.push_back({-1, 0, -1, i});
  }
  nodes.push_back({-1, 0, -1, 99999});
  EXPECT_FALSE(verify_bound(problem, bound, 20000000).holds);
}

TEST(VerifyBound, AcceptsTheTruth) {
  const BoundVerdict verdict = verify_bound(small_problem(), windows_bound());
  EXPECT_TRUE(verdict.holds) << verdict.fault << " " << verdict.value;
}

}  // namespace
}  // namespace plimsoll::balance
