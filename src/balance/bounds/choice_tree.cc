#include "balance/bounds/choice_tree.h"

#include <algorithm>
#include <cmath>
#include <optional>
#include <queue>
#include <utility>
#include <vector>

#include "balance/prices/target_filter.h"
#include "core/check.h"
#include "core/effort_clock.h"
#include "math/linear_program.h"

namespace plimsoll::balance {
namespace {

constexpr double kSmallShare = 0.05;  // of a cap: smaller pieces have no anchors
constexpr double kWhole = 1e-6;       // what is nearer to 0 or 1 is not a mixture
constexpr int kTargets = 5;           // tried at a node besides the tree's own
constexpr double kNearTarget = 1e-3;  // relative: no other is tried
constexpr double kLoadShare = 0.3;    // of loads beside bytes, in what lies apart
constexpr double kOverdraw = 100;     // mean loads that a cap overdrawn once over costs
constexpr std::size_t kMaxNumbers = std::size_t{1} << 26;  // flags of open nodes

// What a choice needs, wherever it is placed: ranks are all alike.
struct Need {
  double mean = 0;        // load over the number of ranks
  double everywhere = 0;  // load on every rank; 0 where it can be placed
  double peak = 0;        // load of its largest piece
  Amounts bytes{};        // of all pieces
  Amounts everywhere_bytes{};
  Amounts peak_bytes{};
};

class Tree {
 public:
  Tree(const PlacementGroups& groups, const ChoiceTreeOptions& options, const RunContext& context)
      : groups_(groups), options_(options), context_(context), kind_(groups.ranks.kinds.front()) {
    for (const GroupChoice& choice : groups.choices) needs_.push_back(need_of(choice));
  }

  ChoiceTreeBound run() {
    result_.witness.nodes.emplace_back();
    make_program();
    open(0, std::vector<char>(groups_.choices.size(), 1), -1);
    const double root = heap_.empty() ? options_.target : nodes_[heap_.top()].value;
    while (!heap_.empty() && !is_spent() && !is_in_vain(root)) {
      if (nodes_[heap_.top()].unit < 0) break;
      const int number = heap_.top();
      heap_.pop();
      branch(number);
    }
    result_.value = heap_.empty() ? options_.target : nodes_[heap_.top()].value;
    result_.value = std::min(result_.value, options_.target);
    keep_proofs_of_leaves();
    return std::move(result_);
  }

 private:
  struct Node {
    double value = 0;
    int witness = 0;
    int proof = -1;
    std::vector<char> allowed;  // [choices]
    int unit = -1;              // to branch on, the first child having this choice alone
    int choice = 0;
  };
  struct IsWorse {
    const std::vector<Node>* nodes;
    bool operator()(int a, int b) const {
      const double x = (*nodes)[a].value, y = (*nodes)[b].value;
      return x != y ? x > y : a > b;
    }
  };

  Bytes cap(int resource) const { return kind_.cap[resource]; }
  Bytes cap_of_all(int resource) const {
    return groups_.ranks.accounts[kind_.account[resource]].cap;
  }

  Need need_of(const GroupChoice& choice) const {
    Need need;
    for (const ChoicePart& part : groups_.parts_of(choice)) {
      const ChoicePlace& place = groups_.places_of(part).front();
      for (const ChoiceShare& share : groups_.shares_of(place)) {
        need.mean +=
            static_cast<double>(part.count) * share.load / static_cast<double>(kind_.ranks.size());
        need.bytes.add(share.bytes, part.count);
        need.peak = std::max(need.peak, share.largest_load);
        for (int resource = 0; resource < groups_.ranks.num_resources; ++resource) {
          need.peak_bytes[resource] =
              std::max(need.peak_bytes[resource], share.largest_bytes[resource]);
        }
        if (!choice.is_everywhere) continue;
        need.everywhere = share.least_load;
        need.everywhere_bytes = share.least_bytes;
      }
    }
    return need;
  }

  // Of the choice, in the program's last solution.
  double share(int choice) const { return program_->x(first_column_ + choice); }

  // Loads are counted in `scale_`, bytes in caps.
  void make_program() {
    for (const PlacementGroup& group : groups_.groups) {
      double least = kInfinity;
      for (int c = group.first_choice; c < group.first_choice + group.num_choices; ++c) {
        least = std::min(least, needs_[c].mean);
      }
      scale_ += least;
    }
    if (!(scale_ > 0) || scale_ == kInfinity) scale_ = 1;
    math::MilpProblem program;
    const int slowest = program.add_column(-kInfinity, kInfinity, 1);
    const int overdrawn = overdrawn_ = program.add_column(0, kInfinity, kOverdraw);
    const int everywhere = program.add_column(0, kInfinity);
    PerResource<int> everywhere_bytes{};
    for (int resource = 0; resource < groups_.ranks.num_resources; ++resource) {
      if (cap(resource) > 0) everywhere_bytes[resource] = program.add_column(0, kInfinity);
    }
    first_column_ = static_cast<int>(program.columns.size());
    for (std::size_t c = 0; c < needs_.size(); ++c) program.add_column(0, 1);
    const auto column = [&](int choice) { return first_column_ + choice; };
    for (const PlacementGroup& group : groups_.groups) {
      std::vector<math::MilpTerm> one;
      for (int c = group.first_choice; c < group.first_choice + group.num_choices; ++c) {
        one.push_back({column(c), 1});
      }
      program.add_row(1, std::move(one), 1);
    }
    const auto add = [&](std::vector<math::MilpTerm> terms, double sign, const auto& need,
                         double lower, double upper) {
      for (int c = 0; c < std::ssize(needs_); ++c) {
        if (const double value = need(needs_[c]); value != 0) {
          terms.push_back({column(c), sign * value});
        }
      }
      program.add_row(lower, std::move(terms), upper);
      return static_cast<int>(program.rows.size()) - 1;
    };
    mean_row_ = add(
        {{slowest, 1}}, -1, [&](const Need& n) { return n.mean / scale_; }, 0, kInfinity);
    add(
        {{everywhere, 1}}, -1, [&](const Need& n) { return n.everywhere / scale_; }, 0, kInfinity);
    for (int resource = 0; resource < groups_.ranks.num_resources; ++resource) {
      if (cap(resource) <= 0) continue;
      const auto all = static_cast<double>(cap_of_all(resource));
      const auto one = static_cast<double>(cap(resource));
      resource_row_[resource] = add(
          {{overdrawn, -1}}, 1,
          [&](const Need& n) { return static_cast<double>(n.bytes[resource]) / all; }, -kInfinity,
          1);
      add(
          {{everywhere_bytes[resource], 1}}, -1,
          [&](const Need& n) { return static_cast<double>(n.everywhere_bytes[resource]) / one; }, 0,
          kInfinity);
    }
    for (int g = 0; g < groups_.num_groups(); ++g) {
      add_anchors(g, slowest, overdrawn, everywhere, everywhere_bytes, program);
    }
    program_.emplace(program);
    is_open_.assign(needs_.size(), 1);
  }

  void add_anchors(int g, int slowest, int overdrawn, int everywhere,
                   const PerResource<int>& everywhere_bytes, math::MilpProblem& program) {
    const PlacementGroup& group = groups_.groups[g];
    const auto add = [&](std::vector<math::MilpTerm> terms, int resource, double sign, double scale,
                         const auto& beyond, double lower, double upper) {
      double largest = 0;
      for (int c = group.first_choice; c < group.first_choice + group.num_choices; ++c) {
        const double value = beyond(needs_[c]) / scale;
        if (value == 0) continue;
        terms.push_back({first_column_ + c, sign * value});
        largest = std::max(largest, value);
      }
      if (largest < kSmallShare) return;
      program.add_row(lower, std::move(terms), upper);
      anchors_.push_back({static_cast<int>(program.rows.size()) - 1, g, resource});
    };
    add(
        {{slowest, 1}, {everywhere, -1}}, -1, -1, scale_,
        [](const Need& n) { return n.peak - n.everywhere; }, 0, kInfinity);
    for (int resource = 0; resource < groups_.ranks.num_resources; ++resource) {
      if (cap(resource) <= 0) continue;
      add(
          {{everywhere_bytes[resource], 1}, {overdrawn, -1}}, resource, 1,
          static_cast<double>(cap(resource)),
          [resource](const Need& n) {
            return static_cast<double>(n.peak_bytes[resource] - n.everywhere_bytes[resource]);
          },
          -kInfinity, 1);
    }
  }

  void keep_proofs_of_leaves() {
    ChoiceWitness& witness = result_.witness;
    std::vector<int> place(witness.proofs.size(), -1);
    std::vector<ChoiceProof> kept;
    for (ChoiceNode& node : witness.nodes) {
      if (node.proof < 0) continue;
      if (place[node.proof] < 0) {
        place[node.proof] = static_cast<int>(kept.size());
        kept.push_back(std::move(witness.proofs[node.proof]));
      }
      node.proof = place[node.proof];
    }
    witness.proofs = std::move(kept);
  }

  bool is_spent() const {
    return result_.num_nodes >= options_.max_nodes || result_.num_pivots >= options_.max_pivots ||
           nodes_.size() * needs_.size() > kMaxNumbers || is_stopped(context_);
  }

  // What the first nodes prove no better, the others hardly do.
  bool is_in_vain(double root) const {
    constexpr int kPatience = 40;  // nodes; by experiment: the trees of `tight_bench` that rise
    constexpr double kLeast = 1e-3;
    return result_.num_nodes >= kPatience && nodes_[heap_.top()].value < root * (1 + kLeast);
  }

  // Cuts `allowed` down to what the target leaves; false: some unit is left without a choice.
  bool filter(double target, std::vector<char>& allowed) const {
    const PlacementGroups kept = with_choices(groups_, allowed);
    const Survivors survivors = filter_by_target(kept, target);
    if (survivors.is_dead()) return false;
    std::size_t next = 0;
    for (char& is_allowed : allowed) {
      if (is_allowed != 0) is_allowed = survivors.choice[next++];
    }
    return true;
  }

  // `proof`: of the node above, which holds here, too; -1: none.
  void open(int witness, std::vector<char> allowed, int proof) {
    ++result_.num_nodes;
    Node node;
    node.witness = witness;
    if (proof >= 0) take(proof, prove(result_.witness.proofs[proof], allowed), node);
    // Placements of less than `low` are refuted, of `high` they are not.
    double high = options_.target;
    std::vector<char> kept = allowed;
    if (!solve(high, kept, node)) {
      result_.witness.nodes[witness].proof = node.proof;
      return;
    }
    allowed = kept;
    keep_guide();
    choose_branch(allowed, node);
    for (int i = 0; i < kTargets && high > node.value * (1 + kNearTarget); ++i) {
      const double target = high < kInfinity ? (node.value + high) / 2 : 2 * node.value;
      std::vector<char> fewer = allowed;
      if (!filter(target, fewer)) {
        result_.witness.proofs.push_back({target, 0, {}, {}});
        take(static_cast<int>(result_.witness.proofs.size()) - 1, target, node);
        continue;
      }
      if (fewer == kept) {
        high = target;
        continue;
      }
      if (solve(target, fewer, node)) {
        high = target;
        kept = fewer;
        choose_branch(kept, node);
      }
    }
    result_.witness.nodes[witness].proof = node.proof;
    if (node.value >= options_.target) return;
    node.allowed = std::move(allowed);
    nodes_.push_back(std::move(node));
    heap_.push(static_cast<int>(nodes_.size()) - 1);
  }

  void keep_guide() {
    double mixture = 0;
    std::vector<int> guide;
    for (const PlacementGroup& group : groups_.groups) {
      int largest = group.first_choice;
      for (int c = group.first_choice; c < group.first_choice + group.num_choices; ++c) {
        const double x = share(c);
        mixture += x * (1 - x);
        if (x > share(largest)) largest = c;
      }
      guide.push_back(groups_.choices[largest].choice);
    }
    if (mixture + kWhole >= least_mixture_ || program_->x(overdrawn_) > kWhole) return;
    least_mixture_ = mixture;
    result_.guide = std::move(guide);
  }

  void take(int proof, double value, Node& node) const {
    if (node.proof >= 0 && value <= node.value) return;
    node.proof = proof;
    node.value = value;
  }

  // What the proof shows of placements that take allowed choices.
  double prove(const ChoiceProof& proof, std::vector<char> allowed) const {
    if (!filter(proof.target, allowed)) return proof.target;
    return std::min(proof.target, value_of(proof, allowed));
  }

  // Solves the program of what the target leaves; false: no placement of at most the target.
  bool solve(double target, std::vector<char>& allowed, Node& node) {
    ChoiceProof proof;
    bool is_refuted = true;
    double value = target;
    if (filter(target, allowed)) {
      for (std::size_t c = 0; c < allowed.size(); ++c) {
        if (allowed[c] == is_open_[c]) continue;
        program_->set_bounds(first_column_ + static_cast<int>(c), 0, allowed[c]);
        is_open_[c] = allowed[c];
      }
      result_.num_pivots +=
          program_->solve(std::max<std::int64_t>(options_.max_pivots - result_.num_pivots, 1));
      proof = read_proof();
      value = value_of(proof, allowed);
      is_refuted = value >= target;
    }
    proof.target = target;
    result_.witness.proofs.push_back(std::move(proof));
    take(static_cast<int>(result_.witness.proofs.size()) - 1, std::min(value, target), node);
    return !is_refuted;
  }

  ChoiceProof read_proof() const {
    ChoiceProof proof;
    proof.mean = std::max(0.0, program_->price(mean_row_));
    for (int resource = 0; resource < groups_.ranks.num_resources; ++resource) {
      proof.price.push_back(cap(resource) <= 0
                                ? 0
                                : std::max(0.0, -program_->price(resource_row_[resource])) *
                                      scale_ / static_cast<double>(cap_of_all(resource)));
    }
    for (const AnchorRow& row : anchors_) {
      const double price = program_->price(row.row) * (row.resource < 0 ? 1 : -1);
      if (price <= kWhole) continue;
      proof.anchors.push_back(
          {groups_.groups[row.group].units.front(), row.resource,
           row.resource < 0 ? price : price * scale_ / static_cast<double>(cap(row.resource))});
    }
    return proof;
  }

  // What the proof shows of the slowest rank where units take allowed choices, and what each of
  // them costs at its prices.
  double value_of(const ChoiceProof& proof, const std::vector<char>& allowed,
                  std::vector<double>* costs = nullptr) const {
    if (costs != nullptr) costs->assign(needs_.size(), 0);
    // Of all anchors together, and what those of one unit have.
    double of_loads = 0;
    PerResource<double> of_bytes{};
    double paid = 0;
    for (const Anchor& anchor : proof.anchors) {
      (anchor.resource < 0 ? of_loads : of_bytes[anchor.resource]) += anchor.weight;
      if (anchor.resource >= 0) paid += anchor.weight * static_cast<double>(cap(anchor.resource));
    }
    for (int resource = 0; resource < groups_.ranks.num_resources; ++resource) {
      paid += proof.price[resource] * static_cast<double>(cap_of_all(resource));
    }
    if (!(proof.mean + of_loads > 0)) return 0;
    double sum = 0;
    auto anchor = proof.anchors.begin();
    for (const PlacementGroup& group : groups_.groups) {
      double own_load = 0;
      PerResource<double> own_bytes{};
      for (; anchor != proof.anchors.end() && anchor->unit == group.units.front(); ++anchor) {
        (anchor->resource < 0 ? own_load : own_bytes[anchor->resource]) = anchor->weight;
      }
      double least = kInfinity;
      for (int c = group.first_choice; c < group.first_choice + group.num_choices; ++c) {
        if (allowed[c] == 0) continue;
        const Need& need = needs_[c];
        double cost =
            proof.mean * need.mean + (of_loads - own_load) * need.everywhere + own_load * need.peak;
        for (int resource = 0; resource < groups_.ranks.num_resources; ++resource) {
          cost += proof.price[resource] * static_cast<double>(need.bytes[resource]) +
                  (of_bytes[resource] - own_bytes[resource]) *
                      static_cast<double>(need.everywhere_bytes[resource]) +
                  own_bytes[resource] * static_cast<double>(need.peak_bytes[resource]);
        }
        if (costs != nullptr) (*costs)[c] = cost;
        least = std::min(least, cost);
      }
      sum += least;
    }
    return (sum - paid) / (proof.mean + of_loads);
  }

  // How far a unit's open choices lie apart, resource by resource, in caps and the target.
  double reach(const PlacementGroup& group, const std::vector<char>& is_open) const {
    double sum = 0;
    const auto add = [&](double unit, const auto& need) {
      double least = kInfinity;
      double most = 0;
      for (int c = group.first_choice; c < group.first_choice + group.num_choices; ++c) {
        if (is_open[c] == 0) continue;
        least = std::min(least, need(needs_[c]));
        most = std::max(most, need(needs_[c]));
      }
      sum += std::max(most - least, 0.0) / unit;
    };
    add(std::min(options_.target, kOverdraw * scale_) / kLoadShare,
        [](const Need& need) { return need.peak; });
    for (int resource = 0; resource < groups_.ranks.num_resources; ++resource) {
      if (cap(resource) <= 0) continue;
      add(static_cast<double>(cap(resource)),
          [resource](const Need& need) { return static_cast<double>(need.bytes[resource]); });
    }
    return sum;
  }

  // The unit whose mixture is of choices that lie farthest apart, except for those that the last
  // proof puts beyond the target; cut into its choice of the largest share and the others.
  void choose_branch(std::vector<char> allowed, Node& node) const {
    std::vector<double> cost;
    const double value = value_of(result_.witness.proofs.back(), allowed, &cost);
    double best = 0;
    node.unit = -1;
    for (int g = 0; g < groups_.num_groups(); ++g) {
      const PlacementGroup& group = groups_.groups[g];
      double mixture = 0;
      double least = kInfinity;
      for (int c = group.first_choice; c < group.first_choice + group.num_choices; ++c) {
        const double x = share(c);
        if (x > kWhole && x < 1 - kWhole) mixture += x * (1 - x);
        if (allowed[c] != 0) least = std::min(least, cost[c]);
      }
      if (mixture == 0) continue;
      for (int c = group.first_choice; c < group.first_choice + group.num_choices; ++c) {
        if (value + (cost[c] - least) >= options_.target) allowed[c] = 0;
      }
      if (const double score = mixture * reach(group, allowed); score > best) {
        best = score;
        node.unit = g;
      }
    }
    if (node.unit < 0) return;
    const PlacementGroup& group = groups_.groups[node.unit];
    node.choice = group.first_choice;
    for (int c = group.first_choice; c < group.first_choice + group.num_choices; ++c) {
      if (share(c) > share(node.choice)) {
        node.choice = c;
      }
    }
  }

  void branch(int number) {
    const Node node = std::move(nodes_[number]);  // opening children moves the others
    const PlacementGroup& group = groups_.groups[node.unit];
    const auto first = static_cast<int>(result_.witness.nodes.size());
    ChoiceNode& parent = result_.witness.nodes[node.witness];
    parent.first_child = first;
    parent.unit = group.units.front();
    parent.proof = -1;
    parent.choices = {groups_.choices[node.choice].choice};
    result_.witness.nodes.resize(result_.witness.nodes.size() + 2);
    for (const bool is_first : {true, false}) {
      std::vector<char> allowed = node.allowed;
      for (int c = group.first_choice; c < group.first_choice + group.num_choices; ++c) {
        if ((c == node.choice) != is_first) allowed[c] = 0;
      }
      open(first + (is_first ? 0 : 1), std::move(allowed), node.proof);
    }
  }

  struct AnchorRow {
    int row = 0;
    int group = 0;
    int resource = -1;
  };

  const PlacementGroups& groups_;
  const ChoiceTreeOptions& options_;
  const RunContext& context_;
  const RankKind& kind_;
  std::vector<Need> needs_;  // [choices]
  double scale_ = 0;
  int first_column_ = 0, overdrawn_ = 0, mean_row_ = 0;
  PerResource<int> resource_row_{};
  std::vector<AnchorRow> anchors_;  // by group
  std::optional<math::LinearProgram> program_;
  std::vector<char> is_open_;  // [choices] in the program as it stands
  double least_mixture_ = kInfinity;
  std::vector<Node> nodes_;
  std::priority_queue<int, std::vector<int>, IsWorse> heap_{IsWorse{&nodes_}};
  ChoiceTreeBound result_;
};

}  // namespace

bool is_for_choice_tree(const PlacementGroups& groups) {
  constexpr std::ptrdiff_t kMaxChoices = 20000;
  return groups.ranks.num_kinds() == 1 && std::ssize(groups.choices) <= kMaxChoices;
}

ChoiceTreeBound choice_tree_bound(const PlacementGroups& groups, const ChoiceTreeOptions& options,
                                  const RunContext& context) {
  PLIMSOLL_CHECK(is_for_choice_tree(groups), "ranks are of one kind, choices not too many");
  PLIMSOLL_CHECK(std::all_of(groups.groups.begin(), groups.groups.end(),
                             [](const PlacementGroup& group) { return group.units.size() == 1; }),
                 "groups are of one unit");
  return Tree(groups, options, context).run();
}

std::vector<std::vector<int>> choice_guides(const PlacementGroups& groups,
                                            const ChoiceTreeOptions& options,
                                            const RunContext& context) {
  constexpr double kShares[] = {1, .97, .94, .9};  // of the caps
  std::vector<std::vector<int>> guides;
  for (const double share : kShares) {
    PlacementGroups part = groups;
    const auto cut = [share](Bytes cap) {
      return static_cast<Bytes>(share * static_cast<double>(cap));
    };
    for (MemoryAccount& account : part.ranks.accounts) account.cap = cut(account.cap);
    for (RankKind& kind : part.ranks.kinds) {
      for (int r = 0; r < part.ranks.num_resources; ++r) kind.cap[r] = cut(kind.cap[r]);
    }
    ChoiceTreeBound tree = choice_tree_bound(part, options, context);
    if (!tree.guide.empty()) guides.push_back(std::move(tree.guide));
  }
  return guides;
}

}  // namespace plimsoll::balance
