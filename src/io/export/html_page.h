// Pages of charts and tables: one HTML document that loads nothing.
//
// Charts are Vega-Lite specifications (vega_chart.h), which the page's script draws with Vega; a
// page with charts holds Vega too. Of a long table the page holds the first rows as HTML, and all
// of them as JSON for the script, which sorts, searches and turns pages (data/page/page.js). A
// policy in the page's head forbids the browser to load anything. Without its script a page has the
// tables alone, so they have every figure of the charts.
#pragma once

#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "plimsoll/core/units.h"

namespace plimsoll::io {

// A number that sorts as such, with what people read.
struct NumberCell {
  double value = 0;
  std::string text;
};
using PageCell = std::variant<std::string, NumberCell>;

NumberCell ms_cell(double ms);
NumberCell bytes_cell(Bytes bytes);

struct PageTable {
  std::string caption;
  std::vector<std::string> header;
  std::vector<std::vector<PageCell>> rows;  // of every column the same kind
};

// Empty without rows.
std::string html_of(const PageTable& table, bool has_script);

// The content with its style, for a page of somebody else's: without charts.
std::string page_body(std::string_view content);

// The content as a page of its own, with the scripts of its tables and charts.
std::string whole_page(std::string_view title, std::string_view content);

}  // namespace plimsoll::io
