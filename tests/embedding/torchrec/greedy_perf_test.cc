// The greedy partitioner against a naive one, written from the rules without runs, queues or kept
// orders.

#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <numeric>
#include <optional>
#include <random>
#include <string>

#include "plimsoll/embedding/partitioner.h"
#include "plimsoll/embedding/perf_model.h"

namespace plimsoll::embedding {
namespace {

using topology::Topology;

struct NaiveDevice {
  int rank = 0;
  Storage room;
  Perf load;
};

// One shard after another, every choice by a full scan. Ranks by position; empty on failure.
class NaiveGreedy {
 public:
  NaiveGreedy(const OptionSet& options, const Topology& topology, SortBy sort_by, bool balance)
      : options_(options), topology_(topology), sort_by_(sort_by), balance_(balance) {}

  bool place(const Proposal& proposal) {
    devices_.clear();
    for (int r = 0; r < topology_.world_size; ++r) {
      devices_.push_back({r, topology_.devices[static_cast<std::size_t>(r)], {}});
    }
    ranks.assign(proposal.size(), {});
    uniform_failure.reset();
    std::vector<int> all(devices_.size());
    std::iota(all.begin(), all.end(), 0);
    for (std::size_t p = 0; p < proposal.size(); ++p) {
      if (option(proposal[p]).partition_by == PartitionBy::kUniform &&
          !place_uniformly(proposal[p], p, all)) {
        return false;
      }
    }
    for (const auto& group : groups(proposal)) {
      const PartitionBy by = option(proposal[group.front()]).partition_by;
      const bool is_placed =
          by == PartitionBy::kDevice ? place_anywhere(proposal[group.front()], group.front(), all,
                                                      topology_.local_world_size)
          : by == PartitionBy::kHost ? place_on_a_host(proposal, group)
                                     : place_grid(proposal[group.front()], group.front());
      if (!is_placed) return false;
    }
    return true;
  }

  std::vector<std::vector<std::int32_t>> ranks;  // by position
  // The first shard of a uniform option without room, its rank, and what was left there.
  struct UniformFailure {
    std::int32_t option = -1, rank = -1;
    Storage room;
  };
  std::optional<UniformFailure> uniform_failure;

 private:
  const Option& option(std::int32_t o) const {
    return options_.options[static_cast<std::size_t>(o)];
  }
  const TableOptions& table(std::int32_t o) const {
    return options_.tables[static_cast<std::size_t>(option(o).table)];
  }
  std::vector<ShardRun> shards(std::int32_t o) const {
    std::vector<ShardRun> all;
    const ShardRuns runs = options_.shards(o);
    for (std::int64_t b = 0; b < runs.column_blocks; ++b) {
      for (const ShardRun& run : runs.runs) {
        all.insert(all.end(), static_cast<std::size_t>(run.count), run);
      }
    }
    return all;
  }
  void put(const ShardRun& shard, std::size_t position, int device) {
    NaiveDevice& d = devices_[static_cast<std::size_t>(device)];
    d.room -= shard.storage;
    d.load += shard.perf;
    ranks[position].push_back(d.rank);
  }
  bool fits(const ShardRun& shard, int device) const {
    return shard.storage.fits_in(devices_[static_cast<std::size_t>(device)].room);
  }
  double load(int device) const { return devices_[static_cast<std::size_t>(device)].load.total(); }

  bool place_uniformly(std::int32_t o, std::size_t position, const std::vector<int>& where) {
    const auto all = shards(o);
    if (all.size() != where.size()) return false;
    for (std::size_t i = 0; i < all.size(); ++i) {
      if (!fits(all[i], where[i])) {
        const NaiveDevice& device = devices_[static_cast<std::size_t>(where[i])];
        if (!uniform_failure) uniform_failure = {o, device.rank, device.room};
        return false;
      }
      put(all[i], position, where[i]);
    }
    return true;
  }

  bool place_anywhere(std::int32_t o, std::size_t position, const std::vector<int>& where,
                      int modulus) {
    for (const ShardRun& shard : shards(o)) {
      int best = -1;
      for (const int d : where) {
        if (!fits(shard, d)) continue;
        const auto key = [&](int e) { return std::tuple(load(e), e % modulus, e); };
        if (best < 0 || key(d) < key(best)) best = d;
      }
      if (best < 0) return false;
      put(shard, position, best);
    }
    return true;
  }

  std::vector<std::vector<int>> hosts_by_load() const {
    std::vector<std::vector<int>> hosts;
    const int g = topology_.group_size();
    for (int h = 0; h < topology_.world_size / g; ++h) {
      std::vector<int> host(static_cast<std::size_t>(g));
      std::iota(host.begin(), host.end(), h * g);
      hosts.push_back(host);
    }
    const auto sum = [this](const std::vector<int>& host) {
      double total = 0;
      for (const int d : host) total += load(d);
      return total;
    };
    std::stable_sort(hosts.begin(), hosts.end(),
                     [&](const auto& a, const auto& b) { return sum(a) < sum(b); });
    return hosts;
  }

  bool place_on_a_host(const Proposal& proposal, const std::vector<std::size_t>& group) {
    Storage needed;
    for (const std::size_t p : group) needed += options_.shards(proposal[p]).total_storage();
    for (const auto& host : hosts_by_load()) {
      Storage room;
      for (const int d : host) room += devices_[static_cast<std::size_t>(d)].room;
      if (!needed.fits_in(room)) continue;
      const auto saved_devices = devices_;
      const auto saved_ranks = ranks;
      bool is_placed = true;
      for (const std::size_t p : group) {
        const ShardingType type = option(proposal[p]).sharding_type;
        is_placed = is_placed &&
                    (type == ShardingType::kTableRowWise
                         ? place_uniformly(proposal[p], p, host)
                         : place_anywhere(proposal[p], p, host, static_cast<int>(host.size())));
      }
      if (is_placed) return true;
      devices_ = saved_devices;
      ranks = saved_ranks;
    }
    return false;
  }

  bool place_grid(std::int32_t o, std::size_t position) {
    const auto all = shards(o);
    const auto g = static_cast<std::size_t>(topology_.group_size());
    if (all.size() % g != 0) return false;
    const auto hosts = hosts_by_load();
    const std::size_t needed = all.size() / g;
    for (std::size_t begin = 0; begin == 0 || begin + needed <= hosts.size(); ++begin) {
      const auto saved_devices = devices_;
      const auto saved_ranks = ranks;
      bool is_placed = !hosts.empty();
      for (std::size_t i = 0; i < all.size() && is_placed; ++i) {
        const int device = hosts[(begin + i / g) % hosts.size()][i % g];
        is_placed = fits(all[i], device);
        if (is_placed) put(all[i], position, device);
      }
      if (is_placed) return true;
      devices_ = saved_devices;
      ranks = saved_ranks;
      if (needed >= hosts.size()) break;
    }
    return false;
  }

  std::vector<std::vector<std::size_t>> groups(const Proposal& proposal) const {
    std::vector<std::pair<std::string, std::vector<std::size_t>>> found;
    for (std::size_t p = 0; p < proposal.size(); ++p) {
      if (option(proposal[p]).partition_by == PartitionBy::kUniform) continue;
      const TableOptions& t = table(proposal[p]);
      const std::string key = t.dependency.empty() ? "fqn " + t.fqn : t.dependency;
      const auto same = std::find_if(found.begin(), found.end(),
                                     [&](const auto& group) { return group.first == key; });
      if (same == found.end()) {
        found.push_back({key, {p}});
      } else {
        same->second.push_back(p);
      }
    }
    const auto key = [&](const std::vector<std::size_t>& group) {
      Storage storage;
      double perf = 0;
      for (const std::size_t p : group) {
        storage += options_.shards(proposal[p]).total_storage();
        perf += options_.shards(proposal[p]).total_perf();
      }
      std::int64_t count = 0;
      const std::string& path = table(proposal[group.front()]).module_path;
      for (const std::int32_t o : proposal) count -= table(o).module_path == path ? 1 : 0;
      return std::tuple(balance_ ? count : 0, sort_by_ == SortBy::kStorage ? storage : Storage{},
                        sort_by_ == SortBy::kPerf ? perf : 0.0);
    };
    std::stable_sort(found.begin(), found.end(),
                     [&](const auto& a, const auto& b) { return key(a.second) > key(b.second); });
    std::vector<std::vector<std::size_t>> ordered;
    for (auto& [name, group] : found) ordered.push_back(std::move(group));
    return ordered;
  }

  const OptionSet& options_;
  const Topology& topology_;
  SortBy sort_by_;
  bool balance_;
  std::vector<NaiveDevice> devices_;
};

// Options with small integers as sizes and times, so that ties abound.
OptionSet random_options(std::mt19937_64& random, const Topology& topology) {
  OptionSet set;
  set.world_size = topology.world_size;
  set.local_world_size = topology.local_world_size;
  set.group_size = topology.group_size();
  const auto pick = [&random](int below) {
    return static_cast<int>(random() % static_cast<unsigned>(below));
  };
  const int num_tables = 1 + pick(10);
  for (int t = 0; t < num_tables; ++t) {
    TableOptions table;
    table.name = "t" + std::to_string(t);
    table.module_path = pick(2) == 0 ? "a" : "b";
    table.fqn = table.module_path + "." + table.name;
    const bool is_tower = pick(5) == 0;
    if (is_tower) table.dependency = "tower" + std::to_string(pick(2));
    table.first_option = static_cast<std::int32_t>(set.options.size());
    table.num_options = 4;
    for (int o = 0; o < table.num_options; ++o) {
      Option option;
      option.table = t;
      option.sharding_type =
          is_tower ? (pick(2) == 0 ? ShardingType::kTableRowWise : ShardingType::kTableColumnWise)
                   : static_cast<ShardingType>(pick(kNumShardingTypes));
      option.partition_by = partition_by(option.sharding_type);
      option.first_run = static_cast<std::int64_t>(set.runs.size());
      const bool is_column = is_column_cut(option.sharding_type);
      option.column_blocks = is_column ? 1 + pick(5) : 1;
      const int rows = option.partition_by == PartitionBy::kUniform ? topology.world_size
                       : option.sharding_type == ShardingType::kTableRowWise ||
                               option.sharding_type == ShardingType::kGridShard
                           ? topology.group_size()
                           : 1;
      Perf perf;
      perf.fwd_compute = 0.1 * pick(4);
      perf.bwd_compute = 0.3 * pick(3);
      perf.fwd_comms = 0.7 * pick(2);
      for (int left = rows; left > 0;) {
        ShardRun run;
        run.count = 1 + pick(left);
        run.columns = 4;
        run.storage = {pick(4), pick(3), 0};
        run.perf = perf;
        if (pick(6) == 0) run.perf.bwd_comms = 0.2;  // unequal times within an option
        set.runs.push_back(run);
        left -= static_cast<int>(run.count);
      }
      option.num_runs =
          static_cast<std::int32_t>(static_cast<std::int64_t>(set.runs.size()) - option.first_run);
      set.options.push_back(option);
    }
    set.tables.push_back(table);
  }
  return set;
}

TEST(GreedyPerf, PlacesEveryProposalOfASearchAsANaiveReadingOfTheRules) {
  const CostModel cost_model = *find_cost_model("torchrec-ref");
  int num_placed = 0;
  int num_failed = 0;
  int num_uniform = 0;
  for (std::uint64_t seed = 0; seed < 400; ++seed) {
    SCOPED_TRACE(seed);
    std::mt19937_64 random(seed);
    Topology topology;
    topology.local_world_size = 1 + static_cast<int>(random() % 4);
    topology.world_size = topology.local_world_size * (1 + static_cast<int>(random() % 4)) +
                          static_cast<int>(random() % 2);  // sometimes left-over ranks
    for (int r = 0; r < topology.world_size; ++r) {
      topology.devices.push_back({4 + static_cast<Bytes>(random() % 12), 12, 0});
    }
    const OptionSet options = random_options(random, topology);
    GreedyPerfOptions config;
    config.sort_by = random() % 2 == 0 ? SortBy::kStorage : SortBy::kPerf;
    config.balance_modules = random() % 2 == 0;
    const auto partitioner = make_greedy_perf_partitioner(cost_model, config);
    NaiveGreedy naive(options, topology, config.sort_by, config.balance_modules);
    Proposal proposal;
    for (const TableOptions& table : options.tables) proposal.push_back(table.first_option);
    for (int step = 0; step < 12;
         ++step) {  // one partitioner for the whole walk: its kept order must follow
      const std::size_t changed = random() % proposal.size();
      const TableOptions& table = options.tables[changed];
      proposal[changed] = table.first_option + static_cast<std::int32_t>(random() % 4);
      PlacedProposal plan;
      const auto failure = partitioner->partition(options, proposal, topology, plan);
      ASSERT_EQ(!failure, naive.place(proposal)) << "step " << step;
      if (failure) {
        ++num_failed;
        EXPECT_FALSE(describe(*failure, cost_model, options).message.empty());
        if (failure->reason != PartitionFailure::Reason::kUniformDoesNotFit) continue;
        ++num_uniform;
        ASSERT_TRUE(naive.uniform_failure.has_value());
        EXPECT_EQ(failure->option, naive.uniform_failure->option);
        EXPECT_EQ(failure->rank, naive.uniform_failure->rank);
        EXPECT_EQ(failure->shard, failure->rank);
        EXPECT_EQ(failure->room, naive.uniform_failure->room);
        continue;
      }
      ++num_placed;
      for (std::size_t p = 0; p < proposal.size(); ++p) {
        std::vector<std::int32_t> ranks;
        for_each_shard(options, plan, p,
                       [&](const ShardView& shard) { ranks.push_back(shard.rank); });
        ASSERT_EQ(ranks, naive.ranks[p]) << "step " << step << ", position " << p;
      }
    }
  }
  // Both outcomes are met often, or the comparison shows nothing.
  EXPECT_GT(num_placed, 1000);
  EXPECT_GT(num_failed, 1000);
  EXPECT_GT(num_uniform, 100);
}

TEST(GreedyPerf, RatesRoughlyBelowTheExactRating) {
  const CostModel cost_model = *find_cost_model("torchrec-ref");
  for (std::uint64_t seed = 0; seed < 200; ++seed) {
    SCOPED_TRACE(seed);
    std::mt19937_64 random(seed);
    Topology topology;
    topology.world_size = 4;
    topology.local_world_size = 2;
    topology.devices.assign(4, {1000, 1000, 0});
    const OptionSet options = random_options(random, topology);
    Proposal proposal;
    for (const TableOptions& table : options.tables) proposal.push_back(table.first_option);
    PlacedProposal plan;
    if (make_greedy_perf_partitioner(cost_model)->partition(options, proposal, topology, plan)) {
      continue;
    }
    EXPECT_LE(rate_roughly(PerfModelKind::kPerf, options, plan),
              rate(PerfModelKind::kPerf, options, plan));
  }
}

}  // namespace
}  // namespace plimsoll::embedding
