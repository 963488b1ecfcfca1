// Why nothing fits, and what would: as every answer without a plan tells it.
#pragma once

#include <compare>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "plimsoll/core/outcome.h"

#pragma GCC visibility push(default)
namespace plimsoll::study {

// One of the constraints that cannot hold together.
struct ConflictMember {
  std::string kind;  // "cap", "reservation", "constraint", "rule", "devices" or "option"
  std::string name;  // as the user wrote it: "--hbm-cap 28GiB", "cat_9: sharding_types column_wise"
  auto operator<=>(const ConflictMember&) const = default;
};

// A change with which a plan was found.
struct Fix {
  std::string kind;    // "ranks", "batch_size", "data_type", "reservation", "constraint", ...
  std::string change;  // what to type or to write instead: "--on 9x28GiB"
  // Predicted ms of the plan that was found, in the objective that was asked for; of a checkpoint
  // policy the ms of recomputing. Absent where no time was asked for.
  std::optional<double> ms;
  bool operator==(const Fix&) const = default;
};

// What an answer without a plan explains. `binding`, `missing` and `lines` are those of the search.
struct NoPlan : Explanation {
  NoPlan() = default;
  // What a search alone knows. NOLINTNEXTLINE(google-explicit-constructor)
  NoPlan(Explanation known) : Explanation(std::move(known)) {}
  std::string cap;  // "hbm", "ddr", "budget", a device class: without this cap alone a plan fits;
                    // empty where that is true of no single cap, or not known
  // Constraints that admit no plan together, all others left out. Empty where they were not looked
  // for.
  std::vector<ConflictMember> conflict;
  bool is_irreducible = false;  // without any one member of it the others have a plan
  std::vector<Fix> fixes;       // each was planned; the least predicted time first
  bool operator==(const NoPlan&) const = default;
};

}  // namespace plimsoll::study
#pragma GCC visibility pop
