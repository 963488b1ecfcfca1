// What an answer claims of its own quality, as the judges of certificates take it.
#pragma once

#include <cmath>
#include <optional>

#include "plimsoll/check/certificate_judgement.h"
#include "study/partition/placement_judging.h"

namespace plimsoll::study {

// The stated objective, where there is one and it is a number.
inline std::optional<double> stated_objective(const PlacementAnswer& answer) {
  if (!answer.certificate || std::isnan(answer.certificate->objective)) return {};
  return answer.certificate->objective;
}

inline check::CertificateClaims claims_of(const PlacementAnswer& answer, const PlanMaking& making,
                                          bool is_right) {
  return {answer.plan.has_value(), is_right, answer.status, answer.certificate, making.missing};
}

inline constexpr const char* kOtherRules = "checked by other rules than it was made by";

// Refuted, or under --strict not repeated.
inline bool is_refused(const check::CertificateJudgement& certificate, const PlanMaking& making) {
  return certificate.status == check::CertificateStatus::kRefuted ||
         (making.is_strict && certificate.status == check::CertificateStatus::kNotRepeated);
}

// By other rules the plan's own figures are others, too; only what contradicts itself is refuted.
inline check::CertificateJudgement judge_by_other_rules(const check::CertificateClaims& claims) {
  check::KnownOptimum known;
  known.obstacle = kOtherRules;
  return judge_certificate(claims, known);
}

}  // namespace plimsoll::study
