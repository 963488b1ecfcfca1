#include "embedding/problem/option_choices.h"

#include <algorithm>
#include <iterator>

#include "core/check.h"
#include "plimsoll/core/checked.h"

namespace plimsoll::embedding {
namespace {

using balance::Amounts;
using balance::PieceRun;
using balance::Spread;
using balance::UnitChoice;

Amounts operator+(Amounts a, const Amounts& b) {
  const std::size_t end = std::max(a.num_set(), b.num_set());
  for (std::size_t r = 0; r < end; ++r) a[r] = saturated_add(a[r], b[r]);
  return a;
}

// Pieces run by run of both, one on top of the other. Precondition: equal counts.
std::vector<PieceRun> stack(const std::vector<PieceRun>& a, const std::vector<PieceRun>& b) {
  std::vector<PieceRun> runs;
  std::size_t i = 0, j = 0;
  std::int64_t used_a = 0, used_b = 0;
  while (i < a.size() && j < b.size()) {
    const std::int64_t count = std::min(a[i].count - used_a, b[j].count - used_b);
    PieceRun run{count, a[i].load, a[i].bytes + b[j].bytes};
    for (std::size_t g = 0; g < run.load.size(); ++g) run.load[g] += b[j].load[g];
    runs.push_back(std::move(run));
    used_a += count;
    used_b += count;
    if (used_a == a[i].count) ++i, used_a = 0;
    if (used_b == b[j].count) ++j, used_b = 0;
  }
  PLIMSOLL_CHECK(i == a.size() && j == b.size(), "both have as many pieces");
  return runs;
}

double total_load(const UnitChoice& choice) {
  double sum = 0;
  for (const PieceRun& run : choice.runs) {
    for (const double load : run.load) sum += load * static_cast<double>(run.count);
  }
  return sum * static_cast<double>(choice.spread == Spread::kHost ? choice.num_blocks : 1);
}

// Is every piece of a no heavier, on any barrier or tier, than every piece of b?
bool is_no_heavier(const std::vector<PieceRun>& a, const std::vector<PieceRun>& b) {
  return std::all_of(a.begin(), a.end(), [&b](const PieceRun& x) {
    return std::all_of(b.begin(), b.end(), [&x](const PieceRun& y) {
      const bool is_lighter = std::equal(x.load.begin(), x.load.end(), y.load.begin(),
                                         [](double p, double q) { return p <= q; });
      return is_lighter && x.bytes.is_at_most(y.bytes);
    });
  });
}

// One host is all there is: a block is no better than the same rows cut over all ranks.
void drop_host_choices(std::vector<Candidate>& candidates) {
  const std::vector<Candidate> all = candidates;
  std::erase_if(candidates, [&all](const Candidate& host) {
    if (host.choice.spread != Spread::kHost) return false;
    return std::any_of(all.begin(), all.end(), [&host](const Candidate& other) {
      return other.choice.spread == Spread::kUniform &&
             (host.choice.causes.empty() || other.choice.causes == host.choice.causes) &&
             is_no_heavier(other.choice.runs, host.choice.runs);
    });
  });
}

// All column shards on the ranks of a host in turn, from one of them on.
std::vector<PieceRun> spread_over_host(const PieceRun& shard, std::int64_t num_shards,
                                       std::int64_t ranks, std::int64_t first) {
  std::vector<PieceRun> runs;
  const auto add = [&](std::int64_t count, std::int64_t shards) {
    if (count == 0) return;
    PieceRun run{count, shard.load, {}};
    for (double& load : run.load) load *= static_cast<double>(shards);
    for (std::size_t r = 0; r < shard.bytes.num_set(); ++r) {
      run.bytes[r] = saturated_multiply(shard.bytes[r], shards);
    }
    runs.push_back(std::move(run));
  };
  const std::int64_t all = num_shards / ranks;
  const std::int64_t more = num_shards % ranks;  // ranks with one more
  const std::int64_t wrapped = std::max<std::int64_t>(first + more - ranks, 0);
  add(wrapped, all + 1);
  add(first - wrapped, all);
  add(more - wrapped, all + 1);
  add(ranks - first - (more - wrapped), all);
  return runs;
}

// Blocks that must all stand on one host: one block, so many times as heavy.
void fold_blocks(UnitChoice& choice) {
  if (choice.spread != Spread::kHost) return;
  for (PieceRun& run : choice.runs) {
    for (double& load : run.load) load *= static_cast<double>(choice.num_blocks);
    for (std::size_t r = 0; r < run.bytes.num_set(); ++r) {
      run.bytes[r] = saturated_multiply(run.bytes[r], choice.num_blocks);
    }
  }
  choice.num_blocks = 1;
}

bool is_whole_as_columns(const Option& option) {
  return option.sharding_type == ShardingType::kColumnWise && option.column_blocks == 1;
}

bool is_whole(const UnitChoice& choice) {
  switch (choice.spread) {
    case Spread::kDevice:
      return choice.runs.size() == 1 && choice.runs.front().count == 1;
    case Spread::kHost:
      return choice.num_blocks == 1;
    case Spread::kUniform:
      return true;
  }
  return false;
}

}  // namespace

OptionChoices::OptionChoices(const OptionSet& options, const BridgeOptions& settings,
                             const std::vector<bool>& is_left_out,
                             const std::vector<std::vector<int>>& causes, const PieceLoads& loads,
                             balance::PlacementProblem& problem)
    : options_(options),
      settings_(settings),
      is_left_out_(is_left_out),
      causes_of_option_(causes),
      loads_(loads),
      problem_(problem) {
  if (settings.objective != BalanceObjective::kTime) return;
  for (const Option& option : options.options) {
    const auto index = static_cast<std::size_t>(&option - options.options.data());
    if (is_left_out[index]) continue;
    const TableOptions& table = options.tables[static_cast<std::size_t>(option.table)];
    if (option.sharding_type == ShardingType::kTableColumnWise &&
        !has_columns_like(table, option)) {
      needs_host_columns_.insert(table.module_path);
    }
    if (option.sharding_type == ShardingType::kColumnWise &&
        !(option.column_blocks == 1 && has_whole_like(table, option)) &&
        loads.type_charge(table.module_path, ShardingType::kTableWise) > 0) {
      needs_columns_.insert(table.module_path);
    }
  }
  find_plain_names();
}

// In a module that needs column_wise a charge is shared under that name, and none is saved by the
// name table_wise where the two charges are equal: there whole tables have one name in the problem.
void OptionChoices::find_plain_names() {
  std::map<std::string, std::vector<std::pair<std::int32_t, std::int32_t>>>
      names;  // plain, columns
  for (const std::string& path : needs_columns_) {
    if (loads_.type_charge(path, ShardingType::kTableWise) ==
        loads_.type_charge(path, ShardingType::kColumnWise)) {
      names[path];
    }
  }
  for (std::size_t o = 0; o < options_.options.size(); ++o) {
    const Option& option = options_.options[o];
    if (is_left_out_[o] || option.sharding_type != ShardingType::kTableWise) continue;
    const TableOptions& table = options_.tables[static_cast<std::size_t>(option.table)];
    const auto entry = names.find(table.module_path);
    if (entry == names.end()) continue;
    const std::int32_t columns = find_equal_columns(table, static_cast<std::int32_t>(o));
    if (columns < 0) {
      names.erase(entry);
    } else {
      entry->second.emplace_back(static_cast<std::int32_t>(o), columns);
    }
  }
  for (const auto& [path, pairs] : names) {
    for (const auto& [plain, columns] : pairs) {
      plain_name_[columns] = plain;
      has_other_name_.insert(plain);
    }
  }
}

bool OptionChoices::is_one_host() const {
  return problem_.num_hosts() == 1 && problem_.ranks_per_host == problem_.num_ranks;
}

std::vector<Candidate> OptionChoices::choices_of(const TableOptions& table, bool is_alone) {
  // Of a module that needs a type the others may share its charge: the runtime groups tables by the
  // names of their types, so that whole tables beside cut ones are in one group.
  const bool may_share = needs_host_columns_.contains(table.module_path);
  const bool may_share_columns = needs_columns_.contains(table.module_path);
  std::vector<Candidate> candidates;
  for (std::int32_t o = table.first_option; o < table.first_option + table.num_options; ++o) {
    if (is_left_out_[static_cast<std::size_t>(o)] || has_other_name_.contains(o)) continue;
    const Option& option = options_.options[static_cast<std::size_t>(o)];
    const ShardingType type = option.sharding_type;
    const bool is_of_hosts = type == ShardingType::kTableRowWise ||
                             type == ShardingType::kTableColumnWise ||
                             type == ShardingType::kGridShard;
    if (is_of_hosts && problem_.num_hosts() == 0) continue;
    // Columns on any ranks are in no one place that a rule could hold together with another table.
    if (type == ShardingType::kTableColumnWise && is_alone && !may_share &&
        has_columns_like(table, option)) {
      continue;
    }
    if (is_whole_as_columns(option) && !may_share_columns && has_whole_like(table, option)) {
      continue;
    }
    Candidate candidate{choice_of(table, option), {o}};
    if (!is_alone) fold_blocks(candidate.choice);
    if (type == ShardingType::kTableColumnWise) {
      add_columns(option, candidate, is_alone, candidates);
    } else {
      candidates.push_back(std::move(candidate));
    }
  }
  if (is_alone && is_one_host()) drop_host_choices(candidates);
  return candidates;
}

// `whole`: the columns on any ranks.
void OptionChoices::add_columns(const Option& option, const Candidate& whole, bool is_alone,
                                std::vector<Candidate>& candidates) {
  const int ranks = problem_.ranks_per_host;
  // A rule that forbids a rank forbids blocks of its host, but not a single column beside it.
  const bool has_rules = !settings_.allowed_ranks.empty() || !settings_.forbidden_ranks.empty();
  const bool is_single = has_rules && option.column_blocks == 1;
  if (is_alone && (is_one_host() || settings_.is_for_bound || is_single)) {
    candidates.push_back(whole);
    return;
  }
  is_tighter_ |= option.column_blocks > 1 || !is_alone;  // then from the first rank on
  const bool is_even = option.column_blocks % ranks == 0;
  for (int first = 0; first < (is_alone && !is_even ? ranks : 1); ++first) {
    Candidate& candidate = candidates.emplace_back(whole);
    candidate.choice.spread = Spread::kHost;
    candidate.choice.runs =
        spread_over_host(loads_.runs_of(option).front(), option.column_blocks, ranks, first);
    candidate.first_rank = first;
  }
}

UnitChoice OptionChoices::choice_of(const TableOptions& table, const Option& option) {
  UnitChoice choice{Spread::kDevice, loads_.runs_of(option), 1, {}};
  switch (option.sharding_type) {
    case ShardingType::kTableWise:
    case ShardingType::kColumnWise:
    case ShardingType::kTableColumnWise:
      for (PieceRun& run : choice.runs) run.count *= option.column_blocks;
      choice.distinct_ranks = options_.wants_distinct_ranks(option);
      break;
    case ShardingType::kTableRowWise:
    case ShardingType::kGridShard:
      choice.spread = Spread::kHost;
      choice.num_blocks = option.column_blocks;
      break;
    case ShardingType::kRowWise:
    case ShardingType::kDataParallel:
      choice.spread = Spread::kUniform;
      break;
  }
  choice.causes = causes_of_option_[static_cast<std::size_t>(&option - options_.options.data())];
  if (settings_.objective == BalanceObjective::kTime) {
    choice.causes.push_back(cause_of(table, option.sharding_type));
  }
  return choice;
}

// The same columns, anywhere and no heavier.
bool OptionChoices::has_columns_like(const TableOptions& table, const Option& host_columns) const {
  for (std::int32_t o = table.first_option; o < table.first_option + table.num_options; ++o) {
    const Option& option = options_.options[static_cast<std::size_t>(o)];
    if (!is_left_out_[static_cast<std::size_t>(o)] &&
        option.sharding_type == ShardingType::kColumnWise &&
        option.compute_kernel == host_columns.compute_kernel &&
        option.column_blocks == host_columns.column_blocks &&
        !options_.wants_distinct_ranks(option) &&
        is_no_heavier(loads_.runs_of(option), loads_.runs_of(host_columns))) {
      return true;
    }
  }
  return false;
}

// The same table, whole, as table_wise.
bool OptionChoices::has_whole_like(const TableOptions& table, const Option& columns) const {
  for (std::int32_t o = table.first_option; o < table.first_option + table.num_options; ++o) {
    const Option& option = options_.options[static_cast<std::size_t>(o)];
    if (!is_left_out_[static_cast<std::size_t>(o)] &&
        option.sharding_type == ShardingType::kTableWise &&
        option.compute_kernel == columns.compute_kernel &&
        option.cache_load_factor == columns.cache_load_factor &&
        is_no_heavier(loads_.runs_of(option), loads_.runs_of(columns))) {
      return true;
    }
  }
  return false;
}

// The whole table of the option as column_wise, of the same cost in everything; -1: there is none.
std::int32_t OptionChoices::find_equal_columns(const TableOptions& table,
                                               std::int32_t table_wise) const {
  const auto plain = static_cast<std::size_t>(table_wise);
  const Option& like = options_.options[plain];
  for (std::int32_t o = table.first_option; o < table.first_option + table.num_options; ++o) {
    const auto index = static_cast<std::size_t>(o);
    const Option& option = options_.options[index];
    if (!is_left_out_[index] && is_whole_as_columns(option) &&
        option.compute_kernel == like.compute_kernel &&
        option.cache_load_factor == like.cache_load_factor &&
        options_.wants_distinct_ranks(option) == options_.wants_distinct_ranks(like) &&
        causes_of_option_[index] == causes_of_option_[plain] &&
        loads_.runs_of(option) == loads_.runs_of(like)) {
      return o;
    }
  }
  return -1;
}

int OptionChoices::cause_of(const TableOptions& table, ShardingType type) {
  const auto [entry, is_new] = cause_of_type_.try_emplace(
      {table.module_path, type}, static_cast<int>(problem_.charges.size()));
  if (is_new) problem_.charges.push_back(loads_.type_charge(table.module_path, type));
  return entry->second;
}

bool has_host_columns(const OptionSet& options, const std::vector<bool>& is_left_out,
                      const TableOptions& table) {
  for (std::int32_t o = table.first_option; o < table.first_option + table.num_options; ++o) {
    const auto index = static_cast<std::size_t>(o);
    if (!is_left_out[index] &&
        options.options[index].sharding_type == ShardingType::kTableColumnWise) {
      return true;
    }
  }
  return false;
}

std::vector<Candidate> combine(const std::vector<Candidate>& first,
                               const std::vector<Candidate>& second) {
  std::vector<Candidate> combined;
  for (const Candidate& a : first) {
    for (const Candidate& b : second) {
      if (a.choice.spread != b.choice.spread || !is_whole(a.choice) || !is_whole(b.choice)) {
        continue;
      }
      PLIMSOLL_DCHECK(std::find_first_of(a.options.begin(), a.options.end(), b.options.begin(),
                                         b.options.end()) == a.options.end(),
                      "the candidates are of other tables");
      Candidate both = a;
      both.choice.runs = stack(a.choice.runs, b.choice.runs);
      std::vector<int> causes;
      std::set_union(a.choice.causes.begin(), a.choice.causes.end(), b.choice.causes.begin(),
                     b.choice.causes.end(), std::back_inserter(causes));
      both.choice.causes = std::move(causes);
      both.options.insert(both.options.end(), b.options.begin(), b.options.end());
      combined.push_back(std::move(both));
    }
  }
  std::stable_sort(combined.begin(), combined.end(), [](const Candidate& a, const Candidate& b) {
    return total_load(a.choice) < total_load(b.choice);
  });
  return combined;
}

}  // namespace plimsoll::embedding
