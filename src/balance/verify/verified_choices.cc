#include "balance/verify/verified_choices.h"

#include <algorithm>
#include <map>
#include <numeric>

#include "core/check.h"

namespace plimsoll::balance {
namespace {

// Where all ranks are one host, blocks are uniform: n of them, n times as large.
PlacementProblem without_blocks_of_all(PlacementProblem problem) {
  if (problem.num_hosts() != 1 || problem.ranks_per_host != problem.num_ranks) return problem;
  for (Unit& unit : problem.units) {
    for (UnitChoice& choice : unit.choices) {
      if (choice.spread != Spread::kHost) continue;
      choice.spread = Spread::kUniform;
      for (PieceRun& run : choice.runs) {
        for (double& load : run.load) load *= static_cast<double>(choice.num_blocks);
        for (int r = 0; r < problem.num_resources(); ++r) run.bytes[r] *= choice.num_blocks;
      }
      choice.num_blocks = 1;
    }
  }
  return problem;
}

bool is_no_heavier(const PieceRun& a, const PieceRun& b) {
  return std::equal(a.load.begin(), a.load.end(), b.load.begin(), b.load.end(),
                    [](double x, double y) { return x <= y; }) &&
         a.bytes.is_at_most(b.bytes);
}

// Could `by` stand wherever the choice stands, piece by piece no heavier, for no further cause?
bool can_replace(const UnitChoice& by, const UnitChoice& choice) {
  if (by.spread != choice.spread || by.num_blocks != choice.num_blocks ||
      (by.distinct_ranks && !choice.distinct_ranks) ||
      !std::includes(choice.causes.begin(), choice.causes.end(), by.causes.begin(),
                     by.causes.end())) {
    return false;
  }
  std::size_t i = 0;
  std::size_t j = 0;
  std::int64_t done_i = 0;  // pieces of the run at hand
  std::int64_t done_j = 0;
  while (i < by.runs.size() && j < choice.runs.size()) {
    if (!is_no_heavier(by.runs[i], choice.runs[j])) return false;
    const std::int64_t step = std::min(by.runs[i].count - done_i, choice.runs[j].count - done_j);
    done_i += step;
    done_j += step;
    if (done_i == by.runs[i].count) ++i, done_i = 0;
    if (done_j == choice.runs[j].count) ++j, done_j = 0;
  }
  return i == by.runs.size() && j == choice.runs.size();
}

// A choice that another can replace is in no better placement, and bounds by contents are lower
// with it: a unit could fill a rank twice. `index`: where the others stood.
PlacementProblem without_replaceable(PlacementProblem problem,
                                     std::vector<std::vector<int>>& index) {
  for (Unit& unit : problem.units) {
    std::vector<int> kept;
    for (int c = 0; c < std::ssize(unit.choices); ++c) {
      const UnitChoice& choice = unit.choices[c];
      const auto beats = [&](int other) { return can_replace(unit.choices[other], choice); };
      if (std::any_of(kept.begin(), kept.end(), beats)) continue;
      std::erase_if(kept, [&](int other) { return can_replace(choice, unit.choices[other]); });
      kept.push_back(c);
    }
    std::vector<UnitChoice> choices;
    for (const int c : kept) choices.push_back(std::move(unit.choices[c]));
    unit.choices = std::move(choices);
    index.push_back(std::move(kept));
  }
  return problem;
}

}  // namespace

VerifiedChoices::VerifiedChoices(const PlacementProblem& problem,
                                 const std::vector<int>& kind_of_rank)
    : problem_(without_replaceable(without_blocks_of_all(problem), index_)),
      kind_of_rank_(kind_of_rank) {
  PLIMSOLL_CHECK(kind_of_rank.size() == static_cast<std::size_t>(problem.num_ranks),
                 "every rank has a kind");
  PLIMSOLL_CHECK(
      std::all_of(kind_of_rank.begin(), kind_of_rank.end(), [](int kind) { return kind >= 0; }),
      "no kind is negative");
  for (const int kind : kind_of_rank) num_kinds_ = std::max(num_kinds_, kind + 1);
  find_profiles();
}

int VerifiedChoices::host_of(int rank) const {
  const int host = rank / problem_.ranks_per_host;
  return host < problem_.num_hosts() ? host : -1;
}

Bytes VerifiedChoices::room_of(int rank, int resource) const {
  const int host = host_of(rank);
  if (!problem_.resources[resource].is_pooled || host < 0) return problem_.caps[rank][resource];
  Bytes sum = 0;
  for (int r = host * problem_.ranks_per_host; r < (host + 1) * problem_.ranks_per_host; ++r) {
    sum += problem_.caps[r][resource];
  }
  return sum;
}

void VerifiedChoices::find_profiles() {
  std::map<std::vector<std::int64_t>, int> known;
  for (int rank = 0; rank < problem_.num_ranks; ++rank) {
    std::vector<std::int64_t> key = {kind_of(rank), problem_.class_of(rank),
                                     host_of(rank) < 0 ? 0 : 1};
    for (int resource = 0; resource < problem_.num_resources(); ++resource)
      key.push_back(room_of(rank, resource));
    const auto [at, is_new] = known.emplace(std::move(key), static_cast<int>(profiles_.size()));
    if (is_new) profiles_.push_back({rank, 0});
    profiles_[at->second].count += 1;
    profile_of_.push_back(at->second);
  }
  end_of_alike_.assign(profile_of_.size(), problem_.num_ranks);
  for (int rank = problem_.num_ranks - 1; rank > 0; --rank) {
    end_of_alike_[rank - 1] =
        profile_of_[rank - 1] == profile_of_[rank] ? end_of_alike_[rank] : rank;
  }
  std::map<std::vector<int>, std::size_t> known_hosts;
  for (int host = 0; host < problem_.num_hosts(); ++host) {
    const auto first =
        profile_of_.begin() + static_cast<std::ptrdiff_t>(host) * problem_.ranks_per_host;
    const auto [at, is_new] = known_hosts.emplace(
        std::vector<int>(first, first + problem_.ranks_per_host), hosts_.size());
    if (is_new) hosts_.push_back({host, 0});
    hosts_[at->second].count += 1;
    profile_of_host_.push_back(static_cast<int>(at->second));
  }
}

double VerifiedChoices::load_on(const PieceRun& run, int rank) const {
  const auto g = static_cast<std::size_t>(problem_.num_barriers);
  const auto first = run.load.begin() + static_cast<std::ptrdiff_t>(
                                            g * static_cast<std::size_t>(problem_.class_of(rank)));
  return std::accumulate(first, first + static_cast<std::ptrdiff_t>(g), 0.0);
}

bool VerifiedChoices::is_allowed(int unit, int rank) const {
  const std::vector<int>& allowed = problem_.units[unit].allowed_ranks;
  return allowed.empty() || std::binary_search(allowed.begin(), allowed.end(), rank);
}

bool VerifiedChoices::may_stand(int unit, bool is_host, int at) const {
  bool may = false;
  if (is_host) {
    for_hosts(unit, [&](int host) { may |= profile_of_host_[host] == profile_of_host_[at]; });
  } else {
    for_ranks(unit, [&](int rank) { may |= profile_of_[rank] == profile_of_[at]; });
  }
  return may;
}

bool VerifiedChoices::fits(int unit, const PieceRun& run, int rank) const {
  const int profile = profile_of_[rank];
  Floor floor = floor_[profile];
  if (!own_[unit].empty()) {
    floor.load -= own_[unit][profile].load;
    for (int resource = 0; resource < problem_.num_resources(); ++resource) {
      floor.bytes[resource] -= own_[unit][profile].bytes[resource];
    }
  }
  if (load_on(run, rank) + floor.load > target_ * (1 + 1e-12)) return false;
  for (int resource = 0; resource < problem_.num_resources(); ++resource) {
    if (run.bytes[resource] + floor.bytes[resource] > room_of_[profile][resource]) return false;
  }
  return true;
}

double VerifiedChoices::count_of(int unit, int rank) const {
  return problem_.units[unit].allowed_ranks.empty() ? profiles_[profile_of_[rank]].count : 1;
}

bool VerifiedChoices::fits_row(int unit, const UnitChoice& choice, int first) const {
  bool is_open = true;
  Amounts sum{};
  for_row(choice, first, [&](const PieceRun& run, int rank, double count) {
    is_open = is_open && fits(unit, run, rank);
    sum.add(run.bytes, static_cast<std::int64_t>(count));
  });
  if (choice.spread == Spread::kUniform) return is_open;
  for (int resource = 0; resource < problem_.num_resources(); ++resource) {
    if (problem_.resources[resource].is_pooled &&
        sum[resource] > room_of_[profile_of_[first]][resource])
      return false;
  }
  return is_open;
}

bool VerifiedChoices::stands(int unit, const UnitChoice& choice) const {
  for (const int cause : choice.causes) {
    if (cause < 64 && (forbidden_ >> cause & 1) != 0) return false;
  }
  bool is_open = true;
  switch (choice.spread) {
    case Spread::kUniform:
      for (const std::vector<int>& set : problem_.apart) {
        if (set.size() > 1 && std::binary_search(set.begin(), set.end(), unit)) return false;
      }
      if (!problem_.units[unit].allowed_ranks.empty() &&
          static_cast<int>(problem_.units[unit].allowed_ranks.size()) < problem_.num_ranks) {
        return false;
      }
      return fits_row(unit, choice, 0);
    case Spread::kHost: {
      bool has_host = false;
      for_hosts(unit, [&](int host) {
        has_host = has_host || fits_row(unit, choice, host * problem_.ranks_per_host);
      });
      return has_host;
    }
    case Spread::kDevice: {
      double num_pieces = 0;
      double num_ranks = 0;
      for_ranks(unit, [&](int rank) { num_ranks += count_of(unit, rank); });
      for (const PieceRun& run : choice.runs) {
        const auto count = static_cast<double>(run.count);
        double num_open = 0;
        for_ranks(unit, [&](int rank) {
          if (fits(unit, run, rank)) num_open += count_of(unit, rank);
        });
        is_open &= num_open >= (choice.distinct_ranks ? count : 1);
        num_pieces += count;
      }
      return is_open && (!choice.distinct_ranks || num_pieces <= num_ranks);
    }
  }
  return false;
}

bool VerifiedChoices::filter(double target, std::uint64_t forbidden,
                             const std::vector<std::vector<char>>& allowed) {
  target_ = target;
  forbidden_ = forbidden;
  alive_ = allowed;
  if (allowed.empty()) {
    for (const Unit& unit : problem_.units) alive_.emplace_back(unit.choices.size(), 1);
  }
  own_.assign(problem_.units.size(), {});
  floor_.assign(profiles_.size(), {});
  room_of_.clear();
  for (const Profile& profile : profiles_) {
    Amounts room{};
    for (int resource = 0; resource < problem_.num_resources(); ++resource)
      room[resource] = room_of(profile.rank, resource);
    room_of_.push_back(room);
  }
  // What stands over the same floors stands again.
  for (bool has_changed = true; has_changed;) {
    for (int unit = 0; unit < problem_.num_units(); ++unit) {
      bool has_choice = false;
      for (std::size_t c = 0; c < alive_[unit].size(); ++c) {
        if (alive_[unit][c] && !stands(unit, choice_at(unit, c))) alive_[unit][c] = 0;
        has_choice |= alive_[unit][c] != 0;
      }
      if (!has_choice) return false;
    }
    const std::vector<Floor> before = floor_;
    raise_floors();
    has_changed = before != floor_;
  }
  return true;
}

// What units with uniform choices alone put on every rank of a profile at least.
void VerifiedChoices::raise_floors() {
  Floor none{kInfinity, {}};  // that no choice takes yet
  for (int resource = 0; resource < problem_.num_resources(); ++resource) {
    none.bytes[resource] = INT64_MAX;
  }
  floor_.assign(profiles_.size(), {});
  for (int unit = 0; unit < problem_.num_units(); ++unit) {
    bool is_forced = true;
    for (std::size_t c = 0; c < alive_[unit].size(); ++c) {
      is_forced &= !alive_[unit][c] || choice_at(unit, c).spread == Spread::kUniform;
    }
    if (!is_forced) continue;
    own_[unit].assign(profiles_.size(), none);
    for (std::size_t c = 0; c < alive_[unit].size(); ++c) {
      if (!alive_[unit][c]) continue;
      for_row(choice_at(unit, c), 0, [&](const PieceRun& run, int rank, double) {
        Floor& own = own_[unit][profile_of_[rank]];
        own.load = std::min(own.load, load_on(run, rank));
        for (int resource = 0; resource < problem_.num_resources(); ++resource) {
          own.bytes[resource] = std::min(own.bytes[resource], run.bytes[resource]);
        }
      });
    }
    for (std::size_t profile = 0; profile < profiles_.size(); ++profile) {
      floor_[profile].load += own_[unit][profile].load;
      for (int resource = 0; resource < problem_.num_resources(); ++resource) {
        floor_[profile].bytes[resource] += own_[unit][profile].bytes[resource];
      }
    }
  }
}

}  // namespace plimsoll::balance
