#include "plimsoll/check/finding.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace plimsoll::check {
namespace {

using testing::ElementsAre;
using testing::Field;

TEST(Finding, ReadsAsSeverityCodePlaceAndUnit) {
  const auto text = [](std::string place, std::optional<FindingUnit> unit, Severity severity) {
    return to_text(
        {FindingCode::kCoveredTwice, std::move(place), unit, "one", "two", "why", severity});
  };
  const FindingUnit rank{FindingUnit::kRank, 1};
  EXPECT_EQ(text("a.t", rank, Severity::kViolation), "violation covered_twice, a.t, rank 1: why");
  EXPECT_EQ(text("a.t", {}, Severity::kHazard), "hazard covered_twice, a.t: why");
  EXPECT_EQ(text("", FindingUnit{FindingUnit::kStage, 0}, Severity::kWarning),
            "warning covered_twice, stage 0: why");
  EXPECT_EQ(find_unit(FindingUnit::kRank, 1), rank);
  EXPECT_EQ(find_unit(FindingUnit::kRank, std::nullopt), std::nullopt);
}

TEST(CheckReport, IsRightWithoutViolationsWhateverElseWasFound) {
  CheckReport report;
  EXPECT_TRUE(report.is_right());
  report.findings.push_back(
      {FindingCode::kUnevenRows, "t", {}, "", "", "a hazard", Severity::kHazard});
  report.leave_open("a claim");
  EXPECT_TRUE(report.is_right());
  report.violate(FindingCode::kBoundNotProved, "a violation");
  EXPECT_FALSE(report.is_right());
  EXPECT_THAT(report.violations(), ElementsAre(Field(&Finding::message, "a violation")));
  EXPECT_THAT(report.hazards(), ElementsAre(Field(&Finding::message, "a hazard")));
  EXPECT_THAT(report.warnings(), ElementsAre(Field(&Finding::code, FindingCode::kNotRepeated)));
}

TEST(CheckReport, TakesAnExplanationThatIsRefutedOrStrictlyLeftOpenAsAViolation) {
  const auto num_violations = [](CertificateStatus status, bool is_strict) {
    CheckReport report;
    put_explanation({status, "why"}, is_strict, report);
    EXPECT_EQ(report.explanation.status, status);
    return report.violations().size();
  };
  EXPECT_EQ(num_violations(CertificateStatus::kRefuted, false), 1U);
  EXPECT_EQ(num_violations(CertificateStatus::kNotRepeated, false), 0U);
  EXPECT_EQ(num_violations(CertificateStatus::kNotRepeated, true), 1U);
  EXPECT_EQ(num_violations(CertificateStatus::kProved, true), 0U);
  EXPECT_EQ(num_violations(CertificateStatus::kAbsent, true), 0U);
}

}  // namespace
}  // namespace plimsoll::check
