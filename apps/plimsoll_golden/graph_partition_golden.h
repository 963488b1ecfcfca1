// Golden records of graph partitioning, made by executing torch.fx's accelerator Partitioner:
//
//   cases         a graph, devices and a mode: partitions, calls and latencies, or how it fails;
//                 answered twice, as torch 1.13 (`expected`) and as torch 2.13
//                 (`expected_torch_2_13`)
//   large_cases   a larger graph: partitions and critical path
//
// tests/data/golden/README.md describes the fields.
#pragma once

#include <span>

#include "golden.h"

namespace plimsoll::golden {

std::span<const Kind> graph_partition_kinds();

// Files keep both kinds under `cases` and the inputs of large cases apart. Here every case comes
// under the name of its kind with its own input, and one without `expected_torch_2_13` is expected
// to be the same in both releases.
Json prepare_graph_partition(Json document);

}  // namespace plimsoll::golden
