#include "check/checkpoint/checkpoint_optimum.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>

#include "check/checkpoint/checkpoint_choices.h"
#include "check/checkpoint/checkpoint_price_bound.h"

namespace plimsoll::check {
namespace {

constexpr Bytes kNoBytes = std::numeric_limits<Bytes>::min() / 4;
constexpr Bytes kFewBytes = 4096;           // of all fitted prices together
constexpr std::int64_t kMadePerLabel = 32;  // labels that are made and beaten: some seconds

// What a module discards as a unit, at what time, and what it needs there.
struct Offer {
  Bytes discarded = 0;
  double ms = 0;
  Bytes need = kNoBytes;
};

struct Candidate {
  int node = 0, first = 0, last = 0;
  std::vector<Offer> offers;  // all that nothing beats; empty where bytes are bought by the piece
  Bytes capacity = 0;
  Bytes need = kNoBytes;  // of whatever it discards
};

// A plan of the positions so far.
struct Label {
  Bytes gone = 0;
  Bytes height = kNoBytes;  // 0 where only what fits the budget is kept
  double ms = 0;
  Bytes priced = 0;  // bytes of them that the price counts
};

// What a price says of plans of units along positions: by boundary, the least that units before it
// and from it on take.
struct PricedPaths {
  BestPrice best;
  std::vector<double> before, after;
  double most = kInfinity;  // ms, without `fixed`
};

class Enumeration {
 public:
  Enumeration(const JudgedCheckpoint& given, std::optional<Bytes> budget, bool ignores_time,
              std::int64_t max_labels)
      : given_(given),
        budget_(budget),
        ignores_time_(ignores_time),
        max_labels_(max_labels),
        num_positions_(given.tree->num_modules()) {}

  // Only plans below so much matter.
  void drop_above(double ms) {
    if (!given_.tree->is_nested || !budget_) return;
    auto best = find_best_price(given_, *budget_);
    if (!best) return;
    PricedPaths& paths = paths_.emplace();
    paths.most = ms - best->fixed;
    paths.best = *std::move(best);
    paths.before.assign(num_positions_ + 1, 0);
    paths.after.assign(num_positions_ + 1, 0);
    const auto& order = given_.tree->post_order;
    for (int p = 0; p < num_positions_; ++p) {
      const double with = paths.before[first_of(order[p])] + paths.best.offers[order[p]];
      paths.before[p + 1] = std::min(paths.before[p], with);
    }
    std::vector<std::vector<int>> starting(num_positions_);
    for (const int node : order) starting[first_of(node)].push_back(node);
    for (int p = num_positions_ - 1; p >= 0; --p) {
      paths.after[p] = paths.after[p + 1];
      for (const int node : starting[p]) {
        const int end = given_.tree->position[node] + 1;
        paths.after[p] = std::min(paths.after[p], paths.after[end] + paths.best.offers[node]);
      }
    }
  }

  CheckpointOptimum run() {
    if (given_.options->has_runs_or_nested) {
      out_.obstacle = "runs of modules and units within units are not enumerated by the checker";
      return std::move(out_);
    }
    find_candidates();
    if (!out_.obstacle.empty()) return std::move(out_);
    std::vector<Label> ends;
    if (buys_by_piece_ && !ignores_time_) {
      if (!budget_ || given_.options->in_flight > 1) {
        out_.obstacle = "fitted prices of many bytes are enumerated for one budget alone";
        return std::move(out_);
      }
      walk_sets(0, {});
    } else if (given_.tree->is_nested) {
      ends = walk_nested();
    } else {
      walk_orders(0, {Label{}}, {});
      ends = std::move(ends_);
    }
    if (out_.num_labels > max_labels_) {
      out_.obstacle =
          "the checker's own search was given up after " + std::to_string(max_labels_) + " states";
      out_.plans.clear();
      return std::move(out_);
    }
    for (const Label& label : ends) finish(label);
    keep_unbeaten();
    return std::move(out_);
  }

 private:
  bool is_over() const { return out_.num_labels > max_labels_; }
  bool drops_high() const { return budget_ && given_.options->in_flight == 1; }

  int first_of(int node) const {
    int first = given_.tree->position[node];
    for (const int below : given_.tree->descendants[node]) {
      first = std::min(first, given_.tree->position[below]);
    }
    return first;
  }

  double price_at(const Candidate& candidate) const {
    return paths_ && candidate.last < paths_->best.position ? paths_->best.price : 0;
  }

  // What a unit may take of time - price * bytes.
  double most_of(const Candidate& candidate) const {
    if (!paths_) return kInfinity;
    return paths_->most - paths_->before[candidate.first] - paths_->after[candidate.last + 1];
  }

  void find_candidates() {
    const bool is_fit = given_.options->price == PriceRule::kFit;
    Bytes all = 0;
    for (int node = 0; node < num_positions_ && out_.obstacle.empty(); ++node) {
      if (!may_be_unit(given_, node)) continue;
      Candidate candidate;
      candidate.node = node;
      candidate.last = given_.tree->position[node];
      candidate.first = first_of(node);
      candidate.need = room_of(given_, {node}).value_or(kNoBytes);
      if (is_fit ? !add_fit(candidate) : !add_operators(candidate)) continue;
      all += candidate.capacity;
      candidates_.push_back(std::move(candidate));
    }
    if (!is_fit) return;
    buys_by_piece_ = all > kFewBytes && !ignores_time_;
    if (buys_by_piece_) return;
    for (Candidate& candidate : candidates_) add_every_byte(candidate);
  }

  bool add_fit(Candidate& candidate) {
    candidate.capacity = fitted_capacity(given_, candidate.node);
    return candidate.capacity > 0;
  }

  double fit_ms(const Candidate& candidate, Bytes discarded) const {
    const auto [inside, memory] = unit_sizes(given_, {candidate.node});
    const double ratio =
        static_cast<double>(discarded + memory - inside) / static_cast<double>(memory);
    return fitted_ms(given_, candidate.node, ratio) + given_.options->unit_overhead_ms;
  }

  void add_every_byte(Candidate& candidate) {
    const Bytes first = ignores_time_ ? candidate.capacity : 1;
    for (Bytes bytes = first; bytes <= candidate.capacity; ++bytes) {
      candidate.offers.push_back(
          {bytes, ignores_time_ ? 0 : fit_ms(candidate, bytes), candidate.need});
    }
  }

  bool add_operators(Candidate& candidate) {
    const checkpoint::ModuleInfo& module = given_.info(candidate.node);
    const checkpoint::SACStats* table = given_.table_of(candidate.node);
    const double overhead = given_.options->unit_overhead_ms;
    const Bytes inside = module.act_fw_per_module;
    if (table == nullptr) {
      if (module.is_leaf) return false;
      candidate.offers.push_back({inside, module.sac_runtime + overhead, candidate.need});
      return true;
    }
    std::vector<OperatorGroup> groups = groups_of(given_, *table);
    for (OperatorGroup& group : groups) {
      if (!given_.has_copies()) group.copies = 0;
      if (ignores_time_) group.ms = 0;
    }
    const double price = price_at(candidate);
    const auto choices = find_kept_choices(
        groups, price, most_of(candidate) - overhead + price * static_cast<double>(inside));
    if (!choices) {
      out_.obstacle = module.fqn + " has too many choices of operators";
      return false;
    }
    Bytes covered = kNoBytes;
    for (int position = candidate.first; given_.has_copies() && position <= candidate.last;
         ++position) {
      covered = std::max(covered, need_of(given_, given_.tree->post_order[position]));
    }
    for (const KeptChoice& choice : *choices) {
      if (choice.kept >= inside) continue;
      Bytes need = candidate.need;
      if (need != kNoBytes) need += room_for_kept(given_, {choice.kept, choice.copies});
      if (given_.has_copies()) need = std::max(need, covered + choice.copies);
      candidate.offers.push_back({inside - choice.kept, choice.ms + overhead, need});
    }
    return !candidate.offers.empty();
  }

  // Nothing beats a label in bytes gone, height and time together, and with what is to come it does
  // not take too long.
  void prune(std::vector<Label>& labels, int position) {
    if (paths_) {
      std::erase_if(labels, [&](const Label& label) {
        const double priced = paths_->best.price * static_cast<double>(label.priced);
        return label.ms - priced + paths_->after[position] > paths_->most;
      });
    }
    out_.num_labels += static_cast<std::int64_t>(labels.size());
    std::sort(labels.begin(), labels.end(), [](const Label& a, const Label& b) {
      if (a.gone != b.gone) return a.gone > b.gone;
      return a.height != b.height ? a.height < b.height : a.ms < b.ms;
    });
    std::map<Bytes, double> least;  // by height, of all that discard as much; descending times
    std::vector<Label> kept;
    for (const Label& label : labels) {
      auto above = least.upper_bound(label.height);
      if (above != least.begin() && std::prev(above)->second <= label.ms) continue;
      while (above != least.end() && above->second >= label.ms) above = least.erase(above);
      least[label.height] = label.ms;
      kept.push_back(label);
    }
    labels = std::move(kept);
  }

  bool meet(Bytes need, Label& label) const {
    if (need == kNoBytes) return true;
    if (drops_high()) return need - label.gone <= *budget_;
    label.height = std::max(label.height, need - label.gone);
    return true;
  }

  // A unit's offers, each met after what is gone before the unit.
  void add_unit(const Candidate& candidate, Bytes covered, const std::vector<Label>& before,
                std::vector<Label>& after) {
    for (const Label& label : before) {
      Label inside = label;
      if (!meet(covered, inside)) continue;
      num_made_ += std::ssize(candidate.offers);
      if (num_made_ > kMadePerLabel * max_labels_) {
        out_.num_labels = max_labels_ + 1;
        return;
      }
      for (const Offer& offer : candidate.offers) {
        Label next = inside;
        if (!meet(offer.need, next)) continue;
        next.gone += offer.discarded;
        if (paths_ && candidate.last < paths_->best.position) next.priced += offer.discarded;
        next.ms += offer.ms;
        after.push_back(next);
      }
      if (static_cast<std::int64_t>(after.size()) > max_labels_) {
        out_.num_labels = max_labels_ + 1;
        return;
      }
    }
  }

  std::vector<Label> walk_nested() {
    std::vector<std::vector<Label>> stages(num_positions_ + 1);
    Label start;
    if (drops_high()) start.height = 0;
    stages[0] = {start};
    for (int position = 0; position < num_positions_ && !is_over(); ++position) {
      std::vector<Label>& here = stages[position];
      prune(here, position);
      for (const Candidate& candidate : candidates_) {
        if (candidate.first != position) continue;
        Bytes covered = kNoBytes;
        for (int p = candidate.first; p <= candidate.last; ++p) {
          covered = std::max(covered, need_of(given_, given_.tree->post_order[p]));
        }
        add_unit(candidate, covered, here, stages[candidate.last + 1]);
      }
      const Bytes need = need_of(given_, given_.tree->post_order[position]);
      for (Label label : here) {
        if (meet(need, label)) stages[position + 1].push_back(label);
      }
      here = {};
    }
    prune(stages[num_positions_], num_positions_);
    return std::move(stages[num_positions_]);
  }

  bool is_apart(const Candidate& candidate, const std::vector<int>& chosen) const {
    return std::none_of(chosen.begin(), chosen.end(), [&](int node) {
      return given_.is_below(node, candidate.node) || given_.is_below(candidate.node, node);
    });
  }

  // Sets of units one by one, in any order of return.
  void walk_orders(int position, std::vector<Label> labels, std::vector<int> chosen) {
    if (position == 0 && drops_high()) labels.front().height = 0;
    prune(labels, position);
    if (is_over() || labels.empty()) return;
    if (position == num_positions_) {
      ends_.insert(ends_.end(), labels.begin(), labels.end());
      return;
    }
    const int node = given_.tree->post_order[position];
    const Bytes need = need_of(given_, node);
    for (const Candidate& candidate : candidates_) {
      if (candidate.node != node || !is_apart(candidate, chosen)) continue;
      std::vector<Label> with;
      add_unit(candidate, need, labels, with);
      std::vector<int> extended = chosen;
      extended.push_back(node);
      walk_orders(position + 1, std::move(with), std::move(extended));
    }
    std::vector<Label> without;
    for (Label label : labels) {
      if (meet(need, label)) without.push_back(label);
    }
    walk_orders(position + 1, std::move(without), std::move(chosen));
  }

  void walk_sets(std::size_t next, std::vector<const Candidate*> chosen) {
    if (is_over()) return;
    if (next == candidates_.size()) {
      out_.num_labels += num_positions_;
      if (const auto ms = buy(chosen)) out_.plans.push_back({*budget_, *ms});
      return;
    }
    walk_sets(next + 1, chosen);
    std::vector<int> nodes;
    for (const Candidate* other : chosen) nodes.push_back(other->node);
    if (!is_apart(candidates_[next], nodes)) return;
    chosen.push_back(&candidates_[next]);
    walk_sets(next + 1, std::move(chosen));
  }

  // A fitted price from one of its bytes to another, at one slope.
  struct Piece {
    double slope = 0, bytes = 0;
  };

  void add_pieces(const Candidate& candidate, std::vector<Piece>& pieces) const {
    const checkpoint::ModuleInfo& module = given_.info(candidate.node);
    const auto sizes = unit_sizes(given_, {candidate.node});
    const auto memory = static_cast<double>(sizes.second);
    const auto offset = static_cast<double>(sizes.second - sizes.first);
    // Where two lines of the fit, or one and 0, meet.
    std::vector<double> ends{0, static_cast<double>(candidate.capacity)};
    const std::size_t n = module.slopes.size();
    for (std::size_t a = 0; a < n; ++a) {
      for (std::size_t b = a; b < n; ++b) {
        const double slope = module.slopes[a] - (a == b ? 0 : module.slopes[b]);
        const double rise = (a == b ? 0 : module.intercepts[b]) - module.intercepts[a];
        if (slope == 0) continue;
        const double at = rise / slope * memory - offset;
        if (at > 0 && at < static_cast<double>(candidate.capacity)) ends.push_back(at);
      }
    }
    std::sort(ends.begin(), ends.end());
    const auto ms = [&](double bytes) {
      return fitted_ms(given_, candidate.node, (bytes + offset) / memory);
    };
    for (std::size_t k = 1; k < ends.size(); ++k) {
      const double bytes = ends[k] - ends[k - 1];
      if (bytes > 0) pieces.push_back({(ms(ends[k]) - ms(ends[k - 1])) / bytes, bytes});
    }
  }

  // Whenever a position is short, the cheapest bytes of what returned before are bought. What is
  // short on the way shrinks with every purchase, so this is exact for convex prices.
  std::optional<double> buy(const std::vector<const Candidate*>& chosen) const {
    std::vector<Piece> pieces;
    double ms = 0, gone = 0;
    const auto cover = [&](Bytes need) {
      if (need == kNoBytes) return true;
      double missing = static_cast<double>(need - *budget_) - gone;
      while (missing > 0) {
        Piece* best = nullptr;
        for (Piece& piece : pieces) {
          if (piece.bytes > 0 && (best == nullptr || piece.slope < best->slope)) best = &piece;
        }
        if (best == nullptr) return false;
        const double bought = std::min(missing, best->bytes);
        best->bytes -= bought;
        missing -= bought;
        gone += bought;
        ms += best->slope * bought;
      }
      return true;
    };
    for (int position = 0; position < num_positions_; ++position) {
      if (!cover(need_of(given_, given_.tree->post_order[position]))) return std::nullopt;
      for (const Candidate* candidate : chosen) {
        if (candidate->last != position) continue;
        if (!cover(candidate->need)) return std::nullopt;
        ms += fit_ms(*candidate, 0);
        add_pieces(*candidate, pieces);
      }
    }
    if (const auto end = end_need_of(given_); end && !cover(*end)) return std::nullopt;
    return ms;
  }

  void finish(const Label& label) {
    Bytes peak = label.height;
    if (const auto end = end_need_of(given_)) {
      if (drops_high() && *end - label.gone > *budget_) return;
      peak = std::max(peak, *end - label.gone);
    }
    peak += (given_.options->in_flight - 1) * (given_.info(0).act_total - label.gone);
    if (drops_high()) peak = *budget_;
    if (!budget_ || peak <= *budget_) out_.plans.push_back({peak, label.ms});
  }

  void keep_unbeaten() {
    auto& plans = out_.plans;
    std::sort(plans.begin(), plans.end(), [](const PeakAndTime& a, const PeakAndTime& b) {
      return a.peak != b.peak ? a.peak < b.peak : a.ms < b.ms;
    });
    std::vector<PeakAndTime> kept;
    for (const PeakAndTime& plan : plans) {
      if (kept.empty() || plan.ms < kept.back().ms) kept.push_back(plan);
    }
    plans = std::move(kept);
  }

  const JudgedCheckpoint& given_;
  const std::optional<Bytes> budget_;
  const bool ignores_time_;
  const std::int64_t max_labels_;
  const int num_positions_;
  std::optional<PricedPaths> paths_;
  bool buys_by_piece_ = false;
  std::int64_t num_made_ = 0;
  std::vector<Candidate> candidates_;
  std::vector<Label> ends_;
  CheckpointOptimum out_;
};

}  // namespace

CheckpointOptimum find_checkpoint_plans(const JudgedCheckpoint& given, std::optional<Bytes> budget,
                                        std::int64_t max_labels) {
  return Enumeration(given, budget, false, max_labels).run();
}

CheckpointOptimum find_plans_below(const JudgedCheckpoint& given, Bytes budget, double ms,
                                   std::int64_t max_labels) {
  Enumeration plans(given, budget, false, max_labels);
  plans.drop_above(ms);
  return plans.run();
}

std::optional<Bytes> find_least_peak(const JudgedCheckpoint& given, std::int64_t max_labels) {
  const CheckpointOptimum found = Enumeration(given, std::nullopt, true, max_labels).run();
  if (found.plans.empty()) return std::nullopt;
  return found.plans.front().peak;
}

}  // namespace plimsoll::check
