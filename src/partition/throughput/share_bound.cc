#include "partition/throughput/share_bound.h"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <utility>
#include <vector>

#include "core/check.h"
#include "core/rounding.h"
#include "partition/graph/downsets.h"
#include "partition/graph/group_cut.h"
#include "partition/graph/node_set.h"
#include "partition/graph/shared_work.h"

namespace plimsoll::partition {
namespace {

constexpr int kNumGuesses = 8;
constexpr double kResolution = 1e-4;    // relative; guesses come no closer
constexpr int kMaxQuestions = 12;       // for a group and a guess
constexpr std::size_t kMaxSets = 4096;  // kept; later ones serve their own group alone
constexpr double kCloseEnough = 1e-3;   // of the share asked for

// A set of groups that a device may hold: a line over prices.
struct HeldSet {
  NodeSet groups;
  double time = 0, cut = 0;
  // What the share of its groups is at most, at the price.
  double share(double price, double limit) const {
    return (cut + price * (time + cut - limit)) / time;
  }
};

struct Point {
  double price = 0, share = 0;
};

class ShareBound {
 public:
  ShareBound(const GroupGraph& groups, std::int64_t max_steps, const RunContext& context)
      : groups_(groups),
        context_(context),
        steps_left_(max_steps),
        time_(work_of_groups(groups)),
        slowness_(slowness_of_kinds(groups)),
        rate_(fastest_paid_rate(groups)),
        order_(time_.size()),
        cut_(groups, time_, rate_) {
    total_ = std::accumulate(time_.begin(), time_.end(), 0.0);
    num_parts_ = static_cast<std::int64_t>(time_.size());
    for (const GroupNet& net : groups.nets) {
      num_parts_ += static_cast<std::int64_t>(net.groups.size()) + 1;
    }
    std::iota(order_.begin(), order_.end(), 0);
    std::stable_sort(order_.begin(), order_.end(),
                     [&](int a, int b) { return time_[a] > time_[b]; });
    all_.groups = NodeSet(time_.size());
    for (std::size_t g = 0; g < time_.size(); ++g) all_.groups.insert(g);
    all_.time = total_;
  }

  bool has_something_to_say() const { return rate_ > 0 && std::isfinite(total_) && total_ > 0; }

  double raise(double proved, double goal) {
    double low = proved;
    double high = goal;
    for (int i = 0; i < kNumGuesses && high > low * (1 + kResolution) && !is_spent(); ++i) {
      const double guess = i == 0 ? goal : low + (high - low) / 2;
      const double bound = bound_up_to(guess);
      low = std::max(low, bound);
      if (bound < guess) high = guess;
    }
    return low;
  }

 private:
  // Of the kinds that pay for what they move; 0 where there is none.
  static double fastest_paid_rate(const GroupGraph& groups) {
    double rate = 0;
    for (const DeviceKind& kind : groups.kinds) {
      if (std::isfinite(kind.link_rate)) rate = std::max(rate, kind.link_rate);
    }
    return rate;
  }

  bool is_spent() const {
    return steps_left_ < 0 || context_.is_cancelled() || context_.is_past_deadline();
  }

  // The loads below `limit` that the shares at `limit` refute, for at less they are no smaller.
  double bound_up_to(double limit) {
    double sum = total_;
    double largest = 0;
    for (const int g : order_) {
      if (is_spent() || time_[g] <= 0) break;
      const double share = share_of(g, limit);
      largest = std::max(largest, share);
      sum += time_[g] * share;
      if (sum > room(limit, largest)) return limit;
    }
    return limit * sum / room(limit, largest);  // room grows with the limit in proportion
  }

  // What all devices can do of work and shares, where no share is above `largest`.
  double room(double limit, double largest) const {
    double sum = 0;
    for (std::size_t k = 0; k < slowness_.size(); ++k) {
      double most = (1 + largest) * limit / slowness_[k];
      if (std::isfinite(groups_.kinds[k].link_rate)) most = std::min(most, limit);
      sum += static_cast<double>(groups_.kinds[k].devices.size()) * most;
    }
    return sum;
  }

  // A share that holds for every set with the group within the limit.
  double share_of(int g, double limit) {
    std::vector<const HeldSet*> lines{&all_};
    for (const HeldSet& set : sets_) {
      if (set.groups.contains(static_cast<std::size_t>(g))) lines.push_back(&set);
    }
    std::vector<HeldSet> own;
    own.reserve(kMaxQuestions);
    double best = 0;
    for (int i = 0; i < kMaxQuestions && !is_spent(); ++i) {
      const Point point = highest_point(lines, limit);
      if (point.share <= best * (1 + kCloseEnough)) break;
      const std::int64_t before = cut_.num_steps();
      const double theta = (point.price - point.share) / (1 + point.price);
      const double least = cut_.least_with(g, theta, context_);
      steps_left_ -= num_parts_ + cut_.num_steps() - before;
      const double missing = point.price * limit - least * (1 - kRounding) * (1 + point.price);
      best = std::max(best, point.share - std::max(missing, 0.0) / time_[g]);
      if (missing <= kRounding * limit) break;
      own.push_back(held_set(cut_.chosen()));
      lines.push_back(&own.back());
    }
    for (HeldSet& set : own) {
      if (sets_.size() < kMaxSets) sets_.push_back(std::move(set));
    }
    return best;
  }

  HeldSet held_set(const std::vector<int>& chosen) const {
    HeldSet set{NodeSet(time_.size())};
    for (const int g : chosen) {
      set.groups.insert(static_cast<std::size_t>(g));
      set.time += time_[g];
    }
    for (const GroupNet& net : groups_.nets) {
      std::size_t inside = 0;
      for (const int g : net.groups) {
        inside += set.groups.contains(static_cast<std::size_t>(g)) ? 1 : 0;
      }
      if (inside > 0 && inside < net.groups.size()) set.cut += net.amount / rate_;
    }
    return set;
  }

  // Where the least of the lines is greatest. It rises with the line of all groups, and falls with
  // those of sets within the limit.
  static Point highest_point(const std::vector<const HeldSet*>& lines, double limit) {
    double low = 0;
    double high = 1;
    const auto lowest = [&](double price) {
      double least = kUnlimited;
      bool rises = true;
      for (const HeldSet* line : lines) {
        const double share = line->share(price, limit);
        if (share >= least) continue;
        least = share;
        rises = line->time + line->cut > limit;
      }
      return std::pair(least, rises);
    };
    constexpr double kLargestPrice = 64;
    while (high < kLargestPrice && lowest(high).second) high *= 2;
    for (int i = 0; i < 40; ++i) {
      const double middle = low + (high - low) / 2;
      (lowest(middle).second ? low : high) = middle;
    }
    return {low, lowest(low).first};
  }

  const GroupGraph& groups_;
  const RunContext& context_;
  std::int64_t steps_left_;
  const std::vector<double> time_;  // [num_groups] on the kind that is fastest for it
  const std::vector<double> slowness_;
  const double rate_;
  std::vector<int> order_;  // groups, the heaviest first
  GroupCut cut_;
  double total_ = 0;
  std::int64_t num_parts_ = 0;
  HeldSet all_;
  std::vector<HeldSet> sets_;
};

}  // namespace

double bound_by_shares(const GroupGraph& groups, double proved, double goal, std::int64_t max_steps,
                       const RunContext& context) {
  PLIMSOLL_CHECK(proved > 0 && std::isfinite(goal), "proved is above 0 and the goal finite");
  ShareBound bound(groups, max_steps, context);
  if (!bound.has_something_to_say()) return proved;
  return std::max(proved, bound.raise(proved, goal) * (1 - kRounding));
}

}  // namespace plimsoll::partition
