// Replays golden records: recomputes every record from its inputs and says where the answer differs
// from the recorded one.
//
// A golden file is one JSON object that holds lists of records, one list for each kind of record;
// it need not hold every kind. Where there is but one record of a kind it may stand without a list
// around it. A list of a kind that nobody knows is a failure, texts beside the lists are remarks.
// Numbers are compared bit for bit (2 and 2.0 are one number, 0.0 and
// -0.0 are two), texts character for character. Of an answer only what the record speaks of is
// compared.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "fields.h"
#include "plimsoll/core/result.h"

namespace plimsoll::golden {

// A list of records, how they are answered, and which of their fields are outputs. The answer is an
// object with the outputs' names; an answer with an `exception` holds nothing but that and perhaps
// `error_text`. Absent and null are the same for `error` and `exception`. Python's AssertionError
// agrees with any exception: it says that the input is bad, and nothing else.
struct Kind {
  std::string_view name;           // of the list, e.g. "plans"
  Json (*answer)(Fields& record);  // null: known, but nothing answers it; its records are counted
  std::vector<std::string_view> outputs;
};

// One field of one record that differs; values as JSON texts, "absent" where there is none.
struct Difference {
  std::string kind;
  std::size_t index = 0;
  std::string field;  // within the record, e.g. "shard_runs[2].perf[0]"
  std::string expected;
  std::string ours;
  bool operator==(const Difference&) const = default;
};

struct Replay {
  std::int64_t passed = 0;      // records
  std::int64_t failed = 0;      // records that differ or cannot be read, and lists of no known kind
  std::int64_t unanswered = 0;  // records of kinds that nothing answers
  std::vector<Difference> differences;
  std::vector<Error> bad_records;  // place "plans[3].tables[0].rows"
  std::vector<std::string>
      unread;  // inputs that no reader knows ("plans: tables.colour"), once each
};

// Error kSchema where the document holds no list of any of these kinds.
Result<Replay> replay_records(const Json& document, std::span<const Kind> kinds);

}  // namespace plimsoll::golden
