#include "study/embedding/remedies.h"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <utility>

namespace plimsoll::study {
namespace {

using embedding::NoPlanCause;
using embedding::NoPlanCauseKind;
using embedding::PlanningProblem;
using embedding::ReservationKind;
using topology::Storage;

constexpr std::int64_t kTrialEffort = 50000;  // moves of the balanced search
constexpr std::int64_t kTrialProposals = 200;
constexpr std::size_t kMaxTrialSize = 50000;  // tables times ranks
constexpr int kMaxTimesRanks = 4;
constexpr double kSteps[] = {0, .005, .01, .02, .05, .1, .25, .5};  // more than what is missing

// A size that reads well, not below the one given: whole MiB, or eighths of a GiB.
Bytes readable(Bytes bytes) {
  const Bytes unit = bytes < kGiB ? kMiB : kGiB / 8;
  return (bytes + unit - 1) / unit * unit;
}

class Remedies {
 public:
  Remedies(const ShardingQuestion& question, const ShardingRun& run,
           const std::optional<ScaledProblem>& scaled, const RunContext& context)
      : question_(question), run_(run), scaled_(scaled), context_(context) {}

  std::vector<Remedy> find() {
    const embedding::PlanningResult& planning = run_.planning();
    if (planning.outcome.status != SolveStatus::kInfeasible) return {};
    for (const NoPlanCause& cause : run_.balanced.causes) name(cause);
    if (!planning.reservation) {  // beside more memory
      add(RemedyKind::kSmallerBatch);
      add(RemedyKind::kOtherReservation);
    }
    if (!question_.given) {
      try_memory();
      try_ranks();
      try_share();
    }
    return std::move(remedies_);
  }

 private:
  void add(RemedyKind kind) { remedies_.push_back({kind, 0, 0, 0}); }

  void name(const NoPlanCause& cause) {
    switch (cause.kind) {
      case NoPlanCauseKind::kRules:
        return add(RemedyKind::kLooserRules);
      case NoPlanCauseKind::kConstraints:
        return add(RemedyKind::kLooserConstraints);
      case NoPlanCauseKind::kHazards:
        return;  // who asks may allow them
      case NoPlanCauseKind::kNumerics:
        return add(RemedyKind::kNumerics);
      case NoPlanCauseKind::kWidths:
        return add(RemedyKind::kAllWidths);
    }
  }

  bool is_stopped() const { return context_.is_cancelled() || context_.is_past_deadline(); }

  bool has_plan(const PlanningProblem& problem) const {
    if (is_stopped()) return false;
    SearchOptions limits = question_.limits;
    limits.time_limit_s.reset();
    limits.effort = question_.is_balanced ? kTrialEffort : kTrialProposals;
    const RunContext silent{context_.deadline, context_.cancel, {}};
    if (!question_.is_balanced) {
      const auto found =
          embedding::plan_like_torchrec(problem, question_.reference, limits, silent);
      return found && found->outcome.plan;
    }
    embedding::BalancedOptions options = question_.balanced;
    options.uses_reference = options.certifies = options.explains = false;
    options.keeps_reference_rating = false;
    options.stops.clear();
    const auto found = embedding::plan_balanced(problem, options, limits, silent);
    return found && found->planning.outcome.plan;
  }

  const PlanningProblem& problem() const { return question_.problem; }
  const std::vector<Storage>& devices() const { return problem().topology.devices; }

  bool is_large() const {
    return run_.planning().enumeration.options.tables.size() * devices().size() > kMaxTrialSize;
  }

  // Of all memory, what the tables get.
  double share_left() const {
    const embedding::ReservationOptions& options = problem().reservation;
    const bool is_share = options.kind == ReservationKind::kHeuristical ||
                          options.kind == ReservationKind::kFixedPercentage ||
                          options.kind == ReservationKind::kInference;
    return is_share ? 1 - options.percentage : 1;
  }

  bool has_equal_ranks() const {
    return std::all_of(devices().begin(), devices().end(),
                       [this](const Storage& device) { return device == devices().front(); });
  }

  // Of every rank, in the tier that is short.
  void try_memory() {
    const Explanation& explanation = run_.planning().outcome.explanation;
    const bool is_hbm = explanation.binding != "ddr";
    if (explanation.missing == 0 || !has_equal_ranks()) return;
    const double left = is_hbm && run_.planning().reservation ? share_left() : 1;
    if (!(left > 0)) return;
    const Bytes now = is_hbm ? devices().front().hbm : devices().front().ddr;
    const auto missing = static_cast<double>(explanation.missing) / left;
    const auto each = missing / static_cast<double>(devices().size());
    std::vector<double> added;
    for (const double step : kSteps) added.push_back(each + step * static_cast<double>(now));
    added.push_back(missing);  // of one table, on a rank
    std::sort(added.begin(), added.end());
    if (is_large()) added.resize(3);
    for (const double bytes : added) {
      if (!(static_cast<double>(now) + bytes < 0x1p60)) return;
      const Bytes cap = readable(now + static_cast<Bytes>(std::ceil(bytes)));
      PlanningProblem larger = problem();
      for (Storage& device : larger.topology.devices) (is_hbm ? device.hbm : device.ddr) = cap;
      if (!has_plan(larger)) continue;
      remedies_.push_back({is_hbm ? RemedyKind::kMoreHbm : RemedyKind::kMoreDdr, cap, 0, 0});
      return;
    }
  }

  bool has_plan_with(int count) const {
    const auto larger = scaled_->with(count);
    return larger && has_plan(*larger);
  }

  void try_ranks() {
    if (!scaled_ || is_large()) return;
    int low = scaled_->now;
    int high = 0;
    for (int more = 1; high == 0; more *= 2) {
      const int tried = scaled_->now + more;
      if (tried > kMaxTimesRanks * scaled_->now || is_stopped()) return;
      (has_plan_with(tried) ? high : low) = tried;
    }
    while (high - low > 1) {
      const int middle = low + (high - low) / 2;
      (has_plan_with(middle) ? high : low) = middle;
    }
    remedies_.push_back({RemedyKind::kMoreRanks, 0, high, 0});
  }

  // What is reserved of HBM may be less.
  void try_share() {
    const Explanation& explanation = run_.planning().outcome.explanation;
    const double reserved = 1 - share_left();
    if (explanation.binding != "hbm" || explanation.missing == 0 || !(reserved > 0) || is_large()) {
      return;
    }
    const double each = static_cast<double>(explanation.missing) /
                        static_cast<double>(devices().size()) /
                        static_cast<double>(devices().front().hbm);
    double before = -1;
    for (const double step : {0., .005, .02, .05}) {
      const double share = std::floor((reserved - each - step) * 1000) / 1000;
      if (share < 0 || share == before) continue;
      before = share;
      PlanningProblem larger = problem();
      larger.reservation.percentage = share;
      if (!has_plan(larger)) continue;
      remedies_.push_back({RemedyKind::kSmallerShare, 0, 0, share});
      return;
    }
  }

  const ShardingQuestion& question_;
  const ShardingRun& run_;
  const std::optional<ScaledProblem>& scaled_;
  const RunContext& context_;
  std::vector<Remedy> remedies_;
};

}  // namespace

std::vector<Remedy> find_remedies(const ShardingQuestion& question, const ShardingRun& run,
                                  const std::optional<ScaledProblem>& scaled,
                                  const RunContext& context) {
  return Remedies(question, run, scaled, context).find();
}

}  // namespace plimsoll::study
