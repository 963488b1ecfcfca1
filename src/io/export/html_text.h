// Text as HTML and numbers as people read them, for pages.
#pragma once

#include <string>
#include <string_view>

#include "plimsoll/core/units.h"

namespace plimsoll::io {

struct JsonValue;

// '&', '<', '>' and quotes as entities; bytes that are not UTF-8, and control characters, as
// U+FFFD.
std::string escape_html(std::string_view text);

// JSON for a script element: no text in it ends the element.
std::string script_json(const JsonValue& value);

std::string ms_number(double ms);            // "2.283"
std::string ms_text(double ms);              // "2.283 ms"
std::string bytes_text(Bytes bytes);         // "43 GiB", four digits
std::string count_text(std::int64_t count);  // "4,096"

}  // namespace plimsoll::io
