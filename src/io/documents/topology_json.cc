#include "plimsoll/io/topology_json.h"

#include <fmt/format.h>

#include "io/documents/descriptions.h"
#include "io/json/json_writer.h"

namespace plimsoll::io {

using topology::TopologySpec;

Result<TopologySpec> read_topology(std::string_view text, std::string_view file) {
  PLIMSOLL_ASSIGN(TopologyDocument document,
                  read_document<TopologyDocument>(text, file, kTopologySchema));
  TopologySpec& spec = document.spec;
  const std::pair<std::string_view, const std::vector<Bytes>*> lists[] = {
      {"hbm_caps", &spec.hbm_caps}, {"ddr_caps", &spec.ddr_caps}, {"ssd_caps", &spec.ssd_caps}};
  for (const auto& [key, caps] : lists) {
    if (!caps->empty() && caps->size() != static_cast<std::size_t>(spec.world_size)) {
      return fail(ErrorCode::kValue, document_place(file, fmt::format("/{}", key)),
                  fmt::format("{} entries for {} rank(s)", caps->size(), spec.world_size),
                  "give one cap a rank");
    }
  }
  if (!spec.device_speeds.empty() &&
      spec.device_speeds.size() != static_cast<std::size_t>(spec.world_size)) {
    return fail(
        ErrorCode::kValue, document_place(file, "/device_speeds"),
        fmt::format("{} entries for {} rank(s)", spec.device_speeds.size(), spec.world_size),
        "give one speed a rank");
  }
  return std::move(spec);
}

std::string write_topology(const TopologySpec& spec) {
  return write_document(TopologyDocument{std::string(kTopologySchema), spec});
}

}  // namespace plimsoll::io
