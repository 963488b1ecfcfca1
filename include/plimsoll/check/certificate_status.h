// What a judge says of a plan's certificate: of its bound, status and every other claim of quality.
#pragma once

#include <string>
#include <string_view>

#pragma GCC visibility push(default)
namespace plimsoll::check {

enum class CertificateStatus {
  kAbsent,       // nothing is claimed
  kProved,       // every claim is proved again, without the search that made it
  kNotRepeated,  // a claim is neither proved nor refuted, as where that would take too long
  kRefuted,      // a claim is false, or contradicts another
};

inline std::string_view to_string(CertificateStatus status) {
  switch (status) {
    case CertificateStatus::kAbsent:
      return "absent";
    case CertificateStatus::kProved:
      return "proved";
    case CertificateStatus::kNotRepeated:
      return "not_repeated";
    case CertificateStatus::kRefuted:
      return "refuted";
  }
  return "";
}

struct CertificateJudgement {
  CertificateStatus status = CertificateStatus::kAbsent;
  std::string reason;  // one sentence: what was proved and how, or what stands against it
};

}  // namespace plimsoll::check
#pragma GCC visibility pop
