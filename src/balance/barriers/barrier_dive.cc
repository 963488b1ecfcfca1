#include "balance/barriers/barrier_dive.h"

#include <algorithm>
#include <cstddef>
#include <numeric>
#include <utility>

namespace plimsoll::balance {
namespace {

constexpr std::int64_t kMaxPricings = 60;  // of each program
constexpr std::int64_t kMaxNodes = 2000;   // of each knapsack
constexpr double kWhole = 1e-6;
constexpr int kMaxPrograms = 120;

class Dive {
 public:
  Dive(const BarrierModel& model, int num_units, const std::vector<double>& room,
       const BarrierAnswer& answer, double share, EffortClock& clock)
      : model_(&model),
        clock_(&clock),
        room_(room),
        share_(share),
        load_(static_cast<std::size_t>(model.num_ranks), std::vector<double>(room.size(), 0)),
        bytes_(static_cast<std::size_t>(model.num_ranks)),
        uniform_bytes_(uniform_bytes(model, answer)),
        program_(model, program_options()),
        left_(model.classes.size()) {
    placements_.units.resize(static_cast<std::size_t>(num_units));
    for (std::size_t c = 0; c < model.classes.size(); ++c) {
      left_[c] = model.classes[c].units;
    }
  }

  std::optional<UnitPlacements> run() {
    if (!model_->has_blocks) close_hosts(model_->num_hosts());
    for (int i = 0;
         i < kMaxPrograms && (num_closed_ < model_->num_hosts() || !empty_.empty()) && has_units();
         ++i) {
      if (!fill_some() || clock_->is_stopped()) break;
    }
    if (clock_->is_stopped() || !(finish() < kInfinity)) return std::nullopt;
    return std::move(placements_);
  }

 private:
  // What a program says of all that is open.
  struct Filling {
    BarrierAnswer answer;
    std::vector<std::vector<int>> ranks;  // [bins] empty ones; none of open hosts
  };

  BarrierProgramOptions program_options() const {
    BarrierProgramOptions options;
    options.penalty = 20 * (room_.front() + room_.back());
    options.tolerance = 1e-4 * room_.front();
    options.limits = model_->rows;
    options.max_nodes = kMaxNodes;
    return options;
  }

  bool has_units() const {
    return std::any_of(left_.begin(), left_.end(),
                       [](const std::vector<int>& units) { return !units.empty(); });
  }

  int take_unit(int class_index) {
    const int unit = left_[class_index].back();
    left_[class_index].pop_back();
    return unit;
  }

  void put(int rank, const BarrierItem& item) {
    const int unit = take_unit(item.class_index);
    placements_.units[unit] = {item.choice, {rank}};
    load_rank(rank, item);
  }

  void load_rank(int rank, const BarrierItem& item) {
    for (std::size_t b = 0; b < room_.size(); ++b) load_[rank][b] += item.load[b];
    bytes_[rank].add(item.bytes, 1);
  }

  // No block comes to the next hosts any more; their ranks are to be filled.
  void close_hosts(int count) {
    const int end = std::min(num_closed_ + count, model_->num_hosts());
    for (int rank = num_closed_ * model_->width; rank < end * model_->width; ++rank) {
      empty_.push_back(rank);
    }
    num_closed_ = end;
  }

  // What blocks and the expected uniform units leave of a rank, for the program.
  std::vector<double> room_of(int rank) const {
    std::vector<double> room = room_;
    for (std::size_t b = 0; b < room_.size(); ++b) {
      room[b] = std::max(room[b] - load_[rank][b], 0.0);
    }
    for (const int row : model_->rows) {
      const Bytes left = model_->cap[row] - bytes_[rank][row] - uniform_bytes_[row];
      room.push_back(share_ * static_cast<double>(std::max<Bytes>(left, 0)));
    }
    return room;
  }

  // `keeps_uniform`: uniform units take no more than is expected.
  Filling find_filling(bool keeps_uniform) {
    BarrierDemand demand;
    Filling filling;
    for (const std::vector<int>& units : left_) {
      demand.count.push_back(static_cast<double>(units.size()));
    }
    if (const int num_open = model_->num_hosts() - num_closed_; num_open > 0) {
      demand.bins.push_back(
          {static_cast<double>(num_open), model_->width, room_of(num_closed_ * model_->width)});
      filling.ranks.emplace_back();
    }
    const std::size_t first = demand.bins.size();
    for (const int rank : empty_) {
      std::vector<double> room = room_of(rank);
      std::size_t b = first;
      while (b < demand.bins.size() && demand.bins[b].room != room) ++b;
      if (b == demand.bins.size()) {
        demand.bins.push_back({0, 1, std::move(room), false});
        filling.ranks.emplace_back();
      }
      ++demand.bins[b].count;
      filling.ranks[b].push_back(rank);
    }
    for (const int row : model_->rows) {
      demand.uniform_share.push_back(keeps_uniform ? static_cast<double>(uniform_bytes_[row]) /
                                                         static_cast<double>(model_->cap[row])
                                                   : 1);
    }
    filling.answer = program_.solve(demand, kInfinity, kMaxPricings, *clock_);
    return filling;
  }

  // Where units find no place, more uniform ones are expected, as long as that helps.
  Filling find_filling_beside_uniform() {
    constexpr int kMaxRaises = 3;
    Filling filling = find_filling(true);
    for (int i = 0; i < kMaxRaises && filling.answer.missed > kWhole; ++i) {
      const Amounts before = uniform_bytes_;
      const Amounts bytes = uniform_bytes(*model_, find_filling(false).answer);
      for (const int row : model_->rows) {
        uniform_bytes_[row] = std::max(uniform_bytes_[row], bytes[row]);
      }
      if (uniform_bytes_ == before) break;
      Filling other = find_filling(true);
      if (other.answer.missed >= filling.answer.missed) {
        uniform_bytes_ = before;
        break;
      }
      filling = std::move(other);
    }
    return filling;
  }

  // Closes hosts, or, where none is open, fills ranks.
  bool fill_some() {
    Filling filling = find_filling_beside_uniform();
    const BarrierAnswer& answer = filling.answer;
    const bool are_hosts = num_closed_ < model_->num_hosts();
    int most = -1;
    for (int p = 0; p < std::ssize(answer.patterns); ++p) {
      if (are_hosts && answer.patterns[p].bin != 0) continue;
      if (most < 0 || answer.amounts[p] > answer.amounts[most]) most = p;
    }
    if (most < 0) {
      close_hosts(model_->num_hosts());
      return are_hosts;
    }
    for (int p = 0; p < std::ssize(answer.patterns); ++p) {
      const BarrierPattern& pattern = answer.patterns[p];
      if (are_hosts ? pattern.bin != 0 : p != most) continue;
      auto times = static_cast<std::int64_t>(answer.amounts[p] + kWhole);
      if (p == most) times = std::max<std::int64_t>(times, 1);
      for (; are_hosts && times > 0; --times) put_blocks(pattern);
      std::vector<int>& ranks = filling.ranks[pattern.bin];
      for (; times > 0 && !ranks.empty(); --times) {
        fill(ranks.back(), pattern);
        ranks.pop_back();
      }
    }
    if (are_hosts) return true;
    empty_.clear();
    for (const std::vector<int>& of_bin : filling.ranks) {
      empty_.insert(empty_.end(), of_bin.begin(), of_bin.end());
    }
    std::sort(empty_.begin(), empty_.end());
    return true;
  }

  // On the next host.
  void put_blocks(const BarrierPattern& pattern) {
    const int host = num_closed_;
    if (host == model_->num_hosts()) return;
    for (std::size_t i = 0; i < pattern.count.size(); ++i) {
      const BarrierItem& item = model_->items[i];
      if (!item.is_block || item.parts > 1) continue;
      for (std::int64_t n = 0; n < pattern.count[i] && !left_[item.class_index].empty(); ++n) {
        placements_.units[take_unit(item.class_index)] = {item.choice, {host}};
        for (int r = 0; r < model_->width; ++r) load_rank(host * model_->width + r, item);
      }
    }
    close_hosts(1);
  }

  void fill(int rank, const BarrierPattern& pattern) {
    for (std::size_t i = 0; i < pattern.count.size(); ++i) {
      const BarrierItem& item = model_->items[i];
      if (item.parts > 1) continue;
      for (std::int64_t n = 0; n < pattern.count[i] && !left_[item.class_index].empty(); ++n) {
        put(rank, item);
      }
    }
  }

  bool fits(int rank, const BarrierItem& item) const {
    return std::all_of(model_->rows.begin(), model_->rows.end(), [&](int row) {
      return bytes_[rank][row] + item.bytes[row] + uniform_bytes_[row] <= model_->cap[row];
    });
  }

  // How much slower the slowest ranks are with the item on this one.
  double growth(int rank, const BarrierItem& item, const std::vector<double>& slowest) const {
    double sum = 0;
    for (std::size_t b = 0; b < slowest.size(); ++b) {
      sum += std::max(load_[rank][b] + item.load[b] - slowest[b], 0.0);
    }
    return sum;
  }

  // What is left goes where it costs least, or on ranks wherever it may: one more piece on the
  // slowest rank costs much, but makes place for others beside it.
  double finish() {
    Dive other = *this;
    const double cost = place_all_left(false), other_cost = other.place_all_left(true);
    if (other_cost < cost) placements_ = std::move(other.placements_);
    return std::min(cost, other_cost);
  }

  // What it costs, with the slowest ranks; infinite where a unit fits nowhere.
  double place_all_left(bool prefers_ranks) {
    std::vector<double> slowest(room_.size(), 0);
    for (const std::vector<double>& load : load_) {
      for (std::size_t b = 0; b < slowest.size(); ++b) slowest[b] = std::max(slowest[b], load[b]);
    }
    double uniform = 0;
    for (std::size_t c = 0; c < left_.size(); ++c) {
      while (!left_[c].empty()) {
        if (!place_left(static_cast<int>(c), prefers_ranks, slowest, uniform)) return kInfinity;
      }
    }
    return std::accumulate(slowest.begin(), slowest.end(), uniform) * (1 + overdraft());
  }

  // What some rank holds too much of its cap, as a share.
  double overdraft() const {
    double most = 0;
    for (const Amounts& bytes : bytes_) {
      for (const int row : model_->rows) {
        const auto held = static_cast<double>(bytes[row] + uniform_taken_[row]);
        most = std::max(most, held / static_cast<double>(model_->cap[row]) - 1);
      }
    }
    return most;
  }

  bool place_left(int class_index, bool prefers_ranks, std::vector<double>& slowest,
                  double& uniform) {
    const BarrierStep* best_step = nullptr;
    for (const BarrierStep& step : model_->steps) {
      if (step.class_index != class_index) continue;
      if (best_step == nullptr || step.cost < best_step->cost) best_step = &step;
    }
    double least = best_step == nullptr || prefers_ranks ? kInfinity : best_step->cost;
    // A unit that is cheap everywhere is not worth a place.
    constexpr double kCheap = 1e-3;
    if (best_step != nullptr && best_step->cost < kCheap * (room_.front() + room_.back()))
      least = 0;
    int best_rank = -1;
    const BarrierItem* best_item = nullptr;
    for (const BarrierItem& item : model_->items) {
      if (item.class_index != class_index || item.is_block || item.parts > 1) continue;
      for (int rank = 0; rank < model_->num_ranks; ++rank) {
        const double cost = growth(rank, item, slowest);
        if (cost >= least || !fits(rank, item)) continue;
        least = cost;
        best_rank = rank;
        best_item = &item;
      }
    }
    if (best_item == nullptr) {
      if (best_step == nullptr) return false;
      const int unit = take_unit(class_index);
      placements_.units[unit] = {best_step->choice,
                                 std::vector<int>(static_cast<std::size_t>(best_step->blocks), 0)};
      uniform += best_step->cost;
      uniform_taken_.add(best_step->bytes, 1);
      return true;
    }
    put(best_rank, *best_item);
    for (std::size_t b = 0; b < slowest.size(); ++b) {
      slowest[b] = std::max(slowest[b], load_[best_rank][b]);
    }
    return true;
  }

  const BarrierModel* model_;
  EffortClock* clock_;
  std::vector<double> room_;
  double share_;
  std::vector<std::vector<double>> load_;  // [ranks][barriers] of pieces and blocks
  std::vector<Amounts> bytes_;             // [ranks] of them
  Amounts uniform_bytes_;                  // of a rank, as the program expects them
  Amounts uniform_taken_{};                // of a rank, by units that were left
  BarrierProgram program_;
  std::vector<std::vector<int>> left_;  // [classes] units
  int num_closed_ = 0;                  // hosts, from the first on, that take no more blocks
  std::vector<int> empty_;              // their ranks without pieces
  UnitPlacements placements_;
};

}  // namespace

std::optional<UnitPlacements> dive_by_barriers(const BarrierModel& model, int num_units,
                                               const std::vector<double>& room,
                                               const BarrierAnswer& answer, double share,
                                               EffortClock& clock) {
  return Dive(model, num_units, room, answer, share, clock).run();
}

}  // namespace plimsoll::balance
