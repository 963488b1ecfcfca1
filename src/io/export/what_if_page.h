// A sweep over machines and batch sizes as a page to look at: the front among all points, and a
// table of them.
#pragma once

#include <string>
#include <string_view>

#include "plimsoll/study/what_if.h"

namespace plimsoll::io {

// One HTML document that loads nothing; or its body without a script.
std::string write_what_if_page(const study::WhatIf& sweep, std::string_view title);
std::string write_what_if_fragment(const study::WhatIf& sweep, std::string_view title);

}  // namespace plimsoll::io
