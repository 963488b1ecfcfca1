#include "balance/bounds/missing_bytes.h"

#include <algorithm>
#include <limits>
#include <utility>
#include <vector>

namespace plimsoll::balance {
namespace {

using Resources = std::vector<int>;

constexpr int kStepsToBisection = 8;  // hints that bring little must not go on for ever

Bytes sum_of(const Amounts& bytes) {
  Int128 sum = 0;
  for (std::size_t r = 0; r < bytes.num_set(); ++r) sum += bytes[r];
  return static_cast<Bytes>(std::min<Int128>(sum, std::numeric_limits<Bytes>::max()));
}

class Finder {
 public:
  Finder(const ShortageProof& prove, const MissingBytesOptions& options)
      : prove_(prove), options_(options) {
    for (int resource = 0; resource < options.num_resources; ++resource) {
      result_.unit[resource] = -1;
      if (options.most[resource] > 0) resources_.push_back(resource);
    }
  }

  MissingBytes run() {
    result_.beyond_bytes = prove(options_.most);
    if (!result_.beyond_bytes && !is_spent_) {
      for (std::size_t size = 1; size <= resources_.size(); ++size) {
        Resources order;
        for_orders(size, order);
      }
    }
    if (options_.has_time && !options_.has_time()) result_.per_rank = {};  // nothing can be asked
    if (result_.is_found()) name_units();
    result_.is_least = result_.is_found() && !is_spent_;
    return result_;
  }

 private:
  std::optional<Shortage> prove(const Amounts& added) {
    if (is_spent_ || result_.num_proofs >= options_.max_proofs) {
      is_spent_ = true;
      return std::nullopt;
    }
    ++result_.num_proofs;
    std::optional<Shortage> shortage = prove_(added);
    if (options_.has_time && !options_.has_time()) is_spent_ = true;
    return shortage;
  }

  // Every order of `size` resources.
  void for_orders(std::size_t size, Resources& order) {
    if (order.size() == size) return try_order(order);
    for (const int resource : resources_) {
      if (std::find(order.begin(), order.end(), resource) != order.end()) continue;
      order.push_back(resource);
      for_orders(size, order);
      order.pop_back();
    }
  }

  // Each resource in turn as few as will do; nothing where that takes no fewer bytes than are known
  // to.
  void try_order(const Resources& order) {
    Amounts added{};
    for (const int resource : order) {
      const Bytes worth =
          result_.is_found() ? sum_of(result_.per_rank) - 1 : options_.most[resource];
      added[resource] = std::min(options_.most[resource], worth);
    }
    if (prove(added) || is_spent_) return;
    for (const int resource : order) {
      added[resource] = least(resource, added);
      if (is_spent_) break;
    }
    if (!result_.is_found() || sum_of(added) < sum_of(result_.per_rank)) result_.per_rank = added;
  }

  // The fewest bytes of the resource beside those of the others. With those of `added` there is no
  // proof.
  Bytes least(int resource, Amounts added) {
    Bytes high = added[resource];
    Bytes low = -1;  // with so many there is a proof
    Bytes hint = 0;
    bool trusts_hint = true;
    for (int step = 1; high - low > 1; ++step) {
      const Bytes middle = low < 0 ? 0 : low + (high - low) / 2;
      const bool is_hinted = low >= 0 && trusts_hint && hint > 0 && hint < high - low;
      // Where the hint is `high`, or beyond: are fewer bytes than that enough?
      const bool is_next = low >= 0 && trusts_hint && !is_hinted && hint > 0;
      added[resource] = is_hinted ? low + hint : is_next ? high - 1 : middle;
      const std::optional<Shortage> shortage = prove(added);
      if (is_spent_) break;
      if (shortage) {
        trusts_hint = step % kStepsToBisection != 0;
        low = added[resource];
        hint = shortage->hint[resource];
      } else {
        trusts_hint = is_hinted;
        high = added[resource];
      }
    }
    return high;
  }

  void name_units() {
    for (const int resource : resources_) {
      if (result_.per_rank[resource] == 0) continue;
      Amounts added = result_.per_rank;
      --added[resource];
      const std::optional<Shortage> shortage = prove_(added);
      if (shortage) result_.unit[resource] = shortage->unit;
    }
  }

  const ShortageProof& prove_;
  const MissingBytesOptions& options_;
  Resources resources_;
  MissingBytes result_;
  bool is_spent_ = false;
};

}  // namespace

MissingBytes find_missing_bytes(const ShortageProof& prove, const MissingBytesOptions& options) {
  return Finder(prove, options).run();
}

}  // namespace plimsoll::balance
