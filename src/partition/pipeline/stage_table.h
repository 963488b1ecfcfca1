// Pipelines of a line of layers whose stage times are known: Alpa's inter-operator problem.
//
// Problem. Cut layers in a line into stages, give each a submesh of devices, use all devices, and
// make sum of stage times + (B - 1) * the slowest, the time of B microbatches, as small as
// possible. What a stage takes on a submesh stands in a table, and how many stages may follow it
// before its microbatches in flight no longer fit. Method. The labels of pipeline_chain.h over the
// prefixes of the line, the slowest stage by batch_search.h. Cost. Per question layers^2 *
// submeshes * labels; few questions. Promises. A finished search is optimal to 1e-9 relative, or
// proves that no plan exists; the clock, a cancel or the effort leave the best plan known with its
// bound. Source: L. Zheng et al., "Alpa: automating inter- and intra-operator parallelism for
// distributed deep learning", OSDI 2022, https://arxiv.org/abs/2201.12023;
// docs/mathematics/placements.md#alpa.
// Departure: all limits on the slowest stage count, where Alpa skips those within 1e-6 of each
// other.
#pragma once

#include <cstdint>
#include <vector>

#include "plimsoll/core/outcome.h"
#include "plimsoll/core/result.h"
#include "plimsoll/core/run_context.h"

namespace plimsoll::partition {

struct StageTable {
  int num_layers = 0;             // >= 1
  int num_devices = 1;            // >= 1, all are used
  int num_microbatches = 1;       // >= 1, of a batch
  std::vector<int> mesh_devices;  // [num_meshes] >= 1, devices of each submesh
  // [num_layers][num_layers][num_meshes] >= 0 for layers first to last on a submesh; infinite:
  // impossible. Not looked at where last < first.
  std::vector<double> time_ms;
  // Of the same shape: stages that may follow; negative: the stage fits nowhere. Empty: any number.
  std::vector<int> max_later_stages;

  std::size_t at(int first, int last, int mesh) const {
    return (static_cast<std::size_t>(first) * num_layers + last) * mesh_devices.size() + mesh;
  }
  bool operator==(const StageTable&) const = default;
};

struct TableStage {
  int first = 0, last = 0;  // layers
  int mesh = 0;
  bool operator==(const TableStage&) const = default;
};

struct TablePlan {
  std::vector<TableStage> stages;  // in order
  bool operator==(const TablePlan&) const = default;
};

// Options: effort counts pairs of cuts, by default 20,000,000,000; tolerance as usual; the
// seed is not used. Errors: kValue for counts, times or devices outside their ranges, kSchema
// for a table of another shape, each at the field's name.
Result<Outcome<TablePlan>> plan_stage_table(const StageTable& table,
                                            const SearchOptions& options = {},
                                            const RunContext& context = {});

}  // namespace plimsoll::partition
