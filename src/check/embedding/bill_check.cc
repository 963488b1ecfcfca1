#include "check/embedding/bill_check.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <string>
#include <string_view>
#include <utility>

#include "check/tolerances.h"

namespace plimsoll::check {
namespace {

using embedding::Perf;
using embedding::StorageParts;
using topology::Storage;

constexpr std::array<std::pair<std::string_view, Bytes Storage::*>, 3> kTiers{
    {{"hbm", &Storage::hbm}, {"ddr", &Storage::ddr}, {"ssd", &Storage::ssd}}};
constexpr std::array<std::pair<std::string_view, Storage StorageParts::*>, 4> kCauses{
    {{"weights", &StorageParts::weights},
     {"optimizer_state", &StorageParts::optimizer_state},
     {"cache_state", &StorageParts::cache_state},
     {"input_output", &StorageParts::input_output}}};
constexpr std::array<std::pair<std::string_view, double Perf::*>, 5> kComponents{
    {{"fwd_compute", &Perf::fwd_compute},
     {"fwd_comms", &Perf::fwd_comms},
     {"bwd_compute", &Perf::bwd_compute},
     {"bwd_comms", &Perf::bwd_comms},
     {"prefetch_compute", &Perf::prefetch_compute}}};

void add_shards(const ShardingReport& report, Bill& bill) {
  for (const auto& [tier, bytes_of] : kTiers) {
    std::vector<Bytes>& total = bill.bytes[std::string(tier)];
    for (const Storage& used : report.used) total.push_back(used.*bytes_of);
    for (const auto& [cause, part_of] : kCauses) {
      std::vector<Bytes> bytes;
      for (const StorageParts& parts : report.parts) bytes.push_back(parts.*part_of.*bytes_of);
      const bool is_any = std::any_of(bytes.begin(), bytes.end(), [](Bytes b) { return b != 0; });
      if (is_any) bill.bytes[std::string(tier) + "_" + std::string(cause)] = std::move(bytes);
    }
  }
}

void add_capacity(const topology::Topology& topology, Bill& bill) {
  for (const auto& [tier, bytes_of] : kTiers) {
    std::vector<Bytes>& capacity = bill.bytes["capacity_" + std::string(tier)];
    for (const Storage& device : topology.devices) capacity.push_back(device.*bytes_of);
  }
}

void add_times(const ShardingReport& report, Bill& bill) {
  for (const auto& [name, ms_of] : kComponents) {
    std::vector<double>& ms = bill.ms[std::string(name)];
    for (const Perf& perf : report.perf) ms.push_back(perf.*ms_of);
  }
}

Bytes sum_of(const std::optional<Storage>& storage) {
  return storage ? storage->hbm + storage->ddr : 0;
}

bool agrees(Bytes a, Bytes b) { return a == b; }
bool agrees(double a, double b) { return is_close(a, b); }

template <class Entries>
void compare(const Entries& stated, const Entries& found, std::string_view unit,
             std::vector<Finding>& violations) {
  const auto add = [&](std::optional<int> rank, std::string message) {
    violations.push_back({FindingCode::kBillMismatch, "", find_unit(FindingUnit::kRank, rank), "",
                          "", std::move(message)});
  };
  for (const auto& [name, values] : found) {
    if (!stated.contains(name)) add(std::nullopt, fmt::format("the bill leaves out {}", name));
  }
  for (const auto& [name, values] : stated) {
    const auto right = found.find(name);
    if (right == found.end()) {
      add(std::nullopt, fmt::format("the bill names {}, which does not exist", name));
      continue;
    }
    if (values.size() != right->second.size()) {
      add(std::nullopt, fmt::format("the bill's {} has {} entries for {} ranks", name,
                                    values.size(), right->second.size()));
      continue;
    }
    for (std::size_t rank = 0; rank < values.size(); ++rank) {
      if (agrees(values[rank], right->second[rank])) continue;
      add(static_cast<int>(rank),
          fmt::format("the bill's {} of rank {} is stated as {} {}, but is {}", name, rank,
                      values[rank], unit, right->second[rank]));
      break;
    }
  }
}

}  // namespace

Result<Bill> make_judges_bill(const embedding::PlanningProblem& problem,
                              const ShardingReport& report) {
  PLIMSOLL_ASSIGN(const embedding::Reservation reservation,
                  embedding::reserve(problem.cost_model, problem.reservation, problem.topology,
                                     problem.model, problem.batch_size));
  Bill bill;
  add_shards(report, bill);
  add_capacity(problem.topology, bill);
  using embedding::ReservationKind;
  const ReservationKind kind = reservation.options.kind;
  const bool is_kjt_taken =
      kind != ReservationKind::kFixedPercentage && kind != ReservationKind::kFixedAbsolute;
  const Bytes dense = sum_of(reservation.dense);
  const Bytes kjt = is_kjt_taken ? sum_of(reservation.kjt) : 0;
  bill.bytes["dense"].assign(report.used.size(), dense);
  bill.bytes["kjt"].assign(report.used.size(), kjt);
  for (std::size_t rank = 0; rank < report.used.size(); ++rank) {
    const Storage taken = problem.topology.devices[rank] - reservation.topology.devices[rank];
    bill.bytes["reserve"].push_back(taken.hbm + taken.ddr - dense - kjt);
  }
  add_times(report, bill);
  if (problem.cost_model.input_dist) {
    for (const Perf& perf : report.perf) {
      bill.ms["input_dist_comms"].push_back(perf.input_dist_comms);
    }
  }
  bill.ms["total"] = report.rank_ms;
  return bill;
}

Bill make_judges_bill(const topology::Topology& topology, bool has_components,
                      const ShardingReport& report) {
  Bill bill;
  add_shards(report, bill);
  add_capacity(topology, bill);
  if (has_components) add_times(report, bill);
  bill.ms["total"] = report.rank_ms;
  return bill;
}

std::vector<Finding> check_extrapolated(const std::vector<embedding::Extrapolation>& stated,
                                        const std::vector<embedding::Extrapolation>& found) {
  const auto is_in = [](const std::vector<embedding::Extrapolation>& list,
                        const embedding::Extrapolation& wanted) {
    return std::any_of(list.begin(), list.end(), [&](const embedding::Extrapolation& e) {
      return e.variable == wanted.variable && e.of == wanted.of &&
             is_close(e.value, wanted.value) && is_close(e.least, wanted.least) &&
             is_close(e.most, wanted.most);
    });
  };
  std::vector<Finding> violations;
  const auto add = [&](const embedding::Extrapolation& e, std::string_view what) {
    violations.push_back(
        {FindingCode::kTimesMismatch, "", std::nullopt, "", "",
         fmt::format("that {} of {} is extrapolated is {}", e.variable, e.of, what)});
  };
  for (const embedding::Extrapolation& e : stated) {
    if (!is_in(found, e)) add(e, "said, and not so");
  }
  for (const embedding::Extrapolation& e : found) {
    if (!is_in(stated, e)) add(e, "not said, or with other figures");
  }
  if (violations.empty() && stated.size() != found.size()) {
    add(stated.front(), "said more than once");
  }
  return violations;
}

std::vector<Finding> check_bill(const Bill& stated, const Bill& found) {
  std::vector<Finding> violations;
  compare(stated.bytes, found.bytes, "bytes", violations);
  compare(stated.ms, found.ms, "ms", violations);
  return violations;
}

}  // namespace plimsoll::check
