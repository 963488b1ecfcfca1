// The extension module: the command line's entry point, and planning over a planner's own options.
//
// Everything that travels in documents goes through `run`, so that Python and the shell have one
// set of words; options travel as arrays. The interpreter's lock is free while a search runs.

#include <nanobind/nanobind.h>
#include <nanobind/ndarray.h>
#include <nanobind/stl/array.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/tuple.h>
#include <nanobind/stl/vector.h>

#include <atomic>
#include <optional>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "io/documents/torchrec_options_json.h"
#include "option_search.h"
#include "plimsoll/app.h"
#include "plimsoll/core/version.h"
#include "plimsoll/io/machine_json.h"
#include "plimsoll/io/model_json.h"
#include "plimsoll/io/shipped.h"
#include "plimsoll/io/topology_json.h"

namespace nb = nanobind;

namespace plimsoll::python {
namespace {

using embedding::PlacedProposal;
using topology::Storage;

// Raises plimsoll.Error.
[[noreturn]] void raise(const Error& error) {
  const nb::object type = nb::module_::import_("plimsoll._errors").attr("Error");
  const nb::object value = type(std::string(to_string(error.code)), error.place, error.message,
                                error.remedy, error.kind);
  PyErr_SetObject(type.ptr(), value.ptr());
  throw nb::python_error();
}

template <class T>
T take(Result<T> result) {
  if (!result) raise(result.error());
  return *std::move(result);
}

template <class Enum>
Enum enum_of(const std::string& name, const char* place) {
  const auto found = embedding::find_enum<Enum>(name);
  if (!found) raise({ErrorCode::kNotFound, place, "no such name: '" + name + "'", "", ""});
  return *found;
}

struct Cancel {
  std::atomic<bool> flag{false};
};

// A Python callable as a search's progress; what it raises ends the search and is raised after it.
class Callback {
 public:
  Callback(nb::object callable, Cancel& cancel) : callable_(std::move(callable)), cancel_(cancel) {}

  std::function<void(const Progress&)> function() {
    if (callable_.is_none()) return {};
    return [this](const Progress& progress) { tell(progress); };
  }
  void rethrow() {
    if (error_) throw nb::python_error(std::move(*error_));
  }

 private:
  void tell(const Progress& progress) {
    const nb::gil_scoped_acquire lock;
    if (error_) return;
    try {
      callable_(progress.effort, progress.incumbent, progress.lower_bound);
    } catch (nb::python_error& error) {
      error_.emplace(std::move(error));
      cancel_.flag = true;
    }
  }

  nb::object callable_;
  Cancel& cancel_;
  std::optional<nb::python_error> error_;
};

// (exit code, stdout, stderr) of the command line.
std::tuple<int, std::string, std::string> run_command(const std::vector<std::string>& arguments,
                                                      Cancel& cancel, nb::object progress) {
  std::vector<const char*> words{"plimsoll"};
  for (const std::string& argument : arguments) words.push_back(argument.c_str());
  Callback callback(std::move(progress), cancel);
  app::Host host;
  host.cancel = &cancel.flag;
  host.progress = callback.function();
  int code = 0;
  {
    const nb::gil_scoped_release unlocked;
    code = app::run(static_cast<int>(words.size()), words.data(), host);
  }
  callback.rethrow();
  return {code, std::move(host.output), std::move(host.errors)};
}

// The console script: prints, and handles Ctrl-C as the program does.
int run_main(const std::vector<std::string>& arguments) {
  std::vector<const char*> words{"plimsoll"};
  for (const std::string& argument : arguments) words.push_back(argument.c_str());
  const nb::gil_scoped_release unlocked;
  return app::run(static_cast<int>(words.size()), words.data());
}

using RoomArray = nb::ndarray<const std::int64_t, nb::shape<-1, 3>, nb::c_contig, nb::device::cpu>;
using IndexArray = nb::ndarray<const std::int32_t, nb::ndim<1>, nb::c_contig, nb::device::cpu>;

std::vector<Storage> to_room(const OptionSpace& space, const RoomArray& array) {
  if (array.shape(0) != static_cast<std::size_t>(space.options.world_size)) {
    raise({ErrorCode::kValue, "room", "one row a rank is needed", "", ""});
  }
  std::vector<Storage> room;
  for (std::size_t r = 0; r < array.shape(0); ++r) {
    room.push_back({std::max<std::int64_t>(array(r, 0), 0), std::max<std::int64_t>(array(r, 1), 0),
                    std::max<std::int64_t>(array(r, 2), 0)});
  }
  return room;
}

// A vector as an array that owns it.
template <class T>
nb::object to_array(std::vector<T> values) {
  auto* owned = new std::vector<T>(std::move(values));
  const nb::capsule owner(owned, [](void* p) noexcept { delete static_cast<std::vector<T>*>(p); });
  return nb::cast(nb::ndarray<nb::numpy, T, nb::ndim<1>>(owned->data(), {owned->size()}, owner));
}

// {"options", "first_rank", "ranks"}: arrays; a uniform option has no entries in `ranks`.
nb::dict to_dict(const PlacedProposal& plan) {
  nb::dict result;
  result["options"] = to_array(plan.options);
  result["first_rank"] = to_array(plan.first_rank);
  result["ranks"] = to_array(plan.ranks);
  return result;
}

nb::dict to_dict(const embedding::PlanTimes& times) {
  nb::dict result;
  result["rating"] = times.rating;
  result["step"] = times.step;
  result["time"] = times.time;
  return result;
}

nb::dict to_dict(const embedding::BalancedResult& found) {
  const Outcome<embedding::ShardingPlan>& outcome = found.planning.outcome;
  nb::dict result;
  result["status"] = std::string(to_string(outcome.status));
  result["stop"] = std::string(to_string(outcome.stop));
  result["plan"] = outcome.plan ? nb::object(to_dict(found.planning.best)) : nb::none();
  result["objective"] = outcome.certificate.objective;
  result["lower_bound"] = outcome.certificate.lower_bound;
  result["gap"] = outcome.certificate.gap();
  result["proof"] = to_string(outcome.certificate.proof);
  result["times"] = to_dict(found.times);
  result["reference"] = found.reference ? nb::object(to_dict(*found.reference)) : nb::none();
  result["effort"] = found.effort;
  nb::list warnings;
  for (const Warning& warning : outcome.warnings) {
    warnings.append(nb::make_tuple(warning.code, warning.place, warning.message));
  }
  result["warnings"] = warnings;
  result["binding"] = outcome.explanation.binding;
  result["missing_bytes"] = outcome.explanation.missing;
  result["explanation"] = outcome.explanation.lines;
  return result;
}

embedding::Model read_model(const std::string& text) {
  return text.empty() ? embedding::Model{} : take(io::read_model(text, "model"));
}

// An empty space; options are added as a planner has them.
OptionSpace make_space(int world_size, int local_world_size, int group_size,
                       const std::string& compute_device, const std::string& model,
                       bool distinct_columns, bool buckets) {
  if (world_size < 1 || local_world_size < 1 || group_size < 1) {
    raise({ErrorCode::kValue, "topology", "a world, a host or a domain without ranks", "", ""});
  }
  OptionSpace space;
  space.options.world_size = world_size;
  space.options.local_world_size = local_world_size;
  space.options.group_size = group_size;
  space.options.key_value_columns_on_distinct_ranks = distinct_columns;
  space.options.buckets = buckets;
  space.model = read_model(model);
  topology::TopologySpec spec;
  spec.world_size = world_size;
  spec.local_world_size = local_world_size;
  if (group_size != local_world_size) spec.pod_size = group_size / local_world_size;
  const auto device = topology::find_compute_device(compute_device);
  if (!device) {
    raise({ErrorCode::kNotFound, "compute_device", "no such device: '" + compute_device + "'", "",
           ""});
  }
  spec.compute_device = *device;
  space.topology = take(topology::make_topology(spec, false, true));
  return space;
}

// A dump of a planner's options: (space, fqns of its tables, each option's place in the dump's
// list, [hbm, ddr, ssd] left of every rank, hash of the planner's context).
nb::tuple read_space(const std::string& text) {
  io::TorchrecOptions dump = take(io::read_torchrec_options(text, "options"));
  OptionSpace space;
  space.options = std::move(dump.options);
  space.model = std::move(dump.model);
  space.topology = std::move(dump.room);
  std::vector<std::string> fqns;
  for (const auto& table : space.options.tables) fqns.push_back(table.fqn);
  std::vector<std::array<Bytes, 3>> room;
  for (const Storage& left : space.topology.devices) {
    room.push_back({left.hbm, left.ddr, left.ssd});
  }
  return nb::make_tuple(std::move(space), fqns, dump.position, room, dump.context_hash);
}

// What our enumerator makes of a model for a topology, as a release of TorchRec would.
OptionSpace enumerate_space(const std::string& model, const std::string& topology_text,
                            const std::string& cost_model, std::int64_t batch_size) {
  OptionSpace space;
  space.model = read_model(model);
  const auto release = take(embedding::find_cost_model(cost_model));
  const auto spec = take(io::read_topology(topology_text, "topology"));
  space.topology = take(topology::make_topology(spec, release.zero_cap_is_default, release.ssd_tier,
                                                !release.mtia_is_host));
  space.estimator.emplace(release, space.topology, embedding::RunMode{});
  embedding::EnumerationOptions options;
  options.batch_size = batch_size;
  std::optional<Result<embedding::Enumeration>> made;
  {
    const nb::gil_scoped_release unlocked;
    made.emplace(embedding::enumerate(*space.estimator, space.model, options));
  }
  embedding::Enumeration enumeration = take(*std::move(made));
  space.options = std::move(enumeration.options);
  space.profiles = std::move(enumeration.profiles);
  return space;
}

int add_table(OptionSpace& space, const std::string& fqn, const std::string& name,
              const std::string& module_path, const std::string& dependency, std::int64_t rows,
              std::int64_t columns, bool is_pooled) {
  embedding::TableOptions table;
  table.fqn = fqn;
  table.name = name;
  table.module_path = module_path;
  table.dependency = dependency;
  table.shape.rows = rows;
  table.shape.columns = columns;
  table.is_pooled = is_pooled;
  table.first_option = static_cast<std::int32_t>(space.options.options.size());
  const auto& modules = space.model.modules;
  for (std::size_t m = 0; m < modules.size(); ++m) {
    if (modules[m].path != module_path) continue;
    for (std::size_t t = 0; t < modules[m].tables.size(); ++t) {
      if (modules[m].tables[t].name != name) continue;
      table.module = static_cast<std::int32_t>(m);
      table.table = static_cast<std::int32_t>(t);
    }
  }
  space.options.tables.push_back(std::move(table));
  return static_cast<int>(space.options.tables.size()) - 1;
}

// Runs of one column block: {count, rows, columns, first row, row stride, hbm, ddr, ssd}, and the
// milliseconds of each.
int add_option(OptionSpace& space, int table, const std::string& sharding_type,
               const std::string& compute_kernel, int column_blocks,
               const std::vector<std::array<std::int64_t, 8>>& runs,
               const std::vector<std::array<double, 6>>& perfs) {
  embedding::OptionSet& set = space.options;
  if (table < 0 || static_cast<std::size_t>(table) >= set.tables.size()) {
    raise({ErrorCode::kValue, "table", "no such table", "", ""});
  }
  if (runs.empty() || runs.size() != perfs.size()) {
    raise({ErrorCode::kValue, "runs", "as many runs as perfs are needed", "", ""});
  }
  embedding::Option option;
  option.table = table;
  option.sharding_type = enum_of<embedding::ShardingType>(sharding_type, "sharding_type");
  option.compute_kernel = enum_of<embedding::ComputeKernel>(compute_kernel, "compute_kernel");
  option.partition_by = embedding::partition_by(option.sharding_type);
  option.first_run = static_cast<std::int64_t>(set.runs.size());
  option.num_runs = static_cast<std::int32_t>(runs.size());
  option.column_blocks = column_blocks;
  for (std::size_t i = 0; i < runs.size(); ++i) {
    const auto& [count, rows, columns, first_row, row_stride, hbm, ddr, ssd] = runs[i];
    const auto& [fwd_compute, fwd_comms, bwd_compute, bwd_comms, prefetch, input_dist] = perfs[i];
    set.runs.push_back({count,
                        rows,
                        columns,
                        first_row,
                        row_stride,
                        Storage{hbm, ddr, ssd},
                        {fwd_compute, fwd_comms, bwd_compute, bwd_comms, prefetch, input_dist}});
  }
  set.options.push_back(option);
  ++set.tables[static_cast<std::size_t>(table)].num_options;
  return static_cast<int>(set.options.size()) - 1;
}

// (fqn, sharding type, compute kernel, shards a column block, column blocks) of an option.
nb::tuple describe_option(const OptionSpace& space, int index) {
  const auto& option = space.options.options.at(static_cast<std::size_t>(index));
  const auto shards = space.options.shards(option);
  return nb::make_tuple(space.options.tables[static_cast<std::size_t>(option.table)].fqn,
                        std::string(to_string(option.sharding_type)),
                        std::string(to_string(option.compute_kernel)), shards.shards_per_block(),
                        option.column_blocks);
}

// [(count, hbm, ddr, ssd, total ms)] of one column block.
std::vector<std::tuple<std::int64_t, Bytes, Bytes, Bytes, double>> runs_of_option(
    const OptionSpace& space, int index) {
  const auto& option = space.options.options.at(static_cast<std::size_t>(index));
  std::vector<std::tuple<std::int64_t, Bytes, Bytes, Bytes, double>> result;
  for (const embedding::ShardRun& run : space.options.shards(option).runs) {
    result.emplace_back(run.count, run.storage.hbm, run.storage.ddr, run.storage.ssd,
                        run.perf.total());
  }
  return result;
}

// The option of least storage of every table.
nb::object least_options(const OptionSpace& space) {
  std::vector<std::int32_t> least;
  for (const auto& table : space.options.tables) {
    std::int32_t best = table.first_option;
    for (std::int32_t o = best; o < table.first_option + table.num_options; ++o) {
      if (space.options.shards(o).total_storage() < space.options.shards(best).total_storage()) {
        best = o;
      }
    }
    least.push_back(best);
  }
  return to_array(std::move(least));
}

embedding::BalanceObjective objective_of(const std::string& name) {
  if (name == "rating") return embedding::BalanceObjective::kRating;
  if (name == "step") return embedding::BalanceObjective::kStep;
  if (name == "time") return embedding::BalanceObjective::kTime;
  raise({ErrorCode::kNotFound, "objective", "no objective '" + name + "'",
         "choose rating, step or time", ""});
}

// [kernel_weight, collective_weight, ms_per_sharding_type, ms_per_output_byte, ms_per_table,
// floor_ms], or nothing: the default.
using StepModelValues = std::optional<std::array<double, 6>>;

embedding::StepModel step_model_of(const OptionSpace& space, const StepModelValues& values) {
  if (!values) return space.machine ? space.machine->step : embedding::StepModel{};
  const auto& [kernels, collectives, type, output_byte, table, floor] = *values;
  return {kernels, collectives, type, output_byte, table, floor, false};
}

// Of this text (plimsoll.machine/1); without text the shipped one of that name.
embedding::MachineModel read_machine(const std::string& text, const std::string& name) {
  return take(text.empty() ? io::load_shipped_machine(name) : io::read_machine(text, name));
}

// The text of the shipped document of that name.
std::string shipped_machine(const std::string& name) {
  take(io::load_shipped_machine(name));  // or it says which names there are
  for (const io::ShippedDocument& document : io::shipped_machines()) {
    if (document.id == name) return std::string(document.text);
  }
  return "";
}

// Times are those of this machine.
void set_machine(OptionSpace& space, const std::string& text, const std::string& name) {
  if (!space.estimator || space.profiles.size() != space.options.tables.size()) {
    raise(
        {ErrorCode::kValue, "machine",
         "the options do not say what their tables look up, which the times of a machine depend on",
         "leave the enumerator to the planner, or plan without the machine", ""});
  }
  space.machine = std::make_shared<const embedding::MachineModel>(read_machine(text, name));
}

nb::dict search_space(const OptionSpace& space, const RoomArray& room, const std::string& objective,
                      const StepModelValues& step_model, bool keeps_hazards, bool strict_numerics,
                      std::int64_t effort, std::optional<double> time_limit_s, std::uint64_t seed,
                      double tolerance, Cancel& cancel, nb::object progress) {
  const std::vector<Storage> left = to_room(space, room);
  embedding::BalancedOptions options;
  options.bridge.objective = objective_of(objective);
  options.bridge.keeps_hazards = options.may_keep_hazards = keeps_hazards;
  options.bridge.strict_numerics = strict_numerics;
  options.bridge.step_model = step_model_of(space, step_model);
  SearchOptions search;
  search.effort = effort;
  search.seed = seed;
  search.tolerance = tolerance;
  Callback callback(std::move(progress), cancel);
  RunContext context = RunContext::within(time_limit_s);
  context.cancel = &cancel.flag;
  context.progress = callback.function();
  std::optional<Result<embedding::BalancedResult>> found;
  {
    const nb::gil_scoped_release unlocked;
    found.emplace(search_options(space, left, options, search, context));
  }
  callback.rethrow();
  return to_dict(take(*std::move(found)));
}

// {"times", "hazards": [(code, fqn, message)]} of a plan: options, and the ranks of their shards,
// none of uniform ones.
nb::dict judge(const OptionSpace& space, const IndexArray& options,
               const std::vector<std::vector<std::int32_t>>& ranks,
               const StepModelValues& step_model) {
  PlacedProposal plan;
  plan.options.assign(options.data(), options.data() + options.shape(0));
  if (ranks.size() != plan.options.size()) {
    raise({ErrorCode::kValue, "ranks", "as many lists as options are needed", "", ""});
  }
  plan.first_rank.push_back(0);
  for (std::size_t p = 0; p < ranks.size(); ++p) {
    const auto& option = space.options.options.at(static_cast<std::size_t>(plan.options[p]));
    const bool is_uniform = option.partition_by == embedding::PartitionBy::kUniform;
    const std::int64_t wanted = is_uniform ? 0 : space.options.shards(option).num_shards();
    if (std::ssize(ranks[p]) != wanted) {
      raise({ErrorCode::kValue, "ranks", "a rank for every shard is needed", "", ""});
    }
    for (const std::int32_t rank : ranks[p]) {
      if (rank >= 0 && rank < space.options.world_size) continue;
      raise({ErrorCode::kValue, "ranks", "a rank that is not there", "", ""});
    }
    plan.ranks.insert(plan.ranks.end(), ranks[p].begin(), ranks[p].end());
    plan.first_rank.push_back(std::ssize(plan.ranks));
  }
  const PlanJudgement judged = judge_plan(space, step_model_of(space, step_model), plan);
  nb::list hazards;
  for (const check::Finding& hazard : judged.hazards) {
    hazards.append(
        nb::make_tuple(std::string(to_string(hazard.code)), hazard.place, hazard.message));
  }
  nb::dict result;
  result["times"] = to_dict(judged.times);
  result["hazards"] = hazards;
  return result;
}

// [[option of every table]]: what a form ("v1", "v2", "v3") of TorchEasyRec's dynamic program
// proposes. `by_hbm`: the memory that the first two count; else DDR.
std::vector<embedding::Proposal> easyrec_proposals(const OptionSpace& space, const RoomArray& room,
                                                   const std::string& form,
                                                   std::int64_t hbm_bins_per_device,
                                                   std::int64_t ddr_bins_per_device, bool by_hbm,
                                                   Cancel& cancel) {
  const std::vector<Storage> left = to_room(space, room);
  embedding::EasyRecDynamicProgrammingOptions options;
  options.form = form == "v1"   ? embedding::EasyRecForm::kV1
                 : form == "v2" ? embedding::EasyRecForm::kV2
                                : embedding::EasyRecForm::kV3;
  options.hbm_bins_per_device = hbm_bins_per_device;
  options.ddr_bins_per_device = ddr_bins_per_device;
  options.has_cuda = by_hbm;
  RunContext context;
  context.cancel = &cancel.flag;
  std::optional<Result<std::vector<embedding::Proposal>>> proposed;
  {
    const nb::gil_scoped_release unlocked;
    proposed.emplace(propose_easyrec(space, left, options, context));
  }
  return take(*std::move(proposed));
}

// Ranks of one option a table, as `to_dict`; None where there is no room.
nb::object place(const OptionSpace& space, const RoomArray& room, const IndexArray& options,
                 std::int64_t effort) {
  const std::vector<Storage> left = to_room(space, room);
  const embedding::Proposal proposal(options.data(), options.data() + options.shape(0));
  SearchOptions search;
  search.effort = effort;
  std::optional<Result<std::optional<PlacedProposal>>> placed;
  {
    const nb::gil_scoped_release unlocked;
    placed.emplace(place_options(space, left, proposal, search));
  }
  const auto plan = take(*std::move(placed));
  if (!plan) return nb::none();
  return to_dict(*plan);
}

}  // namespace
}  // namespace plimsoll::python

NB_MODULE(_native, module) {
  using namespace plimsoll::python;
  module.attr("__version__") = std::string(plimsoll::kVersion);
  nb::class_<Cancel>(module, "Cancel").def(nb::init<>()).def("set", [](Cancel& cancel) {
    cancel.flag = true;
  });
  module.def("run", run_command, nb::arg("arguments"), nb::arg("cancel"),
             nb::arg("progress").none());
  module.def("main", run_main, nb::arg("arguments"));
  nb::class_<OptionSpace>(module, "OptionSpace")
      .def_prop_ro("num_options",
                   [](const OptionSpace& space) { return space.options.options.size(); })
      .def_prop_ro("num_tables",
                   [](const OptionSpace& space) { return space.options.tables.size(); })
      .def("add_table", add_table, nb::arg("fqn"), nb::arg("name"), nb::arg("module_path"),
           nb::arg("dependency"), nb::arg("rows"), nb::arg("columns"), nb::arg("is_pooled"))
      .def("add_option", add_option, nb::arg("table"), nb::arg("sharding_type"),
           nb::arg("compute_kernel"), nb::arg("column_blocks"), nb::arg("runs"), nb::arg("perfs"))
      .def("describe", describe_option, nb::arg("option"))
      .def("runs", runs_of_option, nb::arg("option"))
      .def("least_options", least_options)
      .def("search", search_space, nb::arg("room"), nb::arg("objective"),
           nb::arg("step_model").none(), nb::arg("keeps_hazards"), nb::arg("strict_numerics"),
           nb::arg("effort"), nb::arg("time_limit_s").none(), nb::arg("seed"), nb::arg("tolerance"),
           nb::arg("cancel"), nb::arg("progress").none())
      .def("set_machine", set_machine, nb::arg("text"), nb::arg("name"))
      .def("judge", judge, nb::arg("options"), nb::arg("ranks"), nb::arg("step_model").none())
      .def("easyrec_proposals", easyrec_proposals, nb::arg("room"), nb::arg("form"),
           nb::arg("hbm_bins_per_device"), nb::arg("ddr_bins_per_device"), nb::arg("by_hbm"),
           nb::arg("cancel"))
      .def("place", place, nb::arg("room"), nb::arg("options"), nb::arg("effort"));
  module.def("make_space", make_space, nb::arg("world_size"), nb::arg("local_world_size"),
             nb::arg("group_size"), nb::arg("compute_device"), nb::arg("model"),
             nb::arg("distinct_columns") = true, nb::arg("buckets") = false);
  module.def("read_space", read_space, nb::arg("text"));
  module.def(
      "check_machine",
      [](const std::string& text, const std::string& name) { read_machine(text, name); },
      nb::arg("text"), nb::arg("name"));
  module.def("shipped_machine", shipped_machine, nb::arg("name"));
  module.def("enumerate_space", enumerate_space, nb::arg("model"), nb::arg("topology"),
             nb::arg("cost_model"), nb::arg("batch_size"));
}
