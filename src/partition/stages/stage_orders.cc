#include "partition/stages/stage_orders.h"

namespace plimsoll::partition {
namespace {

constexpr std::uint64_t kStageKeys = 8;
constexpr int kNumSpreads = 6;  // 1, 2, ... 32 keys: from within a stage to four of them

}  // namespace

void StageOrders::add_next(int num_orders, const std::vector<int>& stage_of, Downsets& prefixes) {
  const int step = groups_.num_groups() / max_prefixes_ + 1;
  std::vector<std::uint64_t> keys(groups_.nodes.size());
  for (int i = 0; i < num_orders; ++i, ++num_made_) {
    const std::uint64_t spread = std::uint64_t{1} << (num_made_ % kNumSpreads);
    for (std::size_t g = 0; g < keys.size(); ++g) {
      const auto stage = stage_of.empty() ? 0 : static_cast<std::uint64_t>(stage_of[g]);
      keys[g] = kStageKeys * stage + (random_.next() >> 32) % spread;
      if (num_made_ == 0) keys[g] = 0;
      if (num_made_ == 1) keys[g] = static_cast<std::uint64_t>(g);
    }
    add_prefixes(topological_order(groups_, keys), step, prefixes);
  }
}

void add_prefixes(const std::vector<int>& order, int step, Downsets& prefixes) {
  std::vector<char> holds(order.size());
  prefixes.add(holds);
  int done = 0;
  for (const int g : order) {
    holds[g] = 1;
    if (++done % step == 0 || done == static_cast<int>(order.size())) prefixes.add(holds);
  }
}

}  // namespace plimsoll::partition
