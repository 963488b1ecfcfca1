#include "plimsoll/study/plan_outline.h"

#include <fmt/format.h>

#include <algorithm>
#include <type_traits>
#include <unordered_map>
#include <utility>

#include "plimsoll/core/checked.h"
#include "study/partition/pipeline_answer.h"

namespace plimsoll::study {
namespace {

using embedding::RankRun;
using embedding::ShardSizeRun;
using embedding::TableSharding;

tl::unexpected<Error> no_plan() {
  return fail(ErrorCode::kValue, "plan", "the answer holds no plan",
              "plan again, with more time, memory or ranks");
}

// Values of other objectives are not to be compared, so that the names say of what they are.
void put_certificate(const std::optional<Certificate>& certificate, std::string_view objective,
                     PlanOutline& outline) {
  if (!certificate) return;
  outline.figures.emplace(objective, certificate->objective);
  if (certificate->lower_bound) {
    outline.figures.emplace(fmt::format("lower_bound_of_{}", objective), *certificate->lower_bound);
  }
}

// ---------------------------------------------------------------- sharding plans

// Does the run begin where a cut in order goes on after `last`, or is it another replica?
bool goes_on(const ShardSizeRun& run, const ShardSizeRun* last) {
  if (run.row == 0 && run.column == 0) return true;
  if (last == nullptr) return false;
  const Int128 next_row =
      Int128{last->row} + Int128{last->count - 1} * last->row_stride + last->rows;
  return (run.row == next_row && run.column == last->column) ||
         (run.row == 0 && run.column == Int128{last->column} + last->columns);
}

// "8 x 125000 x 128": equal shards one after another, rows by columns; a "+" where sizes change,
// and where it begins where a shard stands out of order.
std::string shards_text(const std::vector<ShardSizeRun>& shards) {
  std::string text;
  for (std::size_t i = 0; i < shards.size();) {
    const ShardSizeRun& first = shards[i];
    std::string start;
    if (!goes_on(first, i > 0 ? &shards[i - 1] : nullptr)) {
      start = fmt::format(" from {},{}", first.row, first.column);
    }
    std::int64_t count = first.count;
    for (++i; i < shards.size() && shards[i].rows == first.rows &&
              shards[i].columns == first.columns && goes_on(shards[i], &shards[i - 1]);
         ++i) {
      count = saturated_add(count, shards[i].count);
    }
    text += fmt::format("{}{} x {} x {}{}", text.empty() ? "" : " + ", count, first.rows,
                        first.columns, start);
  }
  return text;
}

template <class T>
void put_setting(std::string_view name, const std::optional<T>& value, std::string& text) {
  if (!value) return;
  if (!text.empty()) text += ", ";
  if constexpr (std::is_enum_v<T>) {
    text += fmt::format("{} {}", name, to_string(*value));
  } else {
    text += fmt::format("{} {}", name, *value);
  }
}

// What a plan passes on beside type, kernel and places.
std::string settings_text(const TableSharding& table) {
  std::string text;
  if (const auto& cache = table.cache_params) {
    put_setting("cache load factor", cache->load_factor, text);
    put_setting("cache algorithm", cache->algorithm, text);
    put_setting("cache reserved memory", cache->reserved_memory, text);
    put_setting("cache precision", cache->precision, text);
    put_setting("cache prefetch pipeline", cache->prefetch_pipeline, text);
    put_setting("cache passes", cache->multipass_num_passes, text);
  }
  put_setting("enforce_hbm", table.enforce_hbm, text);
  put_setting("stochastic_rounding", table.stochastic_rounding, text);
  put_setting("bounds_check_mode", table.bounds_check_mode, text);
  put_setting("output_dtype", table.output_dtype, text);
  if (const auto& key_value = table.key_value_params) {
    put_setting("L1 cache MB", key_value->max_l1_cache_size, text);
    put_setting("L2 cache GB", key_value->l2_cache_size, text);
    for (const auto& [name, value] : key_value->pass_through) {
      put_setting(name, std::optional<std::string>(value), text);
    }
  }
  if (const auto& dynamic = table.dynamic_embedding) {
    put_setting("mode", dynamic->mode, text);
    put_setting("load factor", dynamic->load_factor, text);
    put_setting("bucket capacity", std::optional<std::int64_t>(dynamic->bucket_capacity), text);
  }
  return text;
}

// Every phase as long as on its slowest rank, one after another.
std::optional<double> step_of(const Bill& bill) {
  double step = 0;
  bool has_phases = false;
  for (const char* phase :
       {"fwd_compute", "fwd_comms", "bwd_compute", "bwd_comms", "prefetch_compute"}) {
    const auto found = bill.ms.find(phase);
    if (found == bill.ms.end() || found->second.empty()) continue;
    has_phases = true;
    step += *std::max_element(found->second.begin(), found->second.end());
  }
  if (!has_phases) return std::nullopt;
  return step;
}

// ---------------------------------------------------------------- placements

std::vector<RankRun> runs_of(std::vector<int> numbers) {
  std::sort(numbers.begin(), numbers.end());
  std::vector<RankRun> runs;
  for (const int number : numbers) {
    const std::int64_t end =
        runs.empty() ? std::int64_t{number} : std::int64_t{runs.back().first} + runs.back().count;
    if (!runs.empty() && end == number) {
      ++runs.back().count;
    } else if (number >= end) {
      runs.push_back({number, 1});
    }
  }
  return runs;
}

// A stage's figure on each of its devices, which stand in `place_of`; others have none.
template <class T>
void put_on_devices(const char* name, const PlacedStage& stage, std::optional<T> value,
                    const std::map<int, std::size_t>& place_of,
                    std::map<std::string, std::vector<T>>& bill) {
  if (!value) return;
  std::vector<T>& values = bill[name];
  values.resize(place_of.size(), 0);
  for (const int device : stage.devices) {
    T& sum = values[place_of.at(device)];
    if constexpr (std::is_integral_v<T>) {
      sum = saturated_add(sum, *value);
    } else {
      sum += *value;
    }
  }
}

void add_unit(const checkpoint::CheckpointUnit& unit, const std::string& inside,
              PlanOutline& outline) {
  PlanPart part;
  part.name = fmt::format("{}", fmt::join(unit.fqns, " + "));
  part.choices["kind"] = std::string(to_string(unit.kind));
  part.choices["discard_ratio"] = fmt::format("{}", unit.discard_ratio);
  if (!unit.ops.empty()) {
    std::vector<int> again;
    for (const checkpoint::OperatorChoice& op : unit.ops) {
      if (!op.save) again.push_back(op.index);
    }
    const std::size_t num_again = again.size();
    part.choices["recomputed"] = fmt::format("{} of {} operators: {}", num_again, unit.ops.size(),
                                             ranks_text(runs_of(std::move(again)), -1));
  }
  if (!inside.empty()) part.choices["inside"] = inside;
  const std::string name = part.name;
  outline.parts.push_back(std::move(part));
  for (const checkpoint::CheckpointUnit& nested : unit.nested) add_unit(nested, name, outline);
}

}  // namespace

std::string_view to_string(PlanKind kind) {
  switch (kind) {
    case PlanKind::kSharding:
      return "sharding";
    case PlanKind::kCheckpointing:
      return "checkpointing";
    case PlanKind::kPlacement:
      return "placement";
    case PlanKind::kPipeline:
      return "pipeline";
  }
  return "";
}

std::string ranks_text(const std::vector<RankRun>& ranks, std::int64_t world_size) {
  std::string text;
  for (std::size_t i = 0; i < ranks.size();) {
    const std::int64_t first = ranks[i].first;
    std::int64_t end = first + ranks[i].count;
    for (++i; i < ranks.size() && ranks[i].first == end; ++i) end += ranks[i].count;
    if (first == 0 && end == world_size && i == ranks.size() && text.empty() && world_size > 1) {
      return "all";
    }
    text += text.empty() ? "" : ",";
    text += end == first + 1 ? fmt::format("{}", first) : fmt::format("{}-{}", first, end - 1);
  }
  return text;
}

std::string_view total_ms_name(const PlanOutline& outline) {
  return outline.bill.ms.contains("total") ? "total" : "";
}

std::string_view total_bytes_name(const PlanOutline& outline) {
  for (const std::string_view name : {"hbm", "ddr", "ssd", "memory", "needed"}) {
    const auto found = outline.bill.bytes.find(std::string(name));
    if (found == outline.bill.bytes.end()) continue;
    const auto is_used = [](Bytes bytes) { return bytes > 0; };
    if (std::any_of(found->second.begin(), found->second.end(), is_used)) return name;
  }
  return "";
}

Result<PlanOutline> outline_plan(const ShardingAnswer& answer) {
  if (!answer.plan) return no_plan();
  PlanOutline outline;
  outline.kind = PlanKind::kSharding;
  outline.ranks_per_host = answer.plan->local_world_size;
  for (const TableSharding& table : answer.plan->tables) {
    PlanPart part;
    part.name = table.fqn();
    part.choices = {{"sharding_type", std::string(to_string(table.sharding_type))},
                    {"compute_kernel", std::string(to_string(table.compute_kernel))},
                    {"ranks", ranks_text(table.ranks, answer.plan->world_size)},
                    {"shards", shards_text(table.shards)}};
    if (std::string settings = settings_text(table); !settings.empty()) {
      part.choices["settings"] = std::move(settings);
    }
    part.places = table.ranks;
    outline.parts.push_back(std::move(part));
  }
  for (int rank = 0; rank < answer.plan->world_size; ++rank) {
    outline.places.push_back(fmt::format("rank {}", rank));
  }
  outline.bill = answer.bill;
  if (answer.rating) outline.figures["rating"] = *answer.rating;
  if (answer.times) {
    outline.figures["step"] = answer.times->step;
    outline.figures["time"] = answer.times->time;
  } else if (const auto step = step_of(answer.bill)) {
    outline.figures["step"] = *step;
  }
  put_certificate(answer.certificate, answer.objective ? to_string(*answer.objective) : "rating",
                  outline);
  return outline;
}

Result<PlanOutline> outline_plan(const CheckpointAnswer& answer) {
  if (!answer.plan) return no_plan();
  PlanOutline outline;
  outline.kind = PlanKind::kCheckpointing;
  for (const checkpoint::CheckpointUnit& unit : answer.plan->units) add_unit(unit, "", outline);
  std::vector<Bytes> needed;
  for (const ProfileEntry& entry : answer.profile) {
    outline.places.push_back(entry.fqn);
    needed.push_back(entry.bytes);
  }
  if (!needed.empty()) outline.bill.bytes["needed"] = std::move(needed);
  if (answer.predicted) {
    outline.figures["peak_bytes"] = static_cast<double>(answer.predicted->peak_bytes);
    outline.figures["baseline_peak_bytes"] =
        static_cast<double>(answer.predicted->baseline_peak_bytes);
    outline.figures["recompute_ms"] = answer.predicted->recompute_ms;
  }
  if (answer.budget_bytes) {
    outline.figures["budget_bytes"] = static_cast<double>(*answer.budget_bytes);
  }
  put_certificate(answer.certificate, "recompute_ms", outline);
  return outline;
}

Result<PlanOutline> outline_plan(const PlacementAnswer& answer) {
  if (!answer.plan) return no_plan();
  PlanOutline outline;
  outline.kind = PlanKind::kPlacement;
  std::map<int, std::size_t> place_of;
  bool has_caps = true;
  for (const PlacedStage& stage : *answer.plan) {
    for (const int device : stage.devices) place_of.emplace(device, 0);
    has_caps &= stage.memory_cap.has_value();
  }
  for (auto& [device, place] : place_of) {
    place = outline.places.size();
    outline.places.push_back(fmt::format("device {}", device));
  }
  // torch.fx's partitions may hold a source each, and one node then stands in several.
  std::unordered_map<std::string_view, std::size_t> part_of;
  std::vector<std::vector<int>> devices_of;
  for (const PlacedStage& stage : *answer.plan) {
    for (const std::string& node : stage.nodes) {
      const auto [entry, is_new] = part_of.try_emplace(node, devices_of.size());
      if (is_new) {
        devices_of.emplace_back();
        outline.parts.push_back({node, {}, {}});
      }
      std::vector<int>& devices = devices_of[entry->second];
      devices.insert(devices.end(), stage.devices.begin(), stage.devices.end());
    }
    put_on_devices("compute", stage, stage.compute_ms, place_of, outline.bill.ms);
    put_on_devices("transfer", stage, stage.transfer_ms, place_of, outline.bill.ms);
    put_on_devices("sync", stage, stage.sync_ms, place_of, outline.bill.ms);
    put_on_devices("total", stage, stage.load_ms, place_of, outline.bill.ms);
    put_on_devices("memory", stage, std::optional(stage.memory), place_of, outline.bill.bytes);
    if (!has_caps) continue;
    std::vector<Bytes>& caps = outline.bill.bytes["memory_cap"];
    caps.resize(place_of.size(), 0);
    for (const int device : stage.devices) caps[place_of.at(device)] = *stage.memory_cap;
  }
  for (std::size_t p = 0; p < outline.parts.size(); ++p) {
    PlanPart& part = outline.parts[p];
    part.choices["devices"] = ranks_text(runs_of(devices_of[p]), -1);
    std::vector<int> places;
    for (const int device : devices_of[p]) places.push_back(static_cast<int>(place_of.at(device)));
    part.places = runs_of(std::move(places));
  }
  std::map<std::pair<int, int>, double> links;
  for (const PlacedCut& cut : answer.cuts) {
    for (const int to : cut.to) links[{cut.from, to}] += cut.amount;
  }
  for (const auto& [ends, amount] : links) {
    outline.links.push_back({ends.first, ends.second, amount});
  }
  put_certificate(answer.certificate, to_string(answer.objective), outline);
  return outline;
}

Result<PlanOutline> outline_plan(const PipelineAnswer& answer) {
  if (!answer.plan) return no_plan();
  PlanOutline outline;
  outline.kind = PlanKind::kPipeline;
  std::vector<double> times;
  std::vector<Bytes> memory;
  for (std::size_t s = 0; s < answer.plan->size(); ++s) {
    const PipelineStageEntry& stage = (*answer.plan)[s];
    outline.places.push_back(fmt::format("stage {}", s));
    if (stage.time_ms) times.push_back(*stage.time_ms);
    if (stage.memory) memory.push_back(*stage.memory);
    for (std::size_t i = 0; i < stage.operators.size(); ++i) {
      outline.parts.push_back({fmt::format("operator {}", stage.operators[i]),
                               {{"stage", fmt::format("{}", s)},
                                {"choice", stage.choices[i]},
                                {"data_parallel", fmt::format("{}", stage.data_parallel)},
                                {"tensor_parallel", fmt::format("{}", stage.tensor_parallel)}},
                               {{static_cast<std::int32_t>(s), 1}}});
    }
  }
  if (times.size() == outline.places.size()) outline.bill.ms["total"] = std::move(times);
  if (memory.size() == outline.places.size()) outline.bill.bytes["memory"] = std::move(memory);
  if (answer.slowest_ms) outline.figures["slowest_stage"] = *answer.slowest_ms;
  put_certificate(answer.certificate,
                  answer.objective.empty() ? "slowest_stage" : std::string_view(answer.objective),
                  outline);
  return outline;
}

}  // namespace plimsoll::study
