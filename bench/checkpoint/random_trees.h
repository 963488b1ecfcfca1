// Seeded module trees for benchmarks and tests of the checkpointing searches.
#pragma once

#include <algorithm>
#include <cstdint>
#include <random>
#include <string>
#include <vector>

#include "plimsoll/checkpoint/checkpoint_problem.h"

namespace plimsoll::bench {

using checkpoint::CandidateUnit;
using checkpoint::CheckpointProblem;

class Random {
 public:
  explicit Random(std::uint64_t seed) : engine_(seed) {}
  // Uniform in [0, 1) from 53 bits.
  double unit() { return static_cast<double>(engine_() >> 11) * 0x1p-53; }
  double in(double low, double high) { return low + (high - low) * unit(); }
  std::int64_t whole(std::int64_t low, std::int64_t high) {
    return low + static_cast<std::int64_t>(engine_() % static_cast<std::uint64_t>(high - low + 1));
  }
  bool chance(double p) { return unit() < p; }

 private:
  std::mt19937_64 engine_;
};

// A problem over a tree whose nodes are numbered in forward pre-order: [0] is the root and
// parent[i] < i. Bases are 0 and there are no units.
inline CheckpointProblem problem_over(const std::vector<int>& parent) {
  CheckpointProblem problem;
  const int n = static_cast<int>(parent.size());
  problem.tree.parent = parent;
  problem.tree.children.resize(n);
  problem.tree.position.resize(n);
  problem.tree.is_nested = true;
  problem.base.resize(n);
  for (int node = 0; node < n; ++node) {
    problem.fqn.push_back(node == 0 ? "R" : "R.m" + std::to_string(node));
    if (node > 0) problem.tree.children[parent[node]].push_back(node);
  }
  std::vector<std::pair<int, std::size_t>> stack{{0, 0}};
  while (!stack.empty()) {
    auto& [node, next] = stack.back();
    if (next < problem.tree.children[node].size()) {
      stack.emplace_back(problem.tree.children[node][next++], 0);
      continue;
    }
    problem.tree.position[node] = static_cast<int>(problem.tree.post_order.size());
    problem.tree.post_order.push_back(node);
    stack.pop_back();
  }
  return problem;
}

// The first position below a node, itself included.
inline int first_position(const CheckpointProblem& problem, int node) {
  while (!problem.tree.children[node].empty()) node = problem.tree.children[node].front();
  return problem.tree.position[node];
}

// A unit over consecutive children, or over one node; its threshold is the bases' it covers.
inline CandidateUnit unit_over(const CheckpointProblem& problem, std::vector<int> nodes) {
  CandidateUnit unit;
  unit.first = first_position(problem, nodes.front());
  unit.last = problem.tree.position[nodes.back()];
  unit.own_need = std::numeric_limits<Bytes>::min();
  unit.threshold = unit.own_need;
  for (int p = unit.first; p <= unit.last; ++p) {
    unit.threshold = std::max(unit.threshold, problem.base_at(p));
  }
  unit.nodes = std::move(nodes);
  return unit;
}

inline void sort_units(CheckpointProblem& problem) {
  std::stable_sort(problem.units.begin(), problem.units.end(),
                   [](const CandidateUnit& a, const CandidateUnit& b) {
                     return a.first != b.first ? a.first < b.first : a.last < b.last;
                   });
}

// What small_tree makes.
struct SmallTree {
  int most_nodes = 12;
  bool has_points = false;     // prices are finite sets of points instead of convex
  bool has_segments = false;   // runs of two or three children may be units
  bool has_end = false;        // an end point
  double fixed_charges = 0.5;  // share of prices with one
  int most_bytes = 40;         // of a unit
};

// A ragged tree of 2 to most_nodes nodes with whole-number bases up to 150 and short prices, small
// enough to enumerate. Prices are multiples of 1/8, so sums are exact.
inline CheckpointProblem small_tree(std::uint64_t seed, const SmallTree& shape) {
  Random random(seed);
  const int n = static_cast<int>(random.whole(2, shape.most_nodes));
  std::vector<int> parent{-1};
  std::vector<int> path{0};  // pre-order: a new node hangs at a node of the last path
  for (int node = 1; node < n; ++node) {
    path.resize(static_cast<std::size_t>(random.whole(1, static_cast<std::int64_t>(path.size()))));
    parent.push_back(path.back());
    path.push_back(node);
  }
  CheckpointProblem problem = problem_over(parent);
  const bool has_equal_bases = random.chance(.1);
  for (Bytes& base : problem.base) base = has_equal_bases ? 100 : random.whole(-10, 150);
  if (shape.has_end) problem.end_base = random.whole(0, 150);

  const auto add_price = [&](CandidateUnit& unit) {
    const double fixed =
        random.chance(shape.fixed_charges) ? .125 * static_cast<double>(random.whole(0, 40)) : 0;
    unit.kept_inside = random.whole(1, shape.most_bytes);
    unit.sac_memory = unit.kept_inside + random.whole(0, 5);
    if (shape.has_points) {
      const auto count = random.whole(1, 4);
      for (int k = 0; k < count; ++k) {
        unit.points.push_back({k == 0 ? unit.kept_inside : random.whole(0, unit.kept_inside),
                               .125 * static_cast<double>(random.whole(0, 60))});
        if (random.chance(.2)) unit.points.back().needs = unit.threshold + random.whole(0, 20);
      }
      return;
    }
    unit.price.fixed = fixed;
    double slope = random.chance(.3) ? 0 : .125 * static_cast<double>(random.whole(1, 4));
    Bytes left = random.chance(.3) ? random.whole(1, unit.kept_inside) : unit.kept_inside;
    while (left > 0) {
      const Bytes length = random.whole(1, left);
      unit.price.pieces.push_back({length, slope});
      left -= length;
      slope += .125 * static_cast<double>(random.whole(1, 12));
    }
  };
  for (int node = 0; node < n; ++node) {
    const std::vector<int>& children = problem.tree.children[node];
    if (!children.empty() && random.chance(.8)) {
      problem.units.push_back(unit_over(problem, {node}));
      add_price(problem.units.back());
    }
    for (std::size_t a = 0; shape.has_segments && a + 1 < children.size(); ++a) {
      for (std::size_t b = a + 1; b < std::min(a + 3, children.size()); ++b) {
        problem.units.push_back(
            unit_over(problem, {children.begin() + static_cast<std::ptrdiff_t>(a),
                                children.begin() + static_cast<std::ptrdiff_t>(b) + 1}));
        add_price(problem.units.back());
      }
    }
  }
  sort_units(problem);
  return problem;
}

enum class Family {
  kPlain,
  kMoe,  // every fourth feed-forward keeps 1.5 to 3 times as much
};

// Unlike layers: each an attention and a feed-forward block with two leaves, seven nodes; with the
// root and a head 7 * num_layers + 2. Widths uniform in [.4, 2]; attention keeps 4 to 8 units of
// 64 MiB times the width, feed-forward 6 to 12; .9 to 1 of what is kept can be discarded; prices of
// 2 or 3 pieces, three in ten with a fixed charge, proportional to bytes with a random intensity.
// Layers, blocks and the root may be units.
inline CheckpointProblem layered_tree(int num_layers, Family family, std::uint64_t seed) {
  Random random(seed * 1000003 + static_cast<std::uint64_t>(num_layers) * 17 +
                (family == Family::kMoe ? 7 : 0));
  std::vector<int> parent{-1};
  for (int layer = 0; layer < num_layers; ++layer) {
    const int top = static_cast<int>(parent.size());
    parent.insert(parent.end(), {0, top, top + 1, top + 1, top, top + 4, top + 4});
  }
  parent.push_back(0);
  CheckpointProblem problem = problem_over(parent);

  const double unit_bytes = 64.0 * static_cast<double>(kMiB);
  const auto bytes = [](double value) { return static_cast<Bytes>(value); };
  struct Candidate {
    int node;
    double kept;
  };
  std::vector<Candidate> candidates;
  double activations = 0;  // kept so far
  double gradients = 0;    // to come
  std::vector<double> widths;
  for (int layer = 0; layer < num_layers; ++layer) {
    widths.push_back(random.in(.4, 2));
    gradients += widths.back() * unit_bytes;
  }
  const double parameters = gradients;
  for (int layer = 0; layer < num_layers; ++layer) {
    const int top = 1 + 7 * layer;
    const double width = widths[layer] * unit_bytes;
    double feed = random.in(6, 12);
    if (family == Family::kMoe && layer % 4 == 3) feed *= random.in(1.5, 3);
    const double kept[] = {random.in(4, 8) * width, feed * width};
    gradients -= width;
    double inside = 0;
    for (int block = 0; block < 2; ++block) {
      const int node = top + 1 + 3 * block;
      for (int leaf = 1; leaf <= 2; ++leaf) {
        activations += .5 * kept[block];
        problem.base[node + leaf] =
            bytes(parameters + gradients + activations + random.in(.2, 1.5) * width);
      }
      activations += width;  // its output
      problem.base[node] = bytes(parameters + gradients + activations + random.in(.5, 2.5) * width);
      candidates.push_back({node, kept[block]});
      inside += kept[block] + (block == 0 ? width : 0);
    }
    problem.base[top] = bytes(parameters + gradients + activations + random.in(.5, 2.5) * width);
    candidates.push_back({top, inside});
  }
  problem.base.back() = bytes(parameters + activations + random.in(.5, 3) * unit_bytes);
  problem.base[0] = bytes(parameters + activations + random.in(1, 4) * unit_bytes);
  candidates.push_back({0, activations});

  for (const auto& [node, kept] : candidates) {
    CandidateUnit unit = unit_over(problem, {node});
    unit.kept_inside = bytes(kept);
    unit.sac_memory = bytes(kept * random.in(1, 1.4));
    const double intensity = random.in(.3, 3) / unit_bytes;  // ms per byte
    std::vector<math::Line> lines;
    double slope = random.in(.05, .5), intercept = random.chance(.3) ? random.in(0, .05) : 0;
    double at = 0;
    const int num_lines = random.chance(.5) ? 3 : 2;
    for (int line = 0; line < num_lines; ++line) {
      lines.push_back({slope * intensity, intercept * kept * intensity});
      at += random.in(.25, .45);
      const double next = slope * random.in(1.5, 5);
      intercept += (slope - next) * at;
      slope = next;
    }
    unit.price = math::convex_cost(lines, bytes(kept * random.in(.9, 1)));
    problem.units.push_back(std::move(unit));
  }
  sort_units(problem);
  return problem;
}

}  // namespace plimsoll::bench
