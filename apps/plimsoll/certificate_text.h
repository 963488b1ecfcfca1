// A judge's word on a certificate, as `check` prints it.
#pragma once

#include <fmt/format.h>

#include <string>

#include "plimsoll/check/certificate_status.h"
#include "plimsoll/common.h"

namespace plimsoll::app {

// "certificate proved: ..."; nothing where nothing is claimed.
inline std::string certificate_line(const check::CertificateJudgement& certificate,
                                    const GlobalFlags& global) {
  Tone tone = Tone::kNote;
  switch (certificate.status) {
    case check::CertificateStatus::kAbsent:
      return "";
    case check::CertificateStatus::kProved:
      tone = Tone::kGood;
      break;
    case check::CertificateStatus::kNotRepeated:
      break;
    case check::CertificateStatus::kRefuted:
      tone = Tone::kBad;
      break;
  }
  std::string status(to_string(certificate.status));
  if (certificate.status == check::CertificateStatus::kNotRepeated) status = "not repeated";
  return fmt::format("certificate {}: {}\n", paint(status, tone, global), certificate.reason);
}

}  // namespace plimsoll::app
