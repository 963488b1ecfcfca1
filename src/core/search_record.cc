#include "core/search_record.h"

namespace plimsoll {
namespace {

// Nothing where the text is missing or not one of such a value.
template <class T>
std::optional<T> read_text(const OptionTexts& texts, const char* name) {
  const auto text = texts.find(name);
  T value;
  if (text == texts.end() || !read_record(text->second, value)) return std::nullopt;
  return value;
}

template <class Number>
std::optional<Number> read_amount(const OptionTexts& texts, const char* name) {
  const auto number = read_text<Number>(texts, name);
  return number && *number >= 0 ? number : std::nullopt;
}

}  // namespace

void put_search_record(const SearchRecord& record, OptionTexts& texts) {
  RecordWriter writer(texts);
  writer.stated("search", record.search);
  writer.stated("variant", record.variant);
  writer.stated("effort", record.effort);
  writer.stated("tolerance", record.tolerance);
}

SearchRecord read_search_record(const OptionTexts& texts) {
  return {read_text<std::string>(texts, "search"), read_text<std::string>(texts, "variant"),
          read_amount<std::int64_t>(texts, "effort"), read_amount<double>(texts, "tolerance")};
}

SearchRecord search_record_of(const std::optional<Provenance>& provenance) {
  return provenance ? read_search_record(provenance->options) : SearchRecord{};
}

}  // namespace plimsoll
