#include "balance/contents/content_master.h"

#include <algorithm>
#include <cmath>

#include "math/small_simplex.h"

namespace plimsoll::balance {
namespace {

constexpr int kMaxPricings = 60;
constexpr int kCellsAUnit = 1000;  // of effort: about as long as a move of annealing takes
constexpr int kMaxFillings = 4;    // a pricing
constexpr std::size_t kMaxPool = 300;
constexpr double kLeastWorth = 1e-6;  // of the room, to be worth a column

std::vector<math::KnapsackCount> add_counts(const std::vector<math::KnapsackCount>& a,
                                            const std::vector<math::KnapsackCount>& b,
                                            std::int64_t times) {
  std::vector<math::KnapsackCount> sum = a;
  for (const math::KnapsackCount& count : b) sum.push_back({count.item, times * count.count});
  std::stable_sort(
      sum.begin(), sum.end(),
      [](const math::KnapsackCount& x, const math::KnapsackCount& y) { return x.item < y.item; });
  std::size_t size = 0;
  for (const math::KnapsackCount& count : sum) {
    if (size > 0 && sum[size - 1].item == count.item) {
      sum[size - 1].count += count.count;
    } else {
      sum[size++] = count;
    }
  }
  sum.resize(size);
  return sum;
}

}  // namespace

ContentMaster::ContentMaster(const ContentModel& model, double room, int cells, FillingPool& pool,
                             EffortClock& clock)
    : model_(model), room_(room), cells_(cells), clock_(clock), pool_(pool), penalty_(50 * room) {
  for (const ContentItem& item : model.items) size_.push_back(cells_of(item.load));
  pool_.hosts.clear();
  for (Filling& filling : pool_.ranks) filling.cells = cells_of(filling);
}

int ContentMaster::cells_of(const Filling& filling) const {
  std::int64_t cells = 0;
  for (const math::KnapsackCount& count : filling.counts) cells += count.count * size_[count.item];
  return static_cast<int>(std::min<std::int64_t>(cells, cells_ + 1));
}

int ContentMaster::cells_of(double load) const {
  if (load > room_) return cells_ + 1;
  if (load <= 0) return 0;
  return std::clamp(static_cast<int>(std::lround(load / room_ * cells_)), 1, cells_);
}

int ContentMaster::room_cells(double load) const {
  // Sums that drift may leave a load below 0.
  const double share = std::clamp((room_ - load) / room_, 0.0, 1.0);
  return static_cast<int>(std::lround(share * cells_));
}

void ContentMaster::find_needs(const Contents& contents) {
  needs_.clear();
  need_of_class_.assign(model_.classes.size(), -1);
  need_of_owed_.assign(model_.items.size(), -1);
  for (int c = 0; c < static_cast<int>(model_.classes.size()); ++c) {
    if (contents.left(c) == 0) continue;
    need_of_class_[c] = static_cast<int>(needs_.size());
    needs_.push_back({c, -1, static_cast<double>(contents.left(c))});
  }
  for (int i = 0; i < static_cast<int>(model_.items.size()); ++i) {
    if (contents.owed(i) == 0) continue;
    need_of_owed_[i] = static_cast<int>(needs_.size());
    needs_.push_back({-1, i, static_cast<double>(contents.owed(i))});
  }
}

void ContentMaster::find_entries(const Contents& contents) {
  entries_[0].clear();
  entries_[1].clear();
  for (int i = 0; i < static_cast<int>(model_.items.size()); ++i) {
    const ContentItem& item = model_.items[i];
    if (size_[i] > cells_) continue;
    std::vector<Entry>& entries = entries_[item.is_block ? 1 : 0];
    const int left = contents.left(item.class_index);
    const int owed = contents.owed(i);
    if (left > 0) {
      entries.push_back({i, need_of_class_[item.class_index], 1.0 / item.num_parts,
                         std::int64_t{left} * item.num_parts});
    }
    if (owed > 0) entries.push_back({i, need_of_owed_[i], 1, owed});
  }
}

double ContentMaster::byte_cost(int item) const {
  const ContentItem& i = model_.items[item];
  double cost = 0;
  for (int tier = 0; tier < kNumTiers; ++tier) {
    cost += model_.byte_price[tier] * static_cast<double>(i.bytes[tier]);
  }
  return i.is_block ? cost * model_.width : cost;
}

math::KnapsackTable& ContentMaster::price(bool blocks, const std::vector<double>& factors) {
  std::vector<math::KnapsackItem> items;
  for (const Entry& entry : entries_[blocks ? 1 : 0]) {
    double value = prices_[entry.need] * entry.share;
    if (!factors.empty()) value *= factors[entry.item];
    items.push_back({size_[entry.item], value - byte_cost(entry.item), entry.copies});
  }
  clock_.spend(1 + static_cast<std::int64_t>(items.size()) * cells_ / kCellsAUnit);
  math::KnapsackTable& table = tables_[blocks ? 1 : 0];
  table.fill(items, cells_);
  return table;
}

math::KnapsackTable& ContentMaster::make_table(const Contents& contents, bool blocks,
                                               const std::vector<double>& factors) {
  // Needs keep their rows and prices; only copies change, and parts newly owed are worth as much as
  // those of units left.
  std::vector<Entry>& entries = entries_[blocks ? 1 : 0];
  for (Entry& entry : entries) {
    const ContentItem& item = model_.items[entry.item];
    const bool is_owed = needs_[entry.need].item >= 0;
    const std::int64_t owed = contents.owed(entry.item);
    const std::int64_t left = std::int64_t{contents.left(item.class_index)} * item.num_parts;
    const bool has_owed_entry = need_of_owed_[entry.item] >= 0;
    entry.copies = is_owed ? owed : has_owed_entry ? left : left + owed;
  }
  return price(blocks, factors);
}

std::vector<math::KnapsackCount> ContentMaster::to_items(
    const std::vector<math::KnapsackCount>& counts, bool blocks) const {
  std::vector<math::KnapsackCount> result;
  for (const math::KnapsackCount& count : counts) {
    result.push_back({entries_[blocks ? 1 : 0][count.item].item, count.count});
  }
  return add_counts({}, result, 1);
}

int ContentMaster::room_of(const Filling& filling) const {
  return static_cast<int>(std::lower_bound(rooms_.begin(), rooms_.end(), filling.cells) -
                          rooms_.begin());
}

// What the filling gives to each need, owed parts first, and which rooms it takes from.
std::vector<std::pair<int, double>> ContentMaster::rows_of(const Filling& filling, int num_rooms,
                                                           bool hosts) const {
  std::vector<double> sums(needs_.size() + static_cast<std::size_t>(num_rooms), 0);
  for (const math::KnapsackCount& count : filling.counts) {
    const ContentItem& item = model_.items[count.item];
    auto parts = static_cast<double>(count.count);
    if (const int owed = need_of_owed_[count.item]; owed >= 0) {
      const double given = std::min(parts, needs_[owed].amount);
      sums[owed] += given;
      parts -= given;
    }
    const int of_class = need_of_class_[item.class_index];
    if (parts > 0 && of_class >= 0) sums[of_class] += parts / item.num_parts;
  }
  const int last = hosts ? 0 : room_of(filling);
  for (int room = 0; room <= last; ++room) sums[needs_.size() + room] = 1;
  std::vector<std::pair<int, double>> rows;
  for (std::size_t row = 0; row < sums.size(); ++row) {
    if (sums[row] != 0) rows.emplace_back(static_cast<int>(row), sums[row]);
  }
  return rows;
}

bool ContentMaster::is_open(const Contents& contents, const Filling& filling) const {
  return std::all_of(filling.counts.begin(), filling.counts.end(),
                     [&](const math::KnapsackCount& count) {
                       return count.count <= contents.open_parts(count.item);
                     });
}

void ContentMaster::solve(const Contents& contents, const std::vector<Bins>& bins, bool hosts) {
  find_needs(contents);
  find_entries(contents);
  rooms_.clear();
  std::vector<math::SimplexRow> rows;
  for (const Need& need : needs_) {
    const bool is_owed = need.item >= 0;
    rows.push_back(
        {need.amount, true, is_owed ? penalty_ / model_.items[need.item].num_parts : penalty_});
  }
  int num_bins = 0;
  for (const Bins& of : bins) num_bins += of.count;
  for (const Bins& of : bins) {
    rooms_.push_back(of.cells);
    rows.push_back({static_cast<double>(num_bins), false, 0});
    num_bins -= of.count;
  }
  const auto num_rooms = static_cast<int>(bins.size());
  const auto num_needs = static_cast<int>(needs_.size());
  math::SmallSimplex master(rows);

  for (int n = 0; n < num_needs; ++n) {
    if (needs_[n].item >= 0) continue;
    const ContentClass& c = model_.classes[needs_[n].class_index];
    const int end = std::min(contents.left(needs_[n].class_index), c.num_uniform_at_most);
    for (int i = 0; i < end;) {
      const double load = c.uniform_load[i + 1] - c.uniform_load[i];
      int next = i + 1;
      while (next < end && c.uniform_load[next + 1] - c.uniform_load[next] <= load * (1 + 1e-9)) {
        ++next;
      }
      double cost = load;
      for (int tier = 0; tier < kNumTiers; ++tier) {
        cost += model_.byte_price[tier] * model_.num_ranks *
                static_cast<double>(c.uniform_bytes[i + 1][tier] - c.uniform_bytes[i][tier]);
      }
      master.add_column(cost, {{n, 1}}, next - i);
      i = next;
    }
  }

  // A filling gives its parts to what is owed first. Where others have paid that already, they
  // count for units left.
  for (int i = 0; i < static_cast<int>(model_.items.size()); ++i) {
    const int of_class = need_of_class_[model_.items[i].class_index];
    if (need_of_owed_[i] < 0 || of_class < 0) continue;
    master.add_column(0, {{need_of_owed_[i], -1}, {of_class, 1.0 / model_.items[i].num_parts}});
  }

  std::vector<Filling>& pool = hosts ? pool_.hosts : pool_.ranks;
  std::vector<std::pair<std::size_t, int>> columns;  // of the pool
  const auto add_column = [&](std::size_t number) {
    const Filling& filling = pool[number];
    std::vector<math::SimplexEntry> entries;
    for (const auto& [row, value] : rows_of(filling, num_rooms, hosts)) {
      entries.push_back({row, value});
    }
    double cost = 0;
    for (const math::KnapsackCount& count : filling.counts) {
      cost += byte_cost(count.item) * static_cast<double>(count.count);
    }
    columns.emplace_back(number, master.add_column(cost, std::move(entries)));
  };
  if (pool.size() > kMaxPool) {
    pool.erase(pool.begin(), pool.begin() + static_cast<std::ptrdiff_t>(pool.size() - kMaxPool));
  }
  for (std::size_t i = 0; i < pool.size(); ++i) {
    if (!is_open(contents, pool[i])) continue;
    if (hosts || room_of(pool[i]) < num_rooms) add_column(i);
  }

  for (int pricing = 0;; ++pricing) {
    const std::int64_t num_pivots = master.solve();
    clock_.spend((num_pivots + 1) * (num_needs + num_rooms) * (num_needs + num_rooms) / 100);
    prices_.assign(master.prices().begin(), master.prices().begin() + num_needs);
    for (double& p : prices_) p = std::clamp(p, 0.0, penalty_);
    if (pricing >= kMaxPricings || clock_.is_stopped()) break;
    math::KnapsackTable& pieces = price(false, {});
    struct Found {
      double worth = 0;
      int room = 0, blocks = 0;
    };
    std::vector<Found> found;
    math::KnapsackTable* blocks = nullptr;
    double paid = 0;  // for rooms up to this one
    for (int room = 0; room < num_rooms; ++room) {
      paid -= master.prices()[num_needs + room];
      Found best{-1, room, 0};
      if (!hosts) {
        best.worth = pieces.value(rooms_[room]);
      } else {
        blocks = &price(true, {});
        for (int b = 0; b <= cells_; ++b) {
          if (b > 0 && blocks->value(b) <= blocks->value(b - 1)) continue;
          const double worth = blocks->value(b) + model_.width * pieces.value(cells_ - b);
          if (worth > best.worth) best.worth = worth, best.blocks = b;
        }
      }
      best.worth -= paid;
      if (best.worth > kLeastWorth * room_) found.push_back(best);
    }
    if (found.empty()) break;
    std::stable_sort(found.begin(), found.end(),
                     [](const Found& a, const Found& b) { return a.worth > b.worth; });
    if (found.size() > kMaxFillings) found.resize(kMaxFillings);
    bool has_new = false;
    for (const Found& f : found) {
      Filling filling;
      const int room = hosts ? cells_ - f.blocks : rooms_[f.room];
      const std::vector<math::KnapsackCount> of_rank = to_items(pieces.filling(room), false);
      clock_.spend(1 + static_cast<std::int64_t>(entries_[0].size()) * cells_ / kCellsAUnit);
      if (hosts) {
        filling.counts =
            add_counts(to_items(blocks->filling(f.blocks), true), of_rank, model_.width);
      } else {
        filling.counts = of_rank;
        filling.cells = cells_of(filling);
      }
      if (std::find(pool.begin(), pool.end(), filling) != pool.end() &&
          std::any_of(columns.begin(), columns.end(),
                      [&](const auto& c) { return pool[c.first] == filling; })) {
        continue;
      }
      pool.push_back(std::move(filling));
      add_column(pool.size() - 1);
      has_new = true;
    }
    if (!has_new) break;
  }
  value_ = master.value();
  for (int tier = 0; tier < kNumTiers; ++tier) {
    value_ -= model_.byte_price[tier] * static_cast<double>(contents.free_bytes(tier));
  }
  missed_ = master.missed();
  uses_.clear();
  std::vector<char> is_used(pool.size(), 0);
  for (const auto& [number, column] : columns) {
    const double amount = master.x(column);
    if (amount <= 1e-9) continue;
    uses_.push_back({pool[number], amount});
    is_used[number] = 1;
  }
  std::size_t next = 0;
  for (std::size_t i = 0; i < pool.size(); ++i) {
    if (is_used[i]) continue;
    if (next != i) pool[next] = std::move(pool[i]);
    ++next;
  }
  pool.resize(next);
  for (const Use& use : uses_) pool.push_back(use.filling);
}

}  // namespace plimsoll::balance
