// What an answer explains of why there is no plan, held against the same explained again.
//
// Promises. Refuted where a figure or a kind is another one: what is missing and where, the cap,
// the members of the conflict and whether it is irreducible, a fix and its predicted time. Not
// repeated where the words alone differ: they name flags and files that the checker may not be
// given. An answer may say less than is found: no cap, no conflict, fewer fixes.
#pragma once

#include <optional>

#include "plimsoll/check/certificate_status.h"
#include "plimsoll/study/no_plan.h"

namespace plimsoll::study {

// `again` is absent where the explanation could not be made again.
check::CertificateJudgement judge_explanation(const NoPlan& stated,
                                              const std::optional<NoPlan>& again);

}  // namespace plimsoll::study
