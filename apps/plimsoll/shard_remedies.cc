#include "plimsoll/shard_remedies.h"

#include <fmt/format.h>

#include <optional>
#include <utility>

#include "study/embedding/remedies.h"

namespace plimsoll::app {
namespace {

using study::Remedy;
using study::RemedyKind;

// "8x28GiB" as 8 and a way to name another number; nothing of files and names without a number.
struct Count {
  int now = 0;
  std::string before, after;
  std::string with(int count) const { return fmt::format("{}{}{}", before, count, after); }
};

std::optional<Count> find_count(const std::string& on) {
  const auto number = [](const std::string& text) -> std::optional<int> {
    const bool is_number =
        !text.empty() && text.size() < 7 && text.find_first_not_of("0123456789") == text.npos;
    return is_number ? std::optional(std::stoi(text)) : std::nullopt;
  };
  if (const std::size_t x = on.find('x'); x != on.npos) {
    if (const auto count = number(on.substr(0, x))) return Count{*count, "", on.substr(x)};
  }
  const std::size_t colon = on.rfind(':');
  if (colon == on.npos) {
    const bool is_file = on.find('/') != on.npos || on.find(".json") != on.npos || on == "-";
    return is_file ? std::nullopt : std::optional(Count{1, on + ":", ""});
  }
  if (const auto count = number(on.substr(colon + 1))) {
    return Count{*count, on.substr(0, colon + 1), ""};
  }
  return std::nullopt;
}

std::optional<study::ScaledProblem> find_scaled(const ShardFlags& flags) {
  const auto count = find_count(flags.planning.on);
  if (!count || !flags.replay.empty() || flags.planning.model == "-") return std::nullopt;
  return study::ScaledProblem{count->now,
                              [planning = flags.planning, count = *count](
                                  int number) mutable -> std::optional<embedding::PlanningProblem> {
                                planning.on = count.with(number);
                                auto problem = make_problem(planning);
                                return problem ? std::optional(*std::move(problem)) : std::nullopt;
                              }};
}

std::string size_text(Bytes bytes) {
  if (bytes < kGiB) return fmt::format("{}MiB", bytes / kMiB);
  return fmt::format("{}GiB", static_cast<double>(bytes) / static_cast<double>(kGiB));
}

std::string remedy_text(const ShardFlags& flags, const ShardRequest& request,
                        const Remedy& remedy) {
  const PlanningFlags& planning = flags.planning;
  switch (remedy.kind) {
    case RemedyKind::kLooserRules:
      return fmt::format("loosen the rules of --rules {}",
                         flags.rules.empty() ? std::string("(recorded)") : flags.rules);
    case RemedyKind::kLooserConstraints:
      return planning.constraints.empty()
                 ? "loosen the constraints of the model, or overrule them by --constraints"
                 : "loosen the constraints of --constraints " + planning.constraints;
    case RemedyKind::kNumerics:
      return "leave out --strict-numerics";
    case RemedyKind::kAllWidths:
      return "--widths all";
    case RemedyKind::kSmallerBatch:
      return fmt::format("--batch-size below {}, which reserves less for input ids",
                         request.problem.batch_size);
    case RemedyKind::kOtherReservation:
      return "--dense-tensor-estimate BYTES, what the dense part really takes of a rank, or "
             "--reservation fixed_percentage:SHARE, which does not count it (FSDP shards it)";
    case RemedyKind::kMoreHbm:
      return fmt::format("--hbm-cap {}: a plan fits", size_text(remedy.bytes));
    case RemedyKind::kMoreDdr:
      return fmt::format("--ddr-cap {}: a plan fits", size_text(remedy.bytes));
    case RemedyKind::kMoreRanks:
      return fmt::format("--on {}: a plan fits", find_count(planning.on)->with(remedy.count));
    case RemedyKind::kSmallerShare:
      return fmt::format("--reservation {}:{}: a plan fits",
                         to_string(request.problem.reservation.kind), double{remedy.share});
  }
  return "";
}

}  // namespace

std::vector<std::string> find_remedies(const ShardFlags& flags, const ShardRequest& request,
                                       const study::ShardingRun& run, const RunContext& context) {
  std::vector<std::string> texts;
  for (const Remedy& remedy : study::find_remedies(request, run, find_scaled(flags), context)) {
    texts.push_back(remedy_text(flags, request, remedy));
  }
  return texts;
}

}  // namespace plimsoll::app
