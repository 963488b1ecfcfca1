#include "plimsoll/shard/shard_dump.h"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>

#include "plimsoll/common.h"
#include "plimsoll/core/digest.h"
#include "plimsoll/io/files.h"

namespace plimsoll::app {

using embedding::PlanningResult;

Result<std::optional<io::TorchrecOptions>> load_dump(const PlanningFlags& flags) {
  if (flags.model == "-" || !is_file_name(flags.model)) return std::nullopt;
  PLIMSOLL_ASSIGN(const std::string text, io::read_text_file(flags.model));
  if (!io::is_torchrec_options(text)) return std::nullopt;
  const std::pair<const char*, bool> decided[] = {
      {"--on", !flags.on.empty()},
      {"--batch-size", flags.batch_size.has_value()},
      {"--optimizer", !flags.optimizers.empty()},
      {"--data-type", !flags.data_types.empty()},
      {"--constraints", !flags.constraints.empty()},
      {"--cost-model", !flags.cost_model.empty()},
      {"--reservation", !flags.reservation.empty()},
      {"--dense-tensor-estimate", !flags.dense_tensor_estimate.empty()},
      {"--parameter-multiplier", flags.parameter_multiplier.has_value()},
      {"--use-exact-enumerate-order", flags.use_exact_enumerate_order},
      {"--easyrec-environment", flags.easyrec_environment}};
  for (const auto& [flag, is_given] : decided) {
    if (!is_given) continue;
    return fail(ErrorCode::kUsage, flag, "the dump of options already decides it",
                "leave the flag out");
  }
  PLIMSOLL_ASSIGN(io::TorchrecOptions dump, io::read_torchrec_options(text, flags.model));
  dump.hash = input_hash(text);
  return dump;
}

embedding::PlanningProblem make_problem(const io::TorchrecOptions& dump) {
  embedding::PlanningProblem problem;
  problem.model = dump.model;
  problem.topology = dump.topology;
  problem.batch_size = dump.batch_size;
  problem.cost_model = dump.cost_model;
  return problem;
}

embedding::GivenOptions make_given(const io::TorchrecOptions& dump) {
  embedding::GivenOptions given;
  PlanningResult& prepared = given.prepared;
  prepared.enumeration.options = dump.options;
  prepared.reservation.emplace();
  prepared.reservation->topology = dump.room;
  prepared.provenance = embedding::make_provenance(make_problem(dump),
                                                   embedding::ReferenceOptions{}, SearchOptions{});
  prepared.provenance.inputs = {{"options", dump.hash}};
  if (dump.context_hash) prepared.provenance.inputs["context"] = *dump.context_hash;
  if (!dump.torchrec.empty()) prepared.provenance.options["torchrec"] = dump.torchrec;
  return given;
}

namespace {

// The shards of the option as an answer writes them; no ranks.
study::TakenOption take_option(const io::TorchrecOptions& dump, std::size_t index) {
  const embedding::Option& option = dump.options.options[index];
  study::TakenOption entry;
  entry.fqn = dump.options.tables[static_cast<std::size_t>(option.table)].fqn;
  entry.option = dump.position[index];
  entry.storage_hash = dump.storage_hash[index];
  const embedding::ShardRuns shards = dump.options.shards(option);
  for (std::int64_t block = 0; block < shards.column_blocks; ++block) {
    for (const embedding::ShardRun& run : shards.runs) {
      entry.shards.push_back(
          {{run.count, run.rows, run.columns, run.first_row, block * run.columns, run.row_stride},
           run.storage.hbm,
           run.storage.ddr,
           run.storage.ssd,
           run.perf.total()});
    }
  }
  return entry;
}

}  // namespace

check::StatedOption stated_option(const io::TorchrecOptions& dump,
                                  const study::TakenOption& taken) {
  check::StatedOption stated{taken.fqn, -1, taken.ranks, std::nullopt};
  const auto found = std::find(dump.position.begin(), dump.position.end(), taken.option);
  if (found == dump.position.end()) return stated;
  stated.option = std::distance(dump.position.begin(), found);
  const study::TakenOption own = take_option(dump, static_cast<std::size_t>(stated.option));
  if (taken.storage_hash && taken.storage_hash != own.storage_hash) {
    stated.fault = "the storage hash is not that of the dump's option";
  } else if (!taken.shards.empty() && taken.shards != own.shards) {
    stated.fault = "sizes, bytes or times of the shards are not those of the dump's option";
  }
  return stated;
}

std::vector<study::TakenOption> taken_options(const io::TorchrecOptions& dump,
                                              const embedding::OptionSet& options,
                                              const embedding::PlacedProposal& plan) {
  std::vector<study::TakenOption> taken;
  for (std::size_t p = 0; p < plan.options.size(); ++p) {
    study::TakenOption& entry =
        taken.emplace_back(take_option(dump, static_cast<std::size_t>(plan.options[p])));
    for_each_shard(options, plan, p,
                   [&](const embedding::ShardView& shard) { entry.ranks.push_back(shard.rank); });
  }
  return taken;
}

}  // namespace plimsoll::app
