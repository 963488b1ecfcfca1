#include "balance/contents/content_master.h"

#include <algorithm>
#include <cmath>

namespace plimsoll::balance {
namespace {

constexpr int kMaxPricings = 60;
constexpr int kCellsAUnit = 1000;  // of effort: about as long as a move of annealing takes
constexpr int kMaxFillings = 4;    // a pricing
constexpr std::size_t kMaxContents = 300;
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
  for (int resource = 0; resource < model_.problem->num_resources(); ++resource) {
    cost += model_.byte_price[resource] * static_cast<double>(i.bytes[resource]);
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

// The program, and which of its columns stand for which fillings of the pool.
struct ContentMaster::Program {
  math::SmallSimplex simplex;
  bool hosts = false;
  int num_rooms = 0;
  std::vector<Filling>& pool;
  std::vector<std::pair<std::size_t, int>> columns = {};  // of the pool
};

std::vector<math::SimplexRow> ContentMaster::make_rows(const std::vector<Bins>& bins) {
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
  return rows;
}

void ContentMaster::add_uniform(const Contents& contents, math::SmallSimplex& simplex) const {
  for (int n = 0; n < static_cast<int>(needs_.size()); ++n) {
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
      for (int resource = 0; resource < model_.problem->num_resources(); ++resource) {
        cost +=
            model_.byte_price[resource] * model_.num_ranks *
            static_cast<double>(c.uniform_bytes[i + 1][resource] - c.uniform_bytes[i][resource]);
      }
      simplex.add_column(cost, {{n, 1}}, next - i);
      i = next;
    }
  }
}

// A filling gives its parts to what is owed first. Where others have paid that already, they count
// for units left.
void ContentMaster::add_overpaid(math::SmallSimplex& simplex) const {
  for (int i = 0; i < static_cast<int>(model_.items.size()); ++i) {
    const int of_class = need_of_class_[model_.items[i].class_index];
    if (need_of_owed_[i] < 0 || of_class < 0) continue;
    simplex.add_column(0, {{need_of_owed_[i], -1}, {of_class, 1.0 / model_.items[i].num_parts}});
  }
}

void ContentMaster::add_filling(std::size_t number, Program& program) const {
  const Filling& filling = program.pool[number];
  std::vector<math::SimplexEntry> entries;
  for (const auto& [row, value] : rows_of(filling, program.num_rooms, program.hosts)) {
    entries.push_back({row, value});
  }
  double cost = 0;
  for (const math::KnapsackCount& count : filling.counts) {
    cost += byte_cost(count.item) * static_cast<double>(count.count);
  }
  program.columns.emplace_back(number, program.simplex.add_column(cost, std::move(entries)));
}

void ContentMaster::add_pool(const Contents& contents, Program& program) const {
  std::vector<Filling>& pool = program.pool;
  if (pool.size() > kMaxContents) {
    pool.erase(pool.begin(),
               pool.begin() + static_cast<std::ptrdiff_t>(pool.size() - kMaxContents));
  }
  for (std::size_t i = 0; i < pool.size(); ++i) {
    if (!is_open(contents, pool[i])) continue;
    if (program.hosts || room_of(pool[i]) < program.num_rooms) add_filling(i, program);
  }
}

// The best content of every room that is worth a column, most worth first.
std::vector<ContentMaster::Found> ContentMaster::find_fillings(const Program& program,
                                                               const math::KnapsackTable& pieces) {
  std::vector<Found> found;
  const std::size_t num_needs = needs_.size();
  double paid = 0;  // for rooms up to this one
  for (int room = 0; room < program.num_rooms; ++room) {
    paid -= program.simplex.prices()[num_needs + static_cast<std::size_t>(room)];
    Found best{-1, room, 0};
    if (!program.hosts) {
      best.worth = pieces.value(rooms_[room]);
    } else {
      const math::KnapsackTable& blocks = price(true, {});
      for (int b = 0; b <= cells_; ++b) {
        if (b > 0 && blocks.value(b) <= blocks.value(b - 1)) continue;
        const double worth = blocks.value(b) + model_.width * pieces.value(cells_ - b);
        if (worth > best.worth) best.worth = worth, best.blocks = b;
      }
    }
    best.worth -= paid;
    if (best.worth > kLeastWorth * room_) found.push_back(best);
  }
  std::stable_sort(found.begin(), found.end(),
                   [](const Found& a, const Found& b) { return a.worth > b.worth; });
  if (found.size() > kMaxFillings) found.resize(kMaxFillings);
  return found;
}

Filling ContentMaster::make_filling(const Found& found, bool hosts, math::KnapsackTable& pieces) {
  Filling filling;
  const int room = hosts ? cells_ - found.blocks : rooms_[found.room];
  const std::vector<math::KnapsackCount> of_rank = to_items(pieces.filling(room), false);
  clock_.spend(1 + static_cast<std::int64_t>(entries_[0].size()) * cells_ / kCellsAUnit);
  if (hosts) {
    filling.counts =
        add_counts(to_items(tables_[1].filling(found.blocks), true), of_rank, model_.width);
  } else {
    filling.counts = of_rank;
    filling.cells = cells_of(filling);
  }
  return filling;
}

bool ContentMaster::add_fillings(Program& program) {
  math::KnapsackTable& pieces = price(false, {});
  bool has_new = false;
  for (const Found& found : find_fillings(program, pieces)) {
    Filling filling = make_filling(found, program.hosts, pieces);
    if (std::any_of(program.columns.begin(), program.columns.end(),
                    [&](const auto& c) { return program.pool[c.first] == filling; })) {
      continue;
    }
    program.pool.push_back(std::move(filling));
    add_filling(program.pool.size() - 1, program);
    has_new = true;
  }
  return has_new;
}

// What the program says; the fillings in use go to the end of the pool.
void ContentMaster::take_answer(const Contents& contents, Program& program) {
  value_ = program.simplex.value();
  for (int resource = 0; resource < model_.problem->num_resources(); ++resource) {
    value_ -= model_.byte_price[resource] * static_cast<double>(contents.free_bytes(resource));
  }
  missed_ = program.simplex.missed();
  uses_.clear();
  std::vector<Filling>& pool = program.pool;
  std::vector<char> is_used(pool.size(), 0);
  for (const auto& [number, column] : program.columns) {
    const double amount = program.simplex.x(column);
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

void ContentMaster::solve(const Contents& contents, const std::vector<Bins>& bins, bool hosts) {
  find_needs(contents);
  find_entries(contents);
  Program program{math::SmallSimplex(make_rows(bins)), hosts, static_cast<int>(bins.size()),
                  hosts ? pool_.hosts : pool_.ranks};
  add_uniform(contents, program.simplex);
  add_overpaid(program.simplex);
  add_pool(contents, program);
  const auto num_needs = static_cast<int>(needs_.size());
  const int num_rows = num_needs + program.num_rooms;
  for (int pricing = 0;; ++pricing) {
    const std::int64_t num_pivots = program.simplex.solve();
    clock_.spend((num_pivots + 1) * num_rows * num_rows / 100);
    const std::vector<double>& prices = program.simplex.prices();
    prices_.assign(prices.begin(), prices.begin() + num_needs);
    for (double& p : prices_) p = std::clamp(p, 0.0, penalty_);
    if (pricing >= kMaxPricings || clock_.is_stopped() || !add_fillings(program)) break;
  }
  take_answer(contents, program);
}

}  // namespace plimsoll::balance
