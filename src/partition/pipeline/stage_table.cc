#include "partition/pipeline/stage_table.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>

#include "partition/pipeline/pipeline_chain.h"
#include "partition/stages/batch_search.h"
#include "plimsoll/partition/pipeline_model.h"

namespace plimsoll::partition {
namespace {

constexpr double kExact = 1e-9;  // relative
constexpr std::int64_t kTablePairs = 20'000'000'000;

// Layers from the last one backwards, without work: any stage may be impossible on any submesh.
GroupGraph make_line(int num_layers) {
  GroupGraph groups;
  groups.kinds.push_back({});
  groups.time_ms.emplace_back(num_layers, 0);
  groups.memory.assign(num_layers, 0);
  groups.predecessors.resize(num_layers);
  groups.successors.resize(num_layers);
  for (int g = 0; g < num_layers; ++g) {
    groups.nodes.push_back({num_layers - 1 - g});
    if (g == 0) continue;
    groups.predecessors[g] = {g - 1};
    groups.successors[g - 1] = {g};
  }
  return groups;
}

// Cut c holds the last c layers.
class TableTimes : public StageTimes {
 public:
  explicit TableTimes(const StageTable& table) : table_(table), meshes_(table.mesh_devices.size()) {
    std::iota(meshes_.begin(), meshes_.end(), 0);
    std::stable_sort(meshes_.begin(), meshes_.end(),
                     [&](int a, int b) { return table.mesh_devices[a] < table.mesh_devices[b]; });
    for (const int mesh : meshes_) options_.push_back({table.mesh_devices[mesh], 1});
  }
  const std::vector<StageOption>& options() const override { return options_; }
  double time_ms(const StageQuery& query, double limit, bool /*is_any_enough*/) override {
    const TableStage stage = stage_of(query);
    const std::size_t at = table_.at(stage.first, stage.last, stage.mesh);
    if (!table_.max_later_stages.empty() && query.count - 1 > table_.max_later_stages[at]) {
      return kUnlimited;
    }
    return table_.time_ms[at] <= limit ? table_.time_ms[at] : kUnlimited;
  }
  std::int64_t num_unknown() const override { return 0; }

  TableStage stage_of(const StageQuery& query) const {
    return {table_.num_layers - query.end, table_.num_layers - 1 - query.begin,
            meshes_[query.option]};
  }

 private:
  const StageTable& table_;
  std::vector<int> meshes_;  // by devices
  std::vector<StageOption> options_;
};

Result<void> validate(const StageTable& table) {
  const auto refuse = [](ErrorCode code, std::string place, std::string message,
                         std::string remedy) {
    return fail(code, std::move(place), std::move(message), std::move(remedy));
  };
  constexpr int kMaxLayers = 4096;
  if (table.num_layers < 1 || table.num_layers > kMaxLayers) {
    return refuse(ErrorCode::kValue, "num_layers", std::to_string(table.num_layers) + " layers",
                  "give 1 to " + std::to_string(kMaxLayers));
  }
  if (table.num_devices < 1 || table.num_devices > kMaxPipelineDevices) {
    return refuse(ErrorCode::kValue, "num_devices", std::to_string(table.num_devices) + " devices",
                  "give 1 to " + std::to_string(kMaxPipelineDevices));
  }
  if (table.num_microbatches < 1) {
    return refuse(ErrorCode::kValue, "num_microbatches", "fewer than one microbatch",
                  "give at least 1");
  }
  if (std::any_of(table.mesh_devices.begin(), table.mesh_devices.end(),
                  [](int devices) { return devices < 1; })) {
    return refuse(ErrorCode::kValue, "mesh_devices", "a submesh without devices",
                  "give at least 1");
  }
  const std::size_t size =
      static_cast<std::size_t>(table.num_layers) * table.num_layers * table.mesh_devices.size();
  if (table.time_ms.size() != size) {
    return refuse(
        ErrorCode::kSchema, "time_ms",
        std::to_string(table.time_ms.size()) + " times instead of " + std::to_string(size),
        "give one for each first layer, last layer and submesh");
  }
  if (!table.max_later_stages.empty() && table.max_later_stages.size() != size) {
    return refuse(ErrorCode::kSchema, "max_later_stages", "another shape than the times",
                  "give one for each time, or none");
  }
  for (int first = 0; first < table.num_layers; ++first) {
    for (int last = first; last < table.num_layers; ++last) {
      for (int mesh = 0; mesh < static_cast<int>(table.mesh_devices.size()); ++mesh) {
        if (table.time_ms[table.at(first, last, mesh)] >= 0) continue;
        return refuse(ErrorCode::kValue, "time_ms",
                      "layers " + std::to_string(first) + " to " + std::to_string(last) +
                          " take a negative time or one that is not a number",
                      "give at least 0, or infinity");
      }
    }
  }
  return {};
}

class StageTableMaker {
 public:
  StageTableMaker(const StageTable& table, const SearchOptions& options, const RunContext& context)
      : table_(table),
        options_(options),
        context_(context),
        groups_(make_line(table.num_layers)),
        cuts_(groups_),
        times_(table),
        pairs_left_(options.effort < 0 ? kTablePairs : options.effort) {
    std::vector<char> holds(table.num_layers, 0);
    cuts_.add(holds);
    for (char& layer : holds) {
      layer = 1;
      cuts_.add(holds);
    }
    cuts_.finish();
  }

  Outcome<TablePlan> run() {
    BatchSearch search;
    search.weight = table_.num_microbatches - 1.0;
    search.best = &best_;
    search.ask = [&](double limit, double sum_limit) { return ask(limit, sum_limit); };
    search.prove = [&](double bound) { bound_ = std::max(bound_, bound); };
    const Guess end = search_batch(search);
    Certificate& certificate = outcome_.certificate;
    certificate.objective = std::numeric_limits<double>::quiet_NaN();
    if (end == Guess::kNone) {
      outcome_.status = SolveStatus::kInfeasible;
      certificate.proof = ProofKind::kNoChainOfAllDevices;
      outcome_.explanation = {"devices", 0, {"no stages in a line fit and use all devices"}};
      return std::move(outcome_);
    }
    certificate.lower_bound = std::min(bound_, best_);
    certificate.proof = ProofKind::kLeastSums;
    if (outcome_.plan) {
      certificate.objective = best_;
      const bool is_optimal =
          best_ <= *certificate.lower_bound * (1 + std::max(2 * kExact, options_.tolerance));
      outcome_.status = is_optimal ? SolveStatus::kOptimal : SolveStatus::kFeasible;
    }
    return std::move(outcome_);
  }

 private:
  GuessAnswer ask(double limit, double sum_limit) {
    PipelineChainSearch search;
    search.num_devices = table_.num_devices;
    search.max_count = table_.num_layers;
    search.limit = limit;
    search.minimises_sum = true;
    search.sum_limit = sum_limit;
    search.must_use_all = true;
    search.uses_windows = false;  // there is no work to go by
    search.pairs_left = &pairs_left_;
    const PipelineChainAnswer answer = find_pipeline_chain(cuts_, times_, search, context_);
    if (answer.stop != ChainStop::kFinished) {
      outcome_.stop = reason_of(answer.stop);
      return {Guess::kStopped};
    }
    if (!answer.chain) return {Guess::kNone};
    TablePlan plan;
    double slowest = 0;
    double sum = 0;
    for (const StageQuery& query : answer.chain->stages) {
      plan.stages.push_back(times_.stage_of(query));
      const TableStage& stage = plan.stages.back();
      const double time = table_.time_ms[table_.at(stage.first, stage.last, stage.mesh)];
      slowest = std::max(slowest, time);
      sum += time;
    }
    const double value = sum + (table_.num_microbatches - 1.0) * slowest;
    if (value < best_) {
      best_ = value;
      outcome_.plan = std::move(plan);
    }
    return {Guess::kFound, slowest, std::min(sum, answer.chain->sum)};
  }

  const StageTable& table_;
  const SearchOptions& options_;
  const RunContext& context_;
  const GroupGraph groups_;
  Downsets cuts_;
  TableTimes times_;
  std::int64_t pairs_left_;
  double best_ = kUnlimited;
  double bound_ = 0;
  Outcome<TablePlan> outcome_;
};

}  // namespace

Result<Outcome<TablePlan>> plan_stage_table(const StageTable& table, const SearchOptions& options,
                                            const RunContext& context) {
  PLIMSOLL_RETURN_IF_ERROR(validate(table));
  return StageTableMaker(table, options, context).run();
}

}  // namespace plimsoll::partition
