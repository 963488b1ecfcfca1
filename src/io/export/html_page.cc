#include "io/export/html_page.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdint>
#include <utility>

#include "io/documents/embedded_texts.h"
#include "io/export/html_text.h"
#include "io/json/json_document.h"
#include "plimsoll/core/version.h"

namespace plimsoll::io {
namespace {

constexpr std::size_t kRowsPerPage = 100;  // as in data/page/page.js

const std::string& text_of(const PageCell& cell) {
  const auto* number = std::get_if<NumberCell>(&cell);
  return number == nullptr ? std::get<std::string>(cell) : number->text;
}

std::string json_of(const PageTable& table) {
  JsonValue::Array rows;
  for (const auto& row : table.rows) {
    JsonValue::Array cells;
    for (const PageCell& cell : row) {
      if (const auto* number = std::get_if<NumberCell>(&cell)) {
        cells.push_back({JsonValue::Array{{number->value}, {number->text}}});
      } else {
        cells.push_back({std::get<std::string>(cell)});
      }
    }
    rows.push_back({std::move(cells)});
  }
  return script_json({std::move(rows)});
}

}  // namespace

NumberCell ms_cell(double ms) { return {ms, ms_number(ms)}; }
NumberCell bytes_cell(Bytes bytes) { return {static_cast<double>(bytes), bytes_text(bytes)}; }

std::string html_of(const PageTable& table, bool has_script) {
  if (table.rows.empty()) return "";
  std::string html = fmt::format(
      "<section class=\"rows\"><div class=\"scroll\"><table><caption>{}</caption><thead><tr>",
      escape_html(table.caption));
  for (std::size_t c = 0; c < table.header.size(); ++c) {
    const bool is_number = std::holds_alternative<NumberCell>(table.rows.front()[c]);
    html += fmt::format("<th scope=\"col\"{}>{}</th>", is_number ? " class=\"number\"" : "",
                        escape_html(table.header[c]));
  }
  html += "</tr></thead><tbody>";
  for (std::size_t r = 0; r < std::min(table.rows.size(), kRowsPerPage); ++r) {
    html += "<tr>";
    for (const PageCell& cell : table.rows[r]) {
      html += fmt::format("<td{}>{}</td>",
                          std::holds_alternative<NumberCell>(cell) ? " class=\"number\"" : "",
                          escape_html(text_of(cell)));
    }
    html += "</tr>";
  }
  html += "</tbody></table></div>";
  if (has_script) {
    html += "<script type=\"application/json\">" + json_of(table) + "</script>";
  } else if (table.rows.size() > kRowsPerPage) {
    html += fmt::format("<p class=\"soft\">The first {} of {} rows.</p>", kRowsPerPage,
                        count_text(static_cast<std::int64_t>(table.rows.size())));
  }
  return html + "</section>\n";
}

std::string page_body(std::string_view content) {
  return fmt::format(
      "<style>\n{}</style>\n<main class=\"plimsoll\">\n{}<p class=\"soft\">Plimsoll {}. Times are "
      "predictions.</p>\n</main>\n",
      embedded_page_style(), content, kVersion);
}

std::string whole_page(std::string_view title, std::string_view content) {
  std::string scripts, shown(content);
  if (content.find("<div class=\"chart\">") != std::string_view::npos) {
    scripts = fmt::format("<script>\n{}</script>\n", embedded_page_vega());
    shown =
        "<noscript><p class=\"warning\">Scripts draw the charts of this page, and show all rows of "
        "long tables. Without them, tables have the figures of the charts.</p></noscript>\n" +
        shown;
  }
  scripts += fmt::format("<script>\n{}</script>\n", embedded_page_script());
  return fmt::format(
      "<!doctype html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n"
      "<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n"
      "<meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; img-src data:; "
      "style-src 'unsafe-inline'; script-src 'unsafe-inline'\">\n"
      "<link rel=\"icon\" href=\"data:,\">\n"
      "<title>{}</title>\n<style>html {{ background: Canvas; color-scheme: light dark; }} "
      "body {{ margin: 0; }}</style>\n</head>\n<body>\n{}{}</body>\n</html>\n",
      escape_html(title), page_body(shown), scripts);
}

}  // namespace plimsoll::io
