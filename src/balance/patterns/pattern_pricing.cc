#include "balance/patterns/pattern_pricing.h"

#include <algorithm>
#include <cmath>

namespace plimsoll::balance {
namespace {

// Rounding of sums and quotients must not make what fits too large.
constexpr double kSafety = 1e-10;

}  // namespace

PatternPricing::PatternPricing(const PlacementGroups& groups, const PatternModel& model,
                               double room, int cells)
    : groups_(groups),
      model_(model),
      room_(room),
      cells_(cells),
      rank_tables_(model.table_kinds.size()),
      block_tables_(groups.ranks.host_kinds.size()),
      poured_ranks_(rank_tables_.size()),
      poured_blocks_(block_tables_.size()),
      least_cells_(model.bins.size(), 0),
      most_cells_(model.bins.size(), cells) {}

// Blocks of a load take at most its cells rounded down, and pieces beside blocks of a load at most
// what all cells less its cells leave, rounded down.
void PatternPricing::set_room(double room, const RoomLimits& limits) {
  room_ = room;
  for (std::size_t b = 0; b < least_cells_.size(); ++b) {
    const double least = limits.least_blocks.empty() ? 0 : limits.least_blocks[b];
    const double most = limits.most_blocks.empty() ? room : limits.most_blocks[b];
    const auto cells_of = [&](double load, double safety) {
      return std::min(load / room_, 1.0) * cells_ * safety;
    };
    least_cells_[b] = static_cast<int>(std::ceil(cells_of(least, 1 - kSafety)));
    most_cells_[b] = std::max(static_cast<int>(cells_of(most, 1 + kSafety)), 0);
  }
}

int PatternPricing::size_of(int item, int place) const {
  const PatternItem& i = model_.items[item];
  const double load = i.is_block ? i.load[place] : i.load[model_.table_kinds[place]];
  if (load < 0 || load > room_ * (1 + kSafety)) return cells_ + 1;
  const double cells = load / room_ * cells_;
  return static_cast<int>(cells * (1 - kSafety));
}

void PatternPricing::build(bool is_block, int place, const std::vector<double>& pi,
                           const std::vector<double>& price) {
  Poured& poured = (is_block ? poured_blocks_ : poured_ranks_)[place];
  poured = {};
  std::vector<math::KnapsackItem> items(model_.items.size());
  const bool has_prices = std::any_of(price.begin(), price.end(), [](double p) { return p != 0; });
  double pour = 0;
  for (std::size_t i = 0; i < items.size(); ++i) {
    const PatternItem& item = model_.items[i];
    if (item.is_block != is_block) continue;
    const int at = is_block ? place : model_.table_kinds[place];
    if (item.place[at] < 0) continue;
    const int size = size_of(static_cast<int>(i), place);
    if (size > cells_) continue;
    double value = pi[item.class_index] * item.share;
    if (has_prices) value -= bytes_cost(groups_, item.place[at], price);
    if (value <= 0) continue;
    std::int64_t num_copies = item.copies;
    const double load = item.load[at];
    if (load > 0) {
      // Load is finer than cells.
      num_copies = std::min(
          num_copies, static_cast<std::int64_t>(std::min(room_ / load * (1 + kSafety), 1e15)));
    }
    if (load > 0 && size < kPourShare * cells_) {
      const double per_cell = room_ / cells_ / load * (1 + kSafety);
      if (per_cell * value > pour) {
        pour = per_cell * value;
        poured = {static_cast<int>(i), per_cell};
      }
      continue;
    }
    items[i] = {size, value, num_copies};
  }
  (is_block ? block_tables_ : rank_tables_)[place].fill(items, cells_, pour);
}

void PatternPricing::price(const std::vector<double>& pi, const std::vector<double>& price) {
  for (std::size_t t = 0; t < rank_tables_.size(); ++t) {
    build(false, static_cast<int>(t), pi, price);
  }
  for (std::size_t h = 0; h < block_tables_.size(); ++h) {
    build(true, static_cast<int>(h), pi, price);
  }
}

double PatternPricing::value_at(int bin, int block_cells) const {
  const PatternBin& b = model_.bins[bin];
  double value = b.host_kind >= 0 ? block_tables_[b.host_kind].value(block_cells) : 0;
  for (std::size_t t = 0; t < b.tables.size(); ++t) {
    value += b.ranks[t] * rank_tables_[b.tables[t]].value(rank_cells(bin, block_cells));
  }
  return value;
}

int PatternPricing::best_block_cells(int bin) const {
  const PatternBin& b = model_.bins[bin];
  int best = 0;
  if (b.host_kind < 0) return best;
  const math::KnapsackTable& blocks = block_tables_[b.host_kind];
  double best_value = value_at(bin, 0);
  for (int cells = 1; cells <= most_cells_[bin]; ++cells) {
    if (blocks.value(cells) <= blocks.value(cells - 1)) continue;
    const double value = value_at(bin, cells);
    if (value > best_value) {
      best = cells;
      best_value = value;
    }
  }
  return best;
}

double PatternPricing::value(int bin) const { return value_at(bin, best_block_cells(bin)); }

std::vector<PatternCount> PatternPricing::filling(math::KnapsackTable& table, const Poured& poured,
                                                  int cells) {
  std::vector<PatternCount> result;
  for (const math::KnapsackCount& count : table.filling(cells)) {
    result.push_back({count.item, static_cast<double>(count.count)});
  }
  if (const int rest = table.poured(cells); rest > 0) {
    result.push_back({poured.item, rest * poured.per_cell});
  }
  return result;
}

Pattern PatternPricing::best_pattern(int bin) {
  const PatternBin& b = model_.bins[bin];
  const int block_cells = best_block_cells(bin);
  Pattern pattern{bin, {}, {}};
  if (b.host_kind >= 0)
    pattern.blocks = filling(block_tables_[b.host_kind], poured_blocks_[b.host_kind], block_cells);
  for (const int table : b.tables) {
    pattern.ranks.push_back(
        filling(rank_tables_[table], poured_ranks_[table], rank_cells(bin, block_cells)));
  }
  return pattern;
}

bool PatternPricing::fits(const Pattern& pattern) const {
  const PatternBin& b = model_.bins[pattern.bin];
  const auto cells_of = [&](const std::vector<PatternCount>& counts, int place) {
    double cells = 0;
    for (const PatternCount& count : counts) {
      const int size = size_of(count.item, place);
      if (size > cells_) return static_cast<double>(size);
      const PatternItem& item = model_.items[count.item];
      const double load = item.is_block ? item.load[place] : item.load[model_.table_kinds[place]];
      const bool is_poured = size < kPourShare * cells_;
      cells += count.count * (is_poured ? load / room_ * cells_ * (1 - kSafety) : size);
    }
    return cells;
  };
  double blocks = b.host_kind >= 0 ? cells_of(pattern.blocks, b.host_kind) : 0;
  if (blocks > most_cells_[pattern.bin] + 1e-6) return false;
  blocks = std::max(blocks, static_cast<double>(least_cells_[pattern.bin]));
  for (std::size_t t = 0; t < b.tables.size(); ++t) {
    if (blocks + cells_of(pattern.ranks[t], b.tables[t]) > cells_ + 1e-6) return false;
  }
  return true;
}

}  // namespace plimsoll::balance
