#include "balance/verify/verified_windows.h"

#include <algorithm>
#include <cmath>

namespace plimsoll::balance {
namespace {

constexpr double kSafety = 1e-10;     // of sizes in cells
constexpr double kShrink = 1 - 1e-9;  // of sizes under dual feasible functions
constexpr double kPourShare = 1.0 / 512;
constexpr int kMaxCells = 1 << 20;
constexpr std::size_t kMaxNumbers = 1U << 24;  // of boxes at one time

using Items = std::map<std::pair<double, double>, std::int64_t>;  // load, value -> copies

// Most value in 0..cells of what is in the map, each at most so often.
std::vector<double> knapsack(const Items& items, double room, int cells, double per_cell,
                             std::int64_t& num_steps) {
  std::vector<double> best(static_cast<std::size_t>(cells) + 1, 0);
  for (const auto& [item, copies] : items) {
    const auto [load, value] = item;
    const int size = static_cast<int>(load / room * cells * (1 - kSafety));
    if (size == 0) {
      for (double& b : best) b += value * static_cast<double>(copies);
      continue;
    }
    num_steps += cells;
    auto left = std::min(copies, static_cast<std::int64_t>(room / load * (1 + kSafety)));
    for (std::int64_t times = 1; left > 0; times *= 2) {
      times = std::min(times, left);
      left -= times;
      num_steps += cells;
      for (int x = cells; x >= times * size; --x) {
        best[x] = std::max(best[x], best[static_cast<std::size_t>(x - times * size)] +
                                        static_cast<double>(times) * value);
      }
    }
  }
  for (int x = 1; x <= cells; ++x) best[x] = std::max(best[x], best[x - 1] + per_cell);
  return best;
}

}  // namespace

double VerifiedWindows::value() {
  if (witness_.class_of_unit.size() != problem().units.size() || witness_.nodes.empty() ||
      !(witness_.top >= witness_.target)) {
    tell("the windows do not fit the problem");
    return -kInfinity;
  }
  num_classes_ = 1;
  for (const int c : witness_.class_of_unit) {
    if (c < 0 || c >= problem().num_units()) {
      tell("a class that does not exist");
      return -kInfinity;
    }
    num_classes_ = std::max(num_classes_, c + 1);
  }
  Box box{0,
          witness_.top,
          std::vector<double>(num_classes_, 0),
          std::vector<double>(num_classes_, kInfinity),
          {},
          {}};
  return lesser(witness_.top, descend(box));
}

double VerifiedWindows::descend(const Box& all) {
  double least = kInfinity;
  std::vector<std::pair<int, Box>> open = {{0, all}};
  std::size_t num_visited = 0;
  while (!open.empty()) {
    auto [number, box] = std::move(open.back());
    open.pop_back();
    const WindowNode& node = witness_.nodes[number];
    if (node.first_child < 0) {
      if (node.proof < 0 || node.proof >= static_cast<int>(witness_.proofs.size()) ||
          !(witness_.proofs[node.proof].room >= box.high)) {
        tell("a window without its proof");
        return -kInfinity;
      }
      least = lesser(least, box.low + uniform_load(node.proof, box));
      if (!fault_.empty()) return -kInfinity;
      continue;
    }
    const std::size_t num_boxes = open.size() + proved_.size();
    if (++num_visited > witness_.nodes.size() ||
        num_boxes * static_cast<std::size_t>(num_classes_) > kMaxNumbers ||
        node.first_child <= number ||
        node.first_child >= static_cast<int>(witness_.nodes.size()) - 1 ||
        node.class_index >= num_classes_) {
      tell("windows that do not form a tree");
      return -kInfinity;
    }
    Box first = box;
    Box second = std::move(box);
    if (node.host >= 0) {
      if (!split_host(node.host, node.split, first, second)) {
        tell("hosts that cannot be told apart");
        return -kInfinity;
      }
    } else if (node.class_index < 0) {
      first.high = std::min(first.high, node.split);
      second.low = std::max(second.low, node.split);
    } else {
      first.hi[node.class_index] = std::min(first.hi[node.class_index], std::floor(node.split));
      second.lo[node.class_index] =
          std::max(second.lo[node.class_index], std::floor(node.split) + 1);
    }
    open.emplace_back(node.first_child, std::move(first));
    open.emplace_back(node.first_child + 1, std::move(second));
  }
  return least;
}

// Any placement has hosts in some order of falling block load: those in front of this one have no
// smaller ones, those behind it no larger ones. All must be of one profile.
bool VerifiedWindows::split_host(int host, double split, Box& first, Box& second) {
  const int num_hosts = problem().num_hosts();
  if (host >= num_hosts || choices_.hosts().size() != 1 || !(split >= 0)) return false;
  for (Box* box : {&first, &second}) {
    if (!box->least_blocks.empty()) continue;
    box->least_blocks.assign(static_cast<std::size_t>(num_hosts), 0);
    box->most_blocks.assign(static_cast<std::size_t>(num_hosts), kInfinity);
  }
  for (int h = host; h < num_hosts; ++h)
    first.most_blocks[h] = std::min(first.most_blocks[h], split);
  for (int h = 0; h <= host; ++h) second.least_blocks[h] = std::max(second.least_blocks[h], split);
  return true;
}

// What the proof shows of the uniform load in the box.
double VerifiedWindows::uniform_load(int number, const Box& box) {
  Box key = box;
  key.low = key.high = 0;
  const auto known = proved_.find({number, key});
  if (known != proved_.end()) return known->second;
  const RoomProof& proof = witness_.proofs[number];
  const bool has_values = !proof.value.empty();
  if ((has_values && (witness_.cells < 1 || witness_.cells > kMaxCells)) || !(proof.room > 0) ||
      !std::all_of(proof.value.begin(), proof.value.end(), is_number) ||
      (!proof.price.empty() && !choices_.are_prices(proof.price, fault_))) {
    tell("a proof that proves nothing");
    return -kInfinity;
  }
  const double value = has_values ? by_patterns(proof, box) : by_function(proof, box);
  if (num_steps_ > max_steps_) {
    tell("windows that take longer to check than a search takes");
    return -kInfinity;
  }
  proved_[{number, key}] = value;
  return value;
}

// Sum over units of min(worth, cheapest uniform cost), where at least lo and at most hi units of
// a class are uniform, those included that can be nothing else.
double VerifiedWindows::uniform_sum(const std::vector<double>& worth,
                                    const std::vector<double>& price, const Box& box) {
  num_steps_ += num_classes_;
  std::vector<std::vector<std::pair<double, double>>> by_class(num_classes_);
  std::vector<double> num_forced(num_classes_, 0);
  double sum = 0;
  for (int unit = 0; unit < problem().num_units(); ++unit) {
    double cheapest = kInfinity;
    bool can_place = false;
    for (std::size_t c = 0; c < problem().units[unit].choices.size(); ++c) {
      if (!choices_.is_alive(unit, c)) continue;
      const UnitChoice& choice = choices_.choice_at(unit, c);
      if (choice.spread != Spread::kUniform) {
        can_place = true;
        continue;
      }
      double load = kInfinity;
      double bytes = 0;
      ++num_steps_;
      choices_.for_row(choice, 0, [&](const PieceRun& run, int rank, double count) {
        load = std::min(load, choices_.load_on(run, rank));
        for (int resource = 0; resource < problem().num_resources(); ++resource) {
          bytes += count * choices_.price_of(price, rank, resource) *
                   static_cast<double>(run.bytes[resource]);
        }
      });
      cheapest = std::min(cheapest, load + bytes);
    }
    if (!can_place) {
      sum += cheapest;
      ++num_forced[witness_.class_of_unit[unit]];
    } else {
      by_class[witness_.class_of_unit[unit]].emplace_back(cheapest, worth[unit]);
    }
  }
  for (int c = 0; c < num_classes_; ++c) {
    auto& units = by_class[c];
    const double lo = box.lo[c] - num_forced[c];
    const double hi = box.hi[c] - num_forced[c];
    if (hi < 0) return kInfinity;
    std::sort(units.begin(), units.end());
    for (std::size_t i = 0; i < units.size(); ++i) {
      const auto place = static_cast<double>(i);
      const auto [cost, value] = units[i];
      sum += place < lo ? cost : place < hi ? std::min(cost, value) : value;
    }
    if (lo > static_cast<double>(units.size()) && !units.empty()) return kInfinity;
  }
  return sum;
}

double VerifiedWindows::by_function(const RoomProof& proof, const Box& box) {
  const double e = proof.function.parameter;
  const bool is_function =
      proof.function.kind == DualFunctionKind::kIdentity ||
      (proof.function.kind == DualFunctionKind::kStep && e >= 1 && e == std::floor(e)) ||
      (proof.function.kind == DualFunctionKind::kThreshold && e >= 0 && e <= 0.5) ||
      (proof.function.kind == DualFunctionKind::kRounding && e > 0 && e <= 0.5);
  if (!is_function || !is_number(proof.multiplier)) {
    tell("a function that is not dual feasible");
    return -kInfinity;
  }
  std::vector<double> worth;
  for (int unit = 0; unit < problem().num_units(); ++unit) {
    double least = kInfinity;
    for (std::size_t c = 0; c < problem().units[unit].choices.size(); ++c) {
      if (!choices_.is_alive(unit, c) || choices_.choice_at(unit, c).spread == Spread::kUniform)
        continue;
      const double pieces = choices_.least_cost<double>(
          unit, choices_.choice_at(unit, c), [&](const PieceRun& run, int rank) {
            const double x = choices_.load_on(run, rank) / proof.room * kShrink;
            return x > 1 ? kInfinity : dual_value(proof.function, x);
          });
      least = std::min(least, pieces);
    }
    worth.push_back(least == kInfinity ? 4 * witness_.target : proof.multiplier * least);
  }
  const double sum = uniform_sum(worth, {}, box);
  const double held = proof.multiplier * static_cast<double>(problem().num_ranks);
  if (sum == kInfinity) return sum;
  return sum - held - rounding_of(sum + held, problem().num_units());
}

// The best fillings of a rank, or of a host with blocks, that looks like this one.
std::vector<double> VerifiedWindows::table(const RoomProof& proof, const std::vector<double>& worth,
                                           bool is_host, int at) {
  const int cells = witness_.cells;
  Items items;
  double per_cell = 0;
  for (int unit = 0; unit < problem().num_units(); ++unit) {
    for (std::size_t c = 0; c < problem().units[unit].choices.size(); ++c) {
      const UnitChoice& choice = choices_.choice_at(unit, c);
      if (!choices_.is_alive(unit, c) || (choice.spread == Spread::kHost) != is_host ||
          choice.spread == Spread::kUniform) {
        continue;
      }
      if (!choices_.may_stand(unit, is_host, at)) continue;
      std::int64_t pieces = is_host ? choice.num_blocks : 0;
      if (!is_host) {
        for (const PieceRun& run : choice.runs) pieces += run.count;
      }
      const auto add = [&](double load, double bytes, std::int64_t copies) {
        const double value = worth[unit] / static_cast<double>(pieces) - bytes;
        if (value <= 0 || load > proof.room * (1 + kSafety)) return;
        const int size = static_cast<int>(load / proof.room * cells * (1 - kSafety));
        if (load > 0 && size < kPourShare * cells) {
          per_cell = std::max(per_cell, value * (proof.room / cells / load * (1 + kSafety)));
        } else {
          items[{load, value}] += copies;
        }
      };
      const auto price = [&](const PieceRun& run, int rank) {
        double sum = 0;
        for (int resource = 0; resource < problem().num_resources(); ++resource) {
          sum += choices_.price_of(proof.price, rank, resource) *
                 static_cast<double>(run.bytes[resource]);
        }
        return sum;
      };
      if (is_host) {
        if (!choices_.fits_row(unit, choice, at * problem().ranks_per_host)) continue;
        double load = kInfinity;
        double bytes = 0;
        choices_.for_row(choice, at * problem().ranks_per_host,
                         [&](const PieceRun& run, int rank, double count) {
                           load = std::min(load, choices_.load_on(run, rank));
                           bytes += count * price(run, rank);
                         });
        add(load, bytes, choice.num_blocks);
      } else {
        for (const PieceRun& run : choice.runs) {
          if (choices_.fits(unit, run, at))
            add(choices_.load_on(run, at), price(run, at), run.count);
        }
      }
    }
  }
  num_steps_ += cells;
  return knapsack(items, proof.room, cells, per_cell, num_steps_);
}

double VerifiedWindows::by_patterns(const RoomProof& proof, const Box& box) {
  const int cells = witness_.cells;
  std::vector<double> worth;
  for (const int c : witness_.class_of_unit) {
    worth.push_back(c < static_cast<int>(proof.value.size()) ? proof.value[c] : 0);
  }
  std::vector<std::vector<double>> ranks;
  for (const VerifiedChoices::Profile& profile : choices_.ranks())
    ranks.push_back(table(proof, worth, false, profile.rank));
  const double sum = uniform_sum(worth, proof.price, box);
  if (sum == kInfinity) return sum;
  double held = 0;
  for (const VerifiedChoices::Profile& host : choices_.hosts()) {
    const std::vector<double> blocks = table(proof, worth, true, host.rank);
    const auto most = [&](double least_blocks, double most_blocks) {
      const auto to_cells = [&](double load, double safety) {
        return std::min(load / proof.room, 1.0) * cells * safety;
      };
      const int from = static_cast<int>(std::ceil(to_cells(least_blocks, 1 - kSafety)));
      const int end = static_cast<int>(to_cells(most_blocks, 1 + kSafety));
      double best = 0;
      for (int x = 0; x <= std::min(end, cells); ++x) {
        if (x > 0 && blocks[x] <= blocks[x - 1]) continue;
        double value = blocks[x];
        for (int i = 0; i < problem().ranks_per_host; ++i) {
          value += ranks[choices_.profile_of(host.rank * problem().ranks_per_host + i)]
                        [cells - std::max(x, from)];
        }
        best = std::max(best, value);
      }
      return best;
    };
    if (box.least_blocks.empty()) {
      held += host.count * most(0, kInfinity);
      continue;
    }
    for (std::size_t h = 0; h < box.least_blocks.size(); ++h) {
      held += most(box.least_blocks[h], box.most_blocks[h]);
    }
  }
  for (int rank = problem().num_hosts() * problem().ranks_per_host; rank < problem().num_ranks;
       ++rank) {
    held += ranks[choices_.profile_of(rank)][cells];
  }
  for (int rank = 0; rank < problem().num_ranks; ++rank) {
    for (int resource = 0; resource < problem().num_resources(); ++resource) {
      held += choices_.price_of(proof.price, rank, resource) *
              static_cast<double>(problem().caps[rank][resource]);
    }
  }
  return sum - held - rounding_of(sum + held, problem().num_units() + problem().num_ranks);
}

}  // namespace plimsoll::balance
