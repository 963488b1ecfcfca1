#include "experts/search/kept_ranks.h"

#include <algorithm>
#include <cstdint>
#include <utility>

namespace plimsoll::experts {
namespace {

struct Pair {
  std::int64_t kept = 0;
  int from = 0, to = 0;
};

// A partner for each of `count`, the pairs first that keep most.
struct Matching {
  std::vector<int> to;
  std::int64_t kept = 0;
};
Matching match(std::vector<Pair> pairs, int count) {
  std::stable_sort(pairs.begin(), pairs.end(),
                   [](const Pair& a, const Pair& b) { return a.kept > b.kept; });
  Matching matching{std::vector<int>(static_cast<std::size_t>(count), -1)};
  std::vector<bool> is_taken(static_cast<std::size_t>(count), false);
  for (const Pair& pair : pairs) {
    if (matching.to[pair.from] >= 0 || is_taken[pair.to]) continue;
    matching.to[pair.from] = pair.to;
    matching.kept += pair.kept;
    is_taken[pair.to] = true;
  }
  return matching;
}

class Renaming {
 public:
  Renaming(const ExpertModel& model, const std::vector<int>& slots, const std::vector<int>& before,
           int before_width)
      : slots_(slots),
        before_(before),
        width_(model.slots_a_rank()),
        before_width_(before_width),
        ranks_a_host_(model.keeps_groups() ? model.num_ranks / model.num_hosts : model.num_ranks),
        num_hosts_(model.num_ranks / ranks_a_host_) {}

  std::vector<int> run() const {
    std::vector<Pair> hosts;
    std::vector<Matching> ranks;  // [hosts * hosts]
    for (int host = 0; host < num_hosts_; ++host) {
      for (int to = 0; to < num_hosts_; ++to) {
        ranks.push_back(match_ranks(host, to));
        hosts.push_back({ranks.back().kept, host, to});
      }
    }
    const Matching host_names = match(std::move(hosts), num_hosts_);
    std::vector<int> renamed(slots_.size());
    for (int host = 0; host < num_hosts_; ++host) {
      const int to = host_names.to[host];
      const Matching& names = ranks[at(host, to)];
      for (int i = 0; i < ranks_a_host_; ++i) {
        const auto first = slots_.begin() + first_slot(host * ranks_a_host_ + i, width_);
        std::copy(first, first + width_,
                  renamed.begin() + first_slot(to * ranks_a_host_ + names.to[i], width_));
      }
    }
    return renamed;
  }

 private:
  // Of a pair of hosts.
  std::size_t at(int host, int as) const {
    return static_cast<std::size_t>(host) * static_cast<std::size_t>(num_hosts_) +
           static_cast<std::size_t>(as);
  }
  static std::ptrdiff_t first_slot(int rank, int width) { return std::ptrdiff_t{rank} * width; }

  // The ranks of a host as those of another one.
  Matching match_ranks(int host, int as) const {
    std::vector<Pair> pairs;
    for (int i = 0; i < ranks_a_host_; ++i) {
      for (int j = 0; j < ranks_a_host_; ++j) {
        pairs.push_back({kept(host * ranks_a_host_ + i, as * ranks_a_host_ + j), i, j});
      }
    }
    return match(std::move(pairs), ranks_a_host_);
  }

  std::int64_t kept(int rank, int as) const {
    const auto own = slots_.begin() + first_slot(rank, width_);
    const auto begin = std::min(first_slot(as, before_width_), std::ssize(before_));
    const auto end = std::min(begin + before_width_, std::ssize(before_));
    const std::vector<int> held(before_.begin() + begin, before_.begin() + end);
    return width_ - count_moved(held, before_width_, {own, own + width_}, width_);
  }

  const std::vector<int>& slots_;
  const std::vector<int>& before_;
  int width_, before_width_;
  int ranks_a_host_, num_hosts_;
};

}  // namespace

std::vector<int> rename_ranks(const ExpertModel& model, const std::vector<int>& slots,
                              const std::vector<int>& before, int before_width) {
  return Renaming(model, slots, before, before_width).run();
}

std::vector<int> keep_on_ranks(const ExpertModel& model, int layer, const std::vector<int>& before,
                               int before_width) {
  const std::vector<double>& loads = model.loads[static_cast<std::size_t>(layer)];
  const auto width = static_cast<std::size_t>(model.slots_a_rank());
  std::vector<int> slots(static_cast<std::size_t>(model.num_slots), -1);
  std::vector<int> count(loads.size(), 0);
  for (std::size_t s = 0; s < before.size(); ++s) {
    const std::size_t rank = s / static_cast<std::size_t>(before_width);
    const std::size_t at = s % static_cast<std::size_t>(before_width);
    if (rank >= static_cast<std::size_t>(model.num_ranks) || at >= width) continue;
    slots[rank * width + at] = before[s];
    ++count[before[s]];
  }
  for (std::size_t expert = 0; expert < loads.size(); ++expert) {
    if (count[expert] > 0) continue;
    auto slot = std::find(slots.begin(), slots.end(), -1);
    if (slot == slots.end()) {
      slot = std::max_element(slots.begin(), slots.end(),
                              [&](int a, int b) { return count[a] < count[b]; });
      --count[*slot];
    }
    *slot = static_cast<int>(expert);
    ++count[expert];
  }
  for (int& slot : slots) {
    if (slot >= 0) continue;
    std::size_t most = 0;
    for (std::size_t e = 1; e < loads.size(); ++e) {
      if (loads[e] / count[e] > loads[most] / count[most]) most = e;
    }
    slot = static_cast<int>(most);
    ++count[most];
  }
  return slots;
}

}  // namespace plimsoll::experts
