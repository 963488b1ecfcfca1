// The reference's way of printing storage, perf and shards inside messages.
#pragma once

#include <fmt/format.h>

#include <string>

#include "core/python_text.h"
#include "plimsoll/embedding/cost_model.h"
#include "plimsoll/embedding/option_set.h"

namespace plimsoll::embedding {

// GiB, called GB, with at most three decimals.
inline std::string gigabytes(double bytes) {
  return python_repr(python_round(bytes / static_cast<double>(kGiB), 3));
}

// "Storage(hbm = 4.0 GB, ddr = 128.0 GB)"; the ssd tier is left out in every release.
inline std::string storage_in_gb(const Storage& storage) {
  return fmt::format("Storage(hbm = {} GB, ddr = {} GB)",
                     gigabytes(static_cast<double>(storage.hbm)),
                     gigabytes(static_cast<double>(storage.ddr)));
}

// "Storage(hbm=17, ddr=0)", with ssd from 1.7 on.
inline std::string storage_repr(const CostModel& cost_model, const Storage& storage) {
  if (!cost_model.ssd_tier) return fmt::format("Storage(hbm={}, ddr={})", storage.hbm, storage.ddr);
  return fmt::format("Storage(hbm={}, ddr={}, ssd={})", storage.hbm, storage.ddr, storage.ssd);
}

inline std::string perf_repr(const CostModel& cost_model, const Perf& perf) {
  const std::string input_dist =
      cost_model.input_dist
          ? fmt::format("input_dist_comms={}, ", python_repr(perf.input_dist_comms))
          : std::string();
  // Up to 1.5 the backward of inference is the integer 0; a backward of training that is 0 has a
  // forward of 0.
  const bool is_inference = perf.bwd_compute == 0 && perf.bwd_comms == 0 && perf.fwd_compute > 0;
  const auto backward = [&](double milliseconds) {
    return is_inference && !cost_model.inference_everywhere ? "0" : python_repr(milliseconds);
  };
  return fmt::format(
      "Perf(fwd_compute={}, fwd_comms={}, bwd_compute={}, bwd_comms={}, {}prefetch_compute={})",
      python_repr(perf.fwd_compute), python_repr(perf.fwd_comms), backward(perf.bwd_compute),
      backward(perf.bwd_comms), input_dist, python_repr(perf.prefetch_compute));
}

}  // namespace plimsoll::embedding
