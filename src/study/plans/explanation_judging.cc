#include "study/plans/explanation_judging.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <string>
#include <utility>

namespace plimsoll::study {
namespace {

using check::CertificateJudgement;
using check::CertificateStatus;

constexpr double kTimeTolerance = 1e-9;  // relative, of predicted times

bool is_same_time(const std::optional<double>& a, const std::optional<double>& b) {
  if (!a || !b) return a.has_value() == b.has_value();
  return std::abs(*a - *b) <= kTimeTolerance * std::max(std::abs(*a), std::abs(*b));
}

class Comparison {
 public:
  Comparison(const NoPlan& stated, const NoPlan& again) : stated_(stated), again_(again) {}

  CertificateJudgement judge() {
    compare_need();
    compare_conflict();
    compare_fixes();
    if (!fault_.empty()) return {CertificateStatus::kRefuted, fault_};
    if (!doubt_.empty()) return {CertificateStatus::kNotRepeated, doubt_};
    return {CertificateStatus::kProved,
            fmt::format("found again: what is missing, {} of a conflict and {} that were planned",
                        counted(stated_.conflict.size(), "constraint", "constraints"),
                        counted(stated_.fixes.size(), "fix", "fixes"))};
  }

 private:
  static std::string counted(std::size_t number, const char* one, const char* many) {
    return fmt::format("{} {}", number, number == 1 ? one : many);
  }

  void refute(const std::string& place, const std::string& stated, const std::string& again) {
    if (!fault_.empty()) return;
    fault_ = fmt::format("explanation/{} says '{}', and it is '{}'", place, stated, again);
  }
  void doubt(const std::string& place, const std::string& stated, const std::string& again) {
    if (!doubt_.empty()) return;
    doubt_ = fmt::format("explanation/{} says '{}', where the checker would write '{}'", place,
                         stated, again);
  }

  void compare_need() {
    const bool states_need = !stated_.binding.empty() || stated_.missing != 0;
    if (states_need && stated_.binding != again_.binding) {
      refute("binding", stated_.binding, again_.binding);
    }
    if (states_need && stated_.missing != again_.missing) {
      refute("missing", fmt::format("{}", stated_.missing), fmt::format("{}", again_.missing));
    }
    if (!stated_.cap.empty() && stated_.cap != again_.cap) refute("cap", stated_.cap, again_.cap);
    if (stated_.lines != again_.lines) {
      doubt("lines", fmt::format("{}", fmt::join(stated_.lines, "; ")),
            fmt::format("{}", fmt::join(again_.lines, "; ")));
    }
  }

  void compare_conflict() {
    if (stated_.is_irreducible && !again_.is_irreducible) {
      refute("is_irreducible", "true", "false");
    }
    if (stated_.conflict.empty()) {
      if (stated_.is_irreducible) refute("conflict", "irreducible and empty", "of some constraint");
      return;
    }
    if (stated_.conflict.size() != again_.conflict.size()) {
      refute("conflict", counted(stated_.conflict.size(), "constraint", "constraints"),
             counted(again_.conflict.size(), "constraint", "constraints"));
      return;
    }
    for (std::size_t i = 0; i < stated_.conflict.size(); ++i) {
      const ConflictMember &a = stated_.conflict[i], &b = again_.conflict[i];
      const std::string place = fmt::format("conflict/{}", i);
      if (a.kind != b.kind) refute(place + "/kind", a.kind, b.kind);
      if (a.name != b.name) doubt(place + "/name", a.name, b.name);
    }
  }

  // Each stated one is the next of those found that is equal, or at least of its kind and time.
  void compare_fixes() {
    auto next = again_.fixes.begin();
    for (std::size_t i = 0; i < stated_.fixes.size(); ++i) {
      const Fix& fix = stated_.fixes[i];
      const auto alike = [&fix](const Fix& other) {
        return other.kind == fix.kind && is_same_time(other.ms, fix.ms);
      };
      auto found = std::find_if(next, again_.fixes.end(), [&](const Fix& other) {
        return alike(other) && other.change == fix.change;
      });
      if (found == again_.fixes.end()) {
        found = std::find_if(next, again_.fixes.end(), alike);
        if (found == again_.fixes.end()) {
          refute(fmt::format("fixes/{}", i),
                 fmt::format("{} {}, {} ms", fix.kind, fix.change, fix.ms.value_or(NAN)),
                 next == again_.fixes.end() ? "nothing"
                                            : fmt::format("{} {}, {} ms", next->kind, next->change,
                                                          next->ms.value_or(NAN)));
          return;
        }
        doubt(fmt::format("fixes/{}/change", i), fix.change, found->change);
      }
      next = std::next(found);
    }
  }

  const NoPlan& stated_;
  const NoPlan& again_;
  std::string fault_, doubt_;
};

}  // namespace

CertificateJudgement judge_explanation(const NoPlan& stated, const std::optional<NoPlan>& again) {
  if (stated == NoPlan{}) return {};
  if (!again) {
    return {CertificateStatus::kNotRepeated,
            "the explanation could not be repeated from what is given"};
  }
  return Comparison(stated, *again).judge();
}

}  // namespace plimsoll::study
