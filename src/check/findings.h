// Where the rules of a judge put what they find.
#pragma once

#include <algorithm>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "plimsoll/check/finding.h"

namespace plimsoll::check {

struct Findings {
  std::vector<Finding> all;

  void add(FindingCode code, std::string place, std::optional<int> rank, std::string expected,
           std::string found, std::string message) {
    all.push_back({code, std::move(place), find_unit(FindingUnit::kRank, rank), std::move(expected),
                   std::move(found), std::move(message)});
  }
  void add(FindingCode code, std::string place, std::string expected, std::string found,
           std::string message) {
    add(code, std::move(place), std::nullopt, std::move(expected), std::move(found),
        std::move(message));
  }
  // A hazard.
  void warn(FindingCode code, std::string place, std::optional<int> rank, std::string message) {
    all.push_back({code, std::move(place), find_unit(FindingUnit::kRank, rank), "", "",
                   std::move(message), Severity::kHazard});
  }
  void warn(FindingCode code, std::string place, std::string message) {
    warn(code, std::move(place), std::nullopt, std::move(message));
  }

  // The same as violations, of the hazards that are chosen.
  template <class Choose>
  void count_hazards(const Choose& is_chosen) {
    const std::vector<Finding> before = all;
    for (const Finding& hazard : before) {
      if (hazard.severity != Severity::kHazard || !is_chosen(hazard.code)) continue;
      all.push_back({FindingCode::kHazard, hazard.place, hazard.unit, "no hazard",
                     std::string(to_string(hazard.code)), hazard.message});
    }
  }

  bool has_violations() const {
    return std::any_of(all.begin(), all.end(), [](const Finding& finding) {
      return finding.severity == Severity::kViolation;
    });
  }
};

}  // namespace plimsoll::check
