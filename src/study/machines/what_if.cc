#include "plimsoll/study/what_if.h"

#include <algorithm>
#include <atomic>
#include <limits>
#include <map>
#include <mutex>
#include <numeric>
#include <thread>
#include <tuple>
#include <utility>

#include "plimsoll/core/units.h"

namespace plimsoll::study {
namespace {

constexpr double kSecondsPerHour = 3600;

using Key = std::tuple<std::string, int, std::int64_t>;
Key key_of(const WhatIfPoint& point) { return {point.on, point.ranks, point.batch_size}; }

// What follows from the plan's time and the machine's price.
void fill_rates(WhatIfRow& row) {
  if (!row.ms || !(*row.ms > 0)) return;
  const double samples =
      static_cast<double>(row.point.ranks) * static_cast<double>(row.point.batch_size);
  row.samples_per_s = samples / *row.ms * kMsPerSecond;
  if (!row.price) return;
  row.price_per_million = *row.price / kSecondsPerHour / *row.samples_per_s * 1e6;
}

// Takes runs until none is left or the sweep is stopped.
class Sweeper {
 public:
  Sweeper(std::span<const WhatIfPoint> points, const std::function<PlanPoint()>& begin_run,
          const RunContext& context)
      : points_(points),
        runs_(runs_of(points)),
        begin_run_(begin_run),
        context_(context),
        rows_(points.size()) {}

  std::vector<std::optional<Result<WhatIfRow>>>& rows() { return rows_; }

  // Progress comes from the calling thread alone.
  void run(int num_threads) {
    std::vector<std::thread> others;
    for (int i = 1; i < num_threads; ++i) others.emplace_back([this] { work(false); });
    work(true);
    for (std::thread& other : others) other.join();
  }

  StopReason stop() const { return stop_; }

 private:
  bool is_stopped() {
    if (!context_.is_cancelled() && !context_.is_past_deadline()) return false;
    const std::lock_guard lock(mutex_);
    stop_ = context_.is_cancelled() ? StopReason::kCancelled : StopReason::kDeadline;
    return true;
  }

  void work(bool tells) {
    for (std::size_t i = next_++; i < runs_.size(); i = next_++) {
      const auto first = static_cast<std::size_t>(runs_[i].data() - points_.data());
      const std::span rows = std::span(rows_).subspan(first, runs_[i].size());
      const bool is_known =
          std::all_of(rows.begin(), rows.end(), [](const auto& row) { return row.has_value(); });
      if (!is_known && !plan_run(runs_[i], rows, tells)) return;
    }
  }

  // False where the sweep was stopped.
  bool plan_run(std::span<const WhatIfPoint> run, std::span<std::optional<Result<WhatIfRow>>> rows,
                bool tells) {
    const PlanPoint plan = begin_run_();
    for (std::size_t i = 0; i < run.size(); ++i) {
      if (is_stopped()) return false;
      Result<WhatIfRow> row = plan(run[i]);
      if (is_stopped()) return false;
      rows[i] = std::move(row);
      ++num_done_;
      if (tells && context_.progress) context_.progress({num_done_, {}, {}});
    }
    return true;
  }

  std::span<const WhatIfPoint> points_;
  const std::vector<std::span<const WhatIfPoint>> runs_;
  const std::function<PlanPoint()>& begin_run_;
  const RunContext& context_;
  std::vector<std::optional<Result<WhatIfRow>>> rows_;  // each written by one thread
  std::atomic<std::size_t> next_{0};
  std::atomic<std::int64_t> num_done_{0};
  std::mutex mutex_;
  StopReason stop_ = StopReason::kFinished;
};

}  // namespace

bool has_prices(std::span<const WhatIfRow> rows) {
  return std::any_of(rows.begin(), rows.end(),
                     [](const WhatIfRow& row) { return row.price.has_value(); });
}

std::string_view remark_of(const WhatIfRow& row) {
  if (row.is_pareto) return "front";
  if (row.status == SolveStatus::kInfeasible) return "does not fit";
  return row.ms ? "" : "no plan found";
}

std::string gap_text(const WhatIfRow& row) {
  if (!row.gap) return {};
  return format_percent(*row.gap <= SearchOptions{}.tolerance ? 0 : *row.gap);
}

std::vector<std::span<const WhatIfPoint>> runs_of(std::span<const WhatIfPoint> points) {
  std::vector<std::span<const WhatIfPoint>> runs;
  for (std::size_t i = 0; i < points.size(); ++i) {
    const bool goes_on = i > 0 && points[i].on == points[i - 1].on &&
                         points[i].ranks == points[i - 1].ranks && runs.back().size() < kMostOfRun;
    if (goes_on) {
      runs.back() = {runs.back().data(), runs.back().size() + 1};
    } else {
      runs.push_back(points.subspan(i, 1));
    }
  }
  return runs;
}

Result<WhatIf> sweep(std::span<const WhatIfPoint> points,
                     const std::function<std::optional<double>(const WhatIfPoint&)>& price,
                     const std::function<PlanPoint()>& begin_run, std::span<const WhatIfRow> known,
                     int num_threads, const RunContext& context) {
  std::map<Key, const WhatIfRow*> row_of;
  for (const WhatIfRow& row : known) row_of.emplace(key_of(row.point), &row);
  Sweeper sweeper(points, begin_run, context);
  for (std::size_t i = 0; i < points.size(); ++i) {
    const auto found = row_of.find(key_of(points[i]));
    if (found != row_of.end()) sweeper.rows()[i] = *found->second;
  }
  sweeper.run(std::max(num_threads, 1));
  WhatIf answer;
  answer.stop = sweeper.stop();
  for (std::size_t i = 0; i < points.size(); ++i) {
    std::optional<Result<WhatIfRow>>& row = sweeper.rows()[i];
    if (!row) continue;
    if (!*row) return tl::unexpected<Error>(std::move(*row).error());
    WhatIfRow& made = answer.rows.emplace_back(**std::move(row));
    made.point = points[i];
    made.price = price(points[i]);
    fill_rates(made);
  }
  mark_pareto(answer.rows);
  return answer;
}

void mark_pareto(std::vector<WhatIfRow>& rows) {
  // Machines without a price cost their ranks; where some have one, the others are on no front.
  const bool is_priced = has_prices(rows);
  const auto cost_of = [is_priced](const WhatIfRow& row) {
    return is_priced ? row.price.value_or(std::numeric_limits<double>::infinity())
                     : static_cast<double>(row.point.ranks);
  };
  std::vector<std::size_t> order;
  for (std::size_t i = 0; i < rows.size(); ++i) {
    rows[i].is_pareto = false;
    if (rows[i].samples_per_s && cost_of(rows[i]) < std::numeric_limits<double>::infinity()) {
      order.push_back(i);
    }
  }
  std::stable_sort(order.begin(), order.end(), [&](std::size_t a, std::size_t b) {
    const double cost_a = cost_of(rows[a]);
    const double cost_b = cost_of(rows[b]);
    if (cost_a != cost_b) return cost_a < cost_b;
    return *rows[a].samples_per_s > *rows[b].samples_per_s;
  });
  double best = -1;  // of what costs less, or as much
  double best_cost = -1;
  for (const std::size_t i : order) {
    const double rate = *rows[i].samples_per_s;
    rows[i].is_pareto = rate > best || (rate == best && cost_of(rows[i]) == best_cost);
    if (rate > best) {
      best = rate;
      best_cost = cost_of(rows[i]);
    }
  }
}

}  // namespace plimsoll::study
