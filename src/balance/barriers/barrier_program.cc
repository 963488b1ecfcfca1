#include "balance/barriers/barrier_program.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "math/vector_knapsack.h"

namespace plimsoll::balance {
namespace {

constexpr std::size_t kMaxPool = 800;  // patterns kept from demand to demand
constexpr double kSmoothing = .6;      // weight of the best prices so far
constexpr double kSlack = 1e-9;        // relative, of rooms
constexpr std::int64_t kNodesOfEffort = 32;

double cap_of_all(const BarrierModel& model, int row) {
  return static_cast<double>(model.cap[model.rows[row]]) * model.num_ranks;
}

double bytes_cost(const BarrierModel& model, const Amounts& bytes, const BarrierPrices& prices) {
  double cost = 0;
  for (std::size_t i = 0; i < model.rows.size(); ++i) {
    if (prices.price[i] == 0) continue;
    cost += prices.price[i] * static_cast<double>(bytes[model.rows[i]]) /
            cap_of_all(model, static_cast<int>(i));
  }
  return cost;
}

double share_of_cap(const BarrierModel& model, const Amounts& bytes, int resource) {
  return static_cast<double>(bytes[resource]) / static_cast<double>(model.cap[resource]);
}

std::vector<double> sizes_of(const BarrierItem& item, const std::vector<int>& limits) {
  std::vector<double> size = item.load;
  for (const int resource : limits) size.push_back(static_cast<double>(item.bytes[resource]));
  return size;
}

// Of an item: no more than there are units.
std::int64_t copies_of(const BarrierDemand& demand, const BarrierItem& item) {
  const double units = std::ceil(demand.count[item.class_index]);
  return std::min(item.copies, static_cast<std::int64_t>(units) * item.parts);
}

// Items that are worth something at these prices.
struct Priced {
  std::vector<math::VectorItem> items;
  std::vector<int> index;  // of them in the model
};

// An item that takes no more anywhere and is worth no less stands for another one of its class.
void drop_beaten(const BarrierModel& model, Priced& priced) {
  const auto is_beaten = [&](std::size_t a, std::size_t b) {
    const math::VectorItem &one = priced.items[a], &by = priced.items[b];
    if (model.items[priced.index[a]].class_index != model.items[priced.index[b]].class_index ||
        one.copies > by.copies || one.value > by.value) {
      return false;
    }
    bool is_equal = one.value == by.value && one.copies == by.copies;
    for (std::size_t d = 0; d < one.size.size(); ++d) {
      if (by.size[d] > one.size[d]) return false;
      is_equal &= by.size[d] == one.size[d];
    }
    return !is_equal || b < a;
  };
  for (std::size_t a = 0; a < priced.items.size(); ++a) {
    for (std::size_t b = 0; b < priced.items.size() && priced.items[a].value > 0; ++b) {
      if (a != b && priced.items[b].value > 0 && is_beaten(a, b)) priced.items[a].value = 0;
    }
  }
}

}  // namespace

// A block takes the same of every rank of its host. All ranks of a bin are best filled alike, so
// that a block counts as a piece of each that is worth its share.
// No bin holds more of a class than there is.
BestContent price_bin(const BarrierModel& model, const BarrierDemand& demand, const BinKind& bin,
                      const BarrierPrices& prices, const BarrierProgramOptions& options) {
  Priced priced;
  for (std::size_t i = 0; i < model.items.size(); ++i) {
    const BarrierItem& item = model.items[i];
    if (item.is_block && !bin.takes_blocks) continue;
    const double paid =
        demand.uniform_share.empty() ? bytes_cost(model, item.all_bytes, prices) : 0;
    const double value = (prices.pi[item.class_index] / static_cast<double>(item.parts) - paid) /
                         (item.is_block ? bin.width : 1);
    if (value <= 0) continue;
    priced.items.push_back({value, copies_of(demand, item), sizes_of(item, options.limits)});
    priced.index.push_back(static_cast<int>(i));
  }
  drop_beaten(model, priced);
  const math::VectorFilling filling =
      math::fill_vector_knapsack(priced.items, bin.room, options.max_nodes);
  BestContent best;
  best.pattern.count.assign(model.items.size(), 0);
  for (std::size_t i = 0; i < priced.index.size(); ++i) {
    best.pattern.count[priced.index[i]] = filling.count[i];
  }
  best.worth = filling.value * bin.width;
  best.bound = filling.bound * bin.width;
  best.num_nodes = filling.num_nodes;
  return best;
}

Amounts uniform_bytes(const BarrierModel& model, const BarrierAnswer& answer) {
  Amounts bytes{};
  for (std::size_t s = 0; s < model.steps.size(); ++s) {
    bytes.add(model.steps[s].bytes, std::llround(answer.num_uniform[s]));
  }
  return bytes;
}

double cheapest_unit(const BarrierModel& model, int class_index, const BarrierPrices& prices,
                     const std::vector<int>& limits) {
  double least = prices.pi[class_index];
  for (const BarrierStep& step : model.steps) {
    if (step.class_index != class_index) continue;
    double cost = step.cost + bytes_cost(model, step.all_bytes, prices);
    for (std::size_t l = 0; l < prices.uniform.size(); ++l) {
      cost += prices.uniform[l] * share_of_cap(model, step.least_bytes, limits[l]);
    }
    least = std::min(least, cost);
  }
  return least;
}

// The linear program of one room, and the best bound so far.
class BarrierProgram::Room {
 public:
  Room(BarrierProgram& owner, const BarrierDemand& demand, EffortClock& clock)
      : owner_(owner),
        model_(owner.model_),
        demand_(demand),
        bins_(demand.bins),
        clock_(clock),
        master_(make_rows()) {
    answer_.uniform_load = -kInfinity;
    for (const BarrierStep& step : model_.steps) {
      std::vector<math::SimplexEntry> entries = {{step.class_index, 1}};
      add_bytes(step.all_bytes, 1, entries);
      for (std::size_t l = 0; l < demand_.most_uniform.size(); ++l) {
        const double share = share_of_cap(model_, step.least_bytes, owner.options_.limits[l]);
        if (share > 0) entries.push_back({row_of(model_.rows.size() + l), share});
      }
      steps_.push_back(master_.add_column(step.cost, std::move(entries)));
    }
    for (const Kept& kept : owner.pool_) {
      BarrierPattern pattern = kept.pattern;
      for (std::size_t b = 0; b < bins_.size(); ++b) {
        pattern.bin = static_cast<int>(b);
        if (is_for(kept, bins_[b]) && fits(pattern)) add(pattern);
      }
    }
  }

  const BarrierAnswer& answer() const { return answer_; }

  void solve() {
    clock_.spend(master_.solve());
    answer_.value = master_.value();
    answer_.is_complete = answer_.value - answer_.uniform_load <= owner_.options_.tolerance;
  }

  // At the master's prices, mixed with the best so far; where that brings no column, at its own.
  bool generate() {
    const BarrierPrices own = master_prices();
    if (answer_.uniform_load > -kInfinity && generate_at(mix(answer_.prices, own))) return true;
    return generate_at(own);
  }

  void finish() {
    for (const int column : steps_) answer_.num_uniform.push_back(master_.x(column));
    for (std::size_t i = 0; i < patterns_.size(); ++i) {
      const double amount = master_.x(columns_[i]);
      if (amount <= 1e-9) continue;
      answer_.patterns.push_back(patterns_[i]);
      answer_.amounts.push_back(amount);
    }
    answer_.missed = master_.missed();
    if (owner_.pool_.size() > kMaxPool) {
      owner_.pool_.erase(owner_.pool_.begin(),
                         owner_.pool_.end() - static_cast<std::ptrdiff_t>(kMaxPool));
    }
  }

 private:
  int num_classes() const { return static_cast<int>(model_.classes.size()); }
  int row_of(std::size_t resource) const {
    return num_classes() + static_cast<int>(bins_.size() + resource);
  }

  // Of the caps of a row's resource.
  double share_of(std::size_t row) const {
    return demand_.uniform_share.empty() ? 1 : demand_.uniform_share[row];
  }

  std::vector<math::SimplexRow> make_rows() const {
    std::vector<math::SimplexRow> rows;
    for (const double count : demand_.count) rows.push_back({count, true, owner_.options_.penalty});
    for (const BinKind& bin : bins_) rows.push_back({bin.count, false, 0});
    for (std::size_t i = 0; i < model_.rows.size(); ++i) rows.push_back({share_of(i), false, 0});
    for (const double share : demand_.most_uniform) rows.push_back({share, false, 0});
    return rows;
  }

  void add_bytes(const Amounts& bytes, double times, std::vector<math::SimplexEntry>& entries) {
    for (std::size_t i = 0; i < model_.rows.size(); ++i) {
      const double share = times * static_cast<double>(bytes[model_.rows[i]]) /
                           cap_of_all(model_, static_cast<int>(i));
      if (share > 0) entries.push_back({row_of(i), share});
    }
  }

  static bool is_for(const Kept& kept, const BinKind& bin) {
    return kept.width == bin.width && (bin.takes_blocks || !kept.has_blocks);
  }

  bool fits(const BarrierPattern& pattern) const {
    const BinKind& bin = bins_[pattern.bin];
    std::vector<double> sum(bin.room.size(), 0);
    for (std::size_t i = 0; i < pattern.count.size(); ++i) {
      if (pattern.count[i] == 0) continue;
      const BarrierItem& item = model_.items[i];
      if (pattern.count[i] > copies_of(demand_, item)) return false;
      const std::vector<double> size = sizes_of(item, owner_.options_.limits);
      for (std::size_t d = 0; d < sum.size(); ++d) {
        sum[d] += static_cast<double>(pattern.count[i]) * size[d];
      }
    }
    for (std::size_t d = 0; d < sum.size(); ++d) {
      if (sum[d] > bin.room[d] * (1 + kSlack)) return false;
    }
    return true;
  }

  std::vector<math::SimplexEntry> entries_of(const BarrierPattern& pattern) const {
    std::vector<double> sums(static_cast<std::size_t>(master_.num_rows()), 0);
    sums[num_classes() + pattern.bin] = 1;
    for (std::size_t i = 0; i < pattern.count.size(); ++i) {
      if (pattern.count[i] == 0) continue;
      const BarrierItem& item = model_.items[i];
      const double times =
          static_cast<double>(pattern.count[i]) * (item.is_block ? 1 : bins_[pattern.bin].width);
      sums[item.class_index] += times / static_cast<double>(item.parts);
      if (!demand_.uniform_share.empty()) continue;
      for (std::size_t r = 0; r < model_.rows.size(); ++r) {
        sums[row_of(r)] += times * static_cast<double>(item.all_bytes[model_.rows[r]]) /
                           cap_of_all(model_, static_cast<int>(r));
      }
    }
    std::vector<math::SimplexEntry> entries;
    for (std::size_t row = 0; row < sums.size(); ++row) {
      if (sums[row] != 0) entries.push_back({static_cast<int>(row), sums[row]});
    }
    return entries;
  }

  void add(const BarrierPattern& pattern) {
    columns_.push_back(master_.add_column(0, entries_of(pattern)));
    patterns_.push_back(pattern);
  }

  BarrierPrices master_prices() const {
    BarrierPrices prices;
    for (int c = 0; c < num_classes(); ++c) {
      prices.pi.push_back(std::clamp(master_.prices()[c], 0.0, owner_.options_.penalty));
    }
    for (std::size_t r = 0; r < model_.rows.size(); ++r) {
      prices.price.push_back(std::max(0.0, -master_.prices()[row_of(r)]));
    }
    for (std::size_t l = 0; l < demand_.most_uniform.size(); ++l) {
      prices.uniform.push_back(std::max(0.0, -master_.prices()[row_of(model_.rows.size() + l)]));
    }
    return prices;
  }

  static BarrierPrices mix(const BarrierPrices& best, const BarrierPrices& own) {
    BarrierPrices mixed = own;
    for (std::size_t i = 0; i < mixed.pi.size(); ++i) {
      mixed.pi[i] = kSmoothing * best.pi[i] + (1 - kSmoothing) * own.pi[i];
    }
    for (std::size_t i = 0; i < mixed.price.size(); ++i) {
      mixed.price[i] = kSmoothing * best.price[i] + (1 - kSmoothing) * own.price[i];
    }
    for (std::size_t i = 0; i < mixed.uniform.size(); ++i) {
      mixed.uniform[i] = kSmoothing * best.uniform[i] + (1 - kSmoothing) * own.uniform[i];
    }
    return mixed;
  }

  // Keeps what the prices prove, and adds patterns that are worth more than they pay.
  bool generate_at(const BarrierPrices& prices) {
    ++owner_.num_pricings_;
    double proved = 0;
    for (int c = 0; c < num_classes(); ++c) {
      proved += demand_.count[c] * cheapest_unit(model_, c, prices, owner_.options_.limits);
    }
    for (std::size_t r = 0; r < prices.price.size(); ++r) proved -= prices.price[r] * share_of(r);
    for (std::size_t l = 0; l < prices.uniform.size(); ++l) {
      proved -= prices.uniform[l] * demand_.most_uniform[l];
    }
    bool has_column = false;
    for (std::size_t b = 0; b < bins_.size(); ++b) {
      if (bins_[b].count <= 0) continue;
      BestContent best = price_bin(model_, demand_, bins_[b], prices, owner_.options_);
      clock_.spend(1 + best.num_nodes / kNodesOfEffort);
      proved -= bins_[b].count * best.bound;
      best.pattern.bin = static_cast<int>(b);
      double worth = 0;
      for (const math::SimplexEntry& entry : entries_of(best.pattern)) {
        worth += master_.prices()[entry.row] * entry.value;
      }
      if (worth <= owner_.options_.tolerance / (100 * bins_[b].count)) continue;
      add(best.pattern);
      owner_.keep(best.pattern, bins_[b].width);
      has_column = true;
    }
    if (proved > answer_.uniform_load) {
      answer_.uniform_load = proved;
      answer_.prices = prices;
    }
    return has_column;
  }

  BarrierProgram& owner_;
  const BarrierModel& model_;
  const BarrierDemand& demand_;
  const std::vector<BinKind>& bins_;
  EffortClock& clock_;
  math::SmallSimplex master_;
  std::vector<int> steps_;  // columns
  std::vector<BarrierPattern> patterns_;
  std::vector<int> columns_;  // [patterns]
  BarrierAnswer answer_;
};

BarrierProgram::BarrierProgram(const BarrierModel& model, const BarrierProgramOptions& options)
    : model_(model), options_(options) {}

void BarrierProgram::keep(const BarrierPattern& pattern, int width) {
  bool has_blocks = false;
  for (std::size_t i = 0; i < pattern.count.size(); ++i) {
    has_blocks |= pattern.count[i] > 0 && model_.items[i].is_block;
  }
  pool_.push_back({pattern, width, has_blocks});
}

BarrierAnswer BarrierProgram::solve(const BarrierDemand& demand, double goal,
                                    std::int64_t max_pricings, EffortClock& clock) {
  Room room(*this, demand, clock);
  const std::int64_t end = num_pricings_ + std::max<std::int64_t>(max_pricings, 1);
  while (true) {
    room.solve();
    const BarrierAnswer& answer = room.answer();
    const bool is_first = answer.uniform_load == -kInfinity;
    if (!is_first && (answer.is_complete || answer.uniform_load > goal || num_pricings_ >= end ||
                      clock.is_stopped())) {
      break;
    }
    if (!room.generate()) break;
  }
  room.finish();
  return room.answer();
}

}  // namespace plimsoll::balance
