#include "check/checkpoint/checkpoint_price_bound.h"

#include <algorithm>
#include <cmath>
#include <vector>

#include "check/checkpoint/checkpoint_choices.h"

namespace plimsoll::check {
namespace {

constexpr int kMaxPositions = 8;  // tried, those that need most
constexpr int kMaxPrices = 64;    // at each

// What a module may do as a unit, before prices.
struct PricedOffer {
  int node = 0;
  int position = 0;
  double inside = 0;                               // bytes
  double overhead = 0;                             // ms
  std::vector<OperatorGroup> groups;               // of operators
  std::vector<std::pair<double, double>> corners;  // (bytes, ms) of a fit, or of a whole module
};

class PriceBound {
 public:
  PriceBound(const JudgedCheckpoint& given, Bytes budget) : given_(given), budget_(budget) {
    for (int node = 0; node < given.tree->num_modules(); ++node) add_offer(node);
  }

  double best() const { return find_best().bound; }

  std::optional<BestPrice> best_price() const {
    const Found found = find_best();
    if (found.bound <= 0) return std::nullopt;
    BestPrice best;
    best.price = found.price;
    best.position = found.need.position;
    best.fixed = found.price * static_cast<double>(found.need.bytes - budget_);
    best.offers.assign(given_.tree->num_modules(), kInfinity);
    for (const PricedOffer& offer : offers_) {
      best.offers[offer.node] = least_of(offer, offer.position < best.position ? best.price : 0);
    }
    return best;
  }

  bool proves(const math::FrontierPoint& line) const {
    const double enough = line.ms - kCertificateTolerance * std::max(1.0, line.ms);
    if (enough <= 0) return true;
    const double price = -line.slope;
    if (price <= 0) return false;
    for (const Need& need : largest_needs()) {
      const double bound =
          price * static_cast<double>(need.bytes - line.bytes) + least_before(need.position, price);
      if (bound >= enough) return true;
    }
    return false;
  }

  // Prices around the mean one, a quarter of an octave apart.
  std::vector<PriceLine> lines() const {
    constexpr int kOctaves = 12;
    double ms = 0, bytes = 1;
    for (const PricedOffer& offer : offers_) {
      ms += whole_ms(offer);
      bytes += offer.inside;
    }
    std::vector<PriceLine> lines;
    for (const Need& need : largest_needs()) {
      for (int k = -4 * kOctaves; ms > 0 && k <= 4 * kOctaves; ++k) {
        const double price = ms / bytes * std::exp2(k / 4.0);
        lines.push_back(
            {static_cast<double>(need.bytes), price, least_before(need.position, price)});
      }
    }
    return lines;
  }

 private:
  struct Need {
    int position;
    Bytes bytes;
  };
  struct Found {
    double bound = 0;
    double price = 0;
    Need need{};
  };

  Found find_best() const {
    Found best;
    for (const Need& need : largest_needs()) {
      if (need.bytes <= budget_) break;
      const auto [bound, price] = best_price_at(need.position, need.bytes);
      if (bound > best.bound) best = {bound, price, need};
    }
    return best;
  }

  // At most kMaxPositions, by falling bytes.
  std::vector<Need> largest_needs() const {
    const int end = given_.tree->num_modules();
    std::vector<Need> needs;
    for (int position = 0; position < end; ++position) {
      needs.push_back({position, need_of(given_, given_.tree->post_order[position])});
    }
    if (const auto bytes = end_need_of(given_)) needs.push_back({end, *bytes});
    std::stable_sort(needs.begin(), needs.end(),
                     [](const Need& a, const Need& b) { return a.bytes > b.bytes; });
    needs.resize(std::min(needs.size(), std::size_t{kMaxPositions}));
    return needs;
  }

  void add_offer(int node) {
    if (!may_be_unit(given_, node)) return;
    const checkpoint::ModuleInfo& module = given_.info(node);
    PricedOffer offer;
    offer.node = node;
    offer.position = given_.tree->position[node];
    offer.inside = static_cast<double>(module.act_fw_per_module);
    offer.overhead = given_.options->unit_overhead_ms;
    const checkpoint::SACStats* table = given_.table_of(node);
    if (given_.options->price == PriceRule::kFit) {
      const Bytes capacity = fitted_capacity(given_, node);
      if (capacity == 0) return;
      add_corners(node, static_cast<double>(capacity), offer);
    } else if (table != nullptr) {
      offer.groups = groups_of(given_, *table);
    } else if (!module.is_leaf) {
      offer.corners.emplace_back(offer.inside, module.sac_runtime);
    } else {
      return;
    }
    offers_.push_back(std::move(offer));
  }

  // Lines of the fit meet there, or one and no time: the least of a convex price is at one of them.
  void add_corners(int node, double capacity, PricedOffer& offer) const {
    const checkpoint::ModuleInfo& module = given_.info(node);
    const auto [inside, memory] = unit_sizes(given_, {node});
    const auto whole = static_cast<double>(memory);
    const double offset = static_cast<double>(memory - inside);
    std::vector<double> ends{0, capacity};
    for (std::size_t a = 0; a < module.slopes.size(); ++a) {
      for (std::size_t b = a; b < module.slopes.size(); ++b) {
        const double slope = module.slopes[a] - (a == b ? 0 : module.slopes[b]);
        const double rise = (a == b ? 0 : module.intercepts[b]) - module.intercepts[a];
        const double at = slope == 0 ? 0 : rise / slope * whole - offset;
        if (at > 0 && at < capacity) ends.push_back(at);
      }
    }
    for (const double bytes : ends) {
      offer.corners.emplace_back(bytes, fitted_ms(given_, node, (bytes + offset) / whole));
    }
  }

  // The least of time - price * bytes over what the module may do as a unit.
  static double least_of(const PricedOffer& offer, double price) {
    if (!offer.corners.empty()) {
      double least = kInfinity;
      for (const auto& [bytes, ms] : offer.corners) least = std::min(least, ms - price * bytes);
      return offer.overhead + least;
    }
    double least = offer.overhead - price * offer.inside;
    for (const OperatorGroup& group : offer.groups) {
      const double kept = price * static_cast<double>(group.memory);
      if (group.must_keep) {
        least += kept;
      } else {
        least += group.may_keep ? std::min(kept, group.ms) : group.ms;
      }
    }
    return least;
  }

  double bound_at(int position, Bytes need, double price) const {
    return price * static_cast<double>(need - budget_) + least_before(position, price);
  }

  // The least of time - price * bytes over all sets of units; those that return at the position or
  // later free nothing before it.
  double least_before(int position, double price) const {
    std::vector<double> own(given_.tree->num_modules(), 0), below(own);
    for (const PricedOffer& offer : offers_) {
      if (offer.position < position) own[offer.node] = std::min(0.0, least_of(offer, price));
    }
    // Children come after their parents in mod_stats or before: walk by depth.
    double least = 0;
    for (const int node : by_depth()) {
      const double best = std::min(own[node], below[node]);
      if (const int parent = given_.tree->parent[node]; parent >= 0) {
        below[parent] += best;
      } else {
        least += best;
      }
    }
    return least;
  }

  // Nodes, the deepest first.
  const std::vector<int>& by_depth() const {
    if (!order_.empty()) return order_;
    std::vector<int> depth(given_.tree->num_modules(), 0);
    for (int node = 0; node < given_.tree->num_modules(); ++node) {
      for (int above = given_.tree->parent[node]; above >= 0; above = given_.tree->parent[above]) {
        ++depth[node];
      }
      order_.push_back(node);
    }
    std::stable_sort(order_.begin(), order_.end(),
                     [&](int a, int b) { return depth[a] > depth[b]; });
    return order_;
  }

  // The bound is concave in the price: its top is bracketed by doubling, then narrowed.
  std::pair<double, double> best_price_at(int position, Bytes need) const {
    double most_ms = 0;
    for (const PricedOffer& offer : offers_) most_ms = std::max(most_ms, whole_ms(offer));
    double high = (most_ms + 1) / std::max(1.0, static_cast<double>(need - budget_));
    std::pair<double, double> best{bound_at(position, need, high), high};
    for (int k = 0; k < kMaxPrices; ++k) {
      const double next = bound_at(position, need, 2 * high);
      if (next <= best.first) break;
      high *= 2;
      best = {next, high};
    }
    double low = 0;
    high *= 2;
    for (int k = 0; k < kMaxPrices; ++k) {
      const double a = low + (high - low) / 3, b = high - (high - low) / 3;
      const double at_a = bound_at(position, need, a), at_b = bound_at(position, need, b);
      best = std::max({best, {at_a, a}, {at_b, b}});
      (at_a < at_b ? low : high) = at_a < at_b ? a : b;
    }
    return best;
  }

  static double whole_ms(const PricedOffer& offer) {
    double ms = 0;
    for (const OperatorGroup& group : offer.groups) ms += group.ms;
    for (const auto& corner : offer.corners) ms = std::max(ms, corner.second);
    return ms;
  }

  const JudgedCheckpoint& given_;
  const Bytes budget_;
  std::vector<PricedOffer> offers_;
  mutable std::vector<int> order_;
};

// Of more microbatches the others hold what one keeps: what it discards counts at every position,
// which is left out here.
bool is_in_scope(const JudgedCheckpoint& given) {
  return !given.options->has_runs_or_nested && given.options->in_flight == 1;
}

}  // namespace

double price_bound(const JudgedCheckpoint& given, Bytes budget) {
  return is_in_scope(given) ? PriceBound(given, budget).best() : 0;
}

std::optional<BestPrice> find_best_price(const JudgedCheckpoint& given, Bytes budget) {
  if (!is_in_scope(given)) return std::nullopt;
  return PriceBound(given, budget).best_price();
}

bool prices_prove(const JudgedCheckpoint& given, const std::vector<math::FrontierPoint>& lines) {
  if (lines.empty() || !is_in_scope(given)) return false;
  const PriceBound bound(given, 0);
  return std::all_of(lines.begin(), lines.end(),
                     [&](const math::FrontierPoint& line) { return bound.proves(line); });
}

std::vector<PriceLine> price_lines(const JudgedCheckpoint& given) {
  return is_in_scope(given) ? PriceBound(given, 0).lines() : std::vector<PriceLine>();
}

}  // namespace plimsoll::check
