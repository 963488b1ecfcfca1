#include "embedding/torchrec/own_objects.h"

#include <fmt/format.h>

#include <algorithm>
#include <vector>

namespace plimsoll::embedding {
namespace {

tl::unexpected<Error> wrong(std::string_view name, std::string message, std::string remedy) {
  return fail(ErrorCode::kValue, std::string(name), std::move(message), std::move(remedy));
}

}  // namespace

Result<void> check_choice(const OptionSet& options, const Proposal& proposal,
                          std::string_view name) {
  std::vector<bool> has_option(options.tables.size());
  for (const std::int32_t index : proposal) {
    if (index < 0 || static_cast<std::size_t>(index) >= options.options.size()) {
      return wrong(name, fmt::format("it takes option {} of {}", index, options.options.size()),
                   "give indices into OptionSet::options");
    }
    const auto table =
        static_cast<std::size_t>(options.options[static_cast<std::size_t>(index)].table);
    if (has_option[table]) {
      return wrong(name, fmt::format("it takes two options of table {}", options.tables[table].fqn),
                   "give one option of every table");
    }
    has_option[table] = true;
  }
  const auto missing = std::find(has_option.begin(), has_option.end(), false);
  if (missing == has_option.end()) return {};
  const auto table = static_cast<std::size_t>(missing - has_option.begin());
  return wrong(name, fmt::format("it takes no option of table {}", options.tables[table].fqn),
               "give one option of every table");
}

Result<void> check_placement(const OptionSet& options, const PlacedProposal& plan,
                             std::string_view name) {
  PLIMSOLL_RETURN_IF_ERROR(check_choice(options, plan.options, name));
  const std::size_t size = plan.options.size();
  bool is_whole = plan.first_rank.size() == size + 1 && plan.first_rank.front() == 0;
  for (std::size_t i = 0; is_whole && i < size; ++i) {
    const Option& option = options.options[static_cast<std::size_t>(plan.options[i])];
    const bool is_uniform = option.partition_by == PartitionBy::kUniform;
    const std::int64_t num_ranks = is_uniform ? 0 : options.shards(option).num_shards();
    is_whole = plan.first_rank[i + 1] - plan.first_rank[i] == num_ranks;
  }
  if (!is_whole || plan.first_rank.back() != static_cast<std::int64_t>(plan.ranks.size())) {
    return wrong(name, "its plan has not one rank for every shard",
                 "give each shard that is not of a uniform option a rank, in shard order");
  }
  for (const std::int32_t rank : plan.ranks) {
    if (rank >= 0 && rank < options.world_size) continue;
    return wrong(name, fmt::format("it puts a shard on rank {} of {}", rank, options.world_size),
                 fmt::format("give ranks from 0 to {}", options.world_size - 1));
  }
  return {};
}

}  // namespace plimsoll::embedding
