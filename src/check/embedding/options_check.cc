#include "plimsoll/check/options_check.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <deque>
#include <set>

#include "check/embedding/rules.h"
#include "plimsoll/core/checked.h"

namespace plimsoll::check {
namespace {

using embedding::Option;

class OptionsJudge {
 public:
  explicit OptionsJudge(const GivenSpace& space)
      : options_(space.options),
        room_(space.room),
        cost_model_(space.cost_model),
        model_(with_towers(space.model, space.options)) {
    const auto num_ranks = static_cast<std::size_t>(options_.world_size);
    report_.used.resize(num_ranks);
    report_.perf.resize(num_ranks);
    report_.rank_ms.resize(num_ranks);
    report_.capacity = room_.devices;
  }

  ShardingReport judge(const std::vector<StatedOption>& options,
                       const embedding::ShardingPlan* plan, bool pools_ddr, bool strict,
                       bool strict_numerics, std::optional<double> stated_rating) {
    for (const StatedOption& stated : options) add(stated);
    for (const embedding::TableOptions& table : options_.tables) {
      if (!seen_.contains(table.fqn)) {
        find(FindingCode::kMissingTable, table.fqn, "the plan leaves the table out");
      }
    }
    if (plan != nullptr) check_plan(*plan);
    find_collection_hazards(cases_, findings_);
    take_findings(strict, strict_numerics);
    check_room(pools_ddr);
    report_.rating = *std::max_element(report_.rank_ms.begin(), report_.rank_ms.end());
    if (stated_rating && std::abs(*stated_rating - report_.rating) > 1e-9 * report_.rating) {
      find(FindingCode::kRatingMismatch, "",
           fmt::format("the plan states {} ms, but takes {} ms", *stated_rating, report_.rating));
    }
    return std::move(report_);
  }

 private:
  void find(FindingCode code, std::string table, std::string message,
            std::optional<int> rank = std::nullopt) {
    report_.findings.push_back(
        {code, std::move(table), find_unit(FindingUnit::kRank, rank), "", "", std::move(message)});
  }

  void take_findings(bool strict, bool strict_numerics) {
    count_hazards_as_violations(strict, strict_numerics, findings_);
    report_.add(std::move(findings_.all));
  }

  void add(const StatedOption& stated) {
    if (!seen_.insert(stated.fqn).second) {
      return find(FindingCode::kDuplicateTable, stated.fqn, "the plan lists the table twice");
    }
    const auto table = std::find_if(options_.tables.begin(), options_.tables.end(),
                                    [&](const auto& t) { return t.fqn == stated.fqn; });
    if (table == options_.tables.end()) {
      return find(FindingCode::kUnknownTable, stated.fqn, "the dump has no such table");
    }
    if (stated.option < table->first_option ||
        stated.option >= table->first_option + table->num_options) {
      return find(FindingCode::kTypeNotAllowed, stated.fqn, "the option is not one of the table");
    }
    const Option& option = options_.options[static_cast<std::size_t>(stated.option)];
    const embedding::ShardRuns shards = options_.shards(option);
    if (static_cast<std::int64_t>(stated.ranks.size()) != shards.num_shards()) {
      return find(
          FindingCode::kWrongShardCount, stated.fqn,
          fmt::format("{} rank(s) for {} shard(s)", stated.ranks.size(), shards.num_shards()));
    }
    for (const std::int32_t rank : stated.ranks) {
      if (rank >= 0 && rank < options_.world_size) continue;
      return find(FindingCode::kRankOutOfRange, stated.fqn,
                  fmt::format("rank {} does not exist", rank));
    }
    if (stated.fault) find(FindingCode::kOptionsMismatch, stated.fqn, *stated.fault);
    judge_shards(*table, stated);
    std::size_t shard = 0;
    for (std::int64_t block = 0; block < shards.column_blocks; ++block) {
      for (const embedding::ShardRun& run : shards.runs) {
        for (std::int64_t i = 0; i < run.count; ++i) {
          const auto rank = static_cast<std::size_t>(stated.ranks[shard++]);
          report_.used[rank] += run.storage;
          const embedding::Perf perf = options_.perf_on(run, rank);
          report_.perf[rank] += perf;
          report_.rank_ms[rank] += perf.total();
        }
      }
    }
  }

  // The same rules as of a model's plan.
  void judge_shards(const embedding::TableOptions& table, const StatedOption& stated) {
    const Option& option = options_.options[static_cast<std::size_t>(stated.option)];
    const embedding::TableSharding& sharding =
        shardings_.emplace_back(sharding_of(table, option, stated.ranks));
    const embedding::Module& module = model_.modules[static_cast<std::size_t>(table.module)];
    const TableCase entry{&cost_model_,
                          &room_,
                          &model_,
                          &module,
                          &module.tables[static_cast<std::size_t>(table.table)],
                          &sharding,
                          {},
                          table.shape,
                          table.fqn};
    const PlacedTable placed = place_shards(entry, findings_);
    const bool is_covered = placed.shapes_are_sound && check_coverage(entry, placed, findings_);
    check_placement(entry, placed, findings_);
    find_hazards(entry, placed, is_covered, findings_);
    cases_.push_back(entry);
  }

  embedding::TableSharding sharding_of(const embedding::TableOptions& table, const Option& option,
                                       const std::vector<std::int32_t>& ranks) const {
    embedding::TableSharding sharding;
    sharding.module_path = table.module_path;
    sharding.table = table.name;
    sharding.sharding_type = option.sharding_type;
    sharding.compute_kernel = option.compute_kernel;
    for (const std::int32_t rank : ranks) sharding.ranks.push_back({rank, 1});
    const embedding::ShardRuns shards = options_.shards(option);
    for (std::int64_t block = 0; block < shards.column_blocks; ++block) {
      for (const embedding::ShardRun& run : shards.runs) {
        sharding.shards.push_back(
            {run.count, run.rows, run.columns, run.first_row, block * run.columns, run.row_stride});
      }
    }
    return sharding;
  }

  // Tables that depend on each other are a tower's, whose cuts and outputs are its own affair.
  static embedding::Model with_towers(embedding::Model model, const embedding::OptionSet& options) {
    for (const embedding::TableOptions& table : options.tables) {
      if (table.dependency.empty()) continue;
      embedding::Module& module = model.modules[static_cast<std::size_t>(table.module)];
      module.kind = embedding::ModuleKind::kEmbeddingTowerCollection;
      module.holds_embedding_collection = !table.is_pooled;
    }
    return model;
  }

  // What the answer says twice it says once.
  void check_plan(const embedding::ShardingPlan& plan) {
    if (plan.world_size != options_.world_size ||
        plan.local_world_size != options_.local_world_size ||
        plan.compute_device != room_.compute_device) {
      find(FindingCode::kWrongMachine, "", "the plan was made for another machine");
    }
    std::set<std::string> planned;
    for (const embedding::TableSharding& sharding : plan.tables) {
      const std::string fqn = sharding.fqn();
      const auto made = std::find_if(shardings_.begin(), shardings_.end(),
                                     [&fqn](const auto& own) { return own.fqn() == fqn; });
      if (!planned.insert(fqn).second) {
        find(FindingCode::kDuplicateTable, fqn, "the plan lists the table twice");
      } else if (made == shardings_.end() || !is_same(sharding, *made)) {
        find(FindingCode::kOptionsMismatch, fqn,
             "the plan does not shard the table as the option that it names does");
      }
    }
    for (const embedding::TableSharding& sharding : shardings_) {
      if (planned.contains(sharding.fqn())) continue;
      find(FindingCode::kMissingTable, sharding.fqn(), "the plan leaves the table out");
    }
  }

  static bool is_same(const embedding::TableSharding& a, embedding::TableSharding b) {
    const auto shards_of = [](const embedding::TableSharding& sharding) {
      std::vector<std::array<std::int64_t, 5>> shards;
      for (const embedding::PlacedShard& shard : expand_shards(sharding)) {
        shards.push_back({shard.rank, shard.row, shard.column, shard.rows, shard.columns});
      }
      return shards;
    };
    if (shards_of(a) != shards_of(b)) return false;
    b.ranks = a.ranks;
    b.shards = a.shards;
    return a == b;
  }

  void check_room(bool pools_ddr) {
    const auto width = static_cast<std::size_t>(options_.local_world_size);
    Bytes used = 0, cap = 0;
    for (std::size_t rank = 0; rank < report_.used.size(); ++rank) {
      const topology::Storage& bytes = report_.used[rank];
      const topology::Storage& room = room_.devices[rank];
      check_tier("hbm", rank, bytes.hbm, room.hbm);
      check_tier("ssd", rank, bytes.ssd, room.ssd);
      const bool is_of_whole_host = (rank / width + 1) * width <= report_.used.size();
      if (!pools_ddr || !is_of_whole_host) {
        check_tier("ddr", rank, bytes.ddr, room.ddr);
        continue;
      }
      used = saturated_add(used, bytes.ddr);
      cap = saturated_add(cap, room.ddr);
      if ((rank + 1) % width != 0) continue;
      check_tier("ddr", rank, used, cap);
      used = cap = 0;
    }
  }

  void check_tier(std::string_view tier, std::size_t rank, Bytes used, Bytes cap) {
    if (used <= cap && used < kSaturated) return;
    find(FindingCode::kOverCapacity, "",
         fmt::format("{} left for {}, {} needed", format_bytes(cap), tier, format_bytes(used)),
         static_cast<int>(rank));
  }

  const embedding::OptionSet& options_;
  const topology::Topology& room_;
  const embedding::CostModel& cost_model_;
  const embedding::Model model_;
  std::set<std::string> seen_;
  std::deque<embedding::TableSharding> shardings_;  // what the options say; cases point at them
  std::vector<TableCase> cases_;
  Findings findings_;
  ShardingReport report_;
};

}  // namespace

ShardingReport check_options(const GivenSpace& space, const std::vector<StatedOption>& options,
                             const embedding::ShardingPlan* plan, bool pools_ddr, bool strict,
                             bool strict_numerics, std::optional<double> stated_rating) {
  return OptionsJudge(space).judge(options, plan, pools_ddr, strict, strict_numerics,
                                   stated_rating);
}

}  // namespace plimsoll::check
