// The options of one of TorchRec's planners as JSON, "plimsoll.torchrec_options/1": what its
// enumerator made, shard by shard, so that they can be placed without TorchRec. Strictness as in
// model_json.h. The format is ours: docs/formats.md#options-of-torchrec.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "plimsoll/core/result.h"
#include "plimsoll/embedding/cost_model.h"
#include "plimsoll/embedding/model.h"
#include "plimsoll/embedding/option_set.h"
#include "plimsoll/topology/topology.h"

namespace plimsoll::io {

struct TorchrecOptions {
  embedding::OptionSet options;  // tables in the order in which the dump first names them
  // Modules and tables as far as the dump tells: paths, names, sizes, pooling.
  embedding::Model model;
  topology::Topology topology;  // `capacity`, or `room` where that is absent
  topology::Topology room;      // after reservation
  std::int64_t batch_size = 512;
  std::string torchrec;  // release; may be empty
  // Of the release, or of the one before that is known; the default where it names none.
  embedding::CostModel cost_model;
  std::string hash;                         // of the text; filled by the caller
  std::optional<std::string> context_hash;  // TorchRec's
  bool has_components = false;              // every shard class has the five, not the total alone
  std::vector<std::int64_t> position;       // [options] in the dump's own list
  std::vector<std::optional<std::uint64_t>> storage_hash;  // [options] TorchRec's
};

// Is this text such a dump? Looks at the schema alone.
bool is_torchrec_options(std::string_view text);

// Error kValue: shards that do not hold every cell of the table once; a shard class that does not
// exist, shards that are not as many as the type wants or differ from one column block to the next,
// a negative or infinite time, one room a rank; kConflict: components that do not add up to the
// total, a table with two shapes.
Result<TorchrecOptions> read_torchrec_options(std::string_view text, std::string_view file);

}  // namespace plimsoll::io
