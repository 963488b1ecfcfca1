#include "balance/contents/content_dive.h"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "core/check.h"

namespace plimsoll::balance {
namespace {

constexpr double kNoise = 0.03;

// The rank or host with the least load where the item fits; -1: none.
int lightest(const Contents& contents, int item) {
  const ContentModel& model = contents.model();
  const bool is_block = model.items[item].is_block;
  const int end = is_block ? model.num_hosts : model.num_ranks;
  int best = -1;
  double least = kInfinity;
  for (int place = 0; place < end; ++place) {
    double load = 0;
    if (is_block) {
      for (int r = place * model.width; r < (place + 1) * model.width; ++r) {
        load = std::max(load, contents.load(r));
      }
    } else {
      load = contents.load(place);
    }
    if (load < least && contents.fits(item, place)) least = load, best = place;
  }
  return best;
}

struct Put {
  double largest = 0;  // load that the parts make; kInfinity, and nothing put: one fits nowhere
  std::vector<int> places;
};

void take_back(Contents& contents, int item, const Put& put) {
  for (const int place : put.places) contents.take(item, place);
}

// Puts parts of the item where they are lightest.
Put put_parts(Contents& contents, int item, int num_parts) {
  const ContentItem& i = contents.model().items[item];
  Put put;
  for (int part = 0; part < num_parts; ++part) {
    const int place = lightest(contents, item);
    if (place < 0) {
      take_back(contents, item, put);
      return {kInfinity, {}};
    }
    contents.put(item, place);
    put.places.push_back(place);
    const int first = i.is_block ? place * contents.model().width : place;
    const int end = i.is_block ? first + contents.model().width : first + 1;
    for (int r = first; r < end; ++r) put.largest = std::max(put.largest, contents.load(r));
  }
  return put;
}

// Places one unit of the class; false where it fits nowhere.
bool place_unit(Contents& contents, int class_index) {
  const ContentClass& c = contents.model().classes[class_index];
  const double largest = contents.largest_load();
  double best_cost = kInfinity;
  int best = -1;
  for (const int item : c.items) {
    const int num_parts = contents.model().items[item].num_parts;
    const Put put = put_parts(contents, item, num_parts);
    if (put.largest == kInfinity) continue;
    if (put.largest <= largest) return true;
    const double cost = put.largest - largest;
    take_back(contents, item, put);
    if (cost < best_cost) best_cost = cost, best = item;
  }
  const int num_uniform = contents.num_uniform(class_index);
  if (num_uniform < c.num_uniform_at_most) {
    const double cost = c.uniform_load[num_uniform + 1] - c.uniform_load[num_uniform];
    if (cost <= best_cost && contents.set_uniform(class_index, num_uniform + 1)) return true;
  }
  if (best < 0) return false;
  return put_parts(contents, best, contents.model().items[best].num_parts).largest < kInfinity;
}

// Uniform units that fit beside the rest without making it slower, dearest first.
void pull_in_uniform(Contents& contents, const std::vector<int>& order) {
  const ContentModel& model = contents.model();
  for (const int c : order) {
    while (contents.num_uniform(c) > 0) {
      const int num_uniform = contents.num_uniform(c);
      const double largest = contents.largest_load();
      if (!contents.set_uniform(c, num_uniform - 1)) break;
      bool is_in = false;
      for (const int item : model.classes[c].items) {
        if (model.items[item].load > largest) continue;
        const Put put = put_parts(contents, item, model.items[item].num_parts);
        is_in = put.largest <= largest;
        if (is_in) break;
        take_back(contents, item, put);
      }
      if (is_in) continue;
      contents.set_uniform(c, num_uniform);
      break;
    }
  }
}

}  // namespace

ContentDive::ContentDive(const ContentModel& model, double room, int cells, double limit,
                         FillingPool& pool, SplitMix64& random, EffortClock& clock)
    : model_(model),
      limit_(limit),
      random_(random),
      clock_(clock),
      master_(model, room, cells, pool, clock) {}

bool ContentDive::is_hopeless() const {
  return model_.forced_load + master_.room() + master_.value() > limit_;
}

bool ContentDive::fill_hosts(Contents& contents, const std::vector<int>& hosts) {
  PLIMSOLL_DCHECK(std::all_of(hosts.begin(), hosts.end(),
                              [&](int host) { return contents.on_host(host).empty(); }),
                  "the hosts hold nothing");
  contents.free_uniform();
  for (std::size_t h = 0; h < hosts.size(); ++h) {
    const auto count = static_cast<int>(hosts.size() - h);
    master_.solve(contents, {{master_.cells(), count}}, true);
    if (clock_.is_stopped() || (h == 0 && is_hopeless())) return false;
    if (master_.uses().empty()) break;
    fill_host(contents, hosts[h]);
  }
  return true;
}

// One of the program's own fillings, drawn by the square of its use.
const Filling& ContentDive::draw_use() {
  const std::vector<ContentMaster::Use>& uses = master_.uses();
  double sum = 0;
  for (const ContentMaster::Use& use : uses) sum += use.amount * use.amount;
  double at = random_.unit() * sum;
  std::size_t drawn = 0;
  while (drawn + 1 < uses.size() && (at -= uses[drawn].amount * uses[drawn].amount) > 0) ++drawn;
  return uses[drawn].filling;
}

// The blocks of the best split at the prices, or those of the program: its fillings go together.
std::vector<math::KnapsackCount> ContentDive::choose_blocks(Contents& contents,
                                                            const std::vector<double>& factors) {
  if (random_.below(2) == 0) {
    std::vector<math::KnapsackCount> blocks;
    for (const math::KnapsackCount& count : draw_use().counts) {
      if (model_.items[count.item].is_block) blocks.push_back(count);
    }
    return blocks;
  }
  const int cells = master_.cells();
  math::KnapsackTable& blocks = master_.make_table(contents, true, factors);
  const math::KnapsackTable& pieces = master_.make_table(contents, false, factors);
  int best = 0;
  double best_worth = -1;
  for (int b = 0; b <= cells; ++b) {
    if (b > 0 && blocks.value(b) <= blocks.value(b - 1)) continue;
    const double worth = blocks.value(b) + model_.width * pieces.value(cells - b);
    if (worth > best_worth) best_worth = worth, best = b;
  }
  return master_.to_items(blocks.filling(best), true);
}

void ContentDive::fill_host(Contents& contents, int host) {
  std::vector<double> factors;
  for (std::size_t i = 0; i < model_.items.size(); ++i) {
    factors.push_back(1 + kNoise * (2 * random_.unit() - 1));
  }
  for (const math::KnapsackCount& count : choose_blocks(contents, factors)) {
    for (int i = 0; i < count.count; ++i) {
      if (contents.open_parts(count.item) == 0 || !contents.fits(count.item, host)) break;
      contents.put(count.item, host);
    }
  }
  std::vector<math::KnapsackCount> filling;
  const int first = host * model_.width;
  for (int rank = first; rank < first + model_.width; ++rank) {
    const bool is_open =
        rank > first &&
        std::all_of(filling.begin(), filling.end(), [&](const math::KnapsackCount& count) {
          return count.count <= contents.open_parts(count.item);
        });
    if (!is_open) {
      math::KnapsackTable& pieces = master_.make_table(contents, false, factors);
      filling = master_.to_items(pieces.filling(master_.room_cells(contents.load(rank))), false);
    }
    for (const math::KnapsackCount& count : filling) {
      for (int i = 0; i < count.count; ++i) {
        if (contents.open_parts(count.item) == 0 || !contents.fits(count.item, rank)) break;
        contents.put(count.item, rank);
      }
    }
  }
}

// On the rank with the least room that is enough; takes that one from `ranks`.
bool ContentDive::put_filling(Contents& contents, const Filling& filling, std::vector<int>& ranks) {
  std::size_t best = ranks.size();
  int least = master_.cells() + 1;
  for (std::size_t i = 0; i < ranks.size(); ++i) {
    const int room = master_.room_cells(contents.load(ranks[i]));
    if (room >= filling.cells && room < least) least = room, best = i;
  }
  if (best == ranks.size()) return false;
  const int rank = ranks[best];
  bool has_put = false;
  for (const math::KnapsackCount& count : filling.counts) {
    for (int i = 0; i < count.count; ++i) {
      if (contents.open_parts(count.item) == 0 || !contents.fits(count.item, rank)) break;
      contents.put(count.item, rank);
      has_put = true;
    }
  }
  if (has_put) ranks.erase(ranks.begin() + static_cast<std::ptrdiff_t>(best));
  return has_put;
}

bool ContentDive::fill_ranks(Contents& contents, const std::vector<int>& ranks) {
  PLIMSOLL_DCHECK(std::all_of(ranks.begin(), ranks.end(),
                              [&](int rank) { return contents.on_rank(rank).empty(); }),
                  "the ranks hold no pieces");
  contents.free_uniform();
  std::vector<int> empty = ranks;
  while (!empty.empty()) {
    std::vector<int> rooms;
    for (const int rank : empty) rooms.push_back(master_.room_cells(contents.load(rank)));
    std::sort(rooms.begin(), rooms.end());
    std::vector<Bins> bins;
    for (const int room : rooms) {
      if (bins.empty() || bins.back().cells != room) bins.push_back({room, 0});
      ++bins.back().count;
    }
    master_.solve(contents, bins, false);
    if (clock_.is_stopped() || (empty.size() == ranks.size() && is_hopeless())) return false;
    std::vector<ContentMaster::Use> uses = master_.uses();
    if (uses.empty()) break;
    std::stable_sort(uses.begin(), uses.end(),
                     [](const auto& a, const auto& b) { return a.amount > b.amount; });
    bool has_put = false;
    for (const ContentMaster::Use& use : uses) {
      const int times = static_cast<int>(use.amount + 1e-6);
      for (int i = 0; i < times; ++i) {
        const bool is_open = std::all_of(
            use.filling.counts.begin(), use.filling.counts.end(),
            [&](const math::KnapsackCount& c) { return c.count <= contents.open_parts(c.item); });
        if (!is_open || !put_filling(contents, use.filling, empty)) break;
        has_put = true;
      }
    }
    if (has_put) continue;
    if (!put_filling(contents, draw_use(), empty)) break;
  }
  return true;
}

bool ContentDive::finish(Contents& contents) {
  const ContentModel& model = contents.model();
  for (int i = 0; i < static_cast<int>(model.items.size()); ++i) {
    if (contents.owed(i) == 0) continue;
    // Parts owed go where they do no harm; else their unit starts again.
    const double largest = contents.largest_load();
    const int num_owed = contents.owed(i);
    const Put put = put_parts(contents, i, num_owed);
    if (put.largest <= largest) continue;
    take_back(contents, i, put);
    contents.give_up_owed(i);
  }
  // Those that are dear everywhere choose first; the cheap ones can be uniform.
  std::vector<int> order(model.classes.size());
  std::iota(order.begin(), order.end(), 0);
  std::stable_sort(order.begin(), order.end(), [&](int a, int b) {
    return model.classes[a].uniform_load[1] > model.classes[b].uniform_load[1];
  });
  for (const int c : order) {
    while (contents.left(c) > 0) {
      if (!place_unit(contents, c)) return false;
    }
  }
  pull_in_uniform(contents, order);
  return true;
}

}  // namespace plimsoll::balance
