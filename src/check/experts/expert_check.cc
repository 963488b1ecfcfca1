#include "plimsoll/check/expert_check.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <numeric>
#include <set>
#include <utility>

#include "check/tolerances.h"

namespace plimsoll::check {
namespace {

using Code = FindingCode;
using experts::ExpertModel;
using experts::ExpertPlan;

class ExpertJudge {
 public:
  ExpertJudge(const ExpertModel& model, const StatedExperts& stated, double tolerance)
      : model_(model), stated_(stated), tolerance_(tolerance) {}

  ExpertReport judge() {
    if (!has_shape()) {
      refute(report_);
      return std::move(report_);
    }
    for (int layer = 0; layer < model_.num_layers(); ++layer) judge_layer(layer);
    judge_sums();
    judge_status();
    judge_moves();
    judge_before();
    if (has_bound_) {
      report_.certificate = {CertificateStatus::kProved, "layer by layer, from the loads alone"};
    }
    refute(report_);
    return std::move(report_);
  }

 private:
  void add(Code code, std::optional<int> layer, std::string message) {
    report_.findings.push_back(
        {code, "", find_unit(FindingUnit::kLayer, layer), "", "", std::move(message)});
  }

  bool has_shape() {
    const ExpertPlan& plan = stated_.plan;
    if (plan.num_ranks != model_.num_ranks) {
      add(Code::kShape, {},
          fmt::format("it is for {} ranks, not {}", plan.num_ranks, model_.num_ranks));
    }
    if (std::ssize(plan.slots) != model_.num_layers()) {
      add(Code::kShape, {},
          fmt::format("it has {} layers, not {}", plan.slots.size(), model_.num_layers()));
    }
    for (std::size_t layer = 0; layer < plan.slots.size(); ++layer) {
      const std::vector<int>& slots = plan.slots[layer];
      const bool is_known = std::all_of(slots.begin(), slots.end(), [&](int expert) {
        return expert >= 0 && expert < model_.num_experts();
      });
      if (std::ssize(slots) == model_.num_slots && is_known) continue;
      add(Code::kShape, static_cast<int>(layer),
          is_known ? fmt::format("it has {} slots, not {}", slots.size(), model_.num_slots)
                   : std::string("a slot names no expert"));
    }
    return report_.is_right();
  }

  std::map<int, std::vector<int>> ranks_by_expert(const std::vector<int>& slots) const {
    std::map<int, std::vector<int>> ranks_of;
    const int width = model_.num_slots / model_.num_ranks;
    for (int slot = 0; slot < model_.num_slots; ++slot) {
      ranks_of[slots[slot]].push_back(slot / width);
    }
    return ranks_of;
  }

  double slowest_of(const std::vector<double>& loads,
                    const std::map<int, std::vector<int>>& ranks_of) const {
    std::vector<double> sums(static_cast<std::size_t>(model_.num_ranks), 0);
    for (const auto& [expert, ranks] : ranks_of) {
      for (const int rank : ranks) sums[rank] += loads[expert] / static_cast<double>(ranks.size());
    }
    return *std::max_element(sums.begin(), sums.end());
  }

  void judge_layer(int layer) {
    const std::vector<int>& slots = stated_.plan.slots[static_cast<std::size_t>(layer)];
    const std::map<int, std::vector<int>> ranks_of = ranks_by_expert(slots);
    for (int expert = 0; expert < model_.num_experts(); ++expert) {
      if (!ranks_of.contains(expert)) {
        add(Code::kMissing, layer, fmt::format("expert {} is on no rank", expert));
      }
    }
    if (model_.num_groups % model_.num_hosts == 0) judge_groups(layer, ranks_of);
    const std::vector<double>& loads = model_.loads[static_cast<std::size_t>(layer)];
    const double slowest = slowest_of(loads, ranks_of);
    report_.objective += slowest;
    const auto index = static_cast<std::size_t>(layer);
    if (index < stated_.slowest_loads.size() && !is_close(stated_.slowest_loads[index], slowest)) {
      add(Code::kLoadMismatch, layer,
          fmt::format("its slowest rank is stated to carry {}, but carries {}",
                      stated_.slowest_loads[index], slowest));
    }
    if (index >= stated_.lower_bounds.size()) return;
    const double bound = stated_.lower_bounds[index];
    if (!is_proved(loads, bound * (1 - kTolerance))) {
      add(Code::kBoundNotProved, layer,
          fmt::format("that no slowest rank is below {} is not proved", bound));
    }
  }

  void judge_groups(int layer, const std::map<int, std::vector<int>>& ranks_of) {
    const int size = model_.num_experts() / model_.num_groups;
    const int a_host = model_.num_ranks / model_.num_hosts;
    std::map<int, std::set<int>> hosts_of;  // by group
    for (const auto& [expert, ranks] : ranks_of) {
      for (const int rank : ranks) hosts_of[expert / size].insert(rank / a_host);
    }
    std::map<int, int> groups_of;  // by host
    for (const auto& [group, hosts] : hosts_of) {
      if (hosts.size() > 1) {
        add(Code::kGroupSplit, layer, fmt::format("group {} is on several hosts", group));
        return;
      }
      ++groups_of[*hosts.begin()];
    }
    for (const auto& [host, count] : groups_of) {
      if (count == model_.num_groups / model_.num_hosts) continue;
      add(Code::kGroupSplit, layer, fmt::format("host {} has {} groups", host, count));
      return;
    }
  }

  // Does every placement have a rank that carries at least that?
  bool is_proved(const std::vector<double>& loads, double bound) const {
    if (std::isnan(bound)) return false;
    const double all = std::accumulate(loads.begin(), loads.end(), 0.0);
    if (bound <= all / model_.num_ranks) return true;
    // Replicas of less than the bound: experts need more slots than there are.
    double slots = 0;
    for (const double load : loads) slots += std::max(1.0, std::ceil(load / bound));
    if (slots > model_.num_slots) return true;
    if (model_.num_groups % model_.num_hosts != 0) return false;
    const int a_host = model_.num_ranks / model_.num_hosts;
    return bound * a_host <= heaviest_host(loads);
  }

  // Of the k + 1st, 2k + 1st, ... heaviest groups one host has so many, the lightest at least.
  double heaviest_host(const std::vector<double>& loads) const {
    const int size = model_.num_experts() / model_.num_groups;
    std::vector<double> groups(static_cast<std::size_t>(model_.num_groups), 0);
    for (std::size_t e = 0; e < loads.size(); ++e)
      groups[e / static_cast<std::size_t>(size)] += loads[e];
    std::sort(groups.begin(), groups.end());
    const std::size_t num_groups = groups.size();
    const auto num_hosts = static_cast<std::size_t>(model_.num_hosts);
    const std::size_t a_host = num_groups / num_hosts;
    double most = 0;
    for (std::size_t together = 1; together <= a_host; ++together) {
      const std::size_t count = num_hosts * (together - 1) + 1;  // of the heaviest
      double sum = 0;
      for (std::size_t i = 0; i < together; ++i) sum += groups[num_groups - count + i];
      for (std::size_t i = 0; i + together < a_host; ++i) sum += groups[i];
      most = std::max(most, sum);
    }
    return most;
  }

  void judge_sums() {
    if (stated_.objective && !is_close(*stated_.objective, report_.objective)) {
      add(Code::kLoadMismatch, {},
          fmt::format("its slowest ranks are stated to carry {} in all, but carry {}",
                      *stated_.objective, report_.objective));
    }
    if (!stated_.lower_bound) return;
    const double sum =
        std::accumulate(stated_.lower_bounds.begin(), stated_.lower_bounds.end(), 0.0);
    if (std::ssize(stated_.lower_bounds) != model_.num_layers() ||
        !(*stated_.lower_bound <= sum * (1 + kTolerance))) {
      add(Code::kBoundNotProved, {}, "the stated bound is above that of its layers");
    }
    has_bound_ = true;
  }

  void judge_status() {
    const Certificate certificate{report_.objective, stated_.lower_bound, {}};
    const std::optional<double> gap = certificate.gap();
    if (stated_.gap && !(gap && std::abs(*stated_.gap - *gap) <= kTolerance * (1 + *gap))) {
      add(Code::kStatusMismatch, {}, "the gap is not that of load and bound");
    }
    if (stated_.status == SolveStatus::kInfeasible) {
      add(Code::kStatusMismatch, {}, "nothing is said to fit, and there is a plan");
    }
    if (stated_.status == SolveStatus::kOptimal && !(gap && *gap <= tolerance_)) {
      add(Code::kStatusMismatch, {}, "the plan is said to be optimal, and its bound leaves a gap");
    }
  }

  // The old plan's load, where it is one of this model.
  void judge_before() {
    if (!stated_.before_load) return;
    double sum = 0;
    bool is_of_model = stated_.before && stated_.before->num_ranks == model_.num_ranks &&
                       std::ssize(stated_.before->slots) == model_.num_layers();
    for (std::size_t layer = 0; is_of_model && layer < model_.loads.size(); ++layer) {
      const std::vector<int>& slots = stated_.before->slots[layer];
      is_of_model = std::ssize(slots) == model_.num_slots &&
                    std::all_of(slots.begin(), slots.end(), [&](int expert) {
                      return expert >= 0 && expert < model_.num_experts();
                    });
      if (is_of_model) sum += slowest_of(model_.loads[layer], ranks_by_expert(slots));
    }
    if (is_of_model && is_close(sum, *stated_.before_load)) return;
    add(Code::kLoadMismatch, {},
        is_of_model
            ? fmt::format("the old plan is stated to carry {}, but carries {}",
                          *stated_.before_load, sum)
            : std::string("the load of an old plan is stated that the model does not have"));
  }

  // Experts that a rank holds and did not hold, layer by layer.
  void judge_moves() {
    if (!stated_.before) {
      if (stated_.moved) add(Code::kMoveMismatch, {}, "copies are stated, and no plan before");
      return;
    }
    const ExpertPlan& before = *stated_.before;
    const auto held = [](const ExpertPlan& plan, std::size_t layer) {
      std::set<std::pair<std::size_t, int>> pairs;  // rank, expert
      if (layer >= plan.slots.size() || plan.num_ranks < 1) return pairs;
      const std::vector<int>& slots = plan.slots[layer];
      const std::size_t width =
          std::max<std::size_t>(slots.size() / static_cast<std::size_t>(plan.num_ranks), 1);
      for (std::size_t s = 0; s < slots.size(); ++s) pairs.emplace(s / width, slots[s]);
      return pairs;
    };
    std::int64_t moved = 0;
    for (std::size_t layer = 0; layer < stated_.plan.slots.size(); ++layer) {
      const auto was = held(before, layer);
      for (const auto& pair : held(stated_.plan, layer)) moved += was.contains(pair) ? 0 : 1;
    }
    if (stated_.moved && *stated_.moved != moved) {
      add(Code::kMoveMismatch, {},
          fmt::format("{} replicas are stated as copied, but {} are", *stated_.moved, moved));
    }
    if (stated_.max_moved && moved > *stated_.max_moved) {
      add(Code::kMoveMismatch, {},
          fmt::format("{} replicas are copied, and {} may be", moved, *stated_.max_moved));
    }
  }

  const ExpertModel& model_;
  const StatedExperts& stated_;
  double tolerance_;
  ExpertReport report_;
  bool has_bound_ = false;
};

}  // namespace

void refute(ExpertReport& report) {
  if (report.is_right()) return;
  report.certificate = {CertificateStatus::kRefuted, report.violations().front().message};
}

ExpertReport check_experts(const ExpertModel& model, const StatedExperts& stated,
                           double tolerance) {
  return ExpertJudge(model, stated, tolerance).judge();
}

}  // namespace plimsoll::check
