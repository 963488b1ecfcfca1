// plimsoll-golden: recomputes golden records and says where the answers differ.
//
//   plimsoll-golden embedding FILE...
//   plimsoll-golden checkpointing FILE...
//   plimsoll-golden graph-partition FILE...
//
// Prints one line for each field that differs and a last line "N passed, M failed". Exit code 0
// only if every record agrees; 1 where one differs, an input cannot be read or nothing reads it.

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstdio>
#include <fstream>
#include <span>
#include <string>
#include <string_view>
#include <utility>

#include "checkpointing_golden.h"
#include "embedding_golden.h"
#include "graph_partition_golden.h"
#include "knapsack_golden.h"

namespace plimsoll::golden {
namespace {

struct Planner {
  std::string_view name;
  std::span<const Kind> (*kinds)();
  Json (*prepare)(Json document);  // null: a document is read as it is
};

constexpr std::array kPlanners = {
    Planner{"embedding", embedding_kinds, nullptr},
    Planner{"checkpointing", checkpointing_kinds, name_knapsack_fields},
    Planner{"graph-partition", graph_partition_kinds, prepare_graph_partition},
};

Result<Json> load(const std::string& path) {
  std::ifstream stream(path, std::ios::binary);
  if (!stream) return fail(ErrorCode::kIo, path, "cannot be opened");
  try {
    return Json::parse(stream);
  } catch (const Json::exception& exception) {
    return fail(ErrorCode::kSyntax, path, exception.what());
  } catch (const std::ios_base::failure&) {
    return fail(ErrorCode::kIo, path, "cannot be read");
  }
}

// Adds the counts of one file to the totals; a file that cannot be replayed counts as one failure.
void replay_file(const Planner& planner, const std::string& path, Replay& totals) {
  const auto replay = load(path).and_then([&](Json document) {
    if (planner.prepare != nullptr) document = planner.prepare(std::move(document));
    return replay_records(document, planner.kinds());
  });
  if (!replay) {
    Error error = replay.error();
    if (error.place.empty()) {
      error.place = path;
    } else if (error.place != path) {
      error.place = fmt::format("{}: {}", path, error.place);
    }
    fmt::print(stderr, "plimsoll-golden: {}\n", format_error(error));
    ++totals.failed;
    return;
  }
  for (const Error& error : replay->bad_records) fmt::print("{}: {}\n", path, format_error(error));
  for (const Difference& difference : replay->differences) {
    fmt::print("{}: {}[{}].{}: expected {}, ours {}\n", path, difference.kind, difference.index,
               difference.field, difference.expected, difference.ours);
  }
  for (const std::string& field : replay->unread) {
    fmt::print(stderr, "plimsoll-golden: {}: nothing reads the field {}\n", path, field);
    ++totals.failed;
  }
  totals.passed += replay->passed;
  totals.failed += replay->failed;
  totals.unanswered += replay->unanswered;
}

int run(std::span<char* const> arguments) {
  const auto planner =
      std::find_if(kPlanners.begin(), kPlanners.end(), [&](const Planner& candidate) {
        return arguments.size() > 2 && candidate.name == arguments[1];
      });
  if (planner == kPlanners.end()) {
    fmt::print(stderr, "usage: plimsoll-golden embedding|checkpointing|graph-partition FILE...\n");
    return 1;
  }
  Replay totals;
  for (const char* file : arguments.subspan(2)) replay_file(*planner, file, totals);
  if (totals.unanswered > 0) fmt::print("{} records without an answer\n", totals.unanswered);
  fmt::print("{} passed, {} failed\n", totals.passed, totals.failed);
  return totals.failed == 0 ? 0 : 1;
}

}  // namespace
}  // namespace plimsoll::golden

int main(int argc, char** argv) {
  return plimsoll::golden::run(std::span(argv, static_cast<std::size_t>(argc)));
}
