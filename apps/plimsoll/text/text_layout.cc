#include "plimsoll/text/text_layout.h"

#include <fmt/format.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <cstdlib>
#include <map>
#include <optional>

namespace plimsoll::app {
namespace {

constexpr std::size_t kDefaultColumns = 100;
constexpr std::size_t kFewestColumns = 40;

struct Character {
  char32_t code = 0;
  std::size_t length = 1;  // bytes
  bool is_valid = true;
};

// The character at the beginning of a text that is not empty (RFC 3629).
Character decode(std::string_view text) {
  const auto byte = [&text](std::size_t i) { return static_cast<unsigned char>(text[i]); };
  const unsigned char lead = byte(0);
  if (lead < 0x80) return {lead, 1, true};
  const std::size_t length = lead >= 0xf0 ? 4 : lead >= 0xe0 ? 3 : 2;
  if (lead < 0xc2 || lead > 0xf4 || text.size() < length) return {lead, 1, false};
  char32_t code = lead & (0xffU >> (length + 1));
  for (std::size_t i = 1; i < length; ++i) {
    if ((byte(i) & 0xc0) != 0x80) return {lead, 1, false};
    code = code << 6 | (byte(i) & 0x3f);
  }
  constexpr char32_t kLeast[] = {0, 0, 0x80, 0x800, 0x10000};
  const bool is_surrogate = code >= 0xd800 && code <= 0xdfff;
  if (code < kLeast[length] || code > 0x10ffff || is_surrogate) return {lead, 1, false};
  return {code, length, true};
}

struct Range {
  char32_t first, last;
};

template <std::size_t n>
bool is_in(char32_t code, const std::array<Range, n>& ranges) {
  return std::any_of(ranges.begin(), ranges.end(),
                     [code](const Range& r) { return code >= r.first && code <= r.last; });
}

// Combining marks and joiners, and East Asian Wide and Fullwidth with emoji, as Unicode 15 has them
// (https://www.unicode.org/reports/tr11/), in round ranges.
constexpr std::array<Range, 8> kNoWidth{{{0x300, 0x36f},
                                         {0x483, 0x489},
                                         {0x591, 0x5bd},
                                         {0x200b, 0x200f},
                                         {0x20d0, 0x20ff},
                                         {0xfe00, 0xfe0f},
                                         {0xfe20, 0xfe2f},
                                         {0xe0100, 0xe01ef}}};
constexpr std::array<Range, 26> kWide{
    {{0x1100, 0x115f},   {0x231a, 0x231b},   {0x23e9, 0x23ec},   {0x2614, 0x2615},
     {0x2648, 0x2653},   {0x26a1, 0x26a1},   {0x2705, 0x2705},   {0x2728, 0x2728},
     {0x274c, 0x274c},   {0x2753, 0x2755},   {0x2757, 0x2757},   {0x2795, 0x2797},
     {0x2b1b, 0x2b1c},   {0x2b50, 0x2b50},   {0x2e80, 0x303e},   {0x3041, 0xa4cf},
     {0xac00, 0xd7a3},   {0xf900, 0xfaff},   {0xfe30, 0xfe6f},   {0xff00, 0xff60},
     {0xffe0, 0xffe6},   {0x1f300, 0x1f64f}, {0x1f680, 0x1f6ff}, {0x1f900, 0x1f9ff},
     {0x1fa70, 0x1faff}, {0x20000, 0x3fffd}}};

std::size_t width_of(char32_t code) {
  return is_in(code, kNoWidth) ? 0 : is_in(code, kWide) ? 2 : 1;
}

constexpr std::string_view kDots = "...";

std::string_view first_columns(std::string_view text, std::size_t width) {
  std::size_t length = 0;
  for (std::size_t used = 0; length < text.size();) {
    const Character next = decode(text.substr(length));
    used += width_of(next.code);
    if (used > width) break;
    length += next.length;
  }
  return text.substr(0, length);
}

// A name around one of its numbers: "layers." 12 ".mlp".
struct Numbered {
  std::string before, after;
  std::int64_t number = 0;
  std::size_t digits = 1;  // "007" has three
};

constexpr std::size_t kMaxDigits = 9;

bool is_digit(char c) { return c >= '0' && c <= '9'; }

// Every way to see the name so.
std::vector<Numbered> numbers_in(const std::string& name) {
  std::vector<Numbered> found;
  for (std::size_t i = 0; i < name.size();) {
    if (!is_digit(name[i])) {
      ++i;
      continue;
    }
    std::size_t end = i;
    while (end < name.size() && is_digit(name[end])) ++end;
    if (end - i <= kMaxDigits) {
      Numbered numbered{name.substr(0, i), name.substr(end), 0, end - i};
      std::from_chars(name.data() + i, name.data() + end, numbered.number);
      found.push_back(std::move(numbered));
    }
    i = end;
  }
  return found;
}

// The longest run from `first` on of one name with its number counted up.
FoldedName longest_run(const std::vector<std::string>& names, std::size_t first) {
  FoldedName longest{names[first], names[first], "", "", 1};
  for (const Numbered& start : numbers_in(names[first])) {
    std::size_t length = 1;
    while (first + length < names.size() &&
           names[first + length] == fmt::format("{}{:0{}}{}", start.before,
                                                start.number + static_cast<std::int64_t>(length),
                                                start.digits, start.after)) {
      ++length;
    }
    if (static_cast<int>(length) <= longest.count) continue;
    longest = {names[first], names[first + length - 1], start.before, start.after,
               static_cast<int>(length)};
  }
  return longest;
}

}  // namespace

std::size_t text_columns() {
  std::size_t columns = kDefaultColumns;
  winsize size{};
  if (isatty(STDOUT_FILENO) != 0 && ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) == 0 &&
      size.ws_col > 0) {
    columns = size.ws_col;
  } else if (const char* text = std::getenv("COLUMNS")) {
    std::size_t given = 0;
    const std::string_view number = text;
    const auto [end, error] = std::from_chars(number.data(), number.data() + number.size(), given);
    if (error == std::errc() && end == number.data() + number.size()) columns = given;
  }
  return std::max(columns, kFewestColumns);
}

std::string shown(std::string_view text) {
  std::string result;
  while (!text.empty()) {
    const Character next = decode(text);
    const bool is_control = next.code < 0x20 || (next.code >= 0x7f && next.code < 0xa0);
    if (text.front() == '\n' || text.front() == '\t' || (next.is_valid && !is_control)) {
      result += text.substr(0, next.length);
    } else if (next.is_valid && next.code >= 0x80) {
      result += fmt::format("\\u{:04x}", static_cast<unsigned>(next.code));
    } else {
      result += fmt::format("\\x{:02x}", static_cast<unsigned char>(text.front()));
    }
    text.remove_prefix(next.length);
  }
  return result;
}

std::size_t display_width(std::string_view text) {
  constexpr std::string_view kColor = "\x1b[";  // up to 'm'; of others' text shown() leaves none
  std::size_t width = 0;
  while (!text.empty()) {
    if (text.substr(0, kColor.size()) == kColor) {
      text.remove_prefix(std::min(text.find('m'), text.size() - 1) + 1);
      continue;
    }
    const Character next = decode(text);
    width += width_of(next.code);
    text.remove_prefix(next.length);
  }
  return width;
}

std::string cut_to(std::string_view text, std::size_t width) {
  if (display_width(text) <= width) return std::string(text);
  if (width <= kDots.size()) return std::string(kDots.substr(0, width));
  const std::string_view head = first_columns(text, (width - kDots.size()) / 2);
  std::string_view tail = text.substr(head.size());
  while (display_width(tail) > width - kDots.size() - display_width(head)) {
    tail.remove_prefix(decode(tail).length);
  }
  return std::string(head) + std::string(kDots) + std::string(tail);
}

std::string head_of(std::string_view text, std::size_t width) {
  if (display_width(text) <= width) return std::string(text);
  if (width <= kDots.size()) return std::string(kDots.substr(0, width));
  std::string_view head = first_columns(text, width - kDots.size());
  // A list ends with an entry that is whole.
  const std::size_t comma = head.rfind(", ");
  if (comma != std::string_view::npos && comma > head.size() / 2) head = head.substr(0, comma + 2);
  return std::string(head) + std::string(kDots);
}

std::string wrapped(std::string_view text, std::size_t width, std::size_t indent) {
  std::string result;
  std::size_t column = 0;
  while (!text.empty()) {
    const std::size_t end = std::min(text.find(' '), text.size());
    const std::string_view word = text.substr(0, end);
    const std::size_t word_width = display_width(word);
    if (column > 0 && column + 1 + word_width > width) {
      result += "\n" + std::string(indent, ' ');
      column = indent;
    } else if (column > 0) {
      result += ' ';
      ++column;
    }
    result += word;
    column += word_width;
    text.remove_prefix(std::min(end + 1, text.size()));
  }
  return result;
}

std::string in_lines(std::string_view text, std::size_t indent) {
  std::string result;
  while (!text.empty()) {
    const std::size_t end = std::min(text.find('\n'), text.size());
    result += wrapped(text.substr(0, end), text_columns(), indent) + "\n";
    text.remove_prefix(std::min(end + 1, text.size()));
  }
  return result;
}

std::string screen_row(std::string_view name, std::string_view what, std::size_t indent) {
  std::string text = fmt::format("{:<15}{}", name, what);
  text.erase(text.find_last_not_of(' ') + 1);
  return "  " + wrapped(text, text_columns() - 2, indent + 2) + "\n";
}

std::string with_short_numbers(std::string_view text) {
  constexpr std::size_t kLongest = 8;  // characters of a number that is left as it is
  std::string result;
  for (std::size_t i = 0; i < text.size();) {
    if (!is_digit(text[i])) {
      result += text[i++];
      continue;
    }
    std::size_t end = i;
    while (end < text.size() &&
           (is_digit(text[end]) ||
            (text[end] == '.' && end + 1 < text.size() && is_digit(text[end + 1])))) {
      ++end;
    }
    const std::string number(text.substr(i, end - i));
    const bool is_long = number.size() > kLongest && number.find('.') != std::string::npos;
    result += is_long ? fmt::format("{:.4g}", std::stod(number)) : number;
    i = end;
  }
  return result;
}

std::string hint(std::string_view text) { return "\n" + wrapped(text, text_columns(), 0) + "\n"; }

std::string grouped(std::int64_t number) {
  std::string digits = fmt::format("{}", number);
  const std::ptrdiff_t first = digits.front() == '-' ? 1 : 0;
  for (auto i = static_cast<std::ptrdiff_t>(digits.size()) - 3; i > first; i -= 3) {
    digits.insert(static_cast<std::size_t>(i), ",");
  }
  return digits;
}

std::string counted(std::int64_t number, std::string_view one, std::string_view many) {
  return fmt::format("{} {}", grouped(number), number == 1 ? one : many);
}

std::string short_figure(const std::optional<double>& value) {
  return value ? fmt::format("{:.4g}", *value) : "-";
}

std::string ms_text(double ms) {
  if (std::abs(ms) >= 1000 && std::abs(ms) < 1e15) {
    return grouped(static_cast<std::int64_t>(std::llround(ms))) + " ms";
  }
  return fmt::format("{:.4g} ms", ms);
}

std::string size_text(Bytes bytes) {
  const std::string exact = format_bytes(bytes);  // "43.002 GiB", "17 B"
  const std::size_t blank = exact.find(' ');
  double value = 0;
  std::from_chars(exact.data(), exact.data() + blank, value);
  std::string number = fmt::format("{:.{}f}", value, std::abs(value) < 100 ? 2 : 0);
  if (number.find('.') != std::string::npos) {
    number.erase(number.find_last_not_of('0') + 1);
    if (number.back() == '.') number.pop_back();
  }
  return number + exact.substr(blank);
}

std::string seconds_text(double seconds) {
  return seconds < 10 ? fmt::format("{:.2g} s", std::max(seconds, 0.001))
                      : fmt::format("{:.0f} s", seconds);
}

std::string bound_words(const Certificate& certificate) {
  if (!certificate.lower_bound) return "not known";
  const std::string_view how = certificate.proof.kind == ProofKind::kPrices ? "verified" : "proved";
  const auto gap = certificate.gap();
  if (!gap) return fmt::format("({})", how);
  if (*gap < SearchOptions{}.tolerance) return fmt::format("no plan is better ({})", how);
  return fmt::format("this plan is at most {} above it ({})", format_percent(*gap), how);
}

std::string FoldedName::range() const {
  if (count == 1) return first;
  const auto number = [this](const std::string& name) {
    return name.substr(before.size(), name.size() - before.size() - after.size());
  };
  return fmt::format("{}{}-{}{}", before, number(first), number(last), after);
}

std::vector<FoldedName> fold_names(const std::vector<std::string>& names) {
  constexpr int kShortest = 3;  // of a run that is folded
  std::vector<FoldedName> folded;
  for (std::size_t i = 0; i < names.size();) {
    FoldedName run = longest_run(names, i);
    if (run.count < kShortest) run = {names[i], names[i], "", "", 1};
    i += static_cast<std::size_t>(run.count);
    folded.push_back(std::move(run));
  }
  return folded;
}

std::vector<std::string> folded(const std::vector<std::string>& names) {
  std::vector<std::string> texts;
  for (const FoldedName& name : fold_names(names)) {
    texts.push_back(name.count == 1 ? name.first : fmt::format("{} .. {}", name.first, name.last));
  }
  return texts;
}

std::string common_prefix(const std::vector<std::string>& names) {
  if (names.size() < 2) return "";
  std::size_t length = names.front().size();
  for (const std::string& name : names) {
    std::size_t same = 0;
    while (same < std::min(length, name.size()) && name[same] == names.front()[same]) ++same;
    length = same;
  }
  std::string prefix = names.front().substr(0, length);
  const auto is_followed_by_number = [&] {
    return std::any_of(names.begin(), names.end(), [&](const std::string& name) {
      return name.size() > prefix.size() && is_digit(name[prefix.size()]);
    });
  };
  do {  // "model." of "model.layers.0" and "model.layers.1"
    const std::size_t dot = prefix.rfind('.', prefix.empty() ? 0 : prefix.size() - 1);
    const bool is_whole = !prefix.empty() && prefix.back() == '.';
    if (is_whole && !is_followed_by_number()) break;
    const std::size_t before = is_whole ? prefix.rfind('.', prefix.size() - 2) : dot;
    prefix = before == std::string::npos || prefix.size() < 2 ? "" : prefix.substr(0, before + 1);
  } while (!prefix.empty());
  return prefix;
}

std::string fold_numbers(const std::vector<int>& numbers) {
  std::string text;
  for (std::size_t i = 0; i < numbers.size();) {
    std::size_t end = i + 1;
    while (end < numbers.size() && numbers[end] == numbers[end - 1] + 1) ++end;
    text += fmt::format("{}{}{}", text.empty() ? "" : ",", numbers[i],
                        end - i > 1 ? fmt::format("-{}", numbers[end - 1]) : "");
    i = end;
  }
  return text;
}

std::vector<std::string> fold_lines(const std::vector<CodedLine>& lines, bool is_all) {
  constexpr int kFew = 3;
  std::map<std::string_view, int> count;
  for (const CodedLine& line : lines) ++count[line.code];
  std::map<std::string_view, int> said;
  std::vector<std::string> texts;
  for (const CodedLine& line : lines) {
    const bool is_folded = !is_all && count[line.code] > kFew;
    if (said[line.code]++ > 0 && is_folded) continue;
    std::string text = shown(line.line);
    if (is_folded) {
      text += fmt::format(" (and {} more like it; -v prints them)", grouped(count[line.code] - 1));
    }
    texts.push_back(std::move(text));
  }
  return texts;
}

std::vector<std::string> warning_lines(const std::vector<Warning>& warnings, bool is_all) {
  std::vector<CodedLine> lines;
  for (const Warning& warning : warnings) {
    lines.push_back(
        {warning.code, fmt::format("warning: {}{}{}", warning.place,
                                   warning.place.empty() ? "" : ": ", warning.message)});
  }
  return fold_lines(lines, is_all);
}

}  // namespace plimsoll::app
