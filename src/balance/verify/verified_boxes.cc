#include "balance/verify/verified_boxes.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <numeric>
#include <utility>

namespace plimsoll::balance {
namespace {

constexpr double kRoomSlack = 1e-9;  // relative: what fits may look a little too large
constexpr double kNaN = std::numeric_limits<double>::quiet_NaN();
constexpr std::size_t kMaxRooms = 8;

struct Content {
  std::vector<double> load;  // [barriers] ms, then bytes of the limits
  double value = 0;          // ms > 0
  std::int64_t copies = 0;
};

// The most that contents are worth within the room, by depth-first search: the best of what is
// left is bounded at prices of the rooms, of one barrier by a table of cells, of the others by what
// is left of them.
class MostSearch {
 public:
  MostSearch(std::vector<Content> contents, std::vector<double> room, std::int64_t max_steps,
             std::int64_t& num_steps)
      : contents_(std::move(contents)),
        room_(std::move(room)),
        max_steps_(max_steps),
        num_steps_(num_steps) {
    for (double& r : room_) r *= 1 + kRoomSlack;
    std::erase_if(contents_, [this](const Content& c) { return most_of(c, room_) == 0; });
  }

  double find() {
    choose_prices();
    make_tables();
    taken_.assign(contents_.size(), 0);
    descend(0, 0, room_);
    return std::max(best_, unsearched_);
  }

 private:
  static constexpr int kCells = 1500;
  static constexpr std::int64_t kMaxNodes = 100000;  // beyond them what is left counts as its bound

  static std::int64_t most_of(const Content& content, const std::vector<double>& room) {
    double most = static_cast<double>(content.copies);
    for (std::size_t b = 0; b < room.size(); ++b) {
      if (content.load[b] > 0) most = std::min(most, room[b] / content.load[b]);
    }
    return static_cast<std::int64_t>(most);
  }

  static double times(const std::vector<double>& a, const std::vector<double>& b) {
    return std::inner_product(a.begin(), a.end(), b.begin(), 0.0);
  }

  // Sorts by value per weighted load; the bound of one limit alone, and its price in `price`.
  double sort_by(const std::vector<double>& weight, std::vector<double>& price) {
    std::stable_sort(contents_.begin(), contents_.end(), [&](const Content& a, const Content& b) {
      return a.value * times(weight, b.load) > b.value * times(weight, a.load);
    });
    double left = times(weight, room_);
    double sum = 0;
    price.assign(room_.size(), 0);
    for (const Content& content : contents_) {
      const double load = times(weight, content.load);
      const auto most = static_cast<double>(most_of(content, room_));
      if (load * most > left) {
        for (std::size_t b = 0; b < weight.size(); ++b) {
          price[b] = weight[b] * content.value / load;
        }
        return sum + left * content.value / load;
      }
      left -= load * most;
      sum += content.value * most;
    }
    return sum;
  }

  // Weights of the barriers on a grid, those of the least bound.
  void choose_prices() {
    constexpr int kGrid = 16;
    double least = kInfinity;
    std::vector<double> best_weight, price;
    const auto attempt = [&](std::vector<double> weight) {
      for (std::size_t b = 0; b < weight.size(); ++b) {
        weight[b] = room_[b] > 0 ? weight[b] / room_[b] : 0;
      }
      const double bound = sort_by(weight, price);
      if (bound < least) least = bound, best_weight = std::move(weight);
    };
    if (room_.size() == 2) {
      for (int i = 0; i <= kGrid; ++i) {
        const double share = static_cast<double>(i) / kGrid;
        attempt({share, 1 - share});
      }
    } else {
      attempt_by_overload(attempt);
    }
    sort_by(best_weight, price_);
    weight_ = std::move(best_weight);
  }

  // Of more barriers: one that the fractional filling exceeds weighs more in the next round.
  template <class Attempt>
  void attempt_by_overload(const Attempt& attempt) {
    constexpr int kRounds = 20;
    std::vector<double> weight(room_.size(), 1);
    double step = 1;
    for (int round = 0; round < kRounds; ++round, step *= .8) {
      attempt(weight);
      std::vector<double> used(room_.size(), 0);
      double left = 1;  // of all weights together
      const double all = std::accumulate(weight.begin(), weight.end(), 0.0);
      for (const Content& content : contents_) {
        double share = 0;
        for (std::size_t b = 0; b < room_.size(); ++b) {
          if (room_[b] > 0) share += weight[b] * content.load[b] / room_[b] / all;
        }
        const auto most = static_cast<double>(most_of(content, room_));
        const double part = share * most > left ? left / share : most;
        left -= part * share;
        for (std::size_t b = 0; b < room_.size(); ++b) used[b] += part * content.load[b];
        if (part < most) break;
      }
      for (std::size_t b = 0; b < room_.size(); ++b) {
        if (room_[b] > 0) weight[b] *= std::max(1 + step * (used[b] / room_[b] - 1), .05);
      }
    }
  }

  void make_tables() {
    double least = kInfinity;
    for (std::size_t b = 0; b < room_.size(); ++b) {
      if (!(room_[b] > 0)) continue;
      std::vector<std::vector<double>> tables = tables_of(b);
      std::vector<double> others = price_;
      others[b] = 0;
      const double bound = tables.front().back() + times(others, room_);
      if (bound >= least) continue;
      least = bound;
      cells_of_ = b;
      tables_ = std::move(tables);
    }
    if (!tables_.empty()) price_[cells_of_] = 0;
  }

  // [contents + 1][cells + 1] what the contents from there on are worth less their price.
  std::vector<std::vector<double>> tables_of(std::size_t barrier) const {
    std::vector<std::vector<double>> tables(contents_.size() + 1,
                                            std::vector<double>(kCells + 1, 0));
    for (std::size_t at = contents_.size(); at-- > 0;) {
      std::vector<double>& table = tables[at];
      table = tables[at + 1];
      const Content& content = contents_[at];
      double value = content.value;
      for (std::size_t b = 0; b < room_.size(); ++b) {
        if (b != barrier) value -= price_[b] * content.load[b];
      }
      if (value <= 0) continue;
      const int size =
          static_cast<int>(content.load[barrier] / room_[barrier] * kCells * (1 - kRoomSlack));
      std::int64_t left = most_of(content, room_);
      for (std::int64_t some = 1; left > 0; some *= 2) {
        some = std::min(some, left);
        left -= some;
        const std::int64_t cells = some * size;
        for (std::int64_t x = kCells; x >= cells; --x) {
          table[x] = std::max(table[x], table[x - cells] + static_cast<double>(some) * value);
        }
      }
    }
    return tables;
  }

  // The lesser of two bounds: a fraction of the first content that does not fit the weighted limit,
  // and the table.
  double bound(std::size_t at, const std::vector<double>& left) const {
    return std::min(by_fraction(at, left), by_table(at, left));
  }

  double by_fraction(std::size_t at, const std::vector<double>& left) const {
    double room = times(weight_, left) * (1 + kRoomSlack);
    double sum = 0;
    for (std::size_t i = at; i < contents_.size(); ++i) {
      const double load = times(weight_, contents_[i].load);
      const auto most = static_cast<double>(most_of(contents_[i], left));
      if (load * most > room) return sum + std::max(room, 0.0) * contents_[i].value / load;
      room -= load * most;
      sum += most * contents_[i].value;
    }
    return sum;
  }

  double by_table(std::size_t at, const std::vector<double>& left) const {
    if (tables_.empty()) return kInfinity;
    const double share = left[cells_of_] / room_[cells_of_] * (1 + kRoomSlack);
    const int cells = std::clamp(static_cast<int>(share * kCells), 0, kCells);
    return tables_[at][static_cast<std::size_t>(cells)] + times(price_, left);
  }

  // Of no use while one that is worth as much and loads no more is left over.
  bool is_of_use(std::size_t at) const {
    for (std::size_t i = 0; i < at; ++i) {
      bool is_better = contents_[i].value >= contents_[at].value;
      for (std::size_t b = 0; b < room_.size(); ++b) {
        is_better &= contents_[i].load[b] <= contents_[at].load[b];
      }
      if (is_better && taken_[i] < contents_[i].copies) return false;
    }
    return true;
  }

  void descend(std::size_t at, double value, const std::vector<double>& left) {
    best_ = std::max(best_, value);
    if (at == contents_.size()) return;
    const double most = value + bound(at, left);
    if (most <= best_ * (1 + 1e-12)) return;
    if (++num_nodes_ > kMaxNodes || ++num_steps_ > max_steps_) {
      unsearched_ = std::max(unsearched_, most);
      return;
    }
    std::vector<double> rest(left.size());
    for (std::int64_t n = is_of_use(at) ? most_of(contents_[at], left) : 0; n >= 0; --n) {
      taken_[at] = n;
      const auto copies = static_cast<double>(n);
      for (std::size_t b = 0; b < left.size(); ++b) {
        rest[b] = std::max(left[b] - copies * contents_[at].load[b], 0.0);
      }
      descend(at + 1, value + copies * contents_[at].value, rest);
    }
    taken_[at] = 0;
  }

  std::vector<Content> contents_;
  std::vector<double> room_;
  std::vector<double> weight_;  // of the barriers, as one limit
  std::vector<double> price_;   // of what is left of each; 0 at the barrier of the tables
  std::size_t cells_of_ = 0;
  std::vector<std::vector<double>> tables_;
  std::vector<std::int64_t> taken_;
  std::int64_t max_steps_, num_nodes_ = 0;
  std::int64_t& num_steps_;
  double best_ = 0, unsearched_ = 0;
};

}  // namespace

bool VerifiedBoxes::fits_the_problem() {
  const auto is_class = [this](int c) { return c >= 0 && c < problem().num_units(); };
  const auto is_limit = [this](int resource) {
    return resource >= 0 && resource < problem().num_resources() &&
           !problem().resources[resource].is_pooled;
  };
  if (problem().num_rank_classes != 1 ||
      static_cast<std::size_t>(problem().num_barriers) + witness_.limits.size() > kMaxRooms ||
      !std::all_of(witness_.limits.begin(), witness_.limits.end(), is_limit) ||
      witness_.class_of_unit.size() != problem().units.size() || witness_.nodes.empty() ||
      !is_number(witness_.top) ||
      !std::all_of(witness_.class_of_unit.begin(), witness_.class_of_unit.end(), is_class)) {
    tell("the boxes do not fit the problem");
    return false;
  }
  return true;
}

double VerifiedBoxes::value() {
  if (!fits_the_problem()) return -kInfinity;
  proved_.assign(witness_.proofs.size(), kNaN);
  std::vector<double> top(static_cast<std::size_t>(problem().num_barriers), witness_.top);
  for (const int resource : witness_.limits) top.push_back(largest_cap(resource));
  std::vector<Box> open = {{0, std::vector<double>(top.size(), 0), top}};
  std::size_t num_visited = 0;
  double least = witness_.top;  // of placements beyond the first windows
  while (!open.empty()) {
    Box box = std::move(open.back());
    open.pop_back();
    const BoxNode& node = witness_.nodes[box.node];
    if (++num_visited > witness_.nodes.size()) {
      tell("boxes that do not form a tree");
      return -kInfinity;
    }
    if (node.first_child < 0) {
      if (node.proof < 0 || node.proof >= std::ssize(witness_.proofs) ||
          !is_proof(witness_.proofs[node.proof]) ||
          !std::equal(box.high.begin(), box.high.end(), witness_.proofs[node.proof].room.begin(),
                      [](double high, double room) { return high <= room; })) {
        tell("a box without its proof");
        return -kInfinity;
      }
      const auto limits = box.low.begin() + problem().num_barriers;
      const double low = std::accumulate(box.low.begin(), limits, 0.0);
      if (low < least) {
        const std::vector<double>& price = witness_.proofs[node.proof].uniform_price;
        const double kept = std::inner_product(limits, box.low.end(), price.begin(), 0.0);
        least = lesser(least, low + uniform_load(node.proof) + kept);
      }
      continue;
    }
    if (node.first_child <= box.node || node.first_child >= std::ssize(witness_.nodes) - 1 ||
        node.barrier < 0 || node.barrier >= std::ssize(box.low) || !is_number(node.split)) {
      tell("boxes that do not form a tree");
      return -kInfinity;
    }
    Box lower = box;
    lower.node = node.first_child;
    lower.high[node.barrier] = std::min(box.high[node.barrier], node.split);
    box.node = node.first_child + 1;
    box.low[node.barrier] = std::max(box.low[node.barrier], node.split);
    open.push_back(std::move(lower));
    open.push_back(std::move(box));
  }
  return least;
}

bool VerifiedBoxes::is_proof(const BoxProof& proof) {
  const auto are_numbers = [](const std::vector<double>& values) {
    return std::all_of(values.begin(), values.end(), [](double x) { return is_number(x); });
  };
  const int last_class =
      *std::max_element(witness_.class_of_unit.begin(), witness_.class_of_unit.end());
  return proof.room.size() ==
             static_cast<std::size_t>(problem().num_barriers) + witness_.limits.size() &&
         proof.uniform_price.size() == witness_.limits.size() &&
         std::ssize(proof.value) > last_class &&
         proof.price.size() <= static_cast<std::size_t>(problem().num_resources()) &&
         are_numbers(proof.room) && are_numbers(proof.value) && are_numbers(proof.price) &&
         are_numbers(proof.uniform_price);
}

// Of all its runs, at every barrier.
std::vector<double> VerifiedBoxes::least_load(const UnitChoice& choice) const {
  std::vector<double> least = choice.runs.front().load;
  for (const PieceRun& run : choice.runs) {
    for (std::size_t b = 0; b < least.size(); ++b) least[b] = std::min(least[b], run.load[b]);
  }
  return least;
}

// Of all its runs, of the limits.
Amounts VerifiedBoxes::least_bytes(const UnitChoice& choice) const {
  Amounts least = choice.runs.front().bytes;
  for (const PieceRun& run : choice.runs) {
    for (const int r : witness_.limits) least[r] = std::min(least[r], run.bytes[r]);
  }
  return least;
}

double VerifiedBoxes::largest_cap(int resource) const {
  Bytes most = 0;
  for (const Amounts& cap : problem().caps) most = std::max(most, cap[resource]);
  return static_cast<double>(most);
}

double VerifiedBoxes::bytes_cost(const PieceRun& run, const BoxProof& proof) const {
  double sum = 0;
  for (std::size_t r = 0; r < proof.price.size(); ++r) {
    sum += proof.price[r] * static_cast<double>(run.bytes[r]);
  }
  return sum;
}

double VerifiedBoxes::worth_of(int unit, const BoxProof& proof) const {
  return proof.value[static_cast<std::size_t>(witness_.class_of_unit[unit])];
}

// What a unit adds at least: its worth, or the load and bytes of a uniform choice.
double VerifiedBoxes::least_of(int unit, const BoxProof& proof) const {
  double least = kInfinity;
  for (std::size_t c = 0; c < problem().units[unit].choices.size(); ++c) {
    if (!choices_.is_alive(unit, c)) continue;
    const UnitChoice& choice = choices_.choice_at(unit, c);
    if (choice.spread != Spread::kUniform) {
      least = std::min(least, worth_of(unit, proof));
      continue;
    }
    const std::vector<double> load = least_load(choice);
    double cost = std::accumulate(load.begin(), load.end(), 0.0);
    for (const PieceRun& run : choice.runs) {
      cost += static_cast<double>(run.count) * bytes_cost(run, proof);
    }
    const Amounts bytes = least_bytes(choice);
    for (std::size_t l = 0; l < witness_.limits.size(); ++l) {
      cost += proof.uniform_price[l] * static_cast<double>(bytes[witness_.limits[l]]);
    }
    least = std::min(least, cost);
  }
  return least;
}

double VerifiedBoxes::uniform_load(int number) {
  double& proved = proved_[static_cast<std::size_t>(number)];
  if (!std::isnan(proved)) return proved;
  const BoxProof& proof = witness_.proofs[static_cast<std::size_t>(number)];
  double sum = 0;
  for (int unit = 0; unit < problem().num_units(); ++unit) sum += least_of(unit, proof);
  if (sum == kInfinity) return proved = sum;
  double held = problem().num_ranks * most_on_rank(proof);
  for (std::size_t r = 0; r < proof.price.size(); ++r) {
    for (const Amounts& cap : problem().caps) held += proof.price[r] * static_cast<double>(cap[r]);
  }
  for (std::size_t l = 0; l < witness_.limits.size(); ++l) {
    held += proof.uniform_price[l] * largest_cap(witness_.limits[l]);
  }
  proved = sum - held - rounding_of(sum + held, problem().num_units() + problem().num_ranks);
  return proved;
}

// A block is worth the same on every rank of its host.
double VerifiedBoxes::most_on_rank(const BoxProof& proof) {
  const auto with_limits = [&](std::vector<double> load, const Amounts& bytes) {
    for (const int resource : witness_.limits) {
      load.push_back(static_cast<double>(bytes[resource]));
    }
    return load;
  };
  std::map<std::pair<std::vector<double>, double>, std::int64_t> found;
  for (int unit = 0; unit < problem().num_units(); ++unit) {
    for (std::size_t c = 0; c < problem().units[unit].choices.size(); ++c) {
      const UnitChoice& choice = choices_.choice_at(unit, c);
      if (!choices_.is_alive(unit, c) || choice.spread == Spread::kUniform) continue;
      if (choice.spread == Spread::kHost) {
        double bytes = 0;
        for (const PieceRun& run : choice.runs) {
          bytes += static_cast<double>(run.count) * bytes_cost(run, proof);
        }
        const double value = worth_of(unit, proof) / static_cast<double>(choice.num_blocks) - bytes;
        if (value > 0) {
          found[{with_limits(least_load(choice), least_bytes(choice)),
                 value / problem().ranks_per_host}] += choice.num_blocks;
        }
        continue;
      }
      std::int64_t pieces = 0;
      for (const PieceRun& run : choice.runs) pieces += run.count;
      for (const PieceRun& run : choice.runs) {
        const double value =
            worth_of(unit, proof) / static_cast<double>(pieces) - bytes_cost(run, proof);
        if (value > 0) found[{with_limits(run.load, run.bytes), value}] += run.count;
      }
    }
  }
  std::vector<Content> contents;
  for (const auto& [key, copies] : found) contents.push_back({key.first, key.second, copies});
  return MostSearch(std::move(contents), proof.room, max_steps_, num_steps_).find();
}

}  // namespace plimsoll::balance
