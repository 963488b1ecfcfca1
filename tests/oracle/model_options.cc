// Prints what the options of a model's tables cost, for the oracle of embedding plans.
//
// The estimator's formulas are tested against TorchRec elsewhere; the oracle takes its figures as
// given and tries all placements of these options. So this is the one part of an oracle that comes
// from the program: the enumerated options with bytes and times of every shard. Hazards are the
// judge's, of a plan of one option each, not the search's.
//
// Output: a dump as plimsoll.torchrec_options/1 describes it, with three keys more an option:
// `collection` (the tables that mean pooling makes depend on each other), `hazards` (names) and
// `output_bytes` (of each shard class).
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <vector>

#include "plimsoll/check/sharding_check.h"
#include "plimsoll/embedding/placement_bridge.h"
#include "plimsoll/embedding/planner.h"
#include "plimsoll/shard/planning_flags.h"

namespace {

using namespace plimsoll;
using namespace plimsoll::embedding;

template <class T>
T must(Result<T> result) {
  if (result) return std::move(*result);
  std::fprintf(stderr, "%s: %s\n", result.error().place.c_str(), result.error().message.c_str());
  std::exit(1);
}

// A plan of this option alone, where its type may stand.
PlacedProposal place_alone(const OptionSet& set, std::int32_t index) {
  const Option& option = set.options[static_cast<std::size_t>(index)];
  PlacedProposal placed;
  placed.options = {index};
  if (option.partition_by != PartitionBy::kUniform) {
    const ShardRuns shards = set.shards(option);
    for (std::int64_t i = 0; i < shards.num_shards(); ++i) {
      const std::int64_t ranks =
          option.partition_by == PartitionBy::kDevice ? set.world_size : set.group_size;
      placed.ranks.push_back(static_cast<std::int32_t>(i % ranks));
    }
  }
  placed.first_rank = {0, static_cast<std::int64_t>(placed.ranks.size())};
  return placed;
}

std::string find_hazards(const PlanningProblem& problem, const OptionSet& set, std::int32_t index) {
  const ShardingPlan plan =
      make_sharding_plan(set, place_alone(set, index), problem.model, problem.topology);
  check::CheckOptions options;
  options.batch_size = problem.batch_size;
  options.reservation = problem.reservation;
  const check::ShardingReport report = must(check::check_sharding(
      problem.model, plan, problem.topology, problem.cost_model, problem.mode, options));
  std::string names;
  for (const check::Finding& hazard : report.hazards()) {
    names += fmt::format("{}\"{}\"", names.empty() ? "" : ", ", to_string(hazard.code));
  }
  return names;
}

std::string collection_of(const Model& model, const TableOptions& table) {
  const Module& module = model.modules[static_cast<std::size_t>(table.module)];
  const Table& given = module.tables[static_cast<std::size_t>(table.table)];
  return fmt::format("{}/{}", table.module_path, given.tower.value_or(0));
}

void print_room(const topology::Topology& room) {
  std::string text;
  for (const topology::Storage& device : room.devices) {
    text +=
        fmt::format("{}[{}, {}, {}]", text.empty() ? "" : ", ", device.hbm, device.ddr, device.ssd);
  }
  fmt::print("\"room\": [{}],\n", text);
}

class Printer {
 public:
  Printer(const PlanningProblem& problem, const PlanningResult& prepared)
      : problem_(problem),
        set_(prepared.enumeration.options),
        estimator_(problem.cost_model, problem.topology, problem.mode),
        input_{&set_, &prepared.reservation->topology, &problem.model, &estimator_,
               prepared.enumeration.profiles} {}

  void print() {
    std::string options;
    for (std::size_t o = 0; o < set_.options.size(); ++o) {
      options += (o == 0 ? "\n" : ",\n") + describe(static_cast<std::int32_t>(o));
    }
    fmt::print("\"shard_classes\": [{}],\n\"output_bytes\": [{}],\n\"options\": [{}]\n", classes_,
               output_bytes_, options);
  }

 private:
  std::string describe(std::int32_t index) {
    const Option& option = set_.options[static_cast<std::size_t>(index)];
    const TableOptions& table = set_.tables[static_cast<std::size_t>(option.table)];
    const Table& given = problem_.model.modules[static_cast<std::size_t>(table.module)]
                             .tables[static_cast<std::size_t>(table.table)];
    std::string shards, sizes;
    const ShardRuns all = set_.shards(option);
    const int first_class = num_classes_;
    for (const ShardRun& run : all.runs) add_class(option, run);
    for (std::int64_t block = 0; block < all.column_blocks; ++block) {
      for (std::size_t r = 0; r < all.runs.size(); ++r) {
        for (std::int64_t i = 0; i < all.runs[r].count; ++i) {
          const char* comma = shards.empty() ? "" : ", ";
          shards += fmt::format("{}{}", comma, first_class + static_cast<int>(r));
          sizes += fmt::format("{}[{}, {}]", comma, all.runs[r].rows, all.runs[r].columns);
        }
      }
    }
    return fmt::format(
        R"({{"fqn": "{}", "module_path": "{}", "group": "{}", "collection": "{}", )"
        R"("sharding_type": "{}", "compute_kernel": "{}", "rows": {}, "columns": {}, )"
        R"("pooling": "{}", "is_pooled": {}, "hazards": [{}], "shards": [{}], "sizes": [{}]}})",
        table.fqn, table.module_path, table.dependency.empty() ? table.fqn : table.dependency,
        collection_of(problem_.model, table), to_string(option.sharding_type),
        to_string(option.compute_kernel), table.shape.rows, table.shape.columns,
        given.pooling == Pooling::kMean ? "mean" : "sum", table.is_pooled,
        find_hazards(problem_, set_, index), shards, sizes);
  }

  void add_class(const Option& option, const ShardRun& run) {
    const Perf& perf = run.perf;
    const char* comma = num_classes_++ == 0 ? "" : ", ";
    classes_ +=
        fmt::format("{}[{}, {}, {}, {}, {}, {}, {}, {}, {}]", comma, run.storage.hbm,
                    run.storage.ddr, run.storage.ssd, perf.total(), perf.fwd_compute,
                    perf.fwd_comms, perf.bwd_compute, perf.bwd_comms, perf.prefetch_compute);
    output_bytes_ +=
        fmt::format("{}{}", comma, plimsoll::embedding::output_bytes(input_, option, run));
  }

  const PlanningProblem& problem_;
  const OptionSet& set_;
  Estimator estimator_;
  BridgeInput input_;
  int num_classes_ = 0;
  std::string classes_, output_bytes_;
};

}  // namespace

int main(int argc, char** argv) {
  CLI::App command("Prints what the options of a model's tables cost");
  app::PlanningFlags flags;
  app::add_planning_flags(command, flags);
  bool has_every_width = false;
  command.add_flag("--widths-all", has_every_width, "Every width of column shards");
  CLI11_PARSE(command, argc, argv);

  PlanningProblem problem = must(app::make_problem(flags));
  if (has_every_width) problem.enumeration.max_column_blocks = 1 << 20;
  const PlanningResult prepared = must(prepare_like_torchrec(problem, {}, {}));
  if (!prepared.reservation) {
    fmt::print("{{\"room\": null}}\n");
    return 0;
  }
  const OptionSet& set = prepared.enumeration.options;
  fmt::print("{{\"world_size\": {}, \"local_world_size\": {}, \"group_size\": {},\n",
             set.world_size, set.local_world_size, set.group_size);
  fmt::print("\"key_value_columns_on_distinct_ranks\": {},\n",
             set.key_value_columns_on_distinct_ranks);
  print_room(prepared.reservation->topology);
  Printer(problem, prepared).print();
  fmt::print("}}\n");
  return 0;
}
