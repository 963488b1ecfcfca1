#include "balance/patterns/pattern_master.h"

#include <algorithm>
#include <map>
#include <utility>

namespace plimsoll::balance {
namespace {

constexpr std::size_t kMaxPool = 600;  // patterns kept from room to room

struct Offer {
  double cost = 0;
  double count = 0;
};

PatternPrices mix(double weight, const PatternPrices& best, const PatternPrices& now) {
  PatternPrices mixed = now;
  for (std::size_t i = 0; i < mixed.pi.size(); ++i) {
    mixed.pi[i] = weight * best.pi[i] + (1 - weight) * now.pi[i];
  }
  for (std::size_t i = 0; i < mixed.price.size(); ++i) {
    mixed.price[i] = weight * best.price[i] + (1 - weight) * now.price[i];
  }
  return mixed;
}

}  // namespace

double uniform_value(const PatternClass& c, double units, double pi,
                     const std::vector<double>& price, double lo, double hi) {
  // The cheapest step of every group, cheapest first.
  std::vector<Offer> offers;
  std::vector<int> groups;
  for (const PatternStep& step : c.steps) {
    double cost = step.load;
    for (std::size_t a = 0; a < price.size(); ++a) {
      if (price[a] != 0) cost += price[a] * step.bytes[a];
    }
    const auto known = std::find(groups.begin(), groups.end(), step.group);
    if (known == groups.end()) {
      groups.push_back(step.group);
      offers.push_back({cost, step.count});
    } else {
      Offer& offer = offers[static_cast<std::size_t>(known - groups.begin())];
      offer.cost = std::min(offer.cost, cost);
    }
  }
  std::stable_sort(offers.begin(), offers.end(),
                   [](const Offer& a, const Offer& b) { return a.cost < b.cost; });
  double sum = 0;
  double done = 0;  // units
  for (const Offer& offer : offers) {
    const double end = std::min(done + offer.count, units);
    const double forced = std::max(0.0, std::min(end, lo) - done);
    const double open = std::max(0.0, std::min(end, hi) - std::max(done, lo));
    sum += forced * offer.cost + open * std::min(pi, offer.cost);
    if (const double rest = end - done - forced - open; rest > 0) sum += rest * pi;
    done = end;
  }
  if (done < lo) return kInfinity;
  return done < units ? sum + (units - done) * pi : sum;
}

PatternMaster::PatternMaster(const PlacementGroups& groups, const PatternModel& model,
                             const std::vector<double>& price, const MasterOptions& options)
    : groups_(groups), model_(model), options_(options), pricing_(groups, model, 1, options.cells) {
  for (std::size_t a = 0; a < price.size(); ++a) {
    if (price[a] > 0) accounts_.push_back(static_cast<int>(a));
  }
  // A unit takes one uniform choice: one that costs no less than another of its group, of load and
  // of bytes that are rows, would only count the group's units twice.
  const auto is_beaten = [&](const PatternStep& step, const PatternStep* by) {
    return std::all_of(accounts_.begin(), accounts_.end(),
                       [&](int a) { return by->bytes[a] <= step.bytes[a]; });
  };
  for (const PatternClass& c : model.classes) {
    std::map<int, std::vector<const PatternStep*>> of_group;  // by load
    std::vector<const PatternStep*>& steps = steps_.emplace_back();
    for (const PatternStep& step : c.steps) {
      std::vector<const PatternStep*>& kept = of_group[step.group];
      if (std::any_of(kept.begin(), kept.end(),
                      [&](const PatternStep* by) { return is_beaten(step, by); })) {
        continue;
      }
      kept.push_back(&step);
      steps.push_back(&step);
    }
  }
}

// The linear program of one room, and the best bound so far.
class PatternMaster::RoomProgram {
 public:
  RoomProgram(PatternMaster& owner, const RoomLimits& limits)
      : owner_(owner),
        model_(owner.model_),
        limits_(limits),
        num_classes_(static_cast<int>(model_.classes.size())),
        num_bins_(static_cast<int>(model_.bins.size())),
        first_account_(num_classes_ + num_bins_),
        no_price_(owner.groups_.ranks.accounts.size(), 0.0),
        master_(make_rows()) {
    result_.uniform_load = -kInfinity;
    add_steps();
  }

  RoomBound& result() { return result_; }

  void add_pool() {
    for (const Pattern& pattern : owner_.pool_) {
      if (owner_.pricing_.fits(pattern)) add_pattern(pattern);
    }
  }

  void solve_master() {
    master_.solve();
    result_.master_value = master_.value() + constant_;
  }

  PatternPrices master_prices() const {
    PatternPrices prices;
    for (int c = 0; c < num_classes_; ++c) {
      prices.pi.push_back(std::clamp(master_.prices()[c], 0.0, owner_.options_.penalty));
    }
    prices.price = no_price_;
    for (std::size_t i = 0; i < owner_.accounts_.size(); ++i) {
      const int account = owner_.accounts_[i];
      prices.price[account] =
          std::max(0.0, -master_.prices()[first_account_ + static_cast<int>(i)]) / cap(account);
    }
    return prices;
  }

  // Prices at `prices`, keeps the bound, adds columns that are worth more than they pay at the
  // master's own prices.
  bool generate(const PatternPrices& prices) {
    PatternPricing& pricing = owner_.pricing_;
    ++owner_.num_pricings_;
    pricing.price(prices.pi, prices.price);
    prove(prices);
    bool has_column = false;
    for (int b = 0; b < num_bins_; ++b) {
      if (model_.bins[b].count <= 0) continue;
      const Pattern pattern = pricing.best_pattern(b);
      double worth = 0;
      for (const math::SimplexEntry& entry : entries_of(pattern)) {
        worth += master_.prices()[entry.row] * entry.value;
      }
      if (worth <= 1e-9 * owner_.options_.scale) continue;
      add_pattern(pattern);
      has_column = true;
      // Hosts of one kind that are told apart by their limits alone.
      for (int other = 0; other < num_bins_; ++other) {
        if (other == b || model_.bins[other].host_kind != model_.bins[b].host_kind) continue;
        Pattern same = pattern;
        same.bin = other;
        if (pricing.fits(same)) add_pattern(same);
      }
    }
    return has_column;
  }

  // What the last linear program chose; the pool becomes its patterns.
  void take_answer() {
    for (int c = 0; c < num_classes_; ++c) {
      double sum = lo(c);
      for (const int column : step_columns_[c]) sum += master_.x(column);
      result_.num_uniform.push_back(sum);
    }
    for (std::size_t i = 0; i < patterns_.size(); ++i) {
      const double amount = master_.x(columns_[i]);
      if (amount <= 1e-12) continue;
      result_.patterns.push_back(patterns_[i]);
      result_.amounts.push_back(amount);
    }
    result_.missed = master_.missed();
    // The newest patterns, oldest first.
    const std::size_t first = patterns_.size() > kMaxPool ? patterns_.size() - kMaxPool : 0;
    std::vector<Pattern> pool(patterns_.begin() + static_cast<std::ptrdiff_t>(first),
                              patterns_.end());
    for (Pattern& pattern : owner_.pool_) {
      if (pool.size() >= kMaxPool) break;
      if (!owner_.pricing_.fits(pattern)) pool.push_back(std::move(pattern));
    }
    owner_.pool_ = std::move(pool);
  }

 private:
  double lo(int c) const { return limits_.lo.empty() ? 0.0 : limits_.lo[c]; }
  double hi(int c) const { return limits_.hi.empty() ? kInfinity : limits_.hi[c]; }
  double cap(int account) const {
    return static_cast<double>(owner_.groups_.ranks.accounts[account].cap);
  }

  // And the constant: forced uniform units.
  std::vector<math::SimplexRow> make_rows() {
    std::vector<math::SimplexRow> rows;
    for (const PatternClass& c : model_.forced) {
      constant_ += uniform_value(c, c.count, kInfinity, no_price_, 0, kInfinity);
    }
    for (int c = 0; c < num_classes_; ++c) {
      const PatternClass& of = model_.classes[c];
      rows.push_back({std::max(0.0, of.count - lo(c)), true, owner_.options_.penalty});
      if (lo(c) > 0) constant_ += uniform_value(of, lo(c), kInfinity, no_price_, lo(c), lo(c));
    }
    for (int b = 0; b < num_bins_; ++b) rows.push_back({model_.bins[b].count, false, 0});
    for (std::size_t a = 0; a < owner_.accounts_.size(); ++a) rows.push_back({1, false, 0});
    return rows;
  }

  // Those that lo pays for already are skipped, those beyond hi cut.
  void add_steps() {
    step_columns_.resize(model_.classes.size());
    for (int c = 0; c < num_classes_; ++c) {
      double done = 0;
      for (const PatternStep* step : owner_.steps_[c]) {
        const double begin = std::max(done, lo(c));
        done += step->count;
        const double count = std::min(done, hi(c)) - begin;
        if (count <= 0) continue;
        std::vector<math::SimplexEntry> entries = {{c, 1}};
        for (std::size_t i = 0; i < owner_.accounts_.size(); ++i) {
          const int account = owner_.accounts_[i];
          const double fill = step->bytes[account] / cap(account);
          if (fill > 0) entries.push_back({first_account_ + static_cast<int>(i), fill});
        }
        step_columns_[c].push_back(master_.add_column(step->load, std::move(entries), count));
      }
    }
  }

  // Adds `times` as much as the contents hold, on hosts or on ranks of a table.
  void add_sums(const std::vector<PatternCount>& contents, double times, int place,
                std::vector<double>& sums) const {
    for (const PatternCount& count : contents) {
      const PatternItem& item = model_.items[count.item];
      sums[item.class_index] += times * count.count * item.share;
      for (std::size_t i = 0; i < owner_.accounts_.size(); ++i) {
        const int account = owner_.accounts_[i];
        std::vector<double> one(no_price_);
        one[account] = 1 / cap(account);
        sums[first_account_ + static_cast<int>(i)] +=
            times * count.count * bytes_cost(owner_.groups_, item.place[place], one);
      }
    }
  }

  std::vector<math::SimplexEntry> entries_of(const Pattern& pattern) const {
    const PatternBin& bin = model_.bins[pattern.bin];
    std::vector<double> sums(static_cast<std::size_t>(master_.num_rows()), 0);
    sums[num_classes_ + pattern.bin] = 1;
    add_sums(pattern.blocks, 1, bin.host_kind, sums);
    for (std::size_t t = 0; t < bin.tables.size(); ++t) {
      add_sums(pattern.ranks[t], bin.ranks[t], model_.table_kinds[bin.tables[t]], sums);
    }
    std::vector<math::SimplexEntry> entries;
    for (std::size_t row = 0; row < sums.size(); ++row) {
      if (sums[row] != 0) entries.push_back({static_cast<int>(row), sums[row]});
    }
    return entries;
  }

  void add_pattern(const Pattern& pattern) {
    columns_.push_back(master_.add_column(0, entries_of(pattern)));
    patterns_.push_back(pattern);
  }

  void prove(const PatternPrices& prices) {
    double value = 0;
    for (const PatternClass& c : model_.forced) {
      value += uniform_value(c, c.count, kInfinity, prices.price, 0, kInfinity);
    }
    for (int c = 0; c < num_classes_; ++c) {
      value += uniform_value(model_.classes[c], model_.classes[c].count, prices.pi[c], prices.price,
                             lo(c), hi(c));
    }
    for (int b = 0; b < num_bins_; ++b) value -= model_.bins[b].count * owner_.pricing_.value(b);
    for (const int a : owner_.accounts_) value -= prices.price[a] * cap(a);
    if (value > result_.uniform_load) {
      result_.uniform_load = value;
      result_.prices = prices;
    }
  }

  PatternMaster& owner_;
  const PatternModel& model_;
  const RoomLimits& limits_;
  int num_classes_;
  int num_bins_;
  int first_account_;  // among the rows
  std::vector<double> no_price_;
  double constant_ = 0;
  math::SmallSimplex master_;
  std::vector<std::vector<int>> step_columns_;  // [classes]
  std::vector<Pattern> patterns_;
  std::vector<int> columns_;  // [patterns]
  RoomBound result_;
};

RoomBound PatternMaster::solve(double room, const RoomLimits& limits, double goal,
                               std::int64_t max_pricings) {
  pricing_.set_room(room, limits);
  RoomProgram program(*this, limits);
  program.add_pool();
  const std::int64_t end = num_pricings_ + std::max<std::int64_t>(1, max_pricings);
  RoomBound& result = program.result();
  while (true) {
    program.solve_master();
    result.is_complete =
        result.master_value - result.uniform_load <= options_.tolerance * options_.scale;
    if (result.is_complete || result.uniform_load > goal || num_pricings_ >= end) break;
    const bool is_first = result.uniform_load == -kInfinity;
    if (options_.context != nullptr &&
        (options_.context->is_cancelled() || options_.context->is_past_deadline()) && !is_first) {
      break;
    }
    const PatternPrices prices = program.master_prices();
    if (options_.smooth && !is_first && program.generate(mix(0.6, result.prices, prices))) continue;
    if (num_pricings_ < end && !program.generate(prices)) {
      result.is_complete = true;
      break;
    }
  }
  program.take_answer();
  return std::move(result);
}

}  // namespace plimsoll::balance
