// The simulator beside what torch 2.13 did on a CPU: storages counted as they come and go in one
// real step of a GPT of 6 blocks (dim 128, 4 heads, vocabulary 1024, batch 8, 128 tokens, float32,
// tied embedding, no dropout), parameters and batch included, its blocks under
// torch.utils.checkpoint.

#include <gtest/gtest.h>

#include "check/checkpoint/step_simulator.h"
#include "check/toy_step.h"
#include "checkpoint/trace/step_trace.h"
#include "plimsoll_module_stats/models.h"

namespace plimsoll::check {
namespace {

struct Measured {
  const char* what;
  std::vector<int> saved;  // by place in a block's table
  bool has_units;
  Bytes peak, kept;
};

// Torch's step holds one number of 4 bytes more.
constexpr Bytes kScalar = 4;
// The kernel of the program keeps 1,024 bytes of random state a block, torch's for CPUs none.
constexpr Bytes kStates = 6 * 1024;

TEST(StepSimulator, EqualsARealStepOfTorch) {
  const std::vector<Measured> rows = {
      {"no plan", {}, false, 69521416 + kStates, 61132808 + kStates},
      {"every block plain", {}, true, 22138888, 13750280},
      {"every block, its projections saved", {3, 7, 11}, true, 31576072, 23187464}};
  const auto program = module_stats::gpt(
      {.layers = 6, .dim = 128, .heads = 4, .vocab = 1024, .dropout = false}, 8, 128);
  const checkpoint::OperatorRoofline roofline{1, 1};
  const auto stats = checkpoint::trace_step(program, roofline);
  ASSERT_TRUE(stats);
  for (const Measured& row : rows) {
    SCOPED_TRACE(row.what);
    checkpoint::CheckpointPolicy policy;
    for (int layer = 0; row.has_units && layer < 6; ++layer) {
      std::vector<bool> save(64);
      for (int op : row.saved) save[static_cast<std::size_t>(op)] = true;
      policy.units.push_back(unit_of(*stats, "Transformer.layers." + std::to_string(layer), save));
    }
    const auto step = simulate_step(program, roofline, policy);
    ASSERT_TRUE(step);
    EXPECT_EQ(step->peak.resident, row.peak - kScalar);
    EXPECT_EQ(step->kept_after_forward, row.kept - kScalar);
  }
}

}  // namespace
}  // namespace plimsoll::check
