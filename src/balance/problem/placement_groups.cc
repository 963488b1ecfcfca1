#include "balance/problem/placement_groups.h"

#include <algorithm>
#include <string>
#include <unordered_map>

#include "core/check.h"

namespace plimsoll::balance {
namespace {

// Is `factor` times a piece of `a` at most `other_factor` times a piece of `b`, in everything?
bool is_at_most(const PieceRun& a, double factor, const PieceRun& b, double other_factor) {
  for (std::size_t i = 0; i < a.load.size(); ++i) {
    if (factor * a.load[i] > other_factor * b.load[i]) return false;
  }
  for (std::size_t resource = 0; resource < a.bytes.num_set(); ++resource) {
    // Products of bytes and blocks fit: a valid problem's bytes add up in 62 bits.
    if (static_cast<Bytes>(factor) * a.bytes[resource] >
        static_cast<Bytes>(other_factor) * b.bytes[resource]) {
      return false;
    }
  }
  return true;
}

std::int64_t num_pieces(const UnitChoice& choice) {
  std::int64_t count = 0;
  for (const PieceRun& run : choice.runs) count += run.count;
  return count;
}

class GroupsMaker {
 public:
  GroupsMaker(const PlacementProblem& problem, const GroupRules& rules)
      : problem_(problem), rules_(rules), apart_sets_(problem.units.size()) {
    result_.ranks = make_rank_kinds(problem);
    is_one_host_ = problem.num_hosts() == 1 && problem.ranks_per_host == problem.num_ranks;
    for (std::size_t set = 0; set < problem.apart.size(); ++set) {
      if (problem.apart[set].size() < 2) continue;
      for (const int unit : problem.apart[set]) {
        apart_sets_[unit].push_back(static_cast<int>(set));
      }
    }
  }

  PlacementGroups make() {
    for (int unit = 0; unit < problem_.num_units(); ++unit) {
      const std::vector<int> kept = keep(unit);
      const auto next = static_cast<int>(result_.groups.size());
      const int group =
          rules_.merge_units ? known_.emplace(key(unit, kept), next).first->second : next;
      if (group < next) {
        result_.groups[group].units.push_back(unit);
        continue;
      }
      PlacementGroup& added = result_.groups.emplace_back();
      added.units = {unit};
      added.first_choice = static_cast<std::int32_t>(result_.choices.size());
      for (const int choice : kept) {
        if (add_choice(unit, choice)) ++added.num_choices;
      }
    }
    return std::move(result_);
  }

 private:
  const UnitChoice& choice_of(int unit, int choice) const {
    return problem_.units[unit].choices[choice];
  }

  bool is_dominated(const UnitChoice& by, const UnitChoice& choice) const {
    const bool is_row = by.spread != Spread::kDevice && choice.spread != Spread::kDevice;
    if (by.spread != choice.spread && !(is_one_host_ && is_row)) return false;
    if (num_pieces(by) != num_pieces(choice)) return false;
    if (by.distinct_ranks && !choice.distinct_ranks) return false;
    if (!is_one_host_ && by.num_blocks != choice.num_blocks && by.spread == Spread::kHost) {
      return false;
    }
    const auto times = [&](const UnitChoice& c) {
      return c.spread == Spread::kHost ? static_cast<double>(c.num_blocks) : 1.0;
    };
    if (!std::includes(choice.causes.begin(), choice.causes.end(), by.causes.begin(),
                       by.causes.end())) {
      return false;
    }
    // Piece by piece, both lists of runs at once.
    std::size_t i = 0;
    std::size_t j = 0;
    std::int64_t left_i = by.runs.empty() ? 0 : by.runs[0].count;
    std::int64_t left_j = choice.runs.empty() ? 0 : choice.runs[0].count;
    while (i < by.runs.size() && j < choice.runs.size()) {
      if (!is_at_most(by.runs[i], times(by), choice.runs[j], times(choice))) return false;
      const std::int64_t step = std::min(left_i, left_j);
      if ((left_i -= step) == 0 && ++i < by.runs.size()) left_i = by.runs[i].count;
      if ((left_j -= step) == 0 && ++j < choice.runs.size()) left_j = choice.runs[j].count;
    }
    return true;
  }

  std::vector<int> keep(int unit) const {
    const Unit& u = problem_.units[unit];
    std::vector<int> kept;
    for (int c = 0; c < static_cast<int>(u.choices.size()); ++c) {
      const UnitChoice& choice = u.choices[c];
      if (choice.spread == Spread::kUniform || (is_one_host_ && choice.spread == Spread::kHost)) {
        if (!apart_sets_[unit].empty()) continue;
        if (!u.allowed_ranks.empty() &&
            static_cast<int>(u.allowed_ranks.size()) < problem_.num_ranks) {
          continue;
        }
      }
      if (rules_.drop_dominated) {
        const auto beats = [&](int other) { return is_dominated(u.choices[other], choice); };
        if (std::any_of(kept.begin(), kept.end(), beats)) continue;
        std::erase_if(kept, [&](int other) { return is_dominated(choice, u.choices[other]); });
      }
      kept.push_back(c);
    }
    return kept;
  }

  // Equal for units that may change places.
  std::string key(int unit, const std::vector<int>& kept) const {
    std::string key;
    const auto put = [&](const auto& value) {
      key.append(reinterpret_cast<const char*>(&value), sizeof value);
    };
    const auto put_list = [&](const std::vector<int>& list) {
      put(list.size());
      for (const int value : list) put(value);
    };
    put_list(problem_.units[unit].allowed_ranks);
    put_list(apart_sets_[unit]);
    for (const int c : kept) {
      const UnitChoice& choice = choice_of(unit, c);
      put(c);
      put(choice.spread);
      put(choice.num_blocks);
      put(choice.distinct_ranks);
      put_list(choice.causes);
      put(choice.runs.size());
      for (const PieceRun& run : choice.runs) {
        put(run.count);
        for (const double load : run.load) put(load + 0.0);  // one zero only
        for (int r = 0; r < problem_.num_resources(); ++r) put(run.bytes[r]);
      }
    }
    return key;
  }

  // The least load, over the classes of the kind, of a piece; barriers summed in order.
  double load_on(const PieceRun& run, int kind) const {
    const auto num_barriers = static_cast<std::size_t>(problem_.num_barriers);
    double least = 0;
    bool is_first = true;
    for (const int c : result_.ranks.kinds[kind].classes) {
      double sum = 0;
      for (std::size_t g = 0; g < num_barriers; ++g) {
        sum += run.load[static_cast<std::size_t>(c) * num_barriers + g];
      }
      least = is_first ? sum : std::min(least, sum);
      is_first = false;
    }
    return least;
  }

  bool fits_piece(const PieceRun& run, int kind) const {
    return run.bytes.is_at_most(result_.ranks.kinds[kind].cap);
  }

  // `count` pieces more; the first ones make the share.
  void add_to(ChoiceShare& share, bool is_first, const PieceRun& run, double load,
              std::int64_t count) {
    share.least_load = is_first ? load : std::min(share.least_load, load);
    share.largest_load = std::max(share.largest_load, load);
    share.load += static_cast<double>(count) * load;
    for (int resource = 0; resource < problem_.num_resources(); ++resource) {
      const Bytes bytes = run.bytes[resource];
      share.bytes[resource] += count * bytes;
      share.least_bytes[resource] = is_first ? bytes : std::min(share.least_bytes[resource], bytes);
      share.largest_bytes[resource] = std::max(share.largest_bytes[resource], bytes);
    }
  }

  // Appends what the pieces in a row put on [first_rank, ...), kind by kind; false where one does
  // not fit.
  bool add_row(const UnitChoice& choice, int first_rank, ChoicePlace& place) {
    place.first_share = static_cast<std::int32_t>(result_.shares.size());
    for (int kind = 0; kind < result_.ranks.num_kinds(); ++kind) {
      if (place.host_kind >= 0 && result_.ranks.kinds[kind].host_kind != place.host_kind) continue;
      ChoiceShare share{kind};
      bool is_there = false;
      std::int64_t rank = first_rank;
      for (const PieceRun& run : choice.runs) {
        const std::int64_t count = result_.ranks.count(kind, rank, rank + run.count);
        rank += run.count;
        if (count == 0) continue;
        if (!fits_piece(run, kind)) return false;
        add_to(share, !is_there, run, load_on(run, kind), count);
        is_there = true;
      }
      if (!is_there) continue;
      for (int resource = 0; resource < problem_.num_resources(); ++resource) {
        if (place.host_kind >= 0 && problem_.resources[resource].is_pooled &&
            share.bytes[resource] > result_.ranks.kinds[kind].cap[resource]) {
          return false;
        }
      }
      result_.shares.push_back(share);
      ++place.num_shares;
    }
    return true;
  }

  bool is_allowed(const std::vector<int>& allowed, int first, int end) const {
    return allowed.empty() || std::lower_bound(allowed.begin(), allowed.end(), end) -
                                      std::lower_bound(allowed.begin(), allowed.end(), first) ==
                                  end - first;
  }

  // Are there as many ranks as pieces, and as many that each run's pieces fit?
  bool has_distinct_ranks(const UnitChoice& choice, const std::vector<int>& allowed) const {
    const auto num_ranks = [&](const PieceRun* run) {
      std::int64_t count = 0;
      for (int kind = 0; kind < result_.ranks.num_kinds(); ++kind) {
        if (run != nullptr && !fits_piece(*run, kind)) continue;
        const std::vector<int>& ranks = result_.ranks.kinds[kind].ranks;
        count += std::count_if(ranks.begin(), ranks.end(),
                               [&](int rank) { return is_allowed(allowed, rank, rank + 1); });
      }
      return count;
    };
    return num_pieces(choice) <= num_ranks(nullptr) &&
           std::all_of(choice.runs.begin(), choice.runs.end(),
                       [&](const PieceRun& run) { return run.count <= num_ranks(&run); });
  }

  void add_place(const UnitChoice& choice, int first_rank, int host_kind, ChoicePart& part) {
    ChoicePlace place;
    place.host_kind = host_kind;
    const std::size_t num_shares = result_.shares.size();
    if (add_row(choice, first_rank, place)) {
      result_.places.push_back(place);
      ++part.num_places;
    } else {
      result_.shares.resize(num_shares);
    }
  }

  ChoicePart new_part(std::int64_t count) const {
    return {count, static_cast<std::int32_t>(result_.places.size()), 0};
  }

  void add_uniform_part(const UnitChoice& choice) {
    ChoicePart part = new_part(1);
    add_place(choice, 0, -1, part);
    result_.parts.push_back(part);
  }

  // Every block stands on the only host.
  void add_blocks_of_one_host(const UnitChoice& choice, const std::vector<int>& allowed) {
    UnitChoice all = choice;
    for (PieceRun& run : all.runs) {
      for (double& load : run.load) load *= static_cast<double>(choice.num_blocks);
      for (int r = 0; r < problem_.num_resources(); ++r) run.bytes[r] *= choice.num_blocks;
    }
    ChoicePart part = new_part(1);
    if (is_allowed(allowed, 0, problem_.num_ranks)) add_place(all, 0, -1, part);
    result_.parts.push_back(part);
  }

  void add_blocks(const UnitChoice& choice, const std::vector<int>& allowed) {
    ChoicePart part = new_part(choice.num_blocks);
    const int width = problem_.ranks_per_host;
    for (std::size_t kind = 0; kind < result_.ranks.host_kinds.size(); ++kind) {
      const std::vector<int>& hosts = result_.ranks.host_kinds[kind].hosts;
      const bool stands = std::any_of(hosts.begin(), hosts.end(), [&](int host) {
        return is_allowed(allowed, host * width, (host + 1) * width);
      });
      // The first host of the kind: its ranks stand for those of all.
      if (stands) add_place(choice, hosts.front() * width, static_cast<int>(kind), part);
    }
    result_.parts.push_back(part);
  }

  void add_pieces(const PieceRun& run, const std::vector<int>& allowed) {
    ChoicePart part = new_part(run.count);
    for (int kind = 0; kind < result_.ranks.num_kinds(); ++kind) {
      const std::vector<int>& ranks = result_.ranks.kinds[kind].ranks;
      const auto is_ours = [&](int rank) { return is_allowed(allowed, rank, rank + 1); };
      if (!fits_piece(run, kind) || std::none_of(ranks.begin(), ranks.end(), is_ours)) continue;
      ChoiceShare share{kind};
      add_to(share, true, run, load_on(run, kind), 1);
      result_.places.push_back({static_cast<std::int32_t>(result_.shares.size()), 1, -1});
      result_.shares.push_back(share);
      ++part.num_places;
    }
    result_.parts.push_back(part);
  }

  bool add_choice(int unit, int index) {
    const UnitChoice& choice = choice_of(unit, index);
    const std::vector<int>& allowed = problem_.units[unit].allowed_ranks;
    const auto first_part = static_cast<std::int32_t>(result_.parts.size());
    GroupChoice added{index, choice.spread, 1, first_part, 0, 0, false, choice.distinct_ranks};
    for (const int cause : choice.causes) {
      if (cause < 64) added.causes |= std::uint64_t{1} << cause;
    }
    added.is_everywhere =
        choice.spread == Spread::kUniform || (is_one_host_ && choice.spread == Spread::kHost);
    switch (choice.spread) {
      case Spread::kUniform:
        add_uniform_part(choice);
        break;
      case Spread::kHost:
        is_one_host_ ? add_blocks_of_one_host(choice, allowed) : add_blocks(choice, allowed);
        added.num_parts = choice.num_blocks;
        break;
      case Spread::kDevice:
        added.num_parts = 0;
        for (const PieceRun& run : choice.runs) {
          add_pieces(run, allowed);
          added.num_parts += run.count;
        }
        break;
    }
    added.num_part_runs = static_cast<std::int32_t>(result_.parts.size()) - first_part;
    const bool stands = std::all_of(result_.parts.begin() + first_part, result_.parts.end(),
                                    [](const ChoicePart& part) { return part.num_places > 0; }) &&
                        (!choice.distinct_ranks || has_distinct_ranks(choice, allowed));
    if (stands) {
      result_.choices.push_back(added);
    } else {
      result_.parts.resize(static_cast<std::size_t>(first_part));
    }
    return stands;
  }

  const PlacementProblem& problem_;
  const GroupRules& rules_;
  std::vector<std::vector<int>> apart_sets_;  // [num_units] of at least two units
  bool is_one_host_ = false;
  std::unordered_map<std::string, int> known_;  // asked, never walked
  PlacementGroups result_;
};

}  // namespace

PlacementGroups make_placement_groups(const PlacementProblem& problem, const GroupRules& rules) {
  PLIMSOLL_DCHECK(validate(problem).has_value(), "the problem is valid");
  return GroupsMaker(problem, rules).make();
}

PlacementGroups with_choices(const PlacementGroups& groups, const std::vector<char>& kept) {
  PLIMSOLL_CHECK(kept.size() == groups.choices.size(), "a flag a choice");
  PlacementGroups result = groups;
  result.choices.clear();
  for (PlacementGroup& group : result.groups) {
    const std::int32_t first = group.first_choice;
    group.first_choice = static_cast<std::int32_t>(result.choices.size());
    for (std::int32_t c = first; c < first + group.num_choices; ++c) {
      if (kept[c] != 0) result.choices.push_back(groups.choices[c]);
    }
    group.num_choices = static_cast<std::int32_t>(result.choices.size()) - group.first_choice;
  }
  return result;
}

PlacementGroups without_causes(const PlacementGroups& groups, std::uint64_t forbidden) {
  std::vector<char> kept;
  for (const GroupChoice& choice : groups.choices) kept.push_back((choice.causes & forbidden) == 0);
  return with_choices(groups, kept);
}

}  // namespace plimsoll::balance
