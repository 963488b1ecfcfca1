#include <algorithm>

#include "checkpoint/trace/step_program.h"
#include "plimsoll/topology/presets.h"

namespace plimsoll::checkpoint {
namespace {

constexpr double kShareOfPeak = 0.75;

double slower_of(const OperatorRoofline& roofline, double flops, Bytes bytes) {
  const double compute = flops / 2 / (kShareOfPeak * roofline.tflops * 1e9);
  const double transfer = static_cast<double>(bytes) / (roofline.gb_per_s * 1e6);
  return std::max(compute, transfer);
}

bool takes_no_time(const StepOperator& op) {
  return op.kind == OperatorKind::kView || op.kind == OperatorKind::kCreation;
}

}  // namespace

double OperatorRoofline::forward_ms(const StepOperator& op) const {
  return takes_no_time(op) ? 0 : slower_of(*this, op.flops, op.bytes_moved);
}

double OperatorRoofline::backward_ms(const StepOperator& op) const {
  return takes_no_time(op) ? 0 : slower_of(*this, op.backward_flops, op.backward_bytes_moved);
}

Result<OperatorRoofline> find_roofline(std::string_view hardware) {
  std::string name(hardware);
  for (const topology::HardwareNode& node : topology::nodes()) {
    if (node.id == hardware) name = node.accelerator;
  }
  // The preset's own look-up knows prefixes and suggestions; it answers "1x" and the full name.
  PLIMSOLL_ASSIGN(const topology::TopologySpec spec, topology::find_preset("1x" + name));
  for (const topology::Accelerator& accelerator : topology::accelerators()) {
    if (spec.name != "1x" + std::string(accelerator.id)) continue;
    const double bandwidth =
        accelerator.hbm_gb_per_s ? *accelerator.hbm_gb_per_s : accelerator.ddr_gb_per_s.value_or(0);
    if (bandwidth > 0 && accelerator.bf16_dense_tflops > 0) {
      return OperatorRoofline{bandwidth, accelerator.bf16_dense_tflops};
    }
    return fail(ErrorCode::kValue, std::string(accelerator.id),
                "the preset lacks a memory bandwidth or a peak",
                "give GB/s and TFLOP/s instead of a name");
  }
  return fail(ErrorCode::kNotFound, std::string(hardware), "no accelerator of that name",
              "name an accelerator, or give GB/s and TFLOP/s");
}

}  // namespace plimsoll::checkpoint
