#include "golden.h"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <set>
#include <utility>

namespace plimsoll::golden {
namespace {

bool is_same_number(const Json& a, const Json& b) {
  if (a.is_number_integer() && b.is_number_integer()) return a == b;
  return std::bit_cast<std::uint64_t>(a.get<double>()) ==
         std::bit_cast<std::uint64_t>(b.get<double>());
}

class Judge {
 public:
  Judge(std::string_view kind, std::size_t index, std::vector<Difference>& differences)
      : kind_(kind), index_(index), differences_(differences) {}

  void compare(const std::string& field, const Json& expected, const Json& ours) {
    if (expected.is_array() && ours.is_array()) {
      if (expected.size() != ours.size()) report(field + ".length", expected.size(), ours.size());
      for (std::size_t i = 0; i < std::min(expected.size(), ours.size()); ++i) {
        compare(fmt::format("{}[{}]", field, i), expected[i], ours[i]);
      }
    } else if (expected.is_object() && ours.is_object()) {
      for (const auto& [key, value] : expected.items()) {
        const auto it = ours.find(key);
        if (it == ours.end()) {
          report_absent(field + "." + key, value);
        } else {
          compare(field + "." + key, value, *it);
        }
      }
    } else if (expected.is_number() && ours.is_number()) {
      if (!is_same_number(expected, ours)) report(field, expected, ours);
    } else if (expected != ours) {
      report(field, expected, ours);
    }
  }

  void report(std::string field, const Json& expected, const Json& ours) {
    differences_.push_back(
        {std::string(kind_), index_, std::move(field), expected.dump(), ours.dump()});
  }
  void report_absent(std::string field, const Json& expected) {
    differences_.push_back(
        {std::string(kind_), index_, std::move(field), expected.dump(), "absent"});
  }

 private:
  std::string_view kind_;
  std::size_t index_;
  std::vector<Difference>& differences_;
};

const Json* find_field(const Json& object, std::string_view key) {
  if (!object.is_object()) return nullptr;
  const auto it = object.find(std::string(key));
  return it == object.end() ? nullptr : &*it;
}

void judge_record(const Kind& kind, std::size_t index, const Json& record, const Json& answer,
                  std::vector<Difference>& differences) {
  static const Json kNull;
  Judge judge(kind.name, index, differences);
  const Json* exception = find_field(record, "exception");
  const bool is_assertion = exception != nullptr && *exception == "AssertionError" &&
                            answer.contains("exception") && !answer["exception"].is_null();
  for (const std::string_view key : kind.outputs) {
    if (is_assertion && (key == "exception" || key == "error_text")) continue;
    const std::string field(key);
    const Json* expected = find_field(record, key);
    const Json* ours = find_field(answer, key);
    if (key == "error" || key == "exception") {
      judge.compare(field, expected ? *expected : kNull, ours ? *ours : kNull);
    } else if (expected != nullptr && ours != nullptr) {
      judge.compare(field, *expected, *ours);
    } else if (expected != nullptr && !answer.contains("exception")) {
      judge.report_absent(field, *expected);
    }
  }
}

void replay_record(const Kind& kind, std::size_t index, const Json& document, const Json& record,
                   Replay& replay, std::set<std::string>& unread) {
  Reading reading;
  reading.document = &document;
  Json answer;
  {
    Fields fields(record, "", fmt::format("{}[{}]", kind.name, index), reading);
    for (const std::string_view output : kind.outputs) fields.child(output);
    answer = kind.answer(fields);
  }
  for (const std::string& field : reading.unread) {
    unread.insert(fmt::format("{}: {}", kind.name, field));
  }
  const std::size_t num_differences = replay.differences.size();
  if (reading.error) {
    replay.bad_records.push_back(*reading.error);
  } else {
    judge_record(kind, index, record, answer, replay.differences);
  }
  const bool agrees = !reading.error && replay.differences.size() == num_differences;
  ++(agrees ? replay.passed : replay.failed);
}

// Lists and objects that are of no known kind.
void find_strangers(const Json& document, std::span<const Kind> kinds, Replay& replay) {
  for (const auto& [key, value] : document.items()) {
    if (!value.is_structured()) continue;
    const bool is_known = std::any_of(kinds.begin(), kinds.end(),
                                      [&k = key](const Kind& kind) { return kind.name == k; });
    if (is_known) continue;
    replay.bad_records.push_back(
        {ErrorCode::kSchema, key, "holds records of a kind that nothing replays", "", ""});
    ++replay.failed;
  }
}

}  // namespace

Result<Replay> replay_records(const Json& document, std::span<const Kind> kinds) {
  Replay replay;
  std::set<std::string> unread;
  std::string known;
  bool has_records = false;
  for (const Kind& kind : kinds) {
    known += fmt::format("{}'{}'", known.empty() ? "" : ", ", kind.name);
    const Json* records = find_field(document, kind.name);
    if (records == nullptr) continue;
    if (!records->is_structured()) {
      return fail(ErrorCode::kSchema, std::string(kind.name), "is not a list");
    }
    has_records = true;
    const std::size_t count = records->is_array() ? records->size() : 1;
    if (kind.answer == nullptr) {
      replay.unanswered += static_cast<std::int64_t>(count);
      continue;
    }
    for (std::size_t i = 0; i < count; ++i) {
      replay_record(kind, i, document, records->is_array() ? (*records)[i] : *records, replay,
                    unread);
    }
  }
  if (!has_records) return fail(ErrorCode::kSchema, "", "holds none of the lists " + known);
  find_strangers(document, kinds, replay);
  replay.unread.assign(unread.begin(), unread.end());
  return replay;
}

}  // namespace plimsoll::golden
