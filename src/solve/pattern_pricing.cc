#include "plimsoll/solve/pattern_pricing.h"

#include <algorithm>
#include <cmath>

namespace plimsoll::solve {
namespace {

// Rounding of sums and quotients must not make what fits too large.
constexpr double kSafety = 1e-10;

}  // namespace

PatternPricing::PatternPricing(const PlacementGroups& groups, const PatternModel& model,
                               double room, int cells, Rounding rounding)
    : groups_(groups), model_(model), room_(room), cells_(cells), rounding_(rounding) {}

int PatternPricing::size_of(int item, int place) const {
  const PatternItem& i = model_.items[item];
  const double load = i.is_block ? i.load[place] : i.load[model_.table_kinds[place]];
  if (load < 0 || load > room_ * (1 + kSafety)) return cells_ + 1;
  const double cells = load / room_ * cells_;
  return rounding_ == Rounding::kDown
             ? static_cast<int>(cells * (1 - kSafety))
             : std::min(cells_ + 1, static_cast<int>(std::ceil(cells * (1 + kSafety))));
}

KnapsackTable PatternPricing::build(bool is_block, int place, const std::vector<double>& pi,
                                    const std::vector<double>& price,
                                    const std::vector<std::int64_t>& copies, Poured& poured) const {
  std::vector<KnapsackItem> items(model_.items.size());
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
    std::int64_t num_copies = copies.empty() ? item.copies : copies[i];
    const double load = item.load[at];
    if (load > 0) {
      // Load is finer than cells.
      num_copies = std::min(
          num_copies, static_cast<std::int64_t>(std::min(room_ / load * (1 + kSafety), 1e15)));
    }
    if (rounding_ == Rounding::kDown && load > 0 && size < kPourShare * cells_) {
      const double per_cell = room_ / cells_ / load * (1 + kSafety);
      if (per_cell * value > pour) {
        pour = per_cell * value;
        poured = {static_cast<int>(i), per_cell};
      }
      continue;
    }
    items[i] = {size, value, num_copies};
  }
  return {items, cells_, pour};
}

void PatternPricing::price(const std::vector<double>& pi, const std::vector<double>& price,
                           const std::vector<std::int64_t>& copies) {
  rank_tables_.clear();
  block_tables_.clear();
  poured_ranks_.assign(model_.table_kinds.size(), {});
  poured_blocks_.assign(groups_.ranks.host_kinds.size(), {});
  for (std::size_t t = 0; t < model_.table_kinds.size(); ++t) {
    rank_tables_.push_back(build(false, static_cast<int>(t), pi, price, copies, poured_ranks_[t]));
  }
  for (std::size_t h = 0; h < groups_.ranks.host_kinds.size(); ++h) {
    block_tables_.push_back(build(true, static_cast<int>(h), pi, price, copies, poured_blocks_[h]));
  }
}

double PatternPricing::value_at(int bin, int block_cells) const {
  const PatternBin& b = model_.bins[bin];
  double value = b.host_kind >= 0 ? block_tables_[b.host_kind].value(block_cells) : 0;
  for (std::size_t t = 0; t < b.tables.size(); ++t) {
    value += b.ranks[t] * rank_tables_[b.tables[t]].value(cells_ - block_cells);
  }
  return value;
}

int PatternPricing::best_block_cells(int bin) const {
  const PatternBin& b = model_.bins[bin];
  int best = 0;
  if (b.host_kind < 0) return best;
  const KnapsackTable& blocks = block_tables_[b.host_kind];
  double best_value = value_at(bin, 0);
  for (int cells = 1; cells <= cells_; ++cells) {
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

std::vector<PatternCount> PatternPricing::filling(const KnapsackTable& table, const Poured& poured,
                                                  int cells) const {
  std::vector<PatternCount> result;
  for (const KnapsackCount& count : table.filling(cells)) {
    result.push_back({count.item, static_cast<double>(count.count)});
  }
  if (const int rest = table.poured(cells); rest > 0) {
    result.push_back({poured.item, rest * poured.per_cell});
  }
  return result;
}

std::vector<PatternCount> PatternPricing::rank_filling(int table, int cells) const {
  return filling(rank_tables_[table], poured_ranks_[table], cells);
}

std::vector<PatternCount> PatternPricing::block_filling(int host_kind, int cells) const {
  return filling(block_tables_[host_kind], poured_blocks_[host_kind], cells);
}

Pattern PatternPricing::best_pattern(int bin) const {
  const PatternBin& b = model_.bins[bin];
  const int block_cells = best_block_cells(bin);
  Pattern pattern{bin, {}, {}};
  if (b.host_kind >= 0) pattern.blocks = block_filling(b.host_kind, block_cells);
  for (const int table : b.tables) {
    pattern.ranks.push_back(rank_filling(table, cells_ - block_cells));
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
      const bool is_poured = rounding_ == Rounding::kDown && size < kPourShare * cells_;
      cells += count.count * (is_poured ? load / room_ * cells_ * (1 - kSafety) : size);
    }
    return cells;
  };
  const double blocks = b.host_kind >= 0 ? cells_of(pattern.blocks, b.host_kind) : 0;
  for (std::size_t t = 0; t < b.tables.size(); ++t) {
    if (blocks + cells_of(pattern.ranks[t], b.tables[t]) > cells_ + 1e-6) return false;
  }
  return true;
}

}  // namespace plimsoll::solve
