#include "plimsoll/checkpoint/variant.h"

#include <algorithm>
#include <array>
#include <vector>

#include "core/suggest.h"

namespace plimsoll::checkpoint {
namespace {

Variant make_reference() {
  Variant variant;
  variant.name = "reference";
  return variant;
}

Variant make_torch_2_13() {
  Variant variant;
  variant.name = "torch-2.13";
  variant.big_m_per_sac_runtime = 2;
  variant.transfer_by_storage = false;
  return variant;
}

}  // namespace

std::span<const Variant> variants() {
  static const std::array all{make_reference(), make_torch_2_13()};
  return all;
}

const Variant& default_variant() { return variants().back(); }

Result<Variant> find_variant(std::string_view name) {
  const auto all = variants();
  const auto found =
      std::find_if(all.begin(), all.end(), [name](const Variant& v) { return v.name == name; });
  if (found != all.end()) return *found;
  std::vector<std::string> names;
  for (const Variant& variant : all) names.push_back(variant.name);
  return fail(ErrorCode::kNotFound, "", "no variant '" + std::string(name) + "'",
              suggest(name, names));
}

}  // namespace plimsoll::checkpoint
