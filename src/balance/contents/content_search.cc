#include "balance/contents/content_search.h"

#include <algorithm>
#include <numeric>

namespace plimsoll::balance {
namespace {

constexpr std::size_t kPoolSize = 5;
constexpr double kSlack = 1 + 1e-12;
constexpr double kGood = 1.01;  // of the best: neighbourhoods of worse plans are not worth a dive

class ContentSearch {
 public:
  ContentSearch(const ContentModel& model, const ContentSearchOptions& options, EffortClock& clock,
                const std::function<void(const UnitPlacements&)>& offer)
      : model_(model),
        options_(options),
        clock_(clock),
        offer_(offer),
        random_(options.seed),
        best_(options.incumbent),
        first_effort_(clock.effort()) {
    for (const ContentItem& item : model.items) has_blocks_ |= item.is_block;
    double parts = 0;
    for (const ContentClass& c : model.classes) parts += c.count();
    cells_ = static_cast<int>(std::clamp(100 * parts / model.num_ranks, 1000.0, 2000.0));
    all_ranks_.resize(static_cast<std::size_t>(model.num_ranks));
    std::iota(all_ranks_.begin(), all_ranks_.end(), 0);
    all_hosts_.resize(static_cast<std::size_t>(model.num_hosts));
    std::iota(all_hosts_.begin(), all_hosts_.end(), 0);
  }

  void run(const UnitPlacements* start) {
    if (start != nullptr) {
      if (std::optional<Contents> contents = Contents::from(model_, *start)) keep(*contents);
    }
    find_rooms();
    constexpr int kLeastDives = 6;
    for (int i = 0; !is_done() && (i < kLeastDives || spent() < options_.max_effort / 4); ++i) {
      dive_afresh(i);
    }
    for (int i = kLeastDives; !is_done(); ++i) {
      if (pool_.empty() || random_.below(12) == 0) {
        dive_afresh(i);
      } else {
        dive_nearby();
      }
    }
  }

 private:
  std::int64_t spent() const { return clock_.effort() - first_effort_; }
  bool is_done() const {
    return clock_.is_stopped() || spent() >= options_.max_effort ||
           best_ <= options_.lower_bound * (1 + options_.tolerance);
  }

  void keep(const Contents& contents) {
    const double objective = contents.objective();
    if (objective < best_ * (1 - 1e-12)) {
      best_ = objective;
      offer_(contents.placements());
    }
    const auto worse = std::find_if(pool_.begin(), pool_.end(), [&](const Contents& other) {
      return objective <= other.objective() * kSlack;
    });
    if (worse != pool_.end() && worse->objective() <= objective * kSlack) return;
    pool_.insert(worse, contents);
    if (pool_.size() > kPoolSize) pool_.pop_back();
  }

  // Few cells make quick dives, many fill what they find.
  int draw_cells() { return cells_ << random_.below(3); }

  // What the linear program for all ranks at once makes of a room.
  double value_at(double room) {
    ContentMaster master(model_, room, 2 * cells_, fillings_, clock_);
    const Contents nothing(model_);
    master.solve(nothing, {{2 * cells_, has_blocks_ ? model_.num_hosts : model_.num_ranks}},
                 has_blocks_);
    return model_.forced_load + room + master.value();
  }

  // Rooms where uniform load and slowest rank together may be least, best first.
  void find_rooms() {
    constexpr int kCoarse = 16, kFine = 8;
    constexpr std::size_t kRooms = 4;
    const double top = best_ < kInfinity ? best_ - model_.forced_load : 1.2 * options_.room;
    const std::int64_t most = options_.max_effort / 8;
    const auto ask = [&](double room) {
      if (room > 0 && !clock_.is_stopped() && spent() < most) {
        rooms_.emplace_back(value_at(room), room);
      }
    };
    ask(std::min(options_.room, top));
    for (int i = 0; i < kCoarse; ++i) ask(top * (1 - 0.4 * i / kCoarse));
    std::sort(rooms_.begin(), rooms_.end());
    if (!rooms_.empty()) {
      const double middle = rooms_.front().second;
      for (int i = 1; i <= kFine; ++i) {
        ask(middle + top * 0.025 * i / kFine);
        ask(middle - top * 0.025 * i / kFine);
      }
    }
    std::sort(rooms_.begin(), rooms_.end());
    const auto worse = std::find_if(rooms_.begin(), rooms_.end(), [&](const auto& room) {
      return room.first > kGood * rooms_.front().first;
    });
    rooms_.erase(worse, rooms_.end());
    if (rooms_.size() > kRooms) rooms_.resize(kRooms);
    if (rooms_.empty()) rooms_.emplace_back(0, options_.room);
  }

  // A little above where the program is best, around the best plan's, or the one asked for.
  double draw_room(int number) {
    const double draw = random_.unit();
    if (number % 4 == 3) return options_.room * (0.4 + 0.6 * draw);
    if (number % 4 == 1 && !pool_.empty()) {
      return std::max(pool_.front().largest_load() * (0.99 + 0.012 * draw), 1e-6 * options_.room);
    }
    const int which = number % 4 == 0 ? 0 : random_.below(static_cast<int>(rooms_.size()));
    return rooms_[which].second * (0.999 + 0.016 * draw);
  }

  void dive_afresh(int number) {
    clock_.spend(1);
    const double room = draw_room(number);
    ContentDive dive(model_, room, draw_cells(), best_ * 1.01, fillings_, random_, clock_);
    Contents contents(model_);
    if (has_blocks_ && number % 3 != 2) {
      if (!dive.fill_hosts(contents, all_hosts_)) return;
      if (number % 3 == 1) {
        for (const int rank : all_ranks_) contents.clear_rank(rank);
        if (!dive.fill_ranks(contents, all_ranks_)) return;
      }
    } else if (!dive.fill_ranks(contents, all_ranks_)) {
      return;
    }
    if (ContentDive::finish(contents)) keep(contents);
  }

  std::vector<int> draw_hosts(const Contents& contents) {
    int fullest = 0;
    double most = -1;
    for (int rank = 0; rank < model_.num_hosts * model_.width; ++rank) {
      if (contents.load(rank) > most) most = contents.load(rank), fullest = rank / model_.width;
    }
    std::vector<int> hosts = {fullest};
    for (int more = random_.below(3); more > 0; --more) {
      const int host = random_.below(model_.num_hosts);
      if (std::find(hosts.begin(), hosts.end(), host) == hosts.end()) hosts.push_back(host);
    }
    return hosts;
  }

  // A little less than now, or once in a while what the program likes.
  double draw_room_near(double now) {
    const double draw = random_.unit();
    if (random_.below(5) == 0) {
      const int which = random_.below(static_cast<int>(rooms_.size()));
      return rooms_[which].second * (0.999 + 0.01 * draw);
    }
    return std::max(now * (1 - 0.004 * draw), 1e-6 * options_.room);
  }

  void dive_nearby() {
    clock_.spend(1);
    const bool takes_best = random_.below(2) == 0;
    int num_good = 1;
    while (num_good < static_cast<int>(pool_.size()) &&
           pool_[num_good].objective() <= kGood * pool_.front().objective()) {
      ++num_good;
    }
    const auto number = takes_best ? 0 : static_cast<std::size_t>(random_.below(num_good));
    const double objective = pool_[number].objective();
    Contents contents = pool_[number];
    const double room = draw_room_near(contents.largest_load());
    ContentDive dive(model_, room, draw_cells(), objective * 1.0005, fillings_, random_, clock_);
    if (has_blocks_ && random_.below(3) == 0) {
      const std::vector<int> hosts = draw_hosts(contents);
      for (const int host : hosts) {
        contents.clear_host(host);
        for (int r = host * model_.width; r < (host + 1) * model_.width; ++r) {
          contents.clear_rank(r);
        }
      }
      if (!dive.fill_hosts(contents, hosts)) return;
    } else {
      const double share = 0.15 + 0.85 * random_.unit();
      std::vector<int> ranks;
      for (const int rank : all_ranks_) {
        const bool is_drawn = random_.unit() < share;
        if (is_drawn || contents.load(rank) > room) ranks.push_back(rank);
      }
      for (const int rank : ranks) contents.clear_rank(rank);
      if (!dive.fill_ranks(contents, ranks)) return;
    }
    if (!ContentDive::finish(contents) || contents.objective() > objective * kSlack) return;
    const bool is_better = contents.objective() < best_ * (1 - 1e-12);
    if (is_better) {
      best_ = contents.objective();
      offer_(contents.placements());
    }
    pool_[number] = std::move(contents);
    std::stable_sort(pool_.begin(), pool_.end(), [](const Contents& a, const Contents& b) {
      return a.objective() < b.objective();
    });
  }

  const ContentModel& model_;
  const ContentSearchOptions& options_;
  EffortClock& clock_;
  const std::function<void(const UnitPlacements&)>& offer_;
  SplitMix64 random_;
  double best_;
  std::int64_t first_effort_;
  bool has_blocks_ = false;
  int cells_ = 2000;
  std::vector<int> all_ranks_, all_hosts_;
  FillingPool fillings_;
  std::vector<std::pair<double, double>> rooms_;  // value of the program, room
  std::vector<Contents> pool_;                    // ascending objective
};

}  // namespace

void search_contents(const ContentModel& model, const UnitPlacements* start,
                     const ContentSearchOptions& options, EffortClock& clock,
                     const std::function<void(const UnitPlacements&)>& offer) {
  ContentSearch(model, options, clock, offer).run(start);
}

}  // namespace plimsoll::balance
