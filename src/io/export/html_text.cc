#include "io/export/html_text.h"

#include <fmt/format.h>

#include <cstdlib>

#include "io/json/json_document.h"

namespace plimsoll::io {
namespace {

// Bytes of the character at the beginning; 0 where it is none of UTF-8's (RFC 3629).
std::size_t utf8_length(std::string_view text) {
  const auto lead = static_cast<unsigned char>(text.front());
  const std::size_t length = lead < 0x80 ? 1 : lead >= 0xf0 ? 4 : lead >= 0xe0 ? 3 : 2;
  if ((lead >= 0x80 && lead < 0xc2) || lead > 0xf4 || text.size() < length) return 0;
  for (std::size_t i = 1; i < length; ++i) {
    if ((static_cast<unsigned char>(text[i]) & 0xc0) != 0x80) return 0;
  }
  return length;
}

}  // namespace

std::string escape_html(std::string_view text) {
  constexpr std::string_view kReplacement = "\xef\xbf\xbd";
  std::string result;
  while (!text.empty()) {
    const std::size_t length = utf8_length(text);
    const char first = text.front();
    if (length == 0 || (length == 1 && ((first >= 0 && first < 0x20) || first == 0x7f))) {
      result += first == '\n' || first == '\t' ? std::string_view(" ") : kReplacement;
    } else if (length > 1) {
      result += text.substr(0, length);
    } else {
      switch (first) {
        case '&':
          result += "&amp;";
          break;
        case '<':
          result += "&lt;";
          break;
        case '>':
          result += "&gt;";
          break;
        case '"':
          result += "&quot;";
          break;
        case '\'':
          result += "&#39;";
          break;
        default:
          result += first;
      }
    }
    text.remove_prefix(length == 0 ? 1 : length);
  }
  return result;
}

std::string script_json(const JsonValue& value) {
  std::string safe;
  for (const char c : print_compact(value)) {
    if (c == '<') {
      safe += "\\u003c";
    } else {
      safe += c;
    }
  }
  return safe;
}

std::string ms_number(double ms) { return fmt::format("{:.4g}", ms); }

std::string ms_text(double ms) { return ms_number(ms) + " ms"; }

std::string bytes_text(Bytes bytes) {
  constexpr std::pair<Bytes, const char*> kUnits[] = {
      {kTiB, "TiB"}, {kGiB, "GiB"}, {kMiB, "MiB"}, {kKiB, "KiB"}};
  for (const auto& [unit, name] : kUnits) {
    if (bytes >= unit || -bytes >= unit) {
      return fmt::format("{:.4g} {}", static_cast<double>(bytes) / static_cast<double>(unit), name);
    }
  }
  return fmt::format("{} B", bytes);
}

std::string count_text(std::int64_t count) {
  const std::string digits = fmt::format("{}", count);
  std::string text;
  for (std::size_t i = 0; i < digits.size(); ++i) {
    const std::size_t left = digits.size() - i;
    if (i > 0 && left % 3 == 0 && digits[i - 1] != '-') text += ',';
    text += digits[i];
  }
  return text;
}

}  // namespace plimsoll::io
