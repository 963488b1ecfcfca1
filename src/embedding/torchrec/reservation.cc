#include "plimsoll/embedding/reservation.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>

#include "core/python_text.h"
#include "embedding/cost/loads.h"
#include "embedding/model/sharder.h"
#include "embedding/torchrec/reference_text.h"
#include "plimsoll/core/checked.h"

namespace plimsoll::embedding {
namespace {

using topology::Topology;

const std::array<std::string, 5>& kind_names() {
  static const std::array<std::string, 5> names{"heuristical", "fixed_percentage", "inference",
                                                "fixed_absolute", "sku_aware"};
  return names;
}

constexpr Bytes kTrainingKjtMultiplier = 20;  // 2 pipelined batches of 10 internal copies each

// The tier that dense parts and ids are taken from; a tpu has neither in the reference.
void subtract(const CostModel& cost_model, Topology& topology, Bytes bytes, Storage& per_rank) {
  switch (memory_device(cost_model, topology.compute_device)) {
    case topology::ComputeDevice::kCuda:
    case topology::ComputeDevice::kMtia:
      per_rank = {bytes, 0, 0};
      break;
    case topology::ComputeDevice::kCpu:
      per_rank = {0, bytes, 0};
      break;
    case topology::ComputeDevice::kTpu:
      per_rank = {};
      break;
  }
  for (Storage& device : topology.devices) device -= per_rank;
}

void take_percentage(Topology& topology, double percentage) {
  for (Storage& device : topology.devices) {
    device.hbm = saturated_cast((1 - percentage) * static_cast<double>(device.hbm));
  }
}

void take_absolute(Topology& topology, Bytes bytes) {
  for (Storage& device : topology.devices) device.hbm = std::max<Bytes>(0, device.hbm - bytes);
}

double parameter_sum(const Module& module, double multiplier) {
  double sum = 0;
  for (const Table& table : module.tables) {
    if (const auto shape = table_shape(module, table)) {
      sum += multiplier * static_cast<double>(shape->bytes);
    }
  }
  return sum + multiplier * static_cast<double>(module.dense_parameter_bytes);
}

// Before they are rounded to whole bytes.
double exact_module_size(const Module& module, double multiplier) {
  return parameter_sum(module, multiplier) + static_cast<double>(module.dense_buffer_bytes);
}

double exact_model_size(const Model& model, double multiplier) {
  double parameters = 0;
  double buffers = static_cast<double>(model.dense_buffer_bytes);
  for (const Module& module : model.modules) {
    parameters += parameter_sum(module, multiplier);
    buffers += static_cast<double>(module.dense_buffer_bytes);
  }
  parameters += multiplier * static_cast<double>(model.dense_parameter_bytes);
  return parameters + buffers;
}

tl::unexpected<Error> too_large(std::string_view what, std::string remedy) {
  return fail(ErrorCode::kOverflow, "reservation",
              fmt::format("{} take more than 2^63 - 1 bytes of a rank", what), std::move(remedy));
}

// What the model holds beyond its tables. Tables may add up to far more, so sums have 128 bits.
Result<Bytes> dense_size(const Model& model, double multiplier, std::optional<Bytes> estimate) {
  constexpr double kMaxModel = 0x1p100;  // and so of every module
  Int128 size = estimate.value_or(0);
  if (size == 0) {
    const double whole = exact_model_size(model, multiplier);
    if (!(std::abs(whole) < kMaxModel)) {
      return too_large("the model's parameters", "give a smaller parameter_multiplier");
    }
    size = static_cast<Int128>(std::nearbyint(whole));
    for (const Module& module : model.modules) {
      size -= static_cast<Int128>(std::nearbyint(exact_module_size(module, multiplier)));
    }
  }
  if (size > kSaturated || size < -Int128{kSaturated}) {
    return too_large("dense parts",
                     "correct the model's dense bytes, or give dense_tensor_estimate");
  }
  return static_cast<Bytes>(size);
}

// Ids of one batch, times the copies that are alive. Numbers of poolings are ignored (a quirk of
// the reference).
Result<Bytes> kjt_size(const Model& model, std::int64_t batch_size, Bytes multiplier) {
  double ids = 0;
  for (const Module& module : model.modules) {
    for (const Table& table : module.tables) {
      const auto found = model.constraints.find(table.name);
      const bool has = found != model.constraints.end();
      const std::vector<double> factors = has && !found->second.pooling_factors.empty()
                                              ? found->second.pooling_factors
                                              : std::vector{1.0};
      const std::vector<std::int64_t> batches = has && !found->second.batch_sizes.empty()
                                                    ? found->second.batch_sizes
                                                    : std::vector(factors.size(), batch_size);
      for (std::size_t f = 0; f < std::min(factors.size(), batches.size()); ++f) {
        ids += factors[f] * static_cast<double>(batches[f]);
      }
    }
  }
  const double bytes = std::ceil(ids * kIdBytes);
  const Int128 all =
      bytes < 0x1p63 ? static_cast<Int128>(bytes) * multiplier : kSaturated + Int128{1};
  if (all <= kSaturated) return static_cast<Bytes>(all);
  return too_large("the ids of a batch",
                   "give smaller pooling_factors, batch_sizes or a smaller batch");
}

// So that what they leave of a rank has 64 bits.
Result<void> check_sum(Bytes dense, Bytes kjt) {
  if (Int128{dense} + kjt <= kSaturated) return {};
  return too_large("dense parts and the ids of a batch together", "give smaller ones");
}

tl::unexpected<Error> insufficient(std::string message) {
  return fail(ErrorCode::kPlanner, "reservation", std::move(message), "", "insufficient_storage");
}

Result<Reservation> reserve_heuristical(const CostModel& cost_model, Reservation result,
                                        const Topology& before, const Model& model,
                                        std::int64_t batch_size) {
  const ReservationOptions& options = result.options;
  take_percentage(result.topology, options.percentage);
  PLIMSOLL_ASSIGN(const Bytes dense_bytes,
                  dense_size(model, options.parameter_multiplier, options.dense_tensor_estimate));
  PLIMSOLL_ASSIGN(const Bytes kjt_bytes, kjt_size(model, batch_size, kTrainingKjtMultiplier));
  PLIMSOLL_RETURN_IF_ERROR(check_sum(dense_bytes, kjt_bytes));
  Storage dense;
  Storage kjt;
  subtract(cost_model, result.topology, dense_bytes, dense);
  subtract(cost_model, result.topology, kjt_bytes, kjt);
  result.dense = dense;
  result.kjt = kjt;
  // Quirk: rank 0's HBM alone is looked at.
  if (result.topology.devices.front().hbm >= 0) return result;
  const std::string note =
      cost_model.reservation_dry_run_note
          ? fmt::format(
                "\n \n Note: There is a known issue with dense storage estimation in dry run "
                "scenario where tensors are not fully materialized.If the dense storage ({}) looks "
                "higher than expected, consider passing in dense_storage_estimate as a Planner "
                "input to override torchrec dense tensor size calculation while we resolve this "
                "issue.\n \n Other ",
                storage_in_gb(dense))
          : std::string("\n");
  return insufficient(fmt::format(
      "The reserved topology ({}) has negative available hbm storage, after taking into account of "
      "the reserved hbm percentage, the storage for dense modules, and the kjt storages. Hence it "
      "is not possible to find a valid sharding plan. {}Possible solutions:\n  1) If FSDP is used, "
      "consider switching to FixedPercentageStorageReservation, since "
      "HeuristicalStorageReservation would not be able to calculate the dense storage ({}) "
      "correctly. \n  2) Reduce local batch size ({}), which can help reduce the per rank kjt "
      "storage ({}). \n  3) Decrease the reserved hbm percentage ({}). \n  4) Use hardware with a "
      "higher hbm cap (current hardware has {} per rank). ",
      storage_in_gb(result.topology.devices.front()), note, storage_in_gb(dense), batch_size,
      storage_in_gb(kjt), python_repr(options.percentage), storage_in_gb(before.devices.front())));
}

Result<Reservation> reserve_sku_aware(const CostModel& cost_model, Reservation result,
                                      const Topology& before, const Model& model,
                                      std::int64_t batch_size) {
  const ReservationOptions& options = result.options;
  take_absolute(result.topology, options.base_bytes.value_or(options.margin_bytes));
  take_absolute(result.topology, options.overhead_bytes);
  if (!options.base_bytes) {
    PLIMSOLL_ASSIGN(const Bytes bytes,
                    dense_size(model, options.parameter_multiplier, options.dense_tensor_estimate));
    subtract(cost_model, result.topology, bytes, result.dense.emplace());
  }
  PLIMSOLL_ASSIGN(const Bytes kjt_bytes, kjt_size(model, batch_size, kTrainingKjtMultiplier));
  Storage kjt;
  subtract(cost_model, result.topology, kjt_bytes, kjt);
  result.kjt = kjt;
  const double hbm = static_cast<double>(before.devices.front().hbm);
  const Bytes reserved =
      saturated_add(options.base_bytes.value_or(options.margin_bytes), options.overhead_bytes);
  result.percentage = hbm > 0 ? static_cast<double>(reserved) / hbm : 0;
  if (result.topology.devices.front().hbm > 0) return result;
  const auto gib = [](Bytes bytes) {
    return static_cast<double>(bytes) / static_cast<double>(kGiB);
  };
  const std::string base =
      options.base_bytes ? fmt::format("model_base_bytes {:.2f} GB", gib(*options.base_bytes))
                         : fmt::format("home-anchored margin {:.2f} GB + dense {}",
                                       gib(options.margin_bytes), storage_in_gb(*result.dense));
  const std::string_view remedy =
      options.base_bytes
          ? "Reduce model_base_bytes (the provided static base) or runtime_overhead_bytes. "
          : "Supply a measured model_base_bytes / dense_tensor_estimate (the analytic dense "
            "estimate over-counts under FSDP/dry-run). ";
  return insufficient(fmt::format(
      "The SKU-aware storage reservation ({} + kjt {} + overhead {:.2f} GB) meets or exceeds the "
      "available hbm storage per rank ({}), leaving no hbm for sharded embedding tables, so it is "
      "not possible to find a valid sharding plan. \n \n Possible solutions:\n  1) {}\n  2) Reduce "
      "the local batch size ({}) to lower the kjt storage. \n  3) Use hardware with a higher hbm "
      "cap. ",
      base, storage_in_gb(kjt), gib(options.overhead_bytes), storage_in_gb(before.devices.front()),
      remedy, batch_size));
}

}  // namespace

std::string_view to_string(ReservationKind kind) {
  return kind_names()[static_cast<std::size_t>(kind)];
}

template <>
std::span<const std::string> enum_names<ReservationKind>() {
  return kind_names();
}

template <>
std::optional<ReservationKind> find_enum<ReservationKind>(std::string_view name) {
  const auto found = std::find(kind_names().begin(), kind_names().end(), name);
  if (found == kind_names().end()) return std::nullopt;
  return static_cast<ReservationKind>(found - kind_names().begin());
}

Bytes module_size(const Module& module, double multiplier) {
  return python_round(exact_module_size(module, multiplier));
}

Bytes model_size(const Model& model, double multiplier) {
  return python_round(exact_model_size(model, multiplier));
}

Result<Reservation> reserve(const CostModel& cost_model, const ReservationOptions& options,
                            const Topology& topology, const Model& model, std::int64_t batch_size) {
  if (!(options.percentage >= 0 && options.percentage <= 1)) {
    return fail(ErrorCode::kValue, "reservation/percentage", "must lie in [0, 1]");
  }
  if (options.absolute_bytes < 0 || options.margin_bytes < 0 || options.overhead_bytes < 0 ||
      options.base_bytes.value_or(0) < 0) {
    return fail(ErrorCode::kValue, "reservation", "bytes must be at least 0");
  }
  const std::int64_t batch = batch_size > 0 ? batch_size : 512;
  Reservation result;
  result.options = options;
  result.topology = topology;
  result.percentage = options.percentage;
  switch (options.kind) {
    case ReservationKind::kHeuristical:
      return reserve_heuristical(cost_model, std::move(result), topology, model, batch);
    case ReservationKind::kSkuAware:
      if (!cost_model.sku_aware_reservation) break;
      return reserve_sku_aware(cost_model, std::move(result), topology, model, batch);
    case ReservationKind::kInference: {
      take_percentage(result.topology, options.percentage);
      PLIMSOLL_ASSIGN(const Bytes dense_bytes, dense_size(model, 1, options.dense_tensor_estimate));
      PLIMSOLL_ASSIGN(const Bytes kjt_bytes, kjt_size(model, batch, 1));
      PLIMSOLL_RETURN_IF_ERROR(check_sum(dense_bytes, kjt_bytes));
      Storage dense;
      Storage kjt;
      subtract(cost_model, result.topology, dense_bytes, dense);
      subtract(cost_model, result.topology, kjt_bytes, kjt);
      result.dense = dense;
      result.kjt = kjt;
      return result;
    }
    case ReservationKind::kFixedPercentage:
    case ReservationKind::kFixedAbsolute: {
      const bool is_absolute = options.kind == ReservationKind::kFixedAbsolute;
      if (is_absolute && !cost_model.fixed_absolute_reservation) break;
      if (is_absolute) {
        const double hbm = static_cast<double>(topology.devices.front().hbm);
        result.percentage = hbm > 0 ? static_cast<double>(options.absolute_bytes) / hbm : 0;
        take_absolute(result.topology, options.absolute_bytes);
      } else {
        take_percentage(result.topology, options.percentage);
      }
      if (cost_model.inference_and_fixed_report_ids) {
        // Computed for the report, not subtracted.
        Topology scratch = result.topology;
        Storage kjt;
        PLIMSOLL_ASSIGN(const Bytes bytes, kjt_size(model, batch, kTrainingKjtMultiplier));
        subtract(cost_model, scratch, bytes, kjt);
        result.kjt = kjt;
      }
      return result;
    }
  }
  return fail(ErrorCode::kUsage, "reservation/kind",
              fmt::format("{} has no {} reservation", cost_model.name, to_string(options.kind)),
              "choose heuristical, fixed_percentage or inference, or a newer cost model");
}

Error OverdrawnRank::error() const {
  return {ErrorCode::kPlanner, fmt::format("rank {}", rank),
          fmt::format("what is reserved takes {} ({} bytes) more of {} than rank {} has",
                      format_bytes(missing), missing, tier, rank),
          "give the rank more memory, or reserve less", "insufficient_storage"};
}

std::optional<OverdrawnRank> find_overdrawn_rank(const Topology& reserved) {
  constexpr std::pair<const char*, Bytes Storage::*> kTiers[] = {
      {"hbm", &Storage::hbm}, {"ddr", &Storage::ddr}, {"ssd", &Storage::ssd}};
  for (const auto& [tier, bytes] : kTiers) {
    OverdrawnRank worst{0, tier, 0};
    for (std::size_t rank = 0; rank < reserved.devices.size(); ++rank) {
      const Bytes missing = saturated_subtract(0, reserved.devices[rank].*bytes);
      if (missing > worst.missing) worst = {static_cast<int>(rank), tier, missing};
    }
    if (worst.missing > 0) return worst;
  }
  return std::nullopt;
}

std::optional<ReservationShortage> find_reservation_shortage(const CostModel& cost_model,
                                                             const ReservationOptions& options,
                                                             const Topology& topology,
                                                             const Model& model,
                                                             std::int64_t batch_size) {
  Topology first = topology;  // rank 0 alone is looked at
  first.devices.resize(1);
  const Bytes capacity = first.devices.front().hbm;
  const auto reserve_with = [&](Bytes added) {
    first.devices.front().hbm = capacity + added;
    return reserve(cost_model, options, first, model, batch_size);
  };
  const auto now = reserve_with(0);
  if (now || now.error().kind != "insufficient_storage") return std::nullopt;
  constexpr Bytes kMost = Bytes{1} << 60;
  Bytes low = 0;
  Bytes high = 1;
  for (; !reserve_with(high); high *= 2) {
    if (high >= kMost) return std::nullopt;
    low = high;
  }
  while (high - low > 1) {
    const Bytes middle = low + (high - low) / 2;
    (reserve_with(middle) ? high : low) = middle;
  }
  const Result<Reservation> enough = reserve_with(high);
  ReservationShortage shortage;
  shortage.capacity = capacity;
  shortage.dense = enough->dense.value_or(Storage{}).hbm;
  shortage.ids = enough->kjt.value_or(Storage{}).hbm;
  const bool is_share = options.kind != ReservationKind::kSkuAware;
  shortage.margin =
      is_share ? static_cast<Bytes>(options.percentage * static_cast<double>(capacity))
               : options.base_bytes.value_or(options.margin_bytes) + options.overhead_bytes;
  shortage.missing = high;
  return shortage;
}

}  // namespace plimsoll::embedding
