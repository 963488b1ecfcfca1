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

RoomBound PatternMaster::solve(double room, const RoomLimits& limits, double goal,
                               std::int64_t max_pricings) {
  const auto num_classes = static_cast<int>(model_.classes.size());
  const auto num_bins = static_cast<int>(model_.bins.size());
  const auto lo = [&](int c) { return limits.lo.empty() ? 0.0 : limits.lo[c]; };
  const auto hi = [&](int c) { return limits.hi.empty() ? kInfinity : limits.hi[c]; };
  const auto cap = [&](int account) {
    return static_cast<double>(groups_.ranks.accounts[account].cap);
  };

  std::vector<math::SimplexRow> rows;
  double constant = 0;  // forced uniform units
  const std::vector<double> no_price(groups_.ranks.accounts.size(), 0.0);
  for (const PatternClass& c : model_.forced) {
    constant += uniform_value(c, c.count, kInfinity, no_price, 0, kInfinity);
  }
  for (int c = 0; c < num_classes; ++c) {
    rows.push_back({std::max(0.0, model_.classes[c].count - lo(c)), true, options_.penalty});
    if (lo(c) > 0) {
      constant += uniform_value(model_.classes[c], lo(c), kInfinity, no_price, lo(c), lo(c));
    }
  }
  for (int b = 0; b < num_bins; ++b) rows.push_back({model_.bins[b].count, false, 0});
  for (std::size_t a = 0; a < accounts_.size(); ++a) rows.push_back({1, false, 0});
  math::SmallSimplex master(rows);
  const int first_account = num_classes + num_bins;

  // Steps: those that lo pays for already are skipped, those beyond hi cut.
  std::vector<std::vector<int>> step_columns(model_.classes.size());
  for (int c = 0; c < num_classes; ++c) {
    double done = 0;
    for (const PatternStep* of : steps_[c]) {
      const PatternStep& step = *of;
      const double begin = std::max(done, lo(c));
      done += step.count;
      const double count = std::min(done, hi(c)) - begin;
      if (count <= 0) continue;
      std::vector<math::SimplexEntry> entries = {{c, 1}};
      for (std::size_t i = 0; i < accounts_.size(); ++i) {
        const double fill = step.bytes[accounts_[i]] / cap(accounts_[i]);
        if (fill > 0) entries.push_back({first_account + static_cast<int>(i), fill});
      }
      step_columns[c].push_back(master.add_column(step.load, std::move(entries), count));
    }
  }

  PatternPricing& pricing = pricing_;
  pricing.set_room(room, limits);
  std::vector<Pattern> patterns;
  std::vector<int> columns;
  const auto entries_of = [&](const Pattern& pattern) {
    const PatternBin& bin = model_.bins[pattern.bin];
    std::vector<double> sums(rows.size(), 0);
    sums[num_classes + pattern.bin] = 1;
    const auto add = [&](const std::vector<PatternCount>& contents, double times, bool is_block,
                         int at) {
      for (const PatternCount& count : contents) {
        const PatternItem& item = model_.items[count.item];
        sums[item.class_index] += times * count.count * item.share;
        if (accounts_.empty()) continue;
        const int place = item.place[is_block ? bin.host_kind : model_.table_kinds[at]];
        for (std::size_t i = 0; i < accounts_.size(); ++i) {
          std::vector<double> one(no_price);
          one[accounts_[i]] = 1 / cap(accounts_[i]);
          sums[first_account + static_cast<int>(i)] +=
              times * count.count * bytes_cost(groups_, place, one);
        }
      }
    };
    add(pattern.blocks, 1, true, 0);
    for (std::size_t t = 0; t < bin.tables.size(); ++t) {
      add(pattern.ranks[t], bin.ranks[t], false, bin.tables[t]);
    }
    std::vector<math::SimplexEntry> entries;
    for (std::size_t row = 0; row < sums.size(); ++row) {
      if (sums[row] != 0) entries.push_back({static_cast<int>(row), sums[row]});
    }
    return entries;
  };
  const auto add_pattern = [&](const Pattern& pattern) {
    columns.push_back(master.add_column(0, entries_of(pattern)));
    patterns.push_back(pattern);
  };
  for (const Pattern& pattern : pool_) {
    if (pricing.fits(pattern)) add_pattern(pattern);
  }

  RoomBound result;
  result.uniform_load = -kInfinity;
  const auto prove = [&](const PatternPrices& prices) {
    double value = 0;
    for (const PatternClass& c : model_.forced) {
      value += uniform_value(c, c.count, kInfinity, prices.price, 0, kInfinity);
    }
    for (int c = 0; c < num_classes; ++c) {
      value += uniform_value(model_.classes[c], model_.classes[c].count, prices.pi[c], prices.price,
                             lo(c), hi(c));
    }
    for (int b = 0; b < num_bins; ++b) value -= model_.bins[b].count * pricing.value(b);
    for (const int a : accounts_) value -= prices.price[a] * cap(a);
    if (value > result.uniform_load) {
      result.uniform_load = value;
      result.prices = prices;
    }
  };
  // Prices at `prices`, keeps the bound, adds columns that are worth more than they pay at the
  // master's own prices.
  const auto generate = [&](const PatternPrices& prices, const std::vector<double>& duals) {
    ++num_pricings_;
    pricing.price(prices.pi, prices.price);
    prove(prices);
    bool has_column = false;
    for (int b = 0; b < num_bins; ++b) {
      if (model_.bins[b].count <= 0) continue;
      const Pattern pattern = pricing.best_pattern(b);
      double worth = 0;
      for (const math::SimplexEntry& entry : entries_of(pattern))
        worth += duals[entry.row] * entry.value;
      if (worth <= 1e-9 * options_.scale) continue;
      add_pattern(pattern);
      has_column = true;
      // Hosts of one kind that are told apart by their limits alone.
      for (int other = 0; other < num_bins; ++other) {
        if (other == b || model_.bins[other].host_kind != model_.bins[b].host_kind) continue;
        Pattern same = pattern;
        same.bin = other;
        if (pricing.fits(same)) add_pattern(same);
      }
    }
    return has_column;
  };
  const auto add_up = [&](double weight, const PatternPrices& best, const PatternPrices& now) {
    PatternPrices mixed = now;
    for (std::size_t i = 0; i < mixed.pi.size(); ++i) {
      mixed.pi[i] = weight * best.pi[i] + (1 - weight) * now.pi[i];
    }
    for (std::size_t i = 0; i < mixed.price.size(); ++i) {
      mixed.price[i] = weight * best.price[i] + (1 - weight) * now.price[i];
    }
    return mixed;
  };
  const std::int64_t end = num_pricings_ + std::max<std::int64_t>(1, max_pricings);
  while (true) {
    master.solve();
    result.master_value = master.value() + constant;
    result.is_complete =
        result.master_value - result.uniform_load <= options_.tolerance * options_.scale;
    if (result.is_complete || result.uniform_load > goal || num_pricings_ >= end) break;
    if (options_.context != nullptr &&
        (options_.context->is_cancelled() || options_.context->is_past_deadline()) &&
        result.uniform_load > -kInfinity) {
      break;
    }
    PatternPrices prices;
    for (int c = 0; c < num_classes; ++c) {
      prices.pi.push_back(std::clamp(master.prices()[c], 0.0, options_.penalty));
    }
    prices.price = no_price;
    for (std::size_t i = 0; i < accounts_.size(); ++i) {
      prices.price[accounts_[i]] =
          std::max(0.0, -master.prices()[first_account + static_cast<int>(i)]) / cap(accounts_[i]);
    }
    const bool is_first = result.uniform_load == -kInfinity;
    if (options_.smooth && !is_first &&
        generate(add_up(0.6, result.prices, prices), master.prices())) {
      continue;
    }
    if (num_pricings_ < end && !generate(prices, master.prices())) {
      result.is_complete = true;
      break;
    }
  }

  for (int c = 0; c < num_classes; ++c) {
    double sum = lo(c);
    for (const int column : step_columns[c]) sum += master.x(column);
    result.num_uniform.push_back(sum);
  }
  for (std::size_t i = 0; i < patterns.size(); ++i) {
    const double amount = master.x(columns[i]);
    if (amount <= 1e-12) continue;
    result.patterns.push_back(patterns[i]);
    result.amounts.push_back(amount);
  }
  result.missed = master.missed();
  // The newest patterns, oldest first.
  const std::size_t first = patterns.size() > kMaxPool ? patterns.size() - kMaxPool : 0;
  std::vector<Pattern> pool(patterns.begin() + static_cast<std::ptrdiff_t>(first), patterns.end());
  for (Pattern& pattern : pool_) {
    if (pool.size() >= kMaxPool) break;
    if (!pricing.fits(pattern)) pool.push_back(std::move(pattern));
  }
  pool_ = std::move(pool);
  return result;
}

}  // namespace plimsoll::balance
