#include "partition/pipeline/model_stage_times.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <set>

#include "core/check.h"
#include "core/rounding.h"

namespace plimsoll::partition {
namespace {}  // namespace

ModelStageTimes::ModelStageTimes(const PipelineModel& model, const GroupGraph& groups,
                                 const Downsets& cuts, const Settings& settings)
    : model_(model),
      groups_(groups),
      cuts_(cuts),
      settings_(settings),
      touching_(edges_of_operators(model)) {
  PLIMSOLL_CHECK(cuts.is_finished_for(groups), "the cuts are finished, and of the groups");
  PLIMSOLL_DCHECK(std::all_of(groups.nodes.begin(), groups.nodes.end(),
                              [&](const std::vector<int>& group) {
                                return group.back() < model.num_operators();
                              }),
                  "the groups are of the model's operators");
  find_cut_edges();
  std::set<int> degrees;
  for (const PipelineOperator& op : model.operators) {
    for (const TensorParallelChoices& entry : op.degrees) degrees.insert(entry.degree);
  }
  for (const int t : degrees) {
    if (t > model.num_devices) break;
    const int degree = static_cast<int>(sums_.size());
    add_sums(t);
    for (int d = 1; d <= std::min(model.num_devices / t, settings.max_data_parallel); ++d) {
      if (!model.num_microbatches || *model.num_microbatches % d == 0) {
        parallelism_.push_back({degree, t, d});
      }
    }
  }
  std::stable_sort(
      parallelism_.begin(), parallelism_.end(), [](const Parallelism& a, const Parallelism& b) {
        return a.tensor_parallel * a.data_parallel < b.tensor_parallel * b.data_parallel;
      });
  for (const Parallelism& p : parallelism_) {
    options_.push_back({p.tensor_parallel * p.data_parallel, p.data_parallel});
  }
}

// What is best of an operator's choices, each figure by itself.
struct ModelStageTimes::BestChoice {
  OperatorVariant fastest;  // with the fewest parameters of any
  Bytes least_per_microbatch = 0, least_memory = 0;
  bool is_possible = false;
};

ModelStageTimes::BestChoice ModelStageTimes::best_choice(int op, Sums& sums) const {
  const auto* choices = find_choices(model_.operators[op], sums.tensor_parallel);
  if (choices == nullptr) return {};
  BestChoice best{choices->front(), choices->front().per_microbatch, choices->front().memory, true};
  for (const OperatorVariant& choice : *choices) {
    if (choice.time_ms < best.fastest.time_ms) best.fastest = choice;
    best.least_per_microbatch = std::min(best.least_per_microbatch, choice.per_microbatch);
    best.least_memory = std::min(best.least_memory, choice.memory);
    if (choice.parameters != choices->front().parameters) sums.is_plain = false;
    if (choice.sync != choices->front().sync) sums.is_plain = false;
  }
  for (std::size_t e = 0; e < touching_[op].size(); ++e) {
    const PipelineEdge& edge = model_.edges[touching_[op][e]];
    double sync = kUnlimited;
    for (const OperatorVariant& choice : *choices) {
      sync = std::min(sync, choice.sync.empty() ? 0 : choice.sync[e]);
    }
    (edge.source == op ? sums.source_ms : sums.dest_ms)[touching_[op][e]] =
        2 * (edge.bytes + sync) / model_.bandwidth;
  }
  for (const OperatorVariant& choice : *choices) {
    best.fastest.parameters = std::min(best.fastest.parameters, choice.parameters);
  }
  if (choices->size() > 1) sums.has_one_choice = false;
  return best;
}

void ModelStageTimes::add_sums(int tensor_parallel) {
  Sums sums;
  sums.tensor_parallel = tensor_parallel;
  sums.source_ms.assign(model_.edges.size(), 0);
  sums.dest_ms.assign(model_.edges.size(), 0);
  std::vector<BestChoice> entries;
  for (const auto& nodes : groups_.nodes) entries.push_back(best_choice(nodes[0], sums));
  const auto num_cuts = static_cast<std::size_t>(cuts_.size());
  sums.time.resize(num_cuts);
  sums.parameters.resize(num_cuts);
  sums.per_microbatch.resize(num_cuts);
  sums.memory.resize(num_cuts);
  sums.least_per_microbatch.resize(num_cuts);
  sums.least_memory.resize(num_cuts);
  sums.num_impossible.resize(num_cuts);
  std::vector<int> members;
  for (int cut = 0; cut < cuts_.size(); ++cut) {
    cuts_.members_between(0, cut, members);
    for (const int g : members) {
      const BestChoice& entry = entries[g];
      if (!entry.is_possible) {
        ++sums.num_impossible[cut];
        continue;
      }
      sums.time[cut] += entry.fastest.time_ms;
      sums.parameters[cut] += static_cast<double>(entry.fastest.parameters);
      sums.per_microbatch[cut] += entry.fastest.per_microbatch;
      sums.memory[cut] += entry.fastest.memory;
      sums.least_per_microbatch[cut] += entry.least_per_microbatch;
      sums.least_memory[cut] += entry.least_memory;
    }
  }
  sums_.push_back(std::move(sums));
}

// Of one sample, for each byte of parameters.
double ModelStageTimes::sync_ms_per_byte(int d) const {
  const double n = model_.num_microbatches.value_or(d);
  return 4.0 * (d - 1) / (static_cast<double>(d) * n) / model_.bandwidth;
}

void ModelStageTimes::find_cut_edges() {
  std::vector<int> paid;  // edges that cost something where they are cut
  for (std::size_t e = 0; e < model_.edges.size(); ++e) {
    bool is_free = model_.edges[e].bytes == 0;
    for (const int op : {model_.edges[e].source, model_.edges[e].dest}) {
      for (const TensorParallelChoices& degree : model_.operators[op].degrees) {
        is_free = is_free && std::all_of(degree.choices.begin(), degree.choices.end(),
                                         [](const OperatorVariant& c) { return c.sync.empty(); });
      }
    }
    if (!is_free) paid.push_back(static_cast<int>(e));
  }
  std::vector<int> group_of(model_.operators.size());
  for (std::size_t g = 0; g < groups_.nodes.size(); ++g) {
    group_of[groups_.nodes[g][0]] = static_cast<int>(g);
  }
  first_cut_edge_.assign(1, 0);
  for (int cut = 0; cut < cuts_.size(); ++cut) {
    for (const int e : paid) {
      const PipelineEdge& edge = model_.edges[e];
      if (cuts_.contains(cut, group_of[edge.dest]) && !cuts_.contains(cut, group_of[edge.source])) {
        cut_edges_.push_back(e);
      }
    }
    first_cut_edge_.push_back(static_cast<std::int64_t>(cut_edges_.size()));
  }
}

// An edge that both cuts cut passes the stage by.
double ModelStageTimes::moved_ms(const Sums& sums, int begin, int end) const {
  const int* x = cut_edges_.data() + first_cut_edge_[begin];
  const int* const x_end = cut_edges_.data() + first_cut_edge_[begin + 1];
  const int* y = cut_edges_.data() + first_cut_edge_[end];
  const int* const y_end = cut_edges_.data() + first_cut_edge_[end + 1];
  double moved = 0;
  while (x != x_end || y != y_end) {
    if (y == y_end || (x != x_end && *x < *y)) {
      moved += sums.source_ms[*x++];
    } else if (x == x_end || *y < *x) {
      moved += sums.dest_ms[*y++];
    } else {
      ++x;
      ++y;
    }
  }
  return moved;
}

double ModelStageTimes::time_ms(const StageQuery& query, double limit, bool is_any_enough) {
  const Parallelism& p = parallelism_[query.option];
  Sums& sums = sums_[p.degree];
  const auto between = [&](const auto& list) { return list[query.end] - list[query.begin]; };
  if (between(sums.num_impossible) != 0) return kUnlimited;
  const int d = p.data_parallel;
  const Bytes y = (query.count + d - 1) / d;
  if (settings_.bounds_stages) {
    const double own = between(sums.time);
    const double sync = between(sums.parameters) * sync_ms_per_byte(d);
    if ((own / d + sync) * (1 - kFineRounding) > limit) return kUnlimited;
    const auto fits = [&](const std::vector<Bytes>& per_microbatch,
                          const std::vector<Bytes>& memory) {
      return !model_.memory_cap ||
             y * between(per_microbatch) + between(memory) <= *model_.memory_cap;
    };
    if (!fits(sums.least_per_microbatch, sums.least_memory)) return kUnlimited;
    const double moved = moved_ms(sums, query.begin, query.end);
    const double fastest = (own + moved) / d + sync;
    if (fastest * (1 - kFineRounding) > limit) return kUnlimited;
    if (sums.is_plain) {
      if (fits(sums.per_microbatch, sums.memory)) return fastest <= limit ? fastest : kUnlimited;
      if (sums.has_one_choice) return kUnlimited;
      Known known = ask_prices(sums, query, y);
      if (known.bound == kUnlimited) return kUnlimited;
      known.bound = (known.bound + moved) / d + sync;
      known.time = (known.time + moved) / d + sync;
      if (known.bound * (1 - kFineRounding) > limit) return kUnlimited;
      const double enough = is_any_enough ? limit : known.bound * (1 + kFineRounding);
      if (known.time < kUnlimited && known.time <= enough) return known.time;
    }
  }
  const auto [place, is_new] =
      known_.try_emplace({query.begin, query.end, query.option, y}, Known{0, kUnlimited});
  Known& known = place->second;
  if (known.bound > limit || known.bound == kUnlimited) return kUnlimited;
  if (known.time < kUnlimited && known.time <= (is_any_enough ? limit : known.bound)) {
    return known.time;
  }
  const Known found = solve(query, limit, is_any_enough);
  // No plan within the limit says nothing of a larger one.
  const double proved = found.bound < kUnlimited ? found.bound : std::nextafter(limit, kUnlimited);
  known.bound = std::max(known.bound, proved);
  known.time = std::min(known.time, found.time);
  return found.time;
}

ModelStageTimes::Known ModelStageTimes::solve(const StageQuery& query, double limit,
                                              bool is_any_enough) {
  make_items(query);
  KnapsackLimits limits{limit};
  limits.enough = is_any_enough ? limit : 0;
  limits.max_nodes = settings_.max_knapsack_nodes;
  const KnapsackAnswer answer =
      choose_fastest(items_, model_.memory_cap.value_or(std::numeric_limits<Bytes>::max()), limits);
  if (answer.choice.empty() && answer.bound < kUnlimited) ++num_unknown_;
  // A plan that may not be the fastest is not a proof where the least time is asked for.
  if (!is_any_enough && answer.bound < answer.time) ++num_unknown_;
  return {answer.bound, answer.time};
}

const std::vector<ModelStageTimes::PriceSums>& ModelStageTimes::price_sums(Sums& sums, Bytes y) {
  constexpr std::size_t kMaxPrices = 32;
  const auto [place, is_new] = sums.at_prices.try_emplace(y);
  if (!is_new) return place->second;
  std::vector<const std::vector<OperatorVariant>*> choices;
  std::vector<double> prices;
  for (const auto& nodes : groups_.nodes) {
    choices.push_back(find_choices(model_.operators[nodes[0]], sums.tensor_parallel));
    if (choices.back() == nullptr) continue;
    for (const OperatorVariant& a : *choices.back()) {
      for (const OperatorVariant& b : *choices.back()) {
        const Bytes saved = y * (a.per_microbatch - b.per_microbatch) + a.memory - b.memory;
        if (saved <= 0 || a.time_ms >= b.time_ms) continue;
        prices.push_back((b.time_ms - a.time_ms) / static_cast<double>(saved));
      }
    }
  }
  std::sort(prices.begin(), prices.end());
  prices.erase(std::unique(prices.begin(), prices.end()), prices.end());
  if (prices.size() > kMaxPrices) {
    std::vector<double> some;
    for (std::size_t i = 1; i <= kMaxPrices; ++i) {
      some.push_back(prices[i * prices.size() / kMaxPrices - 1]);
    }
    prices = std::move(some);
  }
  std::vector<double> times(choices.size());
  std::vector<Bytes> bytes(choices.size());
  std::vector<int> members;
  for (const double price : prices) {
    for (std::size_t g = 0; g < choices.size(); ++g) {
      if (choices[g] == nullptr) continue;
      double least = kUnlimited;
      for (const OperatorVariant& choice : *choices[g]) {
        const Bytes held = y * choice.per_microbatch + choice.memory;
        const double cost = choice.time_ms + price * static_cast<double>(held);
        if (cost > least || (cost == least && held >= bytes[g])) continue;
        least = cost;
        times[g] = choice.time_ms;
        bytes[g] = held;
      }
    }
    PriceSums entry{price, std::vector<double>(cuts_.size()), std::vector<Bytes>(cuts_.size())};
    for (int cut = 0; cut < cuts_.size(); ++cut) {
      cuts_.members_between(0, cut, members);
      for (const int g : members) {
        entry.time[cut] += times[g];
        entry.bytes[cut] += bytes[g];
      }
    }
    place->second.push_back(std::move(entry));
  }
  return place->second;
}

ModelStageTimes::Known ModelStageTimes::ask_prices(Sums& sums, const StageQuery& query, Bytes y) {
  Known known{0, kUnlimited};
  const Bytes cap = *model_.memory_cap;
  const auto& prices = price_sums(sums, y);
  for (const PriceSums& at : prices) {
    const double time = at.time[query.end] - at.time[query.begin];
    const Bytes bytes = at.bytes[query.end] - at.bytes[query.begin];
    known.bound = std::max(known.bound, time + at.price * static_cast<double>(bytes - cap));
    if (bytes <= cap) {
      known.time = time;  // dearer bytes never make it faster
      return known;
    }
  }
  // At the highest price every operator takes as few bytes as it can.
  if (!prices.empty()) known.bound = kUnlimited;
  return known;
}

void ModelStageTimes::make_items(const StageQuery& query) {
  const Parallelism& p = parallelism_[query.option];
  const int d = p.data_parallel;
  const Bytes y = (query.count + d - 1) / d;
  ++num_stages_;
  cuts_.members_between(query.begin, query.end, members_);
  for (int& member : members_) member = groups_.nodes[member][0];
  std::sort(members_.begin(), members_.end());
  items_.resize(members_.size());
  const double sync = sync_ms_per_byte(d);
  for (std::size_t i = 0; i < members_.size(); ++i) {
    const int op = members_[i];
    items_[i].clear();
    for (const OperatorVariant& choice : *find_choices(model_.operators[op], p.tensor_parallel)) {
      double bytes = 0;
      for (std::size_t e = 0; e < touching_[op].size(); ++e) {
        const PipelineEdge& edge = model_.edges[touching_[op][e]];
        const int other = edge.source == op ? edge.dest : edge.source;
        if (std::binary_search(members_.begin(), members_.end(), other)) continue;
        bytes += 2 * (edge.bytes + (choice.sync.empty() ? 0 : choice.sync[e]));
      }
      items_[i].push_back({(choice.time_ms + bytes / model_.bandwidth) / d +
                               static_cast<double>(choice.parameters) * sync,
                           y * choice.per_microbatch + choice.memory});
    }
  }
}

PipelineStage ModelStageTimes::make_stage(const StageQuery& query) {
  make_items(query);
  KnapsackLimits limits{kUnlimited};
  limits.max_nodes = settings_.max_knapsack_nodes;
  const KnapsackAnswer answer =
      choose_fastest(items_, model_.memory_cap.value_or(std::numeric_limits<Bytes>::max()), limits);
  PLIMSOLL_CHECK(!answer.choice.empty(), "there is such a stage");
  const Parallelism& p = parallelism_[query.option];
  return {members_, answer.choice, p.data_parallel, p.tensor_parallel};
}

}  // namespace plimsoll::partition
