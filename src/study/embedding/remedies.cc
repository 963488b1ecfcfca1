#include "study/embedding/remedies.h"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <utility>

#include "math/least_cause.h"
#include "study/embedding/placed_plan.h"
#include "study/embedding/trial.h"

namespace plimsoll::study {
namespace {

using embedding::ComputeKernel;
using embedding::DataType;
using embedding::Module;
using embedding::NoPlanCause;
using embedding::NoPlanCauseKind;
using embedding::Optimizer;
using embedding::PlanningProblem;
using embedding::ReservationKind;
using embedding::Table;
using topology::Storage;

constexpr std::size_t kMaxWork = 500'000;  // tables times ranks, of all trials
constexpr int kMaxTrials = 120;
constexpr int kLeastTrials = 6;
constexpr int kMaxTimesRanks = 4;
constexpr int kBatchParts = 32;
constexpr Bytes kDenseParts = 32;
// Of the present size, more than what is missing.
constexpr double kSteps[] = {0, .005, .01, .02, .05, .1, .25, .5, 1, 3, 7, 15, 31, 63};

// A size that reads well, not below the one given: whole MiB, or eighths of a GiB.
Bytes readable(Bytes bytes) {
  const Bytes unit = bytes < kGiB ? kMiB : kGiB / 8;
  return (bytes + unit - 1) / unit * unit;
}

struct TablePlace {
  std::string fqn;
  Bytes bytes = 0;
};

class Remedies {
 public:
  // `dropped` are constraints that the question has lost already, of each remedy a part.
  Remedies(const ShardingQuestion& question, const ShardingRun& run, const TableConflict& conflict,
           const std::optional<ScaledProblem>& scaled, const RunContext& context,
           std::vector<UserConstraint> dropped = {})
      : question_(question),
        run_(run),
        conflict_(conflict),
        scaled_(scaled),
        context_(context),
        dropped_(std::move(dropped)) {
    const std::size_t size = std::max<std::size_t>(
        run.planning().enumeration.options.tables.size() * devices().size(), 1);
    trials_left_ = std::clamp(static_cast<int>(std::min<std::size_t>(kMaxWork / size, kMaxTrials)),
                              kLeastTrials, kMaxTrials);
  }

  std::vector<Remedy> find() {
    if (run_.planning().outcome.plan) return {};
    if (dropped_.empty()) try_without_constraints();
    if (!question_.given) {
      try_ranks();
      try_share();
      try_memory();
      try_widths();
      try_uncounted_dense();
      try_smaller_dense();
      try_batch();
      try_data_types();
      try_optimizers();
      if (dropped_.empty()) try_key_value();
      if (remedies_.empty() && dropped_.empty()) try_two_changes();
    }
    std::stable_sort(remedies_.begin(), remedies_.end(),
                     [this](const Remedy& a, const Remedy& b) { return cost_of(a) < cost_of(b); });
    return std::move(remedies_);
  }

 private:
  // What as many samples as the question's take.
  double cost_of(const Remedy& remedy) const {
    if (remedy.kind != RemedyKind::kSmallerBatch) return remedy.ms;
    return remedy.ms * static_cast<double>(problem().batch_size) /
           static_cast<double>(remedy.batch_size);
  }

  // Adds the remedy if the question has a plan with it.
  bool add_if_planned(Remedy remedy) {
    const auto ms = plan_with(remedy);
    if (!ms) return false;
    remedy.ms = *ms;
    remedies_.push_back(std::move(remedy));
    return true;
  }

  // The ms of a plan.
  std::optional<double> plan_with(const Remedy& remedy) {
    if (trials_left_-- <= 0) return std::nullopt;
    ShardingQuestion asked = question_;
    apply_remedy(remedy, scaled_, asked);
    const Trial trial = try_question(asked, context_);
    return trial.has_plan() ? std::optional(trial.ms) : std::nullopt;
  }

  Remedy of(RemedyKind kind) const {
    Remedy remedy;
    remedy.kind = kind;
    remedy.dropped = dropped_;
    return remedy;
  }

  bool is_proved() const { return run_.planning().outcome.status == SolveStatus::kInfeasible; }

  const PlanningProblem& problem() const { return question_.problem; }
  const std::vector<Storage>& devices() const { return problem().topology.devices; }

  // Of all memory, what the tables get.
  double share_left() const {
    const embedding::ReservationOptions& options = problem().reservation;
    const bool is_share = options.kind == ReservationKind::kHeuristical ||
                          options.kind == ReservationKind::kFixedPercentage ||
                          options.kind == ReservationKind::kInference;
    return is_share ? 1 - options.percentage : 1;
  }

  bool has_equal_ranks(Bytes Storage::*tier) const {
    return std::all_of(devices().begin(), devices().end(), [&](const Storage& device) {
      return device.*tier == devices().front().*tier;
    });
  }

  static bool is_droppable(const UserConstraint& constraint) {
    return !constraint.is_cap() && constraint.kind != ConstraintKind::kReservation;
  }

  std::vector<UserConstraint> droppable_constraints() const {
    std::vector<UserConstraint> all = find_constraints(question_);
    std::erase_if(all, [](const UserConstraint& constraint) { return !is_droppable(constraint); });
    return all;
  }

  // Each constraint of the conflict alone; where none of them alone is enough, all that the
  // question has.
  void try_without_constraints() {
    bool is_one_enough = false;
    for (const UserConstraint& constraint : conflict_.members) {
      if (is_droppable(constraint)) is_one_enough = try_without({constraint}) || is_one_enough;
    }
    const std::vector<UserConstraint> all = droppable_constraints();
    if (!is_one_enough && !all.empty()) try_without(all);
  }

  // No single change helps: constraints that must go whatever memory there is, or all of them, and
  // then one change more.
  void try_two_changes() {
    const std::vector<UserConstraint> all = droppable_constraints();
    if (all.empty()) return;
    ShardingQuestion uncapped = question_;
    for (const ConstraintKind cap : {ConstraintKind::kHbmCap, ConstraintKind::kDdrCap}) {
      drop_constraint({cap, {}, false}, uncapped);
    }
    const auto without = [&all](const std::vector<bool>& goes, ShardingQuestion asked) {
      for (std::size_t i = 0; i < all.size(); ++i) {
        if (goes[i]) drop_constraint(all[i], asked);
      }
      return asked;
    };
    const auto cause = math::find_least_cause(all.size(), [&](const std::vector<bool>& goes) {
      return trials_left_-- > 0 && try_question(without(goes, uncapped), context_).has_plan();
    });
    std::vector<bool> goes(all.size(), cause.empty());
    for (const std::size_t i : cause) goes[i] = true;
    std::vector<UserConstraint> dropped;
    for (std::size_t i = 0; i < all.size(); ++i) {
      if (goes[i]) dropped.push_back(all[i]);
    }
    const ShardingQuestion freed = without(goes, question_);
    const Result<ShardingRun> run = plan_tables(freed, context_.inner());
    if (!run) return;
    const TableConflict conflict = find_table_conflict(freed, context_);
    remedies_ = Remedies(freed, *run, conflict, scaled_, context_, std::move(dropped)).find();
  }

  bool try_without(const std::vector<UserConstraint>& constraints) {
    Remedy remedy = of(RemedyKind::kDroppedConstraint);
    remedy.dropped = constraints;
    return add_if_planned(std::move(remedy));
  }

  // Of every rank, in the tier that is short; where nothing is proved, in each tier.
  void try_memory() {
    const Explanation& explanation = run_.planning().outcome.explanation;
    if (!is_proved()) {
      try_memory(true);
      try_memory(false);
    } else if (explanation.missing > 0 || conflict_.cap) {
      try_memory(conflict_.cap ? *conflict_.cap == ConstraintKind::kHbmCap
                               : explanation.binding != "ddr");
    }
  }

  void try_memory(bool is_hbm) {
    const Explanation& explanation = run_.planning().outcome.explanation;
    Bytes Storage::*const tier = is_hbm ? &Storage::hbm : &Storage::ddr;
    if (!has_equal_ranks(tier)) return;
    const double left = is_hbm && run_.planning().reservation ? share_left() : 1;
    if (!(left > 0)) return;
    const Bytes now = devices().front().*tier;
    const auto missing = static_cast<double>(explanation.missing) / left;
    const auto each = missing / static_cast<double>(devices().size());
    std::vector<double> added;
    for (const double step : kSteps) added.push_back(each + step * static_cast<double>(now));
    added.push_back(missing);  // of one table, on a rank
    std::sort(added.begin(), added.end());
    for (const double bytes : added) {
      if (!(bytes > 0)) continue;
      if (!(static_cast<double>(now) + bytes < 0x1p60)) return;
      Remedy remedy = of(is_hbm ? RemedyKind::kMoreHbm : RemedyKind::kMoreDdr);
      remedy.bytes = readable(now + static_cast<Bytes>(std::ceil(bytes)));
      if (add_if_planned(std::move(remedy))) return;
    }
  }

  void try_ranks() {
    if (!scaled_) return;
    Remedy remedy = of(RemedyKind::kMoreRanks);
    const auto fits = [&](int count) {
      Remedy tried = remedy;
      tried.count = count;
      if (!scaled_->with(count)) return false;
      const auto ms = plan_with(tried);
      if (ms) remedy.ms = *ms;
      return ms.has_value();
    };
    int low = scaled_->now;
    int high = low + 1;
    while (!fits(high)) {
      low = high;
      high = scaled_->now + 2 * (high - scaled_->now);
      if (high > kMaxTimesRanks * scaled_->now || trials_left_ <= 0) return;
    }
    while (high - low > 1 && trials_left_ > 0) {
      const int middle = low + (high - low) / 2;
      (fits(middle) ? high : low) = middle;
    }
    remedy.count = high;
    remedies_.push_back(std::move(remedy));
  }

  // What is reserved of HBM may be less.
  void try_share() {
    const Explanation& explanation = run_.planning().outcome.explanation;
    const double reserved = 1 - share_left();
    if (explanation.binding != "hbm" || explanation.missing == 0 || !(reserved > 0)) return;
    const double each = static_cast<double>(explanation.missing) /
                        static_cast<double>(devices().size()) /
                        static_cast<double>(devices().front().hbm);
    double before = -1;
    for (const double step : {0., .005, .02, .05}) {
      Remedy remedy = of(RemedyKind::kSmallerShare);
      remedy.share = std::floor((reserved - each - step) * 1000) / 1000;
      if (remedy.share < 0 || remedy.share == before) continue;
      before = remedy.share;
      if (add_if_planned(std::move(remedy))) return;
    }
  }

  // Where the reservation leaves nothing.
  void try_uncounted_dense() {
    if (run_.planning().reservation) return;
    Remedy remedy = of(RemedyKind::kUncountedDense);
    remedy.share = problem().reservation.percentage;
    add_if_planned(std::move(remedy));
  }

  // The largest of some estimates of the dense part that fits.
  void try_smaller_dense() {
    if (run_.planning().reservation) return;
    const auto shortage = embedding::find_reservation_shortage(
        problem().cost_model, problem().reservation, problem().topology, problem().model,
        problem().batch_size);
    if (!shortage || shortage->dense < kDenseParts) return;
    for (Bytes part = kDenseParts - 1; part > 0; part /= 2) {
      Remedy remedy = of(RemedyKind::kSmallerDense);
      remedy.bytes = shortage->dense / kDenseParts * part;
      if (add_if_planned(std::move(remedy))) return;
    }
  }

  void try_widths() {
    const auto& causes = run_.balanced.causes;
    const bool is_cause = std::any_of(causes.begin(), causes.end(), [](const NoPlanCause& cause) {
      return cause.kind == NoPlanCauseKind::kWidths;
    });
    const bool may_help = !is_proved() && question_.balanced.max_column_blocks == 0;
    if (is_cause || may_help) add_if_planned(of(RemedyKind::kAllWidths));
  }

  // The largest of some batches that fits, by bisection.
  void try_batch() {
    const std::int64_t now = problem().batch_size;
    if (now < 2) return;
    const std::int64_t parts = std::min<std::int64_t>(kBatchParts, now);
    Remedy best = of(RemedyKind::kSmallerBatch);
    std::int64_t low = 0;
    std::int64_t high = parts;
    const auto fits = [&](std::int64_t part) {
      Remedy tried = best;
      tried.batch_size = now / parts * part + now % parts * part / parts;
      const auto ms = plan_with(tried);
      if (!ms) return false;
      best = tried;
      best.ms = *ms;
      return true;
    };
    if (!fits(1)) return;
    low = 1;
    while (high - low > 1 && trials_left_ > 0) {
      const std::int64_t middle = low + (high - low) / 2;
      (fits(middle) ? low : high) = middle;
    }
    remedies_.push_back(std::move(best));
  }

  template <class Suits>
  std::vector<TablePlace> largest_tables(const Suits& suits) const {
    std::vector<TablePlace> places;
    for (const Module& module : problem().model.modules) {
      for (const Table& table : module.tables) {
        if (!suits(module, table)) continue;
        const auto shape = embedding::table_shape(module, table);
        places.push_back({embedding::table_fqn(module.path, table.name), shape ? shape->bytes : 0});
      }
    }
    std::stable_sort(places.begin(), places.end(),
                     [](const TablePlace& a, const TablePlace& b) { return a.bytes > b.bytes; });
    return places;
  }

  // The fewest of the largest tables that need the change.
  void try_tables(RemedyKind kind, const std::vector<TablePlace>& places) {
    if (places.empty()) return;
    Remedy best = of(kind);
    const auto fits = [&](std::size_t count) {
      Remedy tried = of(kind);
      for (std::size_t i = 0; i < count; ++i) tried.tables.push_back(places[i].fqn);
      const auto ms = plan_with(tried);
      if (!ms) return false;
      best = std::move(tried);
      best.ms = *ms;
      return true;
    };
    std::size_t low = 0;
    std::size_t high = 1;
    while (!fits(high)) {
      if (high == places.size() || trials_left_ <= 0) return;
      low = high;
      high = std::min(2 * high, places.size());
    }
    while (high - low > 1 && trials_left_ > 0) {
      const std::size_t middle = low + (high - low) / 2;
      (fits(middle) ? high : low) = middle;
    }
    remedies_.push_back(std::move(best));
  }

  void try_data_types() {
    try_tables(RemedyKind::kHalfPrecision, largest_tables([](const Module&, const Table& table) {
                 return table.data_type == DataType::kFp32 && !table.element_size;
               }));
  }

  void try_optimizers() {
    const Optimizer all = problem().model.optimizer.value_or(Optimizer::kNone);
    try_tables(RemedyKind::kRowWiseOptimizer,
               largest_tables([all](const Module&, const Table& table) {
                 const Optimizer now = table.optimizer.value_or(all);
                 return now == Optimizer::kAdam || now == Optimizer::kOther;
               }));
  }

  void try_key_value() {
    const bool has_ssd = std::all_of(devices().begin(), devices().end(),
                                     [](const Storage& device) { return device.ssd > 0; });
    if (!has_ssd) return;
    try_tables(RemedyKind::kKeyValueKernel, largest_tables([](const Module&, const Table& table) {
                 return !table.dynamic_embedding;
               }));
  }

  const ShardingQuestion& question_;
  const ShardingRun& run_;
  const TableConflict& conflict_;
  const std::optional<ScaledProblem>& scaled_;
  const RunContext& context_;
  std::vector<UserConstraint> dropped_;
  int trials_left_ = 0;
  std::vector<Remedy> remedies_;
};

// Those of the model that the remedy names.
template <class Change>
void change_tables(const std::vector<std::string>& fqns, PlanningProblem& problem,
                   const Change& change) {
  for (Module& module : problem.model.modules) {
    for (Table& table : module.tables) {
      const std::string fqn = embedding::table_fqn(module.path, table.name);
      if (std::find(fqns.begin(), fqns.end(), fqn) != fqns.end()) change(module, table);
    }
  }
}

}  // namespace

void apply_remedy(const Remedy& remedy, const std::optional<ScaledProblem>& scaled,
                  ShardingQuestion& question) {
  PlanningProblem& problem = question.problem;
  if (remedy.kind == RemedyKind::kMoreRanks) problem = *scaled->with(remedy.count);
  for (const UserConstraint& constraint : remedy.dropped) drop_constraint(constraint, question);
  switch (remedy.kind) {
    case RemedyKind::kMoreHbm:
    case RemedyKind::kMoreDdr:
      for (Storage& device : problem.topology.devices) {
        (remedy.kind == RemedyKind::kMoreHbm ? device.hbm : device.ddr) = remedy.bytes;
      }
      return;
    case RemedyKind::kSmallerShare:
      problem.reservation.percentage = remedy.share;
      return;
    case RemedyKind::kUncountedDense:
      problem.reservation = {};
      problem.reservation.kind = ReservationKind::kFixedPercentage;
      problem.reservation.percentage = remedy.share;
      return;
    case RemedyKind::kSmallerDense:
      problem.reservation.dense_tensor_estimate = remedy.bytes;
      return;
    case RemedyKind::kSmallerBatch:
      problem.batch_size = remedy.batch_size;
      return;
    case RemedyKind::kAllWidths:
      question.balanced.max_column_blocks = kEveryWidth;
      return;
    case RemedyKind::kHalfPrecision:
      return change_tables(remedy.tables, problem,
                           [](Module&, Table& table) { table.data_type = DataType::kFp16; });
    case RemedyKind::kRowWiseOptimizer:
      return change_tables(remedy.tables, problem, [](Module&, Table& table) {
        table.optimizer = Optimizer::kRowWiseAdagrad;
      });
    case RemedyKind::kKeyValueKernel:
      return change_tables(remedy.tables, problem, [&problem](Module& module, Table& table) {
        constraints_of_table(problem, module, table).compute_kernels = {ComputeKernel::kKeyValue};
      });
    case RemedyKind::kMoreRanks:
    case RemedyKind::kDroppedConstraint:
      return;
  }
}

std::vector<Remedy> find_remedies(const ShardingQuestion& question, const ShardingRun& run,
                                  const TableConflict& conflict,
                                  const std::optional<ScaledProblem>& scaled,
                                  const RunContext& context) {
  return Remedies(question, run, conflict, scaled, context).find();
}

}  // namespace plimsoll::study
