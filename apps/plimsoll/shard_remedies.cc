#include "plimsoll/shard_remedies.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <optional>

#include "plimsoll/embedding/planner.h"

namespace plimsoll::app {
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

// "8x28GiB" as 8 and a way to name another number; nothing of files and names without a number.
struct Count {
  int now = 0;
  std::string before, after;
  std::string with(int count) const { return fmt::format("{}{}{}", before, count, after); }
};

std::optional<Count> find_count(const std::string& on) {
  const auto number = [](const std::string& text) -> std::optional<int> {
    const bool is_number =
        !text.empty() && text.size() < 7 && text.find_first_not_of("0123456789") == text.npos;
    return is_number ? std::optional(std::stoi(text)) : std::nullopt;
  };
  if (const std::size_t x = on.find('x'); x != on.npos) {
    if (const auto count = number(on.substr(0, x))) return Count{*count, "", on.substr(x)};
  }
  const std::size_t colon = on.rfind(':');
  if (colon == on.npos) {
    const bool is_file = on.find('/') != on.npos || on.find(".json") != on.npos || on == "-";
    return is_file ? std::nullopt : std::optional(Count{1, on + ":", ""});
  }
  if (const auto count = number(on.substr(colon + 1))) {
    return Count{*count, on.substr(0, colon + 1), ""};
  }
  return std::nullopt;
}

// A size that reads well, not below the one given.
std::pair<Bytes, std::string> readable(Bytes bytes) {
  if (bytes < kGiB) {
    const Bytes mib = (bytes + kMiB - 1) / kMiB;
    return {mib * kMiB, fmt::format("{}MiB", mib)};
  }
  const Bytes eighths = (bytes + kGiB / 8 - 1) / (kGiB / 8);
  return {eighths * (kGiB / 8), fmt::format("{}GiB", static_cast<double>(eighths) / 8)};
}

class Remedies {
 public:
  Remedies(const ShardFlags& flags, const ShardRequest& request, const ShardRun& run,
           const RunContext& context)
      : flags_(flags), request_(request), run_(run), context_(context) {}

  std::vector<std::string> find() {
    const embedding::PlanningResult& planning = run_.planning();
    if (planning.outcome.status != SolveStatus::kInfeasible) return {};
    for (const NoPlanCause& cause : run_.balanced.causes) name(cause);
    if (!planning.reservation) name_reservation();
    if (!request_.dump) {
      try_memory();
      try_ranks();
      try_share();
    }
    return std::move(remedies_);
  }

 private:
  void name(const NoPlanCause& cause) {
    switch (cause.kind) {
      case NoPlanCauseKind::kRules:
        remedies_.push_back(
            fmt::format("loosen the rules of --rules {}",
                        flags_.rules.empty() ? std::string("(recorded)") : flags_.rules));
        return;
      case NoPlanCauseKind::kConstraints:
        remedies_.push_back(flags_.planning.constraints.empty()
                                ? "loosen the constraints of the model, or overrule them by "
                                  "--constraints"
                                : "loosen the constraints of --constraints " +
                                      flags_.planning.constraints);
        return;
      case NoPlanCauseKind::kHazards:
        return;  // the command line allows them
      case NoPlanCauseKind::kNumerics:
        remedies_.emplace_back("leave out --strict-numerics");
        return;
      case NoPlanCauseKind::kWidths:
        remedies_.emplace_back("--widths all");
        return;
    }
  }

  // Beside more memory: what is reserved is named by flags.
  void name_reservation() {
    remedies_.push_back(fmt::format("--batch-size below {}, which reserves less for input ids",
                                    request_.problem.batch_size));
    remedies_.emplace_back(
        "--dense-tensor-estimate BYTES, what the dense part really takes of a rank, or "
        "--reservation fixed_percentage:SHARE, which does not count it (FSDP shards it)");
  }

  bool is_stopped() const { return context_.is_cancelled() || context_.is_past_deadline(); }

  bool has_plan(const PlanningProblem& problem) const {
    if (is_stopped()) return false;
    SearchOptions limits = request_.limits;
    limits.time_limit_s.reset();
    limits.effort = run_.is_balanced ? kTrialEffort : kTrialProposals;
    const RunContext silent{context_.deadline, context_.cancel, {}};
    if (!run_.is_balanced) {
      const auto found = embedding::plan_like_torchrec(problem, request_.reference, limits, silent);
      return found && found->outcome.plan;
    }
    embedding::BalancedOptions options = request_.balanced;
    options.uses_reference = options.certifies = options.explains = false;
    options.keeps_reference_rating = false;
    options.stops.clear();
    const auto found = embedding::plan_balanced(problem, options, limits, silent);
    return found && found->planning.outcome.plan;
  }

  const PlanningProblem& problem() const { return request_.problem; }
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
      const auto [cap, text] = readable(now + static_cast<Bytes>(std::ceil(bytes)));
      PlanningProblem larger = problem();
      for (Storage& device : larger.topology.devices) (is_hbm ? device.hbm : device.ddr) = cap;
      if (!has_plan(larger)) continue;
      remedies_.push_back(
          fmt::format("{} {}: a plan fits", is_hbm ? "--hbm-cap" : "--ddr-cap", text));
      return;
    }
  }

  bool has_plan_on(const std::string& on) const {
    PlanningFlags flags = flags_.planning;
    flags.on = on;
    const auto larger = make_problem(flags);
    return larger && has_plan(*larger);
  }

  void try_ranks() {
    const auto count = find_count(flags_.planning.on);
    if (!count || is_large() || !flags_.replay.empty() || flags_.planning.model == "-") return;
    int low = count->now;
    int high = 0;
    for (int more = 1; high == 0; more *= 2) {
      const int tried = count->now + more;
      if (tried > kMaxTimesRanks * count->now || is_stopped()) return;
      (has_plan_on(count->with(tried)) ? high : low) = tried;
    }
    while (high - low > 1) {
      const int middle = low + (high - low) / 2;
      (has_plan_on(count->with(middle)) ? high : low) = middle;
    }
    remedies_.push_back(fmt::format("--on {}: a plan fits", count->with(high)));
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
      remedies_.push_back(fmt::format("--reservation {}:{}: a plan fits",
                                      to_string(problem().reservation.kind), share));
      return;
    }
  }

  const ShardFlags& flags_;
  const ShardRequest& request_;
  const ShardRun& run_;
  const RunContext& context_;
  std::vector<std::string> remedies_;
};

}  // namespace

std::vector<std::string> find_remedies(const ShardFlags& flags, const ShardRequest& request,
                                       const ShardRun& run, const RunContext& context) {
  return Remedies(flags, request, run, context).find();
}

}  // namespace plimsoll::app
