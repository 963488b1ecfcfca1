// What a plan claims of its own quality, held against what a judge knows of the best plan.
//
// A bound is refuted where it is above a plan that exists: the plan itself, or one that the checker
// made. A status is refuted where it contradicts the rest: `optimal` needs a bound within the
// default tolerance, whatever tolerance the search was given. A claim is proved where the checker's
// own bound reaches it. All claims together are proved or not: one that is only not repeated leaves
// them not repeated. What says how a bound was found is for people and proves nothing.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "plimsoll/check/certificate_status.h"
#include "plimsoll/core/outcome.h"

#pragma GCC visibility push(default)
namespace plimsoll::check {

// `optimal` is meant up to this gap, and bounds are compared up to it with plans of the checker's:
// searches whose solver works in floating point promise no more.
inline constexpr double kCertificateTolerance = 1e-6;

struct CertificateClaims {
  bool has_plan = true;
  bool is_right = true;  // the plan has no violations
  std::optional<SolveStatus> status;
  std::optional<Certificate> certificate;
  // What the document leaves out of its making, such as "provenance"; empty: nothing. Claims
  // without it are refuted as ever, and proved no longer.
  std::string missing;
};

struct KnownPlan {
  double value = 0;
  std::string name;  // "the plan that keeps everything"
  bool operator==(const KnownPlan&) const = default;
};

struct KnownOptimum {
  std::optional<double> value;   // of the plan that is judged
  std::vector<KnownPlan> plans;  // others that are legal
  std::optional<double> bound;   // no legal plan is below
  bool is_infeasible = false;    // there is no legal plan
  std::string proof;             // how the bound, or the infeasibility, was shown
  std::string obstacle;          // why there is no better bound; may be empty
};

CertificateJudgement judge_certificate(const CertificateClaims& claims, const KnownOptimum& known);

// The search for a legal plan below a bound, to the end unless it takes too many states.
struct SearchedBelow {
  bool is_complete = false;
  std::optional<double> found;  // a legal plan's value
  std::int64_t num_states = 0;
};

// What such a search for plans below the claimed bound says.
void note_search(const SearchedBelow& searched, double claimed, KnownOptimum& known);

// Below this a plan refutes the claims; absent: they leave nothing to be searched for.
std::optional<double> searched_limit(const CertificateClaims& claims, const KnownOptimum& known);

// What a search for plans below searched_limit() says of the claims. Precondition: there is one.
void note_search(const SearchedBelow& searched, const CertificateClaims& claims,
                 KnownOptimum& known);

}  // namespace plimsoll::check
#pragma GCC visibility pop
