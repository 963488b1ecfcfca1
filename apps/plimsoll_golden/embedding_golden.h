// Golden records of the embedding planner, made by executing TorchRec:
//
//   options   one table under one sharding type and kernel: how it is cut, what each shard costs
//   plans     a model and a topology: the plan that the reference finds, or how it fails
//   reports   the same, and every line of its statistics report
//
// tests/data/golden/README.md describes the fields. A record's `release` chooses the cost model; a
// record without one is of the reference revision.
#pragma once

#include <span>

#include "golden.h"

namespace plimsoll::golden {

std::span<const Kind> embedding_kinds();

}  // namespace plimsoll::golden
