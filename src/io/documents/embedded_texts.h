// The texts of data/, compiled in; the definitions are generated at build time (embed_texts.cmake).
#pragma once

#include <string_view>
#include <vector>

#include "plimsoll/io/shipped.h"

namespace plimsoll::io {

const std::vector<ShippedDocument>& embedded_machines();
const std::vector<ShippedDocument>& embedded_models();
const std::vector<ShippedDocument>& embedded_module_stats();
const std::vector<ShippedDocument>& embedded_graphs();
const std::vector<Schema>& embedded_schemas();

// Of pages: style sheet, script, charts without their data, and Vega with Vega-Lite, which draw
// them.
std::string_view embedded_page_style();
std::string_view embedded_page_script();
std::string_view embedded_page_charts();
std::string_view embedded_page_vega();

}  // namespace plimsoll::io
