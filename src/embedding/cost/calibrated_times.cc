#include "embedding/cost/calibrated_times.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "core/check.h"
#include "embedding/cost/loads.h"
#include "plimsoll/embedding/enumerator.h"

namespace plimsoll::embedding {
namespace {

using topology::Collective;

constexpr double kNsPerMs = 1e6;
constexpr double kBytesPerMs = 1e6;  // of one GB/s
constexpr double kMiBytes = 1024.0 * 1024.0;
constexpr double kOutputElement = 4;  // bytes: kernels sum in fp32

constexpr PassDirection kDirections[] = {PassDirection::kForward, PassDirection::kBackward};

// Without the call.
double shard_ns(const KernelTerms& terms, const KernelVariables& v) {
  return terms.table_ns * v.tables + terms.lookup_ns * v.lookups +
         terms.read_byte_ns * v.read_bytes + terms.output_byte_ns * v.output_bytes +
         terms.distinct_row_ns * v.distinct_rows +
         terms.distinct_byte_miss_ns * v.distinct_byte_misses +
         terms.weight_byte_ns * v.weight_bytes;
}

std::string name_of(const KernelForm& form) {
  return fmt::format("{} {}{}{}", to_string(form.kernel), to_string(form.direction),
                     form.optimizer ? " " : "", form.optimizer ? to_string(*form.optimizer) : "");
}

// Bytes of an element that collectives carry: what a codec makes of it, else the output's own.
CommsElementSizes sent_element_sizes(const TableProfile& profile) {
  const SharderParams& sharder = profile.sharder;
  const bool has_codec =
      sharder.codec_bytes ||
      sharder.forward_comms.value_or(CommsPrecision::kFp32) != CommsPrecision::kFp32 ||
      sharder.backward_comms.value_or(CommsPrecision::kFp32) != CommsPrecision::kFp32;
  if (has_codec) return profile.comms;
  const double element = profile.output_element_size.value_or(kOutputElement);
  return {element, element, element, element};
}

bool is_table_wise(ShardingType type) {
  return type == ShardingType::kTableWise || type == ShardingType::kColumnWise ||
         type == ShardingType::kTableColumnWise;
}

// How far a value is from its range, as a factor of at least 1.
double distance(const Extrapolation& e) {
  if (e.value > e.most) return e.most > 0 ? e.value / e.most : e.value + 1;
  return e.value > 0 ? e.least / e.value : e.least + 1;
}

}  // namespace

KernelVariables& KernelVariables::operator+=(const KernelVariables& other) {
  tables += other.tables;
  lookups += other.lookups;
  read_bytes += other.read_bytes;
  output_bytes += other.output_bytes;
  distinct_rows += other.distinct_rows;
  distinct_byte_misses += other.distinct_byte_misses;
  weight_bytes += other.weight_bytes;
  return *this;
}

std::vector<std::pair<std::string, double>> named(const KernelVariables& v) {
  return {{"tables", v.tables},
          {"lookups", v.lookups},
          {"read_bytes", v.read_bytes},
          {"output_bytes", v.output_bytes},
          {"distinct_rows", v.distinct_rows},
          {"distinct_byte_misses", v.distinct_byte_misses},
          {"weight_bytes", v.weight_bytes}};
}

double distinct_rows(double lookups, double rows) {
  return rows > 0 ? rows * -std::expm1(-lookups / rows) : 0;
}

double miss_levels(double bytes) { return bytes > kMiBytes ? std::log2(bytes / kMiBytes) : 0; }

Result<CalibratedTimes> CalibratedTimes::make(const MachineModel& machine,
                                              const Estimator& estimator, const OptionSet& options,
                                              std::span<const TableProfile> profiles) {
  PLIMSOLL_CHECK(profiles.size() == options.tables.size(), "there is a profile of every table");
  if (machine.kernels.empty()) {
    return fail(ErrorCode::kValue, "machine", "the machine model has no kernels",
                "measure them: plimsoll calibrate");
  }
  return CalibratedTimes(machine, estimator, options, profiles);
}

CalibratedTimes::CalibratedTimes(const MachineModel& machine, const Estimator& estimator,
                                 const OptionSet& options, std::span<const TableProfile> profiles)
    : machine_(&machine),
      estimator_(&estimator),
      options_(&options),
      profiles_(profiles),
      collective_times_(machine, estimator.topology()) {
  for (const TableProfile& profile : profiles) {
    double ids = 0, outputs = 0;
    for (std::size_t f = 0; f < profile.pooling_factors.size(); ++f) {
      const double bags = profile.num_poolings[f] * static_cast<double>(profile.batch_sizes[f]);
      ids += profile.pooling_factors[f] * bags;
      outputs += bags;
    }
    ids_.push_back(ids);
    outputs_.push_back(outputs);
  }
  draw_lines();
}

const std::string& CalibratedTimes::module_of(std::int32_t table) const {
  return options_->tables[static_cast<std::size_t>(table)].module_path;
}

KernelVariables CalibratedTimes::variables(const Option& option, std::int64_t rows,
                                           std::int64_t columns) const {
  const auto table = static_cast<std::size_t>(option.table);
  const TableProfile& profile = profiles_[table];
  KernelVariables v;
  if (rows <= 0 || columns <= 0) return v;
  const auto width = static_cast<double>(columns);
  const double element = profile.shape.element_size;
  const double senders =
      option.sharding_type == ShardingType::kDataParallel ? 1 : estimator_->topology().world_size;
  const double share = is_row_cut(option.sharding_type) && profile.shape.rows > 0
                           ? static_cast<double>(rows) / static_cast<double>(profile.shape.rows)
                           : 1;
  v.tables = 1;
  v.lookups = ids_[table] * senders * share;
  v.read_bytes = v.lookups * width * element;
  v.output_bytes =
      (profile.is_pooled ? outputs_[table] * senders : v.lookups) * width * kOutputElement;
  v.weight_bytes = static_cast<double>(rows) * width * element;
  v.distinct_rows = distinct_rows(v.lookups, static_cast<double>(rows));
  v.distinct_byte_misses = v.distinct_rows * width * element * miss_levels(v.weight_bytes);
  return v;
}

std::vector<ShardMessage> CalibratedTimes::messages(const Option& option, std::int64_t rows,
                                                    std::int64_t columns) const {
  const topology::Topology& topology = estimator_->topology();
  const auto table = static_cast<std::size_t>(option.table);
  const TableProfile& profile = profiles_[table];
  const CommsElementSizes comms = sent_element_sizes(profile);
  const int world = topology.world_size;
  const int domain = std::min(std::max(topology.group_size(), 1), world);
  const auto width = static_cast<double>(columns);
  const bool is_pooled = profile.is_pooled;
  const CommunicatingRanks all{world, domain};
  std::vector<ShardMessage> messages;
  const auto add = [&messages](Collective operation, const CommunicatingRanks& group,
                               double bytes) {
    messages.push_back({operation, group, bytes});
  };
  const bool is_training = !estimator_->mode().inference;
  if (option.sharding_type == ShardingType::kDataParallel) {
    if (is_training) {
      add(Collective::kAllReduce, all,
          static_cast<double>(rows) * width * profile.shape.element_size);
    }
    return messages;
  }
  const KernelVariables v = variables(option, rows, columns);
  add(Collective::kAllToAll, all, kIdBytes * v.lookups);
  // Of all ranks' samples.
  const double vectors = (is_pooled ? outputs_[table] * world : v.lookups) * width;
  if (is_table_wise(option.sharding_type) ||
      (option.sharding_type == ShardingType::kRowWise && !is_pooled)) {
    add(Collective::kAllToAll, all, vectors * comms.forward_all_to_all);
    if (is_training) add(Collective::kAllToAll, all, vectors * comms.backward_all_to_all);
    return messages;
  }
  if (option.sharding_type == ShardingType::kRowWise) {
    add(Collective::kReduceScatter, all, vectors * comms.forward_reduce_scatter);
    if (is_training) {
      add(Collective::kAllGather, all, vectors * comms.backward_reduce_scatter);
    }
    return messages;
  }
  // Rows over a fast domain, and what is left over the domains.
  const CommunicatingRanks near{domain, domain};
  const CommunicatingRanks far{world / domain, 1};
  const double summed = is_pooled ? vectors / domain : vectors;
  add(Collective::kReduceScatter, near, vectors * comms.forward_reduce_scatter);
  add(Collective::kAllToAll, far, summed * comms.forward_all_to_all);
  if (is_training) {
    add(Collective::kAllGather, near, vectors * comms.backward_reduce_scatter);
    add(Collective::kAllToAll, far, summed * comms.backward_all_to_all);
  }
  return messages;
}

// Best match first by kernel, then by bytes of an element, then by optimizer.
CalibratedTimes::Form CalibratedTimes::find_form(const TableProfile& profile, ComputeKernel kernel,
                                                 PassDirection direction) const {
  Form best;
  int best_score = -1;
  for (const KernelForm& form : machine_->kernels) {
    if (form.direction != direction) continue;
    const bool has_kernel = form.kernel == kernel;
    const bool has_data_type =
        bit_width(form.data_type).value_or(0) == 8 * profile.shape.element_size;
    const bool is_of_optimizer = form.optimizer == profile.optimizer;
    const bool has_optimizer = is_of_optimizer || !form.optimizer;
    const int score = 16 * static_cast<int>(has_kernel) +
                      8 * static_cast<int>(form.kernel == ComputeKernel::kFused) +
                      4 * static_cast<int>(has_data_type) + 2 * static_cast<int>(is_of_optimizer) +
                      static_cast<int>(has_optimizer);
    if (score <= best_score) continue;
    best_score = score;
    best = {&form, has_kernel, has_optimizer, has_data_type};
  }
  return best;
}

Perf CalibratedTimes::release_perf(const Option& option, ComputeKernel kernel, std::int64_t rows,
                                   std::int64_t columns) const {
  const TableProfile profile =
      profile_of(profiles_[static_cast<std::size_t>(option.table)], option);
  const auto perf = estimator_->shard_perf(profile, option.sharding_type, kernel, rows, columns);
  return perf ? *perf : Perf{};
}

double CalibratedTimes::kernel_ms(const Form& form, const Option& option,
                                  const KernelVariables& variables, std::int64_t rows,
                                  std::int64_t columns) const {
  if (form.form == nullptr) return 0;
  const double ms = shard_ns(form.form->terms, variables) / kNsPerMs;
  if (form.has_kernel) return ms;
  const auto compute = [&](ComputeKernel kernel) {
    const Perf perf = release_perf(option, kernel, rows, columns);
    return form.form->direction == PassDirection::kForward ? perf.fwd_compute : perf.bwd_compute;
  };
  const double own = compute(option.compute_kernel), other = compute(form.form->kernel);
  return own > 0 && other > 0 ? ms * (own / other) : ms;
}

// The runtime permutes the pooled outputs of types that cut columns, so that a table's stand in one
// row: every rank those of its own samples, which is what shards send out, over all ranks. Of rows
// that are cut, too, the ranks of a domain have summed theirs by then.
double CalibratedTimes::permute_ms(const Option& option, const KernelVariables& variables) const {
  const ShardingType type = option.sharding_type;
  const bool is_column_cut = type == ShardingType::kColumnWise ||
                             type == ShardingType::kTableColumnWise ||
                             type == ShardingType::kGridShard;
  if (!is_column_cut || !profiles_[static_cast<std::size_t>(option.table)].is_pooled) return 0;
  if (!machine_->operators || !(machine_->operators->memory_gb_per_s > 0)) return 0;
  const topology::Topology& topology = estimator_->topology();
  const double summed = type == ShardingType::kGridShard
                            ? std::min(std::max(topology.group_size(), 1), topology.world_size)
                            : 1;
  const double passes = estimator_->mode().inference ? 1 : 2;
  const double bytes = 2 * passes * variables.output_bytes / summed;  // read and written
  return bytes / (machine_->operators->memory_gb_per_s * kBytesPerMs);
}

CalibratedTimes::ShardTimes CalibratedTimes::shard_times(const Option& option, std::int64_t rows,
                                                         std::int64_t columns) const {
  const TableProfile& profile = profiles_[static_cast<std::size_t>(option.table)];
  const KernelVariables v = variables(option, rows, columns);
  ShardTimes times;
  for (const PassDirection direction : kDirections) {
    if (direction == PassDirection::kBackward && estimator_->mode().inference) continue;
    times.kernels +=
        kernel_ms(find_form(profile, option.compute_kernel, direction), option, v, rows, columns);
  }
  times.kernels += permute_ms(option, v);
  if (is_uvm_caching(option.compute_kernel)) {
    times.kernels += release_perf(option, option.compute_kernel, rows, columns).prefetch_compute;
  }
  const std::vector<ShardMessage> sent = messages(option, rows, columns);
  const std::vector<Line>& lines = lines_.at({module_of(option.table), option.sharding_type});
  for (std::size_t i = 0; i < sent.size(); ++i) {
    times.collectives += lines[i].ms_per_byte * sent[i].bytes;
  }
  return times;
}

CalibratedTimes::Line CalibratedTimes::line_through(Collective operation,
                                                    const CommunicatingRanks& group, double bytes,
                                                    double from, double to) const {
  if (!(bytes > 0)) return {};
  const auto ms = [&](double size) { return collective_times_.ms(operation, group, size); };
  const double here = ms(bytes);
  const double slope = std::max(ms(to) - ms(from), 0.0) / (to - from);
  const double intercept = here - slope * bytes;
  if (intercept < 0) return {0, here / bytes};
  return {intercept, slope};
}

// Few tables of a module are replicated, and these are small: a line through the message of the
// tables whose weights are no more bytes than the outputs of a rank's own samples (else of the
// smallest table), and through that of all tables, so that none is replicated for nothing.
void CalibratedTimes::draw_replica_lines() {
  struct Weights {
    double small = 0, all = 0;
    double least = std::numeric_limits<double>::infinity();
  };
  std::map<std::string, Weights> of_module;
  for (std::size_t table = 0; table < profiles_.size(); ++table) {
    Option option;
    option.table = static_cast<std::int32_t>(table);
    option.sharding_type = ShardingType::kDataParallel;
    const TableShape& shape = profiles_[table].shape;
    const KernelVariables v = variables(option, shape.rows, shape.columns);
    Weights& weights = of_module[options_->tables[table].module_path];
    weights.all += v.weight_bytes;
    weights.least = std::min(weights.least, v.weight_bytes);
    if (v.weight_bytes <= v.output_bytes) weights.small += v.weight_bytes;
  }
  const topology::Topology& topology = estimator_->topology();
  const CommunicatingRanks all{topology.world_size,
                               std::min(std::max(topology.group_size(), 1), topology.world_size)};
  for (const auto& [module_path, weights] : of_module) {
    std::vector<Line>& lines = lines_[{module_path, ShardingType::kDataParallel}];
    if (estimator_->mode().inference) continue;
    const double bytes = weights.small > 0 ? weights.small : weights.least;
    lines.push_back(
        line_through(Collective::kAllReduce, all, bytes, bytes, std::max(weights.all, 2 * bytes)));
  }
}

// The message of a rank where all tables of the module have the type and ranks share them equally.
void CalibratedTimes::draw_lines() {
  draw_replica_lines();
  const topology::Topology& topology = estimator_->topology();
  const double world = topology.world_size;
  const double domain = std::min(std::max(topology.group_size(), 1), topology.world_size);
  for (int t = 0; t < kNumShardingTypes; ++t) {
    const auto type = static_cast<ShardingType>(t);
    if (type == ShardingType::kDataParallel) continue;
    std::map<std::string, std::vector<ShardMessage>> whole;
    for (std::size_t table = 0; table < profiles_.size(); ++table) {
      const TableShape& shape = profiles_[table].shape;
      Option option;
      option.table = static_cast<std::int32_t>(table);
      option.sharding_type = type;
      const std::int64_t ranks = type == ShardingType::kRowWise ? topology.world_size
                                 : is_row_cut(type)             ? static_cast<std::int64_t>(domain)
                                                                : 1;
      const std::int64_t rows = (shape.rows + ranks - 1) / ranks;
      const std::vector<ShardMessage> sent = messages(option, rows, shape.columns);
      std::vector<ShardMessage>& sum = whole[options_->tables[table].module_path];
      if (sum.empty()) {
        sum = sent;
        continue;
      }
      for (std::size_t i = 0; i < sent.size(); ++i) sum[i].bytes += sent[i].bytes;
    }
    const double share = is_table_wise(type) ? 1 / world
                         : type == ShardingType::kTableRowWise || type == ShardingType::kGridShard
                             ? domain / world
                             : 1;
    for (const auto& [module_path, sum] : whole) {
      std::vector<Line>& lines = lines_[{module_path, type}];
      for (const ShardMessage& message : sum) {
        const double bytes = message.bytes * share;
        lines.push_back(
            line_through(message.operation, message.group, bytes, bytes / 2, 2 * bytes));
      }
    }
  }
}

CalibratedTimes::ShardTimes CalibratedTimes::type_times(const std::string& module_path,
                                                        ShardingType type) const {
  ShardTimes times;
  for (const Line& line : lines_.at({module_path, type})) times.collectives += line.intercept_ms;
  const auto first =
      std::find_if(options_->tables.begin(), options_->tables.end(),
                   [&](const TableOptions& table) { return table.module_path == module_path; });
  const TableProfile& profile =
      profiles_[static_cast<std::size_t>(first - options_->tables.begin())];
  const ComputeKernel kernel =
      type == ShardingType::kDataParallel ? ComputeKernel::kDense : ComputeKernel::kFused;
  for (const PassDirection direction : kDirections) {
    if (direction == PassDirection::kBackward && estimator_->mode().inference) continue;
    const Form form = find_form(profile, kernel, direction);
    if (form.form != nullptr) times.kernels += form.form->terms.call_ns / kNsPerMs;
  }
  return times;
}

double CalibratedTimes::type_charge(const StepModel& step, const std::string& module_path,
                                    ShardingType type) const {
  const ShardTimes times = type_times(module_path, type);
  return step.ms_per_sharding_type + step.kernel_weight * times.kernels +
         step.collective_weight * times.collectives;
}

// ---------------------------------------------------------------- the bill

void add_to_bill(CalibratedBill times, Bill& bill) {
  bill.ms["machine_kernels"] = std::move(times.kernels);
  bill.ms["machine_collectives"] = std::move(times.collectives);
  bill.ms["machine_collectives_interpolated"] = std::move(times.interpolated_collectives);
}

CalibratedBillMaker::CalibratedBillMaker(const CalibratedTimes& times)
    : times_(times),
      num_ranks_(static_cast<std::size_t>(times.estimator_->topology().world_size)) {}

CalibratedBillMaker::Shard CalibratedBillMaker::make_shard(const Option& option, std::int64_t rows,
                                                           std::int64_t columns) const {
  const TableProfile& profile = times_.profiles_[static_cast<std::size_t>(option.table)];
  Shard shard{times_.shard_times(option, rows, columns),
              times_.variables(option, rows, columns),
              times_.messages(option, rows, columns),
              {}};
  for (const PassDirection direction : kDirections) {
    if (direction == PassDirection::kBackward && times_.estimator_->mode().inference) continue;
    shard.forms[static_cast<std::size_t>(direction)] =
        times_.find_form(profile, option.compute_kernel, direction);
  }
  return shard;
}

void CalibratedBillMaker::add(const Option& option, std::int64_t rows, std::int64_t columns,
                              std::int32_t rank) {
  if (!(option == last_option_) || std::pair(rows, columns) != last_size_) {
    last_ = make_shard(option, rows, columns);
    last_option_ = option;
    last_size_ = {rows, columns};
    const TableProfile& profile = times_.profiles_[static_cast<std::size_t>(option.table)];
    for (const CalibratedTimes::Form& form : last_.forms) {
      if (form.form == nullptr) continue;
      const std::string of = name_of(*form.form);
      if (!form.has_kernel) note({"compute_kernel", std::string(to_string(option.compute_kernel))});
      if (!form.has_optimizer) note({"optimizer", std::string(to_string(profile.optimizer))});
      if (!form.has_data_type) note({"data_type", of});
    }
    if (profile.is_weighted) note({"weighted", "kernels"});
  }
  const Type type{times_.module_of(option.table), option.sharding_type};
  Group& group = groups_[type];
  if (group.kernels.empty()) {
    group.kernels.resize(num_ranks_);
    group.collectives.resize(num_ranks_);
    group.sent.resize(num_ranks_);
    group.is_there.resize(num_ranks_);
  }
  const auto r = static_cast<std::size_t>(rank);
  group.is_there[r] = true;
  group.kernels[r] += last_.times.kernels;
  group.collectives[r] += last_.times.collectives;
  std::vector<ShardMessage>& sent = group.sent[r];
  if (sent.empty()) {
    sent = last_.messages;
  } else {
    for (std::size_t i = 0; i < sent.size(); ++i) sent[i].bytes += last_.messages[i].bytes;
  }
  for (const CalibratedTimes::Form& form : last_.forms) {
    if (form.form == nullptr || form.form->ranges.empty()) continue;
    std::vector<KernelVariables>& of_rank = calls_[{type, form.form}];
    of_rank.resize(num_ranks_);
    of_rank[r] += last_.variables;
  }
}

void CalibratedBillMaker::note(Extrapolation extrapolation) {
  const auto [found, is_new] =
      notes_.try_emplace({extrapolation.variable, extrapolation.of}, extrapolation);
  if (!is_new && distance(extrapolation) > distance(found->second)) {
    found->second = std::move(extrapolation);
  }
}

void CalibratedBillMaker::note_ranges() {
  for (const auto& [call, of_rank] : calls_) {
    for (const KernelVariables& variables : of_rank) {
      if (variables.tables == 0) continue;
      for (const auto& [name, value] : named(variables)) {
        const auto range = call.second->ranges.find(name);
        if (range == call.second->ranges.end()) continue;
        const auto [least, most] = range->second;
        if (value < least || value > most) note({name, name_of(*call.second), value, least, most});
      }
    }
  }
}

CalibratedBill CalibratedBillMaker::finish() {
  CalibratedBill bill;
  bill.kernels.resize(num_ranks_);
  bill.collectives.resize(num_ranks_);
  bill.interpolated_collectives.resize(num_ranks_);
  const std::vector<double>& speeds = times_.options_->rank_speeds;
  for (const auto& [type, group] : groups_) {
    const CalibratedTimes::ShardTimes of_type = times_.type_times(type.first, type.second);
    for (std::size_t r = 0; r < num_ranks_; ++r) {
      if (!group.is_there[r]) continue;
      bill.kernels[r] += group.kernels[r] / (speeds.empty() ? 1 : speeds[r]) + of_type.kernels;
      bill.collectives[r] += group.collectives[r] + of_type.collectives;
      for (const ShardMessage& message : group.sent[r]) {
        std::vector<Extrapolation> notes;
        bill.interpolated_collectives[r] +=
            times_.collective_times_.ms(message.operation, message.group, message.bytes, &notes);
        for (Extrapolation& found : notes) note(std::move(found));
      }
    }
  }
  note_ranges();
  for (auto& [key, extrapolation] : notes_) bill.extrapolated.push_back(std::move(extrapolation));
  return bill;
}

}  // namespace plimsoll::embedding
